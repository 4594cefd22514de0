//! Pages that no block has been written to yet.
//!
//! No page of a ring is ever all zeros: a new log is filled with blank pages, which begin with a
//! mark, and the records of a block are veiled with its salt, so that zeros of a file are none
//! there. One more blank page follows the ring and stays. So a page of zeros behind the last block,
//! or that page missing, tell that a part of the device was cut off or overwritten.

use std::sync::Arc;

use futures::stream::{TryStreamExt, iter};
use storage::{AlignedBuffer, Device, DeviceError};

use crate::layout::{Layout, PAGE_BYTES, RING_OFFSET};

/// What a blank page begins with; the rest of it is zeros.
const MAGIC: [u8; 8] = *b"WARMFNIL";
/// Length of a write that fills a log, and how many are under way at a time.
const FILL: (u64, usize) = (1 << 20, 4);

/// Blank pages.
pub(crate) fn blank(bytes: usize) -> Arc<AlignedBuffer> {
    let mut buffer = AlignedBuffer::zeroed(bytes);
    buffer
        .chunks_exact_mut(PAGE_BYTES)
        .for_each(|page| page[..MAGIC.len()].copy_from_slice(&MAGIC));
    Arc::new(buffer)
}

pub(crate) fn is_blank(page: &[u8]) -> bool {
    page.starts_with(&MAGIC)
}

/// Whether a page holds what nobody writes to a ring.
pub(crate) fn is_erased(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// Whether the page that follows the ring is as it was made.
pub(crate) async fn has_end(device: &dyn Device, layout: &Layout) -> Result<bool, DeviceError> {
    let page = device.read(layout.end_offset(), AlignedBuffer::zeroed(PAGE_BYTES)).await?;
    Ok(is_blank(&page))
}

/// Writes blank pages to the whole ring and behind it, and tells how many bytes of how many are
/// done.
pub(crate) async fn fill(
    device: &dyn Device,
    layout: &Layout,
    tell: &(dyn Fn(u64, u64) + Send + Sync),
) -> Result<(), DeviceError> {
    let (step, together) = FILL;
    let pages = blank(step as usize);
    let whole = layout.ring_bytes / step;
    let writes = (0..whole).map(|index| {
        let write = device.write(RING_OFFSET + index * step, pages.clone());
        Ok::<_, DeviceError>(write)
    });
    let mut writes = iter(writes).try_buffer_unordered(together);
    let mut filled_bytes = 0;
    while writes.try_next().await?.is_some() {
        filled_bytes += step;
        tell(filled_bytes, layout.ring_bytes);
    }
    drop(writes);
    let begin = RING_OFFSET + whole * step;
    let rest = layout.end_offset() + PAGE_BYTES as u64 - begin;
    device.write(begin, blank(rest as usize)).await?;
    device.flush().await
}
