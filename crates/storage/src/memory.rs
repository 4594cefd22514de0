mod contents;
mod crash;
mod file;
mod history;
mod state;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::origin::now;
use crate::{
    Attributes, Caller, Capabilities, Created, DirectoryEntry, Entry, Kind, Node, NodeKind,
    ObjectId, OpenMode, Origin, OriginError, OriginFile, RenameFlags, Result, SetAttributes,
    SpaceUsage, Task, XattrMode,
};
use contents::Contents;
pub use crash::{CrashOrigin, OriginCrashes};
use file::MemoryFile;
use history::{Extent, Store};
use state::{Body, ROOT, State};

/// An origin in memory, for tests: complete, and quick enough that nothing else is measured.
///
/// Objects are found by id whatever their names do, and ids never come back unless [it is made
/// so](MemoryOrigin::reusing_ids); an object without a name and without an open file is
/// [`Stale`](crate::OriginError::Stale). Permissions are kept and not checked. Each change takes a
/// new time, one nanosecond after the last one, so that runs are alike; reading leaves the time of
/// access alone.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let root = origin.root().await?.object;
/// assert_eq!(origin.lookup(root, "file".as_ref()).await?.object, created.entry.object);
/// // Its clones are the same origin.
/// let same = MemoryOrigin::clone(&origin);
/// assert_eq!(same.list(root).await?.len(), 1);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone)]
pub struct MemoryOrigin {
    store: Arc<Mutex<Store>>,
}

impl MemoryOrigin {
    /// An origin that holds an empty top directory with permissions `0o755`.
    ///
    /// ```
    /// use storage::{MemoryOrigin, Origin};
    ///
    /// let root = storage::block_on(MemoryOrigin::new().root())?;
    /// assert_eq!(root.attributes.permissions, 0o755);
    /// # Ok::<(), storage::OriginError>(())
    /// ```
    pub fn new() -> MemoryOrigin {
        MemoryOrigin::of(Store::new(State::new(false)))
    }

    /// One that gives a new object the smallest id that is free, as many file systems do.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// let origin = MemoryOrigin::reusing_ids();
    /// let parent = origin.root().await?.object;
    /// let node = Node { parent, name: "a".as_ref(), permissions: 0o755, caller: CALLER };
    /// let first = origin.make_directory(node).await?.object;
    /// origin.remove_directory(parent, "a".as_ref()).await?;
    /// origin.forget(first, 1);
    /// let second = origin.make_directory(Node { name: "b".as_ref(), ..node }).await?.object;
    /// assert_eq!(first, second);
    /// # Ok(()) }) }
    /// ```
    pub fn reusing_ids() -> MemoryOrigin {
        MemoryOrigin::of(Store::new(State::new(true)))
    }

    fn of(store: Store) -> MemoryOrigin {
        MemoryOrigin { store: Arc::new(Mutex::new(store)) }
    }

    /// Runs a call under the lock.
    fn call<'a, T: 'a>(
        &'a self,
        operation: &'static str,
        call: impl FnOnce(&State) -> rustix::io::Result<T> + Send + 'a,
    ) -> Task<'a, T> {
        now(move || call(&self.store.lock().state).map_err(|errno| error(operation, errno)))
    }

    /// Runs a call that changes something under the lock.
    fn change<'a, T: 'a>(
        &'a self,
        operation: &'static str,
        extent: Extent,
        step: impl Fn(&mut State) -> rustix::io::Result<T> + Send + 'static,
    ) -> Task<'a, T> {
        let change = move || self.store.lock().change(extent, step);
        now(move || change().map_err(|errno| error(operation, errno)))
    }

    fn make_file(&self, node: Node<'_>, name: Option<&OsStr>, mode: OpenMode) -> Result<Created> {
        let Node { parent, permissions, caller, .. } = node;
        let name = name.map(OsStr::to_owned);
        let make = move |state: &mut State| {
            let body = Body::File(Contents::default());
            state.make(parent, name.as_deref(), body, permissions, caller)
        };
        let made = self.store.lock().change(Extent::Made, make);
        let entry = made.map_err(|errno| error("create", errno))?;
        let file = MemoryFile::new(&self.store, entry.object, mode);
        Ok(Created { entry, file: Arc::new(file) })
    }

    fn make<'a>(&'a self, operation: &'static str, node: Node<'a>, body: Body) -> Task<'a, Entry> {
        let Node { parent, permissions, caller, .. } = node;
        let name = node.name.to_owned();
        self.change(operation, Extent::Made, move |state| {
            state.make(parent, Some(&name), body.clone(), permissions, caller)
        })
    }
}

impl Default for MemoryOrigin {
    fn default() -> MemoryOrigin {
        MemoryOrigin::new()
    }
}

fn error(operation: &'static str, errno: Errno) -> OriginError {
    match errno {
        Errno::STALE => OriginError::Stale { operation },
        errno => OriginError::System { operation, errno },
    }
}

impl Origin for MemoryOrigin {
    fn capabilities(&self) -> Capabilities {
        Capabilities::LINKS | Capabilities::XATTRS | Capabilities::WRITE | Capabilities::OWNERSHIP
    }

    fn root(&self) -> Task<'_, Entry> {
        self.call("stat origin", |state| {
            Ok(Entry { object: ROOT, attributes: state.attributes(ROOT)? })
        })
    }

    fn lookup<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry> {
        self.call("lookup", move |state| state.lookup(parent, name))
    }

    fn remember(&self, _parent: ObjectId, _name: &OsStr, _entry: &Entry) {}

    fn forget(&self, _object: ObjectId, _count: u64) {}

    fn attributes(&self, object: ObjectId) -> Task<'_, Attributes> {
        self.call("stat", move |state| state.attributes(object))
    }

    fn set_attributes(&self, object: ObjectId, change: SetAttributes) -> Task<'_, Attributes> {
        let extent = match change.size {
            Some(_) => Extent::Contents(object),
            None => Extent::Attributes(object),
        };
        self.change("set attributes", extent, move |state| state.set_attributes(object, change))
    }

    fn list(&self, object: ObjectId) -> Task<'_, Vec<DirectoryEntry>> {
        self.call("list", move |state| state.list(object))
    }

    fn read_link(&self, object: ObjectId) -> Task<'_, OsString> {
        self.call("read link", move |state| state.read_link(object))
    }

    fn open(&self, object: ObjectId, mode: OpenMode) -> Task<'_, Arc<dyn OriginFile>> {
        now(move || {
            let file = {
                let mut store = self.store.lock();
                store.state.contents(object).map_err(|errno| error("open", errno))?;
                if mode.truncate {
                    let truncate = move |state: &mut State| {
                        state.change_contents(object, |contents| {
                            contents.resize(0);
                            Ok(())
                        })
                    };
                    let truncated = store.change(Extent::Contents(object), truncate);
                    truncated.map_err(|errno| error("open", errno))?;
                }
                drop(store);
                MemoryFile::new(&self.store, object, mode)
            };
            Ok(Arc::new(file) as Arc<dyn OriginFile>)
        })
    }

    fn create<'a>(&'a self, node: Node<'a>, mode: OpenMode) -> Task<'a, Created> {
        now(move || self.make_file(node, Some(node.name), mode))
    }

    fn create_unnamed<'a>(
        &'a self,
        parent: ObjectId,
        permissions: u32,
        caller: Caller,
        mode: OpenMode,
    ) -> Task<'a, Created> {
        let node = Node { parent, name: OsStr::new(""), permissions, caller };
        now(move || self.make_file(node, None, mode))
    }

    fn make_directory<'a>(&'a self, node: Node<'a>) -> Task<'a, Entry> {
        let body = Body::Directory { names: BTreeMap::new(), parent: node.parent };
        self.make("make directory", node, body)
    }

    fn make_node<'a>(&'a self, node: Node<'a>, kind: NodeKind) -> Task<'a, Entry> {
        let body = match kind {
            NodeKind::File => Body::File(Contents::default()),
            NodeKind::Fifo => Body::Special { kind: Kind::Fifo, device: 0 },
            NodeKind::Socket => Body::Special { kind: Kind::Socket, device: 0 },
            NodeKind::CharacterDevice(device) => {
                Body::Special { kind: Kind::CharacterDevice, device }
            }
            NodeKind::BlockDevice(device) => Body::Special { kind: Kind::BlockDevice, device },
        };
        self.make("make node", node, body)
    }

    fn symlink<'a>(&'a self, node: Node<'a>, target: &'a OsStr) -> Task<'a, Entry> {
        self.make("symlink", node, Body::Symlink(target.to_owned()))
    }

    fn link<'a>(&'a self, object: ObjectId, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry> {
        let name = name.to_owned();
        self.change("link", Extent::Contents(object), move |state| {
            state.link(object, parent, &name)
        })
    }

    fn unlink<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        let name = name.to_owned();
        self.change("unlink", Extent::Names, move |state| state.unlink(parent, &name))
    }

    fn remove_directory<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        let name = name.to_owned();
        self.change("remove directory", Extent::Names, move |state| {
            state.remove_directory(parent, &name)
        })
    }

    fn rename<'a>(
        &'a self,
        parent: ObjectId,
        name: &'a OsStr,
        new_parent: ObjectId,
        new_name: &'a OsStr,
        flags: RenameFlags,
    ) -> Task<'a, ()> {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.change("rename", Extent::Names, move |state| {
            state.rename((parent, &name), (new_parent, &new_name), flags)
        })
    }

    fn xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, Vec<u8>> {
        self.call("get xattr", move |state| state.xattr(object, name))
    }

    fn xattrs(&self, object: ObjectId) -> Task<'_, Vec<OsString>> {
        self.call("list xattrs", move |state| state.xattrs(object))
    }

    fn set_xattr<'a>(
        &'a self,
        object: ObjectId,
        name: &'a OsStr,
        value: &'a [u8],
        mode: XattrMode,
    ) -> Task<'a, ()> {
        let (name, value) = (name.to_owned(), value.to_vec());
        self.change("set xattr", Extent::Attributes(object), move |state| {
            state.set_xattr(object, &name, &value, mode)
        })
    }

    fn remove_xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        let name = name.to_owned();
        self.change("remove xattr", Extent::Attributes(object), move |state| {
            state.remove_xattr(object, &name)
        })
    }

    fn sync_directory(&self, object: ObjectId) -> Task<'_, ()> {
        now(move || {
            let mut store = self.store.lock();
            store.state.list(object).map_err(|errno| error("sync directory", errno))?;
            store.sync_names();
            Ok(())
        })
    }

    fn sync(&self) -> Task<'_, ()> {
        now(|| {
            self.store.lock().sync();
            Ok(())
        })
    }

    fn space(&self) -> Task<'_, SpaceUsage> {
        self.call("statfs", |state| Ok(state.space()))
    }
}
