use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::{Call, Clock, Layer, Layered, Origin, OriginError, RealClock, Task};

/// Makes origins that fail, hang or answer late, as their [`Faults`] say. For tests.
#[derive(Debug)]
pub struct FaultyOrigin;

impl FaultyOrigin {
    /// Puts faults that can be switched around `inner`; at first there are none.
    #[expect(clippy::new_ret_no_self, reason = "the switch comes with the origin")]
    pub fn new(inner: Arc<dyn Origin>) -> (Layered<Arc<Faults>>, Arc<Faults>) {
        FaultyOrigin::with_clock(inner, Arc::new(RealClock::new()))
    }

    /// The same, with delays that pass on `clock`.
    pub fn with_clock(
        inner: Arc<dyn Origin>,
        clock: Arc<dyn Clock>,
    ) -> (Layered<Arc<Faults>>, Arc<Faults>) {
        let (state, released) = (Mutex::default(), Condvar::default());
        let faults = Arc::new(Faults { clock, state, released });
        (Layered::new(inner, faults.clone()), faults)
    }
}

/// Which calls a fault is for.
type Filter = Box<dyn Fn(&Call) -> bool + Send>;

/// The switch of an origin made by [`FaultyOrigin`]. Faults strike before the call
/// reaches the origin.
pub struct Faults {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    failures: VecDeque<Failure>,
    unreachable: bool,
    hanging: Option<Filter>,
    waiting: usize,
    delay: Duration,
}

struct Failure {
    count: u64,
    filter: Filter,
    errno: Errno,
}

impl Faults {
    /// The next `count` calls of any kind fail with `EIO`; replaces failures set before.
    pub fn fail_next(&self, count: u64) {
        self.state.lock().failures.clear();
        self.fail_next_of(count, Errno::IO, |_| true);
    }

    /// The next `count` calls that `filter` picks fail with `errno`. A call is struck by the first
    /// failure set that fits it. `u64::MAX` is for all calls.
    pub fn fail_next_of(
        &self,
        count: u64,
        errno: Errno,
        filter: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        if count > 0 {
            let failure = Failure { count, filter: Box::new(filter), errno };
            self.state.lock().failures.push_back(failure);
        }
    }

    /// All calls fail with [`Unreachable`](OriginError::Unreachable), or do so no longer.
    pub fn unreachable(&self, unreachable: bool) {
        self.state.lock().unreachable = unreachable;
    }

    /// Calls that `filter` picks block their thread until [`release`](Faults::release).
    pub fn hang(&self, filter: impl Fn(&Call) -> bool + Send + 'static) {
        self.state.lock().hanging = Some(Box::new(filter));
    }

    /// Lets hanging calls go on, and later ones pass.
    pub fn release(&self) {
        self.state.lock().hanging = None;
        self.released.notify_all();
    }

    /// How many calls hang at this moment.
    pub fn hanging(&self) -> usize {
        self.state.lock().waiting
    }

    /// Each call waits this long first.
    pub fn delay(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    /// No faults any more.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.failures.clear();
        state.unreachable = false;
        state.delay = Duration::ZERO;
        drop(state);
        self.release();
    }

    /// Waits while the call is to hang, and picks its fate.
    fn strike(&self, call: &Call) -> Result<(), OriginError> {
        let operation = call.operation();
        let mut state = self.state.lock();
        while state.hanging.as_ref().is_some_and(|filter| filter(call)) {
            state.waiting += 1;
            self.released.wait(&mut state);
            state.waiting -= 1;
        }
        if state.unreachable {
            return Err(OriginError::Unreachable { operation });
        }
        let Some(at) = state.failures.iter().position(|failure| (failure.filter)(call)) else {
            return Ok(());
        };
        let failure = &mut state.failures[at];
        let errno = failure.errno;
        failure.count -= 1;
        if failure.count == 0 {
            state.failures.remove(at);
        }
        Err(OriginError::System { operation, errno })
    }
}

impl Layer for Faults {
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        Box::pin(async move {
            let delay = self.state.lock().delay;
            if !delay.is_zero() {
                self.clock.sleep(delay).await;
            }
            self.strike(&call)
        })
    }
}
