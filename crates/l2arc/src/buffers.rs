use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use storage::AlignedBuffer;

/// The smallest buffer, bytes.
const SMALLEST: usize = 4096;
/// Most bytes that are kept for the next call, and what is kept of them while nothing is written:
/// one in so many.
const KEPT_BYTES_MAX: usize = 32 << 20;
const KEPT_IDLE_SHARE: usize = 16;
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
    /// The one given back last is at the end.
    buffers: VecDeque<AlignedBuffer>,
    bytes: usize,
}

impl Kept {
    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(oldest) = self.buffers.pop_front()
        {
            self.bytes -= oldest.capacity();
        }
    }
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
                kept.buffers.swap_remove_back(at).expect("it was found there")
            }
            None => {
                drop(kept);
                AlignedBuffer::zeroed(capacity)
            }
        };
        buffer.set_len(length);
        buffer
    }

    /// Gives a buffer back. If too many are kept, those that were not wanted for the longest time
    /// have to go.
    pub(crate) fn give(&self, buffer: AlignedBuffer) {
        let mut kept = self.kept.lock();
        kept.bytes += buffer.capacity();
        kept.buffers.push_back(buffer);
        kept.shrink_to(KEPT_BYTES_MAX);
    }

    /// Keeps no more than reads need: nothing is to be written.
    pub(crate) fn trim(&self) {
        self.kept.lock().shrink_to(KEPT_BYTES_MAX / KEPT_IDLE_SHARE);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_what_was_used_last() {
        let buffers = Buffers::default();
        let large: Vec<_> = (0..40).map(|_| buffers.take(1 << 20)).collect();
        large.into_iter().for_each(|buffer| buffers.give(buffer));
        assert_eq!(buffers.charged_bytes(), KEPT_BYTES_MAX as u64);
        let mut small = buffers.take(8192);
        small[0] = 7;
        buffers.give(small);
        assert!(buffers.charged_bytes() <= KEPT_BYTES_MAX as u64);
        buffers.trim();
        assert!(buffers.charged_bytes() <= (KEPT_BYTES_MAX / KEPT_IDLE_SHARE) as u64);
        assert_eq!(buffers.take(8192)[0], 7, "its memory is used again");
    }
}
