use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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
use crate::descriptor;
use crate::device_open::{DeviceOpenError, Top};
use crate::device_path::{DevicePath, DeviceRole};
use crate::mountinfo::{mount_of, mounted_at, mounts};
use crate::paths::Paths;
use crate::protocol::{CacheBypass, CacheFault, CacheSlower, CacheStatus};

/// The part of the ceiling that the index of what lies on flash may take, as its divisor.
const INDEX_SHARE: u64 = 4;

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
    devices: Mutex<Vec<Shelved>>,
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
            devices,
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
        for device in &settings.devices {
            match self.add_one(pool, device, settings.force, before.clone()) {
                Ok(note) => notes.extend(note),
                Err(error) if strict => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "the pool goes on without a cache device");
                    let note = error.to_string();
                    notes.push(format!("{note}; the pool goes on without it"));
                    let device = device.clone();
                    let place = format!("cache device {}", device.path.display());
                    let why = note.strip_prefix(&place).map(|why| why.trim_start_matches(": "));
                    let note = why.map_or(note.clone(), |why| why.trim_start().to_string());
                    self.devices.lock().push(Shelved { device, id: None, note, file: None });
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
        self.begin_life(pool)?;
        let note = self.add_one(pool, device, force, Vec::new())?;
        Ok(note.unwrap_or_else(|| "it was blank".to_string()))
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
        let mut devices = self.devices.lock();
        if devices.iter().any(|known| known.id.is_some() && known.device.is_at(&path)) {
            return Err(CacheError::Present { path });
        }
        device.check_outside(DeviceRole::Cache, &self.tops)?;
        let length_before = device.length();
        let place_before = self.lives.place_of(&path);
        if let Some(place) = place_before.as_ref().filter(|_| length_before.is_none() && !force)
            && mounts().is_ok_and(|mounts| mounted_at(&mounts, place).is_none())
        {
            let (role, place) = (DeviceRole::Cache, place.clone());
            return Err(DeviceOpenError::NotMounted { role, path, place }.into());
        }
        let opened = device.open(DeviceRole::Cache).map_err(|error| self.name_pool(error));
        let file = Arc::new(opened?);
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
            device.undo(length_before);
            let owner = match &error {
                AddError::OtherPool { pool } => self.lives.owner(*pool),
                _ => None,
            };
            CacheError::Add { path: path.clone(), error, owner }
        })?;
        let ring = rings(pool).find(|ring| !known.contains(&ring.device));
        let (id, size_bytes) = ring.map(|ring| (ring.device, ring.size_bytes)).unzip();
        let kept = size_bytes.filter(|_| opened == Opened::Warm);
        if let (Some(kept), Some(before)) = (kept, length_before)
            && kept <= before
        {
            device.undo(length_before);
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
            Opened::Damaged => Some("its journal is damaged, so it starts empty"),
            _ => Some("it starts empty"),
        };
        let mounts = mounts().unwrap_or_default();
        let place = path.canonicalize().ok().and_then(|path| mount_of(&mounts, &path));
        self.lives.note(&path, place.map(|place| &*place.mountpoint)).map_err(state)?;
        devices.retain(|known| !known.device.is_at(&path));
        let note = found.unwrap_or("it was blank").to_string();
        devices.push(Shelved { device: device.clone(), id, note, file: Some(file) });
        // A key of each start makes it forget on purpose.
        let is_lost = !matches!(opened, Opened::Warm | Opened::OtherKey);
        let told = found.map(|found| format!("cache device {}: {found}", path.display()));
        if let Some(told) = told.as_ref().filter(|_| place_before.is_some() && is_lost) {
            tracing::warn!("{told}");
        }
        Ok(told)
    }

    /// Names the pool that uses a device, if it is one.
    fn name_pool(&self, error: DeviceOpenError) -> DeviceOpenError {
        let DeviceOpenError::InUse { role, path, user, pid } = error else { return error };
        let running = descriptor::load_all(&self.paths).unwrap_or_default();
        let pool = running.into_iter().find(|running| Some(running.pid) == pid);
        let user = pool.map_or(user, |running| {
            format!("pool `{}`, mounted at {}", running.pool, running.mountpoint.display())
        });
        DeviceOpenError::InUse { role, path, user, pid }
    }

    /// Stops using a device, and wipes it, so that nobody takes it for one that is up to date.
    pub fn remove(&self, pool: &Arc<Pool>, path: &Path) -> Result<DevicePath, CacheError> {
        let mut devices = self.devices.lock();
        let Some(at) = devices.iter().position(|known| known.device.is_at(path)) else {
            let has: Vec<String> =
                devices.iter().map(|known| known.device.path.display().to_string()).collect();
            let has = if has.is_empty() { "none".to_string() } else { has.join(", ") };
            return Err(CacheError::Unknown { path: path.to_owned(), has });
        };
        let Shelved { device, id, .. } = devices.remove(at);
        let state = |error| CacheError::State { path: self.state_path.clone(), error };
        self.lives.note(&device.path, None).map_err(state)?;
        if let Some(id) = id {
            // If it stops here, what the device holds must not be used again.
            self.lives.strike().map_err(state)?;
            if let Some(Err(error)) = block_on(pool.remove_cache(id)) {
                let path = device.path.display();
                tracing::warn!(%path, %error, "a removed cache device cannot be wiped");
            }
            self.begin_life(pool)?;
        }
        Ok(device)
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
                is_gone: known.file.as_ref().is_some_and(|file| !file.is_at(&known.device.path)),
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

fn rings(pool: &Pool) -> impl Iterator<Item = RingStatistics> {
    pool.flash_statistics().rings.into_iter()
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
