//! Many threads and tasks that do everything at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

use futures::executor::block_on;
use warmfront::cache::{Cache, FetchError, Reason};

/// A value that knows its key, counts how many of its kind live, and is never freed twice.
#[derive(Debug)]
struct Value {
    key: u64,
    live: Arc<AtomicI64>,
}

impl Drop for Value {
    fn drop(&mut self) {
        assert!(self.live.fetch_sub(1, Ordering::SeqCst) > 0);
    }
}

/// Either the value, or the error of a fetch that failed and that this call may have joined.
fn agree(got: Result<Arc<Value>, FetchError>, key: u64) {
    match got {
        Ok(value) => assert_eq!(value.key, key),
        Err(error) => assert!(matches!(error, FetchError::Failed(_)), "{error}"),
    }
}

#[test]
fn threads_tasks_resizes_and_removals_at_once() {
    const THREADS: u64 = 8;
    const CALLS: u64 = 20_000;
    const KEYS: u64 = 3000;
    let live = Arc::new(AtomicI64::new(0));
    let left = Arc::new(AtomicU64::new(0));
    let replaced = Arc::new(AtomicU64::new(0));
    let (counted, counted_replaced) = (left.clone(), replaced.clone());
    let cache = Cache::<u64, Arc<Value>>::builder()
        .capacity_bytes(4 << 20)
        .shards(4)
        .weigher(|key, _| 1000 + key % 5000)
        .on_departure(move |gone| {
            assert_eq!(gone.key, gone.value.key);
            match gone.reason {
                Reason::Evicted => counted.fetch_add(1, Ordering::SeqCst),
                Reason::Replaced => counted_replaced.fetch_add(1, Ordering::SeqCst),
                _ => 0,
            };
        })
        .build()
        .unwrap();
    let make = |key| {
        live.fetch_add(1, Ordering::SeqCst);
        Arc::new(Value { key, live: live.clone() })
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (cache, make) = (&cache, &make);
            scope.spawn(move || {
                let mut seed = 0x9E37_79B9_7F4A_7C15 ^ (number + 1);
                for call in 0..CALLS {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    // Squared, so that some keys are hot.
                    let key = (seed >> 33) % KEYS * ((seed >> 20) % KEYS) / KEYS;
                    match seed % 64 {
                        0..30 => {
                            let fetch = || Ok::<_, String>(make(key));
                            agree(cache.get_or_fetch(&key, fetch), key);
                        }
                        30..50 => {
                            let fetch = async { Ok::<_, String>(make(key)) };
                            agree(block_on(cache.get_or_fetch_async(&key, fetch)), key);
                        }
                        50..54 => {
                            agree(cache.get_or_fetch(&key, || Err("no")), key);
                        }
                        54..58 => drop(cache.insert(key, make(key))),
                        58..62 => {
                            assert!(cache.remove(&key).is_none_or(|value| value.key == key));
                        }
                        62 if call % 16 == 0 => {
                            cache.retain(|other| other % 7 != key % 7);
                        }
                        62 => assert!(cache.by_heat().take(3).all(|e| e.key == e.value.key)),
                        _ => drop(cache.resize((1 << 20) + key * 1000)),
                    }
                }
            });
        }
    });
    cache.validate().unwrap();
    let statistics = cache.statistics();
    // A value that was evicted to make room for its own successor is told as replaced.
    let (left, replaced) = (left.load(Ordering::SeqCst), replaced.load(Ordering::SeqCst));
    assert!((left..=left + replaced).contains(&statistics.evictions), "{left} {statistics:?}");
    assert!(statistics.evictions > 0 && statistics.fetches > 0);
    assert_eq!(live.load(Ordering::SeqCst) as u64, statistics.entries, "no value leaks");
    drop(cache);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}
