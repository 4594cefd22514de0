use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use storage::{Kind, ObjectId, OpenMode};

use crate::counters::Counter;
use crate::error::{EngineError, Result};
use crate::file::OpenFile;
use crate::lookup::Found;
use crate::pool::Pool;
use crate::property::CacheLevel;

/// Bytes that one call fetches.
const CHUNK_BYTES: u64 = 4 << 20;
/// Calls under way at a time.
const CHUNKS_AT_ONCE: usize = 4;
/// Directories that lie deeper than this are not primed.
const DEPTH_MAX: usize = 1024;
/// Errors that are told one by one; the rest are counted.
const ERRORS_TOLD_MAX: usize = 16;
/// Part of the ARC, in sixteenths, that priming may fill with contents.
const FILL_SIXTEENTHS: u64 = 14;
/// Longest wait between two batches for readers to be done.
const FOREGROUND_WAIT_MAX: Duration = Duration::from_millis(200);
/// A wait for readers looks again after this.
const PAUSE: Duration = Duration::from_millis(2);
/// Any wait is cut into naps of this, so that a caller who stops is noticed.
const NAP_MAX: Duration = Duration::from_millis(100);

/// What to bring into the cache, and how.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// use std::ops::ControlFlow;
/// use warmfront::PrimeRequest;
///
/// let paths = vec!["file".into()];
/// let request = PrimeRequest { paths, dry_run: true, ..PrimeRequest::default() };
/// let report = pool.prime(request, &|_so_far| ControlFlow::Continue(())).await?;
/// assert_eq!((report.bytes_found, report.bytes_fetched), (8, 0));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PrimeRequest {
    /// Files and directories, relative to the pool's top; directories with all below them.
    pub paths: Vec<PathBuf>,
    /// Bytes a second that the origin may be read at; unbounded if absent.
    pub rate_bytes_per_second: Option<u64>,
    /// Only find out how much there is and how much of it fits.
    pub dry_run: bool,
}

impl PrimeRequest {
    /// Time that reading so many bytes takes at least.
    fn least_time(&self, bytes: u64) -> Duration {
        match self.rate_bytes_per_second {
            Some(rate) if rate > 0 => Duration::from_secs_f64(bytes as f64 / rate as f64),
            _ => Duration::ZERO,
        }
    }
}

/// How far priming has come.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # use warmfront::PrimeRequest;
/// use std::ops::ControlFlow;
/// use warmfront::PrimeProgress;
///
/// # let request = PrimeRequest { paths: vec!["".into()], ..PrimeRequest::default() };
/// let bounded = |so_far: PrimeProgress| match so_far.bytes_fetched < 1 << 30 {
///     true => ControlFlow::Continue(()),
///     false => ControlFlow::Break(()),
/// };
/// assert!(!pool.prime(request, &bounded).await?.interrupted);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimeProgress {
    /// Files found so far.
    pub files: u64,
    /// Bytes to be dealt with, once all files have been found; zero before.
    pub bytes_total: u64,
    /// Bytes dealt with: fetched, found in the cache, or failed.
    pub bytes_done: u64,
    /// Bytes fetched from the origin.
    pub bytes_fetched: u64,
}

/// What priming has done, or on a dry run would do.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// use std::ops::ControlFlow;
/// use warmfront::PrimeRequest;
///
/// let request = PrimeRequest {
///     paths: vec!["file".into()],
///     rate_bytes_per_second: Some(100 << 20),
///     ..PrimeRequest::default()
/// };
/// let report = pool.prime(request, &|_so_far| ControlFlow::Continue(())).await?;
/// assert!(report.errors.is_empty() && report.all_fits());
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimeReport {
    /// Files found.
    pub files: u64,
    /// Directories found.
    pub directories: u64,
    /// Bytes in the files found.
    pub bytes_found: u64,
    /// Bytes not wanted because their dataset does not cache contents.
    pub bytes_excluded: u64,
    /// Bytes of the rest that fit into the cache: the first files, and the beginning of one.
    pub bytes_fitting: u64,
    /// Bytes that were in the cache already.
    pub bytes_cached: u64,
    /// Bytes fetched from the origin.
    pub bytes_fetched: u64,
    /// Bytes that the cache can hold at its present size.
    pub bytes_capacity: u64,
    /// Whether the caller stopped it; what was fetched stays, and a repetition goes on from there.
    pub interrupted: bool,
    /// What could not be read, with the reason; at most a few, see `errors_total`.
    pub errors: Vec<String>,
    /// Number of files and directories that could not be read.
    pub errors_total: u64,
}

impl PrimeReport {
    /// Whether everything that was wanted fits.
    ///
    /// ```
    /// use warmfront::PrimeReport;
    ///
    /// let found = PrimeReport { bytes_found: 100, bytes_fitting: 60, ..PrimeReport::default() };
    /// assert!(!found.all_fits());
    /// let wanted = PrimeReport { bytes_excluded: 40, ..found };
    /// assert!(wanted.all_fits(), "the rest belongs to datasets that do not cache it");
    /// ```
    pub fn all_fits(&self) -> bool {
        self.bytes_fitting == self.bytes_found - self.bytes_excluded
    }

    fn failed(&mut self, path: &Path, error: &EngineError) {
        self.errors_total += 1;
        if self.errors.len() < ERRORS_TOLD_MAX {
            self.errors.push(format!("{}: {error}", path.display()));
        }
    }
}

/// A file to be primed: the first `bytes` of it.
#[derive(Debug)]
struct Target {
    object: ObjectId,
    path: PathBuf,
    bytes: u64,
}

type Progress<'a> = &'a (dyn Fn(PrimeProgress) -> ControlFlow<()> + Sync);

impl Pool {
    /// Brings files into the cache on purpose: metadata of all, contents as far as they fit.
    ///
    /// Files are read in the order of their object ids, which for a file system on disks is close
    /// to the order in which they lie there, in large parallel reads. What is cached already is
    /// not read again, so that priming can be stopped and repeated. `progress` is called often;
    /// when it says break, priming stops.
    ///
    /// # Errors
    /// When one of the paths cannot be found. Errors further down are counted in the report.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use std::ops::ControlFlow;
    /// use warmfront::PrimeRequest;
    ///
    /// let everything = PrimeRequest { paths: vec!["".into()], ..PrimeRequest::default() };
    /// let report = pool.prime(everything, &|_so_far| ControlFlow::Continue(())).await?;
    /// assert_eq!((report.files, report.bytes_found), (1, 8));
    /// assert!(report.all_fits());
    /// # Ok(()) }) }
    /// ```
    pub async fn prime(
        self: &Arc<Self>,
        request: PrimeRequest,
        progress: Progress<'_>,
    ) -> Result<PrimeReport> {
        let mut report = PrimeReport::default();
        let mut targets = Vec::new();
        for path in &request.paths {
            let found = self.resolve(path).await?;
            let outcome = self.find(found, path, &mut targets, &mut report, progress).await;
            self.forget(found.object, 1);
            if outcome.is_break() {
                report.interrupted = true;
                return Ok(report);
            }
        }
        targets.sort_unstable_by(|a, b| (a.object, &a.path).cmp(&(b.object, &b.path)));
        targets.dedup_by_key(|target| target.object);
        report.files = targets.len() as u64;
        report.bytes_found =
            targets.iter().map(|target| target.bytes).sum::<u64>() + report.bytes_excluded;
        report.bytes_capacity = self.memory.cache.capacity_bytes() / 16 * FILL_SIXTEENTHS;
        for target in &mut targets {
            target.bytes = target.bytes.min(report.bytes_capacity - report.bytes_fitting);
            report.bytes_fitting += target.bytes;
        }
        targets.retain(|target| target.bytes > 0);
        if !request.dry_run {
            self.fill(&targets, &request, &mut report, progress).await;
        }
        Ok(report)
    }

    /// The object at a path relative to the top, with a use of it. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`EngineError::BadPath`] when the path leads out of the pool.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let found = pool.resolve("file".as_ref()).await?;
    /// assert_eq!(found.attributes.size, 8);
    /// # Ok(()) }) }
    /// ```
    pub async fn resolve(&self, path: &Path) -> Result<Found> {
        let mut found = self.found_root();
        for component in path.components() {
            let name = match component {
                Component::Normal(name) => name,
                Component::CurDir | Component::RootDir => continue,
                _ => {
                    self.forget(found.object, 1);
                    return Err(EngineError::BadPath(path.to_owned()));
                }
            };
            let next = self.lookup(found.object, name).await;
            self.forget(found.object, 1);
            found = next?;
        }
        Ok(found)
    }

    /// Collects the files at and below `found`, warming metadata on the way.
    async fn find(
        self: &Arc<Self>,
        found: Found,
        path: &Path,
        targets: &mut Vec<Target>,
        report: &mut PrimeReport,
        progress: Progress<'_>,
    ) -> ControlFlow<()> {
        let mut stack: Vec<PathBuf> = Vec::new();
        self.sort_in(&found, path.to_owned(), targets, report, &mut stack);
        while let Some(path) = stack.pop() {
            if let Err(error) = self.walk_in(&path, targets, report, &mut stack).await {
                report.failed(&path, &error);
            }
            progress(PrimeProgress { files: targets.len() as u64, ..PrimeProgress::default() })?;
        }
        ControlFlow::Continue(())
    }

    /// Takes in the entries of one directory.
    async fn walk_in(
        self: &Arc<Self>,
        path: &Path,
        targets: &mut Vec<Target>,
        report: &mut PrimeReport,
        stack: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let found = self.resolve(path).await?;
        let opened = self.open_directory(found.object).await;
        self.forget(found.object, 1);
        let directory = opened?;
        report.directories += 1;
        let entries = directory.entries().await?;
        for (index, entry) in entries.iter().enumerate() {
            if let Some(found) = directory.found(index).await {
                self.sort_in(&found, path.join(&entry.name), targets, report, stack);
                self.forget(found.object, 1);
            }
        }
        Ok(())
    }

    fn sort_in(
        &self,
        found: &Found,
        path: PathBuf,
        targets: &mut Vec<Target>,
        report: &mut PrimeReport,
        stack: &mut Vec<PathBuf>,
    ) {
        let bytes = found.attributes.size;
        match found.attributes.kind {
            Kind::Directory if path.components().count() <= DEPTH_MAX => stack.push(path),
            Kind::File if self.caches_contents(found.object) => {
                targets.push(Target { object: found.object, path, bytes });
            }
            Kind::File => report.bytes_excluded += bytes,
            _ => {}
        }
    }

    fn caches_contents(&self, id: ObjectId) -> bool {
        self.objects
            .get(id)
            .is_some_and(|object| self.properties(&object).primarycache == CacheLevel::All)
    }

    /// Fetches the contents of the targets.
    async fn fill(
        self: &Arc<Self>,
        targets: &[Target],
        request: &PrimeRequest,
        report: &mut PrimeReport,
        progress: Progress<'_>,
    ) {
        let started = self.now();
        let fetched = Arc::new(AtomicU64::new(0));
        let mut done = 0;
        let mut batch = Batch::default();
        for target in targets {
            let file = match self.open_target(target).await {
                Ok(file) => file,
                Err(error) => {
                    report.failed(&target.path, &error);
                    done += target.bytes;
                    continue;
                }
            };
            for chunk_start in (0..target.bytes).step_by(CHUNK_BYTES as usize) {
                let chunk = chunk_start..(chunk_start + CHUNK_BYTES).min(target.bytes);
                batch.push(self, &file, chunk.clone(), &fetched);
                done += chunk.end - chunk.start;
                if batch.is_full() {
                    batch.finish().await;
                    let bytes_fetched = fetched.load(Ordering::Relaxed);
                    let reached = PrimeProgress {
                        files: report.files,
                        bytes_total: report.bytes_fitting,
                        bytes_done: done,
                        bytes_fetched,
                    };
                    let due = started + request.least_time(bytes_fetched);
                    if self.wait_turn(due, || progress(reached)).await.is_break() {
                        report.interrupted = true;
                        report.bytes_fetched = bytes_fetched;
                        return;
                    }
                }
            }
        }
        batch.finish().await;
        report.bytes_fetched = fetched.load(Ordering::Relaxed);
        report.bytes_cached = done.saturating_sub(report.bytes_fetched);
        let _ = progress(PrimeProgress {
            files: report.files,
            bytes_total: report.bytes_fitting,
            bytes_done: done,
            bytes_fetched: report.bytes_fetched,
        });
    }

    async fn open_target(self: &Arc<Self>, target: &Target) -> Result<Arc<OpenFile>> {
        let found = self.resolve(&target.path).await?;
        let mode = OpenMode { read: true, ..OpenMode::default() };
        let file = self.open_file(found.object, mode).await;
        self.forget(found.object, 1);
        file
    }

    /// Waits until `due`, and until no reader waits for the origin, though not for long: a
    /// foreground that is always busy slows priming down but does not stop it. `go_on` is asked
    /// again and again meanwhile.
    async fn wait_turn(
        &self,
        due: Duration,
        mut go_on: impl FnMut() -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let patience_ends = self.now() + FOREGROUND_WAIT_MAX;
        loop {
            go_on()?;
            let now = self.now();
            let yields = self.demand_fetches.load(Ordering::Relaxed) > 0 && now < patience_ends;
            let wait = due.saturating_sub(now).max(if yields { PAUSE } else { Duration::ZERO });
            if wait.is_zero() {
                return ControlFlow::Continue(());
            }
            self.clock.sleep(wait.min(NAP_MAX)).await;
        }
    }

    fn found_root(&self) -> Found {
        let root = self
            .objects
            .get_used(self.root())
            .expect("the root is in use for as long as the pool exists");
        self.found(&root, &root.version(), self.now())
    }
}

/// Chunks under way.
#[derive(Default)]
struct Batch {
    under_way: Vec<oneshot::Receiver<()>>,
}

impl Batch {
    fn push(
        &mut self,
        pool: &Arc<Pool>,
        file: &Arc<OpenFile>,
        chunk: std::ops::Range<u64>,
        fetched: &Arc<AtomicU64>,
    ) {
        let (done, wait) = oneshot::channel();
        let (file, fetched) = (file.clone(), fetched.clone());
        pool.spawn.spawn(Box::pin(async move {
            let tenant = file.tenant();
            let layout = file.pool.layout(&file.object, tenant.properties().recordsize);
            let records = layout.records(chunk.start..chunk.end.min(layout.size));
            let count = file.bring_in(&tenant, &layout, records, arc::Kind::Prime).await;
            tenant.counters.add(Counter::PrimedRecords, count);
            let bytes = (count * layout.record_bytes).min(chunk.end - chunk.start);
            fetched.fetch_add(bytes, Ordering::Relaxed);
            let _ = done.send(());
        }));
        self.under_way.push(wait);
    }

    fn is_full(&self) -> bool {
        self.under_way.len() >= CHUNKS_AT_ONCE
    }

    async fn finish(&mut self) {
        join_all(self.under_way.drain(..)).await;
    }
}
