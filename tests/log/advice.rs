//! What is said of a log that waits is true, the same wherever it is said, and helps: each advice,
//! followed word by word, leads to a mount.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

use warmfront_tests::{Background, Finished, Place, Requirement, require, wait_until};

use crate::origins::{mounts, try_mount};
use crate::{crash, lose, write};

const LOG_BYTES: u64 = 32 << 20;

/// An origin at `data/slow`, whose file `file` is in the log only.
fn crashed() -> Place {
    let place = Place::new(&["data/slow/inner", "fast"]);
    crash(&place, "data/slow", "fast", "log:32M", "acknowledged");
    lose(&place.join("data/slow/file"));
    place
}

/// The same with a log that is whole and empty: the origin has everything.
fn crashed_empty() -> Place {
    let place = crashed();
    run(&place, &["log", "replay", &place.path("log")]).success();
    let (origin, top, log) = (place.path("data/slow"), place.path("fast"), place.path("log"));
    let words = ["mount", "-f", &origin, &top, "--arc-max=64M", "--log", &log];
    let daemon = Background::start(place.warmfront.program(words), Stdio::null());
    let answers = || run(&place, &["status", &top]).succeeded();
    assert!(wait_until(Duration::from_secs(20), answers), "the mount does not come up");
    drop(daemon);
    run(&place, &["unmount", &top]).success();
    place
}

fn run(place: &Place, words: &[&str]) -> Finished {
    place.warmfront.program(words).run()
}

fn cut(place: &Place, lengths: &[u64]) {
    let file = File::options().write(true).open(place.join("log")).expect("it is there");
    lengths.iter().for_each(|bytes| file.set_len(*bytes).expect("it can be cut"));
}

/// What is said of a log, and what has become of it.
type Harm = (&'static str, fn(&Place));

/// Ways in which a log is not as it was.
const HARMS: [Harm; 8] = [
    ("holds ", |_| ()),
    ("is not there", |place| fs::remove_file(place.join("log")).expect("it was there")),
    ("has become shorter", |place| cut(place, &[1 << 20])),
    ("has become shorter", |place| cut(place, &[20 << 20])),
    ("is damaged", |place| cut(place, &[132 << 10, LOG_BYTES])),
    ("is damaged", |place| {
        let file = File::options().write(true).open(place.join("log")).expect("it is there");
        file.write_all_at(&vec![0; 128 << 10], 0).expect("written");
    }),
    ("holds no log any more", |place| cut(place, &[0, LOG_BYTES])),
    ("is damaged", |place| {
        let file = File::options().write(true).open(place.join("log")).expect("it is there");
        (0..4)
            .for_each(|slot| file.write_all_at(&[9; 8], slot * (32 << 10) + 100).expect("written"));
    }),
];

/// The commands that a message names, as words for a shell.
fn advised(said: &str) -> Vec<Vec<String>> {
    let quoted = said.split('`').skip(1).step_by(2);
    let commands = quoted.filter(|text| text.starts_with("warmfront "));
    commands.map(|text| text.split(' ').skip(1).map(str::to_string).collect()).collect()
}

/// Whoever follows what is said of a log, at its own directory, in it or around it, gets there.
#[test]
fn each_advice_leads_to_the_end() {
    require!(Requirement::Fuse);
    for (words, harm) in HARMS {
        let harmed = || {
            let place = crashed();
            harm(&place);
            place
        };
        for origin in ["data/slow", "data/slow/inner", "data"] {
            let place = harmed();
            let said = try_mount(&place, origin, &[]).fails_with(1, &[words, "--discard-log"]);
            let said = said.stderr;
            assert!(said.contains("acknowledged") && said.contains("--read-only"), "{said}");
            mounts(&place, origin, &["--read-only"]);
            assert!(!said.contains(" it with"), "which of both? {said}");
            mounts(&place, origin, &["--discard-log"]);
            mounts(&place, origin, &[]);

            for number in 0..advised(&said).len() {
                let place = harmed();
                let said = try_mount(&place, origin, &[]).stderr;
                let command = &advised(&said)[number];
                let words: Vec<&str> = command.iter().map(String::as_str).collect();
                let done = run(&place, &words);
                if !done.succeeded() {
                    // What it says in turn.
                    let next = &done.stderr;
                    let discard = ["log", "discard", &place.path("log")];
                    assert!(
                        next.contains("warmfront log discard") || next.contains("--discard-log"),
                        "{next}"
                    );
                    match next.contains("warmfront log discard") {
                        true => drop(run(&place, &discard).success()),
                        false => drop(mounts(&place, origin, &["--discard-log"])),
                    }
                }
                mounts(&place, origin, &[]);
            }

            let place = harmed();
            let (slow, log) = ("data/slow", place.path("log"));
            let mounted = try_mount(&place, slow, &["--log", &log]);
            match mounted.succeeded() {
                true => drop(place.warmfront.run(["unmount", &place.path("fast")])),
                false => {
                    mounted.fails_with(1, &["--discard-log"]);
                    let device = format!("{log}:32M");
                    mounts(&place, slow, &["--log", &device, "--discard-log"]);
                }
            }
            mounts(&place, origin, &[]);
        }
    }
}

/// Something that can be no log lies where it was.
#[test]
fn a_log_in_whose_place_a_directory_is_can_be_given_up() {
    require!(Requirement::Fuse);
    let harmed = || {
        let place = crashed();
        fs::rename(place.join("log"), place.join("away")).expect("renamed");
        fs::create_dir(place.join("log")).expect("made");
        place
    };
    let what = "is no file or block device any more";
    let place = harmed();
    let (log, slow) = (place.path("log"), "data/slow");
    try_mount(&place, slow, &["--log", &log]).fails_with(1, &[what, "--discard-log"]);
    try_mount(&place, slow, &[]).fails_with(1, &[what, "may have held", "log discard"]);
    let told = run(&place, &["log", "discard", &place.path(slow)]).success();
    assert!(told.contains(what) && told.contains("is given up"), "{told}");
    mounts(&place, slow, &[]);
    let place = harmed();
    mounts(&place, slow, &["--discard-log"]);
    let place = harmed();
    fs::remove_dir(place.join("log")).expect("it was there");
    fs::rename(place.join("away"), place.join("log")).expect("renamed");
    mounts(&place, slow, &["--log", &place.path("log")]);
    assert_eq!(fs::read_to_string(place.join("data/slow/file")).expect("there"), "acknowledged");
}

/// A log that is whole and empty keeps nobody from what it was used for.
#[test]
fn an_empty_log_need_not_be_named() {
    require!(Requirement::Fuse);
    for other in [None, Some("other")] {
        let place = crashed_empty();
        let other = other.map(|name| format!("{}:32M", place.path(name)));
        let more = other.as_ref().map_or(vec![], |device| vec!["--log", device]);
        let said = mounts(&place, "data/slow", &more);
        let words = "holds nothing that the origin lacks, and is not used any more";
        assert!(said.contains(words), "{said}");
        assert!(!mounts(&place, "data/slow", &[]).contains("is not used"), "it is forgotten");
        mounts(&place, "data/slow", &["--log", &place.path("log")]);
    }
    // Nor does one of an origin in whose place another directory is now.
    let place = crashed_empty();
    fs::remove_dir_all(place.join("data/slow")).expect("it was there");
    fs::create_dir(place.join("data/slow")).expect("made");
    mounts(&place, "data/slow", &["--log", &place.path("log")]);
}

/// What was given up with a directory that was made anew is not asked for again.
#[test]
fn a_log_that_was_given_up_is_taken_for_a_directory_made_anew() {
    require!(Requirement::Fuse);
    let place = crashed();
    let log = place.path("log");
    fs::remove_dir_all(place.join("data/slow")).expect("it was there");
    fs::create_dir(place.join("data/slow")).expect("made");
    try_mount(&place, "data/slow", &["--log", &log]).fails_with(1, &["is another one"]);
    mounts(&place, "data/slow", &["--discard-log"]);
    mounts(&place, "data/slow", &["--log", &log]);
    assert!(!place.join("data/slow/file").exists(), "it was for another directory");
}

#[test]
fn what_is_said_of_a_log_is_so() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "other", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let words = ["pool", "create", "tank", &path("slow"), "--log", &path("log:32M")];
    warmfront.run(words);
    let show = || run(&place, &["log", "show", "tank"]);
    show().fails_with(1, &["log of pool `tank` is not there; no mount has made it yet"]);
    mounts(&place, "tank", &[]);
    // The log of another pool, without records and with some.
    let other = || try_mount(&place, "other", &["--log", &path("log")]);
    let refused = other().fails_with(1, &["another pool, which holds nothing", "--force-log"]);
    assert!(!refused.stderr.contains("use it there"), "{}", refused.stderr);
    fs::rename(path("log"), path("away")).expect("renamed");
    show().fails_with(1, &["is not there; nothing is lost with it"]);
    fs::rename(path("away"), path("log")).expect("renamed");
    crash(&place, "tank", "fast", "log", "contents");
    other().fails_with(1, &["another pool, with ", "use it there"]);
    fs::rename(path("log"), path("away")).expect("renamed");
    let gone = show().fails_with(1, &["is not there; it may hold writes", "Bring it back"]);
    assert_eq!(advised(&gone.stderr), [["log", "discard", &path("log")]]);
    fs::rename(path("away"), path("log")).expect("renamed");
    // An origin that has moved is asked for with its log, by the pool's name too.
    fs::rename(path("slow"), path("moved")).expect("renamed");
    let words = [&*path("log"), "may hold writes", &path("slow"), "--origin DIRECTORY"];
    try_mount(&place, "tank", &[]).fails_with(1, &words);
    try_mount(&place, &path("slow"), &[]).fails_with(1, &["does not exist"]);
    fs::rename(path("moved"), path("slow")).expect("renamed");
    mounts(&place, "tank", &[]);
    // Superblocks that are damaged, and what is much too short.
    crash(&place, "tank", "fast", "log", "contents");
    HARMS[7].1(&place);
    let damaged = try_mount(&place, "tank", &[]);
    let words = ["superblocks are damaged", "bring back a whole copy", "--discard-log"];
    damaged.fails_with(1, &words);
    mounts(&place, "tank", &["--discard-log"]);
    fs::write(path("short"), [b'x'; 100]).expect("written");
    let short = try_mount(&place, "other", &["--log", &path("short")]);
    short.fails_with(1, &["has 100 bytes, and needs 17M"]);
    run(&place, &["log", "show", &path("short")]).fails_with(1, &["has 100 bytes"]);
    write(&place.join("empty"), "");
    run(&place, &["log", "show", &path("empty")]).fails_with(1, &["it is empty"]);
}
