use std::collections::VecDeque;

use super::parameters::TrackCache;

/// The segments, the one that was used last at the end.
#[derive(Debug)]
pub(super) struct Cache {
    segments: VecDeque<Segment>,
    segments_max: usize,
    segment_sectors: u64,
    read_ahead_sectors: u64,
}

/// Sectors that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    first: u64,
    end: u64,
}

/// How much of a read the cache has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// All of it.
    Whole,
    /// Its first sectors, or none, and what follows is read next: it ends the segment that was
    /// used last.
    Beginning,
    /// Nothing that helps.
    Nothing,
}

impl Cache {
    pub fn new(parameters: &TrackCache) -> Cache {
        Cache {
            segments: VecDeque::new(),
            segments_max: parameters.segments.get() as usize,
            segment_sectors: u64::from(parameters.segment_sectors.get()),
            read_ahead_sectors: parameters.read_ahead_sectors.map_or(0, |n| u64::from(n.get())),
        }
    }

    /// Looks for sectors, and makes the segment that has them the last used one.
    pub fn find(&mut self, first: u64, end: u64) -> Found {
        let whole = |segment: &Segment| segment.first <= first && end <= segment.end;
        if let Some(index) = self.segments.iter().position(whole) {
            // Reading on goes on in the segment that it fills.
            if index + 1 < self.segments.len() {
                let used = self.segments.remove(index).expect("it has just been found");
                let filling = self.segments.pop_back();
                self.segments.push_back(used);
                self.segments.extend(filling);
            }
            return Found::Whole;
        }
        match self.segments.back() {
            Some(last) if last.first <= first && first <= last.end => Found::Beginning,
            _ => Found::Nothing,
        }
    }

    /// A read fills a new segment.
    pub fn begin(&mut self, first: u64, end: u64) {
        self.segments.retain(|segment| segment.end <= first || end <= segment.first);
        while self.segments.len() >= self.segments_max {
            self.segments.pop_front();
        }
        self.segments.push_back(Segment { first: first.max(self.first_of(end)), end });
    }

    /// The segment that was used last goes up to `end`.
    pub fn extend(&mut self, end: u64) {
        let first = self.first_of(end);
        if let Some(last) = self.segments.back_mut() {
            last.end = last.end.max(end);
            last.first = last.first.max(first);
        }
    }

    /// Sectors were written, and are kept. A write that goes on where the last one ended goes
    /// into the same segment.
    pub fn write(&mut self, first: u64, end: u64) {
        match self.segments.back() {
            Some(last) if last.end == first => self.extend(end),
            _ => self.begin(first, end),
        }
    }

    /// How far is read on after a read up to `end`.
    pub fn limit(&self, end: u64) -> u64 {
        end + self.read_ahead_sectors
    }

    /// How many sectors before a read a segment has room for.
    pub fn room_before(&self) -> u64 {
        self.segment_sectors.saturating_sub(self.read_ahead_sectors)
    }

    /// The first sector that a segment can hold that goes up to `end`.
    fn first_of(&self, end: u64) -> u64 {
        end.saturating_sub(self.segment_sectors)
    }
}
