//! How a pool uses its intent log.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;
use storage::{Attributes, Entry, NodeKind, ObjectId, SetAttributes, SetTime};
use zil::{AppendError, Failed, Identity, Log, Made, Name, Place, Position, Record};

use crate::dirty::{Logged, ToLog, Told};
use crate::error::{EngineError, Result};
use crate::file::OpenFile;
use crate::flash::Renounce;
use crate::object::Object;
use crate::pool::Pool;
use crate::property::{LogBias, SyncMode, WriteMode};
use crate::write_back::Refused;

/// The part of the log that may be used before the open txg is closed early, as its divisor.
const CLOSE_SHARE: u64 = 4;
/// Most bytes of one file that are made to last by the log; more go to the origin at once: written
/// twice, a stream takes longer, and the log has no room left for those who wait for little. As
/// `zil_slog_bulk` of OpenZFS.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Bytes kept free of the log besides what is dirty.
const RESERVE_BYTES_MIN: u64 = 1 << 20;
/// How long records stay in the log of what the origin has taken, while it refuses something else:
/// a replay would put them over what somebody else has changed there since.
const KEPT_MAX: Duration = Duration::from_secs(60);
/// Times that an append waits for a commit that is to make room.
const ATTEMPTS_MAX: usize = 4;

/// How long a log device may keep a block before it is given up.
///
/// ```
/// // To look so often is soon enough.
/// let interval = warmfront::LOG_SILENCE_MAX / 10;
/// assert_eq!(interval.as_secs(), 1);
/// ```
pub const LOG_SILENCE_MAX: Duration = Duration::from_secs(10);

/// A pool's log device.
pub(crate) struct Intent {
    pub(crate) log: Arc<Log>,
    /// Notes, in a place that lasts, that the log must not be replayed.
    renounce: Renounce,
    /// Bytes that were appended since the last release.
    appended_bytes: AtomicU64,
    /// Since when it has records that would have been released, had the origin refused nothing.
    kept_since: Mutex<Option<Duration>>,
}

/// When the log is released of a group of which the origin has refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// At once: what was refused is logged anew.
    Now,
    /// When the log needs the room, or what has to be logged otherwise is more.
    WhenNeeded,
}

/// What has become of a group that was taken to the origin.
pub(crate) struct Taken<'a> {
    pub(crate) txg: u64,
    /// Files whose changes it keeps.
    pub(crate) written: &'a [Arc<Object>],
    /// Names or attributes were changed.
    pub(crate) names_changed: bool,
    pub(crate) refused: &'a [Refused],
}

/// What was made under a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MadeKind<'a> {
    File,
    Directory,
    Symlink(&'a OsStr),
    Node(NodeKind),
    /// Another name of what is there.
    Link,
}

impl Pool {
    /// Takes a log device in. It is empty.
    ///
    /// # Errors
    /// When what is under way could not be brought to the origin first.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::storage::MemoryDevice;
    /// use warmfront::zil::{Log, Opening, Options};
    ///
    /// let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
    /// let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: false };
    /// let clock = Arc::new(RealClock::new());
    /// let log = Log::format(device, opening, Options::default(), clock).await?;
    /// pool.add_log(Arc::new(log), Arc::new(|| Ok(()))).await?;
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// // The log has it now; the origin gets it within seconds.
    /// file.sync(false).await?;
    /// assert_eq!(pool.log_statistics().map(|log| log.commits), Some(1));
    /// pool.remove_log().await?;
    /// # Ok(()) }) }
    /// ```
    pub async fn add_log(self: &Arc<Self>, log: Arc<Log>, renounce: Renounce) -> Result<()> {
        let (appended_bytes, kept_since) = (AtomicU64::new(0), Mutex::default());
        let intent = Intent { log, renounce, appended_bytes, kept_since };
        // Names that were changed before are not in the log.
        self.unlogged();
        self.intent.store(Some(Arc::new(intent)));
        self.commit(self.write_back.txgs.open()).await
    }

    /// Stops using the log device, once the origin has everything.
    ///
    /// # Errors
    /// When it does not take everything. The log is then still in use.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_log(&pool).await?;
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// file.sync(false).await?;
    /// let log = pool.remove_log().await?.expect("there was one");
    /// assert!(!pool.is_dirty(), "the origin has what the log had");
    /// println!("{} commits", log.statistics().commits);
    /// # Ok(()) }) }
    /// ```
    pub async fn remove_log(self: &Arc<Self>) -> Result<Option<Arc<Log>>> {
        let Some(intent) = self.intent() else {
            if self.has_log_to_renounce() {
                self.commit(self.write_back.txgs.open()).await?;
            }
            *self.lost_log.lock() = None;
            return Ok(None);
        };
        self.write_back.names_changed();
        // Nothing is logged from here on, and who needs it to last waits for a commit.
        self.intent.store(None);
        self.unlogged();
        let position = intent.log.last();
        let emptied = match self.commit_all().await {
            Ok(()) => self.release_up_to(&intent, position).await,
            Err(error) => Err(error),
        };
        match emptied {
            Ok(()) => Ok(Some(intent.log.clone())),
            Err(error) => {
                self.intent.store(Some(intent));
                // What came to the origin meanwhile is newer than what the log tells of it.
                self.unlogged();
                Err(error)
            }
        }
    }

    /// How the log device does.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_log(&pool).await?;
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// file.sync(false).await?;
    /// let log = pool.log_statistics().expect("there is a log device");
    /// assert_eq!((log.commits, log.failures), (1, 0));
    /// # Ok(()) }) }
    /// ```
    pub fn log_statistics(&self) -> Option<zil::Statistics> {
        self.intent().map(|intent| intent.log.statistics())
    }

    pub(crate) fn intent(&self) -> Option<Arc<Intent>> {
        self.intent.load_full()
    }

    /// Notes that something was changed that the log does not tell: to make it last, the open txg
    /// has to be committed.
    pub(crate) fn unlogged(self: &Arc<Self>) {
        self.unlogged_txg.fetch_max(self.write_back.txgs.open(), Ordering::SeqCst);
        self.origin_changed();
    }

    /// Gives up a log whose device has failed.
    fn log_failed(self: &Arc<Self>, intent: &Arc<Intent>, failed: &dyn std::fmt::Display) {
        let pool = self.name();
        self.unlogged();
        if self.intent().is_some_and(|current| Arc::ptr_eq(&current, intent)) {
            tracing::error!(
                pool,
                error = %failed,
                "the log device failed; fsync waits for the origin from here on"
            );
            *self.lost_log.lock() = Some(LostLog { intent: intent.clone(), is_renounced: false });
            self.intent.store(None);
        }
    }

    /// Gives up the log with this id although its device takes what it is given, since a replay
    /// would not find it: `reason` says why. What it made last is brought to the origin.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_log(&pool).await?;
    /// pool.give_up_log([2; 16], "/dev/nvme0n1 was taken away");
    /// assert!(pool.has_lost_log());
    /// # Ok(()) }) }
    /// ```
    pub fn give_up_log(self: &Arc<Self>, id: [u8; 16], reason: &str) {
        let Some(intent) = self.intent().filter(|intent| intent.log.id() == id) else { return };
        self.give_up(&intent, &reason);
    }

    /// Gives up the log if its device has not answered for a while. The thread of a caller whom the
    /// device holds stays so; what the log made last is brought to the origin.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_log(&pool).await?;
    /// // To be called once in a while.
    /// pool.give_up_silent_log();
    /// assert!(!pool.has_lost_log(), "the device answers");
    /// # Ok(()) }) }
    /// ```
    pub fn give_up_silent_log(self: &Arc<Self>) {
        let Some(intent) = self.intent() else { return };
        if let Some(failed) = intent.log.give_up_overdue(LOG_SILENCE_MAX) {
            self.give_up(&intent, &failed);
        }
    }

    fn give_up(self: &Arc<Self>, intent: &Arc<Intent>, reason: &dyn std::fmt::Display) {
        self.log_failed(intent, reason);
        self.write_back.names_changed();
        // Should the origin not take it at once, it is tried again.
        self.took(0);
        self.tend();
        let pool = self.clone();
        self.spawn.spawn(Box::pin(async move {
            // Whoever waits for it is told.
            let _ = pool.commit(pool.write_back.txgs.open()).await;
        }));
    }

    /// Before anybody is told that something lasts without the log: sees to it that a log that was
    /// given up is never replayed.
    fn renounce_lost_log(&self) -> Result<()> {
        let mut lost = self.lost_log.lock();
        let Some(lost) = lost.as_mut().filter(|lost| !lost.is_renounced) else { return Ok(()) };
        (lost.intent.renounce)().map_err(|error| EngineError::Log {
            reason: format!("the log device failed, and that could not be noted: {error}"),
        })?;
        lost.is_renounced = true;
        Ok(())
    }

    /// Whether a log was given up that would still be replayed.
    pub(crate) fn has_log_to_renounce(&self) -> bool {
        self.lost_log.lock().as_ref().is_some_and(|lost| !lost.is_renounced)
    }

    /// Whether it is a log that makes changes last, also one that has failed and is not yet noted
    /// as given up.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// assert!(!pool.lasts_by_log());
    /// # add_log(&pool).await?;
    /// assert!(pool.lasts_by_log(), "a log device has been added");
    /// # Ok(()) }) }
    /// ```
    pub fn lasts_by_log(&self) -> bool {
        self.intent().is_some() || self.has_log_to_renounce()
    }

    /// Whether the log device has failed.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_log(&pool).await?;
    /// assert!(!pool.has_lost_log());
    /// pool.give_up_log([2; 16], "/dev/nvme0n1 was taken away");
    /// assert!(pool.has_lost_log(), "until it is removed, or another one is added");
    /// # Ok(()) }) }
    /// ```
    pub fn has_lost_log(&self) -> bool {
        self.lost_log.lock().is_some()
    }

    /// Whether all that had been changed `age` ago lasts at the origin, since the log device has
    /// failed. Who waits for the device to make it last need not.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_log(&pool).await?;
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// use std::time::{Duration, Instant};
    ///
    /// file.write(0, b"C").await?;
    /// let written = Instant::now();
    /// assert!(!pool.lasts_without_log(written.elapsed()), "it is the log that makes it last");
    /// pool.give_up_log([2; 16], "/dev/nvme0n1 was taken away");
    /// file.sync(false).await?;
    /// assert!(pool.lasts_without_log(written.elapsed()));
    /// # Ok(()) }) }
    /// ```
    pub fn lasts_without_log(&self, age: Duration) -> bool {
        self.has_lost_log()
            && !self.has_log_to_renounce()
            && self.write_back.txgs.is_kept(self.now().saturating_sub(age))
    }

    /// A path of an object from the pool's top directory: its names, separated by slashes.
    pub(crate) fn path_of(&self, object: &Object) -> OsString {
        let mut names = Vec::new();
        let mut next = object.place().parent.clone();
        while let Some((parent, name)) = next {
            names.push(name);
            next = self.objects.get(parent).and_then(|parent| parent.place().parent.clone());
            if names.len() > crate::pool::DEPTH_MAX {
                break;
            }
        }
        let mut path = OsString::new();
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push("/");
            }
            path.push(name);
        }
        path
    }

    /// Tells the log that something was made, before anybody can find it.
    pub(crate) async fn log_made(
        self: &Arc<Self>,
        directory: &Object,
        name: &OsStr,
        entry: &Entry,
        kind: MadeKind<'_>,
    ) {
        if self.intent().is_none() {
            return;
        }
        let path = self.path_of(directory);
        let attributes = entry.attributes;
        let made = Made {
            name: Name { parent: place(directory, &path), name },
            object: entry.object,
            born: attributes.born,
            permissions: attributes.permissions,
            uid: attributes.uid,
            gid: attributes.gid,
        };
        self.log_change(&match kind {
            MadeKind::File => Record::Create(made),
            MadeKind::Directory => Record::MakeDirectory(made),
            MadeKind::Symlink(target) => Record::Symlink { made, target },
            MadeKind::Node(kind) => Record::MakeNode { made, kind },
            MadeKind::Link => {
                let Some(object) = self.objects.get(entry.object) else { return self.unlogged() };
                if !self.is_findable(&object) {
                    // It had no name before, by which it would be found again.
                    return self.unlogged();
                }
                let path = self.path_of(&object);
                let record = Record::Link { object: place(&object, &path), name: made.name };
                return self.log_change(&record).await;
            }
        })
        .await;
    }

    /// Which object a name leads to, as a log tells it, and whether it has no other name. The
    /// origin is asked what is not `known`, if there is a log.
    pub(crate) async fn identity(
        &self,
        known: Option<&Object>,
        directory: &Object,
        name: &OsStr,
    ) -> (Identity, bool) {
        let told = |object, attributes: Attributes| {
            (Identity { object, born: attributes.born }, attributes.links <= 1)
        };
        if self.intent().is_none() {
            return (Identity::UNKNOWN, false);
        }
        if let Some(object) = known
            && object.version().is_settled_names()
        {
            return told(object.id, object.attributes());
        }
        let Ok(entry) = self.origin.lookup(directory.id, name).await else {
            return (Identity::UNKNOWN, false);
        };
        self.origin.forget(entry.object, 1);
        told(entry.object, entry.attributes)
    }

    /// Tells the log a change that has been made at the origin, under the locks that keep others
    /// from building on it.
    pub(crate) async fn log_change(self: &Arc<Self>, record: &Record<'_>) {
        self.append_change(record).await;
    }

    /// The same of a change of an object's contents or attributes.
    pub(crate) async fn log_change_of(self: &Arc<Self>, object: &Object, record: &Record<'_>) {
        if let Some((position, oldest)) = self.append_change(record).await {
            object.dirty.tell(position, oldest);
        }
    }

    /// Where the record of a change stands, and the oldest that has not been released.
    async fn append_change(self: &Arc<Self>, record: &Record<'_>) -> Option<(Position, Position)> {
        self.origin_changed();
        let intent = self.intent()?;
        match self.append(&intent, record).await {
            Ok(position) => Some((position, intent.log.oldest())),
            Err(_) => {
                self.unlogged();
                None
            }
        }
    }

    /// Before somebody is told that the origin has what he has changed of a file: sees to it that
    /// the log, if it tells anything older of the file, tells that as well. Otherwise a replay
    /// would bring back what was before.
    ///
    /// # Errors
    /// When neither the log nor the origin keeps it.
    pub(crate) async fn outdate_log(self: &Arc<Self>, object: &Arc<Object>) -> Result<()> {
        let txgs = &self.write_back.txgs;
        let Told { first, .. } = object.dirty.told();
        let Some(intent) = self.intent() else {
            return match self.has_log_to_renounce() && first > Position::NONE {
                true => self.commit(txgs.open()).await,
                false => Ok(()),
            };
        };
        if first < intent.log.oldest() {
            return Ok(());
        }
        let unlogged_bytes = object.dirty.unlogged_bytes();
        if self.unlogged_txg.load(Ordering::SeqCst) <= txgs.committed()
            && unlogged_bytes <= log_bytes_max(&intent)
            && self.log_object(&intent, object, unlogged_bytes > 0).await.is_ok()
        {
            let Told { first, last } = object.dirty.told();
            let is_told = first == last || !intent.log.may_last_alone(first);
            if is_told || self.commit_up_to(&intent, last).await.is_ok() {
                return Ok(());
            }
        }
        self.commit(txgs.open()).await
    }

    /// The path by which the log can speak of an object. If it has none that is known, notes that
    /// the log does not tell what has been changed.
    pub(crate) fn path_for_log(self: &Arc<Self>, object: &Object) -> Option<OsString> {
        if self.is_findable(object) {
            return Some(self.path_of(object));
        }
        self.unlogged();
        None
    }

    /// Whether a name of the object is known, by which a replay would find it.
    fn is_findable(&self, object: &Object) -> bool {
        object.id == self.root() || object.place().parent.is_some()
    }

    /// How much of the log has to stay free, bytes: so much that what the origin may refuse of what
    /// the log has can be logged anew, without which nothing could be released. That is no more
    /// than is dirty, nor than what the log has.
    fn reserve_bytes(&self, intent: &Intent) -> u64 {
        let dirty_bytes = self.write_back.budget.dirty_bytes();
        dirty_bytes.saturating_add(RESERVE_BYTES_MIN).min(intent.log.ring_bytes() / 2)
    }

    /// Appends a record of a change. It does not wait for a commit, which may need what the one who
    /// makes the change holds.
    async fn append(
        self: &Arc<Self>,
        intent: &Arc<Intent>,
        record: &Record<'_>,
    ) -> Result<Position> {
        for _ in 0..ATTEMPTS_MAX {
            match self.try_append(intent, record) {
                Ok(position) => return Ok(position),
                Err(AppendError::Full { .. }) => {
                    self.close_early();
                    break;
                }
                Err(error) => self.make_room(intent, error).await?,
            }
        }
        Err(EngineError::Log { reason: "the log is full".to_string() })
    }

    fn try_append(
        self: &Arc<Self>,
        intent: &Arc<Intent>,
        record: &Record<'_>,
    ) -> std::result::Result<Position, AppendError> {
        let position = intent.log.try_append_beside(record, self.reserve_bytes(intent))?;
        intent.count(record);
        if intent.appended_bytes.load(Ordering::Relaxed) > intent.log.ring_bytes() / CLOSE_SHARE {
            self.close_early();
        }
        Ok(position)
    }

    /// Does what helps when the log did not take a record.
    async fn make_room(self: &Arc<Self>, intent: &Arc<Intent>, error: AppendError) -> Result<()> {
        match error {
            AppendError::Busy => self.commit_oldest(intent).await,
            AppendError::Full { .. } => self.commit(self.write_back.txgs.open()).await,
            AppendError::Failed(failed) => {
                self.log_failed(intent, &failed);
                Err(EngineError::Log { reason: failed.to_string() })
            }
            error => Err(EngineError::Log { reason: error.to_string() }),
        }
    }

    /// Appends what no log has of a file.
    async fn log_object(
        self: &Arc<Self>,
        intent: &Arc<Intent>,
        object: &Arc<Object>,
        with_times: bool,
    ) -> Result<()> {
        let path = self.path_of(object);
        let file = place(object, &path);
        for _ in 0..ATTEMPTS_MAX {
            let txg = self.write_back.txgs.open();
            let what = if with_times { ToLog::All } else { ToLog::Contents };
            let taken = object.dirty.log(what, txg, |logged| {
                let position = self.try_append(intent, &logged.record(file))?;
                object.dirty.tell(position, intent.log.oldest());
                Ok(())
            });
            match taken {
                Ok(()) => return Ok(()),
                Err(error) => self.make_room(intent, error).await?,
            }
        }
        Err(EngineError::Log { reason: "the log stays full".to_string() })
    }

    /// Once a txg has been flushed at the origin: lets go of its records. Says whether that was
    /// done: if not, the log tells everything that the origin has taken as well.
    pub(crate) async fn release_log(
        self: &Arc<Self>,
        released: Option<(Position, Arc<Intent>)>,
        taken: &Taken<'_>,
        release: Release,
    ) -> Result<bool> {
        let Some((position, intent)) = released else {
            return self.renounce_lost_log().map(|()| true);
        };
        if release == Release::WhenNeeded && self.may_keep(&intent, taken) {
            self.relog(&intent, ToLog::All, taken.written.iter()).await?;
            if taken.names_changed || !taken.written.is_empty() {
                intent.kept_since.lock().get_or_insert_with(|| self.now());
            }
            return Ok(false);
        }
        // The log is released from its old end on: what the origin refused goes to its new end.
        let refused = || taken.refused.iter().map(|(object, _)| object);
        let promised_bytes: u64 = refused().map(|object| object.dirty.promised_bytes()).sum();
        if promised_bytes > intent.log.free_bytes() {
            // What is left of it is of use to others.
            return Err(EngineError::Log { reason: "the log is full".to_string() });
        }
        refused().for_each(|object| object.dirty.forget_logged());
        self.relog(&intent, ToLog::Promised, refused()).await?;
        intent.appended_bytes.store(0, Ordering::Relaxed);
        // A mark for people who look at the log.
        let _ = intent.log.try_append(&Record::Committed { txg: taken.txg });
        self.release_up_to(&intent, position).await?;
        *intent.kept_since.lock() = None;
        Ok(true)
    }

    /// Whether the log is better left as it is, since to release it what the origin refused would
    /// have to be logged anew.
    fn may_keep(&self, intent: &Intent, taken: &Taken<'_>) -> bool {
        let promised_bytes: u64 =
            taken.refused.iter().map(|(object, _)| object.dirty.promised_bytes()).sum();
        // What the log is not told lasts here and is older there, until it is released.
        let unlogged_bytes: u64 =
            taken.written.iter().map(|object| object.dirty.unlogged_bytes()).sum();
        let is_told = self.unlogged_txg.load(Ordering::SeqCst) <= self.write_back.txgs.committed()
            && taken.written.iter().all(|object| self.is_findable(object));
        let needed_bytes = self.reserve_bytes(intent).saturating_add(unlogged_bytes);
        let has_room = intent.log.free_bytes() >= needed_bytes;
        let gains_room = intent.appended_bytes.load(Ordering::Relaxed) + unlogged_bytes > 0;
        let kept = intent.kept_since.lock().map_or(Duration::ZERO, |since| self.now() - since);
        let costs_less = !taken.refused.is_empty() && unlogged_bytes <= promised_bytes;
        is_told && costs_less && (has_room || !gains_room) && kept < KEPT_MAX
    }

    /// Has the oldest record last that does not yet, for one who holds what others need.
    async fn commit_oldest(self: &Arc<Self>, intent: &Arc<Intent>) -> Result<()> {
        self.commit_up_to(intent, Position(intent.log.durable().0 + 1)).await
    }

    /// Has everything last that the log was told up to a record, for one who holds what others
    /// need.
    async fn commit_up_to(self: &Arc<Self>, intent: &Arc<Intent>, up_to: Position) -> Result<()> {
        let log = intent.log.clone();
        let outcome = self.beside(async move { log.commit(up_to).await }).await;
        self.heard_of(intent, outcome)
    }

    /// Lets the log forget everything up to a record.
    async fn release_up_to(self: &Arc<Self>, intent: &Arc<Intent>, up_to: Position) -> Result<()> {
        let log = intent.log.clone();
        let outcome = self.beside(async move { log.release(up_to).await }).await;
        self.heard_of(intent, outcome)
    }

    /// Lets the engine's threads do something with the log. A device that hangs may hold the thread
    /// of the one who writes to it; a call of theirs ends by its deadline.
    async fn beside<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (done, outcome) = oneshot::channel();
        self.spawn.spawn(Box::pin(async move {
            // Whoever asked may have given up.
            let _ = done.send(work.await);
        }));
        outcome.await.expect("what is spawned runs to its end")
    }

    /// Gives the log up if that failed.
    fn heard_of(
        self: &Arc<Self>,
        intent: &Arc<Intent>,
        outcome: std::result::Result<(), Failed>,
    ) -> Result<()> {
        outcome.map_err(|failed| {
            self.log_failed(intent, &failed);
            EngineError::Log { reason: failed.to_string() }
        })
    }

    /// Has everything last that the log was told so far.
    async fn commit_log(self: &Arc<Self>, intent: &Arc<Intent>) -> Result<()> {
        self.heard_of(intent, intent.log.commit(intent.log.last()).await)?;
        // One that has been given up meanwhile is not replayed.
        match self.intent().is_some_and(|current| Arc::ptr_eq(&current, intent)) {
            true => Ok(()),
            false => Err(EngineError::Log { reason: "it is not used any more".to_string() }),
        }
    }

    /// Appends what no log has of these files and makes it last, without waiting for a commit.
    async fn relog<'a>(
        self: &Arc<Self>,
        intent: &Arc<Intent>,
        what: ToLog,
        objects: impl Iterator<Item = &'a Arc<Object>>,
    ) -> Result<()> {
        let before = intent.log.last();
        for object in objects {
            let path = self.path_of(object);
            let file = place(object, &path);
            loop {
                let txg = self.write_back.txgs.open();
                let appended = object.dirty.log(what, txg, |logged| {
                    let record = logged.record(file);
                    let position = intent.log.try_append(&record)?;
                    intent.count(&record);
                    object.dirty.tell(position, intent.log.oldest());
                    Ok(())
                });
                match appended {
                    Ok(()) => break,
                    Err(AppendError::Busy) => self.commit_oldest(intent).await?,
                    Err(error) => return Err(EngineError::Log { reason: error.to_string() }),
                }
            }
        }
        match intent.log.last() {
            last if last > before => self.commit_up_to(intent, last).await,
            _ => Ok(()),
        }
    }

    /// Commits until nothing is dirty that was before.
    ///
    /// # Errors
    /// The first of the files that the origin refused, or why it takes nothing.
    pub(crate) async fn commit_all(self: &Arc<Self>) -> Result<()> {
        self.bring(self.write_back.txgs.open(), Release::WhenNeeded).await?;
        self.write_back.failure().map_or(Ok(()), Err)
    }

    /// Makes what was written to a file, and what led to it, last as `fsync` promises.
    pub(crate) async fn sync_object(
        self: &Arc<Self>,
        opened: &OpenFile,
        data_only: bool,
    ) -> Result<()> {
        let object = &opened.object;
        let properties = self.properties(object);
        if properties.sync == SyncMode::Disabled {
            return Ok(());
        }
        let txgs = &self.write_back.txgs;
        if let Some(intent) = self.intent() {
            let is_logged = self.unlogged_txg.load(Ordering::SeqCst) <= txgs.committed()
                && properties.logbias == LogBias::Latency
                && object.dirty.unlogged_bytes() <= log_bytes_max(&intent)
                && properties.write == WriteMode::Back
                && object.attributes().links > 0
                && self.is_findable(object);
            if is_logged && self.sync_by_log(&intent, object, data_only).await.is_ok() {
                return Ok(());
            }
        }
        let is_alone = self.intent().is_none() && !self.has_log_to_renounce();
        let is_untouched =
            !object.dirty.is_dirty() && object.dirty.touched_txg() <= txgs.committed();
        if is_alone || is_untouched {
            let file = opened.origin_file().await?;
            self.sync_alone(object, file, data_only).await?;
            return if is_alone { Ok(()) } else { self.sync_names(self.root()).await };
        }
        // The log has older data that must not come back over what it does not have.
        let txg = txgs.open();
        self.write_back.names_changed();
        self.commit(txg).await?;
        match object.dirty.is_due(txg) {
            true => self.write_back.failure().map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    async fn sync_by_log(
        self: &Arc<Self>,
        intent: &Arc<Intent>,
        object: &Arc<Object>,
        data_only: bool,
    ) -> Result<()> {
        self.log_object(intent, object, !data_only).await?;
        self.commit_log(intent).await
    }

    /// Makes names last, as `fsync` of a directory promises.
    pub(crate) async fn sync_names(self: &Arc<Self>, directory: ObjectId) -> Result<()> {
        let txgs = &self.write_back.txgs;
        let Some(intent) = self.intent() else {
            if self.has_log_to_renounce() {
                return self.commit(txgs.open()).await;
            }
            return Ok(self.origin.sync_directory(directory).await?);
        };
        let is_logged = self.unlogged_txg.load(Ordering::SeqCst) <= txgs.committed();
        if is_logged && self.commit_log(&intent).await.is_ok() {
            return Ok(());
        }
        self.commit(txgs.open()).await
    }

    /// Before a file takes the place of another: sees to it that its contents are found with its
    /// new name, also when nobody has asked for that.
    pub(crate) async fn keep_contents(self: &Arc<Self>, object: &Arc<Object>) -> Result<()> {
        if !object.dirty.is_dirty() {
            return Ok(());
        }
        if let Some(intent) = self.intent()
            && self.is_findable(object)
        {
            let (pool, object) = (self.clone(), object.clone());
            let by_log = async move { pool.sync_by_log(&intent, &object, true).await };
            if self.beside(by_log).await.is_ok() {
                return Ok(());
            }
        }
        // A file that the origin refuses is moved nevertheless: its contents are kept here.
        self.write_out(object).await.or(Ok(()))
    }
}

impl Intent {
    /// Notes that a record was appended.
    fn count(&self, record: &Record<'_>) {
        self.appended_bytes.fetch_add(record.data_bytes() + RECORD_BYTES, Ordering::Relaxed);
    }
}

impl<'a> Logged<'a> {
    /// The record that tells it of `file`.
    fn record(self, file: Place<'a>) -> Record<'a> {
        match self {
            Logged::Bytes(offset, data) => Record::Write { file, offset, data },
            Logged::Modified(modified) => {
                let modified = Some(SetTime::At(modified));
                let change = SetAttributes { modified, ..SetAttributes::default() };
                Record::SetAttributes { object: file, change }
            }
        }
    }
}

/// About what a record takes besides its data, bytes.
const RECORD_BYTES: u64 = 128;

/// Most bytes of one file that are made to last by a log.
fn log_bytes_max(intent: &Intent) -> u64 {
    LOG_BYTES_MAX.min(intent.log.ring_bytes() / 4)
}

/// A log device that has failed.
pub(crate) struct LostLog {
    intent: Arc<Intent>,
    is_renounced: bool,
}

/// An object as a record speaks of it.
pub(crate) fn place<'a>(object: &Object, path: &'a OsStr) -> Place<'a> {
    Place { object: object.id, born: object.attributes().born, path }
}
