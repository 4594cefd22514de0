//! Who uses a file or block device that cannot be had.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};

use crate::mountinfo::mounts;
use crate::process::is_ending;

/// A user that cannot be told.
const UNKNOWN: &str = "another process, or something else here";

/// Who uses a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceUser {
    /// The process, if it is one.
    pub pid: Option<u32>,
    /// In words.
    pub name: String,
}

impl DeviceUser {
    /// The one that keeps others from using the device at `path`, as far as that can be found out.
    pub fn of(path: &Path) -> DeviceUser {
        let known = mount_of_device(path).or_else(|| DeviceUser::with_lock(path)).or_else(|| {
            // Who uses the file behind a loop device, or behind a partition of one, uses it too.
            let mut behind = ["loop/backing_file", "../loop/backing_file"].into_iter();
            let file = behind.find_map(|name| block_device_says(path, name))?;
            DeviceUser::with_lock(Path::new(&file))
        });
        known.unwrap_or(DeviceUser { pid: None, name: UNKNOWN.to_string() })
    }

    /// Whether it may let go of the device in a moment: a process that was killed, or one that
    /// cannot be told, as with block devices.
    pub fn may_be_ending(&self) -> bool {
        self.pid.map_or(self.name == UNKNOWN, is_ending)
    }

    /// The process that holds a lock on `path`.
    fn with_lock(path: &Path) -> Option<DeviceUser> {
        let pid = holder_of_lock(&fs::read_to_string("/proc/locks").ok()?, path)?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = format!("process {pid} ({})", name.trim_end());
        Some(DeviceUser { pid: Some(pid), name })
    }

    /// The loop device `device`, which shows a file as a disk.
    pub fn loop_device(device: &str) -> DeviceUser {
        let mounted = mount_of_device(Path::new(device));
        let mounted = mounted.map_or(String::new(), |user| format!(" ({})", user.name));
        DeviceUser { pid: None, name: format!("loop device {device}{mounted}") }
    }
}

/// What the kernel says in `/sys` of the block device at `path`, in the file called `name`.
pub(crate) fn block_device_says(path: &Path, name: &str) -> Option<String> {
    let metadata = fs::metadata(path).ok().filter(|it| it.file_type().is_block_device())?;
    let (major, minor) = (major(metadata.rdev()), minor(metadata.rdev()));
    let said = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{name}")).ok()?;
    Some(said.trim_end().to_string())
}

/// The file system on a block device.
fn mount_of_device(path: &Path) -> Option<DeviceUser> {
    let metadata = fs::metadata(path).ok().filter(|it| it.file_type().is_block_device())?;
    let mount = mounts().ok()?.into_iter().find(|mount| mount.device == metadata.rdev())?;
    let name = format!("the file system mounted at {}", mount.mountpoint.display());
    Some(DeviceUser { pid: None, name })
}

/// The process that holds a lock on `path`, by a `/proc/locks`:
/// `NUMBER: KIND MODE TYPE PID MAJOR:MINOR:INODE START END`.
fn holder_of_lock(locks: &str, path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let (major, minor) = (major(file.dev()), minor(file.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_flock = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?.parse().ok()?;
        (is_flock && fields.next() == Some(&*place)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("held");
        let file = fs::File::create(&path).expect("made");
        assert_eq!(DeviceUser::of(&path).name, UNKNOWN);
        file.lock().expect("nobody else has it");
        let user = DeviceUser::of(&path);
        let own = std::process::id();
        assert_eq!(user.pid, Some(own));
        assert!(user.name.starts_with(&format!("process {own} (")), "{}", user.name);
        let locks = "1: FLOCK  ADVISORY  WRITE 12 fe:00:99 0 EOF\n2: nonsense\n";
        assert_eq!(holder_of_lock(locks, &path), None);
    }
}
