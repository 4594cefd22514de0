use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

use super::{Model, Nanoseconds, Operation, Positive, Refusal, Request};

/// What an SSD is like from outside.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolidStateParameters {
    /// Bytes that it offers.
    pub capacity_bytes: NonZeroU64,
    /// Channels, which work in parallel.
    pub channels: NonZeroU32,
    /// Bytes that follow each other on one channel.
    pub stripe_bytes: NonZeroU32,
    /// To read a stripe, or a part of one.
    pub read_us: Positive,
    /// To write a stripe, or a part of one.
    pub write_us: Positive,
    /// Of the link, for reads, MB (10^6 bytes) a second.
    pub read_mb_s: Positive,
    /// Of the link, for writes.
    pub write_mb_s: Positive,
    /// Controller, link and driver for each request.
    pub command_us: Positive,
    /// To make last what was written; in no time without, as with a protected buffer.
    pub flush_us: Option<Positive>,
}

/// An SSD from outside: channels that read faster than they write, behind one link.
///
/// For devices too large to be followed page by page; of wear and cleaning it knows nothing, the
/// times are those of a device in steady state. [`Flash`](super::Flash) knows.
#[derive(Debug)]
pub struct SolidState {
    parameters: SolidStateParameters,
    channels: Vec<Nanoseconds>,
    link_free_at: Nanoseconds,
}

impl SolidState {
    /// A device with nothing to do.
    pub fn new(parameters: &SolidStateParameters) -> SolidState {
        SolidState {
            parameters: parameters.clone(),
            channels: vec![0; parameters.channels.get() as usize],
            link_free_at: 0,
        }
    }

    /// When the last of the request's stripes is read or written.
    fn stripes(&mut self, from: Nanoseconds, request: Request, each: Positive) -> Nanoseconds {
        let stripe = u64::from(self.parameters.stripe_bytes.get());
        let first = request.offset / stripe;
        let end = (request.offset + request.bytes).div_ceil(stripe);
        let mut done = from;
        for stripe in first..end {
            // Neighbours lie on different channels, and equal distances do not meet on one.
            let channel = storage::Random::new(stripe).below(self.channels.len() as u64);
            let free_at = &mut self.channels[channel as usize];
            *free_at = from.max(*free_at) + each.microseconds();
            done = done.max(*free_at);
        }
        done
    }

    /// Takes the link for the bytes of a request that began at `begun` and are there at `there`;
    /// returns when they are over. Bytes that are there sooner do not wait for those of an earlier
    /// request.
    fn transfer(
        &mut self,
        begun: Nanoseconds,
        there: Nanoseconds,
        bytes: u64,
        rate: Positive,
    ) -> Nanoseconds {
        let time = rate.transfer(bytes);
        self.link_free_at = self.link_free_at.max(begun) + time;
        self.link_free_at.max(there + time)
    }
}

impl Model for SolidState {
    fn size_bytes(&self) -> u64 {
        self.parameters.capacity_bytes.get()
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        request.check(self.size_bytes())?;
        let begun = now + self.parameters.command_us.microseconds();
        Ok(match request.operation {
            Operation::Read => {
                let read = self.stripes(begun, request, self.parameters.read_us);
                self.transfer(begun, read, request.bytes, self.parameters.read_mb_s)
            }
            Operation::Write => {
                let rate = self.parameters.write_mb_s;
                let there = self.transfer(begun, begun, request.bytes, rate);
                self.stripes(there, request, self.parameters.write_us)
            }
            Operation::Flush => {
                let written = self.channels.iter().copied().fold(begun, Nanoseconds::max);
                written + self.parameters.flush_us.map_or(0, Positive::microseconds)
            }
            Operation::Discard => begun,
        })
    }
}
