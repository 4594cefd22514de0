use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warmfront::{ExactSize, SizeError, parse_size};

use crate::deadline::within;
use crate::device_user::block_device_says;
use crate::wire_path;

/// What is wiped at the start and at the end of a device that is removed: its superblocks, and what
/// else is looked at before a device is taken for a blank one. Bytes.
const WIPE_BYTES: usize = 128 << 10;

/// A cache or log device as people name it: `PATH`, or `PATH:SIZE` for a file that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePath {
    /// A file or a block device.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// The file is made with this size, or made longer; bytes.
    pub size_bytes: Option<u64>,
}

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceRole {
    /// It holds copies of records.
    Cache,
    /// It holds the intent log.
    Log,
}

/// Why a text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DevicePathError {
    /// Nothing stands before the size.
    #[error("`{text}` names no {role} device; write PATH, or PATH:SIZE such as {}", role.example())]
    NoPath {
        /// What was given.
        text: String,
        /// What the device is for.
        role: DeviceRole,
    },
    /// What stands behind the colon is no size.
    #[error("{role} device `{text}`: {error}")]
    Size {
        /// What was given.
        text: String,
        /// What the device is for.
        role: DeviceRole,
        /// What is wrong with it.
        error: SizeError,
    },
    /// It is too small.
    #[error(
        "{role} device `{text}` is too small: give at least {}",
        ExactSize(role.size_bytes_min())
    )]
    TooSmall {
        /// What was given.
        text: String,
        /// What the device is for.
        role: DeviceRole,
    },
}

impl DeviceRole {
    /// Least bytes of such a device.
    pub const fn size_bytes_min(self) -> u64 {
        match self {
            DeviceRole::Cache => 17 << 20,
            DeviceRole::Log => 17 << 20,
        }
    }

    fn example(self) -> &'static str {
        match self {
            DeviceRole::Cache => "/flash/cache:100G",
            DeviceRole::Log => "/flash/log:1G",
        }
    }
}

impl fmt::Display for DeviceRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            DeviceRole::Cache => "cache",
            DeviceRole::Log => "log",
        })
    }
}

impl DevicePath {
    /// Reads `PATH` or `PATH:SIZE`.
    ///
    /// # Errors
    ///
    /// A [`DevicePathError`], where there is no path, or a size that is none or too small.
    pub fn parse(text: &str, role: DeviceRole) -> Result<DevicePath, DevicePathError> {
        let given = || text.to_string();
        let (path, size_bytes) = match text.rsplit_once(':') {
            // A path may have a colon of its own.
            Some((path, size)) if !exists(Path::new(text)) => {
                let size_bytes = parse_size(size).map_err(|error| DevicePathError::Size {
                    text: given(),
                    role,
                    error,
                })?;
                (path, Some(size_bytes))
            }
            _ => (text, None),
        };
        if path.is_empty() {
            return Err(DevicePathError::NoPath { text: given(), role });
        }
        if size_bytes.is_some_and(|bytes| bytes < role.size_bytes_min()) {
            return Err(DevicePathError::TooSmall { text: given(), role });
        }
        Ok(DevicePath { path: path.into(), size_bytes })
    }

    /// The same with a path that holds wherever the reader stands.
    pub(crate) fn absolute(self) -> DevicePath {
        let path = std::path::absolute(&self.path).unwrap_or(self.path);
        DevicePath { path, ..self }
    }

    /// Whether it is the device at `path`, by whatever name: a file may have several, and a loop
    /// device may stand for it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        is_same(&self.path, path) || Storage::at(&self.path).is_some_and(|it| it.is_at(path))
    }

    /// Overwrites its start and its end, so that nobody takes it for one that is in use.
    pub(crate) fn wipe(&self) -> io::Result<()> {
        let mut file = File::options().write(true).open(&self.path)?;
        let end = file.seek(SeekFrom::End(0))?.saturating_sub(WIPE_BYTES as u64);
        file.write_all_at(&[0; WIPE_BYTES], 0)?;
        file.write_all_at(&[0; WIPE_BYTES], end)?;
        file.sync_all()
    }
}

impl fmt::Display for DevicePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        match self.size_bytes {
            Some(bytes) => write!(formatter, ":{}", ExactSize(bytes)),
            None => Ok(()),
        }
    }
}

/// How long a look at a path may take; what hangs is as if nothing were there.
pub(crate) const LOOK_MAX: Duration = Duration::from_secs(2);

/// Whether there is something.
pub(crate) fn exists(path: &Path) -> bool {
    let path = path.to_owned();
    within(LOOK_MAX, move || path.exists()).unwrap_or(false)
}

/// What a device keeps its bytes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// A file, by file system and inode.
    File(u64, u64),
    /// A block device, by number.
    Block(u64),
}

impl Storage {
    fn at(path: &Path) -> Option<Storage> {
        let path = path.to_owned();
        within(LOOK_MAX, move || Storage::look(&path)).flatten()
    }

    fn is_at(self, path: &Path) -> bool {
        Storage::at(path) == Some(self)
    }

    fn look(path: &Path) -> Option<Storage> {
        let found = fs::metadata(path).ok()?;
        if !found.file_type().is_block_device() {
            return Some(Storage::File(found.dev(), found.ino()));
        }
        let behind = block_device_says(path, "loop/backing_file");
        let behind = behind.and_then(|file| fs::metadata(file).ok()).filter(fs::Metadata::is_file);
        Some(match behind {
            Some(file) => Storage::File(file.dev(), file.ino()),
            None => Storage::Block(found.rdev()),
        })
    }
}

/// Whether two paths lead to the same.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let resolved = |path: &Path| {
        let path = path.to_owned();
        within(LOOK_MAX, move || path.canonicalize().ok()).flatten()
    };
    a == b || resolved(a).is_some_and(|a| resolved(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_shown_again() {
        for (text, role, path, size_bytes) in [
            ("/dev/nvme9n9", DeviceRole::Cache, "/dev/nvme9n9", None),
            ("/flash/cache:100G", DeviceRole::Cache, "/flash/cache", Some(100 << 30)),
            ("cache:17M", DeviceRole::Cache, "cache", Some(17 << 20)),
            ("/a:b/c:1G", DeviceRole::Cache, "/a:b/c", Some(1 << 30)),
            ("/dev/nvme9n9", DeviceRole::Log, "/dev/nvme9n9", None),
            ("/flash/log:2G", DeviceRole::Log, "/flash/log", Some(2 << 30)),
            ("log:17M", DeviceRole::Log, "log", Some(17 << 20)),
        ] {
            let device = DevicePath::parse(text, role).expect("well formed");
            assert_eq!(device, DevicePath { path: path.into(), size_bytes });
            assert_eq!(device.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_device_is_refused_with_words() {
        for (text, role, words) in [
            (":10G", DeviceRole::Cache, "PATH:SIZE such as /flash/cache:100G"),
            ("", DeviceRole::Cache, "names no cache device"),
            (
                "/flash/cache:big",
                DeviceRole::Cache,
                "cache device `/flash/cache:big`: `big` is not",
            ),
            ("/flash/cache:16M", DeviceRole::Cache, "at least 17M"),
            (":1G", DeviceRole::Log, "PATH:SIZE such as /flash/log:1G"),
            ("", DeviceRole::Log, "names no log device"),
            ("/flash/log:big", DeviceRole::Log, "log device `/flash/log:big`: `big` is not a size"),
            ("/flash/log:16M", DeviceRole::Log, "at least 17M"),
        ] {
            let refused = DevicePath::parse(text, role).expect_err("refused").to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn a_wiped_device_is_blank_at_both_ends() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("log");
        std::fs::write(&path, vec![7; 3 * WIPE_BYTES]).expect("written");
        DevicePath { path: path.clone(), size_bytes: None }.wipe().expect("wiped");
        let bytes = std::fs::read(&path).expect("it is there");
        assert_eq!(bytes.len(), 3 * WIPE_BYTES, "it is as long as before");
        let ends = [&bytes[..WIPE_BYTES], &bytes[2 * WIPE_BYTES..]].concat();
        assert!(ends.iter().all(|byte| *byte == 0));
    }
}
