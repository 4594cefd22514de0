use std::ffi::OsString;

use storage::{Caller, Entry, Kind, Node, NodeKind, ObjectId, OpenMode, SetAttributes};

use super::find::{Fate, There, kind_of, lent_name};
use super::ledger::{Index, Making, Shape, Spot};
use super::report::SkipReason;
use super::{Replay, ReplayError};

/// What keeps a name from being given.
pub(super) enum Standing {
    /// Nothing has it.
    Free,
    /// It leads to the right object already.
    Right,
    /// It leads to a thing that has lost it, as the log says.
    Passed { holder: Index, entry: Entry },
    /// It leads to what the log does not speak of.
    Foreign(Entry),
    /// It leads to what the log may speak of.
    Unsure,
}

impl Replay<'_> {
    /// Makes what was made and is nowhere, each in its directory under a name that it is lent.
    /// Directories come before what is in them.
    pub(super) async fn make_missing(&mut self) -> Result<(), ReplayError> {
        // Directories first: what is in them may still have the name that it was lent.
        for directories in [true, false] {
            while self.find_what_stands_for(directories).await? {
                self.find_named().await?;
            }
        }
        let mut missing = self.missing_made();
        loop {
            let before = missing.len();
            let mut rest = Vec::new();
            for index in missing {
                if !self.make(index).await? {
                    rest.push(index);
                }
            }
            if rest.is_empty() || rest.len() == before {
                return Ok(());
            }
            missing = rest;
        }
    }

    /// Whether a directory is not there yet, but may be soon.
    pub(super) fn is_about_to_be_made(&self, index: Index) -> bool {
        let thing = &self.ledger.things[index];
        !self.all_made
            && thing.making.is_some()
            && !thing.bound.is_empty()
            && self.occupied.get(&index) != Some(&SkipReason::Occupied)
    }

    /// What the log has made and not deleted, and is nowhere.
    fn missing_made(&self) -> Vec<Index> {
        let is_missing = |index: &Index| {
            let thing = &self.ledger.things[*index];
            let unknown = matches!(self.fates[*index], Fate::Unknown | Fate::Lost);
            unknown && thing.making.is_some() && !thing.bound.is_empty()
        };
        (0..self.fates.len()).filter(is_missing).collect()
    }

    /// Finds what does the same as something that is missing, at its name: perhaps a replay that
    /// was stopped has made it, and it has had its lent name taken already.
    async fn find_what_stands_for(&mut self, directories: bool) -> Result<bool, ReplayError> {
        let mut found = false;
        for index in self.missing_made() {
            let thing = &self.ledger.things[index];
            if thing.is_directory != directories {
                continue;
            }
            let (making, bound) = (thing.making.clone(), thing.bound.clone());
            for spot in bound {
                if let Some(directory) = self.fates[spot.0].directory()
                    && let Standing::Foreign(entry) = self.standing(index, directory, &spot).await?
                    && let Some(making) = &making
                    && self.stands_for(&making.shape, &entry).await?
                {
                    self.fates[index] = Fate::StoodFor(entry.object);
                    found = true;
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Makes a thing, if one of its names can be given to it.
    async fn make(&mut self, index: Index) -> Result<bool, ReplayError> {
        let thing = &self.ledger.things[index];
        let (Some(making), bound) = (thing.making.clone(), thing.bound.clone()) else {
            return Ok(false);
        };
        // In a directory that merely has the name of the right one nothing is made.
        let Fate::There(first) = &self.fates[bound[0].0] else {
            self.occupied.insert(index, SkipReason::NoDirectory);
            return Ok(false);
        };
        let first = first.object;
        let mut is_wanted = false;
        for spot in &bound {
            let Some(directory) = self.fates[spot.0].directory() else { continue };
            match self.standing(index, directory, spot).await? {
                Standing::Free | Standing::Right => is_wanted = true,
                Standing::Passed { holder, entry } => {
                    is_wanted |= self.ledger.things[holder].is_deleted()
                        || entry.attributes.links > 1
                        || self.will_get_a_name(holder, index).await?;
                }
                Standing::Foreign(_) | Standing::Unsure => {}
            }
        }
        if !is_wanted {
            self.occupied.insert(index, SkipReason::Occupied);
            return Ok(false);
        }
        let name = lent_name(&self.ledger.things[index].identity);
        let object = self.make_as(index, first, &name, &making).await?;
        self.report.made += 1;
        self.made_anew.insert(object, index);
        self.occupied.remove(&index);
        let (kind, strayed) = (kind_of(&making.shape), false);
        let (at, lent) = ((first, name.clone()), Some((first, name)));
        let there = There { object, kind, strayed, at, lent };
        self.fates[index] = Fate::There(there);
        Ok(true)
    }

    /// Makes an object, and sees to it that it belongs to whom it should.
    async fn make_as(
        &mut self,
        index: Index,
        parent: ObjectId,
        name: &OsString,
        making: &Making,
    ) -> Result<ObjectId, ReplayError> {
        let Making { shape, permissions, uid, gid } = making;
        let (permissions, uid, gid) = (*permissions, *uid, *gid);
        let caller = Caller { uid, gid, umask: 0 };
        let node = Node { parent, name, permissions, caller };
        let made = match shape {
            Shape::File => {
                let mode = OpenMode { write: true, ..OpenMode::default() };
                self.origin.create(node, mode).await.map(|created| created.entry)
            }
            Shape::Directory => self.origin.make_directory(node).await,
            Shape::Symlink(target) => self.origin.symlink(node, target).await,
            Shape::Node(kind) => self.origin.make_node(node, *kind).await,
        };
        let entry = made.map_err(|error| self.failed(index, error))?;
        self.held.push(entry.object);
        let found = entry.attributes;
        let is_link = found.kind == Kind::Symlink;
        let owner = SetAttributes {
            uid: (found.uid != uid).then_some(uid),
            gid: (found.gid != gid).then_some(gid),
            ..SetAttributes::default()
        };
        let changes_owner = owner != SetAttributes::default();
        let mode = SetAttributes {
            permissions: Some(permissions)
                .filter(|_| !is_link && (changes_owner || found.permissions != permissions)),
            ..SetAttributes::default()
        };
        for change in [owner, mode] {
            if change != SetAttributes::default() {
                let set = self.origin.set_attributes(entry.object, change).await;
                set.map_err(|error| self.failed(index, error))?;
            }
        }
        Ok(entry.object)
    }

    /// What is at a name to which a thing is bound.
    pub(super) async fn standing(
        &mut self,
        index: Index,
        directory: ObjectId,
        (parent, name): &Spot,
    ) -> Result<Standing, ReplayError> {
        let Some(entry) = self.occupant(directory, name).await? else {
            return Ok(Standing::Free);
        };
        if let Fate::There(there) = &self.fates[index]
            && there.object == entry.object
        {
            return Ok(Standing::Right);
        }
        let Some((holder, is_sure)) = self.recognise_made(&entry) else {
            return Ok(Standing::Foreign(entry));
        };
        let leads = &self.ledger.names[&(*parent, name.clone())];
        Ok(match (leads.ever.contains(&holder), is_sure) {
            (true, true) => Standing::Passed { holder, entry },
            (true, false) => Standing::Unsure,
            (false, _) => Standing::Foreign(entry),
        })
    }

    /// The thing that an object is, also one that was made anew.
    pub(super) fn recognise_made(&self, entry: &Entry) -> Option<(Index, bool)> {
        match self.made_anew.get(&entry.object) {
            Some(&index) => Some((index, true)),
            None => self.recognise(entry),
        }
    }

    /// Whether an object of which the log does not speak does what one that is missing would:
    /// perhaps a replay that was stopped has made it.
    async fn stands_for(&mut self, shape: &Shape, entry: &Entry) -> Result<bool, ReplayError> {
        if kind_of(shape) != entry.attributes.kind {
            return Ok(false);
        }
        Ok(match shape {
            Shape::File => false,
            Shape::Directory => true,
            Shape::Symlink(target) => {
                self.origin.read_link(entry.object).await.is_ok_and(|found| found == *target)
            }
            Shape::Node(NodeKind::CharacterDevice(device) | NodeKind::BlockDevice(device)) => {
                entry.attributes.device == *device
            }
            Shape::Node(_) => true,
        })
    }
}
