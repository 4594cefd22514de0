use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures::executor::block_on;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use storage::{
    Capabilities, Clock, DirectoryOptions, DirectoryOrigin, Origin, RealClock, SlowModel,
    SlowOrigin, ThreadPool,
};

use warmfront::{DatasetError, DatasetTree, Datasets, EngineError, Pool, PoolOptions};
use zil::Log;

use crate::caches::{CacheSettings, KnownAs, NewFiles, Shelf, StoredCaches};
use crate::ceiling::{Keeper, KeeperError, Setting, Sources, Watch, memory_limit};
use crate::change::pool_name_from;
use crate::checks::{PlaceError, Places};
use crate::control_group::missing_groups;
use crate::deadline::within;
use crate::descriptor::{self, Announced};
use crate::device_open::tops;
use crate::device_path::DevicePath;
use crate::drain::{drain_at_end, stop_caches_at_end};
use crate::early_stop::EarlyStop;
use crate::error::Holders;
use crate::lock::{LockError, Owner, PoolLock};
use crate::logs::{
    Desk, LogSettings, NewLog, Tell, Waiting, unnamed, unnamed_marker, waits_for_missing,
};
use crate::mountinfo::{mounted_at, mounts};
use crate::neighbours::Newcomer;
use crate::origin_note::OriginNote;
use crate::origin_place::OriginPlace;
use crate::paths::Paths;
use crate::pool_file::{PoolFile, PoolFileError};
use crate::protocol::{Descriptor, Response};
use crate::request::{ANSWER_MAX, MountError, MountRequest, MountSource, Mounted};
use crate::risks::risks;
use crate::server::Server;
use crate::service::Service;
use crate::warmth::{NewState, SnapshotFiles, Warmth, WarmthThread};

/// Threads on which prefetching and priming go on. Each waits for one call to the origin.
const SPAWN_THREADS: usize = 16;

/// Names that are tried for a pool without settings.
const NAMES_MAX: u32 = 1000;

fn system(action: &'static str) -> impl FnOnce(io::Error) -> MountError {
    move |error| MountError::System { action, error }
}

/// Mounts and serves until the mount is gone. `ready` is called when the mount answers; until then
/// `tell` is told how far it is.
///
/// SIGTERM, SIGINT and SIGHUP unmount. While files are open they only say who holds them; the
/// second one detaches the mount.
///
/// # Errors
/// When it cannot be mounted.
pub fn mount_in_foreground(
    paths: &Paths,
    request: &MountRequest,
    tell: Tell<'_>,
    ready: impl FnOnce(&Mounted),
) -> Result<(), MountError> {
    let running = Prepared::new(paths, request)?.start(None, tell)?;
    ready(running.mounted());
    running.wait();
    Ok(())
}

/// A mount request that has been checked, with the pool locked.
#[derive(Debug)]
pub(crate) struct Prepared {
    paths: Paths,
    pool: String,
    settings: Option<PathBuf>,
    datasets: Datasets,
    places: Places,
    ceiling: Setting,
    read_only: bool,
    allow_other: bool,
    slow: Option<SlowModel>,
    no_promote_cgroups: Vec<PathBuf>,
    caches: CacheSettings,
    /// Cache devices were asked for by name: each has to work.
    strict_caches: bool,
    intent_log: LogSettings,
    /// Nothing is brought back of what an earlier start had.
    cold: bool,
    lock: PoolLock,
}

impl Prepared {
    /// Checks everything that can be checked without changing anything, and takes the locks.
    pub fn new(paths: &Paths, request: &MountRequest) -> Result<Prepared, MountError> {
        let file = match &request.source {
            MountSource::Pool(name) => Some(PoolFile::load(paths, name)?),
            MountSource::Directory(_) => None,
        };
        let settings = file.as_ref().map(|file| &file.settings);
        let slow = request.slow.as_ref().or(settings.and_then(|all| all.slow.as_ref()));
        let slow = slow
            .map(|name| name.parse::<SlowModel>())
            .transpose()
            .map_err(|error| MountError::SlowModel(error.to_string()))?;
        let arc_max = request.arc_max.or(settings.and_then(|all| all.arc_max));
        let arc_min = request.arc_min.or(settings.and_then(|all| all.arc_min));
        let ceiling = Setting { arc_max: arc_max.unwrap_or_default(), arc_min };
        ceiling.bounds(&memory_limit())?;
        fuse::PassingGroups::check(&request.no_promote_cgroups)?;
        let no_promote_cgroups = match settings {
            Some(all) if request.no_promote_cgroups.is_empty() => all.no_promote_cgroups.clone(),
            _ => request.no_promote_cgroups.clone(),
        };
        let strict_caches = !request.caches.is_empty();
        let devices = match settings {
            Some(all) if !strict_caches => all.caches.clone(),
            _ => request.caches.clone(),
        };
        let caches = CacheSettings {
            devices: devices.into_iter().map(DevicePath::absolute).collect(),
            dwpd: request.dwpd.or(settings.and_then(|all| all.dwpd)),
            key: request.cache_key.clone().or(settings.and_then(|all| all.cache_key.clone())),
            force: request.force_cache,
        };
        let intent_log = LogSettings {
            device: request.log.clone().or(settings.and_then(|all| all.log.clone())),
            discard: request.discard_log,
            force: request.force_log,
            older_too: false,
        };
        let intent_log =
            LogSettings { device: intent_log.device.map(DevicePath::absolute), ..intent_log };
        let of_caches =
            |device: &&DevicePath| caches.devices.iter().any(|it| it.is_at(&device.path));
        if let Some(device) = intent_log.device.as_ref().filter(of_caches) {
            return Err(MountError::BothDevices { path: device.path.clone() });
        }
        let read_only = request.read_only || settings.is_some_and(|all| all.read_only);
        let allow_other = request.allow_other || settings.is_some_and(|all| all.allow_other);
        let origin = match (&request.source, settings) {
            (MountSource::Directory(path), _) => path,
            (MountSource::Pool(_), Some(settings)) => &settings.origin,
            (MountSource::Pool(name), None) => Path::new(name),
        };
        let stored = settings.and_then(|all| all.mountpoint.as_ref());
        let mountpoint = request.mountpoint.as_ref().or(stored).ok_or_else(|| {
            let origin = match &request.source {
                MountSource::Directory(path) => path.display().to_string(),
                MountSource::Pool(name) => name.clone(),
            };
            MountError::NoMountpoint { origin }
        })?;
        let places = Places::check(paths, origin, mountpoint).map_err(|error| {
            let marker = match &file {
                Some(file) => paths.log_marker(&file.name),
                None => unnamed_marker(paths, origin),
            };
            let is_missing = matches!(&error, PlaceError::Missing { role: "origin", .. });
            let waits = is_missing.then(|| waits_for_missing(&marker, origin)).flatten();
            waits.map_or_else(|| MountError::from(error), MountError::from)
        })?;
        paths.make_runtime_directory()?;
        let (pool, datasets, settings, lock) = match file {
            Some(file) => {
                let lock = lock(paths, &file.name, &places)?;
                (file.name, file.settings.datasets, Some(file.path), lock)
            }
            None => {
                let (pool, lock) = lock_some_name(paths, &places)?;
                let datasets = Datasets::new(&pool).map_err(PoolFileError::from)?;
                (pool, datasets, None, lock)
            }
        };
        let set = |tree: &mut DatasetTree| {
            let mut all = request.properties.iter();
            all.try_for_each(|(property, value)| tree.set(&pool, property, value))
        };
        datasets.edit(set).map_err(|error| match error {
            DatasetError::Property(error) => MountError::Property(error),
            error => MountError::Settings(error.into()),
        })?;
        Ok(Prepared {
            paths: paths.clone(),
            pool,
            settings,
            datasets,
            places,
            ceiling,
            read_only,
            allow_other,
            slow,
            no_promote_cgroups,
            caches,
            strict_caches,
            intent_log,
            cold: request.cold,
            lock,
        })
    }

    /// Where a daemon in the background writes what it has to say.
    pub fn log(&self) -> PathBuf {
        self.paths.log(&self.pool)
    }

    /// Mounts, and returns when the mount answers.
    pub fn start(self, log: Option<PathBuf>, tell: Tell<'_>) -> Result<Running, MountError> {
        crate::allocator::give_memory_back();
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(system("watch signals"))?;
        descriptor::clear(&self.paths, &self.pool);
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let origin = self.origin(&clock)?;
        let mount_options = fuse::MountOptions {
            source: self.pool.clone(),
            read_only: self.read_only,
            allow_other: self.allow_other,
            ..fuse::MountOptions::default()
        };
        let mut warnings = self.warnings(origin.capabilities());
        let known_as = self.known_as();
        let snapshots = SnapshotFiles::new(&known_as.state_path);
        let seed = snapshots.seed();
        let keeper = Keeper::new(Sources::system(), self.ceiling, seed);
        let keeper = keeper.map_err(|error| match error {
            KeeperError::Ceiling(error) => MountError::Ceiling(error),
            KeeperError::System(error) => system("watch the memory")(error),
        })?;
        let note = OriginNote::of(&self.places.origin).map_err(system("look at the origin"))?;
        if !self.read_only {
            // A log may hold what changes the origin.
            let (states, own) = (self.paths.state_directory(), Some(&*known_as.state_path));
            SnapshotFiles::distrust_all(states, &note, own)
                .map_err(system("note that the origin may change"))?;
        }
        // Until the mount is there.
        let new_state = NewState::of(&known_as.state_path);
        snapshots.begin(&note);
        let early_stop = EarlyStop::watch().map_err(system("watch signals"))?;
        let spawn = ThreadPool::new("engine", SPAWN_THREADS).map_err(system("start threads"))?;
        let most_bytes = keeper.status().most_bytes;
        let tops = [self.places.origin.clone(), self.places.mountpoint.clone()];
        let (shelf, flash) =
            Shelf::new(known_as, tops, &self.caches, self.strict_caches, most_bytes)?;
        // Whatever else can refuse the mount has its say before a log is touched.
        fuse::check(&mount_options)?;
        Announced::check(&self.paths, &self.pool)
            .map_err(system("write to the runtime directory"))?;
        self.check_caches()?;
        let used = self.intent_log.device.as_ref().filter(|_| !self.read_only);
        let mut new_log = NewLog::of(used);
        let (desk, intent_log, replayed) = self.intent_log(&*origin, tell)?;
        let desk = Arc::new(desk);
        let options = PoolOptions {
            name: self.pool.clone(),
            origin: origin.clone(),
            datasets: self.datasets,
            memory: keeper.memory().clone(),
            clock: clock.clone(),
            spawn: Arc::new(spawn),
            read_only: self.read_only,
            flash,
        };
        let pool = block_on(Pool::open(options)).map_err(|error| match error {
            EngineError::Dataset(error) => MountError::Settings(error.into()),
            error => MountError::Origin { path: self.places.origin.clone(), error },
        })?;
        let shelf = Arc::new(shelf);
        let new_files = NewFiles::of(&shelf);
        let found = shelf.fill(&pool, &self.caches, self.strict_caches)?;
        drop(early_stop);
        if let (Some(device), Some(log)) = (&self.intent_log.device, intent_log) {
            new_log.taken_in(&desk);
            desk.take_in(&pool, device, log)?;
        }
        let (warmth, hot) = Warmth::new(&pool, snapshots, seed, self.cold);
        // A working directory inside somebody's mount would keep that in use.
        std::env::set_current_dir("/").map_err(system("leave the working directory"))?;
        let origin_place =
            OriginPlace::new(&self.places.origin).map_err(system("open the origin"))?;
        let mountpoint = self.places.mountpoint.clone();
        let mount = fuse::mount(&mountpoint, &mount_options)?;
        // From here on whatever fails takes the mount away again.
        let mut attached = Attached { mountpoint: mountpoint.clone(), is_served: false };
        let device = device_of(&mountpoint).map_err(system("find the new mount"))?;
        let descriptor = Descriptor {
            pool: self.pool.clone(),
            pid: std::process::id(),
            origin: self.places.origin,
            mountpoint: mountpoint.clone(),
            settings: self.settings,
            device,
            log,
        };
        // Socket and descriptor come before the first answer of the mount: whoever sees the
        // mount answer finds them.
        let socket = Server::bind(self.paths.socket(&self.pool))
            .map_err(system("make the control socket"))?;
        let announced = Announced::new(&self.paths, &descriptor)
            .map_err(system("write to the runtime directory"))?;
        let service = Arc::new(Service {
            paths: self.paths,
            descriptor: descriptor.clone(),
            pool: pool.clone(),
            keeper: keeper.clone(),
            shelf: shelf.clone(),
            desk: desk.clone(),
            origin,
            origin_place,
            warmth: warmth.clone(),
            read_only: self.read_only,
            slow: self.slow.map(|model| model.to_string()),
            no_promote_cgroups: self.no_promote_cgroups.clone(),
            warnings: warnings.clone(),
            started: Instant::now(),
            session: OnceLock::new(),
        });
        let groups = fuse::PassingGroups::new(&self.no_promote_cgroups, clock)?;
        let door = fuse::Door::new(pool.clone()).with_passing(groups);
        let session = Arc::new(fuse::Session::start(mount, door, fuse::Crewing::default())?);
        attached.is_served = true;
        let invalidation = fuse::KernelInvalidation::new(session.notifier(), &pool)
            .map_err(system("start a thread"))?;
        pool.set_invalidation(Arc::new(invalidation));
        service.session.set(session.clone()).expect("the session is set here alone");
        let server =
            Server::start(socket, service.clone()).map_err(system("start a control thread"))?;
        if !answers(&mountpoint) {
            let _ = session.unmount(true);
            return Err(MountError::Silent { path: mountpoint });
        }
        let signals = watch(signals, service.clone()).map_err(system("start a thread"))?;
        let mut notes = self.places.notes;
        notes.append(&mut warnings);
        notes.extend(keeper.notes());
        notes.extend(missing_groups(&self.no_promote_cgroups));
        notes.extend(risks(service.pool.datasets()));
        let newcomer = Newcomer {
            pool: &descriptor.pool,
            origin: &descriptor.origin,
            read_only: self.read_only,
            datasets: service.pool.datasets(),
        };
        notes.extend(newcomer.notes(&service.paths));
        notes.extend(found);
        notes.extend(replayed);
        let mounted = Mounted {
            descriptor,
            ceiling_bytes: keeper.memory().ceiling_bytes(),
            ceiling_setting: self.ceiling.arc_max.to_string(),
            caches: service.shelf.devices(),
            log_device: desk.device(),
            notes,
        };
        let watch = keeper.start().map_err(system("start a thread that watches the memory"))?;
        let warmth = warmth.start(hot).map_err(system("start a thread"))?;
        let log_watch =
            desk.watch(&pool).map_err(system("start a thread that looks at the log"))?;
        let cache_watch =
            shelf.watch(&pool).map_err(system("start a thread that looks at cache devices"))?;
        new_files.keep();
        new_log.keep();
        new_state.keep();
        Ok(Running {
            pool,
            desk,
            warmth: Some(warmth),
            mounted,
            _watch: watch,
            _log_watch: log_watch,
            _cache_watch: cache_watch,
            session,
            signals,
            _server: server,
            _attached: attached,
            _announced: announced,
            _lock: self.lock,
        })
    }

    /// How cache devices and people know the pool from start to start. A pool without settings is
    /// known by its origin.
    fn known_as(&self) -> KnownAs {
        let origin = self.places.origin.as_os_str().as_encoded_bytes();
        match &self.settings {
            Some(_) => KnownAs::of_pool(&self.paths, &self.pool, &self.places.origin),
            None => {
                let number = u128::from_le_bytes(crate::caches::id_of(origin));
                KnownAs {
                    name: origin.to_vec(),
                    called: format!("the mount of {}", self.places.origin.display()),
                    state_path: self.paths.caches(&format!("@{number:032x}")),
                    paths: self.paths.clone(),
                }
            }
        }
    }

    /// Sees whether the cache devices that were asked for by name can be used, if a log may be
    /// given up for the mount. Changes nothing.
    fn check_caches(&self) -> Result<(), MountError> {
        if !self.strict_caches || !(self.intent_log.discard || self.intent_log.force) {
            return Ok(());
        }
        let tops = tops(&self.places.origin, Some(&self.places.mountpoint));
        let stored = StoredCaches::new(self.known_as(), tops);
        let looks = self.caches.devices.iter().map(|device| stored.look(device, self.caches.force));
        let refused = looks.filter_map(Result::err).find(|error| !error.is_silent());
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Opens the log device, and brings to the origin what it holds. Tells what was found.
    fn intent_log(
        &self,
        origin: &dyn Origin,
        tell: Tell<'_>,
    ) -> Result<(Desk, Option<Log>, Vec<String>), MountError> {
        let place = &self.places.origin;
        let (name, marker) = match &self.settings {
            Some(_) => (self.pool.as_bytes().to_vec(), self.paths.log_marker(&self.pool)),
            None => (unnamed(place), unnamed_marker(&self.paths, place)),
        };
        let mut notes = Vec::new();
        let waiting = Waiting::find(&self.paths, place, &marker)?.into_iter();
        let (given_up, waiting): (Vec<_>, Vec<_>) =
            waiting.partition(|log| log.is_given_up(&self.intent_log, self.read_only));
        for log in waiting {
            notes.extend(log.settle(origin, &self.intent_log, self.read_only, tell)?);
        }
        let desk = Desk::new((&self.pool, &name), marker, place, Some(&self.places.mountpoint))?;
        let (log, found) = desk.open(origin, &self.intent_log, self.read_only, tell)?;
        // Last of all: nothing is given up for a mount that comes to nothing.
        for log in given_up {
            notes.push(log.give_up()?);
        }
        notes.extend(found);
        Ok((desk, log, notes))
    }

    fn origin(&self, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Origin>, MountError> {
        let path = &self.places.origin;
        let opened = DirectoryOrigin::open(path, DirectoryOptions::default());
        let origin: Arc<dyn Origin> = Arc::new(
            opened
                .map_err(|error| MountError::Origin { path: path.clone(), error: error.into() })?,
        );
        Ok(match self.slow {
            Some(model) => Arc::new(SlowOrigin::new(origin, model, clock.clone())),
            None => origin,
        })
    }

    fn warnings(&self, capabilities: Capabilities) -> Vec<String> {
        let mut warnings = Vec::new();
        if !capabilities.contains(Capabilities::DIRECT) {
            warnings.push(format!(
                "the file system of {} cannot be read around the kernel's page cache, so the \
                 kernel keeps a second copy of what is read; directio=on has no effect there",
                self.places.origin.display()
            ));
        }
        warnings
    }
}

fn lock(paths: &Paths, pool: &str, places: &Places) -> Result<PoolLock, LockError> {
    let owner = Owner {
        pid: std::process::id(),
        pool: pool.to_string(),
        origin: places.origin.clone(),
        mountpoint: places.mountpoint.clone(),
    };
    PoolLock::take(paths, &owner, Some(places.origin_identity))
}

/// A name made of the last part of the origin's path, which no other pool has.
fn lock_some_name(paths: &Paths, places: &Places) -> Result<(String, PoolLock), MountError> {
    let last = places.origin.file_name().unwrap_or(OsStr::new("root")).to_string_lossy();
    let base = pool_name_from(&last);
    let mut tried = 1;
    loop {
        let pool = if tried == 1 { base.clone() } else { format!("{base}-{tried}") };
        tried += 1;
        if paths.settings(&pool).exists() && tried <= NAMES_MAX {
            continue;
        }
        match lock(paths, &pool, places) {
            Ok(lock) => return Ok((pool, lock)),
            // Another origin has the name.
            Err(LockError::Held(owner) | LockError::Dying(owner))
                if owner.origin != places.origin && tried <= NAMES_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The device number of what was just mounted.
fn device_of(mountpoint: &Path) -> io::Result<u64> {
    let mounts = mounts()?;
    let mount = mounted_at(&mounts, mountpoint).filter(|mount| mount.is_warmfront());
    mount.map(|mount| mount.device).ok_or_else(|| {
        io::Error::other(format!("{} is not in /proc/self/mountinfo", mountpoint.display()))
    })
}

/// Whether a look at the mount is answered in time.
fn answers(mountpoint: &Path) -> bool {
    let mountpoint = mountpoint.to_owned();
    within(ANSWER_MAX, move || fs::metadata(mountpoint).is_ok()).unwrap_or(false)
}

/// Unmounts on signals.
fn watch(mut signals: Signals, service: Arc<Service>) -> io::Result<Handle> {
    let handle = signals.handle();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut lazy = false;
        for _ in signals.forever() {
            match service.unmount(lazy) {
                Response::Busy { holders } => {
                    tracing::warn!(
                        "{} is in use{}\nclose these; a second signal detaches the mount",
                        service.descriptor.mountpoint.display(),
                        Holders(&holders)
                    );
                    lazy = true;
                }
                Response::Refused(refusal) => tracing::error!("{}", refusal.message),
                _ => {}
            }
        }
    })?;
    Ok(handle)
}

/// A mount that was made, to be taken away when this is dropped if it is still there.
#[derive(Debug)]
struct Attached {
    mountpoint: PathBuf,
    /// Calls on it are answered, or fail once the session has ended. Before that they wait.
    is_served: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A session can end while its mount stays, dead: when it is aborted in /sys/fs/fuse.
        let mounts = mounts().unwrap_or_default();
        let found = mounted_at(&mounts, &self.mountpoint);
        if found.is_some_and(|mount| mount.is_warmfront())
            && (!self.is_served || fuse::is_disconnected(&self.mountpoint))
            && let Err(error) = fuse::unmount(&self.mountpoint, true)
        {
            tracing::error!("{error}");
        }
    }
}

/// A pool that is mounted and answers. What it holds is given back in the order of its fields.
#[derive(Debug)]
pub(crate) struct Running {
    pool: Arc<Pool>,
    desk: Arc<Desk>,
    warmth: Option<WarmthThread>,
    mounted: Mounted,
    _watch: Watch,
    _log_watch: SyncSender<()>,
    _cache_watch: SyncSender<()>,
    session: Arc<fuse::Session>,
    signals: Handle,
    _attached: Attached,
    _server: Server,
    _announced: Announced,
    _lock: PoolLock,
}

impl Running {
    /// What is served.
    pub fn mounted(&self) -> &Mounted {
        &self.mounted
    }

    /// Serves until the mount is gone, however that came about.
    pub fn wait(mut self) {
        self.session.wait();
        drain_at_end(&self.pool);
        // What the cache holds is found again the next time.
        self.warmth.take().into_iter().for_each(WarmthThread::stop);
        if let Err(error) = stop_caches_at_end(&self.pool) {
            tracing::warn!(%error, "what RAM holds is not written to the cache devices");
        }
        if let Err(error) = self.desk.stop(&self.pool) {
            tracing::error!(%error, "the log keeps what the origin does not have");
        }
        tracing::info!("{} is unmounted", self.mounted.descriptor.mountpoint.display());
    }

    /// Unmounts because nobody waits for the mount any more.
    pub fn give_up(self) {
        // What fails here the drop of the session does: it detaches.
        let _ = self.session.unmount(true);
        self.session.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signals.close();
    }
}
