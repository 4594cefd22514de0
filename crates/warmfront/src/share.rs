use std::fmt::Write;

use arc::{PARTITIONS_MAX, PolicyKind, Share};

use crate::property::Properties;
use crate::size::{HumanSize, Size};

/// Datasets that can have `arcreserve`, `arclimit` or another `policy` than the dataset above them
/// at a time, in all pools of a process. One partition is everybody else's, one is what passes by.
///
/// ```
/// use warmfront::{Datasets, SHARES_MAX};
///
/// let datasets = Datasets::new("tank")?;
/// let limit = |count: usize| {
///     datasets.edit(|tree| {
///         for number in 0..count {
///             let name = format!("tank/{number}");
///             tree.create(&name, None)?;
///             tree.set(&name, "arclimit", "8M")?;
///         }
///         Ok(())
///     })
/// };
/// assert!(limit(SHARES_MAX + 1).is_err());
/// limit(SHARES_MAX)?;
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
pub const SHARES_MAX: usize = PARTITIONS_MAX - 2;

/// Least bytes that can be reserved, or allowed.
pub(crate) const SHARE_BYTES_MIN: u64 = 1 << 20;

/// Reserves that a refusal lists one by one; the smaller ones are counted.
const TERMS_MAX: usize = 6;

/// Part of the ceiling, as its divisor, through which may pass what is not kept.
const PASSAGE_SHARE: u64 = 64;
/// Bounds of that part, in bytes. The lower one has room for records of 1 MiB.
const PASSAGE_BYTES: std::ops::RangeInclusive<u64> = 9 << 20..=64 << 20;
/// A small ceiling leaves the passage this part of it at most, as its divisor.
const PASSAGE_SHARE_MIN: u64 = 16;

/// What `arcreserve`, `arclimit` and `policy` of a dataset say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) reserve: Option<Size>,
    pub(crate) limit: Option<Size>,
    pub(crate) policy: PolicyKind,
}

/// A dataset with a share of its own, and who uses it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sharer {
    /// The dataset's name.
    pub(crate) name: String,
    pub(crate) wanted: Wanted,
    /// Ids of the dataset and of those below it that have no share of their own.
    pub(crate) members: Vec<u32>,
}

/// Why a share of the ARC was not given.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// use warmfront::{DatasetError, ShareError};
///
/// let error = pool.datasets().set("tank", "arcreserve", "1G").unwrap_err();
/// assert!(matches!(error, DatasetError::Share(ShareError::Overcommitted { .. })), "{error}");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// All reserves together do not fit under the ceiling.
    #[error(
        "arcreserve adds up to {} ({terms}), and the ceiling of {} leaves {} that can be reserved \
         (the other {} are for buffers between two uses); reserve less, or raise the ceiling \
         (`warmfront set-arc-max`)",
        HumanSize(*sum_bytes), HumanSize(*ceiling_bytes), HumanSize(*capacity_bytes),
        HumanSize(ceiling_bytes - capacity_bytes)
    )]
    Overcommitted {
        /// All reserves, bytes.
        sum_bytes: u64,
        /// Who reserves how much, for people.
        terms: String,
        /// The ceiling, bytes.
        ceiling_bytes: u64,
        /// What it leaves for records, bytes.
        capacity_bytes: u64,
    },
    /// All reserves together are more than any ceiling.
    #[error("arcreserve adds up to {sum} of the ceiling ({terms}); reserve less")]
    MoreThanAll {
        /// All reserves, as a share of the ceiling.
        sum: String,
        /// Who reserves how much, for people.
        terms: String,
    },
    /// A share of the ceiling that is next to nothing.
    #[error(
        "{percent}% of the ceiling of {} are {}, and `{name}` can reserve or be limited to {} at \
         least; give more, a size, or none",
        HumanSize(*ceiling_bytes), HumanSize(*bytes), HumanSize(SHARE_BYTES_MIN)
    )]
    TooSmall {
        /// The dataset.
        name: String,
        /// The share, for people.
        percent: String,
        /// The ceiling, bytes.
        ceiling_bytes: u64,
        /// What of it the share is, bytes.
        bytes: u64,
    },
    /// More would be reserved than may be used.
    #[error(
        "`{name}` cannot reserve {reserve} where {limit} is all that it may use; lower arcreserve \
         or raise arclimit"
    )]
    AboveLimit {
        /// The dataset.
        name: String,
        /// Its `arcreserve`, for people.
        reserve: String,
        /// Its `arclimit`, for people.
        limit: String,
    },
    /// A dataset is to have more flash reserved than it may use.
    #[error(
        "`{name}` cannot reserve {reserve} of flash where {limit} is all that it may use; lower \
         l2reserve or raise l2limit"
    )]
    AboveFlashLimit {
        /// The dataset.
        name: String,
        /// Its `l2reserve`, for people.
        reserve: String,
        /// Its `l2limit`, for people.
        limit: String,
    },
    /// Too many datasets have shares of their own.
    #[error(
        "{count} datasets would have arcreserve, arclimit or a policy of their own, and at most \
         {SHARES_MAX} can; set it on a dataset above them, which they then share"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl Wanted {
    /// What the properties of a dataset say.
    pub(crate) fn of(properties: &Properties) -> Wanted {
        let Properties { arcreserve: reserve, arclimit: limit, policy, .. } = *properties;
        Wanted { reserve, limit, policy }
    }

    /// Whether it sets the dataset apart from the one above it, which has this policy.
    pub(crate) fn is_share(self, policy_above: PolicyKind) -> bool {
        self.reserve.is_some() || self.limit.is_some() || self.policy != policy_above
    }

    /// In bytes under a ceiling. What is reserved stays within the limit, also where a change of
    /// the ceiling would take it beyond.
    pub(crate) fn under(self, ceiling_bytes: u64) -> Share {
        let limit_bytes = self.limit.map_or(u64::MAX, |size| bytes_of(size, ceiling_bytes));
        let reserve_bytes = self.reserve_bytes(ceiling_bytes).min(limit_bytes);
        Share { reserve_bytes, limit_bytes }
    }

    /// What is reserved under a ceiling, bytes.
    fn reserve_bytes(self, ceiling_bytes: u64) -> u64 {
        self.reserve.map_or(0, |size| bytes_of(size, ceiling_bytes))
    }
}

/// What of a ceiling is for records on their way to a reader whose use does not count.
///
/// Room for what is read ahead of several readers, and so little that it does no harm.
pub(crate) fn passage(ceiling_bytes: u64) -> Share {
    let wanted = ceiling_bytes / PASSAGE_SHARE;
    let bytes = wanted.clamp(*PASSAGE_BYTES.start(), *PASSAGE_BYTES.end());
    Share { limit_bytes: bytes.min(ceiling_bytes / PASSAGE_SHARE_MIN), ..Share::FREE }
}

fn bytes_of(size: Size, ceiling_bytes: u64) -> u64 {
    match size {
        Size::Bytes(bytes) => bytes,
        Size::Percent(percent) => (ceiling_bytes as f64 * percent / 100.0) as u64,
    }
}

/// Whether what a dataset reserves on flash is within what it may have there, as far as that can be
/// said without knowing the cache devices.
///
/// # Errors
/// When it is not.
pub(crate) fn check_flash(name: &str, properties: &Properties) -> Result<(), ShareError> {
    let Properties { l2reserve, l2limit, .. } = *properties;
    let (Some(reserve), Some(limit)) = (l2reserve, l2limit) else { return Ok(()) };
    let is_above = match (reserve, limit) {
        (Size::Bytes(reserve), Size::Bytes(limit)) => reserve > limit,
        (Size::Percent(reserve), Size::Percent(limit)) => reserve > limit,
        _ => false,
    };
    let (name, reserve, limit) = (name.to_string(), reserve.to_string(), limit.to_string());
    if is_above { Err(ShareError::AboveFlashLimit { name, reserve, limit }) } else { Ok(()) }
}

/// Whether shares can be given under any ceiling.
///
/// # Errors
/// What makes no sense whatever the ceiling.
pub(crate) fn check_alone(sharers: &[Sharer]) -> Result<(), ShareError> {
    check_count(sharers.len())?;
    for Sharer { name, wanted, .. } in sharers {
        let is_above = match (wanted.reserve, wanted.limit) {
            (Some(Size::Bytes(reserve)), Some(Size::Bytes(limit))) => reserve > limit,
            (Some(Size::Percent(reserve)), Some(Size::Percent(limit))) => reserve > limit,
            _ => false,
        };
        if is_above {
            return Err(above_limit(name, *wanted, None));
        }
    }
    let percent = |sharer: &Sharer| match sharer.wanted.reserve {
        Some(Size::Percent(percent)) => percent,
        _ => 0.0,
    };
    let sum: f64 = sharers.iter().map(percent).sum();
    if sum > 100.0 {
        let parts = sharers.iter().filter(|sharer| percent(sharer) > 0.0);
        let parts = parts.map(|sharer| (&*sharer.name, percent(sharer))).collect();
        let sum = Size::Percent(sum).to_string();
        return Err(ShareError::MoreThanAll {
            sum,
            terms: terms(parts, |part| format!("{part}%")),
        });
    }
    Ok(())
}

/// Whether so many datasets can have shares.
pub(crate) fn check_count(count: usize) -> Result<(), ShareError> {
    if count > SHARES_MAX { Err(ShareError::TooMany { count }) } else { Ok(()) }
}

/// Whether a share makes sense under a ceiling.
pub(crate) fn check_limit(
    name: &str,
    wanted: Wanted,
    ceiling_bytes: u64,
) -> Result<(), ShareError> {
    for size in [wanted.reserve, wanted.limit].into_iter().flatten() {
        let bytes = bytes_of(size, ceiling_bytes);
        if let Size::Percent(percent) = size
            && bytes < SHARE_BYTES_MIN
        {
            let (name, percent) = (name.to_string(), percent.to_string());
            return Err(ShareError::TooSmall { name, percent, ceiling_bytes, bytes });
        }
    }
    match wanted.reserve_bytes(ceiling_bytes) > wanted.under(ceiling_bytes).limit_bytes {
        true => Err(above_limit(name, wanted, Some(ceiling_bytes))),
        false => Ok(()),
    }
}

/// Whether reserves fit into what a ceiling leaves.
pub(crate) fn check_sum(
    parts: Vec<(&str, u64)>,
    ceiling_bytes: u64,
    capacity_bytes: u64,
) -> Result<(), ShareError> {
    let sum_bytes = parts.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if sum_bytes <= capacity_bytes {
        return Ok(());
    }
    let terms = terms(parts, |bytes| HumanSize(bytes).to_string());
    Err(ShareError::Overcommitted { sum_bytes, terms, ceiling_bytes, capacity_bytes })
}

fn above_limit(name: &str, wanted: Wanted, ceiling_bytes: Option<u64>) -> ShareError {
    let said = |size: Option<Size>| match (size, ceiling_bytes) {
        (Some(Size::Percent(percent)), Some(ceiling)) => {
            let bytes = HumanSize(bytes_of(Size::Percent(percent), ceiling));
            format!("{percent}% of the ceiling, {bytes},")
        }
        (size, _) => size.map_or("none".to_string(), |size| size.to_string()),
    };
    let (reserve, limit) = (said(wanted.reserve), said(wanted.limit));
    ShareError::AboveLimit { name: name.to_string(), reserve, limit }
}

/// Who has how much, the largest first.
fn terms<T: PartialOrd + Copy>(mut parts: Vec<(&str, T)>, said: impl Fn(T) -> String) -> String {
    parts.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(std::cmp::Ordering::Equal));
    let shown: Vec<String> = parts
        .iter()
        .take(TERMS_MAX)
        .map(|(name, part)| format!("{name} {}", said(*part)))
        .collect();
    let mut text = shown.join(", ");
    if parts.len() > TERMS_MAX {
        let _ = write!(text, " and {} others", parts.len() - TERMS_MAX);
    }
    text
}
