use super::builder::{Builder, Full};

/// Byte ranges are split in blocks of so many bytes.
pub const SPLIT_BYTES: u32 = 4096;

/// Bytes of a disk's sector.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Adds the blocks that a range of bytes touches. `device` tells disks apart.
///
/// `Err(None)`: the range, or the device's number, is beyond what there can be.
pub(super) fn push_range(
    requests: &mut Builder,
    device: u64,
    first_sector: u64,
    bytes: u64,
) -> Result<(), Option<Full>> {
    let start = first_sector.checked_mul(SECTOR_BYTES).ok_or(None)?;
    let end = start.checked_add(bytes).ok_or(None)?;
    if device > DEVICE_MAX {
        return Err(None);
    }
    let (first, count) = split(start, end);
    requests.push_run((device << BLOCK_BITS) | first, count, SPLIT_BYTES).map_err(Some)
}

/// The first block of a range of bytes, and how many it touches: none if it is empty.
pub(super) fn split(start: u64, end: u64) -> (u64, u64) {
    let block = u64::from(SPLIT_BYTES);
    let touched = if start == end { 0 } else { end.div_ceil(block) - start / block };
    (start / block, touched)
}

/// A block's number has at most so many bits: 64 less those of an offset in a block.
const BLOCK_BITS: u32 = 64 - SPLIT_BYTES.trailing_zeros();

/// Greatest number of a device.
pub(super) const DEVICE_MAX: u64 = (1 << (64 - BLOCK_BITS)) - 1;
