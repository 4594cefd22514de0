#![expect(unsafe_code, reason = "the C library's allocator is asked through a C call")]

/// Bytes that have to go for the general allocator to be asked for what it keeps.
pub(crate) const TRIM_BYTES_MIN: u64 = 16 << 20;

/// Has the general allocator give back what it keeps for later: headers of records that have gone,
/// and tables that were larger.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: what is in use is not touched, and glibc takes its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What the general allocator adds to a block, and to what its blocks are rounded up.
const BLOCK_HEADER_BYTES: usize = 8;
const BLOCK_UNIT_BYTES: usize = 16;
const BLOCK_BYTES_MIN: usize = 32;
/// The counts in front of what an `Arc` holds.
const COUNTS_BYTES: usize = 16;

/// Bytes of RAM that a block takes for so many asked for.
pub(crate) const fn block_bytes(asked: usize) -> usize {
    match (asked + BLOCK_HEADER_BYTES).next_multiple_of(BLOCK_UNIT_BYTES) {
        bytes if asked == 0 || bytes > BLOCK_BYTES_MIN => bytes * (asked > 0) as usize,
        _ => BLOCK_BYTES_MIN,
    }
}

/// The same for what lies in an `Arc`.
pub(crate) const fn shared_block_bytes(asked: usize) -> usize {
    block_bytes(COUNTS_BYTES + asked)
}
