use super::objects::Objects;
use super::queues::Queues;
use super::{Evicting, Policy};

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

    #[inline]
    fn make(&mut self, id: u32, mut gone: impl FnMut(u32)) -> bool {
        let hit = self.queues.is_on(ALL, id);
        if !hit {
            let weight = self.queues.objects().weight(id);
            if weight > self.capacity {
                return false;
            }
            while self.queues.weight(ALL) + weight > self.capacity {
                self.queues.pop(ALL).into_iter().for_each(&mut gone);
            }
        }
        self.queues.push(ALL, id);
        hit
    }
}

impl Evicting for Lru {
    fn access_telling(&mut self, id: u32, evicted: &mut Vec<u32>) -> bool {
        self.make(id, |id| evicted.push(id))
    }
}

impl Policy for Lru {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        self.make(id, drop)
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(ALL)
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()
    }
}
