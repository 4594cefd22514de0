//! Locks and threads of single flight: the one place that names them, so that with the feature
//! `shuttle` a test runtime that explores schedules takes their place.

#[cfg(not(feature = "shuttle"))]
mod imp {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::thread::{self, Thread};
    pub(crate) use std::thread_local;
}

#[cfg(feature = "shuttle")]
mod imp {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::thread::{self, Thread};
    pub(crate) use shuttle::thread_local;

    /// Shuttle's mutex with the calls of `parking_lot`'s: a panicking holder does not poison it.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

pub(crate) use imp::{Mutex, thread_local};

/// Wakes a thread that waits in [`block_on`].
struct Unpark(imp::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` on this thread. Unlike an executor's, it may be called from anywhere, also
/// from code that an executor runs: it drives this one future and nothing else.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(imp::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => imp::thread::park(),
        }
    }
}
