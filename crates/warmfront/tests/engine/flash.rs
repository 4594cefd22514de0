//! The engine with a flash level, in a simulation: time passes only there, and a seed replays all.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use storage::{
    Call, Clock, CrashDevice, Device, DeviceOperation, Faults, FaultyDevice, FaultyOrigin,
    MemoryDevice, MemoryOrigin, Node, OpenMode, Origin, Random, RenameFlags, SetAttributes,
    Simulation, XattrMode,
};
use warmfront::flash::{FlashOptions, Opened};
use warmfront::{Datasets, Memory, OpenFile, Pool, PoolOptions, Why};

use crate::common::{CALLER, READ, READ_WRITE, pattern};
use crate::flash_device::{opening, options};

const SECOND: Duration = Duration::from_secs(1);
pub(crate) const RECORD: usize = 4096;

/// What outlives a start of the pool.
pub(crate) struct Machine {
    pub(crate) simulation: Simulation,
    pub(crate) origin: Arc<MemoryOrigin>,
    faults: Arc<Faults>,
    pub(crate) faulty: Arc<dyn Origin>,
    life: u128,
    renounced: Arc<Mutex<u64>>,
    /// A file called `file` is found before it is known what the devices hold.
    looks_up_early: bool,
    read_only: bool,
    pub(crate) hash_seed: u64,
}

/// A pool as one start of it.
pub(crate) struct Start {
    pub(crate) simulation: Simulation,
    pub(crate) pool: Arc<Pool>,
    opened: Vec<Opened>,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        let origin = Arc::new(MemoryOrigin::new());
        let (faulty, faults) = FaultyOrigin::new(origin.clone());
        Machine {
            simulation: Simulation::new(seed),
            origin,
            faults,
            faulty: Arc::new(faulty),
            life: 0,
            renounced: Arc::default(),
            looks_up_early: false,
            read_only: false,
            hash_seed: 1,
        }
    }

    /// Starts the pool with these properties, these devices and 3 MiB for the ARC.
    pub(crate) fn start(&mut self, settings: &[&str], devices: &[Arc<dyn Device>]) -> Start {
        self.start_with(settings, devices, 6 << 20)
    }

    pub(crate) fn start_with(
        &mut self,
        settings: &[&str],
        devices: &[Arc<dyn Device>],
        ceiling_bytes: u64,
    ) -> Start {
        let datasets = Datasets::new("pool").expect("a good name");
        let fixed = ["recordsize=4K", "prefetch=none", "policy=arc", "write=through"];
        for setting in fixed.iter().chain(settings) {
            let (name, value) = setting.split_once('=').expect("property=value");
            datasets.set("pool", name, value).expect("a good setting");
        }
        let renounced = self.renounced.clone();
        let renounce = move || {
            *renounced.lock() += 1;
            Ok(())
        };
        let simulation = self.simulation.clone();
        let pool = simulation.run(Pool::open(PoolOptions {
            name: "pool".to_string(),
            origin: self.faulty.clone(),
            datasets,
            memory: Memory::seeded(ceiling_bytes, self.hash_seed),
            clock: Arc::new(simulation.clone()),
            spawn: Arc::new(simulation.clone()),
            read_only: self.read_only,
            flash: FlashOptions { options: options(), renounce: Some(Arc::new(renounce)) },
        }));
        let pool = pool.expect("memory answers");
        self.life += 1;
        let opened = devices
            .iter()
            .map(|device| {
                let opening = opening(self.life);
                let added = simulation.run(pool.add_cache(device.clone(), &opening));
                added.expect("the device can be used")
            })
            .collect();
        if self.looks_up_early {
            let found = simulation.run(pool.lookup(pool.root(), OsStr::new("file")));
            found.expect("it is there");
        }
        simulation.run(pool.caches_recovered());
        Start { simulation, pool, opened }
    }
}

impl Start {
    pub(crate) fn wait(&self, duration: Duration) {
        self.simulation.run(self.simulation.sleep(duration));
    }

    pub(crate) fn create(&self, name: &str, contents: &[u8]) -> Arc<OpenFile> {
        let name = OsStr::new(name);
        let node = Node { parent: self.pool.root(), name, permissions: 0o644, caller: CALLER };
        let made = self.simulation.run(self.pool.create_file(node, READ_WRITE));
        let (found, file) = made.expect("it can be made");
        self.pool.forget(found.object, 1);
        self.simulation.run(file.write(0, contents)).expect("memory takes it");
        file
    }

    pub(crate) fn open(&self, name: &str, mode: OpenMode) -> Arc<OpenFile> {
        self.simulation.run(async {
            let found = self.pool.lookup(self.pool.root(), OsStr::new(name)).await;
            let found = found.expect("it is there");
            let file = self.pool.open_file(found.object, mode).await.expect("it can be opened");
            self.pool.forget(found.object, 1);
            file
        })
    }

    /// Reads in records, as the door does, with time for each.
    pub(crate) fn read(&self, file: &Arc<OpenFile>, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for at in (offset..offset + length as u64).step_by(RECORD) {
            let length = RECORD.min((offset + length as u64 - at) as usize);
            let pieces = match file.read_cached(at, length) {
                Some(pieces) => pieces,
                None => self.simulation.run(file.read(at, length)).expect("the origin gives it"),
            };
            bytes.extend(pieces.to_vec());
            self.wait(Duration::from_millis(1));
        }
        bytes
    }

    pub(crate) fn why(&self, name: &str) -> Why {
        self.simulation.run(self.pool.why(Path::new(name))).expect("it is there")
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let statistics = self.pool.statistics();
        *statistics.counters.get(name).unwrap_or_else(|| panic!("there is a counter {name}"))
    }
}

pub(crate) fn device(bytes: usize) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(bytes, 4096))
}

/// A machine with a file of 4 MiB at the origin, which was there before.
pub(crate) fn with_file() -> (Machine, Vec<u8>) {
    let mut machine = Machine::new(7);
    let contents = pattern(4 << 20, 1);
    machine.start(&[], &[]).create("file", &contents);
    (machine, contents)
}

#[test]
fn what_ram_cannot_hold_comes_from_flash() {
    let (mut machine, contents) = with_file();
    let start = machine.start(&[], &[device(16 << 20)]);
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    start.wait(SECOND * 20);
    let (reads, misses) = (start.counter("origin_reads"), start.counter("demand_data_misses"));
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    let from_flash = start.counter("l2_hits");
    assert!(from_flash > 300, "{from_flash} records from flash");
    assert_eq!(start.counter("origin_reads"), reads, "nothing is asked of the origin twice");
    assert_eq!(start.counter("demand_data_misses") - misses, from_flash);
}

#[test]
fn a_restart_finds_on_flash_what_was_there() {
    let (mut machine, contents) = with_file();
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(&[], &devices);
    assert_eq!(start.opened, [Opened::Formatted]);
    let file = start.open("file", READ);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    start.simulation.run(start.pool.stop_caches());
    drop((file, start));
    machine.simulation.crash();
    let start = machine.start(&[], &devices);
    assert_eq!(start.opened, [Opened::Warm]);
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    assert_eq!(start.counter("l2_hits"), 1024, "all of the file was on flash");
    assert_eq!(start.counter("origin_reads"), 0);
}

#[test]
fn a_pool_that_changes_nothing_is_warm_after_a_restart() {
    let (mut machine, contents) = with_file();
    machine.read_only = true;
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(&[], &devices);
    let file = start.open("file", READ);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    drop((file, start));
    machine.simulation.crash();
    let start = machine.start(&[], &devices);
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    assert!(start.counter("l2_hits") > 1000, "{} of 1024", start.counter("l2_hits"));
}

#[test]
fn a_stop_writes_on_flash_what_only_ram_holds() {
    for (read_only, takes_the_rest) in [(false, true), (true, true), (false, false)] {
        let mut machine = Machine::new(17);
        let contents = pattern(1 << 20, 5);
        machine.start(&[], &[]).create("file", &contents);
        machine.read_only = read_only;
        let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
        let start = machine.start(&["secondarycache=none"], &devices);
        let file = start.open("file", READ);
        start.read(&file, 0, contents.len());
        drop(file);
        start.wait(SECOND * 20);
        if takes_the_rest {
            start.pool.datasets().set("pool", "secondarycache", "all").expect("a value");
        }
        start.simulation.run(start.pool.stop_caches());
        drop(start);
        machine.simulation.crash();
        let start = machine.start(&[], &devices);
        let file = start.open("file", READ);
        assert_eq!(start.read(&file, 0, contents.len()), contents);
        assert_eq!(start.counter("l2_hits"), if takes_the_rest { 256 } else { 0 });
    }
}

#[test]
fn what_is_overwritten_is_never_read_from_flash_again() {
    let (mut machine, mut contents) = with_file();
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(&[], &devices);
    let file = start.open("file", READ_WRITE);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    for record in (0..1024).step_by(3) {
        let at = record * RECORD + 100;
        let patch = pattern(50, record as u64);
        start.simulation.run(file.write(at as u64, &patch)).expect("it is written");
        contents[at..at + patch.len()].copy_from_slice(&patch);
    }
    assert!(start.counter("l2_killed") > 300);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    start.wait(SECOND * 20);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    drop((file, start));
    machine.simulation.crash();
    let start = machine.start(&[], &devices);
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
}

/// What of a file that was written through the pool comes from flash at the next start; `between`
/// happens while the pool is not running.
fn warmth_of_what_was_written(
    settings: &[&str],
    is_clean: bool,
    change: impl Fn(&Start, &Arc<OpenFile>),
    between: impl Fn(&Machine, &mut Vec<u8>),
) -> (u64, u64) {
    let mut machine = Machine::new(11);
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(settings, &devices);
    let mut contents = pattern(1 << 20, 5);
    let file = start.create("file", &contents);
    start.wait(SECOND);
    contents[70_000..71_000].fill(3);
    start.simulation.run(file.write(70_000, &[3; 1000])).expect("memory takes it");
    change(&start, &file);
    start.simulation.run(file.sync(false)).expect("memory is durable");
    drop(file);
    start.wait(SECOND * 20);
    if is_clean {
        start.simulation.run(start.pool.stop_caches());
    }
    drop(start);
    machine.simulation.crash();
    between(&machine, &mut contents);
    let start = machine.start(settings, &devices);
    assert_eq!(start.opened, [Opened::Warm]);
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    (start.counter("l2_hits"), start.counter("origin_reads"))
}

#[test]
fn what_was_written_is_warm_after_a_restart() {
    let nothing = |_: &Machine, _: &mut Vec<u8>| {};
    for coherence in ["coherence=open", "coherence=exclusive", "coherence=ttl=60"] {
        for is_clean in [true, false] {
            let (hits, reads) =
                warmth_of_what_was_written(&[coherence], is_clean, |_, _| {}, nothing);
            assert_eq!((hits, reads), (256, 0), "{coherence}, clean: {is_clean}");
        }
    }
    let chmod = |start: &Start, file: &Arc<OpenFile>| {
        start.wait(SECOND * 20);
        let change = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
        let set = start.pool.set_attributes(file.object(), Some(file), change);
        start.simulation.run(set).expect("the permissions change");
    };
    let (hits, _) = warmth_of_what_was_written(&[], false, chmod, nothing);
    assert_eq!(hits, 256, "the alias follows the attributes");
}

#[test]
fn what_others_wrote_meanwhile_is_cold_after_a_restart() {
    let outsider = |machine: &Machine, contents: &mut Vec<u8>| {
        machine.simulation.run(async {
            let root = machine.origin.root().await.expect("there is a root").object;
            let entry = machine.origin.lookup(root, OsStr::new("file")).await.expect("it is there");
            let file = machine.origin.open(entry.object, READ_WRITE).await.expect("it opens");
            file.write(5000, &[9; 10]).await.expect("memory takes it");
        });
        contents[5000..5010].fill(9);
    };
    let (hits, reads) = warmth_of_what_was_written(&[], true, |_, _| {}, outsider);
    assert_eq!(hits, 0);
    assert!(reads > 0);
}

#[test]
fn without_flash_the_origin_brings_back_what_was_in_ram() {
    let mut machine = Machine::new(21);
    let names = ["same", "changed", "removed"];
    let contents = pattern(512 << 10, 3);
    let first = machine.start(&[], &[]);
    names.iter().for_each(|name| drop(first.create(name, &contents)));
    drop(first);
    let start = machine.start(&[], &[]);
    names.iter().for_each(|name| drop(start.read(&start.open(name, READ), 0, contents.len())));
    let snapshot = start.pool.snapshot();
    drop(start);
    machine.simulation.crash();
    machine.simulation.run(async {
        let root = machine.origin.root().await.expect("there is a root").object;
        let name = OsStr::new("changed");
        let entry = machine.origin.lookup(root, name).await.expect("it is there");
        let file = machine.origin.open(entry.object, READ_WRITE).await.expect("it opens");
        file.write(0, &[1; 10]).await.expect("memory takes it");
        machine.origin.unlink(root, OsStr::new("removed")).await.expect("it is removed");
    });
    let start = machine.start(&[], &[]);
    let (restored, hot) = start.pool.restore(&snapshot, false);
    let last = Mutex::new(restored);
    let told = |restored| {
        *last.lock() = restored;
        true
    };
    start.simulation.run(start.pool.restore_records(restored, hot, &told));
    let last = *last.lock();
    assert_eq!((last.records, last.records_left), (128, 256));
    assert!(start.counter("origin_reads") < 10, "neighbours come in one call");
    assert_eq!(start.counter("demand_data_misses"), 0);
    let in_ram = |name: &str| {
        let file = start.open(name, READ);
        let records = (0..contents.len() as u64).step_by(RECORD);
        records.filter(|at| file.read_cached(*at, RECORD).is_some()).count()
    };
    assert_eq!((in_ram("same"), in_ram("changed")), (128, 0));
}

#[test]
fn what_comes_back_stands_in_the_order_of_its_heat() {
    let (mut machine, contents) = with_file();
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(&[], &devices);
    let file = start.open("file", READ);
    let records = |first: u64, count: usize| (first * RECORD as u64, count * RECORD);
    let read = |start: &Start, file: &Arc<OpenFile>, (at, length): (u64, usize)| {
        start.read(file, at, length);
    };
    read(&start, &file, records(0, 300));
    start.wait(SECOND * 20);
    (0..3).for_each(|_| {
        read(&start, &file, records(0, 100));
        start.wait(SECOND);
    });
    let snapshot = start.pool.snapshot();
    start.simulation.run(start.pool.stop_caches());
    drop((file, start));
    machine.simulation.crash();

    let start = machine.start(&[], &devices);
    let (restored, hot) = start.pool.restore(&snapshot, true);
    let charged = start.counter("other_size");
    start.simulation.run(start.pool.restore_records(restored, hot, &|_| true));
    assert_eq!(start.counter("primed_records"), 300);
    let of_flash = ["l2_restored", "l2_restored_bytes", "l2_hits"].map(|name| start.counter(name));
    assert_eq!(of_flash, [300, 300 * RECORD as u64, 0]);
    drop(snapshot);
    let given_back = charged - start.counter("other_size");
    assert!(given_back >= 300 * 32, "the list was charged: {given_back} bytes");
    let file = start.open("file", READ);
    let in_ram = |(at, length): (u64, usize)| {
        let all = (at..at + length as u64).step_by(RECORD);
        let why = start.why("file");
        let is_cached = |at: &u64| {
            let number = at / RECORD as u64;
            let run = why.runs.iter().find(|run| number < run.first + run.count);
            run.is_some_and(|run| run.since_seconds.is_some())
        };
        all.filter(is_cached).count()
    };
    assert_eq!(in_ram(records(0, 300)), 300);
    // So much comes in that a part of it has to go.
    let mut first = 300;
    while in_ram(records(0, 300)) > 150 && first < 1000 {
        read(&start, &file, records(first, 20));
        first += 20;
    }
    let (hot, cold) = (in_ram(records(0, 100)), in_ram(records(200, 100)));
    assert!(hot >= 95 && cold <= 70, "{hot} of the hot and {cold} of the cold are left");
    assert_eq!(start.read(&file, 0, contents.len()), contents);
}

/// Names in the root, the target of `link` and the value of `user.a` of `file`.
fn metadata(start: &Start) -> (Vec<String>, String, Vec<u8>) {
    start.simulation.run(async {
        let (pool, root) = (&start.pool, start.pool.root());
        let directory = pool.open_directory(root).await.expect("it opens");
        let listing = directory.entries().await.expect("there are names");
        let mut names: Vec<String> =
            listing.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        names.sort();
        let link = pool.lookup(root, OsStr::new("link")).await.expect("it is there");
        let target = pool.read_link(link.object).await.expect("it is a link");
        let file = pool.lookup(root, OsStr::new("file")).await.expect("it is there");
        let value = pool.xattr(file.object, OsStr::new("user.a")).await.expect("it has one");
        // Stays in use, as with a kernel that remembers it.
        (names, target.to_string_lossy().into_owned(), value.to_vec())
    })
}

#[test]
fn metadata_that_proves_itself_is_warm_after_a_restart() {
    let (mut machine, _) = with_file();
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(&[], &devices);
    let root = start.pool.root();
    start.simulation.run(async {
        let name = OsStr::new("link");
        let node = Node { parent: root, name, permissions: 0o777, caller: CALLER };
        start.pool.symlink(node, OsStr::new("target")).await.expect("it is made");
        let file = start.pool.lookup(root, OsStr::new("file")).await.expect("it is there");
        let set = start.pool.set_xattr(file.object, OsStr::new("user.a"), b"1", XattrMode::Any);
        set.await.expect("memory takes it");
    });
    let expected = (vec!["file".to_string(), "link".to_string()], "target".to_string());
    let expected = (expected.0, expected.1, b"1".to_vec());
    start.simulation.run(start.pool.attributes(root, None)).expect("they are known");
    assert_eq!(metadata(&start), expected);
    start.wait(SECOND * 20);
    assert_eq!(start.counter("l2_metadata_fed"), 3);
    start.simulation.run(start.pool.stop_caches());
    drop(start);
    machine.simulation.crash();

    let start = machine.start(&[], &devices);
    let root = start.pool.root();
    assert_eq!(metadata(&start), expected);
    assert_eq!(start.counter("l2_metadata_hits"), 3);
    start.create("other", &[]);
    start.simulation.run(async {
        let file = start.pool.lookup(root, OsStr::new("file")).await.expect("it is there");
        let set = start.pool.set_xattr(file.object, OsStr::new("user.a"), b"2", XattrMode::Any);
        set.await.expect("memory takes it");
    });
    drop(start);
    machine.simulation.crash();
    let start = machine.start(&[], &devices);
    let (names, _, value) = metadata(&start);
    assert_eq!(names, ["file", "link", "other"]);
    assert_eq!(value, b"2");
}

#[test]
fn what_is_found_while_flash_is_read_in_is_warm_too() {
    let mut machine = Machine::new(12);
    let devices: [Arc<dyn Device>; 1] = [device(16 << 20)];
    let start = machine.start(&[], &devices);
    let contents = pattern(1 << 20, 5);
    drop(start.create("file", &contents));
    start.wait(SECOND * 20);
    drop(start);
    machine.simulation.crash();
    machine.looks_up_early = true;
    let start = machine.start(&[], &devices);
    start.wait(SECOND);
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
    assert_eq!(start.counter("l2_hits"), 256);
}

#[test]
fn what_shrinks_and_grows_again_is_zero_there() {
    let (mut machine, mut contents) = with_file();
    let start = machine.start(&[], &[device(16 << 20)]);
    let file = start.open("file", READ_WRITE);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    for size in [1_000_001, 4 << 20] {
        let change = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let set = start.pool.set_attributes(file.object(), Some(&file), change);
        start.simulation.run(set).expect("the size is changed");
    }
    contents[1_000_001..].fill(0);
    assert_eq!(start.read(&file, 0, contents.len()), contents);
}

#[test]
fn what_the_origin_could_lose_stays_off_flash() {
    let mut machine = Machine::new(3);
    let start = machine.start(&[], &[device(16 << 20)]);
    machine.faults.fail_next_of(u64::MAX, Errno::IO, |call| matches!(call, Call::Sync));
    let contents = pattern(1 << 20, 2);
    let file = start.create("file", &contents);
    start.wait(SECOND * 30);
    assert_eq!(start.counter("l2_fed"), 0, "the origin has never been synced");
    assert!(start.counter("l2_feed_postponed") > 0);
    machine.faults.clear();
    start.wait(SECOND * 30);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 30);
    assert!(start.counter("l2_fed") > 0, "it has been now");
}

#[test]
fn a_change_behind_our_back_is_seen_through_flash() {
    let (mut machine, contents) = with_file();
    let start = machine.start(&[], &[device(16 << 20)]);
    let file = start.open("file", READ);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    drop(file);
    let other = pattern(4 << 20, 9);
    start.simulation.run(async {
        let root = machine.origin.root().await.expect("there is a root").object;
        let entry = machine.origin.lookup(root, OsStr::new("file")).await.expect("it is there");
        let file = machine.origin.open(entry.object, READ_WRITE).await.expect("it opens");
        file.write(0, &other).await.expect("memory takes it");
    });
    let file = start.open("file", READ);
    assert_eq!(start.read(&file, 0, other.len()), other);
}

#[test]
fn properties_say_what_flash_takes() {
    let read_twice = |settings: &[&str]| {
        let (mut machine, contents) = with_file();
        let start = machine.start(settings, &[device(16 << 20)]);
        let file = start.open("file", READ);
        for _ in 0..2 {
            start.read(&file, 0, contents.len());
            start.wait(SECOND * 20);
        }
        start
    };
    let fed = |settings: &[&str]| read_twice(settings).counter("l2_fed");
    assert_eq!(fed(&["secondarycache=none"]), 0);
    assert_eq!(fed(&["secondarycache=metadata"]), 0);
    assert!(fed(&["secondarycache=data"]) > 1000);
    let start = read_twice(&["secondarycache=none"]);
    assert!(start.counter("l2_unfed_secondarycache") > 1000);
    let start = read_twice(&["l2mfuonly=on"]);
    assert!(start.counter("l2_unfed_mfuonly") > 1000);
    // Nothing in RAM, and everything from flash the second time.
    let start = read_twice(&["primarycache=metadata"]);
    assert!(start.counter("l2_hits") > 900, "{}", start.counter("l2_hits"));
    assert_eq!(start.counter("data_size"), 0);
    let start = read_twice(&["l2limit=1M"]);
    assert!((100..=256).contains(&start.counter("l2_fed")), "{}", start.counter("l2_fed"));
}

/// A start with that device whose file has been read once, and what is told of it.
fn told_of_file(settings: &[&str], device: Arc<dyn Device>) -> (Start, Why) {
    let (mut machine, contents) = with_file();
    let start = machine.start(settings, &[device]);
    start.read(&start.open("file", READ), 0, contents.len());
    start.wait(SECOND * 20);
    let why = start.why("file");
    (start, why)
}

/// Why records are not on flash, or not read from there.
fn reasons(why: &Why) -> Vec<&str> {
    let flash = why.runs.iter().filter_map(|run| run.flash.as_ref());
    flash.filter_map(|flash| flash.reason.as_deref()).collect()
}

#[test]
fn why_tells_what_lies_on_flash() {
    let (start, why) = told_of_file(&[], device(16 << 20));
    let flash = why.flash.as_ref().expect("there is a device");
    assert_eq!((why.records, flash.records, flash.records_nowhere), (1024, 1024, 0));
    assert!(why.records_cached < 1024, "RAM holds a part");
    assert!(reasons(&why).is_empty());
    let counters = start.counter("l2_records");
    assert!(counters >= 1024, "nothing is told that is not there");
    drop(start);

    let (mut machine, _) = with_file();
    let without = machine.start(&[], &[]);
    assert!(without.why("file").flash.is_none(), "there is no flash to tell of");
}

#[test]
fn why_tells_what_keeps_records_off_flash() {
    for (settings, reason) in [
        (&["secondarycache=metadata"], "secondarycache=metadata takes no contents"),
        (&["l2mfuonly=on"], "l2mfuonly=on"),
        (&["l2limit=1M"], "the dataset has as much on flash as it may"),
    ] {
        let (_, why) = told_of_file(settings, device(16 << 20));
        let flash = why.flash.as_ref().expect("there is a device");
        assert!(flash.records < 1024 && flash.records + why.records_cached >= 200);
        let seen = reasons(&why);
        assert!(seen.iter().any(|seen| seen.contains(reason)), "{settings:?}: {seen:?}");
        let (on_flash, in_ram): (u64, u64) = (flash.records, why.records_cached);
        assert!(on_flash + in_ram + flash.records_nowhere >= why.records, "each is somewhere");
        assert!(flash.records_nowhere <= why.records - in_ram.max(on_flash));
    }
    let start = Machine::new(5).start(&[], &[device(16 << 20)]);
    start.create("file", &pattern(64 << 10, 1));
    let written = start.why("file");
    assert!(reasons(&written)[0].contains("durable at the origin"), "{:?}", reasons(&written));
    start.wait(SECOND * 20);
    assert!(reasons(&start.why("file")).is_empty());
}

#[test]
fn why_and_statistics_tell_of_a_device_that_is_left_alone() {
    let (mut machine, contents) = with_file();
    let (faulty, faults) =
        FaultyDevice::new(device(16 << 20), Arc::new(machine.simulation.clone()));
    let start = machine.start(&[], &[Arc::new(faulty)]);
    let file = start.open("file", READ);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    faults.fail_next_of(8, Errno::IO, |call| matches!(call, DeviceOperation::Read { .. }));
    start.read(&file, 0, contents.len());
    let why = start.why("file");
    assert_eq!(reasons(&why).first(), Some(&"its device is left alone after failures"));
    let ring = start.pool.flash_statistics().rings.remove(0);
    let bypass = ring.bypass.expect("it is bypassed");
    assert_eq!((bypass.failures.reads, bypass.failures.writes), (8, 0));
    assert_eq!(bypass.since + bypass.left, SECOND * 10, "it is tried again after that");
    start.wait(SECOND * 10);
    assert!(start.pool.flash_statistics().rings[0].bypass.is_none());
    assert!(reasons(&start.why("file")).is_empty());
}

/// All that is counted in parts is what it is counted as in all.
#[track_caller]
fn figures_agree(start: &Start) {
    let flash = start.pool.flash_statistics();
    let statistics = start.pool.statistics_with(&flash);
    let all = |name: &str| statistics.counters.get(name).copied().unwrap_or(0);
    let beginning = |prefix: &str| -> u64 {
        let some = statistics.counters.iter().filter(|(name, _)| name.starts_with(prefix));
        some.map(|(_, value)| value).sum()
    };
    let of_datasets = |name: &str| -> u64 {
        statistics.datasets.values().filter_map(|counters| counters.get(name)).sum()
    };
    let names = statistics.datasets.values().flat_map(|counters| counters.keys());
    let counted = |name: &&String| {
        name.starts_with("l2_") && *name != "l2_asize" || name.starts_with("demand_data")
    };
    for name in names.filter(counted) {
        assert_eq!(of_datasets(name), all(name), "{name} by dataset");
    }
    for name in ["data_size", "metadata_size", "mru_size", "mfu_size", "uncached_size"] {
        assert_eq!(of_datasets(name), all(name), "{name} by dataset");
    }
    let lists: u64 = ["mru_size", "mfu_size", "uncached_size"].into_iter().map(all).sum();
    assert_eq!(lists, all("data_size") + all("metadata_size"), "RAM by list and by class");
    assert_eq!(of_datasets("l2_asize") + all("l2_asize_unowned"), all("l2_asize"));
    let rings: u64 = flash.rings.iter().map(|ring| ring.stored_bytes).sum();
    assert_eq!(rings, all("l2_asize"), "flash by device");
    assert_eq!(beginning("l2_miss_"), all("l2_misses"), "misses by reason");
    let reasons: u64 = flash.misses.iter().map(|(_, count)| count).sum();
    assert_eq!((flash.hits, reasons), (all("l2_hits"), all("l2_misses")), "as flash has it");
    let refused = beginning("l2_refused_") - all("l2_refused_present");
    assert_eq!(refused, all("l2_unfed_refused"), "refusals by reason");
}

#[test]
fn figures_of_lists_datasets_and_devices_add_up_at_any_time() {
    let (mut hits, mut refused) = (0, 0);
    for seed in 0..20 {
        let mut machine = Machine::new(seed);
        let names = ["file", "one", "two"];
        let devices: [Arc<dyn Device>; 2] = [device(4 << 20), device(2 << 20)];
        let settings = ["l2limit=1M", "compression=off"];
        for life in 0..2 {
            let start = machine.start_with(&settings[..seed as usize % 3], &devices, 4 << 20);
            let datasets = start.pool.datasets();
            names[1..].iter().for_each(|name| {
                datasets.create(&format!("pool/{name}"), None).expect("a new name");
            });
            start.pool.expire_all();
            let mut random = Random::new(seed * 2 + life);
            if life == 0 {
                names.iter().for_each(|name| drop(start.create(name, &pattern(2 << 20, 3))));
            }
            for _ in 0..60 {
                let file = start.open(names[random.below(3) as usize], READ_WRITE);
                let at = random.below(430) * RECORD as u64;
                match random.below(4) {
                    0 => {
                        let patch = [life as u8; 5000];
                        let write = file.write(at, &patch);
                        start.simulation.run(write).expect("memory takes it");
                    }
                    _ => drop(start.read(&file, at, RECORD * random.below(80) as usize)),
                }
                start.wait(Duration::from_millis(random.below(700)));
                figures_agree(&start);
            }
            datasets.destroy("pool/two", false).expect("it was there");
            start.pool.expire_all();
            figures_agree(&start);
            hits += start.counter("l2_hits");
            refused += start.counter("l2_unfed_refused");
            start.simulation.run(start.pool.stop_caches());
            figures_agree(&start);
            drop(start);
            machine.simulation.crash();
        }
    }
    assert!(hits > 1000 && refused > 100, "{hits} hits, {refused} refused");
}

#[test]
fn a_reserve_that_is_cut_is_told() {
    let (mut machine, _) = with_file();
    let start = machine.start(&["l2reserve=4G"], &[device(16 << 20)]);
    let root = start.pool.datasets().list().remove(0);
    let (wanted, in_force) = start.pool.reserve_on_flash_of(&root).expect("it has one");
    assert_eq!(wanted, 4 << 30);
    assert!((6 << 20..=8 << 20).contains(&in_force), "half of the device: {in_force}");
    let counters = start.pool.statistics().datasets.remove("pool").expect("it is there");
    assert_eq!((counters["l2reserve"], counters["l2reserve_wanted"]), (in_force, wanted));
    let without = machine.start(&["l2reserve=4G"], &[]);
    assert_eq!(without.pool.reserve_on_flash_of(&root), None);
}

#[test]
fn a_device_that_takes_no_tombstones_is_given_up_before_the_origin_changes() {
    let (mut machine, mut contents) = with_file();
    let (faulty, faults) =
        FaultyDevice::new(device(16 << 20), Arc::new(machine.simulation.clone()));
    let start = machine.start(&[], &[Arc::new(faulty)]);
    let file = start.open("file", READ_WRITE);
    start.read(&file, 0, contents.len());
    start.wait(SECOND * 20);
    faults.fail_next_of(u64::MAX, Errno::IO, |call| !matches!(call, DeviceOperation::Read { .. }));
    start.simulation.run(file.write(0, &[1; 10])).expect("the write goes on");
    contents[..10].fill(1);
    assert_eq!(*machine.renounced.lock(), 1, "the device's life is struck off");
    assert_eq!(start.read(&file, 0, contents.len()), contents);
}

#[test]
fn what_is_removed_or_replaced_leaves_flash() {
    let (mut machine, contents) = with_file();
    let start = machine.start(&[], &[device(16 << 20)]);
    start.create("other", &contents);
    for name in ["file", "other"] {
        start.read(&start.open(name, READ), 0, contents.len());
        start.wait(SECOND * 20);
    }
    let before = start.counter("l2_records");
    let root = start.pool.root();
    let (file, other) = (OsStr::new("file"), OsStr::new("other"));
    let renamed = start.pool.rename(root, file, root, other, RenameFlags::empty());
    start.simulation.run(renamed).expect("it is renamed");
    let after = start.counter("l2_records");
    assert!(before - after > 900, "{before} records, then {after}");
    start.simulation.run(start.pool.unlink(root, other)).expect("it is removed");
    assert!(start.counter("l2_records") < 100, "{}", start.counter("l2_records"));
}

/// Whatever a crash leaves of the device, what is read is what the origin holds.
#[test]
fn no_crash_brings_an_old_record_back() {
    let seeds = std::env::var("WARMFRONT_CRASH_SEEDS").ok().and_then(|text| text.parse().ok());
    let seeds: u64 = seeds.unwrap_or(60);
    let (mut hits, mut warm) = (0, 0);
    for seed in 0..seeds {
        let history = crash_history(seed);
        hits += history.0;
        warm += history.1;
    }
    println!("{seeds} histories of four starts, {hits} records read from flash, {warm} at once");
    assert!(hits > seeds * 10, "flash was used: {hits} hits");
    assert!(warm > seeds * 10, "flash was warm after crashes: {warm} hits");
}

/// Records that came from flash, and how many of them right after a start.
fn crash_history(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(seed);
    let mut image = vec![0; 2 << 20];
    let (mut hits, mut warm) = (0, 0);
    let mut files: Vec<(String, Vec<u8>)> = (0..4)
        .map(|number| (format!("file{number}"), pattern(512 << 10, seed * 10 + number)))
        .collect();
    let first = machine.start(&[], &[]);
    files.iter().for_each(|(name, contents)| drop(first.create(name, contents)));
    drop(first);
    // What is not at the origin is lost with a crash: with write=back each change is synced.
    let (write, syncs) = match seed % 2 {
        0 => ("write=through", false),
        _ => ("write=back", true),
    };
    for life in 0..4 {
        let clock: Arc<dyn Clock> = Arc::new(machine.simulation.clone());
        let slowness = Some((clock, Duration::from_micros(500)));
        let (device, crashes) = CrashDevice::new(image, 4096, seed ^ life, slowness);
        let settings = ["compression=off", write];
        let start = machine.start_with(&settings, &[Arc::new(device)], 4 << 20);
        for (name, contents) in &files {
            let file = start.open(name, READ);
            let read = start.simulation.run(file.read(0, contents.len())).expect("read");
            assert!(read.to_vec() == *contents, "seed {seed}, start of life {life}: {name}");
        }
        warm += start.counter("l2_hits");
        for _ in 0..300 + random.below(300) {
            let index = random.below(files.len() as u64) as usize;
            let (name, contents) = &mut files[index];
            let file = start.open(name, READ_WRITE);
            let at = random.below(contents.len() as u64) as usize;
            match random.below(10) {
                0 => {
                    let patch = pattern(1 + random.below(9000) as usize, random.draw());
                    let end = at + patch.len();
                    start.simulation.run(file.write(at as u64, &patch)).expect("written");
                    contents.resize(contents.len().max(end), 0);
                    contents[at..end].copy_from_slice(&patch);
                    if syncs {
                        start.simulation.run(file.sync(false)).expect("memory is durable");
                    }
                }
                1 if contents.len() > 100_000 => {
                    let size = contents.len() as u64 - random.below(50_000);
                    let change = SetAttributes { size: Some(size), ..SetAttributes::default() };
                    let set = start.pool.set_attributes(file.object(), Some(&file), change);
                    start.simulation.run(set).expect("cut");
                    contents.truncate(size as usize);
                }
                2 => start.simulation.run(file.sync(false)).expect("memory is durable"),
                3 => start.wait(Duration::from_millis(random.below(8000))),
                _ => {
                    let length = (1 + random.below(30_000) as usize).min(contents.len() - at);
                    let read = start.simulation.run(file.read(at as u64, length)).expect("read");
                    assert!(read.to_vec() == contents[at..at + length], "seed {seed} life {life}");
                }
            }
        }
        for (name, contents) in &files {
            let file = start.open(name, READ);
            let read = start.simulation.run(file.read(0, contents.len())).expect("read");
            assert!(read.to_vec() == *contents, "seed {seed}, life {life}: {name}");
        }
        hits += start.counter("l2_hits");
        drop(start);
        image = crashes.crash(random.draw());
        machine.simulation.crash();
    }
    (hits, warm)
}
