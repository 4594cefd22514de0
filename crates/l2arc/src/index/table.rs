/// Entries and homes: an entry's home is its print's share of the table, so the table is in order
/// of prints, and stays so with linear probing. A look-up ends at the first greater print.
///
/// Kept between 8/10 and 9/10 full while entries come, growing by an eighth: one takes at most 15.3
/// bytes. While they leave, half as many places again stay: one takes at most 24 bytes.
#[derive(Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    homes: usize,
    count: usize,
}

/// A print and the two halves of what is known of it; zero where there is nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Slot {
    print: u32,
    halves: [u32; 2],
}

const _: () = assert!(size_of::<Slot>() == 12);

impl Slot {
    fn new(print: u32, bits: u64) -> Slot {
        Slot { print, halves: [bits as u32, (bits >> 32) as u32] }
    }

    pub(super) fn bits(&self) -> u64 {
        u64::from(self.halves[0]) | u64::from(self.halves[1]) << 32
    }

    pub(super) fn set(&mut self, bits: u64) {
        *self = Slot::new(self.print, bits);
    }

    fn is_empty(&self) -> bool {
        self.halves == [0; 2]
    }
}

/// What a table takes beyond 16 bytes an entry, bytes: the places behind the last home, and the
/// first homes.
pub(super) const LEAST_BYTES: usize = 12 * size_of::<Slot>();

/// Places behind the last home, for what is pushed beyond it.
fn slack(homes: usize) -> usize {
    homes / 64 + 8
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn charged_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    fn home(&self, print: u32) -> usize {
        ((u64::from(print) * self.homes as u64) >> 32) as usize
    }

    /// The place of a print, or where it would have to be.
    fn place(&self, print: u32) -> Result<usize, usize> {
        let mut at = self.home(print);
        while let Some(slot) = self.slots.get(at).filter(|slot| !slot.is_empty()) {
            if slot.print >= print {
                return if slot.print == print { Ok(at) } else { Err(at) };
            }
            at += 1;
        }
        Err(at)
    }

    pub(super) fn get(&self, print: u32) -> Option<u64> {
        self.place(print).ok().map(|at| self.slots[at].bits())
    }

    pub(super) fn get_mut(&mut self, print: u32) -> Option<&mut Slot> {
        self.place(print).ok().map(|at| &mut self.slots[at])
    }

    /// Brings the homes of prints into the processor's caches, all at the same time: an insertion
    /// would wait for one after the other.
    pub(super) fn fetch(&self, prints: impl Iterator<Item = u32>) {
        let homes = prints.filter_map(|print| self.slots.get(self.home(print)));
        std::hint::black_box(homes.fold(0, |sum, slot| sum ^ slot.print));
    }

    /// Puts `bits`, which are not zero, where there is nothing; gives back what is there.
    pub(super) fn insert(&mut self, print: u32, bits: u64) -> Result<(), u64> {
        if (self.count + 1) * 10 > self.homes * 9 {
            self.rebuild(self.homes + self.homes / 8 + 4);
        }
        loop {
            let at = match self.place(print) {
                Ok(at) => return Err(self.slots[at].bits()),
                Err(at) => at,
            };
            let empty = self.slots[at.min(self.slots.len())..].iter().position(Slot::is_empty);
            if let Some(distance) = empty {
                self.slots.copy_within(at..at + distance, at + 1);
                self.slots[at] = Slot::new(print, bits);
                self.count += 1;
                return Ok(());
            }
            self.rebuild(self.homes + self.homes / 8 + 4);
        }
    }

    pub(super) fn remove(&mut self, print: u32) {
        let Ok(at) = self.place(print) else { return };
        let followers = self.slots[at + 1..].iter().enumerate();
        let moves = followers
            .take_while(|(step, slot)| !slot.is_empty() && self.home(slot.print) <= at + step)
            .count();
        self.slots.copy_within(at + 1..at + 1 + moves, at);
        self.slots[at + moves] = Slot::default();
        self.count -= 1;
        let fitting = self.fitting();
        if self.homes > fitting + fitting / 2 {
            self.rebuild(fitting);
        }
    }

    /// Homes for what is there, with room for a few more.
    fn fitting(&self) -> usize {
        if self.count == 0 { 0 } else { self.count * 10 / 8 + 4 }
    }

    /// Gives back the room that was made for more.
    pub(super) fn fit(&mut self) {
        if self.homes > self.fitting() {
            self.rebuild(self.fitting());
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64) -> bool) {
        let before = self.count;
        for slot in &mut self.slots {
            if !slot.is_empty() && !keep(slot.bits()) {
                *slot = Slot::default();
                self.count -= 1;
            }
        }
        if self.count != before {
            self.rebuild(self.fitting());
        }
    }

    /// Makes room for `count` entries in all.
    pub(super) fn reserve(&mut self, count: usize) {
        let homes = count + count / 6 + 4;
        if homes > self.homes {
            self.rebuild(homes);
        }
    }

    /// Lays the entries out anew over `homes` homes, or as many more as they need.
    fn rebuild(&mut self, mut homes: usize) {
        loop {
            let length = if homes == 0 { 0 } else { homes + slack(homes) };
            let mut slots = vec![Slot::default(); length];
            let mut free = 0;
            let fits = self.slots.iter().filter(|slot| !slot.is_empty()).all(|slot| {
                let home = ((u64::from(slot.print) * homes as u64) >> 32) as usize;
                let at = free.max(home);
                free = at + 1;
                slots.get_mut(at).map(|place| *place = *slot).is_some()
            });
            if fits {
                (self.slots, self.homes) = (slots, homes);
                return;
            }
            homes += homes / 8 + 4;
        }
    }

    pub(super) fn validate(&self) {
        let mut last = None;
        let mut count = 0;
        for (at, slot) in self.slots.iter().enumerate().filter(|(_, slot)| !slot.is_empty()) {
            assert!(last < Some(slot.print), "prints are in order, each once");
            assert_eq!(self.place(slot.print), Ok(at), "an entry is found where it lies");
            last = Some(slot.print);
            count += 1;
        }
        assert_eq!(count, self.count, "the entries are counted");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The table does what a map does, with prints that crowd at both ends.
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((any::<u8>(), 0..4_u8, 1..u64::MAX), 0..800),
        ) {
            let mut table = Table::default();
            let mut map = BTreeMap::new();
            for (key, action, bits) in steps {
                let print = match key % 3 {
                    0 => u32::from(key),
                    1 => u32::MAX - u32::from(key),
                    _ => u32::from(key) << 24,
                };
                match action {
                    0 | 1 => {
                        let there = map.get(&print).copied();
                        prop_assert_eq!(table.insert(print, bits).err(), there);
                        map.entry(print).or_insert(bits);
                    }
                    2 => {
                        table.remove(print);
                        map.remove(&print);
                    }
                    _ if key < 8 => {
                        table.retain(|bits| bits % 2 == 0);
                        map.retain(|_, bits| *bits % 2 == 0);
                    }
                    _ => prop_assert_eq!(table.get(print), map.get(&print).copied()),
                }
            }
            table.validate();
            prop_assert_eq!(table.len(), map.len());
            for (print, bits) in map {
                prop_assert_eq!(table.get(print), Some(bits));
            }
        }
    }
}
