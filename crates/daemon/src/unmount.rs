use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::client::{Client, Draining};
use crate::descriptor;
use crate::error::ControlError;
use crate::lock::PoolLock;
use crate::mountinfo::{mounted_at, mounts, resolve_without_touching};
use crate::paths::Paths;
use crate::protocol::{Descriptor, Request, Response};
use crate::target::{Target, without_daemon};

/// How long a daemon may take to end after its mount is gone.
const END_MAX: Duration = Duration::from_secs(10);
/// Between two looks what that waits for.
const TELL_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What an unmount has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmounted {
    /// The mount is gone and the daemon has ended.
    Done {
        /// The pool.
        pool: String,
    },
    /// The mount is out of sight; the daemon ends when the last file is closed.
    Detached {
        /// The pool.
        pool: String,
    },
    /// The mount is gone, but the daemon has not ended in time: something that it writes to does
    /// not answer.
    Ending {
        /// The pool.
        pool: String,
        /// The daemon's process id.
        pid: u32,
        /// Where it writes what it has to say, if it runs in the background.
        log: Option<PathBuf>,
        /// What does not answer, and for how long, in words, if it is known.
        waits_for: Option<String>,
    },
    /// The daemon was dead; the mount that it left is cleared away.
    DeadMountCleared {
        /// Where it was.
        mountpoint: PathBuf,
    },
}

/// Unmounts a pool, named by itself or by its mount point, once the origin has everything, and
/// waits for its daemon to end. `progress` is told what the origin does not have yet.
///
/// # Errors
/// When nothing of ours is mounted there; or, unless `lazy` is given, files are open on it or the
/// origin does not take what was written.
pub fn unmount(
    paths: &Paths,
    text: &OsStr,
    lazy: bool,
    progress: Draining<'_>,
) -> Result<Unmounted, ControlError> {
    let by_pool = text.to_str().and_then(|name| descriptor::load(paths, name));
    if let Some(found) = by_pool {
        return unmount_served(paths, found, lazy, progress);
    }
    let path = resolve_without_touching(Path::new(text))
        .map_err(|error| ControlError::System { path: text.into(), error })?;
    let system = |error| ControlError::System { path: path.clone(), error };
    let mounts = mounts().map_err(system)?;
    match mounted_at(&mounts, &path) {
        Some(mount) if mount.is_warmfront() => {
            let served = descriptor::load_all(paths)?;
            let served = served.into_iter().filter(|found| found.device == mount.device);
            // The number that a killed daemon's mount had may be another one's by now.
            let is_dead = |found: &Descriptor| !Client::new(paths, found.clone()).is_alive();
            let dead_and_known = served.map(|found| (is_dead(&found), found));
            let of_this = dead_and_known.filter(|(dead, found)| !dead || found.mountpoint == path);
            match of_this.min_by_key(|(dead, _)| *dead).map(|(_, found)| found) {
                Some(found) => unmount_served(paths, found, lazy, progress),
                None => clear_dead(without_daemon(paths, mount)),
            }
        }
        _ => Err(explain(paths, text, path)),
    }
}

/// Detaches the mount of a dead daemon.
fn clear_dead(why: ControlError) -> Result<Unmounted, ControlError> {
    let ControlError::Dead { mountpoint } = why else {
        return Err(why);
    };
    fuse::unmount(&mountpoint, true)?;
    Ok(Unmounted::DeadMountCleared { mountpoint })
}

/// Why what was named cannot be unmounted.
fn explain(paths: &Paths, text: &OsStr, path: PathBuf) -> ControlError {
    match Target::find(paths, text) {
        Ok(target) => match target.client() {
            Ok(client) => ControlError::BelowMountpoint {
                path,
                mountpoint: client.descriptor().mountpoint.clone(),
            },
            Err(error) => error,
        },
        Err(ControlError::Unknown { .. }) => ControlError::NotMountpoint { path },
        Err(error) => error,
    }
}

fn unmount_served(
    paths: &Paths,
    found: Descriptor,
    lazy: bool,
    progress: Draining<'_>,
) -> Result<Unmounted, ControlError> {
    let client = Client::new(paths, found.clone());
    if client.is_alive() {
        let stopped = stop(paths, &client, lazy, progress);
        // One that is killed just now leaves what a dead one leaves.
        if stopped.is_ok() || client.is_alive() {
            return stopped;
        }
    }
    let Descriptor { pool, mountpoint, .. } = found;
    let mounts =
        mounts().map_err(|error| ControlError::System { path: mountpoint.clone(), error })?;
    match mounted_at(&mounts, &mountpoint) {
        Some(mount) if mount.is_warmfront() => {
            let cleared = clear_dead(without_daemon(paths, mount))?;
            descriptor::clear(paths, &pool);
            Ok(cleared)
        }
        _ => {
            descriptor::clear(paths, &pool);
            Err(ControlError::NotMountpoint { path: mountpoint })
        }
    }
}

/// Lets a daemon bring what it has to the origin and end.
fn stop(
    paths: &Paths,
    client: &Client,
    lazy: bool,
    progress: Draining<'_>,
) -> Result<Unmounted, ControlError> {
    let Descriptor { pool, pid, log, .. } = client.descriptor().clone();
    if !lazy {
        client.sync(progress)?;
    }
    match client.call(Request::Unmount { lazy })? {
        Response::Unmounted if has_ended(paths, client, lazy, progress) => {
            Ok(Unmounted::Done { pool })
        }
        Response::Unmounted if lazy => Ok(Unmounted::Detached { pool }),
        Response::Unmounted => {
            let waits_for = client.undone().and_then(|undone| undone.waits_for);
            Ok(Unmounted::Ending { pool, pid, log, waits_for })
        }
        _ => Err(ControlError::WrongAnswer { pool }),
    }
}

/// Waits for a daemon to remove its descriptor and then its lock, the last thing that it does.
/// `progress` is told what that waits for.
fn has_ended(paths: &Paths, client: &Client, lazy: bool, progress: Draining<'_>) -> bool {
    let Descriptor { pool, pid, .. } = client.descriptor();
    let wait = if lazy { Duration::from_millis(300) } else { END_MAX };
    let deadline = Instant::now() + wait;
    let mut told = Instant::now();
    loop {
        let is_announced = descriptor::load(paths, pool).is_some_and(|found| found.pid == *pid);
        let is_there = is_announced || PoolLock::is_named_by(paths, pool, *pid);
        if is_announced && told.elapsed() >= TELL_INTERVAL {
            told = Instant::now();
            // It ends, whoever waits for that.
            let _ = client.undone().map(|undone| progress(&undone));
        }
        if !is_there || Instant::now() >= deadline {
            return !is_there;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}
