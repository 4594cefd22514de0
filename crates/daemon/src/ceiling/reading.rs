use std::fmt;
use std::path::PathBuf;

use warmfront::HumanSize;

/// What bounds the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitSource {
    /// The machine has no more.
    Machine,
    /// A control group allows no more, as this file says.
    ControlGroup(PathBuf),
}

/// The memory that this process can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// In bytes; 0 when nothing tells.
    pub bytes: u64,
    /// What bounds it.
    pub source: LimitSource,
}

/// One bound on the memory of this process and its neighbours, and what is left below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// What bounds.
    pub source: LimitSource,
    /// The bound in bytes.
    pub limit_bytes: u64,
    /// What can still be had without harm to anybody: free memory, and what the kernel can take
    /// back, such as the pages of files. `None` when it cannot be told.
    pub available_bytes: Option<u64>,
}

/// One look at the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The machine and each control group that sets a limit.
    pub rooms: Vec<Room>,
    /// What this process has that only itself can give back: resident, and no pages of files.
    pub own_bytes: u64,
    /// What could not be read, and what counts instead.
    pub notes: Vec<String>,
}

impl Reading {
    /// The tightest bound.
    pub fn memory(&self) -> MemoryLimit {
        let tightest = self.rooms.iter().min_by_key(|room| room.limit_bytes);
        match tightest {
            Some(room) => MemoryLimit { bytes: room.limit_bytes, source: room.source.clone() },
            None => MemoryLimit { bytes: 0, source: LimitSource::Machine },
        }
    }

    /// What can still be had, below all bounds; `None` when nothing tells.
    pub(crate) fn left_bytes(&self) -> Option<u64> {
        self.rooms.iter().filter_map(|room| room.available_bytes).min()
    }

    /// The same; 0 when nothing tells.
    pub fn available_bytes(&self) -> u64 {
        self.left_bytes().unwrap_or(0)
    }
}

impl fmt::Display for LimitSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitSource::Machine => formatter.write_str("the machine"),
            LimitSource::ControlGroup(path) => {
                write!(formatter, "the control group ({})", path.display())
            }
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            LimitSource::Machine => write!(formatter, "the machine's {}", HumanSize(self.bytes)),
            LimitSource::ControlGroup(path) => {
                write!(formatter, "the {} that {} allows", HumanSize(self.bytes), path.display())
            }
        }
    }
}
