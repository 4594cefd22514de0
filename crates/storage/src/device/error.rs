use rustix::io::Errno;

/// Why a device could not do what it was asked.
///
/// ```
/// use storage::{AlignedBuffer, Device, DeviceError, MemoryDevice};
///
/// let device = MemoryDevice::new(8192, 4096);
/// let beyond = storage::block_on(device.read(8192, AlignedBuffer::zeroed(4096)));
/// assert!(matches!(beyond, Err(DeviceError::OutOfRange { offset: 8192, .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The operating system refused the call.
    #[error("{operation}: {errno}")]
    System {
        /// What was attempted, as a verb: "open", "read", "write".
        operation: &'static str,
        /// The errno that came back.
        errno: Errno,
    },
    /// Fewer bytes were moved than asked for.
    #[error("{operation} at offset {offset}: {moved} bytes moved instead of {bytes}")]
    Short {
        /// What was attempted.
        operation: &'static str,
        /// Where, bytes.
        offset: u64,
        /// How many bytes were asked for.
        bytes: u64,
        /// How many were moved.
        moved: u64,
    },
    /// The device has not answered within its deadline.
    #[error("{operation}: no answer within {seconds} s")]
    TimedOut {
        /// What was attempted.
        operation: &'static str,
        /// The deadline, seconds.
        seconds: u64,
    },
    /// More calls are under way than the device may have waiting.
    #[error("{operation}: too many calls wait for the device")]
    Busy {
        /// What was attempted.
        operation: &'static str,
    },
    /// The call reaches beyond the device, or is not aligned to its blocks.
    #[error("{operation}: {bytes} bytes at offset {offset} do not lie on the device's blocks")]
    OutOfRange {
        /// What was attempted.
        operation: &'static str,
        /// Where, bytes.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// The device has no such operation.
    #[error("{operation}: not supported by this device")]
    Unsupported {
        /// What was attempted.
        operation: &'static str,
    },
    /// The device is gone: its driver has ended.
    #[error("{operation}: the device is closed")]
    Closed {
        /// What was attempted.
        operation: &'static str,
    },
    /// Somebody else uses the device.
    #[error(
        "{name} is in use, by another process or for something else here; stop that first, or \
         name another"
    )]
    InUse {
        /// The path.
        name: String,
    },
    /// A loop device stands for the file.
    #[error(
        "{name} is the file behind the loop device {to}; name that one, or detach it first with \
         `losetup -d {to}`"
    )]
    Attached {
        /// The path.
        name: String,
        /// The loop device.
        to: String,
    },
    /// What is there is neither a file nor a block device.
    #[error("{name} is neither a file nor a block device")]
    WrongKind {
        /// The path.
        name: String,
    },
}

impl DeviceError {
    /// An error of the system below, for use with `map_err`.
    ///
    /// ```
    /// use storage::DeviceError;
    ///
    /// let failed: Result<(), rustix::io::Errno> = Err(rustix::io::Errno::IO);
    /// let error = failed.map_err(DeviceError::system("read")).unwrap_err();
    /// assert!(error.to_string().starts_with("read: "), "{error}");
    /// ```
    pub fn system(operation: &'static str) -> impl FnOnce(Errno) -> DeviceError {
        move |errno| match errno {
            Errno::OPNOTSUPP => DeviceError::Unsupported { operation },
            errno => DeviceError::System { operation, errno },
        }
    }
}
