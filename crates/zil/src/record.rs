//! What is logged.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};

use storage::{NodeKind, ObjectId, RenameFlags, SetAttributes, SetTime, Timestamp};

/// Most bytes of data in one record; a longer write is logged in several.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// use zil::DATA_BYTES_MAX;
///
/// let data = vec![7; 3 << 20];
/// let offsets = (0..).step_by(DATA_BYTES_MAX);
/// let pieces = offsets.zip(data.chunks(DATA_BYTES_MAX));
/// let records = pieces.map(|(offset, data)| Record::Write { file: file(), offset, data });
/// assert_eq!(records.count(), 3);
/// # Ok(()) }
/// ```
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// Longest name, and longest name of an extended attribute, bytes.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let name = "n".repeat(zil::NAME_BYTES_MAX + 1);
/// let record = Record::RemoveXattr { object: file(), name: name.as_ref() };
/// assert!(record.encoded_bytes().is_err());
/// # Ok(()) }
/// ```
pub const NAME_BYTES_MAX: usize = 1024;

/// Longest path, bytes.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let path = "p".repeat(zil::PATH_BYTES_MAX + 1);
/// let file = Place { path: path.as_ref(), ..file() };
/// assert!(Record::Truncate { file, size: 0 }.encoded_bytes().is_err());
/// # Ok(()) }
/// ```
pub const PATH_BYTES_MAX: usize = 16 << 10;

/// Longest target of a symbolic link, bytes.
///
/// ```
/// let target = "/a/place/that/is/not/far";
/// assert!(target.len() <= zil::TARGET_BYTES_MAX);
/// ```
pub const TARGET_BYTES_MAX: usize = 4096;

/// Longest value of an extended attribute, bytes.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let value = vec![0; zil::VALUE_BYTES_MAX + 1];
/// let record = Record::SetXattr { object: file(), name: "user.a".as_ref(), value: &value };
/// assert!(record.encoded_bytes().is_err());
/// # Ok(()) }
/// ```
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// An object, with what helps to find it again after a crash.
///
/// ```
/// use std::ffi::OsStr;
/// use storage::ObjectId;
/// use zil::Place;
///
/// let file = Place { object: ObjectId(7), born: None, path: OsStr::new("a/file") };
/// assert_eq!(file.to_string(), "object 7 (\"a/file\")");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The object.
    pub object: ObjectId,
    /// When it was created, where the origin knows that: the id of a deleted object may have come
    /// back for another.
    pub born: Option<Timestamp>,
    /// One of its paths when the record was written: names separated by slashes, from the origin's
    /// top directory, whose own path is empty.
    pub path: &'a OsStr,
}

/// Which object, wherever it is.
///
/// ```
/// use storage::{ObjectId, Timestamp};
/// use zil::Identity;
///
/// let born = |seconds| Some(Timestamp { seconds, nanoseconds: 0 });
/// let one = Identity { object: ObjectId(7), born: born(1) };
/// assert_ne!(one, Identity { born: born(2), ..one }, "the id has come back for another");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The object.
    pub object: ObjectId,
    /// When it was created, where the origin knows that.
    pub born: Option<Timestamp>,
}

impl Identity {
    /// Stands for an object of which nothing is known.
    ///
    /// ```
    /// assert_eq!(zil::Identity::UNKNOWN.to_string(), "object 0");
    /// ```
    pub const UNKNOWN: Identity = Identity { object: ObjectId(0), born: None };
}

impl Place<'_> {
    /// The object, wherever it is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// let moved = Place { path: "another/name".as_ref(), ..file() };
    /// assert_eq!(moved.identity(), file().identity());
    /// # Ok(()) }
    /// ```
    pub fn identity(&self) -> Identity {
        Identity { object: self.object, born: self.born }
    }
}

/// A name in a directory.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// use zil::Name;
///
/// let name = Name { parent: Place { path: "".as_ref(), ..file() }, name: "file".as_ref() };
/// assert_eq!(name.to_string(), "\"file\" in object 7 (\"\")");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// The directory.
    pub parent: Place<'a>,
    /// The name.
    pub name: &'a OsStr,
}

/// An object that was made, under its first name.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// use zil::{Made, Name};
///
/// let name = Name { parent: Place { path: "a".as_ref(), ..file() }, name: "new".as_ref() };
/// let object = ObjectId(8);
/// let made = Made { name, object, born: None, permissions: 0o644, uid: 0, gid: 0 };
/// assert_eq!(Record::Create(made).kind_name(), "create");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made<'a> {
    /// Its name.
    pub name: Name<'a>,
    /// The id that it got, by which later records speak of it. Made again it may get another.
    pub object: ObjectId,
    /// When it was created, where the origin knows that.
    pub born: Option<Timestamp>,
    /// Permission bits that it got, `0o7777` at most.
    pub permissions: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// One change of an origin. Applying it twice gives what applying it once gives.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let record = Record::Truncate { file: file(), size: 100 };
/// assert_eq!(record.to_string(), "truncate object 7 (\"a/file\") to 100 bytes");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// Bytes were written to a file.
    Write {
        /// The file.
        file: Place<'a>,
        /// Where, bytes.
        offset: u64,
        /// What, at most [`DATA_BYTES_MAX`].
        data: &'a [u8],
    },
    /// A file's size was set.
    Truncate {
        /// The file.
        file: Place<'a>,
        /// Its size, bytes.
        size: u64,
    },
    /// Space was reserved or released.
    Allocate {
        /// The file.
        file: Place<'a>,
        /// The mode bits of `fallocate(2)`.
        mode: u32,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Attributes were changed.
    SetAttributes {
        /// The object.
        object: Place<'a>,
        /// What was changed.
        change: SetAttributes,
    },
    /// A regular file was created.
    Create(Made<'a>),
    /// A directory was made.
    MakeDirectory(Made<'a>),
    /// A symbolic link was made.
    Symlink {
        /// The link.
        made: Made<'a>,
        /// Where it leads.
        target: &'a OsStr,
    },
    /// A special file was made.
    MakeNode {
        /// The file.
        made: Made<'a>,
        /// What it is.
        kind: NodeKind,
    },
    /// An object got another name.
    Link {
        /// The object.
        object: Place<'a>,
        /// The new name.
        name: Name<'a>,
    },
    /// A name was moved.
    Rename {
        /// The object that it led to.
        object: Identity,
        /// The name.
        from: Name<'a>,
        /// The new name.
        to: Name<'a>,
        /// The object that the new name led to before.
        replaced: Option<Identity>,
        /// That was its last name: it is gone.
        is_last: bool,
        /// How what was there was treated.
        flags: RenameFlags,
    },
    /// A name that was not a directory's was removed.
    Unlink {
        /// The object that it led to.
        object: Identity,
        /// The name.
        name: Name<'a>,
        /// It was its last one: the object is gone.
        is_last: bool,
    },
    /// An empty directory was removed.
    RemoveDirectory {
        /// The directory.
        object: Identity,
        /// Its name.
        name: Name<'a>,
    },
    /// An extended attribute was set.
    SetXattr {
        /// The object.
        object: Place<'a>,
        /// The attribute's name.
        name: &'a OsStr,
        /// Its value.
        value: &'a [u8],
    },
    /// An extended attribute was removed.
    RemoveXattr {
        /// The object.
        object: Place<'a>,
        /// The attribute's name.
        name: &'a OsStr,
    },
    /// A transaction group has been committed at the origin.
    Committed {
        /// Its number.
        txg: u64,
    },
}

impl Made<'_> {
    /// The object, wherever it is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// use zil::{Made, Name};
    ///
    /// let name = Name { parent: Place { path: "a".as_ref(), ..file() }, name: "new".as_ref() };
    /// let object = ObjectId(8);
    /// let made = Made { name, object, born: None, permissions: 0o644, uid: 0, gid: 0 };
    /// assert_eq!(made.identity().object, ObjectId(8));
    /// # Ok(()) }
    /// ```
    pub fn identity(&self) -> Identity {
        Identity { object: self.object, born: self.born }
    }
}

impl Record<'_> {
    /// What kind of change it is, in one word.
    ///
    /// ```
    /// assert_eq!(zil::Record::Committed { txg: 7 }.kind_name(), "committed");
    /// ```
    pub fn kind_name(&self) -> &'static str {
        match self {
            Record::Write { .. } => "write",
            Record::Truncate { .. } => "truncate",
            Record::Allocate { .. } => "allocate",
            Record::SetAttributes { .. } => "setattr",
            Record::Create(_) => "create",
            Record::MakeDirectory(_) => "mkdir",
            Record::Symlink { .. } => "symlink",
            Record::MakeNode { .. } => "mknod",
            Record::Link { .. } => "link",
            Record::Rename { .. } => "rename",
            Record::Unlink { .. } => "unlink",
            Record::RemoveDirectory { .. } => "rmdir",
            Record::SetXattr { .. } => "setxattr",
            Record::RemoveXattr { .. } => "rmxattr",
            Record::Committed { .. } => "committed",
        }
    }

    /// Bytes of file contents that it carries.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// assert_eq!(record().data_bytes(), 4);
    /// assert_eq!(Record::Truncate { file: file(), size: 100 }.data_bytes(), 0);
    /// # Ok(()) }
    /// ```
    pub fn data_bytes(&self) -> u64 {
        match self {
            Record::Write { data, .. } => data.len() as u64,
            _ => 0,
        }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "object {} ({:?})", self.object.0, self.path)
    }
}

impl Display for Identity {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "object {}", self.object.0)
    }
}

impl Display for Name<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} in {}", self.name, self.parent)
    }
}

impl Display for Made<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Made { name, object, permissions, uid, gid, .. } = self;
        write!(formatter, "{name} as object {}, mode {permissions:o}, {uid}:{gid}", object.0)
    }
}

impl Display for Record<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Record::Write { file, offset, data } => {
                write!(formatter, "write {} bytes at {offset} of {file}", data.len())
            }
            Record::Truncate { file, size } => write!(formatter, "truncate {file} to {size} bytes"),
            Record::Allocate { file, mode, offset, length } => {
                write!(formatter, "allocate {length} bytes at {offset} of {file}, mode {mode:#x}")
            }
            Record::SetAttributes { object, change } => {
                write!(formatter, "set of {object}")?;
                describe(change, formatter)
            }
            Record::Create(made) => write!(formatter, "create {made}"),
            Record::MakeDirectory(made) => write!(formatter, "mkdir {made}"),
            Record::Symlink { made, target } => write!(formatter, "symlink {made} to {target:?}"),
            Record::MakeNode { made, kind } => write!(formatter, "mknod {made}, {kind:?}"),
            Record::Link { object, name } => write!(formatter, "link {object} as {name}"),
            Record::Rename { object, from, to, replaced, flags, .. } => {
                write!(formatter, "rename {from} to {to}, {object}")?;
                if let Some(replaced) = replaced {
                    write!(formatter, " in place of {replaced}")?;
                }
                if flags.is_empty() { Ok(()) } else { write!(formatter, ", {flags:?}") }
            }
            Record::Unlink { object, name, is_last } => {
                let last = if *is_last { ", its last name" } else { "" };
                write!(formatter, "unlink {name}, {object}{last}")
            }
            Record::RemoveDirectory { object, name } => {
                write!(formatter, "rmdir {name}, {object}")
            }
            Record::SetXattr { object, name, value } => {
                write!(formatter, "set xattr {name:?} of {object} to {} bytes", value.len())
            }
            Record::RemoveXattr { object, name } => {
                write!(formatter, "remove xattr {name:?} of {object}")
            }
            Record::Committed { txg } => write!(formatter, "committed txg {txg}"),
        }
    }
}

/// Each attribute that is changed.
fn describe(change: &SetAttributes, formatter: &mut Formatter<'_>) -> fmt::Result {
    let SetAttributes { permissions, uid, gid, size, accessed, modified } = change;
    if let Some(permissions) = permissions {
        write!(formatter, ", mode {permissions:o}")?;
    }
    for (what, number) in
        [("uid", uid.map(u64::from)), ("gid", gid.map(u64::from)), ("size", *size)]
    {
        if let Some(number) = number {
            write!(formatter, ", {what} {number}")?;
        }
    }
    for (what, time) in [("atime", accessed), ("mtime", modified)] {
        match time {
            Some(SetTime::Now) => write!(formatter, ", {what} now")?,
            Some(SetTime::At(time)) => {
                write!(formatter, ", {what} {}.{:09}", time.seconds, time.nanoseconds)?;
            }
            None => {}
        }
    }
    Ok(())
}
