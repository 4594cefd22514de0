use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;
use storage::Random;

use super::{Model, Nanoseconds, Operation, Positive, Refusal, Request};

/// What an object store is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectStoreParameters {
    /// Bytes that it holds.
    pub capacity_bytes: NonZeroU64,
    /// To the first byte of the quickest answer.
    pub first_byte_min_ms: Positive,
    /// To the first byte, on average.
    pub first_byte_mean_ms: Positive,
    /// Of each stream, MB (10^6 bytes) a second.
    pub stream_mb_s: Positive,
    /// Requests at a time; further ones wait.
    pub requests_max: NonZeroU32,
}

/// An object store: every request is an answer from afar, and many run side by side.
///
/// The time to the first byte is the least one and an exponentially distributed rest, as of a
/// queue far away. It is drawn from a seed.
#[derive(Debug)]
pub struct ObjectStore {
    parameters: ObjectStoreParameters,
    /// When each of the streams is free.
    streams: Vec<Nanoseconds>,
    random: Random,
}

impl ObjectStore {
    /// A store with nothing to do.
    ///
    /// # Errors
    /// When the mean is below the least.
    pub fn new(parameters: &ObjectStoreParameters, seed: u64) -> Result<ObjectStore, String> {
        if parameters.first_byte_mean_ms < parameters.first_byte_min_ms {
            return Err(format!(
                "first_byte_mean_ms is {}, and must not be below first_byte_min_ms, which is {}",
                parameters.first_byte_mean_ms.get(),
                parameters.first_byte_min_ms.get()
            ));
        }
        Ok(ObjectStore {
            parameters: parameters.clone(),
            streams: vec![0; parameters.requests_max.get() as usize],
            random: Random::new(seed),
        })
    }

    fn first_byte(&mut self) -> Nanoseconds {
        let least = self.parameters.first_byte_min_ms.get();
        let rest = self.parameters.first_byte_mean_ms.get() - least;
        let unit = (self.random.draw() >> 11) as f64 / (1u64 << 53) as f64;
        ((least - rest * (1.0 - unit).ln()) * 1e6) as Nanoseconds
    }
}

impl Model for ObjectStore {
    fn size_bytes(&self) -> u64 {
        self.parameters.capacity_bytes.get()
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        request.check(self.size_bytes())?;
        if request.operation == Operation::Flush {
            // What is acknowledged is stored.
            return Ok(now);
        }
        let bytes = if request.operation == Operation::Discard { 0 } else { request.bytes };
        let time = self.first_byte() + self.parameters.stream_mb_s.transfer(bytes);
        let stream = self.streams.iter_mut().min().expect("there is at least one stream");
        *stream = now.max(*stream) + time;
        Ok(*stream)
    }
}
