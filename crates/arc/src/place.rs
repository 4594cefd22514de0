//! [`Place`]: the number of one list of one partition.

use std::num::NonZeroU16;

use crate::list::{Class, List, Queue};

/// Most partitions of a cache. Each eviction looks at all of them.
pub const PARTITIONS_MAX: usize = 64;

/// A list of a partition, in two bytes, never zero: it lies in every record and every ghost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(NonZeroU16);

/// Bits: two for the queue, one for the class, six for the partition; one is added to these. The
/// last one is set for what stands between the clock's hand and the marker of its list.
const CLASS_SHIFT: u16 = 2;
const PARTITION_SHIFT: u16 = 3;
const OFFERED: u16 = 1 << 15;

impl List {
    /// [`Place::list_number`] of the list, in any partition.
    #[inline]
    pub(crate) const fn place_number(self) -> usize {
        (self.class as usize) << CLASS_SHIFT | self.queue as usize
    }
}

impl Place {
    /// Numbers that one partition takes.
    pub const LISTS: usize = 1 << PARTITION_SHIFT;

    /// `list` of `partition`, which is below [`PARTITIONS_MAX`].
    #[inline]
    pub const fn new(partition: usize, list: List) -> Self {
        assert!(partition < PARTITIONS_MAX, "no such partition");
        let number = partition << PARTITION_SHIFT | list.place_number();
        Self(NonZeroU16::MIN.saturating_add(number as u16))
    }

    /// Below `PARTITIONS_MAX * LISTS`; those of a partition follow each other.
    #[inline]
    pub const fn number(self) -> usize {
        (self.0.get() & !OFFERED) as usize - 1
    }

    /// Whether what stands here has been offered to the level below.
    #[inline]
    pub const fn offered(self) -> bool {
        self.0.get() & OFFERED != 0
    }

    /// The same place, offered or not.
    #[inline]
    pub const fn with_offered(self, offered: bool) -> Self {
        let flag = if offered { OFFERED } else { 0 };
        match NonZeroU16::new(self.0.get() & !OFFERED | flag) {
            Some(number) => Self(number),
            None => panic!("a place is never zero"),
        }
    }

    /// The partition.
    #[inline]
    pub const fn partition(self) -> usize {
        self.number() >> PARTITION_SHIFT
    }

    /// What tells the lists of a partition apart, below [`Place::LISTS`].
    #[inline]
    pub const fn list_number(self) -> usize {
        self.number() & (Self::LISTS - 1)
    }

    /// The list within the partition.
    #[inline]
    pub const fn list(self) -> List {
        let bits = self.0.get() - 1;
        let class = if bits >> CLASS_SHIFT & 1 == 0 { Class::Data } else { Class::Metadata };
        let queue = match bits & 3 {
            0 => Queue::Mru,
            1 => Queue::Mfu,
            _ => Queue::Uncached,
        };
        List::new(class, queue)
    }

    /// Another list of the same partition.
    #[inline]
    pub const fn with_list(self, list: List) -> Self {
        Self::new(self.partition(), list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_its_partition_and_list() {
        let mut numbers = Vec::new();
        for partition in 0..PARTITIONS_MAX {
            for list in List::ALL {
                let place = Place::new(partition, list);
                assert_eq!((place.partition(), place.list()), (partition, list));
                assert_eq!(place.list_number(), list.place_number());
                numbers.push(place.number());
            }
        }
        let offered = Place::new(PARTITIONS_MAX - 1, List::ALL[5]).with_offered(true);
        assert_eq!((offered.partition(), offered.list()), (PARTITIONS_MAX - 1, List::ALL[5]));
        assert!(offered.offered() && !offered.with_offered(false).offered());
        assert!(numbers.iter().all(|&number| number < PARTITIONS_MAX * Place::LISTS));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), PARTITIONS_MAX * List::ALL.len());
    }
}
