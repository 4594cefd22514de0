use storage::DeviceInfo;

use crate::error::OpenError;

/// Blocks begin at multiples of this. No two share a page of a disk, so that writing one, torn or
/// not, can not damage another that lasts.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Where the slots of the superblock lie, bytes: the first copy for even and odd epochs, then the
/// second.
pub(crate) const SLOTS: [[u64; 2]; 2] = [[0, 32 << 10], [64 << 10, 96 << 10]];
/// Where the ring begins, bytes.
pub(crate) const RING_OFFSET: u64 = 128 << 10;
/// The longest ring, bytes. What it holds is in RAM too until its txg is committed, so more would
/// never be used.
const RING_BYTES_MAX: u64 = 8 << 30;
/// A ring has room for at least this many of the longest blocks.
const BLOCKS_MIN: u64 = 8;
/// Shortest and longest that the longest block may be, bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 8 << 10..=16 << 20;

/// Where what lies on a device.
///
/// The ring is spoken of in *addresses*, which only grow: the byte on the device is the remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size_bytes: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) block_bytes_max: u64,
}

impl Layout {
    /// The layout of a log on a device.
    ///
    /// # Errors
    /// When the device is too small.
    pub(crate) fn new(info: &DeviceInfo, block_bytes_max: usize) -> Result<Layout, OpenError> {
        let page = PAGE_BYTES as u64;
        let block_bytes_max = (block_bytes_max as u64).next_multiple_of(page);
        let block_bytes_max = block_bytes_max.clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let size_bytes = info.size_bytes;
        let room_bytes = size_bytes.saturating_sub(RING_OFFSET + page);
        let ring_bytes = room_bytes.min(RING_BYTES_MAX) / page * page;
        let needed_bytes = RING_OFFSET + BLOCKS_MIN * block_bytes_max + page;
        if ring_bytes < BLOCKS_MIN * block_bytes_max {
            return Err(OpenError::TooSmall { size_bytes, needed_bytes });
        }
        Ok(Layout { size_bytes, ring_bytes, block_bytes_max })
    }

    /// Whether the numbers go together.
    pub(crate) fn is_sound(&self) -> bool {
        let page = PAGE_BYTES as u64;
        BLOCK_BYTES.contains(&self.block_bytes_max)
            && self.block_bytes_max.is_multiple_of(page)
            && self.ring_bytes.is_multiple_of(page)
            && (BLOCKS_MIN * self.block_bytes_max..=RING_BYTES_MAX).contains(&self.ring_bytes)
            && self.size_bytes.checked_sub(RING_OFFSET + page) >= Some(self.ring_bytes)
    }

    /// Where on the device an address lies.
    pub(crate) fn offset(&self, address: u64) -> u64 {
        RING_OFFSET + address % self.ring_bytes
    }

    /// Where on the device the page lies that follows the ring.
    pub(crate) fn end_offset(&self) -> u64 {
        RING_OFFSET + self.ring_bytes
    }

    /// Bytes from an address to the end of the ring.
    pub(crate) fn rest(&self, address: u64) -> u64 {
        self.ring_bytes - address % self.ring_bytes
    }

    /// Where the block begins that follows one which ends at `end`. That depends on nothing else,
    /// so the place of the next block is always known: a block that may be as long as any does not
    /// go round the ring's end.
    pub(crate) fn next_block(&self, end: u64) -> u64 {
        match self.rest(end) {
            rest if rest < self.block_bytes_max => end + rest,
            _ => end,
        }
    }

    /// The bytes of a ring that tell blocks from which a start can go on, at least.
    pub(crate) fn mark_bytes(&self) -> u64 {
        self.ring_bytes / 4096
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_go_round_the_end() {
        let info = DeviceInfo { name: "a".into(), size_bytes: (1 << 20) + 512, block_bytes: 512 };
        let layout = Layout::new(&info, 16 << 10).expect("large enough");
        assert!(layout.is_sound());
        let mut address = 0;
        for _ in 0..1000 {
            assert_eq!(layout.next_block(address), address, "once is enough");
            assert!(layout.rest(address) >= layout.block_bytes_max);
            let end = layout.offset(address) + layout.block_bytes_max;
            assert!(end <= layout.end_offset() && layout.offset(address) >= RING_OFFSET);
            assert!(layout.end_offset() + PAGE_BYTES as u64 <= layout.size_bytes);
            address = layout.next_block(address + 3 * PAGE_BYTES as u64);
        }
    }

    #[test]
    fn a_small_device_is_refused() {
        let info = DeviceInfo { name: "a".into(), size_bytes: 250 << 10, block_bytes: 512 };
        let refused = Layout::new(&info, 16 << 10).expect_err("too small");
        assert_eq!(refused, OpenError::TooSmall { size_bytes: 250 << 10, needed_bytes: 260 << 10 });
    }
}
