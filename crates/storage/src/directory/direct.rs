use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType, Mode, OFlags, fstatfs, openat};
use rustix::io::{Errno, pread};

/// Offsets, addresses and lengths of direct reads are multiples of this.
pub(super) const ALIGNMENT: usize = 4096;

/// Most names looked at in search of a file to try.
const PROBE_NAMES_MAX: usize = 256;

/// File systems that are known to read directly, by the magic number of `statfs(2)`: ext4, XFS,
/// btrfs, F2FS, NFS.
const KNOWN: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x6969];

/// Whether a read can be served directly: everything is aligned.
pub(super) fn is_aligned(offset: u64, buffers: &[IoSliceMut<'_>]) -> bool {
    offset.is_multiple_of(ALIGNMENT as u64)
        && buffers.iter().all(|buffer| {
            buffer.len().is_multiple_of(ALIGNMENT)
                && buffer.as_ptr().addr().is_multiple_of(ALIGNMENT)
        })
}

/// Whether files in and below `directory` can be read with `O_DIRECT`.
///
/// Nothing is written. The first regular files of the directory are tried; where it has none, an
/// unnamed file; where this is refused too, the type of the file system decides.
pub(super) fn is_supported(directory: &OwnedFd) -> bool {
    let files = Dir::read_from(directory).into_iter().flatten().take(PROBE_NAMES_MAX).flatten();
    for file in files.filter(|entry| entry.file_type() == FileType::RegularFile) {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(directory, file.file_name(), flags | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => return reads(&file),
            Err(Errno::INVAL) => return false,
            Err(_) => {}
        }
    }
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT | OFlags::CLOEXEC;
    match openat(directory, c".", flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => reads(&file),
        Err(Errno::INVAL) => false,
        Err(_) => fstatfs(directory)
            .is_ok_and(|fs| u64::try_from(fs.f_type).is_ok_and(|magic| KNOWN.contains(&magic))),
    }
}

/// Whether an aligned direct read is accepted.
fn reads(file: &OwnedFd) -> bool {
    let mut space = vec![0_u8; 2 * ALIGNMENT];
    let start = space.as_ptr().align_offset(ALIGNMENT);
    let Some(buffer) = space.get_mut(start..start + ALIGNMENT) else { return false };
    pread(file, buffer, 0) != Err(Errno::INVAL)
}
