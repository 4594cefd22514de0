//! Changes behind the pool's back, under each value of `coherence`.

use std::ffi::OsStr;
use std::time::Duration;

use crate::common::{Bench, READ, pattern, read};
use futures::executor::block_on;
use storage::{Origin, RenameFlags};

const CEILING: u64 = 64 << 20;

fn rename_at_origin(bench: &Bench, from: &str, to: &str) {
    block_on(async {
        let root = bench.origin.root().await.expect("there is a root").object;
        let flags = RenameFlags::empty();
        bench.origin.rename(root, OsStr::new(from), root, OsStr::new(to), flags).await
    })
    .expect("it can be renamed");
}

fn metadata_calls(bench: &Bench) -> u64 {
    bench.counter("origin_metadata_calls")
}

/// Looks a name up and forgets it again.
fn exists(bench: &Bench, name: &str) -> bool {
    match block_on(bench.pool.lookup(bench.pool.root(), OsStr::new(name))) {
        Ok(found) => {
            bench.pool.forget(found.object, 1);
            true
        }
        Err(error) => {
            assert!(error.is_not_found(), "{error}");
            false
        }
    }
}

#[test]
fn open_sees_a_change_at_the_next_open() {
    let bench = Bench::new(&["coherence=open"], CEILING);
    let (old, new) = (pattern(10_000, 1), pattern(10_000, 2));
    bench.put("file", &old);
    assert_eq!(read(&bench.open("file", READ), 0, 10_000), old);
    bench.put("file", &new);
    assert_eq!(read(&bench.open("file", READ), 0, 10_000), new);
    assert_eq!(bench.counter("coherence_dropped"), 1);
}

#[test]
fn open_sees_a_file_that_was_replaced_by_another() {
    let bench = Bench::new(&["coherence=open"], CEILING);
    let (old, new) = (pattern(10_000, 1), pattern(20_000, 2));
    bench.put("file", &old);
    let found = block_on(bench.pool.lookup(bench.pool.root(), OsStr::new("file"))).expect("there");
    bench.put("other", &new);
    rename_at_origin(&bench, "other", "file");
    let stale = block_on(bench.pool.open_file(found.object, READ));
    assert!(stale.expect_err("the name leads elsewhere").is_stale());
    assert_eq!(read(&bench.open("file", READ), 0, 20_000), new);
}

#[test]
fn open_asks_each_time_for_names_that_are_missing() {
    let bench = Bench::new(&["coherence=open"], CEILING);
    assert!(!exists(&bench, "file"));
    bench.put("file", b"here");
    assert!(exists(&bench, "file"));
}

#[test]
fn ttl_sees_a_change_when_its_time_has_come() {
    let bench = Bench::new(&["coherence=ttl=5"], CEILING);
    let (old, new) = (pattern(10_000, 1), pattern(10_000, 2));
    bench.put("file", &old);
    assert!(!exists(&bench, "later"));
    let file = bench.open("file", READ);
    assert_eq!(read(&file, 0, 10_000), old);
    bench.put("file", &new);
    bench.put("later", b"here");
    bench.clock.advance(Duration::from_secs(4));
    assert_eq!(read(&file, 0, 10_000), old);
    assert_eq!(read(&bench.open("file", READ), 0, 10_000), old);
    assert!(!exists(&bench, "later"));
    bench.clock.advance(Duration::from_secs(2));
    assert_eq!(read(&file, 0, 10_000), new);
    assert!(exists(&bench, "later"));
}

#[test]
fn exclusive_never_asks_twice_even_for_what_was_forgotten() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    for name in ["a", "b", "c"] {
        bench.put(name, name.as_bytes());
    }
    let walk = || {
        block_on(async {
            let directory = bench.pool.open_directory(bench.pool.root()).await.expect("there");
            let entries = directory.entries().await.expect("listed");
            for (index, entry) in entries.iter().enumerate() {
                let found = directory.found(index).await.expect("it is there");
                let attributes = bench.pool.attributes(found.object, None).await.expect("known");
                assert_eq!(attributes.attributes.size, entry.name.len() as u64);
                bench.pool.forget(found.object, 1);
            }
            assert_eq!(entries.len(), 3);
        });
        assert!(!exists(&bench, "missing"));
    };
    walk();
    let calls = metadata_calls(&bench);
    bench.clock.advance(Duration::from_secs(1_000_000));
    walk();
    assert_eq!(metadata_calls(&bench), calls, "everything was known");
    let file = bench.open("a", READ);
    assert_eq!(read(&file, 0, 10), b"a");
}

#[test]
fn an_unreachable_origin_never_looks_like_missing_names() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    bench.put("file", b"contents");
    let file = bench.open("file", READ);
    assert_eq!(read(&file, 0, 100), b"contents");
    bench.faults.unreachable(true);
    let lookup = block_on(bench.pool.lookup(bench.pool.root(), OsStr::new("other")));
    assert!(!lookup.expect_err("nobody can tell").is_not_found());
    assert_eq!(read(&file, 0, 100), b"contents", "what is cached is still served");
    bench.faults.unreachable(false);
    bench.put("other", b"x");
    assert!(exists(&bench, "other"), "the failure was not kept");
}

#[test]
fn a_change_of_the_property_takes_effect_at_the_next_access() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let (old, new) = (pattern(10_000, 1), pattern(10_000, 2));
    bench.put("file", &old);
    assert_eq!(read(&bench.open("file", READ), 0, 10_000), old);
    bench.put("file", &new);
    assert_eq!(read(&bench.open("file", READ), 0, 10_000), old, "nobody else writes, it was said");
    bench.pool.datasets().set("pool", "coherence", "open").expect("a value");
    assert_eq!(read(&bench.open("file", READ), 0, 10_000), new);
}
