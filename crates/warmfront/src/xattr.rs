use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use storage::{ObjectId, OriginError, XattrMode};
use zil::Record;

use crate::answer::{Content, Metadata};
use crate::counters::Counter;
use crate::error::{EngineError, Result};
use crate::intent::place;
use crate::key::Part;
use crate::object::{Object, Tenant};
use crate::pool::Pool;
use crate::property::Coherence;
use crate::reader::Reader;
use crate::version::{StaleBy, Version};

/// What a program may do that others may not; whoever writes to it takes that away.
const CAPABILITY: &str = "security.capability";

/// Extended attributes. Values are cached as metadata, and so is the answer that there is none.
/// They belong to an `epoch` of the object, which any change ends.
impl Pool {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let name = "user.origin".as_ref();
    /// # let mode = warmfront::storage::XattrMode::Any;
    /// pool.set_xattr(found.object, name, b"somewhere", mode).await?;
    /// assert_eq!(*pool.xattr(found.object, name).await?, b"somewhere");
    /// # Ok(()) }) }
    /// ```
    pub async fn xattr(&self, id: ObjectId, name: &OsStr) -> Result<Arc<Vec<u8>>> {
        self.xattr_for(Reader::Counted, id, name).await
    }

    /// As [`xattr`](Pool::xattr), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`xattr`](Pool::xattr).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// use warmfront::Reader;
    /// use warmfront::storage::XattrMode;
    ///
    /// let name = "user.origin".as_ref();
    /// pool.set_xattr(found.object, name, b"somewhere", XattrMode::Any).await?;
    /// assert_eq!(*pool.xattr_for(Reader::Passing, found.object, name).await?, b"somewhere");
    /// # Ok(()) }) }
    /// ```
    pub async fn xattr_for(
        &self,
        reader: Reader,
        id: ObjectId,
        name: &OsStr,
    ) -> Result<Arc<Vec<u8>>> {
        let object = self.object(id)?;
        let tenant = self.tenant_for(&object, reader);
        if name == CAPABILITY
            && object.is_without_capability()
            && self.properties(&object).coherence == Coherence::Exclusive
        {
            // The kernel asks before it changes the owner of a file that was just made.
            return Err(OriginError::no_attribute("get attribute").into());
        }
        let version = object.version();
        let part = version.epoch().map(|epoch| Part::Xattr(epoch, name));
        if let Some(kept) = self.kept_in_epoch(&tenant, id, part)
            && let Content::Xattr { name: kept_name, value } = &kept.content
            && **kept_name == *name
        {
            return value.clone().ok_or(OriginError::no_attribute("get attribute").into());
        }
        let told = self.told_validator(&tenant, &version);
        let stored = self.read_metadata(&tenant, id, Part::Xattr(0, name), told, 0).await;
        let answer = match stored {
            Some(Content::Xattr { name: stored, value }) if *stored == *name => value,
            _ => match self.origin.xattr(id, name).await {
                Ok(value) => Some(Arc::new(value)),
                Err(error) if error.is_no_attribute() => None,
                Err(error) => return Err(error.into()),
            },
        };
        if let Some(part) = part {
            let content = Content::Xattr { name: name.into(), value: answer.clone() };
            self.keep_proven(&tenant, id, part, content, true, version.settled_validator());
        }
        answer.ok_or(OriginError::no_attribute("get attribute").into())
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// As the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// assert!(pool.xattrs(found.object).await?.is_empty());
    /// # Ok(()) }) }
    /// ```
    pub async fn xattrs(&self, id: ObjectId) -> Result<Arc<Vec<OsString>>> {
        self.xattrs_for(Reader::Counted, id).await
    }

    /// As [`xattrs`](Pool::xattrs), for a reader whose use may not count.
    ///
    /// # Errors
    /// As [`xattrs`](Pool::xattrs).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// use warmfront::Reader;
    ///
    /// assert!(pool.xattrs_for(Reader::Passing, found.object).await?.is_empty());
    /// # Ok(()) }) }
    /// ```
    pub async fn xattrs_for(&self, reader: Reader, id: ObjectId) -> Result<Arc<Vec<OsString>>> {
        let object = self.object(id)?;
        let tenant = self.tenant_for(&object, reader);
        let version = object.version();
        let part = version.epoch().map(Part::XattrNames);
        if let Some(kept) = self.kept_in_epoch(&tenant, id, part)
            && let Content::XattrNames(names) = &kept.content
        {
            return Ok(names.clone());
        }
        let told = self.told_validator(&tenant, &version);
        let names = match self.read_metadata(&tenant, id, Part::XattrNames(0), told, 0).await {
            Some(Content::XattrNames(names)) => names,
            _ => Arc::new(self.origin.xattrs(id).await?),
        };
        if let Some(part) = part {
            let content = Content::XattrNames(names.clone());
            self.keep_proven(&tenant, id, part, content, true, version.settled_validator());
        }
        Ok(names)
    }

    /// The validator under which flash may be asked: one that is trusted.
    pub(crate) fn told_validator(&self, tenant: &Tenant, version: &Version) -> Option<u64> {
        let trusted = version.is_trusted(tenant.properties().coherence, self.now());
        version.settled_validator().filter(|_| trusted)
    }

    /// As [`kept_trusted`](Pool::kept_trusted); a miss when the object has no epoch at present.
    fn kept_in_epoch(
        &self,
        tenant: &Tenant,
        id: ObjectId,
        part: Option<Part<'_>>,
    ) -> Option<Arc<Metadata>> {
        let Some(part) = part else {
            tenant.counters.add(Counter::DemandMetadataMisses, 1);
            return None;
        };
        self.kept_trusted(tenant, id, part)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// use warmfront::storage::XattrMode;
    ///
    /// let name = "user.origin".as_ref();
    /// pool.set_xattr(found.object, name, b"somewhere", XattrMode::Create).await?;
    /// let again = pool.set_xattr(found.object, name, b"", XattrMode::Create).await;
    /// assert!(again.is_err(), "it exists");
    /// # Ok(()) }) }
    /// ```
    pub async fn set_xattr(
        self: &Arc<Self>,
        id: ObjectId,
        name: &OsStr,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.writable()?;
        let object = self.object(id)?;
        self.check_before_change(&object, None).await?;
        self.before_attributes_change(&object).await?;
        self.kill_metadata(&object, &[Part::XattrNames(0), Part::Xattr(0, name)]).await?;
        if name == CAPABILITY {
            object.set_without_capability(false);
        }
        let outcome = self.origin.set_xattr(id, name, value, mode).await;
        if outcome.is_ok()
            && let Some(path) = self.path_for_log(&object)
        {
            let object = place(&object, &path);
            self.log_change(&Record::SetXattr { object, name, value }).await;
        }
        object.update(|version| version.expire(StaleBy::Attributes));
        outcome?;
        self.attributes_done(&object).await
    }

    /// Before a file is written that the origin does not write yet: takes its capability away, as
    /// a write does.
    pub(crate) async fn drop_capability(self: &Arc<Self>, object: &Arc<Object>) -> Result<()> {
        if object.is_without_capability() {
            return Ok(());
        }
        let name = OsStr::new(CAPABILITY);
        // An error says that there is none, or that the origin has none at all.
        if self.xattr_for(Reader::Passing, object.id, name).await.is_ok() {
            match self.remove_xattr(object.id, name).await {
                Err(EngineError::Origin(error)) if error.is_no_attribute() => {}
                removed => removed?,
            }
        }
        object.set_without_capability(true);
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// let name = "user.origin".as_ref();
    /// # let mode = warmfront::storage::XattrMode::Any;
    /// pool.set_xattr(found.object, name, b"somewhere", mode).await?;
    /// pool.remove_xattr(found.object, name).await?;
    /// assert!(pool.xattrs(found.object).await?.is_empty());
    /// # Ok(()) }) }
    /// ```
    pub async fn remove_xattr(self: &Arc<Self>, id: ObjectId, name: &OsStr) -> Result<()> {
        self.writable()?;
        let object = self.object(id)?;
        self.check_before_change(&object, None).await?;
        self.before_attributes_change(&object).await?;
        self.kill_metadata(&object, &[Part::XattrNames(0), Part::Xattr(0, name)]).await?;
        let outcome = self.origin.remove_xattr(id, name).await;
        if outcome.is_ok()
            && let Some(path) = self.path_for_log(&object)
        {
            let object = place(&object, &path);
            self.log_change(&Record::RemoveXattr { object, name }).await;
        }
        object.update(|version| version.expire(StaleBy::Attributes));
        outcome?;
        self.attributes_done(&object).await
    }
}
