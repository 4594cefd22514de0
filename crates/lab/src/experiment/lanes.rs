use std::num::NonZeroU64;

use serde::Deserialize;

use super::flash::{Device, build, unfit};
use super::{ExperimentError, Finding, Trial};
use crate::model::{Flash, Model, Nanoseconds, Positive, Request};

const SECOND: Nanoseconds = 1_000_000_000;

/// A lane within this share of its feed takes all of it: only whole records are fed.
const ALL_FED: f64 = 0.01;

/// The L2ARC is filled over several devices at a time, each by its feed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lanes {
    device: Device,
    /// What a feed writes to a device in a second at most.
    feed_bytes_per_s: NonZeroU64,
    /// Bytes of a write.
    record_bytes: NonZeroU64,
    /// How long each case is watched.
    seconds: NonZeroU64,
    /// Bytes that are to be loaded.
    load_bytes: NonZeroU64,
    cases: Vec<Case>,
}

/// So many lanes, and what the source says of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    lanes: NonZeroU64,
    source_mb_s_each: Option<Positive>,
    source_load_minutes: Option<Positive>,
}

impl Lanes {
    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let mut findings = Vec::new();
        for case in &self.cases {
            let lanes = case.lanes.get();
            let mut rates = 0.0;
            for lane in 0..lanes {
                rates += self.rate(trial, lane)?;
            }
            let get = |figure: Option<Positive>| figure.map(Positive::get);
            let each = rates / lanes as f64;
            // A device that takes all that it is fed shows nothing but the feed.
            let fed = self.feed_bytes_per_s.get() as f64 / 1e6;
            let told = |finding: Finding| match (each / fed - 1.0).abs() < ALL_FED {
                true => finding.given(),
                false => finding,
            };
            let what = format!("each of {lanes} lanes");
            findings.push(told(Finding::new(what, "MB/s", get(case.source_mb_s_each), each)));
            let minutes = self.load_bytes.get() as f64 / 1e6 / rates / 60.0;
            let what = format!("to load the data over {lanes} lanes");
            findings.push(told(Finding::new(what, "min", get(case.source_load_minutes), minutes)));
        }
        Ok(findings)
    }

    /// Megabytes a second that a feed brings to a device, round and round.
    fn rate(&self, trial: Trial, lane: u64) -> Result<f64, ExperimentError> {
        let seed = trial.seed.wrapping_add(lane);
        let mut flash: Flash = build(&self.device.parameters(trial)?, seed)?;
        let record = self.record_bytes.get();
        let places = flash.size_bytes() / record;
        if places == 0 {
            return Err(ExperimentError::Unfit("the device holds no record".to_string()));
        }
        let (mut now, mut written) = (0, 0);
        let end = self.seconds.get() * SECOND;
        while now < end {
            let second = now;
            let mut fed = 0;
            while fed + record <= self.feed_bytes_per_s.get() && now < second + SECOND {
                let write = Request::write(written % places * record, record);
                now = flash.serve(now, write).map_err(unfit)?;
                fed += record;
                written += 1;
            }
            now = now.max(second + SECOND);
        }
        Ok((written * record) as f64 * 1e3 / now as f64)
    }
}
