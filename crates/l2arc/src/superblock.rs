//! The superblock: what a device says of itself once and for all.

use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::cipher::{Cipher, Nonce};
use crate::layout::Layout;

/// Bytes of a superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
const MAGIC: [u8; 8] = *b"WARMFLSH";
/// The version of the format that is written and read.
pub(crate) const VERSION: u32 = 1;
/// A nonce that no record has, for what tells keys apart.
const CHECK: Nonce = Nonce { epoch: u32::MAX, counter: u64::MAX };

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    block_bytes: U32,
    device: [u8; 16],
    pool: [u8; 16],
    salt: [u8; 16],
    key_check: [u8; 16],
    size_bytes: U64,
    segment_bytes: U64,
    segments: U32,
    encrypted: U32,
    journal_offset: U64,
    half_bytes: U64,
    data_offset: U64,
    sum: U64,
}

const RAW_BYTES: usize = size_of::<Raw>();
const _: () = assert!(RAW_BYTES == 136);

/// What a superblock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) device: [u8; 16],
    pub(crate) pool: [u8; 16],
    /// Chosen at random when the device was formatted: what was written before is not valid.
    pub(crate) salt: [u8; 16],
    /// Zeros without encryption.
    pub(crate) key_check: [u8; 16],
    pub(crate) layout: Layout,
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

/// What tells a key from others without telling it.
pub(crate) fn key_check(cipher: Option<&Cipher>, salt: &[u8; 16]) -> [u8; 16] {
    let Some(cipher) = cipher else { return [0; 16] };
    let mut tag = Vec::new();
    cipher.encrypt(CHECK, salt, &mut tag);
    tag.try_into().expect("of nothing, the tag alone")
}

impl Superblock {
    /// Writes it to the beginning of `bytes`.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let layout = &self.layout;
        let mut raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            block_bytes: (layout.block_bytes as u32).into(),
            device: self.device,
            pool: self.pool,
            salt: self.salt,
            key_check: self.key_check,
            size_bytes: layout.size_bytes.into(),
            segment_bytes: layout.segment_bytes.into(),
            segments: layout.segments.into(),
            encrypted: u32::from(self.key_check != [0; 16]).into(),
            journal_offset: layout.journal_offset.into(),
            half_bytes: layout.half_bytes.into(),
            data_offset: layout.data_offset.into(),
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
        let layout = Layout {
            size_bytes: raw.size_bytes.get(),
            block_bytes: raw.block_bytes.get() as usize,
            segment_bytes: raw.segment_bytes.get(),
            segments: raw.segments.get(),
            journal_offset: raw.journal_offset.get(),
            half_bytes: raw.half_bytes.get(),
            data_offset: raw.data_offset.get(),
        };
        if raw.version.get() != VERSION {
            return Found::Version(raw.version.get());
        }
        let sum = xxh3_64(&raw.as_bytes()[..RAW_BYTES - 8]);
        if (raw.sum.get() != sum && !cfg!(fuzzing)) || !layout.is_sound() {
            return Found::Damaged;
        }
        Found::Superblock(Superblock {
            device: raw.device,
            pool: raw.pool,
            salt: raw.salt,
            key_check: raw.key_check,
            layout,
        })
    }
}
