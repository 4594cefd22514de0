//! What the policy is for: a scan does not flush the hot set, a byte bound holds, a loop hits
//! at least as often as with LRU.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::time::Duration;

use arc::{Cache, Charge, Class, HAND_STEPS_MAX, Kind, List, Options, Policy, PolicyKind, Queue};
use hashbrown::DefaultHashBuilder;

const DEMAND: Charge = Charge { bytes: 1, class: Class::Data, kind: Kind::Demand, tenant: 0 };

/// A policy with a hasher and a clock of one millisecond an access.
struct Load {
    policy: Policy<u64, ()>,
    hasher: DefaultHashBuilder,
    now: Duration,
    gone: Vec<(u64, ())>,
    seed: u64,
}

impl Load {
    fn new(options: Options) -> Self {
        Self {
            policy: Policy::new(&options),
            hasher: DefaultHashBuilder::default(),
            now: Duration::from_secs(1),
            gone: Vec::new(),
            seed: 0x853C_49E6_748F_EA9B,
        }
    }

    /// Reads a record, and takes it in on a miss. Whether it was a hit.
    fn read(&mut self, key: u64, charge: Charge) -> bool {
        self.now += Duration::from_millis(1);
        let hash = self.hasher.hash_one(key);
        let hit = self.policy.get(hash, &key, self.now).is_some();
        if !hit {
            self.policy.insert(hash, key, (), charge, self.now, &mut self.gone).unwrap();
            self.gone.clear();
        }
        assert!(self.policy.charged_bytes() <= self.policy.capacity_bytes());
        hit
    }

    /// Uniform in `0..end`: xorshift64*.
    fn random(&mut self, end: u64) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        (self.seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % end
    }
}

fn unit_pages(capacity: u64) -> Options {
    Options {
        correlated_window: Duration::ZERO,
        charge_overhead: false,
        policy: PolicyKind::Arc,
        ..Options::new(capacity)
    }
}

#[test]
fn an_endless_scan_leaves_the_hot_set_alone() {
    const BYTES: u64 = 4096;
    let charge = Charge { bytes: BYTES, ..DEMAND };
    // Overhead charged, window on: 1000 records fit, 500 are hot.
    let mut load = Load::new(Options::new(1000 * (BYTES + 200)));
    for _ in 0..20_000 {
        let key = load.random(500);
        load.read(key, charge);
    }
    let mut hits = [0, 0];
    for (phase, scanning) in [false, true].into_iter().enumerate() {
        for step in 0..100_000 {
            let key = load.random(500);
            hits[phase] += u32::from(load.read(key, charge));
            if scanning {
                assert!(!load.read(1_000_000 + step, charge));
                load.read(2_000_000 + 2 * step, charge);
            }
        }
    }
    load.policy.validate().unwrap();
    println!("hits on the hot set: {} alone, {} under a scan, of 100000", hits[0], hits[1]);
    assert!(f64::from(hits[1]) >= 0.98 * f64::from(hits[0]));
}

/// The same when the scan is read ahead, each record is then read in pieces, and the cache has
/// several shards.
#[test]
fn an_endless_scan_that_is_read_ahead_leaves_the_hot_set_alone() {
    const BYTES: u64 = 4096;
    const READS: u64 = 100_000;
    let hot = Charge { bytes: BYTES, ..DEMAND };
    let ahead = Charge { kind: Kind::Prefetch, ..hot };
    let options = Options { shards: Some(4), ..Options::new(2000 * (BYTES + 100)) };
    let cache: Cache<u64, ()> = Cache::new(&options);
    let mut load = Load::new(options);
    let mut hits = [0, 0];
    for step in 0..3 * READS {
        let (phase, now) = (step / READS, Duration::from_millis(step));
        let key = load.random(1000);
        match cache.get(&key, now) {
            Some(()) if phase > 0 => hits[phase as usize - 1] += 1,
            Some(()) => {}
            None => assert!(cache.insert(key, (), hot, now).is_ok()),
        }
        if phase == 2 {
            cache.insert(1_000_000 + step, (), ahead, now).unwrap();
            for piece in 1..=3 {
                let now = now + Duration::from_millis(piece);
                assert_eq!(cache.get(&(1_000_000 + step), now), Some(()));
            }
        }
    }
    cache.validate().unwrap();
    println!("hits on the hot set: {} alone, {} under a scan, of {READS}", hits[0], hits[1]);
    assert!(hits[0] > 0 && f64::from(hits[1]) >= 0.98 * f64::from(hits[0]));
}

/// The same when much more is read ahead than MRU's share: nothing goes before it is read, nor
/// does the scan take the place of what is used, be its records as large as those or larger.
#[test]
fn a_scan_that_is_read_far_ahead_leaves_the_hot_set_alone() {
    const AHEAD: u64 = 64;
    for pages in [1, 8] {
        let mut load = Load::new(Options { policy: PolicyKind::Auto, ..unit_pages(1024) });
        let scanned = Charge { bytes: pages * DEMAND.bytes, ..DEMAND };
        let ahead = Charge { kind: Kind::Prefetch, ..scanned };
        for _ in 0..20_000 {
            let key = load.random(320);
            load.read(key, DEMAND);
        }
        let mut hits = [0, 0];
        let steps = 20_000 / pages;
        for step in 0..steps {
            let key = load.random(320);
            hits[0] += u64::from(load.read(key, DEMAND));
            load.read(1_000_000 + step + AHEAD / pages, ahead);
            if step >= AHEAD / pages {
                hits[1] += u64::from(load.read(1_000_000 + step, scanned));
            }
        }
        load.policy.validate().unwrap();
        println!("{pages} pages: {hits:?} hits of {steps} on the hot set and the scan");
        assert!(hits[0] * 100 >= steps * 98, "hot set, {pages} pages");
        assert!(hits[1] * 100 >= steps * 98, "scan, {pages} pages");
    }
}

/// Reads `keys` in order, each record `ahead` records before its turn unless it is there; returns
/// how many were brought in.
fn stream(load: &mut Load, keys: std::ops::Range<u64>, ahead: u64) -> u64 {
    let mut brought = 0;
    let mut fetched = keys.start;
    for key in keys.clone() {
        while fetched < (key + ahead).min(keys.end) {
            let hash = load.hasher.hash_one(fetched);
            if !load.policy.contains(hash, &fetched) {
                load.read(fetched, Charge { kind: Kind::Prefetch, ..DEMAND });
                brought += 1;
            }
            fetched += 1;
        }
        brought += u64::from(!load.read(key, DEMAND));
    }
    brought
}

/// A file that is read in sequence again and again takes the place of the one before it, although
/// each of its records is read ahead, and read once a pass.
#[test]
fn what_is_read_ahead_again_and_again_is_kept() {
    const FILE: u64 = 700;
    for ahead in [8, 64] {
        let correlated_window = arc::CORRELATED_WINDOW;
        let options = Options { correlated_window, ..unit_pages(1024) };
        let mut load = Load::new(Options { policy: PolicyKind::Auto, ..options });
        for _ in 0..6 {
            stream(&mut load, 0..FILE, ahead);
        }
        let brought: Vec<u64> =
            (0..8).map(|_| stream(&mut load, 10_000..10_000 + FILE, ahead)).collect();
        println!("{ahead} ahead: {brought:?} of {FILE} brought in by passes over another file");
        load.policy.validate().unwrap();
        assert!(brought[4..].iter().all(|brought| *brought <= FILE / 50), "{ahead} ahead");
    }
}

/// What is read in sequence again and again and does not fit is brought in once a pass at most.
#[test]
fn a_loop_that_is_read_ahead_is_brought_in_once_a_pass() {
    for (file, ahead) in [(1100, 64), (2500, 64), (2500, 200)] {
        let mut load = Load::new(Options { policy: PolicyKind::Auto, ..unit_pages(1024) });
        let brought: Vec<u64> = (0..12).map(|_| stream(&mut load, 0..file, ahead)).collect();
        println!("{ahead} ahead: {brought:?} of {file} brought in");
        load.policy.validate().unwrap();
        assert!(brought.iter().all(|brought| *brought <= file + file / 50), "{ahead} ahead");
        assert!(brought[8..].iter().all(|brought| *brought <= file - file / 8), "{ahead} ahead");
    }
}

#[test]
fn a_hot_set_that_comes_up_during_a_scan_is_kept() {
    // Five records of the scan for each read of the hot set: LRU keeps less than half of it.
    let mut load = Load::new(unit_pages(1000));
    let mut hits = 0;
    for step in 0..200_000 {
        let key = load.random(300);
        let hit = load.read(key, DEMAND);
        for scan in 0..5 {
            load.read(1_000_000 + 5 * step + scan, DEMAND);
        }
        hits += u32::from(hit && step >= 100_000);
    }
    println!("hits on the hot set that came up during a scan: {hits} of 100000");
    assert!(hits >= 98_000);
}

/// Hits of least-recently-used replacement, for comparison.
struct Lru {
    last: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    clock: u64,
    capacity: usize,
}

impl Lru {
    fn read(&mut self, key: u64) -> bool {
        self.clock += 1;
        let last = self.last.insert(key, self.clock);
        last.map(|last| self.order.remove(&last));
        self.order.insert(self.clock, key);
        if self.order.len() > self.capacity {
            let (_, oldest) = self.order.pop_first().unwrap();
            self.last.remove(&oldest);
        }
        last.is_some()
    }
}

/// Reads of a hot set and of a loop by turns; hits on the loop, with this policy and with LRU.
fn loop_hits(hot: u64, length: u64, rounds: u64) -> (u64, u64) {
    let mut load = Load::new(unit_pages(1000));
    let mut lru = Lru { last: HashMap::new(), order: BTreeMap::new(), clock: 0, capacity: 1000 };
    let (mut hits, mut lru_hits) = (0, 0);
    for step in 0..rounds {
        if hot > 0 {
            let key = load.random(hot);
            load.read(key, DEMAND);
            lru.read(key);
        }
        hits += u64::from(load.read(10_000 + step % length, DEMAND));
        lru_hits += u64::from(lru.read(10_000 + step % length));
    }
    load.policy.validate().unwrap();
    println!(
        "hot set of {hot}, loop of {length}: {hits} hits of {rounds} on the loop, LRU {lru_hits}"
    );
    (hits, lru_hits)
}

/// On a loop a little too long ARC and CAR are no cure: a lone loop never hits, as in the papers'
/// algorithms (no ghost lives as long as the loop); beside a hot set a few percent do.
#[test]
fn a_loop_a_little_too_long() {
    let rounds = 200_000;
    assert_eq!(loop_hits(0, 1011, rounds), (0, 0));
    for (hot, length) in [(20, 1000), (50, 990), (100, 950)] {
        let (hits, lru_hits) = loop_hits(hot, length, rounds);
        assert_eq!(lru_hits, 0);
        assert!(hits > rounds / 100);
    }
}

/// `auto` holds a part of a loop that is larger than the cache, where LRU and ARC have no hit.
#[test]
fn auto_holds_a_part_of_a_loop() {
    for length in [1011, 1100, 1500] {
        let mut load = Load::new(Options { policy: PolicyKind::Auto, ..unit_pages(1000) });
        let rounds = 100 * length;
        let hits = (0..rounds).filter(|step| load.read(step % length, DEMAND)).count() as u64;
        load.policy.validate().unwrap();
        // The optimum keeps all but one of the first thousand, from the second round on.
        let optimum = (rounds / length - 1) * 999;
        println!("loop of {length}: {hits} hits of {rounds}, the optimum about {optimum}");
        assert!(hits > optimum / 10 * 9, "loop of {length}: {hits} hits of {rounds}");
    }
}

/// A load that turns back at both ends needs what came last, from the first turn on: nothing that
/// is known before says so.
#[test]
fn auto_hits_when_the_load_turns_back() {
    let mut load = Load::new(Options { policy: PolicyKind::Auto, ..unit_pages(1000) });
    let turns = 10;
    let forth_and_back = (0..4000).chain((0..4000).rev()).cycle();
    let hits = forth_and_back.take(turns * 4000).filter(|&key| load.read(key, DEMAND)).count();
    load.policy.validate().unwrap();
    // LRU, which is the optimum here, hits what it holds at each turn.
    let optimum = (turns - 1) * 1000;
    println!("{hits} hits, the optimum {optimum}");
    assert!(hits > optimum / 100 * 98, "{hits} hits, the optimum {optimum}");
}

/// What each kind of rules makes of a hot set of half the cache beside an endless scan.
#[test]
fn auto_leaves_the_hot_set_alone_too() {
    let mut load = Load::new(Options { policy: PolicyKind::Auto, ..unit_pages(1000) });
    let (mut hits, rounds) = (0, 200_000);
    for step in 0..rounds {
        let hot = load.random(500);
        hits += u64::from(load.read(hot, DEMAND));
        load.read(1_000_000 + step, DEMAND);
    }
    println!("{hits} hits of {rounds} on the hot set beside a scan");
    assert!(hits >= rounds / 100 * 98, "{hits} hits of {rounds}");
}

#[test]
fn the_hand_takes_a_bounded_number_of_steps() {
    let capacity = 4 * u64::from(HAND_STEPS_MAX);
    let mut load = Load::new(unit_pages(capacity));
    for key in (0..capacity).chain(0..capacity) {
        load.read(key, DEMAND);
    }
    load.read(capacity, DEMAND);
    let frequent = load.policy.newest(List::new(Class::Data, Queue::Mfu)).count();
    assert_eq!(frequent, HAND_STEPS_MAX as usize);
    assert_eq!(load.policy.len() as u64, capacity);
}

#[test]
fn the_bound_holds_under_mixed_sizes() {
    let mut load = Load::new(Options::new(4 << 20));
    for _ in 0..60_000 {
        let key = load.random(3000);
        let metadata = key.is_multiple_of(4);
        let bytes = if metadata { 64 + key % 500 } else { 1 << (9 + key % 10) };
        let class = if metadata { Class::Metadata } else { Class::Data };
        let tenant = (key % 5) as u32;
        load.read(key, Charge { bytes, class, kind: Kind::Demand, tenant });
    }
    load.policy.validate().unwrap();
    let full = load.policy.charged_bytes() as f64 / load.policy.capacity_bytes() as f64;
    assert!(full > 0.9, "only {full} full");
    let sum: u64 = (0..5).map(|tenant| load.policy.tenant(tenant).bytes()).sum();
    assert_eq!(sum, load.policy.usage().bytes());
}

#[test]
fn metadata_is_kept_when_data_floods_the_cache() {
    let mut load = Load::new(Options::new(8 << 20));
    let metadata = Charge { bytes: 300, class: Class::Metadata, ..DEMAND };
    let data = Charge { bytes: 128 << 10, ..DEMAND };
    let (mut hits, reads) = (0, 20_000);
    for step in 0..2 * reads {
        load.read(1_000_000 + step, data);
        let key = load.random(2000);
        let hit = load.read(key, metadata);
        hits += u64::from(hit && step >= reads);
    }
    let metadata: u64 = Queue::ALL
        .map(|queue| load.policy.newest(List::new(Class::Metadata, queue)).count() as u64)
        .iter()
        .sum();
    println!("metadata under a flood of data: {hits} hits of {reads}, {metadata} of 2000 resident");
    assert_eq!(metadata, 2000);
    assert_eq!(hits, reads);
}
