//! What a commit of the intent log takes, beside fio's write and `fdatasync` of a file on the same
//! file system.
//!
//! Both are measured in turn in each round, and ratios are taken within a round, because the
//! machines that this runs on are shared and vary.

#[expect(dead_code, reason = "other measurements read other figures")]
mod fio;

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::executor::block_on;
use storage::{Device, DeviceOptions, FileDevice, ObjectId, RealClock};
use zil::{Log, Opening, Options, Place, Record, Sync};

/// Bytes of one write.
const WRITE_BYTES: usize = 4096;
/// How often what was committed is released.
const RELEASE_EVERY: Duration = Duration::from_millis(500);

/// Microseconds of one 4 KiB write that lasts, by the number of jobs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds; medians are reported.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of each run.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Jobs of the runs.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    jobs: Vec<u32>,
    /// Blocks of the log that are under way at a time.
    #[arg(long, value_delimiter = ',', default_values_t = [Options::default().lanes])]
    lanes: Vec<usize>,
    /// MiB of the log and of fio's file.
    #[arg(long, default_value_t = 128)]
    file_mib: u64,
    /// A directory on the disk to measure on.
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("log-commits: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir_in(&arguments.scratch)?;
    let bytes = arguments.file_mib << 20;
    let file = directory.path().join("fio");
    // Written once, as a database's log would be: no block is new to the file system.
    std::fs::write(&file, vec![0; bytes as usize])?;
    std::fs::File::open(&file)?.sync_all()?;
    let path = directory.path().join("log");
    let options = DeviceOptions { size_bytes: Some(bytes), ..DeviceOptions::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(&path, &options)?);
    println!(
        "{:>4}  {:>5}  {:>8}  {:>8}  {:>7}  {:>7}  {:>22}  {:>12}  {:>7}",
        "jobs",
        "lanes",
        "log us",
        "fio us",
        "p50 us",
        "p99 us",
        "log / fio",
        "records/block",
        "sync"
    );
    for &jobs in &arguments.jobs {
        let mut rounds: Vec<Vec<Reached>> = vec![Vec::new(); arguments.lanes.len()];
        for _ in 0..arguments.rounds {
            let control = control(&file, jobs, arguments.seconds)?;
            for (index, &lanes) in arguments.lanes.iter().enumerate() {
                let ours = commits(&device, jobs, lanes, arguments.seconds)?;
                rounds[index].push(Reached { fio_us: control, ..ours });
            }
        }
        for (reached, lanes) in rounds.iter().zip(&arguments.lanes) {
            tell(jobs, *lanes, reached);
        }
    }
    Ok(())
}

/// What one run has reached.
#[derive(Debug, Clone)]
struct Reached {
    log_us: f64,
    fio_us: f64,
    p50_us: f64,
    p99_us: f64,
    batch: f64,
    sync: Sync,
}

fn tell(jobs: u32, lanes: usize, rounds: &[Reached]) {
    let median = |figure: fn(&Reached) -> f64| sorted(rounds, figure)[rounds.len() / 2];
    let ratios = sorted(rounds, |round| round.log_us / round.fio_us);
    let (least, greatest) = (ratios[0], ratios[ratios.len() - 1]);
    let ratio = format!("{:.2} ({least:.2} to {greatest:.2})", ratios[ratios.len() / 2]);
    let through = rounds.iter().filter(|round| round.sync == Sync::Through).count();
    println!(
        "{jobs:>4}  {lanes:>5}  {:>8.0}  {:>8.0}  {:>7.0}  {:>7.0}  {ratio:>22}  {:>13.1}  {:>7}",
        median(|round| round.log_us),
        median(|round| round.fio_us),
        median(|round| round.p50_us),
        median(|round| round.p99_us),
        median(|round| round.batch),
        format!("{through}/{}", rounds.len()),
    );
}

fn sorted(rounds: &[Reached], figure: fn(&Reached) -> f64) -> Vec<f64> {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// Microseconds of a write and `fdatasync` by fio, at random places of a file.
fn control(file: &Path, jobs: u32, seconds: u32) -> Result<f64, String> {
    let (pattern, block, direct, durable) = ("randwrite", "4k", false, true);
    let job = fio::Job { file, pattern, block, jobs, direct, durable, seconds, queue: None };
    let reached = job.run()?;
    Ok(f64::from(jobs) * 1e6 / reached.operations_per_second)
}

/// The same by the log: as many threads, each of which appends a write and commits it.
fn commits(
    device: &Arc<dyn Device>,
    jobs: u32,
    lanes: usize,
    seconds: u32,
) -> Result<Reached, Box<dyn Error>> {
    let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: true };
    let options = Options { lanes, ..Options::default() };
    let log = Log::format(device.clone(), opening, options, Arc::new(RealClock::new()));
    let log = block_on(log)?;
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let (log, stop) = (&log, &stop);
        let threads: Vec<_> =
            (0..jobs).map(|job| scope.spawn(move || write(log, u64::from(job), stop))).collect();
        while started.elapsed() < Duration::from_secs(u64::from(seconds)) {
            std::thread::sleep(RELEASE_EVERY);
            block_on(log.release(log.durable()))?;
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| "a writer has panicked")??;
        }
        Ok(())
    })?;
    let took = started.elapsed();
    let statistics = log.statistics();
    Ok(Reached {
        log_us: f64::from(jobs) * took.as_secs_f64() * 1e6 / statistics.commits as f64,
        fio_us: f64::NAN,
        p50_us: statistics.latency_us.p50 as f64,
        p99_us: statistics.latency_us.p99 as f64,
        batch: statistics.records as f64 / statistics.blocks as f64,
        sync: log.sync(),
    })
}

fn write(log: &Log, job: u64, stop: &AtomicBool) -> Result<(), zil::AppendError> {
    let data = [job as u8; WRITE_BYTES];
    let file = Place { object: ObjectId(job), born: None, path: OsStr::new("a/file") };
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        let record = Record::Write { file, offset, data: &data };
        block_on(async {
            Ok::<_, zil::AppendError>(log.commit(log.append(&record).await?).await?)
        })?;
        offset += WRITE_BYTES as u64;
    }
    Ok(())
}
