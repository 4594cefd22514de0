use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// Where the directory is by now in front of which a pool stands.
#[derive(Debug)]
pub(crate) struct OriginPlace {
    path: PathBuf,
    directory: OwnedFd,
}

impl OriginPlace {
    /// The directory that is at `path` now, which leads to it without links and detours.
    pub fn new(path: &Path) -> io::Result<OriginPlace> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty())?;
        Ok(OriginPlace { path: path.to_owned(), directory })
    }

    /// What is to be told if it is there no longer. The kernel knows without asking the origin,
    /// which may not answer.
    pub fn moved(&self) -> Option<String> {
        let link = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let now = std::fs::read_link(link).ok().filter(|now| *now != self.path)?;
        let (path, now) = (self.path.display(), now.display().to_string());
        Some(match now.ends_with(REMOVED) {
            true => format!(
                "the origin {path} has been removed, with its files: what is written from now on \
                 is gone when the pool is unmounted. Only programs that have a file open can still \
                 read it: let them save it off the mount now"
            ),
            false => format!(
                "the origin {path} has been moved: it is {now} now. Files that are there are still \
                 served, and take what is written to them; names that are not there, new ones \
                 too, give EIO until it is moved back to {path}, as it has to be before the next \
                 mount"
            ),
        })
    }
}

/// The kernel puts this behind the path of a directory that is no more.
const REMOVED: &str = " (deleted)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_moved_is_told() {
        let base = tempfile::tempdir().expect("a directory");
        let base = base.path().canonicalize().expect("it is there");
        let (old, new) = (base.join("old"), base.join("new"));
        std::fs::create_dir(&old).expect("made");
        let place = OriginPlace::new(&old).expect("it opens");
        assert_eq!(place.moved(), None);
        std::fs::rename(&old, &new).expect("moved");
        let told = place.moved().expect("it is told");
        assert!(told.contains("old has been moved") && told.contains("/new now"), "{told}");
        std::fs::create_dir(&old).expect("made");
        assert_eq!(place.moved().as_ref(), Some(&told), "another one in its place");
        std::fs::rename(&new, base.join("x"))
            .and_then(|()| std::fs::remove_dir(base.join("x")))
            .expect("removed");
        let told = place.moved().expect("it is told");
        assert!(told.contains("old has been removed") && told.contains("off the mount"), "{told}");
    }
}
