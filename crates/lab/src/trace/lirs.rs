use super::builder::Builder;
use super::bytes::SPLIT_BYTES;
use super::error::TraceError;
use super::format::Format;
use super::input::{Input, number};

/// A line that only marks a place.
pub(super) const MARK: &str = "*";

/// A block number a line.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    input.lines(Format::Lirs, |line| match line {
        MARK => Ok(()),
        line => Ok(requests.push(number(Some(line), "the number of a block")?, SPLIT_BYTES)?),
    })
}
