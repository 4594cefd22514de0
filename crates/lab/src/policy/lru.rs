use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

const ALL: usize = 0;

/// LRU: the object that was used least recently goes. The oldest policy, and the yardstick.
///
/// R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, "Evaluation techniques for storage
/// hierarchies", IBM Systems Journal 9(2), 1970.
#[derive(Debug)]
pub struct Lru {
    capacity: u64,
    queues: Queues<1>,
}

impl Lru {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> Lru {
        Lru { capacity, queues: Queues::new(objects) }
    }
}

impl Policy for Lru {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let hit = self.queues.is_on(ALL, id);
        if !hit {
            let weight = self.queues.objects().weight(id);
            if weight > self.capacity {
                return false;
            }
            while self.queues.weight(ALL) + weight > self.capacity {
                self.queues.pop(ALL);
            }
        }
        self.queues.push(ALL, id);
        hit
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(ALL)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()
    }
}
