use super::Policy;
use super::objects::Objects;
use super::queues::Queues;
use super::sketch::Sketch;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// W-TinyLFU: a small LRU window, and behind it a segmented LRU whose door asks for fame.
///
/// What is new stands in the window (1 %). What leaves the window is admitted to the main part
/// only if it was used more often of late than what would have to go for it; a sketch that ages
/// counts all uses. The main part has 80 % for what was used again there, the rest on probation.
///
/// G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
/// Transactions on Storage 13(4), 2017.
#[derive(Debug)]
pub struct WTinyLfu {
    window_capacity: u64,
    main_capacity: u64,
    protected_capacity: u64,
    queues: Queues<3>,
    sketch: Sketch,
}

impl WTinyLfu {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> WTinyLfu {
        let window_capacity = (capacity / 100).max(1);
        let main_capacity = capacity.saturating_sub(window_capacity);
        WTinyLfu {
            window_capacity,
            main_capacity,
            protected_capacity: main_capacity * 4 / 5,
            queues: Queues::new(objects),
            sketch: Sketch::new(objects.fitting(capacity)),
        }
    }

    /// What is too much for the window asks to be let in; the rest goes.
    fn shrink_window(&mut self) {
        while self.queues.weight(WINDOW) > self.window_capacity
            && let Some(candidate) = self.queues.pop(WINDOW)
        {
            if self.is_admitted(candidate) {
                self.queues.push(PROBATION, candidate);
            }
        }
    }

    /// Takes from the main part what was used less often than `candidate`, until that fits.
    fn is_admitted(&mut self, candidate: u32) -> bool {
        let weight = self.queues.objects().weight(candidate);
        if weight > self.main_capacity {
            return false;
        }
        let fame = self.sketch.frequency(candidate);
        while self.main_weight() + weight > self.main_capacity {
            let victim = self.queues.oldest(PROBATION).or_else(|| self.queues.oldest(PROTECTED));
            match victim {
                Some(victim) if self.sketch.frequency(victim) < fame => self.queues.remove(victim),
                _ => return false,
            }
        }
        true
    }

    fn main_weight(&self) -> u64 {
        self.queues.weight(PROBATION) + self.queues.weight(PROTECTED)
    }
}

impl Policy for WTinyLfu {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        self.sketch.count(id);
        match self.queues.of(id) {
            Some(WINDOW) => self.queues.push(WINDOW, id),
            Some(_) => {
                self.queues.push(PROTECTED, id);
                while self.queues.weight(PROTECTED) > self.protected_capacity {
                    self.queues.shift(PROTECTED, PROBATION);
                }
            }
            None => {
                if self.queues.objects().weight(id) <= self.window_capacity {
                    self.queues.push(WINDOW, id);
                    self.shrink_window();
                } else if self.is_admitted(id) {
                    // Too large for the window: it knocks at once.
                    self.queues.push(PROBATION, id);
                }
                return false;
            }
        }
        true
    }

    fn resident_weight(&self) -> u64 {
        self.queues.weight(WINDOW) + self.main_weight()
    }

    fn validate(&self) -> Result<(), String> {
        self.queues.validate()?;
        let parts = [
            ("the window", self.queues.weight(WINDOW), self.window_capacity),
            ("the main part", self.main_weight(), self.main_capacity),
            ("the protected part", self.queues.weight(PROTECTED), self.protected_capacity),
        ];
        match parts.iter().find(|(_, weight, capacity)| weight > capacity) {
            None => Ok(()),
            Some((part, weight, capacity)) => Err(format!("{part} holds {weight} of {capacity}")),
        }
    }
}
