//! Shrinking: what goes when the bound, or the limit of a partition, is lowered.

use std::hash::{BuildHasher, Hash};

use super::{BATCH_MAX, Cache, Holes, Need, Shard};
use crate::policy::Evicted;
use crate::sync::{AtomicUsize, Relaxed};

/// Bytes that have to go before it is worth a thread.
const THREAD_BYTES_MIN: u64 = 64 << 20;

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// Changes the bound and shrinks to it before it returns, a batch of records at a time.
    pub fn set_capacity(&self, capacity_bytes: u64) -> Evicted {
        self.set_capacity_with(capacity_bytes, |_, _| {})
    }

    /// As [`Cache::set_capacity`], and hands out what went, while no lock is held.
    pub fn set_capacity_with(&self, capacity_bytes: u64, mut gone: impl FnMut(K, V)) -> Evicted {
        self.change_capacity(capacity_bytes);
        let level = self.level();
        let mut evicted = Evicted::default();
        self.shards.iter().for_each(|shard| evicted += self.lower(shard, level, &mut gone));
        evicted += self.shrink_to_fit(0, &mut gone);
        evicted
    }

    /// As [`Cache::set_capacity`]; if it is much that has to go, on several threads, which are
    /// those of other shards. What goes does not depend on their number.
    pub fn set_capacity_on(&self, capacity_bytes: u64, threads: usize) -> Evicted
    where
        Self: Sync,
    {
        self.change_capacity(capacity_bytes);
        let (level, next) = (self.level(), AtomicUsize::new(0));
        let work = || {
            let mut evicted = Evicted::default();
            while let Some(shard) = self.shards.get(next.fetch_add(1, Relaxed)) {
                evicted += self.lower(shard, level, &mut |_, _| {});
            }
            evicted
        };
        let excess = self.budget.charged().saturating_sub(self.budget.capacity());
        let helpers = if excess < THREAD_BYTES_MIN { 0 } else { threads.saturating_sub(1) };
        let mut evicted = std::thread::scope(|scope| {
            let helper = || std::thread::Builder::new().spawn_scoped(scope, work);
            // Without a thread to be had, the others do its part.
            let helpers: Vec<_> = (0..helpers).filter_map(|_| helper().ok()).collect();
            let mut evicted = work();
            for helper in helpers {
                evicted += helper.join().expect("evicting does not panic");
            }
            evicted
        });
        evicted += self.shrink_to_fit(0, &mut |_, _| {});
        evicted
    }

    fn change_capacity(&self, capacity_bytes: u64) {
        let terms = self.terms.lock();
        self.capacity_bytes.store(capacity_bytes, Relaxed);
        self.set_bounds(&terms);
    }

    /// What a shard may keep, at which all together fit: those below it keep what they have.
    fn level(&self) -> u64 {
        let mut charged: Vec<u64> =
            self.shards.iter().map(|shard| shard.charged.load(Relaxed)).collect();
        charged.sort_unstable();
        level_of(&charged, self.budget.capacity())
    }

    /// Evicts from a shard down to a level, a batch at a time, but not what comes in meanwhile.
    fn lower(&self, shard: &Shard<K, V>, level: u64, gone: &mut impl FnMut(K, V)) -> Evicted {
        let whole = Need { bytes: u64::MAX, partition: 0 };
        let (mut evicted, mut dead) = (Evicted::default(), Vec::new());
        if shard.charged.load(Relaxed) <= level {
            return evicted;
        }
        let records = shard.policy.read().len() as u64;
        while shard.charged.load(Relaxed) > level && evicted.records < records {
            let before = evicted.records;
            let mut policy = shard.policy.write();
            self.give(shard, &mut policy, whole, level, &mut evicted, &mut dead);
            drop(policy);
            dead.drain(..).for_each(|(key, value)| gone(key, value));
            if evicted.records == before {
                break;
            }
        }
        while !shard.policy.write().compact(BATCH_MAX) {}
        evicted
    }

    /// Evicts until the budget and the limit of a partition hold. Nothing comes in while they are
    /// exceeded, so each turn evicts something, unless other threads do.
    pub(super) fn shrink_to_fit(&self, partition: usize, gone: &mut impl FnMut(K, V)) -> Evicted {
        let need = Need { bytes: 0, partition };
        let mut evicted = Evicted::default();
        let mut waited = false;
        while !self.fits(need) {
            let before = evicted.records;
            self.relieve(need, Holes::Leave, &mut evicted, gone);
            if evicted.records > before {
                waited = false;
            } else if waited {
                break;
            } else {
                // What they evict is charged until they let go of their shards.
                self.shards.iter().for_each(|shard| drop(shard.policy.write()));
                waited = true;
            }
        }
        self.compact();
        evicted
    }

    /// Fills the holes that evicted records have left, a batch at a time.
    fn compact(&self) {
        for shard in &self.shards {
            while !shard.policy.write().compact(BATCH_MAX) {}
        }
    }
}

/// The number down to which those above it have to go, so that the sum is `total`; they are sorted.
fn level_of(numbers: &[u64], total: u64) -> u64 {
    let mut left = total;
    for (place, &number) in numbers.iter().enumerate() {
        let even = left / (numbers.len() - place) as u64;
        if number > even {
            return even;
        }
        left -= number;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_above_the_level_give() {
        for (numbers, total, level) in [
            ([10, 20, 30, 40], 60, 16),
            ([10, 20, 30, 40], 90, 30),
            ([10, 20, 30, 40], 100, u64::MAX),
            ([0, 0, 0, 1000], 100, 100),
            ([5, 5, 5, 5], 0, 0),
        ] {
            assert_eq!(level_of(&numbers, total), level);
            assert!(numbers.iter().map(|&number| number.min(level)).sum::<u64>() <= total);
        }
    }
}
