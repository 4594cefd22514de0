use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warmfront::{EngineError, PropertyError, Size};

use crate::caches::{CacheError, CacheKey, Dwpd};
use crate::ceiling::{ArcMax, CeilingError};
use crate::checks::PlaceError;
use crate::device_path::DevicePath;
use crate::error::is_usage;
use crate::lock::LockError;
use crate::logs::LogError;
use crate::paths::{Paths, PathsError};
use crate::pool_file::PoolFileError;
use crate::protocol::Descriptor;
use crate::wire_path;

/// Longest wait for the first answer of a new mount.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// What is to be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A directory, as a pool that lasts until it is unmounted.
    Directory(#[serde(with = "wire_path")] PathBuf),
    /// A pool that has a settings file.
    Pool(String),
}

impl MountSource {
    /// What a command line names: a pool if there is one of that name, else a directory.
    pub fn parse(paths: &Paths, text: &OsStr) -> MountSource {
        match text.to_str().filter(|name| !name.contains('/') && !name.starts_with('.')) {
            Some(name) if !name.is_empty() && paths.settings(name).exists() => {
                MountSource::Pool(name.to_string())
            }
            _ => MountSource::Directory(text.into()),
        }
    }
}

/// How a pool is to be mounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountRequest {
    /// What.
    pub source: MountSource,
    /// Where; by default where the pool's settings say.
    #[serde(with = "wire_path::option")]
    pub mountpoint: Option<PathBuf>,
    /// Properties of the pool's own dataset, until it is unmounted.
    pub properties: Vec<(String, String)>,
    /// The ceiling; by default what the pool's settings say, else `auto`.
    pub arc_max: Option<ArcMax>,
    /// What the ceiling never shrinks below; by default what the pool's settings say.
    pub arc_min: Option<Size>,
    /// Refuse every change.
    pub read_only: bool,
    /// Let other users use the mount.
    pub allow_other: bool,
    /// Slow the origin down to the model of this name.
    pub slow: Option<String>,
    /// Control groups whose reads do not count as use; if none, those of the pool's settings.
    #[serde(with = "wire_path::list")]
    pub no_promote_cgroups: Vec<PathBuf>,
    /// Cache devices; if none, those of the pool's settings.
    pub caches: Vec<DevicePath>,
    /// Take cache devices whatever lies on them.
    pub force_cache: bool,
    /// The log device; if none, that of the pool's settings.
    pub log: Option<DevicePath>,
    /// Go on without what a log holds that was in use.
    pub discard_log: bool,
    /// Take the log device whatever lies on it.
    pub force_log: bool,
    /// Do not bring back what an earlier start has written down.
    pub cold: bool,
    /// Drive writes a day that they are meant for; by default what the pool's settings say.
    pub dwpd: Option<Dwpd>,
    /// What they are encrypted with; by default what the pool's settings say.
    pub cache_key: Option<CacheKey>,
}

impl MountRequest {
    /// As the pool's settings say, else as by default.
    pub fn new(source: MountSource) -> MountRequest {
        MountRequest {
            source,
            mountpoint: None,
            properties: Vec::new(),
            arc_max: None,
            arc_min: None,
            read_only: false,
            allow_other: false,
            slow: None,
            no_promote_cgroups: Vec::new(),
            caches: Vec::new(),
            force_cache: false,
            log: None,
            discard_log: false,
            force_log: false,
            cold: false,
            dwpd: None,
            cache_key: None,
        }
    }
}

/// A mount that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// What is served, by whom, and where.
    pub descriptor: Descriptor,
    /// The bytes of RAM that everything together may take.
    pub ceiling_bytes: u64,
    /// What was asked for: `auto`, a size or a share of the memory.
    pub ceiling_setting: String,
    /// The cache devices.
    pub caches: Vec<DevicePath>,
    /// The log device.
    pub log_device: Option<DevicePath>,
    /// What was done or is not as it should be, for people.
    pub notes: Vec<String>,
}

/// Why a pool was not mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Origin and mount point do not fit.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No mount point was given, and no settings have one.
    #[error(
        "where is `{origin}` to be mounted? Give a mount point after it; for a pool it may also \
         stand as `mountpoint` in its settings file"
    )]
    NoMountpoint {
        /// The pool or directory.
        origin: String,
    },
    /// The same is served already.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The pool's settings cannot be used.
    #[error(transparent)]
    Settings(#[from] PoolFileError),
    /// There is no place for settings or sockets.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// A property given for this mount is wrong.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A control group was named that cannot be one.
    #[error("--no-promote-cgroup: {0}")]
    Group(#[from] fuse::GroupError),
    /// A cache device cannot be used.
    #[error("{error}{}", force_hint(error))]
    Cache {
        /// Why.
        #[from]
        error: CacheError,
    },
    /// The log device cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no model of that name.
    #[error("{0}")]
    SlowModel(String),
    /// The ceiling makes no sense here.
    #[error(transparent)]
    Ceiling(#[from] CeilingError),
    /// The origin does not answer.
    #[error("the origin {} cannot be used: {error}", path.display())]
    Origin {
        /// The origin.
        path: PathBuf,
        /// Why.
        error: EngineError,
    },
    /// The kernel or its helper refused the mount.
    #[error(transparent)]
    Mount(#[from] fuse::MountError),
    /// The kernel and we do not understand each other.
    #[error(transparent)]
    Session(#[from] fuse::SessionError),
    /// Something of the system that should work does not.
    #[error("cannot {action}: {error}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// Log and cache would lie on each other.
    #[error("{} is named both as log and as cache device; give each its own", path.display())]
    BothDevices {
        /// The device.
        path: PathBuf,
    },
    /// Whoever waited for the mount has stopped that.
    #[error(
        "stopped before the mount answered; nothing is mounted. What a log holds that the origin \
         does not have stays there: the next mount, or `warmfront log replay`, begins again"
    )]
    Stopped,
    /// The mount does not answer.
    #[error("the mount at {} does not answer within {} seconds; it was taken away again",
        path.display(), ANSWER_MAX.as_secs())]
    Silent {
        /// The mount point.
        path: PathBuf,
    },
    /// The daemon in the background could not mount. The message is its own.
    #[error("{message}")]
    Background {
        /// What it said.
        message: String,
        /// Whether the request makes no sense.
        is_usage: bool,
    },
}

fn force_hint(error: &CacheError) -> &'static str {
    if error.is_forceable() { " (--force-cache)" } else { "" }
}

impl MountError {
    /// Whether the request itself makes no sense, as an unknown property, rather than the world
    /// being against it.
    pub fn is_usage(&self) -> bool {
        match self {
            MountError::Property(_)
            | MountError::Group(_)
            | MountError::SlowModel(_)
            | MountError::Ceiling(_)
            | MountError::NoMountpoint { .. } => true,
            MountError::Settings(PoolFileError::Dataset(error)) => is_usage(error),
            MountError::Background { is_usage, .. } => *is_usage,
            _ => false,
        }
    }
}
