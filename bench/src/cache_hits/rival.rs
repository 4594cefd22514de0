//! The caches under one set of calls, each used as its own documentation does.

use std::convert::Infallible;
use std::sync::Arc;

/// What all caches hold.
pub type Value = Arc<[u8]>;

/// Bytes of a value.
pub const VALUE_BYTES: u64 = 4096;

/// A value for a key.
pub fn value(key: u64) -> Value {
    vec![key as u8; VALUE_BYTES as usize].into()
}

/// A cache of 4 KiB values with a bound in bytes.
pub trait Rival: Sync {
    const NAME: &str;
    /// Whether it has single flight for threads.
    const FETCHES: bool;

    fn new(capacity_bytes: u64) -> Self;
    /// The first byte of the value, so that a hit reads something of it.
    fn get(&self, key: u64) -> Option<u8>;
    fn insert(&self, key: u64, value: Value);
    /// Looks up, and puts `value` in if it is missing. Tells whether it was a hit.
    fn get_or_fetch(&self, key: u64, value: &Value) -> bool;
}

pub struct Warmfront(warmfront::cache::Cache<u64, Value>);

impl Rival for Warmfront {
    const NAME: &str = "warmfront";
    const FETCHES: bool = true;

    fn new(capacity_bytes: u64) -> Self {
        let builder = warmfront::cache::Cache::builder()
            .capacity_bytes(capacity_bytes)
            .weigher(|_, value: &Value| value.len() as u64);
        Self(builder.build().expect("a good description"))
    }

    fn get(&self, key: u64) -> Option<u8> {
        self.0.get(&key).map(|value| value[0])
    }

    fn insert(&self, key: u64, value: Value) {
        // A refused value is a miss later, and shows in the hit ratio.
        let _ = self.0.insert(key, value);
    }

    fn get_or_fetch(&self, key: u64, value: &Value) -> bool {
        let mut hit = true;
        let fetched = self.0.get_or_fetch(&key, || {
            hit = false;
            Ok::<_, Infallible>(value.clone())
        });
        fetched.is_ok() && hit
    }
}

/// The same, looking at values where they are instead of taking a clone.
pub struct WarmfrontRead(Warmfront);

impl Rival for WarmfrontRead {
    const NAME: &str = "warmfront read";
    const FETCHES: bool = false;

    fn new(capacity_bytes: u64) -> Self {
        Self(Warmfront::new(capacity_bytes))
    }

    fn get(&self, key: u64) -> Option<u8> {
        self.0.0.read(&key, |value| value[0])
    }

    fn insert(&self, key: u64, value: Value) {
        self.0.insert(key, value);
    }

    fn get_or_fetch(&self, _: u64, _: &Value) -> bool {
        unreachable!("it is left out of these cases")
    }
}

#[derive(Clone)]
pub struct ByLength;

impl quick_cache::Weighter<u64, Value> for ByLength {
    fn weight(&self, _: &u64, value: &Value) -> u64 {
        value.len() as u64
    }
}

pub struct QuickCache(quick_cache::sync::Cache<u64, Value, ByLength>);

impl Rival for QuickCache {
    const NAME: &str = "quick_cache";
    const FETCHES: bool = true;

    fn new(capacity_bytes: u64) -> Self {
        let items = (capacity_bytes / VALUE_BYTES) as usize;
        Self(quick_cache::sync::Cache::with_weighter(items, capacity_bytes, ByLength))
    }

    fn get(&self, key: u64) -> Option<u8> {
        self.0.get(&key).map(|value| value[0])
    }

    fn insert(&self, key: u64, value: Value) {
        self.0.insert(key, value);
    }

    fn get_or_fetch(&self, key: u64, value: &Value) -> bool {
        let mut hit = true;
        let fetched = self.0.get_or_insert_with(&key, || {
            hit = false;
            Ok::<_, Infallible>(value.clone())
        });
        fetched.is_ok() && hit
    }
}

pub struct Moka(moka::sync::Cache<u64, Value>);

impl Rival for Moka {
    const NAME: &str = "moka";
    const FETCHES: bool = true;

    fn new(capacity_bytes: u64) -> Self {
        let builder = moka::sync::Cache::builder()
            .max_capacity(capacity_bytes)
            .weigher(|_, value: &Value| value.len() as u32);
        Self(builder.build())
    }

    fn get(&self, key: u64) -> Option<u8> {
        self.0.get(&key).map(|value| value[0])
    }

    fn insert(&self, key: u64, value: Value) {
        self.0.insert(key, value);
    }

    fn get_or_fetch(&self, key: u64, value: &Value) -> bool {
        let mut hit = true;
        self.0.get_with(key, || {
            hit = false;
            value.clone()
        });
        hit
    }
}

pub struct Foyer(foyer_memory::Cache<u64, Value>);

impl Rival for Foyer {
    const NAME: &str = "foyer";
    /// It has, but for tasks of tokio only.
    const FETCHES: bool = false;

    fn new(capacity_bytes: u64) -> Self {
        let builder = foyer_memory::CacheBuilder::new(capacity_bytes as usize)
            .with_weighter(|_, value: &Value| value.len());
        Self(builder.build())
    }

    fn get(&self, key: u64) -> Option<u8> {
        self.0.get(&key).map(|entry| entry.value()[0])
    }

    fn insert(&self, key: u64, value: Value) {
        self.0.insert(key, value);
    }

    fn get_or_fetch(&self, _: u64, _: &Value) -> bool {
        unreachable!("it is left out of these cases")
    }
}
