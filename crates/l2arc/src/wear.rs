use std::time::Duration;

const SECONDS_A_DAY: u64 = 86_400;
/// What may be written beyond the budget at once, bytes.
const BURST_BYTES: u64 = 64 << 20;

/// How much may be written, so that the device lives as long as it is meant to.
///
/// The budget grows with time, up to what a day gives. Of all that is ever written to the device,
/// formats included, as many bytes as it holds are free: its first fill. A clock that is set back
/// gives nothing and takes nothing.
#[derive(Debug, Clone)]
pub(crate) struct Wear {
    size_bytes: u64,
    /// Drive writes a day, in hundredths; `None` is without limit.
    dwpd_hundredths: Option<u32>,
    /// Bytes a second; `None` is without limit.
    rate_bytes: Option<u64>,
    /// Over the whole life of the device.
    pub(crate) written_bytes: u64,
    /// What may be written now; less than nothing where a write was longer than that.
    credit_bytes: i64,
    /// What the rate lets through now; as above.
    allowance_bytes: i64,
    credited_at: Duration,
    allowed_at: Duration,
}

impl Wear {
    pub(crate) fn new(
        size_bytes: u64,
        dwpd_hundredths: Option<u32>,
        rate_bytes: Option<u64>,
        now: Duration,
    ) -> Wear {
        let mut wear = Wear {
            size_bytes,
            dwpd_hundredths,
            rate_bytes,
            written_bytes: 0,
            credit_bytes: 0,
            allowance_bytes: 0,
            credited_at: now,
            allowed_at: now,
        };
        wear.credit_bytes = wear.credit_max();
        wear
    }

    /// Goes on from what was written down `elapsed` seconds ago.
    pub(crate) fn resume(&mut self, written_bytes: u64, credit_bytes: u64, elapsed_seconds: u64) {
        self.written_bytes = written_bytes;
        let gained = self.gain(Duration::from_secs(elapsed_seconds));
        let credit_bytes = i64::try_from(credit_bytes).unwrap_or(i64::MAX);
        self.credit_bytes = credit_bytes.saturating_add(gained).min(self.credit_max());
    }

    /// Goes on from what nobody knows any more, which was a fill at least, with nothing left of the
    /// budget: else damage would be a way around it.
    pub(crate) fn resume_unknown(&mut self) {
        self.written_bytes = self.size_bytes;
        self.credit_bytes = 0;
    }

    /// What is left of the first fill, bytes.
    fn free_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.written_bytes)
    }

    /// What is left of the budget, bytes.
    pub(crate) fn credit_bytes(&self) -> u64 {
        self.credit_bytes.max(0) as u64
    }

    fn day_bytes(&self) -> u64 {
        let hundredths = u64::from(self.dwpd_hundredths.unwrap_or(0));
        (u128::from(self.size_bytes) * u128::from(hundredths) / 100).try_into().unwrap_or(u64::MAX)
    }

    fn credit_max(&self) -> i64 {
        i64::try_from(self.day_bytes().saturating_add(BURST_BYTES)).unwrap_or(i64::MAX)
    }

    fn gain(&self, elapsed: Duration) -> i64 {
        let day = u128::from(SECONDS_A_DAY) * 1_000_000_000;
        let gained = u128::from(self.day_bytes()).saturating_mul(elapsed.as_nanos()) / day;
        gained.try_into().unwrap_or(i64::MAX)
    }

    /// Lets time pass. Steps that are too short to gain a byte are kept for later.
    fn advance(&mut self, now: Duration) {
        let gained = self.gain(now.saturating_sub(self.credited_at));
        if gained > 0 {
            self.credited_at = now;
            self.credit_bytes = self.credit_bytes.saturating_add(gained).min(self.credit_max());
        }
        if let Some(rate) = self.rate_bytes {
            let elapsed = now.saturating_sub(self.allowed_at).as_nanos();
            let gained = u128::from(rate).saturating_mul(elapsed) / 1_000_000_000;
            if gained > 0 {
                let (gained, rate) = (gained.try_into().unwrap_or(i64::MAX), signed(rate));
                self.allowed_at = now;
                self.allowance_bytes = self.allowance_bytes.saturating_add(gained).min(rate);
            }
        }
    }

    /// Whether `bytes` may be written now, as a part of the first fill or within the wear budget.
    pub(crate) fn is_affordable(&mut self, bytes: u64, now: Duration) -> bool {
        self.advance(now);
        let charged_bytes = bytes.saturating_sub(self.free_bytes());
        self.dwpd_hundredths.is_none()
            || charged_bytes == 0
            || self.credit_bytes >= signed(charged_bytes)
    }

    /// Whether the rate lets `bytes` through now; the first of a second may be of any size.
    pub(crate) fn is_in_rate(&mut self, bytes: u64, now: Duration) -> bool {
        self.advance(now);
        self.rate_bytes.is_none_or(|rate| self.allowance_bytes >= signed(bytes.min(rate)))
    }

    /// Counts what is written; what is a part of the first fill takes nothing from the budget.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        let charged_bytes = bytes.saturating_sub(self.free_bytes());
        self.written_bytes = self.written_bytes.saturating_add(bytes);
        self.allowance_bytes = self.allowance_bytes.saturating_sub(signed(bytes));
        self.credit_bytes = self.credit_bytes.saturating_sub(signed(charged_bytes));
    }

    /// Takes back what was counted for a write that was not done.
    pub(crate) fn failed(&mut self, bytes: u64) {
        self.written_bytes = self.written_bytes.saturating_sub(bytes);
        let charged_bytes = bytes.saturating_sub(self.free_bytes());
        self.allowance_bytes = self.allowance_bytes.saturating_add(signed(bytes));
        self.credit_bytes = self.credit_bytes.saturating_add(signed(charged_bytes));
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_day_gives_what_it_gives_in_any_steps() {
        for step in [1_u32, 7, 600] {
            let mut wear = Wear::new(86_400 << 20, Some(100), None, Duration::ZERO);
            wear.written_bytes = wear.size_bytes;
            wear.wrote(wear.credit_bytes());
            assert!(!wear.is_affordable(1, Duration::ZERO));
            let mut now = Duration::ZERO;
            while now < SECOND * 8_400 {
                now += SECOND * step;
                assert!(wear.is_affordable(0, now));
            }
            let gained = wear.credit_bytes as f64 / (now.as_secs_f64() * 1_048_576.0);
            assert!((0.999..1.001).contains(&gained), "{gained} with steps of {step}");
        }
    }

    #[test]
    fn it_lasts_over_starts_and_a_clock_set_back() {
        let mut wear = Wear::new(86_400 << 20, Some(50), None, Duration::ZERO);
        wear.resume(77, 10, 0);
        assert_eq!((wear.written_bytes, wear.credit_bytes), (77, 10));
        wear.resume(77, 10, 2);
        assert_eq!(wear.credit_bytes, 10 + (1 << 20));
        wear.resume(77, 10, u64::MAX);
        assert_eq!(
            wear.credit_bytes,
            (43_200 << 20) + BURST_BYTES as i64,
            "a day's worth, and no more"
        );
        assert!(wear.is_affordable(1, Duration::ZERO));
        wear.resume(77, 10, 0);
        wear.wrote(5);
        assert_eq!(wear.credit_bytes, 10, "the first fill is free");
    }

    #[test]
    fn a_device_is_filled_freely_once() {
        let mut wear = Wear::new(1000, Some(100), None, Duration::ZERO);
        wear.resume(900, 50, 0);
        assert!(wear.is_affordable(150, Duration::ZERO));
        assert!(!wear.is_affordable(151, Duration::ZERO));
        wear.wrote(120);
        assert_eq!((wear.written_bytes, wear.credit_bytes), (1020, 30), "100 of them are free");
        assert!(!wear.is_affordable(31, Duration::ZERO));
        wear.resume_unknown();
        assert!(!wear.is_affordable(1, Duration::ZERO), "damage gives nothing back");
    }

    #[test]
    fn a_write_that_was_not_done_counts_for_nothing() {
        let mut wear = Wear::new(1000, Some(100), Some(1 << 20), Duration::ZERO);
        wear.resume(900, 500, 0);
        let before = wear.clone();
        wear.wrote(70);
        wear.wrote(80);
        wear.failed(70);
        assert_eq!((wear.written_bytes, wear.credit_bytes), (980, 500), "all of it is free");
        wear.wrote(50);
        assert_eq!((wear.written_bytes, wear.credit_bytes), (1030, 470));
        [50, 80].into_iter().for_each(|bytes| wear.failed(bytes));
        let numbers = |it: &Wear| (it.written_bytes, it.credit_bytes, it.allowance_bytes);
        assert_eq!(numbers(&wear), numbers(&before));
    }

    #[test]
    fn the_rate_holds() {
        let mut wear = Wear::new(1 << 40, None, Some(1000), Duration::ZERO);
        let mut written = 0;
        for step in 0..100 {
            let now = SECOND * step / 10;
            while wear.is_in_rate(100, now) {
                wear.wrote(100);
                written += 100;
            }
        }
        assert!((8_000..=10_000).contains(&written), "{written} in 10 s");
    }
}
