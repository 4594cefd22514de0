#![expect(unsafe_code, reason = "memory maps of files have no safe interface")]

use std::fs::File;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A file mapped into memory, readable and writable.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes of `file`, which must be open for reading and writing:
    /// `shared`, so that stores reach the file, or private to this process.
    pub fn new(file: &File, length: usize, shared: bool) -> rustix::io::Result<Mapping> {
        let flags = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new map at an address of the kernel's choice touches no memory of ours.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, protection, flags, file.as_fd(), 0)? };
        let start = NonNull::new(start.cast()).expect("a map is never at address zero");
        Ok(Mapping { start, length })
    }

    /// Maps `length` bytes of memory without a file, aligned as direct I/O wants it.
    pub fn of_memory(length: usize) -> rustix::io::Result<Mapping> {
        let file = File::from(memfd_create("memory", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, length as u64)?;
        Mapping::new(&file, length, true)
    }

    /// Reads `buffer.len()` bytes at `offset`. The range must lie within the file: a store or
    /// load past its end is death by `SIGBUS`.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) {
        assert!(offset + buffer.len() <= self.length, "within the map");
        for (index, byte) in buffer.iter_mut().enumerate() {
            // SAFETY: within the map, which lives as long as `self`. Volatile, because the file
            // changes under us.
            *byte = unsafe { self.start.add(offset + index).read_volatile() };
        }
    }

    /// Reads the word at `offset`, a multiple of 8 within the file, in one go.
    pub fn word(&self, offset: usize) -> u64 {
        assert!(offset + 8 <= self.length && offset.is_multiple_of(8), "a word of the map");
        // SAFETY: as in `read`; a map begins with a page, so the word is aligned.
        unsafe { self.start.add(offset).cast::<u64>().read_volatile() }
    }

    /// Writes `bytes` at `offset`, within the file as for [`read`](Mapping::read).
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length, "within the map");
        for (index, &byte) in bytes.iter().enumerate() {
            // SAFETY: as in `read`.
            unsafe { self.start.add(offset + index).write_volatile(byte) };
        }
    }

    /// Reads from `file` at `offset` into the whole map, with one call, and returns the bytes read.
    pub fn fill_from(&mut self, file: &File, offset: u64) -> rustix::io::Result<usize> {
        // SAFETY: exactly the range of the map, which `self` has to itself during the call.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        rustix::io::pread(file, bytes, offset)
    }

    /// Writes the whole map to `file` at `offset`, with one call, and returns the bytes written.
    pub fn write_to(&self, file: &File, offset: u64) -> rustix::io::Result<usize> {
        // SAFETY: exactly the range of the map, which nobody changes while `self` is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) };
        rustix::io::pwrite(file, bytes, offset)
    }

    /// Waits until what was written has reached the file.
    pub fn sync(&self) -> rustix::io::Result<()> {
        // SAFETY: exactly the range of the map.
        unsafe { msync(self.start.as_ptr().cast(), self.length, MsyncFlags::SYNC) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range of the map, which nothing uses after this.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        assert_eq!(unmapped, Ok(()), "a map can be unmapped");
    }
}
