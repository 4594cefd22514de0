use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Ring;
use super::state::{Buffered, Chunk, Prepared, State, Status, Waiting, Writing};

use crate::buffers::Buffers;
use crate::cipher::Nonce;
use crate::directory::{self, DirectoryEntry, ENTRY_BYTES};
use crate::health::Call;
use crate::index::BLOCK_BYTES;
use crate::journal::JournalEntry;
use crate::location::{Location, UNIT_BYTES};
use crate::record::{HEADER_BYTES, Header};
use crate::refused::Refused;
use crate::stamps::Stamp;
use crate::statistics::{Condition, add};

/// Empty segments that are kept for records that are written anew.
const EMPTY_KEPT: u32 = 1;
/// Rings of fewer segments have none to spare for one that is opened ahead.
const PREPARING_SEGMENTS_MIN: u32 = 12;

/// Where a record that is written comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Incoming {
    /// From RAM: it must not have been killed since the stamp.
    Admitted(Stamp),
    /// From a segment that is about to be overwritten.
    Moved(Location),
}

impl Ring {
    /// A nonce that no other record has.
    pub(crate) fn nonce(&self) -> Nonce {
        Nonce { epoch: self.epoch, counter: self.nonces.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn salt(&self) -> &[u8; 16] {
        &self.superblock.salt
    }

    /// The longest that header and contents may be together, bytes.
    pub(crate) fn record_bytes_max(&self) -> u64 {
        self.superblock.layout.segment_bytes / 2
    }

    /// Whether a record of that length would be taken in now, as far as can be said beforehand.
    pub(crate) fn may_admit(self: &Arc<Self>, bytes: u64, vital: bool) -> Result<(), Refused> {
        let now = self.now();
        let state = &mut *self.state.lock();
        if state.condition != Condition::Works {
            return Err(Refused::NoDevice);
        }
        if state.recovering {
            return Err(Refused::Recovering);
        }
        if state.health.is_spared(Call::Write, now) {
            return Err(Refused::Bypassed);
        }
        if bytes > self.record_bytes_max() {
            return Err(Refused::TooLarge);
        }
        if !vital && !state.wear.is_in_rate(bytes, now) {
            return Err(Refused::Rate);
        }
        if !vital && !state.wear.is_affordable(bytes, now) {
            return Err(Refused::Wear);
        }
        Ok(())
    }

    /// Whether the device was filled once, so that what comes in drives something out.
    pub(crate) fn is_filled(&self) -> bool {
        self.state.lock().is_filled()
    }

    /// Puts a record into the open segment. It is read from there at once, and written with its
    /// chunk.
    pub(crate) fn place_record(
        self: &Arc<Self>,
        header: &Header,
        stored: &[u8],
        incoming: Incoming,
    ) -> Result<(), Refused> {
        let state = &mut *self.state.lock();
        if state.condition != Condition::Works {
            return Err(Refused::NoDevice);
        }
        if state.recovering {
            return Err(Refused::Recovering);
        }
        self.make_room(state, header, incoming)?;
        let writing = state.open.as_ref().expect("a segment is open");
        let chunk = state.chunk.as_ref().expect("a chunk is open");
        let unit = chunk.start_unit + (chunk.filled / UNIT_BYTES) as u32;
        let segment = writing.segment;
        let entry = DirectoryEntry::new(header, unit);
        self.enter(state, header, &entry, segment, incoming)?;

        let incarnation = state.segments[segment as usize].incarnation;
        let head = header.encode(&self.place(incarnation, segment, unit));
        let chunk = state.chunk.as_mut().expect("a chunk is open");
        let end = chunk.filled + header.units() as usize * UNIT_BYTES;
        let place = &mut chunk.buffer[chunk.filled..end];
        place[..HEADER_BYTES].copy_from_slice(&head);
        place[HEADER_BYTES..header.total_bytes()].copy_from_slice(stored);
        place[header.total_bytes()..].fill(0);
        chunk.filled = end;
        state.open.as_mut().expect("a segment is open").entries.push(entry);
        state.count(segment, &[entry]);
        Ok(())
    }

    /// Enters a record into the index, unless it has died on its way.
    fn enter(
        self: &Arc<Self>,
        state: &mut State,
        header: &Header,
        entry: &DirectoryEntry,
        segment: u32,
        incoming: Incoming,
    ) -> Result<(), Refused> {
        let index = &self.shared.index;
        let indexed = entry.indexed(self.id, segment);
        match incoming {
            Incoming::Admitted(stamp) => {
                if index.insert(entry.hash, indexed).is_err() {
                    return Err(Refused::Present);
                }
                // A kill advances the stamp first and looks into the index then.
                if self.shared.stamps.now(header.key.object) != stamp {
                    index.remove(entry.hash, indexed.location);
                    return Err(Refused::Killed);
                }
            }
            Incoming::Moved(_) if self.is_out_of_tombstones(state) => {
                return Err(Refused::NoSegment);
            }
            Incoming::Moved(from) => {
                if state.is_floored(header.key.object, from.segment, from.unit)
                    || !index.update(entry.hash, from, |it| *it = indexed)
                {
                    return Err(Refused::Killed);
                }
                self.bury(state, from);
            }
        }
        Ok(())
    }

    /// Makes sure that the open chunk has room for a record.
    fn make_room(
        self: &Arc<Self>,
        state: &mut State,
        header: &Header,
        incoming: Incoming,
    ) -> Result<(), Refused> {
        let bytes = header.units() as usize * UNIT_BYTES;
        if matches!(incoming, Incoming::Admitted(_))
            && state.emptying
            && !self.is_empty_ahead(state, self.kept())
        {
            // What is written anew needs the open segment for itself.
            return Err(Refused::NoSegment);
        }
        if let Some(chunk) = &state.chunk
            && chunk.filled + bytes > chunk.buffer.len()
        {
            self.close_chunk(state);
        }
        if !self.has_room(state, bytes) {
            self.close_segment(state);
        }
        if state.open.is_none() {
            self.open_segment(state, incoming)?;
        }
        if state.chunk.is_none() {
            let block = self.superblock.layout.block_bytes;
            let wanted = state.lanes.shape().chunk_bytes.max(bytes).next_multiple_of(block);
            let writing = state.open.as_ref().expect("a segment is open");
            let room = self.superblock.layout.segment_bytes as usize
                - writing.next_unit as usize * UNIT_BYTES;
            let wanted = wanted.min(room);
            let capacity = Buffers::capacity(wanted);
            // One buffer is kept for records that are written anew.
            let kept = match incoming {
                Incoming::Admitted(_) if state.emptying => capacity,
                _ => 0,
            };
            if state.buffered_bytes + capacity + kept > self.shared.options.buffers_bytes_max {
                return Err(Refused::Buffers);
            }
            let buffer = self.shared.buffers.take(wanted);
            state.buffered_bytes += buffer.capacity();
            state.chunk = Some(Chunk { start_unit: writing.next_unit, buffer, filled: 0 });
        }
        Ok(())
    }

    /// Whether the open segment has room for a record and for a directory that names it.
    fn has_room(&self, state: &State, bytes: usize) -> bool {
        let Some(writing) = &state.open else { return false };
        let layout = &self.superblock.layout;
        let start = match &state.chunk {
            Some(chunk) => chunk.start_unit as usize * UNIT_BYTES + chunk.filled,
            None => writing.next_unit as usize * UNIT_BYTES,
        };
        let directory = (writing.entries.len() + 1) * ENTRY_BYTES;
        let end = (start + bytes).next_multiple_of(layout.block_bytes)
            + directory.next_multiple_of(layout.block_bytes);
        end as u64 <= layout.segment_bytes
    }

    /// Opens the next segment, if it is empty. The last one that is empty is for records
    /// that are written anew, or those would have no place while others come in.
    ///
    /// The one that follows is opened in the journal at once: writes to it must wait until that
    /// lasts, and by then it does.
    fn open_segment(
        self: &Arc<Self>,
        state: &mut State,
        incoming: Incoming,
    ) -> Result<(), Refused> {
        let kept = match incoming {
            Incoming::Admitted(_) => self.kept(),
            Incoming::Moved(_) => 0,
        };
        let taken = u32::from(state.prepared.is_none());
        if !self.is_empty_ahead(state, kept + taken) {
            self.empty_ahead(state);
            return Err(Refused::NoSegment);
        }
        let Prepared { segment, opened } = match state.prepared.take() {
            Some(prepared) => prepared,
            None => self.prepare(state),
        };
        state.open = Some(Writing { segment, opened, next_unit: 0, entries: Vec::new() });
        let layout = &self.superblock.layout;
        if layout.segments >= PREPARING_SEGMENTS_MIN && self.is_empty_ahead(state, self.kept() + 1)
        {
            let prepared = self.prepare(state);
            state.prepared = Some(prepared);
            let ring = self.clone();
            self.spawn(async move {
                // Whoever writes to the segment asks again.
                let _ = ring.durable(prepared.opened).await;
            });
        }
        self.empty_ahead(state);
        Ok(())
    }

    /// Empty segments that are kept for records that are written anew: whole segments may have to
    /// be where something is reserved, and need a little more room than they had.
    fn kept(&self) -> u32 {
        let kept = if self.shared.reserves.any() { EMPTY_KEPT + 1 } else { EMPTY_KEPT };
        kept.min(self.ahead() - 1)
    }

    /// Whether so many segments before the hand are empty.
    fn is_empty_ahead(&self, state: &State, count: u32) -> bool {
        let mut ahead = self.before_hand(state).take(count as usize);
        ahead.all(|segment| state.segments[segment as usize].status == Status::Free)
    }

    /// Opens the segment at the hand in the journal, and moves the hand on.
    fn prepare(&self, state: &mut State) -> Prepared {
        let (segment, incarnation) = (state.hand, state.next_incarnation);
        let place = &mut state.segments[segment as usize];
        place.status = Status::Open;
        place.incarnation = incarnation;
        state.next_incarnation += 1;
        state.hand = (segment + 1) % self.superblock.layout.segments;
        let opened = self.append(state, JournalEntry::Opened { segment, incarnation });
        Prepared { segment, opened }
    }

    /// Sends the open chunk on its way.
    fn close_chunk(self: &Arc<Self>, state: &mut State) {
        let Some(mut chunk) = state.chunk.take() else { return };
        let writing = state.open.as_mut().expect("a chunk belongs to the open segment");
        let segment = writing.segment;
        if chunk.filled == 0 {
            state.buffered_bytes -= chunk.buffer.capacity();
            self.shared.buffers.give(chunk.buffer);
            return;
        }
        let length = chunk.filled.next_multiple_of(self.superblock.layout.block_bytes);
        chunk.buffer[chunk.filled..length].fill(0);
        chunk.buffer.set_len(length);
        writing.next_unit = chunk.start_unit + (length / UNIT_BYTES) as u32;
        let opened = writing.opened;
        let (start_unit, buffer) = (chunk.start_unit, Arc::new(chunk.buffer));
        state.buffered.push(Buffered { segment, start_unit, buffer: buffer.clone() });
        state.segments[segment as usize].users += 1;
        state.wear.wrote(length as u64);
        state.waiting.push_back(Waiting { segment, start_unit, buffer, opened });
        if state.writers < state.lanes.shape().count {
            state.writers += 1;
            self.spawn(write_chunks(self.clone()));
        }
    }

    /// Ends the open segment; its directory follows when all of it is written.
    pub(super) fn close_segment(self: &Arc<Self>, state: &mut State) {
        self.close_chunk(state);
        let Some(writing) = state.open.take() else { return };
        if writing.entries.is_empty() {
            self.condemn(state, writing.segment, None);
            return;
        }
        state.sealing += 1;
        self.spawn(seal(self.clone(), writing));
    }

    /// Whether the device has anything to do but to read for others: writes of records, of
    /// directories and of the journal.
    pub(super) fn is_writing(&self, state: &State) -> bool {
        !state.buffered.is_empty()
            || state.sealing > 0
            || state.emptying
            || self.journal.lock().committing
    }

    /// Sends all that waits in RAM on its way and waits until it is written.
    pub(crate) async fn settle(self: &Arc<Self>) {
        self.close_chunk(&mut self.state.lock());
        self.until(|state| {
            state.buffered.is_empty() && state.sealing == 0 && !state.emptying
                || state.condition != Condition::Works
        })
        .await;
    }

    /// Names this start of the pool anew, and returns once that lasts, if the device takes it.
    pub(crate) async fn begin_life(self: &Arc<Self>, life: u128) {
        let position = {
            let mut state = self.state.lock();
            if state.condition != Condition::Works {
                return;
            }
            state.life = life;
            let mut journal = self.journal.lock();
            journal.renew = true;
            journal.appended += 1;
            journal.appended
        };
        // A device that does not take it has the earlier one, and is not believed.
        let _ = self.durable(position).await;
    }

    /// Writes everything down, so that the next start reads directories only.
    pub(crate) async fn stop(self: &Arc<Self>) {
        self.close_segment(&mut self.state.lock());
        self.settle().await;
        let appended = {
            let mut state = self.state.lock();
            if state.condition == Condition::Works {
                state.condition = Condition::Stopped;
            }
            // The checkpoint does not tell of it, so no start searches it.
            if let Some(prepared) = state.prepared.take() {
                state.free(prepared.segment);
            }
            Self::changed(&mut state);
            let mut journal = self.journal.lock();
            journal.renew = true;
            journal.appended += 1;
            journal.appended
        };
        // A journal that takes nothing has been told of already.
        let _ = self.durable(appended).await;
    }
}

/// Writes chunks, one after the other, until none waits or there are more tasks of this kind than
/// the device wants.
async fn write_chunks(ring: Arc<Ring>) {
    loop {
        let next = {
            let state = &mut *ring.state.lock();
            let needed = state.writers <= state.lanes.shape().count;
            let next = needed.then(|| state.waiting.pop_front()).flatten();
            state.writers -= usize::from(next.is_none());
            next
        };
        let Some(waiting) = next else { return };
        write_chunk(&ring, waiting).await;
    }
}

/// Writes one chunk. A segment is written only once its opening lasts: so what it held before is
/// not looked for in it any more.
async fn write_chunk(ring: &Arc<Ring>, waiting: Waiting) {
    let Waiting { segment, start_unit, buffer, opened } = waiting;
    let layout = &ring.superblock.layout;
    let offset = layout.segment_offset(segment) + u64::from(start_unit) * UNIT_BYTES as u64;
    let length = buffer.len() as u64;
    let written = match ring.durable(opened).await {
        Ok(()) => Some(ring.device.write(offset, buffer.clone()).await),
        Err(_) => None,
    };
    let now = ring.now();
    let state = &mut *ring.state.lock();
    match written {
        Some(Ok(())) => {
            add(&ring.shared.counters.written_bytes, length);
            ring.worked(state, Call::Write);
        }
        Some(Err(error)) => {
            state.wear.failed(length);
            add(&ring.shared.counters.failed_writes, 1);
            ring.failed(state, Call::Write, &error);
            // What lies there now is not known.
            ring.condemn(state, segment, None);
        }
        None => state.wear.failed(length),
    }
    state.written_chunks += 1;
    state.written_at = now;
    let busy = !state.waiting.is_empty();
    state.lanes.wrote(length, busy, now);
    let at = state
        .buffered
        .iter()
        .position(|it| it.segment == segment && it.start_unit == start_unit)
        .expect("a chunk is buffered until it is written");
    state.buffered.swap_remove(at);
    state.buffered_bytes -= buffer.capacity();
    if let Some(buffer) = Arc::into_inner(buffer) {
        ring.shared.buffers.give(buffer);
    }
    if state.buffered.is_empty() {
        ring.shared.buffers.trim();
    }
    state.segments[segment as usize].users -= 1;
    Ring::changed(state);
}

/// Writes the directory of a segment once all of its chunks are written, and seals it.
async fn seal(ring: Arc<Ring>, writing: Writing) {
    let segment = writing.segment;
    let incarnation = ring.state.lock().segments[segment as usize].incarnation;
    ring.until(|state| {
        let place = &state.segments[segment as usize];
        place.users == 0 || place.incarnation != incarnation
    })
    .await;
    let Writing { next_unit, mut entries, opened, .. } = writing;
    if ring.durable(opened).await.is_ok() {
        // Until the next commit a crash makes the segment one that is searched for its records.
        ring.write_directory(segment, incarnation, next_unit, &mut entries).await;
    }
    let state = &mut *ring.state.lock();
    state.sealing -= 1;
    Ring::changed(state);
}

impl Ring {
    /// Writes a directory behind the records of a segment and seals it; if that is not possible,
    /// the segment is given up.
    pub(super) async fn write_directory(
        self: &Arc<Self>,
        segment: u32,
        incarnation: u64,
        unit: u32,
        entries: &mut [DirectoryEntry],
    ) -> Option<u64> {
        {
            let place = &mut self.state.lock().segments[segment as usize];
            if place.retired || place.incarnation != incarnation {
                return None;
            }
            // The segment is not given to others before this write has ended.
            place.users += 1;
        }
        let layout = &self.superblock.layout;
        let length = entries.len() * ENTRY_BYTES;
        let padded = length.next_multiple_of(layout.block_bytes);
        let mut buffer = self.shared.buffers.take(padded);
        directory::encode(entries, &mut buffer[..length]);
        buffer[length..].fill(0);
        let sum = directory::sum(&buffer[..length], &self.superblock.salt, incarnation);
        let offset = layout.segment_offset(segment) + u64::from(unit) * UNIT_BYTES as u64;
        let written = self.device.write(offset, Arc::new(buffer)).await;
        let state = &mut *self.state.lock();
        let place = &mut state.segments[segment as usize];
        place.users -= 1;
        let is_retired = place.retired;
        if written.is_ok() {
            state.wear.wrote(padded as u64);
            add(&self.shared.counters.written_bytes, padded as u64);
        }
        if is_retired {
            Self::changed(state);
            return None;
        }
        if let Err(error) = written {
            add(&self.shared.counters.failed_writes, 1);
            self.failed(state, Call::Write, &error);
            self.condemn(state, segment, None);
            Self::changed(state);
            return None;
        }
        let count = entries.len() as u32;
        state.segments[segment as usize].status = Status::Sealed { unit, count, sum };
        Some(self.append(state, JournalEntry::Sealed { segment, unit, count, sum }))
    }
}

// A record's length in blocks is what reads ask for, so a block is not longer than a unit of the
// device.
const _: () = assert!(BLOCK_BYTES.is_multiple_of(UNIT_BYTES));
