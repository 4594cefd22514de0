use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::*;
use crate::crew::Crew;
use crate::directory::DirectoryBuffer;
use crate::filesystem::{Call, Entry, Filesystem, Opened, Result};
use crate::flags::{FSYNC_DATA_ONLY, GETATTR_FH};
use crate::interrupt::Interrupts;
use crate::reply::{ReadReply, Reply, attributes};
use crate::request::{self, Operation};
use crate::unheard::Unheard;
use crate::watch::{Desk, Stay, Watch};

/// What is known about the session when a request comes.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) crew: Arc<Crew>,
    pub(crate) interrupts: Interrupts,
    pub(crate) watch: Arc<Watch>,
    pub(crate) unheard: Unheard,
    pub(crate) extended_setxattr: bool,
}

/// Answers one request, `bytes`, on the descriptor that it came from. `scratch` is memory for
/// listings.
pub(crate) fn dispatch<F: Filesystem>(
    filesystem: &F,
    context: &Context,
    desk: &Desk,
    device: BorrowedFd<'_>,
    bytes: &[u8],
    scratch: &mut Vec<u8>,
) {
    let header = match request::header(bytes) {
        Ok(header) => header,
        Err(error) => {
            context.crew.free();
            return tracing::error!(%error, "the kernel sent what is not a request");
        }
    };
    let reply = Reply::new(device, header.unique, &context.crew);
    match request::operation(&header, bytes, context.extended_setxattr) {
        Ok(operation) if operation.may_be_left() => {
            desk.during(header.unique, header.pid, || {
                answer(filesystem, context, desk, &header, operation, reply, scratch);
            });
        }
        Ok(operation) => answer(filesystem, context, desk, &header, operation, reply, scratch),
        Err(error) => {
            tracing::error!(%error, "the kernel sent a malformed request");
            reply.error(Errno::IO);
        }
    }
}

fn answer<F: Filesystem>(
    filesystem: &F,
    context: &Context,
    desk: &Desk,
    header: &InHeader,
    operation: Operation<'_>,
    reply: Reply<'_>,
    scratch: &mut Vec<u8>,
) {
    let call = Call {
        unique: header.unique,
        node: header.nodeid,
        uid: header.uid,
        gid: header.gid,
        pid: header.pid,
    };
    let call = &call;
    let change = NameChange { context, directory: call.node };
    match operation {
        Operation::Read(arguments) => {
            filesystem.read(call, &arguments, ReadReply::new(reply, arguments.size));
        }
        Operation::Lookup { name } => {
            let found = filesystem.lookup(call, name);
            let node = found.as_ref().map_or(0, |entry| entry.node);
            if !reply.entry(found) && node != 0 {
                // Nobody has heard of it, so nobody will give it back.
                filesystem.forget(node, 1);
            }
        }
        Operation::Forget(ForgetIn { nlookup }) => {
            reply.none();
            filesystem.forget(call.node, nlookup);
        }
        Operation::BatchForget(all) => {
            reply.none();
            all.iter().for_each(|one| filesystem.forget(one.nodeid, one.nlookup));
        }
        Operation::Getattr(GetattrIn { getattr_flags, fh, .. }) => {
            let handle = (getattr_flags & GETATTR_FH != 0).then_some(fh);
            reply.value(filesystem.getattr(call, handle).map(attributes));
        }
        Operation::Setattr(change) => {
            reply.value(filesystem.setattr(call, &change).map(attributes));
        }
        Operation::Statx(arguments) => {
            reply.value(filesystem.statx(call, &arguments).map(|(stat, ttl)| StatxOut {
                attr_valid: ttl.as_secs(),
                attr_valid_nsec: ttl.subsec_nanos(),
                stat,
                ..StatxOut::default()
            }));
        }
        Operation::Readlink => reply.buffer(filesystem.readlink(call)),
        Operation::Symlink { name, target } => {
            let made = filesystem.symlink(call, name, target);
            change.made(filesystem, name, reply, made);
        }
        Operation::Mknod { name, arguments } => {
            let made = filesystem.mknod(call, name, &arguments);
            change.made(filesystem, name, reply, made);
        }
        Operation::Mkdir { name, arguments } => {
            let made = filesystem.mkdir(call, name, &arguments);
            change.made(filesystem, name, reply, made);
        }
        Operation::Unlink { name } => {
            let is_heard = reply.done(filesystem.unlink(call, name));
            change.end(is_heard, &[(call.node, name)]);
        }
        Operation::Rmdir { name } => {
            let is_heard = reply.done(filesystem.rmdir(call, name));
            change.end(is_heard, &[(call.node, name)]);
        }
        Operation::Rename { name, new_parent, new_name, flags } => {
            let renamed = filesystem.rename(call, name, new_parent, new_name, flags);
            let is_heard = reply.done(renamed);
            change.end(is_heard, &[(call.node, name), (new_parent, new_name)]);
        }
        Operation::Link { name, arguments } => {
            let made = filesystem.link(call, arguments.oldnodeid, name);
            change.made(filesystem, name, reply, made);
        }
        Operation::Open(arguments) => {
            if let Some(unheard) = reply.opened(filesystem.open(call, &arguments)) {
                let _ = filesystem.release(call, &unheard);
            }
        }
        Operation::Write { arguments, data } => {
            let written = filesystem.write(call, &arguments, data, &Stay::new(desk));
            reply.value(written.map(|size| WriteOut { size, padding: 0 }));
        }
        Operation::Statfs => reply.value(filesystem.statfs(call)),
        Operation::Release(arguments) => reply.empty(filesystem.release(call, &arguments)),
        Operation::Fsync(FsyncIn { fh, fsync_flags, .. }) => {
            let data_only = fsync_flags & FSYNC_DATA_ONLY != 0;
            reply.empty(filesystem.fsync(call, fh, data_only, &Stay::new(desk)));
        }
        Operation::Setxattr { name, value, flags, extended } => {
            reply.empty(filesystem.setxattr(call, name, value, flags, extended));
        }
        Operation::Getxattr { name, arguments } => {
            reply.xattr(filesystem.getxattr(call, name), arguments.size);
        }
        Operation::Listxattr(arguments) => {
            reply.xattr(filesystem.listxattr(call), arguments.size);
        }
        Operation::Removexattr { name } => reply.empty(filesystem.removexattr(call, name)),
        Operation::Flush(arguments) => reply.empty(filesystem.flush(call, &arguments)),
        // The handshake is over: a second one is not part of the protocol.
        Operation::Init { .. } => reply.error(Errno::IO),
        Operation::Opendir(arguments) => {
            if let Some(unheard) = reply.opened(filesystem.opendir(call, &arguments)) {
                let _ = filesystem.releasedir(call, &unheard);
            }
        }
        Operation::Readdir(arguments) => {
            let mut buffer = DirectoryBuffer::new(scratch, arguments.size);
            let result = filesystem.readdir(call, &arguments, &mut buffer);
            reply.listing(result, scratch);
        }
        Operation::Readdirplus(arguments) => {
            let mut buffer = DirectoryBuffer::new(scratch, arguments.size);
            let result = filesystem.readdirplus(call, &arguments, &mut buffer);
            reply.listing(result, scratch);
        }
        Operation::Releasedir(arguments) => {
            reply.empty(filesystem.releasedir(call, &arguments));
        }
        Operation::Fsyncdir(FsyncIn { fh, fsync_flags, .. }) => {
            let data_only = fsync_flags & FSYNC_DATA_ONLY != 0;
            reply.empty(filesystem.fsyncdir(call, fh, data_only, &Stay::new(desk)));
        }
        Operation::Getlk(arguments) => {
            reply.value(filesystem.getlk(call, &arguments).map(|lock| LkOut { lock }));
        }
        Operation::Setlk(arguments) => reply.empty(filesystem.setlk(call, &arguments, None)),
        Operation::Setlkw(arguments) => {
            let result = context.interrupts.during(call.unique, |interrupt| {
                filesystem.setlk(call, &arguments, Some(interrupt))
            });
            reply.empty(result);
        }
        Operation::Access(AccessIn { mask, .. }) => reply.empty(filesystem.access(call, mask)),
        Operation::Create { name, arguments } => {
            let created = filesystem.create(call, name, &arguments);
            let is_heard = reply.created(filesystem, call, created);
            change.end(is_heard, &[(call.node, name)]);
        }
        Operation::Tmpfile(arguments) => {
            reply.created(filesystem, call, filesystem.tmpfile(call, &arguments));
        }
        Operation::Interrupt(InterruptIn { unique }) => {
            reply.none();
            context.interrupts.interrupt(unique);
        }
        Operation::Bmap(arguments) => {
            reply.value(filesystem.bmap(call, &arguments).map(|block| BmapOut { block }));
        }
        Operation::Destroy => reply.empty(Ok(())),
        Operation::Ioctl { arguments, data } => {
            reply.ioctl(filesystem.ioctl(call, &arguments, data), arguments.out_size);
        }
        Operation::Poll(arguments) => {
            let events = filesystem.poll(call, &arguments);
            reply.value(events.map(|revents| PollOut { revents, padding: 0 }));
        }
        Operation::NotifyReply => reply.none(),
        Operation::Fallocate(arguments) => reply.empty(filesystem.fallocate(call, &arguments)),
        Operation::Lseek(arguments) => {
            reply.value(filesystem.lseek(call, &arguments).map(|offset| LseekOut { offset }));
        }
        Operation::CopyFileRange(mut arguments) => {
            // The reply has 32 bits for the number of bytes.
            arguments.len = arguments.len.min(u64::from(u32::MAX >> 12 << 12));
            let copied = filesystem.copy_file_range(call, &arguments);
            let size = copied.map(|copied| u32::try_from(copied).unwrap_or(u32::MAX));
            reply.value(size.map(|size| WriteOut { size, padding: 0 }));
        }
        Operation::CopyFileRange64(arguments) => {
            let copied = filesystem.copy_file_range(call, &arguments);
            reply.value(copied.map(|bytes_copied| CopyFileRangeOut { bytes_copied }));
        }
        Operation::Syncfs => reply.empty(filesystem.syncfs(call)),
        Operation::Unknown => reply.error(Errno::NOSYS),
    }
}

/// A change of names in a directory.
struct NameChange<'a> {
    context: &'a Context,
    directory: u64,
}

impl NameChange<'_> {
    /// Answers what was made under `name`.
    fn made<F: Filesystem>(
        &self,
        filesystem: &F,
        name: &OsStr,
        reply: Reply<'_>,
        made: Result<Entry>,
    ) {
        let node = made.as_ref().map_or(0, |entry| entry.node);
        let is_heard = reply.entry(made);
        if !is_heard && node != 0 {
            filesystem.forget(node, 1);
        }
        self.end(is_heard, &[(self.directory, name)]);
    }

    /// After the answer. If it was not heard, the kernel believes what it knew of these names
    /// before: it is told to ask again.
    fn end(&self, is_heard: bool, names: &[(u64, &OsStr)]) {
        if is_heard {
            return;
        }
        for (directory, name) in names {
            self.context.unheard.changed(*directory, name);
        }
    }
}

impl Reply<'_> {
    /// Nothing, or the errno. Whether the kernel has taken it.
    fn done(mut self, result: Result<()>) -> bool {
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        self.send(error, std::iter::empty())
    }

    /// Whether the kernel has taken it.
    fn entry(self, result: Result<Entry>) -> bool {
        self.taken(result.map(|entry| entry.wire()))
    }

    /// What is to be closed again, if the kernel has not heard that it is open.
    fn opened(self, result: Result<Opened>) -> Option<ReleaseIn> {
        let handle = result.as_ref().ok().map(|opened| opened.handle);
        let is_taken = self.taken(result.map(|opened| opened.wire()));
        handle.filter(|_| !is_taken).map(|fh| ReleaseIn { fh, ..ReleaseIn::default() })
    }

    /// Whether the kernel has taken it. What nobody has heard of is closed and forgotten.
    fn created<F: Filesystem>(
        mut self,
        filesystem: &F,
        call: &Call,
        result: Result<(Entry, Opened)>,
    ) -> bool {
        let (entry, opened) = match result {
            Ok(created) => created,
            Err(errno) => return self.send(-errno.raw_os_error(), std::iter::empty()),
        };
        let is_heard = self.parts(&entry.wire(), opened.wire().as_bytes());
        if !is_heard {
            let call = Call { node: entry.node, ..*call };
            let _ =
                filesystem.release(&call, &ReleaseIn { fh: opened.handle, ..ReleaseIn::default() });
            filesystem.forget(entry.node, 1);
        }
        is_heard
    }

    fn buffer(self, result: Result<Vec<u8>>) {
        match result {
            Ok(bytes) => self.bytes(&bytes),
            Err(errno) => self.error(errno),
        }
    }

    fn listing(self, result: Result<()>, bytes: &[u8]) {
        match result {
            Ok(()) => self.bytes(bytes),
            Err(errno) => self.error(errno),
        }
    }

    /// Only the length if the caller's buffer has no `size`; `ERANGE` if it is too small.
    fn xattr(self, result: Result<Vec<u8>>, size: u32) {
        match result {
            Err(errno) => self.error(errno),
            Ok(bytes) => match (size, u32::try_from(bytes.len())) {
                (0, Ok(size)) => self.value(Ok(GetxattrOut { size, padding: 0 })),
                (_, Ok(length)) if length <= size => self.bytes(&bytes),
                _ => self.error(Errno::RANGE),
            },
        }
    }

    fn ioctl(self, result: Result<(i32, Vec<u8>)>, out_size: u32) {
        match result {
            Ok((_, data)) if data.len() > out_size as usize => self.error(Errno::IO),
            Ok((result, data)) => {
                self.parts(&IoctlOut { result, ..IoctlOut::default() }, &data);
            }
            Err(errno) => self.error(errno),
        }
    }

    fn parts<T: IntoBytes + Immutable>(self, first: &T, second: &[u8]) -> bool {
        self.pieces([first.as_bytes(), second].into_iter())
    }
}
