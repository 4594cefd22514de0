use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use storage::ObjectId;
use xxhash_rust::xxh3::xxh3_64;

/// Where a cached answer belongs: the name of an entry of the ARC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    object: u64,
    generation: u64,
    part: u64,
    pool: u32,
}

/// Which answer about an object. Names are kept as hashes: the entry itself holds the name, and is
/// compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Contents: the record with this number.
    Record(u64),
    /// Attributes of an object that nobody refers to at present.
    Attributes,
    /// All names in a directory.
    Listing,
    /// The object behind a name in a directory, or that there is none.
    Name(&'a OsStr),
    /// The target of a symbolic link.
    Link,
    /// The names of all extended attributes, as of an epoch of the object.
    XattrNames(u64),
    /// The value of an extended attribute as of an epoch, or that there is none.
    Xattr(u64, &'a OsStr),
    /// On flash only: the generation in use while the object has a certain validator.
    Alias,
}

const TAG_SHIFT: u32 = 60;

impl Part<'_> {
    fn encode(self) -> u64 {
        let tagged = |tag: u64, rest: u64| tag << TAG_SHIFT | rest & ((1 << TAG_SHIFT) - 1);
        match self {
            Part::Record(number) => tagged(0, number),
            Part::Attributes => tagged(1, 0),
            Part::Listing => tagged(2, 0),
            Part::Name(name) => tagged(3, xxh3_64(name.as_bytes())),
            Part::Link => tagged(4, 0),
            Part::XattrNames(_) => tagged(5, 0),
            Part::Xattr(_, name) => tagged(6, xxh3_64(name.as_bytes())),
            Part::Alias => tagged(7, 0),
        }
    }

    /// The key on flash, which belongs to one pool.
    pub(crate) fn on_flash(self, object: ObjectId, generation: u64) -> l2arc::Key {
        l2arc::Key { object: object.0, generation, part: self.encode() }
    }

    fn epoch(self) -> u64 {
        match self {
            Part::XattrNames(epoch) | Part::Xattr(epoch, _) => epoch,
            _ => 0,
        }
    }
}

impl Key {
    /// The key of record `number` of an object in this generation.
    pub(crate) fn record(pool: u32, object: ObjectId, generation: u64, number: u64) -> Key {
        Key { object: object.0, generation, part: Part::Record(number).encode(), pool }
    }

    /// The key of an answer that carries its own age instead of a generation.
    pub(crate) fn metadata(pool: u32, object: ObjectId, part: Part<'_>) -> Key {
        Key { object: object.0, generation: part.epoch(), part: part.encode(), pool }
    }

    /// The pool's number.
    pub(crate) fn pool(&self) -> u32 {
        self.pool
    }

    /// The object.
    pub(crate) fn object(&self) -> ObjectId {
        ObjectId(self.object)
    }

    /// The generation, or the epoch.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of the record, if it is the key of one.
    pub(crate) fn record_number(&self) -> Option<u64> {
        (self.part >> TAG_SHIFT == 0).then_some(self.part)
    }

    /// The same record on flash, which belongs to one pool.
    pub(crate) fn on_flash(&self) -> l2arc::Key {
        l2arc::Key { object: self.object, generation: self.generation, part: self.part }
    }

    /// The same hash for the same key always, with all bits mixed: whether the record is sampled.
    pub(crate) fn sampling_hash(&self) -> u64 {
        let fields = self.object.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
            ^ self.part.wrapping_mul(0xD6E8_FEB8_6659_FD93)
            ^ self.generation
            ^ u64::from(self.pool) << 32;
        // The finalizer of splitmix64 (Steele, Lea, Flood, 2014).
        let mixed = (fields ^ (fields >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
