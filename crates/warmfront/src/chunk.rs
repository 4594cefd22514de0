use std::sync::Arc;

use crate::dirty_budget::DirtyBudget;
use crate::record::Record;

/// How far a chunk grows by appends.
const GROWN_BYTES_MAX: usize = 64 << 10;

/// What is written, as it comes.
#[derive(Debug)]
pub(crate) enum Bytes<'a> {
    /// A copy is taken.
    Borrowed(&'a [u8]),
    /// A whole record, which the cache may hold as well.
    Record(Arc<Record>),
}

impl Bytes<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(data) => data,
            Bytes::Record(record) => record.bytes(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }
}

/// The bytes of one write, charged for as long as anybody holds them.
#[derive(Debug)]
pub(crate) struct Chunk {
    held: Held,
    budget: Arc<DirtyBudget>,
}

#[derive(Debug)]
enum Held {
    Copy(Vec<u8>),
    Record(Arc<Record>),
}

impl Chunk {
    /// Bytes that have been charged to the budget.
    pub(crate) fn charged(data: &Bytes<'_>, budget: Arc<DirtyBudget>) -> Chunk {
        let held = match data {
            Bytes::Borrowed(data) => Held::Copy(data.to_vec()),
            Bytes::Record(record) => Held::Record(record.clone()),
        };
        Chunk { held, budget }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.held {
            Held::Copy(bytes) => bytes,
            Held::Record(record) => record.bytes(),
        }
    }

    /// Adds bytes, if there is room.
    pub(crate) fn append(&mut self, data: &[u8]) -> bool {
        let Held::Copy(bytes) = &mut self.held else { return false };
        let fits = bytes.len() + data.len() <= GROWN_BYTES_MAX;
        let added = fits && self.budget.charge(data.len() as u64);
        if added {
            bytes.extend_from_slice(data);
        }
        added
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes().len() as u64);
    }
}
