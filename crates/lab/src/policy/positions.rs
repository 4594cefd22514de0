/// Bits of a word, and the fan-out of the tree.
const BITS: usize = 64;

/// A set of positions below a bound that finds its greatest member in a few steps: a tree of bit
/// sets, each bit of a level telling whether its word of the level below has any.
#[derive(Debug)]
pub(super) struct Positions {
    /// From the leaves to the root, which is one word.
    levels: Vec<Vec<u64>>,
}

impl Positions {
    /// An empty set of positions below `bound`.
    pub fn new(bound: usize) -> Positions {
        let mut levels = vec![vec![0; bound.div_ceil(BITS).max(1)]];
        while let Some(level) = levels.last()
            && level.len() > 1
        {
            let above = vec![0; level.len().div_ceil(BITS)];
            levels.push(above);
        }
        Positions { levels }
    }

    /// Adds a position.
    pub fn insert(&mut self, mut position: usize) {
        for level in &mut self.levels {
            let word = &mut level[position / BITS];
            let was_empty = *word == 0;
            *word |= 1 << (position % BITS);
            if !was_empty {
                break;
            }
            position /= BITS;
        }
    }

    /// Takes a position out, and tells whether it was there.
    pub fn remove(&mut self, mut position: usize) -> bool {
        if self.levels[0][position / BITS] >> (position % BITS) & 1 == 0 {
            return false;
        }
        for level in &mut self.levels {
            let word = &mut level[position / BITS];
            *word &= !(1 << (position % BITS));
            if *word != 0 {
                break;
            }
            position /= BITS;
        }
        true
    }

    /// Takes out the greatest position.
    pub fn pop_greatest(&mut self) -> Option<usize> {
        let mut position = 0;
        for level in self.levels.iter().rev() {
            let word = level[position];
            if word == 0 {
                return None;
            }
            position = position * BITS + word.ilog2() as usize;
        }
        self.remove(position);
        Some(position)
    }

    /// All positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.levels[0].iter().enumerate();
        words.flat_map(|(index, word)| {
            (0..BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * BITS + bit)
        })
    }

    /// Whether each bit tells the truth of the word below it.
    pub fn validate(&self) -> Result<(), String> {
        for (height, pair) in self.levels.windows(2).enumerate() {
            for (index, word) in pair[0].iter().enumerate() {
                let told = pair[1][index / BITS] >> (index % BITS) & 1 == 1;
                if told != (*word != 0) {
                    return Err(format!("word {index} of level {height} is not as told above"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_set(
            steps in proptest::collection::vec((0..3, 0..5000usize), 1..400),
        ) {
            let mut positions = Positions::new(5000);
            let mut model = BTreeSet::new();
            for (step, position) in steps {
                match step {
                    0 => {
                        positions.insert(position);
                        model.insert(position);
                    }
                    1 => prop_assert_eq!(positions.remove(position), model.remove(&position)),
                    _ => prop_assert_eq!(positions.pop_greatest(), model.pop_last()),
                }
                prop_assert_eq!(positions.validate(), Ok(()));
            }
            prop_assert!(positions.iter().eq(model));
        }
    }
}
