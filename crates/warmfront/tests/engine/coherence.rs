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

/// Reads a file of 1 MiB whole and ends its use but for the look-up; returns the object.
fn read_whole(bench: &Bench, name: &str) -> storage::ObjectId {
    let contents = pattern(1 << 20, 1);
    bench.put(name, &contents);
    let found = block_on(bench.pool.lookup(bench.pool.root(), OsStr::new(name))).expect("there");
    let file = block_on(bench.pool.open_file(found.object, READ)).expect("it can be opened");
    assert_eq!(read(&file, 0, contents.len()), contents);
    assert!(data_bytes(bench) >= 1 << 20);
    found.object
}

fn data_bytes(bench: &Bench) -> u64 {
    bench.counter_of("pool", "data_size")
}

/// What is left of the contents of a file of 1 MiB after `change` has been made at the origin: once
/// an open has noticed it and the last use has ended; the same after a look-up; and after a look-up
/// of what nobody uses.
fn left_after(change: impl Fn(&Bench)) -> [u64; 3] {
    [("open", true), ("ttl=1", true), ("ttl=1", false)].map(|(coherence, is_used)| {
        let setting = format!("coherence={coherence}");
        let bench = Bench::new(&[&setting, "recordsize=16K"], CEILING);
        let object = read_whole(&bench, "file");
        if !is_used {
            bench.pool.forget(object, 1);
            assert!(data_bytes(&bench) >= 1 << 20);
        }
        change(&bench);
        bench.clock.advance(Duration::from_secs(10));
        if coherence == "open" {
            let opened = block_on(bench.pool.open_file(object, READ));
            assert!(opened.expect_err("the name leads elsewhere").is_stale());
        }
        exists(&bench, "file");
        if is_used {
            bench.pool.forget(object, 1);
        }
        bench.pool.validate_memory().expect("all adds up");
        data_bytes(&bench)
    })
}

#[test]
fn contents_of_a_file_that_is_gone_at_the_origin_are_let_go_with_its_last_use() {
    let left = left_after(|bench| {
        let root = block_on(bench.origin.root()).expect("there is a root").object;
        block_on(bench.origin.unlink(root, OsStr::new("file"))).expect("it is there");
    });
    assert_eq!(left, [0; 3]);
}

#[test]
fn contents_of_a_file_that_was_replaced_are_let_go_with_its_last_use() {
    let left = left_after(|bench| {
        bench.put("other", b"other");
        rename_at_origin(bench, "other", "file");
    });
    assert_eq!(left, [0; 3]);
}

#[test]
fn records_of_a_former_size_are_let_go_at_the_next_read() {
    let bench = Bench::new(&["prefetch=none", "recordsize=16K"], CEILING);
    let object = read_whole(&bench, "file");
    bench.set("pool", &[("recordsize", "64K")]).expect("it is a size");
    let file = bench.open("file", READ);
    assert_eq!(read(&file, 0, 10), pattern(10, 1));
    let left = data_bytes(&bench);
    assert!((64 << 10..128 << 10).contains(&left), "{left} bytes");
    bench.pool.forget(object, 1);
    bench.pool.validate_memory().expect("all adds up");
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
