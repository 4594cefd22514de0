use std::time::Duration;

use parking_lot::Mutex;

/// Part of the limit, in hundredths, from which on writers are delayed. As
/// `zfs_delay_min_dirty_percent` of OpenZFS.
const DELAY_FROM_PERCENT: u64 = 60;
/// The delay of a write half way between there and the limit, until it is known how fast the origin
/// is. As `zfs_delay_scale` of OpenZFS.
const DELAY_SCALE: Duration = Duration::from_micros(500);
/// How many times longer than the origin takes for it a write is delayed at most.
const FACTOR_MAX: f64 = 16.0;
/// The longest delay of one write.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// Over how much of its busy time it is averaged how fast the origin is.
const PACE_TIME: Duration = Duration::from_secs(4);

/// How writers are slowed while data waits for the origin.
///
/// From 60 % of the limit on, a write is delayed by the time that the origin takes for as many
/// bytes, times a factor that grows hyperbolically: 1 half way to the limit, so that there data
/// comes as fast as it goes. OpenZFS has the curve, with a delay that is set by hand for the pool;
/// measuring it, the same curve fits a disk and a memory card.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pace: Pace,
    /// Until when the writers before have been told to wait.
    until: Duration,
    /// Waited so far in all.
    total: Duration,
    delayed_writes: u64,
    /// The last delay.
    last: Duration,
}

/// How long the origin takes for bytes.
#[derive(Debug, Default)]
struct Pace {
    bytes: u64,
    time: Duration,
}

/// How writers are slowed.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.write(0, b"C").await?;
/// let throttle = pool.write_back_statistics().throttle;
/// assert!(throttle.dirty_bytes > 0 && throttle.dirty_bytes < throttle.dirty_bytes_max);
/// assert_eq!(throttle.delayed_writes, 0, "there is room");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottleStatistics {
    /// Bytes of dirty data, with what has been written and not been committed.
    pub dirty_bytes: u64,
    /// Bytes that they may be at most.
    pub dirty_bytes_max: u64,
    /// About how many of them the origin has not taken yet, which may be half of the most.
    pub waiting_bytes: u64,
    /// Writes that were delayed.
    pub delayed_writes: u64,
    /// How long in all.
    pub delayed: Duration,
    /// The delay of the last one.
    pub last_delay: Duration,
}

impl Throttle {
    /// How long a write of `bytes` that comes now has to wait, while so many of at most so many
    /// bytes wait for the origin. Those who come together wait one after the other.
    pub(crate) fn delay(
        &self,
        bytes: u64,
        waiting_bytes: u64,
        waiting_bytes_max: u64,
        now: Duration,
    ) -> Duration {
        let factor = factor(waiting_bytes, waiting_bytes_max);
        if factor == 0.0 {
            return Duration::ZERO;
        }
        let mut state = self.state.lock();
        let delay = state.pace.time_for(bytes).unwrap_or(DELAY_SCALE).mul_f64(factor);
        state.until = state.until.max(now).saturating_add(delay).min(now + DELAY_MAX);
        let wait = state.until - now;
        state.total += wait;
        state.last = wait;
        state.delayed_writes += 1;
        wait
    }

    /// Notes that the origin took so long to take in so many bytes, or to make them last.
    pub(crate) fn drained(&self, bytes: u64, time: Duration) {
        self.state.lock().pace.note(bytes, time);
    }

    /// What was done so far.
    pub(crate) fn statistics(&self) -> ThrottleStatistics {
        let state = self.state.lock();
        ThrottleStatistics {
            delayed_writes: state.delayed_writes,
            delayed: state.total,
            last_delay: state.last,
            ..ThrottleStatistics::default()
        }
    }
}

impl Pace {
    fn note(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.time += time;
        if self.time > PACE_TIME {
            self.bytes /= 2;
            self.time /= 2;
        }
    }

    fn time_for(&self, bytes: u64) -> Option<Duration> {
        (self.bytes > 0).then(|| self.time.mul_f64(bytes as f64 / self.bytes as f64))
    }
}

/// The factor of the delay: none up to 60 % of the limit, then growing hyperbolically.
fn factor(waiting_bytes: u64, waiting_bytes_max: u64) -> f64 {
    let from = waiting_bytes_max / 100 * DELAY_FROM_PERCENT;
    if waiting_bytes <= from {
        return 0.0;
    }
    let left = waiting_bytes_max.saturating_sub(waiting_bytes).max(1);
    ((waiting_bytes - from) as f64 / left as f64).min(FACTOR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_begins_at_sixty_percent_and_grows_without_a_step() {
        let limit = 100 << 20;
        assert_eq!(factor(60 << 20, limit), 0.0);
        assert_eq!(factor(80 << 20, limit), 1.0, "half way");
        let mut before = 0.0;
        for waiting in (60 << 20..=limit).step_by(1 << 16) {
            let next = factor(waiting, limit);
            assert!(next >= before && next <= FACTOR_MAX);
            assert!(next - before < 0.1 * before.max(0.1), "{before} then {next} at {waiting}");
            before = next;
        }
        assert_eq!(before, FACTOR_MAX);
        assert_eq!(factor(2 * limit, limit), FACTOR_MAX);
    }

    #[test]
    fn half_way_data_comes_as_fast_as_it_goes() {
        let throttle = Throttle::default();
        let (limit, now) = (100 << 20, Duration::from_secs(1));
        assert_eq!(throttle.delay(4096, 80 << 20, limit, now), DELAY_SCALE, "nothing is known");
        throttle.drained(4 << 20, Duration::from_secs(1));
        throttle.drained(0, Duration::from_secs(1));
        let later = 2 * now;
        let delay = throttle.delay(1 << 20, 80 << 20, limit, later);
        assert_eq!(delay, Duration::from_millis(500), "2 MiB/s");
        let second = throttle.delay(1 << 20, 80 << 20, limit, later);
        assert_eq!(second, 2 * delay, "one after the other");
        assert_eq!(throttle.delay(1 << 20, 80 << 20, limit, later), DELAY_MAX);
        assert_eq!(throttle.delay(1 << 20, 80 << 20, limit, 2 * later), delay, "all have gone on");
        assert_eq!(throttle.statistics().delayed_writes, 5);
        for _ in 0..20 {
            throttle.drained(8 << 20, Duration::from_secs(1));
        }
        let faster = throttle.delay(1 << 20, 80 << 20, limit, 4 * later);
        assert!(faster < delay / 3, "{faster:?}: what was long ago counts for less");
    }
}
