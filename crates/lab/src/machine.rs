//! [`Machine`]: the engine itself on modelled devices and virtual time.

mod load;
mod origin;
mod parameters;

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    Caller, Clock, Layered, MemoryDevice, MemoryOrigin, Node, ObjectId, OpenMode, Origin,
    SetAttributes, Simulation, SlowOrigin, Spawn, UnknownSlowModel,
};
use warmfront::flash::{FlashOptions, Opening, Options};
use warmfront::{Datasets, Memory, OpenFile, Pool, PoolOptions};

use crate::model::{
    Model, ModelDevice, Nanoseconds, Network, Processor, Request, Station, Traffic,
};
pub use load::{Load, Step, Steps, Tally};
use origin::DiskTimes;
pub use parameters::{CacheParameters, MachineError, MachineParameters};

/// RAM for what is not written yet to a cache device. It does not shrink with the sizes.
const BUFFERS_BYTES: usize = 8 << 20;
/// How often, and by how much, the ceiling follows what is charged beside the ARC.
const CHARGES_INTERVAL: Duration = Duration::from_millis(5);
const CHARGES_STEP_BYTES: u64 = 256 << 10;
/// Writes and segments of a cache device: small, so that even a small one has many.
const CHUNK_BYTES: usize = 256 << 10;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Blocks of a cache device.
const BLOCK_BYTES: usize = 4096;
const READ_WRITE: OpenMode =
    OpenMode { read: true, write: true, truncate: false, direct: false, sync: false };
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// A machine on virtual time: the engine over modelled disks, with modelled cache devices, its
/// work done by a modelled processor. Nothing in it is a copy of the engine: it is the engine.
///
/// Bytes of files that were never written take no memory, so files may be of any size; what the
/// caches hold does. Sizes are those of the parameters, divided by their divisor; times are as they
/// are. The same seed gives the same run.
pub struct Machine {
    simulation: Simulation,
    origin: MemoryOrigin,
    disks: Arc<Layered<DiskTimes>>,
    station: Arc<Station>,
    disk_count: usize,
    pool: Arc<Pool>,
    caches: Vec<Arc<Station>>,
    /// What the ARC may take.
    memory_bytes: Arc<AtomicU64>,
    front: Mutex<Box<dyn Model>>,
}

/// What devices have done until a moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    /// When.
    pub now: Duration,
    /// What the disks were asked for.
    pub disks: Traffic,
    /// Disk time with something to do, over all disks.
    pub disks_busy: Duration,
    /// How many disks there are.
    pub disk_count: usize,
    /// What the cache devices were asked for.
    pub caches: Traffic,
}

impl Work {
    /// What was done since.
    pub fn since(&self, earlier: &Work) -> Work {
        Work {
            now: self.now - earlier.now,
            disks: self.disks - earlier.disks,
            disks_busy: self.disks_busy.saturating_sub(earlier.disks_busy),
            disk_count: self.disk_count,
            caches: self.caches - earlier.caches,
        }
    }

    /// The share of the time in which a disk had something to do, in percent.
    pub fn disks_busy_percent(&self) -> f64 {
        let all = self.now.as_secs_f64() * self.disk_count as f64;
        if all == 0.0 { 0.0 } else { 100.0 * self.disks_busy.as_secs_f64() / all }
    }
}

impl Machine {
    /// Builds the machine and starts its pool.
    ///
    /// # Errors
    /// When the parameters do not fit together.
    pub fn new(parameters: &MachineParameters, seed: u64) -> Result<Arc<Machine>, MachineError> {
        parameters.check()?;
        let simulation = Simulation::new(seed);
        let clock: Arc<dyn Clock> = Arc::new(simulation.clone());
        let stripe = parameters.stripe()?;
        let disk_count = stripe.disks();
        let station = Arc::new(Station::new(Box::new(stripe), clock.clone()));
        let ratio = parameters.compression_ratio.map_or(1.0, |ratio| ratio.get());
        let origin = MemoryOrigin::new();
        let decompression = parameters.decompression_mb_s;
        let times = DiskTimes::new(station.clone(), ratio, decompression, clock.clone());
        let disks = Arc::new(Layered::new(Arc::new(origin.clone()), times));

        let unfit = |error: &dyn std::error::Error| MachineError::Unfit(error.to_string());
        let seen: Arc<dyn Origin> = match &parameters.slow {
            None => disks.clone(),
            Some(model) => {
                let model = model.parse().map_err(|error: UnknownSlowModel| unfit(&error))?;
                Arc::new(SlowOrigin::new(Arc::new(origin.clone()), model, clock.clone()))
            }
        };
        let datasets = Datasets::new("lab").map_err(|error| unfit(&error))?;
        // The sources' figures are of writes that wait for the disks, or would be lost in RAM.
        datasets.set("lab", "write", "through").map_err(|error| unfit(&error))?;
        for (name, value) in &parameters.settings {
            datasets.set("lab", name, value).map_err(|error| unfit(&error))?;
        }
        let caches = parameters.caches.as_ref();
        let cache_count = caches.map_or(0, |caches| caches.count) as usize;
        let memory_bytes = parameters.memory_bytes.get() / parameters.divisor.get();
        let memory = Memory::repeatable(memory_bytes, seed);
        let pool = simulation.run(Pool::open(PoolOptions {
            name: "lab".to_string(),
            origin: seen,
            datasets,
            memory: memory.clone(),
            clock: clock.clone(),
            spawn: Arc::new(simulation.clone()),
            read_only: false,
            flash: FlashOptions {
                options: Options {
                    buffers_bytes_max: BUFFERS_BYTES,
                    chunk_bytes: CHUNK_BYTES,
                    segment_bytes: Some(SEGMENT_BYTES),
                    // Budgets are those of days, and the sizes are not.
                    dwpd_hundredths: None,
                    rate_bytes: caches.and_then(|caches| caches.feed_bytes_per_s),
                    second_touch: caches.is_some_and(|caches| caches.second_touch),
                    reads_as_zfs: caches.is_some_and(|caches| caches.reads_as_zfs),
                    ..Options::default()
                },
                renounce: None,
            },
        }));
        let pool = pool.map_err(|error| unfit(&error))?;
        let mut stations = Vec::new();
        for number in 0..cache_count {
            let caches = caches.expect("there are some");
            let device = parameters.equipment(&caches.device)?.scaled_down(parameters.divisor);
            let queue = device.build(&caches.device, seed.wrapping_add(number as u64))?;
            // A device of pages is a little smaller, when it was divided.
            let bytes = (caches.bytes.get() / parameters.divisor).min(queue.size_bytes());
            let bytes = bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            let memory = Arc::new(MemoryDevice::new(bytes as usize, BLOCK_BYTES));
            let device = Arc::new(ModelDevice::new(memory, queue, clock.clone()));
            stations.push(device.station().clone());
            let opening = Opening {
                pool: [1; 16],
                device: [number as u8 + 1; 16],
                salt: [number as u8 + 1; 16],
                life: 1,
                lives: None,
                wall_seconds: 1_000_000,
                force: false,
                empty: false,
            };
            let added = simulation.run(pool.add_cache(device, &opening));
            added.map_err(|error| unfit(&error))?;
        }
        simulation.run(pool.caches_recovered());
        let memory_bytes = Arc::new(AtomicU64::new(memory_bytes));
        let keeper = keep_memory(Arc::downgrade(&memory), memory_bytes.clone(), clock);
        if parameters.divisor.get() > 1 {
            simulation.spawn(Box::pin(keeper));
        }
        let processor = Processor::new(&parameters.processor);
        let front: Box<dyn Model> = match &parameters.network {
            Some(network) => Box::new(Network::new(network, processor)),
            None => Box::new(processor),
        };
        Ok(Arc::new(Machine {
            simulation,
            origin,
            disks,
            station,
            disk_count,
            pool,
            caches: stations,
            memory_bytes,
            front: Mutex::new(front),
        }))
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Time and tasks.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// The time.
    pub fn now(&self) -> Duration {
        self.simulation.now()
    }

    /// Lets time pass until `future` is done.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.simulation.run(future)
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        self.simulation.sleep(duration).await;
    }

    /// What the ARC may take.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// What the ARC holds.
    pub fn held_bytes(&self) -> u64 {
        self.counter("size").saturating_sub(self.pool.memory().charged_bytes())
    }

    /// Changes what the ARC may take; it follows at once.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        let memory = self.pool.memory();
        memory.set_ceiling_bytes(bytes + memory.charged_bytes());
    }

    /// Feeds the cache devices no more; what they have they keep.
    ///
    /// # Panics
    /// When the pool does not know the property, which it does.
    pub fn stop_feeding(&self) {
        let set = self.pool.datasets().set("lab", "secondarycache", "none");
        set.expect("a property that there is");
    }

    /// Makes a directory at the origin, in no time.
    ///
    /// # Panics
    /// When there is one already.
    pub fn make_directory(&self, parent: ObjectId, name: &str) -> ObjectId {
        let node = Node { parent, name: OsStr::new(name), permissions: 0o755, caller: CALLER };
        let made = futures::executor::block_on(self.origin.make_directory(node));
        made.expect("the name is new").object
    }

    /// Makes a file of so many zeros at the origin, in no time, with the next place on the disks.
    ///
    /// # Panics
    /// When there is one already.
    pub fn make_file(&self, parent: ObjectId, name: &str, bytes: u64) -> ObjectId {
        futures::executor::block_on(async {
            let node = Node { parent, name: OsStr::new(name), permissions: 0o644, caller: CALLER };
            let made = self.origin.create(node, READ_WRITE).await.expect("the name is new");
            let change = SetAttributes { size: Some(bytes), ..SetAttributes::default() };
            made.file.set_attributes(change).await.expect("memory takes it");
            self.disks.layer().place(made.entry.object, bytes);
            made.entry.object
        })
    }

    /// Leaves a gap on the disks behind the last file.
    pub fn leave_gap(&self, bytes: u64) {
        self.disks.layer().leave_gap(bytes);
    }

    /// Makes a file at the top and opens it.
    pub fn file(&self, name: &str, bytes: u64) -> Arc<OpenFile> {
        self.make_file(self.pool.root(), name, bytes);
        self.run(self.open(self.pool.root(), name))
    }

    /// Opens a file through the pool.
    ///
    /// # Panics
    /// When there is none.
    pub async fn open(&self, parent: ObjectId, name: &str) -> Arc<OpenFile> {
        let found = self.pool.lookup(parent, OsStr::new(name)).await.expect("it is there");
        let file = self.pool.open_file(found.object, READ_WRITE).await.expect("it can be opened");
        self.pool.forget(found.object, 1);
        file
    }

    /// Reads, with the work of the processor, and tells how many bytes there were.
    ///
    /// # Panics
    /// When the origin fails, which a modelled one does not.
    pub async fn read(&self, file: &Arc<OpenFile>, offset: u64, bytes: u64) -> u64 {
        self.work(Request::read(offset, bytes)).await;
        let length = bytes as usize;
        if let Some(pieces) = file.read_cached(offset, length) {
            return pieces.len() as u64;
        }
        file.read(offset, length).await.expect("the origin gives it").len() as u64
    }

    /// Writes zeros, with the work of the processor.
    ///
    /// # Panics
    /// When the origin fails, which a modelled one does not.
    pub async fn write(&self, file: &Arc<OpenFile>, offset: u64, bytes: u64) {
        self.work(Request::write(offset, bytes)).await;
        file.write(offset, &vec![0; bytes as usize]).await.expect("the origin takes it");
    }

    /// The part of a request that processor and network do.
    pub async fn work(&self, request: Request) {
        let now = self.now();
        let at = now.as_nanos() as Nanoseconds;
        let served = self.front.lock().serve(at, request);
        let done = served.expect("a processor takes everything");
        self.simulation.sleep(Duration::from_nanos(done - at)).await;
    }

    /// What the devices have done so far.
    pub fn devices(&self) -> Work {
        let mut caches = Traffic::default();
        for station in &self.caches {
            let traffic = station.traffic();
            caches.reads += traffic.reads;
            caches.read_bytes += traffic.read_bytes;
            caches.writes += traffic.writes;
            caches.written_bytes += traffic.written_bytes;
        }
        Work {
            now: self.now(),
            disks: self.station.traffic(),
            disks_busy: Duration::from_nanos(self.station.busy_ns()),
            disk_count: self.disk_count,
            caches,
        }
    }

    /// One of the pool's counters; zero where there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.pool.statistics().counters.get(name).copied().unwrap_or(0)
    }
}

/// Sees to it that the ARC has what it may take: where sizes are divided, requests under way and
/// buffers are not, and come on top.
async fn keep_memory(memory: Weak<Memory>, bytes: Arc<AtomicU64>, clock: Arc<dyn Clock>) {
    while let Some(memory) = memory.upgrade() {
        let ceiling_bytes = bytes.load(Ordering::Relaxed) + memory.charged_bytes();
        if ceiling_bytes.abs_diff(memory.ceiling_bytes()) >= CHARGES_STEP_BYTES {
            memory.set_ceiling_bytes(ceiling_bytes);
        }
        drop(memory);
        clock.sleep(CHARGES_INTERVAL).await;
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its tasks hold the pool, and the pool holds the simulation.
        self.simulation.crash();
    }
}

#[cfg(test)]
mod tests;
