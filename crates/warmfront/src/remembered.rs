use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;
use storage::{Clock, Kind, ObjectId, Spawn};

use crate::memory::Memory;
use crate::pool::Pool;

/// Part of the ceiling, as its divisor, for the objects in use.
const REMEMBERED_SHARE: u64 = 4;
/// By how much of their part, as its divisor, they go below it once they have been above.
const CLEARANCE_SHARE: u64 = 16;
/// Most objects that one round asks to have forgotten.
const ROUND_OBJECTS_MAX: usize = 8192;
/// After a round: time for what was asked for to come about.
const ROUND: Duration = Duration::from_millis(2);
/// Rounds without any object forgotten after which there is a rest.
const FRUITLESS_ROUNDS_MAX: u32 = 16;
/// How long nothing is asked for after that.
const REST: Duration = Duration::from_secs(1);

/// An object that whoever stands above the engine should forget, unless it is in use there.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// use warmfront::storage::Kind;
///
/// // What a door does with it: it has the kernel drop the name.
/// let tell = |unused: &Unused| match &unused.place {
///     Some((parent, name)) => format!("drop {name:?} of directory {}", parent.0),
///     None => format!("{:?} {} has no name", unused.kind, unused.object.0),
/// };
/// let unused = Unused { object: found.object, kind: Kind::File, place: None };
/// assert!(tell(&unused).contains("has no name"));
/// # Ok(()) }) }
/// ```
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
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// What they take.
    bytes: AtomicU64,
    /// Objects that have gone out of use.
    gone: AtomicU64,
    /// Objects that the kernel was asked to forget.
    asked: AtomicU64,
    pools: Mutex<Vec<Weak<Pool>>>,
    is_settling: AtomicBool,
    /// Until then nothing more is asked for, as nothing came of it.
    resting_until: Mutex<Duration>,
}

impl Memory {
    /// Objects that the kernel was asked to forget, as they took more than their part.
    pub(crate) fn forgetting_asked(&self) -> u64 {
        self.remembered.asked.load(Ordering::Relaxed)
    }

    /// Bytes that the objects in use take.
    pub(crate) fn remembered_bytes(&self) -> u64 {
        self.remembered.bytes.load(Ordering::Relaxed)
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

    /// The pools there are.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.remembered.pools.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Charges an object that has come into use.
    pub(crate) fn remember(&self, bytes: u64) {
        self.remembered.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.hold(bytes);
    }

    /// Gives back what an object was charged that has gone out of use. Says whether the allocator
    /// should be [asked](Memory::trim) for its memory.
    #[must_use]
    pub(crate) fn forget(&self, bytes: u64) -> bool {
        self.remembered.gone.fetch_add(1, Ordering::Relaxed);
        self.remembered.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.let_go(bytes)
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
            for pool in &pools {
                let share = excess as f64 / bytes as f64 * pool.objects.len() as f64;
                let count = (share.ceil() as usize).min(ROUND_OBJECTS_MAX);
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
