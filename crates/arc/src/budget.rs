//! [`Budget`]: the bytes that all shards together, or one partition in all shards, may take.

use crate::sync::{AtomicU64, Relaxed};

/// A capacity and what is charged to it. Room is reserved before it is used, so the charge
/// exceeds the capacity only while a lowered capacity is being carried out.
#[derive(Debug)]
pub(crate) struct Budget {
    capacity: AtomicU64,
    charged: AtomicU64,
    /// What others cannot take, bytes; of all shards' budget the sum.
    kept: AtomicU64,
}

impl Budget {
    pub fn new(capacity: u64) -> Self {
        let (charged, kept) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { capacity: AtomicU64::new(capacity), charged, kept }
    }

    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Relaxed)
    }

    pub fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Relaxed);
    }

    #[inline]
    pub fn kept(&self) -> u64 {
        self.kept.load(Relaxed)
    }

    pub fn set_kept(&self, kept: u64) {
        self.kept.store(kept, Relaxed);
    }

    #[inline]
    pub fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    /// Whether `bytes` more would fit now, if `freed` were given back first.
    #[inline]
    pub fn fits(&self, bytes: u64, freed: u64) -> bool {
        self.charged().saturating_sub(freed).saturating_add(bytes) <= self.capacity()
    }

    /// Charges `bytes`, if they fit. Zero always fits.
    #[inline]
    pub fn reserve(&self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let reserved =
            |charged: u64| charged.checked_add(bytes).filter(|&charged| charged <= self.capacity());
        self.charged.fetch_update(Relaxed, Relaxed, reserved).is_ok()
    }

    /// Corrects the charge of a holder from `before` to `after`.
    #[inline]
    pub fn settle(&self, before: u64, after: u64) {
        if after >= before {
            self.charged.fetch_add(after - before, Relaxed);
        } else {
            self.charged.fetch_sub(before - after, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_what_fits_and_no_more() {
        let budget = Budget::new(100);
        assert!(budget.reserve(60) && budget.reserve(40));
        assert!(!budget.reserve(1));
        assert!(budget.reserve(0));
        budget.settle(60, 10);
        assert_eq!(budget.charged(), 50);
        assert!(budget.fits(50, 0) && !budget.fits(51, 0) && !budget.fits(u64::MAX, 0));
        assert!(budget.fits(60, 10) && !budget.fits(61, 10));
        budget.set_capacity(20);
        assert!(!budget.reserve(1));
    }
}
