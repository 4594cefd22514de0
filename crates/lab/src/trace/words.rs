use super::builder::Builder;
use super::bytes::SPLIT_BYTES;
use super::error::TraceError;
use super::format::Format;
use super::input::Input;

/// Block numbers of `N` bytes each, and nothing else.
pub(super) fn read<const N: usize, Word: Into<u64>>(
    input: &mut Input,
    requests: &mut Builder,
    format: Format,
    decode: fn([u8; N]) -> Word,
) -> Result<(), TraceError> {
    input.records(format, |record| Ok(requests.push(decode(*record).into(), SPLIT_BYTES)?))
}
