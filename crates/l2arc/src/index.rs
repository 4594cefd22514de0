//! [`Index`]: where the record with a key's hash lies.

mod table;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::location::{LOCATION_BITS, Location, UNIT_BYTES};
use table::Table;

/// Parts of the index, each with a lock of its own.
const SHARDS: usize = 256;

/// Entries that are put in at a time.
const BATCH: usize = 32;

/// The granule of lengths, bytes.
pub(crate) const BLOCK_BYTES: usize = 512;
/// Most blocks of a record with its header.
pub(crate) const BLOCKS_MAX: usize = (1 << BLOCK_BITS) - 1;
const BLOCK_BITS: u32 = 15;
/// The most that hits are counted up to.
pub(crate) const HEAT_MAX: u8 = (1 << HEAT_BITS) - 1;
const HEAT_BITS: u32 = 2;

/// What the index knows of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) location: Location,
    /// Blocks of [`BLOCK_BYTES`] in which it lies.
    pub(crate) blocks: u16,
    /// Hits since it was written, saturating.
    pub(crate) heat: u8,
    pub(crate) metadata: bool,
    /// It turned out bad: no longer served, but still known to lie there.
    pub(crate) bad: bool,
}

const HEAT_SHIFT: u32 = LOCATION_BITS + BLOCK_BITS;
const METADATA_SHIFT: u32 = HEAT_SHIFT + HEAT_BITS;
const BAD_SHIFT: u32 = METADATA_SHIFT + 1;
/// Tells an entry from an empty place.
const PRESENT: u64 = 1 << 63;
const _: () = assert!(BAD_SHIFT < 63);

impl Entry {
    /// The blocks in which the record lies, as bytes of its segment, and where in the segment it
    /// begins.
    pub(crate) fn extent(&self) -> (Range<usize>, usize) {
        let at = self.location.unit as usize * UNIT_BYTES;
        let from = at / BLOCK_BYTES * BLOCK_BYTES;
        (from..from + self.blocks as usize * BLOCK_BYTES, at)
    }

    fn pack(self) -> u64 {
        PRESENT
            | self.location.pack()
            | u64::from(self.blocks) << LOCATION_BITS
            | u64::from(self.heat.min(HEAT_MAX)) << HEAT_SHIFT
            | u64::from(self.metadata) << METADATA_SHIFT
            | u64::from(self.bad) << BAD_SHIFT
    }

    fn unpack(bits: u64) -> Entry {
        Entry {
            location: Location::unpack(bits & ((1 << LOCATION_BITS) - 1)),
            blocks: (bits >> LOCATION_BITS) as u16 & BLOCKS_MAX as u16,
            heat: (bits >> HEAT_SHIFT) as u8 & HEAT_MAX,
            metadata: bits >> METADATA_SHIFT & 1 == 1,
            bad: bits >> BAD_SHIFT & 1 == 1,
        }
    }
}

/// RAM of the shards, and of what each has beyond 16 bytes an entry, bytes.
pub(crate) const FIXED_BYTES: u64 =
    (SHARDS * (size_of::<Mutex<Table>>() + table::LEAST_BYTES)) as u64;

/// Hashes of keys and where their records lie, in 12 bytes each.
///
/// Of a hash, 40 bits are kept: 8 choose the shard, 32 are in the entry. Two keys that agree in
/// them are taken for each other: the record itself tells, and the second of them finds no place.
/// The index is never short of a record that could be read from flash, so a key that is not in it
/// needs no tombstone.
pub(crate) struct Index {
    shards: Vec<Mutex<Table>>,
    /// RAM of all tables, bytes.
    bytes: AtomicUsize,
}

fn split(hash: u64) -> (usize, u32) {
    ((hash >> 56) as usize, (hash >> 24) as u32)
}

impl Index {
    pub(crate) fn new() -> Index {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Index { shards, bytes: AtomicUsize::new(SHARDS * size_of::<Mutex<Table>>()) }
    }

    /// Changes a shard in a way that may take more or less RAM.
    fn resize<T>(&self, shard: usize, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.shards[shard].lock();
        let before = table.charged_bytes();
        let result = change(&mut table);
        let after = table.charged_bytes();
        if after != before {
            self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
        result
    }

    /// Makes room for `count` entries in all, in as many bytes as they will take.
    pub(crate) fn reserve(&self, count: u64) {
        let each = usize::try_from(count).unwrap_or(usize::MAX) / SHARDS;
        (0..SHARDS).for_each(|shard| self.resize(shard, |table| table.reserve(each)));
    }

    pub(crate) fn get(&self, hash: u64) -> Option<Entry> {
        let (shard, print) = split(hash);
        self.shards[shard].lock().get(print).map(Entry::unpack)
    }

    /// Puts an entry where there is none; gives back the one that is there.
    pub(crate) fn insert(&self, hash: u64, entry: Entry) -> Result<(), Entry> {
        let (shard, print) = split(hash);
        let inserted = self.resize(shard, |table| table.insert(print, entry.pack()));
        inserted.map_err(Entry::unpack)
    }

    /// Puts in entries in order of their hashes, each where there is none; `other` is told of those
    /// that find another in their place.
    pub(crate) fn insert_sorted(
        &self,
        entries: impl Iterator<Item = (u64, Entry)>,
        mut other: impl FnMut(u64, Entry, Entry),
    ) {
        let mut entries = entries.peekable();
        let mut batch = Vec::with_capacity(BATCH);
        while let Some((hash, _)) = entries.peek() {
            let (shard, _) = split(*hash);
            let mut here = || entries.next_if(|(hash, _)| split(*hash).0 == shard);
            batch.clear();
            batch.extend(std::iter::from_fn(&mut here).take(BATCH));
            self.resize(shard, |table| {
                table.fetch(batch.iter().map(|(hash, _)| split(*hash).1));
                for (hash, entry) in &batch {
                    if let Err(bits) = table.insert(split(*hash).1, entry.pack()) {
                        other(*hash, *entry, Entry::unpack(bits));
                    }
                }
            });
        }
    }

    /// Changes the entry of `hash` if it is for `location`. Says whether it was.
    pub(crate) fn update(
        &self,
        hash: u64,
        location: Location,
        change: impl FnOnce(&mut Entry),
    ) -> bool {
        let (shard, print) = split(hash);
        let mut shard = self.shards[shard].lock();
        let Some(bits) = shard.get_mut(print) else { return false };
        let mut entry = Entry::unpack(bits.bits());
        if entry.location != location {
            return false;
        }
        change(&mut entry);
        bits.set(entry.pack());
        true
    }

    /// Removes the entry of `hash` if it is for `location`. Says whether it was.
    pub(crate) fn remove(&self, hash: u64, location: Location) -> bool {
        let (shard, print) = split(hash);
        self.resize(shard, |table| {
            let there = table.get(print).map(Entry::unpack);
            let fits = there.is_some_and(|entry| entry.location == location);
            if fits {
                table.remove(print);
            }
            fits
        })
    }

    /// Gives back the room that was made for more entries than came.
    pub(crate) fn fit(&self) {
        (0..SHARDS).for_each(|shard| self.resize(shard, Table::fit));
    }

    /// Keeps only the entries that `keep` wants. Looks at every one.
    pub(crate) fn retain(&self, mut keep: impl FnMut(Entry) -> bool) {
        for shard in 0..SHARDS {
            self.resize(shard, |table| table.retain(|bits| keep(Entry::unpack(bits))));
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().len() as u64).sum()
    }

    /// RAM taken, bytes.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When a table is out of order.
    pub(crate) fn validate(&self) {
        self.shards.iter().for_each(|shard| shard.lock().validate());
        let tables: usize = self.shards.iter().map(|shard| shard.lock().charged_bytes()).sum();
        let fixed = SHARDS * size_of::<Mutex<Table>>();
        assert_eq!(tables + fixed, self.bytes.load(Ordering::Relaxed), "RAM is counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were() {
        let location = Location { ring: 63, segment: (1 << 18) - 1, unit: (1 << 20) - 1 };
        let entry = Entry {
            location,
            blocks: BLOCKS_MAX as u16,
            heat: HEAT_MAX,
            metadata: true,
            bad: true,
        };
        assert_eq!(Entry::unpack(entry.pack()), entry);
        let zero = Location { ring: 0, segment: 0, unit: 0 };
        let small = Entry { location: zero, blocks: 1, heat: 0, metadata: false, bad: false };
        assert_eq!(Entry::unpack(small.pack()), small);
    }

    #[test]
    fn an_entry_of_few_takes_as_much_besides_what_is_fixed() {
        let index = Index::new();
        let mut random = storage::Random::new(7);
        let location = Location { ring: 0, segment: 1, unit: 2 };
        let entry = Entry { location, blocks: 9, heat: 0, metadata: false, bad: false };
        for _ in 0..20_000 {
            index.insert(random.draw(), entry).expect("it is new");
            let bytes = index.charged_bytes().saturating_sub(FIXED_BYTES);
            assert!(bytes <= 16 * index.len(), "{bytes} bytes for {}", index.len());
        }
    }

    #[test]
    fn room_for_more_than_come_or_stay_is_given_back() {
        let index = Index::new();
        let mut random = storage::Random::new(7);
        let location = Location { ring: 0, segment: 1, unit: 2 };
        let entry = Entry { location, blocks: 9, heat: 0, metadata: false, bad: false };
        let each =
            |index: &Index| (index.charged_bytes() - FIXED_BYTES) as f64 / index.len() as f64;
        index.reserve(100_000);
        let hashes: Vec<u64> = (0..2_000).map(|_| random.draw()).collect();
        hashes.iter().for_each(|hash| index.insert(*hash, entry).expect("it is new"));
        assert!(each(&index) > 500.0, "room for all that may come: {}", each(&index));
        index.fit();
        assert!(each(&index) <= 16.0, "{} bytes each", each(&index));
        let (go, stay) = hashes.split_at(1_900);
        go.iter().for_each(|hash| assert!(index.remove(*hash, location)));
        assert!(index.charged_bytes() <= FIXED_BYTES + 24 * index.len(), "{}", each(&index));
        index.validate();
        assert!(stay.iter().all(|hash| index.get(*hash) == Some(entry)));
    }

    #[test]
    fn an_entry_takes_at_most_sixteen_bytes_at_any_count() {
        let index = Index::new();
        let mut random = storage::Random::new(7);
        let location = Location { ring: 0, segment: 1, unit: 2 };
        let entry = Entry { location, blocks: 9, heat: 0, metadata: false, bad: false };
        let mut count = 0_u64;
        for _ in 0..2_000_000 {
            count += u64::from(index.insert(random.draw(), entry).is_ok());
            if count > 500_000 && count.is_multiple_of(10_007) {
                let each = index.charged_bytes() as f64 / count as f64;
                assert!(each <= 16.0, "{each} bytes each of {count}");
            }
        }
        assert_eq!(index.len(), count);
        index.validate();
    }
}
