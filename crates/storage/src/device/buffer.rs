use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Where buffers begin in memory: at multiples of this, so that `O_DIRECT` takes them.
///
/// ```
/// use storage::{AlignedBuffer, BUFFER_ALIGNMENT};
///
/// let buffer = AlignedBuffer::zeroed(512);
/// assert!((buffer.as_ptr() as usize).is_multiple_of(BUFFER_ALIGNMENT));
/// ```
pub const BUFFER_ALIGNMENT: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; BUFFER_ALIGNMENT]);

/// Bytes that a device can read into and write from.
///
/// ```
/// let mut buffer = storage::AlignedBuffer::zeroed(4096);
/// buffer[..5].copy_from_slice(b"bytes");
/// assert_eq!(&buffer[..6], b"bytes\0");
/// ```
#[derive(Default)]
pub struct AlignedBuffer {
    pages: Vec<Page>,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` zeros.
    ///
    /// ```
    /// let buffer = storage::AlignedBuffer::zeroed(100);
    /// assert!(buffer.len() == 100 && buffer.iter().all(|byte| *byte == 0));
    /// ```
    pub fn zeroed(length: usize) -> AlignedBuffer {
        let count = length.div_ceil(BUFFER_ALIGNMENT);
        let pages = Page::new_vec_zeroed(count).expect("memory for a buffer");
        AlignedBuffer { pages, length }
    }

    /// How long the buffer may become, bytes: what it takes of RAM.
    ///
    /// ```
    /// assert_eq!(storage::AlignedBuffer::zeroed(100).capacity(), 4096);
    /// ```
    pub fn capacity(&self) -> usize {
        self.pages.len() * BUFFER_ALIGNMENT
    }

    /// Sets the length; what lies beyond the earlier one is what was there before.
    ///
    /// # Panics
    /// When `length` is beyond the capacity.
    ///
    /// ```
    /// let mut buffer = storage::AlignedBuffer::zeroed(100);
    /// buffer.set_len(buffer.capacity());
    /// assert_eq!(buffer.len(), 4096);
    /// ```
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
