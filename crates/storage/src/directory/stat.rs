use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, makedev, statx};
use rustix::io::Errno;

use super::node_table::Identity;
use crate::{Attributes, Kind, Timestamp};

/// The fields asked for.
pub(super) const MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// What a descriptor leads to.
pub(super) fn stat_of(descriptor: impl AsFd) -> rustix::io::Result<Statx> {
    statx(descriptor, c"", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, MASK)
}

/// What a name in a directory leads to. Symbolic links are not followed.
pub(super) fn stat_at(directory: impl AsFd, name: &OsStr) -> rustix::io::Result<Statx> {
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, MASK)
}

/// Which object it is.
///
/// # Errors
/// `EINVAL` when the file system tells a type that does not exist.
pub(super) fn identity_of(stat: &Statx) -> rustix::io::Result<Identity> {
    let kind = kind_of(FileType::from_raw_mode(stat.stx_mode.into())).ok_or(Errno::INVAL)?;
    let device = makedev(stat.stx_dev_major, stat.stx_dev_minor);
    Ok(Identity { device, inode: stat.stx_ino, kind })
}

/// The attributes in our own words.
///
/// # Errors
/// `EINVAL` when the file system tells a type that does not exist.
pub(super) fn attributes_of(stat: &Statx) -> rustix::io::Result<Attributes> {
    let born = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    Ok(Attributes {
        kind: identity_of(stat)?.kind,
        permissions: u32::from(stat.stx_mode) & 0o7777,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        blocks_512: stat.stx_blocks,
        block_size: stat.stx_blksize,
        device: makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
        accessed: time_of(stat.stx_atime),
        modified: time_of(stat.stx_mtime),
        changed: time_of(stat.stx_ctime),
        born: born.then(|| time_of(stat.stx_btime)),
    })
}

fn time_of(time: StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}

/// The type, unless it is unknown.
pub(super) fn kind_of(file_type: FileType) -> Option<Kind> {
    match file_type {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => Some(Kind::Symlink),
        FileType::Fifo => Some(Kind::Fifo),
        FileType::Socket => Some(Kind::Socket),
        FileType::CharacterDevice => Some(Kind::CharacterDevice),
        FileType::BlockDevice => Some(Kind::BlockDevice),
        FileType::Unknown => None,
    }
}
