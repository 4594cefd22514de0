use std::sync::Arc;

use parking_lot::RwLock;

use super::{AlignedBuffer, Device, DeviceInfo, DeviceTask, check};

/// A device in memory. What is discarded reads as zeros.
///
/// ```
/// # storage::block_on(async {
/// use storage::{AlignedBuffer, Device, MemoryDevice};
///
/// let device = MemoryDevice::new(1 << 20, 4096);
/// assert_eq!(device.read(0, AlignedBuffer::zeroed(4096)).await?[..3], [0, 0, 0]);
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub struct MemoryDevice {
    info: DeviceInfo,
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// A device of `size_bytes` zeros with blocks of `block_bytes`.
    ///
    /// ```
    /// let device = storage::MemoryDevice::new(8192, 4096);
    /// assert_eq!(device.image(), vec![0; 8192]);
    /// ```
    pub fn new(size_bytes: usize, block_bytes: usize) -> MemoryDevice {
        MemoryDevice::with_image(vec![0; size_bytes], block_bytes)
    }

    /// A device that holds `image`.
    ///
    /// ```
    /// let device = storage::MemoryDevice::with_image(vec![7; 8192], 4096);
    /// assert_eq!(device.image(), vec![7; 8192]);
    /// ```
    pub fn with_image(image: Vec<u8>, block_bytes: usize) -> MemoryDevice {
        let size_bytes = image.len() as u64;
        let info = DeviceInfo { name: "memory".to_owned(), size_bytes, block_bytes };
        MemoryDevice { info, bytes: RwLock::new(image) }
    }

    /// A copy of what it holds.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{AlignedBuffer, Device, MemoryDevice};
    ///
    /// let device = MemoryDevice::with_image(vec![7; 8192], 4096);
    /// device.write(0, Arc::new(AlignedBuffer::zeroed(4096))).await?;
    /// assert_eq!(device.image()[4095..4097], [0, 7]);
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn image(&self) -> Vec<u8> {
        self.bytes.read().clone()
    }

    /// Changes what it holds, past the device: for tests that damage it.
    ///
    /// ```
    /// let device = storage::MemoryDevice::new(8192, 4096);
    /// // A bit has turned over.
    /// device.change(|bytes| bytes[100] ^= 4);
    /// assert_eq!(device.image()[100], 4);
    /// ```
    pub fn change<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        change(&mut self.bytes.write())
    }
}

impl Device for MemoryDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset: u64, mut buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        Box::pin(async move {
            check(&self.info, "read", offset, buffer.len() as u64)?;
            let range = offset as usize..offset as usize + buffer.len();
            buffer.copy_from_slice(&self.bytes.read()[range]);
            Ok(buffer)
        })
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "write", offset, buffer.len() as u64)?;
            let start = offset as usize;
            self.bytes.write()[start..start + buffer.len()].copy_from_slice(&buffer);
            Ok(())
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "discard", offset, bytes)?;
            let start = offset as usize;
            self.bytes.write()[start..start + bytes as usize].fill(0);
            Ok(())
        })
    }
}
