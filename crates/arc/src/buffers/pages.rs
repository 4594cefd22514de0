use std::ops::Range;

/// Pages of one chunk.
pub(crate) const PAGES: usize = 512;

const WORDS: usize = PAGES / 64;

/// A set of the pages of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages([u64; WORDS]);

impl Pages {
    pub const NONE: Self = Self([0; WORDS]);
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    pub fn of(range: Range<usize>) -> Self {
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            let from = range.start.clamp(index * 64, (index + 1) * 64) - index * 64;
            let to = range.end.clamp(index * 64, (index + 1) * 64) - index * 64;
            if from < to {
                *word = (u64::MAX >> (64 - (to - from))) << from;
            }
        }
        Self(words)
    }

    pub fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    pub fn with(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    pub fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    pub fn common(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|index| combine(self.0[index], other.0[index])))
    }

    /// Pages in the longest run.
    pub fn longest_run(self) -> usize {
        // By doubling: where runs of 1, 2, 4, ... pages begin.
        let mut starts = [Self::NONE; PAGES.ilog2() as usize + 1];
        let mut power = 0;
        starts[0] = self;
        while power + 1 < starts.len() {
            let longer = starts[power].common(starts[power].earlier(1 << power));
            if longer.is_empty() {
                break;
            }
            power += 1;
            starts[power] = longer;
        }
        let (mut candidates, mut length) = (starts[power], 1 << power);
        if candidates.is_empty() {
            return 0;
        }
        for power in (0..power).rev() {
            let longer = candidates.common(starts[power].earlier(length));
            if !longer.is_empty() {
                candidates = longer;
                length += 1 << power;
            }
        }
        length
    }

    /// Each page moved so many places towards the first; those at the front drop out.
    fn earlier(self, places: usize) -> Self {
        let (words, bits) = (places / 64, places % 64);
        let word = |index: usize| self.0.get(index).copied().unwrap_or(0);
        Self(std::array::from_fn(|index| {
            let low = word(index + words) >> bits;
            let high = word(index + words + 1).checked_shl(64 - bits as u32).unwrap_or(0);
            low | high
        }))
    }

    /// The maximal runs of pages in the set, in order.
    pub fn runs(self) -> impl Iterator<Item = Range<usize>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, true)?;
            let end = self.next(start, false).unwrap_or(PAGES);
            at = end;
            Some(start..end)
        })
    }

    /// The maximal run around a page that is in the set.
    pub fn run_around(self, page: usize) -> Range<usize> {
        let end = self.next(page, false).unwrap_or(PAGES);
        let mut index = page / 64;
        let mut missing = !self.0[index] & !(u64::MAX << (page % 64));
        while missing == 0 && index > 0 {
            index -= 1;
            missing = !self.0[index];
        }
        let start = index * 64 + (u64::BITS - missing.leading_zeros()) as usize;
        start..end
    }

    /// The first page from `at` on that is in the set, or is not.
    fn next(self, at: usize, is_in: bool) -> Option<usize> {
        let mut index = at / 64;
        let mut skipped = u64::MAX.checked_shl((at % 64) as u32).unwrap_or(0);
        while index < WORDS {
            let word = if is_in { self.0[index] } else { !self.0[index] } & skipped;
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            skipped = u64::MAX;
            index += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_become_runs_again() {
        for range in [0..1, 0..64, 63..65, 5..512, 0..512, 511..512] {
            let pages = Pages::of(range.clone());
            assert_eq!(pages.count(), range.len());
            assert_eq!(pages.runs().collect::<Vec<_>>(), [range]);
        }
        assert_eq!(Pages::of(7..7), Pages::NONE);
        assert_eq!(Pages::NONE.runs().count(), 0);
        assert!(Pages::ALL.runs().eq(std::iter::once(0..512)));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn runs_are_those_of_a_plain_list(cuts in prop::collection::vec(0..=PAGES, 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pages = Pages::NONE;
            let mut plain = vec![false; PAGES];
            for pair in cuts.chunks_exact(2) {
                pages = pages.with(Pages::of(pair[0]..pair[1]));
                plain[pair[0]..pair[1]].fill(true);
            }
            let mut seen = vec![false; PAGES];
            let mut last_end = None;
            for run in pages.runs() {
                prop_assert!(last_end < Some(run.start), "runs do not touch");
                last_end = Some(run.end);
                for page in [run.start, run.start.midpoint(run.end - 1), run.end - 1] {
                    prop_assert_eq!(pages.run_around(page), run.clone());
                }
                seen[run].fill(true);
            }
            prop_assert_eq!(seen, plain);
            let longest = pages.runs().map(|run| run.len()).max();
            prop_assert_eq!(pages.longest_run(), longest.unwrap_or(0));
            prop_assert_eq!(pages.is_empty(), longest.is_none());
        }
    }
}
