//! A mount that follows at once on a daemon that was killed.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use warmfront_tests::{Place, Requirement, counter, require};

use crate::write;

/// What the kernel has not yet taken back of the dead one keeps nobody away: neither its mount nor
/// its locks nor its devices.
#[test]
fn a_daemon_that_was_killed_keeps_nobody_away() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "fast"]);
    let [slow, fast, log] = ["slow", "fast", "log:32M"].map(|name| place.path(name));
    let words = ["mount", &slow, &fast, "--arc-max=64M", "-o", "write=back", "--log", &log];
    place.warmfront.run(words);
    for round in 0..10 {
        let contents = format!("of round {round}");
        write(&place.join("fast/file"), &contents);
        let id = counter(&place.warmfront.status(&place.join("fast")), "pid");
        let id = Pid::from_raw(i32::try_from(id).expect("an id")).expect("an id");
        let start = || {
            let mut command = place.warmfront.program(words).into_command();
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
        };
        let next = match round % 2 {
            // It asks the daemon, which dies before it has answered.
            0 => {
                kill_process(id, Signal::STOP).expect("it lives");
                let next = start();
                std::thread::sleep(Duration::from_millis(300));
                kill_process(id, Signal::KILL).expect("it lives");
                next
            }
            _ => {
                kill_process(id, Signal::KILL).expect("it lives");
                start()
            }
        };
        let ended = next.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "round {round}: {said}");
        let found = fs::read_to_string(place.join("fast/file"));
        assert_eq!(found.expect("it is there"), contents);
    }
    place.warmfront.run(["unmount", &fast]);
}
