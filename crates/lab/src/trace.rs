//! [`Trace`]: a recorded load, as dense object numbers.

mod arc;
mod blkparse;
mod builder;
mod bytes;
mod compression;
mod csv;
mod error;
mod fio;
mod format;
mod input;
mod lirs;
mod oracle_general;
mod ranges;
mod recognise;
mod recording;
mod ssdsim;
mod vscsi;
mod words;

use std::io::BufRead;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use builder::{OBJECTS_MAX, REQUESTS_MAX};
pub use bytes::SPLIT_BYTES;
pub use error::{Place, TraceError, Usable};
pub use format::{Format, UnknownFormat};

use builder::Builder;
use input::Input;

use crate::policy::NEVER;

/// A recorded load: which objects were asked for, in order, and how large they are.
///
/// Objects (blocks, or whole files of any size) are numbered from 0 in the order in which they
/// first appear, so that a policy can keep what it knows of them in arrays. Reads and writes are
/// requests alike. An object has one size, the one of its first request.
#[derive(Debug)]
pub struct Trace {
    name: String,
    ids: Vec<u32>,
    /// What the file calls each object.
    keys: Arc<[u64]>,
    sizes: Sizes,
    distinct: u32,
    recorded_share: f64,
    next_accesses: OnceLock<Arc<[u32]>>,
}

#[derive(Debug)]
enum Sizes {
    Uniform(u32),
    PerObject(Arc<[u32]>),
}

impl Trace {
    /// Reads a trace from a file, plain or compressed (zstd, gzip, xz). Without a `format`, it is
    /// recognised where it can be.
    ///
    /// # Errors
    /// When the file cannot be read, its format is not recognised or not kept to, or it has more
    /// than [`REQUESTS_MAX`] requests or [`OBJECTS_MAX`] objects, or no requests.
    pub fn read(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
        Trace::from_input(path, Input::open(path)?, format)
    }

    /// As [`Trace::read`], from anything that can be read; `path` gives it a name.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub fn from_reader(
        path: &Path,
        file: impl BufRead + 'static,
        format: Option<Format>,
    ) -> Result<Trace, TraceError> {
        Trace::from_input(path, Input::new(path, file)?, format)
    }

    fn from_input(
        path: &Path,
        mut input: Input,
        format: Option<Format>,
    ) -> Result<Trace, TraceError> {
        let format = match format {
            Some(format) => format,
            None => {
                let head = input.head();
                match recognise::recognise(path, head) {
                    Some(format) => format,
                    None => {
                        let recognised = recognise::describe(head);
                        let unknown =
                            TraceError::UnknownFormat { path: path.to_owned(), recognised };
                        return Err(input.damage().unwrap_or(unknown));
                    }
                }
            }
        };
        let mut builder = Builder::default();
        let requests = &mut builder;
        let read = match format {
            Format::Arc => arc::read(&mut input, requests),
            Format::Lirs => lirs::read(&mut input, requests),
            Format::Vscsi => vscsi::read(&mut input, requests),
            Format::OracleGeneral => oracle_general::read(&mut input, requests),
            Format::Ssdsim => ssdsim::read(&mut input, requests),
            Format::Csv => csv::read(&mut input, requests),
            Format::Recording => recording::read(&mut input, requests),
            Format::Blkparse => blkparse::read(&mut input, requests),
            Format::FioIolog => fio::read_iolog(&mut input, requests),
            Format::FioLog => fio::read_log(&mut input, requests),
            Format::U32le => words::read(&mut input, requests, format, u32::from_le_bytes),
            Format::U32be => words::read(&mut input, requests, format, u32::from_be_bytes),
            Format::U64le => words::read(&mut input, requests, format, u64::from_le_bytes),
            Format::U64be => words::read(&mut input, requests, format, u64::from_be_bytes),
        };
        read.map_err(|error| error.after(builder.usable()))?;
        match builder.finish(name_of(path)) {
            Some(trace) => Ok(trace),
            None => Err(TraceError::Empty { path: path.to_owned(), format }),
        }
    }

    /// A trace of blocks of one size, for experiments that make their own.
    ///
    /// # Panics
    /// When there are no blocks, or more than [`REQUESTS_MAX`] or [`OBJECTS_MAX`].
    pub fn from_blocks(
        name: &str,
        blocks: impl IntoIterator<Item = u64>,
        block_bytes: u32,
    ) -> Trace {
        Trace::from_objects(name, blocks.into_iter().map(|block| (block, block_bytes)))
    }

    /// A trace of objects, each with its size in bytes.
    ///
    /// # Panics
    /// When there are no objects, or more than [`REQUESTS_MAX`] or [`OBJECTS_MAX`].
    pub fn from_objects(name: &str, objects: impl IntoIterator<Item = (u64, u32)>) -> Trace {
        let mut builder = Builder::default();
        for (key, bytes) in objects {
            assert!(
                builder.push(key, bytes).is_ok(),
                "at most {REQUESTS_MAX} requests, {OBJECTS_MAX} objects"
            );
        }
        builder.finish(name.to_string()).expect("at least one request")
    }

    /// The requests for those objects that are `chosen`, and which these are; `None` if there are
    /// none.
    pub(crate) fn sample(&self, chosen: impl Fn(u32) -> bool) -> Option<(Trace, Vec<u32>)> {
        const LEFT_OUT: u32 = u32::MAX;
        let mut objects = Vec::new();
        let numbers: Vec<u32> = (0..self.distinct)
            .map(|id| {
                if !chosen(id) {
                    return LEFT_OUT;
                }
                objects.push(id);
                objects.len() as u32 - 1
            })
            .collect();
        let numbered = self.ids.iter().map(|&id| numbers[id as usize]);
        let ids: Vec<u32> = numbered.filter(|&number| number != LEFT_OUT).collect();
        let sizes = match &self.sizes {
            Sizes::Uniform(bytes) => Sizes::Uniform(*bytes),
            Sizes::PerObject(bytes) => {
                Sizes::PerObject(objects.iter().map(|&id| bytes[id as usize]).collect())
            }
        };
        let distinct = objects.len() as u32;
        let name = self.name.clone();
        let keys = objects.iter().map(|&id| self.keys[id as usize]).collect();
        let recorded_share = self.recorded_share;
        let next_accesses = OnceLock::new();
        let sample = Trace { name, ids, keys, sizes, distinct, recorded_share, next_accesses };
        (distinct > 0).then_some((sample, objects))
    }

    /// The same requests with neighbouring blocks taken together to records of so many bytes.
    /// `None` where objects are no blocks, or a record is not whole blocks.
    pub fn in_records(&self, record_bytes: u32) -> Option<Trace> {
        let block_bytes = self.block_bytes()?;
        if record_bytes == 0 || !record_bytes.is_multiple_of(block_bytes) {
            return None;
        }
        let blocks = u64::from(record_bytes / block_bytes);
        let mut builder = Builder::default();
        builder.sampled(self.recorded_share);
        for &id in &self.ids {
            let pushed = builder.push(self.keys[id as usize] / blocks, record_bytes);
            assert!(pushed.is_ok(), "there are no more records than blocks");
        }
        builder.finish(self.name.clone())
    }

    /// The file's name up to its first dot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The requests: numbers of objects, each below [`Trace::distinct`].
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many requests there are.
    pub fn requests(&self) -> u64 {
        self.ids.len() as u64
    }

    /// How many different objects are asked for.
    pub fn distinct(&self) -> u64 {
        u64::from(self.distinct)
    }

    /// The bytes of all objects together.
    pub fn distinct_bytes(&self) -> u64 {
        match &self.sizes {
            Sizes::Uniform(bytes) => u64::from(*bytes) * self.distinct(),
            Sizes::PerObject(sizes) => sizes.iter().map(|bytes| u64::from(*bytes)).sum(),
        }
    }

    /// The share of the contents whose requests were recorded: 1 for all. A cache for all of them
    /// is like one for these that is smaller by this share.
    pub fn recorded_share(&self) -> f64 {
        self.recorded_share
    }

    /// The size of every object, bytes, if all have the same.
    pub fn block_bytes(&self) -> Option<u32> {
        match self.sizes {
            Sizes::Uniform(bytes) => Some(bytes),
            Sizes::PerObject(_) => None,
        }
    }

    /// The size of each object, bytes, if they differ.
    pub fn object_bytes(&self) -> Option<&Arc<[u32]>> {
        match &self.sizes {
            Sizes::Uniform(_) => None,
            Sizes::PerObject(sizes) => Some(sizes),
        }
    }

    /// For each request, when its object is asked for next: the index of that request, or
    /// [`NEVER`]. Worked out at the first call, by one pass from the end.
    pub fn next_accesses(&self) -> &Arc<[u32]> {
        self.next_accesses.get_or_init(|| {
            let mut upcoming = vec![NEVER; self.distinct as usize];
            let mut next = vec![NEVER; self.ids.len()];
            for (index, &id) in self.ids.iter().enumerate().rev() {
                next[index] = upcoming[id as usize];
                upcoming[id as usize] = index as u32;
            }
            next.into()
        })
    }
}

/// What a trace in this file is called.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    match name.split('.').next() {
        Some(stem) if !stem.is_empty() => stem.to_string(),
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests;
