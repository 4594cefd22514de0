use storage::{ObjectId, OriginError};

use crate::datasets::DatasetError;

/// Why the engine could not do what it was asked.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// let error = pool.lookup(pool.root(), "nowhere".as_ref()).await.unwrap_err();
/// assert!(error.is_not_found() && !error.is_unreachable());
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The origin could not do its part.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The pool was opened read-only.
    #[error("the pool is read-only")]
    ReadOnly,
    /// The object is not known: it was forgotten, or never looked up.
    #[error("object {} is not known", .0.0)]
    UnknownObject(ObjectId),
    /// The path leads out of the pool or through something that is not a directory.
    #[error("{}: not a path inside the pool", .0.display())]
    BadPath(std::path::PathBuf),
    /// There is no memory for what was to be read.
    #[error(transparent)]
    OutOfMemory(#[from] arc::OutOfMemory),
    /// The listings that are being read take their part of the ceiling.
    #[error(
        "the directories that are being read hold {held_bytes} bytes of names, all that the \
         ceiling has for them; let them be read to their end or closed, or raise the ceiling \
         (set-arc-max)"
    )]
    ListingsFull {
        /// Bytes that they take.
        held_bytes: u64,
    },
    /// The datasets ask for something that cannot be.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Flash may bring back what a change would have made old, so the change was not made.
    #[error("a cache device cannot be kept from serving what is about to change: {reason}")]
    Flash {
        /// What the device, and the place for such notes, have said.
        reason: String,
    },
    /// The intent log did not take a change, so that it does not last yet.
    #[error("the intent log: {reason}")]
    Log {
        /// What it, or the place for notes of it, have said.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl EngineError {
    /// Whether the origin itself has said that the name does not exist.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// let error = pool.lookup(pool.root(), "nowhere".as_ref()).await.unwrap_err();
    /// assert!(error.is_not_found());
    /// # Ok(()) }) }
    /// ```
    pub fn is_not_found(&self) -> bool {
        matches!(self, EngineError::Origin(error) if error.is_not_found())
    }

    /// Whether the origin could not be asked at all, so that nothing can have changed there.
    ///
    /// ```
    /// use warmfront::EngineError;
    /// use warmfront::storage::OriginError;
    ///
    /// let error = EngineError::from(OriginError::Unreachable { operation: "read" });
    /// assert!(error.is_unreachable() && !error.is_not_found());
    /// ```
    pub fn is_unreachable(&self) -> bool {
        matches!(self, EngineError::Origin(error) if error.is_unreachable())
    }

    /// Whether the object under a name turned out to be another one.
    ///
    /// ```
    /// use warmfront::EngineError;
    /// use warmfront::storage::OriginError;
    ///
    /// let error = EngineError::from(OriginError::Stale { operation: "open" });
    /// assert!(error.is_stale(), "the name is to be looked up again");
    /// ```
    pub fn is_stale(&self) -> bool {
        matches!(self, EngineError::Origin(OriginError::Stale { .. }))
    }
}

/// The result of a call to the engine.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// async fn size(pool: &Pool, name: &str) -> warmfront::Result<u64> {
///     Ok(pool.lookup(pool.root(), name.as_ref()).await?.attributes.size)
/// }
/// assert_eq!(size(&pool, "file").await?, 8);
/// # Ok(()) }) }
/// ```
pub type Result<T> = std::result::Result<T, EngineError>;
