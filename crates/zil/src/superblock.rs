//! The superblock: what a log says of itself, and where its records begin.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{Layout, PAGE_BYTES};
use crate::position::Position;

const MAGIC: [u8; 8] = *b"WARMFLOG";
/// The version of the format that is written and read.
pub(crate) const VERSION: u32 = 2;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    page_bytes: U32,
    log: [u8; 16],
    pool: [u8; 16],
    salt: [u8; 16],
    epoch: U64,
    size_bytes: U64,
    ring_bytes: U64,
    block_bytes_max: U64,
    start_address: U64,
    start_block: U64,
    start_first: U64,
    start_previous: U64,
    released: U64,
    durable: U64,
    sum: U64,
}

const RAW_BYTES: usize = size_of::<Raw>();
// All of it lies in one sector of a disk.
const _: () = assert!(RAW_BYTES == 152);

/// Where a block begins, and what it has to be to be the next one of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Its address.
    pub(crate) address: u64,
    /// Its number: each block has another.
    pub(crate) block: u64,
    /// Its first record.
    pub(crate) first: Position,
    /// The checksum of the block before.
    pub(crate) previous: u64,
}

/// What a superblock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) log: [u8; 16],
    pub(crate) pool: [u8; 16],
    /// Another one whenever the log starts anew: blocks with other salts are not valid.
    pub(crate) salt: [u8; 16],
    /// Another one each time it is written; the greatest one counts.
    pub(crate) epoch: u64,
    pub(crate) layout: Layout,
    /// The first block that may be needed.
    pub(crate) start: Start,
    /// Records up to here are not needed any more.
    pub(crate) released: Position,
    /// Records up to here lasted when it was written.
    pub(crate) durable: Position,
}

/// What lies where a superblock would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Superblock(Superblock),
    /// Ours, of another version.
    Version(u32),
    /// Ours, and damaged.
    Damaged,
    /// Not ours.
    Other,
}

/// A salt that comes once.
pub(crate) fn salt(seed: &[u8; 16], epoch: u64) -> [u8; 16] {
    let mut hash = Xxh3::new();
    hash.update(seed);
    hash.update(&epoch.to_le_bytes());
    hash.digest128().to_le_bytes()
}

impl Superblock {
    /// Writes it to the beginning of `bytes`.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let Superblock { layout, start, .. } = self;
        let mut raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            page_bytes: (PAGE_BYTES as u32).into(),
            log: self.log,
            pool: self.pool,
            salt: self.salt,
            epoch: self.epoch.into(),
            size_bytes: layout.size_bytes.into(),
            ring_bytes: layout.ring_bytes.into(),
            block_bytes_max: layout.block_bytes_max.into(),
            start_address: start.address.into(),
            start_block: start.block.into(),
            start_first: start.first.0.into(),
            start_previous: start.previous.into(),
            released: self.released.0.into(),
            durable: self.durable.0.into(),
            sum: 0.into(),
        };
        raw.sum = xxh3_64(&raw.as_bytes()[..RAW_BYTES - 8]).into();
        bytes[..RAW_BYTES].copy_from_slice(raw.as_bytes());
    }

    /// What `bytes` begin with.
    pub(crate) fn decode(bytes: &[u8]) -> Found {
        let Ok((raw, _)) = Raw::read_from_prefix(bytes) else { return Found::Other };
        if raw.magic != MAGIC {
            return Found::Other;
        }
        if raw.version.get() != VERSION {
            return Found::Version(raw.version.get());
        }
        let superblock = Superblock {
            log: raw.log,
            pool: raw.pool,
            salt: raw.salt,
            epoch: raw.epoch.get(),
            layout: Layout {
                size_bytes: raw.size_bytes.get(),
                ring_bytes: raw.ring_bytes.get(),
                block_bytes_max: raw.block_bytes_max.get(),
            },
            start: Start {
                address: raw.start_address.get(),
                block: raw.start_block.get(),
                first: Position(raw.start_first.get()),
                previous: raw.start_previous.get(),
            },
            released: Position(raw.released.get()),
            durable: Position(raw.durable.get()),
        };
        let sum = xxh3_64(&raw.as_bytes()[..RAW_BYTES - 8]);
        let whole = raw.sum.get() == sum || cfg!(fuzzing);
        if whole && raw.page_bytes.get() as usize == PAGE_BYTES && superblock.is_sound() {
            Found::Superblock(superblock)
        } else {
            Found::Damaged
        }
    }

    /// Whether the numbers go together. Far below their ends, they can be counted on from.
    fn is_sound(&self) -> bool {
        let Superblock { layout, start, .. } = self;
        let numbers = [
            self.epoch,
            start.address,
            start.block,
            start.first.0,
            self.released.0,
            self.durable.0,
        ];
        layout.is_sound()
            && numbers.iter().all(|number| *number < 1 << 62)
            && layout.next_block(start.address) == start.address
            && start.address.is_multiple_of(PAGE_BYTES as u64)
            && start.first >= Position(1)
            && start.first <= self.released.next()
            && self.released <= self.durable
    }
}
