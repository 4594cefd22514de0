use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use storage::{NodeKind, ObjectId, RenameFlags};
use zil::{Identity, Made, Name, Place, Position, Record};

/// Most objects and names together that a log may speak of.
pub(super) const ENTRIES_MAX: usize = 8 << 20;

/// Most paths that are kept of a thing: the latest ones.
const PATHS_MAX: usize = 16;

/// Which thing of a ledger.
pub(super) type Index = usize;

/// A name in a directory.
pub(super) type Spot = (Index, OsString);

/// All that a log says of names, without what was written: which objects it speaks of, which names
/// each had, and where each name leads in the end.
///
/// An id may come back for another object: then there is a thing for each of them. A thing that is
/// made starts anew, and so does one that was born at another time than the one before.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub things: Vec<Thing>,
    /// Where each name leads in the end, and what it led to.
    pub names: BTreeMap<Spot, Leads>,
    /// The things of each id, with the records from which on they are meant.
    by_id: HashMap<ObjectId, Vec<(Position, Index)>>,
}

/// An object that the log speaks of.
#[derive(Debug)]
pub(super) struct Thing {
    pub identity: Identity,
    /// How it was made, if the log says that.
    pub making: Option<Making>,
    /// All names that it had, in the order in which they were first spoken of.
    pub names: Vec<Spot>,
    /// Paths at which it was, the latest last.
    pub paths: Vec<OsString>,
    /// The names that lead to it in the end.
    pub bound: Vec<Spot>,
    /// Whether the log tells how it was changed, other than its names.
    pub is_changed: bool,
    /// Whether names are looked for in it.
    pub is_directory: bool,
    /// Whether the log says that its last name was removed.
    lost_last_name: bool,
}

impl Thing {
    /// Whether it is gone in the end. What the log has not made may have names that the log does
    /// not know.
    pub fn is_deleted(&self) -> bool {
        self.bound.is_empty() && (self.making.is_some() || self.lost_last_name)
    }
}

/// How an object was made.
#[derive(Debug, Clone)]
pub(super) struct Making {
    pub shape: Shape,
    pub permissions: u32,
    pub uid: u32,
    pub gid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    File,
    Directory,
    Symlink(OsString),
    Node(NodeKind),
}

/// Where a name leads.
#[derive(Debug, Default)]
pub(super) struct Leads {
    pub to: Target,
    /// All that it led to as far as the log tells.
    pub ever: BTreeSet<Index>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    #[default]
    Nothing,
    Thing(Index),
    Whiteout,
}

impl Ledger {
    /// Takes in the next record.
    pub fn note(&mut self, position: Position, record: &Record<'_>) {
        match record {
            Record::Write { file: place, .. }
            | Record::Truncate { file: place, .. }
            | Record::Allocate { file: place, .. }
            | Record::SetAttributes { object: place, .. }
            | Record::SetXattr { object: place, .. }
            | Record::RemoveXattr { object: place, .. } => {
                let index = self.place(position, place);
                self.things[index].is_changed = true;
            }
            Record::Create(made) => self.made(position, made, Shape::File),
            Record::MakeDirectory(made) => self.made(position, made, Shape::Directory),
            Record::Symlink { made, target } => {
                self.made(position, made, Shape::Symlink(target.to_os_string()));
            }
            Record::MakeNode { made, kind: NodeKind::File } => {
                self.made(position, made, Shape::File);
            }
            Record::MakeNode { made, kind } => self.made(position, made, Shape::Node(*kind)),
            Record::Link { object, name } => {
                let spot = self.spot(position, name);
                let index = self.place(position, object);
                self.bind(spot, index);
            }
            Record::Rename { object, from, to, replaced, is_last, flags } => {
                let replaced = replaced.map(|replaced| (replaced, *is_last));
                self.renamed(position, (*object, replaced), (from, to), *flags);
            }
            Record::Unlink { object, name, is_last } => {
                self.removed(position, *object, name, *is_last);
            }
            Record::RemoveDirectory { object, name } => {
                self.removed(position, *object, name, true);
            }
            _ => {}
        }
    }

    /// Says which names lead to each thing, once all records are taken in.
    pub fn finish(&mut self) {
        for (spot, leads) in &self.names {
            if let Target::Thing(index) = leads.to {
                self.things[index].bound.push(spot.clone());
            }
        }
    }

    /// How much it holds.
    pub fn entries(&self) -> usize {
        self.things.len() + self.names.len()
    }

    /// The thing that a record means.
    pub fn meant(&self, position: Position, object: ObjectId) -> Option<Index> {
        let things = self.by_id.get(&object)?;
        let after = things.partition_point(|(from, _)| *from <= position);
        Some(things[after.checked_sub(1)?].1)
    }

    /// All things of an id.
    pub fn of_id(&self, object: ObjectId) -> impl Iterator<Item = Index> + '_ {
        self.by_id.get(&object).into_iter().flatten().map(|(_, index)| *index)
    }

    /// The things to which a name in one of these directories led, those made last at the end.
    pub fn at_name(&self, directories: Vec<Index>, name: &OsStr) -> Vec<Index> {
        let leads = directories.into_iter().filter_map(|directory| {
            let leads = self.names.get(&(directory, name.to_os_string()))?;
            Some(leads.ever.iter().copied())
        });
        leads.flatten().collect()
    }

    /// A path of a thing, for people.
    pub fn path(&self, index: Index) -> OsString {
        let mut path = OsString::new();
        self.put_path(index, &mut path, 0);
        path
    }

    fn put_path(&self, index: Index, path: &mut OsString, depth: usize) {
        const DEPTH_MAX: usize = 64;
        let thing = &self.things[index];
        match thing.bound.last().or(thing.names.last()) {
            Some((parent, name)) if depth < DEPTH_MAX => {
                self.put_path(*parent, path, depth + 1);
                if !path.is_empty() {
                    path.push("/");
                }
                path.push(name);
            }
            _ => path.push(thing.paths.last().map_or(OsStr::new(""), |path| path)),
        }
    }

    fn add(&mut self, position: Position, identity: Identity) -> Index {
        let index = self.things.len();
        self.things.push(Thing {
            identity,
            making: None,
            names: Vec::new(),
            paths: Vec::new(),
            bound: Vec::new(),
            is_changed: false,
            is_directory: false,
            lost_last_name: false,
        });
        self.by_id.entry(identity.object).or_default().push((position, index));
        index
    }

    fn latest(&self, object: ObjectId) -> Option<Index> {
        self.by_id.get(&object)?.last().map(|(_, index)| *index)
    }

    fn identity(&mut self, position: Position, identity: Identity) -> Index {
        let Some(latest) = self.latest(identity.object) else {
            return self.add(position, identity);
        };
        let known = &mut self.things[latest].identity;
        if known.born.is_some() && identity.born.is_some() && known.born != identity.born {
            return self.add(position, identity);
        }
        known.born = known.born.or(identity.born);
        latest
    }

    fn place(&mut self, position: Position, place: &Place<'_>) -> Index {
        let index = self.identity(position, place.identity());
        let paths = &mut self.things[index].paths;
        if paths.last().is_none_or(|last| last != place.path) {
            paths.retain(|path| path != place.path);
            paths.drain(..(paths.len() + 1).saturating_sub(PATHS_MAX));
            paths.push(place.path.to_os_string());
        }
        index
    }

    fn spot(&mut self, position: Position, name: &Name<'_>) -> Spot {
        let parent = self.place(position, &name.parent);
        self.things[parent].is_directory = true;
        (parent, name.name.to_os_string())
    }

    fn made(&mut self, position: Position, made: &Made<'_>, shape: Shape) {
        let spot = self.spot(position, &made.name);
        let index = match self.latest(made.object) {
            Some(latest)
                if made.born.is_some() && self.things[latest].identity.born == made.born =>
            {
                latest
            }
            _ => self.add(position, made.identity()),
        };
        let Made { permissions, uid, gid, .. } = *made;
        self.things[index].is_directory |= shape == Shape::Directory;
        self.things[index].making = Some(Making { shape, permissions, uid, gid });
        self.bind(spot, index);
    }

    fn removed(&mut self, position: Position, object: Identity, name: &Name<'_>, is_last: bool) {
        let spot = self.spot(position, name);
        let index = self.identity(position, object);
        self.unbind(spot, index, Target::Nothing);
        self.things[index].lost_last_name = is_last;
    }

    fn renamed(
        &mut self,
        position: Position,
        (object, replaced): (Identity, Option<(Identity, bool)>),
        (from, to): (&Name<'_>, &Name<'_>),
        flags: RenameFlags,
    ) {
        let (from, to) = (self.spot(position, from), self.spot(position, to));
        let index = self.identity(position, object);
        let replaced =
            replaced.map(|(replaced, is_last)| (self.identity(position, replaced), is_last));
        if from == to || replaced.is_some_and(|(replaced, _)| replaced == index) {
            // Two names of one object stay as they are.
            return;
        }
        if let Some((replaced, is_last)) = replaced {
            self.unbind(to.clone(), replaced, Target::Nothing);
            self.things[replaced].lost_last_name = is_last;
        }
        let left = match flags.contains(RenameFlags::WHITEOUT) {
            true => Target::Whiteout,
            false => Target::Nothing,
        };
        self.unbind(from.clone(), index, left);
        self.bind(to, index);
        if let (Some((replaced, _)), true) = (replaced, flags.contains(RenameFlags::EXCHANGE)) {
            self.bind(from, replaced);
        }
    }

    fn bind(&mut self, spot: Spot, index: Index) {
        self.unbind(spot, index, Target::Thing(index));
    }

    /// Notes that a name had to do with a thing, and where it leads now.
    fn unbind(&mut self, spot: Spot, index: Index, to: Target) {
        let leads = self.names.entry(spot.clone()).or_default();
        leads.to = to;
        if leads.ever.insert(index) {
            self.things[index].names.push(spot);
        }
    }
}

#[cfg(test)]
mod tests {
    use storage::Timestamp;

    use super::*;

    fn identity(object: u64, born: i64) -> Identity {
        let born = Some(Timestamp { seconds: born, nanoseconds: 0 });
        Identity { object: ObjectId(object), born }
    }

    fn place(object: u64, path: &str) -> Place<'_> {
        let Identity { object, born } = identity(object, object as i64);
        Place { object, born, path: OsStr::new(path) }
    }

    fn name<'a>(parent: Place<'a>, name: &'a str) -> Name<'a> {
        Name { parent, name: OsStr::new(name) }
    }

    fn made(name: Name<'_>, object: u64, born: i64) -> Made<'_> {
        let Identity { object, born } = identity(object, born);
        Made { name, object, born, permissions: 0o644, uid: 0, gid: 0 }
    }

    #[test]
    fn an_id_that_comes_back_is_another_thing() {
        let mut ledger = Ledger::default();
        let root = place(1, "");
        let records = [
            Record::Create(made(name(root, "a"), 5, 50)),
            Record::Unlink { object: identity(5, 50), name: name(root, "a"), is_last: true },
            Record::Create(made(name(root, "a"), 5, 51)),
            Record::Truncate {
                file: Place { born: identity(5, 51).born, ..place(5, "a") },
                size: 1,
            },
        ];
        for (position, record) in (1..).map(Position).zip(&records) {
            ledger.note(position, record);
        }
        ledger.finish();
        let (first, second) =
            (ledger.meant(Position(1), ObjectId(5)), ledger.meant(Position(4), ObjectId(5)));
        let (first, second) = (first.expect("spoken of"), second.expect("spoken of"));
        assert_ne!(first, second);
        assert_eq!(ledger.meant(Position(2), ObjectId(5)), Some(first));
        assert!(ledger.things[first].bound.is_empty() && !ledger.things[first].is_changed);
        assert_eq!(ledger.things[second].bound.len(), 1);
        assert_eq!(ledger.path(second), "a");
        assert_eq!(ledger.meant(Position(4), ObjectId(6)), None);
    }

    #[test]
    fn names_are_followed_through_renames() {
        let mut ledger = Ledger::default();
        let (root, directory) = (place(1, ""), place(2, "d"));
        let rename = |object, from, to, replaced, flags| Record::Rename {
            object: identity(object, object as i64),
            from,
            to,
            replaced,
            is_last: replaced.is_some(),
            flags,
        };
        let none = RenameFlags::empty();
        let records = [
            Record::MakeDirectory(made(name(root, "d"), 2, 2)),
            Record::Create(made(name(directory, "x"), 3, 3)),
            Record::Link { object: place(3, "d/x"), name: name(root, "y") },
            rename(2, name(root, "d"), name(root, "e"), None, none),
            rename(3, name(root, "y"), name(directory, "z"), Some(identity(9, 9)), none),
            rename(
                3,
                name(directory, "z"),
                name(root, "e"),
                Some(identity(2, 2)),
                RenameFlags::EXCHANGE,
            ),
            // Two names of one object.
            rename(3, name(directory, "x"), name(root, "e"), Some(identity(3, 3)), none),
        ];
        for (position, record) in (1..).map(Position).zip(&records) {
            ledger.note(position, record);
        }
        ledger.finish();
        let thing = |object| ledger.meant(Position(9), ObjectId(object)).expect("spoken of");
        let (root, directory, file, replaced) = (thing(1), thing(2), thing(3), thing(9));
        let leads = |parent, name: &str| ledger.names[&(parent, name.into())].to;
        assert_eq!(leads(root, "d"), Target::Nothing);
        assert_eq!(leads(root, "y"), Target::Nothing);
        assert_eq!(leads(root, "e"), Target::Thing(file));
        assert_eq!(leads(directory, "z"), Target::Thing(directory));
        assert_eq!(leads(directory, "x"), Target::Thing(file));
        assert_eq!(ledger.things[file].bound.len(), 2);
        assert!(ledger.things[replaced].bound.is_empty());
        assert_eq!(
            ledger.names[&(directory, "z".into())].ever,
            BTreeSet::from([replaced, file, directory])
        );
    }
}
