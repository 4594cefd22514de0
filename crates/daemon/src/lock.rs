use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::paths::Paths;
use crate::process::{is_dying, is_ending, outwait};
use crate::wire_path;

/// Tries to lock a file whose previous owner removes it at the same moment.
const TRIES_MAX: usize = 100;

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// Its pool.
    pub pool: String,
    /// Its origin.
    #[serde(with = "wire_path")]
    pub origin: PathBuf,
    /// Where it is mounted.
    #[serde(with = "wire_path")]
    pub mountpoint: PathBuf,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another daemon has it.
    #[error(
        "pool `{}` in front of {} is served already, or about to be, by process {}, at {}; unmount \
         that first (`warmfront unmount {}`; after a lazy unmount it ends with the last open \
         file), or use it there",
        .0.pool, .0.origin.display(), .0.pid, .0.mountpoint.display(), .0.mountpoint.display()
    )]
    Held(Box<Owner>),
    /// A daemon that was killed has it, and cannot end.
    #[error(
        "process {}, which served pool `{}` in front of {}, was killed but cannot end: it waits \
         for a device or an origin that does not answer; look after the disks of its log, caches \
         and origin (`fsfreeze -u` if one was frozen), and try again",
        .0.pid, .0.pool, .0.origin.display()
    )]
    Dying(Box<Owner>),
    /// Another daemon has it and has not said who it is.
    #[error("another daemon that is just starting or ending holds {}; try again", path.display())]
    HeldByUnknown {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}: {error}", path.display())]
    System {
        /// The lock file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// A pool's name and origin, for one daemon alone. Given back when dropped, and by the system when
/// the process dies.
#[derive(Debug)]
pub(crate) struct PoolLock {
    // The name is let go last: once it is free, all is.
    _origin: Option<LockFile>,
    _name: LockFile,
}

impl PoolLock {
    /// Locks the origin, which is known by its device and inode unless it is not there, then the
    /// pool's name. A process that has been killed keeps its locks for a moment: that is waited
    /// for.
    ///
    /// # Errors
    /// When another daemon has one of them.
    pub fn take(
        paths: &Paths,
        owner: &Owner,
        origin: Option<(u64, u64)>,
    ) -> Result<PoolLock, LockError> {
        // The origin first: that it is served already says more than that a name is taken.
        let is_ending = |error: &LockError| match error {
            LockError::Held(held) => is_ending(held.pid),
            LockError::HeldByUnknown { .. } => true,
            LockError::Dying(_) | LockError::System { .. } => false,
        };
        let take = |path: PathBuf| {
            outwait(|| LockFile::take(&path, owner), is_ending).map_err(|error| match error {
                LockError::Held(owner) if is_dying(owner.pid) => LockError::Dying(owner),
                error => error,
            })
        };
        let origin = origin.map(|(device, inode)| take(paths.origin_lock(device, inode)));
        let origin = origin.transpose()?;
        let name = take(paths.pool_lock(&owner.pool))?;
        Ok(PoolLock { _origin: origin, _name: name })
    }

    /// Who holds the lock of a pool's name at the moment.
    pub fn holder(paths: &Paths, pool: &str) -> Option<Owner> {
        let mut file = File::open(paths.pool_lock(pool)).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => match held(Path::new(""), &mut file) {
                LockError::Held(owner) => Some(*owner),
                _ => None,
            },
            _ => None,
        }
    }

    /// The pool that is to be mounted at a path, and who is at it.
    pub fn holder_at(paths: &Paths, mountpoint: &Path) -> Option<Owner> {
        let entries = std::fs::read_dir(paths.runtime_directory()).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let pools: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".lock")?.to_string())).collect();
        let mut owners = pools.iter().filter_map(|pool| PoolLock::holder(paths, pool));
        owners.find(|owner| owner.mountpoint == mountpoint)
    }

    /// Whether the process has the lock of a pool's name, or has said so before it died.
    pub fn is_named_by(paths: &Paths, pool: &str, pid: u32) -> bool {
        let owner = std::fs::read(paths.pool_lock(pool)).ok();
        let owner = owner.and_then(|text| serde_json::from_slice::<Owner>(&text).ok());
        owner.is_some_and(|owner| owner.pid == pid)
    }
}

/// A locked file that names its owner.
#[derive(Debug)]
struct LockFile {
    path: PathBuf,
    _file: File,
}

impl LockFile {
    fn take(path: &Path, owner: &Owner) -> Result<LockFile, LockError> {
        let system = |error: io::Error| LockError::System { path: path.to_owned(), error };
        for _ in 0..TRIES_MAX {
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(system)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(held(path, &mut file)),
                Err(errno) => return Err(system(errno.into())),
            }
            // The owner removes the file before it lets go: what was locked may have no name now.
            let locked = file.metadata().map_err(system)?;
            let is_current = std::fs::metadata(path)
                .is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
            if !is_current {
                continue;
            }
            let text = serde_json::to_vec(owner).map_err(|error| system(error.into()))?;
            file.set_len(0).and_then(|()| file.write_all(&text)).map_err(system)?;
            return Ok(LockFile { path: path.to_owned(), _file: file });
        }
        Err(LockError::HeldByUnknown { path: path.to_owned() })
    }
}

fn held(path: &Path, file: &mut File) -> LockError {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(1 << 16).read_to_string(&mut text));
    match read.ok().and_then(|_| serde_json::from_str(&text).ok()) {
        Some(owner) => LockError::Held(Box::new(owner)),
        None => LockError::HeldByUnknown { path: path.to_owned() },
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Left behind it does no harm: an unlocked file is free.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn owner(pool: &str, mountpoint: &str) -> Owner {
        let pid = std::process::id();
        Owner { pid, pool: pool.into(), origin: "/slow".into(), mountpoint: mountpoint.into() }
    }

    #[test]
    fn a_lock_is_for_one_and_names_it() {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path(), base.path());
        let first = PoolLock::take(&paths, &owner("a", "/fast"), Some((1, 2))).expect("free");
        // The same origin under another name, and another origin under the same name.
        for (pool, origin) in [("b", (1, 2)), ("a", (1, 3))] {
            let error = PoolLock::take(&paths, &owner(pool, "/x"), Some(origin)).expect_err("held");
            let message = error.to_string();
            assert!(message.contains("process ") && message.contains("/fast"), "{message}");
        }
        let other = PoolLock::take(&paths, &owner("b", "/x"), Some((1, 3))).expect("free");
        let holder = |pool| PoolLock::holder(&paths, pool).map(|owner| owner.pid);
        assert_eq!((holder("a"), holder("c")), (Some(std::process::id()), None));
        let at = PoolLock::holder_at(&paths, Path::new("/fast"));
        assert_eq!(at.map(|owner| owner.pool), Some("a".to_string()));
        drop(first);
        drop(PoolLock::take(&paths, &owner("a", "/fast"), Some((1, 2))).expect("free again"));
        drop(other);
        assert_eq!(std::fs::read_dir(base.path()).expect("a directory").count(), 0);
    }

    /// The kernel closes the files of a process that was killed some time after it is gone.
    #[test]
    fn a_lock_of_a_dead_owner_is_waited_for() {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path(), base.path());
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        child.wait().expect("it ends");
        let dead = Owner { pid: child.id(), ..owner("a", "/fast") };
        let held = || LockFile::take(&paths.pool_lock("a"), &dead).expect("free");
        let lock = held();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                drop(lock);
            });
            let taken = PoolLock::take(&paths, &owner("a", "/fast"), Some((1, 2)));
            taken.expect("it is given back");
        });
        // But not for ever.
        let lock = held();
        let refused = PoolLock::take(&paths, &owner("a", "/fast"), Some((1, 2)));
        assert!(matches!(refused, Err(LockError::Held(_))), "{refused:?}");
        drop(lock);
    }

    #[test]
    fn a_file_left_by_a_dead_owner_is_free() {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path(), base.path());
        std::fs::write(paths.pool_lock("a"), "half a line").expect("written");
        PoolLock::take(&paths, &owner("a", "/fast"), Some((1, 2))).expect("nobody holds it");
    }
}
