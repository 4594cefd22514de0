use super::builder::Builder;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};
use super::ranges::Ranges;

/// How the first line of an iolog begins and ends.
const HEADING: [&str; 2] = ["fio version ", " iolog"];
/// The columns of a log of latencies, bandwidths or operations with offsets.
const LOG_COLUMNS: [&str; 5] =
    ["a time", "a value", "a direction", "a number of bytes", "an offset in bytes"];

/// Whether this is the first line of an iolog.
pub(super) fn is_heading(line: &str) -> bool {
    line.starts_with(HEADING[0]) && line.ends_with(HEADING[1])
}

/// Whether a line may well be of a log of latencies: five or more columns, of which the third is a
/// direction.
pub(super) fn is_log_line(line: &str) -> bool {
    let columns: Vec<&str> = line.split(", ").map(str::trim).collect();
    (5..=7).contains(&columns.len())
        && matches!(columns[2], "0" | "1" | "2")
        && columns.iter().take(4).all(|column| column.parse::<u64>().is_ok())
}

/// What fio writes with `write_iolog`: version 2, `file action [offset bytes]`, and version 3 with
/// a time before each line. Files that are added, opened and closed are no requests, nor are waits.
pub(super) fn read_iolog(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut ranges = Ranges::default();
    let mut has_times = None;
    input.lines(Format::FioIolog, |line| {
        let Some(has_times) = has_times else {
            has_times = match line.split_ascii_whitespace().nth(2) {
                Some("2") if is_heading(line) => Some(false),
                Some("3") if is_heading(line) => Some(true),
                _ => {
                    let expected = "the first line is not `fio version 2 iolog`, nor with 3";
                    return Err(Fault::new(expected));
                }
            };
            return Ok(());
        };
        let mut columns = line.split_ascii_whitespace();
        if has_times {
            number(columns.next(), "a time in milliseconds")?;
        }
        let file = columns.next().ok_or_else(|| Fault::new("the column with a file is missing"))?;
        match columns.next() {
            Some("read" | "write") => {
                let offset = number(columns.next(), "an offset in bytes")?;
                let bytes = number(columns.next(), "a number of bytes")?;
                ranges.push(requests, file, offset, bytes)
            }
            Some(
                "add" | "open" | "close" | "sync" | "datasync" | "trim" | "wait"
                | "sync_file_range",
            ) => Ok(()),
            other => {
                let other = other.unwrap_or_default();
                Err(Fault::new(format!("`{other}` is no action of an iolog")))
            }
        }
    })
}

/// What fio writes with `write_lat_log` and the like: `time, value, direction, bytes, offset, ...`.
/// Offsets are there with `log_offset=1`; only then can requests be told apart.
pub(super) fn read_log(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut ranges = Ranges::default();
    input.lines(Format::FioLog, |line| {
        let mut columns = line.split(',').map(str::trim);
        let mut fields = [0; LOG_COLUMNS.len()];
        for (field, meaning) in fields.iter_mut().zip(LOG_COLUMNS) {
            *field = number(columns.next(), meaning).map_err(|fault| match meaning {
                "an offset in bytes" => {
                    Fault::new("there is no offset; let fio write it with log_offset=1")
                }
                _ => fault,
            })?;
        }
        let [_, _, direction, bytes, offset] = fields;
        match direction {
            0 | 1 => ranges.push(requests, "", offset, bytes),
            2 => Ok(()),
            other => Err(Fault::new(format!("{other} is no direction: 0, 1 and 2 are"))),
        }
    })
}
