use std::time::Duration;

use parking_lot::Mutex;

/// A call for so many bytes or less says how long any call takes; a larger one, what each byte
/// takes beyond that.
const SMALL_BYTES: u64 = 128 << 10;
/// The newest answer's share in the estimates: one in so many.
const WEIGHT: u32 = 8;

/// How long the origin's answers take, as of the last ones.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    estimate: Mutex<Estimate>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Estimate {
    /// Of a small call.
    call: Option<Duration>,
    /// Of a MiB in a large call, beyond that.
    mebibyte: Option<Duration>,
}

impl Pace {
    /// Notes that a read of so many bytes took `elapsed`.
    pub(crate) fn answered(&self, bytes: u64, elapsed: Duration) {
        let mut estimate = self.estimate.lock();
        if bytes <= SMALL_BYTES {
            estimate.call = Some(blend(estimate.call, elapsed));
        } else {
            let rest = elapsed.saturating_sub(estimate.call.unwrap_or_default());
            let of_one = rest.mul_f64((1 << 20) as f64 / bytes as f64);
            estimate.mebibyte = Some(blend(estimate.mebibyte, of_one));
        }
    }

    /// How long a read of so many bytes will take, if anything is known.
    pub(crate) fn expected(&self, bytes: u64) -> Option<Duration> {
        let Estimate { call, mebibyte } = *self.estimate.lock();
        if call.is_none() && mebibyte.is_none() {
            return None;
        }
        let transfer = mebibyte.unwrap_or_default().mul_f64(bytes as f64 / (1 << 20) as f64);
        Some(call.unwrap_or_default() + transfer)
    }
}

impl Pace {
    /// Bytes a second in a read of so many, once such reads have been seen.
    pub(crate) fn bytes_per_second(&self, bytes: u64) -> Option<f64> {
        self.estimate.lock().mebibyte?;
        let expected = self.expected(bytes)?.as_secs_f64();
        (expected > 0.0).then(|| bytes as f64 / expected)
    }
}

fn blend(before: Option<Duration>, newest: Duration) -> Duration {
    before.map_or(newest, |before| (before * (WEIGHT - 1) + newest) / WEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_bytes_are_told_apart() {
        let pace = Pace::default();
        assert_eq!(pace.expected(4096), None);
        let millisecond = Duration::from_millis(1);
        (0..100).for_each(|_| pace.answered(4096, millisecond * 8));
        assert_eq!(pace.bytes_per_second(4 << 20), None, "small calls tell nothing of bandwidth");
        (0..100).for_each(|_| pace.answered(4 << 20, millisecond * 28));
        let rate = pace.bytes_per_second(4 << 20).expect("it is known by now");
        assert!((rate / 149.8e6 - 1.0).abs() < 0.05, "{rate}");
        let within = |bytes, expected: u32| {
            let found = pace.expected(bytes).expect("it is known by now");
            found.abs_diff(millisecond * expected) < millisecond
        };
        assert!(within(4096, 8) && within(1 << 20, 13) && within(4 << 20, 28));
    }
}
