use std::fmt;

use serde::{Deserialize, Serialize};

/// A size that could not be understood.
///
/// ```
/// use warmfront::{SizeError, parse_size};
///
/// assert!(matches!(parse_size("12Q"), Err(SizeError::NotASize { .. })));
/// assert!(matches!(parse_size("16E"), Err(SizeError::TooLarge { .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// Not a number, or its unit is not known.
    #[error("`{text}` is not a size; write a number with a unit, such as 131072, 128K, 4.5G{}",
        if *.percent { " or 25%" } else { "" })]
    NotASize {
        /// What was given.
        text: String,
        /// Whether a share would have been taken.
        percent: bool,
    },
    /// A number of bytes that does not fit into 64 bits.
    #[error("`{text}` is too large for a size; it must be less than 16E (2^64 bytes)")]
    TooLarge {
        /// What was given.
        text: String,
    },
    /// A share of more than the whole.
    #[error("`{text}` is more than the memory there is; give at most 100%")]
    MoreThanAll {
        /// What was given.
        text: String,
    },
}

/// A size, or a share of the memory there is.
///
/// ```
/// use warmfront::Size;
///
/// assert_eq!(Size::Bytes(3 << 29).to_string(), "1536M");
/// assert_eq!(Size::Percent(12.5).to_string(), "12.5%");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Hundredths of the memory.
    Percent(f64),
}

impl fmt::Display for Size {
    /// As it is read.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => ExactSize(*bytes).fmt(formatter),
            Size::Percent(percent) => formatter.pad(&format!("{percent}%")),
        }
    }
}

const UNITS: [(&str, u32); 6] = [("k", 10), ("m", 20), ("g", 30), ("t", 40), ("p", 50), ("e", 60)];

/// Reads a number of bytes as people write it: `131072`, `128K`, `4.5GiB`. Units are powers of
/// 1024, in either case, with or without `B` or `iB`.
///
/// ```
/// assert_eq!(warmfront::parse_size("1.5G"), Ok(3 << 29));
/// assert!(warmfront::parse_size("much").is_err());
/// ```
///
/// # Errors
/// When it is not a size, or does not fit into 64 bits.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let error = || SizeError::NotASize { text: text.to_string(), percent: false };
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let unit = unit.trim();
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1,
    };
    let too_large = || SizeError::TooLarge { text: text.to_string() };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(too_large);
    }
    let bytes = number.parse::<f64>().map_err(|_| error())? * (1u64 << shift) as f64;
    if bytes < u64::MAX as f64 { Ok(bytes.round() as u64) } else { Err(too_large()) }
}

/// Reads a number of bytes, or a share of memory such as `25%`.
///
/// ```
/// use warmfront::{Size, parse_size_or_percent};
///
/// assert_eq!(parse_size_or_percent("25%"), Ok(Size::Percent(25.0)));
/// assert_eq!(parse_size_or_percent("2GiB"), Ok(Size::Bytes(2 << 30)));
/// ```
///
/// # Errors
/// As [`parse_size`]; a share must lie above 0 and at most at 100.
pub fn parse_size_or_percent(text: &str) -> Result<Size, SizeError> {
    let error = || SizeError::NotASize { text: text.to_string(), percent: true };
    let Some(number) = text.trim().strip_suffix('%') else {
        return parse_size(text).map(Size::Bytes).map_err(|failed| match failed {
            SizeError::NotASize { .. } => error(),
            failed => failed,
        });
    };
    match number.trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Size::Percent(percent)),
        Ok(percent) if percent > 100.0 => Err(SizeError::MoreThanAll { text: text.to_string() }),
        _ => Err(error()),
    }
}

/// A number of bytes as people read it: three digits that count, and a unit.
///
/// ```
/// assert_eq!(warmfront::HumanSize(1_234_567).to_string(), "1.18M");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HumanSize(pub u64);

impl fmt::Display for HumanSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().rev().find(|(_, shift)| self.0 >= 1 << shift);
        let text = match unit {
            None => format!("{}", self.0),
            Some((name, shift)) => {
                let value = self.0 as f64 / (1u64 << shift) as f64;
                let name = name.to_ascii_uppercase();
                match value {
                    value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}{name}"),
                    value if value >= 10.0 => format!("{value:.1}{name}"),
                    value => format!("{value:.2}{name}"),
                }
            }
        };
        formatter.pad(&text)
    }
}

/// A number of bytes that reads back as exactly the same: with the largest unit that divides it.
///
/// ```
/// assert_eq!(warmfront::ExactSize(1536).to_string(), "1536");
/// assert_eq!(warmfront::ExactSize(3 << 20).to_string(), "3M");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExactSize(pub u64);

impl fmt::Display for ExactSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |shift: u32| self.0 >= 1 << shift && self.0.trailing_zeros() >= shift;
        let text = match UNITS.iter().rev().find(|(_, shift)| divides(*shift)) {
            None => self.0.to_string(),
            Some((name, shift)) => format!("{}{}", self.0 >> shift, name.to_ascii_uppercase()),
        };
        formatter.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("131072", 131_072),
            ("128K", 131_072),
            ("128 kib", 131_072),
            ("4.5GiB", 4_831_838_208),
            ("1t", 1 << 40),
            ("15E", 15 << 60),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "12Q", "-1", "1..2", "25%"] {
            assert!(matches!(parse_size(text), Err(SizeError::NotASize { .. })), "{text}");
        }
        for text in ["16E", "16.5E", "99999999999999999999", "99999999999999999999K"] {
            let error = SizeError::TooLarge { text: text.to_string() };
            assert_eq!(parse_size(text), Err(error.clone()));
            assert_eq!(parse_size_or_percent(text), Err(error));
        }
        assert_eq!(parse_size_or_percent("25%"), Ok(Size::Percent(25.0)));
        assert_eq!(parse_size_or_percent("1G"), Ok(Size::Bytes(1 << 30)));
        for text in ["0%", "101%", "x%", "%"] {
            assert!(parse_size_or_percent(text).is_err(), "{text}");
        }
        let error = parse_size_or_percent("120%").expect_err("more than all");
        assert!(error.to_string().contains("more than the memory"), "{error}");
    }

    #[test]
    fn sizes_are_printed_with_the_digits_that_count() {
        let cases = [
            (0, "0"),
            (1023, "1023"),
            (131_072, "128K"),
            (1_500_000, "1.43M"),
            (40_000_000_000, "37.3G"),
        ];
        for (bytes, text) in cases {
            assert_eq!(HumanSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn exact_sizes_read_back() {
        for (bytes, text) in
            [(0, "0"), (1_500_000, "1500000"), (131_072, "128K"), (3 << 29, "1536M")]
        {
            assert_eq!(ExactSize(bytes).to_string(), text);
            assert_eq!(parse_size(text), Ok(bytes));
        }
    }
}
