/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 24;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalEntry {
    /// A segment is written anew; what it held has died.
    Opened { segment: u32, incarnation: u64 },
    /// A segment is complete, and has a directory.
    Sealed { segment: u32, unit: u32, count: u32, sum: u64 },
    /// All that a segment holds has died.
    Retired { segment: u32 },
    /// The record at this place has died.
    Dead { segment: u32, unit: u32, incarnation: u64 },
    /// Records whose keys have this hash have died, in incarnations before this one.
    Killed { hash: u64, before: u64 },
    /// Records of this object have died, in places before this one.
    ObjectKilled { object: u64, unit: u32, incarnation: u64 },
}

impl JournalEntry {
    pub(super) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let (kind, word, first, second) = match *self {
            JournalEntry::Opened { segment, incarnation } => (1_u8, segment, incarnation, 0),
            JournalEntry::Sealed { segment, unit, count, sum } => {
                (2, segment, u64::from(unit) << 32 | u64::from(count), sum)
            }
            JournalEntry::Retired { segment } => (3, segment, 0, 0),
            JournalEntry::Dead { segment, unit, incarnation } => {
                (4, segment, incarnation, u64::from(unit))
            }
            JournalEntry::Killed { hash, before } => (5, 0, hash, before),
            JournalEntry::ObjectKilled { object, unit, incarnation } => {
                (6, unit, object, incarnation)
            }
        };
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&word.to_le_bytes());
        bytes[8..16].copy_from_slice(&first.to_le_bytes());
        bytes[16..24].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<JournalEntry> {
        let word = u32::from_le_bytes(std::array::from_fn(|at| bytes[4 + at]));
        let first = u64::from_le_bytes(std::array::from_fn(|at| bytes[8 + at]));
        let second = u64::from_le_bytes(std::array::from_fn(|at| bytes[16 + at]));
        Some(match bytes[0] {
            1 => JournalEntry::Opened { segment: word, incarnation: first },
            2 => JournalEntry::Sealed {
                segment: word,
                unit: (first >> 32) as u32,
                count: first as u32,
                sum: second,
            },
            3 => JournalEntry::Retired { segment: word },
            4 => JournalEntry::Dead {
                segment: word,
                unit: u32::try_from(second).ok()?,
                incarnation: first,
            },
            5 => JournalEntry::Killed { hash: first, before: second },
            6 => JournalEntry::ObjectKilled { object: first, unit: word, incarnation: second },
            _ => return None,
        })
    }
}
