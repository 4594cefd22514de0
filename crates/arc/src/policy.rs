//! [`Policy`]: which records stay. One single-threaded structure, no I/O, no clock, no locks.
//!
//! # The algorithm
//!
//! This is ARC (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003) in its clock form CAR (Bansal and Modha, "CAR: Clock with Adaptive Replacement", FAST
//! 2004), with sizes in bytes, two classes of records, and the habits of OpenZFS where a file
//! cache needs them.
//!
//! Records that were used once stand on **MRU**, records that were used again on **MFU** (T1 and
//! T2 in the papers). Both are clocks. A hit moves nothing: it sets a bit in the record, so it
//! needs no exclusive lock. When room is needed, the hand looks at the oldest record of a list:
//!
//! ```text
//!             insert                                ghost hit
//!               |                                       |
//!               v      bit set: clear it, move          v
//!            [ MRU ] --------------------------->    [ MFU ] <--+ bit set: clear it,
//!               |                                       |   |   | go round once more
//!               | bit clear: evict                      |   +---+
//!               v                                       v
//!         ( MRU ghosts )                          ( MFU ghosts )
//! ```
//!
//! A **ghost** is the fingerprint of an evicted record. A miss that finds its ghost on the MRU
//! side says that MRU was too small, and raises the target for MRU; on the MFU side it lowers it.
//! The hand takes from MRU while MRU is at or above its target, else from MFU. So a scan flows
//! through MRU and leaves MFU alone, while a load with strong recency grows MRU. Targets move on
//! misses only.
//!
//! **Bytes.** A record weighs its payload and its header. A ghost weighs what its record weighed,
//! so the papers' bounds hold with weights: with `c` the capacity, MRU and its ghosts are at most
//! `c`, everything together at most `2c`. Steps of a target are weights too.
//!
//! **Classes.** Data and metadata have lists and targets of their own, and a third target divides
//! the capacity between them (see `balance.rs`). Metadata gives when it holds more than its
//! target, data otherwise; what one class does not use belongs to the other. For the bounds above
//! and the target of MRU, a class's `c` is what the other class leaves.
//!
//! **Bursts.** Reading a file in small pieces touches one record many times. A touch within
//! [`CORRELATED_WINDOW`](crate::CORRELATED_WINDOW) of the first is the same touch. A prefetch and
//! the first read after it are one access. A record that was prefetched and evicted unread comes
//! back to MRU, not MFU.
//!
//! **Uncached** records (read once and not to be kept) are the first to go and leave no ghost.
//!
//! # What is charged
//!
//! ```text
//! charged = sum of payload bytes
//!         + resident records * (size of key and value + 40 + 10)     record_overhead()
//!         + ghosts           * (24 + 10)                             ghost_overhead()
//! ```
//!
//! 40 bytes are the record's own fields and its links, 10 its share of the index, which takes 5.7
//! to 11.4 as its table doubles. Ghosts may take 1/16 of the capacity. Not charged are a few KiB
//! that an empty policy keeps, and the table of tenants (see [`Policy::tenant_table_bytes`]).

mod hand;
mod validate;

use std::time::Duration;

use crate::balance::Balance;
use crate::directory::Directory;
use crate::ghost::Ghost;
use crate::list::{Class, LISTS, List, Queue};
use crate::options::Options;
use crate::record::{Charge, Kind, Location, Record};
use crate::refused::Refused;
use crate::slab::ITEMS_MAX;
use crate::tenant::{Tenants, Usage};
use crate::touch::Touch;

/// One record may take the capacity divided by this.
pub const RECORD_SHARE: u64 = 8;

/// Ghosts may take the capacity divided by this, in memory.
pub const GHOST_SHARE: u64 = 16;

/// Steps of the hand for one victim. After so many second chances in a row the oldest record
/// goes although it was used, so that a call's work is bounded.
pub const HAND_STEPS_MAX: u32 = 1024;

/// Lists from the hottest to the coldest.
pub(crate) const HEAT_ORDER: [List; LISTS] = [
    List::new(Class::Metadata, Queue::Mfu),
    List::new(Class::Data, Queue::Mfu),
    List::new(Class::Metadata, Queue::Mru),
    List::new(Class::Data, Queue::Mru),
    List::new(Class::Metadata, Queue::Uncached),
    List::new(Class::Data, Queue::Uncached),
];

/// A hit: the value, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit<V> {
    /// The record's value.
    pub value: V,
    /// The list on which it stands.
    pub list: List,
    /// The record was prefetched or primed, and this is its first read.
    pub first_after_prefetch: bool,
}

/// What was evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Records.
    pub records: u64,
    /// Their payload bytes.
    pub bytes: u64,
}

/// What an insertion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// The list on which the record stands now.
    pub list: List,
    /// The key was resident; its value was replaced in place.
    pub replaced: bool,
    /// The ghost that was hit.
    pub ghost: Option<Ghost>,
    /// What had to go.
    pub evicted: Evicted,
}

/// See the module.
///
/// Every call takes the key's `hash` from the caller, which must always be the same for the same
/// key, and good in all 64 bits.
#[derive(Debug)]
pub struct Policy<K, V> {
    capacity: u64,
    window_us: u64,
    record_overhead: u64,
    ghost_overhead: u64,
    records: Directory<Record<K, V>>,
    ghosts: Directory<Ghost>,
    balance: Balance,
    tenants: Tenants,
}

impl<K: Eq, V: Clone> Policy<K, V> {
    /// An empty policy. `options.shards` has no meaning here.
    pub fn new(options: &Options) -> Self {
        let charged = u64::from(options.charge_overhead);
        Self {
            capacity: options.capacity_bytes,
            window_us: options.correlated_window.as_micros() as u64,
            record_overhead: charged * Directory::<Record<K, V>>::ITEM_BYTES,
            ghost_overhead: charged * Directory::<Ghost>::ITEM_BYTES,
            records: Directory::new(),
            ghosts: Directory::new(),
            balance: Balance::new(),
            tenants: Tenants::default(),
        }
    }

    // ---- Looking -------------------------------------------------------------------------------

    /// The record's value, if it is resident. Counts as an access at `now`.
    pub fn get(&self, hash: u64, key: &K, now: Duration) -> Option<V> {
        self.hit(hash, key, now).map(|hit| hit.value)
    }

    /// As [`Policy::get`], and tells where the record stands.
    pub fn hit(&self, hash: u64, key: &K, now: Duration) -> Option<Hit<V>> {
        let record = self.records.slab().get(self.slot(hash, key)?);
        let first_after_prefetch = record.touch.hit(now, self.window_us);
        self.tenants.get(record.tenant.into()).hit(record.list, first_after_prefetch);
        Some(Hit { value: record.value.clone(), list: record.list, first_after_prefetch })
    }

    /// The record's value, without any effect.
    pub fn peek(&self, hash: u64, key: &K) -> Option<V> {
        self.slot(hash, key).map(|slot| self.records.slab().get(slot).value.clone())
    }

    /// Whether the record is resident.
    pub fn contains(&self, hash: u64, key: &K) -> bool {
        self.slot(hash, key).is_some()
    }

    /// Where the record is and how it got there.
    pub fn locate(&self, hash: u64, key: &K) -> Option<Location> {
        self.slot(hash, key).map(|slot| self.records.slab().get(slot).location())
    }

    /// The ghost of an evicted record.
    pub fn ghost(&self, hash: u64) -> Option<Ghost> {
        self.ghosts.find(hash, |ghost| ghost.hash == hash).map(|slot| *self.ghosts.slab().get(slot))
    }

    /// Records of one list, youngest first.
    pub fn newest(&self, list: List) -> impl Iterator<Item = (&K, Location)> {
        let slab = self.records.slab();
        slab.newest(list).map(|slot| (&slab.get(slot).key, slab.get(slot).location()))
    }

    /// All records, hottest first: MFU before MRU before uncached, metadata before data, young
    /// before old.
    pub fn by_heat(&self) -> impl Iterator<Item = (&K, Location)> {
        HEAT_ORDER.into_iter().flat_map(|list| self.newest(list))
    }

    /// Ghosts of one list, youngest first.
    pub fn newest_ghosts(&self, list: List) -> impl Iterator<Item = Ghost> {
        self.ghosts.slab().newest(list).map(|slot| *self.ghosts.slab().get(slot))
    }

    // ---- Sums ----------------------------------------------------------------------------------

    /// Bound on [`Policy::charged_bytes`].
    pub const fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// What the policy takes, by the formula at the head of the module.
    pub fn charged_bytes(&self) -> u64 {
        Class::ALL.map(|class| self.weight(class)).iter().sum::<u64>() + self.ghost_memory()
    }

    /// Charge for the header of a resident record, bytes.
    pub const fn record_overhead(&self) -> u64 {
        self.record_overhead
    }

    /// Charge for a ghost, bytes.
    pub const fn ghost_overhead(&self) -> u64 {
        self.ghost_overhead
    }

    /// Resident records.
    pub fn len(&self) -> usize {
        self.records.slab().len()
    }

    /// Whether no record is resident.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of ghosts of one list, and their payload bytes.
    pub fn ghosts(&self, list: List) -> (u64, u64) {
        (self.ghosts.slab().items(list), self.ghosts.slab().bytes(list))
    }

    /// Target of MRU within `class`, and of metadata within the whole, as fractions.
    pub fn targets(&self, class: Class) -> (f64, f64) {
        (self.balance.mru(class).fraction(), self.balance.metadata().fraction())
    }

    /// Sums and counters of one tenant.
    pub fn tenant(&self, tenant: u32) -> Usage {
        self.tenants.usage(tenant)
    }

    /// Sums and counters of all tenants.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.tenants.iter().for_each(|tenant| sum += tenant.usage());
        sum
    }

    /// Memory of the table of tenants, bytes. Not charged.
    pub fn tenant_table_bytes(&self) -> u64 {
        self.tenants.bytes()
    }

    // ---- Changing ------------------------------------------------------------------------------

    /// Takes a record in and evicts what has to go for it; evicted and replaced values are
    /// appended to `dead`, for the caller to drop where it suits.
    ///
    /// If the key is resident, its value is replaced in place. If it is resident and the new
    /// value is refused, the old one goes: it must not be served any more.
    pub fn insert(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        charge: Charge,
        now: Duration,
        dead: &mut Vec<V>,
    ) -> Result<Inserted, Refused> {
        if let Err(refused) = self.check(&charge) {
            dead.extend(self.remove(hash, &key));
            return Err(refused);
        }
        let ghost = self.prepare(hash, &key, &charge, dead);
        let evicted = self.make_room(hash, &key, charge.bytes, dead);
        Ok(self.admit(hash, key, value, charge, ghost, now, evicted, dead))
    }

    /// Replaces a resident record's value; the record keeps its place. `false` if it is not
    /// resident, or had to be evicted for its own growth. If the new value is refused, the old
    /// one goes.
    pub fn replace(
        &mut self,
        hash: u64,
        key: &K,
        value: V,
        bytes: u64,
        dead: &mut Vec<V>,
    ) -> Result<bool, Refused> {
        if let Err(refused) = Refused::check_size(bytes, self.record_overhead, self.capacity) {
            dead.extend(self.remove(hash, key));
            return Err(refused);
        }
        if self.contains(hash, key) {
            self.make_room(hash, key, bytes, dead);
        }
        Ok(self.put(hash, key, value, bytes, dead))
    }

    /// Changes a resident value in its place; what it weighs must stay. `None` if it is not
    /// resident.
    pub fn update<R>(&mut self, hash: u64, key: &K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let slot = self.slot(hash, key)?;
        Some(self.records.update(slot, |record| change(&mut record.value)))
    }

    /// Takes a record out. It leaves no ghost.
    pub fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let slot = self.slot(hash, key)?;
        let value = self.take(slot).value;
        self.trim_ghosts();
        Some(value)
    }

    /// Marks a record as not to be kept: it is the first to go, and leaves no ghost. `false` if
    /// it is not resident.
    pub fn demote(&mut self, hash: u64, key: &K) -> bool {
        let Some(slot) = self.slot(hash, key) else { return false };
        let class = self.records.slab().get(slot).list.class;
        self.transfer(slot, List::new(class, Queue::Uncached));
        true
    }

    /// Keeps the records for which `keep` holds; values of the others are appended to `dead`.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &Location) -> bool, dead: &mut Vec<V>) {
        let mut cursor = self.len();
        while cursor > 0 {
            cursor = self.retain_below(cursor, usize::MAX, &mut keep, dead);
        }
    }

    /// One bounded step of [`Policy::retain`]: looks at up to `limit` records below the slot
    /// `cursor`, and returns the cursor of the next step; zero when done.
    ///
    /// Between two steps the policy may change: every record that was resident throughout is
    /// looked at, because the slab fills holes from its end only.
    pub(crate) fn retain_below(
        &mut self,
        cursor: usize,
        limit: usize,
        keep: &mut impl FnMut(&K, &Location) -> bool,
        dead: &mut Vec<V>,
    ) -> usize {
        let top = cursor.min(self.len());
        let bottom = top.saturating_sub(limit);
        for slot in (bottom..top).rev() {
            let record = self.records.slab().get(slot as u32);
            if !keep(&record.key, &record.location()) {
                dead.push(self.take(slot as u32).value);
            }
        }
        self.trim_ghosts();
        bottom
    }

    /// Changes the bound and shrinks to it at once.
    pub fn set_capacity(&mut self, capacity_bytes: u64, dead: &mut Vec<V>) -> Evicted {
        self.set_share(capacity_bytes);
        self.evict_while(u64::MAX, dead, |policy| policy.charged_bytes() > policy.capacity)
    }

    // ---- The pieces of an insertion, also used by `Cache` --------------------------------------

    /// Whether a record may be taken in at all, with this policy's capacity.
    fn check(&self, charge: &Charge) -> Result<(), Refused> {
        Refused::check_tenant(charge.tenant)?;
        Refused::check_size(charge.bytes, self.record_overhead, self.capacity)?;
        self.check_slots()
    }

    /// Whether there is a slot for one more record.
    pub(crate) fn check_slots(&self) -> Result<(), Refused> {
        if self.len() < ITEMS_MAX { Ok(()) } else { Err(Refused::Full { limit: ITEMS_MAX as u64 }) }
    }

    /// First step of an insertion: takes the key's ghost off its list and learns from it. A
    /// resident record of the key that was charged to another class or tenant goes.
    pub(crate) fn prepare(
        &mut self,
        hash: u64,
        key: &K,
        charge: &Charge,
        dead: &mut Vec<V>,
    ) -> Option<Ghost> {
        if let Some(slot) = self.slot(hash, key) {
            let old = self.records.slab().get(slot);
            if (old.list.class, u32::from(old.tenant)) != (charge.class, charge.tenant) {
                dead.push(self.take(slot).value);
            }
        }
        let slot = self.ghosts.find(hash, |ghost| ghost.hash == hash)?;
        let ghost = *self.ghosts.slab().get(slot);
        if charge.kind != Kind::Prime {
            let weight = u64::from(ghost.bytes) + self.record_overhead;
            let weights = List::ALL.map(|list| self.ghost_weight(list));
            let (share, total) = (self.share(ghost.list.class), self.payload_capacity());
            self.balance.learn(ghost.list, weight, &weights, share, total);
        }
        let hits = self.tenants.get_mut(charge.tenant).list_mut(ghost.list);
        hits.ghost_hits += 1;
        hits.ghost_hit_bytes += charge.bytes;
        Some(self.ghosts.remove(slot))
    }

    /// How much a record of `bytes` under this key would add to the charge.
    pub(crate) fn growth(&self, hash: u64, key: &K, bytes: u64) -> u64 {
        match self.slot(hash, key) {
            Some(slot) => bytes.saturating_sub(self.records.slab().get(slot).bytes),
            None => bytes + self.record_overhead,
        }
    }

    fn make_room(&mut self, hash: u64, key: &K, bytes: u64, dead: &mut Vec<V>) -> Evicted {
        self.evict_while(u64::MAX, dead, |policy| {
            policy.charged_bytes() + policy.growth(hash, key, bytes) > policy.capacity
        })
    }

    /// Evicts while `more` holds, at most `limit` records.
    pub(crate) fn evict_while(
        &mut self,
        limit: u64,
        dead: &mut Vec<V>,
        more: impl Fn(&Self) -> bool,
    ) -> Evicted {
        let mut evicted = Evicted::default();
        while evicted.records < limit && more(self) {
            let Some(record) = self.evict() else { break };
            evicted.records += 1;
            evicted.bytes += record.bytes;
            dead.push(record.value);
        }
        evicted
    }

    /// Last step of an insertion, once there is room.
    #[expect(clippy::too_many_arguments, reason = "one call site each in Policy and Cache")]
    pub(crate) fn admit(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        charge: Charge,
        ghost: Option<Ghost>,
        now: Duration,
        evicted: Evicted,
        dead: &mut Vec<V>,
    ) -> Inserted {
        if let Some(slot) = self.slot(hash, &key) {
            let list = self.records.slab().get(slot).list;
            self.put(hash, &key, value, charge.bytes, dead);
            return Inserted { list, replaced: true, ghost, evicted };
        }
        // A resident record that was evicted for its own growth has left one meanwhile.
        if let Some(slot) = self.ghosts.find(hash, |ghost| ghost.hash == hash) {
            self.ghosts.remove(slot);
        }
        let demand = charge.kind == Kind::Demand;
        let (queue, touch) = match ghost {
            None => (Queue::Mru, Touch::new(now, !demand)),
            Some(ghost) if ghost.list.queue == Queue::Mfu => (Queue::Mfu, Touch::new(now, !demand)),
            Some(ghost) if ghost.prefetched => (Queue::Mru, Touch::new(now, !demand)),
            Some(_) if demand => (Queue::Mfu, Touch::new(now, false)),
            // Read once before it was evicted: the next read is the second access.
            Some(_) => (Queue::Mru, Touch::new(Duration::ZERO, false)),
        };
        let list = List::new(charge.class, queue);
        let tenant = self.tenants.get_mut(charge.tenant);
        tenant.plain.inserts += 1;
        tenant.list_mut(list).records += 1;
        tenant.list_mut(list).bytes += charge.bytes;
        self.records.push(Record {
            hash,
            key,
            value,
            bytes: charge.bytes,
            touch,
            inserted_s: now.as_secs() as u32,
            tenant: charge.tenant as u16,
            list,
        });
        self.trim_ghosts();
        Inserted { list, replaced: false, ghost, evicted }
    }

    /// Puts a new value in the place of a resident one, once there is room.
    pub(crate) fn put(
        &mut self,
        hash: u64,
        key: &K,
        value: V,
        bytes: u64,
        dead: &mut Vec<V>,
    ) -> bool {
        let Some(slot) = self.slot(hash, key) else {
            dead.push(value);
            return false;
        };
        let record = self.records.slab().get(slot);
        let sums = self.tenants.get_mut(record.tenant.into()).list_mut(record.list);
        sums.bytes = sums.bytes - record.bytes + bytes;
        dead.push(self.records.update(slot, |record| {
            record.bytes = bytes;
            std::mem::replace(&mut record.value, value)
        }));
        self.trim_ghosts();
        true
    }

    /// Changes the bound without evicting.
    pub(crate) fn set_share(&mut self, capacity_bytes: u64) {
        self.capacity = capacity_bytes;
        self.trim_ghosts();
    }

    // ---- Slots and sums ------------------------------------------------------------------------

    fn slot(&self, hash: u64, key: &K) -> Option<u32> {
        self.records.find(hash, |record| record.key == *key)
    }

    fn take(&mut self, slot: u32) -> Record<K, V> {
        let record = self.records.remove(slot);
        let sums = self.tenants.get_mut(record.tenant.into()).list_mut(record.list);
        sums.records -= 1;
        sums.bytes -= record.bytes;
        record
    }

    fn transfer(&mut self, slot: u32, list: List) {
        let record = self.records.slab().get(slot);
        let (tenant, from, bytes) = (record.tenant.into(), record.list, record.bytes);
        let tenant = self.tenants.get_mut(tenant);
        tenant.list_mut(from).records -= 1;
        tenant.list_mut(from).bytes -= bytes;
        tenant.list_mut(list).records += 1;
        tenant.list_mut(list).bytes += bytes;
        self.records.move_to(slot, list);
    }
}
