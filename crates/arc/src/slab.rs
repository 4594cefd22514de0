//! [`Slab`]: items in dense slots, each standing on exactly one of a few linked lists.
//!
//! Links are 32-bit slot numbers. Slots are kept dense (removing an item moves the last one into
//! the hole) and come in pages, so that memory follows the number of items down as well as up, and
//! growing copies nothing.

use crate::list::{LISTS, List};

/// No slot.
const NIL: u32 = u32::MAX;

/// Most items that a slab can hold.
pub(crate) const ITEMS_MAX: usize = (u32::MAX - 1) as usize;

/// Slots of a page.
const PAGE_SLOTS: usize = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 8;

/// What a slab asks of its items.
pub(crate) trait Item {
    /// Hash of the key.
    fn hash(&self) -> u64;
    /// Bytes that the item adds to its list.
    fn bytes(&self) -> u64;
    /// The list it stands on.
    fn list(&self) -> List;
    /// Notes the list it stands on.
    fn set_list(&mut self, list: List);
}

#[derive(Debug)]
struct Node<T> {
    item: T,
    /// Towards the head: the next older item.
    prev: u32,
    /// Towards the tail: the next younger item.
    next: u32,
}

/// Ends and sums of one list. The head is the oldest item.
#[derive(Debug, Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
    items: u64,
    bytes: u64,
}

const EMPTY: Ends = Ends { head: NIL, tail: NIL, items: 0, bytes: 0 };

/// See the module.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// All full but the last one, which is never empty; behind it may stand one empty page, so
    /// that an item that comes and goes does not make and free a page each time.
    pages: Vec<Vec<Node<T>>>,
    items: usize,
    lists: [Ends; LISTS],
}

impl<T: Item> Slab<T> {
    /// Memory per item, bytes, but for at most two pages.
    pub const ITEM_BYTES: u64 = size_of::<Node<T>>() as u64;

    pub const fn new() -> Self {
        Self { pages: Vec::new(), items: 0, lists: [EMPTY; LISTS] }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items
    }

    /// Number of items on `list`.
    pub fn items(&self, list: List) -> u64 {
        self.lists[list.index()].items
    }

    /// Sum of bytes on `list`.
    pub fn bytes(&self, list: List) -> u64 {
        self.lists[list.index()].bytes
    }

    /// The oldest slot on `list`.
    pub fn head(&self, list: List) -> Option<u32> {
        some(self.lists[list.index()].head)
    }

    /// Slots of `list`, youngest first.
    pub fn newest(&self, list: List) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(some(self.lists[list.index()].tail), |&slot| {
            some(self.node(slot).prev)
        })
    }

    pub fn get(&self, slot: u32) -> &T {
        &self.node(slot).item
    }

    /// Changes an item; sums follow its bytes. Its list must stay.
    pub fn update<R>(&mut self, slot: u32, change: impl FnOnce(&mut T) -> R) -> R {
        let item = &mut self.node_mut(slot).item;
        let (list, before) = (item.list(), item.bytes());
        let result = change(item);
        let after = item.bytes();
        let ends = &mut self.lists[list.index()];
        ends.bytes = ends.bytes - before + after;
        result
    }

    /// Puts an item at the young end of its list.
    pub fn push(&mut self, item: T) -> u32 {
        assert!(self.items < ITEMS_MAX, "slab is full");
        let page = self.items >> PAGE_SHIFT;
        if page == self.pages.len() {
            self.pages.push(Vec::with_capacity(PAGE_SLOTS));
        }
        let slot = self.items as u32;
        self.pages[page].push(Node { item, prev: NIL, next: NIL });
        self.items += 1;
        self.link(slot);
        slot
    }

    /// Takes an item out. The second value is the former slot of the item that now has the
    /// number `slot`, if one had to move.
    pub fn remove(&mut self, slot: u32) -> (T, Option<u32>) {
        self.unlink(slot);
        self.items -= 1;
        let last = self.items as u32;
        let page = self.items >> PAGE_SHIFT;
        let Some(moving) = self.pages[page].pop() else { panic!("page {page} has no last slot") };
        self.pages.truncate(page + 1);
        if slot == last {
            return (moving.item, None);
        }
        let removed = std::mem::replace(self.node_mut(slot), moving);
        let (prev, next) = (self.node(slot).prev, self.node(slot).next);
        self.join(self.get(slot).list(), prev, slot);
        self.join(self.get(slot).list(), slot, next);
        (removed.item, Some(last))
    }

    /// Moves an item to the young end of `list`.
    pub fn move_to(&mut self, slot: u32, list: List) {
        self.unlink(slot);
        self.node_mut(slot).item.set_list(list);
        self.link(slot);
    }

    fn node(&self, slot: u32) -> &Node<T> {
        &self.pages[(slot >> PAGE_SHIFT) as usize][slot as usize % PAGE_SLOTS]
    }

    fn node_mut(&mut self, slot: u32) -> &mut Node<T> {
        &mut self.pages[(slot >> PAGE_SHIFT) as usize][slot as usize % PAGE_SLOTS]
    }

    /// Makes `prev` and `next` neighbours on `list`; `NIL` stands for the list's end.
    fn join(&mut self, list: List, prev: u32, next: u32) {
        match some(prev) {
            Some(prev) => self.node_mut(prev).next = next,
            None => self.lists[list.index()].head = next,
        }
        match some(next) {
            Some(next) => self.node_mut(next).prev = prev,
            None => self.lists[list.index()].tail = prev,
        }
    }

    fn link(&mut self, slot: u32) {
        let (list, bytes) = (self.get(slot).list(), self.get(slot).bytes());
        let tail = self.lists[list.index()].tail;
        self.join(list, tail, slot);
        self.join(list, slot, NIL);
        let ends = &mut self.lists[list.index()];
        ends.items += 1;
        ends.bytes += bytes;
    }

    fn unlink(&mut self, slot: u32) {
        let Node { ref item, prev, next } = *self.node(slot);
        let (list, bytes) = (item.list(), item.bytes());
        self.join(list, prev, next);
        let ends = &mut self.lists[list.index()];
        ends.items -= 1;
        ends.bytes -= bytes;
    }

    /// Recounts links and sums.
    pub fn validate(&self) -> Result<(), String> {
        let mut linked = 0;
        for list in List::ALL {
            let ends = self.lists[list.index()];
            let (mut items, mut bytes, mut prev, mut slot) = (0, 0, NIL, ends.head);
            while let Some(at) = some(slot) {
                if at as usize >= self.items {
                    return Err(format!("{list:?}: bad link {at}"));
                }
                let node = self.node(at);
                if node.prev != prev || node.item.list() != list {
                    return Err(format!("{list:?}: slot {at} has a wrong back link or list"));
                }
                items += 1;
                bytes += node.item.bytes();
                if items > self.items as u64 {
                    return Err(format!("{list:?}: the links run in a circle"));
                }
                (prev, slot) = (at, node.next);
            }
            if (ends.tail, ends.items, ends.bytes) != (prev, items, bytes) {
                return Err(format!("{list:?}: noted {ends:?}, found {items} items {bytes} bytes"));
            }
            linked += items;
        }
        if linked != self.items as u64 {
            return Err(format!("{linked} items on lists, {} slots", self.items));
        }
        let pages = self.items.div_ceil(PAGE_SLOTS);
        if !(pages..=pages + 1).contains(&self.pages.len()) {
            return Err(format!("{} pages for {} items", self.pages.len(), self.items));
        }
        for (number, page) in self.pages.iter().enumerate() {
            let items = (self.items - (number * PAGE_SLOTS).min(self.items)).min(PAGE_SLOTS);
            if page.len() != items || page.capacity() != PAGE_SLOTS {
                return Err(format!("page {number}: {} of {} slots", page.len(), page.capacity()));
            }
        }
        Ok(())
    }
}

const fn some(slot: u32) -> Option<u32> {
    if slot == NIL { None } else { Some(slot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Class, Queue};

    struct Thing(List, u64);

    impl Item for Thing {
        fn hash(&self) -> u64 {
            self.1
        }
        fn bytes(&self) -> u64 {
            self.1
        }
        fn list(&self) -> List {
            self.0
        }
        fn set_list(&mut self, list: List) {
            self.0 = list;
        }
    }

    const MRU: List = List::new(Class::Data, Queue::Mru);
    const MFU: List = List::new(Class::Data, Queue::Mfu);

    fn order(slab: &Slab<Thing>, list: List) -> Vec<u64> {
        slab.newest(list).map(|slot| slab.get(slot).1).collect()
    }

    #[test]
    fn removal_moves_the_last_item_and_keeps_the_order() {
        let mut slab = Slab::new();
        for bytes in 1..=4 {
            slab.push(Thing(MRU, bytes));
        }
        let (thing, moved) = slab.remove(1);
        assert_eq!((thing.1, moved), (2, Some(3)));
        slab.validate().unwrap();
        assert_eq!(order(&slab, MRU), [4, 3, 1]);
        assert_eq!(slab.remove(2).1, None);
        slab.move_to(0, MFU);
        slab.update(0, |thing| thing.1 = 9);
        slab.validate().unwrap();
        assert_eq!((slab.bytes(MRU), slab.bytes(MFU)), (4, 9));
    }

    #[test]
    fn memory_follows_the_items_down() {
        let mut slab = Slab::new();
        for bytes in 0..10_000 {
            slab.push(Thing(MRU, bytes));
        }
        while slab.len() > 0 {
            slab.remove(slab.head(MRU).unwrap());
            assert!(slab.pages.len() <= slab.len().div_ceil(PAGE_SLOTS) + 1);
        }
    }
}
