use std::fs::{self, File};
use std::io::{Error, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use serde_json::Value;
use storage::Call;
use tempfile::TempDir;
use warmfront_tests::{
    FaultyDisk, Mount, MountBuilder, Program, Requirement, SmallDisk, fill, random_bytes, require,
    skip, test_directory, wait_until,
};

use crate::journal::{Journals, PATIENCE};

const MIB: usize = 1 << 20;
/// Of `open(2)`.
const O_SYNC: i32 = 0o4_010_000;
/// The number of `write(2)`.
const WRITE: &str = if cfg!(target_arch = "x86_64") { "1" } else { "64" };

fn changes_contents(call: &Call) -> bool {
    matches!(call, Call::Write { .. } | Call::Append { .. })
}

/// What a file system that has become read-only refuses.
fn changes_anything(call: &Call) -> bool {
    !matches!(
        call,
        Call::Root
            | Call::Lookup { .. }
            | Call::Attributes { .. }
            | Call::List { .. }
            | Call::ReadLink { .. }
            | Call::Open { .. }
            | Call::Xattr { .. }
            | Call::Xattrs { .. }
            | Call::Space
            | Call::Read { .. }
            | Call::FileAttributes { .. }
            | Call::Seek { .. }
    )
}

/// Ends all faults, also when a test panics: whoever waits for the disk would wait for ever.
struct Calm<'a>(&'a FaultyDisk);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.faults().clear();
    }
}

#[track_caller]
fn fails(result: Result<(), Error>, errno: Errno) {
    let error = result.expect_err("the origin does not take it");
    assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{error}");
}

#[track_caller]
fn all_is_there(mount: &Mount) {
    let is_there = || {
        let writes = &mount.status()["writes"];
        writes["dirty_bytes"] == 0 && writes["failing"].is_null()
    };
    assert!(wait_until(PATIENCE, is_there), "{:#}", mount.status()["writes"]);
}

/// Whether there is no room for another MiB of dirty data.
#[track_caller]
fn is_full(mount: &Mount) -> bool {
    let writes = &mount.status()["writes"];
    let bytes = |name: &str| writes[name].as_u64().expect("a number");
    let (dirty, limit) = (bytes("dirty_bytes"), bytes("dirty_bytes_max"));
    assert!(dirty <= limit, "the limit holds");
    dirty + MIB as u64 > limit
}

/// Whether a program is in a `write` at this moment.
fn writes(child: &std::process::Child) -> bool {
    let call = fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap_or_default();
    call.split(' ').next() == Some(WRITE)
}

/// The origin refuses data for a while: who asks is told, again and again; all of it can be read;
/// and it gets there when that is possible.
fn refuses(errno: Errno, words: &str, is_struck: fn(&Call) -> bool) {
    let disk = FaultyDisk::new();
    let mut mount = Mount::builder().origin(disk.path()).start();
    fill(&mount.join("file"), 1, MIB);
    let file = File::options().read(true).write(true).open(mount.join("file")).expect("it opens");
    let other = file.try_clone().expect("a further descriptor");
    let mut file_of_another =
        Some(File::options().write(true).open(mount.join("file")).expect("it opens"));
    file.sync_all().expect("it lasts");
    disk.faults().fail_next_of(u64::MAX, errno, is_struck);
    let new = random_bytes(2, MIB);
    file.write_all_at(&new, 0).expect("it is taken into RAM");
    fails(file.sync_all(), errno);
    fails(file.sync_data(), errno);
    fails(other.sync_all(), errno);
    let another = file_of_another.as_ref().expect("it is open");
    fails(another.sync_all(), errno);
    // Who copies a file is told when closing it.
    let small = mount.warmfront().runtime_directory().join("small");
    fill(&small, 3, 5000);
    let copied = Program::new("cp").arg(&small).arg(mount.join("file2")).run();
    copied.fails_with(1, &[words]);
    assert!(fs::read(mount.join("file")).expect("RAM has it") == new);
    let mut bytes = vec![0; MIB];
    file.read_exact_at(&mut bytes, 0).expect("RAM has it");
    assert!(bytes == new);
    // The daemon goes on trying, and says what waits.
    let told = || mount.status()["writes"]["failing"].is_string();
    assert!(wait_until(PATIENCE, told), "{:#}", mount.status()["writes"]);
    let status = mount.run(&["status"]);
    assert!(status.contains("waits") && status.contains("file"), "{status}");
    let doctor = mount.warmfront().program(["doctor"]).arg(mount.path()).run();
    assert!(doctor.stdout.contains("does not take"), "{doctor}");
    assert!(mount.log().contains("the origin does not take dirty data"), "{}", mount.log());
    disk.faults().clear();
    all_is_there(&mount);
    assert!(fs::read(mount.origin().join("file")).expect("it is there") == new);
    for file in [&file, &other] {
        // Of what has failed since it was asked last it is told once more at most.
        let _ = file.sync_all();
        file.sync_all().expect("the origin has everything");
    }
    drop((file, other, file_of_another.take()));
    mount.unmount();
    assert!(fs::read(disk.path().join("file")).expect("it is there") == new);
}

#[test]
fn the_origin_fails() {
    require!(Requirement::Fuse);
    refuses(Errno::IO, "Input/output error", changes_contents);
}

#[test]
fn the_origin_is_over_quota() {
    require!(Requirement::Fuse);
    refuses(Errno::DQUOT, "quota", changes_contents);
}

#[test]
fn the_origin_becomes_read_only() {
    require!(Requirement::Fuse);
    refuses(Errno::ROFS, "Read-only file system", changes_anything);
}

/// It cannot make anything last: nobody is told that something does.
#[test]
fn the_origin_cannot_flush() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let mut mount = Mount::builder().origin(disk.path()).start();
    let file = File::create(mount.join("file")).expect("it can be made");
    for (number, errno) in [(1, Errno::IO), (2, Errno::NOSPC)] {
        let new = random_bytes(number, MIB);
        file.write_all_at(&new, 0).expect("it is taken into RAM");
        let is_struck = |call: &Call| matches!(call, Call::Sync | Call::SyncFile { .. });
        disk.faults().fail_next_of(u64::MAX, errno, is_struck);
        fails(file.sync_all(), errno);
        fails(file.sync_data(), errno);
        assert!(mount.status()["writes"]["dirty_bytes"].as_u64() > Some(0), "it is not forgotten");
        disk.faults().clear();
        file.sync_all().expect("it lasts");
        assert!(fs::read(mount.origin().join("file")).expect("it is there") == new);
    }
    drop(file);
    mount.unmount();
}

fn with_log(builder: MountBuilder, directory: &TempDir) -> (Mount, Vec<String>) {
    let log = directory.path().join("log");
    let log = format!("--log={}:32M", log.to_str().expect("text"));
    let words = vec![log, "--arc-max=64M".to_string(), "-owrite=back".to_string()];
    let builder = words.iter().fold(builder, |all, word| all.argument(word));
    (builder.start(), words)
}

fn restart(mount: &mut Mount, words: &[String]) {
    mount.restart(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

/// With a log device commits go on while the origin refuses everything, hangs, or is back.
#[test]
fn the_origin_comes_and_goes_under_commits() {
    require!(Requirement::Fuse);
    let (disk, directory) = (FaultyDisk::new(), test_directory());
    let (mut mount, words) = with_log(Mount::builder().origin(disk.path()), &directory);
    let journals = Journals::new(3);
    journals.during(mount.path(), || {
        let _calm = Calm(&disk);
        for _ in 0..2 {
            journals.go_on();
            // As one says whose server is gone.
            disk.faults().fail_next_of(u64::MAX, Errno::NOTCONN, |_| true);
            mount.warmfront().program(["sync"]).arg(mount.path()).run();
            assert!(mount.status()["writes"]["failing"].is_string());
            journals.go_on();
            disk.faults().clear();
            journals.go_on();
            disk.faults().hang(changes_contents);
            let hangs = || disk.faults().hanging() > 0;
            assert!(wait_until(PATIENCE, hangs), "a group goes to the origin every five seconds");
            journals.go_on();
            disk.faults().release();
        }
        journals.go_on();
    });
    all_is_there(&mount);
    journals.check(mount.path());
    journals.check(disk.path());
    // The same, and the daemon is killed before the origin is back.
    let top = mount.path().to_owned();
    journals.during(&top, || {
        let _calm = Calm(&disk);
        journals.go_on();
        disk.faults().fail_next_of(u64::MAX, Errno::NOTCONN, |_| true);
        journals.go_on();
        mount.kill();
    });
    disk.faults().clear();
    restart(&mut mount, &words);
    journals.check(mount.path());
    mount.unmount();
    journals.check(disk.path());
}

/// At the limit of dirty data a writer waits for the origin.
#[test]
fn writers_wait_for_an_origin_that_fails() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let builder = Mount::builder().argument("--arc-max=24M").property("failmode", "wait");
    let mut mount = builder.origin(disk.path()).start();
    let file = File::create(mount.join("file")).expect("it can be made");
    disk.faults().fail_next_of(u64::MAX, Errno::IO, changes_contents);
    let new = random_bytes(1, 16 * MIB);
    std::thread::scope(|scope| {
        let _calm = Calm(&disk);
        let writer = scope.spawn(|| file.write_all_at(&new, 0));
        let waits = || is_full(&mount) && mount.status()["writes"]["failing"].is_string();
        assert!(wait_until(PATIENCE, waits), "{:#}", mount.status()["writes"]);
        std::thread::sleep(Duration::from_secs(1));
        assert!(!writer.is_finished(), "there is no room");
        disk.faults().clear();
        writer.join().expect("it ends").expect("there is room again");
    });
    // It was told of nothing so far.
    let _ = file.sync_all();
    file.sync_all().expect("it lasts");
    drop(file);
    mount.unmount();
    assert!(fs::read(disk.path().join("file")).expect("it is there") == new);
}

/// Who waits for room can be interrupted, and does not keep others from what is cached; what he was
/// told is taken comes to the origin.
#[test]
fn writers_that_wait_can_be_ended() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let builder = Mount::builder().argument("--arc-max=24M").property("failmode", "wait");
    let mut mount = builder.origin(disk.path()).start();
    disk.faults().fail_next_of(u64::MAX, Errno::IO, changes_contents);
    let _calm = Calm(&disk);
    let copies = |name: &str, program: &[&str]| {
        let mut file = File::create(mount.join(name)).expect("it can be made");
        file.write_all(&[0; 4096]).expect("there is room");
        let mut command = std::process::Command::new(program[0]);
        command.args(&program[1..]).stdout(file).stderr(std::process::Stdio::null());
        command.spawn().expect("it starts")
    };
    // One dies of the signal; the other one catches it, and goes on as its call returns. What a
    // shell starts in the background is told to ignore it.
    let zeros = ["env", "--default-signal=INT", "dd", "if=/dev/zero", "bs=100k"];
    let mut killed = copies("killed", &["cat", "/dev/zero"]);
    let mut asked = copies("asked", &zeros);
    assert!(wait_until(PATIENCE, || is_full(&mount)), "{:#}", mount.status()["writes"]);
    // The machine may be so busy that one has not begun when the other one has filled all.
    assert!(wait_until(PATIENCE, || writes(&killed) && writes(&asked)), "both write");
    std::thread::sleep(Duration::from_secs(1));
    for (name, child) in [("killed", &mut killed), ("asked", &mut asked)] {
        assert!(child.try_wait().expect("asked").is_none(), "{name} waits for room");
        let mut byte = [1];
        let reading = File::open(mount.join(name)).expect("it opens");
        assert_eq!(reading.read_at(&mut byte, 0).expect("RAM has it"), 1);
        assert_eq!(byte, [0]);
    }
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_child(&killed), Signal::KILL).expect("signalled");
    assert!(wait_until(PATIENCE, || killed.try_wait().expect("asked").is_some()), "killed ends");
    // A signal that comes between its look for one and its call does not end the call.
    let has_ended = || {
        let has_ended = asked.try_wait().expect("asked").is_some();
        if !has_ended {
            kill_process(Pid::from_child(&asked), Signal::INT).expect("signalled");
        }
        has_ended
    };
    assert!(wait_until(PATIENCE, has_ended), "asked ends");
    let lengths = ["killed", "asked"]
        .map(|name| fs::metadata(mount.join(name)).expect("it is there").len() as usize);
    assert!(lengths.iter().all(|length| *length > 0), "{lengths:?}");
    disk.faults().clear();
    all_is_there(&mount);
    mount.unmount();
    for (name, length) in ["killed", "asked"].into_iter().zip(lengths) {
        let kept = fs::read(disk.path().join(name)).expect("it is there");
        assert!(kept.len() == length && kept.iter().all(|byte| *byte == 0), "{name}");
    }
}

/// Who changes a name or an attribute at an origin that does not answer ends when he is killed. The
/// change may come later; then everybody sees it.
#[test]
fn changes_of_names_can_be_killed() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let mut mount = Mount::builder().property("coherence", "exclusive").origin(disk.path()).start();
    for name in ["moved", "linked"] {
        fs::create_dir(mount.join(format!("in-{name}"))).expect("it can be made");
    }
    fs::create_dir(mount.join("from")).expect("it can be made");
    let names = ["removed", "from/moved", "changed", "marked", "linked"];
    for (seed, name) in names.into_iter().enumerate() {
        fill(&mount.join(name), seed as u64, 100);
    }
    for name in ["created", "made", "symlink"] {
        fs::create_dir(mount.join(format!("in-{name}"))).expect("it can be made");
        // The kernel knows then that there is no such name.
        assert!(!mount.join(format!("in-{name}/{name}")).exists());
    }
    mount.run(&["sync"]);
    let _calm = Calm(&disk);
    disk.faults().hang(changes_anything);
    // In directories of their own: the kernel has only one at a time change a directory, and who
    // looks for a name there waits for it.
    let changes: [(&str, &[&str]); 7] = [
        ("created", &["touch", "in-created/created"]),
        ("made", &["mkdir", "in-made/made"]),
        ("symlink", &["ln", "-s", "target", "in-symlink/symlink"]),
        ("linked", &["ln", "linked", "in-linked/link"]),
        ("changed", &["chmod", "600", "changed"]),
        ("marked", &["setfattr", "-n", "user.mark", "-v", "1", "marked"]),
        ("moved", &["mv", "from/moved", "in-moved/moved"]),
    ];
    let mut children: Vec<_> = changes
        .into_iter()
        .filter(|(_, words)| Requirement::Tool(words[0]).missing().is_none())
        .map(|(name, words)| {
            let mut command = std::process::Command::new(words[0]);
            command.args(&words[1..]).current_dir(mount.path());
            (name, command.spawn().expect("it starts"))
        })
        .collect();
    let count = children.len();
    assert!(wait_until(PATIENCE, || disk.faults().hanging() >= count), "all hang");
    std::thread::sleep(Duration::from_secs(1));
    for (name, child) in &mut children {
        assert!(child.try_wait().expect("asked").is_none(), "{name} waits");
        child.kill().expect("it is ours");
        let has_ended = || child.try_wait().expect("asked").is_some();
        assert!(wait_until(PATIENCE, has_ended), "{name} ends");
    }
    disk.faults().release();
    let is_there = |name: &str| fs::symlink_metadata(mount.join(name)).is_ok();
    for name in ["in-created/created", "in-made/made", "in-symlink/symlink", "in-linked/link"] {
        assert!(wait_until(PATIENCE, || is_there(name)), "{name} is made");
    }
    assert!(
        wait_until(PATIENCE, || is_there("in-moved/moved") && !is_there("from/moved")),
        "moved"
    );
    fs::remove_file(mount.join("removed")).expect("the mount is in order");
    mount.unmount();
}

/// Who writes to a file for the first time, of which the origin is asked, ends when he is killed,
/// and nothing is written then.
#[test]
fn first_writes_can_be_killed() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let mut mount = Mount::builder().property("coherence", "open").origin(disk.path()).start();
    fill(&mount.join("file"), 1, 1000);
    mount.run(&["sync"]);
    let before = fs::read(mount.join("file")).expect("it is there");
    let _calm = Calm(&disk);
    for sync in [false, true] {
        let mut options = File::options();
        options.write(true).custom_flags(if sync { O_SYNC } else { 0 });
        let file = options.open(mount.join("file")).expect("it opens");
        disk.faults().hang(|_| true);
        let mut command = std::process::Command::new("echo");
        let mut child = command.arg("late").stdout(file).spawn().expect("it starts");
        assert!(wait_until(PATIENCE, || disk.faults().hanging() > 0), "the origin is asked");
        std::thread::sleep(Duration::from_secs(1));
        assert!(child.try_wait().expect("asked").is_none(), "he waits");
        child.kill().expect("it is ours");
        let has_ended = || child.try_wait().expect("asked").is_some();
        assert!(wait_until(PATIENCE, has_ended), "he ends");
        disk.faults().release();
        assert!(fs::read(mount.join("file")).expect("it is there") == before);
    }
    let file = File::options().write(true).open(mount.join("file")).expect("it opens");
    file.write_all_at(b"after", 0).expect("the mount is in order");
    drop(file);
    mount.unmount();
    let kept = fs::read(disk.path().join("file")).expect("it is there");
    assert!(kept[..5] == *b"after" && kept[5..] == before[5..]);
}

/// With `failmode=continue` he is told why.
#[test]
fn writers_are_told_of_an_origin_that_fails() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let builder = Mount::builder().argument("--arc-max=24M").property("failmode", "continue");
    let mut mount = builder.origin(disk.path()).start();
    let file = File::create(mount.join("file")).expect("it can be made");
    disk.faults().fail_next_of(u64::MAX, Errno::NOSPC, changes_contents);
    let (mut taken, piece) = (0, random_bytes(1, 64 << 10));
    let error = loop {
        match file.write_all_at(&piece, taken) {
            Ok(()) => taken += piece.len() as u64,
            Err(error) => break error,
        }
        assert!(taken < 64 << 20, "there is a limit");
    };
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{error}");
    assert!(taken > MIB as u64, "there is room for {taken} bytes only");
    disk.faults().clear();
    all_is_there(&mount);
    let kept = fs::read(disk.path().join("file")).expect("it is there");
    let kept = &kept[..taken as usize];
    assert!(kept.chunks(piece.len()).all(|chunk| chunk == piece), "what was taken is there");
    drop(file);
    mount.unmount();
}

/// A file that a full origin refuses, and that is larger than the log, fails alone: others are made
/// to last, by the log, and after a crash they are as they were last.
#[test]
fn a_file_that_is_refused_fills_no_log() {
    require!(Requirement::Fuse, Requirement::Root);
    let (disk, base) = (SmallDisk::new("40m"), test_directory());
    let log = format!("{}:32M", base.path().join("log").display());
    let words = ["--arc-max=384M", "-owrite=back", "-ocoherence=exclusive", "--log", &log];
    let builder = words.iter().fold(Mount::builder(), |all, word| all.argument(word));
    let mut mount = builder.origin(disk.path()).start();
    fill(&mount.join("keep"), 1, 64 << 10);
    let keep = File::options().write(true).open(mount.join("keep")).expect("it opens");
    keep.sync_all().expect("the log takes it");
    let big = File::create(mount.join("big")).expect("it can be made");
    big.write_all_at(&random_bytes(2, 60 * MIB), 0).expect("RAM takes it");
    fails(big.sync_all(), Errno::NOSPC);
    let last = random_bytes(1000, 4096);
    for round in 1..=1000 {
        keep.write_all_at(&random_bytes(round, 4096), 8192).expect("RAM takes it");
        keep.sync_data().expect("it can be made to last");
        if round % 100 == 0 {
            fs::create_dir(mount.join(format!("directory-{round}"))).expect("it is made");
            File::open(mount.path()).expect("it opens").sync_all().expect("names last");
        }
    }
    fails(big.sync_all(), Errno::NOSPC);
    mount.kill();
    drop((keep, big));
    fs::remove_file(disk.path().join("big")).expect("it makes room");
    mount.restart(&words);
    let kept = fs::read(disk.path().join("keep")).expect("it is there");
    assert!(kept[8192..12288] == last, "a replay brings back nothing older");
    mount.unmount();
}

/// A real disk that is full: cached data can be read, and is kept until there is room.
#[test]
fn the_origin_is_full() {
    require!(Requirement::Fuse, Requirement::Root);
    let disk = SmallDisk::new("6m");
    let mut mount = Mount::builder().origin(disk.path()).start();
    fill(&mount.join("first"), 1, 4 * MIB);
    let file = File::create(mount.join("second")).expect("it can be made");
    let second = random_bytes(2, 4 * MIB);
    file.write_all_at(&second, 0).expect("it is taken into RAM");
    fails(file.sync_all(), Errno::NOSPC);
    let mut found = vec![0; second.len()];
    let reading = File::open(mount.join("second")).expect("it opens");
    reading.read_exact_at(&mut found, 0).expect("RAM has it");
    assert!(found == second);
    let unmounted = mount.warmfront().program(["unmount"]).arg(mount.path());
    unmounted.deadline(PATIENCE * 3).run().fails_with(1, &["second", "No space left"]);
    let states = || {
        let txgs: Value = serde_json::from_str(&mount.run(&["txgs", "--json"])).expect("JSON");
        let txgs = txgs.as_array().expect("a list").clone();
        let ended = txgs.iter().filter(|txg| !txg["ended_seconds_ago"].is_null());
        ended.map(|txg| (txg["state"].clone(), txg["error"].clone())).collect::<Vec<_>>()
    };
    let (state, error) = states().pop().expect("it was tried");
    assert_eq!(state, "refused");
    assert!(error.as_str().is_some_and(|error| error.contains("No space left")), "{error}");
    let table = mount.run(&["txgs"]);
    assert!(
        table.lines().any(|line| line.contains("refused") && line.contains("space")),
        "{table}"
    );
    fs::remove_file(mount.join("first")).expect("room can be made");
    all_is_there(&mount);
    fill(&mount.join("third"), 3, 1000);
    mount.run(&["sync"]);
    assert_eq!(states().pop().expect("it was tried").0, "committed");
    drop((file, reading));
    mount.unmount();
    assert!(fs::read(disk.path().join("second")).expect("it is there") == second);
}

/// The origin's directory is moved away under commits, as a disk that is unmounted, and comes back.
#[test]
fn the_origin_is_moved_away_and_back() {
    require!(Requirement::Fuse);
    let (base, directory) = (test_directory(), test_directory());
    let (slow, hidden) = (base.path().join("slow"), base.path().join("hidden"));
    fs::create_dir(&slow).expect("a directory");
    let (mut mount, _) = with_log(Mount::builder().origin(&slow), &directory);
    let journals = Journals::new(3);
    journals.during(mount.path(), || {
        journals.go_on();
        fs::rename(&slow, &hidden).expect("moved");
        journals.go_on();
        // A name that was never asked for cannot be found, and is not said to be missing.
        let found = fs::metadata(mount.join("never"));
        fails(found.map(drop), Errno::IO);
        fs::rename(&hidden, &slow).expect("moved back");
        journals.go_on();
    });
    mount.run(&["sync"]);
    journals.check(mount.path());
    mount.unmount();
    journals.check(&slow);
}

/// The origin's server dies under commits: they go on, the unmount refuses to lie, and after both
/// were started anew everything is there.
#[test]
fn the_origin_dies_under_commits() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let mut lower = Mount::builder().property("write", "through").start();
    let (mut mount, words) = with_log(Mount::builder().origin(lower.path()), &directory);
    let journals = Journals::new(3);
    journals.during(mount.path(), || {
        journals.go_on();
        lower.kill();
        journals.go_on();
        let unreachable = || {
            let status = mount.status();
            let failing = status["writes"]["failing"].as_str().unwrap_or_default();
            failing.contains("unreachable")
        };
        assert!(wait_until(PATIENCE, unreachable), "{:#}", mount.status()["writes"]);
        journals.go_on();
    });
    assert_eq!(journals.failed(), 0, "the log has what was committed");
    let unmounted = mount.warmfront().program(["unmount"]).arg(mount.path());
    unmounted.deadline(PATIENCE * 3).run().fails_with(1, &["journal0", "unreachable"]);
    mount.kill();
    lower.restart(&["-owrite=through"]);
    restart(&mut mount, &words);
    journals.check(mount.path());
    mount.unmount();
    journals.check(lower.path());
    lower.unmount();
}

/// A real file system on a loop device, until dropped.
struct Loop {
    directory: TempDir,
    top: PathBuf,
}

impl Loop {
    fn new() -> Loop {
        let directory = test_directory();
        let (image, top) = (directory.path().join("image"), directory.path().join("top"));
        fs::create_dir(&top).expect("a directory");
        File::create(&image).expect("a file").set_len(64 << 20).expect("a hole");
        Program::new("mkfs.ext4").arg("-q").arg(&image).run().success();
        let disk = Loop { directory, top };
        disk.mount();
        disk
    }

    fn mount(&self) {
        let words = ["-o", "loop,errors=remount-ro"];
        let image = self.directory.path().join("image");
        Program::new("mount").args(words).arg(image).arg(&self.top).run().success();
    }

    fn unmount(&self) {
        Program::new("umount").arg(&self.top).run().success();
    }

    /// Lets the kernel find an error in it, whereupon nobody can write to it any more.
    fn break_down(&self) -> Result<(), Error> {
        let found = Program::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.top).run();
        let device = found.success();
        let device = Path::new(device.trim()).file_name().expect("a device").to_owned();
        let switch = Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error");
        fs::write(switch, "a test")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Program::new("umount").arg("-l").arg(&self.top).run();
    }
}

/// The kernel makes the origin's file system read-only under commits, as it does when a disk
/// breaks. After a repair everything is there.
#[test]
fn the_origin_breaks_down() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("mkfs.ext4"));
    let (disk, directory) = (Loop::new(), test_directory());
    let (mut mount, words) = with_log(Mount::builder().origin(&disk.top), &directory);
    let journals = Journals::new(3);
    let broken = journals.during(mount.path(), || {
        journals.go_on();
        let broken = disk.break_down();
        if broken.is_ok() {
            journals.go_on();
            let read_only = || mount.status()["writes"]["failing"].is_string();
            assert!(wait_until(PATIENCE, read_only), "{:#}", mount.status()["writes"]);
            journals.go_on();
        }
        broken
    });
    journals.check(mount.path());
    mount.kill();
    if let Err(error) = broken {
        return skip(&format!("this kernel breaks no file system: {error}"));
    }
    mount.restart(&["--read-only"]);
    mount.unmount();
    disk.unmount();
    Program::new("e2fsck").args(["-p", "-f"]).arg(disk.directory.path().join("image")).run();
    disk.mount();
    restart(&mut mount, &words);
    journals.check(mount.path());
    mount.unmount();
    journals.check(&disk.top);
}
