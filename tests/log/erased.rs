//! Logs of which a part was cut off or overwritten: what is left is brought to the origin, and
//! nobody goes on without the rest unasked.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use warmfront_tests::{Mount, Requirement, require};

use crate::{kill, restart, try_mount, with_log, write};

/// Length of the log, bytes.
const LOG_BYTES: u64 = 32 << 20;
const FILE_BYTES: usize = 30 << 10;

fn name(number: usize) -> String {
    format!("file{number:02}")
}

/// A pool that crashed with forty files in its log alone, at some of which that ends.
fn crashed() -> (Mount, String) {
    let (mut mount, log) = with_log();
    // From here on all is in the log only.
    mount.run(&["sync"]);
    for number in 0..40 {
        write(&mount.join(name(number)), &"x".repeat(FILE_BYTES));
    }
    kill(&mut mount);
    for number in 0..40 {
        let file = File::options().write(true).open(mount.origin().join(name(number)));
        file.expect("it is there").set_len(0).expect("it can be cut");
    }
    (mount, log)
}

fn cut(log: &Path) {
    let file = File::options().write(true).open(log).expect("it is there");
    for bytes in [1 << 20, LOG_BYTES] {
        file.set_len(bytes).expect("it can be cut");
    }
}

/// The end of the device stays as it was.
fn overwrite(log: &Path) {
    let file = File::options().write(true).open(log).expect("it is there");
    file.write_all_at(&vec![0; 8 << 20], 1 << 20).expect("it is written");
}

/// How many files the origin has, which has to be a beginning of them.
fn whole(mount: &Mount) -> usize {
    let size = |number| fs::metadata(mount.origin().join(name(number))).map_or(0, |it| it.len());
    let sizes: Vec<u64> = (0..40).map(size).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    sizes.iter().filter(|size| **size == FILE_BYTES as u64).count()
}

/// A log that has become shorter after a crash is not made longer again, whatever size is named,
/// and what is before the cut is brought to the origin.
#[test]
fn what_is_before_the_cut_comes_to_the_origin() {
    require!(Requirement::Fuse);
    for bytes in [20 << 20, 1 << 20] {
        let (mut mount, log) = crashed();
        let file = File::options().write(true).open(&log).expect("it is there");
        file.set_len(bytes).expect("it can be cut");
        let size = format!("has {}M, and was made with 32M", bytes >> 20);
        let shown = mount.warmfront().run(["log", "show", &log]);
        assert!(shown.contains(&size) && shown.contains("is cut off"), "{shown}");
        let held = crate::records(mount.warmfront(), &log).len();
        assert!(held > 20, "{held}");
        let device = format!("{log}:32M");
        let words = [&*size, "acknowledged", "--read-only"];
        let next = format!("--log {device} --discard-log");
        let brought = "were brought to the origin";
        let sized = format!("{log}:64M");
        for (named, done) in [(&log, brought), (&device, "no good record"), (&sized, "behind")] {
            let refused = try_mount(&mount, &["--log", named]);
            refused.fails_with(1, &[&words[..], &["has become shorter", &next, done]].concat());
            assert_eq!(fs::metadata(&log).expect("it is there").len(), bytes, "{named}");
        }
        let count = whole(&mount);
        // Without the blocks of what could be had, cut at 20 MiB, all is there.
        assert!(count > 5 && (bytes < 20 << 20 || count == 40), "{count}");
        let again = mount.warmfront().program(["log", "replay", &log]).run();
        again.fails_with(1, &["has no good record behind", "--discard-log"]);
        // Word by word what was said.
        restart(&mut mount, &["--log", &device, "--discard-log"]);
        assert_eq!(fs::metadata(&log).expect("it is there").len(), LOG_BYTES);
        assert_eq!(whole(&mount), count);
        write(&mount.join("file"), "contents");
        kill(&mut mount);
        // By hand, and without a step in between.
        file.set_len(bytes).expect("it can be cut");
        let told = mount.warmfront().run(["log", "discard", &log]);
        assert!(told.contains("has become shorter; what it held, "), "{told}");
        let again = mount.warmfront().program(["log", "show", &log]).run();
        again.fails_with(1, &["holds no log"]);
        restart(&mut mount, &["--log", &device]);
        mount.unmount();
        // Nothing is missed of one that is noted as empty.
        file.set_len(bytes).expect("it can be cut");
        let words = ["nothing is lost with it", "truncate -s 32M"];
        try_mount(&mount, &["--log", &log]).fails_with(1, &words);
        mount.warmfront().program(["log", "show", &log]).run().fails_with(1, &words);
        restart(&mut mount, &["--log", &device]);
        mount.unmount();
    }
}

/// A log without superblocks, and one that another program has overwritten: what is said leads on.
#[test]
fn one_refusal_names_the_whole_way() {
    require!(Requirement::Fuse);
    let overwrite = |log: &str, byte: u8| {
        let file = File::options().write(true).open(log).expect("it is there");
        file.write_all_at(&vec![byte; 128 << 10], 0).expect("it is written");
    };
    for (byte, said, words) in [
        (0, "superblocks are damaged", &["--discard-log"][..]),
        (7, "holds data of another program now", &["--discard-log", "--force-log"]),
    ] {
        let (mut mount, log) = crashed();
        overwrite(&log, byte);
        let refused = try_mount(&mount, &["--log", &log]);
        let refused = refused.fails_with(1, &[&[said], words].concat());
        assert!(words.len() == 2 || !refused.stderr.contains("--force-log"), "{}", refused.stderr);
        if words.len() == 2 {
            // Half of it does nothing by halves.
            let half = try_mount(&mount, &["--log", &log, "--discard-log"]);
            half.fails_with(1, &["--force-log"]);
            try_mount(&mount, &["--log", &log]).fails_with(1, &[said, "--discard-log"]);
        }
        restart(&mut mount, &[&["--log", &log], words].concat());
        mount.unmount();
        assert_eq!(whole(&mount), 0, "it could not be read");
    }
}

/// A log that a later version has written.
#[test]
fn a_log_of_a_later_version_is_given_up_by_hand() {
    require!(Requirement::Fuse);
    let (mut mount, log) = crashed();
    let file = File::options().write(true).open(&log).expect("it is there");
    (0..4).for_each(|slot| file.write_all_at(&[3], (slot * (32 << 10)) + 8).expect("written"));
    let words = ["version 3", "use that version", "mount with --discard-log"];
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    for command in ["show", "replay"] {
        mount.warmfront().program(["log", command, &log]).run().fails_with(1, &words);
    }
    let told = mount.warmfront().run(["log", "discard", &log]);
    assert!(told.contains("is of version 3") && told.contains("is given up"), "{told}");
    restart(&mut mount, &[]);
    mount.unmount();
    // Nobody misses it by now, and it is not ours to change.
    mount.warmfront().program(["log", "discard", &log]).run().fails_with(1, &words);
    restart(&mut mount, &["--log", &log, "--discard-log"]);
    mount.unmount();
}

fn is_told(erase: fn(&Path)) {
    let (mut mount, log) = crashed();
    erase(Path::new(&log));
    let lost = "cut off or overwritten with zeros";
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("it is damaged") && shown.contains(lost), "{shown}");
    let shown = mount.warmfront().run(["log", "show", "--json", &log]);
    let line: Value = serde_json::from_str(shown.lines().last().expect("a line")).expect("JSON");
    assert_eq!(line["log"]["is_empty"], false, "{line}");
    let words = [lost, "may be writes that were acknowledged", "--discard-log"];
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    let count = whole(&mount);
    assert!(0 < count && count < 40, "{count}");
    mount.warmfront().program(["log", "replay", &log]).run().fails_with(1, &words);
    try_mount(&mount, &["--log", &log]).fails_with(1, &words);
    assert_eq!(whole(&mount), count);
    // Given up, it is as good as new.
    restart(&mut mount, &["--log", &log, "--discard-log"]);
    assert!(mount.log().contains("look after what was written last"), "{}", mount.log());
    write(&mount.join("file"), "contents");
    kill(&mut mount);
    fs::write(mount.origin().join("file"), "").expect("it can be cut");
    restart(&mut mount, &["--log", &log]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "contents");
    // Of one that is noted as empty nothing is missed, and given up by hand it is made good too.
    mount.unmount();
    erase(Path::new(&log));
    restart(&mut mount, &["--log", &log]);
    write(&mount.join("file"), "contents");
    kill(&mut mount);
    erase(Path::new(&log));
    let told = mount.warmfront().run(["log", "discard", &log]);
    assert!(told.contains("look after what was written last") || whole(&mount) == count, "{told}");
    let shown = mount.warmfront().run(["log", "show", &log]);
    assert!(shown.contains("holds nothing"), "{shown}");
    restart(&mut mount, &["--log", &log]);
    mount.unmount();
}

#[test]
fn a_log_that_was_cut_and_made_long_again_is_not_taken_for_whole() {
    require!(Requirement::Fuse);
    is_told(cut);
}

#[test]
fn a_log_that_was_overwritten_with_zeros_is_not_taken_for_whole() {
    require!(Requirement::Fuse);
    is_told(overwrite);
}

/// While the pool runs, both happens between two looks at the length of the file.
#[test]
fn a_log_that_was_cut_and_made_long_again_while_it_is_in_use_is_given_up() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log();
    write(&mount.join("file"), "contents");
    let [status, doctor] = crate::take_log_away(&mount, || cut(Path::new(&log)));
    for told in [status, doctor] {
        assert!(told.contains("has been cut or overwritten"), "{told}");
    }
    write(&mount.join("later"), "contents");
    kill(&mut mount);
    restart(&mut mount, &["--log", &log]);
    for name in ["file", "later"] {
        assert_eq!(fs::read_to_string(mount.join(name)).expect("it is there"), "contents");
    }
    mount.unmount();
}
