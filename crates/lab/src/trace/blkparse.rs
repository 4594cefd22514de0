use super::builder::Builder;
use super::bytes::SECTOR_BYTES;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};
use super::ranges::Ranges;

/// The action of a request that comes in.
const QUEUED: &str = "Q";

/// Whether a line may well be of blkparse: it begins with the numbers of a device, a processor, a
/// sequence, and a time.
pub(super) fn is_plausible(line: &str) -> bool {
    let mut columns = line.split_ascii_whitespace();
    let is_number = |column: Option<&str>| column.is_some_and(|it| it.parse::<u64>().is_ok());
    let device = columns.next().and_then(|device| device.split_once(','));
    device.is_some_and(|(major, minor)| is_number(Some(major)) && is_number(Some(minor)))
        && is_number(columns.next())
        && is_number(columns.next())
        && columns.next().is_some_and(|time| time.parse::<f64>().is_ok())
}

/// Text of blkparse in its own format: `device processor sequence time process action kind
/// first_sector + sectors ...`. Counted are reads and writes when they come in; other actions, and
/// the summary at the end, are passed over.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut ranges = Ranges::default();
    let mut is_first = true;
    input.lines(Format::Blkparse, |line| {
        if !is_plausible(line) {
            return match std::mem::take(&mut is_first) {
                true => Err(Fault::new("this does not begin as a line of blkparse does")),
                false => Ok(()),
            };
        }
        is_first = false;
        let mut columns = line.split_ascii_whitespace();
        let device = columns.next().unwrap_or_default();
        let mut columns = columns.skip(4);
        let (action, kind) = (columns.next(), columns.next().unwrap_or_default());
        let transfers = kind.contains(['R', 'W']);
        let first = columns.next();
        if action != Some(QUEUED) || !transfers || columns.next() != Some("+") {
            return Ok(());
        }
        let first = number(first, "the number of a sector")?;
        let sectors = number(columns.next(), "a number of sectors")?;
        let bytes = |sectors: u64| {
            let far = || Fault::new(format!("sector {first} is beyond the end of any disk"));
            sectors.checked_mul(SECTOR_BYTES).ok_or_else(far)
        };
        ranges.push(requests, device, bytes(first)?, bytes(sectors)?)
    })
}
