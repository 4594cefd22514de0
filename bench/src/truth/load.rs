use std::time::Duration;

use lab::model::Positive;
use lab::workload::{PatternParameters, Workload, WorkloadParameters};

/// Before it is measured.
pub(super) const SETTLE: Duration = Duration::from_secs(12);
pub(super) const RECORD_BYTES: u64 = 16 << 10;

/// A load, and the mount that it is for.
pub(super) struct Load {
    pub name: &'static str,
    pub what: &'static str,
    /// The model that slows the origin down.
    pub slow: &'static str,
    /// RAM that everything may take.
    pub ceiling_bytes: u64,
    /// The cache device.
    pub flash_bytes: Option<u64>,
    pub clients: &'static [Clients],
    /// For how long it is measured: until so many reads are counted that chance does not matter.
    pub measured: Duration,
}

/// Threads that do the same.
pub(super) struct Clients {
    /// Their file, which all of them use.
    pub file: &'static str,
    pub file_bytes: u64,
    pub threads: u64,
    pub request_bytes: u64,
    pub pattern: Pattern,
    /// The share of writes, percent.
    pub write_percent: f64,
    /// Between two requests of a thread.
    pub think: Duration,
}

#[derive(Clone, Copy)]
pub(super) enum Pattern {
    Uniform,
    Zipf(f64),
    Sequential,
}

/// What a thread asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub offset: u64,
    pub write: bool,
}

pub(super) const LOADS: [Load; 3] = [
    Load {
        name: "truth-zipf",
        what: "A mount and the lab: reads of 16 KiB by Zipf's law, by 32 threads from 256 MiB \
               behind an origin as slow as s3.",
        slow: "s3",
        ceiling_bytes: 96 << 20,
        flash_bytes: None,
        measured: Duration::from_secs(15),
        clients: &[Clients {
            file: "zipf",
            file_bytes: 256 << 20,
            threads: 32,
            request_bytes: RECORD_BYTES,
            pattern: Pattern::Zipf(0.9),
            write_percent: 0.0,
            think: Duration::ZERO,
        }],
    },
    Load {
        name: "truth-stream",
        what: "A mount and the lab: a stream by 128 KiB through 256 MiB beside 8 threads that \
               read 16 KiB of 4 MiB every 2 ms, behind an origin as slow as nfs.",
        slow: "nfs",
        ceiling_bytes: 96 << 20,
        flash_bytes: None,
        measured: Duration::from_secs(15),
        clients: &[
            Clients {
                file: "hot",
                file_bytes: 4 << 20,
                threads: 8,
                request_bytes: RECORD_BYTES,
                pattern: Pattern::Uniform,
                write_percent: 0.0,
                think: Duration::from_millis(2),
            },
            Clients {
                file: "stream",
                file_bytes: 256 << 20,
                threads: 1,
                request_bytes: 128 << 10,
                pattern: Pattern::Sequential,
                write_percent: 0.0,
                think: Duration::ZERO,
            },
        ],
    },
    Load {
        name: "truth-mix",
        what: "A mount and the lab: as many writes as reads of 16 KiB, by 16 threads every 5 ms \
               at random places of 128 MiB, behind an origin as slow as nfs and with a cache \
               device of 512 MiB.",
        slow: "nfs",
        ceiling_bytes: 96 << 20,
        flash_bytes: Some(512 << 20),
        measured: Duration::from_secs(60),
        clients: &[Clients {
            file: "mix",
            file_bytes: 128 << 20,
            threads: 16,
            request_bytes: RECORD_BYTES,
            pattern: Pattern::Uniform,
            write_percent: 50.0,
            think: Duration::from_millis(5),
        }],
    },
];

/// What holds for a mount as for the lab. Contents of the lab's files are zeros, so nothing is
/// compressed.
pub(super) const SETTINGS: [(&str, &str); 4] = [
    ("recordsize", "16K"),
    ("coherence", "exclusive"),
    ("pagecache", "off"),
    ("compression", "off"),
];

impl Clients {
    /// The requests of a thread, without end.
    pub fn requests(
        &self,
        thread: u64,
    ) -> Result<impl Iterator<Item = Request> + Send + use<>, String> {
        let positive = |number: f64| Positive::try_from(number).map_err(|error| error.to_string());
        let blocks = (self.file_bytes / self.request_bytes).try_into();
        let pattern = match self.pattern {
            Pattern::Uniform => PatternParameters::Uniform {},
            Pattern::Zipf(exponent) => PatternParameters::Zipf { exponent: positive(exponent)? },
            Pattern::Sequential => PatternParameters::Sequential {
                clients: std::num::NonZeroU32::MIN,
                turn_blocks: std::num::NonZeroU32::MIN,
            },
        };
        let parameters = WorkloadParameters {
            blocks: blocks.map_err(|_| "a file has at least one block".to_string())?,
            write_percent: match self.write_percent {
                0.0 => None,
                percent => Some(positive(percent)?),
            },
            pattern,
        };
        let request_bytes = self.request_bytes;
        let workload = Workload::new(&parameters, thread)?;
        Ok(workload.map(move |access| Request {
            offset: access.block * request_bytes,
            write: access.write,
        }))
    }
}
