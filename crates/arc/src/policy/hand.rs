//! The clock's hand: which record goes next, which ghosts are forgotten, and the weights that
//! decide it.

use super::{GHOST_SHARE, Giver, HAND_STEPS_MAX, Policy};
use crate::behaviour::{Behaviour, GHOST_REACH, PROMOTION_HITS};
use crate::ghost::Fingerprint;
use crate::index::Index;
use crate::list::{Class, List, Queue};
use crate::partition::Partition;
use crate::place::Place;
use crate::record::Record;
use crate::setting::{PolicyKind, Setting};
use crate::slab::{ITEMS_MAX, Item};
use crate::sync::Relaxed;

/// MRU is too long where it has this many times its share.
const MRU_EXCESS: f64 = 1.1;

/// A list that holds exactly its target has reached it, although a fraction is not exact.
const ROUNDING: f64 = 1.0 - 1e-9;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// Evicts one record and leaves its ghost. `None` if the giver holds nothing.
    pub(super) fn evict(&mut self, giver: Giver) -> Option<Record<K, V>> {
        let partition = match giver {
            Giver::Any => self.partitions.most_in_excess(|| self.bound())?,
            Giver::Partition(partition) => partition,
        };
        let mut steps = 0;
        loop {
            let place = Place::new(partition, self.next_list(partition)?);
            let slot = self.records().head(place)?;
            if steps < HAND_STEPS_MAX && self.spare(slot) {
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

    /// Moves the oldest record of a list on, if it was used often enough.
    fn spare(&mut self, slot: u32) -> bool {
        let record = self.records().get(slot);
        let (place, turns) = (record.place, record.touch.turns());
        let list = place.list();
        let setting = self.partitions.get(place.partition()).behaviour.setting();
        let (needed, left, queue) = match (setting, list.queue) {
            (Some(setting), Queue::Mru) if self.mru_overflows(slot, setting) => (0, 0, Queue::Mfu),
            (_, Queue::Uncached) => return false,
            (None, _) => (1, 0, Queue::Mfu),
            (Some(Setting::Recency), queue) => (1, 0, queue),
            (Some(_), Queue::Mru) => (PROMOTION_HITS, 0, Queue::Mfu),
            (Some(_), Queue::Mfu) => (1, turns.saturating_sub(1), Queue::Mfu),
        };
        if turns >= needed {
            self.directory.update(slot, |record| record.touch.set_turns(left));
            self.transfer(slot, place.with_list(List::new(list.class, queue)));
        }
        turns >= needed
    }

    /// Lets the hand pass up to `turns` records of a list that were used.
    pub(super) fn turn(&mut self, place: Place, turns: u32) {
        for _ in 0..turns {
            match self.records().head(place) {
                Some(slot) if self.spare(slot) => {}
                _ => break,
            }
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
        let (used, prefetched) = (record.used.load(Relaxed), record.touch.prefetched());
        // Where ghosts are one queue, in the order in which they came, they stand on MRU's list.
        let remembered = match self.partitions.get(place.partition()).behaviour {
            Behaviour::Arc => place,
            _ => place.with_list(List::new(place.list().class, Queue::Mru)),
        };
        let ghost = Fingerprint::new(record.hash, record.bytes, remembered, used, prefetched);
        let own = self.partitions.get_mut(place.partition());
        own.ghost_count += 1;
        own.ghosts[remembered.list().index()] += ghost.bytes() + self.record_overhead;
        let record = self.directory.replace_by_ghost(slot, ghost);
        self.discount(&record);
        record
    }

    /// Takes a ghost out.
    pub(super) fn forget(&mut self, slot: u32) {
        let ghost = self.directory.forget(slot);
        let own = self.partitions.get_mut(ghost.place.partition());
        own.ghost_count -= 1;
        own.ghosts[ghost.place.list().index()] -= ghost.bytes() + self.record_overhead;
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
            (true, true) => Some(if self.mru_gives(partition, class) { mru } else { mfu }),
            (true, false) => Some(mru),
            (false, true) => Some(mfu),
            (false, false) => None,
        }
    }

    /// Whether MRU gives rather than MFU, where both hold something.
    fn mru_gives(&self, partition: usize, class: Class) -> bool {
        let own = self.partitions.get(partition);
        let mru = Place::new(partition, List::new(class, Queue::Mru));
        let recent = own.records[mru.list().index()] as f64;
        let share = self.share(partition, class);
        match own.behaviour.setting() {
            None => recent >= own.balance.mru(class).of(share) * ROUNDING,
            Some(Setting::Recency) => {
                let mfu = mru.with_list(List::new(class, Queue::Mfu));
                let age = |place| {
                    self.records().head(place).map(|slot| self.records().get(slot).age(self.clock))
                };
                age(mru) >= age(mfu)
            }
            // One record may always wait there for its next use.
            Some(setting) => self.records().items(mru) > 1 && recent > setting.mru() * share as f64,
        }
    }

    /// Whether MRU is too long even without its oldest record, in `slot`, because the setting was
    /// changed. Then its oldest go over to MFU as they are: as long as they gave way to each other
    /// it would not become shorter.
    fn mru_overflows(&self, slot: u32, setting: Setting) -> bool {
        let oldest = self.records().get(slot);
        let (partition, list) = (oldest.place.partition(), oldest.place.list());
        let recent = self.partitions.get(partition).records[list.index()];
        let left = recent - (oldest.bytes + self.record_overhead);
        let share = setting.mru() * self.share(partition, list.class) as f64;
        left as f64 > MRU_EXCESS * share && self.records().items(oldest.place) > 2
    }

    /// A ghost that stood in `place` was hit, which weighs `hit` bytes: moves the targets.
    pub(super) fn learn(&mut self, place: Place, hit: u64) {
        let (partition, list) = (place.partition(), place.list());
        let mut ghosts = self.partitions.get(partition).ghosts;
        ghosts[list.index()] += hit;
        let (share, total) = (self.share(partition, list.class), self.room(partition));
        let balance = &mut self.partitions.get_mut(partition).balance;
        balance.learn(list, hit, &ghosts, share, total);
        if self.partitions.len() > 1 {
            let own = ghosts.iter().sum();
            let all: u64 = self.partitions.iter().map(Partition::ghosts_weight).sum::<u64>() + hit;
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
        let heaviest = || List::ALL.into_iter().max_by_key(|list| own.ghosts[list.index()]);
        let dear = memory > (room + memory) / GHOST_SHARE;
        if own.behaviour.kind() == PolicyKind::Auto {
            let far = own.ghosts_weight() > room.saturating_mul(GHOST_REACH);
            return (dear || far && own.ghost_count > self.ghosts_min).then(heaviest).flatten();
        }
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
        (dear || remembered > room.saturating_mul(2)).then(heaviest).flatten()
    }

    /// Memory of all ghosts themselves.
    #[inline]
    pub(super) fn ghost_memory(&self) -> u64 {
        self.directory.ghosts().len() as u64 * self.ghost_overhead
    }

    /// What is charged to one partition, bytes.
    pub(crate) fn charged_to(&self, partition: usize) -> u64 {
        let own = self.partitions.get(partition);
        own.weight() + own.ghost_count * self.ghost_overhead
    }

    /// The capacity, or what is held if that is more: a shard may hold more than its share.
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.capacity.max(self.charged_bytes()).saturating_sub(self.aside)
    }

    /// What there is for records and ghosts of a partition.
    pub(super) fn bound_of(&self, partition: usize) -> u64 {
        self.room(partition) + self.partitions.get(partition).ghost_count * self.ghost_overhead
    }

    /// The papers' `c`: what is there for records of a partition, which is what the others leave,
    /// within its limit.
    #[inline]
    fn room(&self, partition: usize) -> u64 {
        let own = self.partitions.get(partition);
        let others = if self.partitions.len() == 1 { 0 } else { self.weight - own.weight() };
        let left = self.bound().saturating_sub(self.ghost_memory() + others);
        match own.share.limit_bytes {
            u64::MAX => left,
            limit => left.min(limit.max(own.weight())),
        }
    }

    /// The `c` of one class: what the other class leaves.
    pub(super) fn share(&self, partition: usize, class: Class) -> u64 {
        let other = self.partitions.get(partition).class_weight(class.other());
        self.room(partition).saturating_sub(other)
    }
}
