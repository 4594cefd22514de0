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

/// What of a damaged trace comes before the damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usable {
    /// Requests as they stand in the file.
    pub requests: u64,
    /// The blocks, or objects, that these ask for, each counted as often as it is asked for.
    pub blocks: u64,
}

impl fmt::Display for Usable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usable { requests, blocks } = *self;
        match requests {
            1 => write!(formatter, "1 request before that is usable")?,
            _ => write!(formatter, "{requests} requests before that are usable")?,
        }
        if blocks != requests {
            write!(formatter, ", for {blocks} blocks")?;
        }
        Ok(())
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
        "cannot read the trace {} beyond {place}: {source}; {usable}; is the file whole?",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// How far it could be read.
        place: Place,
        /// What the system or the decompressor says.
        source: io::Error,
        /// What comes before it.
        usable: Usable,
    },
    /// The format is not kept to.
    #[error(
        "{}, {place}: {what}; {usable}; {}", path.display(), remedy(*format, *place)
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
        /// What comes before it.
        usable: Usable,
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

/// What helps against a fault at a place.
fn remedy(format: Format, place: Place) -> String {
    match (format, place) {
        // Its first line has said what it is.
        (Format::Recording, Place::Line(line)) if line > 1 => format!(
            "record anew, or go on with what comes before that: `head -n {}` of it",
            line - 1
        ),
        _ => format!("if it is not {format}, name another --format"),
    }
}

impl TraceError {
    /// The same, with what could be read before.
    pub(super) fn after(mut self, before: Usable) -> TraceError {
        if let TraceError::Read { usable, .. } | TraceError::Malformed { usable, .. } = &mut self {
            *usable = before;
        }
        self
    }
}
