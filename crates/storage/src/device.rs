//! Block devices and files that serve as such: what caches and logs lie on.

mod backing;
mod blocking;
mod buffer;
mod crash;
mod error;
mod faulty;
mod file;
mod foreign;
mod memory;
mod request;
mod ring;
mod uring;
mod workers;

use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use blocking::block_on;
pub use buffer::{AlignedBuffer, BUFFER_ALIGNMENT};
pub use crash::{CrashDevice, Crashes};
pub use error::DeviceError;
pub use faulty::{DeviceFaults, DeviceOperation, FaultyDevice};
pub use file::{DeviceOptions, FileDevice, Transport};
pub use foreign::{foreign_contents, foreign_end};
pub use memory::MemoryDevice;
pub use request::QUEUE_MAX;

/// A call under way at a device.
///
/// ```
/// use storage::{AlignedBuffer, Device, DeviceTask, MemoryDevice};
///
/// let device = MemoryDevice::new(1 << 20, 4096);
/// let task: DeviceTask<'_, AlignedBuffer> = device.read(0, AlignedBuffer::zeroed(4096));
/// // Nothing is read until somebody waits for it.
/// assert_eq!(storage::block_on(task)?.len(), 4096);
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub type DeviceTask<'a, T> =
    Pin<Box<dyn Future<Output = std::result::Result<T, DeviceError>> + Send + 'a>>;

/// What a device is like.
///
/// ```
/// use storage::{Device, MemoryDevice};
///
/// let device = MemoryDevice::new(1 << 20, 4096);
/// assert_eq!((device.info().size_bytes, device.info().block_bytes), (1 << 20, 4096));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What people call it: a path.
    pub name: String,
    /// Its size in bytes, a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Offsets and lengths of reads and writes are multiples of this, a power of two of at most
    /// [`BUFFER_ALIGNMENT`]. A write of one such block is not promised to be atomic.
    pub block_bytes: usize,
}

/// Bytes at offsets, many calls at a time, in no order between them.
///
/// Calls own their buffers: a task that is dropped leaves the call to end by itself. A call that
/// takes longer than the device's deadline fails; what it does afterwards is not known.
///
/// ```
/// # storage::block_on(async {
/// use std::sync::Arc;
/// use storage::{AlignedBuffer, Device, MemoryDevice};
///
/// let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(1 << 20, 4096));
/// let mut block = AlignedBuffer::zeroed(4096);
/// block.fill(7);
/// device.write(8192, Arc::new(block)).await?;
/// device.flush().await?;
/// let read = device.read(8192, AlignedBuffer::zeroed(4096)).await?;
/// assert!(read.iter().all(|byte| *byte == 7));
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub trait Device: Send + Sync {
    /// Size and alignment. They do not change.
    fn info(&self) -> &DeviceInfo;

    /// Fills the whole of `buffer` from `offset`.
    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer>;

    /// Writes the whole of `buffer` at `offset`. It lasts only from the next
    /// [`flush`](Device::flush) on; until then a crash may leave any part of it.
    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()>;

    /// Makes durable what was written by calls that had ended before this one began.
    fn flush(&self) -> DeviceTask<'_, ()>;

    /// Writes the whole of `buffer` at `offset`; these bytes last when it ends. Where the device
    /// can do so, that is one call instead of a write and a flush.
    fn write_through(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.write(offset, buffer).await?;
            self.flush().await
        })
    }

    /// Says that the bytes are no longer needed. What they read as afterwards is not known.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device knows no such thing.
    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()>;

    /// Gives these bytes their space, where the device gives space to what is written only: so
    /// that writes to them do not fail later for want of it.
    ///
    /// # Errors
    /// When there is no space.
    fn allocate(&self, _offset: u64, _bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Whether a call lies on the device and keeps to its blocks.
fn check(
    info: &DeviceInfo,
    operation: &'static str,
    offset: u64,
    bytes: u64,
) -> Result<(), DeviceError> {
    let block = info.block_bytes as u64;
    let fits = offset.checked_add(bytes).is_some_and(|end| end <= info.size_bytes);
    if fits && offset.is_multiple_of(block) && bytes.is_multiple_of(block) {
        Ok(())
    } else {
        Err(DeviceError::OutOfRange { operation, offset, bytes })
    }
}

/// How long a device that is closed waits for calls under way.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits for threads that were told to end. Those whose calls do not come back are left behind,
/// with the buffers of these calls.
fn wait_for_end(threads: &[JoinHandle<()>]) {
    let patience = Instant::now() + PATIENCE;
    let current = std::thread::current().id();
    for thread in threads.iter().filter(|thread| thread.thread().id() != current) {
        while !thread.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
