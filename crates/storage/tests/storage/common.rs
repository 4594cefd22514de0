//! Short forms of the calls, for tests.

use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::sync::Arc;

use futures::executor::block_on;
use rustix::io::Errno;
use storage::{
    Attributes, Caller, Created, Entry, Layer, Layered, MemoryOrigin, Node, ObjectId, OpenMode,
    Origin, OriginError, OriginFile, RenameFlags, Result, SetAttributes,
};
use storage::{DirectoryOptions, DirectoryOrigin};
use tempfile::TempDir;

pub const READ: OpenMode =
    OpenMode { read: true, write: false, truncate: false, direct: false, sync: false };
pub const READ_WRITE: OpenMode = OpenMode { write: true, ..READ };

/// Who runs the tests, with no mask.
pub fn caller() -> Caller {
    let uid = rustix::process::geteuid().as_raw();
    Caller { uid, gid: rustix::process::getegid().as_raw(), umask: 0 }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A layer that does nothing.
pub struct Nothing;

impl Layer for Nothing {}

/// An origin under test, and the directory it stands on.
pub struct Subject {
    pub origin: Arc<dyn Origin>,
    pub root: ObjectId,
    pub directory: Option<TempDir>,
}

impl Subject {
    fn new(origin: Arc<dyn Origin>, directory: Option<TempDir>) -> Subject {
        let root = block_on(origin.root()).expect("there is a root").object;
        Subject { origin, root, directory }
    }

    pub fn memory() -> Subject {
        Subject::new(Arc::new(MemoryOrigin::new()), None)
    }

    pub fn directory() -> Subject {
        Subject::with_options(DirectoryOptions::default())
    }

    pub fn with_options(options: DirectoryOptions) -> Subject {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("origin");
        std::fs::create_dir(&path).expect("a directory");
        let origin = DirectoryOrigin::open(path, options).expect("it is a directory");
        Subject::new(Arc::new(origin), Some(directory))
    }

    pub fn layered() -> Subject {
        let Subject { origin, directory, .. } = Subject::directory();
        Subject::new(Arc::new(Layered::new(origin, Nothing)), directory)
    }

    /// The path of a name at the origin, for what is done behind its back.
    pub fn path(&self, name: impl AsRef<std::path::Path>) -> std::path::PathBuf {
        self.directory.as_ref().expect("a directory origin").path().join("origin").join(name)
    }

    pub fn node<'a>(&self, parent: ObjectId, name: &'a (impl AsRef<OsStr> + ?Sized)) -> Node<'a> {
        Node { parent, name: name.as_ref(), permissions: 0o644, caller: caller() }
    }

    pub fn lookup_in(&self, parent: ObjectId, name: impl AsRef<OsStr>) -> Result<Entry> {
        block_on(self.origin.lookup(parent, name.as_ref()))
    }

    pub fn lookup(&self, name: impl AsRef<OsStr>) -> Result<Entry> {
        self.lookup_in(self.root, name)
    }

    pub fn make_in(&self, parent: ObjectId, name: impl AsRef<OsStr>) -> Result<Entry> {
        let node = Node { permissions: 0o755, ..self.node(parent, name.as_ref()) };
        block_on(self.origin.make_directory(node))
    }

    /// Makes a directory.
    pub fn make(&self, name: &str) -> ObjectId {
        self.make_in(self.root, name).expect("it can be made").object
    }

    pub fn create_in(&self, parent: ObjectId, name: impl AsRef<OsStr>) -> Result<Created> {
        block_on(self.origin.create(self.node(parent, name.as_ref()), READ_WRITE))
    }

    /// Makes a file.
    pub fn create(&self, name: impl AsRef<OsStr>, contents: &[u8]) -> (ObjectId, File) {
        let created = self.create_in(self.root, name).expect("it can be made");
        let file = File(created.file);
        file.write(0, contents);
        (created.entry.object, file)
    }

    pub fn open(&self, object: ObjectId, mode: OpenMode) -> Result<File> {
        block_on(self.origin.open(object, mode)).map(File)
    }

    pub fn attributes(&self, object: ObjectId) -> Result<Attributes> {
        block_on(self.origin.attributes(object))
    }

    pub fn set(&self, object: ObjectId, change: SetAttributes) -> Result<Attributes> {
        block_on(self.origin.set_attributes(object, change))
    }

    pub fn unlink(&self, name: impl AsRef<OsStr>) -> Result<()> {
        block_on(self.origin.unlink(self.root, name.as_ref()))
    }

    pub fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<()> {
        let (from, to) = (OsStr::new(from), OsStr::new(to));
        block_on(self.origin.rename(self.root, from, self.root, to, flags))
    }

    /// The names in a directory, sorted.
    pub fn names(&self, directory: ObjectId) -> Vec<String> {
        let entries = block_on(self.origin.list(directory)).expect("it can be listed");
        let mut names: Vec<_> =
            entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// An open file.
pub struct File(pub Arc<dyn OriginFile>);

impl File {
    pub fn write(&self, offset: u64, data: &[u8]) {
        block_on(self.0.write(offset, data)).expect("it can be written");
    }

    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0xee; length];
        let read = block_on(self.0.read(offset, &mut [IoSliceMut::new(&mut data)]))
            .expect("it can be read");
        data.truncate(read);
        data
    }

    pub fn attributes(&self) -> Attributes {
        block_on(self.0.attributes()).expect("an open file has attributes")
    }
}

/// The errno of a call that must fail.
pub fn errno<T>(result: Result<T>) -> Errno {
    match result.map(drop).expect_err("the call must fail") {
        OriginError::System { errno, .. } => errno,
        OriginError::Stale { .. } => Errno::STALE,
        OriginError::Unreachable { .. } => Errno::HOSTDOWN,
        OriginError::Unsupported { .. } => Errno::OPNOTSUPP,
        other => panic!("an unknown error: {other}"),
    }
}

/// Bytes that differ from place to place.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
