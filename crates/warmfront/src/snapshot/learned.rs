//! What the ARC has learned besides what it holds: ghosts and targets.

use std::sync::Arc;

use arc::{Cache, Class, List, Moment, Queue, Remembered, Setting, Targets};
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use serde::{Deserialize, Serialize};
use storage::ObjectId;

use super::Names;
use crate::key::{Key, Part};
use crate::memory::{Memory, Records};
use crate::pool::Pool;

/// Ghosts that are written down at most, the youngest ones.
const GHOSTS_MAX: usize = 1 << 22;
/// What a ghost takes while it is written down: in the list by age, which is sorted, and in its
/// saved forms, which grow by doubling.
const GHOST_BYTES: u64 =
    (2 * size_of::<(f64, Remembered)>() + 2 * size_of::<SavedGhost>() + 2 * SAVED_BYTES_MAX) as u64;
/// The longest form of a saved ghost, bytes.
const SAVED_BYTES_MAX: usize = 8 + 1 + 2 * 10;

/// What was learned, with what tells whether it means anything here.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Learned {
    /// The hash of a certain key: another one where keys have other hashes.
    probe: u64,
    partitions: Vec<SavedPartition>,
}

/// What one part of the ARC has learned.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SavedPartition {
    /// A dataset whose records stand there.
    dataset: u32,
    mru_targets: [f64; 2],
    metadata_target: f64,
    /// Position in [`Setting::ALL`].
    setting: Option<u8>,
    /// From the youngest on.
    ghosts: Vec<SavedGhost>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct SavedGhost {
    /// Hashes are as good as random, so they are told as they are.
    hash: [u8; 8],
    /// Position in [`LISTS`], and whether it was never read.
    flags: u8,
    bytes: u64,
    age: u64,
}

/// The lists that have ghosts.
const LISTS: [List; 4] = [
    List::new(Class::Data, Queue::Mru),
    List::new(Class::Data, Queue::Mfu),
    List::new(Class::Metadata, Queue::Mru),
    List::new(Class::Metadata, Queue::Mfu),
];
/// Set in `flags` of a record that was never read.
const UNREAD: u8 = 1 << 2;

impl SavedGhost {
    fn new(ghost: &Remembered) -> Option<SavedGhost> {
        let list = LISTS.iter().position(|list| *list == ghost.list)? as u8;
        let flags = list | if ghost.prefetched { UNREAD } else { 0 };
        Some(SavedGhost {
            hash: ghost.hash.to_le_bytes(),
            flags,
            bytes: ghost.bytes,
            age: ghost.age,
        })
    }

    fn ghost(&self) -> Remembered {
        Remembered {
            hash: u64::from_le_bytes(self.hash),
            list: LISTS[usize::from(self.flags) % LISTS.len()],
            bytes: self.bytes,
            prefetched: self.flags & UNREAD != 0,
            age: self.age,
        }
    }
}

impl Learned {
    /// What it takes, bytes.
    pub(super) fn bytes(&self) -> usize {
        let partition = |of: &SavedPartition| {
            size_of::<SavedPartition>() + of.ghosts.capacity() * size_of::<SavedGhost>()
        };
        self.partitions.iter().map(partition).sum()
    }
}

impl Memory {
    /// As [`new`](Memory::new), but the same keys have the same hashes whenever the seed is the
    /// same, so that what was remembered in an earlier start means something. Who knows the seed
    /// can choose keys that collide.
    ///
    /// ```
    /// // The seed is written down beside the snapshots, for the next start.
    /// let memory = warmfront::Memory::seeded(64 << 20, 0x5eed);
    /// assert_eq!(memory.ceiling_bytes(), 64 << 20);
    /// ```
    pub fn seeded(ceiling_bytes: u64, seed: u64) -> Arc<Memory> {
        let mut memory = Memory::new(ceiling_bytes);
        let unused = Arc::get_mut(&mut memory).expect("nobody else knows it yet");
        let hasher = SeedableRandomState::with_seed(seed, SharedSeed::global_fixed());
        Cache::set_hasher(&mut unused.cache, hasher);
        memory
    }
}

impl Pool {
    /// What writing down what was learned takes at most, bytes.
    pub(super) fn learned_work_bytes(&self) -> u64 {
        self.memory.cache.ghosts_len().min(GHOSTS_MAX) as u64 * GHOST_BYTES
    }

    /// What was learned where this pool's records stand.
    pub(super) fn learned(&self, names: &mut Names) -> Learned {
        let cache = &self.memory.cache;
        let mut learned = Learned { probe: self.probe(cache), partitions: Vec::new() };
        let mut told = Vec::new();
        for dataset in self.datasets.list() {
            let partition = cache.partition_of(dataset.id());
            if told.contains(&partition) {
                continue;
            }
            let _ = self.tenant_of(dataset.clone());
            let Some(dataset) = names.number(self, dataset.id()) else { continue };
            told.push(partition);
            let Targets { mru, metadata, setting } = cache.targets(partition);
            let position = |setting| Setting::ALL.iter().position(|it| *it == setting);
            let ghosts = cache.remembered(partition, GHOSTS_MAX);
            learned.partitions.push(SavedPartition {
                dataset,
                mru_targets: mru,
                metadata_target: metadata,
                setting: setting.and_then(position).map(|position| position as u8),
                ghosts: ghosts.iter().filter_map(SavedGhost::new).collect(),
            });
        }
        learned
    }

    /// Goes on with what was learned; `datasets` are those by number that are still there. Returns
    /// how many ghosts there are afterwards.
    pub(super) fn learn(
        &self,
        learned: &Learned,
        datasets: &[Option<u32>],
        moment: &Moment,
    ) -> u64 {
        let cache = &self.memory.cache;
        for partition in &learned.partitions {
            let Some(Some(dataset)) = datasets.get(partition.dataset as usize) else { continue };
            let number = cache.partition_of(*dataset);
            let setting = partition.setting.and_then(|at| Setting::ALL.get(usize::from(at)));
            let targets = Targets {
                mru: partition.mru_targets,
                metadata: partition.metadata_target,
                setting: setting.copied(),
            };
            cache.set_targets(number, &targets);
            // Under other hashes a ghost is nobody's, and only takes room.
            if learned.probe == self.probe(cache) {
                let ghosts: Vec<Remembered> =
                    partition.ghosts.iter().take(GHOSTS_MAX).map(SavedGhost::ghost).collect();
                cache.remember(number, &ghosts, moment);
            }
        }
        cache.ghosts_len() as u64
    }

    fn probe(&self, cache: &Records) -> u64 {
        cache.hash(&Key::metadata(self.number, ObjectId(u64::MAX), Part::Alias))
    }
}
