use serde::Deserialize;

use super::Nanoseconds;

/// A number above zero, and not infinite.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "f64")]
pub struct Positive(f64);

impl Positive {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// So many microseconds.
    pub fn microseconds(self) -> Nanoseconds {
        (self.0 * 1e3).round() as Nanoseconds
    }

    /// How long `bytes` take at so many MB (10^6 bytes) a second.
    pub fn transfer(self, bytes: u64) -> Nanoseconds {
        (bytes as f64 * 1e3 / self.0).ceil() as Nanoseconds
    }
}

impl TryFrom<f64> for Positive {
    type Error = String;

    fn try_from(number: f64) -> Result<Positive, String> {
        match number > 0.0 && number.is_finite() {
            true => Ok(Positive(number)),
            false => Err(format!("must be a number above zero, and is {number}")),
        }
    }
}
