//! Changes that somebody makes at the origin, behind the mount's back, under each `coherence`.
//!
//! Under `open` they are seen at the next open, under `ttl=SECONDS` after that time, and under
//! `exclusive`, where nobody else writes by the user's word, the origin is not asked again.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use warmfront_tests::{
    Mapping, Mount, Place, Program, Requirement, copy_tree, fill, origin_calls, random_bytes,
    require, source_tree,
};

/// Time of validity in the tests of `ttl`: longer than a loaded machine needs for a few calls.
const TTL_SECONDS: u64 = 2;

/// Bytes of a file of three records.
const LENGTH: usize = 300_000;

fn mount(coherence: &str, pagecache: &str) -> Mount {
    Mount::builder().property("coherence", coherence).property("pagecache", pagecache).start()
}

/// Waits until all that was learned before is out of date.
fn outlive(coherence: &str) {
    if coherence.starts_with("ttl") {
        std::thread::sleep(Duration::from_millis(TTL_SECONDS * 1000 + 200));
    }
}

/// Runs `check` under each way of seeing changes, with and without the page cache.
fn each_way(check: impl Fn(&Mount, &str)) {
    for coherence in ["open", &format!("ttl={TTL_SECONDS}")] {
        for pagecache in ["on", "off"] {
            let mut mount = mount(coherence, pagecache);
            check(&mount, coherence);
            mount.unmount();
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn new_contents_of_the_same_size() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        let path = mount.origin().join("file");
        let mut expected = fill(&path, 1, LENGTH);
        assert!(read(&mount.join("file")) == expected);
        let change = random_bytes(2, 10_000);
        // Longer than a tick of the clock that stamps files.
        std::thread::sleep(Duration::from_millis(20));
        File::options().write(true).open(&path).unwrap().write_all_at(&change, 150_000).unwrap();
        expected[150_000..160_000].copy_from_slice(&change);
        outlive(coherence);
        assert!(read(&mount.join("file")) == expected, "{coherence}: old contents");
    });
}

#[test]
fn new_contents_of_a_file_that_is_open_and_mapped() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        let path = mount.origin().join("file");
        let mut expected = fill(&path, 1, LENGTH);
        let held = File::options().read(true).write(true).open(mount.join("file")).unwrap();
        let mapping = Mapping::new(&held, LENGTH, true).unwrap();
        let held_bytes = || {
            let mut bytes = vec![0; LENGTH];
            held.read_exact_at(&mut bytes, 0).map(|()| bytes).unwrap()
        };
        let mapped_bytes = || {
            let mut bytes = vec![0; LENGTH];
            mapping.read(0, &mut bytes);
            bytes
        };
        assert!(held_bytes() == expected && mapped_bytes() == expected);
        let change = random_bytes(2, 10_000);
        std::thread::sleep(Duration::from_millis(20));
        File::options().write(true).open(&path).unwrap().write_all_at(&change, 150_000).unwrap();
        expected[150_000..160_000].copy_from_slice(&change);
        outlive(coherence);
        if coherence.starts_with("ttl") {
            assert!(held_bytes() == expected, "{coherence}: old contents");
        }
        assert!(read(&mount.join("file")) == expected, "{coherence}: old contents");
        // Now that the change is known, pages that the kernel had are dropped, beside the open.
        let deadline = Instant::now() + Duration::from_secs(20);
        while held_bytes() != expected || mapped_bytes() != expected {
            assert!(Instant::now() < deadline, "{coherence}: old pages");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn another_size() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        for (seed, length) in [(1, LENGTH), (2, 1000), (3, 2 * LENGTH), (4, 0)] {
            let expected = fill(&mount.origin().join("file"), seed, length);
            outlive(coherence);
            assert!(read(&mount.join("file")) == expected, "{coherence}: not {length} bytes");
            let told = fs::metadata(mount.join("file")).unwrap().len();
            assert_eq!(told, length as u64, "{coherence}: size of an open file");
        }
    });
}

#[test]
fn atomic_replacement() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        let (path, new) = (mount.origin().join("file"), mount.origin().join("new"));
        let old = fill(&path, 1, LENGTH);
        let held = File::open(mount.join("file")).unwrap();
        assert!(read(&mount.join("file")) == old);
        for seed in 2..5 {
            // The same size and times: only the object tells the difference.
            let times = fs::metadata(&path).unwrap();
            let expected = fill(&new, seed, LENGTH);
            let times = fs::FileTimes::new().set_modified(times.modified().unwrap());
            File::options().write(true).open(&new).unwrap().set_times(times).unwrap();
            fs::rename(&new, &path).unwrap();
            outlive(coherence);
            assert!(read(&mount.join("file")) == expected, "{coherence}: the replaced file");
        }
        let mut bytes = vec![0; LENGTH];
        held.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == old, "{coherence}: an open file stays the one that was opened");
    });
}

#[test]
fn deletion() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        fill(&mount.origin().join("file"), 1, LENGTH);
        assert_eq!(read(&mount.join("file")).len(), LENGTH);
        fs::remove_file(mount.origin().join("file")).unwrap();
        outlive(coherence);
        let error = File::open(mount.join("file")).expect_err("the file is gone");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{coherence}");
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0, "{coherence}: listed");
    });
}

#[test]
fn a_new_name_after_a_look_in_vain() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        for name in ["one", "directory"] {
            let error = fs::metadata(mount.join(name)).expect_err("not there yet");
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
        fill(&mount.origin().join("one"), 1, 10);
        fs::create_dir(mount.origin().join("directory")).unwrap();
        fill(&mount.origin().join("directory/two"), 2, 20);
        outlive(coherence);
        assert_eq!(read(&mount.join("one")).len(), 10, "{coherence}");
        assert_eq!(read(&mount.join("directory/two")).len(), 20, "{coherence}");
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 2, "{coherence}: not listed");
    });
}

#[test]
fn new_permissions() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        let path = mount.origin().join("file");
        fill(&path, 1, 10);
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert_eq!(
            File::open(mount.join("file")).unwrap().metadata().unwrap().mode() & 0o777,
            0o644
        );
        mode(0o600);
        outlive(coherence);
        let file = File::open(mount.join("file")).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{coherence}");
    });
}

/// Within the time of validity nothing is asked again; after it the same look asks.
#[test]
fn a_time_to_live_is_used_and_ends() {
    require!(Requirement::Fuse);
    let mut mount = mount("ttl=3600", "off");
    let expected = fill(&mount.origin().join("file"), 1, LENGTH);
    assert!(read(&mount.join("file")) == expected);
    let reads = |mount: &Mount| warmfront_tests::counter(&mount.status(), "origin_reads");
    let before = reads(&mount);
    fill(&mount.origin().join("file"), 2, LENGTH);
    assert!(read(&mount.join("file")) == expected, "what is valid for an hour was dropped");
    assert_eq!(reads(&mount), before);
    mount.run(&["set", "coherence=open"]);
    assert!(read(&mount.join("file")) != expected, "a new setting acts at the next access");
    mount.unmount();
}

/// A warm walk over a tree asks the origin nothing, nor does a warm read.
#[test]
fn exclusive_asks_nothing_twice() {
    require!(Requirement::Fuse);
    let mut mount = mount("exclusive", "off");
    copy_tree(&source_tree().join("crates"), &mount.origin().join("tree"));
    std::os::unix::fs::symlink("tree", mount.origin().join("link")).unwrap();
    let walk = || {
        // Permissions, link targets, names that are not there, and all contents.
        let list = Program::new("find").arg(mount.path()).args(["-perm", "-0400", "-ls"]);
        let list = list.run().success();
        let tree = mount.join("tree");
        let grep = Program::new("grep").args(["-r", "-c", "fn "]).arg(&tree).run().success();
        fs::metadata(mount.join("missing")).expect_err("there is no such name");
        (list.lines().count(), grep)
    };
    let cold = walk();
    assert!(cold.0 > 10);
    let before = mount.status();
    let can_drop = Requirement::Root.missing().is_none();
    if can_drop {
        // Now the kernel knows nothing, and asks the daemon again.
        mount.drop_kernel_caches();
    }
    assert!(walk() == cold, "the warm walk sees the same");
    let after = mount.status();
    assert_eq!(origin_calls(&after), origin_calls(&before), "{before:#}\n{after:#}");
    if can_drop {
        let hits = |status| warmfront_tests::counter(status, "demand_metadata_hits");
        assert!(hits(&after) > hits(&before), "the warm walk never reached the daemon");
    }
    mount.unmount();
}

/// Own changes are seen at once under every setting.
#[test]
fn own_changes_are_never_late() {
    require!(Requirement::Fuse);
    for coherence in ["exclusive", "open", "ttl=3600"] {
        let mut mount = mount(coherence, "on");
        let path = mount.join("file");
        for round in 0..20 {
            assert_eq!(fs::metadata(&path).expect_err("gone").kind(), ErrorKind::NotFound);
            let expected = fill(&path, round, LENGTH);
            assert!(read(&path) == expected);
            File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
            assert!(read(&path) == expected[..1000]);
            fs::rename(&path, mount.join("other")).unwrap();
            assert!(read(&mount.join("other")) == expected[..1000]);
            assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 1);
            fs::remove_file(mount.join("other")).unwrap();
            assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
        }
        mount.unmount();
    }
}

/// A log that another program appends to is read to its present end at each opening.
#[test]
fn a_log_that_grows() {
    require!(Requirement::Fuse);
    each_way(|mount, coherence| {
        let path = mount.origin().join("log");
        let mut expected = fill(&path, 1, 5000);
        assert!(read(&mount.join("log")) == expected, "{coherence}");
        for seed in 2..6 {
            let more = random_bytes(seed, 3000);
            expected.extend(&more);
            fs::write(&path, &expected).unwrap();
            outlive(coherence);
            assert!(
                read(&mount.join("log")) == expected,
                "{coherence}: what was added is not seen"
            );
        }
    });
}

/// A log is rotated at the origin while the mount knows both names; what is appended goes to the
/// new file, and nothing of the old one is shown under the old name.
#[test]
fn a_rotated_log_is_appended_to_under_its_own_name() {
    require!(Requirement::Fuse);
    let mut mount = mount("open", "off");
    let (origin, at) = (mount.origin().to_owned(), |name: &str| mount.join(name));
    fs::write(origin.join("log"), "old\n").unwrap();
    assert_eq!(read(&at("log")), b"old\n");
    fs::rename(origin.join("log"), origin.join("log.1")).unwrap();
    fs::write(origin.join("log"), "new\n").unwrap();
    assert_eq!(read(&at("log.1")), b"old\n");
    let mut log = File::options().append(true).open(at("log")).unwrap();
    std::io::Write::write_all(&mut log, b"appended\n").unwrap();
    drop(log);
    assert_eq!(read(&at("log")), b"new\nappended\n");
    assert_eq!(fs::read(origin.join("log")).unwrap(), b"new\nappended\n");
    assert_eq!(fs::read(origin.join("log.1")).unwrap(), b"old\n");
    mount.unmount();
}

#[test]
fn names_that_were_exchanged_at_the_origin() {
    require!(Requirement::Fuse);
    let mut mount = mount("open", "off");
    let origin = mount.origin().to_owned();
    for name in ["a", "b"] {
        fs::write(origin.join(name), name).unwrap();
        assert_eq!(read(&mount.join(name)), name.as_bytes());
    }
    for round in 0..5 {
        fs::rename(origin.join("a"), origin.join("between")).unwrap();
        fs::rename(origin.join("b"), origin.join("a")).unwrap();
        fs::rename(origin.join("between"), origin.join("b")).unwrap();
        for name in ["a", "b"] {
            let expected = fs::read(origin.join(name)).unwrap();
            assert_eq!(read(&mount.join(name)), expected, "{name} in round {round}");
        }
    }
    mount.unmount();
}

#[test]
fn directories_that_took_the_place_of_others_at_the_origin() {
    require!(Requirement::Fuse);
    let mut mount = mount("open", "off");
    let origin = mount.origin().to_owned();
    for name in ["first", "second"] {
        fs::create_dir(origin.join(name)).unwrap();
        fs::write(origin.join(name).join("file"), name).unwrap();
        assert_eq!(read(&mount.join(name).join("file")), name.as_bytes());
    }
    fs::rename(origin.join("first"), origin.join("third")).unwrap();
    fs::rename(origin.join("second"), origin.join("first")).unwrap();
    // Of the directories on the way, names are believed for a second.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(read(&mount.join("first/file")), b"second");
    assert_eq!(read(&mount.join("third/file")), b"first");
    let gone = fs::read(mount.join("second/file")).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    mount.unmount();
}

#[test]
fn two_pools_before_the_same_files_are_told_of_each_other() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow/part", "other", "all", "some"]);
    fs::write(place.join("slow/part/file"), "contents").expect("written");
    let mount = |origin: &str, mountpoint: &str, words: &[&str]| {
        let places = [place.path(origin), place.path(mountpoint)];
        let program = place.warmfront.program(["mount", "--arc-max=64M"]).args(words);
        let said = program.args(places).run().success();
        let notes = said.lines().filter(|line| line.starts_with("note: "));
        notes.collect::<Vec<&str>>().join("\n")
    };
    let unmount = |mountpoint: &str| place.warmfront.run(["unmount", &place.path(mountpoint)]);
    let exclusive = ["-o", "coherence=exclusive"];
    // The part comes last, then the whole does.
    assert_eq!(mount("slow", "all", &exclusive), "");
    let said = mount("slow/part", "some", &[]);
    for words in ["pool `slow`", "in which this origin lies", "coherence=exclusive on slow"] {
        assert!(said.contains(words), "{said}");
    }
    unmount("all");
    let said = mount("slow", "all", &exclusive);
    for words in ["pool `part`", "which lies in this origin", "nobody else writes"] {
        assert!(said.contains(words), "{said}");
    }
    unmount("some");
    // Who cannot write disturbs nobody; nor does who looks, or who is elsewhere.
    assert_eq!(mount("slow/part", "some", &["--read-only"]), "");
    unmount("some");
    assert_eq!(mount("other", "some", &[]), "");
    unmount("some");
    unmount("all");
    mount("slow", "all", &[]);
    assert_eq!(mount("slow/part", "some", &[]), "");
    unmount("some");
    unmount("all");
}
