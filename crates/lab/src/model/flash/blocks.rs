/// At the end of a list, or on none.
const NONE: u32 = u32::MAX;

/// Blocks that are full, as lists: one list in the order of filling, or one for each number of
/// living pages.
///
/// Links are arrays over block numbers; the ends of list `n` are entry `blocks + n`, which closes
/// the list to a ring.
#[derive(Debug)]
pub(super) struct Blocks {
    blocks: u32,
    newer: Vec<u32>,
    older: Vec<u32>,
    /// No list before this one has a block.
    least: u32,
    lists: u32,
}

impl Blocks {
    /// No block is on any of so many lists.
    pub fn new(blocks: u32, lists: u32) -> Blocks {
        let mut links = vec![NONE; blocks as usize];
        links.extend(blocks..blocks + lists);
        Blocks { blocks, newer: links.clone(), older: links, least: 0, lists }
    }

    /// Whether a block is on a list.
    pub fn holds(&self, block: u32) -> bool {
        self.newer[block as usize] != NONE
    }

    /// Puts a block at the new end of a list.
    pub fn push(&mut self, list: u32, block: u32) {
        let end = self.blocks + list;
        let newest = self.older[end as usize];
        self.newer[block as usize] = end;
        self.older[block as usize] = newest;
        self.newer[newest as usize] = block;
        self.older[end as usize] = block;
        self.least = self.least.min(list);
    }

    /// Takes a block off its list.
    pub fn remove(&mut self, block: u32) {
        let (newer, older) = (self.newer[block as usize], self.older[block as usize]);
        self.older[newer as usize] = older;
        self.newer[older as usize] = newer;
        self.newer[block as usize] = NONE;
    }

    /// The oldest block of the first list that has one.
    pub fn first(&mut self) -> Option<u32> {
        while self.least < self.lists {
            let oldest = self.newer[(self.blocks + self.least) as usize];
            if oldest < self.blocks {
                return Some(oldest);
            }
            self.least += 1;
        }
        None
    }

    /// The blocks of a list, oldest first.
    pub fn iter(&self, list: u32) -> impl Iterator<Item = u32> {
        let next = move |&block: &u32| {
            let next = self.newer[block as usize];
            (next < self.blocks).then_some(next)
        };
        std::iter::successors(next(&(self.blocks + list)), next)
    }
}
