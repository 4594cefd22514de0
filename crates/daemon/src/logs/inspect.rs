use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use rustix::io::Errno;
use serde::Serialize;
use storage::{DeviceError, DirectoryOptions, DirectoryOrigin, FileDevice, Origin, OriginError};
use zil::{End, Found, Log, OpenError, Opening, Options, Recovery};

use super::desk::{Desk, LogSettings, Tell, beyond, clock, contents, filling};
use super::error::LogError;
use super::find::{Noted, markers};
use super::marker::{Marker, digits};
use super::patience::{answers, in_time};
use super::words::{end, is_empty};
use crate::caches::random_bytes;
use crate::device_open::DeviceOpenError;
use crate::device_path::{DevicePath, DeviceRole};
use crate::early_stop::EarlyStop;
use crate::error::ControlError;
use crate::lock::{LockError, Owner, PoolLock};
use crate::origin_note::OriginNote;
use crate::paths::Paths;
use crate::warmth::SnapshotFiles;

/// A log, as it is found on its device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogShown {
    /// The device.
    pub path: PathBuf,
    /// The log's id.
    pub id: String,
    /// The first record that was not released.
    pub first: u64,
    /// The last good one.
    pub last: u64,
    /// How many these are.
    pub records: u64,
    /// How it ends, in words.
    pub end: String,
    /// It is certain that the origin lacks nothing of it.
    pub is_empty: bool,
    /// Records behind the end.
    pub beyond_records: u64,
    /// What that means, in words.
    pub beyond: Option<String>,
    /// The pool that is mounted and writes to it.
    pub in_use_by: Option<String>,
    /// Why the next mount does not bring to the origin what it holds, in words.
    pub not_replayed: Option<String>,
    /// The pool that has used another log, which may hold what its origin lacks, and in whose place
    /// this one is.
    pub replaces_log_of: Option<String>,
}

/// A record of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogRecord {
    /// Its place in the order of all.
    pub position: u64,
    /// What kind of change it is.
    pub kind: &'static str,
    /// Bytes of file contents in it.
    pub data_bytes: u64,
    /// What it tells.
    pub what: String,
}

/// What was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogDiscarded {
    /// The device.
    pub path: PathBuf,
    /// Records that it held up to its end, if it is there.
    pub records: Option<u64>,
    /// How it ended, in words, unless it was whole.
    pub end: Option<String>,
    /// Records behind its end.
    pub beyond_records: u64,
    /// What these mean, in words.
    pub beyond: Option<String>,
    /// What is wrong with it, with its verb, if it cannot be had.
    pub lost: Option<String>,
    /// The pool that goes on without it.
    pub pool: Option<String>,
    /// The origin that does not get it.
    pub origin: Option<PathBuf>,
}

/// A log device to be looked at by hand.
#[derive(Debug)]
pub struct LogTarget {
    pub(super) device: DevicePath,
    pub(super) owner: Option<PoolOfLog>,
    /// Where is noted how the log is used.
    pub(super) marker_path: Option<PathBuf>,
    /// Logs that no pool replays any more, by their ids.
    pub(super) given_up: Vec<String>,
}

/// The pool of a log.
#[derive(Debug)]
pub(super) struct PoolOfLog {
    pub pool: String,
    /// The name by which the log knows it.
    pub name: Vec<u8>,
    pub origin: PathBuf,
    /// The name that is locked beside a mount of another origin which is called the same.
    pub lock_name: String,
}

impl LogTarget {
    /// Whether the log is noted to hold what the origin may not.
    pub(crate) fn may_hold_something(&self) -> Result<bool, LogError> {
        Ok(self.marker()?.is_some_and(|(_, marker)| marker.in_use.is_some()))
    }

    /// Where the log lies.
    pub fn path(&self) -> &Path {
        &self.device.path
    }

    /// Looks at the log, and hands each record to `each` until that says no. One that a mounted
    /// pool writes to is shown as it is at the moment.
    ///
    /// # Errors
    /// When there is no log, or it cannot be read.
    pub fn show(&self, mut each: impl FnMut(LogRecord) -> bool) -> Result<LogShown, ControlError> {
        let (mut recovery, in_use_by) = match self.open() {
            Err(LogError::InUse { pool }) => (self.look()?, Some(pool)),
            opened => (opened?, None),
        };
        let found = recovery.found().clone();
        let end = match in_use_by {
            Some(_) => "being written".to_string(),
            None => end(&found),
        };
        let (id, epoch) = (digits(recovery.id()), recovery.epoch());
        let marker = self.marker()?.map(|(_, marker)| marker);
        let is_another = |marker: &Marker| marker.in_use.as_ref().is_some_and(|used| *used != id);
        let replaces_log_of = marker.filter(is_another).map(|marker| marker.pool);
        // The one that writes to it is not the pool that was named.
        let in_use_by = match &replaces_log_of {
            Some(_) => in_use_by.map(|_| self.user_of(&id)),
            None => in_use_by,
        };
        let not_replayed = match in_use_by {
            Some(_) => None,
            None => self.not_replayed(&id, epoch, found.records())?,
        };
        let shown = LogShown {
            path: self.device.path.clone(),
            id,
            first: found.first.0,
            last: found.last.0,
            records: found.records(),
            end,
            is_empty: is_empty(&found),
            beyond_records: if in_use_by.is_some() { 0 } else { found.beyond_records },
            beyond: beyond(&self.device.path, &found).filter(|_| in_use_by.is_none()),
            in_use_by,
            not_replayed,
            replaces_log_of,
        };
        let path = self.device.path.clone();
        loop {
            let (position, record) = match block_on(recovery.next()) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                // The origin has it by now, and its place has been used again.
                Err(_) if shown.in_use_by.is_some() => break,
                Err(error) => return Err(LogError::Finish { path, error }.into()),
            };
            let goes_on = each(LogRecord {
                position: position.0,
                kind: record.kind_name(),
                data_bytes: record.data_bytes(),
                what: record.to_string(),
            });
            if !goes_on {
                break;
            }
        }
        Ok(shown)
    }

    /// The pool that has noted the log with this id as its own.
    fn user_of(&self, id: &str) -> String {
        let noted = self.marker_path.as_ref().and_then(|path| markers(path.parent()?).ok());
        let is_it = |(_, marker): &Noted| marker.in_use.as_deref() == Some(id);
        let found = noted.into_iter().flatten().find(is_it);
        found.map_or_else(|| "of another user".to_string(), |(_, marker)| marker.pool)
    }

    /// Why the next mount leaves the log alone that is found with this id, in words.
    fn not_replayed(&self, id: &str, epoch: u64, records: u64) -> Result<Option<String>, LogError> {
        let older = "`warmfront log replay` says more";
        let marker = self.marker()?.map(|(_, marker)| marker);
        if marker.as_ref().is_some_and(|marker| marker.is_newer_than(id, epoch)) {
            return Ok(Some(format!(
                "it will not be replayed: the log that was in use was newer, so this \
                 seems to be an older copy; {older}"
            )));
        }
        if records == 0 {
            return Ok(None);
        }
        if self.given_up.iter().any(|known| known == id) {
            return Ok(Some(
                "it was given up, and will not be replayed: the pool went on without it".into(),
            ));
        }
        let emptied = marker.is_some_and(|marker| marker.in_use.is_none());
        Ok(emptied.then(|| {
            format!(
                "it will not be replayed: it was noted as empty, so this seems to be an older \
                 copy; {older}"
            )
        }))
    }

    /// Brings what the log holds to the origin, without mounting it; if `force` also what a log
    /// holds that seems to be an older copy. Tells in words what was done.
    ///
    /// # Errors
    /// When it is not known for which origin it is, or as when it is mounted.
    pub fn replay(
        &self,
        paths: &Paths,
        force: bool,
        tell: Tell<'_>,
    ) -> Result<Vec<String>, ControlError> {
        let path = self.device.path.clone();
        let Some(owner) = &self.owner else {
            return Err(LogError::NoPool { path }.into());
        };
        answers(&path)?;
        if !path.exists() {
            return Err(self.gone(owner)?.into());
        }
        let gone = || LogError::OriginGone { path: path.clone(), origin: owner.origin.clone() };
        if !owner.origin.is_dir() {
            return Err(gone().into());
        }
        let _lock = self.lock(paths, owner)?;
        OriginNote::of(&owner.origin)
            .and_then(|note| SnapshotFiles::distrust_all(paths.state_directory(), &note, None))
            .map_err(|error| ControlError::System { path: owner.origin.clone(), error })?;
        let opened = DirectoryOrigin::open(&owner.origin, DirectoryOptions::default());
        let cannot = |error: OriginError| LogError::Origin {
            path: owner.origin.clone(),
            error: std::io::Error::other(error),
        };
        let origin = opened.map_err(cannot)?;
        let system = |error| ControlError::System { path: path.clone(), error };
        let _early_stop = EarlyStop::watch().map_err(system)?;
        Ok(self.bring(&origin, force, tell)?)
    }

    /// Brings what the log holds to the origin of its pool, which whoever calls this has locked.
    pub(super) fn bring(
        &self,
        origin: &dyn Origin,
        force: bool,
        tell: Tell<'_>,
    ) -> Result<Vec<String>, LogError> {
        let path = self.device.path.clone();
        let (Some(owner), Some(marker_path)) = (&self.owner, &self.marker_path) else {
            return Err(LogError::NoPool { path });
        };
        let pool = (&*owner.pool, &*owner.name);
        let desk = Desk::new(pool, marker_path.clone(), &owner.origin, None)?;
        let device = Some(self.device.clone());
        let settings = LogSettings { device, older_too: force, ..LogSettings::default() };
        let (_, notes) = desk.open(origin, &settings, false, tell)?;
        desk.emptied()?;
        Ok(notes)
    }

    /// Gives up what the log holds; also one that is lost, if a pool is known to have used it, or
    /// of another version. `tell` is told how far one is made good of which a part was overwritten.
    ///
    /// # Errors
    /// When there is no log, and none is missed, or it is in use.
    pub fn discard(&self, paths: &Paths, tell: Tell<'_>) -> Result<LogDiscarded, ControlError> {
        let _lock = self.owner.as_ref().map(|owner| self.lock(paths, owner)).transpose()?;
        let path = self.device.path.clone();
        let pool = self.owner.as_ref().map(|owner| owner.pool.clone());
        let marker = self.marker()?;
        let missed = marker.as_ref().and_then(|(_, marker)| marker.in_use.clone());
        let noted = marker.as_ref().map(|(_, marker)| marker.clone());
        let is_older = |found: &Recovery| {
            let id = digits(found.id());
            noted.as_ref().is_some_and(|noted| noted.is_newer_than(&id, found.epoch()))
        };
        let is_ours = |found: &str| missed.as_deref().is_none_or(|missed| missed == found);
        let mut found = None;
        let lost = match self.open() {
            Ok(recovery) if is_older(&recovery) => Some("seems to be an older copy".to_string()),
            Ok(recovery) if is_ours(&digits(recovery.id())) => {
                found = Some(recovery.found().clone());
                let is_cut = matches!(recovery.found().end, End::Cut { .. });
                match is_cut {
                    true => {
                        drop(recovery);
                        self.wipe()?;
                        Some("has become shorter".to_string())
                    }
                    false => {
                        let told = filling(tell);
                        let discarded = block_on(recovery.discard_telling(&told));
                        let failed = |error| LogError::Finish { path: path.clone(), error };
                        drop(discarded.map_err(failed)?);
                        None
                    }
                }
            }
            // What lies there is somebody else's.
            Ok(_) => Some("holds another log now".to_string()),
            Err(error) => match given_up_as(&error).filter(|_| missed.is_some()) {
                Some(what) => Some(what),
                None => return Err(error.into()),
            },
        };
        if let Some((marker_path, mut marker)) = marker {
            match (&lost, missed) {
                (Some(_), Some(missed)) => marker.give_up(&missed),
                _ => marker.in_use = None,
            }
            let state = |error| LogError::State { path: marker_path.clone(), error };
            marker.save(&marker_path).map_err(state)?;
        }
        let records = found.as_ref().map(Found::records);
        let beyond_records = found.as_ref().map_or(0, |found| found.beyond_records);
        let is_broken = |found: &&Found| found.end != End::Whole;
        let end = found.as_ref().filter(is_broken).map(end);
        let beyond = found.and_then(|found| beyond(&path, &found));
        let origin = self.owner.as_ref().map(|owner| owner.origin.clone());
        Ok(LogDiscarded { path, records, end, beyond_records, beyond, lost, pool, origin })
    }

    /// Takes from a device what tells that it holds a log.
    fn wipe(&self) -> Result<(), LogError> {
        let device = self.device.clone();
        let wiped = in_time(&self.device.path, move || device.wipe())?;
        let failed = |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let error = DeviceError::System { operation: "write", errno };
            let path = self.device.path.clone();
            DeviceOpenError::Device { role: DeviceRole::Log, path, error }
        };
        wiped.map_err(|error| failed(error).into())
    }

    /// What is noted of the log, and where.
    fn marker(&self) -> Result<Option<(PathBuf, Marker)>, LogError> {
        let Some(path) = &self.marker_path else { return Ok(None) };
        let state = |error| LogError::State { path: path.clone(), error };
        Ok(Marker::load(path).map_err(state)?.map(|marker| (path.clone(), marker)))
    }

    fn lock(&self, paths: &Paths, owner: &PoolOfLog) -> Result<PoolLock, ControlError> {
        use std::os::unix::fs::MetadataExt;

        paths.make_runtime_directory()?;
        let system = |error| ControlError::System { path: owner.origin.clone(), error };
        // What is given up needs no origin: that may be gone, or elsewhere.
        let identity = match std::fs::metadata(&owner.origin) {
            Ok(found) => Some((found.dev(), found.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(system(error)),
        };
        let holder = Owner {
            pid: std::process::id(),
            pool: owner.pool.clone(),
            origin: owner.origin.clone(),
            mountpoint: PathBuf::new(),
        };
        let taken = match PoolLock::take(paths, &holder, identity) {
            Err(LockError::Held(other)) if other.origin != owner.origin => {
                let holder = Owner { pool: owner.lock_name.clone(), ..holder };
                PoolLock::take(paths, &holder, identity)
            }
            taken => taken,
        };
        taken.map_err(|_| LogError::InUse { pool: owner.pool.clone() }.into())
    }

    pub(super) fn open(&self) -> Result<Recovery, LogError> {
        let path = self.device.path.clone();
        answers(&path)?;
        if !path.exists() {
            return Err(match &self.owner {
                Some(owner) => self.gone(owner)?,
                None => LogError::NoTarget { text: path.display().to_string() },
            });
        }
        // As it is: looking at a log makes nothing and changes nothing.
        let device = DevicePath { path: path.clone(), size_bytes: None };
        let opened = in_time(&path, move || device.open(DeviceRole::Log))?;
        let file = opened.map_err(|error| match (error, &self.owner) {
            (DeviceOpenError::InUse { .. }, Some(owner)) => {
                LogError::InUse { pool: owner.pool.clone() }
            }
            (error, _) => error.into(),
        })?;
        recover(path, file, self.is_noted_empty())
    }

    /// That it is not there.
    fn gone(&self, owner: &PoolOfLog) -> Result<LogError, LogError> {
        let held = self.marker()?.map(|(_, marker)| marker.in_use.is_some());
        Ok(LogError::Gone { path: self.device.path.clone(), pool: owner.pool.clone(), held })
    }

    /// The same though somebody uses it.
    pub(super) fn look(&self) -> Result<Recovery, LogError> {
        let path = self.device.path.clone();
        let device = DevicePath { path: path.clone(), size_bytes: None };
        answers(&path)?;
        let file = in_time(&path, move || device.look(DeviceRole::Log))??;
        recover(path, file, self.is_noted_empty())
    }

    fn is_noted_empty(&self) -> bool {
        let marker = self.marker().ok().flatten().map(|(_, marker)| marker);
        marker.is_some_and(|marker| marker.in_use.is_none() && self.device.is_at(&marker.path))
    }
}

fn recover(path: PathBuf, file: FileDevice, is_noted_empty: bool) -> Result<Recovery, LogError> {
    let state = |error| LogError::State { path: "/dev/urandom".into(), error };
    let (log, seed) = (random_bytes().map_err(state)?, random_bytes().map_err(state)?);
    let opening = Opening { pool: [0; 16], log, seed, force: true };
    let opened = block_on(Log::open(Arc::new(file), opening, Options::default(), clock()));
    let opened = opened.map_err(|error| contents(&path, error))?;
    match opened.found().end {
        End::Cut { size_bytes, needed_bytes }
            if is_noted_empty && opened.found().records() == 0 =>
        {
            Err(LogError::Shortened { path, size_bytes, needed_bytes })
        }
        _ => Ok(opened),
    }
}

/// What is wrong with a log that is given up without being looked at, with its verb.
fn given_up_as(error: &LogError) -> Option<String> {
    match error {
        LogError::Contents { error: OpenError::Version { found, .. }, .. } => {
            Some(format!("is of version {found}, which this program does not read"))
        }
        error => lost(error),
    }
}

/// What is wrong with a log that cannot be had any more, with its verb.
pub(super) fn lost(error: &LogError) -> Option<String> {
    Some(match error {
        LogError::NoTarget { .. } | LogError::Gone { .. } => "is not there".to_string(),
        LogError::TooSmall { .. } => "has become shorter".to_string(),
        LogError::Contents { error, .. } => match error {
            OpenError::NoLog => "holds no log any more".to_string(),
            OpenError::Foreign { found } => format!("holds {found} now"),
            OpenError::Damaged => "is damaged".to_string(),
            _ => return None,
        },
        LogError::Open(DeviceOpenError::WrongKind { .. } | DeviceOpenError::Directory { .. }) => {
            "is no file or block device any more".to_string()
        }
        _ => return None,
    })
}
