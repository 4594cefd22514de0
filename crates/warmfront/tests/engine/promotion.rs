//! Reads that do not count as use: `promote=off`, and readers who ask for it.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use warmfront::{OpenFile, PrimeRequest, Reader};

use crate::common::{Bench, READ, READ_WRITE, pattern, read};

const RECORD: usize = 128 << 10;
const CEILING: u64 = 64 << 20;
/// Through this much of the ceiling passes what is not kept.
const PASSAGE: u64 = CEILING / 16;
/// A file of 65 records, twice the passage.
const FILE: usize = 64 * RECORD + 100;

impl Bench {
    /// Opens a file for a reader whose use does not count.
    fn open_passing(&self, name: &str) -> Arc<OpenFile> {
        block_on(async {
            let (root, name) = (self.pool.root(), OsStr::new(name));
            let found = self.pool.lookup_for(Reader::Passing, root, name).await.expect("there");
            let opened = self.pool.open_file_for(Reader::Passing, found.object, READ).await;
            self.pool.forget(found.object, 1);
            opened.expect("it can be opened")
        })
    }

    fn set_promote(&self, value: &str) {
        self.pool.datasets().set("pool", "promote", value).expect("a value");
    }

    /// State, hits and reason of the first record of a file.
    fn first_record(&self, name: &str) -> (String, u64, String) {
        let why = block_on(self.pool.why(Path::new(name))).expect("it is there");
        let run = &why.runs[0];
        (run.state.clone(), run.hits, run.reason.clone().unwrap_or_default())
    }

    /// Whether the first record of a file is cached and will not be the first to go.
    fn is_kept(&self, name: &str) -> bool {
        ["mru", "mfu"].contains(&&*self.first_record(name).0)
    }
}

#[test]
fn hits_are_served_and_do_not_count_as_use() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    bench.put("file", &pattern(4 * RECORD, 1));
    let file = bench.open("file", READ);
    bench.read_through(&file, 4 * RECORD, RECORD);
    bench.set_promote("off");
    let count = |name: &str| match name {
        "list_hits" => bench.counter("mru_hits") + bench.counter("mfu_hits"),
        name => bench.counter(name),
    };
    let names = ["list_hits", "demand_data_hits", "unpromoted_hits", "origin_reads"];
    let before = names.map(count);
    for _ in 0..3 {
        bench.read_through(&file, 4 * RECORD, RECORD);
    }
    let after: Vec<u64> = names.iter().zip(before).map(|(name, at)| count(name) - at).collect();
    assert_eq!(after, [0, 12, 12, 0]);
    bench.set_promote("on");
    assert!(bench.is_kept("file"));
    assert_eq!(bench.first_record("file").1, 0, "no use was counted");
    bench.read_through(&file, 4 * RECORD, RECORD);
    assert_eq!(bench.first_record("file").1, 1);
    let unpromoted = bench.counter("unpromoted_hits");
    assert_eq!(unpromoted, before[2] + 12, "counted only while they did not promote");
}

#[test]
fn what_is_missing_passes_by_and_is_counted_by_reason() {
    for by_property in [true, false] {
        let setting = if by_property { "promote=off" } else { "promote=on" };
        let bench = Bench::new(&["prefetch=none", setting], CEILING);
        bench.put("file", &pattern(FILE, 2));
        let file = if by_property { bench.open("file", READ) } else { bench.open_passing("file") };
        for round in 1..=2 {
            bench.read_through(&file, FILE, RECORD);
            let expected = if by_property { [65 * round, 0] } else { [0, 65 * round] };
            let counters = ["uncached_promote", "uncached_cgroup"].map(|name| bench.counter(name));
            assert_eq!(counters, expected, "{setting}");
            assert_eq!(bench.counter_of("pool", "data_size"), 0, "{setting}");
            assert!(bench.counter("uncached_data") <= PASSAGE, "{setting}");
            let read_bytes = round * FILE as u64;
            assert_eq!(bench.counter("origin_read_bytes"), read_bytes, "{setting}");
        }
        let reason = bench.first_record("file").2;
        let word = if by_property { "promote=off" } else { "control groups" };
        assert!(reason.contains(word), "{reason}");
        // Somebody else's use counts, and is found by all.
        if !by_property {
            bench.read_through(&bench.open("file", READ), FILE, RECORD);
            assert!(bench.is_kept("file"));
            let hits = bench.counter("unpromoted_hits");
            bench.read_through(&file, FILE, RECORD);
            assert_eq!(bench.counter("unpromoted_hits") - hits, 65);
        }
    }
}

/// Small reads and reading ahead need a place for what comes before it is asked for.
#[test]
fn each_byte_is_fetched_once_and_nothing_stays() {
    for settings in
        [&["prefetch=none", "promote=off"][..], &["promote=off"], &["freebehind=on", "promote=off"]]
    {
        for piece in [4096, 10_000, RECORD, 3 * RECORD] {
            let bench = Bench::new(settings, CEILING);
            let size = 96 * RECORD + 5000;
            let contents = pattern(size, 3);
            bench.put("file", &contents);
            let file = bench.open("file", READ);
            bench.faults.delay(Duration::from_micros(500));
            for offset in (0..size).step_by(piece) {
                let end = (offset + piece).min(size);
                assert_eq!(read(&file, offset as u64, piece), contents[offset..end]);
            }
            // A fetch ahead that ends at the moment when its record is asked for may be repeated,
            // which is often on a busy machine. Nothing kept would be 32 times as much.
            let slack = if settings[0] == "prefetch=none" { 0 } else { size as u64 };
            let more = bench.counter("origin_read_bytes") - size as u64;
            assert!(more <= slack, "{more} bytes more: {settings:?}, {piece} bytes at a time");
            let stays = bench.counter_of("pool", "data_size");
            assert_eq!(stays, 0, "{settings:?}, {piece} bytes at a time");
            let ahead = bench.counter("prefetch_data_misses");
            assert_eq!(ahead > 0, settings[0] != "prefetch=none", "{settings:?}");
        }
    }
}

/// A backup reads everything; the hot set, the targets and what is known of what was evicted stay.
#[test]
fn a_backup_leaves_the_hot_set_alone() {
    let hit_rate = |backup: Option<Reader>| {
        let bench = Bench::new(&["recordsize=16K"], CEILING);
        let hot_size = 48 << 20;
        bench.put("hot", &pattern(hot_size, 4));
        bench.put("cold", &pattern(256 << 20, 5));
        let hot = bench.open("hot", READ);
        for _ in 0..3 {
            bench.read_through(&hot, hot_size, 16 << 10);
        }
        let targets = || ["pd_percent", "meta_percent"].map(|name| bench.counter(name));
        let (before, evicted) = (targets(), bench.counter_of("pool", "evicted_bytes"));
        match backup {
            Some(Reader::Passing) => {
                bench.read_through(&bench.open_passing("cold"), 256 << 20, 64 << 10);
                assert_eq!(targets(), before);
                let evicted = bench.counter_of("pool", "evicted_bytes") - evicted;
                assert!(evicted <= PASSAGE, "{evicted} bytes had to go for what passed by");
            }
            Some(Reader::Counted) => {
                bench.read_through(&bench.open("cold", READ), 256 << 20, 64 << 10);
                assert!(bench.counter_of("pool", "evicted_bytes") - evicted > 128 << 20);
            }
            None => {}
        }
        let misses = bench.counter("demand_data_misses") + bench.counter("demand_data_iohits");
        bench.clock.advance(Duration::from_secs(1));
        bench.pool.datasets().set("pool", "prefetch", "none").expect("a value");
        bench.read_through(&hot, hot_size, 16 << 10);
        let missed = bench.counter("demand_data_misses") + bench.counter("demand_data_iohits");
        100.0 - (missed - misses) as f64 * 100.0 / (hot_size >> 14) as f64
    };
    let [alone, beside] = [hit_rate(None), hit_rate(Some(Reader::Passing))];
    println!("hit rate alone {alone:.2} %, after a backup {beside:.2} %");
    assert!(beside >= alone - 1.0, "alone {alone:.2} %, after a backup {beside:.2} %");
    // The load is one for which it matters whether the hot set is left alone.
    assert_eq!(alone, 100.0);
}

#[test]
fn a_reader_who_joins_a_passing_fetch_keeps_what_it_brings() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    bench.put("file", &pattern(RECORD, 6));
    let (passing, counted) = (bench.open_passing("file"), bench.open("file", READ));
    bench.faults.delay(Duration::from_millis(200));
    std::thread::scope(|scope| {
        scope.spawn(|| read(&passing, 0, RECORD));
        std::thread::sleep(Duration::from_millis(50));
        scope.spawn(|| read(&counted, 0, RECORD));
    });
    assert_eq!(bench.counter("origin_reads"), 1);
    assert_eq!(bench.counter("demand_data_iohits"), 1);
    assert!(bench.is_kept("file"));
}

#[test]
fn writes_follow_the_same_rule_and_never_leave_old_bytes() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    let mut contents = pattern(4 * RECORD, 7);
    bench.put("file", &contents);
    let file = bench.open("file", READ_WRITE);
    bench.read_through(&file, 2 * RECORD, RECORD);
    bench.set_promote("off");
    for offset in [0, 3 * RECORD] {
        let data = pattern(RECORD, 8);
        block_on(file.write(offset as u64, &data)).expect("memory takes it");
        contents[offset..offset + RECORD].copy_from_slice(&data);
    }
    assert_eq!(bench.counter_of("pool", "data_size") / RECORD as u64, 2);
    assert_eq!(bench.counter("uncached_promote"), 1, "the record that was not cached");
    // Part of a record is read, which brings it among the uncached; then it is written.
    assert_eq!(read(&file, 2 * RECORD as u64, 100), contents[2 * RECORD..2 * RECORD + 100]);
    block_on(file.write(2 * RECORD as u64 + 50, &[9; 100])).expect("memory takes it");
    contents[2 * RECORD + 50..2 * RECORD + 150].fill(9);
    assert_eq!(read(&file, 0, 4 * RECORD), contents);
}

#[test]
fn priming_brings_in_what_does_not_promote() {
    let bench = Bench::new(&["promote=off"], CEILING);
    bench.put("file", &pattern(8 * RECORD, 9));
    let request = PrimeRequest { paths: vec!["file".into()], ..PrimeRequest::default() };
    let report = block_on(bench.pool.prime(request, &|_| ControlFlow::Continue(())));
    assert_eq!(report.expect("it is there").bytes_fetched, 8 * RECORD as u64);
    bench.read_through(&bench.open("file", READ), 8 * RECORD, RECORD);
    assert_eq!(bench.counter("demand_data_hits"), 8);
    assert_eq!(bench.counter("origin_read_bytes"), 8 * RECORD as u64);
}

/// Names and attributes pass by too: they are found, and are the first to go.
#[test]
fn metadata_passes_by() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    bench.put("file", b"contents");
    let (root, name) = (bench.pool.root(), OsStr::new("file"));
    let look = |reader| {
        let found = block_on(bench.pool.lookup_for(reader, root, name)).expect("there");
        block_on(bench.pool.attributes_for(reader, found.object, None)).expect("known");
        bench.pool.forget(found.object, 1);
    };
    for _ in 0..3 {
        look(Reader::Passing);
    }
    assert_eq!(bench.counter("uncached_metadata"), bench.counter("metadata_size"));
    assert_eq!(bench.counter("mru_hits") + bench.counter("mfu_hits"), 0);
    assert_eq!(bench.counter("demand_metadata_misses"), 1);
    assert_eq!(bench.counter("unpromoted_hits"), bench.counter("demand_metadata_hits"));
    let passing = bench.counter("unpromoted_hits");
    look(Reader::Counted);
    assert_eq!(bench.counter("unpromoted_hits"), passing);
}
