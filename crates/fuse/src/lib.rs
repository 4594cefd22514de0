//! The kernel's FUSE protocol.
//!
//! [`mount`] attaches a file system, [`Session`] serves it.
mod buffer;
mod crew;
mod device;
mod directory;
mod dispatch;
mod door;
mod errno;
mod filesystem;
mod flags;
mod interrupt;
mod mount;
mod notify;
mod reply;
mod request;
mod session;

pub mod abi;

pub use crew::Crewing;
pub use device::DEVICE;
pub use directory::{DirectoryBuffer, Name};
pub use door::{Door, KernelInvalidation};
pub use filesystem::{Call, Entry, Filesystem, Kernel, Opened, Result, Settings};
pub use flags::*;
pub use interrupt::Interrupt;
pub use mount::{Mount, MountError, MountOptions, UnmountError, is_disconnected, mount, unmount};
pub use notify::Notifier;
pub use reply::{PIECES_MAX, ReadReply};
pub use request::{Malformed, Operation, header, operation};
pub use session::{REQUEST_BYTES_MAX, Session, SessionError};
