use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::desk::Desk;
use crate::deadline::within;
use crate::device_path::{DevicePath, LOOK_MAX};

/// A log file that a mount makes. It is removed when this is dropped, unless it is kept: the mount
/// has come to nothing.
#[derive(Debug)]
pub(crate) struct NewLog {
    path: Option<PathBuf>,
    desk: Option<Arc<Desk>>,
}

impl NewLog {
    /// Of the device that is about to be opened.
    pub fn of(device: Option<&DevicePath>) -> NewLog {
        // Only what is certain not to be there: what hangs may be a log.
        let is_new = |path: &PathBuf| {
            let path = path.clone();
            let looked = within(LOOK_MAX, move || std::fs::symlink_metadata(path));
            looked.and_then(Result::err).is_some_and(|error| error.kind() == ErrorKind::NotFound)
        };
        let path = device.map(|device| device.path.clone()).filter(is_new);
        NewLog { path, desk: None }
    }

    /// It is noted as in use from here on.
    pub fn taken_in(&mut self, desk: &Arc<Desk>) {
        self.desk = Some(desk.clone());
    }

    /// It stays: the mount is there.
    pub fn keep(mut self) {
        self.path = None;
    }
}

impl Drop for NewLog {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        let desk = self.desk.take();
        within(LOOK_MAX, move || {
            // Nobody has been served, so that it holds nothing.
            let emptied = desk.map_or(Ok(()), |desk| desk.emptied());
            let removed = match emptied {
                Ok(()) => std::fs::remove_file(&path).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let (Err(error), true) = (removed, path.exists()) {
                tracing::warn!(path = %path.display(), error, "a file that was made stays");
            }
        });
    }
}
