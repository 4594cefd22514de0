//! A machine that stops at any moment, again and again: no copy that was killed comes back.
//!
//! Each seed is a history of several lives of one pool. In a life some tasks read, admit, write
//! and delete at the same time on a device whose calls take random times; then the machine stops
//! at a random moment, the device is left as a crash may leave it, and the next life begins with
//! that. Whatever is read must be what the origin holds at that moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use l2arc::{Cipher, Flash, Key, Opened};
use parking_lot::Mutex;
use storage::{Clock, CrashDevice, Random, Simulation, Spawn};

use crate::common::{self, DEVICE_BYTES, Subject, contents, key, opening};

const OBJECTS: u64 = 6;
const PARTS: u64 = 12;
const LIVES: u64 = 5;
const TASKS: u64 = 6;

/// What is at the origin, and who is changing it.
#[derive(Default)]
struct Origin {
    versions: BTreeMap<Key, u64>,
    busy: Vec<Key>,
    hits: u64,
    kills: u64,
}

impl Origin {
    fn version(&self, key: &Key) -> u64 {
        self.versions.get(key).copied().unwrap_or(0)
    }

    fn change(&mut self, key: &Key) {
        *self.versions.entry(*key).or_default() += 1;
    }
}

fn keys() -> Vec<Key> {
    (0..OBJECTS).flat_map(|object| (0..PARTS).map(move |part| key(object, part))).collect()
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
async fn work(flash: Arc<Flash>, origin: Arc<Mutex<Origin>>, clock: Simulation, seed: u64) {
    let mut random = Random::new(seed);
    loop {
        let object = random.below(OBJECTS);
        let one = key(object, random.below(PARTS));
        let wait = Duration::from_micros(random.below(2000));
        match random.below(40) {
            0..30 => read(&flash, &origin, one, wait, &clock).await,
            30..37 => write(&flash, &origin, &[one], None).await,
            37 => {
                let several = [one, key((object + 1) % OBJECTS, 3)];
                write(&flash, &origin, &several, None).await;
            }
            38 if random.below(4) == 0 => {
                let all: Vec<Key> = (0..PARTS).map(|part| key(object, part)).collect();
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
    for key in keys() {
        let version = origin.lock().version(&key);
        hits += u64::from(subject.read(&key, version).is_ok());
    }
    hits
}

/// Runs the history of a seed. Returns hits after crashes, hits in all, and kills.
fn history(seed: u64) -> (u64, u64, u64) {
    let mut random = Random::new(seed);
    let origin = Arc::new(Mutex::new(Origin::default()));
    let devices = 1 + random.below(2) as usize;
    let mut images = vec![vec![0; DEVICE_BYTES]; devices];
    let mut survived = 0;
    let mut options = common::options();
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
            survived += check(&subject, &origin);
            subject.flash.validate();
        }
        for _ in 0..TASKS {
            let (flash, clock) = (subject.flash.clone(), subject.simulation.clone());
            subject.simulation.spawn(Box::pin(work(flash, origin.clone(), clock, random.draw())));
        }
        for _ in 0..random.below(6000) {
            subject.simulation.step();
        }
        subject.flash.validate();
        if random.below(8) == 0 {
            subject.simulation.run(subject.flash.stop());
        }
        images = crashes.iter().map(|record| record.crash(random.draw())).collect();
        subject.simulation.crash();
    }
    let origin = origin.lock();
    (survived, origin.hits, origin.kills)
}

/// Seeds of a run; `WARMFRONT_SEEDS=FIRST..END` runs others.
fn seeds() -> std::ops::Range<u64> {
    let chosen = std::env::var("WARMFRONT_SEEDS").ok();
    let chosen = chosen.and_then(|text| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    });
    chosen.unwrap_or(0..1000)
}

#[test]
fn no_crash_brings_an_old_copy_back() {
    let (mut survived, mut hits, mut kills) = (0, 0, 0);
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| history(seed));
        let Ok((after, all, killed)) = outcome else { panic!("seed {seed} fails; see above") };
        survived += after;
        hits += all;
        kills += killed;
    }
    let count = seeds().end - seeds().start;
    println!("{count} histories: {hits} hits, {survived} of them after a crash, {kills} kills");
    assert!(survived > 20 * count && kills > 20 * count, "{survived} {kills}: too little happened");
}
