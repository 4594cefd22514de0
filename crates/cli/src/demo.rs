mod commits;
mod library;
mod report;
mod selection;
mod work;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::protocol::Statistics;
use daemon::{
    ControlError, DevicePath, Dwpd, MountProgress, MountRequest, MountSource, Paths, Target,
    Unmounted,
};
use indicatif::ProgressBar;
use storage::SlowModel;
use tempfile::TempDir;
use warmfront::{HumanSize, parse_size};

use crate::arguments::DemoArguments;
use crate::failure::{Failure, Result};
use crate::format::{json, print};
use crate::interrupt::Interrupt;
use commits::{Commits, commits_per_second};
use library::Library;
use report::{Measured, Report, Row};
use selection::Selection;
use work::{Work, check};

/// Where the files are copied to: on a disk, never in memory.
const SCRATCH: &str = "/var/tmp";
/// A look at whether flash still takes something in, and how many there are at most.
const FED_PAUSE: Duration = Duration::from_millis(500);
const FED_LOOKS_MAX: u32 = 60;
/// Bytes of the log device.
const LOG_BYTES: u64 = 256 << 20;
/// RAM that the demo's cache may take besides what the files take.
const CEILING_SPARE_BYTES: u64 = 128 << 20;

/// Shows the main job: this machine's own files behind a slow origin, cold, then
/// from RAM, and from flash after a restart.
pub(crate) fn demo(arguments: &DemoArguments) -> Result<()> {
    let model: SlowModel = arguments.slow.parse().map_err(Failure::usage)?;
    let bytes = parse_size(&arguments.size).map_err(Failure::usage)?;
    let interrupt = Interrupt::watch()
        .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
    let scratch = tempfile::Builder::new()
        .prefix("warmfront-demo-")
        .tempdir_in(SCRATCH)
        .map_err(|error| Failure::new(format!("cannot use {SCRATCH}: {error}")))?;
    let spinner = spinner(arguments.json);
    spinner.set_message("copying real files of this machine");
    let origin = scratch.path().join("origin");
    let selection = Selection::copy(&origin, bytes, &interrupt)?;
    let ceiling_bytes = selection.bytes * 5 / 4 + CEILING_SPARE_BYTES;
    let stage = Stage { scratch, origin, model, ceiling_bytes };
    let mut rows = Vec::new();
    let mut why_library = arguments.library.then(|| "because it was asked for".to_string());
    for work in Work::ALL {
        let outcome = match &why_library {
            None => match stage.measure_mounted(work, &selection, &interrupt, &spinner) {
                Err(Trouble::NoFuse(reason)) => {
                    why_library = Some(reason);
                    stage.measure_library(work, &selection, &interrupt, &spinner)
                }
                outcome => outcome,
            },
            Some(_) => stage.measure_library(work, &selection, &interrupt, &spinner),
        };
        rows.push(outcome.map_err(Failure::from)?);
    }
    let commits = match why_library {
        None if commits::is_possible() => Some(stage.measure_commits(&interrupt, &spinner)?),
        _ => None,
    };
    spinner.finish_and_clear();
    let report = Report {
        files: selection.files.len() as u64,
        directories: selection.directories,
        bytes: selection.bytes,
        slow: model.to_string(),
        ceiling_bytes,
        library: why_library,
        rows,
        commits,
    };
    print(&if arguments.json { json(&report) } else { report.people() });
    Ok(())
}

/// Where the demo plays.
struct Stage {
    scratch: TempDir,
    origin: PathBuf,
    model: SlowModel,
    ceiling_bytes: u64,
}

/// Why a measurement was not made.
enum Trouble {
    /// FUSE cannot be had here.
    NoFuse(String),
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Failed(failure)
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        match trouble {
            Trouble::NoFuse(reason) => Failure::new(reason),
            Trouble::Failed(failure) => failure,
        }
    }
}

impl Stage {
    /// The work three times through a fresh mount.
    fn measure_mounted(
        &self,
        work: Work,
        selection: &Selection,
        interrupt: &Interrupt,
        spinner: &ProgressBar,
    ) -> std::result::Result<Row, Trouble> {
        self.clear_cache();
        self.three_times(work, self.mount(self.request())?, selection, interrupt, spinner)
    }

    /// The work three times through the library, with a fresh cache.
    fn measure_library(
        &self,
        work: Work,
        selection: &Selection,
        interrupt: &Interrupt,
        spinner: &ProgressBar,
    ) -> std::result::Result<Row, Trouble> {
        self.clear_cache();
        let library = Library::open(&self.origin, self.model, self.ceiling_bytes, &self.cache())?;
        self.three_times(work, library, selection, interrupt, spinner)
    }

    /// From the origin; from RAM; and after a restart, from flash.
    fn three_times(
        &self,
        work: Work,
        mut front: impl Front,
        selection: &Selection,
        interrupt: &Interrupt,
        spinner: &ProgressBar,
    ) -> std::result::Result<Row, Trouble> {
        let measure = |front: &dyn Front, what: &str| -> Result<Measured> {
            spinner.set_message(format!("{}, {what}", work.name()));
            let before = front.statistics()?;
            let elapsed = front.run(work, selection, interrupt)?;
            Ok(Measured::new(elapsed, work.operations(), &before, &front.statistics()?))
        };
        let cold = measure(&front, &format!("cold (origin as slow as {})", self.model))?;
        let warm = measure(&front, "from RAM")?;
        spinner.set_message(format!("{}, restarting", work.name()));
        wait_until_fed(&front, interrupt)?;
        front.restart()?;
        let restarted = measure(&front, "after a restart, from flash")?;
        Ok(Row { work: work.name().to_string(), cold, warm, restarted })
    }

    /// SQLite on the slow origin, without a log device and with one.
    fn measure_commits(&self, interrupt: &Interrupt, spinner: &ProgressBar) -> Result<Commits> {
        let log = DevicePath { path: self.scratch.path().join("log"), size_bytes: Some(LOG_BYTES) };
        let mut rates = Vec::new();
        for (what, log) in [("without a log device", None), ("with a log device", Some(log))] {
            spinner.set_message(format!("SQLite commits, {what}"));
            let origin = self.scratch.path().join(what.replace(' ', "-"));
            std::fs::create_dir(&origin)
                .map_err(|error| Failure::new(format!("cannot make a directory: {error}")))?;
            let request = MountRequest {
                source: MountSource::Directory(origin),
                read_only: false,
                caches: Vec::new(),
                log,
                ..self.request()
            };
            let mount = self.mount(request).map_err(Failure::from)?;
            rates.push(commits_per_second(&mount.mountpoint.join("database"), interrupt)?);
        }
        Ok(Commits { without_per_second: rates[0], with_per_second: rates[1] })
    }

    /// The cache device.
    fn cache(&self) -> DevicePath {
        let size_bytes = Some(self.ceiling_bytes * 2);
        DevicePath { path: self.scratch.path().join("flash"), size_bytes }
    }

    fn paths(&self) -> Paths {
        Paths::new(self.scratch.path().join("config"), self.scratch.path().join("run"))
    }

    fn clear_cache(&self) {
        // There may be none yet.
        let _ = std::fs::remove_file(self.cache().path);
        let _ = std::fs::remove_dir_all(self.paths().state_directory());
    }

    /// A fresh mount, with settings of its own that nobody else sees.
    fn mount(&self, request: MountRequest) -> std::result::Result<DemoMount, Trouble> {
        if !Path::new(fuse::DEVICE).exists() {
            return Err(Trouble::NoFuse(format!("because there is no {}", fuse::DEVICE)));
        }
        let mountpoint = self.mountpoint();
        std::fs::create_dir_all(&mountpoint)
            .map_err(|error| Failure::new(format!("cannot make a mount point: {error}")))?;
        let paths = self.paths();
        match daemon::mount_in_background(&paths, &request, &mut go_on) {
            Ok(_) => Ok(DemoMount { paths, mountpoint, request }),
            Err(error) => Err(Trouble::NoFuse(format!("because mounting failed: {error}"))),
        }
    }

    fn mountpoint(&self) -> PathBuf {
        self.scratch.path().join("mount")
    }

    /// The files of the demo behind the slow origin, with a cache device.
    fn request(&self) -> MountRequest {
        MountRequest {
            mountpoint: Some(self.mountpoint()),
            properties: vec![("coherence".to_string(), "exclusive".to_string())],
            arc_max: Some(daemon::ArcMax::Size(warmfront::Size::Bytes(self.ceiling_bytes))),
            read_only: true,
            slow: Some(self.model.to_string()),
            caches: vec![self.cache()],
            dwpd: Some(Dwpd::Unlimited),
            ..MountRequest::new(MountSource::Directory(self.origin.clone()))
        }
    }
}

/// What stands before the origin.
trait Front {
    fn run(&self, work: Work, selection: &Selection, interrupt: &Interrupt) -> Result<Duration>;
    fn statistics(&self) -> Result<Statistics>;
    /// Ends it and begins anew, with the same cache device.
    fn restart(&mut self) -> Result<()>;
}

/// Waits until flash takes in nothing more.
fn wait_until_fed(front: &dyn Front, interrupt: &Interrupt) -> Result<()> {
    let records = || -> Result<u64> {
        let counters = front.statistics()?.counters;
        Ok(counters.get("l2_records").copied().unwrap_or(0))
    };
    let mut before = u64::MAX;
    for _ in 0..FED_LOOKS_MAX {
        check(interrupt)?;
        let now = records()?;
        if now == before {
            break;
        }
        before = now;
        std::thread::sleep(FED_PAUSE);
    }
    Ok(())
}

/// A mount that is gone when this is dropped.
struct DemoMount {
    paths: Paths,
    mountpoint: PathBuf,
    request: MountRequest,
}

impl DemoMount {
    fn unmount(&self) -> std::result::Result<Unmounted, ControlError> {
        let target = self.mountpoint.as_os_str();
        daemon::unmount(&self.paths, target, false, &mut |_| ControlFlow::Continue(())).or_else(
            |_| daemon::unmount(&self.paths, target, true, &mut |_| ControlFlow::Continue(())),
        )
    }
}

impl Front for DemoMount {
    fn run(&self, work: Work, selection: &Selection, interrupt: &Interrupt) -> Result<Duration> {
        work.run_on_files(&self.mountpoint, selection, interrupt)
    }

    fn statistics(&self) -> Result<Statistics> {
        let target = Target::find(&self.paths, self.mountpoint.as_os_str())?;
        Ok(target.client()?.statistics()?)
    }

    fn restart(&mut self) -> Result<()> {
        self.unmount()?;
        daemon::mount_in_background(&self.paths, &self.request, &mut go_on)
            .map_err(Failure::new)?;
        Ok(())
    }
}

impl Drop for DemoMount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("warmfront: {error}");
        }
    }
}

fn spinner(hidden: bool) -> ProgressBar {
    use std::io::IsTerminal;
    if hidden || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// A number of bytes in words.
fn size(bytes: u64) -> String {
    HumanSize(bytes).to_string()
}

/// Waits for a mount as long as it takes.
fn go_on(_: Option<MountProgress>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
