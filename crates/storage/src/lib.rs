//! What bytes lie on.
//!
//! An [`Origin`] is the slow storage in front of which a pool stands, a [`Device`] what caches and
//! logs lie on. [`Clock`] and [`Spawn`] are time and concurrency as the engine sees them. The
//! daemon gives the engine real ones; tests give it origins and devices that live in memory, that
//! fail, or that answer slowly.
//!
//! Everything that waits returns a [`Task`], a boxed future. Over real storage a task does its
//! system call on the thread that polls it: the daemon keeps one thread per call under way, and
//! needs no reactor. A device's calls go through io_uring, so that one task has many under way. In
//! a [`Simulation`], on a virtual clock, the same tasks wait for the simulated device instead.

mod attributes;
mod campaign;
mod clock;
mod device;
mod directory;
mod error;
mod faulty;
mod layer;
mod memory;
mod origin;
mod simulation;
mod slow;
mod spawn;

pub use attributes::{Attributes, Kind, SetAttributes, SetTime, Timestamp, Validator};
pub use campaign::Campaign;
pub use clock::{Clock, CoarseClock, RealClock};
pub use device::{
    AlignedBuffer, BUFFER_ALIGNMENT, CrashDevice, Crashes, Device, DeviceError, DeviceFaults,
    DeviceInfo, DeviceOperation, DeviceOptions, DeviceTask, FaultyDevice, FileDevice, MemoryDevice,
    QUEUE_MAX, Transport, block_on, foreign_contents, foreign_end,
};
pub use directory::{DIRECTORIES_MAX, DirectoryOptions, DirectoryOrigin, descriptors_for_files};
pub use error::{OriginError, Result};
pub use faulty::{Faults, FaultyOrigin};
pub use layer::{Call, Layer, Layered};
pub use memory::{CrashOrigin, MemoryOrigin, OriginCrashes};
pub use origin::{
    Allocation, Caller, Capabilities, Created, DirectoryEntry, Entry, Node, NodeKind, ObjectId,
    OpenMode, Origin, OriginFile, RenameFlags, SeekFrom, SpaceUsage, Task, Wait, XattrMode,
};
pub use simulation::{Random, Simulation};
pub use slow::{SlowModel, SlowOrigin, Slowness, UnknownSlowModel};
pub use spawn::{Spawn, ThreadPool};
