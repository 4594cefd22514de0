use std::fmt;
use std::time::Duration;

use storage::DeviceError;

use crate::rate::Rate;

/// Failures within [`WINDOW`] after which a device is bypassed. Damage is not among them: a device
/// that answers in time is worth asking for what is not damaged.
const FAILURES_MAX: u32 = 8;
const WINDOW: Duration = Duration::from_secs(60);
/// How long a device is bypassed at first and at most; each time twice as long as before.
const BYPASS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(900));
/// The shortest and the longest time between two looks at whether a slow device still is slow;
/// each time twice as long as before while it is, and half as long where it was not.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// The share of the newest answer in the estimate of how long answers take, one in so many, and
/// that of a look. Looks are few, and each of them is alone at the device as long as nobody else
/// asks it.
const WEIGHT: u32 = 8;
const LOOK_WEIGHT: u32 = 2;
/// Where the origin has to be asked for something as well, a device gives one in so many at least
/// of what is wanted and it has, and takes one in so many at most of the time that the origin takes
/// for all. Otherwise little is gained, and much may be lost.
const WORTH_SHARE: u32 = 4;
const WORTH_TIME: u32 = 2;

/// What a device is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    Write,
}

/// Failures of a device, by what it did wrong.
///
/// ```
/// use l2arc::Failures;
///
/// let failures = Failures { reads: 3, damaged: 1, ..Failures::default() };
/// assert_eq!(failures.to_string(), "3 failed reads, 1 damaged records");
/// ```
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
    fn count(&mut self, call: Call, error: &DeviceError) {
        *match (call, error) {
            (_, DeviceError::TimedOut { .. }) => &mut self.silent,
            (Call::Read, _) => &mut self.reads,
            (Call::Write, _) => &mut self.writes,
        } += 1;
    }

    /// Those for which a device is bypassed.
    fn unanswered(&self) -> u32 {
        self.reads + self.writes + self.silent
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failures { reads, writes, silent, damaged } = *self;
        let all = [
            (reads, "failed reads"),
            (writes, "failed writes"),
            (silent, "calls without an answer in time"),
            (damaged, "damaged records"),
        ];
        let some = all.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// That a device is left alone for a while.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// for ring in flash.statistics().rings {
///     match ring.bypass {
///         Some(bypass) => println!("{}; tried again in {:?}", bypass.failures, bypass.left),
///         None => println!("{} is in use", ring.name),
///     }
///     assert!(ring.bypass.is_none());
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bypass {
    /// What it did wrong within a minute.
    pub failures: Failures,
    /// It is read from meanwhile: only writes have failed.
    pub is_read: bool,
    /// How long it has been left alone.
    pub since: Duration,
    /// How long until it is tried again.
    pub left: Duration,
}

/// That the origin answered sooner than a device when it was last asked for something that the
/// device has.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// for ring in flash.statistics().rings {
///     if let Some(slower) = ring.slower {
///         println!("the origin takes {:?}, the device {:?}", slower.origin, slower.device);
///     }
///     assert!(ring.slower.is_none(), "nothing was asked for yet");
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slower {
    /// How long the origin was expected to take.
    pub origin: Duration,
    /// And the device, with what else it had to do.
    pub device: Duration,
    /// How long reads have gone to the origin.
    pub since: Duration,
}

/// Records that a device has of those that one caller wants at once: how many it is to give, and
/// how many the origin gives sooner.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    pub(crate) taken: u32,
    pub(crate) left: u32,
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
    /// It has done nothing since it was bypassed that would show that it works again.
    is_in_doubt: bool,
    bypass: Duration,
    /// Records that were not as they had been written, since the start.
    pub(crate) damaged_records: u64,
    /// Segments given up because of that.
    pub(crate) damaged_segments: u64,
    /// How the last call that failed did so.
    pub(crate) error: Option<DeviceError>,
    /// How long a read takes that has no others before it: while nothing is written, and beside
    /// writes. What a fill makes of the one says nothing about the other.
    latencies: [Latency; 2],
    pub(crate) rate: Rate,
    /// What the origin and the device were expected to take, and since when that is sooner.
    slower: Option<([Duration; 2], Duration)>,
    /// A look that comes back within this is a good one.
    good_look: Duration,
    look_at: Duration,
    look_pause: Duration,
    is_probing: bool,
    pub(crate) bypasses: u64,
}

/// How long answers take: on average, and how far off that on average.
#[derive(Debug, Clone, Copy, Default)]
struct Latency {
    mean: Duration,
    deviation: Duration,
}

impl Latency {
    fn is_unknown(&self) -> bool {
        self.mean.is_zero()
    }

    /// One more answer, which counts for one in `weight`.
    fn add(&mut self, answer: Duration, weight: u32) {
        if self.is_unknown() {
            self.mean = answer;
            return;
        }
        let off = answer.abs_diff(self.mean);
        self.mean = (self.mean * (weight - 1) + answer) / weight;
        self.deviation = (self.deviation * (weight - 1) + off) / weight;
    }

    /// How long the last of so many answers takes, which grows with their logarithm.
    fn of_last(&self, answers: u32) -> Duration {
        self.mean.saturating_add(self.deviation.saturating_mul(answers.max(1).ilog2()))
    }
}

impl Health {
    /// Whether the device is left alone for now, at least with writes.
    pub(crate) fn is_bypassed(&self, now: Duration) -> bool {
        now < self.bypassed_until
    }

    /// Whether such calls are spared the device for now. One that failed to write only, as where
    /// its file system is full, is read from.
    pub(crate) fn is_spared(&self, call: Call, now: Duration) -> bool {
        let Failures { reads, silent, .. } = self.bypassed_for;
        self.is_bypassed(now) && (call == Call::Write || reads + silent > 0)
    }

    /// Why the device is left alone, if it is.
    pub(crate) fn bypass(&self, now: Duration) -> Option<Bypass> {
        self.is_bypassed(now).then(|| Bypass {
            failures: self.bypassed_for,
            is_read: !self.is_spared(Call::Read, now),
            since: now.saturating_sub(self.bypassed_at),
            left: self.bypassed_until.saturating_sub(now),
        })
    }

    /// Whether the last read went to the origin because that is sooner.
    pub(crate) fn slower(&self, now: Duration) -> Option<Slower> {
        self.slower.map(|([origin, device], at)| Slower {
            origin,
            device,
            since: now.saturating_sub(at),
        })
    }

    /// How long a read takes by itself, as of the last ones.
    pub(crate) fn latency(&self) -> Duration {
        let [idle, beside_writes] = self.latencies;
        if idle.is_unknown() { beside_writes.mean } else { idle.mean }
    }

    /// How long the last of a read and so many others takes.
    fn expected(&self, others: u32, is_writing: bool) -> Duration {
        let latency = self.latencies[usize::from(is_writing)];
        latency.of_last(others + 1).max(self.rate.wait(latency.mean, others))
    }

    /// Whether to ask the device, when the origin takes `origin` and so many reads are about to
    /// begin with this one. After [`Asking::Probe`] the caller says when that has
    /// [ended](Health::probed).
    ///
    /// Nobody waits for a device of which nothing is known yet while it has something else to do.
    pub(crate) fn asking(
        &mut self,
        origin: Option<Duration>,
        others: u32,
        is_writing: bool,
        now: Duration,
    ) -> Asking {
        let latency = self.latencies[usize::from(is_writing)];
        let is_busy = others > 0 || self.rate.under_way() > 0;
        let is_unknown = latency.is_unknown() && (is_writing || is_busy);
        let expected = self.expected(others, is_writing);
        let Some(origin) = origin.filter(|origin| is_unknown || expected > *origin) else {
            self.slower = None;
            return Asking::Yes;
        };
        if !is_unknown {
            if latency.mean <= origin && is_busy {
                // As soon as some of those under way have ended it is sooner again.
                return Asking::No;
            }
            let since = self.slower.map_or(now, |(_, since)| since);
            self.slower = Some(([origin, expected], since));
        }
        self.looking(origin, now)
    }

    /// Whether it is worth its while to ask for some of the records that a caller wants at once,
    /// when the origin gives the others and takes `origin` for all: the caller waits for both, so
    /// the device has to be clearly sooner, and give more than a few of those that it has. If it is
    /// not, says whether to see if it still is as slow.
    pub(crate) fn is_worth_it(
        &mut self,
        origin: Duration,
        Share { taken, left }: Share,
        is_writing: bool,
        now: Duration,
    ) -> Asking {
        let gives_few = taken * WORTH_SHARE < taken + left;
        let others = taken.saturating_sub(1);
        if !gives_few && self.expected(others, is_writing) <= origin / WORTH_TIME {
            return Asking::Yes;
        }
        let good_look = origin / (WORTH_TIME * taken).max((taken + left) / WORTH_SHARE).max(1);
        self.looking(good_look, now)
    }

    /// Whether to look how the device does, which does well if it answers within `good_look`.
    fn looking(&mut self, good_look: Duration, now: Duration) -> Asking {
        self.good_look = good_look;
        if self.is_probing || now < self.look_at {
            return Asking::No;
        }
        self.look_pause = self.look_pause.max(LOOK_PAUSE.0);
        self.look_at = now.saturating_add(self.look_pause);
        self.is_probing = true;
        Asking::Probe
    }

    /// A probe has ended, with an answer after `elapsed` unless it failed. One that was soon enough
    /// is followed by another as soon as somebody wants what the device has.
    pub(crate) fn probed(&mut self, elapsed: Option<Duration>, now: Duration) {
        self.is_probing = false;
        let pause = if elapsed.is_some_and(|elapsed| elapsed <= self.good_look) {
            self.look_at = now;
            self.look_pause / 2
        } else {
            self.look_pause * 2
        };
        self.look_pause = pause.clamp(LOOK_PAUSE.0, LOOK_PAUSE.1);
    }

    /// A read, or a probe, came back well after `elapsed`, with so many others before it when it
    /// began.
    pub(crate) fn answered(
        &mut self,
        elapsed: Duration,
        before: u32,
        is_probe: bool,
        is_writing: bool,
    ) {
        let weight = if is_probe { LOOK_WEIGHT } else { WEIGHT };
        let alone = self.rate.alone(elapsed, before);
        self.latencies[usize::from(is_writing)].add(alone, weight);
    }

    /// A call failed. Says whether the device is bypassed because of this.
    pub(crate) fn failed(&mut self, call: Call, error: &DeviceError, now: Duration) -> bool {
        self.error = Some(error.clone());
        if self.is_spared(call, now) {
            // It began before that.
            return false;
        }
        self.renew_window(now);
        self.failures.count(call, error);
        if self.failures.unanswered() < FAILURES_MAX {
            return false;
        }
        self.bypass = (self.bypass * 2).clamp(BYPASS.0, BYPASS.1);
        self.bypassed_at = now;
        self.bypassed_until = now.saturating_add(self.bypass);
        self.bypassed_for = self.failures;
        self.is_in_doubt = true;
        self.window_ends = Duration::ZERO;
        self.bypasses += 1;
        true
    }

    /// A call was done. Says whether the device is used again because of this: it was bypassed, and
    /// has not done until now what it failed to do.
    pub(crate) fn worked(&mut self, call: Call, now: Duration) -> bool {
        let Failures { reads, silent, .. } = self.bypassed_for;
        let tells = call == Call::Write || reads + silent > 0;
        let is_back = self.is_in_doubt && tells && !self.is_bypassed(now);
        self.is_in_doubt &= !is_back;
        is_back
    }

    /// A call brought what was not written.
    pub(crate) fn damaged(&mut self, now: Duration) {
        self.renew_window(now);
        self.failures.damaged += 1;
        self.damaged_records += 1;
    }

    fn renew_window(&mut self, now: Duration) {
        if now >= self.window_ends {
            self.window_ends = now.saturating_add(WINDOW);
            self.failures = Failures::default();
            if now.saturating_sub(self.bypassed_until) >= BYPASS.1 {
                self.bypass = Duration::ZERO;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn error() -> DeviceError {
        DeviceError::Closed { operation: "test" }
    }

    #[test]
    fn a_device_that_fails_to_write_only_is_read_from() {
        let mut health = Health::default();
        let fail = |health: &mut Health, call| {
            (0..FAILURES_MAX).filter(|_| health.failed(call, &error(), SECOND)).count()
        };
        assert_eq!(fail(&mut health, Call::Write), 1);
        let spared =
            |health: &Health| [Call::Read, Call::Write].map(|call| health.is_spared(call, SECOND));
        assert_eq!(spared(&health), [false, true]);
        assert!(health.bypass(SECOND).is_some_and(|bypass| bypass.is_read));
        let later = SECOND + BYPASS.0;
        let back = [(Call::Read, later), (Call::Write, SECOND), (Call::Write, later)];
        let mut once = health.clone();
        let back = back.map(|(call, now)| once.worked(call, now));
        assert_eq!(back, [false, false, true], "a write tells that it is written again");
        assert!(!once.worked(Call::Write, later), "which is told once");
        assert_eq!(fail(&mut health, Call::Write), 0, "those that began before change nothing");
        assert_eq!(fail(&mut health, Call::Read), 1);
        assert_eq!(spared(&health), [true, true]);
        let bypass = health.bypass(SECOND).expect("it is");
        assert_eq!(
            (bypass.is_read, bypass.failures.to_string().as_str()),
            (false, "8 failed reads")
        );
    }

    #[test]
    fn damage_alone_bypasses_nothing() {
        let mut health = Health::default();
        (0..1000).for_each(|_| health.damaged(SECOND));
        assert!((1..FAILURES_MAX).all(|_| !health.failed(Call::Read, &error(), SECOND)));
        assert!(health.failed(Call::Read, &error(), SECOND));
        let bypass = health.bypass(SECOND).expect("it is");
        assert_eq!((bypass.failures.reads, bypass.failures.damaged), (FAILURES_MAX, 1000));
    }

    #[test]
    fn many_failures_bypass_for_longer_and_longer() {
        let mut health = Health::default();
        let mut now = SECOND;
        for expected in [10, 20, 40] {
            let bypassed = (0..FAILURES_MAX).map(|_| health.failed(Call::Read, &error(), now));
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
            assert!(!health.failed(Call::Write, &error(), now), "few failures are borne");
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Reads that begin at the same time and end together after `elapsed`.
    fn read(health: &mut Health, now: &mut Duration, count: u32, elapsed: Duration, writing: bool) {
        let before: Vec<u32> = (0..count)
            .map(|_| {
                let before = health.rate.under_way();
                health.rate.began(*now);
                before
            })
            .collect();
        *now += elapsed;
        for before in before {
            health.rate.ended(4096, *now);
            health.answered(elapsed, before, false, writing);
        }
    }

    /// A look that takes `elapsed`.
    fn look(health: &mut Health, now: &mut Duration, elapsed: Duration) {
        health.rate.began(*now);
        *now += elapsed;
        health.rate.ended(4096, *now);
        health.answered(elapsed, 0, true, false);
        health.probed(Some(elapsed), *now);
    }

    #[test]
    fn no_more_is_asked_of_a_device_than_it_answers_in_time() {
        let mut health = Health::default();
        let mut now = SECOND;
        // It does one after the other, 5 ms each.
        (0..100).for_each(|_| read(&mut health, &mut now, 1, MILLISECOND * 5, false));
        let origin = Some(MILLISECOND * 22);
        let mut asked = 0;
        while health.asking(origin, 0, false, now) == Asking::Yes && asked < 100 {
            health.rate.began(now);
            asked += 1;
        }
        assert_eq!(asked, 4, "the fifth would come after 25 ms");
        (0..4).for_each(|_| health.rate.ended(4096, now));
        let asked =
            (0..100).take_while(|others| health.asking(origin, *others, false, now) == Asking::Yes);
        assert_eq!(asked.count(), 4, "nor does it when all are asked for at once");
        assert_eq!(health.slower(now), None, "by itself it is sooner");
    }

    #[test]
    fn nobody_waits_behind_many_before_it_is_known_how_many_are_too_many() {
        let mut health = Health::default();
        let mut now = SECOND;
        read(&mut health, &mut now, 1, MILLISECOND * 5, false);
        let origin = Some(MILLISECOND * 22);
        let asked =
            (0..100).take_while(|others| health.asking(origin, *others, false, now) == Asking::Yes);
        assert_eq!(asked.count(), 4);
    }

    #[test]
    fn beside_the_origin_only_a_device_is_asked_that_is_clearly_sooner() {
        let mut health = Health::default();
        let mut now = SECOND;
        (0..100).for_each(|_| read(&mut health, &mut now, 1, MILLISECOND * 5, false));
        let mut worth = |origin: u32, taken, left, now| {
            health.is_worth_it(MILLISECOND * origin, Share { taken, left }, false, now)
        };
        assert_eq!(worth(11, 1, 0, now), Asking::Yes);
        assert_eq!(worth(41, 4, 12, now), Asking::Yes, "a fourth comes in half of the time");
        assert_eq!(worth(41, 4, 13, now), Asking::Probe, "it gives too few");
        assert_eq!(worth(7, 1, 0, now), Asking::No, "it gains nothing");
        health.probed(Some(MILLISECOND * 5), now);
        let pause = health.look_at - now;
        assert!(pause > Duration::ZERO, "that was not quick enough for them: {pause:?}");
    }

    #[test]
    fn the_last_of_many_takes_longer_where_answers_differ() {
        let mut health = Health::default();
        let mut now = SECOND;
        for elapsed in [2, 18].repeat(50) {
            read(&mut health, &mut now, 1, MILLISECOND * elapsed, false);
            health.rate = Rate::default();
        }
        let [one, last] = [0, 31].map(|others| health.expected(others, false));
        assert!((MILLISECOND * 8..MILLISECOND * 12).contains(&health.latency()), "{health:?}");
        assert!(last > MILLISECOND * 40 && last > one, "{one:?}, {last:?}");
    }

    #[test]
    fn a_crowd_does_not_make_a_device_slow() {
        let mut health = Health::default();
        let mut now = SECOND;
        // It does a hundred at a time in 2 ms, and as many as come in so many times that.
        (0..20).for_each(|_| read(&mut health, &mut now, 800, MILLISECOND * 16, false));
        assert!(health.latency() < MILLISECOND, "{:?}", health.latency());
        let origin = Some(MILLISECOND * 8);
        assert_eq!(health.asking(origin, 0, false, now), Asking::Yes, "the crowd has gone");
        let mut asked = 0;
        while health.asking(origin, 0, false, now) == Asking::Yes && asked < 1000 {
            health.rate.began(now);
            asked += 1;
        }
        assert!((350..=450).contains(&asked), "{asked} come back in time");
    }

    #[test]
    fn what_reads_take_beside_writes_is_known_apart() {
        let mut health = Health::default();
        let mut now = SECOND;
        let origin = Some(MILLISECOND * 10);
        (0..100).for_each(|_| read(&mut health, &mut now, 1, MILLISECOND * 50, true));
        assert_ne!(
            health.asking(origin, 0, true, now),
            Asking::Yes,
            "it is slow while it is filled"
        );
        look(&mut health, &mut now, MILLISECOND);
        assert_ne!(health.asking(origin, 0, true, now), Asking::Yes, "now it is not");
        let mut looks = 1;
        while health.asking(origin, 0, false, now) != Asking::Yes {
            look(&mut health, &mut now, MILLISECOND);
            looks += 1;
        }
        assert!(looks < 5, "{looks}");
        assert_ne!(health.asking(origin, 0, true, now), Asking::Yes, "beside writes it is as slow");
    }

    #[test]
    fn a_device_that_has_recovered_is_asked_at_once() {
        let mut health = Health::default();
        let mut now = SECOND;
        (0..100).for_each(|_| read(&mut health, &mut now, 1, MILLISECOND * 66, false));
        let origin = Some(MILLISECOND * 8);
        // For a minute it stays slow.
        while now < SECOND * 60 {
            if health.asking(origin, 0, false, now) == Asking::Probe {
                look(&mut health, &mut now, MILLISECOND * 66);
            }
            now += MILLISECOND;
        }
        let recovered = now;
        while health.asking(origin, 0, false, now) != Asking::Yes {
            if !health.is_probing {
                now += MILLISECOND;
                continue;
            }
            look(&mut health, &mut now, MILLISECOND / 10);
        }
        assert!(now - recovered < SECOND * 11 / 10, "{:?}", now - recovered);
        // Slow for a moment only, it is back within a few of those.
        (0..8).for_each(|_| read(&mut health, &mut now, 1, MILLISECOND * 66, false));
        health.look_pause = LOOK_PAUSE.0;
        let recovered = now;
        while health.asking(origin, 0, false, now) != Asking::Yes {
            if health.is_probing {
                look(&mut health, &mut now, MILLISECOND / 10);
            }
            now += MILLISECOND;
        }
        assert!(now - recovered < MILLISECOND * 40, "{:?}", now - recovered);
    }

    #[test]
    fn a_device_that_nobody_knows_is_asked_once_at_first() {
        let mut health = Health::default();
        let origin = Some(MILLISECOND * 10);
        assert_eq!(health.asking(origin, 0, true, SECOND), Asking::Probe, "it is busy");
        assert_eq!(health.asking(origin, 0, true, SECOND), Asking::No);
        assert_eq!(health.asking(origin, 0, false, SECOND), Asking::Yes);
        health.rate.began(SECOND);
        assert!((0..100).all(|_| health.asking(origin, 0, false, SECOND) == Asking::No));
        health.probed(None, SECOND);
        assert_eq!(
            health.asking(None, 0, false, SECOND),
            Asking::Yes,
            "nobody knows the origin either"
        );
        health.rate.ended(1, SECOND);
        health.answered(MILLISECOND, 0, false, false);
        assert_eq!(health.asking(origin, 0, false, SECOND), Asking::Yes);
    }

    #[test]
    fn a_slow_device_is_probed_now_and_then() {
        let mut health = Health::default();
        let mut now = SECOND * 5;
        health.answered(MILLISECOND * 30, 0, false, false);
        let origin = Some(MILLISECOND * 10);
        let mut probes = Vec::new();
        while now < SECOND * 15 {
            match health.asking(origin, 0, false, now) {
                Asking::Yes => panic!("nobody waits for it"),
                Asking::No => {}
                Asking::Probe => {
                    probes.push(now);
                    assert_eq!(
                        health.asking(origin, 0, false, now + SECOND * 90),
                        Asking::No,
                        "one"
                    );
                    health.probed(Some(MILLISECOND * 30), now);
                }
            }
            now += MILLISECOND;
        }
        let pauses: Vec<Duration> = probes.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(pauses.is_sorted() && pauses[0] <= MILLISECOND * 20, "{pauses:?}");
        assert!(pauses[8..].iter().all(|pause| *pause == SECOND), "{pauses:?}");
        let slower = health.slower(now).expect("it is");
        assert_eq!((Some(slower.origin), slower.since), (origin, SECOND * 10));
        assert_eq!(slower.device, MILLISECOND * 30);
        assert_eq!(health.asking(None, 0, false, now), Asking::Yes);
        assert_eq!(health.slower(now), None);
        (0..60).for_each(|_| health.answered(MILLISECOND, 0, false, false));
        assert!((0..100).all(|_| health.asking(origin, 0, false, now) == Asking::Yes));
    }
}
