use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use storage::{AlignedBuffer, Clock, Device, DeviceError};

use crate::blank::{blank, fill, has_end};
use crate::chain::{Chain, Departure, Goal, Standing, Task, Wait};
use crate::error::{AppendError, Failed, OpenError};
use crate::flights::{Leg, Write};
use crate::labels::{self, write_superblock};
use crate::layout::{Layout, PAGE_BYTES, RING_OFFSET};
use crate::options::{Opening, Options, Sync};
use crate::position::Position;
use crate::record::Record;
use crate::recovery::Recovery;
use crate::statistics::{Counters, Statistics};
use crate::superblock::{Start, Superblock, salt};

/// How often an append looks whether a full log has room again.
const TICK: Duration = Duration::from_millis(2);
/// How often each way to make a block last is tried, to find the quicker one.
const PROBES: usize = 16;
/// Of the time that one call takes which makes a block last, a write and a flush have to take this
/// part at most to be made instead: what else goes on while it is measured must not decide.
const FLUSH_SHARE: f64 = 0.7;

/// An intent log: what it says is durable is found again after a crash.
///
/// [`append`](Log::append) is cheap and puts records in order; [`commit`](Log::commit) makes them
/// last. Callers who commit while blocks are under way are written together in the next one.
/// Nothing runs in the background: one of those who wait for a block drives it, and if he gives up,
/// another one does.
///
/// Once a device has failed, records from the [first one concerned](Failed::from) on are refused
/// until the log is [reset](Log::reset); those before it stay.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
/// let position = log.append(&record()).await?;
/// log.commit(position).await?;
/// // It is found again whatever happens from here on.
/// assert_eq!(open(&device).await?.found().records(), 1);
/// # Ok(()) }) }
/// ```
pub struct Log {
    id: [u8; 16],
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: Options,
    sync: Sync,
    layout: Layout,
    state: Mutex<State>,
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Log").field("device", self.device.info()).finish_non_exhaustive()
    }
}

struct State {
    chain: Chain,
    counters: Counters,
    /// Since when a superblock is being written.
    renewing_since: Option<Duration>,
}

impl Log {
    /// Makes a log of a blank device.
    ///
    /// # Errors
    /// When the device does not work, is too small, or is not blank and its use not forced.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use storage::{MemoryDevice, RealClock};
    /// use zil::{Log, Opening, Options, Position};
    ///
    /// # storage::block_on(async {
    /// let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
    /// let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: false };
    /// let clock = Arc::new(RealClock::new());
    /// let log = Log::format(device, opening, Options::default(), clock).await?;
    /// assert_eq!(log.last(), Position::NONE);
    /// # Ok::<(), zil::OpenError>(()) })?;
    /// # Ok::<(), zil::OpenError>(())
    /// ```
    pub async fn format(
        device: Arc<dyn Device>,
        opening: Opening,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Log, OpenError> {
        Log::format_telling(device, opening, options, clock, &|_, _| ()).await
    }

    /// Makes a log of a blank device, and tells while that lasts how many bytes of how many have
    /// been filled: so a file system has nothing to enter into its own journal when the log is
    /// written for the first time.
    ///
    /// # Errors
    /// As [`format`](Log::format).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// # block_on(async {
    /// # let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
    /// # let clock = Arc::new(RealClock::new());
    /// let tell = |filled: u64, bytes: u64| println!("{} %", filled * 100 / bytes.max(1));
    /// let log = Log::format_telling(device, opening(), Options::default(), clock, &tell).await?;
    /// assert!(log.ring_bytes() <= 32 << 20);
    /// # Ok::<(), OpenError>(()) })?;
    /// # Ok(()) }
    /// ```
    pub async fn format_telling(
        device: Arc<dyn Device>,
        opening: Opening,
        options: Options,
        clock: Arc<dyn Clock>,
        tell: &(dyn Fn(u64, u64) + Send + core::marker::Sync),
    ) -> Result<Log, OpenError> {
        let layout = Layout::new(device.info(), options.block_bytes_max)?;
        if !opening.force {
            let bytes = device.read(0, AlignedBuffer::zeroed(RING_OFFSET as usize)).await?;
            labels::is_free(&bytes)?;
            if let Some(found) = labels::foreign(&*device).await? {
                return Err(OpenError::Foreign { found });
            }
        }
        // What was a log before is none from here on, whatever happens.
        let nothing = Arc::new(AlignedBuffer::zeroed(RING_OFFSET as usize));
        device.write_through(0, nothing).await?;
        fill(&*device, &layout, tell).await?;
        let first = Position(1);
        let superblock = Superblock {
            log: opening.log,
            pool: opening.pool,
            salt: salt(&opening.seed, 1),
            epoch: 1,
            layout,
            start: Start { address: 0, block: 1, first, previous: 0 },
            released: Position::NONE,
            durable: Position::NONE,
        };
        write_superblock(device.clone(), superblock).await?;
        Ok(Log::start(device, superblock, 1, opening.seed, options, clock).await?)
    }

    /// Opens the log on a device, and finds what it holds. Nothing is changed by that.
    ///
    /// # Errors
    /// When the device does not work, or does not hold a whole log of this pool.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// log.commit(log.append(&record()).await?).await?;
    /// drop(log);
    /// let clock = Arc::new(RealClock::new());
    /// let mut recovery = Log::open(device, opening(), Options::default(), clock).await?;
    /// assert_eq!(recovery.next().await?, Some((Position(1), record())));
    /// # Ok(()) }) }
    /// ```
    pub async fn open(
        device: Arc<dyn Device>,
        opening: Opening,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Recovery, OpenError> {
        Recovery::open(device, opening, options, clock).await
    }

    /// A log without records, as a superblock says that lasts.
    pub(crate) async fn start(
        device: Arc<dyn Device>,
        superblock: Superblock,
        epoch: u64,
        seed: [u8; 16],
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Log, DeviceError> {
        let sync = match options.sync {
            Some(sync) => sync,
            None => {
                probe(&device, superblock.layout.offset(superblock.start.address), &*clock).await?
            }
        };
        let name = &device.info().name;
        tracing::info!(device = name, ?sync, ring_bytes = superblock.layout.ring_bytes, "log");
        let (chain, counters) = (Chain::new(superblock, epoch, seed), Counters::new());
        let state = State { chain, counters, renewing_since: None };
        let (layout, id) = (superblock.layout, superblock.log);
        Ok(Log { id, device, clock, options, sync, layout, state: Mutex::new(state) })
    }

    /// The log's id.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// assert_eq!(log.id(), [2; 16]);
    /// # Ok(()) }) }
    /// ```
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The epoch of the superblock that lasts: a greater one each time that it is written.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let before = log.epoch();
    /// let position = log.append(&record()).await?;
    /// log.commit(position).await?;
    /// log.release(position).await?;
    /// assert!(log.epoch() > before);
    /// # Ok(()) }) }
    /// ```
    pub fn epoch(&self) -> u64 {
        self.state.lock().chain.epoch()
    }

    /// Whether the end of the device is still as it was made: neither cut off nor overwritten.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// assert!(log.has_end().await?);
    /// # Ok(()) }) }
    /// ```
    pub async fn has_end(&self) -> Result<bool, DeviceError> {
        has_end(&*self.device, &self.layout).await
    }

    /// How blocks are made to last.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// match log.sync() {
    ///     zil::Sync::Flush => println!("a write, then a flush"),
    ///     zil::Sync::Through => println!("a write that lasts when it ends"),
    /// }
    /// # Ok(()) }) }
    /// ```
    pub fn sync(&self) -> Sync {
        self.sync
    }

    /// Takes a record, and says which place it has in the order of all. It does not last yet.
    ///
    /// # Errors
    /// When the log has failed, or has no room on the device or in RAM at this moment.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let first = log.try_append(&record())?;
    /// let second = log.try_append(&record())?;
    /// assert!(first < second && log.durable() < first, "neither lasts yet");
    /// # Ok(()) }) }
    /// ```
    pub fn try_append(&self, record: &Record<'_>) -> Result<Position, AppendError> {
        self.try_append_beside(record, 0)
    }

    /// The same if so much of the ring is free.
    ///
    /// # Errors
    /// As [`try_append`](Log::try_append).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// use zil::AppendError;
    ///
    /// let all = log.ring_bytes();
    /// assert!(matches!(log.try_append_beside(&record(), all + 1), Err(AppendError::Full { .. })));
    /// assert!(log.try_append_beside(&record(), all / 2).is_ok());
    /// # Ok(()) }) }
    /// ```
    pub fn try_append_beside(
        &self,
        record: &Record<'_>,
        free_bytes_min: u64,
    ) -> Result<Position, AppendError> {
        let State { chain, counters, .. } = &mut *self.state.lock();
        let is_full = chain.free_bytes() < free_bytes_min && chain.failed().is_none();
        let appended = match is_full {
            true => Err(AppendError::Full { oldest: chain.oldest(), waited: Duration::ZERO }),
            false => chain.append(record, self.options.buffer_bytes_max),
        };
        match &appended {
            Ok(_) => {
                counters.records += 1;
                counters.data_bytes += record.data_bytes();
            }
            Err(AppendError::Full { .. }) => counters.full += 1,
            Err(AppendError::Busy) => counters.busy += 1,
            Err(AppendError::Failed(_)) => counters.failures += 1,
            Err(_) => {}
        }
        appended
    }

    /// Takes a record, as [`try_append`](Log::try_append); waits while there is no room. Whoever
    /// has to be first must have been told his position before the other one calls.
    ///
    /// # Errors
    /// When the log has failed or fails, or stays full for [as long as is
    /// waited](Options::full_wait): then a txg has to be committed and
    /// [released](Log::release) up to the record named, or farther.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let position = log.append(&record()).await?;
    /// assert_eq!((position, log.last()), (Position(1), Position(1)));
    /// # Ok(()) }) }
    /// ```
    pub async fn append(&self, record: &Record<'_>) -> Result<Position, AppendError> {
        let started = self.clock.now();
        loop {
            match self.try_append(record) {
                Err(AppendError::Busy) => {
                    let oldest = Position(self.durable().0 + 1);
                    self.last_to(oldest).await?;
                }
                Err(AppendError::Full { oldest, .. }) => {
                    let waited = self.clock.now().saturating_sub(started);
                    if waited >= self.options.full_wait {
                        return Err(AppendError::Full { oldest, waited });
                    }
                    self.clock.sleep(TICK).await;
                }
                appended => return appended,
            }
        }
    }

    /// Returns once everything up to a record lasts.
    ///
    /// # Errors
    /// When the device failed before that.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let position = log.append(&record()).await?;
    /// log.commit(position).await?;
    /// assert!(log.durable() >= position);
    /// # Ok(()) }) }
    /// ```
    pub async fn commit(&self, up_to: Position) -> Result<(), Failed> {
        let started = self.clock.now();
        let waited = self.last_to(up_to).await;
        let counters = &mut self.state.lock().counters;
        match waited {
            Ok(has_waited) => {
                counters.commits_idle += u64::from(!has_waited);
                counters.committed(self.clock.now().saturating_sub(started));
                Ok(())
            }
            Err(failed) => {
                counters.failures += 1;
                Err(failed)
            }
        }
    }

    /// Waits until everything up to a record lasts; says whether there was anything to wait for.
    fn last_to(&self, up_to: Position) -> Waiting<'_> {
        let goal = Goal::Lasts(up_to.min(self.last()));
        Waiting { log: self, goal, id: None, has_waited: false }
    }

    /// Begins to write a block.
    fn begin(&self, departure: Departure, counters: &mut Counters) -> Write {
        let Departure { address, buffer, records } = departure;
        counters.departed(records, buffer.len());
        let (device, sync) = (self.device.clone(), self.sync);
        counters.flushes += u64::from(sync == Sync::Flush);
        let offset = self.layout.offset(address);
        let write = async move {
            match sync {
                Sync::Through => device.write_through(offset, buffer).await,
                Sync::Flush => {
                    device.write(offset, buffer).await?;
                    device.flush().await
                }
            }
        };
        write.boxed()
    }

    /// Notes how writes stand that were polled.
    fn note(&self, state: &mut State, polled: &mut Vec<Polled>, wake: &mut Vec<Waker>) {
        for Polled { block, write, outcome } in polled.drain(..) {
            let Poll::Ready(outcome) = outcome else {
                state.chain.goes_on(block, write);
                continue;
            };
            let error = outcome.clone().err();
            if let (true, Some(error)) = (state.chain.arrived(block, outcome, wake), error) {
                let device = &self.device.info().name;
                tracing::error!(device, %error, "the log failed; reset it");
            }
        }
    }

    /// Says that records up to this one are not needed any more, since all that they tell lasts at
    /// the origin. Returns once they will not be replayed, whatever happens; what is not on the
    /// device yet is written first.
    ///
    /// Until then nobody must be told that changes last which are younger and not in the log: a
    /// replay would put the older ones of the log over them.
    ///
    /// # Errors
    /// When the device fails. What was released before stays so; it may be tried again.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let position = log.append(&record()).await?;
    /// log.commit(position).await?;
    /// // The origin keeps the change by now.
    /// log.release(position).await?;
    /// assert_eq!(open(&device).await?.found().records(), 0);
    /// # Ok(()) }) }
    /// ```
    pub async fn release(&self, up_to: Position) -> Result<(), Failed> {
        let up_to = up_to.min(self.last());
        self.last_to(up_to).await?;
        self.renew(|chain, begin| chain.release(up_to, begin)).await
    }

    /// Fails the log if a block has been under way for longer than `max`, and tells that once.
    ///
    /// A block may be written by the thread of one who waits for it, which a device that hangs
    /// holds: he is not let go, but all others are.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// use std::time::Duration;
    ///
    /// assert_eq!(log.give_up_overdue(Duration::from_secs(10)), None, "nothing is under way");
    /// # Ok(()) }) }
    /// ```
    pub fn give_up_overdue(&self, max: Duration) -> Option<Failed> {
        let mut wake = Vec::new();
        let now = self.clock.now();
        let failed = self.state.lock().chain.give_up_overdue(now, max, &mut wake);
        wake.into_iter().for_each(Waker::wake);
        failed
    }

    /// Makes a log that has failed usable again, empty. Everything that was ever appended must
    /// last at the origin.
    ///
    /// # Errors
    /// When the device still fails.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// // A log that has not failed is left as it is.
    /// let position = log.append(&record()).await?;
    /// log.reset().await?;
    /// assert_eq!(log.last(), position);
    /// # Ok(()) }) }
    /// ```
    pub async fn reset(&self) -> Result<(), Failed> {
        if self.state.lock().chain.failed().is_none() {
            return Ok(());
        }
        Waiting { log: self, goal: Goal::Idle, id: None, has_waited: false }.await?;
        self.renew(|chain, begin| chain.restart(begin)).await
    }

    /// Writes superblocks until `step` needs none any more.
    async fn renew(
        &self,
        step: impl Fn(&mut Chain, &mut dyn FnMut(Superblock) -> Task) -> Option<(u64, Task)>,
    ) -> Result<(), Failed> {
        loop {
            let renewal = {
                let State { chain, counters, renewing_since } = &mut *self.state.lock();
                let mut begin = |superblock| {
                    counters.superblocks += 1;
                    counters.flushes += 1;
                    *renewing_since = Some(self.clock.now());
                    write_superblock(self.device.clone(), superblock).boxed().shared()
                };
                step(chain, &mut begin)
            };
            let Some((epoch, task)) = renewal else { return Ok(()) };
            let outcome = task.await;
            let mut state = self.state.lock();
            state.renewing_since = None;
            state.chain.renewed(epoch, &outcome);
            if let Err(error) = outcome {
                state.counters.failures += 1;
                let device = &self.device.info().name;
                tracing::error!(device, %error, "the log's superblock could not be written");
                return Err(Failed { from: state.chain.oldest(), error });
            }
        }
    }

    /// Bytes of the ring that takes records.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// assert!(log.ring_bytes() > 16 << 20 && log.ring_bytes() < 32 << 20);
    /// # Ok(()) }) }
    /// ```
    pub fn ring_bytes(&self) -> u64 {
        self.layout.ring_bytes
    }

    /// Bytes of the ring that hold nothing which may be needed.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// assert!(log.free_bytes() <= log.ring_bytes());
    /// let before = log.free_bytes();
    /// log.commit(log.append(&record()).await?).await?;
    /// assert!(log.free_bytes() < before);
    /// # Ok(()) }) }
    /// ```
    pub fn free_bytes(&self) -> u64 {
        self.state.lock().chain.free_bytes()
    }

    /// The last record that was appended.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// assert_eq!(log.last(), Position::NONE);
    /// let position = log.append(&record()).await?;
    /// assert_eq!(log.last(), position);
    /// # Ok(()) }) }
    /// ```
    pub fn last(&self) -> Position {
        self.state.lock().chain.last()
    }

    /// Everything up to this record lasts.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let position = log.append(&record()).await?;
    /// assert!(log.durable() < position);
    /// log.commit(position).await?;
    /// assert_eq!(log.durable(), position);
    /// # Ok(()) }) }
    /// ```
    pub fn durable(&self) -> Position {
        self.state.lock().chain.durable()
    }

    /// Whether a crash may leave this record without the last one, because they are in blocks of
    /// their own.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// let first = log.append(&record()).await?;
    /// log.commit(first).await?;
    /// log.append(&record()).await?;
    /// assert!(log.may_last_alone(first), "it was written before the other one came");
    /// # Ok(()) }) }
    /// ```
    pub fn may_last_alone(&self, position: Position) -> bool {
        self.state.lock().chain.may_last_alone(position)
    }

    /// The oldest record that has not been released: to make room, release it and those after it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// log.append(&record()).await?;
    /// let second = log.append(&record()).await?;
    /// log.commit(second).await?;
    /// assert_eq!(log.oldest(), Position(1));
    /// log.release(second).await?;
    /// assert!(log.oldest() > second);
    /// # Ok(()) }) }
    /// ```
    pub fn oldest(&self) -> Position {
        self.state.lock().chain.oldest()
    }

    /// What was done since the start, and how things are.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// log.commit(log.append(&record()).await?).await?;
    /// let statistics = log.statistics();
    /// assert_eq!((statistics.commits, statistics.records, statistics.data_bytes), (1, 1, 4));
    /// # Ok(()) }) }
    /// ```
    pub fn statistics(&self) -> Statistics {
        let now = self.clock.now();
        let State { chain, counters, renewing_since } = &*self.state.lock();
        let renewing = renewing_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        Statistics {
            ring_bytes: chain.layout().ring_bytes,
            free_bytes: chain.free_bytes(),
            buffered_bytes: chain.buffered_bytes() as u64,
            under_way: chain.flights() as u64,
            silence: chain.silence(now).max(renewing),
            oldest: chain.oldest(),
            durable: chain.durable(),
            last: chain.last(),
            failed: chain.failed().cloned(),
            ..counters.snapshot()
        }
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When sums do not agree.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_log(async |log, device| {
    /// log.commit(log.append(&record()).await?).await?;
    /// log.validate();
    /// # Ok(()) }) }
    /// ```
    pub fn validate(&self) {
        self.state.lock().chain.validate();
    }
}

/// A write that was polled.
struct Polled {
    block: u64,
    write: Write,
    outcome: Poll<Result<(), DeviceError>>,
}

/// The wait for a [`Goal`]; says whether there was anything to wait for.
struct Waiting<'a> {
    log: &'a Log,
    goal: Goal,
    id: Option<u64>,
    has_waited: bool,
}

impl Future for Waiting<'_> {
    type Output = Result<bool, Failed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Waiting { log, goal, id, has_waited } = &mut *self;
        let mut wake = Vec::new();
        let mut polled = Vec::new();
        let mut at_first = true;
        let standing = loop {
            let (standing, legs) = {
                let state = &mut *log.state.lock();
                log.note(state, &mut polled, &mut wake);
                let (waker, goal, now) = (context.waker(), *goal, log.clock.now());
                let mut wait = Wait { goal, id: *id, waker, at_first, now, wake: &mut wake };
                let State { chain, counters, .. } = state;
                let pursued = chain.pursue(&mut wait, log.options.lanes, |departure| {
                    log.begin(departure, counters)
                });
                *id = wait.id;
                pursued
            };
            at_first = false;
            *has_waited |= matches!(standing, Standing::Pending);
            if legs.is_empty() {
                break standing;
            }
            // A write may keep this thread.
            wake.drain(..).for_each(Waker::wake);
            for Leg { block, mut write } in legs {
                let outcome = write.as_mut().poll(context);
                polled.push(Polled { block, write, outcome });
            }
        };
        wake.into_iter().for_each(Waker::wake);
        match standing {
            Standing::Reached => Poll::Ready(Ok(*has_waited)),
            Standing::Lost(failed) => Poll::Ready(Err(failed)),
            Standing::Pending => Poll::Pending,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut wake = Vec::new();
            self.log.state.lock().chain.leave(id, &mut wake);
            wake.into_iter().for_each(Waker::wake);
        }
    }
}

/// Finds out which way to make a block last is quicker, where nothing stands yet.
async fn probe(
    device: &Arc<dyn Device>,
    offset: u64,
    clock: &dyn Clock,
) -> Result<Sync, DeviceError> {
    let page = blank(2 * PAGE_BYTES);
    let (mut flush, mut through) = (Vec::new(), Vec::new());
    for _ in 0..PROBES {
        let started = clock.now();
        device.write(offset, page.clone()).await?;
        device.flush().await?;
        let between = clock.now();
        device.write_through(offset, page.clone()).await?;
        flush.push(between.saturating_sub(started));
        through.push(clock.now().saturating_sub(between));
    }
    // What others do to the machine only makes them longer.
    flush.sort_unstable();
    through.sort_unstable();
    let [flush, through] = [flush, through].map(|times| times[PROBES / 8]);
    let sync = match flush < through.mul_f64(FLUSH_SHARE) {
        true => Sync::Flush,
        false => Sync::Through,
    };
    tracing::debug!(device = device.info().name, ?flush, ?through, ?sync, "how blocks last");
    Ok(sync)
}
