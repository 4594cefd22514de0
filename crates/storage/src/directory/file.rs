use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, SeekFrom as SystemSeek, openat};
use rustix::io::{Errno, ReadWriteFlags, preadv, pwritev, pwritev2, retry_on_intr};

use super::descriptor_cache::leave_spare;
use super::direct;
use super::objects::{change_attributes, truncate};
use super::stat::{attributes_of, identity_of, stat_of};
use super::tree::{Fallback, HANDLE, Tree, proc_path};
use crate::origin::now;
use crate::{
    Allocation, Attributes, Capabilities, Created, Kind, Node, ObjectId, OpenMode, OriginError,
    OriginFile, Result, SeekFrom, SetAttributes, Task,
};

/// Most buffers that one system call takes (`IOV_MAX`).
const BUFFERS_MAX: usize = 1024;

/// An open file of a directory origin.
pub(super) struct DirectoryFile {
    tree: Arc<Tree>,
    object: ObjectId,
    descriptor: OwnedFd,
    /// Held while the descriptor's file position is in use: by appends and seeks, which have no
    /// form that leaves it alone. It is the one lock held over system calls, and only calls of
    /// these two kinds on this one open file wait for it.
    position: Mutex<()>,
    direct: Option<Direct>,
}

/// The second descriptor of a file, for reads around the page cache.
#[derive(Default)]
struct Direct {
    descriptor: OnceLock<Option<OwnedFd>>,
    refused: AtomicBool,
}

impl Tree {
    pub fn open_file(self: &Arc<Tree>, object: ObjectId, mode: OpenMode) -> Result<DirectoryFile> {
        const OPEN: &str = "open";
        let (handle, stat) = self.handle(OPEN, object, Fallback::Nameless)?;
        let fail = |errno| self.object_error(OPEN, errno);
        match identity_of(&stat).map_err(fail)?.kind {
            Kind::File => {}
            Kind::Directory => return Err(fail(Errno::ISDIR)),
            Kind::Symlink => return Err(fail(Errno::LOOP)),
            _ => return Err(fail(Errno::INVAL)),
        }
        let mut flags = flags_of(mode);
        flags.set(OFlags::TRUNC, mode.truncate);
        let descriptor = retry_on_intr(|| openat(CWD, proc_path(&handle), flags, Mode::empty()))
            .map_err(fail)?;
        leave_spare(&descriptor).map_err(fail)?;
        self.pin(&stat, &handle).map_err(fail)?;
        Ok(self.file(object, descriptor, mode))
    }

    pub fn create(self: &Arc<Tree>, node: Node<'_>, mode: OpenMode) -> Result<Created> {
        const CREATE: &str = "create";
        let flags = flags_of(mode) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let descriptor = self.open_new(CREATE, node, flags)?;
        let fail = |errno| self.object_error(CREATE, errno);
        let (handle, stat) = handle_of(&descriptor).map_err(fail)?;
        let entry = self.attach(CREATE, node.parent, node.name, &stat)?;
        self.pin(&stat, &handle).map_err(fail)?;
        Ok(Created { entry, file: Arc::new(self.file(entry.object, descriptor, mode)) })
    }

    pub fn create_unnamed(self: &Arc<Tree>, node: Node<'_>, mode: OpenMode) -> Result<Created> {
        const CREATE: &str = "create unnamed";
        let flags = match mode.read {
            true => OFlags::RDWR,
            false => OFlags::WRONLY,
        };
        let flags = flags | flags_of(mode).difference(OFlags::RWMODE) | OFlags::TMPFILE;
        let descriptor = self.open_new(CREATE, node, flags)?;
        let fail = |errno| self.object_error(CREATE, errno);
        let (handle, stat) = handle_of(&descriptor).map_err(fail)?;
        let entry = self.adopt(CREATE, &stat)?;
        self.pin(&stat, &handle).map_err(fail)?;
        Ok(Created { entry, file: Arc::new(self.file(entry.object, descriptor, mode)) })
    }

    /// An open file whose object is pinned already.
    fn file(
        self: &Arc<Tree>,
        object: ObjectId,
        descriptor: OwnedFd,
        mode: OpenMode,
    ) -> DirectoryFile {
        let direct = mode.direct && mode.read && self.capabilities.contains(Capabilities::DIRECT);
        DirectoryFile {
            tree: self.clone(),
            object,
            descriptor,
            position: Mutex::new(()),
            direct: direct.then(Direct::default),
        }
    }
}

fn flags_of(mode: OpenMode) -> OFlags {
    let access = match (mode.read, mode.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    let sync = if mode.sync && mode.write { OFlags::SYNC } else { OFlags::empty() };
    access | sync | OFlags::CLOEXEC
}

/// A second descriptor that only names the object, and keeps nothing open at the origin.
fn handle_of(descriptor: &OwnedFd) -> rustix::io::Result<(Arc<OwnedFd>, rustix::fs::Statx)> {
    let flags = HANDLE.difference(OFlags::NOFOLLOW);
    let handle = openat(CWD, proc_path(descriptor), flags, Mode::empty())?;
    let stat = stat_of(&handle)?;
    Ok((Arc::new(handle), stat))
}

impl DirectoryFile {
    fn fail(&self, operation: &'static str) -> impl Fn(Errno) -> OriginError + '_ {
        move |errno| self.tree.object_error(operation, errno)
    }

    fn read_all(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let fail = self.fail("read");
        if let Some(direct) = self.direct.as_ref().and_then(|direct| direct.get(self))
            && direct::is_aligned(offset, buffers)
        {
            // The slices are lent anew, so that a refused read can start again from the first.
            let mut again: Vec<_> =
                buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            match read_full(direct, offset, &mut again, direct::ALIGNMENT) {
                Err(Errno::INVAL) => self.refuse_direct(),
                read => return read.map_err(fail),
            }
        }
        read_full(&self.descriptor, offset, buffers, 1).map_err(fail)
    }

    fn refuse_direct(&self) {
        if let Some(direct) = &self.direct
            && !direct.refused.swap(true, Ordering::Relaxed)
        {
            self.tree.direct_refusals.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(object = self.object.0, "direct reads refused, reading buffered");
        }
    }

    fn write_all(&self, offset: u64, slices: &[IoSlice<'_>]) -> rustix::io::Result<()> {
        let mut at = offset;
        for batch in slices.chunks(BUFFERS_MAX) {
            let mut batch = batch.to_vec();
            let mut rest = &mut batch[..];
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match retry_on_intr(|| pwritev(&self.descriptor, rest, at))? {
                    0 => return Err(Errno::IO),
                    written => {
                        at = at.checked_add(written as u64).ok_or(Errno::FBIG)?;
                        IoSlice::advance_slices(&mut rest, written);
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends by `RWF_APPEND`: the kernel takes the end of the file and writes in one step, and
    /// leaves the file position behind what it wrote.
    fn append_all(&self, data: &[u8]) -> rustix::io::Result<u64> {
        const POSITION: u64 = u64::MAX;
        let _position = self.position.lock();
        if data.is_empty() {
            return Ok(stat_of(&self.descriptor)?.stx_size);
        }
        let mut done = 0;
        let mut start = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let slices = [IoSlice::new(rest)];
            let append = || pwritev2(&self.descriptor, &slices, POSITION, ReadWriteFlags::APPEND);
            let written = retry_on_intr(append)?;
            let end = rustix::fs::tell(&self.descriptor)?;
            let landed = end.checked_sub(written as u64).ok_or(Errno::IO)?;
            if written == 0 || (done > 0 && landed != start + done as u64) {
                // Nothing was taken, or another writer came between two parts.
                return Err(Errno::IO);
            }
            if done == 0 {
                start = landed;
            }
            done += written;
        }
        Ok(start)
    }
}

impl Direct {
    /// The descriptor for direct reads, unless they were refused.
    fn get(&self, file: &DirectoryFile) -> Option<&OwnedFd> {
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let opened = self.descriptor.get_or_init(|| {
            let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            let opened = openat(CWD, proc_path(&file.descriptor), flags, Mode::empty()).ok();
            opened.filter(|descriptor| leave_spare(descriptor).is_ok())
        });
        if opened.is_none() {
            file.refuse_direct();
        }
        opened.as_ref()
    }
}

/// Reads until the buffers are full or the file ends. A count that is no multiple of `alignment`
/// is the end: a direct read falls short for no other reason.
fn read_full(
    descriptor: &OwnedFd,
    offset: u64,
    mut buffers: &mut [IoSliceMut<'_>],
    alignment: usize,
) -> rustix::io::Result<usize> {
    let mut done = 0;
    loop {
        IoSliceMut::advance_slices(&mut buffers, 0);
        if buffers.is_empty() {
            return Ok(done);
        }
        let at = offset.checked_add(done as u64).ok_or(Errno::INVAL)?;
        let batch = buffers.len().min(BUFFERS_MAX);
        let read = retry_on_intr(|| preadv(descriptor, &mut buffers[..batch], at))?;
        done += read;
        if read == 0 || !read.is_multiple_of(alignment) {
            return Ok(done);
        }
        IoSliceMut::advance_slices(&mut buffers, read);
    }
}

impl OriginFile for DirectoryFile {
    fn read<'a>(&'a self, offset: u64, buffers: &'a mut [IoSliceMut<'_>]) -> Task<'a, usize> {
        Box::pin(async move { self.read_all(offset, buffers) })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8]) -> Task<'a, ()> {
        now(move || self.write_all(offset, &[IoSlice::new(data)]).map_err(self.fail("write")))
    }

    fn write_vectored<'a>(&'a self, offset: u64, slices: &'a [IoSlice<'_>]) -> Task<'a, ()> {
        now(move || self.write_all(offset, slices).map_err(self.fail("write")))
    }

    fn append<'a>(&'a self, data: &'a [u8]) -> Task<'a, u64> {
        now(move || self.append_all(data).map_err(self.fail("append")))
    }

    fn sync(&self, data_only: bool) -> Task<'_, ()> {
        now(move || {
            retry_on_intr(|| match data_only {
                true => rustix::fs::fdatasync(&self.descriptor),
                false => rustix::fs::fsync(&self.descriptor),
            })
            .map_err(self.fail("sync"))
        })
    }

    fn attributes(&self) -> Task<'_, Attributes> {
        now(|| {
            let stat = stat_of(&self.descriptor).and_then(|stat| attributes_of(&stat));
            stat.map_err(self.fail("stat"))
        })
    }

    fn set_attributes(&self, change: SetAttributes) -> Task<'_, Attributes> {
        now(move || {
            let set = || {
                if let Some(size) = change.size {
                    match retry_on_intr(|| rustix::fs::ftruncate(&self.descriptor, size)) {
                        // The file is open for reading only.
                        Err(Errno::INVAL | Errno::BADF) => truncate(&self.descriptor, size)?,
                        truncated => truncated?,
                    }
                }
                change_attributes(&self.descriptor, &change)?;
                attributes_of(&stat_of(&self.descriptor)?)
            };
            set().map_err(self.fail("set attributes"))
        })
    }

    fn allocate(&self, allocation: Allocation) -> Task<'_, ()> {
        let Allocation { mode, offset, length } = allocation;
        now(move || {
            let mode = FallocateFlags::from_bits_retain(mode);
            retry_on_intr(|| rustix::fs::fallocate(&self.descriptor, mode, offset, length))
                .map_err(self.fail("allocate"))
        })
    }

    fn may_reach(&self, bytes: u64) -> bool {
        // The kernel lets nobody stand behind the longest file that the file system can have.
        let _position = self.position.lock();
        rustix::fs::seek(&self.descriptor, SystemSeek::Start(bytes)) != Err(Errno::INVAL)
    }

    fn seek(&self, from: SeekFrom) -> Task<'_, u64> {
        now(move || {
            let from = match from {
                SeekFrom::Data(offset) => SystemSeek::Data(offset),
                SeekFrom::Hole(offset) => SystemSeek::Hole(offset),
            };
            let _position = self.position.lock();
            rustix::fs::seek(&self.descriptor, from).map_err(self.fail("seek"))
        })
    }

    fn copy_from<'a>(
        &'a self,
        source: &'a dyn OriginFile,
        source_offset: u64,
        offset: u64,
        length: u64,
    ) -> Task<'a, u64> {
        now(move || {
            const COPY: &str = "copy range";
            let source = source.as_any().downcast_ref::<DirectoryFile>();
            let source = source.filter(|source| Arc::ptr_eq(&source.tree, &self.tree));
            let Some(source) = source else {
                return Err(OriginError::Unsupported { operation: COPY });
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let copied = retry_on_intr(|| {
                let (mut from, mut to) = (source_offset, offset);
                let (from, to) = (Some(&mut from), Some(&mut to));
                let (source, target) = (&source.descriptor, &self.descriptor);
                rustix::fs::copy_file_range(source, from, target, to, length)
            });
            copied.map(|copied| copied as u64).map_err(self.fail(COPY))
        })
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Drop for DirectoryFile {
    fn drop(&mut self) {
        self.tree.unpin(self.object);
    }
}
