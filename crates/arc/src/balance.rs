//! [`Balance`]: the three targets of a cache, and what moves them.

use crate::list::{Class, LISTS, List, Queue};
use crate::target::{Target, step};

/// Least share of the capacity that either class can be pushed down to. A class that does not use
/// its share leaves it to the other.
pub const CLASS_FLOOR: f64 = 1.0 / 16.0;

/// Metadata's share at the start (OpenZFS: `arc_meta`).
const METADATA_START: f64 = 0.25;

/// How much more a metadata ghost hit weighs than a data ghost hit (OpenZFS:
/// `zfs_arc_meta_balance`, 500 %): one listing saves many reads that would each wait.
const METADATA_BALANCE: f64 = 5.0;

/// Furthest that one ghost hit moves the split of the classes (OpenZFS: 3 to 6 % a pass), so that
/// a single hit on a nearly empty ghost list cannot turn the cache over.
const CLASS_STEP_MAX: f64 = 1.0 / 32.0;

/// MRU's share of each class, and metadata's share of the whole. Moved by ghost hits only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Balance {
    mru: [Target; 2],
    metadata: Target,
}

impl Balance {
    pub const fn new() -> Self {
        Self {
            mru: [Target::new(0.0, 0.0, 1.0); 2],
            metadata: Target::new(METADATA_START, CLASS_FLOOR, CLASS_STEP_MAX),
        }
    }

    /// MRU's share of `class`: the paper's `p` as a fraction.
    #[inline]
    pub const fn mru(&self, class: Class) -> Target {
        self.mru[class as usize]
    }

    /// Metadata's share of the whole.
    #[inline]
    pub const fn metadata(&self) -> Target {
        self.metadata
    }

    /// Goes on with shares that were learned before.
    pub fn set(&mut self, mru: [f64; 2], metadata: f64) {
        self.mru.iter_mut().zip(mru).for_each(|(target, fraction)| target.set(fraction));
        self.metadata.set(metadata);
    }

    /// A ghost of `list` was hit. `hit` is its weight, `ghosts` the weight of all ghost lists,
    /// `share` what its class may take, `total` what both may take; all in bytes.
    pub fn learn(&mut self, list: List, hit: u64, ghosts: &[u64; LISTS], share: u64, total: u64) {
        let of = |class, queue| ghosts[List::new(class, queue).index()];
        let (mru, mfu) = (of(list.class, Queue::Mru), of(list.class, Queue::Mfu));
        let target = &mut self.mru[list.class as usize];
        match list.queue {
            Queue::Mru => target.raise(step(hit, mru, mfu, share)),
            Queue::Mfu => target.lower(step(hit, mfu, mru, share)),
            Queue::Uncached => {}
        }

        let other = list.class.other();
        let others = of(other, Queue::Mru) + of(other, Queue::Mfu);
        let step = step(hit, mru + mfu, others, total);
        match list.class {
            Class::Metadata => self.metadata.raise(step),
            Class::Data => self.metadata.lower(step / METADATA_BALANCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA_MRU: List = List::new(Class::Data, Queue::Mru);
    const DATA_MFU: List = List::new(Class::Data, Queue::Mfu);
    const META_MRU: List = List::new(Class::Metadata, Queue::Mru);

    #[test]
    fn a_ghost_hit_feeds_its_own_side() {
        let mut balance = Balance::new();
        let ghosts = [100; LISTS];
        balance.learn(DATA_MRU, 50, &ghosts, 1000, 1000);
        assert_eq!(balance.mru(Class::Data).fraction(), 0.05);
        assert_eq!(balance.mru(Class::Metadata).fraction(), 0.0);
        balance.learn(DATA_MFU, 50, &ghosts, 1000, 1000);
        assert_eq!(balance.mru(Class::Data).fraction(), 0.0);
    }

    #[test]
    fn metadata_weighs_five_times_and_keeps_its_floor() {
        let mut balance = Balance::new();
        let ghosts = [100; LISTS];
        balance.learn(META_MRU, 10, &ghosts, 1000, 1000);
        assert!((balance.metadata().fraction() - 0.26).abs() < 1e-9);
        for _ in 0..5 {
            balance.learn(DATA_MRU, 10, &ghosts, 1000, 1000);
        }
        assert!((balance.metadata().fraction() - 0.25).abs() < 1e-9);
        for _ in 0..1000 {
            balance.learn(DATA_MRU, 1000, &ghosts, 1000, 1000);
        }
        assert_eq!(balance.metadata().fraction(), CLASS_FLOOR);
        for _ in 0..1000 {
            balance.learn(META_MRU, 1000, &ghosts, 1000, 1000);
        }
        assert_eq!(balance.metadata().fraction(), 1.0 - CLASS_FLOOR);
    }
}
