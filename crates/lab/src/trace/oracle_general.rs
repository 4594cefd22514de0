use super::builder::Builder;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input};

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 24;

/// Several recorders may be merged a little out of order: but by no more than a day.
const BACKWARDS_S_MAX: u32 = 86_400;

/// A record: 24 bytes, little-endian, of `u32` time in seconds, `u64` object, `u32` size in
/// bytes, `i64` index of the next access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    time_s: u32,
    object: u64,
    bytes: u32,
    next: i64,
}

impl Record {
    /// Reads the fields.
    pub fn new(record: &[u8; RECORD_BYTES]) -> Record {
        let field = |at| u64::from_le_bytes(std::array::from_fn(|index| record[at + index]));
        Record {
            time_s: field(0) as u32,
            object: field(4),
            bytes: (field(8) >> 32) as u32,
            next: field(16) as i64,
        }
    }

    /// Whether this may well be the record with this index: time does not run backwards, and the
    /// next access comes later, or not at all (negative, or the greatest number).
    pub fn is_plausible(self, index: usize, before: Option<Record>) -> bool {
        let in_order = before.is_none_or(|before| before.time_s <= self.time_s);
        let looks_ahead = matches!(self.next, -2 | -1 | i64::MAX) || self.next > index as i64;
        in_order && looks_ahead && self.bytes > 0
    }
}

/// One request a record. What it says of the next access is not used.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut latest_s = 0;
    input.records(Format::OracleGeneral, |record| {
        let record = Record::new(record);
        let time_s = record.time_s;
        if time_s.saturating_add(BACKWARDS_S_MAX) < latest_s {
            let what = format!("the time goes back from {latest_s} to {time_s} s");
            return Err(Fault::new(what));
        }
        latest_s = latest_s.max(time_s);
        Ok(requests.push(record.object, record.bytes)?)
    })
}
