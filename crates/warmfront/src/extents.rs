use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use crate::chunk::Chunk;

/// Bytes of one file that are newer than what the origin is known to keep.
///
/// Pieces never overlap. A piece stays after it has been written to the origin until its txg is
/// committed: until then an fsync may have to log it.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// By the offset of the first byte.
    pieces: BTreeMap<u64, Piece>,
    /// Offsets of the pieces that no log has.
    unlogged: BTreeSet<u64>,
    /// The sum of their lengths.
    unlogged_bytes: u64,
}

/// Some bytes in a row that came with one write.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    chunk: Arc<Chunk>,
    /// Which bytes of the chunk these are.
    part: Range<usize>,
    /// The transaction group that takes them to the origin.
    txg: u64,
    state: PieceState,
    logged: bool,
    /// A log has these bytes, or some that they have replaced and the origin may not keep: after a
    /// crash the file must have something as new.
    promised: bool,
}

/// Where the bytes of a piece are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceState {
    /// Only here.
    Dirty,
    /// On their way to the origin.
    Writing,
    /// At the origin, which may not keep them yet.
    Written,
}

/// Neighbouring pieces that go to the origin in one call.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pieces: Vec<Piece>,
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.chunk.bytes()[self.part.clone()]
    }

    fn len(&self) -> u64 {
        (self.part.end - self.part.start) as u64
    }

    /// The bytes of the piece that begins at `start` which lie in `range`.
    fn cut(&self, start: u64, range: Range<u64>) -> Piece {
        let from = self.part.start + (range.start - start) as usize;
        let to = self.part.start + (range.end - start) as usize;
        Piece { part: from..to, ..self.clone() }
    }
}

impl Run {
    pub(crate) fn len(&self) -> u64 {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// The bytes, piece by piece.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        self.pieces.iter().map(|piece| IoSlice::new(piece.bytes())).collect()
    }
}

impl Extents {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn put(&mut self, start: u64, piece: Piece) {
        if !piece.logged {
            self.unlogged_bytes += piece.len();
            self.unlogged.insert(start);
        }
        let before = self.pieces.insert(start, piece);
        assert!(before.is_none(), "pieces do not overlap");
    }

    fn take(&mut self, start: u64) -> Piece {
        let piece = self.pieces.remove(&start).expect("it was found");
        if !piece.logged {
            self.unlogged_bytes -= piece.len();
            self.unlogged.remove(&start);
        }
        piece
    }

    /// Pieces that have a byte in `range`, with their offsets.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &Piece)> {
        let first = self.pieces.range(..=range.start).next_back();
        let from = first
            .filter(|(start, piece)| **start + piece.len() > range.start)
            .map_or(range.start, |(start, _)| *start);
        self.pieces.range(from..range.end.max(from)).map(|(start, piece)| (*start, piece))
    }

    /// Puts what was written in the open `txg` over what is there.
    ///
    /// What replaces bytes that an older txg has yet to take goes with that txg: when it is
    /// committed, their log records are released, so something as new must be at the origin.
    pub(crate) fn insert(&mut self, offset: u64, chunk: Arc<Chunk>, txg: u64) {
        let part = 0..chunk.bytes().len();
        let range = offset..offset + part.end as u64;
        if range.is_empty() {
            return;
        }
        let (mut txg, mut promised) = (txg, false);
        for (_, replaced) in self.overlapping(&range) {
            if replaced.state == PieceState::Dirty {
                txg = txg.min(replaced.txg);
            }
            promised |= replaced.promised;
        }
        self.remove(range);
        let state = PieceState::Dirty;
        self.put(offset, Piece { chunk, part, txg, state, logged: false, promised });
    }

    /// Adds to the piece that ends at `offset`, if that is as new, and its chunk has room.
    pub(crate) fn append(&mut self, offset: u64, data: &[u8], txg: u64) -> bool {
        let end = offset + data.len() as u64;
        if self.overlapping(&(offset..end)).next().is_some() {
            return false;
        }
        let Some((start, piece)) = self.pieces.range_mut(..offset).next_back() else {
            return false;
        };
        let is_as_new = piece.state == PieceState::Dirty && !piece.logged && piece.txg == txg;
        let whole = piece.part == (0..piece.chunk.bytes().len());
        if !is_as_new || !whole || start + piece.len() != offset {
            return false;
        }
        let added = Arc::get_mut(&mut piece.chunk).is_some_and(|chunk| chunk.append(data));
        if added {
            piece.part.end += data.len();
            self.unlogged_bytes += data.len() as u64;
        }
        added
    }

    /// Forgets the bytes of `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let starts: Vec<u64> = self.overlapping(&range).map(|(start, _)| start).collect();
        for start in starts {
            let piece = self.take(start);
            let end = start + piece.len();
            if start < range.start {
                self.put(start, piece.cut(start, start..range.start));
            }
            if end > range.end {
                self.put(range.end, piece.cut(start, range.end..end));
            }
        }
    }

    /// What there is of the bytes of `range`: pieces with their offsets, which do not change when
    /// this does.
    pub(crate) fn snapshot(&self, range: Range<u64>) -> Vec<(u64, Piece)> {
        let cut = |(start, piece): (u64, &Piece)| {
            let from = start.max(range.start);
            (from, piece.cut(start, from..(start + piece.len()).min(range.end)))
        };
        self.overlapping(&range).map(cut).collect()
    }

    /// The next bytes from `from` on that a txg up to `txg` has to take, as many as go in one
    /// call. They are then on their way, until [`arrived`](Extents::arrived).
    pub(crate) fn depart(&mut self, from: u64, txg: u64, bytes_max: u64) -> Option<Run> {
        let mut run: Option<Run> = None;
        let mut length = 0;
        for (start, piece) in self.pieces.range_mut(from..) {
            let is_due = piece.state == PieceState::Dirty && piece.txg <= txg;
            match &run {
                None if !is_due => continue,
                None => run = Some(Run { offset: *start, pieces: Vec::new() }),
                Some(run) => {
                    let fits = length + piece.len() <= bytes_max;
                    if !is_due || *start != run.offset + length || !fits {
                        break;
                    }
                }
            }
            length += piece.len();
            piece.state = PieceState::Writing;
            run.as_mut().expect("it has begun").pieces.push(piece.clone());
        }
        run
    }

    /// Notes that a run has come to the origin, or has not: then what is there of it, or has
    /// replaced it meanwhile, is due in its place.
    pub(crate) fn arrived(&mut self, run: &Run, succeeded: bool) {
        let range = run.offset..run.offset + run.len();
        let starts: Vec<u64> = self.overlapping(&range).map(|(start, _)| start).collect();
        let oldest = run.pieces.iter().map(|piece| piece.txg).min().unwrap_or(u64::MAX);
        let chunks: HashSet<_> = run.pieces.iter().map(|piece| Arc::as_ptr(&piece.chunk)).collect();
        let departed = |piece: &Piece| {
            piece.state == PieceState::Writing && chunks.contains(&Arc::as_ptr(&piece.chunk))
        };
        for start in starts {
            let piece = self.pieces.get_mut(&start).expect("it was found");
            match (departed(piece), succeeded) {
                (true, true) => piece.state = PieceState::Written,
                (true, false) => piece.state = PieceState::Dirty,
                (false, false) => piece.txg = piece.txg.min(oldest),
                (false, true) => {}
            }
        }
    }

    /// Bytes that no log has.
    pub(crate) fn unlogged_bytes(&self) -> u64 {
        self.unlogged_bytes
    }

    /// Bytes that a log has promised, or that replace such.
    pub(crate) fn promised_bytes(&self) -> u64 {
        self.pieces.values().filter(|piece| piece.promised).map(Piece::len).sum()
    }

    /// Offers to `take` the pieces that no log has, with their offsets, up to the first that it
    /// does not take; if `promised_only`, those that one has promised. Those that it takes are
    /// logged.
    pub(crate) fn log<E>(
        &mut self,
        promised_only: bool,
        mut take: impl FnMut(u64, &Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = 0;
        while let Some(&start) = self.unlogged.range(from..).next() {
            from = start + 1;
            let piece = self.pieces.get_mut(&start).expect("what is not logged is there");
            if promised_only && !piece.promised {
                continue;
            }
            take(start, piece)?;
            (piece.logged, piece.promised) = (true, true);
            self.unlogged_bytes -= piece.len();
            self.unlogged.remove(&start);
        }
        Ok(())
    }

    /// Forgets that a log has any of the pieces.
    pub(crate) fn forget_logged(&mut self) {
        self.pieces.values_mut().for_each(|piece| piece.logged = false);
        self.count_unlogged();
    }

    fn count_unlogged(&mut self) {
        let unlogged = || self.pieces.iter().filter(|(_, piece)| !piece.logged);
        self.unlogged_bytes = unlogged().map(|(_, piece)| piece.len()).sum();
        self.unlogged = unlogged().map(|(start, _)| *start).collect();
    }

    /// Whether some bytes have yet to be written by a txg up to `txg`.
    pub(crate) fn is_due(&self, txg: u64) -> bool {
        let is_due = |piece: &Piece| piece.state != PieceState::Written && piece.txg <= txg;
        self.pieces.values().any(is_due)
    }

    /// Forgets what the origin keeps, now that everything up to `txg` is committed. Returns where
    /// the last byte of that ends.
    pub(crate) fn committed(&mut self, txg: u64) -> u64 {
        let mut end = 0;
        self.pieces.retain(|start, piece| {
            let stays = piece.state != PieceState::Written || piece.txg > txg;
            if !stays {
                end = start + piece.len();
            }
            stays
        });
        self.count_unlogged();
        end
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When pieces overlap, are empty, or reach out of their chunks, or sums do not agree.
    pub(crate) fn validate(&self) {
        let mut end = 0;
        let mut unlogged_bytes = 0;
        for (start, piece) in &self.pieces {
            assert!(*start >= end, "pieces do not overlap");
            assert!(!piece.part.is_empty(), "a piece has bytes");
            assert!(piece.part.end <= piece.chunk.bytes().len(), "a piece is part of its chunk");
            assert_eq!(self.unlogged.contains(start), !piece.logged, "the list agrees");
            assert!(piece.promised || !piece.logged, "a log promises what it has");
            unlogged_bytes += if piece.logged { 0 } else { piece.len() };
            end = start + piece.len();
        }
        assert_eq!(self.unlogged_bytes, unlogged_bytes, "the sum agrees");
        assert!(self.unlogged.iter().all(|start| self.pieces.contains_key(start)));
    }
}

/// Puts pieces over the bytes of a buffer that begins at `offset`.
pub(crate) fn overlay(pieces: &[(u64, Piece)], offset: u64, buffer: &mut [u8]) {
    let end = offset + buffer.len() as u64;
    for (start, piece) in pieces {
        let from = (*start).max(offset);
        let to = (start + piece.len()).min(end);
        if from < to {
            let bytes = &piece.bytes()[(from - start) as usize..(to - start) as usize];
            buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(bytes);
        }
    }
}

/// Whether pieces, in order, hold every byte of `range`.
pub(crate) fn covers(pieces: &[(u64, Piece)], range: Range<u64>) -> bool {
    let mut reached = range.start;
    for (start, piece) in pieces {
        if *start > reached {
            break;
        }
        reached = reached.max(start + piece.len());
    }
    reached >= range.end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chunk::Bytes;
    use crate::dirty_budget::DirtyBudget;
    use crate::memory::Memory;

    const FILE_BYTES: u64 = 64;

    #[derive(Debug, Clone)]
    enum Step {
        Write { offset: u64, length: u64 },
        Remove { offset: u64, length: u64 },
        NextTxg,
        Depart { bytes_max: u64 },
        Arrive { succeeded: bool },
        Commit,
        Log { pieces_max: usize },
        Release,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            5 => (0..FILE_BYTES, 1..20_u64)
                .prop_map(|(offset, length)| Step::Write { offset, length }),
            1 => (0..FILE_BYTES, 1..20_u64)
                .prop_map(|(offset, length)| Step::Remove { offset, length }),
            1 => Just(Step::NextTxg),
            3 => (1..30_u64).prop_map(|bytes_max| Step::Depart { bytes_max }),
            3 => any::<bool>().prop_map(|succeeded| Step::Arrive { succeeded }),
            2 => Just(Step::Commit),
            2 => (0..5_usize).prop_map(|pieces_max| Step::Log { pieces_max }),
            1 => Just(Step::Release),
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        /// What the origin has, with the pieces over it, is always what was written last; and a
        /// commit leaves the origin with everything that was written up to its txg, or newer.
        /// What a log has promised is there or at the origin, as new, also when it was released.
        #[test]
        fn nothing_is_lost_on_the_way(steps in steps()) {
            let budget = DirtyBudget::new(Memory::new(64 << 20));
            let mut extents = Extents::default();
            let size = 2 * FILE_BYTES as usize;
            let mut wanted = vec![0_u8; size];
            let mut origin = vec![0_u8; size];
            // The number of the write that each byte has, wanted and at the origin.
            let (mut newest, mut present) = (vec![0_u64; size], vec![0_u64; size]);
            let mut at_last_txg = newest.clone();
            // What the origin keeps, what a log has, and what that has ever promised.
            let (mut kept, mut logged, mut promised) =
                (newest.clone(), newest.clone(), newest.clone());
            let (mut txg, mut count) = (1, 0_u64);
            let mut under_way: Option<(Run, Vec<u64>)> = None;
            for step in steps {
                match step {
                    Step::Write { offset, length } => {
                        count += 1;
                        let data = vec![count as u8; length as usize];
                        let place = offset as usize..(offset + length) as usize;
                        wanted[place.clone()].copy_from_slice(&data);
                        newest[place].fill(count);
                        if !extents.append(offset, &data, txg) {
                            let chunk = budget.chunk(&Bytes::Borrowed(&data));
                            extents.insert(offset, chunk.expect("there is room"), txg);
                        }
                    }
                    Step::Remove { offset, length } => {
                        // As a hole is punched: at the origin as well.
                        if under_way.is_none() {
                            let place = offset as usize..(offset + length) as usize;
                            for bytes in [&mut wanted, &mut origin] {
                                bytes[place.clone()].fill(0);
                            }
                            for numbers in [&mut newest, &mut present, &mut at_last_txg] {
                                numbers[place.clone()].fill(count);
                            }
                            for numbers in [&mut kept, &mut logged, &mut promised] {
                                numbers[place.clone()].fill(count);
                            }
                            extents.remove(offset..offset + length);
                        }
                    }
                    Step::NextTxg => {
                        txg += 1;
                        at_last_txg = newest.clone();
                    }
                    Step::Depart { bytes_max } => {
                        if under_way.is_none() {
                            let run = extents.depart(0, txg - 1, bytes_max);
                            under_way = run.map(|run| {
                                let place = run.offset as usize..;
                                let numbers = newest[place][..run.len() as usize].to_vec();
                                (run, numbers)
                            });
                        }
                    }
                    Step::Arrive { succeeded } => {
                        if let Some((run, numbers)) = under_way.take() {
                            if succeeded {
                                let place = run.offset as usize..(run.offset + run.len()) as usize;
                                let bytes: Vec<u8> =
                                    run.slices().iter().flat_map(|slice| slice.to_vec()).collect();
                                origin[place.clone()].copy_from_slice(&bytes);
                                present[place].copy_from_slice(&numbers);
                            }
                            extents.arrived(&run, succeeded);
                        }
                    }
                    Step::Commit => {
                        if under_way.is_none() && !extents.is_due(txg - 1) {
                            extents.committed(txg - 1);
                            for (present, promised) in present.iter().zip(&at_last_txg) {
                                prop_assert!(present >= promised);
                            }
                            kept = present.clone();
                        }
                    }
                    Step::Log { mut pieces_max } => {
                        let _: Result<(), ()> = extents.log(false, |start, piece| {
                            pieces_max = pieces_max.checked_sub(1).ok_or(())?;
                            let place = start as usize..(start + piece.len()) as usize;
                            logged[place.clone()].copy_from_slice(&newest[place.clone()]);
                            promised[place.clone()].copy_from_slice(&newest[place]);
                            Ok(())
                        });
                    }
                    Step::Release => {
                        extents.forget_logged();
                        logged.fill(0);
                        let relogged: Result<(), ()> = extents.log(true, |start, piece| {
                            let place = start as usize..(start + piece.len()) as usize;
                            logged[place.clone()].copy_from_slice(&newest[place]);
                            Ok(())
                        });
                        prop_assert_eq!(relogged, Ok(()));
                        for ((kept, logged), promised) in kept.iter().zip(&logged).zip(&promised) {
                            prop_assert!(kept.max(logged) >= promised);
                        }
                    }
                }
                extents.validate();
                let mut seen = origin.clone();
                let all = 0..size as u64;
                overlay(&extents.snapshot(all.clone()), 0, &mut seen);
                prop_assert_eq!(&seen, &wanted);
            }
            drop((extents, under_way));
            prop_assert_eq!(budget.dirty_bytes(), 0);
        }
    }

    #[test]
    fn coverage_is_told_exactly() {
        let budget = DirtyBudget::new(Memory::new(64 << 20));
        let mut extents = Extents::default();
        for offset in [0, 4, 12] {
            extents.insert(
                offset,
                budget.chunk(&Bytes::Borrowed(b"four")).expect("there is room"),
                1,
            );
        }
        let pieces = extents.snapshot(0..16);
        assert!(covers(&pieces, 0..8));
        assert!(covers(&pieces, 2..7));
        assert!(!covers(&pieces, 0..9));
        assert!(!covers(&pieces, 8..16));
        assert!(covers(&pieces, 12..16));
    }
}
