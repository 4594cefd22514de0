//! Going on where an earlier policy ended.

use super::Policy;
use crate::behaviour::Behaviour;
use crate::ghost::Fingerprint;
use crate::index::Index;
use crate::list::{List, Queue};
use crate::place::Place;
use crate::slab::ITEMS_MAX;
use crate::standing::{Remembered, Standing, Targets};
use crate::sync::Relaxed;
use crate::touch::TURNS_MAX;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// Insertions so far; it turns over.
    pub(crate) fn clock(&self) -> u32 {
        self.clock
    }

    /// Number of all ghosts.
    pub(crate) fn ghosts_len(&self) -> usize {
        self.directory.ghosts().len()
    }

    /// Ghosts of one list of a partition, youngest first.
    pub(crate) fn remembered(
        &self,
        partition: usize,
        list: List,
    ) -> impl Iterator<Item = Remembered> {
        let ghosts = self.directory.ghosts();
        ghosts.newest(Place::new(partition, list)).map(move |slot| {
            let ghost = ghosts.get(slot);
            let age = u64::from(ghost.age(self.clock));
            let crate::Ghost { bytes, list, prefetched } = ghost.ghost();
            Remembered { hash: ghost.hash, list, bytes, prefetched, age }
        })
    }

    /// Takes a ghost in as the youngest of its list, of a record that was last used at `used`,
    /// unless something is known under its hash.
    pub(crate) fn remember(&mut self, partition: usize, ghost: &Remembered, used: u32) {
        let is_full = self.ghosts_len() >= ITEMS_MAX;
        if is_full || ghost.list.queue == Queue::Uncached || self.directory.knows(ghost.hash) {
            return;
        }
        let list = match self.partitions.get(partition).behaviour {
            Behaviour::Arc => ghost.list,
            _ => List::new(ghost.list.class, Queue::Mru),
        };
        let place = Place::new(partition, list);
        let Remembered { hash, bytes, prefetched, .. } = *ghost;
        self.directory.remember(Fingerprint::new(hash, bytes, place, used, prefetched));
        self.trim_ghosts();
    }

    /// Lets a record stand on MFU. `false` if it is not resident.
    pub(crate) fn promote(&mut self, hash: u64, key: &K) -> bool {
        let Some(slot) = self.directory.record(hash, key) else { return false };
        let place = self.records().get(slot).place;
        if place.list().queue != Queue::Mfu {
            self.transfer(slot, place.with_list(List::new(place.list().class, Queue::Mfu)));
        }
        true
    }

    /// Lets a record that was primed stand as it did when it was last used, at `used`, as the
    /// youngest of its list. If it was used since, that comes on top. `false` if it is not
    /// resident.
    pub(crate) fn resume(&mut self, hash: u64, key: &K, standing: &Standing, used: u32) -> bool {
        let Some(slot) = self.directory.record(hash, key) else { return false };
        let record = self.records().get(slot);
        let (place, is_unused) = (record.place, record.touch.prefetched());
        let queue = match standing.queue {
            Queue::Mfu => Queue::Mfu,
            _ => place.list().queue,
        };
        self.directory.update(slot, |record| {
            if is_unused {
                record.touch.set_unread(standing.unread);
                record.touch.set_turns(standing.turns.min(TURNS_MAX));
                record.used.store(used, Relaxed);
            } else {
                // What was the first read here was another one there.
                let since = record.touch.turns() + u8::from(!standing.unread);
                record.touch.set_turns(standing.turns.saturating_add(since).min(TURNS_MAX));
            }
        });
        self.transfer(slot, place.with_list(List::new(place.list().class, queue)));
        true
    }

    /// Goes on with targets that were learned before.
    pub(crate) fn set_targets(&mut self, partition: usize, targets: &Targets) {
        let own = self.partitions.get_mut(partition);
        own.balance.set(targets.mru, targets.metadata);
        self.trim_ghosts();
    }
}
