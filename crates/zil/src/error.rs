use std::time::Duration;

use storage::DeviceError;

use crate::position::Position;

/// A size as people write it, if that is exact.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let fits = |unit: &&(u64, &str)| bytes >= unit.0 && bytes.is_multiple_of(unit.0);
    units
        .iter()
        .find(fits)
        .map_or(format!("{bytes} bytes"), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Why bytes are no record, or a record is none that can be logged.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// use zil::{DATA_BYTES_MAX, RecordError};
///
/// let data = vec![0; DATA_BYTES_MAX + 1];
/// let record = Record::Write { file: file(), offset: 0, data: &data };
/// assert!(matches!(record.encoded_bytes(), Err(RecordError::TooLong { what: "data", .. })));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A field is longer than it may be.
    #[error("a record's {what} has {bytes} bytes, {limit} at most; log it in several records")]
    TooLong {
        /// The field.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// A later version of this program has written it.
    #[error("the log has a record of kind {kind}, which this version does not know; update first")]
    Unknown {
        /// The number of the kind.
        kind: u16,
    },
    /// It is not as any version writes it.
    #[error("a record's {what} makes no sense; the program that wrote it has a bug")]
    Malformed {
        /// The field.
        what: &'static str,
    },
}

/// Why there is no log on a device, or none that may be used.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let error = block_on(open(&MemoryDevice::new(32 << 20, 4096))).err();
/// assert_eq!(error, Some(OpenError::NoLog), "it is blank");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The device did not do what it was asked.
    #[error("the log device does not work: {0}")]
    Device(#[from] DeviceError),
    /// It is too small for a log.
    #[error(
        "a log device of {} is too small: it needs {}", size(*size_bytes), size(*needed_bytes)
    )]
    TooSmall {
        /// Its size.
        size_bytes: u64,
        /// The least it has to be.
        needed_bytes: u64,
    },
    /// It is too small for any log.
    #[error("a log device of {} is too small for any log", size(*size_bytes))]
    NoRoom {
        /// Its size.
        size_bytes: u64,
    },
    /// A block of the device is larger than those of the log.
    #[error("the log was made for blocks of {known} bytes, the device has blocks of {found}")]
    Blocks {
        /// Length of the device's blocks.
        found: usize,
        /// Length of the log's pages.
        known: usize,
    },
    /// There is no log on it.
    #[error(
        "the device holds no log: it never held one, or was removed from its pool, or was \
         overwritten"
    )]
    NoLog,
    /// Neither copy of what the log says of itself is whole.
    #[error("the log's superblocks are damaged; what was logged can not be found")]
    Damaged,
    /// It holds what another program put there.
    #[error("the device holds {found}; force its use to overwrite that")]
    Foreign {
        /// What was found, with its article.
        found: &'static str,
    },
    /// It is a log already.
    #[error("the device is a pool's log already; open it, or force its use to overwrite that")]
    AlreadyLog,
    /// It is the log of another pool.
    #[error("the device is the log of another pool; remove it there, or force its use")]
    OtherPool,
    /// Another version of this program has written it.
    #[error("the log's format has version {found}, this program reads {known}; use that version")]
    Version {
        /// The version found.
        found: u32,
        /// The version read here.
        known: u32,
    },
}

/// The log no longer takes anything: its device failed. What had lasted before still does.
///
/// See to it that all changes last at the origin, then [`reset`](crate::Log::reset) the log.
///
/// ```
/// use storage::DeviceError;
/// use zil::{Failed, Position};
///
/// let error = DeviceError::TimedOut { operation: "write", seconds: 10 };
/// let failed = Failed { from: Position(8), error };
/// assert!(failed.to_string().contains("changes from record 8 on are not in it"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log failed: {error}; changes from record {from} on are not in it, \
     and it takes no more until it is reset"
)]
pub struct Failed {
    /// The first record that is not in the log.
    pub from: Position,
    /// What the device said.
    pub error: DeviceError,
}

/// Why a record was not taken.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
/// use zil::{AppendError, DATA_BYTES_MAX};
///
/// let data = vec![0; DATA_BYTES_MAX + 1];
/// let error = log.append(&Record::Write { file: file(), offset: 0, data: &data }).await;
/// assert!(matches!(error, Err(AppendError::Record(_))), "it is longer than a record may be");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The log's device failed.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The record can not be logged as it is.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record is longer than a block of this log.
    #[error("a record of {bytes} bytes does not fit into a block of the log, {limit} bytes")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// There is no room on the device.
    #[error(
        "the log is full, and nothing was released within {waited:?}; \
         commit a txg to release records from {oldest} on"
    )]
    Full {
        /// The oldest record that has not been released.
        oldest: Position,
        /// How long the caller has waited.
        waited: Duration,
    },
    /// There is no room in RAM until something has been written.
    #[error("the log's buffers are full; wait until the device has written them")]
    Busy,
}

/// Why records could not be replayed.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
/// use zil::ReplayError;
///
/// let error = recovery.finish().await.unwrap_err();
/// assert_eq!(error, ReplayError::Unapplied { from: Position(1) });
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The device did not do what it was asked.
    #[error("the log device does not work: {0}")]
    Device(#[from] DeviceError),
    /// A record makes no sense to this version.
    #[error("record {position}: {error}")]
    Record {
        /// Which record.
        position: Position,
        /// Why.
        error: RecordError,
    },
    /// What was whole when the log was opened is not any more.
    #[error("the log changed while it was read: record {position} is damaged now")]
    Changed {
        /// The first record that is missing.
        position: Position,
    },
    /// There are records that were not said to be applied.
    #[error("records from {from} on are not applied; replay or discard them")]
    Unapplied {
        /// The first one.
        from: Position,
    },
    /// The device has become shorter.
    #[error(
        "the log device has {}, and its log was made with {}: make it as long again, or make a new \
         log on it", size(*size_bytes), size(*needed_bytes)
    )]
    Cut {
        /// How long it is, bytes.
        size_bytes: u64,
        /// How long it was, bytes.
        needed_bytes: u64,
    },
    /// The end of the log is damaged.
    #[error(
        "the log is damaged: acknowledged records after {last} are missing, or may be; discard it \
         to go on without them"
    )]
    Damaged {
        /// The last good record.
        last: Position,
    },
}
