//! Names made, moved and removed through the pool: the cached answers follow at once.

use std::ffi::OsStr;
use std::path::Path;

use crate::common::{Bench, CALLER, READ, pattern, read};
use futures::executor::block_on;
use storage::{Node, ObjectId, RenameFlags, XattrMode};

const CEILING: u64 = 64 << 20;

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn look(bench: &Bench, parent: ObjectId, text: &str) -> Option<ObjectId> {
    match block_on(bench.pool.lookup(parent, name(text))) {
        Ok(found) => {
            bench.pool.forget(found.object, 1);
            Some(found.object)
        }
        Err(error) => {
            assert!(error.is_not_found(), "{error}");
            None
        }
    }
}

fn make_directory(bench: &Bench, text: &str) -> ObjectId {
    let node =
        Node { parent: bench.pool.root(), name: name(text), permissions: 0o755, caller: CALLER };
    block_on(bench.pool.make_directory(node)).expect("it can be made").object
}

fn listing(bench: &Bench, directory: ObjectId) -> Vec<String> {
    let directory = block_on(bench.pool.open_directory(directory)).expect("it is a directory");
    let entries = block_on(directory.entries()).expect("it is listed");
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn names_follow_changes_under_every_coherence() {
    for coherence in ["exclusive", "open", "ttl=60"] {
        let bench = Bench::new(&[&format!("coherence={coherence}")], CEILING);
        let root = bench.pool.root();
        assert_eq!(look(&bench, root, "a"), None);
        let file = bench.create("a");
        let id = file.object();
        assert_eq!(look(&bench, root, "a"), Some(id));
        assert_eq!(listing(&bench, root), ["a"]);

        let directory = make_directory(&bench, "d");
        let none = RenameFlags::empty();
        block_on(bench.pool.rename(root, name("a"), directory, name("b"), none)).expect("moved");
        assert_eq!(look(&bench, root, "a"), None);
        assert_eq!(look(&bench, directory, "b"), Some(id));
        assert_eq!(listing(&bench, root), ["d"]);
        assert_eq!(listing(&bench, directory), ["b"]);

        let linked = block_on(bench.pool.link(id, root, name("c"))).expect("linked");
        assert_eq!((linked.object, linked.attributes.links), (id, 2));
        block_on(bench.pool.unlink(directory, name("b"))).expect("removed");
        let attributes = block_on(bench.pool.attributes(id, None)).expect("it has a name left");
        assert_eq!(attributes.attributes.links, 1, "{coherence}");

        block_on(bench.pool.remove_directory(root, name("d"))).expect("it is empty");
        assert_eq!(look(&bench, root, "d"), None);
        let top = block_on(bench.pool.attributes(root, None)).expect("the root is there");
        assert_eq!(top.attributes.links, 2, "{coherence}");
        assert_eq!(listing(&bench, root), ["c"]);
    }
}

#[test]
fn exchanged_names_lead_to_each_other() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let root = bench.pool.root();
    let (a, b) = (bench.create("a"), bench.create("b"));
    let flags = RenameFlags::EXCHANGE;
    block_on(bench.pool.rename(root, name("a"), root, name("b"), flags)).expect("exchanged");
    assert_eq!(look(&bench, root, "a"), Some(b.object()));
    assert_eq!(look(&bench, root, "b"), Some(a.object()));
}

#[test]
fn a_file_without_a_name_lives_while_it_is_open() {
    let bench = Bench::new(&[], CEILING);
    let file = bench.create("a");
    let data = pattern(100_000, 1);
    block_on(file.write(0, &data)).expect("written");
    block_on(bench.pool.unlink(bench.pool.root(), name("a"))).expect("removed");
    assert_eq!(read(&file, 0, data.len()), data);
    let attributes = block_on(bench.pool.attributes(file.object(), Some(&file))).expect("open");
    assert_eq!(attributes.attributes.links, 0);
}

#[test]
fn extended_attributes_and_their_absence_are_kept_and_follow_changes() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    let file = bench.create("a");
    let (id, key) = (file.object(), name("user.colour"));
    assert!(block_on(bench.pool.xattr(id, key)).is_err());
    let calls = bench.counter("origin_metadata_calls");
    assert!(block_on(bench.pool.xattr(id, key)).is_err());
    assert_eq!(bench.counter("origin_metadata_calls"), calls);
    block_on(bench.pool.set_xattr(id, key, b"red", XattrMode::Any)).expect("set");
    assert_eq!(block_on(bench.pool.xattr(id, key)).expect("it is set").as_slice(), b"red");
    assert_eq!(block_on(bench.pool.xattrs(id)).expect("listed").as_slice(), [key]);
    block_on(bench.pool.remove_xattr(id, key)).expect("removed");
    assert!(block_on(bench.pool.xattr(id, key)).is_err());
}

#[test]
fn a_dataset_made_or_moved_while_in_use_governs_what_lies_in_it() {
    let bench = Bench::new(&["prefetch=none", "write=through"], CEILING);
    let directory = make_directory(&bench, "d");
    let node = Node { parent: directory, name: name("f"), permissions: 0o644, caller: CALLER };
    let (found, file) =
        block_on(bench.pool.create_file(node, crate::common::READ_WRITE)).expect("it can be made");
    let data = pattern(100_000, 1);
    block_on(file.write(0, &data)).expect("written");
    bench.pool.datasets().create("pool/d", None).expect("free");
    bench.pool.datasets().set("pool/d", "primarycache", "none").expect("a value");
    let before = bench.counter("origin_reads");
    for _ in 0..3 {
        assert_eq!(read(&file, 0, data.len()), data);
    }
    assert_eq!(bench.counter("origin_reads"), before + 3);
    let (root, none) = (bench.pool.root(), RenameFlags::empty());
    block_on(bench.pool.rename(root, name("d"), root, name("e"), none)).expect("moved");
    for _ in 0..3 {
        assert_eq!(read(&file, 0, data.len()), data);
    }
    let message = "it lies in no dataset any more, and what was cached before is still right";
    assert_eq!(bench.counter("origin_reads"), before + 3, "{message}");
    bench.pool.forget(found.object, 1);
}

#[test]
fn why_tells_where_records_are() {
    let bench = Bench::new(&["prefetch=none", "recordsize=4K"], CEILING);
    bench.put("file", &pattern(10 * 4096, 1));
    let file = bench.open("file", READ);
    read(&file, 2 * 4096, 3 * 4096);
    let why = block_on(bench.pool.why(Path::new("file"))).expect("it is there");
    assert_eq!((why.records, why.records_cached), (10, 3));
    let states: Vec<_> =
        why.runs.iter().map(|run| (run.first, run.count, run.state.as_str())).collect();
    assert_eq!(states, [(0, 2, "absent"), (2, 3, "mru"), (5, 5, "absent")]);
    assert!(why.runs[0].reason.is_some() && why.runs[1].reason.is_none());
    assert!(block_on(bench.pool.why(Path::new("../file"))).is_err());
}
