//! Bringing an origin to where its log is.
//!
//! **What a crash leaves.** Names and attributes are changed at the origin at once and logged right
//! after; what is written reaches the origin with its transaction group. So the origin holds
//! anything between nothing of what the log tells and all names and attributes of it with a part of
//! the data; it may even be ahead of the log by changes of names that were not logged in time.
//!
//! **How it is repaired.** The log is read twice. First for names alone: the [`Ledger`] knows each
//! object by id and birth, all names that it had, and where it is in the end. Objects are looked
//! for under those names, at their recorded paths, then in the directories that the log names, at
//! last everywhere. What was made and is not there is made anew, under a name of its own that no
//! one else uses. Then the log is read for all other changes, and each is applied to its object;
//! since all are applied, in their order, it does not matter which of them the origin had already.
//! All that lasts before the first name is changed: whoever is renamed over another file is whole.
//! Then names are brought to where the log leads, and the names that were lent are taken away.
//! Only when that lasts too, the log is told. A replay that is stopped begins again and finds by
//! their lent names what it had made.
//!
//! **What it never does.** No name is changed that the log does not speak of, and none that leads
//! to an object which is not, by id and birth, the one that the log says was there. Where an origin
//! does not tell births, ids decide what is written to and moved, but nothing is removed or
//! replaced. An object that has a name which the log does not know was given it after the last
//! record: its names are left alone. What could not be done is reported with path and reason.
//!
//! **What it asks of who writes the log.** A change that takes something away of a file's contents
//! (a smaller size, a hole) has to last in the log before it is made at the origin, if the log
//! holds older contents of the file: else these would come back without it. Records that remove or
//! replace a name say truly whether it was the last one. Names that were changed and never
//! committed cost a search of the whole origin, at most once for each replay.

mod apply;
mod find;
mod ledger;
mod make;
mod report;
mod settle;

use std::collections::HashMap;

use storage::{ObjectId, Origin, OriginError};
use zil::{Found, Recovery};

use apply::LeftOut;
use find::Fate;
use ledger::{ENTRIES_MAX, Index, Ledger};
pub use report::{Replayed, SkipReason, Skipped};

/// What is known about a replay before it begins.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_crash(async |origin, mut recovery| {
/// use warmfront::{ReplayOptions, replay};
///
/// // The machine has stayed up: names are as the process left them.
/// let options = ReplayOptions { names_lasted: true };
/// let report = replay(&*origin, &mut recovery, options, &|_so_far| ()).await?;
/// assert_eq!((report.named, report.unnamed), (0, 0));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayOptions {
    /// The origin holds all names and attributes that it ever had, since only the process was
    /// killed: what is missing has been removed, and no name is changed.
    pub names_lasted: bool,
}

/// How far a replay is.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_crash(async |origin, mut recovery| {
/// use warmfront::{ReplayOptions, ReplayProgress, replay};
///
/// let tell = |progress: ReplayProgress| match progress {
///     ReplayProgress::Reading { done, records } => println!("read {done} of {records}"),
///     ReplayProgress::Applying { done, records } => println!("applied {done} of {records}"),
///     other => println!("{other:?}"),
/// };
/// replay(&*origin, &mut recovery, ReplayOptions::default(), &tell).await?;
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayProgress {
    /// Records that were read for the names in them.
    Reading {
        /// How many.
        done: u64,
        /// Of how many.
        records: u64,
    },
    /// Names that were looked at all over the origin to find objects that are missing.
    Searching {
        /// How many.
        names: u64,
    },
    /// Records that were applied.
    Applying {
        /// How many.
        done: u64,
        /// Of how many.
        records: u64,
    },
    /// Names are brought to where the log leads, and made to last.
    Settling,
}

/// Is told how far a replay is.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_crash(async |origin, mut recovery| {
/// use warmfront::{ReplayOptions, TellReplay, replay};
///
/// let quiet: TellReplay<'_> = &|_so_far| ();
/// replay(&*origin, &mut recovery, ReplayOptions::default(), quiet).await?;
/// # Ok(()) }) }
/// ```
pub type TellReplay<'a> = &'a (dyn Fn(ReplayProgress) + Send + Sync);

/// Why a log could not be replayed. Nothing of it is given up; it may be tried again.
///
/// ```
/// let error = warmfront::ReplayError::OtherOrigin { logged: 2, found: 7 }.to_string();
/// assert!(error.ends_with("mount the right one"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log could not be read.
    #[error("the log can not be replayed: {0}")]
    Log(#[from] zil::ReplayError),
    /// The origin did not take a change.
    #[error("the origin refuses what the log tells of {path:?}: {error}; make it take that")]
    Origin {
        /// What was to be changed.
        path: std::ffi::OsString,
        /// What the origin said.
        error: OriginError,
    },
    /// The origin is another one than when the log was written.
    #[error(
        "the log was written for an origin whose top directory is object {logged}, here it is \
         object {found}; mount the right one"
    )]
    OtherOrigin {
        /// Id of the top directory in the log.
        logged: u64,
        /// Id of the top directory here.
        found: u64,
    },
    /// The log speaks of too much.
    #[error("the log speaks of more than {limit} objects and names, which is too much to replay")]
    TooMuch {
        /// The most.
        limit: usize,
    },
}

/// Brings `origin` to where the log is that was opened as `recovery`, up to its last good record,
/// and notes in the log that it has lasted there. May be stopped at any moment and begun again.
///
/// Memory is taken for each object and each name that the log speaks of, not for data.
///
/// # Errors
/// When log or origin fail. What could not be done for reasons that stay is no error: see
/// [`Replayed::skipped`].
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_crash(async |origin, mut recovery| {
/// use warmfront::storage::Origin;
/// use warmfront::{ReplayOptions, replay};
///
/// let report = replay(&*origin, &mut recovery, ReplayOptions::default(), &|_so_far| ()).await?;
/// assert_eq!((report.data_bytes, report.skipped_count), (10, 0));
/// # let root = origin.root().await?.object;
/// let file = origin.lookup(root, "file".as_ref()).await?;
/// assert_eq!(file.attributes.size, 18, "with what only the log had");
/// // Now the log can be used anew.
/// let log = recovery.finish().await?;
/// # Ok(()) }) }
/// ```
pub async fn replay(
    origin: &dyn Origin,
    recovery: &mut Recovery,
    options: ReplayOptions,
    tell: TellReplay<'_>,
) -> Result<Replayed, ReplayError> {
    let found = recovery.found().clone();
    let mut report = Replayed::new(&found);
    if found.records() == 0 {
        return Ok(report);
    }
    let mut ledger = Ledger::default();
    read(recovery, &found, &mut ledger, &mut report, tell).await?;
    ledger.finish();
    let root = origin.root().await.map_err(|error| at("", error))?;
    let mut replay = Replay {
        origin,
        fates: (0..ledger.things.len()).map(|_| Fate::Unknown).collect(),
        ledger,
        held: vec![root.object],
        root: root.object,
        made_anew: HashMap::new(),
        left_out: HashMap::new(),
        occupied: HashMap::new(),
        all_made: false,
        lent_unseen: Vec::new(),
        set_aside_count: 0,
        options,
        report,
        tell,
    };
    let outcome = replay.run(recovery, &found).await;
    for object in replay.held.drain(..) {
        origin.forget(object, 1);
    }
    outcome?;
    Ok(replay.report)
}

/// A replay under way.
struct Replay<'a> {
    origin: &'a dyn Origin,
    ledger: Ledger,
    /// What has become of each thing.
    fates: Vec<Fate>,
    /// References to give back.
    held: Vec<ObjectId>,
    root: ObjectId,
    /// The things that were made anew, by the ids that they got.
    made_anew: HashMap<ObjectId, Index>,
    /// What was left out of things that are nowhere.
    left_out: HashMap<Index, LeftOut>,
    /// Why things that are nowhere could not be made.
    occupied: HashMap<Index, SkipReason>,
    /// Whether all is made that will be.
    all_made: bool,
    /// Things that were found before the directory in which they may have a lent name.
    lent_unseen: Vec<Index>,
    /// How often something was moved to a name that it was lent.
    set_aside_count: u64,
    options: ReplayOptions,
    report: Replayed,
    tell: TellReplay<'a>,
}

/// How many records are read before it is told how far it is.
const TELL_RECORDS: u64 = 1024;

async fn read(
    recovery: &mut Recovery,
    found: &Found,
    ledger: &mut Ledger,
    report: &mut Replayed,
    tell: TellReplay<'_>,
) -> Result<(), ReplayError> {
    recovery.rewind();
    let (records, mut done) = (found.records(), 0);
    while let Some((position, record)) = recovery.next().await? {
        ledger.note(position, &record);
        report.note(&record);
        if ledger.entries() > ENTRIES_MAX {
            return Err(ReplayError::TooMuch { limit: ENTRIES_MAX });
        }
        done += 1;
        if done % TELL_RECORDS == 0 || done == records {
            tell(ReplayProgress::Reading { done, records });
        }
    }
    Ok(())
}

impl Replay<'_> {
    async fn run(&mut self, recovery: &mut Recovery, found: &Found) -> Result<(), ReplayError> {
        self.find_all().await?;
        if !self.options.names_lasted {
            self.make_missing().await?;
        }
        self.apply(recovery, found).await?;
        (self.tell)(ReplayProgress::Settling);
        self.sync().await?;
        if !self.options.names_lasted {
            self.settle().await?;
            self.sync().await?;
            self.take_lent_names().await?;
            self.sync().await?;
        }
        self.report_missing().await?;
        Ok(recovery.applied(found.last).await?)
    }

    async fn sync(&self) -> Result<(), ReplayError> {
        self.origin.sync().await.map_err(|error| at("", error))
    }

    /// An error of the origin that has to do with a thing.
    fn failed(&self, index: Index, error: OriginError) -> ReplayError {
        ReplayError::Origin { path: self.ledger.path(index), error }
    }
}

fn at(path: &str, error: OriginError) -> ReplayError {
    ReplayError::Origin { path: path.into(), error }
}
