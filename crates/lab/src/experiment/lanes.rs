use std::num::NonZeroU64;

use serde::Deserialize;

use super::flash::{Device, build, unfit};
use super::{ExperimentError, Finding, Trial, Work};
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
    /// Partitions of a device, a lane each; one without.
    lanes_per_device: Option<NonZeroU64>,
    source_mb_s_each: Option<Positive>,
    source_load_minutes: Option<Positive>,
}

impl Lanes {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let record_bytes = self.record_bytes.get();
        // No device takes more than its link brings.
        let link_bytes_per_s = self.device.parameters(trial)?.link_mb_s.get() * 1e6;
        let bytes_per_s = link_bytes_per_s.min(self.feed_bytes_per_s.get() as f64);
        let records = bytes_per_s / record_bytes as f64;
        let work = Work::new("seconds, feed_bytes_per_s or lanes, or larger record_bytes");
        Ok(self.cases.iter().fold(work, |work, case| {
            let fed = records * self.seconds.get() as f64 * case.lanes.get() as f64;
            work.and(fed, record_bytes)
        }))
    }

    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let mut findings = Vec::new();
        for case in &self.cases {
            let lanes = case.lanes.get();
            let per_device = case.lanes_per_device.map_or(1, NonZeroU64::get).min(lanes);
            let (devices, rest) = (lanes / per_device, lanes % per_device);
            let of_devices = std::iter::repeat_n(per_device, devices as usize);
            let mut rates = 0.0;
            for (device, lanes) in (0..).zip(of_devices.chain((rest > 0).then_some(rest))) {
                rates += self.rate(trial, device, lanes)?;
            }
            let get = |figure: Option<Positive>| figure.map(Positive::get);
            let each = rates / lanes as f64;
            // A device that takes all that it is fed shows nothing but the feed.
            let fed = self.feed_bytes_per_s.get() as f64 / 1e6;
            let told = |finding: Finding| match (each / fed - 1.0).abs() < ALL_FED {
                true => finding.given(),
                false => finding,
            };
            let over = match (lanes, per_device) {
                (1, _) => "one lane".to_string(),
                (_, 1) => format!("{lanes} lanes"),
                _ => format!("{lanes} lanes, {per_device} to a device"),
            };
            let what = if lanes == 1 { over.clone() } else { format!("each of {over}") };
            findings.push(told(Finding::new(what, "MB/s", get(case.source_mb_s_each), each)));
            let minutes = self.load_bytes.get() as f64 / 1e6 / rates / 60.0;
            let what = format!("to load the data over {over}");
            findings.push(told(Finding::new(what, "min", get(case.source_load_minutes), minutes)));
        }
        Ok(findings)
    }

    /// Megabytes a second that feeds bring to the partitions of a device, round and round.
    fn rate(&self, trial: Trial, device: u64, lanes: u64) -> Result<f64, ExperimentError> {
        let seed = trial.seed.wrapping_add(device);
        let mut flash: Flash = build(&self.device.parameters(trial)?, seed)?;
        let (record, fed_max) = (self.record_bytes.get(), self.feed_bytes_per_s.get());
        let places = flash.size_bytes() / record / lanes;
        if places == 0 {
            return Err(ExperimentError::Unfit("the device holds no record".to_string()));
        }
        let (mut now, mut written) = (0, 0);
        let end = self.seconds.get() * SECOND;
        while now < end {
            let second = now;
            let mut fed = 0;
            while fed + record <= fed_max && now < second + SECOND {
                for lane in 0..lanes {
                    let place = lane * places + written % places;
                    let write = Request::write(place * record, record);
                    now = flash.serve(now, write).map_err(unfit)?;
                }
                fed += record;
                written += 1;
            }
            now = now.max(second + SECOND);
        }
        Ok((written * lanes * record) as f64 * 1e3 / now as f64)
    }
}
