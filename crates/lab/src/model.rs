//! [`Model`]: devices as they would answer, on a time that is an argument.
//!
//! A model takes requests in the order of their times and says when each is done. It waits for
//! nothing, reads no clock and draws from seeds only, so the same requests get the same answers to
//! the nanosecond. What reorders its requests stands behind a [`Queue`]; [`ModelDevice`] puts one
//! behind [`storage::Device`]. Parameters come from TOML, each with its source beside it.

mod device;
mod disk;
mod equipment;
mod flash;
mod in_order;
mod mirror;
mod network;
mod object_store;
mod processor;
mod quantity;
mod queue;
mod refusal;
mod request;
mod solid_state;
mod station;
mod stripe;

pub use device::ModelDevice;
pub use disk::{
    Disk, DiskParameters, Elevator, Layout, Overheads, Schedule, Seek, SeekPoint, Served,
    TrackCache, Zone,
};
pub use equipment::{Equipment, EquipmentError};
pub use flash::{
    Cleaning, Flash, FlashParameters, Translation, Wear, Work, WriteBuffer, fifo_amplification,
};
pub use in_order::InOrder;
pub use mirror::Mirror;
pub use network::{Network, NetworkParameters};
pub use object_store::{ObjectStore, ObjectStoreParameters};
pub use processor::{Processor, ProcessorParameters};
pub use quantity::Positive;
pub use queue::{Completion, Queue, Ticket};
pub use refusal::Refusal;
pub use request::{Nanoseconds, Operation, Request};
pub use solid_state::{SolidState, SolidStateParameters};
pub use station::{Station, Traffic};
pub use stripe::{Stripe, StripeParameters};

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

#[cfg(test)]
mod tests;
