use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::executor::block_on;
use warmfront::flash::{AddError, Opening};

use super::lives::{Lives, id_of};
use super::shelf::{
    ANSWER_MAX, CacheError, Found, KnownAs, PATIENCE, check_no_log, open, refused, silent,
};
use crate::deadline::within;
use crate::device_open::Top;
use crate::device_path::DevicePath;
use crate::probe::Probe;

/// The cache devices of a pool that is not mounted.
pub(crate) struct StoredCaches {
    known_as: KnownAs,
    tops: Vec<Top>,
}

impl StoredCaches {
    /// Those of the pool that is known as that, and seen at `tops`.
    pub fn new(known_as: KnownAs, tops: Vec<Top>) -> StoredCaches {
        StoredCaches { known_as, tops }
    }

    /// Sees whether a mount could use a device. One that is to be overwritten by `force` is wiped,
    /// so that the mount does so; apart from that nothing is changed.
    pub fn check(&self, device: &DevicePath, force: bool) -> Result<(), CacheError> {
        let is_ours = self.look(device, force)?;
        if force && !is_ours && device.length().is_some() {
            let asked = device.clone();
            let wiped = within(ANSWER_MAX, move || asked.wipe());
            let path = device.path.clone();
            wiped
                .ok_or_else(|| silent(device))?
                .map_err(|error| CacheError::Wipe { path, error })?;
        }
        Ok(())
    }

    /// Wipes a device that the pool has no longer, so that nobody takes it for one that is up to
    /// date. Says why it is not, if that is so.
    pub fn wipe(&self, device: &DevicePath) -> Option<String> {
        let device = DevicePath { size_bytes: None, ..device.clone() };
        let why = match self.look(&device, false) {
            Ok(true) => {
                let wiped = within(ANSWER_MAX, move || device.wipe());
                wiped.map_or(Some("it does not answer".to_string()), |wiped| {
                    Some(wiped.err()?.to_string())
                })
            }
            // It is not there, or somebody else's by now.
            Ok(false) => None,
            Err(CacheError::Open(error)) if error.is_missing() => None,
            Err(CacheError::Add { error: AddError::Device(error), .. }) => Some(error.to_string()),
            Err(CacheError::Add { .. }) => None,
            Err(error) => Some(error.to_string()),
        };
        why.map(|why| format!("what it holds could not be wiped ({why})"))
    }

    /// Looks at a device as a mount does, and changes nothing. Says whether it is a cache of the
    /// pool.
    pub fn look(&self, device: &DevicePath, force: bool) -> Result<bool, CacheError> {
        let KnownAs { name, called, state_path, paths } = &self.known_as;
        let mut probe = Probe::start(&device.path).ok();
        let until = std::time::Instant::now() + ANSWER_MAX;
        if !probe.as_mut().is_none_or(|probe| probe.answers(until)) {
            return Err(silent(device));
        }
        check_no_log(paths, device)?;
        let pool = id_of(name);
        let lives = Lives::load(state_path.clone(), pool, called.clone());
        let (tops, asked) = (self.tops.clone(), device.clone());
        let found = within(ANSWER_MAX, move || {
            let found = open(&asked, &tops, &lives, force);
            found.map(|found| (found, lives))
        });
        let found = found.ok_or_else(|| silent(device))?;
        let (Found { file, length_before, .. }, lives) =
            found.map_err(|error| error.with_pool(paths))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let opening = Opening {
            pool,
            device: [0; 16],
            salt: [0; 16],
            life: 0,
            lives: None,
            wall_seconds: now.as_secs(),
            force,
            empty: false,
        };
        let seen = block_on(opening.check(&file));
        drop(file);
        let undone = device.clone();
        within(PATIENCE, move || undone.undo(length_before));
        seen.map_err(|error| refused(&device.path, error, &lives))
    }
}
