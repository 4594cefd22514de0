use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::warmfront::flash::FlashOptions;
use ::warmfront::{Datasets, Memory, Pool, PoolOptions};
use fuse::{Crewing, Door, MountOptions, Session};
use storage::{
    DirectoryOptions, DirectoryOrigin, Faults, FaultyOrigin, RealClock, ThreadPool, block_on,
};
use tempfile::TempDir;

use crate::{detach, test_directory};

/// RAM for what it has to keep of calls under way.
const MEMORY_BYTES: u64 = 32 << 20;
/// It keeps nothing and brings each change to the directory at once, as a disk does.
const PROPERTIES: [(&str, &str); 5] = [
    ("write", "through"),
    ("primarycache", "none"),
    ("prefetch", "none"),
    ("pagecache", "off"),
    ("directio", "off"),
];

/// A file system that fails on command: a directory, mounted by this process, until dropped.
pub struct FaultyDisk {
    top: PathBuf,
    faults: Arc<Faults>,
    _session: Session,
    _base: TempDir,
}

impl FaultyDisk {
    /// Mounts one that is empty and works.
    pub fn new() -> FaultyDisk {
        let base = test_directory();
        let [below, top] = ["below", "top"].map(|name| base.path().join(name));
        for path in [&below, &top] {
            std::fs::create_dir(path).expect("a directory");
        }
        let datasets = Datasets::new("disk").expect("a good name");
        for (name, value) in PROPERTIES {
            datasets.set("disk", name, value).expect("a good value");
        }
        let directory = DirectoryOrigin::open(&below, DirectoryOptions::default());
        let (origin, faults) = FaultyOrigin::new(Arc::new(directory.expect("it is there")));
        let options = PoolOptions {
            name: "disk".to_string(),
            origin: Arc::new(origin),
            datasets,
            memory: Memory::new(MEMORY_BYTES),
            clock: Arc::new(RealClock::new()),
            spawn: Arc::new(ThreadPool::new("disk", 1).expect("a thread")),
            read_only: false,
            flash: FlashOptions::default(),
        };
        let pool = block_on(Pool::open(options)).expect("a pool");
        let mount = fuse::mount(&top, &MountOptions::default()).expect("a mount");
        let session = Session::start(mount, Door::new(pool), Crewing::default());
        FaultyDisk { top, faults, _session: session.expect("it is served"), _base: base }
    }

    /// Its top directory.
    pub fn path(&self) -> &Path {
        &self.top
    }

    /// The switch of its faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl Default for FaultyDisk {
    fn default() -> FaultyDisk {
        FaultyDisk::new()
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        // Whoever still hangs in a call is let go.
        self.faults.clear();
        detach(&self.top);
    }
}
