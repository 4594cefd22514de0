use std::fs;
use std::path::{Path, PathBuf};

use crate::ceiling::groups::{self, Group, rooted};
use crate::ceiling::reading::{LimitSource, MemoryLimit, Reading, Room};
use crate::mountinfo;

/// Where the state of the machine's memory is read.
#[derive(Debug, Clone)]
pub struct Sources {
    /// What stands for `/`.
    root: PathBuf,
}

impl Sources {
    /// Those of this machine.
    pub fn system() -> Sources {
        Sources { root: "/".into() }
    }

    /// Those below a directory laid out like `/`.
    pub fn below(root: &Path) -> Sources {
        Sources { root: root.to_owned() }
    }

    /// The path of a file of the system.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        rooted(&self.root, Path::new(path))
    }

    /// The control groups of this process that may limit memory, from the bottom up.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let text = fs::read_to_string(self.path("/proc/self/cgroup")).unwrap_or_default();
        let mounts = fs::read(self.path("/proc/self/mountinfo")).unwrap_or_default();
        groups::find(&text, &mountinfo::parse(&mounts), &self.root)
    }

    /// Looks.
    pub fn read(&self) -> Reading {
        self.read_within(&self.groups())
    }

    /// Looks, as a member of these groups. To find them takes more than half of a look.
    pub(crate) fn read_within(&self, groups: &[Group]) -> Reading {
        let mut notes = Vec::new();
        let mut rooms = Vec::new();
        for group in groups {
            rooms.extend(group.room(&mut notes));
        }
        if groups.is_empty() {
            notes.extend(self.hidden_group());
        }
        rooms.extend(self.machine(&mut notes));
        Reading { rooms, own_bytes: self.own_bytes(), notes }
    }

    /// Says so when this process is in a control group for memory that cannot be seen from here.
    fn hidden_group(&self) -> Option<String> {
        let text = fs::read_to_string(self.path("/proc/self/cgroup")).unwrap_or_default();
        let group = text.lines().find_map(groups::below_the_top)?;
        Some(format!(
            "the control group {group} may limit memory, but the tree of groups is not mounted \
             here; what the machine has counts instead: mount it (below /sys/fs/cgroup), or give a \
             ceiling in bytes"
        ))
    }

    fn machine(&self, notes: &mut Vec<String>) -> Option<Room> {
        let path = self.path("/proc/meminfo");
        let text = fs::read_to_string(&path);
        let value = |name: &str| text.as_ref().ok().and_then(|text| kibibytes(text, name));
        let info = rustix::system::sysinfo();
        let unit = u64::from(info.mem_unit.max(1));
        let limit_bytes = value("MemTotal").unwrap_or_else(|| {
            notes.push(format!("cannot read MemTotal in {}; sysinfo(2) counts", path.display()));
            unit.saturating_mul(info.totalram as u64)
        });
        let available_bytes = value("MemAvailable").unwrap_or_else(|| {
            notes.push(format!(
                "cannot read MemAvailable in {}; free memory counts, without what the kernel \
                 could take back",
                path.display()
            ));
            unit.saturating_mul(info.freeram as u64)
        });
        (limit_bytes > 0).then_some(Room {
            source: LimitSource::Machine,
            limit_bytes,
            available_bytes: Some(available_bytes),
        })
    }

    /// Resident pages that belong to no file.
    pub fn own_bytes(&self) -> u64 {
        let [resident, shared] = self.resident_pages();
        resident.saturating_sub(shared) * rustix::param::page_size() as u64
    }

    /// All that is resident of this process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_pages()[0] * rustix::param::page_size() as u64
    }

    /// Resident pages, and those of them that belong to files.
    fn resident_pages(&self) -> [u64; 2] {
        let text = fs::read_to_string(self.path("/proc/self/statm")).unwrap_or_default();
        let mut fields = text.split_whitespace().skip(1);
        [(); 2].map(|()| fields.next().and_then(|pages| pages.parse().ok()).unwrap_or(0))
    }
}

/// The machine's memory, or what the control groups (version 1 or 2) of this process allow, if
/// that is less.
pub fn memory_limit() -> MemoryLimit {
    Sources::system().read().memory()
}

/// A field of `/proc/meminfo`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests;
