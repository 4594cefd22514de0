use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hashbrown::HashMap;
use storage::AlignedBuffer;

use crate::directory::DirectoryEntry;
use crate::health::Health;
use crate::journal::JournalEntry;
use crate::lanes::Lanes;
use crate::layout::Layout;
use crate::location::UNIT_BYTES;
use crate::statistics::Condition;
use crate::wear::Wear;

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Nothing.
    Free,
    /// It is being written, or was when the machine stopped.
    Open,
    /// It is complete: where its directory lies, and how many records that names.
    Sealed { unit: u32, count: u32, sum: u64 },
}

pub(super) struct Segment {
    pub(super) status: Status,
    /// Which writing of it this is; grows over all segments.
    pub(super) incarnation: u64,
    /// Units at which dead records begin.
    pub(super) dead: Vec<u32>,
    /// Records that were not as they had been written.
    pub(super) damaged: u32,
    /// Bytes of records with headers, by dataset.
    pub(super) tenants: Vec<(u16, u64)>,
    /// Writes to it that are under way, and tasks that are taking it in: as long as there are any
    /// it is not given to others.
    pub(super) users: u32,
    /// It is chosen to be emptied.
    pub(super) leaving: bool,
    /// Its death is in the journal.
    pub(super) retired: bool,
}

impl Segment {
    pub(super) fn free() -> Segment {
        Segment {
            status: Status::Free,
            incarnation: 0,
            dead: Vec::new(),
            damaged: 0,
            tenants: Vec::new(),
            users: 0,
            leaving: false,
            retired: false,
        }
    }
}

/// A segment that is being written.
pub(super) struct Writing {
    pub(super) segment: u32,
    /// The journal's position from which on writes may reach the segment.
    pub(super) opened: u64,
    /// Where the next chunk begins.
    pub(super) next_unit: u32,
    pub(super) entries: Vec<DirectoryEntry>,
}

/// A segment whose opening was written down ahead of its use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prepared {
    pub(super) segment: u32,
    /// As of [`Writing`].
    pub(super) opened: u64,
}

/// What is collected for one write.
pub(super) struct Chunk {
    pub(super) start_unit: u32,
    pub(super) buffer: AlignedBuffer,
    pub(super) filled: usize,
}

/// A chunk on its way to the device.
pub(super) struct Buffered {
    pub(super) segment: u32,
    pub(super) start_unit: u32,
    pub(super) buffer: Arc<AlignedBuffer>,
}

/// A chunk that no task has taken yet.
pub(super) struct Waiting {
    pub(super) segment: u32,
    pub(super) start_unit: u32,
    pub(super) buffer: Arc<AlignedBuffer>,
    /// As of [`Writing`].
    pub(super) opened: u64,
}

/// A place in the order in which a ring is written.
pub(super) type Position = (u64, u32);

pub(super) struct State {
    pub(super) segments: Vec<Segment>,
    /// The segment that is written next.
    pub(super) hand: u32,
    pub(super) next_incarnation: u64,
    pub(super) open: Option<Writing>,
    /// What is opened next.
    pub(super) prepared: Option<Prepared>,
    pub(super) chunk: Option<Chunk>,
    /// Chunks on their way: those under way at the device, and those that wait for a lane.
    pub(super) buffered: Vec<Buffered>,
    pub(super) waiting: VecDeque<Waiting>,
    /// Tasks that write chunks.
    pub(super) writers: usize,
    pub(super) lanes: Lanes,
    /// When the last chunk was written, or the device was added.
    pub(super) written_at: Duration,
    /// Chunks written since the start.
    pub(super) written_chunks: u64,
    /// Bytes of `chunk` and `buffered`.
    pub(super) buffered_bytes: usize,
    /// Segments whose directories are being written, or written and not yet in the journal.
    pub(super) sealing: u32,
    /// A task empties the segments before the hand.
    pub(super) emptying: bool,
    /// Records that segments name as dead.
    pub(super) dead: usize,
    /// Records of an object before a place are dead.
    pub(super) floors: HashMap<u64, Position>,
    /// Records with a hash are dead that are still to be read in.
    pub(super) killed: HashMap<u64, u64>,
    pub(super) recovering: bool,
    pub(super) recovery: Vec<u32>,
    pub(super) recoverers: u32,
    pub(super) condition: Condition,
    pub(super) renounced: bool,
    pub(super) trims: bool,
    pub(super) wear: Wear,
    pub(super) health: Health,
    pub(super) tenants: HashMap<u16, u64>,
    pub(super) life: u128,
    /// Seconds since 1970 when the clock stood at zero.
    pub(super) wall_offset_seconds: u64,
    pub(super) waiters: Vec<Waker>,
}

impl State {
    pub(super) fn used_segments(&self) -> u32 {
        self.segments.iter().filter(|segment| segment.status != Status::Free).count() as u32
    }

    /// How the device does, as others see it.
    pub(super) fn shown_condition(&self, now: Duration) -> Condition {
        match self.condition {
            Condition::Works if self.recovering => Condition::Recovering,
            Condition::Works if self.health.is_bypassed(now) => Condition::Bypassed,
            condition => condition,
        }
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        self.tenants.values().sum()
    }

    pub(super) fn tombstones(&self) -> usize {
        self.dead + self.floors.len() + self.killed.len()
    }

    /// Whether the device was filled once.
    pub(super) fn is_filled(&self) -> bool {
        self.next_incarnation > self.segments.len() as u64
    }

    /// Where the next record will lie.
    pub(super) fn position(&self) -> Position {
        let Some(writing) = &self.open else {
            let prepared = self.prepared.map(|it| self.segments[it.segment as usize].incarnation);
            return (prepared.unwrap_or(self.next_incarnation), 0);
        };
        let unit = match &self.chunk {
            Some(chunk) => chunk.start_unit + (chunk.filled / UNIT_BYTES) as u32,
            None => writing.next_unit,
        };
        (self.segments[writing.segment as usize].incarnation, unit)
    }

    /// Whether a record of `object` at this place has died with the object.
    pub(super) fn is_floored(&self, object: u64, segment: u32, unit: u32) -> bool {
        let incarnation = self.segments[segment as usize].incarnation;
        self.floors.get(&object).is_some_and(|floor| (incarnation, unit) < *floor)
    }

    /// Whether a record that is being read in was killed by its hash.
    pub(super) fn is_killed(&self, hash: u64, segment: u32) -> bool {
        let incarnation = self.segments[segment as usize].incarnation;
        self.killed.get(&hash).is_some_and(|before| incarnation < *before)
    }

    /// Counts records into their segment.
    pub(super) fn count(&mut self, segment: u32, entries: &[DirectoryEntry]) {
        let tenants = &mut self.segments[segment as usize].tenants;
        for same in entries.chunk_by(|one, next| one.tenant == next.tenant) {
            let bytes: u64 = same.iter().map(DirectoryEntry::bytes).sum();
            let tenant = same[0].tenant;
            match tenants.iter_mut().find(|(it, _)| *it == tenant) {
                Some((_, sum)) => *sum += bytes,
                None => tenants.push((tenant, bytes)),
            }
            *self.tenants.entry(tenant).or_default() += bytes;
        }
    }

    /// Makes a segment free, with all that was counted into it.
    pub(super) fn free(&mut self, segment: u32) {
        let freed = std::mem::replace(&mut self.segments[segment as usize], Segment::free());
        self.dead -= freed.dead.len();
        for (tenant, bytes) in freed.tenants {
            let sum = self.tenants.get_mut(&tenant).expect("it was counted");
            *sum -= bytes;
            if *sum == 0 {
                self.tenants.remove(&tenant);
            }
        }
        let oldest = self.segments.iter().filter(|segment| segment.status != Status::Free);
        let oldest = oldest.map(|segment| segment.incarnation).min();
        let oldest = oldest.unwrap_or(self.next_incarnation);
        self.floors.retain(|_, (incarnation, _)| *incarnation >= oldest);
    }

    /// All that the journal has to tell.
    pub(super) fn checkpoint(&self) -> Vec<JournalEntry> {
        let mut entries = Vec::new();
        for (number, segment) in (0..).zip(&self.segments) {
            if segment.status == Status::Free || segment.retired {
                continue;
            }
            let incarnation = segment.incarnation;
            entries.push(JournalEntry::Opened { segment: number, incarnation });
            if let Status::Sealed { unit, count, sum } = segment.status {
                entries.push(JournalEntry::Sealed { segment: number, unit, count, sum });
            }
            let dead = segment.dead.iter();
            entries.extend(dead.map(|unit| JournalEntry::Dead {
                segment: number,
                unit: *unit,
                incarnation,
            }));
        }
        let killed = self.killed.iter();
        entries.extend(
            killed.map(|(hash, before)| JournalEntry::Killed { hash: *hash, before: *before }),
        );
        let floors = self.floors.iter();
        entries.extend(floors.map(|(object, (incarnation, unit))| JournalEntry::ObjectKilled {
            object: *object,
            unit: *unit,
            incarnation: *incarnation,
        }));
        entries
    }

    /// Takes in what the journal tells. Entries that make no sense are left out.
    pub(super) fn replay(&mut self, entries: &[JournalEntry]) {
        for entry in entries {
            match *entry {
                JournalEntry::Opened { segment, incarnation } => {
                    if let Some(segment) = self.segments.get_mut(segment as usize) {
                        *segment = Segment::free();
                        segment.status = Status::Open;
                        segment.incarnation = incarnation;
                    }
                    let next = incarnation.saturating_add(1);
                    self.next_incarnation = self.next_incarnation.max(next);
                }
                JournalEntry::Sealed { segment, unit, count, sum } => {
                    let segment = self.segments.get_mut(segment as usize);
                    if let Some(segment) = segment.filter(|it| it.status != Status::Free) {
                        segment.status = Status::Sealed { unit, count, sum };
                    }
                }
                JournalEntry::Retired { segment } => {
                    if let Some(segment) = self.segments.get_mut(segment as usize) {
                        *segment = Segment::free();
                    }
                }
                JournalEntry::Dead { segment, unit, incarnation } => {
                    let segment = self.segments.get_mut(segment as usize);
                    let there = |it: &&mut Segment| {
                        it.status != Status::Free && it.incarnation == incarnation
                    };
                    if let Some(segment) = segment.filter(there) {
                        segment.dead.push(unit);
                    }
                }
                JournalEntry::Killed { hash, before } => {
                    self.killed.insert(hash, before);
                }
                JournalEntry::ObjectKilled { object, unit, incarnation } => {
                    let floor = self.floors.entry(object).or_insert((incarnation, unit));
                    *floor = (*floor).max((incarnation, unit));
                }
            }
        }
        for segment in &mut self.segments {
            segment.dead.sort_unstable();
            segment.dead.dedup();
        }
        self.dead = self.segments.iter().map(|segment| segment.dead.len()).sum();
        let newest = (0..).zip(&self.segments).filter(|(_, it)| it.status != Status::Free);
        let newest: Option<(u32, _)> = newest.max_by_key(|(_, segment)| segment.incarnation);
        self.hand = newest.map_or(0, |(at, _)| (at + 1) % self.segments.len() as u32);
    }

    /// RAM taken, bytes.
    pub(super) fn charged_bytes(&self) -> u64 {
        let entries = self.open.as_ref().map_or(0, |open| open.entries.capacity());
        let dead: usize = self.segments.iter().map(|segment| segment.dead.capacity()).sum();
        let tables = self.segments.capacity() * size_of::<Segment>()
            + entries * size_of::<DirectoryEntry>()
            + dead * size_of::<u32>()
            + self.floors.capacity() * 2 * size_of::<(u64, Position)>()
            + self.killed.capacity() * 2 * size_of::<(u64, u64)>();
        (tables + self.buffered_bytes) as u64
    }

    pub(super) fn validate(&self, layout: &Layout) {
        let mut sums: HashMap<u16, u64> = HashMap::new();
        for segment in &self.segments {
            for (tenant, bytes) in &segment.tenants {
                *sums.entry(*tenant).or_default() += bytes;
            }
            let free = segment.status == Status::Free;
            assert!(!free || segment.tenants.is_empty() && segment.dead.is_empty());
            assert!(segment.incarnation < self.next_incarnation, "incarnations grow");
        }
        let dead: usize = self.segments.iter().map(|segment| segment.dead.len()).sum();
        assert_eq!(dead, self.dead, "the dead are counted");
        assert_eq!(sums, self.tenants, "datasets are the sum of the segments");
        let chunk = self.chunk.as_ref().map_or(0, |chunk| chunk.buffer.capacity());
        let buffered: usize = self.buffered.iter().map(|it| it.buffer.capacity()).sum();
        assert_eq!(self.buffered_bytes, chunk + buffered, "buffers are counted");
        assert!(self.waiting.len() <= self.buffered.len(), "what waits is buffered");
        assert!(self.waiting.is_empty() || self.writers > 0, "what waits is waited for");
        self.lanes.validate();
        assert!(self.hand < layout.segments);
        let open: Vec<u32> = (0..)
            .zip(&self.segments)
            .filter(|(_, it)| it.status == Status::Open && !it.retired)
            .map(|(number, _)| number)
            .collect();
        if let Some(writing) = &self.open {
            assert!(open.contains(&writing.segment), "the open segment is open");
        }
        if let Some(prepared) = &self.prepared {
            let segment = &self.segments[prepared.segment as usize];
            assert!(open.contains(&prepared.segment), "the prepared segment is open");
            assert!(segment.tenants.is_empty() && segment.users == 0, "nothing is in it yet");
        }
    }
}
