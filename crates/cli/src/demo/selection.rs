use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// Where files are looked for.
const SOURCES: [&str; 5] = ["/usr/bin", "/usr/lib", "/usr/share", "/usr/include", "/usr/sbin"];
/// Files that are looked at.
const CANDIDATES_MAX: usize = 200_000;
/// Files that are taken: a slow disk needs some ten milliseconds for each.
const FILES_MAX: usize = 1200;
/// The largest file that is taken.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Of the bytes, the part that comes from small and large files alike; the rest from large ones.
const EVEN_SHARE_QUARTERS: u64 = 1;

/// Real files of this machine, copied to a place of the demo's own.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Relative to the copy's top, with their sizes in bytes.
    pub(crate) files: Vec<(PathBuf, u64)>,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
}

impl Selection {
    /// Copies up to `bytes` of files, with their directories and permissions, to `destination`.
    pub(crate) fn copy(destination: &Path, bytes: u64, interrupt: &Interrupt) -> Result<Selection> {
        let mut candidates = Vec::new();
        for source in SOURCES {
            walk(Path::new(source), &mut candidates);
        }
        let chosen = choose(&candidates, bytes);
        if chosen.is_empty() {
            return Err(Failure::new("found no readable files below /usr to show the cache with"));
        }
        let mut files = Vec::new();
        let mut directories = BTreeSet::new();
        for (path, size) in chosen {
            if interrupt.is_set() {
                return Err(Failure::interrupted("stopped; nothing is left behind"));
            }
            let relative = path.strip_prefix("/").unwrap_or(path).to_owned();
            // A file that may not be read, or has just gone, is left out.
            if copy(path, &destination.join(&relative)).is_ok() {
                directories.extend(relative.ancestors().skip(1).map(Path::to_owned));
                files.push((relative, *size));
            }
        }
        let bytes = files.iter().map(|(_, size)| size).sum();
        Ok(Selection { files, directories: directories.len() as u64, bytes })
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to)?;
    // `find` has set-id files to find, which copying may have taken the bits from.
    fs::set_permissions(to, fs::Permissions::from_mode(fs::metadata(from)?.permissions().mode()))
}

/// Collects regular files below a directory, in the order of their names.
fn walk(directory: &Path, candidates: &mut Vec<(PathBuf, u64)>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if candidates.len() >= CANDIDATES_MAX {
            return;
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => walk(&path, candidates),
            Ok(metadata)
                if metadata.is_file() && (1..=FILE_BYTES_MAX).contains(&metadata.len()) =>
            {
                candidates.push((path, metadata.len()));
            }
            _ => {}
        }
    }
}

/// Takes files evenly over the tree, then the largest of the others, up to `bytes`.
fn choose(candidates: &[(PathBuf, u64)], bytes: u64) -> Vec<&(PathBuf, u64)> {
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let mut taken = 0;
    let evenly = FILES_MAX * 3 / 4;
    let step = (candidates.len() / evenly.max(1)).max(1);
    for index in (0..candidates.len()).step_by(step) {
        let size = candidates[index].1;
        if chosen.len() < evenly && taken + size <= bytes / 4 * EVEN_SHARE_QUARTERS {
            chosen.insert(index);
            taken += size;
        }
    }
    let mut by_size: Vec<usize> = (0..candidates.len()).collect();
    by_size.sort_by_key(|index| std::cmp::Reverse(candidates[*index].1));
    for index in by_size {
        let size = candidates[index].1;
        if chosen.len() < FILES_MAX && taken + size <= bytes && chosen.insert(index) {
            taken += size;
        }
    }
    chosen.into_iter().map(|index| &candidates[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_keeps_to_its_bytes_and_spreads_over_the_tree() {
        let candidates: Vec<(PathBuf, u64)> = (0..20_000u64)
            .map(|index| (PathBuf::from(format!("/f{index}")), 1000 + index % 977 * 900))
            .collect();
        let chosen = choose(&candidates, 256 << 20);
        let bytes: u64 = chosen.iter().map(|(_, size)| size).sum();
        assert!(bytes <= 256 << 20 && bytes > 200 << 20, "{bytes}");
        assert!(chosen.len() <= FILES_MAX && chosen.len() > FILES_MAX / 3, "{}", chosen.len());
        assert!(choose(&[], 1 << 20).is_empty());
    }
}
