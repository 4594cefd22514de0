use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::block_on;
use warmfront::{HotRecords, Pool, Restored, SNAPSHOT_BYTES_MAX};

use crate::origin_note::OriginNote;
use crate::paths::replace_file;

/// Between two times at which is written down what a crash would else take.
const SAVE_INTERVAL: Duration = Duration::from_secs(300);

/// Where what the cache holds is written down: in one file by a pool that is stopped, in another
/// by one that runs, so that a start tells a clean stop from a crash.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFiles {
    stopped: PathBuf,
    running: PathBuf,
    /// Which origin they tell of.
    note: PathBuf,
    /// By what keys are hashed, so that what was remembered means something. Who knows it can
    /// choose keys that collide.
    seed: PathBuf,
    /// Is there if that has been changed by another pool since this one was started or stopped.
    mark: PathBuf,
}

impl SnapshotFiles {
    /// The files of a pool whose state lies at `path`.
    pub fn new(path: &Path) -> SnapshotFiles {
        SnapshotFiles {
            stopped: path.with_extension("stopped.snapshot"),
            running: path.with_extension("running.snapshot"),
            note: OriginNote::file(path),
            seed: path.with_extension("seed"),
            mark: path.with_extension("distrusted"),
        }
    }

    /// Removes them.
    pub fn remove(&self) -> io::Result<()> {
        for path in [&self.stopped, &self.running, &self.note, &self.seed, &self.mark] {
            crate::paths::remove_file(path)?;
        }
        Ok(())
    }

    /// Notes that from here on the pool stands before `origin`. What it knows of another one is
    /// not believed.
    pub fn begin(&self, origin: &OriginNote) {
        if origin.is_in(&self.note) {
            return;
        }
        // The note comes last: without it the next start distrusts it as well.
        let made = self.note.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(error) =
            made.and_then(|()| self.distrust()).and_then(|()| origin.save(&self.note))
        {
            // What is not noted is not believed at the next start.
            tracing::warn!(%error, "it cannot be noted which origin is used");
        }
    }

    /// Before `origin` is changed: of what is there no pool believes at its next start what it has
    /// written down, but that whose state lies at `changer`. `directory` has the state of all.
    pub fn distrust_all(
        directory: &Path,
        origin: &OriginNote,
        changer: Option<&Path>,
    ) -> io::Result<()> {
        let pools = origin.pools(directory)?;
        let mut others = pools.iter().filter(|pool| Some(&***pool) != changer);
        others.try_for_each(|pool| SnapshotFiles::new(pool).distrust())
    }

    /// What is written down until the next start is not believed there.
    fn distrust(&self) -> io::Result<()> {
        replace_file(&self.mark, &[], 0o600)
    }

    fn is_distrusted(&self) -> bool {
        self.mark.exists()
    }

    /// The seed of the keys' hashes: that of the start which wrote down last, or another one.
    pub fn seed(&self) -> u64 {
        let saved = fs::read(&self.seed).ok().and_then(|bytes| bytes.try_into().ok());
        saved.map_or_else(|| RandomState::new().hash_one(()), u64::from_le_bytes)
    }

    /// What was written down last, and whether the pool was stopped then and nobody is known to
    /// have changed the origin since. From here on the pool runs.
    fn take(&self) -> io::Result<Option<(Vec<u8>, bool)>> {
        let was_stopped = match fs::rename(&self.stopped, &self.running) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let cleanly = was_stopped && !self.is_distrusted();
        crate::paths::remove_file(&self.mark)?;
        let mut bytes = Vec::new();
        match File::open(&self.running) {
            Ok(file) => file.take(SNAPSHOT_BYTES_MAX).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some((bytes, cleanly)))
    }

    fn save(&self, pool: &Pool, seed: u64, is_stopped: bool) -> io::Result<u64> {
        let bytes = pool.snapshot();
        let path = if is_stopped { &self.stopped } else { &self.running };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let seed = seed.to_le_bytes();
        if fs::read(&self.seed).ok().as_deref() != Some(&seed[..]) {
            replace_file(&self.seed, &seed, 0o600)?;
        }
        replace_file(path, &bytes, 0o600)?;
        Ok(bytes.len() as u64)
    }
}

/// What a mount notes of a pool of which nothing was noted before; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct NewState(Vec<PathBuf>);

impl NewState {
    /// That of a pool whose state lies at `path`.
    pub fn of(path: &Path) -> NewState {
        let SnapshotFiles { note, mark, .. } = SnapshotFiles::new(path);
        let mut files = vec![path.to_owned(), note, mark];
        files.retain(|file| !file.exists());
        NewState(files)
    }

    /// It stays: the mount is there.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewState {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = crate::paths::remove_file(path) {
                let path = path.display();
                tracing::warn!(%path, %error, "what a refused mount has noted is not removed");
            }
        }
    }
}

/// Brings back what an earlier start has written down, and writes it down for the next.
pub(crate) struct Warmth {
    pool: Arc<Pool>,
    files: SnapshotFiles,
    /// See [`SnapshotFiles::seed`].
    seed: u64,
    state: Mutex<State>,
    ends: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    restored: Restored,
    saved_at: Option<Instant>,
}

impl Warmth {
    /// Brings answers of the origin back, before anybody uses the pool; unless it is to start
    /// `cold`. Its memory has the `seed`.
    pub fn new(
        pool: &Arc<Pool>,
        files: SnapshotFiles,
        seed: u64,
        cold: bool,
    ) -> (Arc<Warmth>, HotRecords) {
        let taken = files.take().unwrap_or_else(|error| {
            tracing::warn!(%error, "what the cache held cannot be read; it starts cold");
            None
        });
        let (restored, hot) = match taken {
            Some((bytes, cleanly)) if !cold => pool.restore(&bytes, cleanly),
            _ => <(Restored, HotRecords)>::default(),
        };
        let state = Mutex::new(State { restored, saved_at: None });
        let (pool, ends) = (pool.clone(), AtomicBool::new(false));
        let warmth = Warmth { pool, files, seed, state, ends };
        (Arc::new(warmth), hot)
    }

    /// Begins to bring records back, and to write down now and then what there is.
    pub fn start(self: &Arc<Self>, hot: HotRecords) -> io::Result<WarmthThread> {
        let (stop, stopped) = sync_channel(1);
        let warmth = self.clone();
        let thread = std::thread::Builder::new().name("warmth".into()).spawn(move || {
            let told = |restored| {
                warmth.state.lock().restored = restored;
                !warmth.ends.load(Ordering::Relaxed)
            };
            let restored = warmth.state.lock().restored;
            block_on(warmth.pool.restore_records(restored, hot, &told));
            while stopped.recv_timeout(SAVE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = warmth.save() {
                    tracing::warn!(%error, "what the cache holds cannot be written down");
                }
            }
        })?;
        Ok(WarmthThread { warmth: self.clone(), stop, thread: Some(thread) })
    }

    /// Writes down what the cache holds now. Returns how long that is, in bytes.
    pub fn save(&self) -> io::Result<u64> {
        let bytes = self.files.save(&self.pool, self.seed, false)?;
        self.state.lock().saved_at = Some(Instant::now());
        Ok(bytes)
    }

    /// What was brought back, and how many seconds ago it was written down last.
    pub fn status(&self) -> (Restored, Option<f64>) {
        let state = self.state.lock();
        (state.restored, state.saved_at.map(|at| at.elapsed().as_secs_f64()))
    }
}

/// The thread of a [`Warmth`]; ends when this is dropped.
pub(crate) struct WarmthThread {
    warmth: Arc<Warmth>,
    stop: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl WarmthThread {
    /// Writes down what the cache holds, of a pool that nobody uses any more.
    pub fn stop(mut self) {
        self.end();
        // Who has changed the origin beside this pool may have done so unnoticed.
        let Warmth { pool, files, seed, .. } = &*self.warmth;
        if let Err(error) = files.save(pool, *seed, !files.is_distrusted()) {
            tracing::warn!(%error, "what the cache held cannot be written down");
        }
    }

    fn end(&mut self) {
        self.warmth.ends.store(true, Ordering::Relaxed);
        // It is told once; a second time finds it told.
        let _ = self.stop.try_send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that brings records back has failed");
        }
    }
}

impl Drop for WarmthThread {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for WarmthThread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WarmthThread").finish_non_exhaustive()
    }
}
