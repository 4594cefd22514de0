//! Log devices of a real mount: what was made to last is at the origin after a crash, and nobody
//! goes on without a log that may hold it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use warmfront_tests::{
    Mount, Place, Program, Requirement, Warmfront, random_bytes, require, test_directory,
    wait_until,
};

#[path = "log/advice.rs"]
mod advice;
#[path = "log/closed.rs"]
mod closed;
#[path = "log/erased.rs"]
mod erased;
#[path = "log/origins.rs"]
mod origins;
#[path = "log/refused.rs"]
mod refused;
#[path = "log/replaced.rs"]
mod replaced;
#[path = "log/successor.rs"]
mod successor;

const WORDS: [&str; 3] = ["-o", "write=back", "--arc-max=64M"];

/// A mount with a log device of 32 MiB beside its mount point, and that device.
fn with_log() -> (Mount, String) {
    with_log_and(&[])
}

/// The same with these words more.
fn with_log_and(more: &[&str]) -> (Mount, String) {
    let base = test_directory();
    let log = base.path().join("log").to_str().expect("text").to_string();
    let device = format!("{log}:32M");
    let words = WORDS.iter().chain(more);
    let builder = words.fold(Mount::builder().base(base), |all, word| all.argument(word));
    (builder.argument("--log").argument(&device).start(), log)
}

/// Kills the daemon, and takes away the mount that it leaves behind.
fn kill(mount: &mut Mount) {
    mount.kill();
    mount.warmfront().run(["unmount".as_ref(), mount.path().as_os_str()]);
}

/// Starts again, with these words more.
fn restart(mount: &mut Mount, more: &[&str]) {
    mount.restart(&[&WORDS[..], more].concat());
}

/// Writes a file and makes it last.
fn write(path: &Path, contents: &str) {
    let mut file = File::create(path).expect("it can be made");
    file.write_all(contents.as_bytes()).expect("it is written");
    file.sync_all().expect("it lasts");
}

/// What a crash of the origin's machine takes of a file: its contents.
fn lose(path: &Path) {
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_len(0).expect("it can be cut");
}

/// Tries to mount what `mount` has mounted.
fn try_mount(mount: &Mount, more: &[&str]) -> warmfront_tests::Finished {
    let program = mount.warmfront().program(["mount"]).args(WORDS).args(more);
    program.arg(mount.origin()).arg(mount.path()).run()
}

fn records(warmfront: &Warmfront, target: &str) -> Vec<Value> {
    let told = warmfront.run(["log", "show", "--json", target]);
    let lines = told.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    lines.filter_map(|line: Value| line.get("record").cloned()).collect()
}

#[test]
fn what_was_made_to_last_survives_the_daemon() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    fs::create_dir(mount.join("directory")).expect("made");
    for name in ["kept", "moved", "removed"] {
        write(&mount.join("directory").join(name), name);
    }
    // Nobody has asked for these to last; the origin has them all the same.
    fs::rename(mount.join("directory/moved"), mount.join("there")).expect("renamed");
    fs::remove_file(mount.join("directory/removed")).expect("removed");
    mount.kill();
    let origin = mount.origin().to_owned();
    lose(&origin.join("directory/kept"));
    lose(&origin.join("there"));
    restart(&mut mount, &["--log", &log]);
    assert!(mount.log().contains("were brought to the origin"), "{}", mount.log());
    for (path, contents) in [("directory/kept", "kept"), ("there", "moved")] {
        assert_eq!(fs::read_to_string(origin.join(path)).expect("it is there"), contents);
        assert_eq!(fs::read_to_string(mount.join(path)).expect("it is there"), contents);
    }
    assert!(!origin.join("directory/removed").exists(), "it was removed before the crash");
    assert!(!origin.join("directory/moved").exists(), "it was moved before the crash");
    assert_eq!(fs::read_dir(&origin).expect("a directory").count(), 2);
    // Unmounted, nothing of it is in the log only.
    write(&mount.join("last"), "last");
    mount.unmount();
    assert_eq!(fs::read_to_string(origin.join("last")).expect("it is there"), "last");
    assert_eq!(records(mount.warmfront(), &log).len(), 0);
    restart(&mut mount, &[]);
}

/// While a group is on its way to a slow origin, programs make changes last, of the files that are
/// written just then as well; the daemon dies before the group has arrived.
#[test]
fn what_is_promised_during_a_commit_lasts() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let log = base.path().join("log").to_str().expect("text").to_string();
    let words = ["--slow=hdd", "--log", &format!("{log}:32M")];
    let builder = WORDS.iter().chain(&words).fold(Mount::builder(), |all, word| all.argument(word));
    let mut mount = builder.base(base).start();
    let block = |number: u64, turn: u64| random_bytes(number << 8 | turn, 4096);
    // So far apart that each is a movement of the arm.
    let place = |number: u64| (number * 7919 % 1000) << 20;
    for round in 0..3 {
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let file = options.open(mount.join("file")).expect("it opens");
        for number in 0..400 {
            file.write_all_at(&block(number, 3 * round), place(number)).expect("RAM takes it");
        }
        let sync = mount.warmfront().program(["sync"]).arg(mount.path());
        let mut sync = sync.into_command().spawn().expect("it starts");
        let is_under_way = |sync: &mut Child| sync.try_wait().expect("a child").is_none();
        assert!(!wait_until(Duration::from_millis(200), || !is_under_way(&mut sync)));
        for number in 0..20 {
            file.write_all_at(&block(number, 3 * round + 1), place(number)).expect("it is taken");
            file.sync_data().expect("it lasts");
            write(&mount.join(format!("new {number}")), &format!("of round {round}"));
        }
        assert!(is_under_way(&mut sync), "the group has arrived, so nothing was tested");
        mount.kill();
        sync.kill().expect("it waits for a daemon that is gone");
        sync.wait().expect("it has ended");
        mount.restart(&[&WORDS[..], &words[..]].concat());
        assert!(mount.log().contains("were brought to the origin"), "{}", mount.log());
        let file = File::open(mount.join("file")).expect("it is there");
        let mut found = vec![0; 4096];
        for number in 0..20 {
            file.read_exact_at(&mut found, place(number)).expect("a read");
            assert!(found == block(number, 3 * round + 1), "block {number} of round {round}");
            let new = fs::read_to_string(mount.join(format!("new {number}")));
            assert_eq!(new.expect("it is there"), format!("of round {round}"));
        }
    }
}

/// Where others may look at the origin, it has what is closed.
#[test]
fn what_is_closed_survives_the_daemon() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("coherence", "open").start();
    fs::write(mount.join("file"), "closed").expect("it is written");
    mount.kill();
    let found = fs::read_to_string(mount.origin().join("file"));
    assert_eq!(found.expect("it is there"), "closed");
    mount.restart(&[]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "closed");
}

/// After an unmount nothing is anywhere but at the origin.
#[test]
fn what_is_unmounted_needs_no_device() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    let cache = mount.origin().parent().expect("a directory").join("cache");
    let device = format!("{}:64M", cache.display());
    mount.unmount();
    restart(&mut mount, &["--log", &log, "--cache", &device]);
    for (name, is_synced) in [("synced", true), ("written", false)] {
        let mut file = File::create(mount.join(name)).expect("it can be made");
        file.write_all(name.as_bytes()).expect("it is written");
        if is_synced {
            file.sync_all().expect("it lasts");
        }
    }
    fs::rename(mount.join("synced"), mount.join("renamed")).expect("renamed");
    mount.unmount();
    fs::remove_file(&log).expect("it was there");
    fs::remove_file(&cache).expect("it was there");
    for (name, contents) in [("renamed", "synced"), ("written", "written")] {
        let found = fs::read_to_string(mount.origin().join(name));
        assert_eq!(found.expect("it is there"), contents);
    }
    restart(&mut mount, &[]);
    assert_eq!(fs::read_to_string(mount.join("renamed")).expect("it is there"), "synced");
}

#[test]
fn a_lost_log_is_missed() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    write(&mount.join("file"), "contents");
    mount.kill();
    lose(&mount.origin().join("file"));
    let hint = ["--discard-log", "--read-only", "acknowledged"];
    try_mount(&mount, &[]).fails_with(1, &[&["holds ", "this directory"], &hint[..]].concat());
    let hidden = format!("{log}.hidden");
    fs::rename(&log, &hidden).expect("renamed");
    try_mount(&mount, &["--log", &log]).fails_with(1, &[&["is not there"], &hint[..]].concat());
    assert!(!Path::new(&log).exists(), "no new one is made in its place");
    let other = format!("{log}.other");
    File::create(&other).expect("a file").set_len(32 << 20).expect("a hole");
    try_mount(&mount, &["--log", &other]).fails_with(1, &["is not there, and may have held"]);
    assert!(fs::read(&other).expect("it is there").iter().all(|byte| *byte == 0));
    fs::copy(&other, &log).expect("copied");
    try_mount(&mount, &["--log", &log]).fails_with(1, &["holds no log any more"]);
    fs::remove_file(&log).expect("it was there");
    // To look at the origin is possible, and changes nothing.
    let said = try_mount(&mount, &["--read-only"]).success();
    assert!(said.contains("may hold writes that are not at the origin"), "{said}");
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "");
    mount.warmfront().run(["unmount".as_ref(), mount.path().as_os_str()]);
    try_mount(&mount, &[]).fails_with(1, &["is not there, and may have held"]);
    // It went by another name.
    restart(&mut mount, &["--log", &hidden]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "contents");
    // What is given up does not come back.
    write(&mount.join("file"), "later contents");
    mount.kill();
    lose(&mount.origin().join("file"));
    restart(&mut mount, &["--discard-log"]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "");
    mount.unmount();
    restart(&mut mount, &["--log", &hidden]);
    assert!(mount.log().contains("are given up"), "{}", mount.log());
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "");
    mount.kill();
    fs::remove_file(&hidden).expect("it was there");
    let told = |mount: &Mount| mount.log().matches("held is given up").count();
    let before = told(&mount);
    restart(&mut mount, &["--log", &format!("{hidden}:32M"), "--discard-log"]);
    assert_eq!(told(&mount), before + 1, "{}", mount.log());
}

#[test]
fn a_log_is_looked_at_replayed_and_given_up_by_hand() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    write(&mount.join("file"), "contents");
    // While it is in use it can be looked at, by its path and by its pool.
    let pool = mount.status()["pool"].as_str().expect("a name").to_string();
    let mountpoint = mount.path().to_str().expect("text").to_string();
    for target in [&log, &pool, &mountpoint] {
        let shown = mount.warmfront().run(["log", "show", target]);
        assert!(shown.contains("create \"file\""), "{shown}");
        assert!(shown.contains(&format!("pool `{pool}` is mounted and writes to the log")));
    }
    let in_use = mount.warmfront().program(["log", "replay", &log]);
    in_use.run().fails_with(1, &["is mounted and uses its log"]);
    mount.kill();
    let warmfront = mount.warmfront();
    warmfront.run(["unmount".as_ref(), mount.path().as_os_str()]);
    let kinds: Vec<String> = records(warmfront, &log)
        .iter()
        .map(|record| record["kind"].as_str().expect("a kind").to_string())
        .collect();
    assert!(kinds.iter().any(|kind| kind == "create"), "{kinds:?}");
    assert!(kinds.iter().any(|kind| kind == "write"), "{kinds:?}");
    let shown = warmfront.run(["log", "show", &log]);
    assert!(shown.contains("create \"file\"") && shown.contains("it is whole"), "{shown}");
    let file = mount.origin().join("file");
    lose(&file);
    let told = warmfront.run(["log", "replay", &log]);
    assert!(told.contains("were brought to the origin"), "{told}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "contents");
    let told = warmfront.run(["log", "replay", &log]);
    assert!(told.contains("holds nothing that the origin does not have"), "{told}");
    restart(&mut mount, &[]);
    mount.unmount();

    restart(&mut mount, &["--log", &log]);
    write(&mount.join("file"), "never to be seen");
    mount.kill();
    let warmfront = mount.warmfront();
    warmfront.run(["unmount".as_ref(), mount.path().as_os_str()]);
    lose(&file);
    let told = warmfront.run(["log", "discard", &log]);
    assert!(told.contains("are given up"), "{told}");
    restart(&mut mount, &["--log", &log]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "");
    let nothing = mount.warmfront().program(["log", "show", "nowhere"]);
    nothing.run().fails_with(1, &["`nowhere` is no pool with a log device"]);
}

/// A daemon whose mount is taken away when this is dropped.
struct Foreground<'a> {
    warmfront: &'a Warmfront,
    top: String,
    daemon: Child,
}

impl Drop for Foreground<'_> {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        self.warmfront.program(["unmount", &self.top]).run();
    }
}

/// Mounts a pool or directory with a log, makes a file last, and kills the daemon.
fn crash(place: &Place, origin: &str, top: &str, log: &str, contents: &str) {
    let (warmfront, top, log) = (&place.warmfront, place.path(top), place.path(log));
    let origin = if place.join(origin).is_dir() { place.path(origin) } else { origin.into() };
    let program = warmfront.program(["mount", "-f", &origin, &top, "--log", &log]);
    let mut command = program.args(WORDS).into_command();
    let daemon = command.stdout(Stdio::null()).spawn().expect("it starts");
    let _mount = Foreground { warmfront, top: top.clone(), daemon };
    let answers = || warmfront.program(["status", &top]).run().succeeded();
    assert!(wait_until(Duration::from_secs(20), answers), "the mount does not come up");
    write(&Path::new(&top).join("file"), contents);
}

/// Two origins whose directories have the same name, each with a log: the name means neither.
#[test]
fn a_name_that_two_origins_have_means_no_log() {
    require!(Requirement::Fuse);
    let place = Place::new(&["one/data", "two/data", "three/data", "fast", "fast2"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let at = |directory, words: &[&str]| place.run_in(directory, words);
    let held = |log: &str| records(warmfront, &path(log)).len();
    crash(&place, "one/data", "fast", "la:32M", "one");
    crash(&place, "two/data", "fast2", "lb:32M", "two");
    let all = [path("one/data"), path("two/data"), path("la"), path("lb")];
    for command in ["show", "replay", "discard"] {
        for directory in ["one", "two", "."] {
            let told = at(directory, &["log", command, "data"]);
            let told = told.fails_with(1, &["means more than one log"]);
            told.fails_with(1, &all.each_ref().map(String::as_str));
        }
        // A directory is an origin, and no device.
        let told = at("three", &["log", command, "./data"]);
        let told = told.fails_with(1, &["no origin or mount point of one"]);
        assert!(!told.stderr.contains("name a file in it"), "{}", told.stderr);
    }
    assert!(held("la") > 0 && held("lb") > 0, "nothing is given up");
    assert!(at(".", &["log", "show", "one/data"]).success().contains(&path("la")));
    assert!(at("two", &["log", "show", "./data"]).success().contains(&path("lb")));
    // A mount of another origin with the same name does not keep the log from being replayed.
    lose(&place.join("two/data/file"));
    let mount = ["mount", &path("three/data"), &path("fast"), "--arc-max=64M"];
    warmfront.run(mount);
    let told = at("two", &["log", "replay", "./data"]);
    warmfront.run(["unmount", &path("fast")]);
    assert!(told.success().contains("were brought to the origin"));
    assert_eq!(fs::read_to_string(path("two/data/file")).expect("it is there"), "two");
    let told = at("one", &["log", "discard", "./data"]).success();
    assert!(told.contains("are given up") && told.contains(&path("one/data")), "{told}");
    assert_eq!((held("la"), held("lb")), (0, 0));
}

/// An older copy of a log in the place of it would undo what was written since.
#[test]
fn an_old_copy_of_a_log_is_not_replayed() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    let old = format!("{log}.old");
    let crash = |mount: &mut Mount, contents: &str| {
        write(&mount.join("file"), contents);
        kill(mount);
    };
    crash(&mut mount, "old");
    fs::copy(&log, &old).expect("copied");
    restart(&mut mount, &["--log", &log]);
    write(&mount.join("file"), "new");
    mount.unmount();
    fs::copy(&old, &log).expect("copied");
    let file = mount.origin().join("file");
    let words = ["an older copy", "warmfront log discard", "log replay --force"];
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    let replay = mount.warmfront().program(["log", "replay", &log]);
    replay.run().fails_with(1, &words);
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("will not be replayed"), "{shown}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "new");
    mount.warmfront().run(["log", "discard", &log]);

    // So is one whose records were given up by hand.
    restart(&mut mount, &["--log", &log]);
    crash(&mut mount, "given up");
    fs::copy(&log, &old).expect("copied");
    mount.warmfront().run(["log", "discard", &log]);
    fs::copy(&old, &log).expect("copied");
    fs::write(&file, "kept").expect("written");
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "kept");
    // Whoever knows better can have it.
    let told = mount.warmfront().run(["log", "replay", "--force", &log]);
    assert!(told.contains("were brought to the origin"), "{told}");

    // And one that the pool went on without.
    restart(&mut mount, &["--log", &log]);
    crash(&mut mount, "gone on without");
    restart(&mut mount, &["--log", &format!("{log}.other:32M"), "--discard-log"]);
    mount.unmount();
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("it was given up, and will not be replayed"), "{shown}");
}

/// A log is not told from a copy of it by its id: one of an earlier life, with records or without,
/// is not taken for the log that a crash has left, which is taken still.
#[test]
fn a_copy_of_an_earlier_life_is_not_taken_for_the_log() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    let copy = |from: &str, to: &str| {
        fs::copy(from, to).expect("copied");
    };
    let [old, empty, new] = ["old", "empty", "new"].map(|name| format!("{log}.{name}"));
    write(&mount.join("file"), "old");
    kill(&mut mount);
    copy(&log, &old);
    restart(&mut mount, &["--log", &log]);
    mount.unmount();
    copy(&log, &empty);
    restart(&mut mount, &["--log", &log]);
    write(&mount.join("file"), "new");
    kill(&mut mount);
    copy(&log, &new);
    let file = mount.origin().join("file");
    lose(&file);
    let words = ["an older copy", "log replay --force", "--discard-log", "--read-only"];
    for earlier in [&old, &empty] {
        copy(earlier, &log);
        try_mount(&mount, &["--log", &log]).fails_with(1, &words);
        let replay = mount.warmfront().program(["log", "replay", &log]);
        replay.run().fails_with(1, &words);
        let shown = mount.warmfront().run(["log", "show", &log]);
        assert!(shown.contains("will not be replayed"), "{shown}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "");
    }
    copy(&new, &log);
    restart(&mut mount, &["--log", &log]);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "new");
    write(&mount.join("file"), "newest");
    kill(&mut mount);

    // Whoever has no other one can have it, and nothing of the others comes back.
    copy(&new, &log);
    mount.warmfront().run(["log", "replay", "--force", &log]);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "new");
    restart(&mut mount, &["--log", &log]);
    write(&mount.join("file"), "later");
    kill(&mut mount);
    copy(&old, &log);
    restart(&mut mount, &["--log", &log, "--discard-log"]);
    mount.unmount();
    copy(&new, &log);
    restart(&mut mount, &["--log", &log]);
    assert!(mount.log().contains("are given up"), "{}", mount.log());
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "later");
}

/// The log of a pool is given up by hand though it is lost; what lies in its place stays.
#[test]
fn a_lost_log_is_given_up_by_hand() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    for replacement in [None, Some("another program's")] {
        write(&mount.join("file"), "contents");
        kill(&mut mount);
        fs::remove_file(&log).expect("it was there");
        if let Some(contents) = replacement {
            fs::write(&log, contents.repeat(2 << 20)).expect("written");
        }
        try_mount(&mount, &[]).fails_with(1, &["and may have held"]);
        let told = mount.warmfront().run(["log", "discard", &log]);
        let words = replacement.map_or("is not there", |_| "of another program");
        assert!(told.contains(words) && told.contains("look after what was written"), "{told}");
        if let Some(contents) = replacement {
            let found = fs::read(&log).expect("it is there");
            assert_eq!(found, contents.repeat(2 << 20).into_bytes(), "it is not touched");
            fs::remove_file(&log).expect("it was there");
        }
        let device = format!("{log}:32M");
        restart(&mut mount, &["--log", &device]);
    }
    let again = mount.warmfront().program(["log", "discard", &log]);
    again.run().fails_with(1, &["is mounted and uses its log"]);
    mount.unmount();
    let nothing = mount.warmfront().run(["log", "discard", &log]);
    assert!(nothing.contains("0 records"), "{nothing}");
}

/// Takes its log away from a mount, waits until that is noticed, and says how `status` and `doctor`
/// tell it.
fn take_log_away(mount: &Mount, take: impl FnOnce()) -> [String; 2] {
    let is_told = || mount.log().contains("the log device failed");
    assert!(!is_told(), "{}", mount.log());
    take();
    assert!(wait_until(Duration::from_secs(20), is_told), "{}", mount.log());
    let doctor = mount.warmfront().program(["doctor"]).arg(mount.path()).run();
    [mount.run(&["status"]), doctor.stdout]
}

/// What is made to last with a log and after it has gone is there after a crash, and the log is
/// never replayed; `take` takes it away, and puts it back for the next start.
fn lasts_without_its_log(what: &str, take: fn(&Path), put_back: fn(&Path)) {
    let (mut mount, log) = with_log();
    // So long that a block of it lies behind what is left of one that is cut.
    for number in 0..10 {
        write(&mount.join(format!("before{number}")), "contents");
    }
    let told = take_log_away(&mount, || take(Path::new(&log)));
    assert!(told[0].contains("IS GONE"), "{}", told[0]);
    for told in told {
        for word in [what, "warmfront pool remove", "warmfront pool add", &log] {
            assert!(told.contains(word), "no {word}: {told}");
        }
    }
    for number in 0..10 {
        write(&mount.join(format!("after{number}")), "contents");
    }
    write(&mount.join("before0"), "later contents");
    kill(&mut mount);
    put_back(Path::new(&log));
    restart(&mut mount, &["--log", &format!("{log}:32M")]);
    assert!(!mount.log().contains("were brought to the origin"), "{}", mount.log());
    for number in 0..10 {
        for name in [format!("before{number}"), format!("after{number}")] {
            let contents = if name == "before0" { "later contents" } else { "contents" };
            assert_eq!(fs::read_to_string(mount.join(name)).expect("it is there"), contents);
        }
    }
    assert!(!mount.run(&["status"]).contains("IS GONE"));
    mount.unmount();
}

#[test]
fn a_log_that_is_removed_while_it_is_in_use_is_given_up() {
    require!(Requirement::Fuse);
    let take = |log: &Path| fs::remove_file(log).expect("it was there");
    lasts_without_its_log("has been removed", take, |_| ());
}

#[test]
fn a_log_that_is_moved_while_it_is_in_use_is_given_up() {
    require!(Requirement::Fuse);
    let take = |log: &Path| fs::rename(log, log.with_extension("moved")).expect("renamed");
    let put_back = |log: &Path| fs::rename(log.with_extension("moved"), log).expect("renamed");
    lasts_without_its_log("has been removed", take, put_back);
}

#[test]
fn a_log_that_is_cut_while_it_is_in_use_is_given_up() {
    require!(Requirement::Fuse);
    let take = |log: &Path| {
        let file = File::options().write(true).open(log).expect("it is there");
        file.set_len(17 << 20).expect("it can be cut");
    };
    lasts_without_its_log("has been made shorter", take, |_| ());
}

/// What the words say about a log that has gone helps, and does not touch what is not ours.
#[test]
fn a_log_that_has_gone_is_replaced_while_the_pool_is_in_use() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    write(&mount.join("file"), "contents");
    let replace = || {
        fs::rename(&log, format!("{log}.old")).expect("renamed");
        fs::write(&log, "somebody else's").expect("written");
    };
    let [status, _] = take_log_away(&mount, replace);
    assert!(status.contains("IS GONE"), "{status}");
    let pool = mount.status()["pool"].as_str().expect("a name").to_string();
    mount.warmfront().run(["pool", "remove", &pool, "log", &log]);
    assert_eq!(fs::read_to_string(&log).expect("it is there"), "somebody else's");
    assert_eq!(mount.status()["writes"]["has_lost_log"], false);
    let other = format!("{log}.other");
    mount.warmfront().run(["pool", "add", &pool, "log", &format!("{other}:32M")]);
    let doctor = mount.warmfront().program(["doctor"]).arg(mount.path()).run().stdout;
    for told in [mount.run(&["status"]), doctor] {
        assert!(!told.contains("IS GONE") && !told.contains("pool remove"), "{told}");
    }
    write(&mount.join("file"), "later contents");
    mount.kill();
    lose(&mount.origin().join("file"));
    restart(&mut mount, &["--log", &other]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "later contents");
}

/// Whoever stops a mount while the log comes to the origin is told what that means, and the next
/// one begins again.
#[test]
fn a_replay_is_stopped_and_begun_again() {
    require!(Requirement::Fuse);
    const FILES: u32 = 400;
    let (mut mount, log) = with_log();
    let name = |number: u32| format!("file{number:03}");
    for number in 0..FILES {
        write(&mount.join(name(number)), "contents");
    }
    kill(&mut mount);
    (0..FILES).for_each(|number| lose(&mount.origin().join(name(number))));
    let slow = |foreground: &[&str]| {
        let program = mount.warmfront().program(["mount", "--slow=hdd", "--log", &log]);
        let program = program.args(WORDS).args(foreground).arg(mount.origin()).arg(mount.path());
        let mut command = program.into_command();
        command.stderr(Stdio::piped()).spawn().expect("it starts")
    };
    for foreground in [&[][..], &["-f"]] {
        let child = slow(foreground);
        let status = || mount.warmfront().program(["status"]).arg(mount.path()).run();
        let is_starting = || status().stderr.contains("is not mounted yet: process");
        assert!(wait_until(Duration::from_secs(20), is_starting), "{}", status().stderr);
        let unmount = mount.warmfront().program(["unmount"]).arg(mount.path());
        unmount.run().fails_with(1, &["is not mounted yet: process"]);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it lives");
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{said}");
        assert!(said.contains("nothing is mounted") && said.contains("begins again"), "{said}");
        status().fails_with(1, &["is no pool"]);
        assert!(!records(mount.warmfront(), &log).is_empty(), "the log keeps it");
    }
    restart(&mut mount, &["--log", &log]);
    assert!(mount.log().contains("were brought to the origin"), "{}", mount.log());
    let is_there = |number| fs::read_to_string(mount.join(name(number))).expect("there");
    assert!((0..FILES).all(|number| is_there(number) == "contents"));
}

/// A version that was replaced by a rename, which nobody has asked to last, is not missed.
#[test]
fn a_file_that_was_renamed_over_is_not_missed() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    for version in ["first", "second"] {
        write(&mount.join("ref.lock"), version);
        fs::rename(mount.join("ref.lock"), mount.join("ref")).expect("renamed");
    }
    mount.kill();
    restart(&mut mount, &["--log", &log]);
    assert!(mount.log().contains("were brought to the origin"), "{}", mount.log());
    assert!(!mount.log().contains("not brought"), "{}", mount.log());
    assert_eq!(fs::read_to_string(mount.join("ref")).expect("it is there"), "second");
}

/// What lies behind a damaged block may have been acknowledged: that is told wherever it is
/// left out.
#[test]
fn records_behind_damage_are_counted_wherever_they_are_left_out() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    // One block with what nobody has committed before, then another one.
    for number in 0..5 {
        write(&mount.join(format!("file{number}")), "contents");
    }
    kill(&mut mount);
    let device = File::options().read(true).write(true).open(&log).expect("it opens");
    let mut head = [0; 4096];
    let mut blocks = Vec::new();
    for page in 32..2048 {
        device.read_exact_at(&mut head, page * 4096).expect("a read");
        if head.starts_with(b"WARMFBLK") {
            blocks.push(page * 4096);
        }
    }
    // The last but one: the last one cannot tell that it had lasted if it was on its way with it.
    let place = blocks[blocks.len() - 2] + 110;
    device.read_exact_at(&mut head[..1], place).expect("a read");
    device.write_all_at(&[head[0] ^ 1], place).expect("a write");
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("more records of the log") && !shown.contains("whole"), "{shown}");
    assert!(shown.contains("may have been acknowledged"), "{shown}");
    let told = mount.warmfront().run(["log", "discard", &log]);
    assert!(told.contains("more records of the log"), "{told}");
    assert!(told.contains("may have been acknowledged"), "{told}");
    restart(&mut mount, &["--log", &log]);
}

#[test]
fn a_damaged_log_is_replayed_as_far_as_it_is_good() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    for number in 0..20 {
        write(&mount.join(format!("file{number:02}")), "contents");
    }
    kill(&mut mount);
    let before = records(mount.warmfront(), &log).len();
    for number in 0..20 {
        lose(&mount.origin().join(format!("file{number:02}")));
    }
    // Blocks lie one behind the other, each from a page on.
    let device = File::options().read(true).write(true).open(&log).expect("it opens");
    let place = (128 << 10) + 12 * 4096 + 110;
    let mut byte = [0];
    device.read_exact_at(&mut byte, place).expect("a read");
    device.write_all_at(&[byte[0] ^ 1], place).expect("a write");
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("it is damaged") && shown.contains("lie behind record"), "{shown}");
    let good = records(mount.warmfront(), &log).len();
    assert!(0 < good && good < before, "{good} of {before}");
    let words = ["is damaged", "were brought to the origin", "--discard-log"];
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    let size = |number: u32| {
        let found = fs::metadata(mount.origin().join(format!("file{number:02}")));
        found.expect("it is there").len()
    };
    let sizes: Vec<u64> = (0..20).map(size).collect();
    assert_eq!((sizes[0], sizes[19]), (8, 0), "{sizes:?}");
    assert!(sizes.is_sorted_by(|a, b| a >= b), "as far as it is good: {sizes:?}");
    restart(&mut mount, &["--log", &log, "--discard-log"]);
}

/// A log of which nothing good is left says so wherever it is looked at or given up.
#[test]
fn a_log_that_was_cut_and_made_long_again_is_damaged() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    let files = |name: &str, count: usize, bytes: usize| {
        for number in 0..count {
            write(&mount.join(format!("{name}{number}")), &"x".repeat(bytes));
        }
    };
    files("before", 30, 100 << 10);
    mount.run(&["sync"]);
    files("after", 20, 1000);
    kill(&mut mount);
    let file = File::options().write(true).open(&log).expect("it is there");
    for bytes in [1 << 20, 64 << 20] {
        file.set_len(bytes).expect("it can be cut");
    }
    // That they are is known where something tells that they had lasted.
    let words = ["is damaged", "acknowledged", "--discard-log"];
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    mount.warmfront().program(["log", "replay", &log]).run().fails_with(1, &words);
    let lost = "damaged: ";
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("holds 0 records; it is damaged") && shown.contains(lost), "{shown}");
    let shown = mount.warmfront().run(["log", "show", "--json", &log]);
    let shown: Value = serde_json::from_str(shown.trim()).expect("a line of JSON");
    let shown = &shown["log"];
    assert_eq!((&shown["records"], &shown["is_empty"]), (&0.into(), &false.into()), "{shown}");
    assert!(shown["end"].as_str().is_some_and(|end| end.contains(lost)), "{shown}");
    let told = mount.warmfront().run(["log", "discard", &log]);
    assert!(told.contains("are given up; it was damaged: "), "{told}");
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("holds nothing"), "{shown}");
    restart(&mut mount, &["--log", &log]);
    mount.unmount();
}

#[test]
fn what_cannot_be_a_log_device_is_refused_with_words() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "other", "fast", "second"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let mount = |origin: &str, top: &str, log: &str, more: &[&str]| {
        let words = ["mount", &path(origin), &path(top), "--arc-max=64M", "--log", log];
        warmfront.program(words).args(more).run()
    };
    let refused = |log: &str, code: i32, words: &[&str]| {
        mount("slow", "fast", log, &[]).fails_with(code, words);
    };
    refused(&path("nowhere/log"), 1, &["there is no directory", "/nowhere; make it first"]);
    refused(&path("other"), 1, &["it is a directory; name a file in it"]);
    refused(&path("small:1M"), 2, &["is too small", "at least 17M"]);
    refused(&path("wrong:big"), 2, &["`big` is not a size"]);
    assert!(!place.join("small").exists(), "nothing is left of it");
    mount("slow", "fast", &path("least:17M"), &[]).success();
    warmfront.run(["unmount", &path("fast")]);
    refused("/dev/null", 1, &["/dev/null"]);
    refused(&path("slow/log:32M"), 1, &["inside the origin", "choose a place outside"]);
    refused(&path("fast/log:32M"), 1, &["inside the mount point", "choose a place outside"]);
    File::create(place.join("tiny")).expect("a file").set_len(4096).expect("a hole");
    refused(&path("tiny"), 1, &["too small", "has 4K, and needs 17M", "tiny:SIZE"]);
    for name in ["tiny", "text"] {
        fs::write(path("text"), "somebody else's").expect("written");
        warmfront.program(["log", "show", &path(name)]).run().fails_with(1, &["too small"]);
    }
    let both = path("both:64M");
    let words = ["is named both as log and as cache device"];
    mount("slow", "fast", &both, &["--cache", &both]).fails_with(1, &words);
    assert!(!place.join("both").exists(), "nothing is left of it");
    let ext4 = path("ext4");
    File::create(&ext4).expect("a file").set_len(32 << 20).expect("a hole");
    Program::new("mkfs.ext4").args(["-q", &ext4]).run().success();
    refused(&ext4, 1, &["ext4 file system", "--force-log"]);
    mount("slow", "fast", &ext4, &["--force-log"]).success();
    let mode = fs::metadata(&ext4).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "what the log holds is for nobody else");
    // In use, and of another pool.
    mount("other", "second", &ext4, &[]).fails_with(1, &["in use"]);
    warmfront.run(["unmount", &path("fast")]);
    mount("other", "second", &ext4, &[]).fails_with(1, &["is the log of another pool"]);
    // A newer version, and superblocks that are damaged.
    let superblocks = |at: usize, byte: u8| {
        let file = File::options().write(true).open(&ext4).expect("it opens");
        for slot in 0..4 {
            file.write_all_at(&[byte], (slot * (32 << 10) + at) as u64).expect("written");
        }
    };
    superblocks(8, 9);
    refused(&ext4, 1, &["has version 9, this program reads 2"]);
    superblocks(8, 2);
    superblocks(100, 0xff);
    mount("other", "second", &ext4, &[]).fails_with(1, &["superblocks are damaged"]);
    // Its own pool knows that it held nothing.
    let anew = mount("slow", "fast", &ext4, &[]);
    assert!(format!("{anew}").contains("so nothing is missed"), "{anew}");
    anew.success();
    warmfront.run(["unmount", &path("fast")]);
}

#[test]
fn settings_keep_a_log_device() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let (origin, top) = (place.join("slow"), place.join("fast"));
    warmfront.run(["pool", "create", "tank", &path("slow"), "--log", &path("log:32M")]);
    let again = warmfront.program(["pool", "add", "tank", "log", &path("two:32M")]);
    again.run().fails_with(1, &["has a log device already"]);
    let mount = ["mount", "tank", &path("fast"), "--arc-max=64M"];
    assert!(warmfront.run(mount).contains("log:32M"));
    let device = || warmfront.status(&top)["log_device"].clone();
    assert_eq!(device(), path("log:32M"));
    for word in ["list", "status"] {
        assert!(!warmfront.run(["pool", word]).contains("acknowledged"), "it is mounted");
    }
    write(&top.join("file"), "contents");
    let program = warmfront.program(["pool", "remove", "tank", "log", "/nowhere"]);
    program.run().fails_with(1, &["has no log device /nowhere; it has"]);
    warmfront.run(["pool", "remove", "tank", "log", &path("log")]);
    assert_eq!(device(), Value::Null);
    let head = &fs::read(path("log")).expect("it is there")[..4096];
    assert!(head.iter().all(|byte| *byte == 0), "it is wiped");
    write(&top.join("file"), "contents without a log");
    warmfront.run(["pool", "add", "tank", "log", &path("two:32M")]);
    write(&top.join("file"), "contents with another log");
    assert_eq!(device(), path("two:32M"));
    warmfront.run(["unmount", "tank"]);
    let contents = fs::read_to_string(origin.join("file")).expect("it is there");
    assert_eq!(contents, "contents with another log");
    let shown = warmfront.run(["log", "show", "tank"]);
    assert!(shown.contains("holds nothing"), "{shown}");
    warmfront.run(["pool", "remove", "tank", "log", &path("two")]);
    assert!(!warmfront.run(mount).contains("log  "), "it has none any more");
    warmfront.run(["unmount", "tank"]);
}

/// A pool that crashed says that its log waits for the next mount.
#[test]
fn a_pool_that_crashed_tells_of_its_log() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    warmfront.run(["pool", "create", "tank", &path("slow")]);
    let said = |holds: bool| {
        for words in [vec!["pool", "list"], vec!["pool", "status", "tank"]] {
            let told = warmfront.run(&words);
            assert_eq!(told.contains("may hold acknowledged writes"), holds, "{told}");
            assert_eq!(told.contains(&path("log")), holds, "{told}");
        }
        let told = warmfront.run(["pool", "status", "--json", "tank"]);
        let row: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(row["log_to_replay"].is_string(), holds, "{row}");
    };
    said(false);
    crash(&place, "tank", "fast", "log:32M", "contents");
    said(true);
    warmfront.run(["log", "discard", &path("log")]);
    said(false);
}
