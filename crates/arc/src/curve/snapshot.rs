//! [`CurveSnapshot`]: a miss-ratio curve as of a moment, and what it says.

use super::histogram::{BUCKETS, GROUPS, Histogram, upper_edge};

/// Sampled accesses below which a curve is not to be relied on.
///
/// ```
/// let curve = arc::CurveSnapshot { samples: arc::CURVE_SAMPLES_MIN, ..Default::default() };
/// assert!(!curve.is_too_early());
/// ```
pub const CURVE_SAMPLES_MIN: u64 = 10_000;

/// A hit rate this much below the highest is as good: half a point.
///
/// ```
/// use arc::{CURVE_TOLERANCE, CurvePoint, CurveSnapshot};
///
/// let at = |bytes, hit_rate| CurvePoint { bytes, hit_rate, error: 0.0 };
/// let points = vec![at(1 << 20, 0.5), at(1 << 30, 0.5 + CURVE_TOLERANCE / 2.0)];
/// let curve = CurveSnapshot { points, ..CurveSnapshot::default() };
/// assert!(curve.enough().is_some_and(|enough| enough.bytes <= 1 << 20));
/// ```
pub const CURVE_TOLERANCE: f64 = 0.005;

/// A bend is a knee if it stands out of the straight line by this share of the curve's height.
const KNEE_SHARE_MIN: f64 = 0.05;

/// The hit rate of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Size of the cache, bytes.
    pub bytes: u64,
    /// Share of accesses, 0 to 1, that an LRU cache of that size would have answered.
    pub hit_rate: f64,
    /// Two standard errors of the hit rate that come from sampling; 0 where all was sampled. What
    /// the sample cannot know of itself, such as a few very hot records, is not in it.
    pub error: f64,
}

/// A miss-ratio curve as of a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CurveSnapshot {
    /// Accesses that it speaks of. Older ones count in part.
    pub accesses: f64,
    /// Share of them, 0 to 1, that were hits in the cache that there is.
    pub measured_hit_rate: f64,
    /// Share of them, 0 to 1, that found what had been brought ahead of them.
    pub ahead_rate: f64,
    /// Sampled accesses among them.
    pub samples: u64,
    /// Sampled records that are remembered.
    pub records: u64,
    /// Share of the records, 0 to 1, that are sampled.
    pub rate: f64,
    /// By rising size, hit rates rising. The last is the highest rate that any size would reach.
    pub points: Vec<CurvePoint>,
}

impl CurveSnapshot {
    /// Whether there are too few samples to rely on.
    pub fn is_too_early(&self) -> bool {
        self.samples < CURVE_SAMPLES_MIN
    }

    /// The point of a size, between the points that there are. `None` while there are none.
    pub fn at(&self, bytes: u64) -> Option<CurvePoint> {
        let last = *self.points.last()?;
        let next = self.points.partition_point(|point| point.bytes < bytes);
        let Some(above) = self.points.get(next) else {
            return Some(CurvePoint { bytes, ..last });
        };
        let none = CurvePoint { bytes: 0, hit_rate: 0.0, error: above.error };
        let below = next.checked_sub(1).map_or(none, |index| self.points[index]);
        let share = (bytes - below.bytes) as f64 / (above.bytes - below.bytes) as f64;
        let between = |from: f64, to: f64| from + share * (to - from);
        Some(CurvePoint {
            bytes,
            hit_rate: between(below.hit_rate, above.hit_rate),
            error: between(below.error, above.error),
        })
    }

    /// The smallest size beyond which nothing is gained: all else is within
    /// [`CURVE_TOLERANCE`].
    pub fn enough(&self) -> Option<CurvePoint> {
        let best = self.points.last()?.hit_rate;
        self.points.iter().copied().find(|point| point.hit_rate >= best - CURVE_TOLERANCE)
    }

    /// Where the curve bends: up to there a byte gains more than beyond.
    ///
    /// It is the point highest above the straight line from the curve's first point to
    /// [`enough`](CurveSnapshot::enough) (Satopaa et al., "Finding a Kneedle in a Haystack", 2011),
    /// and `enough` itself where the curve does not stand out of that line: on a straight slope,
    /// and on a loop, which gains nothing until all of it fits.
    pub fn knee(&self) -> Option<CurvePoint> {
        let (first, enough) = (*self.points.first()?, self.enough()?);
        let (width, height) =
            ((enough.bytes - first.bytes) as f64, enough.hit_rate - first.hit_rate);
        if width <= 0.0 || height <= 0.0 {
            return Some(enough);
        }
        let above = |point: &CurvePoint| {
            let line = (point.bytes - first.bytes) as f64 / width;
            (point.hit_rate - first.hit_rate) / height - line
        };
        let within = self.points.iter().filter(|point| point.bytes <= enough.bytes);
        let highest = within.max_by(|a, b| above(a).total_cmp(&above(b))).copied()?;
        Some(if above(&highest) >= KNEE_SHARE_MIN { highest } else { enough })
    }

    /// Fills in the points from a histogram that stands for `self.accesses` in truth, in records
    /// of `record_bytes` on average.
    pub(super) fn with_points(mut self, histogram: &Histogram, record_bytes: f64) -> CurveSnapshot {
        self.points = points_of(histogram, self.accesses, self.rate);
        let errors: Vec<f64> =
            self.points.iter().map(|point| self.error_of_distances(point, record_bytes)).collect();
        for (point, error) in self.points.iter_mut().zip(errors) {
            point.error = point.error.hypot(error);
        }
        self
    }

    /// Two standard errors of a hit rate that come from the distances: they are sums over few
    /// sampled records, so that a point may lie too far left or right.
    fn error_of_distances(&self, point: &CurvePoint, record_bytes: f64) -> f64 {
        let records = (point.bytes as f64 / record_bytes * self.rate).max(1.0);
        let share = 2.0 * ((1.0 - self.rate).max(0.0) / records).sqrt();
        let at = |bytes: f64| self.at(bytes as u64).map_or(0.0, |point| point.hit_rate);
        let bytes = point.bytes as f64;
        (at(bytes * (1.0 + share)) - at(bytes * (1.0 - share).max(0.0))) / 2.0
    }
}

/// Sums up a histogram of `accesses` in truth, of which `rate` were sampled at last.
///
/// The adjustment of SHARDS: the sample stands for more or fewer accesses than there were,
/// mostly because a few very hot records are or are not in it; what is missing or too much is
/// made up at the smallest distance, where the accesses to hot records lie.
fn points_of(histogram: &Histogram, accesses: f64, rate: f64) -> Vec<CurvePoint> {
    let Some(last) = (0..BUCKETS).rev().find(|bucket| {
        (0..GROUPS).any(|group| histogram.row(group).get(*bucket).is_some_and(|it| *it > 0.0))
    }) else {
        return match accesses > 0.0 {
            true => vec![CurvePoint { bytes: upper_edge(0), hit_rate: 0.0, error: 0.0 }],
            false => Vec::new(),
        };
    };
    let sampled: f64 = (0..GROUPS).map(|group| histogram.accesses(group)).sum();
    let mut sum = accesses - sampled;
    let mut sums: [f64; GROUPS] =
        std::array::from_fn(|group| accesses / GROUPS as f64 - histogram.accesses(group));
    let mut highest = 0.0_f64;
    let mut points = Vec::with_capacity(last + 1);
    for bucket in 0..=last {
        for (group, group_sum) in sums.iter_mut().enumerate() {
            *group_sum += histogram.row(group)[bucket];
            sum += histogram.row(group)[bucket];
        }
        highest = highest.max((sum / accesses).clamp(0.0, 1.0));
        let error = standard_error(&sums.map(|sum| sum * GROUPS as f64 / accesses));
        points.push(CurvePoint {
            bytes: upper_edge(bucket),
            hit_rate: highest,
            error: 2.0 * error * (1.0 - rate).max(0.0).sqrt(),
        });
    }
    points
}

/// The standard error of the mean of what the groups say.
fn standard_error(rates: &[f64; GROUPS]) -> f64 {
    let mean = rates.iter().sum::<f64>() / GROUPS as f64;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (squares / (GROUPS * (GROUPS - 1)) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> CurveSnapshot {
        let point = |&(bytes, hit_rate)| CurvePoint { bytes, hit_rate, error: 0.0 };
        CurveSnapshot { points: points.iter().map(point).collect(), ..CurveSnapshot::default() }
    }

    #[test]
    fn the_knee_of_a_step_is_its_upper_corner() {
        let steps =
            curve(&[(1, 0.0), (99, 0.0), (100, 0.7), (1199, 0.7), (1200, 0.9), (9000, 0.9)]);
        assert_eq!(steps.knee().map(|point| point.bytes), Some(100));
        assert_eq!(steps.enough().map(|point| point.bytes), Some(1200));
    }

    #[test]
    fn a_loop_and_a_straight_slope_have_their_knee_at_the_end() {
        let one_loop = curve(&[(1, 0.1), (999, 0.1), (1000, 0.99), (2000, 0.99)]);
        assert_eq!(one_loop.knee().map(|point| point.bytes), Some(1000));
        let slope: Vec<_> = (1..=100).map(|step| (step * 10, step as f64 / 100.0)).collect();
        assert_eq!(curve(&slope).knee().map(|point| point.bytes), Some(1000));
    }

    #[test]
    fn between_points_the_hit_rate_rises_evenly() {
        let curve = curve(&[(100, 0.2), (200, 0.4)]);
        let rate = |bytes| curve.at(bytes).map(|point| (point.hit_rate * 1000.0).round() / 1000.0);
        assert_eq!(rate(0), Some(0.0));
        assert_eq!(rate(50), Some(0.1));
        assert_eq!(rate(150), Some(0.3));
        assert_eq!(rate(200), Some(0.4));
        assert_eq!(rate(u64::MAX), Some(0.4));
        assert_eq!(CurveSnapshot::default().at(5), None);
        assert_eq!(CurveSnapshot::default().knee(), None);
    }
}
