//! The tails: records that go soon, offered to a level below ahead of the clock's hand.

use super::Policy;
use crate::index::Index;
use crate::list::List;
use crate::offer::Offer;
use crate::place::Place;
use crate::record::Record;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// Appends to `offers` up to `records_max` records of a list that have not been offered where
    /// they stand, in the order in which the hand will come to them.
    ///
    /// Each list has a marker, and all records between the hand and it have been offered. It moves
    /// on while less than `ahead_bytes` lie between them, so that at most one record reaches
    /// beyond. A record that moves to the young end, of its list or of another, can be offered
    /// again when its turn comes. Partitions have even parts of `records_max`, and parts of
    /// `ahead_bytes` by what they hold on the list.
    pub fn offer(
        &mut self,
        list: List,
        ahead_bytes: u64,
        records_max: usize,
        offers: &mut Vec<Offer<K, V>>,
    ) {
        let (count, end) = (self.partitions.len(), offers.len() + records_max);
        for partition in 0..count {
            let place = Place::new(partition, list);
            let part = (end - offers.len()).div_ceil(count - partition);
            for _ in 0..part {
                if !self.lags(place, ahead_bytes) {
                    break;
                }
                let Some(slot) = self.directory.offer(place) else { break };
                offers.push(self.records().get(slot).offer());
            }
        }
    }

    /// Whether there is something to offer.
    pub(crate) fn has_offers(&self, list: List, ahead_bytes: u64) -> bool {
        self.places(list).any(|place| self.lags(place, ahead_bytes))
    }

    /// Whether the marker of a list is to move on.
    fn lags(&self, place: Place, ahead_bytes: u64) -> bool {
        let records = self.records();
        if records.marker(place).is_none() {
            return false;
        }
        let all: u64 = self.places(place.list()).map(|place| records.bytes(place)).sum();
        let part = records.bytes(place) as f64 / all.max(1) as f64;
        (records.offered_bytes(place) as f64) < ahead_bytes as f64 * part
    }
}

impl<K: Clone, V: Clone> Record<K, V> {
    fn offer(&self) -> Offer<K, V> {
        let prefetched = self.touch.prefetched();
        Offer {
            key: self.key.clone(),
            value: self.value.clone(),
            bytes: self.bytes,
            list: self.place.list(),
            touches: if prefetched { 0 } else { u16::from(self.touch.hits()) + 1 },
            tenant: self.tenant.into(),
            prefetched,
        }
    }
}
