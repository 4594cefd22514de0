use std::collections::HashSet;

/// What was done to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It was set to a value.
    Write(u64),
    /// It had a value.
    Read(u64),
}

/// An operation on a register, with the times of its call and of its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) called: u64,
    pub(crate) returned: u64,
    pub(crate) action: Action,
}

/// Whether some order of the operations, in which none that had returned before another was called
/// comes after it, is that of a register which holds `first` in the beginning.
///
/// The search of Wing and Gong: operations that could come next are tried in turn. As Lowe found,
/// it ends soon if no set of operations is tried twice that leaves the same value behind.
pub(crate) fn is_linearizable(first: u64, history: &[Operation]) -> bool {
    let mut history = history.to_vec();
    history.sort_by_key(|operation| operation.called);
    let mut open = vec![Prefix { done: 0, ahead: Vec::new(), value: first }];
    let mut seen = HashSet::new();
    while let Some(prefix) = open.pop() {
        if prefix.done == history.len() {
            return true;
        }
        open.extend(prefix.next(&history).filter(|next| seen.insert(next.clone())));
    }
    false
}

/// A set of operations that have taken place: the first ones by their calls, and some later ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Prefix {
    /// All before this one have taken place.
    done: usize,
    /// Those behind it that have as well, in order.
    ahead: Vec<usize>,
    /// What the register holds then.
    value: u64,
}

impl Prefix {
    /// The sets with one operation more.
    fn next<'a>(&'a self, history: &'a [Operation]) -> impl Iterator<Item = Prefix> + 'a {
        let is_left = |index: &usize| !self.ahead.contains(index);
        let mut earliest_return = u64::MAX;
        let candidates = (self.done..history.len()).filter(is_left).take_while(move |&index| {
            // Who was called after another had returned comes after it.
            let comes = history[index].called <= earliest_return;
            earliest_return = earliest_return.min(history[index].returned);
            comes
        });
        candidates.filter_map(|index| {
            let value = match history[index].action {
                Action::Write(value) => value,
                Action::Read(value) if value == self.value => value,
                Action::Read(_) => return None,
            };
            let (mut done, mut ahead) = (self.done, self.ahead.clone());
            let place = ahead.partition_point(|other| *other < index);
            ahead.insert(place, index);
            while ahead.first() == Some(&done) {
                ahead.remove(0);
                done += 1;
            }
            Some(Prefix { done, ahead, value })
        })
    }
}

#[test]
fn the_check_tells_right_from_wrong() {
    use Action::{Read, Write};
    let history = |all: &[(u64, u64, Action)]| -> Vec<Operation> {
        let operation = |&(called, returned, action): &(u64, u64, Action)| Operation {
            called,
            returned,
            action,
        };
        all.iter().map(operation).collect()
    };
    for (right, all) in [
        (true, &[(0, 1, Write(1)), (2, 3, Read(1))][..]),
        (false, &[(0, 1, Write(1)), (2, 3, Read(0))]),
        // During a write both may be seen, but not the old one after the new one.
        (true, &[(0, 9, Write(1)), (1, 2, Read(0)), (3, 4, Read(1))]),
        (false, &[(0, 9, Write(1)), (1, 2, Read(1)), (3, 4, Read(0))]),
        (true, &[(0, 9, Write(1)), (1, 4, Read(1)), (2, 3, Read(0))]),
        // Two readers do not see two writes in different orders.
        (false, &[(0, 9, Write(1)), (0, 9, Write(2)), (10, 11, Read(1)), (12, 13, Read(2))]),
        (
            true,
            &[
                (0, 9, Write(1)),
                (0, 20, Write(2)),
                (10, 11, Read(1)),
                (12, 13, Read(2)),
                (30, 31, Read(2)),
            ],
        ),
        (false, &[(0, 1, Write(1)), (2, 3, Write(2)), (4, 5, Read(1))]),
        (false, &[(0, 1, Read(7))]),
    ] {
        assert_eq!(is_linearizable(0, &history(all)), right, "{all:?}");
    }
}
