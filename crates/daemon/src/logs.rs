//! The log device of a pool: how it is named, opened, replayed and kept from being forgotten.

mod desk;
mod error;
mod find;
mod forget;
mod inspect;
mod marker;
mod new_log;
mod patience;
mod progress;
mod waiting;
mod words;

pub(crate) use desk::{Desk, LogSettings, Tell};
pub use error::LogError;
pub(crate) use find::{may_hold, unnamed, unnamed_marker, waits_for_missing};
pub use forget::GivenUp;
pub(crate) use forget::forget;
pub use inspect::{LogDiscarded, LogRecord, LogShown, LogTarget};
pub(crate) use new_log::NewLog;
pub use progress::MountProgress;
pub use waiting::{Held, WaitingLog};
pub(crate) use waiting::{LogOnDevice, Waiting};
