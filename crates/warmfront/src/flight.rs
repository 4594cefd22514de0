use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::{Poll, Waker};

use futures::future::poll_fn;
use parking_lot::Mutex;

use crate::error::Result;
use crate::key::Key;
use crate::record::Record;

/// The fetches under way, so that each record is fetched by one caller while the others wait.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    under_way: Mutex<HashMap<Key, Arc<Flight>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    landing: Option<Landing>,
    wakers: Vec<Waker>,
}

/// How a flight ended.
#[derive(Debug, Clone)]
enum Landing {
    Arrived(Result<Arc<Record>>),
    /// The caller that fetched gave up; whoever still wants the record starts anew.
    Abandoned,
}

/// What a caller that wants a record has to do.
pub(crate) enum Claim<'a> {
    /// Fetch it and land it.
    Lead(Lead<'a>),
    /// Wait for the caller that is fetching it.
    Join(Arc<Flight>),
}

/// The duty to fetch one record. Dropped without landing, it lets the others start anew.
pub(crate) struct Lead<'a> {
    flights: &'a Flights,
    key: Key,
    flight: Arc<Flight>,
    landed: bool,
}

impl Flights {
    /// Joins the fetch of `key` that is under way, or takes it over.
    pub(crate) fn claim(&self, key: Key) -> Claim<'_> {
        match self.under_way.lock().entry(key) {
            Entry::Occupied(entry) => Claim::Join(entry.get().clone()),
            Entry::Vacant(entry) => {
                let flight = entry.insert(Arc::default()).clone();
                Claim::Lead(Lead { flights: self, key, flight, landed: false })
            }
        }
    }

    /// Whether the record is being fetched.
    pub(crate) fn is_under_way(&self, key: &Key) -> bool {
        self.under_way.lock().contains_key(key)
    }

    /// Number of records being fetched.
    pub(crate) fn len(&self) -> usize {
        self.under_way.lock().len()
    }
}

impl Flight {
    /// Waits for the record. `None` when the fetch was given up.
    pub(crate) async fn landed(&self) -> Option<Result<Arc<Record>>> {
        poll_fn(|context| {
            let mut state = self.state.lock();
            match &state.landing {
                Some(Landing::Arrived(outcome)) => Poll::Ready(Some(outcome.clone())),
                Some(Landing::Abandoned) => Poll::Ready(None),
                None => {
                    state.wakers.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn land(&self, landing: Landing) {
        let mut state = self.state.lock();
        state.landing = Some(landing);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Lead<'_> {
    /// The record to fetch.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Gives everybody who waits the outcome.
    pub(crate) fn land(mut self, outcome: Result<Arc<Record>>) {
        self.landed = true;
        self.flights.under_way.lock().remove(&self.key);
        self.flight.land(Landing::Arrived(outcome));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.flights.under_way.lock().remove(&self.key);
            self.flight.land(Landing::Abandoned);
        }
    }
}
