//! What the miss-ratio curve makes of reads.

use std::time::Duration;

use futures::executor::block_on;
use warmfront::{CurveReport, CurveScope};

use crate::common::{Bench, READ, pattern, read};

const RECORD: usize = 16 << 10;
const CEILING: u64 = 64 << 20;

/// Reads `records` records of a file again and again.
fn read_in_a_loop(bench: &Bench, name: &str, records: usize, rounds: usize) {
    bench.put(name, &pattern(records * RECORD, 1));
    read_rounds(bench, name, records, rounds);
}

fn read_rounds(bench: &Bench, name: &str, records: usize, rounds: usize) {
    let contents = pattern(records * RECORD, 1);
    let file = bench.open(name, READ);
    for _ in 0..rounds {
        for (index, expected) in contents.chunks(RECORD).enumerate() {
            assert_eq!(read(&file, (index * RECORD) as u64, RECORD), expected);
        }
    }
}

fn curve(bench: &Bench) -> CurveReport {
    bench.pool.curve(None).expect("the pool has a curve")
}

#[test]
fn the_knee_of_a_loop_is_where_all_of_it_fits() {
    let bench = Bench::new(&["prefetch=none", "recordsize=16K"], CEILING);
    assert!(curve(&bench).points.is_empty());
    let before = bench.pool.memory().charged_bytes();
    read_in_a_loop(&bench, "file", 500, 30);
    let report = curve(&bench);
    assert_eq!((report.accesses, report.samples), (15_000, 15_000));
    assert_eq!(report.sampled_records, 500);
    assert!(!report.is_too_early);
    let size = (500 * RECORD) as u64;
    let knee = report.knee.expect("there is a curve");
    assert!((size..size + size / 20).contains(&knee.bytes), "{} for {size}", knee.bytes);
    assert_eq!(report.at(size - size / 10).map(|point| point.hit_rate), Some(0.0));
    let share = 29.0 / 30.0;
    assert!((knee.hit_rate - share).abs() < 1e-9 && (report.today.hit_rate - share).abs() < 1e-9);
    // All of it fits, so the cache that there is does as well.
    assert!((report.measured_hit_rate - share).abs() < 1e-9);
    // Nearly all of the ceiling is for contents.
    assert!((CEILING * 9 / 10..CEILING).contains(&report.today.bytes), "{:?}", report.today);
    let charged = bench.pool.memory().charged_bytes() - before;
    assert!(charged > 64 << 10, "{charged} bytes: the curve is not charged");
}

/// The curve tells what caching would bring where nothing is cached.
#[test]
fn what_is_not_cached_has_a_curve() {
    let settings = ["prefetch=none", "recordsize=16K", "primarycache=metadata"];
    let bench = Bench::new(&settings, CEILING);
    read_in_a_loop(&bench, "file", 50, 10);
    let report = curve(&bench);
    assert_eq!(report.measured_hit_rate, 0.0);
    assert!(report.is_too_early);
    let enough = report.enough.expect("there is a curve");
    assert!((enough.hit_rate - 0.9).abs() < 1e-9, "{enough:?}");
}

#[test]
fn the_first_read_of_what_was_brought_ahead_is_no_hit_of_the_cache() {
    let bench = Bench::new(&["prefetch=all", "recordsize=16K"], CEILING);
    read_in_a_loop(&bench, "file", 1000, 1);
    let report = curve(&bench);
    assert_eq!(report.accesses, 1000);
    assert_eq!(report.enough.map(|point| point.hit_rate), Some(0.0));
    let ahead = bench.counter("demand_data_hits_ahead");
    assert!(ahead > 0, "nothing was found that had been read ahead");
    assert_eq!(bench.counter("demand_data_hits"), ahead, "no other hits");
    assert_eq!(report.ahead_rate, ahead as f64 / 1000.0);
    assert_eq!(report.measured_hit_rate, 0.0);
    // From the second time on it is the cache that answers.
    bench.clock.advance(Duration::from_secs(1));
    read_rounds(&bench, "file", 1000, 1);
    assert_eq!(bench.counter("demand_data_hits"), ahead + 1000);
    assert_eq!(bench.counter("demand_data_hits_ahead"), ahead);
    assert_eq!(curve(&bench).measured_hit_rate, 0.5);
}

#[test]
fn datasets_have_curves_of_their_own() {
    let bench = Bench::new(&["prefetch=none", "recordsize=16K"], CEILING);
    let datasets = bench.pool.datasets();
    datasets.create("pool/unused", None).expect("a new name");
    // The only dataset in use has the curve of the pool.
    read_in_a_loop(&bench, "file", 50, 10);
    let both = bench.pool.curves(None, true).expect("curves");
    let names: Vec<_> = both.iter().map(|it| (it.name.as_str(), it.scope)).collect();
    assert_eq!(names, [("pool", CurveScope::Pool), ("pool", CurveScope::Dataset)]);
    assert_eq!(both[0].points, both[1].points);
    assert!(bench.pool.curve(Some("pool/unused")).expect("it exists").points.is_empty());
    assert!(bench.pool.curve(Some("pool/other")).is_err());
    // From the second on, each has its own.
    let path = std::path::Path::new("second");
    datasets.create("pool/second", Some(path)).expect("a new name");
    read_in_a_loop(&bench, "second", 20, 10);
    let own = bench.pool.curve(Some("pool/second")).expect("it exists");
    assert_eq!((own.accesses, own.sampled_records), (200, 20));
    let pool = curve(&bench);
    assert_eq!((pool.accesses, pool.sampled_records), (700, 70));
    assert!(own.knee.expect("a curve").bytes < pool.knee.expect("a curve").bytes);
    let below = bench.pool.curves(Some("pool/second"), true).expect("curves");
    assert_eq!(below.len(), 1);
}

/// Under a ceiling that has no room for curves there are none, and reads go on.
/// Of a full cache a dataset with a reserve may still take that, and of an empty one a dataset with
/// a limit no more than that.
#[test]
fn todays_size_is_what_a_share_leaves() {
    let bench = Bench::new(&["prefetch=none", "recordsize=16K"], CEILING);
    for (name, property, value) in [("first", "arcreserve", "40M"), ("second", "arclimit", "8M")] {
        let dataset = format!("pool/{name}");
        bench.pool.datasets().create(&dataset, Some(name.as_ref())).expect("a new name");
        bench.set(&dataset, &[(property, value)]).expect("it fits");
        read_in_a_loop(&bench, name, 20, 10);
    }
    let today = |name: &str| bench.pool.curve(Some(name)).expect("it exists").today.bytes >> 20;
    assert_eq!(today("pool/second"), 7, "limit less what its metadata takes");
    read_in_a_loop(&bench, "file", 2 * CEILING as usize / RECORD, 1);
    assert!((38..=40).contains(&today("pool/first")), "{}", today("pool/first"));
}

#[test]
fn under_a_very_low_ceiling_there_is_no_curve() {
    let bench = Bench::new(&["prefetch=none", "recordsize=16K"], 4 << 20);
    read_in_a_loop(&bench, "file", 50, 3);
    assert!(curve(&bench).points.is_empty());
    let file = bench.open("file", READ);
    assert_eq!(block_on(file.read(0, RECORD)).expect("it is there").len(), RECORD);
}
