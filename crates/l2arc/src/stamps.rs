use std::sync::atomic::{AtomicU64, Ordering};

/// Counters among which objects are spread.
const STRIPES: usize = 4096;

/// Counts kills, so that bytes that were taken before a kill are not admitted after it.
pub(crate) struct Stamps {
    stripes: Box<[AtomicU64]>,
}

/// The moment at which bytes were taken to be admitted; see [`Flash::stamp`](crate::Flash::stamp).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamps {
    pub(crate) fn new() -> Stamps {
        Stamps { stripes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect() }
    }

    fn stripe(&self, object: u64) -> &AtomicU64 {
        let mixed = object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.stripes[mixed as usize % STRIPES]
    }

    pub(crate) fn now(&self, object: u64) -> Stamp {
        Stamp(self.stripe(object).load(Ordering::SeqCst))
    }

    /// Makes the stamps of an object's records old.
    pub(crate) fn advance(&self, object: u64) {
        self.stripe(object).fetch_add(1, Ordering::SeqCst);
    }
}
