use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::memory::Memory;

/// The part of the ceiling that the dirty data of one pool may take, as its divisor. As
/// `zfs_dirty_data_max_percent` of OpenZFS.
const LIMIT_SHARE: u64 = 10;
/// Bounds of that limit, bytes. As `zfs_dirty_data_max_max` of OpenZFS.
const LIMIT_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=4 << 30;
/// Part of the limit, in hundredths, from which on writers are delayed. As
/// `zfs_delay_min_dirty_percent` of OpenZFS.
const DELAY_FROM_PERCENT: u64 = 60;
/// Part of the limit, in hundredths, that the open txg may hold before it is closed early. As
/// `zfs_dirty_data_sync_percent` of OpenZFS.
const CLOSE_PERCENT: u64 = 20;
/// The steepness of the delay. As `zfs_delay_scale` of OpenZFS: at the middle between its
/// beginning and the limit a write is delayed by so much.
const DELAY_SCALE: Duration = Duration::from_micros(500);
/// The longest delay of one write. As `zfs_delay_max_ns` of OpenZFS.
const DELAY_MAX: Duration = Duration::from_millis(100);
/// RAM that a piece of dirty data is charged besides its bytes.
const CHUNK_CHARGE_BYTES: u64 = 192;
/// How far a chunk grows by appends.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// The RAM that the dirty data of a pool may take, and how writers are slowed as it fills.
///
/// Each pool has its own, so that a slow origin stops nobody else's writers.
#[derive(Debug)]
pub(crate) struct DirtyBudget {
    memory: Arc<Memory>,
    dirty_bytes: AtomicU64,
    delay: Mutex<DelayState>,
}

#[derive(Debug, Default)]
struct DelayState {
    /// Until when the writers before have been told to wait.
    until: Duration,
    /// Waited so far in all.
    total: Duration,
    delayed_writes: u64,
    /// The last delay.
    last: Duration,
}

/// How writers are slowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottleStatistics {
    /// Bytes of dirty data, with what has been written and not been committed.
    pub dirty_bytes: u64,
    /// Bytes that they may be at most.
    pub dirty_bytes_max: u64,
    /// Writes that were delayed.
    pub delayed_writes: u64,
    /// How long in all.
    pub delayed: Duration,
    /// The delay of the last one.
    pub last_delay: Duration,
}

/// The bytes of one write, charged for as long as anybody holds them.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    budget: Arc<DirtyBudget>,
}

impl DirtyBudget {
    pub(crate) fn new(memory: Arc<Memory>) -> Arc<DirtyBudget> {
        let (dirty_bytes, delay) = (AtomicU64::new(0), Mutex::default());
        Arc::new(DirtyBudget { memory, dirty_bytes, delay })
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
        self.limit_bytes() / 100 * CLOSE_PERCENT
    }

    /// Most bytes of one chunk; longer writes are cut.
    pub(crate) fn chunk_bytes_max(&self) -> usize {
        (self.limit_bytes() / 4).min(1 << 20) as usize
    }

    /// Takes a copy of bytes, if there is room.
    pub(crate) fn chunk(self: &Arc<DirtyBudget>, data: &[u8]) -> Option<Arc<Chunk>> {
        self.charge(data.len() as u64 + CHUNK_CHARGE_BYTES)
            .then(|| Arc::new(Chunk { bytes: data.to_vec(), budget: self.clone() }))
    }

    /// Whether so many bytes would be taken now.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.dirty_bytes() + bytes + CHUNK_CHARGE_BYTES <= self.limit_bytes()
    }

    fn charge(&self, bytes: u64) -> bool {
        let limit = self.limit_bytes();
        let add = |dirty: u64| Some(dirty + bytes).filter(|sum| *sum <= limit);
        let charged =
            self.dirty_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if charged {
            self.memory.charge_for_good(bytes);
        }
        charged
    }

    fn give_back(&self, bytes: u64) {
        let before = self.dirty_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more dirty data given back than was taken");
        self.memory.discharge(bytes);
    }

    /// How long a write that comes now has to wait. Those who come together wait one after the
    /// other.
    pub(crate) fn delay(&self, now: Duration) -> Duration {
        let delay = delay(self.dirty_bytes(), self.limit_bytes());
        if delay.is_zero() {
            return delay;
        }
        let mut state = self.delay.lock();
        state.until = (state.until.max(now) + delay).min(now + DELAY_MAX);
        let wait = state.until - now;
        state.total += wait;
        state.last = wait;
        state.delayed_writes += 1;
        wait
    }

    pub(crate) fn statistics(&self) -> ThrottleStatistics {
        let state = self.delay.lock();
        ThrottleStatistics {
            dirty_bytes: self.dirty_bytes(),
            dirty_bytes_max: self.limit_bytes(),
            delayed_writes: state.delayed_writes,
            delayed: state.total,
            last_delay: state.last,
        }
    }
}

/// The delay of one write while so much of the limit is dirty: none up to 60 % of it, then growing
/// hyperbolically.
fn delay(dirty_bytes: u64, limit_bytes: u64) -> Duration {
    let from = limit_bytes / 100 * DELAY_FROM_PERCENT;
    if dirty_bytes <= from {
        return Duration::ZERO;
    }
    let left = limit_bytes.saturating_sub(dirty_bytes).max(1);
    let scaled = DELAY_SCALE.as_secs_f64() * (dirty_bytes - from) as f64 / left as f64;
    Duration::from_secs_f64(scaled.min(DELAY_MAX.as_secs_f64()))
}

impl Chunk {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds bytes, if there is room.
    pub(crate) fn append(&mut self, data: &[u8]) -> bool {
        let fits = self.bytes.len() + data.len() <= CHUNK_BYTES_MAX;
        let added = fits && self.budget.charge(data.len() as u64);
        if added {
            self.bytes.extend_from_slice(data);
        }
        added
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes.len() as u64 + CHUNK_CHARGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_begins_at_sixty_percent_and_grows_without_a_step() {
        let limit = 100 << 20;
        assert_eq!(delay(60 << 20, limit), Duration::ZERO);
        assert_eq!(delay(80 << 20, limit), DELAY_SCALE, "half way");
        let mut before = Duration::ZERO;
        for dirty in (60 << 20..=limit).step_by(1 << 16) {
            let next = delay(dirty, limit);
            assert!(next >= before && next <= DELAY_MAX);
            let step = next.as_secs_f64() / before.as_secs_f64().max(10e-6);
            assert!(step < 2.1, "{before:?} then {next:?} at {dirty}");
            before = next;
        }
        assert_eq!(before, DELAY_MAX);
    }

    #[test]
    fn writers_who_come_together_wait_one_after_the_other() {
        let budget = DirtyBudget::new(Memory::new(40 << 20));
        assert_eq!(budget.delay(Duration::ZERO), Duration::ZERO);
        let data = vec![0; 3400 << 10];
        let chunk = budget.chunk(&data).expect("there is room");
        let now = Duration::from_secs(1);
        let first = budget.delay(now);
        assert!(first > Duration::ZERO);
        assert_eq!(budget.delay(now), 2 * first);
        assert_eq!(budget.delay(now + Duration::from_secs(1)), first, "all have gone on");
        assert!(budget.chunk(&data).is_none(), "the limit holds");
        drop(chunk);
        assert_eq!(budget.dirty_bytes(), 0);
        assert!(budget.chunk(&data).is_some());
    }
}
