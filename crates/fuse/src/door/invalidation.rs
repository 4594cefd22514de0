use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use rustix::io::Errno;
use storage::{Kind, ObjectId};
use warmfront::{Invalidation, Pool, Unused};

use super::swap;
use crate::abi::ROOT_ID;
use crate::filesystem::Result;
use crate::notify::Notifier;

/// Former names, and files with former contents, that wait to be told. More names at a time are
/// left to expire by themselves, more files to who opens them.
const FORMER_MAX: usize = 1024;
/// Most objects that the kernel is asked to forget with one call.
const PRUNED_MAX: usize = 512;

/// Tells the kernel to ask a pool again.
#[derive(Debug)]
pub struct KernelInvalidation {
    notifier: Notifier,
    root: ObjectId,
    /// To a thread of its own, because the kernel keeps it waiting until calls on the directory
    /// that are under way have been answered. It ends with this.
    former_names: SyncSender<FormerName>,
    /// As well, because the kernel waits for reads of the file that are under way.
    former_contents: SyncSender<FormerContents>,
    /// As well, because the kernel may wait for calls on the directories.
    unused: SyncSender<UnusedObjects>,
}

/// A name in the directory `node` that leads elsewhere by now.
struct FormerName {
    node: u64,
    name: Arc<OsStr>,
    told: Box<dyn FnOnce() + Send>,
}

/// The file `node` has other contents by now.
struct FormerContents {
    node: u64,
    told: Box<dyn FnOnce() + Send>,
}

/// Objects that need not be remembered.
struct UnusedObjects {
    objects: Vec<Unused>,
    told: Box<dyn FnOnce() + Send>,
}

impl KernelInvalidation {
    /// For the session that serves `pool`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(notifier: Notifier, pool: &Pool) -> std::io::Result<KernelInvalidation> {
        let telling = notifier.clone();
        let former_names = teller("former-names", move |FormerName { node, name, told }| {
            ignore_unknown(telling.expire_entry(node, &name));
            told();
        })?;
        let telling = notifier.clone();
        let former_contents = teller("former-contents", move |FormerContents { node, told }| {
            ignore_unknown(telling.inval_inode(node, 0, 0));
            told();
        })?;
        let (telling, root) = (notifier.clone(), pool.root());
        let can_prune = AtomicBool::new(true);
        let unused = teller("unused", move |UnusedObjects { objects, told }| {
            if !can_prune.load(Ordering::Relaxed) || !prune(&telling, root, &objects) {
                can_prune.store(false, Ordering::Relaxed);
                drop_names(&telling, root, &objects);
            }
            told();
        })?;
        let root = pool.root();
        Ok(KernelInvalidation { notifier, root, former_names, former_contents, unused })
    }
}

impl Invalidation for KernelInvalidation {
    fn expire_object(&self, object: ObjectId) {
        let node = swap(object.0, ROOT_ID, self.root.0);
        ignore_unknown(self.notifier.inval_inode(node, 0, 0));
    }

    fn expire_attributes(&self, object: ObjectId) {
        let node = swap(object.0, ROOT_ID, self.root.0);
        // A negative offset leaves the pages alone, and with them the locks that guard them.
        ignore_unknown(self.notifier.inval_inode(node, -1, 0));
    }

    fn expire_contents_later(&self, object: ObjectId, told: Box<dyn FnOnce() + Send>) {
        let node = swap(object.0, ROOT_ID, self.root.0);
        if self.former_contents.try_send(FormerContents { node, told }).is_err() {
            tracing::warn!(
                "too many files have changed at the origin; some are reread when opened"
            );
        }
    }

    fn expire_name(&self, parent: ObjectId, name: &OsStr) {
        let node = swap(parent.0, ROOT_ID, self.root.0);
        ignore_unknown(self.notifier.expire_entry(node, name));
    }

    fn expire_name_later(
        &self,
        parent: ObjectId,
        name: Arc<OsStr>,
        told: Box<dyn FnOnce() + Send>,
    ) {
        let node = swap(parent.0, ROOT_ID, self.root.0);
        if self.former_names.try_send(FormerName { node, name, told }).is_err() {
            tracing::warn!("too many names have moved at the origin; some are believed for longer");
        }
    }

    fn forget_later(&self, objects: Vec<Unused>, told: Box<dyn FnOnce() + Send>) {
        // If too many wait to be told, these are asked for again another time.
        let _ = self.unused.try_send(UnusedObjects { objects, told });
    }
}

/// Has the kernel forget objects that nobody uses. Returns whether it knows how to.
fn prune(notifier: &Notifier, root: ObjectId, objects: &[Unused]) -> bool {
    let nodes: Vec<u64> =
        objects.iter().map(|unused| swap(unused.object.0, ROOT_ID, root.0)).collect();
    nodes.chunks(PRUNED_MAX).all(|nodes| match notifier.prune(nodes) {
        Err(Errno::INVAL | Errno::NOSYS) => false,
        told => {
            ignore_unknown(told);
            true
        }
    })
}

/// Has a kernel before 6.18 drop the names of objects, which lets it forget those that nobody
/// uses. A directory stays: who works in it would no longer know where it is.
fn drop_names(notifier: &Notifier, root: ObjectId, objects: &[Unused]) {
    for unused in objects.iter().filter(|unused| unused.kind != Kind::Directory) {
        if let Some((parent, name)) = &unused.place {
            ignore_unknown(notifier.inval_entry(swap(parent.0, ROOT_ID, root.0), name));
        }
    }
}

/// A thread that tells what it is sent. It ends with the sender.
fn teller<T: Send + 'static>(
    name: &str,
    tell: impl Fn(T) + Send + 'static,
) -> std::io::Result<SyncSender<T>> {
    let (sender, waiting) = sync_channel(FORMER_MAX);
    let thread = std::thread::Builder::new().name(name.into());
    thread.spawn(move || waiting.into_iter().for_each(tell))?;
    Ok(sender)
}

/// The kernel need not know a node or a name any more.
fn ignore_unknown(told: Result<()>) {
    match told {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NODEV) => {}
        Err(error) => tracing::debug!(%error, "the kernel would not drop what it has cached"),
    }
}
