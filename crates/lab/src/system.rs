//! [`MemorySystem`]: how other file systems keep files in memory, so that they can be compared.
//!
//! Each is told of reads of one large file and says what it asks the disk for: what the reader has
//! to wait for, and what it reads ahead. It waits for nothing itself and keeps no contents.

mod ufs;
mod zfs_2009;

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

    /// What is kept.
    fn cached_bytes(&self) -> u64;

    /// Recounts everything.
    ///
    /// # Errors
    /// What is wrong, when sums and lists disagree or a bound is exceeded.
    fn validate(&self) -> Result<(), String>;
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
