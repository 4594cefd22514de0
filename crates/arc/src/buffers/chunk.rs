use std::ops::Range;
use std::ptr::NonNull;

use crate::buffers::pages::{PAGES, Pages};
use crate::buffers::region::{OutOfMemory, Region};

/// Bytes of a page: buffers begin and end at multiples of this.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a chunk: one huge page on most machines.
pub const CHUNK_BYTES: usize = PAGES * PAGE_BYTES;

/// Memory that is cut into runs of pages.
#[derive(Debug)]
pub(crate) struct Chunk {
    region: Region,
    used: Pages,
    /// What may take memory: all that is used, and what is kept.
    resident: Pages,
    /// Sums of these, which would take long to count each time.
    sums: Sums,
    /// The system may make it one huge page: it is then resident as a whole.
    huge: bool,
}

/// Numbers of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sums {
    used: usize,
    /// Resident and not in use.
    kept: usize,
    /// Free pages in the longest run.
    longest_run: usize,
}

impl Sums {
    fn count(used: Pages, resident: Pages) -> Self {
        Self {
            used: used.count(),
            kept: resident.without(used).count(),
            longest_run: Pages::ALL.without(used).longest_run(),
        }
    }
}

impl Chunk {
    /// Nothing in use. Whatever is touched first makes a `huge` chunk resident as a whole.
    pub fn new(huge: bool) -> Result<Self, OutOfMemory> {
        let region = Region::new(CHUNK_BYTES)?;
        let huge = huge && region.prefer_huge_pages(true);
        let resident = if huge { Pages::ALL } else { Pages::NONE };
        let sums = Sums::count(Pages::NONE, resident);
        Ok(Self { region, used: Pages::NONE, resident, sums, huge })
    }

    /// Address of a page.
    pub fn page(&self, page: usize) -> NonNull<u8> {
        self.region.at(page * PAGE_BYTES)
    }

    /// Free pages in the longest run.
    pub fn longest_run(&self) -> usize {
        self.sums.longest_run
    }

    /// Takes the shortest run of at least `pages` pages, or what it needs of it.
    pub fn take(&mut self, pages: usize) -> Option<Range<usize>> {
        // Of the other runs, only the length of the longest one is wanted.
        let (mut shortest, mut longest_other): (Option<Range<usize>>, usize) = (None, 0);
        for run in Pages::ALL.without(self.used).runs() {
            let before = shortest.as_ref().map_or(usize::MAX, Range::len);
            let other = if (pages..before).contains(&run.len()) {
                shortest.replace(run).map_or(0, |run| run.len())
            } else {
                run.len()
            };
            longest_other = longest_other.max(other);
        }
        let run = shortest?;
        let taken = run.start..run.start + pages;
        let set = Pages::of(taken.clone());
        self.sums.used += pages;
        self.sums.kept -= self.resident.common(set).count();
        self.sums.longest_run = longest_other.max(run.len() - pages);
        self.used = self.used.with(set);
        self.resident = self.resident.with(set);
        Some(taken)
    }

    /// Takes the pages from an address on back.
    pub fn give(&mut self, start: NonNull<u8>, pages: usize) {
        let first = (start.addr().get() - self.page(0).addr().get()) / PAGE_BYTES;
        let run = first..first + pages;
        let set = Pages::of(run.clone());
        assert!(set.without(self.used).is_empty(), "pages come back that were not in use");
        self.used = self.used.without(set);
        self.sums.used -= run.len();
        self.sums.kept += run.len();
        let joined = Pages::ALL.without(self.used).run_around(run.start);
        self.sums.longest_run = self.sums.longest_run.max(joined.len());
    }

    pub fn is_free(&self) -> bool {
        self.sums.used == 0
    }

    pub fn used_bytes(&self) -> usize {
        self.sums.used * PAGE_BYTES
    }

    /// Bytes that are resident and not in use.
    pub fn kept_bytes(&self) -> usize {
        self.sums.kept * PAGE_BYTES
    }

    /// Gives the memory of all free pages back to the system.
    pub fn purge(&mut self) {
        if self.huge {
            // Or the system would put the huge page together again.
            self.region.prefer_huge_pages(false);
            self.huge = false;
        }
        for run in self.resident.without(self.used).runs() {
            self.region.discard(run.start * PAGE_BYTES..run.end * PAGE_BYTES);
        }
        self.resident = self.used;
        self.sums.kept = 0;
    }

    pub fn validate(&self) -> Result<(), String> {
        let counted = Sums::count(self.used, self.resident);
        if counted != self.sums {
            return Err(format!("noted {:?}, counted {counted:?}", self.sums));
        }
        if self.used.without(self.resident).is_empty() {
            Ok(())
        } else {
            Err("pages in use that are not taken for resident".to_string())
        }
    }
}
