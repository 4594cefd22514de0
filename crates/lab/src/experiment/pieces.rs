use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use rand_distr::{Distribution, LogNormal};
use serde::Deserialize;
use storage::Random;

use super::{ExperimentError, Finding, Outcome, Trial, Work};
use crate::machine::{Machine, MachineParameters};
use crate::model::Positive;
use crate::workload::Source;

/// Most files, and most pieces of all.
const FILES_MAX: u64 = 1 << 20;
const PIECES_MAX: u64 = 1 << 28;

/// A program reads files in small pieces, with contents in the cache and without.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pieces {
    machine: String,
    compression_ratio: Positive,
    decompression_mb_s: Positive,
    files: NonZeroU32,
    /// Of all files together.
    bytes: NonZeroU64,
    /// The spread of the files' sizes, as the deviation of their logarithm; they are all alike
    /// without.
    spread: Option<Positive>,
    /// The program reads so much at a time.
    piece_bytes: NonZeroU64,
    /// The program works so long on the contents, MB (10^6 bytes) a second.
    work_mb_s: Option<Positive>,
    /// Bytes are divided by it, either by fewer files or by smaller ones; figures are multiplied.
    divisor: NonZeroU64,
    /// What the source says: seconds and MB read from the disks.
    all: Figures,
    metadata: Figures,
    source_traffic_ratio: Option<Positive>,
    source_time_ratio: Option<Positive>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    seconds: Option<Positive>,
    #[serde(default)]
    seconds_fitted: bool,
    read_gb: Option<Positive>,
}

impl Pieces {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        let machine = MachineParameters {
            compression_ratio: Some(self.compression_ratio),
            ..trial.whole_machine(&self.machine)?
        };
        machine.check_data(self.bytes.get().into())?;
        let bytes = self.bytes.get() as f64 / trial.divisor(self.divisor).get() as f64;
        let (pieces, files) = (bytes / self.piece_bytes.get() as f64, f64::from(self.files.get()));
        let work = Work::new("bytes, or larger piece_bytes: set a larger divisor");
        Ok(work.and(2.0 * pieces, self.piece_bytes.get()).and(2.0 * files, 1))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut findings = Vec::new();
        let mut totals = Vec::new();
        for (primarycache, source) in [("all", &self.all), ("metadata", &self.metadata)] {
            let (seconds, gigabytes) = self.read(primarycache, trial)?;
            let get = |figure: Option<Positive>| figure.map(Positive::get);
            let what = |what: &str| format!("primarycache={primarycache}: {what}");
            if let Some(figure) = source.seconds {
                let finding = Finding::new(what("time"), "s", Some(figure.get()), seconds);
                findings.push(if source.seconds_fitted { finding.fitted() } else { finding });
            }
            let read =
                Finding::new(what("read from the disks"), "GB", get(source.read_gb), gigabytes);
            findings.push(read);
            totals.push((seconds, gigabytes));
        }
        let [(all_s, all_gb), (metadata_s, metadata_gb)] = totals[..] else {
            unreachable!("it was done twice")
        };
        let get = |figure: Option<Positive>| figure.map(Positive::get);
        findings.extend([
            Finding::new(
                "metadata over all: read from the disks",
                "ratio",
                get(self.source_traffic_ratio),
                metadata_gb / all_gb,
            ),
            Finding::new(
                "metadata over all: time",
                "ratio",
                get(self.source_time_ratio),
                metadata_s / all_s,
            ),
        ]);
        Ok(Outcome::from(findings))
    }

    /// The sizes of the files that are read.
    fn sizes(&self, trial: Trial) -> Result<Vec<u64>, ExperimentError> {
        let divisor = trial.divisor(self.divisor).get();
        let files = match self.spread {
            Some(_) => u64::from(self.files.get()) / divisor,
            None => self.files.get().into(),
        };
        let pieces = self.bytes.get() / divisor / self.piece_bytes;
        if files > FILES_MAX || pieces > PIECES_MAX {
            return Err(ExperimentError::Unfit(format!(
                "there are {files} files and {pieces} pieces of them, and at most {FILES_MAX} and \
                 {PIECES_MAX} are followed; set a larger divisor"
            )));
        }
        let Some(spread) = self.spread else {
            let each = self.bytes.get() / u64::from(self.files.get()) / divisor;
            return Ok(vec![each; self.files.get() as usize]);
        };
        let files = (u64::from(self.files.get()) / divisor).max(1);
        let sizes = LogNormal::new(0.0, spread.get())
            .map_err(|error| ExperimentError::Unfit(format!("spread: {error}")))?;
        let mut random = Random::new(trial.seed);
        let drawn: Vec<f64> = (0..files).map(|_| sizes.sample(&mut Source(&mut random))).collect();
        let factor = self.bytes.get() as f64 / divisor as f64 / drawn.iter().sum::<f64>();
        Ok(drawn.into_iter().map(|size| ((size * factor) as u64).max(512)).collect())
    }

    /// Seconds that it takes, and gigabytes read from the disks.
    fn read(&self, primarycache: &str, trial: Trial) -> Result<(f64, f64), ExperimentError> {
        let mut parameters = trial.whole_machine(&self.machine)?;
        parameters.compression_ratio = Some(self.compression_ratio);
        parameters.decompression_mb_s = Some(self.decompression_mb_s);
        let machine = Machine::new(&parameters.with("primarycache", primarycache), trial.seed)?;
        let sizes = self.sizes(trial)?;
        let root = machine.pool().root();
        for (number, &size) in sizes.iter().enumerate() {
            machine.make_file(root, &format!("{number}"), size);
            // Files of a tree do not follow each other on the disk for long.
            machine.leave_gap(Random::new(number as u64).below(64 << 20));
        }
        let (begun, before) = (machine.now(), machine.devices());
        machine.run(self.scan(&machine, &sizes));
        let scale = trial.divisor(self.divisor).get() as f64;
        let seconds = (machine.now() - begun).as_secs_f64() * scale;
        let read = machine.devices().since(&before).disks.read_bytes;
        Ok((seconds, read as f64 * scale / 1e9))
    }

    async fn scan(&self, machine: &Arc<Machine>, sizes: &[u64]) {
        let piece = self.piece_bytes.get();
        for (number, &size) in sizes.iter().enumerate() {
            let file = machine.open(machine.pool().root(), &format!("{number}")).await;
            for offset in (0..size).step_by(piece as usize) {
                machine.read(&file, offset, piece.min(size - offset)).await;
            }
            if let Some(rate) = self.work_mb_s {
                machine.sleep(Duration::from_nanos(rate.transfer(size))).await;
            }
        }
    }
}
