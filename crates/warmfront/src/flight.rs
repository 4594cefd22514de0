//! [`Flights`]: single flight. Of all callers that want a key, one fetches and the others wait,
//! as tasks or as threads.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::sync::{Mutex, block_on, thread_local};

/// Tables of flights, so that callers for different keys seldom meet at one lock.
const SHARDS: usize = 64;

/// The fetches under way, so that each key is fetched by one caller while the others wait.
///
/// `T` is what a fetch ends with; everybody who waits gets a clone.
#[derive(Debug)]
pub(crate) struct Flights<K, T, S = DefaultHashBuilder> {
    shards: Box<[Shard<K, T>]>,
    hasher: S,
}

type Table<K, T> = HashTable<Arc<Flight<K, T>>>;

/// One table and its lock, padded, so that neighbours share no cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<K, T>(Mutex<Table<K, T>>);

/// The fetch of one key, as those see it who wait for its end.
#[derive(Debug)]
pub(crate) struct Flight<K, T> {
    hash: u64,
    key: K,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
enum State<T> {
    /// Those who wait. A place is empty when its owner has stopped waiting.
    UnderWay(Vec<Option<Waker>>),
    Arrived(T),
    /// The caller that fetched gave up; whoever still wants the value starts anew.
    Abandoned,
}

/// What a caller that wants a key has to do.
pub(crate) enum Claim<'a, K, T, S = DefaultHashBuilder> {
    /// Fetch it and land it.
    Lead(Lead<'a, K, T, S>),
    /// Wait for the caller that is fetching it.
    Join(Arc<Flight<K, T>>),
}

/// The duty to fetch one key. Dropped without landing, it lets the others start anew.
#[derive(Debug)]
pub(crate) struct Lead<'a, K, T, S = DefaultHashBuilder> {
    flights: &'a Flights<K, T, S>,
    flight: Arc<Flight<K, T>>,
    landed: bool,
}

impl<K, T> Default for Flights<K, T> {
    fn default() -> Self {
        Self::with_hasher(DefaultHashBuilder::default())
    }
}

impl<K, T, S> Flights<K, T, S> {
    /// No fetch under way.
    pub(crate) fn with_hasher(hasher: S) -> Self {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(HashTable::new()))).collect();
        Self { shards, hasher }
    }

    /// Number of keys being fetched.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Takes every flight out of the tables; see [`Flights::call_off`].
    pub(crate) fn call_off_all(&self) {
        self.shards.iter().for_each(|shard| shard.0.lock().clear());
    }

    fn table(&self, hash: u64) -> &Mutex<Table<K, T>> {
        // The tables themselves use the low bits and the top seven.
        &self.shards[(hash >> 40) as usize % SHARDS].0
    }
}

impl<K: Hash + Eq + Clone, T, S: BuildHasher> Flights<K, T, S> {
    /// Joins the fetch of `key` that is under way, or takes it over.
    pub(crate) fn claim(&self, key: &K) -> Claim<'_, K, T, S> {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table(hash).lock();
        if let Some(flight) = table.find(hash, |flight| flight.key == *key) {
            return Claim::Join(flight.clone());
        }
        let state = Mutex::new(State::UnderWay(Vec::new()));
        let flight = Arc::new(Flight { hash, key: key.clone(), state });
        table.insert_unique(hash, flight.clone(), |flight| flight.hash);
        Claim::Lead(Lead { flights: self, flight, landed: false })
    }

    /// Whether the key is being fetched.
    pub(crate) fn is_under_way(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        self.table(hash).lock().find(hash, |flight| flight.key == *key).is_some()
    }

    /// Runs `change` while the key cannot be claimed, and calls off the fetch that is under way:
    /// those who wait for it get its outcome, but it is out of date, so it is not admitted, and
    /// later callers fetch anew.
    pub(crate) fn call_off<R>(&self, key: &K, change: impl FnOnce() -> R) -> R {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table(hash).lock();
        if !table.is_empty()
            && let Ok(entry) = table.find_entry(hash, |flight| flight.key == *key)
        {
            entry.remove();
        }
        change()
    }
}

impl<K, T: Clone> Flight<K, T> {
    /// Waits for the outcome. `None` when the fetch was given up.
    pub(crate) fn landed(&self) -> Landed<'_, K, T> {
        Landed { flight: self, place: None }
    }

    /// As [`Flight::landed`], on this thread.
    pub(crate) fn wait(&self) -> Option<T> {
        block_on(self.landed())
    }
}

impl<K, T> Flight<K, T> {
    /// Whether the caller runs within the fetch itself, and would wait for its own end.
    pub(crate) fn is_led_here(&self) -> bool {
        LED.with(|led| led.borrow().contains(&self.address()))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn land(&self, end: State<T>) {
        let before = std::mem::replace(&mut *self.state.lock(), end);
        if let State::UnderWay(wakers) = before {
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

/// A caller that waits for a flight.
#[derive(Debug)]
pub(crate) struct Landed<'a, K, T> {
    flight: &'a Flight<K, T>,
    /// Its place among the wakers.
    place: Option<usize>,
}

impl<K, T: Clone> Future for Landed<'_, K, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let flight = self.flight;
        match &mut *flight.state.lock() {
            State::Arrived(outcome) => Poll::Ready(Some(outcome.clone())),
            State::Abandoned => Poll::Ready(None),
            State::UnderWay(wakers) => {
                let place = *self.place.get_or_insert_with(|| {
                    wakers.push(None);
                    wakers.len() - 1
                });
                match &mut wakers[place] {
                    Some(waker) => waker.clone_from(context.waker()),
                    empty => *empty = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl<K, T> Drop for Landed<'_, K, T> {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && let State::UnderWay(wakers) = &mut *self.flight.state.lock()
        {
            wakers[place] = None;
            while wakers.last().is_some_and(Option::is_none) {
                wakers.pop();
            }
        }
    }
}

impl<K, T, S> Lead<'_, K, T, S> {
    /// The key to fetch.
    pub(crate) fn key(&self) -> &K {
        &self.flight.key
    }

    /// Marks this thread as running the fetch until the result is dropped.
    pub(crate) fn enter(&self) -> Leading {
        let address = self.flight.address();
        LED.with(|led| led.borrow_mut().push(address));
        Leading { address, stays_on_its_thread: PhantomData }
    }

    /// Gives everybody who waits the outcome.
    pub(crate) fn land(self, outcome: T) {
        self.land_after(outcome, || {});
    }

    /// Runs `admit` while the key cannot be claimed, unless the fetch was called off; then gives
    /// everybody who waits the outcome.
    pub(crate) fn land_after(mut self, outcome: T, admit: impl FnOnce()) {
        let mut table = self.flights.table(self.flight.hash).lock();
        if take(&mut table, &self.flight) {
            admit();
        }
        drop(table);
        self.landed = true;
        self.flight.land(State::Arrived(outcome));
    }
}

impl<K, T, S> Drop for Lead<'_, K, T, S> {
    fn drop(&mut self) {
        if !self.landed {
            take(&mut self.flights.table(self.flight.hash).lock(), &self.flight);
            self.flight.land(State::Abandoned);
        }
    }
}

/// Takes one flight out of its table. `false` if it was called off.
fn take<K, T>(table: &mut Table<K, T>, flight: &Arc<Flight<K, T>>) -> bool {
    match table.find_entry(flight.hash, |at| Arc::ptr_eq(at, flight)) {
        Ok(entry) => {
            entry.remove();
            true
        }
        Err(_) => false,
    }
}

thread_local! {
    /// Addresses of the flights whose fetches run on this thread, the innermost last.
    static LED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While this lives, its thread runs a fetch.
#[derive(Debug)]
pub(crate) struct Leading {
    address: usize,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Leading {
    fn drop(&mut self) {
        LED.with(|led| {
            let left = led.borrow_mut().pop();
            assert_eq!(left, Some(self.address), "fetches on one thread end in reverse order");
        });
    }
}
