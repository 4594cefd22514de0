//! Writes through a mount: beside the file system that the log device lies on, and in front of an
//! origin as slow as a disk with a log device and without.

mod mariadb;
mod postgres;
mod sqlite;

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Arguments;
use crate::fio::{Job, Reached};
use crate::outcome::{Comparison, Outcome, in_turn};
use crate::subject::Mounted;

/// Bytes of the file that is written at random places.
const FILE_MIB: usize = 64;
/// Times that the file is read beforehand, so that flash has what RAM does not hold.
const WARM_READS: usize = 3;
/// Bytes of the files of a case with several jobs, each.
const JOB_FILE_MIB: usize = 16;
/// Bytes of a run in sequence.
const STREAM_MIB: u64 = 1024;
const LOG_SIZE: &str = "512M";
const FLASH_SIZE: &str = "256M";

/// What serves the files that are written.
#[derive(Debug, Clone, Copy)]
struct Subject {
    name: &'static str,
    front: Front,
    with_log: bool,
    with_flash: bool,
}

/// What stands before the directory.
#[derive(Debug, Clone, Copy)]
enum Front {
    Nothing,
    /// Another file system in user space, which hands each write on.
    Bindfs,
    /// Warmfront, mounted with these options.
    Warmfront(&'static [&'static str]),
}

const NATIVE: Subject = Subject {
    name: "the log device's own file system",
    front: Front::Nothing,
    with_log: false,
    with_flash: false,
};
const BINDFS: Subject = Subject { name: "bindfs", front: Front::Bindfs, ..NATIVE };
const LOGGED: Subject =
    Subject { name: "warmfront", front: Front::Warmfront(&[]), with_log: true, ..NATIVE };
const HDD: Subject =
    Subject { name: "hdd, written back", front: Front::Warmfront(&["--slow", "hdd"]), ..NATIVE };
const HDD_LOGGED: Subject = Subject { name: "warmfront, origin hdd, log", with_log: true, ..HDD };
/// As one sets up the directory of a database: nobody else writes there.
const EXCLUSIVE: Subject = Subject {
    name: "warmfront, hdd, log, exclusive",
    front: Front::Warmfront(&["--slow", "hdd", "-o", "coherence=exclusive"]),
    ..HDD_LOGGED
};
const HDD_THROUGH: Subject = Subject {
    name: "hdd, each write by itself",
    front: Front::Warmfront(&["--slow", "hdd", "-o", "write=through"]),
    ..HDD
};
const NO_FLASH: Subject = Subject {
    name: "the same without flash",
    front: Front::Warmfront(&["--slow", "hdd", "--arc-max", "32M", "-o", "recordsize=4k"]),
    ..HDD
};
const FLASH: Subject =
    Subject { name: "warmfront, hdd, 32M of RAM, flash", with_flash: true, ..NO_FLASH };
const SMALL: Subject = Subject {
    name: "warmfront, origin hdd, 64M of RAM",
    front: Front::Warmfront(&["--slow", "hdd", "--arc-max", "64M"]),
    ..HDD
};

#[derive(Debug, Clone, Copy)]
enum Work {
    /// Writes of 4 KiB, each followed by `fdatasync`, by so many jobs with a file each, or all on
    /// one.
    Durable { jobs: u32, one_file: bool },
    /// Commits of one row.
    Sqlite,
    /// The same by so many clients of MariaDB.
    MariaDb { clients: u32 },
    /// Transactions of `pgbench` by so many clients.
    Postgres { clients: u32 },
    /// 1 MiB after the other, and `fsync` at the end.
    Stream,
    /// Writes of 4 KiB at random places, and `fsync` at the end.
    Random,
    /// The same without an end: the latency that 999 of 1000 stay below, by that of half of them.
    Endless,
    /// Reads and writes of 4 KiB at random places, mixed as fio's pattern says, once what does not
    /// fit into RAM has been read a few times.
    Mixed { pattern: &'static str },
}

struct Case {
    comparison: Comparison,
    work: Work,
    /// The first is what the others are compared with.
    subjects: &'static [Subject],
}

const fn durable(name: &'static str, what: &'static str, jobs: u32, one_file: bool) -> Case {
    let work = Work::Durable { jobs, one_file };
    let subjects = &[LOGGED, NATIVE];
    let comparison = Comparison { name, what, unit: "microseconds", larger_is_better: false };
    Case { comparison, work, subjects }
}

const CASES: &[Case] = &[
    durable(
        "writes-durable-1-job",
        "A write of 4 KiB at a random place of a file with its fdatasync, one after the other, \
         through a mount with a log device beside the file system that this lies on; microseconds.",
        1,
        false,
    ),
    durable("writes-durable-4-jobs", "The same, 4 jobs with a file each.", 4, false),
    durable("writes-durable-16-jobs", "The same, 16 jobs with a file each.", 16, false),
    durable(
        "writes-durable-16-jobs-one-file",
        "The same, 16 jobs on one file, whose fsyncs the kernel's FUSE makes one by one.",
        16,
        true,
    ),
    Case {
        comparison: Comparison {
            name: "writes-durable-hdd",
            what: "The same, one job, before an origin as slow as hdd, with a log device and \
                   without.",
            unit: "microseconds",
            larger_is_better: false,
        },
        work: Work::Durable { jobs: 1, one_file: false },
        subjects: &[HDD_LOGGED, HDD],
    },
    Case {
        comparison: Comparison {
            name: "writes-sqlite",
            what: "Commits of one row by SQLite, with its default journal.",
            unit: "commits/s",
            larger_is_better: true,
        },
        work: Work::Sqlite,
        subjects: &[EXCLUSIVE, NATIVE, HDD, HDD_THROUGH, HDD_LOGGED],
    },
    Case {
        comparison: Comparison {
            name: "writes-pgbench",
            what: "Transactions of pgbench by 4 clients, scale 5, PostgreSQL as Debian sets it up.",
            unit: "tps",
            larger_is_better: true,
        },
        work: Work::Postgres { clients: 4 },
        subjects: &[EXCLUSIVE, NATIVE, HDD],
    },
    Case {
        comparison: Comparison {
            name: "writes-mariadb",
            what: "Commits of one row by 4 clients of MariaDB, InnoDB as it is set up by default.",
            unit: "commits/s",
            larger_is_better: true,
        },
        work: Work::MariaDb { clients: 4 },
        subjects: &[EXCLUSIVE, NATIVE, HDD],
    },
    Case {
        comparison: Comparison {
            name: "writes-sequential",
            what: "1 GiB in sequence, 1 MiB at a time, with an fsync at the end.",
            unit: "MB/s",
            larger_is_better: true,
        },
        work: Work::Stream,
        subjects: &[LOGGED, NATIVE, BINDFS],
    },
    Case {
        comparison: Comparison {
            name: "writes-sequential-hdd",
            what: "The same before an origin as slow as hdd.",
            unit: "MB/s",
            larger_is_better: true,
        },
        work: Work::Stream,
        subjects: &[HDD_LOGGED, HDD_THROUGH],
    },
    Case {
        comparison: Comparison {
            name: "writes-random-hdd",
            what: "Writes of 4 KiB at random places of 64 MiB before an origin as slow as hdd, and \
                   an fsync at the end, without a log device.",
            unit: "writes/s",
            larger_is_better: true,
        },
        work: Work::Random,
        subjects: &[HDD, HDD_THROUGH],
    },
    Case {
        comparison: Comparison {
            name: "writes-endless-hdd",
            what: "An endless writer of 4 KiB at random places: the latency that 999 of 1000 \
                   writes stay below, by that of half of them.",
            unit: "times",
            larger_is_better: false,
        },
        work: Work::Endless,
        subjects: &[SMALL],
    },
    Case {
        comparison: Comparison {
            name: "writes-flash-random",
            what: "Writes of 4 KiB at random places of 64 MiB before an origin as slow as hdd, \
                   with a flash level and without.",
            unit: "writes/s",
            larger_is_better: true,
        },
        work: Work::Mixed { pattern: "randwrite" },
        subjects: &[FLASH, NO_FLASH],
    },
    Case {
        comparison: Comparison {
            name: "writes-flash-mix",
            what: "The same, half of them reads.",
            unit: "operations/s",
            larger_is_better: true,
        },
        work: Work::Mixed { pattern: "randrw" },
        subjects: &[FLASH, NO_FLASH],
    },
];

/// Whether the comparisons are wanted.
pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    CASES.iter().any(|case| wanted(case.comparison.name))
}

/// Runs those comparisons that are wanted.
pub(crate) fn run(
    arguments: &Arguments,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Outcome>, String> {
    CASES
        .iter()
        .filter(|case| wanted(case.comparison.name))
        .map(|case| case.run(arguments))
        .collect()
}

impl Case {
    fn run(&self, arguments: &Arguments) -> Result<Outcome, String> {
        let mut rounds = Vec::new();
        for round in 0..arguments.rounds {
            let figures = in_turn(round, self.subjects.len(), |index| {
                let place = Place::new(&arguments.scratch, self.subjects[index], self.work)?;
                self.work.measure(&place, arguments.seconds)
            })?;
            eprintln!("  {}: {:<32} {figures:.1?}", round + 1, self.comparison.name);
            rounds.push(figures);
        }
        Ok(self.comparison.outcome(self.subjects.iter().map(|subject| subject.name), &rounds))
    }
}

/// Where a subject is measured: fresh, with the files that the work needs.
struct Place {
    root: PathBuf,
    /// It goes before its directories do.
    _mounted: Option<Mounted>,
    _scratch: TempDir,
}

impl Place {
    fn new(scratch: &Path, subject: Subject, work: Work) -> Result<Place, String> {
        let scratch = tempfile::tempdir_in(scratch).map_err(|error| error.to_string())?;
        // A server that runs as its own user gets through.
        std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o755))
            .map_err(|error| error.to_string())?;
        let origin = scratch.path().join("origin");
        prepare(&origin, work).map_err(|error| format!("cannot make files: {error}"))?;
        let options = match subject.front {
            Front::Nothing => {
                return Ok(Place { root: origin, _mounted: None, _scratch: scratch });
            }
            Front::Bindfs => {
                let mounted = Mounted::bindfs(&origin, &[])?;
                let root = mounted.root.clone();
                return Ok(Place { root, _mounted: Some(mounted), _scratch: scratch });
            }
            Front::Warmfront(options) => options,
        };
        let mut arguments: Vec<String> = options.iter().map(ToString::to_string).collect();
        if let Work::Postgres { .. } = work {
            arguments.push("--allow-other".to_string());
        }
        if subject.with_log {
            let log = scratch.path().join("log");
            arguments.extend(["--log".to_string(), format!("{}:{LOG_SIZE}", log.display())]);
        }
        if subject.with_flash {
            let cache = scratch.path().join("cache");
            arguments.extend(["--cache".to_string(), format!("{}:{FLASH_SIZE}", cache.display())]);
        }
        let mounted = Mounted::warmfront(&origin, &arguments)?;
        Ok(Place { root: mounted.root.clone(), _mounted: Some(mounted), _scratch: scratch })
    }
}

/// Files that are there, written once, before the work begins: no block is new then.
fn prepare(origin: &Path, work: Work) -> std::io::Result<()> {
    std::fs::create_dir(origin)?;
    let (files, mib) = match work {
        Work::Durable { jobs, one_file: false } => (jobs, JOB_FILE_MIB),
        Work::Durable { one_file: true, .. }
        | Work::Random
        | Work::Endless
        | Work::Mixed { .. } => (1, FILE_MIB),
        Work::Sqlite | Work::MariaDb { .. } | Work::Postgres { .. } | Work::Stream => (0, 0),
    };
    for number in 0..files {
        let path = origin.join(format!("file.{number}"));
        std::fs::write(&path, vec![0; mib << 20])?;
        File::open(&path)?.sync_all()?;
    }
    Ok(())
}

impl Work {
    fn measure(self, place: &Place, seconds: u32) -> Result<f64, String> {
        let file = place.root.join("file.0");
        let job = |file, pattern, block, jobs, durable| Job {
            file,
            pattern,
            block,
            jobs,
            direct: false,
            durable,
            seconds,
            queue: None,
        };
        let seconds = Duration::from_secs(seconds.into());
        match self {
            Work::Durable { jobs, one_file } => {
                let file = if one_file { &file } else { &place.root };
                let reached = job(file, "randwrite", "4k", jobs, true).run()?;
                Ok(f64::from(jobs) * 1e6 / reached.operations_per_second)
            }
            Work::Sqlite => sqlite::commits(&place.root.join("database"), seconds),
            Work::MariaDb { clients } => mariadb::commits(&place.root, clients, seconds),
            Work::Postgres { clients } => postgres::transactions(&place.root, clients, seconds),
            Work::Stream => stream(&file).map_err(|error| format!("cannot write: {error}")),
            Work::Random => {
                random(&file, seconds).map_err(|error| format!("cannot write: {error}"))
            }
            Work::Endless => {
                let Reached { p50_us, p999_us, .. } =
                    job(&file, "randwrite", "4k", 1, false).run()?;
                eprintln!("    half take {p50_us:.0} us, 999 of 1000 {p999_us:.0} us");
                Ok(p999_us / p50_us)
            }
            Work::Mixed { pattern } => {
                for _ in 0..WARM_READS {
                    std::fs::read(&file).map_err(|error| format!("cannot read: {error}"))?;
                }
                Ok(job(&file, pattern, "4k", 1, false).run()?.operations_per_second)
            }
        }
    }
}

/// Bytes a second, in millions, with the time that it takes to make them last.
fn stream(path: &Path) -> std::io::Result<f64> {
    let data = vec![0x5a; 1 << 20];
    let began = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..STREAM_MIB {
        file.write_all(&data)?;
    }
    file.sync_all()?;
    Ok((STREAM_MIB << 20) as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// Writes a second for some seconds, with the time that it takes to make them last.
fn random(path: &Path, duration: Duration) -> std::io::Result<f64> {
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(path)?;
    let mut random = storage::Random::new(7);
    let blocks = (FILE_MIB << 20 >> 12) as u64;
    let data = [0x5a; 4096];
    let (began, mut writes) = (Instant::now(), 0_u64);
    while began.elapsed() < duration {
        file.write_all_at(&data, random.below(blocks) << 12)?;
        writes += 1;
    }
    file.sync_all()?;
    Ok(writes as f64 / began.elapsed().as_secs_f64())
}
