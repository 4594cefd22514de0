use proptest::prelude::*;
use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};

/// The names that steps work on. Few, so that they meet; each may be of any type.
pub const NAMES: [&str; 12] =
    ["a", "b", "c", "long", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a", "f/b"];

/// Targets of symbolic links, some of which lead nowhere or to themselves.
pub const TARGETS: [&str; 7] = ["a", "d", "../a", "d/e", "missing", "c", ""];

/// Files that are held open at the same time.
pub const SLOTS: usize = 3;

/// Index into [`NAMES`].
pub type Name = usize;

/// One call, or a few that belong together.
#[derive(Debug, Clone)]
pub enum Step {
    Create { name: Name, mode: u32, exclusive: bool, truncate: bool },
    Read { name: Name, offset: u64, length: usize },
    Write { name: Name, offset: u64, length: usize, seed: u64 },
    Append { name: Name, length: usize, seed: u64 },
    Truncate { name: Name, length: u64 },
    MapWrite { name: Name, offset: usize, length: usize, seed: u64, shared: bool },
    Allocate { name: Name, mode: FallocateFlags, offset: u64, length: u64 },
    Seek { name: Name, hole: bool, offset: u64 },
    CopyRange { from: Name, to: Name, source: u64, offset: u64, length: usize },
    Rename { from: Name, to: Name, flags: RenameFlags },
    Link { from: Name, to: Name },
    Symlink { target: usize, name: Name },
    ReadLink { name: Name },
    MakeDirectory { name: Name, mode: u32 },
    MakeNode { name: Name, socket: bool, mode: u32 },
    RemoveDirectory { name: Name },
    Unlink { name: Name },
    List { name: Name },
    Stat { name: Name, follow: bool },
    Access { name: Name, mode: u32 },
    SetMode { name: Name, mode: u32 },
    SetOwner { name: Name, user: u32, group: u32 },
    SetTimes { name: Name, accessed: i64, modified: i64, nanoseconds: u32 },
    SetXattr { name: Name, key: usize, length: usize, flags: XattrFlags },
    RemoveXattr { name: Name, key: usize },
    ListXattrs { name: Name },
    SetAcl { name: Name, user: u32, permissions: u16, default: bool },
    Hold { slot: usize, name: Name, append: bool },
    HeldRead { slot: usize, offset: u64, length: usize },
    HeldWrite { slot: usize, offset: u64, length: usize, seed: u64 },
    HeldTruncate { slot: usize, length: u64 },
    HeldStat { slot: usize },
    HeldSync { slot: usize, data_only: bool },
    Release { slot: usize },
}

impl Step {
    /// Whether this step may differ between two directories that are both right.
    ///
    /// Where space is reserved but not written, `SEEK_DATA` tells what the kernel happens to have
    /// in its page cache. So a sequence has steps that reserve, or steps that seek.
    pub fn is_unfair(&self, preallocate: bool) -> bool {
        match self {
            Step::Seek { .. } => preallocate,
            Step::Allocate { mode, .. } => {
                !preallocate && !mode.contains(FallocateFlags::PUNCH_HOLE)
            }
            _ => false,
        }
    }
}

/// Sequences of up to `steps_max` steps.
pub fn steps(steps_max: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..=steps_max)
}

fn name() -> impl Strategy<Value = Name> {
    0..NAMES.len()
}

/// Offsets near the borders of pages and records, where mistakes are.
fn offset() -> impl Strategy<Value = u64> {
    let border = (0_u64..80, -3_i64..=3)
        .prop_map(|(block, near)| (block * 4096).saturating_add_signed(near));
    let record = (0_u64..4).prop_map(|record| record << 17);
    prop_oneof![3 => border, 1 => 0_u64..300_000, 1 => Just(0), 1 => record]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0_usize..6000, 2 => offset().prop_map(|it| it as usize), 1 => Just(4096)]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0o644), Just(0o755), Just(0o000), Just(0o4755), Just(0o2775), 0_u32..0o10000]
}

/// Not collapsing and inserting, which Linux passes to no FUSE file system.
fn allocation() -> impl Strategy<Value = FallocateFlags> {
    let keep = FallocateFlags::KEEP_SIZE;
    prop_oneof![
        Just(FallocateFlags::empty()),
        Just(keep),
        Just(FallocateFlags::PUNCH_HOLE | keep),
        Just(FallocateFlags::PUNCH_HOLE | keep),
        Just(FallocateFlags::ZERO_RANGE),
        Just(FallocateFlags::ZERO_RANGE | keep),
        Just(FallocateFlags::PUNCH_HOLE),
    ]
}

fn renaming() -> impl Strategy<Value = RenameFlags> {
    prop_oneof![
        4 => Just(RenameFlags::empty()),
        1 => Just(RenameFlags::NOREPLACE),
        1 => Just(RenameFlags::EXCHANGE),
        1 => Just(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE),
    ]
}

fn xattr_flags() -> impl Strategy<Value = XattrFlags> {
    prop_oneof![Just(XattrFlags::empty()), Just(XattrFlags::CREATE), Just(XattrFlags::REPLACE)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![4 => contents(), 3 => names(), 2 => attributes(), 2 => held()]
}

fn contents() -> impl Strategy<Value = Step> {
    let seed = 0_u64..1000;
    prop_oneof![
        3 => (name(), offset(), length())
            .prop_map(|(name, offset, length)| Step::Read { name, offset, length }),
        4 => (name(), offset(), length(), seed.clone())
            .prop_map(|(name, offset, length, seed)| Step::Write { name, offset, length, seed }),
        1 => (name(), length(), seed.clone())
            .prop_map(|(name, length, seed)| Step::Append { name, length, seed }),
        2 => (name(), offset()).prop_map(|(name, length)| Step::Truncate { name, length }),
        2 => (name(), offset(), length(), seed, any::<bool>()).prop_map(
            |(name, offset, length, seed, shared)| Step::MapWrite {
                name,
                offset: offset as usize,
                length,
                seed,
                shared,
            }
        ),
        2 => (name(), allocation(), offset(), offset()).prop_map(
            |(name, mode, offset, length)| Step::Allocate { name, mode, offset, length }
        ),
        2 => (name(), any::<bool>(), offset())
            .prop_map(|(name, hole, offset)| Step::Seek { name, hole, offset }),
        2 => (name(), name(), offset(), offset(), length()).prop_map(|it| {
            let (from, to, source, offset, length) = it;
            Step::CopyRange { from, to, source, offset, length }
        }),
    ]
}

fn names() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (name(), mode(), any::<bool>(), any::<bool>()).prop_map(
            |(name, mode, exclusive, truncate)| Step::Create { name, mode, exclusive, truncate }
        ),
        3 => (name(), name(), renaming())
            .prop_map(|(from, to, flags)| Step::Rename { from, to, flags }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Link { from, to }),
        1 => (0..TARGETS.len(), name()).prop_map(|(target, name)| Step::Symlink { target, name }),
        1 => name().prop_map(|name| Step::ReadLink { name }),
        2 => (name(), mode()).prop_map(|(name, mode)| Step::MakeDirectory { name, mode }),
        1 => (name(), any::<bool>(), mode())
            .prop_map(|(name, socket, mode)| Step::MakeNode { name, socket, mode }),
        1 => name().prop_map(|name| Step::RemoveDirectory { name }),
        2 => name().prop_map(|name| Step::Unlink { name }),
        2 => name().prop_map(|name| Step::List { name }),
    ]
}

fn attributes() -> impl Strategy<Value = Step> {
    let id = || prop_oneof![Just(0_u32), Just(1), Just(65534)];
    let key = || 0_usize..4;
    prop_oneof![
        2 => (name(), any::<bool>()).prop_map(|(name, follow)| Step::Stat { name, follow }),
        1 => (name(), 0_u32..8).prop_map(|(name, mode)| Step::Access { name, mode }),
        1 => (name(), mode()).prop_map(|(name, mode)| Step::SetMode { name, mode }),
        1 => (name(), id(), id()).prop_map(|(name, user, group)| Step::SetOwner {
            name,
            user,
            group
        }),
        1 => (name(), -5_i64..5_000_000_000, -5_i64..5_000_000_000, 0_u32..1_000_000_000).prop_map(
            |(name, accessed, modified, nanoseconds)| Step::SetTimes {
                name,
                accessed,
                modified,
                nanoseconds
            }
        ),
        2 => (name(), key(), prop_oneof![0_usize..100, Just(3000), Just(70_000)], xattr_flags())
            .prop_map(|(name, key, length, flags)| Step::SetXattr { name, key, length, flags }),
        1 => (name(), key()).prop_map(|(name, key)| Step::RemoveXattr { name, key }),
        1 => name().prop_map(|name| Step::ListXattrs { name }),
        1 => (name(), id(), 0_u16..8, any::<bool>()).prop_map(
            |(name, user, permissions, default)| Step::SetAcl { name, user, permissions, default }
        ),
    ]
}

fn held() -> impl Strategy<Value = Step> {
    let slot = || 0..SLOTS;
    prop_oneof![
        3 => (slot(), name(), any::<bool>())
            .prop_map(|(slot, name, append)| Step::Hold { slot, name, append }),
        3 => (slot(), offset(), length())
            .prop_map(|(slot, offset, length)| Step::HeldRead { slot, offset, length }),
        3 => (slot(), offset(), length(), 0_u64..1000).prop_map(|(slot, offset, length, seed)| {
            Step::HeldWrite { slot, offset, length, seed }
        }),
        1 => (slot(), offset()).prop_map(|(slot, length)| Step::HeldTruncate { slot, length }),
        2 => slot().prop_map(|slot| Step::HeldStat { slot }),
        1 => (slot(), any::<bool>())
            .prop_map(|(slot, data_only)| Step::HeldSync { slot, data_only }),
        1 => slot().prop_map(|slot| Step::Release { slot }),
    ]
}
