use xxhash_rust::xxh3::xxh3_64;

use super::builder::Builder;
use super::bytes::SPLIT_BYTES;
use super::error::TraceError;
use super::format::Format;
use super::input::{Fault, Input, number};

/// Headings of the column that tells objects apart, in order of preference. `block_id` is of
/// CacheLib's block traces.
const ID_HEADINGS: [&str; 7] = ["block_id", "obj_id", "object_id", "id", "key", "object", "lbn"];

/// Headings of the column with the size in bytes, in order of preference.
const SIZE_HEADINGS: [&str; 6] = ["io_size", "size", "obj_size", "object_size", "bytes", "length"];

/// Which columns count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    id: usize,
    /// Without one, every object is a block of 4 KiB.
    size: Option<usize>,
}

impl Columns {
    /// `time,id,size`, as in a file without headings.
    const PLAIN: Columns = Columns { id: 1, size: Some(2) };

    /// As headings say.
    pub(super) fn new(line: &str) -> Result<Columns, Fault> {
        let find = |names: &[&str]| {
            let place = |name: &&str| split(line).position(|head| head.eq_ignore_ascii_case(name));
            names.iter().find_map(place)
        };
        let missing = || {
            Fault::new(format!(
                "no column is called {}; without headings the columns are time, id and size",
                ID_HEADINGS.join(" or ")
            ))
        };
        Ok(Columns { id: find(&ID_HEADINGS).ok_or_else(missing)?, size: find(&SIZE_HEADINGS) })
    }
}

/// Whether a first line holds headings: it does not start with a number.
pub(super) fn is_heading(line: &str) -> bool {
    split(line).next().is_none_or(|column| column.parse::<f64>().is_err())
}

/// The columns of a line. Quotes mean nothing.
pub(super) fn split(line: &str) -> impl Iterator<Item = &str> {
    let comma = line.contains(',');
    line.split(move |letter: char| if comma { letter == ',' } else { letter.is_whitespace() })
        .map(str::trim)
        .filter(move |column| comma || !column.is_empty())
}

/// One request a line. An object whose name is not a number goes by a hash of it.
pub(super) fn read(input: &mut Input, requests: &mut Builder) -> Result<(), TraceError> {
    let mut known = None;
    input.lines(Format::Csv, |line| {
        let columns = match known {
            Some(columns) => columns,
            None if is_heading(line) => {
                known = Some(Columns::new(line)?);
                return Ok(());
            }
            None => *known.insert(Columns::PLAIN),
        };
        let id = split(line).nth(columns.id).filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Fault::new("the column with the object is missing"))?;
        let key = id.parse().unwrap_or_else(|_| xxh3_64(id.as_bytes()));
        let bytes = match columns.size {
            None => u64::from(SPLIT_BYTES),
            Some(column) => number(split(line).nth(column), "a size in bytes")?,
        };
        let too_large = |_| Fault::new(format!("an object of {bytes} bytes; at most {}", u32::MAX));
        Ok(requests.push(key, u32::try_from(bytes).map_err(too_large)?)?)
    })
}
