//! What reads ask of the origin, and what the cache makes of it.

use futures::executor::block_on;
use std::sync::Barrier;
use std::time::Duration;

use crate::common::{Bench, READ, pattern, read};

const RECORD: usize = 128 << 10;
const CEILING: u64 = 256 << 20;

/// Reads a whole file 4 KiB at a time.
fn read_in_small_pieces(bench: &Bench, contents: &[u8]) {
    let file = bench.open("file", READ);
    for (index, expected) in contents.chunks(4096).enumerate() {
        assert_eq!(read(&file, index as u64 * 4096, 4096), expected);
    }
}

#[test]
fn small_reads_of_large_records_read_each_byte_once_when_all_is_cached() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    let contents = pattern(4 * RECORD, 1);
    bench.put("file", &contents);
    read_in_small_pieces(&bench, &contents);
    assert_eq!(bench.counter("origin_read_bytes"), contents.len() as u64);
    assert_eq!(bench.counter("demand_data_misses"), 4);
    assert_eq!(bench.counter("demand_data_hits"), 4 * 31);
}

#[test]
fn small_reads_of_large_records_read_each_byte_32_times_when_contents_are_not_cached() {
    for level in ["none", "metadata"] {
        let bench = Bench::new(&["prefetch=none", &format!("primarycache={level}")], CEILING);
        let contents = pattern(4 * RECORD, 1);
        bench.put("file", &contents);
        read_in_small_pieces(&bench, &contents);
        assert_eq!(bench.counter("origin_read_bytes"), 32 * contents.len() as u64, "{level}");
        assert_eq!(bench.counter("demand_data_hits"), 0, "{level}");
        assert!(bench.counter("uncached_primarycache") >= 128, "{level}");
    }
}

#[test]
fn reads_at_and_behind_the_end_are_short() {
    let bench = Bench::new(&[], CEILING);
    let contents = pattern(RECORD + 1000, 2);
    bench.put("file", &contents);
    bench.put("empty", b"");
    for _ in 0..2 {
        let file = bench.open("file", READ);
        assert_eq!(read(&file, RECORD as u64 - 10, 5000), contents[RECORD - 10..]);
        assert_eq!(read(&file, 0, 10 * RECORD), contents);
        assert!(read(&file, contents.len() as u64, 1).is_empty());
        assert!(read(&file, u64::MAX - 10, 4096).is_empty());
        assert!(read(&bench.open("empty", READ), 0, 4096).is_empty());
    }
}

#[test]
fn readers_of_the_same_record_at_the_same_time_cause_one_fetch() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    let contents = pattern(RECORD, 3);
    bench.put("file", &contents);
    let file = bench.open("file", READ);
    bench.faults.delay(Duration::from_millis(50));
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                assert_eq!(read(&file, 0, RECORD), contents);
            });
        }
    });
    assert_eq!(bench.counter("origin_reads"), 1);
    let waited = bench.counter("demand_data_iohits") + bench.counter("demand_data_hits");
    assert_eq!(waited, 7);
}

#[test]
fn a_failed_fetch_is_told_and_not_kept() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    let contents = pattern(RECORD, 4);
    bench.put("file", &contents);
    let file = bench.open("file", READ);
    bench.faults.fail_next(1);
    assert!(futures::executor::block_on(file.read(0, RECORD)).is_err());
    assert_eq!(read(&file, 0, RECORD), contents);
}

#[test]
fn a_sequential_reader_is_prefetched_for_and_each_byte_is_fetched_once() {
    let bench = Bench::new(&[], CEILING);
    let contents = pattern(64 * RECORD, 5);
    bench.put("file", &contents);
    let file = bench.open("file", READ);
    bench.faults.delay(Duration::from_millis(2));
    for (index, expected) in contents.chunks(RECORD).enumerate() {
        assert_eq!(read(&file, (index * RECORD) as u64, RECORD), expected);
    }
    assert_eq!(bench.counter("origin_read_bytes"), contents.len() as u64);
    assert!(bench.counter("prefetch_data_misses") > 32, "most of it came before it was asked for");
    let why = block_on(bench.pool.why(std::path::Path::new("file"))).expect("it is there");
    assert!(why.runs.iter().all(|run| !run.prefetched), "reads that waited for it count, too");
    let before = bench.counter("prefetch_data_misses");
    for (index, expected) in contents.chunks(RECORD).enumerate() {
        assert_eq!(read(&file, (index * RECORD) as u64, RECORD), expected);
    }
    assert_eq!(bench.counter("prefetch_data_misses"), before, "all of it was cached");
    assert_eq!(bench.counter("origin_read_bytes"), contents.len() as u64);
}

#[test]
fn free_behind_keeps_a_stream_out_of_the_cache() {
    for (setting, kept) in [("freebehind=off", 64), ("freebehind=on", 2)] {
        let bench = Bench::new(&["prefetch=none", setting], CEILING);
        let contents = pattern(64 * RECORD, 6);
        bench.put("file", &contents);
        let file = bench.open("file", READ);
        for (index, expected) in contents.chunks(RECORD).enumerate() {
            assert_eq!(read(&file, (index * RECORD) as u64, RECORD), expected);
        }
        let records = bench.counter("data_size") / RECORD as u64;
        assert!(records.abs_diff(kept) <= 1, "{setting} keeps {records} records");
        let why = block_on(bench.pool.why(std::path::Path::new("file"))).expect("it is there");
        let reason = why.runs[0].reason.clone().unwrap_or_default();
        assert_eq!(reason.contains("freebehind=on"), setting == "freebehind=on", "{reason}");
    }
}

#[test]
fn another_recordsize_takes_effect_at_once_and_never_mixes_records() {
    let bench = Bench::new(&["prefetch=none"], CEILING);
    let contents = pattern(4 * RECORD + 77, 7);
    bench.put("file", &contents);
    let file = bench.open("file", READ);
    for recordsize in ["128K", "4K", "1M", "128K", "16K"] {
        bench.pool.datasets().set("pool", "recordsize", recordsize).expect("a size");
        assert_eq!(read(&file, 0, contents.len()), contents, "{recordsize}");
        assert_eq!(read(&file, 100_000, 50_000), contents[100_000..150_000], "{recordsize}");
    }
}

#[test]
fn the_cache_stays_below_its_ceiling() {
    let bench = Bench::new(&[], 16 << 20);
    let contents = pattern(64 << 20, 8);
    bench.put("file", &contents);
    let file = bench.open("file", READ);
    for (index, expected) in contents.chunks(RECORD).enumerate() {
        assert_eq!(read(&file, (index * RECORD) as u64, RECORD), expected);
        assert!(bench.counter("size") <= (16 << 20) + (8 << 20), "reads under way apart");
    }
    bench.pool.memory().set_ceiling_bytes(1 << 20);
    assert!(bench.counter("size") <= 1 << 20);
}
