//! [`Sample`]: the records that are sampled, in the order of their last accesses.

use hashbrown::HashTable;

use super::fenwick::Fenwick;
use super::histogram::Histogram;
use super::snapshot::CurveSnapshot;
use super::{CURVE_BYTES_MAX, Load};

/// Sampled records at most.
pub(crate) const RECORDS_MAX: usize = 16_384;
/// Sampled records for which there is memory at first.
const RECORDS_FIRST: usize = 1_024;
/// Sampled accesses of a period. At its end everything so far begins to count half.
pub(crate) const PERIOD_SAMPLES: u64 = 65_536;
/// Records that were not accessed for so many periods are forgotten.
const PERIODS_REMEMBERED: usize = 4;
/// Below this threshold (one record of 16) sampling costs next to nothing. Down to it the rate is
/// lowered although there would be room, while enough records are left.
const EASY_THRESHOLD: u64 = u64::MAX >> 4;
/// Records that are enough while the rate is above the easy one.
const RECORDS_ENOUGH: usize = 128;

/// Sampled records in the order of their last accesses, an LRU stack of the sample.
///
/// # How it works
///
/// SHARDS (Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC Construction with SHARDS",
/// FAST'15): a record is sampled if the hash of its key lies below a threshold, so all accesses to
/// it are seen, or none. The sampled accesses are a small model of the whole, in which all stack
/// distances are as much smaller as the sampling rate says.
///
/// Each access takes the next slot of a row, and its record leaves the slot that it had. The bytes
/// in the slots in between are the stack distance, a sum that a Fenwick tree tells. When the row
/// is used up, its gaps are closed. A record's own bytes are known exactly; only what lies in
/// between is scaled up.
///
/// The sample is of fixed size: when it is full the threshold falls by an eighth, and records
/// above it are forgotten. Old load does not hold the threshold down for ever: at the end of a
/// period, records that nobody has accessed for some periods go, and if few are left the threshold
/// rises. A record that comes into the sample by that may have been accessed before; so it lies in
/// the row for one period without weight and is not counted, until `settled` has followed the
/// threshold.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The record of each slot.
    hashes: Vec<u64>,
    /// Its bytes; 0 in a slot that its record has left.
    sizes: Vec<u32>,
    /// The bytes again, where they count.
    weights: Fenwick,
    /// The slot of each record, by its hash.
    slots: HashTable<u32>,
    /// The next slot.
    next: usize,
    /// Records for which there is memory.
    records_max: usize,
    /// Records with lower hashes are sampled.
    threshold: u64,
    /// Records with lower hashes count.
    settled: u64,
    histogram: Histogram,
    /// Sampled accesses in this period.
    period_samples: u64,
    /// The next slot as it was at the end of each of the last periods, oldest first.
    periods: [usize; PERIODS_REMEMBERED],
    /// What of all accesses up to the last period's end still counts.
    past: Present,
    /// The counters at that time.
    mark: Load,
}

/// Accesses of which older ones count in part, and what they were.
#[derive(Debug, Clone, Copy, Default)]
struct Present {
    accesses: f64,
    hits: f64,
    ahead: f64,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample {
            hashes: Vec::new(),
            sizes: Vec::new(),
            weights: Fenwick::default(),
            slots: HashTable::new(),
            next: 0,
            records_max: 0,
            threshold: u64::MAX,
            settled: u64::MAX,
            histogram: Histogram::default(),
            period_samples: 0,
            periods: [0; PERIODS_REMEMBERED],
            past: Present::default(),
            mark: Load::default(),
        }
    }
}

impl Sample {
    /// Records with hashes below are sampled.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Counts an access. Returns the bytes of memory that were taken for it.
    pub fn access(&mut self, hash: u64, bytes: u64, load: impl Fn() -> Load) -> usize {
        let grown = self.make_room(hash, &load);
        // Room may have been made by forgetting this very record, or there may be none at all.
        if hash >= self.threshold || self.records_max == 0 {
            return grown;
        }
        let rate = rate_of(self.settled);
        let counts = hash < self.settled;
        let size = bytes.clamp(1, u64::from(u32::MAX)) as u32;
        let hashes = &self.hashes;
        let entry = self.slots.entry(
            mixed(hash),
            |slot| hashes[*slot as usize] == hash,
            |slot| mixed(hashes[*slot as usize]),
        );
        let distance = match entry {
            hashbrown::hash_table::Entry::Occupied(mut entry) => {
                let slot = std::mem::replace(entry.get_mut(), self.next as u32) as usize;
                let between = self.weights.sum_after(slot) as f64 / rate;
                if counts {
                    self.weights.subtract(slot, u64::from(self.sizes[slot]));
                }
                self.sizes[slot] = 0;
                Some(u64::from(size).saturating_add(between.round() as u64))
            }
            hashbrown::hash_table::Entry::Vacant(entry) => {
                entry.insert(self.next as u32);
                None
            }
        };
        self.hashes[self.next] = hash;
        self.sizes[self.next] = size;
        if counts {
            self.weights.add(self.next, u64::from(size));
            self.histogram.add(hash, distance, 1.0 / rate);
        }
        self.next += 1;
        self.period_samples += 1;
        if self.period_samples == PERIOD_SAMPLES {
            self.end_period(&load());
        }
        grown
    }

    /// The curve of what still counts.
    pub fn snapshot(&self, load: &Load) -> CurveSnapshot {
        if self.records_max == 0 {
            return CurveSnapshot::default();
        }
        let Present { accesses, hits, ahead } = self.present(load);
        let share = |part: f64| if accesses > 0.0 { part / accesses } else { 0.0 };
        let sizes: u64 = self.sizes.iter().copied().map(u64::from).sum();
        let snapshot = CurveSnapshot {
            accesses,
            measured_hit_rate: share(hits),
            ahead_rate: share(ahead),
            samples: self.histogram.samples() as u64,
            records: self.slots.len() as u64,
            rate: rate_of(self.settled),
            points: Vec::new(),
        };
        snapshot.with_points(&self.histogram, sizes as f64 / self.slots.len().max(1) as f64)
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
            + self.sizes.capacity() * size_of::<u32>()
            + self.weights.bytes()
            + self.slots.allocation_size()
            + self.histogram.bytes()
    }

    /// What of all accesses still counts.
    fn present(&self, load: &Load) -> Present {
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        Present {
            accesses: self.past.accesses + since(load.accesses, self.mark.accesses),
            hits: self.past.hits + since(load.hits, self.mark.hits),
            ahead: self.past.ahead + since(load.ahead, self.mark.ahead),
        }
    }

    /// Sees to it that there is a slot, and that one more record fits if this one is new.
    fn make_room(&mut self, hash: u64, load: impl Fn() -> Load) -> usize {
        let mut grown = 0;
        let is_full = self.slots.len() == self.records_max;
        let is_known = || {
            let is_same = |slot: &u32| self.hashes[*slot as usize] == hash;
            self.slots.find(mixed(hash), is_same).is_some()
        };
        if is_full && !is_known() {
            let load = &load();
            // What lies too deep to matter goes first.
            if self.records_max > 0 {
                self.close_gaps(0, load.horizon_bytes);
            }
            if self.slots.len() + self.records_max / 16 >= self.records_max {
                grown = self.grow(load);
            }
            while grown == 0 && self.slots.len() + self.records_max / 16 > self.records_max {
                self.lower(self.threshold - self.threshold / 8, load);
            }
        }
        if self.next == self.hashes.len() && self.records_max > 0 {
            self.close_gaps(0, load().horizon_bytes);
        }
        grown
    }

    /// Takes memory for twice as many records, if it may. Returns how many bytes more.
    fn grow(&mut self, load: &Load) -> usize {
        if !load.may_grow || self.records_max == RECORDS_MAX {
            return 0;
        }
        let before = self.bytes();
        if self.records_max == 0 {
            self.histogram = Histogram::new();
            // This access is the first that is seen.
            self.mark = Load {
                accesses: load.accesses.saturating_sub(1),
                hits: load.hits,
                ahead: load.ahead,
                ..Load::default()
            };
        }
        self.records_max = (self.records_max * 2).max(RECORDS_FIRST);
        let slots = 2 * self.records_max;
        self.hashes.reserve_exact(slots - self.hashes.len());
        self.hashes.resize(slots, 0);
        self.sizes.reserve_exact(slots - self.sizes.len());
        self.sizes.resize(slots, 0);
        let hashes = &self.hashes;
        self.slots
            .reserve(self.records_max - self.slots.len(), |slot| mixed(hashes[*slot as usize]));
        self.close_gaps(0, load.horizon_bytes);
        self.bytes() - before
    }

    /// Lowers the threshold and forgets what is no longer sampled.
    fn lower(&mut self, threshold: u64, load: &Load) {
        self.threshold = threshold;
        self.settled = self.settled.min(threshold);
        self.close_gaps(0, load.horizon_bytes);
    }

    /// Lets what is old count less, and fits the rate to the records that are in use.
    fn end_period(&mut self, load: &Load) {
        let Present { accesses, hits, ahead } = self.present(load);
        self.past = Present { accesses: accesses / 2.0, hits: hits / 2.0, ahead: ahead / 2.0 };
        self.mark = *load;
        self.histogram.halve();
        self.period_samples = 0;
        self.settled = self.threshold;
        self.close_gaps(self.periods[0], load.horizon_bytes);
        self.periods.rotate_left(1);
        self.periods[PERIODS_REMEMBERED - 1] = self.next;
        let records = self.slots.len();
        if self.threshold > EASY_THRESHOLD && records > 2 * RECORDS_ENOUGH {
            self.lower((self.threshold / 2).max(EASY_THRESHOLD), load);
        } else if self.threshold < EASY_THRESHOLD && records < self.records_max / 4 {
            let factor = (self.records_max / 2 / records.max(1)).clamp(2, 8) as u64;
            self.threshold = self.threshold.max(1).saturating_mul(factor).min(EASY_THRESHOLD);
        } else if records < RECORDS_ENOUGH / 2 {
            self.threshold = self.threshold.saturating_mul(2);
        }
    }

    /// Moves all records down to the start of the row, in order. Forgets those in slots before
    /// `first`, those at or above the threshold, and those that lie deeper than the horizon.
    fn close_gaps(&mut self, first: usize, horizon_bytes: u64) {
        let first = first.max(self.horizon(horizon_bytes));
        let keeps = |slot: usize| {
            slot >= first && self.sizes[slot] > 0 && self.hashes[slot] < self.threshold
        };
        let periods = self.periods.map(|end| (0..end).filter(|slot| keeps(*slot)).count());
        let mut kept = 0;
        for slot in 0..self.next {
            if slot >= first && self.sizes[slot] > 0 && self.hashes[slot] < self.threshold {
                self.hashes[kept] = self.hashes[slot];
                self.sizes[kept] = self.sizes[slot];
                kept += 1;
            }
        }
        self.hashes[kept..].fill(0);
        self.sizes[kept..].fill(0);
        (self.next, self.periods) = (kept, periods);
        let settled = self.settled;
        self.weights.rebuild(
            self.hashes
                .iter()
                .zip(&self.sizes)
                .map(|(hash, size)| if *hash < settled { u64::from(*size) } else { 0 }),
        );
        self.slots.clear();
        let hashes = &self.hashes;
        for slot in 0..kept {
            self.slots.insert_unique(mixed(hashes[slot]), slot as u32, |slot| {
                mixed(hashes[*slot as usize])
            });
        }
    }

    /// The first slot that lies within the horizon.
    fn horizon(&self, bytes: u64) -> usize {
        let most = (bytes as f64 * rate_of(self.settled)).ceil() as u64;
        let mut sum = 0_u64;
        for slot in (0..self.next).rev() {
            if self.hashes[slot] < self.settled {
                sum += u64::from(self.sizes[slot]);
            }
            if sum > most {
                return slot + 1;
            }
        }
        0
    }

    /// Recounts everything. Panics if anything is wrong.
    pub fn validate(&self) {
        assert!(self.settled <= self.threshold, "more counts than is sampled");
        assert!(self.records_max <= RECORDS_MAX && self.slots.len() <= self.records_max);
        assert_eq!(self.hashes.len(), 2 * self.records_max);
        assert_eq!(self.sizes.len(), self.hashes.len());
        assert!(self.next <= self.hashes.len() && self.period_samples < PERIOD_SAMPLES);
        assert!(self.periods.is_sorted() && self.periods[PERIODS_REMEMBERED - 1] <= self.next);
        assert!(self.bytes() <= CURVE_BYTES_MAX, "{} bytes of memory", self.bytes());
        let used: Vec<usize> = (0..self.hashes.len()).filter(|at| self.sizes[*at] > 0).collect();
        assert!(used.last().is_none_or(|last| *last < self.next), "a record beyond the last");
        assert_eq!(used.len(), self.slots.len(), "records in the row and in the table");
        let mut weight = 0;
        for &slot in &used {
            let hash = self.hashes[slot];
            assert!(hash < self.threshold, "a record that is not sampled");
            let found = self.slots.find(mixed(hash), |slot| self.hashes[*slot as usize] == hash);
            assert_eq!(found.copied(), Some(slot as u32), "the table leads elsewhere");
            weight += if hash < self.settled { u64::from(self.sizes[slot]) } else { 0 };
            assert_eq!(self.weights.sum_after(slot) + weight, self.weights.total());
        }
        assert_eq!(weight, self.weights.total(), "the sum of the bytes");
        self.histogram.validate();
        assert!(self.past.accesses >= 0.0 && self.past.hits >= 0.0);
    }
}

/// The share of records with hashes below a threshold.
pub(crate) fn rate_of(threshold: u64) -> f64 {
    // A threshold of 0 samples nothing; the smallest rate keeps weights finite.
    (threshold.max(1) as f64 / u64::MAX as f64).min(1.0)
}

/// For the table, which wants the upper bits to differ: those of sampled hashes are mostly 0.
fn mixed(hash: u64) -> u64 {
    hash.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
