//! What the rules make of loads that are read ahead as an engine does it: in windows that grow
//! when a read waits, and with reads that come before what was asked for has arrived.

mod common;

use std::collections::VecDeque;
use std::time::Duration;

use arc::{Cache, Charge, Class, Kind, Options};

use crate::common::Plain;

const SEEDS: std::ops::Range<u64> = 0..20;

const DEMAND: Charge =
    Charge { bytes: 128 << 10, class: Class::Data, kind: Kind::Demand, tenant: 0 };
const PREFETCH: Charge = Charge { kind: Kind::Prefetch, ..DEMAND };

/// What a record takes beside its payload, about.
const OVERHEAD_BYTES: u64 = 90;

/// Records that are asked for ahead of a stream if none of its reads waits, and at most.
const AHEAD: u64 = 8;
const AHEAD_MAX: u64 = 64;

/// Records that arrive together.
const CHUNK: u32 = 8;

/// A cache, and an origin whose answers take time.
struct Engine {
    cache: Cache<u64, (), Plain>,
    reads_ahead: bool,
    /// Of so many records that arrive before they are read, one is asked for by its reader too.
    twice_of: Option<u64>,
    now: Duration,
    latency: Duration,
    /// What was asked for ahead, and when it arrives.
    under_way: VecDeque<(Duration, u64)>,
    /// Records that the origin was asked for.
    fetched: u64,
    random: u64,
}

/// One reader of one file, from its beginning to its end.
struct Stream {
    file: u64,
    records: u64,
    next: u64,
    asked: u64,
    distance: u64,
}

impl Stream {
    const fn new(file: u64, records: u64) -> Self {
        Self { file, records, next: 0, asked: 0, distance: 0 }
    }
}

impl Engine {
    /// With room for so many records.
    fn new(seed: u64, records: u64, reads_ahead: bool) -> Self {
        let capacity = records * (DEMAND.bytes + OVERHEAD_BYTES);
        let options = Options { shards: Some(8), ..Options::new(capacity) };
        Self {
            cache: Cache::with_hasher(&options, Plain(0)),
            reads_ahead,
            twice_of: None,
            now: Duration::from_secs(1),
            latency: Duration::from_micros(300 + seed % 5 * 100),
            under_way: VecDeque::new(),
            fetched: 0,
            random: mix(seed),
        }
    }

    /// Takes in what has arrived.
    fn arrive(&mut self) {
        while let Some((_, key)) = self.under_way.pop_front_if(|(at, _)| *at <= self.now) {
            self.cache.insert(key, (), PREFETCH, self.now).unwrap();
        }
    }

    /// Reads a record. Whether it had to be waited for.
    fn read(&mut self, key: u64) -> bool {
        self.random = mix(self.random);
        self.now += Duration::from_micros(50 + self.random % 30);
        self.arrive();
        let is_unread = self.cache.locate(&key).is_some_and(|at| at.prefetched);
        let is_asked_twice =
            is_unread && self.twice_of.is_some_and(|of| self.random.is_multiple_of(of));
        if !is_asked_twice && self.cache.get(&key, self.now).is_some() {
            return false;
        }
        if let Some((at, _)) = self.under_way.iter().find(|(_, asked)| *asked == key) {
            self.now = *at;
            self.arrive();
            if self.cache.get(&key, self.now).is_some() {
                return true;
            }
        }
        self.now += self.latency;
        self.arrive();
        self.fetched += 1;
        self.cache.insert(key, (), DEMAND, self.now).unwrap();
        true
    }

    /// Reads the next record of a stream, and asks for others ahead of it.
    fn step(&mut self, stream: &mut Stream) {
        let waited = self.read(key(stream.file, stream.next));
        stream.next += 1;
        stream.asked = stream.asked.max(stream.next);
        let left = stream.asked - stream.next;
        if !self.reads_ahead || stream.next == 1 || left > stream.distance / 2 {
            return;
        }
        if stream.distance == 0 {
            stream.distance = 1;
        } else if stream.distance < AHEAD || waited {
            stream.distance = (stream.distance * 2).min(AHEAD_MAX);
        }
        let end = (stream.next + stream.distance).min(stream.records);
        let mut arrives = (0..).map(|count| self.now + self.latency * (1 + count / CHUNK));
        for key in (stream.asked..end).map(|number| key(stream.file, number)) {
            if !self.cache.contains(&key) {
                self.fetched += 1;
                self.under_way.extend(arrives.next().map(|at| (at, key)));
            }
        }
        stream.asked = stream.asked.max(end);
    }

    /// Reads a file from front to back, `count` times; percent of it that came from the origin each
    /// time.
    fn passes(&mut self, file: u64, records: u64, count: usize) -> Vec<u64> {
        let mut pass = || {
            let (before, mut stream) = (self.fetched, Stream::new(file, records));
            while stream.next < records {
                self.step(&mut stream);
            }
            (self.fetched - before) * 100 / records
        };
        (0..count).map(|_| pass()).collect()
    }

    /// Reads one record of a hot file at random for each `every` of a file that is read round and
    /// round; percent of the hot reads that hit.
    fn beside(
        &mut self,
        hot: (u64, u64),
        every: usize,
        stream: &mut Stream,
        steps: usize,
    ) -> usize {
        let mut hits = 0;
        for step in 0..steps {
            if step % every == 0 {
                hits += usize::from(!self.read(key(hot.0, self.random % hot.1)));
            }
            if stream.next == stream.records {
                *stream = Stream::new(stream.file, stream.records);
            }
            self.step(stream);
        }
        hits * 100 / steps.div_ceil(every)
    }
}

fn key(file: u64, number: u64) -> u64 {
    mix(mix(file) ^ number)
}

/// The finalizer of SplitMix64.
const fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// A loop a little too large for the cache is found out after another set, be it a small one or one
/// that fills the cache.
#[test]
fn a_loop_after_another_set_is_found_within_four_passes() {
    const ROOM: u64 = 1920;
    for (set, length) in [(208, 2112), (208, 2256), (1840, 2112), (1840, 2256)] {
        for seed in SEEDS {
            let mut engine = Engine::new(seed, ROOM, true);
            engine.passes(2 * seed, set, 4);
            let brought = engine.passes(2 * seed + 1, length, 8);
            println!("{set}, then {length}, seed {seed}: {brought:?} % brought in");
            engine.cache.validate().unwrap();
            assert!(brought[3..].iter().all(|percent| *percent <= 30), "{set}, {length}, {seed}");
        }
    }
}

/// With and without reading ahead the shadows are told of each access, and see the same load.
#[test]
fn shadows_see_the_same_load_with_and_without_reading_ahead() {
    const PASSES: usize = 5;
    for (room, length) in [(1920, 2256), (960, 1600)] {
        for seed in SEEDS {
            let [ahead, plain] = [true, false].map(|reads_ahead| {
                let mut engine = Engine::new(seed, room, reads_ahead);
                engine.passes(seed, length, PASSES);
                engine.cache.settings(0).1
            });
            println!("{length}, seed {seed}: {:.3?}, {:.3?}", ahead.hit_ratios, plain.hit_ratios);
            assert_eq!([ahead.sampled, plain.sampled], [length * PASSES as u64; 2], "seed {seed}");
            let pairs = ahead.hit_ratios.iter().zip(plain.hit_ratios);
            let furthest = pairs.map(|(ahead, plain)| (ahead - plain).abs()).fold(0.0, f64::max);
            assert!(furthest < 0.1, "{length}, seed {seed}: {furthest} apart");
            assert!(ahead.hit_ratios[3] < 0.01, "{length}, seed {seed}: a loop that recency hits");
        }
    }
}

/// A record that its reader has asked for while it arrived has been read: it does not wait for
/// that.
#[test]
fn what_is_fetched_twice_does_not_wait_for_a_read() {
    for seed in SEEDS {
        let mut engine = Engine::new(seed, 1920, true);
        engine.twice_of = Some(16);
        let brought = engine.passes(seed, 2256, 12);
        println!("seed {seed}: {brought:?} % brought in");
        engine.cache.validate().unwrap();
        assert!(brought[6..].iter().sum::<u64>() <= 6 * 28, "seed {seed}");
    }
}

/// What is used more often than a file that is read round and round stays beside it, and comes back
/// after it has rested.
#[test]
fn a_hot_set_is_kept_beside_a_stream_that_repeats() {
    const STEPS: usize = 6400;
    for (every, rests) in [(1, false), (2, false), (1, true), (2, true)] {
        for seed in SEEDS {
            let mut engine = Engine::new(seed, 960, true);
            let hot = (2 * seed, 512);
            for _ in 0..20_000 {
                engine.read(key(hot.0, engine.random % hot.1));
            }
            let mut stream = Stream::new(2 * seed + 1, 3200);
            if rests {
                engine.passes(stream.file, stream.records, 8);
            }
            let hits: Vec<usize> =
                (0..8).map(|_| engine.beside(hot, every, &mut stream, STEPS)).collect();
            println!("every {every}, rested {rests}, seed {seed}: {hits:?} %");
            engine.cache.validate().unwrap();
            let first = if rests { 2 } else { 0 };
            assert!(hits[first..].iter().all(|percent| *percent >= 90), "{every}, {rests}, {seed}");
        }
    }
}
