use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;
use storage::{Clock, Kind, ObjectId, Spawn};

use crate::heap;
use crate::memory::Memory;
use crate::pool::Pool;

/// Part of the ceiling, as its divisor, for the objects in use.
const REMEMBERED_SHARE: u64 = 4;
/// By how much of their part, as its divisor, they go below it once they have been above.
const CLEARANCE_SHARE: u64 = 16;
/// Bytes of objects that have gone which the general allocator may keep uncharged.
const LOOSE_BYTES_MAX: u64 = 8 << 20;
/// More than that is asked for, if it is at least half of what the objects took.
const TRIM_BYTES_MIN: u64 = 16 << 20;
/// After so many objects that came or went the process is measured.
const MEASURED_EVERY: u64 = 1024;
/// After so many bytes of contents that came into the cache as well.
const MEASURED_EVERY_BYTES: u64 = 1 << 20;
/// Resident bytes that need no explanation: stacks, and what the program is made of.
const UNEXPLAINED_BYTES_MAX: u64 = 12 << 20;
/// Part of the ceiling, as its divisor, that waste is charged at most: small answers that are
/// evicted for it may leave more waste.
const WASTE_SHARE: u64 = 6;
/// Most objects that one round asks to have forgotten.
const ROUND_OBJECTS_MAX: usize = 8192;
/// After a round: time for what was asked for to come about.
const ROUND: Duration = Duration::from_millis(2);
/// Rounds without any object forgotten after which there is a rest.
const FRUITLESS_ROUNDS_MAX: u32 = 16;
/// How long nothing is asked for after that.
const REST: Duration = Duration::from_secs(1);

/// An object that whoever stands above the engine should forget, unless it is in use there.
#[derive(Debug, Clone)]
pub struct Unused {
    /// Which object.
    pub object: ObjectId,
    /// Its type.
    pub kind: Kind,
    /// The directory and the name under which it was found last.
    pub place: Option<(ObjectId, Arc<OsStr>)>,
}

/// The objects in use of all pools of a process: what they take, and the search for such as can be
/// forgotten when that is more than their part of the ceiling.
///
/// An object is in use while the kernel remembers its name, and only the kernel can let go of it:
/// left to itself it does so when the *machine* is short of memory, not when this process is. So
/// above a quarter of the ceiling it is asked to forget those that nobody has used lately. What
/// is open, has unwritten data, or is used by the kernel itself (a working directory, a mount)
/// stays.
#[derive(Default)]
pub(crate) struct Remembered {
    taken: Mutex<Taken>,
    /// Objects that have gone out of use.
    gone: AtomicU64,
    /// Objects that the kernel was asked to forget.
    asked: AtomicU64,
    pools: Mutex<Vec<Weak<Pool>>>,
    is_settling: AtomicBool,
    /// Tells what is resident of the process and belongs to no file.
    resident: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    /// What came and went since that was last asked.
    changes: AtomicU64,
    /// Bytes of contents that have come into the cache.
    grown_bytes: AtomicU64,
    /// Until then nothing more is asked for, as nothing came of it.
    resting_until: Mutex<Duration>,
}

impl std::fmt::Debug for Remembered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Remembered").field("taken", &self.taken).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Taken {
    /// Of objects in use.
    objects_bytes: u64,
    /// Of these and of all else that is held in many small blocks.
    bytes: u64,
    /// The most that it was since the allocator last gave back what it kept.
    bytes_max: u64,
    charged_bytes: u64,
    /// Resident bytes that no other charge explains: what lies between the blocks in use.
    waste_bytes: u64,
    /// What of that was left when the allocator was last asked for it.
    waste_left_bytes: u64,
}

impl Taken {
    /// Works out anew what is to be charged, and charges it to `all`.
    fn recharge(&mut self, all: &AtomicU64) {
        all.fetch_sub(self.charged_bytes, Ordering::Relaxed);
        self.bytes_max = self.bytes_max.max(self.bytes);
        let held = self.bytes.max(self.bytes_max.saturating_sub(LOOSE_BYTES_MAX));
        self.charged_bytes = held.max(self.bytes + self.waste_bytes);
        all.fetch_add(self.charged_bytes, Ordering::Relaxed);
    }

    /// Whether the allocator keeps much of what it could give back.
    fn is_loose(&self) -> bool {
        self.bytes_max - self.bytes >= TRIM_BYTES_MIN.max(self.bytes_max / 2)
    }
}

impl Memory {
    /// Objects that the kernel was asked to forget, as they took more than their part.
    pub(crate) fn forgetting_asked(&self) -> u64 {
        self.remembered.asked.load(Ordering::Relaxed)
    }

    /// Bytes that the objects in use take.
    pub(crate) fn remembered_bytes(&self) -> u64 {
        self.remembered.taken.lock().objects_bytes
    }

    /// Bytes that the objects in use may take before some are forgotten.
    pub(crate) fn remembered_bytes_max(&self) -> u64 {
        self.ceiling_bytes() / REMEMBERED_SHARE
    }

    /// Notes a pool whose objects may be forgotten.
    pub(crate) fn join(&self, pool: &Arc<Pool>) {
        let mut pools = self.remembered.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    fn pools(&self) -> Vec<Arc<Pool>> {
        self.remembered.pools.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Charges an object that has come into use.
    pub(crate) fn remember(&self, bytes: u64) {
        self.take(bytes, |taken| taken.objects_bytes += bytes);
    }

    /// Gives back what an object was charged that has gone out of use. Says whether the allocator
    /// should be [asked](Memory::trim) for its memory.
    #[must_use]
    pub(crate) fn forget(&self, bytes: u64) -> bool {
        self.remembered.gone.fetch_add(1, Ordering::Relaxed);
        self.give_back(bytes, |taken| taken.objects_bytes -= bytes)
    }

    /// Charges what is held in many small blocks.
    pub(crate) fn hold(&self, bytes: u64) {
        self.take(bytes, |_| ());
    }

    /// Gives back what was charged so. Says whether the allocator should be
    /// [asked](Memory::trim) for it.
    #[must_use]
    pub(crate) fn let_go(&self, bytes: u64) -> bool {
        self.give_back(bytes, |_| ())
    }

    fn take(&self, bytes: u64, note: impl FnOnce(&mut Taken)) {
        {
            let mut taken = self.remembered.taken.lock();
            note(&mut taken);
            taken.bytes += bytes;
            taken.recharge(&self.charged_bytes);
        }
        self.changed();
    }

    fn give_back(&self, bytes: u64, note: impl FnOnce(&mut Taken)) -> bool {
        let is_loose = {
            let mut taken = self.remembered.taken.lock();
            note(&mut taken);
            taken.bytes -= bytes;
            taken.recharge(&self.charged_bytes);
            taken.is_loose()
        };
        self.changed();
        is_loose
    }

    /// After so many bytes of contents have come into the cache: what went for them was perhaps in
    /// blocks of the allocator's, which keeps them.
    pub(crate) fn grown(&self, bytes: u64) {
        let before = self.remembered.grown_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before / MEASURED_EVERY_BYTES != (before + bytes) / MEASURED_EVERY_BYTES {
            self.measure();
            self.resize(None);
        }
    }

    /// After something has come or gone: lets the cache follow, and measures once in a while.
    pub(crate) fn changed(&self) {
        let before = self.remembered.changes.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(MEASURED_EVERY) {
            self.measure();
        }
        self.resize(None);
    }

    /// Says how to learn what is resident of this process and belongs to no file. Without it what
    /// lies unused between blocks in use is not charged.
    pub fn set_resident(&self, resident: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.remembered.resident.set(Box::new(resident));
    }

    /// Charges what is resident and otherwise unexplained.
    fn measure(&self) {
        let Some(resident) = self.remembered.resident.get() else { return };
        let resident_bytes = resident();
        let mut taken = self.remembered.taken.lock();
        let others = self.charged_bytes().saturating_sub(taken.charged_bytes) + taken.bytes;
        let explained = others + self.cache.charged_bytes() + self.apart_bytes();
        let waste = resident_bytes.saturating_sub(explained + UNEXPLAINED_BYTES_MAX);
        taken.waste_bytes = waste.min(self.ceiling_bytes() / WASTE_SHARE);
        taken.waste_left_bytes = taken.waste_left_bytes.min(taken.waste_bytes);
        taken.recharge(&self.charged_bytes);
        if taken.waste_bytes - taken.waste_left_bytes < TRIM_BYTES_MIN {
            return;
        }
        taken.waste_left_bytes = taken.waste_bytes;
        drop(taken);
        if let Some(pool) = self.pools().first() {
            pool.spawn.spawn(Box::pin(async { heap::trim() }));
        }
    }

    /// Has the allocator give back what was taken by what has gone.
    pub(crate) fn trim(&self) {
        {
            let mut taken = self.remembered.taken.lock();
            if !taken.is_loose() {
                return;
            }
            // Whoever comes next finds nothing to do.
            taken.bytes_max = taken.bytes;
        }
        heap::trim();
        self.remembered.taken.lock().recharge(&self.charged_bytes);
        self.measure();
        self.resize(None);
    }

    /// Whether the objects in use take more than their part.
    pub(crate) fn is_crowded(&self) -> bool {
        self.remembered_bytes() > self.remembered_bytes_max()
    }

    /// Starts to have objects forgotten, if those in use take more than their part.
    pub(crate) fn settle(self: &Arc<Self>, spawn: &dyn Spawn, clock: &Arc<dyn Clock>) {
        let remembered = &self.remembered;
        if !self.is_crowded()
            || remembered.is_settling.load(Ordering::Relaxed)
            || clock.now() < *remembered.resting_until.lock()
            || remembered.is_settling.swap(true, Ordering::SeqCst)
        {
            return;
        }
        let (memory, clock) = (self.clone(), clock.clone());
        spawn.spawn(Box::pin(async move {
            memory.have_forgotten(&*clock).await;
            memory.remembered.is_settling.store(false, Ordering::SeqCst);
        }));
    }

    /// The same, after the ceiling has become lower.
    pub(crate) fn settle_all(self: &Arc<Self>) {
        if let Some(pool) = self.pools().iter().find(|pool| pool.invalidation().is_some()) {
            self.settle(&*pool.spawn, &pool.clock);
        }
    }

    /// Has objects forgotten until those in use take clearly less than their part, or nothing more
    /// comes of it.
    async fn have_forgotten(&self, clock: &dyn Clock) {
        let mut fruitless = 0;
        while fruitless < FRUITLESS_ROUNDS_MAX {
            let (bytes, part) = (self.remembered_bytes(), self.remembered_bytes_max());
            let excess = bytes.saturating_sub(part - part / CLEARANCE_SHARE);
            if excess == 0 {
                return;
            }
            let gone = self.remembered.gone.load(Ordering::Relaxed);
            let pools = self.pools();
            let objects: usize = pools.iter().map(|pool| pool.objects.len()).sum();
            for pool in &pools {
                let share = excess as f64 / bytes as f64 * pool.objects.len() as f64;
                let count = (share.ceil() as usize).min(ROUND_OBJECTS_MAX).min(objects);
                let asked = pool.have_unused_forgotten(count).await;
                self.remembered.asked.fetch_add(asked as u64, Ordering::Relaxed);
            }
            drop(pools);
            clock.sleep(ROUND).await;
            let is_fruitful = self.remembered.gone.load(Ordering::Relaxed) > gone;
            fruitless = if is_fruitful { 0 } else { fruitless + 1 };
        }
        *self.remembered.resting_until.lock() = clock.now() + REST;
    }
}

impl Pool {
    /// Asks whoever stands above to forget up to `count` objects, and waits until that has been
    /// told. Returns how many it was asked for.
    async fn have_unused_forgotten(&self, count: usize) -> usize {
        let Some(invalidation) = self.invalidation() else { return 0 };
        let unused: Vec<Unused> = self
            .objects
            .unused(count)
            .iter()
            .filter(|object| object.id != self.root())
            .map(|object| Unused {
                object: object.id,
                kind: object.attributes().kind,
                place: object.place().parent.clone(),
            })
            .collect();
        let asked = unused.len();
        let (told, wait) = oneshot::channel();
        invalidation.forget_later(
            unused,
            Box::new(move || {
                let _ = told.send(());
            }),
        );
        // Without an answer it was not told.
        wait.await.map_or(0, |()| asked)
    }
}
