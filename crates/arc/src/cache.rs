//! [`Cache`]: policies behind locks, with one budget.

mod resume;
mod shrink;

use std::hash::{BuildHasher, Hash};
use std::num::NonZero;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use smallvec::SmallVec;

use crate::behaviour::Behaviour;
use crate::budget::Budget;
use crate::ghost::Ghost;
use crate::hits::Hits;
use crate::list::{Class, List, Queue};
use crate::offer::{OFFER_ORDER, Offer};
use crate::options::Options;
use crate::partition::PartitionSet;
use crate::place::PARTITIONS_MAX;
use crate::policy::{Arrival, Evicted, Giver, HEAT_ORDER, Hit, Inserted, Policy, Seen};
use crate::record::{Charge, Location};
use crate::refused::Refused;
use crate::setting::PolicyKind;
use crate::share::{Share, ShareRefused};
use crate::statistics::{RefusedStatistics, Statistics};
use crate::sync::{AtomicU64, AtomicUsize, BiasedLock, Mutex, Relaxed};
use crate::tenant::Usage;
use crate::tuner::{SettingStatistics, Tuner};

/// Most shards of a cache.
pub const SHARDS_MAX: usize = 256;

/// Shards a core, so that two threads seldom meet at one lock.
const SHARDS_PER_CORE: usize = 4;

/// Least capacity of a shard when the number of shards is chosen by cores, bytes. A policy that
/// sees a handful of records only learns little.
const SHARD_BYTES_MIN: u64 = 16 << 20;

/// Most evictions, or records looked at, while one lock is held.
const BATCH_MAX: usize = 512;

/// Most times that one call makes room, each time at most [`BATCH_MAX`] evictions a shard.
const ROUNDS_MAX: usize = 1024;

/// Most of these in a row in which nobody has anything to give: others may have it under way.
const IDLE_ROUNDS_MAX: usize = 16;

/// What one insertion lets go, seldom more than this; without a call of the allocator.
type Gone<K, V> = SmallVec<[(K, V); 2]>;

/// A policy and its lock, padded to two cache lines, so that neighbours do not share one.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<K, V> {
    policy: BiasedLock<Policy<K, V>>,
    /// What the budget knows this shard to take. Changes under the write lock only.
    charged: AtomicU64,
}

/// How often one call has made room.
#[derive(Debug, Default)]
struct Rounds {
    count: usize,
    /// Those of them, in a row, in which nobody had anything to give.
    idle: usize,
    /// What was evicted when the last one began, records.
    evicted: u64,
}

impl Rounds {
    /// Begins another one; `false` if there is no sense in it.
    fn another(&mut self, evicted: &Evicted) -> bool {
        let gave = self.count == 0 || evicted.records > self.evicted;
        self.idle = if gave { 0 } else { self.idle + 1 };
        self.evicted = evicted.records;
        self.count += 1;
        self.count <= ROUNDS_MAX && self.idle < IDLE_ROUNDS_MAX
    }
}

/// Bytes that are needed, and the partition to which they will be charged.
#[derive(Debug, Clone, Copy)]
struct Need {
    bytes: u64,
    partition: usize,
}

/// What to do with the holes that evicted records leave, where there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holes {
    Fill,
    /// For somebody who fills them at the end: in a large shrink most records that would be moved
    /// at first go themselves later.
    Leave,
}

/// Bytes that are charged already although nothing holds them yet.
#[derive(Debug, Clone, Copy)]
struct Reserved(Need);

impl Reserved {
    const NOTHING: Self = Self(Need { bytes: 0, partition: 0 });
}

/// What was agreed with a partition.
#[derive(Debug, Clone)]
struct Terms {
    share: Share,
    behaviour: Behaviour,
}

/// A cache that many threads use at once. Time is an argument, as everywhere in this crate.
///
/// A key belongs to one of a power of two of shards, each a [`Policy`] behind a reader-writer
/// lock. A hit takes the read lock, probes once, stores at most two words and clones the value; it
/// is counted in a stripe of the calling thread. An insertion takes the write lock. No call holds
/// the locks of two shards. What is sampled is told to the shadows of `policy=auto` under a lock
/// of theirs, for which a hit does not wait, unless it is the first read of a prefetched record.
///
/// **Partitions** are parts of the cache with a [`Share`] of their own; tenants are assigned to
/// them, and stand in the first, which has no share, before they are. Limits and reserves hold
/// over all shards together. Where all that there is was reserved and is used, nothing else comes
/// in.
///
/// The bound on bytes is one for all shards: a shard may hold more than its even share while
/// others hold less. When the budget is used up, the shard that wants to insert gives first,
/// unless it holds less than its share; then the others give by turns, those above their share.
///
/// Values that leave the cache are dropped outside the locks.
#[derive(Debug)]
pub struct Cache<K, V, S = DefaultHashBuilder> {
    shards: Box<[Shard<K, V>]>,
    capacity_bytes: AtomicU64,
    /// What is charged for the shadows of the tuners.
    aside_bytes: AtomicU64,
    /// Hits, which are not counted in the shards.
    hits: Hits,
    /// What the shards together may take.
    budget: Budget,
    /// Of each partition, what its records take in all shards, and its limit.
    accounts: Box<[Budget]>,
    /// What was agreed with each partition.
    terms: Mutex<Vec<Terms>>,
    options: Options,
    /// The shard that gives next.
    turn: AtomicUsize,
    /// The shard whose records are offered first.
    offer_turn: AtomicUsize,
    refused: [AtomicU64; 4],
    record_overhead: u64,
    hasher: S,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// An empty cache with the default hasher, seeded at random.
    pub fn new(options: &Options) -> Self {
        Self::with_hasher(options, DefaultHashBuilder::default())
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// An empty cache. A hasher with a fixed seed makes its choices repeatable.
    pub fn with_hasher(options: &Options, hasher: S) -> Self {
        let count = shard_count(options);
        let behaviour = Tuner::for_kind(options, count);
        let shards: Box<[_]> = (0..count)
            .map(|_| {
                let policy = Policy::one_of(options, count, &behaviour);
                Shard { policy: BiasedLock::new(policy), charged: AtomicU64::new(0) }
            })
            .collect();
        let record_overhead = shards[0].policy.read().record_overhead();
        let cache = Self {
            shards,
            capacity_bytes: AtomicU64::new(options.capacity_bytes),
            aside_bytes: AtomicU64::new(0),
            hits: Hits::new(),
            budget: Budget::new(options.capacity_bytes),
            accounts: (0..PARTITIONS_MAX).map(|_| Budget::new(u64::MAX)).collect(),
            terms: Mutex::new(vec![Terms { share: Share::FREE, behaviour }]),
            options: Options { record_share: options.record_share.max(1), ..*options },
            turn: AtomicUsize::new(0),
            offer_turn: AtomicUsize::new(0),
            refused: Default::default(),
            record_overhead,
            hasher,
        };
        cache.set_bounds(&cache.terms.lock());
        cache
    }

    // ---- Looking -------------------------------------------------------------------------------

    /// The record's value, if it is resident. Counts as an access at `now`.
    pub fn get(&self, key: &K, now: Duration) -> Option<V> {
        self.read(key, now, V::clone)
    }

    /// What `look` makes of the record's value, if it is resident; for values whose clones cost,
    /// or are counted in a place that all threads write. Counts as an access at `now`.
    ///
    /// `look` must be short and not call the cache: changes of its shard wait.
    pub fn read<R>(&self, key: &K, now: Duration, look: impl FnOnce(&V) -> R) -> Option<R> {
        self.seen(key, now, |seen| look(seen.value))
    }

    /// As [`Cache::get`], and tells where the record stands.
    pub fn hit(&self, key: &K, now: Duration) -> Option<Hit<V>> {
        self.seen(key, now, |Seen { value, place, first_after_prefetch, .. }| Hit {
            value: value.clone(),
            list: place.list(),
            first_after_prefetch,
        })
    }

    #[inline(always)]
    fn seen<R>(&self, key: &K, now: Duration, look: impl FnOnce(Seen<'_, V>) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        let policy = self.shard(hash).policy.read();
        let seen = policy.touch(hash, key, now)?;
        self.hits.count(seen.tenant, seen.place, seen.first_after_prefetch);
        Some(look(seen))
    }

    /// The record's value, without any effect on the policy.
    pub fn peek(&self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).policy.read().peek(hash, key)
    }

    /// Whether the record is resident. No effect on the policy.
    pub fn contains(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).policy.read().contains(hash, key)
    }

    /// Where the record is and how it got there.
    pub fn locate(&self, key: &K) -> Option<Location> {
        let hash = self.hasher.hash_one(key);
        let location = self.shard(hash).policy.read().locate(hash, key)?;
        Some(Location { age: location.age * self.shards.len() as u64, ..location })
    }

    /// The ghost of an evicted record.
    pub fn ghost(&self, key: &K) -> Option<Ghost> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).policy.read().ghost(hash)
    }

    /// All resident records, hottest first: as [`Policy::by_heat`], with the shards merged by
    /// relative age, and what was used again on the MRU counted as MFU: the hand will find it so.
    /// Takes memory for a copy of all keys.
    pub fn by_heat(&self) -> Vec<(K, Location)> {
        let mut ranked = Vec::new();
        for shard in &self.shards {
            let policy = shard.policy.read();
            for list in HEAT_ORDER {
                let items = policy.newest(list).count();
                ranked.extend(policy.newest(list).enumerate().map(|(rank, (key, location))| {
                    (tier(&location), rank as f64 / items as f64, key.clone(), location)
                }));
            }
        }
        ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let shards = self.shards.len() as u64;
        let whole = |location: Location| Location { age: location.age * shards, ..location };
        ranked.into_iter().map(|(_, _, key, location)| (key, whole(location))).collect()
    }

    /// Up to `records_max` records near the tails that have not been offered yet where they
    /// stand, for a level below to take before they are evicted: metadata before data, MFU before
    /// MRU, and those of one shard in the order in which they would go; none that is not to be
    /// kept.
    ///
    /// Of each of these lists, over all shards and partitions, at most `ahead_bytes` are kept
    /// offered ahead of eviction, and one record a shard and partition beyond. A record is offered
    /// once, whether it is taken or not, and again only after it has moved to the young end of a
    /// list. Eviction does not wait for this. See [`Policy::offer`].
    pub fn offer(&self, ahead_bytes: u64, records_max: usize) -> Vec<Offer<K, V>> {
        let mut offers = Vec::new();
        let count = self.shards.len();
        let ahead_bytes = ahead_bytes.div_ceil(count as u64);
        let first = self.offer_turn.fetch_add(1, Relaxed);
        for list in OFFER_ORDER {
            for turn in 0..count {
                let shard = &self.shards[first.wrapping_add(turn) & (count - 1)];
                // Even parts of what is left; what one does not need, the next can have.
                let end = offers.len() + (records_max - offers.len()).div_ceil(count - turn);
                // A look does not keep readers waiting.
                while offers.len() < end && shard.policy.read().has_offers(list, ahead_bytes) {
                    let batch = BATCH_MAX.min(end - offers.len());
                    offers.reserve(batch);
                    shard.policy.write().offer(list, ahead_bytes, batch, &mut offers);
                }
            }
        }
        offers
    }

    /// Bound on [`Cache::charged_bytes`].
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Relaxed)
    }

    /// Payload, headers, ghosts and index of all shards; see [`Policy`].
    pub fn charged_bytes(&self) -> u64 {
        self.budget.charged() + self.aside_bytes.load(Relaxed)
    }

    /// The most payload bytes that one record may have.
    pub fn record_bytes_max(&self) -> u64 {
        self.record_cost_max(self.capacity_bytes()).saturating_sub(self.record_overhead)
    }

    /// Sums, counters and targets.
    pub fn statistics(&self) -> Statistics {
        let [too_large, no_room, unknown_tenant, full] =
            self.refused.each_ref().map(|count| count.load(Relaxed));
        let mut all = Statistics {
            capacity_bytes: self.capacity_bytes(),
            charged_bytes: self.charged_bytes(),
            refused: RefusedStatistics { too_large, no_room, unknown_tenant, full },
            ..Statistics::default()
        };
        self.hits.add_all_to(&mut all.usage);
        all.tenant_table_bytes += self.hits.bytes();
        for shard in &self.shards {
            let policy = shard.policy.read();
            all.tenant_table_bytes += policy.tenant_table_bytes();
            all.usage += policy.usage();
            for (sum, list) in all.ghosts.iter_mut().zip(List::ALL) {
                let (ghosts, bytes) = policy.ghosts(list);
                sum.ghosts += ghosts;
                sum.bytes += bytes;
            }
            for (sum, class) in all.mru_targets.iter_mut().zip(Class::ALL) {
                *sum += policy.targets(0, class).0 / self.shards.len() as f64;
            }
            all.metadata_target += policy.targets(0, Class::Data).1 / self.shards.len() as f64;
        }
        all
    }

    /// Sums and counters of one tenant.
    pub fn tenant(&self, tenant: u32) -> Usage {
        let mut sum = Usage::default();
        self.hits.add_to(tenant, &mut sum);
        self.shards.iter().for_each(|shard| sum += shard.policy.read().tenant(tenant));
        sum
    }

    // ---- Changing ------------------------------------------------------------------------------

    /// Takes a record in and evicts what has to go for it; see [`Policy::insert`].
    pub fn insert(
        &self,
        key: K,
        value: V,
        charge: Charge,
        now: Duration,
    ) -> Result<Inserted, Refused> {
        let inserted = self.insert_into(key, value, charge, now, &mut Gone::new());
        inserted.map_err(|(refused, _)| refused)
    }

    /// As [`Cache::insert`], but drops nothing: what leaves the cache goes to `gone`, which must
    /// not call the cache, and a refused value comes back beside the reason.
    pub fn insert_into(
        &self,
        key: K,
        value: V,
        charge: Charge,
        now: Duration,
        gone: &mut impl Extend<(K, V)>,
    ) -> Result<Inserted, (Refused, V)> {
        let hash = self.hasher.hash_one(&key);
        let shard = self.shard(hash);
        if let Err(refused) = Refused::check_tenant(charge.tenant) {
            return Err((self.refuse(hash, &key, refused, gone), value));
        }
        let mut arrival = Arrival::default();
        let mut evicted = Evicted::default();
        let mut rounds = Rounds::default();
        while rounds.another(&evicted) {
            let need = {
                let mut policy = shard.policy.write();
                let partition = policy.partition_of(charge.tenant);
                if rounds.count == 1 {
                    let limit = self.capacity_bytes().min(self.accounts[partition].capacity());
                    let limit = self.record_cost_max(limit);
                    let checked = Refused::check_size(charge.bytes, self.record_overhead, limit)
                        .and_then(|()| policy.check_slots());
                    if let Err(refused) = checked {
                        drop(policy);
                        return Err((self.refuse(hash, &key, refused, gone), value));
                    }
                    arrival = policy.prepare(hash, &key, &charge, now, gone);
                }
                let growth =
                    |policy: &Policy<K, V>| policy.growth(hash, &key, arrival, charge.bytes);
                match self.reserve(shard, &mut policy, partition, growth, &mut evicted, gone) {
                    Ok(reserved) => {
                        let inserted =
                            policy.admit(hash, key, value, charge, arrival, now, evicted, gone);
                        self.settle(shard, &mut policy, reserved);
                        return Ok(inserted);
                    }
                    Err(need) => need,
                }
            };
            arrival = arrival.delayed();
            let out = &mut |key, value| gone.extend(Some((key, value)));
            self.relieve(need, Holes::Fill, &mut evicted, out);
        }
        let cost = charge.bytes + self.record_overhead;
        Err((self.refuse(hash, &key, Refused::NoRoom { cost }, gone), value))
    }

    /// Replaces a resident record's value; see [`Policy::replace`].
    pub fn replace(&self, key: &K, value: V, bytes: u64) -> Result<bool, Refused> {
        let hash = self.hasher.hash_one(key);
        let limit = self.record_cost_max(self.capacity_bytes());
        let mut dead = Vec::new();
        if let Err(refused) = Refused::check_size(bytes, self.record_overhead, limit) {
            return Err(self.refuse(hash, key, refused, &mut dead));
        }
        let mut evicted = Evicted::default();
        let shard = self.shard(hash);
        let mut rounds = Rounds::default();
        while rounds.another(&evicted) {
            let need = {
                let mut policy = shard.policy.write();
                let tenant = policy.locate(hash, key).map(|location| location.tenant);
                let partition = tenant.map_or(0, |tenant| policy.partition_of(tenant));
                let growth = |policy: &Policy<K, V>| match policy.contains(hash, key) {
                    true => policy.growth(hash, key, Arrival::default(), bytes),
                    false => 0,
                };
                match self.reserve(shard, &mut policy, partition, growth, &mut evicted, &mut dead) {
                    Ok(reserved) => {
                        let replaced = policy.put(hash, key, value, bytes, &mut dead);
                        self.settle(shard, &mut policy, reserved);
                        return Ok(replaced);
                    }
                    Err(need) => need,
                }
            };
            dead.clear();
            self.relieve(need, Holes::Fill, &mut evicted, &mut |_, _| {});
        }
        let cost = bytes + self.record_overhead;
        Err(self.refuse(hash, key, Refused::NoRoom { cost }, &mut dead))
    }

    /// Changes a resident value in its place, with nobody else looking at it meanwhile; what it
    /// weighs must stay. `change` must be short and not call the cache. `None` if it is not
    /// resident.
    pub fn update<R>(&self, key: &K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).policy.write().update(hash, key, change)
    }

    /// Takes a record out. It leaves no ghost.
    pub fn remove(&self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        self.remove_hashed(hash, key)
    }

    /// Marks a record as the first to go; see [`Policy::demote`].
    pub fn demote(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).policy.write().demote(hash, key)
    }

    /// Keeps the records for which `keep` holds, and returns how many went. Records that are
    /// inserted meanwhile may or may not be looked at. `keep` must not call the cache.
    pub fn retain(&self, keep: impl FnMut(&K, &Location) -> bool) -> u64 {
        self.retain_with(keep, |_, _| {})
    }

    /// As [`Cache::retain`], and hands out what went, while no lock is held.
    pub fn retain_with(
        &self,
        mut keep: impl FnMut(&K, &Location) -> bool,
        mut gone: impl FnMut(K, V),
    ) -> u64 {
        let mut dead = Vec::new();
        let mut removed = 0;
        for shard in &self.shards {
            let mut cursor = usize::MAX;
            while cursor > 0 {
                let mut policy = shard.policy.write();
                cursor = policy.retain_below(cursor, BATCH_MAX, &mut keep, &mut dead);
                self.settle(shard, &mut policy, Reserved::NOTHING);
                drop(policy);
                removed += dead.len() as u64;
                dead.drain(..).for_each(|(key, value)| gone(key, value));
            }
        }
        removed
    }

    /// Divides the capacity: shadows of the tuners, if they are charged, and shards.
    fn set_bounds(&self, terms: &[Terms]) {
        let capacity = self.capacity_bytes();
        let tuners: Vec<&Tuner> =
            terms.iter().filter_map(|terms| terms.behaviour.tuner()).collect();
        let mut aside = 0;
        if self.options.charge_overhead && !tuners.is_empty() {
            aside = Tuner::bytes_max(capacity);
            tuners.iter().for_each(|tuner| tuner.set_bytes_max(aside / tuners.len() as u64));
        }
        self.aside_bytes.store(aside, Relaxed);
        self.budget.set_capacity(capacity - aside);
        for shard in &self.shards {
            let mut policy = shard.policy.write();
            policy.set_bound(self.budget.capacity() / self.shards.len() as u64);
            self.settle(shard, &mut policy, Reserved::NOTHING);
        }
    }

    /// Gives a partition its share, before this returns: what is above the limit is evicted.
    /// Partition 0 holds the tenants that are not assigned to another; it has what is left.
    ///
    /// # Errors
    /// The reserves exceed the capacity or the limit, or there is no such partition.
    pub fn set_share(&self, partition: usize, share: Share) -> Result<Evicted, ShareRefused> {
        if partition == 0 || partition >= PARTITIONS_MAX {
            return Err(ShareRefused::UnknownPartition { partition, limit: PARTITIONS_MAX });
        }
        let Share { reserve_bytes: reserve, limit_bytes: limit } = share;
        if reserve > limit {
            return Err(ShareRefused::AboveLimit { reserve, limit });
        }
        let mut terms = self.terms.lock();
        let others = terms.iter().enumerate().filter(|&(number, _)| number != partition);
        let others = others.map(|(_, other)| other.share.reserve_bytes).sum::<u64>();
        let capacity = self.capacity_bytes();
        if reserve > 0 && reserve.saturating_add(others) > capacity {
            return Err(ShareRefused::Overcommitted { asked: reserve, others, capacity });
        }
        self.accounts[partition].set_capacity(limit);
        self.change_terms(&mut terms, partition, |terms| terms.share = share);
        Ok(self.shrink_to_fit(partition, &mut |_, _| {}))
    }

    /// Changes the rules of a partition, 0 included. What it holds stays.
    ///
    /// # Errors
    /// There is no such partition.
    pub fn set_policy(&self, partition: usize, kind: PolicyKind) -> Result<(), ShareRefused> {
        if partition >= PARTITIONS_MAX {
            return Err(ShareRefused::UnknownPartition { partition, limit: PARTITIONS_MAX });
        }
        let mut terms = self.terms.lock();
        let present = terms.get(partition).map(|terms| terms.behaviour.kind());
        if present != Some(kind) {
            let behaviour = self.behaviour(kind);
            self.change_terms(&mut terms, partition, |terms| terms.behaviour = behaviour);
        }
        Ok(())
    }

    fn behaviour(&self, policy: PolicyKind) -> Behaviour {
        let options = Options { policy, ..self.options };
        Tuner::for_kind(&options, self.shards.len())
    }

    fn change_terms(
        &self,
        terms: &mut Vec<Terms>,
        partition: usize,
        change: impl FnOnce(&mut Terms),
    ) {
        if partition >= terms.len() {
            let unused = Terms { share: Share::FREE, behaviour: Behaviour::Arc };
            terms.resize(partition, unused);
            let behaviour = self.behaviour(self.options.policy);
            terms.push(Terms { share: Share::FREE, behaviour });
        }
        change(&mut terms[partition]);
        let reserves = terms.iter().map(|terms| terms.share.reserve_bytes);
        self.budget.set_kept(reserves.sum());
        self.accounts[partition].set_kept(terms[partition].share.reserve_bytes);
        for shard in &self.shards {
            let mut policy = shard.policy.write();
            for (number, Terms { share, behaviour }) in terms.iter().enumerate() {
                let share = share.of_shards(self.shards.len());
                policy.set_partition(number, share, behaviour.clone());
            }
            self.settle(shard, &mut policy, Reserved::NOTHING);
        }
        self.set_bounds(terms);
    }

    /// The shares that were given, by partition.
    pub fn shares(&self) -> Vec<Share> {
        self.terms.lock().iter().map(|terms| terms.share).collect()
    }

    /// The rules of a partition and, if it has settings, what each makes of the load.
    pub fn settings(&self, partition: usize) -> (PolicyKind, SettingStatistics) {
        let behaviour = self.terms.lock().get(partition).map(|terms| terms.behaviour.clone());
        let behaviour = behaviour.unwrap_or(Behaviour::Arc);
        let statistics = match &behaviour {
            Behaviour::Tuned(tuner) => tuner.statistics(),
            _ => SettingStatistics::default(),
        };
        (behaviour.kind(), statistics)
    }

    /// What is charged to a partition, bytes. Never above its limit, but for partition 0, whose
    /// shards are read one after the other.
    pub fn charged_to(&self, partition: usize) -> u64 {
        match self.accounts.get(partition) {
            _ if partition == 0 => self.count_charged_to(0),
            Some(account) => account.charged(),
            None => 0,
        }
    }

    /// The sum over the shards.
    fn count_charged_to(&self, partition: usize) -> u64 {
        let held = self.shards.iter().map(|shard| {
            let policy = shard.policy.read();
            if partition < policy.partitions().len() { policy.charged_to(partition) } else { 0 }
        });
        held.sum()
    }

    /// Lets a tenant's records stand in a partition from now on; those that are resident move
    /// before this returns, a batch at a time. What is then above a limit is evicted.
    ///
    /// # Errors
    /// There is no such partition, or it was never given a share.
    pub fn assign(&self, tenant: u32, partition: usize) -> Result<Evicted, ShareRefused> {
        let terms = self.terms.lock();
        if partition >= terms.len() || tenant >= crate::TENANTS_MAX {
            return Err(ShareRefused::UnknownPartition { partition, limit: terms.len() });
        }
        for shard in &self.shards {
            shard.policy.write().assign_later(tenant, partition);
            let mut cursor = usize::MAX;
            while cursor > 0 {
                let mut policy = shard.policy.write();
                cursor = policy.assign_below(cursor, BATCH_MAX, tenant);
                self.settle(shard, &mut policy, Reserved::NOTHING);
            }
        }
        Ok(self.shrink_to_fit(partition, &mut |_, _| {}))
    }

    /// Recounts every shard, and the budget. Only for a cache that nobody changes meanwhile.
    pub fn validate(&self) -> Result<(), String> {
        let mut sum = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            let policy = shard.policy.read();
            if number == 0 {
                policy.validate_shadows()?;
            }
            policy.validate().map_err(|why| format!("shard {number}: {why}"))?;
            let (noted, charged) = (shard.charged.load(Relaxed), policy.charged_bytes());
            if noted != charged {
                return Err(format!("shard {number}: noted {noted} bytes, charged {charged}"));
            }
            sum += charged;
        }
        let (charged, capacity) = (self.budget.charged(), self.budget.capacity());
        if sum != charged || charged > capacity {
            return Err(format!("shards {sum} bytes, budget {charged}, capacity {capacity}"));
        }
        for (number, account) in self.accounts.iter().enumerate().skip(1) {
            let (charged, counted) = (account.charged(), self.count_charged_to(number));
            if charged != counted || charged > account.capacity() {
                return Err(format!("partition {number}: charged {charged}, counted {counted}"));
            }
        }
        Ok(())
    }

    // ---- Room ----------------------------------------------------------------------------------

    /// Whether the budget and the partition's limit leave room.
    #[inline]
    fn fits(&self, need: Need) -> bool {
        self.budget.fits(need.bytes, 0) && self.accounts[need.partition].fits(need.bytes, 0)
    }

    /// Reserves what `growth` asks for, and lets the caller's shard give while it holds more than
    /// its share. `Err` holds what is still needed, and asks for the others to give.
    #[inline]
    fn reserve(
        &self,
        shard: &Shard<K, V>,
        policy: &mut Policy<K, V>,
        partition: usize,
        growth: impl Fn(&Policy<K, V>) -> u64,
        evicted: &mut Evicted,
        gone: &mut impl Extend<(K, V)>,
    ) -> Result<Reserved, Need> {
        let mut need = Need { bytes: growth(policy), partition };
        if !self.fits(need) {
            let share = policy.capacity_bytes();
            let floor = share.saturating_sub(need.bytes).max(floor_of(share));
            self.give(shard, policy, need, floor, evicted, gone);
            policy.compact(BATCH_MAX);
            need.bytes = growth(policy);
        }
        if !self.budget.reserve(need.bytes) {
            return Err(need);
        }
        if partition != 0 && !self.accounts[partition].reserve(need.bytes) {
            self.budget.settle(need.bytes, 0);
            return Err(need);
        }
        Ok(Reserved(need))
    }

    /// Lets the shards give by turns until `need` fits: first those above their share, then all
    /// down to a floor. Records may take 1/8 of the capacity and the floors leave 1/4 free, so that
    /// is enough for any record, unless other threads take the room or batches are used up, or the
    /// cache is so small that one record may take most of it: then all give what they have.
    fn relieve(
        &self,
        need: Need,
        holes: Holes,
        evicted: &mut Evicted,
        gone: &mut impl FnMut(K, V),
    ) {
        let start = self.turn.fetch_add(1, Relaxed);
        let share = self.budget.capacity() / self.shards.len() as u64;
        let account = &self.accounts[need.partition];
        let mut dead = Vec::new();
        for floor in [share, floor_of(share), 0] {
            for offset in 0..self.shards.len() {
                if self.fits(need) {
                    return;
                }
                let shard = &self.shards[start.wrapping_add(offset) % self.shards.len()];
                if shard.charged.load(Relaxed) > floor || !account.fits(need.bytes, 0) {
                    let mut policy = shard.policy.write();
                    self.give(shard, &mut policy, need, floor, evicted, &mut dead);
                    if holes == Holes::Fill {
                        policy.compact(BATCH_MAX);
                    }
                    drop(policy);
                    dead.drain(..).for_each(|(key, value)| gone(key, value));
                }
            }
        }
    }

    /// Evicts a batch from one shard until `need` fits: from the partition as long as it exceeds
    /// its limit, then from any, but not below `floor`.
    #[inline]
    fn give(
        &self,
        shard: &Shard<K, V>,
        policy: &mut Policy<K, V>,
        need: Need,
        floor: u64,
        evicted: &mut Evicted,
        gone: &mut impl Extend<(K, V)>,
    ) {
        let before = shard.charged.load(Relaxed);
        let account = &self.accounts[need.partition];
        let given = policy.evict_while(BATCH_MAX as u64, gone, |policy| {
            let held = policy.partitions().get(need.partition);
            if held.share.limit_bytes != u64::MAX && policy.weight_of(need.partition) > 0 {
                let freed = held.noted.saturating_sub(policy.charged_to(need.partition));
                if !account.fits(need.bytes, freed) {
                    return Some(Giver::Partition(need.partition));
                }
            }
            let charged = policy.charged_bytes();
            let freed = before.saturating_sub(charged);
            (charged > floor && !self.budget.fits(need.bytes, freed))
                .then(|| Giver::AnyBut(self.within_reserve(policy, need)))
        });
        evicted.records += given.records;
        evicted.bytes += given.bytes;
        self.settle(shard, policy, Reserved::NOTHING);
    }

    /// The partitions that take no more than what they have reserved, all shards together and
    /// `need` included. Where more is reserved than there is, reserves count in proportion.
    #[inline]
    fn within_reserve(&self, policy: &Policy<K, V>, need: Need) -> PartitionSet {
        let mut within = PartitionSet::EMPTY;
        let (kept, capacity) = (self.budget.kept(), self.budget.capacity());
        if kept == 0 {
            return within;
        }
        let scale = (capacity as f64 / kept as f64).min(1.0);
        for number in 1..policy.partitions().len() {
            let account = &self.accounts[number];
            let noted = policy.partitions().get(number).noted;
            let freed = noted.saturating_sub(policy.charged_to(number));
            let growth = if number == need.partition { need.bytes } else { 0 };
            let held = account.charged().saturating_sub(freed).saturating_add(growth);
            if held as f64 <= account.kept() as f64 * scale {
                within.insert(number);
            }
        }
        within
    }

    /// Tells the accounts what a shard takes, of which `reserved` is charged already. Under the
    /// shard's write lock.
    #[inline]
    fn settle(&self, shard: &Shard<K, V>, policy: &mut Policy<K, V>, reserved: Reserved) {
        let after = policy.charged_bytes();
        let before = shard.charged.load(Relaxed);
        shard.charged.store(after, Relaxed);
        let Need { bytes, partition } = reserved.0;
        self.budget.settle(before + bytes, after);
        for number in 1..policy.partitions().len() {
            let after = policy.charged_to(number);
            let held = policy.partitions_mut().get_mut(number);
            let before = std::mem::replace(&mut held.noted, after);
            let reserved = if number == partition { bytes } else { 0 };
            self.accounts[number].settle(before + reserved, after);
        }
    }

    /// Counts a refusal, and takes out what is resident under the key: it is out of date.
    fn refuse(
        &self,
        hash: u64,
        key: &K,
        refused: Refused,
        gone: &mut impl Extend<(K, V)>,
    ) -> Refused {
        let reason = match refused {
            Refused::TooLarge { .. } => 0,
            Refused::NoRoom { .. } => 1,
            Refused::UnknownTenant { .. } => 2,
            Refused::Full { .. } => 3,
        };
        self.refused[reason].fetch_add(1, Relaxed);
        gone.extend(self.remove_hashed(hash, key).map(|value| (key.clone(), value)));
        refused
    }

    /// What one record may take where all may take `bytes`, header included.
    const fn record_cost_max(&self, bytes: u64) -> u64 {
        bytes / self.options.record_share
    }

    fn remove_hashed(&self, hash: u64, key: &K) -> Option<V> {
        let shard = self.shard(hash);
        let mut policy = shard.policy.write();
        let value = policy.remove(hash, key);
        self.settle(shard, &mut policy, Reserved::NOTHING);
        value
    }

    /// The shard of a hash. The index uses its low bits and its top seven, so take others.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K, V> {
        &self.shards[self.shard_number(hash)]
    }

    #[inline]
    fn shard_number(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.shards.len() - 1)
    }
}

/// What a shard keeps when it has to give although it is not above its share.
const fn floor_of(share: u64) -> u64 {
    share / 4 * 3
}

/// How hot records of this kind are: the hottest have the least.
fn tier(location: &Location) -> usize {
    let queue = match location.list.queue {
        Queue::Mru if location.hits > 0 => Queue::Mfu,
        queue => queue,
    };
    let list = List::new(location.list.class, queue);
    HEAT_ORDER.iter().position(|it| *it == list).expect("all lists are in it")
}

/// A power of two, at most [`SHARDS_MAX`].
fn shard_count(options: &Options) -> usize {
    let wanted = options.shards.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let roomy = options.capacity_bytes / SHARD_BYTES_MIN;
        (cores * SHARDS_PER_CORE).min(usize::try_from(roomy).unwrap_or(usize::MAX))
    });
    let count = wanted.clamp(1, SHARDS_MAX).next_power_of_two();
    // Chosen by cores, rounding up must not make the shards too small.
    let small = options.capacity_bytes / (count as u64) < SHARD_BYTES_MIN;
    if options.shards.is_none() && small && count > 1 { count / 2 } else { count }
}
