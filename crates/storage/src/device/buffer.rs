use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Where buffers begin in memory: at multiples of this, so that `O_DIRECT` takes them.
pub const BUFFER_ALIGNMENT: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; BUFFER_ALIGNMENT]);

/// Bytes that a device can read into and write from.
#[derive(Default)]
pub struct AlignedBuffer {
    pages: Vec<Page>,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` zeros.
    pub fn zeroed(length: usize) -> AlignedBuffer {
        let count = length.div_ceil(BUFFER_ALIGNMENT);
        let pages = Page::new_vec_zeroed(count).expect("memory for a buffer");
        AlignedBuffer { pages, length }
    }

    /// How long the buffer may become, bytes: what it takes of RAM.
    pub fn capacity(&self) -> usize {
        self.pages.len() * BUFFER_ALIGNMENT
    }

    /// Sets the length; what lies beyond the earlier one is what was there before.
    ///
    /// # Panics
    /// When `length` is beyond the capacity.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity(), "a buffer of {} bytes", self.capacity());
        self.length = length;
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AlignedBuffer({} bytes)", self.length)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages.as_bytes()[..self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_bytes()[..self.length]
    }
}
