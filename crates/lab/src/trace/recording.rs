use super::builder::Builder;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};
use super::ranges::Ranges;

/// How the first line begins.
pub(super) const HEADING: &str = "warmfront recording 1,";

/// What `warmfront record` writes: after the heading lines of
/// `time_us operation file offset bytes`.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut ranges = Ranges::default();
    let mut headed = false;
    input.lines(Format::Recording, |line| {
        if !headed {
            headed = line.starts_with(HEADING);
            return match headed {
                true => Ok(()),
                false => Err(Fault::new(format!("the first line does not begin with {HEADING:?}"))),
            };
        }
        let mut columns = line.split_ascii_whitespace();
        number(columns.next(), "a time in microseconds")?;
        match columns.next() {
            Some("r" | "w") => {}
            other => {
                let other = other.unwrap_or_default();
                return Err(Fault::new(format!("`{other}` is neither r nor w")));
            }
        }
        let file = columns.next().ok_or_else(|| Fault::new("the column with a file is missing"))?;
        let offset = number(columns.next(), "an offset in bytes")?;
        ranges.push(requests, file, offset, number(columns.next(), "a number of bytes")?)
    })
}
