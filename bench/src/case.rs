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

/// Comparisons of the same subjects: in each round every subject is mounted once, cold, and does
/// the work of all cases in turn.
pub(crate) struct Group {
    /// The first one is Warmfront.
    subjects: &'static [Subject],
    pub(crate) cases: &'static [Case],
}

/// One comparison.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    unit: &'static str,
    /// Whether a larger figure is better; the ratio is turned so that more than 1 is a win.
    larger_is_better: bool,
    work: Work,
}

/// What is done with each subject.
#[derive(Clone, Copy)]
enum Work {
    /// Random reads or sequential ones, of a file that has been read before.
    Read {
        pattern: &'static str,
        block: &'static str,
        jobs: u32,
        direct: bool,
    },
    /// The file from its beginning to its end; the plain directory is read with `O_DIRECT`.
    ReadWhole,
    Find,
    ReadTree,
}

const OFF: Subject = Subject::Warmfront("pagecache=off coherence=exclusive");
const ON: Subject = Subject::Warmfront("pagecache=on coherence=exclusive");

const fn read(
    name: &'static str,
    what: &'static str,
    pattern: &'static str,
    block: &'static str,
    jobs: u32,
    direct: bool,
) -> Case {
    let unit = if block.len() == 2 && block.as_bytes()[1] == b'k' { "IOPS" } else { "MB/s" };
    let work = Work::Read { pattern, block, jobs, direct };
    Case { name, what, unit, larger_is_better: true, work }
}

const fn seconds(name: &'static str, what: &'static str, work: Work) -> Case {
    Case { name, what, unit: "seconds", larger_is_better: false, work }
}

/// All comparisons, in the order in which they run.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        subjects: &[
            OFF,
            Subject::Floor { whole: false },
            Subject::Floor { whole: true },
            Subject::Bindfs,
            Subject::Rclone,
            Subject::ZfsFuse,
        ],
        cases: &[
            read(
                "random-4k-1-job",
                "4 KiB random read hits, O_DIRECT, 1 job.",
                "randread",
                "4k",
                1,
                true,
            ),
            read(
                "random-4k-4-jobs",
                "4 KiB random read hits, O_DIRECT, 4 jobs.",
                "randread",
                "4k",
                4,
                true,
            ),
            read("sequential-1m", "1 MiB sequential hits, O_DIRECT, 1 job.", "read", "1m", 1, true),
        ],
    },
    Group {
        subjects: &[ON, Subject::Plain, Subject::Bindfs],
        cases: &[
            read(
                "pagecache-random-4k-1-job",
                "4 KiB random read hits through the page cache, 1 job.",
                "randread",
                "4k",
                1,
                false,
            ),
            read(
                "pagecache-random-4k-4-jobs",
                "4 KiB random read hits through the page cache, 4 jobs.",
                "randread",
                "4k",
                4,
                false,
            ),
            read(
                "pagecache-sequential-1m",
                "1 MiB sequential hits through the page cache.",
                "read",
                "1m",
                1,
                false,
            ),
        ],
    },
    Group {
        subjects: &[OFF, Subject::Plain, Subject::Bindfs],
        cases: &[Case {
            name: "cold-sequential",
            what: "Cold sequential read of the whole file, 1 MiB at a time; the plain directory \
                   is read with O_DIRECT.",
            unit: "MB/s",
            larger_is_better: true,
            work: Work::ReadWhole,
        }],
    },
    Group {
        subjects: &[OFF, Subject::Plain, Subject::Bindfs, Subject::Rclone],
        cases: &[
            seconds("find-cold", "`find -perm` over a tree, everything cold.", Work::Find),
            seconds("find-warm", "`find -perm` over the same tree again.", Work::Find),
        ],
    },
    Group {
        subjects: &[OFF, Subject::Plain, Subject::Bindfs, Subject::Rclone],
        cases: &[
            seconds(
                "tree-cold",
                "Read every file of a tree of small files, everything cold.",
                Work::ReadTree,
            ),
            seconds("tree-warm", "Read every file of the same tree again.", Work::ReadTree),
        ],
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

    /// Runs the comparisons of a group.
    pub(crate) fn run(&self, group: &Group) -> Vec<Outcome> {
        let subjects = group.subjects;
        // By case, round and subject.
        let mut figures =
            vec![vec![vec![None; subjects.len()]; self.arguments.rounds]; group.cases.len()];
        let mut notes: Vec<Option<String>> = vec![None; subjects.len()];
        for round in 0..self.arguments.rounds {
            // Each round begins with another subject, so that no place in the order is favoured.
            for turn in 0..subjects.len() {
                let index = (round + turn) % subjects.len();
                let done = self.visit(group, subjects[index], |case, figure| {
                    figures[case][round][index] = Some(figure);
                    let (name, subject) = (group.cases[case].name, subjects[index].name());
                    eprintln!("  {}: {name:<28} {subject:<44} {figure:>12.3}", round + 1);
                });
                if let Err(reason) = done {
                    eprintln!("  {}: {:<28} {reason}", round + 1, subjects[index].name());
                    notes[index] = Some(reason);
                }
            }
        }
        let rows = |figures: &[Vec<Option<f64>>], case: &Case| {
            let row = |(index, subject): (usize, &Subject)| Row {
                subject: subject.name(),
                value: median(figures.iter().filter_map(|line| line[index]).collect())
                    .map(|all| all.0),
                ratio: (index > 0).then(|| ratio(figures, index, case.larger_is_better)).flatten(),
                note: notes[index].clone(),
            };
            subjects.iter().enumerate().map(row).collect()
        };
        let outcomes = group.cases.iter().zip(&figures).map(|(case, figures)| Outcome {
            name: case.name,
            what: case.what,
            unit: case.unit,
            rows: rows(figures, case),
        });
        outcomes.collect()
    }

    /// Mounts a subject and lets it do all cases in turn; `tell` is told each figure.
    fn visit(
        &self,
        group: &Group,
        subject: Subject,
        mut tell: impl FnMut(usize, f64),
    ) -> Result<(), String> {
        let reads_tree = matches!(group.cases[0].work, Work::Find | Work::ReadTree);
        let root = if reads_tree { self.tree.as_path() } else { self.origin.path() };
        drop_caches();
        let mounted = subject.mount(root, FILE, self.arguments.file_mib)?;
        let file = mounted.root.join(FILE);
        if let Work::Read { direct, .. } = group.cases[0].work {
            read_whole(&file, false)?;
            read_whole(&file, direct)?;
        }
        for (number, case) in group.cases.iter().enumerate() {
            tell(number, self.measure(case, subject, &mounted, &file)?);
        }
        Ok(())
    }

    fn measure(
        &self,
        case: &Case,
        subject: Subject,
        mounted: &Mounted,
        file: &Path,
    ) -> Result<f64, String> {
        match case.work {
            Work::Read { pattern, block, jobs, direct } => {
                let seconds = self.arguments.seconds;
                let reached = Job { file, pattern, block, jobs, direct, seconds }.run()?;
                Ok(match case.unit {
                    "IOPS" => reached.operations_per_second,
                    _ => reached.bytes_per_second / 1e6,
                })
            }
            Work::ReadWhole => {
                let started = Instant::now();
                read_whole(file, subject == Subject::Plain)?;
                let bytes = (self.arguments.file_mib << 20) as f64;
                Ok(bytes / 1e6 / started.elapsed().as_secs_f64())
            }
            Work::Find => find(mounted),
            Work::ReadTree => read_tree(mounted),
        }
    }
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
