use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use storage::{Attributes, Entry, Kind, ObjectId, OriginError, SetAttributes, SetTime, SpaceUsage};
use zil::Record;

use crate::answer::{Cached, Content};
use crate::counters::Counter;
use crate::error::{EngineError, Result};
use crate::file::OpenFile;
use crate::intent::place;
use crate::key::{Key, Part};
use crate::names::NAMES;
use crate::object::{Object, Place, Tenant};
use crate::pool::{KnownSpace, Pool};
use crate::property::{CacheLevel, Coherence, Properties, SyncMode};
use crate::reader::Reader;
use crate::version::{StaleBy, Version, is_trusted, trust};

/// The longest time for which an answer may be passed on to be cached above us.
const PASS_ON_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long the space told by the origin is believed at most, while nothing is changed through the
/// pool.
const SPACE_TRUST_MAX: Duration = Duration::from_secs(60);
/// The same of what was told within so long after a change: the origin gives back what a removed
/// file held some time after it was removed.
const CHANGING_SPACE_TRUST_MAX: Duration = Duration::from_secs(1);
const SPACE_CHANGES_MAX: Duration = Duration::from_secs(10);

/// An object that a look-up has found. It has one more use, which
/// [`Pool::forget`] gives back.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// assert_eq!(found.attributes.size, 8);
/// // For so long whoever stands above need not ask for the name again.
/// println!("{:?}", found.entry_ttl);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Which object.
    pub object: ObjectId,
    /// Its attributes.
    pub attributes: Attributes,
    /// How long the name may be taken to lead there without asking again.
    pub entry_ttl: Duration,
    /// How long the attributes may be taken to hold without asking again.
    pub attribute_ttl: Duration,
}

/// The attributes of an object.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// let answer = pool.attributes(found.object, None).await?;
/// println!("{} bytes, which holds for {:?}", answer.attributes.size, answer.ttl);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Attributed {
    /// The attributes.
    pub attributes: Attributes,
    /// How long they may be taken to hold without asking again.
    pub ttl: Duration,
}

impl Pool {
    /// Finds `name` in the directory `parent`.
    ///
    /// # Errors
    /// [`EngineError::is_not_found`] when there is no such name; it may be taken not to exist for
    /// [`negative_ttl`](Pool::negative_ttl).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// assert_eq!(found.attributes.size, 8);
    /// assert!(pool.lookup(pool.root(), "other".as_ref()).await.unwrap_err().is_not_found());
    /// pool.forget(found.object, 1);
    /// # Ok(()) }) }
    /// ```
    pub async fn lookup(&self, parent: ObjectId, name: &OsStr) -> Result<Found> {
        self.lookup_for(Reader::Counted, parent, name).await
    }

    /// As [`lookup`](Pool::lookup), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`lookup`](Pool::lookup).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::Reader;
    ///
    /// let found = pool.lookup_for(Reader::Passing, pool.root(), "file".as_ref()).await?;
    /// assert_eq!(found.attributes.size, 8);
    /// pool.forget(found.object, 1);
    /// # Ok(()) }) }
    /// ```
    pub async fn lookup_for(
        &self,
        reader: Reader,
        parent: ObjectId,
        name: &OsStr,
    ) -> Result<Found> {
        let directory = self.object(parent)?;
        let tenant = self.tenant_for(&directory, reader);
        match self.cached_lookup(&directory, &tenant, name) {
            Some(Some(found)) => {
                tenant.hit(Counter::DemandMetadataHits, 1);
                Ok(found)
            }
            Some(None) => {
                tenant.hit(Counter::DemandMetadataHits, 1);
                Err(not_found("look up"))
            }
            None => {
                tenant.counters.add(Counter::DemandMetadataMisses, 1);
                self.fetch_lookup(&directory, &tenant, name).await
            }
        }
    }

    /// How long a name that was not found in `parent` may be taken not to exist.
    ///
    /// Zero under `coherence=open`: asking for a name is part of opening it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use std::time::Duration;
    ///
    /// assert_eq!(pool.negative_ttl(pool.root()), Duration::ZERO, "coherence=open is the default");
    /// pool.datasets().set("tank", "coherence", "ttl=1")?;
    /// assert_eq!(pool.negative_ttl(pool.root()), Duration::from_secs(1));
    /// # Ok(()) }) }
    /// ```
    pub fn negative_ttl(&self, parent: ObjectId) -> Duration {
        let Ok(directory) = self.object(parent) else {
            return Duration::ZERO;
        };
        let properties = self.properties(&directory);
        match properties.coherence {
            Coherence::Open => Duration::ZERO,
            coherence => pass_on(trust(coherence), &properties),
        }
    }

    /// The answer to a look-up as far as the cache has one: an object, or that there is none.
    pub(crate) fn cached_lookup(
        &self,
        directory: &Object,
        tenant: &Tenant,
        name: &OsStr,
    ) -> Option<Option<Found>> {
        let properties = tenant.properties();
        let kept = self.kept(tenant, directory.id, Part::Name(name))?;
        let Content::Name { name: kept_name, object } = &kept.content else {
            return None;
        };
        let now = self.now();
        let trusted = is_trusted(kept.checked_at, properties.coherence, now);
        if **kept_name != *name || !trusted || properties.primarycache == CacheLevel::None {
            return None;
        }
        let Some(id) = *object else {
            return (properties.coherence != Coherence::Open).then_some(None);
        };
        let place = self.place(directory, name);
        let coherence = place.tenant.properties().coherence;
        if let Some(object) = self.objects.get_used(id) {
            let version = object.version();
            object.used_by(tenant.reader);
            if version.is_trusted(coherence, now) {
                if object.place().parent != place.parent {
                    // Of several names the one that is used is asked for at an open.
                    object.set_place(place);
                }
                return Some(Some(self.found(&object, &version, kept.checked_at)));
            }
            self.release(id, 1);
            return None;
        }
        let attributes_of = place.tenant.clone().read_by(tenant.reader);
        let known = || {
            let version = self.kept_version(&attributes_of, id)?;
            let attributes = version.attributes;
            version.is_trusted(coherence, now).then(|| {
                self.origin.remember(directory.id, name, &Entry { object: id, attributes });
                (place, version)
            })
        };
        let (object, _) = self.use_object(id, known)?;
        let version = object.version();
        object.used_by(tenant.reader);
        if !version.is_trusted(coherence, now) {
            // Somebody else has just brought it into use.
            self.release(id, 1);
            return None;
        }
        Some(Some(self.found(&object, &version, kept.checked_at)))
    }

    /// Asks the origin for a name and keeps what it says.
    pub(crate) async fn fetch_lookup(
        &self,
        directory: &Object,
        tenant: &Tenant,
        name: &OsStr,
    ) -> Result<Found> {
        let _names = directory.ranges.shared(NAMES).await;
        match self.origin.lookup(directory.id, name).await {
            Ok(entry) => {
                self.check_former(directory, tenant, name, Some(entry.object)).await;
                self.take_in(directory, tenant, name, entry).await
            }
            Err(error) => {
                if error.is_not_found() {
                    self.check_former(directory, tenant, name, None).await;
                    self.keep_name(directory, tenant, name, None);
                } else {
                    self.drop_kept(directory.id, Part::Name(name));
                }
                Err(error.into())
            }
        }
    }

    /// A name leads to `found` at the origin. If another object was believed to be there, it is
    /// gone or has another name. Of one in use the origin is asked, and the contents of what is
    /// gone are let go with its last use. Of one that nobody uses they are let go now: a change of
    /// its names has changed its validator too.
    async fn check_former(
        &self,
        directory: &Object,
        tenant: &Tenant,
        name: &OsStr,
        found: Option<ObjectId>,
    ) {
        let key = Key::metadata(self.number, directory.id, Part::Name(name));
        let Some(Cached::Metadata(kept)) = self.memory.cache.peek(&key) else { return };
        let former = match kept.content {
            Content::Name { object: Some(former), .. } if Some(former) != found => former,
            _ => return,
        };
        if let Some(object) = self.objects.get(former) {
            // What is told of the object is taken in; an error changes nothing for this caller.
            let _ = self.check(&object, None).await;
        } else if let Some(version) = self.kept_version(tenant, former) {
            self.drop_generation(former, &version);
            self.drop_kept(former, Part::Attributes);
        }
    }

    /// Takes in an object that the origin has found or made as `name` in `directory`, with the
    /// reference that the origin has counted for it.
    pub(crate) async fn take_in(
        &self,
        directory: &Object,
        tenant: &Tenant,
        name: &OsStr,
        entry: Entry,
    ) -> Result<Found> {
        self.keep_name(directory, tenant, name, Some(entry.object));
        self.take_in_at(self.place(directory, name), tenant.reader, entry).await
    }

    /// Takes in an object at a place, with the reference that the origin has counted for it.
    pub(crate) async fn take_in_at(
        &self,
        place: Place,
        reader: Reader,
        entry: Entry,
    ) -> Result<Found> {
        let now = self.now();
        let record_bytes = place.tenant.properties().recordsize;
        // What was known before the last use ended has the generation of the cached records.
        let tenant = place.tenant.clone().read_by(reader);
        let known = match self.kept_version(&tenant, entry.object) {
            Some(version) => version,
            None if self.objects.get(entry.object).is_some() => {
                Version::new(entry.attributes, record_bytes, now)
            }
            None => self.version_found(entry.object, entry.attributes, record_bytes).await,
        };
        // Meanwhile it may have been in use, and changed.
        let known_last = || {
            let known = self.kept_version(&tenant, entry.object).unwrap_or(known);
            Some((place.clone(), known))
        };
        let (object, made) = self.use_object(entry.object, known_last).expect("it can be made");
        object.used_by(reader);
        object.found_under(place.parent.is_some());
        if !made {
            self.origin.forget(entry.object, 1);
            self.found_elsewhere(&object, &place);
        }
        object.set_place(place);
        if object.attributes().validator() == entry.attributes.validator() {
            self.observe(&object, entry.attributes);
        } else {
            // The answer may be older than a change of ours; ask again in turn.
            self.check(&object, None).await.inspect_err(|_| self.release(object.id, 1))?;
        }
        Ok(self.found(&object, &object.version(), now))
    }

    /// An object in use is found at `place`: if that is another one than before, somebody has
    /// moved it behind our back, or it has several names. What is believed of the former name may
    /// lead to the wrong object, so it is believed no longer.
    fn found_elsewhere(&self, object: &Object, place: &Place) {
        let before = object.place();
        let Some((parent, name)) = before.parent.as_ref().filter(|_| before.parent != place.parent)
        else {
            return;
        };
        self.drop_kept(*parent, Part::Name(name));
        if object.attributes().kind == Kind::Directory {
            self.directory_moved();
        }
        // Of several names each may be right.
        let moved = object.attributes().links == 1;
        if moved && place.tenant.properties().coherence != Coherence::Exclusive {
            self.expire_former_name(object.id, *parent, name.clone());
        }
    }

    /// Takes in attributes that the origin has told; drops what no longer fits.
    pub(crate) fn observe(&self, object: &Object, seen: Attributes) {
        let now = self.now();
        let before = object.version();
        object.set_gone(false);
        if !object.update(|version| version.observe(seen, now)) {
            return;
        }
        object.set_without_capability(false);
        let tenant = self.tenant(object);
        tenant.counters.add(Counter::CoherenceDropped, 1);
        self.expire_former(object);
        self.drop_generation(object.id, &before);
        self.flash.unsynced.changed(object.id);
        self.forget_on_flash(object.id, &before);
        self.drop_kept(object.id, Part::Link);
        self.drop_kept(object.id, Part::Listing);
    }

    pub(crate) fn found(
        &self,
        object: &Object,
        version: &Version,
        name_checked_at: Duration,
    ) -> Found {
        let now = self.now();
        let properties = self.properties(object);
        Found {
            object: object.id,
            attributes: version.attributes,
            entry_ttl: self.entry_ttl(name_checked_at, &properties, now),
            attribute_ttl: pass_on(version.trusted_for(properties.coherence, now), &properties),
        }
    }

    fn entry_ttl(&self, checked_at: Duration, properties: &Properties, now: Duration) -> Duration {
        pass_on(crate::version::trusted_for(checked_at, properties.coherence, now), properties)
    }

    pub(crate) fn keep_name(
        &self,
        directory: &Object,
        tenant: &Tenant,
        name: &OsStr,
        object: Option<ObjectId>,
    ) {
        let content = Content::Name { name: name.into(), object };
        self.keep(tenant, directory.id, Part::Name(name), content, true);
    }

    /// Attributes of an object, through `file` if that is open.
    ///
    /// # Errors
    /// [`EngineError::is_stale`] when the object's name now leads elsewhere.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let answer = pool.attributes(found.object, None).await?;
    /// assert_eq!((answer.attributes.size, answer.attributes.links), (8, 1));
    /// # Ok(()) }) }
    /// ```
    pub async fn attributes(&self, id: ObjectId, file: Option<&OpenFile>) -> Result<Attributed> {
        self.attributes_for(Reader::Counted, id, file).await
    }

    /// As [`attributes`](Pool::attributes), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`attributes`](Pool::attributes).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// use warmfront::Reader;
    ///
    /// let answer = pool.attributes_for(Reader::Passing, found.object, None).await?;
    /// assert_eq!(answer.attributes.size, 8);
    /// # Ok(()) }) }
    /// ```
    pub async fn attributes_for(
        &self,
        reader: Reader,
        id: ObjectId,
        file: Option<&OpenFile>,
    ) -> Result<Attributed> {
        let object = self.object(id)?;
        let tenant = self.tenant_for(&object, reader);
        let properties = tenant.properties();
        if properties.primarycache != CacheLevel::None
            && object.version().is_trusted(properties.coherence, self.now())
        {
            tenant.hit(Counter::DemandMetadataHits, 1);
        } else {
            tenant.counters.add(Counter::DemandMetadataMisses, 1);
            self.check(&object, file).await?;
        }
        Ok(self.attributed(&object, &properties))
    }

    /// Asks the origin for the attributes now.
    ///
    /// What a change of ours has overtaken is not taken in: the change has told what is new.
    pub(crate) async fn check(&self, object: &Object, file: Option<&OpenFile>) -> Result<()> {
        let _turn = object.attributes_turn.lock().await;
        let changes_ended = object.version().changes_ended();
        let seen = match file {
            Some(file) if file.is_open_at_origin() => {
                file.origin_file().await?.attributes().await?
            }
            _ => {
                let seen = self.origin.attributes(object.id).await;
                seen.inspect_err(|error| {
                    self.distrust_name(object);
                    object.set_gone(error.is_gone());
                })?
            }
        };
        if object.version().changes_ended() == changes_ended {
            self.observe(object, seen);
        }
        Ok(())
    }

    /// Asks the origin whether the name at which an object was found still leads to it, and takes
    /// in its attributes. Asking for the object itself would not do: while somebody has it open,
    /// or it has another name, it is there although the name leads elsewhere.
    ///
    /// # Errors
    /// [`EngineError::is_stale`] when the name leads elsewhere, or nowhere.
    pub(crate) async fn check_name(&self, object: &Object) -> Result<()> {
        let Some((parent, name)) = object.place().parent.clone() else {
            return self.check(object, None).await;
        };
        let turn = object.attributes_turn.lock().await;
        let changes_ended = object.version().changes_ended();
        match self.origin.lookup(parent, &name).await {
            Ok(entry) => {
                self.origin.forget(entry.object, 1);
                if entry.object == object.id {
                    if object.version().changes_ended() == changes_ended {
                        self.observe(object, entry.attributes);
                    }
                    return Ok(());
                }
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        drop(turn);
        // If it is gone altogether, that is noted.
        let _ = self.check(object, None).await;
        self.distrust_name(object);
        Err(OriginError::Stale { operation: "open" }.into())
    }

    /// Drops what is known of the name that led to an object, so that it is looked up anew.
    pub(crate) fn distrust_name(&self, object: &Object) {
        if let Some((parent, name)) = object.place().parent.clone() {
            self.drop_kept(parent, Part::Name(&name));
        }
    }

    /// An object is gone although nobody else was to change the origin: drops what is known of the
    /// names that led to it, here and above.
    pub(crate) fn disprove(&self, object: &Object) {
        tracing::warn!(
            object = object.id.0,
            "the origin was changed by somebody else under coherence=exclusive; names and contents \
             may be old: mount with --cold, or set coherence=open"
        );
        let name = object.place().parent.clone();
        // Who opens it once more learns that its name leads elsewhere, and looks that up.
        object.update(|version| version.expire(StaleBy::Attributes));
        self.distrust_path(object.id);
        if let Some((parent, name)) = name {
            self.expire_former_name(object.id, parent, name);
        }
    }

    /// Takes in the attributes that a change of ours has led to.
    pub(crate) async fn adopt(&self, object: &Object, file: &OpenFile) -> Result<()> {
        let _turn = object.attributes_turn.lock().await;
        let changes_ended = object.version().changes_ended();
        let seen = file.origin_file().await?.attributes().await?;
        object.update(|version| {
            if version.changes_ended() == changes_ended {
                version.adopt(seen, self.now());
            }
        });
        Ok(())
    }

    /// Changes attributes, through `file` if that is open.
    ///
    /// # Errors
    /// As the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// use warmfront::storage::SetAttributes;
    ///
    /// let change = SetAttributes { size: Some(3), ..SetAttributes::default() };
    /// let answer = pool.set_attributes(found.object, None, change).await?;
    /// assert_eq!(answer.attributes.size, 3);
    /// # Ok(()) }) }
    /// ```
    pub async fn set_attributes(
        self: &Arc<Self>,
        id: ObjectId,
        file: Option<&OpenFile>,
        change: SetAttributes,
    ) -> Result<Attributed> {
        self.writable()?;
        let object = self.object(id)?;
        match change.size {
            Some(size) => self.resize(&object, file, size, change).await?,
            None => {
                // Changes behind our back must be told from ours before ours hides them.
                self.check_before_change(&object, file).await?;
                self.open_postponed(&object).await;
                self.before_attributes_change(&object).await?;
                let _contents = object.dirty.turn.lock().await;
                let _turn = object.attributes_turn.lock().await;
                let seen = self.change_attributes(&object, file, change).await?;
                if change.modified.is_some() {
                    object.dirty.set_modified(seen.modified);
                }
                object.update(|version| {
                    version.expire(StaleBy::Attributes);
                    version.set_ahead(None, change.modified.map(|_| seen.modified));
                    version.adopt(seen, self.now());
                });
                let change = SetAttributes {
                    // What the origin took for now.
                    accessed: change.accessed.map(|_| SetTime::At(seen.accessed)),
                    modified: change.modified.map(|_| SetTime::At(seen.modified)),
                    ..change
                };
                if let Some(path) = self.path_for_log(&object) {
                    let record = Record::SetAttributes { object: place(&object, &path), change };
                    self.log_change_of(&object, &record).await;
                }
            }
        }
        self.outdate_log(&object).await?;
        self.attributes_done(&object).await?;
        Ok(self.attributed(&object, &self.properties(&object)))
    }

    /// After a change of attributes: makes it last if that is asked for at once.
    pub(crate) async fn attributes_done(self: &Arc<Self>, object: &Object) -> Result<()> {
        match self.properties(object).sync {
            SyncMode::Always if self.intent().is_some() => self.sync_names(object.id).await,
            SyncMode::Always => self.sync().await,
            SyncMode::Standard | SyncMode::Disabled => Ok(()),
        }
    }

    /// Lets the origin change attributes.
    pub(crate) async fn change_attributes(
        &self,
        object: &Object,
        file: Option<&OpenFile>,
        change: SetAttributes,
    ) -> Result<Attributes> {
        Ok(match file.filter(|file| file.is_writable()) {
            Some(file) => file.origin_file().await?.set_attributes(change).await?,
            None => self.origin.set_attributes(object.id, change).await?,
        })
    }

    /// Before a change of ours: sees whether somebody else changed the object first, unless nobody
    /// else may.
    pub(crate) async fn check_before_change(
        &self,
        object: &Object,
        file: Option<&OpenFile>,
    ) -> Result<()> {
        if self.properties(object).coherence == Coherence::Exclusive {
            return Ok(());
        }
        self.check(object, file).await
    }

    fn attributed(&self, object: &Object, properties: &Properties) -> Attributed {
        let version = object.version();
        let ttl = version.trusted_for(properties.coherence, self.now());
        Attributed { attributes: version.attributes, ttl: pass_on(ttl, properties) }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As the origin decides.
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
    pub async fn read_link(&self, id: ObjectId) -> Result<Arc<OsString>> {
        self.read_link_for(Reader::Counted, id).await
    }

    /// As [`read_link`](Pool::read_link), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`read_link`](Pool::read_link).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::Reader;
    ///
    /// let name = "link".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// let link = pool.symlink(node, "file".as_ref()).await?;
    /// assert_eq!(*pool.read_link_for(Reader::Passing, link.object).await?, "file");
    /// # Ok(()) }) }
    /// ```
    pub async fn read_link_for(&self, reader: Reader, id: ObjectId) -> Result<Arc<OsString>> {
        let object = self.object(id)?;
        let tenant = self.tenant_for(&object, reader);
        if let Some(kept) = self.kept_trusted(&tenant, id, Part::Link)
            && let Content::Link(target) = &kept.content
        {
            return Ok(target.clone());
        }
        let version = object.version();
        let validator = version.settled_validator();
        let told = self.told_validator(&tenant, &version);
        let target = match self.read_metadata(&tenant, id, Part::Link, told, 0).await {
            Some(Content::Link(target)) => target,
            _ => Arc::new(self.origin.read_link(id).await?),
        };
        let content = Content::Link(target.clone());
        self.keep_proven(&tenant, id, Part::Link, content, true, validator);
        Ok(target)
    }

    /// A metadata answer from the ARC that is young enough, counted as a hit; else a miss is
    /// counted.
    pub(crate) fn kept_trusted(
        &self,
        tenant: &Tenant,
        id: ObjectId,
        part: Part<'_>,
    ) -> Option<Arc<crate::answer::Metadata>> {
        let properties = tenant.properties();
        let kept = self.kept(tenant, id, part).filter(|kept| {
            properties.primarycache != CacheLevel::None
                && is_trusted(kept.checked_at, properties.coherence, self.now())
        });
        match kept {
            Some(_) => tenant.hit(Counter::DemandMetadataHits, 1),
            None => tenant.counters.add(Counter::DemandMetadataMisses, 1),
        }
        kept
    }

    /// Space in all and free at the origin.
    ///
    /// # Errors
    /// When the origin does not answer.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let space = pool.space().await?;
    /// assert!(space.blocks_free <= space.blocks);
    /// # Ok(()) }) }
    /// ```
    pub async fn space(&self) -> Result<SpaceUsage> {
        let root = self.object(self.root())?;
        let trusted = trust(self.properties(&root).coherence);
        let now = self.now();
        let KnownSpace { changed_at, told } = *self.space.lock();
        if let Some((asked_at, space)) = told {
            let may_change = changed_at.is_some_and(|at| asked_at < at + SPACE_CHANGES_MAX);
            let most = if may_change { CHANGING_SPACE_TRUST_MAX } else { SPACE_TRUST_MAX };
            if now.saturating_sub(asked_at) < trusted.min(most) {
                return Ok(space);
            }
        }
        let space = self.origin.space().await?;
        self.space.lock().told = Some((now, space));
        Ok(space)
    }

    /// Makes everything durable that was changed through the pool.
    ///
    /// # Errors
    /// When the origin could not make it so.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(0, b"C").await?;
    /// assert!(pool.is_dirty());
    /// pool.sync().await?;
    /// assert!(!pool.is_dirty());
    /// # Ok(()) }) }
    /// ```
    pub async fn sync(self: &Arc<Self>) -> Result<()> {
        match self.sync_all().await {
            // Nothing was changed through it.
            Err(_) if self.read_only => Ok(()),
            synced => synced,
        }
    }

    /// Makes everything durable that was changed at the origin, by whomever.
    pub(crate) async fn sync_all(self: &Arc<Self>) -> Result<()> {
        if self.is_dirty() || self.intent().is_some() {
            self.write_back.names_changed();
            self.commit_all().await?;
        }
        let began = self.flash.unsynced.now();
        self.origin.sync().await?;
        self.flash.unsynced.synced_all(began);
        Ok(())
    }
}

/// Cuts a time of trust to what may be passed on.
fn pass_on(trusted: Duration, properties: &Properties) -> Duration {
    if properties.primarycache == CacheLevel::None {
        return Duration::ZERO;
    }
    trusted.min(PASS_ON_MAX)
}

pub(crate) fn not_found(operation: &'static str) -> EngineError {
    EngineError::Origin(OriginError::not_found(operation))
}
