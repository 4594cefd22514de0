//! [`Sizing`]: which RAM, flash and disks serve a load at which price.

mod levels;
mod prices;
mod response;

use std::collections::BTreeMap;
use std::num::{NonZero, NonZeroU32, NonZeroU64};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arc::{DenseIndex, HashIndex, PolicyKind};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use prices::{DiskPrice, FlashPrice, PRICE_MAX, Prices, PricesError, RamPrice};

use crate::mini_sim::SAMPLED_REQUESTS_MIN;
use crate::model::{Equipment, EquipmentError, Positive, Processor, Stripe, StripeParameters};
use crate::policy::{Evicting, Lru, Objects, PolicyName, Shipped};
use crate::replay::Size;
use crate::trace::Trace;
use levels::Levels;
use response::Response;

/// What a record takes on a cache device beside its contents, and the unit of space there.
const FLASH_HEADER_BYTES: u64 = 64;
const FLASH_UNIT_BYTES: u64 = 64;
/// The unit of a device's reads.
const SECTOR_BYTES: u64 = 512;
/// RAM that finds a record on a cache device.
const INDEX_BYTES: u64 = 16;
/// Bytes that lie together on one disk.
const RUN_BYTES: u64 = 128 << 10;
/// Requests that are simulated at most before only a sample is.
const REQUESTS_SIMULATED_MAX: u64 = 200_000_000;
/// Parts of a sample, from whose differences the error is estimated, and how many standard errors
/// the band reaches: 95 % of Student's distribution with one degree of freedom fewer.
const PARTS: u64 = 4;
const BAND_ERRORS: f64 = 3.182;
/// A choice is worth its price if the response is shorter by so much than that of any cheaper one.
const WORTH: f64 = 0.99;
/// Requests between two reports of progress.
const REPORT_REQUESTS: usize = 1 << 18;
/// Choices at most, so that a slip of the pen does not ask for years.
const CHOICES_MAX: usize = 100_000;
const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// What is to be tried: everything with everything.
#[derive(Debug, Clone)]
pub struct SizingPlan {
    /// Policies of RAM: [`PolicyName::Lru`], [`PolicyName::Arc`], [`PolicyName::Auto`].
    pub policies: Vec<PolicyName>,
    /// Bytes of a record; none for the objects of the trace as they are.
    pub record_bytes: Vec<Option<u32>>,
    /// Sizes of RAM.
    pub ram: Vec<Size>,
    /// Sizes of flash, each on each device.
    pub flash: Vec<Size>,
    /// Models of cache devices.
    pub flash_devices: Vec<String>,
    /// Whether to try without flash, too.
    pub without_flash: bool,
    /// The model of the pool's disks.
    pub disk: String,
    /// How many of them.
    pub disks: Vec<NonZeroU32>,
    /// Requests a second; without it one comes after the other.
    pub requests_per_s: Option<Positive>,
    /// The share of the objects that is simulated; without it, as many as take seconds.
    pub sample_percent: Option<Positive>,
    /// What it all costs.
    pub prices: Prices,
}

/// One choice, and what it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// What it costs.
    pub price: f64,
    /// The policy of RAM.
    pub policy: &'static str,
    /// Bytes of a record; none for the objects of the trace as they are.
    pub record_bytes: Option<u32>,
    /// RAM for records.
    pub ram_bytes: u64,
    /// RAM that finds the records on flash, which comes on top.
    pub index_bytes: u64,
    /// The cache device.
    pub flash_device: Option<String>,
    /// Its size.
    pub flash_bytes: u64,
    /// Disks.
    pub disks: u32,
    /// Requests found in RAM, %.
    pub ram_hit_percent: f64,
    /// Requests found on flash, %.
    pub flash_hit_percent: f64,
    /// Where only a sample was recorded or simulated: points by which the requests that go to the
    /// disks may be off, in 19 of 20 samples.
    pub error_points: Option<f64>,
    /// The mean response, ms; none if devices cannot keep up.
    pub response_ms: Option<f64>,
    /// The mean response of the disks with no cache at all, ms; none if they cannot keep up.
    pub uncached_ms: Option<f64>,
    /// The 99th percentile, ms.
    pub response_99_ms: Option<f64>,
    /// Requests a second that devices keep up with.
    pub requests_per_s_max: f64,
    /// Bytes written to flash for each request.
    pub flash_written_bytes: f64,
    /// Until flash is worn out at the rate of the plan.
    pub flash_life_years: Option<f64>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizing {
    /// The trace.
    pub trace: String,
    /// The money of prices.
    pub currency: String,
    /// The share of the contents that the trace has recorded, %. Sizes are for all of them.
    pub recorded_percent: f64,
    /// The share of what was recorded that was simulated, %.
    pub sample_percent: f64,
    /// Requests that are the first for their record, %, by bytes of a record: no cache helps them.
    pub first_percent: BTreeMap<u32, f64>,
    /// All choices, the cheapest first.
    pub choices: Vec<Choice>,
}

/// Why nothing can be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// Part of the equipment cannot be had.
    #[error(transparent)]
    Equipment(#[from] EquipmentError),
    /// The disks do not fit together.
    #[error("the disks {name} cannot be used: {reason}")]
    Disks {
        /// The model.
        name: String,
        /// Why.
        reason: String,
    },
    /// There is no price.
    #[error(
        "there is no price of {kind} {name:?}; add [{kind}.{name:?}] to the file with --prices"
    )]
    NoPrice {
        /// Disks or flash.
        kind: &'static str,
        /// The model.
        name: String,
    },
    /// A policy does not tell what it evicts.
    #[error("{0} has no flash level to feed; take lru, arc or auto")]
    Policy(PolicyName),
    /// The trace cannot be divided so.
    #[error(
        "the trace {trace} cannot be taken in records of {record_bytes} bytes: {reason}; leave out \
         --records"
    )]
    Records {
        /// The trace.
        trace: String,
        /// The records.
        record_bytes: u32,
        /// Why.
        reason: String,
    },
    /// A size has no room for anything.
    #[error(
        "{level} of {bytes} bytes holds no record: one takes {record_bytes} bytes with its header; \
         name larger sizes of {level}, or smaller --records"
    )]
    NoRecord {
        /// RAM or flash.
        level: &'static str,
        /// The size.
        bytes: u64,
        /// The largest record that is tried.
        record_bytes: u64,
    },
    /// The sample is too small.
    #[error(
        "a sample of {percent} % has {requests} requests, and {SAMPLED_REQUESTS_MIN} are needed; \
         take a larger --sample"
    )]
    Sample {
        /// The share.
        percent: f64,
        /// The requests of the sample.
        requests: u64,
    },
    /// There is too much to try.
    #[error("{0} choices are too many; at most {CHOICES_MAX} are tried, so name fewer sizes")]
    TooMany(usize),
    /// There is nothing to try.
    #[error("there is nothing to try: name sizes of RAM, disks and policies")]
    Nothing,
}

/// What one pass over a trace found.
#[derive(Debug, Clone, Default)]
struct Pass {
    ram_hits: f64,
    /// Hits and bytes written, by size of flash.
    flash: Vec<(f64, f64)>,
}

/// The trace in records of one size: a sample, and its parts.
struct Load {
    record_bytes: Option<u32>,
    /// The whole trace's.
    distinct: u64,
    requests: u64,
    /// The share of the trace that was sampled, and the one of the contents that is in the sample.
    rate: f64,
    share: f64,
    sample: Trace,
    parts: Vec<Trace>,
}

/// Tries everything, on all cores. `progress` is told now and then how many requests were
/// simulated, and how many there will be in all.
///
/// RAM is simulated with its policy, flash as a ring that is fed with what RAM evicts; the devices'
/// responses are those of their models under reads at random places. Reads and writes are requests
/// alike.
///
/// # Errors
/// When something of the plan cannot be had.
pub fn sizing(
    trace: &Trace,
    plan: &SizingPlan,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Sizing, SizingError> {
    let flash_choices = plan.flash.len() * plan.flash_devices.len();
    let choices = [plan.policies.len(), plan.record_bytes.len(), plan.ram.len(), plan.disks.len()]
        .iter()
        .product::<usize>()
        .saturating_mul(flash_choices + usize::from(plan.without_flash));
    match choices {
        0 => return Err(SizingError::Nothing),
        1..=CHOICES_MAX => {}
        more => return Err(SizingError::TooMany(more)),
    }
    let known = [PolicyName::Lru, PolicyName::Arc, PolicyName::Auto];
    if let Some(&other) = plan.policies.iter().find(|policy| !known.contains(policy)) {
        return Err(SizingError::Policy(other));
    }
    let equipment = Hardware::new(plan)?;
    let runs = (plan.policies.len() * plan.record_bytes.len() * plan.ram.len()) as u64;
    let sample_percent = plan.sample_percent.map_or_else(
        || {
            let all = (trace.requests() * runs).max(1);
            let affordable = REQUESTS_SIMULATED_MAX as f64 / all as f64;
            let enough = 4.0 * SAMPLED_REQUESTS_MIN as f64 / trace.requests() as f64;
            (100.0 * affordable.max(enough)).min(100.0)
        },
        |percent| percent.get().min(100.0),
    );
    let loads = plan
        .record_bytes
        .iter()
        .map(|&bytes| Load::new(trace, bytes, sample_percent))
        .collect::<Result<Vec<_>, _>>()?;
    let largest = loads.iter().map(Load::record_bytes).max().unwrap_or(1);
    let header = u64::from(Shipped::record_overhead());
    let ram = bytes_of("RAM", &plan.ram, trace, u64::from(largest) + header)?;
    let flash = bytes_of("flash", &plan.flash, trace, on_flash(largest))?;

    let mut jobs = Vec::new();
    for load in &loads {
        for &policy in &plan.policies {
            for &ram_bytes in &ram {
                let parts = load.parts.iter().map(|part| (part, load.share / PARTS as f64));
                let sample = std::iter::once((&load.sample, load.share));
                jobs.extend(
                    sample.chain(parts).map(|(part, share)| (policy, ram_bytes, part, share)),
                );
            }
        }
    }
    let simulated = jobs.iter().map(|(_, _, part, _)| part.requests()).sum();
    let passes = on_all_cores(&jobs, |&(policy, ram_bytes, part, share)| {
        pass(part, policy, ram_bytes, &flash, share, &|requests| progress(requests, simulated))
    });

    let mut passes = passes.into_iter();
    let mut choices = Vec::new();
    for load in &loads {
        let responses = equipment.responses(plan, load)?;
        for &policy in &plan.policies {
            for &ram_bytes in &ram {
                let whole = passes.next().expect("each job has its result");
                let parts: Vec<Pass> = passes.by_ref().take(load.parts.len()).collect();
                let found = Found { load, policy, ram_bytes, whole, parts };
                found.choices(plan, &equipment, &responses, &flash, &mut choices);
            }
        }
    }
    choices.sort_by(|a, b| {
        let response = |choice: &Choice| choice.response_ms.unwrap_or(f64::INFINITY);
        a.price.total_cmp(&b.price).then(response(a).total_cmp(&response(b)))
    });
    let first = |load: &Load| {
        let bytes = load.record_bytes.or(trace.block_bytes()).unwrap_or(0);
        (bytes, 100.0 * load.distinct as f64 / trace.requests() as f64)
    };
    Ok(Sizing {
        trace: trace.name().to_owned(),
        currency: plan.prices.currency.clone(),
        recorded_percent: 100.0 * trace.recorded_share(),
        sample_percent,
        first_percent: loads.iter().map(first).collect(),
        choices,
    })
}

/// What sizes come to, the smallest first. Each holds at least one record, which takes so much.
fn bytes_of(
    level: &'static str,
    sizes: &[Size],
    trace: &Trace,
    record_bytes: u64,
) -> Result<Vec<u64>, SizingError> {
    let bytes = sizes.iter().map(|&size| match size {
        Size::Bytes(bytes) if bytes < record_bytes => {
            Err(SizingError::NoRecord { level, bytes, record_bytes })
        }
        size => Ok(size.bytes(trace).max(record_bytes)),
    });
    let mut bytes = bytes.collect::<Result<Vec<u64>, _>>()?;
    bytes.sort_unstable();
    bytes.dedup();
    Ok(bytes)
}

/// What a record takes on a cache device.
fn on_flash(bytes: u32) -> u64 {
    (u64::from(bytes) + FLASH_HEADER_BYTES).next_multiple_of(FLASH_UNIT_BYTES)
}

impl Sizing {
    /// The choices that are worth their price: each responds sooner than all that are cheaper.
    pub fn worthwhile(&self) -> Vec<&Choice> {
        let mut best = f64::INFINITY;
        let worth = |choice: &&Choice| {
            let response = choice.response_ms.unwrap_or(f64::INFINITY);
            let is_worth = response < best * WORTH;
            if is_worth {
                best = response;
            }
            is_worth
        };
        self.choices.iter().filter(worth).collect()
    }

    /// The cheapest choice that responds within `response_ms` on average and costs at most
    /// `budget`.
    pub fn cheapest(&self, response_ms: Option<f64>, budget: Option<f64>) -> Option<&Choice> {
        let affordable = || {
            let fits = |choice: &&Choice| budget.is_none_or(|budget| choice.price <= budget);
            self.choices.iter().filter(|choice| choice.response_ms.is_some()).filter(fits)
        };
        match response_ms {
            Some(wanted) => affordable().find(|choice| choice.response_ms <= Some(wanted)),
            // The best that the money buys.
            None => affordable().min_by(|a, b| {
                let response = |choice: &Choice| choice.response_ms.unwrap_or(f64::INFINITY);
                response(a).total_cmp(&response(b))
            }),
        }
    }
}

impl Load {
    fn new(trace: &Trace, record_bytes: Option<u32>, percent: f64) -> Result<Load, SizingError> {
        let records = match record_bytes {
            None => None,
            Some(bytes) => Some(trace.in_records(bytes).ok_or_else(|| SizingError::Records {
                trace: trace.name().to_owned(),
                record_bytes: bytes,
                reason: match trace.block_bytes() {
                    None => "its objects are of different sizes".to_owned(),
                    Some(block) => format!("that is not a number of its blocks of {block} bytes"),
                },
            })?),
        };
        let whole = records.as_ref().unwrap_or(trace);
        let rate = percent / 100.0;
        let bound = (rate * (1u64 << 32) as f64) as u64;
        let hash = |id: u32| xxh3_64_with_seed(&id.to_le_bytes(), 1);
        let sampled = whole.sample(|id| hash(id) & u64::from(u32::MAX) < bound);
        let requests = sampled.as_ref().map_or(0, |(sample, _)| sample.requests());
        let (sample, objects) = match sampled {
            Some(found) if rate >= 1.0 || requests >= SAMPLED_REQUESTS_MIN => found,
            _ => return Err(SizingError::Sample { percent, requests }),
        };
        let part_of: Vec<u64> = objects.iter().map(|&id| (hash(id) >> 32) % PARTS).collect();
        let part = |part| sample.sample(|id| part_of[id as usize] == part).map(|(part, _)| part);
        let share = rate * whole.recorded_share();
        let parts = if share < 1.0 { (0..PARTS).filter_map(part).collect() } else { Vec::new() };
        let (distinct, requests) = (whole.distinct(), whole.requests());
        Ok(Load { record_bytes, distinct, requests, rate, share, sample, parts })
    }

    /// Bytes of a record, or of the smallest object.
    fn record_bytes(&self) -> u32 {
        let smallest = || self.sample.object_bytes().and_then(|bytes| bytes.iter().min().copied());
        self.sample.block_bytes().or_else(smallest).unwrap_or(1)
    }

    /// Bytes of a read of a device.
    fn read_bytes(&self) -> u64 {
        match self.sample.block_bytes() {
            Some(bytes) => u64::from(bytes).next_multiple_of(SECTOR_BYTES),
            None => {
                let mean = self.sample.distinct_bytes() / self.sample.distinct();
                mean.max(1).next_multiple_of(SECTOR_BYTES)
            }
        }
    }

    /// The requests that a sample would have, if it had just its share.
    fn expected(&self) -> f64 {
        self.requests as f64 * self.rate
    }
}

/// One pass: a policy with one size of RAM, and all sizes of flash beside it.
fn pass(
    trace: &Trace,
    policy: PolicyName,
    ram_bytes: u64,
    flash_bytes: &[u64],
    share: f64,
    progress: &dyn Fn(u64),
) -> Pass {
    let header = Shipped::record_overhead();
    let scaled = |bytes: u64| (bytes as f64 * share) as u64;
    let (objects, capacity) = match (trace.object_bytes(), trace.block_bytes()) {
        (Some(bytes), _) => (Objects::weighted(bytes.clone(), header), scaled(ram_bytes)),
        (None, block) => {
            let record = u64::from(block.unwrap_or(1)) + u64::from(header);
            (Objects::uniform(trace.distinct() as usize), (scaled(ram_bytes) / record).max(1))
        }
    };
    let ram: Box<dyn Evicting> = match policy {
        PolicyName::Arc => {
            Box::new(Shipped::<DenseIndex>::new(PolicyKind::Arc, capacity, &objects, false))
        }
        PolicyName::Auto => {
            Box::new(Shipped::<HashIndex>::new(PolicyKind::Auto, capacity, &objects, false))
        }
        _ => Box::new(Lru::new(capacity, &objects)),
    };
    let bytes_of = |id: u32| match trace.object_bytes() {
        Some(bytes) => on_flash(bytes[id as usize]),
        None => on_flash(trace.block_bytes().unwrap_or(1)),
    };
    let flash: Vec<u64> = flash_bytes.iter().map(|&bytes| scaled(bytes)).collect();
    let mut levels = Levels::new(ram, &flash, trace.distinct() as usize, &bytes_of);
    for requests in trace.ids().chunks(REPORT_REQUESTS) {
        requests.iter().for_each(|&id| levels.access(id));
        progress(requests.len() as u64);
    }
    let flash = levels.rings.iter().map(|ring| (ring.hits as f64, ring.written as f64)).collect();
    Pass { ram_hits: levels.ram_hits as f64, flash }
}

/// Does all jobs; results come in the order of the jobs.
fn on_all_cores<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(job) = jobs.get(index)
                {
                    let result = work(job);
                    results.lock().expect("no job panics with the lock")[index] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no job panics with the lock");
    results.into_iter().map(|result| result.expect("every job has ended")).collect()
}

/// The models and prices of a plan.
struct Hardware {
    disk: crate::model::DiskParameters,
    disk_price: DiskPrice,
    flash: Vec<(String, Equipment, FlashPrice)>,
    processor: crate::model::ProcessorParameters,
}

/// How devices respond to reads of the bytes of one load.
struct Responses {
    hit_ms: f64,
    hits_per_s_max: f64,
    /// By number of disks.
    disks: Vec<Response>,
    flash: Vec<Response>,
}

impl Hardware {
    fn new(plan: &SizingPlan) -> Result<Hardware, SizingError> {
        let no_price = |kind, name: &String| SizingError::NoPrice { kind, name: name.clone() };
        let disk = match Equipment::named(&plan.disk)? {
            Equipment::Disk(disk) => disk,
            _ => {
                let reason = "it is not a disk".to_owned();
                return Err(SizingError::Disks { name: plan.disk.clone(), reason });
            }
        };
        let flash = plan.flash_devices.iter().map(|name| {
            let price = plan.prices.flash.get(name).ok_or_else(|| no_price("flash", name))?;
            Ok((name.clone(), Equipment::named(name)?, *price))
        });
        let processor = match Equipment::shipped("processor")? {
            Equipment::Processor(processor) => processor,
            _ => unreachable!("the lab ships a processor by this name"),
        };
        let price = plan.prices.disks.get(&plan.disk);
        Ok(Hardware {
            disk,
            disk_price: *price.ok_or_else(|| no_price("disks", &plan.disk))?,
            flash: flash.collect::<Result<_, SizingError>>()?,
            processor,
        })
    }

    fn responses(&self, plan: &SizingPlan, load: &Load) -> Result<Responses, SizingError> {
        let bytes = load.read_bytes();
        let stripe = |disks: NonZeroU32| StripeParameters {
            mirrors: disks,
            sides: NonZeroU32::MIN,
            run_bytes: NonZeroU64::new(RUN_BYTES.max(bytes)).expect("not zero"),
            scattered_percent: None,
        };
        let built = plan.disks.iter().map(|&disks| {
            let unfit = |reason| SizingError::Disks { name: plan.disk.clone(), reason };
            Stripe::new(&self.disk, &stripe(disks)).map_err(unfit).map(|_| disks)
        });
        let disks: Vec<NonZeroU32> = built.collect::<Result<_, _>>()?;
        let of_disks = |&disks: &NonZeroU32| {
            let build = || Stripe::new(&self.disk, &stripe(disks)).expect("it was built before");
            Response::of(&|| Box::new(build()), bytes)
        };
        for (name, flash, _) in &self.flash {
            flash.build(name, 1)?;
        }
        let of_flash = |(name, flash, _): &(String, Equipment, FlashPrice)| {
            Response::of(&|| flash.build(name, 1).expect("it was built before"), bytes)
        };
        let hit_ms = Processor::new(&self.processor).work(0, bytes) as f64 / 1e6;
        Ok(Responses {
            hit_ms,
            hits_per_s_max: f64::from(self.processor.cores.get()) * 1e3 / hit_ms,
            disks: disks.iter().map(of_disks).collect(),
            flash: self.flash.iter().map(of_flash).collect(),
        })
    }
}

/// What was found for one policy and size of RAM.
struct Found<'a> {
    load: &'a Load,
    policy: PolicyName,
    ram_bytes: u64,
    whole: Pass,
    parts: Vec<Pass>,
}

impl Found<'_> {
    /// The choices with all flash and disks.
    fn choices(
        &self,
        plan: &SizingPlan,
        hardware: &Hardware,
        responses: &Responses,
        flash_bytes: &[u64],
        choices: &mut Vec<Choice>,
    ) {
        for (number, &disks) in plan.disks.iter().enumerate() {
            let origin = (disks, &responses.disks[number]);
            if plan.without_flash {
                choices.push(self.choice(plan, hardware, responses, origin, None));
            }
            for device in 0..hardware.flash.len() {
                for (at, &bytes) in flash_bytes.iter().enumerate() {
                    let flash = Some((device, at, bytes));
                    choices.push(self.choice(plan, hardware, responses, origin, flash));
                }
            }
        }
    }

    fn choice(
        &self,
        plan: &SizingPlan,
        hardware: &Hardware,
        responses: &Responses,
        (disks, origin): (NonZeroU32, &Response),
        flash: Option<(usize, usize, u64)>,
    ) -> Choice {
        let sample = &self.load.sample;
        let hits = |pass: &Pass| flash.map_or((0.0, 0.0), |(_, at, _)| pass.flash[at]);
        // What a sample lacks of its share of the requests are hits of objects with very many.
        let lacking = |pass: &Pass, requests: f64, expected: f64| {
            let disk = requests - pass.ram_hits - hits(pass).0;
            (disk / expected, hits(pass).0 / expected)
        };
        let expected = self.load.expected();
        let (disk_share, flash_share) = lacking(&self.whole, sample.requests() as f64, expected);
        let (disk_share, flash_share) = (disk_share.min(1.0), flash_share.min(1.0));
        let ram_share = (1.0 - disk_share - flash_share).max(0.0);
        let of_parts: Vec<f64> = self
            .parts
            .iter()
            .zip(&self.load.parts)
            .map(|(pass, part)| lacking(pass, part.requests() as f64, expected / PARTS as f64).0)
            .collect();
        let written = hits(&self.whole).1 / expected;
        let (flash_device, flash_bytes, index_bytes, flash_price, count) = match flash {
            None => (None, 0, 0, 0.0, 1),
            Some((device, _, bytes)) => {
                let (name, equipment, price) = &hardware.flash[device];
                let record = self.load.read_bytes() + FLASH_HEADER_BYTES;
                let record = record.next_multiple_of(FLASH_UNIT_BYTES);
                let index = bytes / record * INDEX_BYTES;
                let count = match equipment.capacity_bytes() {
                    None | Some(0) => 1,
                    Some(each) => bytes.div_ceil(each).max(1),
                };
                let price = bytes as f64 / 1e9 * price.per_gb.get();
                (Some(name.clone()), bytes, index, price, count)
            }
        };
        let ram_price = (self.ram_bytes + index_bytes) as f64 / (1u64 << 30) as f64
            * plan.prices.ram.per_gib.get();
        let disk_price = f64::from(disks.get()) * hardware.disk_price.each.get();

        let rate = plan.requests_per_s.map_or(0.0, Positive::get);
        let on_flash = flash.map(|(device, ..)| &responses.flash[device]);
        let times = (
            origin.at(rate * disk_share),
            on_flash.map_or(Some((0.0, Vec::new())), |it| it.at(rate * flash_share / count as f64)),
        );
        let within = |share: f64, per_s_max: f64| match share > 0.0 {
            true => per_s_max / share,
            false => f64::INFINITY,
        };
        let requests_per_s_max = responses
            .hits_per_s_max
            .min(within(disk_share, origin.reads_per_s_max))
            .min(on_flash.map_or(f64::INFINITY, |it| {
                within(flash_share, it.reads_per_s_max * count as f64)
            }));
        let keeps_up = rate <= requests_per_s_max;
        let (response_ms, response_99_ms) = match times {
            (Some((disk_ms, disk)), Some((flash_ms, flash))) if keeps_up => {
                let mean = responses.hit_ms + disk_share * disk_ms + flash_share * flash_ms;
                let parts =
                    [(ram_share, &[0.0][..]), (flash_share, &flash[..]), (disk_share, &disk[..])];
                (Some(mean), Some(responses.hit_ms + quantile(&parts, 0.99)))
            }
            _ => (None, None),
        };
        let life = |device: usize| {
            let per_s = rate * written;
            let endured = flash_bytes as f64 * hardware.flash[device].2.endurance_writes.get();
            (per_s > 0.0).then(|| endured / per_s / SECONDS_PER_YEAR)
        };
        Choice {
            price: ram_price + flash_price + disk_price,
            policy: self.policy.name(),
            record_bytes: self.load.record_bytes,
            ram_bytes: self.ram_bytes,
            index_bytes,
            flash_device,
            flash_bytes,
            disks: disks.get(),
            ram_hit_percent: 100.0 * ram_share,
            flash_hit_percent: 100.0 * flash_share,
            error_points: (of_parts.len() > 1).then(|| 100.0 * BAND_ERRORS * error(&of_parts)),
            response_ms,
            uncached_ms: origin.at(rate).map(|(disk_ms, _)| responses.hit_ms + disk_ms),
            response_99_ms,
            requests_per_s_max,
            flash_written_bytes: written,
            flash_life_years: flash.and_then(|(device, ..)| life(device)),
        }
    }
}

/// The standard error of the mean.
fn error(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (count * (count - 1.0))).sqrt()
}

/// The value below which `share` of all is, where each part has a share of the whole, and values
/// at equal distances.
fn quantile(parts: &[(f64, &[f64])], share: f64) -> f64 {
    let mut weighted: Vec<(f64, f64)> = parts
        .iter()
        .flat_map(|(part, values)| {
            values.iter().map(move |&value| (value, part / values.len() as f64))
        })
        .collect();
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let reached = weighted.iter().find(|(_, weight)| {
        sum += weight;
        sum >= share
    });
    reached.or(weighted.last()).map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests;
