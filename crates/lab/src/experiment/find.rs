use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{ExperimentError, Finding, Outcome, Trial, Work};
use crate::machine::Machine;
use crate::model::{Positive, Request};

/// Most files of the tree.
const FILES_MAX: u64 = 1 << 22;

/// Walks a tree twice and asks for the attributes of everything in it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindTwice {
    machine: String,
    directories: NonZeroU32,
    files_each: NonZeroU32,
    /// Both are divided by it, and times and bytes are multiplied.
    divisor: NonZeroU64,
    /// What the file system of the source keeps for each file and its name.
    kept_bytes_each: NonZeroU64,
    source_cold_s: Positive,
    source_warm_s: Positive,
    source_mb: Positive,
}

impl FindTwice {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let directories =
            f64::from(self.directories.get()) / trial.divisor(self.divisor).get() as f64;
        let files = directories.max(1.0) * f64::from(self.files_each.get());
        Ok(Work::new("files_each, or a larger divisor").and(2.0 * files, 1))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let machine = Machine::new(&trial.whole_machine(&self.machine)?, trial.seed)?;
        let divisor = trial.divisor(self.divisor).get();
        let directories = (u64::from(self.directories.get()) / divisor).max(1);
        if divisor > self.directories.get().into() {
            return Err(ExperimentError::Unfit(format!(
                "the divisor {divisor} leaves none of {} directories; it is at most half of them",
                self.directories
            )));
        }
        let files = directories * u64::from(self.files_each.get());
        if files > FILES_MAX {
            return Err(ExperimentError::Unfit(format!(
                "there are {files} files, and at most {FILES_MAX} are followed; set a larger \
                 divisor"
            )));
        }
        for directory in 0..directories {
            let name = format!("{directory}");
            let parent = machine.make_directory(machine.pool().root(), &name);
            for file in 0..self.files_each.get() {
                machine.make_file(parent, &format!("{file}"), 8192);
            }
        }
        let used = |machine: &Machine| machine.counter("metadata_size");
        let before = used(&machine);
        let scale = divisor as f64;
        let mut times = Vec::new();
        for _ in 0..2 {
            let begun = machine.now();
            machine.run(find(&machine));
            times.push((machine.now() - begun).as_secs_f64() * scale);
        }
        let [cold, warm] = times[..] else { unreachable!("it was done twice") };
        let files = (directories * u64::from(self.files_each.get())) as f64 * scale;
        let of_source = files * self.kept_bytes_each.get() as f64 / 1e6;
        let engine = (used(&machine) - before) as f64 * scale / 1e6;
        let (source_cold, source_warm) = (self.source_cold_s.get(), self.source_warm_s.get());
        let saved = |cold: f64, warm: f64| 100.0 * (1.0 - warm / cold);
        Ok(Outcome::from(vec![
            Finding::new("the first time", "s", Some(source_cold), cold).fitted(),
            Finding::new("the second time", "s", Some(source_warm), warm),
            Finding::new(
                "time saved",
                "%",
                Some(saved(source_cold, source_warm)),
                saved(cold, warm),
            ),
            Finding::new(
                "taken into the cache by UFS",
                "MB",
                Some(self.source_mb.get()),
                of_source,
            )
            .given(),
            Finding::new("taken into the cache by this engine", "MB", None, engine),
        ]))
    }
}

/// `find / -type f -perm ...`: lists each directory, and looks at each file.
async fn find(machine: &Arc<Machine>) {
    let pool = machine.pool();
    let found = "every name was just listed";
    let top = pool.open_directory(pool.root()).await.expect("the origin answers");
    for directory in top.entries().await.expect("the origin answers").iter() {
        let directory = pool.lookup(pool.root(), &directory.name).await.expect(found);
        let open = pool.open_directory(directory.object).await.expect("the origin answers");
        for file in open.entries().await.expect("the origin answers").iter() {
            machine.work(Request::read(0, 1)).await;
            let file = pool.lookup(directory.object, &file.name).await.expect(found);
            pool.attributes(file.object, None).await.expect(found);
            pool.forget(file.object, 1);
        }
        pool.forget(directory.object, 1);
    }
    machine.sleep(Duration::ZERO).await;
}
