use std::num::NonZeroU32;

use serde::Deserialize;

use super::{Model, Nanoseconds, Positive, Refusal, Request};

/// What work costs a processor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorParameters {
    /// Cores.
    pub cores: NonZeroU32,
    /// For each operation.
    pub operation_us: Positive,
    /// For the bytes, MB (10^6 bytes) a second on each core.
    pub copy_mb_s: Positive,
}

/// The processor's part of an operation: it waits for the core that is free first.
#[derive(Debug)]
pub struct Processor {
    parameters: ProcessorParameters,
    cores: Vec<Nanoseconds>,
}

impl Processor {
    /// Cores with nothing to do.
    pub fn new(parameters: &ProcessorParameters) -> Processor {
        let cores = vec![0; parameters.cores.get() as usize];
        Processor { parameters: parameters.clone(), cores }
    }

    /// When an operation on so many bytes is done that arrives at `now`.
    pub fn work(&mut self, now: Nanoseconds, bytes: u64) -> Nanoseconds {
        let time =
            self.parameters.operation_us.microseconds() + self.parameters.copy_mb_s.transfer(bytes);
        let core = self.cores.iter_mut().min().expect("there is at least one core");
        *core = now.max(*core) + time;
        *core
    }
}

/// Work as a request: before or behind a network.
impl Model for Processor {
    fn size_bytes(&self) -> u64 {
        u64::MAX
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        Ok(self.work(now, request.bytes))
    }
}
