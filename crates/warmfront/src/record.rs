use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

use arc::{Arena, Buffer, OutOfMemory, PAGE_BYTES};

/// The contents of one record. Never changes while anybody but the cache holds it; the last record
/// of an object may be short. Its buffer begins and ends at a page, so that `O_DIRECT` takes it.
#[derive(Debug)]
pub struct Record {
    buffer: Buffer,
    length: u32,
    /// When it was taken from the origin or last changed: a moment of
    /// [`Unsynced`](crate::unsynced::Unsynced).
    taken: u64,
    /// It came before anybody asked for it.
    ahead: bool,
}

// With these counts it fills a line of the processor's cache.
const _: () = assert!(Record::HEADER_BYTES == 64);

impl Record {
    /// A buffer for `capacity` bytes, rounded up to whole pages, with no contents yet.
    pub(crate) fn with_capacity(
        arena: &Arc<Arena>,
        capacity: usize,
    ) -> Result<Record, OutOfMemory> {
        Ok(Record { buffer: arena.buffer(capacity)?, length: 0, taken: 0, ahead: false })
    }

    /// Bytes of a buffer for `capacity` bytes.
    pub(crate) fn buffer_bytes(capacity: usize) -> usize {
        capacity.next_multiple_of(PAGE_BYTES)
    }

    /// The whole buffer, to be filled.
    pub(crate) fn buffer_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Says how many bytes of the buffer hold contents.
    pub(crate) fn set_length(&mut self, length: usize) {
        assert!(length <= self.buffer.len(), "a record holds at most its buffer");
        self.length = u32::try_from(length).expect("less than 4 GiB");
    }

    /// Puts `data`, written at the moment `taken`, in as the whole contents.
    pub(crate) fn fill(&mut self, data: &[u8], taken: u64) {
        self.buffer[..data.len()].copy_from_slice(data);
        self.set_length(data.len());
        self.taken = taken;
    }

    /// Says when the contents were taken from the origin, or were changed.
    pub(crate) fn set_taken(&mut self, moment: u64) {
        self.taken = moment;
    }

    /// When the contents were taken from the origin, or last changed.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Says that it comes before anybody has asked for it.
    pub(crate) fn set_ahead(&mut self) {
        self.ahead = true;
    }

    /// Whether it came before anybody had asked for it.
    pub(crate) fn came_ahead(&self) -> bool {
        self.ahead
    }

    /// The contents.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length as usize]
    }

    /// Puts `data`, written at the moment `taken`, at `offset`, if the buffer reaches that far; a
    /// gap before it becomes zeros. Says whether it does.
    pub(crate) fn patch(&mut self, offset: usize, data: &[u8], taken: u64) -> bool {
        let end = offset + data.len();
        if end > self.buffer.len() {
            return false;
        }
        let length = self.bytes().len();
        if offset > length {
            self.buffer[length..offset].fill(0);
        }
        self.buffer[offset..end].copy_from_slice(data);
        self.set_length(length.max(end));
        self.taken = taken;
        true
    }

    /// A copy with `data` at `offset`. When it reaches further than the buffer, the copy's is
    /// twice as long as needed, up to `bytes_max`: a file that grows by small writes is copied
    /// few times.
    pub(crate) fn patched(
        &self,
        arena: &Arc<Arena>,
        offset: usize,
        data: &[u8],
        taken: u64,
        bytes_max: usize,
    ) -> Result<Record, OutOfMemory> {
        let needed = self.bytes().len().max(offset + data.len());
        let grows = needed > self.buffer.len();
        let capacity = if grows { (2 * needed).min(bytes_max.max(needed)) } else { needed };
        let mut record = Record::with_capacity(arena, capacity)?;
        record.buffer[..self.bytes().len()].copy_from_slice(self.bytes());
        record.length = self.length;
        record.ahead = self.ahead;
        assert!(record.patch(offset, data, taken), "the buffer is long enough");
        Ok(record)
    }

    /// Bytes of RAM that a record takes besides its buffer: its counts of users, and what the
    /// allocator adds.
    pub(crate) const HEADER_BYTES: usize = size_of::<Record>() + 3 * size_of::<usize>();

    /// Bytes of RAM that the buffer takes.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.buffer.len()
    }
}

/// The answer to a read: pinned parts of records, in order. Short only at the end of the object.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// let pieces = file.read(0, 8).await?;
/// assert_eq!(pieces.len(), 8);
/// // Straight from the cache, without a copy.
/// let bytes: usize = pieces.slices().map(<[u8]>::len).sum();
/// assert_eq!(bytes, 8);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    pieces: SmallVec<[(Arc<Record>, Range<u32>); 4]>,
    length: usize,
}

impl Pieces {
    /// Adds `range` of `record`, cut to what the record holds. Returns whether it held all of it.
    pub(crate) fn push(&mut self, record: Arc<Record>, range: Range<usize>) -> bool {
        let end = range.end.min(record.bytes().len());
        if range.start >= end {
            return range.is_empty();
        }
        self.length += end - range.start;
        let whole = end == range.end;
        self.pieces.push((record, range.start as u32..end as u32));
        whole
    }

    /// Number of bytes.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(file.read(0, 5).await?.len(), 5);
    /// assert_eq!(file.read(0, 100).await?.len(), 8, "the file ends there");
    /// # Ok(()) }) }
    /// ```
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none: the read began at or after the end.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert!(file.read(8, 100).await?.is_empty());
    /// # Ok(()) }) }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes of the records that these pieces keep in memory, evicted or not.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// let pieces = file.read(0, 8).await?;
    /// assert!(pieces.held_bytes() >= 4096, "whole pages, as long as the pieces live");
    /// # Ok(()) }) }
    /// ```
    pub fn held_bytes(&self) -> u64 {
        self.pieces.iter().map(|(record, _)| record.charged_bytes() as u64).sum()
    }

    /// The bytes, piece by piece.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// let pieces = file.read(0, 8).await?;
    /// let mut copied = Vec::new();
    /// for slice in pieces.slices() {
    ///     copied.extend_from_slice(slice);
    /// }
    /// assert_eq!(copied, b"contents");
    /// # Ok(()) }) }
    /// ```
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces
            .iter()
            .map(|(record, range)| &record.bytes()[range.start as usize..range.end as usize])
    }

    /// The bytes in one piece, copied.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(file.read(3, 100).await?.to_vec(), b"tents");
    /// # Ok(()) }) }
    /// ```
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().collect::<Vec<_>>().concat()
    }
}
