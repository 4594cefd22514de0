//! [`Ghost`]: what is remembered of a record that was evicted.

use crate::list::List;
use crate::place::Place;
use crate::slab::Item;

/// Size and list of an evicted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost {
    /// Payload bytes of the record, saturated at 4 GiB.
    pub bytes: u32,
    /// The list it was evicted from.
    pub list: List,
    /// It was prefetched and never read.
    pub prefetched: bool,
}

/// A ghost as it lies in memory.
///
/// The fingerprint is the 64-bit hash of the key. Two keys with one hash are taken for each
/// other; that costs a little accuracy of the targets once in a lifetime and nothing else.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    pub hash: u64,
    /// Payload bytes, saturated.
    pub bytes: u32,
    pub place: Place,
    pub prefetched: bool,
}

impl Fingerprint {
    #[inline]
    pub fn ghost(&self) -> Ghost {
        Ghost { bytes: self.bytes, list: self.place.list(), prefetched: self.prefetched }
    }
}

impl Item for Fingerprint {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    fn place(&self) -> Place {
        self.place
    }

    fn set_place(&mut self, place: Place) {
        self.place = place;
    }
}

// With its two links a ghost takes 24 bytes.
const _: () = assert!(size_of::<Option<Fingerprint>>() == 16);
