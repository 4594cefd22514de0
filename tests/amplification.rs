//! How often each byte of the origin is read, counted.
//!
//! The classic mistake: a database reads 4 KiB at a time from a dataset with records of 128 KiB
//! whose contents are not cached. Each small read then fetches a whole record, 32 times more than
//! was asked for. With contents cached each byte is read once.

use std::fs::File;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use warmfront_tests::{Mapping, Mount, Requirement, fill, require};

/// Size of the file: 32 whole records.
const FILE_BYTES: usize = 32 * 128 * 1024;

/// What the reader takes at a time.
const PIECE_BYTES: usize = 4096;

/// Reads the file at `path` in pieces, in `order`, past the kernel's page cache, and compares.
fn read_in_pieces(path: &Path, contents: &[u8], order: impl Iterator<Item = usize>) {
    let file = rustix::fs::open(path, OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(file.expect("the file opens for direct reads"));
    // Direct reads want aligned memory, which a map is.
    let mut mapping = Mapping::of_memory(PIECE_BYTES).expect("memory");
    for piece in order {
        let offset = piece * PIECE_BYTES;
        let count = mapping.fill_from(&file, offset as u64).expect("a direct read");
        assert_eq!(count, PIECE_BYTES, "a read within the file is never short");
        let mut bytes = [0; PIECE_BYTES];
        mapping.read(0, &mut bytes);
        assert!(bytes == contents[offset..offset + PIECE_BYTES], "wrong bytes at {offset}");
    }
}

/// Times that each byte of the origin was read while a file was read in pieces once.
fn amplification(properties: &[(&str, &str)], order: impl Iterator<Item = usize>) -> f64 {
    let mut builder = Mount::builder().property("pagecache", "off").property("recordsize", "128K");
    for (name, value) in properties {
        builder = builder.property(name, value);
    }
    let mut mount = builder.start();
    let contents = fill(&mount.origin().join("table"), 7, FILE_BYTES);
    let before = mount.counter("origin_read_bytes");
    read_in_pieces(&mount.join("table"), &contents, order);
    let read = mount.counter("origin_read_bytes") - before;
    mount.unmount();
    read as f64 / FILE_BYTES as f64
}

fn in_order() -> impl Iterator<Item = usize> {
    0..FILE_BYTES / PIECE_BYTES
}

/// Every piece once, none after its neighbour.
fn scattered() -> impl Iterator<Item = usize> {
    let pieces = FILE_BYTES / PIECE_BYTES;
    // An odd step visits each of a power of two.
    assert!(pieces.is_power_of_two());
    (0..pieces).map(move |index| index * 677 % pieces)
}

#[test]
fn each_byte_once_when_contents_are_cached() {
    require!(Requirement::Fuse);
    for prefetch in ["all", "none"] {
        let properties = [("primarycache", "all"), ("prefetch", prefetch)];
        assert_eq!(amplification(&properties, in_order()), 1.0, "prefetch={prefetch}, in order");
        assert_eq!(amplification(&properties, scattered()), 1.0, "prefetch={prefetch}, scattered");
    }
}

#[test]
fn each_byte_32_times_when_nothing_is_cached() {
    require!(Requirement::Fuse);
    let properties = [("primarycache", "none"), ("prefetch", "none")];
    assert_eq!(amplification(&properties, in_order()), 32.0);
    assert_eq!(amplification(&properties, scattered()), 32.0);
}

#[test]
fn each_byte_32_times_when_only_metadata_is_cached() {
    require!(Requirement::Fuse);
    let properties = [("primarycache", "metadata"), ("prefetch", "none")];
    assert_eq!(amplification(&properties, in_order()), 32.0);
    assert_eq!(amplification(&properties, scattered()), 32.0);
}

/// The remedy of the seeds: records as small as the reads.
#[test]
fn each_byte_once_when_records_are_as_small_as_the_reads() {
    require!(Requirement::Fuse);
    let properties = [("primarycache", "metadata"), ("prefetch", "none"), ("recordsize", "4K")];
    assert_eq!(amplification(&properties, scattered()), 1.0);
}

/// A second pass over cached contents asks the origin for nothing.
#[test]
fn a_second_pass_reads_nothing() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    let contents = fill(&mount.origin().join("table"), 8, FILE_BYTES);
    read_in_pieces(&mount.join("table"), &contents, in_order());
    let before = mount.counter("origin_reads");
    read_in_pieces(&mount.join("table"), &contents, scattered());
    assert_eq!(mount.counter("origin_reads"), before);
    mount.unmount();
}
