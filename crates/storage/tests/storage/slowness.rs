//! Slow, failing and hanging origins, on a clock that only the test moves.

use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{READ, READ_WRITE, caller, errno};
use futures::executor::block_on;
use parking_lot::Mutex;
use rustix::io::Errno;
use storage::{
    Call, Clock, FaultyOrigin, Layer, Layered, MemoryOrigin, Node, NodeKind, ObjectId, Origin,
    OriginError, OriginFile, SlowModel, SlowOrigin, Wait,
};

/// Time that passes only by sleeping.
#[derive(Default)]
struct TestClock(Mutex<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        *self.0.lock()
    }

    fn sleep(&self, duration: Duration) -> Wait<'_> {
        Box::pin(async move { *self.0.lock() += duration })
    }
}

struct Slow {
    origin: Arc<dyn Origin>,
    clock: Arc<TestClock>,
    root: ObjectId,
    file: Arc<dyn OriginFile>,
}

const MIB: usize = 1 << 20;

impl Slow {
    fn new(model: SlowModel) -> Slow {
        let memory = Arc::new(MemoryOrigin::new());
        let root = block_on(memory.root()).expect("there is a root").object;
        for number in 0..2000 {
            let name = number.to_string();
            let node =
                Node { parent: root, name: name.as_ref(), permissions: 0o644, caller: caller() };
            block_on(memory.make_node(node, NodeKind::File)).expect("it can be made");
        }
        let node =
            Node { parent: root, name: OsStr::new("file"), permissions: 0o644, caller: caller() };
        let created = block_on(memory.create(node, READ_WRITE)).expect("it can be made");
        block_on(created.file.write(0, &vec![1; 64 * MIB])).expect("it can be written");
        let clock = Arc::new(TestClock::default());
        let origin: Arc<dyn Origin> = Arc::new(SlowOrigin::new(memory, model, clock.clone()));
        let file = block_on(origin.open(created.entry.object, READ)).expect("it can be opened");
        Slow { origin, clock, root, file }
    }

    /// The time that a call takes.
    fn time<T>(&self, call: impl Future<Output = storage::Result<T>>) -> Duration {
        let before = self.clock.now();
        block_on(call).map(drop).expect("memory does not fail");
        self.clock.now() - before
    }

    fn read(&self, offset: usize, length: usize) -> Duration {
        let mut data = vec![0; length];
        let mut buffers = [IoSliceMut::new(&mut data)];
        self.time(self.file.read(offset as u64, &mut buffers))
    }

    fn lookup(&self, name: &str) -> Duration {
        self.time(self.origin.lookup(self.root, OsStr::new(name)))
    }
}

fn ms(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1000.0)
}

#[test]
fn a_disk_reads_on_quickly_and_seeks_slowly() {
    let disk = Slow::new(SlowModel::Hdd);
    disk.read(0, MIB);
    let sequential = disk.read(MIB, MIB);
    assert_eq!(sequential, Duration::from_nanos(MIB as u64 * 1_000_000_000 / 160_000_000));
    let random = disk.read(50 * MIB, 4096);
    assert!(random > ms(4.9) && random < ms(13.0), "{random:?}");
    let near = disk.read(50 * MIB + 8192, 4096);
    assert!(near < ms(0.1), "a small gap is read through: {near:?}");
    let back = disk.read(50 * MIB, 4096);
    assert!(back > ms(4.9), "going back costs a revolution: {back:?}");
}

#[test]
fn names_of_one_directory_lie_near_each_other() {
    let disk = Slow::new(SlowModel::Hdd);
    let first = disk.lookup("0");
    let second = disk.lookup("1");
    assert!(first > ms(4.9), "{first:?}");
    assert!(second > ms(0.2) && second < ms(0.5), "{second:?}");
}

#[test]
fn names_are_changed_in_the_journal() {
    let disk = Slow::new(SlowModel::Hdd);
    let make = |name: &'static str| {
        let node = Node {
            parent: disk.root,
            name: OsStr::new(name),
            permissions: 0o755,
            caller: caller(),
        };
        disk.time(disk.origin.make_directory(node))
    };
    assert!(make("one") > ms(4.9), "the directory is read");
    assert_eq!(make("two"), Duration::ZERO, "it is in memory");
    let flush = disk.time(disk.origin.sync());
    assert!(flush > ms(8.0), "{flush:?}");
}

#[test]
fn a_disk_has_one_arm() {
    let disk = Slow::new(SlowModel::Hdd);
    disk.read(0, 4096);
    // Both calls arrive at the same moment: the second one waits for the first.
    let (mut one, mut two) = (vec![0; MIB], vec![0; MIB]);
    let (mut one, mut two) = ([IoSliceMut::new(&mut one)], [IoSliceMut::new(&mut two)]);
    let both = futures::future::join(
        disk.file.read(10 << 20, &mut one),
        disk.file.read(40 << 20, &mut two),
    );
    let together = disk.time(async { Ok(both.await) });
    assert!(together > 2 * (ms(4.9) + ms(6.5)), "{together:?}");
}

#[test]
fn a_server_is_far_and_its_link_is_shared() {
    let server = Slow::new(SlowModel::Nfs);
    assert!(server.read(0, MIB) > ms(6.4 + 8.9));
    let sequential = server.read(MIB, MIB);
    assert!(sequential > ms(9.3) && sequential < ms(9.5), "{sequential:?}");
    assert!(server.lookup("0") > ms(6.0), "the directory is cold");
    assert_eq!(server.lookup("1"), ms(0.4));
}

#[test]
fn an_object_store_takes_its_time_for_each_request() {
    let store = Slow::new(SlowModel::S3);
    for number in 0..50 {
        let time = store.lookup(&number.to_string());
        assert!(time >= ms(20.0) && time < ms(30.0), "{time:?}");
    }
    let read = store.read(0, 9 * MIB);
    assert!(read > ms(120.0) && read < ms(140.0), "{read:?}");
    assert_eq!(read, store.read(0, 9 * MIB), "the same call takes the same time");
    let list = store.time(store.origin.list(store.root));
    let after = store.lookup("0");
    assert!(list + after > ms(80.0), "2001 names are three requests: {list:?} and {after:?}");
    assert!(store.lookup("0") < ms(30.0), "what was owed is paid");
}

#[test]
fn models_have_names() {
    for model in SlowModel::ALL {
        assert_eq!(model.to_string().parse(), Ok(model));
    }
    let unknown = "floppy".parse::<SlowModel>().expect_err("there is none").to_string();
    assert!(unknown.contains("floppy") && unknown.contains("hdd, nfs, s3"), "{unknown}");
}

#[test]
fn faults_strike_what_they_are_set_for() {
    let (origin, faults) = FaultyOrigin::new(Arc::new(MemoryOrigin::new()));
    let root = block_on(origin.root()).expect("no fault yet").object;
    let node = Node { parent: root, name: OsStr::new("x"), permissions: 0o644, caller: caller() };
    let file = block_on(origin.create(node, READ_WRITE)).expect("no fault yet").file;
    faults.fail_next(1);
    assert_eq!(errno(block_on(origin.list(root))), Errno::IO);
    block_on(origin.list(root)).expect("only one was to fail");
    faults.fail_next_of(2, Errno::NOSPC, |call| matches!(call, Call::Write { .. }));
    block_on(origin.list(root)).expect("a listing is no write");
    for _ in 0..2 {
        assert_eq!(errno(block_on(file.write(0, b"x"))), Errno::NOSPC);
    }
    block_on(file.write(0, b"x")).expect("only two were to fail");
    faults.unreachable(true);
    let lookup = block_on(origin.lookup(root, OsStr::new("missing")));
    assert_eq!(lookup.map(drop), Err(OriginError::Unreachable { operation: "lookup" }));
    faults.clear();
    assert!(block_on(origin.lookup(root, OsStr::new("missing"))).is_err_and(|e| e.is_not_found()));
}

#[test]
fn a_hanging_call_goes_on_when_released() {
    let (origin, faults) = FaultyOrigin::new(Arc::new(MemoryOrigin::new()));
    let root = block_on(origin.root()).expect("no fault yet").object;
    faults.hang(|call| matches!(call, Call::List { .. }));
    std::thread::scope(|scope| {
        let listing = scope.spawn(|| block_on(origin.list(root)));
        while faults.hanging() == 0 {
            std::thread::yield_now();
        }
        block_on(origin.attributes(root)).expect("other calls pass");
        assert!(!listing.is_finished());
        faults.release();
        assert_eq!(listing.join().expect("no panic"), Ok(vec![]));
    });
}

#[test]
fn a_delay_passes_on_the_clock() {
    let clock = Arc::new(TestClock::default());
    let memory = Arc::new(MemoryOrigin::new());
    let (origin, faults) = FaultyOrigin::with_clock(memory, clock.clone());
    faults.delay(ms(5.0));
    block_on(origin.root()).expect("late, not failed");
    assert_eq!(clock.now(), ms(5.0));
}

/// Writes down what it sees.
#[derive(Default)]
struct Log(Mutex<Vec<(Call, Result<u64, OriginError>)>>);

impl Layer for Log {
    fn after(&self, call: Call, outcome: Result<u64, &OriginError>) {
        self.0.lock().push((call, outcome.map_err(OriginError::clone)));
    }
}

#[test]
fn a_layer_sees_each_call_and_what_it_moved() {
    let log = Arc::new(Log::default());
    let origin = Layered::new(Arc::new(MemoryOrigin::new()), log.clone());
    let root = block_on(origin.root()).expect("there is a root").object;
    let node = Node { parent: root, name: OsStr::new("x"), permissions: 0o644, caller: caller() };
    let created = block_on(origin.create(node, READ_WRITE)).expect("it can be made");
    let object = created.entry.object;
    block_on(created.file.write(0, b"12345")).expect("it can be written");
    let mut data = [0; 100];
    let mut buffers = [IoSliceMut::new(&mut data)];
    block_on(created.file.read(2, &mut buffers)).expect("it can be read");
    block_on(origin.list(root)).expect("it can be listed");
    let missing = block_on(origin.lookup(root, OsStr::new("y"))).expect_err("it was not made");
    let expected = [
        (Call::Root, Ok(0)),
        (Call::Create { parent: root }, Ok(0)),
        (Call::Write { object, offset: 0, length: 5 }, Ok(5)),
        (Call::Read { object, offset: 2, length: 100 }, Ok(3)),
        (Call::List { object: root }, Ok(1)),
        (Call::Lookup { parent: root }, Err(missing)),
    ];
    assert_eq!(*log.0.lock(), expected);
}
