use super::builder::Builder;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};
use super::ranges::Ranges;

/// How the first line begins, and goes on with the version.
pub(super) const HEADING: &str = "warmfront recording ";

/// The version that is read.
const VERSION: &str = "1";

/// What `warmfront record` writes: after the heading lines of
/// `time_us operation file offset bytes`.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut ranges = Ranges::default();
    let (mut headed, mut latest_us) = (false, 0);
    input.lines(Format::Recording, |line| {
        if !headed {
            headed = true;
            requests.sampled(share(line)?);
            return Ok(());
        }
        let mut columns = line.split_ascii_whitespace();
        let time_us = number(columns.next(), "a time in microseconds")?;
        if time_us < latest_us {
            let what = format!("the time goes back from {latest_us} to {time_us} us");
            return Err(Fault::new(what));
        }
        latest_us = time_us;
        match columns.next() {
            Some("r" | "w") => {}
            other => {
                let other = other.unwrap_or_default();
                return Err(Fault::new(format!("`{other}` is neither r nor w")));
            }
        }
        let file = columns.next().ok_or_else(|| Fault::new("the column with a file is missing"))?;
        if u64::from_str_radix(file, 16).is_err() {
            return Err(Fault::new(format!(
                "`{file}` is not a file, which is a hexadecimal number"
            )));
        }
        let offset = number(columns.next(), "an offset in bytes")?;
        let bytes = number(columns.next(), "a number of bytes")?;
        if bytes == 0 {
            return Err(Fault::new("it asks for 0 bytes, and nobody records that"));
        }
        if let Some(more) = columns.next() {
            return Err(Fault::new(format!("`{more}` stands behind the last column")));
        }
        ranges.push(requests, file, offset, bytes)
    })
}

/// The share of all contents that was recorded, as the first line says.
fn share(line: &str) -> Result<f64, Fault> {
    let (version, rest) = line
        .strip_prefix(HEADING)
        .and_then(|rest| rest.split_once(','))
        .ok_or_else(|| Fault::new(format!("the first line does not begin with {HEADING:?}")))?;
    if version != VERSION {
        return Err(Fault::new(format!(
            "this is version {version} of a recording, and version {VERSION} is read; use the \
             warmfront that wrote it"
        )));
    }
    let percent = rest.split('%').next().and_then(|percent| percent.trim().parse::<f64>().ok());
    percent
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| Fault::new("the first line does not say how many % were recorded"))
}
