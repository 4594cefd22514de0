//! [`Refused`]: why a record was not taken in.

use crate::tenant::TENANTS_MAX;

/// Why a record was not taken in. The caller serves it uncached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Larger than the share of the budget that one record may take.
    #[error(
        "record of {cost} bytes not cached: one record may take {limit} bytes of the cache; \
         raise the cache's size or lower the recordsize"
    )]
    TooLarge {
        /// Payload and header, bytes.
        cost: u64,
        /// The most that one record may take, bytes.
        limit: u64,
    },
    /// Room for it was not found within the work that one call may do.
    #[error("record of {cost} bytes not cached: other threads took the room that was made for it")]
    NoRoom {
        /// Payload and header, bytes.
        cost: u64,
    },
    /// The index of the dataset is out of range.
    #[error("record not cached: dataset index {tenant} is not below {limit}")]
    UnknownTenant {
        /// The index.
        tenant: u32,
        /// One more than the largest index.
        limit: u32,
    },
    /// The shard holds as many records as 32-bit slot numbers can tell apart.
    #[error("record not cached: a shard holds at most {limit} records; use more shards")]
    Full {
        /// The most records of a shard.
        limit: u64,
    },
}

impl Refused {
    /// Whether a record of `bytes` and its header may be taken in where one may take `limit`.
    #[inline]
    pub(crate) fn check_size(bytes: u64, overhead: u64, limit: u64) -> Result<(), Self> {
        let cost = bytes.saturating_add(overhead);
        if cost > limit { Err(Self::TooLarge { cost, limit }) } else { Ok(()) }
    }

    /// Whether the index of a dataset is in range.
    #[inline]
    pub(crate) fn check_tenant(tenant: u32) -> Result<(), Self> {
        let limit = TENANTS_MAX;
        if tenant < limit { Ok(()) } else { Err(Self::UnknownTenant { tenant, limit }) }
    }
}
