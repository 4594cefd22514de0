use std::num::NonZeroU64;

use serde::Deserialize;

use super::{Fetches, MemorySystem, divided, runs};
use crate::model::Request;
use crate::policy::{ListArc, Objects, Policy, Queues};

/// The smallest record.
const RECORD_BYTES_MIN: u64 = 512;
/// Smaller reads of a device are made larger: `zfs_vdev_cache_max`.
const SMALL_READ_BYTES: u64 = 16 << 10;
/// Records that are read ahead of a stream.
const AHEAD_RECORDS: u64 = 8;
/// Records of streams on their way to the reader.
const PASSING_MAX: u64 = 2 * AHEAD_RECORDS;

const ALL: usize = 0;

/// The ZFS of 2009 to 2011.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zfs2009Parameters {
    /// What the ARC may take.
    pub arc_bytes: NonZeroU64,
    /// Bytes of a record.
    pub record_bytes: NonZeroU64,
    /// Streams are read ahead: so unless `zfs_prefetch_disable`.
    pub prefetch: bool,
    /// What a detected stream brings stays in the ARC.
    pub keeps_streams: bool,
    /// Of the read-ahead cache of each device: `zfs_vdev_cache_size`; 0 for none.
    pub vdev_cache_bytes: u64,
    /// What it reads at a time, as a power of two: `zfs_vdev_cache_bshift`.
    pub vdev_cache_bshift: u32,
}

impl Zfs2009Parameters {
    pub(super) fn check(&self) -> Result<(), String> {
        let (shift, record_bytes) = (self.vdev_cache_bshift, self.record_bytes.get());
        if !(9..=24).contains(&shift) {
            return Err(format!("vdev_cache_bshift is {shift}, and must be from 9 to 24"));
        }
        match record_bytes.is_power_of_two() && record_bytes >= RECORD_BYTES_MIN {
            true => Ok(()),
            false => Err(format!(
                "record_bytes is {record_bytes}, and must be a power of two from \
                 {RECORD_BYTES_MIN} on"
            )),
        }
    }

    pub(super) fn scaled_down(&self, divisor: NonZeroU64) -> Zfs2009Parameters {
        let vdev_cache_bytes = self.vdev_cache_bytes / divisor;
        let arc_bytes = divided(self.arc_bytes, divisor);
        Zfs2009Parameters { arc_bytes, vdev_cache_bytes, ..self.clone() }
    }
}

/// ARC as published, over records; streams pass it by; below it a cache of the device that makes
/// small reads large.
#[derive(Debug)]
pub struct Zfs2009 {
    parameters: Zfs2009Parameters,
    arc: ListArc,
    /// Records of streams that were read ahead.
    passing: Queues<1>,
    /// What the device's cache has, in steps of its reads.
    device: Queues<1>,
    next_record: u64,
    /// Records in order so far.
    in_order: u64,
}

impl Zfs2009 {
    /// Nothing is cached of a file of so many bytes.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    pub fn new(parameters: &Zfs2009Parameters, file_bytes: u64) -> Result<Zfs2009, String> {
        parameters.check()?;
        let shift = parameters.vdev_cache_bshift;
        let records = Objects::uniform(file_bytes.div_ceil(parameters.record_bytes.get()) as usize);
        let steps = Objects::uniform((file_bytes >> shift) as usize + 1);
        let capacity = (parameters.arc_bytes.get() / parameters.record_bytes).max(1);
        Ok(Zfs2009 {
            parameters: parameters.clone(),
            arc: ListArc::new(capacity, &records),
            passing: Queues::new(&records),
            device: Queues::new(&steps),
            next_record: 0,
            in_order: 0,
        })
    }

    /// What it was made with.
    pub fn parameters(&self) -> &Zfs2009Parameters {
        &self.parameters
    }

    /// Brings a record to where it is kept; says whether it was there.
    fn bring(&mut self, record: u64, is_stream: bool) -> bool {
        let id = record as u32;
        let was_passing = self.passing.is_on(ALL, id);
        if self.arc.holds(id) || !is_stream || self.parameters.keeps_streams {
            self.passing.remove(id);
            return self.arc.access(id) || was_passing;
        }
        self.passing.push(ALL, id);
        while self.passing.weight(ALL) > PASSING_MAX {
            self.passing.pop(ALL);
        }
        was_passing
    }

    /// What the device is asked for: small reads are made large, unless its cache has them.
    fn of_device(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let shift = self.parameters.vdev_cache_bshift;
        let steps_max = self.parameters.vdev_cache_bytes >> shift;
        let mut large = Vec::new();
        for request in requests {
            if request.bytes >= SMALL_READ_BYTES || steps_max == 0 {
                large.push(request);
                continue;
            }
            let last = (request.offset + request.bytes - 1) >> shift;
            for step in request.offset >> shift..=last {
                if !self.device.is_on(ALL, step as u32) {
                    large.push(Request::read(step << shift, 1 << shift));
                }
                self.device.push(ALL, step as u32);
            }
            while self.device.weight(ALL) > steps_max {
                self.device.pop(ALL);
            }
        }
        large
    }
}

impl MemorySystem for Zfs2009 {
    fn read(&mut self, offset: u64, bytes: u64) -> Fetches {
        let record_bytes = self.parameters.record_bytes.get();
        let records = self.passing.objects().count() as u64;
        let wanted = offset / record_bytes..(offset + bytes).div_ceil(record_bytes).min(records);
        // A reader that goes on in the same record, or with the next one.
        let goes_on = wanted.start == self.next_record || wanted.start + 1 == self.next_record;
        self.in_order = if goes_on { self.in_order + 1 } else { 0 };
        let is_stream = self.in_order > 1;
        let missing: Vec<u64> =
            wanted.clone().filter(|&record| !self.bring(record, is_stream)).collect();
        let demanded = self.of_device(runs(missing, record_bytes, 1));
        let mut ahead = Vec::new();
        if is_stream && self.parameters.prefetch {
            let to = (wanted.end + AHEAD_RECORDS).min(records);
            let missing = (wanted.end..to).filter(|&record| {
                !self.arc.holds(record as u32) && !self.passing.is_on(ALL, record as u32)
            });
            let missing: Vec<u64> = missing.collect();
            for &record in &missing {
                self.bring(record, true);
            }
            ahead = self.of_device(runs(missing, record_bytes, 1));
        }
        self.next_record = wanted.end;
        Fetches { demanded, ahead }
    }

    fn leave(&mut self, bytes: u64) -> u64 {
        let record_bytes = self.parameters.record_bytes;
        let before = self.arc.resident_weight();
        let bytes = bytes.min(self.parameters.arc_bytes.get());
        self.arc.set_capacity((bytes / record_bytes).max(1));
        (before - self.arc.resident_weight()) * record_bytes.get()
    }

    fn cached_bytes(&self) -> u64 {
        let records = self.arc.resident_weight() + self.passing.weight(ALL);
        let of_device = self.device.weight(ALL) << self.parameters.vdev_cache_bshift;
        records * self.parameters.record_bytes.get() + of_device
    }

    fn validate(&self) -> Result<(), String> {
        self.arc.validate()?;
        self.passing.validate()?;
        self.device.validate()
    }
}
