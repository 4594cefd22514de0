//! How well cache devices fit the load: the key ratios of Christopher Wood's "Best practices for
//! OpenZFS L2ARC in the era of NVMe" (SDC 2019), worked out from what the pool has seen.

use std::time::Duration;

use warmfront::Pool;

use crate::protocol::{CacheAdvice, CacheStatus};

/// The years for which makers of drives tell drive writes a day.
const RATED_YEARS: f64 = 5.0;
const DAY_SECONDS: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;
/// A read of this length tells bandwidths.
const READ_BYTES: u64 = 4 << 20;
/// Fewer reads of records than this say nothing of the load.
const READS_MIN: u64 = 10_000;
/// Rates over less than this say nothing; of life, over less than that: the first fill is no rate.
const UPTIME_MIN: Duration = Duration::from_secs(10);
/// Devices that have taken no record for so long are not being filled.
const IDLE_MAX: Duration = Duration::from_secs(60);
const LIFE_UPTIME_MIN: Duration = Duration::from_secs(3600);

/// What is known of a pool with cache devices.
#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    /// Reads of records since the pool was mounted.
    reads: u64,
    active_bytes: Option<u64>,
    ceiling_bytes: u64,
    device_bytes: u64,
    stored_bytes: u64,
    /// What the index takes for the first records, and for more than those.
    index_fixed_bytes: u64,
    index_bytes: u64,
    records: u64,
    /// Whether records were written to the devices within the last minute.
    is_filling: bool,
    /// Bytes written to the devices since they were formatted, and since the pool was mounted.
    written_bytes: u64,
    written_since_bytes: u64,
    uptime: Duration,
    dwpd: Option<f64>,
    flash_bytes_per_second: Option<f64>,
    origin_bytes_per_second: Option<f64>,
}

/// Works out what the devices are worth, from what was seen so far.
pub(crate) fn advice(
    pool: &Pool,
    caches: &[CacheStatus],
    ceiling_bytes: u64,
    uptime: Duration,
    reads: u64,
) -> Option<CacheAdvice> {
    if caches.is_empty() {
        return None;
    }
    let statistics = pool.flash_statistics();
    let curve = pool.curves(None, false).ok().and_then(|curves| curves.into_iter().next());
    let known = curve.filter(|curve| !curve.is_too_early);
    let sum = |of: fn(&CacheStatus) -> u64| caches.iter().map(of).sum::<u64>();
    let facts = Facts {
        reads,
        active_bytes: known.and_then(|curve| Some(curve.points.last()?.bytes)),
        ceiling_bytes,
        device_bytes: sum(|device| device.data_bytes),
        stored_bytes: sum(|device| device.stored_bytes),
        index_bytes: statistics.index_bytes.saturating_sub(statistics.index_fixed_bytes),
        index_fixed_bytes: statistics.index_fixed_bytes.min(statistics.index_bytes),
        records: statistics.records,
        is_filling: statistics.rings.iter().any(|ring| ring.idle < IDLE_MAX && !ring.is_filled),
        written_bytes: sum(|device| device.written_bytes),
        written_since_bytes: statistics.stored_bytes,
        uptime,
        dwpd: caches.iter().find_map(|device| device.dwpd),
        flash_bytes_per_second: pool.flash_bytes_per_second(READ_BYTES),
        origin_bytes_per_second: pool.origin_bytes_per_second(READ_BYTES),
    };
    Some(facts.advice())
}

impl Facts {
    fn advice(&self) -> CacheAdvice {
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let levels = (self.ceiling_bytes + self.device_bytes) as f64;
        let rate = (self.uptime >= UPTIME_MIN)
            .then(|| self.written_since_bytes as f64 / self.uptime.as_secs_f64())
            .filter(|rate| *rate > 0.0);
        let left = self.device_bytes.saturating_sub(self.stored_bytes) as f64;
        let rated = self.dwpd.map(|dwpd| {
            dwpd * self.device_bytes as f64 * YEAR_DAYS * RATED_YEARS - self.written_bytes as f64
        });
        let lasting = rate.filter(|_| self.uptime >= LIFE_UPTIME_MIN);
        let life_seconds = rated.zip(lasting).map(|(left, rate)| left.max(0.0) / rate);
        let early = self.reads < READS_MIN;
        // Few records have room in what is fixed.
        let of_index = |whole| ratio(self.index_bytes as f64, whole).filter(|each| *each > 0.0);
        let active_bytes = self.active_bytes.filter(|_| !early);
        let flash_bytes_per_second = self.flash_bytes_per_second.filter(|_| !early);
        CacheAdvice {
            reads: self.reads,
            reads_needed: early.then_some(READS_MIN),
            active_bytes,
            key_ratio_1: active_bytes.and_then(|active| ratio(active as f64, levels)),
            flash_bytes_per_second,
            origin_bytes_per_second: self.origin_bytes_per_second,
            key_ratio_2: flash_bytes_per_second
                .zip(self.origin_bytes_per_second)
                .and_then(|(flash, origin)| ratio(flash, origin)),
            index_bytes_per_gib: of_index(self.stored_bytes as f64 / f64::from(1 << 30)),
            index_fixed_bytes: self.index_fixed_bytes,
            index_bytes_per_record: of_index(self.records as f64),
            fill_seconds: rate.filter(|_| self.is_filling).map(|rate| left / rate),
            life_years: life_seconds.map(|seconds| seconds / DAY_SECONDS / YEAR_DAYS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn ratios_rates_and_life_follow_from_what_was_seen() {
        let facts = Facts {
            reads: READS_MIN,
            active_bytes: Some(480 * GIB),
            ceiling_bytes: 128 * GIB,
            device_bytes: 400 * GIB,
            stored_bytes: 100 * GIB,
            index_fixed_bytes: 48 << 10,
            index_bytes: GIB,
            records: GIB / 16,
            is_filling: true,
            written_bytes: 100 * GIB,
            written_since_bytes: 36 * GIB,
            uptime: Duration::from_secs(3600),
            dwpd: Some(1.0),
            flash_bytes_per_second: Some(500e6),
            origin_bytes_per_second: Some(1000e6),
        };
        let advice = facts.advice();
        let near = |value: Option<f64>, expected: f64| {
            value.is_some_and(|value| (value / expected - 1.0).abs() < 1e-6)
        };
        assert!(near(advice.key_ratio_1, 480.0 / 528.0));
        assert!(near(advice.key_ratio_2, 0.5));
        assert!(near(advice.index_bytes_per_gib, GIB as f64 / 100.0));
        assert!(near(advice.index_bytes_per_record, 16.0));
        assert!(near(advice.fill_seconds, 300.0 * 100.0), "300 GiB at 36 GiB an hour");
        let few = Facts { index_bytes: 0, records: 300, ..facts }.advice();
        assert_eq!((few.index_bytes_per_record, few.index_bytes_per_gib), (None, None));
        let done = Facts { is_filling: false, ..facts }.advice();
        assert_eq!(done.fill_seconds, None, "the fill has ended");
        let years = (400.0 * YEAR_DAYS * 5.0 - 100.0) / (36.0 * 24.0 * YEAR_DAYS);
        assert!(near(advice.life_years, years));
        assert_eq!(advice.reads_needed, None);
        let early = Facts { reads: READS_MIN - 1, ..facts }.advice();
        assert_eq!((early.key_ratio_1, early.key_ratio_2), (None, None), "too early to tell");
        assert_eq!((early.reads, early.reads_needed), (READS_MIN - 1, Some(READS_MIN)));
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let advice = Facts { device_bytes: GIB, ..Facts::default() }.advice();
        let nothing = [
            advice.key_ratio_1,
            advice.key_ratio_2,
            advice.index_bytes_per_gib,
            advice.fill_seconds,
            advice.life_years,
        ];
        assert_eq!(nothing, [None; 5]);
    }
}
