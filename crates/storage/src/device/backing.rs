//! The files that loop devices stand for: whoever uses one of both uses the other one too.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, FlockOperation, Mode, OFlags, Stat, major, minor, open};

use super::DeviceError;
use super::file::lock;

/// What the kernel says of block devices.
const BLOCK_DEVICES: &str = "/sys/block";

/// Locks the file behind a loop device for as long as what is returned is open. `None` when it is
/// no loop device, or its file cannot be reached.
///
/// # Errors
/// When somebody uses that file.
pub(super) fn lock_backing(device: Dev) -> Result<Option<OwnedFd>, DeviceError> {
    let known = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let is_partition = known.join("partition").exists();
    let looped = if is_partition { known.join("../loop") } else { known.join("loop") };
    let Ok(path) = fs::read_to_string(looped.join("backing_file")) else { return Ok(None) };
    let path = path.trim_end_matches('\n');
    let is_zero = |name| fs::read_to_string(looped.join(name)).is_ok_and(|text| text.trim() == "0");
    // Several may lie side by side in one file.
    let operation = match is_partition || !is_zero("offset") || !is_zero("sizelimit") {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    let Ok(file) = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return Ok(None);
    };
    match lock(&file, path, operation) {
        Err(error @ DeviceError::InUse { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, path, "the file behind a loop device cannot be locked");
            Ok(None)
        }
        Ok(()) => Ok(Some(file)),
    }
}

/// The loop device that stands for a file, if there is one.
pub(super) fn loop_of(file: &Stat) -> Option<PathBuf> {
    let is_it = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (file.st_dev, file.st_ino))
    };
    fs::read_dir(BLOCK_DEVICES).ok()?.filter_map(Result::ok).find_map(|entry| {
        let path = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        is_it(Path::new(path.trim_end_matches('\n')))
            .then(|| Path::new("/dev").join(entry.file_name()))
    })
}
