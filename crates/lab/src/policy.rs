//! [`Policy`]: which objects stay, and the published algorithms in their textbook form.
//!
//! Objects are dense numbers, and an algorithm keeps its lists as arrays over them, so that a run
//! is array work without hashing. Where papers count pages, weights stand here: every object
//! weighs 1 in a trace of equal blocks, and its bytes otherwise. With weights of 1 each algorithm
//! is exactly the published one.

mod car;
mod lirs;
mod list_arc;
mod lru;
mod min;
mod name;
mod objects;
mod positions;
mod queues;
mod s3_fifo;
mod shipped;
mod sieve;
mod sketch;
mod two_q;
mod w_tinylfu;

pub use car::Car;
pub use lirs::Lirs;
pub use list_arc::ListArc;
pub use lru::Lru;
pub use min::{Min, NEVER};
pub use name::{PolicyName, UnknownPolicy};
pub use objects::Objects;
pub(crate) use queues::Queues;
pub use s3_fifo::S3Fifo;
pub use shipped::{Numbered, Shipped};
pub use sieve::Sieve;
pub use two_q::TwoQ;
pub use w_tinylfu::WTinyLfu;

/// A cache without contents: told of every request, it says which would have hit.
pub trait Policy {
    /// Whether object `id` is in the cache. A miss brings it in, and something else out; an
    /// object heavier than the capacity passes by.
    fn access(&mut self, id: u32) -> bool;

    /// The weight of all objects in the cache; never above the capacity.
    fn resident_weight(&self) -> u64;

    /// Recounts everything.
    ///
    /// # Errors
    /// What is wrong, when sums and lists disagree or a bound is exceeded.
    fn validate(&self) -> Result<(), String>;

    /// Makes these requests, and calls `missed` with each object that was not there. One call
    /// for many requests, so that [`Policy::access`] can be inlined.
    fn replay(&mut self, ids: &[u32], missed: &mut dyn FnMut(u32)) {
        for &id in ids {
            if !self.access(id) {
                missed(id);
            }
        }
    }
}

/// A policy that tells what it evicts, so that a level below it can be fed.
pub trait Evicting {
    /// As [`Policy::access`]; what goes for it is added to `evicted`.
    fn access_telling(&mut self, id: u32, evicted: &mut Vec<u32>) -> bool;
}

#[cfg(test)]
mod tests;
