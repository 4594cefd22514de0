use std::ffi::{OsStr, OsString};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::notify::Notifier;

/// Names that wait to be told; more at a time are left to expire by themselves.
const NAMES_MAX: usize = 1024;

/// Names in directories that have been changed for callers who heard nothing of it: the kernel
/// believes what it knew before, until it is told to ask again.
///
/// A thread of its own tells it, because the kernel keeps it waiting while a call on the directory
/// is under way, and that may need the thread of the one who has made the change. It ends with
/// this.
#[derive(Debug)]
pub(crate) struct Unheard(SyncSender<(u64, OsString)>);

impl Unheard {
    /// For the session that `notifier` speaks for.
    pub(crate) fn new(notifier: Notifier) -> std::io::Result<Unheard> {
        let (names, waiting) = sync_channel(NAMES_MAX);
        let thread = std::thread::Builder::new().name("fuse-unheard".into());
        thread.spawn(move || tell(&notifier, &waiting))?;
        Ok(Unheard(names))
    }

    /// A name in a directory has been changed.
    pub(crate) fn changed(&self, directory: u64, name: &OsStr) {
        if self.0.try_send((directory, name.to_owned())).is_err() {
            tracing::warn!("too many changes that nobody heard of; names are believed for longer");
        }
    }
}

fn tell(notifier: &Notifier, waiting: &Receiver<(u64, OsString)>) {
    for (directory, name) in waiting {
        // The kernel need not know them.
        let _ = notifier.expire_entry(directory, &name);
        let _ = notifier.inval_inode(directory, -1, 0);
    }
}
