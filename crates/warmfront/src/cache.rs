//! A cache of a program's own values.
//!
//! [`Cache`] keeps values under keys within a number of bytes, and chooses what stays by the same
//! ARC that serves the pools. It is safe to share between threads; nothing in it needs a runtime.
//!
//! - **Bytes.** The bound counts what the values take, by a function of the program's own (the
//!   *weigher*), and besides headers, index and ghosts. It is a bound: room is made before a value
//!   comes in. [`Cache::resize`] changes it while the cache is in use. What the values themselves
//!   take of the system is up to the program's allocator: with many threads and sizes the arenas of
//!   glibc keep up to as much again of what has gone (`MALLOC_ARENA_MAX=1`, or an allocator such as
//!   jemalloc, keeps little). A [`Pool`](crate::Pool) holds its records in buffers of its own, and
//!   keeps its ceiling in resident memory.
//! - **Single flight.** Of all callers that ask [`get_or_fetch`](Cache::get_or_fetch) or
//!   [`get_or_fetch_async`](Cache::get_or_fetch_async) for an absent key, one fetches; threads and
//!   tasks wait for it together.
//! - **Never stale.** A value that was being fetched when its key was removed or inserted is not
//!   kept: it may be older than the change.
//! - **Nothing silent.** What leaves the cache, and why, can be observed
//!   ([`Builder::on_departure`]); everything is counted ([`Cache::statistics`]).
//!
//! ```
//! use std::sync::Arc;
//! use warmfront::cache::Cache;
//!
//! let cache = Cache::<String, Arc<[u8]>>::builder()
//!     .capacity_bytes(64 << 20)
//!     .weigher(|path, contents| (path.capacity() + contents.len()) as u64)
//!     .build()?;
//!
//! let path = "Cargo.toml".to_string();
//! let contents = cache.get_or_fetch(&path, || std::fs::read(&path).map(Arc::from))?;
//! assert_eq!(cache.get(&path), Some(contents));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Values are handed out as clones, so they should be cheap to clone: an `Arc`, or a small number.
//!
//! # Deadlocks
//!
//! A fetch may use the cache, also for other keys. Asking for the very key that it fetches is an
//! error ([`FetchError::Reentrant`]). Two fetches that wait for each other's keys wait for ever, as
//! two threads do that take two locks in opposite order, as does a fetch that waits for another
//! thread which asks for its key; and a thread that waits in `get_or_fetch` cannot run the task
//! that fetches: tasks use `get_or_fetch_async`.
//!
//! A future of `get_or_fetch_async` fetches within the task that polls it. If it has begun, and is
//! then neither polled nor dropped, all who ask for its key wait for as long: nothing tells it from
//! one that is slow. That happens to a future that lost a `select!` by reference, or stands in a
//! list that nobody drives any more. Drop it, and one of those who wait fetches instead; or spawn
//! what has to go on as a task of the executor, and let the fetch wait for the task's handle. Who
//! must not wait for long puts a timeout around the call: dropping one that waits hinders nobody.
//!
//! ```
//! use std::future::pending;
//! use std::task::{Context, Poll, Waker};
//! use warmfront::cache::Cache;
//!
//! let cache: Cache<u32, u32> =
//!     Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
//! let mut context = Context::from_waker(Waker::noop());
//! let never = pending::<Result<u32, std::io::Error>>();
//! let mut idle = Box::pin(cache.get_or_fetch_async(&1, never));
//! assert!(idle.as_mut().poll(&mut context).is_pending());
//! let other = async { Ok::<_, std::io::Error>(10) };
//! let mut waits = Box::pin(cache.get_or_fetch_async(&1, other));
//! assert!(waits.as_mut().poll(&mut context).is_pending());
//! drop(idle);
//! assert!(matches!(waits.as_mut().poll(&mut context), Poll::Ready(Ok(10))));
//! # Ok::<(), warmfront::cache::BuildError>(())
//! ```

mod builder;
mod departure;
mod entry;
mod fetch;
mod refused;
mod statistics;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arc::{Charge, Class, Kind};
use hashbrown::DefaultHashBuilder;
use smallvec::SmallVec;
use storage::Clock;

use crate::flight::Flights;
use crate::heap;
use departure::Listener;
use statistics::Counters;

pub use arc::PolicyKind;
pub use builder::{BuildError, Builder};
pub use departure::{Departure, Reason};
pub use entry::{Entries, Entry};
pub use fetch::FetchError;
pub use refused::{NotKept, Refused};
pub use statistics::Statistics;

/// Bytes of an entry's key and value on the heap.
type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u64 + Send + Sync>;

/// An adaptive cache of values of type `V` under keys of type `K`, bounded in bytes.
///
/// See the [module](self). All methods take `&self`; share it in an [`Arc`] or a `static`. Dropping
/// it drops its values without events.
///
/// ```
/// use warmfront::cache::Cache;
///
/// let squares: Cache<u32, u64> =
///     Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
/// assert_eq!(squares.get_or_fetch(&12, || Ok::<_, String>(144))?, 144);
/// assert_eq!(squares.get(&12), Some(144));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cache<K, V, S = DefaultHashBuilder> {
    records: arc::Cache<K, V, S>,
    flights: Flights<K, Result<V, FetchError>, S>,
    weigher: Weigher<K, V>,
    listener: Option<Listener<K, V>>,
    clock: Arc<dyn Clock>,
    /// Whether the policy wants to know when a hit happens.
    times_hits: bool,
    counters: Counters,
    /// Bytes that have been let go since the allocator was last asked for what it keeps.
    let_go_bytes: AtomicU64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Starts to describe a cache.
    ///
    /// ```
    /// use warmfront::cache::Cache;
    ///
    /// let cache = Cache::<u64, String>::builder()
    ///     .capacity_bytes(1 << 20)
    ///     .weigher(|_, text| text.capacity() as u64)
    ///     .build()?;
    /// assert_eq!(cache.capacity_bytes(), 1 << 20);
    /// # Ok::<(), warmfront::cache::BuildError>(())
    /// ```
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Cache<K, V, S> {
    // ---- Looking -------------------------------------------------------------------------------

    /// The value under `key`, if it is in the cache. Counts as a use and as a hit or a miss.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// assert_eq!(cache.get(&1), None);
    /// cache.insert(1, 10)?;
    /// assert_eq!(cache.get(&1), Some(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, key: &K) -> Option<V> {
        self.read(key, V::clone)
    }

    /// What `look` makes of the value under `key`, if it is in the cache, without a clone: the
    /// reference count of a hot `Arc` is what threads would meet at. Counts as [`Cache::get`] does.
    ///
    /// `look` must be short and must not use the cache: changes wait for it.
    ///
    /// ```
    /// use warmfront::cache::Cache;
    ///
    /// let cache = Cache::<u32, String>::builder()
    ///     .capacity_bytes(1 << 20)
    ///     .weigher(|_, text| text.capacity() as u64)
    ///     .build()?;
    /// cache.insert(1, "one".to_string())?;
    /// assert_eq!(cache.read(&1, |text| text.len()), Some(3));
    /// assert_eq!(cache.read(&2, |text| text.len()), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<R>(&self, key: &K, look: impl FnOnce(&V) -> R) -> Option<R> {
        let now = if self.times_hits { self.clock.now() } else { Duration::ZERO };
        let result = self.records.read(key, now, look);
        if result.is_none() {
            self.counters.misses.fetch_add(1, Relaxed);
        }
        result
    }

    /// The value under `key`, if it is in the cache. Has no effect on what stays, and is not
    /// counted.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// assert_eq!(cache.peek(&1), Some(10));
    /// assert_eq!(cache.statistics().hits, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &K) -> Option<V> {
        self.records.peek(key)
    }

    /// Whether `key` is in the cache. As [`Cache::peek`], without effect.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// assert!(cache.contains(&1) && !cache.contains(&2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: &K) -> bool {
        self.records.contains(key)
    }

    /// The entries, hottest first: those used again before those used once, the younger before the
    /// older. A snapshot of the keys is taken at once (memory for a copy of all keys); values are
    /// looked up on the way, without effect, and entries that have left meanwhile are passed over.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// cache.insert(2, 20)?;
    /// let hottest: Vec<u32> = cache.by_heat().map(|entry| entry.key).collect();
    /// assert_eq!(hottest.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_heat(&self) -> Entries<'_, K, V, S> {
        Entries::new(&self.records)
    }

    /// The bound, bytes. See [`Statistics::charged_bytes`] for what is counted against it.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// assert!(cache.statistics().charged_bytes <= cache.capacity_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity_bytes(&self) -> u64 {
        self.records.capacity_bytes()
    }

    /// The most that one entry may weigh, bytes as the weigher counts: an eighth of the capacity,
    /// less the header. A heavier value is served but never kept.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// assert!(cache.entry_bytes_max() < cache.capacity_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry_bytes_max(&self) -> u64 {
        self.records.record_bytes_max()
    }

    /// Counters since the cache was built, and sums as of now.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// cache.get(&1);
    /// cache.get(&2);
    /// let statistics = cache.statistics();
    /// assert_eq!((statistics.hits, statistics.misses, statistics.entries), (1, 1, 1));
    /// assert_eq!(statistics.hit_ratio(), 0.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn statistics(&self) -> Statistics {
        Statistics::new(&self.records.statistics(), &self.counters)
    }

    // ---- Changing ------------------------------------------------------------------------------

    /// Puts a value under `key`, in the place of the one that is there, and evicts what has to go
    /// for it.
    ///
    /// A fetch of the key that is under way is called off: its callers get what it brings, but it
    /// is not kept.
    ///
    /// # Errors
    /// [`NotKept`] holds the value and the reason when it was not admitted, above all because it
    /// weighs more than [`Cache::entry_bytes_max`]. The key's former value is gone then too: it is
    /// out of date.
    ///
    /// # Panics
    /// If the weigher does. Nothing has changed then, so the former value is still there.
    ///
    /// ```
    /// use warmfront::cache::{Cache, Refused};
    ///
    /// let cache = Cache::<u32, Vec<u8>>::builder()
    ///     .capacity_bytes(1 << 20)
    ///     .weigher(|_, bytes| bytes.capacity() as u64)
    ///     .build()?;
    /// cache.insert(1, vec![0; 1000])?;
    /// let not_kept = cache.insert(2, vec![0; 1 << 20]).unwrap_err();
    /// assert!(matches!(not_kept.reason, Refused::TooLarge { .. }));
    /// assert_eq!(not_kept.value.len(), 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&self, key: K, value: V) -> Result<(), NotKept<V>> {
        let admission = Admission::of(self, key.clone(), value);
        let admitted = self.flights.call_off(&key, || admission.run(self));
        admitted.announce(self, &key)
    }

    /// Takes the value under `key` out. A fetch of the key that is under way is called off: its
    /// callers get what it brings, but it is not kept.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// assert_eq!(cache.remove(&1), Some(10));
    /// assert_eq!(cache.remove(&1), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self, key: &K) -> Option<V> {
        let value = self.flights.call_off(key, || self.records.remove(key))?;
        self.counters.removals.fetch_add(1, Relaxed);
        Some(self.depart(|| key.clone(), value, Reason::Removed))
    }

    /// Keeps the entries whose key satisfies `keep`, and returns how many went. Calls off all
    /// fetches under way. Entries that come in meanwhile may or may not be looked at. `keep` must
    /// not use the cache.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// (0..10).try_for_each(|key| cache.insert(key, key))?;
    /// assert_eq!(cache.retain(|key| key % 2 == 0), 5);
    /// assert!(cache.contains(&4) && !cache.contains(&5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K) -> bool) -> u64 {
        self.flights.call_off_all();
        let gone = |key, value| drop(self.depart(|| key, value, Reason::Removed));
        let before = self.records.charged_bytes();
        let removed = self.records.retain_with(|key, _| keep(key), gone);
        self.counters.removals.fetch_add(removed, Relaxed);
        self.has_let_go(before.saturating_sub(self.records.charged_bytes()));
        removed
    }

    /// Takes everything out, and returns how many entries that were; as [`Cache::retain`] with a
    /// condition that nothing satisfies. Ghosts stay, so the cache knows what comes back. Memory
    /// comes free as with [`Cache::resize`].
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// assert_eq!(cache.clear(), 1);
    /// assert_eq!(cache.statistics().bytes, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> u64 {
        self.retain(|_| false)
    }

    /// Changes the bound while the cache is in use, and returns the bytes of values that were
    /// evicted for it. When it returns, the cache holds no more than `capacity_bytes`, and has
    /// dropped what it held beyond. Memory comes free unless callers still hold clones, and after
    /// much has gone glibc's allocator is asked to give it back to the system; other allocators
    /// do as they are set up.
    ///
    /// Zero is allowed: then nothing is kept until the bound is raised.
    ///
    /// ```
    /// use warmfront::cache::Cache;
    ///
    /// let cache = Cache::<u64, Vec<u8>>::builder()
    ///     .capacity_bytes(8 << 20)
    ///     .weigher(|_, bytes| bytes.capacity() as u64)
    ///     .build()?;
    /// (0..1000).try_for_each(|key| cache.insert(key, vec![0; 4096]))?;
    /// assert!(cache.resize(1 << 20) > 2 << 20);
    /// assert!(cache.statistics().charged_bytes <= 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resize(&self, capacity_bytes: u64) -> u64 {
        let gone = |key, value| drop(self.depart(|| key, value, Reason::Evicted));
        let bytes = self.records.set_capacity_with(capacity_bytes, gone).bytes;
        self.has_let_go(bytes);
        bytes
    }

    /// Recounts everything that the cache keeps sums of. Slow; for tests of programs that suspect
    /// the cache, while nobody changes it.
    ///
    /// # Errors
    /// What does not fit.
    ///
    /// ```
    /// # let cache: warmfront::cache::Cache<u32, u32> =
    /// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// cache.insert(1, 10)?;
    /// cache.validate()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn validate(&self) -> Result<(), String> {
        match self.flights.len() {
            0 => self.records.validate(),
            fetches => Err(format!("{fetches} fetches are under way")),
        }
    }

    /// Has the allocator give back what it keeps, once that may be much.
    fn has_let_go(&self, bytes: u64) {
        let all = self.let_go_bytes.fetch_add(bytes, Relaxed) + bytes;
        if all >= heap::TRIM_BYTES_MIN {
            self.let_go_bytes.store(0, Relaxed);
            heap::trim();
        }
    }

    /// Tells the listener that an entry has left, and gives its value.
    fn depart(&self, key: impl FnOnce() -> K, value: V, reason: Reason) -> V {
        if let Some(listener) = &self.listener {
            listener(Departure { key: key(), value: value.clone(), reason });
        }
        value
    }
}

/// An entry on its way in, with all that has to be known before a lock is taken.
struct Admission<K, V> {
    key: K,
    value: V,
    charge: Charge,
    now: Duration,
}

/// What has to be told once no lock is held: who had to leave, and whether the entry came in.
struct Admitted<K, V> {
    gone: SmallVec<[(K, V); 2]>,
    refused: Option<(Refused, V)>,
}

impl<K: Hash + Eq + Clone, V: Clone> Admission<K, V> {
    fn of<S>(cache: &Cache<K, V, S>, key: K, value: V) -> Self {
        let bytes = (cache.weigher)(&key, &value);
        let charge = Charge { bytes, class: Class::Data, kind: Kind::Demand, tenant: 0 };
        Self { key, value, charge, now: cache.clock.now() }
    }

    /// Takes the entry in. Runs no code of the program but that of its keys.
    fn run<S: BuildHasher>(self, cache: &Cache<K, V, S>) -> Admitted<K, V> {
        let mut gone = SmallVec::new();
        let Self { key, value, charge, now } = self;
        let inserted = cache.records.insert_into(key, value, charge, now, &mut gone);
        let refused = inserted.err().map(|(refused, value)| (Refused::from(refused), value));
        Admitted { gone, refused }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Admitted<K, V> {
    /// Tells the listener; `key` is that of the entry.
    fn announce<S: BuildHasher>(self, cache: &Cache<K, V, S>, key: &K) -> Result<(), NotKept<V>> {
        for (other, value) in self.gone {
            let reason = if other == *key { Reason::Replaced } else { Reason::Evicted };
            cache.depart(|| other, value, reason);
        }
        match self.refused {
            None => Ok(()),
            Some((reason, value)) => {
                let value = cache.depart(|| key.clone(), value, Reason::Refused(reason));
                Err(NotKept { value, reason })
            }
        }
    }
}

impl<K, V, S> fmt::Debug for Cache<K, V, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").finish_non_exhaustive()
    }
}
