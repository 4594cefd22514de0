use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use parking_lot::Mutex;
use storage::Origin;
use warmfront::flash::Statistics as FlashStatistics;
use warmfront::{
    Dataset, DatasetError, EngineError, HumanSize, LOG_SILENCE_MAX, Pool, PrimeRequest, PropertyRow,
};

use crate::caches::{CacheError, Shelf};
use crate::ceiling::{Keeper, Sources};
use crate::change;
use crate::control_group::missing_groups;
use crate::device_path::DevicePath;
use crate::drain::drain;
use crate::error::is_usage;
use crate::holders::holders_of;
use crate::logs::{Desk, LogError, LogSettings, Tell};
use crate::mountinfo::{mounted_at, mounts};
use crate::origin_place::OriginPlace;
use crate::paths::Paths;
use crate::pool_file::{PoolFile, PoolFileError};
use crate::protocol::{
    Change, Changed, DatasetRow, Descriptor, Prime, PrimeProgress, RecordedRequests, Refusal,
    Request, Response, Statistics, Status, Undone,
};
use crate::risks::risks;
use crate::warmth::Warmth;
use crate::writes::{LOG_SILENCE_TOLD, txgs, write_status};

/// Between two reports of progress.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Runs of records that `why` tells; the rest is counted.
const RUNS_MAX: usize = 10_000;

/// What the control socket of a pool can do: the requests of the protocol, carried out.
pub(crate) struct Service {
    pub paths: Paths,
    pub descriptor: Descriptor,
    pub pool: Arc<Pool>,
    pub keeper: Arc<Keeper>,
    pub shelf: Arc<Shelf>,
    pub desk: Arc<Desk>,
    /// The origin, as the pool sees it.
    pub origin: Arc<dyn Origin>,
    pub origin_place: OriginPlace,
    pub warmth: Arc<Warmth>,
    pub read_only: bool,
    pub slow: Option<String>,
    pub no_promote_cgroups: Vec<PathBuf>,
    pub warnings: Vec<String>,
    pub started: Instant,
    /// Set when the kernel has been answered.
    pub session: OnceLock<Arc<fuse::Session>>,
}

impl Service {
    /// Carries out any request but [`Request::Prime`] and [`Request::AddLog`].
    pub fn answer(&self, request: Request) -> Response {
        match request {
            Request::Ping => Response::Pong,
            Request::Info => Response::Info(self.descriptor.clone()),
            Request::Status => Response::Status(Box::new(self.status())),
            Request::Statistics => {
                Response::Statistics(self.statistics(&self.pool.flash_statistics()))
            }
            Request::Get { dataset } => match self.properties(&dataset) {
                Ok(rows) => Response::Properties(rows),
                Err(error) => refused_dataset(&error),
            },
            Request::List => {
                let statistics = self.pool.statistics().datasets;
                let datasets = self.pool.datasets().list();
                let row = |dataset: &Arc<Dataset>| self.row(dataset, &statistics);
                Response::Datasets(datasets.iter().map(row).collect())
            }
            Request::DatasetOf { path } => {
                let dataset = self.pool.datasets().of_path(&path);
                Response::Dataset(self.row(&dataset, &self.pool.statistics().datasets))
            }
            Request::Change(change) => self.change(&change),
            Request::Why { path } => self.why(&path),
            Request::Curve { dataset, recursive } => {
                match self.pool.curves(dataset.as_deref(), recursive) {
                    Ok(curves) => Response::Curves(curves),
                    Err(error) => refused_dataset(&error),
                }
            }
            Request::SetCeiling(setting) => match self.keeper.set(setting) {
                Ok(done) => Response::Ceiling(done),
                Err(error) => refused(error.to_string(), true),
            },
            Request::Save => match self.warmth.save() {
                Ok(bytes) => Response::Saved { bytes },
                Err(error) => {
                    refused(format!("cannot write down what the cache holds: {error}"), false)
                }
            },
            Request::Drain => {
                let waits_for = self.waits_for();
                Response::Undone(Undone { waits_for, ..drain(&self.pool) })
            }
            Request::Txgs => Response::Txgs(txgs(&self.pool)),
            Request::Record { percent } => {
                self.pool.record(percent, RandomState::new().hash_one(self.started));
                Response::Recorded(RecordedRequests::default())
            }
            Request::Recorded { stop } => {
                let recorded = self.pool.recorded();
                if stop {
                    self.pool.stop_recording();
                }
                match recorded {
                    Some(recorded) => Response::Recorded(recorded),
                    None => refused("nothing is being recorded any more".into(), false),
                }
            }
            Request::Sync => match block_on(self.pool.sync()) {
                Ok(()) => Response::Synced,
                Err(error) => {
                    refused(format!("the origin does not keep everything: {error}"), false)
                }
            },
            Request::AddCache { device, force } => self.add_cache(&device, force),
            Request::RemoveCache { path } => self.remove_cache(&path),
            Request::RemoveLog { path } => self.remove_log(&path),
            Request::Unmount { lazy } => self.unmount(lazy),
            Request::Prime(_) | Request::AddLog { .. } => {
                refused("that needs a connection of its own".into(), true)
            }
        }
    }

    /// Primes, and calls `report` several times a second until that says break or all is done.
    pub fn prime(
        &self,
        prime: Prime,
        mut report: impl FnMut(PrimeProgress) -> ControlFlow<()>,
    ) -> Response {
        for path in &prime.paths {
            match block_on(self.pool.resolve(path)) {
                Ok(found) => self.pool.forget(found.object, 1),
                Err(error) => return self.refused_engine(path, &error),
            }
        }
        let request = PrimeRequest {
            paths: prime.paths,
            rate_bytes_per_second: prime.rate_bytes_per_second,
            dry_run: prime.dry_run,
        };
        let latest = Mutex::new(PrimeProgress::default());
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let (done, ended) = sync_channel(1);
            let (latest, stop) = (&latest, &stop);
            scope.spawn(move || {
                let progress = |now: PrimeProgress| {
                    *latest.lock() = now;
                    match stop.load(Ordering::Relaxed) {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                };
                // Nobody waits any more only when the scope is left by a panic.
                let _ = done.send(block_on(self.pool.prime(request, &progress)));
            });
            loop {
                match ended.recv_timeout(PROGRESS_INTERVAL) {
                    Ok(outcome) => return Some(outcome),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {}
                    Err(RecvTimeoutError::Timeout) => {
                        let now = *latest.lock();
                        stop.store(report(now).is_break(), Ordering::Relaxed);
                    }
                }
            }
        });
        // The last figures, so that a bar ends where the work did.
        let _ = report(*latest.lock());
        match outcome {
            Some(Ok(report)) => Response::Primed(report),
            Some(Err(error)) => self.refused_engine(Path::new(""), &error),
            None => refused("priming has failed inside the daemon; see its log".into(), false),
        }
    }

    /// Unmounts; when the mount is in use and stays, says by whom.
    pub fn unmount(&self, lazy: bool) -> Response {
        let Some(session) = self.session.get() else {
            return refused("the mount is just starting; try again".into(), false);
        };
        if !self.is_in_tree() {
            let message = format!(
                "the mount is not at {} any more; its daemon, process {}, ends when its last \
                 file is closed",
                self.descriptor.mountpoint.display(),
                self.descriptor.pid
            );
            return refused(message, false);
        }
        match session.unmount(lazy) {
            Ok(()) => Response::Unmounted,
            Err(fuse::UnmountError::Busy { .. }) => {
                Response::Busy { holders: holders_of(self.descriptor.device) }
            }
            Err(error) => refused(error.to_string(), false),
        }
    }

    /// What has owed an answer for a while, and for how long, in words.
    fn waits_for(&self) -> Option<String> {
        let told = |what: &str, path: &Path, silence: Duration| {
            let (path, seconds) = (path.display(), silence.as_secs());
            format!("{what} {path}, which has not answered for {seconds} s")
        };
        let silence = self.desk.silence().filter(|silence| *silence >= LOG_SILENCE_TOLD);
        if let (Some(device), Some(silence)) = (self.desk.device(), silence) {
            return Some(told("the log device", &device.path, silence));
        }
        let silence = self.pool.write_back_statistics().silence?;
        Some(told("the origin", &self.descriptor.origin, silence))
    }

    /// Whether our mount is what is seen at the mount point.
    pub fn is_in_tree(&self) -> bool {
        mounts().is_ok_and(|mounts| {
            mounted_at(&mounts, &self.descriptor.mountpoint)
                .is_some_and(|mount| mount.device == self.descriptor.device)
        })
    }

    /// The pool's counters, and those of its ceiling.
    fn statistics(&self, flash: &FlashStatistics) -> Statistics {
        let mut statistics = self.pool.statistics_with(flash);
        let ceiling = self.keeper.status();
        let counters = [
            ("c_min", ceiling.floor_bytes),
            ("memory_all_bytes", ceiling.memory_bytes),
            ("memory_available_bytes", ceiling.available_bytes),
            ("ceiling_shrinks", ceiling.shrinks),
            ("ceiling_grows", ceiling.grows),
        ];
        statistics.counters.extend(counters.map(|(name, value)| (name.to_string(), value)));
        statistics
    }

    /// The properties of a dataset, with a note where less than was set is in force.
    fn properties(&self, dataset: &str) -> Result<Vec<PropertyRow>, DatasetError> {
        let mut rows = self.pool.datasets().get(dataset)?;
        let datasets = self.pool.datasets().list();
        let found = datasets.iter().find(|found| found.name() == dataset);
        let reserve = found.and_then(|found| self.pool.reserve_on_flash_of(found));
        let cut = reserve.filter(|(wanted, in_force)| in_force < wanted);
        let limit = found.and_then(|found| self.pool.limit_on_flash_of(found));
        let above = limit.filter(|limit| reserve.is_some_and(|(wanted, _)| wanted > *limit));
        let row = rows.iter_mut().find(|row| row.property == "l2reserve");
        let Some(row) = row else { return Ok(rows) };
        if let Some(limit) = above {
            row.note = Some(format!(
                "l2limit lets the dataset have only {} of it; lower l2reserve or raise l2limit",
                HumanSize(limit)
            ));
        } else if let Some((_, in_force)) = cut {
            row.note = Some(format!(
                "only {} of it is in force: all reserves together may take half of the cache \
                 devices",
                HumanSize(in_force)
            ));
        }
        Ok(rows)
    }

    fn status(&self) -> Status {
        // One look at the devices, so that all figures that come of it agree.
        let flash = self.pool.flash_statistics();
        let statistics = self.statistics(&flash);
        let ceiling = self.keeper.status();
        let caches = self.shelf.status(&flash);
        let (restored, saved_seconds_ago) = self.warmth.status();
        let mut warnings = self.warnings.clone();
        let errors = statistics.counters.get("origin_errors").copied().unwrap_or(0);
        if errors > 0 {
            let origin = self.descriptor.origin.display();
            warnings.push(format!("{errors} calls to the origin {origin} have failed"));
        }
        warnings.extend(risks(self.pool.datasets()));
        warnings.extend(missing_groups(&self.no_promote_cgroups));
        self.desk.look(&self.pool);
        let writes = write_status(&self.pool);
        if let Some(why) = &writes.failing {
            warnings.push(format!(
                "the origin does not take what was written: {why}; it is kept here and tried again"
            ));
        }
        if let Some(seconds) = writes.silent_seconds {
            warnings.push(format!(
                "the origin has not answered for {seconds:.0} s; what was written is kept here \
                 until it does"
            ));
        }
        let log_device = self.desk.device();
        let log_silence = writes.log.as_ref().and_then(|log| log.silent_seconds);
        if let (Some(device), Some(seconds)) = (&log_device, log_silence) {
            warnings.push(format!(
                "the log device {} has not answered for {seconds:.0} s: who waits for it to keep \
                 something waits until it does; others go to the origin after {} s",
                device.path.display(),
                LOG_SILENCE_MAX.as_secs()
            ));
        }
        let missing = self.desk.missing();
        if let Some(device) = log_device.as_ref().filter(|_| writes.has_lost_log) {
            let path = device.path.display();
            let what = match missing {
                Some(what) => format!("the log device {path} {what} while it was in use"),
                None => format!("the log device failed; it is {path}"),
            };
            let pool = &self.descriptor.pool;
            warnings.push(format!(
                "{what}: fsync waits for the origin. Give the pool another one: `warmfront pool \
                 remove {pool} log {path}`, then `warmfront pool add {pool} log PATH`"
            ));
        }
        warnings.extend(self.origin_place.moved());
        let Descriptor { pool, pid, origin, mountpoint, settings, log, .. } =
            self.descriptor.clone();
        let count = |name: &&str| statistics.counters.get(*name);
        Status {
            pool,
            pid,
            origin,
            mountpoint,
            is_detached: !self.is_in_tree(),
            settings,
            log,
            advice: crate::advice::advice(
                &self.pool,
                &caches,
                ceiling.bytes,
                self.started.elapsed(),
                ["hits", "iohits", "misses"].iter().filter_map(count).sum(),
            ),
            ceiling_bytes: ceiling.bytes,
            ceiling,
            resident_bytes: Sources::system().resident_bytes(),
            read_only: self.read_only,
            slow: self.slow.clone(),
            no_promote_cgroups: self.no_promote_cgroups.clone(),
            log_device: log_device.map(|device| device.to_string()),
            is_log_missing: missing.is_some(),
            caches,
            writes,
            restored,
            saved_seconds_ago,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            counters: statistics.counters,
            datasets: statistics.datasets,
            warnings,
        }
    }

    fn row(
        &self,
        dataset: &Dataset,
        statistics: &BTreeMap<String, BTreeMap<String, u64>>,
    ) -> DatasetRow {
        let counters = statistics.get(dataset.name());
        let count = |name: &str| counters.and_then(|all| all.get(name)).copied().unwrap_or(0);
        DatasetRow {
            name: dataset.name().to_string(),
            path: dataset.path().to_owned(),
            mountpoint: Some(self.seen_at(dataset.path())),
            data_bytes: count("data_size"),
            metadata_bytes: count("metadata_size"),
        }
    }

    /// Where a path relative to the pool's top is seen.
    fn seen_at(&self, path: &Path) -> std::path::PathBuf {
        match path.as_os_str().is_empty() {
            true => self.descriptor.mountpoint.clone(),
            false => self.descriptor.mountpoint.join(path),
        }
    }

    /// Saves the change in the settings file once the pool could take it, and makes it then. What
    /// was set for this mount only is not in the file; a change must fit both.
    fn change(&self, change: &Change) -> Response {
        let save = || match &self.descriptor.settings {
            None => Ok(Changed::UntilUnmount),
            Some(file) => {
                PoolFile::load(&self.paths, &self.descriptor.pool)?.change(change)?;
                Ok(Changed::Saved { file: file.clone() })
            }
        };
        let datasets = self.pool.datasets();
        match datasets.edit_and_save(|tree| change::apply(change, tree), save) {
            Ok(saved) => {
                self.pool.expire_all();
                Response::Changed(saved)
            }
            Err(PoolFileError::Dataset(error)) => refused_dataset(&error),
            Err(error) => refused(error.to_string(), false),
        }
    }

    fn add_cache(&self, device: &DevicePath, force: bool) -> Response {
        match self.shelf.add(&self.pool, device, force) {
            Ok(found) => self.caches_changed(Some(found)),
            Err(error) => refused_cache(&error),
        }
    }

    fn remove_cache(&self, path: &Path) -> Response {
        match self.shelf.remove(&self.pool, path) {
            Ok(told) => self.caches_changed(told),
            Err(error) => refused_cache(&error),
        }
    }

    /// Saves which cache devices there are now.
    fn caches_changed(&self, found: Option<String>) -> Response {
        let Some(file) = &self.descriptor.settings else {
            return Response::CachesChanged { changed: Changed::UntilUnmount, found };
        };
        let saved = PoolFile::load(&self.paths, &self.descriptor.pool)
            .and_then(|settings| settings.set_caches(&self.shelf.devices()));
        match saved {
            Ok(()) => {
                let changed = Changed::Saved { file: file.clone() };
                Response::CachesChanged { changed, found }
            }
            Err(error) => refused(format!("done until the pool is unmounted, but {error}"), false),
        }
    }

    /// Gives the pool a log device. `tell` is told how far that is.
    pub fn add_log(&self, device: DevicePath, force: bool, tell: Tell<'_>) -> Response {
        if self.read_only {
            return refused(LogError::ReadOnly.to_string(), false);
        }
        let settings = LogSettings { device: Some(device), force, ..LogSettings::default() };
        match self.desk.add(&self.pool, &*self.origin, &settings, tell) {
            Ok(notes) => self.log_changed(notes),
            Err(error) => refused(error.to_string(), false),
        }
    }

    fn remove_log(&self, path: &Path) -> Response {
        match self.desk.remove(&self.pool, path) {
            Ok(()) => self.log_changed(Vec::new()),
            Err(error) => refused(error.to_string(), false),
        }
    }

    /// Saves which log device there is now.
    fn log_changed(&self, notes: Vec<String>) -> Response {
        let Some(file) = &self.descriptor.settings else {
            return Response::LogChanged { changed: Changed::UntilUnmount, notes };
        };
        let saved = PoolFile::load(&self.paths, &self.descriptor.pool)
            .and_then(|settings| settings.set_log(self.desk.device().as_ref()));
        match saved {
            Ok(()) => {
                Response::LogChanged { changed: Changed::Saved { file: file.clone() }, notes }
            }
            Err(error) => refused(format!("done until the pool is unmounted, but {error}"), false),
        }
    }

    fn why(&self, path: &Path) -> Response {
        match block_on(self.pool.why(path)) {
            Ok(mut why) => {
                let cut = why.runs.split_off(why.runs.len().min(RUNS_MAX));
                why.records_not_shown += cut.iter().map(|run| run.count).sum::<u64>();
                Response::Why(Box::new(why))
            }
            Err(error) => self.refused_engine(path, &error),
        }
    }

    fn refused_engine(&self, path: &Path, error: &EngineError) -> Response {
        let place = self.seen_at(path);
        match error.is_not_found() {
            true => refused(format!("{} does not exist", place.display()), false),
            false => refused(format!("{}: {error}", place.display()), false),
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Service").field("descriptor", &self.descriptor).finish()
    }
}

pub(crate) fn refused(message: String, is_usage: bool) -> Response {
    Response::Refused(Refusal { message, is_usage })
}

fn refused_cache(error: &CacheError) -> Response {
    let hint = if error.is_forceable() { " (--force)" } else { "" };
    refused(format!("{error}{hint}"), false)
}

fn refused_dataset(error: &DatasetError) -> Response {
    refused(error.to_string(), is_usage(error))
}
