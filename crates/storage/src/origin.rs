use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io::{IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;

use crate::{Attributes, Kind, Result, SetAttributes};

/// A call under way at an origin.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::{Entry, Task};
///
/// let task: Task<'_, Entry> = origin.root();
/// assert_eq!(task.await?.attributes.permissions, 0o755);
/// # Ok(()) }) }
/// ```
pub type Task<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A wait that cannot fail.
///
/// ```
/// use std::time::Duration;
/// use storage::{Clock, RealClock, Wait};
///
/// let clock = RealClock::new();
/// let wait: Wait<'_> = clock.sleep(Duration::from_millis(1));
/// storage::block_on(wait);
/// ```
pub type Wait<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A task that does its whole work when it is first polled.
pub(crate) fn now<'a, T>(call: impl FnOnce() -> Result<T> + Send + 'a) -> Task<'a, T> {
    Box::pin(async move { call() })
}

/// Names one object of an origin for as long as the origin exists.
///
/// For a directory it is the inode number (objects on other file systems mounted below it get ids
/// of their own), so that it is the same again after a restart and on another machine. The id of a
/// deleted object may come back for a new one: the new one's [`Validator`](crate::Validator)
/// differs.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// assert_ne!(origin.root().await?.object, created.entry.object);
/// println!("object {}", created.entry.object.0);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u64);

bitflags::bitflags! {
    /// What an origin can do beyond reading and writing whole objects.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::Capabilities;
    ///
    /// assert!(origin.capabilities().contains(Capabilities::WRITE | Capabilities::XATTRS));
    /// # Ok(()) }) }
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// Hard links.
        const LINKS = 1 << 0;
        /// Extended attributes.
        const XATTRS = 1 << 1;
        /// Objects can be changed in place.
        const WRITE = 1 << 2;
        /// Reads bypass the kernel's page cache (`O_DIRECT`).
        const DIRECT = 1 << 3;
        /// The call's user becomes the owner of what is created.
        const OWNERSHIP = 1 << 4;
    }
}

/// On whose behalf an object is created.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let caller = Caller { uid: 1000, gid: 100, umask: 0o022 };
/// let parent = origin.root().await?.object;
/// let node = Node { parent, name: "a".as_ref(), permissions: 0o777, caller };
/// let made = origin.make_directory(node).await?.attributes;
/// assert_eq!((made.uid, made.gid, made.permissions), (1000, 100, 0o755));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// File mode creation mask; ignored where the directory has a default ACL.
    pub umask: u32,
}

/// An object as a look-up found it.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let root = origin.root().await?.object;
/// let entry = origin.lookup(root, "file".as_ref()).await?;
/// assert_eq!((entry.object, entry.attributes.size), (created.entry.object, 8));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which object.
    pub object: ObjectId,
    /// Its attributes at that moment.
    pub attributes: Attributes,
}

/// A name in a directory.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let listed = origin.list(origin.root().await?.object).await?;
/// assert_eq!(listed[0].name, "file");
/// assert_eq!(listed[0].object, created.entry.object);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name; never `.` or `..`.
    pub name: OsString,
    /// The object's id, as `d_ino` tells it. Zero where the listing does not say.
    pub object: ObjectId,
    /// The object's type, where the listing says it.
    pub kind: Option<Kind>,
}

/// A file that was created and opened in one step.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let parent = origin.root().await?.object;
/// let node = Node { parent, name: "new".as_ref(), permissions: 0o644, caller: CALLER };
/// let created = origin.create(node, READ_WRITE).await?;
/// created.file.write(0, b"new").await?;
/// assert_eq!(origin.attributes(created.entry.object).await?.size, 3);
/// # Ok(()) }) }
/// ```
pub struct Created {
    /// The new object.
    pub entry: Entry,
    /// The open file.
    pub file: Arc<dyn OriginFile>,
}

/// What `make_node` makes.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::{Kind, NodeKind};
///
/// let parent = origin.root().await?.object;
/// let node = Node { parent, name: "pipe".as_ref(), permissions: 0o644, caller: CALLER };
/// let made = origin.make_node(node, NodeKind::Fifo).await?;
/// assert_eq!(made.attributes.kind, Kind::Fifo);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Empty regular file.
    File,
    /// Named pipe.
    Fifo,
    /// Unix domain socket.
    Socket,
    /// Character device with this device number.
    CharacterDevice(u64),
    /// Block device with this device number.
    BlockDevice(u64),
}

/// A name to be made in a directory.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let parent = origin.root().await?.object;
/// let node = Node { parent, name: "a".as_ref(), permissions: 0o755, caller: CALLER };
/// let below = Node { parent: origin.make_directory(node).await?.object, ..node };
/// origin.make_directory(below).await?;
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The directory.
    pub parent: ObjectId,
    /// The new name.
    pub name: &'a OsStr,
    /// Permission bits before the mask, `0o7777` at most.
    pub permissions: u32,
    /// Who asks.
    pub caller: Caller,
}

/// How a file is opened.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let mode = OpenMode { read: true, ..OpenMode::default() };
/// let file = origin.open(created.entry.object, mode).await?;
/// assert_eq!(file.read(0, &mut [IoSliceMut::new(&mut [0; 100])]).await?, 8);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Cut to zero bytes on opening.
    pub truncate: bool,
    /// Bypass the kernel's page cache for reads, where the origin can.
    pub direct: bool,
    /// Each write is durable when it returns (`O_SYNC`; `O_DSYNC` is served as well by it).
    pub sync: bool,
}

bitflags::bitflags! {
    /// How a rename treats what is there.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::RenameFlags;
    ///
    /// let root = origin.root().await?.object;
    /// let (file, new) = ("file".as_ref(), "new".as_ref());
    /// origin.rename(root, file, root, new, RenameFlags::NO_REPLACE).await?;
    /// assert!(origin.lookup(root, file).await.is_err());
    /// # Ok(()) }) }
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Fail with `EEXIST` when the new name exists.
        const NO_REPLACE = 1;
        /// Swap the two names.
        const EXCHANGE = 2;
        /// Leave a whiteout under the old name.
        const WHITEOUT = 4;
    }
}

/// What `allocate` does with a range: the modes of `fallocate(2)`.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::Allocation;
///
/// // Mode 0 makes the file longer.
/// created.file.allocate(Allocation { mode: 0, offset: 0, length: 4096 }).await?;
/// assert_eq!(created.file.attributes().await?.size, 4096);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The mode bits of `fallocate(2)`, passed through unchanged.
    pub mode: u32,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// What `seek` looks for.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::SeekFrom;
///
/// assert_eq!(created.file.seek(SeekFrom::Data(0)).await?, 0);
/// assert_eq!(created.file.seek(SeekFrom::Hole(0)).await?, 8, "the end counts as a hole");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekFrom {
    /// The next data at or after the offset (`SEEK_DATA`).
    Data(u64),
    /// The next hole at or after the offset (`SEEK_HOLE`).
    Hole(u64),
}

/// How an extended attribute is set.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::XattrMode;
///
/// let (object, name) = (created.entry.object, "user.colour".as_ref());
/// origin.set_xattr(object, name, b"red", XattrMode::Create).await?;
/// assert!(origin.set_xattr(object, name, b"blue", XattrMode::Create).await.is_err());
/// origin.set_xattr(object, name, b"blue", XattrMode::Replace).await?;
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// Fail with `EEXIST` when it exists.
    Create,
    /// Fail with `ENODATA` when it does not.
    Replace,
}

/// What `statfs` tells of an origin.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let space = origin.space().await?;
/// println!("{} bytes free", space.blocks_available * u64::from(space.block_size));
/// assert!(space.blocks_free <= space.blocks);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceUsage {
    /// Bytes in a block, the unit of the counts below.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks free.
    pub blocks_free: u64,
    /// Blocks free for ordinary users.
    pub blocks_available: u64,
    /// Objects in all.
    pub files: u64,
    /// Objects that can still be made.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_length_max: u32,
}

/// The slow storage in front of which a pool stands.
///
/// Objects are named by [`ObjectId`]s that come out of [`root`](Origin::root),
/// [`lookup`](Origin::lookup) and the calls that create. Each of these counts one reference, which
/// [`forget`](Origin::forget) gives back; an id without references may be unknown to later calls.
///
/// Every call may fail with [`OriginError`](crate::OriginError). A name that does not exist is
/// `ENOENT` only when the origin is known to be there.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// async fn bytes(origin: &dyn Origin) -> storage::Result<u64> {
///     let root = origin.root().await?.object;
///     let mut bytes = 0;
///     for listed in origin.list(root).await? {
///         let entry = origin.lookup(root, &listed.name).await?;
///         bytes += entry.attributes.size;
///         origin.forget(entry.object, 1);
///     }
///     Ok(bytes)
/// }
/// assert_eq!(bytes(&*origin).await?, 8);
/// # Ok(()) }) }
/// ```
pub trait Origin: Send + Sync {
    /// What this origin can do.
    fn capabilities(&self) -> Capabilities;

    /// The top directory. Counts a reference.
    fn root(&self) -> Task<'_, Entry>;

    /// Finds `name` in the directory `parent`. Counts a reference.
    fn lookup<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry>;

    /// Counts a reference to an object that an earlier look-up found as `name` in `parent`,
    /// without asking whether it is still there.
    ///
    /// Later calls on the object fail with [`Stale`](crate::OriginError::Stale) when it is not.
    fn remember(&self, parent: ObjectId, name: &OsStr, entry: &Entry);

    /// Gives back `count` references to `object`.
    fn forget(&self, object: ObjectId, count: u64);

    /// Present attributes of `object`.
    ///
    /// Fails with [`Stale`](crate::OriginError::Stale) when the name it was found under now leads
    /// to another object.
    fn attributes(&self, object: ObjectId) -> Task<'_, Attributes>;

    /// Changes attributes and returns the new ones.
    fn set_attributes(&self, object: ObjectId, change: SetAttributes) -> Task<'_, Attributes>;

    /// All names in the directory `object`, without `.` and `..`, in the origin's order.
    fn list(&self, object: ObjectId) -> Task<'_, Vec<DirectoryEntry>>;

    /// The target of a symbolic link.
    fn read_link(&self, object: ObjectId) -> Task<'_, OsString>;

    /// Opens a regular file.
    fn open(&self, object: ObjectId, mode: OpenMode) -> Task<'_, Arc<dyn OriginFile>>;

    /// Creates and opens a regular file; fails with `EEXIST` when the name exists.
    fn create<'a>(&'a self, node: Node<'a>, mode: OpenMode) -> Task<'a, Created>;

    /// Creates and opens a file without a name in the directory `parent` (`O_TMPFILE`).
    fn create_unnamed<'a>(
        &'a self,
        parent: ObjectId,
        permissions: u32,
        caller: Caller,
        mode: OpenMode,
    ) -> Task<'a, Created>;

    /// Makes a directory.
    fn make_directory<'a>(&'a self, node: Node<'a>) -> Task<'a, Entry>;

    /// Makes a special file or an empty regular one.
    fn make_node<'a>(&'a self, node: Node<'a>, kind: NodeKind) -> Task<'a, Entry>;

    /// Makes a symbolic link to `target`. The permissions of `node` are ignored.
    fn symlink<'a>(&'a self, node: Node<'a>, target: &'a OsStr) -> Task<'a, Entry>;

    /// Makes a further name for `object`. Counts a reference.
    fn link<'a>(&'a self, object: ObjectId, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry>;

    /// Removes a name that is not a directory's.
    fn unlink<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()>;

    /// Removes an empty directory.
    fn remove_directory<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()>;

    /// Moves a name.
    fn rename<'a>(
        &'a self,
        parent: ObjectId,
        name: &'a OsStr,
        new_parent: ObjectId,
        new_name: &'a OsStr,
        flags: RenameFlags,
    ) -> Task<'a, ()>;

    /// The value of an extended attribute.
    fn xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, Vec<u8>>;

    /// The names of all extended attributes.
    fn xattrs(&self, object: ObjectId) -> Task<'_, Vec<OsString>>;

    /// Sets an extended attribute.
    fn set_xattr<'a>(
        &'a self,
        object: ObjectId,
        name: &'a OsStr,
        value: &'a [u8],
        mode: XattrMode,
    ) -> Task<'a, ()>;

    /// Removes an extended attribute.
    fn remove_xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, ()>;

    /// Makes a directory's names durable.
    fn sync_directory(&self, object: ObjectId) -> Task<'_, ()>;

    /// Makes everything durable that was changed through this origin.
    fn sync(&self) -> Task<'_, ()>;

    /// Space in all and free.
    fn space(&self) -> Task<'_, SpaceUsage>;
}

/// An open regular file of an origin.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let file: Arc<dyn OriginFile> = created.file;
/// assert_eq!(file.append(b", and more").await?, 8);
/// file.sync(false).await?;
/// let mut all = [0; 18];
/// file.read(0, &mut [IoSliceMut::new(&mut all)]).await?;
/// assert_eq!(&all, b"contents, and more");
/// # Ok(()) }) }
/// ```
pub trait OriginFile: Send + Sync {
    /// Reads at `offset` into `buffers` until they are full or the file ends, and returns the
    /// number of bytes read. A short count means the end of the file, never an interruption.
    ///
    /// With [`Capabilities::DIRECT`] the offset, the buffers' addresses and their lengths are
    /// multiples of 4096; anything else is read through the page cache.
    fn read<'a>(&'a self, offset: u64, buffers: &'a mut [IoSliceMut<'_>]) -> Task<'a, usize>;

    /// Writes all of `data` at `offset`. On an error nothing is known about the range.
    fn write<'a>(&'a self, offset: u64, data: &'a [u8]) -> Task<'a, ()>;

    /// Writes all of `slices`, one behind the other, from `offset` on. On an error nothing is known
    /// about the range.
    fn write_vectored<'a>(&'a self, offset: u64, slices: &'a [IoSlice<'_>]) -> Task<'a, ()> {
        Box::pin(async move {
            let mut offset = offset;
            for slice in slices {
                self.write(offset, slice).await?;
                offset = offset.saturating_add(slice.len() as u64);
            }
            Ok(())
        })
    }

    /// Appends all of `data` and returns the offset at which it landed, in one atomic step.
    fn append<'a>(&'a self, data: &'a [u8]) -> Task<'a, u64>;

    /// Makes the contents durable, with the attributes unless `data_only`.
    fn sync(&self, data_only: bool) -> Task<'_, ()>;

    /// Present attributes, also of a file that has no name any more.
    fn attributes(&self) -> Task<'_, Attributes>;

    /// Changes attributes, also of a file that has no name any more, and returns the new ones.
    fn set_attributes(&self, change: SetAttributes) -> Task<'_, Attributes>;

    /// Reserves, releases or moves space: `fallocate(2)`.
    fn allocate(&self, allocation: Allocation) -> Task<'_, ()>;

    /// Whether the file may become as long as so many bytes, as far as can be told without trying.
    fn may_reach(&self, bytes: u64) -> bool {
        let _ = bytes;
        true
    }

    /// Finds data or a hole. Fails with `ENXIO` past the end.
    fn seek(&self, from: SeekFrom) -> Task<'_, u64>;

    /// Copies up to `length` bytes from `source` at `source_offset` to this file at `offset`
    /// within the origin, and returns how many.
    ///
    /// Fails with [`Unsupported`](crate::OriginError::Unsupported) when `source` is of another
    /// origin.
    fn copy_from<'a>(
        &'a self,
        source: &'a dyn OriginFile,
        source_offset: u64,
        offset: u64,
        length: u64,
    ) -> Task<'a, u64>;

    /// This file as itself, so that [`copy_from`](OriginFile::copy_from) can recognise its own.
    fn as_any(&self) -> &dyn std::any::Any;
}
