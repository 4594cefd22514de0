use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::LogError;
use super::inspect::{LogTarget, PoolOfLog};
use super::marker::{Marker, digits};
use crate::deadline::within;
use crate::descriptor;
use crate::device_path::{DevicePath, LOOK_MAX, is_same};
use crate::error::ControlError;
use crate::origin_id::OriginId;
use crate::paths::Paths;
use crate::pool_file::PoolFile;
use crate::protocol::Descriptor;
use crate::target::find_mount;

/// What is noted of a log, and where.
pub(super) type Noted = (PathBuf, Marker);

impl LogTarget {
    /// Finds out what `text` names: a pool, a mount point or a path under it, an origin, else a
    /// device.
    ///
    /// # Errors
    /// When it names none of them, or several origins have noted a log under it.
    pub fn find(paths: &Paths, text: &OsStr) -> Result<LogTarget, ControlError> {
        let markers = markers(paths.state_directory())?;
        let named = text.to_str().filter(|name| !name.contains('/'));
        if let Some(pool) = named.filter(|name| paths.settings(name).exists()) {
            return of_pool(paths, pool, markers);
        }
        let path = std::path::absolute(Path::new(text)).unwrap_or_else(|_| text.into());
        let stands = path.clone();
        let kind = within(LOOK_MAX, move || stands.metadata().map(|found| found.file_type()));
        // What hangs is no origin and no mount that anybody could use.
        let is_directory = matches!(&kind, Some(Ok(kind)) if kind.is_dir());
        let mounted = kind.is_some().then(|| mounted_at(paths, &path, named.is_some())).flatten();
        if let Some(mounted) = mounted {
            if mounted.settings.is_some() {
                return of_pool(paths, &mounted.pool, markers);
            }
            let marker_path = unnamed_marker(paths, &mounted.origin);
            if let Some(place) = markers.iter().position(|(path, _)| *path == marker_path) {
                return of_marker(paths, text, &markers, place, Some(&mounted.origin));
            }
        }
        let names = |marker: &Marker| named.is_some_and(|name| marker.pool == name);
        let is_origin = |marker: &Marker| match &marker.origin_id {
            _ if !is_directory => marker.origin == path,
            Some(id) => id.is_at(&path),
            None => is_same(&marker.origin, &path),
        };
        let leads = |marker: &Marker| {
            is_same(&marker.path, &path) || is_origin(marker) || marker.origin == path
        };
        let places = |is: &dyn Fn(&Marker) -> bool| -> Vec<usize> {
            (0..markers.len()).filter(|place| is(&markers[*place].1)).collect()
        };
        let mut found = places(&|marker| names(marker) || leads(marker));
        if found.len() > 1 && places(&names).is_empty() {
            // Of all that lay at this path, or had this origin, one may hold something.
            let in_use = places(&|marker| leads(marker) && marker.in_use.is_some());
            let origins = places(&|marker| is_origin(marker) && marker.in_use.is_some());
            if in_use.len() == 1 {
                found = in_use;
            } else if origins.len() == 1 {
                found = origins;
            } else if in_use.is_empty() && !is_directory {
                found.clear();
            }
        }
        let is_device = !is_directory && kind.is_none_or(|found| found.is_ok());
        match found[..] {
            [place] => of_marker(paths, text, &markers, place, is_directory.then_some(&*path)),
            [] if is_device => {
                let device = DevicePath { path: path.clone(), size_bytes: None };
                let given_up = given_up(&markers);
                let target = LogTarget { device, owner: None, marker_path: None, given_up };
                // It may lie elsewhere than it did when it was noted.
                let id = target.look().ok().map(|log| digits(log.id()));
                let is_it = |(_, marker): &Noted| id.is_some() && marker.in_use == id;
                Ok(match markers.iter().find(|noted| is_it(noted)) {
                    Some(noted) => {
                        let device = target.device;
                        let found = LogTarget::of_noted(paths, noted, &noted.1.origin, &markers);
                        LogTarget { device, ..found }
                    }
                    None => target,
                })
            }
            [] => Err(no_target(text)),
            _ => Err(ambiguous(text, found.iter().map(|place| &markers[*place].1)).into()),
        }
    }

    /// The log of which a note tells, for the directory `origin`.
    pub(super) fn of_noted(
        paths: &Paths,
        (marker_path, marker): &Noted,
        origin: &Path,
        all: &[Noted],
    ) -> LogTarget {
        let (pool, path) = (marker.pool.clone(), marker.path.clone());
        let (name, lock_name) = match *marker_path == paths.log_marker(&pool) {
            true => (pool.as_bytes().to_vec(), pool.clone()),
            false => (unnamed(&marker.origin), unnamed_id(&marker.origin)),
        };
        let device = DevicePath { path, size_bytes: None };
        let owner = Some(PoolOfLog { pool, name, origin: origin.to_owned(), lock_name });
        let (marker_path, given_up) = (Some(marker_path.clone()), given_up(all));
        LogTarget { device, owner, marker_path, given_up }
    }

    /// The same log for the directory `origin`, wherever its origin was when it was noted.
    #[must_use]
    pub fn for_origin(mut self, paths: &Paths, origin: &Path) -> LogTarget {
        let origin = origin.canonicalize().unwrap_or_else(|_| origin.to_owned());
        let owner = self.owner.take().unwrap_or_else(|| PoolOfLog {
            pool: origin.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            name: unnamed(&origin),
            origin: PathBuf::new(),
            lock_name: unnamed_id(&origin),
        });
        let marker_path = self.marker_path.take().unwrap_or_else(|| unnamed_marker(paths, &origin));
        let owner = Some(PoolOfLog { origin, ..owner });
        LogTarget { owner, marker_path: Some(marker_path), ..self }
    }
}

/// The pool that is mounted at a path, or whose daemon died there. A bare name is taken for a mount
/// point, but not for a path under one.
fn mounted_at(paths: &Paths, path: &Path, is_bare: bool) -> Option<Descriptor> {
    if let (false, Ok(Some((client, _)))) = (is_bare, find_mount(paths, path)) {
        return Some(client.descriptor().clone());
    }
    let mut known = descriptor::load_all(paths).unwrap_or_default();
    known.retain(|known| known.mountpoint == path);
    if known.len() == 1 { known.pop() } else { None }
}

/// The log of a pool with settings.
fn of_pool(paths: &Paths, pool: &str, markers: Vec<Noted>) -> Result<LogTarget, ControlError> {
    let settings = PoolFile::load(paths, pool)?.settings;
    let marker_path = paths.log_marker(pool);
    let marker = markers.iter().find(|(path, _)| *path == marker_path);
    let device = match (settings.log, marker) {
        (_, Some((_, marker))) if marker.in_use.is_some() => {
            DevicePath { path: marker.path.clone(), size_bytes: None }
        }
        (Some(device), _) => device,
        (None, _) => return Err(no_target(pool.as_ref())),
    };
    let (pool, name) = (pool.to_string(), pool.as_bytes().to_vec());
    let lock_name = pool.clone();
    let owner = Some(PoolOfLog { pool, name, origin: settings.origin, lock_name });
    let given_up = given_up(&markers);
    Ok(LogTarget { device, owner, marker_path: Some(marker_path), given_up })
}

/// The log of which one of the markers tells, found by a directory, which may be its origin.
fn of_marker(
    paths: &Paths,
    text: &OsStr,
    markers: &[Noted],
    place: usize,
    directory: Option<&Path>,
) -> Result<LogTarget, ControlError> {
    let marker = &markers[place].1;
    let has_it = |other: &&Noted| other.1.in_use.is_some() && is_same(&other.1.path, &marker.path);
    if marker.in_use.is_none()
        && let Some((_, user)) = markers.iter().find(has_it)
    {
        // What lies there by now is of another origin.
        return Err(ambiguous(text, [marker, user].into_iter()).into());
    }
    let is_it = |path: &&Path| marker.origin_id.as_ref().is_some_and(|id| id.is_at(path));
    let origin = directory.filter(is_it).and_then(|path| path.canonicalize().ok());
    let origin = origin.unwrap_or_else(|| marker.origin.clone());
    Ok(LogTarget::of_noted(paths, &markers[place], &origin, markers))
}

fn given_up(markers: &[Noted]) -> Vec<String> {
    markers.iter().flat_map(|(_, marker)| marker.given_up.clone()).collect()
}

/// The name by which the log of a pool without settings knows it.
pub(crate) fn unnamed(origin: &Path) -> Vec<u8> {
    [b"@", origin.as_os_str().as_encoded_bytes()].concat()
}

/// The same, as a name of files.
fn unnamed_id(origin: &Path) -> String {
    let number = u128::from_le_bytes(crate::caches::id_of(origin.as_os_str().as_encoded_bytes()));
    format!("@{number:032x}")
}

/// Where is noted what is known of the log of a pool without settings.
pub(crate) fn unnamed_marker(paths: &Paths, origin: &Path) -> PathBuf {
    paths.log_marker(&unnamed_id(origin))
}

/// What is noted of logs of an origin, beside what is noted at `marker_path`.
pub(super) fn of_same_origin(marker_path: &Path, id: &OriginId) -> Vec<Marker> {
    let noted = marker_path.parent().and_then(|directory| markers(directory).ok());
    let is_it = |(path, marker): &Noted| {
        path != marker_path
            && marker.origin_id.as_ref().is_some_and(|noted| noted.digest() == id.digest())
    };
    noted.into_iter().flatten().filter(is_it).map(|(_, marker)| marker).collect()
}

/// The origin that may lack what a log holds, if that is noted beside `marker_path`.
pub(super) fn origin_of(marker_path: &Path, id: &str) -> Option<PathBuf> {
    let noted = markers(marker_path.parent()?).ok()?;
    let is_it = |(_, marker): &Noted| marker.in_use.as_deref() == Some(id);
    noted.into_iter().find(is_it).map(|(_, marker)| marker.origin)
}

/// Why a pool cannot do without its origin, which is not at its place `origin`: a log waits for it.
pub(crate) fn waits_for_missing(marker_path: &Path, origin: &Path) -> Option<LogError> {
    let marker = Marker::load(marker_path).ok()??;
    let (path, origin) = (marker.path, origin.to_owned());
    marker.in_use.map(|_| LogError::OriginGone { path, origin })
}

/// The log of a pool with settings that may hold what the origin does not.
pub(crate) fn may_hold(paths: &Paths, pool: &str) -> Option<PathBuf> {
    let marker = Marker::load(&paths.log_marker(pool)).ok()??;
    marker.in_use.map(|_| marker.path)
}

fn no_target(text: &OsStr) -> ControlError {
    LogError::NoTarget { text: text.to_string_lossy().into_owned() }.into()
}

fn ambiguous<'a>(text: &OsStr, markers: impl Iterator<Item = &'a Marker>) -> LogError {
    let line = |marker: &Marker| {
        let (origin, path) = (marker.origin.display(), marker.path.display());
        let holds = match marker.in_use {
            Some(_) => "may hold writes that the origin lacks",
            None => "noted as empty",
        };
        format!("origin {origin}, log {path} ({holds})")
    };
    let logs = markers.map(line).collect();
    LogError::Ambiguous { text: text.to_string_lossy().into_owned(), logs }
}

/// All that is noted of logs. What cannot be read is left out.
pub(super) fn markers(directory: &Path) -> Result<Vec<Noted>, LogError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LogError::State { path: directory.to_owned(), error }),
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let of_logs = paths.filter(|path| path.to_string_lossy().ends_with(".log.json"));
    Ok(of_logs.filter_map(|path| Some((path.clone(), Marker::load(&path).ok()??))).collect())
}
