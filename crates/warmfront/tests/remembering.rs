//! What objects in use are charged, against what they take of this process, which does nothing
//! else. One test only, since all tests of a program share its memory.

use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;

use futures::executor::block_on;
use warmfront::storage::{DirectoryOptions, DirectoryOrigin, ObjectId, RealClock, ThreadPool};
use warmfront::{Datasets, Memory, Pool, PoolOptions};

const DIRECTORIES: usize = 20;
const FILES_EACH: usize = 3000;
const MIB: u64 = 1 << 20;

#[test]
fn an_object_is_charged_what_it_takes() {
    let scratch = tempfile::tempdir().expect("a directory");
    for directory in 0..DIRECTORIES {
        let path = scratch.path().join(directory.to_string());
        std::fs::create_dir(&path).expect("a directory");
        for number in 0..FILES_EACH {
            File::create(path.join(format!("a-file-named-{number:06}"))).expect("a file");
        }
    }
    let datasets = Datasets::new("names").expect("a name");
    // Else the cache would keep the names, which are another charge.
    datasets.set("names", "primarycache", "none").expect("a level");
    let origin = DirectoryOrigin::open(scratch.path(), DirectoryOptions::default());
    let memory = Memory::new(1024 * MIB);
    let options = PoolOptions {
        name: "names".to_string(),
        origin: Arc::new(origin.expect("a directory")),
        datasets,
        memory: memory.clone(),
        clock: Arc::new(RealClock::new()),
        spawn: Arc::new(ThreadPool::new("names", 1).expect("threads")),
        read_only: true,
        flash: warmfront::flash::FlashOptions::default(),
    };
    let pool = block_on(Pool::open(options)).expect("a pool");
    look_up(&pool, 0).into_iter().for_each(|object| pool.forget(object, 1));

    let (resident, charged) = (resident_bytes(), memory.charged_bytes());
    let mut objects: Vec<ObjectId> = Vec::with_capacity(DIRECTORIES * (FILES_EACH + 1));
    (0..DIRECTORIES).for_each(|directory| objects.extend(look_up(&pool, directory)));
    let taken = (resident_bytes() - resident) as f64 / objects.len() as f64;
    let counted = (memory.charged_bytes() - charged) as f64 / objects.len() as f64;
    println!("an object takes {taken:.0} bytes and is charged {counted:.0}");
    assert!((counted / taken - 1.0).abs() <= 0.05, "charged {counted:.0} bytes, takes {taken:.0}");

    // What they took is given back, and charged no more, but for what is kept for others.
    let most = resident_bytes();
    objects.into_iter().rev().for_each(|object| pool.forget(object, 1));
    let kept = 16 * MIB;
    let given_back = || memory.charged_bytes() < kept && resident_bytes() + 40 * MIB < most;
    for _ in 0..100 {
        if given_back() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(given_back(), "{} of {most} bytes are still resident", resident_bytes());
}

/// A directory and all its files, each with one use.
fn look_up(pool: &Arc<Pool>, directory: usize) -> Vec<ObjectId> {
    let name = OsString::from(directory.to_string());
    let parent = block_on(pool.lookup(pool.root(), &name)).expect("a directory").object;
    let file = |number| {
        let name = OsString::from(format!("a-file-named-{number:06}"));
        block_on(pool.lookup(parent, &name)).expect("a file").object
    };
    std::iter::once(parent).chain((0..FILES_EACH).map(file)).collect()
}

/// What is resident of this process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = text.split(' ').nth(1).expect("a second field").parse().expect("a number");
    pages * rustix::param::page_size() as u64
}
