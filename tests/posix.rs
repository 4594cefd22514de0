//! The mount behaves as POSIX says, as far as the `pjdfstest` suite can tell.
//!
//! The suite makes, links, renames, removes and changes objects of every type as root and as two
//! ordinary users, and checks results, error numbers, permissions and times of some 400 cases.

use std::path::PathBuf;
use std::time::Duration;

use warmfront_tests::{Finished, Mount, Program, Requirement, SmallDisk, require, source_tree};

/// Runs the suite on a mount with these properties, and compares its summary.
fn suite(properties: &[(&str, &str)]) {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("pjdfstest"));
    let mut builder = Mount::builder().argument("--allow-other");
    for (name, value) in properties {
        builder = builder.property(name, value);
    }
    let mount = builder.start();
    let other = SmallDisk::new("8m");
    let finished = Program::new("pjdfstest")
        .arg("--configuration-file")
        .arg(source_tree().join("tests/pjdfstest.toml"))
        .arg("--secondary-fs")
        .arg(other.path())
        .arg("--path")
        .arg(directory_of_good_length(&mount))
        .env("NO_COLOR", "1")
        .deadline(Duration::from_secs(180))
        .run();
    let summary = finished.stdout.lines().find(|line| line.starts_with("Summary"));
    assert!(finished.succeeded(), "{:?}\n{}\n{}", summary, failures(&finished), finished.stderr);
    let passed = summary.and_then(passed).unwrap_or_else(|| panic!("no summary in {finished}"));
    assert!(passed >= 370, "too many cases were skipped: {summary:?}");
}

/// A directory on the mount for the suite to work in.
///
/// The suite builds the longest allowed path from components of 127 bytes and miscounts when they
/// fit exactly below its two temporary directories, of 11 bytes each.
fn directory_of_good_length(mount: &Mount) -> PathBuf {
    let exact = |path: &PathBuf| (4095 - path.as_os_str().len() - 22).is_multiple_of(127);
    let path = ["work", "place"].map(|name| mount.join(name));
    let path = path.into_iter().find(|path| !exact(path)).expect("one of two lengths is good");
    std::fs::create_dir(&path).expect("a directory on the mount");
    path
}

/// The failed cases with what was wrong.
fn failures(finished: &Finished) -> String {
    let mut lines = finished.stdout.lines().peekable();
    let mut found = String::new();
    while let Some(line) = lines.next() {
        if line.ends_with("FAILED") || line.ends_with("UNEXPECTEDLY") {
            let reason = lines.peek().copied().unwrap_or_default();
            found.push_str(&format!("{} {}\n", line.trim_end(), reason.trim()));
        }
    }
    found
}

/// The number before the word "passed".
fn passed(summary: &str) -> Option<u32> {
    let words: Vec<&str> = summary.split([' ', ',']).collect();
    let index = words.iter().position(|&word| word == "passed")?;
    words.get(index.checked_sub(1)?)?.parse().ok()
}

#[test]
fn pjdfstest_passes() {
    suite(&[]);
}

#[test]
fn pjdfstest_passes_when_nobody_else_writes() {
    suite(&[("coherence", "exclusive"), ("pagecache", "off")]);
}
