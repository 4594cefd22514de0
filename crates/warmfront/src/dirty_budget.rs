use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::chunk::{Bytes, Chunk};
use crate::memory::Memory;
use crate::throttle::{Throttle, ThrottleStatistics};

/// The part of the ceiling that the dirty data of one pool may take, as its divisor. Half of it may
/// wait for the origin, as `zfs_dirty_data_max_percent` of OpenZFS.
const LIMIT_SHARE: u64 = 5;
/// Bounds of that limit, bytes. As `zfs_dirty_data_max_max` of OpenZFS.
const LIMIT_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=8 << 30;
/// Part of the limit, in hundredths, that the open txg may hold before it is closed early. As
/// `zfs_dirty_data_sync_percent` of OpenZFS, of the half that may wait.
const CLOSE_PERCENT: u64 = 10;
/// Most bytes that it may hold: a stream would fill RAM while the origin idles with more, and wait
/// for many flushes with less.
const CLOSE_BYTES_MAX: u64 = 256 << 20;
/// RAM that a chunk of dirty data is charged besides its bytes.
const CHUNK_CHARGE_BYTES: u64 = 192;

/// The RAM that the dirty data of a pool may take, and how writers are slowed as it fills.
///
/// What the origin has taken stays until it is known to last. So that room does not come back in
/// leaps that writers would feel, only half of the limit may wait for the origin; the other half
/// is for what the origin has taken meanwhile.
///
/// Each pool has its own, so that a slow origin stops nobody else's writers.
#[derive(Debug)]
pub(crate) struct DirtyBudget {
    memory: Arc<Memory>,
    dirty_bytes: AtomicU64,
    /// Bytes that the origin has taken since the last txg was committed: about so much of what is
    /// dirty does not wait for it.
    delivered_bytes: AtomicU64,
    throttle: Throttle,
}

impl DirtyBudget {
    pub(crate) fn new(memory: Arc<Memory>) -> Arc<DirtyBudget> {
        Arc::new(DirtyBudget {
            memory,
            dirty_bytes: AtomicU64::new(0),
            delivered_bytes: AtomicU64::new(0),
            throttle: Throttle::default(),
        })
    }

    /// Bytes that dirty data may take at most.
    pub(crate) fn limit_bytes(&self) -> u64 {
        let share = self.memory.ceiling_bytes() / LIMIT_SHARE;
        share.clamp(*LIMIT_BYTES.start(), *LIMIT_BYTES.end())
    }

    /// Bytes that it takes.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Bytes from which on the open txg is closed before its time.
    pub(crate) fn close_bytes(&self) -> u64 {
        (self.limit_bytes() / 100 * CLOSE_PERCENT).min(CLOSE_BYTES_MAX)
    }

    /// Most bytes of one chunk; longer writes are cut.
    pub(crate) fn chunk_bytes_max(&self) -> u64 {
        (self.limit_bytes() / 8).min(1 << 20)
    }

    /// Takes what is written in, if there is room.
    pub(crate) fn chunk(self: &Arc<DirtyBudget>, data: &Bytes<'_>) -> Option<Arc<Chunk>> {
        self.charge(data.len() + CHUNK_CHARGE_BYTES)
            .then(|| Arc::new(Chunk::charged(data, self.clone())))
    }

    /// Whether so many bytes would be taken now.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.dirty_bytes() + bytes + CHUNK_CHARGE_BYTES <= self.limit_bytes()
    }

    pub(crate) fn charge(&self, bytes: u64) -> bool {
        let limit = self.limit_bytes();
        let add = |dirty: u64| Some(dirty + bytes).filter(|sum| *sum <= limit);
        let charged =
            self.dirty_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if charged {
            self.memory.charge_for_good(bytes);
        }
        charged
    }

    /// Takes the charge of a chunk of so many bytes back.
    pub(crate) fn give_back(&self, bytes: u64) {
        let bytes = bytes + CHUNK_CHARGE_BYTES;
        let before = self.dirty_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more dirty data given back than was taken");
        self.memory.discharge(bytes);
    }

    /// How long a write of so many bytes that comes now has to wait.
    pub(crate) fn delay(&self, bytes: u64, now: Duration) -> Duration {
        self.throttle.delay(bytes, self.waiting_bytes(), self.limit_bytes() / 2, now)
    }

    /// About how many bytes the origin has not taken yet.
    fn waiting_bytes(&self) -> u64 {
        self.dirty_bytes().saturating_sub(self.delivered_bytes.load(Ordering::Relaxed))
    }

    /// Notes that the origin has taken so many bytes, in such a time.
    pub(crate) fn delivered(&self, bytes: u64, time: Duration) {
        self.delivered_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.throttle.drained(bytes, time);
    }

    /// Notes that a txg has ended, and how long it took until what the origin has lasted.
    pub(crate) fn ended(&self, flushing: Duration) {
        self.delivered_bytes.store(0, Ordering::Relaxed);
        self.throttle.drained(0, flushing);
    }

    pub(crate) fn statistics(&self) -> ThrottleStatistics {
        ThrottleStatistics {
            dirty_bytes: self.dirty_bytes(),
            dirty_bytes_max: self.limit_bytes(),
            waiting_bytes: self.waiting_bytes(),
            ..self.throttle.statistics()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_limit_holds_and_all_is_given_back() {
        let budget = DirtyBudget::new(Memory::new(40 << 20));
        let data = vec![0; 5 << 20];
        let chunk = budget.chunk(&Bytes::Borrowed(&data)).expect("there is room");
        assert!(budget.chunk(&Bytes::Borrowed(&data)).is_none(), "the limit is 8 MiB");
        assert!(!budget.has_room(data.len() as u64) && budget.has_room(1 << 20));
        drop(chunk);
        assert_eq!(budget.dirty_bytes(), 0);
        assert!(budget.chunk(&Bytes::Borrowed(&data)).is_some());
    }

    #[test]
    fn what_the_origin_has_taken_delays_nobody() {
        let budget = DirtyBudget::new(Memory::new(40 << 20));
        assert_eq!(budget.delay(4096, SECOND), Duration::ZERO);
        let _chunk = budget.chunk(&Bytes::Borrowed(&vec![0; 3 << 20])).expect("there is room");
        let delay = budget.delay(4096, SECOND);
        assert!(delay > Duration::ZERO, "three of four MiB wait");
        budget.delivered(2 << 20, SECOND);
        assert_eq!(budget.delay(4096, 2 * SECOND), Duration::ZERO);
        budget.ended(SECOND);
        assert!(budget.delay(4096, 3 * SECOND) > Duration::ZERO);
    }
}
