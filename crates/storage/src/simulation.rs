use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::origin::Wait;
use crate::{Clock, Spawn};

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }
}

/// Tasks and a clock of its own on one thread. Which of the tasks that could go on goes on is
/// decided by a seed, and time passes only when none can: so a seed replays a whole run exactly.
///
/// It is the [`Clock`] and the [`Spawn`] of what runs in it; its clones are the same simulation.
#[derive(Clone)]
pub struct Simulation {
    state: Arc<Mutex<State>>,
}

struct State {
    now: Duration,
    tasks: BTreeMap<u64, Task>,
    ready: Vec<u64>,
    timers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
    random: Random,
}

struct Task {
    /// `None` while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    ready: Arc<Ready>,
}

/// Makes a task ready.
struct Ready {
    task: u64,
    /// It stands among those that are ready.
    queued: AtomicBool,
    state: std::sync::Weak<Mutex<State>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed)
            && let Some(state) = self.state.upgrade()
        {
            state.lock().ready.push(self.task);
        }
    }
}

impl Simulation {
    /// A simulation at time zero, without tasks.
    pub fn new(seed: u64) -> Simulation {
        let state = State {
            now: Duration::ZERO,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            timers: BTreeMap::new(),
            next: 0,
            random: Random::new(seed),
        };
        Simulation { state: Arc::new(Mutex::new(state)) }
    }

    /// Lets one task go on, or else the time pass up to the next timer. `false` if neither
    /// can be: nothing will ever happen any more.
    pub fn step(&self) -> bool {
        let mut state = self.state.lock();
        if state.ready.is_empty() {
            let Some((&(time, _), _)) = state.timers.first_key_value() else { return false };
            state.now = time;
            while let Some(first) = state.timers.first_entry()
                && first.key().0 == time
            {
                let waker = first.remove();
                drop(state);
                waker.wake();
                state = self.state.lock();
            }
            return true;
        }
        let count = state.ready.len() as u64;
        let chosen = state.random.below(count) as usize;
        let number = state.ready.swap_remove(chosen);
        let Some(task) = state.tasks.get_mut(&number) else { return true };
        task.ready.queued.store(false, Ordering::Relaxed);
        let Some(mut future) = task.future.take() else { return true };
        let waker = Waker::from(task.ready.clone());
        drop(state);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state.lock();
        match polled {
            Poll::Ready(()) => {
                let ended = state.tasks.remove(&number);
                drop(state);
                drop((ended, future));
            }
            Poll::Pending => {
                // A crash may have forgotten it meanwhile.
                let ended = match state.tasks.get_mut(&number) {
                    Some(task) => task.future.replace(future),
                    None => Some(future),
                };
                drop(state);
                drop(ended);
            }
        }
        true
    }

    /// Steps until `future` is done.
    ///
    /// # Panics
    /// When nothing can happen any more and it is not done.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) =
                future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return output;
            }
            assert!(self.step(), "the simulation stands still");
        }
    }

    /// Steps until nothing can happen any more.
    pub fn settle(&self) {
        while self.step() {}
    }

    /// Forgets all tasks and timers, as a crash does.
    pub fn crash(&self) {
        let (tasks, timers) = {
            let mut state = self.state.lock();
            state.ready.clear();
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers))
        };
        drop((tasks, timers));
    }
}

impl Spawn for Simulation {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let ready = Arc::new(Ready {
            task: number,
            queued: AtomicBool::new(true),
            state: Arc::downgrade(&self.state),
        });
        state.tasks.insert(number, Task { future: Some(task), ready });
        state.ready.push(number);
    }
}

impl Clock for Simulation {
    fn now(&self) -> Duration {
        self.state.lock().now
    }

    fn sleep(&self, duration: Duration) -> Wait<'_> {
        let mut until = None;
        Box::pin(std::future::poll_fn(move |context| {
            let mut state = self.state.lock();
            let until = *until.get_or_insert(state.now + duration);
            if state.now >= until {
                return Poll::Ready(());
            }
            let number = state.next;
            state.next += 1;
            state.timers.insert((until, number), context.waker().clone());
            Poll::Pending
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(seed: u64) -> Vec<(u64, Duration)> {
        let simulation = Simulation::new(seed);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for task in 0..5 {
            let (simulation, seen) = (simulation.clone(), seen.clone());
            simulation.clone().spawn(Box::pin(async move {
                for step in 1..4 {
                    simulation.sleep(Duration::from_millis(step)).await;
                    seen.lock().push((task, simulation.now()));
                }
            }));
        }
        simulation.settle();
        let seen = seen.lock();
        seen.clone()
    }

    #[test]
    fn a_seed_replays_a_run_and_another_differs() {
        assert_eq!(trace(1), trace(1));
        assert_eq!(trace(1).len(), 15);
        assert!((2..10).any(|seed| trace(seed) != trace(1)));
        let last = trace(3).into_iter().map(|(_, time)| time).max();
        assert_eq!(last, Some(Duration::from_millis(1 + 2 + 3)), "no time is lost");
    }

    #[test]
    #[should_panic(expected = "stands still")]
    fn a_wait_without_end_is_found() {
        Simulation::new(0).run(std::future::pending::<()>());
    }
}
