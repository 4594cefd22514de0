//! [`Workload`]: loads that are made up, from a seed.

mod pattern;

use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;
use storage::Random;

use crate::model::Positive;
use pattern::Pattern;
pub(crate) use pattern::Source;

/// What a made-up load is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadParameters {
    /// Blocks that are asked for, from 0 on.
    pub blocks: NonZeroU64,
    /// Share of the requests that are writes; none are without.
    pub write_percent: Option<Positive>,
    /// Which blocks are asked for.
    pub pattern: PatternParameters,
}

/// Which blocks are asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PatternParameters {
    /// Each block as often as any other.
    Uniform {},
    /// The block of rank `r` in proportion to `r` to the power of minus the exponent; ranks are
    /// spread over the blocks.
    Zipf {
        /// The exponent, 1 for Zipf's law.
        exponent: Positive,
    },
    /// Few blocks get most of the requests, as 20 % get 80 %; within each group all are alike.
    Hot {
        /// Share of the requests that the hot blocks get.
        request_percent: Positive,
        /// Share of the blocks that are hot; they are spread over all.
        block_percent: Positive,
    },
    /// One block after the other, from the beginning again after the last. Clients read so side by
    /// side, each on an equal part of the blocks, and take turns.
    Sequential {
        /// How many clients there are.
        clients: NonZeroU32,
        /// How many blocks a client reads before it is the next one's turn.
        turn_blocks: NonZeroU32,
    },
    /// Several patterns over the same blocks.
    Mix(Vec<Share>),
}

/// A part of a mix.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Its requests, in proportion to those of the other parts.
    pub weight: NonZeroU32,
    /// Which blocks it asks for.
    pub pattern: PatternParameters,
}

/// A request of a made-up load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Which block.
    pub block: u64,
    /// Whether it is written.
    pub write: bool,
}

/// A load that is made up and never ends. The same seed gives the same requests.
#[derive(Debug)]
pub struct Workload {
    write_share: f64,
    random: Random,
    pattern: Pattern,
}

impl Workload {
    /// The load with these parameters.
    ///
    /// # Errors
    /// What is wrong with the parameters, if values do not fit together.
    pub fn new(parameters: &WorkloadParameters, seed: u64) -> Result<Workload, String> {
        let percent = parameters.write_percent.map_or(0.0, Positive::get);
        if percent > 100.0 {
            return Err(format!("write_percent is {percent}, and must not be above 100"));
        }
        Ok(Workload {
            write_share: percent / 100.0,
            random: Random::new(seed),
            pattern: Pattern::new(&parameters.pattern, parameters.blocks.get())?,
        })
    }
}

impl Iterator for Workload {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let block = self.pattern.draw(&mut self.random);
        let write = self.write_share > 0.0 && unit(&mut self.random) < self.write_share;
        Some(Access { block, write })
    }
}

/// A number from 0 up to 1.
fn unit(random: &mut Random) -> f64 {
    (random.draw() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
