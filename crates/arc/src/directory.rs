//! [`Directory`]: resident records and ghosts on their lists, and the one index that finds both.

use crate::ghost::Fingerprint;
use crate::index::{HashIndex, Index};
use crate::place::Place;
use crate::record::Record;
use crate::slab::{Item, Slab};

/// Memory of the index per item, bytes: five a bucket, and 8/7 to 16/7 buckets an item, because
/// the table doubles when it is 7/8 full; 8.6 on average, 11.4 at most while the cache fills.
const INDEX_BYTES: u64 = 10;

/// The most that it takes per item: after many items have gone, until the table shrinks.
const INDEX_BYTES_MAX: u64 = 24;

/// Set in the index entry of a ghost; the other bits are the slot in its slab.
const GHOST: u32 = 1 << 31;

/// What the index knows under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The slot of the resident record.
    Record(u32),
    /// The slot of the ghost of a record with the same hash.
    Ghost(u32),
}

/// See the module. A record that is evicted becomes a ghost in its place in the index.
#[derive(Debug)]
pub(crate) struct Directory<K, V, I = HashIndex> {
    records: Slab<Record<K, V>>,
    ghosts: Slab<Fingerprint>,
    index: I,
}

impl<K: Eq, V, I: Index> Directory<K, V, I> {
    /// Memory of a resident record, bytes, with an even share of the index.
    pub const RECORD_BYTES: u64 = Slab::<Record<K, V>>::ITEM_BYTES + INDEX_BYTES;

    /// Memory of a ghost, bytes, with an even share of the index.
    pub const GHOST_BYTES: u64 = Slab::<Fingerprint>::ITEM_BYTES + INDEX_BYTES;

    /// An empty one, whose records weigh `header_bytes` besides their payload. A ghost weighs what
    /// its record weighed.
    pub fn new(index: I, header_bytes: u64) -> Self {
        Self { records: Slab::new(header_bytes), ghosts: Slab::new(header_bytes), index }
    }

    /// The records on their lists.
    #[inline]
    pub fn records(&self) -> &Slab<Record<K, V>> {
        &self.records
    }

    /// The ghosts on their lists.
    #[inline]
    pub fn ghosts(&self) -> &Slab<Fingerprint> {
        &self.ghosts
    }

    // ---- Finding -------------------------------------------------------------------------------

    /// The slot of the key's resident record.
    #[inline]
    pub fn record(&self, hash: u64, key: &K) -> Option<u32> {
        let is = |entry: u32| entry & GHOST == 0 && self.records.get(entry).key == *key;
        self.index.find(hash, is)
    }

    /// The slot of the ghost with this hash.
    pub fn ghost(&self, hash: u64) -> Option<u32> {
        let is = |entry: u32| entry & GHOST != 0 && self.hash(entry) == hash;
        self.index.find(hash, is).map(|entry| entry ^ GHOST)
    }

    /// Whether anything has this hash, a record or a ghost.
    pub fn knows(&self, hash: u64) -> bool {
        self.index.find(hash, |entry| self.hash(entry) == hash).is_some()
    }

    /// The key's record, or else its ghost.
    #[inline]
    pub fn find(&self, hash: u64, key: &K) -> Option<Found> {
        let is = |entry: u32| match entry & GHOST {
            0 => self.records.get(entry).key == *key,
            _ => self.hash(entry) == hash,
        };
        match self.index.find(hash, is)? {
            // Behind the ghost of another key with the same hash the record may still stand.
            entry if entry & GHOST != 0 => Some(match self.record(hash, key) {
                Some(slot) => Found::Record(slot),
                None => Found::Ghost(entry ^ GHOST),
            }),
            entry => Some(Found::Record(entry)),
        }
    }

    #[inline]
    fn hash(&self, entry: u32) -> u64 {
        hash(&self.records, &self.ghosts, entry)
    }

    // ---- Changing ------------------------------------------------------------------------------

    /// Puts a record at the young end of its list. Its key must not be resident.
    #[inline]
    pub fn insert(&mut self, record: Record<K, V>) {
        let hash = record.hash;
        let slot = self.records.push(record);
        self.enter(hash, slot);
    }

    /// Takes the record in `slot` out, and leaves no ghost. Call [`Directory::compact`] afterwards.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> Record<K, V> {
        let record = self.records.remove(slot);
        self.strike(record.hash, slot);
        record
    }

    /// Takes the record in `slot` out, and puts a ghost at the young end of its list. Call
    /// [`Directory::compact`] afterwards.
    #[inline]
    pub fn replace_by_ghost(&mut self, slot: u32, ghost: Fingerprint) -> Record<K, V> {
        let record = self.records.remove(slot);
        let entry = self.ghosts.push(ghost) | GHOST;
        let is_there = self.index.replace(record.hash, slot, entry);
        assert!(is_there, "slot {slot} is not in the index");
        record
    }

    /// Puts a ghost at the young end of its list. Nothing must be known under its hash.
    pub fn remember(&mut self, ghost: Fingerprint) {
        let hash = ghost.hash;
        let entry = self.ghosts.push(ghost) | GHOST;
        self.enter(hash, entry);
    }

    /// Takes the ghost in `slot` out.
    #[inline]
    pub fn forget(&mut self, slot: u32) -> Fingerprint {
        let ghost = self.ghosts.remove(slot);
        self.strike(ghost.hash, slot | GHOST);
        while let Some((from, to)) = self.ghosts.compact() {
            let hash = self.ghosts.get(to).hash;
            self.renumber(hash, from | GHOST, to | GHOST);
        }
        ghost
    }

    /// Changes the record in `slot`; sums follow its bytes. Its list and hash must stay.
    pub fn update<R>(&mut self, slot: u32, change: impl FnOnce(&mut Record<K, V>) -> R) -> R {
        self.records.update(slot, change)
    }

    /// Moves the record in `slot` to the young end of a list.
    #[inline]
    pub fn move_to(&mut self, slot: u32, place: Place) {
        self.records.move_to(slot, place);
    }

    /// Takes note that the oldest record of a list that was not offered now is; its slot.
    pub fn offer(&mut self, place: Place) -> Option<u32> {
        self.records.offer(place)
    }

    /// Moves up to `limit` records into holes that others have left; whether that is all.
    #[inline]
    pub fn compact(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            let Some((from, to)) = self.records.compact() else { return true };
            let hash = self.records.get(to).hash;
            self.renumber(hash, from, to);
        }
        false
    }

    #[inline]
    fn enter(&mut self, hash: u64, entry: u32) {
        let (records, ghosts) = (&self.records, &self.ghosts);
        self.index.insert(hash, entry, |at| self::hash(records, ghosts, at));
    }

    #[inline]
    fn strike(&mut self, hash: u64, entry: u32) {
        assert!(self.index.remove(hash, entry), "entry {entry:#x} is not in the index");
        let (records, ghosts) = (&self.records, &self.ghosts);
        self.index.shrink(INDEX_BYTES_MAX, |at| self::hash(records, ghosts, at));
    }

    fn renumber(&mut self, hash: u64, from: u32, to: u32) {
        assert!(self.index.replace(hash, from, to), "entry {from:#x} is not in the index");
    }

    /// Recounts lists, sums and index.
    pub fn validate(&self) -> Result<(), String> {
        self.records.validate().map_err(|why| format!("records: {why}"))?;
        self.ghosts.validate().map_err(|why| format!("ghosts: {why}"))?;
        let (records, ghosts) = (self.records.len(), self.ghosts.len());
        if self.index.len() != records + ghosts {
            return Err(format!("{} in the index, {records} + {ghosts}", self.index.len()));
        }
        let slots = |slots: usize| 0..slots as u32;
        let records = slots(self.records.slots())
            .filter_map(|slot| self.records.occupant(slot).map(|record| (record.hash, slot)));
        let ghosts = slots(self.ghosts.slots())
            .filter_map(|slot| self.ghosts.occupant(slot).map(|ghost| (ghost.hash, slot | GHOST)));
        for (hash, entry) in records.chain(ghosts) {
            if self.index.find(hash, |at| at == entry).is_none() {
                return Err(format!("entry {entry:#x} is not in the index"));
            }
        }
        self.index.validate(INDEX_BYTES_MAX)
    }
}

fn hash<K, V>(records: &Slab<Record<K, V>>, ghosts: &Slab<Fingerprint>, entry: u32) -> u64 {
    if entry & GHOST == 0 { records.get(entry).hash() } else { ghosts.get(entry ^ GHOST).hash }
}
