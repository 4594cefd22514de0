#![expect(unsafe_code, reason = "the C library's allocator is set up through a C call")]

/// Buffers of this size and more are taken from the system one by one, and given back to it the
/// moment they are freed.
#[cfg(target_env = "gnu")]
const OWN_MAPPING_BYTES: libc::c_int = 64 << 10;

/// Heaps that all threads share. With one for nearly each thread, each keeps room for the most that
/// its thread ever had.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// Makes the allocator give memory back, so that the ceiling holds for the process as a whole.
///
/// By default glibc learns from the first freed record to keep buffers of its size in its heaps,
/// which then grow to several times the ceiling; and it has up to eight heaps a processor.
pub(crate) fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers and touches nothing of ours. It may be called at any
    // time, also beside other threads; glibc takes its own lock.
    let set = unsafe {
        [(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES), (libc::M_ARENA_MAX, HEAPS_MAX)]
            .map(|(option, value)| libc::mallopt(option, value))
    };
    #[cfg(target_env = "gnu")]
    if set.contains(&0) {
        tracing::warn!("the allocator does not take its setting; more memory may stay in use");
    }
}
