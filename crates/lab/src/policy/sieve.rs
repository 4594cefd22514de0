use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

const ALL: usize = 0;

/// SIEVE: one FIFO queue, a bit for what was used, and a hand that sifts.
///
/// A hit sets the bit. The hand goes from the oldest object to newer ones, clears bits that are
/// set, and takes the first object out whose bit is not; there it stays. Survivors keep their
/// place, so what is new is looked at early and the proven seldom.
///
/// Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is Simpler than LRU: an
/// Efficient Turn-Key Eviction Algorithm for Web Caches", NSDI 2024, algorithm 1.
#[derive(Debug)]
pub struct Sieve {
    capacity: u64,
    queues: Queues<1>,
    visited: Vec<bool>,
    /// The next object to look at; without one, the oldest.
    hand: Option<u32>,
}

impl Sieve {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> Sieve {
        let visited = vec![false; objects.count()];
        Sieve { capacity, queues: Queues::new(objects), visited, hand: None }
    }

    /// One step of the hand.
    fn step(&mut self) {
        let Some(id) = self.hand.or_else(|| self.queues.oldest(ALL)) else { return };
        self.hand = self.queues.newer(id);
        if !std::mem::take(&mut self.visited[id as usize]) {
            self.queues.remove(id);
        }
    }
}

impl Policy for Sieve {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        if self.queues.is_on(ALL, id) {
            self.visited[id as usize] = true;
            return true;
        }
        let weight = self.queues.objects().weight(id);
        if weight > self.capacity {
            return false;
        }
        while self.queues.weight(ALL) + weight > self.capacity {
            self.step();
        }
        self.queues.push(ALL, id);
        false
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(ALL)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()?;
        if let Some(id) = self.hand
            && !self.queues.is_on(ALL, id)
        {
            return Err(format!("the hand is at object {id}, which is not there"));
        }
        let strays = (0..self.visited.len())
            .filter(|&id| self.visited[id] && !self.queues.is_on(ALL, id as u32));
        match strays.count() {
            0 => Ok(()),
            strays => Err(format!("{strays} objects are visited and not there")),
        }
    }
}
