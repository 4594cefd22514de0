use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warmfront::{ExactSize, HumanSize, Size, SizeError, parse_size_or_percent};

use crate::ceiling::reading::MemoryLimit;

/// Least ceiling in bytes; with less not even the reads under way have room.
pub const CEILING_BYTES_MIN: u64 = 8 << 20;

/// Part of the memory below which `auto` does not shrink unless told otherwise, as its divisor.
const FLOOR_SHARE: u64 = 32;

/// Least default floor of `auto` in bytes, where the memory has room for it.
const FLOOR_BYTES_MIN: u64 = 32 << 20;

/// Most memory that a ceiling can be a share of, in bytes.
const MEMORY_BYTES_MAX: u64 = 1 << 60;

/// The ceiling as an operator asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ArcMax {
    /// Whatever the system and other processes leave.
    #[default]
    Auto,
    /// So much.
    Size(Size),
}

/// What an operator says of the ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Most that everything together may take.
    pub arc_max: ArcMax,
    /// The ceiling never shrinks below this. By default 1/32 of the memory for `auto`, and all of
    /// a ceiling that is given: that one never moves.
    pub arc_min: Option<Size>,
}

/// Between which bytes the ceiling may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Least.
    pub floor_bytes: u64,
    /// Most.
    pub most_bytes: u64,
}

/// Why a ceiling cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingError {
    /// It leaves no room to work.
    #[error(
        "a ceiling of {} is too small; give at least {}", ExactSize(*.0),
        HumanSize(CEILING_BYTES_MIN)
    )]
    TooSmall(u64),
    /// There is less memory.
    #[error(
        "a ceiling of {} is more than {limit}; give less, a share such as 25%, or auto",
        HumanSize(*.bytes)
    )]
    AboveMemory {
        /// What was asked for.
        bytes: u64,
        /// What there is.
        limit: MemoryLimit,
    },
    /// The ceiling could not even begin.
    #[error(
        "the floor (arc-min) of {} is more than the ceiling (arc-max) of {}; lower the one or \
         raise the other", HumanSize(*.floor_bytes), HumanSize(*.most_bytes)
    )]
    FloorAboveCeiling {
        /// The floor.
        floor_bytes: u64,
        /// The ceiling.
        most_bytes: u64,
    },
    /// A share of nobody knows what.
    #[error(
        "nothing tells how much memory there is (neither /proc/meminfo nor sysinfo); give the \
         ceiling in bytes, such as --arc-max 1G"
    )]
    UnknownMemory,
}

impl Setting {
    /// The bounds that this means where there is so much memory.
    ///
    /// # Errors
    /// When it makes no sense there.
    pub fn bounds(&self, memory: &MemoryLimit) -> Result<Bounds, CeilingError> {
        let known = memory.bytes > 0;
        let bytes_of = |size: Size| match size {
            Size::Bytes(bytes) => Ok(bytes),
            Size::Percent(_) if !known => Err(CeilingError::UnknownMemory),
            Size::Percent(percent) => {
                let all = memory.bytes.min(MEMORY_BYTES_MAX);
                Ok((all as f64 * percent / 100.0) as u64)
            }
        };
        let most_bytes = match self.arc_max {
            ArcMax::Auto if !known => return Err(CeilingError::UnknownMemory),
            ArcMax::Auto => memory.bytes.min(MEMORY_BYTES_MAX),
            ArcMax::Size(size) => bytes_of(size)?,
        };
        if most_bytes < CEILING_BYTES_MIN {
            return Err(CeilingError::TooSmall(most_bytes));
        }
        if known && most_bytes > memory.bytes {
            return Err(CeilingError::AboveMemory { bytes: most_bytes, limit: memory.clone() });
        }
        let floor_bytes = match (self.arc_min, self.arc_max) {
            (Some(size), _) => bytes_of(size)?.max(CEILING_BYTES_MIN),
            (None, ArcMax::Size(_)) => most_bytes,
            (None, ArcMax::Auto) => {
                let least = FLOOR_BYTES_MIN.min(most_bytes / 4).max(CEILING_BYTES_MIN);
                (most_bytes / FLOOR_SHARE).max(least)
            }
        };
        if floor_bytes > most_bytes {
            return Err(CeilingError::FloorAboveCeiling { floor_bytes, most_bytes });
        }
        Ok(Bounds { floor_bytes, most_bytes })
    }
}

impl Setting {
    /// Whether its bounds are others where there is more or less memory.
    pub fn follows_memory(&self) -> bool {
        let is_share = |size: &Size| matches!(size, Size::Percent(_));
        match &self.arc_max {
            ArcMax::Auto => true,
            ArcMax::Size(size) => is_share(size) || self.arc_min.as_ref().is_some_and(is_share),
        }
    }
}

impl Bounds {
    /// Whether there is nothing to decide.
    pub fn is_fixed(&self) -> bool {
        self.floor_bytes == self.most_bytes
    }
}

impl FromStr for ArcMax {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<ArcMax, SizeError> {
        match text.trim().eq_ignore_ascii_case("auto") {
            true => Ok(ArcMax::Auto),
            false => parse_size_or_percent(text).map(ArcMax::Size),
        }
    }
}

impl TryFrom<String> for ArcMax {
    type Error = SizeError;

    fn try_from(text: String) -> Result<ArcMax, SizeError> {
        text.parse()
    }
}

impl From<ArcMax> for String {
    fn from(arc_max: ArcMax) -> String {
        arc_max.to_string()
    }
}

impl fmt::Display for ArcMax {
    /// As it is read.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArcMax::Auto => formatter.write_str("auto"),
            ArcMax::Size(Size::Bytes(bytes)) => ExactSize(*bytes).fmt(formatter),
            ArcMax::Size(Size::Percent(percent)) => write!(formatter, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceiling::reading::LimitSource;

    const GIB: u64 = 1 << 30;

    fn bounds(arc_max: &str, arc_min: &str, memory: u64) -> Result<Bounds, CeilingError> {
        let arc_min =
            (!arc_min.is_empty()).then(|| parse_size_or_percent(arc_min).expect("a size"));
        let setting = Setting { arc_max: arc_max.parse().expect("a ceiling"), arc_min };
        setting.bounds(&MemoryLimit { bytes: memory, source: LimitSource::Machine })
    }

    #[test]
    fn settings_read_back() {
        for text in ["auto", "4G", "12.5%", "1500000"] {
            let arc_max: ArcMax = text.parse().expect("a ceiling");
            assert_eq!(arc_max.to_string(), text);
        }
        assert_eq!(" AUTO ".parse::<ArcMax>(), Ok(ArcMax::Auto));
        assert!("automatic".parse::<ArcMax>().is_err());
    }

    #[test]
    fn what_is_given_is_fixed_and_auto_moves() {
        let fixed = bounds("4G", "", 32 * GIB).expect("fits");
        assert!(fixed.is_fixed() && fixed.most_bytes == 4 * GIB);
        assert_eq!(bounds("25%", "", 32 * GIB).expect("fits").most_bytes, 8 * GIB);
        let auto = bounds("auto", "", 32 * GIB).expect("fits");
        assert_eq!(auto, Bounds { floor_bytes: GIB, most_bytes: 32 * GIB });
        let floor = bounds("4G", "1G", 32 * GIB).expect("fits");
        assert_eq!(floor, Bounds { floor_bytes: GIB, most_bytes: 4 * GIB });
        assert_eq!(bounds("auto", "50%", 32 * GIB).expect("fits").floor_bytes, 16 * GIB);
        // A small group: the floor leaves most of it to others.
        assert_eq!(bounds("auto", "", 64 << 20).expect("fits").floor_bytes, 16 << 20);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let says = |arc_max: &str, arc_min: &str, parts: &[&str]| {
            let error = bounds(arc_max, arc_min, 32 * GIB).expect_err(arc_max).to_string();
            parts.iter().for_each(|part| assert!(error.contains(part), "{part}: {error}"));
        };
        says("0", "", &["ceiling of 0", "at least 8M"]);
        says("1M", "", &["at least 8M"]);
        says("0.0001%", "", &["at least 8M"]);
        says("15E", "", &["15E", "more than the machine's 32G"]);
        says("33G", "", &["more than the machine's 32G", "auto"]);
        says("1G", "2G", &["floor", "2G", "more than the ceiling", "1G"]);
        says("auto", "33G", &["floor", "33G", "32G"]);
    }

    #[test]
    fn unknown_memory_leaves_only_bytes() {
        assert_eq!(bounds("auto", "", 0), Err(CeilingError::UnknownMemory));
        assert_eq!(bounds("25%", "", 0), Err(CeilingError::UnknownMemory));
        assert_eq!(bounds("1G", "", 0).expect("bytes").most_bytes, GIB);
    }
}
