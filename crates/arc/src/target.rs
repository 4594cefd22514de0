//! [`Target`]: a fraction that ghost hits push up and down.

/// An adaptive fraction between two bounds.
///
/// The rule is ARC's, said in bytes: a hit on a ghost of one side means that a larger cache on
/// that side would have kept the record, so that side grows by the size of the record; if the
/// side's ghost list is the shorter one, its hits are worth more per byte remembered, and the
/// step grows by the quotient of the two lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    fraction: f64,
    floor: f64,
    step_max: f64,
}

impl Target {
    /// Starts at `fraction`, stays within `floor ..= 1 - floor`, moves by at most `step_max`.
    pub const fn new(fraction: f64, floor: f64, step_max: f64) -> Self {
        Self { fraction, floor, step_max }
    }

    /// Where it stands.
    #[inline]
    pub const fn fraction(self) -> f64 {
        self.fraction
    }

    /// `total` times the fraction.
    #[inline]
    pub fn of(self, total: u64) -> f64 {
        self.fraction * total as f64
    }

    /// Goes on at `fraction`, within the bounds; stays where it is if that is no number.
    pub fn set(&mut self, fraction: f64) {
        if !fraction.is_nan() {
            self.fraction = fraction.clamp(self.floor, 1.0 - self.floor);
        }
    }

    /// A ghost hit on the side that the fraction measures. `step` is from [`step`].
    pub fn raise(&mut self, step: f64) {
        self.shift(step.min(self.step_max));
    }

    /// A ghost hit on the other side.
    pub fn lower(&mut self, step: f64) {
        self.shift(-step.min(self.step_max));
    }

    fn shift(&mut self, by: f64) {
        self.fraction = (self.fraction + by).clamp(self.floor, 1.0 - self.floor);
    }
}

/// ARC's step as a fraction of `total`: the bytes hit, times the length of the other side's ghost
/// list over that of this side, but at least once. All in bytes.
pub(crate) fn step(hit: u64, this: u64, other: u64, total: u64) -> f64 {
    let quotient = (other as f64 / this.max(1) as f64).max(1.0);
    hit as f64 * quotient / total.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_ghost_list_pulls_harder() {
        assert_eq!(step(10, 100, 50, 1000), 0.01);
        assert_eq!(step(10, 50, 200, 1000), 0.04);
        assert_eq!(step(10, 0, 0, 0), 10.0, "never a division by zero");
    }

    #[test]
    fn bounds_and_steps_hold() {
        let mut target = Target::new(0.5, 0.25, 0.125);
        target.raise(9.0);
        assert_eq!(target.fraction(), 0.625);
        target.raise(9.0);
        target.raise(9.0);
        assert_eq!(target.fraction(), 0.75);
        for _ in 0..9 {
            target.lower(0.1);
        }
        assert_eq!(target.fraction(), 0.25);
        assert_eq!(target.of(400), 100.0);
    }
}
