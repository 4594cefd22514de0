use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use storage::AlignedBuffer;

/// The smallest buffer, bytes.
const SMALLEST: usize = 4096;
/// Most bytes that are kept for the next call.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Most bytes that reads under way may have.
const READ_BYTES_MAX: usize = 128 << 20;

/// Buffers for calls to devices. Their memory is used again: fresh memory costs a page fault for
/// each page.
#[derive(Default)]
pub(crate) struct Buffers {
    kept: Mutex<Kept>,
    reading_bytes: AtomicUsize,
}

#[derive(Default)]
struct Kept {
    buffers: Vec<AlignedBuffer>,
    bytes: usize,
}

impl Buffers {
    /// What a buffer of `length` takes of RAM, bytes: few sizes, so that buffers fit others' needs.
    pub(crate) fn capacity(length: usize) -> usize {
        let step = (length.next_power_of_two() / 8).max(SMALLEST);
        length.next_multiple_of(step).max(SMALLEST)
    }

    /// A buffer of `length`; what it holds is not known.
    pub(crate) fn take(&self, length: usize) -> AlignedBuffer {
        let capacity = Buffers::capacity(length);
        let mut kept = self.kept.lock();
        let found = kept.buffers.iter().rposition(|buffer| buffer.capacity() == capacity);
        let mut buffer = match found {
            Some(at) => {
                kept.bytes -= capacity;
                kept.buffers.swap_remove(at)
            }
            None => {
                drop(kept);
                AlignedBuffer::zeroed(capacity)
            }
        };
        buffer.set_len(length);
        buffer
    }

    /// Gives a buffer back.
    pub(crate) fn give(&self, buffer: AlignedBuffer) {
        let mut kept = self.kept.lock();
        let capacity = buffer.capacity();
        if kept.bytes + capacity <= KEPT_BYTES_MAX {
            kept.bytes += capacity;
            kept.buffers.push(buffer);
        }
    }

    /// The right to read `bytes`, as long as not too many are being read.
    pub(crate) fn reading(&self, bytes: usize) -> Option<Reading<'_>> {
        let before = self.reading_bytes.fetch_add(bytes, Ordering::Relaxed);
        let reading = Reading { buffers: self, bytes };
        (before + bytes <= READ_BYTES_MAX).then_some(reading)
    }

    /// RAM taken, bytes.
    pub(crate) fn charged_bytes(&self) -> u64 {
        (self.kept.lock().bytes + self.reading_bytes.load(Ordering::Relaxed)) as u64
    }
}

/// A read under way.
pub(crate) struct Reading<'a> {
    buffers: &'a Buffers,
    bytes: usize,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.buffers.reading_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
