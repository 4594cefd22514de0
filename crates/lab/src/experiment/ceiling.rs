use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use storage::{Random, Spawn};

use super::{ExperimentError, Finding, Outcome, Trial};
use crate::machine::{Machine, Step, Steps};
use crate::model::Positive;
use crate::workload::{PatternParameters, Workload, WorkloadParameters};

/// A cache beside applications: as UFS has it, with all free memory, and with a safe ceiling.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ceiling {
    machine: String,
    memory_bytes: NonZeroU64,
    applications_bytes: NonZeroU64,
    data_bytes: NonZeroU64,
    /// What the hot part of the data comes to.
    ideal_bytes: NonZeroU64,
    record_bytes: NonZeroU64,
    load: PatternParameters,
    threads: NonZeroU32,
    warm_reads: NonZeroU32,
    measure_s: Positive,
    /// Now and then applications want so much more, for a while.
    burst_bytes: NonZeroU64,
    burst_every_s: Positive,
    burst_s: Positive,
    /// Memory that a cache gives back for an application, MB (10^6 bytes) a second.
    give_back_mb_s: Positive,
    variants: Vec<Variant>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    cache_bytes: NonZeroU64,
    source_percent_of_ideal: Option<Positive>,
}

impl Ceiling {
    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut findings = Vec::new();
        for variant in &self.variants {
            findings.extend(self.measure(variant, trial)?);
        }
        let ceiling = self.variants.last().map_or(0, |variant| variant.cache_bytes.get());
        let what = format!("the ceiling, {ceiling:#x}, over 0x580000000");
        let over = ceiling as f64 / 0x5_8000_0000u64 as f64;
        findings.push(Finding::new(what, "ratio", Some(1.0), over).given());
        Ok(Outcome::from(findings))
    }

    fn measure(&self, variant: &Variant, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let memory_bytes = self.memory_bytes.get();
        let free_bytes = memory_bytes.saturating_sub(self.applications_bytes.get());
        if free_bytes == 0 || variant.cache_bytes.get() > memory_bytes {
            return Err(ExperimentError::Unfit(format!(
                "of {memory_bytes} bytes of memory applications take {} and the cache {} with \
                 {:?}; set a larger memory_bytes",
                self.applications_bytes, variant.cache_bytes, variant.name
            )));
        }
        let (mut parameters, seed) = (trial.machine(&self.machine)?, trial.seed);
        parameters.memory_bytes = variant.cache_bytes;
        let divisor = parameters.divisor.get();
        let parameters = parameters.with("recordsize", self.record_bytes.to_string());
        let machine = Machine::new(&parameters, seed)?;
        let record_bytes = self.record_bytes.get();
        let file = machine.file("data", self.data_bytes.get() / divisor);
        let blocks = NonZeroU64::new(self.data_bytes.get() / divisor / record_bytes)
            .ok_or_else(|| ExperimentError::Unfit("the data has no records".to_string()))?;
        let load = WorkloadParameters { blocks, write_percent: None, pattern: self.load.clone() };
        let load = Workload::new(&load, seed).map_err(ExperimentError::Unfit)?;
        let load = Arc::new(Mutex::new(load));
        let threads = |reads: Option<u32>| {
            let (file, load, mut left) = (file.clone(), load.clone(), reads);
            let steps: Steps = Arc::new(Mutex::new(move || {
                if let Some(left) = &mut left {
                    *left = left.checked_sub(1)?;
                }
                let access = load.lock().next()?;
                let offset = access.block * record_bytes;
                Some(Step { file: file.clone(), offset, bytes: record_bytes, write: false })
            }));
            vec![steps; self.threads.get() as usize]
        };
        machine.load(&threads(Some(self.warm_reads.get())), None);

        // Applications come and go meanwhile.
        let waited = Arc::new(Mutex::new((Duration::ZERO, 0u32)));
        machine.simulation().spawn(Box::pin(applications(
            Arc::downgrade(&machine),
            Contention {
                cache_bytes: variant.cache_bytes.get(),
                free_bytes,
                burst_bytes: self.burst_bytes.get(),
                every: Duration::from_secs_f64(self.burst_every_s.get()),
                lasts: Duration::from_secs_f64(self.burst_s.get()),
                give_back: self.give_back_mb_s,
                divisor,
                random: Random::new(seed),
            },
            waited.clone(),
        )));
        let (hits, misses) = ("demand_data_hits", "demand_data_misses");
        let before = (machine.counter(hits), machine.counter(misses));
        let measured = Duration::from_secs_f64(self.measure_s.get());
        let tally = machine.load(&threads(None), Some(measured));
        let hits = (machine.counter(hits) - before.0) as f64;
        let misses = (machine.counter(misses) - before.1) as f64;
        let (waited, bursts) = *waited.lock();
        let each = waited.as_secs_f64() * 1e3 / f64::from(bursts.max(1));
        let name = &variant.name;
        let finding =
            |what: &str, unit, lab| Finding::new(format!("{name}: {what}"), unit, None, lab);
        let of_ideal = 100.0 * variant.cache_bytes.get() as f64 / self.ideal_bytes.get() as f64;
        Ok(vec![
            Finding {
                source: variant.source_percent_of_ideal.map(Positive::get),
                ..finding("of the ideal cache", "%", of_ideal).given()
            },
            finding("reads found in RAM", "%", 100.0 * hits / (hits + misses)),
            finding("reads", "1/s", tally.operations_per_s()),
            finding("response", "ms", tally.mean_ms()),
            finding("an application waits for its memory", "ms", each),
        ])
    }
}

struct Contention {
    cache_bytes: u64,
    free_bytes: u64,
    burst_bytes: u64,
    every: Duration,
    lasts: Duration,
    give_back: Positive,
    divisor: u64,
    random: Random,
}

/// Wants more memory now and then. What the cache has of it must be given back first.
async fn applications(
    machine: std::sync::Weak<Machine>,
    mut contention: Contention,
    waited: Arc<Mutex<(Duration, u32)>>,
) {
    loop {
        let Some(pause) = machine.upgrade().map(|machine| machine.simulation().clone()) else {
            return;
        };
        let jitter = 500 + contention.random.below(1000) as u32;
        storage::Clock::sleep(&pause, contention.every * jitter / 1000).await;
        let Some(of) = machine.upgrade() else { return };
        let left = contention.free_bytes.saturating_sub(contention.burst_bytes);
        let short = contention.cache_bytes.saturating_sub(left);
        let give_back = Duration::from_nanos(contention.give_back.transfer(short));
        let before = of.memory_bytes();
        of.set_memory_bytes(before.saturating_sub(short / contention.divisor));
        drop(of);
        storage::Clock::sleep(&pause, give_back).await;
        {
            let mut waited = waited.lock();
            waited.0 += give_back;
            waited.1 += 1;
        }
        storage::Clock::sleep(&pause, contention.lasts).await;
        let Some(of) = machine.upgrade() else { return };
        of.set_memory_bytes(before);
    }
}
