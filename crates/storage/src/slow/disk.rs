use std::time::Duration;

use super::recent::Recent;
use super::{Device, Work, mix, transfer};
use crate::{Call, ObjectId};

const SEEK_SHORTEST: Duration = Duration::from_micros(800);
const SEEK_AVERAGE: Duration = Duration::from_micros(8500);
const HALF_REVOLUTION: Duration = Duration::from_micros(4170);
const BYTES_PER_SECOND: u64 = 160_000_000;

const DISK_BYTES: u64 = 1 << 40;
/// The distance of an average seek: a third of the way across.
const AVERAGE_DISTANCE: u64 = DISK_BYTES / 3;
/// The longest gap that is read through, not jumped.
const GAP_MAX: u64 = 1 << 20;

/// ext4's layout: groups of 128 MiB with 8192 inodes of 256 bytes each.
const GROUP_BYTES: u64 = 128 << 20;
const GROUP_INODES: u64 = 8192;
const INODE_BYTES: u64 = 256;
const BLOCK: u64 = 4096;
const NAME_BYTES: u64 = 64;

/// Blocks of inodes and directories that stay in memory.
const BLOCKS_KEPT_MAX: usize = 4096;

/// A spinning disk with one arm.
pub(super) struct Disk {
    busy_until: Duration,
    head: u64,
    directory: Option<ObjectId>,
    kept: Recent<()>,
    ends: Recent<u64>,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            busy_until: Duration::ZERO,
            head: 0,
            directory: None,
            kept: Recent::new(BLOCKS_KEPT_MAX),
            ends: Recent::new(BLOCKS_KEPT_MAX),
        }
    }
}

fn group(object: ObjectId) -> u64 {
    (object.0 / GROUP_INODES) % (DISK_BYTES / GROUP_BYTES) * GROUP_BYTES
}

fn inode_block(object: ObjectId) -> u64 {
    group(object) + (object.0 % GROUP_INODES) * INODE_BYTES / BLOCK * BLOCK
}

/// Where the first byte of an object lies: in its inode's group, behind the inodes.
fn data(object: ObjectId) -> u64 {
    const INODES_BYTES: u64 = GROUP_INODES * INODE_BYTES;
    let blocks = (GROUP_BYTES - INODES_BYTES) / BLOCK;
    group(object) + INODES_BYTES + mix(object.0, 0) % blocks * BLOCK
}

fn seek(distance: u64) -> Duration {
    let part = (distance as f64 / AVERAGE_DISTANCE as f64).sqrt();
    SEEK_SHORTEST + (SEEK_AVERAGE - SEEK_SHORTEST).mul_f64(part)
}

impl Disk {
    /// Moves to an address, and passes `length` bytes under the head.
    fn pass(&mut self, address: u64, length: u64) -> Duration {
        let address = address % DISK_BYTES;
        let distance = address.abs_diff(self.head);
        let reaches = address >= self.head && distance <= GAP_MAX;
        let moved = seek(distance) + HALF_REVOLUTION;
        let moved = if reaches { moved.min(transfer(distance, BYTES_PER_SECOND)) } else { moved };
        self.head = address.saturating_add(length) % DISK_BYTES;
        moved + transfer(length, BYTES_PER_SECOND)
    }

    /// Reads a block, unless it is in memory.
    fn block(&mut self, address: u64) -> Option<Duration> {
        match self.kept.insert(address, ()) {
            Some(()) => None,
            None => Some(self.pass(address, BLOCK)),
        }
    }
}

impl Device for Disk {
    fn serve(&mut self, call: &Call, now: Duration) -> Duration {
        let service = match Work::of(call) {
            Work::Answer => None,
            Work::Name(directory) if self.directory == Some(directory) => {
                Some((SEEK_SHORTEST + HALF_REVOLUTION) / 16)
            }
            Work::Name(directory) => {
                self.directory = Some(directory);
                let listed = self.block(data(directory)).unwrap_or_default();
                Some(listed + SEEK_SHORTEST + HALF_REVOLUTION)
            }
            Work::Names(directory) => self.block(data(directory)),
            Work::Inode(object) => self.block(inode_block(object)),
            // The change itself goes to the journal, with the next flush.
            Work::Change(directory) => self.block(data(directory)),
            Work::Read(object, offset, length) => {
                Some(self.pass(data(object).wrapping_add(offset), length))
            }
            Work::Write(object, offset, length) => {
                // Where a file ends is known from the appends before; the first goes to its start.
                let end = self.ends.insert(object.0, 0).unwrap_or(0);
                let offset = offset.unwrap_or(end);
                self.ends.insert(object.0, end.max(offset.saturating_add(length)));
                Some(self.pass(data(object).wrapping_add(offset), length))
            }
            // The journal lies elsewhere; its commit waits for the next revolution.
            Work::Flush => Some(SEEK_AVERAGE + 2 * HALF_REVOLUTION),
        };
        // What is in memory waits for no arm.
        let Some(service) = service else { return now };
        self.busy_until = self.busy_until.max(now).saturating_add(service);
        self.busy_until
    }

    fn listed(&self, names: u64) -> Duration {
        transfer(names.saturating_mul(NAME_BYTES), BYTES_PER_SECOND)
    }
}
