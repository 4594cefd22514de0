//! [`PolicyKind`]: by which rules a cache keeps records; [`Setting`]: by which of those that fit
//! the load.

/// The rules by which a cache keeps records.
///
/// ```
/// use arc::PolicyKind;
///
/// assert_eq!(PolicyKind::default(), PolicyKind::Auto);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PolicyKind {
    /// ARC in its clock form, as in the papers.
    Arc,
    /// The setting that does best on a sample of the load; see [`Setting`].
    #[default]
    Auto,
}

impl PolicyKind {
    /// All kinds.
    ///
    /// ```
    /// let names: Vec<&str> = arc::PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
    /// assert_eq!(names, ["arc", "auto"]);
    /// ```
    pub const ALL: [Self; 2] = [Self::Arc, Self::Auto];

    /// The name, as it is set.
    ///
    /// ```
    /// assert_eq!(arc::PolicyKind::Arc.name(), "arc");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arc => "arc",
            Self::Auto => "auto",
        }
    }
}

/// A setting of [`PolicyKind::Auto`]; in order, from what suits loads in which frequency counts to
/// those in which recency does.
///
/// ```
/// use arc::Setting;
///
/// let at = |setting| Setting::ALL.iter().position(|other| *other == setting);
/// assert!(at(Setting::Frequency) < at(Setting::Recency));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setting {
    /// MFU is nearly all; what comes back gets in only if it was used later than MFU's oldest.
    /// Holds a part of a loop that is larger than the cache.
    Steady,
    /// MFU is nearly all; what comes back gets in if it was used later than the oldest record of
    /// MFU that was not used since the hand last passed.
    Frequency,
    /// The same, with a third for MRU.
    Balance,
    /// The record that was not used for longest goes, as in LRU.
    Recency,
}

/// Number of settings.
pub(crate) const SETTINGS: usize = 4;

impl Setting {
    /// All settings, in order: a change goes to a neighbour.
    ///
    /// ```
    /// let names: Vec<&str> = arc::Setting::ALL.iter().map(|setting| setting.name()).collect();
    /// assert_eq!(names, ["steady", "frequency", "balance", "recency"]);
    /// ```
    pub const ALL: [Self; SETTINGS] = [Self::Steady, Self::Frequency, Self::Balance, Self::Recency];

    /// The setting once something was used again while there was room.
    pub(crate) const START: Self = Self::Frequency;

    /// The name, as it is shown.
    ///
    /// ```
    /// assert_eq!(arc::Setting::Recency.name(), "recency");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Frequency => "frequency",
            Self::Balance => "balance",
            Self::Recency => "recency",
        }
    }

    /// The setting until then. As long as nothing is used again nobody knows what the load is like.
    /// Recency leaves every way open: if the load turns back it has what is needed, and if it
    /// begins anew as a loop, what it holds is as good as anything else, once it is held on to.
    pub(crate) const FIRST: Self = Self::Recency;

    /// MRU's share of its class.
    pub(crate) const fn mru(self) -> f64 {
        match self {
            Self::Steady | Self::Frequency => 0.03,
            Self::Balance => 0.3,
            Self::Recency => 1.0,
        }
    }

    /// How many used records of MFU the hand may pass before a ghost is compared with the oldest.
    pub(crate) const fn turns(self) -> u32 {
        match self {
            Self::Frequency | Self::Balance => 8,
            Self::Steady | Self::Recency => 0,
        }
    }
}
