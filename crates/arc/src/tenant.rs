//! [`Tenants`]: sums and counters per dataset. The sums of a cache are the sums over its tenants.

use std::ops::AddAssign;

use crate::list::{LISTS, List};
use crate::sync::{AtomicU64, Relaxed};

/// Largest number of tenants (datasets) of one cache.
pub const TENANTS_MAX: u32 = 16_384;

/// Sums and counters of one list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListStatistics {
    /// Resident records.
    pub records: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Hits on records while they stood on this list.
    pub hits: u64,
    /// Records that came back while their ghost was still on this list's ghost list.
    pub ghost_hits: u64,
    /// Payload bytes of those.
    pub ghost_hit_bytes: u64,
}

/// Sums and counters of one tenant, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// By list, in the order of [`List::ALL`].
    pub lists: [ListStatistics; LISTS],
    /// Records taken in.
    pub inserts: u64,
    /// Records evicted to make room.
    pub evictions: u64,
    /// Their payload bytes.
    pub evicted_bytes: u64,
    /// First reads of prefetched or primed records.
    pub prefetch_hits: u64,
    /// Prefetched or primed records that were evicted before anybody read them.
    pub prefetch_wasted: u64,
}

impl Usage {
    /// Sums and counters of one list.
    pub fn list(&self, list: List) -> ListStatistics {
        self.lists[list.index()]
    }

    /// Resident records.
    pub fn records(&self) -> u64 {
        self.lists.iter().map(|list| list.records).sum()
    }

    /// Resident payload bytes.
    pub fn bytes(&self) -> u64 {
        self.lists.iter().map(|list| list.bytes).sum()
    }

    /// Hits on resident records.
    pub fn hits(&self) -> u64 {
        self.lists.iter().map(|list| list.hits).sum()
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        for (sum, add) in self.lists.iter_mut().zip(other.lists) {
            sum.records += add.records;
            sum.bytes += add.bytes;
            sum.hits += add.hits;
            sum.ghost_hits += add.ghost_hits;
            sum.ghost_hit_bytes += add.ghost_hit_bytes;
        }
        self.inserts += other.inserts;
        self.evictions += other.evictions;
        self.evicted_bytes += other.evicted_bytes;
        self.prefetch_hits += other.prefetch_hits;
        self.prefetch_wasted += other.prefetch_wasted;
    }
}

/// One tenant: what changes under `&self` is atomic, the rest is plain.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// Hits and prefetch hits stay zero in here; see [`Tenant::usage`].
    pub plain: Usage,
    /// The partition in which its records are to stand.
    pub partition: u8,
    hits: [AtomicU64; LISTS],
    prefetch_hits: AtomicU64,
}

impl Tenant {
    /// Counts a hit on a record of `list`.
    #[inline]
    pub fn hit(&self, list: List, first_after_prefetch: bool) {
        self.hits[list.index()].fetch_add(1, Relaxed);
        if first_after_prefetch {
            self.prefetch_hits.fetch_add(1, Relaxed);
        }
    }

    #[inline]
    pub fn list_mut(&mut self, list: List) -> &mut ListStatistics {
        &mut self.plain.lists[list.index()]
    }

    pub fn usage(&self) -> Usage {
        let mut usage = self.plain;
        for (list, hits) in usage.lists.iter_mut().zip(&self.hits) {
            list.hits = hits.load(Relaxed);
        }
        usage.prefetch_hits = self.prefetch_hits.load(Relaxed);
        usage
    }
}

/// Tenants by index. The table grows to the largest index that was charged.
#[derive(Debug, Default)]
pub(crate) struct Tenants(Vec<Tenant>);

impl Tenants {
    /// The tenant `index`, which has been charged before.
    #[inline]
    pub fn get(&self, index: u32) -> &Tenant {
        &self.0[index as usize]
    }

    /// The tenant `index`, which is below [`TENANTS_MAX`].
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Tenant {
        assert!(index < TENANTS_MAX, "tenant {index} out of range");
        let index = index as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Tenant::default);
        }
        &mut self.0[index]
    }

    /// The partition of the tenant `index`; the first if it was never charged nor assigned.
    #[inline]
    pub fn partition(&self, index: u32) -> usize {
        self.0.get(index as usize).map_or(0, |tenant| tenant.partition.into())
    }

    /// Sums and counters of the tenant `index`; zeros if it was never charged.
    pub fn usage(&self, index: u32) -> Usage {
        self.0.get(index as usize).map(Tenant::usage).unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tenant> {
        self.0.iter()
    }

    /// Memory of the table, bytes.
    pub fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<Tenant>()) as u64
    }
}
