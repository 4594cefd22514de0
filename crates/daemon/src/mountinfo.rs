use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount in this process's tree of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is.
    pub mountpoint: PathBuf,
    /// The directory of the file system that is seen there; `/` unless it is a bind mount.
    pub root: PathBuf,
    /// Device number, as `stat` tells it.
    pub device: u64,
    /// Type, such as `ext4` or `fuse.warmfront`.
    pub fs_type: String,
    /// What is mounted, as whoever mounted it called it.
    pub source: String,
    /// Options of the file system.
    pub options: String,
}

impl MountEntry {
    /// Whether it is a mount of ours, alive or dead.
    pub fn is_warmfront(&self) -> bool {
        self.fs_type == "fuse.warmfront"
    }

    /// The path within the file system of a path at or below the mount point.
    pub fn inner_path(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.mountpoint).ok()?;
        Some(self.root.strip_prefix("/").unwrap_or(&self.root).join(below))
    }
}

/// All mounts that this process can see, in the order of mounting. Touches none of them.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The mount that a path lies in; an absolute path without `.`, `..` and symbolic links.
pub fn mount_of<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    // Of several mounts on the same directory, the last one is seen.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.mountpoint))
        .max_by_key(|mount| mount.mountpoint.components().count())
}

/// What is mounted at exactly this path.
pub fn mounted_at<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    mounts.iter().rev().find(|mount| mount.mountpoint == path)
}

/// The mounts of a `/proc/PID/mountinfo`.
pub(crate) fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// One line of proc_pid_mountinfo(5): `ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAG...] -
/// TYPE SOURCE OPTIONS`.
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let root = path(fields.next()?);
    let mountpoint = path(fields.next()?);
    fields.find(|field| *field == b"-")?;
    let text = |field: &[u8]| path(field).to_string_lossy().into_owned();
    Some(MountEntry {
        mountpoint,
        root,
        device: rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?),
        fs_type: text(fields.next()?),
        source: text(fields.next()?),
        options: text(fields.next().unwrap_or_default()),
    })
}

/// Undoes the kernel's escapes: a backslash and three octal digits.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), after)
            }
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    OsString::from_vec(bytes).into()
}

/// The absolute path of what may be a dead mount: everything but its last name is resolved.
pub(crate) fn resolve_without_touching(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let is_plain = mounted_at(&mounts()?, &absolute).is_some();
    if is_plain {
        return Ok(absolute);
    }
    match (absolute.canonicalize(), absolute.parent(), absolute.file_name()) {
        (Ok(resolved), _, _) => Ok(resolved),
        (Err(_), Some(parent), Some(name)) => {
            Ok(parent.canonicalize().map_or_else(|_| absolute.clone(), |above| above.join(name)))
        }
        _ => Ok(absolute),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        40 22 0:45 / /fast rw,nosuid shared:9 master:2 - fuse.warmfront slow rw,user_id=0\n\
        41 40 0:46 / /fast/deep\\040er rw - tmpfs tmpfs rw\n\
        42 22 0:45 /photos /srv/photos rw - fuse.warmfront slow rw,user_id=0\n\
        nonsense\n";

    #[test]
    fn paths_are_found_in_their_mounts() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 4);
        let find = |path: &str| mount_of(&mounts, Path::new(path)).expect("there is a root");
        assert_eq!(find("/faster").mountpoint, Path::new("/"));
        assert_eq!(find("/fast/x").device, rustix::fs::makedev(0, 45));
        assert!(find("/fast").is_warmfront());
        assert_eq!(find("/fast/deep er/x").fs_type, "tmpfs");
        let bound = find("/srv/photos/a");
        let inner = bound.inner_path(Path::new("/srv/photos/a"));
        assert_eq!(inner.as_deref(), Some(Path::new("photos/a")));
        assert!(mounted_at(&mounts, Path::new("/fast/x")).is_none());
        assert!(mounted_at(&mounts, Path::new("/fast")).is_some());
    }

    #[test]
    fn this_process_has_mounts() {
        assert!(mount_of(&mounts().expect("/proc is there"), Path::new("/")).is_some());
    }
}
