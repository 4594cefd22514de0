use rustix::io::Errno;
use serde_json::Value;
use storage::Call;
use warmfront_tests::{FaultyDisk, Mount, Requirement, require};

use crate::journal::Journals;

/// A mount whose log lies on `disk`, and the words to mount again with.
fn with_log_on(disk: &FaultyDisk) -> (Mount, [String; 3]) {
    let log = disk.path().join("log").to_str().expect("text").to_string();
    let words = [format!("--log={log}:32M"), "--arc-max=64M".into(), "-owrite=back".into()];
    let builder = words.iter().fold(Mount::builder(), |all, word| all.argument(word));
    (builder.start(), words)
}

/// The device fails in the middle of commits by several programs, and is back after a crash.
fn log_device_fails(is_struck: fn(&Call) -> bool) {
    let disk = FaultyDisk::new();
    let (mut mount, words) = with_log_on(&disk);
    let journals = Journals::new(8);
    journals.during(mount.path(), || {
        journals.go_on();
        assert_eq!(mount.status()["writes"]["has_lost_log"], false);
        disk.faults().fail_next_of(u64::MAX, Errno::IO, is_struck);
        journals.go_on();
    });
    assert_eq!(journals.failed(), 0, "the origin takes what the log does not");
    assert!(mount.log().contains("the log device failed"), "{}", mount.log());
    let status = mount.run(&["status"]);
    for word in ["log:32M DEVICE FAILED", "warmfront pool remove", "warmfront pool add"] {
        assert!(status.contains(word), "no {word}: {status}");
    }
    let writes = &mount.status()["writes"];
    assert_eq!((&writes["has_lost_log"], &writes["log"]), (&Value::Bool(true), &Value::Null));
    let doctor = mount.warmfront().program(["doctor"]).arg(mount.path()).run();
    assert!(doctor.stdout.contains("the log device failed"), "{doctor}");
    for command in ["zil", "iostat"] {
        let told = mount.warmfront().program([command]).arg(mount.path()).run();
        assert!(told.stderr.contains("the log device failed"), "{told}");
    }

    // What lies on it is older than what the origin has been told to keep.
    mount.kill();
    disk.faults().clear();
    mount.restart(&words.each_ref().map(String::as_str));
    assert!(mount.log().contains("are given up"), "{}", mount.log());
    journals.check(mount.path());
    assert_eq!(mount.status()["writes"]["has_lost_log"], false);
    journals.during(mount.path(), || journals.go_on());
    mount.kill();
    mount.restart(&words.each_ref().map(String::as_str));
    assert!(mount.log().contains("were brought to the origin"), "{}", mount.log());
    journals.check(mount.path());
    mount.unmount();
    journals.check(mount.origin());
}

#[test]
fn the_log_device_refuses_writes() {
    require!(Requirement::Fuse);
    log_device_fails(|call| matches!(call, Call::Write { .. }));
}

#[test]
fn the_log_device_cannot_flush() {
    require!(Requirement::Fuse);
    log_device_fails(|call| matches!(call, Call::SyncFile { .. }));
}

/// A log device is taken away and given back while programs commit; the daemon dies with it and
/// without it.
#[test]
fn a_log_device_comes_and_goes() {
    require!(Requirement::Fuse);
    let base = warmfront_tests::test_directory();
    let log = base.path().join("log").to_str().expect("text").to_string();
    let words = ["--arc-max=64M", "-owrite=back"];
    let builder = words.iter().fold(Mount::builder().base(base), |all, word| all.argument(word));
    let mut mount = builder.start();
    let change = |mount: &Mount, verb: &str, what: &str| {
        mount.warmfront().run(["pool", verb, "slow", "log", what])
    };
    let (device, journals) = (format!("{log}:32M"), Journals::new(8));
    for dies_with_it in [true, false, true] {
        journals.during(mount.path(), || {
            for _ in 0..3 {
                journals.go_on();
                change(&mount, "add", &device);
                journals.go_on();
                change(&mount, "remove", &log);
            }
            if dies_with_it {
                change(&mount, "add", &device);
            }
            journals.go_on();
        });
        assert_eq!(journals.failed(), 0);
        mount.kill();
        let with_log = [words[0], words[1], "--log", &log];
        mount.restart(if dies_with_it { &with_log } else { &words });
        journals.check(mount.path());
        if dies_with_it {
            change(&mount, "remove", &log);
        }
    }
    mount.unmount();
    journals.check(mount.origin());
}
