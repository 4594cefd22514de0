use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counters and sums of a cache. They are read one after the other, so those of a busy cache fit
/// each other only nearly.
///
/// ```
/// # let cache: warmfront::cache::Cache<u32, u32> =
/// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
/// cache.get_or_fetch(&1, || Ok::<_, String>(10))?;
/// cache.get_or_fetch(&1, || Ok::<_, String>(10))?;
/// let statistics = cache.statistics();
/// assert_eq!((statistics.misses, statistics.fetches, statistics.hits), (1, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bound on `charged_bytes`.
    pub capacity_bytes: u64,
    /// What counts against the bound: values as weighed, headers, index and ghosts.
    pub charged_bytes: u64,
    /// Values as weighed, bytes.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Entries evicted before that the cache still remembers.
    pub ghosts: u64,
    /// Look-ups that found the value.
    pub hits: u64,
    /// Look-ups that did not, also those that went on to fetch.
    pub misses: u64,
    /// Entries that came back while they were still remembered: what a larger cache would have
    /// kept.
    pub ghost_hits: u64,
    /// Fetches that were started.
    pub fetches: u64,
    /// Misses that another caller's fetch has answered.
    pub joined: u64,
    /// Fetches that ended with an error or a panic.
    pub fetches_failed: u64,
    /// Fetches whose callers gave up waiting for the future.
    pub fetches_abandoned: u64,
    /// Entries that came in; replacing a value is not counted.
    pub inserts: u64,
    /// Entries that were evicted to make room.
    pub evictions: u64,
    /// What those weighed, bytes.
    pub evicted_bytes: u64,
    /// Entries that the program removed.
    pub removals: u64,
    /// Values not let in: [`Refused::TooLarge`](super::Refused::TooLarge).
    pub refused_too_large: u64,
    /// Values not let in: [`Refused::NoRoom`](super::Refused::NoRoom).
    pub refused_no_room: u64,
    /// Values not let in: [`Refused::Full`](super::Refused::Full).
    pub refused_full: u64,
}

impl Statistics {
    pub(super) fn new(records: &arc::Statistics, counters: &Counters) -> Self {
        let usage = &records.usage;
        Self {
            capacity_bytes: records.capacity_bytes,
            charged_bytes: records.charged_bytes,
            bytes: usage.bytes(),
            entries: usage.records(),
            ghosts: records.ghosts.iter().map(|list| list.ghosts).sum(),
            hits: usage.hits(),
            misses: counters.misses.load(Relaxed),
            ghost_hits: usage.lists.iter().map(|list| list.ghost_hits).sum(),
            fetches: counters.fetches.load(Relaxed),
            joined: counters.joined.load(Relaxed),
            fetches_failed: counters.fetches_failed.load(Relaxed),
            fetches_abandoned: counters.fetches_abandoned.load(Relaxed),
            inserts: usage.inserts,
            evictions: usage.evictions,
            evicted_bytes: usage.evicted_bytes,
            removals: counters.removals.load(Relaxed),
            refused_too_large: records.refused.too_large,
            refused_no_room: records.refused.no_room,
            refused_full: records.refused.full,
        }
    }

    /// Hits in all look-ups, 0 to 1; 0 if there was none.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// assert_eq!(cache.statistics().hit_ratio(), 0.0);
    /// # Ok::<(), warmfront::cache::BuildError>(())
    /// ```
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// What the ARC does not count itself.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    pub misses: AtomicU64,
    pub fetches: AtomicU64,
    pub joined: AtomicU64,
    pub fetches_failed: AtomicU64,
    pub fetches_abandoned: AtomicU64,
    pub removals: AtomicU64,
}
