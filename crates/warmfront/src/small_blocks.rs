use std::fmt::{self, Debug, Formatter};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::heap;
use crate::memory::Memory;

/// Bytes of blocks that have been freed which the general allocator may keep uncharged.
const LOOSE_BYTES_MAX: u64 = 8 << 20;
/// More than that is asked for, if it is at least half of what was held.
const TRIM_BYTES_MIN: u64 = 16 << 20;
/// After so many things that came or went the process is measured.
const MEASURED_EVERY: u64 = 1024;
/// After so many bytes of contents that came into the cache as well.
const MEASURED_EVERY_BYTES: u64 = 1 << 20;
/// Resident bytes that need no explanation: stacks, and what the program is made of.
const UNEXPLAINED_BYTES_MAX: u64 = 12 << 20;
/// Part of the ceiling, as its divisor, that waste is charged at most: small answers that are
/// evicted for it may leave more waste.
const WASTE_SHARE: u64 = 6;

/// What is held in many small blocks of the general allocator: objects in use, and listings that
/// are read.
///
/// Such blocks take more of the process than was asked for: what lies between those in use stays
/// resident. So what is resident and explained by no charge is charged here too.
#[derive(Default)]
pub(crate) struct SmallBlocks {
    held: Mutex<Held>,
    /// Tells what is resident of the process and belongs to no file.
    resident: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    /// What came and went since that was last asked.
    changes: AtomicU64,
    /// Bytes of contents that have come into the cache.
    grown_bytes: AtomicU64,
}

impl Debug for SmallBlocks {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SmallBlocks").field("held", &self.held).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Held {
    /// What is held.
    bytes: u64,
    /// The most that it was since the allocator last gave back what it kept.
    bytes_max: u64,
    charged_bytes: u64,
    /// Resident bytes that no other charge explains: what lies between the blocks in use.
    waste_bytes: u64,
    /// What of that was left when the allocator was last asked for it.
    waste_left_bytes: u64,
}

impl Held {
    /// Works out anew what is to be charged, and charges it to `all`.
    fn recharge(&mut self, all: &AtomicU64) {
        self.bytes_max = self.bytes_max.max(self.bytes);
        let least = self.bytes.max(self.bytes_max.saturating_sub(LOOSE_BYTES_MAX));
        let before =
            std::mem::replace(&mut self.charged_bytes, least.max(self.bytes + self.waste_bytes));
        // In one step, so that the cache does not follow what never was.
        match self.charged_bytes.checked_sub(before) {
            Some(more) => all.fetch_add(more, Ordering::Relaxed),
            None => all.fetch_sub(before - self.charged_bytes, Ordering::Relaxed),
        };
    }

    /// Whether the allocator keeps much of what it could give back.
    fn is_loose(&self) -> bool {
        self.bytes_max - self.bytes >= TRIM_BYTES_MIN.max(self.bytes_max / 2)
    }
}

impl Memory {
    /// Charges what is held in many small blocks.
    pub(crate) fn hold(&self, bytes: u64) {
        {
            let mut held = self.small_blocks.held.lock();
            held.bytes += bytes;
            held.recharge(&self.charged_bytes);
        }
        self.changed();
    }

    /// Gives back what was charged so. Says whether the allocator should be
    /// [asked](Memory::trim) for it.
    #[must_use]
    pub(crate) fn let_go(&self, bytes: u64) -> bool {
        let is_loose = {
            let mut held = self.small_blocks.held.lock();
            held.bytes -= bytes;
            held.recharge(&self.charged_bytes);
            held.is_loose()
        };
        self.changed();
        is_loose
    }

    /// After so many bytes of contents have come into the cache: what went for them was perhaps in
    /// blocks of the allocator's, which keeps them.
    pub(crate) fn grown(&self, bytes: u64) {
        let before = self.small_blocks.grown_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before / MEASURED_EVERY_BYTES != (before + bytes) / MEASURED_EVERY_BYTES {
            self.measure();
            self.resize(None);
        }
    }

    /// After something has come or gone: lets the cache follow, and measures once in a while.
    pub(crate) fn changed(&self) {
        let before = self.small_blocks.changes.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(MEASURED_EVERY) {
            self.measure();
        }
        self.resize(None);
    }

    /// Says how to learn what is resident of this process and belongs to no file. Without it what
    /// lies unused between blocks in use is not charged.
    ///
    /// ```
    /// let resident = || {
    ///     let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ///     let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    ///     let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    ///     kib.unwrap_or(0) << 10
    /// };
    /// assert!(resident() > 0);
    /// warmfront::Memory::new(64 << 20).set_resident(resident);
    /// ```
    pub fn set_resident(&self, resident: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.small_blocks.resident.set(Box::new(resident));
    }

    /// Charges what is resident and otherwise unexplained.
    fn measure(&self) {
        let Some(resident) = self.small_blocks.resident.get() else { return };
        let resident_bytes = resident();
        let mut held = self.small_blocks.held.lock();
        let others = self.charged_bytes().saturating_sub(held.charged_bytes) + held.bytes;
        let explained = others + self.cache.charged_bytes() + self.apart_bytes();
        let waste = resident_bytes.saturating_sub(explained + UNEXPLAINED_BYTES_MAX);
        held.waste_bytes = waste.min(self.ceiling_bytes() / WASTE_SHARE);
        held.waste_left_bytes = held.waste_left_bytes.min(held.waste_bytes);
        held.recharge(&self.charged_bytes);
        if held.waste_bytes - held.waste_left_bytes < TRIM_BYTES_MIN {
            return;
        }
        held.waste_left_bytes = held.waste_bytes;
        drop(held);
        if let Some(pool) = self.pools().first() {
            pool.spawn.spawn(Box::pin(async { heap::trim() }));
        }
    }

    /// Has the allocator give back what was taken by what has gone.
    pub(crate) fn trim(&self) {
        {
            let mut held = self.small_blocks.held.lock();
            if !held.is_loose() {
                return;
            }
            // Whoever comes next finds nothing to do.
            held.bytes_max = held.bytes;
        }
        heap::trim();
        self.small_blocks.held.lock().recharge(&self.charged_bytes);
        self.measure();
        self.resize(None);
    }
}
