use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warmfront::{ExactSize, SizeError};

use crate::caches::{is_same, path_and_size};
use crate::wire_path;

/// Least bytes of a log device.
pub(super) const BYTES_MIN: u64 = 16 << 20;
/// Length of a file that is made without one being named, bytes: what a quick device takes in the
/// few seconds until the origin has it.
pub(super) const BYTES_DEFAULT: u64 = 1 << 30;

/// A log device as people name it: `PATH`, or `PATH:SIZE` for a file that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogDevice {
    /// A file or a block device.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// The file is made with this size, or made longer; bytes.
    pub size_bytes: Option<u64>,
}

/// Why a text names no log device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogDeviceError {
    /// Nothing stands before the size.
    #[error("`{text}` names no log device; write PATH, or PATH:SIZE such as /flash/log:1G")]
    NoPath {
        /// What was given.
        text: String,
    },
    /// What stands behind the colon is no size.
    #[error("log device `{text}`: {error}")]
    Size {
        /// What was given.
        text: String,
        /// What is wrong with it.
        error: SizeError,
    },
    /// It is too small.
    #[error("log device `{text}` is too small: give at least {}", ExactSize(BYTES_MIN))]
    TooSmall {
        /// What was given.
        text: String,
    },
}

impl LogDevice {
    /// The same with a path that holds wherever the reader stands.
    pub(crate) fn absolute(self) -> LogDevice {
        let path = std::path::absolute(&self.path).unwrap_or(self.path);
        LogDevice { path, ..self }
    }

    /// Whether it is the device at `path`.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        is_same(&self.path, path)
    }
}

impl FromStr for LogDevice {
    type Err = LogDeviceError;

    fn from_str(text: &str) -> Result<LogDevice, LogDeviceError> {
        let (path, size_bytes) = path_and_size(text)
            .map_err(|error| LogDeviceError::Size { text: text.to_string(), error })?;
        if path.as_os_str().is_empty() {
            return Err(LogDeviceError::NoPath { text: text.to_string() });
        }
        if size_bytes.is_some_and(|bytes| bytes < BYTES_MIN) {
            return Err(LogDeviceError::TooSmall { text: text.to_string() });
        }
        Ok(LogDevice { path, size_bytes })
    }
}

impl fmt::Display for LogDevice {
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
            ("/flash/log:2G", "/flash/log", Some(2 << 30)),
            ("log:16M", "log", Some(16 << 20)),
        ] {
            let device: LogDevice = text.parse().expect("well formed");
            assert_eq!(device, LogDevice { path: path.into(), size_bytes });
            assert_eq!(device.to_string(), text);
        }
        let refused = |text: &str| text.parse::<LogDevice>().expect_err("refused").to_string();
        assert!(refused(":1G").contains("PATH:SIZE"));
        assert!(refused("/flash/log:1M").contains("at least 16M"));
        assert!(refused("/flash/log:big").contains("`big` is not a size"));
    }
}
