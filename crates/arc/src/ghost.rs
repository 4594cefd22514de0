//! [`Ghost`]: what is remembered of a record that was evicted.

use crate::list::List;
use crate::place::Place;
use crate::record::AGE_MAX;
use crate::slab::Item;

/// Size and list of an evicted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost {
    /// Payload bytes of the record, to eleven binary digits.
    pub bytes: u64,
    /// The list it was evicted from.
    pub list: List,
    /// It was prefetched and never read.
    pub prefetched: bool,
}

/// A ghost as it lies in memory.
///
/// The fingerprint is the 64-bit hash of the key. Two keys with one hash are taken for each
/// other; that costs a little accuracy of the targets once in a lifetime and nothing else.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    pub hash: u64,
    used: u32,
    size: RoundedSize,
    pub place: Place,
}

/// Set in `used` if the record was never read. The clock has the other bits.
const PREFETCHED: u32 = 1 << 31;

impl Fingerprint {
    /// Of a record that was last used when the policy's clock showed `used`.
    #[inline]
    pub fn new(hash: u64, bytes: u64, place: Place, used: u32, prefetched: bool) -> Self {
        let flag = if prefetched { PREFETCHED } else { 0 };
        Self { hash, used: used & AGE_MAX | flag, size: RoundedSize::new(bytes), place }
    }

    #[inline]
    pub fn ghost(&self) -> Ghost {
        let prefetched = self.used & PREFETCHED != 0;
        Ghost { bytes: self.size.get(), list: self.place.list(), prefetched }
    }

    /// Insertions between the record's last use and `clock`.
    #[inline]
    pub fn age(&self, clock: u32) -> u32 {
        clock.wrapping_sub(self.used) & AGE_MAX
    }
}

/// A size in two bytes: eleven binary digits, and how many zeros follow them.
#[derive(Debug, Clone, Copy)]
struct RoundedSize(u16);

impl RoundedSize {
    const DIGITS: u32 = 11;

    fn new(bytes: u64) -> Self {
        let zeros = (u64::BITS - bytes.leading_zeros()).saturating_sub(Self::DIGITS).min(31);
        let digits = (bytes >> zeros).min((1 << Self::DIGITS) - 1);
        Self((zeros << Self::DIGITS) as u16 | digits as u16)
    }

    #[inline]
    const fn get(self) -> u64 {
        let digits = self.0 & ((1 << Self::DIGITS) - 1);
        (digits as u64) << (self.0 >> Self::DIGITS)
    }
}

impl Item for Fingerprint {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn bytes(&self) -> u64 {
        self.size.get()
    }

    fn place(&self) -> Place {
        self.place
    }

    fn set_place(&mut self, place: Place) {
        self.place = place;
    }
}

// With its two links a ghost takes 24 bytes.
const _: () = assert!(size_of::<Option<Fingerprint>>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_kept_to_eleven_digits() {
        for exact in [0, 1, 2047, 4096, 131_072, 1 << 20, 1 << 40] {
            assert_eq!(RoundedSize::new(exact).get(), exact);
        }
        for bytes in [2049, 1_000_001, u64::from(u32::MAX)] {
            let kept = RoundedSize::new(bytes).get();
            assert!(kept <= bytes && bytes - kept <= bytes / 1024, "{bytes}: {kept}");
        }
        assert_eq!(RoundedSize::new(u64::MAX).get(), 2047 << 31);
    }

    #[test]
    fn age_survives_the_turn_of_the_clock() {
        let place = Place::new(0, List::ALL[0]);
        for (used, clock, age) in [(5, 9, 4), (u32::MAX - 1, 3, 5), ((1 << 31) - 2, 1 << 31, 2)] {
            for prefetched in [false, true] {
                let ghost = Fingerprint::new(1, 1, place, used, prefetched);
                assert_eq!((ghost.age(clock), ghost.ghost().prefetched), (age, prefetched));
            }
        }
    }
}
