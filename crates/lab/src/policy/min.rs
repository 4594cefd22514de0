use super::Policy;
use super::objects::Objects;
use super::positions::Positions;
use crate::trace::Trace;

/// There is no next access.
pub const NEVER: u32 = u32::MAX;

/// MIN, the optimum where all sizes are equal: what is needed again last goes, and what is never
/// needed again before all.
///
/// No policy that takes every missed object in has fewer misses, if all weigh the same; with
/// different weights it is a good policy that knows the future, and no bound. It must be given
/// the requests of the very trace that it was made for, from the first on.
///
/// The cache is the set of the times at which what it holds is needed again: the time of this
/// request is in the set if the object is in the cache. What is never needed again takes no place
/// in it, for it yields to anything.
///
/// L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
/// Journal 5(2), 1966.
#[derive(Debug)]
pub struct Min<'a> {
    capacity: u64,
    objects: Objects,
    ids: &'a [u32],
    next: &'a [u32],
    now: usize,
    weight: u64,
    needed: Positions,
}

impl<'a> Min<'a> {
    /// An empty cache, which knows what is to come.
    pub fn new(capacity: u64, objects: &Objects, trace: &'a Trace) -> Min<'a> {
        Min {
            capacity,
            objects: objects.clone(),
            ids: trace.ids(),
            next: trace.next_accesses(),
            now: 0,
            weight: 0,
            needed: Positions::new(trace.ids().len()),
        }
    }

    /// The weight of the object that is asked for at this time.
    fn weight_at(&self, time: usize) -> u64 {
        self.objects.weight(self.ids[time])
    }
}

impl Policy for Min<'_> {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let now = self.now;
        assert_eq!(self.ids[now], id, "the requests are not those of the trace");
        self.now += 1;
        let weight = self.objects.weight(id);
        let hit = self.needed.remove(now);
        if hit {
            self.weight -= weight;
        } else if weight > self.capacity {
            return false;
        }
        while self.weight + weight > self.capacity
            && let Some(last) = self.needed.pop_greatest()
        {
            self.weight -= self.weight_at(last);
        }
        if self.next[now] != NEVER {
            self.needed.insert(self.next[now] as usize);
            self.weight += weight;
        }
        hit
    }

    fn resident_weight(&self) -> u64 {
        self.weight
    }

    fn validate(&self) -> Result<(), String> {
        self.needed.validate()?;
        let weight: u64 = self.needed.iter().map(|time| self.weight_at(time)).sum();
        if weight != self.weight {
            return Err(format!("objects weigh {weight}, counted are {}", self.weight));
        }
        match self.needed.iter().next() {
            Some(time) if time < self.now => Err(format!("something is needed at {time}, past")),
            _ => Ok(()),
        }
    }
}
