use crate::property::Properties;

/// Whether what somebody reads counts as use of it.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// use warmfront::Reader;
///
/// let file = pool.open_file_for(Reader::Passing, found.object, READ_WRITE).await?;
/// file.read(0, 8).await?;
/// assert_eq!(pool.statistics().counters["mfu_hits"], 0, "a backup is no use");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reader {
    /// It does.
    #[default]
    Counted,
    /// It does not, and what is missing is not kept: a backup, which reads everything once.
    Passing,
}

impl Reader {
    /// Whether what is read under these properties counts as use.
    pub(crate) fn promotes(self, properties: &Properties) -> bool {
        properties.promote && self == Reader::Counted
    }
}
