use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use parking_lot::Mutex;

/// Slots that are made at a time.
const CHUNK_SLOTS: usize = 256;

type Chunk<T> = Arc<[ArcSwapOption<T>]>;

/// What is open, by the numbers that the kernel knows it under. Looking something up writes
/// nothing that other threads read.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    chunks: ArcSwap<Vec<Chunk<T>>>,
    free: Mutex<Vec<usize>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { chunks: ArcSwap::default(), free: Mutex::default() }
    }
}

impl<T> Handles<T> {
    /// Gives a number to what has been opened.
    pub(crate) fn open(&self, item: Arc<T>) -> u64 {
        let mut free = self.free.lock();
        if free.is_empty() {
            let mut chunks = Vec::clone(&self.chunks.load());
            let first = chunks.len() * CHUNK_SLOTS;
            chunks.push((0..CHUNK_SLOTS).map(|_| ArcSwapOption::empty()).collect());
            self.chunks.store(Arc::new(chunks));
            free.extend((first..first + CHUNK_SLOTS).rev());
        }
        let index = free.pop().expect("slots were made");
        drop(free);
        self.slot(index, |slot| slot.store(Some(item)));
        index as u64
    }

    /// What is open under a number; to be held for one call only.
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<T>> {
        Guard::into_inner(self.look(handle)?)
    }

    /// As [`get`](Handles::get), without counting a reference.
    pub(crate) fn look(&self, handle: u64) -> Option<Guard<Option<Arc<T>>>> {
        self.slot(usize::try_from(handle).ok()?, ArcSwapOption::load)
    }

    /// Takes a number back.
    pub(crate) fn close(&self, handle: u64) -> Option<Arc<T>> {
        let index = usize::try_from(handle).ok()?;
        let item = self.slot(index, |slot| slot.swap(None))??;
        self.free.lock().push(index);
        Some(item)
    }

    fn slot<R>(&self, index: usize, with: impl FnOnce(&ArcSwapOption<T>) -> R) -> Option<R> {
        let chunks = self.chunks.load();
        Some(with(chunks.get(index / CHUNK_SLOTS)?.get(index % CHUNK_SLOTS)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_only_after_they_are_closed() {
        let handles = Handles::default();
        let (a, b) = (handles.open(Arc::new('a')), handles.open(Arc::new('b')));
        assert_ne!(a, b);
        assert_eq!(handles.get(a).as_deref(), Some(&'a'));
        assert_eq!(handles.close(a).as_deref(), Some(&'a'));
        assert!(handles.get(a).is_none() && handles.close(a).is_none());
        assert_eq!(handles.open(Arc::new('c')), a);
        assert!(handles.get(u64::MAX).is_none());
    }
}
