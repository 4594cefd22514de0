use std::num::NonZeroU64;

use super::ExperimentError;
use crate::machine::MachineParameters;

/// How small an experiment is done, and what it draws from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// Sizes are divided by this and by the experiment's own divisor.
    shrink: NonZeroU64,
}

impl Trial {
    pub fn new(seed: u64) -> Trial {
        Trial { seed, shrink: NonZeroU64::MIN }
    }

    /// Half as large, with everything drawn anew.
    pub fn half(self) -> Trial {
        let shrink = self.shrink.saturating_mul(NonZeroU64::MIN.saturating_add(1));
        Trial { seed: !self.seed, shrink }
    }

    /// By what is divided that the experiment divides by this.
    pub fn divisor(self, own: NonZeroU64) -> NonZeroU64 {
        own.saturating_mul(self.shrink)
    }

    /// The machine of this name, with its divisor for this trial.
    pub fn machine(self, name: &str) -> Result<MachineParameters, ExperimentError> {
        let parameters = MachineParameters::shipped(name)?;
        Ok(MachineParameters { divisor: self.divisor(parameters.divisor), ..parameters })
    }
}
