//! The ceiling: how it is given, told and changed, and that it gives way to neighbours.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use serde_json::Value;
use warmfront_tests::{
    Background, Group, Mount, Program, Requirement, counter, require, skip, test_directory,
    wait_until,
};

const MIB: u64 = 1 << 20;

/// A file without contents, which takes no disk; its records take memory like any others.
fn hole(path: &Path, bytes: u64) {
    let file = File::create(path).expect("a file");
    file.set_len(bytes).expect("a hole");
}

/// Reads a file to its end, and returns its length.
fn read_all(path: &Path) -> u64 {
    let mut file = File::open(path).expect("it opens");
    let mut buffer = vec![1; MIB as usize];
    let mut length = 0;
    loop {
        match file.read(&mut buffer).expect("it reads") {
            0 => return length,
            read => {
                assert!(buffer[..read].iter().all(|byte| *byte == 0), "a hole reads as zeros");
                length += read as u64;
            }
        }
    }
}

fn ceiling(status: &Value) -> &Value {
    &status["ceiling"]
}

fn resident_bytes(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[test]
fn ceilings_without_sense_are_refused() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let (slow, fast) = (base.path().join("slow"), base.path().join("fast"));
    fs::create_dir(&slow).unwrap();
    fs::create_dir(&fast).unwrap();
    let warmfront = warmfront_tests::Warmfront::new();
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--arc-max", "0"], &["ceiling of 0", "at least 8M"]),
        (&["--arc-max", "1M"], &["at least 8M"]),
        (&["--arc-max", "0%"], &["--arc-max", "0%"]),
        (&["--arc-max", "120%"], &["--arc-max", "120%", "more than the memory"]),
        (&["--arc-max", "9000T"], &["more than", "auto"]),
        (&["--arc-max", "automatic"], &["--arc-max", "automatic", "auto"]),
        (&["--arc-max", "64M", "--arc-min", "128M"], &["floor", "128M", "64M"]),
    ];
    for (arguments, fragments) in cases {
        let mount = warmfront.program(["mount"]).args(arguments).arg(&slow).arg(&fast);
        mount.run().fails_with(2, fragments);
    }
    // A running mount refuses the same, and keeps what it has.
    let mut mount = Mount::builder().argument("--arc-max=64M").start();
    for (arguments, fragments) in cases {
        let words = arguments[2..].iter().chain(&arguments[1..2]);
        let set = mount.warmfront().program(["set-arc-max"]).args(words).arg(mount.path());
        let fragments: Vec<&str> =
            fragments.iter().copied().filter(|word| *word != "--arc-max").collect();
        set.run().fails_with(2, &fragments);
    }
    assert_eq!(counter(&mount.status(), "ceiling_bytes"), 64 * MIB);
    mount.unmount();
}

#[test]
fn a_running_mount_takes_all_forms_and_says_what_came_of_it() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().argument("--arc-max=256M").start();
    hole(&mount.origin().join("file"), 240 * MIB);
    assert_eq!(read_all(&mount.path().join("file")), 240 * MIB);
    let status = mount.status();
    assert_eq!(ceiling(&status)["setting"], "256M");
    assert_eq!(ceiling(&status)["floor_bytes"], ceiling(&status)["most_bytes"]);
    assert!(ceiling(&status)["last_change"].is_null());
    let set = |words: &[&str]| {
        let program = mount.warmfront().program(["set-arc-max"]).args(words).arg(mount.path());
        program.run().success()
    };
    // What no longer fits has been given back when the command returns.
    let said = set(&["64M"]);
    assert!(said.contains("is 64M (64M); it was 256M"), "{said}");
    assert!(said.contains("resident: "), "{said}");
    let resident = resident_bytes(mount.daemon_id());
    assert!(resident <= (64 + 32) * MIB, "{resident} bytes are resident");
    let status = mount.status();
    assert_eq!((counter(&status, "shrinks"), counter(&status, "grows")), (1, 0));
    assert_eq!(ceiling(&status)["last_change"]["reason"], "set by an operator");

    let said: Value = serde_json::from_str(&set(&["--json", "auto"])).expect("JSON");
    assert_eq!((&said["setting"], &said["before_bytes"]), (&"auto".into(), &(64 * MIB).into()));
    let status = mount.status();
    assert!(counter(&status, "floor_bytes") < counter(&status, "most_bytes"), "{status:#}");
    assert!(counter(&status, "ceiling_bytes") > 64 * MIB, "{status:#}");

    set(&["--arc-min", "16M", "5%"]);
    let status = mount.status();
    let share = counter(&status, "memory_bytes") / 20;
    assert_eq!(counter(&status, "floor_bytes"), 16 * MIB);
    assert!(counter(&status, "most_bytes").abs_diff(share) < MIB, "{status:#}");

    let people = mount.warmfront().program(["status"]).arg(mount.path()).run().success();
    for part in ["set to      5%, between 16M and", "changed ", "pressure "] {
        assert!(people.contains(part), "no {part:?} in {people}");
    }
    let columns = ["arcstat", "-Hp", "-f", "cmax,cmin,free,shrnk,grow"];
    let row = mount.warmfront().program(columns).arg(mount.path()).run().success();
    let figures: Vec<&str> = row.trim().split('\t').map(str::trim).collect();
    assert_eq!(figures.len(), 5, "{row}");
    assert_eq!(figures[1], (16 * MIB).to_string());
    mount.unmount();
}

/// 64 readers and 64 writers of 1 MiB at a time: what their requests hold is part of the ceiling.
#[test]
fn many_large_requests_at_once_stay_below_the_ceiling() {
    require!(Requirement::Fuse);
    let ceiling = 64 * MIB;
    let mut mount = Mount::builder().argument("--arc-max=64M").start();
    for number in 0..64 {
        hole(&mount.origin().join(format!("file-{number}")), 16 * MIB);
    }
    let daemon = mount.daemon_id();
    let done = AtomicUsize::new(0);
    let highest = thread::scope(|scope| {
        for number in 0..64 {
            let (path, done) = (mount.path(), &done);
            scope.spawn(move || {
                let read = read_all(&path.join(format!("file-{number}")));
                let mut file = File::create(path.join(format!("new-{number}"))).expect("a file");
                for _ in 0..4 {
                    file.write_all(&vec![1; MIB as usize]).expect("it is written");
                }
                assert_eq!(read, 16 * MIB);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut highest = 0;
        while done.load(Ordering::Relaxed) < 64 {
            highest = highest.max(resident_bytes(daemon));
            thread::sleep(Duration::from_millis(10));
        }
        highest
    });
    assert!(highest > ceiling / 2, "{highest} bytes: the cache was hardly used");
    assert!(highest <= ceiling + 32 * MIB, "{} MiB were resident", highest / MIB);
    mount.unmount();
}

/// In a group with a hard limit a neighbour takes half: nobody is killed, the ceiling gives way,
/// and when the neighbour has gone everything is as before.
#[test]
fn a_neighbour_in_a_group_gets_what_it_needs() {
    require!(Requirement::Fuse, Requirement::Tool("dd"));
    let limit = 512 * MIB;
    let group = match Group::new(limit) {
        Ok(group) => group,
        Err(reason) => return skip(&reason),
    };
    let base = test_directory();
    let fifo = base.path().join("fifo");
    let mut mount = Mount::builder().argument("--arc-max=auto").within(&group).start();
    let file = mount.path().join("file");
    hole(&mount.origin().join("file"), 280 * MIB);
    read_all(&file);
    read_all(&file);
    let status = mount.status();
    assert_eq!(ceiling(&status)["setting"], "auto");
    assert_eq!(counter(&status, "memory_bytes"), limit);
    assert!(counter(&status, "ceiling_bytes") > 380 * MIB, "{status:#}");
    assert!(resident_bytes(mount.daemon_id()) > 280 * MIB, "the cache is full");
    assert!(!ceiling(&status)["pressure_sources"].as_array().expect("a list").is_empty());
    let shrinks = counter(&status, "shrinks");

    // Fills its one block and cannot get rid of it: nobody reads.
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let reader = rustix::fs::open(&fifo, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
    let reader = reader.expect("it opens");
    let output = format!("of={}", fifo.display());
    let block = Program::new("dd").args(["if=/dev/zero", "bs=256M", "count=1"]).arg(output);
    let started = Instant::now();
    let neighbour = Background::start(block.within(&group), Stdio::null());
    let taken = || resident_bytes(neighbour.id()) >= 256 * MIB;
    assert!(wait_until(Duration::from_secs(60), taken), "{} bytes", group.usage_bytes());
    let has_all = started.elapsed();
    let gives_way = || counter(&mount.status(), "ceiling_bytes") <= 256 * MIB;
    assert!(wait_until(Duration::from_secs(30), gives_way), "{:#}", mount.status());
    println!("the neighbour had all after {has_all:?}, and room after {:?}", started.elapsed());
    let status = mount.status();
    assert!(counter(&status, "shrinks") > shrinks, "{status:#}");
    let reason = ceiling(&status)["last_change"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("safety buffer") || reason.contains("pressure"), "{reason}");
    // Under load it stays so, and everything is still served.
    assert_eq!(read_all(&file), 280 * MIB);
    assert!(counter(&mount.status(), "ceiling_bytes") <= 256 * MIB);
    assert!(resident_bytes(neighbour.id()) >= 256 * MIB, "the neighbour lives");
    assert_eq!(group.kills(), 0);

    drop(neighbour);
    drop(reader);
    let recovers = || counter(&mount.status(), "ceiling_bytes") >= 300 * MIB;
    assert!(wait_until(Duration::from_secs(120), recovers), "{:#}", mount.status());
    assert!(counter(&mount.status(), "grows") > 0);
    read_all(&file);
    let before = mount.status();
    read_all(&file);
    let after = mount.status();
    let moved = |name: &str| counter(&after, name) - counter(&before, name);
    let (hits, misses) = (moved("demand_data_hits"), moved("demand_data_misses"));
    assert!(hits > 0 && misses * 50 <= hits, "{hits} hits, {misses} misses");
    assert_eq!(group.kills(), 0);
    mount.unmount();
}
