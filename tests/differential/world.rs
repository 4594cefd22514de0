use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as sys, AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat,
    Timespec, Timestamps, XattrFlags,
};
use rustix::io::{Errno, Result, pread, pwrite};
use warmfront_tests::{Mapping, fill, random_bytes};

use crate::step::{NAMES, SLOTS, Step, TARGETS};

/// The extended attributes that steps work on, one of them a name that nobody may use.
const KEYS: [&str; 4] = ["user.one", "user.two", "trusted.three", "nonsense.four"];

/// What a call returned, in a form that can be compared and read.
pub type Answer = std::result::Result<String, Errno>;

/// One of the two places: a directory, and the files in it that are held open.
pub struct World {
    top: PathBuf,
    held: [Option<OwnedFd>; SLOTS],
}

impl World {
    /// A new directory at `top` with a few things in it to start from.
    pub fn new(top: &Path) -> World {
        for directory in ["", "d", "d/e", "f"] {
            let path = top.join(directory);
            std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
        fill(&top.join("a"), 1, 300_000);
        fill(&top.join("long"), 2, 200_001);
        fill(&top.join("d/a"), 3, 5000);
        fill(&top.join("f/b"), 4, 0);
        World { top: top.to_path_buf(), held: [const { None }; SLOTS] }
    }

    fn path(&self, name: usize) -> PathBuf {
        self.top.join(NAMES[name])
    }

    fn open(&self, name: usize, flags: OFlags) -> Result<OwnedFd> {
        // A named pipe without a partner must not make the test wait.
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
        sys::open(self.path(name), flags, Mode::empty())
    }

    fn held(&self, slot: usize) -> Result<&OwnedFd> {
        self.held[slot].as_ref().ok_or(Errno::BADF)
    }

    /// Carries out one step and tells the result.
    pub fn carry_out(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Read { .. }
            | Step::Write { .. }
            | Step::Append { .. }
            | Step::Truncate { .. }
            | Step::MapWrite { .. }
            | Step::Allocate { .. }
            | Step::Seek { .. }
            | Step::CopyRange { .. } => self.contents(step),
            Step::Hold { .. }
            | Step::HeldRead { .. }
            | Step::HeldWrite { .. }
            | Step::HeldTruncate { .. }
            | Step::HeldStat { .. }
            | Step::HeldSync { .. }
            | Step::Release { .. } => self.of_held(step),
            Step::Stat { .. }
            | Step::Access { .. }
            | Step::SetMode { .. }
            | Step::SetOwner { .. }
            | Step::SetTimes { .. }
            | Step::SetXattr { .. }
            | Step::RemoveXattr { .. }
            | Step::ListXattrs { .. }
            | Step::SetAcl { .. } => self.attributes(step),
            _ => self.names(step),
        }
    }

    fn contents(&self, step: &Step) -> Answer {
        match *step {
            Step::Read { name, offset, length } => {
                read(&self.open(name, OFlags::RDONLY)?, offset, length)
            }
            Step::Write { name, offset, length, seed } => {
                let file = self.open(name, OFlags::WRONLY)?;
                answer(pwrite(&file, &random_bytes(seed, length), offset))
            }
            Step::Append { name, length, seed } => {
                let file = self.open(name, OFlags::WRONLY | OFlags::APPEND)?;
                answer(rustix::io::write(&file, &random_bytes(seed, length)))
            }
            Step::Truncate { name, length } => {
                answer(sys::ftruncate(self.open(name, OFlags::RDWR)?, length))
            }
            Step::MapWrite { name, offset, length, seed, shared } => {
                self.map_write(name, offset, length, seed, shared)
            }
            Step::Allocate { name, mode, offset, length } => {
                self.allocate(name, mode, offset, length)
            }
            Step::Seek { name, hole, offset } => {
                let file = self.open(name, OFlags::RDONLY)?;
                // What lies where in a directory is the kernel's own affair.
                if FileType::from_raw_mode(sys::fstat(&file)?.st_mode) != FileType::RegularFile {
                    return Ok("no file to seek in".to_string());
                }
                let from = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
                answer(sys::seek(file, from))
            }
            Step::CopyRange { from, to, mut source, mut offset, length } => {
                let one = self.open(from, OFlags::RDONLY)?;
                let other = self.open(to, OFlags::WRONLY)?;
                let both = (Some(&mut source), Some(&mut offset));
                answer(sys::copy_file_range(one, both.0, other, both.1, length))
            }
            _ => unreachable!("not a step on contents: {step:?}"),
        }
    }

    fn map_write(
        &self,
        name: usize,
        offset: usize,
        length: usize,
        seed: u64,
        shared: bool,
    ) -> Answer {
        let file = self.open(name, OFlags::RDWR)?;
        let stat = sys::fstat(&file)?;
        let size = usize::try_from(stat.st_size).expect("no file of this test is so large");
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || offset >= size {
            return Ok("nothing to map".to_string());
        }
        let length = length.min(size - offset);
        let mut mapping = Mapping::new(&File::from(file), size, shared)?;
        let mut before = vec![0; length];
        mapping.read(offset, &mut before);
        mapping.write(offset, &random_bytes(seed, length));
        mapping.sync()?;
        Ok(digest(&before))
    }

    fn allocate(&self, name: usize, mode: FallocateFlags, offset: u64, length: u64) -> Answer {
        let file = self.open(name, OFlags::RDWR)?;
        sys::fallocate(&file, mode, offset, length)?;
        Ok(sys::fstat(&file)?.st_size.to_string())
    }

    fn names(&self, step: &Step) -> Answer {
        match *step {
            Step::Create { name, mode, exclusive, truncate } => {
                let mut flags = OFlags::CREATE | OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
                flags.set(OFlags::EXCL, exclusive);
                flags.set(OFlags::TRUNC, truncate);
                let file = sys::open(self.path(name), flags, Mode::from_raw_mode(mode))?;
                Ok(describe(&sys::fstat(file)?))
            }
            Step::Rename { from, to, flags } => {
                answer(sys::renameat_with(CWD, self.path(from), CWD, self.path(to), flags))
            }
            Step::Link { from, to } => {
                sys::link(self.path(from), self.path(to))?;
                Ok(describe(&sys::lstat(self.path(from))?))
            }
            Step::Symlink { target, name } => {
                answer(sys::symlink(TARGETS[target], self.path(name)))
            }
            Step::ReadLink { name } => answer(sys::readlink(self.path(name), Vec::new())),
            Step::MakeDirectory { name, mode } => {
                answer(sys::mkdir(self.path(name), Mode::from_raw_mode(mode)))
            }
            Step::MakeNode { name, socket, mode } => {
                let kind = if socket { FileType::Socket } else { FileType::Fifo };
                let mode = Mode::from_raw_mode(mode);
                answer(sys::mknodat(CWD, self.path(name), kind, mode, 0))
            }
            Step::RemoveDirectory { name } => answer(sys::rmdir(self.path(name))),
            Step::Unlink { name } => answer(sys::unlink(self.path(name))),
            Step::List { name } => self.list(name),
            _ => unreachable!("not a step on names: {step:?}"),
        }
    }

    /// Names and types in a directory, and whether each inode number is the one `stat` tells.
    fn list(&self, name: usize) -> Answer {
        let directory = self.open(name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let stat = sys::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            let same = entry.file_name() == c".." || stat.st_ino == entry.ino();
            found.push(format!("{:?} {:?} {same}", entry.file_name(), entry.file_type()));
        }
        found.sort();
        Ok(found.join(", "))
    }

    fn attributes(&self, step: &Step) -> Answer {
        match *step {
            Step::Stat { name, follow } => {
                let stat = if follow { sys::stat } else { sys::lstat };
                Ok(describe(&stat(self.path(name))?))
            }
            Step::Access { name, mode } => {
                let access = sys::Access::from_bits_truncate(mode);
                answer(sys::access(self.path(name), access))
            }
            Step::SetMode { name, mode } => {
                answer(sys::chmod(self.path(name), Mode::from_raw_mode(mode)))
            }
            Step::SetOwner { name, user, group } => {
                let user = Some(sys::Uid::from_raw(user));
                let group = Some(sys::Gid::from_raw(group));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                answer(sys::chownat(CWD, self.path(name), user, group, flags))
            }
            Step::SetTimes { name, accessed, modified, nanoseconds } => {
                let time = |tv_sec| Timespec { tv_sec, tv_nsec: nanoseconds.into() };
                let times =
                    Timestamps { last_access: time(accessed), last_modification: time(modified) };
                sys::utimensat(CWD, self.path(name), &times, AtFlags::SYMLINK_NOFOLLOW)?;
                let stat = sys::lstat(self.path(name))?;
                Ok(format!(
                    "{}.{} {}.{}",
                    stat.st_atime, stat.st_atime_nsec, stat.st_mtime, stat.st_mtime_nsec
                ))
            }
            Step::SetXattr { name, key, length, flags } => {
                let value = random_bytes(length as u64, length);
                sys::lsetxattr(self.path(name), KEYS[key], &value, flags)?;
                self.xattr(name, KEYS[key])
            }
            Step::RemoveXattr { name, key } => {
                answer(sys::lremovexattr(self.path(name), KEYS[key]))
            }
            Step::ListXattrs { name } => {
                let mut list = vec![0_u8; 64 << 10];
                let length = sys::llistxattr(self.path(name), &mut list)?;
                let names = list[..length].split(|&byte| byte == 0);
                let mut names: Vec<_> = names.map(|name| CString::new(name).ok()).collect();
                names.sort();
                Ok(format!("{names:?}"))
            }
            Step::SetAcl { name, user, permissions, default } => {
                let key = if default { ACL_KEYS[1] } else { ACL_KEYS[0] };
                let path = self.path(name);
                sys::lsetxattr(&path, key, &acl(user, permissions), XattrFlags::empty())?;
                Ok(format!("{} {}", describe(&sys::lstat(path)?), self.xattr(name, key)?))
            }
            _ => unreachable!("not a step on attributes: {step:?}"),
        }
    }

    fn xattr(&self, name: usize, key: &str) -> Answer {
        let mut value = vec![0_u8; 128 << 10];
        let length = sys::lgetxattr(self.path(name), key, &mut value)?;
        Ok(digest(&value[..length]))
    }

    fn of_held(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Hold { slot, name, append } => {
                self.held[slot] = None;
                let flags = if append { OFlags::APPEND } else { OFlags::empty() };
                let file = self.open(name, OFlags::RDWR | flags)?;
                // A pipe has no offsets and keeps what nobody reads.
                if FileType::from_raw_mode(sys::fstat(&file)?.st_mode) == FileType::RegularFile {
                    self.held[slot] = Some(file);
                }
                Ok("held".to_string())
            }
            Step::HeldRead { slot, offset, length } => read(self.held(slot)?, offset, length),
            Step::HeldWrite { slot, offset, length, seed } => {
                answer(pwrite(self.held(slot)?, &random_bytes(seed, length), offset))
            }
            Step::HeldTruncate { slot, length } => answer(sys::ftruncate(self.held(slot)?, length)),
            Step::HeldStat { slot } => Ok(describe(&sys::fstat(self.held(slot)?)?)),
            Step::HeldSync { slot, data_only: true } => answer(sys::fdatasync(self.held(slot)?)),
            Step::HeldSync { slot, data_only: false } => answer(sys::fsync(self.held(slot)?)),
            Step::Release { slot } => answer(Ok(self.held[slot].take().is_some())),
            _ => unreachable!("not a step on a held file: {step:?}"),
        }
    }
}

const ACL_KEYS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// An access control list in the form that the kernel takes as an extended attribute: a version,
/// then entries of tag, permissions and id.
fn acl(user: u32, permissions: u16) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NO_ID),
        (0x02, permissions, user),
        (0x04, 4, NO_ID),
        (0x10, 7, NO_ID),
        (0x20, 0, NO_ID),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn answer<T: std::fmt::Debug>(result: Result<T>) -> Answer {
    result.map(|value| format!("{value:?}"))
}

fn read(file: &OwnedFd, offset: u64, length: usize) -> Answer {
    let mut bytes = vec![0; length];
    let count = pread(file, &mut bytes, offset)?;
    Ok(digest(&bytes[..count]))
}

fn digest(bytes: &[u8]) -> String {
    format!("{} bytes, {:016x}", bytes.len(), xxhash_rust::xxh3::xxh3_64(bytes))
}

/// What `stat` tells, without what two places cannot have in common: times, numbers, space.
fn describe(stat: &Stat) -> String {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let size = if kind == FileType::Directory { 0 } else { stat.st_size };
    format!(
        "{kind:?} mode {:o} links {} owner {}:{} size {size} device {}",
        stat.st_mode, stat.st_nlink, stat.st_uid, stat.st_gid, stat.st_rdev
    )
}
