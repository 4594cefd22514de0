mod convert;
mod handles;
mod invalidation;
mod passing_groups;

use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use storage::{
    Allocation, Node, NodeKind, ObjectId, RenameFlags, SeekFrom, SetAttributes, XattrMode, block_on,
};
use warmfront::{
    Attributed, EngineError, Found, KernelCache, OpenDirectory, OpenFile, Patience, Pool, Reader,
    Waiting,
};

use crate::abi::{
    Attr, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, Kstatfs, LseekIn, MkdirIn, MknodIn,
    OpenIn, ROOT_ID, ReadIn, ReleaseIn, SetattrIn, Statx, StatxIn, WriteIn,
};
use crate::buffer::REQUEST_BYTES_MAX;
use crate::caller::{CallerState, caller_state};
use crate::directory::{DirectoryBuffer, Name};
use crate::errno::errno;
use crate::filesystem::{Call, Entry, Filesystem, Kernel, Opened, Result, Settings};
use crate::flags::{
    GETATTR_FH, InitFlags, OPEN_KILL_SUIDGID, OpenFlags, SETXATTR_ACL_KILL_SGID, SetattrFlags,
    WriteFlags,
};
use crate::reply::ReadReply;
use crate::watch::Stay;
use convert::open_flags;
use handles::Handles;
pub use invalidation::KernelInvalidation;
pub use passing_groups::{GroupError, PASSING_GROUPS_MAX, PassingGroups};

/// Flags of `setxattr(2)`.
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;
/// Whence of `lseek(2)`; the kernel does the others by itself.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// `.` and `..` come before the names of a listing.
const DOTS: u64 = 2;

/// Part of the ceiling, as its divisor, that one request takes at most: those of all threads
/// together then take a quarter. A small ceiling means smaller requests.
const REQUEST_SHARE: u64 = 512;
/// Bounds of a request's data in bytes.
const REQUEST_BYTES: std::ops::RangeInclusive<u64> = 128 << 10..=REQUEST_BYTES_MAX as u64;

/// The door from the kernel to a pool: turns requests into the pool's calls.
///
/// The kernel checks permissions (`default_permissions`), keeps locks, and decides what is looked
/// up; everything else is the pool's. A call that the cache can answer runs through on the thread
/// that received it; any other blocks that thread until the origin has answered.
#[derive(Debug)]
pub struct Door {
    pool: Arc<Pool>,
    files: Handles<OpenFile>,
    directories: Handles<Directory>,
    /// Whose reads do not count as use.
    passing: Option<PassingGroups>,
}

/// The thread that writes.
struct Writer<'a> {
    pid: u32,
    stay: &'a Stay<'a>,
}

impl Patience for Writer<'_> {
    fn waiting(&self) -> Waiting {
        if self.stay.is_left() {
            return Waiting::Nobody;
        }
        match caller_state(self.pid) {
            CallerState::Waits => Waiting::On,
            CallerState::AskedToEnd => Waiting::ToEnd,
            CallerState::Dying => Waiting::Nobody,
        }
    }

    fn stays(&self) -> bool {
        self.stay.keep()
    }

    fn changed(&self) {
        self.stay.release();
    }

    fn until_it_lasts(&self, taken_bytes: usize) {
        self.stay.until_it_lasts(u32::try_from(taken_bytes).ok());
    }
}

/// An open directory of the kernel's.
#[derive(Debug)]
struct Directory {
    open: Arc<OpenDirectory>,
    /// It has been read from the start, so that another read from the start is a rewind.
    begun: AtomicBool,
    /// How many names it has, once all have been read.
    end: AtomicUsize,
}

impl Door {
    /// The door to `pool`.
    pub fn new(pool: Arc<Pool>) -> Door {
        Door { pool, files: Handles::default(), directories: Handles::default(), passing: None }
    }

    /// The same, where reads of some control groups do not count as use. For contents and listings
    /// it is decided when a file or directory is opened.
    pub fn with_passing(self, groups: PassingGroups) -> Door {
        Door { passing: Some(groups), ..self }
    }

    /// As what the caller reads.
    fn reader(&self, call: &Call) -> Reader {
        self.passing.as_ref().map_or(Reader::Counted, |groups| groups.reader(call.pid))
    }

    /// The object behind a node id. The root is node 1, whatever its own id; an object that has
    /// the id 1 takes the root's place.
    fn object(&self, node: u64) -> ObjectId {
        ObjectId(swap(node, ROOT_ID, self.pool.root().0))
    }

    fn node(&self, object: ObjectId) -> u64 {
        swap(object.0, ROOT_ID, self.pool.root().0)
    }

    fn file(&self, handle: u64) -> Result<Arc<OpenFile>> {
        self.files.get(handle).ok_or(Errno::BADF)
    }

    fn directory(&self, handle: u64) -> Result<Arc<Directory>> {
        self.directories.get(handle).ok_or(Errno::BADF)
    }

    fn entry(&self, found: &Found) -> Entry {
        Entry {
            node: self.node(found.object),
            // Another one for an inode number that is used again would make the kernel fail calls
            // that are just under way on the old node, with `EIO`.
            generation: 0,
            attributes: convert::attr(found.object.0, &found.attributes),
            entry_ttl: found.entry_ttl,
            attributes_ttl: found.attribute_ttl,
        }
    }

    fn opened(&self, file: Arc<OpenFile>) -> Opened {
        let flags = match file.kernel_cache() {
            KernelCache::Bypass => OpenFlags::DIRECT_IO | OpenFlags::PARALLEL_DIRECT_WRITES,
            KernelCache::Keep => OpenFlags::KEEP_CACHE,
            KernelCache::Refresh => OpenFlags::empty(),
        };
        let flush = match file.is_writable() {
            true => OpenFlags::empty(),
            false => OpenFlags::NOFLUSH,
        };
        Opened { handle: self.files.open(file), flags: flags | flush }
    }

    fn named<'a>(&self, call: &Call, name: &'a OsStr, permissions: u32, umask: u32) -> Node<'a> {
        let parent = self.object(call.node);
        let permissions = permissions & 0o7777;
        Node { parent, name, permissions, caller: convert::caller(call, umask) }
    }

    fn attributes(&self, call: &Call, handle: Option<u64>) -> Result<Attributed> {
        let file = handle.and_then(|handle| self.files.get(handle));
        let known =
            self.pool.attributes_for(self.reader(call), self.object(call.node), file.as_deref());
        self.wait(call, known)
    }

    /// Waits for a call of the engine on this thread.
    fn wait<T>(
        &self,
        call: &Call,
        done: impl Future<Output = std::result::Result<T, EngineError>>,
    ) -> Result<T> {
        block_on(done).map_err(|error| self.failed(call, error))
    }

    /// What to answer to a call that failed. When a name has come to lead elsewhere, the kernel
    /// looks the whole path up again; that must not be answered from the cache.
    fn failed(&self, call: &Call, error: EngineError) -> Errno {
        if error.is_stale() {
            self.pool.distrust_path(self.object(call.node));
        }
        errno(error)
    }

    /// Takes set-id bits away, as the kernel asks when the caller may not keep them.
    fn clear_set_id(&self, object: ObjectId, file: Option<&OpenFile>) -> Result<()> {
        let known = wait(self.pool.attributes(object, file))?;
        if let Some(permissions) = convert::without_set_id(&known.attributes) {
            let change = SetAttributes { permissions: Some(permissions), ..Default::default() };
            wait(self.pool.set_attributes(object, file, change))?;
        }
        Ok(())
    }
}

impl Filesystem for Door {
    fn init(&self, kernel: &Kernel) -> Settings {
        tracing::debug!(minor = kernel.minor, flags = ?kernel.flags, "the kernel offers");
        let flags = InitFlags::ASYNC_READ
            | InitFlags::BIG_WRITES
            | InitFlags::DONT_MASK
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::ASYNC_DIO
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::POSIX_ACL
            | InitFlags::CACHE_SYMLINKS
            | InitFlags::HANDLE_KILLPRIV_V2
            | InitFlags::SETXATTR_EXT
            | InitFlags::DIRECT_IO_ALLOW_MMAP
            // Pages are dropped when we say so. A kernel that drops them whenever it sees another
            // time of the last change does so while writes are under way, reads again what they
            // have not changed yet, and keeps it.
            | InitFlags::EXPLICIT_INVAL_DATA;
        let share = self.pool.memory().ceiling_bytes() / REQUEST_SHARE;
        let bytes = share.clamp(*REQUEST_BYTES.start(), *REQUEST_BYTES.end());
        let request_bytes_max = usize::try_from(bytes).unwrap_or(REQUEST_BYTES_MAX);
        Settings { flags, request_bytes_max, ..Settings::default() }
    }

    fn lookup(&self, call: &Call, name: &OsStr) -> Result<Entry> {
        let parent = self.object(call.node);
        match block_on(self.pool.lookup_for(self.reader(call), parent, name)) {
            Ok(found) => Ok(self.entry(&found)),
            Err(error) if error.is_not_found() => match self.pool.negative_ttl(parent) {
                Duration::ZERO => Err(Errno::NOENT),
                ttl => Ok(Entry::negative(ttl)),
            },
            Err(error) => Err(self.failed(call, error)),
        }
    }

    fn forget(&self, node: u64, count: u64) {
        self.pool.forget(self.object(node), count);
    }

    fn getattr(&self, call: &Call, handle: Option<u64>) -> Result<(Attr, Duration)> {
        let known = self.attributes(call, handle)?;
        Ok((convert::attr(self.object(call.node).0, &known.attributes), known.ttl))
    }

    fn statx(&self, call: &Call, arguments: &StatxIn) -> Result<(Statx, Duration)> {
        let handle = (arguments.getattr_flags & GETATTR_FH != 0).then_some(arguments.fh);
        let known = self.attributes(call, handle)?;
        Ok((convert::statx(self.object(call.node).0, &known.attributes), known.ttl))
    }

    fn setattr(&self, call: &Call, wire: &SetattrIn) -> Result<(Attr, Duration)> {
        let object = self.object(call.node);
        let valid = SetattrFlags::from_bits_retain(wire.valid);
        let file = match valid.contains(SetattrFlags::FH) {
            true => self.files.get(wire.fh),
            false => None,
        };
        if valid.contains(SetattrFlags::KILL_SUIDGID) {
            self.clear_set_id(object, file.as_deref())?;
        }
        let change = convert::change(wire);
        let known = self.wait(call, self.pool.set_attributes(object, file.as_deref(), change))?;
        Ok((convert::attr(object.0, &known.attributes), known.ttl))
    }

    fn readlink(&self, call: &Call) -> Result<Vec<u8>> {
        Ok(self
            .wait(call, self.pool.read_link_for(self.reader(call), self.object(call.node)))?
            .as_bytes()
            .to_vec())
    }

    fn symlink(&self, call: &Call, name: &OsStr, target: &OsStr) -> Result<Entry> {
        let node = self.named(call, name, 0o777, 0);
        Ok(self.entry(&self.wait(call, self.pool.symlink(node, target))?))
    }

    fn mknod(&self, call: &Call, name: &OsStr, arguments: &MknodIn) -> Result<Entry> {
        let device = convert::unpack_device(arguments.rdev);
        let kind = match (arguments.mode & convert::TYPE_MASK) >> 12 {
            0o00 | 0o10 => NodeKind::File,
            0o01 => NodeKind::Fifo,
            0o02 => NodeKind::CharacterDevice(device),
            0o06 => NodeKind::BlockDevice(device),
            0o14 => NodeKind::Socket,
            _ => return Err(Errno::INVAL),
        };
        let node = self.named(call, name, arguments.mode, arguments.umask);
        Ok(self.entry(&self.wait(call, self.pool.make_node(node, kind))?))
    }

    fn mkdir(&self, call: &Call, name: &OsStr, arguments: &MkdirIn) -> Result<Entry> {
        let node = self.named(call, name, arguments.mode, arguments.umask);
        Ok(self.entry(&self.wait(call, self.pool.make_directory(node))?))
    }

    fn unlink(&self, call: &Call, name: &OsStr) -> Result<()> {
        self.wait(call, self.pool.unlink(self.object(call.node), name))
    }

    fn rmdir(&self, call: &Call, name: &OsStr) -> Result<()> {
        self.wait(call, self.pool.remove_directory(self.object(call.node), name))
    }

    fn rename(
        &self,
        call: &Call,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: u32,
    ) -> Result<()> {
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        let (parent, new_parent) = (self.object(call.node), self.object(new_parent));
        self.wait(call, self.pool.rename(parent, name, new_parent, new_name, flags))
    }

    fn link(&self, call: &Call, node: u64, name: &OsStr) -> Result<Entry> {
        let parent = self.object(call.node);
        Ok(self.entry(&self.wait(call, self.pool.link(self.object(node), parent, name))?))
    }

    fn open(&self, call: &Call, arguments: &OpenIn) -> Result<Opened> {
        let object = self.object(call.node);
        if arguments.open_flags & OPEN_KILL_SUIDGID != 0 {
            self.clear_set_id(object, None)?;
        }
        let mode = convert::open_mode(arguments.flags);
        Ok(self.opened(self.wait(call, self.pool.open_file_for(self.reader(call), object, mode))?))
    }

    fn create(&self, call: &Call, name: &OsStr, arguments: &CreateIn) -> Result<(Entry, Opened)> {
        let mode = convert::open_mode(arguments.flags);
        let node = self.named(call, name, arguments.mode, arguments.umask);
        let reader = self.reader(call);
        match block_on(self.pool.create_file_for(reader, node, mode)) {
            Ok((found, file)) => Ok((self.entry(&found), self.opened(file))),
            // Somebody else has made it since the kernel looked.
            Err(error)
                if arguments.flags & open_flags::EXCLUSIVE == 0
                    && errno(error.clone()) == Errno::EXIST =>
            {
                let found = self.wait(call, self.pool.lookup_for(reader, node.parent, name))?;
                let opened = self.wait(call, self.pool.open_file_for(reader, found.object, mode));
                let file = opened.inspect_err(|_| self.pool.forget(found.object, 1))?;
                Ok((self.entry(&found), self.opened(file)))
            }
            Err(error) => Err(errno(error)),
        }
    }

    fn tmpfile(&self, call: &Call, arguments: &CreateIn) -> Result<(Entry, Opened)> {
        let mode = convert::open_mode(arguments.flags);
        let caller = convert::caller(call, arguments.umask);
        let parent = self.object(call.node);
        let made = self.pool.create_unnamed(parent, arguments.mode & 0o7777, caller, mode);
        let (found, file) = wait(made)?;
        Ok((self.entry(&found), self.opened(file)))
    }

    fn read(&self, _: &Call, arguments: &ReadIn, reply: ReadReply<'_>) {
        let file = self.files.look(arguments.fh);
        let Some(file) = file.as_deref().and_then(Option::as_ref) else {
            return reply.error(Errno::BADF);
        };
        let length = arguments.size as usize;
        let read = file.read_cached(arguments.offset, length);
        match read.map_or_else(|| block_on(file.read(arguments.offset, length)), Ok) {
            Ok(pieces) => {
                let _charged = self.pool.memory().charge_request(pieces.held_bytes());
                reply.data(pieces.slices());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(&self, call: &Call, arguments: &WriteIn, data: &[u8], stay: &Stay<'_>) -> Result<u32> {
        let file = self.file(arguments.fh)?;
        let _charged = self.pool.memory().charge_request(data.len() as u64);
        let flags = WriteFlags::from_bits_retain(arguments.write_flags);
        if flags.contains(WriteFlags::KILL_SUIDGID) {
            self.clear_set_id(file.object(), Some(&file))?;
        }
        let appends = arguments.flags & open_flags::APPEND != 0;
        let writer = Writer { pid: call.pid, stay };
        // Pages of a mapping come back under any open handle; they know their place.
        let taken = if appends && !flags.contains(WriteFlags::CACHE) {
            let landed = wait(file.append_for(&writer, data))?;
            landed.end - landed.start
        } else {
            wait(file.write_for(&writer, arguments.offset, data))? as u64
        };
        // The flags of the open file, and those of this call alone.
        if arguments.flags & (open_flags::SYNC | open_flags::DATA_SYNC) != 0 && !file.syncs() {
            if file.lasts_by_log() {
                writer.until_it_lasts(taken as usize);
            }
            wait(file.sync(arguments.flags & open_flags::SYNC == 0))?;
        }
        u32::try_from(taken).map_err(|_| Errno::INVAL)
    }

    fn statfs(&self, _: &Call) -> Result<Kstatfs> {
        let space = wait(self.pool.space())?;
        Ok(Kstatfs {
            blocks: space.blocks,
            bfree: space.blocks_free,
            bavail: space.blocks_available,
            files: space.files,
            ffree: space.files_free,
            bsize: space.block_size,
            namelen: space.name_length_max,
            frsize: space.block_size,
            ..Kstatfs::default()
        })
    }

    fn release(&self, _: &Call, arguments: &ReleaseIn) -> Result<()> {
        self.files.close(arguments.fh).map(drop).ok_or(Errno::BADF)
    }

    fn lasts(&self, age: Duration) -> bool {
        self.pool.lasts_without_log(age)
    }

    fn fsync(&self, _: &Call, handle: u64, data_only: bool, stay: &Stay<'_>) -> Result<()> {
        let file = self.file(handle)?;
        if file.lasts_by_log() {
            stay.until_it_lasts(None);
        }
        wait(file.sync(data_only))
    }

    fn flush(&self, _: &Call, arguments: &FlushIn) -> Result<()> {
        wait(self.file(arguments.fh)?.close())
    }

    fn setxattr(
        &self,
        call: &Call,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        extended: u32,
    ) -> Result<()> {
        let object = self.object(call.node);
        let mode = match flags {
            0 => XattrMode::Any,
            XATTR_CREATE => XattrMode::Create,
            XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        self.wait(call, self.pool.set_xattr(object, name, value, mode))?;
        if extended & SETXATTR_ACL_KILL_SGID != 0 {
            let known = self.wait(call, self.pool.attributes(object, None))?;
            let permissions = known.attributes.permissions & !convert::SET_GROUP;
            let change = SetAttributes { permissions: Some(permissions), ..Default::default() };
            self.wait(call, self.pool.set_attributes(object, None, change))?;
        }
        Ok(())
    }

    fn getxattr(&self, call: &Call, name: &OsStr) -> Result<Vec<u8>> {
        Ok(self
            .wait(call, self.pool.xattr_for(self.reader(call), self.object(call.node), name))?
            .to_vec())
    }

    fn listxattr(&self, call: &Call) -> Result<Vec<u8>> {
        let names =
            self.wait(call, self.pool.xattrs_for(self.reader(call), self.object(call.node)))?;
        let mut bytes = Vec::new();
        for name in names.iter() {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        Ok(bytes)
    }

    fn removexattr(&self, call: &Call, name: &OsStr) -> Result<()> {
        self.wait(call, self.pool.remove_xattr(self.object(call.node), name))
    }

    fn opendir(&self, call: &Call, _: &OpenIn) -> Result<Opened> {
        let opening = self.pool.open_directory_for(self.reader(call), self.object(call.node));
        let open = self.wait(call, opening)?;
        let (begun, end) = (AtomicBool::new(false), AtomicUsize::new(usize::MAX));
        let directory = Directory { open, begun, end };
        let handle = self.directories.open(Arc::new(directory));
        Ok(Opened { handle, flags: OpenFlags::empty() })
    }

    fn readdir(
        &self,
        _: &Call,
        arguments: &ReadIn,
        buffer: &mut DirectoryBuffer<'_>,
    ) -> Result<()> {
        let directory = self.directory(arguments.fh)?;
        directory.list(arguments.offset, |name, _| Ok(buffer.add(name)))
    }

    fn readdirplus(
        &self,
        _: &Call,
        arguments: &ReadIn,
        buffer: &mut DirectoryBuffer<'_>,
    ) -> Result<()> {
        let directory = self.directory(arguments.fh)?;
        directory.list(arguments.offset, |name, index| {
            if !buffer.fits(name.name.len(), true) {
                return Ok(false);
            }
            // A name that is told without its object is looked up when somebody wants it.
            let found = index.and_then(|index| block_on(directory.open.found(index)));
            let entry = found.map_or(Entry::default(), |found| self.entry(&found));
            Ok(buffer.add_plus(name, &entry))
        })
    }

    fn releasedir(&self, _: &Call, arguments: &ReleaseIn) -> Result<()> {
        self.directories.close(arguments.fh).map(drop).ok_or(Errno::BADF)
    }

    fn fsyncdir(&self, call: &Call, _: u64, _: bool, stay: &Stay<'_>) -> Result<()> {
        if self.pool.lasts_by_log() {
            stay.until_it_lasts(None);
        }
        self.wait(call, self.pool.sync_directory(self.object(call.node)))
    }

    fn fallocate(&self, _: &Call, arguments: &FallocateIn) -> Result<()> {
        let FallocateIn { fh, offset, length, mode, .. } = *arguments;
        wait(self.file(fh)?.allocate(Allocation { mode, offset, length }))
    }

    fn lseek(&self, _: &Call, arguments: &LseekIn) -> Result<u64> {
        let from = match arguments.whence {
            SEEK_DATA => SeekFrom::Data(arguments.offset),
            SEEK_HOLE => SeekFrom::Hole(arguments.offset),
            _ => return Err(Errno::INVAL),
        };
        wait(self.file(arguments.fh)?.seek(from))
    }

    fn copy_file_range(&self, _: &Call, arguments: &CopyFileRangeIn) -> Result<u64> {
        if arguments.flags != 0 {
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.file(arguments.fh_in)?, self.file(arguments.fh_out)?);
        wait(to.copy_from(&from, arguments.off_in, arguments.off_out, arguments.len))
    }

    fn syncfs(&self, _: &Call) -> Result<()> {
        wait(self.pool.sync())
    }
}

impl Directory {
    /// Offers the names from `offset` on, `.` and `..` first, until one is not taken. Names other
    /// than these two come with their place in the listing.
    fn list(
        &self,
        offset: u64,
        mut offer: impl FnMut(&Name<'_>, Option<usize>) -> Result<bool>,
    ) -> Result<()> {
        if offset == 0 && self.begun.swap(true, Ordering::Relaxed) {
            wait(self.open.rewind())?;
            self.end.store(usize::MAX, Ordering::Relaxed);
        }
        let directory = convert::listing_type(Some(storage::Kind::Directory));
        let dots = [(".", self.open.object()), ("..", self.open.parent())];
        for (index, (name, object)) in dots.iter().enumerate().skip(offset as usize) {
            let (name, inode, next) = (OsStr::new(name), object.0, index as u64 + 1);
            if !offer(&Name { name, inode, kind: directory, next }, None)? {
                return Ok(());
            }
        }
        let first = usize::try_from(offset.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        if first >= self.end.load(Ordering::Relaxed) {
            return Ok(());
        }
        let listing = wait(self.open.entries())?;
        if first >= listing.len() {
            self.end.store(listing.len(), Ordering::Relaxed);
            self.open.let_go();
            return Ok(());
        }
        for (index, entry) in listing.iter().enumerate().skip(first) {
            let name = Name {
                name: &entry.name,
                inode: entry.object.0,
                kind: convert::listing_type(entry.kind),
                next: index as u64 + DOTS + 1,
            };
            if !offer(&name, Some(index))? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// `id` with `a` and `b` exchanged.
fn swap(id: u64, a: u64, b: u64) -> u64 {
    match id {
        id if id == a => b,
        id if id == b => a,
        id => id,
    }
}

/// Waits for a call of the engine on this thread.
fn wait<T>(call: impl Future<Output = std::result::Result<T, EngineError>>) -> Result<T> {
    block_on(call).map_err(errno)
}
