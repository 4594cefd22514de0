//! The cache devices of a pool: how they are named, opened and kept warm from start to start.

mod key;
mod lives;
mod shelf;
mod stored;

pub use key::{CacheKey, CacheKeyError, Dwpd, DwpdError};
pub(crate) use lives::{id_of, random_bytes};
pub use shelf::CacheError;
pub(crate) use shelf::{CacheSettings, KnownAs, NewFiles, Shelf};
pub(crate) use stored::StoredCaches;
