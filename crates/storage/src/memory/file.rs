use std::io::IoSliceMut;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::contents::Contents;
use super::history::{Extent, Store};
use super::state::{State, is_too_far};
use crate::origin::now;
use crate::{
    Allocation, Attributes, ObjectId, OpenMode, OriginError, OriginFile, Result, SeekFrom,
    SetAttributes, Task,
};

/// An open file in memory. Its object lives at least as long.
pub(super) struct MemoryFile {
    store: Arc<Mutex<Store>>,
    object: ObjectId,
    mode: OpenMode,
}

impl MemoryFile {
    /// Counts an open file of an object that is a regular file.
    pub fn new(store: &Arc<Mutex<Store>>, object: ObjectId, mode: OpenMode) -> MemoryFile {
        store.lock().state.opened(object);
        MemoryFile { store: store.clone(), object, mode }
    }

    /// Writes `data` at `offset`, or else at the end, and returns where.
    fn put(&self, operation: &'static str, offset: Option<u64>, data: &[u8]) -> Result<u64> {
        if !self.mode.write {
            return Err(OriginError::System { operation, errno: Errno::BADF });
        }
        let mut store = self.store.lock();
        let put = store.write(self.object, offset, data);
        let offset = put.map_err(OriginError::system(operation))?;
        if self.mode.sync {
            store.sync_file(self.object, false);
        }
        Ok(offset)
    }

    fn look<T>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&Contents) -> rustix::io::Result<T>,
    ) -> Result<T> {
        let store = self.store.lock();
        store.state.contents(self.object).and_then(call).map_err(OriginError::system(operation))
    }
}

impl OriginFile for MemoryFile {
    fn read<'a>(&'a self, offset: u64, buffers: &'a mut [IoSliceMut<'_>]) -> Task<'a, usize> {
        Box::pin(async move {
            if !self.mode.read {
                return Err(OriginError::System { operation: "read", errno: Errno::BADF });
            }
            self.look("read", |contents| {
                let mut done = 0;
                for buffer in buffers {
                    let read = contents.read(offset.saturating_add(done as u64), buffer);
                    done += read;
                    if read < buffer.len() {
                        break;
                    }
                }
                Ok(done)
            })
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8]) -> Task<'a, ()> {
        now(move || self.put("write", Some(offset), data).map(drop))
    }

    fn append<'a>(&'a self, data: &'a [u8]) -> Task<'a, u64> {
        now(move || self.put("append", None, data))
    }

    fn sync(&self, data_only: bool) -> Task<'_, ()> {
        now(move || {
            self.store.lock().sync_file(self.object, data_only);
            Ok(())
        })
    }

    fn attributes(&self) -> Task<'_, Attributes> {
        now(|| {
            let attributes = self.store.lock().state.attributes(self.object);
            attributes.map_err(OriginError::system("stat"))
        })
    }

    fn set_attributes(&self, change: SetAttributes) -> Task<'_, Attributes> {
        now(move || {
            let object = self.object;
            let extent = match change.size {
                Some(_) => Extent::Contents(object),
                None => Extent::Attributes(object),
            };
            let set =
                self.store.lock().change(extent, move |state| state.set_attributes(object, change));
            set.map_err(OriginError::system("set attributes"))
        })
    }

    fn allocate(&self, allocation: Allocation) -> Task<'_, ()> {
        const ALLOCATE: &str = "allocate";
        now(move || {
            if !self.mode.write {
                return Err(OriginError::System { operation: ALLOCATE, errno: Errno::BADF });
            }
            let object = self.object;
            let allocate = move |state: &mut State| {
                state.change_contents(object, |contents| allocate(contents, allocation))
            };
            let allocated = self.store.lock().change(Extent::Contents(object), allocate);
            allocated.map_err(OriginError::system(ALLOCATE))
        })
    }

    fn seek(&self, from: SeekFrom) -> Task<'_, u64> {
        now(move || {
            self.look("seek", |contents| {
                let found = match from {
                    SeekFrom::Data(offset) => contents.next_data(offset),
                    SeekFrom::Hole(offset) => contents.next_hole(offset),
                };
                found.ok_or(Errno::NXIO)
            })
        })
    }

    fn copy_from<'a>(
        &'a self,
        source: &'a dyn OriginFile,
        source_offset: u64,
        offset: u64,
        length: u64,
    ) -> Task<'a, u64> {
        const COPY: &str = "copy range";
        /// Most bytes that one call copies.
        const LENGTH_MAX: u64 = 1 << 20;
        let source = source.as_any().downcast_ref::<MemoryFile>();
        let Some(source) = source.filter(|source| Arc::ptr_eq(&source.store, &self.store)) else {
            return now(|| Err(OriginError::Unsupported { operation: COPY }));
        };
        let overlaps = source.object == self.object
            && source_offset < offset.saturating_add(length)
            && offset < source_offset.saturating_add(length);
        if overlaps || !source.mode.read {
            let errno = if overlaps { Errno::INVAL } else { Errno::BADF };
            return now(move || Err(OriginError::System { operation: COPY, errno }));
        }
        now(move || {
            let mut data = vec![0; length.min(LENGTH_MAX) as usize];
            let read = source.look(COPY, |contents| Ok(contents.read(source_offset, &mut data)))?;
            self.put(COPY, Some(offset), &data[..read])?;
            Ok(read as u64)
        })
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// What `fallocate(2)` does.
fn allocate(contents: &mut Contents, allocation: Allocation) -> rustix::io::Result<()> {
    let Allocation { mode, offset, length } = allocation;
    is_too_far(offset, length)?;
    if length == 0 {
        return Err(Errno::INVAL);
    }
    let mode = FallocateFlags::from_bits_retain(mode);
    let keep = mode.contains(FallocateFlags::KEEP_SIZE);
    match mode.difference(FallocateFlags::KEEP_SIZE) {
        FallocateFlags::PUNCH_HOLE if keep => contents.punch(offset, length),
        FallocateFlags::ZERO_RANGE => contents.punch(offset, length),
        rest if rest.is_empty() => {}
        _ => return Err(Errno::OPNOTSUPP),
    }
    if !keep && offset + length > contents.size() {
        contents.resize(offset + length);
    }
    Ok(())
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.store.lock().state.closed(self.object);
    }
}
