use std::ffi::OsStr;
use std::time::Duration;

use rustix::io::Errno;

use crate::abi::*;
use crate::buffer::REQUEST_BYTES_MAX;
use crate::directory::DirectoryBuffer;
use crate::flags::{InitFlags, OpenFlags};
use crate::interrupt::Interrupt;
use crate::reply::ReadReply;
use crate::watch::Stay;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Errno>;

/// Who calls, and on what.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Number of the request, unique among those under way.
    pub unique: u64,
    /// The node that the call is about: the directory of calls that take a name.
    pub node: u64,
    /// Caller's user id.
    pub uid: u32,
    /// Caller's group id.
    pub gid: u32,
    /// Caller's process id, zero for the kernel itself or outside the daemon's namespace.
    pub pid: u32,
}

/// What the kernel offers in INIT.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Minor version of the protocol; the major one is 7.
    pub minor: u32,
    /// What it can do.
    pub flags: InitFlags,
    /// Most bytes that it reads ahead.
    pub readahead_bytes_max: u32,
}

/// What the file system wants of the offer.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Wanted flags; those that the kernel does not offer are left out.
    pub flags: InitFlags,
    /// Most bytes that the kernel may read ahead.
    pub readahead_bytes_max: u32,
    /// Most requests that the kernel sends without anybody waiting (read-ahead, `O_DIRECT` in
    /// the background).
    pub background_max: u16,
    /// Most bytes of data in one READ or WRITE, at most [`REQUEST_BYTES_MAX`].
    pub request_bytes_max: usize,
    /// Resolution of times in nanoseconds.
    pub time_granularity_ns: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            flags: InitFlags::ASYNC_READ
                | InitFlags::BIG_WRITES
                | InitFlags::PARALLEL_DIROPS
                | InitFlags::ASYNC_DIO,
            readahead_bytes_max: 1 << 20,
            background_max: 64,
            request_bytes_max: REQUEST_BYTES_MAX,
            time_granularity_ns: 1,
        }
    }
}

/// A node that was found or made; the kernel holds one more reference to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry {
    /// Node id; zero for a name that does not exist.
    pub node: u64,
    /// Tells two nodes apart that had the same id one after the other.
    pub generation: u64,
    /// Attributes.
    pub attributes: Attr,
    /// How long the kernel may believe the name.
    pub entry_ttl: Duration,
    /// How long the kernel may believe the attributes.
    pub attributes_ttl: Duration,
}

impl Entry {
    /// A name that does not exist, which the kernel may believe for `ttl`.
    pub fn negative(ttl: Duration) -> Entry {
        Entry { entry_ttl: ttl, ..Entry::default() }
    }
}

/// An open file or directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opened {
    /// Handle that comes back in calls on it.
    pub handle: u64,
    /// How the kernel treats it.
    pub flags: OpenFlags,
}

/// A file system behind the kernel's FUSE protocol.
///
/// Each call comes on a thread of its own and may block; further threads are started while calls
/// wait. What a method returns goes out as the reply. Defaults answer `ENOSYS`, which the kernel
/// remembers for many operations, so that they are not asked again.
#[expect(unused_variables, reason = "the defaults use none of their arguments")]
pub trait Filesystem: Send + Sync + 'static {
    /// Chooses from what the kernel offers. Called once, first.
    fn init(&self, kernel: &Kernel) -> Settings {
        Settings::default()
    }

    /// The mount has ended. Called once, last.
    fn destroy(&self) {}

    /// Whether all that had been changed `age` ago lasts, so that who asked for that then need not
    /// wait for the call that sees to it. Asked when such a call takes long.
    fn lasts(&self, age: Duration) -> bool {
        false
    }

    /// Finds a name.
    fn lookup(&self, call: &Call, name: &OsStr) -> Result<Entry> {
        Err(Errno::NOSYS)
    }

    /// The kernel gives back `count` references to `node`.
    fn forget(&self, node: u64, count: u64) {}

    /// Tells attributes, with the time for which the kernel may believe them.
    fn getattr(&self, call: &Call, handle: Option<u64>) -> Result<(Attr, Duration)> {
        Err(Errno::NOSYS)
    }

    /// Changes attributes: see [`SetattrFlags`](crate::SetattrFlags).
    fn setattr(&self, call: &Call, change: &SetattrIn) -> Result<(Attr, Duration)> {
        Err(Errno::NOSYS)
    }

    /// Tells attributes with the time of creation. `ENOSYS` makes the kernel use `getattr`.
    fn statx(&self, call: &Call, arguments: &StatxIn) -> Result<(Statx, Duration)> {
        Err(Errno::NOSYS)
    }

    /// Reads a symbolic link.
    fn readlink(&self, call: &Call) -> Result<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// Makes a symbolic link.
    fn symlink(&self, call: &Call, name: &OsStr, target: &OsStr) -> Result<Entry> {
        Err(Errno::NOSYS)
    }

    /// Makes a special file or an empty regular one.
    fn mknod(&self, call: &Call, name: &OsStr, arguments: &MknodIn) -> Result<Entry> {
        Err(Errno::NOSYS)
    }

    /// Makes a directory.
    fn mkdir(&self, call: &Call, name: &OsStr, arguments: &MkdirIn) -> Result<Entry> {
        Err(Errno::NOSYS)
    }

    /// Removes a name.
    fn unlink(&self, call: &Call, name: &OsStr) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Removes an empty directory.
    fn rmdir(&self, call: &Call, name: &OsStr) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Moves a name; `flags` are those of `renameat2(2)`.
    fn rename(
        &self,
        call: &Call,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: u32,
    ) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Makes `name` in the call's directory lead to `node`.
    fn link(&self, call: &Call, node: u64, name: &OsStr) -> Result<Entry> {
        Err(Errno::NOSYS)
    }

    /// Opens a file.
    fn open(&self, call: &Call, arguments: &OpenIn) -> Result<Opened> {
        Err(Errno::NOSYS)
    }

    /// Reads: the pieces go to `reply`.
    fn read(&self, call: &Call, arguments: &ReadIn, reply: ReadReply<'_>) {
        reply.error(Errno::NOSYS);
    }

    /// Writes and returns the number of bytes written.
    fn write(&self, call: &Call, arguments: &WriteIn, data: &[u8], stay: &Stay<'_>) -> Result<u32> {
        Err(Errno::NOSYS)
    }

    /// Tells space.
    fn statfs(&self, call: &Call) -> Result<Kstatfs> {
        Err(Errno::NOSYS)
    }

    /// The last descriptor of an open file is closed.
    fn release(&self, call: &Call, arguments: &ReleaseIn) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Makes a file durable.
    fn fsync(&self, call: &Call, handle: u64, data_only: bool, stay: &Stay<'_>) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Sets an extended attribute: `flags` are those of `setxattr(2)`, `extended` may hold
    /// [`SETXATTR_ACL_KILL_SGID`](crate::SETXATTR_ACL_KILL_SGID).
    fn setxattr(
        &self,
        call: &Call,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        extended: u32,
    ) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Reads an extended attribute. The caller's buffer is looked after by the transport.
    fn getxattr(&self, call: &Call, name: &OsStr) -> Result<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// Lists extended attributes: names, each ended by a zero byte.
    fn listxattr(&self, call: &Call) -> Result<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// Removes an extended attribute.
    fn removexattr(&self, call: &Call, name: &OsStr) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// One of a file's descriptors is closed.
    fn flush(&self, call: &Call, arguments: &FlushIn) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Opens a directory.
    fn opendir(&self, call: &Call, arguments: &OpenIn) -> Result<Opened> {
        Err(Errno::NOSYS)
    }

    /// Lists names from `arguments.offset` on until `buffer` is full.
    fn readdir(
        &self,
        call: &Call,
        arguments: &ReadIn,
        buffer: &mut DirectoryBuffer<'_>,
    ) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Lists names with what [`lookup`](Filesystem::lookup) would tell of them. Each entry with a
    /// node counts a reference, except those that did not fit, and `.` and `..`.
    fn readdirplus(
        &self,
        call: &Call,
        arguments: &ReadIn,
        buffer: &mut DirectoryBuffer<'_>,
    ) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// The last descriptor of an open directory is closed.
    fn releasedir(&self, call: &Call, arguments: &ReleaseIn) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Makes a directory durable.
    fn fsyncdir(&self, call: &Call, handle: u64, data_only: bool, stay: &Stay<'_>) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Tells which lock stands in the way of one.
    fn getlk(&self, call: &Call, arguments: &LkIn) -> Result<FileLock> {
        Err(Errno::NOSYS)
    }

    /// Takes or gives back a lock. With `wait`, waits for it, and returns `EINTR` when `wait`
    /// says that the caller was interrupted.
    fn setlk(&self, call: &Call, arguments: &LkIn, wait: Option<&Interrupt>) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Checks permissions, where the kernel does not.
    fn access(&self, call: &Call, mask: u32) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Makes and opens a file.
    fn create(&self, call: &Call, name: &OsStr, arguments: &CreateIn) -> Result<(Entry, Opened)> {
        Err(Errno::NOSYS)
    }

    /// Makes and opens a file without a name in the call's directory.
    fn tmpfile(&self, call: &Call, arguments: &CreateIn) -> Result<(Entry, Opened)> {
        Err(Errno::OPNOTSUPP)
    }

    /// Tells where a block of a file lies on its device.
    fn bmap(&self, call: &Call, arguments: &BmapIn) -> Result<u64> {
        Err(Errno::NOSYS)
    }

    /// Device control: returns the result and the bytes for the caller.
    fn ioctl(&self, call: &Call, arguments: &IoctlIn, data: &[u8]) -> Result<(i32, Vec<u8>)> {
        Err(Errno::NOTTY)
    }

    /// Tells which of `arguments.events` are there.
    fn poll(&self, call: &Call, arguments: &PollIn) -> Result<u32> {
        Err(Errno::NOSYS)
    }

    /// Reserves, releases or moves space.
    fn fallocate(&self, call: &Call, arguments: &FallocateIn) -> Result<()> {
        Err(Errno::NOSYS)
    }

    /// Finds data or a hole.
    fn lseek(&self, call: &Call, arguments: &LseekIn) -> Result<u64> {
        Err(Errno::NOSYS)
    }

    /// Copies a range from the call's node to another and returns the number of bytes.
    fn copy_file_range(&self, call: &Call, arguments: &CopyFileRangeIn) -> Result<u64> {
        Err(Errno::NOSYS)
    }

    /// Makes everything durable.
    fn syncfs(&self, call: &Call) -> Result<()> {
        Err(Errno::NOSYS)
    }
}
