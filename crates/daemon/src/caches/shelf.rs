use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::executor::block_on;
use parking_lot::Mutex;
use rustix::io::Errno;
use storage::{DeviceError, FileDevice};
use warmfront::flash::{
    AddError, Condition, FlashOptions, Opened, Opening, Options, RingStatistics, Statistics,
};
use warmfront::{ExactSize, Pool};

use super::key::{CacheKey, CacheKeyError, Dwpd};
use super::lives::{Lives, id_of, random_bytes};
use crate::deadline::within;
use crate::device_open::{DeviceOpenError, Top};
use crate::device_path::{DevicePath, DeviceRole};
use crate::logs::{Held, LogOnDevice};
use crate::mountinfo::{mount_of, mounted_at, mounts};
use crate::paths::Paths;
use crate::probe::Probe;
use crate::protocol::{CacheBypass, CacheFault, CacheSlower, CacheStatus};

/// The part of the ceiling that the index of what lies on flash may take, as its divisor.
const INDEX_SHARE: u64 = 4;

/// How long a device may take to answer when it is opened, and between two looks whether one does
/// by now that did not.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// How long one that is removed, or of which the length changes, is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How long a look at its path may take.
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Sizes that differ by less than a block are the same.
const BLOCK_BYTES_MAX: u64 = 4096;

/// What cache devices a pool has, and how they are used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CacheSettings {
    pub devices: Vec<DevicePath>,
    pub dwpd: Option<Dwpd>,
    pub key: Option<CacheKey>,
    /// Take devices whatever lies on them.
    pub force: bool,
}

/// Why a cache device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// It cannot become a part of the pool.
    #[error("cache device {}: {}", path.display(), refusal(error, owner.as_deref()))]
    Add {
        /// The path.
        path: PathBuf,
        /// Why.
        error: AddError,
        /// Whose it is, as far as that is known.
        owner: Option<String>,
    },
    /// It is a log that is still needed.
    #[error(
        "{} is the log of pool `{pool}` and {} of acknowledged writes that {} may lack; bring them \
         there with `warmfront log replay {}`, or give them up for good with `warmfront log \
         discard {}`", path.display(), held.holds(), origin.display(), path.display(),
        path.display()
    )]
    Log {
        /// The path.
        path: PathBuf,
        /// The pool that used it.
        pool: String,
        /// The origin of that.
        origin: PathBuf,
        /// What it holds.
        held: Held,
    },
    /// It is a part of the pool already.
    #[error("{} is a cache device of the pool already", path.display())]
    Present {
        /// The path.
        path: PathBuf,
    },
    /// The pool has no such cache device.
    #[error("the pool has no cache device {}; it has {has}", path.display())]
    Unknown {
        /// The path.
        path: PathBuf,
        /// Those that it has, in words.
        has: String,
    },
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] CacheKeyError),
    /// The key was missing when it was needed.
    #[error(
        "the key of the cache devices could not be read when the pool was mounted; now it can: \
         unmount the pool and mount it again"
    )]
    KeyLate,
    /// It cannot be overwritten.
    #[error("cache device {}: it cannot be wiped: {error}", path.display())]
    Wipe {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What must outlast a stop cannot be written.
    #[error("cannot note which cache devices are up to date in {}: {error}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl CacheError {
    /// Whether forcing the use of the device helps.
    pub(crate) fn is_forceable(&self) -> bool {
        match self {
            CacheError::Add { error, .. } => error.is_forceable(),
            CacheError::Open(error) => matches!(error, DeviceOpenError::NotMounted { .. }),
            _ => false,
        }
    }

    /// Whether the device hangs, so that it may be used once it does not.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            CacheError::Open(DeviceOpenError::Silent { .. }) => true,
            CacheError::Add { error: AddError::Device(error), .. } => {
                matches!(error, DeviceError::TimedOut { .. })
            }
            _ => false,
        }
    }
}

/// A device that is open, and what was found out on the way.
pub(super) struct Found {
    pub file: FileDevice,
    pub length_before: Option<u64>,
    /// Where its file system was mounted when the pool last used it.
    place_before: Option<PathBuf>,
    /// Where its file system is mounted.
    place: Option<PathBuf>,
}

/// Whether the path of a device still leads to it, as far as that is known.
#[derive(Default)]
struct Presence {
    is_looked_at: AtomicBool,
    is_gone: AtomicBool,
}

/// A cache device in use, or one that could not be used.
struct Shelved {
    device: DevicePath,
    /// Its id, if it is in use.
    id: Option<[u8; 16]>,
    /// What was found on it, or why it is not in use.
    note: String,
    /// What is read and written, if it is in use.
    file: Option<Arc<FileDevice>>,
    presence: Arc<Presence>,
    /// It hangs, and is looked at for when it does not.
    probe: Option<Probe>,
}

impl Shelved {
    /// One that is not used.
    fn unused(device: &DevicePath, note: String, probe: Option<Probe>) -> Shelved {
        let presence = Arc::default();
        Shelved { device: device.clone(), id: None, note, file: None, presence, probe }
    }

    /// Whether its path does not lead to it any more. While the file system does not answer, it is
    /// what it was.
    fn is_gone(&self) -> bool {
        let Some(file) = self.file.clone() else { return false };
        let (path, presence) = (self.device.path.clone(), self.presence.clone());
        if !presence.is_looked_at.swap(true, Ordering::Relaxed) {
            within(LOOK_MAX, move || {
                presence.is_gone.store(!file.is_at(&path), Ordering::Relaxed);
                presence.is_looked_at.store(false, Ordering::Relaxed);
            });
        }
        self.presence.is_gone.load(Ordering::Relaxed)
    }
}

/// The cache devices of a running pool.
pub(crate) struct Shelf {
    /// The origin and the mount point.
    tops: [Top; 2],
    pool_id: [u8; 16],
    /// The name of this start on the devices.
    life: Mutex<u128>,
    state_path: PathBuf,
    paths: Paths,
    lives: Arc<Lives>,
    /// A device failed to take a tombstone when the pool last ran, so none is believed.
    was_struck: AtomicBool,
    dwpd: Dwpd,
    /// The key, if it could not be used: then no device is.
    missing_key: Option<CacheKey>,
    /// Held while devices come or go, which may take its time.
    turn: Mutex<()>,
    /// Held for moments.
    devices: Mutex<Vec<Shelved>>,
    /// Files that were made at this start.
    made: Mutex<Vec<PathBuf>>,
}

/// The cache files that a mount has made, which are removed when this is dropped.
pub(crate) struct NewFiles(Arc<Shelf>);

impl NewFiles {
    /// Those of this shelf, also those that it makes later.
    pub fn of(shelf: &Arc<Shelf>) -> NewFiles {
        NewFiles(shelf.clone())
    }

    /// They stay: the mount is there.
    pub fn keep(self) {
        self.0.made.lock().clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        let (made, lives) = (std::mem::take(&mut *self.0.made.lock()), self.0.lives.clone());
        within(PATIENCE, move || {
            for path in made {
                let removed = std::fs::remove_file(&path).and_then(|()| lives.note(&path, None));
                if let Err(error) = removed {
                    let path = path.display();
                    tracing::warn!(%path, %error, "a file that was made is not removed");
                }
            }
        });
    }
}

impl Shelf {
    /// No devices yet, and how the flash level is to work. A key that cannot be used is an error if
    /// `strict`, and else keeps the pool from using any device.
    pub fn new(
        known_as: KnownAs,
        [origin, mountpoint]: [PathBuf; 2],
        settings: &CacheSettings,
        strict: bool,
        ceiling_bytes_max: u64,
    ) -> Result<(Shelf, FlashOptions), CacheError> {
        let KnownAs { name, called, state_path, paths } = known_as;
        let state = |error| CacheError::State { path: state_path.clone(), error };
        let pool_id = id_of(&name);
        let life = Mutex::new(u128::from_le_bytes(random_bytes().map_err(state)?));
        let lives = Arc::new(Lives::load(state_path.clone(), pool_id, called));
        let dwpd = settings.dwpd.unwrap_or(Dwpd::Hundredths(100));
        let (cipher, missing_key) = match settings.key.as_ref().map(CacheKey::cipher) {
            None => (None, None),
            Some(Ok(cipher)) => (Some(cipher), None),
            Some(Err(error)) if strict => return Err(error.into()),
            Some(Err(_)) => (None, settings.key.clone()),
        };
        let options = Options {
            dwpd_hundredths: dwpd.hundredths(),
            cipher,
            index_bytes_max: ceiling_bytes_max / INDEX_SHARE,
            ..Options::default()
        };
        let struck = lives.clone();
        let renounce = move || struck.strike();
        let flash = FlashOptions { options, renounce: Some(Arc::new(renounce)) };
        let devices = Mutex::default();
        let tops = [("origin", origin), ("mount point", mountpoint)];
        let was_struck = AtomicBool::new(false);
        let shelf = Shelf {
            tops,
            pool_id,
            life,
            state_path,
            paths,
            lives,
            was_struck,
            dwpd,
            missing_key,
            turn: Mutex::default(),
            devices,
            made: Mutex::default(),
        };
        Ok((shelf, flash))
    }

    /// Takes in the devices that the pool starts with. Of those it is told what was found; one
    /// that cannot be used is an error if `strict`, and else told of too.
    pub fn fill(
        &self,
        pool: &Arc<Pool>,
        settings: &CacheSettings,
        strict: bool,
    ) -> Result<Vec<String>, CacheError> {
        let _turn = self.turn.lock();
        let before = self.lives.all();
        self.was_struck.store(self.lives.is_struck(), Ordering::Relaxed);
        if settings.devices.is_empty() && before.is_empty() {
            return Ok(Vec::new());
        }
        let state = |error| CacheError::State { path: self.state_path.clone(), error };
        if !settings.devices.is_empty() {
            // Nothing changes until all are in: whatever stops this, devices of before and of
            // this start know all.
            let both = [before.as_slice(), &[*self.life.lock()]].concat();
            self.lives.set(&both).map_err(state)?;
        }
        let mut notes = Vec::new();
        let until = Instant::now() + ANSWER_MAX;
        let probes = settings.devices.iter().map(|device| Probe::start(&device.path).ok());
        let probes: Vec<Option<Probe>> = probes.collect();
        for (device, mut probe) in settings.devices.iter().zip(probes) {
            let added = match probe.as_mut().is_none_or(|probe| probe.answers(until)) {
                true => self.add_one(pool, device, settings.force, before.clone()),
                false => Err(silent(device)),
            };
            match added {
                Ok(note) => notes.extend(note),
                Err(error) if strict && !error.is_silent() => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "the pool goes on without a cache device");
                    let again = match error.is_silent() {
                        true => "; it is tried again every 10 s",
                        false => "",
                    };
                    let note = error.to_string();
                    let hint = if error.is_forceable() { " (--force-cache)" } else { "" };
                    notes.push(format!("{note}{hint}; the pool goes on without it{again}"));
                    let place = format!("cache device {}", device.path.display());
                    let why = note.strip_prefix(&place).map(|why| why.trim_start_matches(": "));
                    let note = why.map_or(note.clone(), |why| why.trim_start().to_string());
                    let probe = match error.is_silent() {
                        true => probe.or_else(|| Probe::start(&device.path).ok()),
                        false => None,
                    };
                    self.devices.lock().push(Shelved::unused(device, note + again, probe));
                }
            }
        }
        // From here on the others miss what changes.
        let life = *self.life.lock();
        let lives: &[u128] = if pool.has_caches() { &[life] } else { &[] };
        self.lives.set(lives).map_err(state)?;
        Ok(notes)
    }

    /// Takes a device in while the pool is running. Says what was found on it.
    pub fn add(
        &self,
        pool: &Arc<Pool>,
        device: &DevicePath,
        force: bool,
    ) -> Result<String, CacheError> {
        let _turn = self.turn.lock();
        let mut probe = Probe::start(&device.path).ok();
        let until = Instant::now() + ANSWER_MAX;
        if !probe.as_mut().is_none_or(|probe| probe.answers(until)) {
            return Err(silent(device));
        }
        self.begin_life(pool)?;
        let note = self.add_one(pool, device, force, Vec::new())?;
        Ok(note.unwrap_or_else(|| "it was blank".to_string()))
    }

    /// Tries devices again that did not answer, now and then, until what is returned is dropped.
    pub fn watch(self: &Arc<Self>, pool: &Arc<Pool>) -> io::Result<SyncSender<()>> {
        let (stop, stopped) = sync_channel(1);
        let (shelf, pool) = (self.clone(), pool.clone());
        std::thread::Builder::new().name("cache-watch".into()).spawn(move || {
            while stopped.recv_timeout(RETRY_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                shelf.retry(&pool);
            }
        })?;
        Ok(stop)
    }

    fn retry(&self, pool: &Arc<Pool>) {
        let answers = |known: &mut Shelved| {
            let probe = known.probe.as_mut()?;
            probe.answers(Instant::now()).then(|| known.device.clone())
        };
        let answering: Vec<DevicePath> =
            self.devices.lock().iter_mut().filter_map(answers).collect();
        for device in answering {
            let path = device.path.display();
            match self.add(pool, &device, false) {
                Ok(found) => tracing::info!("cache device {path} answers, and is used: {found}"),
                Err(error) => {
                    let mut devices = self.devices.lock();
                    let known = devices.iter_mut().find(|known| known.device == device);
                    let Some(known) = known.filter(|known| known.id.is_none()) else { continue };
                    known.probe = None;
                    if error.is_silent() {
                        known.probe = Probe::start(&device.path).ok();
                    } else {
                        tracing::error!(%error, "a cache device that answers again is not used");
                        known.note = error.to_string();
                    }
                }
            }
        }
    }

    /// Makes the devices of now those that are up to date, if none is any more: one of them took no
    /// tombstone, or was removed and could not be wiped. It must not be believed again, and the
    /// others may be.
    fn begin_life(&self, pool: &Pool) -> Result<(), CacheError> {
        if !self.lives.all().is_empty() {
            return Ok(());
        }
        let state = |error| CacheError::State { path: self.state_path.clone(), error };
        let strikes = self.lives.strikes();
        let life = u128::from_le_bytes(random_bytes().map_err(state)?);
        block_on(pool.begin_life_of_caches(life));
        *self.life.lock() = life;
        self.lives.set_unless_struck(&[life], strikes).map_err(state)?;
        Ok(())
    }

    fn add_one(
        &self,
        pool: &Arc<Pool>,
        device: &DevicePath,
        force: bool,
        lives: Vec<u128>,
    ) -> Result<Option<String>, CacheError> {
        if let Some(key) = &self.missing_key {
            return Err(key.cipher().map_or_else(CacheError::from, |_| CacheError::KeyLate));
        }
        let path = device.path.clone();
        let state = |error| CacheError::State { path: self.state_path.clone(), error };
        if self.used().iter().any(|known| known.is_at(&path)) {
            return Err(CacheError::Present { path });
        }
        check_no_log(&self.paths, device)?;
        let (tops, known, asked) = (self.tops.clone(), self.lives.clone(), device.clone());
        let found = within(ANSWER_MAX, move || open(&asked, &tops, &known, force));
        let found = found.ok_or_else(|| silent(device))?;
        let Found { file, length_before, place_before, place } =
            found.map_err(|error| error.with_pool(&self.paths))?;
        let file = Arc::new(file);
        let undo = || {
            let device = device.clone();
            within(PATIENCE, move || device.undo(length_before));
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let opening = Opening {
            pool: self.pool_id,
            device: random_bytes().map_err(state)?,
            salt: random_bytes().map_err(state)?,
            life: *self.life.lock(),
            lives: Some(lives),
            wall_seconds: now.as_secs(),
            force,
            empty: false,
        };
        let known: Vec<_> = rings(pool).map(|ring| ring.device).collect();
        let added = block_on(pool.add_cache(file.clone(), &opening));
        let opened = added.map_err(|error| {
            undo();
            refused(&path, error, &self.lives)
        })?;
        if length_before.is_none() {
            self.made.lock().push(path.clone());
        }
        let ring = rings(pool).find(|ring| !known.contains(&ring.device));
        let (id, size_bytes) = ring.map(|ring| (ring.device, ring.size_bytes)).unzip();
        let kept = size_bytes.filter(|_| opened == Opened::Warm);
        if let (Some(kept), Some(before)) = (kept, length_before)
            && kept <= before
        {
            undo();
        }
        let differs = |kept: &u64| {
            device.size_bytes.is_some_and(|given| given.abs_diff(*kept) >= BLOCK_BYTES_MAX)
        };
        let keeps = kept.filter(differs).map(|kept| {
            format!(
                "it is warm, and keeps the {} with which it was made; for another size, remove \
                 it while the pool is not mounted, and it is made anew",
                ExactSize(kept)
            )
        });
        let found = match opened {
            Opened::Warm if keeps.is_some() => keeps.as_deref(),
            Opened::Formatted if place_before.is_some() && length_before.is_none() => {
                Some("made anew: the file that the pool had there is gone")
            }
            Opened::Formatted if place_before.is_some() && !force => {
                Some("made anew: it was blank, and what the pool had there is gone")
            }
            Opened::Formatted if !force => None,
            Opened::Warm => Some("it is warm"),
            Opened::Formatted => Some("it was made anew, whatever it held"),
            Opened::Stale if self.was_struck.load(Ordering::Relaxed) => Some(
                "a cache device of the pool took no tombstone when it last ran, so it starts empty",
            ),
            Opened::Stale => Some(
                "the pool was used without it since, or it is an older copy, so it starts empty",
            ),
            Opened::OtherKey => {
                Some("it was encrypted with another key, or with none, so it starts empty")
            }
            Opened::Readable => Some(
                "it starts empty; its disk does not discard, so what it held before, not \
                 encrypted, can be read on it until that is overwritten: to have it gone, fill it \
                 with zeros while the pool is not mounted",
            ),
            Opened::Damaged => Some("its journal is damaged, so it starts empty"),
            _ => Some("it starts empty"),
        };
        self.lives.note(&path, place.as_deref()).map_err(state)?;
        let note = found.unwrap_or("it was blank").to_string();
        let former = self.find(&path);
        let mut devices = self.devices.lock();
        devices.retain(|known| Some(&known.device) != former.as_ref());
        let size_bytes = device.size_bytes.or(former.and_then(|former| former.size_bytes));
        let device = DevicePath { size_bytes, ..device.clone() };
        devices.push(Shelved { id, file: Some(file), ..Shelved::unused(&device, note, None) });
        drop(devices);
        // A key of each start makes it forget on purpose.
        let is_lost = !matches!(opened, Opened::Warm | Opened::OtherKey);
        let told = found.map(|found| format!("cache device {}: {found}", path.display()));
        if let Some(told) = told.as_ref().filter(|_| place_before.is_some() && is_lost) {
            tracing::warn!("{told}");
        }
        Ok(told)
    }

    /// Stops using a device, and wipes it, so that nobody takes it for one that is up to date. One
    /// that hangs is not waited for. Says what there is to say of it.
    pub fn remove(&self, pool: &Arc<Pool>, path: &Path) -> Result<Option<String>, CacheError> {
        let _turn = self.turn.lock();
        let Some(device) = self.find(path) else {
            let has: Vec<String> =
                self.devices().iter().map(|device| device.path.display().to_string()).collect();
            let has = if has.is_empty() { "none".to_string() } else { has.join(", ") };
            return Err(CacheError::Unknown { path: path.to_owned(), has });
        };
        let removed = {
            let mut devices = self.devices.lock();
            let at = devices.iter().position(|known| known.device == device);
            devices.remove(at.expect("devices come and go in turn"))
        };
        let state = |error| CacheError::State { path: self.state_path.clone(), error };
        self.lives.note(&device.path, None).map_err(state)?;
        let Some(id) = removed.id else { return Ok(None) };
        // If it stops here, what the device holds must not be used again.
        self.lives.strike().map_err(state)?;
        let wiped = pool.detach_cache(id).and_then(|detached| {
            within(PATIENCE, move || {
                let wiped = block_on(detached.wipe());
                if let Err(error) = &wiped {
                    let path = removed.device.path.display();
                    tracing::warn!(%path, %error, "a removed cache device cannot be wiped");
                }
                drop(removed);
                wiped
            })
        });
        self.begin_life(pool)?;
        Ok(match wiped {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(format!(
                "it cannot be wiped ({error}): what it holds is not used again, but can be read"
            )),
            None => Some(
                "to wipe it takes longer, and goes on; until that has ended, or failed, it is in \
                 use; what it holds is not used again"
                    .to_string(),
            ),
        })
    }

    /// The device at `path`, as the settings name it.
    fn find(&self, path: &Path) -> Option<DevicePath> {
        let devices = self.devices();
        let named = devices.iter().find(|device| device.path == path);
        named.or_else(|| devices.iter().find(|device| device.is_at(path))).cloned()
    }

    /// The devices in use.
    fn used(&self) -> Vec<DevicePath> {
        let devices = self.devices.lock();
        devices.iter().filter(|known| known.id.is_some()).map(|it| it.device.clone()).collect()
    }

    /// The devices as the settings name them.
    pub fn devices(&self) -> Vec<DevicePath> {
        self.devices.lock().iter().map(|known| known.device.clone()).collect()
    }

    /// How each device does.
    pub fn status(&self, flash: &Statistics) -> Vec<CacheStatus> {
        let rings = &flash.rings;
        let devices = self.devices.lock();
        let of = |known: &Shelved| {
            let ring = rings.iter().find(|ring| Some(ring.device) == known.id);
            let condition = match ring.map(|ring| ring.condition) {
                None => "unavailable",
                Some(Condition::Recovering) => "recovering",
                Some(Condition::Works) => "works",
                Some(Condition::Bypassed) => "bypassed",
                Some(Condition::Void) => "void",
                Some(_) => "stopped",
            };
            let count = |of: fn(&RingStatistics) -> u64| ring.map_or(0, of);
            CacheStatus {
                path: known.device.path.clone(),
                condition: condition.to_string(),
                note: known.note.clone(),
                data_bytes: count(|ring| ring.data_bytes),
                stored_bytes: count(|ring| ring.stored_bytes),
                written_bytes: count(|ring| ring.written_bytes),
                credit_bytes: count(|ring| ring.credit_bytes),
                segment_bytes: count(|ring| ring.segment_bytes),
                segments: ring.map_or(0, |ring| ring.segments.0.into()),
                segments_used: ring.map_or(0, |ring| ring.segments.1.into()),
                is_direct: known.file.as_ref().is_some_and(|file| file.is_direct()),
                is_gone: known.is_gone(),
                latency_us: count(|ring| ring.latency.as_micros() as u64),
                bypasses: count(|ring| ring.bypasses),
                bypass: ring.and_then(|ring| ring.bypass).map(|bypass| CacheBypass {
                    reason: format!("{} within a minute", bypass.failures),
                    is_read: bypass.is_read,
                    since_seconds: bypass.since.as_secs_f64(),
                    retry_seconds: bypass.left.as_secs_f64(),
                }),
                damaged_records: count(|ring| ring.damaged.0),
                damaged_segments: count(|ring| ring.damaged.1),
                fault: ring.and_then(|ring| ring.error.as_ref()).map(|error| CacheFault {
                    error: error.to_string(),
                    remedy: remedy(error).map(str::to_string),
                }),
                slower: ring.and_then(|ring| ring.slower).map(|slower| CacheSlower {
                    origin_us: slower.origin.as_micros() as u64,
                    device_us: slower.device.as_micros() as u64,
                    since_seconds: slower.since.as_secs_f64(),
                }),
                dwpd: self.dwpd.hundredths().map(|hundredths| f64::from(hundredths) / 100.0),
            }
        };
        devices.iter().map(of).collect()
    }
}

/// Opens a device, all of which may hang.
pub(super) fn open(
    device: &DevicePath,
    tops: &[Top],
    lives: &Lives,
    force: bool,
) -> Result<Found, DeviceOpenError> {
    let (role, path) = (DeviceRole::Cache, device.path.clone());
    device.check_outside(role, tops)?;
    let length_before = device.length();
    let place_before = lives.place_of(&path);
    if let Some(place) = place_before.as_ref().filter(|_| length_before.is_none() && !force)
        && mounts().is_ok_and(|mounts| mounted_at(&mounts, place).is_none())
    {
        return Err(DeviceOpenError::NotMounted { role, path, place: place.clone() });
    }
    let file = device.open(role)?;
    let mounts = mounts().unwrap_or_default();
    let mount = path.canonicalize().ok().and_then(|path| mount_of(&mounts, &path));
    let place = mount.map(|mount| mount.mountpoint.clone());
    Ok(Found { file, length_before, place_before, place })
}

/// Sees that a device is no log that holds what its origin lacks, which not even force overwrites.
pub(super) fn check_no_log(paths: &Paths, device: &DevicePath) -> Result<(), CacheError> {
    let Some(LogOnDevice { pool, origin, held }) = LogOnDevice::find(paths, device) else {
        return Ok(());
    };
    Err(CacheError::Log { path: device.path.clone(), pool, origin, held })
}

/// That a device hangs.
pub(super) fn silent(device: &DevicePath) -> CacheError {
    let (role, path, seconds) = (DeviceRole::Cache, device.path.clone(), ANSWER_MAX.as_secs());
    DeviceOpenError::Silent { role, path, seconds }.into()
}

fn rings(pool: &Pool) -> impl Iterator<Item = RingStatistics> {
    pool.flash_statistics().rings.into_iter()
}

impl KnownAs {
    /// A pool that has settings.
    pub fn of_pool(paths: &Paths, pool: &str, origin: &Path) -> KnownAs {
        KnownAs {
            name: [pool.as_bytes(), b"\0", origin.as_os_str().as_encoded_bytes()].concat(),
            called: format!("pool `{pool}`"),
            state_path: paths.caches(pool),
            paths: paths.clone(),
        }
    }
}

/// How a pool is known from start to start.
#[derive(Debug)]
pub(crate) struct KnownAs {
    /// To cache devices.
    pub name: Vec<u8>,
    /// To people.
    pub called: String,
    /// Where is noted which devices are up to date.
    pub state_path: PathBuf,
    /// Where other pools are found.
    pub paths: Paths,
}

/// That a device is refused.
pub(super) fn refused(path: &Path, error: AddError, lives: &Lives) -> CacheError {
    let owner = match &error {
        AddError::OtherPool { pool } => lives.owner(*pool),
        _ => None,
    };
    CacheError::Add { path: path.to_owned(), error, owner }
}

/// Why a device is refused, with its owner.
fn refusal(error: &AddError, owner: Option<&str>) -> String {
    let AddError::OtherPool { .. } = error else { return error.to_string() };
    let owner = owner.unwrap_or("another pool, of which nothing is known on this machine");
    format!("it is a cache of {owner}; force its use to overwrite that")
}

/// What helps against an error of a cache device; nothing if only time does.
fn remedy(error: &DeviceError) -> Option<&'static str> {
    match error {
        DeviceError::System { errno: Errno::NOSPC | Errno::DQUOT, .. } => Some(
            "the file system of the cache file is full: make room there, or give the pool a \
             smaller one",
        ),
        DeviceError::System { errno: Errno::IO | Errno::NXIO | Errno::NODEV, .. }
        | DeviceError::TimedOut { .. } => Some("see what the kernel's log says of it"),
        DeviceError::System { errno: Errno::ROFS | Errno::PERM, .. } => {
            Some("it has become read-only: make it writable again")
        }
        DeviceError::Short { .. } => {
            Some("it has become shorter: remove it from the pool and add it again")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_log_is_named_only_where_it_tells_more() {
        let system = |errno| remedy(&DeviceError::System { operation: "write", errno });
        assert!(system(Errno::NOSPC).is_some_and(|it| it.contains("is full: make room")));
        assert!(system(Errno::IO).is_some_and(|it| it.contains("kernel's log")));
        let short = DeviceError::Short { operation: "read", offset: 0, bytes: 2, moved: 1 };
        assert!(remedy(&short).is_some_and(|it| it.contains("shorter")));
        assert_eq!(remedy(&DeviceError::Closed { operation: "read" }), None);
    }
}
