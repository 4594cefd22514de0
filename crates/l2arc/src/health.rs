use std::time::Duration;

/// Failures within [`WINDOW`] after which a device is bypassed.
const FAILURES_MAX: u32 = 8;
const WINDOW: Duration = Duration::from_secs(60);
/// How long a device is bypassed at first and at most; each time twice as long as before.
const BYPASS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(900));
/// How long nobody may have asked a slow device before it is asked to see whether it still is.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// The newest answer's share in the estimate of how long answers take.
const WEIGHT: u32 = 8;

/// How a device does: whether to ask it, and how long its answers take.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    failures: u32,
    window_ends: Duration,
    bypassed_until: Duration,
    bypass: Duration,
    latency: Duration,
    asked_at: Duration,
    pub(crate) bypasses: u64,
}

impl Health {
    /// Whether the device is left alone for now.
    pub(crate) fn is_bypassed(&self, now: Duration) -> bool {
        now < self.bypassed_until
    }

    /// How long a read takes, as of the last ones.
    pub(crate) fn latency(&self) -> Duration {
        self.latency
    }

    /// Whether to ask the device, when the origin takes `origin`. One that is slower is asked now
    /// and then all the same, to see whether it still is.
    pub(crate) fn is_worth_asking(&mut self, origin: Option<Duration>, now: Duration) -> bool {
        let slower = origin.is_some_and(|origin| self.latency > origin);
        let asks = !slower || now.saturating_sub(self.asked_at) >= PROBE_EVERY;
        if asks {
            self.asked_at = now;
        }
        asks
    }

    /// A call came back well after `elapsed`.
    pub(crate) fn answered(&mut self, elapsed: Duration) {
        self.latency = if self.latency.is_zero() {
            elapsed
        } else {
            (self.latency * (WEIGHT - 1) + elapsed) / WEIGHT
        };
    }

    /// A call failed, or brought what was not written. Says whether the device is bypassed now.
    pub(crate) fn failed(&mut self, now: Duration) -> bool {
        if now >= self.window_ends {
            self.window_ends = now.saturating_add(WINDOW);
            self.failures = 0;
            if now.saturating_sub(self.bypassed_until) >= BYPASS.1 {
                self.bypass = Duration::ZERO;
            }
        }
        self.failures += 1;
        if self.failures < FAILURES_MAX {
            return false;
        }
        self.bypass = (self.bypass * 2).clamp(BYPASS.0, BYPASS.1);
        self.bypassed_until = now.saturating_add(self.bypass);
        self.window_ends = Duration::ZERO;
        self.bypasses += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn many_failures_bypass_for_longer_and_longer() {
        let mut health = Health::default();
        let mut now = SECOND;
        for expected in [10, 20, 40] {
            let bypassed = (0..FAILURES_MAX).map(|_| health.failed(now)).filter(|it| *it).count();
            assert_eq!(bypassed, 1);
            assert!(health.is_bypassed(now + SECOND * (expected - 1)));
            now += SECOND * expected;
            assert!(!health.is_bypassed(now), "tried again after {expected} s");
        }
        for _ in 0..100 {
            now += WINDOW / 4;
            assert!(!health.failed(now), "few failures are borne");
        }
    }

    #[test]
    fn a_slow_device_is_asked_now_and_then() {
        let mut health = Health::default();
        health.answered(Duration::from_millis(30));
        let origin = Some(Duration::from_millis(10));
        let asked = (0..100)
            .filter(|step| health.is_worth_asking(origin, SECOND * 5 + SECOND * *step / 10))
            .count();
        assert!((9..=11).contains(&asked), "{asked} of 100 in 10 s");
        assert!(health.is_worth_asking(None, SECOND * 100));
        (0..60).for_each(|_| health.answered(Duration::from_millis(1)));
        assert!((0..100).all(|_| health.is_worth_asking(origin, SECOND * 100)));
    }
}
