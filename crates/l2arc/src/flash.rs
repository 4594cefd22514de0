use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use storage::{Clock, Device, DeviceError, Spawn};

use crate::buffers::Buffers;
use crate::compression::Compression;
use crate::doorkeeper::Doorkeeper;
use crate::error::{AddError, NotDurable};
use crate::health::Share;
use crate::index::Index;
use crate::key::Key;
use crate::location::{RINGS_MAX, UNIT_BYTES};
use crate::options::Options;
use crate::record::{HEADER_BYTES, Header, STORED_MAX, payload_sum};
use crate::refused::{Miss, Refused};
use crate::reserves::Reserves;
use crate::ring::{Incoming, Opened, Ring, Shared};
use crate::stamps::{Stamp, Stamps};
use crate::statistics::{Condition, Counters, RingStatistics, Statistics, add};

/// How a device is taken into a pool.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// # let device = Arc::new(MemoryDevice::new(64 << 20, 4096));
/// let opening = Opening {
///     pool: [1; 16],
///     device: [4; 16],
///     salt: [5; 16],
///     life: 2,
///     // Life 1 saw every change since, as does this one.
///     lives: Some(vec![1]),
///     wall_seconds: 1_000_000,
///     force: false,
///     empty: false,
/// };
/// flash.add(device, &opening).await?;
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone)]
pub struct Opening {
    /// The pool's id.
    pub pool: [u8; 16],
    /// The id that the device gets if it is formatted; chosen at random.
    pub device: [u8; 16],
    /// Tells what is written now from what was written before, if the device is formatted;
    /// chosen at random each time.
    pub salt: [u8; 16],
    /// Names this start of the pool. It is on the device before [`Flash::add`] returns.
    pub life: u128,
    /// The starts of the pool that saw every change since; a device that was last used by
    /// another starts empty. `None` where the caller knows that there was no other.
    pub lives: Option<Vec<u128>>,
    /// Seconds since 1970, for the wear budget.
    pub wall_seconds: u64,
    /// Takes the device whatever lies on it.
    pub force: bool,
    /// Starts empty in any case.
    pub empty: bool,
}

/// What is known of a record that is to be taken in.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    /// When the bytes were taken; see [`Flash::stamp`].
    pub stamp: Stamp,
    /// The dataset.
    pub tenant: u16,
    /// It is metadata.
    pub metadata: bool,
    /// How often it was touched, as far as that is known.
    pub touches: u32,
    /// How to make it smaller.
    pub compression: Compression,
    /// Most bytes that the dataset may have on flash.
    pub limit_bytes: Option<u64>,
    /// Neither the write rate, nor the wear budget, nor the limit, nor a first touch refuses it:
    /// for what is small and makes much else on flash useful.
    pub vital: bool,
}

/// The flash level of a pool: records on one or more devices.
///
/// A copy on flash is used only if its key, its place and its checksum are those that were
/// written; whatever else is read is a miss. A copy that was [killed](Flash::kill) never comes
/// back, whenever the machine stops.
pub struct Flash {
    shared: Arc<Shared>,
    rings: RwLock<Vec<Arc<Ring>>>,
    /// The numbers of devices that are no longer used, and not quite gone.
    leaving: Arc<Mutex<Vec<u8>>>,
    doorkeeper: Doorkeeper,
    /// Kills begun.
    kills: AtomicU64,
}

impl Flash {
    /// A flash level without devices. Its tasks run on `spawn`; time is that of `clock`.
    pub fn new(options: Options, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Flash {
        let shared = Shared {
            index: Index::new(),
            options,
            clock,
            spawn,
            counters: Counters::default(),
            stamps: Stamps::new(),
            buffers: Buffers::default(),
            reserves: Reserves::default(),
        };
        Flash {
            shared: Arc::new(shared),
            rings: RwLock::default(),
            leaving: Arc::default(),
            doorkeeper: Doorkeeper::default(),
            kills: AtomicU64::new(0),
        }
    }

    /// Takes a device in. What lies on it is read in afterwards; what was found already is served
    /// at once.
    ///
    /// What a device holds is used only if it is added before the first kill of this start.
    ///
    /// # Errors
    /// When it does not work, is too small, or holds what it would be a pity to lose.
    pub async fn add(
        &self,
        device: Arc<dyn Device>,
        opening: &Opening,
    ) -> Result<Opened, AddError> {
        let kills = self.kills.load(Ordering::SeqCst);
        let used = self.rings();
        let leaving = self.leaving.lock().clone();
        let taken: Vec<u8> = used.iter().map(|ring| ring.id).chain(leaving).collect();
        let free = (0..RINGS_MAX as u8).find(|id| !taken.contains(id));
        let id = free.ok_or(AddError::TooMany { limit: RINGS_MAX })?;
        let (ring, opened) = Ring::open(id, device, self.shared.clone(), opening).await?;
        let flash_bytes = {
            let mut rings = self.rings.write();
            rings.push(ring.clone());
            rings.iter().map(|ring| ring.data_bytes()).sum()
        };
        self.doorkeeper.resize(flash_bytes);
        self.shared.reserves.resize(flash_bytes);
        // A kill that did not see the ring has counted itself before.
        let missed_kills = kills > 0 || self.kills.load(Ordering::SeqCst) != kills;
        let opened = if missed_kills && opened == Opened::Warm {
            ring.forget();
            Opened::Stale
        } else {
            opened
        };
        ring.recover();
        Ok(opened)
    }

    /// Stops using a device and wipes it, so that nobody takes it for one that is up to date. Its
    /// records are forgotten. `None` if there is no such device.
    ///
    /// If it cannot be wiped, what it holds will be old one day: the caller must see to it that no
    /// start believes it, by giving the others another [life](Flash::begin_life).
    pub async fn remove(&self, device: [u8; 16]) -> Option<Result<(), DeviceError>> {
        Some(self.detach(device)?.wipe().await)
    }

    /// Stops using a device without waiting for it, which may hang. Its records are forgotten; it
    /// is left to the caller to wipe it, as [`remove`](Flash::remove) does.
    pub fn detach(&self, device: [u8; 16]) -> Option<Detached> {
        let (ring, flash_bytes) = {
            let mut rings = self.rings.write();
            let at = rings.iter().position(|ring| ring.device_id() == device)?;
            let ring = rings.remove(at);
            self.leaving.lock().push(ring.id);
            (ring, rings.iter().map(|ring| ring.data_bytes()).sum())
        };
        self.shared.reserves.resize(flash_bytes);
        let detached = Detached { ring, leaving: self.leaving.clone() };
        detached.forget();
        Some(detached)
    }

    /// Names this start anew on all devices that take it, and returns once that lasts. Devices
    /// that are no longer a part of the pool, or took no tombstone, keep the earlier
    /// [life](Opening::life): from then on it tells those that are up to date from those.
    pub async fn begin_life(&self, life: u128) {
        for ring in self.rings() {
            ring.begin_life(life).await;
        }
    }

    /// Sets how many bytes of a dataset the records of others may not push out; zero is none.
    ///
    /// When a segment is about to be overwritten, as much of the dataset's as it would be short of
    /// is written anew, as long as the wear budget and the rate allow it. What has died since it
    /// was written counts as the dataset's until its segment is overwritten.
    ///
    /// All reserves together are to be at most [`reservable_bytes`](Flash::reservable_bytes);
    /// where they are more, each is cut in proportion.
    pub fn set_reserve(&self, tenant: u16, bytes: u64) {
        self.shared.reserves.set(tenant, bytes);
    }

    /// What of a dataset's reserve is in force, bytes.
    pub fn reserve_in_force(&self, tenant: u16) -> u64 {
        self.shared.reserves.granted(tenant)
    }

    /// Bytes for records on all devices.
    pub fn data_bytes(&self) -> u64 {
        self.shared.reserves.data_bytes()
    }

    /// How many bytes all reserves may have together: half of the space for records.
    pub fn reservable_bytes(&self) -> u64 {
        self.shared.reserves.reservable_bytes()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.rings.read().clone()
    }

    fn ring(&self, id: u8) -> Option<Arc<Ring>> {
        self.rings.read().iter().find(|ring| ring.id == id).cloned()
    }

    /// Waits until what lies on all devices is known.
    pub async fn recovered(&self) {
        for ring in self.rings() {
            ring.recovered().await;
        }
    }

    /// Whether it [reads as ZFS does](crate::Options::reads_as_zfs).
    pub fn reads_as_zfs(&self) -> bool {
        self.shared.options.reads_as_zfs
    }

    /// Whether a record of `key` may be on flash.
    pub fn holds(&self, key: &Key) -> bool {
        self.shared.index.get(key.hash()).is_some_and(|entry| !entry.bad)
    }

    /// Which of the records of `keys`, all of which are wanted at once, to
    /// [look up](Flash::look_up): they may be on flash, and their devices are neither left alone
    /// nor slower than the origin, where the caller knows that this takes `origin` for all. Where
    /// the origin has to be asked for some, they are clearly sooner. What is picked is read
    /// whatever comes, so that the rest can be asked of the origin in one go at the same time. What
    /// is not picked is counted as missed.
    pub fn pick(&self, keys: impl IntoIterator<Item = Key>, origin: Option<Duration>) -> Vec<bool> {
        let origin = origin.filter(|_| !self.reads_as_zfs());
        let mut shares = [(Share::default(), None); RINGS_MAX];
        let mut choose = |key: Key| {
            let Some(entry) = self.shared.index.get(key.hash()) else { return Err(Miss::Absent) };
            if entry.bad {
                return Err(Miss::Dead);
            }
            let ring = self.ring(entry.location.ring).ok_or(Miss::Absent)?;
            let (share, one) = &mut shares[usize::from(ring.id)];
            let shunned = ring.shunned(entry, origin, share.taken);
            match shunned {
                None => (share.taken, *one) = (share.taken + 1, Some(entry)),
                Some(Miss::Slower) => share.left += 1,
                Some(_) => {}
            }
            shunned.map_or(Ok(ring.id), Err)
        };
        let mut choices: Vec<Result<u8, Miss>> = keys.into_iter().map(&mut choose).collect();
        if let Some(origin) = origin
            && choices.iter().any(Result::is_err)
        {
            for (id, (share, one)) in (0..).zip(shares) {
                if let (Some(ring), Some(entry)) = (self.ring(id), one)
                    && !ring.is_worth_it(entry, origin, share)
                {
                    let taken = choices.iter_mut().filter(|choice| **choice == Ok(id));
                    taken.for_each(|choice| *choice = Err(Miss::Slower));
                }
            }
        }
        let counted = |choice: Result<u8, Miss>| {
            choice.map_err(|miss| self.shared.counters.missed(miss)).is_ok()
        };
        choices.into_iter().map(counted).collect()
    }

    /// How the device does that may have a record of `key`.
    pub fn condition_of(&self, key: &Key) -> Option<Condition> {
        let entry = self.shared.index.get(key.hash()).filter(|entry| !entry.bad)?;
        Some(self.ring(entry.location.ring)?.condition())
    }

    /// Reads the record of `key` into the beginning of `into`, and returns its length. Where the
    /// caller knows how long the `origin` takes, a device that is slower is not asked.
    ///
    /// # Errors
    /// Whatever the reason, the origin has to be asked.
    pub async fn read(
        &self,
        key: &Key,
        into: &mut [u8],
        origin: Option<Duration>,
    ) -> Result<usize, Miss> {
        let read = self.look_up(key, into, origin).await;
        self.count(read);
        read
    }

    /// Counts the hit, of a length, or the miss that a [`look_up`](Flash::look_up) has come to.
    pub fn count(&self, read: Result<usize, Miss>) {
        let counters = &self.shared.counters;
        match read {
            Ok(length) => {
                add(&counters.hits, 1);
                add(&counters.hit_bytes, length as u64);
            }
            Err(miss) => counters.missed(miss),
        }
    }

    /// As [`read`](Flash::read), but neither hits nor misses are counted: for what no reader has
    /// asked for, and for callers who [count](Flash::count) once they know more.
    ///
    /// # Errors
    /// As of `read`.
    pub async fn look_up(
        &self,
        key: &Key,
        into: &mut [u8],
        origin: Option<Duration>,
    ) -> Result<usize, Miss> {
        let hash = key.hash();
        match self.shared.index.get(hash) {
            None => Err(Miss::Absent),
            Some(entry) if entry.bad => Err(Miss::Dead),
            Some(entry) => match self.ring(entry.location.ring) {
                Some(ring) => ring.read(key, hash, entry, into, origin).await,
                None => Err(Miss::Absent),
            },
        }
    }

    /// Notes the moment at which bytes of an object are taken from elsewhere to be
    /// [admitted](Flash::admit). The bytes must be valid at this moment or later.
    pub fn stamp(&self, object: u64) -> Stamp {
        self.shared.stamps.now(object)
    }

    /// Takes a record in. Never waits: what cannot be taken in at once is refused.
    ///
    /// # Errors
    /// The reason, which is counted as well.
    pub fn admit(&self, key: &Key, bytes: &[u8], admission: &Admission) -> Result<(), Refused> {
        let admitted = self.try_admit(key, bytes, admission);
        let counters = &self.shared.counters;
        match admitted {
            Ok(stored_bytes) => {
                add(&counters.admitted, 1);
                add(&counters.admitted_bytes, bytes.len() as u64);
                add(&counters.stored_bytes, stored_bytes);
                Ok(())
            }
            Err(refused) => {
                counters.refused(refused);
                Err(refused)
            }
        }
    }

    /// Whether a record of `length` would be refused now, and why, as far as can be said
    /// beforehand. Changes nothing, and counts nothing.
    ///
    /// # Errors
    /// The reason.
    pub fn would_admit(
        &self,
        key: &Key,
        length: usize,
        admission: &Admission,
    ) -> Result<(), Refused> {
        if self.holds(key) {
            return Err(Refused::Present);
        }
        let seen = |hash| self.doorkeeper.has_seen(hash);
        let rings = self.rings_for(key.hash(), length, admission, seen)?;
        let needed = (length + HEADER_BYTES) as u64;
        let mut tried = rings.iter().map(|ring| ring.may_admit(needed, admission.vital));
        let first = tried.next().unwrap_or(Err(Refused::NoDevice));
        if tried.any(|it| it.is_ok()) { Ok(()) } else { first }
    }

    /// The rings that a record of `length` may go to, the one first that it is meant for; unless
    /// what does not depend on the rings refuses it.
    fn rings_for(
        &self,
        hash: u64,
        length: usize,
        admission: &Admission,
        came_before: impl Fn(u64) -> bool,
    ) -> Result<Vec<Arc<Ring>>, Refused> {
        if self.shared.index.charged_bytes() > self.shared.options.index_bytes_max {
            return Err(Refused::IndexFull);
        }
        if length > STORED_MAX - 2 * HEADER_BYTES {
            return Err(Refused::TooLarge);
        }
        let rings = self.by_preference(hash);
        if let Some(limit) = admission.limit_bytes.filter(|_| !admission.vital) {
            let stored: u64 = rings.iter().map(|ring| ring.tenant_bytes(admission.tenant)).sum();
            let taken = (length + HEADER_BYTES).next_multiple_of(UNIT_BYTES);
            if stored.saturating_add(taken as u64) > limit {
                return Err(Refused::Limit);
            }
        }
        let first = rings.first().ok_or(Refused::NoDevice)?;
        let once = admission.touches < 2 && !admission.metadata && !admission.vital;
        if self.shared.options.second_touch && once && first.is_filled() && !came_before(hash) {
            return Err(Refused::FirstTouch);
        }
        Ok(rings)
    }

    fn try_admit(&self, key: &Key, bytes: &[u8], admission: &Admission) -> Result<u64, Refused> {
        let hash = key.hash();
        if let Some(entry) = self.shared.index.get(hash) {
            let ring = self.ring(entry.location.ring).ok_or(Refused::NoDevice)?;
            if !ring.clear_dead(key, hash, entry) {
                return Err(Refused::Present);
            }
        }
        let knows = |hash| self.doorkeeper.knows(hash);
        let rings = self.rings_for(hash, bytes.len(), admission, knows)?;
        let mut compressed = None;
        let mut reason = Refused::NoDevice;
        for (index, ring) in rings.iter().enumerate() {
            let needed = (bytes.len() + HEADER_BYTES) as u64;
            if let Err(refused) = ring.may_admit(needed, admission.vital) {
                reason = if index == 0 { refused } else { reason };
                continue;
            }
            let compressed =
                compressed.get_or_insert_with(|| admission.compression.compress(bytes));
            let stored = compressed.as_deref().unwrap_or(bytes);
            let compression = match compressed {
                Some(_) => admission.compression,
                None => Compression::Off,
            };
            match admit_to(ring, key, bytes.len(), stored, compression, admission) {
                Ok(()) => return Ok(stored.len() as u64),
                Err(refused @ (Refused::Killed | Refused::Present)) => return Err(refused),
                Err(refused) => reason = if index == 0 { refused } else { reason },
            }
        }
        Err(reason)
    }

    /// The rings, the one first whose share of all the space the hash falls into.
    fn by_preference(&self, hash: u64) -> Vec<Arc<Ring>> {
        let mut rings = self.rings();
        let total: u128 = rings.iter().map(|ring| u128::from(ring.data_bytes())).sum();
        let mut point = (u128::from(hash.rotate_left(32)) * total) >> 64;
        let chosen = rings.iter().position(|ring| {
            let bytes = u128::from(ring.data_bytes());
            let here = point < bytes;
            point = point.saturating_sub(bytes);
            here
        });
        rings.rotate_left(chosen.unwrap_or(0));
        rings
    }

    /// Kills the copies of records, and returns once they will not come back whatever happens.
    /// Call it before the origin changes; what is admitted must have been taken afterwards.
    ///
    /// # Errors
    /// When a device does not take the tombstones. The caller must then see to it, in a place that
    /// lasts, that the device's contents are not used again, say so to
    /// [`renounced`](Flash::renounced), and may go on.
    pub async fn kill(&self, keys: &[Key]) -> Result<(), NotDurable> {
        self.kills.fetch_add(1, Ordering::SeqCst);
        let rings = self.rings();
        for key in keys {
            self.shared.stamps.advance(key.object);
            let hash = key.hash();
            // First those that do not know yet what they hold: once they do, the index does.
            rings.iter().for_each(|ring| ring.kill_unknown(hash));
            while let Some(entry) = self.shared.index.get(hash) {
                let ring = rings.iter().find(|ring| ring.id == entry.location.ring);
                let Some(ring) = ring else { break };
                if ring.kill(hash, entry.location) {
                    add(&self.shared.counters.killed, 1);
                }
            }
        }
        last(&rings).await
    }

    /// Kills the copies of all records of an object, in all generations; as
    /// [`kill`](Flash::kill).
    ///
    /// # Errors
    /// As of `kill`.
    pub async fn kill_object(&self, object: u64) -> Result<(), NotDurable> {
        self.kills.fetch_add(1, Ordering::SeqCst);
        self.shared.stamps.advance(object);
        let rings = self.rings();
        rings.iter().for_each(|ring| ring.kill_object(object));
        add(&self.shared.counters.objects_killed, 1);
        last(&rings).await
    }

    /// Says that the contents of a device will never be used again, since its life is struck off
    /// the list of [lives](Opening::lives) in a place that lasts.
    pub fn renounced(&self, device: [u8; 16]) {
        let rings = self.rings();
        rings.iter().filter(|ring| ring.device_id() == device).for_each(|ring| ring.renounce());
    }

    /// Waits until all that was admitted is on the devices, though it does not last yet.
    pub async fn settle(&self) {
        for ring in self.rings() {
            ring.settle().await;
        }
    }

    /// Writes down what the next start needs to be quick. What comes afterwards is refused.
    pub async fn stop(&self) {
        for ring in self.rings() {
            ring.stop().await;
        }
    }

    /// What was done since the start, and how things are.
    pub fn statistics(&self) -> Statistics {
        let rings: Vec<RingStatistics> =
            self.rings().iter().map(|ring| ring.statistics()).collect();
        let mut tenants: Vec<(u16, u64)> =
            rings.iter().flat_map(|ring| ring.tenants.iter().copied()).collect();
        tenants.sort_unstable();
        tenants.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                sum.1 += next.1;
            }
            same
        });
        Statistics {
            records: self.shared.index.len(),
            index_bytes: self.shared.index.charged_bytes(),
            index_fixed_bytes: crate::index::FIXED_BYTES,
            rings,
            tenants,
            ..self.shared.counters.snapshot()
        }
    }

    /// RAM taken, bytes.
    pub fn charged_bytes(&self) -> u64 {
        let rings: u64 = self.rings().iter().map(|ring| ring.charged_bytes()).sum();
        let fixed = self.doorkeeper.charged_bytes() + self.shared.buffers.charged_bytes();
        self.shared.index.charged_bytes() + rings + fixed
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When sums do not agree.
    pub fn validate(&self) {
        self.shared.index.validate();
        self.rings().iter().for_each(|ring| ring.validate());
    }
}

/// A device that is no longer used.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// let detached = flash.detach([2; 16]).expect("it is in use");
/// assert!(flash.detach([2; 16]).is_none(), "from here on it is not");
/// detached.wipe().await?;
/// # Ok(()) }) }
/// ```
#[must_use = "until it is wiped it looks like one that is up to date"]
pub struct Detached {
    ring: Arc<Ring>,
    leaving: Arc<Mutex<Vec<u8>>>,
}

impl Detached {
    fn forget(&self) {
        let ring = &self.ring;
        ring.index().retain(|entry| entry.location.ring != ring.id);
    }

    /// Waits for what is under way at the device, and wipes it.
    ///
    /// # Errors
    /// When it cannot be wiped.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
    /// let detached = flash.detach([2; 16]).expect("it is in use");
    /// detached.wipe().await?;
    /// // No copy that it had is ever found again.
    /// assert_eq!(flash.statistics().records, 0);
    /// # Ok(()) }) }
    /// ```
    pub async fn wipe(self) -> Result<(), DeviceError> {
        self.ring.stop().await;
        self.ring.wipe().await
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        // What was on its way in when it was detached.
        self.forget();
        self.leaving.lock().retain(|id| *id != self.ring.id);
    }
}

/// Encrypts what is to be stored, if it is to be, and puts it into a ring.
fn admit_to(
    ring: &Arc<Ring>,
    key: &Key,
    plain_bytes: usize,
    stored: &[u8],
    compression: Compression,
    admission: &Admission,
) -> Result<(), Refused> {
    let mut header = Header {
        key: *key,
        tenant: admission.tenant,
        metadata: admission.metadata,
        compression,
        nonce: None,
        plain_bytes: plain_bytes as u32,
        stored_bytes: stored.len() as u32,
        payload_sum: 0,
    };
    let incoming = Incoming::Admitted(admission.stamp);
    let Some(cipher) = ring.cipher() else {
        header.payload_sum = payload_sum(stored);
        return ring.place_record(&header, stored, incoming);
    };
    let mut stored = stored.to_vec();
    let nonce = ring.nonce();
    cipher.encrypt(nonce, ring.salt(), &mut stored);
    header.nonce = Some(nonce);
    header.stored_bytes = stored.len() as u32;
    header.payload_sum = payload_sum(&stored);
    ring.place_record(&header, &stored, incoming)
}

/// Waits until all deaths last, on all devices.
async fn last(rings: &[Arc<Ring>]) -> Result<(), NotDurable> {
    let mut devices = Vec::new();
    for ring in rings {
        if !ring.kills_last().await && !ring.is_renounced() {
            devices.push(ring.device_id());
        }
    }
    if devices.is_empty() { Ok(()) } else { Err(NotDurable { devices }) }
}
