//! A pool over an origin in memory, on a clock that the test moves.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use storage::{
    Caller, Clock, Faults, FaultyOrigin, MemoryOrigin, Node, ObjectId, OpenMode, Origin,
    ThreadPool, Timestamp,
};
use warmfront::{Datasets, Memory, OpenFile, Pool, PoolOptions};

/// Time that passes only when the test says so.
#[derive(Debug, Default)]
pub struct TestClock {
    nanoseconds: AtomicU64,
    /// Seconds by which the time of day is ahead.
    ahead: AtomicI64,
}

impl TestClock {
    /// Sets the clock on the wall, which nobody measures time with.
    pub fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }

    pub fn advance(&self, duration: Duration) {
        self.nanoseconds.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> storage::Wait<'_> {
        self.advance(duration);
        Box::pin(async {})
    }

    fn time_of_day(&self) -> Timestamp {
        let seconds = self.now().as_secs() as i64 + self.ahead.load(Ordering::SeqCst);
        Timestamp { seconds, nanoseconds: self.now().subsec_nanos() }
    }
}

/// A pool called `pool` over an origin in memory that can be made to fail.
pub struct Bench {
    pub origin: Arc<MemoryOrigin>,
    pub faults: Arc<Faults>,
    pub clock: Arc<TestClock>,
    pub pool: Arc<Pool>,
}

pub const READ: OpenMode =
    OpenMode { read: true, write: false, truncate: false, direct: false, sync: false };
pub const READ_WRITE: OpenMode = OpenMode { read: true, write: true, ..READ };
pub const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

impl Bench {
    /// A pool with these settings and this ceiling.
    pub fn new(settings: &[&str], ceiling_bytes: u64) -> Bench {
        let datasets = Datasets::new("pool").expect("a good name");
        for setting in settings {
            let (name, value) = setting.split_once('=').expect("property=value");
            datasets.set("pool", name, value).expect("a good setting");
        }
        Bench::over(datasets, Memory::new(ceiling_bytes)).expect("memory answers")
    }

    /// A pool with these datasets, in an ARC that may be another pool's too.
    pub fn over(datasets: Datasets, memory: Arc<Memory>) -> warmfront::Result<Bench> {
        let origin = Arc::new(MemoryOrigin::new());
        let (faulty, faults) = FaultyOrigin::new(origin.clone());
        let clock = Arc::new(TestClock::default());
        clock.advance(Duration::from_secs(1000));
        let options = PoolOptions {
            name: "pool".to_string(),
            origin: Arc::new(faulty),
            datasets,
            memory,
            clock: clock.clone(),
            spawn: Arc::new(ThreadPool::new("test", 2).expect("two threads")),
            read_only: false,
            flash: warmfront::flash::FlashOptions::default(),
        };
        let pool = block_on(Pool::open(options))?;
        Ok(Bench { origin, faults, clock, pool })
    }

    /// One of a dataset's counters; zero where it has none.
    pub fn counter_of(&self, dataset: &str, name: &str) -> u64 {
        let statistics = self.pool.statistics();
        statistics.datasets.get(dataset).and_then(|all| all.get(name)).copied().unwrap_or(0)
    }

    /// Reads a whole file, a piece at a time, with time for each.
    pub fn read_through(&self, file: &Arc<OpenFile>, size: usize, piece: usize) {
        for offset in (0..size).step_by(piece) {
            self.clock.advance(Duration::from_millis(100));
            assert_eq!(read(file, offset as u64, piece).len(), piece.min(size - offset));
        }
    }

    /// One of the pool's counters.
    pub fn counter(&self, name: &str) -> u64 {
        let statistics = self.pool.statistics();
        *statistics.counters.get(name).unwrap_or_else(|| panic!("there is a counter {name}"))
    }

    /// Makes a file at the origin, behind the pool's back.
    pub fn put(&self, name: &str, contents: &[u8]) -> ObjectId {
        block_on(async {
            let root = self.origin.root().await.expect("there is a root").object;
            let name = OsStr::new(name);
            let mode = READ_WRITE;
            let file = match self.origin.lookup(root, name).await {
                Ok(entry) => {
                    let truncate = OpenMode { truncate: true, ..mode };
                    self.origin.open(entry.object, truncate).await.expect("it can be opened")
                }
                Err(_) => {
                    let node = Node { parent: root, name, permissions: 0o644, caller: CALLER };
                    self.origin.create(node, mode).await.expect("it can be made").file
                }
            };
            file.write(0, contents).await.expect("memory takes it");
            self.origin.lookup(root, name).await.expect("it was made").object
        })
    }

    /// Opens a file through the pool.
    pub fn open(&self, name: &str, mode: OpenMode) -> Arc<OpenFile> {
        block_on(async {
            let found =
                self.pool.lookup(self.pool.root(), OsStr::new(name)).await.expect("it is there");
            let file = self.pool.open_file(found.object, mode).await.expect("it can be opened");
            self.pool.forget(found.object, 1);
            file
        })
    }

    /// Makes and opens a file through the pool.
    pub fn create(&self, name: &str) -> Arc<OpenFile> {
        let name = OsStr::new(name);
        let node = Node { parent: self.pool.root(), name, permissions: 0o644, caller: CALLER };
        let (found, file) =
            block_on(self.pool.create_file(node, READ_WRITE)).expect("it can be made");
        self.pool.forget(found.object, 1);
        file
    }
}

/// Reads as the door does: from RAM, else by waiting.
pub fn read(file: &Arc<OpenFile>, offset: u64, length: usize) -> Vec<u8> {
    match file.read_cached(offset, length) {
        Some(pieces) => pieces.to_vec(),
        None => block_on(file.read(offset, length)).expect("the origin gives it").to_vec(),
    }
}

/// Bytes that differ from place to place.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
