use std::num::NonZeroU64;

use super::ExperimentError;
use super::files::Files;
use crate::machine::MachineParameters;
use crate::model::Equipment;

/// How small an experiment is done, what it draws from, and who is told how far it is.
#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// Sizes are divided by this and by the experiment's own divisor.
    shrink: NonZeroU64,
    files: &'a Files,
    told: &'a dyn Fn(&str),
}

impl<'a> Trial<'a> {
    pub fn new(seed: u64, files: &'a Files, told: &'a dyn Fn(&str)) -> Trial<'a> {
        Trial { seed, shrink: NonZeroU64::MIN, files, told }
    }

    /// Tells that it is at this case now.
    pub fn tell(self, case: &str) {
        let is_half = self.shrink > NonZeroU64::MIN;
        (self.told)(&format!("{case}{}", if is_half { ", at half the size" } else { "" }));
    }

    /// Half as large, with everything drawn anew.
    pub fn half(self) -> Trial<'a> {
        let shrink = self.shrink.saturating_mul(NonZeroU64::MIN.saturating_add(1));
        Trial { seed: !self.seed, shrink, ..self }
    }

    /// By what is divided that the experiment divides by this.
    pub fn divisor(self, own: NonZeroU64) -> NonZeroU64 {
        own.saturating_mul(self.shrink)
    }

    /// The machine of this name, with its divisor for this trial.
    pub fn machine(self, name: &str) -> Result<MachineParameters, ExperimentError> {
        let parameters = self.whole_machine(name)?;
        Ok(MachineParameters { divisor: self.divisor(parameters.divisor), ..parameters })
    }

    /// The machine of this name, as large as it says.
    pub fn whole_machine(self, name: &str) -> Result<MachineParameters, ExperimentError> {
        Ok(self.files.machine(name)?)
    }

    /// The equipment of this name.
    pub fn equipment(self, name: &str) -> Result<Equipment, ExperimentError> {
        self.files.equipment(name)
    }
}
