mod library;
mod report;
mod selection;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::protocol::Statistics;
use daemon::{MountRequest, MountSource, Paths, Target};
use indicatif::ProgressBar;
use storage::SlowModel;
use tempfile::TempDir;
use warmfront::{HumanSize, parse_size};

use crate::arguments::DemoArguments;
use crate::failure::{Failure, Result};
use crate::format::{json, print};
use crate::interrupt::Interrupt;
use library::Library;
use report::{Measured, Report, Row};
use selection::Selection;
use work::Work;

/// Where the files are copied to: on a disk, never in memory.
const SCRATCH: &str = "/var/tmp";
/// RAM that the demo's cache may take besides what the files take.
const CEILING_SPARE_BYTES: u64 = 128 << 20;

/// Shows the main job: this machine's own files behind a slow origin, cold and then warm.
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
    spinner.finish_and_clear();
    let report = Report {
        files: selection.files.len() as u64,
        directories: selection.directories,
        bytes: selection.bytes,
        slow: model.to_string(),
        ceiling_bytes,
        library: why_library,
        rows,
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
    /// The work twice on a fresh mount.
    fn measure_mounted(
        &self,
        work: Work,
        selection: &Selection,
        interrupt: &Interrupt,
        spinner: &ProgressBar,
    ) -> std::result::Result<Row, Trouble> {
        let mount = self.mount()?;
        let run = || work.run_on_files(&mount.mountpoint, selection, interrupt);
        self.twice(work, run, || mount.statistics(), spinner)
    }

    /// The work twice through the library, with a fresh cache.
    fn measure_library(
        &self,
        work: Work,
        selection: &Selection,
        interrupt: &Interrupt,
        spinner: &ProgressBar,
    ) -> std::result::Result<Row, Trouble> {
        let library = Library::open(&self.origin, self.model, self.ceiling_bytes)?;
        let run = || library.run(work, selection, interrupt);
        self.twice(work, run, || Ok(library.statistics()), spinner)
    }

    fn twice(
        &self,
        work: Work,
        run: impl Fn() -> Result<Duration>,
        statistics: impl Fn() -> Result<Statistics>,
        spinner: &ProgressBar,
    ) -> std::result::Result<Row, Trouble> {
        spinner.set_message(format!("{}, cold (origin as slow as {})", work.name(), self.model));
        let before = statistics()?;
        let cold = run()?;
        let between = statistics()?;
        spinner.set_message(format!("{}, warm", work.name()));
        let warm = run()?;
        let after = statistics()?;
        Ok(Row {
            work: work.name().to_string(),
            cold: Measured::new(cold, work.operations(), &before, &between),
            warm: Measured::new(warm, work.operations(), &between, &after),
        })
    }

    /// A fresh mount, with settings of its own that nobody else sees.
    fn mount(&self) -> std::result::Result<DemoMount, Trouble> {
        if !Path::new(fuse::DEVICE).exists() {
            return Err(Trouble::NoFuse(format!("because there is no {}", fuse::DEVICE)));
        }
        let mountpoint = self.scratch.path().join("mount");
        std::fs::create_dir_all(&mountpoint)
            .map_err(|error| Failure::new(format!("cannot make a mount point: {error}")))?;
        let paths = Paths::new(self.scratch.path().join("config"), self.scratch.path().join("run"));
        let request = MountRequest {
            source: MountSource::Directory(self.origin.clone()),
            mountpoint: Some(mountpoint.clone()),
            properties: vec![("coherence".to_string(), "exclusive".to_string())],
            arc_max: Some(daemon::ArcMax::Size(warmfront::Size::Bytes(self.ceiling_bytes))),
            arc_min: None,
            read_only: true,
            allow_other: false,
            slow: Some(self.model.to_string()),
            no_promote_cgroups: Vec::new(),
            caches: Vec::new(),
            force_cache: false,
            dwpd: None,
            cache_key: None,
        };
        match daemon::mount_in_background(&paths, &request) {
            Ok(_) => Ok(DemoMount { paths, mountpoint }),
            Err(error) => Err(Trouble::NoFuse(format!("because mounting failed: {error}"))),
        }
    }
}

/// A mount that is gone when this is dropped.
struct DemoMount {
    paths: Paths,
    mountpoint: PathBuf,
}

impl DemoMount {
    fn statistics(&self) -> Result<Statistics> {
        let target = Target::find(&self.paths, self.mountpoint.as_os_str())?;
        Ok(target.client()?.statistics()?)
    }
}

impl Drop for DemoMount {
    fn drop(&mut self) {
        let target = self.mountpoint.as_os_str();
        let unmounted = daemon::unmount(&self.paths, target, false)
            .or_else(|_| daemon::unmount(&self.paths, target, true));
        if let Err(error) = unmounted {
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
