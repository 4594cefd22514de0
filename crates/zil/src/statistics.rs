use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::Failed;
use crate::position::Position;

/// The longest latency that is told from longer ones, microseconds.
const LATENCY_US_MAX: u64 = 100_000_000;
/// Latencies up to this are counted together, microseconds.
const LATENCY_STEPS_FROM_US: u64 = 8;
/// By so much the greatest latencies that are counted together differ from one entry to the next.
const LATENCY_STEP: f64 = 1.25;
/// Most records of a block that are told from more.
const BATCH_MAX: u64 = 1 << 20;

/// What a log has done since it was opened, and how things are with it.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
/// log.commit(log.append(&record()).await?).await?;
/// let statistics = log.statistics();
/// println!("half of the commits took {} us at most", statistics.latency_us.p50);
/// assert_eq!((statistics.blocks, statistics.durable), (1, Position(1)));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Commits that returned, durable.
    pub commits: u64,
    /// Of these, commits whose records lasted already when they were called.
    pub commits_idle: u64,
    /// Commits and appends that failed because the device did.
    pub failures: u64,
    /// Records appended.
    pub records: u64,
    /// Bytes of file contents in them.
    pub data_bytes: u64,
    /// Of the records, those that are in blocks: the others wait for the next commit.
    pub records_written: u64,
    /// Blocks written, each made to last.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// Flushes that the device was asked for; a write that lasts when it ends counts as none.
    pub flushes: u64,
    /// Superblocks written, both copies at once.
    pub superblocks: u64,
    /// Appends that found the log full.
    pub full: u64,
    /// Appends that found the buffers full.
    pub busy: u64,
    /// How long commits took, microseconds.
    pub latency_us: Distribution,
    /// How many commits took up to so many microseconds, and longer than the entry before says.
    pub latencies: Vec<(u64, u64)>,
    /// Records of a block.
    pub batch: Distribution,
    /// How many blocks had this number of records, or more, up to twice as many.
    pub batches: Vec<(u64, u64)>,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Bytes of the ring that hold nothing which may be needed.
    pub free_bytes: u64,
    /// RAM for what is not on the device yet.
    pub buffered_bytes: u64,
    /// Blocks that are under way to the device.
    pub under_way: u64,
    /// How long the first of them has been, or a superblock.
    pub silence: Duration,
    /// The oldest record that has not been released.
    pub oldest: Position,
    /// Everything up to this record lasts.
    pub durable: Position,
    /// The last record that was appended.
    pub last: Position,
    /// Why the log takes no more.
    pub failed: Option<Failed>,
}

/// How values are spread.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
/// for _ in 0..10 {
///     log.commit(log.append(&record()).await?).await?;
/// }
/// let latency_us = log.statistics().latency_us;
/// assert!(latency_us.p50 <= latency_us.p99 && latency_us.p99 <= latency_us.max);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distribution {
    /// Half of all are at most this.
    pub p50: u64,
    /// 90 of 100 are at most this.
    pub p90: u64,
    /// 99 of 100 are at most this.
    pub p99: u64,
    /// 999 of 1000 are at most this.
    pub p999: u64,
    /// The greatest.
    pub max: u64,
}

impl Distribution {
    fn of(histogram: &Histogram<u64>) -> Distribution {
        Distribution {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// What [`Statistics`] are made of.
pub(crate) struct Counters {
    pub(crate) commits: u64,
    pub(crate) commits_idle: u64,
    pub(crate) failures: u64,
    pub(crate) records: u64,
    pub(crate) data_bytes: u64,
    pub(crate) records_written: u64,
    pub(crate) blocks: u64,
    pub(crate) block_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) superblocks: u64,
    pub(crate) full: u64,
    pub(crate) busy: u64,
    latency_us: Histogram<u64>,
    batch: Histogram<u64>,
}

fn histogram(max: u64) -> Histogram<u64> {
    Histogram::new_with_bounds(1, max, 2).expect("the bounds are in order")
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            commits: 0,
            commits_idle: 0,
            failures: 0,
            records: 0,
            data_bytes: 0,
            records_written: 0,
            blocks: 0,
            block_bytes: 0,
            flushes: 0,
            superblocks: 0,
            full: 0,
            busy: 0,
            latency_us: histogram(LATENCY_US_MAX),
            batch: histogram(BATCH_MAX),
        }
    }

    pub(crate) fn committed(&mut self, took: Duration) {
        self.commits += 1;
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.saturating_record(us.max(1));
    }

    pub(crate) fn departed(&mut self, records: u32, bytes: usize) {
        self.records_written += u64::from(records);
        self.blocks += 1;
        self.block_bytes += bytes as u64;
        self.batch.saturating_record(u64::from(records));
    }

    /// With everything that the counters do not know left at nothing.
    pub(crate) fn snapshot(&self) -> Statistics {
        let batches = self.batch.iter_log(1, 2.0).scan(0, |low, step| {
            let from = *low + 1;
            *low = step.value_iterated_to();
            Some((from, step.count_since_last_iteration()))
        });
        let latencies = self
            .latency_us
            .iter_log(LATENCY_STEPS_FROM_US, LATENCY_STEP)
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
        Statistics {
            commits: self.commits,
            commits_idle: self.commits_idle,
            failures: self.failures,
            records: self.records,
            data_bytes: self.data_bytes,
            records_written: self.records_written,
            blocks: self.blocks,
            block_bytes: self.block_bytes,
            flushes: self.flushes,
            superblocks: self.superblocks,
            full: self.full,
            busy: self.busy,
            latency_us: Distribution::of(&self.latency_us),
            latencies: latencies.filter(|(_, count)| *count > 0).collect(),
            batch: Distribution::of(&self.batch),
            batches: batches.filter(|(_, count)| *count > 0).collect(),
            ring_bytes: 0,
            free_bytes: 0,
            buffered_bytes: 0,
            under_way: 0,
            silence: Duration::ZERO,
            oldest: Position::NONE,
            durable: Position::NONE,
            last: Position::NONE,
            failed: None,
        }
    }
}
