use std::sync::Arc;

use storage::{AlignedBuffer, Device, DeviceError};

use crate::blank::is_erased;
use crate::block::Header;
use crate::layout::{Layout, PAGE_BYTES};
use crate::superblock::Start;

/// How much is read at a time, bytes; a longer block is read as a whole.
const WINDOW_BYTES: u64 = 1 << 20;

/// Reads a ring from one end to the other, through a window. What a device that was cut shorter
/// does not have any more is read as zeros.
pub(crate) struct Reader {
    device: Arc<dyn Device>,
    layout: Layout,
    /// Whole pages that the device has, bytes.
    device_bytes: u64,
    salt: [u8; 16],
    window: AlignedBuffer,
    /// The address of the window's first byte.
    address: u64,
}

impl Reader {
    pub(crate) fn new(device: Arc<dyn Device>, layout: Layout, salt: [u8; 16]) -> Reader {
        let device_bytes = device.info().size_bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let window = AlignedBuffer::default();
        Reader { device, layout, device_bytes, salt, window, address: 0 }
    }

    /// The bytes from `address` on, which do not go round the ring's end.
    async fn get(&mut self, address: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        let covered = |reader: &Reader| {
            address >= reader.address
                && address + bytes <= reader.address + reader.window.len() as u64
        };
        if !covered(self) {
            let length = bytes.max(WINDOW_BYTES).min(self.layout.rest(address));
            if self.fill(address, length).await.is_err() {
                // Perhaps only what is not asked for can not be read.
                self.fill(address, bytes).await?;
            }
        }
        let start = (address - self.address) as usize;
        Ok(&self.window[start..start + bytes as usize])
    }

    async fn fill(&mut self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let mut buffer = std::mem::take(&mut self.window);
        if buffer.capacity() < bytes as usize {
            buffer = AlignedBuffer::zeroed(bytes as usize);
        }
        let offset = self.layout.offset(address);
        let there = self.device_bytes.saturating_sub(offset).min(bytes) as usize;
        buffer.set_len(there);
        if there > 0 {
            buffer = self.device.read(offset, buffer).await?;
        }
        buffer.set_len(bytes as usize);
        buffer[there..].fill(0);
        self.window = buffer;
        self.address = address;
        Ok(())
    }

    /// The header that stands at an address, if one does.
    pub(crate) async fn header(&mut self, address: u64) -> Result<Option<Header>, DeviceError> {
        let (salt, layout) = (self.salt, self.layout);
        let page = self.get(address, PAGE_BYTES as u64).await?;
        let header = Header::decode(page, &salt, &layout);
        Ok(header.filter(|header| header.start.address == address))
    }

    /// Whether the page at an address was cut off or overwritten: see [`crate::blank`].
    pub(crate) async fn is_erased(&mut self, address: u64) -> Result<bool, DeviceError> {
        self.get(address, PAGE_BYTES as u64).await.map(is_erased)
    }

    /// The block that is the next one of the chain, if it is there and whole. Its records are
    /// veiled.
    pub(crate) async fn block(
        &mut self,
        start: Start,
    ) -> Result<Option<(Header, &[u8])>, DeviceError> {
        let header = self.header(start.address).await?;
        let Some(header) = header.filter(|header| header.start == start) else { return Ok(None) };
        let block = self.get(start.address, header.block_bytes()).await?;
        Ok(header.is_whole(block).then_some((header, block)))
    }
}
