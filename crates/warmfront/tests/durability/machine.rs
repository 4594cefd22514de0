//! What outlives a start of the pool, and how it starts again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use storage::{
    Call, Caller, Clock, CrashDevice, CrashOrigin, Crashes, Device, DeviceFaults, DeviceOperation,
    FaultyDevice, Layer, Layered, MemoryDevice, MemoryOrigin, Node, OpenMode, Origin,
    OriginCrashes, OriginError, Random, Simulation, Task, block_on,
};
use warmfront::flash::FlashOptions;
use warmfront::{Datasets, Memory, Pool, PoolOptions, ReplayOptions, Txg, TxgState, replay};
use zil::{Log, Recovery};

use crate::log_device::{opening, options};
use crate::model::Model;
use crate::world::{judge, look};
use crate::writer::Writer;
use crate::{Outcome, flash_device};

const LOG_BYTES: usize = 1 << 20;
/// Where what the origin refuses can stay in the log for a while.
const LARGE_LOG_BYTES: usize = 4 << 20;
/// Writes that an origin takes, or refuses, in a row.
const IN_A_ROW: u64 = 16;
const FLASH_BYTES: usize = 2 << 20;
const CEILING_BYTES: u64 = 10 << 20;
/// Steps of the simulation that a life has at most.
const STEPS_MAX: u64 = 6000;

/// What a history is like.
#[derive(Debug, Clone)]
pub struct Settings {
    pub has_log: bool,
    pub has_flash: bool,
    /// The origin refuses writes to some files now and then.
    pub origin_refuses: bool,
    properties: Vec<(&'static str, &'static str)>,
}

impl Settings {
    pub fn draw(random: &mut Random) -> Settings {
        let mut properties = vec![("recordsize", "4K")];
        properties.push(match random.below(3) {
            0 => ("coherence", "open"),
            1 => ("coherence", "ttl=1"),
            _ => ("coherence", "exclusive"),
        });
        if random.below(6) == 0 {
            properties.push(("logbias", "throughput"));
        }
        if random.below(8) == 0 {
            properties.push(("sync", "always"));
        }
        if random.below(8) == 0 {
            properties.push(("primarycache", "none"));
        }
        let (has_log, has_flash) = (random.below(4) > 0, random.below(2) > 0);
        let origin_refuses = has_log && random.below(4) == 0;
        Settings { has_log, has_flash, origin_refuses, properties }
    }

    /// With a log device, and what else is usual.
    pub fn with_log() -> Settings {
        Settings { has_log: true, has_flash: false, origin_refuses: false, properties: Vec::new() }
    }

    fn log_bytes(&self) -> usize {
        if self.origin_refuses { LARGE_LOG_BYTES } else { LOG_BYTES }
    }

    /// Whether every change lasts when it returns.
    pub fn is_always_synced(&self) -> bool {
        self.properties.contains(&("sync", "always"))
    }
}

pub fn clock(simulation: &Simulation) -> Arc<dyn Clock> {
    Arc::new(simulation.clone())
}

/// Makes each call to the origin take its time, and has it refuse some.
struct Latency {
    clock: Arc<dyn Clock>,
    random: Mutex<Random>,
    refuses: bool,
    writes: AtomicU64,
}

impl Latency {
    fn is_refused(&self, call: &Call) -> bool {
        let Call::Write { object, .. } = call else { return false };
        let written = || self.writes.fetch_add(1, Ordering::Relaxed);
        self.refuses && object.0 % 2 == 1 && (written() / IN_A_ROW).is_multiple_of(2)
    }
}

impl Layer for Latency {
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        let microseconds = self.random.lock().below(2000);
        Box::pin(async move {
            self.clock.sleep(Duration::from_micros(microseconds)).await;
            let (operation, errno) = (call.operation(), Errno::NOSPC);
            match self.is_refused(&call) {
                true => Err(OriginError::System { operation, errno }),
                false => Ok(()),
            }
        })
    }
}

/// Fails all calls after some.
struct Stops {
    left: AtomicU64,
}

impl Layer for Stops {
    fn before<'a>(&'a self, call: Call) -> Task<'a, ()> {
        Box::pin(async move {
            let count = |left: u64| left.checked_sub(1);
            match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) {
                Ok(_) => Ok(()),
                Err(_) => Err(OriginError::Unreachable { operation: call.operation() }),
            }
        })
    }
}

/// An origin, a log device and a cache device, between two lives.
pub struct Machine {
    settings: Settings,
    random: Random,
    origin: MemoryOrigin,
    log: Vec<u8>,
    flash: Vec<u8>,
    /// The log has failed, and must not be replayed.
    is_given_up: Arc<AtomicBool>,
    life: u128,
    next_key: u32,
}

impl Machine {
    pub fn new(settings: Settings, random: &mut Random) -> Machine {
        let origin = match random.below(2) {
            0 => MemoryOrigin::new(),
            _ => MemoryOrigin::reusing_ids(),
        };
        let simulation = Simulation::new(random.draw());
        let device = Arc::new(MemoryDevice::new(settings.log_bytes(), 512));
        let formatted = Log::format(device.clone(), opening(0), options(), clock(&simulation));
        simulation.run(formatted).expect("a blank device");
        Machine {
            settings,
            random: Random::new(random.draw()),
            origin,
            log: device.image(),
            flash: vec![0; FLASH_BYTES],
            is_given_up: Arc::default(),
            life: 0,
            next_key: 1,
        }
    }

    /// Starts a pool, changes things through it, stops it anywhere, and looks at what is left.
    pub fn live(&mut self, outcome: &mut Outcome) {
        self.life += 1;
        let seed = self.random.draw();
        let simulation = Simulation::new(seed);
        let slowness = Some((clock(&simulation), Duration::from_micros(300)));
        let (log, log_crashes) = CrashDevice::new(self.log.clone(), 512, seed, slowness.clone());
        let (flash, flash_crashes) = CrashDevice::new(self.flash.clone(), 4096, seed, slowness);
        let (origin, origin_crashes) = CrashOrigin::new(&self.origin);
        let latency = Latency {
            clock: clock(&simulation),
            random: Mutex::new(Random::new(seed ^ 1)),
            refuses: self.settings.origin_refuses,
            writes: AtomicU64::new(0),
        };
        let origin: Arc<dyn Origin> = Arc::new(Layered::new(Arc::new(origin), latency));
        let log = self.log_that_may_fail(&simulation, Arc::new(log));
        let pool = self.start(&simulation, origin, log, Arc::new(flash));
        let (world, _) = look(&self.origin);
        self.agrees_with_origin(&simulation, &pool);
        let model = Arc::new(Mutex::new(Model::of(world)));
        let writer = Writer::new(
            pool.clone(),
            simulation.clone(),
            self.settings.clone(),
            model.clone(),
            self.random.draw(),
            self.next_key,
        );
        let progress = writer.progress();
        storage::Spawn::spawn(&simulation, Box::pin(writer.run()));
        for _ in 0..self.random.below(STEPS_MAX) {
            if !simulation.step() || progress.is_done() {
                break;
            }
        }
        pool.validate_write_back();
        self.next_key = progress.next_key();
        let statistics = pool.statistics();
        outcome.flash_hits += statistics.counters.get("l2_hits").copied().unwrap_or(0);
        outcome.lost_logs += u64::from(pool.has_lost_log());
        outcome.changes += progress.changes();
        outcome.syncs += progress.syncs();
        let txgs = pool.write_back_statistics().txgs;
        outcome.txgs += txgs.len() as u64 - 1;
        let is_refused = |txg: &&Txg| txg.state == TxgState::Refused;
        outcome.refused_txgs += txgs.iter().filter(is_refused).count() as u64;
        let is_kill = self.random.below(3) == 0;
        match is_kill {
            true => outcome.kills += 1,
            false => outcome.crashes += 1,
        }
        self.keep(is_kill, &origin_crashes, &log_crashes);
        self.flash = match is_kill {
            true => flash_crashes.image(),
            false => flash_crashes.crash(self.random.draw()),
        };
        drop(pool);
        simulation.crash();
        self.repair(is_kill, outcome);
        let (found, _) = look(&self.origin);
        let model = model.lock();
        judge(&found, model.worlds(), &model.promised());
    }

    /// One log device in six takes no more after some calls, where the origin takes everything.
    fn log_that_may_fail(
        &mut self,
        simulation: &Simulation,
        log: Arc<dyn Device>,
    ) -> Arc<dyn Device> {
        let (device, faults) = FaultyDevice::new(log, clock(simulation));
        // What both refuse is in RAM alone.
        if self.random.below(6) == 0 && !self.settings.origin_refuses {
            // The first ones are of the start.
            let left = AtomicU64::new(8 + self.random.below(60));
            faults.fail_next_of(u64::MAX, Errno::IO, move |call| {
                let count = |left: u64| left.checked_sub(1);
                !matches!(call, DeviceOperation::Read { .. })
                    && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_err()
            });
        }
        Arc::new(device)
    }

    /// Makes a directory, waits, and crashes. Says whether the directory is there after that.
    pub fn keeps_a_name_after(&mut self, wait: Duration) -> bool {
        self.keeps_a_name(async |simulation, pool, _| {
            make_directory(pool, "name").await;
            clock(simulation).sleep(wait).await;
        })
    }

    /// Makes a directory that lasts by the log, then another one while the device fails, and
    /// crashes. Says whether the first one is there after that.
    pub fn keeps_a_name_when_the_log_fails(&mut self) -> bool {
        self.keeps_a_name(async |_, pool, faults| {
            make_directory(pool, "name").await;
            pool.sync_directory(pool.root()).await.expect("the log takes it");
            let is_struck = |call: &DeviceOperation| !matches!(call, DeviceOperation::Read { .. });
            faults.fail_next_of(u64::MAX, Errno::IO, is_struck);
            make_directory(pool, "other").await;
            pool.sync_directory(pool.root()).await.expect("the origin takes it");
        })
    }

    fn keeps_a_name(
        &mut self,
        act: impl AsyncFnOnce(&Simulation, &Arc<Pool>, &DeviceFaults),
    ) -> bool {
        let simulation = Simulation::new(self.random.draw());
        let (log, log_crashes) = CrashDevice::new(self.log.clone(), 512, self.random.draw(), None);
        let (log, faults) = FaultyDevice::new(Arc::new(log), clock(&simulation));
        let (origin, origin_crashes) = CrashOrigin::new(&self.origin);
        let flash = Arc::new(MemoryDevice::new(FLASH_BYTES, 4096));
        let pool = self.start(&simulation, Arc::new(origin), Arc::new(log), flash);
        simulation.run(act(&simulation, &pool, &faults));
        self.keep(false, &origin_crashes, &log_crashes);
        drop(pool);
        simulation.crash();
        self.repair(false, &mut Outcome::default());
        let root = block_on(self.origin.root()).expect("memory answers");
        block_on(self.origin.lookup(root.object, "name".as_ref())).is_ok()
    }

    fn keep(&mut self, is_kill: bool, origin: &OriginCrashes, log: &Crashes) {
        match is_kill {
            true => (self.origin, self.log) = (origin.kill(), log.image()),
            false => {
                let (first, second) = (self.random.draw(), self.random.draw());
                (self.origin, self.log) = (origin.crash(first), log.crash(second));
            }
        }
    }

    fn start(
        &self,
        simulation: &Simulation,
        origin: Arc<dyn Origin>,
        log: Arc<dyn Device>,
        flash: Arc<dyn Device>,
    ) -> Arc<Pool> {
        let datasets = Datasets::new("pool").expect("a good name");
        for (name, value) in &self.settings.properties {
            datasets.set("pool", name, value).expect("a good setting");
        }
        let options = PoolOptions {
            name: "pool".to_string(),
            origin,
            datasets,
            memory: Memory::new(CEILING_BYTES),
            clock: clock(simulation),
            spawn: Arc::new(simulation.clone()),
            read_only: false,
            flash: FlashOptions {
                options: flash_device::options(),
                renounce: Some(Arc::new(|| Ok(()))),
            },
        };
        let pool = simulation.run(Pool::open(options)).expect("memory answers");
        if self.settings.has_flash {
            let opening = flash_device::opening(self.life);
            simulation.run(pool.add_cache(flash, &opening)).expect("the device can be used");
            simulation.run(pool.caches_recovered());
        }
        if self.settings.has_log {
            let recovery = simulation.run(self.open_log(simulation, log));
            let log = simulation.run(recovery.finish()).expect("all was applied");
            let is_given_up = self.is_given_up.clone();
            let renounce = move || {
                is_given_up.store(true, Ordering::Relaxed);
                Ok(())
            };
            let added = pool.add_log(Arc::new(log), Arc::new(renounce));
            simulation.run(added).expect("nothing is dirty");
        }
        pool
    }

    async fn open_log(&self, simulation: &Simulation, device: Arc<dyn Device>) -> Recovery {
        let opening = opening(self.life as u64);
        let opened = Log::open(device, opening, options(), clock(simulation)).await;
        opened.expect("it is a log")
    }

    /// Replays the log until it is replayed; it may be stopped some times.
    fn repair(&mut self, is_kill: bool, outcome: &mut Outcome) {
        if !self.settings.has_log {
            return;
        }
        if self.is_given_up.swap(false, Ordering::Relaxed) {
            let simulation = Simulation::new(self.random.draw());
            let (device, crashes) =
                CrashDevice::new(self.log.clone(), 512, self.random.draw(), None);
            let recovery = simulation.run(self.open_log(&simulation, Arc::new(device)));
            drop(simulation.run(recovery.discard()).expect("the device works again"));
            self.log = crashes.image();
            return;
        }
        let stops = self.random.below(3);
        for attempt in 0..=stops {
            let simulation = Simulation::new(self.random.draw());
            let (device, device_crashes) =
                CrashDevice::new(self.log.clone(), 512, self.random.draw(), None);
            let (origin, origin_crashes) = CrashOrigin::new(&self.origin);
            let calls = if attempt < stops { self.random.below(100) } else { u64::MAX };
            let origin = Layered::new(Arc::new(origin), Stops { left: AtomicU64::new(calls) });
            let mut recovery = simulation.run(self.open_log(&simulation, Arc::new(device)));
            let options = ReplayOptions { names_lasted: is_kill };
            let replayed = simulation.run(replay(&origin, &mut recovery, options, &|_| ()));
            drop(recovery);
            self.keep(is_kill, &origin_crashes, &device_crashes);
            match replayed {
                Ok(report) => outcome.records += report.records,
                Err(error) => {
                    assert!(attempt < stops, "{error}");
                    outcome.stopped += 1;
                }
            }
        }
    }

    /// What is read through the pool is what is at the origin, whatever flash has.
    fn agrees_with_origin(&self, simulation: &Simulation, pool: &Arc<Pool>) {
        let (world, ids) = look(&self.origin);
        simulation.run(async {
            let mut directories = vec![(0, pool.root())];
            while let Some((directory, object)) = directories.pop() {
                for (key, node) in &world {
                    let Some((_, name)) =
                        node.names.iter().find(|(parent, _)| *parent == directory)
                    else {
                        continue;
                    };
                    let found = pool.lookup(object, name.as_ref()).await.expect("it is there");
                    assert_eq!(found.object, ids[key].0);
                    match node.kind {
                        storage::Kind::Directory => directories.push((*key, found.object)),
                        storage::Kind::File => {
                            let mode = OpenMode { read: true, ..OpenMode::default() };
                            let file = pool.open_file(found.object, mode).await.expect("it opens");
                            let read = file.read(0, node.contents.len() + 1).await.expect("read");
                            assert!(read.to_vec() == **node.contents, "{key} differs");
                        }
                        _ => {}
                    }
                }
            }
        });
    }
}

async fn make_directory(pool: &Arc<Pool>, name: &str) {
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = Node { parent: pool.root(), name: name.as_ref(), permissions: 0o755, caller };
    pool.make_directory(node).await.expect("it is made");
}
