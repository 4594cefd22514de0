use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::{AlignedBuffer, DeviceError};

/// Most calls that wait for a device or are under way at it; more are refused.
///
/// ```
/// let wanted = 1_000_000;
/// let at_once = wanted.min(storage::QUEUE_MAX);
/// assert!(at_once >= 1024);
/// ```
pub const QUEUE_MAX: usize = 4096;

/// What is asked of a device, with the buffers that belong to it until it ends.
pub(super) enum Operation {
    Read(AlignedBuffer),
    Write(Arc<AlignedBuffer>),
    /// A write that lasts when it ends.
    WriteThrough(Arc<AlignedBuffer>),
    Flush,
    Discard(u64),
    Allocate(u64),
}

impl Operation {
    /// What it does, as a verb, for messages.
    fn verb(&self) -> &'static str {
        match self {
            Operation::Read(_) => "read",
            Operation::Write(_) | Operation::WriteThrough(_) => "write",
            Operation::Flush => "flush",
            Operation::Discard(_) => "discard",
            Operation::Allocate(_) => "allocate",
        }
    }

    /// How many bytes a call that succeeds reports as moved.
    fn bytes(&self) -> u64 {
        match self {
            Operation::Read(buffer) => buffer.len() as u64,
            Operation::Write(buffer) | Operation::WriteThrough(buffer) => buffer.len() as u64,
            Operation::Flush | Operation::Discard(_) | Operation::Allocate(_) => 0,
        }
    }
}

/// How a call ended: a read gives its buffer back.
pub(super) type Outcome = Result<Option<AlignedBuffer>, DeviceError>;

/// The one who waits for a call, and until when.
pub(super) struct Waiter {
    verb: &'static str,
    deadline: Instant,
    limit: Duration,
    sender: Mutex<Option<oneshot::Sender<Outcome>>>,
}

impl Waiter {
    /// Ends the wait, if it has not ended yet.
    fn answer(&self, outcome: Outcome) {
        let sender = self.sender.lock().take();
        if let Some(sender) = sender {
            // Nobody may listen any more.
            let _ = sender.send(outcome);
        }
    }

    /// Whether anybody waits.
    pub(super) fn is_waited_for(&self) -> bool {
        self.sender.lock().as_ref().is_some_and(|sender| !sender.is_canceled())
    }

    /// Ends the wait of a call of which nothing will be heard any more.
    pub(super) fn close(&self) {
        self.answer(Err(DeviceError::Closed { operation: self.verb }));
    }

    /// Ends the wait if its time is over. The call itself, and its buffers, go on.
    pub(super) fn expire(&self, now: Instant) {
        if now >= self.deadline {
            let (operation, seconds) = (self.verb, self.limit.as_secs());
            self.answer(Err(DeviceError::TimedOut { operation, seconds }));
        }
    }
}

/// One call, from the moment it is made until the system has ended it.
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) offset: u64,
    pub(super) waiter: Arc<Waiter>,
}

impl Request {
    /// A call that has to end within `limit`, and where its outcome arrives.
    pub(super) fn new(
        operation: Operation,
        offset: u64,
        limit: Duration,
    ) -> (Request, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        let waiter = Arc::new(Waiter {
            verb: operation.verb(),
            deadline: Instant::now() + limit,
            limit,
            sender: Mutex::new(Some(sender)),
        });
        (Request { operation, offset, waiter }, receiver)
    }

    /// Ends the call with what the system said: bytes moved.
    pub(super) fn end(self, moved: Result<u64, Errno>) {
        let (operation, bytes) = (self.operation.verb(), self.operation.bytes());
        let outcome = match (moved, self.operation) {
            (Err(errno), _) => Err(DeviceError::system(operation)(errno)),
            (Ok(moved), _) if moved != bytes => {
                Err(DeviceError::Short { operation, offset: self.offset, bytes, moved })
            }
            (Ok(_), Operation::Read(buffer)) => Ok(Some(buffer)),
            (Ok(_), _) => Ok(None),
        };
        // Here nothing is left of a write's buffer, so that its owner can use it again.
        self.waiter.answer(outcome);
    }

    /// Ends the call without making it.
    pub(super) fn refuse(self, error: impl FnOnce(&'static str) -> DeviceError) {
        self.waiter.answer(Err(error(self.waiter.verb)));
    }
}
