use serde::Deserialize;

use super::{Model, Nanoseconds, Operation, Positive, Refusal, Request};

/// What a network is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParameters {
    /// There and back, without any bytes.
    pub round_trip_us: Positive,
    /// Of the link in each direction, MB (10^6 bytes) a second; all requests share it.
    pub link_mb_s: Positive,
}

/// A network before another device.
#[derive(Debug)]
pub struct Network<M> {
    parameters: NetworkParameters,
    far: M,
    to_free_at: Nanoseconds,
    from_free_at: Nanoseconds,
}

impl<M: Model> Network<M> {
    /// `far` at the other end.
    pub fn new(parameters: &NetworkParameters, far: M) -> Network<M> {
        Network { parameters: parameters.clone(), far, to_free_at: 0, from_free_at: 0 }
    }

    /// What is at the other end.
    pub fn far(&self) -> &M {
        &self.far
    }
}

impl<M: Model> Model for Network<M> {
    fn size_bytes(&self) -> u64 {
        self.far.size_bytes()
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        let round_trip = self.parameters.round_trip_us.microseconds();
        let there = round_trip / 2;
        // Bytes that are there sooner do not wait for those of an earlier request.
        let take =
            |free_at: &mut Nanoseconds, begun: Nanoseconds, ready: Nanoseconds, operation| {
                let bytes = if request.operation == operation { request.bytes } else { 0 };
                let time = self.parameters.link_mb_s.transfer(bytes);
                *free_at = begun.max(*free_at) + time;
                (*free_at).max(ready + time)
            };
        let sent = take(&mut self.to_free_at, now, now, Operation::Write);
        let served = self.far.serve(sent + there, request)?;
        let back = take(&mut self.from_free_at, sent + there, served, Operation::Read);
        Ok(back + (round_trip - there))
    }

    fn validate(&self) -> Result<(), String> {
        self.far.validate()
    }
}
