use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::mountinfo::{mount_of, mounts};

/// What the top directory of an origin is known by, whatever path leads to it: paths, mounts and
/// numbers of devices change, also while nobody looks.
#[derive(Debug, Clone, Eq, Serialize, Deserialize)]
pub(crate) struct OriginId {
    inode: u64,
    /// Its birth, seconds and nanoseconds.
    born: Option<(i64, u32)>,
    /// Type and source of its file system. It tells directories apart of which no birth is known.
    file_system: String,
}

impl PartialEq for OriginId {
    fn eq(&self, other: &OriginId) -> bool {
        (self.inode, self.born) == (other.inode, other.born)
            && (self.born.is_some() || self.file_system == other.file_system)
    }
}

impl OriginId {
    /// Of the directory at `path`.
    pub fn at(path: &Path) -> io::Result<OriginId> {
        let path = path.canonicalize()?;
        let (inode, born) = inode_and_birth(&path)?;
        let mounts = mounts()?;
        let mount = mount_of(&mounts, &path);
        let file_system =
            mount.map_or(String::new(), |mount| format!("{} {}", mount.fs_type, mount.source));
        Ok(OriginId { inode, born, file_system })
    }

    /// Whether the directory at `path` is it, as far as can be told.
    pub fn is_at(&self, path: &Path) -> bool {
        let found = inode_and_birth(path);
        found.is_ok_and(|(inode, born)| inode == self.inode && born == self.born)
            && (self.born.is_some()
                || OriginId::at(path).is_ok_and(|found| found.file_system == self.file_system))
    }

    /// Its inode number.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// What a log keeps of it.
    pub fn digest(&self) -> [u8; 8] {
        let mut hash = Xxh3::new();
        hash.update(&self.inode.to_le_bytes());
        if let Some((seconds, nanoseconds)) = self.born {
            hash.update(&seconds.to_le_bytes());
            hash.update(&nanoseconds.to_le_bytes());
        }
        hash.digest().to_le_bytes()
    }
}

fn inode_and_birth(path: &Path) -> io::Result<(u64, Option<(i64, u32)>)> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = statx(CWD, path, AtFlags::NO_AUTOMOUNT, mask)?;
    let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    let born = has_birth.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec));
    Ok((stat.stx_ino, born))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_wherever_it_is() {
        let base = tempfile::tempdir().expect("a directory");
        let (old, new) = (base.path().join("old"), base.path().join("new"));
        std::fs::create_dir(&old).expect("made");
        let id = OriginId::at(&old).expect("it is there");
        assert!(id.is_at(&old) && !id.is_at(base.path()) && !id.is_at(&new));
        std::fs::rename(&old, &new).expect("moved");
        std::fs::create_dir(&old).expect("made");
        assert!(id.is_at(&new) && !id.is_at(&old));
        assert_eq!(OriginId::at(&new).expect("it is there"), id);
        assert_ne!(OriginId::at(&old).expect("it is there").digest(), id.digest());
        // Where no births are told, inode numbers alone do not tell file systems apart.
        let (inode, _) = inode_and_birth(&new).expect("it is there");
        let unborn = OriginId { inode, born: None, file_system: "fuse.sshfs there:/".into() };
        assert!(!unborn.is_at(&new) && unborn != id);
        // Where they are told, the number of a loop device tells nothing.
        assert_eq!(OriginId { file_system: "ext4 /dev/loop7".into(), ..id.clone() }, id);
    }
}
