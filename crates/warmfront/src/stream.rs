use std::ops::Range;
use std::time::Duration;

/// Streams that one object can have at a time.
const STREAMS_MAX: usize = 8;
/// Accesses this far ahead of a stream still belong to it: they were reordered on their way.
const REORDER_BYTES_MAX: u64 = 16 << 20;
/// Ranges ahead of a stream that are remembered until the gap before them closes.
const AHEAD_RANGES_MAX: usize = 9;
/// A stream jumps over holes when it covers at least this many of every four bytes.
const COVERED_QUARTERS_MIN: u64 = 3;
/// The distance doubles up to here each time a window is used up; beyond, only when a read waited.
const RAMP_BYTES: u64 = 1 << 20;
/// A stream without an access for this long may be replaced.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// The sequential readers of one object.
///
/// Follows OpenZFS's `zfetch` in outline. A stream is a position and the distance to which it has
/// been prefetched. An access at the position, across it, or a little ahead of it belongs to the
/// stream; the position moves on when the bytes before it are complete, or nearly so. The distance
/// starts at the size of an access, doubles each time half of the prefetched window has been used,
/// and beyond a small ramp grows only if a read had to wait: a stream that never waits is deep
/// enough.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    /// What free-behind has let go of, as one range: to tell why it is not cached.
    let_go: Option<Range<u64>>,
}

#[derive(Debug)]
struct Stream {
    /// All before this has been read, but for tolerated holes.
    next: u64,
    /// Where the stream began.
    start: u64,
    /// All before this has been reported as left behind.
    released: u64,
    /// All before this has been prefetched.
    prefetched: u64,
    distance: u64,
    /// A read has had to wait since the distance was last reconsidered.
    waited: bool,
    /// Accesses ahead of `next`, sorted and disjoint.
    ahead: Vec<Range<u64>>,
    hits: u64,
    last_access: Duration,
}

/// What an access calls for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    /// Bytes to fetch before they are asked for.
    pub(crate) prefetch: Option<Range<u64>>,
    /// Bytes that a detected stream has left behind it.
    pub(crate) behind: Option<Range<u64>>,
}

impl Streams {
    /// Takes note of a demand read of `range`.
    ///
    /// `waited` says whether it had to wait for the origin; `distance_max` bounds how far ahead to
    /// prefetch, zero for not at all.
    pub(crate) fn access(
        &mut self,
        range: Range<u64>,
        waited: bool,
        distance_max: u64,
        now: Duration,
    ) -> Advice {
        let Some(index) = self.owner(&range) else {
            self.begin(range, now);
            return Advice::default();
        };
        let stream = &mut self.streams[index];
        stream.last_access = now;
        stream.waited |= waited;
        let before = stream.next;
        if !stream.advance(range.clone()) {
            return Advice::default();
        }
        stream.hits += 1;
        let behind = (stream.released < before).then_some(stream.released..before);
        stream.released = before;
        let prefetch = stream.extend(range.end - range.start, distance_max);
        let next = stream.next;
        // One that came here before has nothing left to do that this one does not.
        let twin = |(at, other): (usize, &Stream)| at != index && other.next == next;
        if let Some(at) = self.streams.iter().enumerate().position(twin) {
            self.streams.swap_remove(at);
        }
        Advice { prefetch, behind }
    }

    /// The stream that an access belongs to. The nearest: else one that has come to the end of the
    /// file would take the last reads of each that comes after it.
    fn owner(&self, range: &Range<u64>) -> Option<usize> {
        let owners = self.streams.iter().enumerate().filter(|(_, stream)| stream.owns(range));
        let nearest = owners.min_by_key(|(_, stream)| stream.next.abs_diff(range.start));
        nearest.map(|(index, _)| index)
    }

    /// Notes that what a stream left behind was let go.
    pub(crate) fn let_go(&mut self, behind: Range<u64>) {
        let known = self.let_go.clone().unwrap_or_else(|| behind.clone());
        self.let_go = Some(known.start.min(behind.start)..known.end.max(behind.end));
    }

    /// Whether the byte at `offset` lies among what was let go.
    pub(crate) fn has_let_go(&self, offset: u64) -> bool {
        self.let_go.as_ref().is_some_and(|range| range.contains(&offset))
    }

    /// Whether a stream that was prefetched for has come to `end` by itself.
    pub(crate) fn has_passed(&self, end: u64) -> bool {
        let has_passed = |stream: &Stream| {
            stream.start < end && (end..=stream.prefetched).contains(&stream.next)
        };
        self.streams.iter().any(has_passed)
    }

    /// Number of accesses that continued a stream, over the streams alive.
    #[cfg(test)]
    fn hits(&self) -> u64 {
        self.streams.iter().map(|stream| stream.hits).sum()
    }

    fn begin(&mut self, range: Range<u64>, now: Duration) {
        let stream = Stream {
            next: range.end,
            start: range.start,
            released: range.start,
            prefetched: range.end,
            distance: 0,
            waited: false,
            ahead: Vec::new(),
            hits: 0,
            last_access: now,
        };
        if self.streams.len() < STREAMS_MAX {
            self.streams.push(stream);
            return;
        }
        let victim = self
            .streams
            .iter_mut()
            .filter(|old| old.hits == 0 || now.saturating_sub(old.last_access) > IDLE_MAX)
            .min_by_key(|old| old.last_access);
        if let Some(victim) = victim {
            *victim = stream;
        }
    }
}

impl Stream {
    fn owns(&self, range: &Range<u64>) -> bool {
        let reach = if self.hits == 0 { self.next } else { self.next + REORDER_BYTES_MAX };
        let back = self.next.saturating_sub(REORDER_BYTES_MAX).max(self.start);
        range.start <= reach && range.start >= back
    }

    /// Takes the range in. Returns whether the position moved.
    fn advance(&mut self, range: Range<u64>) -> bool {
        let before = self.next;
        if range.end <= self.next {
            return false;
        }
        if range.start > self.next {
            self.remember(range);
        } else {
            self.next = range.end;
        }
        self.absorb();
        self.next > before
    }

    /// Keeps a range that arrived early.
    fn remember(&mut self, range: Range<u64>) {
        let at = self.ahead.partition_point(|other| other.end < range.start);
        let mut merged = range;
        while at < self.ahead.len() && self.ahead[at].start <= merged.end {
            let other = self.ahead.remove(at);
            merged = merged.start.min(other.start)..merged.end.max(other.end);
        }
        self.ahead.insert(at, merged);
        if self.ahead.len() > AHEAD_RANGES_MAX {
            self.ahead.pop();
        }
    }

    /// Moves on over the early ranges that now join, holes of up to a quarter included.
    fn absorb(&mut self) {
        self.ahead.retain(|range| range.end > self.next);
        let mut covered = 0;
        let mut reached = None;
        for (index, range) in self.ahead.iter().enumerate() {
            covered += range.end - range.start.max(self.next);
            let span = range.end - self.next;
            if range.start <= self.next || covered * 4 >= span * COVERED_QUARTERS_MIN {
                reached = Some((index, range.end));
            }
        }
        if let Some((index, end)) = reached {
            self.next = end;
            self.ahead.drain(..=index);
        }
    }

    /// Decides how far to prefetch now.
    fn extend(&mut self, access_bytes: u64, distance_max: u64) -> Option<Range<u64>> {
        if distance_max == 0 {
            return None;
        }
        self.prefetched = self.prefetched.max(self.next);
        if self.distance > 0 && self.prefetched - self.next > self.distance / 2 {
            return None;
        }
        if self.distance == 0 {
            self.distance = access_bytes.min(distance_max);
        } else if self.distance < RAMP_BYTES || self.waited {
            self.distance = (self.distance * 2).min(distance_max);
        }
        self.waited = false;
        let end = self.next.saturating_add(self.distance);
        let from = self.prefetched;
        self.prefetched = self.prefetched.max(end);
        (from < end).then_some(from..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    fn read(streams: &mut Streams, offset: u64, length: u64, waited: bool) -> Advice {
        streams.access(offset..offset + length, waited, 8 << 20, Duration::ZERO)
    }

    #[test]
    fn random_reads_prefetch_nothing() {
        let mut streams = Streams::default();
        for turn in 0..1000u64 {
            let offset = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << 40) / 4096 * 4096;
            assert_eq!(read(&mut streams, offset, 4 * K, true), Advice::default());
        }
        assert!(streams.streams.len() <= STREAMS_MAX);
    }

    #[test]
    fn a_stream_is_prefetched_further_and_further_without_gaps() {
        let mut streams = Streams::default();
        let mut prefetched = 128 * K;
        read(&mut streams, 0, 128 * K, true);
        for turn in 1..200 {
            if let Some(range) = read(&mut streams, turn * 128 * K, 128 * K, false).prefetch {
                assert_eq!(range.start, prefetched.max((turn + 1) * 128 * K));
                prefetched = range.end;
            }
            assert!(prefetched > (turn + 1) * 128 * K, "the stream stays ahead");
            assert!(prefetched - (turn + 1) * 128 * K <= RAMP_BYTES, "no read has waited");
        }
    }

    #[test]
    fn distance_passes_the_ramp_only_when_a_read_waits_and_keeps_to_its_bound() {
        let mut streams = Streams::default();
        let mut deepest = 0;
        for turn in 0..2000 {
            let next = (turn + 1) * 128 * K;
            if let Some(range) = read(&mut streams, turn * 128 * K, 128 * K, true).prefetch {
                deepest = deepest.max(range.end - next);
            }
        }
        assert_eq!(deepest, 8 << 20);
    }

    #[test]
    fn small_reads_of_one_stream_do_not_prefetch_each_time() {
        let mut streams = Streams::default();
        let issued = (0..2560)
            .filter(|turn| read(&mut streams, turn * 4 * K, 4 * K, false).prefetch.is_some())
            .count();
        assert!(issued < 60, "10 MiB in 4 KiB reads took {issued} prefetches");
    }

    #[test]
    fn reordered_reads_stay_one_stream() {
        let mut streams = Streams::default();
        for turn in [0u64, 1, 2, 4, 3, 6, 5, 8, 7, 9] {
            read(&mut streams, turn * 64 * K, 64 * K, true);
        }
        assert_eq!(streams.streams.len(), 1);
        assert_eq!(streams.streams[0].next, 10 * 64 * K);
        assert!(streams.streams[0].ahead.is_empty());
    }

    #[test]
    fn small_holes_are_jumped_over() {
        let mut streams = Streams::default();
        for turn in 0..66u64 {
            if turn % 8 != 5 {
                read(&mut streams, turn * 64 * K, 64 * K, true);
            }
        }
        assert_eq!(streams.streams.len(), 1);
        assert_eq!(streams.streams[0].next, 66 * 64 * K);
    }

    #[test]
    fn two_interleaved_streams_are_two() {
        let mut streams = Streams::default();
        for turn in 0..10u64 {
            read(&mut streams, turn * 64 * K, 64 * K, true);
            read(&mut streams, (1 << 30) + turn * 64 * K, 64 * K, true);
        }
        assert_eq!(streams.streams.len(), 2);
        assert_eq!(streams.hits(), 18);
    }

    #[test]
    fn each_pass_over_a_file_is_prefetched_to_its_end() {
        let (mut streams, bytes) = (Streams::default(), 64 << 20);
        for pass in 0..20 {
            let mut prefetched = 0;
            for offset in (0..bytes).step_by(128 << 10) {
                if let Some(range) = read(&mut streams, offset, 128 * K, false).prefetch {
                    prefetched = range.end;
                }
            }
            assert!(prefetched >= bytes, "pass {pass}: no more than {prefetched} of {bytes} bytes");
            assert_eq!(streams.streams.len(), 1, "after pass {pass}");
        }
    }

    #[test]
    fn a_stream_tells_what_it_left_behind_once() {
        let mut streams = Streams::default();
        let mut behind = Vec::new();
        for turn in 0..10u64 {
            behind.extend(read(&mut streams, turn * 64 * K, 64 * K, true).behind);
        }
        assert_eq!(behind.first().expect("a stream").start, 0);
        assert!(behind.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(behind.last().expect("a stream").end, 9 * 64 * K);
    }

    #[test]
    fn nothing_is_prefetched_with_a_distance_of_zero() {
        let mut streams = Streams::default();
        for turn in 0..100 {
            let range = turn * 64 * K..(turn + 1) * 64 * K;
            assert_eq!(streams.access(range, true, 0, Duration::ZERO).prefetch, None);
        }
    }
}
