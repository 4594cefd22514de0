//! The cache under schedules that a test runtime chooses:
//! `cargo test --release -p warmfront-arc --features shuttle --test schedules`.
#![cfg(feature = "shuttle")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use arc::{Arena, Cache, Charge, Class, Kind, Options, PAGE_BYTES, Refused, Share};
use common::Plain;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};

/// Schedules of each test, and as many again with few preemptions at hard places.
const SCHEDULES: usize = 3000;
/// Preemptions in those.
const DEPTH: usize = 4;

/// A page of a slab stands on the stack before it goes to the heap; the runtime's own stacks of
/// 32 KiB are smaller than a thread's ever are.
const STACK_BYTES: usize = 256 << 10;

/// Bytes of the caches here, payload only: at most an eighth of it a record.
const CAPACITY: u64 = 64;
const SHARDS: u64 = 2;
/// Later than the window of correlated touches.
const LATER: Duration = Duration::from_secs(1);

fn explore(test: fn()) {
    explore_by(RandomScheduler::new(SCHEDULES), test);
    explore_by(PctScheduler::new(DEPTH, SCHEDULES), test);
}

fn explore_by(scheduler: impl Scheduler + 'static, test: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(scheduler, config).run(test);
}

/// A value that knows its key and who holds it.
type Value = Arc<u64>;
type Shared = Arc<Cache<u64, Value, Plain>>;

fn cache() -> Shared {
    let shards = Some(SHARDS as usize);
    let options = Options { shards, charge_overhead: false, ..Options::new(CAPACITY) };
    Arc::new(Cache::with_hasher(&options, Plain(0)))
}

/// A key of a shard: bits 40 and up choose it.
const fn key(shard: u64, number: u64) -> u64 {
    number << 57 | shard << 40 | number
}

fn insert(cache: &Shared, key: u64, bytes: u64, now: Duration) -> Result<(), Refused> {
    let class = if key.is_multiple_of(3) { Class::Metadata } else { Class::Data };
    let charge = Charge { bytes, class, kind: Kind::Demand, tenant: key as u32 % 2 };
    let inserted = cache.insert(key, Arc::new(key), charge, now).map(|_| ());
    assert!(cache.charged_bytes() <= CAPACITY, "room is reserved before it is used");
    inserted
}

/// Everything that can be said of a cache that nobody changes any more.
fn settled(cache: &Shared) {
    cache.validate().unwrap();
    let statistics = cache.statistics();
    assert!(statistics.charged_bytes <= statistics.capacity_bytes);
    assert_eq!(statistics.usage.records(), cache.by_heat().len() as u64);
    let tenants = cache.tenant(0).bytes() + cache.tenant(1).bytes();
    assert_eq!(tenants, statistics.usage.bytes());
    for (key, _) in cache.by_heat() {
        let value = cache.peek(&key).unwrap();
        assert_eq!(Arc::strong_count(&value), 2, "only the cache and this test hold it");
    }
}

fn run(cache: &Shared, work: impl FnOnce(Shared) + Send + 'static) -> JoinHandle<()> {
    let cache = cache.clone();
    thread::spawn(move || work(cache))
}

fn join(workers: impl IntoIterator<Item = JoinHandle<()>>) {
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

#[test]
fn hits_see_whole_values_while_others_fill_and_evict() {
    explore(|| {
        let cache = cache();
        insert(&cache, key(0, 1), 8, Duration::ZERO).unwrap();
        let filler = run(&cache, |cache| {
            for number in 2..10 {
                insert(&cache, key(number % SHARDS, number), 8, LATER).unwrap();
            }
        });
        let reader = run(&cache, |cache| {
            for number in [1, 2, 3, 1, 4] {
                let key = key(number % SHARDS, number);
                if let Some(value) = cache.get(&key, LATER) {
                    assert_eq!(*value, key);
                }
            }
        });
        for number in [1, 1] {
            if let Some(hit) = cache.hit(&key(0, number), LATER) {
                assert_eq!(*hit.value, key(0, number));
            }
        }
        join([filler, reader]);
        settled(&cache);
    });
}

/// As many touches as threads, and one of them finds the reference bit unset: it is never lost.
#[test]
fn touches_of_one_record_are_not_lost() {
    explore(|| {
        let cache = cache();
        insert(&cache, key(0, 1), 8, Duration::ZERO).unwrap();
        let touch = |cache: Shared| assert!(cache.get(&key(0, 1), LATER).is_some());
        join([run(&cache, touch), run(&cache, touch)]);
        let location = cache.locate(&key(0, 1)).unwrap();
        assert!(location.turns > 0 && (1..=2).contains(&location.hits));
        assert_eq!(cache.statistics().usage.hits(), 2);
        settled(&cache);
    });
}

#[test]
fn the_first_read_of_a_prefetched_record_is_told_to_somebody() {
    explore(|| {
        let cache = cache();
        let (class, kind) = (Class::Data, Kind::Prefetch);
        let charge = Charge { bytes: 8, class, kind, tenant: 0 };
        cache.insert(key(0, 1), Arc::new(1), charge, Duration::ZERO).unwrap();
        let told = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let told = told.clone();
                run(&cache, move |cache| {
                    if cache.hit(&key(0, 1), LATER).unwrap().first_after_prefetch {
                        told.store(true, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        join(readers);
        assert!(told.load(Ordering::SeqCst));
        assert!(!cache.locate(&key(0, 1)).unwrap().prefetched);
        settled(&cache);
    });
}

#[test]
fn fills_of_full_shards_keep_the_bound() {
    explore(|| {
        let cache = cache();
        let fill = |shard: u64, bytes: u64| {
            move |cache: Shared| {
                for number in 1..8 {
                    // Another thread may take the room again and again, but not for ever.
                    insert(&cache, key(shard, number), bytes, LATER).unwrap();
                }
            }
        };
        join([run(&cache, fill(0, 8)), run(&cache, fill(1, 5)), run(&cache, fill(1, 3))]);
        settled(&cache);
    });
}

#[test]
fn one_key_filled_by_several_is_there_once() {
    explore(|| {
        let cache = cache();
        let fill =
            |bytes: u64| move |cache: Shared| insert(&cache, key(0, 1), bytes, LATER).unwrap();
        join([run(&cache, fill(8)), run(&cache, fill(3)), run(&cache, fill(5))]);
        assert_eq!(cache.by_heat().len(), 1);
        assert!([8, 3, 5].contains(&cache.charged_bytes()));
        settled(&cache);
    });
}

#[test]
fn a_shrink_returns_with_the_room_given_back() {
    explore(|| {
        let cache = cache();
        for number in 1..=8 {
            insert(&cache, key(number % SHARDS, number), 8, Duration::ZERO).unwrap();
        }
        let filler = run(&cache, |cache| {
            for number in 9..14 {
                // While it shrinks, a record may find no room, or be larger than an eighth.
                let _ = insert(&cache, key(number % SHARDS, number), 4, LATER);
            }
        });
        let reader = run(&cache, |cache| {
            for number in 1..4 {
                cache.get(&key(number % SHARDS, number), LATER);
            }
        });
        let evicted = cache.set_capacity(CAPACITY / 2);
        assert!(cache.charged_bytes() <= CAPACITY / 2, "{evicted:?}");
        join([filler, reader]);
        assert!(cache.charged_bytes() <= CAPACITY / 2);
        settled(&cache);
    });
}

#[test]
fn resizes_beside_each_other_end_at_one_of_them() {
    explore(|| {
        let cache = cache();
        for number in 1..=8 {
            insert(&cache, key(number % SHARDS, number), 8, Duration::ZERO).unwrap();
        }
        let resize = |bytes: u64| {
            move |cache: Shared| {
                cache.set_capacity(bytes);
            }
        };
        let workers = [run(&cache, resize(16)), run(&cache, resize(40))];
        insert(&cache, key(0, 9), 2, LATER).unwrap();
        join(workers);
        assert!([16, 40].contains(&cache.capacity_bytes()));
        settled(&cache);
    });
}

#[test]
fn a_removed_record_is_gone_although_others_read_and_replace_it() {
    explore(|| {
        let cache = cache();
        insert(&cache, key(0, 1), 8, Duration::ZERO).unwrap();
        let reader = run(&cache, |cache| {
            if let Some(value) = cache.get(&key(0, 1), LATER) {
                assert_eq!(*value, key(0, 1));
            }
        });
        let writer = run(&cache, |cache| {
            cache.replace(&key(0, 1), Arc::new(key(0, 1)), 5).unwrap();
            cache.update(&key(0, 1), |value| assert_eq!(**value, key(0, 1)));
            cache.demote(&key(0, 1));
        });
        // Replacing never brings back what was removed.
        cache.remove(&key(0, 1));
        assert!(!cache.contains(&key(0, 1)));
        join([reader, writer]);
        assert!(!cache.contains(&key(0, 1)) && cache.charged_bytes() == 0);
        settled(&cache);
    });
}

/// A tenant gets a partition, and that a limit, while it fills the cache.
#[test]
fn a_limit_holds_once_it_is_given() {
    const LIMIT: u64 = 24;
    explore(|| {
        let cache = cache();
        for number in 1..=6 {
            insert(&cache, key(number % SHARDS, 2 * number), 8, Duration::ZERO).unwrap();
        }
        let fill = |first: u64| {
            move |cache: Shared| {
                for number in first..first + 3 {
                    insert(&cache, key(number % SHARDS, 2 * number), 3, LATER).unwrap();
                }
            }
        };
        let workers = [run(&cache, fill(10)), run(&cache, fill(20))];
        cache.set_share(1, Share { limit_bytes: LIMIT, ..Share::FREE }).unwrap();
        cache.assign(0, 1).unwrap();
        assert!(cache.charged_to(1) <= LIMIT, "{} bytes", cache.charged_to(1));
        join(workers);
        assert!(cache.charged_to(1) <= LIMIT, "{} bytes", cache.charged_to(1));
        assert_eq!((cache.charged_to(0), cache.charged_to(1)), (0, cache.charged_bytes()));
        settled(&cache);
    });
}

#[test]
fn retain_drops_what_stood_throughout() {
    explore(|| {
        let cache = cache();
        for number in 1..=6 {
            insert(&cache, key(number % SHARDS, number), 4, Duration::ZERO).unwrap();
        }
        let others = run(&cache, |cache| {
            cache.remove(&key(1, 1));
            insert(&cache, key(0, 8), 4, LATER).unwrap();
            cache.get(&key(0, 2), LATER);
        });
        let gone = cache.retain(|key, _| key.is_multiple_of(2));
        assert!((2..=3).contains(&gone), "{gone} went");
        join([others]);
        assert!([3, 5].iter().all(|&number| !cache.contains(&key(1, number))));
        assert!([2, 4, 6].iter().all(|&number| cache.contains(&key(0, number))));
        settled(&cache);
    });
}

/// What is offered while others evict, move and remove is a record once, with its own value.
#[test]
fn what_is_offered_is_whole_and_offered_once() {
    explore(|| {
        let cache = cache();
        for number in 1..=4 {
            insert(&cache, key(number % SHARDS, number), 8, Duration::ZERO).unwrap();
        }
        let others = run(&cache, |cache| {
            for number in 5..9 {
                insert(&cache, key(number % SHARDS, number), 8, LATER).unwrap();
            }
            cache.remove(&key(1, 3));
        });
        let offer = |cache: &Shared| cache.offer(CAPACITY, 3);
        let feeder = run(&cache, move |cache| {
            let offers = offer(&cache);
            assert!(offers.len() <= 3 && offers.iter().all(|offer| *offer.value == offer.key));
        });
        // None of these is used again, so none goes round.
        let mut keys: Vec<u64> = (0..4).flat_map(|_| offer(&cache)).map(|at| at.key).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
        join([others, feeder]);
        settled(&cache);
    });
}

#[test]
fn buffers_come_and_go_from_several_threads() {
    explore(|| {
        let arena = Arena::new(0);
        let worker = |mark: u8| {
            let arena = arena.clone();
            thread::spawn(move || {
                for pages in [1, 3] {
                    let mut buffer = arena.buffer(pages * PAGE_BYTES).unwrap();
                    buffer[0] = mark;
                    thread::yield_now();
                    assert_eq!(buffer[0], mark);
                }
            })
        };
        let workers = [worker(1), worker(2)];
        arena.set_kept_bytes_max(1 << 30);
        join(workers);
        assert_eq!(arena.statistics().used_bytes, 0);
        arena.validate().unwrap();
    });
}
