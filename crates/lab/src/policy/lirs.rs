use super::Policy;
use super::objects::Objects;
use super::queues::Queues;

/// The only queue of each of the two structures.
const ALL: usize = 0;

/// LIRS: keeps what comes back soonest, measured by the other objects between two uses.
///
/// Most of the capacity is for objects with a low inter-reference recency (LIR), 1 %, and at
/// least 2, for the others (HIR). The stack holds objects by their last use: all LIR ones, and
/// those HIR ones, resident or gone, that were used more recently than the oldest LIR one. An HIR
/// object that is used while it stands on the stack has come back sooner than the oldest LIR
/// object, and takes its place. Resident HIR objects stand on a queue as well, whose oldest goes
/// first.
///
/// S. Jiang, X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to
/// Improve Buffer Cache Performance", SIGMETRICS 2002. As there, the stack is not bounded: it may
/// remember every object of the trace.
#[derive(Debug)]
pub struct Lirs {
    capacity: u64,
    lir_capacity: u64,
    lir_weight: u64,
    is_lir: Vec<bool>,
    stack: Queues<1>,
    /// Resident HIR objects.
    hir: Queues<1>,
}

impl Lirs {
    /// An empty cache.
    pub fn new(capacity: u64, objects: &Objects) -> Lirs {
        let hir_capacity = (capacity / 100).max(2).min(capacity);
        Lirs {
            capacity,
            lir_capacity: capacity.saturating_sub(hir_capacity),
            lir_weight: 0,
            is_lir: vec![false; objects.count()],
            stack: Queues::new(objects),
            hir: Queues::new(objects),
        }
    }

    /// Takes off the old end of the stack what is older than the oldest LIR object.
    fn prune(&mut self) {
        while let Some(id) = self.stack.oldest(ALL)
            && !self.is_lir[id as usize]
        {
            self.stack.remove(id);
        }
    }

    /// Makes an object LIR, and the oldest LIR ones HIR for it.
    fn promote(&mut self, id: u32) {
        self.hir.remove(id);
        self.is_lir[id as usize] = true;
        self.lir_weight += self.stack.objects().weight(id);
        self.stack.push(ALL, id);
        self.prune();
        while self.lir_weight > self.lir_capacity {
            self.demote_oldest();
        }
    }

    /// Makes the oldest LIR object HIR.
    fn demote_oldest(&mut self) {
        let oldest = self.stack.pop(ALL).expect("an LIR object is on the stack");
        self.is_lir[oldest as usize] = false;
        self.lir_weight -= self.stack.objects().weight(oldest);
        self.hir.push(ALL, oldest);
        self.prune();
    }

    /// Lets the oldest resident HIR objects go until `weight` fits.
    fn evict(&mut self, weight: u64) {
        while self.resident_weight() + weight > self.capacity {
            if self.hir.pop(ALL).is_none() {
                self.demote_oldest();
            }
        }
    }
}

impl Policy for Lirs {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        if self.is_lir[id as usize] {
            let was_oldest = self.stack.oldest(ALL) == Some(id);
            self.stack.push(ALL, id);
            if was_oldest {
                self.prune();
            }
            return true;
        }
        let hit = self.hir.is_on(ALL, id);
        let weight = self.stack.objects().weight(id);
        if !hit {
            if weight > self.capacity {
                return false;
            }
            self.evict(weight);
        }
        let fills_up = !hit && self.lir_weight + weight <= self.lir_capacity;
        if fills_up || self.stack.is_on(ALL, id) {
            self.promote(id);
        } else {
            self.stack.push(ALL, id);
            self.prune();
            self.hir.push(ALL, id);
        }
        hit
    }

    fn resident_weight(&self) -> u64 {
        self.lir_weight + self.hir.weight(ALL)
    }

    fn validate(&self) -> Result<(), String> {
        self.stack.validate()?;
        self.hir.validate()?;
        let lir: Vec<u32> = self.stack.iter(ALL).filter(|&id| self.is_lir[id as usize]).collect();
        let weight: u64 = lir.iter().map(|&id| self.stack.objects().weight(id)).sum();
        if weight != self.lir_weight || weight > self.lir_capacity {
            return Err(format!("LIR objects weigh {weight}, counted are {}", self.lir_weight));
        }
        if self.is_lir.iter().filter(|&&is_lir| is_lir).count() != lir.len() {
            return Err("an LIR object is not on the stack".to_string());
        }
        if self.stack.oldest(ALL).is_some_and(|id| !self.is_lir[id as usize]) {
            return Err("the oldest object on the stack is not LIR".to_string());
        }
        match self.hir.iter(ALL).find(|&id| self.is_lir[id as usize]) {
            Some(id) => Err(format!("object {id} is LIR, and on the queue of the others")),
            None => Ok(()),
        }
    }
}
