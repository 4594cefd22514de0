use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

use super::{ExperimentError, Finding, Trial, Work, distinct};
use crate::model::{Positive, Processor, ProcessorParameters};
use crate::system::{Server, SystemParameters};
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
    system: SystemParameters,
}

impl Systems {
    /// The most that it has to simulate.
    pub fn work(&self, _trial: Trial) -> Result<Work, ExperimentError> {
        distinct(self.systems.iter().map(|named| named.name.as_str()))?;
        for named in &self.systems {
            named.system.check().map_err(ExperimentError::Unfit)?;
        }
        let stream_bytes = self.stream_bytes.get();
        let stream = self.file_bytes.get() as f64 / stream_bytes as f64;
        let work = Work::new("reads, block_bytes or file_bytes, or larger stream_bytes");
        Ok(self.systems.iter().fold(work, |work, _| {
            let reads = 3.0 * f64::from(self.reads.get());
            work.and(reads, self.block_bytes.get()).and(stream, stream_bytes)
        }))
    }

    pub fn run(&self, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let (mut findings, seed) = (Vec::new(), trial.seed);
        for named in &self.systems {
            trial.tell(&named.name);
            let file_bytes = self.file_bytes.get();
            let disk = trial.equipment(&self.disk)?.build(&self.disk, seed)?;
            if disk.size_bytes() < file_bytes {
                return Err(ExperimentError::Unfit(format!("{} is too small", self.disk)));
            }
            let system = named.system.build(file_bytes).map_err(ExperimentError::Unfit)?;
            let mut server = Server::new(system, disk, processor());
            let block = self.block_bytes.get();
            let blocks = NonZeroU64::new(file_bytes / block)
                .ok_or_else(|| ExperimentError::Unfit("the file has no blocks".to_string()))?;
            let parameters =
                WorkloadParameters { blocks, write_percent: None, pattern: self.load.clone() };
            let mut load = Workload::new(&parameters, seed).map_err(ExperimentError::Unfit)?;
            let reads = self.reads.get();
            // How quick they are, and what each brings from the disk.
            let mut at_random = |server: &mut Server| {
                let (begun, before) = (server.now(), server.disk_bytes());
                let mut blocks = load.by_ref().take(reads as usize);
                server.load(1, &mut || blocks.next().map(|access| (access.block * block, block)));
                let seconds = (server.now() - begun).max(1) as f64 / 1e9;
                let brought = (server.disk_bytes() - before) as f64 / f64::from(reads);
                (f64::from(reads) / seconds, brought / 1024.0)
            };
            at_random(&mut server);
            let (warm_per_s, warm_kib) = at_random(&mut server);
            let kept = server.system().cached_bytes();
            let begun = server.now();
            let stream_bytes = self.stream_bytes.get();
            let mut offsets = (0..file_bytes).step_by(stream_bytes as usize);
            server.load(1, &mut || {
                offsets.next().map(|offset| (offset, stream_bytes.min(file_bytes - offset)))
            });
            let stream_mb_s = file_bytes as f64 * 1e3 / (server.now() - begun).max(1) as f64;
            let after = server.system().cached_bytes();
            let (diluted_per_s, _) = at_random(&mut server);
            server.system().validate().map_err(ExperimentError::Unfit)?;
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

/// What memory alone takes: 10 microseconds for a read, and 1 GB a second.
fn processor() -> Processor {
    let positive = |number: f64| Positive::try_from(number).expect("it is above zero");
    Processor::new(&ProcessorParameters {
        cores: NonZeroU32::MIN,
        operation_us: positive(10.0),
        copy_mb_s: positive(1000.0),
    })
}
