use std::ops::Range;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::join_all;
use parking_lot::Mutex;
use storage::ObjectId;

use crate::answer::{Content, Listing};
use crate::counters::Counter;
use crate::error::{EngineError, Result};
use crate::key::Part;
use crate::listings::HeldListing;
use crate::lookup::Found;
use crate::names::{LISTING, NAMES};
use crate::object::Object;
use crate::pool::Pool;
use crate::property::{CacheLevel, Coherence, PrefetchLevel};
use crate::reader::Reader;

/// Look-ups that go on side by side when a directory is read with the attributes of its entries.
const LOOKUPS_AHEAD: usize = 32;

/// An open directory: the names it had when they were asked for, or when it was rewound.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// let directory = pool.open_directory(pool.root()).await?;
/// for entry in directory.entries().await?.iter() {
///     println!("{}", entry.name.display());
/// }
/// # Ok(()) }) }
/// ```
pub struct OpenDirectory {
    pool: Arc<Pool>,
    object: Arc<Object>,
    listing: Mutex<Option<Arc<HeldListing>>>,
    /// Entries whose look-ups have been sent ahead.
    ahead: Mutex<Range<usize>>,
    reader: Reader,
}

impl Pool {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`EngineError::is_stale`] when its name now leads to another object.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let directory = pool.open_directory(pool.root()).await?;
    /// let names: Vec<_> = directory.entries().await?.iter().map(|it| it.name.clone()).collect();
    /// assert_eq!(names, ["file"]);
    /// # Ok(()) }) }
    /// ```
    pub async fn open_directory(self: &Arc<Self>, id: ObjectId) -> Result<Arc<OpenDirectory>> {
        self.open_directory_for(Reader::Counted, id).await
    }

    /// As [`open_directory`](Pool::open_directory), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`open_directory`](Pool::open_directory).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// use warmfront::Reader;
    ///
    /// let directory = pool.open_directory_for(Reader::Passing, pool.root()).await?;
    /// assert_eq!(directory.entries().await?.len(), 1);
    /// # Ok(()) }) }
    /// ```
    pub async fn open_directory_for(
        self: &Arc<Self>,
        reader: Reader,
        id: ObjectId,
    ) -> Result<Arc<OpenDirectory>> {
        let object = self.object(id)?;
        let coherence = self.properties(&object).coherence;
        if coherence == Coherence::Open || !object.version().is_trusted(coherence, self.now()) {
            self.check(&object, None).await?;
        }
        let object = self.objects.get_used(id).ok_or(EngineError::UnknownObject(id))?;
        Ok(Arc::new(OpenDirectory {
            pool: self.clone(),
            object,
            listing: Mutex::new(None),
            ahead: Mutex::new(0..0),
            reader,
        }))
    }

    /// The names in a directory: those that others hold, or from the ARC if they are there.
    async fn listing(&self, object: &Object, reader: Reader) -> Result<Arc<HeldListing>> {
        let tenant = self.tenant_for(object, reader);
        let generation = object.version().generation;
        let hold = |generation, listing: &Arc<Listing>| {
            self.listings.hold(&self.memory, object.id, generation, listing.clone())
        };
        if let Some(held) = self.listings.get(object.id, generation) {
            tenant.hit(Counter::DemandMetadataHits, 1);
            return Ok(held);
        }
        // Before the names are locked, so that who waits holds up nobody who changes them.
        let directory_bytes = object.attributes().size;
        let _room = self.memory.room_for_listing(&*self.clock, directory_bytes).await?;
        if tenant.properties().primarycache != CacheLevel::None
            && let Some(kept) = self.kept(&tenant, object.id, Part::Listing)
            && let Content::Listing { generation: known, listing } = &kept.content
            && *known == generation
        {
            tenant.hit(Counter::DemandMetadataHits, 1);
            return Ok(hold(generation, listing));
        }
        tenant.counters.add(Counter::DemandMetadataMisses, 1);
        let _turn = object.ranges.exclusive(LISTING).await;
        let _names = object.ranges.shared(NAMES).await;
        let (id, part, version) = (object.id, Part::Listing, object.version());
        let (generation, validator) = (version.generation, version.settled_validator());
        if let Some(held) = self.listings.get(id, generation) {
            return Ok(held);
        }
        let stored = self.read_metadata(&tenant, id, part, validator, generation).await;
        let listing = match stored {
            Some(Content::Listing { listing, .. }) => listing,
            _ => Arc::new(self.origin.list(id).await?),
        };
        let held = hold(generation, &listing);
        let content = Content::Listing { generation, listing };
        self.keep_proven(&tenant, id, part, content, true, validator);
        Ok(held)
    }
}

impl OpenDirectory {
    /// Which directory this is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let directory = pool.open_directory(pool.root()).await?;
    /// assert_eq!(directory.object(), pool.root());
    /// # Ok(()) }) }
    /// ```
    pub fn object(&self) -> ObjectId {
        self.object.id
    }

    /// The directory above; the root is its own parent.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let name = "mail".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// let mail = pool.make_directory(node).await?;
    /// assert_eq!(pool.open_directory(mail.object).await?.parent(), pool.root());
    /// # Ok(()) }) }
    /// ```
    pub fn parent(&self) -> ObjectId {
        self.object.place().parent.as_ref().map_or(self.object.id, |(parent, _)| *parent)
    }

    /// The names, in an order that stays the same until [`rewind`](OpenDirectory::rewind) or
    /// [`let_go`](OpenDirectory::let_go).
    ///
    /// # Errors
    /// When the names are not cached and the origin cannot tell them, or when there is no room for
    /// them because too many others are being read.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let directory = pool.open_directory(pool.root()).await?;
    /// assert_eq!(directory.entries().await?.len(), 1);
    /// # Ok(()) }) }
    /// ```
    pub async fn entries(&self) -> Result<Arc<Listing>> {
        Ok(self.held().await?.names().clone())
    }

    async fn held(&self) -> Result<Arc<HeldListing>> {
        if let Some(held) = self.listing.lock().clone() {
            return Ok(held);
        }
        let held = self.pool.listing(&self.object, self.reader).await?;
        Ok(self.listing.lock().get_or_insert(held).clone())
    }

    /// Lets go of the names, once all have been read.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let directory = pool.open_directory(pool.root()).await?;
    /// let listed = directory.entries().await?.len();
    /// // They take no room any more; who asks again gets them again.
    /// directory.let_go();
    /// assert_eq!(directory.entries().await?.len(), listed);
    /// # Ok(()) }) }
    /// ```
    pub fn let_go(&self) {
        *self.listing.lock() = None;
        *self.ahead.lock() = 0..0;
    }

    /// Looks at the directory anew.
    ///
    /// # Errors
    /// As [`Pool::open_directory`].
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let directory = pool.open_directory(pool.root()).await?;
    /// assert_eq!(directory.entries().await?.len(), 1);
    /// let name = "new".as_ref();
    /// let node = Node { parent: pool.root(), name, permissions: 0o755, caller: CALLER };
    /// pool.make_directory(node).await?;
    /// assert_eq!(directory.entries().await?.len(), 1, "the listing that was begun");
    /// directory.rewind().await?;
    /// assert_eq!(directory.entries().await?.len(), 2);
    /// # Ok(()) }) }
    /// ```
    pub async fn rewind(&self) -> Result<()> {
        let coherence = self.pool.properties(&self.object).coherence;
        let now = self.pool.now();
        if coherence == Coherence::Open || !self.object.version().is_trusted(coherence, now) {
            self.pool.check(&self.object, None).await?;
        }
        self.let_go();
        Ok(())
    }

    /// The object behind entry `index`, as [`Pool::lookup`] finds it. `None` when it has vanished
    /// or cannot be told.
    ///
    /// When the origin has to be asked, the look-ups of the entries that follow are sent along.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let directory = pool.open_directory(pool.root()).await?;
    /// let found = directory.found(0).await.expect("it has an entry");
    /// assert_eq!(found.attributes.size, 8);
    /// pool.forget(found.object, 1);
    /// assert!(directory.found(1).await.is_none());
    /// # Ok(()) }) }
    /// ```
    pub async fn found(&self, index: usize) -> Option<Found> {
        let listing = self.held().await.ok()?;
        let name = &listing.get(index)?.name;
        let tenant = self.pool.tenant_for(&self.object, self.reader);
        match self.pool.cached_lookup(&self.object, &tenant, name) {
            Some(found) => {
                tenant.hit(Counter::DemandMetadataHits, 1);
                return found;
            }
            None => tenant.counters.add(Counter::DemandMetadataMisses, 1),
        }
        if tenant.properties().prefetch != PrefetchLevel::None
            && tenant.properties().primarycache != CacheLevel::None
        {
            self.look_up_ahead(&listing, index).await;
            if let Some(found) = self.pool.cached_lookup(&self.object, &tenant, name) {
                return found;
            }
        }
        self.pool.fetch_lookup(&self.object, &tenant, name).await.ok()
    }

    /// Looks up the entries from `index` on side by side, once, and waits for them.
    async fn look_up_ahead(&self, listing: &Arc<HeldListing>, index: usize) {
        let window = {
            let mut ahead = self.ahead.lock();
            if ahead.contains(&index) {
                return;
            }
            *ahead = index..(index + LOOKUPS_AHEAD).min(listing.len());
            ahead.clone()
        };
        let lookups: Vec<_> = window
            .map(|index| {
                let (done, wait) = oneshot::channel();
                let (pool, object) = (self.pool.clone(), self.object.clone());
                let (listing, reader) = (listing.clone(), self.reader);
                self.pool.spawn.spawn(Box::pin(async move {
                    pool.warm_lookup(reader, &object, &listing[index].name).await;
                    let _ = done.send(());
                }));
                wait
            })
            .collect();
        join_all(lookups).await;
    }
}

impl Pool {
    /// Brings what a look-up needs into the ARC.
    async fn warm_lookup(&self, reader: Reader, directory: &Object, name: &std::ffi::OsStr) {
        let tenant = self.tenant_for(directory, reader);
        let found = match self.cached_lookup(directory, &tenant, name) {
            Some(found) => {
                tenant.counters.add(Counter::PrefetchMetadataHits, 1);
                found
            }
            None => {
                tenant.counters.add(Counter::PrefetchMetadataMisses, 1);
                self.fetch_lookup(directory, &tenant, name).await.ok()
            }
        };
        if let Some(found) = found {
            self.forget(found.object, 1);
        }
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.pool.forget(self.object.id, 1);
    }
}

impl std::fmt::Debug for OpenDirectory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenDirectory").field("object", &self.object.id).finish()
    }
}
