//! A recorded load before and after a restart: which of its reads a mount answers without its
//! origin.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::Trace;
use tempfile::TempDir;

use crate::Arguments;
use crate::outcome::{Comparison, Outcome};
use crate::subject::Mounted;

/// The load, which belongs to the project.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/lab/traces/OLTP.lis.zst");
/// Requests of it that are repeated.
const REQUESTS: usize = 6_000;
/// Each is for one record.
const RECORD_BYTES: u64 = 16 << 10;
const CEILING: &str = "--arc-max=32M";
/// The cache device has room for this part of what is read, in percent.
const CACHE_PERCENT: u64 = 150;
/// Between two looks whether something still comes to flash, and how often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
const LOOKS_MAX: usize = 30;
/// Origins of this kind take 20 ms at the least; what takes less than half of that did not come
/// from there.
const SLOW: &str = "--slow=s3";
const HIT_MAX: Duration = Duration::from_millis(10);
/// How long after the start what is read counts.
const FIRST: Duration = Duration::from_secs(1);

const COMPARISON: Comparison = Comparison {
    name: "restart-hit-rate",
    what: "Percent of reads that are answered without the origin, in the first second after a \
           restart, and of the same reads before it: 6,000 requests of OLTP, over and over, a \
           cache device with room for all that they read, and an origin as slow as s3. Contents \
           are kept on flash only, or in RAM as well, which holds a third of them.",
    unit: "percent",
    larger_is_better: true,
};
const ROWS: [&str; 9] = [
    "on flash: first second after a stop",
    "on flash: the same reads before it",
    "on flash: first second after kill -9",
    "on flash: the same reads before it",
    "and in RAM: first second after a stop",
    "and in RAM: the same reads before it",
    "and in RAM: after kill -9",
    "and in RAM: the same reads before it",
    "first second, with nothing cached",
];

/// Whether it is wanted.
pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    wanted(COMPARISON.name)
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let trace = Trace::read(Path::new(TRACE), None).map_err(|error| error.to_string())?;
    let requests = &trace.ids()[..REQUESTS];
    let mut rounds = Vec::new();
    let mut reads = u64::MAX;
    for round in 0..arguments.rounds {
        let mut figures = Vec::new();
        let mut least = u64::MAX;
        for contents in ["metadata", "all"] {
            let load = Load::prepare(&arguments.scratch, requests, contents)?;
            let (more, reads) = load.restarts()?;
            figures.extend(more);
            least = least.min(reads);
            if contents == "all" {
                figures.push(load.cold()?);
            }
        }
        eprintln!("  {}: {:<28} {figures:.1?}, {least} reads", round + 1, COMPARISON.name);
        rounds.push(figures);
        reads = reads.min(least);
    }
    let mut outcome = COMPARISON.outcome(ROWS, &rounds);
    for row in &mut outcome.rows {
        // They stand beside each other as differences, not as ratios.
        row.ratio = None;
        row.note = Some(format!("at least {reads} reads"));
    }
    Ok(outcome)
}

/// Requests for records of one file, and where the mounts keep what they know.
struct Load {
    offsets: Vec<u64>,
    options: Vec<String>,
    origin: PathBuf,
    state: TempDir,
    _scratch: TempDir,
}

impl Load {
    /// `primarycache` says what is kept in RAM.
    fn prepare(scratch: &Path, requests: &[u32], primarycache: &str) -> Result<Load, String> {
        let failed = |error: std::io::Error| error.to_string();
        let scratch = tempfile::tempdir_in(scratch).map_err(failed)?;
        let state = tempfile::tempdir_in(&scratch).map_err(failed)?;
        let records = u64::from(requests.iter().max().copied().unwrap_or(0)) + 1;
        let origin = scratch.path().join("origin");
        std::fs::create_dir(&origin).map_err(failed)?;
        let file = File::create(origin.join("file")).map_err(failed)?;
        file.set_len(records * RECORD_BYTES).map_err(failed)?;
        // Numbers of objects follow their first requests. Strewn, neighbours are strangers.
        let stride = (records / 3..).find(|stride| is_coprime(*stride, records)).unwrap_or(1);
        let strewn = |request: &u32| u64::from(*request) * stride % records * RECORD_BYTES;
        let cache_bytes = records * RECORD_BYTES / 100 * CACHE_PERCENT;
        let options = vec![
            SLOW.to_string(),
            CEILING.to_string(),
            "--dwpd=none".to_string(),
            format!("--cache={}:{cache_bytes}", scratch.path().join("cache").display()),
            "-orecordsize=16K,compression=off,prefetch=none,coherence=exclusive".to_string(),
            format!("-oprimarycache={primarycache}"),
        ];
        let offsets = requests.iter().map(strewn).collect();
        Ok(Load { offsets, options, origin, state, _scratch: scratch })
    }

    /// After a stop, before it, after a kill and before that, in percent; and the fewest reads that
    /// one of these is of.
    fn restarts(&self) -> Result<(Vec<f64>, u64), String> {
        let mut mounted = self.mount()?;
        std::fs::read(mounted.root.join("file")).map_err(|error| error.to_string())?;
        self.pass(&mounted, None)?;
        settle(&mounted)?;
        let mut figures = Vec::new();
        let mut reads = usize::MAX;
        for kills in [false, true] {
            let before = self.pass(&mounted, None)?;
            match kills {
                true => mounted.kill(),
                false => drop(mounted),
            }
            mounted = self.mount()?;
            let after = self.pass(&mounted, Some(FIRST))?;
            figures.extend([percent(&after), percent(&before[..after.len()])]);
            reads = reads.min(after.len());
            // What is missing is read again before the next restart.
            self.pass(&mounted, None)?;
            settle(&mounted)?;
        }
        Ok((figures, reads as u64))
    }

    /// The first second of a mount that knows nothing and has no cache device, in percent.
    fn cold(&self) -> Result<f64, String> {
        let cold = [self.options.as_slice(), &["--cold".to_string()]].concat();
        let cold: Vec<String> = cold.into_iter().filter(|it| !it.starts_with("--cache")).collect();
        let cold = Mounted::warmfront_again(self.state.path(), &self.origin, &cold)?;
        Ok(percent(&self.pass(&cold, Some(FIRST))?))
    }

    fn mount(&self) -> Result<Mounted, String> {
        Mounted::warmfront_again(self.state.path(), &self.origin, &self.options)
    }

    /// Makes the requests, for some time if one is given; says of each whether it was a hit.
    fn pass(&self, mounted: &Mounted, most: Option<Duration>) -> Result<Vec<bool>, String> {
        let file = File::open(mounted.root.join("file")).map_err(|error| error.to_string())?;
        let mut buffer = vec![0; RECORD_BYTES as usize];
        let mut hits = Vec::new();
        let began = Instant::now();
        for offset in &self.offsets {
            let asked = Instant::now();
            if most.is_some_and(|most| asked - began >= most) {
                break;
            }
            file.read_exact_at(&mut buffer, *offset).map_err(|error| error.to_string())?;
            hits.push(asked.elapsed() < HIT_MAX);
        }
        Ok(hits)
    }
}

/// Waits until nothing more comes to flash.
fn settle(mounted: &Mounted) -> Result<(), String> {
    let mut before = u64::MAX;
    for _ in 0..LOOKS_MAX {
        let records = mounted.counter("l2_records")?;
        if records == before {
            return Ok(());
        }
        before = records;
        std::thread::sleep(LOOK_INTERVAL);
    }
    Err("flash does not come to rest".to_string())
}

fn percent(hits: &[bool]) -> f64 {
    100.0 * hits.iter().filter(|hit| **hit).count() as f64 / hits.len().max(1) as f64
}

fn is_coprime(a: u64, b: u64) -> bool {
    match b {
        0 => a == 1,
        _ => is_coprime(b, a % b),
    }
}
