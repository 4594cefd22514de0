use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use serde::Serialize;
use storage::{DeviceError, DirectoryOptions, DirectoryOrigin, FileDevice, Origin};
use zil::{End, Found, Log, OpenError, Opening, Options, Recovery};

use super::desk::{Desk, LogSettings, Tell, beyond, check_size, clock};
use super::error::LogError;
use super::marker::{Marker, digits};
use crate::caches::random_bytes;
use crate::device_open::DeviceOpenError;
use crate::device_path::{DevicePath, DeviceRole, is_same};
use crate::early_stop::EarlyStop;
use crate::error::ControlError;
use crate::lock::{Owner, PoolLock};
use crate::paths::Paths;
use crate::pool_file::PoolFile;
use crate::target::find_mount;

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
    /// Records behind the end.
    pub beyond_records: u64,
    /// What that means, in words.
    pub beyond: Option<String>,
    /// The pool that is mounted and writes to it.
    pub in_use_by: Option<String>,
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
    /// Records behind its end.
    pub beyond_records: u64,
    /// What these mean, in words.
    pub beyond: Option<String>,
    /// What is wrong with it, with its verb, if it cannot be had.
    pub lost: Option<String>,
    /// The pool that goes on without it.
    pub pool: Option<String>,
}

/// A log device to be looked at by hand.
#[derive(Debug)]
pub struct LogTarget {
    device: DevicePath,
    owner: Option<PoolOfLog>,
    /// Where is noted how the log is used.
    marker_path: Option<PathBuf>,
}

/// The pool of a log.
#[derive(Debug)]
struct PoolOfLog {
    pool: String,
    /// The name by which the log knows it.
    name: Vec<u8>,
    origin: PathBuf,
}

impl LogTarget {
    /// Finds out what `text` names: a pool, a path under its mount, else a device.
    ///
    /// # Errors
    /// When it names none of them.
    pub fn find(paths: &Paths, text: &OsStr) -> Result<LogTarget, ControlError> {
        if text.as_encoded_bytes().contains(&b'/')
            && let Ok(Some((client, _))) = find_mount(paths, Path::new(text))
        {
            return LogTarget::named(paths, client.descriptor().pool.as_ref());
        }
        LogTarget::named(paths, text)
    }

    fn named(paths: &Paths, text: &OsStr) -> Result<LogTarget, ControlError> {
        let markers = markers(paths)?;
        let named = text.to_str().filter(|name| !name.contains('/'));
        if let Some(pool) = named.filter(|name| paths.settings(name).exists()) {
            let settings = PoolFile::load(paths, pool)?.settings;
            let marker_path = paths.log_marker(pool);
            let marker = markers.iter().find(|(path, _)| *path == marker_path);
            let device = match (settings.log, marker) {
                (_, Some((_, marker))) if marker.in_use.is_some() => {
                    DevicePath { path: marker.path.clone(), size_bytes: None }
                }
                (Some(device), _) => device,
                (None, _) => return Err(no_target(text)),
            };
            let (pool, name) = (pool.to_string(), pool.as_bytes().to_vec());
            let owner = Some(PoolOfLog { pool, name, origin: settings.origin });
            return Ok(LogTarget { device, owner, marker_path: Some(marker_path) });
        }
        let path = std::path::absolute(Path::new(text)).unwrap_or_else(|_| text.into());
        let found = markers.into_iter().find(|(_, marker)| {
            is_same(&marker.path, &path) || named.is_some_and(|name| marker.pool == name)
        });
        match found {
            Some((marker_path, marker)) => {
                let Marker { pool, origin, path, .. } = marker;
                let name = match paths.settings(&pool).exists() {
                    true => pool.as_bytes().to_vec(),
                    false => unnamed(&origin),
                };
                let device = DevicePath { path, size_bytes: None };
                let owner = Some(PoolOfLog { pool, name, origin });
                Ok(LogTarget { device, owner, marker_path: Some(marker_path) })
            }
            None if path.exists() => {
                let device = DevicePath { path, size_bytes: None };
                Ok(LogTarget { device, owner: None, marker_path: None })
            }
            None => Err(no_target(text)),
        }
    }

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
        let end = match &found.end {
            _ if in_use_by.is_some() => "being written".to_string(),
            End::Whole if found.beyond_records > 0 => {
                format!("broken off or damaged behind record {}", found.last)
            }
            End::Whole => "whole as far as it tells".to_string(),
            End::Damaged { lasted } => {
                format!("damaged: acknowledged records up to {lasted} at least are lost")
            }
            End::Unreadable { error } => format!("unreadable: {error}"),
            _ => "unknown".to_string(),
        };
        let shown = LogShown {
            path: self.device.path.clone(),
            id: digits(recovery.id()),
            first: found.first.0,
            last: found.last.0,
            records: found.records(),
            end,
            beyond_records: if in_use_by.is_some() { 0 } else { found.beyond_records },
            beyond: beyond(&self.device.path, &found).filter(|_| in_use_by.is_none()),
            in_use_by,
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

    /// Brings what the log holds to the origin, without mounting it. Tells in words what was done.
    ///
    /// # Errors
    /// When it is not known for which origin it is, or as when it is mounted.
    pub fn replay(&self, paths: &Paths, tell: Tell<'_>) -> Result<Vec<String>, ControlError> {
        let path = self.device.path.clone();
        let (Some(owner), Some(marker_path)) = (&self.owner, &self.marker_path) else {
            return Err(LogError::NoPool { path }.into());
        };
        if !path.exists() {
            let (pool, what) = (owner.pool.clone(), "is not there".to_string());
            return Err(LogError::Lost { path, pool, what }.into());
        }
        let _lock = self.lock(paths, owner)?;
        let origin = DirectoryOrigin::open(&owner.origin, DirectoryOptions::default());
        let origin: Arc<dyn Origin> = Arc::new(origin.map_err(LogError::Origin)?);
        let pool = (&*owner.pool, &*owner.name);
        let desk = Desk::new(pool, marker_path.clone(), (&owner.origin, &*origin), None)?;
        let settings =
            LogSettings { device: Some(self.device.clone()), discard: false, force: false };
        let system = |error| ControlError::System { path: path.clone(), error };
        let _early_stop = EarlyStop::watch().map_err(system)?;
        let (_, notes) = desk.open(&*origin, &settings, false, tell)?;
        desk.emptied()?;
        Ok(notes)
    }

    /// Gives up what the log holds; also one that is lost, if a pool is known to have used it.
    ///
    /// # Errors
    /// When there is no log, and none is missed, or it is in use.
    pub fn discard(&self, paths: &Paths) -> Result<LogDiscarded, ControlError> {
        let _lock = self.owner.as_ref().map(|owner| self.lock(paths, owner)).transpose()?;
        let path = self.device.path.clone();
        let pool = self.owner.as_ref().map(|owner| owner.pool.clone());
        let marker = self.marker()?;
        let missed = marker.as_ref().and_then(|(_, marker)| marker.in_use.clone());
        let is_ours = |found: &str| missed.as_deref().is_none_or(|missed| missed == found);
        let mut found = None;
        let lost = match self.open() {
            Ok(recovery) if is_ours(&digits(recovery.id())) => {
                found = Some(recovery.found().clone());
                let discarded = block_on(recovery.discard());
                drop(discarded.map_err(|error| LogError::Finish { path: path.clone(), error })?);
                None
            }
            // What lies there is somebody else's.
            Ok(_) => Some("holds another log now".to_string()),
            Err(error) => match lost(&error).filter(|_| missed.is_some()) {
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
        let beyond = found.and_then(|found| beyond(&path, &found));
        Ok(LogDiscarded { path, records, beyond_records, beyond, lost, pool })
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
        let metadata = std::fs::metadata(&owner.origin).map_err(system)?;
        let holder = Owner {
            pid: std::process::id(),
            pool: owner.pool.clone(),
            origin: owner.origin.clone(),
            mountpoint: PathBuf::new(),
        };
        let identity = (metadata.dev(), metadata.ino());
        let taken = PoolLock::take(paths, &holder, identity);
        taken.map_err(|_| LogError::InUse { pool: owner.pool.clone() }.into())
    }

    fn open(&self) -> Result<Recovery, LogError> {
        let path = self.device.path.clone();
        if !path.exists() {
            return Err(LogError::NoTarget { text: path.display().to_string() });
        }
        // As it is: looking at a log makes nothing and changes nothing.
        let device = DevicePath { path: path.clone(), size_bytes: None };
        let file = device.open(DeviceRole::Log).map_err(|error| match (error, &self.owner) {
            (DeviceOpenError::Device { error: DeviceError::InUse { .. }, .. }, Some(owner)) => {
                LogError::InUse { pool: owner.pool.clone() }
            }
            (error, _) => error.into(),
        })?;
        recover(path, file)
    }

    /// The same though somebody uses it.
    fn look(&self) -> Result<Recovery, LogError> {
        let path = self.device.path.clone();
        let device = DevicePath { path: path.clone(), size_bytes: None };
        recover(path, device.look(DeviceRole::Log)?)
    }
}

fn recover(path: PathBuf, file: FileDevice) -> Result<Recovery, LogError> {
    check_size(&path, &file)?;
    let state = |error| LogError::State { path: "/dev/urandom".into(), error };
    let (log, seed) = (random_bytes().map_err(state)?, random_bytes().map_err(state)?);
    let opening = Opening { pool: [0; 16], log, seed, force: true };
    let opened = block_on(Log::open(Arc::new(file), opening, Options::default(), clock()));
    opened.map_err(|error| LogError::Contents { path, error })
}

/// What is wrong with a log that cannot be had any more, with its verb.
fn lost(error: &LogError) -> Option<String> {
    Some(match error {
        LogError::NoTarget { .. } => "is not there".to_string(),
        LogError::Contents { error, .. } => match error {
            OpenError::NoLog => "holds no log any more".to_string(),
            OpenError::Foreign { found } => format!("holds {found} now"),
            OpenError::TooSmall { .. } => "has become shorter".to_string(),
            OpenError::Damaged => "is damaged".to_string(),
            _ => return None,
        },
        _ => return None,
    })
}

/// The name by which the log of a pool without settings knows it.
pub(crate) fn unnamed(origin: &Path) -> Vec<u8> {
    [b"@", origin.as_os_str().as_encoded_bytes()].concat()
}

fn no_target(text: &OsStr) -> ControlError {
    LogError::NoTarget { text: text.to_string_lossy().into_owned() }.into()
}

/// All that is noted of logs. What cannot be read is left out.
fn markers(paths: &Paths) -> Result<Vec<(PathBuf, Marker)>, ControlError> {
    let directory = paths.state_directory();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(ControlError::System { path: directory.to_owned(), error });
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let of_logs = paths.filter(|path| path.to_string_lossy().ends_with(".log.json"));
    Ok(of_logs.filter_map(|path| Some((path.clone(), Marker::load(&path).ok()??))).collect())
}
