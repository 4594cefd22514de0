use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, linkat, mkdirat, mknodat, openat, renameat,
    renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::caller::ActingAs;
use super::stat::{identity_of, kind_of, stat_at, stat_of};
use super::tree::{Fallback, Tree, proc_path};
use crate::{
    Caller, Capabilities, DirectoryEntry, Entry, Node, NodeKind, ObjectId, OriginError,
    RenameFlags, Result,
};

/// Most names that one listing may have.
const LIST_NAMES_MAX: usize = 1 << 24;

/// Bytes of names fetched by one system call.
const LIST_BUFFER: usize = 64 << 10;

/// Refuses what is not a plain name: it would lead out of its directory.
fn check_name(operation: &'static str, name: &OsStr) -> Result<()> {
    let bytes = name.as_bytes();
    let errno = match bytes {
        b"" => Errno::NOENT,
        b"." | b".." => Errno::INVAL,
        _ if bytes.contains(&b'/') || bytes.contains(&0) => Errno::INVAL,
        _ => return Ok(()),
    };
    Err(OriginError::System { operation, errno })
}

impl Tree {
    /// The directory that a call on `name` in `parent` starts from.
    fn at(&self, operation: &'static str, parent: ObjectId, name: &OsStr) -> Result<Arc<OwnedFd>> {
        check_name(operation, name)?;
        self.directory(operation, parent)
    }

    /// Takes into use what `name` in `parent` leads to.
    fn found(
        &self,
        operation: &'static str,
        parent: ObjectId,
        directory: &OwnedFd,
        name: &OsStr,
    ) -> Result<Entry> {
        let stat = stat_at(directory, name)
            .map_err(|errno| self.name_error(operation, errno, parent, directory))?;
        self.attach(operation, parent, name, &stat)
    }

    pub fn lookup(&self, parent: ObjectId, name: &OsStr) -> Result<Entry> {
        const LOOKUP: &str = "lookup";
        let directory = self.at(LOOKUP, parent, name)?;
        let found = self.found(LOOKUP, parent, &directory, name);
        if found.as_ref().is_err_and(OriginError::is_not_found) {
            self.detach(parent, name);
        }
        found
    }

    pub fn list(&self, object: ObjectId) -> Result<Vec<DirectoryEntry>> {
        const LIST: &str = "list";
        let fail = |errno| self.object_error(LIST, errno);
        let directory = self.directory(LIST, object)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(&*directory, c".", flags, Mode::empty()).map_err(fail)?;
        let device = identity_of(&stat_of(&opened).map_err(fail)?).map_err(fail)?.device;
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BUFFER];
        let mut names = RawDir::new(&opened, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = names.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(fail(errno)),
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if entries.len() == LIST_NAMES_MAX {
                return Err(fail(Errno::OVERFLOW));
            }
            entries.push(DirectoryEntry {
                name: OsString::from_vec(name.to_vec()),
                object: self.identify(device, entry.ino()),
                kind: kind_of(entry.file_type()),
            });
        }
        entries.shrink_to_fit();
        Ok(entries)
    }

    fn acting_as(&self, operation: &'static str, caller: Caller) -> Result<ActingAs> {
        let switch = self.capabilities.contains(Capabilities::OWNERSHIP);
        ActingAs::new(caller, switch).map_err(OriginError::system(operation))
    }

    /// Opens a new file as the caller, by its name or, with `O_TMPFILE`, without one.
    pub fn open_new(
        &self,
        operation: &'static str,
        node: Node<'_>,
        flags: OFlags,
    ) -> Result<OwnedFd> {
        let unnamed = flags.contains(OFlags::TMPFILE);
        let (directory, name) = match unnamed {
            true => (self.directory(operation, node.parent)?, OsStr::new(".")),
            false => (self.at(operation, node.parent, node.name)?, node.name),
        };
        self.leave_spare().map_err(|errno| self.object_error(operation, errno))?;
        let opened = {
            let acting = self.acting_as(operation, node.caller)?;
            openat(&*directory, name, flags, acting.permissions(node.permissions))
        };
        opened.map_err(|errno| self.name_error(operation, errno, node.parent, &directory))
    }

    /// Makes something as the caller, under a new name.
    fn make(
        &self,
        operation: &'static str,
        node: Node<'_>,
        call: impl FnOnce(&OwnedFd, Mode) -> rustix::io::Result<()>,
    ) -> Result<Entry> {
        let directory = self.at(operation, node.parent, node.name)?;
        let made = {
            let acting = self.acting_as(operation, node.caller)?;
            call(&directory, acting.permissions(node.permissions))
        };
        made.map_err(|errno| self.name_error(operation, errno, node.parent, &directory))?;
        self.found(operation, node.parent, &directory, node.name)
    }

    pub fn make_directory(&self, node: Node<'_>) -> Result<Entry> {
        self.make("make directory", node, |directory, mode| mkdirat(directory, node.name, mode))
    }

    pub fn make_node(&self, node: Node<'_>, kind: NodeKind) -> Result<Entry> {
        let (file_type, device) = match kind {
            NodeKind::File => (FileType::RegularFile, 0),
            NodeKind::Fifo => (FileType::Fifo, 0),
            NodeKind::Socket => (FileType::Socket, 0),
            NodeKind::CharacterDevice(device) => (FileType::CharacterDevice, device),
            NodeKind::BlockDevice(device) => (FileType::BlockDevice, device),
        };
        self.make("make node", node, |directory, mode| {
            mknodat(directory, node.name, file_type, mode, device)
        })
    }

    pub fn symlink(&self, node: Node<'_>, target: &OsStr) -> Result<Entry> {
        self.make("symlink", node, |directory, _| symlinkat(target, directory, node.name))
    }

    pub fn link(&self, object: ObjectId, parent: ObjectId, name: &OsStr) -> Result<Entry> {
        const LINK: &str = "link";
        let directory = self.at(LINK, parent, name)?;
        let (handle, _) = self.handle(LINK, object, Fallback::Always)?;
        // Through /proc the link needs no capability, and leads to the object itself even where
        // it is a symbolic link.
        let from = proc_path(&handle);
        linkat(CWD, from, &*directory, name, AtFlags::SYMLINK_FOLLOW)
            .map_err(|errno| self.name_error(LINK, errno, parent, &directory))?;
        self.found(LINK, parent, &directory, name)
    }

    pub fn unlink(&self, parent: ObjectId, name: &OsStr) -> Result<()> {
        self.remove("unlink", parent, name, AtFlags::empty())
    }

    pub fn remove_directory(&self, parent: ObjectId, name: &OsStr) -> Result<()> {
        self.remove("remove directory", parent, name, AtFlags::REMOVEDIR)
    }

    fn remove(
        &self,
        operation: &'static str,
        parent: ObjectId,
        name: &OsStr,
        flags: AtFlags,
    ) -> Result<()> {
        let directory = self.at(operation, parent, name)?;
        let removed = self.last_named(parent, &directory, name);
        unlinkat(&*directory, name, flags)
            .map_err(|errno| self.name_error(operation, errno, parent, &directory))?;
        self.hold_removed(removed);
        self.detach(parent, name);
        Ok(())
    }

    pub fn rename(
        &self,
        parent: ObjectId,
        name: &OsStr,
        new_parent: ObjectId,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        const RENAME: &str = "rename";
        let from = self.at(RENAME, parent, name)?;
        let to = self.at(RENAME, new_parent, new_name)?;
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        let replaced = (!exchange).then(|| self.last_named(new_parent, &to, new_name)).flatten();
        let renamed = if flags.is_empty() {
            renameat(&*from, name, &*to, new_name)
        } else {
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            renameat_with(&*from, name, &*to, new_name, flags)
        };
        renamed.map_err(|errno| {
            // Either directory may be the one that is gone.
            let removed = stat_of(&*to).map_or(true, |stat| stat.stx_nlink == 0);
            match removed {
                true => self.name_error(RENAME, errno, new_parent, &to),
                false => self.name_error(RENAME, errno, parent, &from),
            }
        })?;
        self.hold_removed(replaced);
        self.renamed((parent, name), (new_parent, new_name), exchange);
        Ok(())
    }
}
