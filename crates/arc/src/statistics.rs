//! [`Statistics`]: what a cache tells about itself.

use crate::list::{Class, LISTS, List};
use crate::tenant::Usage;

/// Number and payload bytes of the ghosts of one list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GhostStatistics {
    /// Ghosts.
    pub ghosts: u64,
    /// Payload bytes of the records that they stand for.
    pub bytes: u64,
}

/// How many insertions were refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedStatistics {
    /// [`Refused::TooLarge`](crate::Refused::TooLarge).
    pub too_large: u64,
    /// [`Refused::NoRoom`](crate::Refused::NoRoom).
    pub no_room: u64,
    /// [`Refused::UnknownTenant`](crate::Refused::UnknownTenant).
    pub unknown_tenant: u64,
    /// [`Refused::Full`](crate::Refused::Full).
    pub full: u64,
}

/// A cache's sums, counters and targets. Shards are read one after the other, so figures of a
/// busy cache fit each other only nearly.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Statistics {
    /// Bound on `charged_bytes`.
    pub capacity_bytes: u64,
    /// Payload, headers, ghosts and index.
    pub charged_bytes: u64,
    /// Tables of tenants, not charged.
    pub tenant_table_bytes: u64,
    /// Lists, insertions, evictions, hits and ghost hits.
    pub usage: Usage,
    /// By list, in the order of [`List::ALL`]. Uncached records leave no ghosts.
    pub ghosts: [GhostStatistics; LISTS],
    /// Refused insertions.
    pub refused: RefusedStatistics,
    /// Target of MRU within data and within metadata, fractions; mean over the shards.
    pub mru_targets: [f64; 2],
    /// Target of metadata within the whole, fraction; mean over the shards.
    pub metadata_target: f64,
}

impl Statistics {
    /// The ghosts of one list.
    pub fn ghosts(&self, list: List) -> GhostStatistics {
        self.ghosts[list.index()]
    }

    /// Target of MRU within `class`, fraction.
    pub fn mru_target(&self, class: Class) -> f64 {
        self.mru_targets[class as usize]
    }
}
