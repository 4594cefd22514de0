//! The superblock's slots: two copies, each with a slot for even epochs and one for odd ones.
//!
//! A superblock is written to both copies of one parity at a time, so that the one before, of the
//! other parity, is whole until the new one lasts.

use std::sync::Arc;

use futures::future::{join_all, try_join};
use storage::{AlignedBuffer, Device, DeviceError, foreign_contents, foreign_end};

use crate::blank::is_blank;
use crate::error::OpenError;
use crate::layout::{PAGE_BYTES, RING_OFFSET, SLOTS};
use crate::superblock::{Found, Superblock, VERSION};

/// Writes a superblock, and returns once it lasts.
pub(crate) async fn write_superblock(
    device: Arc<dyn Device>,
    superblock: Superblock,
) -> Result<(), DeviceError> {
    let mut buffer = AlignedBuffer::zeroed(PAGE_BYTES);
    superblock.encode(&mut buffer);
    let buffer = Arc::new(buffer);
    let [first, second] = SLOTS.map(|slots| slots[(superblock.epoch % 2) as usize]);
    try_join(device.write(first, buffer.clone()), device.write(second, buffer)).await?;
    device.flush().await
}

/// Reads the superblock that counts.
pub(crate) async fn read_superblock(device: &dyn Device) -> Result<Superblock, OpenError> {
    let size_bytes = device.info().size_bytes;
    if size_bytes < RING_OFFSET {
        return Err(OpenError::NoRoom { size_bytes });
    }
    let mut found = Vec::new();
    for parity in 0..2 {
        let reads =
            SLOTS.map(|slots| device.read(slots[parity], AlignedBuffer::zeroed(PAGE_BYTES)));
        let [first, second] = join_all(reads).await.try_into().expect("as many as were asked for");
        // One copy will do, but what can not be read at all may have been the newest.
        found.push(match (first, second) {
            (Ok(first), Ok(second)) => vec![first, second],
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => vec![one],
            (Err(error), Err(_)) => return Err(error.into()),
        });
    }
    let decode = |copies: &Vec<AlignedBuffer>| -> Vec<Found> {
        copies.iter().map(|bytes| Superblock::decode(bytes)).collect()
    };
    let found: Vec<Vec<Found>> = found.iter().map(decode).collect();
    // A later version may have left a slot to us. It writes both copies before it goes on, so that
    // beside a whole one of ours its number is damage, or what it did has not lasted.
    let is_ours = |found: &Found| matches!(found, Found::Superblock(_));
    let later = found.iter().filter(|copies| !copies.iter().any(is_ours));
    if let Some(found) = later.flatten().find_map(|found| match found {
        Found::Version(version) => Some(*version),
        _ => None,
    }) {
        return Err(OpenError::Version { found, known: VERSION });
    }
    let found = found.concat();
    let superblocks = found.iter().filter_map(|found| match found {
        Found::Superblock(superblock) => Some(*superblock),
        _ => None,
    });
    if let Some(superblock) = superblocks.max_by_key(|superblock| superblock.epoch) {
        return Ok(superblock);
    }
    if found.contains(&Found::Damaged) {
        return Err(OpenError::Damaged);
    }
    let found = foreign(device).await?;
    Err(match found {
        // Whoever removes a log takes this away as well.
        Some(_) if is_log_without_superblock(device).await? => OpenError::Damaged,
        Some(found) => OpenError::Foreign { found },
        None => OpenError::NoLog,
    })
}

/// Whether a device begins with zeros and ends as a log does.
async fn is_log_without_superblock(device: &dyn Device) -> Result<bool, DeviceError> {
    let page = PAGE_BYTES as u64;
    let last = (device.info().size_bytes / page).saturating_sub(1) * page;
    let begin = device.read(0, AlignedBuffer::zeroed(RING_OFFSET as usize)).await?;
    let end = device.read(last, AlignedBuffer::zeroed(PAGE_BYTES)).await?;
    Ok(foreign_contents(&begin).is_none() && is_blank(&end))
}

/// What another program has put at the beginning or the end of a device that holds no log.
pub(crate) async fn foreign(device: &dyn Device) -> Result<Option<&'static str>, DeviceError> {
    let read = |at| device.read(at, AlignedBuffer::zeroed(RING_OFFSET as usize));
    if let Some(found) = foreign_contents(&read(0).await?) {
        return Ok(Some(found));
    }
    let end = device.info().size_bytes.saturating_sub(RING_OFFSET);
    Ok(foreign_end(&read(end).await?))
}

/// Whether the beginning of a device holds no log.
pub(crate) fn is_free(bytes: &[u8]) -> Result<(), OpenError> {
    for slot in SLOTS.as_flattened() {
        match Superblock::decode(&bytes[*slot as usize..]) {
            Found::Other => {}
            Found::Version(found) => return Err(OpenError::Version { found, known: VERSION }),
            Found::Superblock(_) | Found::Damaged => return Err(OpenError::AlreadyLog),
        }
    }
    Ok(())
}
