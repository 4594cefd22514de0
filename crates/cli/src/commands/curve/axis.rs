use daemon::protocol::CurveReport;

/// The smallest share of the axis, as a divisor, that a marked size may lie at on a linear axis.
const LINEAR_SHARE_MIN: f64 = 24.0;
/// Marks on the axis at most.
const TICKS_MAX: usize = 8;
/// Sizes further out than this many times what is of interest are not shown.
const MARGIN: f64 = 1.2;

/// The axis of sizes: linear from 0 where all that is marked can be told apart, else logarithmic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    least: f64,
    most: f64,
    pub(crate) is_logarithmic: bool,
}

impl Axis {
    /// The axis for a curve: from nothing to a little more than what is marked.
    pub(crate) fn new(report: &CurveReport) -> Axis {
        let marked = [Some(report.today), report.knee, report.enough];
        let marked = || marked.iter().flatten().map(|point| point.bytes.max(1) as f64);
        let most = marked().fold(4096.0, f64::max) * MARGIN;
        let least = marked().fold(most, f64::min);
        let is_logarithmic = least < most / LINEAR_SHARE_MIN;
        Axis { least: if is_logarithmic { least / 4.0 } else { 0.0 }, most, is_logarithmic }
    }

    /// Where a size stands, 0 at the start of the axis, 1 at its end.
    pub(crate) fn place(&self, bytes: u64) -> f64 {
        let bytes = bytes as f64;
        let place = match self.is_logarithmic {
            true => (bytes.max(1.0) / self.least).ln() / (self.most / self.least).ln(),
            false => bytes / self.most,
        };
        place.clamp(0.0, 1.0)
    }

    /// The size at a place.
    pub(crate) fn bytes(&self, place: f64) -> u64 {
        let bytes = match self.is_logarithmic {
            true => self.least * (self.most / self.least).powf(place),
            false => self.most * place,
        };
        bytes.round() as u64
    }

    /// Round sizes, in powers of 2.
    pub(crate) fn ticks(&self) -> Vec<u64> {
        if !self.is_logarithmic {
            let step = (0..63)
                .map(|bits| 1_u64 << bits)
                .find(|step| self.most / *step as f64 <= TICKS_MAX as f64)
                .unwrap_or(1 << 63);
            return (0..=TICKS_MAX as u64)
                .filter_map(|index| step.checked_mul(index))
                .filter(|bytes| *bytes as f64 <= self.most)
                .collect();
        }
        let first = self.least.log2().ceil() as u32;
        let last = self.most.log2().floor() as u32;
        let step = ((last.saturating_sub(first)) as usize / TICKS_MAX + 1) as u32;
        (first..=last.min(63)).step_by(step as usize).map(|bits| 1 << bits).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use warmfront::{CurveScope, SizePoint};

    /// A report with these points, sizes in GiB.
    pub(crate) fn report(today: f64, points: &[(f64, f64)], knee: f64, enough: f64) -> CurveReport {
        let bytes = |gib: f64| (gib * (1_u64 << 30) as f64) as u64;
        let point =
            |&(gib, hit_rate): &(f64, f64)| SizePoint { bytes: bytes(gib), hit_rate, error: 0.004 };
        let mut report = CurveReport {
            name: "tank/db".to_string(),
            scope: CurveScope::Dataset,
            today: SizePoint::default(),
            measured_hit_rate: 0.0,
            ahead_rate: 0.0,
            accesses: 1_234_567,
            samples: 65_432,
            sampled_records: 12_000,
            sampling_rate: 1.0 / 16.0,
            is_too_early: false,
            knee: None,
            enough: None,
            points: points.iter().map(point).collect(),
        };
        report.today = report.at(bytes(today)).expect("there are points");
        report.measured_hit_rate = report.today.hit_rate;
        report.knee = report.at(bytes(knee));
        report.enough = report.at(bytes(enough));
        report
    }

    #[test]
    fn sizes_near_each_other_stand_on_a_linear_axis_and_others_on_a_logarithmic_one() {
        let points = [(1.0, 0.1), (4.0, 0.7), (12.0, 0.9)];
        let linear = Axis::new(&report(4.0, &points, 8.0, 12.0));
        assert!(!linear.is_logarithmic);
        let gib = |ticks: Vec<u64>| ticks.iter().map(|it| it >> 30).collect::<Vec<_>>();
        assert_eq!(gib(linear.ticks()), [0, 2, 4, 6, 8, 10, 12, 14]);
        let far = Axis::new(&report(1.0, &points, 2.0, 900.0));
        assert!(far.is_logarithmic);
        assert_eq!(gib(far.ticks()), [0, 1, 4, 16, 64, 256, 1024]);
        for axis in [linear, far] {
            for tick in axis.ticks() {
                let back = axis.bytes(axis.place(tick));
                assert!(back.abs_diff(tick) <= 1 + tick / 1_000_000, "{tick} {back}");
            }
        }
    }
}
