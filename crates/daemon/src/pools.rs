use std::path::{Path, PathBuf};

use crate::caches::{CacheError, KnownAs, StoredCaches};
use crate::checks;
use crate::client::Client;
use crate::descriptor;
use crate::device_open::{DeviceOpenError, tops};
use crate::device_path::{DevicePath, DeviceRole, exists};
use crate::error::ControlError;
use crate::logs::{self, GivenUp, LogError, LogTarget, MountProgress, Tell};
use crate::mountinfo::resolve_without_touching;
use crate::paths::{Paths, remove_file};
use crate::pool_file::{NewPool, PoolFile, PoolFileError, Settings};
use crate::protocol::{Changed, Descriptor};
use crate::warmth::SnapshotFiles;

/// A pool, as `pool list` shows it.
#[derive(Debug, Clone)]
pub struct PoolRow {
    /// Its name.
    pub name: String,
    /// The origin's directory.
    pub origin: PathBuf,
    /// Where it is mounted, or will be unless told otherwise.
    pub mountpoint: Option<PathBuf>,
    /// Its settings file, if it has one.
    pub settings: Option<PathBuf>,
    /// Its daemon, if it is mounted.
    pub daemon: Option<Descriptor>,
    /// Its log, if that may hold what the origin lacks and no daemon uses it.
    pub log_to_replay: Option<PathBuf>,
}

/// All pools, and what is wrong with the settings of others.
#[derive(Debug, Default)]
pub struct Pools {
    /// Those that have settings and those that are mounted, by name.
    pub rows: Vec<PoolRow>,
    /// Settings files that cannot be used; their pools are left out unless they are mounted.
    pub faults: Vec<PoolFileError>,
}

/// All pools.
///
/// # Errors
/// When a directory of settings or of daemons cannot be read.
pub fn list_pools(paths: &Paths) -> Result<Pools, ControlError> {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for name in PoolFile::names(paths)? {
        match PoolFile::load(paths, &name) {
            Ok(file) => rows.push(PoolRow {
                log_to_replay: logs::may_hold(paths, &name),
                name,
                origin: file.settings.origin,
                mountpoint: file.settings.mountpoint,
                settings: Some(file.path),
                daemon: None,
            }),
            Err(fault) => faults.push(fault),
        }
    }
    for found in descriptor::load_all(paths)? {
        if !Client::new(paths, found.clone()).is_alive_or_ends() {
            continue;
        }
        let row = match rows.iter_mut().find(|row| row.name == found.pool) {
            Some(row) => row,
            None => {
                rows.push(PoolRow {
                    name: found.pool.clone(),
                    origin: found.origin.clone(),
                    mountpoint: None,
                    settings: None,
                    daemon: None,
                    log_to_replay: None,
                });
                rows.last_mut().expect("a row was added")
            }
        };
        row.mountpoint = Some(found.mountpoint.clone());
        row.daemon = Some(found);
        row.log_to_replay = None;
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Pools { rows, faults })
}

/// Makes a pool: writes its settings file and returns where it is.
///
/// # Errors
/// When there is such a pool, mounted or not, the origin is no directory that can be read, or the
/// settings are wrong; then nothing is written.
pub fn create_pool(paths: &Paths, pool: &NewPool) -> Result<PathBuf, ControlError> {
    if let Some(found) = serving(paths, &pool.name) {
        return Err(ControlError::Mounted { pool: found.pool, mountpoint: found.mountpoint });
    }
    let origin = checks::new_origin(&pool.origin)?;
    let mountpoint = pool.mountpoint.as_ref().map(std::path::absolute).transpose();
    let mountpoint = mountpoint.map_err(|error| ControlError::System {
        path: pool.mountpoint.clone().unwrap_or_default(),
        error,
    })?;
    let pool = pool.clone();
    let caches = pool.caches.into_iter().map(DevicePath::absolute).collect();
    let log = pool.log.map(DevicePath::absolute);
    Ok(PoolFile::create(paths, &NewPool { origin, mountpoint, caches, log, ..pool })?.path)
}

/// The devices that a pool had, which are as they were.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Destroyed {
    /// Cache devices.
    pub caches: Vec<PathBuf>,
    /// The log device.
    pub log: Option<PathBuf>,
    /// What was given up, if something was.
    pub given_up: Option<GivenUp>,
}

/// Removes a pool: its settings, and what was noted of it. Origin and devices are not touched,
/// unless `force` gives up what its log holds; `tell` is told how far that is.
///
/// # Errors
/// When there is no such pool, it is mounted, or its log may hold what the origin does not.
pub fn destroy_pool(
    paths: &Paths,
    name: &str,
    force: bool,
    tell: Tell<'_>,
) -> Result<Destroyed, ControlError> {
    if let Some(found) = mounted(paths, name) {
        return Err(ControlError::Mounted { pool: found.pool, mountpoint: found.mountpoint });
    }
    let path = paths.settings(name);
    let loaded = PoolFile::load(paths, name);
    if !path.exists() {
        return Err(loaded.err().map_or_else(
            || ControlError::Unknown { text: name.to_string() },
            ControlError::Settings,
        ));
    }
    let given_up = logs::forget(paths, name, force, tell)?;
    let caches = paths.caches(name);
    let remove = |path: &Path| {
        remove_file(path).map_err(|error| ControlError::Remove { path: path.to_owned(), error })
    };
    SnapshotFiles::new(&caches)
        .remove()
        .map_err(|error| ControlError::Remove { path: caches.clone(), error })?;
    // The settings come last: until then the same command can be given again. A file with a
    // mistake in it can be removed as well.
    let running = [paths.socket(name), paths.descriptor(name), paths.log(name)];
    for path in [&caches].into_iter().chain(&running).chain([&path]) {
        remove(path)?;
    }
    let Ok(PoolFile { settings, .. }) = loaded else {
        return Ok(Destroyed { given_up, ..Destroyed::default() });
    };
    // One that hangs is not spoken of.
    let there = |device: DevicePath| Some(device.path).filter(|path| exists(path));
    Ok(Destroyed {
        caches: settings.caches.into_iter().filter_map(there).collect(),
        log: settings.log.and_then(there),
        given_up,
    })
}

/// The name of a pool that is named by itself or by its mount point.
pub fn pool_name(paths: &Paths, pool: &str) -> String {
    mounted(paths, pool).map_or_else(|| pool.to_string(), |found| found.pool)
}

/// Gives a pool a cache device: at once if it is mounted, and for good if it has a settings file.
/// Says how long it lasts, and what was found on a device that is in use now.
///
/// # Errors
/// When there is no such pool, or it cannot use the device.
pub fn add_cache(
    paths: &Paths,
    pool: &str,
    device: DevicePath,
    force: bool,
) -> Result<(Changed, Option<String>), ControlError> {
    let device = device.absolute();
    if let Some(found) = mounted(paths, pool) {
        return Client::new(paths, found).add_cache(device, force);
    }
    let file = stored(paths, pool)?;
    let mut caches = file.settings.caches.clone();
    if caches.iter().any(|known| known.is_at(&device.path)) {
        return Err(CacheError::Present { path: device.path }.into());
    }
    stored_caches(paths, &file).check(&device, force)?;
    caches.push(device);
    save_caches(file, &caches)
}

/// The cache devices of a pool that is not mounted.
fn stored_caches(paths: &Paths, file: &PoolFile) -> StoredCaches {
    let Settings { origin, mountpoint, .. } = &file.settings;
    let origin = origin.canonicalize().unwrap_or_else(|_| origin.clone());
    let known_as = KnownAs::of_pool(paths, &file.name, &origin);
    StoredCaches::new(known_as, tops(&origin, mountpoint.as_deref()))
}

/// Whether a device lies outside of what a pool shows.
fn check_outside(
    file: &PoolFile,
    role: DeviceRole,
    device: &DevicePath,
) -> Result<(), DeviceOpenError> {
    let Settings { origin, mountpoint, .. } = &file.settings;
    device.check_outside(role, &tops(origin, mountpoint.as_deref()))
}

/// Takes a cache device from a pool, as [`add_cache`] gives it. Says how long it lasts, and what
/// else there is to say of the device.
///
/// # Errors
/// When there is no such pool, or it has no such device.
pub fn remove_cache(
    paths: &Paths,
    pool: &str,
    path: &Path,
) -> Result<(Changed, Option<String>), ControlError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Some(found) = mounted(paths, pool) {
        return Client::new(paths, found).remove_cache(&path);
    }
    let file = stored(paths, pool)?;
    let mut caches = file.settings.caches.clone();
    let Some(at) = caches.iter().position(|known| known.is_at(&path)) else {
        let has: Vec<String> = caches.iter().map(ToString::to_string).collect();
        let has = if has.is_empty() { "none".to_string() } else { has.join(", ") };
        return Err(CacheError::Unknown { path, has }.into());
    };
    let removed = caches.remove(at);
    let stored = stored_caches(paths, &file);
    let (changed, _) = save_caches(file, &caches)?;
    Ok((changed, stored.wipe(&removed)))
}

fn save_caches(
    file: PoolFile,
    caches: &[DevicePath],
) -> Result<(Changed, Option<String>), ControlError> {
    let path = file.path.clone();
    file.set_caches(caches)?;
    Ok((Changed::Saved { file: path }, None))
}

/// Gives a pool a log device: at once if it is mounted, and for good if it has a settings file.
/// Says how long it lasts, and what was found on a device that is in use now.
///
/// # Errors
/// When there is no such pool, it has a log device, or it cannot use this one.
pub fn add_log(
    paths: &Paths,
    pool: &str,
    device: DevicePath,
    force: bool,
    tell: &mut dyn FnMut(MountProgress),
) -> Result<(Changed, Vec<String>), ControlError> {
    let device = device.absolute();
    if let Some(found) = mounted(paths, pool) {
        return Client::new(paths, found).add_log(device, force, tell);
    }
    let file = stored(paths, pool)?;
    if let Some(known) = &file.settings.log {
        return Err(LogError::Present { path: known.path.clone() }.into());
    }
    check_outside(&file, DeviceRole::Log, &device).map_err(LogError::from)?;
    let path = file.path.clone();
    file.set_log(Some(&device))?;
    Ok((Changed::Saved { file: path }, Vec::new()))
}

/// Takes the log device from a pool, as [`add_log`] gives it.
///
/// # Errors
/// When there is no such pool, it has no such device, or that may hold what the origin does not.
pub fn remove_log(paths: &Paths, pool: &str, path: &Path) -> Result<Changed, ControlError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Some(found) = mounted(paths, pool) {
        return Client::new(paths, found).remove_log(&path);
    }
    let file = stored(paths, pool)?;
    if !file.settings.log.as_ref().is_some_and(|known| known.is_at(&path)) {
        let has = file.settings.log.as_ref().map_or("none".to_string(), ToString::to_string);
        return Err(LogError::Unknown { path, has }.into());
    }
    if LogTarget::find(paths, pool.as_ref())?.may_hold_something()? {
        return Err(LogError::Full { path, pool: pool.to_string() }.into());
    }
    let settings = file.path.clone();
    file.set_log(None)?;
    Ok(Changed::Saved { file: settings })
}

/// The daemon that serves a pool of this name now.
fn serving(paths: &Paths, pool: &str) -> Option<Descriptor> {
    descriptor::load(paths, pool).filter(|found| Client::new(paths, found.clone()).is_alive())
}

/// The daemon that serves a pool now, which may be named by its mount point. What is both a name
/// and a mount point is a name.
fn mounted(paths: &Paths, pool: &str) -> Option<Descriptor> {
    if descriptor::load(paths, pool).is_some() || paths.settings(pool).exists() {
        return serving(paths, pool);
    }
    let top = resolve_without_touching(Path::new(pool)).ok()?;
    let mut known = descriptor::load_all(paths).ok()?;
    known.retain(|found| found.mountpoint == top);
    known.into_iter().find(|found| Client::new(paths, found.clone()).is_alive())
}

/// The settings of a pool that is not mounted.
fn stored(paths: &Paths, pool: &str) -> Result<PoolFile, ControlError> {
    if pool.contains('/') {
        return Err(ControlError::Unknown { text: pool.to_string() });
    }
    Ok(PoolFile::load(paths, pool)?)
}
