use std::any::Any;
use std::error::Error;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use futures::future::poll_fn;

use super::{Admission, Cache, Counters};
use crate::flight::{Claim, Flight, Lead};

/// Times that a caller starts anew because the one that was fetching gave up.
const ATTEMPTS_MAX: usize = 64;

/// Why a value could not be had. The error of one fetch reaches all that wait for it; nothing of
/// it is kept, so the next caller fetches anew.
///
/// ```
/// use warmfront::cache::{Cache, FetchError};
///
/// let cache: Cache<u32, u32> =
///     Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
/// let error = cache.get_or_fetch(&1, || std::fs::read("/nowhere").map(|_| 1)).unwrap_err();
/// let io = error.downcast_ref::<std::io::Error>().expect("what the fetch has returned");
/// assert_eq!(io.kind(), std::io::ErrorKind::NotFound);
/// assert!(matches!(error, FetchError::Failed(_)));
/// # Ok::<(), warmfront::cache::BuildError>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The fetch returned this error.
    #[error("value not fetched: {0}")]
    Failed(Arc<dyn Error + Send + Sync>),
    /// The fetch panicked, or weighing what it brought, in another caller; that caller goes on
    /// panicking.
    #[error("value not fetched: the caller that was fetching it panicked; ask again")]
    Panicked,
    /// A fetch asked for the key that it fetches itself.
    #[error("value not fetched: its own fetch asks for it; a fetch must not use its own key")]
    Reentrant,
    /// One caller after the other began to fetch and gave up.
    #[error("value not fetched: {ATTEMPTS_MAX} callers in a row gave up fetching it; ask again")]
    GivenUp,
}

impl FetchError {
    /// The error that the fetch has returned, if it is an `E`.
    ///
    /// ```
    /// # use warmfront::cache::FetchError;
    /// assert!(FetchError::Panicked.downcast_ref::<std::io::Error>().is_none());
    /// ```
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Failed(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

/// What a caller that missed does next.
enum Step<'a, K, V, S> {
    /// The value came in meanwhile.
    Have(V),
    Wait(Arc<Flight<K, Result<V, FetchError>>>),
    Fetch(Fetching<'a, K, V, S>),
}

/// A fetch under way. Dropped without an end, it lets the others start anew.
struct Fetching<'a, K, V, S> {
    lead: Option<Lead<'a, K, Result<V, FetchError>, S>>,
    counters: &'a Counters,
}

/// How the code of the program has ended.
type Ended<V, E> = Result<Result<V, E>, Box<dyn Any + Send>>;

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// The value under `key`; if it is absent, runs `fetch` on this thread and keeps what it
    /// returns. Concurrent callers for one key, threads and tasks, run one fetch between them.
    ///
    /// A value that is too large to be kept is returned all the same, and counted. If the fetch or
    /// the weigher panics, this call goes on panicking. If the key is removed or inserted
    /// meanwhile, the value is returned and not kept.
    ///
    /// # Errors
    /// [`FetchError`]: the fetch failed, here or where this call waited for it; or it asked for its
    /// own key.
    ///
    /// ```
    /// # use warmfront::cache::Cache;
    /// let cache = Cache::<u32, String>::builder()
    ///     .capacity_bytes(1 << 20)
    ///     .weigher(|_, text| text.capacity() as u64)
    ///     .build()?;
    /// let fetch = || "12 apples".split(' ').next().map(String::from).ok_or("no such word");
    /// assert_eq!(cache.get_or_fetch(&0, fetch)?, "12");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_or_fetch<E>(
        &self,
        key: &K,
        fetch: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, FetchError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.step(key)? {
                Step::Have(value) => return Ok(value),
                Step::Wait(flight) => {
                    if let Some(outcome) = flight.wait() {
                        return self.joined(outcome);
                    }
                }
                Step::Fetch(fetching) => {
                    let ended = {
                        let _leading = fetching.lead().enter();
                        catch_unwind(AssertUnwindSafe(fetch))
                    };
                    return self.land(fetching, ended);
                }
            }
        }
        Err(FetchError::GivenUp)
    }

    /// As [`get_or_fetch`](Cache::get_or_fetch) for tasks of any executor: if the value is absent,
    /// drives the future `fetch`, within the task of the caller. Nothing happens before the result
    /// is polled.
    ///
    /// If the result is dropped before it is ready, another caller that waits drives its own fetch
    /// instead. One that has begun to fetch and is kept, but not polled, keeps all others waiting:
    /// see [deadlocks](super#deadlocks).
    ///
    /// # Errors
    /// As [`get_or_fetch`](Cache::get_or_fetch).
    ///
    /// ```
    /// # use warmfront::cache::Cache;
    /// # futures::executor::block_on(async {
    /// let cache: Cache<u32, u32> =
    ///     Cache::builder().capacity_bytes(1 << 20).weigher(|_, _| 0).build()?;
    /// let fetch = async { Ok::<_, std::io::Error>(42) };
    /// assert_eq!(cache.get_or_fetch_async(&0, fetch).await?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn get_or_fetch_async<E>(
        &self,
        key: &K,
        fetch: impl Future<Output = Result<V, E>>,
    ) -> Result<V, FetchError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.step(key)? {
                Step::Have(value) => return Ok(value),
                Step::Wait(flight) => {
                    if let Some(outcome) = flight.landed().await {
                        return self.joined(outcome);
                    }
                }
                Step::Fetch(fetching) => {
                    let mut fetch = pin!(fetch);
                    let ended = poll_fn(|context| {
                        let _leading = fetching.lead().enter();
                        match catch_unwind(AssertUnwindSafe(|| fetch.as_mut().poll(context))) {
                            Ok(Poll::Pending) => Poll::Pending,
                            Ok(Poll::Ready(outcome)) => Poll::Ready(Ok(outcome)),
                            Err(panic) => Poll::Ready(Err(panic)),
                        }
                    })
                    .await;
                    return self.land(fetching, ended);
                }
            }
        }
        Err(FetchError::GivenUp)
    }

    fn step(&self, key: &K) -> Result<Step<'_, K, V, S>, FetchError> {
        Ok(match self.flights.claim(key) {
            Claim::Join(flight) if flight.is_led_here() => return Err(FetchError::Reentrant),
            Claim::Join(flight) => Step::Wait(flight),
            Claim::Lead(lead) => match self.peek(key) {
                // Another fetch has landed since this caller looked.
                Some(value) => {
                    lead.land(Ok(value.clone()));
                    Step::Have(self.joined(Ok(value))?)
                }
                None => {
                    self.counters.fetches.fetch_add(1, Relaxed);
                    Step::Fetch(Fetching { lead: Some(lead), counters: &self.counters })
                }
            },
        })
    }

    fn joined(&self, outcome: Result<V, FetchError>) -> Result<V, FetchError> {
        self.counters.joined.fetch_add(1, Relaxed);
        outcome
    }

    /// Keeps what a fetch has brought, gives it to all who wait, and returns it.
    fn land<E>(&self, fetching: Fetching<'_, K, V, S>, ended: Ended<V, E>) -> Result<V, FetchError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let key = fetching.lead().key();
        let weighed = ended.and_then(|outcome| match outcome {
            Ok(value) => catch_unwind(AssertUnwindSafe(|| {
                let admission = Admission::of(self, key.clone(), value.clone());
                Ok((key.clone(), value.clone(), value, admission))
            })),
            Err(error) => Ok(Err(error)),
        });
        let error = match weighed {
            Ok(Ok((key, for_others, value, admission))) => {
                let mut admitted = None;
                let admit = || admitted = Some(admission.run(self));
                fetching.end().land_after(Ok(for_others), admit);
                // A refusal is counted and told; the caller has the value.
                let _ = admitted.map(|admitted| admitted.announce(self, &key));
                return Ok(value);
            }
            Ok(Err(error)) => Ok(FetchError::Failed(Arc::from(error.into()))),
            Err(panic) => Err(panic),
        };
        self.counters.fetches_failed.fetch_add(1, Relaxed);
        let lead = fetching.end();
        match error {
            Ok(error) => {
                lead.land(Err(error.clone()));
                Err(error)
            }
            Err(panic) => {
                lead.land(Err(FetchError::Panicked));
                resume_unwind(panic)
            }
        }
    }
}

impl<'a, K, V, S> Fetching<'a, K, V, S> {
    fn lead(&self) -> &Lead<'a, K, Result<V, FetchError>, S> {
        self.lead.as_ref().expect("a fetch under way has its lead")
    }

    fn end(mut self) -> Lead<'a, K, Result<V, FetchError>, S> {
        self.lead.take().expect("a fetch under way has its lead")
    }
}

impl<K, V, S> Drop for Fetching<'_, K, V, S> {
    fn drop(&mut self) {
        if self.lead.is_some() {
            self.counters.fetches_abandoned.fetch_add(1, Relaxed);
        }
    }
}
