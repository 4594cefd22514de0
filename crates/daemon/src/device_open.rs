use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::statvfs;
use rustix::io::Errno;
use storage::{Device, DeviceError, DeviceOptions, FileDevice};
use warmfront::{ExactSize, HumanSize};

use crate::descriptor;
use crate::device_path::{DevicePath, DeviceRole};
use crate::device_user::{DeviceUser, block_device_says};
use crate::paths::Paths;
use crate::process::outwait;

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
    /// The file is no device yet, or something else.
    #[error(
        "{role} device {}: a file of {} is too small: it needs {}; give a size to have it made \
         longer, as {}:SIZE, unless it is something else", path.display(), ExactSize(*size_bytes),
        ExactSize(role.size_bytes_min()), path.display()
    )]
    TooShort {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// How long it is.
        size_bytes: u64,
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
    /// The file system on which it lay is not there.
    #[error(
        "{role} device {}: it lay on the file system at {}, and nothing is mounted there now; \
         mount that, or have the file made anew by forcing its use",
        path.display(), place.display()
    )]
    NotMounted {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// Where its file system was mounted.
        place: PathBuf,
    },
    /// There is a directory, but it takes no files.
    #[error(
        "{role} device {}: no file can be made in {}; choose another place",
        path.display(), path.parent().unwrap_or(path).display()
    )]
    NoFiles {
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
    /// It lies where the pool itself is seen.
    #[error(
        "the {role} device {} lies inside the {top_role} {}, so that the pool would hold its own \
         {role}; choose a place outside", path.display(), top.display()
    )]
    Inside {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// `origin` or `mount point`.
        top_role: &'static str,
        /// The directory.
        top: PathBuf,
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
    /// The block device takes no writes.
    #[error(
        "{role} device {}: the block device is read-only; `blockdev --setrw {}` makes it \
         writable, unless it is write-protected itself", path.display(), path.display()
    )]
    ReadOnlyDevice {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// The file may not be changed by anybody.
    #[error(
        "{role} device {}: the file is marked as one that nobody may change; \
         `chattr -i -a {}` takes that away", path.display(), path.display()
    )]
    Immutable {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// The directory may not be changed by anybody.
    #[error(
        "{role} device {}: no file can be made in {}, which is marked as one that nobody may \
         change; `chattr -i -a {}` takes that away", path.display(),
        path.parent().unwrap_or(path).display(), path.parent().unwrap_or(path).display()
    )]
    ImmutableDirectory {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// The user may not use it.
    #[error(
        "{role} device {}: this user may not read and write it; change its owner or its mode, \
         or run as root", path.display()
    )]
    Denied {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
    },
    /// It hangs.
    #[error(
        "{role} device {}: no answer within {seconds} s; see whether its disk works, and whether \
         its file system is frozen (`fsfreeze -u` ends that)", path.display()
    )]
    Silent {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Somebody else uses it.
    #[error(
        "{role} device {} is in use by {user}; stop that first, or name another device",
        path.display()
    )]
    InUse {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// Who, in words.
        user: String,
        /// The process, if it is known.
        pid: Option<u32>,
    },
    /// What is there is no device.
    #[error("{role} device {}: it is neither a file nor a block device", path.display())]
    WrongKind {
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
    /// A block device is as large as it is.
    #[error(
        "{role} device {} is a block device of {}, not of {}; name it without a size",
        path.display(), ExactSize(*size_bytes), ExactSize(*wanted_bytes)
    )]
    Shorter {
        /// What the device is for.
        role: DeviceRole,
        /// The path.
        path: PathBuf,
        /// How large it is, bytes.
        size_bytes: u64,
        /// What was asked for, bytes.
        wanted_bytes: u64,
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

impl DeviceOpenError {
    /// Whether there is no such file or device.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(
            self,
            DeviceOpenError::Missing { .. }
                | DeviceOpenError::NoDirectory { .. }
                | DeviceOpenError::NotMounted { .. }
        )
    }

    /// Names the pool that uses a device, if it is one.
    pub(crate) fn with_pool(self, paths: &Paths) -> DeviceOpenError {
        let DeviceOpenError::InUse { role, path, user, pid } = self else { return self };
        let running = descriptor::load_all(paths).unwrap_or_default();
        let pool = running.into_iter().find(|running| Some(running.pid) == pid);
        let user = pool.map_or(user, |running| {
            format!("pool `{}`, mounted at {}", running.pool, running.mountpoint.display())
        });
        DeviceOpenError::InUse { role, path, user, pid }
    }
}

/// A directory in which a pool is seen, and what it is to the pool.
pub(crate) type Top = (&'static str, PathBuf);

/// The directories in which a pool with this origin is seen.
pub(crate) fn tops(origin: &Path, mountpoint: Option<&Path>) -> Vec<Top> {
    let tops = [("origin", Some(origin)), ("mount point", mountpoint)];
    tops.into_iter().filter_map(|(what, top)| Some((what, top?.to_owned()))).collect()
}

impl DevicePath {
    /// Whether a file that is to be a device lies outside of what the pool shows. A block device
    /// may be named anywhere.
    pub(crate) fn check_outside(
        &self,
        role: DeviceRole,
        tops: &[Top],
    ) -> Result<(), DeviceOpenError> {
        let path = &self.path;
        let is_block = is_block(path);
        // What is not there yet is where its directory is.
        let place = path.canonicalize().or_else(|error| {
            let directory = path.parent().ok_or(error)?;
            directory.canonicalize()
        });
        let Ok(place) = place else { return Ok(()) };
        let identity =
            |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        for (top_role, top) in tops {
            let inside = |above: &Path| above == top || identity(above) == identity(top);
            if !is_block && place.ancestors().any(inside) {
                let (path, top) = (path.clone(), top.clone());
                return Err(DeviceOpenError::Inside { role, path, top_role, top });
            }
        }
        Ok(())
    }

    /// How long the file is; `None` where there is none. Taken before it is opened, for
    /// [`undo`](DevicePath::undo).
    pub(crate) fn length(&self) -> Option<u64> {
        fs::metadata(&self.path).ok().map(|metadata| metadata.len())
    }

    /// Opens the file or block device, or makes the file, or makes it longer. One that could not
    /// be made as it should be is left as it was.
    pub(crate) fn open(&self, role: DeviceRole) -> Result<FileDevice, DeviceOpenError> {
        let options = DeviceOptions { size_bytes: self.size_bytes, ..DeviceOptions::default() };
        self.open_with(role, &options)
    }

    /// Opens it for looking at what lies there, though somebody uses it.
    pub(crate) fn look(&self, role: DeviceRole) -> Result<FileDevice, DeviceOpenError> {
        self.open_with(role, &DeviceOptions { looks_only: true, ..DeviceOptions::default() })
    }

    fn open_with(
        &self,
        role: DeviceRole,
        options: &DeviceOptions,
    ) -> Result<FileDevice, DeviceOpenError> {
        let path = self.path.clone();
        let before = self.length();
        if options.size_bytes.is_none() && before.is_none() {
            return Err(DeviceOpenError::Missing { role, path });
        }
        let in_use = |DeviceUser { pid, name }| DeviceOpenError::InUse {
            role,
            path: path.clone(),
            user: name,
            pid,
        };
        let is_read_only = || block_device_says(&path, "ro").is_some_and(|said| said != "0");
        if !options.looks_only && is_read_only() {
            return Err(DeviceOpenError::ReadOnlyDevice { role, path });
        }
        let is_ending = |error: &DeviceError| {
            matches!(error, DeviceError::InUse { .. }) && DeviceUser::of(&path).may_be_ending()
        };
        let device = outwait(|| FileDevice::open(&path, options), is_ending).map_err(|error| {
            self.undo(before);
            let path = path.clone();
            let errno = match error {
                DeviceError::System { errno, .. } => Some(errno),
                DeviceError::InUse { .. } => return in_use(DeviceUser::of(&path)),
                DeviceError::Attached { to, .. } => return in_use(DeviceUser::loop_device(&to)),
                DeviceError::WrongKind { .. } => return DeviceOpenError::WrongKind { role, path },
                _ => None,
            };
            match errno {
                Some(Errno::NOENT) if path.parent().is_some_and(Path::is_dir) => {
                    DeviceOpenError::NoFiles { role, path }
                }
                Some(Errno::NOENT) => DeviceOpenError::NoDirectory { role, path },
                Some(Errno::ISDIR) => DeviceOpenError::Directory { role, path },
                Some(Errno::ROFS) => DeviceOpenError::ReadOnly { role, path },
                Some(Errno::PERM) if before.is_none() => {
                    DeviceOpenError::ImmutableDirectory { role, path }
                }
                Some(Errno::PERM) if !is_block(&path) => DeviceOpenError::Immutable { role, path },
                Some(Errno::PERM | Errno::ACCESS) => DeviceOpenError::Denied { role, path },
                Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
                    let size_bytes = self.size_bytes.unwrap_or(0);
                    DeviceOpenError::Full { role, available: available(&path), path, size_bytes }
                }
                _ => DeviceOpenError::Device { role, path, error },
            }
        })?;
        let size_bytes = device.info().size_bytes;
        let is_cache = role == DeviceRole::Cache && !options.looks_only;
        let length = before.unwrap_or(size_bytes);
        match options.size_bytes {
            Some(wanted_bytes) if size_bytes < wanted_bytes && is_block(&path) => {
                Err(DeviceOpenError::Shorter { role, path, size_bytes, wanted_bytes })
            }
            None if is_cache && length < role.size_bytes_min() && path.is_file() => {
                Err(DeviceOpenError::TooShort { role, path, size_bytes: length })
            }
            _ => Ok(device),
        }
    }

    /// Makes a file as long again as it was before it was opened, or removes it if it was not
    /// there: it is not used, and may be somebody else's.
    pub(crate) fn undo(&self, length_before: Option<u64>) {
        let is_longer = |before| self.length().is_some_and(|length| length > before);
        let undone = match length_before {
            None => fs::remove_file(&self.path),
            Some(before) if self.size_bytes.is_some() && is_longer(before) => {
                let file = fs::OpenOptions::new().write(true).open(&self.path);
                file.and_then(|file| file.set_len(before))
            }
            Some(_) => Ok(()),
        };
        match undone {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "a file that is not used cannot be left as it was");
            }
            _ => {}
        }
    }
}

fn is_block(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// What the disk of a file has left, in words.
fn available(path: &Path) -> String {
    let directory = path.parent().unwrap_or(Path::new("/"));
    statvfs(directory).map_or("it is not known what is".into(), |disk| {
        HumanSize(disk.f_bavail.saturating_mul(disk.f_frsize)).to_string()
    })
}
