//! A machine that stops at any moment, again and again: no copy that was killed comes back.
//!
//! Each seed is a history of several lives of one pool. In a life some tasks read, admit, write
//! and delete at the same time on a device whose calls take random times; then the machine stops
//! at a random moment, the device is left as a crash may leave it, and the next life begins with
//! that. At many other moments too it is tried what a crash would have left. Whatever is read must
//! be what the origin holds at that moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use l2arc::{Cipher, Flash, Key, Opened, Options};
use parking_lot::Mutex;
use storage::{Campaign, Clock, CrashDevice, MemoryDevice, Random, Simulation, Spawn};

use crate::common::{self, Subject, contents, key, opening};

const OBJECTS: u64 = 6;
/// Parts of an object in the histories of some seeds, so few that all of them fit, and of others.
const PARTS: [u64; 2] = [12, 60];
const LIVES: u64 = 4;
const TASKS: u64 = 6;
/// Most steps of a life.
const STEPS: u64 = 3000;
/// The device, of which the journal takes nearly half, in bytes: a ring that comes round seldom,
/// or often.
const DEVICE_BYTES: [usize; 2] = [1100 << 10, 860 << 10];

/// What is at the origin, and who is changing it.
#[derive(Default)]
struct Origin {
    versions: BTreeMap<Key, u64>,
    busy: Vec<Key>,
    hits: u64,
    kills: u64,
    parts: u64,
}

impl Origin {
    fn version(&self, key: &Key) -> u64 {
        self.versions.get(key).copied().unwrap_or(0)
    }

    fn change(&mut self, key: &Key) {
        *self.versions.entry(*key).or_default() += 1;
    }
}

fn keys(parts: u64) -> Vec<Key> {
    (0..OBJECTS).flat_map(|object| (0..parts).map(move |part| key(object, part))).collect()
}

/// Takes the right to change or to read records, if nobody else has it.
fn lock(origin: &Mutex<Origin>, keys: &[Key]) -> bool {
    let mut origin = origin.lock();
    let free = keys.iter().all(|key| !origin.busy.contains(key));
    if free {
        origin.busy.extend_from_slice(keys);
    }
    free
}

fn unlock(origin: &Mutex<Origin>, keys: &[Key]) {
    origin.lock().busy.retain(|key| !keys.contains(key));
}

/// Reads one record and compares it; what misses is admitted, now and then only after a while.
async fn read(flash: &Flash, origin: &Mutex<Origin>, key: Key, wait: Duration, clock: &Simulation) {
    if !lock(origin, &[key]) {
        return;
    }
    let stamp = common::admission(flash, &key);
    let version = origin.lock().version(&key);
    let bytes = contents(&key, version);
    let mut into = vec![0; 8192];
    match flash.read(&key, &mut into, None).await {
        Ok(length) => {
            assert!(into[..length] == bytes, "{key:?} is not version {version}");
            origin.lock().hits += 1;
            unlock(origin, &[key]);
        }
        Err(_) => {
            unlock(origin, &[key]);
            clock.sleep(wait).await;
            let _ = flash.admit(&key, &bytes, &stamp);
        }
    }
}

async fn write(flash: &Flash, origin: &Mutex<Origin>, keys: &[Key], object: Option<u64>) {
    if !lock(origin, keys) {
        return;
    }
    let killed = match object {
        Some(object) => flash.kill_object(object).await,
        None => flash.kill(keys).await,
    };
    killed.expect("the device works");
    let mut state = origin.lock();
    state.kills += 1;
    keys.iter().for_each(|key| state.change(key));
    drop(state);
    unlock(origin, keys);
}

/// One of the tasks of a life.
async fn work(
    flash: Arc<Flash>,
    origin: Arc<Mutex<Origin>>,
    clock: Simulation,
    seed: u64,
    writes: u64,
) {
    let mut random = Random::new(seed);
    let parts = origin.lock().parts;
    loop {
        let object = random.below(OBJECTS);
        // Some are read much more often than others.
        let part = random.below(parts).min(random.below(parts)).min(random.below(parts));
        let one = key(object, part);
        let wait = Duration::from_micros(random.below(2000));
        match random.below(40) {
            30..40 if random.below(100) >= writes => read(&flash, &origin, one, wait, &clock).await,
            0..30 => read(&flash, &origin, one, wait, &clock).await,
            30..37 => write(&flash, &origin, &[one], None).await,
            37 => {
                let several = [one, key((object + 1) % OBJECTS, 3)];
                write(&flash, &origin, &several, None).await;
            }
            38 if random.below(4) == 0 => {
                let all: Vec<Key> = (0..parts).map(|part| key(object, part)).collect();
                write(&flash, &origin, &all, Some(object)).await;
            }
            _ => flash.settle().await,
        }
        clock.sleep(Duration::from_micros(random.below(100))).await;
    }
}

/// Everything that is served is what the origin holds.
fn check(subject: &Subject, origin: &Mutex<Origin>) -> u64 {
    let mut hits = 0;
    let parts = origin.lock().parts;
    for key in keys(parts) {
        let version = origin.lock().version(&key);
        hits += u64::from(subject.read(&key, version).is_ok());
    }
    hits
}

/// Starts on what a crash has left, and goes no further than to read everything. Returns hits.
fn start_on(images: Vec<Vec<u8>>, options: &Options, origin: &Mutex<Origin>, seed: u64) -> u64 {
    let subject = Subject::new(seed, options.clone());
    for (number, image) in images.into_iter().enumerate() {
        let device = Arc::new(MemoryDevice::with_image(image, 512));
        let added =
            subject.simulation.run(subject.flash.add(device, &opening(90 + number as u128)));
        assert_eq!(added, Ok(Opened::Warm));
    }
    subject.simulation.run(subject.flash.recovered());
    subject.flash.validate();
    check(&subject, origin)
}

/// What happened in a history, to tell whether enough did.
#[derive(Default)]
struct Outcome {
    survived: u64,
    hits: u64,
    kills: u64,
    evicted: u64,
    second_lives: u64,
}

/// Runs the history of a seed.
fn history(seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let parts = PARTS[random.below(2) as usize];
    let origin = Arc::new(Mutex::new(Origin { parts, ..Origin::default() }));
    let devices = 1 + random.below(2) as usize;
    // Few writes, or many.
    let device_bytes = DEVICE_BYTES[random.below(2) as usize];
    let writes = [100, 30, 8][random.below(3) as usize];
    let mut images = vec![vec![0; device_bytes]; devices];
    let mut outcome = Outcome::default();
    let mut options = Options {
        segment_bytes: Some(32 << 10),
        chunk_bytes: 8 << 10,
        buffers_bytes_max: 128 << 10,
        ..common::options()
    };
    options.cipher = (random.below(3) == 0).then(|| Cipher::new(&[9; 32]));
    options.trim = random.below(2) == 0;
    for life in 0..LIVES {
        let subject = Subject::new(random.draw(), options.clone());
        origin.lock().busy.clear();
        let mut crashes = Vec::new();
        for (number, image) in images.iter().enumerate() {
            let clock: Arc<dyn Clock> = Arc::new(subject.simulation.clone());
            let longest = Duration::from_micros(random.below(400));
            let (device, record) =
                CrashDevice::new(image.clone(), 512, random.draw(), Some((clock, longest)));
            crashes.push(record);
            let number = number as u128;
            let opening = opening(life as u128 * 2 + number);
            let added = subject.simulation.run(subject.flash.add(Arc::new(device), &opening));
            let expected = if life == 0 { Opened::Formatted } else { Opened::Warm };
            assert_eq!(added, Ok(expected), "life {life}");
        }
        if random.below(2) == 0 {
            // While it is read in, and without anything that was killed since.
            check(&subject, &origin);
        } else if random.below(2) == 0 {
            subject.simulation.run(subject.flash.recovered());
            outcome.survived += check(&subject, &origin);
            subject.flash.validate();
        }
        for _ in 0..TASKS {
            let (flash, clock) = (subject.flash.clone(), subject.simulation.clone());
            subject.simulation.spawn(Box::pin(work(
                flash,
                origin.clone(),
                clock,
                random.draw(),
                writes,
            )));
        }
        for _ in 0..random.below(STEPS) {
            subject.simulation.step();
            if random.below(200) == 0 {
                let images = crashes.iter().map(|record| record.crash(random.draw())).collect();
                outcome.survived += start_on(images, &options, &origin, random.draw());
            }
        }
        subject.flash.validate();
        let statistics = subject.flash.statistics();
        outcome.evicted += statistics.evicted_segments;
        outcome.second_lives += statistics.second_lives;
        if random.below(8) == 0 {
            subject.simulation.run(subject.flash.stop());
        }
        images = crashes.iter().map(|record| record.crash(random.draw())).collect();
        subject.simulation.crash();
    }
    let origin = origin.lock();
    Outcome { hits: origin.hits, kills: origin.kills, ..outcome }
}

#[test]
fn no_crash_brings_an_old_copy_back() {
    let campaign = Campaign::new(2000);
    let mut all = Outcome::default();
    for outcome in campaign.run_side_by_side(history) {
        all.survived += outcome.survived;
        all.hits += outcome.hits;
        all.kills += outcome.kills;
        all.evicted += outcome.evicted;
        all.second_lives += outcome.second_lives;
    }
    let count = campaign.count();
    let Outcome { survived, hits, kills, evicted, second_lives } = all;
    println!(
        "{count} histories: {hits} hits, {survived} of them after a crash, {kills} kills, \
         {evicted} segments evicted, {second_lives} records written anew"
    );
    let least = [survived / 20, kills / 20, evicted, second_lives].into_iter().min();
    assert!(least >= Some(count), "too little happened");
}
