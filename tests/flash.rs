//! Cache devices of a real mount: files that are warm after a restart and after a crash, never
//! stale, and refused with words when they cannot be used.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{UnmountFlags, mount_bind};
use warmfront_tests::{
    Mount, Place, Program, Requirement, SmallDisk, fill, random_bytes, require, test_directory,
    wait_until,
};

#[path = "flash/devices.rs"]
mod devices;
#[path = "flash/memory.rs"]
mod memory;

const MIB: usize = 1 << 20;
const RECORD: usize = 128 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// A mount whose RAM holds a part of `data`, a file of 48 MiB on a slow disk, with a cache device
/// of 256 MiB; and that file's contents.
fn with_data(cache: &Path) -> (Mount, Vec<u8>) {
    let base = test_directory();
    fs::create_dir(base.path().join("slow")).expect("an origin");
    let data = base.path().join("slow/data");
    fill(&data, 5, 48 * MIB);
    let contents = fs::read(&data).expect("it can be read");
    let mut mount = Mount::builder().base(base).argument("--read-only").start();
    mount.unmount();
    mount.restart(&words(cache));
    (mount, contents)
}

/// The command line of a mount with that cache device.
fn words(cache: &Path) -> [&str; 7] {
    let cache = cache.to_str().expect("text");
    ["--cache", cache, "--arc-max=24M", "--slow=hdd", "--dwpd=none", "-o", "prefetch=none"]
}

fn cache_file(directory: &Path) -> PathBuf {
    let path = directory.join("cache");
    File::create(&path).expect("a file").set_len(256 << 20).expect("a hole");
    path
}

/// Reads the records of `data` in an order that is no stream, and compares.
fn read_all(mount: &Mount, contents: &[u8]) {
    let file = File::open(mount.join("data")).expect("it opens");
    let count = contents.len() / RECORD;
    let mut record = vec![0; RECORD];
    for step in 0..count {
        let at = step * 37 % count * RECORD;
        file.read_exact_at(&mut record, at as u64).expect("a read");
        assert!(record == contents[at..at + RECORD], "the record at {at}");
    }
}

/// Reads until flash has taken in all records: on a machine that is busy, some leave RAM before
/// they are looked at.
fn feed_all(mount: &Mount, contents: &[u8]) {
    let records = (contents.len() / RECORD) as u64;
    for _ in 0..40 {
        read_all(mount, contents);
        let fed = || mount.counter("l2_records") >= records;
        if wait_until(Duration::from_secs(3), fed) {
            return;
        }
    }
    panic!("{} records on flash", mount.counter("l2_records"));
}

/// Waits until flash has taken in so many records.
fn fed(mount: &Mount, records: u64) {
    let fed = || mount.counter("l2_records");
    assert!(wait_until(PATIENCE, || fed() >= records), "{} records on flash", fed());
}

#[test]
fn a_restart_and_a_crash_stay_warm() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let (mut mount, contents) = with_data(&cache);
    let records = (contents.len() / RECORD) as u64;
    feed_all(&mount, &contents);
    let before = mount.counter("origin_reads");
    read_all(&mount, &contents);
    // While the cache device is slower than the disk at this moment, it is not asked.
    let again = mount.counter("origin_reads") - before;
    assert!(again * 50 <= records, "{again} of {records} records from the slow disk again");
    for crashes in [false, true, true] {
        if crashes {
            // What is written down every few seconds at the latest lasts.
            std::thread::sleep(Duration::from_secs(6));
            mount.kill();
        } else {
            mount.unmount();
        }
        mount.restart(&words(&cache));
        let ever = mount.status()["caches"][0]["written_bytes"].as_u64().expect("a size");
        let since = mount.counter("l2_write_bytes");
        assert!(since < ever / 2, "rates count from this start: {since} of {ever}");
        read_all(&mount, &contents);
        let reads = mount.counter("origin_reads");
        let from_flash = mount.counter("l2_hits") + mount.counter("primed_records");
        assert!(from_flash + reads >= records, "{from_flash} from flash, {reads} from the disk");
        assert!(reads * 50 <= records, "{reads} of {records} records from the slow disk");
        // What a crash has taken comes back.
        feed_all(&mount, &contents);
    }
}

/// Reads and writes at random places until the daemon is gone, and compares what is read. Returns
/// the range of a write of which nobody knows whether it was done.
fn work(path: &Path, contents: &mut [u8], mut random: u64) -> Option<std::ops::Range<usize>> {
    let file = File::options().read(true).write(true).open(path).ok()?;
    loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let length = 1 + (random >> 40) as usize % 40_000;
        let at = (random >> 20) as usize % (contents.len() - length);
        let range = at..at + length;
        if (random >> 16).is_multiple_of(3) {
            let patch = random_bytes(random, length);
            if file.write_all_at(&patch, at as u64).is_err() {
                return Some(range);
            }
            contents[range].copy_from_slice(&patch);
        } else {
            let mut bytes = vec![0; length];
            if file.read_exact_at(&mut bytes, at as u64).is_err() {
                return None;
            }
            assert!(bytes == contents[range], "what was read at {at}");
        }
    }
}

#[test]
fn what_is_written_is_never_read_in_an_older_form_after_a_crash() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let cache = cache.to_str().expect("text");
    let mut arguments = vec!["--cache", cache, "--arc-max=16M", "--dwpd=none"];
    arguments.extend(["-o", "recordsize=16K", "-o", "write=through"]);
    let builder = arguments.iter().fold(Mount::builder(), |builder, word| builder.argument(word));
    let mut mount = builder.start();
    let mut contents = random_bytes(1, 24 * MIB);
    fs::write(mount.join("data"), &contents).expect("written");
    for life in 0..4 {
        let daemon = rustix::process::Pid::from_raw(mount.daemon_id() as i32).expect("an id");
        let doubt = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(1500 + 700 * life));
                let killed = rustix::process::kill_process(daemon, rustix::process::Signal::KILL);
                killed.expect("it is ours");
            });
            work(&mount.join("data"), &mut contents, life)
        });
        mount.kill();
        mount.restart(&arguments);
        let at_origin = fs::read(mount.origin().join("data")).expect("it can be read");
        if let Some(range) = doubt {
            contents[range.clone()].copy_from_slice(&at_origin[range]);
        }
        assert!(at_origin == contents, "life {life}: what was acknowledged is there");
        let found = fs::read(mount.join("data")).expect("it can be read");
        assert!(found == contents, "life {life}: and is read");
        fed(&mount, 100);
    }
}

#[test]
fn devices_come_and_go_while_the_pool_runs() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let (mut mount, contents) = with_data(&cache);
    let name = "slow";
    let second = directory.path().join("second:64M");
    let second = second.to_str().expect("text");
    read_all(&mount, &contents);
    let added = mount.warmfront().run(["pool", "add", name, "cache", second]);
    assert!(
        added.contains("this lasts until the pool is unmounted: it has no settings file"),
        "{added}"
    );
    let caches = || mount.status()["caches"].as_array().expect("a list").len();
    assert_eq!(caches(), 2);
    let again = mount.warmfront().program(["pool", "add", name, "cache", second]);
    again.run().fails_with(1, &["is a cache device of the pool already"]);
    read_all(&mount, &contents);
    for path in [directory.path().join("second"), cache] {
        let program = mount.warmfront().program(["pool", "remove", name, "cache"]);
        program.arg(&path).run().success();
        read_all(&mount, &contents);
        let head = &fs::read(&path).expect("it is there")[..4096];
        assert!(head.iter().all(|byte| *byte == 0), "{} is wiped", path.display());
    }
    assert_eq!(caches(), 0);
    let program = mount.warmfront().program(["pool", "remove", name, "cache", "/nowhere"]);
    program.run().fails_with(1, &["has no cache device /nowhere; it has none"]);
    mount.unmount();
}

#[test]
fn a_device_whose_file_is_gone_is_told_of_and_leaves_the_others_warm() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let (mut mount, contents) = with_data(&cache);
    let second = directory.path().join("second");
    let program = mount.warmfront().program(["pool", "add", "slow", "cache"]);
    program.arg(format!("{}:64M", second.display())).run().success();
    feed_all(&mount, &contents);
    let is_gone = |at: usize| mount.status()["caches"][at]["is_gone"].as_bool();
    assert_eq!((is_gone(0), is_gone(1)), (Some(false), Some(false)));
    fs::remove_file(&second).expect("it can be");
    assert_eq!((is_gone(0), is_gone(1)), (Some(false), Some(true)));
    let told = mount.warmfront().run(["status", mount.path().to_str().expect("text")]);
    assert!(told.contains("second has been removed or replaced"), "{told}");
    read_all(&mount, &contents);
    // What somebody else has put there is not the pool's to wipe.
    fs::write(&second, "another's").expect("written");
    let program = mount.warmfront().program(["pool", "remove", "slow", "cache"]);
    program.arg(&second).run().success();
    assert_eq!(fs::read_to_string(&second).expect("it is there"), "another's");
    read_all(&mount, &contents);
    mount.kill();
    mount.restart(&words(&cache));
    assert_eq!(mount.status()["caches"][0]["note"], "it is warm");
    mount.unmount();
}

#[test]
fn a_device_that_fails_while_it_is_used_harms_nobody() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let (mut mount, mut contents) = with_data(&cache);
    feed_all(&mount, &contents);
    // All that is on the device is gone at once, and reads end early.
    File::options().write(true).open(&cache).expect("it opens").set_len(0).expect("cut");
    read_all(&mount, &contents);
    let file = File::options().write(true).open(mount.join("data")).expect("it opens");
    for at in (0..contents.len()).step_by(4 * MIB) {
        let patch = random_bytes(at as u64, 5000);
        file.write_all_at(&patch, at as u64).expect("the origin takes it");
        contents[at..at + patch.len()].copy_from_slice(&patch);
    }
    drop(file);
    read_all(&mount, &contents);
    mount.unmount();
    mount.restart(&words(&cache_file(test_directory().path())));
    read_all(&mount, &contents);
}

#[test]
fn a_cache_file_on_a_full_file_system_is_read_and_tried_again() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("mkfs.ext4"));
    let disk = SmallDisk::ext4(128 * MIB as u64);
    let cache = cache_file(disk.path());
    let filler = disk.path().join("filler");
    fs::write(&filler, vec![1; 88 * MIB]).expect("it fits");
    let (mut mount, mut contents) = with_data(&cache);
    let device = |mount: &Mount| mount.status()["caches"][0].clone();
    let is = |mount: &Mount, condition: &str| device(mount)["condition"] == condition;
    let told = || {
        read_all(&mount, &contents);
        let told = mount.warmfront().run(["status", "slow"]);
        told.contains("has not been written for")
            && told.contains("the file system of the cache file is full: make room")
    };
    assert!(wait_until(PATIENCE, told), "{}", device(&mount));
    // Tombstones have their room, so nothing is void.
    let file = File::options().write(true).open(mount.join("data")).expect("it opens");
    for at in (0..contents.len()).step_by(MIB) {
        let patch = random_bytes(at as u64, 5000);
        file.write_all_at(&patch, at as u64).expect("the origin takes it");
        contents[at..at + patch.len()].copy_from_slice(&patch);
    }
    drop(file);
    read_all(&mount, &contents);
    assert!(!is(&mount, "void"), "{}", device(&mount));
    mount.kill();
    mount.restart(&words(&cache));
    read_all(&mount, &contents);
    assert_ne!(device(&mount)["note"], "it was blank");
    // With room it takes records again.
    fs::remove_file(&filler).expect("it is there");
    let records = (contents.len() / RECORD) as u64;
    let filled = || {
        read_all(&mount, &contents);
        is(&mount, "works") && mount.counter("l2_records") >= records
    };
    assert!(wait_until(PATIENCE * 4, filled), "{}", device(&mount));
    assert!(mount.log().contains("was bypassed works, and is used again"), "{}", mount.log());
}

#[test]
fn a_cache_file_that_is_punched_gives_no_wrong_byte_and_says_so() {
    require!(Requirement::Fuse, Requirement::Tool("fallocate"));
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let punch = || {
        let words = ["-p", "-o", "4MiB", "-l", "250MiB"];
        Program::new("fallocate").args(words).arg(&cache).run().success();
    };
    let (mut mount, contents) = with_data(&cache);
    feed_all(&mount, &contents);
    let damaged = |mount: &Mount| {
        read_all(mount, &contents);
        let told = mount.warmfront().run(["status", "slow"]);
        let segments = mount.counter("l2_damaged_segments");
        let words = "was found damaged since it was mounted (records: ";
        assert!(segments > 5 && told.contains(words), "{segments}: {told}");
        assert!(told.contains(&format!("whole segments: {segments})")), "{told}");
    };
    punch();
    damaged(&mount);
    feed_all(&mount, &contents);
    mount.unmount();
    punch();
    mount.restart(&words(&cache));
    damaged(&mount);
}

#[test]
fn keys_of_each_start_keep_within_the_wear_budget() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = directory.path().join("keyed:64M");
    let cache = cache.to_str().expect("text");
    let (mut mount, contents) = with_data(&cache_file(directory.path()));
    let size = 64 * MIB as u64;
    let words = ["--cache", cache, "--cache-key=each-start", "--arc-max=24M", "--slow=hdd"];
    for life in 0..5 {
        mount.unmount();
        mount.restart(&words);
        for _ in 0..2 {
            read_all(&mount, &contents);
            std::thread::sleep(Duration::from_secs(1));
        }
        let device = &mount.status()["caches"][0];
        let [written, left] =
            ["written_bytes", "credit_bytes"].map(|name| device[name].as_u64().expect("a count"));
        // A first fill, a day's budget, and what may be saved up beyond it.
        assert!(written <= 3 * size + size / 8, "life {life}: {device}");
        let charged = written.saturating_sub(size);
        assert!(left + charged <= 2 * size + size / 8, "life {life}: {device}");
    }
}

#[test]
fn bits_that_flip_on_the_device_are_noticed() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let (mut mount, contents) = with_data(&cache);
    feed_all(&mount, &contents);
    mount.unmount();
    let file = File::options().read(true).write(true).open(&cache).expect("it opens");
    let bytes = file.metadata().expect("a file").len();
    for place in (MIB as u64..bytes).step_by(700_001) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).expect("a read");
        file.write_all_at(&[byte[0] ^ 4], place).expect("a write");
    }
    mount.restart(&words(&cache));
    read_all(&mount, &contents);
    assert!(mount.counter("l2_cksum_bad") > 0, "some of them lay in records");
}

#[test]
fn encrypted_devices_hold_nothing_that_can_be_read_and_open_with_their_key_only() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let base = test_directory();
    fs::create_dir(base.path().join("slow")).expect("an origin");
    let secret = b"the quick brown fox jumps over the lazy dog; ".repeat(200_000);
    fs::write(base.path().join("slow/data"), &secret).expect("written");
    let key = directory.path().join("key");
    fs::write(&key, random_bytes(9, 32)).expect("written");
    let mut mount = Mount::builder().base(base).start();
    mount.unmount();
    let holds_secret = || {
        let bytes = fs::read(&cache).expect("it can be read");
        bytes.windows(20).step_by(1).any(|window| window == &secret[4..24])
    };
    let start = |mount: &mut Mount, key: &str| {
        let mut words = words(&cache).to_vec();
        words.extend(["-o", "compression=off", "--cache-key", key]);
        mount.restart(&words);
        assert!(fs::read(mount.join("data")).expect("it can be read") == secret);
        fed(mount, 60);
        let note = mount.status()["caches"][0]["note"].as_str().expect("a note").to_string();
        mount.unmount();
        note
    };
    // What was there before there was a key goes.
    mount.restart(&[&words(&cache)[..], &["-o", "compression=off"]].concat());
    assert!(fs::read(mount.join("data")).expect("it can be read") == secret);
    fed(&mount, 60);
    mount.unmount();
    assert!(holds_secret());
    let key = key.to_str().expect("text");
    let note = start(&mut mount, key);
    assert!(note.contains("with another key, or with none"), "{note}");
    assert!(!holds_secret(), "nothing of it can be read");
    assert_eq!(start(&mut mount, key), "it is warm");
    assert!(start(&mut mount, "each-start").contains("another key"));
    assert!(start(&mut mount, "each-start").contains("another key"));
    assert!(!holds_secret());
}

#[test]
fn the_figures_of_datasets_and_devices_add_up() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let (mut mount, contents) = with_data(&cache);
    for name in ["a", "b"] {
        fs::create_dir(mount.join(name)).expect("a directory");
        mount.warmfront().run(["create", &format!("slow/{name}")]);
        fill(&mount.origin().join(name).join("file"), 3, 8 * MIB);
        fs::read(mount.join(name).join("file")).expect("it can be read");
    }
    feed_all(&mount, &contents);
    fed(&mount, 400);
    let status = mount.status();
    for name in ["l2_hits", "l2_misses", "l2_fed", "l2_unfed_refused"] {
        let of_all = status["counters"][name].as_u64().expect("a counter");
        let datasets = status["datasets"].as_object().expect("datasets").values();
        let sum: u64 = datasets.map(|dataset| dataset[name].as_u64().unwrap_or(0)).sum();
        assert_eq!(sum, of_all, "{name}");
    }
    let of = |name: &str| warmfront_tests::counter(&status, name);
    let datasets = status["datasets"].as_object().expect("datasets").values();
    let sizes: u64 = datasets.filter_map(|dataset| dataset["size"].as_u64()).sum();
    assert_eq!(sizes + of("size_unowned"), of("size"));
    let stored: u64 = status["caches"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|device| device["stored_bytes"].as_u64().expect("a size"))
        .sum();
    assert_eq!(stored, status["counters"]["l2_asize"].as_u64().expect("a size"));
    let told = mount.warmfront().run(["status", "slow"]);
    let fed = of("l2_fed") + of("l2_metadata_fed");
    assert!(told.contains(&format!("feed        {fed} records taken in")), "{fed}: {told}");
    assert!(told.contains("of RAM: there are few records"), "{told}");
    // What comes back to RAM from flash at a start is counted, too.
    mount.unmount();
    mount.restart(&words(&cache));
    assert!(wait_until(PATIENCE, || mount.counter("primed_records") > 50));
    let status = mount.status();
    let of = |name: &str| warmfront_tests::counter(&status, name);
    // Those come as what is missing that were not known on flash yet when it was their turn.
    let came = of("l2_restored") + of("l2_hits");
    assert!(came > 25, "{:#}", status["counters"]);
    for name in ["l2_restored", "l2_restored_bytes"] {
        let datasets = status["datasets"].as_object().expect("datasets").values();
        let sum: u64 = datasets.map(|dataset| dataset[name].as_u64().unwrap_or(0)).sum();
        assert_eq!(sum, of(name), "{name}");
    }
}

#[test]
fn what_another_mount_of_the_origin_has_changed_is_seen_after_a_restart() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "slow/deep", "elsewhere", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let (origin, top) = (place.join("slow"), place.join("fast"));
    fill(&origin.join("data"), 1, 4 * MIB);
    fs::write(origin.join("deep/note"), "one").expect("written");
    let create = ["pool", "create", "tank", &path("slow"), "--cache", &path("cache:64M")];
    warmfront.run(create);
    warmfront.run(["set", "coherence=exclusive", "tank"]);
    let mount = |origin: &str| warmfront.run(["mount", origin, &path("fast"), "--arc-max=64M"]);
    let unmount = || warmfront.run(["unmount", &path("fast")]);
    let read = |name: &str| fs::read(top.join(name)).ok();
    let look = || ["data", "deep/note", "deep/new", "moved"].map(read);
    mount("tank");
    let mut found = look();
    let fed = || warmfront_tests::counter(&warmfront.status(&top), "l2_records") >= 32;
    assert!(wait_until(PATIENCE, fed), "it is on flash");
    unmount();
    // Before the origin itself, and before a part of it.
    for (round, part) in ["slow", "slow/deep"].into_iter().enumerate() {
        mount(&path(part));
        let below = |name: &str| top.join(name.strip_prefix("deep/").unwrap_or(name));
        let seen = |name: &str| if part == "slow" { top.join(name) } else { below(name) };
        fs::write(seen("deep/note"), format!("two {round}")).expect("written");
        fs::write(seen("deep/new"), format!("new {round}")).expect("written");
        if part == "slow" {
            fs::rename(top.join("data"), top.join("moved")).expect("renamed");
            fill(&top.join("data"), 2, 4 * MIB);
        }
        unmount();
        mount("tank");
        let now = look();
        let there = ["data", "deep/note", "deep/new", "moved"];
        let there = there.map(|name| fs::read(origin.join(name)).ok());
        assert!(now == there && now != found, "{part}: {:?}", (&now[1..3], &there[1..3]));
        found = now;
        unmount();
    }
    // Beside it, while it is mounted.
    let second = path("second");
    fs::create_dir(&second).expect("a mount point");
    mount("tank");
    assert!(look() == found);
    warmfront.run(["mount", &path("slow/deep"), &second, "--arc-max=64M"]);
    fs::write(place.join("second/note"), "three").expect("written");
    warmfront.run(["unmount", &second]);
    unmount();
    mount("tank");
    found = look();
    assert_eq!(found[1].as_deref(), Some(b"three".as_slice()));
    unmount();
    // Through a part of it that is mounted in another place as well, which takes root.
    if rustix::process::geteuid().is_root() {
        let alias = path("alias");
        fs::create_dir(&alias).expect("a mount point");
        mount_bind(path("slow/deep").as_str(), alias.as_str()).expect("bound");
        let changed = std::panic::catch_unwind(|| {
            mount(&alias);
            fs::write(top.join("note"), "longer than three").expect("written");
            unmount();
        });
        rustix::mount::unmount(alias.as_str(), UnmountFlags::DETACH).expect("it was bound");
        changed.expect("it is changed through the alias");
        mount("tank");
        found = look();
        assert_eq!(found[1].as_deref(), Some(b"longer than three".as_slice()));
        unmount();
    }
    // One that only reads takes nothing from it.
    warmfront.run(["mount", &path("slow"), &path("fast"), "--arc-max=64M", "--read-only"]);
    unmount();
    mount("tank");
    assert!(look() == found);
    let calls = warmfront_tests::origin_calls(&warmfront.status(&top));
    assert!(calls <= 5, "{calls} calls to the origin");
    unmount();
    // Nor is anything believed of what the settings name no longer.
    let file = warmfront.config_directory().join("tank.toml");
    let settings = fs::read_to_string(&file).expect("a settings file");
    fs::write(&file, settings.replace(&path("slow"), &path("elsewhere"))).expect("written");
    mount("tank");
    assert!(look().iter().all(Option::is_none), "{:?}", &look()[1..3]);
    assert_eq!(fs::read_dir(&top).expect("a directory").count(), 0);
    unmount();
}

/// The names below `top`, and the bytes of all files.
fn walk(top: &Path) -> (usize, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(top).expect("a directory") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("attributes");
        let below = match metadata.is_dir() {
            true => walk(&entry.path()),
            false => (0, fs::read(entry.path()).expect("it can be read").len() as u64),
        };
        sum = (sum.0 + 1 + below.0, sum.1 + below.1);
    }
    sum
}

#[test]
fn after_a_stop_names_and_hot_records_are_known_again() {
    require!(Requirement::Fuse);
    let directory = test_directory();
    let cache = cache_file(directory.path());
    let base = test_directory();
    for folder in 0..5 {
        let folder = base.path().join(format!("slow/{folder}"));
        fs::create_dir_all(&folder).expect("a directory");
        for file in 0..20 {
            fill(&folder.join(file.to_string()), file, 50_000);
        }
    }
    let mut words = words(&cache).to_vec();
    words.extend(["-o", "coherence=exclusive"]);
    let builder = words.iter().fold(Mount::builder().base(base), |all, word| all.argument(word));
    let mut mount = builder.start();
    let found = walk(mount.path());
    assert_eq!(found.0, 105);
    fed(&mount, 100);
    mount.unmount();
    mount.restart(&words);
    assert_eq!(walk(mount.path()), found);
    let status = mount.status();
    let calls = warmfront_tests::origin_calls(&status);
    assert!(calls <= 5, "{calls} calls to the slow disk: {:#}", status["counters"]);
    assert!(status["restored"]["answers"].as_u64().expect("a count") >= 200);

    // Changes are known as well, and what a crash has taken is asked for.
    fs::write(mount.join("0/0"), b"new").expect("written");
    fs::remove_file(mount.join("0/1")).expect("removed");
    fs::rename(mount.join("0/2"), mount.join("0/new")).expect("renamed");
    for crashes in [false, true] {
        if crashes {
            mount.run(&["save"]);
            let mut file = fs::File::create(mount.join("0/3")).expect("created");
            file.write_all(b"newer").expect("written");
            file.sync_all().expect("it lasts");
            fs::remove_file(mount.join("0/4")).expect("removed");
            mount.kill();
        } else {
            mount.unmount();
        }
        mount.restart(&words);
        assert_eq!(fs::read(mount.join("0/0")).expect("it is there"), b"new");
        assert!(!mount.join("0/1").exists() && !mount.join("0/2").exists());
        assert_eq!(fs::read(mount.join("0/new")).expect("it is there").len(), 50_000);
        if crashes {
            assert_eq!(fs::read(mount.join("0/3")).expect("it is there"), b"newer");
            assert!(!mount.join("0/4").exists());
        }
    }
    mount.unmount();

    // What is changed without being looked at afterwards, stop after stop.
    for round in 0..3_u64 {
        mount.restart(&words);
        let path = mount.join("1/5");
        let appended = random_bytes(round, 30_000);
        let mut file = File::options().append(true).open(&path).expect("it opens");
        file.write_all(&appended).expect("appended");
        drop(file);
        let cut = File::options().write(true).open(mount.join("1/6")).expect("it opens");
        cut.set_len(40_000 - round).expect("cut");
        drop(cut);
        let mode = 0o600 + round as u32;
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(mount.join("1/7"), permissions).expect("its mode");
        let gone = File::open(mount.join(format!("2/{round}"))).expect("it opens");
        fs::remove_file(mount.join(format!("2/{round}"))).expect("removed");
        drop(gone);
        mount.unmount();
        mount.restart(&words);
        for name in ["1/5", "1/6"] {
            let [seen, there] = [mount.join(name), mount.origin().join(name)]
                .map(|path| fs::read(path).expect("it can be read"));
            assert!(seen == there, "round {round}: {name}: {} of {}", seen.len(), there.len());
        }
        let seen = fs::metadata(mount.join("1/7")).expect("attributes").permissions().mode();
        assert_eq!(seen & 0o777, mode, "round {round}");
        assert!(!mount.join(format!("2/{round}")).exists(), "round {round}");
        mount.unmount();
    }
    words.push("--cold");
    mount.restart(&words);
    assert_eq!(mount.status()["restored"]["answers"].as_u64(), Some(0));
}
