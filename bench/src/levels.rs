//! A pool over a slowed origin with a cache device and without, through the library.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::{
    Clock, Device, DeviceOptions, DirectoryOptions, DirectoryOrigin, FileDevice, OpenMode, Random,
    RealClock, SlowModel, SlowOrigin, ThreadPool, block_on,
};
use tempfile::TempDir;
use warmfront::flash::{FlashOptions, Opening, Options};
use warmfront::{Datasets, Memory, OpenFile, Pool, PoolOptions};

use crate::Arguments;
use crate::outcome::{Comparison, Outcome, in_turn};
use crate::slow_device::SlowDevice;

/// What is read and written; RAM holds a fourth of it, the cache device all.
const FILE_BYTES: u64 = 192 << 20;
const CEILING_BYTES: u64 = 52 << 20;
const DEVICE_BYTES: u64 = 768 << 20;
const RECORD_BYTES: usize = 16 << 10;
/// Threads that read or write at random.
const THREADS: u64 = 4;
/// How long a slow cache device takes for each call.
const SLOW: Duration = Duration::from_millis(20);
/// The longest wait until the cache device has taken in the file.
const FILL_MAX: Duration = Duration::from_secs(120);

const READ_WRITE: OpenMode =
    OpenMode { read: true, write: true, truncate: false, direct: true, sync: false };

/// A load, and what it is done with.
struct Case {
    comparison: Comparison,
    load: Load,
    is_slow_device: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Reads,
    Writes,
    Stream,
}

const SUBJECTS: [&str; 2] = ["warmfront with a cache device", "warmfront without"];

const CASES: [Case; 3] = [
    Case {
        comparison: Comparison {
            name: "levels-random",
            what: "Random reads of 16 KiB by 4 threads from 192 MiB behind an origin as slow as \
                   hdd, of which RAM holds a fourth and the cache device all.",
            unit: "reads/s",
            larger_is_better: true,
        },
        load: Load::Reads,
        is_slow_device: false,
    },
    Case {
        comparison: Comparison {
            name: "levels-write",
            what: "Random writes of 4 KiB by 4 threads to the same file, which lies on the device.",
            unit: "writes/s",
            larger_is_better: true,
        },
        load: Load::Writes,
        is_slow_device: false,
    },
    Case {
        comparison: Comparison {
            name: "levels-slow-stream",
            what: "The file in sequence, 1 MiB at a time, with a cache device that takes 20 ms for \
                   each call and does one after the other.",
            unit: "MB/s",
            larger_is_better: true,
        },
        load: Load::Stream,
        is_slow_device: true,
    },
];

pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    CASES.iter().any(|case| wanted(case.comparison.name))
}

/// Runs all comparisons.
pub(crate) fn run(
    arguments: &Arguments,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Outcome>, String> {
    let scratch = tempfile::tempdir_in(&arguments.scratch).map_err(|error| error.to_string())?;
    prepare(scratch.path())?;
    let mut outcomes = Vec::new();
    for case in CASES.iter().filter(|case| wanted(case.comparison.name)) {
        let mut rounds = Vec::new();
        for round in 0..arguments.rounds {
            let figures = in_turn(round, SUBJECTS.len(), |index| {
                measure(case, &scratch, index == 0, arguments.seconds)
            })?;
            eprintln!("  {}: {:<28} {figures:.1?}", round + 1, case.comparison.name);
            rounds.push(figures);
        }
        outcomes.push(case.comparison.outcome(SUBJECTS, &rounds));
    }
    Ok(outcomes)
}

fn prepare(scratch: &Path) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        std::fs::create_dir(scratch.join("origin"))?;
        let file = File::create(scratch.join("origin/file"))?;
        let mut random = Random::new(1);
        let mut chunk = vec![0; 1 << 20];
        for at in (0..FILE_BYTES).step_by(chunk.len()) {
            chunk.chunks_mut(8).for_each(|word| {
                word.copy_from_slice(&random.draw().to_le_bytes()[..word.len()]);
            });
            file.write_all_at(&chunk, at)?;
        }
        file.sync_all()
    };
    write().map_err(|error| format!("cannot prepare {}: {error}", scratch.display()))
}

/// What a fresh pool reaches, after everything was read once and lies where it can.
fn measure(case: &Case, scratch: &TempDir, with_device: bool, seconds: u32) -> Result<f64, String> {
    let message = |error: &dyn std::fmt::Display| error.to_string();
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let directory =
        DirectoryOrigin::open(scratch.path().join("origin"), DirectoryOptions::default())
            .map_err(|error| message(&error))?;
    let datasets = Datasets::new("bench").map_err(|error| message(&error))?;
    for (name, value) in [("recordsize", "16K"), ("coherence", "exclusive")] {
        datasets.set("bench", name, value).map_err(|error| message(&error))?;
    }
    let model: SlowModel = "hdd".parse().map_err(|error| message(&error))?;
    let options = Options { dwpd_hundredths: None, ..Options::default() };
    let pool = Pool::open(PoolOptions {
        name: "bench".to_string(),
        origin: Arc::new(SlowOrigin::new(Arc::new(directory), model, clock.clone())),
        datasets,
        memory: Memory::new(CEILING_BYTES),
        clock: clock.clone(),
        spawn: Arc::new(ThreadPool::new("bench", 16).map_err(|error| message(&error))?),
        read_only: false,
        flash: FlashOptions { options, renounce: None },
    });
    let pool = block_on(pool).map_err(|error| message(&error))?;
    let path = scratch.path().join("device");
    if with_device {
        // There is none before the first round.
        let _ = std::fs::remove_file(&path);
        let options = DeviceOptions { size_bytes: Some(DEVICE_BYTES), ..DeviceOptions::default() };
        let file = FileDevice::open(&path, &options).map_err(|error| message(&error))?;
        let device: Arc<dyn Device> = match case.is_slow_device {
            true => Arc::new(SlowDevice::new(file, SLOW).map_err(|error| message(&error))?),
            false => Arc::new(file),
        };
        let opening = Opening {
            pool: [1; 16],
            device: [2; 16],
            salt: [3; 16],
            life: 1,
            lives: None,
            wall_seconds: 0,
            force: true,
            empty: true,
        };
        block_on(pool.add_cache(device, &opening)).map_err(|error| message(&error))?;
    }
    let file = open(&pool)?;
    read_in_sequence(&file)?;
    if with_device {
        fill(&pool, &file, case.is_slow_device)?;
    }
    let until = Instant::now() + Duration::from_secs(seconds.into());
    let started = Instant::now();
    let operations: u64 = match case.load {
        Load::Stream => {
            read_in_sequence(&file)?;
            return Ok(FILE_BYTES as f64 / 1e6 / started.elapsed().as_secs_f64());
        }
        load => std::thread::scope(|scope| {
            let start = |thread| {
                let file = &file;
                scope.spawn(move || at_random(file, load, thread, until))
            };
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread has failed".to_string())?)
                .sum::<Result<u64, String>>()
        })?,
    };
    Ok(operations as f64 / started.elapsed().as_secs_f64())
}

fn open(pool: &Arc<Pool>) -> Result<Arc<OpenFile>, String> {
    let open = async {
        let found = pool.lookup(pool.root(), OsStr::new("file")).await?;
        let file = pool.open_file(found.object, READ_WRITE).await;
        pool.forget(found.object, 1);
        file
    };
    block_on(open).map_err(|error| error.to_string())
}

/// Reads as a door does: from RAM, else by waiting.
fn read(file: &Arc<OpenFile>, offset: u64, length: usize) -> Result<(), String> {
    if file.read_cached(offset, length).is_none() {
        block_on(file.read(offset, length)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn read_in_sequence(file: &Arc<OpenFile>) -> Result<(), String> {
    (0..FILE_BYTES).step_by(1 << 20).try_for_each(|offset| read(file, offset, 1 << 20))
}

/// Reads until the device has nearly everything; of a slow one, as long as that is worth a try.
fn fill(pool: &Arc<Pool>, file: &Arc<OpenFile>, is_slow: bool) -> Result<(), String> {
    let started = Instant::now();
    let wanted = FILE_BYTES / RECORD_BYTES as u64 / 100 * 98;
    let patience = if is_slow { FILL_MAX / 8 } else { FILL_MAX };
    while pool.flash_statistics().records < wanted && started.elapsed() < patience {
        read_in_sequence(file)?;
        std::thread::sleep(Duration::from_millis(500));
    }
    match pool.flash_statistics().records {
        records if records < wanted && !is_slow => {
            Err(format!("only {records} of {wanted} records have got to flash"))
        }
        _ => Ok(()),
    }
}

fn at_random(file: &Arc<OpenFile>, load: Load, thread: u64, until: Instant) -> Result<u64, String> {
    let mut random = Random::new(thread);
    let mut operations = 0;
    let data = [thread as u8; 4096];
    while Instant::now() < until {
        match load {
            Load::Reads => {
                let record = random.below(FILE_BYTES / RECORD_BYTES as u64);
                read(file, record * RECORD_BYTES as u64, RECORD_BYTES)?;
            }
            _ => {
                let offset = random.below(FILE_BYTES / 4096) * 4096;
                block_on(file.write(offset, &data)).map_err(|error| error.to_string())?;
            }
        }
        operations += 1;
    }
    Ok(operations)
}
