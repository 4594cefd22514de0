use super::builder::Builder;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};

/// Bytes of a block in these traces.
const BLOCK_BYTES: u32 = 512;

/// Lines of `first_block blocks ignored number`; each stands for `blocks` requests.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    input.lines(Format::Arc, |line| {
        let mut columns = line.split_ascii_whitespace();
        let first = number(columns.next(), "the number of a block")?;
        let count = number(columns.next(), "a number of blocks")?;
        if first.checked_add(count).is_none() {
            return Err(Fault::new(format!("{count} blocks from {first} on cannot be")));
        }
        Ok(requests.push_run(first, count, BLOCK_BYTES)?)
    })
}
