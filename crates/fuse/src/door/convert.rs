use storage::{Attributes, Caller, Kind, OpenMode, SetAttributes, SetTime, Timestamp};

use crate::abi::{Attr, SetattrIn, Statx, StatxTime};
use crate::filesystem::Call;
use crate::flags::SetattrFlags;

/// Flags of `open(2)` on Linux.
pub(crate) mod open_flags {
    pub(crate) const ACCESS_MODE: u32 = 0o3;
    pub(crate) const WRITE_ONLY: u32 = 0o1;
    pub(crate) const READ_WRITE: u32 = 0o2;
    pub(crate) const EXCLUSIVE: u32 = 0o200;
    pub(crate) const TRUNCATE: u32 = 0o1000;
    pub(crate) const APPEND: u32 = 0o2000;
    pub(crate) const DATA_SYNC: u32 = 0o10000;
    pub(crate) const SYNC: u32 = 0o4_000_000;
}

/// Bits of `st_mode` that tell the type.
pub(crate) const TYPE_MASK: u32 = 0o170_000;
/// Set-user-id.
pub(crate) const SET_USER: u32 = 0o4000;
/// Set-group-id.
pub(crate) const SET_GROUP: u32 = 0o2000;
/// Execution by the group: without it the set-group-id bit means mandatory locking.
pub(crate) const GROUP_EXECUTE: u32 = 0o0010;
/// Fields of `statx` that are told: the basic ones, and with the next the time of birth.
const STATX_BASIC: u32 = 0x7ff;
const STATX_BIRTH: u32 = 0x800;

/// The type bits of `st_mode`.
pub(crate) fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::Fifo => 0o010_000,
        Kind::CharacterDevice => 0o020_000,
        Kind::Directory => 0o040_000,
        Kind::BlockDevice => 0o060_000,
        Kind::File => 0o100_000,
        Kind::Symlink => 0o120_000,
        Kind::Socket => 0o140_000,
    }
}

/// The type in a listing (`DT_REG` and so on).
pub(crate) fn listing_type(kind: Option<Kind>) -> u32 {
    kind.map_or(0, |kind| type_bits(kind) >> 12)
}

/// A device number as the protocol packs it into 32 bits.
fn pack_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// A device number that came in the protocol's 32 bits.
pub(crate) fn unpack_device(packed: u32) -> u64 {
    let major = (packed & 0xf_ff00) >> 8;
    let minor = (packed & 0xff) | ((packed >> 12) & 0xf_ff00);
    rustix::fs::makedev(major, minor)
}

/// Attributes on the wire. `inode` is the number that programs see.
pub(crate) fn attr(inode: u64, attributes: &Attributes) -> Attr {
    Attr {
        ino: inode,
        size: attributes.size,
        blocks: attributes.blocks_512,
        atime: attributes.accessed.seconds as u64,
        mtime: attributes.modified.seconds as u64,
        ctime: attributes.changed.seconds as u64,
        atimensec: attributes.accessed.nanoseconds,
        mtimensec: attributes.modified.nanoseconds,
        ctimensec: attributes.changed.nanoseconds,
        mode: type_bits(attributes.kind) | attributes.permissions,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: pack_device(attributes.device),
        blksize: attributes.block_size,
        flags: 0,
    }
}

/// The same for `statx`.
pub(crate) fn statx(inode: u64, attributes: &Attributes) -> Statx {
    let time =
        |at: Timestamp| StatxTime { seconds: at.seconds, nanoseconds: at.nanoseconds, reserved: 0 };
    Statx {
        mask: STATX_BASIC | if attributes.born.is_some() { STATX_BIRTH } else { 0 },
        blksize: attributes.block_size,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        mode: (type_bits(attributes.kind) | attributes.permissions) as u16,
        ino: inode,
        size: attributes.size,
        blocks: attributes.blocks_512,
        atime: time(attributes.accessed),
        btime: time(attributes.born.unwrap_or_default()),
        ctime: time(attributes.changed),
        mtime: time(attributes.modified),
        rdev_major: rustix::fs::major(attributes.device),
        rdev_minor: rustix::fs::minor(attributes.device),
        ..Statx::default()
    }
}

/// What SETATTR asks for.
pub(crate) fn change(wire: &SetattrIn) -> SetAttributes {
    let valid = SetattrFlags::from_bits_retain(wire.valid);
    let wanted = |flag| valid.contains(flag);
    let time = |set, now, seconds: u64, nanoseconds| {
        if wanted(now) {
            Some(SetTime::Now)
        } else if wanted(set) {
            Some(SetTime::At(Timestamp { seconds: seconds as i64, nanoseconds }))
        } else {
            None
        }
    };
    SetAttributes {
        permissions: wanted(SetattrFlags::MODE).then_some(wire.mode & 0o7777),
        uid: wanted(SetattrFlags::UID).then_some(wire.uid),
        gid: wanted(SetattrFlags::GID).then_some(wire.gid),
        size: wanted(SetattrFlags::SIZE).then_some(wire.size),
        accessed: time(SetattrFlags::ATIME, SetattrFlags::ATIME_NOW, wire.atime, wire.atimensec),
        modified: time(SetattrFlags::MTIME, SetattrFlags::MTIME_NOW, wire.mtime, wire.mtimensec),
    }
}

/// How a file is opened that comes with these flags of `open(2)`.
pub(crate) fn open_mode(flags: u32) -> OpenMode {
    let access = flags & open_flags::ACCESS_MODE;
    OpenMode {
        read: access != open_flags::WRITE_ONLY,
        write: access == open_flags::WRITE_ONLY || access == open_flags::READ_WRITE,
        truncate: flags & open_flags::TRUNCATE != 0,
        direct: false,
        sync: flags & (open_flags::SYNC | open_flags::DATA_SYNC) != 0,
    }
}

/// On whose behalf something is made.
pub(crate) fn caller(call: &Call, umask: u32) -> Caller {
    Caller { uid: call.uid, gid: call.gid, umask }
}

/// Permissions after a write by somebody who may not keep set-id bits, if they change by it.
pub(crate) fn without_set_id(attributes: &Attributes) -> Option<u32> {
    let mut permissions = attributes.permissions & !SET_USER;
    if permissions & GROUP_EXECUTE != 0 {
        permissions &= !SET_GROUP;
    }
    (permissions != attributes.permissions && attributes.kind == Kind::File).then_some(permissions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_packing() {
        for (major, minor) in [(0, 0), (8, 1), (259, 7), (4095, 0xf_ffff)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(unpack_device(pack_device(device)), device);
        }
    }

    #[test]
    fn set_id_bits_go_as_the_kernel_would_take_them() {
        let file = |permissions| Attributes {
            kind: Kind::File,
            permissions,
            links: 1,
            uid: 0,
            gid: 0,
            size: 0,
            blocks_512: 0,
            block_size: 4096,
            device: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            born: None,
        };
        assert_eq!(without_set_id(&file(0o6755)), Some(0o755));
        assert_eq!(without_set_id(&file(0o2644)), None);
        assert_eq!(without_set_id(&file(0o4644)), Some(0o644));
        assert_eq!(without_set_id(&file(0o644)), None);
        assert_eq!(without_set_id(&Attributes { kind: Kind::Directory, ..file(0o2755) }), None);
    }
}
