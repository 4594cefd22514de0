use std::path::PathBuf;

use crate::checks;
use crate::client::Client;
use crate::descriptor;
use crate::error::ControlError;
use crate::paths::Paths;
use crate::pool_file::{NewPool, PoolFile, PoolFileError};
use crate::protocol::Descriptor;

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
        if !Client::new(paths, found.clone()).is_alive() {
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
                });
                rows.last_mut().expect("a row was added")
            }
        };
        row.mountpoint = Some(found.mountpoint.clone());
        row.daemon = Some(found);
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
    if let Some(found) = mounted(paths, &pool.name) {
        return Err(ControlError::Mounted { pool: found.pool, mountpoint: found.mountpoint });
    }
    let origin = checks::new_origin(&pool.origin)?;
    let mountpoint = pool.mountpoint.as_ref().map(std::path::absolute).transpose();
    let mountpoint = mountpoint.map_err(|error| ControlError::System {
        path: pool.mountpoint.clone().unwrap_or_default(),
        error,
    })?;
    Ok(PoolFile::create(paths, &NewPool { origin, mountpoint, ..pool.clone() })?.path)
}

/// Removes a pool's settings file. The origin is not touched.
///
/// # Errors
/// When there is no such pool or it is mounted.
pub fn destroy_pool(paths: &Paths, name: &str) -> Result<(), ControlError> {
    if let Some(found) = mounted(paths, name) {
        return Err(ControlError::Mounted { pool: found.pool, mountpoint: found.mountpoint });
    }
    let path = paths.settings(name);
    match path.exists() {
        // A file with a mistake in it can be removed as well.
        true => std::fs::remove_file(&path).map_err(|error| ControlError::System { path, error }),
        false => Err(PoolFile::load(paths, name).err().map_or_else(
            || ControlError::Unknown { text: name.to_string() },
            ControlError::Settings,
        )),
    }
}

/// The daemon that serves a pool now.
fn mounted(paths: &Paths, pool: &str) -> Option<Descriptor> {
    let found = descriptor::load(paths, pool)?;
    Client::new(paths, found.clone()).is_alive().then_some(found)
}
