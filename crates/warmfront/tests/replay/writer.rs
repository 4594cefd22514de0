//! Changes an origin as the engine does: names and attributes at once, data later; and logs them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use futures::executor::block_on;
use storage::{
    Allocation, Caller, Kind, MemoryOrigin, Node as NewNode, OpenMode, Origin, Random, RenameFlags,
    SetAttributes, Simulation, Timestamp, XattrMode,
};
use zil::{Identity, Log, Made, Name, Place, Position, Record};

use crate::world::{Ids, Key, Node, ROOT, World, look};

const WRITE: OpenMode =
    OpenMode { read: true, write: true, truncate: false, direct: false, sync: false };
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Punches a hole and keeps the size.
const PUNCH: u32 = 3;

/// What a file was from each moment on.
type Versions = Vec<(usize, Arc<Vec<u8>>)>;

/// The engine's part, one call after the other.
pub struct Writer {
    pub origin: MemoryOrigin,
    pub log: Arc<Log>,
    simulation: Simulation,
    random: Random,
    ids: Ids,
    next: Key,
    world: World,
    /// What each file was after each change, with the moment.
    contents: BTreeMap<Key, Versions>,
    /// Files with what was written to them and is not at the origin.
    dirty: BTreeMap<Key, Vec<(u64, Vec<u8>)>>,
    /// All worlds, and after which record each held.
    worlds: Vec<(Position, World)>,
    /// When each file was made to last, as it was then, and by which record.
    lasting: BTreeMap<Key, Vec<(Position, usize)>>,
    /// What has been made to last.
    pub committed: Position,
}

impl Writer {
    pub fn new(origin: MemoryOrigin, log: Log, simulation: Simulation, seed: u64) -> Writer {
        let (world, ids) = look(&origin);
        let log = Arc::new(log);
        let start = log.last();
        let files = world.iter().filter(|(_, node)| node.kind == Kind::File);
        let contents: BTreeMap<_, _> =
            files.map(|(key, node)| (*key, vec![(0, node.contents.clone())])).collect();
        Writer {
            lasting: contents.keys().map(|key| (*key, vec![(start, 0)])).collect(),
            next: world.keys().max().map_or(1, |key| key + 1).max(seed as Key % 7 + 1),
            worlds: vec![(start, world.clone())],
            committed: start,
            random: Random::new(seed),
            origin,
            log,
            simulation,
            ids,
            world,
            contents,
            dirty: BTreeMap::new(),
        }
    }

    /// Keys never come back.
    pub fn keys_from(&mut self, next: Key) {
        self.next = self.next.max(next);
    }

    pub fn next_key(&self) -> Key {
        self.next
    }

    /// The worlds from the one on that holds after this record.
    pub fn worlds_from(&self, last: Position) -> Vec<World> {
        let first = self.worlds.iter().rposition(|(position, _)| *position <= last);
        let rest = &self.worlds[first.expect("the first one")..];
        rest.iter().map(|(_, world)| world.clone()).collect()
    }

    /// What each file was from the moment on at which this record made it last.
    pub fn promised_from(&self, last: Position) -> BTreeMap<Key, Vec<Arc<Vec<u8>>>> {
        let from = |key: &Key| {
            let mut lasting = self.lasting.get(key).into_iter().flatten();
            let found = lasting.rfind(|(position, _)| *position <= last);
            found.map_or(0, |(_, moment)| *moment)
        };
        let versions = |key, all: &Versions| {
            let from = from(key);
            let first = all.iter().rposition(|(moment, _)| *moment <= from).unwrap_or(0);
            all[first..].iter().map(|(_, contents)| contents.clone()).collect()
        };
        self.contents.iter().map(|(key, all)| (*key, versions(key, all))).collect()
    }

    fn path(&self, key: Key) -> OsString {
        let mut names = Vec::new();
        let mut current = key;
        while let Some((parent, name)) =
            self.world.get(&current).and_then(|node| node.names.first())
        {
            names.push(name.as_str());
            current = *parent;
        }
        names.reverse();
        names.join("/").into()
    }

    fn identity(&self, key: Key) -> Identity {
        let (object, born) = self.ids[&key];
        Identity { object, born }
    }

    /// Appends a record, and notes the world that holds then.
    fn append(&mut self, record: &Record<'_>) -> Position {
        let position = self.simulation.run(self.log.append(record)).expect("there is room");
        self.worlds.push((position, self.world.clone()));
        position
    }

    fn commit(&mut self) {
        let last = self.log.last();
        self.simulation.run(self.log.commit(last)).expect("the device works");
        self.committed = last;
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.random.below(of.len() as u64) as usize].clone())
    }

    fn a_name(&mut self) -> String {
        self.pick(&NAMES).expect("there are some").to_string()
    }

    fn of_kind(&self, kind: Kind) -> Vec<Key> {
        let nodes = self.world.iter().filter(|(_, node)| node.kind == kind);
        nodes.map(|(key, _)| *key).collect()
    }

    fn a_directory(&mut self) -> Key {
        let mut all = self.of_kind(Kind::Directory);
        all.push(ROOT);
        self.pick(&all).expect("the root")
    }

    fn at(&self, directory: Key, name: &str) -> Option<Key> {
        let name = (directory, name.to_owned());
        self.world.iter().find(|(_, node)| node.names.contains(&name)).map(|(key, _)| *key)
    }

    /// Any name that leads to something.
    fn a_taken_name(&mut self) -> Option<(Key, Key, String)> {
        let names: Vec<(Key, Key, String)> = self
            .world
            .iter()
            .flat_map(|(key, node)| {
                node.names.iter().map(|(parent, name)| (*key, *parent, name.clone()))
            })
            .collect();
        self.pick(&names)
    }

    /// One change or sync, chosen at random.
    pub fn step(&mut self) {
        match self.random.below(100) {
            0..14 => self.create(Kind::File),
            14..20 => self.create(Kind::Directory),
            20..23 => self.create(Kind::Symlink),
            23..42 => self.write(),
            42..54 => self.fsync(),
            54..64 => self.rename(),
            64..68 => self.link(),
            68..75 => self.unlink(),
            75..78 => self.truncate(),
            78..80 => self.punch(),
            80..84 => self.chmod(),
            84..88 => self.set_xattr(),
            88..91 => self.commit(),
            91..95 => self.save(),
            95..98 => self.write_back(),
            _ => self.txg(3),
        }
    }

    fn create(&mut self, kind: Kind) {
        let (directory, name) = (self.a_directory(), self.a_name());
        self.create_at(kind, directory, &name);
    }

    fn create_at(&mut self, kind: Kind, directory: Key, name: &str) -> Option<Key> {
        if self.at(directory, name).is_some() {
            return None;
        }
        let key = self.next;
        self.next += 1;
        let caller = Caller { uid: key, gid: 7, umask: 0 };
        let permissions = if kind == Kind::Symlink { 0o777 } else { 0o640 };
        let (os_name, parent) = (OsStr::new(name), self.ids[&directory].0);
        let node = NewNode { parent, name: os_name, permissions, caller };
        let target = format!("to {key}");
        let made = match kind {
            Kind::File => block_on(self.origin.create(node, WRITE)).map(|created| created.entry),
            Kind::Directory => block_on(self.origin.make_directory(node)),
            _ => block_on(self.origin.symlink(node, OsStr::new(&target))),
        };
        let entry = made.expect("nothing is there");
        self.ids.insert(key, (entry.object, entry.attributes.born));
        let parent = self.identity(directory);
        let path = self.path(directory);
        let target = if kind == Kind::Symlink { target } else { String::new() };
        self.world.insert(
            key,
            Node {
                kind,
                names: [(directory, name.to_owned())].into(),
                permissions,
                xattrs: BTreeMap::new(),
                contents: Arc::default(),
                target: target.clone().into(),
            },
        );
        if kind == Kind::File {
            let moment = self.worlds.len();
            self.contents.insert(key, vec![(moment, Arc::default())]);
        }
        let made = Made {
            name: Name {
                parent: Place { object: parent.object, born: parent.born, path: &path },
                name: os_name,
            },
            object: entry.object,
            born: entry.attributes.born,
            permissions,
            uid: key,
            gid: 7,
        };
        let position = self.append(&match kind {
            Kind::File => Record::Create(made),
            Kind::Directory => Record::MakeDirectory(made),
            _ => Record::Symlink { made, target: OsStr::new(&target) },
        });
        if kind == Kind::File {
            let moment = self.worlds.len() - 1;
            self.lasting.insert(key, vec![(position, moment)]);
        }
        Some(key)
    }

    fn a_file(&mut self) -> Option<Key> {
        let files = self.of_kind(Kind::File);
        self.pick(&files)
    }

    fn write(&mut self) {
        let Some(key) = self.a_file() else { return };
        let offset = self.random.below(6000);
        let length = 1 + self.random.below(2500);
        self.write_at(key, offset, length);
    }

    fn write_at(&mut self, key: Key, offset: u64, length: u64) {
        let data: Vec<u8> = (0..length).map(|_| 1 + self.random.below(255) as u8).collect();
        self.change_contents(key, |contents| {
            let end = (offset + length) as usize;
            if contents.len() < end {
                contents.resize(end, 0);
            }
            contents[offset as usize..end].copy_from_slice(&data);
        });
        self.dirty.entry(key).or_default().push((offset, data));
    }

    fn change_contents(&mut self, key: Key, change: impl FnOnce(&mut Vec<u8>)) {
        let contents = &mut self.world.get_mut(&key).expect("it is there").contents;
        change(Arc::make_mut(contents));
        let moment = self.worlds.len();
        self.contents.get_mut(&key).expect("a file").push((moment, contents.clone()));
        let last = self.worlds.last().expect("one at least").0;
        self.worlds.push((last, self.world.clone()));
    }

    fn fsync(&mut self) {
        let Some(key) = self.a_file() else { return };
        self.fsync_of(key);
    }

    fn fsync_of(&mut self, key: Key) {
        let path = self.path(key);
        let Identity { object, born } = self.identity(key);
        let dirty = self.dirty.get(&key).cloned().unwrap_or_default();
        for (offset, data) in &dirty {
            let file = Place { object, born, path: &path };
            self.append(&Record::Write { file, offset: *offset, data });
        }
        let position = self.log.last();
        let moment = self.worlds.len() - 1;
        self.lasting.entry(key).or_default().push((position, moment));
        if self.random.below(8) > 0 {
            self.commit();
        }
    }

    fn rename(&mut self) {
        let Some((key, parent, name)) = self.a_taken_name() else { return };
        let (to, new_name) = (self.a_directory(), self.a_name());
        let exchange = self.random.below(6) == 0;
        let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        self.rename_to(key, (parent, &name), (to, &new_name), flags);
    }

    fn rename_to(
        &mut self,
        key: Key,
        (parent, name): (Key, &str),
        (to, new_name): (Key, &str),
        flags: RenameFlags,
    ) {
        let replaced = self.at(to, new_name);
        if replaced == Some(key) {
            return;
        }
        let renamed = block_on(self.origin.rename(
            self.ids[&parent].0,
            OsStr::new(name),
            self.ids[&to].0,
            OsStr::new(new_name),
            flags,
        ));
        if renamed.is_err() {
            return;
        }
        let (from_path, to_path) = (self.path(parent), self.path(to));
        let names = &mut self.world.get_mut(&key).expect("it is there").names;
        names.remove(&(parent, name.to_owned()));
        names.insert((to, new_name.to_owned()));
        if let Some(replaced) = replaced {
            let names = &mut self.world.get_mut(&replaced).expect("it is there").names;
            names.remove(&(to, new_name.to_owned()));
            if flags.contains(RenameFlags::EXCHANGE) {
                names.insert((parent, name.to_owned()));
            }
            self.bury(replaced);
        }
        let (from, target) = (self.identity(parent), self.identity(to));
        let record = Record::Rename {
            object: self.identity(key),
            from: Name {
                parent: Place { object: from.object, born: from.born, path: &from_path },
                name: OsStr::new(name),
            },
            to: Name {
                parent: Place { object: target.object, born: target.born, path: &to_path },
                name: OsStr::new(new_name),
            },
            replaced: replaced.map(|replaced| self.identity(replaced)),
            is_last: replaced.is_some_and(|replaced| !self.world.contains_key(&replaced)),
            flags,
        };
        self.append(&record);
    }

    /// Forgets an object that has no name any more.
    fn bury(&mut self, key: Key) {
        if self.world.get(&key).is_some_and(|node| node.names.is_empty()) {
            self.world.remove(&key);
            self.dirty.remove(&key);
        }
    }

    fn link(&mut self) {
        let Some(key) = self.a_file() else { return };
        let (directory, name) = (self.a_directory(), self.a_name());
        if self.at(directory, &name).is_some() {
            return;
        }
        let (object, parent) = (self.ids[&key].0, self.ids[&directory].0);
        block_on(self.origin.link(object, parent, OsStr::new(&name))).expect("nothing is there");
        let (path, above) = (self.path(key), self.path(directory));
        let names = &mut self.world.get_mut(&key).expect("it is there").names;
        names.insert((directory, name.clone()));
        let (object, parent) = (self.identity(key), self.identity(directory));
        self.append(&Record::Link {
            object: Place { object: object.object, born: object.born, path: &path },
            name: Name {
                parent: Place { object: parent.object, born: parent.born, path: &above },
                name: OsStr::new(&name),
            },
        });
    }

    fn unlink(&mut self) {
        let Some((key, parent, name)) = self.a_taken_name() else { return };
        let directory = self.world[&key].kind == Kind::Directory;
        let (above, os_name) = (self.ids[&parent].0, OsStr::new(&name));
        let removed = match directory {
            true => block_on(self.origin.remove_directory(above, os_name)),
            false => block_on(self.origin.unlink(above, os_name)),
        };
        if removed.is_err() {
            return;
        }
        let path = self.path(parent);
        let object = self.identity(key);
        self.world.get_mut(&key).expect("it is there").names.remove(&(parent, name.clone()));
        self.bury(key);
        let is_last = !self.world.contains_key(&key);
        let Identity { object: above, born } = self.identity(parent);
        let name = Name { parent: Place { object: above, born, path: &path }, name: os_name };
        self.append(&match directory {
            true => Record::RemoveDirectory { object, name },
            false => Record::Unlink { object, name, is_last },
        });
    }

    /// Changes that take something away of a file's contents are in the log before they are made:
    /// what is older in there must not come back.
    fn take_away(
        &mut self,
        key: Key,
        record: impl FnOnce(Place<'_>) -> Record<'_>,
        keep: impl Fn(&mut Vec<u8>),
    ) {
        let path = self.path(key);
        let Identity { object, born } = self.identity(key);
        self.change_contents(key, &keep);
        for (_, contents) in self.contents.get_mut(&key).expect("a file").iter_mut() {
            keep(Arc::make_mut(contents));
        }
        self.append(&record(Place { object, born, path: &path }));
        self.commit();
        // What is not written yet is cut likewise.
        let contents = self.world[&key].contents.clone();
        for (offset, data) in self.dirty.entry(key).or_default().iter_mut() {
            let start = (*offset as usize).min(contents.len());
            let end = (start + data.len()).min(contents.len());
            *data = contents[start..end].to_vec();
        }
        if let Some(dirty) = self.dirty.get_mut(&key) {
            dirty.retain(|(_, data)| !data.is_empty());
        }
    }

    fn truncate(&mut self) {
        let Some(key) = self.a_file() else { return };
        let size = self.random.below(7000);
        self.take_away(
            key,
            |file| Record::Truncate { file, size },
            |contents| contents.resize(size as usize, 0),
        );
        let change = SetAttributes { size: Some(size), ..SetAttributes::default() };
        block_on(self.origin.set_attributes(self.ids[&key].0, change)).expect("memory");
    }

    fn punch(&mut self) {
        let Some(key) = self.a_file() else { return };
        let (offset, length) = (self.random.below(5000), 1 + self.random.below(3000));
        self.take_away(
            key,
            |file| Record::Allocate { file, mode: PUNCH, offset, length },
            |contents| {
                let end = contents.len().min((offset + length) as usize);
                let start = end.min(offset as usize);
                contents[start..end].fill(0);
            },
        );
        let allocation = Allocation { mode: PUNCH, offset, length };
        let file = block_on(self.origin.open(self.ids[&key].0, WRITE)).expect("it is there");
        block_on(file.allocate(allocation)).expect("memory");
    }

    fn chmod(&mut self) {
        let keys: Vec<Key> = self
            .world
            .iter()
            .filter(|(_, node)| node.kind != Kind::Symlink)
            .map(|(key, _)| *key)
            .collect();
        let Some(key) = self.pick(&keys) else { return };
        let permissions = 0o600 + self.random.below(0o100) as u32;
        let time = storage::SetTime::At(Timestamp { seconds: 12, nanoseconds: 0 });
        let change = SetAttributes {
            permissions: Some(permissions),
            modified: (self.random.below(2) == 0).then_some(time),
            ..SetAttributes::default()
        };
        block_on(self.origin.set_attributes(self.ids[&key].0, change)).expect("memory");
        self.world.get_mut(&key).expect("it is there").permissions = permissions;
        let path = self.path(key);
        let Identity { object, born } = self.identity(key);
        let object = Place { object, born, path: &path };
        self.append(&Record::SetAttributes { object, change });
    }

    fn set_xattr(&mut self) {
        let mut keys = self.of_kind(Kind::File);
        keys.extend(self.of_kind(Kind::Directory));
        let Some(key) = self.pick(&keys) else { return };
        let name = format!("user.{}", self.a_name());
        let value = vec![self.random.below(256) as u8; 5];
        let (object, os_name) = (self.ids[&key].0, OsStr::new(&name));
        let path = self.path(key);
        let Identity { born, .. } = self.identity(key);
        let place = Place { object, born, path: &path };
        let xattrs = &mut self.world.get_mut(&key).expect("it is there").xattrs;
        let record = match xattrs.remove(&name) {
            Some(_) => {
                block_on(self.origin.remove_xattr(object, os_name)).expect("it is there");
                Record::RemoveXattr { object: place, name: os_name }
            }
            None => {
                xattrs.insert(name.clone(), value.clone());
                let set = self.origin.set_xattr(object, os_name, &value, XattrMode::Any);
                block_on(set).expect("memory");
                Record::SetXattr { object: place, name: os_name, value: &value }
            }
        };
        self.append(&record);
    }

    /// As editors save: a new file, made to last, is put over the old one.
    fn save(&mut self) {
        let directory = self.a_directory();
        let (name, over) = ("new", self.a_name());
        let Some(key) = self.create_at(Kind::File, directory, name) else { return };
        self.write_at(key, 0, 1500);
        self.fsync_of(key);
        let flags = RenameFlags::empty();
        self.rename_to(key, (directory, name), (directory, &over), flags);
    }

    /// Writes what is dirty of a file to the origin, as a txg does. It stays dirty.
    fn write_back(&mut self) {
        let Some(key) = self.a_file() else { return };
        self.write_back_of(key);
    }

    fn write_back_of(&mut self, key: Key) {
        let dirty = self.dirty.get(&key).cloned().unwrap_or_default();
        let file = block_on(self.origin.open(self.ids[&key].0, WRITE)).expect("it is there");
        for (offset, data) in &dirty {
            block_on(file.write(*offset, data)).expect("memory");
        }
    }

    /// A transaction group, up to one of its stages.
    pub fn txg(&mut self, stages: u64) {
        for key in self.dirty.keys().copied().collect::<Vec<_>>() {
            self.write_back_of(key);
        }
        if stages < 2 {
            return;
        }
        block_on(self.origin.sync()).expect("memory");
        self.dirty.clear();
        if stages < 3 {
            return;
        }
        let last = self.log.last();
        self.simulation.run(self.log.release(last)).expect("the device works");
        self.committed = last;
        let moment = self.worlds.len() - 1;
        for (_, lasting) in self.lasting.iter_mut() {
            lasting.push((last, moment));
        }
    }
}
