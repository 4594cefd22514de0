use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use storage::{Clock, Spawn};
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
    /// How long steps were under way in this time, all together: also those that began before it
    /// or end after it.
    pub under_way: Duration,
}

impl Tally {
    fn new() -> Tally {
        let response_ns = Histogram::new_with_bounds(1, RESPONSE_NS_MAX, 3);
        let response_ns = response_ns.expect("three digits of an hour can be kept");
        let (elapsed, under_way) = (Duration::ZERO, Duration::ZERO);
        Tally { elapsed, operations: 0, bytes: 0, response_ns, under_way }
    }

    /// Reads and writes a second.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// MiB a second.
    pub fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / (1 << 20) as f64 / self.elapsed.as_secs_f64()
    }

    /// The mean response, milliseconds, by Little's law: what is still under way at the end counts
    /// with the time that it has taken so far. Slow responses would be missing from the mean of
    /// those that ended.
    pub fn mean_ms(&self) -> f64 {
        self.under_way.as_secs_f64() * 1e3 / self.operations as f64
    }

    /// The response below which a share of them are, milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.response_ns.value_at_quantile(share) as f64 / 1e6
    }
}

/// Threads that take their steps, each the next as soon as the last is done.
pub struct Load {
    shared: Arc<Shared>,
}

/// What the threads share.
struct Shared {
    machine: Arc<Machine>,
    state: Mutex<State>,
}

struct State {
    tally: Tally,
    /// When the last step ended.
    last: Duration,
    /// How many steps are under way, and until when that is counted.
    under_way: u32,
    counted: Duration,
    running: usize,
    /// No step begins any more.
    is_over: bool,
}

impl State {
    /// Counts for how long steps have been under way.
    fn count(&mut self, now: Duration) {
        self.tally.under_way += (now - self.counted) * self.under_way;
        self.counted = now;
    }
}

impl Machine {
    /// Lets threads begin with their steps; time passes only [during](Load::during) the load.
    pub fn begin(self: &Arc<Self>, threads: &[Steps]) -> Load {
        let now = self.now();
        let state = State {
            tally: Tally::new(),
            last: now,
            under_way: 0,
            counted: now,
            running: threads.len(),
            is_over: false,
        };
        let shared = Arc::new(Shared { machine: self.clone(), state: Mutex::new(state) });
        for steps in threads {
            self.simulation.spawn(Box::pin(thread(shared.clone(), steps.clone())));
        }
        Load { shared }
    }

    /// Lets threads take their steps until `limit` is over or they have none left. What is under
    /// way then is let come to its end.
    pub fn load(self: &Arc<Self>, threads: &[Steps], limit: Option<Duration>) -> Tally {
        let begun = self.now();
        let load = self.begin(threads);
        if let Some(limit) = limit {
            let tally = load.during(limit);
            load.end();
            return tally;
        }
        load.wait();
        let state = load.shared.state.lock();
        Tally { elapsed: state.last - begun, ..state.tally.clone() }
    }
}

impl Load {
    /// Lets time pass, and tells of the steps that end in it, whenever they began.
    pub fn during(&self, time: Duration) -> Tally {
        let machine = &self.shared.machine;
        {
            let state = &mut *self.shared.state.lock();
            state.tally = Tally::new();
            state.counted = machine.now();
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (clock, told) = (machine.simulation.clone(), is_over.clone());
        machine.simulation.spawn(Box::pin(async move {
            clock.sleep(time).await;
            told.store(true, Ordering::Relaxed);
        }));
        while !is_over.load(Ordering::Relaxed) {
            self.step();
        }
        let state = &mut *self.shared.state.lock();
        state.count(machine.now());
        Tally { elapsed: time, ..state.tally.clone() }
    }

    /// Lets what is under way come to its end.
    pub fn end(self) {
        self.shared.state.lock().is_over = true;
        self.wait();
    }

    fn wait(&self) {
        while self.shared.state.lock().running > 0 {
            self.step();
        }
    }

    fn step(&self) {
        assert!(self.shared.machine.simulation.step(), "the simulation stands still");
    }
}

async fn thread(shared: Arc<Shared>, steps: Steps) {
    let machine = &shared.machine;
    while !shared.state.lock().is_over {
        let begun = machine.now();
        let step = (steps.lock())();
        let Some(Step { file, offset, bytes, write }) = step else { break };
        {
            let state = &mut *shared.state.lock();
            state.count(begun);
            state.under_way += 1;
        }
        match write {
            true => machine.write(&file, offset, bytes).await,
            false => drop(machine.read(&file, offset, bytes).await),
        }
        let now = machine.now();
        let state = &mut *shared.state.lock();
        state.count(now);
        state.under_way -= 1;
        state.tally.operations += 1;
        state.tally.bytes += bytes;
        state.tally.response_ns.saturating_record((now - begun).as_nanos() as u64);
        state.last = now;
    }
    shared.state.lock().running -= 1;
}
