//! Reads and writes of the mount are linearizable: each takes effect at one moment between its call
//! and its return.
//!
//! Programs write unique values to aligned blocks of one file, read them, truncate the file and
//! punch holes, each through a door of its own: the file, another name of it, direct calls. What
//! they saw and when is kept, and checked for each block against a register that holds one value.
//! At the same time others call fsync and have transaction groups committed.

#[path = "linearizable/history.rs"]
mod history;

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use storage::Random;
use warmfront_tests::{Mapping, Mount, Requirement, require};

use history::{Action, Operation, is_linearizable};

/// One request of the kernel, and a part of a record.
const BLOCK_BYTES: usize = 4096;
/// Blocks of the file.
const BLOCKS: u64 = 12;
/// Programs.
const PROGRAMS: u64 = 6;
/// How long they run, unless `WARMFRONT_SOAK_SECONDS` says otherwise.
const LENGTH: Duration = Duration::from_secs(3);
/// A history is cut here, where nobody calls: checking takes longer the longer it is.
const ROUND: Duration = Duration::from_millis(250);

/// What a program did to one block.
type Seen = (u64, Operation);

struct Program<'a> {
    file: File,
    memory: Mapping,
    random: Random,
    /// Values are never written twice.
    values: &'a AtomicU64,
    start: Instant,
    /// The kernel copies a page to a reader while a writer may change it.
    may_tear: bool,
    seen: Vec<Seen>,
}

impl Program<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("a short test")
    }

    fn run(mut self, over: &AtomicBool) -> Vec<Seen> {
        while !over.load(Ordering::Relaxed) {
            let block = self.random.below(BLOCKS);
            match self.random.below(40) {
                0 => self.truncate(block),
                1 => self.punch(block),
                2 => self.file.sync_data().expect("it lasts"),
                3..=18 => self.write(block),
                _ => self.read(block),
            }
        }
        self.seen
    }

    /// Makes a call that sets `blocks` to a value.
    fn set(&mut self, blocks: std::ops::Range<u64>, value: u64, call: impl FnOnce(&Self)) {
        let called = self.now();
        call(self);
        let returned = self.now();
        let operation = Operation { called, returned, action: Action::Write(value) };
        self.seen.extend(blocks.map(|block| (block, operation)));
    }

    fn write(&mut self, block: u64) {
        let value = self.values.fetch_add(1, Ordering::Relaxed) + 1;
        self.memory.write(0, &value.to_le_bytes().repeat(BLOCK_BYTES / 8));
        self.set(block..block + 1, value, |this| {
            let written = this.memory.write_to(&this.file, block * BLOCK_BYTES as u64);
            assert_eq!(written, Ok(BLOCK_BYTES));
        });
    }

    /// What is gone is taken for zeros: those come when somebody writes behind it.
    fn truncate(&mut self, block: u64) {
        self.set(block..BLOCKS, 0, |this| {
            this.file.set_len(block * BLOCK_BYTES as u64).expect("it can be cut");
        });
    }

    fn punch(&mut self, block: u64) {
        self.set(block..block + 1, 0, |this| {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let (offset, length) = (block * BLOCK_BYTES as u64, BLOCK_BYTES as u64);
            fallocate(&this.file, flags, offset, length).expect("a hole");
        });
    }

    fn read(&mut self, block: u64) {
        self.memory.write(0, &[0; BLOCK_BYTES]);
        let called = self.now();
        let read = self.memory.fill_from(&self.file, block * BLOCK_BYTES as u64);
        let returned = self.now();
        let count = read.expect("a read");
        assert!(count == 0 || count == BLOCK_BYTES, "half a block: {count} bytes");
        let mut bytes = [0; BLOCK_BYTES];
        self.memory.read(0, &mut bytes);
        let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let is_whole = bytes == value.to_le_bytes().repeat(BLOCK_BYTES / 8)[..];
        if !is_whole && self.may_tear {
            return;
        }
        assert!(is_whole, "half of a write");
        self.seen.push((block, Operation { called, returned, action: Action::Read(value) }));
    }
}

/// What each block holds when nobody writes.
fn values(path: &Path) -> Vec<u64> {
    let mut bytes = fs::read(path).expect("it can be read");
    bytes.resize(BLOCKS as usize * BLOCK_BYTES, 0);
    let value = |block: &[u8]| u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
    bytes.chunks_exact(BLOCK_BYTES).map(value).collect()
}

fn check(properties: &[(&str, &str)], direct: bool) {
    let base = warmfront_tests::test_directory();
    let log = format!("{}:32M", base.path().join("log").to_str().expect("text"));
    let builder = Mount::builder().base(base).argument("--log").argument(&log);
    let set = |builder, (name, value): &(&str, &str)| {
        warmfront_tests::MountBuilder::property(builder, name, value)
    };
    let mut mount = properties.iter().fold(builder, set).start();
    let path = mount.join("file");
    fs::write(&path, vec![0; BLOCKS as usize * BLOCK_BYTES]).expect("it is made");
    fs::hard_link(&path, mount.join("link")).expect("another name");
    let may_tear = !direct && properties.contains(&("pagecache", "on"));
    let (unique, start) = (AtomicU64::new(0), Instant::now());
    let seconds = std::env::var("WARMFRONT_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = seconds.map_or(LENGTH, Duration::from_secs);
    let mut first = vec![0; BLOCKS as usize];
    let mut operations = 0;
    for round in 0_u64.. {
        if start.elapsed() >= length {
            break;
        }
        let over = AtomicBool::new(false);
        let seen: Vec<Seen> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..PROGRAMS)
                .map(|number| {
                    let name = if number % 2 == 0 { "file" } else { "link" };
                    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
                    let mut options = File::options();
                    let options = options.read(true).write(true);
                    let options = options.custom_flags(flags.bits().cast_signed());
                    let file = options.open(mount.join(name)).expect("it opens");
                    let (values, over) = (&unique, &over);
                    scope.spawn(move || {
                        let memory = Mapping::of_memory(BLOCK_BYTES).expect("memory");
                        let random = Random::new(round << 8 | number);
                        let seen = Vec::new();
                        let program =
                            Program { file, memory, random, values, start, may_tear, seen };
                        program.run(over)
                    })
                })
                .collect();
            std::thread::sleep(ROUND / 2);
            mount.run(&["sync"]);
            std::thread::sleep(ROUND / 2);
            over.store(true, Ordering::Relaxed);
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
        });
        operations += seen.len();
        let last = values(&path);
        for block in 0..BLOCKS {
            let (of_block, end) = (|seen: &&Seen| seen.0 == block, u64::MAX);
            let mut history: Vec<Operation> =
                seen.iter().filter(of_block).map(|(_, operation)| *operation).collect();
            // In the end somebody looks once more.
            let action = Action::Read(last[block as usize]);
            history.push(Operation { called: end - 1, returned: end, action });
            assert!(
                is_linearizable(first[block as usize], &history),
                "round {round}, block {block}, from {}: {history:#?}",
                first[block as usize]
            );
        }
        first = last;
    }
    assert!(operations > 1000, "only {operations} operations took place");
    mount.run(&["sync"]);
    assert_eq!(values(&mount.origin().join("file")), first, "the origin has the same");
    mount.unmount();
}

#[test]
fn without_the_page_cache() {
    require!(Requirement::Fuse);
    check(&[("pagecache", "off")], false);
}

/// Pages that the kernel keeps are the daemon's bytes.
#[test]
fn with_the_page_cache() {
    require!(Requirement::Fuse);
    check(&[("pagecache", "on")], false);
}

#[test]
fn with_direct_calls_and_small_records() {
    require!(Requirement::Fuse);
    check(&[("pagecache", "on"), ("recordsize", "4K")], true);
}

#[test]
fn when_contents_are_not_cached_and_nobody_else_writes() {
    require!(Requirement::Fuse);
    let properties =
        [("pagecache", "off"), ("primarycache", "metadata"), ("coherence", "exclusive")];
    check(&properties, false);
}

#[test]
fn when_every_write_goes_to_the_origin() {
    require!(Requirement::Fuse);
    check(&[("pagecache", "off"), ("write", "through")], false);
}
