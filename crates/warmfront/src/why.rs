mod flash;

use std::path::Path;
use std::sync::Arc;

use arc::Setting;
use serde::{Deserialize, Serialize};
use storage::Kind;

use crate::answer::Cached;
use crate::counters::Counter;
use crate::error::Result;
use crate::key::Key;
use crate::object::{Layout, Object, Tenant};
use crate::pool::Pool;
use crate::property::CacheLevel;
use crate::record::Record;
use crate::statistics::queue_name;

pub use flash::{OnFlash, WhyFlash};

/// Records of an object that are looked at; of a larger one only the first.
const RECORDS_MAX: u64 = 1 << 20;

/// Where an object's records are, since when, and why those that are not cached are not.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.read(0, 8).await?;
/// let why = pool.why("file".as_ref()).await?;
/// let run = &why.runs[0];
/// assert_eq!((run.first, run.count, run.state.as_str(), run.hits), (0, 1, "mru", 0));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Path relative to the pool's top.
    pub path: String,
    /// The dataset it belongs to.
    pub dataset: String,
    /// Its id: the inode number.
    pub object: u64,
    /// Whether it is a regular file; anything else has no records.
    pub is_file: bool,
    /// Size in bytes.
    pub size: u64,
    /// Bytes in a record.
    pub record_bytes: u64,
    /// The present version of its contents in cache keys.
    pub generation: u64,
    /// The effective `primarycache`.
    pub primarycache: String,
    /// Whether what is read counts as use: the effective `promote`.
    pub promote: bool,
    /// The rules by which its records are kept: `auto` or `arc`.
    pub policy: String,
    /// The setting of `auto` that is in force.
    pub setting: Option<String>,
    /// What share of the sampled reads each setting would have found in RAM lately; empty under
    /// `arc` and while nothing was sampled.
    pub settings: Vec<(String, f64)>,
    /// The effective `coherence`.
    pub coherence: String,
    /// Seconds since the attributes were last checked against the origin.
    pub checked_seconds_ago: f64,
    /// Number of records.
    pub records: u64,
    /// Number of records that are cached.
    pub records_cached: u64,
    /// What flash has of it; absent where there is no cache device.
    pub flash: Option<WhyFlash>,
    /// Neighbouring records in the same state, in order.
    pub runs: Vec<RecordRun>,
    /// Records beyond those that were looked at.
    pub records_not_shown: u64,
}

/// Neighbouring records in the same state.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.read(0, 8).await?;
/// let why = pool.why("file".as_ref()).await?;
/// for run in &why.runs {
///     println!("{} records from {} on: {}, {} hits", run.count, run.first, run.state, run.hits);
/// }
/// assert_eq!(why.runs.iter().map(|run| run.count).sum::<u64>(), why.records);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordRun {
    /// Number of the first record.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// `mru`, `mfu` or `uncached` for the list of a cached record; `fetching`, `ghost` or `absent`
    /// for others.
    pub state: String,
    /// Brought in by prefetching or priming and not read yet.
    pub prefetched: bool,
    /// Changed and not yet written to the origin. Writes go through at once, so this is never so.
    pub dirty: bool,
    /// Seconds since the oldest of them was cached.
    pub since_seconds: Option<f64>,
    /// Accesses after the first, of the most used of them; at most [`HITS_MAX`](arc::HITS_MAX)
    /// are counted.
    pub hits: u64,
    /// Why they are not cached, in words.
    pub reason: Option<String>,
    /// Whether they have copies on flash; absent where there is no cache device.
    pub flash: Option<OnFlash>,
}

impl Pool {
    /// Tells where the records of the object at `path`, relative to the top, are and why.
    ///
    /// # Errors
    /// When there is no such path.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// let why = pool.why("file".as_ref()).await?;
    /// assert_eq!((why.records, why.records_cached), (1, 1));
    /// assert_eq!(why.dataset, "tank");
    /// # Ok(()) }) }
    /// ```
    pub async fn why(&self, path: &Path) -> Result<Why> {
        let found = self.resolve(path).await?;
        let object = self.object(found.object);
        let why = object.map(|object| self.explain(path, &object));
        self.forget(found.object, 1);
        why
    }

    fn explain(&self, path: &Path, object: &Arc<Object>) -> Why {
        let tenant = self.tenant(object);
        let properties = tenant.properties();
        let layout = self.layout(object, properties.recordsize);
        let version = object.version();
        let is_file = version.attributes.kind == Kind::File;
        let records = if is_file { layout.records(0..layout.size).end } else { 0 };
        let record_bytes = layout.size.min(layout.record_bytes);
        let is_too_large = self.is_too_large(record_bytes, &tenant);
        let (policy, statistics) = self.memory.policy(tenant.dataset.id());
        let settings = Setting::ALL.iter().map(|setting| setting.name().to_string());
        let settings = settings.zip(statistics.hit_ratios);
        let mut runs: Vec<RecordRun> = Vec::new();
        let mut records_cached = 0;
        let mut flash = self.has_caches().then(|| WhyFlash {
            secondarycache: properties.secondarycache.to_string(),
            records: 0,
            records_nowhere: 0,
        });
        for number in 0..records.min(RECORDS_MAX) {
            let mut run = self.state(object, &layout, number, &tenant, is_too_large);
            run.flash = self.on_flash(object, &layout, number, &tenant);
            let is_cached = run.reason.is_none() && run.since_seconds.is_some();
            records_cached += u64::from(is_cached);
            if let (Some(flash), Some(copy)) = (&mut flash, &run.flash) {
                flash.records += u64::from(copy.is_there);
                flash.records_nowhere += u64::from(!copy.is_there && !is_cached);
            }
            match runs.last_mut().filter(|last| last.continues(&run)) {
                Some(last) => last.extend(&run),
                None => runs.push(run),
            }
        }
        Why {
            path: path.display().to_string(),
            dataset: tenant.dataset.name().to_string(),
            object: object.id.0,
            is_file,
            size: layout.size,
            record_bytes: layout.record_bytes,
            generation: layout.generation,
            primarycache: properties.primarycache.to_string(),
            promote: properties.promote,
            policy: policy.name().to_string(),
            setting: statistics.in_force.map(|setting| setting.name().to_string()),
            settings: if statistics.sampled > 0 { settings.collect() } else { Vec::new() },
            coherence: properties.coherence.to_string(),
            checked_seconds_ago: self.now().saturating_sub(version.checked_at()).as_secs_f64(),
            records,
            records_cached,
            flash,
            runs,
            records_not_shown: records.saturating_sub(RECORDS_MAX),
        }
    }

    fn state(
        &self,
        object: &Object,
        layout: &Layout,
        number: u64,
        tenant: &Tenant,
        is_too_large: bool,
    ) -> RecordRun {
        let properties = tenant.properties();
        let primarycache = properties.primarycache;
        let key = Key::record(self.number, object.id, layout.generation, number);
        let cache = &self.memory.cache;
        if let Some(location) = cache.locate(&key) {
            let since = self.now().saturating_sub(location.inserted_at);
            let passes = location.list.queue == arc::Queue::Uncached;
            let reason = "passes by on its way to readers whose use does not count";
            return RecordRun {
                first: number,
                count: 1,
                state: queue_name(location.list.queue).to_string(),
                prefetched: location.prefetched,
                dirty: false,
                since_seconds: Some(since.as_secs_f64()),
                hits: u64::from(location.hits),
                reason: passes.then(|| reason.to_string()),
                flash: None,
            };
        }
        let (state, reason) = match primarycache {
            _ if self.flights.is_under_way(&key) => {
                ("fetching", "is being read from the origin".to_string())
            }
            CacheLevel::Metadata | CacheLevel::None => {
                ("absent", format!("primarycache={primarycache} keeps no contents"))
            }
            CacheLevel::All if cache.ghost(&key).is_some() => {
                ("ghost", "was cached and has been evicted lately".to_string())
            }
            CacheLevel::All if object.streams.lock().has_let_go(number * layout.record_bytes) => {
                ("absent", "was read by a stream and let go behind it (freebehind=on)".to_string())
            }
            CacheLevel::All if !properties.promote => {
                let reason = "promote=off: what is read is not kept, unless it was cached before";
                ("absent", reason.to_string())
            }
            CacheLevel::All if is_too_large => {
                let reason = "larger than an eighth of the ARC, or of the dataset's arclimit";
                ("absent", reason.to_string())
            }
            CacheLevel::All if tenant.counters.get(Counter::UncachedCgroup) > 0 => {
                let reason = "not read since it was mounted or last changed but by control \
                              groups that do not promote, or evicted so long ago that no ghost \
                              is left";
                ("absent", reason.to_string())
            }
            CacheLevel::All => {
                let reason = "not read since it was mounted or last changed, \
                              or evicted so long ago that no ghost is left";
                ("absent", reason.to_string())
            }
        };
        RecordRun {
            first: number,
            count: 1,
            state: state.to_string(),
            prefetched: false,
            dirty: false,
            since_seconds: None,
            hits: 0,
            reason: Some(reason),
            flash: None,
        }
    }

    /// Whether a record of so many bytes is too large to be kept.
    pub(crate) fn is_too_large(&self, bytes: u64, tenant: &Tenant) -> bool {
        let bytes = Cached::data_bytes(Record::buffer_bytes(bytes as usize));
        bytes as u64 > self.memory.record_bytes_max(tenant.dataset.id())
    }
}

impl RecordRun {
    fn continues(&self, next: &RecordRun) -> bool {
        self.state == next.state
            && self.prefetched == next.prefetched
            && self.dirty == next.dirty
            && self.reason == next.reason
            && self.flash == next.flash
    }

    fn extend(&mut self, next: &RecordRun) {
        self.count += next.count;
        self.hits = self.hits.max(next.hits);
        self.since_seconds = match (self.since_seconds, next.since_seconds) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }
}
