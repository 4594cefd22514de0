//! [`Policy`]: which records stay. One single-threaded structure, no I/O, no clock, no locks.
//!
//! # The algorithm
//!
//! There are two sets of rules on one structure. [`PolicyKind::Arc`](crate::PolicyKind::Arc) is
//! told first, then what [`PolicyKind::Auto`](crate::PolicyKind::Auto) does otherwise.
//!
//! This is ARC (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003) in its clock form CAR (Bansal and Modha, "CAR: Clock with Adaptive Replacement", FAST
//! 2004), with sizes in bytes, two classes of records, and the habits of OpenZFS where a file
//! cache needs them.
//!
//! Records that were used once stand on **MRU**, records that were used again on **MFU** (T1 and
//! T2 in the papers). Both are clocks. A hit moves nothing: it counts in the record, so it
//! needs no exclusive lock; ARC asks only whether the count is zero, which is the papers' bit.
//! When room is needed, the hand looks at the oldest record of a list:
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
//! back to MRU, not MFU; one that comes back by a prefetch waits on MRU for its first read, which
//! earns what a read that brought it back would have earned.
//!
//! **Partitions.** A dataset with a reserve or a limit has lists, ghosts and targets of its own: a
//! partition, which is a cache of this kind within the cache. When room is needed, the partition
//! gives that is furthest above its due; ghost hits move what each is due beyond its reserve. For
//! the bounds above a partition's `c` is what the others leave.
//!
//! **Uncached** records (read once and not to be kept) are the first to go and leave no ghost.
//!
//! # Settings
//!
//! Under `auto` MRU's share of a class is not moved by ghost hits but set: see
//! [`Setting`](crate::Setting), of which shadow caches choose one (`tuner.rs`). What differs:
//!
//! - **Filling.** While there is room, what comes first goes to MFU.
//! - **Promotion.** A record of MRU goes on to MFU when the hand finds that it was used twice since
//!   it came; one use is what a scan of a file in small pieces makes, too.
//! - **The hand on MFU** takes one off the count of a used record and lets it go round; a count of
//!   three is three rounds.
//! - **Ghosts** of both lists are one queue, which remembers three times the capacity, with the
//!   time of last use. A record that comes back goes to MFU if its last use was later than that of
//!   MFU's oldest, after the hand has passed up to eight used ones there: it has come back sooner
//!   than what would have to give way. Otherwise it starts on MRU. (LIRS, Jiang and Zhang,
//!   SIGMETRICS 2002, compares in this way.)
//! - **Changes.** Where a change of the setting leaves MRU longer than it should be, those of its
//!   oldest that stood there go over to MFU: what was held stays, in its order.
//! - **Reading ahead.** While MRU's oldest record waits for its first read, MRU may grow to a
//!   quarter of its class, and MFU gives.
//! - **The start.** Until anything was used again the setting is recency. If that was while there
//!   was still room, it becomes frequency.
//! - **Recency.** In that setting the older of both ends goes, records come in on MRU, and a used
//!   record goes round where it stands: LRU as a clock.
//!
//! Time of use is counted in insertions, so that hits change nothing while nothing comes in.
//!
//! # What is charged
//!
//! ```text
//! charged = sum of payload bytes
//!         + resident records * (size of key and value + 40 + 10)     record_overhead()
//!         + ghosts           * (24 + 10)                             ghost_overhead()
//!         + under auto: capacity / 64, at most 5,242,880             for the shadows
//! ```
//!
//! 40 bytes are the record's own fields and its links, 10 its share of the index, which takes 5.7
//! to 11.4 as its table doubles. Ghosts may take 1/16 of the capacity. Not charged are a few KiB
//! that an empty policy keeps, and the table of tenants (see [`Policy::tenant_table_bytes`]).

mod hand;
mod resume;
mod tails;
mod uses;
mod validate;
mod weights;

use std::ops::AddAssign;
use std::time::Duration;

use crate::behaviour::{Behaviour, GHOSTS_MIN};
use crate::directory::{Directory, Found};
use crate::ghost::Ghost;
use crate::index::{HashIndex, Index};
use crate::list::{Class, LISTS, List, Queue};
use crate::options::Options;
use crate::partition::{PartitionSet, Partitions};
use crate::place::{PARTITIONS_MAX, Place};
use crate::record::{Charge, Kind, Location, Record};
use crate::refused::Refused;
use crate::share::Share;
use crate::slab::{ITEMS_MAX, Slab};
use crate::sync::AtomicU32;
use crate::tenant::{Tenants, Usage};
use crate::touch::{Noted, Touch};
use crate::tuner::Tuner;

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

/// A hit that has not been counted for the record's tenant yet.
#[derive(Debug)]
pub(crate) struct Seen<'a, V> {
    pub value: &'a V,
    pub place: Place,
    pub tenant: u32,
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

impl AddAssign for Evicted {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
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
/// key, and good in all 64 bits. `I` is how a record is found by it.
#[derive(Debug)]
pub struct Policy<K, V, I = HashIndex> {
    capacity: u64,
    window_us: u64,
    record_share: u64,
    charge_overhead: bool,
    record_overhead: u64,
    ghost_overhead: u64,
    directory: Directory<K, V, I>,
    partitions: Partitions,
    tenants: Tenants,
    /// What is charged besides records and ghosts, bytes.
    aside: u64,
    /// Counts insertions.
    clock: u32,
    /// See [`GHOSTS_MIN`].
    ghosts_min: u64,
}

/// What is known of a record that is to come in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival {
    comeback: Option<Comeback>,
    /// Nothing is there under its key, neither a record nor a ghost.
    absent: bool,
}

impl Arrival {
    /// The same, after others have had their turn.
    pub(crate) const fn delayed(self) -> Self {
        Self { absent: false, ..self }
    }
}

/// A record that came back while it was remembered, and the list it has earned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comeback {
    ghost: Ghost,
    /// Where the ghost stood.
    place: Place,
    queue: Queue,
}

/// Who has to give before a record can come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Giver {
    /// Whoever is furthest above its due, but for those that keep what they have.
    AnyBut(PartitionSet),
    /// This partition, which is at its limit.
    Partition(usize),
}

impl Giver {
    pub(crate) const ANY: Self = Self::AnyBut(PartitionSet::EMPTY);
}

impl<K: Eq + Clone, V: Clone> Policy<K, V> {
    /// An empty policy. `options.shards` has no meaning here.
    pub fn new(options: &Options) -> Self {
        Self::with_index(options, HashIndex::default())
    }

    /// One of `count` policies that share a capacity and a tuner.
    pub(crate) fn one_of(options: &Options, count: usize, behaviour: &Behaviour) -> Self {
        Self::part_of(options, count, behaviour, HashIndex::default())
    }

    /// An empty policy whose records follow these rules.
    pub(crate) fn with_behaviour(options: &Options, behaviour: Behaviour) -> Self {
        Self::empty(options, behaviour, HashIndex::default())
    }
}

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// An empty policy that finds its records by this index, which is empty.
    pub fn with_index(options: &Options, index: I) -> Self {
        let mut policy = Self::part_of(options, 1, &Tuner::for_kind(options, 1), index);
        policy.set_capacity(options.capacity_bytes, &mut Vec::new());
        policy
    }

    fn part_of(options: &Options, count: usize, behaviour: &Behaviour, index: I) -> Self {
        let count = count as u64;
        let capacity_bytes = options.capacity_bytes / count;
        let options = Options { capacity_bytes, ..*options };
        let mut policy = Self::empty(&options, behaviour.clone(), index);
        policy.set_ghosts_min(GHOSTS_MIN / count);
        policy
    }

    fn empty(options: &Options, behaviour: Behaviour, index: I) -> Self {
        let charged = u64::from(options.charge_overhead);
        let record_overhead = charged * Directory::<K, V, I>::RECORD_BYTES;
        Self {
            capacity: options.capacity_bytes,
            window_us: options.correlated_window.as_micros() as u64,
            record_share: options.record_share.max(1),
            charge_overhead: options.charge_overhead,
            record_overhead,
            ghost_overhead: charged * Directory::<K, V, I>::GHOST_BYTES,
            directory: Directory::new(index, record_overhead),
            partitions: Partitions::new(behaviour),
            tenants: Tenants::default(),
            aside: 0,
            clock: 0,
            ghosts_min: GHOSTS_MIN,
        }
    }

    // ---- Looking -------------------------------------------------------------------------------

    /// The record's value, if it is resident. Counts as an access at `now`.
    pub fn get(&self, hash: u64, key: &K, now: Duration) -> Option<V> {
        self.hit(hash, key, now).map(|hit| hit.value)
    }

    /// As [`Policy::get`], and tells where the record stands.
    pub fn hit(&self, hash: u64, key: &K, now: Duration) -> Option<Hit<V>> {
        let Seen { value, place, tenant, first_after_prefetch } = self.touch(hash, key, now)?;
        let list = place.list();
        self.tenants.get(tenant).hit(list, first_after_prefetch);
        Some(Hit { value: value.clone(), list, first_after_prefetch })
    }

    /// An access at `now` to a record, if it is resident, that the caller counts for the tenant.
    #[inline(always)]
    pub(crate) fn touch(&self, hash: u64, key: &K, now: Duration) -> Option<Seen<'_, V>> {
        let record = self.records().get(self.directory.record(hash, key)?);
        let noted = record.touch.hit(now, self.window_us);
        if noted != Noted::Same {
            self.note_use(record, noted, now);
        }
        Some(Seen {
            value: &record.value,
            place: record.place,
            tenant: record.tenant.into(),
            first_after_prefetch: noted == Noted::First,
        })
    }

    /// The record's value, without any effect.
    pub fn peek(&self, hash: u64, key: &K) -> Option<V> {
        self.directory.record(hash, key).map(|slot| self.records().get(slot).value.clone())
    }

    /// Whether the record is resident.
    pub fn contains(&self, hash: u64, key: &K) -> bool {
        self.directory.record(hash, key).is_some()
    }

    /// Where the record is and how it got there.
    pub fn locate(&self, hash: u64, key: &K) -> Option<Location> {
        self.directory.record(hash, key).map(|slot| self.records().get(slot).location(self.clock))
    }

    /// The ghost of an evicted record.
    pub fn ghost(&self, hash: u64) -> Option<Ghost> {
        self.directory.ghost(hash).map(|slot| self.directory.ghosts().get(slot).ghost())
    }

    /// Records of one list, youngest first; partition after partition.
    pub fn newest(&self, list: List) -> impl Iterator<Item = (&K, Location)> {
        let records = self.records();
        let slots = self.places(list).flat_map(|place| records.newest(place));
        slots.map(|slot| (&records.get(slot).key, records.get(slot).location(self.clock)))
    }

    /// All records, hottest first: MFU before MRU before uncached, metadata before data, young
    /// before old.
    pub fn by_heat(&self) -> impl Iterator<Item = (&K, Location)> {
        HEAT_ORDER.into_iter().flat_map(|list| self.newest(list))
    }

    /// Ghosts of one list, youngest first; partition after partition.
    pub fn newest_ghosts(&self, list: List) -> impl Iterator<Item = Ghost> {
        let ghosts = self.directory.ghosts();
        let slots = self.places(list).flat_map(|place| ghosts.newest(place));
        slots.map(|slot| ghosts.get(slot).ghost())
    }

    // ---- Sums ----------------------------------------------------------------------------------

    /// Bound on [`Policy::charged_bytes`].
    pub const fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// What the policy takes, by the formula at the head of the module.
    #[inline]
    pub fn charged_bytes(&self) -> u64 {
        self.weight() + self.ghost_memory() + self.aside
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
        self.records().len()
    }

    /// Whether no record is resident.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of ghosts of one list, and their payload bytes.
    pub fn ghosts(&self, list: List) -> (u64, u64) {
        let ghosts = self.directory.ghosts();
        let sums = self.places(list).map(|place| (ghosts.items(place), ghosts.bytes(place)));
        sums.fold((0, 0), |sum, add| (sum.0 + add.0, sum.1 + add.1))
    }

    /// Target of MRU within `class`, and of metadata within the whole, as fractions, of a
    /// partition.
    pub fn targets(&self, partition: usize, class: Class) -> (f64, f64) {
        let balance = &self.partitions.get(partition).balance;
        (balance.mru(class).fraction(), balance.metadata().fraction())
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

    /// Takes a record in and evicts what has to go for it; evicted and replaced values go to
    /// `gone` with their keys, for the caller to drop where it suits.
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
        gone: &mut impl Extend<(K, V)>,
    ) -> Result<Inserted, Refused> {
        if let Err(refused) = self.check(&charge) {
            gone.extend(self.remove(hash, &key).map(|value| (key, value)));
            return Err(refused);
        }
        let arrival = self.prepare(hash, &key, &charge, now, gone);
        let evicted = self.make_room(hash, &key, arrival, charge.tenant, charge.bytes, gone);
        Ok(self.admit(hash, key, value, charge, arrival, now, evicted, gone))
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
        gone: &mut impl Extend<(K, V)>,
    ) -> Result<bool, Refused> {
        let limit = self.capacity / self.record_share;
        if let Err(refused) = Refused::check_size(bytes, self.record_overhead, limit) {
            gone.extend(self.remove(hash, key).map(|value| (key.clone(), value)));
            return Err(refused);
        }
        if let Some(slot) = self.directory.record(hash, key) {
            let tenant = self.records().get(slot).tenant.into();
            self.make_room(hash, key, Arrival::default(), tenant, bytes, gone);
        }
        Ok(self.put(hash, key, value, bytes, gone))
    }

    /// Changes a resident value in its place; what it weighs must stay. `None` if it is not
    /// resident.
    pub fn update<R>(&mut self, hash: u64, key: &K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let slot = self.directory.record(hash, key)?;
        Some(self.directory.update(slot, |record| change(&mut record.value)))
    }

    /// Takes a record out. It leaves no ghost.
    pub fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let slot = self.directory.record(hash, key)?;
        let value = self.take(slot).value;
        self.trim_ghosts();
        Some(value)
    }

    /// Marks a record as not to be kept: it is the first to go, and leaves no ghost. `false` if
    /// it is not resident.
    pub fn demote(&mut self, hash: u64, key: &K) -> bool {
        let Some(slot) = self.directory.record(hash, key) else { return false };
        let place = self.records().get(slot).place;
        self.transfer(slot, place.with_list(List::new(place.list().class, Queue::Uncached)));
        true
    }

    /// Keeps the records for which `keep` holds; the others go to `gone`.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(&K, &Location) -> bool,
        gone: &mut impl Extend<(K, V)>,
    ) {
        self.retain_below(usize::MAX, usize::MAX, &mut keep, gone);
    }

    /// One bounded step of [`Policy::retain`]: looks at up to `limit` records below the slot
    /// `cursor`, and returns the cursor of the next step; zero when done.
    ///
    /// Between two steps the policy may change: every record that was resident throughout is
    /// looked at, because records move to lower slots only.
    pub(crate) fn retain_below(
        &mut self,
        cursor: usize,
        limit: usize,
        keep: &mut impl FnMut(&K, &Location) -> bool,
        gone: &mut impl Extend<(K, V)>,
    ) -> usize {
        let top = cursor.min(self.records().slots());
        let bottom = top.saturating_sub(limit);
        for slot in (bottom as u32..top as u32).rev() {
            let Some(record) = self.records().occupant(slot) else { continue };
            if !keep(&record.key, &record.location(self.clock)) {
                gone.extend(Some(self.take(slot).into_entry()));
            }
        }
        self.trim_ghosts();
        bottom
    }

    /// Gives a partition its share of the capacity. A new one has the rules of ARC.
    pub fn set_share(&mut self, partition: usize, share: Share) {
        let known = partition < self.partitions.len();
        let behaviour = known.then(|| self.partitions.get(partition).behaviour.clone());
        self.set_partition(partition, share, behaviour.unwrap_or(Behaviour::Arc));
    }

    /// Lets a tenant's records stand in a partition from now on, those that are resident too.
    pub fn assign(&mut self, tenant: u32, partition: usize) {
        self.assign_later(tenant, partition);
        self.assign_below(usize::MAX, usize::MAX, tenant);
    }

    /// Gives a partition its share of the capacity, and its rules.
    pub(crate) fn set_partition(&mut self, partition: usize, share: Share, behaviour: Behaviour) {
        assert!(partition < PARTITIONS_MAX, "partition {partition} out of range");
        self.partitions.set(partition, share, behaviour);
        self.trim_ghosts();
    }

    /// Keeps at least so many ghosts; see [`GHOSTS_MIN`].
    pub(crate) fn set_ghosts_min(&mut self, ghosts: u64) {
        self.ghosts_min = ghosts;
        self.trim_ghosts();
    }

    /// Keeps the ghosts for whose hashes `keep` holds.
    pub(crate) fn retain_ghosts(&mut self, keep: impl Fn(u64) -> bool) {
        for slot in (0..self.directory.ghosts().slots() as u32).rev() {
            let ghost = self.directory.ghosts().occupant(slot);
            if ghost.is_some_and(|ghost| !keep(ghost.hash)) {
                self.forget(slot);
            }
        }
    }

    /// Lets records that a tenant brings in from now on stand in a partition.
    pub(crate) fn assign_later(&mut self, tenant: u32, partition: usize) {
        assert!(partition < self.partitions.len(), "partition {partition} has no share");
        self.tenants.get_mut(tenant).partition = partition as u8;
    }

    /// One bounded step of moving a tenant's records to its partition; as
    /// [`Policy::retain_below`].
    pub(crate) fn assign_below(&mut self, cursor: usize, limit: usize, tenant: u32) -> usize {
        let partition = self.tenants.partition(tenant);
        let top = cursor.min(self.records().slots());
        let bottom = top.saturating_sub(limit);
        for slot in bottom as u32..top as u32 {
            let Some(record) = self.records().occupant(slot) else { continue };
            let (owner, from) = (u32::from(record.tenant), record.place);
            if owner == tenant && from.partition() != partition {
                self.transfer(slot, Place::new(partition, from.list()));
            }
        }
        self.trim_ghosts();
        bottom
    }

    /// Changes the bound and shrinks to it at once.
    pub fn set_capacity(&mut self, capacity_bytes: u64, gone: &mut impl Extend<(K, V)>) -> Evicted {
        self.set_bound(capacity_bytes);
        if let Some(tuner) = self.partitions.get(0).behaviour.tuner()
            && self.charge_overhead
        {
            self.aside = Tuner::bytes_max(capacity_bytes);
            tuner.set_bytes_max(self.aside);
        }
        let giver =
            |policy: &Self| (policy.charged_bytes() > policy.capacity).then_some(Giver::ANY);
        let evicted = self.evict_while(u64::MAX, gone, giver);
        self.compact(usize::MAX);
        evicted
    }

    // ---- The pieces of an insertion, also used by `Cache` --------------------------------------

    /// Whether a record may be taken in at all, with this policy's capacity.
    #[inline]
    fn check(&self, charge: &Charge) -> Result<(), Refused> {
        Refused::check_tenant(charge.tenant)?;
        let own = self.partitions.get(self.tenants.partition(charge.tenant)).share.limit_bytes;
        let limit = self.capacity.min(own) / self.record_share;
        Refused::check_size(charge.bytes, self.record_overhead, limit)?;
        self.check_slots()
    }

    /// Whether there is a slot for one more record.
    #[inline]
    pub(crate) fn check_slots(&self) -> Result<(), Refused> {
        if self.len() < ITEMS_MAX { Ok(()) } else { Err(Refused::Full { limit: ITEMS_MAX as u64 }) }
    }

    /// First step of an insertion: takes the key's ghost off its list. A resident record of the
    /// key that was charged to another class or tenant goes.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        hash: u64,
        key: &K,
        charge: &Charge,
        now: Duration,
        gone: &mut impl Extend<(K, V)>,
    ) -> Arrival {
        self.note_miss(hash, charge, now);
        let absent = Arrival { comeback: None, absent: true };
        let slot = match self.directory.find(hash, key) {
            Some(Found::Ghost(slot)) => slot,
            Some(Found::Record(slot)) => {
                let old = self.records().get(slot);
                let payer = (old.place.list().class, u32::from(old.tenant));
                if payer == (charge.class, charge.tenant) {
                    return Arrival::default();
                }
                gone.extend(Some(self.take(slot).into_entry()));
                return absent;
            }
            None => return absent,
        };
        if charge.kind == Kind::Passing {
            self.forget(slot);
            return absent;
        }
        let ghost = self.directory.ghosts().get(slot).ghost();
        let place = self.directory.ghosts().get(slot).place;
        let queue = self.earned(slot, charge);
        let hits = self.tenants.get_mut(charge.tenant).list_mut(ghost.list);
        hits.ghost_hits += 1;
        hits.ghost_hit_bytes += charge.bytes;
        self.forget(slot);
        Arrival { comeback: Some(Comeback { ghost, place, queue }), ..absent }
    }

    /// How much a record of `bytes` under this key would add to the charge.
    #[inline]
    pub(crate) fn growth(&self, hash: u64, key: &K, arrival: Arrival, bytes: u64) -> u64 {
        let resident = if arrival.absent { None } else { self.directory.record(hash, key) };
        match resident {
            Some(slot) => bytes.saturating_sub(self.records().get(slot).bytes),
            None => bytes + self.record_overhead,
        }
    }

    #[inline]
    fn make_room(
        &mut self,
        hash: u64,
        key: &K,
        arrival: Arrival,
        tenant: u32,
        bytes: u64,
        gone: &mut impl Extend<(K, V)>,
    ) -> Evicted {
        let partition = self.tenants.partition(tenant);
        let limit = self.partitions.get(partition).share.limit_bytes;
        let evicted = self.evict_while(u64::MAX, gone, |policy| {
            let growth = policy.growth(hash, key, arrival, bytes);
            if policy.charged_to(partition).saturating_add(growth) > limit {
                Some(Giver::Partition(partition))
            } else if policy.charged_bytes() + growth > policy.capacity {
                Some(Giver::ANY)
            } else {
                None
            }
        });
        self.compact(usize::MAX);
        evicted
    }

    /// Fills up to `limit` of the holes that evicted records have left, if there are too many;
    /// whether that is all.
    pub(crate) fn compact(&mut self, limit: usize) -> bool {
        self.directory.compact(limit)
    }

    /// Evicts from whom `giver` names, until it names nobody or there is nothing left to give; at
    /// most `limit` records. Call [`Policy::compact`] afterwards.
    #[inline]
    pub(crate) fn evict_while(
        &mut self,
        limit: u64,
        gone: &mut impl Extend<(K, V)>,
        giver: impl Fn(&Self) -> Option<Giver>,
    ) -> Evicted {
        let mut evicted = Evicted::default();
        while evicted.records < limit
            && let Some(giver) = giver(self)
            && let Some(record) = self.evict(giver)
        {
            evicted.records += 1;
            evicted.bytes += record.bytes;
            gone.extend(Some(record.into_entry()));
        }
        evicted
    }

    /// Last step of an insertion, once there is room: learns from the ghost, as CAR does after it
    /// has replaced, and takes the record in.
    #[expect(clippy::too_many_arguments, reason = "one call site each in Policy and Cache")]
    #[inline]
    pub(crate) fn admit(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        charge: Charge,
        arrival: Arrival,
        now: Duration,
        evicted: Evicted,
        gone: &mut impl Extend<(K, V)>,
    ) -> Inserted {
        let Arrival { comeback, absent } = arrival;
        if let Some(Comeback { ghost, place, .. }) = comeback
            && charge.kind != Kind::Prime
        {
            self.learn(place, ghost.bytes + self.record_overhead);
        }
        match if absent { None } else { self.directory.find(hash, &key) } {
            Some(Found::Record(slot)) => {
                let list = self.records().get(slot).place.list();
                self.note_arrival(slot, charge.kind, now);
                self.put(hash, &key, value, charge.bytes, gone);
                let ghost = comeback.map(|comeback| comeback.ghost);
                return Inserted { list, replaced: true, ghost, evicted };
            }
            // A resident record that was evicted for its own growth has left one meanwhile.
            Some(Found::Ghost(slot)) => self.forget(slot),
            None => {}
        }
        let demand = charge.kind == Kind::Demand;
        let ghost = comeback.map(|comeback| comeback.ghost);
        let partition = self.tenants.partition(charge.tenant);
        self.note_setting(partition);
        let (queue, touch) = match comeback {
            // What it has earned it gets when it is read.
            Some(Comeback { ghost, queue, .. }) if !demand && ghost.list.queue == Queue::Mru => {
                let touch = match ghost.prefetched {
                    true => Touch::new(now, true),
                    false => Touch::returned(now, self.turns_lent(partition, queue)),
                };
                (Queue::Mru, touch)
            }
            Some(Comeback { queue, .. }) => (queue, Touch::new(now, !demand)),
            None => {
                let unread = !demand && charge.kind != Kind::Passing;
                (self.first_queue(partition, &charge, evicted), Touch::new(now, unread))
            }
        };
        let list = List::new(charge.class, queue);
        self.clock = self.clock.wrapping_add(1);
        let tenant = self.tenants.get_mut(charge.tenant);
        tenant.plain.inserts += 1;
        tenant.list_mut(list).records += 1;
        tenant.list_mut(list).bytes += charge.bytes;
        let place = Place::new(partition, list);
        self.directory.insert(Record {
            hash,
            key,
            value,
            bytes: charge.bytes,
            touch,
            used: AtomicU32::new(self.clock),
            tenant: charge.tenant as u16,
            place,
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
        gone: &mut impl Extend<(K, V)>,
    ) -> bool {
        let Some(slot) = self.directory.record(hash, key) else {
            gone.extend(Some((key.clone(), value)));
            return false;
        };
        let record = self.records().get(slot);
        let (place, before) = (record.place, record.bytes);
        let sums = self.tenants.get_mut(record.tenant.into()).list_mut(place.list());
        sums.bytes = sums.bytes - before + bytes;
        let old = self.directory.update(slot, |record| {
            record.bytes = bytes;
            std::mem::replace(&mut record.value, value)
        });
        gone.extend(Some((key.clone(), old)));
        self.trim_ghosts();
        true
    }

    /// Changes the bound without evicting.
    pub(crate) fn set_bound(&mut self, capacity_bytes: u64) {
        self.capacity = capacity_bytes;
        self.trim_ghosts();
    }

    /// The partition to which a tenant's records are charged.
    #[inline]
    pub(crate) fn partition_of(&self, tenant: u32) -> usize {
        self.tenants.partition(tenant)
    }

    /// The partitions, for the accounts that a [`Cache`](crate::Cache) keeps of them.
    pub(crate) fn partitions_mut(&mut self) -> &mut Partitions {
        &mut self.partitions
    }

    /// The partitions.
    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    // ---- Slots and sums ------------------------------------------------------------------------

    #[inline]
    fn records(&self) -> &Slab<Record<K, V>> {
        self.directory.records()
    }

    /// The lists of that name of all partitions.
    fn places(&self, list: List) -> impl Iterator<Item = Place> + use<K, V, I> {
        (0..self.partitions.len()).map(move |partition| Place::new(partition, list))
    }

    fn take(&mut self, slot: u32) -> Record<K, V> {
        let record = self.directory.remove(slot);
        self.directory.compact(usize::MAX);
        self.discount(&record);
        record
    }

    /// Takes a record that has gone out of its tenant's sums.
    #[inline]
    fn discount(&mut self, record: &Record<K, V>) {
        let sums = self.tenants.get_mut(record.tenant.into()).list_mut(record.place.list());
        sums.records -= 1;
        sums.bytes -= record.bytes;
    }

    #[inline]
    fn transfer(&mut self, slot: u32, place: Place) {
        let record = self.records().get(slot);
        let (tenant, from, bytes) = (record.tenant.into(), record.place, record.bytes);
        let tenant = self.tenants.get_mut(tenant);
        let sums = tenant.list_mut(from.list());
        sums.records -= 1;
        sums.bytes -= bytes;
        let sums = tenant.list_mut(place.list());
        sums.records += 1;
        sums.bytes += bytes;
        self.directory.move_to(slot, place);
    }
}
