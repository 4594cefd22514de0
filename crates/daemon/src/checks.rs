use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::deadline::within;
use crate::mountinfo::{mounted_at, mounts, resolve_without_touching};
use crate::paths::Paths;
use crate::stuck::end_connection;

/// How long a mount may take to say whether its daemon lives.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Dead mounts on one directory that are cleared away, one above the other.
const DEAD_MOUNTS_MAX: usize = 16;

/// Why a directory cannot be put in front of another.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Nothing is there.
    #[error("the {role} {} does not exist", path.display())]
    Missing {
        /// `origin` or `mount point`.
        role: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// It is something else than a directory.
    #[error("the {role} {} is not a directory", path.display())]
    NotDirectory {
        /// `origin` or `mount point`.
        role: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("the {role} {} cannot be read: {error}", path.display())]
    Unreadable {
        /// `origin` or `mount point`.
        role: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The mount would hide the origin.
    #[error(
        "the origin {} lies inside the mount point {}, which would hide it; mount on an empty \
         directory elsewhere", origin.display(), mountpoint.display()
    )]
    OriginInside {
        /// The origin.
        origin: PathBuf,
        /// The mount point.
        mountpoint: PathBuf,
    },
    /// The mount would be seen in itself without end.
    #[error(
        "the mount point {} lies inside the origin {}, so that the mount would contain itself; \
         mount on an empty directory elsewhere", mountpoint.display(), origin.display()
    )]
    MountpointInside {
        /// The origin.
        origin: PathBuf,
        /// The mount point.
        mountpoint: PathBuf,
    },
    /// Both are the same directory.
    #[error(
        "{} is given both as origin and as mount point; mount on an empty directory elsewhere",
        path.display()
    )]
    Same {
        /// The directory.
        path: PathBuf,
    },
    /// Files there would be hidden.
    #[error(
        "the mount point {} is not empty, its files would be hidden; mount on an empty directory",
        path.display()
    )]
    NotEmpty {
        /// The mount point.
        path: PathBuf,
    },
    /// A pool is mounted there.
    #[error(
        "pool `{pool}` is already mounted at {}; `warmfront unmount {}` ends that",
        path.display(), path.display()
    )]
    Mounted {
        /// The mount point.
        path: PathBuf,
        /// The pool.
        pool: String,
    },
    /// Something of another kind is mounted there and dead.
    #[error(
        "{} carries a dead mount of type {fs_type}, which is not ours to clear away; unmount it \
         with `umount {}`", path.display(), path.display()
    )]
    DeadForeign {
        /// The mount point.
        path: PathBuf,
        /// Its type.
        fs_type: String,
    },
    /// A mount of ours does not answer.
    #[error(
        "the mount of pool `{pool}` at {} has not answered for {seconds} s: its daemon waits for a \
         device or an origin that does not answer; look after the disks of its log, caches and \
         origin (`fsfreeze -u` if one was frozen), and mount again; `umount -f {}` frees those who \
         wait for it", path.display(), path.display()
    )]
    Silent {
        /// The mount point.
        path: PathBuf,
        /// The pool.
        pool: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A dead mount of ours cannot be cleared away.
    #[error("the mount that a killed daemon has left cannot be cleared away: {0}")]
    Clear(fuse::UnmountError),
}

/// An origin and a mount point that fit together.
#[derive(Debug)]
pub(crate) struct Places {
    /// The origin without links and detours.
    pub origin: PathBuf,
    /// Its device and inode.
    pub origin_identity: (u64, u64),
    /// The mount point without links and detours.
    pub mountpoint: PathBuf,
    /// What was done that the user should know of.
    pub notes: Vec<String>,
}

impl Places {
    /// Looks at both, and clears away a dead mount that a killed daemon has left on either.
    pub fn check(paths: &Paths, origin: &Path, mountpoint: &Path) -> Result<Places, PlaceError> {
        let mut notes = Vec::new();
        let mountpoint_given = mountpoint;
        let mountpoint = clear_dead(paths, "mount point", mountpoint, &mut notes)?;
        let mounted = mounts().ok().and_then(|mounts| mounted_at(&mounts, &mountpoint).cloned());
        if let Some(mount) = mounted.filter(|mount| mount.is_warmfront()) {
            return Err(PlaceError::Mounted { path: mountpoint, pool: mount.source });
        }
        let origin = clear_dead(paths, "origin", origin, &mut notes)?;
        let (origin, origin_identity) = directory("origin", &origin)?;
        let (mountpoint, mountpoint_identity) = directory("mount point", &mountpoint)
            .map_err(|error| as_given(error, mountpoint_given))?;
        if origin_identity == mountpoint_identity {
            return Err(PlaceError::Same { path: mountpoint });
        }
        if is_below(&origin, mountpoint_identity) {
            return Err(PlaceError::OriginInside { origin, mountpoint });
        }
        if is_below(&mountpoint, origin_identity) {
            return Err(PlaceError::MountpointInside { origin, mountpoint });
        }
        readable("origin", &origin)?;
        if readable("mount point", &mountpoint)? {
            return Err(PlaceError::NotEmpty { path: mountpoint });
        }
        Ok(Places { origin, origin_identity, mountpoint, notes })
    }
}

/// The origin of a pool that is being made, without links and detours.
pub(crate) fn new_origin(path: &Path) -> Result<PathBuf, PlaceError> {
    let (origin, _) = directory("origin", path)?;
    readable("origin", &origin)?;
    Ok(origin)
}

/// Names a missing mount point as the user did.
fn as_given(error: PlaceError, given: &Path) -> PlaceError {
    match error {
        PlaceError::Missing { role, .. } => PlaceError::Missing { role, path: given.to_owned() },
        error => error,
    }
}

/// The path without links and detours and the identity of a directory.
fn directory(role: &'static str, path: &Path) -> Result<(PathBuf, (u64, u64)), PlaceError> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => PlaceError::Missing { role, path: path.to_owned() },
        io::ErrorKind::NotADirectory => PlaceError::NotDirectory { role, path: path.to_owned() },
        _ => PlaceError::Unreadable { role, path: path.to_owned(), error },
    };
    let resolved = path.canonicalize().map_err(fail)?;
    let metadata = fs::metadata(&resolved).map_err(fail)?;
    match metadata.is_dir() {
        true => Ok((resolved, (metadata.dev(), metadata.ino()))),
        false => Err(PlaceError::NotDirectory { role, path: path.to_owned() }),
    }
}

/// Whether one of the directories above `path` is the one with this identity. Paths alone do not
/// tell: a bind mount shows one directory in two places.
fn is_below(path: &Path, identity: (u64, u64)) -> bool {
    path.ancestors()
        .skip(1)
        .any(|above| fs::metadata(above).is_ok_and(|found| (found.dev(), found.ino()) == identity))
}

/// Checks that names can be listed and looked up, and returns whether there are any.
fn readable(role: &'static str, path: &Path) -> Result<bool, PlaceError> {
    let fail = |error| PlaceError::Unreadable { role, path: path.to_owned(), error };
    fs::metadata(path.join(".")).map_err(fail)?;
    let mut entries = fs::read_dir(path).map_err(fail)?;
    match entries.next() {
        None => Ok(false),
        Some(Ok(_)) => Ok(true),
        Some(Err(error)) => Err(fail(error)),
    }
}

/// Detaches what a killed daemon has left at `path`, and returns the path without detours.
fn clear_dead(
    paths: &Paths,
    role: &'static str,
    path: &Path,
    notes: &mut Vec<String>,
) -> Result<PathBuf, PlaceError> {
    let unreadable = |error| PlaceError::Unreadable { role, path: path.to_owned(), error };
    let path = resolve_without_touching(path).map_err(unreadable)?;
    for _ in 0..DEAD_MOUNTS_MAX {
        let mounts = mounts().map_err(unreadable)?;
        let Some(mount) = mounted_at(&mounts, &path) else {
            return Ok(path);
        };
        end_connection(paths, mount);
        let asked = path.clone();
        match within(ANSWER_MAX, move || fuse::is_disconnected(&asked)) {
            Some(true) => {}
            None if mount.is_warmfront() => {
                let (pool, seconds) = (mount.source.clone(), ANSWER_MAX.as_secs());
                return Err(PlaceError::Silent { path, pool, seconds });
            }
            _ => return Ok(path),
        }
        if !mount.is_warmfront() {
            return Err(PlaceError::DeadForeign { path, fs_type: mount.fs_type.clone() });
        }
        fuse::unmount(&path, true).map_err(PlaceError::Clear)?;
        notes.push(format!(
            "recovered {}: the dead mount of pool `{}`, left by a daemon that was killed, is \
             cleared away",
            path.display(),
            mount.source
        ));
    }
    Err(unreadable(Errno::NOTCONN.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_do_not_fit_are_refused() {
        let base = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir_all(&path).expect("made");
            path
        };
        let (slow, fast, inner) = (make("slow"), make("fast"), make("slow/inner"));
        let file = slow.join("file");
        fs::write(&file, "x").expect("written");
        let missing = base.path().join("missing");
        let paths = Paths::new(base.path().join("c"), base.path().join("r"));
        let check = |origin: &Path, mountpoint: &Path| Places::check(&paths, origin, mountpoint);
        let places = check(&slow, &fast).expect("these fit");
        assert_eq!(places.mountpoint, fast.canonicalize().expect("it is there"));
        use PlaceError as E;
        assert!(matches!(check(&missing, &fast), Err(E::Missing { role: "origin", .. })));
        assert!(matches!(check(&slow, &missing), Err(E::Missing { role: "mount point", .. })));
        assert!(matches!(check(&file, &fast), Err(E::NotDirectory { role: "origin", .. })));
        assert!(matches!(check(&slow, &file), Err(E::NotDirectory { role: "mount point", .. })));
        assert!(matches!(check(&slow, base.path()), Err(E::OriginInside { .. })));
        assert!(matches!(check(&slow, &inner), Err(E::MountpointInside { .. })));
        assert!(matches!(check(&slow, &slow), Err(E::Same { .. })));
        assert!(matches!(check(&fast, &slow), Err(E::NotEmpty { .. })));
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&inner, &link).expect("a link");
        assert!(matches!(check(&slow, &link), Err(E::MountpointInside { .. })));
    }
}
