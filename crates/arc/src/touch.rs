//! [`Touch`]: what a record remembers of its use, in one word that a hit changes without a lock.

use std::time::Duration;

use crate::sync::{AtomicU64, Relaxed};

const REFERENCED: u64 = 1;
const PREFETCHED: u64 = 1 << 1;
const HITS_SHIFT: u32 = 2;
const FIRST_SHIFT: u32 = 10;

/// Largest hit count that is kept.
pub(crate) const HITS_MAX: u8 = u8::MAX;

/// One word: bit 0 the clock's reference bit, bit 1 "prefetched and not yet read", bits 2 to 9 a
/// saturating hit count, the rest the time of the first touch in microseconds.
///
/// Two hits at the same instant may count as one. The word is stored only when it changes, so
/// that a hot record's line is shared by its readers and written by none.
#[derive(Debug)]
pub(crate) struct Touch(AtomicU64);

impl Touch {
    /// First touched at `now`; `prefetched` if nobody asked for the record yet.
    #[inline]
    pub fn new(now: Duration, prefetched: bool) -> Self {
        let flag = if prefetched { PREFETCHED } else { 0 };
        Self(AtomicU64::new(micros(now) << FIRST_SHIFT | flag))
    }

    /// Notes a read at `now`. Tells whether it was the first read of a prefetched record.
    ///
    /// That first read takes the place of the first touch. A read within `window_us` of the first
    /// touch belongs to it. Any other read sets the reference bit and counts as a hit.
    #[inline]
    pub fn hit(&self, now: Duration, window_us: u64) -> bool {
        let now = micros(now);
        let word = self.0.load(Relaxed);
        if word & PREFETCHED != 0 {
            self.0.store(now << FIRST_SHIFT, Relaxed);
            return true;
        }
        if now.saturating_sub(word >> FIRST_SHIFT) < window_us {
            return false;
        }
        let counted = if hits(word) == HITS_MAX { word } else { word + (1 << HITS_SHIFT) };
        let after = counted | REFERENCED;
        if after != word {
            self.0.store(after, Relaxed);
        }
        false
    }

    /// Reads and clears the reference bit.
    #[inline]
    pub fn take_reference(&mut self) -> bool {
        let word = self.0.load(Relaxed);
        self.0.store(word & !REFERENCED, Relaxed);
        word & REFERENCED != 0
    }

    /// Whether the reference bit is set.
    pub fn referenced(&self) -> bool {
        self.0.load(Relaxed) & REFERENCED != 0
    }

    /// Whether the record was prefetched and not yet read.
    #[inline]
    pub fn prefetched(&self) -> bool {
        self.0.load(Relaxed) & PREFETCHED != 0
    }

    /// Hits outside the window, at most [`HITS_MAX`].
    pub fn hits(&self) -> u8 {
        hits(self.0.load(Relaxed))
    }
}

const fn hits(word: u64) -> u8 {
    (word >> HITS_SHIFT) as u8
}

fn micros(time: Duration) -> u64 {
    (time.as_micros() as u64) & (u64::MAX >> FIRST_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_touch_within_the_window_of_the_first_is_the_same_touch() {
        let mut touch = Touch::new(ms(1000), false);
        assert!(!touch.hit(ms(1040), 62_500));
        assert!(!touch.hit(ms(1062), 62_500));
        assert!(!touch.referenced());
        assert!(!touch.hit(ms(1063), 62_500), "the window counts from the first touch");
        assert!(touch.referenced());
        assert_eq!(touch.hits(), 1);
        assert!(touch.take_reference());
        assert!(!touch.referenced());
    }

    #[test]
    fn prefetch_and_first_read_are_one_access() {
        let touch = Touch::new(ms(0), true);
        assert!(touch.prefetched());
        assert!(touch.hit(ms(5000), 62_500));
        assert!(!touch.prefetched() && !touch.referenced());
        assert!(!touch.hit(ms(5050), 62_500));
        assert!(!touch.referenced(), "the window counts from the first read");
        assert!(!touch.hit(ms(5100), 62_500));
        assert!(touch.referenced());
    }

    #[test]
    fn without_a_window_each_read_counts_and_the_count_saturates() {
        let touch = Touch::new(ms(7), false);
        for _ in 0..300 {
            touch.hit(ms(7), 0);
        }
        assert_eq!(touch.hits(), HITS_MAX);
        assert!(!touch.prefetched());
    }
}
