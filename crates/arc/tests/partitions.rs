//! Fair shares: what a partition has reserved stays its own, what it may not exceed it does not.

use std::ops::Range;
use std::time::Duration;

use arc::{Cache, Charge, Class, Kind, Options, PARTITIONS_MAX, Share, ShareRefused};
use proptest::prelude::*;

const NOW: Duration = Duration::ZERO;
const RECORD: u64 = 4096;

fn demand(bytes: u64, tenant: u32) -> Charge {
    Charge { bytes, class: Class::Data, kind: Kind::Demand, tenant }
}

fn cache(capacity_bytes: u64, shards: usize) -> Cache<u64, ()> {
    let options = Options {
        shards: Some(shards),
        correlated_window: Duration::ZERO,
        ..Options::new(capacity_bytes)
    };
    Cache::new(&options)
}

/// Reads a record; tells whether it was a hit.
fn read(cache: &Cache<u64, ()>, key: u64, tenant: u32) -> bool {
    let hit = cache.get(&key, NOW).is_some();
    if !hit {
        cache.insert(key, (), demand(RECORD, tenant), NOW).unwrap();
    }
    hit
}

/// Reads records one after the other; `tenant` tells whose each is.
fn read_all(cache: &Cache<u64, ()>, keys: Range<u64>, tenant: impl Fn(u64) -> u32) {
    for key in keys {
        read(cache, key, tenant(key));
    }
}

/// Repeatable numbers, small ones more often: the square of an even distribution.
struct Skewed(u64);

impl Skewed {
    fn next(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let unit = (self.0 >> 11) as f64 / (1u64 << 53) as f64;
        (unit * unit * range as f64) as u64
    }
}

/// Hit rate of a tenant whose working set is twice its reserve, after it is warm, with a stream
/// of `streamed` records for each of its reads.
fn hit_rate(cache: &Cache<u64, ()>, tenant: u32, streamed: u64) -> f64 {
    let (mut numbers, mut scan) = (Skewed(7), 1 << 40);
    let (mut hits, rounds) = (0, 200_000);
    for round in 0..2 * rounds {
        for _ in 0..streamed {
            scan += 1;
            read(cache, scan, 9);
        }
        let hit = read(cache, numbers.next(8192), tenant);
        hits += u32::from(hit && round >= rounds);
    }
    100.0 * f64::from(hits) / f64::from(rounds)
}

#[test]
fn a_stream_does_not_move_the_hit_rate_of_who_has_a_reserve() {
    let reserve = 4096 * (RECORD + 100);
    let alone = hit_rate(&cache(reserve, 4), 1, 0);
    // The stream has a ninth of the cache.
    let shared = cache(reserve / 8 * 9, 4);
    shared.set_share(1, Share { reserve_bytes: reserve, ..Share::FREE }).unwrap();
    shared.assign(1, 1).unwrap();
    let beside = hit_rate(&shared, 1, 5);
    shared.validate().unwrap();
    println!("hit rate alone {alone:.2} %, beside a stream {beside:.2} %");
    assert!(beside >= alone - 1.0, "alone {alone:.2} %, beside a stream {beside:.2} %");
}

#[test]
fn what_is_reserved_and_not_used_serves_others() {
    let shared = cache(64 << 20, 4);
    shared.set_share(1, Share { reserve_bytes: 48 << 20, ..Share::FREE }).unwrap();
    shared.assign(1, 1).unwrap();
    read_all(&shared, 0..40_000, |_| 2);
    assert!(shared.tenant(2).bytes() > 56 << 20, "all but headers and ghosts");
    // It gives when the owner comes, and not below the reserve after that.
    read_all(&shared, 1 << 32..(1 << 32) + 40_000, |_| 1);
    read_all(&shared, 100_000..200_000, |_| 2);
    let kept = shared.charged_to(1);
    assert!(kept >= (48 << 20) / 100 * 97, "{kept} bytes left of a reserve of {}", 48 << 20);
    shared.validate().unwrap();
}

/// Large records lie unevenly on the shards, some of which hold more than an even part of the
/// reserve.
#[test]
fn not_a_record_of_what_was_reserved_is_taken() {
    const LARGE: u64 = 128 << 10;
    let shared = cache(256 << 20, 16);
    shared.set_share(1, Share { reserve_bytes: 100 << 20, ..Share::FREE }).unwrap();
    shared.assign(1, 1).unwrap();
    let bring = |key, tenant| shared.insert(key, (), demand(LARGE, tenant), NOW);
    (0..780).for_each(|key| assert!(bring(key, 1).is_ok()));
    assert!(shared.charged_to(1) > 97 << 20 && shared.charged_to(1) <= 100 << 20);
    // What comes back again and again claims what nobody has reserved.
    for key in (0..20).flat_map(|_| 1 << 32..(1 << 32) + 1500) {
        if shared.get(&key, NOW).is_none() {
            bring(key, 2).unwrap();
        }
    }
    assert!((0..780).all(|key| shared.contains(&key)), "others have taken some");
    assert!(shared.charged_to(0) > 150 << 20, "what is left is used");
    shared.validate().unwrap();
    // Who outgrows its reserve gives like everybody else.
    (1000..3000).for_each(|key| assert!(bring(key, 1).is_ok()));
    (2 << 32..(2 << 32) + 10_000).for_each(|key| assert!(bring(key, 2).is_ok()));
    assert!(shared.charged_to(1) > 99 << 20);
    shared.validate().unwrap();
}

/// Where everything was reserved and is used, others pass by, and a smaller cache takes of each.
#[test]
fn when_all_is_reserved_nothing_else_comes_in() {
    let shared = cache(64 << 20, 16);
    for partition in [1, 2] {
        shared.set_share(partition, Share { reserve_bytes: 32 << 20, ..Share::FREE }).unwrap();
        shared.assign(partition as u32, partition).unwrap();
    }
    let capacity = shared.capacity_bytes();
    for key in 0..40_000 {
        read(&shared, key, 1 + (key % 2) as u32);
    }
    shared.validate().unwrap();
    let held = [1, 2].map(|partition| shared.charged_to(partition));
    assert!(held.iter().all(|held| *held > 31 << 20), "{held:?} of {capacity}");
    for key in 100_000..100_200 {
        let _ = shared.insert(key, (), demand(RECORD, 3), NOW);
    }
    let after = [1, 2].map(|partition| shared.charged_to(partition));
    assert!((0..2).all(|at| after[at] + (64 << 10) >= held[at].min(32 << 20)), "{after:?}");
    shared.set_capacity(32 << 20);
    assert!(shared.charged_bytes() <= 32 << 20);
    assert!([1, 2].iter().all(|partition| shared.charged_to(*partition) > 14 << 20));
    shared.validate().unwrap();
}

#[test]
fn a_limit_holds_over_all_shards_and_is_carried_out_at_once() {
    let shared = cache(64 << 20, 8);
    read_all(&shared, 0..8192, |_| 3);
    shared.set_share(5, Share { limit_bytes: 8 << 20, ..Share::FREE }).unwrap();
    let evicted = shared.assign(3, 5).unwrap();
    assert!(evicted.bytes > 22 << 20, "{evicted:?}");
    assert!(shared.charged_to(5) <= 8 << 20);
    for key in 0..20_000 {
        read(&shared, key, 3);
        assert!(shared.charged_to(5) <= 8 << 20, "record {key}");
    }
    assert!(shared.charged_to(5) > 7 << 20);
    shared.set_share(5, Share { limit_bytes: 2 << 20, ..Share::FREE }).unwrap();
    assert!(shared.charged_to(5) <= 2 << 20);
    shared.validate().unwrap();
}

#[test]
fn a_tenant_moves_with_all_that_it_has() {
    let shared = cache(64 << 20, 4);
    read_all(&shared, 0..4000, |key| (key % 2) as u32);
    let before = shared.charged_to(0);
    shared.set_share(1, Share { reserve_bytes: 1 << 20, ..Share::FREE }).unwrap();
    shared.assign(1, 1).unwrap();
    shared.validate().unwrap();
    assert_eq!(shared.charged_to(0) + shared.charged_to(1), before);
    assert_eq!(shared.charged_to(0), shared.charged_to(1));
    assert!((0..4000).all(|key| read(&shared, key, (key % 2) as u32)), "nothing was lost");
    shared.assign(1, 0).unwrap();
    assert_eq!((shared.charged_to(0), shared.charged_to(1)), (before, 0));
    shared.validate().unwrap();
}

#[test]
fn shares_that_cannot_be_kept_are_refused_with_the_arithmetic() {
    let shared = cache(1000 << 10, 2);
    let reserve = |bytes| Share { reserve_bytes: bytes, ..Share::FREE };
    shared.set_share(1, reserve(600 << 10)).unwrap();
    let refused = shared.set_share(2, reserve(401 << 10)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot reserve 410624 bytes: with 614400 bytes reserved by others that is 1025024, and \
         the cache has 1024000; reserve less or raise the cache's size"
    );
    shared.set_share(1, reserve(500 << 10)).unwrap();
    shared.set_share(2, reserve(401 << 10)).unwrap();
    let above = shared.set_share(3, Share { reserve_bytes: 2, limit_bytes: 1 }).unwrap_err();
    assert_eq!(above, ShareRefused::AboveLimit { reserve: 2, limit: 1 });
    for partition in [0, PARTITIONS_MAX] {
        let unknown = shared.set_share(partition, Share::FREE).unwrap_err();
        assert!(matches!(unknown, ShareRefused::UnknownPartition { .. }));
    }
    assert!(shared.assign(1, 7).is_err(), "it was never given a share");
    assert_eq!(shared.shares().len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn sums_and_bounds_hold_whatever_happens(
        steps in prop::collection::vec((0..12u8, 0..200u64, 0..5u32, 0..3000u64), 1..400),
    ) {
        let shared = cache(100_000, 2);
        for (what, key, tenant, bytes) in steps {
            match what {
                0 => {
                    let partition = 1 + tenant as usize;
                    let share = Share { reserve_bytes: bytes, limit_bytes: 20 * bytes + 5000 };
                    let _ = shared.set_share(partition, share);
                }
                1 => drop(shared.assign(tenant, (bytes % 6) as usize)),
                2 => drop(shared.remove(&key)),
                3 => drop(shared.replace(&key, (), bytes)),
                4 if key < 5 => drop(shared.set_capacity(60_000 + 20 * bytes)),
                _ => if shared.get(&key, NOW).is_none() {
                    let _ = shared.insert(key, (), demand(bytes, tenant), NOW);
                },
            }
            shared.validate().unwrap();
            for (partition, share) in shared.shares().into_iter().enumerate() {
                assert!(shared.charged_to(partition) <= share.limit_bytes, "{partition}");
            }
        }
    }
}
