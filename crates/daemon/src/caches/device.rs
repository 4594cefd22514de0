use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warmfront::{ExactSize, SizeError, parse_size};

use crate::wire_path;

/// Least bytes of a cache device.
const BYTES_MIN: u64 = 8 << 20;

/// A cache device as people name it: `PATH`, or `PATH:SIZE` for a file that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheDevice {
    /// A file or a block device.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// The file is made with this size, or made longer; bytes.
    pub size_bytes: Option<u64>,
}

/// Why a text names no cache device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheDeviceError {
    /// Nothing stands before the size.
    #[error("`{text}` names no cache device; write PATH, or PATH:SIZE such as /flash/cache:100G")]
    NoPath {
        /// What was given.
        text: String,
    },
    /// What stands behind the colon is no size.
    #[error("cache device `{text}`: {error}")]
    Size {
        /// What was given.
        text: String,
        /// What is wrong with it.
        error: SizeError,
    },
    /// It is too small.
    #[error("cache device `{text}` is too small: give at least {}", ExactSize(BYTES_MIN))]
    TooSmall {
        /// What was given.
        text: String,
    },
}

impl CacheDevice {
    /// The same with a path that holds wherever the reader stands.
    pub(crate) fn absolute(self) -> CacheDevice {
        let path = std::path::absolute(&self.path).unwrap_or(self.path);
        CacheDevice { path, ..self }
    }

    /// Whether it is the device at `path`.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        is_same(&self.path, path)
    }
}

/// Reads `PATH` or `PATH:SIZE`.
pub(crate) fn path_and_size(text: &str) -> Result<(PathBuf, Option<u64>), SizeError> {
    match text.rsplit_once(':') {
        // A path may have a colon of its own.
        Some((path, size)) if !Path::new(text).exists() => {
            Ok((path.into(), Some(parse_size(size)?)))
        }
        _ => Ok((text.into(), None)),
    }
}

/// Whether two paths lead to the same.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl FromStr for CacheDevice {
    type Err = CacheDeviceError;

    fn from_str(text: &str) -> Result<CacheDevice, CacheDeviceError> {
        let (path, size_bytes) = path_and_size(text)
            .map_err(|error| CacheDeviceError::Size { text: text.to_string(), error })?;
        let device = CacheDevice { path, size_bytes };
        if device.path.as_os_str().is_empty() {
            return Err(CacheDeviceError::NoPath { text: text.to_string() });
        }
        if device.size_bytes.is_some_and(|bytes| bytes < BYTES_MIN) {
            return Err(CacheDeviceError::TooSmall { text: text.to_string() });
        }
        Ok(device)
    }
}

impl fmt::Display for CacheDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        match self.size_bytes {
            Some(bytes) => write!(formatter, ":{}", ExactSize(bytes)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_shown_again() {
        for (text, path, size_bytes) in [
            ("/dev/nvme9n9", "/dev/nvme9n9", None),
            ("/flash/cache:100G", "/flash/cache", Some(100 << 30)),
            ("cache:8M", "cache", Some(8 << 20)),
            ("/a:b/c:1G", "/a:b/c", Some(1 << 30)),
        ] {
            let device: CacheDevice = text.parse().expect("well formed");
            assert_eq!(device, CacheDevice { path: path.into(), size_bytes });
            assert_eq!(device.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_device_is_refused_with_words() {
        let refused = |text: &str| text.parse::<CacheDevice>().expect_err("refused").to_string();
        assert!(refused(":10G").contains("PATH:SIZE"), "{}", refused(":10G"));
        assert!(refused("/flash/cache:big").contains("`big` is not a size"));
        assert!(refused("/flash/cache:1M").contains("at least 8M"));
        assert!(refused("").contains("names no cache device"));
    }
}
