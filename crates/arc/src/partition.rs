//! [`Partitions`]: parts of one cache with lists, ghosts and targets of their own, and how they
//! divide the bytes between them.

use crate::balance::Balance;
use crate::behaviour::Behaviour;
use crate::place::PARTITIONS_MAX;
use crate::setting::Setting;
use crate::share::Share;
use crate::target::step;

/// Least part of the bytes that nobody has reserved which a partition can be pushed down to.
const CLAIM_FLOOR: f64 = 1.0 / (2 * PARTITIONS_MAX) as f64;

/// Furthest that one ghost hit moves a claim.
const CLAIM_STEP_MAX: f64 = 1.0 / 32.0;

/// Partitions by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PartitionSet(u64);

const _: () = assert!(PARTITIONS_MAX <= u64::BITS as usize);

impl PartitionSet {
    /// None of them.
    pub const EMPTY: Self = Self(0);

    /// Adds a partition.
    pub fn insert(&mut self, partition: usize) {
        self.0 |= 1 << partition;
    }

    /// Whether it is one of them.
    pub const fn contains(self, partition: usize) -> bool {
        self.0 >> partition & 1 == 1
    }
}

/// One partition: its rules, its targets and its share.
#[derive(Debug)]
pub(crate) struct Partition {
    pub behaviour: Behaviour,
    pub balance: Balance,
    pub share: Share,
    /// Part of what nobody has reserved that this partition is due.
    pub claim: f64,
    /// The setting that was in force when a record last came in or had to give way.
    pub setting: Option<Setting>,
    /// Of each class, how many of MRU's oldest records stood there when that was changed.
    pub carried: [u64; 2],
    /// What the account of the partition knows of it, bytes; see [`crate::Cache`].
    pub noted: u64,
}

impl Partition {
    const fn new(behaviour: Behaviour, claim: f64) -> Self {
        let (balance, share) = (Balance::new(), Share::FREE);
        Self { behaviour, balance, share, claim, setting: None, carried: [0; 2], noted: 0 }
    }
}

/// The partitions of a cache, at least one.
///
/// A partition is due its reserve, and its claim of what nobody has reserved. Claims follow ghost
/// hits as the targets of ARC do: a hit on a ghost of one partition says that it would have used
/// more, and takes from the others in proportion to what they claim. A partition that only streams
/// has no ghost hits and ends at the floor. What one does not use belongs to the others.
#[derive(Debug)]
pub(crate) struct Partitions(Vec<Partition>);

impl Partitions {
    /// One partition, with these rules.
    pub fn new(behaviour: Behaviour) -> Self {
        Self(vec![Partition::new(behaviour, 1.0)])
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is one only, without a limit.
    #[inline]
    pub fn has_all(&self) -> bool {
        matches!(&*self.0, [only] if only.share.limit_bytes == u64::MAX)
    }

    #[inline]
    pub fn get(&self, partition: usize) -> &Partition {
        &self.0[partition]
    }

    #[inline]
    pub fn get_mut(&mut self, partition: usize) -> &mut Partition {
        &mut self.0[partition]
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.0.iter()
    }

    /// Gives a partition its share and its rules. A new one claims as much as the others do on
    /// average.
    pub fn set(&mut self, partition: usize, share: Share, behaviour: Behaviour) {
        while self.0.len() <= partition {
            let count = (self.0.len() + 1) as f64;
            self.0.iter_mut().for_each(|other| other.claim *= (count - 1.0) / count);
            self.0.push(Partition::new(Behaviour::Arc, 1.0 / count));
        }
        self.0[partition].share = share;
        self.0[partition].behaviour = behaviour;
    }

    /// The bytes that a partition is due of `total`.
    fn due(&self, partition: &Partition, total: u64, reserved: u64) -> f64 {
        let scale = (total as f64 / reserved.max(1) as f64).min(1.0);
        let free = total.saturating_sub(reserved) as f64;
        partition.share.reserve_bytes as f64 * scale + free * partition.claim
    }

    /// The partition that holds records and is furthest above its due, where all may take `total`
    /// and each takes its `weight`; none of those that `keep` what they have.
    #[inline]
    pub fn most_in_excess(
        &self,
        total: impl FnOnce() -> u64,
        weight: impl Fn(usize) -> u64,
        keep: PartitionSet,
    ) -> Option<usize> {
        if self.0.len() == 1 {
            return Some(0);
        }
        let total = total();
        let reserved = self.0.iter().map(|partition| partition.share.reserve_bytes).sum();
        let excess = |(number, at): (usize, &Partition)| {
            let held = if keep.contains(number) { 0 } else { weight(number) };
            (held > 0).then(|| (number, held as f64 - self.due(at, total, reserved)))
        };
        let excesses = self.0.iter().enumerate().filter_map(excess);
        excesses.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(number, _)| number)
    }

    /// A ghost of `partition` was hit, which weighs `hit`; `own` and `others` are the weights of
    /// all ghosts of this partition and of the others; `total` what all may take. In bytes.
    pub fn learn(&mut self, partition: usize, hit: u64, own: u64, others: u64, total: u64) {
        let count = self.0.len();
        if count == 1 {
            return;
        }
        let ceiling = 1.0 - (count - 1) as f64 * CLAIM_FLOOR;
        let before = self.0[partition].claim;
        let after = (before + step(hit, own, others, total).min(CLAIM_STEP_MAX)).min(ceiling);
        // The others keep their floors and share the rest as before.
        let floors = (count - 1) as f64 * CLAIM_FLOOR;
        let (had, have) = (1.0 - before - floors, 1.0 - after - floors);
        let scale = if had > 0.0 { (have / had).max(0.0) } else { 0.0 };
        for (number, other) in self.0.iter_mut().enumerate() {
            other.claim = match number == partition {
                true => after,
                false => CLAIM_FLOOR + (other.claim - CLAIM_FLOOR).max(0.0) * scale,
            };
        }
    }

    /// Claims are parts of one whole.
    pub fn validate(&self) -> Result<(), String> {
        let sum: f64 = self.0.iter().map(|partition| partition.claim).sum();
        if (sum - 1.0).abs() > 1e-6 || self.0.iter().any(|partition| partition.claim < 0.0) {
            return Err(format!("claims add up to {sum}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(partitions: &Partitions) -> Vec<f64> {
        partitions.iter().map(|partition| partition.claim).collect()
    }

    fn three() -> Partitions {
        let mut partitions = Partitions::new(Behaviour::Arc);
        let share = Share { reserve_bytes: 300, ..Share::FREE };
        partitions.set(2, share, Behaviour::Arc);
        partitions
    }

    #[test]
    fn ghost_hits_move_claims_and_floors_hold() {
        let mut partitions = three();
        claims(&partitions).iter().for_each(|claim| assert!((claim - 1.0 / 3.0).abs() < 1e-9));
        partitions.learn(1, 10, 100, 100, 1000);
        let after = claims(&partitions);
        assert!((after[1] - 1.0 / 3.0 - 0.01).abs() < 1e-9);
        assert!((after[0] - after[2]).abs() < 1e-9);
        for _ in 0..1000 {
            partitions.learn(1, 1000, 100, 100, 1000);
            partitions.validate().unwrap();
        }
        assert!((claims(&partitions)[0] - CLAIM_FLOOR).abs() < 1e-9);
        for _ in 0..1000 {
            partitions.learn(0, 1000, 100, 100, 1000);
            partitions.validate().unwrap();
        }
        assert!((claims(&partitions)[1] - CLAIM_FLOOR).abs() < 1e-9);
    }

    #[test]
    fn who_is_furthest_above_its_due_gives() {
        let all = PartitionSet::EMPTY;
        let give = |weights: [u64; 3], keep| {
            three().most_in_excess(|| 1000, |number| weights[number], keep)
        };
        let gives = |weights| give(weights, all);
        assert_eq!(Partitions::new(Behaviour::Arc).most_in_excess(|| 1000, |_| 0, all), Some(0));
        assert_eq!(gives([0, 0, 0]), None);
        assert_eq!(gives([0, 0, 299]), Some(2), "nobody else holds anything");
        // Its due is 300 and a third of the other 700.
        assert_eq!(gives([234, 0, 533]), Some(0));
        assert_eq!(gives([234, 0, 536]), Some(2));
        let mut keep = PartitionSet::EMPTY;
        keep.insert(2);
        assert_eq!((give([234, 0, 536], keep), give([0, 0, 536], keep)), (Some(0), None));
    }
}
