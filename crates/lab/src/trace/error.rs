use std::fmt;
use std::io;
use std::path::PathBuf;

use super::builder::{OBJECTS_MAX, REQUESTS_MAX};
use super::format::Format;

/// Where in a trace something is wrong. Counts after decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Line of a text, from 1.
    Line(u64),
    /// Offset of a byte, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(formatter, "line {line}"),
            Place::Byte(offset) => write!(formatter, "byte {offset}"),
        }
    }
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is compressed in a way that is not read.
    #[error(
        "{} is compressed by {by}, which is not read; decompress it with {program}, or compress it \
         with zstd, gzip or xz",
        path.display()
    )]
    Compression {
        /// The file.
        path: PathBuf,
        /// How.
        by: &'static str,
        /// What decompresses it.
        program: &'static str,
    },
    /// Reading or decompressing fails.
    #[error(
        "cannot read the trace {} beyond {place}: {source}; {usable} requests before that are \
         usable; is the file whole?",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// How far it could be read.
        place: Place,
        /// What the system or the decompressor says.
        source: io::Error,
        /// Requests before it.
        usable: u64,
    },
    /// The format is not kept to.
    #[error(
        "{}, {place}: {what}; {usable} requests before that are usable; if it is not {format}, \
         name another --format",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where.
        place: Place,
        /// The format it was read as.
        format: Format,
        /// What is wrong.
        what: String,
        /// Requests before it.
        usable: u64,
    },
    /// There are more requests or objects than one trace may have.
    #[error(
        "{}, {place}: more than {REQUESTS_MAX} requests, or {OBJECTS_MAX} objects; cut \
         the trace into parts",
        path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Where the bound is exceeded.
        place: Place,
    },
    /// Nothing tells how the trace is written down.
    #[error(
        "cannot tell the format of {}: {recognised}; name it with --format: {names}",
        path.display(),
        names = Format::names()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What can be said of it.
        recognised: String,
    },
    /// There is nothing in it.
    #[error("{} holds no requests; read as {format}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: Format,
    },
}

impl TraceError {
    /// The same, with what could be read before.
    pub(super) fn after(mut self, requests: u64) -> TraceError {
        if let TraceError::Read { usable, .. } | TraceError::Malformed { usable, .. } = &mut self {
            *usable = requests;
        }
        self
    }
}
