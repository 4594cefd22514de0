use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc::{Arena, Cache};
use parking_lot::Mutex;

use crate::answer::Cached;
use crate::key::Key;

/// The cache is resized only when the other charges have moved by this many bytes.
const STEP_BYTES: u64 = 1 << 20;

/// Part of the ceiling, as its divisor, that freed buffers may keep for those to come.
const KEPT_SHARE: u64 = 64;
/// Bounds of that part, in bytes.
const KEPT_BYTES: std::ops::RangeInclusive<u64> = 2 << 20..=32 << 20;

/// The RAM of all pools of a process: one ARC under one ceiling.
///
/// Everything is paid out of the ceiling. What cannot be evicted (objects in use, reads under way,
/// what the arena keeps) is charged first; the ARC has the rest.
#[derive(Debug)]
pub struct Memory {
    pub(crate) cache: Cache<Key, Cached>,
    /// Where the buffers of records come from.
    pub(crate) arena: Arc<Arena>,
    ceiling_bytes: AtomicU64,
    /// Charges that are not the cache's.
    charged_bytes: AtomicU64,
    /// Serialises changes of the cache's capacity; holds the charges that it is based on.
    resized_at_bytes: Mutex<u64>,
    next_pool: AtomicU32,
}

/// Bytes charged to the ceiling for as long as this lives.
#[derive(Debug)]
pub(crate) struct Charged<'a> {
    memory: &'a Memory,
    bytes: u64,
}

impl Memory {
    /// An empty ARC that together with all else stays below `ceiling_bytes`.
    pub fn new(ceiling_bytes: u64) -> Arc<Memory> {
        Arc::new(Memory {
            cache: Cache::new(&arc::Options::new(rest(ceiling_bytes, 0))),
            arena: Arena::new(kept_bytes_max(ceiling_bytes) as usize),
            ceiling_bytes: AtomicU64::new(ceiling_bytes),
            charged_bytes: AtomicU64::new(0),
            resized_at_bytes: Mutex::new(0),
            next_pool: AtomicU32::new(0),
        })
    }

    /// The bytes of RAM that everything together may take.
    pub fn ceiling_bytes(&self) -> u64 {
        self.ceiling_bytes.load(Ordering::Relaxed)
    }

    /// Changes the ceiling. What no longer fits is evicted, and its memory given back to the
    /// system, before this returns; but for what reads under way hold until they end.
    pub fn set_ceiling_bytes(&self, ceiling_bytes: u64) {
        let held = self.arena.hold();
        self.ceiling_bytes.store(ceiling_bytes, Ordering::Relaxed);
        self.resize(true);
        drop(held);
        self.arena.set_kept_bytes_max(kept_bytes_max(ceiling_bytes) as usize);
    }

    /// Bytes charged besides the cache: objects in use and reads under way.
    pub fn charged_bytes(&self) -> u64 {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    /// A number that tells the keys of one pool from those of another.
    pub(crate) fn next_pool(&self) -> u32 {
        self.next_pool.fetch_add(1, Ordering::Relaxed)
    }

    /// Charges `bytes` until the result is dropped.
    pub(crate) fn charge(&self, bytes: u64) -> Charged<'_> {
        self.charge_for_good(bytes);
        Charged { memory: self, bytes }
    }

    /// Charges `bytes` until [`discharge`](Memory::discharge) gives them back.
    pub(crate) fn charge_for_good(&self, bytes: u64) {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.resize(false);
    }

    /// Gives back bytes that were charged for good.
    pub(crate) fn discharge(&self, bytes: u64) {
        let before = self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory given back than was charged");
        self.resize(false);
    }

    fn resize(&self, at_once: bool) {
        let charged = self.charged_bytes.load(Ordering::Relaxed);
        let mut resized_at = if at_once {
            self.resized_at_bytes.lock()
        } else {
            match self.resized_at_bytes.try_lock() {
                Some(resized_at) => resized_at,
                None => return,
            }
        };
        if at_once || charged.abs_diff(*resized_at) >= STEP_BYTES {
            *resized_at = charged;
            self.cache.set_capacity(rest(self.ceiling_bytes(), charged));
        }
    }
}

/// What the arena may keep under a ceiling.
fn kept_bytes_max(ceiling_bytes: u64) -> u64 {
    (ceiling_bytes / KEPT_SHARE).clamp(*KEPT_BYTES.start(), *KEPT_BYTES.end())
}

/// What is left for the cache under a ceiling, with so much charged for other things.
fn rest(ceiling_bytes: u64, charged_bytes: u64) -> u64 {
    let apart = charged_bytes + kept_bytes_max(ceiling_bytes) + STEP_BYTES;
    ceiling_bytes.saturating_sub(apart)
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        self.memory.discharge(self.bytes);
    }
}
