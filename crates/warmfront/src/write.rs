use std::ops::Range;
use std::sync::Arc;

use storage::{Allocation, OriginError, OriginFile};

use crate::answer::Cached;
use crate::chunk::Bytes;
use crate::counters::Counter;
use crate::error::{EngineError, Result};
use crate::file::OpenFile;
use crate::flash::ContentsChange;
use crate::intent::place;
use crate::object::Layout;
use crate::patience::{Endless, Patience};
use crate::property::{Coherence, Properties, SyncMode, WriteMode};
use crate::record::Record;
use crate::write_back::Writer;

/// `fallocate(2)`: the size stays as it is.
const KEEP_SIZE: u32 = 0x01;
/// `fallocate(2)`: what lies behind the range moves.
const MOVES_RANGE: u32 = 0x08 | 0x20;
/// `fallocate(2)`: what lies in the range becomes zeros.
const DROPS_RANGE: u32 = 0x02 | 0x10;
/// The length that a file may have on any origin, bytes.
const ANYWHERE_BYTES: u64 = i32::MAX as u64;
/// The largest file that the kernel can speak of, bytes.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Changes of contents. Each goes to the origin at once, or to what is dirty; the cache follows
/// before it is acknowledged, so that a read after it never finds older bytes.
impl OpenFile {
    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// As the origin decides; what the range then holds is read from the origin again. With
    /// `write=back` the origin is not asked: what it says comes out by
    /// [`sync`](OpenFile::sync) and [`close`](OpenFile::close).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.write(8, b", and more").await?;
    /// assert_eq!(file.read(0, 100).await?.to_vec(), b"contents, and more");
    /// # Ok(()) }) }
    /// ```
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_for(&Endless, offset, data).await.map(drop)
    }

    /// As [`write`](OpenFile::write), for somebody who may not wait for ever. Returns how many
    /// bytes were taken: fewer if he stopped waiting for room for the rest.
    ///
    /// # Errors
    /// As [`write`](OpenFile::write), and [`EngineError::Interrupted`] if nothing was taken.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// use warmfront::Endless;
    ///
    /// assert_eq!(file.write_for(&Endless, 8, b", and more").await?, 10);
    /// # Ok(()) }) }
    /// ```
    pub async fn write_for(
        &self,
        patience: &dyn Patience,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        self.pool.writable()?;
        let data = self.within_reach(offset, data).await?;
        let properties = self.tenant().properties();
        let taken = match properties.write {
            WriteMode::Back => {
                let writer = Writer { patience, mode: properties.failmode };
                // Who is held up for long holds nothing that others wait for.
                self.pool.wait_for_room(data.len() as u64, writer).await?;
                let end = offset + data.len() as u64;
                let _guard = self.object.ranges.exclusive(self.touched(offset, end)).await;
                self.take(offset, data, writer).await?
            }
            WriteMode::Through | WriteMode::Around => {
                self.write_through(patience, offset, data).await?;
                data.len()
            }
        };
        self.pool.asked(self.object.id, offset, taken as u64, true);
        self.wrote(taken);
        if self.has_to_last(&properties) && self.lasts_by_log() {
            patience.until_it_lasts(taken);
        }
        self.made_to_last(&properties).await?;
        Ok(taken)
    }

    /// What of `data`, written at `offset`, lies before the end of the longest file that the
    /// origin can have: what it can never take must not be dirty.
    ///
    /// # Errors
    /// When none of it does.
    async fn within_reach<'a>(&self, offset: u64, data: &'a [u8]) -> Result<&'a [u8]> {
        let end = offset.saturating_add(data.len() as u64);
        if end <= ANYWHERE_BYTES || end <= self.attributes().size {
            return Ok(data);
        }
        let file = self.shared_origin_file().await?;
        let may_reach = |end: u64| end <= FILE_BYTES_MAX && file.may_reach(end);
        if may_reach(end) {
            return Ok(data);
        }
        // It reaches the first, and not the second.
        let (mut reached, mut beyond) = (offset, end);
        while beyond - reached > 1 {
            let middle = reached + (beyond - reached) / 2;
            match may_reach(middle) {
                true => reached = middle,
                false => beyond = middle,
            }
        }
        match (reached - offset) as usize {
            0 if !data.is_empty() => Err(OriginError::too_large("write").into()),
            length => Ok(&data[..length]),
        }
    }

    /// Counts a write.
    fn wrote(&self, bytes: usize) {
        let tenant = self.tenant();
        tenant.counters.add(Counter::WriteCalls, 1);
        tenant.counters.add(Counter::WrittenBytes, bytes as u64);
    }

    /// Takes a write into RAM, under a hold of the range. Returns how many bytes were taken.
    async fn take(&self, offset: u64, data: &[u8], writer: Writer<'_>) -> Result<usize> {
        let (pool, object) = (&self.pool, &self.object);
        let end = offset + data.len() as u64;
        if !object.dirty.is_dirty() {
            match pool.check_before_change(object, Some(self)).await {
                // What is written waits for an origin that is merely out of reach.
                Err(error) if error.is_unreachable() => {}
                checked => checked?,
            }
        }
        pool.drop_capability(object).await?;
        let file = self.shared_origin_file().await?;
        let touched = self.touched(offset, end);
        pool.kill_contents(object, &self.layout(), touched).await?;
        if !writer.patience.stays() {
            return Err(EngineError::Interrupted);
        }
        let taken = self.take_parts(file, offset, data, writer).await;
        writer.patience.changed();
        taken
    }

    /// Takes a write into RAM, part by part. Returns how many bytes were taken.
    async fn take_parts(
        &self,
        file: &Arc<dyn OriginFile>,
        offset: u64,
        data: &[u8],
        writer: Writer<'_>,
    ) -> Result<usize> {
        let (pool, object) = (&self.pool, &self.object);
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let part = self.next_part(at, rest);
            match pool.take_write(object, file, at, &part, writer).await {
                Err(EngineError::Interrupted) if at > offset => break,
                taken => taken?,
            }
            self.follow_write(at, &part);
            at += part.len();
            rest = &rest[part.len() as usize..];
        }
        Ok(data.len() - rest.len())
    }

    /// What is taken in at once of `data`, written at `offset`: a whole record, which the cache
    /// then holds as well, or what comes before the next one.
    fn next_part<'a>(&self, offset: u64, data: &'a [u8]) -> Bytes<'a> {
        let pool = &self.pool;
        let part_bytes_max = pool.write_back.budget.chunk_bytes_max();
        let record_bytes = self.layout().record_bytes;
        let until_next = record_bytes - offset % record_bytes;
        if record_bytes > part_bytes_max {
            return Bytes::Borrowed(&data[..data.len().min(part_bytes_max as usize)]);
        }
        if until_next == record_bytes
            && let Some(whole) = data.get(..record_bytes as usize)
            && let Ok(mut record) = Record::with_capacity(&pool.memory.arena, whole.len())
        {
            record.fill(whole, pool.flash.unsynced.now());
            return Bytes::Record(Arc::new(record));
        }
        Bytes::Borrowed(&data[..data.len().min(until_next as usize)])
    }

    /// After a change: makes it last, if that is asked for at once.
    async fn made_to_last(&self, properties: &Properties) -> Result<()> {
        match self.has_to_last(properties) {
            true => self.sync(false).await,
            false => Ok(()),
        }
    }

    /// Whether a change is told to have been made only once it lasts.
    fn has_to_last(&self, properties: &Properties) -> bool {
        self.syncs() || properties.sync == SyncMode::Always
    }

    /// Before a change that goes to the origin at once: sees to it that nothing older comes there
    /// later, neither what is dirty nor what a log has.
    async fn catch_up(&self) -> Result<()> {
        let (pool, dirty) = (&self.pool, &self.object.dirty);
        if dirty.is_dirty() || dirty.touched_txg() > pool.write_back.txgs.committed() {
            pool.commit(pool.write_back.txgs.open()).await?;
            if dirty.is_dirty() {
                return pool.write_back.failure().map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    async fn write_through(&self, patience: &dyn Patience, offset: u64, data: &[u8]) -> Result<()> {
        self.catch_up().await?;
        let _charged = self.pool.memory.charge(data.len() as u64);
        let end = offset.saturating_add(data.len() as u64);
        let _guard = self.object.ranges.exclusive(self.touched(offset, end)).await;
        self.pool.check_before_change(&self.object, Some(self)).await?;
        let file = self.origin_file().await?;
        let change = self.begin_change(offset..end).await?;
        goes_on(patience)?;
        let outcome = file.write(offset, data).await;
        match &outcome {
            Ok(()) if self.keeps_writes() => self.follow_write(offset, &Bytes::Borrowed(data)),
            Ok(()) => {
                self.drop_records(offset..end);
                self.drop_tail();
                self.object.update(|version| {
                    version.attributes.size = version.attributes.size.max(end);
                });
            }
            Err(_) => self.drop_records(offset..end),
        }
        drop(change);
        outcome?;
        self.changed().await
    }

    /// Appends `data` and returns the offset at which it landed.
    ///
    /// # Errors
    /// As [`write`](OpenFile::write).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(file.append(b"!").await?, 8, "where it stands");
    /// # Ok(()) }) }
    /// ```
    pub async fn append(&self, data: &[u8]) -> Result<u64> {
        self.append_for(&Endless, data).await.map(|landed| landed.start)
    }

    /// As [`append`](OpenFile::append), for somebody who may not wait for ever. Returns where that
    /// landed which was taken: fewer bytes if he stopped waiting for room for the rest.
    ///
    /// # Errors
    /// As [`write_for`](OpenFile::write_for).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// use warmfront::Endless;
    ///
    /// assert_eq!(file.append_for(&Endless, b", and more").await?, 8..18);
    /// # Ok(()) }) }
    /// ```
    pub async fn append_for(&self, patience: &dyn Patience, data: &[u8]) -> Result<Range<u64>> {
        self.pool.writable()?;
        let properties = self.tenant().properties();
        let (offset, taken) = match properties.write {
            WriteMode::Back => {
                let writer = Writer { patience, mode: properties.failmode };
                self.pool.wait_for_room(data.len() as u64, writer).await?;
                let _guard = self.object.ranges.exclusive(0..u64::MAX).await;
                if !self.object.dirty.is_dirty() {
                    self.pool.check_before_change(&self.object, Some(self)).await?;
                }
                if !self.object.version().is_settled() && !self.object.dirty.is_dirty() {
                    self.adopt().await?;
                }
                let offset = self.attributes().size;
                let data = self.within_reach(offset, data).await?;
                (offset, self.take(offset, data, writer).await?)
            }
            WriteMode::Through | WriteMode::Around => {
                let landed = self.append_through(patience, data).await?;
                (landed.start, (landed.end - landed.start) as usize)
            }
        };
        self.wrote(taken);
        if self.has_to_last(&properties) && self.lasts_by_log() {
            patience.until_it_lasts(taken);
        }
        self.made_to_last(&properties).await?;
        Ok(offset..offset + taken as u64)
    }

    async fn append_through(&self, patience: &dyn Patience, data: &[u8]) -> Result<Range<u64>> {
        self.catch_up().await?;
        let _charged = self.pool.memory.charge(data.len() as u64);
        let _guard = self.object.ranges.exclusive(0..u64::MAX).await;
        self.pool.check_before_change(&self.object, Some(self)).await?;
        let file = self.origin_file().await?;
        let size = self.attributes().size;
        let data = self.within_reach(size, data).await?;
        let change = self.begin_change(size..size.saturating_add(data.len() as u64)).await?;
        goes_on(patience)?;
        let outcome = file.append(data).await;
        match &outcome {
            Ok(offset) if self.keeps_writes() => {
                self.follow_write(*offset, &Bytes::Borrowed(data));
            }
            Ok(offset) => {
                self.drop_tail();
                let end = offset + data.len() as u64;
                self.object.update(|version| {
                    version.attributes.size = version.attributes.size.max(end);
                });
            }
            Err(_) => self.drop_records(self.attributes().size..u64::MAX),
        }
        drop(change);
        let offset = outcome?;
        self.changed().await?;
        Ok(offset..offset + data.len() as u64)
    }

    /// Reserves, releases or moves space.
    ///
    /// # Errors
    /// As the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// use warmfront::storage::Allocation;
    ///
    /// file.allocate(Allocation { mode: 0, offset: 0, length: 100 }).await?;
    /// assert_eq!(pool.attributes(found.object, None).await?.attributes.size, 100);
    /// # Ok(()) }) }
    /// ```
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
        if moves {
            // What a log has of the file lies elsewhere afterwards.
            self.catch_up().await?;
        } else {
            self.pool.write_out(&self.object).await?;
        }
        let outcome = {
            let _contents = self.object.dirty.turn.lock().await;
            let outcome = file.allocate(allocation).await;
            if outcome.is_ok() {
                self.allocated(allocation, moves).await;
            }
            outcome
        };
        if moves && outcome.is_ok() {
            self.pool.commit(self.pool.write_back.txgs.open()).await?;
        }
        self.drop_records(affected);
        if outcome.is_ok() && allocation.mode & KEEP_SIZE == 0 {
            self.drop_tail();
        }
        drop(change);
        outcome?;
        self.settle_size().await?;
        self.made_to_last(&self.tenant().properties()).await
    }

    /// After the origin has reserved, released or moved space, in the turn of the contents: what
    /// was dirty there is gone, and the log is told.
    async fn allocated(&self, allocation: Allocation, moves: bool) {
        let (pool, object) = (&self.pool, &self.object);
        if moves || allocation.mode & DROPS_RANGE != 0 {
            let end = if moves { u64::MAX } else { allocation.offset + allocation.length };
            object.dirty.remove(allocation.offset..end);
        }
        if moves || !pool.logs_contents(object) {
            return pool.unlogged();
        }
        object.dirty.touched(pool.write_back.txgs.open());
        let Allocation { mode, offset, length } = allocation;
        if let Some(path) = pool.path_for_log(object) {
            let file = place(object, &path);
            let record = zil::Record::Allocate { file, mode, offset, length };
            pool.log_change_of(object, &record).await;
            let size = object.attributes().size;
            let keeps_size = mode & KEEP_SIZE != 0;
            if keeps_size && mode & DROPS_RANGE != 0 && offset.saturating_add(length) >= size {
                // The bytes that led to this size may have been among those that are gone. Where it
                // may grow, the replay of the allocation makes it what the origin has made of it.
                pool.log_change_of(object, &zil::Record::Truncate { file, size }).await;
            }
        }
    }

    /// Takes in the size that a change at the origin has led to, also while the file is dirty: all
    /// that was dirty has been written there before.
    async fn settle_size(&self) -> Result<()> {
        if self.object.dirty.is_dirty() {
            let seen = self.origin_file().await?.attributes().await?;
            self.object.update(|version| version.set_ahead(Some(seen.size), Some(seen.modified)));
            self.object.dirty.set_modified(seen.modified);
        }
        self.adopt().await
    }

    /// Copies up to `length` bytes from `source` at `source_offset` to this file at `offset`, at
    /// the origin, and returns how many.
    ///
    /// # Errors
    /// As the origin decides.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// let copied = file.copy_from(&file, 0, 8, 8).await?;
    /// assert_eq!((copied, file.read(0, 100).await?.to_vec()), (8, b"contentscontents".to_vec()));
    /// # Ok(()) }) }
    /// ```
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
        self.pool.write_out(&source.object).await?;
        self.pool.write_out(&self.object).await?;
        let outcome = {
            let _contents = self.object.dirty.turn.lock().await;
            let outcome = file.copy_from(from, source_offset, offset, length).await;
            if let Ok(copied) = &outcome {
                self.object.dirty.remove(offset..offset + copied);
                self.object.dirty.touched(self.pool.write_back.txgs.open());
                self.pool.unlogged();
            }
            outcome
        };
        self.drop_records(offset..end);
        self.drop_tail();
        drop(change);
        let copied = outcome?;
        self.settle_size().await?;
        self.made_to_last(&self.tenant().properties()).await?;
        Ok(copied)
    }

    /// Whether what is written is kept in RAM.
    fn keeps_writes(&self) -> bool {
        self.tenant().properties().write != WriteMode::Around
    }

    /// Begins a change of the bytes of `range`, which are locked, and of the last record, which may
    /// grow.
    async fn begin_change(&self, range: Range<u64>) -> Result<ContentsChange<'_>> {
        let touched = self.touched(range.start, range.end);
        self.pool.change_contents(&self.object, &self.layout(), touched).await
    }

    fn layout(&self) -> Layout {
        self.pool.layout(&self.object, self.tenant().properties().recordsize)
    }

    /// The bytes whose records a change of `offset..end` touches: the range itself and, when it
    /// begins behind the end of the file, the last record, which grows.
    fn touched(&self, offset: u64, end: u64) -> Range<u64> {
        let layout = self.layout();
        layout.widened(&(offset.min(layout.size.saturating_sub(1))..end))
    }

    /// Makes the cached records agree with what was written.
    fn follow_write(&self, offset: u64, written: &Bytes<'_>) {
        let layout = self.layout();
        let data = written.as_slice();
        let end = offset + written.len();
        if offset > layout.size {
            self.drop_tail();
        }
        for number in layout.records(offset..end) {
            if let Bytes::Record(record) = written {
                self.replace_record(&layout, number, record);
                continue;
            }
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

    /// Puts a whole record that was written in the place of what is cached.
    fn replace_record(&self, layout: &Layout, number: u64, record: &Arc<Record>) {
        let (key, tenant) = (self.key(layout, number), self.tenant());
        let value = Cached::Data(record.clone());
        let bytes = value.charged_bytes() as u64;
        match self.pool.memory.cache.replace(&key, value, bytes) {
            Ok(true) => {}
            Ok(false) if !tenant.promotes() => self.pass_by(&tenant),
            Ok(false) => {
                self.admit(&tenant, key, record, arc::Kind::Demand, self.pool.now());
            }
            Err(_) => {
                self.pool.memory.cache.remove(&key);
                tenant.counters.add(Counter::WriteDropped, 1);
            }
        }
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
                    record.fill(part, taken);
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

/// Before the origin makes a change: whether it is waited for still. Others who change the same
/// bytes wait for it in any case.
fn goes_on(patience: &dyn Patience) -> Result<()> {
    if !patience.stays() {
        return Err(EngineError::Interrupted);
    }
    patience.changed();
    Ok(())
}
