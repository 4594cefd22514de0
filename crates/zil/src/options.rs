use std::time::Duration;

/// How a log works.
///
/// ```
/// use std::time::Duration;
/// use zil::Options;
///
/// // Whoever appends to a full log is told so at once.
/// let options = Options { full_wait: Duration::ZERO, ..Options::default() };
/// assert_eq!(options.lanes, 4);
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// RAM for what is not on the device yet, bytes; one block may go beyond.
    pub buffer_bytes_max: usize,
    /// Most blocks that are under way to the device at a time.
    pub lanes: usize,
    /// How long an append waits while the log is full.
    pub full_wait: Duration,
    /// How a block is made to last; otherwise by what is quicker on the device.
    pub sync: Option<Sync>,
    /// Longest block of a log that is formatted, bytes.
    pub block_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            buffer_bytes_max: 32 << 20,
            lanes: 4,
            full_wait: Duration::from_secs(30),
            sync: None,
            block_bytes_max: 2 << 20,
        }
    }
}

/// How a block is made to last.
///
/// ```
/// use zil::{Options, Sync};
///
/// let options = Options { sync: Some(Sync::Flush), ..Options::default() };
/// assert_ne!(options.sync, Options::default().sync, "by what is quicker");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// A write, then a flush.
    Flush,
    /// A write that lasts when it ends.
    Through,
}

/// How a device is used as a log.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// # block_on(async {
/// # let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
/// # let clock = Arc::new(RealClock::new());
/// # drop(Log::format(device.clone(), opening(), Options::default(), clock.clone()).await?);
/// let opening = Opening { pool: [9; 16], log: [2; 16], seed: [4; 16], force: false };
/// let error = Log::open(device, opening, Options::default(), clock).await.err();
/// assert_eq!(error, Some(OpenError::OtherPool), "it is the log of pool 1");
/// # Ok::<(), OpenError>(()) })?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// The pool's id.
    pub pool: [u8; 16],
    /// The id that the log gets if it is formatted; chosen at random.
    pub log: [u8; 16],
    /// Tells what is written from now on from what was written before; chosen at random each time.
    pub seed: [u8; 16],
    /// Formats the device whatever lies on it.
    pub force: bool,
}
