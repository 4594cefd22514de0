use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use storage::{Entry, Kind, Node, NodeKind, ObjectId, RenameFlags};
use zil::{Identity, Name, Record};

use crate::answer::Content;
use crate::error::{EngineError, Result};
use crate::intent::{MadeKind, place};
use crate::key::Part;
use crate::lookup::Found;
use crate::object::{Naming, Object, Place};
use crate::pool::Pool;
use crate::property::{CacheLevel, SyncMode};
use crate::version::StaleBy;

/// What of a directory's range lock stands for its names: look-ups share it, changes exclude them.
pub(crate) const NAMES: Range<u64> = 0..1;
/// What of it stands for the question for all names: who asks while another does waits for that
/// answer.
pub(crate) const LISTING: Range<u64> = 1..2;

/// Changes of names. Each goes to the origin at once; then the cached answers follow it.
impl Pool {
    /// Makes a directory.
    ///
    /// # Errors
    /// As the origin decides; [`ReadOnly`](crate::EngineError::ReadOnly) before it is asked.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let name = "mail".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// let made = pool.make_directory(node).await?;
    /// assert_eq!(pool.lookup(pool.root(), name).await?.object, made.object);
    /// # Ok(()) }) }
    /// ```
    pub async fn make_directory(self: &Arc<Self>, node: Node<'_>) -> Result<Found> {
        let directory = self.directory_to_change(node.parent)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[Part::Listing]).await?;
        let made = self.origin.make_directory(node).await;
        self.made(&directory, node.name, made, MadeKind::Directory).await
    }

    /// Makes a special file or an empty regular one.
    ///
    /// # Errors
    /// As [`make_directory`](Pool::make_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::storage::{Kind, NodeKind};
    ///
    /// let name = "queue".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// let made = pool.make_node(node, NodeKind::Fifo).await?;
    /// assert_eq!(made.attributes.kind, Kind::Fifo);
    /// # Ok(()) }) }
    /// ```
    pub async fn make_node(self: &Arc<Self>, node: Node<'_>, kind: NodeKind) -> Result<Found> {
        let directory = self.directory_to_change(node.parent)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[Part::Listing]).await?;
        let made = self.origin.make_node(node, kind).await;
        self.made(&directory, node.name, made, MadeKind::Node(kind)).await
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`make_directory`](Pool::make_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let name = "link".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// let link = pool.symlink(node, "file".as_ref()).await?;
    /// assert_eq!(*pool.read_link(link.object).await?, "file");
    /// # Ok(()) }) }
    /// ```
    pub async fn symlink(self: &Arc<Self>, node: Node<'_>, target: &OsStr) -> Result<Found> {
        let directory = self.directory_to_change(node.parent)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[Part::Listing]).await?;
        let made = self.origin.symlink(node, target).await;
        self.made(&directory, node.name, made, MadeKind::Symlink(target)).await
    }

    /// Makes a further name for `object`.
    ///
    /// # Errors
    /// As [`make_directory`](Pool::make_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let linked = pool.link(found.object, pool.root(), "second".as_ref()).await?;
    /// assert_eq!(linked.attributes.links, 2);
    /// # Ok(()) }) }
    /// ```
    pub async fn link(
        self: &Arc<Self>,
        object: ObjectId,
        parent: ObjectId,
        name: &OsStr,
    ) -> Result<Found> {
        let directory = self.directory_to_change(parent)?;
        let linked = self.object(object)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[Part::Listing]).await?;
        self.check_before_change(&linked, None).await.or_else(ignore_gone)?;
        self.before_attributes_change(&linked).await?;
        let made = self.origin.link(object, parent, name).await;
        if may_have_changed(&made) {
            linked.update(|version| version.expire(StaleBy::Attributes));
        }
        self.made(&directory, name, made, MadeKind::Link).await
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// As [`make_directory`](Pool::make_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// pool.unlink(pool.root(), "file".as_ref()).await?;
    /// assert!(pool.lookup(pool.root(), "file".as_ref()).await.is_err());
    /// # Ok(()) }) }
    /// ```
    pub async fn unlink(self: &Arc<Self>, parent: ObjectId, name: &OsStr) -> Result<()> {
        let directory = self.directory_to_change(parent)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[Part::Listing]).await?;
        let victim = self.named(&directory, name).await;
        if let Some(victim) = &victim {
            // Its contents live on if it has other names or is open.
            self.check_before_change(victim, None).await.or_else(ignore_gone)?;
            self.open_postponed(victim).await;
            self.before_attributes_change(victim).await?;
        }
        self.end_on_flash(&directory, name).await?;
        let (object, is_last) = self.identity(victim.as_deref(), &directory, name).await;
        let victim = victim.map(|object| (object.naming(), object));
        let removed = self.origin.unlink(parent, name).await;
        if removed.is_ok() {
            let path = self.path_of(&directory);
            let name = Name { parent: place(&directory, &path), name };
            self.log_change(&Record::Unlink { object, name, is_last }).await;
        }
        self.removed(&directory, name, victim.as_ref(), removed)?;
        self.names_done(&directory).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`make_directory`](Pool::make_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let name = "mail".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// pool.make_directory(node).await?;
    /// pool.remove_directory(pool.root(), name).await?;
    /// assert!(pool.lookup(pool.root(), name).await.is_err());
    /// # Ok(()) }) }
    /// ```
    pub async fn remove_directory(self: &Arc<Self>, parent: ObjectId, name: &OsStr) -> Result<()> {
        let directory = self.directory_to_change(parent)?;
        let _names = directory.ranges.exclusive(NAMES).await;
        self.kill_metadata(&directory, &[Part::Listing]).await?;
        let victim = self.named(&directory, name).await;
        let (object, _) = self.identity(victim.as_deref(), &directory, name).await;
        let victim = victim.map(|object| (object.naming(), object));
        let removed = self.origin.remove_directory(parent, name).await;
        if removed.is_ok() {
            let path = self.path_of(&directory);
            let name = Name { parent: place(&directory, &path), name };
            self.log_change(&Record::RemoveDirectory { object, name }).await;
        }
        self.removed(&directory, name, victim.as_ref(), removed)?;
        self.names_done(&directory).await
    }

    /// Moves a name.
    ///
    /// # Errors
    /// As [`make_directory`](Pool::make_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::storage::RenameFlags;
    ///
    /// let (root, flags) = (pool.root(), RenameFlags::NO_REPLACE);
    /// pool.rename(root, "file".as_ref(), root, "renamed".as_ref(), flags).await?;
    /// assert_eq!(pool.lookup(root, "renamed".as_ref()).await?.attributes.size, 8);
    /// # Ok(()) }) }
    /// ```
    pub async fn rename(
        self: &Arc<Self>,
        parent: ObjectId,
        name: &OsStr,
        new_parent: ObjectId,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        let from = self.directory_to_change(parent)?;
        let to = self.directory_to_change(new_parent)?;
        // Always the smaller id first, so that two renames never wait for each other.
        let (first, second) = if parent <= new_parent { (&from, &to) } else { (&to, &from) };
        let _first = first.ranges.exclusive(NAMES).await;
        let _second = match parent == new_parent {
            true => None,
            false => Some(second.ranges.exclusive(NAMES).await),
        };
        self.kill_metadata(&from, &[Part::Listing]).await?;
        self.kill_metadata(&to, &[Part::Listing]).await?;
        let moved = self.named(&from, name).await;
        let replaced = self.named(&to, new_name).await;
        for object in moved.iter().chain(&replaced) {
            self.check_before_change(object, None).await.or_else(ignore_gone)?;
            self.before_attributes_change(object).await?;
        }
        if let Some(replaced) = &replaced {
            self.open_postponed(replaced).await;
        }
        if !flags.contains(RenameFlags::EXCHANGE) {
            self.end_on_flash(&to, new_name).await?;
        }
        if let Some(moved) = moved.as_ref().filter(|_| replaced.is_some()) {
            // Whoever replaces a file by a new one expects to find one of the two after a crash.
            self.keep_contents(moved).await?;
        }
        let (object, _) = self.identity(moved.as_deref(), &from, name).await;
        let (over, is_last) = self.identity(replaced.as_deref(), &to, new_name).await;
        let naming = replaced.as_ref().map(|replaced| replaced.naming());
        let outcome = self.origin.rename(parent, name, new_parent, new_name, flags).await;
        if outcome.is_ok() {
            let (from_path, to_path) = (self.path_of(&from), self.path_of(&to));
            let from = Name { parent: place(&from, &from_path), name };
            let to = Name { parent: place(&to, &to_path), name: new_name };
            let replaced = (over != Identity::UNKNOWN).then_some(over);
            let record = Record::Rename { object, from, to, replaced, is_last, flags };
            self.log_change(&record).await;
        }
        if !may_have_changed(&outcome) {
            return Ok(outcome?);
        }
        for object in moved.iter().chain(&replaced) {
            object.update(|version| version.expire(StaleBy::Attributes));
        }
        self.names_changed(&from, name);
        self.names_changed(&to, new_name);
        outcome?;
        if let Some(moved) = &moved {
            self.moved_to(moved, &to, new_name);
        }
        if let (Some(replaced), Some(naming)) = (&replaced, naming) {
            match flags.contains(RenameFlags::EXCHANGE) {
                true => self.moved_to(replaced, &from, name),
                false => self.lost_a_name(replaced, naming, &to, new_name),
            }
        }
        if !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::WHITEOUT) && moved.is_some() {
            self.keep_name(&from, &self.tenant(&from), name, None);
        }
        self.names_done(&from).await?;
        self.names_done(&to).await
    }

    /// After a change of names in a directory: makes it last if that is asked for at once.
    async fn names_done(self: &Arc<Self>, directory: &Object) -> Result<()> {
        match self.properties(directory).sync {
            SyncMode::Always => self.sync_names(directory.id).await,
            SyncMode::Standard | SyncMode::Disabled => Ok(()),
        }
    }

    /// Notes that an object has lost the name `name` in `directory`. `naming` is what was known
    /// before the origin took it away.
    fn lost_a_name(&self, object: &Arc<Object>, naming: Naming, directory: &Object, name: &OsStr) {
        let place = object.place();
        if place
            .parent
            .as_ref()
            .is_some_and(|(parent, at)| *parent == directory.id && **at == *name)
        {
            // Its other names, if it has any, are not known until one is looked up.
            object.set_place(Place { parent: None, ..Place::clone(&place) });
        }
        if object.attributes().links <= 1 {
            object.lost_last_name(naming);
            if object.is_orphan() {
                self.discard(object);
            }
        }
    }

    /// Makes a directory's names durable.
    ///
    /// # Errors
    /// When the origin could not make it so.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// pool.unlink(pool.root(), "file".as_ref()).await?;
    /// // From now on it is gone after a crash too.
    /// pool.sync_directory(pool.root()).await?;
    /// # Ok(()) }) }
    /// ```
    pub async fn sync_directory(self: &Arc<Self>, object: ObjectId) -> Result<()> {
        if self.properties(&*self.object(object)?).sync == SyncMode::Disabled {
            return Ok(());
        }
        self.sync_names(object).await
    }

    /// The directory, if it may be changed.
    pub(crate) fn directory_to_change(&self, parent: ObjectId) -> Result<Arc<Object>> {
        self.writable()?;
        self.object(parent)
    }

    /// Takes in what the origin has made under a name.
    pub(crate) async fn made(
        self: &Arc<Self>,
        directory: &Object,
        name: &OsStr,
        made: storage::Result<Entry>,
        kind: MadeKind<'_>,
    ) -> Result<Found> {
        if may_have_changed(&made) {
            self.names_changed(directory, name);
        }
        let entry = made?;
        self.log_made(directory, name, &entry, kind).await;
        self.names_done(directory).await?;
        // The id may have belonged to a link before.
        self.drop_kept(entry.object, Part::Link);
        self.take_in(directory, &self.tenant(directory), name, entry).await
    }

    fn removed(
        &self,
        directory: &Object,
        name: &OsStr,
        victim: Option<&(Naming, Arc<Object>)>,
        removed: storage::Result<()>,
    ) -> Result<()> {
        if !may_have_changed(&removed) {
            return Ok(removed?);
        }
        if let Some((naming, victim)) = victim {
            victim.update(|version| version.expire(StaleBy::Attributes));
            if victim.attributes().links <= 1 {
                self.owe_no_alias(victim.id);
            }
            if removed.is_ok() {
                self.lost_a_name(victim, *naming, directory, name);
            }
        }
        self.names_changed(directory, name);
        removed?;
        self.keep_name(directory, &self.tenant(directory), name, None);
        Ok(())
    }

    /// Drops the answers that a change of `name` has made wrong.
    fn names_changed(&self, directory: &Object, name: &OsStr) {
        self.drop_kept(directory.id, Part::Name(name));
        self.drop_kept(directory.id, Part::Listing);
        directory.update(|version| version.expire(StaleBy::Contents));
    }

    /// The object in use behind a name. Asks the origin only when nothing is known of the name.
    async fn named(&self, directory: &Object, name: &OsStr) -> Option<Arc<Object>> {
        if self.properties(directory).primarycache == CacheLevel::None && self.intent().is_none() {
            // No attributes are trusted that could be made wrong.
            return None;
        }
        if let Some(kept) = self.kept(&self.tenant(directory), directory.id, Part::Name(name))
            && let Content::Name { name: kept_name, object } = &kept.content
            && **kept_name == *name
        {
            return object.and_then(|id| self.objects.get(id));
        }
        let entry = self.origin.lookup(directory.id, name).await.ok()?;
        self.origin.forget(entry.object, 1);
        self.objects.get(entry.object)
    }

    /// Before an object loses a name: kills what flash has of it, if that is its last one.
    async fn end_on_flash(&self, directory: &Object, name: &OsStr) -> Result<()> {
        if !self.has_caches() {
            return Ok(());
        }
        let tenant = self.tenant(directory);
        let kept = self.kept(&tenant, directory.id, Part::Name(name));
        let kept_object = match kept.as_deref().map(|kept| &kept.content) {
            Some(Content::Name { name: kept_name, object }) if **kept_name == *name => *object,
            _ => None,
        };
        let known = |object| match self.objects.get(object) {
            Some(object) => Some(object.version()),
            None => self.kept_version(&tenant, object),
        };
        let (object, version) = match kept_object.and_then(|object| Some((object, known(object)?)))
        {
            Some(known) => known,
            None => {
                let Ok(entry) = self.origin.lookup(directory.id, name).await else { return Ok(()) };
                self.origin.forget(entry.object, 1);
                let record_bytes = self.place(directory, name).tenant.properties().recordsize;
                let version = match known(entry.object) {
                    Some(version) => version,
                    None => self.version_found(entry.object, entry.attributes, record_bytes).await,
                };
                (entry.object, version)
            }
        };
        match version.attributes.kind == Kind::File && version.attributes.links <= 1 {
            true => self.kill_version(object, &version).await,
            false => Ok(()),
        }
    }

    /// Notes where an object is now.
    fn moved_to(&self, object: &Object, directory: &Object, name: &OsStr) {
        object.set_place(self.place(directory, name));
        self.keep_name(directory, &self.tenant(directory), name, Some(object.id));
        if object.attributes().kind == Kind::Directory {
            self.directory_moved();
        }
    }
}

/// Whether a call that was to change something may have done so: not if nobody was there to do it.
fn may_have_changed<T>(outcome: &storage::Result<T>) -> bool {
    !matches!(outcome, Err(error) if error.is_unreachable())
}

fn ignore_gone(error: EngineError) -> Result<()> {
    if error.is_not_found() || error.is_stale() { Ok(()) } else { Err(error) }
}
