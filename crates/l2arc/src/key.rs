use xxhash_rust::xxh3::xxh3_64;

/// Which bytes of the origin a record is a copy of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The object.
    pub object: u64,
    /// The version of the object: other contents, another generation.
    pub generation: u64,
    /// Which part of the object, such as the number of a record.
    pub part: u64,
}

impl Key {
    /// A hash that is the same on every machine and after every start.
    pub(crate) fn hash(&self) -> u64 {
        xxh3_64([self.object, self.generation, self.part].map(u64::to_le_bytes).as_flattened())
    }
}
