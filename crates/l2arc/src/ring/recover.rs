use std::sync::Arc;

use super::Ring;
use super::state::{State, Status};
use crate::directory::DirectoryEntry;
use crate::index::Entry;
use crate::location::{Location, UNIT_BYTES};
use crate::record::{HEADER_BYTES, Header};
use crate::statistics::Condition;

/// Segments that are read in at a time.
const RECOVERERS: u32 = 4;
/// Length of a read of a segment that has no directory, bytes.
const WALK_BYTES: usize = 1 << 20;

impl Ring {
    /// Starts to read in what lies on the device, newest segments first.
    pub(crate) fn recover(self: &Arc<Self>) {
        let state = &mut *self.state.lock();
        state.recoverers = RECOVERERS;
        (0..RECOVERERS).for_each(|_| self.spawn(recover(self.clone())));
    }

    async fn recover_segment(self: &Arc<Self>, segment: u32) {
        if self.shared.index.charged_bytes() > self.shared.options.index_bytes_max {
            self.condemn(&mut self.state.lock(), segment, None);
            return;
        }
        if let Some(entries) = self.read_directory(segment).await {
            self.take_in(segment, &entries);
            return;
        }
        let (incarnation, retired) = {
            let state = &mut *self.state.lock();
            let place = &state.segments[segment as usize];
            let (incarnation, retired) = (place.incarnation, place.retired);
            if matches!(place.status, Status::Sealed { .. }) && !retired {
                let what = "the directory of a segment is damaged; what is left is searched for";
                self.note_damaged(state, segment, what);
            }
            (incarnation, retired)
        };
        if retired {
            return;
        }
        let (mut entries, end) = self.walk(segment, incarnation).await;
        entries.sort_unstable();
        if entries.is_empty() {
            self.condemn(&mut self.state.lock(), segment, None);
            return;
        }
        self.take_in(segment, &entries);
        // From now on the directory says what lies there: what the walk did not find is never
        // found again.
        let sealed = self.write_directory(segment, incarnation, end, &mut entries).await;
        if let Some(sealed) = sealed {
            // A journal that takes nothing voids the ring.
            let _ = self.durable(sealed).await;
        }
    }

    /// Finds the records of a segment without a directory by their headers. Where one is missing
    /// the search goes on at the next block, since a chunk begins with one. Returns the records
    /// and the unit behind the last, at the beginning of a block.
    async fn walk(&self, segment: u32, incarnation: u64) -> (Vec<DirectoryEntry>, u32) {
        let layout = &self.superblock.layout;
        let length = layout.segment_bytes as usize;
        let block = layout.block_bytes;
        let mut window = self.shared.buffers.take(0);
        let mut window_start = 0;
        let (mut at, mut end) = (0, 0);
        let mut entries = Vec::new();
        while at + HEADER_BYTES <= length {
            if at < window_start || at + HEADER_BYTES > window_start + window.len() {
                window_start = at / block * block;
                let bytes = WALK_BYTES.min(length - window_start);
                let offset = layout.segment_offset(segment) + window_start as u64;
                let buffer = self.shared.buffers.take(bytes);
                window = match self.device.read(offset, buffer).await {
                    Ok(buffer) => buffer,
                    // What cannot be read is not there.
                    Err(_) => {
                        at = window_start + bytes;
                        window_start = length;
                        window = Default::default();
                        continue;
                    }
                };
            }
            let unit = (at / UNIT_BYTES) as u32;
            let place = self.place(incarnation, segment, unit);
            let header = Header::decode(&window[at - window_start..], &place);
            let header = header.filter(|header| at + header.total_bytes() <= length);
            match header {
                Some(header) => {
                    entries.push(DirectoryEntry::new(&header, unit));
                    at += header.units() as usize * UNIT_BYTES;
                    end = at.next_multiple_of(block);
                }
                None => at = (at + 1).next_multiple_of(block),
            }
        }
        self.shared.buffers.give(window);
        // There was room for a directory of them all, so there is for one of some.
        (entries, (end / UNIT_BYTES) as u32)
    }

    /// Enters the records of a segment into the index, in order of their hashes, those that are
    /// not dead.
    ///
    /// The index is filled without the lock of the state, so that segments are taken in at the
    /// same time. A kill notes its hash first and looks into the index then; here it is the other
    /// way round, so one of the two finds the record. Until then a read looks at the notes.
    fn take_in(self: &Arc<Self>, segment: u32, entries: &[DirectoryEntry]) {
        let dead = {
            let state = &mut *self.state.lock();
            if state.segments[segment as usize].retired {
                return;
            }
            state.count(segment, entries);
            // What dies from here on is in the index, or is noted by its hash.
            state.segments[segment as usize].dead.clone()
        };
        let alive = || entries.iter().filter(|it| dead.binary_search(&it.unit).is_err());
        let mut others = Vec::new();
        let indexed = alive().map(|entry| (entry.hash, entry.indexed(self.id, segment)));
        self.shared.index.insert_sorted(indexed, |hash, mine, other| {
            others.push((hash, mine, other));
        });
        let state = &mut *self.state.lock();
        for (hash, mine, other) in others {
            self.settle_between(state, hash, mine, other);
        }
        if state.killed.is_empty() {
            return;
        }
        for entry in alive() {
            let location = entry.location(self.id, segment);
            if state.is_killed(entry.hash, segment)
                && self.shared.index.remove(entry.hash, location)
            {
                self.bury(state, location);
            }
        }
    }

    /// Of two copies of a record, as a crash leaves them when one was just written anew, keeps
    /// the newer.
    fn settle_between(self: &Arc<Self>, state: &mut State, hash: u64, mine: Entry, other: Entry) {
        let age = |location: Location| {
            (state.segments[location.segment as usize].incarnation, location.unit)
        };
        if mine.location == other.location {
            return;
        }
        let loser = if other.location.ring == self.id
            && age(other.location) < age(mine.location)
            && self.shared.index.update(hash, other.location, |it| *it = mine)
        {
            other.location
        } else {
            mine.location
        };
        self.bury(state, loser);
    }
}

/// Reads in segments until none is left; the last one to end ends the recovery.
async fn recover(ring: Arc<Ring>) {
    loop {
        let next = {
            let state = &mut *ring.state.lock();
            if state.condition == Condition::Works { state.recovery.pop() } else { None }
        };
        match next {
            Some(segment) => {
                let used = {
                    let place = &mut ring.state.lock().segments[segment as usize];
                    let used = place.status != Status::Free && !place.retired;
                    // Nobody sweeps it out of the index before all of it is there.
                    place.users += u32::from(used);
                    used
                };
                if used {
                    ring.recover_segment(segment).await;
                    let state = &mut *ring.state.lock();
                    state.segments[segment as usize].users -= 1;
                    Ring::changed(state);
                }
            }
            None => break,
        }
    }
    {
        let state = &mut *ring.state.lock();
        state.recoverers -= 1;
        if state.recoverers > 0 {
            return;
        }
    }
    // The deaths that were found must last before a kill relies on the index.
    let lasts = ring.kills_last().await;
    let state = &mut *ring.state.lock();
    // Where the pool was stopped before the end, the tombstones of what is not known stay.
    if lasts && state.condition == Condition::Works {
        state.recovering = false;
        state.killed.clear();
        // Of segments without a directory nobody knew how much they hold.
        ring.shared.index.fit();
        ring.empty_ahead(state);
    }
    Ring::changed(state);
}
