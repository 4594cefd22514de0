use std::fmt;
use std::path::{Path, PathBuf};

use storage::Origin;

use super::LogTarget;
use super::desk::{LogSettings, Tell};
use super::error::LogError;
use super::find::markers;
use super::marker::{Marker, digits};
use super::words::{is_empty, records};
use crate::device_path::is_same;
use crate::mountinfo::mounts;
use crate::overlap::{Overlap, overlap};
use crate::paths::Paths;
use crate::pool_file::PoolFile;

/// The log of another pool, or of the same origin under another name, that may hold what files of
/// an origin lack: brought there later, it would overwrite what is written until then.
pub(crate) struct Waiting {
    overlap: Overlap,
    /// Where the origin of that log is by now.
    place: PathBuf,
    marker_path: PathBuf,
    marker: Marker,
    target: LogTarget,
    /// The pool's name, if it has settings that lead there.
    pool: Option<String>,
    held: Held,
}

/// What a log holds that the origin may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// So many records.
    Records(u64),
    /// That cannot be told, since it cannot be had.
    Unknown,
    /// Somebody writes to it, or brings it to its origin.
    InUse,
}

impl Waiting {
    /// All logs that wait for files of the directory `origin`, beside the one noted at `own`.
    pub fn find(paths: &Paths, origin: &Path, own: &Path) -> Result<Vec<Waiting>, LogError> {
        let unseen = |error| LogError::State { path: "/proc/self/mountinfo".into(), error };
        let mounts = mounts().map_err(unseen)?;
        let noted = markers(paths.state_directory())?;
        let others = noted.iter().filter(|(path, marker)| path != own && marker.in_use.is_some());
        let mut found = Vec::new();
        for other in others {
            let (marker_path, marker) = other.clone();
            let id = marker.origin_id.as_ref();
            let Some((overlap, place)) = overlap(&mounts, origin, &marker.origin, id) else {
                continue;
            };
            let target = LogTarget::of_noted(paths, other, &place, &noted);
            let Some(held) = held(&target, &marker) else { continue };
            let pool = Some(marker.pool.clone()).filter(|pool| {
                marker_path == paths.log_marker(pool)
                    && PoolFile::load(paths, pool)
                        .is_ok_and(|file| is_same(&file.settings.origin, &place))
            });
            found.push(Waiting { overlap, place, marker_path, marker, target, pool, held });
        }
        Ok(found)
    }

    /// Sees to it that nothing is overwritten later that a mount of `origin` writes: brings the log
    /// there if it is the one that the settings name, or gives it up if they say so. Tells in words
    /// what was done.
    ///
    /// # Errors
    /// When neither is asked for.
    pub fn settle(
        mut self,
        origin: &dyn Origin,
        settings: &LogSettings,
        read_only: bool,
        tell: Tell<'_>,
    ) -> Result<Vec<String>, LogError> {
        let path = self.marker.path.display();
        let place = self.place.display();
        if read_only {
            return Ok(vec![format!(
                "the log on {path} may hold writes that {place} lacks; they are not shown until \
                 they are brought there"
            )]);
        }
        if self.held != Held::InUse && settings.discard {
            let note = format!("what the log on {path} held for {place} is given up");
            let id = self.marker.in_use.clone().unwrap_or_default();
            self.marker.give_up(&id);
            let state = |error| LogError::State { path: self.marker_path.clone(), error };
            self.marker.save(&self.marker_path).map_err(state)?;
            return Ok(vec![note]);
        }
        if let (Overlap::Same, Some(device)) = (self.overlap, &settings.device) {
            self.target.device = device.clone();
            let id = self.target.open().ok().map(|log| digits(log.id()));
            if id.is_some() && id == self.marker.in_use {
                return self.target.bring(origin, false, tell);
            }
        }
        Err(LogError::Waiting(Box::new(WaitingLog {
            path: self.marker.path,
            origin: self.marker.origin,
            called: self.marker.pool,
            place: self.place,
            overlap: self.overlap,
            pool: self.pool,
            held: self.held,
        })))
    }
}

/// What a log holds that its origin may not; `None` if it is certain that there is nothing.
fn held(target: &LogTarget, marker: &Marker) -> Option<Held> {
    let log = match target.open() {
        Ok(log) => log,
        Err(LogError::InUse { .. }) => return Some(Held::InUse),
        Err(_) => return Some(Held::Unknown),
    };
    let (id, found) = (digits(log.id()), log.found());
    if marker.in_use.as_ref() != Some(&id) || marker.is_newer_than(&id, log.epoch()) {
        return Some(Held::Unknown);
    }
    (!is_empty(found)).then(|| Held::Records(found.records()))
}

/// A log that waits for files of a directory that was to be mounted. It is shown as why that was
/// refused, and what to do.
#[derive(Debug)]
pub struct WaitingLog {
    /// Where the log lies.
    pub path: PathBuf,
    /// Its origin, as that was called when the log was used.
    pub origin: PathBuf,
    /// Its pool, as that was called then.
    pub called: String,
    /// Where its origin is now.
    pub place: PathBuf,
    /// How the directory lies to that.
    pub overlap: Overlap,
    /// Its pool, if that has settings that lead there.
    pub pool: Option<String>,
    /// What it holds.
    pub held: Held,
}

impl fmt::Display for WaitingLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitingLog { path, origin, called, place, overlap, pool, held } = self;
        let (log, shown) = (path.display(), place.display());
        let which = match overlap {
            Overlap::Same if origin == place => "this directory".to_string(),
            Overlap::Same => format!("this directory (then called {})", origin.display()),
            Overlap::Inside => format!("{shown}, in which this directory lies,"),
            Overlap::Around => format!("{shown}, which lies in this directory,"),
        };
        let later = "brought there later, it would overwrite what is written until then";
        if *held == Held::InUse {
            return write!(
                out,
                "pool `{called}` is mounted, or just being mounted or replayed, and its log on \
                 {log} may hold what {which} lacks: {later}. Use that mount, or unmount it first"
            );
        }
        let holds = match held {
            // Of a damaged one nobody knows how many there were.
            Held::Records(0) => "is damaged, and held records".to_string(),
            Held::Records(count) => format!("holds {}", records(*count)),
            _ if path.exists() => "may hold records".to_string(),
            _ => "is not there, and may hold records".to_string(),
        };
        let instead = match (overlap, pool) {
            (Overlap::Same, None) => format!("Mount it with --log {log}"),
            (Overlap::Same, Some(pool)) => {
                format!("Mount it as pool `{pool}`, or with --log {log}")
            }
            (_, None) => format!("Mount {shown} instead, with --log {log}"),
            (_, Some(pool)) => format!("Mount pool `{pool}` instead"),
        };
        let target = pool.clone().unwrap_or_else(|| shown.to_string());
        write!(
            out,
            "the log on {log}, in use when pool `{called}` last ran, {holds} that {which} may \
             lack: {later}. {instead}; or bring it there first with `warmfront log replay \
             {target}`; or give it up for good with `warmfront log discard {target}`, or with \
             --discard-log; or look at what is there with --read-only"
        )
    }
}
