//! The log device hangs: nobody waits for it without end, and nobody goes on without it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warmfront_tests::{
    Background, FaultyDisk, Finished, Frozen, Mount, Program, Requirement, SmallDisk, require,
    wait_until,
};

use crate::cache::Hanging;

/// How long what does not wait for the device may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The same of what gives the device its ten seconds, on a machine that is busy.
const REFUSAL_MAX: Duration = Duration::from_secs(25);

#[track_caller]
fn within<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    assert!(began.elapsed() < limit, "it took {:?}", began.elapsed());
    result
}

fn write(path: &Path, contents: &str) {
    let mut file = File::create(path).expect("it can be made");
    file.write_all(contents.as_bytes()).expect("it is written");
    file.sync_all().expect("it lasts");
}

/// A pool crashes whose log at `log` hangs from then on; later it hangs while it is in use.
fn a_log_hangs<H>(log: &Path, hang: impl Fn() -> H) {
    let log = log.to_str().expect("text");
    let device = format!("{log}:32M");
    let words = ["--arc-max=64M", "-owrite=back"];
    let builder = words.iter().fold(Mount::builder(), |all, word| all.argument(word));
    let mut mount = builder.argument("--log").argument(&device).start();
    let top = mount.path().to_str().expect("text").to_string();
    let unmount = |mount: &Mount| mount.warmfront().program(["unmount", &top]).run();
    write(&mount.join("file"), "contents");
    mount.kill();
    unmount(&mount);
    fs::write(mount.origin().join("file"), "").expect("it is lost there");

    let hanging = hang();
    let mounts = |more: &[&str]| {
        let program = mount.warmfront().program(["mount"]).args(words).args(more);
        program.arg(mount.origin()).arg(&top)
    };
    let refused = |what: &dyn Fn() -> Finished, words: &[&str]| {
        within(REFUSAL_MAX, what).fails_with(1, words);
    };
    let silent = ["no answer within 10 s", "fsfreeze -u", "--read-only"];
    refused(&|| mounts(&["--log", log]).run(), &silent);
    refused(&|| mounts(&[]).run(), &["does not answer, and may have held", "--read-only"]);
    for command in ["show", "discard"] {
        let program = || mount.warmfront().program(["log", command, log]).run();
        refused(&program, &["no answer within 10 s"]);
    }
    within(ANSWER_MAX, || mounts(&["--read-only"]).run()).success();
    within(ANSWER_MAX, || unmount(&mount)).success();
    // Told to end meanwhile, it does.
    let mut daemon = Background::start(mounts(&["-f", "--log", log]), Stdio::null());
    std::thread::sleep(Duration::from_secs(2));
    assert!(!daemon.has_ended(), "it waits for the device");
    let process = Pid::from_raw(daemon.id() as i32).expect("an id");
    kill_process(process, Signal::INT).expect("it is ours");
    within(ANSWER_MAX, || daemon.wait(ANSWER_MAX));
    drop(hanging);

    mount.restart(&[words[0], words[1], "--log", log]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "contents");
    let hanging = hang();
    for words in [["status", &top], ["doctor", &top], ["pool", "list"]].repeat(3) {
        within(ANSWER_MAX, || mount.warmfront().program(words).run());
    }
    drop(hanging);
    write(&mount.join("file"), "later contents");
    mount.kill();
    fs::write(mount.origin().join("file"), "").expect("it is lost there");
    mount.restart(&[words[0], words[1], "--log", log]);
    assert_eq!(fs::read_to_string(mount.join("file")).expect("it is there"), "later contents");
    mount.unmount();
}

#[test]
fn nothing_goes_on_without_a_log_on_a_frozen_file_system() {
    require!(Requirement::Fuse, Requirement::FrozenDisk);
    let disk = SmallDisk::ext4(96 << 20);
    a_log_hangs(&disk.path().join("log"), || Frozen::new(&disk));
}

#[test]
fn nothing_goes_on_without_a_log_on_a_file_system_that_does_not_answer() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    a_log_hangs(&disk.path().join("log"), || {
        disk.faults().hang(|_| true);
        Hanging(&disk)
    });
}

/// A disk that can be frozen, and a mount with its log there.
fn with_log_on_a_disk() -> (SmallDisk, Mount) {
    let disk = SmallDisk::ext4(96 << 20);
    let log = format!("{}:32M", disk.path().join("log").display());
    let builder = Mount::builder().argument("--arc-max=64M").argument("-owrite=back");
    let mount = builder.argument("--log").argument(&log).start();
    (disk, mount)
}

/// What makes what it writes last, in a script, to the file that is its first argument.
const BY_FSYNC: &str = "printf contents >\"$0\" && sync \"$0\"";
const BY_SYNCHRONOUS_WRITE: &str = "printf contents | dd of=\"$0\" oflag=sync status=none";

/// What the device holds goes to the origin, also of the one whose commit it was, as does what
/// others write from then on.
fn a_log_hangs_in_use(held_script: &'static str) {
    require!(Requirement::Fuse, Requirement::FrozenDisk);
    const GIVEN_UP_MAX: Duration = Duration::from_secs(40);
    let (disk, mut mount) = with_log_on_a_disk();
    write(&mount.join("before"), "contents");
    let frozen = Frozen::new(&disk);
    std::thread::scope(|scope| {
        // By programs of their own: what this one starts would inherit the open file, and closing
        // it waits, in the kernel, for the `fsync` that is under way.
        let write = |name: &str, script: &str| {
            Program::new("sh").args(["-c", script]).arg(mount.join(name)).run().success()
        };
        let held = scope.spawn(move || write("held", held_script));
        std::thread::sleep(Duration::from_secs(3));
        fs::write(mount.join("later"), "contents").expect("it is taken");
        let lasting = scope.spawn(move || write("lasting", BY_FSYNC));
        let status = || mount.run(&["status"]);
        let said = within(ANSWER_MAX, status);
        assert!(said.contains("log device") && said.contains("has not answered"), "{said}");
        assert!(!said.contains("the origin has not"), "{said}");
        let at_origin = || {
            fs::read_to_string(mount.origin().join("later")).is_ok_and(|text| text == "contents")
        };
        assert!(wait_until(GIVEN_UP_MAX, at_origin), "{}", mount.log());
        assert!(wait_until(GIVEN_UP_MAX, || lasting.is_finished()), "{}", mount.log());
        assert!(wait_until(GIVEN_UP_MAX, || held.is_finished()), "{}", mount.log());
        let text = fs::read_to_string(mount.origin().join("held")).expect("it is there");
        assert_eq!(text, "contents");
        let said = status();
        assert!(said.contains("log device failed"), "{said}");
        drop(frozen);
    });
    mount.unmount();
    for name in ["before", "held", "later", "lasting"] {
        let text = fs::read_to_string(mount.origin().join(name)).expect("it is there");
        assert_eq!(text, "contents", "{name}");
    }
}

/// Who unmounts is told what that waits for.
#[test]
fn an_unmount_names_a_log_that_hangs() {
    require!(Requirement::Fuse, Requirement::FrozenDisk);
    let (disk, mut mount) = with_log_on_a_disk();
    for is_dirty in [true, false] {
        write(&mount.join("file"), "contents");
        match is_dirty {
            true => fs::write(mount.join("file"), "later").expect("it is taken"),
            false => drop(mount.run(&["sync"])),
        }
        let frozen = Frozen::new(&disk);
        let unmount = mount.warmfront().program(["unmount"]).arg(mount.path());
        let ended = within(Duration::from_secs(60), || unmount.run());
        drop(frozen);
        let log = disk.path().join("log").display().to_string();
        let words = ["waiting for the log device", &log, "has not answered for"];
        words.iter().for_each(|words| assert!(ended.stderr.contains(words), "{ended}"));
        mount.wait_for_end();
        let contents = fs::read_to_string(mount.origin().join("file")).expect("it is there");
        assert_eq!(contents, if is_dirty { "later" } else { "contents" });
        mount.restart(&["--arc-max=64M", "-owrite=back", "--log", &log]);
    }
    mount.unmount();
}

#[test]
fn a_log_that_hangs_in_an_fsync_is_given_up() {
    a_log_hangs_in_use(BY_FSYNC);
}

#[test]
fn a_log_that_hangs_in_a_synchronous_write_is_given_up() {
    a_log_hangs_in_use(BY_SYNCHRONOUS_WRITE);
}
