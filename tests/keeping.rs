//! What RAM held comes back with the next mount.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use warmfront_tests::{Mount, Requirement, counter, fill, require, wait_until};

const FILE_BYTES: usize = 2 << 20;
const FILES: u64 = 8;

/// Reads pieces of the files as a program does that uses some of them more than others, and returns
/// the share of records that were in RAM.
fn hit_rate(mount: &Mount) -> f64 {
    let before = mount.status();
    let mut piece = vec![0; 4096];
    for round in 0..400_u64 {
        let number = round * round % FILES;
        let file = File::open(mount.join(format!("file{number}"))).expect("it opens");
        let offset = round.wrapping_mul(0x9E37_79B9) % (FILE_BYTES as u64 / 4096) * 4096;
        file.read_exact_at(&mut piece, offset).expect("it is read");
    }
    let after = mount.status();
    let count = |name: &str| (counter(&after, name) - counter(&before, name)) as f64;
    count("demand_data_hits") / (count("demand_data_hits") + count("demand_data_misses"))
}

fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).expect("it is read");
    bytes
}

/// Waits until no more comes back, and says how many records did.
fn restored(mount: &Mount) -> u64 {
    let count = || mount.status()["restored"]["records"].as_u64().expect("a count");
    let mut before = count();
    let rests = || {
        std::thread::sleep(Duration::from_millis(200));
        let now = count();
        std::mem::replace(&mut before, now) == now
    };
    assert!(wait_until(Duration::from_secs(30), rests), "it comes to rest");
    count()
}

/// The kernel keeps no pages, so that each read is seen here.
fn mount_arguments() -> [&'static str; 6] {
    ["--arc-max", "128M", "-o", "pagecache=off", "-o", "recordsize=16K"]
}

#[test]
fn a_working_set_is_warm_after_a_restart() {
    require!(Requirement::Fuse);
    let mut builder = Mount::builder();
    for argument in mount_arguments() {
        builder = builder.argument(argument);
    }
    let mut mount = builder.start();
    for number in 0..FILES {
        fill(&mount.origin().join(format!("file{number}")), number, FILE_BYTES);
    }
    hit_rate(&mount);
    let before = hit_rate(&mount);
    mount.unmount();

    mount.restart(&mount_arguments());
    assert!(restored(&mount) > 100, "records come back without a cache device");
    let after = hit_rate(&mount);
    assert!(after > before - 0.02, "{after} after the restart, {before} before");
    assert_eq!(before, 1.0, "everything fits");
    mount.unmount();

    // On request it starts with nothing.
    mount.restart(&[&mount_arguments()[..], &["--cold"]].concat());
    assert!(hit_rate(&mount) < 0.9);
    assert_eq!(restored(&mount), 0);
    mount.unmount();
}

#[test]
fn what_is_saved_outlasts_a_kill_and_what_has_changed_is_read_anew() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().start();
    let names = ["same", "other"];
    for name in names {
        fill(&mount.origin().join(name), 1, FILE_BYTES);
        assert_eq!(read(&mount.join(name)).len(), FILE_BYTES);
    }
    mount.run(&["save"]);
    mount.kill();
    fill(&mount.origin().join("other"), 2, FILE_BYTES);
    mount.restart(&["--arc-max", "128M"]);
    let records = FILE_BYTES as u64 / (128 << 10);
    assert_eq!(restored(&mount), records, "of the file that is the same");
    for name in names {
        assert_eq!(read(&mount.join(name)), fs::read(mount.origin().join(name)).expect("read"));
    }
    mount.unmount();
}

#[test]
fn a_name_that_leads_nowhere_after_a_stop_is_looked_up_anew() {
    require!(Requirement::Fuse);
    let arguments = ["-o", "coherence=exclusive", "-o", "pagecache=off"];
    let builder = arguments.iter().fold(Mount::builder(), |all, argument| all.argument(argument));
    let mut mount = builder.start();
    fill(&mount.origin().join("file"), 1, FILE_BYTES);
    fs::metadata(mount.join("file")).expect("its name is known");
    mount.unmount();

    // Against what was said of the origin.
    let other = mount.origin().join("other");
    fill(&other, 2, FILE_BYTES);
    fs::rename(&other, mount.origin().join("file")).expect("it takes the name");
    mount.restart(&arguments);
    let read = || fs::read(mount.join("file"));
    let first = read();
    if let Err(error) = &first {
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()), "{error}");
    }
    let second = read().expect("the name was asked for anew");
    assert_eq!(second, fs::read(mount.origin().join("file")).expect("it is there"));
    mount.unmount();
}
