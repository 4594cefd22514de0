use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use storage::Call;
use warmfront_tests::{
    Background, FaultyDisk, Frozen, Mount, Requirement, SmallDisk, fill, random_bytes, require,
    wait_until,
};

use crate::journal::{Journals, PATIENCE};

const MIB: usize = 1 << 20;
const FILE_BYTES: usize = 32 * MIB;
const RECORD_BYTES: usize = 128 << 10;

/// Reads all records in an order that is no stream, and compares.
fn read_all(mount: &Mount, contents: &[u8]) {
    let file = File::open(mount.join("data")).expect("it opens");
    let (count, mut record) = (FILE_BYTES / RECORD_BYTES, vec![0; RECORD_BYTES]);
    for step in 0..count {
        let at = step * 37 % count * RECORD_BYTES;
        file.read_exact_at(&mut record, at as u64).expect("a read");
        assert!(record == contents[at..at + RECORD_BYTES], "the record at {at}");
    }
}

/// The device fails while it is read and filled; the origin answers. Back at the next mount, it
/// has nothing that is older than the origin.
#[test]
fn a_cache_device_fails() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let cache = disk.path().join("cache").to_str().expect("text").to_string();
    File::create(&cache).expect("a file").set_len(128 << 20).expect("a hole");
    let words =
        ["--cache", &cache, "--arc-max=24M", "--slow=hdd", "--dwpd=none", "-o", "prefetch=none"];
    let mut mount = words.iter().fold(Mount::builder(), |all, word| all.argument(word)).start();
    fill(&mount.join("data"), 1, FILE_BYTES);
    mount.run(&["sync"]);
    let mut contents = fs::read(mount.origin().join("data")).expect("it is there");
    let fed = wait_until(PATIENCE, || {
        read_all(&mount, &contents);
        mount.counter("l2_hits") > 20
    });
    assert!(fed, "nothing was read from the device");
    let journals = Journals::new(1);
    journals.during(mount.path(), || {
        let is_struck = |call: &Call| matches!(call, Call::Write { .. } | Call::Read { .. });
        disk.faults().fail_next_of(u64::MAX, Errno::IO, is_struck);
        read_all(&mount, &contents);
        let file = File::options().write(true).open(mount.join("data")).expect("it opens");
        for at in (0..FILE_BYTES).step_by(MIB) {
            let patch = random_bytes(at as u64, 5000);
            file.write_all_at(&patch, at as u64).expect("it is taken");
            contents[at..at + patch.len()].copy_from_slice(&patch);
        }
        file.sync_all().expect("it lasts");
        read_all(&mount, &contents);
        journals.go_on();
    });
    assert_eq!(journals.failed(), 0, "a cache device harms nobody");
    mount.kill();
    disk.faults().clear();
    mount.restart(&words);
    read_all(&mount, &contents);
    journals.check(mount.path());
    mount.unmount();
    assert!(fs::read(mount.origin().join("data")).expect("it is there") == contents);
}

/// How long what is asked of a mount with a device that hangs may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A mount with a cache file of 64 MiB at `cache`, and the contents of its `data`, part of which is
/// on the device.
fn with_cache(cache: &Path) -> (Mount, Vec<u8>) {
    File::create(cache).expect("a file").set_len(64 << 20).expect("a hole");
    let words = words(cache);
    let mut mount = words.iter().fold(Mount::builder(), |all, word| all.argument(word)).start();
    fill(&mount.join("data"), 1, FILE_BYTES);
    mount.run(&["sync"]);
    let contents = fs::read(mount.origin().join("data")).expect("it is there");
    is_fed(&mount, &contents);
    mount.unmount();
    (mount, contents)
}

fn words(cache: &Path) -> [&str; 7] {
    let cache = cache.to_str().expect("text");
    ["--cache", cache, "--arc-max=24M", "--slow=hdd", "--dwpd=none", "-o", "prefetch=none"]
}

fn is_fed(mount: &Mount, contents: &[u8]) {
    let fed = wait_until(PATIENCE, || {
        read_all(mount, contents);
        mount.counter("l2_records") > 20
    });
    assert!(fed, "nothing is on the device");
}

fn device(mount: &Mount) -> (String, String) {
    let device = mount.status()["caches"][0].clone();
    let text = |name: &str| device[name].as_str().expect("text").to_string();
    (text("condition"), text("note"))
}

#[track_caller]
fn in_time<T>(work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    assert!(began.elapsed() < ANSWER_MAX, "it took {:?}", began.elapsed());
    result
}

/// A mount of which the device at `cache` hangs from the start, until it is let go.
fn a_mount_goes_on_without_a_device_that_hangs<H>(cache: &Path, hang: impl Fn() -> H) {
    let (mut mount, contents) = with_cache(cache);
    let hanging = hang();
    mount.restart(&words(cache));
    assert!(mount.log().contains("no answer within 10 s"), "{}", mount.log());
    let (condition, note) = in_time(|| device(&mount));
    assert_eq!(condition, "unavailable", "{note}");
    assert!(
        note.contains("no answer within 10 s") && note.contains("tried again every 10 s"),
        "{note}"
    );
    read_all(&mount, &contents);
    // Whoever adds one is told after as long.
    let another = format!("{}:64M", cache.with_file_name("another").display());
    let added = mount.warmfront().program(["pool", "add", "slow", "cache", &another]).run();
    added.fails_with(1, &["no answer within 10 s", "fsfreeze -u"]);
    drop(hanging);
    assert!(wait_until(PATIENCE, || device(&mount).0 == "works"), "{:?}", device(&mount));
    is_fed(&mount, &contents);
    assert!(!cache.with_file_name("another").exists(), "what was refused is not made later");
    // It hangs while it is in use.
    let hanging = hang();
    read_all(&mount, &contents);
    in_time(|| device(&mount));
    for words in [["doctor", "slow"], ["status", "slow"], ["pool", "list"]] {
        in_time(|| mount.warmfront().program(words).run());
    }
    let removed = in_time(|| {
        let program = mount.warmfront().program(["pool", "remove", "slow", "cache"]);
        program.arg(cache).run().success()
    });
    assert!(removed.contains("to wipe it takes longer, and goes on"), "{removed}");
    assert_eq!(mount.status()["caches"].as_array().map(Vec::len), Some(0));
    drop(hanging);
    let added = || mount.warmfront().program(["pool", "add", "slow", "cache"]).arg(cache).run();
    assert!(wait_until(PATIENCE, || added().succeeded()), "{}", added());
    is_fed(&mount, &contents);
    let hanging = hang();
    let ends = |mount: &mut Mount, hanging| {
        let began = Instant::now();
        let said = mount.warmfront().program(["unmount"]).arg(mount.path()).run().success();
        assert!(said.ends_with("is unmounted\n"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(8), "after {:?}: {said}", began.elapsed());
        drop(hanging);
        mount.wait_for_end();
    };
    ends(&mut mount, hanging);
    // The same with nothing under way when it begins to hang.
    mount.restart(&self::words(cache));
    is_fed(&mount, &contents);
    std::thread::sleep(Duration::from_secs(7));
    ends(&mut mount, hang());
    mount.restart(&self::words(cache));
    let is_back = || device(&mount).0 == "works" && mount.counter("l2_records") > 0;
    assert!(wait_until(PATIENCE, is_back), "{:?}", device(&mount));
    read_all(&mount, &contents);
    mount.unmount();
    // Told to end before the mount is there, it does.
    let mut daemon;
    let hanging = hang();
    let program = mount.warmfront().program(["mount", "-f"]).args(self::words(cache));
    let program = program.arg(mount.origin()).arg(mount.path());
    daemon = Background::start(program, Stdio::null());
    std::thread::sleep(Duration::from_secs(2));
    assert!(!daemon.has_ended(), "it waits for the device");
    let process = rustix::process::Pid::from_raw(daemon.id() as i32).expect("an id");
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it is ours");
    in_time(|| daemon.wait(ANSWER_MAX));
    drop(hanging);
}

#[test]
fn a_mount_goes_on_without_a_cache_on_a_frozen_file_system() {
    require!(Requirement::Fuse, Requirement::FrozenDisk);
    let disk = SmallDisk::ext4(192 << 20);
    let cache = disk.path().join("cache");
    a_mount_goes_on_without_a_device_that_hangs(&cache, || Frozen::new(&disk));
}

/// Lets the calls of a disk go on when dropped.
pub struct Hanging<'a>(pub &'a FaultyDisk);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.faults().clear();
    }
}

#[test]
fn a_mount_goes_on_without_a_cache_on_a_file_system_that_does_not_answer() {
    require!(Requirement::Fuse);
    let disk = FaultyDisk::new();
    let cache = disk.path().join("cache");
    a_mount_goes_on_without_a_device_that_hangs(&cache, || {
        disk.faults().hang(|_| true);
        Hanging(&disk)
    });
}
