use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use storage::Call;
use warmfront_tests::{FaultyDisk, Mount, Requirement, fill, random_bytes, require, wait_until};

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
