use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warmfront::flash::{CIPHER_KEY_BYTES, Cipher};

use crate::wire_path;

/// What cache devices are encrypted with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheKey {
    /// A key made at each start: the cache forgets on purpose.
    EachStart,
    /// The 32 bytes in this file.
    File(#[serde(with = "wire_path")] PathBuf),
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheKeyError {
    /// The file cannot be read.
    #[error("the key file {} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file holds something else.
    #[error(
        "the key file {} holds {} bytes, a key has {}; make one with \
         `head -c {} /dev/urandom > {}`",
        path.display(), found, CIPHER_KEY_BYTES, CIPHER_KEY_BYTES, path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length; one more than looked at stands for all that are longer.
        found: usize,
    },
}

impl CacheKey {
    /// What encrypts with it.
    pub(crate) fn cipher(&self) -> Result<Cipher, CacheKeyError> {
        let path = match self {
            CacheKey::EachStart => PathBuf::from("/dev/urandom"),
            CacheKey::File(path) => path.clone(),
        };
        let mut bytes = Vec::new();
        let most = match self {
            CacheKey::EachStart => CIPHER_KEY_BYTES,
            CacheKey::File(_) => CIPHER_KEY_BYTES + 1,
        };
        File::open(&path)
            .and_then(|file| file.take(most as u64).read_to_end(&mut bytes))
            .map_err(|error| CacheKeyError::Read { path: path.clone(), error })?;
        let found = bytes.len();
        let key: [u8; CIPHER_KEY_BYTES] =
            bytes.try_into().map_err(|_| CacheKeyError::Length { path, found })?;
        Ok(Cipher::new(&key))
    }
}

impl FromStr for CacheKey {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<CacheKey, Self::Err> {
        Ok(match text {
            "each-start" => CacheKey::EachStart,
            path => CacheKey::File(path.into()),
        })
    }
}

/// Drive writes a day that cache devices are meant for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Dwpd {
    /// Writes are not limited.
    Unlimited,
    /// Hundredths of a drive write a day.
    Hundredths(u32),
}

/// Why a text is no number of drive writes a day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a number of drive writes a day; give one from 0.01 to 1000, or none")]
pub struct DwpdError {
    /// What was given.
    pub text: String,
}

impl Dwpd {
    pub(crate) fn hundredths(self) -> Option<u32> {
        match self {
            Dwpd::Unlimited => None,
            Dwpd::Hundredths(hundredths) => Some(hundredths),
        }
    }
}

impl FromStr for Dwpd {
    type Err = DwpdError;

    fn from_str(text: &str) -> Result<Dwpd, DwpdError> {
        if text == "none" {
            return Ok(Dwpd::Unlimited);
        }
        let number = text.parse().ok().filter(|number| (0.01..=1000.0).contains(number));
        let number: f64 = number.ok_or_else(|| DwpdError { text: text.to_string() })?;
        Ok(Dwpd::Hundredths((number * 100.0).round() as u32))
    }
}

impl fmt::Display for Dwpd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dwpd::Unlimited => formatter.write_str("none"),
            Dwpd::Hundredths(hundredths) => write!(formatter, "{}", f64::from(*hundredths) / 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_writes_a_day_are_read_and_shown_again() {
        for text in ["none", "1", "0.3", "25", "0.01"] {
            assert_eq!(text.parse::<Dwpd>().expect("a number").to_string(), text);
        }
        for text in ["", "0", "-1", "many", "1001", "NaN"] {
            assert!(text.parse::<Dwpd>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_has_the_right_length() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("key");
        let key = CacheKey::File(path.clone());
        assert!(matches!(key.cipher(), Err(CacheKeyError::Read { .. })));
        for (length, fits) in [(0, false), (31, false), (32, true), (33, false), (9000, false)] {
            std::fs::write(&path, vec![7; length]).expect("written");
            assert_eq!(key.cipher().is_ok(), fits, "{length} bytes");
        }
        assert!(CacheKey::EachStart.cipher().is_ok());
    }
}
