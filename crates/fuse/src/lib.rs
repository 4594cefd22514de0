//! The kernel's FUSE protocol spoken directly, and the door from it to a pool.
//!
//! Two halves, of which the first knows nothing of the second:
//!
//! - **Transport.** [`mount`] attaches a file system to a directory: with `mount(2)` where the
//!   process may, else through `fusermount3`. [`Session::start`] shakes hands with the kernel and
//!   serves the mount from threads of its own. What is served implements [`Filesystem`]: one
//!   method per operation of the protocol (version 7.31 to 7.45), each of which returns what is
//!   to be replied. [`Notifier`] goes the other way and tells the kernel what to forget.
//! - **Door.** [`Door`] is the [`Filesystem`] over a `warmfront::Pool`: it turns requests into
//!   the pool's calls, and the pool's errors into errnos.
//!
//! # A read, from end to end
//!
//! A thread sleeps in `read(2)` on its own clone of the device. The request lands in its buffer
//! and is answered on the same thread: no queue, no hand-over. [`ReadReply::data`] takes pieces of
//! memory that stay where they are, in the cache, and sends header and pieces by one `writev(2)`:
//! the only copy is the kernel's, into the caller's memory.
//!
//! # Threads
//!
//! A call may block for as long as a slow origin takes. Therefore one thread is always left to
//! read the next request: whoever takes a request when nobody else is idle first starts another
//! thread, up to [`Crewing::threads_max`]. A thread counts as idle from the moment at which it
//! sends its reply, because its caller may ask anew before it has come back to read; otherwise a
//! busy machine would grow threads without any of them waiting. When more than
//! [`Crewing::idle_max`] have been idle over many requests, one ends. Idle threads sleep in the
//! kernel; there is no timer.
//!
//! Few idle threads are better than many: the kernel wakes them in turn, so that each finds its
//! processor's caches cold. A single one is worse than two, because it has to be woken from deep
//! idle for each request of a caller on another processor.
//!
//! # When things go wrong
//!
//! A request that is not what the protocol says is answered with `EIO`, an unknown one with
//! `ENOSYS`. A method that panics, or drops its [`ReadReply`], answers `EIO`; the session goes on.
//! When the mount ends, from whichever side, all threads end, and
//! [`destroy`](Filesystem::destroy) is called last.

mod buffer;
mod caller;
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
mod unheard;
mod watch;

pub mod abi;

pub use buffer::REQUEST_BYTES_MAX;
pub use crew::Crewing;
pub use device::DEVICE;
pub use directory::{DirectoryBuffer, Name};
pub use door::{Door, GroupError, KernelInvalidation, PASSING_GROUPS_MAX, PassingGroups};
pub use filesystem::{Call, Entry, Filesystem, Kernel, Opened, Result, Settings};
pub use flags::*;
pub use interrupt::Interrupt;
pub use mount::{
    Mount, MountError, MountOptions, UnmountError, abort, check, is_disconnected, mount, unmount,
};
pub use notify::Notifier;
pub use reply::{PIECES_MAX, ReadReply};
pub use request::{Malformed, Operation, header, operation};
pub use session::{Session, SessionError};
pub use watch::Stay;
