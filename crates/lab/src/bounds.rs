use std::fmt;

use toml::{Table, Value};

/// Longest time that a value may say: an hour.
const TIME_MAX_S: f64 = 3_600.0;
/// Most bytes of anything: 16 TiB.
const BYTES_MAX: f64 = (1u64 << 44) as f64;
/// Most that a device offers: 1 EiB, of which only what is cached takes memory.
const CAPACITY_BYTES_MAX: f64 = (1u64 << 60) as f64;
/// Most bytes that are read, written or kept as one: 64 MiB.
const PIECE_BYTES_MAX: f64 = (64u64 << 20) as f64;
/// Rates of bytes, between 10 KB and 1 TB a second.
const RATE_BYTES: (f64, f64) = (1e4, 1e12);
/// By so much sizes may be divided.
const DIVISOR_MAX: f64 = (1u64 << 20) as f64;
/// Most of anything that is counted, and the largest of other numbers.
const COUNT_MAX: f64 = (1u64 << 22) as f64;
/// The largest figure of a source.
const FIGURE_MAX: f64 = 1e15;

/// Least bytes of what lies together or is asked for at once: a sector.
const BLOCK_BYTES_MIN: f64 = 512.0;
/// Revolutions a minute.
const RPM: (f64, f64) = (100.0, 1e6);

/// What lies together on a device, and what clients ask for at once.
const BLOCKS: [&str; 4] = ["request_bytes", "run_bytes", "sector_bytes", "stripe_bytes"];
/// What is read, written or kept as one.
const PIECES: [&str; 8] = [
    "block_bytes",
    "kept_bytes_each",
    "page_bytes",
    "piece_bytes",
    "read_bytes",
    "record_bytes",
    "search_bytes",
    "stream_bytes",
];

/// A value that nothing in the lab can have: virtual time or memory would not do, or it would not
/// end.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfBounds {
    key: String,
    number: f64,
    allowed: (f64, f64),
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.allowed;
        let (key, number) = (&self.key, written(self.number));
        match least > 0.0 {
            true => write!(
                formatter,
                "{key} = {number}, and allowed is {} to {}",
                written(least),
                written(most)
            ),
            false => {
                write!(formatter, "{key} = {number}, and at most {} is allowed", written(most))
            }
        }
    }
}

/// Digits as far as a person reads them.
fn written(number: f64) -> String {
    match number.abs() {
        size if size == 0.0 || (1e-3..1e16).contains(&size) => format!("{number}"),
        _ => format!("{number:e}"),
    }
}

/// Whether all numbers below the table `key` are such that what is done with them comes to an end.
/// The unit, which a key's name ends with, says what is allowed.
pub(crate) fn check(key: &str, table: &Table) -> Result<(), OutOfBounds> {
    table.iter().try_for_each(|(name, value)| each(&format!("{key}.{name}"), name, value))
}

/// The same of a whole file.
pub(crate) fn check_all(table: &Table) -> Result<(), OutOfBounds> {
    table.iter().try_for_each(|(name, value)| each(name, name, value))
}

fn each(key: &str, name: &str, value: &Value) -> Result<(), OutOfBounds> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Array(values) => return values.iter().try_for_each(|value| each(key, name, value)),
        Value::Table(table) => return check(key, table),
        _ => return Ok(()),
    };
    let allowed = allowed(name);
    match (allowed.0..=allowed.1).contains(&number) {
        true => Ok(()),
        false => Err(OutOfBounds { key: key.to_owned(), number, allowed }),
    }
}

/// The least and the most that a key of this name may have.
fn allowed(name: &str) -> (f64, f64) {
    let unit = |unit: &str| name == unit || name.ends_with(&format!("_{unit}"));
    let most = match name {
        _ if name.starts_with("source_") || name == "figure" => FIGURE_MAX,
        _ if unit("bytes_per_s") => return RATE_BYTES,
        _ if unit("mb_s") => return (RATE_BYTES.0 / 1e6, RATE_BYTES.1 / 1e6),
        _ if unit("s") || unit("seconds") => TIME_MAX_S,
        _ if unit("ms") => TIME_MAX_S * 1e3,
        _ if unit("us") => TIME_MAX_S * 1e6,
        "rpm" => return RPM,
        "capacity_bytes" => CAPACITY_BYTES_MAX,
        _ if BLOCKS.contains(&name) => return (BLOCK_BYTES_MIN, PIECE_BYTES_MAX),
        _ if PIECES.contains(&name) => PIECE_BYTES_MAX,
        _ if unit("bytes") || unit("gb") || name == "bytes_each" => BYTES_MAX,
        _ if unit("divisor") => DIVISOR_MAX,
        _ if unit("percent") => 100.0,
        _ => COUNT_MAX,
    };
    (0.0, most)
}
