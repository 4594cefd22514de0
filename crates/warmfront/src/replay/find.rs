use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use rustix::io::Errno;
use storage::{Entry, Kind, NodeKind, ObjectId, OriginError};

use super::ledger::{Index, Shape, Spot};
use super::{Replay, ReplayError, ReplayProgress, at};

/// Most names that are looked at to find what has been moved to where the log does not know.
const SEARCHED_MAX: u64 = 1 << 20;
/// Deepest directories that are searched.
const DEPTH_MAX: usize = 4096;
/// Most look-ups for one recorded path.
const STEPS_MAX: usize = 256;

/// What has become of a thing.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// Nobody has found it so far.
    Unknown,
    /// It is there.
    There(There),
    /// Something else stands for it, and is left as it is: a directory of its name, a link to its
    /// target.
    StoodFor(ObjectId),
    /// A crash has taken it before the origin made it last.
    Lost,
}

/// A thing that was found or made anew.
#[derive(Debug, Clone)]
pub(super) struct There {
    pub object: ObjectId,
    pub kind: Kind,
    /// It has a name that the log does not know: it was given it after the last record.
    pub strayed: bool,
    /// The directory and the name at which it is.
    pub at: (ObjectId, OsString),
    /// The name that it was lent when it was made anew.
    pub lent: Option<(ObjectId, OsString)>,
}

impl Fate {
    /// The object to look into for names.
    pub fn directory(&self) -> Option<ObjectId> {
        match self {
            Fate::There(there) => Some(there.object),
            Fate::StoodFor(object) => Some(*object),
            Fate::Unknown | Fate::Lost => None,
        }
    }
}

/// Whether what was found is what the log means, and whether that is sure.
enum Likeness {
    Same { is_sure: bool },
    Other,
}

impl Replay<'_> {
    /// Finds all things that are at the origin.
    pub(super) async fn find_all(&mut self) -> Result<(), ReplayError> {
        self.find_named().await?;
        self.find_lost().await?;
        if self.search_named_directories().await? {
            self.find_named().await?;
            self.find_lost().await?;
        }
        if self.search_everywhere().await? {
            self.find_named().await?;
            self.find_lost().await?;
        }
        self.find_lent().await
    }

    /// Finds the names that a replay which was stopped has lent to things that were found by
    /// others, since the directory was not known yet.
    async fn find_lent(&mut self) -> Result<(), ReplayError> {
        for index in std::mem::take(&mut self.lent_unseen) {
            let thing = &self.ledger.things[index];
            let lent = lent_name(&thing.identity);
            let above = thing.bound.first().and_then(|(parent, _)| self.fates[*parent].directory());
            let Some(directory) = above else { continue };
            let Some(entry) = self.occupant(directory, &lent).await? else { continue };
            if let Fate::There(there) = &mut self.fates[index]
                && there.object == entry.object
            {
                there.lent = Some((directory, lent));
            }
        }
        Ok(())
    }

    /// The object at a name. `None` if there is none.
    pub(super) async fn occupant(
        &mut self,
        directory: ObjectId,
        name: &OsStr,
    ) -> Result<Option<Entry>, ReplayError> {
        match self.origin.lookup(directory, name).await {
            Ok(entry) => {
                self.held.push(entry.object);
                Ok(Some(entry))
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(at(&name.to_string_lossy(), error)),
        }
    }

    /// Looks for each thing under all names that it had, and at its recorded paths, until no more
    /// are found: directories may be needed to find others.
    pub(super) async fn find_named(&mut self) -> Result<(), ReplayError> {
        let mut missing: Vec<Index> = (0..self.fates.len())
            .filter(|&index| matches!(self.fates[index], Fate::Unknown | Fate::Lost))
            .collect();
        loop {
            let before = missing.len();
            let mut rest = Vec::new();
            for index in missing {
                if !self.find(index).await? {
                    rest.push(index);
                }
            }
            if rest.is_empty() || rest.len() == before {
                return Ok(());
            }
            missing = rest;
        }
    }

    async fn find(&mut self, index: Index) -> Result<bool, ReplayError> {
        let thing = &self.ledger.things[index];
        let identity = thing.identity;
        if identity.object == self.root {
            let at = (self.root, OsString::new());
            let (kind, strayed, lent) = (Kind::Directory, false, None);
            let there = There { object: self.root, kind, strayed, at, lent };
            self.fates[index] = Fate::There(there);
            return Ok(true);
        }
        if thing.is_directory && thing.paths.iter().any(|path| path.is_empty()) {
            let (logged, found) = (identity.object.0, self.root.0);
            return Err(ReplayError::OtherOrigin { logged, found });
        }
        let (lent, is_made) = (lent_name(&thing.identity), thing.making.is_some());
        let directory_of =
            |(parent, name): &Spot| Some((self.fates[*parent].directory()?, name.clone()));
        let mut places: Vec<(ObjectId, OsString)> = Vec::new();
        let mut is_lent_seen = true;
        if let Some((parent, _)) = thing.bound.first() {
            let place = directory_of(&(*parent, lent.clone()));
            is_lent_seen = place.is_some();
            places.extend(place);
            places.push((self.root, lent.clone()));
        }
        places.extend(thing.names.iter().rev().filter_map(directory_of));
        for (directory, name) in places {
            let Some(entry) = self.occupant(directory, &name).await? else { continue };
            let lent = (name == lent).then(|| (directory, name.clone()));
            let is_other = matches!(self.likeness(index, &entry), Likeness::Other);
            if is_other && (lent.is_none() || !is_made) {
                continue;
            }
            if is_other {
                self.made_anew.insert(entry.object, index);
            }
            let (object, kind) = (entry.object, entry.attributes.kind);
            let (strayed, at) = (false, (directory, name));
            if !is_lent_seen && lent.is_none() {
                self.lent_unseen.push(index);
            }
            let there = There { object, kind, strayed, at, lent };
            self.fates[index] = Fate::There(there);
            return Ok(true);
        }
        let paths = self.ledger.things[index].paths.clone();
        for path in paths.iter().rev().filter(|path| !path.is_empty()) {
            if let Some(there) = self.follow(index, path).await? {
                if !is_lent_seen {
                    self.lent_unseen.push(index);
                }
                self.fates[index] = Fate::There(there);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Follows a recorded path to a thing. Where a directory on the way was renamed, now one and
    /// now another stands under its name: all are tried. One that a crash has taken leads on to
    /// what the log says had been moved into it.
    async fn follow(&mut self, index: Index, path: &OsStr) -> Result<Option<There>, ReplayError> {
        use std::os::unix::ffi::OsStrExt;
        let names: Vec<&OsStr> =
            path.as_bytes().split(|&byte| byte == b'/').map(OsStr::from_bytes).collect();
        let mut open = vec![(Some(self.root), self.things_at(self.root), 0)];
        for _ in 0..STEPS_MAX {
            let Some((directory, things, depth)) = open.pop() else { break };
            let name = names[depth];
            let found = match directory {
                Some(directory) => self.occupant(directory, name).await?,
                None => None,
            };
            if depth + 1 == names.len() {
                if let Some((directory, entry)) = directory.zip(found)
                    && let Likeness::Same { .. } = self.likeness(index, &entry)
                {
                    let (object, kind) = (entry.object, entry.attributes.kind);
                    let (strayed, at) = (false, (directory, name.to_os_string()));
                    let there = There { object, kind, strayed, at, lent: None };
                    return Ok(Some(there));
                }
                continue;
            }
            for thing in self.ledger.at_name(things, name) {
                let directory = self.fates[thing].directory();
                let mut things = directory.map_or(Vec::new(), |object| self.things_at(object));
                if !things.contains(&thing) {
                    things.push(thing);
                }
                open.push((directory, things, depth + 1));
            }
            let found = found.filter(|entry| entry.attributes.kind == Kind::Directory);
            let found = found.map(|entry| entry.object);
            let is_open = open.iter().any(|(at, _, deep)| *at == found && *deep == depth + 1);
            if let Some(object) = found
                && !is_open
            {
                open.push((found, self.things_at(object), depth + 1));
            }
        }
        Ok(None)
    }

    /// The things that an object of the origin is taken for.
    fn things_at(&self, object: ObjectId) -> Vec<Index> {
        let things = self.ledger.of_id(object);
        things.filter(|&index| self.fates[index].directory() == Some(object)).collect()
    }

    fn likeness(&self, index: Index, entry: &Entry) -> Likeness {
        let thing = &self.ledger.things[index];
        let attributes = &entry.attributes;
        let kind = match &thing.making {
            Some(making) => kind_of(&making.shape) == attributes.kind,
            None => !thing.is_directory || attributes.kind == Kind::Directory,
        };
        if entry.object != thing.identity.object || !kind {
            return Likeness::Other;
        }
        match (thing.identity.born, attributes.born) {
            (Some(logged), Some(born)) if logged == born => Likeness::Same { is_sure: true },
            (Some(_), Some(_)) => Likeness::Other,
            _ => Likeness::Same { is_sure: false },
        }
    }

    /// The thing that an object of the origin is, by its birth if that is told.
    pub(super) fn recognise(&self, entry: &Entry) -> Option<(Index, bool)> {
        self.ledger.of_id(entry.object).find_map(|index| match self.likeness(index, entry) {
            Likeness::Same { is_sure } => Some((index, is_sure)),
            Likeness::Other => None,
        })
    }

    /// Whether it matters what has become of a thing.
    pub(super) fn is_wanted(&self, index: Index) -> bool {
        let thing = &self.ledger.things[index];
        !thing.bound.is_empty() || (thing.is_changed && !thing.is_deleted())
    }

    /// Finds out which things a crash has taken, so that one need not look for them: those that
    /// were made in a directory whose names have not been changed since before they were born.
    async fn find_lost(&mut self) -> Result<(), ReplayError> {
        if self.options.names_lasted {
            return Ok(());
        }
        loop {
            let mut news = false;
            for index in 0..self.fates.len() {
                let thing = &self.ledger.things[index];
                let Some((parent, _)) = thing.names.first().filter(|_| thing.making.is_some())
                else {
                    continue;
                };
                if !matches!(self.fates[index], Fate::Unknown) {
                    continue;
                }
                let (parent, born) = (*parent, thing.identity.born);
                let is_lost = match (&self.fates[parent], born) {
                    (Fate::Lost, _) => true,
                    (Fate::There(there), Some(born)) => {
                        let object = there.object;
                        let found = self.origin.attributes(object).await;
                        found.map_err(|error| self.failed(parent, error))?.changed < born
                    }
                    _ => false,
                };
                if is_lost {
                    self.fates[index] = Fate::Lost;
                    news = true;
                }
            }
            if !news {
                return Ok(());
            }
        }
    }

    /// The ids of things that are wanted, known by their births, and nowhere.
    fn missing(&self) -> HashSet<ObjectId> {
        let unknown = |index: &Index| matches!(self.fates[*index], Fate::Unknown);
        (0..self.fates.len())
            .filter(unknown)
            .filter(|&index| self.is_wanted(index))
            .map(|index| self.ledger.things[index].identity)
            .filter(|identity| identity.born.is_some())
            .map(|identity| identity.object)
            .collect()
    }

    /// Looks for what is missing in the directories of which the log speaks.
    async fn search_named_directories(&mut self) -> Result<bool, ReplayError> {
        let mut missing = self.missing();
        let mut found = false;
        for index in 0..self.fates.len() {
            if missing.is_empty() {
                break;
            }
            if let Some(directory) = self.fates[index].directory()
                && self.ledger.things[index].is_directory
            {
                found |= self.search(directory, &mut missing, &mut Vec::new()).await?.1;
            }
        }
        Ok(found)
    }

    /// Looks for what is missing all over the origin.
    async fn search_everywhere(&mut self) -> Result<bool, ReplayError> {
        let mut missing = self.missing();
        let (mut found, mut names) = (false, 0);
        let mut open = vec![(self.root, 0)];
        while let Some((directory, depth)) = open.pop() {
            if missing.is_empty() || names > SEARCHED_MAX {
                break;
            }
            let mut below = Vec::new();
            let (count, news) = self.search(directory, &mut missing, &mut below).await?;
            found |= news;
            names += count;
            (self.tell)(ReplayProgress::Searching { names });
            if depth < DEPTH_MAX {
                open.extend(below.into_iter().map(|object| (object, depth + 1)));
            }
        }
        Ok(found)
    }

    /// Looks for what is missing in one directory. Says how many names it has and whether anything
    /// was found, and collects the directories in it.
    async fn search(
        &mut self,
        directory: ObjectId,
        missing: &mut HashSet<ObjectId>,
        below: &mut Vec<ObjectId>,
    ) -> Result<(u64, bool), ReplayError> {
        let listed = match self.origin.list(directory).await {
            Ok(listed) => listed,
            Err(error) if error.is_unreachable() => return Err(at("", error)),
            // It was removed, or may not be read.
            Err(_) => return Ok((0, false)),
        };
        let names = listed.len() as u64;
        let mut found = false;
        for listed in listed {
            let is_directory = listed.kind.is_none_or(|kind| kind == Kind::Directory);
            let may_be = listed.object == ObjectId(0) || missing.contains(&listed.object);
            if !is_directory && !may_be {
                continue;
            }
            let Some(entry) = self.occupant(directory, &listed.name).await? else { continue };
            if entry.attributes.kind == Kind::Directory {
                below.push(entry.object);
            }
            if let Some((index, true)) = self.recognise(&entry)
                && matches!(self.fates[index], Fate::Unknown)
            {
                missing.remove(&entry.object);
                found = true;
                let (object, kind) = (entry.object, entry.attributes.kind);
                let (strayed, at) = (true, (directory, listed.name));
                let there = There { object, kind, strayed, at, lent: None };
                self.fates[index] = Fate::There(there);
            }
        }
        Ok((names, found))
    }
}

/// Whether an error says that what was asked for, or the directory that it was in, is not there.
pub(super) fn is_gone(error: &OriginError) -> bool {
    let errno = match error {
        OriginError::Stale { .. } => return true,
        OriginError::System { errno, .. } => *errno,
        _ => return false,
    };
    matches!(errno, Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::LOOP)
}

/// The name that a thing is lent while it is made anew: it tells which one it is.
pub(super) fn lent_name(identity: &zil::Identity) -> OsString {
    let born = identity.born.unwrap_or_default();
    let object = identity.object.0;
    format!(".warmfront-replay-{object:x}-{:x}-{:x}", born.seconds, born.nanoseconds).into()
}

pub(super) fn kind_of(shape: &Shape) -> Kind {
    match shape {
        Shape::File | Shape::Node(NodeKind::File) => Kind::File,
        Shape::Directory => Kind::Directory,
        Shape::Symlink(_) => Kind::Symlink,
        Shape::Node(NodeKind::Fifo) => Kind::Fifo,
        Shape::Node(NodeKind::Socket) => Kind::Socket,
        Shape::Node(NodeKind::CharacterDevice(_)) => Kind::CharacterDevice,
        Shape::Node(NodeKind::BlockDevice(_)) => Kind::BlockDevice,
    }
}
