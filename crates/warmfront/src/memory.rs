use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc::{Arena, Cache};
use parking_lot::Mutex;

use crate::answer::Cached;
use crate::key::Key;
use crate::share::{ShareError, Sharer};
use crate::shares::{ShareInForce, Shares};

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
    /// Parts of the cache; changed by whoever holds the lock of the cache's capacity.
    shares: Mutex<Shares>,
    /// One change of shares at a time, from its check until it is made.
    dividing: Mutex<()>,
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
            shares: Mutex::default(),
            dividing: Mutex::default(),
            next_pool: AtomicU32::new(0),
        })
    }

    /// The bytes of RAM that everything together may take.
    pub fn ceiling_bytes(&self) -> u64 {
        self.ceiling_bytes.load(Ordering::Relaxed)
    }

    /// Changes the ceiling. What no longer fits is evicted, and its memory given back to the
    /// system, before this returns; but for what reads under way hold until they end.
    ///
    /// Reserves and limits that are shares of the ceiling follow it. While the ceiling is too
    /// small for all reserves, each is cut in proportion.
    pub fn set_ceiling_bytes(&self, ceiling_bytes: u64) {
        let held = self.arena.hold();
        let mut resized_at = self.resized_at_bytes.lock();
        self.ceiling_bytes.store(ceiling_bytes, Ordering::Relaxed);
        *resized_at = self.charged_bytes();
        let capacity_bytes = rest(ceiling_bytes, *resized_at);
        let shares = self.shares.lock();
        if capacity_bytes < self.cache.capacity_bytes() {
            // Before the cache shrinks, so that those give whose share becomes smaller.
            shares.put_in_force(&self.cache, ceiling_bytes, capacity_bytes);
        }
        self.cache.set_capacity(capacity_bytes);
        shares.put_in_force(&self.cache, ceiling_bytes, capacity_bytes);
        drop((shares, resized_at, held));
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

    /// What is cached under a key. Counts as use if it `promotes`.
    pub(crate) fn lookup(&self, key: &Key, promotes: bool, now: Duration) -> Option<Cached> {
        if promotes { self.cache.get(key, now) } else { self.cache.peek(key) }
    }

    /// Charges `bytes` until the result is dropped.
    pub(crate) fn charge(&self, bytes: u64) -> Charged<'_> {
        self.charge_for_good(bytes);
        Charged { memory: self, bytes }
    }

    /// Charges `bytes` until [`discharge`](Memory::discharge) gives them back.
    pub(crate) fn charge_for_good(&self, bytes: u64) {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.resize();
    }

    /// Gives back bytes that were charged for good.
    pub(crate) fn discharge(&self, bytes: u64) {
        let before = self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory given back than was charged");
        self.resize();
    }

    /// Lets the cache follow the other charges.
    fn resize(&self) {
        let charged = self.charged_bytes();
        let Some(mut resized_at) = self.resized_at_bytes.try_lock() else {
            return;
        };
        if charged.abs_diff(*resized_at) >= STEP_BYTES {
            *resized_at = charged;
            self.cache.set_capacity(rest(self.ceiling_bytes(), charged));
        }
    }

    /// Gives a pool these shares of the ARC instead of those that it has, once `save` has
    /// succeeded. What a limit then excludes is evicted before this returns.
    ///
    /// # Errors
    /// A share that cannot be, or the error of `save`; then all is as it was.
    pub(crate) fn divide<T, E: From<ShareError>>(
        &self,
        pool: u32,
        sharers: Vec<Sharer>,
        save: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let _one = self.dividing.lock();
        let ceiling_bytes = self.ceiling_bytes();
        let capacity_bytes = rest(ceiling_bytes, 0);
        self.shares.lock().check(pool, &sharers, ceiling_bytes, capacity_bytes)?;
        let saved = save()?;
        // The cache keeps its capacity while this is held.
        let _resized_at = self.resized_at_bytes.lock();
        self.shares.lock().adopt(pool, sharers, &self.cache, self.ceiling_bytes());
        Ok(saved)
    }

    /// Takes the shares of a pool back.
    pub(crate) fn undivide(&self, pool: u32) {
        let taken_back: Result<(), ShareError> = self.divide(pool, Vec::new(), || Ok(()));
        taken_back.expect("no shares can always be had");
    }

    /// The share that is set on a dataset, as it is in force.
    pub(crate) fn share_in_force(&self, pool: u32, name: &str) -> Option<ShareInForce> {
        self.shares.lock().in_force(pool, name, &self.cache)
    }

    /// The most bytes that one record of a dataset may have.
    pub(crate) fn record_bytes_max(&self, dataset: u32) -> u64 {
        let limit_bytes = self.shares.lock().limit_bytes(dataset, &self.cache);
        self.cache.record_bytes_max().min(limit_bytes / arc::RECORD_SHARE)
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
