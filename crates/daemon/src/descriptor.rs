use std::fs;
use std::io;

use crate::error::ControlError;
use crate::paths::{Paths, replace_file};
use crate::protocol::Descriptor;
use crate::socket::listen;

/// The files that say that a daemon is there: its descriptor and its socket. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Announced {
    paths: Paths,
    pool: String,
}

impl Announced {
    /// Sees whether the files can be made. Whoever calls this holds the pool's lock.
    pub fn check(paths: &Paths, pool: &str) -> io::Result<()> {
        replace_file(&paths.descriptor(pool), b"", 0o600)?;
        drop(listen(&paths.socket(pool))?);
        clear(paths, pool);
        Ok(())
    }

    /// Writes the descriptor. Whoever calls this holds the pool's lock.
    pub fn new(paths: &Paths, descriptor: &Descriptor) -> io::Result<Announced> {
        let announced = Announced { paths: paths.clone(), pool: descriptor.pool.clone() };
        let text = serde_json::to_vec_pretty(descriptor)?;
        replace_file(&paths.descriptor(&descriptor.pool), &text, 0o600)?;
        Ok(announced)
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        clear(&self.paths, &self.pool);
    }
}

/// Removes what a daemon has left behind that was killed.
pub(crate) fn clear(paths: &Paths, pool: &str) {
    // What is not there need not be removed; what cannot be removed is found to be stale by all.
    let _ = fs::remove_file(paths.descriptor(pool));
    let _ = fs::remove_file(paths.socket(pool));
}

/// What the daemon of a pool has said of itself, whether it still lives or not.
pub(crate) fn load(paths: &Paths, pool: &str) -> Option<Descriptor> {
    let text = fs::read(paths.descriptor(pool)).ok()?;
    serde_json::from_slice(&text).ok().filter(|descriptor: &Descriptor| descriptor.pool == pool)
}

/// All descriptors, those of dead daemons included, by pool.
///
/// # Errors
/// When the runtime directory is there and cannot be read.
pub(crate) fn load_all(paths: &Paths) -> Result<Vec<Descriptor>, ControlError> {
    let directory = paths.runtime_directory();
    let system = |error| ControlError::System { path: directory.to_owned(), error };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(system(error)),
    };
    let mut descriptors = Vec::new();
    for entry in entries {
        let name = entry.map_err(system)?.file_name();
        let pool = name.to_str().and_then(|name| name.strip_suffix(".json"));
        descriptors.extend(pool.and_then(|pool| load(paths, pool)));
    }
    descriptors.sort_by(|a, b| a.pool.cmp(&b.pool));
    Ok(descriptors)
}
