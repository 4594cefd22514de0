use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::{
    Allocation, Attributes, Caller, Capabilities, Created, DirectoryEntry, Entry, Node, NodeKind,
    ObjectId, OpenMode, Origin, OriginError, OriginFile, RenameFlags, SeekFrom, SetAttributes,
    SpaceUsage, Task, XattrMode,
};

/// A call to an origin or to one of its open files, as a [`Layer`] sees it.
///
/// Offsets and lengths are in bytes. `Remember` and `Forget` do not wait and are not seen.
///
/// ```
/// use storage::{Call, ObjectId};
///
/// let call = Call::Read { object: ObjectId(7), offset: 4096, length: 4096 };
/// assert_eq!(call.operation(), "read");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the call of the same name of Origin or OriginFile")]
pub enum Call {
    Root,
    Lookup { parent: ObjectId },
    Attributes { object: ObjectId },
    SetAttributes { object: ObjectId },
    List { object: ObjectId },
    ReadLink { object: ObjectId },
    Open { object: ObjectId },
    Create { parent: ObjectId },
    CreateUnnamed { parent: ObjectId },
    MakeDirectory { parent: ObjectId },
    MakeNode { parent: ObjectId },
    Symlink { parent: ObjectId },
    Link { object: ObjectId, parent: ObjectId },
    Unlink { parent: ObjectId },
    RemoveDirectory { parent: ObjectId },
    Rename { parent: ObjectId, new_parent: ObjectId },
    Xattr { object: ObjectId },
    Xattrs { object: ObjectId },
    SetXattr { object: ObjectId },
    RemoveXattr { object: ObjectId },
    SyncDirectory { object: ObjectId },
    Sync,
    Space,
    Read { object: ObjectId, offset: u64, length: u64 },
    Write { object: ObjectId, offset: u64, length: u64 },
    Append { object: ObjectId, length: u64 },
    SyncFile { object: ObjectId },
    FileAttributes { object: ObjectId },
    SetFileAttributes { object: ObjectId },
    Allocate { object: ObjectId, offset: u64, length: u64 },
    Seek { object: ObjectId, offset: u64 },
    CopyFrom { object: ObjectId, offset: u64, length: u64 },
}

impl Call {
    /// What the call does, as a verb, for error messages.
    ///
    /// ```
    /// assert_eq!(storage::Call::Space.operation(), "statfs");
    /// ```
    pub fn operation(&self) -> &'static str {
        match self {
            Call::Root => "stat origin",
            Call::Lookup { .. } => "lookup",
            Call::Attributes { .. } | Call::FileAttributes { .. } => "stat",
            Call::SetAttributes { .. } | Call::SetFileAttributes { .. } => "set attributes",
            Call::List { .. } => "list",
            Call::ReadLink { .. } => "read link",
            Call::Open { .. } => "open",
            Call::Create { .. } => "create",
            Call::CreateUnnamed { .. } => "create unnamed",
            Call::MakeDirectory { .. } => "make directory",
            Call::MakeNode { .. } => "make node",
            Call::Symlink { .. } => "symlink",
            Call::Link { .. } => "link",
            Call::Unlink { .. } => "unlink",
            Call::RemoveDirectory { .. } => "remove directory",
            Call::Rename { .. } => "rename",
            Call::Xattr { .. } => "get xattr",
            Call::Xattrs { .. } => "list xattrs",
            Call::SetXattr { .. } => "set xattr",
            Call::RemoveXattr { .. } => "remove xattr",
            Call::SyncDirectory { .. } => "sync directory",
            Call::Sync | Call::SyncFile { .. } => "sync",
            Call::Space => "statfs",
            Call::Read { .. } => "read",
            Call::Write { .. } => "write",
            Call::Append { .. } => "append",
            Call::Allocate { .. } => "allocate",
            Call::Seek { .. } => "seek",
            Call::CopyFrom { .. } => "copy range",
        }
    }
}

/// Something that happens around each call to an origin: a delay, a fault, a count.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use storage::{Call, Layer, Layered, OriginError};
///
/// /// Counts the bytes that are read.
/// #[derive(Default)]
/// struct ReadBytes(AtomicU64);
///
/// impl Layer for ReadBytes {
///     fn after(&self, call: Call, outcome: Result<u64, &OriginError>) {
///         if let (Call::Read { .. }, Ok(bytes)) = (call, outcome) {
///             self.0.fetch_add(bytes, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let counted = Layered::new(origin, ReadBytes::default());
/// let file = counted.open(created.entry.object, READ_WRITE).await?;
/// file.read(0, &mut [IoSliceMut::new(&mut [0; 100])]).await?;
/// assert_eq!(counted.layer().0.load(Ordering::Relaxed), 8);
/// # Ok(()) }) }
/// ```
pub trait Layer: Send + Sync {
    /// Waits before the call is passed on. On an error it is not passed on.
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        let _ = call;
        Box::pin(async { Ok(()) })
    }

    /// Learns how a call ended: the bytes read, written or copied, the number of names listed,
    /// zero for the others; or the error. Errors of [`before`](Layer::before) are not seen.
    fn after(&self, call: Call, outcome: std::result::Result<u64, &OriginError>) {
        let _ = (call, outcome);
    }
}

impl<L: Layer + ?Sized> Layer for Arc<L> {
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        (**self).before(call)
    }

    fn after(&self, call: Call, outcome: std::result::Result<u64, &OriginError>) {
        (**self).after(call, outcome);
    }
}

/// An origin with a [`Layer`] around each of its calls.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::{Layer, Layered};
///
/// /// Lets everything pass.
/// struct Nothing;
///
/// impl Layer for Nothing {}
///
/// let layered = Layered::new(origin, Nothing);
/// assert_eq!(layered.attributes(created.entry.object).await?.size, 8);
/// # Ok(()) }) }
/// ```
pub struct Layered<L: Layer> {
    inner: Arc<dyn Origin>,
    layer: Arc<L>,
}

impl<L: Layer> Layered<L> {
    /// Puts `layer` around `inner`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::{Layer, Layered};
    ///
    /// /// Lets everything pass.
    /// struct Nothing;
    ///
    /// impl Layer for Nothing {}
    ///
    /// let layered = Layered::new(origin.clone(), Nothing);
    /// assert_eq!(layered.root().await?, origin.root().await?);
    /// # Ok(()) }) }
    /// ```
    pub fn new(inner: Arc<dyn Origin>, layer: L) -> Layered<L> {
        Layered { inner, layer: Arc::new(layer) }
    }

    /// The layer.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::{Layer, Layered};
    ///
    /// /// Lets everything pass.
    /// #[derive(Debug, PartialEq)]
    /// struct Nothing;
    ///
    /// impl Layer for Nothing {}
    ///
    /// assert_eq!(*Layered::new(origin, Nothing).layer(), Nothing);
    /// # Ok(()) }) }
    /// ```
    pub fn layer(&self) -> &L {
        &self.layer
    }
}

/// Runs `task` with the layer before and after it; `amount` says what it moved.
fn around<'a, T: 'a>(
    layer: &'a dyn Layer,
    call: Call,
    task: Task<'a, T>,
    amount: impl Fn(&T) -> u64 + Send + 'a,
) -> Task<'a, T> {
    Box::pin(async move {
        layer.before(call).await?;
        let outcome = task.await;
        layer.after(call, outcome.as_ref().map(amount));
        outcome
    })
}

/// [`around`] for a call that moves no data.
fn plain<'a, T: 'a>(layer: &'a dyn Layer, call: Call, task: Task<'a, T>) -> Task<'a, T> {
    around(layer, call, task, |_| 0)
}

impl<L: Layer + 'static> Layered<L> {
    fn file(&self, object: ObjectId, file: Arc<dyn OriginFile>) -> Arc<dyn OriginFile> {
        Arc::new(LayeredFile { inner: file, layer: self.layer.clone(), object })
    }

    fn created<'a>(&'a self, task: Task<'a, Created>) -> Task<'a, Created> {
        Box::pin(async move {
            let Created { entry, file } = task.await?;
            Ok(Created { entry, file: self.file(entry.object, file) })
        })
    }
}

impl<L: Layer + 'static> Origin for Layered<L> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn root(&self) -> Task<'_, Entry> {
        plain(&*self.layer, Call::Root, self.inner.root())
    }

    fn lookup<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry> {
        plain(&*self.layer, Call::Lookup { parent }, self.inner.lookup(parent, name))
    }

    fn remember(&self, parent: ObjectId, name: &OsStr, entry: &Entry) {
        self.inner.remember(parent, name, entry);
    }

    fn forget(&self, object: ObjectId, count: u64) {
        self.inner.forget(object, count);
    }

    fn attributes(&self, object: ObjectId) -> Task<'_, Attributes> {
        plain(&*self.layer, Call::Attributes { object }, self.inner.attributes(object))
    }

    fn set_attributes(&self, object: ObjectId, change: SetAttributes) -> Task<'_, Attributes> {
        let task = self.inner.set_attributes(object, change);
        plain(&*self.layer, Call::SetAttributes { object }, task)
    }

    fn list(&self, object: ObjectId) -> Task<'_, Vec<DirectoryEntry>> {
        let names = |entries: &Vec<DirectoryEntry>| entries.len() as u64;
        around(&*self.layer, Call::List { object }, self.inner.list(object), names)
    }

    fn read_link(&self, object: ObjectId) -> Task<'_, OsString> {
        plain(&*self.layer, Call::ReadLink { object }, self.inner.read_link(object))
    }

    fn open(&self, object: ObjectId, mode: OpenMode) -> Task<'_, Arc<dyn OriginFile>> {
        let task = self.inner.open(object, mode);
        let task = Box::pin(async move { Ok(self.file(object, task.await?)) });
        plain(&*self.layer, Call::Open { object }, task)
    }

    fn create<'a>(&'a self, node: Node<'a>, mode: OpenMode) -> Task<'a, Created> {
        let task = self.created(self.inner.create(node, mode));
        plain(&*self.layer, Call::Create { parent: node.parent }, task)
    }

    fn create_unnamed<'a>(
        &'a self,
        parent: ObjectId,
        permissions: u32,
        caller: Caller,
        mode: OpenMode,
    ) -> Task<'a, Created> {
        let task = self.created(self.inner.create_unnamed(parent, permissions, caller, mode));
        plain(&*self.layer, Call::CreateUnnamed { parent }, task)
    }

    fn make_directory<'a>(&'a self, node: Node<'a>) -> Task<'a, Entry> {
        let call = Call::MakeDirectory { parent: node.parent };
        plain(&*self.layer, call, self.inner.make_directory(node))
    }

    fn make_node<'a>(&'a self, node: Node<'a>, kind: NodeKind) -> Task<'a, Entry> {
        let call = Call::MakeNode { parent: node.parent };
        plain(&*self.layer, call, self.inner.make_node(node, kind))
    }

    fn symlink<'a>(&'a self, node: Node<'a>, target: &'a OsStr) -> Task<'a, Entry> {
        let call = Call::Symlink { parent: node.parent };
        plain(&*self.layer, call, self.inner.symlink(node, target))
    }

    fn link<'a>(&'a self, object: ObjectId, parent: ObjectId, name: &'a OsStr) -> Task<'a, Entry> {
        let task = self.inner.link(object, parent, name);
        plain(&*self.layer, Call::Link { object, parent }, task)
    }

    fn unlink<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        plain(&*self.layer, Call::Unlink { parent }, self.inner.unlink(parent, name))
    }

    fn remove_directory<'a>(&'a self, parent: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        let task = self.inner.remove_directory(parent, name);
        plain(&*self.layer, Call::RemoveDirectory { parent }, task)
    }

    fn rename<'a>(
        &'a self,
        parent: ObjectId,
        name: &'a OsStr,
        new_parent: ObjectId,
        new_name: &'a OsStr,
        flags: RenameFlags,
    ) -> Task<'a, ()> {
        let task = self.inner.rename(parent, name, new_parent, new_name, flags);
        plain(&*self.layer, Call::Rename { parent, new_parent }, task)
    }

    fn xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, Vec<u8>> {
        let bytes = |value: &Vec<u8>| value.len() as u64;
        around(&*self.layer, Call::Xattr { object }, self.inner.xattr(object, name), bytes)
    }

    fn xattrs(&self, object: ObjectId) -> Task<'_, Vec<OsString>> {
        let names = |names: &Vec<OsString>| names.len() as u64;
        around(&*self.layer, Call::Xattrs { object }, self.inner.xattrs(object), names)
    }

    fn set_xattr<'a>(
        &'a self,
        object: ObjectId,
        name: &'a OsStr,
        value: &'a [u8],
        mode: XattrMode,
    ) -> Task<'a, ()> {
        let task = self.inner.set_xattr(object, name, value, mode);
        around(&*self.layer, Call::SetXattr { object }, task, |()| value.len() as u64)
    }

    fn remove_xattr<'a>(&'a self, object: ObjectId, name: &'a OsStr) -> Task<'a, ()> {
        plain(&*self.layer, Call::RemoveXattr { object }, self.inner.remove_xattr(object, name))
    }

    fn sync_directory(&self, object: ObjectId) -> Task<'_, ()> {
        plain(&*self.layer, Call::SyncDirectory { object }, self.inner.sync_directory(object))
    }

    fn sync(&self) -> Task<'_, ()> {
        plain(&*self.layer, Call::Sync, self.inner.sync())
    }

    fn space(&self) -> Task<'_, SpaceUsage> {
        plain(&*self.layer, Call::Space, self.inner.space())
    }
}

/// An open file with a layer around each of its calls.
struct LayeredFile<L: Layer> {
    inner: Arc<dyn OriginFile>,
    layer: Arc<L>,
    object: ObjectId,
}

impl<L: Layer + 'static> OriginFile for LayeredFile<L> {
    fn read<'a>(&'a self, offset: u64, buffers: &'a mut [IoSliceMut<'_>]) -> Task<'a, usize> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let call = Call::Read { object: self.object, offset, length };
        around(&*self.layer, call, self.inner.read(offset, buffers), |read| *read as u64)
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8]) -> Task<'a, ()> {
        let length = data.len() as u64;
        let call = Call::Write { object: self.object, offset, length };
        around(&*self.layer, call, self.inner.write(offset, data), move |()| length)
    }

    fn write_vectored<'a>(&'a self, offset: u64, slices: &'a [IoSlice<'_>]) -> Task<'a, ()> {
        let length = slices.iter().map(|slice| slice.len() as u64).sum();
        let call = Call::Write { object: self.object, offset, length };
        around(&*self.layer, call, self.inner.write_vectored(offset, slices), move |()| length)
    }

    fn append<'a>(&'a self, data: &'a [u8]) -> Task<'a, u64> {
        let length = data.len() as u64;
        let call = Call::Append { object: self.object, length };
        around(&*self.layer, call, self.inner.append(data), move |_| length)
    }

    fn sync(&self, data_only: bool) -> Task<'_, ()> {
        plain(&*self.layer, Call::SyncFile { object: self.object }, self.inner.sync(data_only))
    }

    fn attributes(&self) -> Task<'_, Attributes> {
        plain(&*self.layer, Call::FileAttributes { object: self.object }, self.inner.attributes())
    }

    fn set_attributes(&self, change: SetAttributes) -> Task<'_, Attributes> {
        let call = Call::SetFileAttributes { object: self.object };
        plain(&*self.layer, call, self.inner.set_attributes(change))
    }

    fn allocate(&self, allocation: Allocation) -> Task<'_, ()> {
        let Allocation { offset, length, .. } = allocation;
        let call = Call::Allocate { object: self.object, offset, length };
        plain(&*self.layer, call, self.inner.allocate(allocation))
    }

    fn may_reach(&self, bytes: u64) -> bool {
        self.inner.may_reach(bytes)
    }

    fn seek(&self, from: SeekFrom) -> Task<'_, u64> {
        let (SeekFrom::Data(offset) | SeekFrom::Hole(offset)) = from;
        let call = Call::Seek { object: self.object, offset };
        plain(&*self.layer, call, self.inner.seek(from))
    }

    fn copy_from<'a>(
        &'a self,
        source: &'a dyn OriginFile,
        source_offset: u64,
        offset: u64,
        length: u64,
    ) -> Task<'a, u64> {
        let call = Call::CopyFrom { object: self.object, offset, length };
        let task = self.inner.copy_from(source, source_offset, offset, length);
        around(&*self.layer, call, task, |copied| *copied)
    }

    /// The file below all layers.
    fn as_any(&self) -> &dyn std::any::Any {
        self.inner.as_any()
    }
}
