//! Single flight: one fetch for all, as threads and as tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use futures::executor::{LocalPool, block_on};
use futures::future::{join, join_all};
use futures::task::{LocalSpawnExt, noop_waker_ref};
use warmfront::cache::{Cache, FetchError};

use crate::weighed;

/// The longest that a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

fn small() -> Cache<u64, u64> {
    weighed(1 << 20).build().unwrap()
}

/// Waits until `callers` misses are counted, so that all of them are on their way.
fn wait_for_misses(cache: &Cache<u64, u64>, callers: u64) {
    let start = Instant::now();
    while cache.statistics().misses < callers {
        assert!(start.elapsed() < PATIENCE, "callers do not arrive");
        thread::yield_now();
    }
    // A caller that has missed still has to join.
    thread::sleep(Duration::from_millis(30));
}

/// Threads and tasks that ask for key 1, of which one fetches and ends as `end` says. Returns what
/// each has got; `None` for one that panicked.
fn crowd(
    cache: &Cache<u64, u64>,
    end: impl Fn() -> Result<u64, String> + Sync,
) -> (usize, Vec<Option<Result<u64, FetchError>>>) {
    const EACH: u64 = 4;
    let fetches = AtomicUsize::new(0);
    let fetch = || {
        fetches.fetch_add(1, Ordering::SeqCst);
        wait_for_misses(cache, 2 * EACH);
        end()
    };
    let outcomes = thread::scope(|scope| {
        let mut callers = Vec::new();
        for number in 0..2 * EACH {
            let fetch = &fetch;
            callers.push(scope.spawn(move || match number % 2 {
                0 => cache.get_or_fetch(&1, fetch),
                _ => block_on(cache.get_or_fetch_async(&1, async { fetch() })),
            }));
        }
        callers.into_iter().map(|caller| caller.join().ok()).collect()
    });
    (fetches.into_inner(), outcomes)
}

/// The cache is whole, and has counted fetches, of these the failed ones, and the abandoned ones.
#[track_caller]
fn assert_counted(cache: &Cache<u64, u64>, fetches: u64, failed: u64, abandoned: u64) {
    let counted = cache.statistics();
    assert_eq!(
        (counted.fetches, counted.fetches_failed, counted.fetches_abandoned),
        (fetches, failed, abandoned)
    );
    cache.validate().unwrap();
}

/// One of a crowd panics, as `end` or what weighs its value does: the others get an error, and
/// nobody tries it again for them.
#[track_caller]
fn one_panics(cache: &Cache<u64, u64>, end: impl Fn() -> Result<u64, String> + Sync) {
    let (fetches, outcomes) = crowd(cache, end);
    assert_eq!(fetches, 1, "the others do not try it one after the other");
    let those = |is_meant: &dyn Fn(&Option<_>) -> bool| {
        outcomes.iter().filter(|outcome| is_meant(outcome)).count()
    };
    assert_eq!(those(&|outcome| outcome.is_none()), 1);
    assert_eq!(those(&|outcome| matches!(outcome, Some(Err(FetchError::Panicked)))), 7);
    assert_eq!(cache.get_or_fetch(&1, || Ok::<_, String>(8)).unwrap(), 8, "not poisoned");
    assert_counted(cache, 2, 1, 0);
}

#[test]
fn threads_and_tasks_share_one_fetch() {
    let cache = small();
    let (fetches, outcomes) = crowd(&cache, || Ok(7));
    assert_eq!(fetches, 1);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Some(Ok(7)))));
    let statistics = cache.statistics();
    assert_eq!((statistics.fetches, statistics.joined), (1, 7));
    assert_eq!(statistics.misses, 8);
    cache.validate().unwrap();
}

#[test]
fn an_error_reaches_all_and_is_not_kept() {
    let cache = small();
    let (fetches, outcomes) = crowd(&cache, || Err("the disk is gone".to_string()));
    assert_eq!(fetches, 1);
    for outcome in outcomes {
        let Some(Err(FetchError::Failed(error))) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.to_string(), "the disk is gone");
    }
    assert_eq!(cache.get_or_fetch(&1, || Ok::<_, String>(8)).unwrap(), 8);
    cache.validate().unwrap();
}

#[test]
fn a_panic_goes_on_in_its_caller_and_is_an_error_for_the_others() {
    one_panics(&small(), || panic!("meant to happen in this test"));
}

/// A weigher that panics on 7 and is fine with the rest.
fn with_a_trap() -> Cache<u64, u64> {
    let weigher = |_: &u64, value: &u64| {
        assert_ne!(*value, 7, "meant to happen in this test");
        0
    };
    Cache::builder().capacity_bytes(1 << 20).weigher(weigher).build().unwrap()
}

#[test]
fn a_weigher_that_panics_does_so_in_its_caller_and_is_an_error_for_the_others() {
    one_panics(&with_a_trap(), || Ok(7));
}

#[test]
fn an_insertion_whose_weigher_panics_changes_nothing() {
    let cache = with_a_trap();
    cache.insert(1, 8).unwrap();
    let before = cache.statistics();
    assert!(catch_unwind(AssertUnwindSafe(|| cache.insert(1, 7))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| cache.insert(2, 7))).is_err());
    assert_eq!(cache.statistics(), before);
    assert_eq!((cache.peek(&1), cache.peek(&2)), (Some(8), None));
    cache.validate().unwrap();
    cache.insert(2, 9).unwrap();
    assert_eq!(cache.peek(&2), Some(9));
}

#[test]
fn the_error_of_a_fetch_keeps_its_type() {
    let cache = small();
    let fetch = || std::fs::read("/nowhere at all").map(|bytes| bytes.len() as u64);
    let error = cache.get_or_fetch(&1, fetch).unwrap_err();
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    assert_eq!(kind, Some(std::io::ErrorKind::NotFound));
}

#[test]
fn a_fetch_must_not_use_its_own_key() {
    let cache = small();
    let own = |error: FetchError| {
        assert!(matches!(error, FetchError::Reentrant), "{error}");
        error
    };
    let inner = || cache.get_or_fetch(&1, || Ok::<_, String>(1)).map_err(own);
    let outer = cache.get_or_fetch(&1, inner).unwrap_err();
    assert!(matches!(outer.downcast_ref(), Some(FetchError::Reentrant)));
    // Through another key, and from a task.
    let through = cache.get_or_fetch(&1, || cache.get_or_fetch(&2, inner));
    assert!(through.is_err());
    let inner = async { cache.get_or_fetch_async(&1, async { Ok::<_, String>(1) }).await };
    let outer = block_on(cache.get_or_fetch_async(&1, async { inner.await.map_err(own) }));
    assert!(matches!(outer.unwrap_err().downcast_ref(), Some(FetchError::Reentrant)));
    let mixed = block_on(cache.get_or_fetch_async(&1, async {
        cache.get_or_fetch(&1, || Ok::<_, String>(1)).map_err(own)
    }));
    assert!(mixed.is_err());
    // Other keys are fine, and the key is too when the fetch is over.
    let nested = cache.get_or_fetch(&1, || cache.get_or_fetch(&2, || Ok::<_, String>(5)));
    assert_eq!(nested.unwrap(), 5);
    assert_eq!((cache.get(&1), cache.get(&2)), (Some(5), Some(5)));
    cache.validate().unwrap();
}

#[test]
fn a_task_may_ask_twice_at_once() {
    let cache = small();
    let (sender, receiver) = oneshot::channel::<u64>();
    let first = cache.get_or_fetch_async(&1, receiver);
    let second = cache.get_or_fetch_async(&1, async { Err("must not run") });
    let both = async {
        let (first, second) = join(first, second).await;
        assert_eq!((first.unwrap(), second.unwrap()), (6, 6));
    };
    let mut pool = LocalPool::new();
    let late = async { sender.send(6).unwrap() };
    pool.run_until(join(both, late));
}

#[test]
fn a_dropped_future_hands_over_to_one_that_waits() {
    let cache = small();
    let mut context = Context::from_waker(noop_waker_ref());
    let mut first =
        Box::pin(cache.get_or_fetch_async(&1, std::future::pending::<Result<_, String>>()));
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut idle = Box::pin(cache.get_or_fetch_async(&1, async { Err("must not run") }));
    assert!(idle.as_mut().poll(&mut context).is_pending());
    drop(idle);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|number| {
                let cache = &cache;
                scope.spawn(move || match number {
                    0 => block_on(cache.get_or_fetch_async(&1, async { Ok::<_, String>(4) })),
                    _ => cache.get_or_fetch(&1, || Ok::<_, String>(4)),
                })
            })
            .collect();
        wait_for_misses(&cache, 5);
        assert_eq!(cache.statistics().fetches, 1);
        drop(first);
        for waiter in waiting {
            assert_eq!(waiter.join().unwrap().unwrap(), 4);
        }
    });
    assert_counted(&cache, 2, 0, 1);
}

#[test]
fn a_future_that_panics_leaves_nothing_behind() {
    let cache = small();
    let fetch = async { if cache.contains(&9) { Ok::<_, String>(0) } else { panic!("meant") } };
    let panicked = catch_unwind(AssertUnwindSafe(|| block_on(cache.get_or_fetch_async(&1, fetch))));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"meant"));
    assert_eq!(block_on(cache.get_or_fetch_async(&1, async { Ok::<_, String>(3) })).unwrap(), 3);
    cache.validate().unwrap();
}

#[test]
fn nothing_that_was_fetched_before_a_change_is_kept_after_it() {
    type Change = fn(&Cache<u64, u64>);
    let changes: [(Change, Option<u64>); 4] = [
        (|cache| assert!(cache.remove(&1).is_none()), None),
        (|cache| cache.insert(1, 2).unwrap(), Some(2)),
        (|cache| assert_eq!(cache.clear(), 0), None),
        (|cache| assert_eq!(cache.retain(|key| *key == 1), 0), None),
    ];
    for (change, left) in changes {
        let cache = small();
        let (started, start) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        thread::scope(|scope| {
            let cache = &cache;
            let old = scope.spawn(move || {
                cache.get_or_fetch(&1, || {
                    started.send(()).unwrap();
                    gone.recv().map(|()| 1)
                })
            });
            start.recv_timeout(PATIENCE).unwrap();
            change(cache);
            // A later caller does not get what is out of date.
            if left.is_none() {
                let new = cache.get_or_fetch(&1, || Ok::<_, String>(3)).unwrap();
                assert_eq!(new, 3);
            }
            go.send(()).unwrap();
            assert_eq!(old.join().unwrap().unwrap(), 1, "its own caller has it");
        });
        assert_eq!(cache.get(&1), Some(left.unwrap_or(3)));
        cache.validate().unwrap();
    }
}

#[test]
fn a_fetch_that_lands_between_look_and_claim_is_not_run_again() {
    // Many rounds of two threads that start together: whoever comes late finds the value.
    let cache = small();
    let fetches = AtomicUsize::new(0);
    for key in 0..2000 {
        let barrier = Barrier::new(2);
        let ask = || {
            barrier.wait();
            let fetch = || Ok::<_, String>(fetches.fetch_add(1, Ordering::SeqCst) as u64 & 7);
            cache.get_or_fetch(&key, fetch).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(ask);
            ask();
        });
    }
    assert_eq!(fetches.into_inner(), 2000);
}

#[test]
fn tasks_of_one_thread_share_a_fetch() {
    let cache = Arc::new(small());
    let mut pool = LocalPool::new();
    let (sender, receiver) = oneshot::channel();
    let first = cache.clone();
    let mut tasks = vec![
        pool.spawner()
            .spawn_local_with_handle(async move { first.get_or_fetch_async(&1, receiver).await })
            .unwrap(),
    ];
    for _ in 0..9 {
        let cache = cache.clone();
        let task = async move { cache.get_or_fetch_async(&1, async { Err("must not run") }).await };
        tasks.push(pool.spawner().spawn_local_with_handle(task).unwrap());
    }
    pool.run_until_stalled();
    sender.send(5).unwrap();
    let outcomes = pool.run_until(join_all(tasks));
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(5))));
}

#[test]
fn futures_may_be_sent_to_other_threads() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let cache = small();
    let future = sendable(cache.get_or_fetch_async(&1, async { Ok::<_, String>(5) }));
    let mut future = Box::pin(future);
    let polled = thread::scope(|scope| {
        let poll =
            scope.spawn(move || future.as_mut().poll(&mut Context::from_waker(noop_waker_ref())));
        poll.join().unwrap()
    });
    assert!(matches!(polled, Poll::Ready(Ok(5))));
}
