//! How dirty data comes to the origin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{Attributes, ObjectId, OriginError, OriginFile, SetAttributes, SetTime};

use crate::chunk::Bytes;
use crate::dirty::{Departure, Write};
use crate::dirty_budget::DirtyBudget;
use crate::error::{EngineError, Result};
use crate::intent::{Release, Taken};
use crate::memory::Memory;
use crate::object::Object;
use crate::patience::{Patience, Waiting};
use crate::pool::Pool;
use crate::property::FailMode;
use crate::throttle::ThrottleStatistics;
use crate::txg::{Txg, TxgState, Txgs};

/// The age at which an open txg is closed. As `zfs_txg_timeout` of OpenZFS.
const TXG_AGE: Duration = Duration::from_secs(5);
/// Between two looks whether a txg has come of age.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Before an origin that did not take everything is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The largest write that is asked of the origin in one call.
const ORIGIN_WRITE_BYTES_MAX: u64 = 4 << 20;
/// Files that may be dirty: each keeps a file open at the origin.
const DIRTY_FILES_MAX: usize = 4096;
/// Files of a txg that are made durable one by one; with more, the whole origin is.
const FILE_SYNCS_MAX: usize = 32;
/// Between two looks of a writer whether there is room.
const ROOM_INTERVAL: Duration = Duration::from_millis(2);
/// How long a writer waits for room that an origin which fails, or does not answer, does not make.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(300);
/// How long the origin may owe an answer before it counts as one that does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long it may before that is told.
const SILENCE_TOLD: Duration = Duration::from_secs(10);
/// Between two looks whether a writer without room still wants to write.
const WRITER_INTERVAL: Duration = Duration::from_millis(50);
/// How long a writer waits for room before it may be interrupted, though it lives on.
const INTERRUPT_AFTER: Duration = Duration::from_secs(1);

/// Who writes, and how it is to be held up when there is no room.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) patience: &'a dyn Patience,
    pub(crate) mode: FailMode,
}

/// Dirty data of a pool.
pub(crate) struct WriteBack {
    pub(crate) txgs: Txgs,
    pub(crate) budget: Arc<DirtyBudget>,
    /// Files with dirty data. Each has one more use.
    files: Mutex<BTreeMap<ObjectId, Arc<Object>>>,
    /// Names or attributes have been changed at the origin since the last commit.
    names_changed: AtomicBool,
    /// Why the last commit failed.
    failing: Mutex<Option<EngineError>>,
}

impl WriteBack {
    pub(crate) fn new(memory: Arc<Memory>) -> WriteBack {
        WriteBack {
            txgs: Txgs::default(),
            budget: DirtyBudget::new(memory),
            files: Mutex::default(),
            names_changed: AtomicBool::new(false),
            failing: Mutex::default(),
        }
    }

    /// Why the last commit did not take everything.
    pub(crate) fn failure(&self) -> Option<EngineError> {
        self.failing.lock().clone()
    }

    /// Notes that names or attributes were changed at the origin, which may not keep that yet.
    pub(crate) fn names_changed(&self) {
        self.names_changed.store(true, Ordering::SeqCst);
    }
}

/// A file whose changes the origin did not take, and why.
pub(crate) type Refused = (Arc<Object>, EngineError);

/// What of a pool's data is not at the origin yet, and how that goes.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.write(0, b"C").await?;
/// let before = pool.write_back_statistics();
/// assert_eq!((before.dirty_files, before.failing), (1, None));
/// pool.sync().await?;
/// let after = pool.write_back_statistics();
/// assert!(after.dirty_files == 0 && after.committed_txg > before.committed_txg);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteBackStatistics {
    /// How writers are slowed.
    pub throttle: ThrottleStatistics,
    /// Files with dirty data.
    pub dirty_files: u64,
    /// The last transaction groups, the open one last.
    pub txgs: Vec<Txg>,
    /// The group that is open.
    pub open_txg: u64,
    /// Groups up to this one have been committed.
    pub committed_txg: u64,
    /// What the pool's clock says.
    pub now: Duration,
    /// Why the last commit failed, while none has succeeded since.
    pub failing: Option<String>,
    /// How long the origin has owed an answer, if that is long.
    pub silence: Option<Duration>,
}

impl Pool {
    /// What is not at the origin yet.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// let statistics = pool.write_back_statistics();
    /// assert_eq!(statistics.dirty_files, 1);
    /// # Ok(()) }) }
    /// ```
    pub fn write_back_statistics(&self) -> WriteBackStatistics {
        let txgs = &self.write_back.txgs;
        let files: Vec<_> = self.write_back.files.lock().values().cloned().collect();
        let is_in_open = |object: &&Arc<Object>| object.dirty.touched_txg() >= txgs.open();
        let files_in_open = files.iter().filter(is_in_open).count() as u64;
        WriteBackStatistics {
            throttle: self.write_back.budget.statistics(),
            dirty_files: files.len() as u64,
            txgs: txgs.history(self.now(), files_in_open),
            open_txg: self.write_back.txgs.open(),
            committed_txg: self.write_back.txgs.committed(),
            now: self.now(),
            failing: self.write_back.failing.lock().as_ref().map(ToString::to_string),
            silence: Some(txgs.silence(self.now())).filter(|silence| *silence >= SILENCE_TOLD),
        }
    }

    /// How writes go, as counters.
    pub(crate) fn write_back_counters(&self) -> [(&'static str, u64); 10] {
        let throttle = self.write_back.budget.statistics();
        let txgs = &self.write_back.txgs;
        let (number, state, age) = txgs.standing(self.now());
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        [
            ("dirty_bytes", throttle.dirty_bytes),
            ("dirty_bytes_max", throttle.dirty_bytes_max),
            ("dirty_files", self.write_back.files.lock().len() as u64),
            ("txg", number),
            ("txg_state", state as u64),
            ("txg_age_us", us(age)),
            ("txg_committed", txgs.committed()),
            ("throttle_writes", throttle.delayed_writes),
            ("throttle_us", us(throttle.delayed)),
            ("throttle_us_last", us(throttle.last_delay)),
        ]
    }

    /// Whether anything is not at the origin yet.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// assert!(pool.is_dirty());
    /// file.sync(false).await?;
    /// assert!(!pool.is_dirty());
    /// # Ok(()) }) }
    /// ```
    pub fn is_dirty(&self) -> bool {
        !self.write_back.files.lock().is_empty()
    }

    /// Paths of files that are not wholly at the origin yet, at most so many.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// assert_eq!(pool.dirty_paths(10), ["file"]);
    /// # Ok(()) }) }
    /// ```
    pub fn dirty_paths(&self, paths_max: usize) -> Vec<std::ffi::OsString> {
        let files: Vec<_> =
            self.write_back.files.lock().values().take(paths_max).cloned().collect();
        files.iter().map(|object| self.path_of(object)).collect()
    }

    /// Waits until a write may go on: slowed as dirty data nears its limit, and held up at it.
    async fn throttle(self: &Arc<Self>, bytes: u64, writer: Writer<'_>) -> Result<()> {
        let delay = self.write_back.budget.delay(bytes, self.now());
        if !delay.is_zero() {
            self.clock.sleep(delay).await;
        }
        self.wait_for_room(bytes, writer).await
    }

    /// Waits until there is room for so many bytes of dirty data.
    ///
    /// # Errors
    /// Why the origin takes no data, if `failmode` says so or it has been waited for long enough;
    /// [`EngineError::Interrupted`] when the writer does not want to wait any longer.
    pub(crate) async fn wait_for_room(
        self: &Arc<Self>,
        bytes: u64,
        Writer { patience, mode }: Writer<'_>,
    ) -> Result<()> {
        let budget = &self.write_back.budget;
        let bytes = bytes.min(budget.chunk_bytes_max());
        let began = self.now();
        let mut looked = began;
        while !budget.has_room(bytes) || self.write_back.files.lock().len() >= DIRTY_FILES_MAX {
            let now = self.now();
            if now - looked >= WRITER_INTERVAL {
                looked = now;
                match patience.waiting() {
                    Waiting::ToEnd if now - began < INTERRUPT_AFTER => {}
                    Waiting::On => {}
                    Waiting::ToEnd | Waiting::Nobody => return Err(EngineError::Interrupted),
                }
            }
            if (mode == FailMode::Continue || now - began >= ROOM_WAIT_MAX)
                && let Some(error) = self.why_no_room(now)
            {
                return Err(error);
            }
            self.close_early();
            self.clock.sleep(ROOM_INTERVAL).await;
        }
        Ok(())
    }

    /// Why the origin makes no room, if it is not merely slow.
    fn why_no_room(&self, now: Duration) -> Option<EngineError> {
        let is_silent = || self.write_back.txgs.silence(now) >= SILENCE_MAX;
        let failing = self.write_back.failing.lock().clone();
        failing
            .or_else(|| is_silent().then(|| OriginError::Unreachable { operation: "write" }.into()))
    }

    /// Takes in what was written to a file by the holder of the range, once there is room: at most
    /// [`chunk_bytes_max`](DirtyBudget::chunk_bytes_max).
    ///
    /// # Errors
    /// As [`wait_for_room`](Pool::wait_for_room).
    pub(crate) async fn take_write(
        self: &Arc<Self>,
        object: &Arc<Object>,
        file: &Arc<dyn OriginFile>,
        offset: u64,
        data: &Bytes<'_>,
        writer: Writer<'_>,
    ) -> Result<()> {
        loop {
            self.throttle(data.len(), writer).await?;
            if self.try_take(object, file, offset, data) {
                return Ok(());
            }
        }
    }

    fn try_take(
        self: &Arc<Self>,
        object: &Arc<Object>,
        file: &Arc<dyn OriginFile>,
        offset: u64,
        data: &Bytes<'_>,
    ) -> bool {
        let write_back = &self.write_back;
        let now = self.clock.time_of_day();
        let mut has_come = false;
        let taken = {
            let txg = write_back.txgs.enter();
            let Attributes { modified: last, size: clean_size, .. } = object.attributes();
            let write = Write { offset, data, now, last, clean_size, file };
            let came = || {
                has_come = true;
                self.objects.get_used(object.id);
                write_back.files.lock().insert(object.id, object.clone());
                if self.flash.is_in_use() {
                    self.flash.unsynced.ahead(object.id);
                }
            };
            let modified = object.dirty.write(&write, *txg, &write_back.budget, came);
            if let Some(modified) = modified {
                let (end, length) = (offset + data.len(), data.len());
                object.update(|version| version.write_ahead(end, length, modified));
            }
            modified.is_some()
        };
        if taken {
            self.took(data.len());
        }
        if has_come {
            self.tend();
        }
        taken
    }

    /// Notes that names or attributes were changed at the origin, which may not keep that yet. With
    /// a log device they last when their txg is committed, though nobody asks for it.
    pub(crate) fn origin_changed(self: &Arc<Self>) {
        self.write_back.names_changed();
        if self.intent().is_some() {
            self.took(0);
            self.tend();
        }
    }

    /// Whether a txg has anything to take to the origin.
    fn has_changes(&self) -> bool {
        let names_changed = || self.write_back.names_changed.load(Ordering::SeqCst);
        self.is_dirty()
            || (self.intent().is_some() && names_changed())
            || self.has_log_to_renounce()
    }

    /// Notes that the open txg has taken so many bytes.
    pub(crate) fn took(self: &Arc<Self>, bytes: u64) {
        let taken = self.write_back.txgs.took(bytes, self.now());
        if taken >= self.write_back.budget.close_bytes() {
            self.close_early();
        }
    }

    /// Sees to it that a txg is committed when it comes of age, for as long as there are any.
    pub(crate) fn tend(self: &Arc<Self>) {
        let txgs = &self.write_back.txgs;
        if txgs.is_tended.swap(true, Ordering::SeqCst) {
            return;
        }
        let (pool, clock) = (Arc::downgrade(self), self.clock.clone());
        self.spawn.spawn(Box::pin(async move {
            loop {
                clock.sleep(LOOK_INTERVAL).await;
                let Some(pool) = pool.upgrade() else { return };
                let txgs = &pool.write_back.txgs;
                if !pool.has_changes() {
                    txgs.is_tended.store(false, Ordering::SeqCst);
                    // Somebody may have come in between.
                    if !pool.has_changes() || txgs.is_tended.swap(true, Ordering::SeqCst) {
                        return;
                    }
                }
                let is_old = |since| pool.now().saturating_sub(since) >= TXG_AGE;
                let failed = pool.write_back.failing.lock().is_some();
                if failed || txgs.dirty_since().is_some_and(is_old) {
                    // It is tried again, and whoever waits for it is told.
                    let _ = pool.bring(txgs.open(), Release::WhenNeeded).await;
                }
                if failed {
                    clock.sleep(RETRY_INTERVAL).await;
                }
            }
        }));
    }

    /// Has the open txg closed before its time.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// pool.close_early();
    /// // The origin has it when somebody has asked for it, or soon.
    /// file.sync(false).await?;
    /// assert!(!pool.is_dirty());
    /// # Ok(()) }) }
    /// ```
    pub fn close_early(self: &Arc<Self>) {
        if self.write_back.txgs.is_closing_early.swap(true, Ordering::SeqCst) {
            return;
        }
        let pool = self.clone();
        self.spawn.spawn(Box::pin(async move {
            let txgs = &pool.write_back.txgs;
            // Whoever waits for it is told.
            let _ = pool.bring(txgs.open(), Release::WhenNeeded).await;
            if pool.write_back.failing.lock().is_some() {
                pool.clock.sleep(RETRY_INTERVAL).await;
            }
            txgs.is_closing_early.store(false, Ordering::SeqCst);
        }));
    }

    /// Returns once everything of the groups up to `txg` lasts at the origin, but for files that it
    /// refused, and no log tells anything older.
    ///
    /// # Errors
    /// What the origin said. Its changes go with the next group.
    pub(crate) async fn commit(self: &Arc<Self>, txg: u64) -> Result<()> {
        self.bring(txg, Release::Now).await
    }

    /// Brings the groups up to `txg` to the origin, as [`commit`](Pool::commit); the log may be
    /// released later if the origin refuses something.
    pub(crate) async fn bring(self: &Arc<Self>, txg: u64, release: Release) -> Result<()> {
        let txgs = &self.write_back.txgs;
        if txgs.committed() >= txg {
            return Ok(());
        }
        let _turn = txgs.turn.lock().await;
        if txgs.committed() >= txg {
            return Ok(());
        }
        let mut outcome = self.sync_open_txg(release).await;
        if outcome.is_err() && self.has_log_to_renounce() {
            // What was promised meanwhile is in a log that has just failed: it has to last at the
            // origin before that is given up.
            outcome = self.sync_open_txg(release).await;
        }
        let why = match &outcome {
            Ok(refused) => refused.first().map(|(_, error)| error.clone()),
            Err(error) => Some(error.clone()),
        };
        self.space_changed();
        let mut failing = self.write_back.failing.lock();
        let pool = self.name();
        match (&why, &*failing) {
            (Some(error), None) => {
                tracing::error!(pool, %error, "the origin does not take dirty data; it is kept");
            }
            (None, Some(_)) => tracing::info!(pool, "the origin takes dirty data again"),
            _ => {}
        }
        *failing = why;
        outcome.map(drop)
    }

    /// Closes the open txg and takes it to the origin. For the one who has the turn. Says which
    /// files' changes the origin did not take; these go with the next txg.
    async fn sync_open_txg(self: &Arc<Self>, release: Release) -> Result<Vec<Refused>> {
        let write_back = &self.write_back;
        let txgs = &write_back.txgs;
        let closing = || {
            let intent = self.intent().map(|intent| (intent.log.last(), intent));
            (intent, write_back.names_changed.swap(false, Ordering::SeqCst))
        };
        let (txg, (intent, names_changed)) = txgs.close(self.now(), closing);
        let files: Vec<_> = write_back.files.lock().values().cloned().collect();
        txgs.note(|txg| txg.files = files.len() as u64);
        let began = self.now();
        let (mut written, mut refused) = (Vec::new(), Vec::new());
        for object in files {
            match self.write_object(&object, txg).await {
                Ok(()) => written.push(object),
                Err(error) => refused.push((object, error)),
            }
        }
        let between = self.now();
        txgs.note(|txg| txg.writing = between - began);
        let flush_began = self.flash.unsynced.now();
        // What only a log made last that is about to be given up has to last here.
        let with_names = intent.is_some() || self.has_log_to_renounce();
        let flushed = match self.flush(&written, names_changed && with_names).await {
            Ok(()) => {
                txgs.heard_all();
                let taken = Taken { txg, written: &written, names_changed, refused: &refused };
                self.release_log(intent, &taken, release).await
            }
            Err(error) => Err(error),
        };
        let flushing = self.now() - between;
        write_back.budget.ended(flushing);
        txgs.note(|txg| txg.flushing = flushing);
        let is_released = match flushed {
            Ok(is_released) => is_released,
            Err(error) => {
                if names_changed {
                    write_back.names_changed();
                }
                // The log is full because of what the origin refuses.
                let error = refused.into_iter().next().map_or(error, |(_, cause)| cause);
                txgs.end(self.now(), TxgState::Failed, Some(error.to_string()));
                return Err(error);
            }
        };
        txgs.heard(self.now());
        for object in &written {
            self.settle(object, txg, flush_began).await;
        }
        if is_released {
            txgs.commit(txg);
        }
        let why = refused.first().map(|(_, error)| error.to_string());
        let state = if why.is_some() { TxgState::Refused } else { TxgState::Committed };
        txgs.end(self.now(), state, why);
        Ok(refused)
    }

    /// Writes what a group up to `txg` has to take of a file.
    ///
    /// # Errors
    /// Why the origin did not take it. Whoever has the file open will be told as well, unless the
    /// origin is merely out of reach.
    pub(crate) async fn write_object(&self, object: &Arc<Object>, txg: u64) -> Result<()> {
        if object.is_orphan() {
            self.discard(object);
            return Ok(());
        }
        let mut from = 0;
        loop {
            let _turn = object.dirty.turn.lock().await;
            let Some(Departure { run, file }) =
                object.dirty.depart(from, txg, ORIGIN_WRITE_BYTES_MAX)
            else {
                return self.write_times(object).await;
            };
            let length = run.len();
            from = run.offset + length;
            let began = self.now();
            let outcome = file.write_vectored(run.offset, &run.slices()).await;
            let took = self.now() - began;
            self.write_back.txgs.heard(self.now());
            object.dirty.arrived(run, outcome.is_ok());
            if let Err(error) = outcome {
                let is_unreachable = error.is_unreachable();
                let error = EngineError::from(error);
                if !is_unreachable {
                    object.dirty.failed(error.clone());
                }
                return Err(error);
            }
            self.write_back.budget.delivered(length, took);
            self.write_back.txgs.wrote(length);
        }
    }

    /// Tells the origin when a file was changed, as those who ask here are told.
    async fn write_times(&self, object: &Object) -> Result<()> {
        let Some((modified, file)) = object.dirty.take_times() else { return Ok(()) };
        let modified = Some(SetTime::At(modified));
        let change = SetAttributes { modified, ..SetAttributes::default() };
        file.set_attributes(change).await.map(drop).map_err(|error| {
            object.dirty.times_failed();
            error.into()
        })
    }

    /// Makes durable what was written of these files, and of names.
    async fn flush(&self, written: &[Arc<Object>], names: bool) -> Result<()> {
        let root = self.object(self.root())?;
        let files: Vec<_> = written
            .iter()
            .filter(|object| !self.properties(object).nocacheflush)
            .filter_map(|object| object.dirty.file())
            .collect();
        let is_flushed = !self.properties(&root).nocacheflush;
        if (names && is_flushed) || files.len() > FILE_SYNCS_MAX {
            return Ok(self.origin.sync().await?);
        }
        for file in files {
            file.sync(false).await?;
            self.write_back.txgs.heard(self.now());
        }
        Ok(())
    }

    /// Forgets what the origin keeps of a file: all that was written up to `txg`, before a flush
    /// that began at a moment.
    pub(crate) async fn settle(&self, object: &Arc<Object>, txg: u64, flush_began: u64) {
        let Some(file) = object.dirty.file() else { return };
        let _turn = object.attributes_turn.lock().await;
        let seen = file.attributes().await.ok();
        let now = self.now();
        self.write_back.txgs.heard(now);
        let gone = object.dirty.committed(txg, || {
            object.update(|version| version.settle_ahead(seen, now));
            self.flash.unsynced.caught_up(object.id);
            self.write_back.files.lock().remove(&object.id);
        });
        if gone.is_some() {
            self.flash.unsynced.synced(object.id, flush_began);
            self.release(object.id, 1);
        }
    }

    /// Forgets what is dirty of a file that nobody can read any more. Its id may have come back for
    /// another one by now: of that nothing is forgotten.
    pub(crate) fn discard(&self, object: &Arc<Object>) {
        let now = self.now();
        let clean = || {
            object.update(|version| version.settle_ahead(None, now));
            self.flash.unsynced.caught_up(object.id);
            self.write_back.files.lock().remove(&object.id);
        };
        let gone = object.dirty.discard(|| object.is_orphan(), clean);
        if gone.is_some() {
            self.release(object.id, 1);
        }
    }

    /// Takes a file's dirty data to the origin and makes it durable there, alone.
    ///
    /// # Errors
    /// What the origin said.
    pub(crate) async fn sync_alone(
        &self,
        object: &Arc<Object>,
        file: &dyn OriginFile,
        data_only: bool,
    ) -> Result<()> {
        let txg = self.write_back.txgs.open();
        self.write_object(object, txg).await?;
        let flush_began = self.flash.unsynced.now();
        {
            // What is written while the origin flushes may not be part of that.
            let _turn = object.dirty.turn.lock().await;
            if !self.properties(object).nocacheflush {
                file.sync(data_only).await?;
            }
        }
        self.flash.unsynced.synced(object.id, flush_began);
        self.settle(object, txg, flush_began).await;
        Ok(())
    }

    /// Sees to it that the origin has all of a file, though it may lose it again: before it is
    /// asked something about the contents.
    pub(crate) async fn write_out(&self, object: &Arc<Object>) -> Result<()> {
        match object.dirty.is_dirty() {
            true => self.write_object(object, u64::MAX).await,
            false => Ok(()),
        }
    }

    /// Recounts what is dirty.
    ///
    /// # Panics
    /// When lists do not agree.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// pool.validate_write_back();
    /// # Ok(()) }) }
    /// ```
    pub fn validate_write_back(&self) {
        let files: Vec<_> = self.write_back.files.lock().values().cloned().collect();
        files.iter().for_each(|object| object.dirty.validate());
    }
}
