use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::request::Request;
use super::uring::{Bell, Uring};

/// Runs a future on this thread to its end.
///
/// As any other such function, but reads of devices that the future makes go through an io_uring
/// of the thread's own: the thread hands them to the kernel when it has nothing else to do, all at
/// once, and takes them back itself. Elsewhere a device's own thread does that, and each read
/// waits for two threads to be woken.
///
/// Calls may be nested.
///
/// ```
/// assert_eq!(storage::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    BLOCKING.with(|blocking| {
        let waker = Waker::from(blocking.alarm.clone());
        let mut context = Context::from_waker(&waker);
        let _running = blocking.start();
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            blocking.wait();
        }
    })
}

/// Hands a call to the io_uring of this thread, if it is one that will take it back; otherwise
/// returns it.
pub(super) fn submit(file: &Arc<OwnedFd>, request: Request) -> Result<(), Request> {
    let mut request = Some(request);
    // A thread that ends has no ring any more.
    let _ = BLOCKING.try_with(|blocking| blocking.submit(file, &mut request));
    request.map_or(Ok(()), Err)
}

/// Whether this thread does nothing but run a future by [`block_on`], so that a call may block it.
pub(super) fn is_running() -> bool {
    BLOCKING.try_with(|blocking| blocking.running.get() > 0).unwrap_or(false)
}

thread_local! {
    static BLOCKING: Blocking = Blocking::new();
}

/// A thread that runs futures and waits for them.
struct Blocking {
    alarm: Arc<Alarm>,
    /// How many futures it runs, one within the other.
    running: Cell<usize>,
    ring: RefCell<ThreadRing>,
}

enum ThreadRing {
    /// Nothing was read yet.
    Unmade,
    Made(Box<Uring>),
    /// The kernel gives no more of them, or this one has failed.
    Refused,
}

/// What wakes the thread, wherever it waits.
struct Alarm {
    rung: AtomicBool,
    /// For the thread in its ring; `None` where the kernel gives none.
    bell: Option<Arc<Bell>>,
    thread: Thread,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::SeqCst)
            && !self.bell.as_ref().is_some_and(|bell| bell.ring())
        {
            self.thread.unpark();
        }
    }
}

/// A future is running.
struct Running<'a> {
    blocking: &'a Blocking,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let blocking = self.blocking;
        // What others wait for is taken back before the thread turns away.
        blocking.drain();
        blocking.running.set(blocking.running.get() - 1);
        // The outer future may have been woken in the meantime.
        blocking.alarm.rung.store(true, Ordering::SeqCst);
    }
}

impl Blocking {
    fn new() -> Blocking {
        let bell = Bell::new().ok().map(Arc::new);
        let alarm = Alarm { rung: AtomicBool::new(false), bell, thread: thread::current() };
        Blocking {
            alarm: Arc::new(alarm),
            running: Cell::new(0),
            ring: RefCell::new(ThreadRing::Unmade),
        }
    }

    fn start(&self) -> Running<'_> {
        self.running.set(self.running.get() + 1);
        // What was dropped before it had ended may have ended since.
        self.enter(false);
        Running { blocking: self }
    }

    /// Takes the call out of `request` if this thread has a place for it.
    fn submit(&self, file: &Arc<OwnedFd>, request: &mut Option<Request>) {
        let Ok(mut ring) = self.ring.try_borrow_mut() else { return };
        if self.running.get() == 0 {
            return;
        }
        if let (ThreadRing::Unmade, Some(bell)) = (&*ring, &self.alarm.bell) {
            *ring = Uring::new(bell.clone())
                .map_or(ThreadRing::Refused, |uring| ThreadRing::Made(Box::new(uring)));
        }
        if let ThreadRing::Made(uring) = &mut *ring
            && uring.has_room()
            && let Some(request) = request.take()
        {
            uring.push(file.clone(), request);
        }
    }

    /// Waits until the alarm rings, and hands over and takes back calls in the meantime.
    fn wait(&self) {
        loop {
            let rung = self.alarm.rung.swap(false, Ordering::SeqCst);
            if !self.enter(!rung) && !rung {
                thread::park();
            }
            if rung {
                return;
            }
        }
    }

    /// Enters the ring if it has anything to do; see [`Uring::enter`]. Says whether it had.
    fn enter(&self, waits: bool) -> bool {
        let Ok(mut ring) = self.ring.try_borrow_mut() else { return false };
        let uring = match &mut *ring {
            ThreadRing::Made(uring) if !uring.is_idle() => uring,
            _ => return false,
        };
        let bell = self.alarm.bell.as_ref().expect("a ring has a bell");
        bell.sleeps.store(waits, Ordering::SeqCst);
        let waits = waits && !self.alarm.rung.load(Ordering::SeqCst);
        let entered = uring.enter(waits);
        uring.expire();
        if let Err(error) = entered {
            tracing::error!(%error, "io_uring no longer takes calls of a thread");
            *ring = ThreadRing::Refused;
        }
        true
    }

    /// Waits until nobody waits for a call of this thread.
    fn drain(&self) {
        loop {
            let waited_for = match self.ring.try_borrow().as_deref() {
                Ok(ThreadRing::Made(uring)) => !uring.is_idle() && uring.is_waited_for(),
                _ => false,
            };
            if !waited_for {
                return;
            }
            // Whatever rings, the calls are what it waits for.
            self.alarm.rung.store(false, Ordering::SeqCst);
            self.enter(true);
        }
    }
}
