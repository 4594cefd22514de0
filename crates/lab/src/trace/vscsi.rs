use super::builder::Builder;
use super::bytes::push_range;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input};

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 32;

/// The version whose layout this is, in the high byte of the version field.
const VERSION: u8 = 1;

/// SCSI commands READ and WRITE with 6, 10, 12 and 16 bytes, and WRITE AND VERIFY.
const READS_AND_WRITES: [u16; 11] =
    [0x08, 0x0a, 0x28, 0x2a, 0x2e, 0x88, 0x8a, 0x8e, 0xa8, 0xaa, 0xae];

/// What counts in a record: 32 bytes, little-endian, of `u32` serial number, `u32` bytes, `u32`
/// segments, `u16` SCSI command, `u16` version, `u64` first sector, `u64` time in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    bytes: u32,
    command: u16,
    version: u8,
    first_sector: u64,
}

impl Record {
    /// Reads the fields.
    pub fn new(record: &[u8; RECORD_BYTES]) -> Record {
        let field = |at| u64::from_le_bytes(std::array::from_fn(|index| record[at + index]));
        Record {
            bytes: field(4) as u32,
            command: field(12) as u16,
            version: record[15],
            first_sector: field(16),
        }
    }

    /// Whether this may well be a record: nothing else has these values in these places.
    pub fn is_plausible(self) -> bool {
        self.version == VERSION && self.is_transfer()
    }

    fn is_transfer(self) -> bool {
        READS_AND_WRITES.contains(&self.command)
    }
}

/// Records of reads and writes; other commands are passed over.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    input.records(Format::Vscsi, |record| {
        let record = Record::new(record);
        if record.version != VERSION {
            let version = record.version;
            return Err(Fault::new(format!("version {version} where {VERSION} is expected")));
        }
        if !record.is_transfer() {
            return Ok(());
        }
        push_range(requests, 0, record.first_sector, u64::from(record.bytes)).map_err(|fault| {
            let out_of_range = || Fault::new("a range beyond the end of any disk");
            fault.map_or_else(out_of_range, Fault::from)
        })
    })
}
