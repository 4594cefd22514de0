use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::{Call, Clock, Layer, Layered, Origin, OriginError, RealClock, Task};

/// Makes origins that fail, hang or answer late, as their [`Faults`] say. For tests.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::FaultyOrigin;
///
/// let (faulty, faults) = FaultyOrigin::new(origin);
/// faults.unreachable(true);
/// assert!(faulty.root().await.unwrap_err().is_unreachable());
/// # Ok(()) }) }
/// ```
#[derive(Debug)]
pub struct FaultyOrigin;

impl FaultyOrigin {
    /// Puts faults that can be switched around `inner`; at first there are none.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// assert!(faulty.root().await.is_ok(), "there are no faults yet");
    /// # drop(faults);
    /// # Ok(()) }) }
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "the switch comes with the origin")]
    pub fn new(inner: Arc<dyn Origin>) -> (Layered<Arc<Faults>>, Arc<Faults>) {
        FaultyOrigin::with_clock(inner, Arc::new(RealClock::new()))
    }

    /// The same, with delays that pass on `clock`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use storage::{Clock, FaultyOrigin, MemoryOrigin, Origin, Simulation};
    ///
    /// let simulation = Simulation::new(1);
    /// let clock = Arc::new(simulation.clone());
    /// let (faulty, faults) = FaultyOrigin::with_clock(Arc::new(MemoryOrigin::new()), clock);
    /// faults.delay(Duration::from_secs(9));
    /// assert!(simulation.run(faulty.root()).is_ok());
    /// assert_eq!(simulation.now(), Duration::from_secs(9));
    /// ```
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
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::FaultyOrigin;
///
/// let (faulty, faults) = FaultyOrigin::new(origin);
/// faults.fail_next(1);
/// assert!(faulty.root().await.is_err());
/// assert!(faulty.root().await.is_ok());
/// # Ok(()) }) }
/// ```
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
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// faults.fail_next(2);
    /// assert!(faulty.root().await.is_err() && faulty.root().await.is_err());
    /// assert!(faulty.root().await.is_ok());
    /// # Ok(()) }) }
    /// ```
    pub fn fail_next(&self, count: u64) {
        self.state.lock().failures.clear();
        self.fail_next_of(count, Errno::IO, |_| true);
    }

    /// The next `count` calls that `filter` picks fail with `errno`. A call is struck by the first
    /// failure set that fits it. `u64::MAX` is for all calls.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::Call;
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// let lists = |call: &Call| matches!(call, Call::List { .. });
    /// faults.fail_next_of(u64::MAX, rustix::io::Errno::IO, lists);
    /// let root = faulty.root().await?.object;
    /// assert!(faulty.list(root).await.is_err());
    /// # Ok(()) }) }
    /// ```
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
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// faults.unreachable(true);
    /// assert!(faulty.root().await.is_err());
    /// faults.unreachable(false);
    /// assert!(faulty.root().await.is_ok());
    /// # Ok(()) }) }
    /// ```
    pub fn unreachable(&self, unreachable: bool) {
        self.state.lock().unreachable = unreachable;
    }

    /// Calls that `filter` picks block their thread until [`release`](Faults::release).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// faults.hang(|_call| true);
    /// let faulty = Arc::new(faulty);
    /// let caller = std::thread::spawn(move || storage::block_on(faulty.root()).is_ok());
    /// while faults.hanging() == 0 {
    ///     std::thread::yield_now();
    /// }
    /// assert!(!caller.is_finished());
    /// faults.release();
    /// # assert!(caller.join().expect("it does not panic"));
    /// # Ok(()) }) }
    /// ```
    pub fn hang(&self, filter: impl Fn(&Call) -> bool + Send + 'static) {
        self.state.lock().hanging = Some(Box::new(filter));
    }

    /// Lets hanging calls go on, and later ones pass.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// faults.hang(|_call| true);
    /// let faulty = Arc::new(faulty);
    /// let caller = std::thread::spawn(move || storage::block_on(faulty.root()).is_ok());
    /// while faults.hanging() == 0 {
    ///     std::thread::yield_now();
    /// }
    /// faults.release();
    /// assert!(caller.join().expect("it does not panic"));
    /// # Ok(()) }) }
    /// ```
    pub fn release(&self) {
        self.state.lock().hanging = None;
        self.released.notify_all();
    }

    /// How many calls hang at this moment.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// faults.hang(|_call| true);
    /// let faulty = Arc::new(faulty);
    /// let caller = std::thread::spawn(move || storage::block_on(faulty.root()).is_ok());
    /// while faults.hanging() == 0 {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(faults.hanging(), 1);
    /// faults.release();
    /// # assert!(caller.join().expect("it does not panic"));
    /// # Ok(()) }) }
    /// ```
    pub fn hanging(&self) -> usize {
        self.state.lock().waiting
    }

    /// Each call waits this long first.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// use std::time::{Duration, Instant};
    ///
    /// faults.delay(Duration::from_millis(5));
    /// let started = Instant::now();
    /// faulty.root().await?;
    /// assert!(started.elapsed() >= Duration::from_millis(5));
    /// # Ok(()) }) }
    /// ```
    pub fn delay(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    /// No faults any more.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::FaultyOrigin;
    ///
    /// let (faulty, faults) = FaultyOrigin::new(origin);
    /// faults.fail_next(100);
    /// faults.clear();
    /// assert!(faulty.root().await.is_ok());
    /// # Ok(()) }) }
    /// ```
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
