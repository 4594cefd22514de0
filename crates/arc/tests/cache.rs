//! The cache: one budget over all shards, statistics, many threads.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc::{Cache, Charge, Class, Kind, List, Options, PolicyKind, Queue, Refused};
use common::Plain;
use proptest::prelude::*;

/// A key of `shard` (of at most 256).
fn key(shard: u64, number: u64) -> u64 {
    // Bits 40 and up choose the shard; the top bits are the index's tag.
    (number & 0x7F) << 57 | shard << 40 | number
}

const NOW: Duration = Duration::from_secs(1);

const fn demand(bytes: u64) -> Charge {
    Charge { bytes, class: Class::Data, kind: Kind::Demand, tenant: 0 }
}

fn four_shards(capacity: u64) -> Cache<u64, u64, Plain> {
    let options = Options {
        shards: Some(4),
        charge_overhead: false,
        policy: PolicyKind::Arc,
        ..Options::new(capacity)
    };
    Cache::with_hasher(&options, Plain(0))
}

fn records(cache: &Cache<u64, u64, Plain>, shard: u64) -> u64 {
    (0..10_000).filter(|&number| cache.contains(&key(shard, number))).count() as u64
}

#[test]
fn a_shard_may_use_what_the_others_leave() {
    let cache = four_shards(400);
    for number in 0..1000 {
        cache.insert(key(0, number), 0, demand(1), NOW).unwrap();
    }
    cache.validate().unwrap();
    assert_eq!(records(&cache, 0), 400);
    // Another shard fills up to its share at the expense of the first, then gives itself.
    for number in 0..1000 {
        cache.insert(key(1, number), 0, demand(1), NOW).unwrap();
        assert!(cache.charged_bytes() <= 400);
    }
    cache.validate().unwrap();
    assert_eq!((records(&cache, 0), records(&cache, 1)), (300, 100));
}

#[test]
fn a_large_record_does_not_empty_its_own_shard() {
    let cache = four_shards(400);
    for number in 0..1000 {
        cache.insert(key(number % 4, number), 0, demand(1), NOW).unwrap();
    }
    assert_eq!(cache.charged_bytes(), 400);
    let inserted = cache.insert(key(2, 5000), 0, demand(50), NOW).unwrap();
    cache.validate().unwrap();
    assert_eq!(inserted.evicted.bytes, 50);
    assert!(records(&cache, 2) >= 75);
    let refused = cache.insert(key(2, 5000), 0, demand(51), NOW);
    assert_eq!(refused, Err(Refused::TooLarge { cost: 51, limit: 50 }));
    assert_eq!(cache.peek(&key(2, 5000)), None, "the old value goes");
    assert_eq!(cache.statistics().refused.too_large, 1);
}

#[test]
fn capacity_can_be_lowered_and_raised() {
    let cache = four_shards(40_000);
    for number in 0..50_000 {
        cache.insert(key(number % 4, number), 0, demand(1), NOW).unwrap();
    }
    let evicted = cache.set_capacity(1000);
    cache.validate().unwrap();
    assert!(evicted.records >= 39_000 && cache.charged_bytes() <= 1000);
    assert!(cache.charged_bytes() >= 740, "no more than a quarter too much went");
    cache.set_capacity(2000);
    for number in 0..4000 {
        cache.insert(key(number % 4, 100_000 + number), 0, demand(1), NOW).unwrap();
    }
    assert_eq!(cache.charged_bytes(), 2000);
    cache.set_capacity(0);
    cache.validate().unwrap();
    assert_eq!(cache.charged_bytes(), 0);
}

#[test]
fn retain_looks_at_every_record() {
    let cache = four_shards(10_000);
    for number in 0..8000 {
        let tenant = (number % 3) as u32;
        let charge = Charge { tenant, ..demand(1) };
        cache.insert(key(number % 4, number), number, charge, NOW).unwrap();
    }
    let gone = cache.retain(|_, location| location.tenant != 1);
    cache.validate().unwrap();
    assert_eq!((gone, cache.tenant(1).records()), (2667, 0));
    assert_eq!(cache.statistics().usage.records(), 8000 - 2667);
}

#[test]
fn statistics_tell_what_happened() {
    let cache = four_shards(400);
    for number in 0..400 {
        cache.insert(key(number % 4, number), 0, demand(1), NOW).unwrap();
    }
    let later = NOW + Duration::from_secs(1);
    assert_eq!(cache.get(&key(1, 1), later), Some(0));
    assert_eq!(cache.get(&key(1, 2), later), None, "key 2 is in shard 2");
    for number in 400..500 {
        cache.insert(key(number % 4, number), 0, demand(1), later).unwrap();
    }
    assert!(cache.hit(&key(1, 1), later).is_some_and(|hit| hit.list.queue == Queue::Mfu));
    let statistics = cache.statistics();
    let (mru, mfu) = (List::new(Class::Data, Queue::Mru), List::new(Class::Data, Queue::Mfu));
    assert_eq!(statistics.usage.inserts, 500);
    assert_eq!(statistics.usage.evictions, 100);
    assert_eq!((statistics.usage.list(mru).hits, statistics.usage.list(mfu).hits), (1, 1));
    assert_eq!(statistics.usage.list(mfu).records, 1);
    assert_eq!((statistics.charged_bytes, statistics.capacity_bytes), (400, 400));
    assert_eq!(statistics.metadata_target, 0.25);
    assert_eq!(cache.by_heat()[0].0, key(1, 1));
    assert_eq!(cache.by_heat().len(), 400);
}

#[test]
fn shards_follow_the_capacity() {
    // A small cache is not cut into pieces that learn nothing: one shard, so one exact list.
    let cache: Cache<u64, u64> = Cache::new(&Options::new(8 << 20));
    for number in 0..10 {
        cache.insert(number, 0, demand(100), NOW).unwrap();
    }
    let order: Vec<u64> = cache.by_heat().into_iter().map(|(key, _)| key).collect();
    assert_eq!(order, (0..10).rev().collect::<Vec<u64>>());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_bound_and_the_books_hold(
        charge_overhead: bool,
        steps in prop::collection::vec((0..9u8, 0..4u64, 0..40u64, 0..2000u64), 1..300),
    ) {
        let options =
            Options { shards: Some(4), charge_overhead, ..Options::new(24_000) };
        let cache = Cache::<u64, u64, Plain>::with_hasher(&options, Plain(0));
        let mut now = NOW;
        for (version, (step, shard, number, bytes)) in (0u64..).zip(steps) {
            let key = key(shard, number);
            let class = if number % 3 == 0 { Class::Metadata } else { Class::Data };
            let charge = Charge { class, tenant: number as u32 % 4, ..demand(bytes) };
            now += Duration::from_millis(bytes % 50);
            match step {
                0..=3 => {
                    let done = cache.insert(key, version, charge, now);
                    prop_assert!(done.is_ok());
                    prop_assert_eq!(cache.peek(&key), Some(version));
                }
                4 | 5 => drop(cache.get(&key, now)),
                6 => {
                    let replaced = cache.replace(&key, version, bytes).unwrap();
                    prop_assert_eq!(cache.peek(&key), replaced.then_some(version));
                }
                7 => {
                    cache.demote(&key);
                    cache.remove(&(key ^ 1));
                }
                _ => drop(cache.set_capacity(24_000 + bytes)),
            }
            cache.validate().unwrap();
        }
    }
}

#[test]
fn many_threads_keep_the_bound_and_the_values() {
    const KEYS: u64 = 4000;
    let options = Options { shards: Some(8), ..Options::new(8 << 20) };
    let cache: Arc<Cache<u64, Arc<[u64; 2]>>> = Arc::new(Cache::new(&options));
    let stop = Arc::new(AtomicBool::new(false));
    let until = Instant::now() + Duration::from_secs(2);
    let workers: Vec<_> = (1..=4u64)
        .map(|worker| {
            let (cache, stop) = (Arc::clone(&cache), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut seed = worker;
                let mut steps = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    steps += 1;
                    let key = (seed >> 20) % KEYS * ((seed >> 50) % 2) + (seed >> 8) % 64;
                    let class = if key.is_multiple_of(3) { Class::Metadata } else { Class::Data };
                    let bytes = 100 + key % 40 * 500;
                    let charge =
                        Charge { bytes, class, kind: Kind::Demand, tenant: key as u32 % 7 };
                    let now = Duration::from_micros(steps * 10);
                    match seed % 100 {
                        0 => drop(cache.remove(&key)),
                        1 => drop(cache.demote(&key)),
                        2 => drop(cache.replace(&key, Arc::new([key, steps]), bytes)),
                        3 if worker == 1 && steps.is_multiple_of(50) => {
                            cache.retain(|_, location| location.tenant != 3);
                        }
                        _ => match cache.get(&key, now) {
                            Some(value) => assert_eq!(value[0], key),
                            None => {
                                let value = Arc::new([key, steps]);
                                cache.insert(key, value, charge, now).unwrap();
                            }
                        },
                    }
                    let charged = cache.charged_bytes();
                    assert!(charged <= 8 << 20, "{charged} bytes");
                }
                steps
            })
        })
        .collect();
    // A capacity that moves below the bound that the workers test.
    while Instant::now() < until {
        cache.set_capacity(4 << 20);
        std::thread::sleep(Duration::from_millis(20));
        cache.set_capacity(8 << 20);
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    let steps: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    cache.validate().unwrap();
    let statistics = cache.statistics();
    println!("{steps} steps, {} evictions", statistics.usage.evictions);
    assert!(statistics.usage.evictions > 1000);
    let sum: u64 = (0..7).map(|tenant| cache.tenant(tenant).bytes()).sum();
    assert_eq!(sum, statistics.usage.bytes());
}

#[test]
fn a_look_counts_as_a_use_and_lets_go_of_the_shard() {
    let cache = four_shards(400);
    cache.insert(key(1, 1), 7, demand(1), NOW).unwrap();
    let later = NOW + Duration::from_secs(1);
    assert_eq!(cache.read(&key(1, 1), later, |value| value + 1), Some(8));
    assert_eq!(cache.read(&key(1, 2), later, |value| value + 1), None);
    assert_eq!(cache.locate(&key(1, 1)).unwrap().turns, 1);
    assert_eq!(cache.statistics().usage.hits(), 1);
    // A look that panics leaves the shard free for changes.
    let look = || cache.read(&key(1, 1), later, |_| panic!("a look"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err());
    assert_eq!(cache.remove(&key(1, 1)), Some(7));
}
