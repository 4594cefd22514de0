use std::cell::OnceCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use crate::Arguments;
use crate::fio::Job;
use crate::outcome::{Comparison, Outcome};
use crate::subject::{Floor, Mounted, Subject};

/// The file that is read.
const FILE: &str = "file";
/// Where a tree of many small files is found.
const TREES: &[&str] = &["/usr/share/doc", "/usr/share", "/usr/include", "/usr/lib/python3"];

/// Comparisons of the same subjects: in each round every subject is mounted once, cold, and does
/// the work of all cases in turn.
pub(crate) struct Group {
    /// The first one is Warmfront.
    subjects: &'static [Subject],
    /// Whether readers and servers share one processor.
    one_processor: bool,
    pub(crate) cases: &'static [Case],
}

/// One comparison.
pub(crate) struct Case {
    pub(crate) comparison: Comparison,
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
    /// Until the mount answers, over a tree of very many files.
    Start,
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
    Case { comparison: Comparison { name, what, unit, larger_is_better: true }, work }
}

const fn seconds(name: &'static str, what: &'static str, work: Work) -> Case {
    Case { comparison: Comparison { name, what, unit: "seconds", larger_is_better: false }, work }
}

const HIT_PEERS: &[Subject] = &[
    OFF,
    Subject::Floor(Floor::SmallBuffer),
    Subject::Floor(Floor::WholeBuffer),
    Subject::Bindfs,
    Subject::Rclone,
    Subject::ZfsFuse,
];

/// All comparisons, in the order in which they run.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        subjects: HIT_PEERS,
        one_processor: true,
        cases: &[read(
            "random-4k-1-job",
            "4 KiB random read hits, O_DIRECT, 1 job; reader and server on one processor, since a \
             wake-up across processors costs more than all the rest, and how often one is needed \
             is the kernel's whim.",
            "randread",
            "4k",
            1,
            true,
        )],
    },
    Group {
        subjects: HIT_PEERS,
        one_processor: false,
        cases: &[
            read(
                "random-4k-4-jobs",
                "4 KiB random read hits, O_DIRECT, 4 jobs.",
                "randread",
                "4k",
                4,
                true,
            ),
            read("sequential-1m", "1 MiB sequential hits, O_DIRECT, 1 job.", "read", "1m", 1, true),
            read(
                "random-4k-1-job-free",
                "4 KiB random read hits, O_DIRECT, 1 job; wherever the kernel places reader and \
                 server.",
                "randread",
                "4k",
                1,
                true,
            ),
        ],
    },
    Group {
        subjects: &[ON, Subject::Plain, Subject::Floor(Floor::PageCache), Subject::Bindfs],
        one_processor: false,
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
        one_processor: false,
        cases: &[Case {
            comparison: Comparison {
                name: "cold-sequential",
                what: "Cold sequential read of the whole file, 1 MiB at a time; the plain \
                       directory is read with O_DIRECT.",
                unit: "MB/s",
                larger_is_better: true,
            },
            work: Work::ReadWhole,
        }],
    },
    Group {
        subjects: &[OFF, Subject::Plain, Subject::Bindfs, Subject::Rclone],
        one_processor: false,
        cases: &[
            seconds("find-cold", "`find -perm` over a tree, everything cold.", Work::Find),
            seconds("find-warm", "`find -perm` over the same tree again.", Work::Find),
        ],
    },
    Group {
        subjects: &[OFF, Subject::Plain, Subject::Bindfs, Subject::Rclone],
        one_processor: false,
        cases: &[
            seconds(
                "tree-cold",
                "Read every file of a tree of small files, everything cold.",
                Work::ReadTree,
            ),
            seconds("tree-warm", "Read every file of the same tree again.", Work::ReadTree),
        ],
    },
    Group {
        subjects: &[OFF, Subject::Bindfs],
        one_processor: false,
        cases: &[seconds(
            "start-million-files",
            "Start of a mount over a tree of a million files, until it answers.",
            Work::Start,
        )],
    },
];

/// The files to read and how often.
pub(crate) struct Bench<'a> {
    arguments: &'a Arguments,
    origin: TempDir,
    tree: PathBuf,
    large_tree: OnceCell<TempDir>,
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
        Ok(Bench { arguments, origin, tree, large_tree: OnceCell::new() })
    }

    /// A tree of a million files, made when it is first asked for.
    fn large_tree(&self) -> Result<&Path, String> {
        if let Some(tree) = self.large_tree.get() {
            return Ok(tree.path());
        }
        let tree = tempfile::tempdir_in(&self.arguments.scratch)
            .and_then(|tree| make_files(tree.path()).map(|()| tree))
            .map_err(|error| format!("cannot make a million files: {error}"))?;
        Ok(self.large_tree.get_or_init(|| tree).path())
    }

    /// Runs the comparisons of a group.
    pub(crate) fn run(&self, group: &Group) -> Vec<Outcome> {
        let _pinned = group.one_processor.then(Pinned::to_one);
        let subjects = group.subjects;
        // By round, case and subject.
        let nothing = vec![vec![None; subjects.len()]; group.cases.len()];
        let mut figures = vec![nothing; self.arguments.rounds];
        let mut notes: Vec<Option<String>> = vec![None; subjects.len()];
        for (round, figures) in figures.iter_mut().enumerate() {
            // Each round begins with another subject, so that no place in the order is favoured.
            for turn in 0..subjects.len() {
                let index = (round + turn) % subjects.len();
                let done = self.visit(group, subjects[index], |case, figure| {
                    figures[case][index] = Some(figure);
                    let (name, subject) =
                        (group.cases[case].comparison.name, subjects[index].name());
                    eprintln!("  {}: {name:<28} {subject:<38} {figure:>12.3}", round + 1);
                });
                if let Err(reason) = done {
                    eprintln!("  {}: {:<28} {reason}", round + 1, subjects[index].name());
                    notes[index] = Some(reason);
                }
            }
        }
        let outcomes = group.cases.iter().enumerate().map(|(number, case)| {
            let rounds: Vec<_> = figures.iter().map(|round| &round[number]).collect();
            let names = subjects.iter().map(|subject| subject.name());
            let mut outcome = case.comparison.outcome(names, &rounds);
            for (row, note) in outcome.rows.iter_mut().zip(&notes) {
                row.note.clone_from(note);
            }
            outcome
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
        let root = match group.cases[0].work {
            Work::Find | Work::ReadTree => self.tree.as_path(),
            Work::Start => self.large_tree()?,
            Work::Read { .. } | Work::ReadWhole => self.origin.path(),
        };
        drop_caches();
        let started = Instant::now();
        let mounted = subject.mount(root, FILE, self.arguments.file_mib)?;
        let start = started.elapsed();
        let file = mounted.root.join(FILE);
        if let Work::Read { direct, .. } = group.cases[0].work {
            read_whole(&file, false)?;
            read_whole(&file, direct)?;
        }
        for (number, case) in group.cases.iter().enumerate() {
            let figure = match case.work {
                Work::Start => start.as_secs_f64(),
                _ => self.measure(case, subject, &mounted, &file)?,
            };
            tell(number, figure);
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
                let reached = Job {
                    file,
                    pattern,
                    block,
                    jobs,
                    direct,
                    durable: false,
                    seconds,
                    queue: None,
                }
                .run()?;
                Ok(match case.comparison.unit {
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
            Work::Start => Err("nothing is left to be done once it is mounted".to_string()),
        }
    }
}

/// Keeps this process, and all that it starts, on one processor for as long as it lives.
struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    fn to_one() -> Pinned {
        let before = sched_getaffinity(None).ok();
        if let Some(all) = &before {
            let mut one = CpuSet::new();
            if let Some(first) = (0..CpuSet::MAX_CPU).find(|number| all.is_set(*number)) {
                one.set(first);
                let _ = sched_setaffinity(None, &one);
            }
        }
        Pinned { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// A thousand directories with a thousand files each.
fn make_files(tree: &Path) -> std::io::Result<()> {
    for directory in 0..1000 {
        let directory = tree.join(format!("directory{directory:03}"));
        std::fs::create_dir(&directory)?;
        for file in 0..1000 {
            std::fs::File::create(directory.join(format!("file{file:03}")))?;
        }
    }
    Ok(())
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
