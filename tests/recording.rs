//! What a mount is asked for, written down and read by the lab.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use warmfront_tests::{Background, Mount, Requirement, fill, require, wait_until};

const DEADLINE: Duration = Duration::from_secs(20);
/// From the making of the file until the daemon has been asked.
const BEGUN_AFTER: Duration = Duration::from_millis(300);

const RECORD: usize = 64 << 10;
const RECORDS: usize = 64;

/// Records while `work` is done; the trace's lines, without the first.
fn record(mount: &Mount, arguments: &[&str], work: impl FnOnce()) -> (String, Vec<String>) {
    let trace = mount.origin().parent().expect("it lies somewhere").join("load.trace");
    let _ = fs::remove_file(&trace);
    let output = trace.to_str().expect("a plain path").to_string();
    let target = mount.path().to_str().expect("a plain path").to_string();
    let words = [&["record", "--output", &output], arguments, &[&target]].concat();
    let program = mount.warmfront().program(words);
    let told = thread::scope(|scope| {
        let recording = scope.spawn(|| program.run().success());
        assert!(wait_until(DEADLINE, || trace.exists()), "the recording begins");
        thread::sleep(BEGUN_AFTER);
        work();
        recording.join().expect("it ends")
    });
    let text = fs::read_to_string(&trace).expect("the trace");
    let (heading, lines) = text.split_once('\n').expect("a first line");
    assert!(heading.starts_with("warmfront recording 1, "), "{heading}");
    (told, lines.lines().map(str::to_string).collect())
}

fn read_records(path: &Path, order: &[usize]) {
    let file = File::open(path).expect("the file opens");
    let mut buffer = vec![0; RECORD];
    for record in order {
        file.read_exact_at(&mut buffer, (record * RECORD) as u64).expect("a read");
    }
}

#[test]
fn what_is_asked_comes_back_as_a_trace() {
    require!(Requirement::Fuse);
    let mount = Mount::builder()
        .property("recordsize", "64K")
        .property("prefetch", "none")
        .property("pagecache", "off")
        .start();
    fill(&mount.origin().join("secret-name"), 3, RECORDS * RECORD);
    fill(&mount.origin().join("other"), 4, RECORD);
    let order: Vec<usize> = (0..200).map(|step| step * 7 % RECORDS).collect();
    let (told, lines) = record(&mount, &["--seconds", "2"], || {
        read_records(&mount.join("secret-name"), &order);
        let file = OpenOptions::new().write(true).open(mount.join("other")).expect("it opens");
        file.write_all_at(&[7; 4096], 8192).expect("a write");
    });
    assert!(told.starts_with("201 requests, "), "{told}");
    let columns: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    let reads: Vec<(u64, u64)> = columns[..200]
        .iter()
        .map(|line| (line[3].parse().expect("offset"), line[4].parse().expect("bytes")))
        .collect();
    let asked: Vec<(u64, u64)> =
        order.iter().map(|record| ((record * RECORD) as u64, RECORD as u64)).collect();
    assert_eq!(reads, asked);
    let times: Vec<u64> = columns.iter().map(|line| line[0].parse().expect("a time")).collect();
    assert!(times.is_sorted() && times[200] < 10_000_000, "{times:?}");
    assert_eq!((columns[200][1], columns[200][3], columns[200][4]), ("w", "8192", "4096"));
    assert!(columns[..200].iter().all(|line| line[1] == "r" && line[2] == columns[0][2]));
    assert_ne!(columns[0][2], columns[200][2], "files have numbers of their own");
    assert!(!lines.concat().contains("secret"), "no names are written down");

    // The lab finds what LRU with room for everything would: each block misses once.
    let trace = mount.origin().parent().expect("it lies somewhere").join("load.trace");
    let arguments = ["lab", "policies", "--policies", "lru", "--sizes", "100%", "--json"];
    let told = mount.warmfront().run(arguments.iter().copied().chain(trace.to_str()));
    let rows: Value = serde_json::from_str(&told).expect("it is JSON");
    let blocks = (RECORD / 4096) as u64;
    assert_eq!(rows[0]["requests"], 200 * blocks + 1);
    assert_eq!(rows[0]["misses"], RECORDS as u64 * blocks + 1);
}

#[test]
fn a_sample_is_smaller_and_a_full_file_ends_it() {
    require!(Requirement::Fuse);
    let mount = Mount::builder().property("recordsize", "64K").property("pagecache", "off").start();
    for name in 0..64 {
        fill(&mount.origin().join(format!("file{name}")), 3, 4096);
    }
    let read_all = || {
        for name in 0..64 {
            let read = fs::read(mount.join(format!("file{name}"))).expect("it is read");
            assert_eq!(read.len(), 4096);
        }
    };
    let (_, lines) = record(&mount, &["--seconds", "1", "--sample", "50%"], read_all);
    let files: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    assert!((12..52).contains(&files.len()), "{} of 64 files were sampled", files.len());
    let (_, lines) = record(&mount, &["--size", "500"], read_all);
    assert!((1..20).contains(&lines.len()), "{lines:?}");
    let refused = mount.warmfront().program(["record", "--sample", "0", "--output", "x"]);
    refused.run().fails_with(2, &["is not a share"]);
}

/// Ctrl-C ends it, with what was recorded in the file.
#[test]
fn an_interrupt_ends_it() {
    require!(Requirement::Fuse);
    let mount = Mount::builder().start();
    fill(&mount.origin().join("file"), 3, RECORD);
    let trace = mount.origin().parent().expect("it lies somewhere").join("load.trace");
    let words = [OsStr::new("record"), OsStr::new("-o"), trace.as_ref(), mount.path().as_ref()];
    let mut recording = Background::start(mount.warmfront().program(words), Stdio::null());
    assert!(wait_until(DEADLINE, || trace.exists()), "the recording begins");
    thread::sleep(BEGUN_AFTER);
    read_records(&mount.join("file"), &[0]);
    let id = Pid::from_raw(recording.id().cast_signed()).expect("a process");
    kill_process(id, Signal::INT).expect("it is ours");
    assert!(recording.wait(DEADLINE).success());
    let text = fs::read_to_string(&trace).expect("the trace");
    assert_eq!(text.lines().count(), 2, "{text}");
}
