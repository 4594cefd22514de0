use xxhash_rust::xxh3::Xxh3;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entry::{ENTRY_BYTES, JournalEntry};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// What epochs, and other numbers, of a block stay below.
const EPOCHS_MAX: u64 = 1 << 31;
const NUMBERS_MAX: u64 = 1 << 62;
/// Most entries of a block.
pub(crate) const ENTRIES_MAX: usize = (BLOCK_BYTES - HEADER_BYTES) / ENTRY_BYTES;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    sum: U64,
    epoch: U64,
    number: U64,
    first: U64,
    life: [u8; 16],
    written_bytes: U64,
    credit_bytes: U64,
    wall_seconds: U64,
    next_incarnation: U64,
    count: U16,
    kind: u8,
    reserved: [u8; 5],
}

const HEADER_BYTES: usize = size_of::<Raw>();
const _: () = assert!(HEADER_BYTES == 88);

/// What a block is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// A checkpoint that goes on in the next block.
    Checkpoint,
    /// The end of a checkpoint.
    CheckpointEnd,
    /// What happened since.
    Log,
}

/// What a block says besides its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Grows by one with each checkpoint.
    pub(crate) epoch: u64,
    /// The block's place in its half.
    pub(crate) number: u64,
    /// The place of the first block that was written together with this one.
    pub(crate) first: u64,
    pub(crate) kind: BlockKind,
    /// Which start of the pool wrote it.
    pub(crate) life: u128,
    /// Bytes written to the device since it was formatted.
    pub(crate) written_bytes: u64,
    /// What is left of the wear budget.
    pub(crate) credit_bytes: u64,
    /// When that was, in seconds since 1970.
    pub(crate) wall_seconds: u64,
    /// No segment has had this incarnation, nor a later one.
    pub(crate) next_incarnation: u64,
}

fn sum(bytes: &[u8], salt: &[u8; 16]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(salt);
    hash.update(&bytes[8..BLOCK_BYTES]);
    hash.digest()
}

/// Writes a block to the beginning of `bytes`.
pub(crate) fn encode(
    header: &BlockHeader,
    entries: &[JournalEntry],
    salt: &[u8; 16],
    bytes: &mut [u8],
) {
    let bytes = &mut bytes[..BLOCK_BYTES];
    bytes.fill(0);
    let raw = Raw {
        sum: 0.into(),
        epoch: header.epoch.into(),
        number: header.number.into(),
        first: header.first.into(),
        life: header.life.to_le_bytes(),
        written_bytes: header.written_bytes.into(),
        credit_bytes: header.credit_bytes.into(),
        wall_seconds: header.wall_seconds.into(),
        next_incarnation: header.next_incarnation.into(),
        count: (entries.len() as u16).into(),
        kind: match header.kind {
            BlockKind::Checkpoint => 1,
            BlockKind::CheckpointEnd => 2,
            BlockKind::Log => 3,
        },
        reserved: [0; 5],
    };
    bytes[..HEADER_BYTES].copy_from_slice(raw.as_bytes());
    let places = bytes[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES);
    assert!(entries.len() <= ENTRIES_MAX, "a block of {} entries", entries.len());
    for (entry, place) in entries.iter().zip(places) {
        place.copy_from_slice(&entry.encode());
    }
    let sum = sum(bytes, salt);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
}

/// The block at the beginning of `bytes`, if there is one.
pub(super) fn decode(bytes: &[u8], salt: &[u8; 16]) -> Option<(BlockHeader, Vec<JournalEntry>)> {
    let bytes = bytes.get(..BLOCK_BYTES)?;
    let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
    if raw.sum.get() != sum(bytes, salt) && !cfg!(fuzzing) {
        return None;
    }
    let header = BlockHeader {
        epoch: raw.epoch.get(),
        number: raw.number.get(),
        first: raw.first.get(),
        kind: match raw.kind {
            1 => BlockKind::Checkpoint,
            2 => BlockKind::CheckpointEnd,
            3 => BlockKind::Log,
            _ => return None,
        },
        life: u128::from_le_bytes(raw.life),
        written_bytes: raw.written_bytes.get(),
        credit_bytes: raw.credit_bytes.get(),
        wall_seconds: raw.wall_seconds.get(),
        next_incarnation: raw.next_incarnation.get(),
    };
    // Far below their ends, they can be counted on from.
    let numbers = [header.number, header.first, header.next_incarnation, header.written_bytes];
    if header.epoch >= EPOCHS_MAX || numbers.iter().any(|number| *number >= NUMBERS_MAX) {
        return None;
    }
    let count = usize::from(raw.count.get());
    let places = bytes[HEADER_BYTES..].as_chunks().0;
    let entries: Option<Vec<_>> = places.get(..count)?.iter().map(JournalEntry::decode).collect();
    Some((header, entries?))
}
