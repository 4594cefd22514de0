//! The log device of a pool: how it is named, opened, replayed and kept from being forgotten.

mod desk;
mod error;
mod forget;
mod inspect;
mod marker;
mod progress;

pub(crate) use desk::{Desk, LogSettings, Tell};
pub use error::LogError;
pub(crate) use forget::forget;
pub(crate) use inspect::unnamed;
pub use inspect::{LogDiscarded, LogRecord, LogShown, LogTarget};
pub use progress::MountProgress;
