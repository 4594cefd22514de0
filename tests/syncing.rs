//! Each way to make something last does what it promises, by what the log is told.

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};
use serde_json::Value;
use warmfront_tests::{
    Mapping, Mount, Requirement, counter, random_bytes, require, test_directory,
};

const FILE_BYTES: usize = 64 << 10;
const WRITE_BYTES: usize = 8192;

/// What the log was told so far.
#[derive(Debug, Clone, Copy)]
struct Told {
    data_bytes: u64,
    records: u64,
    blocks: u64,
}

impl Told {
    fn of(status: &Value) -> Told {
        Told {
            data_bytes: counter(status, "zil_data_bytes"),
            records: counter(status, "zil_records"),
            blocks: counter(status, "zil_blocks"),
        }
    }
}

/// A mount with a log device, and a file that is clean and open.
struct Place {
    mount: Mount,
    file: File,
    seed: u64,
}

impl Place {
    fn new(pagecache: &str) -> Place {
        let base = test_directory();
        let log = format!("{}:32M", base.path().join("log").to_str().expect("text"));
        let builder = Mount::builder().base(base).argument("--log").argument(&log);
        let builder = builder.property("pagecache", pagecache).property("coherence", "exclusive");
        let mount = builder.start();
        fs::write(mount.join("file"), vec![1; FILE_BYTES]).expect("it can be made");
        let file = File::options().read(true).write(true).open(mount.join("file"));
        let place = Place { mount, file: file.expect("it opens"), seed: 0 };
        place.mount.run(&["sync"]);
        place
    }

    /// The file opened once more.
    fn open(&self, flags: OFlags) -> File {
        let mut options = File::options();
        let options = options.read(true).write(true).custom_flags(flags.bits().cast_signed());
        options.open(self.mount.join("file")).expect("it opens")
    }

    /// Writes new bytes to `file`.
    fn write(&mut self, file: &File) {
        self.write_by(|bytes| file.write_all_at(bytes, 4096).expect("it is taken"));
    }

    fn write_by(&mut self, write: impl FnOnce(&[u8])) {
        self.seed += 1;
        write(&random_bytes(self.seed, WRITE_BYTES));
    }

    /// What the log was told by `act`, with no group of five seconds in between.
    fn told(&mut self, act: impl FnOnce(&mut Place)) -> Told {
        self.mount.run(&["sync"]);
        let before = Told::of(&self.mount.status());
        act(self);
        let after = Told::of(&self.mount.status());
        Told {
            data_bytes: after.data_bytes - before.data_bytes,
            records: after.records - before.records,
            blocks: after.blocks - before.blocks,
        }
    }

    /// Whether `act` makes a write last by the log: no more and no less.
    #[track_caller]
    fn lasts(&mut self, what: &str, act: impl FnOnce(&mut Place)) -> Told {
        let told = self.told(act);
        assert_eq!(told.data_bytes, WRITE_BYTES as u64, "{what}: {told:?}");
        assert!(told.blocks > 0, "{what}: {told:?}");
        told
    }
}

fn each_way(pagecache: &str) {
    require!(Requirement::Fuse);
    let mut place = Place::new(pagecache);
    let file = place.file.try_clone().expect("a descriptor");
    let told = place.told(|place| place.write(&file));
    assert_eq!((told.data_bytes, told.blocks), (0, 0), "nobody has asked: {told:?}");
    let data = place.lasts("fdatasync", |place| {
        place.write(&file);
        file.sync_data().expect("it lasts");
    });
    let all = place.lasts("fsync", |place| {
        place.write(&file);
        file.sync_all().expect("it lasts");
    });
    assert!(all.records > data.records, "the times as well: {data:?}, {all:?}");
    let told = place.told(|_| file.sync_data().expect("it lasts"));
    assert_eq!(told.data_bytes, 0, "there is nothing new: {told:?}");
    for (what, flags) in [("O_SYNC", OFlags::SYNC), ("O_DSYNC", OFlags::DSYNC)] {
        let synchronous = place.open(flags);
        place.lasts(what, |place| place.write(&synchronous));
    }
    for (what, flags) in [("RWF_SYNC", ReadWriteFlags::SYNC), ("RWF_DSYNC", ReadWriteFlags::DSYNC)]
    {
        place.lasts(what, |place| {
            place.write_by(|bytes| {
                let written = pwritev2(&file, &[IoSlice::new(bytes)], 4096, flags);
                assert_eq!(written, Ok(WRITE_BYTES));
            });
        });
    }
    place.lasts("another descriptor's fsync", |place| {
        place.write(&file);
        place.open(OFlags::empty()).sync_all().expect("it lasts");
    });

    // A name lasts with the directory's fsync.
    let told = place.told(|place| {
        fs::create_dir(place.mount.join("directory")).expect("it is made");
        File::open(place.mount.path()).expect("it opens").sync_all().expect("it lasts");
    });
    assert!(told.records > 0 && told.blocks > 0, "{told:?}");

    // The kernel keeps `syncfs` to itself; `warmfront sync` brings all to the origin.
    let told = place.told(|place| {
        place.write(&file);
        rustix::fs::syncfs(&file).expect("the kernel has nothing to write");
    });
    assert_eq!(told.data_bytes, 0, "{told:?}");
    assert_ne!(place.mount.status()["writes"]["dirty_bytes"], 0);
    place.mount.run(&["sync"]);
    assert_eq!(place.mount.status()["writes"]["dirty_bytes"], 0);
    drop(file);
    let Place { mut mount, file, .. } = place;
    drop(file);
    mount.unmount();
}

#[test]
fn with_the_page_cache() {
    each_way("on");
}

#[test]
fn without_the_page_cache() {
    each_way("off");
}

#[test]
fn a_mapping_lasts_by_msync() {
    require!(Requirement::Fuse);
    let mut place = Place::new("on");
    let mut mapping = Mapping::new(&place.file, FILE_BYTES, true).expect("a map");
    let told = place.told(|_| mapping.write(4096, &random_bytes(1, WRITE_BYTES)));
    assert_eq!(told.data_bytes, 0, "nobody has asked: {told:?}");
    place.lasts("msync", |_| {
        mapping.write(4096, &random_bytes(2, WRITE_BYTES));
        mapping.sync().expect("it lasts");
    });
    drop(mapping);
}

/// What is set is warned of, there and wherever the pool is looked at; and it does what it says.
#[test]
fn risks_are_told_when_they_are_set() {
    require!(Requirement::Fuse);
    let mut place = Place::new("off");
    for (name, value, words) in [
        ("sync", "disabled", "fsync returns at once and keeps nothing"),
        ("nocacheflush", "on", "the origin is not asked to flush"),
    ] {
        let setting = format!("{name}={value}");
        let set = place.mount.warmfront().program(["set", &setting]).arg(place.mount.path()).run();
        assert!(set.succeeded() && set.stderr.contains(words), "{set}");
        for command in ["status", "doctor"] {
            let told = place.mount.warmfront().program([command]).arg(place.mount.path()).run();
            assert!(told.stdout.contains(words), "{told}");
        }
    }
    let file = place.file.try_clone().expect("a descriptor");
    let told = place.told(|place| {
        place.write(&file);
        file.sync_all().expect("it returns at once");
    });
    assert_eq!((told.data_bytes, told.blocks), (0, 0), "{told:?}");
    let set = place.mount.warmfront().program(["set", "sync=always"]).arg(place.mount.path());
    set.run().success();
    place.lasts("sync=always", |place| place.write(&file));
}

/// Files that lose their names while they are dirty, and files with several names.
#[test]
fn names_come_and_go_over_dirty_files() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let log = base.path().join("log").to_str().expect("text").to_string();
    let words = [format!("--log={log}:32M"), "--arc-max=64M".into()];
    let words = [words.each_ref().map(String::as_str), ["-o", "coherence=exclusive"]].concat();
    let builder = Mount::builder().base(base);
    let mut mount = words.iter().fold(builder, |all, word| all.argument(word)).start();
    let contents = |number: u64| random_bytes(number, 100_000);
    let write = |name: &str, number: u64| {
        fs::write(mount.join(name), contents(number)).expect("it is written");
    };
    // Deleted while dirty: open, made to last without a name, and closed.
    write("deleted", 1);
    let deleted = File::options().read(true).write(true).open(mount.join("deleted"));
    let deleted = deleted.expect("it opens");
    fs::remove_file(mount.join("deleted")).expect("it goes");
    deleted.write_all_at(b"more", 200_000).expect("it is written");
    deleted.sync_all().expect("it lasts, though nobody will find it");
    let mut bytes = vec![0; 100_000];
    deleted.read_exact_at(&mut bytes, 0).expect("it can be read");
    assert!(bytes == contents(1));
    drop(deleted);
    // Renamed over while dirty.
    write("old", 2);
    write("new", 3);
    fs::rename(mount.join("new"), mount.join("old")).expect("moved");
    // With a second name, of which the first one goes; made to last by the second one.
    write("first", 4);
    fs::hard_link(mount.join("first"), mount.join("second")).expect("another name");
    fs::remove_file(mount.join("first")).expect("it goes");
    let second = File::options().write(true).open(mount.join("second")).expect("it opens");
    second.write_all_at(b"by the second name", 0).expect("it is written");
    second.sync_all().expect("it lasts");
    drop(second);
    mount.kill();
    mount.restart(&words);
    let mut by_second = contents(4);
    by_second[..18].copy_from_slice(b"by the second name");
    for top in [mount.path().to_owned(), mount.origin().to_owned()] {
        let mut names: Vec<_> = fs::read_dir(&top)
            .expect("a directory")
            .map(|entry| entry.expect("a name").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["old", "second"]);
        assert!(fs::read(top.join("old")).expect("it is there") == contents(3));
        assert!(fs::read(top.join("second")).expect("it is there") == by_second);
    }
    mount.unmount();
}

/// Where a file of the origin's cannot reach, nobody may write, and is told so at once. Elsewhere
/// he may, up to the last byte.
#[test]
fn offsets_up_to_the_limit_of_the_origin() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let plain = test_directory();
    let open = |path| File::options().read(true).write(true).create_new(true).open(path);
    let ours = open(mount.join("file")).expect("it is made");
    let theirs = open(plain.path().join("file")).expect("it is made");
    let mut refused = 0;
    for shift in 20..63 {
        for offset in [(1 << shift) - 4096, 1 << shift, (1 << shift) + 1] {
            let [ours, theirs] = [&ours, &theirs].map(|file| {
                let written = file.write_at(b"here", offset);
                written.map_err(|error| error.raw_os_error())
            });
            assert_eq!(ours, theirs, "at {offset}");
            refused += u64::from(ours.is_err());
        }
    }
    assert!(refused > 0, "this file system has no limit, so nothing was tested");
    ours.sync_all().expect("all that was taken lasts");
    let lengths = [&ours, &theirs].map(|file| file.metadata().expect("it is open").len());
    assert_eq!(lengths[0], lengths[1]);
    for shift in 20..63 {
        let [ours, theirs] = [&ours, &theirs].map(|file| {
            let mut bytes = [0; 4];
            file.read_at(&mut bytes, (1 << shift) - 4096).map(|count| (count, bytes)).ok()
        });
        assert_eq!(ours, theirs, "at 2^{shift}");
    }
    drop(ours);
    mount.unmount();
}

/// The log knows no time of day: a mount without a clock that is right replays as any other.
#[test]
fn times_of_long_ago_and_far_ahead_are_kept() {
    require!(Requirement::Fuse);
    let mut place = Place::new("off");
    let file = place.file.try_clone().expect("a descriptor");
    for seconds in [1, 2_000_000_000, 4_000_000_000] {
        let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        place.write(&file);
        file.set_modified(time).expect("it is set");
        file.sync_all().expect("it lasts");
        let found = file.metadata().expect("it is open").modified().expect("a time");
        assert_eq!(found, time);
        place.mount.run(&["sync"]);
        let origin = place.mount.origin().join("file");
        let found = fs::metadata(origin).expect("it is there").modified().expect("a time");
        assert_eq!(found, time, "the write before does not change it any more");
    }
}
