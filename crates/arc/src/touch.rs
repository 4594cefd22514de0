//! [`Touch`]: what a record remembers of its use, in one word that a hit changes without a lock.

use std::time::Duration;

use crate::sync::{AtomicU64, Relaxed};

/// Largest number of hits that the clock's hand gives turns for.
pub(crate) const TURNS_MAX: u8 = 3;

/// Largest hit count that is kept of a record.
///
/// ```
/// let hits = 15;
/// let text = if hits < arc::HITS_MAX { hits.to_string() } else { format!("{hits} or more") };
/// assert_eq!(text, "15 or more");
/// ```
pub const HITS_MAX: u8 = 15;

const TURNS: u64 = TURNS_MAX as u64;
const PREFETCHED: u64 = 1 << 2;
/// It was read before it was evicted, so its first read is another use.
const RETURNED: u64 = 1 << 3;
const HITS_SHIFT: u32 = 4;
const FIRST_SHIFT: u32 = 12;
/// Both counts stand at their ends: a read changes nothing.
const FULL: u64 = TURNS | (HITS_MAX as u64) << HITS_SHIFT;

/// One word: bits 0 and 1 count hits for the clock's hand, bit 2 is "prefetched and not yet read",
/// bit 3 is "and had been read before", bits 4 to 11 a saturating hit count, the rest the time of
/// the first touch in microseconds.
///
/// Two hits at the same instant may count as one. The word is stored only when it changes, so
/// that a hot record's line is shared by its readers and written by none.
#[derive(Debug)]
pub(crate) struct Touch(AtomicU64);

/// What a hit was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The first read of a prefetched record.
    First,
    /// Part of the first touch.
    Same,
    /// Another use, of which the clock's hand will know.
    Again,
    /// Another use of a record of which the hand knows enough.
    Enough,
}

impl Touch {
    /// First touched at `now`; `prefetched` if nobody asked for the record yet.
    #[inline]
    pub fn new(now: Duration, prefetched: bool) -> Self {
        let flag = if prefetched { PREFETCHED } else { 0 };
        Self(AtomicU64::new(micros(now) << FIRST_SHIFT | flag))
    }

    /// Of a record that was prefetched at `now` and had been read before it was evicted: its first
    /// read is another use, beside the `turns` that are known.
    #[inline]
    pub fn returned(now: Duration, turns: u8) -> Self {
        let word = micros(now) << FIRST_SHIFT | PREFETCHED | RETURNED;
        Self(AtomicU64::new(word | u64::from(turns) & TURNS))
    }

    /// Notes a read at `now`.
    ///
    /// The first read of a prefetched record takes the place of the first touch. A read within
    /// `window_us` of the first touch belongs to it. Any other read counts as a hit.
    #[inline]
    pub fn hit(&self, now: Duration, window_us: u64) -> Noted {
        let word = self.0.load(Relaxed);
        // Most hits are on hot records, and need not know the time.
        if word & (FULL | PREFETCHED) == FULL {
            return Noted::Enough;
        }
        self.note(word, now, window_us)
    }

    /// A read that may change the word.
    #[inline(never)]
    fn note(&self, word: u64, now: Duration, window_us: u64) -> Noted {
        if word & PREFETCHED != 0 {
            let first = micros(now) << FIRST_SHIFT | word & TURNS;
            self.0.store(if word & RETURNED != 0 { used(first) } else { first }, Relaxed);
            return Noted::First;
        }
        if window_us > 0 && micros(now).saturating_sub(word >> FIRST_SHIFT) < window_us {
            return Noted::Same;
        }
        let after = used(word);
        if after != word {
            self.0.store(after, Relaxed);
        }
        if word & TURNS < TURNS { Noted::Again } else { Noted::Enough }
    }

    /// Hits that the hand has not yet taken note of, at most [`TURNS_MAX`].
    #[inline]
    pub fn turns(&self) -> u8 {
        (self.0.load(Relaxed) & TURNS) as u8
    }

    /// Leaves `turns` of them.
    #[inline]
    pub fn set_turns(&mut self, turns: u8) {
        let word = self.0.load(Relaxed);
        self.0.store(word & !TURNS | u64::from(turns) & TURNS, Relaxed);
    }

    /// Notes whether the record was prefetched and not yet read.
    pub fn set_unread(&mut self, unread: bool) {
        let word = self.0.load(Relaxed);
        let flag = if unread { PREFETCHED } else { 0 };
        self.0.store(word & !PREFETCHED | flag, Relaxed);
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

    /// When it was first touched, or read for the first time after a prefetch.
    pub fn first(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed) >> FIRST_SHIFT)
    }
}

/// After another use.
const fn used(word: u64) -> u64 {
    let turn = if word & TURNS < TURNS { 1 } else { 0 };
    let hit = if hits(word) == HITS_MAX { 0 } else { 1 << HITS_SHIFT };
    word + turn + hit
}

const fn hits(word: u64) -> u8 {
    (word >> HITS_SHIFT) as u8
}

#[inline]
fn micros(time: Duration) -> u64 {
    (time.as_micros() as u64) & (u64::MAX >> FIRST_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn counted(touch: &Touch, at_ms: u64, window_us: u64) -> u8 {
        touch.hit(ms(at_ms), window_us);
        touch.turns()
    }

    #[test]
    fn a_touch_within_the_window_of_the_first_is_the_same_touch() {
        let mut touch = Touch::new(ms(1000), false);
        assert_eq!(counted(&touch, 1040, 62_500), 0);
        assert_eq!(counted(&touch, 1062, 62_500), 0);
        assert_eq!(counted(&touch, 1063, 62_500), 1, "the window counts from the first touch");
        assert_eq!((touch.hits(), touch.first()), (1, ms(1000)));
        touch.set_turns(0);
        assert_eq!((touch.turns(), touch.hits()), (0, 1));
    }

    #[test]
    fn prefetch_and_first_read_are_one_access() {
        let touch = Touch::new(ms(0), true);
        assert!(touch.prefetched());
        assert_eq!(touch.hit(ms(5000), 62_500), Noted::First);
        assert!(!touch.prefetched() && touch.turns() == 0);
        assert_eq!(counted(&touch, 5050, 62_500), 0, "the window counts from the first read");
        assert_eq!(counted(&touch, 5100, 62_500), 1);
    }

    #[test]
    fn the_first_read_of_what_has_come_back_is_another_use() {
        let touch = Touch::returned(ms(0), 1);
        assert_eq!((touch.prefetched(), touch.turns(), touch.hits()), (true, 1, 0));
        assert_eq!(touch.hit(ms(10), 62_500), Noted::First);
        assert_eq!((touch.prefetched(), touch.turns(), touch.hits()), (false, 2, 1));
        assert_eq!(counted(&touch, 20, 62_500), 2, "the window counts from the first read");
        assert_eq!(counted(&touch, 100, 62_500), 3);
    }

    #[test]
    fn without_a_window_each_read_counts_and_counts_saturate() {
        let mut touch = Touch::new(ms(7), false);
        for _ in 0..300 {
            touch.hit(ms(7), 0);
        }
        assert_eq!((touch.hits(), touch.turns()), (HITS_MAX, TURNS_MAX));
        assert_eq!(touch.hit(ms(7), 0), Noted::Enough);
        touch.set_turns(1);
        assert_eq!(touch.hit(ms(7), 0), Noted::Again);
    }
}
