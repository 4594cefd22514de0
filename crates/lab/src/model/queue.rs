use super::{Nanoseconds, Refusal, Request};

/// A request that was submitted to a [`Queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A request that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub ticket: Ticket,
    /// When it was done, or refused.
    pub at: Nanoseconds,
    /// Why it was refused, if it was.
    pub outcome: Result<(), Refusal>,
}

/// A device that may have many requests at a time and serves them in an order of its own.
///
/// Time is told by the calls and never goes back. Whoever drives it calls
/// [`Queue::complete`] at the times that [`Queue::due`] names.
pub trait Queue: Send {
    /// How many bytes the device offers.
    fn size_bytes(&self) -> u64;

    /// Takes a request in.
    fn submit(&mut self, now: Nanoseconds, request: Request) -> Ticket;

    /// When the next request is done, as far as is known now.
    fn due(&self) -> Option<Nanoseconds>;

    /// A request that is done by `now`, the earliest first.
    fn complete(&mut self, now: Nanoseconds) -> Option<Completion>;

    /// Device time in which there was something to do; zero where nobody counts.
    fn busy_ns(&self) -> u64 {
        0
    }
}
