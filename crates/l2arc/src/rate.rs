use std::time::Duration;

/// A window of reads ends when so much of the time passed with reads under way, or so many bytes
/// were read.
const WINDOW: (Duration, u64) = (Duration::from_millis(100), 64 << 20);
/// Reads after which it is known at first how long one keeps the device busy, long before a window
/// has ended.
const FIRST_READS: u32 = 8;
/// The share of a slower window in the rate: one in so many. Most loads do not ask for all that a
/// device gives, so the rate falls slowly.
const WEIGHT: u64 = 16;

/// What a device gives while it is asked: bytes a second, and how long each read keeps it busy. The
/// latter is less than a read's latency where several are done at a time.
///
/// Only time during which at least one read is under way counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rate {
    under_way: u32,
    busy_since: Duration,
    busy: Duration,
    bytes: u64,
    bytes_a_second: u64,
    /// Reads that have ended, and how long one keeps the device busy.
    reads: u32,
    service: Duration,
}

impl Rate {
    /// A read begins.
    pub(crate) fn began(&mut self, now: Duration) {
        if self.under_way == 0 {
            self.busy_since = now;
        }
        self.under_way += 1;
    }

    /// A read has ended, and brought so many bytes.
    pub(crate) fn ended(&mut self, bytes: u64, now: Duration) {
        self.under_way = self.under_way.checked_sub(1).expect("it has begun");
        self.busy += now.saturating_sub(self.busy_since);
        self.busy_since = now;
        self.bytes += bytes;
        self.reads += 1;
        if self.service.is_zero() && self.reads == FIRST_READS {
            self.service = self.busy / self.reads;
        }
        if self.busy < WINDOW.0 && self.bytes < WINDOW.1 || self.busy.is_zero() {
            return;
        }
        let rate = (self.bytes as f64 / self.busy.as_secs_f64()) as u64;
        self.bytes_a_second = match self.bytes_a_second {
            before if rate >= before => rate,
            before => before - before / WEIGHT + rate / WEIGHT,
        };
        self.service = self.busy / self.reads;
        (self.busy, self.bytes, self.reads) = (Duration::ZERO, 0, 0);
    }

    /// How long one more read will take behind those that are under way and so many `others`, as
    /// far as they share the device. Until it is known how far they do, each keeps the device busy
    /// for all of the `latency` of one.
    pub(crate) fn wait(&self, latency: Duration, others: u32) -> Duration {
        let service = if self.service.is_zero() { latency } else { self.service };
        service.saturating_mul(self.under_way + others + 1)
    }

    /// How long a read would have taken by itself that took `elapsed` behind so many others.
    pub(crate) fn alone(&mut self, elapsed: Duration, before: u32) -> Duration {
        if before == 0 && elapsed < self.service {
            // It cannot have kept the device busy for longer than it took.
            self.service = (self.service + elapsed) / 2;
        }
        elapsed.saturating_sub(self.service.saturating_mul(before)).max(elapsed / (before + 1))
    }

    /// Reads under way.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// The rate; zero as long as it is not known.
    pub(crate) fn bytes_a_second(&self) -> u64 {
        self.bytes_a_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_with_reads_under_way_counts() {
        let millisecond = Duration::from_millis(1);
        let mut rate = Rate::default();
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            // Two at a time for 2 ms, and nothing for 8.
            rate.began(now);
            rate.began(now + millisecond);
            rate.ended(1000, now + millisecond * 2);
            rate.ended(1000, now + millisecond * 2);
            now += millisecond * 10;
        }
        assert_eq!(rate.bytes_a_second(), 1_000_000, "2000 bytes in 2 ms");
        for _ in 0..200 {
            rate.began(now);
            rate.ended(1000, now + millisecond * 10);
            now += millisecond * 10;
        }
        let slower = rate.bytes_a_second();
        assert!((300_000..500_000).contains(&slower), "it falls slowly: {slower}");
    }
}
