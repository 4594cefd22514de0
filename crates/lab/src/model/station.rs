use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{Clock, Wait};

use super::{Completion, Nanoseconds, Operation, Queue, Refusal, Request, Ticket};

/// A modelled device to which tasks go and wait until it is done with what they ask.
pub struct Station {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    queue: Box<dyn Queue>,
    /// Requests that somebody waits for.
    waiting: BTreeMap<Ticket, Waiting>,
    /// When the one whose turn it is to look will look.
    looks_at: Option<Nanoseconds>,
    traffic: Traffic,
}

enum Waiting {
    UnderWay(Option<Waker>),
    Done(Completion),
}

/// What a device was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl std::ops::Sub for Traffic {
    type Output = Traffic;

    fn sub(self, earlier: Traffic) -> Traffic {
        Traffic {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
        }
    }
}

impl Station {
    /// A device on a clock.
    pub fn new(queue: Box<dyn Queue>, clock: Arc<dyn Clock>) -> Station {
        let state =
            State { queue, waiting: BTreeMap::new(), looks_at: None, traffic: Traffic::default() };
        Station { clock, state: Mutex::new(state) }
    }

    /// How many bytes the device offers.
    pub fn size_bytes(&self) -> u64 {
        self.state.lock().queue.size_bytes()
    }

    /// What it was asked for so far.
    pub fn traffic(&self) -> Traffic {
        self.state.lock().traffic
    }

    /// Device time in which there was something to do; zero where nobody counts.
    pub fn busy_ns(&self) -> u64 {
        self.state.lock().queue.busy_ns()
    }

    /// Whether nobody waits.
    pub fn is_idle(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Waits until the device is done with a request.
    ///
    /// # Errors
    /// When it refuses it.
    pub async fn serve(&self, request: Request) -> Result<(), Refusal> {
        let ticket = {
            let mut state = self.state.lock();
            state.traffic.count(request);
            let ticket = state.queue.submit(self.now(), request);
            state.waiting.insert(ticket, Waiting::UnderWay(None));
            ticket
        };
        let mut visitor = Visitor { station: self, ticket, look: None };
        poll_fn(|context| visitor.poll(context)).await
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds::try_from(self.clock.now().as_nanos()).unwrap_or(Nanoseconds::MAX)
    }
}

impl Traffic {
    fn count(&mut self, request: Request) {
        match request.operation {
            Operation::Read => {
                self.reads += 1;
                self.read_bytes += request.bytes;
            }
            Operation::Write => {
                self.writes += 1;
                self.written_bytes += request.bytes;
            }
            Operation::Flush | Operation::Discard => {}
        }
    }
}

impl State {
    /// Notes what is done, and says whom to wake.
    fn look(&mut self, now: Nanoseconds) -> Vec<Waker> {
        if self.looks_at.is_some_and(|at| at <= now) {
            self.looks_at = None;
        }
        let mut wakers = Vec::new();
        while let Some(completion) = self.queue.complete(now) {
            if let Some(waiting) = self.waiting.get_mut(&completion.ticket)
                && let Waiting::UnderWay(waker) =
                    std::mem::replace(waiting, Waiting::Done(completion))
            {
                wakers.extend(waker);
            }
        }
        wakers
    }

    /// Somebody else who waits, to take the turn to look, if nobody has it.
    fn heir(&self) -> Option<Waker> {
        if self.looks_at.is_some() {
            return None;
        }
        self.waiting.values().find_map(|waiting| match waiting {
            Waiting::UnderWay(Some(waker)) => Some(waker.clone()),
            _ => None,
        })
    }
}

/// Somebody who waits for a request. One of all who wait at a device looks when the next request
/// is due; when it leaves, another one takes its turn.
struct Visitor<'a> {
    station: &'a Station,
    ticket: Ticket,
    /// When it looks, and its wait until then.
    look: Option<(Nanoseconds, Wait<'a>)>,
}

impl Visitor<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        loop {
            let now = self.station.now();
            let mut state = self.station.state.lock();
            let wakers = state.look(now);
            let outcome = match state.waiting.get_mut(&self.ticket).expect("it waits") {
                Waiting::Done(completion) => Some(completion.outcome.clone()),
                Waiting::UnderWay(waker) => {
                    match waker {
                        Some(waker) => waker.clone_from(context.waker()),
                        empty => *empty = Some(context.waker().clone()),
                    }
                    None
                }
            };
            let due = state.queue.due();
            let takes_turn = outcome.is_none()
                && due.is_some_and(|due| state.looks_at.is_none_or(|at| due < at));
            if takes_turn {
                state.looks_at = due;
            }
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            if let Some(outcome) = outcome {
                return Poll::Ready(outcome);
            }
            if let (true, Some(due)) = (takes_turn, due) {
                let wait = self.station.clock.sleep(Duration::from_nanos(due - now));
                self.look = Some((due, wait));
            }
            let Some((_, wait)) = &mut self.look else { return Poll::Pending };
            if wait.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // It is time to look.
            self.look = None;
        }
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        let mut state = self.station.state.lock();
        state.waiting.remove(&self.ticket);
        if self.look.as_ref().is_some_and(|(at, _)| state.looks_at == Some(*at)) {
            state.looks_at = None;
        }
        let heir = state.heir();
        drop(state);
        if let Some(heir) = heir {
            heir.wake();
        }
    }
}
