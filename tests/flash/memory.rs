//! What the RAM level goes on with after a restart: records on their lists, and ghosts.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use warmfront_tests::{Mount, Requirement, fill, require, test_directory, wait_until};

const RECORD: usize = 128 << 10;
const RECORDS: u64 = 384;
/// Records that are read again and again.
const HOT: u64 = 40;
const WORDS: [&str; 5] = ["--arc-max=24M", "-o", "policy=arc", "-o", "prefetch=none"];

fn read(mount: &Mount, records: impl Iterator<Item = u64>) {
    let file = File::open(mount.join("data")).expect("it opens");
    let (mut part, mut whole) = (vec![0; 4096], vec![0; 4096]);
    let origin = File::open(mount.origin().join("data")).expect("it opens");
    for record in records {
        let at = record * RECORD as u64;
        file.read_exact_at(&mut part, at).expect("a read");
        origin.read_exact_at(&mut whole, at).expect("a read");
        assert!(part == whole, "record {record}");
    }
}

/// The records of `data` that are in a state.
fn in_state(mount: &Mount, state: &str) -> Vec<u64> {
    let told = mount.warmfront().program(["why", "--json"]).arg(mount.join("data")).run();
    let why: Value = serde_json::from_str(&told.success()).expect("JSON");
    let runs = why["runs"].as_array().expect("a list").clone();
    let number = |run: &Value, name: &str| run[name].as_u64().expect("a number");
    let wanted = runs.iter().filter(|run| run["state"] == state);
    wanted
        .flat_map(|run| {
            let first = number(run, "first");
            first..first + number(run, "count")
        })
        .collect()
}

fn restored(mount: &Mount, what: &str) -> u64 {
    mount.status()["restored"][what].as_u64().expect("a number")
}

#[test]
fn the_ram_level_goes_on_with_its_lists_and_ghosts() {
    require!(Requirement::Fuse);
    let base = test_directory();
    std::fs::create_dir(base.path().join("slow")).expect("an origin");
    fill(&base.path().join("slow/data"), 5, RECORDS as usize * RECORD);
    let mut mount = Mount::builder().base(base).start();
    mount.unmount();
    mount.restart(&WORDS);
    for _ in 0..2 {
        read(&mount, 0..HOT);
        sleep(Duration::from_millis(200));
    }
    read(&mount, (0..RECORDS - HOT).map(|step| HOT + step * 37 % (RECORDS - HOT)));
    for crashes in [false, true] {
        let [mfu, mru, ghosts] = ["mfu", "mru", "ghost"].map(|state| in_state(&mount, state));
        assert!(mfu.len() as u64 >= HOT && (0..HOT).all(|record| mfu.contains(&record)));
        assert!(mru.len() > 20 && ghosts.len() > 10, "{} {}", mru.len(), ghosts.len());
        let frequent_bytes = mount.counter("mfu_data");
        if crashes {
            mount.run(&["save"]);
            mount.kill();
        } else {
            mount.unmount();
        }
        mount.restart(&WORDS);
        let wanted = (mfu.len() + mru.len()) as u64 * 9 / 10;
        let is_back = || restored(&mount, "records") >= wanted;
        assert!(wait_until(Duration::from_secs(30), is_back), "{:#}", mount.status()["restored"]);
        let came_back = restored(&mount, "ghosts");
        assert!(came_back as usize >= ghosts.len(), "{came_back} of {} ghosts", ghosts.len());
        assert_eq!(in_state(&mount, "mfu"), mfu);
        assert_eq!(mount.counter("mfu_data"), frequent_bytes);
        let remembered = in_state(&mount, "ghost");
        assert!(remembered.len() * 10 >= ghosts.len() * 8, "{remembered:?} of {ghosts:?}");
        // It has been used before: the second use shows.
        let missed = &remembered[remembered.len() - 5..];
        read(&mount, missed.iter().copied());
        let frequent = in_state(&mount, "mfu");
        assert!(missed.iter().all(|record| frequent.contains(record)), "{missed:?}: {frequent:?}");
        assert_eq!(mount.counter("mru_ghost_hits"), 5);
        read(&mount, 0..RECORDS);
    }
    mount.unmount();
    // What cannot be read is not missed.
    let state = mount.warmfront().config_directory().join("state");
    let named = |ending: &str| {
        let files = std::fs::read_dir(&state).expect("a directory");
        let mut paths = files.map(|file| file.expect("a file").path());
        paths.find(|path| path.to_string_lossy().ends_with(ending)).expect("it was written down")
    };
    let snapshot = std::fs::read(named("stopped.snapshot")).expect("it can be read");
    for damaged in [&snapshot[..snapshot.len() / 2], b"WFSNAP01 of an earlier version", b""] {
        std::fs::write(named("stopped.snapshot"), damaged).expect("written");
        std::fs::write(named("caches.seed"), [9; 3]).expect("written");
        mount.restart(&WORDS);
        assert_eq!((restored(&mount, "records"), mount.counter("ghost_elements")), (0, 0));
        read(&mount, 0..RECORDS);
        mount.unmount();
    }
}
