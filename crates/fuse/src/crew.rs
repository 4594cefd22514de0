use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Requests that find too many idle threads before one of them goes.
const PATIENCE: usize = 1000;

/// How many threads answer requests.
#[derive(Debug, Clone, Copy)]
pub struct Crewing {
    /// Most threads; each may wait for a slow origin.
    pub threads_max: usize,
    /// Threads that stay when there is nothing to do.
    pub idle_max: usize,
}

/// Bounds of the threads that stay by default. The kernel wakes the one that has slept longest,
/// so more than there are processors only means that each request finds colder caches.
const IDLE: std::ops::RangeInclusive<usize> = 2..=16;

impl Default for Crewing {
    fn default() -> Crewing {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Crewing { threads_max: 128, idle_max: processors.clamp(*IDLE.start(), *IDLE.end()) }
    }
}

/// The threads of a session: one is always left to read the next request, unless all that are
/// allowed are busy.
#[derive(Debug)]
pub(crate) struct Crew {
    crewing: Crewing,
    /// Threads that read or are about to.
    idle: AtomicUsize,
    /// Requests in a row that left too many threads idle.
    surplus: AtomicUsize,
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    threads: usize,
    leaving: bool,
    finished: bool,
}

impl Crew {
    pub(crate) fn new(crewing: Crewing) -> Crew {
        assert!(crewing.threads_max >= 1 && crewing.idle_max >= 1);
        Crew {
            crewing,
            idle: AtomicUsize::new(0),
            surplus: AtomicUsize::new(0),
            state: Mutex::default(),
            finished: Condvar::new(),
        }
    }

    /// Counts a thread that is about to be started; `false` if there are enough.
    pub(crate) fn join(&self) -> bool {
        let mut state = self.state.lock();
        let joins = state.threads < self.crewing.threads_max && !state.leaving;
        if joins {
            state.threads += 1;
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
        joins
    }

    /// A thread has a request; `true` if nobody is left to read the next one.
    pub(crate) fn begin(&self) -> bool {
        let idle = self.idle.fetch_sub(1, Ordering::Relaxed);
        if idle == 1 {
            self.surplus.store(0, Ordering::Relaxed);
        }
        idle == 1
    }

    /// A thread is about to answer, or needs not. It is free from here on: once the caller has
    /// its answer and asks anew, this thread may not have come back to read yet.
    pub(crate) fn free(&self) {
        self.idle.fetch_add(1, Ordering::Relaxed);
    }

    /// After a request: `true` if this thread is one too many and has left.
    pub(crate) fn end(&self) -> bool {
        if self.idle.load(Ordering::Relaxed) <= self.crewing.idle_max {
            return false;
        }
        if self.surplus.fetch_add(1, Ordering::Relaxed) < PATIENCE {
            return false;
        }
        self.surplus.store(0, Ordering::Relaxed);
        self.retire()
    }

    fn retire(&self) -> bool {
        let mut state = self.state.lock();
        let retires = state.threads > self.crewing.idle_max && !state.leaving;
        if retires {
            state.threads -= 1;
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
        retires
    }

    /// A thread goes because the mount has ended; `true` if it was the last one.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state.lock();
        state.leaving = true;
        state.threads -= 1;
        state.threads == 0
    }

    /// The mount has ended and all is done.
    pub(crate) fn finish(&self) {
        self.state.lock().finished = true;
        self.finished.notify_all();
    }

    pub(crate) fn wait(&self) {
        let mut state = self.state.lock();
        self.finished.wait_while(&mut state, |state| !state.finished);
    }

    /// The same for no longer than `time`; `true` if it has ended.
    pub(crate) fn wait_for(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        self.finished.wait_while_for(&mut state, |state| !state.finished, time);
        state.finished
    }

    /// Whether there are more threads than stay when there is nothing to do.
    pub(crate) fn is_large(&self) -> bool {
        self.threads() > self.crewing.idle_max
    }

    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_always_left_to_read() {
        let crew = Crew::new(Crewing { threads_max: 3, idle_max: 1 });
        assert!(crew.join());
        assert!(crew.begin(), "nobody else reads");
        assert!(crew.join());
        assert!(crew.begin());
        assert!(crew.join());
        assert!(crew.begin());
        assert!(!crew.join(), "three are enough");
        crew.free();
        assert!(crew.begin(), "all are busy again");
    }

    #[test]
    fn a_thread_is_idle_before_its_caller_asks_anew() {
        let crew = Crew::new(Crewing::default());
        assert!(crew.join() && crew.begin() && crew.join());
        crew.free();
        assert!(!crew.begin(), "the first one is about to read");
    }

    #[test]
    fn those_too_many_leave_one_by_one() {
        let crew = Crew::new(Crewing { threads_max: 10, idle_max: 2 });
        (0..10).for_each(|_| assert!(crew.join()));
        let mut requests = 0;
        while crew.threads() > 2 {
            assert!(!crew.begin());
            crew.free();
            crew.end();
            requests += 1;
            assert!(requests <= 8 * (PATIENCE + 1));
        }
        assert!(requests >= 8 * PATIENCE);
        assert_eq!(crew.idle.load(Ordering::Relaxed), 2);
        for _ in 0..3 * PATIENCE {
            assert!(!crew.begin());
            crew.free();
            assert!(!crew.end());
        }
    }

    #[test]
    fn the_last_one_to_leave_knows_it() {
        let crew = Crew::new(Crewing::default());
        assert!(crew.join() && crew.join());
        assert!(!crew.leave());
        assert!(!crew.join(), "the mount has ended");
        assert!(crew.leave());
        assert!(!crew.wait_for(Duration::from_millis(1)));
        crew.finish();
        crew.wait();
        assert!(crew.wait_for(Duration::ZERO));
    }
}
