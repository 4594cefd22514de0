use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::MemorySystem;
use crate::model::{Nanoseconds, Processor, Queue, Request, Ticket};

/// What clients have got of a [`Server`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Reads that are done.
    pub reads: u64,
    /// Those of them that waited for no disk.
    pub found_in_memory: u64,
    /// How long all of them took together.
    pub response_ns: u64,
}

/// A memory system over disks, with a processor before it, and clients that read from it, each the
/// next range as soon as the last has come.
pub struct Server {
    system: Box<dyn MemorySystem>,
    disks: Box<dyn Queue>,
    processor: Processor,
    now: Nanoseconds,
    clients: Vec<Client>,
    /// What clients do next.
    turns: BinaryHeap<Reverse<(Nanoseconds, usize, Turn)>>,
    /// What the disks have been asked for and has not come yet.
    coming: Vec<(Range<u64>, Ticket)>,
    disk_bytes: u64,
    served: Served,
}

#[derive(Debug, Default)]
struct Client {
    offset: u64,
    bytes: u64,
    begun: Nanoseconds,
    /// What it waits for.
    awaited: Vec<Ticket>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Takes its next read.
    Next,
    /// Looks into memory.
    Look,
}

impl Server {
    /// Nobody reads yet.
    pub fn new(
        system: Box<dyn MemorySystem>,
        disks: Box<dyn Queue>,
        processor: Processor,
    ) -> Server {
        Server {
            system,
            disks,
            processor,
            now: 0,
            clients: Vec::new(),
            turns: BinaryHeap::new(),
            coming: Vec::new(),
            disk_bytes: 0,
            served: Served::default(),
        }
    }

    /// The time.
    pub fn now(&self) -> Nanoseconds {
        self.now
    }

    /// What the disks were asked for so far.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// What clients have got so far.
    pub fn served(&self) -> Served {
        self.served
    }

    /// The memory system.
    pub fn system(&mut self) -> &mut dyn MemorySystem {
        &mut *self.system
    }

    /// So many clients begin to read; those before have come to their end.
    pub fn begin(&mut self, clients: usize) {
        assert!(self.turns.is_empty(), "one load after the other");
        self.clients = (0..clients).map(|_| Client::default()).collect();
        self.turns.extend((0..clients).map(|client| Reverse((self.now, client, Turn::Next))));
    }

    /// Lets so many clients read until `next` gives them no more ranges.
    pub fn load(&mut self, clients: usize, next: &mut dyn FnMut() -> Option<(u64, u64)>) {
        self.begin(clients);
        self.until(Nanoseconds::MAX, next);
    }

    /// Lets clients take the ranges that `next` gives them, until `end`, or until it gave them none
    /// and all have come. What is under way at `end` goes on with the next call.
    pub fn until(&mut self, end: Nanoseconds, next: &mut dyn FnMut() -> Option<(u64, u64)>) {
        loop {
            let turn = self.turns.peek().map(|Reverse((at, ..))| *at);
            let due = self.disks.due();
            let Some(at) = turn.into_iter().chain(due).min().filter(|at| *at <= end) else {
                break;
            };
            // Nobody waits for what is still read ahead.
            if turn.is_none() && self.clients.iter().all(|client| client.awaited.is_empty()) {
                break;
            }
            self.now = self.now.max(at);
            if due == Some(at) {
                self.complete();
            } else if let Some(Reverse((_, client, turn))) = self.turns.pop() {
                match turn {
                    Turn::Next => self.take(client, next()),
                    Turn::Look => self.look(client),
                }
            }
        }
        if end != Nanoseconds::MAX {
            self.now = self.now.max(end);
        }
    }

    fn take(&mut self, client: usize, read: Option<(u64, u64)>) {
        let Some((offset, bytes)) = read else { return };
        let done = self.processor.work(self.now, bytes);
        self.clients[client] = Client { offset, bytes, begun: self.now, awaited: Vec::new() };
        self.turns.push(Reverse((done, client, Turn::Look)));
    }

    fn look(&mut self, client: usize) {
        let Client { offset, bytes, .. } = self.clients[client];
        let fetches = self.system.read(offset, bytes);
        let range = offset..offset + bytes;
        let overlaps = |coming: &Range<u64>| coming.start < range.end && range.start < coming.end;
        let mut awaited: Vec<Ticket> =
            self.coming.iter().filter(|(it, _)| overlaps(it)).map(|(_, ticket)| *ticket).collect();
        awaited.extend(fetches.demanded.into_iter().map(|request| self.submit(request)));
        for request in fetches.ahead {
            self.submit(request);
        }
        if awaited.is_empty() {
            self.served.found_in_memory += 1;
            return self.finish(client);
        }
        self.clients[client].awaited = awaited;
    }

    fn submit(&mut self, request: Request) -> Ticket {
        self.disk_bytes += request.bytes;
        let bytes = request.bytes.min(self.disks.size_bytes() - request.offset);
        let ticket = self.disks.submit(self.now, Request { bytes, ..request });
        self.coming.push((request.offset..request.offset + request.bytes, ticket));
        ticket
    }

    fn complete(&mut self) {
        while let Some(done) = self.disks.complete(self.now) {
            self.coming.retain(|(_, ticket)| *ticket != done.ticket);
            for client in 0..self.clients.len() {
                let awaited = &mut self.clients[client].awaited;
                let before = awaited.len();
                awaited.retain(|ticket| *ticket != done.ticket);
                if before > 0 && awaited.is_empty() {
                    self.finish(client);
                }
            }
        }
    }

    fn finish(&mut self, client: usize) {
        self.served.reads += 1;
        self.served.response_ns += self.now - self.clients[client].begun;
        self.turns.push(Reverse((self.now, client, Turn::Next)));
    }
}

impl std::ops::Sub for Served {
    type Output = Served;

    fn sub(self, earlier: Served) -> Served {
        Served {
            reads: self.reads - earlier.reads,
            found_in_memory: self.found_in_memory - earlier.found_in_memory,
            response_ns: self.response_ns - earlier.response_ns,
        }
    }
}
