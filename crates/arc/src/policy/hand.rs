//! The clock's hand: which record goes next, which ghosts are forgotten, and the weights that
//! decide it.

use super::{GHOST_SHARE, HAND_STEPS_MAX, Policy};
use crate::ghost::Ghost;
use crate::list::{Class, List, Queue};
use crate::record::Record;
use crate::slab::ITEMS_MAX;

impl<K: Eq, V: Clone> Policy<K, V> {
    /// Evicts one record and leaves its ghost.
    pub(super) fn evict(&mut self) -> Option<Record<K, V>> {
        let mut steps = 0;
        loop {
            let list = self.next_list()?;
            let slot = self.records.slab().head(list)?;
            let spared = list.queue != Queue::Uncached
                && steps < HAND_STEPS_MAX
                && self.records.update(slot, |record| record.touch.take_reference());
            if spared {
                self.transfer(slot, List::new(list.class, Queue::Mfu));
                steps += 1;
                continue;
            }
            let record = self.take(slot);
            let prefetched = record.touch.prefetched();
            let counters = &mut self.tenants.get_mut(record.tenant.into()).plain;
            counters.evictions += 1;
            counters.evicted_bytes += record.bytes;
            counters.prefetch_wasted += u64::from(prefetched);
            if list.queue != Queue::Uncached && self.ghosts.slab().len() < ITEMS_MAX {
                let bytes = u32::try_from(record.bytes).unwrap_or(u32::MAX);
                self.ghosts.push(Ghost { hash: record.hash, bytes, list, prefetched });
            }
            self.trim_ghosts();
            return Some(record);
        }
    }

    /// The list whose oldest record the hand looks at next; `None` if nothing is resident.
    pub(super) fn next_list(&self) -> Option<List> {
        let has = |list| self.records.slab().head(list).is_some();
        let uncached = Class::ALL.map(|class| List::new(class, Queue::Uncached));
        if let Some(list) = uncached.into_iter().find(|&list| has(list)) {
            return Some(list);
        }
        let (data, metadata) = (self.weight(Class::Data), self.weight(Class::Metadata));
        let lists = |class| (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
        let holds = |class| has(lists(class).0) || has(lists(class).1);
        let over = metadata as f64 > self.balance.metadata().of(data + metadata);
        let first = if over { Class::Metadata } else { Class::Data };
        let class = if holds(first) { first } else { first.other() };
        let (mru, mfu) = lists(class);
        let wanted = self.balance.mru(class).of(self.share(class));
        match (has(mru), has(mfu)) {
            (true, false) => Some(mru),
            (true, true) if self.list_weight(mru) as f64 >= wanted => Some(mru),
            (_, true) => Some(mfu),
            (false, false) => None,
        }
    }

    /// Forgets the oldest ghosts until all bounds hold.
    pub(super) fn trim_ghosts(&mut self) {
        for class in Class::ALL {
            let (mru, mfu) = (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
            while self.list_weight(mru) + self.ghost_weight(mru) > self.share(class)
                && self.ghosts.pop(mru).is_some()
            {}
            while self.weight(class) + self.ghost_weight(mru) + self.ghost_weight(mfu)
                > self.share(class).saturating_mul(2)
                && (self.ghosts.pop(mfu).is_some() || self.ghosts.pop(mru).is_some())
            {}
        }
        while self.ghosts.slab().len() > 0 && self.too_many_ghosts() {
            let heaviest = List::ALL.into_iter().max_by_key(|&list| self.ghost_weight(list));
            heaviest.and_then(|list| self.ghosts.pop(list));
        }
    }

    pub(super) fn too_many_ghosts(&self) -> bool {
        let weight: u64 =
            List::ALL.map(|l| self.list_weight(l) + self.ghost_weight(l)).iter().sum();
        weight > self.payload_capacity().saturating_mul(2)
            || self.ghost_memory() > self.bound() / GHOST_SHARE
    }

    /// Payload and headers of one list.
    pub(super) fn list_weight(&self, list: List) -> u64 {
        let slab = self.records.slab();
        slab.bytes(list) + slab.items(list) * self.record_overhead
    }

    /// What the ghosts of one list weighed as records.
    pub(super) fn ghost_weight(&self, list: List) -> u64 {
        let slab = self.ghosts.slab();
        slab.bytes(list) + slab.items(list) * self.record_overhead
    }

    /// Payload and headers of one class.
    pub(super) fn weight(&self, class: Class) -> u64 {
        Queue::ALL.map(|queue| self.list_weight(List::new(class, queue))).iter().sum()
    }

    /// Memory of the ghosts themselves.
    pub(super) fn ghost_memory(&self) -> u64 {
        self.ghosts.slab().len() as u64 * self.ghost_overhead
    }

    /// The capacity, or what is held if that is more: a shard may hold more than its share.
    pub(super) fn bound(&self) -> u64 {
        self.capacity.max(self.charged_bytes())
    }

    /// The papers' `c`: what is there for records.
    pub(super) fn payload_capacity(&self) -> u64 {
        self.bound().saturating_sub(self.ghost_memory())
    }

    /// The `c` of one class: what the other class leaves.
    pub(super) fn share(&self, class: Class) -> u64 {
        self.payload_capacity().saturating_sub(self.weight(class.other()))
    }
}
