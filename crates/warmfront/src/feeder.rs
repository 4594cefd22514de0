use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use arc::{Class, List, Queue};
use futures::future::poll_fn;
use futures::task::AtomicWaker;
use l2arc::{Admission, Condition, Refused};
use parking_lot::Mutex;
use storage::{Clock, ObjectId};

use crate::answer::{Cached, Content, Metadata};
use crate::counters::Counter;
use crate::error::Result;
use crate::key::{Key, Part};
use crate::memory::{Memory, RANKED_BYTES};
use crate::names::NAMES;
use crate::object::{Object, Tenant};
use crate::pool::Pool;
use crate::record::Record;
use crate::stored::{self, STORED_BYTES_MAX};

/// Between two looks at the tails, while records come in.
const PAUSE: Duration = Duration::from_millis(2);
/// Between two looks at what waits for a sync, while nothing else is to be done.
const INTERVAL: Duration = Duration::from_millis(100);
/// Records that one look takes.
const OFFERS_MAX: usize = 256;
/// The part of the ARC ahead of eviction that is fed, as its divisor, once the devices are full.
const AHEAD_SHARE: u64 = 8;
/// Records that wait until their contents are durable at the origin. More are not waited for.
const POSTPONED_MAX: usize = 1 << 16;
/// The longest tick of an origin's clock that is reckoned with.
const TICK_MAX: Duration = Duration::from_secs(1);
/// Between two syncs of an origin for the sake of such records.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);
/// The time in which flash takes in what only RAM holds when a pool ends.
const LAST_FEED_MAX: Duration = Duration::from_secs(5);
/// A wait for a device that takes writes more slowly than records come, and how many there are.
const PATIENCE: (Duration, u32) = (Duration::from_millis(1), 100);

/// Feeds flash from the tails of the ARC, ahead of eviction, which never waits for it.
///
/// One task for all pools that share the ARC. It takes what the ARC offers, each record once while
/// it stands on a list; what cannot be taken in now and here is not missed: it is at the origin.
#[derive(Debug, Default)]
pub(crate) struct Feeder {
    state: Mutex<State>,
    /// Something has come into the ARC, or waits for an alias.
    nudged: AtomicBool,
    waker: AtomicWaker,
}

/// What there is to do after a look at the tails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There was more than one look takes.
    More,
    /// There was something.
    Pause,
    /// There was nothing, but something waits for a sync.
    Interval,
    /// There is nothing to do until something comes into the ARC, or waits for an alias.
    Idle,
    /// There is nobody left to be fed.
    End,
}

impl Feeder {
    /// Tells that something has come into the ARC, or waits for an alias.
    pub(crate) fn nudge(&self) {
        if !self.nudged.load(Ordering::Relaxed) && !self.nudged.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Waits until something has come into the ARC, but not for longer than that.
    async fn nudged_within(&self, longest: Duration, clock: &dyn Clock) {
        let until = clock.now() + longest;
        while !self.nudged.swap(false, Ordering::SeqCst) && clock.now() < until {
            clock.sleep(PAUSE).await;
        }
    }

    /// Waits until something has come into the ARC.
    async fn nudged(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            match self.nudged.swap(false, Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await
    }
}

#[derive(Default)]
struct State {
    running: bool,
    pools: BTreeMap<u32, Fed>,
}

/// A pool that has cache devices.
struct Fed {
    pool: Weak<Pool>,
    /// What waits for the next sync of the origin.
    postponed: VecDeque<Candidate>,
    /// What has waited for the last one.
    ready: VecDeque<Candidate>,
    /// When the last sync began.
    synced_at: Option<Duration>,
    is_syncing: bool,
    /// When flash had taken in so many records, of which the last may wait in RAM to be written.
    admitted: (u64, Duration),
}

/// A record that flash might take in.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    key: Key,
    list: List,
    touches: u32,
    tenant: u32,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feeding {
    /// Taken in or refused.
    Done,
    /// Its contents are not durable at the origin yet.
    Postponed,
    /// The device is busy with what it has.
    Busy,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Memory {
    /// Feeds the cache devices of a pool from now on, for as long as it lives.
    pub(crate) fn feed(self: &Arc<Self>, pool: &Arc<Pool>) {
        let mut state = self.feeder.state.lock();
        state.pools.entry(pool.number).or_insert_with(|| Fed {
            pool: Arc::downgrade(pool),
            postponed: VecDeque::new(),
            ready: VecDeque::new(),
            synced_at: None,
            is_syncing: false,
            admitted: (0, Duration::ZERO),
        });
        if !std::mem::replace(&mut state.running, true) {
            let (memory, clock) = (Arc::downgrade(self), pool.clock.clone());
            pool.spawn.spawn(Box::pin(run(self.feeder.clone(), memory, clock)));
        }
    }

    /// Looks at the tails once.
    async fn feed_once(self: &Arc<Self>, now: Duration) -> Next {
        let Some(pools) = self.fed_pools() else { return Next::End };
        pools.iter().for_each(|pool| self.sync_if_due(pool, now));
        let conditions: Vec<_> = pools.iter().map(|pool| pool.flash_statistics()).collect();
        let rings = || conditions.iter().flat_map(|statistics| &statistics.rings);
        if rings().any(|ring| ring.condition == Condition::Recovering) {
            return Next::Interval;
        }
        // The first fill takes all there is.
        let is_filling = rings().any(|ring| ring.segments.1 + SEGMENTS_EMPTY < ring.segments.0);
        let ahead_bytes = match is_filling {
            true => u64::MAX,
            false => self.cache.capacity_bytes() / AHEAD_SHARE,
        };
        let offers = self.cache.offer(ahead_bytes, OFFERS_MAX);
        let count = offers.len();
        for offer in offers {
            let Some(pool) = pools.iter().find(|pool| pool.number == offer.key.pool()) else {
                continue;
            };
            let candidate = Candidate {
                key: offer.key,
                list: offer.list,
                touches: offer.touches.into(),
                tenant: offer.tenant,
            };
            drop(offer);
            self.feed_or_postpone(pool, candidate).await;
        }
        let mut waits = false;
        for pool in &pools {
            waits |= self.feed_postponed(pool).await;
            waits |= self.settle_if_idle(pool, now).await;
            pool.flash.charge(self);
        }
        match count {
            OFFERS_MAX.. => Next::More,
            0 if waits => Next::Interval,
            0 => Next::Idle,
            _ => Next::Pause,
        }
    }

    /// The pools that are fed; `None`, and the end, if none is left.
    fn fed_pools(&self) -> Option<Vec<Arc<Pool>>> {
        let mut state = self.feeder.state.lock();
        let pools: Vec<_> = state.pools.values().filter_map(|fed| fed.pool.upgrade()).collect();
        state.pools.retain(|_, fed| fed.pool.strong_count() > 0);
        state.running = !pools.is_empty();
        state.running.then_some(pools)
    }

    /// Offers a record to flash, or notes that it has to wait for a sync of the origin.
    async fn feed_or_postpone(&self, pool: &Arc<Pool>, candidate: Candidate) {
        if pool.feed_patiently(candidate).await == Feeding::Postponed {
            self.postpone(pool, candidate);
        }
    }

    /// Once nothing has come for a while, lets all be written that waits for more to come: a crash
    /// would lose it. Says whether that is still to be done.
    async fn settle_if_idle(&self, pool: &Arc<Pool>, now: Duration) -> bool {
        let admitted = pool.flash_statistics().admitted;
        {
            let mut state = self.feeder.state.lock();
            let Some(fed) = state.pools.get_mut(&pool.number) else { return false };
            let (before, at) = fed.admitted;
            if before != admitted {
                fed.admitted = (admitted, now);
            }
            let is_due = at != Duration::MAX && now.saturating_sub(at) >= SYNC_INTERVAL;
            if before != admitted || !is_due {
                return before != admitted || at != Duration::MAX;
            }
            fed.admitted = (admitted, Duration::MAX);
        }
        pool.flash.level.settle().await;
        false
    }

    fn postpone(&self, pool: &Pool, candidate: Candidate) {
        let mut state = self.feeder.state.lock();
        let Some(fed) = state.pools.get_mut(&pool.number) else { return };
        if fed.postponed.len() < POSTPONED_MAX {
            fed.postponed.push_back(candidate);
        }
    }

    /// Begins a sync of the origin if something waits for one and the last was long enough ago; and
    /// once at the start, before there are readers whom it would keep: nobody knows what was
    /// changed before.
    fn sync_if_due(self: &Arc<Self>, pool: &Arc<Pool>, now: Duration) {
        let mut state = self.feeder.state.lock();
        let Some(fed) = state.pools.get_mut(&pool.number) else { return };
        let is_due = fed.synced_at.is_none_or(|at| {
            now.saturating_sub(at) >= SYNC_INTERVAL
                && (!fed.postponed.is_empty() || pool.owes_aliases())
        });
        if is_due && !fed.is_syncing {
            fed.is_syncing = true;
            fed.synced_at = Some(now);
            pool.spawn.spawn(Box::pin(sync(self.clone(), pool.clone())));
        }
    }

    /// Feeds what has waited for a sync of the origin. Says whether something waits.
    async fn feed_postponed(&self, pool: &Arc<Pool>) -> bool {
        let (ready, waits) = {
            let mut state = self.feeder.state.lock();
            let Some(fed) = state.pools.get_mut(&pool.number) else { return false };
            let waits = fed.is_syncing || !fed.postponed.is_empty();
            (std::mem::take(&mut fed.ready), waits)
        };
        for candidate in ready {
            self.feed_or_postpone(pool, candidate).await;
        }
        pool.write_aliases(false).await;
        waits || pool.may_owe_aliases()
    }
}

/// Makes what waits ready by a sync of the origin, however long that takes; also what has begun to
/// wait meanwhile, of which most came before the sync. What did not waits again.
async fn sync(memory: Arc<Memory>, pool: Arc<Pool>) {
    let synced = pool.sync_all().await;
    let mut state = memory.feeder.state.lock();
    let Some(fed) = state.pools.get_mut(&pool.number) else { return };
    fed.is_syncing = false;
    match synced {
        Ok(()) => fed.ready.append(&mut fed.postponed),
        Err(error) => {
            tracing::warn!(%error, "the origin cannot be synced; what has changed stays off flash");
        }
    }
}

/// Segments that a full device keeps empty, and the one that is being written.
const SEGMENTS_EMPTY: u32 = 4;

async fn run(feeder: Arc<Feeder>, memory: Weak<Memory>, clock: Arc<dyn Clock>) {
    loop {
        let Some(memory) = memory.upgrade() else { return };
        let next = memory.feed_once(clock.now()).await;
        drop(memory);
        match next {
            Next::More => {}
            Next::Pause => clock.sleep(PAUSE).await,
            Next::Interval => feeder.nudged_within(INTERVAL, &*clock).await,
            Next::Idle => feeder.nudged().await,
            Next::End => return,
        }
    }
}

impl Pool {
    /// Offers a record of the ARC to flash until it has been taken in or refused, but not for long.
    async fn feed_patiently(&self, candidate: Candidate) -> Feeding {
        for _ in 0..PATIENCE.1 {
            match self.feed(candidate, false) {
                Feeding::Busy => self.clock.sleep(PATIENCE.0).await,
                fed => return fed,
            }
        }
        self.feed(candidate, true)
    }

    /// Offers a record of the ARC to flash. When the device is busy for the last time, it is
    /// refused.
    fn feed(&self, candidate: Candidate, is_last: bool) -> Feeding {
        let Candidate { key, list, touches, .. } = candidate;
        let Some(tenant) = self.tenant_with(candidate.tenant) else { return Feeding::Done };
        let refused = |reason| {
            tenant.counters.add(reason, 1);
            Feeding::Done
        };
        let properties = tenant.properties();
        if !properties.secondarycache.takes(list.class) {
            return refused(Counter::UnfedSecondarycache);
        }
        if properties.l2mfuonly && list.queue != Queue::Mfu {
            return refused(Counter::UnfedMfuonly);
        }
        // The copy is of what the ARC has after this moment, and a writer comes after that.
        let stamp = self.flash.level.stamp(key.object().0);
        let record = match self.memory.cache.peek(&key) {
            Some(Cached::Data(record)) => record,
            Some(Cached::Metadata(metadata)) => {
                return self.feed_metadata(&tenant, candidate, stamp, &metadata);
            }
            None => return refused(Counter::UnfedGone),
        };
        if record.came_ahead() && touches < 2 && !properties.l2prefetch {
            return refused(Counter::UnfedPrefetch);
        }
        if self.is_being_changed(&key)
            || !self.flash.unsynced.is_durable(key.object(), record.taken())
        {
            tenant.counters.add(Counter::FeedPostponed, 1);
            return Feeding::Postponed;
        }
        let admission = self.admission(&tenant, stamp, touches, list.class);
        match self.flash.level.admit(&key.on_flash(), record.bytes(), &admission) {
            Ok(()) => refused(Counter::FlashFed),
            Err(Refused::Buffers | Refused::NoSegment) if !is_last => Feeding::Busy,
            Err(reason) => {
                tenant.counters.refused(reason);
                Feeding::Done
            }
        }
    }

    /// Offers a metadata answer of the ARC to flash.
    fn feed_metadata(
        &self,
        tenant: &Tenant,
        candidate: Candidate,
        stamp: l2arc::Stamp,
        metadata: &Metadata,
    ) -> Feeding {
        let key = candidate.key;
        let counted = |counter| {
            tenant.counters.add(counter, 1);
            Feeding::Done
        };
        let Some(validator) = metadata.validator else { return counted(Counter::UnfedUnproven) };
        let object = self.objects.get(key.object());
        if let Some(object) = &object
            && object.ranges.is_being_written(NAMES)
        {
            return counted(Counter::UnfedGone);
        }
        if matches!(metadata.content, Content::Xattr { .. } | Content::XattrNames(_)) {
            // A change in the same tick of the origin's clock shows in the epoch only.
            if self.now().saturating_sub(metadata.checked_at) < TICK_MAX {
                return Feeding::Postponed;
            }
            if object.and_then(|object| object.version().epoch()) != Some(key.generation()) {
                return counted(Counter::UnfedGone);
            }
        }
        let Some(bytes) = stored::encode(&metadata.content) else {
            tenant.counters.refused(Refused::TooLarge);
            return Feeding::Done;
        };
        let admission = self.admission(tenant, stamp, candidate.touches, candidate.list.class);
        let key = l2arc::Key { generation: validator, ..key.on_flash() };
        match self.flash.level.admit(&key, &bytes, &admission) {
            Ok(()) => counted(Counter::FlashMetadataFed),
            Err(reason) => {
                tenant.counters.refused(reason);
                Feeding::Done
            }
        }
    }

    /// A metadata answer from flash, which is true under the validator that the object has.
    pub(crate) async fn read_metadata(
        &self,
        tenant: &Tenant,
        object: ObjectId,
        part: Part<'_>,
        validator: Option<u64>,
        generation: u64,
    ) -> Option<Content> {
        if !self.flash.is_in_use() {
            return None;
        }
        let key = part.on_flash(object, validator?);
        if !self.flash.level.holds(&key) {
            return None;
        }
        let _charged = self.memory.charge(STORED_BYTES_MAX as u64);
        let mut bytes = vec![0; STORED_BYTES_MAX];
        let length =
            self.flash.level.look_up(&key, &mut bytes, self.pace.expected(0)).await.ok()?;
        let content = stored::decode(&bytes[..length], generation)?;
        tenant.counters.add(Counter::FlashMetadataHits, 1);
        Some(content)
    }

    /// Before answers about an object change: kills what flash has of them.
    pub(crate) async fn kill_metadata(&self, object: &Object, parts: &[Part<'_>]) -> Result<()> {
        if !self.flash.is_in_use() {
            return Ok(());
        }
        let validator = object.version().validator_hash();
        let keys: Vec<_> = parts.iter().map(|part| part.on_flash(object.id, validator)).collect();
        self.flash.settle(self.flash.level.kill(&keys).await)
    }

    /// Offers a record to flash that it had, and that has changed since: the ARC does not offer it
    /// a second time where it stands.
    pub(crate) async fn feed_again(&self, key: Key) {
        let Some(at) = self.memory.cache.locate(&key) else { return };
        self.feed_patiently(Candidate { key, list: at.list, touches: 2, tenant: at.tenant }).await;
    }

    /// Offers to flash what only RAM holds, from the hottest on, for a while at most: when the pool
    /// ends. Answers are not needed there, since a [snapshot](Pool::snapshot) has them.
    pub(crate) async fn feed_the_rest(&self) {
        let until = self.now() + LAST_FEED_MAX;
        let records = self.memory.cache.statistics().usage.records();
        let _charged = self.memory.charge(records * RANKED_BYTES);
        for (key, at) in self.memory.cache.by_heat() {
            let is_record = key.pool() == self.number && key.record_number().is_some();
            if !is_record || self.flash.level.holds(&key.on_flash()) {
                continue;
            }
            if self.now() >= until {
                tracing::info!("what else RAM holds comes from the origin at the next start");
                return;
            }
            let touches = if at.prefetched { 0 } else { u32::from(at.hits) + 1 };
            let candidate = Candidate { key, list: at.list, touches, tenant: at.tenant };
            self.feed_patiently(candidate).await;
        }
    }

    /// Offers a record to flash that RAM does not keep. It has been taken from the origin under the
    /// reader's hold of its range.
    pub(crate) fn feed_at_once(&self, tenant: &Tenant, key: Key, record: &Arc<Record>) {
        let properties = tenant.properties();
        if !self.flash.is_in_use() || !properties.secondarycache.takes(Class::Data) {
            return;
        }
        let refused = |reason| tenant.counters.add(reason, 1);
        let stamp = self.flash.level.stamp(key.object().0);
        if record.came_ahead() && !properties.l2prefetch {
            return refused(Counter::UnfedPrefetch);
        }
        if properties.l2mfuonly {
            return refused(Counter::UnfedMfuonly);
        }
        if !self.flash.unsynced.is_durable(key.object(), record.taken()) {
            return refused(Counter::UnfedGone);
        }
        let admission = self.admission(tenant, stamp, 1, Class::Data);
        match self.flash.level.admit(&key.on_flash(), record.bytes(), &admission) {
            Ok(()) => refused(Counter::FlashFed),
            Err(reason) => tenant.counters.refused(reason),
        }
    }

    /// Whether somebody is changing the record, so that RAM and origin may differ.
    pub(crate) fn is_being_changed(&self, key: &Key) -> bool {
        let (Some(object), Some(number)) = (self.objects.get(key.object()), key.record_number())
        else {
            return false;
        };
        let record_bytes = object.version().record_bytes;
        let start = number.saturating_mul(record_bytes);
        object.ranges.is_being_written(start..start.saturating_add(record_bytes))
    }

    /// How flash is asked to take in what was touched so often.
    pub(crate) fn admission(
        &self,
        tenant: &Tenant,
        stamp: l2arc::Stamp,
        touches: u32,
        class: Class,
    ) -> Admission {
        let properties = tenant.properties();
        Admission {
            stamp,
            tenant: self.flash.numbers.of(tenant.dataset.name()),
            metadata: class == Class::Metadata,
            touches,
            compression: properties.compression,
            limit_bytes: properties.l2limit.map(|size| self.of_flash(size)),
            vital: false,
        }
    }
}
