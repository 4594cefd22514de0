//! A mount that is refused has changed nothing: what a log holds is there as before, whatever the
//! mount was allowed to give up.

use std::fs;

use warmfront_tests::{Place, Requirement, require};

use crate::origins::{mounts, try_mount};
use crate::{crash, lose};

/// An origin at `slow`, whose file `file` is in the log only.
fn crashed() -> Place {
    let place = Place::new(&["slow", "other", "fast"]);
    crash(&place, "slow", "fast", "log:32M", "acknowledged");
    lose(&place.join("slow/file"));
    place
}

/// The log is brought to its origin as if nothing had been tried.
fn is_brought(place: &Place) {
    let log = place.path("log");
    let said = mounts(place, "slow", &["--log", &log]);
    assert!(said.contains("brought to the origin"), "{said}");
    let file = fs::read_to_string(place.join("slow/file")).expect("it is there");
    assert_eq!(file, "acknowledged");
}

#[test]
fn a_refused_mount_gives_up_no_log() {
    require!(Requirement::Fuse);
    let place = crashed();
    let path = |name: &str| place.path(name);
    let (new, missing) = (format!("{}:32M", path("new")), format!("{}:32M", path("no/new")));
    let (cache, key) = (format!("{}:64M", path("cache")), path("no key"));
    let no_cache = format!("{}:64M", path("no/cache"));
    let (old, inside) = (path("log"), format!("{}:32M", path("slow/log")));
    fs::write(place.join("foreign"), [&b"SQLite format 3\0"[..], &[1; 4096]].concat())
        .expect("written");
    let foreign = format!("{}:64M", path("foreign"));
    let refusals: [(&[&str], &str); 8] = [
        (&["--log", &new, "--cache", &no_cache], "no/cache"),
        (&["--log", &new, "--cache", &foreign], "--force-cache"),
        (&["--log", &new, "--cache", &cache, "--cache-key", &key], "no key"),
        (&["--log", &old, "--cache", &no_cache], "no/cache"),
        (&["--log", &missing], "no/new"),
        (&["--log", &inside], "origin"),
        (&["--cache", &no_cache], "no/cache"),
        (&["--log", &new, "--cache", &old, "--force-cache"], "acknowledged writes"),
    ];
    for (words, fragment) in refusals {
        // Once as the pool's own log, once as one that waits under another name.
        for origin in ["slow", "twin"] {
            place.warmfront.program(["pool", "destroy", "twin"]).run();
            place.warmfront.run(["pool", "create", "twin", &path("slow")]);
            let mounted = try_mount(&place, origin, &[words, &["--discard-log"]].concat());
            mounted.fails_with(1, &[fragment]);
            for made in ["new", "cache", "slow/log"] {
                assert!(!place.join(made).exists(), "{made} is left behind by {words:?}");
            }
            let said = try_mount(&place, origin, &[]).fails_with(1, &["acknowledged"]);
            assert!(said.stderr.contains(" holds "), "after {words:?}: {}", said.stderr);
        }
    }
    // What tells others of the daemon cannot be written.
    let runtime = place.warmfront.runtime_directory();
    for name in ["slow.json", "slow.sock"] {
        fs::create_dir_all(runtime.join(name).join("full")).expect("made");
        let words = ["--discard-log", "--log", &new];
        try_mount(&place, "slow", &words).fails_with(1, &["runtime directory"]);
        fs::remove_dir_all(runtime.join(name)).expect("it was made");
        assert!(!place.join("new").exists());
    }
    is_brought(&place);
}

/// Another pool may take the device by force, and is told what it held; unless it is refused.
#[test]
fn a_refused_mount_overwrites_no_log() {
    require!(Requirement::Fuse);
    let place = crashed();
    let (log, no_cache) = (place.path("log"), place.path("no/cache"));
    let by_force = ["--log", &log, "--force-log"];
    let with_cache = [&by_force[..], &["--cache", &no_cache]].concat();
    try_mount(&place, "other", &with_cache).fails_with(1, &["no/cache"]);
    is_brought(&place);

    let place = crashed();
    let log = place.path("log");
    let as_cache = ["--cache", &log, "--force-cache"];
    let words = ["is the log of pool `slow`", "record", "warmfront log replay"];
    try_mount(&place, "other", &as_cache).fails_with(1, &words);
    place.warmfront.run(["pool", "create", "other", &place.path("other")]);
    let add = ["pool", "add", "other", "cache", &log, "--force"];
    place.warmfront.program(add).run().fails_with(1, &words);
    let said = mounts(&place, "other", &["--log", &log, "--force-log"]);
    assert!(said.contains("given up") && said.contains(&place.path("slow")), "{said}");
    try_mount(&place, "slow", &["--log", &log]).fails_with(1, &["holds another log now"]);
}
