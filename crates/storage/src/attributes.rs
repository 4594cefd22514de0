use serde::{Deserialize, Serialize};

/// The type of an object.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::Kind;
///
/// assert_eq!(origin.root().await?.attributes.kind, Kind::Directory);
/// assert_eq!(created.entry.attributes.kind, Kind::File);
/// # Ok(()) }) }
/// ```
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
///
/// ```
/// use storage::Timestamp;
///
/// let new_year = Timestamp { seconds: 1_767_225_600, nanoseconds: 0 };
/// assert!(new_year > Timestamp::default(), "later than 1970");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// Nanoseconds of the longest tick of a system's clock, by which files are stamped.
const TICK_NS_MAX: i128 = 10_000_000;

impl Timestamp {
    /// This time, or `last` if that is later by less than a tick: changes of one tick may be
    /// noted in another order than they were stamped.
    ///
    /// ```
    /// use storage::Timestamp;
    ///
    /// let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    /// assert_eq!(at(5, 0).or_later(at(5, 7)), at(5, 7), "both of one tick");
    /// assert_eq!(at(5, 0).or_later(at(9, 0)), at(5, 0));
    /// ```
    pub fn or_later(self, last: Timestamp) -> Timestamp {
        let later_ns = last.since_epoch_ns() - self.since_epoch_ns();
        if (0..TICK_NS_MAX).contains(&later_ns) { last } else { self }
    }

    /// The time of a change now, where the last one had the time `last`: a nanosecond later than
    /// that, if both are of one tick.
    ///
    /// ```
    /// use storage::Timestamp;
    ///
    /// let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    /// assert_eq!(at(5, 0).following(at(5, 0)), at(5, 1), "two changes of one tick differ");
    /// assert_eq!(at(6, 0).following(at(5, 0)), at(6, 0));
    /// ```
    pub fn following(self, last: Timestamp) -> Timestamp {
        if self.or_later(last) != last {
            return self;
        }
        match last.nanoseconds {
            999_999_999 => Timestamp { seconds: last.seconds + 1, nanoseconds: 0 },
            nanoseconds => Timestamp { nanoseconds: nanoseconds + 1, ..last },
        }
    }

    fn since_epoch_ns(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

/// What `stat` tells of an object.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let attributes = created.file.attributes().await?;
/// assert_eq!((attributes.size, attributes.links, attributes.permissions), (8, 1, 0o644));
/// # Ok(()) }) }
/// ```
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
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// let before = created.file.attributes().await?.validator();
    /// created.file.write(0, b"C").await?;
    /// assert_ne!(created.file.attributes().await?.validator(), before);
    /// # Ok(()) }) }
    /// ```
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
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// let attributes = created.file.attributes().await?;
/// let validator = attributes.validator();
/// assert_eq!((validator.size, validator.modified), (8, attributes.modified));
/// # Ok(()) }) }
/// ```
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
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::{SetAttributes, SetTime, Timestamp};
///
/// let long_ago = Timestamp { seconds: 1, nanoseconds: 0 };
/// let change = SetAttributes { modified: Some(SetTime::At(long_ago)), ..Default::default() };
/// let attributes = origin.set_attributes(created.entry.object, change).await?;
/// assert_eq!(attributes.modified, long_ago);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The origin's present time.
    Now,
    /// This time.
    At(Timestamp),
}

/// Attributes to be changed; what is `None` stays as it is.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::SetAttributes;
///
/// let change = SetAttributes { size: Some(3), ..SetAttributes::default() };
/// let attributes = origin.set_attributes(created.entry.object, change).await?;
/// assert_eq!((attributes.size, attributes.permissions), (3, 0o644), "the rest stays");
/// # Ok(()) }) }
/// ```
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_tick_follow_each_other() {
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let now = at(5, 999_999_999);
        assert_eq!(now.following(at(5, 0)), now, "another tick");
        assert_eq!(now.following(now), at(6, 0));
        assert_eq!(now.following(at(6, 7)), at(6, 8), "after others of the tick");
        assert_eq!(now.following(at(9, 0)), now, "somebody has set a time to come");
        assert_eq!(at(-1, 3).following(at(-1, 3)), at(-1, 4), "before 1970");
        assert_eq!(now.or_later(at(6, 7)), at(6, 7));
        assert_eq!(at(6, 7).or_later(now), at(6, 7));
    }
}
