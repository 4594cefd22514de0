use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

use super::{Fetches, MemorySystem, divided, runs};
use crate::model::{Positive, Request};
use crate::policy::{Objects, Queues};

/// Bytes of a page, and of a block.
const PAGE_BYTES: u64 = 8192;
/// Streams are let go behind the reader only beyond so many bytes.
const SMALL_FILE_BYTES: u64 = 32 << 10;

/// Pages that segmap maps.
const SEGMAP: usize = 0;
/// Pages that are free and still have their contents.
const CACHELIST: usize = 1;

/// UFS as in Solaris 10.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UfsParameters {
    /// The memory of the machine. What applications take of it they [take](MemorySystem::leave).
    pub memory_bytes: NonZeroU64,
    /// Of it, what segmap maps: 12 by default.
    pub segmap_percent: Positive,
    /// What falls out of segmap keeps its contents while its memory is free, as it does in
    /// Solaris. Without, segmap is all.
    pub cachelist: bool,
    /// Blocks of 8 KiB that are read at a time, and read ahead.
    pub maxcontig: NonZeroU32,
    /// Pages are let go behind a reader who reads in order: so by default.
    pub freebehind: bool,
    /// Reads go past the cache, and nothing is read ahead.
    pub forcedirectio: bool,
}

/// UFS: pages mapped by segmap, in the order of their use; what falls out of it becomes free, but
/// keeps its contents, and comes back if it is asked for before the memory is needed.
///
/// freebehind holds at any time here, while Solaris lets pages go only when memory is short.
#[derive(Debug)]
pub struct Ufs {
    parameters: UfsParameters,
    pages: Queues<2>,
    mapped_max: u64,
    pages_max: u64,
    /// Where the last read ended, and up to where was read ahead.
    end: u64,
    ahead_to: u64,
}

impl UfsParameters {
    /// What segmap maps.
    pub(super) fn mapped_bytes(&self) -> u64 {
        let share = (self.segmap_percent.get() / 100.0).min(1.0);
        (self.memory_bytes.get() as f64 * share) as u64
    }

    pub(super) fn scaled_down(&self, divisor: NonZeroU64) -> UfsParameters {
        UfsParameters { memory_bytes: divided(self.memory_bytes, divisor), ..self.clone() }
    }
}

impl Ufs {
    /// Nothing is cached of a file of so many bytes.
    pub fn new(parameters: &UfsParameters, file_bytes: u64) -> Ufs {
        let pages = file_bytes.div_ceil(PAGE_BYTES);
        let memory = (parameters.memory_bytes.get() / PAGE_BYTES).max(1);
        let mapped_max = (parameters.mapped_bytes() / PAGE_BYTES).max(1);
        Ufs {
            parameters: parameters.clone(),
            pages: Queues::new(&Objects::uniform(pages as usize)),
            mapped_max,
            pages_max: if parameters.cachelist { memory } else { mapped_max },
            end: 0,
            ahead_to: 0,
        }
    }

    /// Maps a page; says whether it had to be fetched.
    fn map(&mut self, page: u32) -> bool {
        let was_missing = self.pages.of(page).is_none();
        self.pages.push(SEGMAP, page);
        while self.pages.weight(SEGMAP) > self.mapped_max {
            self.pages.shift(SEGMAP, CACHELIST);
        }
        self.shed();
        was_missing
    }

    /// Lets go what does not fit, the free pages first; how many others went.
    fn shed(&mut self) -> u64 {
        let mut mapped = 0;
        while self.pages.weight(SEGMAP) + self.pages.weight(CACHELIST) > self.pages_max {
            if self.pages.pop(CACHELIST).is_none() {
                self.pages.pop(SEGMAP);
                mapped += 1;
            }
        }
        mapped
    }

    fn all_pages(&self) -> u64 {
        self.pages.objects().count() as u64
    }
}

impl MemorySystem for Ufs {
    fn read(&mut self, offset: u64, bytes: u64) -> Fetches {
        if self.parameters.forcedirectio {
            let demanded = vec![Request::read(offset, bytes)];
            return Fetches { demanded, ahead: Vec::new() };
        }
        let cluster = u64::from(self.parameters.maxcontig.get());
        let end_page = (offset + bytes).div_ceil(PAGE_BYTES).min(self.all_pages());
        let wanted = offset / PAGE_BYTES..end_page;
        let in_order = offset == self.end && offset > 0;
        let missing: Vec<u64> = wanted.clone().filter(|&page| self.map(page as u32)).collect();
        let mut fetches =
            Fetches { demanded: runs(missing, PAGE_BYTES, cluster), ahead: Vec::new() };
        if !in_order {
            self.ahead_to = wanted.end;
        } else if self.ahead_to < wanted.end + cluster {
            let from = self.ahead_to.max(wanted.end);
            let to = (from + cluster).min(self.all_pages());
            let missing: Vec<u64> = (from..to).filter(|&page| self.map(page as u32)).collect();
            fetches.ahead = runs(missing, PAGE_BYTES, cluster);
            self.ahead_to = to.max(self.ahead_to);
        }
        if self.parameters.freebehind && in_order && offset > SMALL_FILE_BYTES {
            wanted.for_each(|page| self.pages.remove(page as u32));
        }
        self.end = offset + bytes;
        fetches
    }

    fn leave(&mut self, bytes: u64) -> u64 {
        let memory = (bytes / PAGE_BYTES).max(1);
        self.pages_max =
            if self.parameters.cachelist { memory } else { memory.min(self.mapped_max) };
        self.shed() * PAGE_BYTES
    }

    fn cached_bytes(&self) -> u64 {
        (self.pages.weight(SEGMAP) + self.pages.weight(CACHELIST)) * PAGE_BYTES
    }

    fn validate(&self) -> Result<(), String> {
        self.pages.validate()?;
        let (mapped, free) = (self.pages.weight(SEGMAP), self.pages.weight(CACHELIST));
        match mapped <= self.mapped_max && mapped + free <= self.pages_max {
            true => Ok(()),
            false => Err(format!("{mapped} pages are mapped, {free} free")),
        }
    }
}
