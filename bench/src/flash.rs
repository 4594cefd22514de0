//! The flash level beside fio on the same file, through the library.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use l2arc::{Admission, Compression, Flash, Key, Miss, Opening, Options, Refused};
use storage::{DeviceOptions, FileDevice, Random, RealClock, ThreadPool, block_on};
use tempfile::TempDir;

use crate::Arguments;
use crate::fio::{Job, Queue};
use crate::outcome::{Comparison, Outcome, in_turn};

/// The device, and how much of what it has for records is filled: as much as nothing has to go.
const DEVICE_MIB: u64 = 3600;
const FILLED_PERCENT: u64 = 96;
/// Threads of the flash level's tasks.
const THREADS: usize = 4;
/// Contents of a record such that ten million fit on the device.
const SMALL_BYTES: usize = 256;
const KIB: usize = 1024;

/// What each round measures, in this order.
const CASES: &[Case] = &[
    Case {
        comparison: Comparison {
            name: "flash-fill",
            what: "Filling an empty device of 3600 MiB with records of 16 KiB that do not \
                   compress, untuned, 32 MiB of buffers; fio writes 1 MiB at a time, 8 under \
                   way.",
            unit: "MB/s",
            larger_is_better: true,
        },
        rows: &["warmfront", "fio write"],
    },
    Case {
        comparison: Comparison {
            name: "flash-written",
            what: "Bytes written to the device for each byte taken in, records of 16 KiB.",
            unit: "bytes",
            larger_is_better: false,
        },
        rows: &["warmfront"],
    },
    reads("flash-random-128k-1", "Random reads of 128 KiB records, one under way.", &WHOLE),
    reads("flash-random-128k-32", "Random reads of 128 KiB records, 32 under way.", &WHOLE),
    reads("flash-random-4k-1", "Random reads of 4 KiB records, one under way.", &BOTH),
    reads("flash-random-4k-32", "Random reads of 4 KiB records, 32 under way.", &BOTH),
    Case {
        comparison: Comparison {
            name: "flash-added-latency",
            what: "Microseconds of a random read of 4 KiB, one under way.",
            unit: "microseconds",
            larger_is_better: false,
        },
        rows: &BOTH,
    },
];

/// With 10 million records; measured once.
const START: Case = Case {
    comparison: Comparison {
        name: "flash-start",
        what: "A start with more than ten million records of 256 bytes on the device, after a stop \
               that wrote nothing down and after one that did.",
        unit: "seconds",
        larger_is_better: false,
    },
    rows: &[
        "after a crash: first hit",
        "after a crash: whole index",
        "after a stop: first hit",
        "after a stop: whole index",
    ],
};

const WHOLE: [&str; 2] = ["warmfront", "fio randread"];
const BOTH: [&str; 3] = ["warmfront", "fio randread", "fio, the record's blocks"];

struct Case {
    comparison: Comparison,
    rows: &'static [&'static str],
}

const fn reads(name: &'static str, what: &'static str, rows: &'static [&'static str]) -> Case {
    Case { comparison: Comparison { name, what, unit: "reads/s", larger_is_better: true }, rows }
}

/// Runs all comparisons of the flash level.
pub(crate) fn run(arguments: &Arguments) -> Result<Vec<Outcome>, String> {
    let bench = Bench::prepare(arguments)?;
    // By round and case, what each subject reached.
    let mut rounds = Vec::new();
    for round in 0..arguments.rounds {
        let figures = bench.round(round)?;
        for (case, figures) in CASES.iter().zip(&figures) {
            eprintln!("  {}: {:<28} {figures:.4?}", round + 1, case.comparison.name);
        }
        rounds.push(figures);
    }
    let mut outcomes: Vec<Outcome> = CASES
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let rounds: Vec<_> = rounds.iter().map(|round| &round[number]).collect();
            case.comparison.outcome(case.rows.iter().copied(), &rounds)
        })
        .collect();
    let starts: Result<Vec<_>, _> = (0..arguments.rounds).map(|_| bench.starts()).collect();
    let (starts, records): (Vec<_>, Vec<_>) = starts?.into_iter().unzip();
    let mut start = START.comparison.outcome(START.rows.iter().copied(), &starts);
    let least = records.into_iter().min().unwrap_or(0);
    for row in &mut start.rows {
        // Its rows are moments of one start, not rivals.
        row.ratio = None;
        row.note = Some(format!("{least} records"));
    }
    outcomes.push(start);
    Ok(outcomes)
}

struct Bench<'a> {
    arguments: &'a Arguments,
    path: PathBuf,
    _directory: TempDir,
}

impl Bench<'_> {
    fn prepare(arguments: &Arguments) -> Result<Bench<'_>, String> {
        let directory = tempfile::tempdir_in(&arguments.scratch)
            .map_err(|error| format!("cannot use {}: {error}", arguments.scratch.display()))?;
        let path = directory.path().join("cache");
        let bench = Bench { arguments, path, _directory: directory };
        // The first writes to a file are slower for all.
        drop(bench.open()?);
        bench.fio_write()?;
        Ok(bench)
    }

    fn open(&self) -> Result<Arc<FileDevice>, String> {
        let size_bytes = Some(DEVICE_MIB << 20);
        let options = DeviceOptions { size_bytes, ..DeviceOptions::default() };
        let device = FileDevice::open(&self.path, &options);
        device.map(Arc::new).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    fn fio_write(&self) -> Result<f64, String> {
        let queue = Queue { depth: 8, align_bytes: None, size_mib: Some(DEVICE_MIB) };
        self.fio("write", "1m", queue).map(|reached| reached.0 / 1e6)
    }

    /// Bytes and operations a second.
    fn fio(&self, pattern: &str, block: &str, queue: Queue) -> Result<(f64, f64), String> {
        let job = Job {
            file: &self.path,
            pattern,
            block,
            jobs: 1,
            direct: true,
            durable: false,
            seconds: self.arguments.seconds,
            queue: Some(queue),
        };
        job.run().map(|reached| (reached.bytes_per_second, reached.operations_per_second))
    }

    fn round(&self, round: usize) -> Result<Vec<Vec<f64>>, String> {
        let mut figures = Vec::new();
        let mut written_per_byte = 0.0;
        let fill = in_turn(round, 2, |subject| match subject {
            0 => self.fill(16 * KIB).map(|level| {
                written_per_byte = level.written_per_byte;
                level.bytes_per_second / 1e6
            }),
            _ => self.fio_write(),
        })?;
        figures.extend([fill, vec![written_per_byte]]);
        for (length, block, subjects) in [(128 * KIB, "128k", 2), (4 * KIB, "4k", 3)] {
            let level = self.fill(length)?;
            // A device that was just written has something left to do.
            self.fio_read(block, 32, None)?;
            for depth in [1, 32] {
                figures.push(in_turn(round, subjects, |subject| match subject {
                    0 => self.read(&level, length, depth),
                    1 => self.fio_read(block, depth, None),
                    // The blocks in which a record of 4 KiB with its header lies.
                    _ => self.fio_read("4608", depth, Some(512)),
                })?);
            }
        }
        let one = figures[figures.len() - 2].iter().map(|reads| 1e6 / reads).collect();
        figures.push(one);
        Ok(figures)
    }

    fn fio_read(&self, block: &str, depth: usize, align: Option<u32>) -> Result<f64, String> {
        let queue = Queue { depth, align_bytes: align, size_mib: None };
        self.fio("randread", block, queue).map(|reached| reached.1)
    }

    /// Fills the device with records of `length` that do not compress, from nothing.
    fn fill(&self, length: usize) -> Result<Level, String> {
        let flash = flash();
        let opening = Opening { empty: true, ..opening() };
        let device = self.open()?;
        block_on(flash.add(device, &opening)).map_err(|error| error.to_string())?;
        block_on(flash.recovered());
        let mut random = Random::new(1);
        let mut record: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
        let each = (length + 64).next_multiple_of(64) as u64 + 16;
        let records = flash.statistics().rings[0].data_bytes / 100 * FILLED_PERCENT / each;
        let began = Instant::now();
        for number in 0..records {
            record[..8].copy_from_slice(&number.to_le_bytes());
            admit(&flash, &key(number), &record)?;
        }
        block_on(flash.settle());
        let elapsed = began.elapsed().as_secs_f64();
        let statistics = flash.statistics();
        let taken = statistics.admitted_bytes as f64;
        Ok(Level {
            flash,
            records,
            bytes_per_second: taken / elapsed,
            written_per_byte: statistics.rings[0].written_bytes as f64 / taken,
        })
    }

    /// Reads a second, with so many under way on one thread.
    fn read(&self, level: &Level, length: usize, depth: usize) -> Result<f64, String> {
        let seconds = Duration::from_secs(self.arguments.seconds.into());
        let began = Instant::now();
        let mut random = Random::new(9);
        let buffers = (0..depth).map(|_| vec![0; length]);
        let draws = std::iter::from_fn(|| {
            (began.elapsed() < seconds).then(|| key(random.below(level.records)))
        });
        let spare = std::cell::RefCell::new(buffers.collect::<Vec<_>>());
        let spare = &spare;
        let reads = stream::iter(draws).map(|key| async move {
            let mut into = spare.borrow_mut().pop().expect("as many buffers as reads");
            let read = level.flash.read(&key, &mut into, None).await;
            spare.borrow_mut().push(into);
            read
        });
        let mut count = 0_u64;
        let mut failed = None;
        block_on(reads.buffer_unordered(depth).for_each(|read| {
            match read {
                // Two keys may agree in all that the index keeps of them.
                Ok(_) | Err(Miss::Absent | Miss::Other) => count += 1,
                Err(miss) => failed = Some(miss),
            }
            ready(())
        }));
        let reached = count as f64 / began.elapsed().as_secs_f64();
        failed.map_or(Ok(reached), |miss| Err(format!("a read from flash failed: {miss}")))
    }

    /// Fills the device with small records, leaves it as a crash would, and starts twice. Returns
    /// seconds, and how many records there were.
    fn starts(&self) -> Result<(Vec<f64>, u64), String> {
        drop(self.fill(SMALL_BYTES)?);
        let mut seconds = Vec::new();
        let mut records = u64::MAX;
        for _ in ["after a crash", "after a stop"] {
            let device = self.open()?;
            let flash = flash();
            let began = Instant::now();
            block_on(flash.add(device, &opening())).map_err(|error| error.to_string())?;
            let mut random = Random::new(5);
            let mut into = vec![0; SMALL_BYTES];
            while block_on(flash.read(&key(random.below(10_000_000)), &mut into, None)).is_err() {}
            seconds.push(began.elapsed().as_secs_f64());
            block_on(flash.recovered());
            seconds.push(began.elapsed().as_secs_f64());
            records = records.min(flash.statistics().records);
            block_on(flash.stop());
        }
        eprintln!("  {:<31} {seconds:.3?}, {records} records", START.comparison.name);
        Ok((seconds, records))
    }
}

/// A filled device.
struct Level {
    flash: Arc<Flash>,
    records: u64,
    bytes_per_second: f64,
    written_per_byte: f64,
}

fn flash() -> Arc<Flash> {
    let pool = ThreadPool::new("flash", THREADS).expect("threads");
    let options = Options { dwpd_hundredths: None, ..Options::default() };
    Arc::new(Flash::new(options, Arc::new(RealClock::new()), Arc::new(pool)))
}

fn key(number: u64) -> Key {
    Key { object: number >> 12, generation: 1, part: number & 0xfff }
}

fn opening() -> Opening {
    let salt = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_nsec as u128;
    Opening {
        pool: [1; 16],
        device: [2; 16],
        salt: salt.to_le_bytes(),
        life: 1,
        lives: None,
        wall_seconds: 1,
        force: true,
        empty: false,
    }
}

/// Admits a record, as soon as there is a buffer for it.
fn admit(flash: &Flash, key: &Key, record: &[u8]) -> Result<(), String> {
    let admission = Admission {
        stamp: flash.stamp(key.object),
        tenant: 0,
        metadata: false,
        vital: false,
        touches: 2,
        compression: Compression::Off,
        limit_bytes: None,
    };
    loop {
        match flash.admit(key, record, &admission) {
            Ok(()) | Err(Refused::Present) => return Ok(()),
            Err(Refused::Buffers) => std::thread::sleep(Duration::from_micros(200)),
            Err(refused) => return Err(format!("a record was not taken in: {refused}")),
        }
    }
}

/// Whether the comparisons are wanted.
pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    CASES.iter().chain([&START]).any(|case| wanted(case.comparison.name))
}
