//! [`Disk`]: a spinning disk with its cache, and an [`Elevator`] in front of it.

mod cache;
mod elevator;
mod geometry;
mod parameters;
mod seek;

pub use elevator::{Elevator, Schedule};
pub use parameters::{DiskParameters, Layout, Overheads, TrackCache, Zone};
pub use seek::{Seek, SeekPoint};

use std::collections::VecDeque;

use super::{Model, Nanoseconds, Operation, Refusal, Request};
use cache::{Cache, Found};
use geometry::Geometry;

/// A spinning disk.
///
/// The arm moves by the seek curve, or heads are switched, then the platter turns until the first
/// sector passes by, and sectors pass at the speed of their zone. Tracks are skewed so that the
/// next one comes just in time. After a read the disk reads on into a segment of its cache until
/// it is full or something else is to be done. Writes are acknowledged from the cache where
/// that is allowed, and are written to the platter at once. One request is served at a time.
#[derive(Debug)]
pub struct Disk {
    parameters: DiskParameters,
    geometry: Geometry,
    revolution_ns: f64,
    cache: Cache,
    arm: Arm,
    /// When the arm has done what it must do.
    arm_free_at: f64,
    ahead: Option<Ahead>,
    /// When each write that is on its way from the cache to the platter is done.
    destaged_at: VecDeque<f64>,
    free_at: Nanoseconds,
    last: Operation,
    served: Served,
}

/// Where the arm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arm {
    cylinder: u32,
    head: u32,
}

/// Reading on after a read: where it is, since when, and how far it goes.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    sector: u64,
    at_ns: f64,
    limit: u64,
}

/// What the platter did for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Served {
    /// Whether the cache had it, or took it.
    pub cached: bool,
    /// The arm moved, or heads were switched, so long.
    pub seek_ns: f64,
    /// The platter turned so long until the first sector came by.
    pub rotation_ns: f64,
    /// Sectors passed by so long.
    pub transfer_ns: f64,
}

/// A passage over the platter.
struct Passage {
    /// When the first sector began to pass.
    first_ns: f64,
    end_ns: f64,
    /// Whole sectors that passed.
    sectors: u64,
}

impl Disk {
    /// A disk whose arm is at the outermost cylinder and whose cache is empty.
    ///
    /// # Errors
    /// What is wrong with the parameters, if no disk can be built by them.
    pub fn new(parameters: &DiskParameters) -> Result<Disk, String> {
        let geometry = Geometry::new(parameters)?;
        Ok(Disk {
            geometry,
            revolution_ns: 60e9 / parameters.rpm.get(),
            cache: Cache::new(&parameters.cache),
            parameters: parameters.clone(),
            arm: Arm { cylinder: 0, head: 0 },
            arm_free_at: 0.0,
            ahead: None,
            destaged_at: VecDeque::new(),
            free_at: 0,
            last: Operation::Read,
            served: Served::default(),
        })
    }

    /// What the platter did for the last request.
    pub fn served(&self) -> Served {
        self.served
    }

    /// When the disk takes its next request.
    pub fn free_at(&self) -> Nanoseconds {
        self.free_at
    }

    fn sector_bytes(&self) -> u64 {
        u64::from(self.parameters.sector_bytes.get())
    }

    /// Lets sectors pass, from `sector` on, until so many have passed or the deadline comes.
    fn pass(
        &mut self,
        from_ns: f64,
        mut sector: u64,
        sectors: u64,
        write: bool,
        deadline_ns: f64,
    ) -> Passage {
        let (mut now, mut left, mut first) = (from_ns, sectors, None);
        self.served = Served::default();
        while left > 0 && sector < self.geometry.sectors() {
            let place = self.geometry.locate(sector);
            let moved = self.move_time(place.arm, write && first.is_none());
            // What comes by within a hair is not waited for a whole revolution.
            let turned = (now + moved) / self.revolution_ns;
            let wait = (place.angle - turned).rem_euclid(1.0);
            let wait = if wait > 1.0 - 1e-4 { 0.0 } else { wait * self.revolution_ns };
            let begin = now + moved + wait;
            if begin >= deadline_ns {
                break;
            }
            self.arm = place.arm;
            first.get_or_insert(begin);
            let sector_ns = self.revolution_ns / f64::from(place.sectors_per_track);
            let there = left.min(u64::from(place.left_on_track));
            let passed = there.min(((deadline_ns - begin) / sector_ns) as u64);
            now = begin + passed as f64 * sector_ns;
            self.served.seek_ns += moved;
            self.served.rotation_ns += wait;
            self.served.transfer_ns += passed as f64 * sector_ns;
            left -= passed;
            sector += passed;
            if passed < there {
                break;
            }
        }
        Passage { first_ns: first.unwrap_or(now), end_ns: now, sectors: sectors - left }
    }

    /// How long it takes to be over another track.
    fn move_time(&self, to: Arm, write: bool) -> f64 {
        let settle = if write { self.parameters.write_settle_ms } else { None };
        let settle_ns = settle.map_or(0.0, |settle| settle.get() * 1e6);
        let switch_ns = self.parameters.head_switch_ms.get() * 1e6;
        match to.cylinder.abs_diff(self.arm.cylinder) {
            0 if to.head == self.arm.head => 0.0,
            0 => switch_ns + settle_ns,
            distance => self.parameters.seek.time_ns(distance).max(switch_ns) + settle_ns,
        }
    }

    /// Reads on until `now`, or until the segment is full.
    fn read_ahead(&mut self, now_ns: f64) {
        let Some(ahead) = &mut self.ahead else { return };
        let Ahead { sector, at_ns, limit } = *ahead;
        let served = self.served;
        let passage = self.pass(at_ns, sector, limit - sector, false, now_ns);
        self.served = served;
        let sector = sector + passage.sectors;
        self.cache.extend(sector);
        // Until the next sector has passed, the time runs from the end of the last one.
        self.ahead = (sector < limit).then_some(Ahead { sector, at_ns: passage.end_ns, limit });
    }

    fn overhead(&self, operation: Operation, hit: bool) -> f64 {
        let overheads = &self.parameters.overheads;
        let after_read = self.last == Operation::Read;
        let overhead = match (operation, hit, after_read) {
            (Operation::Write, _, true) => overheads.write_after_read_ms,
            (Operation::Write, _, false) => overheads.write_after_write_ms,
            (_, true, true) => overheads.read_hit_after_read_ms,
            (_, true, false) => overheads.read_hit_after_write_ms,
            (_, false, true) => overheads.read_miss_after_read_ms,
            (_, false, false) => overheads.read_miss_after_write_ms,
        };
        overhead.map_or(0.0, |overhead| overhead.get() * 1e6)
    }

    /// When a read is done that begins now.
    fn read(&mut self, now_ns: f64, sector: u64, sectors: u64) -> f64 {
        let bus_ns = self.parameters.bus_ms_per_sector.get() * 1e6;
        let (end, over_bus) = (sector + sectors, bus_ns * sectors as f64);
        match self.cache.find(sector, end) {
            Found::Whole => {
                self.served = Served { cached: true, ..Served::default() };
                now_ns + self.overhead(Operation::Read, true) + over_bus
            }
            Found::Beginning if let Some(ahead) = self.ahead => {
                // The rest is just being read.
                let begin = now_ns + self.overhead(Operation::Read, true);
                let rest = end - ahead.sector;
                let passage = self.pass(ahead.at_ns, ahead.sector, rest, false, f64::INFINITY);
                self.cache.extend(end);
                self.ahead = self.ahead_from(end, passage.end_ns);
                (begin + over_bus).max(passage.end_ns + bus_ns)
            }
            _ => {
                self.ahead = None;
                let begin = now_ns + self.overhead(Operation::Read, false);
                let begin = begin.max(self.arm_free_at);
                let arm = self.geometry.locate(sector).arm;
                let arrived = begin + self.move_time(arm, false);
                let passage = self.pass(begin, sector, sectors, false, f64::INFINITY);
                let before = self.sectors_before(sector, passage.first_ns - arrived);
                self.cache.begin(sector - before, end);
                self.ahead = self.ahead_from(end, passage.end_ns);
                (passage.first_ns + over_bus).max(passage.end_ns) + bus_ns
            }
        }
    }

    /// How many sectors of the track came by while a read waited for its first one, if the cache
    /// keeps them.
    fn sectors_before(&self, sector: u64, waited_ns: f64) -> u64 {
        if !self.parameters.cache.keeps_passing_sectors {
            return 0;
        }
        let place = self.geometry.locate(sector);
        let sector_ns = self.revolution_ns / f64::from(place.sectors_per_track);
        let passed = (waited_ns / sector_ns) as u64;
        passed.min(u64::from(place.before_on_track)).min(self.cache.room_before())
    }

    fn ahead_from(&self, sector: u64, at_ns: f64) -> Option<Ahead> {
        let limit = self.cache.limit(sector).min(self.geometry.sectors());
        (sector < limit).then_some(Ahead { sector, at_ns, limit })
    }

    /// When a write is done that begins now.
    fn write(&mut self, now_ns: f64, sector: u64, sectors: u64) -> f64 {
        let bus_ns = self.parameters.bus_ms_per_sector.get() * 1e6;
        self.ahead = None;
        while self.destaged_at.front().is_some_and(|&done| done <= now_ns) {
            self.destaged_at.pop_front();
        }
        let mut begin = now_ns;
        let places = self.parameters.cache.write_segments.get() as usize;
        if self.destaged_at.len() >= places {
            begin = self.destaged_at.pop_front().expect("there is at least one").max(now_ns);
        }
        let begin = begin + self.overhead(Operation::Write, true);
        let acknowledged = begin + bus_ns * sectors as f64;
        self.cache.write(sector, sector + sectors);
        let start = (begin + bus_ns).max(self.arm_free_at);
        let passage = self.pass(start, sector, sectors, true, f64::INFINITY);
        self.arm_free_at = passage.end_ns.max(acknowledged);
        match self.parameters.cache.acknowledges_writes {
            true => {
                self.served = Served { cached: true, ..Served::default() };
                self.destaged_at.push_back(self.arm_free_at);
                acknowledged
            }
            false => self.arm_free_at,
        }
    }
}

impl Model for Disk {
    fn size_bytes(&self) -> u64 {
        self.geometry.sectors() * self.sector_bytes()
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        request.check(self.size_bytes())?;
        let now_ns = now.max(self.free_at) as f64;
        self.read_ahead(now_ns);
        let sector = request.offset / self.sector_bytes();
        let end = (request.offset + request.bytes).div_ceil(self.sector_bytes());
        let done = match request.operation {
            Operation::Read => self.read(now_ns, sector, end - sector),
            Operation::Write => self.write(now_ns, sector, end - sector),
            Operation::Flush => self.arm_free_at.max(now_ns),
            Operation::Discard => now_ns,
        };
        if let Operation::Read | Operation::Write = request.operation {
            self.last = request.operation;
        }
        self.free_at = done.round() as Nanoseconds;
        Ok(self.free_at)
    }
}

#[cfg(test)]
mod tests;
