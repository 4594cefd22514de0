use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use smallvec::SmallVec;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::{Attr, AttrOut, EntryOut, OpenOut, OutHeader};
use crate::crew::Crew;
use crate::filesystem::{Entry, Opened};

/// Most pieces of one message; the kernel takes no more (`IOV_MAX`), the header is one of them.
pub const PIECES_MAX: usize = 1023;

/// The reply to one request. Dropping it unused answers `EIO`, so that nobody waits for ever.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    device: BorrowedFd<'a>,
    unique: u64,
    crew: &'a Crew,
    sent: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(device: BorrowedFd<'a>, unique: u64, crew: &'a Crew) -> Reply<'a> {
        Reply { device, unique, crew, sent: false }
    }

    /// For requests that have no reply.
    pub(crate) fn none(mut self) {
        self.sent = true;
        self.crew.free();
    }

    pub(crate) fn error(mut self, errno: Errno) {
        self.send(-errno.raw_os_error(), std::iter::empty());
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) {
        self.send(0, std::iter::once(bytes));
    }

    /// Whether the kernel has taken it.
    pub(crate) fn pieces<'p>(mut self, pieces: impl Iterator<Item = &'p [u8]>) -> bool {
        self.send(0, pieces)
    }

    /// The value, or the errno.
    pub(crate) fn value<T: IntoBytes + Immutable>(self, result: Result<T, Errno>) {
        match result {
            Ok(value) => self.bytes(value.as_bytes()),
            Err(errno) => self.error(errno),
        }
    }

    /// As [`value`](Reply::value). Whether the kernel has taken it: `false` when its caller has
    /// gone without the answer.
    pub(crate) fn taken<T: IntoBytes + Immutable>(mut self, result: Result<T, Errno>) -> bool {
        match result {
            Ok(value) => self.send(0, std::iter::once(value.as_bytes())),
            Err(errno) => self.send(-errno.raw_os_error(), std::iter::empty()),
        }
    }

    /// Nothing, or the errno.
    pub(crate) fn empty(self, result: Result<(), Errno>) {
        match result {
            Ok(()) => self.bytes(&[]),
            Err(errno) => self.error(errno),
        }
    }

    /// Whether the kernel has taken it.
    pub(crate) fn send<'p>(&mut self, error: i32, pieces: impl Iterator<Item = &'p [u8]>) -> bool {
        self.sent = true;
        self.crew.free();
        match send(self.device, self.unique, error, pieces) {
            // The kernel no longer knows the request: its caller was killed, or the mount is gone.
            Ok(()) => true,
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => false,
            Err(errno) => {
                tracing::warn!(unique = self.unique, %errno, "the kernel refused a reply");
                if error == 0 {
                    let error = -Errno::IO.raw_os_error();
                    let _ = send(self.device, self.unique, error, std::iter::empty());
                }
                false
            }
        }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.send(-Errno::IO.raw_os_error(), std::iter::empty());
        }
    }
}

/// Writes one message, header and pieces, in one call and without copying.
pub(crate) fn send<'p>(
    device: BorrowedFd<'_>,
    unique: u64,
    error: i32,
    pieces: impl Iterator<Item = &'p [u8]>,
) -> Result<(), Errno> {
    let mut header = OutHeader { len: 0, error, unique };
    let mut slices: SmallVec<[IoSlice<'_>; 20]> = SmallVec::new();
    let mut length = size_of::<OutHeader>();
    slices.push(IoSlice::new(&[]));
    for piece in pieces {
        length += piece.len();
        slices.push(IoSlice::new(piece));
    }
    header.len = u32::try_from(length).map_err(|_| Errno::INVAL)?;
    slices[0] = IoSlice::new(header.as_bytes());
    rustix::io::writev(device, &slices).map(drop)
}

/// The reply to a READ. Dropping it unused answers `EIO`.
#[derive(Debug)]
pub struct ReadReply<'a> {
    reply: Reply<'a>,
    size: usize,
}

impl<'a> ReadReply<'a> {
    pub(crate) fn new(reply: Reply<'a>, size: u32) -> ReadReply<'a> {
        ReadReply { reply, size: size as usize }
    }

    /// Answers with the bytes of `pieces`, in order, straight from where they lie: at most
    /// [`PIECES_MAX`], and at most as many bytes as were asked for. Fewer mean the end of the
    /// file. Anything else answers `EIO`.
    pub fn data<'p>(self, pieces: impl IntoIterator<Item = &'p [u8]>) {
        let _ = self.reply.pieces(pieces.into_iter());
    }

    /// Answers with an error.
    pub fn error(self, errno: Errno) {
        self.reply.error(errno);
    }

    /// Number of bytes asked for.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Entry {
    pub(crate) fn wire(&self) -> EntryOut {
        EntryOut {
            nodeid: self.node,
            generation: self.generation,
            entry_valid: self.entry_ttl.as_secs(),
            attr_valid: self.attributes_ttl.as_secs(),
            entry_valid_nsec: self.entry_ttl.subsec_nanos(),
            attr_valid_nsec: self.attributes_ttl.subsec_nanos(),
            attr: self.attributes,
        }
    }
}

impl Opened {
    pub(crate) fn wire(&self) -> OpenOut {
        OpenOut { fh: self.handle, open_flags: self.flags.bits(), padding: 0 }
    }
}

/// The wire form of attributes and their time to live.
pub(crate) fn attributes((attr, ttl): (Attr, Duration)) -> AttrOut {
    AttrOut { attr_valid: ttl.as_secs(), attr_valid_nsec: ttl.subsec_nanos(), dummy: 0, attr }
}
