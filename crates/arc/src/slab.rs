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

use crate::list::{Class, List, Queue};
use crate::place::Place;

/// No slot.
const NIL: u32 = u32::MAX;

/// Most items that a slab can hold.
pub(crate) const ITEMS_MAX: usize = (u32::MAX >> 1) as usize - 1;

/// Slots of a page.
const PAGE_SLOTS: usize = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 8;

/// Begins with a cache line, so that a node of one line's size lies in one.
#[derive(Debug)]
#[repr(align(64))]
struct Page<T>([Node<T>; PAGE_SLOTS]);

/// All in use but the last one, which is never empty; behind it may stand one empty page, so that
/// an item that comes and goes does not make and free a page each time.
#[derive(Debug)]
struct Pages<T>(Vec<Box<Page<T>>>);

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
    /// Towards the head: the next older item, or the hole below on the stack.
    prev: u32,
    /// Towards the tail: the next younger item, or the hole above on the stack.
    next: u32,
}

/// Ends and sums of one list. The head is the oldest item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    head: u32,
    tail: u32,
    pub items: u64,
    /// Sum of the weights of the items.
    pub weight: u64,
    /// The oldest item that has not been offered.
    marker: u32,
    /// Sum of bytes of the items before the marker.
    offered_bytes: u64,
}

/// A partition without items.
const EMPTY: [Ends; Place::LISTS] =
    [Ends { head: NIL, tail: NIL, items: 0, weight: 0, marker: NIL, offered_bytes: 0 };
        Place::LISTS];

/// The slots without an item, as a stack.
#[derive(Debug, Clone, Copy)]
struct Holes {
    top: u32,
    count: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Pages<T>,
    /// Items and holes.
    slots: usize,
    holes: Holes,
    /// What each item weighs besides its bytes.
    header_bytes: u64,
    /// Sum of the weights of all items.
    weight: u64,
    /// By partition; one that never held an item may be missing.
    lists: Vec<[Ends; Place::LISTS]>,
}

impl<T: Item> Slab<T> {
    /// Memory per slot, bytes, but for at most two pages.
    pub const ITEM_BYTES: u64 = size_of::<Node<T>>() as u64;

    /// Of items that weigh `header_bytes` each besides their bytes.
    pub fn new(header_bytes: u64) -> Self {
        let (pages, holes) = (Pages(Vec::new()), Holes { top: NIL, count: 0 });
        Self { pages, slots: 0, holes, header_bytes, weight: 0, lists: vec![EMPTY] }
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots - self.holes.count
    }

    /// One more than the largest slot in use.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Sum of the weights of all items.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Ends and sums of a partition's lists, by [`List::place_number`].
    #[inline]
    pub fn lists(&self, partition: usize) -> &[Ends; Place::LISTS] {
        self.lists.get(partition).unwrap_or(&EMPTY)
    }

    /// Sum of the weights on the lists of a class.
    #[inline]
    pub fn class_weight(&self, partition: usize, class: Class) -> u64 {
        let lists = self.lists(partition);
        let of = |queue| &lists[List::new(class, queue).place_number()];
        of(Queue::Mru).weight + of(Queue::Mfu).weight + of(Queue::Uncached).weight
    }

    /// Number of items on a list.
    #[inline]
    pub fn items(&self, place: Place) -> u64 {
        self.ends(place).items
    }

    /// Sum of the weights on a list.
    #[inline]
    pub fn weight_of(&self, place: Place) -> u64 {
        self.ends(place).weight
    }

    /// Sum of bytes on a list.
    pub fn bytes(&self, place: Place) -> u64 {
        self.ends(place).weight - self.ends(place).items * self.header_bytes
    }

    /// Sum of bytes of the items on a list that have been offered.
    #[inline]
    pub fn offered_bytes(&self, place: Place) -> u64 {
        self.ends(place).offered_bytes
    }

    /// The oldest slot on a list that has not been offered.
    pub fn marker(&self, place: Place) -> Option<u32> {
        some(self.ends(place).marker)
    }

    /// The oldest slot on a list.
    #[inline]
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
        self.pages.item(slot)
    }

    /// The item in `slot`, if it holds one.
    pub fn occupant(&self, slot: u32) -> Option<&T> {
        let page = self.pages.0.get((slot >> PAGE_SHIFT) as usize)?;
        page.0[slot as usize % PAGE_SLOTS].item.as_ref()
    }

    /// Changes an item; sums follow its bytes. Its list must stay.
    #[inline]
    pub fn update<R>(&mut self, slot: u32, change: impl FnOnce(&mut T) -> R) -> R {
        let Some(item) = &mut self.pages.node_mut(slot).item else {
            panic!("slot {slot} is a hole")
        };
        let (place, before) = (item.place(), item.bytes());
        let result = change(item);
        let after = item.bytes();
        if after != before {
            self.weight = self.weight - before + after;
            let ends = ends_mut(&mut self.lists, place);
            ends.weight = ends.weight - before + after;
            if place.offered() {
                ends.offered_bytes = ends.offered_bytes - before + after;
            }
        }
        result
    }

    /// Puts an item at the young end of its list, where it has not been offered.
    #[inline]
    pub fn push(&mut self, mut item: T) -> u32 {
        let (place, bytes) = (item.place().with_offered(false), item.bytes());
        item.set_place(place);
        let slot = match some(self.holes.top) {
            Some(hole) => {
                self.close(hole);
                hole
            }
            None => self.append(),
        };
        self.pages.node_mut(slot).item = Some(item);
        self.weight += bytes + self.header_bytes;
        self.link(place, slot, bytes);
        slot
    }

    fn append(&mut self) -> u32 {
        assert!(self.slots < ITEMS_MAX, "slab is full");
        let slot = self.slots as u32;
        self.slots += 1;
        self.pages.reach(slot);
        slot
    }

    /// Takes an item out. Call [`Slab::compact`] afterwards.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> T {
        let Some(item) = self.pages.node_mut(slot).item.take() else {
            panic!("slot {slot} is a hole")
        };
        self.weight -= item.bytes() + self.header_bytes;
        self.unlink(item.place(), slot, item.bytes());
        self.open(slot);
        item
    }

    /// Puts a hole on the stack.
    #[inline]
    fn open(&mut self, slot: u32) {
        let below = std::mem::replace(&mut self.holes.top, slot);
        self.holes.count += 1;
        let node = self.pages.node_mut(slot);
        (node.prev, node.next) = (below, NIL);
        if below != NIL {
            self.pages.node_mut(below).next = slot;
        }
    }

    /// Takes a hole off the stack, wherever it is there.
    #[inline]
    fn close(&mut self, hole: u32) {
        let (below, above) = self.pages.neighbours(hole);
        self.holes.count -= 1;
        match some(above) {
            Some(above) => self.pages.node_mut(above).prev = below,
            None => self.holes.top = below,
        }
        if below != NIL {
            self.pages.node_mut(below).next = above;
        }
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
        let ends = ends_mut(&mut self.lists, place);
        ends.marker = next;
        ends.offered_bytes += bytes;
        Some(slot)
    }

    /// Moves one item into a hole, if there are too many holes. Returns its former and its present
    /// slot; to be called until it returns nothing.
    #[inline]
    pub fn compact(&mut self) -> Option<(u32, u32)> {
        if self.is_holey() { self.fill_hole() } else { None }
    }

    fn fill_hole(&mut self) -> Option<(u32, u32)> {
        while self.is_holey() {
            let last = self.slots as u32 - 1;
            if self.pages.node(last).item.is_none() {
                self.close(last);
                self.cut();
                continue;
            }
            let hole = self.holes.top;
            self.close(hole);
            *self.pages.node_mut(hole) = self.cut();
            let ends = ends_mut(&mut self.lists, self.pages.item(hole).place());
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
        self.holes.count > self.len() / HOLES_SHARE + PAGE_SLOTS
    }

    /// Takes the last slot off.
    fn cut(&mut self) -> Node<T> {
        self.slots -= 1;
        self.pages.cut(self.slots as u32)
    }

    /// Moves an item to the young end of a list, where it has not been offered.
    #[inline]
    pub fn move_to(&mut self, slot: u32, place: Place) {
        let Some(item) = &mut self.pages.node_mut(slot).item else {
            panic!("slot {slot} is a hole")
        };
        let (from, bytes) = (item.place(), item.bytes());
        item.set_place(place.with_offered(false));
        self.unlink(from, slot, bytes);
        self.link(place, slot, bytes);
    }

    #[inline]
    fn ends(&self, place: Place) -> &Ends {
        &self.lists(place.partition())[place.list_number()]
    }

    /// Puts a slot at the young end of a list.
    #[inline]
    fn link(&mut self, place: Place, slot: u32, bytes: u64) {
        if place.partition() >= self.lists.len() {
            self.add_lists(place);
        }
        let ends = ends_mut(&mut self.lists, place);
        let older = std::mem::replace(&mut ends.tail, slot);
        ends.items += 1;
        ends.weight += bytes + self.header_bytes;
        if ends.marker == NIL {
            ends.marker = slot;
        }
        match some(older) {
            Some(older) => self.pages.node_mut(older).next = slot,
            None => ends.head = slot,
        }
        let node = self.pages.node_mut(slot);
        (node.prev, node.next) = (older, NIL);
    }

    #[cold]
    fn add_lists(&mut self, place: Place) {
        self.lists.resize(place.partition() + 1, EMPTY);
    }

    /// Takes a slot off the list on which it stands.
    #[inline]
    fn unlink(&mut self, place: Place, slot: u32, bytes: u64) {
        let (prev, next) = self.pages.neighbours(slot);
        let ends = ends_mut(&mut self.lists, place);
        self.pages.join(ends, prev, next);
        ends.items -= 1;
        ends.weight -= bytes + self.header_bytes;
        if place.offered() {
            ends.offered_bytes -= bytes;
        } else if ends.marker == slot {
            ends.marker = next;
        }
    }

    /// Recounts links and sums.
    pub fn validate(&self) -> Result<(), String> {
        let mut linked = self.validate_holes()?;
        for (number, &ends) in self.lists.as_flattened().iter().enumerate() {
            linked += self.validate_list(number, ends).map_err(|why| format!("{number}: {why}"))?;
        }
        let weight: u64 = self.lists.as_flattened().iter().map(|ends| ends.weight).sum();
        if linked != self.slots || weight != self.weight {
            let noted = (self.slots, self.weight);
            return Err(format!("{linked} on lists weigh {weight}, noted {noted:?}"));
        }
        let (pages, needed) = (self.pages.0.len(), self.slots.div_ceil(PAGE_SLOTS));
        if !(needed..=needed + 1).contains(&pages) {
            return Err(format!("{pages} pages for {} slots", self.slots));
        }
        let behind = self.slots..pages * PAGE_SLOTS;
        match behind.into_iter().find(|&slot| self.occupant(slot as u32).is_some()) {
            Some(slot) => Err(format!("slot {slot} behind the last holds an item")),
            None => Ok(()),
        }
    }

    /// Follows the stack of holes; returns how many there are.
    fn validate_holes(&self) -> Result<usize, String> {
        let (mut count, mut above, mut slot) = (0, NIL, self.holes.top);
        while let Some(at) = some(slot) {
            if at as usize >= self.slots || count > self.slots {
                return Err(format!("bad hole {at}"));
            }
            let node = self.pages.node(at);
            if node.item.is_some() || node.next != above {
                return Err(format!("slot {at} is no hole or has a wrong link"));
            }
            count += 1;
            (above, slot) = (at, node.prev);
        }
        if count != self.holes.count || self.is_holey() {
            return Err(format!("{:?}, found {count}, {} items", self.holes, self.len()));
        }
        Ok(count)
    }

    /// Follows one list; returns how many slots stand on it.
    fn validate_list(&self, number: usize, ends: Ends) -> Result<usize, String> {
        let (mut items, mut weight, mut prev, mut slot) = (0, 0, NIL, ends.head);
        let (mut marker, mut offered_bytes) = (NIL, 0);
        while let Some(at) = some(slot) {
            if at as usize >= self.slots {
                return Err(format!("bad link {at}"));
            }
            let node = self.pages.node(at);
            let Some(item) = &node.item else { return Err(format!("slot {at} is a hole")) };
            if node.prev != prev || item.place().number() != number {
                return Err(format!("slot {at} has a wrong back link or list"));
            }
            items += 1;
            weight += item.bytes() + self.header_bytes;
            match item.place().offered() {
                true if marker != NIL => return Err(format!("slot {at} was offered too early")),
                true => offered_bytes += item.bytes(),
                false if marker == NIL => marker = at,
                false => {}
            }
            if items > self.slots as u64 {
                return Err("the links run in a circle".to_string());
            }
            (prev, slot) = (at, node.next);
        }
        if (ends.tail, ends.items, ends.weight) != (prev, items, weight) {
            return Err(format!("noted {ends:?}, found {items} items that weigh {weight}"));
        }
        if (ends.marker, ends.offered_bytes) != (marker, offered_bytes) {
            return Err(format!("noted {ends:?}, found {offered_bytes} bytes before {marker}"));
        }
        Ok(items as usize)
    }
}

impl<T> Node<T> {
    const HOLE: Self = Self { item: None, prev: NIL, next: NIL };
}

impl<T> Pages<T> {
    #[inline]
    fn node(&self, slot: u32) -> &Node<T> {
        &self.0[(slot >> PAGE_SHIFT) as usize].0[slot as usize % PAGE_SLOTS]
    }

    #[inline]
    fn node_mut(&mut self, slot: u32) -> &mut Node<T> {
        &mut self.0[(slot >> PAGE_SHIFT) as usize].0[slot as usize % PAGE_SLOTS]
    }

    #[inline]
    fn item(&self, slot: u32) -> &T {
        match &self.node(slot).item {
            Some(item) => item,
            None => panic!("slot {slot} is a hole"),
        }
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

    /// Sees to it that there is a page for `slot`, which is at most one behind the last.
    fn reach(&mut self, slot: u32) {
        if (slot >> PAGE_SHIFT) as usize == self.0.len() {
            self.0.push(Box::new(Page([const { Node::HOLE }; PAGE_SLOTS])));
        }
    }

    /// Takes the node in `slot` off, which is the last one.
    fn cut(&mut self, slot: u32) -> Node<T> {
        let node = std::mem::replace(self.node_mut(slot), Node::HOLE);
        self.0.truncate((slot >> PAGE_SHIFT) as usize + 1);
        node
    }
}

/// A list on which something stood before.
#[inline]
fn ends_mut(lists: &mut [[Ends; Place::LISTS]], place: Place) -> &mut Ends {
    &mut lists[place.partition()][place.list_number()]
}

#[inline]
const fn some(slot: u32) -> Option<u32> {
    if slot == NIL { None } else { Some(slot) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut slab = Slab::new(0);
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
        let mut slab = Slab::new(0);
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
        let mut slab = Slab::new(7);
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
