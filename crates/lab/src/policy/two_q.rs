use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

/// New objects, ghosts of what left there, and what came back.
const A1_IN: usize = 0;
const A1_OUT: usize = 1;
const AM: usize = 2;

/// 2Q, the full version: a queue for what is new, and an LRU list for what proves itself.
///
/// What is new stands in the FIFO `A1in` (a quarter of the capacity); used again there, it does
/// not move, for that may be one correlated use. What falls out is remembered in `A1out` (half of
/// the capacity); asked for again then, it comes to the LRU list `Am`.
///
/// T. Johnson, D. Shasha, "2Q: A Low Overhead High Performance Buffer Management Replacement
/// Algorithm", VLDB 1994. `Kin` is 25 % and `Kout` 50 %, as they recommend.
#[derive(Debug)]
pub struct TwoQ {
    capacity: u64,
    k_in: u64,
    k_out: u64,
    queues: Queues<3>,
}

impl TwoQ {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> TwoQ {
        let queues = Queues::new(objects);
        TwoQ { capacity, k_in: (capacity / 4).max(1), k_out: (capacity / 2).max(1), queues }
    }

    fn reclaim(&mut self, weight: u64) {
        while self.resident_weight() + weight > self.capacity {
            if self.queues.weight(A1_IN) > self.k_in || self.queues.is_empty(AM) {
                self.queues.shift(A1_IN, A1_OUT);
                while self.queues.weight(A1_OUT) > self.k_out {
                    self.queues.pop(A1_OUT);
                }
            } else {
                self.queues.pop(AM);
            }
        }
    }
}

impl Policy for TwoQ {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        match self.queues.of(id) {
            Some(AM) => {
                self.queues.push(AM, id);
                return true;
            }
            Some(A1_IN) => return true,
            _ => (),
        }
        let weight = self.queues.objects().weight(id);
        if weight > self.capacity {
            return false;
        }
        let known = self.queues.is_on(A1_OUT, id);
        self.queues.remove(id);
        self.reclaim(weight);
        self.queues.push(if known { AM } else { A1_IN }, id);
        false
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(A1_IN) + self.queues.weight(AM)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()?;
        match self.queues.weight(A1_OUT) {
            ghosts if ghosts <= self.k_out => Ok(()),
            ghosts => Err(format!("A1out holds {ghosts} of {}", self.k_out)),
        }
    }
}
