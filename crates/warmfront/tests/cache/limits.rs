//! Bounds, resizing, refusals and counters.

use std::sync::Arc;
use std::time::Duration;

use storage::{Clock, Wait};
use warmfront::cache::{BuildError, Cache, PolicyKind, Refused};

use crate::weighed;

#[test]
fn a_cache_needs_a_bound_and_a_weigher() {
    let builder = Cache::<u64, u64>::builder;
    assert_eq!(builder().weigher(|_, _| 0).build().unwrap_err(), BuildError::NoCapacity);
    assert_eq!(builder().capacity_bytes(9).build().unwrap_err(), BuildError::NoWeigher);
    let zero = builder().capacity_bytes(0).weigher(|_, _| 0).build();
    assert_eq!(zero.unwrap_err(), BuildError::ZeroCapacity);
}

#[test]
fn absurd_capacities_work() {
    let huge = weighed(u64::MAX).build().unwrap();
    huge.insert(1, 1 << 40).unwrap();
    assert_eq!(huge.get(&1), Some(1 << 40));
    huge.validate().unwrap();
    let tiny = weighed(1).build().unwrap();
    tiny.insert(1, 0).unwrap_err();
    assert_eq!(tiny.get_or_fetch(&1, || Ok::<_, String>(5)).unwrap(), 5);
    assert_eq!(tiny.statistics().entries, 0);
}

#[test]
fn the_bound_holds_after_each_insertion() {
    let cache = weighed(1 << 20).build().unwrap();
    for key in 0..2000 {
        cache.insert(key, key * 7 % 30_000).unwrap();
        assert!(cache.statistics().charged_bytes <= 1 << 20);
    }
    let statistics = cache.statistics();
    assert!(statistics.bytes > 1 << 19, "it is used: {statistics:?}");
    assert_eq!(statistics.inserts, 2000);
    assert_eq!(statistics.evictions, 2000 - statistics.entries);
    cache.validate().unwrap();
}

#[test]
fn a_value_larger_than_its_share_is_given_back_and_counted() {
    let cache = weighed(1 << 20).build().unwrap();
    let largest = cache.entry_bytes_max();
    cache.insert(1, largest).unwrap();
    let not_kept = cache.insert(1, largest + 1).unwrap_err();
    assert_eq!(not_kept.value, largest + 1);
    assert!(matches!(not_kept.reason, Refused::TooLarge { bytes, limit_bytes }
        if bytes == limit_bytes + 1 && limit_bytes == 1 << 17));
    assert!(!cache.contains(&1), "the former value is out of date");
    assert_eq!(cache.get_or_fetch(&2, || Ok::<_, String>(1 << 20)).unwrap(), 1 << 20);
    let weight = u64::MAX;
    assert_eq!(cache.get_or_fetch(&2, || Ok::<_, String>(weight)).unwrap(), weight);
    assert!(!cache.contains(&2));
    let statistics = cache.statistics();
    assert_eq!((statistics.refused_too_large, statistics.entries), (3, 0));
    assert_eq!((statistics.fetches, statistics.fetches_failed), (2, 0));
}

#[test]
fn a_resize_is_done_when_it_returns() {
    let cache: Cache<u64, Arc<[u8]>> = Cache::builder()
        .capacity_bytes(8 << 20)
        .weigher(|_, bytes: &Arc<[u8]>| bytes.len() as u64)
        .build()
        .unwrap();
    let value: Arc<[u8]> = vec![7; 4096].into();
    (0..1500).for_each(|key| cache.insert(key, value.clone()).unwrap());
    assert_eq!(Arc::strong_count(&value), 1501);
    let evicted = cache.resize(2 << 20);
    let statistics = cache.statistics();
    assert!(statistics.charged_bytes <= 2 << 20 && statistics.entries > 400);
    assert_eq!(evicted, (1500 - statistics.entries) * 4096);
    assert_eq!(Arc::strong_count(&value) as u64, statistics.entries + 1, "really dropped");
    assert_eq!(cache.resize(0), statistics.bytes);
    assert_eq!(Arc::strong_count(&value), 1);
    cache.insert(1, value.clone()).unwrap_err();
    assert_eq!(cache.resize(8 << 20), 0);
    cache.insert(1, value).unwrap();
    cache.validate().unwrap();
}

#[test]
fn each_counter_moves_when_it_should_and_only_then() {
    let cache = weighed(1 << 20).build().unwrap();
    let mut expected = cache.statistics();
    let mut check = |what: &str, change: &dyn Fn(&mut warmfront::cache::Statistics)| {
        change(&mut expected);
        let now = cache.statistics();
        expected.charged_bytes = now.charged_bytes;
        assert_eq!(now, expected, "{what}");
    };
    check("nothing happened", &|_| {});
    assert_eq!(cache.get(&1), None);
    check("a miss", &|s| s.misses += 1);
    cache.insert(1, 100).unwrap();
    check("an insertion", &|s| {
        (s.inserts, s.entries, s.bytes) = (1, 1, 100);
    });
    cache.get(&1);
    check("a hit", &|s| s.hits += 1);
    cache.peek(&1);
    cache.contains(&1);
    cache.by_heat().for_each(drop);
    check("looking on", &|_| {});
    cache.insert(1, 50).unwrap();
    check("a replacement", &|s| s.bytes = 50);
    cache.get_or_fetch(&2, || Ok::<_, String>(10)).unwrap();
    check("a fetch", &|s| {
        (s.misses, s.fetches, s.inserts) = (s.misses + 1, 1, 2);
        (s.entries, s.bytes) = (2, 60);
    });
    cache.get_or_fetch(&3, || Err("no")).unwrap_err();
    check("a failed fetch", &|s| {
        (s.misses, s.fetches, s.fetches_failed) = (s.misses + 1, 2, 1);
    });
    cache.remove(&1);
    cache.remove(&1);
    check("a removal", &|s| (s.removals, s.entries, s.bytes) = (1, 1, 10));
    cache.clear();
    check("clearing", &|s| (s.removals, s.entries, s.bytes) = (2, 0, 0));
}

#[test]
fn ghosts_are_hit() {
    let cache = weighed(1 << 20).shards(1).build().unwrap();
    // Ghosts of entries used once are remembered as far as the frequent ones leave room.
    (0..8).for_each(|key| cache.insert(key, 100_000).unwrap());
    (0..8).for_each(|key| assert!(cache.get(&key).is_some()));
    (8..20).for_each(|key| cache.insert(key, 100_000).unwrap());
    let statistics = cache.statistics();
    assert!(statistics.ghosts > 0 && statistics.ghost_hits == 0);
    let evicted = (0..20).rev().find(|key| !cache.contains(key)).unwrap();
    cache.insert(evicted, 100_000).unwrap();
    assert_eq!(cache.statistics().ghost_hits, 1);
}

#[test]
fn heat_orders_the_entries() {
    let cache = weighed(1 << 20).shards(1).policy(PolicyKind::Arc).build().unwrap();
    (0..9).for_each(|key| cache.insert(key, 100_000).unwrap());
    (0..4).for_each(|key| assert!(cache.get(&key).is_some()));
    (9..13).for_each(|key| cache.insert(key, 100_000).unwrap());
    let entries: Vec<_> = cache.by_heat().collect();
    let first_rare = entries.iter().position(|entry| !entry.frequent).unwrap();
    assert!(first_rare > 0, "the hand has moved used entries to the frequent ones");
    assert!(entries[..first_rare].iter().all(|entry| entry.key < 4 && entry.hits == 1));
    assert!(entries[first_rare..].iter().all(|entry| !entry.frequent));
    assert_eq!(entries.len() as u64, cache.statistics().entries);
    assert_eq!(entries.last().map(|entry| entry.bytes), Some(100_000));
}

/// Stands still.
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Duration {
        Duration::from_secs(12 * 3600)
    }

    fn sleep(&self, _: Duration) -> Wait<'_> {
        Box::pin(async {})
    }
}

#[test]
fn time_comes_from_the_clock() {
    let counted = |window| {
        let builder = weighed(1 << 20).clock(Arc::new(Noon)).correlated_window(window);
        let cache = builder.build().unwrap();
        cache.insert(1, 1).unwrap();
        cache.get(&1);
        cache.get(&1);
        let entry = cache.by_heat().next().unwrap();
        assert_eq!(entry.inserted_at, Noon.now());
        entry.hits
    };
    assert_eq!(counted(Duration::ZERO), 2);
    assert_eq!(counted(Duration::from_millis(60)), 0, "a burst belongs to the first touch");
}
