use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::DevicePath;
use storage::{
    DeviceOptions, DirectoryOptions, DirectoryOrigin, FileDevice, Kind, OpenMode, RealClock,
    SlowModel, SlowOrigin, ThreadPool, block_on,
};
use warmfront::flash::Opening;
use warmfront::{Datasets, Memory, OpenFile, Pool, PoolOptions, Statistics};

use crate::demo::Front;
use crate::demo::selection::Selection;
use crate::demo::work::{RANDOM_READ_BYTES, Work, check, places};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;
/// Threads for prefetching.
const THREADS: usize = 8;

/// The same pool without a mount: for machines where FUSE cannot be had.
pub(crate) struct Library {
    pool: Arc<Pool>,
    origin: PathBuf,
    model: SlowModel,
    ceiling_bytes: u64,
    cache: DevicePath,
    life: u128,
}

impl Library {
    pub(crate) fn open(
        origin: &Path,
        model: SlowModel,
        ceiling_bytes: u64,
        cache: &DevicePath,
    ) -> Result<Library> {
        let pool = open(origin, model, ceiling_bytes)?;
        let library = Library {
            pool,
            origin: origin.to_owned(),
            model,
            ceiling_bytes,
            cache: cache.clone(),
            life: 1,
        };
        library.add_cache()?;
        Ok(library)
    }

    fn add_cache(&self) -> Result<()> {
        let options =
            DeviceOptions { size_bytes: self.cache.size_bytes, ..DeviceOptions::default() };
        let device = FileDevice::open(&self.cache.path, &options).map_err(Failure::new)?;
        let opening = Opening {
            pool: [1; 16],
            device: [1; 16],
            salt: self.life.to_le_bytes(),
            life: self.life,
            lives: (self.life > 1).then(|| vec![self.life - 1]),
            wall_seconds: 0,
            force: false,
            empty: false,
        };
        block_on(self.pool.add_cache(Arc::new(device), &opening)).map_err(Failure::new)?;
        Ok(())
    }

    /// Looks at the attributes of everything.
    async fn find(&self, interrupt: &Interrupt) -> Result<()> {
        let mut stack = vec![self.pool.resolve(Path::new("")).await?.object];
        while let Some(object) = stack.pop() {
            check(interrupt)?;
            let directory = self.pool.open_directory(object).await?;
            self.pool.forget(object, 1);
            for index in 0..directory.entries().await?.len() {
                if let Some(found) = directory.found(index).await {
                    match found.attributes.kind {
                        Kind::Directory => stack.push(found.object),
                        _ => self.pool.forget(found.object, 1),
                    }
                }
            }
        }
        Ok(())
    }

    async fn file(&self, path: &Path) -> Result<Arc<OpenFile>> {
        let found = self.pool.resolve(path).await?;
        let mode = OpenMode { read: true, ..OpenMode::default() };
        let file = self.pool.open_file(found.object, mode).await;
        self.pool.forget(found.object, 1);
        Ok(file?)
    }
}

impl Front for Library {
    fn statistics(&self) -> Result<Statistics> {
        Ok(self.pool.statistics())
    }

    /// Does the work through the pool's calls.
    fn run(&self, work: Work, selection: &Selection, interrupt: &Interrupt) -> Result<Duration> {
        let started = Instant::now();
        match work {
            Work::Find => block_on(self.find(interrupt))?,
            Work::Read => {
                for (path, size) in &selection.files {
                    check(interrupt)?;
                    let file = block_on(self.file(path))?;
                    for offset in (0..*size).step_by(READ_BYTES) {
                        read(&file, offset, READ_BYTES)?;
                    }
                }
            }
            Work::Random => {
                for (path, offset) in places(selection) {
                    check(interrupt)?;
                    read(&block_on(self.file(path))?, offset, RANDOM_READ_BYTES)?;
                }
            }
        }
        Ok(started.elapsed())
    }

    fn restart(&mut self) -> Result<()> {
        block_on(self.pool.stop_caches());
        let snapshot = self.pool.snapshot();
        self.pool = open(&self.origin, self.model, self.ceiling_bytes)?;
        self.pool.restore(&snapshot, true);
        self.life += 1;
        self.add_cache()
    }
}

/// The pool without its cache device.
fn open(origin: &Path, model: SlowModel, ceiling_bytes: u64) -> Result<Arc<Pool>> {
    let clock = Arc::new(RealClock::new());
    let directory =
        DirectoryOrigin::open(origin, DirectoryOptions::default()).map_err(Failure::new)?;
    let datasets = Datasets::new("demo").map_err(Failure::new)?;
    datasets.set("demo", "coherence", "exclusive").map_err(Failure::new)?;
    let spawn = ThreadPool::new("demo", THREADS).map_err(Failure::new)?;
    let options = PoolOptions {
        name: "demo".to_string(),
        origin: Arc::new(SlowOrigin::new(Arc::new(directory), model, clock.clone())),
        datasets,
        memory: Memory::new(ceiling_bytes),
        clock,
        spawn: Arc::new(spawn),
        read_only: true,
        flash: warmfront::flash::FlashOptions::default(),
    };
    Ok(block_on(Pool::open(options))?)
}

/// Reads as a door does: from RAM, else by waiting.
fn read(file: &Arc<OpenFile>, offset: u64, length: usize) -> Result<()> {
    if file.read_cached(offset, length).is_none() {
        block_on(file.read(offset, length))?;
    }
    Ok(())
}
