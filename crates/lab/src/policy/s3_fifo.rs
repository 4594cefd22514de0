use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

/// New objects, proven ones, and ghosts of new ones.
const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Uses that count.
const USES_MAX: u8 = 3;

/// S3-FIFO: three FIFO queues, the first small, so that what is used once leaves fast.
///
/// What is new stands in the small queue (10 %). At its end, what was used more than once
/// meanwhile goes on to the main queue (90 %), the rest becomes a ghost; ghosts come to the main
/// queue. There every use but the first three gives another round.
///
/// J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO Queues are All You Need for Cache
/// Eviction", SOSP 2023, algorithm 1. Ghosts weigh at most as much as the main queue may. As in
/// the authors' libCacheSim, what does not fit into the small queue while the cache fills up for
/// the first time goes to the main queue.
#[derive(Debug)]
pub struct S3Fifo {
    capacity: u64,
    small_capacity: u64,
    queues: Queues<3>,
    uses: Vec<u8>,
    /// Something had to be evicted.
    has_filled: bool,
}

impl S3Fifo {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> S3Fifo {
        S3Fifo {
            capacity,
            small_capacity: (capacity / 10).max(1),
            queues: Queues::new(objects),
            uses: vec![0; objects.count()],
            has_filled: false,
        }
    }

    fn evict(&mut self, weight: u64) {
        while self.resident_weight() + weight > self.capacity {
            let small = self.queues.weight(SMALL) >= self.small_capacity;
            if small || self.queues.is_empty(MAIN) {
                self.step_small();
            } else {
                self.step_main();
            }
        }
    }

    /// The oldest object of the small queue moves on, or goes.
    fn step_small(&mut self) {
        let Some(id) = self.queues.oldest(SMALL) else { return };
        let uses = std::mem::take(&mut self.uses[id as usize]);
        self.queues.push(if uses > 1 { MAIN } else { GHOST }, id);
        while self.queues.weight(GHOST) > self.capacity - self.small_capacity {
            self.queues.pop(GHOST);
        }
    }

    /// The oldest object of the main queue has another round, or goes.
    fn step_main(&mut self) {
        let Some(id) = self.queues.oldest(MAIN) else { return };
        let uses = &mut self.uses[id as usize];
        if *uses > 0 {
            *uses -= 1;
            self.queues.push(MAIN, id);
        } else {
            self.queues.remove(id);
        }
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        if let Some(SMALL | MAIN) = self.queues.of(id) {
            let uses = &mut self.uses[id as usize];
            *uses = (*uses + 1).min(USES_MAX);
            return true;
        }
        let weight = self.queues.objects().weight(id);
        if weight > self.capacity {
            return false;
        }
        let known = self.queues.is_on(GHOST, id);
        self.queues.remove(id);
        self.has_filled |= self.resident_weight() + weight > self.capacity;
        self.evict(weight);
        let fills = !self.has_filled && self.queues.weight(SMALL) >= self.small_capacity;
        self.queues.push(if known || fills { MAIN } else { SMALL }, id);
        false
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(SMALL) + self.queues.weight(MAIN)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()?;
        let ghosts = self.queues.weight(GHOST);
        if ghosts > self.capacity - self.small_capacity {
            return Err(format!("ghosts weigh {ghosts}"));
        }
        let used = |id: u32| !matches!(self.queues.of(id), Some(SMALL | MAIN));
        let strays = (0..self.uses.len()).filter(|&id| self.uses[id] > 0 && used(id as u32));
        match strays.count() {
            0 => Ok(()),
            strays => Err(format!("{strays} objects have uses and are not there")),
        }
    }
}
