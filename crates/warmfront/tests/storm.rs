//! The ceiling under a storm of insertions: the resident memory of this process, which does
//! nothing else. One test only, since all tests of a program share its memory.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use warmfront::storage::{DirectoryOptions, DirectoryOrigin, OpenMode, RealClock, ThreadPool};
use warmfront::{Datasets, Memory, Pool, PoolOptions};

const CEILING_BYTES: u64 = 512 << 20;
/// What the process may take beyond its ceiling: code, stacks, tables of the allocator.
const PROCESS_BYTES_MAX: u64 = 32 << 20;
const THREADS: u64 = 8;
const FILES: u64 = 8192;
/// Sizes of files, each of which is one record.
const FILE_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 20;
/// Bytes that go through the cache, eight times the ceiling.
const STORM_BYTES: u64 = 8 * CEILING_BYTES;
/// Longest time of the storm, for machines that are busy.
const STORM_MAX: Duration = Duration::from_secs(60);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

const READ: OpenMode =
    OpenMode { read: true, write: false, truncate: false, direct: false, sync: false };

#[test]
fn a_storm_of_mixed_sizes_stays_below_the_ceiling() {
    let scratch = tempfile::tempdir().expect("a directory");
    for number in 0..FILES {
        // Holes take no disk; their records take memory like any others.
        let file = File::create(scratch.path().join(number.to_string())).expect("a file");
        file.set_len(length(number)).expect("a hole");
    }
    let memory = Memory::new(CEILING_BYTES);
    let pool = pool_over(scratch.path(), memory.clone());
    let (read, stop, most) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (pool, read) = (&pool, &read);
                scope.spawn(move || {
                    let mut state = 0x9E37_79B9_7F4A_7C15 ^ (thread + 1);
                    while read.load(Ordering::Relaxed) < STORM_BYTES
                        && started.elapsed() < STORM_MAX
                    {
                        // Marsaglia's xorshift.
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let length = block_on(read_file(pool, state % FILES)).expect("a read");
                        read.fetch_add(length, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let sampler = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(resident_bytes(), Ordering::Relaxed);
                std::thread::sleep(SAMPLE_INTERVAL);
            }
        });
        readers.into_iter().for_each(|reader| reader.join().expect("it reads"));
        stop.store(true, Ordering::Relaxed);
        sampler.join().expect("it samples");
    });
    let (read, most) = (read.into_inner(), most.into_inner());
    let evicted = pool.statistics().counters["evicted_bytes"];
    println!(
        "{} MiB read in {:?}, {} MiB evicted, at most {} MiB resident",
        read >> 20,
        started.elapsed(),
        evicted >> 20,
        most >> 20
    );
    assert!(evicted >= CEILING_BYTES / 2, "the cache overflowed: {evicted} bytes evicted");
    assert!(most >= CEILING_BYTES * 3 / 4, "the cache was filled: {most} bytes resident");
    assert!(most <= CEILING_BYTES + PROCESS_BYTES_MAX, "{most} bytes were resident");

    // What a lower ceiling takes is given back when the call returns; ghosts stay.
    let ghosts = pool.statistics().counters["ghost_elements"];
    memory.set_ceiling_bytes(CEILING_BYTES / 4);
    let after = resident_bytes();
    assert!(after <= CEILING_BYTES / 4 + PROCESS_BYTES_MAX, "{after} bytes are still resident");
    let kept = pool.statistics().counters["ghost_elements"];
    assert!(ghosts > 0 && kept >= ghosts / 4, "{kept} of {ghosts} ghosts are left");
}

/// The length of a file: all magnitudes are equally frequent.
fn length(number: u64) -> u64 {
    let (least, most) = (*FILE_BYTES.start() as f64, *FILE_BYTES.end() as f64);
    let part = (number * 2_654_435_761 % 1000) as f64 / 999.0;
    (least * (most / least).powf(part)) as u64
}

fn pool_over(directory: &Path, memory: Arc<Memory>) -> Arc<Pool> {
    let datasets = Datasets::new("storm").expect("a name");
    datasets.set("storm", "recordsize", "1M").expect("a size");
    let origin = DirectoryOrigin::open(directory, DirectoryOptions::default());
    let options = PoolOptions {
        name: "storm".to_string(),
        origin: Arc::new(origin.expect("a directory")),
        datasets,
        memory,
        clock: Arc::new(RealClock::new()),
        spawn: Arc::new(ThreadPool::new("storm", 2).expect("threads")),
        read_only: true,
        flash: warmfront::flash::FlashOptions::default(),
    };
    block_on(Pool::open(options)).expect("a pool")
}

/// Reads a whole file, and returns its length.
async fn read_file(pool: &Arc<Pool>, number: u64) -> warmfront::Result<u64> {
    let found = pool.lookup(pool.root(), &OsString::from(number.to_string())).await?;
    let file = pool.open_file(found.object, READ).await?;
    let bytes = file.read(0, 1 << 20).await?.len() as u64;
    assert_eq!(bytes, length(number));
    pool.forget(found.object, 1);
    Ok(bytes)
}

/// What is resident of this process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = text.split(' ').nth(1).expect("a second field").parse().expect("a number");
    pages * 4096
}
