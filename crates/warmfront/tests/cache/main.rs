//! The cache of a program's own values.

mod departures;
mod fetching;
mod limits;
mod model;
mod stress;

use warmfront::cache::{Builder, Cache};

/// Values weigh what they say.
pub fn weighed(capacity_bytes: u64) -> Builder<u64, u64> {
    Cache::builder().capacity_bytes(capacity_bytes).weigher(|_, value| *value)
}
