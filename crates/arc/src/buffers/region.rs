#![expect(unsafe_code, reason = "memory is asked of the system and given back to it")]

use std::ops::Range;
use std::ptr::NonNull;

/// The system has no more memory, or allows this process no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system gave no {bytes} bytes of memory: lower the cache's size, or raise the limit on \
     this process's memory (ulimit -v, vm.max_map_count)"
)]
pub struct OutOfMemory {
    /// How much was asked for.
    pub bytes: usize,
}

/// Memory from the system, aligned to its length rounded up to a power of two, at most to 2 MiB.
/// It reads as zeros until it is written.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is memory and nothing else; who may look at which part of it is decided by its
// users, who hand out each part once.
unsafe impl Send for Region {}
// SAFETY: as above; no method of `&self` touches the contents but `discard`, whose callers own
// the part that they discard.
unsafe impl Sync for Region {}

const ALIGNMENT_MAX: usize = 2 << 20;

impl Region {
    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address `offset` bytes behind the start.
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes, "an address outside of its region");
        // SAFETY: the offset lies within the region, as has just been asserted.
        unsafe { self.start.add(offset) }
    }
}

#[cfg(not(miri))]
mod system {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::*;

    impl Region {
        /// Asks the system for memory.
        pub fn new(bytes: usize) -> Result<Self, OutOfMemory> {
            let alignment = bytes.next_power_of_two().min(ALIGNMENT_MAX);
            let spare = bytes + alignment;
            let failed = |_| OutOfMemory { bytes };
            // SAFETY: a new private mapping at an address of the system's choice touches nothing
            // that exists.
            let mapped = unsafe {
                mmap_anonymous(
                    std::ptr::null_mut(),
                    spare,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            };
            let mapped = mapped.map_err(failed)?.cast::<u8>();
            let before = mapped.align_offset(alignment);
            let after = spare - before - bytes;
            // SAFETY: `before` and `after` lie within the mapping that was just made, at its two
            // ends, and nobody knows of it yet.
            let start = unsafe {
                let start = mapped.add(before);
                if before > 0 {
                    let _ = munmap(mapped.cast(), before);
                }
                if after > 0 {
                    let _ = munmap(start.add(bytes).cast(), after);
                }
                start
            };
            let start = NonNull::new(start).ok_or(OutOfMemory { bytes })?;
            Ok(Self { start, bytes })
        }

        /// Whether the system may use huge pages here. Says whether it takes the wish.
        pub fn prefer_huge_pages(&self, prefer: bool) -> bool {
            let advice = if prefer { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // SAFETY: the advice changes how the region is backed, not what it holds.
            unsafe { madvise(self.start.as_ptr().cast(), self.bytes, advice) }.is_ok()
        }

        /// Gives the memory of a part back; it then reads as zeros. Nobody may use that part.
        pub fn discard(&self, part: Range<usize>) {
            assert!(part.start < part.end && part.end <= self.bytes, "a part outside its region");
            let start = self.at(part.start).as_ptr().cast();
            // SAFETY: the part lies within the region, and nobody uses it.
            let discarded = unsafe { madvise(start, part.len(), Advice::LinuxDontNeed) };
            assert!(discarded.is_ok(), "the system takes back what it gave: {discarded:?}");
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            // SAFETY: the region is mapped and nobody uses it any more.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
            assert!(unmapped.is_ok(), "the system takes back what it gave: {unmapped:?}");
        }
    }
}

/// The same from the language's allocator, for Miri.
#[cfg(miri)]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::*;

    impl Region {
        fn layout(bytes: usize) -> Layout {
            let alignment = bytes.next_power_of_two().min(ALIGNMENT_MAX);
            Layout::from_size_align(bytes, alignment).expect("a power of two")
        }

        pub fn new(bytes: usize) -> Result<Self, OutOfMemory> {
            assert!(bytes > 0, "a region of nothing");
            // SAFETY: the layout is not empty.
            let start = NonNull::new(unsafe { alloc_zeroed(Self::layout(bytes)) });
            Ok(Self { start: start.ok_or(OutOfMemory { bytes })?, bytes })
        }

        pub fn prefer_huge_pages(&self, _: bool) -> bool {
            true
        }

        pub fn discard(&self, part: Range<usize>) {
            assert!(part.start < part.end && part.end <= self.bytes, "a part outside its region");
            // SAFETY: the part lies within the region, and nobody uses it.
            unsafe { self.at(part.start).write_bytes(0, part.len()) };
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` with the same layout.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) };
        }
    }
}
