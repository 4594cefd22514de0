use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::lock::MutexGuard;
use hashbrown::HashMap;
use parking_lot::Mutex;
use storage::{Clock, ObjectId};

use crate::answer::{Listing, listing_bytes};
use crate::error::{EngineError, Result};
use crate::memory::Memory;

/// A table smaller than this is not searched for what has gone.
const SEARCHED_MIN: usize = 64;
/// Part of the ceiling, as its divisor, for the listings that are being read.
const READ_SHARE: u64 = 2;
/// Part of that, as its divisor, up to which small directories are listed side by side.
const SIDE_BY_SIDE_SHARE: u64 = 2;
/// A directory is small whose own size is below this.
const SMALL_DIRECTORY_BYTES: u64 = 64 << 10;
/// How long who opens a directory waits for room. The kernel may hold up others meanwhile: one who
/// wants to change names of it waits for this one, and all who read on in it wait for that one.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often it is looked for.
const ROOM_LOOK: Duration = Duration::from_millis(10);
/// How many may wait; others are refused at once.
const WAITING_MAX: usize = 64;

/// The listings that are being read, of all pools of a process.
#[derive(Debug, Default)]
pub(crate) struct ReadListings {
    bytes: AtomicU64,
    waiting: AtomicUsize,
    turn: futures::lock::Mutex<()>,
}

/// Allows for one more listing. Holds others up, if there is little room left.
pub(crate) type Room<'a> = Option<MutexGuard<'a, ()>>;

impl Memory {
    /// Waits while the listings that are being read take their part of the ceiling, for one of a
    /// directory of so many bytes.
    ///
    /// # Errors
    /// [`EngineError::ListingsFull`] after a while.
    pub(crate) async fn room_for_listing(
        &self,
        clock: &dyn Clock,
        directory_bytes: u64,
    ) -> Result<Room<'_>> {
        let read = &self.read_listings;
        let part = self.ceiling_bytes() / READ_SHARE;
        let held = || read.bytes.load(Ordering::Relaxed);
        if directory_bytes < SMALL_DIRECTORY_BYTES && held() < part / SIDE_BY_SIDE_SHARE {
            return Ok(None);
        }
        let full = || Err(EngineError::ListingsFull { held_bytes: held() });
        let _waiting = Counted::new(&read.waiting);
        if read.waiting.load(Ordering::Relaxed) > WAITING_MAX {
            return full();
        }
        let until = clock.now() + ROOM_WAIT_MAX;
        let turn = read.turn.lock().await;
        while held() >= part {
            if clock.now() >= until {
                return full();
            }
            clock.sleep(ROOM_LOOK).await;
        }
        Ok(Some(turn))
    }
}

/// One more of a number, until this is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Counted<'_> {
    fn new(number: &AtomicUsize) -> Counted<'_> {
        number.fetch_add(1, Ordering::Relaxed);
        Counted(number)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A listing for as long as somebody reads it, charged to the ceiling.
#[derive(Debug)]
pub(crate) struct HeldListing {
    names: Arc<Listing>,
    /// The version of the directory that it tells.
    generation: u64,
    memory: Arc<Memory>,
    bytes: u64,
}

impl HeldListing {
    /// The names.
    pub(crate) fn names(&self) -> &Arc<Listing> {
        &self.names
    }
}

impl Deref for HeldListing {
    type Target = Listing;

    fn deref(&self) -> &Listing {
        &self.names
    }
}

impl Drop for HeldListing {
    fn drop(&mut self) {
        self.names = Arc::default();
        self.memory.read_listings.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.memory.let_go(self.bytes) {
            self.memory.trim();
        }
    }
}

/// The listings that open directories hold: one of each version of a directory, whoever reads it.
///
/// The ARC has most of them as well, but not one that is larger than an eighth of it.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<u64, Weak<HeldListing>>,
    /// The length at which it is searched for what has gone.
    searched_at: usize,
}

impl Listings {
    /// The listing of a directory that others hold.
    pub(crate) fn get(&self, directory: ObjectId, generation: u64) -> Option<Arc<HeldListing>> {
        let held = self.table.lock().held.get(&directory.0)?.upgrade()?;
        (held.generation == generation).then_some(held)
    }

    /// Holds a listing, unless others hold the same one.
    pub(crate) fn hold(
        &self,
        memory: &Arc<Memory>,
        directory: ObjectId,
        generation: u64,
        names: Arc<Listing>,
    ) -> Arc<HeldListing> {
        if let Some(held) = self.get(directory, generation) {
            return held;
        }
        let bytes = listing_bytes(&names) as u64;
        memory.hold(bytes);
        memory.read_listings.bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = Arc::new(HeldListing { names, generation, memory: memory.clone(), bytes });
        let mut table = self.table.lock();
        if table.held.len() >= table.searched_at.max(SEARCHED_MIN) {
            table.held.retain(|_, held| held.strong_count() > 0);
            table.searched_at = table.held.len() * 2;
        }
        table.held.insert(directory.0, Arc::downgrade(&held));
        held
    }

    /// Gives out no more what is held of a directory: its names have changed.
    pub(crate) fn drop_of(&self, directory: ObjectId) {
        self.table.lock().held.remove(&directory.0);
    }
}
