use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use storage::{DirectoryEntry, ObjectId};

use crate::heap::{block_bytes, shared_block_bytes};
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
    /// Apart, since it is much larger than a name, and there are as many names.
    Attributes(Box<Version>),
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
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// use warmfront::Listing;
///
/// let directory = pool.open_directory(pool.root()).await?;
/// let listing: Arc<Listing> = directory.entries().await?;
/// assert_eq!(listing[0].name, "file");
/// # Ok(()) }) }
/// ```
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
            Cached::Metadata(metadata) => {
                shared_block_bytes(size_of::<Metadata>()) + metadata.content.heap_bytes()
            }
        }
    }
}

impl Content {
    fn heap_bytes(&self) -> usize {
        match self {
            Content::Attributes(_) => block_bytes(size_of::<Version>()),
            Content::Listing { listing, .. } => listing_bytes(listing),
            Content::Name { name, .. } => block_bytes(name.len()),
            Content::Link(target) => {
                shared_block_bytes(size_of::<OsString>()) + block_bytes(target.capacity())
            }
            Content::XattrNames(names) => {
                let each = |name: &OsString| size_of::<OsString>() + block_bytes(name.capacity());
                names.iter().map(each).sum()
            }
            Content::Xattr { name, value } => {
                block_bytes(name.len())
                    + value.as_ref().map_or(0, |value| block_bytes(value.capacity()))
            }
        }
    }
}

/// Bytes of RAM that a listing takes.
pub(crate) fn listing_bytes(listing: &Listing) -> usize {
    let names = listing.iter().map(|entry| block_bytes(entry.name.capacity()));
    block_bytes(listing.capacity() * size_of::<DirectoryEntry>()) + names.sum::<usize>()
}
