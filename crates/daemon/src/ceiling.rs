//! How much RAM a pool may take: what was asked for, what the machine has, and what to do when
//! others need it.
//!
//! [`Setting`] is what an operator asks for. [`Sources`] read the machine and the control groups.
//! [`Governor`] makes a ceiling of both; it is pure, so that it can be tested against neighbours
//! that never existed. [`Keeper`] waits for time to pass or for [`Pressure`], asks the governor
//! and sets the ceiling.

mod governor;
mod groups;
mod keeper;
mod pressure;
mod reading;
mod setting;
mod sources;

pub(crate) use keeper::{Keeper, KeeperError, Watch};
pub use reading::{LimitSource, MemoryLimit, Reading, Room};
pub use setting::{ArcMax, Bounds, CEILING_BYTES_MIN, CeilingError, Setting};
pub use sources::{Sources, memory_limit};
