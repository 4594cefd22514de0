//! Blocks that are under way, and who waits for them.
//!
//! Nothing runs in the background, so each block under way has a *driver*, one of those who wait
//! for it: the device wakes him alone. Once the block has arrived he begins to write the next one,
//! on behalf of a driver among those who wait for that, and only then wakes the others. So the
//! device has work while they are woken, and each is woken once. Who gives up leaves what he drives
//! to another one.

use std::collections::VecDeque;
use std::task::Waker;

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
    /// Nothing while somebody polls it, and once it has arrived.
    write: Option<Write>,
    driver: Option<u64>,
    /// The driver was woken while another one still polled the write on his behalf.
    missed: bool,
    arrived: bool,
}

/// A write that is to be polled, for a driver.
pub(crate) struct Leg {
    pub(crate) block: u64,
    pub(crate) write: Write,
    pub(crate) waker: Waker,
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
    pub(crate) fn take_over(&mut self, id: u64, up_to: Position, waker: &Waker) -> Vec<Leg> {
        let mut legs = Vec::new();
        for flight in self.queue.iter_mut().filter(|flight| flight.first <= up_to) {
            if flight.arrived || flight.driver.is_some_and(|driver| driver != id) {
                continue;
            }
            flight.driver = Some(id);
            match flight.write.take() {
                Some(write) => {
                    legs.push(Leg { block: flight.block, write, waker: waker.clone() });
                }
                None => flight.missed = true,
            }
        }
        legs
    }

    /// Adds a block, to be polled at once on behalf of one who waits for it.
    pub(crate) fn depart(
        &mut self,
        block: u64,
        (first, last): (Position, Position),
        bytes: usize,
        write: Write,
    ) -> Leg {
        let driver = self.waiters.iter().find(|waiter| waiter.up_to >= first);
        let driver = driver.expect("only what is waited for departs");
        let (id, waker) = (driver.id, driver.waker.clone());
        self.queue.push_back(Flight {
            block,
            first,
            last,
            bytes,
            write: None,
            driver: Some(id),
            missed: false,
            arrived: false,
        });
        Leg { block, write, waker }
    }

    /// Takes a write back that goes on. Somebody is to be woken if its driver was too early, or
    /// has gone.
    pub(crate) fn goes_on(&mut self, block: u64, write: Write, wake: &mut Vec<Waker>) {
        let flight = self.queue.iter_mut().find(|flight| flight.block == block);
        let flight = flight.expect("it is under way until it arrives");
        flight.write = Some(write);
        if std::mem::take(&mut flight.missed) || flight.driver.is_none() {
            flight.driver = None;
            wake.extend(heir(&self.waiters, flight));
        }
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
