//! [`Slab`]: items in numbered slots, each standing on exactly one of many linked lists.
//!
//! Links are 32-bit slot numbers. A removed item leaves a hole, which the next one fills, so that
//! a full cache that takes one item in for each that goes moves nothing. When there are more holes
//! than a small share of the items, the last items move into them: slots come in pages, and memory
//! follows the number of items down as well as up.
//!
//! Each list has a marker: items before it, from the oldest on, have been offered to a reader that
//! goes ahead of whoever takes the oldest. What is offered is noted with the item, so that the
//! marker and the sum of bytes before it follow whatever leaves the list, wherever it stood.

use aligned_vec::{AVec, ConstAlign};

use crate::place::Place;

/// No slot.
const NIL: u32 = u32::MAX;

/// Most items that a slab can hold.
pub(crate) const ITEMS_MAX: usize = (u32::MAX >> 1) as usize - 1;

/// Slots of a page.
const PAGE_SLOTS: usize = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 8;

/// Pages begin with a cache line, so that a node of one line's size lies in one.
const LINE_BYTES: usize = 64;

type Page<T> = AVec<Node<T>, ConstAlign<LINE_BYTES>>;

/// All full but the last one, which is never empty; behind it may stand one empty page, so that an
/// item that comes and goes does not make and free a page each time.
#[derive(Debug)]
struct Pages<T>(Vec<Page<T>>);

/// Holes that are left open: this part of the items, and a page.
const HOLES_SHARE: usize = 64;

/// What a slab asks of its items.
pub(crate) trait Item {
    /// Hash of the key.
    fn hash(&self) -> u64;
    /// Bytes that the item adds to its list.
    fn bytes(&self) -> u64;
    /// The list it stands on, and whether it has been offered there.
    fn place(&self) -> Place;
    /// Notes the list it stands on, and whether it has been offered there.
    fn set_place(&mut self, place: Place);
}

#[derive(Debug)]
struct Node<T> {
    /// `None` in a hole.
    item: Option<T>,
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
    /// The oldest item that has not been offered.
    marker: u32,
    /// Sum of bytes of the items before the marker.
    offered_bytes: u64,
}

const EMPTY: Ends =
    Ends { head: NIL, tail: NIL, items: 0, bytes: 0, marker: NIL, offered_bytes: 0 };

/// The list of the holes; lists of items have the numbers of their places, from 1.
const HOLES: usize = 0;

/// See the module.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Pages<T>,
    /// Items and holes.
    slots: usize,
    /// By number; a list that never held an item may be missing.
    lists: Vec<Ends>,
}

impl<T: Item> Slab<T> {
    /// Memory per slot, bytes, but for at most two pages.
    pub const ITEM_BYTES: u64 = size_of::<Node<T>>() as u64;

    pub fn new() -> Self {
        Self { pages: Pages(Vec::new()), slots: 0, lists: vec![EMPTY; 1 + Place::LISTS] }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.slots - self.lists[HOLES].items as usize
    }

    /// One more than the largest slot in use.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Number of items on a list.
    pub fn items(&self, place: Place) -> u64 {
        self.ends(place).items
    }

    /// Sum of bytes on a list.
    pub fn bytes(&self, place: Place) -> u64 {
        self.ends(place).bytes
    }

    /// Sum of bytes of the items on a list that have been offered.
    pub fn offered_bytes(&self, place: Place) -> u64 {
        self.ends(place).offered_bytes
    }

    /// The oldest slot on a list that has not been offered.
    pub fn marker(&self, place: Place) -> Option<u32> {
        some(self.ends(place).marker)
    }

    /// The oldest slot on a list.
    pub fn head(&self, place: Place) -> Option<u32> {
        some(self.ends(place).head)
    }

    /// Slots of a list, youngest first.
    pub fn newest(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let older = |&slot: &u32| some(self.pages.node(slot).prev);
        std::iter::successors(some(self.ends(place).tail), older)
    }

    /// The item in `slot`, which must hold one.
    #[inline]
    pub fn get(&self, slot: u32) -> &T {
        match &self.pages.node(slot).item {
            Some(item) => item,
            None => panic!("slot {slot} is a hole"),
        }
    }

    /// The item in `slot`, if it holds one.
    pub fn occupant(&self, slot: u32) -> Option<&T> {
        self.pages
            .0
            .get((slot >> PAGE_SHIFT) as usize)?
            .get(slot as usize % PAGE_SLOTS)?
            .item
            .as_ref()
    }

    /// Changes an item; sums follow its bytes. Its list must stay.
    pub fn update<R>(&mut self, slot: u32, change: impl FnOnce(&mut T) -> R) -> R {
        let Some(item) = &mut self.pages.node_mut(slot).item else {
            panic!("slot {slot} is a hole")
        };
        let (place, before) = (item.place(), item.bytes());
        let result = change(item);
        let after = item.bytes();
        if after != before {
            let ends = &mut self.lists[place.number()];
            ends.bytes = ends.bytes - before + after;
            if place.offered() {
                ends.offered_bytes = ends.offered_bytes - before + after;
            }
        }
        result
    }

    /// Puts an item at the young end of its list, where it has not been offered.
    pub fn push(&mut self, mut item: T) -> u32 {
        let (place, bytes) = (item.place().with_offered(false), item.bytes());
        item.set_place(place);
        let slot = match some(self.lists[HOLES].tail) {
            Some(hole) => {
                self.unlink(HOLES, hole, 0, false);
                self.pages.node_mut(hole).item = Some(item);
                hole
            }
            None => self.append(item),
        };
        self.link(place.number(), slot, bytes);
        slot
    }

    fn append(&mut self, item: T) -> u32 {
        assert!(self.slots < ITEMS_MAX, "slab is full");
        let slot = self.slots as u32;
        self.pages.push(self.slots, Node { item: Some(item), prev: NIL, next: NIL });
        self.slots += 1;
        slot
    }

    /// Takes an item out. Call [`Slab::compact`] afterwards.
    pub fn remove(&mut self, slot: u32) -> T {
        let Some(item) = self.pages.node_mut(slot).item.take() else {
            panic!("slot {slot} is a hole")
        };
        self.unlink(item.place().number(), slot, item.bytes(), item.place().offered());
        self.link(HOLES, slot, 0);
        item
    }

    /// Takes note that the oldest item of a list that was not offered now is, and returns its
    /// slot.
    pub fn offer(&mut self, place: Place) -> Option<u32> {
        let slot = self.marker(place)?;
        let node = self.pages.node_mut(slot);
        let next = node.next;
        let Some(item) = &mut node.item else { panic!("slot {slot} is a hole") };
        item.set_place(place.with_offered(true));
        let bytes = item.bytes();
        let ends = &mut self.lists[place.number()];
        ends.marker = next;
        ends.offered_bytes += bytes;
        Some(slot)
    }

    /// Moves one item into a hole, if there are too many holes. Returns its former and its present
    /// slot; to be called until it returns nothing.
    pub fn compact(&mut self) -> Option<(u32, u32)> {
        while self.is_holey() {
            let last = self.slots as u32 - 1;
            if self.pages.node(last).item.is_none() {
                self.unlink(HOLES, last, 0, false);
                self.cut();
                continue;
            }
            let hole = self.lists[HOLES].tail;
            self.unlink(HOLES, hole, 0, false);
            *self.pages.node_mut(hole) = self.cut();
            let list = self.get(hole).place().number();
            let ends = &mut self.lists[list];
            let (prev, next) = self.pages.neighbours(hole);
            self.pages.join(ends, prev, hole);
            self.pages.join(ends, hole, next);
            if ends.marker == last {
                ends.marker = hole;
            }
            return Some((last, hole));
        }
        None
    }

    /// Whether there are too many holes.
    #[inline]
    fn is_holey(&self) -> bool {
        self.lists[HOLES].items as usize > self.len() / HOLES_SHARE + PAGE_SLOTS
    }

    /// Takes the last slot off.
    fn cut(&mut self) -> Node<T> {
        self.slots -= 1;
        self.pages.pop(self.slots)
    }

    /// Moves an item to the young end of a list, where it has not been offered.
    pub fn move_to(&mut self, slot: u32, place: Place) {
        let Some(item) = &mut self.pages.node_mut(slot).item else {
            panic!("slot {slot} is a hole")
        };
        let (from, bytes) = (item.place(), item.bytes());
        item.set_place(place.with_offered(false));
        self.unlink(from.number(), slot, bytes, from.offered());
        self.link(place.number(), slot, bytes);
    }

    #[inline]
    fn ends(&self, place: Place) -> &Ends {
        self.lists.get(place.number()).unwrap_or(&EMPTY)
    }

    /// Puts a slot at the young end of a list.
    fn link(&mut self, list: usize, slot: u32, bytes: u64) {
        if list >= self.lists.len() {
            self.lists.resize(list + 1, EMPTY);
        }
        let ends = &mut self.lists[list];
        match some(ends.tail) {
            Some(tail) => self.pages.node_mut(tail).next = slot,
            None => ends.head = slot,
        }
        let node = self.pages.node_mut(slot);
        (node.prev, node.next) = (ends.tail, NIL);
        ends.tail = slot;
        ends.items += 1;
        ends.bytes += bytes;
        if ends.marker == NIL {
            ends.marker = slot;
        }
    }

    fn unlink(&mut self, list: usize, slot: u32, bytes: u64, offered: bool) {
        let (prev, next) = self.pages.neighbours(slot);
        let ends = &mut self.lists[list];
        self.pages.join(ends, prev, next);
        ends.items -= 1;
        ends.bytes -= bytes;
        if offered {
            ends.offered_bytes -= bytes;
        } else if ends.marker == slot {
            ends.marker = next;
        }
    }

    /// Recounts links and sums.
    pub fn validate(&self) -> Result<(), String> {
        let mut linked = 0;
        for (number, &ends) in self.lists.iter().enumerate() {
            linked += self.validate_list(number, ends).map_err(|why| format!("{number}: {why}"))?;
        }
        if linked != self.slots {
            return Err(format!("{linked} on lists, {} slots", self.slots));
        }
        let holes = self.lists[HOLES].items as usize;
        if self.is_holey() {
            return Err(format!("{holes} holes, {} items", self.len()));
        }
        let (pages, needed) = (&self.pages.0, self.slots.div_ceil(PAGE_SLOTS));
        if !(needed..=needed + 1).contains(&pages.len()) {
            return Err(format!("{} pages for {} slots", pages.len(), self.slots));
        }
        for (number, page) in pages.iter().enumerate() {
            let slots = (self.slots - (number * PAGE_SLOTS).min(self.slots)).min(PAGE_SLOTS);
            if page.len() != slots || page.capacity() != PAGE_SLOTS {
                return Err(format!("page {number}: {} of {} slots", page.len(), page.capacity()));
            }
        }
        Ok(())
    }

    /// Follows one list; returns how many slots stand on it.
    fn validate_list(&self, number: usize, ends: Ends) -> Result<usize, String> {
        let (mut items, mut bytes, mut prev, mut slot) = (0, 0, NIL, ends.head);
        let (mut marker, mut offered_bytes) = (NIL, 0);
        while let Some(at) = some(slot) {
            if at as usize >= self.slots {
                return Err(format!("bad link {at}"));
            }
            let node = self.pages.node(at);
            let list = node.item.as_ref().map_or(HOLES, |item| item.place().number());
            if node.prev != prev || list != number {
                return Err(format!("slot {at} has a wrong back link or list"));
            }
            items += 1;
            bytes += node.item.as_ref().map_or(0, Item::bytes);
            match node.item.as_ref().filter(|item| item.place().offered()) {
                Some(_) if marker != NIL => return Err(format!("slot {at} was offered too early")),
                Some(item) => offered_bytes += item.bytes(),
                None if marker == NIL => marker = at,
                None => {}
            }
            if items > self.slots as u64 {
                return Err("the links run in a circle".to_string());
            }
            (prev, slot) = (at, node.next);
        }
        if (ends.tail, ends.items, ends.bytes) != (prev, items, bytes) {
            return Err(format!("noted {ends:?}, found {items} items of {bytes} bytes"));
        }
        if (ends.marker, ends.offered_bytes) != (marker, offered_bytes) {
            return Err(format!("noted {ends:?}, found {offered_bytes} bytes before {marker}"));
        }
        Ok(items as usize)
    }
}

impl<T> Pages<T> {
    #[inline]
    fn node(&self, slot: u32) -> &Node<T> {
        &self.0[(slot >> PAGE_SHIFT) as usize][slot as usize % PAGE_SLOTS]
    }

    #[inline]
    fn node_mut(&mut self, slot: u32) -> &mut Node<T> {
        &mut self.0[(slot >> PAGE_SHIFT) as usize][slot as usize % PAGE_SLOTS]
    }

    /// The next older and the next younger slot; `NIL` at a list's end.
    #[inline]
    fn neighbours(&self, slot: u32) -> (u32, u32) {
        let node = self.node(slot);
        (node.prev, node.next)
    }

    /// Makes `prev` and `next` neighbours on a list; `NIL` stands for the list's end.
    #[inline]
    fn join(&mut self, ends: &mut Ends, prev: u32, next: u32) {
        match some(prev) {
            Some(prev) => self.node_mut(prev).next = next,
            None => ends.head = next,
        }
        match some(next) {
            Some(next) => self.node_mut(next).prev = prev,
            None => ends.tail = prev,
        }
    }

    /// Puts a node behind the last one.
    fn push(&mut self, slots: usize, node: Node<T>) {
        let page = slots >> PAGE_SHIFT;
        if page == self.0.len() {
            self.0.push(Page::with_capacity(0, PAGE_SLOTS));
        }
        self.0[page].push(node);
    }

    /// Takes the last node off and leaves `slots`.
    fn pop(&mut self, slots: usize) -> Node<T> {
        let page = slots >> PAGE_SHIFT;
        let Some(node) = self.0[page].pop() else { panic!("page {page} has no last slot") };
        self.0.truncate(page + 1);
        node
    }
}

#[inline]
const fn some(slot: u32) -> Option<u32> {
    if slot == NIL { None } else { Some(slot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Class, List, Queue};

    struct Thing(Place, u64);

    impl Item for Thing {
        fn hash(&self) -> u64 {
            self.1
        }
        fn bytes(&self) -> u64 {
            self.1
        }
        fn place(&self) -> Place {
            self.0
        }
        fn set_place(&mut self, place: Place) {
            self.0 = place;
        }
    }

    const MRU: Place = Place::new(0, List::new(Class::Data, Queue::Mru));
    const MFU: Place = Place::new(3, List::new(Class::Data, Queue::Mfu));

    fn order(slab: &Slab<Thing>, place: Place) -> Vec<u64> {
        slab.newest(place).map(|slot| slab.get(slot).1).collect()
    }

    #[test]
    fn the_next_item_fills_the_hole_and_the_order_stays() {
        let mut slab = Slab::new();
        for bytes in 1..=4 {
            slab.push(Thing(MRU, bytes));
        }
        assert_eq!(slab.remove(1).1, 2);
        assert_eq!(slab.compact(), None);
        assert!(slab.occupant(1).is_none() && slab.occupant(9).is_none());
        slab.validate().unwrap();
        assert_eq!(order(&slab, MRU), [4, 3, 1]);
        assert_eq!(slab.push(Thing(MRU, 5)), 1);
        assert_eq!(order(&slab, MRU), [5, 4, 3, 1]);
        slab.move_to(0, MFU);
        slab.update(0, |thing| thing.1 = 9);
        slab.validate().unwrap();
        assert_eq!((slab.bytes(MRU), slab.bytes(MFU), slab.items(MRU)), (12, 9, 3));
    }

    #[test]
    fn the_marker_follows_what_leaves_and_what_comes() {
        let mut slab = Slab::new();
        let offered = |slab: &mut Slab<Thing>| {
            let slot = slab.offer(MRU);
            slab.validate().unwrap();
            slot.map(|slot| slab.get(slot).1)
        };
        assert_eq!(offered(&mut slab), None);
        for bytes in 1..=5 {
            slab.push(Thing(MRU, bytes));
        }
        assert_eq!((offered(&mut slab), offered(&mut slab)), (Some(1), Some(2)));
        assert_eq!(slab.offered_bytes(MRU), 3);
        slab.update(1, |thing| thing.1 = 20);
        slab.remove(2);
        slab.move_to(0, MRU);
        assert_eq!((slab.offered_bytes(MRU), offered(&mut slab)), (20, Some(4)));
        slab.remove(1);
        assert_eq!((offered(&mut slab), offered(&mut slab)), (Some(5), Some(1)), "round again");
        assert_eq!((offered(&mut slab), slab.offered_bytes(MRU)), (None, 10));
        slab.push(Thing(MRU.with_offered(true), 6));
        assert_eq!(offered(&mut slab), Some(6));
        slab.move_to(0, MFU);
        assert_eq!((slab.offered_bytes(MRU), slab.offered_bytes(MFU)), (15, 0));
        slab.validate().unwrap();
    }

    #[test]
    fn memory_follows_the_items_down() {
        let mut slab = Slab::new();
        for bytes in 0..10_000 {
            slab.push(Thing(MRU, bytes));
        }
        let mut moved = 0;
        while let Some(oldest) = slab.head(MRU) {
            let order = slab.get(oldest).1;
            assert_eq!(order, 10_000 - slab.len() as u64, "moving keeps the order");
            slab.offer(MRU);
            slab.remove(oldest);
            slab.offer(MRU);
            while let Some((from, to)) = slab.compact() {
                assert!(from > to && slab.occupant(from).is_none());
                moved += 1;
            }
            assert!(slab.pages.0.len() <= (slab.len() + slab.len() / 64) / PAGE_SLOTS + 3);
        }
        slab.validate().unwrap();
        assert!(moved > 0);
    }
}
