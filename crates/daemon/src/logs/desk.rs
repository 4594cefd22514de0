use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::{Clock, Device, Origin, RealClock, block_on};
use warmfront::{HumanSize, Pool, ReplayOptions, Replayed, replay};
use xxhash_rust::xxh3::xxh3_64;
use zil::{End, Found, Log, OpenError, Opening, Options, Recovery};

use super::error::{LogError, Without};
use super::find::{Noted, markers, of_same_origin, origin_of};
use super::inspect::lost;
use super::marker::{Marker, digits, since};
use super::patience::{answers, in_time};
use super::progress::MountProgress;
use super::waiting::{Held, WaitingLog, held_noted};
use super::words::{are, counted, end, is_empty, records, were};
use crate::caches::random_bytes;
use crate::deadline::within;
use crate::device_open::{Top, tops};
use crate::device_path::{DevicePath, DeviceRole, LOOK_MAX};
use crate::origin_id::OriginId;
use crate::overlap::Overlap;

/// Length of a file that is made without one being named, bytes: what a quick device takes in the
/// few seconds until the origin has it.
const BYTES_DEFAULT: u64 = 1 << 30;
/// Between two looks whether the device in use is still there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// After so many of them it is noted how far the log has come.
const NOTE_LOOKS: u64 = 60;
/// Most objects of which it is told that something was not done.
const TOLD_MAX: usize = 5;

/// Is told how far something is that takes its time.
pub(crate) type Tell<'a> = &'a (dyn Fn(MountProgress) + Send + Sync);

/// Which log device a pool has, and how it is opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LogSettings {
    pub device: Option<DevicePath>,
    /// Go on without what it holds.
    pub discard: bool,
    /// Take the device whatever lies on it.
    pub force: bool,
    /// Bring to the origin also what a log holds that seems to be an older copy.
    pub older_too: bool,
}

/// Keeps account of a pool's log device.
#[derive(Debug)]
pub(crate) struct Desk {
    pool: String,
    pool_id: [u8; 16],
    origin: PathBuf,
    origin_id: OriginId,
    /// Where the pool is seen.
    tops: Vec<Top>,
    marker_path: PathBuf,
    state: Arc<Mutex<State>>,
    /// Somebody looks at the device, or waits for it.
    is_looking: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    marker: Marker,
    /// The marker lasts: a log of this pool was used on this machine.
    is_noted: bool,
    /// Which is in use.
    device: Option<InUse>,
}

/// A log device in use.
#[derive(Debug, Clone)]
struct InUse {
    device: DevicePath,
    log: Arc<Log>,
    /// What lay at its path when it was taken in use.
    identity: Option<Identity>,
    /// And how long it was, bytes; 0 for a block device.
    length_bytes: u64,
    /// What has become of it, with its verb, if the next start would not find it, or not the whole
    /// of it, where it looks for it.
    missing: Option<&'static str>,
}

/// Tells files and block devices apart: the device number and inode of a file, the number of a
/// block device.
type Identity = (u64, u64);

fn identity(path: &Path) -> io::Result<Identity> {
    let metadata = std::fs::metadata(path)?;
    Ok(match metadata.file_type().is_block_device() {
        true => (metadata.rdev(), 0),
        false => (metadata.dev(), metadata.ino()),
    })
}

impl Desk {
    /// Reads what is known of the log of the pool that is called `pool`, known by `name` from start
    /// to start, with its origin at `path`.
    pub fn new(
        (pool, name): (&str, &[u8]),
        marker_path: PathBuf,
        path: &Path,
        mountpoint: Option<&Path>,
    ) -> Result<Desk, LogError> {
        let state = |error| LogError::State { path: marker_path.clone(), error };
        let origin_id = OriginId::at(path)
            .map_err(|error| LogError::Origin { path: path.to_owned(), error })?;
        let found = Marker::load(&marker_path).map_err(state)?;
        let is_noted = found.is_some();
        let marker = found.unwrap_or_else(|| Marker {
            in_use: None,
            epoch: 0,
            path: PathBuf::new(),
            pool: pool.to_string(),
            origin: path.to_owned(),
            origin_id: Some(origin_id.clone()),
            since: String::new(),
            given_up: Vec::new(),
        });
        let mut pool_id = [0; 16];
        pool_id[..8].copy_from_slice(&pool_hash(name));
        pool_id[8..].copy_from_slice(&origin_id.digest());
        let state = Arc::new(Mutex::new(State { marker, is_noted, device: None }));
        let tops = tops(path, mountpoint);
        let (pool, origin) = (pool.to_string(), path.to_owned());
        let is_looking = Arc::default();
        Ok(Desk { pool, pool_id, origin, origin_id, tops, marker_path, state, is_looking })
    }

    fn state_error(&self, error: io::Error) -> LogError {
        LogError::State { path: self.marker_path.clone(), error }
    }

    /// Opens the log that the settings name, and brings to the origin what it holds. Tells in words
    /// what was found. A pool that is read-only uses no log and does not touch it.
    ///
    /// # Errors
    /// When there is none that can be used. Nothing is given up then.
    pub fn open(
        &self,
        origin: &dyn Origin,
        settings: &LogSettings,
        read_only: bool,
        tell: Tell<'_>,
    ) -> Result<(Option<Log>, Vec<String>), LogError> {
        let mut given_up = None;
        let opened = self.open_missing(origin, settings, read_only, tell, &mut given_up)?;
        if let Some(id) = given_up {
            let state = &mut *self.state.lock();
            state.marker.give_up(&id);
            state.marker.save(&self.marker_path).map_err(|error| self.state_error(error))?;
        }
        Ok(opened)
    }

    /// The same; says which log was in use and is missed, if that may be given up.
    fn open_missing(
        &self,
        origin: &dyn Origin,
        settings: &LogSettings,
        read_only: bool,
        tell: Tell<'_>,
        given_up: &mut Option<String>,
    ) -> Result<(Option<Log>, Vec<String>), LogError> {
        let mut marker = self.state.lock().marker.clone();
        if read_only {
            let hidden = marker.in_use.map(|_| {
                let path = marker.path.display();
                format!(
                    "the log on {path} may hold writes that are not at the origin; they are not \
                     shown until the pool is mounted for writing"
                )
            });
            return Ok((None, hidden.into_iter().collect()));
        }
        let mut notes = Vec::new();
        let noted = marker.origin_id.as_ref();
        let is_other_origin = noted.is_some_and(|id| id.digest() != self.origin_id.digest());
        let is_named = settings.device.as_ref().is_some_and(|device| device.is_at(&marker.path));
        let mut held = None;
        if marker.in_use.is_some() && !settings.discard && (!is_named || is_other_origin) {
            held = held_noted(&self.marker_path, &marker);
            if held.is_none() {
                // Nobody misses it.
                self.emptied()?;
                marker.in_use = None;
                let path = marker.path.display();
                notes.push(format!(
                    "the log on {path}, in use when the pool last ran, holds nothing that the \
                     origin lacks, and is not used any more"
                ));
            }
        }
        if marker.in_use.is_some() && is_other_origin && !settings.discard {
            return Err(LogError::OriginGone { path: marker.path, origin: marker.origin });
        }
        // What was in use and cannot be had, or is not named.
        let missed = |what: &str, without| match held.clone().filter(|_| !is_named) {
            Some(held) => LogError::Waiting(Box::new(self.waiting(&marker, held))),
            None => LogError::Lost {
                path: marker.path.clone(),
                pool: marker.pool.clone(),
                what: what.to_string(),
                without,
            },
        };
        let mut miss = |what: &str, without| match (&marker.in_use, settings.discard) {
            (Some(_), false) => Err(missed(what, without)),
            (Some(id), true) => {
                *given_up = Some(id.clone());
                let path = marker.path.display();
                let note = format!("what the log on {path} held is given up");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                Ok(())
            }
            (None, _) => Ok(()),
        };
        let Some(device) = &settings.device else {
            miss("is not named now", Without::Discard)?;
            return Ok((None, notes));
        };
        answers(&device.path)?;
        if !device.path.exists() {
            miss("is not there", Without::Discard)?;
        }
        let goes_on = marker.in_use.is_some() && is_named && !settings.discard;
        if !goes_on {
            device.check_outside(DeviceRole::Log, &self.tops)?;
        }
        let length_before = device.length();
        // One in use that has become shorter is not made longer again: what it held would be
        // missing unseen.
        let keeps_length = marker.in_use.is_some() && !settings.discard && length_before.is_some();
        let size_bytes = device.size_bytes.filter(|_| !keeps_length);
        // The origin has had everything when its pool ended.
        let is_noted_empty =
            marker.in_use.is_none() && self.state.lock().is_noted && device.is_at(&marker.path);
        let opened = open_file(&DevicePath { size_bytes, ..device.clone() });
        if let Some(what) = opened.as_ref().err().and_then(lost) {
            miss(&what, Without::Discard)?;
        }
        let (path, file) = opened?;
        let recovery = match self.recover(file.clone()) {
            Ok(recovery) => recovery,
            Err(error) => {
                if settings.discard {
                    // Nothing is given up for a log that cannot be made.
                    has_room(device, &*file)?;
                }
                match &error {
                    OpenError::NoLog => miss("holds no log any more", Without::Discard)?,
                    OpenError::Foreign { found } => {
                        let is_missed = marker.in_use.is_some() && !settings.discard;
                        if !settings.force && !is_missed {
                            drop(file);
                            device.undo(length_before);
                            return Err(LogError::Foreign { path, found });
                        }
                        miss(&format!("holds {found} now"), Without::Force)?;
                    }
                    OpenError::NoRoom { .. } => {
                        miss("has become shorter", Without::Longer)?;
                        if !settings.discard {
                            return Err(contents(&path, error));
                        }
                    }
                    OpenError::Version { .. } if settings.discard || settings.force => {
                        miss("is of another version", Without::Discard)?;
                    }
                    OpenError::Version { found, known } if found < known && is_noted_empty => {}
                    OpenError::Damaged if is_noted_empty && !self.is_used_by_another(device) => {
                        let shown = path.display();
                        notes.push(format!(
                            "the log on {shown} is damaged; the origin had all that it held, or \
                             the pool had gone on without it, so nothing is missed"
                        ));
                    }
                    OpenError::Damaged if settings.discard || settings.force => {
                        miss("is damaged", Without::Discard)?;
                    }
                    _ => return Err(contents(&path, error)),
                }
                return Ok((Some(self.format(device, length_before, file, tell)?), notes));
            }
        };
        let (id, epoch) = (digits(recovery.id()), recovery.epoch());
        let found = recovery.found().clone();
        let records = found.records();
        let (is_own, is_same) =
            (recovery.pool()[..8] == self.pool_id[..8], recovery.pool()[8..] == self.pool_id[8..]);
        let is_cut = matches!(found.end, End::Cut { .. });
        if settings.discard && (is_cut || !is_same) {
            has_room(device, &*file)?;
        }
        if !is_same {
            let is_given_up = marker.given_up.contains(&id);
            if records > 0 && is_own && !settings.discard && !is_given_up {
                return Err(LogError::OtherOrigin { path, origin: self.origin.clone(), records });
            }
            let is_missed = marker.in_use.is_some() && !settings.discard;
            if !is_own && !settings.force && !is_missed {
                let holds = (!is_empty(&found)).then_some(records);
                let origin = origin_of(&self.marker_path, &id);
                return Err(LogError::OtherPool { path, holds, origin });
            }
            let without = match (is_own, is_empty(&found)) {
                (true, _) => Without::Discard,
                (false, true) => Without::Force,
                (false, false) => Without::Elsewhere,
            };
            miss("holds another log now", without)?;
            if !is_empty(&found) {
                let origin = origin_of(&self.marker_path, &id);
                let whose = origin.map_or(String::new(), |it| format!(" for {}", it.display()));
                notes.push(format!(
                    "{} that the log on {} held{whose} {} given up",
                    counted(records, "record"),
                    path.display(),
                    are(records)
                ));
            }
            drop(recovery);
            return Ok((Some(self.format(device, length_before, file, tell)?), notes));
        }
        if marker.in_use.as_ref().is_some_and(|known| *known != id) {
            miss("holds another log now", Without::Discard)?;
        }
        if marker.is_newer_than(&id, epoch) && !settings.older_too {
            if !settings.discard {
                let origin = self.origin.clone();
                return Err(LogError::Older { path, origin, records });
            }
            miss("seems to be an older copy", Without::Discard)?;
            return Ok((Some(self.anew(device, length_before, file, recovery, tell)?), notes));
        }
        // Written when the origin had another path, or its pool another name.
        let others = match is_own {
            true => Vec::new(),
            false => of_same_origin(&self.marker_path, &self.origin_id),
        };
        let failed = |error| LogError::Finish { path: path.clone(), error };
        let beyond = beyond(&path, &found);
        let given_up = |marker: &Marker| marker.given_up.contains(&id);
        if settings.discard || given_up(&marker) || others.iter().any(given_up) {
            if is_cut && settings.discard {
                // Another log takes its place.
                miss("has become shorter", Without::Discard)?;
            }
            if records > 0 {
                let why = match settings.discard {
                    true => "as you asked",
                    false => "since the pool had gone on without them",
                };
                let shown = path.display();
                let (all, are) = (counted(records, "record"), are(records));
                notes.push(format!("{all} of the log on {shown} {are} given up, {why}"));
            }
            if !settings.discard {
                // Nothing is missed of it.
                return Ok((Some(self.anew(device, length_before, file, recovery, tell)?), notes));
            }
            if found.end != End::Whole {
                let (shown, end) = (path.display(), end(&found));
                notes.push(format!(
                    "the log on {shown} was {end}: look after what was written last"
                ));
            }
            notes.extend(beyond);
            let log = match is_own && !is_cut {
                true => block_on(recovery.discard_telling(&filling(tell))).map_err(failed)?,
                false => self.anew(device, length_before, file, recovery, tell)?,
            };
            return Ok((Some(log), notes));
        }
        let is_noted = self.state.lock().is_noted || !others.is_empty();
        if marker.in_use.is_none() && is_noted && records > 0 && !settings.older_too {
            let origin = self.origin.clone();
            return Err(LogError::Emptied { path, origin, records });
        }
        if records == 0 && is_noted_empty {
            match found.end {
                End::Erased => {
                    let log = self.anew(device, length_before, file, recovery, tell)?;
                    return Ok((Some(log), notes));
                }
                End::Cut { size_bytes, needed_bytes } => {
                    return Err(LogError::Shortened { path, size_bytes, needed_bytes });
                }
                _ => {}
            }
        }
        let names_lasted = marker.in_use.as_ref() == Some(&id)
            && since(&self.origin).is_ok_and(|since| since == marker.since);
        let (recovery, report) =
            self.replay(origin, &path, recovery, ReplayOptions { names_lasted }, tell, &mut notes)?;
        let applied = report.records - report.left_out;
        let last = found.last.0;
        match found.end {
            End::Damaged { lasted } => {
                Err(LogError::Damaged { path, applied, last, lasted: lasted.0 })
            }
            End::Erased => Err(LogError::Erased { path, applied, last }),
            End::Cut { size_bytes, needed_bytes } => {
                Err(LogError::Cut { path, applied, last, size_bytes, needed_bytes })
            }
            End::Unreadable { error } => Err(LogError::Unreadable { path, applied, last, error }),
            _ => {
                notes.extend(beyond);
                let log = match is_own {
                    true => block_on(recovery.finish()).map_err(failed)?,
                    false => self.anew(device, length_before, file, recovery, tell)?,
                };
                Ok((Some(log), notes))
            }
        }
    }

    fn replay(
        &self,
        origin: &dyn Origin,
        path: &Path,
        mut recovery: Recovery,
        options: ReplayOptions,
        tell: Tell<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(Recovery, Replayed), LogError> {
        let started = Instant::now();
        let told = |progress| MountProgress::of(progress).into_iter().for_each(tell);
        let replayed = block_on(replay(origin, &mut recovery, options, &told));
        let report = replayed.map_err(|error| LogError::Replay { path: path.to_owned(), error })?;
        if report.records > 0 {
            notes.push(summary(path, &report, started.elapsed().as_secs_f64()));
            let skipped = report.skipped.iter().take(TOLD_MAX);
            notes.extend(skipped.map(|skipped| {
                let place = Path::new(&skipped.path).display();
                format!("not brought to the origin: {place}: {}", skipped.reason)
            }));
            let more = report.skipped_count.saturating_sub(TOLD_MAX as u64);
            if more > 0 {
                notes.push(format!("and {more} more that were not"));
            }
        }
        Ok((recovery, report))
    }

    /// The log of this very pool that was in use, and is not named.
    fn waiting(&self, marker: &Marker, held: Held) -> WaitingLog {
        let pool =
            (pool_hash(self.pool.as_bytes()) == self.pool_id[..8]).then(|| self.pool.clone());
        WaitingLog {
            path: marker.path.clone(),
            origin: marker.origin.clone(),
            called: marker.pool.clone(),
            place: self.origin.clone(),
            overlap: Overlap::Same,
            pool,
            // It would have been named.
            has_log: false,
            held,
        }
    }

    fn recover(&self, file: Arc<dyn Device>) -> Result<Recovery, OpenError> {
        let opening = self.opening().map_err(|_| OpenError::NoLog);
        block_on(Log::open(file, opening?, Options::default(), clock()))
    }

    /// Whose log it is, is told from what is found.
    fn opening(&self) -> io::Result<Opening> {
        let (log, seed) = (random_bytes()?, random_bytes()?);
        Ok(Opening { pool: self.pool_id, log, seed, force: true })
    }

    /// Makes a log. A file that was made for it does not stay when that fails.
    fn format(
        &self,
        device: &DevicePath,
        length_before: Option<u64>,
        file: Arc<dyn Device>,
        tell: Tell<'_>,
    ) -> Result<Log, LogError> {
        let path = &device.path;
        has_room(device, &*file)?;
        let opening = self.opening().map_err(|error| self.state_error(error))?;
        for_owner_only(path);
        let told = filling(tell);
        let options = Options::default();
        let formatted = Log::format_telling(file, opening, options, clock(), &told);
        block_on(formatted).map_err(|error| {
            if length_before.is_none() {
                device.undo(None);
            }
            LogError::Contents { path: path.to_owned(), error }
        })
    }

    /// Goes on with a log that was given up, or a copy of one, or one that has another name for the
    /// pool, as with a new one: should a copy of it come back, it is not taken for this one.
    fn anew(
        &self,
        device: &DevicePath,
        length_before: Option<u64>,
        file: Arc<dyn Device>,
        recovery: Recovery,
        tell: Tell<'_>,
    ) -> Result<Log, LogError> {
        if matches!(recovery.found().end, End::Cut { .. }) {
            drop(recovery);
            return self.format(device, length_before, file, tell);
        }
        let id = random_bytes().map_err(|error| self.state_error(error))?;
        let told = filling(tell);
        let log = block_on(recovery.discard_as(id, self.pool_id, &told));
        log.map_err(|error| LogError::Finish { path: device.path.clone(), error })
    }

    /// Whether the device may hold the log of another origin or pool, by what is noted of it.
    fn is_used_by_another(&self, device: &DevicePath) -> bool {
        let Some(directory) = self.marker_path.parent() else { return true };
        let leads = |(path, marker): &Noted| {
            *path != self.marker_path && marker.in_use.is_some() && device.is_at(&marker.path)
        };
        markers(directory).map_or(true, |all| all.iter().any(leads))
    }

    /// Lets a pool use a log that is empty.
    pub fn take_in(&self, pool: &Arc<Pool>, device: &DevicePath, log: Log) -> Result<(), LogError> {
        let (id, log) = (digits(log.id()), Arc::new(log));
        {
            let state = &mut *self.state.lock();
            state.marker.in_use = Some(id.clone());
            state.marker.epoch = log.epoch();
            state.marker.path = device.path.clone();
            state.marker.pool = self.pool.clone();
            state.marker.origin = self.origin.clone();
            state.marker.origin_id = Some(self.origin_id.clone());
            state.marker.given_up.retain(|known| *known != id);
            let since = since(&self.origin).map_err(|error| self.state_error(error))?;
            state.marker.since = since;
            state.marker.save(&self.marker_path).map_err(|error| self.state_error(error))?;
            state.is_noted = true;
            let identity = identity(&device.path).ok();
            let length_bytes = device.length().unwrap_or(0);
            let device = device.clone();
            let log = log.clone();
            let missing = None;
            state.device = Some(InUse { device, log, identity, length_bytes, missing });
        }
        let (state, marker_path) = (self.state.clone(), self.marker_path.clone());
        let renounce = move || {
            let state = &mut *state.lock();
            state.marker.give_up(&id);
            state.marker.save(&marker_path)
        };
        block_on(pool.add_log(log, Arc::new(renounce))).map_err(LogError::Pool)
    }

    /// Gives a running pool a log device.
    pub fn add(
        &self,
        pool: &Arc<Pool>,
        origin: &dyn Origin,
        settings: &LogSettings,
        tell: Tell<'_>,
    ) -> Result<Vec<String>, LogError> {
        let Some(device) = &settings.device else { return Ok(Vec::new()) };
        if let Some(known) = self.device() {
            return Err(LogError::Present { path: known.path });
        }
        let (log, notes) = self.open(origin, settings, false, tell)?;
        if let Some(log) = log {
            self.take_in(pool, device, log)?;
        }
        Ok(notes)
    }

    /// Stops using the log device, once the origin has everything, and wipes it.
    pub fn remove(&self, pool: &Arc<Pool>, path: &Path) -> Result<(), LogError> {
        let Some(device) = self.device().filter(|known| known.is_at(path)) else {
            let has = self.device().map_or("none".to_string(), |known| known.to_string());
            return Err(LogError::Unknown { path: path.to_owned(), has });
        };
        self.look(pool);
        let missing = self.missing();
        self.stop(pool)?;
        if missing.is_some() {
            // What lies there by now is not ours to wipe.
            return Ok(());
        }
        let path = device.path.clone();
        let wiped = answers(&path).and_then(|()| in_time(&path, move || device.wipe()));
        if let Some(error) = match wiped {
            Ok(wiped) => wiped.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        } {
            tracing::warn!(path = %path.display(), error, "a removed log device cannot be wiped");
        }
        Ok(())
    }

    /// Stops using the log device, once the origin has everything.
    pub fn stop(&self, pool: &Arc<Pool>) -> Result<(), LogError> {
        if self.device().is_none() {
            // What is noted of a log that was not used holds on.
            return Ok(());
        }
        drop(block_on(pool.remove_log()).map_err(LogError::Pool)?);
        self.state.lock().device = None;
        self.emptied()
    }

    /// Notes that the origin has everything that was in the log.
    pub fn emptied(&self) -> Result<(), LogError> {
        let state = &mut *self.state.lock();
        state.marker.in_use = None;
        state.marker.save(&self.marker_path).map_err(|error| self.state_error(error))?;
        state.is_noted = true;
        Ok(())
    }

    /// How long the device in use has owed an answer.
    pub fn silence(&self) -> Option<Duration> {
        let log = self.state.lock().device.as_ref().map(|used| used.log.clone());
        log.map(|log| log.statistics().silence)
    }

    /// The device in use.
    pub fn device(&self) -> Option<DevicePath> {
        self.state.lock().device.as_ref().map(|used| used.device.clone())
    }

    /// Gives up a log whose device the next start would not find: see [`missing`](Desk::missing).
    /// A device that hangs is looked at by one at a time.
    pub fn look(&self, pool: &Arc<Pool>) {
        let Some(used) = self.state.lock().device.clone() else { return };
        if self.is_looking.swap(true, Ordering::Acquire) {
            return;
        }
        let (log, path) = (used.log.id(), used.device.path.clone());
        let turn = Turn(self.is_looking.clone());
        let looked = within(LOOK_MAX, move || {
            let missing = used.look();
            drop(turn);
            missing
        });
        let Some(missing) = looked else { return };
        if let Some(used) = self.state.lock().device.as_mut().filter(|used| used.log.id() == log) {
            used.missing = missing;
        }
        // The lock is let go of: it is taken when the log is noted as given up.
        if let Some(what) = missing {
            pool.give_up_log(log, &format!("{} {what}", path.display()));
        }
    }

    /// Looks again and again, until what is returned is dropped.
    pub fn watch(self: &Arc<Self>, pool: &Arc<Pool>) -> io::Result<SyncSender<()>> {
        let (stop, stopped) = sync_channel(1);
        let (desk, pool) = (self.clone(), pool.clone());
        std::thread::Builder::new().name("log-watch".into()).spawn(move || {
            let mut looks = 0;
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                pool.give_up_silent_log();
                desk.look(&pool);
                looks += 1;
                if looks % NOTE_LOOKS == 0 {
                    desk.note_epoch();
                }
            }
        })?;
        Ok(stop)
    }

    /// Notes how far the log in use has come, so that an older copy of it is told from it.
    fn note_epoch(&self) {
        let State { marker, device, .. } = &mut *self.state.lock();
        let Some(used) = device else { return };
        let epoch = used.log.epoch();
        if marker.in_use != Some(digits(used.log.id())) || marker.epoch >= epoch {
            return;
        }
        marker.epoch = epoch;
        if let Err(error) = marker.save(&self.marker_path) {
            let path = self.marker_path.display();
            tracing::warn!(%path, %error, "cannot note how far the log has come");
        }
    }

    /// What has become of the device in use, with its verb, if the next start would not find it, or
    /// not the whole of it, where it looks for it, as far as the last look tells.
    pub fn missing(&self) -> Option<&'static str> {
        self.state.lock().device.as_ref()?.missing
    }
}

/// A look at the device that is under way, until it is dropped.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl InUse {
    /// Looks what has become of it; may hang with the device.
    fn look(&self) -> Option<&'static str> {
        match identity(&self.device.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("has been removed"),
            Ok(found) if self.identity.is_some_and(|taken| taken != found) => {
                Some("has been replaced")
            }
            Ok(_) if self.device.length().is_some_and(|length| length < self.length_bytes) => {
                Some("has been made shorter")
            }
            Ok(_) if block_on(self.log.has_end()) == Ok(false) => {
                Some("has been cut or overwritten")
            }
            _ => None,
        }
    }
}

/// Whether a new log can be made on a device.
fn has_room(device: &DevicePath, file: &dyn Device) -> Result<(), LogError> {
    let (path, needed_bytes) = (device.path.clone(), DeviceRole::Log.size_bytes_min());
    let size_bytes = file.info().size_bytes;
    if size_bytes >= needed_bytes {
        return Ok(());
    }
    let size_bytes = device.length().map_or(size_bytes, |bytes| bytes.max(size_bytes));
    Err(LogError::TooSmall { path, size_bytes, needed_bytes })
}

/// What a log keeps of the name of its pool.
fn pool_hash(name: &[u8]) -> [u8; 8] {
    xxh3_64(name).to_le_bytes()
}

pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(RealClock::new())
}

/// What a log holds is for nobody else, also on a file that was there before.
fn for_owner_only(path: &Path) {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mode = std::fs::Permissions::from_mode(0o600);
    if let (true, Err(error)) = (is_file, std::fs::set_permissions(path, mode)) {
        tracing::warn!(path = %path.display(), %error, "others may be able to read the log");
    }
}

/// Opens a log device, or makes the file.
fn open_file(device: &DevicePath) -> Result<(PathBuf, Arc<dyn Device>), LogError> {
    let path = device.path.clone();
    let size_bytes = device.size_bytes.or((!path.exists()).then_some(BYTES_DEFAULT));
    let device = DevicePath { size_bytes, ..device.clone() };
    let file = in_time(&path, move || device.open(DeviceRole::Log))??;
    Ok((path, Arc::new(file)))
}

/// Tells how far a log is filled.
pub(super) fn filling(tell: Tell<'_>) -> impl Fn(u64, u64) + Send + Sync {
    move |done_bytes, all_bytes| tell(MountProgress::Formatting { done_bytes, all_bytes })
}

/// Why what lies at `path` is no log that can be used.
pub(super) fn contents(path: &Path, error: OpenError) -> LogError {
    let path = path.to_owned();
    match error {
        OpenError::NoRoom { size_bytes } => {
            // A device has whole blocks.
            let size_bytes =
                std::fs::metadata(&path).map_or(size_bytes, |it| it.len().max(size_bytes));
            let needed_bytes = DeviceRole::Log.size_bytes_min();
            LogError::TooSmall { path, size_bytes, needed_bytes }
        }
        error => LogError::Contents { path, error },
    }
}

/// What is found behind the last good record, in words.
pub(super) fn beyond(path: &Path, found: &Found) -> Option<String> {
    let Found { last, beyond_records, end, .. } = found;
    let why = match end {
        _ if *beyond_records == 0 => return None,
        End::Damaged { lasted } => {
            format!("those up to record {lasted} at least may have been acknowledged")
        }
        End::Erased | End::Unreadable { .. } => "they may have been acknowledged".to_string(),
        _ => "either they were on their way together with the block that is missing when the log \
              was last written, and nobody was told that they last; or that block was damaged \
              since, and they may have been acknowledged: look after what was written last"
            .to_string(),
    };
    let path = path.display();
    Some(format!(
        "{} of the log on {path} {} behind record {last}, after which a block is missing, damaged \
         or unreadable, and cannot be used: {why}",
        counted(*beyond_records, "more record"),
        if *beyond_records == 1 { "lies" } else { "lie" }
    ))
}

/// What a replay has done, in words.
fn summary(path: &Path, report: &Replayed, seconds: f64) -> String {
    let kinds: Vec<String> =
        report.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let applied = report.records - report.left_out;
    let applied = match report.left_out {
        0 => records(applied),
        _ => format!("{applied} of {}", records(report.records)),
    };
    let mut text = format!(
        "{applied} of the log on {} ({}) {} brought to the origin in {seconds:.1} s: {} of data",
        path.display(),
        kinds.join(", "),
        were(report.records - report.left_out),
        HumanSize(report.data_bytes - report.left_out_bytes)
    );
    for (count, what) in [
        (report.made, ["object", "made anew"]),
        (report.named, ["name", "given"]),
        (report.unnamed, ["name", "removed"]),
    ] {
        let [thing, done] = what;
        if count > 0 {
            text.push_str(&format!(", {} {done}", counted(count, thing)));
        }
    }
    if report.left_out > 0 {
        let data = HumanSize(report.left_out_bytes);
        let (left_out, were) = (records(report.left_out), were(report.left_out));
        text.push_str(&format!("; {left_out} with {data} of data {were} left out"));
    }
    text
}

#[cfg(test)]
mod tests;
