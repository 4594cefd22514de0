//! The miss-ratio curve against an LRU stack that is walked, and against real load.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use arc::{CURVE_BYTES_MAX, Curve, CurveSnapshot, Load};
use proptest::prelude::*;

const HORIZON: u64 = 1 << 44;
/// Sampled accesses after which what was seen counts half.
const PERIOD_SAMPLES: u64 = 65_536;

/// A mixing of all bits (the finalizer of splitmix64).
fn hash(key: u64) -> u64 {
    let mut hash = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// A curve with the counters that its owner keeps.
struct Fed {
    curve: Curve,
    load: Load,
    bytes: u64,
}

impl Fed {
    fn new() -> Fed {
        let load = Load { horizon_bytes: HORIZON, may_grow: true, ..Load::default() };
        Fed { curve: Curve::default(), load, bytes: 0 }
    }

    fn access(&mut self, key: u64, bytes: u64) {
        self.load.accesses += 1;
        let hash = hash(key);
        if self.curve.is_sampled(hash) {
            self.bytes += self.curve.access(hash, bytes, || self.load);
        }
    }

    fn snapshot(&self) -> CurveSnapshot {
        self.curve.snapshot(&self.load)
    }
}

/// An LRU stack, newest last, walked for each access.
#[derive(Default)]
struct Stack {
    records: Vec<(u64, u64)>,
    /// The stack distance of each access that was not a first one.
    distances: Vec<u64>,
    accesses: u64,
}

impl Stack {
    fn access(&mut self, key: u64, bytes: u64) {
        self.accesses += 1;
        if let Some(at) = self.records.iter().position(|(known, _)| *known == key) {
            let between: u64 = self.records[at + 1..].iter().map(|(_, bytes)| bytes).sum();
            self.distances.push(between + bytes);
            self.records.remove(at);
        }
        self.records.push((key, bytes));
    }

    fn hit_rate(&self, bytes: u64) -> f64 {
        let hits = self.distances.iter().filter(|distance| **distance <= bytes).count();
        hits as f64 / self.accesses as f64
    }
}

/// A stream of random numbers (xorshift).
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = hash(seed) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Keys 0 to `keys` with a probability that falls as 1 / rank.
fn zipf(keys: u64, seed: u64) -> impl FnMut() -> u64 {
    let mut random = random(seed);
    let top = ((keys + 1) as f64).ln();
    move || {
        let share = (random() >> 11) as f64 / (1_u64 << 53) as f64;
        ((share * top).exp() as u64 - 1).min(keys - 1)
    }
}

/// Feeds both, and compares them at each edge of the curve.
fn compare(accesses: &[(u64, u64)]) {
    let (mut fed, mut stack) = (Fed::new(), Stack::default());
    for &(key, bytes) in accesses {
        fed.access(key, bytes);
        stack.access(key, bytes);
        if stack.accesses.is_multiple_of(64) {
            fed.curve.validate();
        }
    }
    fed.curve.validate();
    let snapshot = fed.snapshot();
    assert_eq!(snapshot.rate, 1.0);
    assert_eq!(snapshot.samples, stack.accesses);
    assert_eq!(snapshot.accesses, stack.accesses as f64);
    assert_eq!(snapshot.records, stack.records.len() as u64);
    assert!(!snapshot.points.is_empty());
    for point in &snapshot.points {
        let expected = stack.hit_rate(point.bytes);
        assert!((point.hit_rate - expected).abs() < 1e-9, "{point:?} is not {expected}");
        assert_eq!(point.error, 0.0);
    }
    let last = snapshot.points.last().expect("there are points").hit_rate;
    assert!((last - stack.hit_rate(u64::MAX)).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(48)
    })]

    #[test]
    fn all_of_a_random_load_is_as_a_walked_stack_has_it(
        accesses in prop::collection::vec((0_u64..200, 1_u64..200_000), 1..1500),
    ) {
        compare(&accesses);
    }

    #[test]
    fn all_of_a_skewed_load_is_as_a_walked_stack_has_it(
        seed in any::<u64>(),
        keys in 1_u64..3000,
        length in 1_usize..5000,
    ) {
        let mut next = zipf(keys, seed);
        let accesses: Vec<_> = (0..length)
            .map(|_| {
                let key = next();
                (key, 4096 << (hash(key) % 6))
            })
            .collect();
        compare(&accesses);
    }
}

/// Memory is bounded and told, whatever comes; sums stay right while the rate falls.
#[test]
fn memory_is_bounded_and_told() {
    let mut fed = Fed::new();
    let mut next = random(1);
    for access in 0..3_000_000_u64 {
        let bytes = 1 + next() % (16 << 20);
        fed.access(next() % 2_000_000, bytes);
        if access % 50_000 == 0 {
            fed.curve.validate();
            assert_eq!(fed.curve.bytes(), fed.bytes, "what was taken was told");
        }
    }
    assert!(fed.bytes <= CURVE_BYTES_MAX as u64);
    assert!(fed.bytes > CURVE_BYTES_MAX as u64 / 2, "{} bytes: nothing was tested", fed.bytes);
    let snapshot = fed.snapshot();
    assert!(snapshot.rate < 0.02, "{}", snapshot.rate);
}

/// A curve that may not grow takes nothing; one that may not grow any more lowers its rate.
#[test]
fn without_room_the_rate_falls_instead() {
    let mut fed = Fed::new();
    fed.load.may_grow = false;
    for key in 0..10_000 {
        fed.access(key, 4096);
    }
    assert_eq!((fed.bytes, fed.curve.bytes()), (0, 0));
    assert!(fed.snapshot().points.is_empty());
    fed.load.may_grow = true;
    fed.access(0, 4096);
    let first = fed.bytes;
    assert!(first > 0);
    fed.load.may_grow = false;
    for round in 0..4 {
        for key in 0..100_000 {
            fed.access(key, 4096);
        }
        fed.curve.validate();
        assert_eq!(fed.bytes, first, "round {round}");
    }
    let snapshot = fed.snapshot();
    assert!(snapshot.rate < 0.02, "{}", snapshot.rate);
    // A loop: nothing gained below its size of 391 MiB, everything above.
    let enough = snapshot.enough().expect("there are points").bytes as f64;
    assert!((enough / (100_000.0 * 4096.0) - 1.0).abs() < 0.1, "{enough}");
}

/// After a scan of a thousand times the size comes a small load; the curve comes to tell of that,
/// with a sample that is large enough again.
#[test]
fn the_curve_follows_the_load() {
    let mut fed = Fed::new();
    fed.load.horizon_bytes = 16 << 30;
    for key in 0..4_000_000 {
        fed.access(1_000_000 + key, 128 << 10);
    }
    let scanned = fed.snapshot();
    assert!(scanned.points.last().expect("there is a point").hit_rate < 0.01);
    assert!(scanned.rate < 0.2, "{}", scanned.rate);
    let mut next = random(2);
    let mut accesses = 0_u64;
    while accesses < 16_000_000 {
        fed.access(next() % 4000, 128 << 10);
        accesses += 1;
    }
    fed.curve.validate();
    let present = fed.snapshot();
    assert!(present.points.last().expect("there are points").hit_rate > 0.99);
    assert!(present.records >= 64, "{} records in the sample", present.records);
    // A flat load over 500 MiB: half of it gives half.
    let half = present.at(2000 * (128 << 10)).expect("there are points").hit_rate;
    assert!((half - 0.5).abs() < 0.1, "{half}");
}

/// Little is sampled of a small, hot load, so that hits stay cheap.
#[test]
fn a_hot_load_is_sampled_thinly() {
    let mut fed = Fed::new();
    let mut next = random(3);
    for _ in 0..2_000_000 {
        fed.access(next() % 8192, 128 << 10);
    }
    let snapshot = fed.snapshot();
    assert!(snapshot.rate < 0.07, "{}", snapshot.rate);
    assert!(snapshot.records > 256, "{}", snapshot.records);
    let half = snapshot.at(4096 * (128 << 10)).expect("there are points").hit_rate;
    assert!((half - 0.5).abs() < 0.08, "{half}");
}

/// The block numbers of one of the traces of the ARC paper, 512 bytes each.
fn trace(test: &str, name: &str) -> Option<Vec<u64>> {
    let shared = std::env::var_os("WARMFRONT_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = shared.join("traces/arc").join(name);
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) => {
            println!("skipped: {test}: {}: {error}", path.display());
            return None;
        }
    };
    let reader = zstd::Decoder::new(file).expect("a compressed trace");
    let mut blocks = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line.expect("a line of a trace");
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>());
        let mut number = || numbers.next().expect("two numbers").expect("a number");
        let (start, count) = (number(), number());
        blocks.extend(start..start + count);
    }
    Some(blocks)
}

/// The exact hit rate of LRU at each of these sizes, in records: of equal size, so one count of
/// the records between two accesses is enough (a Fenwick tree over all accesses). Each access
/// counts for half as much at the end of each period.
fn exact(keys: &[u64], sizes: &[usize], periods: &[usize]) -> Vec<f64> {
    let weight =
        |now: usize| 0.5_f64.powi(periods.iter().filter(|end| now <= **end).count() as i32);
    let mut last = std::collections::HashMap::new();
    let mut tree = vec![0_i32; keys.len() + 1];
    let mut hits = vec![0.0; sizes.len()];
    for (now, key) in keys.iter().enumerate() {
        let sum = |tree: &[i32], mut at: usize| {
            let mut sum = 0;
            while at > 0 {
                sum += tree[at];
                at &= at - 1;
            }
            sum
        };
        let add = |tree: &mut [i32], mut at: usize, amount: i32| {
            while at < tree.len() {
                tree[at] += amount;
                at += at & at.wrapping_neg();
            }
        };
        if let Some(then) = last.insert(*key, now) {
            let between = sum(&tree, now) - sum(&tree, then + 1);
            for (count, size) in hits.iter_mut().zip(sizes) {
                if between < *size as i32 {
                    *count += weight(now);
                }
            }
            add(&mut tree, then + 1, -1);
        }
        add(&mut tree, now + 1, 1);
    }
    let all: f64 = (0..keys.len()).map(weight).sum();
    hits.into_iter().map(|hits| hits / all).collect()
}

/// Mean and greatest error in points at 40 sizes from 1.25 % to 50 % of the distinct records.
fn errors(test: &str, name: &str) -> Option<(f64, f64)> {
    const RECORD: u64 = 4096;
    let keys = trace(test, name)?;
    let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
    let sizes: Vec<usize> = (1..=40).map(|step| distinct * step / 80).collect();
    let mut fed = Fed::new();
    let (mut sampled, mut periods) = (0_u64, Vec::new());
    for (now, key) in keys.iter().enumerate() {
        sampled += u64::from(fed.curve.is_sampled(hash(*key)));
        fed.access(*key, RECORD);
        if sampled == PERIOD_SAMPLES {
            sampled = 0;
            periods.push(now);
        }
    }
    let exact = exact(&keys, &sizes, &periods);
    fed.curve.validate();
    let snapshot = fed.snapshot();
    let mut within = 0;
    let mut errors = Vec::new();
    for (size, exact) in sizes.iter().zip(&exact) {
        let point = snapshot.at(*size as u64 * RECORD).expect("there are points");
        let error = (point.hit_rate - exact).abs();
        within += usize::from(error <= point.error);
        errors.push(100.0 * error);
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let most = errors.iter().copied().fold(0.0, f64::max);
    println!(
        "{name}: {distinct} records, rate {:.4}, {} samples, {} records; mean error {mean:.2} \
         points, most {most:.2}; {within} of {} within the error told",
        snapshot.rate,
        snapshot.samples,
        snapshot.records,
        sizes.len(),
    );
    Some((mean, most))
}

#[test]
fn real_load_is_told_to_a_point() {
    let test = "real_load_is_told_to_a_point";
    for name in ["OLTP.lis.zst", "P3.lis.zst"] {
        if let Some((mean, _)) = errors(test, name) {
            assert!(mean < 1.0, "{name}: mean error of {mean:.2} points");
        }
    }
}
