use std::sync::Arc;

use storage::{Clock, Device, DeviceError};

use crate::blank::{fill, has_end};
use crate::block::{HEADER_BYTES, veil};
use crate::chain::next_epoch;
use crate::error::{OpenError, ReplayError};
use crate::labels::{read_superblock, write_superblock};
use crate::layout::PAGE_BYTES;
use crate::log::Log;
use crate::marks::Marks;
use crate::options::{Opening, Options};
use crate::position::Position;
use crate::reader::Reader;
use crate::record::Record;
use crate::superblock::{Start, Superblock, salt};

/// How far behind its end a log is searched for blocks that were written later, and for zeros,
/// bytes.
const BEYOND_BYTES_MAX: u64 = 64 << 20;
/// How often the device may fail in that.
const BEYOND_ERRORS_MAX: u64 = 16;

/// What a log holds, told when it is opened.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
/// let found = recovery.found();
/// assert_eq!((found.first, found.last, found.blocks), (Position(1), Position(1), 1));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The first record to replay.
    pub first: Position,
    /// The last good record: all from the first one on to this one are there.
    pub last: Position,
    /// Blocks that hold them.
    pub blocks: u64,
    /// Bytes of file contents in these blocks.
    pub data_bytes: u64,
    /// How it ends.
    pub end: End,
    /// Blocks that were found behind the end. In a log that is whole they were under way when it
    /// was used last, and nobody was told that they last.
    pub beyond_blocks: u64,
    /// Records in these blocks.
    pub beyond_records: u64,
}

impl Found {
    /// How many records there are to replay.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// assert_eq!(recovery.found().records(), 1);
    /// # Ok(()) }) }
    /// ```
    pub fn records(&self) -> u64 {
        (self.last.0 + 1).saturating_sub(self.first.0)
    }
}

/// How a log ends.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
/// use zil::End;
///
/// match &recovery.found().end {
///     End::Whole => println!("all that had lasted is there"),
///     end => println!("something is missing: {end:?}"),
/// }
/// assert_eq!(recovery.found().end, End::Whole);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// All records that are known to have lasted are there.
    Whole,
    /// Later blocks, or the superblock, tell that records had lasted which are not there.
    Damaged {
        /// At least up to this record all had lasted.
        lasted: Position,
    },
    /// A part of the device behind the last good record was cut off, or overwritten with zeros.
    /// Records may have lasted there.
    Erased,
    /// The device has become shorter than it was when the log was made. Records may have lasted
    /// behind its end.
    Cut {
        /// How long it is, bytes.
        size_bytes: u64,
        /// How long it was, bytes.
        needed_bytes: u64,
    },
    /// The device does not give the next block. Whether it was one is not known.
    Unreadable {
        /// What it says instead.
        error: DeviceError,
    },
}

/// A log that was opened: its records can be looked at, applied to the origin, or given up.
///
/// Replay takes [`next`](Recovery::next) until there is nothing more, says what lasts at the origin
/// by [`applied`](Recovery::applied), and goes on with [`finish`](Recovery::finish). If it stops in
/// between, the next one begins behind what was applied.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
/// while let Some((position, record)) = recovery.next().await? {
///     println!("{position}: {record}");
/// }
/// recovery.applied(recovery.found().last).await?;
/// let log = recovery.finish().await?;
/// # Ok(()) }) }
/// ```
pub struct Recovery {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: Options,
    seed: [u8; 16],
    superblock: Superblock,
    /// The epoch last tried.
    epoch: u64,
    found: Found,
    /// What would be the next block behind the last good one.
    end: Start,
    /// A part of the ring was cut off or overwritten.
    is_erased: bool,
    reader: Reader,
    /// The next block to read.
    next: Start,
    marks: Marks,
    /// Records of the block that was read last.
    payload: Vec<u8>,
    /// How much of them was taken.
    taken_bytes: usize,
    /// The next record to take.
    position: Position,
    /// The last record of that block.
    block_last: Position,
}

impl Recovery {
    pub(crate) async fn open(
        device: Arc<dyn Device>,
        opening: Opening,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Recovery, OpenError> {
        // What is read from here on has lasted, so that it is the same when this start crashes.
        device.flush().await?;
        let superblock = read_superblock(&*device).await?;
        let (info, layout) = (device.info(), superblock.layout);
        if superblock.pool != opening.pool && !opening.force {
            return Err(OpenError::OtherPool);
        }
        if info.block_bytes > PAGE_BYTES {
            return Err(OpenError::Blocks { found: info.block_bytes, known: PAGE_BYTES });
        }
        let mut reader = Reader::new(device.clone(), layout, superblock.salt);
        // What cannot be read now can be so again.
        let is_cut = has_end(&*device, &layout).await.is_ok_and(|has_end| !has_end);
        let Scanned { mut found, end, is_erased } = scan(&mut reader, &superblock, is_cut).await;
        let (size_bytes, needed_bytes) = (info.size_bytes, layout.size_bytes);
        if size_bytes < needed_bytes && !matches!(found.end, End::Unreadable { .. }) {
            found.end = End::Cut { size_bytes, needed_bytes };
        }
        let start = superblock.start;
        Ok(Recovery {
            clock,
            options,
            seed: opening.seed,
            epoch: superblock.epoch,
            found,
            end,
            is_erased,
            reader,
            next: start,
            marks: Marks::new(&layout),
            payload: Vec::new(),
            taken_bytes: 0,
            position: start.first,
            block_last: start.first.previous(),
            device,
            superblock,
        })
    }

    /// What the log holds.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// let found = recovery.found();
    /// println!("{} records in {} blocks", found.records(), found.blocks);
    /// assert_eq!(found.data_bytes, 4);
    /// # Ok(()) }) }
    /// ```
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The log's id.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// assert_eq!(recovery.id(), [2; 16]);
    /// # Ok(()) }) }
    /// ```
    pub fn id(&self) -> [u8; 16] {
        self.superblock.log
    }

    /// The epoch of its superblock: a greater one each time that this is written.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// let before = recovery.epoch();
    /// recovery.next().await?;
    /// recovery.applied(Position(1)).await?;
    /// assert!(recovery.epoch() > before);
    /// # Ok(()) }) }
    /// ```
    pub fn epoch(&self) -> u64 {
        self.superblock.epoch
    }

    /// The id of the pool whose log it is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// assert_eq!(recovery.pool(), [1; 16]);
    /// # Ok(()) }) }
    /// ```
    pub fn pool(&self) -> [u8; 16] {
        self.superblock.pool
    }

    /// The next record, in the order in which they were appended; `None` after the last good one.
    ///
    /// # Errors
    /// When the device fails, or the record is one that this version does not know.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// assert_eq!(recovery.next().await?, Some((Position(1), record())));
    /// assert_eq!(recovery.next().await?, None);
    /// # Ok(()) }) }
    /// ```
    pub async fn next(&mut self) -> Result<Option<(Position, Record<'_>)>, ReplayError> {
        if self.found.records() == 0 {
            // The block with the last one that was released may be gone as well.
            return Ok(None);
        }
        loop {
            if self.position > self.found.last {
                return Ok(None);
            }
            if self.position > self.block_last {
                self.read_block().await?;
            }
            if self.position >= self.found.first {
                break;
            }
            self.take()?;
        }
        let (position, start) = (self.position, self.taken_bytes);
        self.take()?;
        let record = Record::decode(&self.payload[start..]);
        let (record, _) = record.map_err(|error| ReplayError::Record { position, error })?;
        Ok(Some((position, record)))
    }

    /// Goes back to the first record.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// recovery.next().await?;
    /// recovery.rewind();
    /// assert_eq!(recovery.next().await?, Some((Position(1), record())));
    /// # Ok(()) }) }
    /// ```
    pub fn rewind(&mut self) {
        let start = self.superblock.start;
        self.next = start;
        self.marks = Marks::new(&self.superblock.layout);
        self.position = start.first;
        self.block_last = start.first.previous();
    }

    /// Steps over a record.
    fn take(&mut self) -> Result<(), ReplayError> {
        let position = self.position;
        let record = Record::decode(&self.payload[self.taken_bytes..]);
        let (_, bytes) = record.map_err(|error| ReplayError::Record { position, error })?;
        self.taken_bytes += bytes;
        self.position = position.next();
        Ok(())
    }

    async fn read_block(&mut self) -> Result<(), ReplayError> {
        let start = self.next;
        let block = self.reader.block(start).await?;
        let (header, block) = block.ok_or(ReplayError::Changed { position: start.first })?;
        self.payload.clear();
        self.payload.extend_from_slice(&block[HEADER_BYTES..header.used_bytes() as usize]);
        veil(&self.superblock.salt, &mut self.payload);
        self.taken_bytes = 0;
        self.block_last = header.last();
        self.next = header.next(&self.superblock.layout);
        self.marks.push(start);
        Ok(())
    }

    /// Notes that all records up to this one have been applied and last at the origin. Returns
    /// once they will not be replayed again.
    ///
    /// # Errors
    /// When the device fails. It may be tried again.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// recovery.next().await?;
    /// // The origin keeps it by now.
    /// recovery.applied(Position(1)).await?;
    /// assert!(recovery.finish().await.is_ok());
    /// # Ok(()) }) }
    /// ```
    pub async fn applied(&mut self, up_to: Position) -> Result<(), ReplayError> {
        let released = up_to.min(self.found.last).min(self.position.previous());
        if released <= self.superblock.released {
            return Ok(());
        }
        let start = self.marks.cover(released).unwrap_or(self.superblock.start);
        let durable = self.found.last.max(self.superblock.durable);
        self.renew(Superblock { start, released, durable, ..self.superblock }).await?;
        self.marks.forget_before(start.address);
        Ok(())
    }

    async fn renew(&mut self, superblock: Superblock) -> Result<(), DeviceError> {
        self.epoch = next_epoch(&self.superblock, self.epoch);
        let superblock = Superblock { epoch: self.epoch, ..superblock };
        write_superblock(self.device.clone(), superblock).await?;
        self.superblock = superblock;
        Ok(())
    }

    /// Goes on with the log, empty, once all of its records are applied.
    ///
    /// # Errors
    /// When they are not, when the log is damaged, or when the device fails.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// recovery.next().await?;
    /// recovery.applied(Position(1)).await?;
    /// let log = recovery.finish().await?;
    /// assert_eq!(log.append(&record()).await?, Position(2), "positions go on");
    /// # Ok(()) }) }
    /// ```
    pub async fn finish(self) -> Result<Log, ReplayError> {
        if self.found.end != End::Whole {
            return Err(ReplayError::Damaged { last: self.found.last });
        }
        if self.superblock.released < self.found.last {
            return Err(ReplayError::Unapplied { from: self.superblock.released.next() });
        }
        self.discard().await
    }

    /// Goes on with the log, empty, whatever it held. All that was not applied is lost.
    ///
    /// # Errors
    /// As [`discard_as`](Recovery::discard_as).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// let log = recovery.discard().await?;
    /// assert_eq!(log.oldest(), Position(2), "record 1 is lost");
    /// # Ok(()) }) }
    /// ```
    pub async fn discard(self) -> Result<Log, ReplayError> {
        self.discard_telling(&|_, _| ()).await
    }

    /// The same, and tells how many bytes of how many have been filled if a part of the log was
    /// overwritten.
    ///
    /// # Errors
    /// As [`discard_as`](Recovery::discard_as).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// let tell = |filled: u64, bytes: u64| println!("{filled} bytes of {bytes}");
    /// let log = recovery.discard_telling(&tell).await?;
    /// assert_eq!(log.id(), [2; 16]);
    /// # Ok(()) }) }
    /// ```
    pub async fn discard_telling(
        self,
        tell: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Log, ReplayError> {
        let Superblock { log, pool, .. } = self.superblock;
        self.discard_as(log, pool, tell).await
    }

    /// The same as another log, with this id and of this pool: no copy of what it was is taken for
    /// it.
    ///
    /// # Errors
    /// When the device fails, or has become shorter: a new log has to be made on it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_recovery(async |mut recovery| {
    /// let log = recovery.discard_as([5; 16], [6; 16], &|_, _| ()).await?;
    /// assert_eq!(log.id(), [5; 16]);
    /// # Ok(()) }) }
    /// ```
    pub async fn discard_as(
        mut self,
        log: [u8; 16],
        pool: [u8; 16],
        tell: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Log, ReplayError> {
        if let End::Cut { size_bytes, needed_bytes } = self.found.end {
            return Err(ReplayError::Cut { size_bytes, needed_bytes });
        }
        // Positions that somebody may have been told do not come again.
        let lasted = match self.found.end {
            End::Damaged { lasted } => lasted,
            _ => Position::NONE,
        };
        let last = self.found.last.max(lasted).max(self.superblock.released);
        let start = Start { first: last.next(), previous: 0, ..self.end };
        let salt = salt(&self.seed, next_epoch(&self.superblock, self.epoch));
        let empty =
            Superblock { log, pool, salt, start, released: last, durable: last, ..self.superblock };
        self.renew(empty).await?;
        if self.is_erased {
            fill(&*self.device, &self.superblock.layout, tell).await?;
        }
        let Recovery { device, clock, options, seed, superblock, epoch, .. } = self;
        Ok(Log::start(device, superblock, epoch, seed, options, clock).await?)
    }
}

/// What was found on the way along the chain.
struct Scanned {
    found: Found,
    /// What the next block would be.
    end: Start,
    is_erased: bool,
}

/// Walks along the chain of a log to its end, of which the end of the device may be cut off.
async fn scan(reader: &mut Reader, superblock: &Superblock, is_cut: bool) -> Scanned {
    let layout = superblock.layout;
    let released = superblock.released;
    let mut found = Found {
        first: released.next(),
        last: released,
        blocks: 0,
        data_bytes: 0,
        end: End::Whole,
        beyond_blocks: 0,
        beyond_records: 0,
    };
    let mut is_erased = is_cut;
    let mut start = superblock.start;
    let limit = start.address + layout.ring_bytes;
    while start.address < limit {
        match reader.block(start).await {
            Ok(Some((header, _))) => {
                found.last = header.last().max(released);
                found.blocks += 1;
                found.data_bytes += header.data_bytes;
                start = header.next(&layout);
            }
            Ok(None) => break,
            Err(error) => {
                found.end = End::Unreadable { error };
                break;
            }
        }
    }
    let mut lasted = superblock.durable;
    let mut address = start.address;
    let limit = limit.min(address + BEYOND_BYTES_MAX);
    let mut errors = 0;
    while address < limit && errors < BEYOND_ERRORS_MAX {
        match reader.header(address).await {
            Ok(Some(header)) if header.start.block >= start.block => {
                lasted = lasted.max(header.durable);
                if header.start.block > start.block {
                    found.beyond_blocks += 1;
                    found.beyond_records += u64::from(header.records);
                }
            }
            Ok(_) => is_erased |= reader.is_erased(address).await.unwrap_or(false),
            Err(_) => errors += 1,
        }
        address += PAGE_BYTES as u64;
    }
    if found.end == End::Whole {
        found.end = match lasted > found.last {
            true => End::Damaged { lasted },
            false if is_erased => End::Erased,
            false => End::Whole,
        };
    }
    Scanned { found, end: start, is_erased }
}
