//! A reader never sees half of a write, nor less than what a writer was told is written.
//!
//! Writers give each block of a file rising versions, a block filled with one number, and publish
//! a version once its write has returned. Readers, at the same time, must find in each block one
//! version, no older than what was published before the read began and no newer than what was
//! begun by its end.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use warmfront_tests::{Mapping, Mount, Requirement, random_bytes, require};

/// Blocks in the file, over several records of 128 KiB.
const BLOCKS: usize = 96;

/// One request of the kernel, so that it is one write and one read for us too.
const BLOCK_BYTES: usize = 4096;
const WORDS: usize = BLOCK_BYTES / 8;

/// How long writers and readers meet, unless `WARMFRONT_SOAK_SECONDS` says otherwise.
const MEETING: Duration = Duration::from_secs(4);

#[derive(Default)]
struct Versions {
    begun: AtomicU64,
    published: AtomicU64,
}

struct Meeting {
    versions: Vec<Versions>,
    over: AtomicBool,
    reads: AtomicU64,
    overtaken: AtomicU64,
}

fn open(mount: &Mount, direct: bool) -> File {
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, direct);
    File::from(rustix::fs::open(mount.join("table"), flags, Mode::empty()).expect("it opens"))
}

fn seed_of(thread: u64, round: u64) -> usize {
    let bytes = random_bytes(thread << 32 | round, 8);
    usize::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Gives blocks that belong to `writer`, of `writers`, new versions until the meeting is over.
fn write(meeting: &Meeting, file: &File, writer: usize, writers: usize) {
    let mut memory = Mapping::of_memory(BLOCK_BYTES).expect("memory");
    let mut round = 0;
    while !meeting.over.load(Ordering::Relaxed) {
        round += 1;
        let block = seed_of(writer as u64, round) % (BLOCKS / writers) * writers + writer;
        let versions = &meeting.versions[block];
        let version = versions.begun.load(Ordering::Relaxed) + 1;
        versions.begun.store(version, Ordering::SeqCst);
        memory.write(0, &version.to_le_bytes().repeat(BLOCK_BYTES / 8));
        let count = memory.write_to(file, (block * BLOCK_BYTES) as u64).expect("a write");
        assert_eq!(count, BLOCK_BYTES);
        versions.published.store(version, Ordering::SeqCst);
    }
}

/// Reads blocks through `look` until the meeting is over. With `whole` set a block must hold one
/// version.
fn read(
    meeting: &Meeting,
    reader: u64,
    whole: bool,
    mut look: impl FnMut(usize, &mut [u64; WORDS]),
) {
    let mut round = 0;
    while !meeting.over.load(Ordering::Relaxed) {
        round += 1;
        let block = seed_of(1000 + reader, round) % BLOCKS;
        let versions = &meeting.versions[block];
        let oldest = versions.published.load(Ordering::SeqCst);
        let mut words = [0; WORDS];
        look(block, &mut words);
        let newest = versions.begun.load(Ordering::SeqCst);
        let (low, high) =
            words.iter().fold((u64::MAX, 0), |(low, high), word| (low.min(*word), high.max(*word)));
        assert!(low >= oldest, "block {block}: read version {low}, {oldest} was acknowledged");
        assert!(high <= newest, "block {block}: read version {high}, only {newest} was begun");
        assert!(!whole || low == high, "block {block}: torn, versions {low} to {high}");
        meeting.reads.fetch_add(1, Ordering::Relaxed);
        if oldest < newest {
            meeting.overtaken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How readers read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Calls,
    /// Calls that go round the page cache.
    DirectCalls,
    Mapping,
}

/// Reads a block of `file` by calls.
fn by_calls(file: File) -> impl FnMut(usize, &mut [u64; WORDS]) {
    let mut memory = Mapping::of_memory(BLOCK_BYTES).expect("memory");
    move |block, words| {
        let count = memory.fill_from(&file, (block * BLOCK_BYTES) as u64).expect("a read");
        assert_eq!(count, BLOCK_BYTES);
        *words = std::array::from_fn(|index| memory.word(index * 8));
    }
}

/// Reads a block of `file` where it is mapped.
fn by_mapping(file: &File) -> impl FnMut(usize, &mut [u64; WORDS]) {
    let mapping = Mapping::new(file, BLOCKS * BLOCK_BYTES, true).expect("it is mapped");
    move |block, words| {
        *words = std::array::from_fn(|index| mapping.word(block * BLOCK_BYTES + index * 8));
    }
}

fn meet(properties: &[(&str, &str)], by: By) {
    let mut builder = Mount::builder();
    for (name, value) in properties {
        builder = builder.property(name, value);
    }
    let mut mount = builder.start();
    let zeros = vec![0; BLOCKS * BLOCK_BYTES];
    std::fs::write(mount.join("table"), zeros).expect("the file is made");
    let meeting = Meeting {
        versions: (0..BLOCKS).map(|_| Versions::default()).collect(),
        over: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        overtaken: AtomicU64::new(0),
    };
    let (writers, readers) = (4, 6);
    let direct = by == By::DirectCalls;
    let whole = direct || (by == By::Calls && properties.contains(&("pagecache", "off")));
    let seconds = std::env::var("WARMFRONT_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = seconds.map_or(MEETING, Duration::from_secs);
    std::thread::scope(|scope| {
        let meeting = &meeting;
        for writer in 0..writers {
            let file = open(&mount, direct);
            scope.spawn(move || write(meeting, &file, writer, writers));
        }
        let threads: Vec<_> = (0..readers)
            .map(|reader| {
                let file = open(&mount, direct);
                scope.spawn(move || match by {
                    By::Mapping => read(meeting, reader, whole, by_mapping(&file)),
                    _ => read(meeting, reader, whole, by_calls(file)),
                })
            })
            .collect();
        let start = Instant::now();
        while start.elapsed() < length && !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        meeting.over.store(true, Ordering::SeqCst);
    });
    let (reads, overtaken) = (meeting.reads.into_inner(), meeting.overtaken.into_inner());
    assert!(reads > 1000, "only {reads} reads took place");
    assert!(overtaken > 0, "no read met a write, so nothing was tested");

    // What was acknowledged last is what is there, here and at the origin.
    mount.run(&["sync"]);
    let last = |path: &std::path::Path| std::fs::read(path).expect("the file is there");
    let (seen, kept) = (last(&mount.join("table")), last(&mount.origin().join("table")));
    assert!(seen == kept, "the mount and the origin differ");
    for (block, bytes) in seen.chunks_exact(BLOCK_BYTES).enumerate() {
        let published = meeting.versions[block].published.load(Ordering::SeqCst);
        assert!(bytes == published.to_le_bytes().repeat(BLOCK_BYTES / 8), "block {block}");
    }
    mount.unmount();
}

#[test]
fn without_the_page_cache() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "off")], By::Calls);
}

#[test]
fn with_direct_calls() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "on")], By::DirectCalls);
}

/// The kernel's page cache copies a page to a reader while a writer may change it, as on any
/// Linux file system; but what was acknowledged is there.
#[test]
fn with_the_page_cache() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "on")], By::Calls);
}

/// Pages of a mapping are in the kernel's page cache, whatever else is.
#[test]
fn with_a_mapping() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "off")], By::Mapping);
}

#[test]
fn with_a_mapping_and_the_page_cache() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "on")], By::Mapping);
}

#[test]
fn when_contents_are_not_cached() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "off"), ("primarycache", "metadata")], By::Calls);
}

#[test]
fn with_small_records_and_nobody_else_writing() {
    require!(Requirement::Fuse);
    meet(&[("pagecache", "off"), ("recordsize", "16K"), ("coherence", "exclusive")], By::Calls);
}
