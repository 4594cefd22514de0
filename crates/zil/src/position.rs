/// The place of a record in the order of all that were ever appended to a log. The first is 1.
///
/// Positions go on over restarts; none comes twice in the life of a log.
///
/// ```
/// use zil::Position;
///
/// assert!(Position(8) > Position(7));
/// assert_eq!(Position(8).to_string(), "8");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// Before the first record.
    ///
    /// ```
    /// use zil::Position;
    ///
    /// assert!(Position::NONE < Position(1));
    /// ```
    pub const NONE: Position = Position(0);

    /// The position that follows.
    pub(crate) fn next(self) -> Position {
        Position(self.0 + 1)
    }

    /// The position before; that of nothing has none.
    pub(crate) fn previous(self) -> Position {
        Position(self.0.saturating_sub(1))
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}
