use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc::{Class, CurvePoint, CurveSnapshot, List, Load};
use serde::{Deserialize, Serialize};

use crate::answer::Cached;
use crate::counters::Counter;
use crate::datasets::{Dataset, DatasetError};
use crate::file::OpenFile;
use crate::object::{Layout, Tenant};
use crate::pool::Pool;
use crate::record::Record;
use crate::shares::ShareInForce;

/// Curves of datasets that are told at once.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// // The pool's, and no more than so many of its datasets.
/// assert!(pool.curves(None, true)?.len() <= 1 + warmfront::CURVES_MAX);
/// # Ok(()) }) }
/// ```
pub const CURVES_MAX: usize = 256;

/// All curves together take at most this share of the ceiling, as a divisor.
const CEILING_SHARE: u64 = 32;
/// Sizes up to so many times the ceiling are told.
const CEILINGS_TOLD: u64 = 16;
/// And sizes up to this, whatever the ceiling is.
const TOLD_BYTES_MIN: u64 = 64 << 30;

/// Of what a curve tells.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// use warmfront::CurveScope;
///
/// assert_eq!(pool.curve(None)?.scope, CurveScope::Pool);
/// assert_eq!(pool.curve(Some("tank"))?.scope, CurveScope::Dataset);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CurveScope {
    /// All datasets of a pool, in one cache.
    Pool,
    /// One dataset without those below it, as if it had a cache of its own.
    Dataset,
}

/// The hit rate of one size.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.read(0, 8).await?;
/// file.read(0, 8).await?;
/// for point in pool.curve(None)?.points {
///     println!("{:>12} bytes: {:.0} % hits", point.bytes, point.hit_rate * 100.0);
///     assert!(point.hit_rate <= 0.5);
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SizePoint {
    /// Bytes of contents in RAM.
    pub bytes: u64,
    /// Share of accesses, 0 to 1, that would be hits.
    pub hit_rate: f64,
    /// Two standard errors of the hit rate that come from sampling.
    pub error: f64,
}

/// What other sizes of the cache would make of the present load: a miss-ratio curve.
///
/// It is of reads of contents, by record, and of an LRU cache without prefetching; see
/// [`arc::Curve`]. Metadata is not in it: most of its answers come from objects in use, which are
/// not cached records, and they are too small for the size to be chosen by them.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.read(0, 8).await?;
/// file.read(0, 8).await?;
/// let curve = pool.curve(None)?;
/// // The first access is a miss at every size; the second is a hit if the record is still there.
/// assert_eq!(curve.points.last().map(|point| point.hit_rate), Some(0.5));
/// assert_eq!(curve.measured_hit_rate, 0.5);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveReport {
    /// The pool or dataset.
    pub name: String,
    /// Which of the two.
    pub scope: CurveScope,
    /// The hit rate of today's size: contents in RAM, and what may still be taken of the ceiling
    /// or of a share of it.
    pub today: SizePoint,
    /// Share of accesses, 0 to 1, that were hits in the cache that there is. The first read of what
    /// was brought ahead of it is none.
    pub measured_hit_rate: f64,
    /// Share of accesses, 0 to 1, that were such first reads: read-ahead or priming had brought the
    /// record, or the start.
    pub ahead_rate: f64,
    /// Accesses to records that the curve speaks of. Older ones count in part.
    pub accesses: u64,
    /// Sampled accesses among them.
    pub samples: u64,
    /// Records that are sampled at present.
    pub sampled_records: u64,
    /// Share of the records, 0 to 1, that are sampled.
    pub sampling_rate: f64,
    /// Whether there are too few samples to rely on what is told.
    pub is_too_early: bool,
    /// Where the curve bends: up to there a byte gains more than beyond.
    pub knee: Option<SizePoint>,
    /// The smallest size beyond which no more than half a point is gained.
    pub enough: Option<SizePoint>,
    /// The curve, by rising size; straight between two points, and level after the last.
    pub points: Vec<SizePoint>,
}

impl From<CurvePoint> for SizePoint {
    fn from(point: CurvePoint) -> SizePoint {
        SizePoint { bytes: point.bytes, hit_rate: point.hit_rate, error: point.error }
    }
}

impl CurveReport {
    /// The point of a size, between the points that there are. `None` while there are none.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// file.read(0, 8).await?;
    /// let half = pool.curve(None)?.at(32 << 20).expect("something was read");
    /// assert_eq!(half.hit_rate, 0.5);
    /// # Ok(()) }) }
    /// ```
    pub fn at(&self, bytes: u64) -> Option<SizePoint> {
        let point = |point: &SizePoint| CurvePoint {
            bytes: point.bytes,
            hit_rate: point.hit_rate,
            error: point.error,
        };
        let points = self.points.iter().map(point).collect();
        CurveSnapshot { points, ..CurveSnapshot::default() }.at(bytes).map(SizePoint::from)
    }

    fn new(name: String, scope: CurveScope, today: u64, snapshot: &CurveSnapshot) -> CurveReport {
        let no_hits = CurvePoint { bytes: today, hit_rate: 0.0, error: 0.0 };
        CurveReport {
            name,
            scope,
            today: snapshot.at(today).unwrap_or(no_hits).into(),
            measured_hit_rate: snapshot.measured_hit_rate,
            ahead_rate: snapshot.ahead_rate,
            accesses: snapshot.accesses as u64,
            samples: snapshot.samples,
            sampled_records: snapshot.records,
            sampling_rate: snapshot.rate,
            is_too_early: snapshot.is_too_early(),
            knee: snapshot.knee().map(SizePoint::from),
            enough: snapshot.enough().map(SizePoint::from),
            points: corners(&snapshot.points),
        }
    }
}

/// The points without those that lie on a level between two others.
fn corners(points: &[CurvePoint]) -> Vec<SizePoint> {
    let is_level = |at: usize| {
        let same = |other: usize| {
            points.get(other).is_some_and(|other| {
                (other.hit_rate, other.error) == (points[at].hit_rate, points[at].error)
            })
        };
        at > 0 && same(at - 1) && same(at + 1)
    };
    (0..points.len()).filter(|at| !is_level(*at)).map(|at| points[at].into()).collect()
}

impl OpenFile {
    /// Tells the miss-ratio curves of accesses to records, as far as those are sampled.
    #[inline]
    pub(crate) fn sample(&self, tenant: &Tenant, layout: &Layout, records: Range<u64>) {
        for number in records {
            let hash = self.key(layout, number).sampling_hash();
            if tenant.counters.curve.is_sampled(hash) || self.pool.curve.is_sampled(hash) {
                let range = layout.record_range(number);
                let buffer_bytes = Record::buffer_bytes((range.end - range.start) as usize);
                self.pool.sampled(tenant, hash, Cached::data_bytes(buffer_bytes) as u64);
            }
        }
    }
}

impl Pool {
    /// Takes an access into the curves in whose sample it is.
    #[cold]
    fn sampled(&self, tenant: &Tenant, hash: u64, bytes: u64) {
        let curve = &tenant.counters.curve;
        if curve.is_sampled(hash) {
            self.charge_curve(curve.access(hash, bytes, || self.load(&[tenant])));
        }
        if self.curve.is_sampled(hash) {
            let load = || self.load(&self.tenants().iter().collect::<Vec<_>>());
            self.charge_curve(self.curve.access(hash, bytes, load));
        }
    }

    /// Curves keep what memory they have taken for as long as the pool lives.
    fn charge_curve(&self, bytes: u64) {
        if bytes > 0 {
            self.curve_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.memory.charge_for_good(bytes);
        }
    }

    fn load(&self, tenants: &[&Tenant]) -> Load {
        let sum = |counter: Counter| -> u64 {
            tenants.iter().map(|tenant| tenant.counters.get(counter)).sum()
        };
        let in_ram = sum(Counter::DemandDataHits);
        let ahead = sum(Counter::DemandDataHitsAhead);
        let misses = sum(Counter::DemandDataIohits) + sum(Counter::DemandDataMisses);
        let ceiling = self.memory.ceiling_bytes();
        let taken = self.curve_bytes.load(Ordering::Relaxed);
        Load {
            accesses: in_ram + misses,
            hits: in_ram.saturating_sub(ahead),
            ahead,
            horizon_bytes: ceiling.saturating_mul(CEILINGS_TOLD).max(TOLD_BYTES_MIN),
            may_grow: taken + arc::CURVE_BYTES_MAX as u64 / 2 <= ceiling / CEILING_SHARE,
        }
    }

    /// What other sizes would make of the present load of a dataset, or of the whole pool.
    ///
    /// # Errors
    /// When there is no such dataset.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// let curve = pool.curve(None)?;
    /// assert_eq!((curve.name.as_str(), curve.accesses), ("tank", 1));
    /// assert!(curve.is_too_early);
    /// assert!(pool.curve(Some("tank/other")).is_err());
    /// # Ok(()) }) }
    /// ```
    pub fn curve(&self, dataset: Option<&str>) -> Result<CurveReport, DatasetError> {
        let tenants = self.tenants();
        let arc = self.memory.cache.statistics();
        let free = arc.capacity_bytes.saturating_sub(arc.charged_bytes);
        let Some(name) = dataset else {
            let tenants: Vec<&Tenant> = tenants.iter().collect();
            let snapshot = self.curve.snapshot(&self.load(&tenants));
            let today = self.data_bytes(&tenants) + free;
            return Ok(CurveReport::new(self.name().into(), CurveScope::Pool, today, &snapshot));
        };
        let dataset = self.dataset(name)?;
        let tenant = tenants.iter().find(|tenant| tenant.dataset.id() == dataset.id());
        let snapshot = match tenant {
            None => CurveSnapshot::default(),
            // The only dataset in use.
            Some(tenant) if tenants.len() == 1 => self.curve.snapshot(&self.load(&[tenant])),
            Some(tenant) => tenant.counters.curve.snapshot(&self.load(&[tenant])),
        };
        let room = match self.memory.share_in_force(self.number, name) {
            None => free,
            Some(ShareInForce { share, charged_bytes }) => free
                .max(share.reserve_bytes.saturating_sub(charged_bytes))
                .min(share.limit_bytes.saturating_sub(charged_bytes)),
        };
        let today = tenant.map_or(0, |tenant| self.data_bytes(&[tenant])) + room;
        Ok(CurveReport::new(name.into(), CurveScope::Dataset, today, &snapshot))
    }

    /// As [`curve`](Pool::curve), followed by those of the datasets in use below it, if
    /// `recursive`; below the pool lie all, its own dataset too. The first [`CURVES_MAX`] of them
    /// by name.
    ///
    /// # Errors
    /// When there is no such dataset.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// let names: Vec<String> = pool.curves(None, true)?.into_iter().map(|it| it.name).collect();
    /// assert_eq!(names, ["tank", "tank"], "the pool, and its own dataset");
    /// # Ok(()) }) }
    /// ```
    pub fn curves(
        &self,
        dataset: Option<&str>,
        recursive: bool,
    ) -> Result<Vec<CurveReport>, DatasetError> {
        let mut curves = vec![self.curve(dataset)?];
        if recursive {
            let below = dataset.map(|name| format!("{name}/"));
            let is_below = |name: &str| below.as_ref().is_none_or(|it| name.starts_with(it));
            let in_use: Vec<u32> = self.tenants().iter().map(|it| it.dataset.id()).collect();
            let mut datasets = self.datasets().list();
            datasets.retain(|it| in_use.contains(&it.id()) && is_below(it.name()));
            for dataset in datasets.iter().take(CURVES_MAX) {
                curves.push(self.curve(Some(dataset.name()))?);
            }
        }
        Ok(curves)
    }

    fn dataset(&self, name: &str) -> Result<Arc<Dataset>, DatasetError> {
        let unknown = || DatasetError::Unknown { name: name.to_string() };
        self.datasets().list().into_iter().find(|it| it.name() == name).ok_or_else(unknown)
    }

    /// Bytes of contents in RAM.
    fn data_bytes(&self, tenants: &[&Tenant]) -> u64 {
        let of = |tenant: &&Tenant| -> u64 {
            let usage = self.memory.cache.tenant(tenant.dataset.id());
            let data = List::ALL.into_iter().filter(|list| list.class == Class::Data);
            data.map(|list| usage.list(list).bytes).sum()
        };
        tenants.iter().map(of).sum()
    }
}
