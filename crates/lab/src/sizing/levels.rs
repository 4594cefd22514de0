use std::collections::VecDeque;

use crate::policy::Evicting;

/// The object is on the device.
const THERE: u8 = 1;
/// It was hit there.
const HOT: u8 = 2;
/// It was offered before.
const OFFERED: u8 = 4;

/// Of what passes under the hand, one byte in so many is written anew at most, as in the engine.
const SECOND_LIFE_SHARE: u64 = 2;

/// A cache device as the engine fills it: round and round, with what RAM evicts.
///
/// What is evicted after a single touch comes in only while there is empty space, or when it was
/// offered before; what was hit is written anew when the hand comes to it.
#[derive(Debug)]
pub(super) struct Ring {
    capacity: u64,
    used: u64,
    order: VecDeque<u32>,
    marks: Vec<u8>,
    is_filled: bool,
    passed: u64,
    renewed: u64,
    /// Hits.
    pub hits: u64,
    /// Bytes written.
    pub written: u64,
}

impl Ring {
    fn new(capacity: u64, objects: usize) -> Ring {
        Ring {
            capacity,
            used: 0,
            order: VecDeque::new(),
            marks: vec![0; objects],
            is_filled: capacity == 0,
            passed: 0,
            renewed: 0,
            hits: 0,
            written: 0,
        }
    }

    fn get(&mut self, id: u32) {
        let marks = &mut self.marks[id as usize];
        if *marks & THERE != 0 {
            *marks |= HOT;
            self.hits += 1;
        }
    }

    fn offer(&mut self, id: u32, bytes: u64, touched_again: bool) {
        let marks = &mut self.marks[id as usize];
        if *marks & THERE != 0 || bytes > self.capacity {
            return;
        }
        if self.is_filled && !touched_again && *marks & OFFERED == 0 {
            *marks |= OFFERED;
            return;
        }
        *marks |= THERE;
        self.used += bytes;
        self.order.push_back(id);
        self.written += bytes;
    }

    /// Moves the hand on until what is there fits.
    fn make_room(&mut self, bytes_of: impl Fn(u32) -> u64) {
        while self.used > self.capacity {
            let id = self.order.pop_front().expect("something takes the space");
            let (bytes, marks) = (bytes_of(id), &mut self.marks[id as usize]);
            self.is_filled = true;
            self.passed += bytes;
            if *marks & HOT != 0 && (self.renewed + bytes) * SECOND_LIFE_SHARE <= self.passed {
                *marks &= !HOT;
                self.renewed += bytes;
                self.written += bytes;
                self.order.push_back(id);
            } else {
                *marks &= !(THERE | HOT);
                self.used -= bytes;
            }
        }
    }

    /// Recounts everything.
    #[cfg(test)]
    fn validate(&self, bytes_of: impl Fn(u32) -> u64) -> Result<(), String> {
        let used: u64 = self.order.iter().map(|&id| bytes_of(id)).sum();
        let there = self.marks.iter().filter(|&&marks| marks & THERE != 0).count();
        if used != self.used || used > self.capacity || there != self.order.len() {
            return Err(format!("{there} objects of {used} bytes, counted as {}", self.used));
        }
        Ok(())
    }
}

/// RAM with a policy, and beside it cache devices of several sizes, each for itself: what RAM does
/// does not depend on them, so it is worked out once for all.
pub(super) struct Levels<'a> {
    ram: Box<dyn Evicting + 'a>,
    bytes_of: &'a dyn Fn(u32) -> u64,
    /// Those that were hit since they came to RAM.
    touched: Vec<bool>,
    evicted: Vec<u32>,
    /// The devices.
    pub rings: Vec<Ring>,
    /// Hits in RAM.
    pub ram_hits: u64,
}

impl<'a> Levels<'a> {
    /// Empty ones. `bytes_of` tells what an object takes on a device.
    pub fn new(
        ram: Box<dyn Evicting + 'a>,
        flash_bytes: &[u64],
        objects: usize,
        bytes_of: &'a dyn Fn(u32) -> u64,
    ) -> Levels<'a> {
        let rings = flash_bytes.iter().map(|&bytes| Ring::new(bytes, objects)).collect();
        let touched = vec![false; objects];
        Levels { ram, bytes_of, touched, evicted: Vec::new(), rings, ram_hits: 0 }
    }

    /// Makes a request.
    pub fn access(&mut self, id: u32) {
        if self.ram.access_telling(id, &mut self.evicted) {
            self.ram_hits += 1;
            self.touched[id as usize] = true;
            return;
        }
        self.rings.iter_mut().for_each(|ring| ring.get(id));
        self.touched[id as usize] = false;
        while let Some(id) = self.evicted.pop() {
            let (bytes, touched) = ((self.bytes_of)(id), self.touched[id as usize]);
            for ring in &mut self.rings {
                ring.offer(id, bytes, touched);
                ring.make_room(self.bytes_of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Lru, Objects};

    fn levels<'a>(bytes_of: &'a dyn Fn(u32) -> u64, ram: u64, flash: &[u64]) -> Levels<'a> {
        let objects = Objects::uniform(1000);
        Levels::new(Box::new(Lru::new(ram, &objects)), flash, 1000, bytes_of)
    }

    #[test]
    fn a_loop_that_fits_misses_once_and_one_that_does_not_gains_next_to_nothing() {
        let bytes_of = |_| 1;
        let mut levels = levels(&bytes_of, 10, &[0, 30, 100]);
        for id in (0..100).cycle().take(10_000) {
            levels.access(id);
        }
        assert_eq!(levels.ram_hits, 0, "LRU keeps nothing of a loop");
        assert_eq!((levels.rings[0].hits, levels.rings[0].written), (0, 0));
        assert_eq!((levels.rings[2].hits, levels.rings[2].written), (9_900, 100));
        // What was there first is hit once; then all come again, and each pushes another one out.
        let few = levels.rings[1].hits;
        assert!((30..1_000).contains(&few), "{few}");
        for ring in &levels.rings {
            assert_eq!(ring.validate(bytes_of), Ok(()));
        }
    }

    #[test]
    fn a_scan_leaves_what_is_on_a_filled_device() {
        let bytes_of = |id: u32| 1 + u64::from(id % 3);
        let mut levels = levels(&bytes_of, 5, &[100]);
        for id in (0..60).cycle().take(600) {
            levels.access(id);
        }
        let written = levels.rings[0].written;
        for id in 100..1000 {
            levels.access(id);
        }
        let more = levels.rings[0].written - written;
        assert!(more < 50, "a scan wrote {more} of 1800");
        assert_eq!(levels.rings[0].validate(bytes_of), Ok(()));
    }
}
