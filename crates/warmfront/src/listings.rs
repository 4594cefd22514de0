use std::ops::Deref;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;
use storage::ObjectId;

use crate::answer::{Listing, listing_bytes};
use crate::memory::Memory;

/// A table smaller than this is not searched for what has gone.
const SEARCHED_MIN: usize = 64;

/// A listing for as long as somebody reads it, charged to the ceiling.
#[derive(Debug)]
pub(crate) struct HeldListing {
    names: Arc<Listing>,
    /// The version of the directory that it tells.
    generation: u64,
    memory: Arc<Memory>,
    bytes: u64,
}

impl HeldListing {
    /// The names.
    pub(crate) fn names(&self) -> &Arc<Listing> {
        &self.names
    }
}

impl Deref for HeldListing {
    type Target = Listing;

    fn deref(&self) -> &Listing {
        &self.names
    }
}

impl Drop for HeldListing {
    fn drop(&mut self) {
        self.names = Arc::default();
        if self.memory.let_go(self.bytes) {
            self.memory.trim();
        }
    }
}

/// The listings that open directories hold: one of each version of a directory, whoever reads it.
///
/// The ARC has most of them as well, but not one that is larger than an eighth of it.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<u64, Weak<HeldListing>>,
    /// The length at which it is searched for what has gone.
    searched_at: usize,
}

impl Listings {
    /// The listing of a directory that others hold.
    pub(crate) fn get(&self, directory: ObjectId, generation: u64) -> Option<Arc<HeldListing>> {
        let held = self.table.lock().held.get(&directory.0)?.upgrade()?;
        (held.generation == generation).then_some(held)
    }

    /// Holds a listing, unless others hold the same one.
    pub(crate) fn hold(
        &self,
        memory: &Arc<Memory>,
        directory: ObjectId,
        generation: u64,
        names: Arc<Listing>,
    ) -> Arc<HeldListing> {
        if let Some(held) = self.get(directory, generation) {
            return held;
        }
        let bytes = listing_bytes(&names) as u64;
        memory.hold(bytes);
        let held = Arc::new(HeldListing { names, generation, memory: memory.clone(), bytes });
        let mut table = self.table.lock();
        if table.held.len() >= table.searched_at.max(SEARCHED_MIN) {
            table.held.retain(|_, held| held.strong_count() > 0);
            table.searched_at = table.held.len() * 2;
        }
        table.held.insert(directory.0, Arc::downgrade(&held));
        held
    }

    /// Gives out no more what is held of a directory: its names have changed.
    pub(crate) fn drop_of(&self, directory: ObjectId) {
        self.table.lock().held.remove(&directory.0);
    }
}
