use std::fmt;
use std::path::{Path, PathBuf};

use storage::Origin;
use zil::End;

use super::LogTarget;
use super::desk::{LogSettings, Tell};
use super::error::LogError;
use super::find::markers;
use super::inspect::lost;
use super::marker::{Marker, digits};
use super::words::{is_empty, records};
use crate::device_open::DeviceOpenError;
use crate::device_path::{DevicePath, is_same};
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
    /// These name the log, too.
    has_log: bool,
    held: Held,
}

/// What a log holds that the origin may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// So many records.
    Records(u64),
    /// So many that are good, and more that are not.
    Damaged(u64),
    /// So many that are before its end, which has been cut off.
    Cut(u64),
    /// That cannot be told, since it cannot be had: what is wrong with it, with its verb.
    Lost(String),
    /// That cannot be told.
    Unknown,
    /// Somebody writes to it, or brings it to its origin.
    InUse,
}

impl Held {
    /// That in words, for one that is there: "holds 3 records".
    pub(crate) fn holds(&self) -> String {
        match self {
            // Of a damaged one nobody knows how many there were.
            Held::Damaged(0) => "is damaged, and held records".to_string(),
            Held::Damaged(count) => format!("is damaged, and holds {}", records(*count)),
            Held::Cut(0) => "has become shorter, and held records".to_string(),
            Held::Cut(count) => format!("has become shorter, and holds {}", records(*count)),
            Held::Records(count) => format!("holds {}", records(*count)),
            Held::Lost(what) => format!("{what}, and may have held records"),
            Held::Unknown | Held::InUse => "may hold records".to_string(),
        }
    }
}

/// A log that lies on a device which is to be something else, and holds what its origin may lack.
pub(crate) struct LogOnDevice {
    /// The pool that used it.
    pub pool: String,
    /// The origin of that.
    pub origin: PathBuf,
    /// What it holds.
    pub held: Held,
}

impl LogOnDevice {
    /// The one on a device, by what is noted of logs and found there.
    pub fn find(paths: &Paths, device: &DevicePath) -> Option<LogOnDevice> {
        let noted = markers(paths.state_directory()).unwrap_or_default();
        let on_it = noted
            .into_iter()
            .filter(|(_, marker)| marker.in_use.is_some() && device.is_at(&marker.path));
        let mut found = on_it.filter_map(|(marker_path, marker)| {
            let held = held_noted(&marker_path, &marker)?;
            Some(LogOnDevice { pool: marker.pool, origin: marker.origin, held })
        });
        // What is lost lies there no more, and who uses it is told when it is opened.
        found.find(|log| !matches!(log.held, Held::Lost(_) | Held::InUse))
    }
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
            let settings = (marker_path == paths.log_marker(&marker.pool))
                .then(|| PoolFile::load(paths, &marker.pool).ok().map(|file| file.settings))
                .flatten()
                .filter(|settings| is_same(&settings.origin, &place));
            let has_log = settings
                .as_ref()
                .and_then(|settings| settings.log.as_ref())
                .is_some_and(|log| log.is_at(&marker.path));
            let pool = settings.map(|_| marker.pool.clone());
            found.push(Waiting {
                overlap,
                place,
                marker_path,
                marker,
                target,
                pool,
                has_log,
                held,
            });
        }
        Ok(found)
    }

    /// Whether a mount with these settings gives it up.
    pub fn is_given_up(&self, settings: &LogSettings, read_only: bool) -> bool {
        settings.discard && !read_only && self.held != Held::InUse
    }

    /// Gives it up. Tells that in words.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn give_up(mut self) -> Result<String, LogError> {
        let (path, place) = (self.marker.path.display(), self.place.display());
        let note = format!("what the log on {path} held for {place} is given up");
        let id = self.marker.in_use.clone().unwrap_or_default();
        self.marker.give_up(&id);
        let state = |error| LogError::State { path: self.marker_path.clone(), error };
        self.marker.save(&self.marker_path).map_err(state)?;
        Ok(note)
    }

    /// Sees to it that nothing is overwritten later that a mount of `origin` writes: brings the log
    /// there if it is the one that the settings name. Tells in words what was done.
    ///
    /// # Errors
    /// When it is another one.
    pub fn settle(
        mut self,
        origin: &dyn Origin,
        settings: &LogSettings,
        read_only: bool,
        tell: Tell<'_>,
    ) -> Result<Vec<String>, LogError> {
        if read_only {
            let (path, place) = (self.marker.path.display(), self.place.display());
            return Ok(vec![format!(
                "the log on {path} may hold writes that {place} lacks; they are not shown until \
                 they are brought there"
            )]);
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
            has_log: self.has_log,
            held: self.held,
        })))
    }
}

/// What the log of a marker holds that its origin may not; `None` if it is certain that there is
/// nothing.
pub(super) fn held_noted(marker_path: &Path, marker: &Marker) -> Option<Held> {
    let device = DevicePath { path: marker.path.clone(), size_bytes: None };
    let marker_path = Some(marker_path.to_owned());
    held(&LogTarget { device, owner: None, marker_path, given_up: Vec::new() }, marker)
}

/// What a log holds that its origin may not; `None` if it is certain that there is nothing.
fn held(target: &LogTarget, marker: &Marker) -> Option<Held> {
    let log = match target.open() {
        Ok(log) => log,
        Err(LogError::InUse { .. } | LogError::Open(DeviceOpenError::InUse { .. })) => {
            return Some(Held::InUse);
        }
        Err(LogError::Silent { .. }) => return Some(Held::Lost("does not answer".to_string())),
        Err(error) => return Some(lost(&error).map_or(Held::Unknown, Held::Lost)),
    };
    let (id, found) = (digits(log.id()), log.found());
    if marker.in_use.as_ref() != Some(&id) {
        return Some(Held::Lost("holds another log now".to_string()));
    }
    if marker.is_newer_than(&id, log.epoch()) {
        return Some(Held::Lost("seems to be an older copy".to_string()));
    }
    (!is_empty(found)).then(|| match found.end {
        End::Whole if found.records() > 0 => Held::Records(found.records()),
        End::Cut { .. } => Held::Cut(found.records()),
        _ => Held::Damaged(found.records()),
    })
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
    /// These settings name the log, too.
    pub has_log: bool,
    /// What it holds.
    pub held: Held,
}

impl fmt::Display for WaitingLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitingLog { path, origin, called, place, overlap, pool, has_log, held } = self;
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
        let holds = held.holds();
        let mount = match held {
            Held::Lost(_) => "Bring it back and mount",
            Held::Cut(_) => "Bring back the whole of it if you can, and mount",
            _ => "Mount",
        };
        let instead = match (overlap, pool.as_ref().filter(|_| *has_log)) {
            (Overlap::Same, None) => format!("{mount} this directory with --log {log}"),
            (Overlap::Same, Some(pool)) => {
                format!("{mount} this directory as pool `{pool}`, or with --log {log}")
            }
            (_, None) => format!("{mount} {shown} instead, with --log {log}"),
            (_, Some(pool)) => format!("{mount} pool `{pool}` instead"),
        };
        let target = pool.clone().unwrap_or_else(|| shown.to_string());
        write!(
            out,
            "the log on {log}, in use when pool `{called}` last ran, {holds} of acknowledged \
             writes that {which} may lack: {later}. {instead}; or bring them there first with \
             `warmfront log replay {target}`; or give them up for good with `warmfront log discard \
             {target}`, or with --discard-log; or look at what is there with --read-only"
        )
    }
}
