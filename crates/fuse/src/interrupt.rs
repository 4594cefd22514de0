use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Interruptions that are remembered for requests that have not begun to wait yet.
const EARLY_MAX: usize = 64;

/// Whether the caller of a waiting request has been interrupted.
///
/// A clone can be kept where the wait is ended from, which calls [`wake`](Interrupt::wake).
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    interrupted: bool,
    woken: bool,
}

impl Interrupt {
    /// Whether the caller has been interrupted.
    pub fn is_set(&self) -> bool {
        self.0.state.lock().interrupted
    }

    /// Waits until the caller is interrupted or [`wake`](Interrupt::wake) is called, and returns
    /// whether it was interrupted.
    pub fn wait(&self) -> bool {
        let mut state = self.0.state.lock();
        self.0.changed.wait_while(&mut state, |state| !state.interrupted && !state.woken);
        state.woken = false;
        state.interrupted
    }

    /// Ends one [`wait`](Interrupt::wait), the present or the next one.
    pub fn wake(&self) {
        self.0.state.lock().woken = true;
        self.0.changed.notify_all();
    }

    fn set(&self) {
        self.0.state.lock().interrupted = true;
        self.0.changed.notify_all();
    }
}

/// The requests that wait for a lock, so that an interruption finds them.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    waiting: Vec<(u64, Interrupt)>,
    early: VecDeque<u64>,
}

impl Interrupts {
    /// Runs `wait` with a flag that is set when the request `unique` is interrupted.
    pub(crate) fn during<T>(&self, unique: u64, wait: impl FnOnce(&Interrupt) -> T) -> T {
        let interrupt = Interrupt::default();
        {
            let mut table = self.0.lock();
            if table.early.contains(&unique) {
                interrupt.set();
            }
            table.waiting.push((unique, interrupt.clone()));
        }
        let result = wait(&interrupt);
        self.0.lock().waiting.retain(|(waiting, _)| *waiting != unique);
        result
    }

    /// Sets the flag of the request `unique`.
    ///
    /// Another thread may read the interruption before the request itself is registered, so an
    /// unknown one is remembered for a while; most belong to requests that never wait here.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut table = self.0.lock();
        match table.waiting.iter().find(|(waiting, _)| *waiting == unique) {
            Some((_, interrupt)) => interrupt.set(),
            None => {
                if table.early.len() == EARLY_MAX {
                    table.early.pop_front();
                }
                table.early.push_back(unique);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_interruption_is_not_lost() {
        let interrupts = Interrupts::default();
        interrupts.interrupt(7);
        assert!(interrupts.during(7, Interrupt::wait));
        assert!(!interrupts.during(8, Interrupt::is_set));
    }

    #[test]
    fn an_interruption_ends_a_wait() {
        let interrupts = Interrupts::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| interrupts.during(9, Interrupt::wait));
            interrupts.interrupt(9);
            assert!(waiting.join().is_ok_and(|interrupted| interrupted));
        });
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let interrupts = Interrupts::default();
        (0..1000).for_each(|unique| interrupts.interrupt(unique));
        assert_eq!(interrupts.0.lock().early.len(), EARLY_MAX);
        assert!(interrupts.during(999, Interrupt::is_set));
        assert!(!interrupts.during(1, Interrupt::is_set));
    }

    #[test]
    fn a_wake_comes_before_or_after_the_wait() {
        let interrupt = Interrupt::default();
        interrupt.wake();
        assert!(!interrupt.wait());
    }
}
