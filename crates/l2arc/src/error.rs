use storage::DeviceError;

/// Why a device could not become a part of the flash level.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// use l2arc::AddError;
///
/// let tiny = Arc::new(MemoryDevice::new(1 << 20, 4096));
/// let error = flash.add(tiny, &opening()).await.unwrap_err();
/// assert!(matches!(error, AddError::TooSmall { size_bytes: 0x10_0000, .. }), "{error}");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The device did not do what it was asked.
    #[error("the cache device does not work: {0}")]
    Device(#[from] DeviceError),
    /// It is too small.
    #[error(
        "a cache device of {size_bytes} bytes is too small: it needs {}M",
        needed_bytes.div_ceil(1 << 20)
    )]
    TooSmall {
        /// Its size.
        size_bytes: u64,
        /// The least it has to be.
        needed_bytes: u64,
    },
    /// It holds what another program put there.
    #[error("the device holds {found}; force its use to overwrite that")]
    Foreign {
        /// What was found, with its article.
        found: &'static str,
    },
    /// It is the cache of another pool.
    #[error("the device is a cache of another pool; force its use to overwrite that")]
    OtherPool {
        /// The id of that pool.
        pool: [u8; 16],
    },
    /// A later version of this program has written it, or an earlier one.
    #[error(
        "the device's format has version {found}, this program reads {known}; \
         force its use to start with an empty cache"
    )]
    Version {
        /// The version found.
        found: u32,
        /// The version read here.
        known: u32,
    },
    /// There are as many devices as a pool may have.
    #[error("a pool has at most {limit} cache devices")]
    TooMany {
        /// The most.
        limit: usize,
    },
}

impl AddError {
    /// Whether the device would be taken by [`force`](crate::Opening::force).
    ///
    /// ```
    /// use l2arc::AddError;
    ///
    /// assert!(AddError::OtherPool { pool: [4; 16] }.is_forceable());
    /// assert!(!AddError::TooMany { limit: 63 }.is_forceable());
    /// ```
    pub fn is_forceable(&self) -> bool {
        matches!(
            self,
            AddError::Foreign { .. } | AddError::OtherPool { .. } | AddError::Version { .. }
        )
    }
}

/// The death of a copy on flash could not be made to last: a device's journal does not take it.
///
/// The caller must see to it that the device's contents are never used again, in a place that
/// lasts, before it changes the origin; see [`Flash::renounced`](crate::Flash::renounced).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} cache devices take no tombstones; what they hold must not be used again",
    devices.len()
)]
pub struct NotDurable {
    /// The devices' ids.
    pub devices: Vec<[u8; 16]>,
}
