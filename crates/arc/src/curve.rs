//! [`Curve`]: the hit rate that each size of a cache would have, live, from sampled accesses.

mod fenwick;
mod histogram;
mod sample;
mod snapshot;

use sample::Sample;
pub use snapshot::{CURVE_SAMPLES_MIN, CURVE_TOLERANCE, CurvePoint, CurveSnapshot};

use crate::sync::{AtomicU64, Mutex, Relaxed};

/// The most memory that one curve takes, bytes.
pub const CURVE_BYTES_MAX: usize = 1 << 20;

/// What a curve has to know of the load besides the sampled accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// All accesses so far, sampled or not.
    pub accesses: u64,
    /// Those of them that were hits.
    pub hits: u64,
    /// Those of them that were no hits, but found what had been brought ahead of them.
    pub ahead: u64,
    /// Stack distances beyond this, in bytes, do not matter.
    pub horizon_bytes: u64,
    /// Whether the curve may take more memory.
    pub may_grow: bool,
}

/// A miss-ratio curve that follows the load: for each size, the hit rate of an LRU cache.
///
/// Sizes are in bytes, and so are stack distances. At most [`CURVE_BYTES_MAX`] of memory. Many
/// threads use it at once: an access that is not sampled costs one comparison, a sampled one takes
/// a lock for O(log n) steps.
///
/// What was seen 65,536 sampled accesses ago counts half, then a quarter, and so on.
///
/// ```
/// use arc::{Curve, Load};
///
/// let curve = Curve::default();
/// let mut load = Load { horizon_bytes: 1 << 40, may_grow: true, ..Load::default() };
/// for access in 0..30_000_u64 {
///     let key = access % 100;
///     let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
///     load.accesses += 1;
///     if curve.is_sampled(hash) {
///         let _bytes_taken = curve.access(hash, 4096, || load);
///     }
/// }
/// let enough = curve.snapshot(&load).enough().unwrap();
/// // A loop over 100 records of 4 KiB gains nothing until all of it fits.
/// assert!((100 * 4096..=104 * 4096).contains(&enough.bytes));
/// assert!(enough.hit_rate > 0.99);
/// ```
#[derive(Debug)]
pub struct Curve {
    /// A copy of the sample's, to be read without the lock; 0 before the curve is started.
    threshold: AtomicU64,
    /// Elsewhere, so that a sampled access leaves the line that every access reads alone.
    sample: Box<Mutex<Sample>>,
}

impl Default for Curve {
    fn default() -> Curve {
        let curve = Curve::stopped();
        curve.start();
        curve
    }
}

impl Curve {
    /// A curve that samples nothing until it is [started](Curve::start).
    pub fn stopped() -> Curve {
        Curve { threshold: AtomicU64::new(0), sample: Box::default() }
    }

    /// Begins to sample, if it has not begun yet.
    pub fn start(&self) {
        self.threshold.store(self.sample.lock().threshold(), Relaxed);
    }

    /// Whether accesses to the record with this hash are to be told to [`access`](Curve::access).
    /// All 64 bits of the hash have to be mixed well, and each record keeps its own.
    #[inline]
    pub fn is_sampled(&self, hash: u64) -> bool {
        hash < self.threshold.load(Relaxed)
    }

    /// Counts an access to a record that [is sampled](Curve::is_sampled), whether it was a hit or
    /// not. `load` counts it already, and is asked for now and then only, under the curve's lock.
    ///
    /// Returns the bytes of memory that the curve has taken for it, to be charged to the budget.
    #[must_use]
    pub fn access(&self, hash: u64, bytes: u64, load: impl Fn() -> Load) -> u64 {
        let mut sample = self.sample.lock();
        let grown = sample.access(hash, bytes, load);
        if sample.threshold() != self.threshold.load(Relaxed) {
            self.threshold.store(sample.threshold(), Relaxed);
        }
        grown as u64
    }

    /// The curve as of now.
    pub fn snapshot(&self, load: &Load) -> CurveSnapshot {
        self.sample.lock().snapshot(load)
    }

    /// The memory that it takes, bytes.
    pub fn bytes(&self) -> u64 {
        self.sample.lock().bytes() as u64
    }

    /// Recounts everything. For tests.
    ///
    /// # Panics
    /// If a sum or a place is wrong.
    pub fn validate(&self) {
        self.sample.lock().validate();
    }
}
