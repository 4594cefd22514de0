use std::sync::atomic::{AtomicU64, Ordering};

use storage::{Call, Layer, OriginError};

/// Counts what an origin is asked.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) write_bytes: AtomicU64,
    pub(crate) metadata_calls: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Layer for Meter {
    fn after(&self, call: Call, outcome: Result<u64, &OriginError>) {
        let (calls, bytes) = match call {
            Call::Read { .. } => (&self.reads, Some(&self.read_bytes)),
            Call::Write { .. } | Call::Append { .. } => (&self.writes, Some(&self.write_bytes)),
            _ => (&self.metadata_calls, None),
        };
        calls.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(count) => {
                if let Some(bytes) = bytes {
                    bytes.fetch_add(count, Ordering::Relaxed);
                }
            }
            Err(error) if error.is_answer() => {}
            Err(_) => {
                self.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
