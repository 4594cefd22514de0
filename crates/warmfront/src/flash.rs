//! The flash level of a pool: what lies on cache devices, as the engine uses it.

mod numbers;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[doc(hidden)]
pub use crate::stored::check_stored;
pub use l2arc::{
    AddError, Bypass, CIPHER_KEY_BYTES, Cipher, Compression, Condition, Detached, Failures, Miss,
    Opened, Opening, Options, Refused, RingStatistics, Slower, Statistics,
};
use l2arc::{Flash, Key, NotDurable};
use numbers::Numbers;
use parking_lot::Mutex;
use storage::{Clock, Device, ObjectId, Spawn};

use crate::alias::Aliases;
use crate::datasets::Dataset;
use crate::error::{EngineError, Result};
use crate::key::Part;
use crate::memory::Memory;
use crate::object::{Layout, Object};
use crate::pool::Pool;
use crate::size::Size;
use crate::unsynced::Unsynced;
use crate::version::{StaleBy, Version};

/// Records that are killed one by one; of more, the whole object is killed.
const KILL_RECORDS_MAX: u64 = 4096;

/// The share of the ceiling that a cache device may take for what is not written yet, one in so
/// many, and the least that it has all the same, bytes.
const BUFFERS_SHARE: u64 = 8;
const BUFFERS_BYTES_MIN: u64 = 4 << 20;

/// Notes, in a place that lasts, that what the pool's cache devices hold is void. See
/// [`NotDurable`].
///
/// ```
/// use std::sync::Arc;
/// use warmfront::flash::Renounce;
///
/// # let directory = tempfile::tempdir()?;
/// let note = directory.path().join("caches-are-void");
/// let path = note.clone();
/// // It has to last when this returns.
/// let renounce: Renounce = Arc::new(move || std::fs::File::create(&path)?.sync_all());
/// renounce()?;
/// assert!(note.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
pub type Renounce = Arc<dyn Fn() -> std::io::Result<()> + Send + Sync>;

/// What the flash level of a pool is made of.
///
/// ```
/// use warmfront::flash::{FlashOptions, Options};
///
/// // A device that may be written to as fast as it takes it.
/// let options = Options { dwpd_hundredths: None, ..Options::default() };
/// let flash = FlashOptions { options, renounce: None };
/// assert!(flash.options.dwpd_hundredths.is_none());
/// ```
#[derive(Clone, Default)]
pub struct FlashOptions {
    /// How it works.
    pub options: Options,
    /// What to do when a device does not take the deaths of its records. Without it the change
    /// fails that would have made them old.
    pub renounce: Option<Renounce>,
}

/// A pool's cache devices and what belongs to them.
pub(crate) struct FlashLevel {
    pub(crate) level: Flash,
    pub(crate) unsynced: Unsynced,
    pub(crate) aliases: Aliases,
    pub(crate) numbers: Numbers,
    /// A device has been added.
    in_use: AtomicBool,
    renounce: Option<Renounce>,
    /// RAM that is charged for it, bytes.
    charged_bytes: Mutex<u64>,
}

impl FlashLevel {
    pub(crate) fn new(
        options: FlashOptions,
        ceiling_bytes: u64,
        clock: Arc<dyn Clock>,
        spawn: Arc<dyn Spawn>,
    ) -> FlashLevel {
        let mut level = options.options;
        let most = (ceiling_bytes / BUFFERS_SHARE).max(BUFFERS_BYTES_MIN);
        level.buffers_bytes_max = level.buffers_bytes_max.min(most as usize);
        FlashLevel {
            level: Flash::new(level, clock, spawn),
            unsynced: Unsynced::new(),
            aliases: Aliases::default(),
            numbers: Numbers::default(),
            in_use: AtomicBool::new(false),
            renounce: options.renounce,
            charged_bytes: Mutex::new(0),
        }
    }

    /// Whether there is, or has been, a device.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::SeqCst)
    }

    /// Charges what it takes of RAM by now.
    pub(crate) fn charge(&self, memory: &Memory) {
        let mut charged = self.charged_bytes.lock();
        let now = self.level.charged_bytes();
        if now > *charged {
            memory.charge_for_good(now - *charged);
        } else if now < *charged {
            memory.discharge(*charged - now);
        }
        *charged = now;
    }

    /// Gives back what was charged.
    pub(crate) fn discharge(&self, memory: &Memory) {
        memory.discharge(std::mem::take(&mut *self.charged_bytes.lock()));
    }

    /// Sees to it that deaths which a device does not take are not needed.
    pub(crate) fn settle(&self, killed: std::result::Result<(), NotDurable>) -> Result<()> {
        let Err(not_durable) = killed else { return Ok(()) };
        let refused = |source: String| EngineError::Flash { reason: source };
        let renounce = self.renounce.as_ref().ok_or_else(|| refused(not_durable.to_string()))?;
        renounce().map_err(|error| refused(format!("{not_durable}; {error}")))?;
        tracing::warn!(error = %not_durable, "the cache is given up: it starts empty next time");
        not_durable.devices.iter().for_each(|device| self.level.renounced(*device));
        Ok(())
    }
}

/// A change of contents under way, of which flash and the version know.
pub(crate) struct ContentsChange<'a> {
    pool: &'a Pool,
    object: &'a Object,
}

impl Drop for ContentsChange<'_> {
    fn drop(&mut self) {
        self.object.update(|version| version.end_change(StaleBy::Contents));
        if self.pool.flash.is_in_use() {
            self.pool.flash.unsynced.changed(self.object.id);
        }
    }
}

impl Pool {
    /// Takes a cache device in. What it holds is used if nothing has been changed through the pool
    /// since this start.
    ///
    /// # Errors
    /// When it does not work, is too small, or holds what it would be a pity to lose.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::flash::{Opened, Opening};
    /// use warmfront::storage::MemoryDevice;
    ///
    /// let opening = Opening {
    ///     pool: [1; 16],
    ///     device: [2; 16],
    ///     salt: [3; 16],
    ///     life: 1,
    ///     lives: None,
    ///     wall_seconds: 1_000_000,
    ///     force: false,
    ///     empty: false,
    /// };
    /// let device = Arc::new(MemoryDevice::new(64 << 20, 4096));
    /// assert_eq!(pool.add_cache(device, &opening).await?, Opened::Formatted);
    /// assert!(pool.has_caches());
    /// # Ok(()) }) }
    /// ```
    pub async fn add_cache(
        self: &Arc<Self>,
        device: Arc<dyn Device>,
        opening: &Opening,
    ) -> std::result::Result<Opened, AddError> {
        // From here on changes are noted: what flash takes in must be durable at the origin.
        self.flash.in_use.store(true, Ordering::SeqCst);
        Version::seed_renewals(opening.life);
        let opened = self.flash.level.add(device, opening).await?;
        self.flash.charge(&self.memory);
        self.reserve_on_flash();
        self.memory.feed(self);
        if opened == Opened::Warm {
            let pool = Arc::downgrade(self);
            let flash = self.flash.clone();
            self.spawn.spawn(Box::pin(async move {
                flash.level.recovered().await;
                if let Some(pool) = pool.upgrade() {
                    pool.adopt_aliases().await;
                }
            }));
        }
        Ok(opened)
    }

    /// Tells the flash level what of it is reserved for whom.
    pub(crate) fn reserve_on_flash(&self) {
        let datasets = self.datasets.list();
        // What was reserved for a dataset that is no more is free again.
        for (name, number) in self.flash.numbers.all() {
            if !datasets.iter().any(|dataset| dataset.name() == &*name) {
                self.flash.level.set_reserve(number, 0);
            }
        }
        for dataset in datasets {
            let bytes = self.reserve_wanted(&dataset).unwrap_or(0);
            self.flash.level.set_reserve(self.flash.numbers.of(dataset.name()), bytes);
        }
    }

    fn reserve_wanted(&self, dataset: &Dataset) -> Option<u64> {
        Some(self.of_flash(dataset.properties().l2reserve?))
    }

    /// The `l2reserve` of a dataset, and what of it is in force, bytes; `None` without one, and
    /// without cache devices.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// pool.datasets().set("tank", "l2reserve", "8M")?;
    /// pool.expire_all();
    /// let dataset = pool.datasets().root().dataset();
    /// assert_eq!(pool.reserve_on_flash_of(&dataset), Some((8 << 20, 8 << 20)));
    /// # Ok(()) }) }
    /// ```
    pub fn reserve_on_flash_of(&self, dataset: &Dataset) -> Option<(u64, u64)> {
        let wanted = self.reserve_wanted(dataset).filter(|_| self.has_caches())?;
        Some((wanted, self.flash.level.reserve_in_force(self.flash.numbers.of(dataset.name()))))
    }

    /// The `l2limit` of a dataset, bytes; `None` without one, and without cache devices.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// let dataset = pool.datasets().root().dataset();
    /// assert_eq!(pool.limit_on_flash_of(&dataset), None);
    /// pool.datasets().set("tank", "l2limit", "8M")?;
    /// assert_eq!(pool.limit_on_flash_of(&dataset), Some(8 << 20));
    /// # Ok(()) }) }
    /// ```
    pub fn limit_on_flash_of(&self, dataset: &Dataset) -> Option<u64> {
        let limit = dataset.properties().l2limit.filter(|_| self.has_caches())?;
        Some(self.of_flash(limit))
    }

    /// A size on flash in bytes; a share is one of all cache devices.
    pub(crate) fn of_flash(&self, size: Size) -> u64 {
        match size {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => {
                (self.flash.level.data_bytes() as f64 / 100.0 * percent) as u64
            }
        }
    }

    /// Stops using a cache device without waiting for it, which may hang. `None` if there is no
    /// such one. The caller [wipes](Detached::wipe) it; where it cannot be wiped, the others have
    /// to [begin another life](Pool::begin_life_of_caches).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// let device = pool.flash_statistics().rings[0].device;
    /// let detached = pool.detach_cache(device).expect("it is in use");
    /// // From here on nothing that it held is believed.
    /// detached.wipe().await?;
    /// assert!(pool.detach_cache(device).is_none());
    /// # Ok(()) }) }
    /// ```
    pub fn detach_cache(&self, device: [u8; 16]) -> Option<Detached> {
        let detached = self.flash.level.detach(device);
        self.reserve_on_flash();
        self.flash.charge(&self.memory);
        detached
    }

    /// Names this start anew on the cache devices, so that those which are no longer a part of the
    /// pool, or took no tombstone, are not believed at the next start.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// let device = pool.flash_statistics().rings[0].device;
    /// let detached = pool.detach_cache(device).expect("it is in use");
    /// // It cannot be wiped: then at the next start only who knows of life 2 is believed.
    /// pool.begin_life_of_caches(2).await;
    /// drop(detached);
    /// # Ok(()) }) }
    /// ```
    pub async fn begin_life_of_caches(&self, life: u128) {
        self.flash.level.begin_life(life).await;
    }

    /// Writes down what the cache devices need to be warm at the next start, and on them what only
    /// RAM holds; then stops using them.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// use warmfront::flash::Condition;
    ///
    /// pool.stop_caches().await;
    /// assert_eq!(pool.flash_statistics().rings[0].condition, Condition::Stopped);
    /// # Ok(()) }) }
    /// ```
    pub async fn stop_caches(self: &Arc<Self>) {
        if self.flash.is_in_use() {
            self.write_aliases(true).await;
            self.feed_the_rest().await;
            self.flash.level.stop().await;
        }
    }

    /// Waits until all is known that lies on the cache devices.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// use warmfront::flash::Condition;
    ///
    /// pool.caches_recovered().await;
    /// assert_eq!(pool.flash_statistics().rings[0].condition, Condition::Works);
    /// # Ok(()) }) }
    /// ```
    pub async fn caches_recovered(&self) {
        self.flash.level.recovered().await;
    }

    /// How the flash level does.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// let flash = pool.flash_statistics();
    /// println!("{} hits, {} bytes written", flash.hits, flash.written_bytes);
    /// assert_eq!((flash.rings.len(), flash.rings[0].size_bytes), (1, 64 << 20));
    /// # Ok(()) }) }
    /// ```
    pub fn flash_statistics(&self) -> Statistics {
        self.flash.level.statistics()
    }

    /// Whether there is a cache device.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// assert!(!pool.has_caches());
    /// # add_cache(&pool).await?;
    /// assert!(pool.has_caches(), "one has been added");
    /// # Ok(()) }) }
    /// ```
    pub fn has_caches(&self) -> bool {
        self.flash.is_in_use()
    }

    /// Begins a change of the bytes of `range`, which nobody else reads or changes until it has
    /// ended. Returns once no copy on flash of what is there can come back.
    pub(crate) async fn change_contents<'a>(
        &'a self,
        object: &'a Object,
        layout: &Layout,
        range: Range<u64>,
    ) -> Result<ContentsChange<'a>> {
        object.dirty.reaches(range.end);
        self.kill_contents(object, layout, range).await?;
        object.update(Version::begin_change);
        Ok(ContentsChange { pool: self, object })
    }

    /// Before the bytes of `range` change, which nobody else reads or changes meanwhile: returns
    /// once no copy on flash of what is there can come back.
    pub(crate) async fn kill_contents(
        &self,
        object: &Object,
        layout: &Layout,
        range: Range<u64>,
    ) -> Result<()> {
        if self.flash.is_in_use() {
            self.flash.unsynced.changed(object.id);
            self.owe_alias(object);
            let on_flash = |number: &u64| {
                let key = Part::Record(*number).on_flash(object.id, layout.generation);
                self.flash.level.holds(&key)
            };
            let numbers = layout.records(range.start..range.end.min(layout.size));
            let numbers = numbers.take(KILL_RECORDS_MAX as usize).filter(on_flash);
            self.owe_records(object.id, numbers);
            self.kill_records(object.id, layout, range, &object.version()).await?;
            object.update(|version| version.alias = None);
        }
        Ok(())
    }

    /// Kills what flash may have of the bytes of `range`, to the end of the file, and what leads to
    /// this generation.
    async fn kill_records(
        &self,
        object: ObjectId,
        layout: &Layout,
        range: Range<u64>,
        version: &Version,
    ) -> Result<()> {
        let end = range.end.min(layout.size.max(range.start.saturating_add(1)));
        let numbers = layout.records(range.start..end);
        let killed = if numbers.end - numbers.start > KILL_RECORDS_MAX {
            self.flash.level.kill_object(object.0).await
        } else {
            let generation = layout.generation;
            let key = |number| Part::Record(number).on_flash(object, generation);
            let aliases = Pool::aliases_of(object, version);
            let keys: Vec<Key> = numbers.map(key).chain(aliases).collect();
            self.flash.level.kill(&keys).await
        };
        self.flash.settle(killed)
    }

    /// Kills what flash has of a version of an object that is about to end.
    pub(crate) async fn kill_version(&self, object: ObjectId, version: &Version) -> Result<()> {
        let layout = Layout {
            size: version.attributes.size,
            generation: version.generation,
            record_bytes: version.record_bytes,
        };
        self.kill_records(object, &layout, 0..layout.size, version).await
    }

    /// Lets go of what flash has of a version that somebody else has ended. Nobody can reach it any
    /// more, so nobody waits for it.
    pub(crate) fn forget_on_flash(&self, object: ObjectId, version: &Version) {
        let records = version.attributes.size.div_ceil(version.record_bytes);
        if !self.flash.is_in_use() || records == 0 {
            return;
        }
        let flash = self.flash.clone();
        let version = *version;
        self.spawn.spawn(Box::pin(async move {
            let key = |number| Part::Record(number).on_flash(object, version.generation);
            let records = (0..records.min(KILL_RECORDS_MAX)).map(key);
            let keys: Vec<Key> = records.chain(Pool::aliases_of(object, &version)).collect();
            if let Err(error) = flash.level.kill(&keys).await {
                tracing::debug!(object = object.0, %error, "what nobody reaches stays on flash");
            }
        }));
    }
}
