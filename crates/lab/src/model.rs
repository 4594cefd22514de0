//! [`Model`]: devices as they would answer, on a time that is an argument.
//!
//! A model takes requests in the order of their times and says when each is done. It waits for
//! nothing, reads no clock and draws from seeds only, so the same requests get the same answers to
//! the nanosecond. Parameters come from TOML.

mod flash;
mod quantity;
mod refusal;
mod request;

pub use flash::{
    Cleaning, Flash, FlashParameters, Translation, Wear, Work, WriteBuffer, fifo_amplification,
};
pub use quantity::Positive;
pub use refusal::Refusal;
pub use request::{Nanoseconds, Operation, Request};

/// A device that serves its requests in the order in which they come.
pub trait Model: Send {
    /// How many bytes it offers.
    fn size_bytes(&self) -> u64;

    /// When a request that arrives at `now` is done. Times never go back from call to call.
    ///
    /// # Errors
    /// When the device cannot serve it, whatever the time.
    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal>;

    /// Recounts everything.
    ///
    /// # Errors
    /// What is wrong, when sums and lists disagree.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}
