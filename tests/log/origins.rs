//! A log waits for its origin by whatever name that goes: what is written there before the log has
//! come would be overwritten by it.

use std::fs;
use std::path::PathBuf;

use warmfront_tests::{Finished, Place, Program, Requirement, require};

use crate::{crash, lose, write};

/// A directory that is seen in a second place, until dropped.
struct Bound(PathBuf);

impl Bound {
    fn new(place: &Place, directory: &str, at: &str) -> Bound {
        let (from, to) = (place.path(directory), place.path(at));
        Program::new("mount").args(["--bind", &from, &to]).run().success();
        Bound(place.join(at))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let unmounted = Program::new("umount").arg(&self.0).run();
        if !std::thread::panicking() {
            unmounted.success();
        }
    }
}

/// Tries to mount a directory or pool at `fast`.
pub(super) fn try_mount(place: &Place, origin: &str, more: &[&str]) -> Finished {
    let origin = if place.join(origin).is_dir() { place.path(origin) } else { origin.into() };
    let words = ["mount", &origin, &place.path("fast"), "--arc-max=64M", "-o", "write=back"];
    place.warmfront.program(words).args(more).run()
}

/// Mounts, and unmounts again.
pub(super) fn mounts(place: &Place, origin: &str, more: &[&str]) -> String {
    let said = try_mount(place, origin, more).success();
    place.warmfront.run(["unmount", &place.path("fast")]);
    said
}

/// An origin at `data/slow`, whose file `file` is in the log only.
fn crashed() -> Place {
    let place = Place::new(&["data/slow/inner", "data/other", "bound", "fast", "elsewhere"]);
    crash(&place, "data/slow", "fast", "log:32M", "acknowledged");
    lose(&place.join("data/slow/file"));
    place
}

fn contents(place: &Place, name: &str) -> String {
    fs::read_to_string(place.join(name)).expect("it is there")
}

/// Each way to write to the origin without the log is refused, and says what helps; nothing else
/// is. `origin` is where it is now.
fn waits(place: &Place, origin: &str) {
    let path = |name: &str| place.path(name);
    let inner = format!("{origin}/inner");
    let words = [
        &*format!("the log on {}, in use when pool `slow` last ran, holds ", path("log")),
        "would overwrite what is written until then",
        &format!("--log {}", path("log")),
        &format!("`warmfront log replay {}`", path(origin)),
        &format!("`warmfront log discard {}`", path(origin)),
        "--discard-log",
        "--read-only",
    ];
    place.warmfront.program(["pool", "destroy", "twin"]).run();
    place.warmfront.run(["pool", "create", "twin", &path(origin)]);
    let same = try_mount(place, "twin", &[]);
    same.fails_with(1, &words)
        .fails_with(1, &["this directory", "Mount this directory with --log"]);
    let new_log = format!("{}:32M", path("new log"));
    try_mount(place, "twin", &["--log", &new_log]).fails_with(1, &words);
    assert!(!place.join("new log").exists(), "nothing is made");
    let inside = try_mount(place, &inner, &[]).fails_with(1, &words);
    inside.fails_with(1, &["in which this directory lies", &format!("Mount {}", path(origin))]);
    let log = path("log");
    try_mount(place, &inner, &["--log", &log]).fails_with(1, &words);
    let around = try_mount(place, "data", &[]).fails_with(1, &words);
    around.fails_with(1, &["which lies in this directory", &format!("Mount {}", path(origin))]);
    assert!(mounts(place, "twin", &["--read-only"]).contains("may hold writes that"));
    mounts(place, "data/other", &[]);
    mounts(place, "elsewhere", &[]);
}

#[test]
fn a_log_waits_for_its_origin_by_any_name() {
    require!(Requirement::Fuse);
    let place = crashed();
    let path = |name: &str| place.path(name);
    waits(&place, "data/slow");
    try_mount(&place, "data/slow", &[]).fails_with(1, &["this directory", "holds "]);
    fs::rename(path("data/slow"), path("data/moved")).expect("renamed");
    waits(&place, "data/moved");
    try_mount(&place, "data/moved", &[]).fails_with(1, &["then called", &path("data/slow")]);
    fs::create_dir(path("data/slow")).expect("made");
    waits(&place, "data/moved");
    // With that very log it goes on, by the new name.
    let said = mounts(&place, "data/moved", &["--log", &path("log")]);
    assert!(said.contains("brought to the origin"), "{said}");
    assert_eq!(contents(&place, "data/moved/file"), "acknowledged");
    for origin in ["twin", "data/moved", "data/moved/inner", "data", "data/slow"] {
        mounts(&place, origin, &[]);
    }
}

#[test]
fn a_log_waits_for_its_origin_wherever_that_is_mounted() {
    require!(Requirement::Fuse, Requirement::Root);
    let place = crashed();
    for (directory, words) in
        [("data/slow", "this directory"), ("data/slow/inner", "in which this directory lies")]
    {
        let _bound = Bound::new(&place, directory, "bound");
        try_mount(&place, "bound", &[]).fails_with(1, &["in use when pool `slow`", words]);
    }
    {
        let _bound = Bound::new(&place, "data/other", "bound");
        mounts(&place, "bound", &[]);
    }
    fs::create_dir(place.join("elsewhere/deep")).expect("made");
    for directory in ["data/slow", "data/slow/inner", "data"] {
        let _bound = Bound::new(&place, directory, "elsewhere/deep");
        let around = try_mount(&place, "elsewhere", &[]);
        around.fails_with(1, &["in use when pool `slow`", "which lies in this directory"]);
    }
    let _bound = Bound::new(&place, "data/slow", "bound");
    mounts(&place, "bound", &["--log", &place.path("log")]);
    assert_eq!(contents(&place, "data/slow/file"), "acknowledged");
}

/// What is written after a log was given up, by whatever name, is not overwritten by it.
#[test]
fn a_log_that_was_given_up_under_another_name_stays_so() {
    require!(Requirement::Fuse);
    for (origin, file) in [("twin", "file"), ("data", "slow/file"), ("data/slow", "file")] {
        let place = crashed();
        let log = place.path("log");
        place.warmfront.run(["pool", "create", "twin", &place.path("data/slow")]);
        let said = try_mount(&place, origin, &["--discard-log"]).success();
        assert!(said.contains("held") && said.contains("is given up"), "{said}");
        write(&place.join("fast").join(file), "later");
        place.warmfront.run(["unmount", &place.path("fast")]);
        for origin in ["data/slow", "twin"] {
            mounts(&place, origin, &["--log", &log]);
            assert_eq!(contents(&place, "data/slow/file"), "later");
        }
    }
    // With the log itself, too.
    let place = crashed();
    let log = place.path("log");
    fs::rename(place.join("data/slow"), place.join("data/moved")).expect("renamed");
    let said = mounts(&place, "data/moved", &["--log", &log, "--discard-log"]);
    assert!(said.contains("are given up, as you asked"), "{said}");
    assert_eq!(contents(&place, "data/moved/file"), "");
}

/// Two logs that have changed places: nothing of either is lost, and each is missed.
#[test]
fn the_logs_of_two_origins_are_told_apart() {
    require!(Requirement::Fuse);
    let place = Place::new(&["one", "two", "three", "fast"]);
    for name in ["one", "two"] {
        crash(&place, name, "fast", &format!("of-{name}:32M"), name);
        lose(&place.join(name).join("file"));
    }
    let swap = || {
        for (from, to) in [("of-one", "away"), ("of-two", "of-one"), ("away", "of-two")] {
            fs::rename(place.join(from), place.join(to)).expect("renamed");
        }
    };
    swap();
    for name in ["one", "two"] {
        let log = place.path(&format!("of-{name}"));
        let words = ["holds another log now", "acknowledged", "another origin may lack"];
        for more in [&[][..], &["--force-log"]] {
            let refused = try_mount(&place, name, &[&["--log", &log], more].concat());
            let refused = refused.fails_with(1, &[&words[..], &["--discard-log"]].concat());
            assert!(!refused.stderr.contains("log discard"), "{}", refused.stderr);
        }
    }
    // Whose a log is, is known; what is given up is that.
    let [log, one, two] = ["of-two", "one", "two"].map(|name| place.path(name));
    let refused = try_mount(&place, "three", &["--log", &log]);
    let command = format!("warmfront log discard {one}");
    refused.fails_with(1, &[&format!("its origin {one} may not have"), &command]);
    place.warmfront.run(["log", "discard", &one]);
    swap();
    mounts(&place, "one", &["--log", &place.path("of-one")]);
    assert_eq!(contents(&place, "one/file"), "", "it was given up");
    let told = place.warmfront.run(["log", "replay", &two]);
    assert!(told.contains("were brought to the origin"), "{told}");
    assert_eq!(contents(&place, "two/file"), "two");
    // One that was overwritten by force is missed.
    crash(&place, "two", "fast", "of-two", "again");
    mounts(&place, "three", &["--log", &log, "--force-log"]);
    let words = ["holds another log now", "acknowledged", "--discard-log --log", "--force-log"];
    try_mount(&place, "two", &["--log", &log]).fails_with(1, &words);
    mounts(&place, "two", &["--log", &log, "--discard-log", "--force-log"]);
}

/// The log of a pool is used with its directory, and the other way round.
#[test]
fn a_pool_and_its_directory_have_one_log() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow/inner", "fast"]);
    let log = place.path("log");
    place.warmfront.run([
        "pool",
        "create",
        "tank",
        &place.path("slow"),
        "--log",
        &format!("{log}:32M"),
    ]);
    let crash = |origin: &str, contents: &str| {
        crash(&place, origin, "fast", "log", contents);
        lose(&place.join("slow/file"));
    };
    crash("tank", "of the pool");
    let refused = try_mount(&place, "slow", &[]);
    let words =
        ["Mount this directory as pool `tank`, or with --log", "`warmfront log replay tank`"];
    refused.fails_with(1, &words);
    let inside = try_mount(&place, "slow/inner", &[]);
    inside.fails_with(1, &["Mount pool `tank` instead", "`warmfront log discard tank`"]);
    mounts(&place, "slow", &["--log", &log]);
    assert_eq!(contents(&place, "slow/file"), "of the pool");
    crash("slow", "of the directory");
    mounts(&place, "tank", &[]);
    assert_eq!(contents(&place, "slow/file"), "of the directory");
    crash("tank", "of the pool again");
    place.warmfront.run(["log", "replay", &place.path("slow")]);
    assert_eq!(contents(&place, "slow/file"), "of the pool again");
    mounts(&place, "slow", &[]);

    // What the pool's settings say of a directory that has moved helps nobody.
    crash("tank", "of the pool that moved");
    fs::rename(place.join("slow"), place.join("moved")).expect("renamed");
    let moved = place.path("moved");
    let words = ["Mount this directory with --log", &format!("`warmfront log replay {moved}`")];
    try_mount(&place, "moved", &[]).fails_with(1, &words);
    let replay = place.warmfront.program(["log", "replay", "tank"]).run();
    replay.fails_with(1, &["is not there now", "log replay --origin DIRECTORY"]);
    place.warmfront.run(["log", "replay", &moved]);
    fs::rename(place.join("moved"), place.join("slow")).expect("renamed");
    assert_eq!(contents(&place, "slow/file"), "of the pool that moved");

    // While the pool is mounted, nobody else writes to a part of it.
    try_mount(&place, "tank", &[]).success();
    let words = ["mount", &place.path("slow/inner"), &place.path("second")];
    fs::create_dir(place.join("second")).expect("made");
    let live = place.warmfront.program(words).run();
    live.fails_with(1, &["pool `tank` is mounted", "in which this directory lies"]);
    place.warmfront.run(["unmount", "tank"]);
}

/// What the words say about the log of an origin that was moved helps, word by word.
#[test]
fn the_log_of_a_moved_origin_is_replayed_or_given_up_by_hand() {
    require!(Requirement::Fuse);
    for has_other in [false, true] {
        let moved = || {
            let place = crashed();
            fs::rename(place.join("data/slow"), place.join("data/moved")).expect("renamed");
            if has_other {
                fs::create_dir(place.join("data/slow")).expect("made");
            }
            place
        };
        let run = |place: &Place, words: &[&str]| place.warmfront.program(words).run();
        let place = moved();
        let (log, origin) = (place.path("log"), place.path("data/moved"));
        let there = if has_other { "is another one" } else { "is not there now" };
        let words = [there, &format!("`warmfront log replay --origin DIRECTORY {log}`")];
        run(&place, &["log", "replay", &log]).fails_with(1, &words);
        if has_other {
            try_mount(&place, "data/slow", &["--log", &log]).fails_with(1, &words);
            let wrong = place.path("data/slow");
            run(&place, &["log", "replay", "--origin", &wrong, &log]).fails_with(1, &words);
            run(&place, &["log", "replay", &wrong]).fails_with(1, &words);
        }
        run(&place, &["log", "replay", "--origin", &origin, &log]).success();
        assert_eq!(contents(&place, "data/moved/file"), "acknowledged");
        mounts(&place, "data/moved", &[]);

        let place = moved();
        run(&place, &["log", "replay", &place.path("data/moved")]).success();
        assert_eq!(contents(&place, "data/moved/file"), "acknowledged");
        mounts(&place, "data/moved", &["--log", &place.path("log")]);

        for target in ["log", "data/moved"] {
            let place = moved();
            let told = run(&place, &["log", "discard", &place.path(target)]).success();
            assert!(told.contains("are given up"), "{told}");
            mounts(&place, "data/moved", &["--log", &place.path("log")]);
            assert_eq!(contents(&place, "data/moved/file"), "");
        }
        let place = moved();
        fs::remove_file(place.join("log")).expect("it was there");
        try_mount(&place, "data/moved", &[]).fails_with(1, &["is not there, and may have held"]);
        let told = run(&place, &["log", "discard", &place.path("data/moved")]).success();
        assert!(told.contains("is not there; what it held is given up"), "{told}");
        mounts(&place, "data/moved", &[]);
    }
}

/// So does what they say of an older copy of it, and of a log that lies elsewhere by now.
#[test]
fn an_older_copy_of_the_log_of_a_moved_origin_is_told() {
    require!(Requirement::Fuse);
    let aged = || {
        let place = crashed();
        let (log, old) = (place.path("log"), place.path("old"));
        fs::copy(&log, &old).expect("copied");
        crash(&place, "data/slow", "fast", "log", "newer");
        lose(&place.join("data/slow/file"));
        fs::rename(&log, place.join("new")).expect("renamed");
        fs::rename(&old, &log).expect("renamed");
        fs::rename(place.join("data/slow"), place.join("data/moved")).expect("renamed");
        place
    };
    let run = |place: &Place, words: &[&str]| place.warmfront.program(words).run();
    let place = aged();
    let (log, origin) = (place.path("log"), place.path("data/moved"));
    let force = format!("`warmfront log replay --force --origin {origin} {log}`");
    let words = ["an older copy", &force, "--discard-log", "--read-only"];
    try_mount(&place, "data/moved", &["--log", &log]).fails_with(1, &words);
    run(&place, &["log", "replay", "--origin", &origin, &log]).fails_with(1, &words);
    mounts(&place, "data/moved", &["--log", &log, "--read-only"]);
    run(&place, &["log", "replay", "--force", "--origin", &origin, &log]).success();
    assert_eq!(contents(&place, "data/moved/file"), "acknowledged");
    mounts(&place, "data/moved", &["--log", &log]);

    let place = aged();
    let log = place.path("log");
    mounts(&place, "data/moved", &["--log", &log, "--discard-log"]);
    assert_eq!(contents(&place, "data/moved/file"), "");

    let place = aged();
    let told = run(&place, &["log", "discard", &place.path("log")]).success();
    assert!(told.contains("older copy") && told.contains("is given up"), "{told}");
    mounts(&place, "data/moved", &["--log", &place.path("log")]);
    assert_eq!(contents(&place, "data/moved/file"), "");

    // The newest one, brought back by its new name.
    let place = aged();
    mounts(&place, "data/moved", &["--log", &place.path("new")]);
    assert_eq!(contents(&place, "data/moved/file"), "newer");
    let place = aged();
    let (new, origin) = (place.path("new"), place.path("data/moved"));
    run(&place, &["log", "replay", &new]).fails_with(1, &["--origin DIRECTORY"]);
    run(&place, &["log", "replay", "--origin", &origin, &new]).success();
    assert_eq!(contents(&place, "data/moved/file"), "newer");

    // A machine that knows nothing of it takes it as it is.
    let stranger = Place::new(&["fast"]);
    let place = aged();
    let (origin, top, new) = (place.path("data/moved"), stranger.path("fast"), place.path("new"));
    stranger.warmfront.run(["mount", &origin, &top, "--arc-max=64M", "--log", &new]);
    stranger.warmfront.run(["unmount", &stranger.path("fast")]);
    assert_eq!(contents(&place, "data/moved/file"), "newer");
    let nobody = Place::new(&[]);
    let unknown = nobody.warmfront.program(["log", "replay", &place.path("log")]).run();
    unknown.fails_with(1, &["it is not known for which origin", "--origin DIRECTORY"]);
}
