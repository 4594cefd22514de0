//! [`List`]: the name of one list of the cache.

/// What a record holds; each class has lists and targets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Contents of files and volumes.
    Data,
    /// Everything else that answers a call: attributes, listings, link targets, xattrs.
    Metadata,
}

impl Class {
    /// Both classes, in index order.
    pub const ALL: [Self; 2] = [Self::Data, Self::Metadata];

    /// The class that this one shares the capacity with.
    #[inline]
    pub const fn other(self) -> Self {
        match self {
            Self::Data => Self::Metadata,
            Self::Metadata => Self::Data,
        }
    }
}

/// How a record has earned its place; within a class, one list each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// Used once, or several times in one burst.
    Mru,
    /// Used again.
    Mfu,
    /// Not to be kept: the first to go, and it leaves no ghost.
    Uncached,
}

impl Queue {
    /// All queues, in index order.
    pub const ALL: [Self; 3] = [Self::Mru, Self::Mfu, Self::Uncached];
}

/// One list: a class and a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct List {
    /// What the records of the list hold.
    pub class: Class,
    /// How they have earned their place.
    pub queue: Queue,
}

/// Number of lists.
pub(crate) const LISTS: usize = 6;

impl List {
    /// All lists, in index order.
    pub const ALL: [Self; LISTS] = [
        Self::new(Class::Data, Queue::Mru),
        Self::new(Class::Data, Queue::Mfu),
        Self::new(Class::Data, Queue::Uncached),
        Self::new(Class::Metadata, Queue::Mru),
        Self::new(Class::Metadata, Queue::Mfu),
        Self::new(Class::Metadata, Queue::Uncached),
    ];

    /// The list of `class` and `queue`.
    #[inline]
    pub const fn new(class: Class, queue: Queue) -> Self {
        Self { class, queue }
    }

    /// Position in [`List::ALL`].
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.class as usize * 3 + self.queue as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_position_in_all() {
        for (position, list) in List::ALL.into_iter().enumerate() {
            assert_eq!(list.index(), position);
        }
    }
}
