//! [`Directory`]: a slab of items and the index that finds them by hash.

use hashbrown::HashTable;

use crate::list::List;
use crate::slab::{Item, Slab};

/// Memory of the index per item, bytes: five a bucket, and 8/7 to 16/7 buckets an item, because
/// the table doubles when it is 7/8 full; 8.6 on average, 11.4 at most while the cache fills.
const INDEX_BYTES: u64 = 10;

/// The most that it takes per item: after many items have gone, until the table shrinks.
const INDEX_BYTES_MAX: u64 = 24;

/// Table entries that are kept when shrinking.
const INDEX_MIN: usize = 64;

/// Items on lists, found by hash. Resident records are kept in one, ghosts in another.
#[derive(Debug)]
pub(crate) struct Directory<T> {
    slab: Slab<T>,
    index: HashTable<u32>,
}

impl<T: Item> Directory<T> {
    /// Memory per item, bytes, with an even share of the index.
    pub const ITEM_BYTES: u64 = Slab::<T>::ITEM_BYTES + INDEX_BYTES;

    pub const fn new() -> Self {
        Self { slab: Slab::new(), index: HashTable::new() }
    }

    /// The items on their lists.
    pub fn slab(&self) -> &Slab<T> {
        &self.slab
    }

    /// The slot of the item with this hash for which `is` holds.
    pub fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<u32> {
        self.index.find(hash, |&slot| is(self.slab.get(slot))).copied()
    }

    /// Puts an item at the young end of its list.
    pub fn push(&mut self, item: T) {
        let hash = item.hash();
        let slot = self.slab.push(item);
        let slab = &self.slab;
        self.index.insert_unique(hash, slot, |&slot| slab.get(slot).hash());
    }

    /// Takes the item in `slot` out.
    pub fn remove(&mut self, slot: u32) -> T {
        let hash = self.slab.get(slot).hash();
        match self.index.find_entry(hash, |&at| at == slot) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => panic!("slot {slot} is not in the index"),
        }
        let (item, moved) = self.slab.remove(slot);
        if let Some(former) = moved {
            let hash = self.slab.get(slot).hash();
            match self.index.find_mut(hash, |&at| at == former) {
                Some(at) => *at = slot,
                None => panic!("slot {former} is not in the index"),
            }
        }
        // Not by its capacity: that leaves the places of removed items out.
        if self.index.allocation_size() as u64 > self.index_bytes_max() {
            let slab = &self.slab;
            self.index.shrink_to(self.slab.len() + INDEX_MIN / 2, |&at| slab.get(at).hash());
        }
        item
    }

    /// Takes the oldest item of `list` out.
    pub fn pop(&mut self, list: List) -> Option<T> {
        self.slab.head(list).map(|slot| self.remove(slot))
    }

    /// Changes the item in `slot`; sums follow its bytes. Its list and hash must stay.
    pub fn update<R>(&mut self, slot: u32, change: impl FnOnce(&mut T) -> R) -> R {
        self.slab.update(slot, change)
    }

    /// Moves the item in `slot` to the young end of `list`.
    pub fn move_to(&mut self, slot: u32, list: List) {
        self.slab.move_to(slot, list);
    }

    fn index_bytes_max(&self) -> u64 {
        INDEX_BYTES_MAX * (self.index.len() + INDEX_MIN) as u64
    }

    /// Recounts lists, sums and index.
    pub fn validate(&self) -> Result<(), String> {
        self.slab.validate()?;
        if self.index.len() != self.slab.len() {
            return Err(format!("{} in the index, {} slots", self.index.len(), self.slab.len()));
        }
        for slot in 0..self.slab.len() as u32 {
            let hash = self.slab.get(slot).hash();
            if self.index.find(hash, |&at| at == slot).is_none() {
                return Err(format!("slot {slot} is not in the index"));
            }
        }
        if self.index.allocation_size() as u64 > self.index_bytes_max() {
            return Err(format!("index takes {} bytes", self.index.allocation_size()));
        }
        Ok(())
    }
}
