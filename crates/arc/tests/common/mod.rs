//! What several tests of the cache need.

use std::hash::{BuildHasher, Hasher};

/// Hashes a `u64` to itself, so that a test chooses shards, and nothing depends on a
/// seed.
#[derive(Debug, Clone, Default)]
pub struct Plain(pub u64);

impl BuildHasher for Plain {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
