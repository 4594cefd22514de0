use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// Transaction groups that are remembered after they have ended.
const TXG_HISTORY_MAX: usize = 100;

/// The transaction groups of a pool: one is open and takes changes, the one before it may be on its
/// way to the origin.
///
/// A change is made under a [hold](Txgs::enter) of the open group; [closing](Txgs::close) waits for
/// all holds (the group is then quiescing), so that every change belongs to one group as a whole.
#[derive(Debug)]
pub(crate) struct Txgs {
    open: RwLock<u64>,
    committed: AtomicU64,
    /// Bytes that the open group has taken.
    open_bytes: AtomicU64,
    /// When its first change came.
    dirty_since: Mutex<Option<Duration>>,
    /// Held by the one who brings a group to the origin.
    pub(crate) turn: futures::lock::Mutex<()>,
    /// Somebody looks after groups that have come of age.
    pub(crate) is_tended: AtomicBool,
    /// Somebody has been sent to close the open group early.
    pub(crate) is_closing_early: AtomicBool,
    history: Mutex<History>,
}

#[derive(Debug, Default)]
struct History {
    ended: VecDeque<Txg>,
    current: Option<Txg>,
    /// When the origin last answered a call for that one, or the first was made; nothing once it
    /// owes no more answers.
    heard: Option<Duration>,
    /// When the newest group was closed of which the origin keeps everything.
    kept: Option<Duration>,
    /// Bytes that the last one could not bring to the origin, at most.
    left_bytes: u64,
}

/// One transaction group.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// use warmfront::TxgState;
///
/// file.write(0, b"C").await?;
/// let open = pool.write_back_statistics().txgs.pop().expect("one is always open");
/// assert!(open.state == TxgState::Open && open.dirty_bytes > 0);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Txg {
    /// Its number.
    pub number: u64,
    /// Where it stands.
    pub state: TxgState,
    /// Bytes of changes that it took.
    pub dirty_bytes: u64,
    /// Bytes that it has to write at most: these, what the one before it could not bring to the
    /// origin, and what replaced that meanwhile.
    pub due_bytes: u64,
    /// Files that had changes.
    pub files: u64,
    /// Bytes that it has written to the origin so far.
    pub written_bytes: u64,
    /// In so many calls.
    pub writes: u64,
    /// How long it was open with changes.
    pub open: Duration,
    /// How long the writes to the origin took.
    pub writing: Duration,
    /// How long the origin took to make them last.
    pub flushing: Duration,
    /// When it was closed, by the pool's clock.
    pub closed: Option<Duration>,
    /// When it ended, by the pool's clock.
    pub ended: Option<Duration>,
    /// Why it failed, or which error the origin has refused changes with.
    pub error: Option<String>,
}

impl Txg {
    /// One that is on its way, with the times that have passed so far.
    fn so_far(mut self, now: Duration) -> Txg {
        let passed = self.closed.map_or(Duration::ZERO, |closed| now.saturating_sub(closed));
        match self.writing {
            Duration::ZERO => self.writing = passed,
            writing => self.flushing = passed.saturating_sub(writing),
        }
        self
    }
}

/// Where a transaction group stands.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// use warmfront::TxgState;
///
/// file.write(0, b"C").await?;
/// pool.sync().await?;
/// let txgs = pool.write_back_statistics().txgs;
/// assert!(txgs.iter().any(|txg| txg.state == TxgState::Committed));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TxgState {
    /// It takes changes.
    Open,
    /// It waits for changes that have begun.
    Quiescing,
    /// Its changes are on their way to the origin.
    Syncing,
    /// The origin keeps its changes.
    Committed,
    /// The origin refused the changes of some files: they go with the next one.
    Refused,
    /// None of them is known to last at the origin: they go with the next one.
    Failed,
}

impl TxgState {
    /// All of them.
    ///
    /// ```
    /// use warmfront::TxgState;
    ///
    /// let names: Vec<&str> = TxgState::ALL.iter().map(|state| state.name()).collect();
    /// assert_eq!(names[..3], ["open", "quiescing", "syncing"]);
    /// ```
    pub const ALL: [TxgState; 6] = [
        TxgState::Open,
        TxgState::Quiescing,
        TxgState::Syncing,
        TxgState::Committed,
        TxgState::Refused,
        TxgState::Failed,
    ];

    /// Its name.
    ///
    /// ```
    /// assert_eq!(warmfront::TxgState::Committed.name(), "committed");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            TxgState::Open => "open",
            TxgState::Quiescing => "quiescing",
            TxgState::Syncing => "syncing",
            TxgState::Committed => "committed",
            TxgState::Refused => "refused",
            TxgState::Failed => "failed",
        }
    }
}

/// The right to change something in the open group.
pub(crate) type TxgHold<'a> = RwLockReadGuard<'a, u64>;

impl Default for Txgs {
    fn default() -> Txgs {
        Txgs {
            open: RwLock::new(1),
            committed: AtomicU64::new(0),
            open_bytes: AtomicU64::new(0),
            dirty_since: Mutex::default(),
            turn: futures::lock::Mutex::default(),
            is_tended: AtomicBool::new(false),
            is_closing_early: AtomicBool::new(false),
            history: Mutex::default(),
        }
    }
}

impl Txgs {
    /// The number of the open group, which stays open as long as this is held.
    pub(crate) fn enter(&self) -> TxgHold<'_> {
        self.open.read()
    }

    /// The number of the group that is open at this moment.
    pub(crate) fn open(&self) -> u64 {
        *self.open.read()
    }

    /// Groups up to this one have been committed: the origin keeps all of them that it did not
    /// refuse, and no log tells anything older.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Notes that the open group has taken so many bytes; says how many it has by now.
    pub(crate) fn took(&self, bytes: u64, now: Duration) -> u64 {
        self.dirty_since.lock().get_or_insert(now);
        self.open_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Since when the open group has changes.
    pub(crate) fn dirty_since(&self) -> Option<Duration> {
        *self.dirty_since.lock()
    }

    /// Closes the open group, and opens the next one; `at_close` is called between the two. To be
    /// called by the one who has the [turn](Txgs::turn).
    pub(crate) fn close<T>(&self, now: Duration, at_close: impl FnOnce() -> T) -> (u64, T) {
        self.note(|txg| txg.state = TxgState::Quiescing);
        let mut open = self.open.write();
        let number = *open;
        let result = at_close();
        *open += 1;
        let since = self.dirty_since.lock().take();
        let dirty_bytes = self.open_bytes.swap(0, Ordering::Relaxed);
        drop(open);
        let mut history = self.history.lock();
        history.heard = Some(now);
        let left_bytes = history.left_bytes;
        history.current = Some(Txg {
            number,
            state: TxgState::Syncing,
            dirty_bytes,
            due_bytes: dirty_bytes + left_bytes,
            files: 0,
            written_bytes: 0,
            writes: 0,
            open: since.map_or(Duration::ZERO, |since| now.saturating_sub(since)),
            writing: Duration::ZERO,
            flushing: Duration::ZERO,
            closed: Some(now),
            ended: None,
            error: None,
        });
        (number, result)
    }

    /// Notes that the origin has answered.
    pub(crate) fn heard(&self, now: Duration) {
        self.history.lock().heard = Some(now);
    }

    /// Notes that the origin has answered all that it was asked.
    pub(crate) fn heard_all(&self) {
        self.history.lock().heard = None;
    }

    /// How long the origin has owed an answer to the group that is on its way.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        let history = self.history.lock();
        let since = history.current.as_ref().and(history.heard);
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Whether the origin keeps everything that had been changed at a moment.
    pub(crate) fn is_kept(&self, moment: Duration) -> bool {
        self.history.lock().kept.is_some_and(|kept| kept > moment)
    }

    /// Notes something of the group that is on its way.
    pub(crate) fn note(&self, note: impl FnOnce(&mut Txg)) {
        if let Some(txg) = &mut self.history.lock().current {
            note(txg);
        }
    }

    /// Notes that the origin has taken so many bytes of the group that is on its way.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.note(|txg| {
            txg.writes += 1;
            txg.written_bytes += bytes;
            txg.due_bytes = txg.due_bytes.max(txg.written_bytes);
        });
    }

    /// Notes that groups up to this one are committed.
    pub(crate) fn commit(&self, number: u64) {
        self.committed.store(number, Ordering::SeqCst);
    }

    /// Ends the group that is on its way, and says why if it was not taken as a whole.
    pub(crate) fn end(&self, now: Duration, state: TxgState, error: Option<String>) {
        let mut history = self.history.lock();
        let Some(mut txg) = history.current.take() else { return };
        (txg.state, txg.error) = (state, error);
        txg.ended = Some(now);
        if state == TxgState::Committed {
            history.kept = txg.closed;
        }
        history.left_bytes = match state {
            TxgState::Refused => txg.due_bytes - txg.written_bytes,
            TxgState::Failed => txg.due_bytes,
            _ => 0,
        };
        let has_changes = |txg: &Txg| txg.dirty_bytes > 0 || txg.writes > 0;
        if has_changes(&txg) || txg.error.is_some() {
            // Of many attempts in a row that come to nothing, the last one tells enough.
            let is_again = |last: &&Txg| !has_changes(last) && last.error == txg.error;
            if !has_changes(&txg) && history.ended.back().is_some_and(|last| is_again(&last)) {
                history.ended.pop_back();
            }
            history.ended.push_back(txg);
            if history.ended.len() > TXG_HISTORY_MAX {
                history.ended.pop_front();
            }
        }
    }

    /// The last groups that had changes, the open one, with changes of so many files, last.
    pub(crate) fn history(&self, now: Duration, files: u64) -> Vec<Txg> {
        let open = Txg {
            number: self.open(),
            state: TxgState::Open,
            dirty_bytes: self.open_bytes.load(Ordering::Relaxed),
            due_bytes: 0,
            files,
            written_bytes: 0,
            writes: 0,
            open: self.dirty_since().map_or(Duration::ZERO, |since| now.saturating_sub(since)),
            writing: Duration::ZERO,
            flushing: Duration::ZERO,
            closed: None,
            ended: None,
            error: None,
        };
        let history = self.history.lock();
        let current = history.current.clone().map(|txg| txg.so_far(now));
        history.ended.iter().cloned().chain(current).chain([open]).collect()
    }

    /// The group nearest to the origin: its number, where it stands, and the age of its changes.
    pub(crate) fn standing(&self, now: Duration) -> (u64, TxgState, Duration) {
        if let Some(txg) = &self.history.lock().current {
            let since_closed = txg.closed.map_or(Duration::ZERO, |at| now.saturating_sub(at));
            return (txg.number, txg.state, txg.open + since_closed);
        }
        let age = self.dirty_since().map_or(Duration::ZERO, |since| now.saturating_sub(since));
        (self.open(), TxgState::Open, age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a group could not bring to the origin goes with the next one, and is counted there.
    #[test]
    fn no_group_writes_more_than_is_due() {
        let txgs = Txgs::default();
        let second = Duration::from_secs;
        let due = || txgs.history(second(9), 0).iter().rev().nth(1).map(|txg| txg.due_bytes);
        let turns = [
            (12, 4, TxgState::Refused, 12),
            (9, 8, TxgState::Failed, 17),
            (4, 21, TxgState::Refused, 21),
            // What replaces what an older group has yet to write goes with that one.
            (5, 6, TxgState::Committed, 6),
            (7, 7, TxgState::Committed, 7),
        ];
        for (took, wrote, state, expected) in turns {
            txgs.took(took, second(1));
            txgs.close(second(2), || ());
            txgs.wrote(wrote);
            assert_eq!(due(), Some(expected));
            txgs.end(second(3), state, None);
            assert_eq!(due(), Some(expected));
        }
    }

    #[test]
    fn a_group_on_its_way_tells_how_long_that_has_taken() {
        let txgs = Txgs::default();
        let second = Duration::from_secs;
        txgs.took(7, second(1));
        let first = txgs.open();
        assert_eq!(txgs.standing(second(3)), (first, TxgState::Open, second(2)));
        txgs.close(second(4), || ());
        txgs.took(7, second(5));
        assert_eq!(txgs.standing(second(6)), (first, TxgState::Syncing, second(5)));
        assert_eq!(txgs.silence(second(6)), second(2));
        txgs.heard(second(5));
        assert_eq!(txgs.silence(second(6)), second(1));
        let times = |now| {
            let syncing = &txgs.history(now, 0)[0];
            (syncing.writing, syncing.flushing)
        };
        assert_eq!(times(second(6)), (second(2), Duration::ZERO), "it is being written");
        txgs.note(|txg| txg.writing = second(3));
        assert_eq!(times(second(9)), (second(3), second(2)), "it is being flushed");
        txgs.heard_all();
        assert_eq!(txgs.silence(second(9)), Duration::ZERO, "something else is waited for");
        txgs.end(second(9), TxgState::Committed, None);
        assert_eq!(txgs.silence(second(100)), Duration::ZERO, "nothing was asked");
        assert!(txgs.is_kept(second(3)) && !txgs.is_kept(second(4)), "it was closed then");
        txgs.close(second(10), || ());
        txgs.end(second(11), TxgState::Refused, Some("full".to_string()));
        assert!(!txgs.is_kept(second(9)));
    }
}
