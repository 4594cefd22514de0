use std::time::{Duration, Instant};

use crate::Timestamp;
use crate::origin::Wait;

/// Time as the engine sees it. Real in the daemon, virtual in the lab and in tests.
///
/// ```
/// use std::time::Duration;
/// use storage::{Clock, Simulation};
///
/// // On a virtual clock an hour takes no time.
/// let simulation = Simulation::new(1);
/// simulation.run(simulation.sleep(Duration::from_secs(3600)));
/// assert_eq!(simulation.now(), Duration::from_secs(3600));
/// ```
pub trait Clock: Send + Sync {
    /// Time since an arbitrary fixed start. Never goes back.
    fn now(&self) -> Duration;

    /// Waits for at least `duration`.
    fn sleep(&self, duration: Duration) -> Wait<'_>;

    /// The time of day, as a file system of this machine would note it. On a virtual clock the
    /// first day is that of 1970.
    fn time_of_day(&self) -> Timestamp {
        let now = self.now();
        Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
    }
}

/// The machine's time of day as of the last tick, which is what its file systems note.
fn system_time_of_day() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec as u32 }
}

/// The machine's monotonic clock. Sleeping blocks the thread that polls.
///
/// ```
/// use std::time::Duration;
/// use storage::{Clock, RealClock};
///
/// let clock = RealClock::new();
/// storage::block_on(clock.sleep(Duration::from_millis(2)));
/// assert!(clock.now() >= Duration::from_millis(2));
/// ```
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock that starts at zero now.
    ///
    /// ```
    /// use storage::{Clock, RealClock};
    ///
    /// let clock = RealClock::new();
    /// assert!(clock.now().as_secs() < 3600, "it has just started");
    /// ```
    pub fn new() -> RealClock {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Wait<'_> {
        Box::pin(async move { std::thread::sleep(duration) })
    }

    fn time_of_day(&self) -> Timestamp {
        system_time_of_day()
    }
}

/// The machine's monotonic clock in steps of a timer tick, 1 to 10 ms: a reading costs a fraction
/// of one of [`RealClock`]. Sleeping blocks the thread that polls.
///
/// ```
/// use storage::{Clock, CoarseClock};
///
/// let clock = CoarseClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Debug)]
pub struct CoarseClock {
    start: Duration,
}

impl CoarseClock {
    /// A clock that starts at zero now.
    ///
    /// ```
    /// use storage::{Clock, CoarseClock};
    ///
    /// let clock = CoarseClock::new();
    /// assert!(clock.now().as_secs() < 3600, "it has just started");
    /// ```
    pub fn new() -> CoarseClock {
        CoarseClock { start: coarse_time() }
    }
}

impl Default for CoarseClock {
    fn default() -> CoarseClock {
        CoarseClock::new()
    }
}

impl Clock for CoarseClock {
    fn now(&self) -> Duration {
        coarse_time().saturating_sub(self.start)
    }

    fn sleep(&self, duration: Duration) -> Wait<'_> {
        Box::pin(async move { std::thread::sleep(duration) })
    }

    fn time_of_day(&self) -> Timestamp {
        system_time_of_day()
    }
}

/// Time since the machine has started, as of the last tick.
fn coarse_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_goes_on_with_the_real_one() {
        let (coarse, real) = (CoarseClock::new(), RealClock::new());
        std::thread::sleep(Duration::from_millis(50));
        let (coarse, real) = (coarse.now(), real.now());
        assert!(coarse.abs_diff(real) <= Duration::from_millis(20), "{coarse:?} {real:?}");
    }
}
