mod table;

use std::fmt;
use std::time::Duration;

use arc::{Class, PolicyKind};
use l2arc::Compression;
use serde::Serialize;

use crate::size::Size;
pub use table::PROPERTIES;

/// What of a dataset is kept in RAM.
///
/// ```
/// use warmfront::{CacheLevel, Datasets};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "primarycache", "metadata")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.primarycache, CacheLevel::Metadata);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLevel {
    /// Contents and metadata.
    All,
    /// Only metadata.
    Metadata,
    /// Nothing.
    None,
}

/// What of a dataset is kept on flash.
///
/// ```
/// use warmfront::{Datasets, FlashContents};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "secondarycache", "data")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.secondarycache, FlashContents::Data);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashContents {
    /// Contents and metadata.
    All,
    /// Only metadata.
    Metadata,
    /// Only contents.
    Data,
    /// Nothing.
    None,
}

impl FlashContents {
    /// Whether records of a class are kept.
    pub(crate) fn takes(self, class: Class) -> bool {
        match self {
            FlashContents::All => true,
            FlashContents::Metadata => class == Class::Metadata,
            FlashContents::Data => class == Class::Data,
            FlashContents::None => false,
        }
    }
}

/// What is fetched before it is asked for.
///
/// ```
/// use warmfront::{Datasets, PrefetchLevel};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "prefetch", "metadata")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.prefetch, PrefetchLevel::Metadata);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchLevel {
    /// Contents ahead of sequential readers, and attributes ahead of readers of directories.
    All,
    /// Only attributes.
    Metadata,
    /// Nothing.
    None,
}

/// When it is checked whether somebody else has changed the origin.
///
/// ```
/// use std::time::Duration;
/// use warmfront::{Coherence, Datasets};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "coherence", "ttl=30")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.coherence, Coherence::Ttl(Duration::from_secs(30)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coherence {
    /// Never: nobody else writes.
    Exclusive,
    /// At each open.
    Open,
    /// When the last check is older than this.
    Ttl(Duration),
}

/// When what is written comes to the origin.
///
/// ```
/// use warmfront::{Datasets, WriteMode};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "write", "through")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.write, WriteMode::Through);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// With a transaction group, some seconds later.
    Back,
    /// Before the write returns.
    Through,
    /// As [`Through`](WriteMode::Through), and it is not kept in RAM.
    Around,
}

/// What is made to last, and when.
///
/// ```
/// use warmfront::{Datasets, SyncMode};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "sync", "always")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.sync, SyncMode::Always);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// What `fsync` and its relatives ask for.
    Standard,
    /// Every change, before it is acknowledged.
    Always,
    /// Nothing before its transaction group is committed.
    Disabled,
}

/// How an `fsync` is made to last.
///
/// ```
/// use warmfront::{Datasets, LogBias};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "logbias", "throughput")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.logbias, LogBias::Throughput);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogBias {
    /// By the log device.
    Latency,
    /// By the origin: the log device is spared.
    Throughput,
}

/// What becomes of writers whose data the origin does not take.
///
/// ```
/// use warmfront::{Datasets, FailMode};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.set("tank", "failmode", "continue")?;
/// let properties = datasets.root().dataset().properties();
/// assert_eq!(properties.failmode, FailMode::Continue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailMode {
    /// They wait.
    Wait,
    /// They are told why.
    Continue,
}

/// The effective properties of a dataset.
///
/// ```
/// use warmfront::{CacheLevel, Coherence, PrefetchLevel, Properties};
///
/// let properties = Properties::default();
/// assert_eq!(properties.primarycache, CacheLevel::All);
/// assert_eq!(properties.prefetch, PrefetchLevel::All);
/// assert_eq!(properties.coherence, Coherence::Open);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Properties {
    /// What is kept in RAM.
    pub primarycache: CacheLevel,
    /// Bytes in a record.
    pub recordsize: u64,
    /// What is fetched before it is asked for.
    pub prefetch: PrefetchLevel,
    /// Whether records are let go behind a sequential reader.
    pub freebehind: bool,
    /// Bytes that are fetched ahead of a sequential reader at most.
    pub readahead: u64,
    /// When it is checked whether somebody else has changed the origin.
    pub coherence: Coherence,
    /// Whether reads bypass the page cache below us.
    pub directio: bool,
    /// Whether the kernel may keep pages above us.
    pub pagecache: bool,
    /// Whether what is read counts as use, and is kept.
    pub promote: bool,
    /// RAM that others cannot take.
    pub arcreserve: Option<Size>,
    /// RAM that it cannot exceed.
    pub arclimit: Option<Size>,
    /// The rules by which its records are kept.
    pub policy: PolicyKind,
    /// What is kept on flash.
    pub secondarycache: FlashContents,
    /// Whether what came ahead and was read once is kept on flash.
    pub l2prefetch: bool,
    /// Whether only what was used again is kept on flash.
    pub l2mfuonly: bool,
    /// Flash that others cannot take.
    pub l2reserve: Option<Size>,
    /// Flash that the dataset cannot exceed.
    pub l2limit: Option<Size>,
    /// How what lies on flash is made smaller.
    pub compression: Compression,
    /// When what is written comes to the origin.
    pub write: WriteMode,
    /// What is made to last, and when.
    pub sync: SyncMode,
    /// How an `fsync` is made to last.
    pub logbias: LogBias,
    /// What becomes of writers whose data the origin does not take.
    pub failmode: FailMode,
    /// Whether the origin is not asked to flush.
    pub nocacheflush: bool,
}

/// One property: its name, values, default, words, and how it is set.
///
/// ```
/// let property = warmfront::Property::by_name("primarycache")?;
/// assert_eq!(property.values, "all|metadata|none");
/// assert!(property.takes("metadata"));
/// # Ok::<(), warmfront::PropertyError>(())
/// ```
#[derive(Debug)]
pub struct Property {
    /// Name.
    pub name: &'static str,
    /// The values that it takes, as a pattern for people.
    pub values: &'static str,
    /// The value where nothing is set.
    pub default: &'static str,
    /// What it decides, in one line.
    pub help: &'static str,
    /// What it decides, in full.
    pub long_help: &'static str,
    /// Whether datasets below have the value too, unless they have one of their own.
    pub inherited: bool,
    /// Values that it takes, written as they are shown again.
    pub examples: &'static [&'static str],
    /// Values that it does not take, though they look like it.
    pub refused: &'static [&'static str],
    apply: fn(&str, &mut Properties) -> Option<()>,
    show: fn(&Properties) -> String,
}

/// Why a property was not set.
///
/// ```
/// let error = warmfront::parse_setting("prefetch=nnone").unwrap_err();
/// assert!(matches!(error, warmfront::PropertyError::Value { .. }), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// There is no property of that name.
    #[error("there is no property `{name}`{}; the properties are {}",
        nearest(name, PROPERTIES.iter().map(|property| property.name)), names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The property does not take that value.
    #[error("`{value}` is not a value of {property}{suggestion}; it takes {values}")]
    Value {
        /// The property.
        property: &'static str,
        /// The value.
        value: String,
        /// The values that it takes.
        values: &'static str,
        /// The nearest of them, as words to be added.
        suggestion: String,
    },
    /// A setting without a value.
    #[error("`{text}` is not a setting; write it as property=value")]
    Form {
        /// The text.
        text: String,
    },
}

impl Property {
    /// The property of that name.
    ///
    /// # Errors
    /// [`PropertyError::Unknown`], which lists the names there are.
    ///
    /// ```
    /// use warmfront::Property;
    ///
    /// let property = Property::by_name("recordsize")?;
    /// assert!(property.takes("16K") && !property.takes("5000"));
    /// let error = Property::by_name("recordsze").unwrap_err().to_string();
    /// assert!(error.contains("recordsize"), "{error}");
    /// # Ok::<(), warmfront::PropertyError>(())
    /// ```
    pub fn by_name(name: &str) -> Result<&'static Property, PropertyError> {
        PROPERTIES
            .iter()
            .find(|property| property.name == name)
            .ok_or_else(|| PropertyError::Unknown { name: name.to_string() })
    }

    /// Sets the property among the others.
    ///
    /// # Errors
    /// [`PropertyError::Value`], which lists the values there are.
    ///
    /// ```
    /// use warmfront::{Properties, Property};
    ///
    /// let mut properties = Properties::default();
    /// Property::by_name("recordsize")?.apply("16K", &mut properties)?;
    /// assert_eq!(properties.recordsize, 16 << 10);
    /// # Ok::<(), warmfront::PropertyError>(())
    /// ```
    pub fn apply(&self, value: &str, properties: &mut Properties) -> Result<(), PropertyError> {
        (self.apply)(value, properties).ok_or_else(|| PropertyError::Value {
            property: self.name,
            value: value.to_string(),
            values: self.values,
            suggestion: nearest(value, self.values.split('|').filter(|known| self.takes(known))),
        })
    }

    /// Whether it takes the value.
    ///
    /// ```
    /// let property = warmfront::Property::by_name("recordsize")?;
    /// assert!(property.takes("16K"));
    /// assert!(!property.takes("5000"), "it is a power of two");
    /// # Ok::<(), warmfront::PropertyError>(())
    /// ```
    pub fn takes(&self, value: &str) -> bool {
        (self.apply)(value, &mut Properties::default()).is_some()
    }

    /// The value, as it may be given again.
    ///
    /// ```
    /// use warmfront::{Properties, Property};
    ///
    /// let property = Property::by_name("recordsize")?;
    /// assert_eq!(property.show(&Properties::default()), "128K");
    /// # Ok::<(), warmfront::PropertyError>(())
    /// ```
    pub fn show(&self, properties: &Properties) -> String {
        (self.show)(properties)
    }
}

/// Reads `property=value`, checking both.
///
/// ```
/// let (property, value) = warmfront::parse_setting("recordsize=16K")?;
/// assert_eq!((property.name, value.as_str()), ("recordsize", "16K"));
/// assert!(warmfront::parse_setting("recordsize=5000").is_err());
/// # Ok::<(), warmfront::PropertyError>(())
/// ```
///
/// # Errors
/// When there is no such property or value.
pub fn parse_setting(text: &str) -> Result<(&'static Property, String), PropertyError> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| PropertyError::Form { text: text.to_string() })?;
    let property = Property::by_name(name.trim())?;
    let value = value.trim();
    property.apply(value, &mut Properties::default())?;
    Ok((property, value.to_string()))
}

impl Default for Properties {
    fn default() -> Properties {
        let mut properties = Properties {
            primarycache: CacheLevel::All,
            recordsize: 128 << 10,
            prefetch: PrefetchLevel::All,
            freebehind: false,
            readahead: 0,
            coherence: Coherence::Open,
            directio: true,
            pagecache: false,
            promote: true,
            arcreserve: None,
            arclimit: None,
            policy: PolicyKind::Auto,
            secondarycache: FlashContents::All,
            l2prefetch: true,
            l2mfuonly: false,
            l2reserve: None,
            l2limit: None,
            compression: Compression::Off,
            write: WriteMode::Back,
            sync: SyncMode::Standard,
            logbias: LogBias::Latency,
            failmode: FailMode::Wait,
            nocacheflush: false,
        };
        for property in PROPERTIES {
            property
                .apply(property.default, &mut properties)
                .expect("the default of a property is one of its values");
        }
        properties
    }
}

impl fmt::Display for CacheLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CacheLevel::All => "all",
            CacheLevel::Metadata => "metadata",
            CacheLevel::None => "none",
        })
    }
}

impl fmt::Display for FlashContents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FlashContents::All => "all",
            FlashContents::Metadata => "metadata",
            FlashContents::Data => "data",
            FlashContents::None => "none",
        })
    }
}

impl fmt::Display for Coherence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coherence::Exclusive => formatter.write_str("exclusive"),
            Coherence::Open => formatter.write_str("open"),
            Coherence::Ttl(ttl) => write!(formatter, "ttl={}", ttl.as_secs_f64()),
        }
    }
}

impl Serialize for Property {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Property", 6)?;
        fields.serialize_field("name", self.name)?;
        fields.serialize_field("values", self.values)?;
        fields.serialize_field("default", self.default)?;
        fields.serialize_field("help", self.help)?;
        fields.serialize_field("long_help", self.long_help)?;
        fields.serialize_field("inherited", &self.inherited)?;
        fields.end()
    }
}

/// Least likeness at which a name is suggested.
const LIKENESS_MIN: f64 = 0.7;

/// The candidate that looks most like `name`, as words to be added to a message; nothing if none
/// does.
///
/// ```
/// let names = warmfront::PROPERTIES.iter().map(|property| property.name);
/// assert_eq!(warmfront::nearest("recrdsize", names), " (did you mean `recordsize`?)");
/// ```
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, candidate)| format!(" (did you mean `{candidate}`?)"))
}

fn names() -> String {
    PROPERTIES.iter().map(|property| property.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_takes_its_default_and_shows_it() {
        let properties = Properties::default();
        for property in PROPERTIES {
            assert_eq!(property.show(&properties), property.default, "{}", property.name);
        }
    }

    #[test]
    fn values_are_taken_and_shown_again() {
        for property in PROPERTIES {
            for value in property.examples {
                let mut properties = Properties::default();
                property.apply(value, &mut properties).expect("an example is a value");
                assert_eq!(property.show(&properties), *value, "{}", property.name);
            }
            for value in property.refused {
                let error = property.apply(value, &mut Properties::default());
                let error = error.expect_err("this is no value").to_string();
                assert!(error.contains(property.values), "{error}");
            }
            assert!(!property.examples.is_empty() && !property.refused.is_empty());
        }
    }

    #[test]
    fn wrong_names_and_values_are_told_with_the_right_ones() {
        let error = parse_setting("primarycahe=all").expect_err("misspelt").to_string();
        assert!(error.contains("did you mean `primarycache`?"), "{error}");
        let error = parse_setting("primarycache=metdata").expect_err("misspelt").to_string();
        assert!(error.contains("did you mean `metadata`?"), "{error}");
        assert!(error.contains("all|metadata|none"), "{error}");
        let error = parse_setting("recordsize=12Q").expect_err("no unit").to_string();
        assert!(!error.contains("did you mean"), "{error}");
        assert!(parse_setting("primarycache").is_err());
    }
}
