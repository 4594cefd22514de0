//! [`Record`]: a resident record, and how it is asked for and described.

use std::time::Duration;

use crate::list::{Class, List};
use crate::place::Place;
use crate::slab::Item;
use crate::sync::{AtomicU32, Relaxed};
use crate::touch::Touch;

/// Why a record is brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Somebody reads or writes it.
    Demand,
    /// Somebody is expected to read it soon. With its first read it counts as one access.
    Prefetch,
    /// An administrator wants it warm. As `Prefetch`, but it does not move the targets.
    Prime,
    /// Somebody reads it whose reads are not to count as use. It stands among the uncached, and
    /// its ghost teaches nothing. A record that is resident keeps its place.
    Passing,
}

/// What a record costs, and who pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Charge {
    /// Payload bytes. The header is added by the cache.
    pub bytes: u64,
    /// What the record holds.
    pub class: Class,
    /// Why it is brought in.
    pub kind: Kind,
    /// Index of the dataset, below [`crate::TENANTS_MAX`].
    pub tenant: u32,
}

/// Where a record is and how it got there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The list it stands on.
    pub list: List,
    /// Payload bytes.
    pub bytes: u64,
    /// When it came into the cache, on the caller's clock; if it was prefetched, when it was first
    /// read.
    pub inserted_at: Duration,
    /// Accesses after the first; a burst counts once; at most [`HITS_MAX`](crate::HITS_MAX) are
    /// counted.
    pub hits: u8,
    /// Uses that the clock's hand has not yet taken note of, at most three.
    pub turns: u8,
    /// It was prefetched or primed, and not yet read.
    pub prefetched: bool,
    /// Insertions into the cache since its last use, or under ARC since it came.
    pub age: u64,
    /// Index of the dataset.
    pub tenant: u32,
}

/// Ages are told to so many insertions, of records and of ghosts.
pub(crate) const AGE_MAX: u32 = u32::MAX >> 1;

#[derive(Debug)]
pub(crate) struct Record<K, V> {
    pub hash: u64,
    pub key: K,
    pub value: V,
    pub bytes: u64,
    pub touch: Touch,
    /// When the record was last used, on the policy's clock.
    pub used: AtomicU32,
    pub tenant: u16,
    pub place: Place,
}

// Beside key and value a record takes 32 bytes, and its two links 8.
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Option<Record<u64, u64>>>() == 48);

impl<K, V> Record<K, V> {
    /// Insertions between the record's last use and `clock`.
    #[inline]
    pub fn age(&self, clock: u32) -> u32 {
        clock.wrapping_sub(self.used.load(Relaxed)) & AGE_MAX
    }

    /// Key and value.
    pub fn into_entry(self) -> (K, V) {
        (self.key, self.value)
    }

    /// Where it is when the policy's clock shows `clock`.
    pub fn location(&self, clock: u32) -> Location {
        Location {
            list: self.place.list(),
            bytes: self.bytes,
            inserted_at: self.touch.first(),
            hits: self.touch.hits(),
            turns: self.touch.turns(),
            prefetched: self.touch.prefetched(),
            age: self.age(clock).into(),
            tenant: self.tenant.into(),
        }
    }
}

impl<K, V> Item for Record<K, V> {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn place(&self) -> Place {
        self.place
    }

    fn set_place(&mut self, place: Place) {
        self.place = place;
    }
}
