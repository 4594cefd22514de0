use std::num::NonZeroU64;

use serde::Deserialize;

use super::{ExperimentError, Finding, Outcome, Trial, Work};
use crate::machine::Machine;
use crate::model::Positive;

/// A large file is read from beginning to end, with records let go behind the reader and without.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FreeBehind {
    machine: String,
    memory_bytes: NonZeroU64,
    file_bytes: NonZeroU64,
    read_bytes: NonZeroU64,
    divisor: NonZeroU64,
    source_off_gb: Positive,
}

impl FreeBehind {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        trial.whole_machine(&self.machine)?.check_data(self.file_bytes.get().into())?;
        let bytes = self.file_bytes.get() as f64 / trial.divisor(self.divisor).get() as f64;
        let read_bytes = self.read_bytes.get();
        let work = Work::new("file_bytes, or larger read_bytes or divisor");
        Ok(work.and(2.0 * bytes / read_bytes as f64, read_bytes))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let off = self.growth("off", trial)?;
        let on = self.growth("on", trial)?;
        let what = |setting: &str| format!("the cache grows by, with freebehind={setting}");
        Ok(Outcome::from(vec![
            Finding::new(what("off"), "GB", Some(self.source_off_gb.get()), off),
            Finding::new(what("on"), "GB", None, on),
        ]))
    }

    fn growth(&self, freebehind: &str, trial: Trial) -> Result<f64, ExperimentError> {
        let mut parameters = trial.whole_machine(&self.machine)?;
        let divisor = trial.divisor(self.divisor).get();
        parameters.memory_bytes = NonZeroU64::new(self.memory_bytes.get() / divisor)
            .ok_or_else(|| ExperimentError::Unfit("the divisor is too large".to_string()))?;
        let parameters = parameters.with("freebehind", freebehind).with("prefetch", "all");
        let machine = Machine::new(&parameters, trial.seed)?;
        let bytes = self.file_bytes.get() / divisor;
        let file = machine.file("datafile", bytes);
        let before = machine.counter("data_size");
        machine.run(async {
            for offset in (0..bytes).step_by(self.read_bytes.get() as usize) {
                machine.read(&file, offset, self.read_bytes.get()).await;
            }
        });
        Ok((machine.counter("data_size") - before) as f64 * divisor as f64 / 1e9)
    }
}
