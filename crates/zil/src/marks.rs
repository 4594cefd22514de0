use std::collections::VecDeque;

use crate::layout::{Layout, PAGE_BYTES};
use crate::position::Position;
use crate::superblock::Start;

/// Blocks from which reading could begin, some of those that there are, in order.
///
/// They stand so far apart that a ring has a bounded number of them however small its blocks are.
pub(crate) struct Marks {
    starts: VecDeque<Start>,
    apart_bytes: u64,
}

impl Marks {
    pub(crate) fn new(layout: &Layout) -> Marks {
        let apart_bytes = layout.mark_bytes().max(PAGE_BYTES as u64);
        Marks { starts: VecDeque::new(), apart_bytes }
    }

    /// Adds the block that follows all others, if it is far enough from the last one.
    pub(crate) fn push(&mut self, start: Start) {
        let far = |last: &Start| start.address - last.address >= self.apart_bytes;
        if self.starts.back().is_none_or(far) {
            self.starts.push_back(start);
        }
    }

    /// The last block from which all records behind `released` can be read.
    pub(crate) fn cover(&self, released: Position) -> Option<Start> {
        let behind = self.starts.partition_point(|start| start.first <= released.next());
        behind.checked_sub(1).map(|index| self.starts[index])
    }

    /// Forgets blocks before an address.
    pub(crate) fn forget_before(&mut self, address: u64) {
        while self.starts.pop_front_if(|start| start.address < address).is_some() {}
    }

    /// Recounts.
    pub(crate) fn validate(&self, from: u64) {
        assert!(
            self.starts.front().is_none_or(|start| start.address >= from),
            "old marks are gone"
        );
        let ordered = self.starts.iter().zip(self.starts.iter().skip(1)).all(|(start, next)| {
            next.address - start.address >= self.apart_bytes && start.first < next.first
        });
        assert!(ordered, "marks in order, and apart");
    }
}
