use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
    chmod, chownat, ftruncate, getxattr, listxattr, openat, readlinkat, removexattr, setxattr,
    utimensat,
};
use rustix::io::{Errno, retry_on_intr};

use super::stat::{attributes_of, identity_of, stat_of};
use super::tree::{Fallback, Tree, proc_path};
use crate::{Attributes, Kind, ObjectId, Result, SetAttributes, SetTime, XattrMode};

/// Largest value of an extended attribute, and of the list of their names (`XATTR_SIZE_MAX`).
const XATTR_BYTES_MAX: usize = 64 << 10;

impl Tree {
    pub fn set_attributes(&self, object: ObjectId, change: SetAttributes) -> Result<Attributes> {
        const SET: &str = "set attributes";
        let (handle, stat) = self.handle(SET, object, Fallback::Always)?;
        let fail = |errno| self.object_error(SET, errno);
        if let Some(size) = change.size {
            match identity_of(&stat).map_err(fail)?.kind {
                Kind::File => {}
                Kind::Directory => return Err(fail(Errno::ISDIR)),
                _ => return Err(fail(Errno::INVAL)),
            }
            truncate(&handle, size).map_err(fail)?;
        }
        change_attributes(&handle, &change).map_err(fail)?;
        stat_of(&handle).and_then(|stat| attributes_of(&stat)).map_err(fail)
    }

    pub fn read_link(&self, object: ObjectId) -> Result<OsString> {
        const READ_LINK: &str = "read link";
        let (handle, stat) = self.handle(READ_LINK, object, Fallback::Always)?;
        let fail = |errno| self.object_error(READ_LINK, errno);
        if identity_of(&stat).map_err(fail)?.kind != Kind::Symlink {
            return Err(fail(Errno::INVAL));
        }
        let target = readlinkat(&*handle, c"", Vec::new()).map_err(fail)?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    pub fn xattr(&self, object: ObjectId, name: &OsStr) -> Result<Vec<u8>> {
        const GET: &str = "get xattr";
        let (handle, _) = self.handle(GET, object, Fallback::Always)?;
        whole(|space| getxattr(proc_path(&handle), name, space))
            .map_err(|errno| self.object_error(GET, errno))
    }

    pub fn xattrs(&self, object: ObjectId) -> Result<Vec<OsString>> {
        const LIST: &str = "list xattrs";
        let (handle, _) = self.handle(LIST, object, Fallback::Always)?;
        let names = whole(|space| listxattr(proc_path(&handle), space))
            .map_err(|errno| self.object_error(LIST, errno))?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
    }

    pub fn set_xattr(
        &self,
        object: ObjectId,
        name: &OsStr,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        const SET: &str = "set xattr";
        let (handle, _) = self.handle(SET, object, Fallback::Always)?;
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        setxattr(proc_path(&handle), name, value, flags)
            .map_err(|errno| self.object_error(SET, errno))
    }

    pub fn remove_xattr(&self, object: ObjectId, name: &OsStr) -> Result<()> {
        const REMOVE: &str = "remove xattr";
        let (handle, _) = self.handle(REMOVE, object, Fallback::Always)?;
        removexattr(proc_path(&handle), name).map_err(|errno| self.object_error(REMOVE, errno))
    }

    pub fn sync_directory(&self, object: ObjectId) -> Result<()> {
        const SYNC: &str = "sync directory";
        let directory = self.directory(SYNC, object)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&*directory, c".", flags, Mode::empty())
            .and_then(|opened| retry_on_intr(|| rustix::fs::fsync(&opened)))
            .map_err(|errno| self.object_error(SYNC, errno))
    }
}

/// Sets the size of a file through a descriptor of any kind.
pub(super) fn truncate(descriptor: &OwnedFd, size: u64) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let writable = openat(CWD, proc_path(descriptor), flags, Mode::empty())?;
    retry_on_intr(|| ftruncate(&writable, size))
}

/// Changes everything but the size, through a descriptor of any kind. The order is owner,
/// permissions, times: the kernel takes set-id bits away when the owner changes, and what was
/// asked for comes last.
pub(super) fn change_attributes(
    descriptor: &OwnedFd,
    change: &SetAttributes,
) -> rustix::io::Result<()> {
    if change.uid.is_some() || change.gid.is_some() {
        if change.uid == Some(u32::MAX) || change.gid == Some(u32::MAX) {
            return Err(Errno::INVAL);
        }
        let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
        chownat(descriptor, c"", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(permissions) = change.permissions {
        chmod(proc_path(descriptor), Mode::from_raw_mode(permissions & 0o7777))?;
    }
    if change.accessed.is_some() || change.modified.is_some() {
        let times = Timestamps {
            last_access: timespec(change.accessed)?,
            last_modification: timespec(change.modified)?,
        };
        utimensat(CWD, proc_path(descriptor), &times, AtFlags::empty())?;
    }
    Ok(())
}

fn timespec(time: Option<SetTime>) -> rustix::io::Result<Timespec> {
    match time {
        None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        Some(SetTime::Now) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        Some(SetTime::At(time)) if time.nanoseconds < 1_000_000_000 => {
            Ok(Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() })
        }
        Some(SetTime::At(_)) => Err(Errno::INVAL),
    }
}

/// Calls with a small buffer first, and with the largest one when that is refused.
fn whole(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut space = vec![0; 256];
    let length = match call(&mut space) {
        Err(Errno::RANGE) => {
            space.resize(XATTR_BYTES_MAX, 0);
            call(&mut space)?
        }
        length => length?,
    };
    space.truncate(length);
    Ok(space)
}
