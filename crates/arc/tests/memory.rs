//! The memory that is charged is the memory that is taken: an allocator counts along.

use std::alloc::System;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc::{Cache, Charge, Class, Kind, List, Options, Policy, PolicyKind};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The tests of this file share the allocator, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that `make` leaves allocated, and what it made.
fn taken<T>(make: impl FnOnce() -> T) -> (f64, T) {
    let before = ALLOCATOR.allocated();
    let made = make();
    ((ALLOCATOR.allocated() - before) as f64, made)
}

const NOW: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(2);
const NOTHING: Charge = Charge { bytes: 0, class: Class::Data, kind: Kind::Demand, tenant: 0 };

/// As good as a hash: SplitMix64's last steps.
const fn hash(key: u64) -> u64 {
    let mixed = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Headers and index only: payloads are the caller's.
fn policy_of(records: u64) -> Policy<u64, u64> {
    let mut policy = Policy::new(&arc_options(1 << 40));
    let mut gone = Vec::new();
    for key in 0..records {
        policy.insert(hash(key), key, key, NOTHING, NOW, &mut gone).unwrap();
    }
    assert!(gone.is_empty());
    policy
}

/// Memory beyond key and value, bytes a record.
fn overhead(records: u64) -> f64 {
    let (bytes, policy) = taken(|| policy_of(records));
    assert_eq!(policy.len() as u64, records);
    assert_eq!(policy.charged_bytes(), records * policy.record_overhead());
    bytes / records as f64 - size_of::<[u64; 2]>() as f64
}

/// No shadows, so that only records and ghosts take memory.
const fn arc_options(capacity: u64) -> Options {
    Options { policy: PolicyKind::Arc, ..Options::new(capacity) }
}

#[test]
fn a_record_takes_at_most_64_bytes_beside_key_and_value() {
    let _turn = turn();
    for records in [10_000, 100_000, 500_000, 1_000_000] {
        let overhead = overhead(records);
        println!("{records} records: {overhead:.1} bytes each");
        assert!(overhead <= 64.0);
    }
}

/// The index doubles, so its share swings about the one that is charged.
#[test]
fn what_is_charged_for_headers_is_what_they_take() {
    const STEPS: u32 = 8;
    let _turn = turn();
    let charged = Policy::<u64, u64>::new(&arc_options(1 << 40)).record_overhead() as f64;
    assert_eq!(charged, 16.0 + 40.0 + 10.0, "the documented formula");
    let mut sum = 0.0;
    for step in 0..STEPS {
        let records = 200_000.0 * 2f64.powf(f64::from(step) / f64::from(STEPS));
        let taken = overhead(records as u64) + 16.0;
        assert!((taken / charged - 1.0).abs() < 0.08, "{taken:.1} of {charged} at {records}");
        sum += taken / f64::from(STEPS);
    }
    println!("{charged} bytes are charged a record, {sum:.1} taken on average over a doubling");
    assert!((sum / charged - 1.0).abs() < 0.05);
}

#[test]
fn a_ghost_takes_24_bytes_and_its_share_of_the_index() {
    const CAPACITY: u64 = 64 << 20;
    let _turn = turn();
    let (bytes, policy) = taken(|| {
        let mut policy = Policy::new(&arc_options(CAPACITY));
        let mut gone = Vec::new();
        let half = CAPACITY / policy.record_overhead() / 2;
        for key in 0..half {
            policy.insert(hash(key), key, key, NOTHING, NOW, &mut gone).unwrap();
            policy.get(hash(key), &key, LATER);
        }
        for key in half..4 * half {
            policy.insert(hash(key), key, key, NOTHING, LATER, &mut gone).unwrap();
        }
        policy.retain(|_, _| false, &mut gone);
        policy
    });
    let ghosts: u64 = List::ALL.map(|list| policy.ghosts(list).0).iter().sum();
    assert!(ghosts > 100_000 && policy.is_empty(), "{ghosts} ghosts");
    assert_eq!(policy.ghost_overhead(), 24 + 10, "the documented formula");
    assert_eq!(policy.charged_bytes(), ghosts * 34);
    assert!(policy.charged_bytes() <= CAPACITY / arc::GHOST_SHARE);
    let each = bytes / ghosts as f64;
    println!("{ghosts} ghosts: {each:.1} bytes each");
    // 5.7 to 11.4 bytes of index, and twice that before it has shrunk.
    assert!((24.0 + 5.7..24.0 + 24.0).contains(&each));
}

/// A whole cache after a storm: payloads of several sizes, both classes, ghosts, many evictions.
#[test]
fn what_a_cache_charges_is_what_it_takes() {
    let _turn = turn();
    for (capacity, records) in [(32 << 20, 100_000), (128 << 20, 500_000)] {
        let options = Options { shards: Some(8), ..Options::new(capacity) };
        let (bytes, cache) = taken(|| {
            let cache: Cache<u64, Arc<[u8]>> = Cache::new(&options);
            for step in 0..2 * records {
                let key = hash(step) % records;
                let now = Duration::from_millis(step);
                if cache.get(&key, now).is_none() {
                    let class = if key.is_multiple_of(5) { Class::Metadata } else { Class::Data };
                    // An `Arc` puts two counts in front of what it holds.
                    let bytes = 64 << (key % 6);
                    let value = vec![0; bytes as usize - 16].into();
                    let tenant = (key % 3) as u32;
                    let charge = Charge { bytes, class, kind: Kind::Demand, tenant };
                    cache.insert(key, value, charge, now).unwrap();
                }
            }
            cache
        });
        let statistics = cache.statistics();
        assert!(statistics.usage.evictions > records / 10, "it is full");
        let charged = cache.charged_bytes() as f64;
        println!(
            "{} records, {} ghosts: {charged} bytes charged, {bytes} taken",
            statistics.usage.records(),
            statistics.ghosts.iter().map(|ghosts| ghosts.ghosts).sum::<u64>()
        );
        assert!((bytes / charged - 1.0).abs() < 0.05);
    }
}
