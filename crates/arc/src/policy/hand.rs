//! The clock's hand: which record goes next, which ghosts are forgotten, and the weights that
//! decide it.

use super::{GHOST_SHARE, Giver, HAND_STEPS_MAX, Policy};
use crate::ghost::Fingerprint;
use crate::list::{Class, List, Queue};
use crate::partition::Partition;
use crate::place::Place;
use crate::record::Record;
use crate::slab::ITEMS_MAX;

impl<K: Eq, V: Clone> Policy<K, V> {
    /// Evicts one record and leaves its ghost. `None` if the giver holds nothing.
    pub(super) fn evict(&mut self, giver: Giver) -> Option<Record<K, V>> {
        let partition = match giver {
            Giver::Any => self.partitions.most_in_excess(self.bound())?,
            Giver::Partition(partition) => partition,
        };
        let mut steps = 0;
        loop {
            let place = Place::new(partition, self.next_list(partition)?);
            let list = place.list();
            let slot = self.records().head(place)?;
            let spared = list.queue != Queue::Uncached
                && steps < HAND_STEPS_MAX
                && self.directory.update(slot, |record| record.touch.take_reference());
            if spared {
                self.transfer(slot, place.with_list(List::new(list.class, Queue::Mfu)));
                steps += 1;
                continue;
            }
            let record = self.take_for_ghost(slot);
            let prefetched = record.touch.prefetched();
            let counters = &mut self.tenants.get_mut(record.tenant.into()).plain;
            counters.evictions += 1;
            counters.evicted_bytes += record.bytes;
            counters.prefetch_wasted += u64::from(prefetched);
            self.trim_ghosts_of(partition);
            return Some(record);
        }
    }

    /// Takes a record out and leaves its ghost, unless it was not to be kept.
    fn take_for_ghost(&mut self, slot: u32) -> Record<K, V> {
        let record = self.records().get(slot);
        let place = record.place;
        let full = self.directory.ghosts().len() >= ITEMS_MAX;
        if place.list().queue == Queue::Uncached || full {
            return self.take(slot);
        }
        let ghost = Fingerprint {
            hash: record.hash,
            bytes: u32::try_from(record.bytes).unwrap_or(u32::MAX),
            place,
            prefetched: record.touch.prefetched(),
        };
        let own = self.partitions.get_mut(place.partition());
        own.ghost_count += 1;
        own.ghosts[place.list().index()] += u64::from(ghost.bytes) + self.record_overhead;
        let record = self.directory.replace_by_ghost(slot, ghost);
        self.discount(&record);
        record
    }

    /// Takes a ghost out.
    pub(super) fn forget(&mut self, slot: u32) {
        let ghost = self.directory.forget(slot);
        let own = self.partitions.get_mut(ghost.place.partition());
        own.ghost_count -= 1;
        own.ghosts[ghost.place.list().index()] -= u64::from(ghost.bytes) + self.record_overhead;
    }

    /// The list whose oldest record the hand looks at next; `None` if the partition holds none.
    pub(super) fn next_list(&self, partition: usize) -> Option<List> {
        let has = |list| self.records().head(Place::new(partition, list)).is_some();
        let uncached = Class::ALL.map(|class| List::new(class, Queue::Uncached));
        if let Some(list) = uncached.into_iter().find(|&list| has(list)) {
            return Some(list);
        }
        let balance = &self.partitions.get(partition).balance;
        let [data, metadata] =
            Class::ALL.map(|class| self.partitions.get(partition).class_weight(class));
        let over = metadata as f64 > balance.metadata().of(data + metadata);
        let first = if over { Class::Metadata } else { Class::Data };
        let lists = |class| (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
        let holds = |class| has(lists(class).0) || has(lists(class).1);
        let class = if holds(first) { first } else { first.other() };
        let (mru, mfu) = lists(class);
        match (has(mru), has(mfu)) {
            (true, false) => Some(mru),
            (true, true) => {
                let wanted = balance.mru(class).of(self.share(partition, class));
                let recent = self.partitions.get(partition).records[mru.index()];
                Some(if recent as f64 >= wanted { mru } else { mfu })
            }
            (false, true) => Some(mfu),
            (false, false) => None,
        }
    }

    /// A ghost of `place` was hit, which weighs `hit` bytes: moves the targets.
    pub(super) fn learn(&mut self, place: Place, hit: u64) {
        let (partition, list) = (place.partition(), place.list());
        let ghosts = self.partitions.get(partition).ghosts;
        let (share, total) = (self.share(partition, list.class), self.room(partition));
        let balance = &mut self.partitions.get_mut(partition).balance;
        balance.learn(list, hit, &ghosts, share, total);
        if self.partitions.len() > 1 {
            let own = ghosts.iter().sum();
            let all: u64 = self.partitions.iter().map(Partition::ghosts_weight).sum();
            self.partitions.learn(partition, hit, own, all - own, self.bound());
        }
    }

    /// Forgets the oldest ghosts of all partitions until all bounds hold.
    pub(super) fn trim_ghosts(&mut self) {
        (0..self.partitions.len()).for_each(|partition| self.trim_ghosts_of(partition));
    }

    fn trim_ghosts_of(&mut self, partition: usize) {
        while let Some(list) = self.ghosts_in_excess(partition) {
            let oldest = self.directory.ghosts().head(Place::new(partition, list));
            let Some(oldest) = oldest else { panic!("{list:?} has no ghost to forget") };
            self.forget(oldest);
        }
    }

    /// The list with too many ghosts.
    pub(super) fn ghosts_in_excess(&self, partition: usize) -> Option<List> {
        let own = self.partitions.get(partition);
        if own.ghost_count == 0 {
            return None;
        }
        let (room, memory) = (self.room(partition), own.ghost_count * self.ghost_overhead);
        for class in Class::ALL {
            let share = room.saturating_sub(own.class_weight(class.other()));
            let (mru, mfu) = (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
            let (recent, frequent) = (own.ghosts[mru.index()], own.ghosts[mfu.index()]);
            if recent > 0 && own.records[mru.index()] + recent > share {
                return Some(mru);
            }
            let remembered = own.class_weight(class) + recent + frequent;
            if recent + frequent > 0 && remembered > share.saturating_mul(2) {
                return Some(if frequent > 0 { mfu } else { mru });
            }
        }
        let remembered = own.weight() + own.ghosts_weight();
        let many = remembered > room.saturating_mul(2) || memory > (room + memory) / GHOST_SHARE;
        many.then(|| List::ALL.into_iter().max_by_key(|list| own.ghosts[list.index()])).flatten()
    }

    /// Memory of all ghosts themselves.
    pub(super) fn ghost_memory(&self) -> u64 {
        self.directory.ghosts().len() as u64 * self.ghost_overhead
    }

    /// What is charged to one partition, bytes.
    pub(crate) fn charged_to(&self, partition: usize) -> u64 {
        let own = self.partitions.get(partition);
        own.weight() + own.ghost_count * self.ghost_overhead
    }

    /// The capacity, or what is held if that is more: a shard may hold more than its share.
    pub(super) fn bound(&self) -> u64 {
        self.capacity.max(self.charged_bytes())
    }

    /// The papers' `c`: what is there for records of a partition, which is what the others leave,
    /// within its limit.
    fn room(&self, partition: usize) -> u64 {
        let own = self.partitions.get(partition);
        let others = self.weight - own.weight();
        let left = self.bound().saturating_sub(self.ghost_memory() + others);
        match own.share.limit_bytes {
            u64::MAX => left,
            limit => left.min(limit.max(own.weight())),
        }
    }

    /// The `c` of one class: what the other class leaves.
    fn share(&self, partition: usize, class: Class) -> u64 {
        let other = self.partitions.get(partition).class_weight(class.other());
        self.room(partition).saturating_sub(other)
    }
}
