//! The RAM level of Warmfront: which records stay in memory, and within how many bytes.
//!
//! [`Policy`] is ARC in its clock form, with sizes in bytes, classes for data and metadata, and
//! ghosts: one single-threaded structure without I/O and without a clock; its module's head
//! explains the algorithm. [`Cache`] puts policies behind locks and gives them one budget.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use arc::{Cache, Charge, Class, Kind, Options};
//!
//! let cache: Cache<u64, Arc<[u8]>> = Cache::new(&Options::new(64 << 20));
//! let record: Arc<[u8]> = vec![0; 4096].into();
//! let charge = Charge { bytes: 4096, class: Class::Data, kind: Kind::Demand, tenant: 0 };
//! let now = Duration::ZERO;
//! cache.insert(7, record, charge, now)?;
//! assert_eq!(cache.get(&7, now).map(|record| record.len()), Some(4096));
//! assert!(cache.charged_bytes() <= cache.capacity_bytes());
//! # Ok::<(), arc::Refused>(())
//! ```

mod balance;
mod behaviour;
#[cfg(not(feature = "shuttle"))]
mod biased;
mod budget;
mod buffers;
mod cache;
mod curve;
mod directory;
mod duel;
mod ghost;
mod hits;
mod index;
mod list;
mod offer;
mod options;
mod partition;
mod place;
pub mod policy;
mod record;
mod refused;
mod setting;
mod share;
mod slab;
mod standing;
mod statistics;
mod sync;
mod target;
mod tenant;
mod touch;
mod tuner;

pub use balance::CLASS_FLOOR;
pub use buffers::{Arena, ArenaStatistics, Buffer, CHUNK_BYTES, OutOfMemory, PAGE_BYTES};
pub use cache::{Cache, SHARDS_MAX};
pub use curve::{
    CURVE_BYTES_MAX, CURVE_SAMPLES_MIN, CURVE_TOLERANCE, Curve, CurvePoint, CurveSnapshot, Load,
};
pub use ghost::Ghost;
pub use index::{DenseIndex, HashIndex, Index};
pub use list::{Class, List, Queue};
pub use offer::Offer;
pub use options::{CORRELATED_WINDOW, Options, RECORD_SHARE};
pub use place::PARTITIONS_MAX;
pub use policy::{Evicted, GHOST_SHARE, HAND_STEPS_MAX, Hit, Inserted, Policy};
pub use record::{Charge, Kind, Location};
pub use refused::Refused;
pub use setting::{PolicyKind, Setting};
pub use share::{Share, ShareRefused};
pub use standing::{Moment, Remembered, Standing, Targets};
pub use statistics::{GhostStatistics, RefusedStatistics, Statistics};
pub use tenant::{ListStatistics, TENANTS_MAX, Usage};
pub use touch::HITS_MAX;
pub use tuner::SettingStatistics;
