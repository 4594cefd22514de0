//! What one cache tells another that goes on in its place, in the next start of a program:
//! [`Standing`] of records, [`Remembered`] ghosts and [`Targets`].

use crate::list::{List, Queue};
use crate::record::{AGE_MAX, Location};
use crate::setting::Setting;

/// How a resident record stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The queue of its class.
    pub queue: Queue,
    /// Uses that the clock's hand had not yet taken note of.
    pub turns: u8,
    /// It was prefetched or primed, and not yet read.
    pub unread: bool,
    /// Insertions into the cache since its last use.
    pub age: u64,
}

impl From<&Location> for Standing {
    fn from(at: &Location) -> Self {
        let Location { list, turns, prefetched, age, .. } = *at;
        Self { queue: list.queue, turns, unread: prefetched, age }
    }
}

/// A ghost with its fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// Hash of the record's key; see [`Cache::hash`](crate::Cache::hash).
    pub hash: u64,
    /// The list on which it stands.
    pub list: List,
    /// Payload bytes of the record, to eleven binary digits.
    pub bytes: u64,
    /// The record was prefetched and never read.
    pub prefetched: bool,
    /// Insertions into the cache since the record's last use.
    pub age: u64,
}

/// What a partition has learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Targets {
    /// MRU's share of data and of metadata, mean over the shards; moved under ARC.
    pub mru: [f64; 2],
    /// Metadata's share of the whole, mean over the shards.
    pub metadata: f64,
    /// The setting in force; `None` under ARC.
    pub setting: Option<Setting>,
}

/// A moment in the life of a cache, to which ages of an earlier one are counted.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Insertions into each shard until then.
    pub(crate) clocks: Box<[u32]>,
}

impl Moment {
    /// What the clock of a shard showed when something was used so many insertions into the whole
    /// cache before.
    pub(crate) fn before(&self, shard: usize, age: u64) -> u32 {
        // Half of what can be told: it will be older yet.
        let age = (age / self.clocks.len() as u64).min(u64::from(AGE_MAX / 2));
        self.clocks[shard].wrapping_sub(age as u32)
    }
}
