#![expect(unsafe_code, reason = "a buffer is a part of memory that the arena owns")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffers::arena::Arena;
use crate::buffers::chunk::PAGE_BYTES;

/// Whole pages of memory, of one owner. Dropping it gives them back to its arena.
///
/// What it holds at first is zeros or what an earlier buffer held.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    /// Where it comes from, if it has any pages.
    arena: Option<Arc<Arena>>,
    pages: u32,
    source: Source,
}

/// What of an arena the pages of a buffer are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source(u32);

impl Source {
    /// A region of its own, for what is too long for a chunk.
    pub const OWN: Source = Source(u32::MAX);

    pub fn chunk(number: u32) -> Source {
        assert!(number != u32::MAX, "fewer chunks than addresses");
        Source(number)
    }

    /// The number of the chunk.
    pub fn number(self) -> Option<u32> {
        (self != Source::OWN).then_some(self.0)
    }
}

// Each record of a cache has one.
const _: () = assert!(size_of::<Buffer>() == 24);

// SAFETY: a buffer owns its pages as a `Box<[u8]>` owns its bytes.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn nothing() -> Self {
        Self { start: NonNull::dangling(), arena: None, pages: 0, source: Source::OWN }
    }

    /// The pages of `arena` from `start` on, which lie in `source` and which nobody else has.
    pub(crate) fn new(arena: Arc<Arena>, source: Source, start: NonNull<u8>, pages: usize) -> Self {
        let pages = u32::try_from(pages).expect("less than 16 TiB");
        Self { start, arena: Some(arena), pages, source }
    }

    fn bytes(&self) -> usize {
        self.pages as usize * PAGE_BYTES
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pages are mapped, initialised by the system, of this length, and of this
        // buffer alone until it is dropped. Of no bytes, the pointer is dangling and aligned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes()) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(arena) = self.arena.take() {
            arena.give(self.source, self.start, self.pages as usize);
        }
    }
}
