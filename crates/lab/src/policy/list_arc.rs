use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

/// Used once, and their ghosts; used more than once, and their ghosts.
const T1: usize = 0;
const B1: usize = 1;
const T2: usize = 2;
const B2: usize = 3;

/// ARC, exactly as published: four LRU lists and a target `p` for the first of them.
///
/// `T1` holds what was used once recently, `T2` what was used at least twice; `B1` and `B2`
/// remember what was evicted from them. A hit in `B1` says that `T1` was too small and raises its
/// target `p`, a hit in `B2` lowers it, by the ratio of the ghost lists' sizes and at least by 1.
/// `p` is a real number. `T1` and `B1` together hold at most the capacity `c`, all four `2c`.
///
/// N. Megiddo, D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003,
/// figure 4.
#[derive(Debug)]
pub struct ListArc {
    capacity: u64,
    p: f64,
    queues: Queues<4>,
}

impl ListArc {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> ListArc {
        ListArc { capacity, p: 0.0, queues: Queues::new(objects) }
    }

    /// `p`, the weight that `T1` is meant to have.
    pub fn target(&self) -> f64 {
        self.p
    }

    /// Makes it smaller or larger. What no longer fits is evicted as for an object that comes in.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.p = self.p.min(capacity as f64);
        self.replace(0, false);
        self.forget(0);
    }

    /// Whether an object is in the cache. It does not count as a use.
    pub fn holds(&self, id: u32) -> bool {
        matches!(self.queues.of(id), Some(T1 | T2))
    }

    /// Cases II and III: a ghost of `ours` says that its side was too small. By how much the
    /// target moves.
    fn step(&self, ours: usize, other: usize, weight: u64) -> f64 {
        let ratio = self.queues.weight(other) as f64 / self.queues.weight(ours) as f64;
        ratio.max(1.0) * weight as f64
    }

    /// Makes residents of the list that exceeds its target ghosts, until `weight` fits.
    fn replace(&mut self, weight: u64, in_b2: bool) {
        while self.resident_weight() + weight > self.capacity {
            let t1 = self.queues.weight(T1) as f64;
            let exceeds = t1 > self.p || (in_b2 && t1 == self.p);
            if !self.queues.is_empty(T1) && (exceeds || self.queues.is_empty(T2)) {
                self.queues.shift(T1, B1);
            } else {
                self.queues.shift(T2, B2);
            }
        }
    }

    /// Case IV: forgets the oldest, until the bounds on the lists leave room for `weight`.
    fn forget(&mut self, weight: u64) {
        while self.queues.weight(T1) + self.queues.weight(B1) + weight > self.capacity {
            let list = if self.queues.is_empty(B1) { T1 } else { B1 };
            self.queues.pop(list);
        }
        while self.total_weight() + weight > 2 * self.capacity {
            self.queues.pop(B2);
        }
    }

    fn total_weight(&self) -> u64 {
        [T1, B1, T2, B2].map(|list| self.queues.weight(list)).iter().sum()
    }
}

impl Policy for ListArc {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let list = self.queues.of(id);
        if let Some(T1 | T2) = list {
            self.queues.push(T2, id);
            return true;
        }
        let weight = self.queues.objects().weight(id);
        if weight > self.capacity {
            return false;
        }
        match list {
            Some(B1) => {
                self.p = (self.p + self.step(B1, B2, weight)).min(self.capacity as f64);
                self.replace(weight, false);
                self.queues.push(T2, id);
            }
            Some(_) => {
                self.p = (self.p - self.step(B2, B1, weight)).max(0.0);
                self.replace(weight, true);
                self.queues.push(T2, id);
            }
            None => {
                self.forget(weight);
                self.replace(weight, false);
                self.queues.push(T1, id);
            }
        }
        false
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(T1) + self.queues.weight(T2)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()?;
        let recent = self.queues.weight(T1) + self.queues.weight(B1);
        if recent > self.capacity || self.total_weight() > 2 * self.capacity {
            return Err(format!("T1 and B1 hold {recent}, all lists {}", self.total_weight()));
        }
        match (0.0..=self.capacity as f64).contains(&self.p) {
            true => Ok(()),
            false => Err(format!("the target is {}", self.p)),
        }
    }
}
