use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

use serde::Deserialize;

use super::{ExperimentError, Finding, Trial};
use crate::model::{Equipment, Nanoseconds, Queue, Request, Ticket};
use crate::system::{MemorySystem, Ufs, UfsParameters, Zfs2009, Zfs2009Parameters};
use crate::workload::{PatternParameters, Workload, WorkloadParameters};

/// Other file systems keep one file in memory: a warm load at random, a stream through the file,
/// and the load again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Systems {
    /// The disk on which the file lies.
    disk: String,
    file_bytes: NonZeroU64,
    /// Which blocks are read at random, how large they are, and how often.
    load: PatternParameters,
    block_bytes: NonZeroU64,
    reads: NonZeroU32,
    /// What a stream reads at a time.
    stream_bytes: NonZeroU64,
    systems: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    system: System,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum System {
    Ufs(UfsParameters),
    Zfs2009(Zfs2009Parameters),
}

/// A reader of the file, one read after the other.
struct Reader {
    system: Box<dyn MemorySystem>,
    disk: Box<dyn Queue>,
    now: Nanoseconds,
    /// What is read ahead and has not come yet.
    coming: Vec<(Range<u64>, Ticket)>,
    disk_bytes: u64,
}

impl Systems {
    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let (mut findings, seed) = (Vec::new(), trial.seed);
        for named in &self.systems {
            let file_bytes = self.file_bytes.get();
            let disk = Equipment::shipped(&self.disk)?.build(&self.disk, seed)?;
            if disk.size_bytes() < file_bytes {
                return Err(ExperimentError::Unfit(format!("{} is too small", self.disk)));
            }
            let system: Box<dyn MemorySystem> = match &named.system {
                System::Ufs(parameters) => Box::new(Ufs::new(parameters, file_bytes)),
                System::Zfs2009(parameters) => {
                    let system = Zfs2009::new(parameters, file_bytes);
                    Box::new(system.map_err(ExperimentError::Unfit)?)
                }
            };
            let mut reader = Reader { system, disk, now: 0, coming: Vec::new(), disk_bytes: 0 };
            let block = self.block_bytes.get();
            let blocks = NonZeroU64::new(file_bytes / block)
                .ok_or_else(|| ExperimentError::Unfit("the file has no blocks".to_string()))?;
            let parameters =
                WorkloadParameters { blocks, write_percent: None, pattern: self.load.clone() };
            let mut load = Workload::new(&parameters, seed).map_err(ExperimentError::Unfit)?;
            let reads = self.reads.get();
            // How quick they are, and what each brings from the disk.
            let mut at_random = |reader: &mut Reader| {
                let (begun, before) = (reader.now, reader.disk_bytes);
                for access in load.by_ref().take(reads as usize) {
                    reader.read(access.block * block, block);
                }
                let seconds = (reader.now - begun).max(1) as f64 / 1e9;
                let brought = (reader.disk_bytes - before) as f64 / f64::from(reads);
                (f64::from(reads) / seconds, brought / 1024.0)
            };
            at_random(&mut reader);
            let (warm_per_s, warm_kib) = at_random(&mut reader);
            let kept = reader.system.cached_bytes();
            let begun = reader.now;
            for offset in (0..file_bytes).step_by(self.stream_bytes.get() as usize) {
                reader.read(offset, self.stream_bytes.get().min(file_bytes - offset));
            }
            let stream_mb_s = file_bytes as f64 * 1e3 / (reader.now - begun).max(1) as f64;
            let after = reader.system.cached_bytes();
            let (diluted_per_s, _) = at_random(&mut reader);
            reader.system.validate().map_err(ExperimentError::Unfit)?;
            let finding = |what: &str, unit, lab| {
                Finding::new(format!("{}: {what}", named.name), unit, None, lab)
            };
            findings.extend([
                finding("reads once warm", "1/s", warm_per_s),
                finding("from the disk for each", "KiB", warm_kib),
                finding("kept in memory", "MB", kept as f64 / 1e6),
                finding("a stream", "MB/s", stream_mb_s),
                finding("kept in memory after the stream", "MB", after as f64 / 1e6),
                finding("reads right after the stream", "1/s", diluted_per_s),
            ]);
        }
        Ok(findings)
    }
}

impl Reader {
    fn read(&mut self, offset: u64, bytes: u64) {
        // What memory alone takes, so that time goes on.
        self.now += 10_000 + bytes;
        let fetches = self.system.read(offset, bytes);
        let range = offset..offset + bytes;
        let overlaps = |coming: &Range<u64>| coming.start < range.end && range.start < coming.end;
        let mut awaited: Vec<Ticket> =
            self.coming.iter().filter(|(it, _)| overlaps(it)).map(|(_, ticket)| *ticket).collect();
        for request in fetches.demanded {
            awaited.push(self.submit(request));
        }
        for request in fetches.ahead {
            let ticket = self.submit(request);
            self.coming.push((request.offset..request.offset + request.bytes, ticket));
        }
        while let Some(due) = self.disk.due() {
            if awaited.is_empty() && due > self.now {
                break;
            }
            self.now = self.now.max(due);
            while let Some(done) = self.disk.complete(self.now) {
                awaited.retain(|ticket| *ticket != done.ticket);
                self.coming.retain(|(_, ticket)| *ticket != done.ticket);
            }
        }
    }

    fn submit(&mut self, request: Request) -> Ticket {
        self.disk_bytes += request.bytes;
        let bytes = request.bytes.min(self.disk.size_bytes() - request.offset);
        self.disk.submit(self.now, Request { bytes, ..request })
    }
}
