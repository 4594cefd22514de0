use xxhash_rust::xxh3::xxh3_64;

/// Rows: an object's frequency is the least of so many counters.
const ROWS: usize = 4;

/// Counters in a word, 4 bits each.
const COUNTERS: usize = 16;

/// The greatest value of a counter.
const COUNTER_MAX: u64 = 15;

/// The lowest bit of each counter in a word.
const ONES: u64 = 0x1111_1111_1111_1111;

/// Uses after which all counters are halved, for each object that the cache may hold.
const SAMPLE_FACTOR: usize = 10;

/// How often objects were used of late, within a few bits each: a count-min sketch that ages.
///
/// G. Cormode, S. Muthukrishnan, "An Improved Data Stream Summary: The Count-Min Sketch and its
/// Applications", 2005; the aging is of TinyLFU.
#[derive(Debug)]
pub(super) struct Sketch {
    words: Vec<u64>,
    uses: usize,
    uses_max: usize,
}

impl Sketch {
    /// A sketch for a cache of so many objects.
    pub fn new(objects: usize) -> Sketch {
        let objects = objects.max(1);
        let words = vec![0; objects.next_power_of_two()];
        Sketch { words, uses: 0, uses_max: objects.saturating_mul(SAMPLE_FACTOR) }
    }

    /// How often an object was used of late, at most 15.
    pub fn frequency(&self, id: u32) -> u64 {
        let hash = xxh3_64(&id.to_le_bytes());
        let count = |row| {
            let (word, shift) = self.place(hash, row);
            self.words[word] >> shift & COUNTER_MAX
        };
        (0..ROWS).map(count).min().unwrap_or(0)
    }

    /// Counts a use. From time to time all that was counted is halved, so that old fame fades.
    pub fn count(&mut self, id: u32) {
        let hash = xxh3_64(&id.to_le_bytes());
        let mut counted = false;
        for row in 0..ROWS {
            let (word, shift) = self.place(hash, row);
            if self.words[word] >> shift & COUNTER_MAX < COUNTER_MAX {
                self.words[word] += 1 << shift;
                counted = true;
            }
        }
        self.uses += usize::from(counted);
        if self.uses >= self.uses_max {
            self.words.iter_mut().for_each(|word| *word = *word >> 1 & (ONES * (COUNTER_MAX >> 1)));
            self.uses /= 2;
        }
    }

    /// Where the counter of a row is. Rows have counters of their own within the words.
    fn place(&self, hash: u64, row: usize) -> (usize, u32) {
        let mixed = hash.rotate_left(16 * row as u32);
        let word = mixed as usize & (self.words.len() - 1);
        let within = (hash >> (60 - 2 * row)) as usize % (COUNTERS / ROWS);
        (word, (4 * (row * (COUNTERS / ROWS) + within)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_up_to_fifteen_and_halves() {
        let mut sketch = Sketch::new(1000);
        (0..7).for_each(|_| sketch.count(1));
        (0..40).for_each(|_| sketch.count(2));
        assert_eq!((sketch.frequency(1), sketch.frequency(2), sketch.frequency(3)), (7, 15, 0));
        sketch.uses = sketch.uses_max - 1;
        sketch.count(4);
        assert_eq!((sketch.frequency(1), sketch.frequency(2), sketch.frequency(4)), (3, 7, 0));
        assert_eq!(sketch.uses, sketch.uses_max / 2);
    }

    #[test]
    fn a_sketch_of_one_object_works() {
        let mut sketch = Sketch::new(0);
        (0..100).for_each(|id| sketch.count(id));
        assert!(sketch.frequency(0) <= COUNTER_MAX);
    }
}
