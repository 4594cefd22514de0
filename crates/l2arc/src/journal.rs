//! The journal: what happened to segments and which records have died, in an order that lasts.
//!
//! It has two halves. Each begins with a checkpoint, which says everything, and goes on with what
//! has happened since. When one is full the other begins anew with the next epoch. Each block is
//! there twice, so that one that goes bad takes no tombstone with it.

mod block;
mod entry;
mod replay;

pub(crate) use block::{BLOCK_BYTES, BlockHeader, BlockKind, ENTRIES_MAX, encode};
pub(crate) use entry::JournalEntry;
pub(crate) use replay::{Replayed, replay};

/// Blocks that a checkpoint of so many entries takes.
pub(crate) fn checkpoint_blocks(entries: usize) -> u64 {
    entries.div_ceil(ENTRIES_MAX).max(1) as u64
}
