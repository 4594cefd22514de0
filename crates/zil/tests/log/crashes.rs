//! A machine that stops at any moment, again and again: all that was acknowledged is found, in
//! order, and nothing else.
//!
//! Each seed is a history of several lives of one log. In a life some tasks append, commit and
//! release at the same time on a device whose calls take random times and now and then fail; then
//! the machine stops at a random moment, the device is left as a crash may leave it, and the next
//! life begins with replaying that, which may be stopped as well. At very many other moments it is
//! tried what a crash would have left.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use storage::{
    Campaign, Clock, CrashDevice, Crashes, Device, DeviceOperation, FaultyDevice, MemoryDevice,
    Random, Simulation, Spawn,
};
use zil::{AppendError, End, Log, Options, Position, Recovery, Sync};

use crate::common::{self, DEVICE_BYTES, encoded, opening, sample};

const LIVES: u64 = 5;
const TASKS: u64 = 5;

/// What was done, and what was promised.
#[derive(Default)]
struct Model {
    /// The sample at each position, the first one at 1.
    samples: Vec<u64>,
    /// Everything up to here was said to last.
    durable: u64,
    /// Everything up to here was said not to come again.
    released: u64,
    /// Everything up to here may not come again.
    releasing: u64,
    commits: u64,
    resets: u64,
    full: u64,
}

impl Model {
    fn may_release(&mut self, up_to: u64) {
        self.releasing = self.releasing.max(up_to);
    }
}

/// What happened in all histories, to tell whether enough did.
#[derive(Default)]
struct Outcome {
    images: u64,
    records: u64,
    commits: u64,
    unacknowledged: u64,
    beyond: u64,
    resets: u64,
    full: u64,
    laps: u64,
    recoveries_stopped: u64,
}

/// Appends, and commits most of it.
async fn write(log: Arc<Log>, model: Arc<Mutex<Model>>, clock: Simulation, seed: u64) {
    let mut random = Random::new(seed);
    loop {
        let number = random.below(1 << 40);
        let sample = sample(number);
        match log.append(&sample.record()).await {
            Ok(position) => {
                let appended = {
                    let samples = &mut model.lock().samples;
                    samples.push(number);
                    samples.len() as u64
                };
                assert_eq!(position.0, appended, "no position is left out");
                if random.below(3) > 0 && log.commit(position).await.is_ok() {
                    let mut model = model.lock();
                    model.durable = model.durable.max(position.0);
                    model.commits += 1;
                }
            }
            Err(AppendError::Full { oldest, .. }) => {
                let mut model = model.lock();
                assert!(oldest.0 <= model.releasing + 1, "it can be released");
                model.full += 1;
            }
            Err(AppendError::Failed(failed)) => {
                assert!(failed.from.0 > model.lock().durable, "what was promised stays");
            }
            Err(error) => panic!("{error}"),
        }
        clock.sleep(Duration::from_micros(random.below(300))).await;
    }
}

/// Releases what lasts, some at a time, and resets the log if it has failed.
async fn release(log: Arc<Log>, model: Arc<Mutex<Model>>, clock: Simulation, seed: u64) {
    let mut random = Random::new(seed);
    loop {
        clock.sleep(Duration::from_micros(random.below(4000))).await;
        if log.statistics().failed.is_some() {
            let last = {
                let mut model = model.lock();
                let last = model.samples.len() as u64;
                model.may_release(last);
                last
            };
            if log.reset().await.is_ok() {
                let mut model = model.lock();
                model.released = model.released.max(last);
                model.durable = model.durable.max(last);
                model.resets += 1;
            }
            continue;
        }
        let up_to = {
            let mut model = model.lock();
            let last = match random.below(3) {
                0 => model.samples.len() as u64,
                _ => model.durable,
            };
            let up_to = last - random.below((last - model.released.min(last)) / 2 + 1);
            model.may_release(up_to);
            up_to
        };
        if log.release(Position(up_to)).await.is_ok() {
            let mut model = model.lock();
            model.released = model.released.max(up_to);
            model.durable = model.durable.max(up_to);
        }
    }
}

/// Compares what a recovery has found with what was promised.
fn judge(recovery: &Recovery, model: &Model) {
    let found = recovery.found();
    assert_eq!(found.end, End::Whole, "a crash is no damage");
    let (first, last) = (found.first.0, found.last.0);
    assert!(model.released < first && first <= model.releasing + 1, "{found:?}");
    assert!(last >= model.durable, "{found:?}: {} were said to last", model.durable);
    assert!(last <= model.samples.len() as u64, "{found:?}: more than was appended");
}

/// Tries what a start would find.
fn start_on(image: Vec<u8>, model: &Model, outcome: &mut Outcome) {
    let simulation = Simulation::new(0);
    let device = Arc::new(MemoryDevice::with_image(image, 512));
    simulation.run(async {
        let mut recovery = common::open(&simulation, device, 99).await.expect("it is a log");
        judge(&recovery, model);
        let found = recovery.found().clone();
        let records = common::rest(&mut recovery).await.expect("they are whole");
        let numbers = &model.samples[found.first.0 as usize - 1..found.last.0 as usize];
        let expected = common::expected(found.first.0, numbers.iter().copied());
        assert!(records == expected, "they are the ones that were appended, in order");
        outcome.images += 1;
        outcome.records += found.records();
        outcome.unacknowledged += found.last.0.saturating_sub(model.durable.max(model.releasing));
        outcome.beyond += found.beyond_blocks;
    });
}

fn device(
    image: &[u8],
    simulation: &Simulation,
    random: &mut Random,
) -> (Arc<dyn Device>, Arc<Crashes>) {
    let clock: Arc<dyn Clock> = Arc::new(simulation.clone());
    let longest = Duration::from_micros(1 + random.below(400));
    let (device, crashes) =
        CrashDevice::new(image.to_vec(), 512, random.draw(), Some((clock, longest)));
    (Arc::new(device), crashes)
}

fn random_options(random: &mut Random) -> Options {
    Options {
        lanes: 1 + random.below(4) as usize,
        sync: [None, Some(Sync::Flush), Some(Sync::Through)][random.below(3) as usize],
        buffer_bytes_max: 20 << (10 + random.below(3)),
        full_wait: Duration::from_millis(random.below(20)),
        ..common::options()
    }
}

/// Replays what an image holds, to its end or until it is stopped, and returns what the device is
/// left with. `None` in place of a log if it was stopped.
fn recover(
    image: &[u8],
    life: u64,
    model: &Mutex<Model>,
    random: &mut Random,
    outcome: &mut Outcome,
) -> (Simulation, Option<Log>, Arc<Crashes>) {
    let simulation = Simulation::new(random.draw());
    let (device, crashes) = device(image, &simulation, random);
    let log = Arc::new(Mutex::new(None));
    let options = random_options(random);
    let seed = random.draw();
    let replay = {
        let (log, clock) = (log.clone(), common::clock(&simulation));
        async move {
            let mut random = Random::new(seed);
            let opened = Log::open(device, opening(life), options, clock).await;
            let mut recovery = opened.expect("it is a log");
            judge(&recovery, &model.lock());
            let (first, last) = (recovery.found().first.0, recovery.found().last.0);
            // What was not found has never been.
            model.lock().samples.truncate(last as usize);
            model.lock().durable = last;
            for position in first..=last {
                let next = recovery.next().await.expect("whole");
                let (found, record) = next.expect("as many as were said");
                let number = model.lock().samples[position as usize - 1];
                assert_eq!(found.0, position);
                assert_eq!(encoded(&record), encoded(&sample(number).record()));
                if random.below(5) == 0 {
                    model.lock().may_release(position);
                    recovery.applied(Position(position)).await.expect("the device works");
                    model.lock().released = position;
                }
            }
            assert_eq!(recovery.next().await.expect("whole"), None);
            model.lock().releasing = last;
            recovery.applied(Position(last)).await.expect("the device works");
            model.lock().released = last;
            *log.lock() = Some(recovery.finish().await.expect("all is applied"));
        }
    };
    let mut replay = std::pin::pin!(replay);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let steps = if random.below(3) == 0 { random.below(60) } else { u64::MAX };
    let mut events = 0;
    for _ in 0..steps {
        if replay.as_mut().poll(&mut context).is_ready() {
            break;
        }
        if crashes.events() != events && random.below(4) == 0 {
            events = crashes.events();
            start_on(crashes.crash(random.draw()), &model.lock(), outcome);
        }
        assert!(simulation.step(), "the replay stands still");
    }
    let log = log.lock().take();
    (simulation, log, crashes)
}

/// Runs the history of a seed.
fn history(seed: u64, outcome: &mut Outcome) {
    let mut random = Random::new(seed);
    let model = Arc::new(Mutex::new(Model::default()));
    let fails = random.below(3) == 0;
    let mut image = {
        let simulation = Simulation::new(seed);
        let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
        simulation.run(common::format(&simulation, memory.clone(), common::options()));
        memory.image()
    };
    for life in 1..=LIVES {
        let (mut simulation, log, mut crashes) = loop {
            let (simulation, log, crashes) = recover(&image, life, &model, &mut random, outcome);
            if let Some(log) = log {
                break (simulation, log, crashes);
            }
            outcome.recoveries_stopped += 1;
            image = crashes.crash(random.draw());
        };
        let mut log = Arc::new(log);
        if fails {
            // The same bytes, on a device that fails now and then.
            let image = crashes.image();
            simulation = Simulation::new(random.draw());
            let (device, again) = device(&image, &simulation, &mut random);
            let (device, faults) = FaultyDevice::new(device, common::clock(&simulation));
            let clock = common::clock(&simulation);
            let options = random_options(&mut random);
            let opening = opening(life + 50);
            let opened = Log::open(Arc::new(device), opening, options, clock);
            log = simulation.run(async {
                let recovery = opened.await.expect("a log");
                Arc::new(recovery.finish().await.expect("an empty one"))
            });
            for count in 1..3 {
                let at = random.below(DEVICE_BYTES as u64);
                faults.fail_next_of(count, Errno::IO, move |call| match call {
                    DeviceOperation::Write { offset, bytes } => {
                        (*offset..*offset + *bytes).contains(&at)
                    }
                    DeviceOperation::Flush => at.is_multiple_of(7),
                    _ => false,
                });
            }
            crashes = again;
        }
        let started = log.statistics();
        for task in 0..TASKS {
            let (log, model, clock) = (log.clone(), model.clone(), simulation.clone());
            let seed = random.draw();
            simulation.spawn(match task {
                0 => Box::pin(release(log, model, clock, seed)),
                _ => Box::pin(write(log, model, clock, seed)),
            });
        }
        let mut events = 0;
        for _ in 0..random.below(4000) {
            simulation.step();
            if crashes.events() != events && random.below(20) == 0 {
                events = crashes.events();
                log.validate();
                start_on(crashes.crash(random.draw()), &model.lock(), outcome);
            }
        }
        log.validate();
        let statistics = log.statistics();
        assert!(statistics.records >= started.records);
        outcome.laps += statistics.block_bytes / statistics.ring_bytes;
        image = crashes.crash(random.draw());
        simulation.crash();
    }
    let model = model.lock();
    outcome.commits += model.commits;
    outcome.resets += model.resets;
    outcome.full += model.full;
}

#[test]
fn what_was_acknowledged_is_found_after_any_crash() {
    let mut all = Outcome::default();
    let campaign = Campaign::new(100);
    campaign.run(|seed| history(seed, &mut all));
    let count = campaign.count();
    let Outcome { images, records, commits, unacknowledged, beyond, resets, full, laps, .. } = all;
    let stopped = all.recoveries_stopped;
    println!(
        "{count} seeds: {images} crash images with {records} records, {unacknowledged} of them \
         never acknowledged, {beyond} blocks behind an end; {commits} commits, {laps} laps, \
         {resets} resets, {full} times full, {stopped} recoveries stopped"
    );
    let least =
        [images / 20, records / 100, commits / 50, beyond, 10 * resets, full, laps, 2 * stopped];
    let least = least.into_iter().min();
    assert!(least >= Some(count), "too little happened");
}

/// One writer, and everything that a crash could leave between any two calls to the device.
#[test]
fn every_moment_of_a_short_history() {
    let mut outcome = Outcome::default();
    for lanes in [1, 3] {
        let simulation = Simulation::new(7);
        let clock: Arc<dyn Clock> = Arc::new(simulation.clone());
        let pause = Some((clock.clone(), Duration::from_micros(100)));
        let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
        simulation.run(common::format(&simulation, memory.clone(), common::options()));
        let (device, crashes) = CrashDevice::new(memory.image(), 512, 3, pause);
        let options = Options { lanes, ..common::options() };
        let opening = opening(1);
        let opened = Log::open(Arc::new(device), opening, options, clock);
        let log = simulation.run(async {
            Arc::new(opened.await.expect("a log").finish().await.expect("an empty one"))
        });
        let model = Arc::new(Mutex::new(Model::default()));
        for seed in 0..3 {
            let (log, model, clock) = (log.clone(), model.clone(), simulation.clone());
            simulation.spawn(match seed {
                0 => Box::pin(release(log, model, clock, seed)),
                _ => Box::pin(write(log, model, clock, seed)),
            });
        }
        let mut events = 0;
        while crashes.events() < 600 {
            simulation.step();
            if crashes.events() != events {
                events = crashes.events();
                for seed in 0..8 {
                    start_on(crashes.crash(seed), &model.lock(), &mut outcome);
                }
            }
        }
        log.validate();
    }
    println!("{} crash images with {} records", outcome.images, outcome.records);
    assert!(outcome.images > 5000 && outcome.records > 20_000);
}
