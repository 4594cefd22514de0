use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::origin::Wait;
use crate::{Clock, Spawn};

/// Numbers that look random and are the same for the same seed (splitmix64).
///
/// ```
/// use storage::Random;
///
/// let (mut one, mut other) = (Random::new(7), Random::new(7));
/// assert_eq!(one.draw(), other.draw());
/// ```
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    ///
    /// ```
    /// use storage::Random;
    ///
    /// assert_ne!(Random::new(1).draw(), Random::new(2).draw());
    /// ```
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    ///
    /// ```
    /// let mut random = storage::Random::new(7);
    /// assert_ne!(random.draw(), random.draw());
    /// ```
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`, which is not zero.
    ///
    /// ```
    /// let mut random = storage::Random::new(7);
    /// assert!((0..100).all(|_| random.below(6) < 6));
    /// ```
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }
}

/// Tasks and a clock of its own on one thread. Which of the tasks that could go on goes on is
/// decided by a seed, and time passes only when none can: so a seed replays a whole run exactly.
///
/// It is the [`Clock`] and the [`Spawn`] of what runs in it; its clones are the same simulation.
///
/// ```
/// use std::time::Duration;
/// use storage::{Clock, Simulation, Spawn};
///
/// let simulation = Simulation::new(1);
/// let clock = simulation.clone();
/// simulation.spawn(Box::pin(async move {
///     clock.sleep(Duration::from_secs(60)).await;
/// }));
/// simulation.settle();
/// assert_eq!(simulation.now(), Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct Simulation {
    state: Arc<Mutex<State>>,
}

struct State {
    now: Duration,
    /// Those that have not ended, so that a crash can forget them.
    tasks: BTreeMap<u64, Arc<Task>>,
    ready: Vec<Arc<Task>>,
    timers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
    random: Random,
}

/// A task, which is its own waker.
struct Task {
    number: u64,
    stage: Mutex<Stage>,
    /// It stands among those that are ready.
    queued: AtomicBool,
    state: Weak<Mutex<State>>,
}

enum Stage {
    Waits(BoxFuture<'static, ()>),
    Polled,
    /// It has come to its end, or a crash has forgotten it.
    Ended,
}

impl Task {
    /// Ends it where it is: its future may hold what holds its wakers.
    fn forget(&self) {
        let stage = std::mem::replace(&mut *self.stage.lock(), Stage::Ended);
        drop(stage);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.tasks.values().for_each(|task| task.forget());
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed)
            && let Some(state) = self.state.upgrade()
        {
            state.lock().ready.push(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.load(Ordering::Relaxed) {
            self.clone().wake();
        }
    }
}

impl Simulation {
    /// A simulation at time zero, without tasks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use storage::{Clock, Simulation};
    ///
    /// assert_eq!(Simulation::new(1).now(), Duration::ZERO);
    /// ```
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
    ///
    /// ```
    /// use storage::{Simulation, Spawn};
    ///
    /// let simulation = Simulation::new(1);
    /// simulation.spawn(Box::pin(async {}));
    /// assert!(simulation.step());
    /// assert!(!simulation.step(), "nothing is left to do");
    /// ```
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
        let task = state.ready.swap_remove(chosen);
        drop(state);
        let stage = std::mem::replace(&mut *task.stage.lock(), Stage::Polled);
        let Stage::Waits(mut future) = stage else {
            *task.stage.lock() = Stage::Ended;
            return true;
        };
        task.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.clone());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut stage = task.stage.lock();
        match (polled, &*stage) {
            (Poll::Pending, Stage::Polled) => *stage = Stage::Waits(future),
            // A crash may have forgotten it meanwhile.
            _ => {
                *stage = Stage::Ended;
                drop(stage);
                self.state.lock().tasks.remove(&task.number);
                drop(future);
            }
        }
        true
    }

    /// Steps until `future` is done.
    ///
    /// # Panics
    /// When nothing can happen any more and it is not done.
    ///
    /// ```
    /// assert_eq!(storage::Simulation::new(1).run(async { 6 * 7 }), 42);
    /// ```
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
    ///
    /// ```
    /// use std::time::Duration;
    /// use storage::{Clock, Simulation, Spawn};
    ///
    /// let simulation = Simulation::new(1);
    /// for seconds in [5, 3] {
    ///     let clock = simulation.clone();
    ///     let wait = async move { clock.sleep(Duration::from_secs(seconds)).await };
    ///     simulation.spawn(Box::pin(wait));
    /// }
    /// simulation.settle();
    /// assert_eq!(simulation.now(), Duration::from_secs(5));
    /// ```
    pub fn settle(&self) {
        while self.step() {}
    }

    /// Forgets all tasks and timers, as a crash does.
    ///
    /// ```
    /// use storage::{Simulation, Spawn};
    ///
    /// let simulation = Simulation::new(1);
    /// simulation.spawn(Box::pin(async { panic!("it never comes to that") }));
    /// simulation.crash();
    /// simulation.settle();
    /// ```
    pub fn crash(&self) {
        let (tasks, timers) = {
            let mut state = self.state.lock();
            state.ready.clear();
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers))
        };
        tasks.values().for_each(|task| task.forget());
        drop(timers);
    }
}

impl Spawn for Simulation {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let task = Arc::new(Task {
            number,
            stage: Mutex::new(Stage::Waits(task)),
            queued: AtomicBool::new(true),
            state: Arc::downgrade(&self.state),
        });
        state.tasks.insert(number, task.clone());
        state.ready.push(task);
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
    fn a_simulation_takes_tasks_along_that_hold_their_own_wakers() {
        let simulation = Simulation::new(1);
        let waker = Arc::new(Mutex::new(None));
        let kept = waker.clone();
        simulation.spawn(Box::pin(std::future::poll_fn(move |context| {
            *kept.lock() = Some(context.waker().clone());
            Poll::Pending
        })));
        simulation.settle();
        assert_eq!(Arc::strong_count(&waker), 2);
        drop(simulation);
        assert_eq!(Arc::strong_count(&waker), 1);
    }

    #[test]
    #[should_panic(expected = "stands still")]
    fn a_wait_without_end_is_found() {
        Simulation::new(0).run(std::future::pending::<()>());
    }
}
