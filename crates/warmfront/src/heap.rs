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
