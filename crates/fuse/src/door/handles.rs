use std::sync::Arc;

use parking_lot::RwLock;

/// What is open, by the numbers that the kernel knows it under.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    slots: RwLock<Slots<T>>,
}

#[derive(Debug)]
struct Slots<T> {
    open: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { slots: RwLock::new(Slots { open: Vec::new(), free: Vec::new() }) }
    }
}

impl<T> Handles<T> {
    /// Gives a number to what has been opened.
    pub(crate) fn open(&self, item: Arc<T>) -> u64 {
        let mut slots = self.slots.write();
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                slots.open.push(None);
                slots.open.len() - 1
            }
        };
        slots.open[index] = Some(item);
        index as u64
    }

    /// What is open under a number.
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<T>> {
        self.slots.read().open.get(usize::try_from(handle).ok()?)?.clone()
    }

    /// Takes a number back.
    pub(crate) fn close(&self, handle: u64) -> Option<Arc<T>> {
        let mut slots = self.slots.write();
        let index = usize::try_from(handle).ok()?;
        let item = slots.open.get_mut(index)?.take()?;
        slots.free.push(index);
        Some(item)
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
