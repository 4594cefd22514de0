#![expect(unsafe_code, reason = "a buffer is a part of memory that the arena owns")]

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffers::arena::Arena;
use crate::buffers::chunk::PAGE_BYTES;
use crate::buffers::region::Region;

/// Whole pages of memory, of one owner. Dropping it gives them back to its arena.
///
/// What it holds at first is zeros or what an earlier buffer held.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// No bytes, no memory.
    Nothing,
    Chunk {
        arena: Arc<Arena>,
        chunk: u32,
        run: Range<usize>,
    },
    /// Too long for a chunk.
    Region {
        arena: Arc<Arena>,
        _region: Region,
    },
}

// SAFETY: a buffer owns its pages as a `Box<[u8]>` owns its bytes.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn nothing() -> Self {
        Self { start: NonNull::dangling(), bytes: 0, source: Source::Nothing }
    }

    /// The run of pages in a chunk of `arena` that begins at `start`, which nobody else has.
    pub(crate) fn in_chunk(
        arena: Arc<Arena>,
        chunk: u32,
        run: Range<usize>,
        start: NonNull<u8>,
    ) -> Self {
        Self { start, bytes: run.len() * PAGE_BYTES, source: Source::Chunk { arena, chunk, run } }
    }

    /// The whole of `region`, `bytes` long.
    pub(crate) fn of_its_own(arena: Arc<Arena>, region: Region, bytes: usize) -> Self {
        Self { start: region.at(0), bytes, source: Source::Region { arena, _region: region } }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pages are mapped, initialised by the system, of this length, and of this
        // buffer alone until it is dropped. Of no bytes, the pointer is dangling and aligned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &self.source {
            Source::Nothing => {}
            Source::Chunk { arena, chunk, run } => arena.give(*chunk, run.clone()),
            Source::Region { arena, .. } => arena.region_ends(self.bytes),
        }
    }
}
