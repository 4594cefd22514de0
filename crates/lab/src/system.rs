//! [`MemorySystem`]: how other file systems keep files in memory, so that they can be compared.
//!
//! Each is told of reads of one large file and says what it asks the disk for: what the reader has
//! to wait for, and what it reads ahead. It waits for nothing itself and keeps no contents.

mod server;
mod ufs;
mod zfs_2009;

use std::num::NonZeroU64;

use serde::Deserialize;

pub use server::{Served, Server};
pub use ufs::{Ufs, UfsParameters};
pub use zfs_2009::{Zfs2009, Zfs2009Parameters};

use crate::model::Request;

/// What a read asks the disk for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetches {
    /// The reader waits for these.
    pub demanded: Vec<Request>,
    /// Nobody waits for these yet.
    pub ahead: Vec<Request>,
}

/// How a file system keeps a file in memory.
pub trait MemorySystem {
    /// A read of a range of bytes.
    fn read(&mut self, offset: u64, bytes: u64) -> Fetches;

    /// Applications leave it so much memory from now on. Says how many bytes it has to free for
    /// them; what it can simply forget is none.
    fn leave(&mut self, bytes: u64) -> u64;

    /// What is kept.
    fn cached_bytes(&self) -> u64;

    /// Recounts everything.
    ///
    /// # Errors
    /// What is wrong, when sums and lists disagree or a bound is exceeded.
    fn validate(&self) -> Result<(), String>;
}

/// Which memory system, and what it is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemParameters {
    /// UFS as in Solaris 10.
    Ufs(UfsParameters),
    /// The ZFS of 2009 to 2011.
    Zfs2009(Zfs2009Parameters),
}

impl SystemParameters {
    /// The same with all sizes divided.
    pub fn scaled_down(&self, divisor: NonZeroU64) -> SystemParameters {
        match self {
            SystemParameters::Ufs(parameters) => {
                SystemParameters::Ufs(parameters.scaled_down(divisor))
            }
            SystemParameters::Zfs2009(parameters) => {
                SystemParameters::Zfs2009(parameters.scaled_down(divisor))
            }
        }
    }

    /// What is wrong with the parameters.
    ///
    /// # Errors
    /// What it is, if anything.
    pub fn check(&self) -> Result<(), String> {
        match self {
            SystemParameters::Ufs(_) => Ok(()),
            SystemParameters::Zfs2009(parameters) => parameters.check(),
        }
    }

    /// The memory of the machine, where it is told.
    pub fn memory_bytes(&self) -> Option<u64> {
        match self {
            SystemParameters::Ufs(parameters) => Some(parameters.memory_bytes.get()),
            SystemParameters::Zfs2009(_) => None,
        }
    }

    /// Bytes of a record, where they are told.
    pub fn record_bytes(&self) -> Option<u64> {
        match self {
            SystemParameters::Ufs(_) => None,
            SystemParameters::Zfs2009(parameters) => Some(parameters.record_bytes.get()),
        }
    }

    /// What its cache may take where applications leave so much memory.
    pub fn cache_bytes(&self, free_bytes: u64) -> u64 {
        match self {
            SystemParameters::Ufs(parameters) if parameters.cachelist => free_bytes,
            SystemParameters::Ufs(parameters) => parameters.mapped_bytes(),
            SystemParameters::Zfs2009(parameters) => parameters.arc_bytes.get(),
        }
    }

    /// Nothing is cached of a file of so many bytes.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    pub fn build(&self, file_bytes: u64) -> Result<Box<dyn MemorySystem>, String> {
        Ok(match self {
            SystemParameters::Ufs(parameters) => Box::new(Ufs::new(parameters, file_bytes)),
            SystemParameters::Zfs2009(parameters) => {
                Box::new(Zfs2009::new(parameters, file_bytes)?)
            }
        })
    }
}

/// A size over a divisor, and not nothing.
fn divided(bytes: NonZeroU64, divisor: NonZeroU64) -> NonZeroU64 {
    NonZeroU64::new(bytes.get() / divisor).unwrap_or(NonZeroU64::MIN)
}

/// Pieces of a file, by their numbers, as reads: those that follow each other as one of at most so
/// many.
fn runs(pieces: impl IntoIterator<Item = u64>, piece_bytes: u64, pieces_max: u64) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    for piece in pieces {
        let offset = piece * piece_bytes;
        match requests.last_mut() {
            Some(last)
                if last.offset + last.bytes == offset && last.bytes < pieces_max * piece_bytes =>
            {
                last.bytes += piece_bytes;
            }
            _ => requests.push(Request::read(offset, piece_bytes)),
        }
    }
    requests
}

#[cfg(test)]
mod tests;
