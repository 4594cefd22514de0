//! [`replay()`]: policies and sizes over one trace.

mod row;
mod size;

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use row::Row;
pub use size::Size;

use crate::policy::{Objects, PolicyName, Shipped};
use crate::trace::Trace;

/// Bytes of a record where everything is charged, whatever the blocks of the trace are.
pub const CHARGED_RECORD_BYTES: u32 = 4096;

/// Requests between two reports of progress.
const REPORT_REQUESTS: usize = 1 << 20;

/// What a size pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Contents only, as in papers.
    Plain,
    /// Everything. Every block is a record of [`CHARGED_RECORD_BYTES`]; what Warmfront ships pays
    /// for its headers, ghosts and index. The textbook policies have none of their own: they pay
    /// for each resident object what the shipped policy pays for its header and index, and have
    /// their ghosts for nothing.
    Charged,
}

/// What is to be replayed.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The policies.
    pub policies: Vec<PolicyName>,
    /// The sizes; each policy runs at each of them.
    pub sizes: Vec<Size>,
    /// What a size pays for.
    pub form: Form,
}

impl Form {
    /// The bytes of all contents, of which a trace may have recorded a share.
    pub fn all_bytes(self, trace: &Trace) -> u64 {
        (self.distinct_bytes(trace) as f64 / trace.recorded_share()) as u64
    }

    /// The bytes of all objects of a trace.
    pub fn distinct_bytes(self, trace: &Trace) -> u64 {
        match (self, trace.block_bytes()) {
            (Form::Charged, Some(_)) => trace.distinct() * u64::from(CHARGED_RECORD_BYTES),
            _ => trace.distinct_bytes(),
        }
    }

    /// Bytes of a block, if all are alike.
    pub fn block_bytes(self, trace: &Trace) -> Option<u32> {
        match self {
            Form::Plain => trace.block_bytes(),
            Form::Charged => trace.block_bytes().map(|_| CHARGED_RECORD_BYTES),
        }
    }
}

/// Runs every policy at every size, on all cores, each run from an empty cache to the end of the
/// trace. Rows come in the order of policies, then of sizes. `progress` is told now and then how
/// many requests were made since it was told last, [`Replay::requests`] in all.
pub fn replay(trace: &Trace, plan: &Replay, progress: &(dyn Fn(u64) + Sync)) -> Vec<Row> {
    let runs: Vec<(PolicyName, Size)> = plan
        .policies
        .iter()
        .flat_map(|&policy| plan.sizes.iter().map(move |&size| (policy, size)))
        .collect();
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(vec![None; runs.len()]);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(runs.len()) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(&(policy, size)) = runs.get(index)
                {
                    let row = run(trace, policy, size, plan.form, progress);
                    rows.lock().expect("no run panics with the lock")[index] = Some(row);
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no run panics with the lock");
    rows.into_iter().map(|row| row.expect("every run has ended")).collect()
}

impl Replay {
    /// Requests of all runs together.
    pub fn requests(&self, trace: &Trace) -> u64 {
        (self.policies.len() * self.sizes.len()) as u64 * trace.requests()
    }
}

/// One policy at one size.
fn run(
    trace: &Trace,
    policy: PolicyName,
    size: Size,
    form: Form,
    progress: &(dyn Fn(u64) + Sync),
) -> Row {
    let capacity = size.resolve(trace, form);
    let simulated = capacity.of_share(trace.recorded_share());
    let charged = form == Form::Charged;
    let header = if charged && !policy.is_shipped() { Shipped::record_overhead() } else { 0 };
    let (objects, limit) = match (trace.object_bytes(), simulated.blocks) {
        (Some(bytes), _) => (Objects::weighted(bytes.clone(), header), simulated.bytes),
        (None, Some(blocks)) if !charged => (Objects::uniform(trace.distinct() as usize), blocks),
        (None, _) if policy.is_shipped() => {
            let bytes = vec![CHARGED_RECORD_BYTES; trace.distinct() as usize];
            (Objects::weighted(bytes.into(), 0), simulated.bytes)
        }
        (None, _) => {
            let slots = simulated.bytes / u64::from(CHARGED_RECORD_BYTES + header);
            (Objects::uniform(trace.distinct() as usize), slots)
        }
    };
    let mut cache = policy.build(limit, &objects, charged, trace);
    let (mut misses, mut missed_bytes) = (0, 0);
    for requests in trace.ids().chunks(REPORT_REQUESTS) {
        match trace.object_bytes() {
            None => cache.replay(requests, &mut |_| misses += 1),
            Some(bytes) => cache.replay(requests, &mut |id| {
                misses += 1;
                missed_bytes += u64::from(bytes[id as usize]);
            }),
        }
        progress(requests.len() as u64);
    }
    let byte_miss_ratio = match trace.object_bytes() {
        None => misses as f64 / trace.requests() as f64,
        Some(bytes) => {
            let requested: u64 = trace.ids().iter().map(|&id| u64::from(bytes[id as usize])).sum();
            missed_bytes as f64 / requested as f64
        }
    };
    Row {
        trace: trace.name().to_string(),
        policy: policy.name(),
        recorded_percent: 100.0 * trace.recorded_share(),
        fraction: capacity.fraction,
        capacity_blocks: capacity.blocks,
        capacity_bytes: capacity.bytes,
        requests: trace.requests(),
        misses,
        miss_ratio: misses as f64 / trace.requests() as f64,
        byte_miss_ratio,
    }
}

#[cfg(test)]
mod tests;
