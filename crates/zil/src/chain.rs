//! The chain of blocks, without any waiting.
//!
//! # Order
//!
//! Records get their positions when they are appended, under one lock, and lie in that order in
//! the blocks of one chain. Several blocks may be under way to the device at a time, each with a
//! flush of its own, so that nobody waits for another's write before his own begins; but a record
//! counts as durable only once its block and *all blocks before* have lasted. Hence:
//!
//! - A caller who was told that a record lasts was told so after everything before it had lasted.
//! - What a crash leaves is the blocks that had lasted, without a gap, then blocks that were under
//!   way, of which any may be missing. Recovery stops at the first that is missing or torn. None
//!   behind it was acknowledged, as that would have needed the missing one. So recovery finds all
//!   that was acknowledged, and what it finds is a prefix of what was appended: a record whose
//!   cause is missing is never applied.
//! - A block is whole or it is not there, and records lie in one block: none is applied by half.
//!
//! Chains side by side would not do more. To keep the order of records that depend on each other,
//! an acknowledgement would still have to wait for all that came before in all chains.
//!
//! # Blocks of other times
//!
//! A block is the next one of the chain only if it has the salt of this life, the next number, the
//! address that follows from the block before, and that block's checksum, all covered by a
//! checksum of its own. What an earlier lap has left has another number and address. Whenever the
//! log starts anew, after a recovery or a failure, the salt changes: a block that was under way
//! then, and lies behind the end at which recovery stopped, can not become the successor of a new
//! one. Within a life each number is written once.
//!
//! # Space
//!
//! Blocks stand at growing addresses in a ring. One may be overwritten only once a superblock which
//! begins behind it has lasted; so recovery always finds the beginning as it was.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use storage::{AlignedBuffer, DeviceError};

use crate::block::{HEADER_BYTES, Header};
use crate::error::{AppendError, Failed};
use crate::flights::{Flight, Flights, Leg, Write};
use crate::layout::{Layout, PAGE_BYTES};
use crate::marks::Marks;
use crate::position::Position;
use crate::record::Record;
use crate::superblock::{Start, Superblock, salt};

/// The writing of a superblock; whoever waits for it drives it.
pub(crate) type Task = Shared<BoxFuture<'static, Result<(), DeviceError>>>;

/// Once a block has been under way for so long, none departs after it: whoever would write it
/// might hang with the device as well, instead of being told when the log is given up.
const STALL: Duration = Duration::from_secs(1);

pub(crate) struct Chain {
    /// The superblock that lasts.
    superblock: Superblock,
    /// The superblock that is being written.
    renewal: Option<(Superblock, Task)>,
    /// The epoch last tried.
    epoch: u64,
    /// Decides salts.
    seed: [u8; 16],
    /// What the next block that departs has to be.
    next: Start,
    /// The position of the next record.
    position: Position,
    /// Blocks that wait for a lane; the last one takes more records.
    waiting: VecDeque<Filling>,
    /// Blocks under way, in order.
    flights: Flights,
    /// Bytes of both.
    buffered_bytes: usize,
    /// Everything up to here lasts.
    durable: Position,
    /// Everything up to here is not needed any more, as soon as a superblock says so.
    released: Position,
    /// Blocks from which recovery could begin.
    marks: Marks,
    failed: Option<Failed>,
}

/// A block that is being filled.
struct Filling {
    address: u64,
    first: Position,
    buffer: AlignedBuffer,
    used_bytes: usize,
    records: u32,
    data_bytes: u64,
}

/// A block that begins its way.
pub(crate) struct Departure {
    pub(crate) address: u64,
    pub(crate) buffer: Arc<AlignedBuffer>,
    pub(crate) records: u32,
}

/// What is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// Everything up to this record lasts.
    Lasts(Position),
    /// Nothing is under way.
    Idle,
}

/// One who waits.
pub(crate) struct Wait<'a> {
    pub(crate) goal: Goal,
    /// His number, once he has had to wait.
    pub(crate) id: Option<u64>,
    pub(crate) waker: &'a Waker,
    /// Whether he has not been told yet what to poll.
    pub(crate) at_first: bool,
    pub(crate) now: Duration,
    /// Those who are to be woken.
    pub(crate) wake: &'a mut Vec<Waker>,
}

/// How things are with what is waited for.
pub(crate) enum Standing {
    Reached,
    /// It will never be.
    Lost(Failed),
    Pending,
}

impl Filling {
    fn end(&self) -> u64 {
        self.address + (self.used_bytes as u64).next_multiple_of(PAGE_BYTES as u64)
    }

    fn last(&self) -> Position {
        Position(self.first.0 + u64::from(self.records) - 1)
    }

    /// Makes room for `bytes` in all.
    fn grow(&mut self, bytes: usize, limit: usize) {
        if bytes > self.buffer.len() {
            let length = bytes.max(2 * self.buffer.len()).next_multiple_of(PAGE_BYTES).min(limit);
            let mut buffer = AlignedBuffer::zeroed(length);
            buffer[..self.buffer.len()].copy_from_slice(&self.buffer);
            self.buffer = buffer;
        }
    }
}

impl Chain {
    /// A chain without records, as a superblock says that lasts.
    pub(crate) fn new(superblock: Superblock, epoch: u64, seed: [u8; 16]) -> Chain {
        let start = superblock.start;
        assert_eq!(start.first, superblock.released.next(), "the log begins empty");
        Chain {
            superblock,
            renewal: None,
            epoch,
            seed,
            next: start,
            position: start.first,
            waiting: VecDeque::new(),
            flights: Flights::default(),
            buffered_bytes: 0,
            durable: superblock.released,
            released: superblock.released,
            marks: Marks::new(&superblock.layout),
            failed: None,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.superblock.layout
    }

    /// The last record that was appended.
    pub(crate) fn last(&self) -> Position {
        self.position.previous()
    }

    /// Whether a record may be found again without the last one: it is not in the block that is
    /// being filled.
    pub(crate) fn may_last_alone(&self, position: Position) -> bool {
        self.waiting.back().is_none_or(|open| position < open.first)
    }

    pub(crate) fn durable(&self) -> Position {
        self.durable
    }

    /// The epoch of the superblock that lasts.
    pub(crate) fn epoch(&self) -> u64 {
        self.superblock.epoch
    }

    /// The oldest record that has not been released.
    pub(crate) fn oldest(&self) -> Position {
        self.superblock.released.next()
    }

    pub(crate) fn failed(&self) -> Option<&Failed> {
        self.failed.as_ref()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    pub(crate) fn flights(&self) -> usize {
        self.flights.len()
    }

    /// How long the device has owed an answer.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        self.flights.first(now).map_or(Duration::ZERO, |(_, age)| age)
    }

    /// Where the next block begins that is not there yet.
    fn head(&self) -> u64 {
        self.waiting.back().map_or(self.next.address, |last| self.layout().next_block(last.end()))
    }

    /// Bytes of the ring that hold nothing which may be needed.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.layout().ring_bytes.saturating_sub(self.head() - self.superblock.start.address)
    }

    /// Takes a record.
    pub(crate) fn append(
        &mut self,
        record: &Record<'_>,
        buffer_bytes_max: usize,
    ) -> Result<Position, AppendError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone().into());
        }
        let bytes = record.encoded_bytes()?;
        let limit = self.layout().block_bytes_max as usize;
        if HEADER_BYTES + bytes > limit {
            return Err(AppendError::TooLarge { bytes, limit: limit - HEADER_BYTES });
        }
        if self.buffered_bytes > 0 && self.buffered_bytes + bytes > buffer_bytes_max {
            return Err(AppendError::Busy);
        }
        let open = self.waiting.back().filter(|open| open.used_bytes + bytes <= limit);
        let (address, used) =
            open.map_or((self.head(), HEADER_BYTES), |open| (open.address, open.used_bytes));
        let end = address + ((used + bytes) as u64).next_multiple_of(PAGE_BYTES as u64);
        if end > self.superblock.start.address + self.layout().ring_bytes {
            let waited = std::time::Duration::ZERO;
            return Err(AppendError::Full { oldest: self.oldest(), waited });
        }
        if used == HEADER_BYTES {
            self.waiting.push_back(Filling {
                address,
                first: self.position,
                buffer: AlignedBuffer::default(),
                used_bytes: HEADER_BYTES,
                records: 0,
                data_bytes: 0,
            });
        }
        let open = self.waiting.back_mut().expect("one that takes records");
        self.buffered_bytes -= open.buffer.len();
        open.grow(used + bytes, limit);
        self.buffered_bytes += open.buffer.len();
        record.encode(&mut open.buffer[used..]);
        open.used_bytes += bytes;
        open.records += 1;
        open.data_bytes += record.data_bytes();
        let position = self.position;
        self.position = position.next();
        Ok(position)
    }

    /// Whether a goal is reached.
    fn standing(&self, goal: Goal) -> Standing {
        match goal {
            Goal::Idle if self.flights.is_empty() => Standing::Reached,
            Goal::Idle => Standing::Pending,
            Goal::Lasts(up_to) if up_to <= self.durable => Standing::Reached,
            Goal::Lasts(up_to) => match &self.failed {
                Some(failed) if up_to >= failed.from => Standing::Lost(failed.clone()),
                _ => Standing::Pending,
            },
        }
    }

    /// Looks whether a goal is reached, and enters the one who waits for it, or takes him out.
    /// What can depart does so by `begin`. Returns what is to be polled now; of what has been under
    /// way before only `at_first`.
    pub(crate) fn pursue(
        &mut self,
        wait: &mut Wait<'_>,
        lanes: usize,
        mut begin: impl FnMut(Departure) -> Write,
    ) -> (Standing, Vec<Leg>) {
        let standing = self.standing(wait.goal);
        let mut legs = Vec::new();
        if let Standing::Pending = standing {
            let up_to = match wait.goal {
                Goal::Lasts(up_to) => up_to.min(self.last()),
                Goal::Idle => self.last(),
            };
            let id = self.flights.join(wait.id, up_to, wait.waker);
            wait.id = Some(id);
            if wait.at_first {
                legs = self.flights.take_over(id, up_to);
            }
        } else if let Some(id) = wait.id.take() {
            self.flights.leave(id, wait.wake);
        }
        let wanted = self.flights.wanted();
        while self.silence(wait.now) <= STALL
            && self.flights.len() < lanes.max(1)
            && self.waiting.front().is_some_and(|front| front.first <= wanted)
        {
            legs.extend(self.depart(wait, &mut begin));
        }
        (standing, legs)
    }

    /// Lets the first block that waits begin its way, for this waiter to poll or for another one,
    /// who is to be woken.
    fn depart(
        &mut self,
        wait: &mut Wait<'_>,
        begin: &mut impl FnMut(Departure) -> Write,
    ) -> Option<Leg> {
        let mut filling = self.waiting.pop_front().expect("a block that waits");
        let start = self.next;
        assert_eq!((start.address, start.first), (filling.address, filling.first));
        let last = filling.last();
        let mut header = Header {
            start,
            durable: self.durable,
            records: filling.records,
            payload_bytes: (filling.used_bytes - HEADER_BYTES) as u32,
            data_bytes: filling.data_bytes,
            payload_sum: 0,
            sum: 0,
        };
        let buffer_bytes = filling.buffer.len();
        header.sum = header.seal(&self.superblock.salt, &mut filling.buffer);
        self.next = header.next(self.layout());
        self.marks.push(start);
        filling.buffer.set_len(header.block_bytes() as usize);
        let bytes = filling.buffer.len();
        self.buffered_bytes = self.buffered_bytes - buffer_bytes + bytes;
        let address = filling.address;
        let buffer = Arc::new(filling.buffer);
        let write = begin(Departure { address, buffer, records: filling.records });
        let flight = Flight::new(start.block, (start.first, last), bytes, write, wait.now);
        self.flights.depart(wait.id, flight, wait.wake)
    }

    /// Takes back a write that was polled, and is not done.
    pub(crate) fn goes_on(&mut self, block: u64, write: Write) {
        self.flights.goes_on(block, write);
    }

    /// Notes how a block's way has ended. Says whether that is news of a failure.
    pub(crate) fn arrived(
        &mut self,
        block: u64,
        outcome: Result<(), DeviceError>,
        wake: &mut Vec<Waker>,
    ) -> bool {
        let from = self.flights.arrived(block);
        let mut news = false;
        if let Err(error) = outcome
            && self.failed.as_ref().is_none_or(|failed| from < failed.from)
        {
            news = self.failed.is_none();
            self.fail(Failed { from, error });
        }
        let failed = self.failed.as_ref().map(|failed| failed.from);
        while let Some(flight) = self.flights.pop() {
            self.buffered_bytes -= flight.bytes;
            if failed.is_none_or(|failed| flight.last < failed) {
                self.durable = flight.last;
            }
        }
        self.dismiss(wake);
        news
    }

    /// Fails when a block has been under way for longer than `max`; returns that, if it is news.
    pub(crate) fn give_up_overdue(
        &mut self,
        now: Duration,
        max: Duration,
        wake: &mut Vec<Waker>,
    ) -> Option<Failed> {
        let (first, age) = self.flights.first(now).filter(|_| self.failed.is_none())?;
        if age <= max {
            return None;
        }
        let error = DeviceError::TimedOut { operation: "write", seconds: max.as_secs() };
        let failed = Failed { from: first.first, error };
        self.fail(failed.clone());
        self.dismiss(wake);
        Some(failed)
    }

    fn fail(&mut self, failed: Failed) {
        self.failed = Some(failed);
        // None of them could last: there is a gap before.
        self.buffered_bytes -=
            self.waiting.drain(..).map(|filling| filling.buffer.len()).sum::<usize>();
    }

    /// Lets those go who need not wait any more, or wait in vain.
    fn dismiss(&mut self, wake: &mut Vec<Waker>) {
        let (durable, failed) = (self.durable, self.failed.as_ref().map(|failed| failed.from));
        let is_done = |up_to| up_to <= durable || failed.is_some_and(|failed| up_to >= failed);
        self.flights.dismiss(is_done, wake);
    }

    /// Takes one out who gives up.
    pub(crate) fn leave(&mut self, id: u64, wake: &mut Vec<Waker>) {
        self.flights.leave(id, wake);
    }

    /// Notes that records up to `up_to`, which last, are not needed any more; `None` when a
    /// superblock says so. Else what is being written, or is to be now by `begin`.
    pub(crate) fn release(
        &mut self,
        up_to: Position,
        begin: impl FnOnce(Superblock) -> Task,
    ) -> Option<(u64, Task)> {
        self.released = self.released.max(up_to.min(self.durable));
        if self.superblock.released >= up_to.min(self.released) {
            return None;
        }
        if let Some((superblock, task)) = &self.renewal {
            return Some((superblock.epoch, task.clone()));
        }
        let idle = self.waiting.is_empty() && self.flights.is_empty();
        let start = match idle && self.released == self.last() {
            true => self.next,
            false => self.marks.cover(self.released).unwrap_or(self.superblock.start),
        };
        let (released, durable) = (self.released, self.durable);
        Some(self.renew(Superblock { start, released, durable, ..self.superblock }, begin))
    }

    /// Starts the chain anew behind all that was lost, once nothing is under way; `None` when that
    /// is done.
    pub(crate) fn restart(
        &mut self,
        begin: impl FnOnce(Superblock) -> Task,
    ) -> Option<(u64, Task)> {
        self.failed.as_ref()?;
        if let Some((superblock, task)) = &self.renewal {
            return Some((superblock.epoch, task.clone()));
        }
        let last = self.last();
        let start = Start { first: self.position, previous: 0, ..self.next };
        let superblock =
            Superblock { start, released: last, durable: last, salt: [0; 16], ..self.superblock };
        Some(self.renew(superblock, begin))
    }

    fn renew(
        &mut self,
        superblock: Superblock,
        begin: impl FnOnce(Superblock) -> Task,
    ) -> (u64, Task) {
        let epoch = next_epoch(&self.superblock, self.epoch);
        self.epoch = epoch;
        let anew = superblock.salt == [0; 16];
        let salt = if anew { salt(&self.seed, epoch) } else { superblock.salt };
        let superblock = Superblock { epoch, salt, ..superblock };
        let task = begin(superblock);
        self.renewal = Some((superblock, task.clone()));
        (epoch, task)
    }

    /// Notes how the writing of a superblock has ended.
    pub(crate) fn renewed(&mut self, epoch: u64, outcome: &Result<(), DeviceError>) {
        let Some((superblock, _)) = self.renewal.take_if(|(renewal, _)| renewal.epoch == epoch)
        else {
            return;
        };
        if outcome.is_err() {
            return;
        }
        let anew = superblock.salt != self.superblock.salt;
        self.superblock = superblock;
        if anew {
            let renewal = self.renewal.take();
            assert!(self.flights.is_empty() && renewal.is_none(), "nothing is under way");
            *self = Chain::new(superblock, self.epoch, self.seed);
        } else {
            self.marks.forget_before(superblock.start.address);
        }
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When sums or orders do not agree.
    pub(crate) fn validate(&self) {
        let waiting: usize = self.waiting.iter().map(|filling| filling.buffer.len()).sum();
        let flying: usize = self.flights.iter().map(|flight| flight.bytes).sum();
        assert_eq!(self.buffered_bytes, waiting + flying, "bytes in RAM");
        let mut next = self.flights.iter().next().map_or(self.next.first, |flight| flight.first);
        if self.failed.is_none() {
            assert_eq!(next, self.durable.next(), "what does not last is in RAM");
        }
        self.flights.validate();
        for flight in self.flights.iter() {
            assert_eq!(flight.first, next, "flights follow each other");
            next = flight.last.next();
        }
        let mut address = self.next.address;
        assert_eq!(self.next.first, next, "departed blocks end where waiting ones begin");
        for filling in &self.waiting {
            assert_eq!((filling.address, filling.first), (address, next), "blocks in order");
            assert!(filling.records > 0 && filling.used_bytes <= filling.buffer.len());
            assert!(self.failed.is_none(), "nothing waits for a chain that ends");
            next = filling.last().next();
            address = self.layout().next_block(filling.end());
        }
        if self.failed.is_none() {
            assert_eq!(next, self.position, "all records are somewhere");
        }
        let start = self.superblock.start;
        assert!(self.superblock.released <= self.released && self.released <= self.durable);
        assert!(self.durable < self.position && start.first <= self.superblock.released.next());
        let used_end = self.waiting.back().map_or(self.next.address, Filling::end);
        assert!(
            used_end <= start.address + self.layout().ring_bytes + self.layout().block_bytes_max,
            "the ring does not overtake itself"
        );
        self.marks.validate(start.address);
    }
}

/// The epoch of the next superblock. One that was tried and failed leaves its slot in doubt, so
/// the same slot is written again and the other one, which lasts, is left alone.
pub(crate) fn next_epoch(lasting: &Superblock, tried: u64) -> u64 {
    if tried == lasting.epoch { tried + 1 } else { tried + 2 }
}
