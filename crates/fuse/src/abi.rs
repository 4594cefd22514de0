//! Structures of the kernel's FUSE protocol, version 7.31 to 7.45, as they lie on the wire.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`. Numbers are in the machine's own byte order.
//! Fields carry the protocol's names; reserved ones are called `padding`, `unused` or `spare`.
#![expect(missing_docs, reason = "fields carry the protocol's names and nothing more")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version that is spoken.
pub const MAJOR: u32 = 7;
/// Newest minor version that is spoken.
pub const MINOR: u32 = 45;
/// Oldest minor version that is accepted (Linux 5.4).
pub const MINOR_MIN: u32 = 31;
/// Node id of the root directory.
pub const ROOT_ID: u64 = 1;

macro_rules! wire {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

wire! {
    /// Begins every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }

    /// Begins every reply and every notification.
    OutHeader { len: u32, error: i32, unique: u64 }

    /// What `stat` tells.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }

    /// What `statfs` tells.
    Kstatfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }

    /// A POSIX lock: a range of bytes (`end` included), its kind and its owner.
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }

    /// A time of [`Statx`].
    StatxTime { seconds: i64, nanoseconds: u32, reserved: i32 }

    /// What `statx` tells.
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare0: [u16; 1], ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: StatxTime, btime: StatxTime, ctime: StatxTime, mtime: StatxTime, rdev_major: u32,
        rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
}

// Arguments of requests.
wire! {
    /// INIT, as far as every kernel sends it.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }

    /// INIT, what kernels since 7.36 add.
    InitInMore { flags2: u32, unused: [u32; 11] }

    /// FORGET.
    ForgetIn { nlookup: u64 }

    /// An entry of BATCH_FORGET.
    ForgetOne { nodeid: u64, nlookup: u64 }

    /// BATCH_FORGET.
    BatchForgetIn { count: u32, dummy: u32 }

    /// GETATTR.
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }

    /// SETATTR.
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64,
        ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }

    /// MKNOD.
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }

    /// MKDIR.
    MkdirIn { mode: u32, umask: u32 }

    /// RENAME.
    RenameIn { newdir: u64 }

    /// RENAME2.
    Rename2In { newdir: u64, flags: u32, padding: u32 }

    /// LINK.
    LinkIn { oldnodeid: u64 }

    /// OPEN and OPENDIR: `flags` are those of `open(2)`.
    OpenIn { flags: u32, open_flags: u32 }

    /// CREATE and TMPFILE: `flags` are those of `open(2)`.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }

    /// READ, READDIR and READDIRPLUS.
    ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }

    /// WRITE: the data follows.
    WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }

    /// RELEASE and RELEASEDIR.
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }

    /// FLUSH.
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }

    /// FSYNC and FSYNCDIR.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }

    /// SETXATTR without the extension that is negotiated by `SETXATTR_EXT`.
    SetxattrIn { size: u32, flags: u32 }

    /// SETXATTR, what `SETXATTR_EXT` adds.
    SetxattrInMore { setxattr_flags: u32, padding: u32 }

    /// GETXATTR and LISTXATTR.
    GetxattrIn { size: u32, padding: u32 }

    /// GETLK, SETLK and SETLKW.
    LkIn { fh: u64, owner: u64, lock: FileLock, lk_flags: u32, padding: u32 }

    /// ACCESS.
    AccessIn { mask: u32, padding: u32 }

    /// INTERRUPT.
    InterruptIn { unique: u64 }

    /// BMAP.
    BmapIn { block: u64, blocksize: u32, padding: u32 }

    /// IOCTL: `in_size` bytes follow.
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }

    /// POLL.
    PollIn { fh: u64, kh: u64, flags: u32, events: u32 }

    /// FALLOCATE.
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }

    /// LSEEK.
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }

    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64.
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }

    /// SYNCFS.
    SyncfsIn { padding: u64 }

    /// STATX.
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
}

// Replies.
wire! {
    /// INIT.
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }

    /// LOOKUP, SYMLINK, MKNOD, MKDIR, LINK, and the first part of CREATE.
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }

    /// GETATTR and SETATTR.
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }

    /// OPEN, OPENDIR, and the second part of CREATE.
    OpenOut { fh: u64, open_flags: u32, padding: u32 }

    /// WRITE and COPY_FILE_RANGE.
    WriteOut { size: u32, padding: u32 }

    /// GETXATTR and LISTXATTR when only the size is asked for.
    GetxattrOut { size: u32, padding: u32 }

    /// GETLK.
    LkOut { lock: FileLock }

    /// BMAP.
    BmapOut { block: u64 }

    /// IOCTL: data follows.
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }

    /// POLL.
    PollOut { revents: u32, padding: u32 }

    /// LSEEK.
    LseekOut { offset: u64 }

    /// COPY_FILE_RANGE_64.
    CopyFileRangeOut { bytes_copied: u64 }

    /// STATX.
    StatxOut {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx,
    }

    /// An entry of READDIR: the name follows, padded to eight bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
}

// Notifications.
wire! {
    /// INVAL_INODE.
    InvalInodeOut { ino: u64, off: i64, len: i64 }

    /// INVAL_ENTRY: the name follows, ended by a zero byte.
    InvalEntryOut { parent: u64, namelen: u32, flags: u32 }

    /// DELETE: the name follows, ended by a zero byte.
    DeleteOut { parent: u64, child: u64, namelen: u32, padding: u32 }

    /// STORE: the data follows.
    StoreOut { nodeid: u64, offset: u64, size: u32, padding: u32 }

    /// PRUNE: as many node ids follow.
    PruneOut { count: u32, padding: u32, spare: u64 }
}

/// Operation codes.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const BMAP: u32 = 37;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const POLL: u32 = 40;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Notification codes.
pub mod notification {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const STORE: i32 = 4;
    pub const DELETE: i32 = 6;
    pub const INC_EPOCH: i32 = 8;
    pub const PRUNE: i32 = 9;
    /// Flag of INVAL_ENTRY: do not drop the name.
    pub const EXPIRE_ONLY: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_protocol() {
        assert_eq!(size_of::<InHeader>(), 40);
        assert_eq!(size_of::<OutHeader>(), 16);
        assert_eq!(size_of::<Attr>(), 88);
        assert_eq!(size_of::<Kstatfs>(), 80);
        assert_eq!(size_of::<FileLock>(), 24);
        assert_eq!(size_of::<Statx>(), 256);
        assert_eq!(size_of::<InitIn>() + size_of::<InitInMore>(), 64);
        assert_eq!(size_of::<InitOut>(), 64);
        assert_eq!(size_of::<SetattrIn>(), 88);
        assert_eq!(size_of::<ReadIn>(), 40);
        assert_eq!(size_of::<WriteIn>(), 40);
        assert_eq!(size_of::<LkIn>(), 48);
        assert_eq!(size_of::<EntryOut>(), 128);
        assert_eq!(size_of::<AttrOut>(), 104);
        assert_eq!(size_of::<StatxOut>(), 288);
        assert_eq!(size_of::<Dirent>(), 24);
        assert_eq!(size_of::<CopyFileRangeIn>(), 56);
        assert_eq!(size_of::<IoctlIn>(), 32);
    }
}
