//! [`Index`]: how a record or a ghost is found by its hash.

use std::fmt::Debug;

use hashbrown::HashTable;

/// Table entries that are kept when shrinking.
const SIZE_MIN: usize = 64;

/// Finds entries, which are numbers, by the hashes under which they were entered.
///
/// [`HashIndex`] is for any keys; [`DenseIndex`] is quicker where the keys are few numbers, all of
/// which are known beforehand.
pub trait Index: Debug {
    /// The entry with this hash for which `is` holds.
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32>;

    /// Adds an entry. `hash_of` tells the hash of any that is there.
    fn insert(&mut self, hash: u64, entry: u32, hash_of: impl Fn(u32) -> u64);

    /// Puts another entry in the place of one. Says whether it was there.
    fn replace(&mut self, hash: u64, from: u32, to: u32) -> bool;

    /// Takes an entry out. Says whether it was there.
    fn remove(&mut self, hash: u64, entry: u32) -> bool;

    /// Gives memory back that is more than so many bytes an entry.
    fn shrink(&mut self, entry_bytes_max: u64, hash_of: impl Fn(u32) -> u64);

    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Errors
    /// When it takes more than so many bytes an entry.
    fn validate(&self, entry_bytes_max: u64) -> Result<(), String>;
}

/// A hash table, which grows and shrinks with what it holds.
#[derive(Debug, Default)]
pub struct HashIndex {
    table: HashTable<u32>,
}

impl HashIndex {
    #[inline]
    fn bytes_max(&self, entry_bytes_max: u64) -> u64 {
        entry_bytes_max * (self.table.len() + SIZE_MIN) as u64
    }
}

impl Index for HashIndex {
    #[inline]
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.table.find(hash, |&entry| is(entry)).copied()
    }

    #[inline]
    fn insert(&mut self, hash: u64, entry: u32, hash_of: impl Fn(u32) -> u64) {
        self.table.insert_unique(hash, entry, |&at| hash_of(at));
    }

    #[inline]
    fn replace(&mut self, hash: u64, from: u32, to: u32) -> bool {
        self.table.find_mut(hash, |&at| at == from).map(|at| *at = to).is_some()
    }

    #[inline]
    fn remove(&mut self, hash: u64, entry: u32) -> bool {
        self.table.find_entry(hash, |&at| at == entry).map(|found| found.remove()).is_ok()
    }

    #[inline]
    fn shrink(&mut self, entry_bytes_max: u64, hash_of: impl Fn(u32) -> u64) {
        // Not by its capacity: that leaves the places of removed items out.
        if self.table.allocation_size() as u64 > self.bytes_max(entry_bytes_max) {
            self.table.shrink_to(self.table.len() + SIZE_MIN / 2, |&at| hash_of(at));
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.table.len()
    }

    fn validate(&self, entry_bytes_max: u64) -> Result<(), String> {
        match self.table.allocation_size() as u64 {
            bytes if bytes > self.bytes_max(entry_bytes_max) => {
                Err(format!("index takes {bytes} bytes"))
            }
            _ => Ok(()),
        }
    }
}

/// Odd, so that it has an inverse: about the golden section of 64 bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Its inverse.
const GATHER: u64 = inverse(SPREAD);
/// A place without an entry.
const NONE: u32 = u32::MAX;

const fn inverse(odd: u64) -> u64 {
    // Newton: each step doubles the number of right digits, of which an odd number has three.
    let (mut found, mut step) = (odd, 0);
    while step < 5 {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

/// A table with a place for each of the numbers below a bound, which are the keys: for
/// simulations. Their hashes are those of [`DenseIndex::hash`].
#[derive(Debug)]
pub struct DenseIndex {
    places: Vec<u32>,
    entries: usize,
}

impl DenseIndex {
    /// For the keys below `bound`.
    pub fn new(bound: usize) -> DenseIndex {
        DenseIndex { places: vec![NONE; bound], entries: 0 }
    }

    /// The hash of a key: spread over all bits, and no other's.
    #[inline]
    pub fn hash(key: u32) -> u64 {
        u64::from(key).wrapping_mul(SPREAD)
    }

    #[inline]
    fn place(hash: u64) -> usize {
        hash.wrapping_mul(GATHER) as usize
    }
}

impl Index for DenseIndex {
    #[inline]
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let entry = *self.places.get(DenseIndex::place(hash))?;
        (entry != NONE && is(entry)).then_some(entry)
    }

    #[inline]
    fn insert(&mut self, hash: u64, entry: u32, _hash_of: impl Fn(u32) -> u64) {
        let place = &mut self.places[DenseIndex::place(hash)];
        assert!(*place == NONE, "a key has one entry");
        *place = entry;
        self.entries += 1;
    }

    #[inline]
    fn replace(&mut self, hash: u64, from: u32, to: u32) -> bool {
        let place = &mut self.places[DenseIndex::place(hash)];
        let is_there = *place == from;
        if is_there {
            *place = to;
        }
        is_there
    }

    #[inline]
    fn remove(&mut self, hash: u64, entry: u32) -> bool {
        let is_there = self.replace(hash, entry, NONE);
        self.entries -= usize::from(is_there);
        is_there
    }

    #[inline]
    fn shrink(&mut self, _entry_bytes_max: u64, _hash_of: impl Fn(u32) -> u64) {}

    #[inline]
    fn len(&self) -> usize {
        self.entries
    }

    fn validate(&self, _entry_bytes_max: u64) -> Result<(), String> {
        match self.places.iter().filter(|&&place| place != NONE).count() {
            entries if entries != self.entries => {
                Err(format!("{entries} in the index are counted"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_hashes() {
        let mut index = DenseIndex::new(1000);
        for key in 0..1000 {
            index.insert(DenseIndex::hash(key), key * 2, |_| unreachable!());
        }
        assert!((0..1000).all(|key| index.find(DenseIndex::hash(key), |_| true) == Some(key * 2)));
        assert_eq!(index.find(DenseIndex::hash(1000), |_| true), None);
        assert_eq!(index.find(DenseIndex::hash(7), |entry| entry != 14), None);
        assert!(index.replace(DenseIndex::hash(7), 14, 5) && index.remove(DenseIndex::hash(7), 5));
        assert!(!index.remove(DenseIndex::hash(7), 5));
        assert_eq!((index.len(), index.validate(0)), (999, Ok(())));
    }
}
