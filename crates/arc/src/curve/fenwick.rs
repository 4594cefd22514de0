//! [`Fenwick`]: sums over a row of numbers that change.

/// Numbers in a row; a change and a sum over the first of them take O(log n) steps (Fenwick, 1994).
#[derive(Debug, Default)]
pub(crate) struct Fenwick {
    /// `sums[i]` is the sum of the `lowest set bit of (i + 1)` numbers that end at `i`.
    sums: Vec<u64>,
    total: u64,
}

impl Fenwick {
    /// Replaces all numbers. Their count becomes that of `values`.
    pub fn rebuild(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.sums.clear();
        self.sums.reserve_exact(values.len());
        self.sums.extend(values);
        self.total = self.sums.iter().sum();
        for index in 0..self.sums.len() {
            let parent = index | (index + 1);
            if parent < self.sums.len() {
                self.sums[parent] += self.sums[index];
            }
        }
    }

    /// Adds to one number.
    pub fn add(&mut self, index: usize, amount: u64) {
        self.total += amount;
        let mut index = index;
        while index < self.sums.len() {
            self.sums[index] += amount;
            index |= index + 1;
        }
    }

    /// Takes away from one number, which is at least as large.
    pub fn subtract(&mut self, index: usize, amount: u64) {
        self.total -= amount;
        let mut index = index;
        while index < self.sums.len() {
            self.sums[index] -= amount;
            index |= index + 1;
        }
    }

    /// The sum of the numbers after `index`.
    pub fn sum_after(&self, index: usize) -> u64 {
        let mut sum = self.total;
        let mut end = index + 1;
        while end > 0 {
            sum -= self.sums[end - 1];
            end &= end - 1;
        }
        sum
    }

    /// The sum of all numbers.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_are_those_of_a_plain_row(
            start in prop::collection::vec(0_u64..1000, 1..70),
            changes in prop::collection::vec((any::<usize>(), 0_u64..1000), 0..100),
        ) {
            let mut row = start.clone();
            let mut fenwick = Fenwick::default();
            fenwick.rebuild(start.into_iter());
            for (index, value) in changes {
                let index = index % row.len();
                fenwick.subtract(index, row[index]);
                fenwick.add(index, value);
                row[index] = value;
                prop_assert_eq!(fenwick.total(), row.iter().sum::<u64>());
                prop_assert_eq!(fenwick.sum_after(index), row[index + 1..].iter().sum::<u64>());
            }
        }
    }
}
