use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use storage::Random;
use warmfront::OpenFile;

use super::{
    Chart, ExperimentError, Finding, Line, Outcome, Trial, Work, distinct, nothing_measured,
};
use crate::machine::{CacheParameters, Machine, MachineParameters, Step, Steps, Tally};
use crate::model::Positive;

/// What warms the caches reads so many bytes at a time, by so many at a time where it is in no
/// order; streams are read by one each.
const WARMING: (u64, usize) = (128 << 10, 192);

/// Most such reads: what is left to read is kept in RAM.
const CHUNKS_MAX: u64 = 1 << 24;

/// Most threads of all clients together.
const THREADS_MAX: u64 = 1 << 16;

/// Most bytes that the caches may come to hold: they take as much memory here.
const HELD_BYTES_MAX: u64 = 16 << 30;

/// Clients, each with a file of its own on a server, and with more and more threads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Clients {
    machine: String,
    /// Sizes are divided by it, where not by what the machine says.
    divisor: Option<NonZeroU64>,
    clients: NonZeroU32,
    /// Bytes of each one's file.
    bytes_each: NonZeroU64,
    order: Order,
    request_bytes: NonZeroU64,
    /// Share of the files that is read once before it is measured.
    warm_percent: Positive,
    /// So many times.
    #[serde(default = "once")]
    warm_passes: NonZeroU32,
    /// In which order.
    #[serde(default = "random")]
    warm_order: Order,
    /// Whether cache devices are still fed while it is measured.
    #[serde(default = "yes")]
    feeds: bool,
    /// Before each measurement, and for how long it is measured.
    settle_s: Positive,
    measure_s: Positive,
    /// Threads of each client, one case after the other.
    threads: Vec<NonZeroU32>,
    variants: Vec<Variant>,
    /// What the source says.
    #[serde(default)]
    sources: Vec<SourceFigure>,
    /// Figures of one variant over those of another, at so many threads.
    #[serde(default)]
    compare: Vec<Compare>,
}

/// In which order a client's threads ask for blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Random,
    /// They take turns in one stream.
    Sequential,
}

fn random() -> Order {
    Order::Random
}

fn once() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn yes() -> bool {
    true
}

/// The machine in one of its forms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    caches: u32,
    /// Cache devices are read as by ZFS: what they have, even where the disks would be sooner.
    #[serde(default)]
    reads_as_zfs: bool,
    /// Share of the requests that are writes; none are without.
    write_percent: Option<Positive>,
    /// The share that is read before, where that is not what holds for all.
    warm_percent: Option<Positive>,
    /// Before each measurement, and for how long it is measured, where that is not what holds for
    /// all.
    settle_s: Option<Positive>,
    measure_s: Option<Positive>,
    /// Each number of threads finds the caches as they were warmed, not as the one before left
    /// them.
    #[serde(default)]
    warms_anew: bool,
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Measure {
    OperationsPerS,
    MibPerS,
    MeanMs,
    /// Prefetched records of all that were asked of the ARC.
    PrefetchPercent,
}

impl Measure {
    fn unit(self) -> &'static str {
        match self {
            Measure::OperationsPerS => "operations/s",
            Measure::MibPerS => "MiB/s",
            Measure::MeanMs => "ms",
            Measure::PrefetchPercent => "% prefetched",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFigure {
    variant: String,
    threads: NonZeroU32,
    measure: Measure,
    figure: Positive,
    /// A parameter of the machine was chosen to hit it.
    #[serde(default)]
    fitted: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    variant: String,
    over: String,
    threads: NonZeroU32,
    measure: Measure,
    figure: Option<Positive>,
}

/// What was found at one number of threads.
struct Point {
    figures: BTreeMap<Measure, f64>,
    p99_ms: f64,
    hit_percent: f64,
    flash_percent: f64,
    disks_busy_percent: f64,
    flash_written_mb_s: f64,
}

impl Clients {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        self.check(trial)?;
        let keys = "warm_passes, settle_s, measure_s or bytes_each, or a larger divisor";
        let (cases, mut work) = (self.threads.len(), Work::new(keys));
        for variant in &self.variants {
            let machine = self.machine(variant, trial)?;
            let bytes = (self.bytes_each.get() / machine.divisor) as f64;
            let warmed = bytes * f64::from(self.clients.get()) / WARMING.0 as f64
                * f64::from(self.warm_passes.get());
            let percent = variant.warm_percent.unwrap_or(self.warm_percent).get();
            let warmings = if variant.warms_anew { cases } else { 1 } as f64;
            work = work.and(warmings * warmed * percent / 100.0, WARMING.0);
            for time in [
                variant.settle_s.unwrap_or(self.settle_s),
                variant.measure_s.unwrap_or(self.measure_s),
            ] {
                for _ in &self.threads {
                    work = work.and_during(&machine, time, self.request_bytes.get());
                }
            }
        }
        Ok(work)
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut points = BTreeMap::new();
        for variant in &self.variants {
            let at_once = if variant.warms_anew { 1 } else { self.threads.len() };
            for threads in self.threads.chunks(at_once) {
                trial.tell(&variant.name);
                self.measure(variant, threads, trial, &mut points)?;
            }
        }
        let main = match self.order {
            Order::Random => Measure::OperationsPerS,
            Order::Sequential => Measure::MibPerS,
        };
        let mut outcome = Outcome::default();
        let shown = self.sources.iter().map(|source| source.threads).max();
        let shown = shown.unwrap_or(*self.threads.last().expect("there are threads"));
        for variant in &self.variants {
            for &threads in &self.threads {
                let point = &points[&(variant.name.clone(), threads)];
                let of_source = |measure: Measure| {
                    self.sources.iter().find(|source| {
                        source.variant == variant.name
                            && source.threads == threads
                            && source.measure == measure
                    })
                };
                for (&measure, &lab) in &point.figures {
                    let source = of_source(measure);
                    // With nothing to compare with, all is told.
                    let is_told = match self.sources.is_empty() {
                        true => measure == main || measure == Measure::MeanMs,
                        false => measure == main && threads == shown,
                    };
                    if source.is_some() || is_told {
                        let what = format!("{}: {}", variant.name, self::threads(threads));
                        let figure = source.map(|source| source.figure.get());
                        let finding = Finding::new(what, measure.unit(), figure, lab);
                        let is_fitted = source.is_some_and(|source| source.fitted);
                        outcome.findings.push(if is_fitted { finding.fitted() } else { finding });
                    }
                }
                if threads == shown {
                    let more = |what: &str, unit, lab| {
                        Finding::new(format!("{}: {what}", variant.name), unit, None, lab)
                    };
                    outcome.findings.extend([
                        more("99th percentile", "ms", point.p99_ms),
                        more("hits in RAM", "%", point.hit_percent),
                        more("of the misses, from flash", "%", point.flash_percent),
                        more("disks busy", "%", point.disks_busy_percent),
                        more("fed to flash", "MB/s", point.flash_written_mb_s),
                    ]);
                }
            }
        }
        for compare in &self.compare {
            let of = |variant: &String| {
                points
                    .get(&(variant.clone(), compare.threads))
                    .and_then(|point| point.figures.get(&compare.measure))
                    .copied()
                    .ok_or_else(|| ExperimentError::Unfit(format!("no figure of {variant:?}")))
            };
            let what =
                format!("{} over {}, {}", compare.variant, compare.over, threads(compare.threads));
            let figure = compare.figure.map(Positive::get);
            let ratio = of(&compare.variant)? / of(&compare.over)?;
            outcome.findings.push(Finding::new(what, "ratio", figure, ratio));
        }
        // A single point is no line; bars show it better.
        let measures = if self.threads.len() > 1 { vec![main, Measure::MeanMs] } else { vec![] };
        for measure in measures {
            let lines = self.variants.iter().map(|variant| {
                let point = |&threads: &NonZeroU32| {
                    let point = &points[&(variant.name.clone(), threads)];
                    (f64::from(threads.get()), point.figures[&measure])
                };
                Line::new(&variant.name, self.threads.iter().map(point).collect())
            });
            let sources = self.sources.iter().filter(|source| source.measure == measure);
            let point =
                |source: &SourceFigure| (f64::from(source.threads.get()), source.figure.get());
            let source = Line::new("the source", sources.map(point).collect());
            outcome.charts.push(Chart {
                title: format!("{} by threads of each client", measure.unit()),
                x: "threads of each client".to_string(),
                y: measure.unit().to_string(),
                doubling_x: true,
                lines: lines.collect(),
                dots: (!source.points.is_empty()).then_some(source),
            });
        }
        Ok(outcome)
    }

    /// Refuses what cannot be done or would not come to an end.
    fn check(&self, trial: Trial) -> Result<(), ExperimentError> {
        let unfit = |reason: &str| Err(ExperimentError::Unfit(reason.to_string()));
        if self.threads.is_empty() || self.variants.is_empty() {
            return unfit("there are no threads or no variants; name at least one of each");
        }
        for (at, threads) in self.threads.iter().enumerate() {
            if self.threads[..at].contains(threads) {
                return unfit(&format!("threads has {threads} twice; name each number once"));
            }
        }
        let clients = u64::from(self.clients.get());
        if self.threads.iter().any(|&it| clients * u64::from(it.get()) > THREADS_MAX) {
            let reason = format!("all clients together have at most {THREADS_MAX} threads");
            return Err(ExperimentError::Unfit(reason));
        }
        let caches = trial.machine(&self.machine)?.caches;
        caches.as_ref().map_or(Ok(()), CacheParameters::check_count)?;
        let caches_max = caches.map_or(0, |caches| caches.count);
        for Variant { name, caches, .. } in &self.variants {
            if *caches > caches_max {
                return unfit(&format!(
                    "{name:?} has {caches} caches, and the machine {caches_max}; raise count in \
                     its [caches]"
                ));
            }
        }
        distinct(self.variants.iter().map(|variant| variant.name.as_str()))?;
        let is_named = |name: &String| {
            let known = self.variants.iter().any(|variant| variant.name == *name);
            let names = || self.variants.iter().map(|variant| format!("{:?}", variant.name));
            let unknown = || format!("no variant is called {name:?}; there are {}", list(names()));
            if known { Ok(()) } else { Err(ExperimentError::Unfit(unknown())) }
        };
        self.sources.iter().try_for_each(|source| is_named(&source.variant))?;
        for Compare { variant, over, threads, .. } in &self.compare {
            is_named(variant)?;
            is_named(over)?;
            if variant == over {
                return unfit(&format!(
                    "{variant:?} is to be compared over itself, which is 1 whatever it does; name \
                     another one in over"
                ));
            }
            if !self.threads.contains(threads) {
                return unfit(&format!(
                    "{variant:?} and {over:?} are to be compared at {}, a number that is not \
                     measured; threads are {}",
                    self::threads(*threads),
                    list(self.threads.iter().map(ToString::to_string))
                ));
            }
        }
        Ok(())
    }

    /// The machine of a variant, if it fits here.
    fn machine(
        &self,
        variant: &Variant,
        trial: Trial,
    ) -> Result<MachineParameters, ExperimentError> {
        let mut parameters = trial.machine(&self.machine)?;
        if let Some(divisor) = self.divisor {
            parameters.divisor = trial.divisor(divisor);
        }
        if let Some(caches) = &mut parameters.caches {
            caches.count = variant.caches;
            caches.reads_as_zfs = variant.reads_as_zfs;
        }
        parameters.settings.extend(variant.settings.clone());
        let data = u128::from(self.bytes_each.get()) * u128::from(self.clients.get());
        let cached = parameters
            .caches
            .as_ref()
            .map_or(0, |caches| u128::from(caches.bytes.get()) * u128::from(caches.count));
        let held = data.min(parameters.memory_bytes.get().into()) + data.min(cached);
        let divisor_min = held.div_ceil(HELD_BYTES_MAX.into());
        if u128::from(parameters.divisor.get()) < divisor_min {
            let reason = format!(
                "the caches would hold {} GiB and may hold {} here; set divisor = {divisor_min} \
                 or more",
                (held / u128::from(parameters.divisor.get())) >> 30,
                HELD_BYTES_MAX >> 30
            );
            return Err(ExperimentError::Unfit(reason));
        }
        parameters.check()?;
        parameters.check_data(data)?;
        Ok(parameters)
    }

    fn measure(
        &self,
        variant: &Variant,
        threads: &[NonZeroU32],
        trial: Trial,
        points: &mut BTreeMap<(String, NonZeroU32), Point>,
    ) -> Result<(), ExperimentError> {
        let (parameters, seed) = (self.machine(variant, trial)?, trial.seed);
        let machine = Machine::new(&parameters, seed)?;
        let bytes = self.bytes_each.get() / parameters.divisor;
        let bytes = bytes / WARMING.0 * WARMING.0;
        if bytes < self.request_bytes.get() {
            return Err(ExperimentError::Unfit(format!(
                "of bytes_each {bytes} are left by the divisor {}, and request_bytes is {}; set a \
                 larger bytes_each or a smaller divisor",
                parameters.divisor, self.request_bytes
            )));
        }
        if bytes / WARMING.0 > CHUNKS_MAX / u64::from(self.clients.get()) {
            let most = CHUNKS_MAX * WARMING.0;
            let reason =
                format!("the files are too large; at most {most} bytes of all are followed");
            return Err(ExperimentError::Unfit(reason));
        }
        let files: Vec<Arc<OpenFile>> = (0..self.clients.get())
            .map(|client| machine.file(&format!("{client}"), bytes))
            .collect();
        let warm_percent = variant.warm_percent.unwrap_or(self.warm_percent).get();
        for _ in 0..self.warm_passes.get() {
            self.warm(&machine, &files, bytes, warm_percent, seed);
        }
        if !self.feeds {
            machine.stop_feeding();
        }
        let streams: Vec<Steps> = (0u64..)
            .zip(&files)
            .map(|(client, file)| {
                self.steps(variant, file.clone(), bytes, seed.wrapping_add(client))
            })
            .collect();
        let settle_s = variant.settle_s.unwrap_or(self.settle_s);
        let measure_s = variant.measure_s.unwrap_or(self.measure_s);
        for &threads in threads {
            let load: Vec<Steps> = streams
                .iter()
                .flat_map(|steps| std::iter::repeat_n(steps.clone(), threads.get() as usize))
                .collect();
            let seconds = |seconds: Positive| Duration::from_secs_f64(seconds.get());
            let load = machine.begin(&load);
            load.during(seconds(settle_s));
            let (before, work) = (machine.pool().statistics().counters, machine.devices());
            let tally = load.during(seconds(measure_s));
            if tally.operations == 0 {
                return Err(nothing_measured("measure_s"));
            }
            let counters = machine.pool().statistics().counters;
            let work = machine.devices().since(&work);
            load.end();
            let counted = |name: &str| {
                let of = |counters: &BTreeMap<String, u64>| counters.get(name).copied();
                (of(&counters).unwrap_or(0) - of(&before).unwrap_or(0)) as f64
            };
            let point = point(&tally, &work, counted);
            points.insert((variant.name.clone(), threads), point);
        }
        Ok(())
    }

    /// Reads a share of the files.
    fn warm(
        &self,
        machine: &Arc<Machine>,
        files: &[Arc<OpenFile>],
        bytes: u64,
        percent: f64,
        seed: u64,
    ) {
        let (chunk, readers) = WARMING;
        let share = |count: u64| (count as f64 * percent / 100.0) as usize;
        let steps = |mut chunks: Vec<(Arc<OpenFile>, u64)>| -> Steps {
            Arc::new(Mutex::new(move || {
                let (file, offset) = chunks.pop()?;
                Some(Step { file, offset, bytes: chunk, write: false })
            }))
        };
        let of_each = bytes / chunk;
        let of = |file: &Arc<OpenFile>| {
            let file = file.clone();
            (0..of_each).map(move |number| (file.clone(), number * chunk))
        };
        let threads = match self.warm_order {
            Order::Random => {
                let mut random = Random::new(seed ^ 1);
                let mut chunks: Vec<_> = files.iter().flat_map(of).collect();
                for last in (1..chunks.len()).rev() {
                    chunks.swap(last, random.below(last as u64 + 1) as usize);
                }
                chunks.truncate(share(of_each * files.len() as u64));
                vec![steps(chunks); readers]
            }
            Order::Sequential => {
                let stream = |file| {
                    let mut chunks: Vec<_> = of(file).take(share(of_each)).collect();
                    // The last one is taken first.
                    chunks.reverse();
                    steps(chunks)
                };
                files.iter().map(stream).collect()
            }
        };
        machine.load(&threads, None);
    }

    fn steps(&self, variant: &Variant, file: Arc<OpenFile>, bytes: u64, seed: u64) -> Steps {
        let mut random = Random::new(seed);
        let request = self.request_bytes.get();
        let blocks = bytes / request;
        let (order, mut next) = (self.order, random.below(blocks));
        let write_share = variant.write_percent.map_or(0.0, |percent| percent.get() / 100.0);
        Arc::new(Mutex::new(move || {
            let block = match order {
                Order::Random => random.below(blocks),
                Order::Sequential => next,
            };
            next = (next + 1) % blocks;
            let write = (random.below(1_000_000) as f64) < write_share * 1e6;
            Some(Step { file: file.clone(), offset: block * request, bytes: request, write })
        }))
    }
}

fn threads(count: NonZeroU32) -> String {
    match count.get() {
        1 => "1 thread".to_string(),
        count => format!("{count} threads"),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn point(tally: &Tally, work: &crate::machine::Work, counted: impl Fn(&str) -> f64) -> Point {
    let sum = |names: &[&str]| names.iter().map(|name| counted(name)).sum::<f64>();
    let percent = |part: f64, all: f64| if all == 0.0 { 0.0 } else { 100.0 * part / all };
    let demand = ["demand_data_hits", "demand_data_iohits", "demand_data_misses"];
    let ahead = ["prefetch_data_hits", "prefetch_data_iohits", "prefetch_data_misses"];
    let (demanded, prefetched) = (sum(&demand), sum(&ahead));
    let (from_flash, not) = (counted("l2_hits"), counted("l2_misses"));
    let figures = [
        (Measure::OperationsPerS, tally.operations_per_s()),
        (Measure::MibPerS, tally.mib_per_s()),
        (Measure::MeanMs, tally.mean_ms()),
        (Measure::PrefetchPercent, percent(prefetched, demanded + prefetched)),
    ];
    Point {
        figures: figures.into_iter().collect(),
        p99_ms: tally.quantile_ms(0.99),
        hit_percent: percent(counted("demand_data_hits"), demanded),
        flash_percent: percent(from_flash, from_flash + not),
        disks_busy_percent: work.disks_busy_percent(),
        flash_written_mb_s: work.caches.written_bytes as f64 / 1e6 / tally.elapsed.as_secs_f64(),
    }
}
