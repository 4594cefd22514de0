//! Reads from a cache device through a mount, beside bindfs over a file on the same file system;
//! both past the kernel's page cache.

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Arguments;
use crate::fio::Job;
use crate::outcome::{Comparison, Outcome, in_turn};
use crate::subject::Mounted;

/// The file that is read.
const FILE_MIB: u64 = 256;
const CACHE_SIZE: &str = "640M";
/// The longest wait until the cache device has taken in the file.
const FILL_MAX: Duration = Duration::from_secs(120);

const SUBJECTS: [&str; 3] =
    ["warmfront, from the cache device", "bindfs, O_DIRECT", "the file itself, O_DIRECT"];

/// Cases of one size of records: the reads of one record each, by so many jobs.
struct Group {
    record: &'static str,
    record_bytes: u64,
    cases: [(Comparison, u32); 2],
}

const fn reads(name: &'static str, what: &'static str) -> Comparison {
    Comparison { name, what, unit: "reads/s", larger_is_better: true }
}

const GROUPS: [Group; 2] = [
    Group {
        record: "4k",
        record_bytes: 4 << 10,
        cases: [
            (
                reads(
                    "flash-mount-4k-1-job",
                    "Random reads of 4 KiB with O_DIRECT through a mount that keeps contents on \
                     its cache device only, in records of 4 KiB; before an origin as slow as hdd.",
                ),
                1,
            ),
            (reads("flash-mount-4k-4-jobs", "The same, 4 jobs."), 4),
        ],
    },
    Group {
        record: "128k",
        record_bytes: 128 << 10,
        cases: [
            (reads("flash-mount-128k-1-job", "The same, reads and records of 128 KiB."), 1),
            (reads("flash-mount-128k-4-jobs", "The same, 4 jobs."), 4),
        ],
    },
];

/// Whether the comparisons are wanted.
pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    GROUPS.iter().flat_map(|group| &group.cases).any(|(comparison, _)| wanted(comparison.name))
}

/// Runs those comparisons that are wanted.
pub(crate) fn run(
    arguments: &Arguments,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    for group in &GROUPS {
        if group.cases.iter().any(|(comparison, _)| wanted(comparison.name)) {
            outcomes.extend(group.run(arguments)?);
        }
    }
    Ok(outcomes)
}

impl Group {
    fn run(&self, arguments: &Arguments) -> Result<Vec<Outcome>, String> {
        let failed = |error: std::io::Error| error.to_string();
        let scratch = tempfile::tempdir_in(&arguments.scratch).map_err(failed)?;
        let origin = scratch.path().join("origin");
        std::fs::create_dir(&origin).map_err(failed)?;
        write(&origin.join("file")).map_err(failed)?;
        let subjects = [
            self.filled(&scratch, &origin)?,
            Mounted::bindfs(&origin, &["--forward-odirect=4096"])?,
            Mounted::plain(&origin),
        ];
        let mut outcomes = Vec::new();
        for (comparison, jobs) in &self.cases {
            let (mut rounds, mut reads) = (Vec::new(), 0.0);
            let before = subjects[0].counter("l2_hits")?;
            for round in 0..arguments.rounds {
                let figures = in_turn(round, subjects.len(), |index| {
                    let job = Job {
                        file: &subjects[index].root.join("file"),
                        pattern: "randread",
                        block: self.record,
                        jobs: *jobs,
                        direct: true,
                        durable: false,
                        seconds: arguments.seconds,
                        queue: None,
                    };
                    job.run().map(|reached| reached.operations_per_second)
                })?;
                eprintln!("  {}: {:<28} {figures:.0?}", round + 1, comparison.name);
                reads += figures[0] * f64::from(arguments.seconds);
                rounds.push(figures);
            }
            let from_flash = (subjects[0].counter("l2_hits")? - before) as f64;
            let mut outcome = comparison.outcome(SUBJECTS, &rounds);
            outcome.rows[0].note = Some(format!("{:.0} % of them", 100.0 * from_flash / reads));
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// A mount whose cache device has taken in the file, and whose RAM has nothing of it.
    fn filled(&self, scratch: &TempDir, origin: &Path) -> Result<Mounted, String> {
        let cache = scratch.path().join("cache");
        let options = [
            "--slow=hdd".to_string(),
            "--dwpd=none".to_string(),
            format!("--cache={}:{CACHE_SIZE}", cache.display()),
            "-oprimarycache=metadata,compression=off,coherence=exclusive".to_string(),
            format!("-orecordsize={}", self.record),
        ];
        let mounted = Mounted::warmfront(origin, &options)?;
        let wanted = (FILE_MIB << 20) / self.record_bytes;
        let started = Instant::now();
        while mounted.counter("l2_records")? < wanted {
            if started.elapsed() > FILL_MAX {
                let there = mounted.counter("l2_records")?;
                return Err(format!("only {there} of {wanted} records have got to flash"));
            }
            std::fs::read(mounted.root.join("file")).map_err(|error| error.to_string())?;
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(mounted)
    }
}

/// A file of bytes that do not compress.
fn write(path: &Path) -> std::io::Result<()> {
    let mut random = std::io::Read::take(std::fs::File::open("/dev/urandom")?, FILE_MIB << 20);
    let mut file = std::fs::File::create(path)?;
    std::io::copy(&mut random, &mut file)?;
    file.sync_all()
}
