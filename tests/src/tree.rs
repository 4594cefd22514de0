use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::hash::Hasher as _;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs as sys;
use xxhash_rust::xxh3::Xxh3;

/// `length` bytes that look random and are the same for the same seed.
pub fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 16);
    let mut counter = 0_u64;
    while bytes.len() < length {
        let word = xxhash_rust::xxh3::xxh3_128_with_seed(&counter.to_le_bytes(), seed);
        bytes.extend_from_slice(&word.to_le_bytes());
        counter += 1;
    }
    bytes.truncate(length);
    bytes
}

/// Writes a file of `length` bytes from [`random_bytes`] and returns them.
pub fn fill(path: &Path, seed: u64, length: usize) -> Vec<u8> {
    let bytes = random_bytes(seed, length);
    std::fs::write(path, &bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

/// Copies a tree with all that belongs to it, the way `cp -a` does.
pub fn copy_tree(source: &Path, target: &Path) {
    crate::Program::new("cp").arg("-a").arg("--").arg(source).arg(target).run().success();
}

/// Most lines that `difference` returns.
const SHOWN_MAX: usize = 20;

/// What two trees are compared by, beside names, types and contents.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compare {
    /// Compare the times of last change of contents, to the nanosecond.
    pub times: bool,
    /// Compare extended attributes.
    pub xattrs: bool,
}

/// How two trees differ: one line each, `SHOWN_MAX` at most, none when they are equal.
///
/// Compares names, types, permissions, owners, sizes, link counts, which names are one object,
/// device numbers, link targets and contents.
pub fn difference(left: &Path, right: &Path, what: Compare) -> Vec<String> {
    let mut found = Vec::new();
    let (left_names, right_names) = (names(left), names(right));
    for name in left_names.keys().filter(|name| !right_names.contains_key(*name)) {
        found.push(format!("{}: only in {}", name.display(), left.display()));
    }
    for (name, right_metadata) in &right_names {
        if found.len() >= SHOWN_MAX {
            break;
        }
        let Some(left_metadata) = left_names.get(name) else {
            found.push(format!("{}: only in {}", name.display(), right.display()));
            continue;
        };
        let (one, other) = (left.join(name), right.join(name));
        let mut compare = |property: &str, left: String, right: String| {
            if left != right {
                found.push(format!("{}: {property} {left} and {right}", name.display()));
            }
        };
        let of_both =
            |describe: fn(&Metadata) -> String| (describe(left_metadata), describe(right_metadata));
        let (a, b) = of_both(|it| format!("{:o}", it.mode()));
        compare("mode", a, b);
        let (a, b) = of_both(|it| format!("{}:{}", it.uid(), it.gid()));
        compare("owner", a, b);
        let (a, b) = of_both(|it| it.nlink().to_string());
        compare("link count", a, b);
        let (a, b) = of_both(|it| it.rdev().to_string());
        compare("device number", a, b);
        if what.times {
            let (a, b) = of_both(|it| format!("{}.{:09}", it.mtime(), it.mtime_nsec()));
            compare("time of change", a, b);
        }
        if !left_metadata.is_dir() {
            let (a, b) = of_both(|it| it.len().to_string());
            compare("size", a, b);
        }
        compare(
            "other names",
            format!("{:?}", other_names(&left_names, left_metadata)),
            format!("{:?}", other_names(&right_names, right_metadata)),
        );
        if left_metadata.is_symlink() && right_metadata.is_symlink() {
            let target = |path: &Path| format!("{:?}", std::fs::read_link(path));
            compare("target", target(&one), target(&other));
        }
        if left_metadata.is_file() && right_metadata.is_file() {
            compare("contents", checksum(&one), checksum(&other));
        }
        if what.xattrs && !is_special(left_metadata) {
            compare("xattrs", format!("{:?}", xattrs(&one)), format!("{:?}", xattrs(&other)));
        }
    }
    found.truncate(SHOWN_MAX);
    found
}

fn is_special(metadata: &Metadata) -> bool {
    let kind = metadata.file_type();
    kind.is_symlink()
        || kind.is_fifo()
        || kind.is_socket()
        || kind.is_block_device()
        || kind.is_char_device()
}

/// All entries below `top` with paths relative to it.
fn names(top: &Path) -> BTreeMap<PathBuf, Metadata> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let path = top.join(&directory);
        let entries = std::fs::read_dir(&path)
            .unwrap_or_else(|error| panic!("{} cannot be listed: {error}", path.display()));
        for entry in entries {
            let entry = entry.unwrap_or_else(|error| panic!("in {}: {error}", path.display()));
            let name = directory.join(entry.file_name());
            let metadata = std::fs::symlink_metadata(top.join(&name))
                .unwrap_or_else(|error| panic!("{} in {}: {error}", name.display(), top.display()));
            if metadata.is_dir() {
                open.push(name.clone());
            }
            found.insert(name, metadata);
        }
    }
    found
}

fn other_names<'a>(names: &'a BTreeMap<PathBuf, Metadata>, one: &Metadata) -> Vec<&'a PathBuf> {
    if one.is_dir() || one.nlink() < 2 {
        return Vec::new();
    }
    let same = |it: &Metadata| (it.dev(), it.ino()) == (one.dev(), one.ino());
    names.iter().filter(|(_, it)| same(it)).map(|(name, _)| name).collect()
}

fn checksum(path: &Path) -> String {
    let read = || -> io::Result<(u64, u64)> {
        let mut file = File::open(path)?;
        let mut hash = Xxh3::new();
        let mut length = 0;
        let mut buffer = vec![0_u8; 1 << 20];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok((hash.finish(), length));
            }
            hash.update(&buffer[..count]);
            length += count as u64;
        }
    };
    match read() {
        Ok((hash, length)) => format!("{hash:016x} over {length} bytes"),
        Err(error) => format!("not readable: {error}"),
    }
}

fn xattrs(path: &Path) -> rustix::io::Result<BTreeMap<OsString, Vec<u8>>> {
    use std::os::unix::ffi::OsStringExt;
    let mut list = vec![0_u8; 64 << 10];
    let count = sys::llistxattr(path, &mut list)?;
    let mut found = BTreeMap::new();
    for name in list[..count].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 64 << 10];
        let count = sys::lgetxattr(path, name, &mut value)?;
        value.truncate(count);
        found.insert(OsString::from_vec(name.to_vec()), value);
    }
    Ok(found)
}
