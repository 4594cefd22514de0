//! Filling the cache on purpose.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Bench, READ, pattern, read};
use futures::executor::block_on;
use storage::Call;
use warmfront::{PrimeProgress, PrimeReport, PrimeRequest};

const RECORD: usize = 128 << 10;

fn request(dry_run: bool) -> PrimeRequest {
    PrimeRequest { paths: vec![PathBuf::from(".")], dry_run, ..PrimeRequest::default() }
}

fn go_on(_: PrimeProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn prime(bench: &Bench, request: PrimeRequest) -> PrimeReport {
    block_on(bench.pool.prime(request, &go_on)).expect("the top is there")
}

#[test]
fn what_is_primed_needs_no_origin() {
    let bench = Bench::new(&["coherence=exclusive"], 64 << 20);
    let files: Vec<_> =
        (0..20).map(|index| pattern(10_000 + index * 70_000, index as u64)).collect();
    for (index, contents) in files.iter().enumerate() {
        bench.put(&format!("file{index}"), contents);
    }
    let bytes: usize = files.iter().map(Vec::len).sum();
    let dry = prime(&bench, request(true));
    assert_eq!((dry.files, dry.bytes_found, dry.bytes_fetched), (20, bytes as u64, 0));
    assert!(dry.all_fits());
    let report = prime(&bench, request(false));
    assert_eq!((report.bytes_fetched, report.errors_total), (bytes as u64, 0));
    let reads = bench.counter("origin_reads");
    for (index, contents) in files.iter().enumerate() {
        let file = bench.open(&format!("file{index}"), READ);
        assert_eq!(&read(&file, 0, contents.len()), contents);
    }
    assert_eq!(bench.counter("origin_reads"), reads);
    let again = prime(&bench, request(false));
    assert_eq!((again.bytes_fetched, again.bytes_cached), (0, bytes as u64));
}

#[test]
fn what_does_not_fit_is_said_and_left_out() {
    let bench = Bench::new(&[], 8 << 20);
    for index in 0..10 {
        bench.put(&format!("file{index}"), &pattern(16 * RECORD, index));
    }
    let report = prime(&bench, request(false));
    assert!(!report.all_fits());
    assert_eq!(report.bytes_found, 160 * RECORD as u64);
    assert!(report.bytes_fitting <= 8 << 20 && report.bytes_fitting >= 4 << 20);
    assert_eq!(report.bytes_fetched, report.bytes_fitting);
    assert!(bench.counter("size") <= 8 << 20);
    assert_eq!(bench.counter("deleted"), 0, "nothing was pushed out by what came after it");
}

#[test]
fn of_a_file_that_is_too_large_the_beginning_is_read() {
    let bench = Bench::new(&["coherence=exclusive"], 16 << 20);
    bench.put("file", &pattern(400 * RECORD, 1));
    let report = prime(&bench, request(false));
    assert!(!report.all_fits() && report.bytes_fitting >= 8 << 20, "{report:?}");
    let reads = bench.counter("origin_reads");
    let file = bench.open("file", READ);
    assert_eq!(read(&file, 0, 4 << 20), pattern(400 * RECORD, 1)[..4 << 20]);
    assert_eq!(bench.counter("origin_reads"), reads);
}

#[test]
fn priming_can_be_stopped_and_taken_up_again() {
    let bench = Bench::new(&["coherence=exclusive"], 64 << 20);
    for index in 0..10 {
        bench.put(&format!("file{index}"), &pattern(32 * RECORD, index));
    }
    let calls = AtomicU64::new(0);
    let stop = |progress: PrimeProgress| match progress.bytes_total {
        0 => ControlFlow::Continue(()),
        _ if calls.fetch_add(1, Ordering::Relaxed) == 0 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let first = block_on(bench.pool.prime(request(false), &stop)).expect("the top is there");
    assert!(first.interrupted && first.bytes_fetched > 0);
    let second = prime(&bench, request(false));
    assert_eq!(first.bytes_fetched + second.bytes_fetched, 320 * RECORD as u64);
    assert_eq!(bench.counter("origin_read_bytes"), 320 * RECORD as u64);
}

#[test]
fn a_rate_is_kept_to() {
    let bench = Bench::new(&[], 64 << 20);
    bench.put("file", &pattern(320 * RECORD, 1));
    let started = storage::Clock::now(&*bench.clock);
    let slowly = PrimeRequest { rate_bytes_per_second: Some(10 << 20), ..request(false) };
    prime(&bench, slowly);
    let took = (storage::Clock::now(&*bench.clock) - started).as_secs_f64();
    assert!((1.5..=4.5).contains(&took), "40 MiB at 10 MiB a second took {took} s");
}

#[test]
fn a_slow_rate_does_not_delay_the_end() {
    let bench = Bench::new(&[], 64 << 20);
    bench.put("file", &pattern(320 * RECORD, 1));
    let calls = AtomicU64::new(0);
    let stop = |progress: PrimeProgress| match progress.bytes_total {
        0 => ControlFlow::Continue(()),
        _ if calls.fetch_add(1, Ordering::Relaxed) < 3 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let started = storage::Clock::now(&*bench.clock);
    let slowly = PrimeRequest { rate_bytes_per_second: Some(1), ..request(false) };
    assert!(block_on(bench.pool.prime(slowly, &stop)).expect("the top is there").interrupted);
    let took = storage::Clock::now(&*bench.clock) - started;
    assert!(took < Duration::from_secs(1), "it was noticed after {took:?}");
}

#[test]
fn readers_go_first_but_do_not_stop_it() {
    let bench = Bench::new(&["prefetch=none"], 64 << 20);
    let wanted = bench.put("wanted", &pattern(RECORD, 1));
    bench.put("file", &pattern(320 * RECORD, 2));
    bench.put("other", &pattern(128 * RECORD, 3));
    let alone = {
        let started = storage::Clock::now(&*bench.clock);
        prime(&bench, PrimeRequest { paths: vec![PathBuf::from("other")], ..request(false) });
        storage::Clock::now(&*bench.clock) - started
    };
    assert_eq!(alone, Duration::ZERO, "nobody else reads");
    bench.faults.hang(move |call| matches!(call, Call::Read { object, .. } if *object == wanted));
    let file = bench.open("wanted", READ);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&file, 0, RECORD));
        while bench.faults.hanging() == 0 {
            std::thread::yield_now();
        }
        let started = storage::Clock::now(&*bench.clock);
        let report =
            prime(&bench, PrimeRequest { paths: vec![PathBuf::from("file")], ..request(false) });
        let took = storage::Clock::now(&*bench.clock) - started;
        assert_eq!(report.bytes_fetched, 320 * RECORD as u64);
        assert!(took >= Duration::from_millis(200), "it waited {took:?}");
        bench.faults.release();
        assert_eq!(reader.join().expect("it reads").len(), RECORD);
    });
}

#[test]
fn contents_that_the_policy_excludes_are_not_fetched() {
    let bench = Bench::new(&["primarycache=metadata"], 64 << 20);
    bench.put("file", &pattern(RECORD, 1));
    let report = prime(&bench, request(false));
    assert_eq!((report.bytes_excluded, report.bytes_fetched), (RECORD as u64, 0));
    assert_eq!(bench.counter("origin_reads"), 0);
}
