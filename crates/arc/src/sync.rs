//! Locks and atomics of this crate: the one place that names them, so that with the feature
//! `shuttle` a test runtime that explores schedules takes their place.

pub(crate) use std::sync::atomic::Ordering::Relaxed;

#[cfg(not(feature = "shuttle"))]
pub(crate) use crate::biased::{BiasedLock, SLOTS, own_slot};
#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(feature = "shuttle")]
pub(crate) use explored::{BiasedLock, Mutex, SLOTS, own_slot};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

/// Shuttle's locks with the calls of `parking_lot`'s: a panicking holder does not poison them.
#[cfg(feature = "shuttle")]
mod explored {
    use std::sync::PoisonError;

    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    /// Threads have no slots here.
    pub(crate) const SLOTS: usize = 0;

    pub(crate) const fn own_slot() -> Option<usize> {
        None
    }

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct BiasedLock<T>(shuttle::sync::RwLock<T>);

    impl<T> BiasedLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
