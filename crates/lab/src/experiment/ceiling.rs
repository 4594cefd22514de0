use std::num::{NonZeroU32, NonZeroU64};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use storage::{Random, Spawn};

use super::{ExperimentError, Finding, Outcome, Trial, Work, distinct, nothing_measured};
use crate::machine::{Machine, MachineParameters, Step, Steps};
use crate::model::{Nanoseconds, Positive, Processor};
use crate::system::{Server, SystemParameters};
use crate::workload::{PatternParameters, Workload, WorkloadParameters};

/// Most threads, and bytes of a record.
const THREADS_MAX: u32 = 1 << 16;
const RECORD_BYTES: RangeInclusive<u64> = 512..=16 << 20;
/// Applications want memory after half of the time between two bursts at least, and one and a half
/// times as much at most.
const BURST_PAUSE_MAX: f64 = 1.5;

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
    /// What its cache may take.
    cache_bytes: NonZeroU64,
    /// A model of another system; without it the engine is measured.
    system: Option<SystemParameters>,
    source_percent_of_ideal: Option<Positive>,
}

impl Ceiling {
    /// Refuses what contradicts itself, and what would find nothing.
    fn check(&self, machine: &MachineParameters) -> Result<(), ExperimentError> {
        let unfit = |reason| Err(ExperimentError::Unfit(reason));
        machine.check()?;
        machine.check_data(self.data_bytes.get().into())?;
        distinct(self.variants.iter().map(|variant| variant.name.as_str()))?;
        let (memory_bytes, record_bytes) = (self.memory_bytes.get(), self.record_bytes.get());
        if !record_bytes.is_power_of_two() || !RECORD_BYTES.contains(&record_bytes) {
            return unfit(format!(
                "record_bytes = {record_bytes} is no size of a record, which is a power of two \
                 from {} to {}",
                RECORD_BYTES.start(),
                RECORD_BYTES.end()
            ));
        }
        if self.threads.get() > THREADS_MAX {
            let threads = self.threads;
            return unfit(format!("threads = {threads}, and at most {THREADS_MAX} are followed"));
        }
        let wanted = self.applications_bytes.get().saturating_add(self.burst_bytes.get());
        if wanted >= memory_bytes {
            return unfit(format!(
                "of {memory_bytes} bytes of memory applications take {} and now and then {} more; \
                 set a larger memory_bytes",
                self.applications_bytes, self.burst_bytes
            ));
        }
        let burst_by_s = BURST_PAUSE_MAX * self.burst_every_s.get();
        if self.measure_s.get() < burst_by_s {
            return unfit(format!(
                "measure_s = {} may end before applications want memory; set {burst_by_s} or more",
                self.measure_s.get()
            ));
        }
        let free_bytes = memory_bytes - self.applications_bytes.get();
        self.variants.iter().try_for_each(|variant| self.check_variant(variant, free_bytes))
    }

    fn check_variant(&self, variant: &Variant, free_bytes: u64) -> Result<(), ExperimentError> {
        let Variant { name, cache_bytes, system, .. } = variant;
        let unfit = |reason: String| Err(ExperimentError::Unfit(format!("{name}: {reason}")));
        if cache_bytes.get() > self.memory_bytes.get() {
            let memory_bytes = self.memory_bytes;
            return unfit(format!(
                "the cache takes {cache_bytes} of {memory_bytes} bytes of memory; set a larger \
                 memory_bytes"
            ));
        }
        let Some(system) = system else { return Ok(()) };
        system.check().map_err(ExperimentError::Unfit)?;
        for (key, own, of_system) in [
            ("memory_bytes", self.memory_bytes.get(), system.memory_bytes()),
            ("record_bytes", self.record_bytes.get(), system.record_bytes()),
            ("cache_bytes", cache_bytes.get(), Some(system.cache_bytes(free_bytes))),
        ] {
            if let Some(of_system) = of_system.filter(|of_system| *of_system != own) {
                return unfit(format!(
                    "{key} = {own}, and by its system it is {of_system}; make them agree"
                ));
            }
        }
        Ok(())
    }

    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let machine = trial.machine(&self.machine)?;
        self.check(&machine)?;
        let record_bytes = self.record_bytes.get();
        Ok(self.variants.iter().fold(
            Work::new("warm_reads, measure_s or record_bytes"),
            |work, _| {
                work.and(self.warm_reads.get().into(), record_bytes).and_during(
                    &machine,
                    self.measure_s,
                    record_bytes,
                )
            },
        ))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut findings = Vec::new();
        for variant in &self.variants {
            trial.tell(&variant.name);
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
        let (parameters, seed) = (trial.machine(&self.machine)?, trial.seed);
        let data_bytes = self.data_bytes.get() / parameters.divisor.get();
        let blocks = NonZeroU64::new(data_bytes / self.record_bytes)
            .ok_or_else(|| ExperimentError::Unfit("the data has no records".to_string()))?;
        let load = WorkloadParameters { blocks, write_percent: None, pattern: self.load.clone() };
        let load = Workload::new(&load, seed).map_err(ExperimentError::Unfit)?;
        let contention = Contention {
            cache_bytes: variant.cache_bytes.get(),
            free_bytes,
            burst_bytes: self.burst_bytes.get(),
            every: Duration::from_secs_f64(self.burst_every_s.get()),
            lasts: Duration::from_secs_f64(self.burst_s.get()),
            give_back: self.give_back_mb_s,
            divisor: parameters.divisor.get(),
            random: Random::new(seed),
        };
        let measured = match &variant.system {
            None => self.of_engine(parameters, contention, load, seed)?,
            Some(system) => self.of_model(system, &parameters, contention, load)?,
        };
        let name = &variant.name;
        let finding =
            |what: &str, unit, lab| Finding::new(format!("{name}: {what}"), unit, None, lab);
        let of_ideal = 100.0 * variant.cache_bytes.get() as f64 / self.ideal_bytes.get() as f64;
        Ok(vec![
            Finding {
                source: variant.source_percent_of_ideal.map(Positive::get),
                ..finding("of the ideal cache", "%", of_ideal).given()
            },
            finding("reads found in RAM", "%", measured.found_percent),
            finding("reads", "1/s", measured.reads_per_s),
            finding("response", "ms", measured.response_ms),
            finding("an application waits for its memory", "ms", measured.waited.each_ms()),
        ])
    }

    fn of_engine(
        &self,
        mut parameters: MachineParameters,
        contention: Contention,
        load: Workload,
        seed: u64,
    ) -> Result<Measured, ExperimentError> {
        parameters.memory_bytes = NonZeroU64::new(contention.cache_bytes).expect("it was not");
        let record_bytes = self.record_bytes.get();
        let machine = Machine::new(&parameters.with("recordsize", record_bytes.to_string()), seed)?;
        let file = machine.file("data", self.data_bytes.get() / contention.divisor);
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
        let waited = Arc::new(Mutex::new(Waited::default()));
        let applications = applications(Arc::downgrade(&machine), contention, waited.clone());
        machine.simulation().spawn(Box::pin(applications));
        let (hits, misses) = ("demand_data_hits", "demand_data_misses");
        let before = (machine.counter(hits), machine.counter(misses));
        let measured = Duration::from_secs_f64(self.measure_s.get());
        let tally = machine.load(&threads(None), Some(measured));
        let hits = (machine.counter(hits) - before.0) as f64;
        let misses = (machine.counter(misses) - before.1) as f64;
        let waited = *waited.lock();
        if tally.operations == 0 {
            return Err(nothing_measured("measure_s"));
        }
        Ok(Measured {
            found_percent: 100.0 * hits / (hits + misses),
            reads_per_s: tally.operations_per_s(),
            response_ms: tally.mean_ms(),
            waited,
        })
    }

    /// The same of a model of another system, on the same disks and processor.
    fn of_model(
        &self,
        system: &SystemParameters,
        parameters: &MachineParameters,
        mut contention: Contention,
        mut load: Workload,
    ) -> Result<Measured, ExperimentError> {
        let data_bytes = self.data_bytes.get() / contention.divisor;
        let system = system.scaled_down(parameters.divisor).build(data_bytes);
        let system = system.map_err(ExperimentError::Unfit)?;
        let (stripe, processor) = (parameters.stripe()?, Processor::new(&parameters.processor));
        let mut server = Server::new(system, Box::new(stripe), processor);
        server.system().leave(contention.free_bytes / contention.divisor);
        let (threads, record_bytes) = (self.threads.get() as usize, self.record_bytes.get());
        let mut next = || load.next().map(|access| (access.block * record_bytes, record_bytes));
        let mut left = self.warm_reads.get();
        server.load(threads, &mut || {
            left = left.checked_sub(1)?;
            next()
        });

        server.begin(threads);
        let (begun, before) = (server.now(), server.served());
        let end = begun + Duration::from_secs_f64(self.measure_s.get()).as_nanos() as Nanoseconds;
        let mut waited = Waited::default();
        let free = contention.free_bytes;
        while server.now() < end {
            let comes = server.now() + contention.pause().as_nanos() as Nanoseconds;
            server.until(comes.min(end), &mut next);
            if comes >= end {
                break;
            }
            let left = contention.left_bytes() / contention.divisor;
            let freed = server.system().leave(left) * contention.divisor;
            let wait = contention.give_back.transfer(freed);
            waited.add(Duration::from_nanos(wait));
            let goes = server.now() + wait + contention.lasts.as_nanos() as Nanoseconds;
            server.until(goes.min(end), &mut next);
            server.system().leave(free / contention.divisor);
        }
        server.system().validate().map_err(ExperimentError::Unfit)?;
        let served = server.served() - before;
        if served.reads == 0 {
            return Err(nothing_measured("measure_s"));
        }
        let reads = served.reads as f64;
        Ok(Measured {
            found_percent: 100.0 * served.found_in_memory as f64 / reads,
            reads_per_s: served.reads as f64 * 1e9 / (end - begun).max(1) as f64,
            response_ms: served.response_ns as f64 / 1e6 / reads,
            waited,
        })
    }
}

/// What a variant has got done.
struct Measured {
    found_percent: f64,
    reads_per_s: f64,
    response_ms: f64,
    waited: Waited,
}

/// How long applications waited for memory, and how often they wanted it.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    time: Duration,
    count: u32,
}

impl Waited {
    fn add(&mut self, time: Duration) {
        self.time += time;
        self.count += 1;
    }

    fn each_ms(&self) -> f64 {
        self.time.as_secs_f64() * 1e3 / f64::from(self.count.max(1))
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

impl Contention {
    /// What the cache may keep while applications have more memory.
    fn left_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.burst_bytes)
    }

    /// Until applications want more memory.
    fn pause(&mut self) -> Duration {
        self.every * (500 + self.random.below(1000) as u32) / 1000
    }
}

/// Wants more memory now and then. What the cache holds of it is given back first, and takes its
/// time; a cache that is not full may have nothing to give.
async fn applications(
    machine: std::sync::Weak<Machine>,
    mut contention: Contention,
    waited: Arc<Mutex<Waited>>,
) {
    loop {
        let Some(pause) = machine.upgrade().map(|machine| machine.simulation().clone()) else {
            return;
        };
        storage::Clock::sleep(&pause, contention.pause()).await;
        let Some(of) = machine.upgrade() else { return };
        let (most, held) = (of.memory_bytes(), of.held_bytes());
        let left = contention.left_bytes() / contention.divisor;
        if left < most {
            of.set_memory_bytes(left);
        }
        let freed = held.saturating_sub(of.held_bytes()) * contention.divisor;
        drop(of);
        let wait = Duration::from_nanos(contention.give_back.transfer(freed));
        // It is waited to the end, also where that comes after what is measured.
        waited.lock().add(wait);
        storage::Clock::sleep(&pause, wait + contention.lasts).await;
        let Some(of) = machine.upgrade() else { return };
        of.set_memory_bytes(most);
    }
}
