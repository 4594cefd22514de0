use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use arc::{Location, Queue};

/// An entry of the cache, and how it has been used.
///
/// ```
/// # let cache: warmfront::cache::Cache<u32, u32> =
/// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 100).build()?;
/// cache.insert(1, 10)?;
/// let entry = cache.by_heat().next().expect("there is one");
/// assert_eq!((entry.key, entry.value, entry.bytes), (1, 10, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<K, V> {
    /// Its key.
    pub key: K,
    /// Its value.
    pub value: V,
    /// What it weighs by the weigher, bytes.
    pub bytes: u64,
    /// Uses since it came in; at most 15 are counted.
    pub hits: u8,
    /// It stands among those that are used again and again (MFU), not among those used once or
    /// lately (MRU).
    pub frequent: bool,
    /// When it came in, on the cache's clock, to the millisecond.
    pub inserted_at: Duration,
}

/// The entries of a cache, hottest first; made by [`Cache::by_heat`](super::Cache::by_heat).
///
/// ```
/// # let cache: warmfront::cache::Cache<u32, u32> =
/// #     warmfront::cache::Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
/// (0..10).try_for_each(|key| cache.insert(key, key))?;
/// // Keys worth fetching first after a restart:
/// let hot: Vec<u32> = cache.by_heat().take(5).map(|entry| entry.key).collect();
/// assert_eq!(hot.len(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Entries<'a, K, V, S> {
    records: &'a arc::Cache<K, V, S>,
    keys: std::vec::IntoIter<(K, Location)>,
}

impl<'a, K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Entries<'a, K, V, S> {
    pub(super) fn new(records: &'a arc::Cache<K, V, S>) -> Self {
        Self { records, keys: records.by_heat().into_iter() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Iterator for Entries<'_, K, V, S> {
    type Item = Entry<K, V>;

    fn next(&mut self) -> Option<Entry<K, V>> {
        self.keys.by_ref().find_map(|(key, location)| {
            let value = self.records.peek(&key)?;
            Some(Entry {
                key,
                value,
                bytes: location.bytes,
                hits: location.hits,
                frequent: location.list.queue == Queue::Mfu,
                inserted_at: location.inserted_at,
            })
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.keys.len()))
    }
}

impl<K, V, S> fmt::Debug for Entries<'_, K, V, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Entries").field("left", &self.keys.len()).finish_non_exhaustive()
    }
}
