use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use storage::{ObjectId, OriginError, XattrMode};

use crate::answer::Content;
use crate::error::Result;
use crate::key::Part;
use crate::object::Object;
use crate::pool::Pool;
use crate::version::StaleBy;

/// Extended attributes. Values are cached as metadata, and so is the answer that there is none.
impl Pool {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name.
    pub async fn xattr(&self, id: ObjectId, name: &OsStr) -> Result<Arc<Vec<u8>>> {
        let object = self.object(id)?;
        let tenant = self.tenant(&object);
        if let Some(kept) = self.kept_trusted(&tenant, id, Part::Xattr(name))
            && let Content::Xattr { name: kept_name, value } = &kept.content
            && **kept_name == *name
        {
            return value.clone().ok_or(OriginError::no_attribute("get attribute").into());
        }
        let answer = match self.origin.xattr(id, name).await {
            Ok(value) => Some(Arc::new(value)),
            Err(error) if error.is_no_attribute() => None,
            Err(error) => return Err(error.into()),
        };
        let content = Content::Xattr { name: name.into(), value: answer.clone() };
        self.keep(&tenant, id, Part::Xattr(name), content, true);
        answer.ok_or(OriginError::no_attribute("get attribute").into())
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// As the origin decides.
    pub async fn xattrs(&self, id: ObjectId) -> Result<Arc<Vec<OsString>>> {
        let object = self.object(id)?;
        let tenant = self.tenant(&object);
        if let Some(kept) = self.kept_trusted(&tenant, id, Part::XattrNames)
            && let Content::XattrNames(names) = &kept.content
        {
            return Ok(names.clone());
        }
        let names = Arc::new(self.origin.xattrs(id).await?);
        self.keep(&tenant, id, Part::XattrNames, Content::XattrNames(names.clone()), true);
        Ok(names)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As the origin decides.
    pub async fn set_xattr(
        &self,
        id: ObjectId,
        name: &OsStr,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.writable()?;
        let object = self.object(id)?;
        self.check_before_change(&object, None).await?;
        let outcome = self.origin.set_xattr(id, name, value, mode).await;
        self.xattr_changed(&object, name);
        Ok(outcome?)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name.
    pub async fn remove_xattr(&self, id: ObjectId, name: &OsStr) -> Result<()> {
        self.writable()?;
        let object = self.object(id)?;
        self.check_before_change(&object, None).await?;
        let outcome = self.origin.remove_xattr(id, name).await;
        self.xattr_changed(&object, name);
        Ok(outcome?)
    }

    /// Drops the answers that a change of an extended attribute has made wrong. An ACL changes the
    /// permissions as well.
    fn xattr_changed(&self, object: &Object, name: &OsStr) {
        self.drop_kept(object.id, Part::Xattr(name));
        self.drop_kept(object.id, Part::XattrNames);
        object.update(|version| version.expire(StaleBy::Attributes));
    }
}
