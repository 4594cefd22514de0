use serde::{Deserialize, Serialize};

/// The type of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix domain socket.
    Socket,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
}

/// A point in time: seconds since 1970 (negative before) and nanoseconds in `0..1_000_000_000`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// What `stat` tells of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Type.
    pub kind: Kind,
    /// Permission bits with set-id and sticky bits, `0o7777` at most.
    pub permissions: u32,
    /// Number of hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks_512: u64,
    /// Preferred I/O size in bytes.
    pub block_size: u32,
    /// Device number of a device node, as `makedev` packs it.
    pub device: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of contents.
    pub modified: Timestamp,
    /// Last change of contents or attributes.
    pub changed: Timestamp,
    /// Creation, where the origin knows it.
    pub born: Option<Timestamp>,
}

impl Attributes {
    /// What tells one version of this object from the next.
    pub fn validator(&self) -> Validator {
        Validator {
            size: self.size,
            modified: self.modified,
            changed: self.changed,
            born: self.born,
        }
    }
}

/// What changes whenever an object's contents or attributes change at the origin.
///
/// Together with the object's id it tells one version of an object from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Validator {
    /// Size in bytes.
    pub size: u64,
    /// Last change of contents.
    pub modified: Timestamp,
    /// Last change of contents or attributes.
    pub changed: Timestamp,
    /// Creation, where the origin knows it: tells a reused inode number from its former owner.
    pub born: Option<Timestamp>,
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The origin's present time.
    Now,
    /// This time.
    At(Timestamp),
}

/// Attributes to be changed; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// New permission bits, `0o7777` at most.
    pub permissions: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes: truncates or extends with a hole.
    pub size: Option<u64>,
    /// New time of last access.
    pub accessed: Option<SetTime>,
    /// New time of last change of contents.
    pub modified: Option<SetTime>,
}
