use rustix::io::Errno;

/// The result of a call to an origin.
///
/// ```
/// use storage::{Origin, Result};
///
/// async fn is_empty(origin: &dyn Origin) -> Result<bool> {
///     Ok(origin.list(origin.root().await?.object).await?.is_empty())
/// }
/// assert!(storage::block_on(is_empty(&storage::MemoryOrigin::new()))?);
/// # Ok::<(), storage::OriginError>(())
/// ```
pub type Result<T> = std::result::Result<T, OriginError>;

/// Why an origin could not do what it was asked.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::OriginError;
///
/// let root = origin.root().await?.object;
/// let error = origin.lookup(root, "nowhere".as_ref()).await.unwrap_err();
/// assert!(matches!(error, OriginError::System { .. }) && error.is_not_found());
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The operating system below the origin refused the call.
    #[error("{operation}: {errno}")]
    System {
        /// What was attempted, as a verb: "open", "read", "rename".
        operation: &'static str,
        /// The errno that came back.
        errno: Errno,
    },
    /// The name that led to the object now leads to another object, or to none.
    #[error("{operation}: the object has been replaced or moved behind our back")]
    Stale {
        /// What was attempted.
        operation: &'static str,
    },
    /// The origin as a whole is gone or does not answer. Nothing can be concluded about names.
    #[error("{operation}: the origin is unreachable")]
    Unreachable {
        /// What was attempted.
        operation: &'static str,
    },
    /// The origin has no such operation.
    #[error("{operation}: not supported by this origin")]
    Unsupported {
        /// What was attempted.
        operation: &'static str,
    },
}

impl OriginError {
    /// An error of the system below, for use with `map_err`.
    ///
    /// ```
    /// use storage::OriginError;
    ///
    /// let failed: Result<(), rustix::io::Errno> = Err(rustix::io::Errno::IO);
    /// let error = failed.map_err(OriginError::system("read")).unwrap_err();
    /// assert!(error.to_string().starts_with("read: "), "{error}");
    /// ```
    pub fn system(operation: &'static str) -> impl FnOnce(Errno) -> OriginError {
        move |errno| OriginError::System { operation, errno }
    }

    /// The answer that a name does not exist.
    ///
    /// ```
    /// assert!(storage::OriginError::not_found("open").is_not_found());
    /// ```
    pub fn not_found(operation: &'static str) -> OriginError {
        OriginError::System { operation, errno: Errno::NOENT }
    }

    /// The answer that a file cannot be that long.
    ///
    /// ```
    /// use storage::OriginError;
    ///
    /// let errno = rustix::io::Errno::FBIG;
    /// let error = OriginError::System { operation: "write", errno };
    /// assert_eq!(OriginError::too_large("write"), error);
    /// ```
    pub fn too_large(operation: &'static str) -> OriginError {
        OriginError::System { operation, errno: Errno::FBIG }
    }

    /// The answer that an object has no extended attribute of a name.
    ///
    /// ```
    /// assert!(storage::OriginError::no_attribute("get attribute").is_no_attribute());
    /// ```
    pub fn no_attribute(operation: &'static str) -> OriginError {
        OriginError::System { operation, errno: Errno::NODATA }
    }

    /// Whether the object has no extended attribute of that name.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// let xattr = origin.xattr(created.entry.object, "user.colour".as_ref()).await;
    /// assert!(xattr.unwrap_err().is_no_attribute());
    /// # Ok(()) }) }
    /// ```
    pub fn is_no_attribute(&self) -> bool {
        matches!(self, OriginError::System { errno: Errno::NODATA, .. })
    }

    /// Whether the origin has done its part, and the answer is that what was asked for is not there
    /// or cannot be: programs ask such things every day.
    ///
    /// ```
    /// use storage::OriginError;
    ///
    /// assert!(OriginError::not_found("open").is_answer());
    /// assert!(!OriginError::Unreachable { operation: "open" }.is_answer());
    /// ```
    pub fn is_answer(&self) -> bool {
        const ANSWERS: [Errno; 14] = [
            Errno::NOENT,
            Errno::NODATA,
            Errno::EXIST,
            Errno::NOTEMPTY,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::NAMETOOLONG,
            Errno::NXIO,
            Errno::RANGE,
            Errno::INVAL,
            Errno::XDEV,
            Errno::PERM,
            Errno::ACCESS,
            Errno::OPNOTSUPP,
        ];
        match self {
            OriginError::System { errno, .. } => ANSWERS.contains(errno),
            OriginError::Unsupported { .. } => true,
            _ => false,
        }
    }

    /// Whether the origin could not be asked at all, so that nothing can have changed.
    ///
    /// ```
    /// assert!(storage::OriginError::Unreachable { operation: "open" }.is_unreachable());
    /// ```
    pub fn is_unreachable(&self) -> bool {
        matches!(self, OriginError::Unreachable { .. })
    }

    /// Whether the origin itself has said that the name does not exist.
    ///
    /// An unreachable origin never looks like this, so the answer may be cached.
    ///
    /// ```
    /// use storage::OriginError;
    ///
    /// assert!(OriginError::not_found("open").is_not_found());
    /// assert!(!OriginError::Unreachable { operation: "open" }.is_not_found());
    /// ```
    pub fn is_not_found(&self) -> bool {
        matches!(self, OriginError::System { errno: Errno::NOENT, .. })
    }

    /// Whether the origin itself has said that the object is no more, or nowhere that it knows of.
    ///
    /// ```
    /// assert!(storage::OriginError::Stale { operation: "open" }.is_gone());
    /// ```
    pub fn is_gone(&self) -> bool {
        let is_stale = matches!(
            self,
            OriginError::Stale { .. } | OriginError::System { errno: Errno::STALE, .. }
        );
        is_stale || self.is_not_found()
    }
}
