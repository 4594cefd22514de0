//! What records and ghosts weigh, and how much there is for them: derived from the sums that the
//! lists keep.

use super::Policy;
use crate::index::Index;
use crate::list::Class;
use crate::place::Place;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// Payload and headers of all records, bytes.
    #[inline]
    pub(super) fn weight(&self) -> u64 {
        self.records().weight()
    }

    /// Payload and headers of a partition's records, bytes.
    #[inline]
    pub(crate) fn weight_of(&self, partition: usize) -> u64 {
        if self.partitions.len() == 1 {
            return self.weight();
        }
        let of = |class| self.class_weight(partition, class);
        of(Class::Data) + of(Class::Metadata)
    }

    /// Payload and headers of one class of a partition, bytes.
    #[inline]
    pub(super) fn class_weight(&self, partition: usize, class: Class) -> u64 {
        self.records().class_weight(partition, class)
    }

    /// Payload and headers of one list, bytes.
    #[inline]
    pub(super) fn list_weight(&self, place: Place) -> u64 {
        self.records().weight_of(place)
    }

    /// What the ghosts of one list weighed as records, bytes.
    #[inline]
    pub(super) fn ghosts_weight(&self, place: Place) -> u64 {
        self.directory.ghosts().weight_of(place)
    }

    /// Number of a partition's ghosts, and what they weighed as records, bytes.
    #[inline]
    pub(super) fn ghosts_of(&self, partition: usize) -> (u64, u64) {
        let ghosts = self.directory.ghosts();
        match self.partitions.len() {
            1 => (ghosts.len() as u64, ghosts.weight()),
            _ => ghosts
                .lists(partition)
                .iter()
                .fold((0, 0), |(count, weight), list| (count + list.items, weight + list.weight)),
        }
    }

    /// Memory of all ghosts themselves.
    #[inline]
    pub(super) fn ghost_memory(&self) -> u64 {
        self.directory.ghosts().len() as u64 * self.ghost_overhead
    }

    /// What is charged to one partition, bytes.
    pub(crate) fn charged_to(&self, partition: usize) -> u64 {
        self.weight_of(partition) + self.ghosts_of(partition).0 * self.ghost_overhead
    }

    /// The capacity, or what is held if that is more: a shard may hold more than its share.
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.capacity.max(self.charged_bytes()).saturating_sub(self.aside)
    }

    /// What there is for records and ghosts of a partition.
    pub(super) fn bound_of(&self, partition: usize) -> u64 {
        self.room(partition) + self.ghosts_of(partition).0 * self.ghost_overhead
    }

    /// The papers' `c`: what is there for records of a partition, which is what the others leave,
    /// within its limit.
    #[inline]
    pub(super) fn room(&self, partition: usize) -> u64 {
        // What is held, if that is more than the capacity: see `bound`.
        let capacity = self.capacity.saturating_sub(self.aside + self.ghost_memory());
        let all = capacity.max(self.weight());
        match self.partitions.has_all() {
            true => all,
            false => self.room_among(partition, all),
        }
    }

    /// The same beside other partitions or within a limit, where all may take `all`.
    #[inline(never)]
    fn room_among(&self, partition: usize, all: u64) -> u64 {
        let own = self.weight_of(partition);
        let left = all - (self.weight() - own);
        match self.partitions.get(partition).share.limit_bytes {
            u64::MAX => left,
            limit => left.min(limit.max(own)),
        }
    }

    /// The `c` of one class: what the other class leaves.
    #[inline]
    pub(super) fn share(&self, partition: usize, class: Class) -> u64 {
        self.share_of(self.room(partition), partition, class)
    }

    /// The same, where the partition's `c` is `room`.
    #[inline]
    pub(super) fn share_of(&self, room: u64, partition: usize, class: Class) -> u64 {
        room.saturating_sub(self.class_weight(partition, class.other()))
    }
}
