/// Why a record was not taken in. The caller loses nothing: the record is at the origin.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// for (reason, records) in flash.statistics().refused {
///     println!("{records:>8} {}: {reason}", reason.name());
///     assert_eq!(records, 0);
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no device, or none that works.
    #[error("no cache device works at present")]
    NoDevice,
    /// It is there already.
    #[error("the record is on flash already")]
    Present,
    /// It is longer than a record may be.
    #[error("the record is longer than the segments of the cache device allow")]
    TooLarge,
    /// It was read for the first time; the second time it comes in.
    #[error("the record was touched only once")]
    FirstTouch,
    /// It was killed since the bytes were taken.
    #[error("the record has changed since it was picked")]
    Killed,
    /// The write rate is used up.
    #[error("the write rate is used up")]
    Rate,
    /// The wear budget is used up.
    #[error("the wear budget is used up")]
    Wear,
    /// The buffers are full of what is not written yet.
    #[error("the device takes writes more slowly than records come")]
    Buffers,
    /// The next segment is still being emptied.
    #[error("the next segment is not empty yet")]
    NoSegment,
    /// The index takes as much RAM as it may.
    #[error("the index takes as much RAM as it may")]
    IndexFull,
    /// What lies on the device is not known yet.
    #[error("what lies on the device is still being read in")]
    Recovering,
    /// The device has failed lately.
    #[error("the device has failed lately and is left alone")]
    Bypassed,
    /// The dataset has as much on flash as it may.
    #[error("the dataset has as much on flash as it may")]
    Limit,
}

impl Refused {
    /// All reasons, in the order in which they are counted.
    ///
    /// ```
    /// assert!(l2arc::Refused::ALL.contains(&l2arc::Refused::Wear));
    /// ```
    pub const ALL: [Refused; 13] = [
        Refused::NoDevice,
        Refused::Present,
        Refused::TooLarge,
        Refused::FirstTouch,
        Refused::Killed,
        Refused::Rate,
        Refused::Wear,
        Refused::Buffers,
        Refused::NoSegment,
        Refused::IndexFull,
        Refused::Recovering,
        Refused::Bypassed,
        Refused::Limit,
    ];

    /// The reason's name, as counters have it.
    ///
    /// ```
    /// assert_eq!(l2arc::Refused::FirstTouch.name(), "first_touch");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Refused::NoDevice => "no_device",
            Refused::Present => "present",
            Refused::TooLarge => "too_large",
            Refused::FirstTouch => "first_touch",
            Refused::Killed => "killed",
            Refused::Rate => "rate",
            Refused::Wear => "wear",
            Refused::Buffers => "buffers",
            Refused::NoSegment => "no_segment",
            Refused::IndexFull => "index_full",
            Refused::Recovering => "recovering",
            Refused::Bypassed => "bypassed",
            Refused::Limit => "limit",
        }
    }
}

/// Why a record was not read from flash. The caller reads it from the origin.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// use l2arc::{Key, Miss};
///
/// let key = Key { object: 7, generation: 1, part: 0 };
/// assert_eq!(flash.read(&key, &mut [0; 4096], None).await, Err(Miss::Absent));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Miss {
    /// It is not there, or not known yet to be there.
    #[error("the record is not on flash")]
    Absent,
    /// It is there, and has died or turned out bad.
    #[error("the copy on flash has died")]
    Dead,
    /// The device has failed lately.
    #[error("the device has failed lately and is left alone")]
    Bypassed,
    /// The origin answers sooner.
    #[error("the device answers more slowly than the origin")]
    Slower,
    /// Too many reads are under way.
    #[error("too many reads of flash are under way")]
    Busy,
    /// The device did not do the read.
    #[error("the device failed to read")]
    Failed,
    /// What was read is not what was written.
    #[error("the copy on flash is damaged")]
    Damaged,
    /// What was read is the record of another key.
    #[error("another record lies where this one was looked for")]
    Other,
    /// It died while it was read.
    #[error("the copy on flash died while it was read")]
    Gone,
    /// It is longer than the caller's buffer.
    #[error("the copy on flash is longer than was asked for")]
    TooLong,
    /// It is shorter than the caller needs.
    #[error("the copy on flash is shorter than was asked for")]
    TooShort,
    /// The caller had no memory to read it into.
    #[error("there is no memory for it")]
    NoMemory,
}

impl Miss {
    /// All reasons, in the order in which they are counted.
    ///
    /// ```
    /// assert!(l2arc::Miss::ALL.contains(&l2arc::Miss::Damaged));
    /// ```
    pub const ALL: [Miss; 12] = [
        Miss::Absent,
        Miss::Dead,
        Miss::Bypassed,
        Miss::Slower,
        Miss::Busy,
        Miss::Failed,
        Miss::Damaged,
        Miss::Other,
        Miss::Gone,
        Miss::TooLong,
        Miss::TooShort,
        Miss::NoMemory,
    ];

    /// The reason's name, as counters have it.
    ///
    /// ```
    /// assert_eq!(l2arc::Miss::TooLong.name(), "too_long");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Miss::Absent => "absent",
            Miss::Dead => "dead",
            Miss::Bypassed => "bypassed",
            Miss::Slower => "slower",
            Miss::Busy => "busy",
            Miss::Failed => "failed",
            Miss::Damaged => "damaged",
            Miss::Other => "other",
            Miss::Gone => "gone",
            Miss::TooLong => "too_long",
            Miss::TooShort => "too_short",
            Miss::NoMemory => "no_memory",
        }
    }
}
