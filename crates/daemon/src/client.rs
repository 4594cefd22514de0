use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::descriptor;
use crate::device_path::DevicePath;
use crate::error::ControlError;
use crate::line::{Connection, LineError};
use crate::lock::PoolLock;
use crate::logs::MountProgress;
use crate::paths::Paths;
use crate::process::is_dying;
use crate::protocol::{
    CeilingSet, Change, Changed, CurveReport, DatasetRow, Descriptor, Prime, PrimeProgress,
    PrimeReport, PropertyRow, RESPONSE_BYTES_MAX, RecordedRequests, Request, Response, SILENCE_MAX,
    Setting, Statistics, Status, TxgRow, Undone, Why,
};
use crate::socket::connect;
use crate::stuck::end_connection_of;

/// Between two looks at what the origin does not have yet.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);
/// Between two looks what that waits for; each has a group closed.
const SYNC_TELL_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks whether the origin keeps it.
const SYNC_LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How long a daemon may take to end that takes no more requests.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// How long an origin may refuse what was written before that is told.
const REFUSED_MAX: Duration = Duration::from_secs(5);

/// Is told what the origin does not have yet, and says whether to go on waiting for it.
pub type Draining<'a> = &'a mut dyn FnMut(&Undone) -> ControlFlow<()>;

/// The control socket of a pool that is mounted. Each call is a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    paths: Paths,
    descriptor: Descriptor,
}

impl Client {
    pub(crate) fn new(paths: &Paths, descriptor: Descriptor) -> Client {
        Client { paths: paths.clone(), descriptor }
    }

    /// What the daemon serves.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Whether somebody listens. Asks nothing.
    pub(crate) fn is_alive(&self) -> bool {
        // The kernel keeps the socket of a daemon that was killed open for a moment.
        connect(&self.paths.socket(&self.descriptor.pool)).is_ok() && !is_dying(self.descriptor.pid)
    }

    /// Whether somebody listens. The mount of a daemon that was killed and cannot end is broken
    /// off.
    pub(crate) fn is_alive_or_ends(&self) -> bool {
        let is_alive = self.is_alive();
        if !is_alive {
            end_connection_of(&self.paths, &self.descriptor);
        }
        is_alive
    }

    /// Whether the pool was unmounted, when its daemon answers no more. Waits for one that is just
    /// ending.
    pub fn was_unmounted(&self) -> bool {
        let deadline = Instant::now() + ENDING_MAX;
        loop {
            let Descriptor { pool, pid, .. } = &self.descriptor;
            // In this order: who ends removes what it has announced, then lets go of the lock.
            let lives = PoolLock::holder(&self.paths, pool).is_some();
            let is_announced = || descriptor::load(&self.paths, pool).map(|known| known.pid);
            if is_announced() != Some(*pid) {
                return true;
            }
            if !lives || Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(DRAIN_INTERVAL);
        }
    }

    /// Makes one request and waits for its answer. Refusals come as errors.
    ///
    /// # Errors
    /// When the daemon is dead, does not answer, or refuses.
    pub fn call(&self, request: Request) -> Result<Response, ControlError> {
        let mut connection = self.connect()?;
        let sent = connection.send(request);
        // A daemon that will not even read the request may still say why.
        match (self.answer(&mut connection), sent) {
            (Err(ControlError::Connection { .. }), Err(error)) => Err(self.failed(error)),
            (answer, _) => answer,
        }
    }

    /// Whether the daemon answers.
    ///
    /// # Errors
    /// When it does not.
    pub fn ping(&self) -> Result<(), ControlError> {
        match self.call(Request::Ping)? {
            Response::Pong => Ok(()),
            _ => Err(self.wrong_answer()),
        }
    }

    /// How the pool is.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn status(&self) -> Result<Status, ControlError> {
        match self.call(Request::Status)? {
            Response::Status(status) => Ok(*status),
            _ => Err(self.wrong_answer()),
        }
    }

    /// The pool's counters.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn statistics(&self) -> Result<Statistics, ControlError> {
        match self.call(Request::Statistics)? {
            Response::Statistics(statistics) => Ok(statistics),
            _ => Err(self.wrong_answer()),
        }
    }

    /// All datasets of the pool.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn datasets(&self) -> Result<Vec<DatasetRow>, ControlError> {
        match self.call(Request::List)? {
            Response::Datasets(datasets) => Ok(datasets),
            _ => Err(self.wrong_answer()),
        }
    }

    /// The dataset that a path relative to the pool's top belongs to.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn dataset_of(&self, path: &Path) -> Result<DatasetRow, ControlError> {
        match self.call(Request::DatasetOf { path: path.to_owned() })? {
            Response::Dataset(dataset) => Ok(dataset),
            _ => Err(self.wrong_answer()),
        }
    }

    /// All properties of a dataset.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn get(&self, dataset: &str) -> Result<Vec<PropertyRow>, ControlError> {
        match self.call(Request::Get { dataset: dataset.to_string() })? {
            Response::Properties(rows) => Ok(rows),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Lets it write down what the cache holds. Returns how long that is, in bytes.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn save(&self) -> Result<u64, ControlError> {
        match self.call(Request::Save)? {
            Response::Saved { bytes } => Ok(bytes),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Waits until the origin keeps everything that was written. `progress` is told what is left,
    /// several times a second; when it breaks, the daemon goes on alone.
    ///
    /// # Errors
    /// [`ControlError::Left`] when `progress` breaks, [`ControlError::Undone`] when the origin does
    /// not take it; and as [`call`](Client::call).
    pub fn sync(&self, progress: Draining<'_>) -> Result<(), ControlError> {
        let (mut failing_since, mut txg) = (None, None);
        loop {
            let Response::Undone(undone) = self.call(Request::Drain)? else {
                return Err(self.wrong_answer());
            };
            if undone.is_done(*txg.get_or_insert(undone.open_txg)) {
                break;
            }
            if progress(&undone).is_break() {
                let (pool, undone) = (self.descriptor.pool.clone(), Box::new(undone));
                return Err(ControlError::Left { pool, undone });
            }
            let since =
                undone.failing.as_ref().map(|_| *failing_since.get_or_insert_with(Instant::now));
            failing_since = since;
            if since.is_some_and(|since| since.elapsed() >= REFUSED_MAX) {
                let (pool, undone) = (self.descriptor.pool.clone(), Box::new(undone));
                return Err(ControlError::Undone { pool, undone });
            }
            std::thread::sleep(DRAIN_INTERVAL);
        }
        let client = self.clone();
        let syncing = std::thread::spawn(move || client.call(Request::Sync));
        let mut looked = Instant::now();
        while !syncing.is_finished() {
            std::thread::sleep(SYNC_LOOK_INTERVAL);
            if looked.elapsed() < SYNC_TELL_INTERVAL {
                continue;
            }
            looked = Instant::now();
            // What it says of itself is less urgent than whether it is done.
            if let Ok(Response::Undone(undone)) = self.call(Request::Drain)
                && progress(&undone).is_break()
            {
                let (pool, undone) = (self.descriptor.pool.clone(), Box::new(undone));
                return Err(ControlError::Left { pool, undone });
            }
        }
        match syncing.join().map_err(|_| self.wrong_answer())?? {
            Response::Synced => Ok(()),
            _ => Err(self.wrong_answer()),
        }
    }

    /// What the origin does not have yet, and what is waited for, as far as a daemon that ends can
    /// still tell.
    pub(crate) fn undone(&self) -> Option<Undone> {
        match self.call(Request::Drain) {
            Ok(Response::Undone(undone)) => Some(undone),
            _ => None,
        }
    }

    /// The last transaction groups, the open one last.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn txgs(&self) -> Result<Vec<TxgRow>, ControlError> {
        match self.call(Request::Txgs)? {
            Response::Txgs(txgs) => Ok(txgs),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Begins to record what is asked for, of `percent` of all contents. Who does not come for it
    /// for half a minute ends it.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn record(&self, percent: f64) -> Result<(), ControlError> {
        match self.call(Request::Record { percent })? {
            Response::Recorded(_) => Ok(()),
            _ => Err(self.wrong_answer()),
        }
    }

    /// What was recorded since the last time; with `stop` the recording ends.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn recorded(&self, stop: bool) -> Result<RecordedRequests, ControlError> {
        match self.call(Request::Recorded { stop })? {
            Response::Recorded(recorded) => Ok(recorded),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Takes a cache device in. Says how long that lasts, and what was found on it.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn add_cache(
        &self,
        device: DevicePath,
        force: bool,
    ) -> Result<(Changed, Option<String>), ControlError> {
        match self.call(Request::AddCache { device, force })? {
            Response::CachesChanged { changed, found } => Ok((changed, found)),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Stops using a cache device. Says how long that lasts, and what else there is to say.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn remove_cache(&self, path: &Path) -> Result<(Changed, Option<String>), ControlError> {
        match self.call(Request::RemoveCache { path: path.to_owned() })? {
            Response::CachesChanged { changed, found } => Ok((changed, found)),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Takes a log device in; `tell` is told how far that is. Says how long it lasts, and what was
    /// found.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn add_log(
        &self,
        device: DevicePath,
        force: bool,
        tell: &mut dyn FnMut(MountProgress),
    ) -> Result<(Changed, Vec<String>), ControlError> {
        let mut connection = self.connect()?;
        let request = Request::AddLog { device, force };
        connection.send(request).map_err(|error| self.failed(error))?;
        loop {
            match self.answer(&mut connection)? {
                Response::Progress(now) => tell(now),
                Response::LogChanged { changed, notes } => return Ok((changed, notes)),
                _ => return Err(self.wrong_answer()),
            }
        }
    }

    /// Stops using the log device.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn remove_log(&self, path: &Path) -> Result<Changed, ControlError> {
        match self.call(Request::RemoveLog { path: path.to_owned() })? {
            Response::LogChanged { changed, .. } => Ok(changed),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Changes datasets or properties.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn change(&self, change: Change) -> Result<Changed, ControlError> {
        match self.call(Request::Change(change))? {
            Response::Changed(changed) => Ok(changed),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Where the records of a file are; the path is relative to the pool's top.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn why(&self, path: &Path) -> Result<Why, ControlError> {
        match self.call(Request::Why { path: path.to_owned() })? {
            Response::Why(why) => Ok(*why),
            _ => Err(self.wrong_answer()),
        }
    }

    /// What other sizes would make of the present load of a dataset, or of the whole pool; with
    /// `recursive` also of each dataset in use below it.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn curves(
        &self,
        dataset: Option<&str>,
        recursive: bool,
    ) -> Result<Vec<CurveReport>, ControlError> {
        let dataset = dataset.map(str::to_string);
        match self.call(Request::Curve { dataset, recursive })? {
            Response::Curves(curves) => Ok(curves),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Sets the ceiling, and returns when memory has been given back.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn set_ceiling(&self, setting: Setting) -> Result<CeilingSet, ControlError> {
        match self.call(Request::SetCeiling(setting))? {
            Response::Ceiling(done) => Ok(done),
            _ => Err(self.wrong_answer()),
        }
    }

    /// Fills the cache on purpose. When `progress`, which is called a few times a second, says
    /// break, or this process ends, priming stops, and what was fetched stays.
    ///
    /// Returns nothing when `progress` broke it off.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn prime(
        &self,
        prime: Prime,
        progress: &mut dyn FnMut(PrimeProgress) -> ControlFlow<()>,
    ) -> Result<Option<PrimeReport>, ControlError> {
        let mut connection = self.connect()?;
        connection.send(Request::Prime(prime)).map_err(|error| self.failed(error))?;
        loop {
            match self.answer(&mut connection)? {
                Response::PrimeProgress(now) => {
                    if progress(now).is_break() {
                        return Ok(None);
                    }
                }
                Response::Primed(report) => return Ok(Some(report)),
                _ => return Err(self.wrong_answer()),
            }
        }
    }

    fn connect(&self) -> Result<Connection, ControlError> {
        let stream = connect(&self.paths.socket(&self.descriptor.pool));
        stream.and_then(|stream| Connection::new(stream, SILENCE_MAX)).map_err(|error| {
            let gone = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound];
            match gone.contains(&error.kind()) {
                true => ControlError::Dead { mountpoint: self.descriptor.mountpoint.clone() },
                false => self.failed(error.into()),
            }
        })
    }

    fn answer(&self, connection: &mut Connection) -> Result<Response, ControlError> {
        let response = connection
            .receive(RESPONSE_BYTES_MAX, SILENCE_MAX)
            .map_err(|error| self.failed(error))?;
        match response {
            Response::Refused(refusal) => Err(ControlError::Refused(refusal)),
            Response::Busy { holders } => {
                Err(ControlError::Busy { mountpoint: self.descriptor.mountpoint.clone(), holders })
            }
            response => Ok(response),
        }
    }

    fn failed(&self, error: LineError) -> ControlError {
        ControlError::Connection { pool: self.descriptor.pool.clone(), error }
    }

    fn wrong_answer(&self) -> ControlError {
        ControlError::WrongAnswer { pool: self.descriptor.pool.clone() }
    }
}
