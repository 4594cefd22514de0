//! What a tree of files is expected to be, and what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::{self, Debug, Formatter};
use std::io::IoSliceMut;
use std::sync::Arc;

use futures::executor::block_on;
use storage::{Kind, MemoryOrigin, ObjectId, OpenMode, Origin, Timestamp};

/// Tells objects apart whatever their ids and names are: it is their owner.
pub type Key = u32;

/// The key of the top directory.
pub const ROOT: Key = 0;

/// An object as it is at a moment.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: Kind,
    pub names: BTreeSet<(Key, String)>,
    pub permissions: u32,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub contents: Arc<Vec<u8>>,
    pub target: OsString,
}

impl Debug for Node {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Node { kind, names, permissions, xattrs, contents, .. } = self;
        let bytes = contents.len();
        write!(formatter, "{kind:?} at {names:?}, {permissions:o}, {xattrs:?}, {bytes} bytes")
    }
}

/// All objects at a moment.
pub type World = BTreeMap<Key, Node>;

/// Where each object is at the origin.
pub type Ids = BTreeMap<Key, (ObjectId, Option<Timestamp>)>;

/// Looks at all of an origin.
pub fn look(origin: &MemoryOrigin) -> (World, Ids) {
    let (mut world, mut ids) = (World::new(), Ids::new());
    let root = block_on(origin.root()).expect("memory answers");
    ids.insert(ROOT, (root.object, root.attributes.born));
    let mut open = vec![(ROOT, root.object)];
    while let Some((parent, directory)) = open.pop() {
        for listed in block_on(origin.list(directory)).expect("memory answers") {
            let entry = block_on(origin.lookup(directory, &listed.name)).expect("it was listed");
            let (object, attributes) = (entry.object, entry.attributes);
            let key = attributes.uid;
            let name = (parent, listed.name.into_string().expect("text"));
            if let Some(node) = world.get_mut(&key) {
                assert_eq!(ids[&key].0, object, "two objects were made of {name:?}, {key}");
                node.names.insert(name);
                continue;
            }
            let names = block_on(origin.xattrs(object)).expect("memory answers");
            let xattrs = names.into_iter().map(|name| {
                let value = block_on(origin.xattr(object, &name)).expect("memory answers");
                (name.into_string().expect("text"), value)
            });
            let xattrs = xattrs.collect();
            let mut contents = Vec::new();
            let mut target = OsString::new();
            match attributes.kind {
                Kind::File => {
                    let mode = OpenMode { read: true, ..OpenMode::default() };
                    let file = block_on(origin.open(object, mode)).expect("memory answers");
                    contents = vec![0; attributes.size as usize];
                    let read = block_on(file.read(0, &mut [IoSliceMut::new(&mut contents)]));
                    read.expect("memory answers");
                }
                Kind::Directory => open.push((key, object)),
                Kind::Symlink => {
                    target = block_on(origin.read_link(object)).expect("memory answers");
                }
                _ => {}
            }
            let (kind, permissions) = (attributes.kind, attributes.permissions);
            let (names, contents) = (BTreeSet::from([name]), Arc::new(contents));
            world.insert(key, Node { kind, names, permissions, xattrs, contents, target });
            ids.insert(key, (object, attributes.born));
        }
    }
    (world, ids)
}

/// Compares what is there with what may be: `worlds` are those from the last one that is in the
/// log on, `promised` those from the last one on in which each file was made to last.
pub fn judge(found: &World, worlds: &[World], promised: &BTreeMap<Key, Vec<Arc<Vec<u8>>>>) {
    let first = &worlds[0];
    for (key, node) in found {
        let could_be: Vec<&Node> = worlds.iter().filter_map(|world| world.get(key)).collect();
        assert!(!could_be.is_empty(), "{key} is there again: {node:?}");
        assert_eq!(node.kind, could_be[0].kind);
        assert_eq!(node.target, could_be[0].target);
        for name in &node.names {
            assert!(could_be.iter().any(|node| node.names.contains(name)), "{key} at {name:?}");
        }
        let permissions = node.permissions;
        assert!(could_be.iter().any(|node| node.permissions == permissions), "{key}: {node:?}");
        for (name, value) in &node.xattrs {
            let same = |node: &&Node| node.xattrs.get(name) == Some(value);
            assert!(could_be.iter().any(same), "{key}: {name}={value:?}");
        }
    }
    for (key, node) in first {
        let is_in_all = worlds.iter().all(|world| world.contains_key(key));
        let Some(found) = found.get(key) else {
            assert!(!is_in_all, "{key} is gone: {node:?}");
            continue;
        };
        if worlds.iter().all(|world| world.get(key).is_some_and(|now| now.names == node.names)) {
            assert_eq!(found.names, node.names, "names of {key}");
        }
        for (name, value) in &node.xattrs {
            let same = |world: &World| {
                world.get(key).is_some_and(|now| now.xattrs.get(name) == Some(value))
            };
            if worlds.iter().all(same) {
                assert_eq!(found.xattrs.get(name), Some(value), "{name} of {key}");
            }
        }
    }
    for (key, node) in found.iter().filter(|(_, node)| node.kind == Kind::File) {
        let Some(versions) = promised.get(key) else { continue };
        let sizes = || versions.iter().map(|version| version.len());
        let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        let size = node.contents.len();
        assert!((least..=most).contains(&size), "{key} has {size} bytes, not {least} to {most}");
        for (at, byte) in node.contents.iter().enumerate() {
            let written = versions.iter().any(|version| version.get(at) == Some(byte));
            assert!(written || (at >= least && *byte == 0), "byte {at} of {key} is {byte}");
        }
    }
}
