use serde::{Deserialize, Serialize};
use warmfront::ReplayProgress;

/// How far a start is that takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountProgress {
    /// A new log device is filled.
    Formatting {
        /// Bytes that are filled.
        done_bytes: u64,
        /// Of how many.
        all_bytes: u64,
    },
    /// The log is looked through.
    Reading {
        /// Records that were.
        done: u64,
        /// Of how many.
        records: u64,
    },
    /// Objects that are missing are looked for all over the origin.
    Searching {
        /// Names that were looked at.
        names: u64,
    },
    /// What the log holds is brought to the origin.
    Replaying {
        /// Records that were.
        done: u64,
        /// Of how many.
        records: u64,
    },
    /// It is made to last there.
    Settling,
}

impl MountProgress {
    /// What a replay tells; nothing for what this version cannot tell.
    pub(super) fn of(progress: ReplayProgress) -> Option<MountProgress> {
        Some(match progress {
            ReplayProgress::Reading { done, records } => MountProgress::Reading { done, records },
            ReplayProgress::Searching { names } => MountProgress::Searching { names },
            ReplayProgress::Applying { done, records } => {
                MountProgress::Replaying { done, records }
            }
            ReplayProgress::Settling => MountProgress::Settling,
            _ => return None,
        })
    }
}
