use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};

use zil::{End, Found, Position, Record};

/// Most objects of which it is told one by one that something was not done.
const SKIPPED_MAX: usize = 1000;

/// What a replay has done.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_crash(async |origin, mut recovery| {
/// use warmfront::{ReplayOptions, replay};
///
/// let report = replay(&*origin, &mut recovery, ReplayOptions::default(), &|_so_far| ()).await?;
/// for (kind, records) in &report.kinds {
///     println!("{records} records of kind {kind}");
/// }
/// assert_eq!(report.records, report.kinds.values().sum::<u64>());
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Records that were replayed.
    pub records: u64,
    /// The last of them.
    pub last: Position,
    /// Bytes of file contents in them.
    pub data_bytes: u64,
    /// Records of each kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Objects that had to be made anew.
    pub made: u64,
    /// Names that had to be given.
    pub named: u64,
    /// Names that had to be removed.
    pub unnamed: u64,
    /// Objects of which something could not be done; the first thousand of them.
    pub skipped: Vec<Skipped>,
    /// How many they are.
    pub skipped_count: u64,
    /// Records about them that were left out, other than of names; they are among `records`.
    pub left_out: u64,
    /// Bytes of file contents in these, which are among `data_bytes`.
    pub left_out_bytes: u64,
    /// How the log ends.
    pub end: End,
    /// Records behind the last good one.
    pub beyond_records: u64,
}

/// An object of which something could not be done.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_crash(async |origin, mut recovery| {
/// use warmfront::storage::Origin;
/// use warmfront::{ReplayOptions, replay};
///
/// // Somebody has removed the file meanwhile.
/// # let root = origin.root().await?.object;
/// origin.unlink(root, "file".as_ref()).await?;
/// let options = ReplayOptions { names_lasted: true };
/// let report = replay(&*origin, &mut recovery, options, &|_so_far| ()).await?;
/// let skipped = &report.skipped[0];
/// println!("{} bytes are not replayed: {}", skipped.data_bytes, skipped.reason);
/// assert_eq!(skipped.path, "file");
/// assert_eq!((report.skipped_count, skipped.data_bytes), (1, 10));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it was.
    pub path: OsString,
    /// Why.
    pub reason: SkipReason,
    /// Records about it that were left out, other than of names.
    pub records: u64,
    /// Bytes of file contents in them.
    pub data_bytes: u64,
}

/// Why something was not done.
///
/// ```
/// let reason = warmfront::SkipReason::NotEmpty;
/// assert_eq!(reason.to_string(), "the directory holds what the log does not speak of");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// It is nowhere at the origin.
    Missing,
    /// Its directory is nowhere at the origin.
    NoDirectory,
    /// Another object, of which the log does not speak, has its name.
    Occupied,
    /// Whether it is the object that the log means is not sure, since the origin tells no births.
    Unsure,
    /// The directory to be removed holds what the log does not speak of.
    NotEmpty,
    /// It would lie below itself.
    Circular,
}

impl Display for SkipReason {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            SkipReason::Missing => {
                "it is not at the origin any more: it was removed or replaced, just before the \
                 crash or since"
            }
            SkipReason::NoDirectory => "its directory is not at the origin any more",
            SkipReason::Occupied => "another object has its name, of which the log does not speak",
            SkipReason::Unsure => "it may be another object: the origin tells no times of birth",
            SkipReason::NotEmpty => "the directory holds what the log does not speak of",
            SkipReason::Circular => "the directory would lie below itself",
        })
    }
}

impl Replayed {
    pub(super) fn new(found: &Found) -> Replayed {
        Replayed {
            records: 0,
            last: found.last,
            data_bytes: 0,
            kinds: BTreeMap::new(),
            made: 0,
            named: 0,
            unnamed: 0,
            skipped: Vec::new(),
            skipped_count: 0,
            left_out: 0,
            left_out_bytes: 0,
            end: found.end.clone(),
            beyond_records: found.beyond_records,
        }
    }

    pub(super) fn note(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.data_bytes += record.data_bytes();
        *self.kinds.entry(record.kind_name()).or_default() += 1;
    }

    pub(super) fn skip(&mut self, skipped: Skipped) {
        self.skipped_count += 1;
        self.left_out += skipped.records;
        self.left_out_bytes += skipped.data_bytes;
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push(skipped);
        }
    }
}
