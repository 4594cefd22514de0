use std::fs;
use std::path::{Path, PathBuf};

use warmfront::Size;

use crate::mountinfo::{MountEntry, mounts};

/// Share of the memory that a pool may take unless told otherwise.
const DEFAULT_PERCENT: f64 = 25.0;

/// Least ceiling in bytes; with less not even the reads under way have room.
pub const CEILING_BYTES_MIN: u64 = 8 << 20;

/// What bounds the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitSource {
    /// The machine has no more.
    Machine,
    /// A control group allows no more.
    ControlGroup(PathBuf),
}

/// The memory that this process can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// In bytes.
    pub bytes: u64,
    /// What bounds it.
    pub source: LimitSource,
}

/// The machine's memory, or what the control groups (version 1 or 2) of this process allow, if
/// that is less.
pub fn memory_limit() -> MemoryLimit {
    let machine =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory_total(&text)).unwrap_or(0);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_limit(&groups, &mounts().unwrap_or_default());
    match group.filter(|(bytes, _)| machine == 0 || *bytes < machine) {
        Some((bytes, path)) => MemoryLimit { bytes, source: LimitSource::ControlGroup(path) },
        None => MemoryLimit { bytes: machine, source: LimitSource::Machine },
    }
}

/// The ceiling in bytes for a size as given, 25 % of the memory by default.
pub fn ceiling_bytes(size: Option<Size>) -> u64 {
    let share = |percent: f64| (memory_limit().bytes as f64 * percent / 100.0) as u64;
    match size {
        Some(Size::Bytes(bytes)) => bytes,
        Some(Size::Percent(percent)) => share(percent),
        None => share(DEFAULT_PERCENT),
    }
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The tightest limit of the groups in a `/proc/PID/cgroup`, and the file that sets it.
fn group_limit(groups: &str, mounts: &[MountEntry]) -> Option<(u64, PathBuf)> {
    groups.lines().filter_map(|line| limit_of_line(line, mounts)).min()
}

/// `ID:CONTROLLERS:PATH`; version 2 has no controllers.
fn limit_of_line(line: &str, mounts: &[MountEntry]) -> Option<(u64, PathBuf)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
    let (mount, file) = if controllers.is_empty() {
        (mounts.iter().find(|mount| mount.fs_type == "cgroup2")?, "memory.max")
    } else if has_memory(controllers) {
        let is_memory =
            |mount: &&MountEntry| mount.fs_type == "cgroup" && has_memory(&mount.options);
        (mounts.iter().find(is_memory)?, "memory.limit_in_bytes")
    } else {
        return None;
    };
    // In a container the mount shows only the part of the tree from its own group down.
    let group = Path::new(group);
    let below = group.strip_prefix(&mount.root).or_else(|_| group.strip_prefix("/")).ok()?;
    let bottom = mount.mountpoint.join(below);
    bottom
        .ancestors()
        .take_while(|path| path.starts_with(&mount.mountpoint))
        .filter_map(|path| {
            let path = path.join(file);
            let bytes = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
            Some((bytes, path))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(fs_type: &str, mountpoint: &Path, options: &str) -> MountEntry {
        MountEntry {
            mountpoint: mountpoint.to_owned(),
            root: "/".into(),
            device: 0,
            fs_type: fs_type.into(),
            source: "cgroup".into(),
            options: options.into(),
        }
    }

    #[test]
    fn the_tightest_group_upwards_counts() {
        let base = tempfile::tempdir().expect("a directory");
        let (new, old) = (base.path().join("new"), base.path().join("old"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().expect("below base")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(new.join("a/memory.max"), "1048576\n");
        write(new.join("a/b/memory.max"), "max\n");
        write(old.join("c/memory.limit_in_bytes"), "4096\n");
        let mounts = [mount("cgroup2", &new, "rw"), mount("cgroup", &old, "rw,memory")];
        let version_2 = group_limit("0::/a/b\n", &mounts);
        assert_eq!(version_2, Some((1_048_576, new.join("a/memory.max"))));
        let version_1 = group_limit("3:cpu:/x\n2:memory:/c\n", &mounts);
        assert_eq!(version_1, Some((4096, old.join("c/memory.limit_in_bytes"))));
        assert_eq!(group_limit("0::/\n1:cpu:/\n", &mounts), None);
        assert_eq!(group_limit("", &[]), None);
    }

    #[test]
    fn the_ceiling_is_a_share_of_what_there_is() {
        assert_eq!(memory_total("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        let limit = memory_limit();
        assert!(limit.bytes > 1 << 20, "{limit:?}");
        let quarter = limit.bytes / 4;
        assert!(ceiling_bytes(None).abs_diff(quarter) <= 4096);
        assert!(ceiling_bytes(Some(Size::Percent(50.0))).abs_diff(limit.bytes / 2) <= 4096);
        assert_eq!(ceiling_bytes(Some(Size::Bytes(7))), 7);
    }
}
