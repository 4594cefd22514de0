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
