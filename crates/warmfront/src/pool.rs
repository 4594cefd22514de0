use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::{Mutex, RwLock};
use storage::{Clock, Kind, Layered, ObjectId, Origin, SpaceUsage, Spawn};

use crate::answer::{Cached, Content, Metadata};
use crate::counters::Counter;
use crate::datasets::{Dataset, DatasetCursor, Datasets};
use crate::error::{EngineError, Result};
use crate::flash::{FlashLevel, FlashOptions};
use crate::flight::Flights;
use crate::intent::{Intent, LostLog};
use crate::key::{Key, Part};
use crate::listings::Listings;
use crate::memory::Memory;
use crate::meter::Meter;
use crate::moves::Moves;
use crate::object::{Object, Place, PlaceGuard, Tenant};
use crate::objects::Objects;
use crate::pace::Pace;
use crate::property::{CacheLevel, Properties};
use crate::reader::Reader;
use crate::record::Record;
use crate::recorder::Recording;
use crate::remembered::Unused;
use crate::snapshot::HotRecords;
use crate::version::Version;
use crate::write_back::WriteBack;

/// Directories that lie deeper than this are treated as belonging to the root's dataset.
pub(crate) const DEPTH_MAX: usize = 4096;

/// What a pool is made of; see [`Pool`] for an example.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # use warmfront::flash::FlashOptions;
/// let options = PoolOptions {
///     name: "lake".to_string(),
///     origin: Arc::new(MemoryOrigin::new()),
///     datasets: Datasets::new("lake")?,
///     // The two pools have one ceiling.
///     memory: pool.memory().clone(),
///     clock: Arc::new(RealClock::new()),
///     spawn: Arc::new(ThreadPool::new("lake", 2)?),
///     read_only: true,
///     flash: FlashOptions::default(),
/// };
/// assert!(Pool::open(options).await?.is_read_only());
/// # Ok(()) }) }
/// ```
pub struct PoolOptions {
    /// Its name.
    pub name: String,
    /// The slow storage.
    pub origin: Arc<dyn Origin>,
    /// The datasets with their properties.
    pub datasets: Datasets,
    /// The ARC that the pool shares.
    pub memory: Arc<Memory>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where prefetching and priming go on beside the callers.
    pub spawn: Arc<dyn Spawn>,
    /// Refuse every change.
    pub read_only: bool,
    /// How the flash level works. It has no devices at first.
    pub flash: FlashOptions,
}

/// What stands above the engine and caches its answers: the kernel, behind the FUSE door.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// /// Notes what nobody may believe any more. A door that can wait calls `told` when it is done.
/// struct Log;
///
/// impl Invalidation for Log {
///     fn expire_object(&self, object: ObjectId) {
///         println!("{object:?}: all that is known of it");
///     }
///     fn expire_attributes(&self, object: ObjectId) {
///         println!("{object:?}: its attributes");
///     }
///     fn expire_contents_later(&self, object: ObjectId, told: Box<dyn FnOnce() + Send>) {
///         println!("{object:?}: its contents");
///         told();
///     }
///     fn expire_name(&self, parent: ObjectId, name: &OsStr) {
///         println!("{parent:?}: the name {name:?}");
///     }
///     fn expire_name_later(
///         &self,
///         parent: ObjectId,
///         name: Arc<OsStr>,
///         told: Box<dyn FnOnce() + Send>,
///     ) {
///         self.expire_name(parent, &name);
///         told();
///     }
///     fn forget_later(&self, objects: Vec<Unused>, told: Box<dyn FnOnce() + Send>) {
///         println!("{} objects need not be remembered", objects.len());
///         told();
///     }
/// }
///
/// pool.set_invalidation(Arc::new(Log));
/// # Ok(()) }) }
/// ```
pub trait Invalidation: Send + Sync {
    /// Everything known of the object, contents and attributes, must be asked for again.
    fn expire_object(&self, object: ObjectId);
    /// The attributes of the object must be asked for again. May be called from within a call on
    /// the object.
    fn expire_attributes(&self, object: ObjectId);
    /// The contents of the object must be asked for again. May be called from within a call on the
    /// object: returns at once, and calls `told` when it is done.
    fn expire_contents_later(&self, object: ObjectId, told: Box<dyn FnOnce() + Send>);
    /// What `name` in `parent` leads to must be asked for again.
    fn expire_name(&self, parent: ObjectId, name: &OsStr);
    /// As [`expire_name`](Invalidation::expire_name), but from within a call on the directory:
    /// returns at once, and calls `told` when it is done.
    fn expire_name_later(&self, parent: ObjectId, name: Arc<OsStr>, told: Box<dyn FnOnce() + Send>);
    /// These objects need not be remembered, as far as nobody uses them. Returns at once, and calls
    /// `told` when it is done; the uses are given back some time later.
    fn forget_later(&self, objects: Vec<Unused>, told: Box<dyn FnOnce() + Send>);
}

/// What is known of the space at the origin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KnownSpace {
    /// When something was done last that may have changed it.
    pub changed_at: Option<Duration>,
    /// What the origin has told since, and when it was asked.
    pub told: Option<(Duration, SpaceUsage)>,
}

/// An origin behind its share of the ARC, with its datasets.
///
/// All calls of a file system are methods of this, of [`OpenFile`](crate::OpenFile) and of
/// [`OpenDirectory`](crate::OpenDirectory). Objects are counted: each call that returns a
/// [`Found`](crate::Found) counts one use, which [`forget`](Pool::forget) gives back.
///
/// ```
/// use std::sync::Arc;
///
/// use futures::executor::block_on;
/// use warmfront::storage::{DirectoryOptions, DirectoryOrigin, OpenMode, RealClock, ThreadPool};
/// use warmfront::{Datasets, Memory, Pool, PoolOptions};
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join("file"), "contents")?;
/// let origin = DirectoryOrigin::open(directory.path(), DirectoryOptions::default())?;
/// block_on(async {
///     let pool = Pool::open(PoolOptions {
///         name: "tank".to_string(),
///         origin: Arc::new(origin),
///         datasets: Datasets::new("tank")?,
///         memory: Memory::new(64 << 20),
///         clock: Arc::new(RealClock::new()),
///         spawn: Arc::new(ThreadPool::new("tank", 2)?),
///         read_only: false,
///         flash: warmfront::flash::FlashOptions::default(),
///     })
///     .await?;
///     let found = pool.lookup(pool.root(), "file".as_ref()).await?;
///     let mode = OpenMode { read: true, write: true, ..OpenMode::default() };
///     let file = pool.open_file(found.object, mode).await?;
///     assert_eq!(file.read(0, 100).await?.len(), 8);
///     file.write(8, b", and more").await?;
///     // It lasts when this returns, and the origin has it.
///     file.sync(false).await?;
///     pool.forget(found.object, 1);
///     let listed = pool.open_directory(pool.root()).await?.entries().await?;
///     assert_eq!(listed.len(), 1);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// assert_eq!(std::fs::read(directory.path().join("file"))?, b"contents, and more");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool {
    name: String,
    pub(crate) number: u32,
    pub(crate) origin: Arc<dyn Origin>,
    /// The same, with what it has been asked.
    pub(crate) metered: Arc<Layered<Meter>>,
    pub(crate) datasets: Datasets,
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) read_only: bool,
    pub(crate) objects: Objects,
    pub(crate) flights: Flights<Key, Result<Arc<Record>>>,
    pub(crate) moves: Moves,
    pub(crate) listings: Listings,
    pub(crate) flash: Arc<FlashLevel>,
    pub(crate) write_back: WriteBack,
    /// The log device, if there is one.
    pub(crate) intent: ArcSwapOption<Intent>,
    /// A log device that has failed.
    pub(crate) lost_log: Mutex<Option<LostLog>>,
    /// Groups up to this one have changes that the log does not tell.
    pub(crate) unlogged_txg: AtomicU64,
    /// How long the origin takes to read.
    pub(crate) pace: Pace,
    /// How long flash takes to read.
    pub(crate) flash_pace: Pace,
    /// What other sizes would make of all reads of contents.
    pub(crate) curve: arc::Curve,
    /// Memory of all curves.
    pub(crate) curve_bytes: AtomicU64,
    /// Notes what is asked for, while somebody wants to know.
    pub(crate) recording: Recording,
    /// Records of an earlier start that are about to come back.
    pub(crate) returning: Mutex<Option<Arc<HotRecords>>>,
    pub(crate) prefetches: AtomicU64,
    /// Calls of readers to the origin for contents that are under way.
    pub(crate) demand_fetches: AtomicU64,
    /// Space at the origin, and when it was told; `None` after a change.
    pub(crate) space: Mutex<KnownSpace>,
    root: ObjectId,
    /// By the dataset's id.
    tenants: Mutex<BTreeMap<u32, Tenant>>,
    /// Counts renamed directories: objects below have to work out their dataset again.
    renames: AtomicU64,
    invalidation: RwLock<Option<Arc<dyn Invalidation>>>,
}

impl Pool {
    /// Looks at the origin's top directory and makes the pool.
    ///
    /// # Errors
    /// When the origin does not answer, or datasets ask for shares of the ARC that cannot be given.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let options = options(Arc::new(MemoryOrigin::new()))?;
    /// let pool = Pool::open(options).await?;
    /// assert!(pool.open_directory(pool.root()).await?.entries().await?.is_empty());
    /// # Ok(()) }) }
    /// ```
    pub async fn open(options: PoolOptions) -> Result<Arc<Pool>> {
        let metered = Arc::new(Layered::new(options.origin, Meter::default()));
        let entry = metered.root().await?;
        let number = options.memory.next_pool();
        options.datasets.join(&options.memory, number)?;
        let flash = FlashLevel::new(
            options.flash,
            options.memory.ceiling_bytes(),
            options.clock.clone(),
            options.spawn.clone(),
        );
        let write_back = WriteBack::new(options.memory.clone());
        let pool = Pool {
            name: options.name,
            number,
            origin: metered.clone(),
            metered,
            datasets: options.datasets,
            memory: options.memory,
            clock: options.clock,
            spawn: options.spawn,
            read_only: options.read_only,
            objects: Objects::default(),
            flights: Flights::default(),
            moves: Moves::default(),
            listings: Listings::default(),
            flash: Arc::new(flash),
            write_back,
            intent: ArcSwapOption::empty(),
            lost_log: Mutex::default(),
            unlogged_txg: AtomicU64::new(0),
            pace: Pace::default(),
            flash_pace: Pace::default(),
            curve: arc::Curve::default(),
            curve_bytes: AtomicU64::new(0),
            recording: Recording::default(),
            returning: Mutex::default(),
            prefetches: AtomicU64::new(0),
            demand_fetches: AtomicU64::new(0),
            space: Mutex::default(),
            root: entry.object,
            tenants: Mutex::default(),
            renames: AtomicU64::new(0),
            invalidation: RwLock::default(),
        };
        let place = pool.place_in(None, pool.datasets.root());
        let record_bytes = place.tenant.properties().recordsize;
        let version = Version::new(entry.attributes, record_bytes, pool.now());
        pool.objects.get_or_make(entry.object, || Some(Object::new(entry.object, place, version)));
        let pool = Arc::new(pool);
        pool.memory.join(&pool);
        Ok(pool)
    }

    /// Recounts the ARC. Only while nobody uses any pool of it.
    ///
    /// # Errors
    /// What does not add up.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// pool.validate_memory().expect("what is counted is there");
    /// # Ok(()) }) }
    /// ```
    pub fn validate_memory(&self) -> std::result::Result<(), String> {
        self.memory.cache.validate()
    }

    /// The pool's name.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// assert_eq!(pool.name(), "tank");
    /// # Ok(()) }) }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The top directory. It is always in use.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// assert_ne!(found.object, pool.root());
    /// # Ok(()) }) }
    /// ```
    pub fn root(&self) -> ObjectId {
        self.root
    }

    /// The datasets with their properties. Changes take effect at the next access.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// pool.datasets().set("tank", "primarycache", "metadata")?;
    /// assert_eq!(pool.datasets().get("tank")?.len(), warmfront::PROPERTIES.len());
    /// # Ok(()) }) }
    /// ```
    pub fn datasets(&self) -> &Datasets {
        &self.datasets
    }

    /// The ARC that the pool shares with others.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// assert_eq!(pool.memory().ceiling_bytes(), 64 << 20);
    /// # Ok(()) }) }
    /// ```
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Bytes a second that a read of so many bytes gets from the origin, as of the last ones.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(pool.origin_bytes_per_second(1 << 20), None, "nothing was read there yet");
    /// pool.datasets().set("tank", "primarycache", "metadata")?;
    /// file.write(0, &vec![7; 1 << 20]).await?;
    /// file.sync(false).await?;
    /// file.read(0, 1 << 20).await?;
    /// assert!(pool.origin_bytes_per_second(1 << 20).is_some_and(|rate| rate > 0.0));
    /// # Ok(()) }) }
    /// ```
    pub fn origin_bytes_per_second(&self, bytes: u64) -> Option<f64> {
        self.pace.bytes_per_second(bytes)
    }

    /// Bytes a second that a read of so many bytes gets from flash, as of the last ones.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// assert_eq!(pool.flash_bytes_per_second(128 << 10), None, "there is no cache device");
    /// # Ok(()) }) }
    /// ```
    pub fn flash_bytes_per_second(&self, bytes: u64) -> Option<f64> {
        let rings = self.flash_statistics().rings;
        let devices = rings.iter().map(|ring| ring.read_rate_bytes).sum::<u64>() as f64;
        // What was just written is read from RAM: that is not what the devices give.
        self.flash_pace.bytes_per_second(bytes).filter(|_| devices > 0.0).map(|it| it.min(devices))
    }

    /// Whether every change is refused.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// assert!(!pool.is_read_only());
    /// # Ok(()) }) }
    /// ```
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Says who has to be told when answers given before are not valid any more.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// // `Door` counts how often it is told of an object.
    /// let door = Arc::new(Door::default());
    /// pool.set_invalidation(door.clone());
    /// pool.expire_all();
    /// assert!(door.expired.load(Ordering::Relaxed) > 0);
    /// # Ok(()) }) }
    /// ```
    pub fn set_invalidation(&self, invalidation: Arc<dyn Invalidation>) {
        *self.invalidation.write() = Some(invalidation);
    }

    /// Who has to be told.
    pub(crate) fn invalidation(&self) -> Option<Arc<dyn Invalidation>> {
        self.invalidation.read().clone()
    }

    /// Tells whoever stands above to ask for everything again: to be called after a change of
    /// properties.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let door = Arc::new(Door::default());
    /// # pool.set_invalidation(door.clone());
    /// pool.datasets().set("tank", "coherence", "exclusive")?;
    /// pool.expire_all();
    /// # assert!(door.expired.load(Ordering::Relaxed) > 0);
    /// # Ok(()) }) }
    /// ```
    pub fn expire_all(&self) {
        self.reserve_on_flash();
        let Some(invalidation) = self.invalidation() else {
            return;
        };
        for object in self.objects.all() {
            if let Some((parent, name)) = object.place().parent.clone() {
                invalidation.expire_name(parent, &name);
            }
            invalidation.expire_object(object.id);
        }
    }

    /// Tells whoever stands above that an object has changed behind everybody's back. Until its
    /// former contents are dropped there, who opens it is told to drop them.
    pub(crate) fn expire_former(&self, object: &Object) {
        let Some(invalidation) = self.invalidation() else {
            return;
        };
        invalidation.expire_attributes(object.id);
        let Some(used) = self.objects.get(object.id) else { return };
        if object.attributes().kind == Kind::File {
            used.begin_telling();
            let told = Box::new(move || used.end_telling());
            invalidation.expire_contents_later(object.id, told);
        }
    }

    /// Sees to it that whoever stands above looks a name up again, and that an open of `object`
    /// waits until that is so.
    pub(crate) fn expire_former_name(&self, object: ObjectId, parent: ObjectId, name: Arc<OsStr>) {
        let Some(invalidation) = self.invalidation() else {
            return;
        };
        let told = self.moves.begin(object);
        let told = Box::new(move || {
            let _ = told.send(());
        });
        invalidation.expire_name_later(parent, name, told);
    }

    /// Drops what is known of the names on the way to an object, after the origin has said that
    /// they lead elsewhere by now: the next look-ups ask it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let misses = || pool.statistics().counters["demand_metadata_misses"];
    /// pool.datasets().set("tank", "coherence", "exclusive")?;
    /// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// pool.distrust_path(found.object);
    /// let before = misses();
    /// pool.lookup(pool.root(), "file".as_ref()).await?;
    /// assert!(misses() > before, "the origin was asked again");
    /// # Ok(()) }) }
    /// ```
    pub fn distrust_path(&self, object: ObjectId) {
        let mut next = self.objects.get(object);
        for _ in 0..DEPTH_MAX {
            let Some(object) = next.take() else { return };
            self.distrust_name(&object);
            let parent = object.place().parent.as_ref().map(|(parent, _)| *parent);
            next = parent.and_then(|parent| self.objects.get(parent));
        }
    }

    /// Gives back `count` uses of `object`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// // It counts as used until it is given back, as often as it was found.
    /// pool.forget(found.object, 1);
    /// # Ok(()) }) }
    /// ```
    pub fn forget(&self, object: ObjectId, count: u64) {
        if object != self.root {
            self.release(object, count);
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Begins a change; fails when the pool must not be changed.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.read_only {
            return Err(EngineError::ReadOnly);
        }
        self.space_changed();
        Ok(())
    }

    /// The space that is free at the origin is asked for again.
    pub(crate) fn space_changed(&self) {
        *self.space.lock() = KnownSpace { changed_at: Some(self.now()), told: None };
    }

    /// The object, which must be in use.
    pub(crate) fn object(&self, id: ObjectId) -> Result<Arc<Object>> {
        self.objects.get(id).ok_or(EngineError::UnknownObject(id))
    }

    /// Where the object is, with the tenant that follows from it as of now.
    pub(crate) fn place_of(&self, object: &Object) -> PlaceGuard {
        let place = object.place();
        if place.epoch == self.epoch() {
            return place;
        }
        let parent = place.parent.clone();
        object.set_place(self.place_in(parent.clone(), self.cursor(parent)));
        object.place()
    }

    /// The dataset that the object belongs to now, with its counters.
    pub(crate) fn tenant(&self, object: &Object) -> Tenant {
        self.place_of(object).tenant.clone()
    }

    /// As [`tenant`](Pool::tenant), looked at for `reader`.
    pub(crate) fn tenant_for(&self, object: &Object, reader: Reader) -> Tenant {
        object.used_by(reader);
        self.tenant(object).read_by(reader)
    }

    /// The properties that hold for the object now.
    pub(crate) fn properties(&self, object: &Object) -> Properties {
        self.place_of(object).tenant.properties()
    }

    /// The place of `name` in the directory `parent`.
    pub(crate) fn place(&self, parent: &Object, name: &OsStr) -> Place {
        let cursor = self.place_of(parent).cursor.child(name);
        self.place_in(Some((parent.id, Arc::from(name))), cursor)
    }

    /// The place of an object without a name in the directory `parent`.
    pub(crate) fn unnamed_place(&self, parent: &Object) -> Place {
        Place { parent: None, ..Place::clone(&self.place_of(parent)) }
    }

    /// Says that a directory has moved, with all below it.
    pub(crate) fn directory_moved(&self) {
        self.renames.fetch_add(1, Ordering::Relaxed);
    }

    fn epoch(&self) -> u64 {
        self.datasets.epoch().wrapping_add(self.renames.load(Ordering::Relaxed))
    }

    fn place_in(&self, parent: Option<(ObjectId, Arc<OsStr>)>, cursor: DatasetCursor) -> Place {
        let tenant = self.tenant_of(cursor.dataset());
        Place { parent, cursor, tenant, epoch: self.epoch() }
    }

    /// Walks up to the root and down again to find the dataset of a name.
    fn cursor(&self, mut parent: Option<(ObjectId, Arc<OsStr>)>) -> DatasetCursor {
        let mut names = Vec::new();
        while let Some((directory, name)) = parent {
            names.push(name);
            if names.len() > DEPTH_MAX {
                return self.datasets.root();
            }
            parent = self.objects.get(directory).and_then(|object| object.place().parent.clone());
        }
        names.iter().rev().fold(self.datasets.root(), |cursor, name| cursor.child(name))
    }

    /// A dataset with the counters that it has had from its first use on.
    pub(crate) fn tenant_of(&self, dataset: Arc<Dataset>) -> Tenant {
        let mut tenants = self.tenants.lock();
        let before = tenants.len();
        let new = Tenant { dataset, counters: Arc::default(), reader: Reader::Counted };
        let tenant = tenants.entry(new.dataset.id()).or_insert(new).clone();
        if tenants.len() > before && before > 0 {
            tenants.values().for_each(|tenant| tenant.counters.curve.start());
        }
        tenant
    }

    /// The dataset with this id, if it has been used.
    pub(crate) fn tenant_with(&self, id: u32) -> Option<Tenant> {
        self.tenants.lock().get(&id).cloned()
    }

    /// Datasets that have been used, with their counters.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        self.tenants.lock().values().cloned().collect()
    }

    /// The object with one more use, and whether it was not in use before; then it starts with
    /// what `known` says, or is not made if that is nothing.
    ///
    /// One reference that the origin has counted is kept for each object in use: `known` brings it,
    /// or the caller, who then gives it back for an object that was in use before.
    pub(crate) fn use_object(
        &self,
        id: ObjectId,
        known: impl FnOnce() -> Option<(Place, Version)>,
    ) -> Option<(Arc<Object>, bool)> {
        let make = || known().map(|(place, version)| Object::new(id, place, version));
        let (object, made) = self.objects.get_or_make(id, make)?;
        if made {
            self.memory.remember(object.charged_bytes);
            if self.memory.is_crowded() && self.invalidation().is_some() {
                self.memory.settle(&*self.spawn, &self.clock);
            }
        }
        Some((object, made))
    }

    /// Takes uses away; the last one moves what is known into the ARC.
    pub(crate) fn release(&self, id: ObjectId, count: u64) {
        let keep = |object: &Object| {
            let (place, version) = (object.place(), object.version());
            if version.attributes.links > 0 && place.parent.is_some() {
                let tenant = place.tenant.clone().read_by(object.reader());
                let content = Content::Attributes(Box::new(version));
                self.keep(&tenant, id, Part::Attributes, content, true);
            } else {
                self.drop_kept(id, Part::Attributes);
            }
        };
        let Some(object) = self.objects.release(id, count, keep) else { return };
        let is_gone = object.is_gone_for_good();
        if is_gone {
            self.drop_generation(id, &object.version());
        }
        let bytes = object.charged_bytes;
        self.objects.recycle(object);
        self.origin.forget(id, 1);
        if is_gone {
            // The origin may have held it until now.
            self.space_changed();
        }
        if self.memory.forget(bytes) {
            let memory = self.memory.clone();
            self.spawn.spawn(Box::pin(async move { memory.trim() }));
        }
    }

    /// Puts a metadata answer into the ARC, as `primarycache` allows.
    pub(crate) fn keep(
        &self,
        tenant: &Tenant,
        object: ObjectId,
        part: Part<'_>,
        content: Content,
        demanded: bool,
    ) {
        self.keep_proven(tenant, object, part, content, demanded, None);
    }

    /// As [`keep`](Pool::keep), with the validator of the object under which the answer is true:
    /// flash may have it.
    pub(crate) fn keep_proven(
        &self,
        tenant: &Tenant,
        object: ObjectId,
        part: Part<'_>,
        content: Content,
        demanded: bool,
        validator: Option<u64>,
    ) {
        if tenant.properties().primarycache == CacheLevel::None {
            tenant.counters.add(Counter::UncachedPrimarycache, 1);
            self.drop_kept(object, part);
            return;
        }
        let now = self.now();
        let value = Cached::Metadata(Arc::new(Metadata { checked_at: now, content, validator }));
        let key = Key::metadata(self.number, object, part);
        let class = arc::Class::Metadata;
        let outcome = match tenant.user() {
            None => self.memory.pass(key, value, class, now),
            Some(user) => {
                let bytes = value.charged_bytes() as u64;
                let kind = if demanded { arc::Kind::Demand } else { arc::Kind::Prefetch };
                let charge = arc::Charge { bytes, class, kind, tenant: user };
                self.memory.cache.insert(key, value, charge, now).map(|_| ())
            }
        };
        self.memory.changed();
        if outcome.is_err() {
            tenant.counters.add(Counter::UncachedMetadata, 1);
            // What is kept from before is true no longer.
            self.memory.cache.remove(&key);
        }
    }

    /// A metadata answer from the ARC, however old.
    pub(crate) fn kept(
        &self,
        tenant: &Tenant,
        object: ObjectId,
        part: Part<'_>,
    ) -> Option<Arc<Metadata>> {
        let key = Key::metadata(self.number, object, part);
        match self.memory.lookup(&key, tenant.user(), self.now())?.value {
            Cached::Metadata(metadata) => Some(metadata),
            Cached::Data(_) => None,
        }
    }

    /// What the ARC has of the version of an object that is not in use, however old.
    pub(crate) fn kept_version(&self, tenant: &Tenant, object: ObjectId) -> Option<Version> {
        match &self.kept(tenant, object, Part::Attributes)?.content {
            Content::Attributes(version) => Some(**version),
            _ => None,
        }
    }

    /// Drops a metadata answer.
    pub(crate) fn drop_kept(&self, object: ObjectId, part: Part<'_>) {
        if matches!(part, Part::Listing) {
            self.listings.drop_of(object);
        }
        self.memory.cache.remove(&Key::metadata(self.number, object, part));
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let objects = self.objects.all();
        let loose = objects
            .iter()
            .filter(|object| object.id != self.root)
            .fold(false, |_, object| self.memory.forget(object.charged_bytes));
        drop(objects);
        if loose {
            self.memory.trim();
        }
        self.flash.discharge(&self.memory);
        self.memory.feeder.nudge();
    }
}
