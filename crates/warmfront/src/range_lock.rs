use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use futures::future::poll_fn;
use parking_lot::Mutex;

/// Keeps readers and writers of the same bytes of one object apart.
///
/// A fetch from the origin holds its range shared until the records are in the cache; a write
/// holds its range exclusively from before the origin changes until the cache agrees with it. So a
/// fetch never brings in bytes that are older than the cache's, and a reader never sees a newer
/// value and then an older one. Hits take no lock: they ask [`is_being_written`].
///
/// Waiters are few and ranges short-lived, so a list is searched. Waiting writers do not hold up
/// readers that are already in; they hold up later ones, so that no writer starves.
///
/// [`is_being_written`]: RangeLock::is_being_written
#[derive(Debug, Default)]
pub(crate) struct RangeLock {
    /// Writers that hold or wait for a range: lets a hit pass with one load when there are none.
    writers: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_ticket: u64,
    held: Vec<Hold>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Hold {
    ticket: u64,
    range: Range<u64>,
    exclusive: bool,
}

#[derive(Debug)]
struct Waiting {
    hold: Hold,
    waker: Option<Waker>,
}

impl Hold {
    fn conflicts(&self, range: &Range<u64>, exclusive: bool) -> bool {
        (self.exclusive || exclusive)
            && self.range.start < range.end
            && range.start < self.range.end
    }
}

impl State {
    /// Whether the waiter may hold its range: nothing held conflicts, nor anything queued before.
    fn is_free(&self, hold: &Hold) -> bool {
        let earlier = self.waiting.iter().map(|waiting| &waiting.hold);
        !self
            .held
            .iter()
            .chain(earlier.filter(|other| other.ticket < hold.ticket))
            .any(|other| other.conflicts(&hold.range, hold.exclusive))
    }

    fn wake_all(&mut self) {
        for waiting in &mut self.waiting {
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }
}

/// A held range; dropping it releases the range.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    lock: &'a RangeLock,
    ticket: u64,
    exclusive: bool,
}

impl RangeLock {
    /// Waits until no writer holds any byte of `range`, then keeps writers out of it.
    pub(crate) async fn shared(&self, range: Range<u64>) -> RangeGuard<'_> {
        self.acquire(range, false).await
    }

    /// Waits until nobody holds any byte of `range`, then keeps everybody out of it.
    pub(crate) async fn exclusive(&self, range: Range<u64>) -> RangeGuard<'_> {
        self.acquire(range, true).await
    }

    /// Keeps writers out of `range` if that needs no waiting.
    pub(crate) fn try_shared(&self, range: Range<u64>) -> Option<RangeGuard<'_>> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        let hold = Hold { ticket, range, exclusive: false };
        if !state.is_free(&hold) {
            return None;
        }
        state.next_ticket += 1;
        state.held.push(hold);
        Some(RangeGuard { lock: self, ticket, exclusive: false })
    }

    /// Whether a writer holds, or waits for, a byte of `range`.
    pub(crate) fn is_being_written(&self, range: Range<u64>) -> bool {
        if self.writers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let state = self.state.lock();
        let holds = state.held.iter().chain(state.waiting.iter().map(|waiting| &waiting.hold));
        holds.filter(|hold| hold.exclusive).any(|hold| hold.conflicts(&range, false))
    }

    async fn acquire(&self, range: Range<u64>, exclusive: bool) -> RangeGuard<'_> {
        if exclusive {
            self.writers.fetch_add(1, Ordering::SeqCst);
        }
        let ticket = {
            let mut state = self.state.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.push(Waiting { hold: Hold { ticket, range, exclusive }, waker: None });
            ticket
        };
        // From here on the guard stands for the place in the queue as well, so that a caller that
        // gives up while it waits leaves nothing behind.
        let guard = RangeGuard { lock: self, ticket, exclusive };
        poll_fn(|context| {
            let mut state = self.state.lock();
            let index = state
                .waiting
                .iter()
                .position(|waiting| waiting.hold.ticket == ticket)
                .expect("a waiter stays queued until it holds its range");
            if state.is_free(&state.waiting[index].hold) {
                let waiting = state.waiting.remove(index);
                state.held.push(waiting.hold);
                Poll::Ready(())
            } else {
                state.waiting[index].waker = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await;
        guard
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state.lock();
        state.held.retain(|hold| hold.ticket != self.ticket);
        state.waiting.retain(|waiting| waiting.hold.ticket != self.ticket);
        state.wake_all();
        drop(state);
        if self.exclusive {
            self.lock.writers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use futures::executor::block_on;
    use futures::future::FutureExt;

    use super::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        let lock = RangeLock::default();
        let first = block_on(lock.shared(0..10));
        let second = lock.try_shared(5..15).expect("two readers share");
        assert!(lock.exclusive(9..10).now_or_never().is_none());
        assert!(lock.exclusive(20..30).now_or_never().is_some());
        drop((first, second));
        let writer = lock.exclusive(9..10).now_or_never().expect("free again");
        assert!(lock.is_being_written(0..10));
        assert!(!lock.is_being_written(10..20));
        assert!(lock.try_shared(0..10).is_none());
        drop(writer);
        assert!(!lock.is_being_written(0..10));
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let lock = RangeLock::default();
        let reader = block_on(lock.shared(0..10));
        assert!(lock.exclusive(0..10).now_or_never().is_none());
        assert!(lock.try_shared(0..5).is_some());
        drop(reader);
        let state = lock.state.lock();
        assert!(state.held.is_empty() && state.waiting.is_empty());
    }

    #[test]
    fn writers_exclude_each_other_across_threads() {
        let lock = Arc::new(RangeLock::default());
        let inside = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (lock, inside) = (lock.clone(), inside.clone());
                scope.spawn(move || {
                    for turn in 0..500 {
                        let start = (thread + turn) % 3;
                        let guard = block_on(lock.exclusive(start..start + 4));
                        assert!(!inside.swap(true, Ordering::SeqCst));
                        inside.store(false, Ordering::SeqCst);
                        drop(guard);
                    }
                });
            }
        });
    }
}
