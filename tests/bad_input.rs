//! What cannot work is refused with a clear message and an exit status, and loses nothing.
//!
//! Status 2 is for a command line that says nothing sensible, 1 for what the world refuses.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warmfront_tests::{
    Finished, Mount, Program, Requirement, Warmfront, fill, is_mounted, require, test_directory,
};

/// An origin with a file in it, an empty mount point, and the command.
struct Place {
    base: TempDir,
    slow: PathBuf,
    fast: PathBuf,
    warmfront: Warmfront,
}

impl Place {
    fn new() -> Place {
        let base = test_directory();
        let (slow, fast) = (base.path().join("slow"), base.path().join("fast"));
        fs::create_dir(&slow).unwrap();
        fs::create_dir(&fast).unwrap();
        fill(&slow.join("file"), 1, 1000);
        Place { base, slow, fast, warmfront: Warmfront::new() }
    }

    /// Tries to mount. Whatever comes of it, nothing is mounted and no file is lost afterwards.
    #[track_caller]
    fn mount(&self, arguments: &[&str], origin: &Path, mountpoint: &Path) -> Finished {
        let program = self.warmfront.program(["mount"]).args(arguments);
        let finished = program.arg(origin).arg(mountpoint).run();
        if is_mounted(mountpoint) {
            self.warmfront.program(["unmount"]).arg(mountpoint).run();
            panic!("this was mounted: {finished}");
        }
        assert_eq!(fs::read(self.slow.join("file")).unwrap().len(), 1000);
        finished
    }
}

#[test]
fn origin_missing() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let missing = place.base.path().join("missing");
    let finished = place.mount(&[], &missing, &place.fast);
    finished.fails_with(1, &[missing.to_str().unwrap(), "does not exist"]);
}

#[test]
fn origin_not_a_directory() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let file = place.slow.join("file");
    let finished = place.mount(&[], &file, &place.fast);
    finished.fails_with(1, &[file.to_str().unwrap(), "not a directory"]);
}

/// Root can read everything, so this is tried as somebody else.
#[test]
fn origin_unreadable() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("setpriv"));
    let place = Place::new();
    fs::set_permissions(&place.slow, fs::Permissions::from_mode(0o700)).unwrap();
    let home = place.base.path().join("home");
    fs::create_dir(&home).unwrap();
    for path in [&home, &place.fast] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let command = place.warmfront.program(["mount"]).arg(&place.slow).arg(&place.fast);
    let command = command.into_command();
    // The tree may lie where others cannot go; the command itself comes along.
    let binary = home.join("warmfront");
    fs::copy(command.get_program(), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let finished = Program::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&binary)
        .args(command.get_args())
        .env("WARMFRONT_CONFIG_DIR", &home)
        .env("WARMFRONT_RUNTIME_DIR", &home)
        .run();
    assert!(!is_mounted(&place.fast), "{finished}");
    finished.fails_with(1, &[place.slow.to_str().unwrap(), "ermission"]);
}

#[test]
fn origin_inside_the_mount_point() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let above = place.base.path();
    let finished = place.mount(&[], &place.slow, above);
    finished.fails_with(1, &[above.to_str().unwrap(), "inside"]);
    let finished = place.mount(&[], &place.slow, &place.slow);
    finished.fails_with(1, &[place.slow.to_str().unwrap()]);
}

#[test]
fn mount_point_inside_the_origin() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let inside = place.slow.join("fast");
    fs::create_dir(&inside).unwrap();
    let finished = place.mount(&[], &place.slow, &inside);
    finished.fails_with(1, &[inside.to_str().unwrap(), "inside"]);
}

#[test]
fn mount_point_missing() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let missing = place.base.path().join("missing");
    let finished = place.mount(&[], &place.slow, &missing);
    finished.fails_with(1, &[missing.to_str().unwrap(), "does not exist"]);
}

#[test]
fn mount_point_not_empty() {
    require!(Requirement::Fuse);
    let place = Place::new();
    fill(&place.fast.join("precious"), 1, 10);
    let finished = place.mount(&[], &place.slow, &place.fast);
    finished.fails_with(1, &[place.fast.to_str().unwrap(), "not empty"]);
    assert!(place.fast.join("precious").exists());
}

#[test]
fn already_mounted() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    fill(&mount.origin().join("file"), 1, 1000);
    let place = Place::new();
    let program = mount.warmfront().program(["mount"]).arg(&place.slow).arg(mount.path());
    program.run().fails_with(1, &[mount.path().to_str().unwrap(), "already"]);
    assert_eq!(fs::read(mount.join("file")).unwrap().len(), 1000);
    mount.unmount();
}

#[test]
fn unknown_property() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let finished = place.mount(&["-o", "primarycahce=all"], &place.slow, &place.fast);
    let known = ["primarycache", "recordsize", "prefetch", "freebehind", "readahead", "coherence"];
    finished.fails_with(2, &known).fails_with(2, &["primarycahce", "directio", "pagecache"]);
}

#[test]
fn unknown_value() {
    require!(Requirement::Fuse);
    let place = Place::new();
    for (setting, fragments) in [
        ("primarycache=metdata", ["metdata", "metadata", "none"]),
        ("coherence=maybe", ["maybe", "exclusive", "ttl"]),
        ("pagecache=7", ["7", "on", "off"]),
        ("recordsize=5000", ["5000", "recordsize", "power"]),
        ("recordsize=12Q", ["12Q", "recordsize", "power"]),
        ("coherence=ttl=soon", ["soon", "ttl", "SECONDS"]),
        ("primarycache", ["primarycache", "=", "property"]),
    ] {
        place.mount(&["-o", setting], &place.slow, &place.fast).fails_with(2, &fragments);
    }
}

#[test]
fn sizes_that_do_not_parse() {
    require!(Requirement::Fuse);
    let place = Place::new();
    for size in ["lots", "12Q", "-1", "200%", "", "99999999999999999999G"] {
        let finished = place.mount(&["--arc-max", size], &place.slow, &place.fast);
        finished.fails_with(2, &["--arc-max", size]);
    }
}

#[test]
fn set_refuses_what_mount_refuses() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let set = |setting: &str| mount.warmfront().program(["set", setting]).arg(mount.path()).run();
    set("colour=red").fails_with(2, &["colour", "primarycache"]);
    set("prefetch=some").fails_with(2, &["some", "all", "metadata", "none"]);
    let other = test_directory();
    let get = mount.warmfront().program(["get", "all"]).arg(other.path()).run();
    get.fails_with(1, &[other.path().to_str().unwrap()]);
    mount.warmfront().program(["get", "all", "tank"]).run().fails_with(1, &["tank"]);
    mount.unmount();
}

#[test]
fn a_settings_file_with_an_error() {
    require!(Requirement::Fuse);
    let place = Place::new();
    place.warmfront.program(["pool", "create", "tank"]).arg(&place.slow).run().success();
    let files: Vec<PathBuf> = fs::read_dir(place.warmfront.config_directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(OsStr::new("toml")))
        .collect();
    let [file] = &files[..] else { panic!("not one settings file: {files:?}") };
    let good = fs::read_to_string(file).unwrap();
    assert!(good.trim_start().starts_with('#'), "the file begins with a comment:\n{good}");
    let line = good.lines().count() + 1;
    fs::write(file, format!("{good}origin = = 7\n")).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let finished = place.warmfront.program(["pool", "list"]).run();
    finished.fails_with(1, &[name, &format!("{line}"), "expected"]);
    assert!(fs::read_to_string(file).unwrap().ends_with("origin = = 7\n"), "the file is untouched");

    // Comments that people wrote survive a change by the command.
    fs::write(file, format!("# kept by me\n{good}")).unwrap();
    place.warmfront.run(["set", "prefetch=none", "tank"]);
    let changed = fs::read_to_string(file).unwrap();
    assert!(changed.contains("# kept by me"), "{changed}");
    fs::write(file, changed.replace("\"none\"", "\"nnone\"")).unwrap();
    let finished = place.warmfront.program(["get", "prefetch", "tank"]).run();
    finished.fails_with(1, &[name, "nnone", "none"]);
}

#[test]
fn unmounting_what_is_not_mounted() {
    require!(Requirement::Fuse);
    let place = Place::new();
    let finished = place.warmfront.program(["unmount"]).arg(&place.fast).run();
    finished.fails_with(1, &[place.fast.to_str().unwrap(), "not"]);
}

#[test]
fn commands_without_sense() {
    let warmfront = Warmfront::new();
    for arguments in [
        &["frobnicate"][..],
        &["mount"],
        &["mount", "--bogus", "/a", "/b"],
        &["arcstat", "/", "soon"],
        &["prime"],
    ] {
        warmfront.program(arguments).run().fails_with(2, &["sage"]);
    }
    warmfront.program(["why", "/proc/version"]).run().fails_with(1, &["/proc/version"]);
    assert!(warmfront.run(["--help"]).contains("mount"));
    assert!(warmfront.run(["--version"]).starts_with("warmfront "));
}

/// A path in bytes that are not UTF-8 is a path like any other, on the command line too.
#[test]
fn places_with_names_that_are_not_text() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let slow = base.path().join(OsStr::from_bytes(b"slow-\xff"));
    let fast = base.path().join(OsStr::from_bytes(b"fast-\xfe"));
    fs::create_dir(&slow).unwrap();
    fs::create_dir(&fast).unwrap();
    fill(&slow.join("file"), 1, 1000);
    let warmfront = Warmfront::new();
    let mounted = warmfront.program(["mount"]).arg(&slow).arg(&fast).run();
    let seen = fs::read(fast.join("file")).map(|bytes| bytes.len());
    let status = warmfront.program(["status", "--json"]).arg(&fast).run();
    let unmounted = warmfront.program(["unmount"]).arg(&fast).run();
    mounted.success();
    assert_eq!(seen.expect("it is mounted"), 1000);
    status.success();
    unmounted.success();
}
