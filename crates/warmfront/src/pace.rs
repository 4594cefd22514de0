use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// A call for so many bytes or less says how long any call takes; a larger one, what each byte
/// takes beyond that.
const SMALL_BYTES: u64 = 128 << 10;
/// The newest answer's share in the estimates: one in so many.
const WEIGHT: u32 = 8;

/// How long the origin's answers take, as of the last ones: of calls that it has to itself, and of
/// those beside others. A stream's read-ahead is many calls at a time, each of which waits for
/// those before it; a reader who comes when they are done does not.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    estimates: Mutex<[Estimate; 2]>,
    under_way: AtomicU32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Estimate {
    /// Of a small call.
    call: Option<Duration>,
    /// Of a MiB in a large call, beyond that.
    mebibyte: Option<Duration>,
}

/// A call that the origin has not answered yet.
pub(crate) struct Asked<'a> {
    pace: &'a Pace,
    is_beside_others: bool,
}

impl Pace {
    /// The origin is about to be asked.
    pub(crate) fn asked(&self) -> Asked<'_> {
        let others = self.under_way.fetch_add(1, Ordering::Relaxed);
        Asked { pace: self, is_beside_others: others > 0 }
    }

    /// How long a read of so many bytes will take, if anything is known.
    pub(crate) fn expected(&self, bytes: u64) -> Option<Duration> {
        self.of_read(bytes, self.under_way.load(Ordering::Relaxed) > 0)
    }

    fn of_read(&self, bytes: u64, is_beside_others: bool) -> Option<Duration> {
        let mut estimates = *self.estimates.lock();
        estimates.rotate_left(usize::from(is_beside_others));
        let [known, other] = estimates;
        let call = known.call.or(other.call);
        let mebibyte = known.mebibyte.or(other.mebibyte);
        let transfer = mebibyte.unwrap_or_default().mul_f64(bytes as f64 / (1 << 20) as f64);
        call.or(mebibyte).map(|_| call.unwrap_or_default() + transfer)
    }

    /// Bytes a second in a read of so many, once such reads have been seen.
    pub(crate) fn bytes_per_second(&self, bytes: u64) -> Option<f64> {
        self.estimates.lock().iter().find_map(|estimate| estimate.mebibyte)?;
        let expected = self.of_read(bytes, false)?.as_secs_f64();
        (expected > 0.0).then(|| bytes as f64 / expected)
    }
}

impl Asked<'_> {
    /// It has brought so many bytes after `elapsed`.
    pub(crate) fn answered(self, bytes: u64, elapsed: Duration) {
        let estimates = &mut *self.pace.estimates.lock();
        let estimate = &mut estimates[usize::from(self.is_beside_others)];
        if bytes <= SMALL_BYTES {
            estimate.call = Some(blend(estimate.call, elapsed));
        } else {
            let rest = elapsed.saturating_sub(estimate.call.unwrap_or_default());
            let of_one = rest.mul_f64((1 << 20) as f64 / bytes as f64);
            estimate.mebibyte = Some(blend(estimate.mebibyte, of_one));
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.pace.under_way.fetch_sub(1, Ordering::Relaxed);
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
        (0..100).for_each(|_| pace.asked().answered(4096, millisecond * 8));
        assert_eq!(pace.bytes_per_second(4 << 20), None, "small calls tell nothing of bandwidth");
        (0..100).for_each(|_| pace.asked().answered(4 << 20, millisecond * 28));
        let rate = pace.bytes_per_second(4 << 20).expect("it is known by now");
        assert!((rate / 149.8e6 - 1.0).abs() < 0.05, "{rate}");
        let within = |bytes, expected: u32| {
            let found = pace.expected(bytes).expect("it is known by now");
            found.abs_diff(millisecond * expected) < millisecond
        };
        assert!(within(4096, 8) && within(1 << 20, 13) && within(4 << 20, 28));
    }
    #[test]
    fn what_a_call_waits_for_others_does_not_make_the_origin_slow() {
        let pace = Pace::default();
        let millisecond = Duration::from_millis(1);
        for _ in 0..100 {
            let crowd: Vec<Asked<'_>> = (0..4).map(|_| pace.asked()).collect();
            for (place, asked) in (1..).zip(crowd) {
                asked.answered(1 << 20, millisecond * 7 * place);
            }
        }
        assert_eq!(pace.expected(1 << 20), Some(millisecond * 7));
        let _another = pace.asked();
        assert!(pace.expected(1 << 20) > Some(millisecond * 14), "it waits for the other");
    }
}
