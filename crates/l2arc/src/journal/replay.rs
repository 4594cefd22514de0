use super::block::{self, BLOCK_BYTES, BlockHeader, BlockKind};
use super::entry::JournalEntry;

/// What the journal tells after a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replayed {
    /// All entries that lasted, in order, and the newest block's header. The last epoch is that of
    /// any block in either half.
    Entries { half: usize, last_epoch: u64, newest: BlockHeader, entries: Vec<JournalEntry> },
    /// Something that had lasted is missing: nothing on the device can be trusted.
    Damaged,
    /// There never was a journal.
    Empty,
}

/// What one half holds.
struct Half {
    epoch: u64,
    /// The whole checkpoint is there.
    complete: bool,
    /// A block is missing that had lasted.
    damaged: bool,
    newest: BlockHeader,
    entries: Vec<JournalEntry>,
}

/// Reads one half. A commit that was torn by a crash ends it; a block that is missing although a
/// later commit followed is damage, since a commit begins after the one before has lasted.
fn read(bytes: &[u8], salt: &[u8; 16]) -> Option<Half> {
    let blocks: Vec<_> = bytes
        .chunks_exact(2 * BLOCK_BYTES)
        .map(|pair| block::decode(pair, salt).or_else(|| block::decode(&pair[BLOCK_BYTES..], salt)))
        .enumerate()
        .map(|(at, block)| block.filter(|(header, _)| header.number == at as u64))
        .collect();
    let epoch = blocks.iter().flatten().map(|(header, _)| header.epoch).max()?;
    let mut half = None::<Half>;
    let mut missing = None;
    for (at, block) in blocks.into_iter().enumerate() {
        let Some((header, entries)) = block.filter(|(header, _)| header.epoch == epoch) else {
            missing = missing.or(Some(at as u64));
            continue;
        };
        let half = half.get_or_insert_with(|| Half {
            epoch,
            complete: false,
            damaged: false,
            newest: header,
            entries: Vec::new(),
        });
        if let Some(missing) = missing {
            // Checkpoints and commits are each written in one go.
            half.damaged |= header.first > missing;
            continue;
        }
        half.complete |= header.kind == BlockKind::CheckpointEnd;
        half.newest = header;
        half.entries.extend(entries);
    }
    half
}

/// Reads both halves.
pub(crate) fn replay(halves: [&[u8]; 2], salt: &[u8; 16]) -> Replayed {
    let mut read: Vec<(usize, Half)> = halves
        .into_iter()
        .enumerate()
        .filter_map(|(index, bytes)| Some((index, read(bytes, salt)?)))
        .collect();
    if read.is_empty() {
        return Replayed::Empty;
    }
    read.sort_by_key(|(_, half)| std::cmp::Reverse(half.epoch));
    // A checkpoint that was torn leaves blocks behind: the next one must not have its epoch.
    let last_epoch = read[0].1.epoch;
    for (index, half) in read {
        if half.damaged {
            return Replayed::Damaged;
        }
        if half.complete {
            let Half { newest, entries, .. } = half;
            return Replayed::Entries { half: index, last_epoch, newest, entries };
        }
        // A crash has torn this checkpoint: what it was to replace still holds.
    }
    Replayed::Damaged
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    const SALT: [u8; 16] = [7; 16];

    fn put(half: &mut [u8], epoch: u64, number: u64, first: u64, kind: BlockKind) {
        let header = BlockHeader {
            epoch,
            number,
            first,
            kind,
            life: 3,
            written_bytes: 0,
            credit_bytes: 0,
            wall_seconds: 0,
            next_incarnation: 1,
        };
        let entries = [JournalEntry::Retired { segment: (epoch * 100 + number) as u32 }];
        let at = 2 * BLOCK_BYTES * number as usize;
        encode(&header, &entries, &SALT, &mut half[at..]);
        half.copy_within(at..at + BLOCK_BYTES, at + BLOCK_BYTES);
    }

    fn half(epoch: u64, blocks: u64) -> Vec<u8> {
        let mut half = vec![0; 2 * BLOCK_BYTES * 8];
        put(&mut half, epoch, 0, 0, BlockKind::Checkpoint);
        put(&mut half, epoch, 1, 0, BlockKind::CheckpointEnd);
        (2..blocks).for_each(|number| put(&mut half, epoch, number, number, BlockKind::Log));
        half
    }

    fn segments(replayed: &Replayed) -> Vec<u32> {
        let Replayed::Entries { entries, .. } = replayed else { panic!("{replayed:?}") };
        let segment = |entry: &JournalEntry| match entry {
            JournalEntry::Retired { segment } => *segment,
            other => panic!("{other:?}"),
        };
        entries.iter().map(segment).collect()
    }

    fn lose(half: &mut [u8], number: usize) {
        half[2 * BLOCK_BYTES * number..][..2 * BLOCK_BYTES].fill(0x55);
    }

    #[test]
    fn the_newest_whole_half_counts() {
        let (old, new) = (half(4, 8), half(5, 4));
        assert_eq!(segments(&replay([&old, &new], &SALT)), [500, 501, 502, 503]);
        assert_eq!(segments(&replay([&new, &old], &SALT)), [500, 501, 502, 503]);
        assert_eq!(replay([&[], &[]], &SALT), Replayed::Empty);
        assert_eq!(replay([&old, &new], &[8; 16]), Replayed::Empty);
    }

    #[test]
    fn a_torn_checkpoint_leaves_the_half_before() {
        let (old, mut new) = (half(4, 8), half(5, 2));
        lose(&mut new, 0);
        let replayed = replay([&old, &new], &SALT);
        assert_eq!(segments(&replayed).len(), 8);
        assert!(matches!(replayed, Replayed::Entries { half: 0, last_epoch: 5, .. }));
        let (old, mut new) = (half(4, 8), half(5, 2));
        lose(&mut new, 1);
        assert_eq!(segments(&replay([&old, &new], &SALT)).len(), 8);
    }

    #[test]
    fn any_byte_of_any_block_may_go_bad() {
        let old = half(4, 8);
        for number in 0..4 {
            for copy in 0..2 {
                for byte in [0, 9, 50, 76, 80, 100, 4095] {
                    let mut new = half(5, 4);
                    new[(2 * number + copy) * BLOCK_BYTES + byte] ^= 0x10;
                    assert_eq!(segments(&replay([&old, &new], &SALT)), [500, 501, 502, 503]);
                }
            }
        }
    }

    #[test]
    fn a_lost_block_that_had_lasted_is_damage() {
        for number in 0..5 {
            let (old, mut new) = (half(4, 8), half(5, 6));
            lose(&mut new, number);
            assert_eq!(replay([&old, &new], &SALT), Replayed::Damaged, "{number}");
        }
    }

    #[test]
    fn a_torn_commit_ends_the_log() {
        let (old, mut new) = (half(4, 8), half(5, 4));
        for number in [4, 5] {
            put(&mut new, 5, number, 4, BlockKind::Log);
        }
        lose(&mut new, 4);
        assert_eq!(segments(&replay([&old, &new], &SALT)), [500, 501, 502, 503]);
    }
}
