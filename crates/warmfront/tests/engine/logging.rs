//! The intent log under a pool.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::{Bench, READ, pattern, read};
use futures::executor::block_on;
use rustix::io::Errno;
use storage::{
    Allocation, Call, Clock, MemoryDevice, Origin, RealClock, SetAttributes, SetTime, Timestamp,
};
use warmfront::zil::{Log, Opening, Options};
use warmfront::{Pool, ReplayOptions, TxgState, replay};

const CEILING: u64 = 64 << 20;
const LOG_BYTES: usize = 4 << 20;
/// How long something may take that does not wait for anybody.
const PATIENCE: Duration = Duration::from_secs(30);

const OPENING: Opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: false };

fn options() -> Options {
    Options { block_bytes_max: 256 << 10, ..Options::default() }
}

fn log() -> Log {
    log_on(&Arc::new(MemoryDevice::new(LOG_BYTES, 4096)))
}

fn log_on(device: &Arc<MemoryDevice>) -> Log {
    let clock = Arc::new(RealClock::new());
    block_on(Log::format(device.clone(), OPENING, options(), clock)).expect("it is blank")
}

/// Brings to the origin what the log on the device holds at this moment, as after a kill.
fn replay_to_origin(bench: &Bench, device: &MemoryDevice) {
    let found = Arc::new(MemoryDevice::with_image(device.image(), 4096));
    let clock = Arc::new(RealClock::new());
    let opened = block_on(Log::open(found, OPENING, options(), clock));
    let mut recovery = opened.expect("it is a log");
    let options = ReplayOptions { names_lasted: true };
    block_on(replay(&*bench.origin, &mut recovery, options, &|_| ())).expect("memory takes it");
}

/// A full log holds nobody up but him who changes a file of which it tells something older: he
/// waits for a commit, and if he held what that needs, neither would ever go on.
#[test]
fn a_full_log_holds_up_only_who_it_would_contradict() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    block_on(bench.pool.add_log(Arc::new(log()), Arc::new(|| Ok(())))).expect("nothing is dirty");
    let (slow, other) = (bench.create("slow"), bench.create("other"));
    let untold = bench.create("untold");
    let set_times = |pool: &Arc<Pool>, id, seconds| {
        let modified = Some(SetTime::At(Timestamp { seconds, nanoseconds: 0 }));
        let change = SetAttributes { modified, ..SetAttributes::default() };
        block_on(pool.set_attributes(id, None, change)).expect("the origin takes it");
    };
    // A commit may begin by itself: with this one's contents it would stand still elsewhere.
    block_on(other.write(0, &pattern(4096, 1))).expect("memory takes it");
    block_on(bench.pool.sync()).expect("the origin takes it");
    set_times(&bench.pool, other.object(), 0);
    // A commit that stands still keeps the log from being released.
    bench.faults.hang(|call| matches!(call, Call::Write { .. }));
    block_on(slow.write(0, &pattern(4096, 1))).expect("memory takes it");
    bench.pool.close_early();
    let began = Instant::now();
    while bench.faults.hanging() == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::yield_now();
    }
    let (pool, id) = (bench.pool.clone(), other.object());
    let (tell, told) = mpsc::channel();
    let is_full = |pool: &Arc<Pool>| pool.log_statistics().expect("there is a log").full > 0;
    let changer = std::thread::spawn(move || {
        for seconds in 1.. {
            if is_full(&pool) {
                break;
            }
            set_times(&pool, id, seconds);
        }
        tell.send(()).expect("somebody listens");
    });
    let began = Instant::now();
    while !is_full(&bench.pool) {
        assert!(began.elapsed() < PATIENCE, "the log does not become full");
        std::thread::yield_now();
    }
    set_times(&bench.pool, untold.object(), 7);
    bench.faults.release();
    told.recv_timeout(PATIENCE).expect("a change waits for a commit that waits for it");
    changer.join().expect("it has ended");
    block_on(other.sync(false)).expect("the origin takes it");
}

/// Records and bytes that the log device was given.
fn written(bench: &Bench) -> (u64, u64) {
    let log = bench.pool.log_statistics().expect("there is a log");
    (log.records, log.block_bytes)
}

/// Waits until so many further groups have been tried.
fn try_groups(bench: &Bench, groups: u64) {
    let open = || bench.pool.write_back_statistics().open_txg;
    let (first, began) = (open(), Instant::now());
    while open() < first + groups {
        assert!(began.elapsed() < PATIENCE, "nothing is tried any more");
        std::thread::yield_now();
    }
}

/// What the origin refuses stays where the log has it: each attempt would wear the device. It is
/// logged anew once a minute, when the log is released of what the origin has taken.
#[test]
fn what_is_refused_is_logged_once() {
    let bench = Bench::new(&["coherence=exclusive", "recordsize=64K"], CEILING);
    // The clock goes on while this thread is not looking.
    let began = bench.clock.now();
    block_on(bench.pool.add_log(Arc::new(log()), Arc::new(|| Ok(())))).expect("nothing is dirty");
    let file = bench.create("file");
    bench.faults.fail_next_of(u64::MAX, Errno::NOSPC, |call| matches!(call, Call::Write { .. }));
    block_on(file.write(0, &pattern(512 << 10, 1))).expect("memory takes it");
    // The log takes it, though he may be told already that the origin has not.
    let _ = block_on(file.sync(false));
    try_groups(&bench, 2);
    assert!(written(&bench).1 > 512 << 10, "{:?}", written(&bench));
    try_groups(&bench, 50);
    let logged_bytes = written(&bench).1;
    let minutes = (bench.clock.now() - began).as_secs() / 60;
    assert!(logged_bytes <= (1 + minutes) * (600 << 10), "{logged_bytes} in {minutes} minutes");
    bench.faults.clear();
    block_on(bench.pool.sync()).expect("the origin takes it");
    assert_eq!(bench.pool.write_back_statistics().failing, None);
    let log = bench.pool.log_statistics().expect("there is a log");
    assert!(log.ring_bytes - log.free_bytes < 512 << 10, "the log is released: {log:?}");
}

/// While one file is refused, groups take others to the origin: that costs the log no more than
/// these, until it needs the room; then what is refused is logged anew, and nobody has to wait.
#[test]
fn one_file_that_is_refused_costs_the_log_little() {
    let bench = Bench::new(&["coherence=exclusive", "recordsize=64K"], CEILING);
    block_on(bench.pool.add_log(Arc::new(log()), Arc::new(|| Ok(())))).expect("nothing is dirty");
    let (refused, other) = (bench.create("refused"), bench.create("other"));
    let is_struck = |call: &Call| matches!(call, Call::Write { length, .. } if *length > 4096);
    bench.faults.fail_next_of(u64::MAX, Errno::NOSPC, is_struck);
    block_on(refused.write(0, &pattern(512 << 10, 1))).expect("memory takes it");
    let _ = block_on(refused.sync(false));
    let (before, began, rounds) = (written(&bench).1, bench.clock.now(), 1000);
    for round in 0..rounds {
        block_on(other.write(0, &pattern(4096, round))).expect("memory takes it");
        block_on(other.sync(true)).expect("the log takes it");
        if round % 10 == 0 {
            bench.pool.close_early();
            try_groups(&bench, 1);
        }
    }
    // Once a minute it is logged anew in any case; attempts come every one or two seconds.
    let minutes = (bench.clock.now() - began).as_secs() / 60 + 1;
    let (logged, most) = (written(&bench).1 - before, rounds * 8192 * 2 + minutes * (600 << 10));
    assert!(logged < most, "{logged} of {most} bytes in {minutes} minutes");
    let full = bench.pool.log_statistics().expect("there is a log").full;
    assert_eq!(full, 0);
    bench.faults.clear();
    block_on(bench.pool.sync()).expect("the origin takes it");
    let txgs = bench.pool.write_back_statistics().txgs;
    assert_eq!(txgs[txgs.len() - 2].state, TxgState::Committed);
}

/// A file that the log has no room for, and that the origin refuses, keeps no other one from being
/// made to last, for as long as that may go on; and a replay brings none of them back to what it
/// was before.
#[test]
fn a_refused_file_fails_alone() {
    let bench = Bench::new(&["coherence=exclusive", "recordsize=64K"], CEILING);
    let device = Arc::new(MemoryDevice::new(LOG_BYTES, 4096));
    block_on(bench.pool.add_log(Arc::new(log_on(&device)), Arc::new(|| Ok(()))))
        .expect("nothing is dirty");
    let (refused, kept) = (bench.create("refused"), bench.create("kept"));
    block_on(kept.write(0, &pattern(4096, 0))).expect("memory takes it");
    block_on(kept.sync(false)).expect("the log takes it");
    let is_struck = |call: &Call| matches!(call, Call::Write { length, .. } if *length > 4096);
    bench.faults.fail_next_of(u64::MAX, Errno::NOSPC, is_struck);
    let promised = pattern(512 << 10, 1);
    block_on(refused.write(0, &promised)).expect("memory takes it");
    // The log takes it, though he may be told already that the origin has not.
    let _ = block_on(refused.sync(false));
    block_on(refused.write(512 << 10, &pattern(6 << 20, 2))).expect("memory takes it");
    block_on(refused.sync(false)).expect_err("neither takes it");
    for round in 1..=500 {
        block_on(kept.write(0, &pattern(4096, round))).expect("memory takes it");
        block_on(kept.sync(round % 2 == 0)).expect("it can be made to last");
        if round % 50 == 0 {
            let new = bench.create(&format!("new-{round}"));
            block_on(new.write(0, &pattern(4096, round))).expect("memory takes it");
            block_on(new.sync(false)).expect("it can be made to last");
            block_on(bench.pool.sync_directory(bench.pool.root())).expect("names last");
            bench.pool.close_early();
            try_groups(&bench, 1);
        }
    }
    block_on(refused.sync(false)).expect_err("neither takes it");
    replay_to_origin(&bench, &device);
    let at_origin = |name: &str, length| {
        let root = block_on(bench.origin.root()).expect("memory answers").object;
        let found = block_on(bench.origin.lookup(root, name.as_ref())).expect("it is there");
        let file = block_on(bench.origin.open(found.object, READ)).expect("it opens");
        let mut contents = vec![0; length];
        let mut buffers = [IoSliceMut::new(&mut contents)];
        let found = block_on(file.read(0, &mut buffers)).expect("memory gives it");
        contents.truncate(found);
        contents
    };
    assert!(at_origin("kept", 5000) == pattern(4096, 500), "the last one is there");
    assert!(at_origin("new-500", 5000) == pattern(4096, 500), "a new one is there");
    assert!(at_origin("refused", promised.len()) == promised, "what the log took is there");
}

/// What space is reserved, or freed, leaves the size that the origin made of it.
#[test]
fn a_replay_leaves_the_size_that_an_allocation_led_to() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let device = Arc::new(MemoryDevice::new(LOG_BYTES, 4096));
    block_on(bench.pool.add_log(Arc::new(log_on(&device)), Arc::new(|| Ok(()))))
        .expect("nothing is dirty");
    for (mode, size) in [(0x00, 101), (0x01, 1), (0x10, 101), (0x11, 1), (0x03, 1)] {
        let file = bench.create(&format!("mode-{mode}"));
        block_on(file.write(0, b"x")).expect("memory takes it");
        let allocation = Allocation { mode, offset: 1, length: 100 };
        block_on(file.allocate(allocation)).expect("memory takes it");
        block_on(file.sync(false)).expect("the log takes it");
        replay_to_origin(&bench, &device);
        let found = block_on(bench.origin.attributes(file.object())).expect("it is there");
        assert_eq!(found.size, size, "mode {mode:#x}");
        assert_eq!(read(&file, 0, 200).len() as u64, size, "mode {mode:#x}");
    }
}

/// A group of which the origin refused a file is not said to be committed.
#[test]
fn a_group_that_is_refused_says_so() {
    let bench = Bench::new(&["coherence=exclusive", "recordsize=64K"], CEILING);
    let file = bench.create("file");
    bench.faults.fail_next_of(u64::MAX, Errno::NOSPC, |call| matches!(call, Call::Write { .. }));
    block_on(file.write(0, &pattern(4096, 1))).expect("memory takes it");
    assert!(block_on(bench.pool.sync()).is_err());
    let txgs = bench.pool.write_back_statistics().txgs;
    let tried: Vec<_> = txgs.iter().filter(|txg| txg.ended.is_some()).collect();
    assert!(!tried.is_empty(), "it was tried");
    for txg in tried {
        assert_eq!(txg.state, TxgState::Refused, "{txg:?}");
        assert!(txg.error.as_ref().is_some_and(|error| error.contains("space")), "{txg:?}");
    }
    bench.faults.clear();
    block_on(bench.pool.sync()).expect("the origin takes it");
    let txgs = bench.pool.write_back_statistics().txgs;
    assert_eq!(txgs[txgs.len() - 2].state, TxgState::Committed);
}
