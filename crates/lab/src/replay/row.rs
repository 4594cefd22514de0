use serde::Serialize;

/// What one policy did at one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The trace's name.
    pub trace: String,
    /// The policy's name.
    pub policy: &'static str,
    /// The share of the contents that the trace has recorded, %. Sizes are for all of them.
    pub recorded_percent: f64,
    /// The size as a share of all that is asked for.
    pub fraction: f64,
    /// The size in blocks, if they are all alike.
    pub capacity_blocks: Option<u64>,
    /// The size in bytes.
    pub capacity_bytes: u64,
    /// Requests made.
    pub requests: u64,
    /// Requests that missed, cold ones too.
    pub misses: u64,
    /// Misses as a share of the requests.
    pub miss_ratio: f64,
    /// Missed bytes as a share of the requested bytes.
    pub byte_miss_ratio: f64,
}
