use std::collections::HashSet;
use std::ffi::OsStr;

use rustix::io::Errno;
use storage::{
    Caller, Capabilities, Entry, Kind, Node, NodeKind, ObjectId, OriginError, RenameFlags,
};

use super::find::{Fate, There, lent_name};
use super::ledger::{Index, Spot, Target};
use super::make::Standing;
use super::report::{SkipReason, Skipped};
use super::{Replay, ReplayError};

/// What has become of a name that is to be given or removed.
enum Outcome {
    Done,
    /// Something else has to be done first.
    Later(SkipReason),
    Never(SkipReason),
}

/// A name whose last owner has to lose it, or where a thing has to go.
struct Step {
    spot: Spot,
    to: Target,
}

impl Replay<'_> {
    /// Brings all names to where the log leads. Directories that were made anew keep the names that
    /// they were lent, by which they are known, until all is in them that should be.
    pub(super) async fn settle(&mut self) -> Result<(), ReplayError> {
        let is_lent_directory = |step: &Step| match step.to {
            Target::Thing(index) => match &self.fates[index] {
                Fate::There(there) => there.kind == Kind::Directory && there.lent.is_some(),
                _ => false,
            },
            _ => false,
        };
        let names = self.ledger.names.iter();
        let steps = names.map(|(spot, leads)| Step { spot: spot.clone(), to: leads.to });
        let (directories, others) = steps.partition(is_lent_directory);
        self.all_made = true;
        self.take_steps(others).await?;
        self.sync().await?;
        self.take_steps(directories).await
    }

    /// Takes steps, those first that others wait for. Names are given before others are removed,
    /// so that no object is without one in between.
    async fn take_steps(&mut self, mut steps: Vec<Step>) -> Result<(), ReplayError> {
        let mut by_force = false;
        while !steps.is_empty() {
            let before = (steps.len(), self.set_aside_count);
            let mut rest = Vec::new();
            for step in steps {
                let outcome = match step.to {
                    Target::Thing(index) => self.give(index, &step.spot, by_force).await?,
                    to => self.clear(&step.spot, to).await?,
                };
                match outcome {
                    Outcome::Done => {}
                    Outcome::Later(reason) => rest.push((step, reason)),
                    Outcome::Never(reason) => self.skip_name(&step, reason),
                }
            }
            let stands_still = (rest.len(), self.set_aside_count) == before;
            if stands_still && by_force {
                for (step, reason) in rest {
                    self.skip_name(&step, reason);
                }
                return Ok(());
            }
            by_force = stands_still;
            steps = rest.into_iter().map(|(step, _)| step).collect();
        }
        Ok(())
    }

    fn skip_name(&mut self, step: &Step, reason: SkipReason) {
        let (parent, name) = &step.spot;
        let mut path = self.ledger.path(*parent);
        if !path.is_empty() {
            path.push("/");
        }
        path.push(name);
        self.report.skip(Skipped { path, reason, records: 0, data_bytes: 0 });
    }

    /// Gives a name to a thing.
    async fn give(
        &mut self,
        index: Index,
        spot: &Spot,
        by_force: bool,
    ) -> Result<Outcome, ReplayError> {
        match &self.fates[index] {
            Fate::There(there) if !there.strayed && there.object != self.root => {}
            // The others are reported, or have names that are younger than the log.
            _ => return Ok(Outcome::Done),
        }
        let directory = match (&self.fates[spot.0], &self.fates[index]) {
            (Fate::There(above), _) => above.object,
            (Fate::StoodFor(above), Fate::There(there)) if there.lent.is_some() => *above,
            _ => return Ok(Outcome::Never(SkipReason::NoDirectory)),
        };
        match self.standing(index, directory, spot).await? {
            Standing::Right => Ok(Outcome::Done),
            Standing::Free => self.place(index, directory, &spot.1, false).await,
            Standing::Foreign(_) => Ok(Outcome::Never(SkipReason::Occupied)),
            Standing::Unsure => Ok(Outcome::Never(SkipReason::Unsure)),
            Standing::Passed { holder, entry } => {
                self.replace(index, (directory, spot), (holder, entry), by_force).await
            }
        }
    }

    /// Gives a thing the name of another one, which the log says has lost it.
    async fn replace(
        &mut self,
        index: Index,
        (directory, spot): (ObjectId, &Spot),
        (holder, entry): (Index, Entry),
        by_force: bool,
    ) -> Result<Outcome, ReplayError> {
        let (name, links) = (&*spot.1, entry.attributes.links);
        if !self.can_lose_a_name(holder, links).await? {
            if self.ledger.things[holder].bound.is_empty() {
                // It has been given this name again since.
                return Ok(Outcome::Never(SkipReason::Occupied));
            }
            if !by_force {
                return Ok(Outcome::Later(SkipReason::Circular));
            }
            if !self.will_get_a_name(holder, index).await? {
                return Ok(Outcome::Never(SkipReason::Occupied));
            }
            self.set_aside(holder, directory, name).await?;
            return self.place(index, directory, name, false).await;
        }
        let new_is_directory = self.is_directory(index);
        let old_is_directory = entry.attributes.kind == Kind::Directory;
        if new_is_directory == old_is_directory && !old_is_directory {
            return self.place(index, directory, name, true).await;
        }
        match self.remove(holder, directory, name, old_is_directory).await? {
            Outcome::Done => self.place(index, directory, name, false).await,
            outcome => {
                // It may lie in the directory that it is to replace.
                if by_force && let Fate::There(There { at, lent: None, .. }) = &self.fates[index] {
                    let (above, old_name) = at.clone();
                    self.set_aside(index, above, &old_name).await?;
                }
                Ok(outcome)
            }
        }
    }

    /// Whether an object with so many names may lose one.
    async fn can_lose_a_name(&mut self, index: Index, links: u32) -> Result<bool, ReplayError> {
        match &self.fates[index] {
            Fate::There(There { lent: Some(_), .. }) => Ok(true),
            _ => self.keeps_a_name(index, links).await,
        }
    }

    /// Whether the log has deleted an object, or it has another name that it keeps.
    async fn keeps_a_name(&mut self, index: Index, links: u32) -> Result<bool, ReplayError> {
        let thing = &self.ledger.things[index];
        let bound = thing.bound.clone();
        if bound.is_empty() {
            return Ok(thing.is_deleted() || links > 1);
        }
        for spot in bound {
            if let Some(directory) = self.fates[spot.0].directory()
                && let Standing::Right = self.standing(index, directory, &spot).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a thing would get one of the names that lead to it in the end, if it were set aside
    /// for another one. A circle comes round to that.
    pub(super) async fn will_get_a_name(
        &mut self,
        index: Index,
        other: Index,
    ) -> Result<bool, ReplayError> {
        let (mut open, mut seen) = (vec![index], HashSet::from([index]));
        while let Some(index) = open.pop() {
            for spot in self.ledger.things[index].bound.clone() {
                let Some(directory) = self.fates[spot.0].directory() else {
                    if self.is_about_to_be_made(spot.0) {
                        return Ok(true);
                    }
                    continue;
                };
                match self.standing(index, directory, &spot).await? {
                    Standing::Free | Standing::Right => return Ok(true),
                    Standing::Passed { holder, entry } => {
                        let thing = &self.ledger.things[holder];
                        if holder == other || thing.is_deleted() || entry.attributes.links > 1 {
                            return Ok(true);
                        }
                        if seen.insert(holder) {
                            open.push(holder);
                        }
                    }
                    Standing::Foreign(_) | Standing::Unsure => {}
                }
            }
        }
        Ok(false)
    }

    fn is_directory(&self, index: Index) -> bool {
        matches!(&self.fates[index], Fate::There(there) if there.kind == Kind::Directory)
    }

    /// Moves what stands in the way to a name that it is lent.
    async fn set_aside(
        &mut self,
        holder: Index,
        directory: ObjectId,
        name: &OsStr,
    ) -> Result<(), ReplayError> {
        let thing = &self.ledger.things[holder];
        let lent = lent_name(&thing.identity);
        let above = thing.bound.first().and_then(|(parent, _)| self.fates[*parent].directory());
        // Where a replay looks for it that begins again.
        let aside = above.unwrap_or(self.root);
        let flags = RenameFlags::empty();
        let (moved, aside) = match self.origin.rename(directory, name, aside, &lent, flags).await {
            Err(OriginError::System { errno: Errno::INVAL, .. }) => {
                let root = self.root;
                (self.origin.rename(directory, name, root, &lent, flags).await, root)
            }
            moved => (moved, aside),
        };
        moved.map_err(|error| self.failed(holder, error))?;
        self.set_aside_count += 1;
        if let Fate::There(there) = &mut self.fates[holder] {
            there.at = (aside, lent.clone());
            there.lent = Some((aside, lent));
        }
        Ok(())
    }

    /// Puts a thing at a name, in place of what is there if that is to be replaced.
    async fn place(
        &mut self,
        index: Index,
        directory: ObjectId,
        name: &OsStr,
        replaces: bool,
    ) -> Result<Outcome, ReplayError> {
        let Fate::There(there) = &self.fates[index] else { return Ok(Outcome::Done) };
        let (object, (parent, old_name)) = (there.object, there.at.clone());
        let flags = RenameFlags::empty();
        let links = self.origin.capabilities().contains(Capabilities::LINKS);
        if links && there.kind != Kind::Directory {
            let linked = match replaces {
                false => {
                    let linked = self.origin.link(object, directory, name).await;
                    linked.map(|entry| self.held.push(entry.object))
                }
                true => {
                    let mut new = lent_name(&self.ledger.things[index].identity);
                    new.push("-new");
                    match self.link_again(object, directory, &new).await {
                        Ok(()) => self.origin.rename(directory, &new, directory, name, flags).await,
                        linked => linked,
                    }
                }
            };
            match linked {
                Ok(()) => {
                    self.report.named += 1;
                    return Ok(Outcome::Done);
                }
                Err(error) if is_no_link(&error) => {}
                Err(error) => return Err(self.failed(index, error)),
            }
        }
        match self.origin.rename(parent, &old_name, directory, name, flags).await {
            Ok(()) => {}
            Err(OriginError::System { errno: Errno::INVAL, .. }) => {
                return Ok(Outcome::Later(SkipReason::Circular));
            }
            Err(error) => return Err(self.failed(index, error)),
        }
        self.report.named += 1;
        if let Fate::There(there) = &mut self.fates[index] {
            there.at = (directory, name.to_os_string());
            there.lent = None;
        }
        Ok(Outcome::Done)
    }

    /// Makes a further name, which may be there from a replay that was stopped.
    async fn link_again(
        &mut self,
        object: ObjectId,
        directory: ObjectId,
        name: &OsStr,
    ) -> Result<(), OriginError> {
        match self.origin.link(object, directory, name).await {
            Ok(entry) => self.held.push(entry.object),
            Err(OriginError::System { errno: Errno::EXIST, .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Removes a name that leads nowhere in the end, if what it leads to is what had it.
    async fn clear(&mut self, spot: &Spot, to: Target) -> Result<Outcome, ReplayError> {
        let (parent, name) = spot;
        let Some(directory) = self.fates[*parent].directory() else { return Ok(Outcome::Done) };
        let outcome = match self.occupant(directory, name).await? {
            None => Outcome::Done,
            Some(entry) => match self.recognise_made(&entry) {
                Some((holder, is_sure)) if self.ledger.names[spot].ever.contains(&holder) => {
                    if !is_sure {
                        return Ok(Outcome::Never(SkipReason::Unsure));
                    }
                    let links = entry.attributes.links;
                    if !self.can_lose_a_name(holder, links).await? {
                        return Ok(match self.ledger.things[holder].bound.is_empty() {
                            true => Outcome::Done,
                            // It keeps this name if it does not get another one.
                            false => Outcome::Later(SkipReason::Occupied),
                        });
                    }
                    let is_directory = entry.attributes.kind == Kind::Directory;
                    self.remove(holder, directory, name, is_directory).await?
                }
                // Somebody has given it to another object since.
                _ => return Ok(Outcome::Done),
            },
        };
        if let (Outcome::Done, Target::Whiteout) = (&outcome, to) {
            let caller = Caller { uid: 0, gid: 0, umask: 0 };
            let node = Node { parent: directory, name, permissions: 0, caller };
            let made = self.origin.make_node(node, NodeKind::CharacterDevice(0)).await;
            let entry = made.map_err(|error| self.failed(*parent, error))?;
            self.held.push(entry.object);
        }
        Ok(outcome)
    }

    async fn remove(
        &mut self,
        holder: Index,
        directory: ObjectId,
        name: &OsStr,
        is_directory: bool,
    ) -> Result<Outcome, ReplayError> {
        let removed = match is_directory {
            true => self.origin.remove_directory(directory, name).await,
            false => self.origin.unlink(directory, name).await,
        };
        match removed {
            Ok(()) => {
                self.report.unnamed += 1;
                Ok(Outcome::Done)
            }
            Err(OriginError::System { errno: Errno::NOTEMPTY | Errno::EXIST, .. }) => {
                Ok(Outcome::Later(SkipReason::NotEmpty))
            }
            Err(error) => Err(self.failed(holder, error)),
        }
    }

    /// Takes away the names that were lent. What was made anew and could not be given a name, since
    /// all of its names belong to others by now, goes with them.
    pub(super) async fn take_lent_names(&mut self) -> Result<(), ReplayError> {
        for index in 0..self.fates.len() {
            let Fate::There(there) = &self.fates[index] else { continue };
            let (Some((directory, name)), object) = (there.lent.clone(), there.object) else {
                continue;
            };
            let Some(found) = self.occupant(directory, &name).await? else { continue };
            let links = found.attributes.links;
            if found.object != object {
                continue;
            }
            if self.made_anew.contains_key(&object) || self.keeps_a_name(index, links).await? {
                let is_directory = self.is_directory(index);
                self.remove(index, directory, &name, is_directory).await?;
            } else {
                self.put_back(index, directory, &name).await?;
            }
        }
        Ok(())
    }

    /// Gives a thing that was set aside in vain a name back that it had before.
    async fn put_back(
        &mut self,
        index: Index,
        lent: ObjectId,
        lent_name: &OsStr,
    ) -> Result<(), ReplayError> {
        let names = self.ledger.things[index].names.clone();
        for (parent, name) in names.into_iter().rev() {
            let Some(directory) = self.fates[parent].directory() else { continue };
            if self.occupant(directory, &name).await?.is_none() {
                let flags = RenameFlags::empty();
                let moved = self.origin.rename(lent, lent_name, directory, &name, flags).await;
                return moved.map_err(|error| self.failed(index, error));
            }
        }
        Ok(())
    }
}

/// Whether there can be no further name.
fn is_no_link(error: &OriginError) -> bool {
    match error {
        OriginError::Unsupported { .. } => true,
        OriginError::System { errno, .. } => {
            matches!(*errno, Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK)
        }
        _ => false,
    }
}
