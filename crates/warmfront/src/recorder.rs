use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use storage::ObjectId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::memory::ChargedApart;
use crate::pool::Pool;

/// Requests that wait to be taken at most; further ones are counted and left out.
const RECORDED_WAITING_MAX: usize = 1 << 15;
/// Files are sampled by so many bytes: what a chunk is asked for is recorded whole or not at all.
const RECORDED_CHUNK_BYTES: u64 = 1 << 20;
/// Nobody takes what is recorded any more: the recording ends.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);

/// A read or a write that a pool was asked for. The file goes by a number that only this recording
/// knows.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// pool.record(100.0, 1);
/// file.read(2, 4).await?;
/// let recorded = pool.recorded().expect("it is being recorded");
/// let request = &recorded.requests[0];
/// assert_eq!((request.offset, request.bytes), (2, 4));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedRequest {
    /// Microseconds since the recording began.
    pub time_us: u64,
    /// The file.
    pub file: u64,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Whether they were written.
    pub write: bool,
}

/// What was recorded since it was taken last.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// pool.record(100.0, 1);
/// file.read(0, 8).await?;
/// file.write(0, b"C").await?;
/// let recorded = pool.recorded().expect("it is being recorded");
/// let writes = recorded.requests.iter().filter(|request| request.write).count();
/// assert_eq!((recorded.requests.len(), writes, recorded.missed), (2, 1, 0));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedRequests {
    /// In the order of their times.
    pub requests: Vec<RecordedRequest>,
    /// Requests for which there was no room.
    pub missed: u64,
}

/// Records what a pool is asked for: reads that RAM answers as well as those it does not.
pub(crate) struct Recorder {
    begun: Duration,
    /// Numbers of files and the choice of chunks depend on it, and it is told to nobody.
    seed: u64,
    /// A chunk is recorded if its hash is not above it.
    bound: u64,
    waiting: Mutex<Waiting>,
    _charge: ChargedApart,
}

/// The recorder of a pool, while there is one.
#[derive(Default)]
pub(crate) struct Recording {
    /// Whether there is one: a hit asks no more than this.
    on: AtomicBool,
    recorder: ArcSwapOption<Recorder>,
    /// One change at a time.
    changing: Mutex<()>,
}

impl Recording {
    fn set(&self, recorder: Option<Recorder>) {
        let _one = self.changing.lock();
        self.on.store(recorder.is_some(), Relaxed);
        self.recorder.store(recorder.map(Arc::new));
    }
}

struct Waiting {
    requests: RecordedRequests,
    taken_at: Duration,
    latest_us: u64,
}

impl Waiting {
    fn new(now: Duration) -> Waiting {
        Waiting { requests: RecordedRequests::default(), taken_at: now, latest_us: 0 }
    }

    /// Adds a request. A thread that looked at the clock and was held up comes as late as the one
    /// that overtook it.
    fn add(&mut self, request: RecordedRequest) {
        self.latest_us = self.latest_us.max(request.time_us);
        self.requests.requests.push(RecordedRequest { time_us: self.latest_us, ..request });
    }
}

impl Pool {
    /// Begins to record what is asked for, of `percent` of the chunks of all files. A recording
    /// that is under way ends. `seed` is not to be known to those who read the recording.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// pool.record(100.0, 1);
    /// file.read(0, 8).await?;
    /// let recorded = pool.recorded().expect("it is being recorded");
    /// assert_eq!((recorded.requests.len(), recorded.requests[0].bytes), (1, 8));
    /// pool.stop_recording();
    /// assert!(pool.recorded().is_none());
    /// # Ok(()) }) }
    /// ```
    pub fn record(&self, percent: f64, seed: u64) {
        let now = self.now();
        let room = (RECORDED_WAITING_MAX * size_of::<RecordedRequest>()) as u64;
        let recorder = Recorder {
            begun: now,
            seed,
            bound: ((percent / 100.0).clamp(0.0, 1.0) * u64::MAX as f64) as u64,
            waiting: Mutex::new(Waiting::new(now)),
            _charge: self.memory.charge_apart(room),
        };
        self.recording.set(Some(recorder));
    }

    /// Takes what was recorded since the last call; `None` if nothing is being recorded.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert!(pool.recorded().is_none());
    /// pool.record(100.0, 1);
    /// file.read(0, 8).await?;
    /// let requests = || pool.recorded().map(|recorded| recorded.requests.len());
    /// assert_eq!(requests(), Some(1));
    /// assert_eq!(requests(), Some(0), "it was taken already");
    /// # Ok(()) }) }
    /// ```
    pub fn recorded(&self) -> Option<RecordedRequests> {
        let recorder = self.recording.recorder.load_full()?;
        let mut waiting = recorder.waiting.lock();
        waiting.taken_at = self.now();
        Some(std::mem::take(&mut waiting.requests))
    }

    /// Ends the recording.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// pool.record(100.0, 1);
    /// pool.stop_recording();
    /// assert!(pool.recorded().is_none());
    /// # Ok(()) }) }
    /// ```
    pub fn stop_recording(&self) {
        self.recording.set(None);
    }

    /// Notes a request, if it is to be recorded.
    #[inline]
    pub(crate) fn asked(&self, file: ObjectId, offset: u64, bytes: u64, write: bool) {
        if self.recording.on.load(Relaxed)
            && let Some(recorder) = &*self.recording.recorder.load()
        {
            let now = self.now();
            if !recorder.note(now, file, offset, bytes, write) {
                tracing::warn!("nobody takes what is recorded: the recording ends");
                self.stop_recording();
            }
        }
    }
}

impl Recorder {
    /// Notes the parts of a request that lie in recorded chunks. `false` if nobody takes them.
    fn note(&self, now: Duration, file: ObjectId, offset: u64, bytes: u64, write: bool) -> bool {
        let end = offset.saturating_add(bytes);
        let number = xxh3_64_with_seed(&file.0.to_le_bytes(), self.seed);
        let is_recorded = |chunk: u64| {
            let hash =
                xxh3_64_with_seed(&(number ^ chunk.rotate_left(32)).to_le_bytes(), self.seed);
            hash <= self.bound
        };
        let mut from = offset;
        while from < end {
            let chunk = from / RECORDED_CHUNK_BYTES;
            let to = end.min((chunk + 1).saturating_mul(RECORDED_CHUNK_BYTES));
            if is_recorded(chunk) {
                let mut waiting = self.waiting.lock();
                if waiting.requests.requests.len() == RECORDED_WAITING_MAX {
                    waiting.requests.missed += 1;
                    return now.saturating_sub(waiting.taken_at) < ABANDONED_AFTER;
                }
                let time_us = now.saturating_sub(self.begun).as_micros() as u64;
                let part = RecordedRequest {
                    time_us,
                    file: number,
                    offset: from,
                    bytes: to - from,
                    write,
                };
                waiting.add(part);
            }
            from = to;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_never_go_back() {
        let mut waiting = Waiting::new(Duration::ZERO);
        let add = |waiting: &mut Waiting, time_us| {
            waiting.add(RecordedRequest { time_us, file: 1, offset: 0, bytes: 1, write: false });
        };
        [5, 3, 7].into_iter().for_each(|time_us| add(&mut waiting, time_us));
        let taken = std::mem::take(&mut waiting.requests).requests;
        assert_eq!(taken.iter().map(|it| it.time_us).collect::<Vec<_>>(), [5, 5, 7]);
        add(&mut waiting, 6);
        assert_eq!(waiting.requests.requests[0].time_us, 7, "nor after some were taken");
    }
}
