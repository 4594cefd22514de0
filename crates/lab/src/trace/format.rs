use std::fmt;
use std::str::FromStr;

/// How a trace is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Text of the ARC paper: `first_block blocks ignored number`, blocks of 512 bytes.
    Arc,
    /// Text of the LIRS paper: a block number a line, taken for 4 KiB; a line `*` is a mark.
    Lirs,
    /// VMware's vscsiStats, 32-byte records; byte ranges, split in blocks of 4 KiB.
    Vscsi,
    /// libCacheSim's 24-byte records: time, object, size, next access.
    OracleGeneral,
    /// Text of SSDsim: `time_ns device first_sector sectors operation`, split in blocks of 4 KiB.
    Ssdsim,
    /// Little-endian block numbers of 32 bits, taken for 4 KiB each.
    U32le,
    /// Big-endian block numbers of 32 bits, taken for 4 KiB each.
    U32be,
    /// Little-endian block numbers of 64 bits, taken for 4 KiB each.
    U64le,
    /// Big-endian block numbers of 64 bits, taken for 4 KiB each.
    U64be,
    /// What `warmfront record` writes: byte ranges of files, split in blocks of 4 KiB.
    Recording,
    /// Text of blkparse; its byte ranges are split in blocks of 4 KiB.
    Blkparse,
    /// What fio writes with `write_iolog`; byte ranges, split in blocks of 4 KiB.
    FioIolog,
    /// What fio writes with `write_lat_log` and `log_offset=1`; split in blocks of 4 KiB.
    FioLog,
    /// Columns `time,id,size`, or as a heading names them; separated by commas or white space.
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 14] = [
        Format::Arc,
        Format::Lirs,
        Format::Vscsi,
        Format::OracleGeneral,
        Format::Ssdsim,
        Format::U32le,
        Format::U32be,
        Format::U64le,
        Format::U64be,
        Format::Csv,
        Format::Recording,
        Format::Blkparse,
        Format::FioIolog,
        Format::FioLog,
    ];

    /// As it is named on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Arc => "arc",
            Format::Lirs => "lirs",
            Format::Vscsi => "vscsi",
            Format::OracleGeneral => "oracle-general",
            Format::Ssdsim => "ssdsim",
            Format::U32le => "u32le",
            Format::U32be => "u32be",
            Format::U64le => "u64le",
            Format::U64be => "u64be",
            Format::Csv => "csv",
            Format::Recording => "recording",
            Format::Blkparse => "blkparse",
            Format::FioIolog => "fio-iolog",
            Format::FioLog => "fio-log",
        }
    }

    /// Whether every line ends with a newline, so that a last one without shows that the file is
    /// cut. Other programs may leave it out.
    pub(super) const fn ends_lines(self) -> bool {
        matches!(self, Format::Recording)
    }

    /// The names of all formats, for messages.
    pub(super) fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that no format has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no trace format `{0}`; there are {names}", names = Format::names())]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        let format = Format::ALL.into_iter().find(|format| format.name() == text);
        format.ok_or_else(|| UnknownFormat(text.to_string()))
    }
}
