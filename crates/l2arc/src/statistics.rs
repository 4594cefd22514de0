use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage::DeviceError;

use crate::health::{Bypass, Slower};
use crate::refused::{Miss, Refused};

/// What happened since the start. Numbers are of records unless they are named otherwise.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) hits: AtomicU64,
    pub(crate) hit_bytes: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) admitted_bytes: AtomicU64,
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) killed: AtomicU64,
    pub(crate) objects_killed: AtomicU64,
    pub(crate) second_lives: AtomicU64,
    pub(crate) reserved_lives: AtomicU64,
    pub(crate) evicted_segments: AtomicU64,
    pub(crate) failed_writes: AtomicU64,
    pub(crate) failed_reads: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) damaged_segments: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) trimmed_bytes: AtomicU64,
    misses: [AtomicU64; Miss::ALL.len()],
    refused: [AtomicU64; Refused::ALL.len()],
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn missed(&self, miss: Miss) {
        let index = Miss::ALL.iter().position(|it| *it == miss).expect("all are listed");
        add(&self.misses[index], 1);
    }

    pub(crate) fn refused(&self, refused: Refused) {
        let index = Refused::ALL.iter().position(|it| *it == refused).expect("all are listed");
        add(&self.refused[index], 1);
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            hits: load(&self.hits),
            hit_bytes: load(&self.hit_bytes),
            misses: Miss::ALL.into_iter().zip(self.misses.iter().map(load)).collect(),
            admitted: load(&self.admitted),
            admitted_bytes: load(&self.admitted_bytes),
            stored_bytes: load(&self.stored_bytes),
            refused: Refused::ALL.into_iter().zip(self.refused.iter().map(load)).collect(),
            killed: load(&self.killed),
            objects_killed: load(&self.objects_killed),
            second_lives: load(&self.second_lives),
            reserved_lives: load(&self.reserved_lives),
            evicted_segments: load(&self.evicted_segments),
            failed_writes: load(&self.failed_writes),
            failed_reads: load(&self.failed_reads),
            damaged: load(&self.damaged),
            damaged_segments: load(&self.damaged_segments),
            commits: load(&self.commits),
            written_bytes: load(&self.written_bytes),
            trimmed_bytes: load(&self.trimmed_bytes),
            ..Statistics::default()
        }
    }
}

/// What a flash level has done since the start, and what it is like now.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// let statistics = flash.statistics();
/// println!("{} hits, {} bytes written", statistics.hits, statistics.written_bytes);
/// assert_eq!((statistics.rings.len(), statistics.records), (1, 0));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Reads that were answered from flash.
    pub hits: u64,
    /// Bytes of contents in these.
    pub hit_bytes: u64,
    /// Reads that were not, by reason.
    pub misses: Vec<(Miss, u64)>,
    /// Records taken in.
    pub admitted: u64,
    /// Bytes of contents in these.
    pub admitted_bytes: u64,
    /// What these bytes took after compression and encryption, without headers.
    pub stored_bytes: u64,
    /// Records not taken in, by reason.
    pub refused: Vec<(Refused, u64)>,
    /// Records that were killed on flash.
    pub killed: u64,
    /// Objects that were killed.
    pub objects_killed: u64,
    /// Records written anew because they had been hit.
    pub second_lives: u64,
    /// Records written anew because their dataset had no more than its reserve.
    pub reserved_lives: u64,
    /// Segments emptied.
    pub evicted_segments: u64,
    /// Writes that a device did not do.
    pub failed_writes: u64,
    /// Reads that a device did not do.
    pub failed_reads: u64,
    /// Records that were not as they had been written.
    pub damaged: u64,
    /// Segments given up because many of their records were not.
    pub damaged_segments: u64,
    /// Commits of journals.
    pub commits: u64,
    /// Bytes written to devices: records, directories and journals.
    pub written_bytes: u64,
    /// Bytes that devices were told to be no longer needed.
    pub trimmed_bytes: u64,
    /// Records in the index.
    pub records: u64,
    /// RAM of the index, bytes.
    pub index_bytes: u64,
    /// What of that it takes before there are many records, bytes.
    pub index_fixed_bytes: u64,
    /// The devices.
    pub rings: Vec<RingStatistics>,
    /// Bytes on flash by dataset, with headers, including what has died since.
    pub tenants: Vec<(u16, u64)>,
}

/// What a cache device is like now.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// let ring = &flash.statistics().rings[0];
/// println!("{}: {} of {} segments in use", ring.name, ring.segments.1, ring.segments.0);
/// assert!(ring.data_bytes < ring.size_bytes && !ring.is_filled);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingStatistics {
    /// Its id.
    pub device: [u8; 16],
    /// Its path.
    pub name: String,
    /// How it does.
    pub condition: Condition,
    /// Bytes that it takes of the file or block device, as it was formatted.
    pub size_bytes: u64,
    /// Bytes for records.
    pub data_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments in all, and those that hold something.
    pub segments: (u32, u32),
    /// Bytes that records take with headers, including what has died since.
    pub stored_bytes: u64,
    /// The same by dataset.
    pub tenants: Vec<(u16, u64)>,
    /// Tombstones that are kept.
    pub tombstones: u64,
    /// Bytes written since it was formatted.
    pub written_bytes: u64,
    /// What is left of the wear budget, bytes.
    pub credit_bytes: u64,
    /// How long a read takes.
    pub latency: Duration,
    /// It was full once.
    pub is_filled: bool,
    /// Since a record was last written to it, or since it was added.
    pub idle: Duration,
    /// How many writes it has at a time, as found out since the start.
    pub lanes: usize,
    /// How long each of these is, bytes.
    pub chunk_bytes: usize,
    /// Bytes a second that it took while there was more to write; 0 as long as that is not known.
    pub write_rate_bytes: u64,
    /// Bytes a second that it gave while reads were under way, at best lately; what came from RAM
    /// does not count; 0 as long as that is not known.
    pub read_rate_bytes: u64,
    /// How often it was bypassed.
    pub bypasses: u64,
    /// Why it is bypassed, if it is.
    pub bypass: Option<Bypass>,
    /// How the last call that failed did so.
    pub error: Option<DeviceError>,
    /// Records that were not as they had been written, and segments given up for that or without
    /// their directory, since the start.
    pub damaged: (u64, u64),
    /// Set while reads go to the origin because that answers sooner.
    pub slower: Option<Slower>,
}

/// How a cache device does.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// use l2arc::Condition;
///
/// assert_eq!(flash.statistics().rings[0].condition, Condition::Works);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// What lies on it is being read in; it is read from already.
    Recovering,
    /// It works.
    Works,
    /// It has failed lately and is left alone for a while.
    Bypassed,
    /// It takes no tombstones, so what it holds is void.
    Void,
    /// It is stopped or removed.
    Stopped,
}
