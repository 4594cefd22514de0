#![expect(unsafe_code, reason = "an ioctl's argument is not known to the compiler")]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

/// The device through which the kernel and the file system talk.
pub const DEVICE: &str = "/dev/fuse";

/// `FUSE_DEV_IOC_CLONE`: makes a freshly opened device speak for the session of another one.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Opens the device; it belongs to no mount yet.
pub(crate) fn open() -> Result<OwnedFd, Errno> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// A further descriptor of `session` with a queue of its own for the requests that it reads.
pub(crate) fn clone(session: &OwnedFd) -> Result<OwnedFd, Errno> {
    let device = open()?;
    let session = u32::try_from(session.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel reads one u32, the number of a descriptor that is open during the call.
    unsafe { ioctl(&device, Setter::<CLONE, u32>::new(session)) }?;
    Ok(device)
}
