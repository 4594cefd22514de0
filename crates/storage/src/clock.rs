use std::time::{Duration, Instant};

use crate::origin::Wait;

/// Time as the engine sees it. Real in the daemon, virtual in the lab and in tests.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary fixed start. Never goes back.
    fn now(&self) -> Duration;

    /// Waits for at least `duration`.
    fn sleep(&self, duration: Duration) -> Wait<'_>;
}

/// The machine's monotonic clock. Sleeping blocks the thread that polls.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock that starts at zero now.
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
}
