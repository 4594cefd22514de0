use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::model::Positive;

/// Most that a thing may cost, and most often that flash may be written: more is a slip of the pen.
pub const PRICE_MAX: f64 = 1e9;

/// What things cost.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// In which money.
    pub currency: String,
    /// RAM.
    pub ram: RamPrice,
    /// Disks of the pool, by the names of their models.
    pub disks: BTreeMap<String, DiskPrice>,
    /// Cache devices, by the names of their models.
    pub flash: BTreeMap<String, FlashPrice>,
}

/// What RAM costs.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RamPrice {
    /// For each GiB.
    pub per_gib: Positive,
}

/// What a disk costs.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPrice {
    /// For each.
    pub each: Positive,
}

/// What a cache device costs, and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashPrice {
    /// For each GB (10^9 bytes).
    pub per_gb: Positive,
    /// How often the whole of it can be written.
    pub endurance_writes: Positive,
}

/// Why prices cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PricesError {
    /// The file cannot be read.
    #[error("cannot read the prices {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is not TOML, has unknown keys, lacks some, or has values that cannot be.
    #[error("the prices in {name} cannot be read; mend it there: {source}")]
    Malformed {
        /// The file.
        name: String,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// A number is too large.
    #[error("the prices in {name} have {key} = {number:e}, and at most {PRICE_MAX:e} is taken")]
    TooLarge {
        /// The file.
        name: String,
        /// Which.
        key: String,
        /// What it is.
        number: f64,
    },
}

impl Prices {
    /// What comes with the lab.
    ///
    /// # Errors
    /// Never: a test reads them.
    pub fn shipped() -> Result<Prices, PricesError> {
        Prices::parse("prices.toml", include_str!("../../prices.toml"))
    }

    /// Reads prices from a file.
    ///
    /// # Errors
    /// When it cannot be read, or its keys and values are not those of prices.
    pub fn read(path: &Path) -> Result<Prices, PricesError> {
        let failed = |source| PricesError::Open { path: path.to_owned(), source };
        Prices::parse(&path.to_string_lossy(), &fs::read_to_string(path).map_err(failed)?)
    }

    /// Reads prices; `name` says in messages where they come from.
    ///
    /// # Errors
    /// When it is not TOML, or its keys and values are not those of prices.
    pub fn parse(name: &str, text: &str) -> Result<Prices, PricesError> {
        let malformed =
            |source| PricesError::Malformed { name: name.to_owned(), source: Box::new(source) };
        let prices: Prices = toml::from_str(text).map_err(malformed)?;
        match prices.numbers().into_iter().find(|(_, number)| number.get() > PRICE_MAX) {
            None => Ok(prices),
            Some((key, number)) => {
                Err(PricesError::TooLarge { name: name.to_owned(), key, number: number.get() })
            }
        }
    }

    /// All numbers, by their keys.
    fn numbers(&self) -> Vec<(String, Positive)> {
        let mut numbers = vec![("ram.per_gib".to_owned(), self.ram.per_gib)];
        numbers.extend(self.disks.iter().map(|(name, it)| (format!("disks.{name}.each"), it.each)));
        for (name, it) in &self.flash {
            numbers.push((format!("flash.{name}.per_gb"), it.per_gb));
            numbers.push((format!("flash.{name}.endurance_writes"), it.endurance_writes));
        }
        numbers
    }
}
