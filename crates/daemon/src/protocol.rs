//! What is said over a pool's control socket.
//!
//! The socket is `NAME.sock` in the runtime directory, for its owner only. Each side sends lines of
//! JSON, a [`Message`] each. A connection carries one [`Request`] and its [`Response`]; before the
//! answer to [`Request::Prime`] come any number of [`Response::PrimeProgress`]. Whoever closes the
//! connection before that cancels the priming.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
pub use warmfront::{
    CurveReport, PrimeProgress, PrimeReport, PropertyRow, RecordedRequest, RecordedRequests,
    Restored, Source, Statistics, Why,
};

pub use crate::ceiling::{ArcMax, Setting};
use crate::device_path::DevicePath;
pub use crate::logs::MountProgress;
use crate::wire_path;

/// The version of this protocol. Both sides must have the same.
pub const VERSION: u32 = 1;

/// Longest line of a request in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Longest line of a response in bytes.
pub const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Longest wait for a line from the other side. While a pool is primed, progress is told more
/// often than this.
pub const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A request or a response on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message<T> {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// What is said.
    pub body: T,
}

/// What a daemon can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Whether it is there: [`Response::Pong`].
    Ping,
    /// What it serves: [`Response::Info`].
    Info,
    /// How it is: [`Response::Status`].
    Status,
    /// Only the counters: [`Response::Statistics`].
    Statistics,
    /// All properties of a dataset: [`Response::Properties`].
    Get {
        /// The dataset's name.
        dataset: String,
    },
    /// All datasets: [`Response::Datasets`].
    List,
    /// The dataset to which a path belongs: [`Response::Dataset`].
    DatasetOf {
        /// Relative to the pool's top.
        #[serde(with = "wire_path")]
        path: PathBuf,
    },
    /// Changes datasets or properties: [`Response::Changed`].
    Change(Change),
    /// Where a file's records are: [`Response::Why`].
    Why {
        /// Relative to the pool's top.
        #[serde(with = "wire_path")]
        path: PathBuf,
    },
    /// What other sizes would make of the present load: [`Response::Curves`].
    Curve {
        /// The dataset's name; the whole pool if absent.
        dataset: Option<String>,
        /// And of each dataset in use below it; of the pool, each there is.
        recursive: bool,
    },
    /// Fills the cache on purpose: [`Response::PrimeProgress`], at last [`Response::Primed`].
    Prime(Prime),
    /// Sets the ceiling, and waits until memory has been given back: [`Response::Ceiling`].
    SetCeiling(Setting),
    /// Writes down what the cache holds, for the next start: [`Response::Saved`].
    Save,
    /// Begins to bring to the origin what it does not have yet: [`Response::Undone`].
    Drain,
    /// The last transaction groups: [`Response::Txgs`].
    Txgs,
    /// Begins to record what is asked for: [`Response::Recorded`], of nothing yet.
    Record {
        /// Of this share of all contents.
        percent: f64,
    },
    /// What was recorded since the last time: [`Response::Recorded`].
    Recorded {
        /// Nothing more is to be recorded.
        stop: bool,
    },
    /// Makes everything last at the origin: [`Response::Synced`].
    Sync,
    /// Takes a cache device in: [`Response::CachesChanged`].
    AddCache {
        /// Which.
        device: DevicePath,
        /// Whatever lies on it.
        force: bool,
    },
    /// Stops using a cache device and wipes it: [`Response::CachesChanged`].
    RemoveCache {
        /// Which.
        #[serde(with = "wire_path")]
        path: PathBuf,
    },
    /// Takes a log device in: [`Response::Progress`], at last [`Response::LogChanged`].
    AddLog {
        /// Which.
        device: DevicePath,
        /// Whatever lies on it.
        force: bool,
    },
    /// Stops using the log device, once the origin has everything, and wipes it:
    /// [`Response::LogChanged`].
    RemoveLog {
        /// Which.
        #[serde(with = "wire_path")]
        path: PathBuf,
    },
    /// Unmounts and ends the daemon: [`Response::Unmounted`] or [`Response::Busy`].
    Unmount {
        /// Take the mount out of the tree of names at once, and end when its last file is closed.
        lazy: bool,
    },
}

/// What a daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// It is there.
    Pong,
    /// What it serves.
    Info(Descriptor),
    /// How it is.
    Status(Box<Status>),
    /// The counters.
    Statistics(Statistics),
    /// Properties of one dataset, in the order of the table of properties.
    Properties(Vec<PropertyRow>),
    /// All datasets, in the order of their names.
    Datasets(Vec<DatasetRow>),
    /// A dataset.
    Dataset(DatasetRow),
    /// The change was made.
    Changed(Changed),
    /// Where a file's records are.
    Why(Box<Why>),
    /// What other sizes would make of the present load, what was asked for first.
    Curves(Vec<CurveReport>),
    /// How far priming has come.
    PrimeProgress(PrimeProgress),
    /// Priming has ended.
    Primed(PrimeReport),
    /// The ceiling is set.
    Ceiling(CeilingSet),
    /// It is written down.
    Saved {
        /// How long it is.
        bytes: u64,
    },
    /// What the origin does not have yet.
    Undone(Undone),
    /// The last transaction groups, the open one last.
    Txgs(Vec<TxgRow>),
    /// What was asked for.
    Recorded(RecordedRequests),
    /// The origin keeps everything.
    Synced,
    /// The pool has other cache devices now.
    CachesChanged {
        /// How long that lasts.
        changed: Changed,
        /// What was found on a device that was taken in, or what there is to say of one that was
        /// removed.
        found: Option<String>,
    },
    /// How far a log device is taken in.
    Progress(MountProgress),
    /// The pool has another log device now, or none.
    LogChanged {
        /// How long that lasts.
        changed: Changed,
        /// What was found on it.
        notes: Vec<String>,
    },
    /// The mount is gone; the daemon ends.
    Unmounted,
    /// The mount is in use, and stays.
    Busy {
        /// By whom, as far as this user may see.
        holders: Vec<Holder>,
    },
    /// The request was not carried out.
    Refused(Refusal),
}

/// What the origin does not have yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Undone {
    /// Bytes, with those that it may lose again.
    pub dirty_bytes: u64,
    /// Bytes of these that have not been written to it.
    pub waiting_bytes: u64,
    /// Files that they belong to.
    pub dirty_files: u64,
    /// Some of these, relative to the pool's top.
    pub paths: Vec<String>,
    /// Why it does not take them, if it does not.
    pub failing: Option<String>,
    /// The transaction group that takes changes now.
    pub open_txg: u64,
    /// It has all of the groups up to this one, but for files that it refuses.
    pub committed_txg: u64,
    /// What has owed an answer for a while, and for how long, in words.
    #[serde(default)]
    pub waits_for: Option<String>,
}

impl Undone {
    /// Whether there is nothing of the groups up to `txg`. Others may go on writing meanwhile.
    pub fn is_done(&self, txg: u64) -> bool {
        self.dirty_files == 0 || (self.committed_txg >= txg && self.failing.is_none())
    }
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What happened and what to do, for people.
    pub message: String,
    /// Whether the request itself makes no sense (an unknown property), rather than the world
    /// being against it.
    pub is_usage: bool,
}

/// A change of a pool's datasets or properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// Makes a dataset.
    Create {
        /// Its name.
        dataset: String,
        /// Its path relative to the pool's top; by default its parent's with the last part of its
        /// name.
        #[serde(with = "wire_path::option")]
        path: Option<PathBuf>,
        /// Properties to set on it.
        properties: BTreeMap<String, String>,
    },
    /// Removes a dataset. Files are not touched.
    Destroy {
        /// Its name.
        dataset: String,
        /// With all datasets below it.
        recursive: bool,
    },
    /// Sets properties of a dataset, all of them or none.
    Set {
        /// Its name.
        dataset: String,
        /// Values by property.
        properties: BTreeMap<String, String>,
    },
    /// Takes a property off a dataset, so that it is inherited again.
    Inherit {
        /// Its name.
        dataset: String,
        /// The property.
        property: String,
        /// And off all datasets below it.
        recursive: bool,
    },
}

/// How long a change lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// For good: it is in the pool's settings file.
    Saved {
        /// The settings file.
        #[serde(with = "wire_path")]
        file: PathBuf,
    },
    /// Until the pool is unmounted: it has no settings file.
    UntilUnmount,
}

/// A dataset, as `list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetRow {
    /// Its name, from the pool down.
    pub name: String,
    /// Its path relative to the pool's top; empty for the pool's own dataset.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// Where its top is seen, if it is mounted.
    #[serde(with = "wire_path::option")]
    pub mountpoint: Option<PathBuf>,
    /// Bytes of contents that it has in RAM.
    pub data_bytes: u64,
    /// Bytes of metadata that it has in RAM.
    pub metadata_bytes: u64,
}

/// What to prime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prime {
    /// Files and directories, relative to the pool's top.
    #[serde(with = "wire_path::list")]
    pub paths: Vec<PathBuf>,
    /// Bytes a second that the origin may be read at; unbounded if absent.
    pub rate_bytes_per_second: Option<u64>,
    /// Only find out how much there is and how much of it fits.
    pub dry_run: bool,
}

/// What a running daemon serves. It lies as `NAME.json` beside the socket for as long as it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// The pool's name.
    pub pool: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The origin's directory.
    #[serde(with = "wire_path")]
    pub origin: PathBuf,
    /// Where the pool is mounted.
    #[serde(with = "wire_path")]
    pub mountpoint: PathBuf,
    /// The settings file, if the pool has one.
    #[serde(with = "wire_path::option")]
    pub settings: Option<PathBuf>,
    /// The device number of the mount, as `stat` tells it.
    pub device: u64,
    /// Where the daemon writes what it has to say, if it runs in the background.
    #[serde(with = "wire_path::option")]
    pub log: Option<PathBuf>,
}

/// How a pool is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The pool's name.
    pub pool: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The origin's directory.
    #[serde(with = "wire_path")]
    pub origin: PathBuf,
    /// Where it is mounted.
    #[serde(with = "wire_path")]
    pub mountpoint: PathBuf,
    /// Whether the mount has been taken out of the tree of names and waits for its last close.
    pub is_detached: bool,
    /// The settings file, if the pool has one.
    #[serde(with = "wire_path::option")]
    pub settings: Option<PathBuf>,
    /// Where the daemon writes what it has to say, if it runs in the background.
    #[serde(with = "wire_path::option")]
    pub log: Option<PathBuf>,
    /// The bytes of RAM that everything together may take.
    pub ceiling_bytes: u64,
    /// How that came about.
    pub ceiling: CeilingStatus,
    /// Resident bytes of the daemon.
    pub resident_bytes: u64,
    /// Whether every change is refused.
    pub read_only: bool,
    /// The model that slows the origin down, if any.
    pub slow: Option<String>,
    /// Control groups whose reads do not count as use.
    #[serde(with = "wire_path::list")]
    pub no_promote_cgroups: Vec<PathBuf>,
    /// The log device.
    pub log_device: Option<String>,
    /// Whether it is not where the next start will look for it.
    pub is_log_missing: bool,
    /// The cache devices.
    pub caches: Vec<CacheStatus>,
    /// How well they fit the load.
    pub advice: Option<CacheAdvice>,
    /// How writes go.
    pub writes: WriteStatus,
    /// What was brought back of what an earlier start had.
    pub restored: Restored,
    /// Seconds since what the cache holds was written down last, if it was.
    pub saved_seconds_ago: Option<f64>,
    /// Seconds since it was mounted.
    pub uptime_seconds: f64,
    /// The daemon's version.
    pub version: String,
    /// Counters of the pool, by name.
    pub counters: BTreeMap<String, u64>,
    /// Counters of each dataset, by its name.
    pub datasets: BTreeMap<String, BTreeMap<String, u64>>,
    /// What is not as it should be.
    pub warnings: Vec<String>,
}

/// How writes go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteStatus {
    /// Bytes that the origin does not have, or may lose again.
    pub dirty_bytes: u64,
    /// Most bytes of them; writers wait before that is exceeded.
    pub dirty_bytes_max: u64,
    /// About how many of them the origin has not taken yet: half of the most at most, and the
    /// nearer they come to that, the longer writers are delayed.
    pub waiting_bytes: u64,
    /// Files that they belong to.
    pub dirty_files: u64,
    /// The transaction group on its way to the origin, or else the open one.
    pub txg: Option<TxgRow>,
    /// The last one that the origin keeps.
    pub last_sync: Option<TxgRow>,
    /// How long the last writer that was slowed was delayed, microseconds.
    pub delay_us_last: u64,
    /// How long all have been, microseconds.
    pub delay_us: u64,
    /// Writes that were delayed.
    pub delayed_writes: u64,
    /// Why the origin does not take what is dirty, if it does not.
    pub failing: Option<String>,
    /// How long it has owed an answer, if that is long, seconds.
    pub silent_seconds: Option<f64>,
    /// Some of the files that wait for it then, relative to the pool's top.
    pub waiting: Vec<String>,
    /// The log device.
    pub log: Option<IntentLogStatus>,
    /// Whether a log device has failed and was given up.
    pub has_lost_log: bool,
}

/// A transaction group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TxgRow {
    /// Its number.
    pub number: u64,
    /// `open`, `quiescing`, `syncing`, `committed`, `refused` (of some files) or `failed`.
    pub state: String,
    /// How long it was open with changes.
    pub open_seconds: f64,
    /// Bytes of changes that it took.
    pub dirty_bytes: u64,
    /// Bytes that it has to write at most, with what an earlier one could not; 0 for the open one.
    #[serde(default)]
    pub due_bytes: u64,
    /// Files that had changes.
    pub files: u64,
    /// Bytes that it wrote to the origin.
    pub written_bytes: u64,
    /// In so many calls.
    pub writes: u64,
    /// How long they took.
    pub write_seconds: f64,
    /// How long the origin took to make them last.
    pub flush_seconds: f64,
    /// How long ago it ended.
    pub ended_seconds_ago: Option<f64>,
    /// Why it failed, or did not take the changes of some file.
    pub error: Option<String>,
}

/// How a log device does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntentLogStatus {
    /// Commits: calls of `fsync` and the like that came back.
    pub commits: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// How long commits took.
    pub latency: Latencies,
    /// Records that were written together, on average.
    pub batch_mean: f64,
    /// And at most.
    pub batch_max: u64,
    /// Bytes for records.
    pub ring_bytes: u64,
    /// Bytes of records that the origin does not have yet.
    pub used_bytes: u64,
    /// How often it was full.
    pub full: u64,
    /// How long its device has owed an answer, if that is long.
    pub silent_seconds: Option<f64>,
    /// Why it takes no more, if so.
    pub failed: Option<String>,
}

/// How long something took, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Half of all took at most this.
    pub p50_us: u64,
    /// 90 of 100.
    pub p90_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1000.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// How well cache devices fit the load; what is not known yet is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheAdvice {
    /// Reads of records since the pool was mounted.
    #[serde(default)]
    pub reads: u64,
    /// How many there have to be before anything is said of the load, while there are fewer.
    #[serde(default)]
    pub reads_needed: Option<u64>,
    /// Data that have been read again lately, bytes.
    pub active_bytes: Option<u64>,
    /// Active data by RAM and flash together; up to 1 they fit.
    pub key_ratio_1: Option<f64>,
    /// What the cache devices give a reader, bytes a second.
    pub flash_bytes_per_second: Option<f64>,
    /// What the origin gives a reader, bytes a second.
    pub origin_bytes_per_second: Option<f64>,
    /// Bandwidth of flash by that of the origin; above 1 streams gain as well.
    pub key_ratio_2: Option<f64>,
    /// RAM that the index takes for the first records, bytes.
    #[serde(default)]
    pub index_fixed_bytes: u64,
    /// RAM that the index takes beyond that, by the number of records, bytes; nothing while there
    /// are few.
    #[serde(default)]
    pub index_bytes_per_record: Option<f64>,
    /// The same for a GiB on flash, bytes.
    pub index_bytes_per_gib: Option<f64>,
    /// Until the devices are full, at the rate since the pool was mounted, seconds.
    pub fill_seconds: Option<f64>,
    /// Until the devices have been written as often as they are rated for, at that rate.
    pub life_years: Option<f64>,
}

/// How a cache device does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Where it is.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// `recovering`, `works`, `bypassed` after failures, `void` when it takes no tombstones,
    /// `stopped`, or `unavailable`.
    pub condition: String,
    /// What was found on it, or why it is not available.
    pub note: String,
    /// Bytes for records.
    pub data_bytes: u64,
    /// Bytes that records take, headers included, and what has died since.
    pub stored_bytes: u64,
    /// Bytes written since it was formatted.
    pub written_bytes: u64,
    /// What is left of the wear budget, bytes.
    pub credit_bytes: u64,
    /// Bytes in a segment.
    pub segment_bytes: u64,
    /// Segments in all.
    pub segments: u64,
    /// Segments that hold something.
    pub segments_used: u64,
    /// How long a read takes, microseconds.
    pub latency_us: u64,
    /// Reads go past the kernel's page cache, so that what is measured is the device.
    pub is_direct: bool,
    /// Its path leads to something else, or nowhere: the next start does not find it.
    #[serde(default)]
    pub is_gone: bool,
    /// How often it was bypassed.
    pub bypasses: u64,
    /// Why it is bypassed now, if it is.
    pub bypass: Option<CacheBypass>,
    /// Records that were not as they had been written, since the pool was mounted.
    #[serde(default)]
    pub damaged_records: u64,
    /// Segments given up for that, or found without their directory.
    #[serde(default)]
    pub damaged_segments: u64,
    /// How the last call that failed did so.
    #[serde(default)]
    pub fault: Option<CacheFault>,
    /// Set while reads go to the origin because that answers sooner.
    pub slower: Option<CacheSlower>,
    /// Drive writes a day that it is meant for; unlimited if absent.
    pub dwpd: Option<f64>,
}

/// That a cache device is left alone for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheBypass {
    /// What it did wrong, in words.
    pub reason: String,
    /// It is read from meanwhile: only writes have failed.
    #[serde(default)]
    pub is_read: bool,
    /// How long it has been left alone, seconds.
    pub since_seconds: f64,
    /// Until it is tried again, seconds.
    pub retry_seconds: f64,
}

/// How a call to a cache device failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFault {
    /// The error.
    pub error: String,
    /// What helps, in words, if anything does.
    pub remedy: Option<String>,
}

/// That the origin answers sooner than a cache device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheSlower {
    /// How long the origin was expected to take, microseconds.
    pub origin_us: u64,
    /// And the device, with what else it had to do, microseconds.
    pub device_us: u64,
    /// How long reads have gone to the origin, seconds.
    pub since_seconds: f64,
}

/// How the ceiling came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CeilingStatus {
    /// What was asked for: `auto`, a size or a share of the memory.
    pub setting: String,
    /// The ceiling now.
    pub bytes: u64,
    /// It never shrinks below this.
    pub floor_bytes: u64,
    /// It never grows above this.
    pub most_bytes: u64,
    /// The memory that this process can have.
    pub memory_bytes: u64,
    /// What bounds that.
    pub memory_source: String,
    /// What `auto` leaves free.
    pub buffer_bytes: u64,
    /// What can still be had without harm to other processes.
    pub available_bytes: u64,
    /// The last change.
    pub last_change: Option<CeilingChange>,
    /// How often it was lowered.
    pub shrinks: u64,
    /// How often it was raised.
    pub grows: u64,
    /// The files through which the kernel tells of memory pressure.
    pub pressure_sources: Vec<String>,
    /// What could not be read, and what counts instead.
    pub notes: Vec<String>,
}

/// A change of the ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CeilingChange {
    /// Before.
    pub from_bytes: u64,
    /// After.
    pub to_bytes: u64,
    /// Why, for people.
    pub reason: String,
    /// How long ago.
    pub seconds_ago: f64,
}

/// What became of a new setting of the ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CeilingSet {
    /// What was asked for.
    pub setting: String,
    /// The ceiling before.
    pub before_bytes: u64,
    /// The ceiling now.
    pub bytes: u64,
    /// What was resident of the daemon before.
    pub resident_before_bytes: u64,
    /// What is resident now.
    pub resident_bytes: u64,
    /// Whether what is resident fits under the ceiling, but for 32 MiB for the process itself, and
    /// nothing that is in use or waits for the origin is charged beyond it.
    pub is_given_back: bool,
    /// How long it took.
    pub elapsed_seconds: f64,
    /// What the operator should know of it.
    pub notes: Vec<String>,
}

/// A process that keeps a mount in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// How: `file`, `working directory`, `root directory`, `program`, `mapping`.
    pub how: String,
    /// The path concerned, where it is known.
    #[serde(with = "wire_path::option")]
    pub path: Option<PathBuf>,
}
