use std::hash::{BuildHasher, RandomState};
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc::{Arena, Cache, Charge, Class, Kind, Location, PolicyKind, Queue, SettingStatistics};
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::answer::Cached;
use crate::datasets;
use crate::feeder::Feeder;
use crate::heap;
use crate::key::Key;
use crate::listings::ReadListings;
use crate::remembered::Remembered;
use crate::share::{self, ShareError, Sharer};
use crate::shares::{Reserves, ShareInForce, Shares};
use crate::small_blocks::SmallBlocks;

/// The cache is resized only when the other charges have moved by this many bytes.
const STEP_BYTES: u64 = 1 << 20;

/// What a record takes in a list by heat: twice while that is sorted.
pub(crate) const RANKED_BYTES: u64 = 2 * size_of::<(usize, f64, Key, Location)>() as u64;

/// Readers whose use does not count that can be read ahead for without disturbing each other.
const PASSING_READERS: u64 = 4;

/// Part of the ceiling, as its divisor, that freed buffers may keep for those to come.
const KEPT_SHARE: u64 = 64;
/// Bounds of that part, in bytes.
const KEPT_BYTES: std::ops::RangeInclusive<u64> = 2 << 20..=32 << 20;

/// What one request may hold without being charged. All requests together then hold no more than
/// the process may take beyond the ceiling.
const HELD_BYTES_FREE: u64 = 128 << 10;

/// All that is cached. Its hashes follow from a seed.
pub(crate) type Records = Cache<Key, Cached, SeedableRandomState>;

/// Shards of an ARC that is to do the same on all machines.
const REPEATABLE_SHARDS: usize = 4;

/// The RAM of all pools of a process: one ARC under one ceiling.
///
/// Everything is paid out of the ceiling. What cannot be evicted (objects in use, reads under way,
/// what the arena keeps) is charged first; the ARC has the rest.
///
/// ```
/// use warmfront::Memory;
///
/// let memory = Memory::new(256 << 20);
/// // What no longer fits has been evicted when this returns.
/// memory.set_ceiling_bytes(64 << 20);
/// assert_eq!(memory.ceiling_bytes(), 64 << 20);
/// assert!(memory.charged_bytes() <= 64 << 20);
/// ```
#[derive(Debug)]
pub struct Memory {
    pub(crate) cache: Records,
    /// Where the buffers of records come from.
    pub(crate) arena: Arc<Arena>,
    ceiling_bytes: AtomicU64,
    /// What the ceiling may become at most, if that is more.
    ceiling_bytes_max: AtomicU64,
    /// The highest ceiling since the general allocator was last asked for what it keeps.
    trimmed_at_bytes: AtomicU64,
    /// Charges that are not the cache's.
    pub(crate) charged_bytes: AtomicU64,
    /// Serialises changes of the cache's capacity; holds the charges that it is based on.
    resized_at_bytes: Mutex<u64>,
    /// Parts of the cache; changed by whoever holds the lock of the cache's capacity.
    shares: Mutex<Shares>,
    /// One change of shares at a time, from its check until it is made.
    dividing: Mutex<()>,
    passage: OnceLock<u32>,
    /// The objects in use.
    pub(crate) remembered: Remembered,
    /// What these and others take of the general allocator.
    pub(crate) small_blocks: SmallBlocks,
    pub(crate) read_listings: ReadListings,
    /// Feeds the cache devices of all pools.
    pub(crate) feeder: Arc<Feeder>,
    next_pool: AtomicU32,
}

/// What is cached under a key.
#[derive(Debug)]
pub(crate) struct InRam {
    pub value: Cached,
    /// It was prefetched, primed or brought back at the start, and nobody had read it before.
    pub is_first_read: bool,
}

/// Bytes charged to the ceiling for as long as this lives.
///
/// ```
/// let memory = warmfront::Memory::new(64 << 20);
/// let before = memory.charged_bytes();
/// let charged = memory.charge_request(8 << 20).expect("it is large");
/// assert_eq!(memory.charged_bytes(), before + (8 << 20));
/// drop(charged);
/// assert_eq!(memory.charged_bytes(), before);
/// ```
#[derive(Debug)]
pub struct Charged<'a> {
    memory: &'a Memory,
    bytes: u64,
}

impl Memory {
    /// An empty ARC that together with all else stays below `ceiling_bytes`.
    ///
    /// ```
    /// let memory = warmfront::Memory::new(64 << 20);
    /// assert_eq!(memory.ceiling_bytes(), 64 << 20);
    /// assert!(memory.charged_bytes() < 1 << 20);
    /// ```
    pub fn new(ceiling_bytes: u64) -> Arc<Memory> {
        let options = arc::Options::new(rest(ceiling_bytes, 0));
        Memory::over(
            ceiling_bytes,
            Cache::with_hasher(&options, hasher(RandomState::new().hash_one(()))),
        )
    }

    /// As [`new`](Memory::new), but what it does follows from the seed and from what it is asked,
    /// on any machine: for simulations.
    ///
    /// ```
    /// // The same seed and the same load: the same hits, on any machine.
    /// let memory = warmfront::Memory::repeatable(64 << 20, 1);
    /// assert_eq!(memory.ceiling_bytes(), 64 << 20);
    /// ```
    pub fn repeatable(ceiling_bytes: u64, seed: u64) -> Arc<Memory> {
        let options = arc::Options {
            shards: Some(REPEATABLE_SHARDS),
            ..arc::Options::new(rest(ceiling_bytes, 0))
        };
        Memory::over(ceiling_bytes, Cache::with_hasher(&options, hasher(seed)))
    }

    fn over(ceiling_bytes: u64, cache: Records) -> Arc<Memory> {
        Arc::new(Memory {
            cache,
            arena: Arena::new(kept_bytes_max(ceiling_bytes) as usize),
            ceiling_bytes: AtomicU64::new(ceiling_bytes),
            ceiling_bytes_max: AtomicU64::new(0),
            trimmed_at_bytes: AtomicU64::new(ceiling_bytes),
            charged_bytes: AtomicU64::new(0),
            resized_at_bytes: Mutex::new(0),
            shares: Mutex::default(),
            dividing: Mutex::default(),
            passage: OnceLock::new(),
            remembered: Remembered::default(),
            small_blocks: SmallBlocks::default(),
            read_listings: ReadListings::default(),
            feeder: Arc::default(),
            next_pool: AtomicU32::new(0),
        })
    }

    /// The bytes of RAM that everything together may take.
    ///
    /// ```
    /// let memory = warmfront::Memory::new(64 << 20);
    /// println!("at most {}", warmfront::HumanSize(memory.ceiling_bytes()));
    /// assert_eq!(memory.ceiling_bytes(), 64 << 20);
    /// ```
    pub fn ceiling_bytes(&self) -> u64 {
        self.ceiling_bytes.load(Ordering::Relaxed)
    }

    /// Changes the ceiling. What no longer fits is evicted, and its memory given back to the
    /// system, before this returns; but for what reads under way hold until they end.
    ///
    /// Reserves and limits that are shares of the ceiling follow it. While the ceiling is too
    /// small for all reserves, each is cut in proportion.
    ///
    /// ```
    /// let memory = warmfront::Memory::new(64 << 20);
    /// memory.set_ceiling_bytes(32 << 20);
    /// assert_eq!(memory.ceiling_bytes(), 32 << 20);
    /// ```
    pub fn set_ceiling_bytes(self: &Arc<Self>, ceiling_bytes: u64) {
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
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.cache.set_capacity_on(capacity_bytes, threads);
        shares.put_in_force(&self.cache, ceiling_bytes, capacity_bytes);
        drop((shares, resized_at, held));
        self.arena.set_kept_bytes_max(kept_bytes_max(ceiling_bytes) as usize);
        let highest = self.trimmed_at_bytes.fetch_max(ceiling_bytes, Ordering::Relaxed);
        if highest.saturating_sub(ceiling_bytes) >= heap::TRIM_BYTES_MIN {
            heap::trim();
            self.trimmed_at_bytes.store(ceiling_bytes, Ordering::Relaxed);
        }
        self.settle_all();
    }

    /// Says how far the ceiling will grow again at most after it had to shrink. Reserves may be
    /// promised up to that; without it, up to the present ceiling.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// pool.memory().set_ceiling_bytes(32 << 20);
    /// assert!(pool.datasets().set("tank", "arcreserve", "40M").is_err());
    /// // The ceiling is low only for a while.
    /// pool.memory().set_ceiling_bytes_max(64 << 20);
    /// pool.datasets().set("tank", "arcreserve", "40M")?;
    /// # Ok(()) }) }
    /// ```
    pub fn set_ceiling_bytes_max(&self, ceiling_bytes_max: u64) {
        self.ceiling_bytes_max.store(ceiling_bytes_max, Ordering::Relaxed);
    }

    /// Bytes charged besides the cache: objects in use and reads under way.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let memory = pool.memory();
    /// let before = memory.charged_bytes();
    /// // What is looked up is in use, until it is given back.
    /// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// assert!(memory.charged_bytes() > before);
    /// # Ok(()) }) }
    /// ```
    pub fn charged_bytes(&self) -> u64 {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    /// A number that tells the keys of one pool from those of another.
    pub(crate) fn next_pool(&self) -> u32 {
        self.next_pool.fetch_add(1, Ordering::Relaxed)
    }

    /// What is cached under a key. Counts as use of it by the dataset `user`; without one it has
    /// no effect. What was passing by is kept when it is used.
    pub(crate) fn lookup(&self, key: &Key, user: Option<u32>, now: Duration) -> Option<InRam> {
        let Some(tenant) = user else {
            return Some(InRam { value: self.cache.peek(key)?, is_first_read: false });
        };
        let hit = self.cache.hit(key, now)?;
        if hit.list.queue == Queue::Uncached {
            let bytes = hit.value.charged_bytes() as u64;
            let charge = Charge { bytes, class: hit.list.class, kind: Kind::Demand, tenant };
            // If it may not be kept, it has had its use.
            let _ = self.cache.insert(*key, hit.value.clone(), charge, now);
        }
        Some(InRam { value: hit.value, is_first_read: hit.first_after_prefetch })
    }

    /// Lets something pass by on its way to a reader whose use does not count. What is cached under
    /// the key is brought up to date where it is.
    pub(crate) fn pass(
        &self,
        key: Key,
        value: Cached,
        class: Class,
        now: Duration,
    ) -> Result<(), arc::Refused> {
        let bytes = value.charged_bytes() as u64;
        if self.cache.replace(&key, value.clone(), bytes)? {
            return Ok(());
        }
        let charge = Charge { bytes, class, kind: Kind::Passing, tenant: self.passage() };
        self.cache.insert(key, value, charge, now).map(|_| ())
    }

    /// To whom is charged what passes by. It has a small part of the ceiling, in which the oldest
    /// goes first.
    fn passage(&self) -> u32 {
        *self.passage.get_or_init(|| {
            let member = datasets::next_id();
            let _resized_at = self.resized_at_bytes.lock();
            self.shares.lock().open_passage(member, &self.cache, self.ceiling_bytes());
            member
        })
    }

    /// How far may be read ahead in records of so many bytes for a reader whose use does not count.
    pub(crate) fn passing_ahead_max(&self, record_bytes: u64) -> u64 {
        let room = share::passage(self.ceiling_bytes()).limit_bytes;
        if record_bytes < room / arc::RECORD_SHARE { room / PASSING_READERS } else { 0 }
    }

    /// Charges `bytes` until the result is dropped.
    pub(crate) fn charge(&self, bytes: u64) -> Charged<'_> {
        self.charge_for_good(bytes);
        Charged { memory: self, bytes }
    }

    /// Charges what a large request holds while it is answered, until the result is dropped: data
    /// that was sent to be written, or records that the cache may evict before they have been
    /// copied. `None` for a small one.
    ///
    /// ```
    /// let memory = warmfront::Memory::new(64 << 20);
    /// let before = memory.charged_bytes();
    /// if let Some(charged) = memory.charge_request(8 << 20) {
    ///     assert!(memory.charged_bytes() > before);
    ///     drop(charged);
    /// }
    /// assert_eq!(memory.charged_bytes(), before);
    /// ```
    pub fn charge_request(&self, held_bytes: u64) -> Option<Charged<'_>> {
        (held_bytes > HELD_BYTES_FREE).then(|| self.charge(held_bytes))
    }

    /// As [`charge`](Memory::charge), for what outlives the borrow.
    pub(crate) fn charge_apart(self: &Arc<Self>, bytes: u64) -> ChargedApart {
        self.charge_for_good(bytes);
        ChargedApart { memory: self.clone(), bytes }
    }

    /// Charges `bytes` until [`discharge`](Memory::discharge) gives them back.
    pub(crate) fn charge_for_good(&self, bytes: u64) {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Many that go on while another makes room for the first of them would be too much.
        let waits = bytes >= HELD_BYTES_FREE;
        self.resize(waits.then(|| self.resized_at_bytes.lock()));
    }

    /// Gives back bytes that were charged for good.
    pub(crate) fn discharge(&self, bytes: u64) {
        let before = self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory given back than was charged");
        self.resize(None);
    }

    /// What of the ceiling is for nobody.
    pub(crate) fn apart_bytes(&self) -> u64 {
        kept_bytes_max(self.ceiling_bytes()) + STEP_BYTES
    }

    /// Lets the cache follow the other charges; unless its capacity is locked by somebody else.
    pub(crate) fn resize(&self, locked: Option<MutexGuard<'_, u64>>) {
        let Some(mut resized_at) = locked.or_else(|| self.resized_at_bytes.try_lock()) else {
            return;
        };
        let charged = self.charged_bytes();
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
        let ceiling_bytes_max = self.ceiling_bytes_max.load(Ordering::Relaxed);
        let ceiling_bytes = self.ceiling_bytes().max(ceiling_bytes_max);
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

    /// Checks the shares; see [`Shares::validate`].
    ///
    /// # Errors
    /// What does not fit.
    pub(crate) fn validate_shares(&self) -> Result<(), String> {
        self.shares.lock().validate(&self.cache)
    }

    /// The share that is set on a dataset, as it is in force.
    pub(crate) fn share_in_force(&self, pool: u32, name: &str) -> Option<ShareInForce> {
        self.shares.lock().in_force(pool, name, &self.cache)
    }

    /// What all datasets of all pools together have reserved.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// pool.datasets().set("tank", "arcreserve", "8M")?;
    /// assert_eq!(pool.memory().reserves().wanted_bytes, 8 << 20);
    /// # Ok(()) }) }
    /// ```
    pub fn reserves(&self) -> Reserves {
        self.shares.lock().reserves(&self.cache, self.ceiling_bytes())
    }

    /// The rules by which the records of a dataset are kept, and what each setting of them makes of
    /// the load.
    pub(crate) fn policy(&self, dataset: u32) -> (PolicyKind, SettingStatistics) {
        let partition = self.shares.lock().partition(dataset);
        self.cache.settings(partition)
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

/// A charge that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ChargedApart {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Drop for ChargedApart {
    fn drop(&mut self) {
        self.memory.discharge(self.bytes);
    }
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        self.memory.discharge(self.bytes);
    }
}

/// The hasher of an ARC. What it multiplies with is the library's choice, not drawn at random:
/// about one draw in a hundred puts long runs of a file's records into one shard.
fn hasher(seed: u64) -> SeedableRandomState {
    SeedableRandomState::with_seed(seed, SharedSeed::global_fixed())
}

#[cfg(test)]
mod tests {
    use storage::ObjectId;

    use super::*;

    /// Of two shards each gets some of every few records.
    #[test]
    fn records_of_a_file_lie_in_all_shards_by_turns() {
        let mut random = storage::Random::new(1);
        for object in 0..2000 {
            let (hasher, generation) = (hasher(random.draw()), random.draw());
            let shard = |number| {
                let key = Key::record(1, ObjectId(object), generation, number);
                hasher.hash_one(key) >> 40 & 1
            };
            let shards: Vec<u64> = (0..64).map(shard).collect();
            let runs = shards.chunk_by(|a, b| a == b).map(<[u64]>::len);
            let longest = runs.max().expect("some");
            assert!(longest <= 20, "{longest} in a row: {shards:?}");
        }
    }
}
