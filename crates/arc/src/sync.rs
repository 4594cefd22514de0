//! Locks and atomics of this crate: the one place that names them, so that a test runtime which
//! explores schedules can be put in their stead.

pub(crate) use parking_lot::{Mutex, RwLock};
pub(crate) use std::sync::atomic::Ordering::Relaxed;
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
