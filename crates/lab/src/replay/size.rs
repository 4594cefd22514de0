use crate::replay::Form;
use crate::trace::Trace;

/// No cache is larger, so that sums cannot overflow.
const CAPACITY_BYTES_MAX: u64 = 1 << 60;

/// How large a cache is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// A share of the distinct blocks, or of the distinct bytes where sizes differ.
    Fraction(f64),
    /// Bytes.
    Bytes(u64),
    /// Blocks, or as many bytes as so many objects have on average.
    Blocks(u64),
}

/// A size for all contents of which a trace may have recorded a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Capacity {
    pub fraction: f64,
    /// Whole blocks, if they are all alike.
    pub blocks: Option<u64>,
    pub bytes: u64,
}

impl Capacity {
    /// The size that serves the recorded share of the contents as this one serves all.
    pub fn of_share(self, share: f64) -> Capacity {
        let part = |count: u64| ((count as f64 * share) as u64).max(1);
        Capacity { blocks: self.blocks.map(part), bytes: part(self.bytes), ..self }
    }
}

impl Size {
    /// The bytes that it comes to for the objects of a trace.
    pub(crate) fn bytes(self, trace: &Trace) -> u64 {
        self.resolve(trace, Form::Plain).bytes
    }

    /// What it comes to, rounded down to whole blocks unless everything is charged, but at least
    /// one block or byte.
    pub(super) fn resolve(self, trace: &Trace, form: Form) -> Capacity {
        let distinct_bytes = form.all_bytes(trace);
        let distinct = trace.distinct() as f64 / trace.recorded_share();
        let share = |whole: u64, share: f64| (whole as f64 * share) as u64;
        let Some(block) = form.block_bytes(trace).map(u64::from) else {
            let bytes = match self {
                Size::Fraction(fraction) => share(distinct_bytes, fraction),
                Size::Bytes(bytes) => bytes,
                Size::Blocks(blocks) => share(distinct_bytes, blocks as f64 / distinct),
            };
            let bytes = bytes.clamp(1, CAPACITY_BYTES_MAX);
            return Capacity {
                fraction: self.fraction(bytes, distinct_bytes),
                blocks: None,
                bytes,
            };
        };
        let blocks = match self {
            Size::Fraction(fraction) => share(distinct as u64, fraction),
            Size::Bytes(bytes) => bytes / block,
            Size::Blocks(blocks) => blocks,
        };
        let blocks = blocks.clamp(1, CAPACITY_BYTES_MAX / block);
        let bytes = match (self, form) {
            (Size::Fraction(fraction), Form::Charged) => {
                share(distinct_bytes, fraction).clamp(block, CAPACITY_BYTES_MAX)
            }
            (Size::Bytes(bytes), Form::Charged) => bytes.clamp(block, CAPACITY_BYTES_MAX),
            _ => blocks * block,
        };
        let fraction = self.fraction(bytes, distinct_bytes);
        Capacity { fraction, blocks: Some(blocks), bytes }
    }

    /// The share that was asked for, or that `bytes` are.
    fn fraction(self, bytes: u64, distinct_bytes: u64) -> f64 {
        match self {
            Size::Fraction(fraction) => fraction,
            _ => bytes as f64 / distinct_bytes as f64,
        }
    }
}
