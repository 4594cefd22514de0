//! [`Share`]: what one partition of a cache may rely on, and what it may not exceed.

/// The bytes that a partition may rely on, and those that it may not exceed. Both count what the
/// cache counts: payload, headers, ghosts and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Bytes that others cannot take. Unused, they serve others.
    pub reserve_bytes: u64,
    /// Bytes that the partition cannot exceed.
    pub limit_bytes: u64,
}

impl Share {
    /// Nothing reserved, nothing refused.
    pub const FREE: Self = Self { reserve_bytes: 0, limit_bytes: u64::MAX };

    /// An even part of this for each of `count` shards.
    pub(crate) const fn of_shards(self, count: usize) -> Self {
        let count = count as u64;
        let limit_bytes = match self.limit_bytes {
            u64::MAX => u64::MAX,
            limit => limit / count,
        };
        Self { reserve_bytes: self.reserve_bytes / count, limit_bytes }
    }
}

/// Why a share was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareRefused {
    /// All reserves together would exceed the cache.
    #[error(
        "cannot reserve {asked} bytes: with {others} bytes reserved by others that is {sum}, \
         and the cache has {capacity}; reserve less or raise the cache's size",
        sum = asked.saturating_add(*others)
    )]
    Overcommitted {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that others have reserved.
        others: u64,
        /// Capacity of the cache, bytes.
        capacity: u64,
    },
    /// More would be reserved than may be used.
    #[error("cannot reserve {reserve} bytes of at most {limit}; raise the limit or reserve less")]
    AboveLimit {
        /// Bytes to be reserved.
        reserve: u64,
        /// Bytes that may be used.
        limit: u64,
    },
    /// There is no partition of that number.
    #[error("no partition {partition}: a cache has at most {limit}")]
    UnknownPartition {
        /// The number asked for.
        partition: usize,
        /// One more than the largest number.
        limit: usize,
    },
}
