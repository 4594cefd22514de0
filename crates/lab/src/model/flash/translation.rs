use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use storage::Random;

use super::blocks::Blocks;
use super::parameters::{Cleaning, FlashParameters, SPARE_BLOCKS_MIN};
use crate::model::Refusal;

/// No page.
const NONE: u32 = u32::MAX;

/// The flash translation layer of one channel: where each page is, and which block comes next.
///
/// A page is written to the block that is being filled, and its former place is dead. When no
/// block but one is left erased, blocks are cleaned until another is. The least worn of the erased
/// blocks is filled next, and contents that have stayed in a little worn block while others wear
/// are moved, so that erasures spread over all blocks. A block that has withstood what it can is
/// bad, and the reserve shrinks by it.
#[derive(Debug)]
pub struct Translation {
    cleaning: Cleaning,
    pages_per_block: u32,
    wear_gap_max: u32,
    idle_erased_blocks: usize,
    /// Where each logical page is.
    places: Vec<u32>,
    /// Which logical page each place holds.
    holds: Vec<u32>,
    living: Vec<u32>,
    erasures: Vec<u32>,
    /// How many erasures each block withstands; none if it is bad from the factory on.
    endurance: Vec<u32>,
    endurance_min: u32,
    full: Blocks,
    /// The full blocks by wear.
    worn: BTreeSet<(u32, u32)>,
    erased: BinaryHeap<Reverse<(u32, u32)>>,
    /// The place that is written next, and the end of its block.
    next: u32,
    end: u32,
    bad: u32,
    /// Whether the last block was cleaned for the sake of wear.
    levelled: bool,
    erasures_max: u32,
    written_pages: u64,
    moved_pages: u64,
}

/// What a write cost besides programming its page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Pages that were read and programmed elsewhere.
    pub moved_pages: u32,
    /// Blocks that were erased.
    pub erased_blocks: u32,
}

impl Translation {
    /// A channel whose blocks are erased, but for those that are bad from the factory on.
    pub(super) fn new(parameters: &FlashParameters, seed: u64) -> Translation {
        let blocks = parameters.channel_blocks();
        let pages_per_block = parameters.pages_per_block.get();
        let mut random = Random::new(seed);
        let spread = parameters.endurance_spread_percent.map_or(0.0, |spread| spread.get() / 100.0);
        let cycles = f64::from(parameters.endurance_cycles.get());
        let mut withstands = || {
            let unit = random.draw() as f64 / u64::MAX as f64;
            (cycles * (1.0 + spread * (2.0 * unit - 1.0))).max(1.0) as u32
        };
        let mut endurance: Vec<u32> = (0..blocks).map(|_| withstands()).collect();
        let mut order: Vec<u32> = (0..blocks).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let bad = parameters.factory_bad_blocks();
        let endurance_min = endurance.iter().copied().min().unwrap_or(0);
        for &block in &order[..bad as usize] {
            endurance[block as usize] = 0;
        }
        let lists = match parameters.cleaning {
            Cleaning::Greedy => pages_per_block + 1,
            Cleaning::Fifo => 1,
        };
        Translation {
            cleaning: parameters.cleaning,
            pages_per_block,
            wear_gap_max: parameters.wear_gap_max.get(),
            idle_erased_blocks: parameters.idle_erased_blocks() as usize,
            places: vec![NONE; parameters.channel_pages() as usize],
            holds: vec![NONE; blocks as usize * pages_per_block as usize],
            living: vec![0; blocks as usize],
            erasures: vec![0; blocks as usize],
            endurance_min,
            endurance,
            full: Blocks::new(blocks, lists),
            worn: BTreeSet::new(),
            erased: order[bad as usize..].iter().map(|&block| Reverse((0, block))).collect(),
            next: 0,
            end: 0,
            bad,
            levelled: false,
            erasures_max: 0,
            written_pages: 0,
            moved_pages: 0,
        }
    }

    /// Whether a page has contents.
    pub fn is_written(&self, page: u32) -> bool {
        self.places[page as usize] != NONE
    }

    /// Pages that were written.
    pub fn written_pages(&self) -> u64 {
        self.written_pages
    }

    /// Pages that were moved to make room.
    pub fn moved_pages(&self) -> u64 {
        self.moved_pages
    }

    /// Blocks that can be filled without erasing.
    pub fn erased_blocks(&self) -> usize {
        self.erased.len()
    }

    /// Blocks that are out of use.
    pub fn bad_blocks(&self) -> u32 {
        self.bad
    }

    /// Erasures of each block that was good when the device was new.
    pub fn erasures(&self) -> impl Iterator<Item = u32> + Clone {
        let blocks = self.erasures.iter().zip(&self.endurance);
        blocks.filter(|&(_, &withstood)| withstood > 0).map(|(&erasures, _)| erasures)
    }

    pub(super) fn forget_counts(&mut self) {
        (self.written_pages, self.moved_pages) = (0, 0);
    }

    /// Writes a page.
    ///
    /// # Errors
    /// When so many blocks are bad that the rest cannot be cleaned any more.
    pub fn write(&mut self, page: u32) -> Result<Work, Refusal> {
        let mut work = Work::default();
        while self.needs_cleaning() {
            self.check_wear()?;
            if !self.clean(&mut work) {
                return Err(self.worn_out());
            }
        }
        self.discard(page);
        if !self.put(page) {
            return Err(self.worn_out());
        }
        self.written_pages += 1;
        Ok(work)
    }

    /// # Errors
    /// When so many blocks are bad that the rest cannot be cleaned any more.
    pub fn check_wear(&self) -> Result<(), Refusal> {
        if self.is_worn_out() { Err(self.worn_out()) } else { Ok(()) }
    }

    /// Frees the place of a page.
    pub fn discard(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.places[page as usize], NONE);
        if place == NONE {
            return;
        }
        self.holds[place as usize] = NONE;
        let block = place / self.pages_per_block;
        self.living[block as usize] -= 1;
        if self.cleaning == Cleaning::Greedy && self.full.holds(block) {
            self.full.remove(block);
            self.full.push(self.living[block as usize], block);
        }
    }

    /// Cleans one block in idle time, if fewer blocks than wanted are erased and it gains room.
    pub fn clean_idle(&mut self) -> Option<Work> {
        if self.erased.len() >= self.idle_erased_blocks || self.is_worn_out() {
            return None;
        }
        let block = self.full.first()?;
        if self.living[block as usize] == self.pages_per_block || self.erased.is_empty() {
            return None;
        }
        let mut work = Work::default();
        self.clean(&mut work).then_some(work)
    }

    /// Whether no block but those that cleaning needs itself is left: one, and more as soon as
    /// blocks may turn out bad on the way.
    fn needs_cleaning(&self) -> bool {
        let bad_ones_come = self.erasures_max + 1 >= self.endurance_min;
        let kept = if bad_ones_come { SPARE_BLOCKS_MIN as usize } else { 1 };
        self.erased.len() < kept + usize::from(self.next == self.end)
            && (bad_ones_come || self.next == self.end)
    }

    /// Moves what lives in one block, and erases it. `false` if there is no room to move it to.
    fn clean(&mut self, work: &mut Work) -> bool {
        let Some(block) = self.victim() else { return false };
        if self.living[block as usize] > self.room() {
            return false;
        }
        self.full.remove(block);
        self.worn.remove(&(self.erasures[block as usize], block));
        let first = block * self.pages_per_block;
        for place in first..first + self.pages_per_block {
            let page = self.holds[place as usize];
            if page != NONE {
                self.holds[place as usize] = NONE;
                assert!(self.put(page), "there is room, it has been counted");
                self.moved_pages += 1;
                work.moved_pages += 1;
            }
        }
        self.living[block as usize] = 0;
        work.erased_blocks += 1;
        let erasures = &mut self.erasures[block as usize];
        *erasures += 1;
        self.erasures_max = self.erasures_max.max(*erasures);
        match *erasures >= self.endurance[block as usize] {
            true => self.bad += 1,
            false => self.erased.push(Reverse((*erasures, block))),
        }
        true
    }

    /// The block to be cleaned: the least worn one where wear has come apart, or else as the
    /// parameters say. Every other time at most, since the least worn one may be full of life and
    /// then gains nothing.
    fn victim(&mut self) -> Option<u32> {
        self.levelled = !self.levelled;
        if self.levelled
            && let Some(&(erasures, block)) = self.worn.first()
            && self.erasures_max - erasures > self.wear_gap_max
            && self.living[block as usize] <= self.room()
        {
            return Some(block);
        }
        self.levelled = false;
        self.full.first()
    }

    /// How many pages can be written before a block must be erased.
    fn room(&self) -> u32 {
        self.end - self.next + self.erased.len() as u32 * self.pages_per_block
    }

    /// Puts a page to the place that is written next; `false` if there is none.
    fn put(&mut self, page: u32) -> bool {
        if self.next == self.end {
            let Some(Reverse((_, block))) = self.erased.pop() else { return false };
            self.next = block * self.pages_per_block;
            self.end = self.next + self.pages_per_block;
        }
        let (place, block) = (self.next, self.next / self.pages_per_block);
        self.next += 1;
        self.places[page as usize] = place;
        self.holds[place as usize] = page;
        self.living[block as usize] += 1;
        if self.next == self.end {
            let list = match self.cleaning {
                Cleaning::Greedy => self.living[block as usize],
                Cleaning::Fifo => 0,
            };
            self.full.push(list, block);
            self.worn.insert((self.erasures[block as usize], block));
        }
        true
    }

    /// Whether what is left cannot be cleaned.
    fn is_worn_out(&self) -> bool {
        let filled = (self.places.len() as u32).div_ceil(self.pages_per_block);
        self.living.len() as u32 - self.bad < filled + SPARE_BLOCKS_MIN
    }

    fn worn_out(&self) -> Refusal {
        Refusal::WornOut { bad: self.bad, blocks: self.living.len() as u32 }
    }

    /// Recounts everything.
    ///
    /// # Errors
    /// What is wrong, when sums and lists disagree.
    pub fn validate(&self) -> Result<(), String> {
        for (page, &place) in self.places.iter().enumerate() {
            if place != NONE && self.holds[place as usize] != page as u32 {
                return Err(format!("page {page} is not where it is looked for"));
            }
        }
        let mut living = vec![0u32; self.living.len()];
        for (place, &page) in self.holds.iter().enumerate() {
            if page != NONE {
                living[place / self.pages_per_block as usize] += 1;
                if self.places[page as usize] != place as u32 {
                    return Err(format!("place {place} holds a page that is elsewhere"));
                }
            }
        }
        if living != self.living {
            return Err("the counts of living pages are wrong".to_string());
        }
        let lists = match self.cleaning {
            Cleaning::Greedy => 0..self.pages_per_block + 1,
            Cleaning::Fifo => 0..1,
        };
        let mut full = 0;
        for list in lists {
            for block in self.full.iter(list) {
                let stands = self.cleaning == Cleaning::Fifo || living[block as usize] == list;
                if !stands || !self.worn.contains(&(self.erasures[block as usize], block)) {
                    return Err(format!("block {block} stands on a wrong list"));
                }
                full += 1;
            }
        }
        let open = usize::from(self.next < self.end);
        let known = full + self.erased.len() + self.bad as usize + open;
        match known == self.living.len() && full == self.worn.len() {
            true => Ok(()),
            false => Err(format!("{known} of {} blocks are known", self.living.len())),
        }
    }
}
