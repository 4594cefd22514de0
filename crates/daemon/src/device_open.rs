use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::statvfs;
use rustix::io::Errno;
use storage::{DeviceError, DeviceOptions, FileDevice};
use warmfront::{ExactSize, HumanSize};

use crate::device_path::{DevicePath, DeviceRole};

/// Why a cache or log device cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceOpenError {
    /// There is no such file, and no size to make it with.
    #[error(
        "there is no {role} device {}; to make a file, give its size: {}:SIZE",
        path.display(), path.display()
    )]
    Missing {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// There is no directory to make it in.
    #[error(
        "{role} device {}: there is no directory {}; make it first, or choose another place",
        path.display(), path.parent().unwrap_or(path).display()
    )]
    NoDirectory {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// A directory is no device.
    #[error(
        "{role} device {}: it is a directory; name a file in it, with the size to make it with",
        path.display()
    )]
    Directory {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error(
        "{role} device {}: it lies on a file system that is read-only; make that writable, or \
         choose another place", path.display()
    )]
    ReadOnly {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// There is no room for the file.
    #[error(
        "{role} device {}: its disk has no room for {}: {available} left (no space left on \
         device); make room, or give a smaller size", path.display(), ExactSize(*size_bytes)
    )]
    Full {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// What was asked for, bytes.
        size_bytes: u64,
        /// What there is, in words.
        available: String,
    },
    /// The system does not open it.
    #[error("{role} device {}: {error}", path.display())]
    Device {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// Why.
        error: DeviceError,
    },
}

impl DevicePath {
    /// Opens the file or block device, or makes the file. One that could not be made as it should
    /// be is not left.
    pub(crate) fn open(&self, role: DeviceRole) -> Result<FileDevice, DeviceOpenError> {
        let path = self.path.clone();
        let was_there = path.exists();
        if self.size_bytes.is_none() && !was_there {
            return Err(DeviceOpenError::Missing { role, path });
        }
        let options = DeviceOptions { size_bytes: self.size_bytes, ..DeviceOptions::default() };
        FileDevice::open(&path, &options).map_err(|error| {
            if !was_there {
                self.unmake();
            }
            let errno = match error {
                DeviceError::System { errno, .. } => Some(errno),
                _ => None,
            };
            match errno {
                Some(Errno::NOENT) => DeviceOpenError::NoDirectory { role, path },
                Some(Errno::ISDIR) => DeviceOpenError::Directory { role, path },
                Some(Errno::ROFS) => DeviceOpenError::ReadOnly { role, path },
                Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
                    let size_bytes = self.size_bytes.unwrap_or(0);
                    DeviceOpenError::Full { role, available: available(&path), path, size_bytes }
                }
                _ => DeviceOpenError::Device { role, path, error },
            }
        })
    }

    /// Removes a file that was made and is of no use.
    pub(crate) fn unmake(&self) {
        let path = self.path.display();
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%path, %error, "a file of no use cannot be removed");
            }
            _ => {}
        }
    }
}

/// What the disk of a file has left, in words.
fn available(path: &Path) -> String {
    let directory = path.parent().unwrap_or(Path::new("/"));
    statvfs(directory).map_or("it is not known what is".into(), |disk| {
        HumanSize(disk.f_bavail.saturating_mul(disk.f_frsize)).to_string()
    })
}
