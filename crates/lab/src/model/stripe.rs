use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

use super::{
    Completion, Disk, DiskParameters, Elevator, Nanoseconds, Operation, Positive, Queue, Refusal,
    Request, Schedule, Ticket,
};

/// Most disks of a pool.
const DISKS_MAX: u64 = 4096;

/// How disks make up a pool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripeParameters {
    /// Mirrors side by side.
    pub mirrors: NonZeroU32,
    /// Disks of each.
    pub sides: NonZeroU32,
    /// Bytes that lie together on one mirror.
    pub run_bytes: NonZeroU64,
    /// The part of each disk over which runs are scattered; without it they lie in order.
    pub scattered_percent: Option<Positive>,
}

/// Mirrors of disks, each disk with its elevator, over which the bytes are laid in runs.
///
/// A read goes to the disk of the mirror that has the fewest requests, everything else to all.
#[derive(Debug)]
pub struct Stripe {
    parameters: StripeParameters,
    disks: Vec<Elevator>,
    /// Requests at each disk.
    lengths: Vec<u32>,
    busy_since: Vec<Nanoseconds>,
    busy_ns: u64,
    disk_bytes: u64,
    submitted: u64,
    /// When each busy disk is done next, and which it is.
    due: BinaryHeap<Reverse<(Nanoseconds, usize)>>,
    /// What a disk's ticket is a part of.
    parts: BTreeMap<(usize, Ticket), Ticket>,
    /// Parts that are left of a request, and why one was refused.
    left: BTreeMap<Ticket, (u32, Result<(), Refusal>)>,
    /// Requests without parts.
    empty: Vec<(Nanoseconds, Ticket)>,
}

impl Stripe {
    /// Disks with nothing to do.
    ///
    /// # Errors
    /// What is wrong with the parameters, if no pool can be built by them.
    pub fn new(disk: &DiskParameters, parameters: &StripeParameters) -> Result<Stripe, String> {
        let count = u64::from(parameters.mirrors.get()) * u64::from(parameters.sides.get());
        if count > DISKS_MAX {
            return Err(format!("there are {count} disks, and at most {DISKS_MAX} are followed"));
        }
        let count = count as usize;
        let disks = (0..count)
            .map(|_| Ok(Elevator::new(Disk::new(disk)?, Schedule::Elevator)))
            .collect::<Result<Vec<_>, String>>()?;
        let percent = parameters.scattered_percent.map_or(100.0, Positive::get);
        if percent > 100.0 {
            return Err(format!("scattered_percent is {percent}, and must not be above 100"));
        }
        let size = disks[0].size_bytes();
        let disk_bytes = (size as f64 * percent / 100.0) as u64 / parameters.run_bytes
            * parameters.run_bytes.get();
        if disk_bytes == 0 {
            return Err(format!("run_bytes is more than the {size} bytes of a disk that are used"));
        }
        Ok(Stripe {
            parameters: parameters.clone(),
            lengths: vec![0; count],
            busy_since: vec![0; count],
            busy_ns: 0,
            disks,
            disk_bytes,
            submitted: 0,
            due: BinaryHeap::new(),
            parts: BTreeMap::new(),
            left: BTreeMap::new(),
            empty: Vec::new(),
        })
    }

    /// How many disks there are.
    pub fn disks(&self) -> usize {
        self.disks.len()
    }

    /// Where a run lies: the mirror, and the offset on its disks.
    fn locate(&self, run: u64) -> (usize, u64) {
        let mirrors = u64::from(self.parameters.mirrors.get());
        let runs = self.disk_bytes / self.parameters.run_bytes;
        let place = match self.parameters.scattered_percent {
            Some(_) => storage::Random::new(run).below(runs),
            None => run / mirrors % runs,
        };
        ((run % mirrors) as usize, place * self.parameters.run_bytes.get())
    }

    fn put(&mut self, now: Nanoseconds, ticket: Ticket, disk: usize, request: Request) {
        let was_busy = self.disks[disk].due().is_some();
        let part = self.disks[disk].submit(now, request);
        self.parts.insert((disk, part), ticket);
        self.lengths[disk] += 1;
        if !was_busy {
            self.busy_since[disk] = now;
            let due = self.disks[disk].due().expect("it has something to do");
            self.due.push(Reverse((due, disk)));
        }
    }
}

impl Queue for Stripe {
    fn size_bytes(&self) -> u64 {
        self.disk_bytes * u64::from(self.parameters.mirrors.get())
    }

    fn submit(&mut self, now: Nanoseconds, request: Request) -> Ticket {
        let ticket = Ticket(self.submitted);
        self.submitted += 1;
        let sides = self.parameters.sides.get() as usize;
        let mut pieces = Vec::new();
        match request.operation {
            Operation::Flush => {
                pieces.extend((0..self.disks.len()).map(|disk| (disk, Request::flush())));
            }
            Operation::Discard => {}
            Operation::Read | Operation::Write => {
                let run_bytes = self.parameters.run_bytes.get();
                let (mut at, end) = (request.offset, request.offset + request.bytes);
                while at < end {
                    let (run, within) = (at / run_bytes, at % run_bytes);
                    let bytes = (run_bytes - within).min(end - at);
                    let (mirror, place) = self.locate(run);
                    let piece = Request { offset: place + within, bytes, ..request };
                    let of_mirror = mirror * sides..(mirror + 1) * sides;
                    if request.operation == Operation::Read {
                        // Among equals a place has its own.
                        let own = storage::Random::new(!run).below(sides as u64) as usize;
                        let order = |disk: &usize| (disk - mirror * sides + own) % sides;
                        let disk = of_mirror
                            .min_by_key(|disk| (self.lengths[*disk], order(disk)))
                            .expect("a mirror has a disk");
                        pieces.push((disk, piece));
                    } else {
                        pieces.extend(of_mirror.map(|disk| (disk, piece)));
                    }
                    at += bytes;
                }
            }
        }
        if pieces.is_empty() {
            self.empty.push((now, ticket));
            return ticket;
        }
        self.left.insert(ticket, (pieces.len() as u32, Ok(())));
        for (disk, piece) in pieces {
            self.put(now, ticket, disk, piece);
        }
        ticket
    }

    fn due(&self) -> Option<Nanoseconds> {
        let empty = self.empty.first().map(|&(at, _)| at);
        let due = self.due.peek().map(|&Reverse((at, _))| at);
        empty.into_iter().chain(due).min()
    }

    fn complete(&mut self, now: Nanoseconds) -> Option<Completion> {
        if let Some(&(at, ticket)) = self.empty.first() {
            self.empty.remove(0);
            return Some(Completion { ticket, at, outcome: Ok(()) });
        }
        while let Some(&Reverse((at, disk))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let done = self.disks[disk].complete(at).expect("it is due");
            self.lengths[disk] -= 1;
            // As far as it is known, also where it never has nothing to do.
            self.busy_ns += at - self.busy_since[disk];
            self.busy_since[disk] = at;
            if let Some(next) = self.disks[disk].due() {
                self.due.push(Reverse((next, disk)));
            }
            let ticket = self.parts.remove(&(disk, done.ticket)).expect("it is part of one");
            let (left, outcome) = self.left.get_mut(&ticket).expect("parts are left");
            *left -= 1;
            if done.outcome.is_err() {
                *outcome = done.outcome;
            }
            if *left == 0 {
                let (_, outcome) = self.left.remove(&ticket).expect("it is there");
                return Some(Completion { ticket, at, outcome });
            }
        }
        None
    }

    /// Over all disks.
    fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Equipment;

    fn stripe(mirrors: u32, sides: u32) -> Stripe {
        let Ok(Equipment::Disk(disk)) = Equipment::shipped("quantum-atlas-10k") else {
            panic!("a disk comes with the lab")
        };
        let count = |count| NonZeroU32::new(count).expect("not zero");
        let parameters = StripeParameters {
            mirrors: count(mirrors),
            sides: count(sides),
            run_bytes: NonZeroU64::new(128 << 10).expect("not zero"),
            scattered_percent: Positive::try_from(50.0).ok(),
        };
        Stripe::new(&disk, &parameters).expect("it can be built")
    }

    /// Reads side by side, one after the other each; how many are done in a second.
    fn rate(stripe: &mut Stripe, readers: u64) -> u64 {
        let mut random = storage::Random::new(7);
        let mut offset = || random.below(1 << 17) * 4096;
        for _ in 0..readers {
            stripe.submit(0, Request::read(offset(), 4096));
        }
        let mut done = 0;
        while let Some(now) = stripe.due()
            && now < 1_000_000_000
        {
            while stripe.complete(now).is_some() {
                done += 1;
                stripe.submit(now, Request::read(offset(), 4096));
            }
        }
        done
    }

    #[test]
    fn disks_work_side_by_side() {
        let (one, many) = (rate(&mut stripe(1, 1), 1), rate(&mut stripe(8, 2), 64));
        assert!((90..220).contains(&one), "{one}");
        assert!((one * 12..one * 32).contains(&many), "{one} {many}");
    }

    #[test]
    fn a_long_read_has_parts_and_a_flush_waits_for_all() {
        let mut stripe = stripe(4, 2);
        let ticket = stripe.submit(0, Request::read(0, 1 << 20));
        let written = stripe.submit(0, Request::write(0, 4096));
        let flushed = stripe.submit(0, Request::flush());
        let discarded = stripe.submit(0, Request::discard(0, 4096));
        let mut seen = Vec::new();
        while let Some(now) = stripe.due() {
            while let Some(done) = stripe.complete(now) {
                assert_eq!(done.outcome, Ok(()));
                seen.push(done.ticket);
            }
        }
        assert_eq!(seen.len(), 4);
        assert!([ticket, written, flushed, discarded].iter().all(|one| seen.contains(one)));
        assert!(stripe.busy_ns() > 0 && stripe.parts.is_empty() && stripe.left.is_empty());
    }
}
