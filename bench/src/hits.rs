//! What a hit costs in the engine alone, without a kernel: reads of a cached file by one and by
//! several threads, each with its own open file.

use std::error::Error;
use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::executor::block_on;
use storage::{Caller, Clock, MemoryOrigin, Node, OpenMode, Origin, RealClock, ThreadPool};
use warmfront::{Datasets, Memory, OpenFile, Pool, PoolOptions};

const READ: OpenMode =
    OpenMode { read: true, write: false, truncate: false, direct: false, sync: false };
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
/// Bytes of one read.
const READ_BYTES: u64 = 4096;
/// Bytes of one write that makes the file.
const CHUNK_BYTES: usize = 1 << 20;

/// Nanoseconds of one cached 4 KiB read in the engine, by the number of threads.
#[derive(Debug, Parser)]
struct Arguments {
    /// MiB of the file that is read.
    #[arg(long, default_value_t = 256)]
    file_mib: u64,
    /// Threads of the runs.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<u32>,
    /// Seconds of each run.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

fn main() -> ExitCode {
    match block_on(run(&Arguments::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engine-hits: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let size = arguments.file_mib << 20;
    let pool = pool_with_file(size).await?;
    let found = pool.lookup(pool.root(), OsStr::new("file")).await?;
    let mut files = Vec::new();
    for _ in 0..arguments.threads.iter().copied().max().unwrap_or(1) {
        files.push(pool.open_file(found.object, READ).await?);
    }
    for offset in (0..size).step_by(CHUNK_BYTES) {
        files[0].read(offset, CHUNK_BYTES).await?;
    }
    println!("{:>7}  {:>9}  {:>12}", "threads", "ns a hit", "hits/s");
    for &threads in &arguments.threads {
        let (hits, elapsed) = measure(&files[..threads as usize], size, arguments.seconds)?;
        let rate = hits as f64 / elapsed.as_secs_f64();
        println!("{threads:>7}  {:>9.0}  {rate:>12.0}", 1e9 * f64::from(threads) / rate);
    }
    Ok(())
}

/// A pool whose origin has one file of `size` bytes; all of it fits into RAM.
async fn pool_with_file(size: u64) -> Result<Arc<Pool>, Box<dyn Error>> {
    let origin = Arc::new(MemoryOrigin::new());
    let root = origin.root().await?.object;
    let node = Node { parent: root, name: OsStr::new("file"), permissions: 0o644, caller: CALLER };
    let file = origin.create(node, OpenMode { write: true, ..READ }).await?.file;
    let chunk: Vec<u8> = (0..CHUNK_BYTES).map(|index| (index % 251) as u8).collect();
    for offset in (0..size).step_by(CHUNK_BYTES) {
        file.write(offset, &chunk).await?;
    }
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let options = PoolOptions {
        name: "bench".to_string(),
        origin,
        datasets: Datasets::new("bench")?,
        memory: Memory::new(2 * size + (64 << 20)),
        clock,
        spawn: Arc::new(ThreadPool::new("bench", 2)?),
        read_only: false,
        flash: warmfront::flash::FlashOptions::default(),
    };
    Ok(Pool::open(options).await?)
}

/// Reads at random places for a while, one thread for each file.
fn measure(
    files: &[Arc<OpenFile>],
    size: u64,
    seconds: u64,
) -> Result<(u64, Duration), &'static str> {
    let (hits, stop, missed) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (number, file) in files.iter().enumerate() {
            let (hits, stop, missed) = (&hits, &stop, &missed);
            scope.spawn(move || {
                let mut state = 0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1);
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    // Marsaglia's xorshift.
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let offset = state % (size / READ_BYTES) * READ_BYTES;
                    match file.read_cached(offset, READ_BYTES as usize) {
                        Some(pieces) => {
                            std::hint::black_box(pieces.slices().map(|slice| slice[0]).max())
                        }
                        None => return missed.store(true, Ordering::Relaxed),
                    };
                    count += 1;
                }
                hits.fetch_add(count, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    if missed.load(Ordering::Relaxed) {
        return Err("a read missed although the file fits into RAM");
    }
    Ok((hits.load(Ordering::Relaxed), started.elapsed()))
}
