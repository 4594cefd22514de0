use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

/// Clocks of what was used once and more than once, and the ghosts of both.
const T1: usize = 0;
const B1: usize = 1;
const T2: usize = 2;
const B2: usize = 3;

/// CAR: ARC with clocks, so that a hit moves nothing and only sets a bit.
///
/// The hand of `T1` takes what was used meanwhile over to `T2`, the hand of `T2` gives it another
/// round; what was not used becomes a ghost. The target `p` moves as in ARC.
///
/// S. Bansal, D. S. Modha, "CAR: Clock with Adaptive Replacement", FAST 2004, figure 2.
#[derive(Debug)]
pub struct Car {
    capacity: u64,
    p: f64,
    queues: Queues<4>,
    referenced: Vec<bool>,
}

impl Car {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> Car {
        let referenced = vec![false; objects.count()];
        Car { capacity, p: 0.0, queues: Queues::new(objects), referenced }
    }

    /// Turns the hands until `weight` fits. A step clears a bit or evicts, so it ends.
    fn replace(&mut self, weight: u64) {
        while self.resident_weight() + weight > self.capacity {
            let recent = self.queues.weight(T1) as f64 >= self.p.max(1.0);
            let (clock, ghosts) = match recent || self.queues.is_empty(T2) {
                true => (T1, B1),
                false => (T2, B2),
            };
            let Some(id) = self.queues.oldest(clock) else { return };
            let referenced = std::mem::take(&mut self.referenced[id as usize]);
            self.queues.push(if referenced { T2 } else { ghosts }, id);
        }
    }

    /// Forgets the oldest ghosts, until the bounds on the lists leave room for `weight`.
    fn forget(&mut self, weight: u64) {
        while self.queues.weight(T1) + self.queues.weight(B1) + weight > self.capacity {
            if self.queues.pop(B1).is_none() {
                break;
            }
        }
        while self.resident_weight() + self.ghost_weight() + weight > 2 * self.capacity {
            if self.queues.pop(B2).is_none() {
                break;
            }
        }
    }

    /// By how much a ghost hit moves the target.
    fn step(&self, ours: usize, other: usize, weight: u64) -> f64 {
        let ratio = self.queues.weight(other) as f64 / self.queues.weight(ours) as f64;
        ratio.max(1.0) * weight as f64
    }

    fn ghost_weight(&self) -> u64 {
        self.queues.weight(B1) + self.queues.weight(B2)
    }
}

impl Policy for Car {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        if let Some(T1 | T2) = self.queues.of(id) {
            self.referenced[id as usize] = true;
            return true;
        }
        let weight = self.queues.objects().weight(id);
        if weight > self.capacity {
            return false;
        }
        self.replace(weight);
        let clock = match self.queues.of(id) {
            Some(B1) => {
                self.p = (self.p + self.step(B1, B2, weight)).min(self.capacity as f64);
                T2
            }
            Some(_) => {
                self.p = (self.p - self.step(B2, B1, weight)).max(0.0);
                T2
            }
            None => {
                self.forget(weight);
                T1
            }
        };
        self.queues.push(clock, id);
        false
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(T1) + self.queues.weight(T2)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()?;
        let recent = self.queues.weight(T1) + self.queues.weight(B1);
        let total = self.resident_weight() + self.ghost_weight();
        if recent > self.capacity || total > 2 * self.capacity {
            return Err(format!("T1 and B1 hold {recent}, all lists {total}"));
        }
        match (0.0..=self.capacity as f64).contains(&self.p) {
            true => Ok(()),
            false => Err(format!("the target is {}", self.p)),
        }
    }
}
