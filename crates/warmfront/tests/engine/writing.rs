//! Writes and the cache: whatever is done through the pool, a read finds what the origin has.

use std::ffi::OsStr;
use std::time::Duration;

use crate::common::{Bench, READ, READ_WRITE, pattern, read};
use futures::executor::block_on;
use proptest::prelude::*;
use rustix::io::Errno;
use storage::{Allocation, Call, Clock, OpenMode, Origin, SetAttributes, XattrMode};
use warmfront::{Endless, EngineError, Patience, Waiting};

const CEILING: u64 = 64 << 20;

#[derive(Debug, Clone)]
enum Step {
    Write { offset: u64, length: usize, seed: u64 },
    Append { length: usize, seed: u64 },
    Resize { size: u64 },
    PunchHole { offset: u64, length: u64 },
    Read { offset: u64, length: usize },
    Recordsize { shift: u32 },
    Reopen,
    Sync { whole: bool },
    SetWrite { mode: &'static str },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let offset = 0..300_000u64;
    let length = 0..150_000usize;
    let step = prop_oneof![
        4 => (offset.clone(), length.clone(), any::<u64>())
            .prop_map(|(offset, length, seed)| Step::Write { offset, length, seed }),
        1 => (length.clone(), any::<u64>())
            .prop_map(|(length, seed)| Step::Append { length, seed }),
        2 => offset.clone().prop_map(|size| Step::Resize { size }),
        1 => (offset.clone(), 1..100_000u64)
            .prop_map(|(offset, length)| Step::PunchHole { offset, length }),
        6 => (offset, length).prop_map(|(offset, length)| Step::Read { offset, length }),
        1 => (12..18u32).prop_map(|shift| Step::Recordsize { shift }),
        1 => Just(Step::Reopen),
        1 => any::<bool>().prop_map(|whole| Step::Sync { whole }),
        1 => prop_oneof![Just("back"), Just("through")].prop_map(|mode| Step::SetWrite { mode }),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn reads_find_what_was_written(
        steps in steps(),
        coherence in prop_oneof![Just("open"), Just("exclusive"), Just("ttl=1")],
        write in prop_oneof![3 => Just("back"), 1 => Just("through"), 1 => Just("around")],
    ) {
        let settings = [&format!("coherence={coherence}"), &format!("write={write}")];
        let bench = Bench::new(&["recordsize=16K", settings[0], settings[1]], CEILING);
        let mut model: Vec<u8> = Vec::new();
        let mut file = bench.create("file");
        for step in steps {
            match step {
                Step::Write { offset, length, seed } => {
                    let data = pattern(length, seed);
                    block_on(file.write(offset, &data)).expect("memory takes it");
                    put(&mut model, offset as usize, &data);
                }
                Step::Append { length, seed } => {
                    let data = pattern(length, seed);
                    let at = block_on(file.append(&data)).expect("memory takes it");
                    prop_assert_eq!(at, model.len() as u64);
                    put(&mut model, at as usize, &data);
                }
                Step::Resize { size } => {
                    let change = SetAttributes { size: Some(size), ..SetAttributes::default() };
                    block_on(bench.pool.set_attributes(file.object(), Some(&file), change))
                        .expect("memory takes it");
                    model.resize(size as usize, 0);
                }
                Step::PunchHole { offset, length } => {
                    let allocation = Allocation { mode: 0x03, offset, length };
                    block_on(file.allocate(allocation)).expect("memory takes it");
                    let end = ((offset + length) as usize).min(model.len());
                    if (offset as usize) < end {
                        model[offset as usize..end].fill(0);
                    }
                }
                Step::Read { offset, length } => {
                    let start = (offset as usize).min(model.len());
                    let end = (start + length).min(model.len());
                    prop_assert_eq!(read(&file, offset, length), &model[start..end]);
                }
                Step::Recordsize { shift } => {
                    let size = (1u64 << shift).to_string();
                    bench.pool.datasets().set("pool", "recordsize", &size).expect("a size");
                }
                Step::Reopen => {
                    drop(file);
                    file = bench.open("file", READ_WRITE);
                }
                Step::Sync { whole } => {
                    match whole {
                        true => block_on(bench.pool.sync()).expect("memory is durable"),
                        false => block_on(file.sync(false)).expect("memory is durable"),
                    }
                    prop_assert_eq!(at_origin(&bench, "file"), &model[..]);
                    prop_assert!(!bench.pool.is_dirty());
                }
                Step::SetWrite { mode } => {
                    bench.pool.datasets().set("pool", "write", mode).expect("a value");
                }
            }
            bench.pool.validate_write_back();
            let known = block_on(bench.pool.attributes(file.object(), Some(&file)));
            prop_assert_eq!(known.expect("known").attributes.size, model.len() as u64);
        }
        prop_assert_eq!(read(&file, 0, model.len() + 1), &model[..]);
        block_on(bench.pool.sync()).expect("memory is durable");
        prop_assert_eq!(at_origin(&bench, "file"), model);
        bench.pool.datasets().validate().expect("valid");
    }
}

fn put(model: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let end = offset + data.len();
    if model.len() < end {
        model.resize(end, 0);
    }
    model[offset..end].copy_from_slice(data);
}

fn at_origin(bench: &Bench, name: &str) -> Vec<u8> {
    block_on(async {
        let root = bench.origin.root().await.expect("there is a root").object;
        let entry = bench.origin.lookup(root, OsStr::new(name)).await.expect("it is there");
        let file = bench.origin.open(entry.object, READ).await.expect("it can be opened");
        let mut bytes = vec![0; entry.attributes.size as usize];
        let count = file.read(0, &mut [std::io::IoSliceMut::new(&mut bytes)]).await;
        assert_eq!(count.expect("memory gives it"), bytes.len());
        bytes
    })
}

#[test]
fn opening_to_truncate_empties_what_is_cached() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    bench.put("file", &pattern(300_000, 1));
    let reader = bench.open("file", READ);
    assert_eq!(read(&reader, 0, 300_000).len(), 300_000);
    let writer = bench.open("file", OpenMode { truncate: true, ..READ_WRITE });
    assert!(read(&reader, 0, 300_000).is_empty());
    block_on(writer.write(200_000, b"end")).expect("memory takes it");
    let bytes = read(&reader, 0, 300_000);
    assert_eq!(bytes.len(), 200_003);
    assert!(bytes[..200_000].iter().all(|byte| *byte == 0));
}

#[test]
fn a_failed_write_leaves_what_the_origin_has() {
    let bench = Bench::new(&[], CEILING);
    let contents = pattern(200_000, 2);
    bench.put("file", &contents);
    let file = bench.open("file", READ_WRITE);
    assert_eq!(read(&file, 0, 200_000), contents);
    bench.faults.fail_next(10);
    assert!(block_on(file.write(1000, b"lost")).is_err());
    bench.faults.fail_next(0);
    assert_eq!(read(&file, 0, 200_000), contents);
}

#[test]
fn a_written_record_is_read_from_ram() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let file = bench.create("file");
    let data = pattern(512 << 10, 3);
    block_on(file.write(0, &data)).expect("memory takes it");
    assert_eq!(read(&file, 0, data.len()), data);
    assert_eq!(bench.counter("origin_reads"), 0);
}

#[test]
fn writes_of_a_read_only_pool_are_refused() {
    let bench = Bench::new(&[], CEILING);
    let file = bench.create("file");
    block_on(file.write(0, b"x")).expect("memory takes it");
    let (origin, faults) = storage::FaultyOrigin::new(bench.origin.clone());
    let options = warmfront::PoolOptions {
        name: "other".to_string(),
        origin: std::sync::Arc::new(origin),
        datasets: warmfront::Datasets::new("other").expect("a good name"),
        memory: warmfront::Memory::new(CEILING),
        clock: bench.clock.clone(),
        spawn: std::sync::Arc::new(storage::ThreadPool::new("test", 1).expect("a thread")),
        read_only: true,
        flash: warmfront::flash::FlashOptions::default(),
    };
    let pool = block_on(warmfront::Pool::open(options)).expect("memory answers");
    let found = block_on(pool.lookup(pool.root(), OsStr::new("file"))).expect("it is there");
    assert!(block_on(pool.open_file(found.object, READ_WRITE)).is_err());
    assert!(block_on(pool.unlink(pool.root(), OsStr::new("file"))).is_err());
    assert!(block_on(pool.open_file(found.object, READ)).is_ok());
    faults.fail_next_of(u64::MAX, rustix::io::Errno::ROFS, |call| *call == storage::Call::Sync);
    block_on(pool.sync()).expect("nothing was changed");
}

/// What is written to an open file waits for an origin that is out of reach, also when nothing was
/// dirty before.
#[test]
fn writes_wait_for_an_origin_out_of_reach() {
    let bench = Bench::new(&["coherence=open"], CEILING);
    let file = bench.create("file");
    block_on(file.write(0, b"before")).expect("memory takes it");
    block_on(file.sync(false)).expect("memory is durable");
    assert!(!bench.pool.is_dirty());
    bench.faults.unreachable(true);
    block_on(file.write(0, b"during")).expect("it waits");
    block_on(file.sync(false)).expect_err("the origin does not have it");
    bench.faults.unreachable(false);
    assert_eq!(read(&file, 0, 6), b"during");
    block_on(file.sync(false)).expect("memory is durable");
    assert_eq!(at_origin(&bench, "file"), b"during");
}

/// What is dirty beside a hole of the same record is read without its origin.
#[test]
fn what_is_dirty_needs_no_origin() {
    let bench = Bench::new(&["recordsize=128K"], CEILING);
    bench.put("file", &pattern(400_000, 1));
    let file = bench.open("file", READ_WRITE);
    bench.faults.unreachable(true);
    let data = pattern(10_000, 2);
    for offset in [4096, (128 << 10) - 5000] {
        block_on(file.write(offset, &data)).expect("memory takes it");
        assert_eq!(read(&file, offset, data.len()), data);
        assert_eq!(read(&file, offset + 1000, 8000), data[1000..9000]);
        block_on(file.read(offset + 1, data.len())).expect_err("the origin has the last byte");
    }
    bench.faults.unreachable(false);
    let mut expected = pattern(400_000, 1);
    put(&mut expected, 4096, &data);
    put(&mut expected, (128 << 10) - 5000, &data);
    assert_eq!(read(&file, 0, 400_000), expected);
}

/// Beside what is dirty are zeros where the origin has nothing: it need not be asked there. Where
/// it has something by now, it is.
#[test]
fn holes_behind_the_end_at_the_origin_need_no_origin() {
    let bench = Bench::new(&["recordsize=128K"], CEILING);
    let (new, old) = (bench.create("new"), bench.create("old"));
    block_on(old.write(0, &pattern(1000, 1))).expect("memory takes it");
    block_on(old.sync(false)).expect("memory is durable");
    let data = pattern(5000, 2);
    let mut expected = vec![0; 500_000];
    bench.faults.unreachable(true);
    for offset in [200_000, 450_000] {
        for file in [&new, &old] {
            block_on(file.write(offset as u64, &data)).expect("memory takes it");
        }
        put(&mut expected, offset, &data);
    }
    let end = 450_000 + data.len();
    expected.truncate(end);
    assert!(read(&new, 0, end) == expected);
    assert!(read(&old, 128 << 10, end - (128 << 10)) == expected[128 << 10..]);
    block_on(old.read(2000, 10)).expect_err("the origin has bytes of this record");
    assert_eq!(bench.pool.statistics().counters["origin_reads"], 1, "it was asked for that alone");
    bench.faults.unreachable(false);
    put(&mut expected, 0, &pattern(1000, 1));
    assert!(read(&old, 0, end) == expected);

    // What has come to the origin meanwhile is there, though the file stays dirty.
    let grown = bench.create("grown");
    block_on(grown.write(300_000, &data)).expect("memory takes it");
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let began = std::time::Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::yield_now();
        }
    };
    let is_second = |call: &Call| matches!(call, Call::Write { offset: 700_000, .. });
    bench.faults.fail_next_of(u64::MAX, Errno::IO, is_second);
    bench.faults.hang(|call| matches!(call, Call::SyncFile { .. } | Call::Sync));
    std::thread::scope(|scope| {
        let group = bench.pool.write_back_statistics().open_txg;
        let sync = scope.spawn(|| block_on(bench.pool.sync()));
        wait("the group is flushed", &|| bench.faults.hanging() > 0);
        block_on(grown.write(700_000, &data)).expect("memory takes it");
        bench.faults.release();
        let is_committed = || bench.pool.write_back_statistics().committed_txg >= group;
        wait("the group is committed", &is_committed);
        // Whether this waits for what came meanwhile is not asked here.
        let _ = sync.join().expect("it ends");
    });
    assert!(bench.pool.is_dirty(), "the second write belongs to the next group");
    let mut expected = vec![0; 705_000];
    for offset in [300_000, 700_000] {
        put(&mut expected, offset, &data);
    }
    assert!(read(&grown, 0, 705_000) == expected);
    bench.faults.clear();
    block_on(bench.pool.sync()).expect("memory is durable");
    assert!(at_origin(&bench, "grown") == expected);
}

/// The clock on the wall is set, far back and far ahead, between writes and while they are dirty.
#[test]
fn clock_changes_harm_nobody() {
    let bench = Bench::new(&["recordsize=4K"], CEILING);
    let file = bench.create("file");
    let mut expected = Vec::new();
    for (number, ahead) in [(1, 0), (2, -900), (3, 1 << 33), (4, -1 << 33), (5, 0)] {
        bench.clock.set_ahead(ahead);
        let data = pattern(10_000, number);
        let before = bench.clock.time_of_day().seconds;
        put(&mut expected, number as usize * 5000, &data);
        block_on(file.write(number * 5000, &data)).expect("memory takes it");
        let known = block_on(bench.pool.attributes(file.object(), None)).expect("it is there");
        let noted = before..=bench.clock.time_of_day().seconds;
        assert!(noted.contains(&known.attributes.modified.seconds), "{known:?} {noted:?}");
        bench.clock.set_ahead(-ahead);
        let again = block_on(bench.pool.open_file(file.object(), READ)).expect("it opens");
        assert_eq!(read(&again, 0, expected.len()), expected);
        block_on(file.sync(false)).expect("memory is durable");
        assert_eq!(at_origin(&bench, "file"), expected);
        let seen = block_on(bench.pool.attributes(file.object(), None)).expect("it is there");
        assert_eq!(seen.attributes.modified, known.attributes.modified, "it is told to the origin");
        assert_eq!(read(&again, 0, expected.len()), expected);
        bench.pool.validate_write_back();
    }
}

/// A kernel that keeps pages looks at the time of the last change: what it read between two writes
/// of one tick of the clock it would take for what is there after both.
#[test]
fn each_write_has_a_time_of_its_own() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let file = bench.create("file");
    let mut times = Vec::new();
    for number in 0..300 {
        block_on(file.write(number % 7 * 4096, b"word")).expect("memory takes it");
        if number % 100 == 99 {
            // The next write finds a file that is not dirty.
            block_on(bench.pool.sync()).expect("the origin takes it");
        }
        let seen = block_on(bench.pool.attributes(file.object(), None)).expect("it is there");
        times.push(seen.attributes.modified);
    }
    assert!(times.is_sorted_by(|before, after| before < after), "{times:?}");
}

/// Small writes to cached records: in place, past the end, and while a reader holds the record.
#[test]
fn small_writes_change_cached_records_in_place() {
    let bench = Bench::new(&["recordsize=64K"], 16 << 20);
    let mut expected = pattern(100_000, 1);
    bench.put("file", &expected);
    let file = bench.open("file", READ_WRITE);
    assert_eq!(read(&file, 0, expected.len()), expected);
    let pinned = file.read_cached(0, 4096).expect("it was just read");
    let before = expected[..4096].to_vec();
    for (number, offset) in
        [100usize, 3000, 70_000, 99_000, 99_900, 100_300, 140_000].iter().enumerate()
    {
        let data = pattern(500, 10 + number as u64);
        block_on(file.write(*offset as u64, &data)).expect("memory takes it");
        if expected.len() < offset + 500 {
            expected.resize(offset + 500, 0);
        }
        expected[*offset..offset + 500].copy_from_slice(&data);
        assert_eq!(read(&file, 0, expected.len()), expected, "after a write at {offset}");
    }
    assert_eq!(pinned.to_vec(), before, "what a reader holds does not change");
}

/// Somebody of whom it is known what has become of him.
struct Writer(Waiting);

impl Patience for Writer {
    fn waiting(&self) -> Waiting {
        self.0
    }
}

const MIB: usize = 1 << 20;

/// Who waits for room need not wait for ever, holds nobody up, and is told how much was taken.
#[test]
fn who_waits_for_room_may_stop() {
    let bench = Bench::new(&["failmode=wait", "recordsize=64K"], 16 << 20);
    let (file, appended) = (bench.create("file"), bench.create("appended"));
    let is_write = |call: &Call| matches!(call, Call::Write { .. });
    bench.faults.fail_next_of(u64::MAX, Errno::IO, is_write);
    let data = pattern(8 << 20, 1);
    let write = |state, at: usize| block_on(file.write_for(&Writer(state), at as u64, &data[at..]));
    let mut taken = write(Waiting::Nobody, 0).expect("there is room for some of it");
    // It may have stopped at a delay, with some room left.
    while let Ok(more) = write(Waiting::Nobody, taken) {
        taken += more;
    }
    assert!(taken > 1 << 20 && taken < data.len(), "{taken} bytes are taken");
    for state in [Waiting::Nobody, Waiting::ToEnd] {
        // The pool's clock also goes by what others sleep at the same time.
        let began = std::time::Instant::now();
        let error = write(state, taken).expect_err("there is no room");
        assert!(matches!(error, EngineError::Interrupted), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30), "it waits for some time only");
        let error = block_on(appended.append_for(&Writer(state), &data)).expect_err("no room");
        assert!(matches!(error, EngineError::Interrupted), "{error}");
    }
    // Somebody who goes on waiting is told of the origin in the end.
    let error = write(Waiting::On, taken).expect_err("there is no room");
    assert!(matches!(error, EngineError::Origin(_)), "{error}");
    assert_eq!(read(&file, 0, taken), data[..taken]);
    bench.faults.clear();
    // The clock that the wait goes by runs ahead of the threads that write.
    let began = std::time::Instant::now();
    while bench.pool.write_back_statistics().failing.is_some() {
        assert!(began.elapsed() < Duration::from_secs(30), "the origin takes it again");
        bench.pool.close_early();
        std::thread::yield_now();
    }
    for (number, piece) in data.chunks(MIB).enumerate() {
        // Nor may that clock take the threads for an origin that does not answer.
        while bench.pool.is_dirty() {
            assert!(began.elapsed() < Duration::from_secs(30), "the origin takes it again");
            bench.pool.close_early();
            std::thread::yield_now();
        }
        let landed = block_on(appended.append_for(&Endless, piece)).expect("there is room again");
        assert_eq!(landed, (number * MIB) as u64..((number + 1) * MIB) as u64);
    }
    let _ = block_on(file.sync(false));
    block_on(file.sync(false)).expect("memory is durable");
    block_on(appended.sync(false)).expect("memory is durable");
    assert_eq!(at_origin(&bench, "file"), data[..taken]);
    assert_eq!(at_origin(&bench, "appended"), data);
    bench.pool.validate_write_back();
}

/// An origin that does not answer at all fails as one that refuses does, only later; it is told
/// before.
#[test]
fn who_waits_for_an_origin_that_is_silent_is_told() {
    for (mode, least) in [("continue", 60), ("wait", 300)] {
        let bench = Bench::new(&[&format!("failmode={mode}"), "recordsize=64K"], 16 << 20);
        let file = bench.create("file");
        assert_eq!(bench.pool.write_back_statistics().silence, None);
        bench.faults.hang(|call| matches!(call, Call::Write { .. }));
        let data = pattern(8 << 20, 1);
        let began = bench.clock.now();
        let error = block_on(file.write(0, &data)).expect_err("there is no room");
        let waited = (bench.clock.now() - began).as_secs();
        assert!(matches!(&error, EngineError::Origin(error) if error.is_unreachable()), "{error}");
        assert!(waited >= least, "{mode}: {waited} s");
        let silence = bench.pool.write_back_statistics().silence.expect("it is silent");
        assert!(silence >= Duration::from_secs(60), "{silence:?}");
        bench.faults.release();
        let _ = block_on(file.sync(false));
        block_on(file.sync(false)).expect("memory is durable");
        let kept = at_origin(&bench, "file");
        assert!(kept.len() > 1 << 20 && kept == data[..kept.len()], "what was taken is there");
    }
}

/// The group that is open says how many files have changes in it.
#[test]
fn the_open_group_counts_its_files() {
    let bench = Bench::new(&[], CEILING);
    let files = ["a", "b", "c"].map(|name| bench.create(name));
    bench.faults.hang(|call| matches!(call, Call::Write { .. }));
    block_on(files[0].write(0, &pattern(4096, 1))).expect("memory takes it");
    bench.pool.close_early();
    let began = std::time::Instant::now();
    while bench.faults.hanging() == 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "nothing is written");
        std::thread::yield_now();
    }
    for file in &files[1..] {
        block_on(file.write(0, &pattern(4096, 2))).expect("memory takes it");
    }
    let txgs = bench.pool.write_back_statistics().txgs;
    let last: Vec<_> = txgs.iter().rev().take(2).map(|txg| txg.files).collect();
    bench.faults.release();
    assert_eq!(last, [2, 1], "{txgs:?}");
}

/// What an origin says every day is no failure of its.
#[test]
fn answers_are_no_errors() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let (root, capability) = (bench.pool.root(), OsStr::new("security.capability"));
    let file = bench.create("file");
    let calls = bench.counter("origin_metadata_calls");
    let error = block_on(bench.pool.xattr(file.object(), capability)).expect_err("it has none");
    assert!(matches!(error, EngineError::Origin(error) if error.is_no_attribute()));
    assert_eq!(bench.counter("origin_metadata_calls"), calls, "a new file has none");
    let set = bench.pool.set_xattr(file.object(), capability, b"all", XattrMode::Any);
    block_on(set).expect("memory takes it");
    let found = block_on(bench.pool.xattr(file.object(), capability)).expect("it has one");
    assert_eq!(**found, *b"all");
    block_on(bench.pool.xattr(file.object(), OsStr::new("user.none"))).expect_err("it has none");
    block_on(bench.pool.unlink(root, OsStr::new("nothing"))).expect_err("there is none");
    assert_eq!(bench.counter("origin_errors"), 0);
    bench.faults.fail_next_of(1, Errno::IO, |_| true);
    block_on(bench.pool.unlink(root, OsStr::new("file"))).expect_err("the origin fails");
    assert_eq!(bench.counter("origin_errors"), 1);
}
