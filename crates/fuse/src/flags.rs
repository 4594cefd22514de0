use bitflags::bitflags;

bitflags! {
    /// What kernel and file system agree upon in INIT.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        /// Several reads of a file under way at once.
        const ASYNC_READ = 1 << 0;
        /// POSIX locks are decided by the file system, not by the kernel.
        const POSIX_LOCKS = 1 << 1;
        /// OPEN with `O_TRUNC` truncates.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// `.` and `..` can be looked up, so that NFS can export the mount.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes of more than a page.
        const BIG_WRITES = 1 << 5;
        /// The file system applies the umask itself.
        const DONT_MASK = 1 << 6;
        /// `flock` locks are decided by the file system, not by the kernel.
        const FLOCK_LOCKS = 1 << 10;
        /// `ioctl` on directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// A changed size or time drops the cached pages.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS instead of READDIR.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIRPLUS only where attributes are likely to be asked for.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Several direct requests of one call under way at once.
        const ASYNC_DIO = 1 << 15;
        /// The kernel keeps dirty pages.
        const WRITEBACK_CACHE = 1 << 16;
        /// OPEN may be answered with `ENOSYS`, once for all files.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Look-ups and listings of one directory at once.
        const PARALLEL_DIROPS = 1 << 18;
        /// The file system clears set-id bits on write, truncation and change of owner.
        const HANDLE_KILLPRIV = 1 << 19;
        /// The kernel checks POSIX ACLs.
        const POSIX_ACL = 1 << 20;
        /// Reading the device after an abort fails with `ECONNABORTED`.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` of the reply to INIT is valid.
        const MAX_PAGES = 1 << 22;
        /// Link targets are cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// OPENDIR may be answered with `ENOSYS`, once for all directories.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Only notifications drop the cached pages.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// As [`HANDLE_KILLPRIV`](Self::HANDLE_KILLPRIV), but the kernel says when.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR carries flags.
        const SETXATTR_EXT = 1 << 29;
        /// INIT carries the upper 32 flags.
        const INIT_EXT = 1 << 30;
        /// Notifications can let an entry expire without dropping it.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Files opened with [`OpenFlags::DIRECT_IO`] can be mapped shared.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// The kernel can be told that handles of nodes cannot be decoded.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// Requests can be sent again.
        const HAS_RESEND = 1 << 39;
        /// Mounts can map user ids.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests can travel through io_uring.
        const OVER_IO_URING = 1 << 41;
    }

    /// How the kernel treats an open file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct OpenFlags: u32 {
        /// Bypass the page cache.
        const DIRECT_IO = 1 << 0;
        /// Keep the pages that are cached.
        const KEEP_CACHE = 1 << 1;
        /// The file cannot be sought.
        const NONSEEKABLE = 1 << 2;
        /// Cache this directory's listing.
        const CACHE_DIR = 1 << 3;
        /// The file has no position.
        const STREAM = 1 << 4;
        /// No FLUSH on close.
        const NOFLUSH = 1 << 5;
        /// Several direct writes to one file at once.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }

    /// Which fields of SETATTR are to be set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SetattrFlags: u32 {
        /// `mode`.
        const MODE = 1 << 0;
        /// `uid`.
        const UID = 1 << 1;
        /// `gid`.
        const GID = 1 << 2;
        /// `size`.
        const SIZE = 1 << 3;
        /// `atime`.
        const ATIME = 1 << 4;
        /// `mtime`.
        const MTIME = 1 << 5;
        /// `fh` is valid.
        const FH = 1 << 6;
        /// `atime` is the present time.
        const ATIME_NOW = 1 << 7;
        /// `mtime` is the present time.
        const MTIME_NOW = 1 << 8;
        /// `lock_owner` is valid.
        const LOCKOWNER = 1 << 9;
        /// `ctime`.
        const CTIME = 1 << 10;
        /// Clear set-id bits.
        const KILL_SUIDGID = 1 << 11;
    }

    /// Flags of WRITE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WriteFlags: u32 {
        /// From the page cache: the handle is guessed.
        const CACHE = 1 << 0;
        /// `lock_owner` is valid.
        const LOCKOWNER = 1 << 1;
        /// Clear set-id bits.
        const KILL_SUIDGID = 1 << 2;
    }

    /// Flags of RELEASE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReleaseFlags: u32 {
        /// Flush first.
        const FLUSH = 1 << 0;
        /// Give back the owner's `flock` lock.
        const FLOCK_UNLOCK = 1 << 1;
    }
}

/// Flag of GETATTR and STATX: `fh` is valid.
pub const GETATTR_FH: u32 = 1 << 0;
/// Flag of OPEN and CREATE: clear set-id bits.
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// Flag of SETXATTR: clear the set-group-id bit, because the ACL has been set.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// Flag of GETLK, SETLK and SETLKW: the lock is one of `flock`.
pub const LK_FLOCK: u32 = 1 << 0;
/// Flag of FSYNC: contents only.
pub const FSYNC_DATA_ONLY: u32 = 1 << 0;
