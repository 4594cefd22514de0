use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::mountinfo::{MountEntry, mount_of};
use crate::origin_id::OriginId;

/// Most names that are looked at for a directory that was moved.
const NAMES_MAX: usize = 20_000;

/// How an origin lies to another directory whose files it shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// It is that directory.
    Same,
    /// It lies in it.
    Inside,
    /// That directory, or a part of it, lies in it.
    Around,
}

/// What is seen below a directory: a part of a file system, and where.
struct Region {
    device: u64,
    /// The path within the file system.
    inner: PathBuf,
    place: PathBuf,
}

/// The regions below `top`: the one that it lies in, then those that are mounted further down.
fn regions(mounts: &[MountEntry], top: &Path) -> Vec<Region> {
    let region = |mount: &MountEntry, place: &Path| {
        let (device, place) = (mount.device, place.to_owned());
        Some(Region { device, inner: mount.inner_path(&place)?, place })
    };
    let own = mount_of(mounts, top).and_then(|mount| region(mount, top));
    let is_below =
        |mount: &&MountEntry| mount.mountpoint != top && mount.mountpoint.starts_with(top);
    let below = mounts.iter().filter(is_below);
    own.into_iter().chain(below.filter_map(|mount| region(mount, &mount.mountpoint))).collect()
}

fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(a).is_some_and(|found| identity(b) == Some(found))
}

/// How `origin` lies to the origin that was noted at the path `noted`, and where that is by now.
/// `None` when they share nothing, as far as can be told.
///
/// What lies on other devices than `origin` is not touched: it may not answer.
pub(crate) fn overlap(
    mounts: &[MountEntry],
    origin: &Path,
    noted: &Path,
    id: Option<&OriginId>,
) -> Option<(Overlap, PathBuf)> {
    let own = regions(mounts, origin);
    let has = |device: u64| own.iter().any(|region| region.device == device);
    if regions(mounts, noted).iter().any(|region| has(region.device))
        && let Ok(there) = noted.canonicalize()
        && id.is_none_or(|id| id.is_at(&there))
    {
        let overlap = placed(&own, origin, &regions(mounts, &there), &there)?;
        return Some((overlap, there));
    }
    // It has been moved, or its file system is mounted elsewhere.
    let id = id?;
    if let Some(found) = origin.ancestors().find(|above| id.is_at(above)) {
        if id.is_at(noted) && !is_same(noted, found) {
            // A copy of the file system; the noted one is where it was.
            return None;
        }
        let overlap = if found == origin { Overlap::Same } else { Overlap::Inside };
        return Some((overlap, found.to_owned()));
    }
    let mounted = own.iter().map(|region| &region.place).find(|place| id.is_at(place));
    let was_here = mount_of(mounts, noted).is_some_and(|mount| has(mount.device));
    let found = mounted.cloned().or_else(|| was_here.then(|| search(origin, id)).flatten());
    found.map(|found| (Overlap::Around, found))
}

/// How `origin` lies to `there` when both are where they are said to be.
fn placed(own: &[Region], origin: &Path, theirs: &[Region], there: &Path) -> Option<Overlap> {
    if is_same(origin, there) {
        return Some(Overlap::Same);
    }
    // One directory may be seen in several places: what counts is where it is in its file system.
    let lies_in = |inner: &Region, outer: &Region| {
        inner.device == outer.device
            && inner
                .inner
                .strip_prefix(&outer.inner)
                .is_ok_and(|below| is_same(&outer.place.join(below), &inner.place))
    };
    if own.first().is_some_and(|own| theirs.iter().any(|theirs| lies_in(own, theirs))) {
        return Some(Overlap::Inside);
    }
    let shares =
        |own: &Region| theirs.iter().any(|theirs| lies_in(theirs, own) || lies_in(own, theirs));
    own.iter().any(shares).then_some(Overlap::Around)
}

/// Looks for a directory below `top` on the same file system, near the top first.
fn search(top: &Path, id: &OriginId) -> Option<PathBuf> {
    let device = fs::metadata(top).ok()?.dev();
    let mut left = VecDeque::from([top.to_owned()]);
    let mut names = 0;
    while let Some(directory) = left.pop_front() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            names += 1;
            if names > NAMES_MAX {
                return None;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if entry.ino() == id.inode() && id.is_at(&path) {
                return Some(path);
            }
            if entry.metadata().is_ok_and(|found| found.dev() == device) {
                left.push_back(path);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo::mounts;

    #[test]
    fn directories_that_share_files_are_told() {
        let base = tempfile::tempdir().expect("a directory");
        let base = base.path().canonicalize().expect("it is there");
        let path = |name: &str| base.join(name);
        fs::create_dir_all(path("slow/a/b")).expect("made");
        fs::create_dir_all(path("slower/a")).expect("made");
        let mounts = mounts().expect("/proc is there");
        let id = OriginId::at(&path("slow")).expect("it is there");
        let found = |origin: &str| overlap(&mounts, &path(origin), &path("slow"), Some(&id));
        let all = |place: &str| {
            assert_eq!(found(place), Some((Overlap::Same, path(place))));
            assert_eq!(found(&format!("{place}/a/b")), Some((Overlap::Inside, path(place))));
            assert_eq!(found(""), Some((Overlap::Around, path(place))));
            assert_eq!((found("slower"), found("slower/a")), (None, None));
        };
        all("slow");
        fs::create_dir(path("deep")).expect("made");
        fs::rename(path("slow"), path("deep/moved")).expect("moved");
        all("deep/moved");
        // Another directory in its place is another one.
        fs::create_dir_all(path("slow/a")).expect("made");
        all("deep/moved");
        assert_eq!((found("slow"), found("slow/a")), (None, None));
        // What was noted without an identity is known by its path.
        let by_path = |origin: &str| overlap(&mounts, &path(origin), &path("slow"), None);
        assert_eq!(by_path("slow/a"), Some((Overlap::Inside, path("slow"))));
        assert_eq!(by_path("deep/moved"), None);
    }

    #[test]
    fn a_directory_is_one_wherever_it_is_mounted() {
        let region = |inner: &str, place: &Path| Region {
            device: 1,
            inner: inner.into(),
            place: place.to_owned(),
        };
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("slow/a")).expect("made");
        std::os::unix::fs::symlink(path("slow/a"), path("bound")).expect("a link");
        // A link stands for a bind mount, which only root can make.
        let (slow, bound) =
            (region("data/slow", &path("slow")), region("data/slow/a", &path("bound")));
        let found = |own: &Region, theirs: &Region| {
            let one = |region: &Region| {
                vec![Region { inner: region.inner.clone(), place: region.place.clone(), ..*region }]
            };
            placed(&one(own), &own.place, &one(theirs), &theirs.place)
        };
        assert_eq!(found(&bound, &slow), Some(Overlap::Inside));
        assert_eq!(found(&slow, &bound), Some(Overlap::Around));
        let other = region("data/slow/b", &path("bound"));
        assert_eq!(
            found(&other, &slow),
            None,
            "the path within the file system decides nothing alone"
        );
    }
}
