use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use storage::{Call, Clock, Layer, ObjectId, OriginError, Task};

use crate::model::{Positive, Request, Station};

/// The unit of a disk.
const SECTOR_BYTES: u64 = 512;
/// Inodes are read by so many at a time.
const INODES_PER_BLOCK: u64 = 32;
/// Bytes of such a block.
const INODE_BLOCK_BYTES: u64 = 16 << 10;
/// Blocks of inodes that the origin keeps.
const BLOCKS_KEPT_MAX: usize = 64;

/// Puts the time of modelled disks before each call to an origin.
///
/// Files lie where they were placed, one after the other. Contents may be smaller on the disks
/// than for their readers. Inodes lie in blocks behind the files, of which a few are kept; a
/// directory's names lie in a block of their own, with the inodes of its files behind it.
pub(super) struct DiskTimes {
    station: Arc<Station>,
    /// Bytes of contents for each byte on the disks.
    compression_ratio: f64,
    /// Of contents that become from what lies on the disks.
    decompression: Option<Positive>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where the files lie.
    places: BTreeMap<ObjectId, u64>,
    end: u64,
    kept: VecDeque<u64>,
    /// Look-ups so far in each directory.
    looked_up: BTreeMap<ObjectId, u64>,
}

impl DiskTimes {
    pub fn new(
        station: Arc<Station>,
        compression_ratio: f64,
        decompression: Option<Positive>,
        clock: Arc<dyn Clock>,
    ) -> DiskTimes {
        DiskTimes { station, compression_ratio, decompression, clock, state: Mutex::default() }
    }

    /// Gives a file the next place on the disks.
    pub fn place(&self, object: ObjectId, bytes: u64) {
        let mut state = self.state.lock();
        let at = state.end;
        state.places.insert(object, at);
        state.end = at + self.on_disk(bytes) + INODE_BLOCK_BYTES;
    }

    /// Moves on by so many bytes: what is placed next lies further away.
    pub fn leave_gap(&self, bytes: u64) {
        self.state.lock().end += bytes;
    }

    fn on_disk(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.compression_ratio) as u64 / SECTOR_BYTES * SECTOR_BYTES
    }

    fn contents(&self, object: ObjectId, offset: u64, length: u64) -> (u64, u64) {
        let place = self.state.lock().places.get(&object).copied().unwrap_or(0);
        let (from, to) = (self.on_disk(offset), self.on_disk(offset + length));
        (place + from, (to - from).max(SECTOR_BYTES))
    }

    /// The block of the inode, unless it is kept.
    fn inode(&self, object: ObjectId) -> Option<Request> {
        let block = object.0 / INODES_PER_BLOCK;
        let mut state = self.state.lock();
        if let Some(at) = state.kept.iter().position(|kept| *kept == block) {
            let block = state.kept.remove(at).expect("it is there");
            state.kept.push_back(block);
            return None;
        }
        if state.kept.len() == BLOCKS_KEPT_MAX {
            state.kept.pop_front();
        }
        state.kept.push_back(block);
        drop(state);
        Some(self.scattered(block, INODE_BLOCK_BYTES))
    }

    /// The block of the next inode of a directory: they were made in the order of their names.
    fn inode_of_name(&self, directory: ObjectId) -> Option<Request> {
        let mut state = self.state.lock();
        let count = state.looked_up.entry(directory).or_default();
        *count += 1;
        let (block, begins) = (*count / INODES_PER_BLOCK, *count % INODES_PER_BLOCK == 1);
        drop(state);
        begins.then(|| self.beside_directory(directory, 1 + block))
    }

    /// A block of a directory: its names, and behind them the inodes of what is in it.
    fn beside_directory(&self, directory: ObjectId, block: u64) -> Request {
        let names = self.scattered(!directory.0, INODE_BLOCK_BYTES);
        let offset = names.offset + block * INODE_BLOCK_BYTES;
        if offset + names.bytes > self.station.size_bytes() {
            return names;
        }
        Request { offset, ..names }
    }

    /// A place anywhere on the disks that is always the same.
    fn scattered(&self, number: u64, bytes: u64) -> Request {
        let blocks = self.station.size_bytes() / INODE_BLOCK_BYTES - 1;
        let block = storage::Random::new(number).below(blocks);
        Request::read(block * INODE_BLOCK_BYTES, bytes)
    }

    /// What a call asks of the disks.
    fn request(&self, call: Call) -> Option<Request> {
        match call {
            Call::Read { object, offset, length } => {
                let (place, bytes) = self.contents(object, offset, length);
                Some(Request::read(place, bytes))
            }
            Call::Write { object, offset, length } | Call::CopyFrom { object, offset, length } => {
                let (place, bytes) = self.contents(object, offset, length);
                Some(Request::write(place, bytes))
            }
            Call::Append { object, length } => {
                let (place, bytes) = self.contents(object, 0, length);
                Some(Request::write(place, bytes))
            }
            Call::Sync | Call::SyncFile { .. } | Call::SyncDirectory { .. } => {
                Some(Request::flush())
            }
            Call::List { object } => Some(self.beside_directory(object, 0)),
            Call::Attributes { object } => self.inode(object),
            Call::Lookup { parent } => self.inode_of_name(parent),
            _ => None,
        }
    }
}

impl Layer for DiskTimes {
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        Box::pin(async move {
            if let Some(request) = self.request(call) {
                self.station.serve(request).await.map_err(|_refusal| OriginError::System {
                    operation: call.operation(),
                    errno: Errno::IO,
                })?;
            }
            if let (Call::Read { length, .. }, Some(rate)) = (call, self.decompression) {
                self.clock.sleep(Duration::from_nanos(rate.transfer(length))).await;
            }
            Ok(())
        })
    }
}
