mod disk;
mod recent;
mod remote;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Call, Clock, Layer, Layered, Origin, OriginError, Task};
use disk::Disk;
use remote::{Nfs, ObjectStore};

/// A kind of slow storage whose service times can be put before any origin.
///
/// The times are those of ordinary equipment and depend on the calls alone, so that a run is
/// repeated exactly on a virtual clock. They come on top of what the inner origin takes.
///
/// ```
/// use storage::SlowModel;
///
/// assert_eq!("nfs".parse(), Ok(SlowModel::Nfs));
/// assert_eq!(SlowModel::S3.to_string(), "s3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlowModel {
    /// One disk of 7200 revolutions a minute with a file system like ext4: one arm, whose seeks
    /// take 0.8 to 8.5 ms on average with the root of the distance, then half a revolution
    /// (4.17 ms), then 160 MB/s. Reading on where the last call ended costs the transfer only.
    /// Names of one directory lie near each other: looking up the next one costs a sixteenth of a
    /// short seek, since sixteen inodes share a block. Blocks of inodes and directories that were
    /// read lately are in memory and cost nothing. A change of a name reads the directory's block
    /// unless it is; what is new of it goes to the journal with the next flush, which takes an
    /// average seek and two half revolutions more.
    Hdd,
    /// A file server with disks, over Ethernet of 1 Gbit/s: 0.4 ms for each call there and back,
    /// 117 MB/s on a link that all calls share, and 6 ms at the server's disks for what it has
    /// not read lately. It reads ahead in files that are read in order.
    Nfs,
    /// An object store like S3: 20 to 30 ms to the first byte of each request, metadata included,
    /// then 90 MB/s for each stream; as many streams in parallel as are asked for. A listing is
    /// one request for each 1000 names.
    S3,
}

impl SlowModel {
    /// All models, in the order in which they are shown.
    ///
    /// ```
    /// let names: Vec<String> = storage::SlowModel::ALL.iter().map(ToString::to_string).collect();
    /// assert_eq!(names, ["hdd", "nfs", "s3"]);
    /// ```
    pub const ALL: [SlowModel; 3] = [SlowModel::Hdd, SlowModel::Nfs, SlowModel::S3];

    /// The model's name on the command line.
    ///
    /// ```
    /// assert_eq!(storage::SlowModel::Hdd.name(), "hdd");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            SlowModel::Hdd => "hdd",
            SlowModel::Nfs => "nfs",
            SlowModel::S3 => "s3",
        }
    }
}

impl std::fmt::Display for SlowModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is no [`SlowModel`]'s.
///
/// ```
/// let error = "tape".parse::<storage::SlowModel>().unwrap_err();
/// assert!(error.to_string().ends_with("use one of: hdd, nfs, s3"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no slow model {name:?}; use one of: hdd, nfs, s3")]
pub struct UnknownSlowModel {
    /// The name that was given.
    pub name: String,
}

impl FromStr for SlowModel {
    type Err = UnknownSlowModel;

    fn from_str(name: &str) -> Result<SlowModel, UnknownSlowModel> {
        let found = SlowModel::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| UnknownSlowModel { name: name.to_owned() })
    }
}

/// Makes origins that take the time of a [`SlowModel`].
///
/// ```
/// use std::sync::Arc;
/// use storage::{Clock, MemoryOrigin, Origin, Simulation, SlowModel, SlowOrigin};
///
/// let simulation = Simulation::new(1);
/// let (inner, clock) = (Arc::new(MemoryOrigin::new()), Arc::new(simulation.clone()));
/// let slow = SlowOrigin::new(inner, SlowModel::S3, clock);
/// let root = simulation.run(slow.root())?.object;
/// simulation.run(slow.list(root))?;
/// assert!(simulation.now().as_millis() >= 20, "a request takes that long");
/// # Ok::<(), storage::OriginError>(())
/// ```
#[derive(Debug)]
pub struct SlowOrigin;

impl SlowOrigin {
    /// Slows `inner` down; the waits pass on `clock`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use storage::{Clock, MemoryOrigin, Origin, Simulation, SlowModel, SlowOrigin};
    ///
    /// let simulation = Simulation::new(1);
    /// let (inner, clock) = (Arc::new(MemoryOrigin::new()), Arc::new(simulation.clone()));
    /// let slow = SlowOrigin::new(inner, SlowModel::S3, clock);
    /// let root = simulation.run(slow.root())?.object;
    /// assert!(simulation.run(slow.lookup(root, "nowhere".as_ref())).is_err());
    /// assert!(simulation.now().as_millis() >= 20, "to be told that takes as long");
    /// # Ok::<(), storage::OriginError>(())
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "a slow origin is a layered one")]
    pub fn new(
        inner: Arc<dyn Origin>,
        model: SlowModel,
        clock: Arc<dyn Clock>,
    ) -> Layered<Slowness> {
        let device: Box<dyn Device> = match model {
            SlowModel::Hdd => Box::new(Disk::default()),
            SlowModel::Nfs => Box::new(Nfs::default()),
            SlowModel::S3 => Box::new(ObjectStore),
        };
        Layered::new(inner, Slowness { clock, state: Mutex::new((device, Duration::ZERO)) })
    }
}

/// The equipment behind a slow origin: what it does for each call, and when it is done.
trait Device: Send {
    /// When a call that arrives at `now` is done.
    fn serve(&mut self, call: &Call, now: Duration) -> Duration;

    /// How much longer a listing takes for its number of names.
    fn listed(&self, names: u64) -> Duration;
}

/// The layer that makes an origin slow.
///
/// Each call waits until the device is done with it. What becomes known only afterwards, the
/// length of a listing, is waited for by the call that comes next.
///
/// ```
/// use std::sync::Arc;
/// use storage::{Clock, MemoryOrigin, Origin, Simulation, SlowModel, SlowOrigin};
///
/// let simulation = Simulation::new(1);
/// let (inner, clock) = (Arc::new(MemoryOrigin::new()), Arc::new(simulation.clone()));
/// let slow = SlowOrigin::new(inner, SlowModel::S3, clock);
/// let layer: &storage::Slowness = slow.layer();
/// # let _ = layer;
/// assert!(simulation.run(slow.root()).is_ok());
/// ```
pub struct Slowness {
    clock: Arc<dyn Clock>,
    /// The device, and the time that is owed.
    state: Mutex<(Box<dyn Device>, Duration)>,
}

impl Layer for Slowness {
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            let done = {
                let mut state = self.state.lock();
                let (device, owed) = &mut *state;
                let owed = std::mem::take(owed);
                device.serve(&call, now.saturating_add(owed))
            };
            let wait = done.saturating_sub(now);
            if !wait.is_zero() {
                self.clock.sleep(wait).await;
            }
            Ok(())
        })
    }

    fn after(&self, call: Call, outcome: Result<u64, &OriginError>) {
        if let (Call::List { .. }, Ok(names)) = (call, outcome) {
            let mut state = self.state.lock();
            let longer = state.0.listed(names);
            state.1 = state.1.saturating_add(longer);
        }
    }
}

/// The time that `bytes` take at `rate` bytes a second.
fn transfer(bytes: u64, rate: u64) -> Duration {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Spreads an object's id and an offset over 64 bits (the finaliser of splitmix64).
fn mix(object: u64, offset: u64) -> u64 {
    let mut x = object.rotate_left(32) ^ offset ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What a call asks of a device, with the many kinds of calls brought down to a few.
enum Work {
    /// Nothing but an answer.
    Answer,
    /// A name in a directory, with its inode.
    Name(crate::ObjectId),
    /// The names of a directory.
    Names(crate::ObjectId),
    /// An inode.
    Inode(crate::ObjectId),
    /// A change of a directory.
    Change(crate::ObjectId),
    /// Bytes of a file that are read.
    Read(crate::ObjectId, u64, u64),
    /// Bytes of a file that are written; without an offset at its end.
    Write(crate::ObjectId, Option<u64>, u64),
    /// Everything written until now made durable.
    Flush,
}

impl Work {
    fn of(call: &Call) -> Work {
        match *call {
            Call::Root | Call::Space | Call::Open { .. } | Call::Seek { .. } => Work::Answer,
            Call::FileAttributes { .. } => Work::Answer,
            Call::Lookup { parent } => Work::Name(parent),
            Call::List { object } => Work::Names(object),
            Call::Attributes { object }
            | Call::SetAttributes { object }
            | Call::SetFileAttributes { object }
            | Call::ReadLink { object }
            | Call::Xattr { object }
            | Call::Xattrs { object }
            | Call::SetXattr { object }
            | Call::RemoveXattr { object }
            | Call::Allocate { object, .. } => Work::Inode(object),
            Call::Create { parent }
            | Call::CreateUnnamed { parent }
            | Call::MakeDirectory { parent }
            | Call::MakeNode { parent }
            | Call::Symlink { parent }
            | Call::Link { parent, .. }
            | Call::Unlink { parent }
            | Call::RemoveDirectory { parent }
            | Call::Rename { new_parent: parent, .. } => Work::Change(parent),
            Call::Read { object, offset, length } => Work::Read(object, offset, length),
            Call::Write { object, offset, length } | Call::CopyFrom { object, offset, length } => {
                Work::Write(object, Some(offset), length)
            }
            Call::Append { object, length } => Work::Write(object, None, length),
            Call::Sync | Call::SyncFile { .. } | Call::SyncDirectory { .. } => Work::Flush,
        }
    }
}
