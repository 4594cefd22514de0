//! Commits of the intent log beside fio's `fdatasync` of a file on the same file system, through
//! the library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use storage::{Device, DeviceOptions, FileDevice, ObjectId, RealClock};
use tempfile::TempDir;
use zil::{AppendError, Log, Opening, Options, Place, Record};

use crate::Arguments;
use crate::fio::Job;
use crate::outcome::{Comparison, Outcome};

/// Bytes of the log, and of the file that fio writes.
const FILE_BYTES: u64 = 128 << 20;
/// Bytes of one write.
const WRITE_BYTES: usize = 4096;
/// How often what was committed is released.
const RELEASE_EVERY: Duration = Duration::from_millis(500);

/// What each round measures, in this order: name, what it is, and how many jobs it has.
const CASES: [(&str, &str, u32); 3] = [
    (
        "log-4k-1-job",
        "Microseconds of a commit of 4 KiB to the intent log, one after the other; fio writes at \
         random places of a file that has been written once, each write followed by fdatasync.",
        1,
    ),
    ("log-4k-4-jobs", "The same, 4 jobs.", 4),
    ("log-4k-16-jobs", "The same, 16 jobs.", 16),
];

/// What each round measures a case with: how many blocks of the log are under way at a time.
fn lanes() -> [usize; 3] {
    [Options::default().lanes, 2, 1]
}

/// Whether the comparisons are wanted.
pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    CASES.iter().any(|(name, ..)| wanted(name))
}

/// Runs all comparisons of the log.
pub(crate) fn run(arguments: &Arguments) -> Result<Vec<Outcome>, String> {
    let bench = Bench::prepare(arguments)?;
    let outcome = |&(name, what, jobs): &(&'static str, &'static str, u32)| {
        let rounds: Result<Vec<Vec<f64>>, String> = (0..arguments.rounds)
            .map(|round| {
                let figures = bench.round(jobs)?;
                eprintln!("  {}: {name:<28} {figures:.0?}", round + 1);
                Ok(figures)
            })
            .collect();
        let lanes = lanes().map(|lanes| format!("warmfront, {lanes} blocks under way"));
        let subjects = lanes.into_iter().chain(["fio fdatasync".to_string()]);
        let comparison = Comparison { name, what, unit: "microseconds", larger_is_better: false };
        Ok(comparison.outcome(subjects, &rounds?))
    };
    CASES.iter().map(outcome).collect()
}

struct Bench {
    seconds: u32,
    file: PathBuf,
    device: Arc<dyn Device>,
    _directory: TempDir,
}

impl Bench {
    fn prepare(arguments: &Arguments) -> Result<Bench, String> {
        let directory =
            tempfile::tempdir_in(&arguments.scratch).map_err(|error| error.to_string())?;
        let file = directory.path().join("fio");
        // Written once, as a database's log would be: no block is new to the file system.
        std::fs::write(&file, vec![0; FILE_BYTES as usize])
            .and_then(|()| std::fs::File::open(&file)?.sync_all())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let options = DeviceOptions { size_bytes: Some(FILE_BYTES), ..DeviceOptions::default() };
        let device = FileDevice::open(&directory.path().join("log"), &options);
        let device = Arc::new(device.map_err(|error| error.to_string())?);
        Ok(Bench { seconds: arguments.seconds, file, device, _directory: directory })
    }

    /// Microseconds of a write that lasts, with each number of blocks under way, then with fio.
    fn round(&self, jobs: u32) -> Result<Vec<f64>, String> {
        let mut figures = Vec::new();
        for lanes in lanes() {
            figures.push(self.commits(jobs, lanes)?);
        }
        figures.push(fdatasync(&self.file, jobs, self.seconds)?);
        Ok(figures)
    }

    /// By as many threads, each of which appends a write and commits it.
    fn commits(&self, jobs: u32, lanes: usize) -> Result<f64, String> {
        let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: true };
        let options = Options { lanes, ..Options::default() };
        let clock = Arc::new(RealClock::new());
        let log = block_on(Log::format(self.device.clone(), opening, options, clock));
        let log = log.map_err(|error| error.to_string())?;
        let (stop, started) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            let (log, stop) = (&log, &stop);
            let threads: Vec<_> =
                (0..jobs).map(|job| scope.spawn(move || write(log, job, stop))).collect();
            let mut released = Ok(());
            while started.elapsed() < Duration::from_secs(u64::from(self.seconds)) {
                std::thread::sleep(RELEASE_EVERY);
                released = released.and(block_on(log.release(log.durable())));
            }
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                let written = thread.join().map_err(|_| "a writer has panicked")?;
                written.map_err(|error| error.to_string())?;
            }
            released.map_err(|error| error.to_string())
        })?;
        let commits = log.statistics().commits as f64;
        Ok(f64::from(jobs) * started.elapsed().as_secs_f64() * 1e6 / commits)
    }
}

fn write(log: &Log, job: u32, stop: &AtomicBool) -> Result<(), AppendError> {
    let data = [job as u8; WRITE_BYTES];
    let object = ObjectId(u64::from(job));
    let file = Place { object, born: None, path: OsStr::new("a/file") };
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        let record = Record::Write { file, offset, data: &data };
        block_on(async { Ok::<_, AppendError>(log.commit(log.append(&record).await?).await?) })?;
        offset += WRITE_BYTES as u64;
    }
    Ok(())
}

/// The same by fio, at random places of a file.
fn fdatasync(file: &Path, jobs: u32, seconds: u32) -> Result<f64, String> {
    let (pattern, block, direct, durable) = ("randwrite", "4k", false, true);
    let job = Job { file, pattern, block, jobs, direct, durable, seconds, queue: None };
    Ok(f64::from(jobs) * 1e6 / job.run()?.operations_per_second)
}
