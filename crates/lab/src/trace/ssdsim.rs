use super::builder::Builder;
use super::bytes::{DEVICE_MAX, SECTOR_BYTES, push_range};
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};

/// Lines of `time_ns device first_sector sectors operation`.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    input.lines(Format::Ssdsim, |line| {
        let mut columns = line.split_ascii_whitespace();
        number(columns.next(), "a time in nanoseconds")?;
        let device = number(columns.next(), "the number of a device")?;
        let first = number(columns.next(), "the number of a sector")?;
        let sectors = number(columns.next(), "a number of sectors")?;
        let out_of_range = || {
            Fault::new(format!(
                "{sectors} sectors from {first} on, on device {device}: a device has at most 2^64 \
                 bytes, and the greatest number of one is {DEVICE_MAX}"
            ))
        };
        let bytes = sectors.checked_mul(SECTOR_BYTES).ok_or_else(out_of_range)?;
        push_range(requests, device, first, bytes)
            .map_err(|fault| fault.map_or_else(out_of_range, Fault::from))
    })
}
