use std::path::{Path, PathBuf};

use crate::mountinfo::{MountEntry, mounts};

/// Says of which of these control groups there is none at present.
pub(crate) fn missing_groups(groups: &[PathBuf]) -> Vec<String> {
    if groups.is_empty() {
        return Vec::new();
    }
    missing_below(&mounts().unwrap_or_default(), groups)
}

fn missing_below(mounts: &[MountEntry], groups: &[PathBuf]) -> Vec<String> {
    let trees: Vec<&MountEntry> =
        mounts.iter().filter(|mount| ["cgroup", "cgroup2"].contains(&&*mount.fs_type)).collect();
    // Where no tree is mounted, nothing tells.
    let is_missing = |group: &&PathBuf| {
        !trees.is_empty() && !trees.iter().any(|tree| directory(tree, group).is_dir())
    };
    let note = |group: &PathBuf| {
        format!(
            "there is no control group {} at present: until there is, no reads pass by for it; \
             --no-promote-cgroup takes a path as in /proc/PID/cgroup",
            group.display()
        )
    };
    groups.iter().filter(is_missing).map(note).collect()
}

/// Where a group is seen in a tree. In a container the mount shows only the part of the tree from
/// its own group down.
fn directory(tree: &MountEntry, group: &Path) -> PathBuf {
    let below = group.strip_prefix(&tree.root).or_else(|_| group.strip_prefix("/"));
    tree.mountpoint.join(below.unwrap_or(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_is_in_no_tree_is_told() {
        let base = tempfile::tempdir().expect("a directory");
        let tree = |name: &str, fs_type: &str, root: &str| MountEntry {
            mountpoint: base.path().join(name),
            root: root.into(),
            device: 0,
            fs_type: fs_type.to_string(),
            source: String::new(),
            options: String::new(),
        };
        for path in ["memory/jobs/scan", "unified/backup.slice", "disk/elsewhere"] {
            std::fs::create_dir_all(base.path().join(path)).expect("made");
        }
        let disk = tree("disk", "ext4", "/");
        let mounts =
            [disk.clone(), tree("memory", "cgroup", "/box"), tree("unified", "cgroup2", "/")];
        let groups = ["/backup.slice", "/box/jobs/scan", "/elsewhere", "/none"].map(PathBuf::from);
        let notes = missing_below(&mounts, &groups);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("no control group /elsewhere"), "{notes:?}");
        assert!(notes[1].contains("no control group /none"), "{notes:?}");
        assert!(missing_below(&[disk], &groups).is_empty(), "nothing tells");
    }
}
