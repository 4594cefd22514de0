use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc::PolicyKind;
use hashbrown::DefaultHashBuilder;
use storage::{Clock, CoarseClock};

use super::departure::{Departure, Listener};
use super::statistics::Counters;
use super::{Cache, Weigher};
use crate::flight::Flights;

/// Describes a [`Cache`]. The capacity and the weigher are needed, the rest has defaults.
///
/// ```
/// use std::time::Duration;
/// use warmfront::cache::{Cache, Reason};
///
/// let cache = Cache::<String, String>::builder()
///     .capacity_bytes(16 << 20)
///     .weigher(|key, value| (key.capacity() + value.capacity()) as u64)
///     .on_departure(|departure| {
///         if departure.reason == Reason::Evicted {
///             eprintln!("{} had to go", departure.key);
///         }
///     })
///     .build()?;
/// assert_eq!(cache.capacity_bytes(), 16 << 20);
/// # Ok::<(), warmfront::cache::BuildError>(())
/// ```
pub struct Builder<K, V, S = DefaultHashBuilder> {
    capacity_bytes: Option<u64>,
    weigher: Option<Weigher<K, V>>,
    listener: Option<Listener<K, V>>,
    clock: Option<Arc<dyn Clock>>,
    correlated_window: Duration,
    shards: Option<usize>,
    policy: PolicyKind,
    hasher: S,
}

/// Why a cache could not be built.
///
/// ```
/// use warmfront::cache::{BuildError, Cache};
///
/// let error = Cache::<u32, u32>::builder().weigher(|_, _| 0).build().unwrap_err();
/// assert_eq!(error, BuildError::NoCapacity);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// [`Builder::capacity_bytes`] was not called.
    #[error("cache without a bound: call capacity_bytes")]
    NoCapacity,
    /// The capacity is zero.
    #[error("cache of 0 bytes: give it a capacity; to switch a cache off, resize it to 0")]
    ZeroCapacity,
    /// [`Builder::weigher`] was not called.
    #[error(
        "cache that cannot weigh: call weigher with the bytes that key and value have on the \
         heap; it is |_, _| 0 if they have none"
    )]
    NoWeigher,
}

impl<K: Hash + Eq + Clone, V: Clone> Builder<K, V> {
    pub(super) fn new() -> Self {
        Self {
            capacity_bytes: None,
            weigher: None,
            listener: None,
            clock: None,
            correlated_window: Duration::ZERO,
            shards: None,
            policy: PolicyKind::Auto,
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher + Clone> Builder<K, V, S> {
    /// The bound, bytes: on values as weighed, headers, index and ghosts together.
    ///
    /// ```
    /// # use warmfront::cache::Cache;
    /// let builder = Cache::<u32, u32>::builder().capacity_bytes(1 << 20);
    /// # assert!(builder.weigher(|_, _| 0).build().is_ok());
    /// ```
    pub fn capacity_bytes(mut self, capacity_bytes: u64) -> Self {
        self.capacity_bytes = Some(capacity_bytes);
        self
    }

    /// How many bytes an entry takes on the heap: what key and value own beyond their own
    /// `size_of`, which the cache counts itself. Called once as an entry comes in; it must not
    /// change while the entry is inside.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use warmfront::cache::Cache;
    /// // Sixteen bytes are an Arc's two counts.
    /// let builder = Cache::<u64, Arc<[u8]>>::builder()
    ///     .weigher(|_, block| block.len() as u64 + 16);
    /// # assert!(builder.capacity_bytes(1 << 20).build().is_ok());
    /// ```
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static) -> Self {
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// What to do with entries that leave and with values that are refused. Called on the thread
    /// whose call caused it, before that call returns, while no lock is held: it may use the cache.
    ///
    /// ```
    /// # use warmfront::cache::Cache;
    /// let builder = Cache::<u32, u32>::builder()
    ///     .on_departure(|departure| println!("{}: {:?}", departure.key, departure.reason));
    /// # assert!(builder.capacity_bytes(1 << 20).weigher(|_, _| 0).build().is_ok());
    /// ```
    pub fn on_departure(
        mut self,
        listener: impl Fn(Departure<K, V>) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Where time comes from; a [`CoarseClock`] unless given. It stamps entries as they come in,
    /// and tells bursts from uses if there is a
    /// [`correlated_window`](Builder::correlated_window).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use warmfront::cache::Cache;
    /// # use warmfront::storage::RealClock;
    /// let builder = Cache::<u32, u32>::builder().clock(Arc::new(RealClock::new()));
    /// # assert!(builder.capacity_bytes(1 << 20).weigher(|_, _| 0).build().is_ok());
    /// ```
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Uses of an entry within this time of the first count as one; zero, the default, counts
    /// each. Set it where one piece of work touches an entry many times in a row, as reading a
    /// block in small pieces does (OpenZFS: 62.5 ms). Then each hit reads the clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use warmfront::cache::Cache;
    /// let builder =
    ///     Cache::<u32, u32>::builder().correlated_window(Duration::from_micros(62_500));
    /// # assert!(builder.capacity_bytes(1 << 20).weigher(|_, _| 0).build().is_ok());
    /// ```
    pub fn correlated_window(mut self, window: Duration) -> Self {
        self.correlated_window = window;
        self
    }

    /// Into how many parts with a lock each the cache is divided, rounded up to a power of two, at
    /// most 256; by the number of processors and the capacity unless given. The bound on bytes is
    /// one for all.
    ///
    /// ```
    /// # use warmfront::cache::Cache;
    /// let builder = Cache::<u32, u32>::builder().shards(1);
    /// # assert!(builder.capacity_bytes(1 << 20).weigher(|_, _| 0).build().is_ok());
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// By which rules entries are kept: the setting that does best on a sample of the load, which
    /// is the default, or ARC.
    ///
    /// ```
    /// # use warmfront::cache::{Cache, PolicyKind};
    /// let builder = Cache::<u32, u32>::builder().policy(PolicyKind::Arc);
    /// # assert!(builder.capacity_bytes(1 << 20).weigher(|_, _| 0).build().is_ok());
    /// ```
    pub fn policy(mut self, policy: PolicyKind) -> Self {
        self.policy = policy;
        self
    }

    /// Which function hashes the keys; one that is fast and seeded at random unless given. It must
    /// be good in all 64 bits. With a fixed seed the cache's choices repeat.
    ///
    /// ```
    /// use std::hash::RandomState;
    /// use warmfront::cache::Cache;
    ///
    /// let cache: Cache<u32, u32, RandomState> = Cache::<u32, u32>::builder()
    ///     .capacity_bytes(1 << 20)
    ///     .weigher(|_, _| 0)
    ///     .hasher(RandomState::new())
    ///     .build()?;
    /// # Ok::<(), warmfront::cache::BuildError>(())
    /// ```
    pub fn hasher<T: BuildHasher + Clone>(self, hasher: T) -> Builder<K, V, T> {
        let Self { capacity_bytes, weigher, listener, clock, .. } = self;
        let Self { correlated_window, shards, policy, .. } = self;
        Builder {
            capacity_bytes,
            weigher,
            listener,
            clock,
            correlated_window,
            shards,
            policy,
            hasher,
        }
    }

    /// Makes the cache. Memory is taken as entries come in.
    ///
    /// # Errors
    /// [`BuildError`] when the capacity or the weigher is missing, or the capacity is zero.
    ///
    /// ```
    /// # use warmfront::cache::Cache;
    /// let cache: Cache<u32, u32> =
    ///     Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// # Ok::<(), warmfront::cache::BuildError>(())
    /// ```
    pub fn build(self) -> Result<Cache<K, V, S>, BuildError>
    where
        K: 'static,
        V: 'static,
    {
        let capacity_bytes = self.capacity_bytes.ok_or(BuildError::NoCapacity)?;
        if capacity_bytes == 0 {
            return Err(BuildError::ZeroCapacity);
        }
        let weigher = self.weigher.ok_or(BuildError::NoWeigher)?;
        let options = arc::Options {
            shards: self.shards,
            correlated_window: self.correlated_window,
            policy: self.policy,
            ..arc::Options::new(capacity_bytes)
        };
        Ok(Cache {
            records: arc::Cache::with_hasher(&options, self.hasher.clone()),
            flights: Flights::with_hasher(self.hasher),
            weigher,
            listener: self.listener,
            clock: self.clock.unwrap_or_else(|| Arc::new(CoarseClock::new())),
            times_hits: !self.correlated_window.is_zero(),
            counters: Counters::default(),
            let_go_bytes: AtomicU64::new(0),
        })
    }
}

impl<K, V, S> fmt::Debug for Builder<K, V, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Builder")
            .field("capacity_bytes", &self.capacity_bytes)
            .field("correlated_window", &self.correlated_window)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}
