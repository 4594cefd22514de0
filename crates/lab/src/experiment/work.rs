use super::ExperimentError;
use crate::machine::MachineParameters;
use crate::model::Positive;

/// Most work of a trial. Some hundred thousand are simulated in a second, so this is about ten
/// minutes.
const REQUESTS_MAX: f64 = (1u64 << 28) as f64;
/// A request is as much work for each so many bytes.
const STEP_BYTES: u64 = 16 << 10;

/// The most that a trial can have to simulate, and what makes it so much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    requests: f64,
    keys: &'static str,
}

impl Work {
    /// `keys` say in messages what makes it more.
    pub fn new(keys: &'static str) -> Work {
        Work { requests: 0.0, keys }
    }

    /// And so many requests of so many bytes.
    pub fn and(self, requests: f64, bytes: u64) -> Work {
        let steps = bytes.div_ceil(STEP_BYTES).max(1) as f64;
        Work { requests: self.requests + requests * steps, ..self }
    }

    /// And as many requests of so many bytes as a machine's processor serves in this time.
    pub fn and_during(self, machine: &MachineParameters, time: Positive, bytes: u64) -> Work {
        let processor = &machine.processor;
        let each_ns =
            processor.operation_us.get() * 1e3 + processor.copy_mb_s.transfer(bytes) as f64;
        let served = time.get() * 1e9 / each_ns * f64::from(processor.cores.get());
        self.and(served, bytes)
    }

    /// Refuses what would not come to an end while somebody waits.
    pub fn check(self) -> Result<(), ExperimentError> {
        let Work { requests, keys } = self;
        match requests <= REQUESTS_MAX {
            true => Ok(()),
            false => Err(ExperimentError::Unfit(format!(
                "it may come to {requests:.1e} requests of {} KiB, and at most {REQUESTS_MAX:.1e} \
                 are simulated; set a smaller {keys}",
                STEP_BYTES >> 10
            ))),
        }
    }
}
