use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::Deserialize;
use storage::Random;

use super::{ExperimentError, Finding, Outcome, Trial, Work};
use crate::machine::Machine;
use crate::model::Positive;

/// Most bytes of the index: it is read whole.
const INDEX_BYTES_MAX: u64 = 64 << 30;

/// Deletes from an index of logs: each reads a few places of the index and works on them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Deletes {
    machine: String,
    index_bytes: NonZeroU64,
    reads_each: NonZeroU32,
    read_bytes: NonZeroU64,
    work_ms: Positive,
    deletes: NonZeroU32,
    /// The index and the memory are divided by it.
    divisor: NonZeroU64,
    source_metadata_per_s: Positive,
    source_all_per_s: Positive,
}

impl Deletes {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        trial.whole_machine(&self.machine)?.check_data(self.index_bytes.get().into())?;
        let reads = f64::from(self.deletes.get()) * f64::from(self.reads_each.get());
        let index_bytes = self.index_bytes.get() / trial.divisor(self.divisor);
        let work = Work::new("deletes, reads_each, read_bytes or index_bytes");
        Ok(work.and(2.0 * reads, self.read_bytes.get()).and(2.0, index_bytes))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let metadata = self.rate("metadata", trial)?;
        let all = self.rate("all", trial)?;
        let (of_metadata, of_all) = (self.source_metadata_per_s.get(), self.source_all_per_s.get());
        let with = |primarycache: &str| format!("primarycache={primarycache}");
        Ok(Outcome::from(vec![
            Finding::new(with("metadata"), "deletes/s", Some(of_metadata), metadata),
            Finding::new(with("all"), "deletes/s", Some(of_all), all).fitted(),
            Finding::new("all over metadata", "ratio", Some(of_all / of_metadata), all / metadata),
        ]))
    }

    fn rate(&self, primarycache: &str, trial: Trial) -> Result<f64, ExperimentError> {
        let mut parameters = trial.whole_machine(&self.machine)?;
        parameters.divisor = trial.divisor(self.divisor);
        // As scattered as the whole index is.
        let run_bytes = parameters.disks.run_bytes.get() / parameters.divisor;
        parameters.disks.run_bytes = NonZeroU64::new(run_bytes)
            .ok_or_else(|| ExperimentError::Unfit("the divisor is too large".to_string()))?;
        let machine =
            Machine::new(&parameters.clone().with("primarycache", primarycache), trial.seed)?;
        let index_bytes = self.index_bytes.get() / parameters.divisor;
        if index_bytes > INDEX_BYTES_MAX {
            return Err(ExperimentError::Unfit(format!(
                "the index has {} GiB, and at most {} are read; set a larger divisor",
                index_bytes >> 30,
                INDEX_BYTES_MAX >> 30
            )));
        }
        if index_bytes < self.read_bytes.get() {
            return Err(ExperimentError::Unfit("the index is smaller than a read".to_string()));
        }
        let index = machine.file("index", index_bytes);
        let mut random = Random::new(trial.seed);
        let read_bytes = self.read_bytes.get();
        let places = index_bytes / read_bytes;
        let work = Duration::from_secs_f64(self.work_ms.get() / 1e3);
        machine.run(async {
            // It has been at it for a while.
            for offset in (0..index_bytes).step_by(1 << 20) {
                machine.read(&index, offset, 1 << 20).await;
            }
            let begun = machine.now();
            for _ in 0..self.deletes.get() {
                for _ in 0..self.reads_each.get() {
                    machine.read(&index, random.below(places) * read_bytes, read_bytes).await;
                }
                machine.sleep(work).await;
            }
            Ok(f64::from(self.deletes.get()) / (machine.now() - begun).as_secs_f64())
        })
    }
}
