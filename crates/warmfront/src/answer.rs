use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use storage::{DirectoryEntry, ObjectId};

use crate::record::Record;
use crate::version::Version;

/// What an entry of the ARC holds.
#[derive(Debug, Clone)]
pub(crate) enum Cached {
    /// Contents of a file.
    Data(Arc<Record>),
    /// Any other answer.
    Metadata(Arc<Metadata>),
}

/// An answer that is not contents, with the time of its last check against the origin.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) checked_at: Duration,
    pub(crate) content: Content,
    /// The validator of the object under which it is true; where that is known, flash may have it.
    pub(crate) validator: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Attributes(Version),
    /// The names in a directory, as of a generation of it.
    Listing {
        generation: u64,
        listing: Arc<Listing>,
    },
    /// The object behind a name, or that there is none.
    Name {
        name: Box<OsStr>,
        object: Option<ObjectId>,
    },
    Link(Arc<OsString>),
    XattrNames(Arc<Vec<OsString>>),
    /// The value of an extended attribute, or that there is none.
    Xattr {
        name: Box<OsStr>,
        value: Option<Arc<Vec<u8>>>,
    },
}

/// The names in a directory, without `.` and `..`.
pub type Listing = Vec<DirectoryEntry>;

impl Cached {
    /// Bytes of RAM that a record of contents takes, with a buffer of so many.
    pub(crate) fn data_bytes(buffer_bytes: usize) -> usize {
        buffer_bytes + Record::HEADER_BYTES
    }

    /// Bytes of RAM that the value takes.
    pub(crate) fn charged_bytes(&self) -> usize {
        match self {
            Cached::Data(record) => Cached::data_bytes(record.charged_bytes()),
            Cached::Metadata(metadata) => size_of::<Metadata>() + metadata.content.heap_bytes(),
        }
    }
}

impl Content {
    fn heap_bytes(&self) -> usize {
        match self {
            Content::Attributes(_) => 0,
            Content::Listing { listing, .. } => listing
                .iter()
                .map(|entry| size_of::<DirectoryEntry>() + entry.name.len())
                .sum::<usize>(),
            Content::Name { name, .. } => name.len(),
            Content::Link(target) => target.len(),
            Content::XattrNames(names) => {
                names.iter().map(|name| size_of::<OsString>() + name.len()).sum()
            }
            Content::Xattr { name, value } => {
                name.len() + value.as_ref().map_or(0, |value| value.len())
            }
        }
    }
}
