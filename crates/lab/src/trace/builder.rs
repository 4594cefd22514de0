use std::sync::OnceLock;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::error::Usable;
use super::{Sizes, Trace};

/// Most requests of a trace: with 4 bytes each, and 4 more where the optimum is asked for, 2 GiB.
/// Fewer while fuzzing, where a line may ask for as many again and again.
pub const REQUESTS_MAX: usize = if cfg!(fuzzing) { 1 << 16 } else { 1 << 28 };

/// Most objects of a trace: with what finds their numbers while it is read, about 2.5 GiB.
pub const OBJECTS_MAX: usize = 1 << 26;

/// [`REQUESTS_MAX`] or [`OBJECTS_MAX`] is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Gives objects their numbers while a trace is read.
#[derive(Debug, Default)]
pub(super) struct Builder {
    numbers: HashMap<u64, u32>,
    ids: Vec<u32>,
    /// Requests as they stand in the file, each of which may ask for several blocks.
    asked: u64,
    sizes: Vec<u32>,
    /// What the file calls each object.
    keys: Vec<u64>,
    recorded_share: Option<f64>,
}

impl Builder {
    /// The file has the requests for this share of the contents only.
    pub fn sampled(&mut self, share: f64) {
        self.recorded_share = Some(share);
    }

    /// What there is so far.
    pub fn usable(&self) -> Usable {
        Usable { requests: self.asked, blocks: self.ids.len() as u64 }
    }

    /// Adds a request for the object that the file calls `key`. A size of 0 counts as 1 byte.
    pub fn push(&mut self, key: u64, bytes: u32) -> Result<(), Full> {
        self.asked += 1;
        self.add(key, bytes)
    }

    /// Adds a request for `count` blocks from `first` on; for none, nothing.
    pub fn push_run(&mut self, first: u64, count: u64, block_bytes: u32) -> Result<(), Full> {
        if count > (REQUESTS_MAX - self.ids.len()) as u64 {
            return Err(Full);
        }
        self.asked += u64::from(count > 0);
        for key in first..first.saturating_add(count) {
            self.add(key, block_bytes)?;
        }
        Ok(())
    }

    fn add(&mut self, key: u64, bytes: u32) -> Result<(), Full> {
        if self.ids.len() == REQUESTS_MAX {
            return Err(Full);
        }
        let id = match self.numbers.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if self.sizes.len() == OBJECTS_MAX => return Err(Full),
            Entry::Vacant(new) => {
                let id = self.sizes.len() as u32;
                self.sizes.push(bytes.max(1));
                self.keys.push(key);
                *new.insert(id)
            }
        };
        self.ids.push(id);
        Ok(())
    }

    /// The trace, unless there are no requests.
    pub fn finish(self, name: String) -> Option<Trace> {
        let first = *self.sizes.first()?;
        let distinct = self.sizes.len() as u32;
        let sizes = match self.sizes.iter().all(|&bytes| bytes == first) {
            true => Sizes::Uniform(first),
            false => Sizes::PerObject(self.sizes.into()),
        };
        Some(Trace {
            name,
            ids: self.ids,
            keys: self.keys.into(),
            sizes,
            distinct,
            recorded_share: self.recorded_share.unwrap_or(1.0),
            next_accesses: OnceLock::new(),
        })
    }
}
