//! [`Behaviour`]: which rules the lists of a partition follow.

use std::sync::Arc;

use crate::setting::{PolicyKind, Setting};
use crate::tuner::Tuner;

/// Hits on a record of MRU after which it goes to MFU.
pub(crate) const PROMOTION_HITS: u8 = 2;

/// Ghosts remember this many times the capacity.
pub(crate) const GHOST_REACH: u64 = 3;

/// Ghosts that are kept in any case, by number, if there is memory for them: in a small cache
/// they cost little.
pub(crate) const GHOSTS_MIN: u64 = 1024;

/// Which rules the lists of a partition follow.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    /// [`PolicyKind::Arc`].
    Arc,
    /// One setting for good: a shadow.
    Fixed(Setting),
    /// [`PolicyKind::Auto`].
    Tuned(Arc<Tuner>),
}

impl Behaviour {
    /// The kind that was asked for.
    #[inline]
    pub const fn kind(&self) -> PolicyKind {
        match self {
            Self::Arc => PolicyKind::Arc,
            Self::Fixed(_) | Self::Tuned(_) => PolicyKind::Auto,
        }
    }

    /// The tuner, if there is one.
    #[inline]
    pub fn tuner(&self) -> Option<&Tuner> {
        match self {
            Self::Tuned(tuner) => Some(tuner),
            _ => None,
        }
    }

    /// The setting in force; `None` for ARC.
    #[inline]
    pub fn setting(&self) -> Option<Setting> {
        match self {
            Self::Arc => None,
            Self::Fixed(setting) => Some(*setting),
            Self::Tuned(tuner) => Some(tuner.setting()),
        }
    }
}
