//! The intent log of Warmfront: what makes a synchronous write durable at once.
//!
//! A [`Log`] lies on one device. Whoever changes something appends a [`Record`] that tells how to
//! do it again, and commits the log up to there; when a transaction group has taken the change to
//! the origin, the record is released. After a crash [`Log::open`] finds what was not released.
//! What the bytes on a device mean is in `docs/format.md`.
//!
//! ```
//! use std::ffi::OsStr;
//! use std::sync::Arc;
//! use storage::{Device, MemoryDevice, ObjectId, Simulation};
//! use zil::{Log, Opening, Options, Place, Position, Record};
//!
//! let simulation = Simulation::new(1);
//! let clock = Arc::new(simulation.clone());
//! let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(32 << 20, 4096));
//! let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: false };
//! let options = Options::default;
//! simulation.run(async {
//!     let log = Log::format(device.clone(), opening, options(), clock.clone()).await?;
//!     let file = Place { object: ObjectId(7), born: None, path: OsStr::new("a/file") };
//!     let record = Record::Write { file, offset: 0, data: b"kept" };
//!     let position = log.append(&record).await?;
//!     log.commit(position).await?;
//!     // The machine stops.
//!     drop(log);
//!     let mut recovery = Log::open(device, opening, options(), clock).await?;
//!     assert_eq!(recovery.next().await?, Some((Position(1), record)));
//!     assert_eq!(recovery.next().await?, None);
//!     recovery.applied(Position(1)).await?;
//!     recovery.finish().await?;
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! }).expect("a device that works");
//! ```

mod blank;
mod block;
mod chain;
mod codec;
mod error;
mod flights;
mod labels;
mod layout;
mod log;
mod marks;
mod options;
mod position;
mod reader;
mod record;
mod recovery;
mod statistics;
mod superblock;

pub use error::{AppendError, Failed, OpenError, RecordError, ReplayError};
pub use log::Log;
pub use options::{Opening, Options, Sync};
pub use position::Position;
pub use record::{
    DATA_BYTES_MAX, Identity, Made, NAME_BYTES_MAX, Name, PATH_BYTES_MAX, Place, Record,
    TARGET_BYTES_MAX, VALUE_BYTES_MAX,
};
pub use recovery::{End, Found, Recovery};
pub use statistics::{Distribution, Statistics};
