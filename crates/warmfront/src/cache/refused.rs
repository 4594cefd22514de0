use std::fmt;

/// Why a value was not let into the cache. It is served all the same.
///
/// ```
/// use warmfront::cache::{Cache, Refused};
///
/// let cache: Cache<u32, u32> =
///     Cache::builder().capacity_bytes(1 << 20).weigher(|_, value| u64::from(*value)).build()?;
/// let not_kept = cache.insert(1, 1 << 20).unwrap_err();
/// let Refused::TooLarge { limit_bytes, .. } = not_kept.reason else { panic!("too large") };
/// assert!(limit_bytes < 1 << 20);
/// # Ok::<(), warmfront::cache::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Heavier than the share of the cache that one entry may take.
    #[error(
        "value of {bytes} bytes not kept: one entry may take {limit_bytes} bytes, an eighth of \
         the cache; make the cache larger or the values smaller"
    )]
    TooLarge {
        /// What it weighs with its header, bytes.
        bytes: u64,
        /// The most that one entry may weigh with its header, bytes.
        limit_bytes: u64,
    },
    /// Other threads took the room as fast as it was made.
    #[error("value of {bytes} bytes not kept: other threads took the room that was made for it")]
    NoRoom {
        /// What it weighs with its header, bytes.
        bytes: u64,
    },
    /// The cache holds as many entries as it can number.
    #[error("value not kept: the cache holds as many entries as it can number; use more shards")]
    Full,
}

impl From<arc::Refused> for Refused {
    fn from(refused: arc::Refused) -> Self {
        match refused {
            arc::Refused::TooLarge { cost, limit } => {
                Self::TooLarge { bytes: cost, limit_bytes: limit }
            }
            arc::Refused::NoRoom { cost } => Self::NoRoom { bytes: cost },
            arc::Refused::Full { .. } => Self::Full,
            other => panic!("all values belong to one tenant: {other}"),
        }
    }
}

/// A value that was not let into the cache, given back.
///
/// ```
/// use warmfront::cache::Cache;
///
/// let cache = Cache::<u32, String>::builder()
///     .capacity_bytes(1 << 20)
///     .weigher(|_, text| text.capacity() as u64)
///     .build()?;
/// let text = "x".repeat(1 << 20);
/// let text = match cache.insert(1, text) {
///     Ok(()) => unreachable!("it is larger than an eighth of the cache"),
///     Err(not_kept) => not_kept.value,
/// };
/// assert_eq!(text.len(), 1 << 20);
/// # Ok::<(), warmfront::cache::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct NotKept<V> {
    /// The value.
    pub value: V,
    /// Why it was not let in.
    pub reason: Refused,
}

impl<V> fmt::Debug for NotKept<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NotKept").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<V> fmt::Display for NotKept<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(formatter)
    }
}

impl<V> std::error::Error for NotKept<V> {}
