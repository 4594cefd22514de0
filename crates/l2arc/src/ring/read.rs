use std::sync::Arc;
use std::time::Duration;

use super::Ring;
use super::state::{State, Status};
use crate::health::{Asking, Call, Share};
use crate::index::{BLOCK_BYTES, Entry, HEAT_MAX};
use crate::key::Key;
use crate::location::UNIT_BYTES;
use crate::record::{HEADER_BYTES, Header, Place, payload_sum};
use crate::refused::Miss;
use crate::statistics::{Condition, add};
use storage::{AlignedBuffer, DeviceError};

/// Damaged records of a segment after which it is retired.
const DAMAGED_MAX: u32 = 4;

/// A record's bytes as they lie on flash, perhaps with others before and behind.
pub(super) struct RawRecord {
    buffer: AlignedBuffer,
    start: usize,
    pub(super) place: Place,
}

impl RawRecord {
    /// The header and what is stored, if they are as they were written.
    pub(super) fn verify(&self) -> Option<(Header, &[u8])> {
        let bytes = self.buffer.get(self.start..)?;
        let header = Header::decode(bytes, &self.place)?;
        let stored = bytes.get(HEADER_BYTES..header.total_bytes())?;
        let whole = payload_sum(stored) == header.payload_sum || cfg!(fuzzing);
        whole.then_some((header, stored))
    }
}

/// How a record is to be got.
enum Source {
    /// It is in RAM still.
    Buffered(RawRecord),
    /// From the device; the incarnation of its segment.
    Device(u64),
}

impl Ring {
    /// Reads the record of `key`, which the index has at `entry`, into the beginning of `into`.
    /// Returns its length.
    pub(crate) async fn read(
        self: &Arc<Self>,
        key: &Key,
        hash: u64,
        entry: Entry,
        into: &mut [u8],
        origin: Option<Duration>,
    ) -> Result<usize, Miss> {
        let began = self.now();
        let location = entry.location;
        let source = {
            let state = &mut *self.state.lock();
            let segment = &state.segments[location.segment as usize];
            if state.condition != Condition::Works && state.condition != Condition::Stopped
                || segment.retired
                || state.is_floored(key.object, location.segment, location.unit)
                || state.is_killed(hash, location.segment)
            {
                return Err(Miss::Dead);
            }
            match self.buffered(state, entry) {
                Some(record) => Source::Buffered(record),
                None => Source::Device(self.ask(state, entry, (origin, 0), began)?),
            }
        };
        let raw = match source {
            Source::Buffered(record) => Ok(record),
            Source::Device(incarnation) => {
                let reading = self.shared.buffers.reading(entry.blocks as usize * BLOCK_BYTES);
                let _reading = reading.ok_or(Miss::Busy)?;
                self.read_timed(entry, incarnation, began, false).await.map(|(raw, _)| raw)
            }
        };
        let raw = raw.map_err(|error| {
            tracing::debug!(device = self.device.info().name, %error, "a read failed");
            add(&self.shared.counters.failed_reads, 1);
            Miss::Failed
        })?;
        let contents = self.contents(key, &raw, into);
        self.shared.buffers.give(raw.buffer);
        let there = self.shared.index.update(hash, location, |it| {
            if contents.is_ok() {
                it.heat = (it.heat + 1).min(HEAT_MAX);
            } else if contents == Err(Miss::Damaged) {
                it.bad = true;
            }
        });
        match contents {
            // It was overwritten, or died, while it was read.
            _ if !there => Err(Miss::Gone),
            Err(Miss::Damaged) => {
                add(&self.shared.counters.damaged, 1);
                self.damaged(location.segment);
                Err(Miss::Damaged)
            }
            contents => contents,
        }
    }

    /// Takes note of a damaged record. Where there are many the others of its segment are not worth
    /// finding out one by one: the segment is retired, and written anew when its turn comes.
    fn damaged(self: &Arc<Self>, segment: u32) {
        let now = self.now();
        let state = &mut *self.state.lock();
        state.health.damaged(now);
        let place = &mut state.segments[segment as usize];
        if place.status == Status::Free || place.retired {
            return;
        }
        place.damaged += 1;
        if place.damaged >= DAMAGED_MAX {
            self.note_damaged(state, segment, "a segment has many damaged records; it is dropped");
            self.condemn(state, segment, None);
        }
    }

    /// Takes note of a damaged segment.
    pub(super) fn note_damaged(&self, state: &mut State, segment: u32, what: &str) {
        tracing::warn!(device = self.device.info().name, segment, "{what}");
        add(&self.shared.counters.damaged_segments, 1);
        state.health.damaged_segments += 1;
    }

    /// Why not to come with a read of `entry` now, if it is not in RAM: the device is left alone,
    /// or slower than the `origin`, where so many others come with it.
    pub(crate) fn shunned(
        self: &Arc<Self>,
        entry: Entry,
        origin: Option<Duration>,
        others: u32,
    ) -> Option<Miss> {
        let now = self.now();
        self.ask(&mut self.state.lock(), entry, (origin, others), now).err()
    }

    /// Whether it is worth its while to ask the device for a share of the records that a caller
    /// wants, of which `entry` is one, when the `origin` has to be asked for others.
    pub(crate) fn is_worth_it(
        self: &Arc<Self>,
        entry: Entry,
        origin: Duration,
        share: Share,
    ) -> bool {
        let now = self.now();
        let state = &mut *self.state.lock();
        let is_writing = self.is_writing(state);
        match state.health.is_worth_it(origin, share, is_writing, now) {
            Asking::Yes => return true,
            Asking::No => {}
            Asking::Probe => self.look(state, entry),
        }
        false
    }

    /// Sees how the device does, with nobody waiting.
    fn look(self: &Arc<Self>, state: &State, entry: Entry) {
        let incarnation = state.segments[entry.location.segment as usize].incarnation;
        self.spawn(probe(self.clone(), entry, incarnation));
    }

    /// Whether to ask the device, when the `origin` takes so long. If it may be asked again soon,
    /// somebody who does not wait looks. Returns the incarnation of the record's segment.
    fn ask(
        self: &Arc<Self>,
        state: &mut State,
        entry: Entry,
        (origin, others): (Option<Duration>, u32),
        now: Duration,
    ) -> Result<u64, Miss> {
        if state.health.is_spared(Call::Read, now) {
            return Err(Miss::Bypassed);
        }
        let incarnation = state.segments[entry.location.segment as usize].incarnation;
        match state.health.asking(origin, others, self.is_writing(state), now) {
            Asking::Yes => return Ok(incarnation),
            Asking::No => {}
            Asking::Probe => self.look(state, entry),
        }
        Err(Miss::Slower)
    }

    /// A record that is not written yet.
    fn buffered(&self, state: &State, entry: Entry) -> Option<RawRecord> {
        let location = entry.location;
        let within = |start: u32, bytes: &[u8]| {
            let start = start as usize * UNIT_BYTES;
            let (extent, at) = entry.extent();
            let (at, end) =
                (at.checked_sub(start)?, extent.end.saturating_sub(start).min(bytes.len()));
            (at < end).then(|| {
                let mut buffer = self.shared.buffers.take(end - at);
                buffer.copy_from_slice(&bytes[at..end]);
                buffer
            })
        };
        let open = state.open.as_ref().filter(|open| open.segment == location.segment);
        let chunk = open.and(state.chunk.as_ref());
        let buffer =
            chunk.and_then(|it| within(it.start_unit, &it.buffer[..it.filled])).or_else(|| {
                let closed = state.buffered.iter().filter(|it| it.segment == location.segment);
                closed.filter_map(|it| within(it.start_unit, &it.buffer)).next()
            })?;
        let incarnation = state.segments[location.segment as usize].incarnation;
        let place = self.place(incarnation, location.segment, location.unit);
        Some(RawRecord { buffer, start: 0, place })
    }

    /// Reads the blocks in which a record lies, and notes how the device did. Returns how long it
    /// took as well.
    async fn read_timed(
        &self,
        entry: Entry,
        incarnation: u64,
        began: Duration,
        is_probe: bool,
    ) -> Result<(RawRecord, Duration), DeviceError> {
        let timed = Timed::begin(self, began);
        let raw = self.read_raw(entry, incarnation).await;
        let now = self.now();
        let elapsed = now.saturating_sub(began);
        let length = raw.as_ref().map_or(0, |raw| raw.buffer.len() as u64);
        let Timed { before, was_writing, .. } = timed;
        timed.end();
        let state = &mut *self.state.lock();
        let is_writing = was_writing || self.is_writing(state);
        state.health.rate.ended(length, now);
        match raw {
            Ok(raw) => {
                state.health.answered(elapsed, before, is_probe, is_writing);
                self.worked(state, Call::Read);
                Ok((raw, elapsed))
            }
            Err(error) => {
                self.failed(state, Call::Read, &error);
                Err(error)
            }
        }
    }

    /// Reads the blocks in which a record lies.
    pub(super) async fn read_raw(
        &self,
        entry: Entry,
        incarnation: u64,
    ) -> Result<RawRecord, DeviceError> {
        let layout = &self.superblock.layout;
        let (segment, unit) = (entry.location.segment, entry.location.unit);
        let (extent, at) = entry.extent();
        let from = extent.start / layout.block_bytes * layout.block_bytes;
        let to = extent.end.next_multiple_of(layout.block_bytes);
        let to = to.min(layout.segment_bytes as usize);
        let buffer = self.shared.buffers.take(to.saturating_sub(from));
        let offset = layout.segment_offset(segment) + from as u64;
        let buffer = self.device.read(offset, buffer).await?;
        Ok(RawRecord { buffer, start: at - from, place: self.place(incarnation, segment, unit) })
    }

    /// Takes the contents of a record out of what was read.
    fn contents(&self, key: &Key, raw: &RawRecord, into: &mut [u8]) -> Result<usize, Miss> {
        let (header, stored) = raw.verify().ok_or(Miss::Damaged)?;
        if header.key != *key {
            return Err(Miss::Other);
        }
        let length = header.plain_bytes as usize;
        let into = into.get_mut(..length).ok_or(Miss::TooLong)?;
        let filled = match header.nonce {
            None => header.compression.decompress(stored, into),
            Some(nonce) => {
                let cipher = self.shared.options.cipher.as_ref().ok_or(Miss::Damaged)?;
                let mut stored = stored.to_vec();
                let plain = cipher.decrypt(nonce, &self.superblock.salt, &mut stored);
                plain.is_some_and(|plain| header.compression.decompress(plain, into))
            }
        };
        if filled { Ok(length) } else { Err(Miss::Damaged) }
    }
}

/// A read of the device that counts as under way until it ends, or nobody waits for it any more.
struct Timed<'a> {
    ring: Option<&'a Ring>,
    /// Others that were under way when it began.
    before: u32,
    was_writing: bool,
}

impl<'a> Timed<'a> {
    fn begin(ring: &'a Ring, now: Duration) -> Timed<'a> {
        let state = &mut *ring.state.lock();
        let before = state.health.rate.under_way();
        state.health.rate.began(now);
        Timed { ring: Some(ring), before, was_writing: ring.is_writing(state) }
    }

    /// The caller tells how it ended.
    fn end(mut self) {
        self.ring = None;
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if let Some(ring) = self.ring {
            let now = ring.now();
            ring.state.lock().health.rate.ended(0, now);
        }
    }
}

/// Sees how long a device takes, with nobody waiting for what it reads.
async fn probe(ring: Arc<Ring>, entry: Entry, incarnation: u64) {
    let mut elapsed = None;
    if let Some(_reading) = ring.shared.buffers.reading(entry.blocks as usize * BLOCK_BYTES)
        && let Ok((raw, took)) = ring.read_timed(entry, incarnation, ring.now(), true).await
    {
        ring.shared.buffers.give(raw.buffer);
        elapsed = Some(took);
    }
    let now = ring.now();
    ring.state.lock().health.probed(elapsed, now);
}
