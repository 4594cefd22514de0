//! What the listener is told.

use std::sync::{Arc, Mutex, OnceLock};

use warmfront::cache::{Cache, Departure, Reason, Refused};

use crate::weighed;

type Log = Arc<Mutex<Vec<Departure<u64, u64>>>>;

fn observed(capacity_bytes: u64) -> (Cache<u64, u64>, Log) {
    let log = Log::default();
    let told = log.clone();
    let listener = move |departure| told.lock().unwrap().push(departure);
    (weighed(capacity_bytes).on_departure(listener).build().unwrap(), log)
}

fn take(log: &Log) -> Vec<(u64, u64, Reason)> {
    let departures = std::mem::take(&mut *log.lock().unwrap());
    departures.into_iter().map(|gone| (gone.key, gone.value, gone.reason)).collect()
}

#[test]
fn each_way_out_has_its_reason() {
    let (cache, log) = observed(1 << 20);
    cache.insert(1, 10).unwrap();
    assert_eq!(take(&log), []);
    cache.insert(1, 11).unwrap();
    assert_eq!(take(&log), [(1, 10, Reason::Replaced)]);
    cache.remove(&1);
    assert_eq!(take(&log), [(1, 11, Reason::Removed)]);
    cache.remove(&1);
    assert_eq!(take(&log), []);
    cache.insert(2, 20).unwrap();
    cache.clear();
    assert_eq!(take(&log), [(2, 20, Reason::Removed)]);
    cache.get_or_fetch(&3, || Ok::<_, String>(30)).unwrap();
    cache.resize(0);
    assert_eq!(take(&log), [(3, 30, Reason::Evicted)]);
}

#[test]
fn refused_values_are_told_from_insertions_and_fetches() {
    let (cache, log) = observed(1 << 20);
    let too_large =
        |entry: &(u64, u64, Reason)| matches!(entry.2, Reason::Refused(Refused::TooLarge { .. }));
    cache.insert(1, 10).unwrap();
    cache.insert(1, 1 << 20).unwrap_err();
    let told = take(&log);
    assert_eq!(told[0], (1, 10, Reason::Replaced));
    assert!(told[1].0 == 1 && told[1].1 == 1 << 20 && too_large(&told[1]));
    cache.get_or_fetch(&2, || Ok::<_, String>(1 << 20)).unwrap();
    let told = take(&log);
    assert!(told.len() == 1 && told[0].0 == 2 && too_large(&told[0]));
}

#[test]
fn what_came_in_is_inside_or_was_told() {
    let (cache, log) = observed(1 << 20);
    for key in 0..5000_u64 {
        cache.insert(key % 700, 1000 + key).unwrap();
    }
    let told = take(&log);
    let evicted = told.iter().filter(|gone| gone.2 == Reason::Evicted).count() as u64;
    let statistics = cache.statistics();
    assert_eq!(evicted, statistics.evictions);
    assert!(evicted > 0);
    assert_eq!(told.len() as u64 + statistics.entries, 5000);
}

#[test]
fn a_listener_may_use_the_cache() {
    let whole: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
    let inner = whole.clone();
    let cache = weighed(1 << 20)
        .on_departure(move |gone| {
            let Some(cache) = inner.get() else { return };
            if gone.reason == Reason::Removed {
                assert!(!cache.contains(&gone.key));
                cache.insert(gone.key + 1000, gone.value).unwrap();
                cache.get_or_fetch(&gone.key, || Ok::<_, String>(gone.value)).unwrap();
            }
        })
        .build()
        .unwrap();
    let cache = whole.get_or_init(|| cache);
    cache.insert(1, 1).unwrap();
    cache.insert(1, 2).unwrap();
    cache.remove(&1);
    assert!(cache.contains(&1) && cache.contains(&1001));
    cache.resize(0);
}
