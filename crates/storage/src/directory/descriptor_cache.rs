use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::ObjectId;

/// Most directories kept open, however many descriptors the process may have.
///
/// ```
/// // With this many there is room for files besides.
/// let descriptors = storage::descriptors_for_files(1 << 20);
/// assert!(descriptors > storage::DIRECTORIES_MAX as u64);
/// ```
pub const DIRECTORIES_MAX: usize = 8192;

/// Fewest directories kept open, however few descriptors the process may have.
const DIRECTORIES_MIN: usize = 16;

/// The part of the process's descriptors that cached directories may take: one in four.
const DESCRIPTOR_SHARE: u64 = 4;

/// Raises the limit on open descriptors as far as the process may, and returns how many
/// directories may be kept open under it.
pub(super) fn raise_limit() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit.current = limit.maximum;
        }
    }
    let share = limit.current.map_or(u64::MAX, |n| n / DESCRIPTOR_SHARE);
    usize::try_from(share).unwrap_or(usize::MAX).clamp(DIRECTORIES_MIN, DIRECTORIES_MAX)
}

/// Descriptors that open files leave for everything else: for who asks how things are, and for what
/// others do meanwhile. The part of all, as its divisor, and the most.
const SPARE_SHARE: u64 = 8;
const SPARE_MAX: u64 = 256;

/// How many of so many descriptors are for open files and directories.
///
/// ```
/// assert_eq!(storage::descriptors_for_files(1024), 1024 - 128);
/// assert_eq!(storage::descriptors_for_files(1 << 20), (1 << 20) - 256);
/// ```
pub fn descriptors_for_files(limit: u64) -> u64 {
    limit - (limit / SPARE_SHARE).min(SPARE_MAX)
}

/// Refuses one more open file when it has a descriptor that is for something else.
pub(super) fn leave_spare(descriptor: &OwnedFd) -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The system gives the lowest number that is free.
    match (descriptor.as_raw_fd() as u64) < descriptors_for_files(limit) {
        true => Ok(()),
        false => Err(Errno::MFILE),
    }
}

/// Most removed objects that are held for those who still refer to them.
const REMOVED_MAX: usize = 4096;

/// Descriptors of objects in use: directories, the least recently used closed first, objects
/// with open files, kept until the last of these is closed, and objects that were removed through
/// us, kept until nobody refers to them: until then no other object may have their inode number.
///
/// Other files without open files are not kept open: a descriptor would hold back the space of a
/// file that is deleted behind our back, and would make an NFS client rename it instead.
#[derive(Debug)]
pub(super) struct DescriptorCache {
    directories_max: usize,
    directories: HashMap<ObjectId, (Arc<OwnedFd>, u64)>,
    by_use: BTreeMap<u64, ObjectId>,
    uses: u64,
    pinned: HashMap<ObjectId, (Arc<OwnedFd>, u64)>,
    removed: HashMap<ObjectId, OwnedFd>,
}

impl DescriptorCache {
    /// An empty cache for `directories_max` directories.
    pub fn new(directories_max: usize) -> DescriptorCache {
        DescriptorCache {
            directories_max: directories_max.max(1),
            directories: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            pinned: HashMap::new(),
            removed: HashMap::new(),
        }
    }

    /// The descriptor of a directory, which becomes the most recently used.
    pub fn directory(&mut self, object: ObjectId) -> Option<Arc<OwnedFd>> {
        let (descriptor, used) = self.directories.get_mut(&object)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, object);
        Some(descriptor.clone())
    }

    /// Keeps the descriptor of a directory. The one returned is to be closed by the caller,
    /// after it has let go of its locks.
    #[must_use]
    pub fn insert(&mut self, object: ObjectId, descriptor: Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        self.uses += 1;
        self.by_use.insert(self.uses, object);
        if let Some((old, used)) = self.directories.insert(object, (descriptor, self.uses)) {
            self.by_use.remove(&used);
            return Some(old);
        }
        if self.directories.len() <= self.directories_max {
            return None;
        }
        let (_, oldest) = self.by_use.pop_first()?;
        self.directories.remove(&oldest).map(|(descriptor, _)| descriptor)
    }

    /// Takes the descriptor of a directory out.
    #[must_use]
    pub fn remove(&mut self, object: ObjectId) -> Option<Arc<OwnedFd>> {
        let (descriptor, used) = self.directories.remove(&object)?;
        self.by_use.remove(&used);
        Some(descriptor)
    }

    /// Keeps a descriptor of `object` until as many calls of [`unpin`](Self::unpin).
    pub fn pin(&mut self, object: ObjectId, descriptor: &Arc<OwnedFd>) {
        let entry = self.pinned.entry(object).or_insert_with(|| (descriptor.clone(), 0));
        entry.1 += 1;
    }

    /// Undoes one [`pin`](Self::pin). The descriptor returned is to be closed by the caller.
    #[must_use]
    pub fn unpin(&mut self, object: ObjectId) -> Option<Arc<OwnedFd>> {
        let entry = self.pinned.get_mut(&object)?;
        entry.1 -= 1;
        if entry.1 > 0 {
            return None;
        }
        self.pinned.remove(&object).map(|(descriptor, _)| descriptor)
    }

    /// Holds an object that was removed, as far as there is room. The one returned is to be closed
    /// by the caller.
    #[must_use]
    pub fn hold_removed(&mut self, object: ObjectId, descriptor: OwnedFd) -> Option<OwnedFd> {
        if self.removed.len() >= REMOVED_MAX {
            return Some(descriptor);
        }
        self.removed.insert(object, descriptor)
    }

    /// Nobody refers to an object any more that may have been removed. The descriptor returned is
    /// to be closed by the caller.
    #[must_use]
    pub fn let_go(&mut self, object: ObjectId) -> Option<OwnedFd> {
        self.removed.remove(&object)
    }

    /// The descriptor of an object with open files.
    pub fn pinned(&self, object: ObjectId) -> Option<Arc<OwnedFd>> {
        self.pinned.get(&object).map(|(descriptor, _)| descriptor.clone())
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When the order of use and the descriptors disagree, or there are too many.
    #[cfg(test)]
    pub fn validate(&self) {
        assert!(self.directories.len() <= self.directories_max, "too many directories are open");
        assert_eq!(self.directories.len(), self.by_use.len(), "order of use is out of step");
        for (used, object) in &self.by_use {
            assert_eq!(self.directories.get(object).map(|d| d.1), Some(*used));
        }
        assert!(self.pinned.values().all(|(_, count)| *count > 0), "a pin is leaked");
        assert!(self.removed.len() <= REMOVED_MAX, "too many removed objects are held");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/").expect("there is a root").into())
    }

    #[test]
    fn the_least_recently_used_directory_is_closed() {
        let mut cache = DescriptorCache::new(2);
        assert!(cache.insert(ObjectId(1), descriptor()).is_none());
        assert!(cache.insert(ObjectId(2), descriptor()).is_none());
        assert!(cache.directory(ObjectId(1)).is_some());
        assert!(cache.insert(ObjectId(3), descriptor()).is_some());
        assert!(cache.directory(ObjectId(2)).is_none());
        assert!(cache.directory(ObjectId(1)).is_some());
        cache.validate();
        assert!(cache.insert(ObjectId(1), descriptor()).is_some(), "the old one is handed out");
        assert!(cache.remove(ObjectId(1)).is_some());
        cache.validate();
    }

    #[test]
    fn a_pin_lasts_until_the_last_unpin() {
        let mut cache = DescriptorCache::new(1);
        let descriptor = descriptor();
        cache.pin(ObjectId(1), &descriptor);
        cache.pin(ObjectId(1), &descriptor);
        assert!(cache.unpin(ObjectId(1)).is_none());
        assert!(cache.pinned(ObjectId(1)).is_some());
        assert!(cache.unpin(ObjectId(1)).is_some());
        assert!(cache.pinned(ObjectId(1)).is_none());
        assert!(cache.unpin(ObjectId(1)).is_none());
        cache.validate();
    }

    #[test]
    fn the_limit_on_descriptors_is_raised() {
        let directories_max = raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert!((DIRECTORIES_MIN..=DIRECTORIES_MAX).contains(&directories_max));
    }
}
