//! Single flight under schedules that a test runtime chooses:
//! `cargo test --release -p warmfront --features shuttle --test schedules`.
#![cfg(feature = "shuttle")]

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{check_pct, check_random, future, thread};
use warmfront::cache::{Cache, FetchError};

/// Schedules of each test, half of them with few preemptions at hard places.
const SCHEDULES: usize = 5000;
/// Preemptions in those.
const DEPTH: usize = 4;

fn explore(test: fn()) {
    check_random(test, SCHEDULES);
    check_pct(test, SCHEDULES, DEPTH);
}

fn cache() -> Arc<Cache<u64, u64>> {
    let builder = Cache::builder().capacity_bytes(1 << 20).shards(1).weigher(|_, _| 0);
    Arc::new(builder.build().expect("a good description"))
}

/// A fetch that other threads can come in between.
fn fetch(fetches: &AtomicU64, value: u64) -> Result<u64, String> {
    fetches.fetch_add(1, Ordering::SeqCst);
    thread::yield_now();
    Ok(value)
}

#[test]
fn threads_and_tasks_run_one_fetch() {
    explore(|| {
        let (cache, fetches) = (cache(), Arc::new(AtomicU64::new(0)));
        let callers: Vec<_> = (0..3)
            .map(|number| {
                let (cache, fetches) = (cache.clone(), fetches.clone());
                thread::spawn(move || match number {
                    0 => {
                        future::block_on(cache.get_or_fetch_async(&1, async { fetch(&fetches, 7) }))
                    }
                    _ => cache.get_or_fetch(&1, || fetch(&fetches, 7)),
                })
            })
            .collect();
        for caller in callers {
            assert_eq!(caller.join().unwrap().unwrap(), 7);
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
        cache.validate().unwrap();
    });
}

#[test]
fn a_removal_outlives_the_fetch_before_it() {
    explore(|| {
        let (cache, backend) = (cache(), Arc::new(AtomicU64::new(1)));
        let reader = {
            let (cache, backend) = (cache.clone(), backend.clone());
            thread::spawn(move || {
                let fetch = || Ok::<_, String>(backend.load(Ordering::SeqCst));
                cache.get_or_fetch(&1, fetch).unwrap()
            })
        };
        backend.store(2, Ordering::SeqCst);
        cache.remove(&1);
        // From here on nobody may see what was there before.
        let fetch = || Ok::<_, String>(backend.load(Ordering::SeqCst));
        assert_eq!(cache.get_or_fetch(&1, fetch).unwrap(), 2);
        reader.join().unwrap();
        assert_eq!(cache.get(&1), Some(2));
        cache.validate().unwrap();
    });
}

#[test]
fn an_insertion_outlives_fetches_beside_it() {
    explore(|| {
        let cache = cache();
        let reader = {
            let cache = cache.clone();
            thread::spawn(move || {
                let old = || {
                    thread::yield_now();
                    Ok::<_, String>(1)
                };
                cache.get_or_fetch(&1, old).unwrap()
            })
        };
        cache.insert(1, 2).unwrap();
        assert_eq!(cache.get(&1), Some(2));
        reader.join().unwrap();
        assert_eq!(cache.get(&1), Some(2));
        cache.validate().unwrap();
    });
}

#[test]
fn a_dropped_future_hands_over() {
    explore(|| {
        let (cache, fetches) = (cache(), Arc::new(AtomicU64::new(0)));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (cache, fetches) = (cache.clone(), fetches.clone());
                thread::spawn(move || cache.get_or_fetch(&1, || fetch(&fetches, 4)).unwrap())
            })
            .collect();
        {
            let never = std::future::pending::<Result<u64, String>>();
            let mut given_up = Box::pin(cache.get_or_fetch_async(&1, never));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled = std::future::Future::poll(given_up.as_mut(), &mut context);
            assert!(!matches!(polled, std::task::Poll::Ready(Err(_))));
            thread::yield_now();
        }
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), 4);
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
        cache.validate().unwrap();
    });
}

#[test]
fn a_failure_poisons_nothing() {
    explore(|| {
        let cache = cache();
        let failing = {
            let cache = cache.clone();
            thread::spawn(move || cache.get_or_fetch(&1, || Err("no")))
        };
        match cache.get_or_fetch(&1, || Ok::<_, String>(5)) {
            Ok(value) => assert_eq!(value, 5),
            Err(FetchError::Failed(error)) => assert_eq!(error.to_string(), "no"),
            Err(other) => panic!("{other}"),
        }
        failing.join().unwrap().ok();
        assert_eq!(cache.get_or_fetch(&1, || Ok::<_, String>(5)).unwrap(), 5);
        cache.validate().unwrap();
    });
}

#[test]
fn hits_evictions_and_resizes_interleave() {
    explore(|| {
        let builder = Cache::builder().capacity_bytes(8192).shards(2);
        let cache: Arc<Cache<u64, u64>> =
            Arc::new(builder.weigher(|_, value| *value).build().unwrap());
        let workers: Vec<_> = (0..2_u64)
            .map(|number| {
                let cache = cache.clone();
                thread::spawn(move || {
                    for key in 0..6 {
                        let key = (key * (number + 1)) % 5;
                        let got = cache.get_or_fetch(&key, || Ok::<_, String>(700 + key));
                        assert_eq!(got.unwrap(), 700 + key);
                    }
                })
            })
            .collect();
        cache.resize(4096);
        cache.remove(&2);
        cache.resize(8192);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        cache.validate().unwrap();
        assert!(cache.statistics().charged_bytes <= 8192);
    });
}
