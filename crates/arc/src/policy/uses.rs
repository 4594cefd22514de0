//! What an access says: to the shadows, to the targets, and about the list that a record earns.

use std::time::Duration;

use super::{Evicted, Policy};
use crate::behaviour::{Behaviour, PROMOTION_HITS};
use crate::index::Index;
use crate::list::{List, Queue};
use crate::place::Place;
use crate::record::{Charge, Kind, Record};
use crate::setting::Setting;
use crate::sync::Relaxed;
use crate::touch::Noted;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// A resident record was used, not only again within the same touch.
    #[inline]
    pub(super) fn note_use(&self, record: &Record<K, V>, noted: Noted, now: Duration) {
        let stale = record.used.load(Relaxed) != self.clock;
        if stale || matches!(noted, Noted::First | Noted::Again) {
            self.tell_use(record, stale, noted, now);
        }
    }

    #[inline(never)]
    fn tell_use(&self, record: &Record<K, V>, stale: bool, noted: Noted, now: Duration) {
        let behaviour = &self.partitions.get(record.place.partition()).behaviour;
        if let Behaviour::Arc = behaviour {
            return;
        }
        if stale {
            record.used.store(self.clock, Relaxed);
        }
        if let Behaviour::Tuned(tuner) = behaviour
            && tuner.samples(record.hash)
        {
            let class = record.place.list().class;
            let bound = self.bound_of(record.place.partition());
            // Without the prefetch it would have been a miss, and misses are all told.
            let patient = noted == Noted::First;
            tuner.access(record.hash, record.bytes, class, now, bound, patient);
        }
    }

    /// Somebody asked for a record that is not there.
    #[inline]
    pub(super) fn note_miss(&self, hash: u64, charge: &Charge, now: Duration) {
        let partition = self.tenants.partition(charge.tenant);
        if let Behaviour::Tuned(tuner) = &self.partitions.get(partition).behaviour
            && charge.kind == Kind::Demand
            && tuner.samples(hash)
        {
            let bound = self.bound_of(partition);
            tuner.access(hash, charge.bytes, charge.class, now, bound, true);
        }
    }

    /// Somebody brings in what is resident. If that was prefetched and not yet read, it was on its
    /// way when it was asked for, and this is its first read, of which the shadows know as of a
    /// miss.
    pub(super) fn note_arrival(&self, slot: u32, kind: Kind, now: Duration) {
        let touch = &self.records().get(slot).touch;
        if kind == Kind::Demand && touch.prefetched() {
            touch.hit(now, self.window_us);
        }
    }

    /// The queue that a record has earned which comes back while its ghost stands in `slot`, with
    /// the first read if it was prefetched.
    #[inline]
    pub(super) fn earned(&mut self, slot: u32, charge: &Charge) -> Queue {
        let ghost = self.directory.ghosts().get(slot).ghost();
        let partition = self.tenants.partition(charge.tenant);
        match self.partitions.get(partition).behaviour.setting() {
            // ARC: a second use, wherever the first was.
            None if ghost.list.queue == Queue::Mfu => Queue::Mfu,
            _ if ghost.prefetched => Queue::Mru,
            None => Queue::Mfu,
            Some(Setting::Recency) => Queue::Mru,
            Some(setting) => {
                let mfu = Place::new(partition, List::new(charge.class, Queue::Mfu));
                self.turn(mfu, setting.turns());
                let age = self.directory.ghosts().get(slot).age(self.clock);
                let oldest = self.records().head(mfu).map(|oldest| self.records().get(oldest));
                match oldest {
                    Some(oldest) if oldest.age(self.clock) < age => Queue::Mru,
                    _ => Queue::Mfu,
                }
            }
        }
    }

    /// Turns that a record has before its first read so that it goes on to the queue which it has
    /// earned once it is read.
    pub(super) fn turns_lent(&self, partition: usize, earned: Queue) -> u8 {
        let is_tuned = self.partitions.get(partition).behaviour.setting().is_some();
        if is_tuned && earned == Queue::Mfu { PROMOTION_HITS - 1 } else { 0 }
    }

    /// The queue of a record of which nothing is remembered.
    ///
    /// While there is room, a tuned partition fills MFU: whatever comes first is as good as
    /// anything, and MRU is too small to hold it until it is used again.
    #[inline]
    pub(super) fn first_queue(&self, partition: usize, charge: &Charge, evicted: Evicted) -> Queue {
        if charge.kind == Kind::Passing {
            return Queue::Uncached;
        }
        let own = self.partitions.get(partition);
        let Some(setting) = own.behaviour.setting() else { return Queue::Mru };
        let mfu = List::new(charge.class, Queue::Mfu);
        let filled = self.list_weight(Place::new(partition, mfu)) as f64;
        let room = self.share(partition, charge.class) as f64;
        let fills = charge.kind == Kind::Demand && evicted.records == 0;
        if fills && filled < (1.0 - setting.mru()) * room { Queue::Mfu } else { Queue::Mru }
    }
}
