//! [`Options`]: how large a cache is and how it counts.

use std::time::Duration;

use crate::setting::PolicyKind;

/// A second touch within this time of the first is the same touch (OpenZFS: hz/16).
pub const CORRELATED_WINDOW: Duration = Duration::from_micros(62_500);

/// One record may take the capacity divided by this, unless [`Options::record_share`] says
/// otherwise.
pub const RECORD_SHARE: u64 = 8;

/// How large a cache is and how it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bound on payload, headers, ghosts and index together, bytes.
    pub capacity_bytes: u64,
    /// Shards of a [`crate::Cache`], rounded up to a power of two; `None` chooses by cores.
    pub shards: Option<usize>,
    /// See [`CORRELATED_WINDOW`]; zero turns the window off.
    pub correlated_window: Duration,
    /// One record may take the capacity divided by this.
    pub record_share: u64,
    /// The rules of partition 0.
    pub policy: PolicyKind,
    /// Whether headers, ghosts and index are charged. Off, the capacity bounds the payload only,
    /// as in papers; no cache in service should run so.
    pub charge_overhead: bool,
}

impl Options {
    /// The defaults, with a bound of `capacity_bytes`.
    pub const fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            shards: None,
            correlated_window: CORRELATED_WINDOW,
            record_share: RECORD_SHARE,
            policy: PolicyKind::Auto,
            charge_overhead: true,
        }
    }
}
