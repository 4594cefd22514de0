use std::time::Duration;

use super::recent::Recent;
use super::{Device, Work, mix, transfer};
use crate::Call;

/// A file server with disks, at the end of a link that all calls share.
pub(super) struct Nfs {
    link_busy_until: Duration,
    /// Directories and inodes that the server has in memory.
    known: Recent<()>,
    /// Where the last read of a file ended.
    ends: Recent<u64>,
}

const ROUND_TRIP: Duration = Duration::from_micros(400);
const SERVER_DISK: Duration = Duration::from_millis(6);
const LINK_BYTES_PER_SECOND: u64 = 117_000_000;
const NAME_BYTES: u64 = 128;
const KNOWN_MAX: usize = 1 << 16;

impl Default for Nfs {
    fn default() -> Nfs {
        Nfs {
            link_busy_until: Duration::ZERO,
            known: Recent::new(KNOWN_MAX),
            ends: Recent::new(KNOWN_MAX),
        }
    }
}

impl Device for Nfs {
    fn serve(&mut self, call: &Call, now: Duration) -> Duration {
        let (at_disk, bytes) = match Work::of(call) {
            Work::Answer => (false, 0),
            Work::Name(object) | Work::Names(object) | Work::Inode(object) => {
                (self.known.insert(object.0, ()).is_none(), 0)
            }
            Work::Change(_) | Work::Flush => (true, 0),
            Work::Read(object, offset, length) => {
                let end = self.ends.insert(object.0, offset.saturating_add(length));
                (end != Some(offset), length)
            }
            // The server takes writes into its memory.
            Work::Write(_, _, length) => (false, length),
        };
        let ready = now + ROUND_TRIP + if at_disk { SERVER_DISK } else { Duration::ZERO };
        if bytes == 0 {
            return ready;
        }
        let transfer = transfer(bytes, LINK_BYTES_PER_SECOND);
        self.link_busy_until = self.link_busy_until.max(ready).saturating_add(transfer);
        self.link_busy_until
    }

    fn listed(&self, names: u64) -> Duration {
        transfer(names.saturating_mul(NAME_BYTES), LINK_BYTES_PER_SECOND)
    }
}

/// An object store: slow to start, and never busy.
pub(super) struct ObjectStore;

const FIRST_BYTE_SHORTEST: Duration = Duration::from_millis(20);
const FIRST_BYTE_SPREAD_US: u64 = 10_000;
const STREAM_BYTES_PER_SECOND: u64 = 90_000_000;
const NAMES_PER_REQUEST: u64 = 1000;

fn first_byte(object: u64, offset: u64) -> Duration {
    FIRST_BYTE_SHORTEST + Duration::from_micros(mix(object, offset) % FIRST_BYTE_SPREAD_US)
}

impl Device for ObjectStore {
    fn serve(&mut self, call: &Call, now: Duration) -> Duration {
        let (object, offset, bytes) = match Work::of(call) {
            // The store has no open files, and whole requests are durable when they end.
            Work::Answer | Work::Flush => return now,
            Work::Name(object)
            | Work::Names(object)
            | Work::Inode(object)
            | Work::Change(object) => (object, 0, 0),
            Work::Read(object, offset, length) => (object, offset, length),
            Work::Write(object, offset, length) => (object, offset.unwrap_or(0), length),
        };
        now + first_byte(object.0, offset) + transfer(bytes, STREAM_BYTES_PER_SECOND)
    }

    fn listed(&self, names: u64) -> Duration {
        let further = names.saturating_sub(1) / NAMES_PER_REQUEST;
        let further = u32::try_from(further).unwrap_or(u32::MAX);
        first_byte(names, further.into()).saturating_mul(further)
    }
}
