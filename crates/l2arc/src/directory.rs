//! The directory of a sealed segment: what lies in it, so that a start reads no records.

use xxhash_rust::xxh3::Xxh3;

use crate::index::{BLOCK_BYTES, BLOCKS_MAX, Entry};
use crate::location::{Location, UNIT_BYTES, UNITS_MAX};
use crate::record::{Header, STORED_MAX};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 16;

/// One record of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryEntry {
    pub(crate) hash: u64,
    pub(crate) unit: u32,
    pub(crate) units: u32,
    pub(crate) metadata: bool,
    pub(crate) tenant: u16,
}

const UNITS_SHIFT: u32 = 20;
const UNITS_BITS: u32 = 18;
const METADATA_SHIFT: u32 = UNITS_SHIFT + UNITS_BITS;
const TENANT_SHIFT: u32 = 48;
const UNITS_MASK: u32 = (1 << UNITS_BITS) - 1;
const _: () = assert!(STORED_MAX / UNIT_BYTES <= UNITS_MASK as usize);

impl DirectoryEntry {
    pub(crate) fn new(header: &Header, unit: u32) -> DirectoryEntry {
        DirectoryEntry {
            hash: header.key.hash(),
            unit,
            units: header.units(),
            metadata: header.metadata,
            tenant: header.tenant,
        }
    }

    pub(crate) fn location(&self, ring: u8, segment: u32) -> Location {
        Location { ring, segment, unit: self.unit }
    }

    /// Bytes that the record takes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES as u64
    }

    /// Blocks in which it lies.
    fn blocks(&self) -> u16 {
        const UNITS: u64 = (BLOCK_BYTES / UNIT_BYTES) as u64;
        let unit = u64::from(self.unit);
        let blocks = (unit + u64::from(self.units)).div_ceil(UNITS) - unit / UNITS;
        // More than any record has, if the directory says so.
        blocks.min(BLOCKS_MAX as u64) as u16
    }

    /// What the index keeps of it.
    pub(crate) fn indexed(&self, ring: u8, segment: u32) -> Entry {
        Entry {
            location: self.location(ring, segment),
            blocks: self.blocks(),
            heat: 0,
            metadata: self.metadata,
            bad: false,
        }
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let place = u64::from(self.unit)
            | u64::from(self.units) << UNITS_SHIFT
            | u64::from(self.metadata) << METADATA_SHIFT
            | u64::from(self.tenant) << TENANT_SHIFT;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&place.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> DirectoryEntry {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let place = word(8);
        DirectoryEntry {
            hash: word(0),
            unit: place as u32 & (UNITS_MAX - 1),
            units: (place >> UNITS_SHIFT) as u32 & UNITS_MASK,
            metadata: place >> METADATA_SHIFT & 1 == 1,
            tenant: (place >> TENANT_SHIFT) as u16,
        }
    }
}

/// Writes entries to the beginning of `bytes`, in order of their hashes: the index takes them in
/// from one end to the other.
pub(crate) fn encode(entries: &mut [DirectoryEntry], bytes: &mut [u8]) {
    entries.sort_unstable();
    for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
        bytes.copy_from_slice(&entry.encode());
    }
}

/// The entries in `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = DirectoryEntry> {
    bytes.as_chunks().0.iter().map(DirectoryEntry::decode)
}

/// The checksum of a directory in its place.
pub(crate) fn sum(bytes: &[u8], salt: &[u8; 16], incarnation: u64) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(bytes);
    hash.update(salt);
    hash.update(&incarnation.to_le_bytes());
    hash.digest()
}
