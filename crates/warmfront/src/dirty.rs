use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use storage::{OriginFile, Timestamp};
use zil::Position;

use crate::chunk::Bytes;
use crate::dirty_budget::DirtyBudget;
use crate::error::{EngineError, Result};
use crate::extents::{Extents, Piece, Run};

/// What of a file is newer than what the origin is known to keep.
#[derive(Default)]
pub(crate) struct Dirty {
    is_dirty: AtomicBool,
    state: Mutex<Option<State>>,
    /// Held over each change that the origin makes of the contents, so that none overtakes another.
    pub(crate) turn: futures::lock::Mutex<()>,
    /// Transaction groups up to this one may have taken changes of the contents, or log records of
    /// them, that are not committed.
    touched_txg: AtomicU64,
    /// What the log tells of the file.
    told: Mutex<Told>,
    /// Where the farthest change ends that the origin may have made and that is not kept here.
    reached: AtomicU64,
    failures: Mutex<Failures>,
}

struct State {
    extents: Extents,
    /// The file at the origin, open for writing.
    file: Arc<dyn OriginFile>,
    /// How long it was there when nothing was dirty, bytes.
    clean_size: u64,
    /// When the contents were last changed, or are said to have been.
    modified: Timestamp,
    /// The origin does not tell that time yet.
    times_due: bool,
    /// A log does not tell it yet.
    times_unlogged: bool,
}

/// Records of the log that tell contents or attributes of a file: the first that has not been
/// released, and the last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    pub(crate) first: Position,
    pub(crate) last: Position,
}

/// Writes to the origin that failed, of which those who have the file open are told once.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<EngineError>,
    /// Somebody has been told of the last one.
    is_told: bool,
}

/// A write to a file.
pub(crate) struct Write<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a Bytes<'a>,
    pub(crate) now: Timestamp,
    /// When a file that is not dirty was last changed.
    pub(crate) last: Timestamp,
    /// How long such a file is, bytes.
    pub(crate) clean_size: u64,
    /// The file at the origin, open for writing.
    pub(crate) file: &'a Arc<dyn OriginFile>,
}

/// A run on its way, with where it goes.
pub(crate) struct Departure {
    pub(crate) run: Run,
    pub(crate) file: Arc<dyn OriginFile>,
}

/// How much of what no log has is offered to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToLog {
    /// The bytes.
    Contents,
    /// These, and when they were changed.
    All,
    /// What has to be logged anew before what a log has promised is released.
    Promised,
}

/// What a log has to take, see [`Dirty::log`].
pub(crate) enum Logged<'a> {
    /// Bytes at an offset.
    Bytes(u64, &'a [u8]),
    /// The time of the last change.
    Modified(Timestamp),
}

impl Dirty {
    /// Whether there is anything.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::SeqCst)
    }

    /// Takes in a write to the open `txg`, if the budget has room for it, and says what time it
    /// has. When the file was clean, calls `came` before anybody can find it dirty.
    ///
    /// No two writes have the same time: a kernel that keeps pages drops them when it is told
    /// another one, and would keep those that were read between two writes of one tick.
    pub(crate) fn write(
        &self,
        write: &Write<'_>,
        txg: u64,
        budget: &Arc<DirtyBudget>,
        came: impl FnOnce(),
    ) -> Option<Timestamp> {
        let Write { offset, data, now, last, clean_size, file } = *write;
        let mut state = self.state.lock();
        let modified = now.following(state.as_ref().map_or(last, |state| state.modified));
        let appended = match &mut *state {
            Some(state) => match data {
                Bytes::Borrowed(data) => state.extents.append(offset, data, txg),
                Bytes::Record(_) => false,
            },
            None => false,
        };
        let chunk = if appended { None } else { budget.chunk(data) };
        if !appended && chunk.is_none() {
            return None;
        }
        if state.is_none() {
            came();
        }
        let state = state.get_or_insert_with(|| State {
            extents: Extents::default(),
            file: file.clone(),
            clean_size,
            modified,
            times_due: true,
            times_unlogged: true,
        });
        if let Some(chunk) = chunk {
            state.extents.insert(offset, chunk, txg);
        }
        (state.modified, state.times_due, state.times_unlogged) = (modified, true, true);
        self.touched(txg);
        self.is_dirty.store(true, Ordering::SeqCst);
        Some(modified)
    }

    /// What there is of the bytes of `range`, and where it is known that the origin has nothing any
    /// more: there is no end to that if nothing is dirty.
    pub(crate) fn snapshot_and_end(&self, range: Range<u64>) -> (Vec<(u64, Piece)>, u64) {
        match &*self.state.lock() {
            Some(state) => {
                let end = state.clean_size.max(self.reached.load(Ordering::SeqCst));
                (state.extents.snapshot(range), end)
            }
            None => (Vec::new(), u64::MAX),
        }
    }

    /// Notes that the origin may have bytes up to `end` that are not kept here.
    pub(crate) fn reaches(&self, end: u64) {
        self.reached.fetch_max(end, Ordering::SeqCst);
    }

    /// What there is of the bytes of `range`.
    pub(crate) fn snapshot(&self, range: Range<u64>) -> Vec<(u64, Piece)> {
        if !self.is_dirty() {
            return Vec::new();
        }
        self.state.lock().as_ref().map_or(Vec::new(), |state| state.extents.snapshot(range))
    }

    /// Forgets the bytes of `range`: the origin has been told what becomes of them.
    pub(crate) fn remove(&self, range: Range<u64>) {
        if let Some(state) = &mut *self.state.lock() {
            state.extents.remove(range);
        }
    }

    /// Notes a time of the last change that somebody has set.
    pub(crate) fn set_modified(&self, modified: Timestamp) {
        if let Some(state) = &mut *self.state.lock() {
            (state.modified, state.times_unlogged) = (modified, true);
        }
    }

    /// Notes that a change, or log records of one, belong to a group that is not committed.
    pub(crate) fn touched(&self, txg: u64) {
        self.touched_txg.fetch_max(txg, Ordering::SeqCst);
    }

    /// Notes a record of the log about the file; records before `oldest` have been released.
    pub(crate) fn tell(&self, position: Position, oldest: Position) {
        let told = &mut *self.told.lock();
        told.first = if told.first < oldest { position } else { told.first.min(position) };
        told.last = told.last.max(position);
    }

    /// What the log tells of the file.
    pub(crate) fn told(&self) -> Told {
        *self.told.lock()
    }

    /// The last group that has to be committed before the origin alone tells the truth.
    pub(crate) fn touched_txg(&self) -> u64 {
        self.touched_txg.load(Ordering::SeqCst)
    }

    /// The next bytes from `from` on that a group up to `txg` has to take to the origin.
    pub(crate) fn depart(&self, from: u64, txg: u64, bytes_max: u64) -> Option<Departure> {
        let mut state = self.state.lock();
        let state = state.as_mut()?;
        let run = state.extents.depart(from, txg, bytes_max)?;
        state.times_due = true;
        Some(Departure { run, file: state.file.clone() })
    }

    /// Notes that a run has come to the origin, or has not.
    pub(crate) fn arrived(&self, run: Run, succeeded: bool) {
        if let Some(state) = &mut *self.state.lock() {
            state.extents.arrived(&run, succeeded);
        }
    }

    /// Whether something has yet to be written by a group up to `txg`.
    pub(crate) fn is_due(&self, txg: u64) -> bool {
        self.state.lock().as_ref().is_some_and(|state| state.extents.is_due(txg))
    }

    /// The file at the origin.
    pub(crate) fn file(&self) -> Option<Arc<dyn OriginFile>> {
        self.state.lock().as_ref().map(|state| state.file.clone())
    }

    /// The time that the origin has to be told, and the file; it is told from here on.
    pub(crate) fn take_times(&self) -> Option<(Timestamp, Arc<dyn OriginFile>)> {
        let mut state = self.state.lock();
        let state = state.as_mut().filter(|state| state.times_due)?;
        state.times_due = false;
        Some((state.modified, state.file.clone()))
    }

    /// Says that the origin was not told the time after all.
    pub(crate) fn times_failed(&self) {
        if let Some(state) = &mut *self.state.lock() {
            state.times_due = true;
        }
    }

    /// Offers to `take` all that no log has, up to the first that it does not take. Says whether
    /// it took all.
    pub(crate) fn log<E>(
        &self,
        what: ToLog,
        txg: u64,
        mut take: impl FnMut(Logged<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut state = self.state.lock();
        let Some(state) = &mut *state else { return Ok(()) };
        let with_times = match what {
            ToLog::Contents => false,
            ToLog::All => true,
            ToLog::Promised => state.extents.promised_bytes() > 0,
        };
        state.extents.log(what == ToLog::Promised, |offset, piece| {
            take(Logged::Bytes(offset, piece.bytes()))?;
            self.touched_txg.fetch_max(txg, Ordering::SeqCst);
            Ok(())
        })?;
        if with_times && state.times_unlogged {
            take(Logged::Modified(state.modified))?;
            state.times_unlogged = false;
        }
        Ok(())
    }

    /// Bytes that a log has promised and the origin may not keep.
    pub(crate) fn promised_bytes(&self) -> u64 {
        self.state.lock().as_ref().map_or(0, |state| state.extents.promised_bytes())
    }

    /// Bytes that no log has.
    pub(crate) fn unlogged_bytes(&self) -> u64 {
        self.state.lock().as_ref().map_or(0, |state| state.extents.unlogged_bytes())
    }

    /// Forgets that a log has anything of it: what it has is about to be released.
    pub(crate) fn forget_logged(&self) {
        if let Some(state) = &mut *self.state.lock() {
            state.extents.forget_logged();
            state.times_unlogged = true;
        }
    }

    /// Forgets what the origin keeps, now that everything up to `txg` is committed. When nothing
    /// is left, calls `clean` before anybody can write again, and returns what that returns.
    pub(crate) fn committed<T>(&self, txg: u64, clean: impl FnOnce() -> T) -> Option<T> {
        let mut guard = self.state.lock();
        let state = guard.as_mut()?;
        self.reaches(state.extents.committed(txg));
        if !state.extents.is_empty() {
            return None;
        }
        *guard = None;
        self.is_dirty.store(false, Ordering::SeqCst);
        Some(clean())
    }

    /// Forgets everything, if nobody will ever read it: `is_orphan` is asked when nobody can write.
    /// As [`committed`](Dirty::committed).
    pub(crate) fn discard<T>(
        &self,
        is_orphan: impl FnOnce() -> bool,
        clean: impl FnOnce() -> T,
    ) -> Option<T> {
        let mut guard = self.state.lock();
        if !is_orphan() {
            return None;
        }
        guard.take()?;
        self.is_dirty.store(false, Ordering::SeqCst);
        Some(clean())
    }

    /// Notes that the origin did not take a write.
    pub(crate) fn failed(&self, error: EngineError) {
        let mut failures = self.failures.lock();
        failures.count += 1;
        failures.last = Some(error);
        failures.is_told = false;
    }

    /// How many failures somebody who opens the file now has been told of.
    pub(crate) fn failures_told(&self) -> u64 {
        let failures = self.failures.lock();
        if failures.is_told { failures.count } else { failures.count.saturating_sub(1) }
    }

    /// The last failure, if it is one that has not been told to the holder of `told`.
    pub(crate) fn tell_failure(&self, told: &AtomicU64) -> Result<()> {
        let mut failures = self.failures.lock();
        if told.swap(failures.count, Ordering::Relaxed) == failures.count {
            return Ok(());
        }
        failures.is_told = true;
        failures.last.clone().map_or(Ok(()), Err)
    }

    /// Recounts everything.
    pub(crate) fn validate(&self) {
        let state = self.state.lock();
        assert_eq!(state.is_some(), self.is_dirty(), "the flag agrees");
        if let Some(state) = &*state {
            state.extents.validate();
        }
    }
}

impl std::fmt::Debug for Dirty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dirty").field("is_dirty", &self.is_dirty()).finish_non_exhaustive()
    }
}
