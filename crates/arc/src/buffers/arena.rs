use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffers::buffer::{Buffer, Source};
use crate::buffers::chunk::{CHUNK_BYTES, Chunk, PAGE_BYTES};
use crate::buffers::pages::PAGES;
use crate::buffers::region::{OutOfMemory, Region};
use crate::sync::{AtomicUsize, Mutex, Relaxed};

/// Chunks that may be huge pages: a chunk that stops being one costs the kernel a mapping, of
/// which a process may have 65,530.
const HUGE_CHUNKS_MAX: usize = 16_384;

/// Chunks that are given back, or in part, while the lock is held once.
const PURGE_CHUNKS_MAX: usize = 16;

/// Where buffers come from and go back to. See the module.
#[derive(Debug)]
pub struct Arena {
    kept_bytes_max: AtomicUsize,
    /// How many hold back what is freed.
    holds: AtomicUsize,
    state: Mutex<State>,
}

/// For as long as this lives, an arena keeps what is freed; then it gives back what is too much.
///
/// When much is about to be freed, buffer by buffer and in no order, it is cheaper to give back
/// whole chunks, and long runs of the others, once at the end.
#[derive(Debug)]
pub struct Hold<'a> {
    arena: &'a Arena,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.arena.holds.fetch_sub(1, Relaxed);
        self.arena.purge();
    }
}

/// Sums of an arena, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArenaStatistics {
    /// In buffers.
    pub used_bytes: usize,
    /// Free and still resident, for the next buffers.
    pub kept_bytes: usize,
    /// Chunks mapped.
    pub chunks: usize,
}

#[derive(Debug, Default)]
struct State {
    chunks: Vec<Option<Slot>>,
    vacant: Vec<u32>,
    /// Chunks by their longest free run; those without a free page are left out.
    by_run: BTreeSet<(usize, u32)>,
    /// Chunks that may have free pages which are resident, the longest ago given to first.
    to_purge: VecDeque<u32>,
    /// Buffers too long for a chunk, by their addresses.
    own: BTreeMap<usize, Region>,
    used_bytes: usize,
    kept_bytes: usize,
}

#[derive(Debug)]
struct Slot {
    chunk: Chunk,
    longest_run: usize,
    queued: bool,
}

impl Arena {
    /// An arena that keeps at most `kept_bytes_max`, but at least one chunk, for the buffers to
    /// come.
    pub fn new(kept_bytes_max: usize) -> Arc<Self> {
        let kept_bytes_max = AtomicUsize::new(kept_bytes_max.max(CHUNK_BYTES));
        Arc::new(Self { kept_bytes_max, holds: AtomicUsize::new(0), state: Mutex::default() })
    }

    /// Most bytes that are resident and in no buffer.
    pub fn kept_bytes_max(&self) -> usize {
        self.kept_bytes_max.load(Relaxed)
    }

    /// Changes what is kept at most, but for one chunk; what is more goes back to the system.
    pub fn set_kept_bytes_max(&self, kept_bytes_max: usize) {
        self.kept_bytes_max.store(kept_bytes_max.max(CHUNK_BYTES), Relaxed);
        self.purge();
    }

    /// Keeps what is freed until the result is dropped. What is resident does not grow by that:
    /// new buffers are cut from it first.
    pub fn hold(&self) -> Hold<'_> {
        self.holds.fetch_add(1, Relaxed);
        Hold { arena: self }
    }

    /// Gives back what is too much, with pauses for others to take and give buffers.
    fn purge(&self) {
        while !self.state.lock().purge(self.kept_bytes_now(), PURGE_CHUNKS_MAX) {}
    }

    /// What may be kept at this moment.
    fn kept_bytes_now(&self) -> usize {
        if self.holds.load(Relaxed) > 0 { usize::MAX } else { self.kept_bytes_max() }
    }

    /// A buffer of `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// When the system has no more memory.
    pub fn buffer(self: &Arc<Self>, bytes: usize) -> Result<Buffer, OutOfMemory> {
        let pages = bytes.div_ceil(PAGE_BYTES);
        if pages == 0 {
            return Ok(Buffer::nothing());
        }
        if pages > PAGES {
            let bytes = pages * PAGE_BYTES;
            let region = Region::new(bytes)?;
            let start = region.at(0);
            let mut state = self.state.lock();
            state.used_bytes += bytes;
            state.own.insert(start.addr().get(), region);
            return Ok(Buffer::new(self.clone(), Source::OWN, start, pages));
        }
        let mut state = self.state.lock();
        let number = match state.by_run.range((pages, 0)..).next() {
            Some((_, number)) => *number,
            None => state.map()?,
        };
        let start = state.change(number, |chunk| {
            let run = chunk.take(pages).expect("the run is as long as was noted");
            chunk.page(run.start)
        });
        state.purge(self.kept_bytes_now(), PURGE_CHUNKS_MAX);
        drop(state);
        Ok(Buffer::new(self.clone(), Source::chunk(number), start, pages))
    }

    /// Sums.
    pub fn statistics(&self) -> ArenaStatistics {
        let state = self.state.lock();
        ArenaStatistics {
            used_bytes: state.used_bytes,
            kept_bytes: state.kept_bytes,
            chunks: state.chunks.len() - state.vacant.len(),
        }
    }

    /// The pages of a buffer come back.
    pub(crate) fn give(&self, source: Source, start: NonNull<u8>, pages: usize) {
        let mut state = self.state.lock();
        let Some(number) = source.number() else {
            let region = state.own.remove(&start.addr().get());
            state.used_bytes -= pages * PAGE_BYTES;
            drop(state);
            // It is unmapped while nobody waits.
            return drop(region.expect("a buffer in no chunk has a region"));
        };
        state.change(number, |chunk| chunk.give(start, pages));
        if !std::mem::replace(&mut state.slot(number).queued, true) {
            state.to_purge.push_back(number);
        }
        state.purge(self.kept_bytes_now(), PURGE_CHUNKS_MAX);
    }

    /// Recounts everything.
    pub fn validate(&self) -> Result<(), String> {
        let state = self.state.lock();
        let (mut used, mut kept) = (0, 0);
        for (number, slot) in state.chunks.iter().enumerate() {
            let Some(slot) = slot else { continue };
            slot.chunk.validate().map_err(|why| format!("chunk {number}: {why}"))?;
            used += slot.chunk.used_bytes();
            kept += slot.chunk.kept_bytes();
            let run = slot.chunk.longest_run();
            if run != slot.longest_run {
                return Err(format!("chunk {number}: noted a run of {}", slot.longest_run));
            }
            if state.by_run.contains(&(run, number as u32)) != (run > 0) {
                return Err(format!("chunk {number}: a run of {run} pages is not listed"));
            }
            if slot.queued != state.to_purge.contains(&(number as u32)) {
                return Err(format!("chunk {number}: queued {}", slot.queued));
            }
        }
        let listed = state.chunks.iter().flatten().filter(|slot| slot.longest_run > 0).count();
        if listed != state.by_run.len() {
            return Err(format!("{} chunks listed by run, {listed} exist", state.by_run.len()));
        }
        used += state.own.values().map(Region::bytes).sum::<usize>();
        if used != state.used_bytes || kept != state.kept_bytes {
            return Err(format!("{used} used, {kept} kept, noted {state:?}"));
        }
        if kept > self.kept_bytes_max() {
            return Err(format!("{kept} bytes kept, {} allowed", self.kept_bytes_max()));
        }
        Ok(())
    }
}

impl State {
    fn slot(&mut self, number: u32) -> &mut Slot {
        self.chunks[number as usize].as_mut().expect("chunks in use are mapped")
    }

    /// Maps one more chunk.
    fn map(&mut self) -> Result<u32, OutOfMemory> {
        let huge = self.chunks.len() - self.vacant.len() < HUGE_CHUNKS_MAX;
        let chunk = Chunk::new(huge)?;
        let longest_run = chunk.longest_run();
        self.kept_bytes += chunk.kept_bytes();
        let slot = Some(Slot { chunk, longest_run, queued: true });
        let number = match self.vacant.pop() {
            Some(number) => {
                self.chunks[number as usize] = slot;
                number
            }
            None => {
                self.chunks.push(slot);
                u32::try_from(self.chunks.len() - 1).expect("fewer chunks than addresses")
            }
        };
        self.by_run.insert((longest_run, number));
        self.to_purge.push_back(number);
        Ok(number)
    }

    /// Changes a chunk; sums and lists follow.
    fn change<R>(&mut self, number: u32, change: impl FnOnce(&mut Chunk) -> R) -> R {
        let slot = self.chunks[number as usize].as_mut().expect("chunks in use are mapped");
        let (used, kept, run) =
            (slot.chunk.used_bytes(), slot.chunk.kept_bytes(), slot.longest_run);
        let result = change(&mut slot.chunk);
        self.used_bytes = self.used_bytes - used + slot.chunk.used_bytes();
        self.kept_bytes = self.kept_bytes - kept + slot.chunk.kept_bytes();
        slot.longest_run = slot.chunk.longest_run();
        if slot.longest_run != run {
            self.by_run.remove(&(run, number));
            if slot.longest_run > 0 {
                self.by_run.insert((slot.longest_run, number));
            }
        }
        result
    }

    /// Gives free pages back to the system until at most `kept_bytes_max` are kept, from so many
    /// chunks at most. Says whether that is reached, or nothing can be done.
    fn purge(&mut self, kept_bytes_max: usize, chunks_max: usize) -> bool {
        for _ in 0..chunks_max {
            if self.kept_bytes <= kept_bytes_max {
                return true;
            }
            let Some(number) = self.to_purge.pop_front() else { return true };
            let slot = self.slot(number);
            slot.queued = false;
            if slot.chunk.is_free() {
                let (kept, run) = (slot.chunk.kept_bytes(), slot.longest_run);
                self.kept_bytes -= kept;
                self.by_run.remove(&(run, number));
                self.chunks[number as usize] = None;
                self.vacant.push(number);
            } else {
                self.change(number, Chunk::purge);
            }
        }
        self.kept_bytes <= kept_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_buffer_is_aligned_writable_and_comes_back() {
        let arena = Arena::new(1 << 20);
        let mut buffer = arena.buffer(5000).expect("memory");
        assert_eq!((buffer.len(), buffer.as_ptr().addr() % PAGE_BYTES), (2 * PAGE_BYTES, 0));
        buffer.fill(7);
        assert_eq!(arena.statistics().used_bytes, 2 * PAGE_BYTES);
        drop(buffer);
        assert_eq!(arena.statistics().used_bytes, 0);
        assert!(arena.buffer(0).expect("nothing").is_empty());
        arena.validate().expect("sums hold");
    }

    #[test]
    fn what_is_freed_is_used_again_or_given_back() {
        let arena = Arena::new(0);
        let buffers: Vec<_> = (0..64).map(|_| arena.buffer(128 << 10).expect("memory")).collect();
        assert_eq!(arena.statistics().chunks, 4);
        drop(buffers);
        let after = arena.statistics();
        assert_eq!(after.used_bytes, 0);
        assert!(after.kept_bytes <= CHUNK_BYTES, "{after:?}");
        arena.validate().expect("sums hold");
    }

    #[test]
    fn what_is_held_back_is_given_back_at_the_end() {
        let arena = Arena::new(0);
        let mut buffers: Vec<_> =
            (0..64).map(|_| arena.buffer(128 << 10).expect("memory")).collect();
        let hold = arena.hold();
        // Every other one, so that no chunk becomes free.
        let mut number = 0;
        buffers.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        assert_eq!(arena.statistics().kept_bytes, 32 * (128 << 10));
        let again = arena.buffer(128 << 10).expect("memory");
        assert_eq!(arena.statistics().chunks, 4, "cut from what is held");
        drop(hold);
        assert!(arena.statistics().kept_bytes <= CHUNK_BYTES);
        drop((buffers, again));
        assert!(arena.statistics().kept_bytes <= CHUNK_BYTES);
        arena.validate().expect("sums hold");
    }

    #[test]
    fn a_hole_is_filled_before_a_new_chunk_is_mapped() {
        let arena = Arena::new(4 << 20);
        let mut buffers: Vec<_> =
            (0..16).map(|_| arena.buffer(128 << 10).expect("memory")).collect();
        let hole = buffers.remove(7).as_ptr();
        buffers.push(arena.buffer(100 << 10).expect("memory"));
        assert_eq!(buffers[15].as_ptr(), hole);
        assert_eq!(arena.statistics().chunks, 1);
    }

    #[test]
    fn a_long_buffer_is_a_mapping_of_its_own() {
        let arena = Arena::new(0);
        let mut buffer = arena.buffer(CHUNK_BYTES + 1).expect("memory");
        buffer[CHUNK_BYTES] = 1;
        assert_eq!(arena.statistics().used_bytes, CHUNK_BYTES + PAGE_BYTES);
        drop(buffer);
        assert_eq!(arena.statistics(), ArenaStatistics::default());
    }

    #[test]
    fn buffers_go_from_thread_to_thread() {
        let arena = Arena::new(0);
        let workers: Vec<_> = (1..=3_u8)
            .map(|mark| {
                let arena = arena.clone();
                std::thread::spawn(move || {
                    let mut held = arena.buffer(PAGE_BYTES).expect("memory");
                    for pages in [1, 3, 2] {
                        let mut buffer = arena.buffer(pages * PAGE_BYTES).expect("memory");
                        (buffer[0], buffer[pages * PAGE_BYTES - 1]) = (mark, mark);
                        std::thread::yield_now();
                        assert_eq!((buffer[0], buffer[pages * PAGE_BYTES - 1]), (mark, mark));
                        held = buffer;
                    }
                    held
                })
            })
            .collect();
        let held: Vec<Buffer> =
            workers.into_iter().map(|worker| worker.join().expect("it ends")).collect();
        assert_eq!(held.iter().map(|buffer| buffer[0]).collect::<Vec<_>>(), [1, 2, 3]);
        drop(held);
        assert_eq!(arena.statistics().used_bytes, 0);
        arena.validate().expect("sums hold");
    }

    // Miri takes a microsecond and more for each byte.
    const CASES: u32 = if cfg!(miri) { 2 } else { 64 };
    const STEPS: usize = if cfg!(miri) { 12 } else { 80 };
    const LONGEST_BYTES: usize = if cfg!(miri) { 20_000 } else { 700_000 };

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: CASES,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn buffers_never_overlap_and_sums_hold(
            steps in prop::collection::vec(
                (0..LONGEST_BYTES, any::<prop::sample::Index>()),
                1..STEPS,
            )
        ) {
            let arena = Arena::new(0);
            let mut held: Vec<(u8, Buffer)> = Vec::new();
            for (number, (bytes, index)) in steps.into_iter().enumerate() {
                if bytes % 3 == 0 && !held.is_empty() {
                    let (mark, buffer) = held.swap_remove(index.index(held.len()));
                    prop_assert!(buffer.iter().all(|byte| *byte == mark));
                } else {
                    let mut buffer = arena.buffer(bytes).expect("memory");
                    prop_assert!(buffer.len() >= bytes);
                    buffer.fill(number as u8);
                    held.push((number as u8, buffer));
                }
                arena.validate().map_err(TestCaseError::fail)?;
                let used: usize = held.iter().map(|(_, buffer)| buffer.len()).sum();
                prop_assert_eq!(arena.statistics().used_bytes, used);
            }
        }
    }
}
