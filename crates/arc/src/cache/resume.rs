//! Going on where the cache of an earlier start ended.

use std::hash::{BuildHasher, Hash};

use super::{BATCH_MAX, Cache, Need, Reserved};
use crate::list::{Class, List};
use crate::standing::{Moment, Remembered, Standing, Targets};

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// Lets the keys have other hashes, for instance those that they had in an earlier start: what
    /// is remembered is known by them.
    ///
    /// # Panics
    /// When the cache is not new.
    pub fn set_hasher(&mut self, hasher: S) {
        let is_new = |shard: &super::Shard<K, V>| {
            let policy = shard.policy.read();
            policy.is_empty() && policy.ghosts_len() == 0
        };
        assert!(self.shards.iter().all(is_new), "what is there would not be found again");
        self.hasher = hasher;
    }

    /// The hash by which a key is known to the ghosts.
    pub fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The partition in which a tenant's records stand.
    pub fn partition_of(&self, tenant: u32) -> usize {
        self.shards[0].policy.read().partition_of(tenant)
    }

    /// The present moment, to which ages can be counted later on.
    pub fn moment(&self) -> Moment {
        Moment { clocks: self.shards.iter().map(|shard| shard.policy.read().clock()).collect() }
    }

    /// Number of ghosts.
    pub fn ghosts_len(&self) -> usize {
        self.shards.iter().map(|shard| shard.policy.read().ghosts_len()).sum()
    }

    /// The youngest ghosts of a partition, youngest first, with the shards merged by relative age;
    /// about so many, and of all partitions together at most `ghosts_max` and one a list and shard.
    pub fn remembered(&self, partition: usize, ghosts_max: usize) -> Vec<Remembered> {
        let share = (ghosts_max as f64 / self.ghosts_len().max(1) as f64).min(1.0);
        let mut ranked = Vec::new();
        for shard in &self.shards {
            let policy = shard.policy.read();
            if partition >= policy.partitions().len() {
                continue;
            }
            for list in List::ALL {
                let items = policy.remembered(partition, list).count();
                let part = (items as f64 * share).ceil() as usize;
                let ghosts = policy.remembered(partition, list).take(part).enumerate();
                ranked.extend(ghosts.map(|(rank, mut ghost)| {
                    ghost.age *= self.shards.len() as u64;
                    (rank as f64 / items as f64, ghost)
                }));
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().map(|(_, ghost)| ghost).collect()
    }

    /// Takes ghosts in that are told youngest first, of records that were used so long before
    /// `moment`. Those for which there is no room are left out.
    pub fn remember(&self, partition: usize, ghosts: &[Remembered], moment: &Moment) {
        let mut by_shard: Vec<(usize, &Remembered)> =
            ghosts.iter().rev().map(|ghost| (self.shard_number(ghost.hash), ghost)).collect();
        by_shard.sort_by_key(|(number, _)| *number);
        for of_shard in by_shard.chunk_by(|a, b| a.0 == b.0) {
            let number = of_shard[0].0;
            let shard = &self.shards[number];
            for batch in of_shard.chunks(BATCH_MAX) {
                let mut policy = shard.policy.write();
                if partition >= policy.partitions().len() {
                    return;
                }
                let bytes = batch.len() as u64 * policy.ghost_overhead();
                let account = &self.accounts[partition];
                if !self.budget.reserve(bytes) {
                    return;
                }
                if partition != 0 && !account.reserve(bytes) {
                    self.budget.settle(bytes, 0);
                    return;
                }
                for (_, ghost) in batch {
                    policy.remember(partition, ghost, moment.before(number, ghost.age));
                }
                self.settle(shard, &mut policy, Reserved(Need { bytes, partition }));
            }
        }
    }

    /// Lets a record stand on MFU; `false` if it is not resident.
    pub fn promote(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).policy.write().promote(hash, key)
    }

    /// Lets a record that was primed stand as it did in an earlier start, as the youngest of its
    /// list; ages are counted to `moment`. Uses since it was primed come on top. `false` if it is
    /// not resident.
    pub fn resume(&self, key: &K, standing: &Standing, moment: &Moment) -> bool {
        let hash = self.hasher.hash_one(key);
        let used = moment.before(self.shard_number(hash), standing.age);
        self.shard(hash).policy.write().resume(hash, key, standing, used)
    }

    /// What a partition has learned.
    pub fn targets(&self, partition: usize) -> Targets {
        let (mut mru, mut metadata) = ([0.0; 2], 0.0);
        let count = self.shards.len() as f64;
        for shard in &self.shards {
            let policy = shard.policy.read();
            if partition < policy.partitions().len() {
                for (sum, class) in mru.iter_mut().zip(Class::ALL) {
                    *sum += policy.targets(partition, class).0 / count;
                }
                metadata += policy.targets(partition, Class::Data).1 / count;
            }
        }
        Targets { mru, metadata, setting: self.settings(partition).1.in_force }
    }

    /// Lets a partition go on with what it has learned in an earlier start. A setting means nothing
    /// where there are none.
    pub fn set_targets(&self, partition: usize, targets: &Targets) {
        let terms = self.terms.lock();
        let Some(own) = terms.get(partition) else { return };
        if let (Some(tuner), Some(setting)) = (own.behaviour.tuner(), targets.setting) {
            tuner.resume(setting);
        }
        for shard in &self.shards {
            let mut policy = shard.policy.write();
            policy.set_targets(partition, targets);
            self.settle(shard, &mut policy, Reserved::NOTHING);
        }
    }
}
