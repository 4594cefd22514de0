mod caller;
mod descriptor_cache;
mod direct;
mod file;
mod names;
mod node_table;
mod objects;
mod stat;
mod tree;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{fstatvfs, syncfs};
use rustix::io::retry_on_intr;

use crate::origin::now;
use crate::{
    Attributes, Caller, Capabilities, Created, DirectoryEntry, Entry, Node, NodeKind, ObjectId,
    OpenMode, Origin, OriginFile, RenameFlags, Result, SetAttributes, SpaceUsage, Task, XattrMode,
};
pub use descriptor_cache::{DIRECTORIES_MAX, descriptors_for_files};
use tree::Tree;

/// How a directory is used as an origin.
///
/// ```
/// use storage::DirectoryOptions;
///
/// // For a process that may have few open files.
/// let options = DirectoryOptions { directories_max: Some(16), ..DirectoryOptions::default() };
/// assert!(options.direct && options.ownership);
/// ```
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// Look whether files can be read around the kernel's page cache. Default: yes.
    pub direct: bool,
    /// Create objects in the caller's name, where the process may. Default: yes.
    pub ownership: bool,
    /// Most directories kept open. Default: a quarter of the descriptors that the process may
    /// have, between 16 and 8192; finding this out raises the process's soft limit to the hard one.
    pub directories_max: Option<usize>,
}

impl Default for DirectoryOptions {
    fn default() -> DirectoryOptions {
        DirectoryOptions { direct: true, ownership: true, directories_max: None }
    }
}

/// A directory on any file system of this machine, used as an origin.
///
/// **Reaching objects.** An object is reached by its name in its directory, and counts as found
/// only when device, inode number and type are those it had before; else the call fails with
/// [`Stale`](crate::OriginError::Stale). Of an object with several hard links all names are tried.
/// An object that is open is reached through its open file when its names fail. No path is ever
/// put together, so that any depth works. Descriptors of directories are kept, the least recently
/// used are closed; a directory that is moved behind our back is found under its old descriptor
/// until [`attributes`](Origin::attributes) or [`lookup`](Origin::lookup) asks for it by name.
///
/// **Unreachable.** Before `ENOENT` or `ESTALE` is passed on, the path given at open must still
/// lead to the directory that is held open, else the answer is
/// [`Unreachable`](crate::OriginError::Unreachable): an origin that was unmounted, moved or removed
/// never looks like one with fewer files. The same holds for errors that only a network gives. An
/// origin that comes back as the same mount is reachable again at once; one that is mounted anew
/// must be opened anew.
///
/// **Ownership.** A process that may set ids creates in the caller's name: the thread takes the
/// caller's user, group and umask for the one call, and keeps its capabilities. It makes no check
/// of
/// permissions for the caller, and file system quotas reserved to the super-user stay open to it.
///
/// **Times of access** are what the file system makes of plain reads; `O_NOATIME` is not used, so
/// that a mount option decides.
///
/// Tasks do their system calls on the thread that polls them.
///
/// ```
/// use storage::{DirectoryOptions, DirectoryOrigin, Origin};
///
/// # storage::block_on(async {
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join("file"), "contents")?;
/// let origin = DirectoryOrigin::open(directory.path(), DirectoryOptions::default())?;
/// let root = origin.root().await?.object;
/// assert_eq!(origin.lookup(root, "file".as_ref()).await?.attributes.size, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DirectoryOrigin {
    tree: Arc<Tree>,
}

impl DirectoryOrigin {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// [`System`](crate::OriginError::System) with `ENOENT` when nothing is there, `ENOTDIR` when
    /// it is no directory, `EACCES` when it cannot be read; also when `/proc` is not mounted.
    ///
    /// ```
    /// use storage::{DirectoryOptions, DirectoryOrigin, Origin};
    ///
    /// # storage::block_on(async {
    /// let directory = tempfile::tempdir()?;
    /// let origin = DirectoryOrigin::open(directory.path(), DirectoryOptions::default())?;
    /// assert!(origin.list(origin.root().await?.object).await?.is_empty());
    /// assert!(DirectoryOrigin::open("/nowhere", DirectoryOptions::default()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: DirectoryOptions) -> Result<DirectoryOrigin> {
        Ok(DirectoryOrigin { tree: Arc::new(Tree::open(path.as_ref(), &options)?) })
    }

    /// How many open files were to be read around the page cache and could not be, although the
    /// origin as a whole can.
    ///
    /// ```
    /// use storage::{DirectoryOptions, DirectoryOrigin, Origin};
    ///
    /// # storage::block_on(async {
    /// let directory = tempfile::tempdir()?;
    /// let origin = DirectoryOrigin::open(directory.path(), DirectoryOptions::default())?;
    /// assert_eq!(origin.direct_refusals(), 0, "nothing was opened yet");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn direct_refusals(&self) -> u64 {
        self.tree.direct_refusals.load(Ordering::Relaxed)
    }
}

impl Origin for DirectoryOrigin {
    fn capabilities(&self) -> Capabilities {
        self.tree.capabilities
    }

    fn root(&self) -> Task<'_, Entry> {
        now(|| self.tree.root_entry())
    }

    fn lookup<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry> {
        now(move || self.tree.lookup(parent, name))
    }

    fn remember(&self, parent: ObjectId, name: &OsStr, entry: &Entry) {
        self.tree.remember(parent, name, entry);
    }

    fn forget(&self, object: ObjectId, count: u64) {
        self.tree.forget(object, count);
    }

    fn attributes(&self, object: ObjectId) -> Task<'_, Attributes> {
        now(move || self.tree.attributes(object))
    }

    fn set_attributes(&self, object: ObjectId, change: SetAttributes) -> Task<'_, Attributes> {
        now(move || self.tree.set_attributes(object, change))
    }

    fn list(&self, object: ObjectId) -> Task<'_, Vec<DirectoryEntry>> {
        now(move || self.tree.list(object))
    }

    fn read_link(&self, object: ObjectId) -> Task<'_, OsString> {
        now(move || self.tree.read_link(object))
    }

    fn open(&self, object: ObjectId, mode: OpenMode) -> Task<'_, Arc<dyn OriginFile>> {
        now(move || Ok(Arc::new(self.tree.open_file(object, mode)?) as Arc<dyn OriginFile>))
    }

    fn create<'a>(&'a self, node: Node<'a>, mode: OpenMode) -> Task<'a, Created> {
        now(move || self.tree.create(node, mode))
    }

    fn create_unnamed<'a>(
        &'a self,
        parent: ObjectId,
        permissions: u32,
        caller: Caller,
        mode: OpenMode,
    ) -> Task<'a, Created> {
        let node = Node { parent, name: OsStr::new(""), permissions, caller };
        now(move || self.tree.create_unnamed(node, mode))
    }

    fn make_directory<'a>(&'a self, node: Node<'a>) -> Task<'a, Entry> {
        now(move || self.tree.make_directory(node))
    }

    fn make_node<'a>(&'a self, node: Node<'a>, kind: NodeKind) -> Task<'a, Entry> {
        now(move || self.tree.make_node(node, kind))
    }

    fn symlink<'a>(&'a self, node: Node<'a>, target: &'a OsStr) -> Task<'a, Entry> {
        now(move || self.tree.symlink(node, target))
    }

    fn link<'a>(&'a self, object: ObjectId, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry> {
        now(move || self.tree.link(object, parent, name))
    }

    fn unlink<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        now(move || self.tree.unlink(parent, name))
    }

    fn remove_directory<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        now(move || self.tree.remove_directory(parent, name))
    }

    fn rename<'a>(
        &'a self,
        parent: ObjectId,
        name: &'a OsStr,
        new_parent: ObjectId,
        new_name: &'a OsStr,
        flags: RenameFlags,
    ) -> Task<'a, ()> {
        now(move || self.tree.rename(parent, name, new_parent, new_name, flags))
    }

    fn xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, Vec<u8>> {
        now(move || self.tree.xattr(object, name))
    }

    fn xattrs(&self, object: ObjectId) -> Task<'_, Vec<OsString>> {
        now(move || self.tree.xattrs(object))
    }

    fn set_xattr<'a>(
        &'a self,
        object: ObjectId,
        name: &'a OsStr,
        value: &'a [u8],
        mode: XattrMode,
    ) -> Task<'a, ()> {
        now(move || self.tree.set_xattr(object, name, value, mode))
    }

    fn remove_xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        now(move || self.tree.remove_xattr(object, name))
    }

    fn sync_directory(&self, object: ObjectId) -> Task<'_, ()> {
        now(move || self.tree.sync_directory(object))
    }

    fn sync(&self) -> Task<'_, ()> {
        now(|| {
            retry_on_intr(|| syncfs(self.tree.readable()))
                .map_err(|errno| self.tree.object_error("sync", errno))
        })
    }

    fn space(&self) -> Task<'_, SpaceUsage> {
        now(|| {
            let space = fstatvfs(&*self.tree.root)
                .map_err(|errno| self.tree.object_error("statfs", errno))?;
            Ok(SpaceUsage {
                block_size: u32::try_from(space.f_frsize).unwrap_or(u32::MAX),
                blocks: space.f_blocks,
                blocks_free: space.f_bfree,
                blocks_available: space.f_bavail,
                files: space.f_files,
                files_free: space.f_ffree,
                name_length_max: u32::try_from(space.f_namemax).unwrap_or(u32::MAX),
            })
        })
    }
}
