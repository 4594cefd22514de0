use std::fmt;
use std::io;
use std::path::PathBuf;

use warmfront::{DatasetError, HumanSize};

use crate::caches::CacheError;
use crate::checks::PlaceError;
use crate::line::LineError;
use crate::logs::LogError;
use crate::paths::PathsError;
use crate::pool_file::PoolFileError;
use crate::protocol::{Holder, Refusal, Undone};

/// Why a command about a pool could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The text names nothing that is known.
    #[error(
        "`{text}` is no pool, no dataset, and no path under a Warmfront mount; \
         `warmfront pool list` shows the pools"
    )]
    Unknown {
        /// What was named.
        text: String,
    },
    /// Nothing was named, and there is no single pool that could be meant.
    #[error("{}", ambiguous(.pools))]
    Ambiguous {
        /// The pools that are mounted.
        pools: Vec<String>,
    },
    /// The pool has settings but is not mounted.
    #[error("pool `{pool}` is not mounted; mount it with `warmfront mount {pool} MOUNTPOINT`")]
    NotMounted {
        /// The pool.
        pool: String,
    },
    /// Somebody is at the pool who does not serve it yet, or not any more.
    #[error(
        "pool `{pool}` is not mounted yet: process {pid} is about to mount it, or at its log, or \
         just ends. Wait until it is done; to stop it, `kill {pid}`: what its log holds stays \
         there, and the next mount brings it to the origin"
    )]
    Starting {
        /// The pool.
        pool: String,
        /// Who.
        pid: u32,
    },
    /// Its daemon was killed, and cannot end.
    #[error(
        "pool `{pool}` is not served: its daemon, process {pid}, was killed but cannot end, as it \
         waits for a device or an origin that does not answer; look after the disks of its log, \
         caches and origin (`fsfreeze -u` if one was frozen), and mount it again"
    )]
    Dying {
        /// The pool.
        pool: String,
        /// Who.
        pid: u32,
    },
    /// Its mount is out of sight.
    #[error(
        "pool `{pool}` is not mounted at {} any more: it was detached, and its daemon, process \
         {pid}, ends once the last file that is open there is closed and the origin has \
         everything; `warmfront status {pool}` shows how it is", mountpoint.display()
    )]
    Detached {
        /// The pool.
        pool: String,
        /// Its daemon.
        pid: u32,
        /// Where it was.
        mountpoint: PathBuf,
    },
    /// The origin does not take what was written.
    #[error(
        "{} of {} of pool `{pool}` are not at the origin: {}{}\n\
         the mount stays and goes on trying; make the origin take them (space, permissions, \
         connection), or detach with `--lazy`, which leaves that to the daemon in the background",
        HumanSize(undone.waiting_bytes), files(.undone.dirty_files),
        .undone.failing.as_deref().unwrap_or("it is slow"), listed(&.undone.paths)
    )]
    Undone {
        /// The pool.
        pool: String,
        /// What.
        undone: Box<Undone>,
    },
    /// Nobody waits any more until the origin has what was written.
    #[error(
        "stopped waiting: pool `{pool}` stays mounted and goes on writing; {} of {} are not at the \
         origin yet. The same command waits again", HumanSize(undone.waiting_bytes),
        files(.undone.dirty_files)
    )]
    Left {
        /// The pool.
        pool: String,
        /// What the origin does not have.
        undone: Box<Undone>,
    },
    /// Nothing of ours is mounted there.
    #[error("{} is not a mount point of Warmfront", path.display())]
    NotMountpoint {
        /// The path.
        path: PathBuf,
    },
    /// The path lies in a mount but is not its top.
    #[error("{} is not a mount point; it lies in {}, unmount that", path.display(),
        mountpoint.display())]
    BelowMountpoint {
        /// The path.
        path: PathBuf,
        /// Where the mount is.
        mountpoint: PathBuf,
    },
    /// The daemon is gone and has left its mount behind.
    #[error(
        "the daemon of the mount at {} has died; clear it with `warmfront unmount {}`, or mount \
         again, which does so as well", mountpoint.display(), mountpoint.display()
    )]
    Dead {
        /// The mount point.
        mountpoint: PathBuf,
    },
    /// Another user has mounted it.
    #[error(
        "{} was mounted by another user (id {uid}) or with another WARMFRONT_RUNTIME_DIR; run \
         the command as that user", mountpoint.display()
    )]
    Foreign {
        /// The mount point.
        mountpoint: PathBuf,
        /// The user's id.
        uid: String,
    },
    /// A path was given where a dataset is meant, and no dataset begins there.
    #[error(
        "no dataset begins at {}; it belongs to dataset `{dataset}`: name that, or make a dataset \
         of it with `warmfront create`", path.display()
    )]
    NotDataset {
        /// The path.
        path: PathBuf,
        /// The dataset that it belongs to.
        dataset: String,
    },
    /// The pool cannot be removed while it is mounted.
    #[error(
        "pool `{pool}` is mounted at {}; unmount it first: `warmfront unmount {pool}`",
        mountpoint.display()
    )]
    Mounted {
        /// The pool.
        pool: String,
        /// Where.
        mountpoint: PathBuf,
    },
    /// The daemon is there but the connection does not work.
    #[error("the daemon of pool `{pool}` does not answer as it should: {error}")]
    Connection {
        /// The pool.
        pool: String,
        /// What went wrong.
        error: LineError,
    },
    /// The daemon answered something else than what was asked.
    #[error("the daemon of pool `{pool}` answered something else than what was asked")]
    WrongAnswer {
        /// The pool.
        pool: String,
    },
    /// The daemon refused.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The mount is in use.
    #[error("{} is in use{}\nclose these, or detach it with `warmfront unmount --lazy {}`",
        mountpoint.display(), Holders(.holders), mountpoint.display())]
    Busy {
        /// The mount point.
        mountpoint: PathBuf,
        /// By whom, as far as this user may see.
        holders: Vec<Holder>,
    },
    /// The mount could not be taken away.
    #[error(transparent)]
    Unmount(#[from] fuse::UnmountError),
    /// The pool's settings cannot be used.
    #[error(transparent)]
    Settings(#[from] PoolFileError),
    /// A cache device cannot be used.
    #[error("{}{}", .0, force_hint(.0))]
    Cache(#[from] CacheError),
    /// A log device cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A directory cannot serve as an origin.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// There is no place for settings or sockets.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// A dataset or property is wrong.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// What belongs to a pool stays though it is removed.
    #[error("cannot remove {}: {error}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The system refuses something that should work.
    #[error("cannot read {}: {error}", path.display())]
    System {
        /// What was looked at.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
}

fn force_hint(error: &CacheError) -> &'static str {
    if error.is_forceable() { " (--force)" } else { "" }
}

impl ControlError {
    /// Whether the request itself makes no sense, as an unknown property, rather than the world
    /// being against it.
    pub fn is_usage(&self) -> bool {
        match self {
            ControlError::Refused(refusal) => refusal.is_usage,
            ControlError::Dataset(error)
            | ControlError::Settings(PoolFileError::Dataset(error)) => is_usage(error),
            _ => false,
        }
    }
}

/// Whether the request itself makes no sense.
pub(crate) fn is_usage(error: &DatasetError) -> bool {
    matches!(
        error,
        DatasetError::Property(_)
            | DatasetError::BadName { .. }
            | DatasetError::BadPath { .. }
            | DatasetError::Share(_)
    )
}

/// Why nothing is meant where nothing was named.
fn ambiguous(pools: &[String]) -> String {
    match pools.len() {
        0 => {
            "no pool is mounted; `warmfront mount ORIGIN MOUNTPOINT` mounts a directory".to_string()
        }
        many => format!(
            "name a pool, a dataset, a mount point or a path under one: {many} pools are mounted{}",
            listed(pools)
        ),
    }
}

fn files(count: u64) -> String {
    if count == 1 { "one file".to_string() } else { format!("{count} files") }
}

fn listed(pools: &[String]) -> String {
    if pools.is_empty() { String::new() } else { format!(" ({})", pools.join(", ")) }
}

/// Prints who holds a mount, a line each.
pub(crate) struct Holders<'a>(pub &'a [Holder]);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str(" by processes that this user may not see");
        }
        formatter.write_str(" by")?;
        for Holder { pid, name, how, path } in self.0 {
            match pid {
                0 => write!(formatter, "\n  {name}: {how}")?,
                pid => write!(formatter, "\n  process {pid} ({name}): {how}")?,
            }
            if let Some(path) = path {
                write!(formatter, " {}", path.display())?;
            }
        }
        Ok(())
    }
}
