use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use storage::ObjectId;

/// Objects that are told apart; with more, all are taken for changed.
const OBJECTS_MAX: usize = 1 << 16;

/// Which contents the origin could still lose if the machine stopped now.
///
/// Flash outlives such a stop. If it held what the origin has lost, readers would find contents
/// that never were: so flash gets only what has been made durable at the origin since it changed.
///
/// Moments are numbered. Contents carry the [moment](Unsynced::now) at which they were taken from
/// the origin or written to it; a change notes its beginning and its end; and a sync that has
/// succeeded makes durable what had ended before the moment at which it began.
#[derive(Debug)]
pub(crate) struct Unsynced {
    moment: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    objects: HashMap<ObjectId, Changes>,
    /// Changes of which it is not known what they belong to.
    others: Option<Changes>,
}

/// Changes that may not be durable.
#[derive(Debug, Clone, Copy)]
struct Changes {
    /// What was taken before this moment is durable.
    first: u64,
    last: u64,
    /// There are some that the origin has not been told yet: no sync makes these durable.
    is_ahead: bool,
}

impl Changes {
    fn at(moment: u64) -> Changes {
        Changes { first: moment, last: moment, is_ahead: false }
    }

    fn note(changes: &mut Option<Changes>, moment: u64) {
        changes.get_or_insert(Changes::at(moment)).last = moment;
    }

    /// What is left of them after a sync that began at `began`.
    fn after(self, began: u64) -> Option<Changes> {
        if self.is_ahead {
            return Some(self);
        }
        (self.last > began).then_some(Changes { first: self.first.max(began + 1), ..self })
    }
}

impl Unsynced {
    /// Everything may have been changed shortly before.
    pub(crate) fn new() -> Unsynced {
        let others = Some(Changes::at(0));
        let state = State { objects: HashMap::new(), others };
        Unsynced { moment: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// This moment.
    pub(crate) fn now(&self) -> u64 {
        self.moment.load(Ordering::SeqCst)
    }

    /// Notes that a change of an object begins or ends now.
    pub(crate) fn changed(&self, object: ObjectId) {
        let state = &mut *self.state.lock();
        let moment = self.moment.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(changes) = state.objects.get_mut(&object) {
            changes.last = moment;
        } else if state.objects.len() < OBJECTS_MAX {
            state.objects.insert(object, Changes::at(moment));
        } else {
            Changes::note(&mut state.others, moment);
        }
    }

    /// Notes that an object has changes that the origin has not been told. Their number is bounded
    /// by that of the files that may be dirty.
    pub(crate) fn ahead(&self, object: ObjectId) {
        let state = &mut *self.state.lock();
        let moment = self.moment.fetch_add(1, Ordering::SeqCst) + 1;
        state.objects.entry(object).or_insert(Changes::at(moment)).is_ahead = true;
    }

    /// Notes that the origin has been told all changes of an object. A sync that began after it
    /// was told makes them durable.
    pub(crate) fn caught_up(&self, object: ObjectId) {
        if let Some(changes) = self.state.lock().objects.get_mut(&object) {
            changes.is_ahead = false;
        }
    }

    /// Whether contents of an object that were taken at a moment are durable.
    pub(crate) fn is_durable(&self, object: ObjectId, taken: u64) -> bool {
        let state = self.state.lock();
        let changes = [state.objects.get(&object), state.others.as_ref()];
        changes.into_iter().flatten().all(|changes| taken < changes.first)
    }

    /// A sync of an object has succeeded that began at `began`.
    pub(crate) fn synced(&self, object: ObjectId, began: u64) {
        let state = &mut *self.state.lock();
        match state.objects.remove(&object).and_then(|changes| changes.after(began)) {
            Some(left) => drop(state.objects.insert(object, left)),
            None => state.give_back(),
        }
    }

    /// A sync of the whole origin has succeeded that began at `began`.
    pub(crate) fn synced_all(&self, began: u64) {
        let state = &mut *self.state.lock();
        state.objects.retain(|_, changes| match changes.after(began) {
            Some(left) => {
                *changes = left;
                true
            }
            None => false,
        });
        state.others = state.others.and_then(|changes| changes.after(began));
        state.give_back();
    }
}

impl State {
    fn give_back(&mut self) {
        if self.objects.is_empty() {
            self.objects.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ObjectId = ObjectId(1);
    const B: ObjectId = ObjectId(2);

    fn synced() -> Unsynced {
        let unsynced = Unsynced::new();
        assert!(!unsynced.is_durable(A, unsynced.now()), "nothing is known at the start");
        unsynced.synced_all(unsynced.now());
        unsynced
    }

    #[test]
    fn a_change_is_durable_after_a_sync_that_began_after_it() {
        let unsynced = synced();
        let before = unsynced.now();
        assert!(unsynced.is_durable(A, before));
        unsynced.changed(A);
        unsynced.changed(A);
        let taken = unsynced.now();
        assert!(unsynced.is_durable(A, before), "it was taken before the change");
        assert!(!unsynced.is_durable(A, taken));
        assert!(unsynced.is_durable(B, taken), "another object");
        unsynced.synced(A, taken);
        assert!(unsynced.is_durable(A, taken));
    }

    #[test]
    fn what_the_origin_was_not_told_no_sync_makes_durable() {
        let unsynced = synced();
        unsynced.ahead(A);
        let taken = unsynced.now();
        for _ in 0..2 {
            unsynced.synced_all(unsynced.now());
            unsynced.synced(A, unsynced.now());
            assert!(!unsynced.is_durable(A, taken));
        }
        unsynced.caught_up(A);
        assert!(!unsynced.is_durable(A, taken), "it may be volatile there");
        unsynced.synced(A, unsynced.now());
        assert!(unsynced.is_durable(A, taken));
    }

    #[test]
    fn a_change_that_ends_during_a_sync_waits_for_the_next() {
        let unsynced = synced();
        unsynced.changed(A);
        let sync_began = unsynced.now();
        unsynced.changed(A);
        let taken = unsynced.now();
        unsynced.synced_all(sync_began);
        assert!(!unsynced.is_durable(A, taken));
        assert!(unsynced.is_durable(A, sync_began), "this had ended");
        unsynced.synced_all(unsynced.now());
        assert!(unsynced.is_durable(A, taken));
    }

    #[test]
    fn beyond_the_limit_all_objects_are_taken_for_changed() {
        let unsynced = synced();
        (0..OBJECTS_MAX as u64).for_each(|id| unsynced.changed(ObjectId(id + 10)));
        let taken = unsynced.now();
        assert!(unsynced.is_durable(A, taken));
        unsynced.changed(B);
        assert!(!unsynced.is_durable(A, unsynced.now()));
        unsynced.synced_all(unsynced.now());
        assert!(unsynced.is_durable(A, unsynced.now()));
    }
}
