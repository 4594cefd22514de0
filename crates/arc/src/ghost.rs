//! [`Ghost`]: what is remembered of a record that was evicted.

use crate::list::List;
use crate::slab::Item;

/// Fingerprint, size and list of an evicted record.
///
/// The fingerprint is the 64-bit hash of the key. Two keys with one hash are taken for each
/// other; that costs a little accuracy of the targets once in a lifetime and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost {
    pub(crate) hash: u64,
    /// Payload bytes of the record, saturated at 4 GiB.
    pub bytes: u32,
    /// The list it was evicted from.
    pub list: List,
    /// It was prefetched and never read.
    pub prefetched: bool,
}

impl Item for Ghost {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    fn list(&self) -> List {
        self.list
    }

    fn set_list(&mut self, list: List) {
        self.list = list;
    }
}

// With its two links a ghost takes 24 bytes.
const _: () = assert!(size_of::<Ghost>() == 16);
