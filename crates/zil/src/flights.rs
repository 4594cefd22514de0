//! Blocks that are under way, and who waits for them.
//!
//! Nothing runs in the background, so each block under way has a *driver*, one of those who wait
//! for it: the device wakes him alone, and the write may keep his thread until it ends. Once the
//! block has arrived he wakes the driver of the next one first, then the others, each once. Who
//! gives up leaves what he drives to another one.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use futures::future::BoxFuture;
use storage::DeviceError;

use crate::position::Position;

/// The writing of a block.
pub(crate) type Write = BoxFuture<'static, Result<(), DeviceError>>;

/// One who waits until everything up to a record lasts.
struct Waiter {
    id: u64,
    up_to: Position,
    waker: Waker,
}

/// A block that is under way.
pub(crate) struct Flight {
    pub(crate) block: u64,
    pub(crate) first: Position,
    pub(crate) last: Position,
    pub(crate) bytes: usize,
    departed_at: Duration,
    /// Nothing while somebody polls it, and once it has arrived.
    write: Option<Write>,
    driver: Option<u64>,
    arrived: bool,
}

impl Flight {
    /// One that departs now, with the records from `first` to `last`.
    pub(crate) fn new(
        block: u64,
        (first, last): (Position, Position),
        bytes: usize,
        write: Write,
        now: Duration,
    ) -> Flight {
        let (write, driver) = (Some(write), None);
        Flight { block, first, last, bytes, departed_at: now, write, driver, arrived: false }
    }
}

/// A write that its driver is to poll.
pub(crate) struct Leg {
    pub(crate) block: u64,
    pub(crate) write: Write,
}

#[derive(Default)]
pub(crate) struct Flights {
    queue: VecDeque<Flight>,
    waiters: Vec<Waiter>,
    last_id: u64,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.queue.iter()
    }

    /// The last record that anybody waits for.
    pub(crate) fn wanted(&self) -> Position {
        self.waiters.iter().map(|waiter| waiter.up_to).max().unwrap_or_default()
    }

    /// Enters a waiter, a new one without an id; returns its id.
    pub(crate) fn join(&mut self, id: Option<u64>, up_to: Position, waker: &Waker) -> u64 {
        let id = id.unwrap_or_else(|| {
            self.last_id += 1;
            self.last_id
        });
        match self.waiters.iter_mut().find(|waiter| waiter.id == id) {
            Some(waiter) => waiter.waker.clone_from(waker),
            None => self.waiters.push(Waiter { id, up_to, waker: waker.clone() }),
        }
        id
    }

    /// Takes a waiter out. Those are to be woken who have to drive now what he has driven.
    pub(crate) fn leave(&mut self, id: u64, wake: &mut Vec<Waker>) {
        self.waiters.retain(|waiter| waiter.id != id);
        for flight in self.queue.iter_mut().filter(|flight| flight.driver == Some(id)) {
            flight.driver = None;
            wake.extend(heir(&self.waiters, flight));
        }
    }

    /// What a waiter drives, or has to because nobody does.
    pub(crate) fn take_over(&mut self, id: u64, up_to: Position) -> Vec<Leg> {
        let mut legs = Vec::new();
        for flight in self.queue.iter_mut().filter(|flight| flight.first <= up_to) {
            if flight.arrived || flight.driver.is_some_and(|driver| driver != id) {
                continue;
            }
            flight.driver = Some(id);
            let write = flight.write.take().expect("only its driver polls it");
            legs.push(Leg { block: flight.block, write });
        }
        legs
    }

    /// Adds a block. It is driven by the waiter `me` if he needs it, who is to poll it at once;
    /// otherwise by another one, who is to be woken.
    pub(crate) fn depart(
        &mut self,
        me: Option<u64>,
        mut flight: Flight,
        wake: &mut Vec<Waker>,
    ) -> Option<Leg> {
        let mut needs = self.waiters.iter().filter(|waiter| waiter.up_to >= flight.first);
        let first_of_all = needs.clone().next().expect("only what is waited for departs");
        let driver = needs.find(|waiter| Some(waiter.id) == me).unwrap_or(first_of_all);
        flight.driver = Some(driver.id);
        let leg = match Some(driver.id) == me {
            true => flight.write.take().map(|write| Leg { block: flight.block, write }),
            false => {
                wake.push(driver.waker.clone());
                None
            }
        };
        self.queue.push_back(flight);
        leg
    }

    /// Takes a write back that was polled, and goes on.
    pub(crate) fn goes_on(&mut self, block: u64, write: Write) {
        let flight = self.queue.iter_mut().find(|flight| flight.block == block);
        flight.expect("it is under way until it arrives").write = Some(write);
    }

    /// The first block that has not arrived, and how long it has been under way.
    pub(crate) fn first(&self, now: Duration) -> Option<(&Flight, Duration)> {
        let first = self.queue.iter().find(|flight| !flight.arrived)?;
        Some((first, now.saturating_sub(first.departed_at)))
    }

    /// Notes that a block has arrived, and returns its first record.
    pub(crate) fn arrived(&mut self, block: u64) -> Position {
        let flight = self.queue.iter_mut().find(|flight| flight.block == block);
        let flight = flight.expect("it is under way until it arrives");
        flight.arrived = true;
        flight.first
    }

    /// The first block, once it has arrived.
    pub(crate) fn pop(&mut self) -> Option<Flight> {
        self.queue.pop_front_if(|flight| flight.arrived)
    }

    /// Takes those out who need not wait any more.
    pub(crate) fn dismiss(&mut self, is_done: impl Fn(Position) -> bool, wake: &mut Vec<Waker>) {
        let done = self.waiters.extract_if(.., |waiter| is_done(waiter.up_to));
        wake.extend(done.map(|waiter| waiter.waker));
    }

    /// Recounts.
    pub(crate) fn validate(&self) {
        assert!(self.queue.front().is_none_or(|flight| !flight.arrived), "it has been taken out");
        for flight in &self.queue {
            assert!(!flight.arrived || flight.write.is_none(), "it has ended");
        }
    }
}

/// One who may drive a block that has no driver.
fn heir(waiters: &[Waiter], flight: &Flight) -> Option<Waker> {
    let needs = waiters.iter().find(|waiter| waiter.up_to >= flight.first);
    needs.filter(|_| !flight.arrived).map(|waiter| waiter.waker.clone())
}
