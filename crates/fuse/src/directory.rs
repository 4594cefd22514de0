use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::IntoBytes;

use crate::abi::{Dirent, EntryOut};
use crate::filesystem::Entry;

/// Entries begin at multiples of this.
const ALIGNMENT: usize = 8;

/// A name in a listing.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// Inode number.
    pub inode: u64,
    /// Type, as the upper four bits of `st_mode` shifted down (`DT_DIR` and so on); zero where
    /// it is not known.
    pub kind: u32,
    /// Where the next call goes on after this name.
    pub next: u64,
}

/// The reply to READDIR or READDIRPLUS being put together.
#[derive(Debug)]
pub struct DirectoryBuffer<'a> {
    bytes: &'a mut Vec<u8>,
    size: usize,
}

impl<'a> DirectoryBuffer<'a> {
    /// An empty reply of at most `size` bytes, in `bytes`.
    pub(crate) fn new(bytes: &'a mut Vec<u8>, size: u32) -> DirectoryBuffer<'a> {
        bytes.clear();
        DirectoryBuffer { bytes, size: size as usize }
    }

    /// Whether the entry of a name of `length` bytes fits: for READDIRPLUS if `plus`.
    pub fn fits(&self, length: usize, plus: bool) -> bool {
        let head = size_of::<Dirent>() + if plus { size_of::<EntryOut>() } else { 0 };
        self.bytes.len() + (head + length).next_multiple_of(ALIGNMENT) <= self.size
    }

    /// Adds an entry of READDIR; `false` when it does not fit.
    #[must_use = "an entry that did not fit comes again in the next call"]
    pub fn add(&mut self, name: &Name<'_>) -> bool {
        let fits = self.fits(name.name.len(), false);
        if fits {
            self.push(name);
        }
        fits
    }

    /// Adds an entry of READDIRPLUS; `false` when it does not fit. The default entry, with node
    /// zero, tells the kernel to look the name up when it needs to.
    #[must_use = "an entry that did not fit comes again in the next call"]
    pub fn add_plus(&mut self, name: &Name<'_>, entry: &Entry) -> bool {
        let fits = self.fits(name.name.len(), true);
        if fits {
            self.bytes.extend_from_slice(entry.wire().as_bytes());
            self.push(name);
        }
        fits
    }

    fn push(&mut self, name: &Name<'_>) {
        let bytes = name.name.as_bytes();
        let namelen = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let dirent = Dirent { ino: name.inode, off: name.next, namelen, kind: name.kind };
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}
