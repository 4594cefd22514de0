use crate::error::AddError;
use crate::journal::{BLOCK_BYTES, checkpoint_blocks};
use crate::location::{SEGMENTS_MAX, UNIT_BYTES, UNITS_MAX};

/// Where the copies of the superblock lie, bytes.
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, 64 << 10];
/// Where the journal begins, bytes.
const JOURNAL_OFFSET: u64 = 128 << 10;
/// Fewest segments of a ring.
const SEGMENTS_MIN: u32 = 4;
/// Segments are made as large as leaves this many, within their bounds.
const SEGMENTS_WANTED: u64 = 256;
/// The smallest segment that is chosen, bytes.
const SEGMENT_BYTES_MIN: u64 = 4 << 20;
/// The largest segment, bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = UNITS_MAX as u64 * UNIT_BYTES as u64;
/// Tombstones that the journal has room for, for each segment, within their maximum.
const TOMBSTONES_EACH: u64 = 64;
/// Fewest and most tombstones of a ring.
const TOMBSTONES: (u64, u64) = (512, 1 << 20);

/// Where what lies on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) segments: u32,
    pub(crate) journal_offset: u64,
    /// Bytes of each of the journal's two halves.
    pub(crate) half_bytes: u64,
    pub(crate) data_offset: u64,
}

impl Layout {
    /// The layout of a device of `size_bytes`; `segment_bytes` overrides the choice of segments.
    ///
    /// # Errors
    /// When the device is too small.
    pub(crate) fn new(
        size_bytes: u64,
        block_bytes: usize,
        segment_bytes: Option<u64>,
    ) -> Result<Layout, AddError> {
        let wanted = (size_bytes / SEGMENTS_WANTED).max(1).next_power_of_two();
        let segment_bytes =
            segment_bytes.unwrap_or(wanted.max(SEGMENT_BYTES_MIN)).min(SEGMENT_BYTES_MAX);
        let segment_bytes = segment_bytes.next_multiple_of(BLOCK_BYTES as u64);
        let data_offset = |half_bytes| {
            u64::next_multiple_of(JOURNAL_OFFSET + 2 * half_bytes, segment_bytes.min(1 << 20))
        };
        let needed_bytes =
            data_offset(half_bytes(SEGMENTS_MIN)) + u64::from(SEGMENTS_MIN) * segment_bytes;
        if size_bytes < needed_bytes {
            return Err(AddError::TooSmall { size_bytes, needed_bytes });
        }
        let most = (size_bytes / segment_bytes).min(u64::from(SEGMENTS_MAX)) as u32;
        // Where the journal of as many would leave no room for them, it is made for the fewest.
        let behind = |half_bytes| {
            let data_bytes = size_bytes.saturating_sub(data_offset(half_bytes));
            (data_bytes / segment_bytes).min(u64::from(SEGMENTS_MAX)) as u32
        };
        let (half_bytes, segments) = match behind(half_bytes(most)) {
            SEGMENTS_MIN.. => (half_bytes(most), behind(half_bytes(most))),
            _ => (half_bytes(SEGMENTS_MIN), SEGMENTS_MIN),
        };
        let data_offset = data_offset(half_bytes);
        Ok(Layout {
            size_bytes,
            block_bytes,
            segment_bytes,
            segments,
            journal_offset: JOURNAL_OFFSET,
            half_bytes,
            data_offset,
        })
    }

    /// Whether the parts lie one behind the other on a device of that size.
    pub(crate) fn is_sound(&self) -> bool {
        let halves = self.half_bytes.checked_mul(2);
        let journal_end = halves.and_then(|halves| self.journal_offset.checked_add(halves));
        let data = u64::from(self.segments).checked_mul(self.segment_bytes);
        let data_end = data.and_then(|data| self.data_offset.checked_add(data));
        let units = self.segment_bytes / UNIT_BYTES as u64;
        self.block_bytes.is_power_of_two()
            && (512..=BLOCK_BYTES).contains(&self.block_bytes)
            && (SEGMENTS_MIN..=SEGMENTS_MAX).contains(&self.segments)
            && (1..=u64::from(UNITS_MAX)).contains(&units)
            && self.segment_bytes.is_multiple_of(BLOCK_BYTES as u64)
            && self.journal_offset == JOURNAL_OFFSET
            && self.half_bytes.is_multiple_of(2 * BLOCK_BYTES as u64)
            && self.half_bytes >= half_bytes(self.segments)
            && self.data_offset.is_multiple_of(BLOCK_BYTES as u64)
            && journal_end.is_some_and(|end| end <= self.data_offset)
            && data_end.is_some_and(|end| end <= self.size_bytes)
    }

    /// Most tombstones that may be alive.
    pub(crate) fn tombstones_max(&self) -> usize {
        tombstones_max(self.segments)
    }

    /// Blocks of a half of the journal.
    pub(crate) fn half_blocks(&self) -> u64 {
        self.half_bytes / (2 * BLOCK_BYTES as u64)
    }

    /// Where a half of the journal begins, bytes.
    pub(crate) fn half_offset(&self, half: usize) -> u64 {
        self.journal_offset + half as u64 * self.half_bytes
    }

    /// Where a segment begins, bytes.
    pub(crate) fn segment_offset(&self, segment: u32) -> u64 {
        self.data_offset + u64::from(segment) * self.segment_bytes
    }
}

fn tombstones_max(segments: u32) -> usize {
    (u64::from(segments) * TOMBSTONES_EACH).clamp(TOMBSTONES.0, TOMBSTONES.1) as usize
}

/// Room for the largest checkpoint, and as much again for what is appended to it.
fn half_bytes(segments: u32) -> u64 {
    let blocks = checkpoint_blocks(2 * segments as usize + tombstones_max(segments));
    2 * BLOCK_BYTES as u64 * (2 * blocks + 16)
}
