use std::time::Duration;

use storage::DeviceError;

use crate::rate::Rate;
use crate::refused::Miss;

/// Failures within [`WINDOW`] after which a device is bypassed.
const FAILURES_MAX: u32 = 8;
const WINDOW: Duration = Duration::from_secs(60);
/// How long a device is bypassed at first and at most; each time twice as long as before.
const BYPASS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(900));
/// Between two looks at whether a slow device still is slow.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// The newest answer's share in the estimate of how long answers take.
const WEIGHT: u32 = 8;

/// What a device did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It failed to read.
    Read,
    /// It failed to write.
    Write,
    /// It did not answer in time.
    Silent,
    /// It brought what was not written.
    Damage,
}

impl From<&DeviceError> for Failure {
    fn from(error: &DeviceError) -> Failure {
        match error {
            DeviceError::TimedOut { .. } => Failure::Silent,
            _ => Failure::Read,
        }
    }
}

/// Failures of a device, by what it did wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// Reads that it failed to do.
    pub reads: u32,
    /// Writes that it failed to do.
    pub writes: u32,
    /// Calls that it did not answer in time.
    pub silent: u32,
    /// Records that were not as they had been written.
    pub damaged: u32,
}

impl Failures {
    fn count(&mut self, failure: Failure) {
        *match failure {
            Failure::Read => &mut self.reads,
            Failure::Write => &mut self.writes,
            Failure::Silent => &mut self.silent,
            Failure::Damage => &mut self.damaged,
        } += 1;
    }

    fn all(&self) -> u32 {
        self.reads + self.writes + self.silent + self.damaged
    }
}

/// That a device is left alone for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bypass {
    /// What it did wrong within a minute.
    pub failures: Failures,
    /// How long it has been left alone.
    pub since: Duration,
    /// How long until it is tried again.
    pub left: Duration,
}

/// That the origin answered sooner than a device when it was last asked for something that the
/// device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slower {
    /// How long the origin was expected to take.
    pub origin: Duration,
    /// How long reads have gone to the origin.
    pub since: Duration,
}

/// What to do with a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Ask the device.
    Yes,
    /// The origin is sooner.
    No,
    /// The origin is sooner; see all the same, with nobody waiting, whether it still is.
    Probe,
}

/// How a device does: whether to ask it, and how long its answers take.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    failures: Failures,
    window_ends: Duration,
    bypassed_at: Duration,
    bypassed_until: Duration,
    bypassed_for: Failures,
    bypass: Duration,
    latency: Duration,
    pub(crate) rate: Rate,
    /// What the origin was expected to take, and since when it has been sooner.
    slower: Option<(Duration, Duration)>,
    asked_at: Duration,
    is_probing: bool,
    pub(crate) bypasses: u64,
}

impl Health {
    /// Whether the device is left alone for now.
    pub(crate) fn is_bypassed(&self, now: Duration) -> bool {
        now < self.bypassed_until
    }

    /// Why the device is left alone, if it is.
    pub(crate) fn bypass(&self, now: Duration) -> Option<Bypass> {
        self.is_bypassed(now).then(|| Bypass {
            failures: self.bypassed_for,
            since: now.saturating_sub(self.bypassed_at),
            left: self.bypassed_until.saturating_sub(now),
        })
    }

    /// Whether the last read went to the origin because that is sooner.
    pub(crate) fn slower(&self, now: Duration) -> Option<Slower> {
        self.slower.map(|(origin, at)| Slower { origin, since: now.saturating_sub(at) })
    }

    /// How long a read takes, as of the last ones.
    pub(crate) fn latency(&self) -> Duration {
        self.latency
    }

    /// Whether to ask the device, when the origin takes `origin`. After [`Asking::Probe`] the
    /// caller says when that has [ended](Health::probed).
    ///
    /// Nobody waits for a device of which nothing is known yet while it has something else to do.
    pub(crate) fn asking(
        &mut self,
        origin: Option<Duration>,
        is_writing: bool,
        now: Duration,
    ) -> Asking {
        let is_unknown = self.latency.is_zero() && (is_writing || self.rate.is_busy());
        let expected = self.latency.max(self.rate.wait());
        let Some(origin) = origin.filter(|origin| is_unknown || expected > *origin) else {
            self.asked_at = now;
            self.slower = None;
            return Asking::Yes;
        };
        if !is_unknown {
            if self.latency <= origin {
                return Asking::No;
            }
            let since = self.slower.map_or(now, |(_, since)| since);
            self.slower = Some((origin, since));
        }
        let is_due = is_unknown || now.saturating_sub(self.asked_at) >= PROBE_EVERY;
        if self.is_probing || !is_due {
            return Asking::No;
        }
        self.asked_at = now;
        self.is_probing = true;
        Asking::Probe
    }

    /// Why not to come with reads at all now: the device is left alone, or was slower than the
    /// origin a moment ago.
    pub(crate) fn shuns(&self, now: Duration) -> Option<Miss> {
        let was_slower = self.slower.is_some()
            && (self.is_probing || now.saturating_sub(self.asked_at) < PROBE_EVERY);
        match self.is_bypassed(now) {
            true => Some(Miss::Bypassed),
            false => was_slower.then_some(Miss::Slower),
        }
    }

    /// A probe has ended.
    pub(crate) fn probed(&mut self) {
        self.is_probing = false;
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
    pub(crate) fn failed(&mut self, failure: Failure, now: Duration) -> bool {
        if now >= self.window_ends {
            self.window_ends = now.saturating_add(WINDOW);
            self.failures = Failures::default();
            if now.saturating_sub(self.bypassed_until) >= BYPASS.1 {
                self.bypass = Duration::ZERO;
            }
        }
        self.failures.count(failure);
        if self.failures.all() < FAILURES_MAX {
            return false;
        }
        self.bypass = (self.bypass * 2).clamp(BYPASS.0, BYPASS.1);
        self.bypassed_at = now;
        self.bypassed_until = now.saturating_add(self.bypass);
        self.bypassed_for = self.failures;
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
            let bypassed = (0..FAILURES_MAX).map(|_| health.failed(Failure::Read, now));
            assert_eq!(bypassed.filter(|it| *it).count(), 1);
            let bypass = health.bypass(now + SECOND).expect("it is");
            assert_eq!((bypass.since, bypass.left), (SECOND, SECOND * (expected - 1)));
            assert_eq!(bypass.failures, Failures { reads: FAILURES_MAX, ..Failures::default() });
            assert!(health.is_bypassed(now + SECOND * (expected - 1)));
            now += SECOND * expected;
            assert!(!health.is_bypassed(now), "tried again after {expected} s");
        }
        for _ in 0..100 {
            now += WINDOW / 4;
            assert!(!health.failed(Failure::Damage, now), "few failures are borne");
        }
    }

    #[test]
    fn no_more_is_asked_of_a_device_than_it_answers_in_time() {
        let mut health = Health::default();
        let (millisecond, mut now) = (Duration::from_millis(1), SECOND);
        // It does one after the other, 5 ms each.
        for _ in 0..100 {
            health.rate.began(now);
            now += millisecond * 5;
            health.rate.ended(4096, now);
            health.answered(millisecond * 5);
        }
        let origin = Some(millisecond * 22);
        let mut asked = 0;
        while health.asking(origin, false, now) == Asking::Yes && asked < 100 {
            health.rate.began(now);
            asked += 1;
        }
        assert_eq!(asked, 4, "the fifth would come after 25 ms");
        assert_eq!(health.slower(now), None, "by itself it is sooner");
    }

    #[test]
    fn a_device_that_nobody_knows_is_asked_once_at_first() {
        let mut health = Health::default();
        let origin = Some(Duration::from_millis(10));
        assert_eq!(health.asking(origin, true, SECOND), Asking::Probe, "it is busy");
        assert_eq!(health.asking(origin, true, SECOND), Asking::No);
        assert_eq!(health.asking(origin, false, SECOND), Asking::Yes);
        health.rate.began(SECOND);
        assert!((0..100).all(|_| health.asking(origin, false, SECOND) == Asking::No));
        health.probed();
        assert_eq!(
            health.asking(None, false, SECOND),
            Asking::Yes,
            "nobody knows the origin either"
        );
        health.rate.ended(1, SECOND);
        health.answered(Duration::from_millis(1));
        assert_eq!(health.asking(origin, false, SECOND), Asking::Yes);
    }

    #[test]
    fn a_slow_device_is_probed_now_and_then() {
        let mut health = Health::default();
        health.answered(Duration::from_millis(30));
        let origin = Some(Duration::from_millis(10));
        let mut probes = 0;
        for step in 0..100 {
            match health.asking(origin, false, SECOND * 5 + SECOND * step / 10) {
                Asking::Yes => panic!("nobody waits for it"),
                Asking::No => {}
                Asking::Probe => {
                    probes += 1;
                    let now = SECOND * 5 + SECOND * step / 10;
                    assert_eq!(health.shuns(now), Some(Miss::Slower));
                    health.probed();
                }
            }
        }
        assert!((9..=11).contains(&probes), "{probes} of 100 in 10 s");
        let slower = health.slower(SECOND * 15).expect("it is");
        assert_eq!((Some(slower.origin), slower.since), (origin, SECOND * 10));
        assert_eq!(health.asking(origin, false, SECOND * 20), Asking::Probe);
        assert_eq!(health.asking(origin, false, SECOND * 90), Asking::No, "one probe at a time");
        health.probed();
        assert_eq!(health.asking(None, false, SECOND * 100), Asking::Yes);
        assert_eq!(health.slower(SECOND * 100), None);
        (0..60).for_each(|_| health.answered(Duration::from_millis(1)));
        assert!((0..100).all(|_| health.asking(origin, false, SECOND * 100) == Asking::Yes));
    }
}
