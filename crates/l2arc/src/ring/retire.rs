use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::read::RawRecord;
use super::state::{State, Status};
use super::{Incoming, Ring};
use crate::directory::{self, DirectoryEntry, ENTRY_BYTES};
use crate::index::Entry;
use crate::journal::JournalEntry;
use crate::key::Key;
use crate::location::{Location, UNIT_BYTES};
use crate::refused::Refused;
use crate::statistics::{Condition, add};

/// Segments that are empty before the hand reaches them.
const EMPTY_AHEAD: u32 = 3;
/// Reads under way when records are written anew.
const MOVES_AT_A_TIME: usize = 8;
/// The share of a segment that is written anew at most: one in so many bytes.
const SECOND_LIFE_SHARE: u64 = 2;

/// Why a record is written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It was hit.
    Hot,
    /// Its dataset has no more than its reserve.
    Reserved,
}

impl Ring {
    /// Kills the record of `key`, if the index has it here. Says whether it had.
    pub(crate) fn kill(self: &Arc<Self>, hash: u64, location: Location) -> bool {
        let state = &mut *self.state.lock();
        if !self.shared.index.remove(hash, location) {
            return false;
        }
        self.bury(state, location);
        true
    }

    /// Kills the record with this hash among those that are still to be read in.
    pub(crate) fn kill_unknown(self: &Arc<Self>, hash: u64) {
        let state = &mut *self.state.lock();
        if !state.recovering || state.condition == Condition::Void {
            return;
        }
        if self.is_out_of_tombstones(state) {
            self.condemn_all(state);
            return;
        }
        let before = state.next_incarnation;
        state.killed.insert(hash, before);
        self.append(state, JournalEntry::Killed { hash, before });
    }

    /// Kills all records of an object.
    pub(crate) fn kill_object(self: &Arc<Self>, object: u64) {
        let state = &mut *self.state.lock();
        if state.condition == Condition::Void {
            return;
        }
        if self.is_out_of_tombstones(state) {
            self.condemn_all(state);
            return;
        }
        let (incarnation, unit) = state.position();
        state.floors.insert(object, (incarnation, unit));
        self.append(state, JournalEntry::ObjectKilled { object, unit, incarnation });
    }

    /// Takes a record out of the index that is no longer served. Says whether it was such a one.
    pub(crate) fn clear_dead(self: &Arc<Self>, key: &Key, hash: u64, entry: Entry) -> bool {
        let state = &mut *self.state.lock();
        let location = entry.location;
        let dead = entry.bad
            || state.is_floored(key.object, location.segment, location.unit)
            || state.segments[location.segment as usize].retired;
        if dead && self.shared.index.remove(hash, location) {
            self.bury(state, location);
        }
        dead
    }

    /// Waits until all deaths so far last.
    pub(crate) async fn kills_last(self: &Arc<Self>) -> bool {
        // Under the lock under which records leave the index: what has left has been appended.
        let appended = {
            let _state = self.state.lock();
            self.journal.lock().appended
        };
        self.durable(appended).await.is_ok()
    }

    /// Lets all that the device holds die.
    pub(crate) fn forget(self: &Arc<Self>) {
        self.condemn_all(&mut self.state.lock());
    }

    fn condemn_all(self: &Arc<Self>, state: &mut State) {
        tracing::warn!(device = self.device.info().name, "all that the cache device holds is void");
        for segment in 0..self.superblock.layout.segments {
            if state.segments[segment as usize].status != Status::Free {
                self.condemn(state, segment, None);
            }
        }
        state.recovery.clear();
        state.killed.clear();
        state.floors.clear();
    }

    /// Writes down that the record at a place has died. It has left the index already.
    pub(super) fn bury(self: &Arc<Self>, state: &mut State, place: Location) {
        let segment = &state.segments[place.segment as usize];
        let incarnation = segment.incarnation;
        if segment.status == Status::Free || segment.retired {
            return;
        }
        if self.is_out_of_tombstones(state) {
            // The whole of the segment takes none.
            self.condemn(state, place.segment, None);
            return;
        }
        state.segments[place.segment as usize].dead.push(place.unit);
        state.dead += 1;
        let (segment, unit) = (place.segment, place.unit);
        self.append(state, JournalEntry::Dead { segment, unit, incarnation });
    }

    /// Whether the journal has no room for another tombstone.
    pub(super) fn is_out_of_tombstones(&self, state: &State) -> bool {
        state.tombstones() >= self.superblock.layout.tombstones_max()
    }

    /// Lets all that a segment holds die, and empties it. `entries` is its directory, if known.
    pub(super) fn condemn(
        self: &Arc<Self>,
        state: &mut State,
        segment: u32,
        entries: Option<Vec<DirectoryEntry>>,
    ) {
        if state.segments[segment as usize].retired {
            return;
        }
        if state.open.as_ref().is_some_and(|open| open.segment == segment) {
            state.open = None;
            if let Some(chunk) = state.chunk.take() {
                state.buffered_bytes -= chunk.buffer.capacity();
            }
        }
        state.prepared = state.prepared.filter(|prepared| prepared.segment != segment);
        let place = &mut state.segments[segment as usize];
        place.retired = true;
        let dead = std::mem::take(&mut place.dead);
        state.dead -= dead.len();
        let retired = self.append(state, JournalEntry::Retired { segment });
        self.spawn(empty(self.clone(), segment, retired, entries));
    }

    /// Starts the task that empties the segments before the hand.
    pub(super) fn empty_ahead(self: &Arc<Self>, state: &mut State) {
        if !state.emptying && self.next_to_empty(state).is_some() {
            state.emptying = true;
            self.spawn(empty_ahead(self.clone()));
        }
    }

    /// How many segments are to be empty before the hand.
    pub(super) fn ahead(&self) -> u32 {
        EMPTY_AHEAD.min(self.superblock.layout.segments / 4)
    }

    /// The segments in the order in which the hand reaches them.
    pub(super) fn before_hand(&self, state: &State) -> impl Iterator<Item = u32> + use<> {
        let (hand, segments) = (state.hand, self.superblock.layout.segments);
        (0..segments).map(move |step| (hand + step) % segments)
    }

    /// The first segment before the hand that holds something.
    fn next_to_empty(&self, state: &State) -> Option<u32> {
        self.before_hand(state).take(self.ahead() as usize).find(|segment| {
            let place = &state.segments[*segment as usize];
            matches!(place.status, Status::Sealed { .. }) && !place.leaving && !place.retired
        })
    }

    /// Reads the directory of a sealed segment, if it is as it was written.
    pub(super) async fn read_directory(&self, segment: u32) -> Option<Vec<DirectoryEntry>> {
        let (status, incarnation) = {
            let state = self.state.lock();
            let place = &state.segments[segment as usize];
            (place.status, place.incarnation)
        };
        let Status::Sealed { unit, count, sum } = status else { return None };
        let layout = &self.superblock.layout;
        let length = count as usize * ENTRY_BYTES;
        let start = unit as usize * UNIT_BYTES;
        let padded = length.next_multiple_of(layout.block_bytes);
        if (start + padded) as u64 > layout.segment_bytes
            || !start.is_multiple_of(layout.block_bytes)
        {
            return None;
        }
        let offset = layout.segment_offset(segment) + start as u64;
        let buffer = self.device.read(offset, self.shared.buffers.take(padded)).await.ok()?;
        let bytes = &buffer[..length];
        let found = directory::sum(bytes, &self.superblock.salt, incarnation);
        let whole = found == sum || cfg!(fuzzing);
        let entries = whole.then(|| directory::decode(bytes).collect());
        self.shared.buffers.give(buffer);
        entries
    }

    /// Writes anew what was hit of a segment, and what its datasets would be short of.
    async fn second_life(self: &Arc<Self>, segment: u32, entries: &[DirectoryEntry]) {
        let incarnation = self.state.lock().segments[segment as usize].incarnation;
        let chosen = self.choose(segment, entries);
        let mut records =
            stream::iter(chosen)
                .map(|(entry, life)| async move {
                    (entry, life, self.read_raw(entry, incarnation).await)
                })
                .buffered(MOVES_AT_A_TIME);
        while let Some((entry, life, record)) = records.next().await {
            let Ok(record) = record else { continue };
            let counters = &self.shared.counters;
            match self.move_in_time(entry, &record).await {
                Ok(()) if life == Life::Hot => add(&counters.second_lives, 1),
                Ok(()) => add(&counters.reserved_lives, 1),
                Err(Refused::Killed) => {}
                // The ones that follow would fare no better.
                Err(_) => return,
            }
        }
    }

    /// Which records of a segment are written anew: those that were hit, up to a share of it, then
    /// as many others of each dataset as it would be short of without them.
    fn choose(&self, segment: u32, entries: &[DirectoryEntry]) -> Vec<(Entry, Life)> {
        let mut owed = self.owed(segment);
        let mut left = match self.shared.options.second_life {
            true => self.superblock.layout.segment_bytes / SECOND_LIFE_SHARE,
            false => 0,
        };
        if left == 0 && owed.is_empty() {
            return Vec::new();
        }
        let mut pay = |entry: &DirectoryEntry| {
            let debt = owed.iter_mut().find(|(tenant, _)| *tenant == entry.tenant);
            debt.is_some_and(|(_, debt)| {
                let owes = *debt > 0;
                *debt = debt.saturating_sub(entry.bytes());
                owes
            })
        };
        let mut chosen = Vec::new();
        let mut cold = Vec::new();
        for entry in entries {
            let Some(indexed) = self.shared.index.get(entry.hash) else { continue };
            if indexed.location != entry.location(self.id, segment) || indexed.bad {
                continue;
            }
            match left.checked_sub(entry.bytes()) {
                Some(rest) if indexed.heat > 0 => {
                    left = rest;
                    pay(entry);
                    chosen.push((indexed, Life::Hot));
                }
                _ => cold.push((entry, indexed)),
            }
        }
        let reserved = cold.into_iter().filter(|(entry, _)| pay(entry));
        chosen.extend(reserved.map(|(_, indexed)| (indexed, Life::Reserved)));
        chosen
    }

    /// How many bytes each dataset would be short of its reserve without a segment.
    fn owed(&self, segment: u32) -> Vec<(u16, u64)> {
        let reserves = &self.shared.reserves;
        if !reserves.any() {
            return Vec::new();
        }
        let state = self.state.lock();
        let here = state.segments[segment as usize].tenants.iter();
        let owed = here.map(|(tenant, bytes)| {
            let elsewhere = state.tenants.get(tenant).map_or(0, |held| held - bytes);
            (*tenant, reserves.of(*tenant, self.data_bytes()).saturating_sub(elsewhere))
        });
        owed.filter(|(_, debt)| *debt > 0).collect()
    }

    /// Writes a record anew once there is a buffer for it.
    async fn move_in_time(
        self: &Arc<Self>,
        entry: Entry,
        record: &RawRecord,
    ) -> Result<(), Refused> {
        loop {
            match self.move_record(entry, record) {
                // Every write that ends leaves room, and those that come in leave one buffer.
                Err(Refused::Buffers) => {}
                moved => return moved,
            }
            let before = self.state.lock().written_chunks;
            self.until(|state| {
                state.written_chunks != before
                    || state.buffered.is_empty()
                    || state.condition != Condition::Works
            })
            .await;
            if self.state.lock().buffered.is_empty() {
                return self.move_record(entry, record);
            }
        }
    }

    fn move_record(self: &Arc<Self>, entry: Entry, record: &RawRecord) -> Result<(), Refused> {
        let Some((mut header, stored)) = record.verify() else { return Err(Refused::Killed) };
        self.may_admit(header.total_bytes() as u64, false)?;
        let incoming = Incoming::Moved(entry.location);
        let (Some(nonce), Some(cipher)) = (header.nonce, &self.shared.options.cipher) else {
            return self.place_record(&header, stored, incoming);
        };
        let mut stored = stored.to_vec();
        let salt = &self.superblock.salt;
        let Some(plain) = cipher.decrypt(nonce, salt, &mut stored) else {
            return Err(Refused::Killed);
        };
        let mut plain = plain.to_vec();
        let nonce = self.nonce();
        cipher.encrypt(nonce, salt, &mut plain);
        header.nonce = Some(nonce);
        header.payload_sum = crate::record::payload_sum(&plain);
        self.place_record(&header, &plain, incoming)
    }
}

/// Empties the segments before the hand, one after the other.
async fn empty_ahead(ring: Arc<Ring>) {
    loop {
        let (segment, incarnation) = {
            let state = &mut *ring.state.lock();
            let next = ring.next_to_empty(state).filter(|_| state.condition == Condition::Works);
            let Some(segment) = next else {
                state.emptying = false;
                Ring::changed(state);
                return;
            };
            let place = &mut state.segments[segment as usize];
            place.leaving = true;
            (segment, place.incarnation)
        };
        let entries = ring.read_directory(segment).await;
        if let Some(entries) = &entries {
            ring.second_life(segment, entries).await;
        }
        add(&ring.shared.counters.evicted_segments, 1);
        ring.condemn(&mut ring.state.lock(), segment, entries);
        ring.until(|state| {
            state.segments[segment as usize].incarnation != incarnation
                || state.condition != Condition::Works
        })
        .await;
    }
}

/// Takes what a retired segment held out of the index and makes the segment free.
async fn empty(ring: Arc<Ring>, segment: u32, retired: u64, entries: Option<Vec<DirectoryEntry>>) {
    // What is written to it now is not read any more, but would be taken for what follows.
    ring.until(|state| state.segments[segment as usize].users == 0).await;
    if ring.durable(retired).await.is_err() {
        return;
    }
    let index = &ring.shared.index;
    match entries {
        Some(entries) => {
            for entry in &entries {
                index.remove(entry.hash, entry.location(ring.id, segment));
            }
        }
        None => index
            .retain(|entry| (entry.location.ring, entry.location.segment) != (ring.id, segment)),
    }
    if ring.state.lock().trims {
        let layout = &ring.superblock.layout;
        let offset = layout.segment_offset(segment);
        match ring.device.discard(offset, layout.segment_bytes).await {
            Ok(()) => add(&ring.shared.counters.trimmed_bytes, layout.segment_bytes),
            Err(error) => {
                let device = &ring.device.info().name;
                tracing::info!(device, %error, "the cache device takes no hints of unused space");
                ring.state.lock().trims = false;
            }
        }
    }
    let state = &mut *ring.state.lock();
    state.free(segment);
    Ring::changed(state);
}
