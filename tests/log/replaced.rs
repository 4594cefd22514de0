//! A log in whose place another one is, or is to be, and what is said and kept of it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use warmfront_tests::{Place, Requirement, require, wait_until};

use crate::origins::{mounts, try_mount};
use crate::{crash, kill, lose, restart, try_mount as try_mount_again, with_log, write};

/// The log that a pool crashed with is missed though another pool has put its own in its place.
#[test]
fn a_log_that_another_pool_has_taken_is_missed() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "other", "fast"]);
    let log = place.path("log");
    for (name, origin) in [("one", "slow"), ("two", "other")] {
        place.warmfront.run(["pool", "create", name, &place.path(origin)]);
    }
    crash(&place, "one", "fast", "log:32M", "acknowledged");
    lose(&place.join("slow/file"));
    let show = || place.warmfront.run(["log", "show", "one"]);
    try_mount(&place, "two", &["--log", &log, "--force-log"]).success();
    let said = show();
    let missed = ["another one than pool `one` used", "may have held writes", "log discard one"];
    let check =
        |said: &str| missed.iter().for_each(|words| assert!(said.contains(words), "{said}"));
    check(&said);
    assert!(said.contains("pool `two` is mounted and writes"), "{said}");
    place.warmfront.run(["unmount", &place.path("fast")]);
    let said = show();
    check(&said);
    assert!(!said.contains("holds nothing that the origin does not have"), "{said}");
    try_mount(&place, "one", &["--log", &log]).fails_with(1, &["holds another log now"]);
    // What it says is what helps.
    place.warmfront.run(["log", "discard", "one"]);
    mounts(&place, "one", &[]);
}

/// A log that was given up while it was in use, and is damaged since, keeps nobody from a new one.
#[test]
fn a_log_that_was_given_up_and_is_damaged_is_made_anew() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    write(&mount.join("file"), "contents");
    let device = File::options().write(true).open(&log).expect("it is there");
    device.set_len(20 << 20).expect("it can be cut");
    let is_given_up = || mount.run(&["status"]).contains("while it was in use");
    assert!(wait_until(Duration::from_secs(10), is_given_up), "{}", mount.log());
    write(&mount.join("later"), "contents");
    kill(&mut mount);
    device.set_len(32 << 20).expect("it can be extended");
    for slot in 0..4 {
        device.write_all_at(&[9; 8], slot * (32 << 10) + 100).expect("it is overwritten");
    }
    restart(&mut mount, &["--log", &log]);
    assert!(mount.log().contains("nothing is missed"), "{}", mount.log());
    for name in ["file", "later"] {
        assert_eq!(fs::read_to_string(mount.join(name)).expect("it is there"), "contents");
    }
    write(&mount.join("by the new one"), "contents");
    // What is in use is missed as ever.
    kill(&mut mount);
    for slot in 0..4 {
        device.write_all_at(&[9; 8], slot * (32 << 10) + 100).expect("it is overwritten");
    }
    try_mount_again(&mount, &["--log", &log]).fails_with(1, &["superblocks are damaged"]);
    restart(&mut mount, &["--log", &log, "--discard-log"]);
    mount.unmount();
}

/// A mount that is refused leaves no log behind that it has made.
#[test]
fn a_refused_mount_leaves_no_new_log() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "fast"]);
    fs::write(place.join("cache"), "somebody's").expect("written");
    let (log, cache) = (place.path("log:32M"), place.path("cache"));
    let refused = || try_mount(&place, "slow", &["--log", &log, "--cache", &cache]);
    refused().fails_with(1, &["cache"]);
    assert!(!place.join("log").exists(), "it was made for nothing");
    mounts(&place, "slow", &["--log", &log]);
    refused().fails_with(1, &["cache"]);
    assert!(place.join("log").exists(), "it was there before");
    mounts(&place, "slow", &["--log", &log]);
}

/// What a log held is not given up for one that cannot be made.
#[test]
fn a_log_is_given_up_only_for_one_that_can_be_made() {
    require!(Requirement::Fuse);
    for length in [100, 1 << 20, 5 << 20] {
        let place = Place::new(&["slow", "fast"]);
        crash(&place, "slow", "fast", "log:32M", "acknowledged");
        lose(&place.join("slow/file"));
        let log = place.path("log");
        fs::copy(&log, place.join("whole")).expect("copied");
        let device = File::options().write(true).open(&log).expect("it is there");
        device.set_len(length).expect("it can be cut");
        let discard = try_mount(&place, "slow", &["--log", &log, "--discard-log"]);
        discard.fails_with(1, &["too small", "needs 17M"]);
        // It is missed as before, and can be brought back.
        try_mount(&place, "slow", &["--log", &log]).fails_with(1, &["has become shorter"]);
        fs::copy(place.join("whole"), &log).expect("copied");
        mounts(&place, "slow", &["--log", &log]);
        let contents = fs::read_to_string(place.join("slow/file")).expect("it is there");
        assert_eq!(contents, "acknowledged");
    }
}
