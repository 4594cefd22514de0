use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

const MOUNTS: &str = "30 1 0:40 / /groups rw - cgroup2 cgroup2 rw\n\
    31 1 0:41 / /old rw - cgroup cgroup rw,memory\n";

/// A directory laid out like `/`, with these files.
fn machine(files: &[(&str, &str)]) -> (TempDir, Sources) {
    let root = tempfile::tempdir().expect("a directory");
    let usual = [
        ("/proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 1 kB\nMemAvailable: 524288 kB\n"),
        ("/proc/self/statm", "9000 300 100 1 0 900 0\n"),
        ("/proc/self/mountinfo", MOUNTS),
    ];
    for (path, text) in usual.iter().chain(files) {
        let path = rooted(root.path(), Path::new(path));
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let sources = Sources::below(root.path());
    (root, sources)
}

#[test]
fn without_groups_the_machine_counts() {
    let (_root, sources) = machine(&[]);
    let reading = sources.read();
    assert_eq!(reading.memory(), MemoryLimit { bytes: 1 << 30, source: LimitSource::Machine });
    assert_eq!(reading.available_bytes(), 512 * MIB);
    let page = rustix::param::page_size() as u64;
    assert_eq!((reading.own_bytes, sources.resident_bytes()), (200 * page, 300 * page));
    assert_eq!(reading.notes, Vec::<String>::new());
}

#[test]
fn the_tightest_group_upwards_counts() {
    let (root, sources) = machine(&[
        ("/proc/self/cgroup", "0::/a/b\n"),
        ("/groups/a/memory.max", "104857600\n"),
        ("/groups/a/memory.current", "52428800\n"),
        ("/groups/a/memory.stat", "anon 9\ninactive_file 1048576\nactive_file 2097152\n"),
        ("/groups/a/b/memory.max", "max\n"),
    ]);
    let reading = sources.read();
    let file = root.path().join("groups/a/memory.max");
    let source = LimitSource::ControlGroup(file);
    assert_eq!(reading.memory(), MemoryLimit { bytes: 100 * MIB, source });
    assert_eq!(reading.available_bytes(), 53 * MIB, "pages of files can be taken back");
    assert_eq!(reading.notes, Vec::<String>::new());
}

#[test]
fn version_1_is_read_too() {
    let (_root, sources) = machine(&[
        ("/proc/self/cgroup", "3:cpu:/x\n2:memory:/c\n0::/\n"),
        ("/old/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/old/c/memory.limit_in_bytes", "209715200\n"),
        ("/old/c/memory.usage_in_bytes", "104857600\n"),
        ("/old/c/memory.stat", "inactive_file 7\ntotal_inactive_file 1048576\n"),
    ]);
    let reading = sources.read();
    assert_eq!((reading.memory().bytes, reading.available_bytes()), (200 * MIB, 101 * MIB));
    assert_eq!(reading.notes, Vec::<String>::new());
}

#[test]
fn a_soft_limit_counts_where_it_is_lower() {
    let (_root, sources) = machine(&[
        ("/proc/self/cgroup", "0::/a\n"),
        ("/groups/a/memory.max", "104857600\n"),
        ("/groups/a/memory.high", "83886080\n"),
        ("/groups/a/memory.current", "0\n"),
        ("/groups/a/memory.stat", ""),
    ]);
    assert_eq!(sources.read().memory().bytes, 80 * MIB);
}

#[test]
fn a_missing_limit_is_told_with_what_counts_instead() {
    let (_root, sources) = machine(&[("/proc/self/cgroup", "0::/a\n")]);
    let reading = sources.read();
    assert_eq!(reading.memory().source, LimitSource::Machine);
    let [note] = reading.notes.as_slice() else { panic!("one note: {:?}", reading.notes) };
    for part in ["groups/a/memory.max", "the machine count instead"] {
        assert!(note.contains(part), "{note}");
    }
}

#[test]
fn a_tree_of_groups_that_is_not_mounted_is_told() {
    let (root, sources) = machine(&[("/proc/self/cgroup", "2:memory:/c\n1:cpu:/d\n")]);
    fs::write(root.path().join("proc/self/mountinfo"), "").expect("a file");
    let reading = sources.read();
    assert_eq!(reading.memory().source, LimitSource::Machine);
    let [note] = reading.notes.as_slice() else { panic!("one note: {:?}", reading.notes) };
    assert!(note.contains("group /c") && note.contains("not mounted"), "{note}");
    fs::write(root.path().join("proc/self/cgroup"), "2:memory:/\n1:cpu:/d\n").expect("a file");
    assert_eq!(sources.read().notes, Vec::<String>::new());
}

#[test]
fn what_is_no_number_or_not_readable_is_told() {
    let (root, sources) = machine(&[
        ("/proc/self/cgroup", "2:memory:/c\n"),
        ("/old/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/old/c/memory.limit_in_bytes", "lots\n"),
    ]);
    let reading = sources.read();
    assert_eq!(reading.memory().source, LimitSource::Machine);
    assert!(reading.notes.iter().any(|note| note.contains("`lots` is not a number")));
    let limit = root.path().join("old/c/memory.limit_in_bytes");
    fs::set_permissions(&limit, fs::Permissions::from_mode(0o000)).expect("our own file");
    if fs::read(&limit).is_err() {
        let notes = sources.read().notes;
        assert!(notes.iter().any(|note| note.contains("ermission")), "{notes:?}");
    }
}

#[test]
fn a_group_that_hides_its_use_leaves_the_machine_to_tell() {
    let (_root, sources) =
        machine(&[("/proc/self/cgroup", "0::/a\n"), ("/groups/a/memory.max", "104857600\n")]);
    let reading = sources.read();
    assert_eq!(reading.memory().bytes, 100 * MIB);
    assert_eq!(reading.available_bytes(), 512 * MIB);
    assert!(reading.notes[0].contains("what the machine has available counts"));
}

#[test]
fn without_meminfo_the_system_is_asked_otherwise() {
    let (root, sources) = machine(&[]);
    fs::remove_file(root.path().join("proc/meminfo")).expect("it was there");
    let reading = sources.read();
    assert!(reading.memory().bytes > MIB, "{reading:?}");
    assert_eq!(reading.notes.len(), 2);
    assert!(reading.notes[0].contains("sysinfo(2)"), "{:?}", reading.notes);
}

#[test]
fn this_machine_can_be_read() {
    let sources = Sources::system();
    let reading = sources.read();
    assert!(reading.memory().bytes > MIB && reading.available_bytes() > 0, "{reading:?}");
    assert!(reading.own_bytes > 0 && reading.own_bytes <= sources.resident_bytes());
}
