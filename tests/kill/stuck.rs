//! A daemon is killed while it tells the kernel what to forget, which waits for a program that
//! waits for the daemon: the kernel by itself would never end that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use warmfront_tests::{Mount, Requirement, require, wait_until};

/// Programs at work in the directory of which the kernel is told.
const WRITERS: usize = 4;
/// Names that are moved behind the mount before it is given up.
const MOVES_MAX: u32 = 200;
const DEADLINE: Duration = Duration::from_secs(20);
/// What is told of an object that was moved behind the mount is told by this thread.
const TELLER: &str = "former-names";

/// Renames a file to and fro until that fails.
fn rename_until_it_fails(directory: &Path, writer: usize) -> io::Error {
    let name = |side| directory.join(format!("{side}{writer}"));
    loop {
        let there = fs::rename(name("a"), name("b"));
        if let Err(error) = there.and_then(|()| fs::rename(name("b"), name("a"))) {
            return error;
        }
    }
}

/// Whether the thread of the process waits in the kernel where no signal reaches it.
fn waits_in_the_kernel(process: u32, thread: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    stats.into_iter().any(|stat| stat.contains(&format!("({thread}) D ")))
}

/// Breaks the connection off, so that nothing of this test stays whatever becomes of it.
struct Abort(PathBuf);

impl Drop for Abort {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::FORCE);
    }
}

#[test]
fn a_mount_whose_daemon_cannot_end_is_broken_off() {
    require!(Requirement::Fuse, Requirement::Root);
    ends_by(|mount| Some(mount.path().into()), &["has died", "warmfront unmount"]);
    ends_by(|_| Some("slow".into()), &["has died", "warmfront unmount"]);
    ends_by(|_| None, &["no pool is mounted"]);
}

/// Asking for the status of `target` frees everybody, and says these words.
#[track_caller]
fn ends_by(target: impl Fn(&Mount) -> Option<PathBuf>, words: &[&str]) {
    let mut mount = Mount::builder().argument("--slow=s3").start();
    let abort = Abort(mount.path().to_owned());
    let (from, to) = (mount.origin().join("from"), mount.origin().join("to"));
    fs::create_dir(&from).and_then(|()| fs::create_dir(&to)).expect("made");
    for writer in 0..WRITERS {
        fs::write(from.join(format!("a{writer}")), "x").expect("written");
    }
    let process = mount.daemon_id();
    let has_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let directory = mount.join("from");
                scope.spawn(move || rename_until_it_fails(&directory, writer))
            })
            .collect();
        let (seen_from, seen_to) = (mount.join("from"), mount.join("to"));
        let stopped = &has_stopped;
        scope.spawn(move || {
            for number in 0..MOVES_MAX {
                let name = format!("moved{number}");
                fs::write(from.join(&name), "x").expect("written");
                let before = fs::metadata(seen_from.join(&name));
                fs::rename(from.join(&name), to.join(&name)).expect("moved behind the mount");
                let after = fs::metadata(seen_to.join(&name));
                if stopped.load(Ordering::Relaxed) || before.and(after).is_err() {
                    return;
                }
            }
        });
        let seen = wait_until(DEADLINE, || waits_in_the_kernel(process, TELLER));
        let id = Pid::from_raw(process as i32).expect("an id");
        kill_process(id, Signal::KILL).expect("it is ours");
        has_stopped.store(true, Ordering::Relaxed);
        let began = Instant::now();
        let told = mount.warmfront().program(["status"]).args(target(&mount)).run();
        let took = began.elapsed();
        let have_ended = wait_until(DEADLINE, || writers.iter().all(|writer| writer.is_finished()));
        drop(abort);
        assert!(seen, "the thread {TELLER} is never seen waiting");
        told.fails_with(1, words);
        assert!(took < DEADLINE, "it took {took:?}");
        assert!(have_ended, "programs still wait for the daemon");
    });
    mount.kill();
    mount.restart(&[]);
    assert!(fs::read_dir(mount.join("from")).expect("it is there").count() >= WRITERS);
    mount.unmount();
}
