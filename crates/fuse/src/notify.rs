use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{DeleteOut, InvalEntryOut, InvalInodeOut, PruneOut, StoreOut, notification};
use crate::filesystem::Result;
use crate::reply::send;

/// Tells the kernel what it must no longer believe.
///
/// Never call it while holding a lock that a call of the file system takes, nor from within a
/// call on the same node or directory: the kernel waits for its own locks first. `ENOENT` means
/// that the kernel does not know the node or name, so that there is nothing to drop.
#[derive(Debug, Clone)]
pub struct Notifier {
    device: Arc<OwnedFd>,
}

impl Notifier {
    pub(crate) fn new(device: Arc<OwnedFd>) -> Notifier {
        Notifier { device }
    }

    /// Drops a node's attributes and its cached pages from `offset` on: `length` bytes, or all
    /// if it is not positive. A negative offset drops the attributes only.
    pub fn inval_inode(&self, node: u64, offset: i64, length: i64) -> Result<()> {
        let out = InvalInodeOut { ino: node, off: offset, len: length };
        self.notify(notification::INVAL_INODE, &[out.as_bytes()])
    }

    /// Drops a name. What is mounted on it goes as well, and who has it as working directory no
    /// longer knows where it is.
    pub fn inval_entry(&self, parent: u64, name: &OsStr) -> Result<()> {
        self.entry(parent, name, 0)
    }

    /// Makes the kernel look a name up again before it believes it, and keeps it if it still
    /// leads to the same node. Kernels before 6.2 drop it, as [`inval_entry`](Self::inval_entry).
    pub fn expire_entry(&self, parent: u64, name: &OsStr) -> Result<()> {
        self.entry(parent, name, notification::EXPIRE_ONLY)
    }

    fn entry(&self, parent: u64, name: &OsStr, flags: u32) -> Result<()> {
        let out = InvalEntryOut { parent, namelen: length(name.as_bytes())?, flags };
        self.notify(notification::INVAL_ENTRY, &[out.as_bytes(), name.as_bytes(), &[0]])
    }

    /// Drops a name that led to `child`, and tells those who watch the directory.
    pub fn delete(&self, parent: u64, child: u64, name: &OsStr) -> Result<()> {
        let namelen = length(name.as_bytes())?;
        let out = DeleteOut { parent, child, namelen, padding: 0 };
        self.notify(notification::DELETE, &[out.as_bytes(), name.as_bytes(), &[0]])
    }

    /// Puts `data` into the page cache of a node.
    pub fn store(&self, node: u64, offset: u64, data: &[u8]) -> Result<()> {
        let out = StoreOut { nodeid: node, offset, size: length(data)?, padding: 0 };
        self.notify(notification::STORE, &[out.as_bytes(), data])
    }

    /// Drops all names at once (Linux 6.16 and later; before that `EINVAL`).
    pub fn inc_epoch(&self) -> Result<()> {
        self.notify(notification::INC_EPOCH, &[])
    }

    /// Forgets those of the nodes that nobody uses: which have no open file, no name below that is
    /// known, no working directory and no mount (Linux 6.18 and later; before that `EINVAL`).
    pub fn prune(&self, nodes: &[u64]) -> Result<()> {
        let count = u32::try_from(nodes.len()).map_err(|_| Errno::INVAL)?;
        let out = PruneOut { count, padding: 0, spare: 0 };
        self.notify(notification::PRUNE, &[out.as_bytes(), nodes.as_bytes()])
    }

    fn notify(&self, code: i32, pieces: &[&[u8]]) -> Result<()> {
        send(self.device.as_fd(), 0, code, pieces.iter().copied())
    }
}

fn length(bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)
}
