//! What the kernel remembers, and what open directories hold, stays within the ceiling.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use warmfront_tests::{Mount, Program, Requirement, require, wait_until};

const MIB: u64 = 1 << 20;
/// What the process may take beyond its ceiling.
const PROCESS_BYTES_MAX: u64 = 32 * MIB;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

fn make_files(directory: &Path, count: usize) {
    fs::create_dir(directory).expect("a directory");
    for number in 0..count {
        File::create(directory.join(format!("a-file-named-{number:06}"))).expect("a file");
    }
}

fn resident_bytes(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The most that was resident of a process while `act` ran.
fn most_resident(process: u32, act: impl FnOnce()) -> u64 {
    let (stop, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(resident_bytes(process), Ordering::Relaxed);
                std::thread::sleep(SAMPLE_INTERVAL);
            }
        });
        act();
        stop.store(true, Ordering::Relaxed);
    });
    most.into_inner()
}

/// The attributes of 100,000 files are asked for, which the kernel then remembers: it is asked to
/// forget the oldest, the ceiling holds, and contents keep their place.
#[test]
fn many_names_stay_below_the_ceiling_and_leave_the_contents() {
    require!(Requirement::Fuse);
    const CEILING_BYTES: u64 = 128 * MIB;
    const HOT_BYTES: u64 = 48 * MIB;
    const CONTENTS_BACK_READS_MAX: usize = 4;
    let mut mount = Mount::builder().argument("--arc-max=128M").start();
    for number in 0..10 {
        make_files(&mount.origin().join(format!("directory-{number}")), 10_000);
    }
    let hot = File::create(mount.origin().join("hot")).expect("a file");
    hot.set_len(HOT_BYTES).expect("a hole");
    let read_hot = || {
        let (hits, misses) =
            (mount.counter("demand_data_hits"), mount.counter("demand_data_misses"));
        let bytes = fs::read(mount.join("hot")).expect("it reads");
        assert_eq!(bytes.len() as u64, HOT_BYTES);
        let hits = mount.counter("demand_data_hits") - hits;
        let misses = mount.counter("demand_data_misses") - misses;
        hits as f64 / (hits + misses) as f64
    };
    (0..3).for_each(|_| {
        read_hot();
    });
    let walk = || {
        let program = Program::new("find").arg(mount.path()).args(["-printf", "%s"]);
        program.deadline(Duration::from_secs(300)).run().success();
    };
    for number in 0..2 {
        let most = most_resident(mount.daemon_id(), walk);
        println!("{} MiB were resident", most >> 20);
        assert!(most <= CEILING_BYTES + PROCESS_BYTES_MAX, "{most} bytes were resident");
        // A first walk is a scan. Names that are walked through again are used often themselves:
        // contents may have to come back then.
        let reads = if number == 0 { 1 } else { CONTENTS_BACK_READS_MAX };
        let hit_rates: Vec<f64> = (0..reads).map(|_| read_hot()).collect();
        println!("{hit_rates:.3?} of the reads of hot contents were hits");
        assert!(hit_rates[reads - 1] >= 0.98, "{hit_rates:?}");
    }
    let settled = || mount.counter("objects_size") <= mount.counter("objects_max");
    assert!(wait_until(Duration::from_secs(10), settled), "{}", mount.counter("objects_size"));
    assert_eq!(mount.counter("objects_max"), CEILING_BYTES / 4);
    assert!(mount.counter("objects_forgetting_asked") >= 60_000);
    // What was forgotten is found again.
    let known = fs::metadata(mount.join("directory-0/a-file-named-000000")).expect("it is there");
    assert_eq!(known.len(), 0);
    mount.unmount();
}

/// A file that is open and a directory that a process works in stay, whatever is walked through.
#[test]
fn what_is_in_use_is_not_forgotten() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().argument("--arc-max=16M").start();
    make_files(&mount.origin().join("many"), 20_000);
    fs::create_dir_all(mount.origin().join("a/b")).expect("directories");
    fs::write(mount.origin().join("a/b/open"), "contents").expect("a file");
    let open = File::open(mount.join("a/b/open")).expect("it opens");
    let many = mount.join("many").into_os_string().into_string().expect("text");
    let script =
        format!("find {many} -printf %s >/dev/null; find {many} -printf %s >/dev/null; pwd -P");
    let program = Program::new("sh").args(["-c", &script]).directory(mount.join("a/b"));
    let said = program.run().success();
    assert_eq!(Path::new(said.trim()), mount.join("a/b"));
    assert!(mount.counter("objects_forgetting_asked") > 0);
    assert_eq!(std::io::read_to_string(&open).expect("it reads"), "contents");
    let name = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open)));
    assert_eq!(name.expect("a name"), mount.join("a/b/open"));
    drop(open);
    mount.unmount();
}

/// Many who read the same large directory hold one listing together, although it is too large for
/// the cache.
#[test]
fn open_directories_share_a_listing() {
    require!(Requirement::Fuse);
    const CEILING_BYTES: u64 = 32 * MIB;
    let mut mount = Mount::builder().argument("--arc-max=32M").start();
    make_files(&mount.origin().join("many"), 100_000);
    let daemon = mount.daemon_id();
    let in_use_before = mount.counter("other_size");
    let mut handles = Vec::new();
    let most = most_resident(daemon, || {
        for _ in 0..32 {
            let mut handle = fs::read_dir(mount.join("many")).expect("it opens");
            assert!(handle.next().is_some());
            handles.push(handle);
        }
    });
    println!("{} MiB were resident", most >> 20);
    assert!(most <= CEILING_BYTES + PROCESS_BYTES_MAX, "{most} bytes were resident");
    let held = mount.counter("other_size") - in_use_before;
    assert!(held >= 4 * MIB, "the listing is charged: {held} bytes");
    let names = handles.into_iter().map(|handle| 1 + handle.count());
    assert!(names.collect::<Vec<_>>().iter().all(|count| *count == 100_000));
    let given_back = || mount.counter("other_size") <= in_use_before + 16 * MIB;
    assert!(wait_until(Duration::from_secs(10), given_back), "{}", mount.counter("other_size"));
    // Names that are made and removed are seen by who opens it next.
    let kept_open = fs::read_dir(mount.join("many")).expect("it opens");
    fs::remove_file(mount.join("many/a-file-named-000007")).expect("it is removed");
    fs::write(mount.join("many/new"), "").expect("it is made");
    let names: Vec<_> = fs::read_dir(mount.join("many"))
        .expect("it opens")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 100_000);
    assert!(names.iter().any(|name| name == "new"));
    assert!(names.iter().all(|name| name != "a-file-named-000007"));
    drop(kept_open);
    mount.unmount();
}

/// Each version of a large directory that somebody is reading takes a listing. Who begins to read
/// one more than there is room for waits, and is refused after a while; one that has been read to
/// its end takes nothing.
#[test]
fn listings_of_many_versions_are_bounded() {
    require!(Requirement::Fuse);
    const CEILING_BYTES: u64 = 48 * MIB;
    let mut mount = Mount::builder().argument("--arc-max=48M").start();
    make_files(&mount.origin().join("many"), 100_000);
    let mut version = 0;
    let mut begin = || {
        version += 1;
        fs::write(mount.join(format!("many/new-{version}")), "").expect("it is made");
        let mut handle = fs::read_dir(mount.join("many")).expect("it opens");
        handle.next().expect("a name").map(|_| handle)
    };
    let mut handles = Vec::new();
    let most = most_resident(mount.daemon_id(), || {
        let refused = loop {
            match begin() {
                Ok(handle) => handles.push(handle),
                Err(refused) => break refused,
            }
            assert!(handles.len() < 32, "nobody is refused");
        };
        assert_eq!(refused.kind(), std::io::ErrorKind::OutOfMemory);
        // Who has read all of its own makes room.
        assert_eq!(handles.remove(0).count(), 100_000, "the names of its version, but for one");
        handles.push(begin().expect("there is room again"));
        // All have been read, and are still open.
        for handle in &mut handles {
            assert!(handle.count() >= 100_000);
        }
        for _ in 0..8 {
            let mut handle = begin().expect("there is room");
            assert!(handle.by_ref().count() >= 100_000);
            handles.push(handle);
        }
    });
    println!("{} MiB were resident", most >> 20);
    assert!(most <= CEILING_BYTES + PROCESS_BYTES_MAX, "{most} bytes were resident");
    drop(handles);
    mount.unmount();
}
