use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::Arc;

use crate::{Kind, ObjectId};

/// Most names remembered for one object. A file with more hard links keeps the latest ones.
const NAMES_MAX: usize = 8;

/// Deepest nesting of directories that is followed upwards.
pub(super) const DEPTH_MAX: usize = 1 << 16;

/// A table smaller than this is not made smaller.
const SHRUNK_MIN: usize = 1024;

/// Ids from here on are given to objects whose inode number is not unique below the root.
const ALLOCATED: u64 = 1 << 63;

/// A name in a directory: where an object can be found.
pub(super) type Place = (ObjectId, Arc<OsStr>);

/// What the file system says an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Type.
    pub kind: Kind,
}

/// An object that somebody holds a reference to, or that lies above one.
#[derive(Debug)]
pub(super) struct Node {
    /// Type.
    pub kind: Kind,
    /// Names, the one that worked last first. A directory has one at most.
    pub places: Vec<Place>,
    /// References held by callers and by open files.
    references: u64,
    /// Known names in this directory.
    children: HashMap<Arc<OsStr>, ObjectId>,
}

/// The objects of a directory origin that are in use, and the names that lead to them.
///
/// A pure structure: it makes no system call. An object's id is its inode number when it lies on
/// the root's file system. Objects of other file systems below the root get an id from the upper
/// half, hashed from device and inode number. A node lives while it is referenced or while a child
/// names it as its parent.
#[derive(Debug)]
pub(super) struct NodeTable {
    root: ObjectId,
    device: u64,
    nodes: HashMap<ObjectId, Node>,
    allocated: HashMap<ObjectId, (u64, u64)>,
}

impl NodeTable {
    /// A table that holds the root only.
    pub fn new(root: Identity) -> NodeTable {
        let mut table = NodeTable {
            root: ObjectId(0),
            device: root.device,
            nodes: HashMap::new(),
            allocated: HashMap::new(),
        };
        table.root = table.identify(root.device, root.inode);
        table.reference(root);
        table
    }

    /// The id of the root.
    pub fn root(&self) -> ObjectId {
        self.root
    }

    /// The node of `object`, if it is in use.
    pub fn node(&self, object: ObjectId) -> Option<&Node> {
        self.nodes.get(&object)
    }

    /// The object that `name` in `parent` was last known to lead to.
    pub fn child(&self, parent: ObjectId, name: &OsStr) -> Option<ObjectId> {
        self.nodes.get(&parent)?.children.get(name).copied()
    }

    /// The id of the object with this device and inode number.
    pub fn identify(&self, device: u64, inode: u64) -> ObjectId {
        if device == self.device && inode < ALLOCATED {
            return ObjectId(inode);
        }
        let mut id = ObjectId(ALLOCATED | mix(device, inode));
        while self.allocated.get(&id).is_some_and(|&owner| owner != (device, inode)) {
            id = ObjectId(ALLOCATED | id.0.wrapping_add(1));
        }
        id
    }

    /// Counts a reference to an object without learning a name of it.
    pub fn reference(&mut self, found: Identity) -> ObjectId {
        let id = self.identify(found.device, found.inode);
        if id.0 >= ALLOCATED {
            self.allocated.insert(id, (found.device, found.inode));
        }
        self.count(id, found.kind);
        id
    }

    /// Counts a reference to an object that was found as `name` in `parent`.
    pub fn attach(&mut self, parent: ObjectId, name: &OsStr, found: Identity) -> ObjectId {
        let id = self.reference(found);
        self.place(id, parent, name);
        id
    }

    /// Counts a reference to an object that is said to be found as `name` in `parent`.
    pub fn remember(&mut self, parent: ObjectId, name: &OsStr, id: ObjectId, kind: Kind) {
        self.count(id, kind);
        self.place(id, parent, name);
    }

    fn count(&mut self, id: ObjectId, kind: Kind) {
        if self.nodes.get(&id).is_some_and(|node| node.kind != kind) {
            // The inode number has a new owner.
            self.strip(id);
        }
        let node = self.nodes.entry(id).or_insert_with(|| Node {
            kind,
            places: Vec::new(),
            references: 0,
            children: HashMap::new(),
        });
        node.kind = kind;
        node.references = node.references.saturating_add(1);
    }

    /// Takes all names from and below a node.
    fn strip(&mut self, id: ObjectId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let places = std::mem::take(&mut node.places);
        let children = std::mem::take(&mut node.children);
        for (parent, name) in &places {
            self.orphan(*parent, name);
        }
        for (name, child) in children {
            if let Some(node) = self.nodes.get_mut(&child) {
                node.places.retain(|place| *place != (id, name.clone()));
            }
        }
    }

    /// Records that `name` in `parent` leads to the node `id`.
    fn place(&mut self, id: ObjectId, parent: ObjectId, name: &OsStr) {
        let known = self.child(parent, name);
        if known == Some(id) {
            self.promote(id, parent, name);
            return;
        }
        if known.is_some() {
            self.detach(parent, name);
        }
        let Some(kind) = self.nodes.get(&id).map(|node| node.kind) else { return };
        let directory = kind == Kind::Directory;
        if id == self.root || (directory && self.is_below(parent, id)) {
            // A bind mount of a directory within itself: its first name stays the only one.
            return;
        }
        let name: Arc<OsStr> = name.into();
        let Some(above) = self.nodes.get_mut(&parent) else { return };
        above.children.insert(name.clone(), id);
        let names_max = if directory { 1 } else { NAMES_MAX };
        let mut dropped = Vec::new();
        if let Some(node) = self.nodes.get_mut(&id) {
            // Most have one name: a list that grows makes room for four.
            node.places.reserve_exact(1);
            node.places.insert(0, (parent, name));
            dropped = node.places.split_off(names_max.min(node.places.len()));
        }
        for (parent, name) in dropped {
            self.orphan(parent, &name);
        }
    }

    /// Whether `object` is `above` or lies below it, as far as names are known.
    fn is_below(&self, object: ObjectId, above: ObjectId) -> bool {
        let mut current = object;
        for _ in 0..DEPTH_MAX {
            if current == above {
                return true;
            }
            match self.nodes.get(&current).and_then(|node| node.places.first()) {
                Some((parent, _)) => current = *parent,
                None => return false,
            }
        }
        true
    }

    /// Makes a name the first to be tried.
    pub fn promote(&mut self, id: ObjectId, parent: ObjectId, name: &OsStr) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(at) = node.places.iter().position(|(p, n)| *p == parent && **n == *name) {
            node.places[..=at].rotate_right(1);
        }
    }

    /// Records that `name` in `parent` leads nowhere, and returns where it led.
    pub fn detach(&mut self, parent: ObjectId, name: &OsStr) -> Option<ObjectId> {
        let id = self.child(parent, name)?;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.places.retain(|(p, n)| !(*p == parent && **n == *name));
        }
        self.orphan(parent, name);
        Some(id)
    }

    /// Removes a child's name from a directory, and the directory when nothing holds it any more.
    fn orphan(&mut self, parent: ObjectId, name: &OsStr) {
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children.remove(name);
            shrink(&mut node.children);
        }
        self.collect(parent);
    }

    /// Records a rename that the file system has done.
    pub fn rename(&mut self, from: (ObjectId, &OsStr), to: (ObjectId, &OsStr), exchange: bool) {
        let moved = self.detach(from.0, from.1);
        let replaced = self.detach(to.0, to.1);
        if let Some(id) = moved {
            self.place(id, to.0, to.1);
        }
        if let (true, Some(id)) = (exchange, replaced) {
            self.place(id, from.0, from.1);
        }
    }

    /// Gives back references.
    pub fn forget(&mut self, object: ObjectId, count: u64) {
        if let Some(node) = self.nodes.get_mut(&object) {
            node.references = node.references.saturating_sub(count);
        }
        self.collect(object);
    }

    /// Removes a node that nothing holds, and then those above it that only it held.
    fn collect(&mut self, object: ObjectId) {
        let mut pending = vec![object];
        while let Some(id) = pending.pop() {
            let idle = |node: &Node| node.references == 0 && node.children.is_empty();
            if id == self.root || !self.nodes.get(&id).is_some_and(idle) {
                continue;
            }
            self.allocated.remove(&id);
            for (parent, name) in self.nodes.remove(&id).into_iter().flat_map(|node| node.places) {
                if let Some(node) = self.nodes.get_mut(&parent) {
                    node.children.remove(&name);
                    shrink(&mut node.children);
                }
                pending.push(parent);
            }
            shrink(&mut self.nodes);
        }
    }

    /// Number of nodes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When names, children and references disagree.
    #[cfg(test)]
    pub fn validate(&self) {
        assert!(self.nodes.contains_key(&self.root), "the root is missing");
        let mut placed = 0;
        for (id, node) in &self.nodes {
            let held = node.references > 0 || !node.children.is_empty() || *id == self.root;
            assert!(held, "{id:?} is held by nothing");
            let names_max = if node.kind == Kind::Directory { 1 } else { NAMES_MAX };
            assert!(node.places.len() <= names_max, "{id:?} has too many names");
            for (parent, name) in &node.places {
                assert_eq!(self.child(*parent, name), Some(*id), "{id:?} is unknown to its parent");
            }
            placed += node.places.len();
            if node.kind == Kind::Directory && *id != self.root {
                assert!(!node.places.iter().any(|place| self.is_below(place.0, *id)), "a cycle");
            }
        }
        let children: usize = self.nodes.values().map(|node| node.children.len()).sum();
        assert_eq!(placed, children, "names and children differ");
        assert!(self.allocated.keys().all(|id| self.nodes.contains_key(id)), "an id is leaked");
    }
}

/// Gives memory back after most of a table has gone.
fn shrink<K: Eq + std::hash::Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > SHRUNK_MIN && table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}

/// Spreads device and inode number over 63 bits (the finaliser of splitmix64).
fn mix(device: u64, inode: u64) -> u64 {
    let mut x = inode ^ device.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOT: Identity = Identity { device: 1, inode: 2, kind: Kind::Directory };

    fn file(inode: u64) -> Identity {
        Identity { device: 1, inode, kind: Kind::File }
    }

    fn directory(inode: u64) -> Identity {
        Identity { kind: Kind::Directory, ..file(inode) }
    }

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn a_directory_is_kept_for_what_is_below_it() {
        let mut table = NodeTable::new(ROOT);
        let above = table.attach(table.root(), name("a"), directory(10));
        let below = table.attach(above, name("b"), file(11));
        table.forget(above, 1);
        assert_eq!(table.len(), 3);
        table.validate();
        table.forget(below, 1);
        assert_eq!(table.len(), 1);
        table.validate();
    }

    #[test]
    fn ids_of_other_devices_are_allocated() {
        let mut table = NodeTable::new(ROOT);
        let plain = table.attach(table.root(), name("a"), file(10));
        let other = Identity { device: 7, ..file(10) };
        let mounted = table.attach(table.root(), name("b"), other);
        let huge = table.attach(table.root(), name("c"), file(u64::MAX));
        assert_eq!(plain, ObjectId(10));
        assert!(mounted.0 >= ALLOCATED && huge.0 >= ALLOCATED && mounted != huge);
        assert_eq!(table.identify(7, 10), mounted);
        table.forget(mounted, 1);
        assert_eq!(table.identify(7, 10), mounted, "the id is the same again");
        table.validate();
    }

    #[test]
    fn a_new_owner_of_an_inode_number_has_no_old_names() {
        let mut table = NodeTable::new(ROOT);
        let id = table.attach(table.root(), name("a"), directory(10));
        let child = table.attach(id, name("b"), file(11));
        assert_eq!(table.attach(table.root(), name("c"), file(10)), id);
        let places = &table.node(id).expect("in use").places;
        assert_eq!(places.len(), 1);
        assert!(table.node(child).expect("in use").places.is_empty());
        table.validate();
    }

    #[test]
    fn a_directory_mounted_within_itself_makes_no_cycle() {
        let mut table = NodeTable::new(ROOT);
        let outer = table.attach(table.root(), name("a"), directory(10));
        let inner = table.attach(outer, name("b"), directory(11));
        table.attach(inner, name("c"), directory(10));
        table.attach(inner, name("d"), ROOT);
        table.validate();
        assert_eq!(table.node(outer).expect("in use").places[0].0, table.root());
    }

    #[test]
    fn the_latest_names_are_kept() {
        let mut table = NodeTable::new(ROOT);
        for number in 0..2 * NAMES_MAX {
            table.attach(table.root(), name(&number.to_string()), file(10));
        }
        let places = &table.node(ObjectId(10)).expect("in use").places;
        assert_eq!(places.len(), NAMES_MAX);
        assert_eq!(*places[0].1, *name(&(2 * NAMES_MAX - 1).to_string()));
        table.validate();
    }

    #[derive(Debug, Clone)]
    enum Step {
        Attach { parent: u64, name: u8, inode: u64, directory: bool, device: u64 },
        Detach { parent: u64, name: u8 },
        Rename { from: (u64, u8), to: (u64, u8), exchange: bool },
        Forget { inode: u64, count: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let inode = || 2_u64..12;
        let place = || (2_u64..12, 0_u8..4);
        prop_oneof![
            4 => (place(), inode(), any::<bool>(), 1_u64..3).prop_map(
                |((parent, name), inode, directory, device)| Step::Attach {
                    parent, name, inode, directory, device,
                }
            ),
            1 => place().prop_map(|(parent, name)| Step::Detach { parent, name }),
            2 => (place(), place(), any::<bool>())
                .prop_map(|(from, to, exchange)| Step::Rename { from, to, exchange }),
            2 => (inode(), 0_u64..4).prop_map(|(inode, count)| Step::Forget { inode, count }),
        ]
    }

    proptest! {
        /// Whatever callers and the file system do, names and references agree.
        #[test]
        fn any_history_leaves_a_sound_table(steps in prop::collection::vec(step(), 0..100)) {
            let mut table = NodeTable::new(ROOT);
            let text = |name: u8| name.to_string();
            for step in steps {
                match step {
                    Step::Attach { parent, name: n, inode, directory, device } => {
                        let kind = if directory { Kind::Directory } else { Kind::File };
                        let found = Identity { device, inode, kind };
                        // Names lie in directories that are in use.
                        let above = table.node(ObjectId(parent)).map(|node| node.kind);
                        let same = device == 1 && inode == parent;
                        let root = device == 1 && inode == ROOT.inode;
                        if above == Some(Kind::Directory) && !same && !root {
                            table.attach(ObjectId(parent), name(&text(n)), found);
                        }
                    }
                    Step::Detach { parent, name: n } => {
                        table.detach(ObjectId(parent), name(&text(n)));
                    }
                    Step::Rename { from, to, exchange } => {
                        let (a, b) = (text(from.1), text(to.1));
                        let kind = table.node(ObjectId(to.0)).map(|node| node.kind);
                        if kind == Some(Kind::Directory) {
                            let (from, to) = (ObjectId(from.0), ObjectId(to.0));
                            table.rename((from, name(&a)), (to, name(&b)), exchange);
                        }
                    }
                    Step::Forget { inode, count } => table.forget(ObjectId(inode), count),
                }
                table.validate();
            }
        }
    }
}
