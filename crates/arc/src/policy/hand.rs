//! The clock's hand: which record goes next, and which ghosts are forgotten.

use super::{GHOST_SHARE, Giver, HAND_STEPS_MAX, Policy};
use crate::behaviour::{Behaviour, GHOST_REACH, PROMOTION_HITS};
use crate::ghost::Fingerprint;
use crate::index::Index;
use crate::list::{Class, List, Queue};
use crate::place::Place;
use crate::record::Record;
use crate::setting::{PolicyKind, Setting};
use crate::slab::ITEMS_MAX;
use crate::sync::Relaxed;

/// MRU is too long where it has this many times its share.
const MRU_EXCESS: f64 = 1.1;

/// MRU may have this part of its class while its oldest record was read ahead and waits for its
/// first read: what goes before that is read twice.
const UNREAD_SHARE: f64 = 0.25;

/// A list that holds exactly its target has reached it, although a fraction is not exact.
const ROUNDING: f64 = 1.0 - 1e-9;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// Evicts one record and leaves its ghost. `None` if the giver holds nothing.
    #[inline]
    pub(super) fn evict(&mut self, giver: Giver) -> Option<Record<K, V>> {
        let partition = match giver {
            Giver::AnyBut(keep) => {
                let weight = |number| self.weight_of(number);
                self.partitions.most_in_excess(|| self.bound(), weight, keep)?
            }
            Giver::Partition(partition) => partition,
        };
        self.note_setting(partition);
        let mut steps = 0;
        loop {
            let place = Place::new(partition, self.next_list(partition)?);
            let slot = self.records().head(place)?;
            if steps < HAND_STEPS_MAX && self.spare(slot) {
                steps += 1;
                continue;
            }
            self.step_past(place);
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
    #[inline]
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
            self.step_past(place);
            self.directory.update(slot, |record| record.touch.set_turns(left));
            self.transfer(slot, place.with_list(List::new(list.class, queue)));
        }
        turns >= needed
    }

    /// Takes note of a change of the setting, and of what stands on MRU at that time.
    #[inline]
    pub(super) fn note_setting(&mut self, partition: usize) {
        let own = self.partitions.get(partition);
        let setting = own.behaviour.setting();
        if own.setting != setting {
            let mru = |class| Place::new(partition, List::new(class, Queue::Mru));
            let carried = Class::ALL.map(|class| self.records().items(mru(class)));
            let own = self.partitions.get_mut(partition);
            (own.setting, own.carried) = (setting, carried);
        }
    }

    /// Takes note that the oldest record of a list leaves it.
    #[inline]
    fn step_past(&mut self, place: Place) {
        if let List { class, queue: Queue::Mru } = place.list() {
            let carried = &mut self.partitions.get_mut(place.partition()).carried[class as usize];
            *carried = carried.saturating_sub(1);
        }
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
    #[inline]
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
        let record = self.directory.replace_by_ghost(slot, ghost);
        self.discount(&record);
        record
    }

    /// Takes a ghost out.
    #[inline]
    pub(super) fn forget(&mut self, slot: u32) {
        self.directory.forget(slot);
    }

    /// The list whose oldest record the hand looks at next; `None` if the partition holds none.
    #[inline]
    pub(super) fn next_list(&self, partition: usize) -> Option<List> {
        let lists = self.records().lists(partition);
        let has = |list: List| lists[list.place_number()].items > 0;
        for class in Class::ALL {
            let uncached = List::new(class, Queue::Uncached);
            if has(uncached) {
                return Some(uncached);
            }
        }
        let queues = |class| (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
        let holds = |class| has(queues(class).0) || has(queues(class).1);
        let class = match (holds(Class::Data), holds(Class::Metadata)) {
            (true, true) => self.class_above(partition),
            (true, false) => Class::Data,
            (false, true) => Class::Metadata,
            (false, false) => return None,
        };
        let (mru, mfu) = queues(class);
        match (has(mru), has(mfu)) {
            (true, true) => Some(if self.mru_gives(partition, class) { mru } else { mfu }),
            (true, false) => Some(mru),
            (false, true) => Some(mfu),
            (false, false) => None,
        }
    }

    /// The class that holds more than its target.
    fn class_above(&self, partition: usize) -> Class {
        let target = self.partitions.get(partition).balance.metadata();
        let data = self.class_weight(partition, Class::Data);
        let metadata = self.class_weight(partition, Class::Metadata);
        let over = metadata as f64 > target.of(data + metadata);
        if over { Class::Metadata } else { Class::Data }
    }

    /// Whether MRU gives rather than MFU, where both hold something.
    #[inline]
    fn mru_gives(&self, partition: usize, class: Class) -> bool {
        let own = self.partitions.get(partition);
        let mru = Place::new(partition, List::new(class, Queue::Mru));
        let recent = self.list_weight(mru) as f64;
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
            // One record may always wait there for its next use, and others for their first.
            Some(setting) => {
                let oldest = self.records().head(mru).map(|slot| self.records().get(slot));
                let unread = oldest.is_some_and(|oldest| oldest.touch.prefetched());
                let part = if unread { setting.mru().max(UNREAD_SHARE) } else { setting.mru() };
                self.records().items(mru) > 1 && recent > part * share as f64
            }
        }
    }

    /// Whether MRU is too long even without its oldest record, in `slot`, which stood there when
    /// the setting was changed. Then it goes over to MFU as it is: as long as they gave way to each
    /// other MRU would not become shorter.
    #[inline]
    fn mru_overflows(&self, slot: u32, setting: Setting) -> bool {
        let oldest = self.records().get(slot);
        let (partition, list) = (oldest.place.partition(), oldest.place.list());
        if self.partitions.get(partition).carried[list.class as usize] == 0 {
            return false;
        }
        let left = self.list_weight(oldest.place) - (oldest.bytes + self.record_overhead);
        let share = setting.mru() * self.share(partition, list.class) as f64;
        left as f64 > MRU_EXCESS * share && self.records().items(oldest.place) > 2
    }

    /// A ghost that stood in `place` was hit, which weighs `hit` bytes: moves the targets.
    pub(super) fn learn(&mut self, place: Place, hit: u64) {
        let (partition, list) = (place.partition(), place.list());
        let mut ghosts = List::ALL.map(|list| self.ghosts_weight(Place::new(partition, list)));
        ghosts[list.index()] += hit;
        let (share, total) = (self.share(partition, list.class), self.room(partition));
        let balance = &mut self.partitions.get_mut(partition).balance;
        balance.learn(list, hit, &ghosts, share, total);
        if self.partitions.len() > 1 {
            let (own, bound) = (ghosts.iter().sum(), self.bound());
            let count = self.partitions.len();
            let all: u64 = (0..count).map(|number| self.ghosts_of(number).1).sum();
            self.partitions.learn(partition, hit, own, all + hit - own, bound);
        }
    }

    /// Forgets the oldest ghosts of all partitions until all bounds hold.
    #[inline]
    pub(super) fn trim_ghosts(&mut self) {
        (0..self.partitions.len()).for_each(|partition| self.trim_ghosts_of(partition));
    }

    #[inline]
    fn trim_ghosts_of(&mut self, partition: usize) {
        while let Some(list) = self.ghosts_in_excess(partition) {
            let oldest = self.directory.ghosts().head(Place::new(partition, list));
            let Some(oldest) = oldest else { panic!("{list:?} has no ghost to forget") };
            self.forget(oldest);
        }
    }

    /// The list with too many ghosts.
    #[inline]
    pub(super) fn ghosts_in_excess(&self, partition: usize) -> Option<List> {
        let (count, ghosts) = self.ghosts_of(partition);
        if count == 0 {
            return None;
        }
        let (room, memory) = (self.room(partition), count * self.ghost_overhead);
        let weight = |list| self.ghosts_weight(Place::new(partition, list));
        let heaviest = || {
            let mut heaviest = List::ALL[0];
            for list in List::ALL {
                if weight(list) >= weight(heaviest) {
                    heaviest = list;
                }
            }
            heaviest
        };
        let dear = memory > (room + memory) / GHOST_SHARE;
        if self.partitions.get(partition).behaviour.kind() == PolicyKind::Auto {
            let far = ghosts > room.saturating_mul(GHOST_REACH);
            return (dear || far && count > self.ghosts_min).then(heaviest);
        }
        for class in Class::ALL {
            let (mru, mfu) = (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
            let (recent, frequent) = (weight(mru), weight(mfu));
            if recent + frequent == 0 {
                continue;
            }
            let share = self.share_of(room, partition, class);
            if recent > 0 && self.list_weight(Place::new(partition, mru)) + recent > share {
                return Some(mru);
            }
            let remembered = self.class_weight(partition, class) + recent + frequent;
            if remembered > share.saturating_mul(2) {
                return Some(if frequent > 0 { mfu } else { mru });
            }
        }
        let remembered = self.weight_of(partition) + ghosts;
        (dear || remembered > room.saturating_mul(2)).then(heaviest)
    }
}
