//! A record on flash: a header of 64 bytes, then what is stored.

use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::cipher::Nonce;
use crate::compression::Compression;
use crate::index::{BLOCK_BYTES, BLOCKS_MAX};
use crate::key::Key;
use crate::location::UNIT_BYTES;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 64;
/// The longest that a header and what is stored may be together.
pub(crate) const STORED_MAX: usize = (BLOCKS_MAX - 1) * BLOCK_BYTES;

const COMPRESSION_MASK: u8 = 0b11;
const ENCRYPTED: u8 = 1 << 2;
const METADATA: u8 = 1 << 3;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    object: U64,
    generation: U64,
    part: U64,
    payload_sum: U64,
    nonce_counter: U64,
    nonce_epoch: U32,
    plain_bytes: U32,
    stored_bytes: U32,
    tenant: U16,
    flags: u8,
    reserved: u8,
    sum: U64,
}

const _: () = assert!(size_of::<Raw>() == HEADER_BYTES);

/// What the checksum of a header is of.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Summed {
    raw: [u8; HEADER_BYTES - 8],
    salt: [u8; 16],
    incarnation: U64,
    segment: U32,
    unit: U32,
}

/// What a record says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key: Key,
    pub(crate) tenant: u16,
    pub(crate) metadata: bool,
    pub(crate) compression: Compression,
    pub(crate) nonce: Option<Nonce>,
    /// Bytes of contents.
    pub(crate) plain_bytes: u32,
    /// Bytes behind the header.
    pub(crate) stored_bytes: u32,
    /// Checksum of these.
    pub(crate) payload_sum: u64,
}

/// A place on one device in one life: a header is valid only where it was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) salt: [u8; 16],
    pub(crate) incarnation: u64,
    pub(crate) segment: u32,
    pub(crate) unit: u32,
}

impl Place {
    /// The checksum of a header at this place: of its bytes up to that, then the place's.
    fn sum(&self, raw: &Raw) -> u64 {
        let raw = raw.as_bytes().first_chunk().expect("a header is longer");
        let summed = Summed {
            raw: *raw,
            salt: self.salt,
            incarnation: self.incarnation.into(),
            segment: self.segment.into(),
            unit: self.unit.into(),
        };
        xxh3_64(summed.as_bytes())
    }
}

/// The checksum of what is stored behind a header.
pub(crate) fn payload_sum(stored: &[u8]) -> u64 {
    xxh3_64(stored)
}

impl Header {
    /// Bytes of header and what is stored.
    pub(crate) fn total_bytes(&self) -> usize {
        HEADER_BYTES + self.stored_bytes as usize
    }

    /// Units that the record takes.
    pub(crate) fn units(&self) -> u32 {
        self.total_bytes().div_ceil(UNIT_BYTES) as u32
    }

    pub(crate) fn encode(&self, place: &Place) -> [u8; HEADER_BYTES] {
        let compression = Compression::ALL.iter().position(|it| *it == self.compression);
        let mut flags = compression.expect("all are listed") as u8;
        if self.nonce.is_some() {
            flags |= ENCRYPTED;
        }
        if self.metadata {
            flags |= METADATA;
        }
        let nonce = self.nonce.unwrap_or_default();
        let mut raw = Raw {
            object: self.key.object.into(),
            generation: self.key.generation.into(),
            part: self.key.part.into(),
            payload_sum: self.payload_sum.into(),
            nonce_counter: nonce.counter.into(),
            nonce_epoch: nonce.epoch.into(),
            plain_bytes: self.plain_bytes.into(),
            stored_bytes: self.stored_bytes.into(),
            tenant: self.tenant.into(),
            flags,
            reserved: 0,
            sum: 0.into(),
        };
        raw.sum = place.sum(&raw).into();
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`, if one was written at this place.
    pub(crate) fn decode(bytes: &[u8], place: &Place) -> Option<Header> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        if raw.sum.get() != place.sum(&raw) && !cfg!(fuzzing) {
            return None;
        }
        let known = COMPRESSION_MASK | ENCRYPTED | METADATA;
        let compression = Compression::ALL.get(usize::from(raw.flags & COMPRESSION_MASK))?;
        let stored_bytes = raw.stored_bytes.get();
        if raw.flags & !known != 0
            || stored_bytes as usize > STORED_MAX - HEADER_BYTES
            || raw.plain_bytes.get() as usize > STORED_MAX
        {
            return None;
        }
        let nonce = Nonce { epoch: raw.nonce_epoch.get(), counter: raw.nonce_counter.get() };
        Some(Header {
            key: Key {
                object: raw.object.get(),
                generation: raw.generation.get(),
                part: raw.part.get(),
            },
            tenant: raw.tenant.get(),
            metadata: raw.flags & METADATA != 0,
            compression: *compression,
            nonce: (raw.flags & ENCRYPTED != 0).then_some(nonce),
            plain_bytes: raw.plain_bytes.get(),
            stored_bytes,
            payload_sum: raw.payload_sum.get(),
        })
    }
}
