use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::Arguments;
use crate::fio::Job;
use crate::subject::{Mounted, Subject};

/// The file that is read.
const FILE: &str = "file";
/// Where a tree of many small files is found.
const TREES: &[&str] = &["/usr/share/doc", "/usr/share", "/usr/include", "/usr/lib/python3"];

/// One comparison.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    unit: &'static str,
    /// Whether a larger figure is better; the ratio is turned so that more than 1 is a win.
    larger_is_better: bool,
    ours: Subject,
    others: &'static [Subject],
    work: Work,
}

/// What is done with each subject.
#[derive(Clone, Copy)]
enum Work {
    Read { pattern: &'static str, block: &'static str, jobs: u32, direct: bool },
    ColdSequential,
    Find { warm: bool },
    ReadTree { warm: bool },
}

const OFF: Subject = Subject::Warmfront("pagecache=off coherence=exclusive");
const ON: Subject = Subject::Warmfront("pagecache=on coherence=exclusive");
const PEERS: &[Subject] = &[Subject::Floor, Subject::Bindfs, Subject::Rclone, Subject::ZfsFuse];
const TREE_PEERS: &[Subject] = &[Subject::Plain, Subject::Bindfs, Subject::Rclone];

/// All comparisons, in the order in which they run.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "random-4k-1-job",
        what: "4 KiB random read hits, O_DIRECT, 1 job.",
        unit: "IOPS",
        larger_is_better: true,
        ours: OFF,
        others: PEERS,
        work: Work::Read { pattern: "randread", block: "4k", jobs: 1, direct: true },
    },
    Case {
        name: "random-4k-4-jobs",
        what: "4 KiB random read hits, O_DIRECT, 4 jobs.",
        unit: "IOPS",
        larger_is_better: true,
        ours: OFF,
        others: PEERS,
        work: Work::Read { pattern: "randread", block: "4k", jobs: 4, direct: true },
    },
    Case {
        name: "sequential-1m",
        what: "1 MiB sequential hits, O_DIRECT, 1 job.",
        unit: "MB/s",
        larger_is_better: true,
        ours: OFF,
        others: PEERS,
        work: Work::Read { pattern: "read", block: "1m", jobs: 1, direct: true },
    },
    Case {
        name: "pagecache-random-4k-1-job",
        what: "4 KiB random read hits through the page cache, 1 job.",
        unit: "IOPS",
        larger_is_better: true,
        ours: ON,
        others: &[Subject::Plain, Subject::Bindfs],
        work: Work::Read { pattern: "randread", block: "4k", jobs: 1, direct: false },
    },
    Case {
        name: "pagecache-random-4k-4-jobs",
        what: "4 KiB random read hits through the page cache, 4 jobs.",
        unit: "IOPS",
        larger_is_better: true,
        ours: ON,
        others: &[Subject::Plain, Subject::Bindfs],
        work: Work::Read { pattern: "randread", block: "4k", jobs: 4, direct: false },
    },
    Case {
        name: "pagecache-sequential-1m",
        what: "1 MiB sequential hits through the page cache.",
        unit: "MB/s",
        larger_is_better: true,
        ours: ON,
        others: &[Subject::Plain, Subject::Bindfs],
        work: Work::Read { pattern: "read", block: "1m", jobs: 1, direct: false },
    },
    Case {
        name: "cold-sequential",
        what: "Cold sequential read of the whole file, 1 MiB at a time; the plain directory is \
               read with O_DIRECT.",
        unit: "MB/s",
        larger_is_better: true,
        ours: OFF,
        others: &[Subject::Plain, Subject::Bindfs],
        work: Work::ColdSequential,
    },
    Case {
        name: "find-cold",
        what: "`find -perm` over a tree, everything cold.",
        unit: "seconds",
        larger_is_better: false,
        ours: OFF,
        others: TREE_PEERS,
        work: Work::Find { warm: false },
    },
    Case {
        name: "find-warm",
        what: "`find -perm` over the same tree again.",
        unit: "seconds",
        larger_is_better: false,
        ours: OFF,
        others: TREE_PEERS,
        work: Work::Find { warm: true },
    },
    Case {
        name: "tree-cold",
        what: "Read every file of a tree of small files, everything cold.",
        unit: "seconds",
        larger_is_better: false,
        ours: OFF,
        others: TREE_PEERS,
        work: Work::ReadTree { warm: false },
    },
    Case {
        name: "tree-warm",
        what: "Read every file of the same tree again.",
        unit: "seconds",
        larger_is_better: false,
        ours: OFF,
        others: TREE_PEERS,
        work: Work::ReadTree { warm: true },
    },
];

/// What came out of a comparison.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// One subject's part of an outcome.
pub(crate) struct Row {
    pub(crate) subject: String,
    /// Median over the rounds.
    pub(crate) value: Option<f64>,
    /// Median, least and greatest ratio of Warmfront to the subject; more than 1 is a win.
    pub(crate) ratio: Option<(f64, f64, f64)>,
    pub(crate) note: Option<String>,
}

/// The files to read and how often.
pub(crate) struct Bench<'a> {
    arguments: &'a Arguments,
    origin: TempDir,
    tree: PathBuf,
}

impl Bench<'_> {
    /// Makes the file, of bytes that do not compress.
    pub(crate) fn prepare(arguments: &Arguments) -> Result<Bench<'_>, String> {
        let origin = tempfile::tempdir_in(&arguments.scratch)
            .map_err(|error| format!("cannot use {}: {error}", arguments.scratch.display()))?;
        let mut random = std::fs::File::open("/dev/urandom").map_err(|error| error.to_string())?;
        let mut file =
            std::fs::File::create(origin.path().join(FILE)).map_err(|error| error.to_string())?;
        let mut limited = std::io::Read::take(&mut random, arguments.file_mib << 20);
        std::io::copy(&mut limited, &mut file).map_err(|error| error.to_string())?;
        file.flush().and_then(|()| file.sync_all()).map_err(|error| error.to_string())?;
        let tree = TREES
            .iter()
            .map(PathBuf::from)
            .find(|tree| tree.is_dir())
            .ok_or("no tree of small files found below /usr")?;
        Ok(Bench { arguments, origin, tree })
    }

    /// Runs one comparison.
    pub(crate) fn run(&self, case: &Case) -> Result<Outcome, String> {
        let subjects: Vec<Subject> =
            std::iter::once(case.ours).chain(case.others.iter().copied()).collect();
        let mut figures: Vec<Vec<Option<f64>>> = Vec::new();
        let mut notes: Vec<Option<String>> = vec![None; subjects.len()];
        for round in 0..self.arguments.rounds {
            let mut line = Vec::new();
            for (subject, note) in subjects.iter().zip(&mut notes) {
                let figure = self.measure(case, *subject);
                match &figure {
                    Ok(figure) => {
                        eprintln!("  round {}: {:<44} {figure:>12.3}", round + 1, subject.name())
                    }
                    Err(reason) => {
                        eprintln!("  round {}: {:<44} {reason}", round + 1, subject.name());
                        *note = Some(reason.clone());
                    }
                }
                line.push(figure.ok());
            }
            figures.push(line);
        }
        let rows = subjects.iter().zip(notes).enumerate().map(|(index, (subject, note))| Row {
            subject: subject.name(),
            value: median(figures.iter().filter_map(|line| line[index]).collect()).map(|all| all.0),
            ratio: if index == 0 { None } else { ratio(&figures, index, case.larger_is_better) },
            note,
        });
        Ok(Outcome { name: case.name, what: case.what, unit: case.unit, rows: rows.collect() })
    }

    fn measure(&self, case: &Case, subject: Subject) -> Result<f64, String> {
        let root = match case.work {
            Work::Find { .. } | Work::ReadTree { .. } => self.tree.as_path(),
            _ => self.origin.path(),
        };
        drop_caches();
        let mounted = subject.mount(root, FILE, self.arguments.file_mib)?;
        match case.work {
            Work::Read { pattern, block, jobs, direct } => {
                let file = mounted.root.join(FILE);
                read_whole(&file, false)?;
                read_whole(&file, direct)?;
                let seconds = self.arguments.seconds;
                let reached = Job { file: &file, pattern, block, jobs, direct, seconds }.run()?;
                Ok(match case.unit {
                    "IOPS" => reached.operations_per_second,
                    _ => reached.bytes_per_second / 1e6,
                })
            }
            Work::ColdSequential => {
                let direct = subject == Subject::Plain;
                let started = Instant::now();
                read_whole(&mounted.root.join(FILE), direct)?;
                let bytes = (self.arguments.file_mib << 20) as f64;
                Ok(bytes / 1e6 / started.elapsed().as_secs_f64())
            }
            Work::Find { warm } => repeated(warm, || find(&mounted)),
            Work::ReadTree { warm } => repeated(warm, || read_tree(&mounted)),
        }
    }
}

/// The time of the second run if `warm`, else of the first.
fn repeated(warm: bool, mut work: impl FnMut() -> Result<f64, String>) -> Result<f64, String> {
    let first = work()?;
    if warm { work() } else { Ok(first) }
}

fn find(mounted: &Mounted) -> Result<f64, String> {
    let mut command = Command::new("find");
    command.arg(&mounted.root);
    command.args(["-type", "f", "(", "-perm", "-004000", "-o", "-perm", "-002000", ")"]);
    timed(command)
}

fn read_tree(mounted: &Mounted) -> Result<f64, String> {
    // Through a pipe, because tar sees through /dev/null and would read nothing.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("tar --create --file=- . | cat > /dev/null").current_dir(&mounted.root);
    timed(shell)
}

fn timed(mut command: Command) -> Result<f64, String> {
    let started = Instant::now();
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    Ok(started.elapsed().as_secs_f64())
}

fn read_whole(file: &Path, direct: bool) -> Result<(), String> {
    let mut command = Command::new("dd");
    command.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=1M"]);
    if direct {
        command.arg("iflag=direct");
    }
    let output = command.output().map_err(|error| format!("cannot run dd: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Empties the kernel's caches, as far as it lets us.
fn drop_caches() {
    rustix::fs::sync();
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
}

fn ratio(
    figures: &[Vec<Option<f64>>],
    index: usize,
    larger_is_better: bool,
) -> Option<(f64, f64, f64)> {
    let ratios = figures.iter().filter_map(|line| {
        let (ours, other) = (line[0]?, line[index]?);
        Some(if larger_is_better { ours / other } else { other / ours })
    });
    median(ratios.collect())
}

/// Median, least and greatest.
fn median(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2)?;
    Some((*middle, *values.first()?, *values.last()?))
}
