mod part;

use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::{FuturesOrdered, FuturesUnordered, StreamExt};

use crate::answer::Cached;
use crate::counters::Counter;
use crate::error::{EngineError, Result};
use crate::extents::{Piece, covers, overlay};
use crate::file::OpenFile;
use crate::flash::Miss;
use crate::flight::{Claim, Flight, Lead};
use crate::key::Key;
use crate::object::{Layout, Tenant};
use crate::property::CacheLevel;
use crate::record::{Pieces, Record};
use crate::version::StaleBy;

/// The largest read that is asked of the origin in one call.
pub(crate) const ORIGIN_READ_BYTES_MAX: u64 = 4 << 20;
/// Reads of flash that one call has under way at most.
const FLASH_READS_MAX: usize = 64;
/// Most calls to the origin that one caller has under way.
const ORIGIN_CALLS_MAX: usize = 8;
/// Times that a read starts anew because the caller it joined gave up.
const ATTEMPTS_MAX: usize = 8;

/// The fetch of one record.
type RecordFlight = Flight<Key, Result<Arc<Record>>>;
/// The duty to fetch one record.
type RecordLead<'a> = Lead<'a, Key, Result<Arc<Record>>>;

/// Where a record of a read comes from.
enum Source {
    Ready(Arc<Record>),
    /// Another caller fetches it.
    Joined(u64, Arc<RecordFlight>),
    /// This caller fetches it; the place in the list of what it fetches.
    Led(usize),
}

impl OpenFile {
    /// Reads `length` bytes at `offset` if all of them are in RAM. Waits for nothing.
    ///
    /// `None` says that [`read`](OpenFile::read) has to be called.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// // What is not in RAM takes the way that may have to wait.
    /// let pieces = match file.read_cached(0, 8) {
    ///     Some(pieces) => pieces,
    ///     None => file.read(0, 8).await?,
    /// };
    /// assert_eq!(pieces.to_vec(), b"contents");
    /// assert!(file.read_cached(0, 8).is_some());
    /// # Ok(()) }) }
    /// ```
    pub fn read_cached(self: &Arc<Self>, offset: u64, length: usize) -> Option<Pieces> {
        let place = self.pool.place_of(&self.object);
        let tenant = &place.tenant;
        let properties = tenant.properties();
        if properties.primarycache != CacheLevel::All {
            return None;
        }
        let now = self.pool.now();
        let layout = self.object.readable_layout(&properties, now)?;
        let range = clamp(offset, length, &layout);
        if self.object.ranges.is_being_written(layout.widened(&range)) {
            return None;
        }
        let promotes = self.promotes(&properties);
        let user = promotes.then(|| tenant.dataset.id());
        let mut pieces = Pieces::default();
        for number in layout.records(range.clone()) {
            let record = self.cached(tenant, &layout, number, user, now)?;
            pieces.push(record, within(&layout, number, &range));
        }
        self.pool.asked(self.object.id, range.start, pieces.len() as u64, false);
        let records = layout.records(range.clone());
        tenant.counters.add(Counter::DemandDataHits, records.end - records.start);
        tenant.counters.add(Counter::ReadCalls, 1);
        tenant.counters.add(Counter::ReadBytes, pieces.len() as u64);
        if promotes {
            self.sample(tenant, &layout, records);
        } else {
            tenant.counters.add(Counter::UnpromotedHits, records.end - records.start);
        }
        self.accessed(tenant, &properties, &layout, range, false, now);
        Some(pieces)
    }

    /// Reads `length` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// When a record is not cached and the origin cannot give it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// assert_eq!(file.read(2, 4).await?.to_vec(), b"nten");
    /// assert!(file.read(8, 4).await?.is_empty(), "the end of the file");
    /// # Ok(()) }) }
    /// ```
    pub async fn read(self: &Arc<Self>, offset: u64, length: usize) -> Result<Pieces> {
        let tenant = self.tenant();
        let properties = tenant.properties();
        let now = self.pool.now();
        if !self.object.version().is_readable(properties.coherence, now) {
            self.pool.check(&self.object, Some(self)).await?;
        }
        let layout = self.pool.layout(&self.object, properties.recordsize);
        let wanted = offset..offset.saturating_add(length as u64);
        let guard = self.object.ranges.shared(layout.widened(&wanted)).await;
        // What was true before the wait may have changed in it.
        let layout = self.pool.layout(&self.object, properties.recordsize);
        let range = clamp(offset, length, &layout);
        let (pieces, waited) = match self.only_dirty(&tenant, &layout, &range)? {
            Some(pieces) => (pieces, false),
            None if self.is_part_only(&tenant, &layout, &range) => {
                (self.part(&tenant, &layout, range.clone()).await?, true)
            }
            None => self.gather(&tenant, &layout, range.clone()).await?,
        };
        drop(guard);
        self.pool.asked(self.object.id, range.start, pieces.len() as u64, false);
        tenant.counters.add(Counter::ReadCalls, 1);
        tenant.counters.add(Counter::ReadBytes, pieces.len() as u64);
        self.accessed(&tenant, &properties, &layout, range, waited, now);
        Ok(pieces)
    }

    /// A record from RAM, if it is there with all its bytes.
    fn cached(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        number: u64,
        user: Option<u32>,
        now: Duration,
    ) -> Option<Arc<Record>> {
        let range = layout.record_range(number);
        let found = self.pool.memory.lookup(&self.key(layout, number), user, now)?;
        match found.value {
            Cached::Data(record) if record.bytes().len() as u64 >= range.end - range.start => {
                if found.is_first_read {
                    tenant.counters.add(Counter::DemandDataHitsAhead, 1);
                }
                Some(record)
            }
            _ => None,
        }
    }

    /// The bytes of `range`, if all of them are newer than what the origin is known to keep but not
    /// all of their records are in RAM: what else is in these needs not be fetched for them.
    fn only_dirty(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        range: &Range<u64>,
    ) -> Result<Option<Pieces>> {
        let cache = &self.pool.memory.cache;
        let is_kept = |number| cache.locate(&self.key(layout, number)).is_some();
        if !self.object.dirty.is_dirty() || layout.records(range.clone()).all(is_kept) {
            return Ok(None);
        }
        let records = layout.records(range.clone());
        let last = layout.record_range(records.end - 1);
        let whole = layout.record_range(records.start).start..last.end;
        let dirty = self.object.dirty.snapshot(whole.clone());
        // Records of which all is newer are put together whole, and kept.
        if !covers(&dirty, range.clone()) || covers(&dirty, whole) {
            return Ok(None);
        }
        let mut pieces = Pieces::default();
        for number in records.clone() {
            let part = within(layout, number, range);
            let mut record = Record::with_capacity(&self.pool.memory.arena, part.len())?;
            let offset = number * layout.record_bytes + part.start as u64;
            overlay(&dirty, offset, &mut record.buffer_mut()[..part.len()]);
            record.set_length(part.len());
            pieces.push(Arc::new(record), 0..part.len());
        }
        tenant.hit(Counter::DemandDataHits, records.end - records.start);
        if tenant.user().is_some() {
            self.sample(tenant, layout, records);
        }
        Ok(Some(pieces))
    }

    /// Brings the records of `range` together. Says whether any had to be waited for.
    async fn gather(
        self: &Arc<Self>,
        tenant: &Tenant,
        layout: &Layout,
        range: Range<u64>,
    ) -> Result<(Pieces, bool)> {
        let properties = tenant.properties();
        let keeps = properties.primarycache == CacheLevel::All;
        let user = tenant.user();
        let now = self.pool.now();
        let mut sources = Vec::new();
        let mut leads = Vec::new();
        for number in layout.records(range.clone()) {
            let cached = if keeps { self.cached(tenant, layout, number, user, now) } else { None };
            let source = match cached {
                Some(record) => Source::Ready(record),
                None => match self.pool.flights.claim(&self.key(layout, number)) {
                    Claim::Join(flight) => Source::Joined(number, flight),
                    Claim::Lead(lead) => {
                        leads.push((number, lead));
                        Source::Led(leads.len() - 1)
                    }
                },
            };
            sources.push(source);
        }
        let hits = sources.iter().filter(|source| matches!(source, Source::Ready(_))).count();
        let joined = sources.iter().filter(|source| matches!(source, Source::Joined(..))).count();
        tenant.hit(Counter::DemandDataHits, hits as u64);
        tenant.counters.add(Counter::DemandDataIohits, joined as u64);
        tenant.counters.add(Counter::DemandDataMisses, leads.len() as u64);
        if user.is_some() {
            self.sample(tenant, layout, layout.records(range.clone()));
        }
        let waited = joined + leads.len() > 0;

        // What this caller has to fetch comes first: others wait for it.
        let fetched = self.fetch(tenant, layout, leads, arc::Kind::Demand).await?;
        let mut pieces = Pieces::default();
        let first = layout.records(range.clone()).start;
        for (index, source) in sources.into_iter().enumerate() {
            let number = first + index as u64;
            let record = match source {
                Source::Ready(record) => record,
                Source::Led(index) => fetched[index].clone(),
                Source::Joined(number, flight) => match flight.landed().await {
                    Some(record) => self.share(tenant, layout, number, record?),
                    None => self.take_over(tenant, layout, number).await?,
                },
            };
            if !pieces.push(record, within(layout, number, &range)) {
                // The file has become shorter at the origin.
                break;
            }
        }
        Ok((pieces, waited))
    }

    /// A record that another caller has fetched. If that caller's use does not count and this
    /// one's does, this one keeps it. If it was fetched ahead, this is its first read.
    fn share(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        number: u64,
        record: Arc<Record>,
    ) -> Arc<Record> {
        if tenant.promotes() {
            let (key, memory, now) = (self.key(layout, number), &self.pool.memory, self.pool.now());
            let kept = memory.cache.locate(&key);
            match kept.filter(|at| at.list.queue != arc::Queue::Uncached) {
                Some(at) if at.prefetched => drop(memory.lookup(&key, tenant.user(), now)),
                Some(_) => {}
                None => self.admit(tenant, key, &record, arc::Kind::Demand, now),
            }
        }
        record
    }

    /// Fetches a record after the caller that was fetching it gave up.
    async fn take_over(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        number: u64,
    ) -> Result<Arc<Record>> {
        for _ in 0..ATTEMPTS_MAX {
            match self.pool.flights.claim(&self.key(layout, number)) {
                Claim::Lead(lead) => {
                    let leads = vec![(number, lead)];
                    let mut fetched = self.fetch(tenant, layout, leads, arc::Kind::Demand).await?;
                    return Ok(fetched.remove(0));
                }
                Claim::Join(flight) => {
                    if let Some(record) = flight.landed().await {
                        return record;
                    }
                }
            }
        }
        Err(EngineError::Interrupted)
    }

    /// Fetches records from flash or the origin, and lands them. In the order of `leads`, which
    /// ascends.
    pub(crate) async fn fetch(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        leads: Vec<(u64, RecordLead<'_>)>,
        kind: arc::Kind,
    ) -> Result<Vec<Arc<Record>>> {
        let level = &self.pool.flash.level;
        let is_kept_away = level.reads_as_zfs()
            && matches!(kind, arc::Kind::Prefetch)
            && !tenant.properties().l2prefetch;
        if !self.pool.flash.is_in_use() || is_kept_away {
            let fetched = self.fetch_from_origin(tenant, layout, leads, kind).await?;
            return Ok(fetched.into_iter().map(|(_, record)| record).collect());
        }
        let origin = self.pool.pace.expected(leads.len() as u64 * layout.record_bytes);
        let keys = leads.iter().map(|(_, lead)| lead.key().on_flash());
        let mut picked = level.pick(keys, origin).into_iter();
        let (on_flash, elsewhere): (Vec<_>, Vec<_>) =
            leads.into_iter().partition(|_| picked.next().expect("one for each"));
        tenant.counters.add(Counter::FlashMisses, elsewhere.len() as u64);
        let from_flash = self.fetch_from_flash(tenant, layout, on_flash, kind);
        let from_origin = self.fetch_from_origin(tenant, layout, elsewhere, kind);
        let ((mut fetched, left), from_origin) = futures::join!(from_flash, from_origin);
        let from_origin = match from_origin {
            Ok(records) => records,
            Err(error) => {
                left.into_iter().for_each(|(_, lead)| lead.land(Err(error.clone())));
                return Err(error);
            }
        };
        fetched.extend(from_origin);
        fetched.extend(self.fetch_from_origin(tenant, layout, left, kind).await?);
        fetched.sort_unstable_by_key(|(number, _)| *number);
        Ok(fetched.into_iter().map(|(_, record)| record).collect())
    }

    /// Fetches records from flash and lands them; gives back those that it could not give.
    async fn fetch_from_flash<'a>(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        leads: Vec<(u64, RecordLead<'a>)>,
        kind: arc::Kind,
    ) -> (Vec<(u64, Arc<Record>)>, Vec<(u64, RecordLead<'a>)>) {
        let began = self.pool.now();
        let mut waiting = leads.into_iter();
        let mut reads = FuturesUnordered::new();
        let (mut fetched, mut left) = (Vec::new(), Vec::new());
        loop {
            while reads.len() < FLASH_READS_MAX
                && let Some(lead) = waiting.next()
            {
                reads.push(self.read_from_flash(tenant, layout, lead).boxed());
            }
            match reads.next().await {
                None => break,
                Some((number, lead, None)) => left.push((number, lead)),
                Some((number, lead, Some(record))) => {
                    fetched.push((number, self.land(tenant, lead, record, kind)));
                }
            }
        }
        drop(reads);
        if !fetched.is_empty() {
            let bytes = fetched.len() as u64 * layout.record_bytes;
            let elapsed = self.pool.now().saturating_sub(began);
            self.pool.flash_pace.asked().answered(bytes, elapsed);
        }
        left.sort_unstable_by_key(|(number, _)| *number);
        (fetched, left)
    }

    /// A whole record from flash.
    async fn read_from_flash<'a>(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        (number, lead): (u64, RecordLead<'a>),
    ) -> (u64, RecordLead<'a>, Option<Record>) {
        let range = layout.record_range(number);
        let bytes = (range.end - range.start) as usize;
        let level = &self.pool.flash.level;
        let count = |read: std::result::Result<usize, Miss>| {
            let counter = if read.is_ok() { Counter::FlashHits } else { Counter::FlashMisses };
            tenant.counters.add(counter, 1);
            level.count(read);
        };
        let Ok(mut record) = Record::with_capacity(&self.pool.memory.arena, bytes) else {
            count(Err(Miss::NoMemory));
            return (number, lead, None);
        };
        let _charged = self.pool.memory.charge(record.charged_bytes() as u64);
        let key = lead.key().on_flash();
        let read = level.look_up(&key, record.buffer_mut(), None).await;
        let read = read.and_then(|length| match length == bytes {
            true => Ok(length),
            false => Err(Miss::TooShort),
        });
        count(read);
        record.set_length(read.unwrap_or(0));
        (number, lead, read.is_ok().then_some(record))
    }

    /// Keeps a record that was fetched, as far as it may be kept, and gives it to all who wait.
    fn land(
        &self,
        tenant: &Tenant,
        lead: RecordLead<'_>,
        mut record: Record,
        kind: arc::Kind,
    ) -> Arc<Record> {
        if kind == arc::Kind::Prefetch {
            record.set_ahead();
        }
        let record = Arc::new(record);
        self.admit(tenant, *lead.key(), &record, kind, self.pool.now());
        lead.land(Ok(record.clone()));
        record
    }

    /// Fetches records from the origin, neighbours in one call, and lands them. The calls are made
    /// at the same time: where flash has some of a stream, each of the rest would wait at the
    /// origin for all others' calls.
    async fn fetch_from_origin(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        leads: Vec<(u64, RecordLead<'_>)>,
        kind: arc::Kind,
    ) -> Result<Vec<(u64, Arc<Record>)>> {
        let run_max = (ORIGIN_READ_BYTES_MAX / layout.record_bytes).max(1) as usize;
        let count = leads.len();
        let mut leads = leads.into_iter().peekable();
        let mut runs = std::iter::from_fn(|| {
            let (first, lead) = leads.next()?;
            let mut run = vec![lead];
            while run.len() < run_max
                && let Some((_, lead)) =
                    leads.next_if(|(number, _)| *number == first + run.len() as u64)
            {
                run.push(lead);
            }
            Some((first, run))
        });
        let mut fetches = FuturesOrdered::new();
        let mut fetched = Vec::with_capacity(count);
        loop {
            while fetches.len() < ORIGIN_CALLS_MAX
                && let Some((first, run)) = runs.next()
            {
                fetches.push_back(self.fetch_run(tenant, layout, first, run, kind).boxed());
            }
            match fetches.next().await {
                Some(run) => fetched.extend(run?),
                None => break,
            }
        }
        Ok(fetched)
    }

    /// Fetches neighbouring records in one call.
    async fn fetch_run(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        first: u64,
        leads: Vec<RecordLead<'_>>,
        kind: arc::Kind,
    ) -> Result<Vec<(u64, Arc<Record>)>> {
        let numbers = first..first + leads.len() as u64;
        let lengths: Vec<u64> = numbers
            .clone()
            .map(|number| {
                let range = layout.record_range(number);
                range.end - range.start
            })
            .collect();
        let arena = &self.pool.memory.arena;
        let mut records = lengths
            .iter()
            .map(|length| Record::with_capacity(arena, *length as usize))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let bytes: usize = records.iter().map(Record::charged_bytes).sum();
        let charged = self.pool.memory.charge(bytes as u64);
        let mut buffers: Vec<IoSliceMut<'_>> =
            records.iter_mut().map(|record| IoSliceMut::new(record.buffer_mut())).collect();
        let _demand =
            matches!(kind, arc::Kind::Demand).then(|| UnderWay::new(&self.pool.demand_fetches));
        let start = first * layout.record_bytes;
        let wanted = start..start + lengths.iter().sum::<u64>();
        // Looked at first: what comes to the origin during the read is then in one of the two.
        // Nobody writes meanwhile, since the range is held.
        let is_dirty = self.object.dirty.is_dirty();
        let (dirty, origin_end) = self.object.dirty.snapshot_and_end(wanted.clone());
        let at_origin = start..wanted.end.min(origin_end);
        let is_enough = at_origin.is_empty() || covers(&dirty, at_origin);
        let outcome = match is_dirty && is_enough {
            true => Ok(0),
            false => self.read_origin(start, &mut buffers).await,
        };
        drop(buffers);
        let outcome = outcome.map(|count| match is_dirty {
            true => lay_over(&dirty, start, count as u64, &mut records, &lengths),
            false => count,
        });
        let mut left = match outcome {
            Ok(count) => count as u64,
            Err(error) => {
                for lead in leads {
                    lead.land(Err(error.clone()));
                }
                return Err(error);
            }
        };
        if left < lengths.iter().sum() {
            tracing::debug!(object = self.object.id.0, "shorter at the origin than it was known");
            self.object.update(|version| version.expire(StaleBy::Attributes));
        }
        drop(charged);
        let taken = self.pool.flash.unsynced.now();
        let mut fetched = Vec::with_capacity(records.len());
        let leads = numbers.zip(leads);
        for ((mut record, length), (number, lead)) in records.into_iter().zip(lengths).zip(leads) {
            record.set_length(length.min(left) as usize);
            record.set_taken(taken);
            left -= length.min(left);
            fetched.push((number, self.land(tenant, lead, record, kind)));
        }
        Ok(fetched)
    }

    async fn read_origin(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let file = self.origin_file().await?;
        let (asked, began) = (self.pool.pace.asked(), self.pool.now());
        let count = file.read(offset, buffers).await?;
        asked.answered(count as u64, self.pool.now().saturating_sub(began));
        Ok(count)
    }

    /// Counts a record that is not kept because its reader's use does not count.
    pub(crate) fn pass_by(&self, tenant: &Tenant) {
        let properties = tenant.properties();
        let reason = match properties.primarycache {
            CacheLevel::All if !properties.promote => Counter::UncachedPromote,
            CacheLevel::All => Counter::UncachedCgroup,
            CacheLevel::Metadata | CacheLevel::None => Counter::UncachedPrimarycache,
        };
        tenant.counters.add(reason, 1);
    }

    /// Puts a record into the ARC, as the properties and the budget allow. What is read for
    /// somebody whose use does not count passes by, except what is primed.
    pub(crate) fn admit(
        &self,
        tenant: &Tenant,
        key: Key,
        record: &Arc<Record>,
        kind: arc::Kind,
        now: Duration,
    ) {
        if tenant.properties().primarycache != CacheLevel::All {
            tenant.counters.add(Counter::UncachedPrimarycache, 1);
            self.pool.feed_at_once(tenant, key, record);
            return;
        }
        let value = Cached::Data(record.clone());
        let (bytes, class) = (value.charged_bytes() as u64, arc::Class::Data);
        let memory = &self.pool.memory;
        memory.grown(bytes);
        let outcome = if tenant.promotes() || kind == arc::Kind::Prime {
            let charge = arc::Charge { bytes, class, kind, tenant: tenant.dataset.id() };
            let inserted = memory.cache.insert(key, value, charge, now).map(|_| ());
            if self.pool.flash.is_in_use() {
                memory.feeder.nudge();
            }
            inserted
        } else {
            self.pass_by(tenant);
            // It is counted already, whether there is room for it to pass through or not.
            let _ = memory.pass(key, value, class, now);
            return;
        };
        if outcome.is_err() {
            tenant.counters.add(Counter::UncachedTooLarge, 1);
        }
    }
}

/// Puts what is dirty over records that begin at `start`, of which the origin has given `count`
/// bytes; between its end and that of the file is nothing but what is dirty. Returns how many bytes
/// there are.
fn lay_over(
    dirty: &[(u64, Piece)],
    start: u64,
    count: u64,
    records: &mut [Record],
    lengths: &[u64],
) -> usize {
    let mut offset = start;
    for (record, length) in records.iter_mut().zip(lengths) {
        let known = (start + count).clamp(offset, offset + length) - offset;
        let buffer = &mut record.buffer_mut()[..*length as usize];
        buffer[known as usize..].fill(0);
        overlay(dirty, offset, buffer);
        offset += length;
    }
    (offset - start) as usize
}

/// Counts itself for as long as it lives.
struct UnderWay<'a>(&'a AtomicU64);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicU64) -> UnderWay<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes asked for, cut at the end of the object.
fn clamp(offset: u64, length: usize, layout: &Layout) -> Range<u64> {
    let end = offset.saturating_add(length as u64).min(layout.size);
    offset.min(end)..end
}

/// The part of `range` that lies in record `number`, relative to the record.
fn within(layout: &Layout, number: u64, range: &Range<u64>) -> Range<usize> {
    let start = number * layout.record_bytes;
    let from = range.start.saturating_sub(start);
    let to = (range.end - start).min(layout.record_bytes);
    from as usize..to as usize
}
