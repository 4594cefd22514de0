use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::abi::*;
use crate::flags::SetattrFlags;

/// A request that is not what the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the header announces or the arguments need.
    #[error("a request of {length} bytes is too short for operation {opcode}")]
    Short {
        /// Operation code, zero when even the header is incomplete.
        opcode: u32,
        /// Bytes that came.
        length: usize,
    },
    /// A name without its closing zero byte.
    #[error("a name of operation {opcode} has no end")]
    Name {
        /// Operation code.
        opcode: u32,
    },
}

/// What is asked, with its arguments. Names do not include their closing zero byte.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "one variant per operation of the protocol, named as there")]
pub enum Operation<'a> {
    Lookup {
        name: &'a OsStr,
    },
    Forget(ForgetIn),
    BatchForget(&'a [ForgetOne]),
    Getattr(GetattrIn),
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    Mknod {
        name: &'a OsStr,
        arguments: MknodIn,
    },
    Mkdir {
        name: &'a OsStr,
        arguments: MkdirIn,
    },
    Unlink {
        name: &'a OsStr,
    },
    Rmdir {
        name: &'a OsStr,
    },
    Rename {
        name: &'a OsStr,
        new_parent: u64,
        new_name: &'a OsStr,
        flags: u32,
    },
    Link {
        name: &'a OsStr,
        arguments: LinkIn,
    },
    Open(OpenIn),
    Read(ReadIn),
    Write {
        arguments: WriteIn,
        data: &'a [u8],
    },
    Statfs,
    Release(ReleaseIn),
    Fsync(FsyncIn),
    Setxattr {
        name: &'a OsStr,
        value: &'a [u8],
        flags: u32,
        extended: u32,
    },
    Getxattr {
        name: &'a OsStr,
        arguments: GetxattrIn,
    },
    Listxattr(GetxattrIn),
    Removexattr {
        name: &'a OsStr,
    },
    Flush(FlushIn),
    Init {
        arguments: InitIn,
        more: InitInMore,
    },
    Opendir(OpenIn),
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Releasedir(ReleaseIn),
    Fsyncdir(FsyncIn),
    Getlk(LkIn),
    Setlk(LkIn),
    Setlkw(LkIn),
    Access(AccessIn),
    Create {
        name: &'a OsStr,
        arguments: CreateIn,
    },
    Interrupt(InterruptIn),
    Bmap(BmapIn),
    Destroy,
    Ioctl {
        arguments: IoctlIn,
        data: &'a [u8],
    },
    Poll(PollIn),
    NotifyReply,
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    CopyFileRange64(CopyFileRangeIn),
    Syncfs,
    Tmpfile(CreateIn),
    Statx(StatxIn),
    /// An operation that is not known here.
    Unknown,
}

impl Operation<'_> {
    /// Whether it may end after its caller has been killed, and its answer not be heard: it changes
    /// nothing, or a name or an attribute, which come in their order also when they come late.
    /// Of contents only writes, which see to it themselves that nothing is overwritten that
    /// somebody else has written by then.
    pub(crate) fn may_be_left(&self) -> bool {
        if let Operation::Setattr(change) = self {
            return change.valid & SetattrFlags::SIZE.bits() == 0;
        }
        matches!(
            self,
            Operation::Lookup { .. }
                | Operation::Getattr(_)
                | Operation::Readlink
                | Operation::Open(_)
                | Operation::Opendir(_)
                | Operation::Read(_)
                | Operation::Statfs
                | Operation::Fsync(_)
                | Operation::Getxattr { .. }
                | Operation::Listxattr(_)
                | Operation::Flush(_)
                | Operation::Readdir(_)
                | Operation::Fsyncdir(_)
                | Operation::Access(_)
                | Operation::Lseek(_)
                | Operation::Syncfs
                | Operation::Statx(_)
                | Operation::Write { .. }
                | Operation::Symlink { .. }
                | Operation::Mknod { .. }
                | Operation::Mkdir { .. }
                | Operation::Unlink { .. }
                | Operation::Rmdir { .. }
                | Operation::Rename { .. }
                | Operation::Link { .. }
                | Operation::Create { .. }
                | Operation::Tmpfile(_)
                | Operation::Setxattr { .. }
                | Operation::Removexattr { .. }
        )
    }
}

/// Reads the header at the beginning of `bytes`.
pub fn header(bytes: &[u8]) -> Result<InHeader, Malformed> {
    let short = Malformed::Short { opcode: 0, length: bytes.len() };
    let (header, _) = InHeader::read_from_prefix(bytes).map_err(|_| short)?;
    if header.len as usize != bytes.len() {
        return Err(Malformed::Short { opcode: header.opcode, length: bytes.len() });
    }
    Ok(header)
}

/// Reads the arguments that follow `header` in `bytes`, which is the whole request.
///
/// `extended_setxattr` says whether [`SETXATTR_EXT`](crate::InitFlags::SETXATTR_EXT) was agreed
/// upon.
pub fn operation<'a>(
    header: &InHeader,
    bytes: &'a [u8],
    extended_setxattr: bool,
) -> Result<Operation<'a>, Malformed> {
    let rest = bytes.get(size_of::<InHeader>()..).unwrap_or_default();
    let mut body = Body { opcode: header.opcode, length: bytes.len(), rest };
    Ok(match header.opcode {
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        opcode::FORGET => Operation::Forget(body.take()?),
        opcode::BATCH_FORGET => {
            let BatchForgetIn { count, .. } = body.take()?;
            Operation::BatchForget(body.slice(count as usize)?)
        }
        opcode::GETATTR => Operation::Getattr(body.take()?),
        opcode::SETATTR => Operation::Setattr(body.take()?),
        opcode::READLINK => Operation::Readlink,
        opcode::SYMLINK => Operation::Symlink { name: body.name()?, target: body.name()? },
        opcode::MKNOD => {
            let arguments = body.take()?;
            Operation::Mknod { name: body.name()?, arguments }
        }
        opcode::MKDIR => {
            let arguments = body.take()?;
            Operation::Mkdir { name: body.name()?, arguments }
        }
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::Rmdir { name: body.name()? },
        opcode::RENAME => {
            let RenameIn { newdir } = body.take()?;
            body.rename(newdir, 0)?
        }
        opcode::RENAME2 => {
            let Rename2In { newdir, flags, .. } = body.take()?;
            body.rename(newdir, flags)?
        }
        opcode::LINK => {
            let arguments = body.take()?;
            Operation::Link { name: body.name()?, arguments }
        }
        opcode::OPEN => Operation::Open(body.take()?),
        opcode::READ => Operation::Read(body.take()?),
        opcode::WRITE => {
            let arguments: WriteIn = body.take()?;
            Operation::Write { data: body.bytes(arguments.size as usize)?, arguments }
        }
        opcode::STATFS => Operation::Statfs,
        opcode::RELEASE => Operation::Release(body.take()?),
        opcode::FSYNC => Operation::Fsync(body.take()?),
        opcode::SETXATTR => {
            let SetxattrIn { size, flags } = body.take()?;
            let extended = match extended_setxattr {
                true => body.take::<SetxattrInMore>()?.setxattr_flags,
                false => 0,
            };
            let name = body.name()?;
            Operation::Setxattr { name, value: body.bytes(size as usize)?, flags, extended }
        }
        opcode::GETXATTR => {
            let arguments = body.take()?;
            Operation::Getxattr { name: body.name()?, arguments }
        }
        opcode::LISTXATTR => Operation::Listxattr(body.take()?),
        opcode::REMOVEXATTR => Operation::Removexattr { name: body.name()? },
        opcode::FLUSH => Operation::Flush(body.take()?),
        opcode::INIT => {
            Operation::Init { arguments: body.take()?, more: body.take().unwrap_or_default() }
        }
        opcode::OPENDIR => Operation::Opendir(body.take()?),
        opcode::READDIR => Operation::Readdir(body.take()?),
        opcode::READDIRPLUS => Operation::Readdirplus(body.take()?),
        opcode::RELEASEDIR => Operation::Releasedir(body.take()?),
        opcode::FSYNCDIR => Operation::Fsyncdir(body.take()?),
        opcode::GETLK => Operation::Getlk(body.take()?),
        opcode::SETLK => Operation::Setlk(body.take()?),
        opcode::SETLKW => Operation::Setlkw(body.take()?),
        opcode::ACCESS => Operation::Access(body.take()?),
        opcode::CREATE => {
            let arguments = body.take()?;
            Operation::Create { name: body.name()?, arguments }
        }
        opcode::INTERRUPT => Operation::Interrupt(body.take()?),
        opcode::BMAP => Operation::Bmap(body.take()?),
        opcode::DESTROY => Operation::Destroy,
        opcode::IOCTL => {
            let arguments: IoctlIn = body.take()?;
            Operation::Ioctl { data: body.bytes(arguments.in_size as usize)?, arguments }
        }
        opcode::POLL => Operation::Poll(body.take()?),
        opcode::NOTIFY_REPLY => Operation::NotifyReply,
        opcode::FALLOCATE => Operation::Fallocate(body.take()?),
        opcode::LSEEK => Operation::Lseek(body.take()?),
        opcode::COPY_FILE_RANGE => Operation::CopyFileRange(body.take()?),
        opcode::COPY_FILE_RANGE_64 => Operation::CopyFileRange64(body.take()?),
        opcode::SYNCFS => Operation::Syncfs,
        opcode::TMPFILE => Operation::Tmpfile(body.take()?),
        opcode::STATX => Operation::Statx(body.take()?),
        _ => Operation::Unknown,
    })
}

/// What is left of a request.
struct Body<'a> {
    opcode: u32,
    length: usize,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn short(&self) -> Malformed {
        Malformed::Short { opcode: self.opcode, length: self.length }
    }

    fn take<T: FromBytes>(&mut self) -> Result<T, Malformed> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| self.short())?;
        self.rest = rest;
        Ok(value)
    }

    fn slice<T: FromBytes + KnownLayout + Immutable>(
        &mut self,
        count: usize,
    ) -> Result<&'a [T], Malformed> {
        let (values, rest) =
            <[T]>::ref_from_prefix_with_elems(self.rest, count).map_err(|_| self.short())?;
        self.rest = rest;
        Ok(values)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(self.short())?;
        self.rest = rest;
        Ok(bytes)
    }

    fn name(&mut self) -> Result<&'a OsStr, Malformed> {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or(Malformed::Name { opcode: self.opcode })?;
        let name = self.bytes(end)?;
        self.bytes(1)?;
        Ok(OsStr::from_bytes(name))
    }

    fn rename(&mut self, new_parent: u64, flags: u32) -> Result<Operation<'a>, Malformed> {
        Ok(Operation::Rename { name: self.name()?, new_parent, new_name: self.name()?, flags })
    }
}
