use crate::trace::Trace;

/// Slots of a block.
const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;
/// No slot, and no object.
const NONE: u32 = u32::MAX;

/// How many other objects were asked for between two requests for the same one: from these, the
/// misses of LRU at every size at once.
///
/// Each object stands in the slot of its last request, slots being in the order of time; the
/// distance of a request is the number of slots taken after that of its object. Slots are bits,
/// counted in blocks, and a Fenwick tree sums up the blocks. When the slots have run out, those
/// that are taken move together.
///
/// R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, "Evaluation techniques for storage
/// hierarchies", IBM Systems Journal 9(2), 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackDistances {
    /// Requests by their distance.
    counts: Vec<u64>,
    requests: u64,
}

impl StackDistances {
    /// The distances of all requests of a trace, in objects, whatever their sizes.
    pub fn of(trace: &Trace) -> StackDistances {
        let mut stack = Stack::new(trace.distinct() as usize);
        let mut counts = vec![0; trace.distinct() as usize];
        for &id in trace.ids() {
            if let Some(distance) = stack.access(id) {
                counts[distance] += 1;
            }
        }
        StackDistances { counts, requests: trace.requests() }
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The misses of LRU with room for so many objects, for each size from 0 to all objects.
    pub fn misses(&self) -> Vec<u64> {
        let mut misses = self.requests;
        let mut all = Vec::with_capacity(self.counts.len() + 1);
        all.push(misses);
        for hits in &self.counts {
            misses -= hits;
            all.push(misses);
        }
        all
    }
}

/// Objects in the order of their last requests.
#[derive(Debug)]
struct Stack {
    /// The slot of each object.
    slots: Vec<u32>,
    /// The object in each slot.
    objects: Vec<u32>,
    taken: Vec<u64>,
    /// A Fenwick tree over the counts of taken slots of the blocks.
    sums: Vec<u32>,
    /// The slot that is taken next.
    next: usize,
    known: usize,
}

impl Stack {
    fn new(objects: usize) -> Stack {
        let slots = (2 * objects).next_multiple_of(BLOCK).max(2 * BLOCK);
        Stack {
            slots: vec![NONE; objects],
            objects: vec![NONE; slots],
            taken: vec![0; slots / 64],
            sums: vec![0; slots / BLOCK],
            next: 0,
            known: 0,
        }
    }

    /// The object comes to the top; from where, if it was there.
    #[inline]
    fn access(&mut self, id: u32) -> Option<usize> {
        if self.next == self.objects.len() {
            self.compact();
        }
        let (slot, top) = (self.slots[id as usize], self.next);
        self.next += 1;
        self.slots[id as usize] = top as u32;
        self.objects[top] = id;
        if slot == NONE {
            self.known += 1;
            self.take(top);
            return None;
        }
        let slot = slot as usize;
        let distance = self.known - self.taken_up_to(slot);
        self.taken[slot / 64] &= !(1 << (slot % 64));
        // Within a block the sums stay as they are.
        if slot / BLOCK == top / BLOCK {
            self.taken[top / 64] |= 1 << (top % 64);
        } else {
            self.add(slot / BLOCK, u32::MAX);
            self.take(top);
        }
        Some(distance)
    }

    fn take(&mut self, slot: usize) {
        self.taken[slot / 64] |= 1 << (slot % 64);
        self.add(slot / BLOCK, 1);
    }

    /// Adds to a block's count, modulo 2^32.
    #[inline]
    fn add(&mut self, block: usize, count: u32) {
        let mut node = block;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = sum.wrapping_add(count);
            node |= node + 1;
        }
    }

    /// How many slots are taken up to this one, which is taken.
    #[inline]
    fn taken_up_to(&self, slot: usize) -> usize {
        let mut count = 0u32;
        let mut blocks = slot / BLOCK;
        while blocks > 0 {
            count = count.wrapping_add(self.sums[blocks - 1]);
            blocks &= blocks - 1;
        }
        let first = slot / BLOCK * WORDS;
        for word in &self.taken[first..slot / 64] {
            count += word.count_ones();
        }
        let upto = u64::MAX >> (63 - slot % 64);
        (count + (self.taken[slot / 64] & upto).count_ones()) as usize
    }

    /// Moves the taken slots together, to the beginning.
    fn compact(&mut self) {
        let mut free = 0;
        for slot in 0..self.next {
            if self.taken[slot / 64] >> (slot % 64) & 1 == 1 {
                let id = self.objects[slot];
                self.objects[free] = id;
                self.slots[id as usize] = free as u32;
                free += 1;
            }
        }
        self.next = free;
        for (index, word) in self.taken.iter_mut().enumerate() {
            *word = match free.saturating_sub(index * 64) {
                0 => 0,
                taken if taken >= 64 => u64::MAX,
                taken => (1 << taken) - 1,
            };
        }
        self.sums.fill(0);
        for block in 0..free.div_ceil(BLOCK) {
            self.add(block, (free - block * BLOCK).min(BLOCK) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Form, PolicyName, Replay, Size, replay};

    #[test]
    fn a_loop_fits_whole_or_not_at_all() {
        let trace = Trace::from_blocks("loop", (0..700).cycle().take(70_000), 512);
        let misses = StackDistances::of(&trace).misses();
        assert_eq!(misses.len(), 701);
        assert!(misses[..700].iter().all(|&misses| misses == 70_000));
        assert_eq!(misses[700], 700);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_size_misses_as_often_as_lru(
            blocks in proptest::collection::vec(0..900u64, 1..6000),
            sizes in proptest::collection::vec(1..900u64, 4),
        ) {
            let trace = Trace::from_blocks("random", blocks, 512);
            let misses = StackDistances::of(&trace).misses();
            let sizes = sizes.into_iter().map(|size| size.min(trace.distinct()));
            let sizes: Vec<u64> = sizes.collect();
            let plan = Replay {
                policies: vec![PolicyName::Lru],
                sizes: sizes.iter().map(|&size| Size::Blocks(size)).collect(),
                form: Form::Plain,
            };
            for (row, size) in replay(&trace, &plan, &|_| ()).iter().zip(sizes) {
                prop_assert_eq!(row.misses, misses[size as usize]);
            }
        }
    }
}
