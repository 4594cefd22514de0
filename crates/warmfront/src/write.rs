use std::ops::Range;
use std::sync::Arc;

use storage::Allocation;

use crate::answer::Cached;
use crate::counters::Counter;
use crate::error::Result;
use crate::file::OpenFile;
use crate::flash::ContentsChange;
use crate::object::Layout;
use crate::property::Coherence;
use crate::record::Record;

/// `fallocate(2)`: the size stays as it is.
const KEEP_SIZE: u32 = 0x01;
/// `fallocate(2)`: what lies behind the range moves.
const MOVES_RANGE: u32 = 0x08 | 0x20;

/// Changes of contents. Each goes to the origin at once; the cache follows before it is
/// acknowledged, so that a read after it never finds older bytes.
impl OpenFile {
    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// As the origin decides; what the range then holds is read from the origin again.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.pool.writable()?;
        let _charged = self.pool.memory.charge(data.len() as u64);
        let end = offset.saturating_add(data.len() as u64);
        let _guard = self.object.ranges.exclusive(self.touched(offset, end)).await;
        self.pool.check_before_change(&self.object, Some(self)).await?;
        let file = self.origin_file().await?;
        let change = self.begin_change(offset..end).await?;
        let outcome = file.write(offset, data).await;
        match &outcome {
            Ok(()) => self.follow_write(offset, data),
            Err(_) => self.drop_records(offset..end),
        }
        drop(change);
        outcome?;
        self.tenant().counters.add(Counter::WrittenBytes, data.len() as u64);
        self.changed().await
    }

    /// Appends `data` and returns the offset at which it landed.
    ///
    /// # Errors
    /// As [`write`](OpenFile::write).
    pub async fn append(&self, data: &[u8]) -> Result<u64> {
        self.pool.writable()?;
        let _charged = self.pool.memory.charge(data.len() as u64);
        let _guard = self.object.ranges.exclusive(0..u64::MAX).await;
        self.pool.check_before_change(&self.object, Some(self)).await?;
        let file = self.origin_file().await?;
        let size = self.attributes().size;
        let change = self.begin_change(size..size.saturating_add(data.len() as u64)).await?;
        let outcome = file.append(data).await;
        match &outcome {
            Ok(offset) => self.follow_write(*offset, data),
            Err(_) => self.drop_records(self.attributes().size..u64::MAX),
        }
        drop(change);
        let offset = outcome?;
        self.tenant().counters.add(Counter::WrittenBytes, data.len() as u64);
        self.changed().await?;
        Ok(offset)
    }

    /// Reserves, releases or moves space.
    ///
    /// # Errors
    /// As the origin decides.
    pub async fn allocate(&self, allocation: Allocation) -> Result<()> {
        self.pool.writable()?;
        let end = allocation.offset.saturating_add(allocation.length);
        let moves = allocation.mode & MOVES_RANGE != 0;
        let affected = allocation.offset..if moves { u64::MAX } else { end };
        let locked = self.touched(affected.start, affected.end);
        let _guard = self.object.ranges.exclusive(locked).await;
        self.pool.check_before_change(&self.object, Some(self)).await?;
        let file = self.origin_file().await?;
        let change = self.begin_change(affected.clone()).await?;
        let outcome = file.allocate(allocation).await;
        self.drop_records(affected);
        if outcome.is_ok() && allocation.mode & KEEP_SIZE == 0 {
            self.drop_tail();
        }
        drop(change);
        outcome?;
        self.adopt().await
    }

    /// Copies up to `length` bytes from `source` at `source_offset` to this file at `offset`, at
    /// the origin, and returns how many.
    ///
    /// # Errors
    /// As the origin decides.
    pub async fn copy_from(
        &self,
        source: &OpenFile,
        source_offset: u64,
        offset: u64,
        length: u64,
    ) -> Result<u64> {
        self.pool.writable()?;
        let end = offset.saturating_add(length);
        let _guard = self.object.ranges.exclusive(self.touched(offset, end)).await;
        self.pool.check_before_change(&self.object, Some(self)).await?;
        let (file, from) = (self.origin_file().await?, source.origin_file().await?);
        let change = self.begin_change(offset..end).await?;
        let outcome = file.copy_from(from, source_offset, offset, length).await;
        self.drop_records(offset..end);
        self.drop_tail();
        drop(change);
        let copied = outcome?;
        self.adopt().await?;
        Ok(copied)
    }

    /// Begins a change of the bytes of `range`, which are locked, and of the last record, which may
    /// grow.
    async fn begin_change(&self, range: Range<u64>) -> Result<ContentsChange<'_>> {
        let touched = self.touched(range.start, range.end);
        self.pool.change_contents(&self.object, &self.layout(), touched).await
    }

    fn layout(&self) -> Layout {
        self.object.layout(self.tenant().properties().recordsize)
    }

    /// The bytes whose records a change of `offset..end` touches: the range itself and, when it
    /// begins behind the end of the file, the last record, which grows.
    fn touched(&self, offset: u64, end: u64) -> Range<u64> {
        let layout = self.layout();
        layout.widened(&(offset.min(layout.size.saturating_sub(1))..end))
    }

    /// Makes the cached records agree with what was written.
    fn follow_write(&self, offset: u64, data: &[u8]) {
        let layout = self.layout();
        let end = offset + data.len() as u64;
        if offset > layout.size {
            self.drop_tail();
        }
        for number in layout.records(offset..end) {
            let start = number * layout.record_bytes;
            let from = offset.max(start);
            let to = end.min(start + layout.record_bytes);
            let part = &data[(from - offset) as usize..(to - offset) as usize];
            self.follow_record(&layout, number, (from - start) as usize, part);
        }
        self.object.update(|version| {
            version.attributes.size = version.attributes.size.max(end);
        });
    }

    fn follow_record(&self, layout: &Layout, number: u64, offset: usize, part: &[u8]) {
        let tenant = self.tenant();
        let key = self.key(layout, number);
        let (cache, arena) = (&self.pool.memory.cache, &self.pool.memory.arena);
        let known = layout.record_range(number);
        let known_bytes = known.end - known.start;
        let taken = self.pool.flash.unsynced.now();
        // Under the writer's hold of the range no fetch and no hit takes the record; who took it
        // before still holds it, and then it is copied.
        let patched = cache.update(&key, |value| match value {
            Cached::Data(record) if record.bytes().len() as u64 >= known_bytes => {
                Arc::get_mut(record).is_some_and(|record| record.patch(offset, part, taken))
            }
            _ => false,
        });
        if patched == Some(true) {
            return;
        }
        match cache.peek(&key) {
            // A record that is shorter than the file has it was cut short by the origin.
            Some(Cached::Data(record)) if record.bytes().len() as u64 >= known_bytes => {
                let replaced = record
                    .patched(arena, offset, part, taken, layout.record_bytes as usize)
                    .is_ok_and(|record| {
                        let value = Cached::Data(Arc::new(record));
                        let bytes = value.charged_bytes() as u64;
                        cache.replace(&key, value, bytes).is_ok()
                    });
                if !replaced {
                    cache.remove(&key);
                }
            }
            Some(_) => {
                cache.remove(&key);
                tenant.counters.add(Counter::WriteDropped, 1);
            }
            // A whole record, or all there is of the last one, is as good as read.
            None if offset == 0 && part.len() as u64 >= known_bytes => {
                if !tenant.promotes() {
                    return self.pass_by(&tenant);
                }
                let filled = Record::with_capacity(arena, part.len()).map(|mut record| {
                    record.buffer_mut()[..part.len()].copy_from_slice(part);
                    record.set_length(part.len());
                    record.set_taken(taken);
                    Arc::new(record)
                });
                if let Ok(record) = filled {
                    self.admit(&tenant, key, &record, arc::Kind::Demand, self.pool.now());
                }
            }
            None => {}
        }
    }

    fn drop_records(&self, range: Range<u64>) {
        let layout = self.layout();
        let end = range.end.min(layout.size);
        if range.start >= end {
            return;
        }
        for number in layout.records(range.start..end) {
            if self.pool.memory.cache.remove(&self.key(&layout, number)).is_some() {
                self.tenant().counters.add(Counter::WriteDropped, 1);
            }
        }
    }

    /// Drops the last record, which is about to grow.
    fn drop_tail(&self) {
        let size = self.attributes().size;
        self.drop_records(size.saturating_sub(1)..size);
    }

    /// After a write: the size is known; the times are asked for when somebody wants them, unless
    /// a change behind our back must be told from ours.
    async fn changed(&self) -> Result<()> {
        match self.tenant().properties().coherence {
            Coherence::Exclusive => Ok(()),
            Coherence::Open | Coherence::Ttl(_) => self.adopt().await,
        }
    }

    async fn adopt(&self) -> Result<()> {
        self.pool.adopt(&self.object, self).await
    }
}
