use super::Refused;

/// What a program does when an entry leaves.
pub(super) type Listener<K, V> = Box<dyn Fn(Departure<K, V>) + Send + Sync>;

/// An entry that has left the cache, or was not let in.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use warmfront::cache::{Cache, Departure, Reason};
///
/// let departures = Arc::new(Mutex::new(Vec::new()));
/// let seen = departures.clone();
/// let cache = Cache::<u32, u32>::builder()
///     .capacity_bytes(1 << 20)
///     .weigher(|_, _| 0)
///     .on_departure(move |departure| seen.lock().unwrap().push(departure))
///     .build()?;
/// cache.insert(1, 10)?;
/// cache.insert(1, 11)?;
/// let expected = Departure { key: 1, value: 10, reason: Reason::Replaced };
/// assert_eq!(*departures.lock().unwrap(), [expected]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure<K, V> {
    /// Its key.
    pub key: K,
    /// Its value.
    pub value: V,
    /// Why it left.
    pub reason: Reason,
}

/// Why an entry left the cache. See [`Departure`] for an example.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
/// use warmfront::cache::{Cache, Reason};
///
/// let evicted = Arc::new(AtomicU64::new(0));
/// let count = evicted.clone();
/// let cache = Cache::<u64, u64>::builder()
///     .capacity_bytes(1 << 20)
///     .weigher(|_, _| 4096)
///     .on_departure(move |departure| {
///         if departure.reason == Reason::Evicted {
///             count.fetch_add(1, Ordering::Relaxed);
///         }
///     })
///     .build()?;
/// (0..1000).try_for_each(|key| cache.insert(key, key))?;
/// assert!(evicted.load(Ordering::Relaxed) > 700);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// To make room, or because the cache became smaller.
    Evicted,
    /// Its key was given another value.
    Replaced,
    /// It was removed, by [`remove`](super::Cache::remove), [`retain`](super::Cache::retain) or
    /// [`clear`](super::Cache::clear).
    Removed,
    /// It was never let in.
    Refused(Refused),
}
