use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;
use storage::Random;

use super::{Chart, ExperimentError, Finding, Line, Outcome, Trial, Work};
use crate::model::{
    Cleaning, Equipment, Flash, FlashParameters, Model, Nanoseconds, Positive, Refusal, Request,
    Wear, fifo_amplification,
};

/// A modelled device of flash, made smaller.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    /// What comes with the lab by this name, or a file.
    pub name: String,
    /// Capacity and buffer are divided by it.
    pub divisor: NonZeroU64,
}

impl Device {
    pub fn parameters(&self, trial: Trial) -> Result<FlashParameters, ExperimentError> {
        match trial.equipment(&self.name)? {
            Equipment::Flash(parameters) => Ok(parameters.scaled_down(trial.divisor(self.divisor))),
            _ => Err(ExperimentError::Unfit(format!("{} is not flash", self.name))),
        }
    }
}

pub(super) fn build(parameters: &FlashParameters, seed: u64) -> Result<Flash, ExperimentError> {
    Flash::new(parameters, seed).map_err(ExperimentError::Unfit)
}

pub(super) fn unfit(refusal: Refusal) -> ExperimentError {
    ExperimentError::Unfit(refusal.to_string())
}

/// Writes single pages, one after the other; returns when the last one is acknowledged.
fn write(
    flash: &mut Flash,
    mut now: Nanoseconds,
    page_bytes: u64,
    pages: impl Iterator<Item = u64>,
) -> Result<Nanoseconds, Refusal> {
    for page in pages {
        now = flash.serve(now, Request::write(page * page_bytes, page_bytes))?;
    }
    Ok(now)
}

/// Random writes to a new device, then to one all of whose blocks have been written, then after
/// a pause, and after everything was discarded.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EraseBeforeWrite {
    device: Device,
    /// How often the capacity is written until the device counts as used.
    used_after_rounds: NonZeroU32,
    pause_s: Positive,
}

impl EraseBeforeWrite {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let rounds = 3.0 + f64::from(self.used_after_rounds.get());
        let pages = self.device.parameters(trial)?.logical_pages() as f64;
        Ok(Work::new("used_after_rounds, or a larger divisor").and(rounds * pages, 1))
    }

    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let parameters = self.device.parameters(trial)?;
        let mut flash = build(&parameters, trial.seed)?;
        let mut random = Random::new(trial.seed);
        let page_bytes = u64::from(parameters.page_bytes.get());
        let pages = flash.size_bytes() / page_bytes;
        let mut now = 0;
        // Megabytes a second of so many random writes.
        let mut rate = |flash: &mut Flash, now: &mut Nanoseconds, writes: u64| {
            let begun = *now;
            let drawn = (0..writes).map(|_| random.below(pages));
            *now = write(flash, *now, page_bytes, drawn).map_err(unfit)?;
            Ok::<f64, ExperimentError>((writes * page_bytes) as f64 * 1e3 / (*now - begun) as f64)
        };
        let new = rate(&mut flash, &mut now, pages)?;
        rate(&mut flash, &mut now, pages * u64::from(self.used_after_rounds.get()))?;
        let used = rate(&mut flash, &mut now, pages)?;
        // As many writes as the pause can have made room for.
        let few = pages / 50;
        let before = rate(&mut flash, &mut now, few)?;
        now += (self.pause_s.get() * 1e9) as Nanoseconds;
        let rested = rate(&mut flash, &mut now, few)?;
        let all = Request::discard(0, flash.size_bytes());
        now = flash.serve(now, all).map_err(unfit)?;
        now += (self.pause_s.get() * 1e9) as Nanoseconds;
        let discarded = rate(&mut flash, &mut now, few)?;
        let finding = |what: &str, lab| Finding::new(what, "MB/s", None, lab);
        Ok(vec![
            finding("random writes to a new device", new),
            finding("once all blocks have been written", used),
            finding("a short burst then", before),
            finding("the same burst after a pause", rested),
            finding("the same burst after TRIM of everything and a pause", discarded),
            Finding::new("used over new", "ratio", None, used / new),
        ])
    }
}

/// The same writes to two kinds of cells until they are worn out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CellLife {
    slc: Device,
    mlc: Device,
    /// Endurance is divided by it, so that the end is reached; lives are multiplied by it.
    endurance_divisor: NonZeroU32,
    /// What the source says of the cycles.
    source_cycles: [f64; 2],
}

/// How a device came to its end.
struct Life {
    terabytes: f64,
    write_amplification: f64,
    /// About when half of it was over.
    halfway: Wear,
    endurance_cycles: u32,
}

impl CellLife {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let mut work = Work::new("device, or larger endurance_divisor and divisor");
        for device in [&self.slc, &self.mlc] {
            let parameters = device.parameters(trial)?;
            let cycles = parameters.endurance_cycles.get() / self.endurance_divisor.get();
            let pages = parameters.logical_pages() as f64;
            work = work.and(pages * f64::from(cycles.max(1)), 1);
        }
        Ok(work)
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let [slc, mlc] = [&self.slc, &self.mlc].map(|device| self.life(device, trial));
        let (slc, mlc) = (slc?, mlc?);
        let [slc_cycles, mlc_cycles] = self.source_cycles;
        let ratio = slc.terabytes / mlc.terabytes;
        let finding = |what, unit, lab| Finding::new(what, unit, None, lab);
        let mut findings = vec![
            finding("random writes until SLC is worn out".to_string(), "TB", slc.terabytes),
            finding("random writes until MLC is worn out".to_string(), "TB", mlc.terabytes),
            Finding::new("SLC over MLC", "ratio", Some(slc_cycles / mlc_cycles), ratio),
        ];
        let mut lines = Vec::new();
        for (name, life) in [("SLC", &slc), ("MLC", &mlc)] {
            let (wear, all) = (&life.halfway, f64::from(life.endurance_cycles));
            let percent = |erasures: f64| 100.0 * erasures / all;
            let of = |what: &str| format!("{name} halfway: {what}");
            let (least, most) = (wear.erasures_min.into(), wear.erasures_max.into());
            findings.extend([
                finding(of("pages programmed for each written"), "ratio", life.write_amplification),
                finding(of("life left"), "%", wear.life_left_percent),
                finding(of("erasures of the least worn block"), "% of its life", percent(least)),
                finding(of("erasures of the most worn block"), "% of its life", percent(most)),
                finding(of("blocks out of use"), "blocks", wear.bad_blocks.into()),
            ]);
            let blocks = wear.histogram.iter().sum::<u64>().max(1) as f64;
            let step = percent(most) / Wear::BINS as f64;
            let point = |(bin, &count): (usize, &u64)| {
                ((bin as f64 + 0.5) * step, 100.0 * count as f64 / blocks)
            };
            let points = wear.histogram.iter().enumerate().map(point).collect();
            lines.push(Line::new(name, points));
        }
        let charts = vec![Chart {
            title: "wear of blocks, halfway through the life".to_string(),
            x: "erasures, % of what a block withstands".to_string(),
            y: "% of blocks".to_string(),
            doubling_x: false,
            lines,
            dots: None,
        }];
        Ok(Outcome { findings, charts })
    }

    /// Random writes to the device in its full size until it is worn out.
    fn life(&self, device: &Device, trial: Trial) -> Result<Life, ExperimentError> {
        let mut parameters = device.parameters(trial)?;
        let divisor = self.endurance_divisor.get();
        let shorter =
            |cycles: NonZeroU32| NonZeroU32::new(cycles.get() / divisor).unwrap_or(NonZeroU32::MIN);
        parameters.endurance_cycles = shorter(parameters.endurance_cycles);
        parameters.wear_gap_max = shorter(parameters.wear_gap_max);
        let mut flash = build(&parameters, trial.seed)?;
        let page_bytes = u64::from(parameters.page_bytes.get());
        let (pages, mut random) = (flash.size_bytes() / page_bytes, Random::new(trial.seed));
        let endurance_cycles = parameters.endurance_cycles.get();
        // More than the blocks can take, whatever happens.
        let rounds = u64::from(endurance_cycles) * 4;
        let mut looks = Vec::new();
        for written in 0..pages * rounds {
            if written.is_multiple_of(pages) {
                looks.push(flash.wear());
            }
            let request = Request::write(random.below(pages) * page_bytes, page_bytes);
            match flash.serve(0, request) {
                Ok(_) => (),
                Err(Refusal::WornOut { .. }) => {
                    let scale = trial.divisor(device.divisor).get() as f64 * f64::from(divisor);
                    return Ok(Life {
                        terabytes: (written * page_bytes) as f64 * scale / 1e12,
                        write_amplification: flash.write_amplification(),
                        halfway: looks.swap_remove(looks.len() / 2),
                        endurance_cycles,
                    });
                }
                Err(refusal) => return Err(unfit(refusal)),
            }
        }
        Err(ExperimentError::Unfit("the flash does not wear out".to_string()))
    }
}

/// Write amplification by the reserve, for random writes and for a ring.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserve {
    device: Device,
    reserve_percents: Vec<Positive>,
    /// How often the capacity is written before and while it is measured.
    rounds: NonZeroU32,
}

impl Reserve {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let pages = self.device.parameters(trial)?.logical_pages() as f64;
        let rounds = 1.0 + 2.0 * f64::from(self.rounds.get());
        // By three kinds of cleaning, and as a ring.
        let writes = 4.0 * pages * rounds * self.reserve_percents.len() as f64;
        Ok(Work::new("rounds, or a larger divisor").and(writes, 1))
    }

    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let mut findings = Vec::new();
        for &percent in &self.reserve_percents {
            let theory = fifo_amplification(1.0 - percent.get() / 100.0);
            for (cleaning, with_bad_blocks, what, source) in [
                (Cleaning::Fifo, false, "FIFO cleaning", Some(theory)),
                (Cleaning::Greedy, false, "greedy cleaning", None),
                (Cleaning::Greedy, true, "greedy cleaning, with bad blocks", None),
            ] {
                let lab = self.amplification(percent, cleaning, with_bad_blocks, false, trial)?;
                let what = format!("random writes, {} % kept back: {what}", percent.get());
                findings.push(Finding::new(what, "writes/write", source, lab));
            }
            let lab = self.amplification(percent, Cleaning::Greedy, true, true, trial)?;
            let what = format!("a ring, as the L2ARC is, {} % kept back", percent.get());
            findings.push(Finding::new(what, "writes/write", Some(1.0), lab));
        }
        Ok(findings)
    }

    fn amplification(
        &self,
        reserve_percent: Positive,
        cleaning: Cleaning,
        with_bad_blocks: bool,
        ring: bool,
        trial: Trial,
    ) -> Result<f64, ExperimentError> {
        let mut parameters =
            FlashParameters { reserve_percent, cleaning, ..self.device.parameters(trial)? };
        if !with_bad_blocks {
            parameters.factory_bad_percent = None;
        }
        let mut flash = build(&parameters, trial.seed)?;
        let page_bytes = u64::from(parameters.page_bytes.get());
        let (pages, mut random) = (flash.size_bytes() / page_bytes, Random::new(trial.seed));
        let mut now = write(&mut flash, 0, page_bytes, 0..pages).map_err(unfit)?;
        for _ in 0..2 {
            flash.forget_counts();
            let rounds = pages * u64::from(self.rounds.get());
            let next = |step| if ring { step % pages } else { random.below(pages) };
            now = write(&mut flash, now, page_bytes, (0..rounds).map(next)).map_err(unfit)?;
        }
        Ok(flash.write_amplification())
    }
}

/// The power fails in the midst of writes, with and without a super-capacitor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PowerLoss {
    device: Device,
    /// Writes before the power fails.
    writes: NonZeroU32,
}

impl PowerLoss {
    /// The most that it has to simulate.
    pub fn work(&self, _trial: Trial) -> Result<Work, ExperimentError> {
        Ok(Work::new("writes").and(2.0 * f64::from(self.writes.get()), 1))
    }

    /// Whether the device is smaller than it is.
    pub fn divides(&self) -> bool {
        self.device.divisor > NonZeroU64::MIN
    }

    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let mut findings = Vec::new();
        for (super_capacitor, what, source) in [
            (true, "acknowledged and lost, with a super-capacitor", Some(0.0)),
            (false, "acknowledged and lost, without one", None),
        ] {
            let mut parameters = self.device.parameters(trial)?;
            let Some(buffer) = &mut parameters.buffer else {
                return Err(ExperimentError::Unfit("the flash has no write buffer".to_string()));
            };
            buffer.super_capacitor = super_capacitor;
            let mut flash = build(&parameters, trial.seed)?;
            let page_bytes = u64::from(parameters.page_bytes.get());
            let (pages, mut random) = (flash.size_bytes() / page_bytes, Random::new(trial.seed));
            let drawn = (0..self.writes.get()).map(|_| random.below(pages));
            let now = write(&mut flash, 0, page_bytes, drawn).map_err(unfit)?;
            let lost = flash.lose_power(now).len() as f64 * page_bytes as f64;
            findings.push(Finding::new(what, "bytes", source, lost));
        }
        Ok(findings)
    }
}
