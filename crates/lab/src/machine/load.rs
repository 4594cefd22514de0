use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use storage::Spawn;
use warmfront::OpenFile;

use super::Machine;

/// Longer responses count as one of an hour.
const RESPONSE_NS_MAX: u64 = 3_600_000_000_000;

/// A read or a write of a client.
#[derive(Clone)]
pub struct Step {
    /// Of which file.
    pub file: Arc<OpenFile>,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether they are written.
    pub write: bool,
}

/// What a client does next; `None` when it is done. Several threads may take their steps from one.
pub type Steps = Arc<Mutex<dyn FnMut() -> Option<Step> + Send>>;

/// What clients have got done.
#[derive(Debug, Clone)]
pub struct Tally {
    /// From the first step to the last.
    pub elapsed: Duration,
    /// Reads and writes that ended in this time.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long they took, nanoseconds.
    pub response_ns: Histogram<u64>,
}

impl Tally {
    /// Reads and writes a second.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// MiB a second.
    pub fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / (1 << 20) as f64 / self.elapsed.as_secs_f64()
    }

    /// The mean response, milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.response_ns.mean() / 1e6
    }

    /// The response below which a share of them are, milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.response_ns.value_at_quantile(share) as f64 / 1e6
    }
}

/// What the threads share.
struct Shared {
    machine: Arc<Machine>,
    end: Option<Duration>,
    tally: Mutex<(Tally, Duration)>,
    running: Mutex<usize>,
}

impl Machine {
    /// Lets threads take their steps, each the next as soon as the last is done, until `limit` is
    /// over or they have none left. What is under way then is let come to its end.
    pub fn load(self: &Arc<Self>, threads: &[Steps], limit: Option<Duration>) -> Tally {
        let begun = self.now();
        let response_ns = Histogram::new_with_bounds(1, RESPONSE_NS_MAX, 3);
        let response_ns = response_ns.expect("three digits of an hour can be kept");
        let tally = Tally { elapsed: Duration::ZERO, operations: 0, bytes: 0, response_ns };
        let shared = Arc::new(Shared {
            machine: self.clone(),
            end: limit.map(|limit| begun + limit),
            tally: Mutex::new((tally, begun)),
            running: Mutex::new(threads.len()),
        });
        for steps in threads {
            self.simulation.spawn(Box::pin(thread(shared.clone(), steps.clone())));
        }
        while *shared.running.lock() > 0 {
            assert!(self.simulation.step(), "the simulation stands still");
        }
        let (mut tally, last) = shared.tally.lock().clone();
        tally.elapsed = limit.unwrap_or(last - begun);
        tally
    }
}

async fn thread(shared: Arc<Shared>, steps: Steps) {
    let machine = &shared.machine;
    loop {
        let begun = machine.now();
        if shared.end.is_some_and(|end| begun >= end) {
            break;
        }
        let step = (steps.lock())();
        let Some(Step { file, offset, bytes, write }) = step else { break };
        match write {
            true => machine.write(&file, offset, bytes).await,
            false => drop(machine.read(&file, offset, bytes).await),
        }
        let now = machine.now();
        if shared.end.is_none_or(|end| now <= end) {
            let (tally, last) = &mut *shared.tally.lock();
            tally.operations += 1;
            tally.bytes += bytes;
            tally.response_ns.saturating_record((now - begun).as_nanos() as u64);
            *last = now;
        }
    }
    *shared.running.lock() -= 1;
}
