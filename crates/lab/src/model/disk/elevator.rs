use std::collections::BTreeMap;

use serde::Deserialize;

use super::Disk;
use crate::model::{Completion, Model, Nanoseconds, Queue, Refusal, Request, Ticket};

/// Which of the waiting requests a disk serves next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The one that came first.
    FirstCome,
    /// The next one upwards of the last, and from the lowest again after the highest: C-LOOK.
    Elevator,
    /// The one nearest to the last.
    ShortestSeek,
}

/// A disk with a queue that is served in the order of a [`Schedule`].
#[derive(Debug)]
pub struct Elevator {
    disk: Disk,
    schedule: Schedule,
    submitted: u64,
    /// By offset, so that neighbours are found.
    waiting: BTreeMap<(u64, Ticket), Request>,
    arrivals: BTreeMap<Ticket, u64>,
    /// Where the last request ended.
    head_offset: u64,
    under_way: Option<(Nanoseconds, Ticket, Result<(), Refusal>)>,
}

impl Elevator {
    /// An empty queue before a disk.
    pub fn new(disk: Disk, schedule: Schedule) -> Elevator {
        Elevator {
            disk,
            schedule,
            submitted: 0,
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            head_offset: 0,
            under_way: None,
        }
    }

    /// The disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The place in the queue of the request that is served next.
    fn next(&self) -> Option<(u64, Ticket)> {
        let here = (self.head_offset, Ticket(0));
        let first = || self.waiting.keys().next().copied();
        let up = || self.waiting.range(here..).next().map(|(&key, _)| key);
        match self.schedule {
            Schedule::FirstCome => {
                self.arrivals.iter().next().map(|(&ticket, &offset)| (offset, ticket))
            }
            Schedule::Elevator => up().or_else(first),
            Schedule::ShortestSeek => {
                let down = self.waiting.range(..here).next_back().map(|(&key, _)| key);
                let distance = |&(offset, _): &(u64, Ticket)| offset.abs_diff(self.head_offset);
                up().into_iter().chain(down).min_by_key(distance)
            }
        }
    }

    fn begin(&mut self, now: Nanoseconds) {
        if self.under_way.is_some() {
            return;
        }
        let Some(key) = self.next() else { return };
        let request = self.waiting.remove(&key).expect("it waits");
        self.arrivals.remove(&key.1);
        self.under_way = Some(match self.disk.serve(now, request) {
            Ok(at) => {
                self.head_offset = request.offset + request.bytes;
                (at, key.1, Ok(()))
            }
            Err(refusal) => (now, key.1, Err(refusal)),
        });
    }
}

impl Queue for Elevator {
    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn submit(&mut self, now: Nanoseconds, request: Request) -> Ticket {
        let ticket = Ticket(self.submitted);
        self.submitted += 1;
        self.waiting.insert((request.offset, ticket), request);
        self.arrivals.insert(ticket, request.offset);
        self.begin(now);
        ticket
    }

    fn due(&self) -> Option<Nanoseconds> {
        self.under_way.as_ref().map(|&(at, ..)| at)
    }

    fn complete(&mut self, now: Nanoseconds) -> Option<Completion> {
        if self.due()? > now {
            return None;
        }
        let (at, ticket, outcome) = self.under_way.take()?;
        // The disk has been free since.
        self.begin(at);
        Some(Completion { ticket, at, outcome })
    }
}
