use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ceiling::reading::{LimitSource, Room};
use crate::mountinfo::MountEntry;

/// Most groups above each other that are looked at.
const DEPTH_MAX: usize = 64;

/// Version 1 writes no limit as the greatest number of whole pages, whatever a page is.
const UNLIMITED_BYTES_MIN: u64 = 1 << 62;

/// Which kind of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// A control group that this process is in, or one above that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub version: Version,
    /// Its directory.
    pub directory: PathBuf,
    /// A missing limit is to be told of: this is the group itself, where there should be one.
    /// The top of version 2 has none, and where the group has one, those above it do.
    has_limit: bool,
}

/// The groups of a `/proc/PID/cgroup` that may limit memory, from the bottom up. `root` stands for
/// `/`.
pub(crate) fn find(text: &str, mounts: &[MountEntry], root: &Path) -> Vec<Group> {
    let mut groups: Vec<Group> =
        text.lines().flat_map(|line| of_line(line, mounts, root)).collect();
    // Memory is limited in one of the two trees only.
    if groups.iter().any(|group| group.version == Version::V1) {
        groups.retain(|group| group.version == Version::V1);
    }
    groups.truncate(DEPTH_MAX);
    groups
}

/// `ID:CONTROLLERS:PATH`; version 2 has no controllers.
fn of_line(line: &str, mounts: &[MountEntry], root: &Path) -> Vec<Group> {
    let parts = line.split_once(':').and_then(|(_, rest)| rest.split_once(':'));
    let Some((controllers, group)) = parts else { return Vec::new() };
    let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
    let (version, mount) = if controllers.is_empty() {
        (Version::V2, mounts.iter().find(|mount| mount.fs_type == "cgroup2"))
    } else if has_memory(controllers) {
        let is_memory =
            |mount: &&MountEntry| mount.fs_type == "cgroup" && has_memory(&mount.options);
        (Version::V1, mounts.iter().find(is_memory))
    } else {
        return Vec::new();
    };
    let Some(mount) = mount else { return Vec::new() };
    // In a container the mount shows only the part of the tree from its own group down.
    let group = Path::new(group);
    let below = group.strip_prefix(&mount.root).or_else(|_| group.strip_prefix("/"));
    let Ok(below) = below else { return Vec::new() };
    let top = rooted(root, &mount.mountpoint);
    let bottom = top.join(below);
    bottom
        .ancestors()
        .take_while(|path| path.starts_with(&top))
        .map(|path| Group {
            version,
            directory: path.to_owned(),
            has_limit: path == bottom && !(version == Version::V2 && path == top),
        })
        .collect()
}

/// The group that a line of `/proc/PID/cgroup` names, if it may limit memory and is not the top.
pub(crate) fn below_the_top(line: &str) -> Option<&str> {
    let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
    let memory = controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
    (memory && group != "/").then_some(group)
}

/// An absolute path seen from another root.
pub(crate) fn rooted(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

impl Group {
    /// A file of the group.
    pub fn file(&self, version_1: &str, version_2: &str) -> PathBuf {
        self.directory.join(match self.version {
            Version::V1 => version_1,
            Version::V2 => version_2,
        })
    }

    /// What the group allows, and what of that can still be had; `None` if it sets no limit. What
    /// cannot be read is told in `notes`.
    pub fn room(&self, notes: &mut Vec<String>) -> Option<Room> {
        let (limit_bytes, limit_file) = self.limit(notes)?;
        let usage_file = self.file("memory.usage_in_bytes", "memory.current");
        let taken = number(&usage_file).and_then(|usage| {
            let file = self.directory.join("memory.stat");
            Ok(usage.saturating_sub(reclaimable_bytes(&fs::read_to_string(&file)?, self.version)))
        });
        let available_bytes = match taken {
            Ok(taken) => Some(limit_bytes.saturating_sub(taken)),
            Err(error) => {
                notes.push(format!(
                    "cannot read what the control group {} takes ({error}); what the machine has \
                     available counts instead, and that others in the group take nothing",
                    self.directory.display()
                ));
                None
            }
        };
        Some(Room { source: LimitSource::ControlGroup(limit_file), limit_bytes, available_bytes })
    }

    /// The limit in bytes and the file that sets it.
    fn limit(&self, notes: &mut Vec<String>) -> Option<(u64, PathBuf)> {
        let hard = self.file("memory.limit_in_bytes", "memory.max");
        let mut limits = Vec::new();
        match number(&hard) {
            Ok(bytes) => limits.push((bytes, hard)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.has_limit => {}
            Err(error) => notes.push(format!(
                "cannot read the limit {} ({error}); the groups above it and the memory of the \
                 machine count instead",
                hard.display()
            )),
        }
        if self.version == Version::V2 {
            // Above this the kernel slows the group down; without the file there is none.
            let high = self.directory.join("memory.high");
            limits.extend(number(&high).ok().map(|bytes| (bytes, high)));
        }
        limits.into_iter().filter(|(bytes, _)| *bytes < UNLIMITED_BYTES_MIN).min()
    }
}

/// A file that holds a number; `max` is the greatest.
fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    match text.trim() {
        "max" => Ok(u64::MAX),
        text => text.parse().map_err(|_| io::Error::other(format!("`{text}` is not a number"))),
    }
}

/// What the kernel can take back without harm: files' pages and unused kernel objects. As in
/// `MemAvailable`, pages of files count, those of tmpfs do not.
fn reclaimable_bytes(text: &str, version: Version) -> u64 {
    let names: &[&str] = match version {
        Version::V1 => &["total_inactive_file", "total_active_file"],
        Version::V2 => &["inactive_file", "active_file", "slab_reclaimable"],
    };
    let value = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        names.contains(&name).then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(value).fold(0, u64::saturating_add)
}
