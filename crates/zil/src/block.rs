//! A block: what is written in one go, a header and whole records.

use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{Layout, PAGE_BYTES};
use crate::position::Position;
use crate::superblock::Start;

const MAGIC: [u8; 8] = *b"WARMFBLK";
/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 96;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    salt: [u8; 16],
    address: U64,
    block: U64,
    first: U64,
    previous: U64,
    durable: U64,
    records: U32,
    payload_bytes: U32,
    data_bytes: U64,
    payload_sum: U64,
    sum: U64,
}

const _: () = assert!(size_of::<Raw>() == HEADER_BYTES);

/// Veils what follows the header of a block, or unveils it: no page of it is all zeros then,
/// whatever the records carry.
pub(crate) fn veil(salt: &[u8; 16], bytes: &mut [u8]) {
    if cfg!(fuzzing) {
        return;
    }
    let word = u128::from_ne_bytes(*salt);
    let (words, rest) = bytes.as_chunks_mut();
    words.iter_mut().for_each(|it| *it = (u128::from_ne_bytes(*it) ^ word).to_ne_bytes());
    rest.iter_mut().zip(salt).for_each(|(byte, salt)| *byte ^= salt);
}

/// What a block says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) start: Start,
    /// Records up to here lasted when it was written.
    pub(crate) durable: Position,
    pub(crate) records: u32,
    /// Bytes of its records.
    pub(crate) payload_bytes: u32,
    /// Bytes of file contents that they carry.
    pub(crate) data_bytes: u64,
    pub(crate) payload_sum: u64,
    /// The checksum of the header, and so of the block.
    pub(crate) sum: u64,
}

impl Header {
    /// Completes a block whose records stand behind its header in `bytes`, with zeros to the end of
    /// the page; returns its checksum.
    pub(crate) fn seal(&self, salt: &[u8; 16], bytes: &mut [u8]) -> u64 {
        veil(salt, &mut bytes[HEADER_BYTES..self.block_bytes() as usize]);
        let payload = &bytes[HEADER_BYTES..self.used_bytes() as usize];
        let mut raw = Raw {
            magic: MAGIC,
            salt: *salt,
            address: self.start.address.into(),
            block: self.start.block.into(),
            first: self.start.first.0.into(),
            previous: self.start.previous.into(),
            durable: self.durable.0.into(),
            records: self.records.into(),
            payload_bytes: self.payload_bytes.into(),
            data_bytes: self.data_bytes.into(),
            payload_sum: xxh3_64(payload).into(),
            sum: 0.into(),
        };
        let sum = xxh3_64(&raw.as_bytes()[..HEADER_BYTES - 8]);
        raw.sum = sum.into();
        bytes[..HEADER_BYTES].copy_from_slice(raw.as_bytes());
        sum
    }

    /// The header that `bytes` begin with, if it is one of the chain with this salt.
    pub(crate) fn decode(bytes: &[u8], salt: &[u8; 16], layout: &Layout) -> Option<Header> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        if raw.magic != MAGIC || (raw.salt != *salt && !cfg!(fuzzing)) {
            return None;
        }
        let sum = xxh3_64(&raw.as_bytes()[..HEADER_BYTES - 8]);
        if raw.sum.get() != sum && !cfg!(fuzzing) {
            return None;
        }
        let header = Header {
            start: Start {
                address: raw.address.get(),
                block: raw.block.get(),
                first: Position(raw.first.get()),
                previous: raw.previous.get(),
            },
            durable: Position(raw.durable.get()),
            records: raw.records.get(),
            payload_bytes: raw.payload_bytes.get(),
            data_bytes: raw.data_bytes.get(),
            payload_sum: raw.payload_sum.get(),
            sum: raw.sum.get(),
        };
        let numbers = [header.start.address, header.start.block, header.start.first.0];
        let sound = header.block_bytes() <= layout.block_bytes_max
            && header.records > 0
            && header.data_bytes <= u64::from(header.payload_bytes)
            && header.durable < header.start.first
            && numbers.iter().all(|number| *number < 1 << 62);
        sound.then_some(header)
    }

    /// Whether the records behind the header are those that were written.
    pub(crate) fn is_whole(&self, block: &[u8]) -> bool {
        let payload = block.get(HEADER_BYTES..self.used_bytes() as usize);
        payload.is_some_and(|payload| xxh3_64(payload) == self.payload_sum || cfg!(fuzzing))
    }

    /// Bytes of header and records.
    pub(crate) fn used_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }

    /// Bytes that the block takes on the device.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.used_bytes().next_multiple_of(PAGE_BYTES as u64)
    }

    /// The last of its records.
    pub(crate) fn last(&self) -> Position {
        Position(self.start.first.0 + u64::from(self.records) - 1)
    }

    /// What the next block of the chain has to be.
    pub(crate) fn next(&self, layout: &Layout) -> Start {
        Start {
            address: layout.next_block(self.start.address + self.block_bytes()),
            block: self.start.block + 1,
            first: self.last().next(),
            previous: self.sum,
        }
    }
}
