//! An adaptive cache in RAM in front of storage that already exists.
//!
//! A [`Pool`] stands in front of an [`Origin`](storage::Origin) and offers the calls of a file
//! system. What it has read it keeps in an ARC: file contents as records of a fixed size,
//! everything else that answers a call (attributes, names, listings, link targets, extended
//! attributes) as metadata. Pools of one process share one ARC, their [`Memory`].
//!
//! A pool is divided into datasets, subtrees with properties of their own: whether contents and
//! metadata are cached, how large a record is, how far to prefetch, how to notice that somebody
//! else has changed the origin. They are inherited down the tree and may be changed at any time.
//!
//! All calls of a pool return futures. Nothing in here needs a runtime: over real storage a future
//! does its system calls on the thread that polls it, so `futures::executor::block_on` is enough.
//!
//! A program that wants to keep values of its own, without files, takes [`cache::Cache`]: the same
//! ARC with single flight for threads and tasks.

mod alias;
mod answer;
pub mod cache;
mod chunk;
mod counters;
mod curve;
mod datasets;
mod directory;
mod dirty;
mod dirty_budget;
mod error;
mod extents;
mod feeder;
mod file;
pub mod flash;
mod flight;
mod heap;
mod intent;
mod key;
mod listings;
mod lookup;
mod memory;
mod meter;
mod moves;
mod names;
mod object;
mod objects;
mod pace;
mod patience;
mod pool;
mod prefetch;
mod prime;
mod property;
mod range_lock;
mod read;
mod reader;
mod record;
mod recorder;
mod remembered;
mod replay;
mod share;
mod shares;
mod size;
mod small_blocks;
mod snapshot;
mod statistics;
mod stored;
mod stream;
mod sync;
mod throttle;
mod txg;
mod unsynced;
mod version;
mod why;
mod write;
mod write_back;
mod xattr;

pub use answer::Listing;
pub use arc::{CURVE_SAMPLES_MIN, CURVE_TOLERANCE, HITS_MAX, Setting};
pub use counters::COUNTERS;
pub use curve::{CURVES_MAX, CurveReport, CurveScope, SizePoint};
pub use datasets::{
    Dataset, DatasetCursor, DatasetError, DatasetTree, Datasets, PropertyRow, Source,
};
pub use directory::OpenDirectory;
pub use error::{EngineError, Result};
pub use file::{KernelCache, OpenFile};
pub use intent::LOG_SILENCE_MAX;
pub use lookup::{Attributed, Found};
pub use memory::{Charged, Memory};
pub use patience::{Endless, Patience, Waiting};
pub use pool::{Invalidation, Pool, PoolOptions};
pub use prime::{PrimeProgress, PrimeReport, PrimeRequest};
pub use property::{
    CacheLevel, Coherence, FailMode, FlashContents, LogBias, PROPERTIES, PrefetchLevel, Properties,
    Property, PropertyError, SyncMode, WriteMode, nearest, parse_setting,
};
pub use reader::Reader;
pub use record::Pieces;
pub use recorder::{RecordedRequest, RecordedRequests};
pub use remembered::Unused;
pub use replay::{
    ReplayError, ReplayOptions, ReplayProgress, Replayed, SkipReason, Skipped, TellReplay, replay,
};
pub use share::{SHARES_MAX, ShareError};
pub use shares::Reserves;
pub use size::{ExactSize, HumanSize, Size, SizeError, parse_size, parse_size_or_percent};
pub use snapshot::{HotRecords, Restored, SNAPSHOT_BYTES_MAX, WrittenDown};
pub use statistics::Statistics;
/// Origins, clocks and executors, for programs that depend on this crate alone.
pub use storage;
pub use throttle::ThrottleStatistics;
pub use txg::{Txg, TxgState};
pub use why::{OnFlash, RecordRun, Why, WhyFlash};
pub use write_back::WriteBackStatistics;
pub use zil;
