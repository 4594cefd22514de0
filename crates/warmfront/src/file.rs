use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use storage::{
    Attributes, Caller, Created, Node, ObjectId, OpenMode, OriginError, OriginFile, SeekFrom,
    SetAttributes,
};
use zil::Record;

use crate::error::{EngineError, Result};
use crate::intent::{MadeKind, place};
use crate::key::Key;
use crate::lookup::Found;
use crate::names::NAMES;
use crate::object::{Layout, Object, Tenant};
use crate::pool::Pool;
use crate::property::{Coherence, Properties, WriteMode};
use crate::reader::Reader;
use crate::version::Version;

/// Records of a version that are dropped one by one when it ends; of a longer object the rest is
/// left to be evicted, since nothing can reach it any more.
const DROP_RECORDS_MAX: u64 = 1 << 16;

/// What the kernel may keep of a file's pages above the ARC.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// use warmfront::KernelCache;
///
/// pool.datasets().set("tank", "pagecache", "on")?;
/// let file = pool.open_file(found.object, READ_WRITE).await?;
/// match file.kernel_cache() {
///     KernelCache::Bypass => println!("read past the kernel's pages"),
///     KernelCache::Keep => println!("read through the kernel's pages"),
///     KernelCache::Refresh => println!("drop the kernel's pages first"),
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelCache {
    /// None: every read comes here.
    Bypass,
    /// What it has is still right.
    Keep,
    /// It may keep pages, but what it has is to be dropped.
    Refresh,
}

/// An open file of a pool.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.write(0, b"C").await?;
/// assert_eq!(file.read(0, 8).await?.to_vec(), b"Contents");
/// file.close().await?;
/// # Ok(()) }) }
/// ```
pub struct OpenFile {
    pub(crate) pool: Arc<Pool>,
    pub(crate) object: Arc<Object>,
    /// The file at the origin; empty until somebody needs it, where the open is postponed.
    file: OnceLock<Arc<dyn OriginFile>>,
    mode: OpenMode,
    kernel_cache: KernelCache,
    /// Who has opened it.
    pub(crate) reader: Reader,
    /// Each write lasts when it returns.
    syncs: bool,
    /// Failed writes of the file that its holder has been told of.
    failures_told: AtomicU64,
}

impl Pool {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`EngineError::is_stale`] when its name now leads to another object.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(file.read(0, 3).await?.to_vec(), b"con");
    /// # Ok(()) }) }
    /// ```
    pub async fn open_file(
        self: &Arc<Self>,
        id: ObjectId,
        mode: OpenMode,
    ) -> Result<Arc<OpenFile>> {
        self.open_file_for(Reader::Counted, id, mode).await
    }

    /// As [`open_file`](Pool::open_file), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`open_file`](Pool::open_file).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// use warmfront::Reader;
    ///
    /// // A backup: what it reads does not push out what others use.
    /// let file = pool.open_file_for(Reader::Passing, found.object, READ_WRITE).await?;
    /// assert_eq!(file.read(0, 8).await?.to_vec(), b"contents");
    /// # Ok(()) }) }
    /// ```
    pub async fn open_file_for(
        self: &Arc<Self>,
        reader: Reader,
        id: ObjectId,
        mode: OpenMode,
    ) -> Result<Arc<OpenFile>> {
        if mode.write || mode.truncate {
            self.writable()?;
        }
        let object = &self.object(id)?;
        object.used_by(reader);
        self.moves.told(id).await;
        let properties = self.properties(object);
        let coherence = properties.coherence;
        if coherence == Coherence::Open || !object.version().is_trusted(coherence, self.now()) {
            self.check_name(object).await?;
        }
        let mode = OpenMode { direct: properties.directio, ..mode };
        let only_reads = !mode.write && !mode.truncate;
        if only_reads && coherence == Coherence::Exclusive {
            // Nobody else can take the file away, so what is cached needs no open at the origin.
            let opened = self.opened(reader, id, None, mode, &properties)?;
            object.postpone(&opened);
            return Ok(opened);
        }
        if mode.truncate {
            let _all = object.ranges.exclusive(0..u64::MAX).await;
            let layout = self.layout(object, properties.recordsize);
            let change = self.change_contents(object, &layout, 0..layout.size).await?;
            self.drop_generation(object.id, &object.version());
            let file = {
                let _contents = object.dirty.turn.lock().await;
                let file = self.origin.open(object.id, at_origin(mode)).await;
                if file.is_ok() {
                    self.cut(object, 0).await;
                }
                file
            };
            drop(change);
            let opened = self.opened(reader, id, Some(file?), mode, &properties)?;
            self.adopt(object, &opened).await.map(|()| opened)
        } else {
            match self.origin.open(object.id, at_origin(mode)).await {
                Ok(file) => self.opened(reader, id, Some(file), mode, &properties),
                // What is cached may still be believed, and is better than nothing.
                Err(error)
                    if error.is_unreachable()
                        && only_reads
                        && matches!(coherence, Coherence::Ttl(_)) =>
                {
                    self.opened(reader, id, None, mode, &properties)
                }
                Err(error) => {
                    self.distrust_name(object);
                    Err(error.into())
                }
            }
        }
    }

    /// Makes and opens a regular file.
    ///
    /// # Errors
    /// `EEXIST` when the name exists; else as the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let name = "new".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// let (found, file) = pool.create_file(node, READ_WRITE).await?;
    /// file.write(0, b"new").await?;
    /// assert_eq!(file.object(), found.object);
    /// # Ok(()) }) }
    /// ```
    pub async fn create_file(
        self: &Arc<Self>,
        node: Node<'_>,
        mode: OpenMode,
    ) -> Result<(Found, Arc<OpenFile>)> {
        self.create_file_for(Reader::Counted, node, mode).await
    }

    /// As [`create_file`](Pool::create_file), for somebody whose use may not count.
    ///
    /// # Errors
    /// As [`create_file`](Pool::create_file).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::Reader;
    ///
    /// let name = "new".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o644, caller: CALLER };
    /// let (found, file) = pool.create_file_for(Reader::Passing, node, READ_WRITE).await?;
    /// assert_eq!((file.object(), found.attributes.size), (found.object, 0));
    /// # Ok(()) }) }
    /// ```
    pub async fn create_file_for(
        self: &Arc<Self>,
        reader: Reader,
        node: Node<'_>,
        mode: OpenMode,
    ) -> Result<(Found, Arc<OpenFile>)> {
        let directory = self.directory_to_change(node.parent)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[crate::key::Part::Listing]).await?;
        let properties = self.place(&directory, node.name).tenant.properties();
        let mode = OpenMode { direct: properties.directio, ..mode };
        let (entry, file) = match self.origin.create(node, at_origin(mode)).await {
            Ok(Created { entry, file }) => (Ok(entry), Some(file)),
            Err(error) => (Err(error), None),
        };
        let found = self.made(&directory, node.name, entry, MadeKind::File).await?;
        self.object(found.object)?.set_without_capability(true);
        Ok((found, self.opened(reader, found.object, file, mode, &properties)?))
    }

    /// Makes and opens a regular file that has no name.
    ///
    /// # Errors
    /// As the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let root = pool.root();
    /// let (found, file) = pool.create_unnamed(root, 0o600, CALLER, READ_WRITE).await?;
    /// file.write(0, b"nobody can open this by a name").await?;
    /// pool.link(found.object, root, "now they can".as_ref()).await?;
    /// # Ok(()) }) }
    /// ```
    pub async fn create_unnamed(
        self: &Arc<Self>,
        parent: ObjectId,
        permissions: u32,
        caller: Caller,
        mode: OpenMode,
    ) -> Result<(Found, Arc<OpenFile>)> {
        let directory = self.directory_to_change(parent)?;
        let properties = self.properties(&directory);
        let mode = OpenMode { direct: properties.directio, ..mode };
        let Created { entry, file } =
            self.origin.create_unnamed(parent, permissions, caller, at_origin(mode)).await?;
        let found = self.take_in_at(self.unnamed_place(&directory), Reader::Counted, entry).await?;
        let opened = self.opened(Reader::Counted, found.object, Some(file), mode, &properties);
        Ok((found, opened?))
    }

    /// Opens at the origin what is open here and postponed, before the name or the permissions
    /// change that the open needs.
    pub(crate) async fn open_postponed(&self, object: &Object) {
        for file in object.take_postponed() {
            if let Err(error) = file.origin_file().await {
                tracing::warn!(object = object.id.0, %error, "a postponed open failed");
            }
        }
    }

    /// The open file, with a use of its object that it keeps.
    fn opened(
        self: &Arc<Self>,
        reader: Reader,
        id: ObjectId,
        file: Option<Arc<dyn OriginFile>>,
        mode: OpenMode,
        properties: &Properties,
    ) -> Result<Arc<OpenFile>> {
        let object = self.objects.get_used(id).ok_or(EngineError::UnknownObject(id))?;
        // Nobody asks before each read whether pages are still right.
        let is_timed = matches!(properties.coherence, Coherence::Ttl(_));
        let kernel_cache = match properties.pagecache && !is_timed {
            false => KernelCache::Bypass,
            true if object.has_former_contents() => KernelCache::Refresh,
            true => KernelCache::Keep,
        };
        let file = file.map_or_else(OnceLock::new, OnceLock::from);
        object.opens.fetch_add(1, Ordering::SeqCst);
        let failures_told = AtomicU64::new(object.dirty.failures_told());
        let syncs = mode.sync && mode.write;
        Ok(Arc::new(OpenFile {
            pool: self.clone(),
            object,
            file,
            mode: at_origin(mode),
            kernel_cache,
            reader,
            syncs,
            failures_told,
        }))
    }

    /// How the contents of an object are cut into records now. If that has just changed, drops the
    /// former records.
    pub(crate) fn layout(&self, object: &Object, record_bytes: u64) -> Layout {
        let (layout, former) = object.layout(record_bytes);
        if let Some(former) = former {
            self.drop_generation(object.id, &former);
        }
        layout
    }

    /// Drops all records of a version.
    pub(crate) fn drop_generation(&self, id: ObjectId, version: &Version) {
        let records = version.attributes.size.div_ceil(version.record_bytes);
        for number in 0..records.min(DROP_RECORDS_MAX) {
            let key = Key::record(self.number, id, version.generation, number);
            self.memory.cache.remove(&key);
        }
    }

    /// Changes the size, and whatever else `change` says.
    pub(crate) async fn resize(
        self: &Arc<Self>,
        object: &Arc<Object>,
        file: Option<&OpenFile>,
        size: u64,
        change: SetAttributes,
    ) -> Result<()> {
        let _all = object.ranges.exclusive(0..u64::MAX).await;
        self.check_before_change(object, file).await?;
        let layout = self.layout(object, self.properties(object).recordsize);
        let from = size.min(layout.size).saturating_sub(1);
        let under_way = self.change_contents(object, &layout, from..layout.size.max(size)).await?;
        let version = object.version();
        self.drop_from(object.id, &version, size.min(version.attributes.size));
        let _contents = object.dirty.turn.lock().await;
        let _turn = object.attributes_turn.lock().await;
        let seen = self.change_attributes(object, file, change).await;
        drop(under_way);
        let seen = seen?;
        self.cut(object, size).await;
        object.dirty.set_modified(seen.modified);
        object.update(|version| {
            version.set_ahead(Some(size), Some(seen.modified));
            version.adopt(seen, self.now());
        });
        Ok(())
    }

    /// After the origin has cut a file to `size` bytes, or extended it, in the turn of its
    /// contents: forgets what was dirty behind that, and tells the log.
    async fn cut(self: &Arc<Self>, object: &Object, size: u64) {
        object.dirty.remove(size..u64::MAX);
        object.update(|version| version.set_ahead(Some(size), None));
        if self.intent().is_some() && self.logs_contents(object) {
            object.dirty.touched(self.write_back.txgs.open());
            if let Some(path) = self.path_for_log(object) {
                let record = Record::Truncate { file: place(object, &path), size };
                self.log_change_of(object, &record).await;
            }
        } else {
            self.unlogged();
        }
    }

    /// Whether changes of the contents of an object go to the log.
    pub(crate) fn logs_contents(&self, object: &Object) -> bool {
        self.properties(object).write == WriteMode::Back
    }

    /// Drops the records of a version that hold any byte from `offset` on.
    pub(crate) fn drop_from(&self, id: ObjectId, version: &Version, offset: u64) {
        let first = offset / version.record_bytes;
        let end = version.attributes.size.div_ceil(version.record_bytes);
        if end.saturating_sub(first) > DROP_RECORDS_MAX {
            // Too many to look for: give up the version, and with it whatever is cached before.
            if let Some(object) = self.objects.get(id) {
                object.update(|version| version.renew(version.record_bytes));
            }
            return;
        }
        for number in first..end {
            let key = Key::record(self.number, id, version.generation, number);
            self.memory.cache.remove(&key);
        }
    }
}

impl OpenFile {
    /// Which object this is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(file.object(), found.object);
    /// # Ok(()) }) }
    /// ```
    pub fn object(&self) -> ObjectId {
        self.object.id
    }

    /// What the kernel may keep of the file.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// use warmfront::KernelCache;
    ///
    /// assert_eq!(file.kernel_cache(), KernelCache::Bypass, "pagecache=off is the default");
    /// # Ok(()) }) }
    /// ```
    pub fn kernel_cache(&self) -> KernelCache {
        self.kernel_cache
    }

    /// Makes the contents durable at the origin, with the attributes unless `data_only`.
    ///
    /// # Errors
    /// When the origin could not make them so.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// file.sync(false).await?;
    /// assert!(!pool.is_dirty(), "the origin has it");
    /// # Ok(()) }) }
    /// ```
    pub async fn sync(&self, data_only: bool) -> Result<()> {
        let synced = self.pool.sync_object(self, data_only).await;
        self.tell_failure()?;
        synced
    }

    /// Whether it is a log that makes what is written last.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert!(!file.lasts_by_log(), "there is no log device yet");
    /// # add_log(&pool).await?;
    /// assert!(file.lasts_by_log(), "now there is one");
    /// # Ok(()) }) }
    /// ```
    pub fn lasts_by_log(&self) -> bool {
        self.tenant().properties().write == WriteMode::Back && self.pool.lasts_by_log()
    }

    /// One of those who share the open file lets go of it. Where others may look at the origin,
    /// it has everything afterwards.
    ///
    /// # Errors
    /// When something that was written before did not get to the origin.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// // Tells what could not be written, if anything.
    /// file.close().await?;
    /// # Ok(()) }) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        let coherence = self.tenant().properties().coherence;
        if self.mode.write && coherence != Coherence::Exclusive && !self.object.is_nameless() {
            self.pool.write_out(&self.object).await?;
            self.pool.outdate_log(&self.object).await?;
        }
        self.tell_failure()
    }

    /// Tells, once, that a write which was acknowledged did not get to the origin.
    fn tell_failure(&self) -> Result<()> {
        self.object.dirty.tell_failure(&self.failures_told)
    }

    /// Whether each write lasts when it returns.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let mode = OpenMode { sync: true, ..READ_WRITE };
    /// assert!(pool.open_file(found.object, mode).await?.syncs(), "as with O_SYNC");
    /// # Ok(()) }) }
    /// ```
    pub fn syncs(&self) -> bool {
        self.syncs
    }

    /// Finds data or a hole.
    ///
    /// # Errors
    /// `ENXIO` past the end.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// use warmfront::storage::SeekFrom;
    ///
    /// // Behind the contents lies the end, which counts as a hole.
    /// assert_eq!(file.seek(SeekFrom::Hole(0)).await?, 8);
    /// # Ok(()) }) }
    /// ```
    pub async fn seek(&self, from: SeekFrom) -> Result<u64> {
        self.pool.write_out(&self.object).await?;
        Ok(self.origin_file().await?.seek(from).await?)
    }

    /// The file at the origin, opened now if that was postponed.
    pub(crate) async fn origin_file(&self) -> Result<&dyn OriginFile> {
        Ok(&**self.shared_origin_file().await?)
    }

    /// As [`origin_file`](OpenFile::origin_file), to be kept beyond the life of this.
    pub(crate) async fn shared_origin_file(&self) -> Result<&Arc<dyn OriginFile>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = self.pool.origin.open(self.object.id, self.mode).await;
        let file = file.inspect_err(|error| {
            if matches!(error, OriginError::Stale { .. }) {
                self.pool.disprove(&self.object);
            }
        })?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Whether the file is open at the origin.
    pub(crate) fn is_open_at_origin(&self) -> bool {
        self.file.get().is_some()
    }

    /// Whether it is open for writing.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let mode = OpenMode { read: true, ..OpenMode::default() };
    /// assert!(!pool.open_file(found.object, mode).await?.is_writable());
    /// # Ok(()) }) }
    /// ```
    pub fn is_writable(&self) -> bool {
        self.mode.write
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.pool.tenant(&self.object).read_by(self.reader)
    }

    /// Whether what is read through it counts as use.
    pub(crate) fn promotes(&self, properties: &Properties) -> bool {
        self.reader.promotes(properties)
    }

    pub(crate) fn key(&self, layout: &Layout, number: u64) -> Key {
        Key::record(self.pool.number, self.object.id, layout.generation, number)
    }

    /// Attributes as known after the last change.
    pub(crate) fn attributes(&self) -> Attributes {
        self.object.attributes()
    }
}

/// How a file is opened at the origin. What has to last at once is seen to after each write, by
/// the log if there is one.
fn at_origin(mode: OpenMode) -> OpenMode {
    OpenMode { sync: false, ..mode }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.object.opens.fetch_sub(1, Ordering::SeqCst);
        if self.object.is_orphan() {
            self.pool.discard(&self.object);
        }
        self.pool.release(self.object.id, 1);
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenFile").field("object", &self.object.id).finish_non_exhaustive()
    }
}
