//! Pools' life: their settings, their locks, how they are mounted, asked, changed and unmounted.
//!
//! A pool is served by a daemon, one process. What it says of itself lies in the runtime
//! directory for as long as it lives: a lock, a descriptor and a control socket, over which it
//! speaks the [`protocol`]. Commands find the daemon through these files and the kernel's list of
//! mounts, never by looking into a mount, which may be dead.
//!
//! Everything here blocks and runs on threads. An idle daemon waits in the kernel.

pub mod protocol;

mod advice;
mod allocator;
mod background;
mod caches;
mod ceiling;
mod change;
mod checks;
mod client;
mod control_group;
mod deadline;
mod descriptor;
mod device_open;
mod device_path;
mod device_user;
mod drain;
mod early_stop;
mod error;
mod holders;
mod line;
mod lock;
mod logging;
mod logs;
mod mount;
mod mountinfo;
mod neighbours;
mod origin_id;
mod origin_note;
mod origin_place;
mod overlap;
mod paths;
mod pool_file;
mod pools;
mod probe;
mod process;
mod request;
mod risks;
mod server;
mod service;
mod socket;
mod stuck;
mod target;
mod unmount;
mod warmth;
mod wire_path;
mod writes;

pub use background::{DAEMON_ARGUMENT, TellMount, mount_in_background, run_daemon};
pub use caches::{CacheError, CacheKey, CacheKeyError, Dwpd, DwpdError};
pub use ceiling::{
    ArcMax, Bounds, CEILING_BYTES_MIN, CeilingError, LimitSource, MemoryLimit, Reading, Room,
    Setting, Sources, memory_limit,
};
pub use checks::PlaceError;
pub use client::{Client, Draining};
pub use device_open::DeviceOpenError;
pub use device_path::{DevicePath, DevicePathError, DeviceRole};
pub use error::ControlError;
pub use holders::holders_of;
pub use line::LineError;
pub use lock::{LockError, Owner};
pub use logging::start as start_logging;
pub use logs::{
    GivenUp, Held, LogDiscarded, LogError, LogRecord, LogShown, LogTarget, MountProgress,
    WaitingLog,
};
pub use mount::mount_in_foreground;
pub use mountinfo::{MountEntry, mount_of, mounted_at, mounts};
pub use overlap::Overlap;
pub use paths::{POOL_NAME_BYTES_MAX, Paths, PathsError};
pub use pool_file::{NewPool, PoolFile, PoolFileError, Settings};
pub use pools::{
    Destroyed, PoolRow, Pools, add_cache, add_log, create_pool, destroy_pool, list_pools,
    pool_name, remove_cache, remove_log,
};
pub use probe::{PROBE_ARGUMENT, probe_device};
pub use request::{MountError, MountRequest, MountSource, Mounted};
pub use risks::risk;
pub use target::{Target, create_dataset};
pub use unmount::{Unmounted, unmount};
