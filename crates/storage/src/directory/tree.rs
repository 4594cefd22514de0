use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, fstatfs, openat};
use rustix::io::Errno;

use super::descriptor_cache::{DescriptorCache, leave_spare, raise_limit};
use super::node_table::{DEPTH_MAX, Identity, NodeTable, Place};
use super::stat::{attributes_of, identity_of, stat_at, stat_of};
use super::{DirectoryOptions, caller, direct};
use crate::{Attributes, Capabilities, Entry, Kind, ObjectId, OriginError, Result};

/// What is opened only to name an object.
pub(super) const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where an attempt to reach an object starts.
pub(super) enum Start<'a> {
    /// A name in an open directory.
    Name(&'a OwnedFd, &'a OsStr),
    /// A descriptor of the object itself.
    Itself(&'a Arc<OwnedFd>),
}

/// When an object may be reached through a descriptor that is open already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    /// Whenever its names fail.
    Always,
    /// Only when it is known to have no name left.
    Nameless,
}

/// A directory tree and what is known of it: the state that origin and open files share.
///
/// There is one lock, never held over a system call. Objects are reached from the descriptors of
/// their directories by name, never by path.
pub(super) struct Tree {
    path: PathBuf,
    /// Names the top directory.
    pub root: Arc<OwnedFd>,
    /// The top directory open for reading, for the calls that refuse a mere name.
    readable: OwnedFd,
    root_identity: Identity,
    state: Mutex<State>,
    pub capabilities: Capabilities,
    pub direct_refusals: AtomicU64,
    /// Whether objects are held while they are removed.
    holds_removed: bool,
}

/// The magic number of `statfs(2)` of NFS: its client renames what is held, and keeps it in its
/// directory, which then cannot be removed.
const NFS: u64 = 0x6969;

struct State {
    nodes: NodeTable,
    descriptors: DescriptorCache,
}

impl Tree {
    pub fn open(path: &Path, options: &DirectoryOptions) -> Result<Tree> {
        const OPEN: &str = "open origin";
        let path = std::path::absolute(path).map_err(|error| OriginError::System {
            operation: OPEN,
            errno: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
        })?;
        let fail = OriginError::system(OPEN);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = openat(CWD, &path, flags, Mode::empty()).map_err(fail)?;
        // All later calls go through /proc/self/fd; without it nothing works.
        let root =
            openat(CWD, proc_path(&readable), HANDLE.difference(OFlags::NOFOLLOW), Mode::empty())
                .map_err(OriginError::system("open origin through /proc/self/fd"))?;
        let root_identity = stat_of(&root)
            .and_then(|stat| identity_of(&stat))
            .map_err(OriginError::system(OPEN))?;

        let mut capabilities = Capabilities::LINKS | Capabilities::XATTRS | Capabilities::WRITE;
        capabilities.set(Capabilities::DIRECT, options.direct && direct::is_supported(&readable));
        capabilities.set(Capabilities::OWNERSHIP, options.ownership && caller::may_switch());
        let directories_max = options.directories_max.unwrap_or_else(raise_limit);
        let holds_removed = !fstatfs(&root).is_ok_and(|fs| u64::try_from(fs.f_type) == Ok(NFS));
        let state = State {
            nodes: NodeTable::new(root_identity),
            descriptors: DescriptorCache::new(directories_max),
        };
        Ok(Tree {
            path,
            root: Arc::new(root),
            readable,
            root_identity,
            state: Mutex::new(state),
            capabilities,
            direct_refusals: AtomicU64::new(0),
            holds_removed,
        })
    }

    pub fn readable(&self) -> &OwnedFd {
        &self.readable
    }

    /// Refuses to make one more open file when few descriptors are left.
    pub fn leave_spare(&self) -> rustix::io::Result<()> {
        leave_spare(&rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?)
    }

    // ---- errors ----

    /// Whether the path given at open still leads to the directory that is held open.
    fn is_reachable(&self) -> bool {
        rustix::fs::statx(CWD, &self.path, AtFlags::empty(), super::stat::MASK)
            .and_then(|stat| identity_of(&stat))
            .is_ok_and(|identity| identity == self.root_identity)
    }

    /// The error of a call on an object: a name that is gone means that the object has moved.
    pub fn object_error(&self, operation: &'static str, errno: Errno) -> OriginError {
        match errno {
            Errno::NOENT | Errno::STALE | Errno::NODEV if !self.is_reachable() => {
                OriginError::Unreachable { operation }
            }
            Errno::NOENT | Errno::STALE => OriginError::Stale { operation },
            errno if is_unreachable(errno) => OriginError::Unreachable { operation },
            errno => OriginError::System { operation, errno },
        }
    }

    /// The error of a call on names in the directory `parent`, reached through `directory`.
    pub fn name_error(
        &self,
        operation: &'static str,
        errno: Errno,
        parent: ObjectId,
        directory: &OwnedFd,
    ) -> OriginError {
        if errno == Errno::NOENT && self.is_reachable() {
            let removed = match stat_of(directory) {
                Ok(stat) => stat.stx_nlink == 0,
                Err(_) => true,
            };
            if !removed {
                return OriginError::System { operation, errno };
            }
        }
        if matches!(errno, Errno::NOENT | Errno::STALE) {
            self.close_directory(parent);
        }
        self.object_error(operation, errno)
    }

    // ---- the table ----

    pub fn root_entry(&self) -> Result<Entry> {
        const STAT: &str = "stat origin";
        let stat = stat_of(&self.root).map_err(|errno| self.object_error(STAT, errno))?;
        if !self.is_reachable() {
            return Err(OriginError::Unreachable { operation: STAT });
        }
        let attributes = attributes_of(&stat).map_err(OriginError::system(STAT))?;
        let object = self.state.lock().nodes.reference(self.root_identity);
        Ok(Entry { object, attributes })
    }

    /// Takes an object into use that was found as `name` in `parent`.
    pub fn attach(
        &self,
        operation: &'static str,
        parent: ObjectId,
        name: &OsStr,
        stat: &Statx,
    ) -> Result<Entry> {
        let identity = identity_of(stat).map_err(OriginError::system(operation))?;
        let attributes = attributes_of(stat).map_err(OriginError::system(operation))?;
        let object = self.state.lock().nodes.attach(parent, name, identity);
        Ok(Entry { object, attributes })
    }

    /// Takes an object into use that has no name.
    pub fn adopt(&self, operation: &'static str, stat: &Statx) -> Result<Entry> {
        let identity = identity_of(stat).map_err(OriginError::system(operation))?;
        let attributes = attributes_of(stat).map_err(OriginError::system(operation))?;
        let object = self.state.lock().nodes.reference(identity);
        Ok(Entry { object, attributes })
    }

    pub fn remember(&self, parent: ObjectId, name: &OsStr, entry: &Entry) {
        self.state.lock().nodes.remember(parent, name, entry.object, entry.attributes.kind);
    }

    pub fn detach(&self, parent: ObjectId, name: &OsStr) {
        self.state.lock().nodes.detach(parent, name);
    }

    pub fn renamed(&self, from: (ObjectId, &OsStr), to: (ObjectId, &OsStr), exchange: bool) {
        self.state.lock().nodes.rename(from, to, exchange);
    }

    pub fn forget(&self, object: ObjectId, count: u64) {
        let closed = {
            let mut state = self.state.lock();
            state.nodes.forget(object, count);
            match state.nodes.node(object) {
                Some(_) => (None, None),
                None => (state.descriptors.remove(object), state.descriptors.let_go(object)),
            }
        };
        drop(closed);
    }

    /// Before `name` in `parent` is taken away: a descriptor of what it leads to, if that is in use
    /// and this is its last name. While it is held, its inode number goes to no other object.
    pub fn last_named(
        &self,
        parent: ObjectId,
        directory: &OwnedFd,
        name: &OsStr,
    ) -> Option<(ObjectId, OwnedFd)> {
        if !self.holds_removed {
            return None;
        }
        let object = self.state.lock().nodes.child(parent, name)?;
        let handle = openat(directory, name, HANDLE, Mode::empty()).ok()?;
        let stat = stat_of(&handle).ok()?;
        let identity = identity_of(&stat).ok()?;
        let is_last = identity.kind == Kind::Directory || stat.stx_nlink <= 1;
        (is_last && identity.device == self.root_identity.device && leave_spare(&handle).is_ok())
            .then_some((object, handle))
    }

    /// Holds an object that has been removed until nobody refers to it.
    pub fn hold_removed(&self, removed: Option<(ObjectId, OwnedFd)>) {
        let Some((object, handle)) = removed else { return };
        let closed = {
            let mut state = self.state.lock();
            match state.nodes.node(object) {
                Some(_) => state.descriptors.hold_removed(object, handle),
                None => Some(handle),
            }
        };
        drop(closed);
    }

    /// The id of an object by device and inode number, as a listing tells them.
    pub fn identify(&self, device: u64, inode: u64) -> ObjectId {
        self.state.lock().nodes.identify(device, inode)
    }

    /// Keeps an open file's object in use, and reachable without a name.
    pub fn pin(&self, stat: &Statx, handle: &Arc<OwnedFd>) -> rustix::io::Result<ObjectId> {
        let identity = identity_of(stat)?;
        let mut state = self.state.lock();
        let object = state.nodes.reference(identity);
        state.descriptors.pin(object, handle);
        Ok(object)
    }

    /// Undoes one [`pin`](Self::pin).
    pub fn unpin(&self, object: ObjectId) {
        let closed = self.state.lock().descriptors.unpin(object);
        drop(closed);
        self.forget(object, 1);
    }

    // ---- descriptors ----

    fn close_directory(&self, object: ObjectId) {
        let closed = self.state.lock().descriptors.remove(object);
        drop(closed);
    }

    /// A descriptor of a directory, kept open or opened anew from the nearest one kept open above.
    pub fn directory(&self, operation: &'static str, object: ObjectId) -> Result<Arc<OwnedFd>> {
        let mut missing: Vec<(ObjectId, Place)> = Vec::new();
        let mut directory = {
            let mut state = self.state.lock();
            let mut current = object;
            loop {
                if current == state.nodes.root() {
                    break self.root.clone();
                }
                if let Some(directory) = state.descriptors.directory(current) {
                    break directory;
                }
                let node = state.nodes.node(current);
                let kind = node.map(|node| node.kind);
                if kind.is_some_and(|kind| kind != Kind::Directory) {
                    return Err(OriginError::System { operation, errno: Errno::NOTDIR });
                }
                let place = node.and_then(|node| node.places.first()).cloned();
                let Some(place) = place else { return Err(OriginError::Stale { operation }) };
                if missing.len() == DEPTH_MAX {
                    return Err(OriginError::System { operation, errno: Errno::LOOP });
                }
                let parent = place.0;
                missing.push((current, place));
                current = parent;
            }
        };
        for (object, (parent, name)) in missing.into_iter().rev() {
            let opened = openat(&*directory, &*name, HANDLE | OFlags::DIRECTORY, Mode::empty())
                .and_then(|opened| Ok((identity_of(&stat_of(&opened)?)?, opened)));
            let (identity, opened) = match opened {
                Ok(found) => found,
                // A symbolic link or a file stands where the directory was.
                Err(Errno::NOTDIR | Errno::LOOP) => return Err(OriginError::Stale { operation }),
                Err(errno) => {
                    if errno == Errno::STALE {
                        self.close_directory(parent);
                    }
                    return Err(self.object_error(operation, errno));
                }
            };
            directory = Arc::new(opened);
            let closed = {
                let mut state = self.state.lock();
                if state.nodes.identify(identity.device, identity.inode) != object {
                    drop(state);
                    return Err(OriginError::Stale { operation });
                }
                state.descriptors.insert(object, directory.clone())
            };
            drop(closed);
        }
        Ok(directory)
    }

    /// Reaches an object: tries its names in turn until one leads to it, then the descriptor of
    /// an open file, as `fallback` allows.
    pub fn reach<T>(
        &self,
        operation: &'static str,
        object: ObjectId,
        fallback: Fallback,
        attempt: impl Fn(Start<'_>) -> rustix::io::Result<(T, Statx)>,
    ) -> Result<(T, Statx)> {
        let (kind, places) = {
            let state = self.state.lock();
            if object == state.nodes.root() {
                drop(state);
                let found = attempt(Start::Itself(&self.root));
                return found.map_err(|errno| self.object_error(operation, errno));
            }
            let Some(node) = state.nodes.node(object) else {
                return Err(OriginError::Stale { operation });
            };
            (node.kind, node.places.clone())
        };
        for (at, (parent, name)) in places.iter().enumerate() {
            let directory = match self.directory(operation, *parent) {
                Ok(directory) => directory,
                Err(OriginError::Stale { .. }) => continue,
                Err(error) => return Err(error),
            };
            match attempt(Start::Name(&directory, name)) {
                Ok((reached, stat)) => {
                    let identity = identity_of(&stat).map_err(OriginError::system(operation))?;
                    let mut state = self.state.lock();
                    let found = state.nodes.identify(identity.device, identity.inode);
                    if found == object && identity.kind == kind {
                        if at > 0 {
                            state.nodes.promote(object, *parent, name);
                        }
                        return Ok((reached, stat));
                    }
                }
                Err(Errno::NOENT) => {}
                Err(Errno::STALE) => self.close_directory(*parent),
                Err(errno) => return Err(self.object_error(operation, errno)),
            }
        }
        let descriptor = {
            let mut state = self.state.lock();
            match kind {
                // Removed through us, and perhaps still somebody's working directory.
                Kind::Directory if places.is_empty() => state.descriptors.directory(object),
                Kind::Directory => None,
                _ if fallback == Fallback::Always || places.is_empty() => {
                    state.descriptors.pinned(object)
                }
                _ => None,
            }
        };
        if let Some(descriptor) = descriptor {
            let found = attempt(Start::Itself(&descriptor));
            return found.map_err(|errno| self.object_error(operation, errno));
        }
        if kind == Kind::Directory {
            self.close_directory(object);
        }
        Err(self.object_error(operation, Errno::STALE))
    }

    /// A descriptor that names an object (`O_PATH`), and what the object is.
    pub fn handle(
        &self,
        operation: &'static str,
        object: ObjectId,
        fallback: Fallback,
    ) -> Result<(Arc<OwnedFd>, Statx)> {
        self.reach(operation, object, fallback, |start| {
            let handle = match start {
                Start::Itself(descriptor) => descriptor.clone(),
                Start::Name(directory, name) => {
                    Arc::new(openat(directory, name, HANDLE, Mode::empty())?)
                }
            };
            let stat = stat_of(&handle)?;
            Ok((handle, stat))
        })
    }

    /// Present attributes of an object.
    pub fn attributes(&self, object: ObjectId) -> Result<Attributes> {
        const STAT: &str = "stat";
        let ((), stat) = self.reach(STAT, object, Fallback::Always, |start| {
            let stat = match start {
                Start::Itself(descriptor) => stat_of(descriptor)?,
                Start::Name(directory, name) => stat_at(directory, name)?,
            };
            Ok(((), stat))
        })?;
        attributes_of(&stat).map_err(OriginError::system(STAT))
    }
}

/// The path that leads through a descriptor to its object, whatever has become of its name.
pub(super) fn proc_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Errors that tell of the way to the origin, not of the object asked for.
fn is_unreachable(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOTCONN
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::CONNREFUSED
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::TIMEDOUT
            | Errno::SHUTDOWN
            | Errno::NODEV
    )
}
