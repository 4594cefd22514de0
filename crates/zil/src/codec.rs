//! The bytes of a record.
//!
//! One function lays a record out into a [`Sink`], which counts its bytes or writes them down.
//! `docs/format.md` has the table of all fields.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use storage::{NodeKind, ObjectId, RenameFlags, SetAttributes, SetTime, Timestamp};

use crate::error::RecordError;
use crate::record::{
    DATA_BYTES_MAX, Identity, Made, NAME_BYTES_MAX, Name, PATH_BYTES_MAX, Place, Record,
    TARGET_BYTES_MAX, VALUE_BYTES_MAX,
};

/// Bytes before a record's own: its length (4), its kind (2), zeros (2).
const HEADER_BYTES: usize = 8;
/// Most nanoseconds of a timestamp.
const NANOSECONDS_MAX: u32 = 999_999_999;

const WRITE: u16 = 1;
const TRUNCATE: u16 = 2;
const ALLOCATE: u16 = 3;
const SET_ATTRIBUTES: u16 = 4;
const CREATE: u16 = 5;
const MAKE_DIRECTORY: u16 = 6;
const SYMLINK: u16 = 7;
const MAKE_NODE: u16 = 8;
const LINK: u16 = 9;
const RENAME: u16 = 10;
const UNLINK: u16 = 11;
const REMOVE_DIRECTORY: u16 = 12;
const SET_XATTR: u16 = 13;
const REMOVE_XATTR: u16 = 14;
const COMMITTED: u16 = 15;

/// Takes bytes: counts them, or writes them down.
trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// A length and as many bytes.
    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.put(bytes);
    }
}

struct Count(usize);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Sink for Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

impl Record<'_> {
    /// How many bytes [`encode`](Record::encode) writes.
    ///
    /// # Errors
    /// When a field is longer than it may be.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// // Its head, where it goes, and the four bytes.
    /// assert!(record().encoded_bytes()? > 4);
    /// # Ok(()) }
    /// ```
    pub fn encoded_bytes(&self) -> Result<usize, RecordError> {
        self.check()?;
        let mut count = Count(HEADER_BYTES);
        self.put(&mut count);
        Ok(count.0)
    }

    /// Writes it to the beginning of `bytes`.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`encoded_bytes`](Record::encoded_bytes).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// let mut bytes = vec![0; record().encoded_bytes()?];
    /// record().encode(&mut bytes);
    /// assert_eq!(Record::decode(&bytes)?, (record(), bytes.len()));
    /// # Ok(()) }
    /// ```
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut writer = Writer { bytes, at: HEADER_BYTES };
        self.put(&mut writer);
        let length = writer.at as u32;
        writer.at = 0;
        writer.u32(length);
        writer.put(&self.kind().to_le_bytes());
        writer.put(&[0; 2]);
    }

    fn kind(&self) -> u16 {
        match self {
            Record::Write { .. } => WRITE,
            Record::Truncate { .. } => TRUNCATE,
            Record::Allocate { .. } => ALLOCATE,
            Record::SetAttributes { .. } => SET_ATTRIBUTES,
            Record::Create(_) => CREATE,
            Record::MakeDirectory(_) => MAKE_DIRECTORY,
            Record::Symlink { .. } => SYMLINK,
            Record::MakeNode { .. } => MAKE_NODE,
            Record::Link { .. } => LINK,
            Record::Rename { .. } => RENAME,
            Record::Unlink { .. } => UNLINK,
            Record::RemoveDirectory { .. } => REMOVE_DIRECTORY,
            Record::SetXattr { .. } => SET_XATTR,
            Record::RemoveXattr { .. } => REMOVE_XATTR,
            Record::Committed { .. } => COMMITTED,
        }
    }

    fn put(&self, sink: &mut impl Sink) {
        match self {
            Record::Write { file, offset, data } => {
                put_place(sink, file);
                sink.u64(*offset);
                sink.bytes(data);
            }
            Record::Truncate { file, size } => {
                put_place(sink, file);
                sink.u64(*size);
            }
            Record::Allocate { file, mode, offset, length } => {
                put_place(sink, file);
                sink.u32(*mode);
                sink.u64(*offset);
                sink.u64(*length);
            }
            Record::SetAttributes { object, change } => {
                put_place(sink, object);
                put_change(sink, change);
            }
            Record::Create(made) | Record::MakeDirectory(made) => put_made(sink, made),
            Record::Symlink { made, target } => {
                put_made(sink, made);
                sink.bytes(target.as_bytes());
            }
            Record::MakeNode { made, kind } => {
                put_made(sink, made);
                let (kind, device) = match kind {
                    NodeKind::File => (0, 0),
                    NodeKind::Fifo => (1, 0),
                    NodeKind::Socket => (2, 0),
                    NodeKind::CharacterDevice(device) => (3, *device),
                    NodeKind::BlockDevice(device) => (4, *device),
                };
                sink.u8(kind);
                sink.u64(device);
            }
            Record::Link { object, name } => {
                put_place(sink, object);
                put_name(sink, name);
            }
            Record::Rename { object, from, to, replaced, is_last, flags } => {
                put_identity(sink, object);
                put_name(sink, from);
                put_name(sink, to);
                sink.u8(u8::from(replaced.is_some()));
                put_identity(sink, &replaced.unwrap_or(NOTHING));
                sink.u8(u8::from(*is_last));
                sink.u32(flags.bits());
            }
            Record::Unlink { object, name, is_last } => {
                put_identity(sink, object);
                put_name(sink, name);
                sink.u8(u8::from(*is_last));
            }
            Record::RemoveDirectory { object, name } => {
                put_identity(sink, object);
                put_name(sink, name);
            }
            Record::SetXattr { object, name, value } => {
                put_place(sink, object);
                sink.bytes(name.as_bytes());
                sink.bytes(value);
            }
            Record::RemoveXattr { object, name } => {
                put_place(sink, object);
                sink.bytes(name.as_bytes());
            }
            Record::Committed { txg } => sink.u64(*txg),
        }
    }

    /// Whether all fields are as short as they have to be.
    fn check(&self) -> Result<(), RecordError> {
        let name = |name: &Name<'_>| {
            short("path", name.parent.path.as_bytes(), PATH_BYTES_MAX)?;
            short("name", name.name.as_bytes(), NAME_BYTES_MAX)
        };
        let place = |place: &Place<'_>| short("path", place.path.as_bytes(), PATH_BYTES_MAX);
        match self {
            Record::Write { file, data, .. } => {
                place(file)?;
                short("data", data, DATA_BYTES_MAX)
            }
            Record::Truncate { file, .. } | Record::Allocate { file, .. } => place(file),
            Record::SetAttributes { object, .. } => place(object),
            Record::Create(made) | Record::MakeDirectory(made) | Record::MakeNode { made, .. } => {
                name(&made.name)
            }
            Record::Symlink { made, target } => {
                name(&made.name)?;
                short("target", target.as_bytes(), TARGET_BYTES_MAX)
            }
            Record::Link { object, name: new } => {
                place(object)?;
                name(new)
            }
            Record::Rename { from, to, .. } => {
                name(from)?;
                name(to)
            }
            Record::Unlink { name: old, .. } | Record::RemoveDirectory { name: old, .. } => {
                name(old)
            }
            Record::SetXattr { object, name, value } => {
                place(object)?;
                short("name", name.as_bytes(), NAME_BYTES_MAX)?;
                short("value", value, VALUE_BYTES_MAX)
            }
            Record::RemoveXattr { object, name } => {
                place(object)?;
                short("name", name.as_bytes(), NAME_BYTES_MAX)
            }
            Record::Committed { .. } => Ok(()),
        }
    }
}

fn short(what: &'static str, bytes: &[u8], limit: usize) -> Result<(), RecordError> {
    let bytes = bytes.len();
    if bytes <= limit { Ok(()) } else { Err(RecordError::TooLong { what, bytes, limit }) }
}

/// Stands where there is no object.
const NOTHING: Identity = Identity { object: ObjectId(0), born: None };

fn put_identity(sink: &mut impl Sink, identity: &Identity) {
    sink.u64(identity.object.0);
    put_time(sink, identity.born);
}

fn put_place(sink: &mut impl Sink, place: &Place<'_>) {
    put_identity(sink, &place.identity());
    sink.bytes(place.path.as_bytes());
}

/// Without a time the nanoseconds are all ones.
fn put_time(sink: &mut impl Sink, time: Option<Timestamp>) {
    let time = time.unwrap_or(Timestamp { seconds: 0, nanoseconds: u32::MAX });
    sink.u64(time.seconds as u64);
    sink.u32(time.nanoseconds);
}

fn put_name(sink: &mut impl Sink, name: &Name<'_>) {
    put_place(sink, &name.parent);
    sink.bytes(name.name.as_bytes());
}

fn put_made(sink: &mut impl Sink, made: &Made<'_>) {
    put_name(sink, &made.name);
    put_identity(sink, &made.identity());
    sink.u32(made.permissions);
    sink.u32(made.uid);
    sink.u32(made.gid);
}

const PERMISSIONS: u8 = 1 << 0;
const UID: u8 = 1 << 1;
const GID: u8 = 1 << 2;
const SIZE: u8 = 1 << 3;
const ACCESSED: u8 = 1 << 4;
const MODIFIED: u8 = 1 << 5;
const CHANGES: u8 = (1 << 6) - 1;

/// All fields stand there, whichever are changed; a time that is absent is the origin's present.
fn put_change(sink: &mut impl Sink, change: &SetAttributes) {
    let SetAttributes { permissions, uid, gid, size, accessed, modified } = change;
    let flags = [
        (permissions.is_some(), PERMISSIONS),
        (uid.is_some(), UID),
        (gid.is_some(), GID),
        (size.is_some(), SIZE),
        (accessed.is_some(), ACCESSED),
        (modified.is_some(), MODIFIED),
    ];
    sink.u8(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    sink.u32(permissions.unwrap_or(0));
    sink.u32(uid.unwrap_or(0));
    sink.u32(gid.unwrap_or(0));
    sink.u64(size.unwrap_or(0));
    for time in [accessed, modified] {
        put_time(
            sink,
            time.and_then(|time| match time {
                SetTime::Now => None,
                SetTime::At(time) => Some(time),
            }),
        );
    }
}

/// Reads fields from the front of bytes.
struct Reader<'a> {
    bytes: &'a [u8],
}

type Read<T> = Result<T, RecordError>;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(count).ok_or(RecordError::Malformed { what: "length" })?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    fn u8(&mut self) -> Read<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self, what: &'static str, limit: usize) -> Read<&'a [u8]> {
        let bytes = self.u32()? as usize;
        if bytes > limit {
            return Err(RecordError::TooLong { what, bytes, limit });
        }
        self.take(bytes)
    }

    fn text(&mut self, what: &'static str, limit: usize) -> Read<&'a OsStr> {
        Ok(OsStr::from_bytes(self.bytes(what, limit)?))
    }

    fn identity(&mut self) -> Read<Identity> {
        Ok(Identity { object: ObjectId(self.u64()?), born: self.time()? })
    }

    fn flag(&mut self) -> Read<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RecordError::Malformed { what: "flag" }),
        }
    }

    fn replaced(&mut self) -> Read<Option<Identity>> {
        match (self.flag()?, self.identity()?) {
            (false, NOTHING) => Ok(None),
            (true, identity) => Ok(Some(identity)),
            _ => Err(RecordError::Malformed { what: "replaced object" }),
        }
    }

    fn place(&mut self) -> Read<Place<'a>> {
        let Identity { object, born } = self.identity()?;
        Ok(Place { object, born, path: self.text("path", PATH_BYTES_MAX)? })
    }

    fn time(&mut self) -> Read<Option<Timestamp>> {
        let seconds = self.u64()? as i64;
        match (seconds, self.u32()?) {
            (0, u32::MAX) => Ok(None),
            (_, nanoseconds) if nanoseconds > NANOSECONDS_MAX => {
                Err(RecordError::Malformed { what: "time" })
            }
            (_, nanoseconds) => Ok(Some(Timestamp { seconds, nanoseconds })),
        }
    }

    fn name(&mut self) -> Read<Name<'a>> {
        let parent = self.place()?;
        Ok(Name { parent, name: self.text("name", NAME_BYTES_MAX)? })
    }

    fn made(&mut self) -> Read<Made<'a>> {
        let name = self.name()?;
        let Identity { object, born } = self.identity()?;
        let (permissions, uid, gid) = (self.u32()?, self.u32()?, self.u32()?);
        Ok(Made { name, object, born, permissions, uid, gid })
    }

    fn change(&mut self) -> Read<SetAttributes> {
        let flags = self.u8()?;
        if flags & !CHANGES != 0 {
            return Err(RecordError::Malformed { what: "attributes" });
        }
        let has = |flag: u8| flags & flag != 0;
        let (permissions, uid, gid) = (self.u32()?, self.u32()?, self.u32()?);
        let size = self.u64()?;
        let (accessed, modified) = (self.time()?, self.time()?);
        let time = |time: Option<Timestamp>| time.map_or(SetTime::Now, SetTime::At);
        Ok(SetAttributes {
            permissions: has(PERMISSIONS).then_some(permissions),
            uid: has(UID).then_some(uid),
            gid: has(GID).then_some(gid),
            size: has(SIZE).then_some(size),
            accessed: has(ACCESSED).then(|| time(accessed)),
            modified: has(MODIFIED).then(|| time(modified)),
        })
    }

    fn node(&mut self) -> Read<NodeKind> {
        match (self.u8()?, self.u64()?) {
            (0, _) => Ok(NodeKind::File),
            (1, _) => Ok(NodeKind::Fifo),
            (2, _) => Ok(NodeKind::Socket),
            (3, device) => Ok(NodeKind::CharacterDevice(device)),
            (4, device) => Ok(NodeKind::BlockDevice(device)),
            _ => Err(RecordError::Malformed { what: "kind of node" }),
        }
    }

    fn flags(&mut self) -> Read<RenameFlags> {
        RenameFlags::from_bits(self.u32()?).ok_or(RecordError::Malformed { what: "flags" })
    }
}

impl<'a> Record<'a> {
    /// Reads the record that `bytes` begin with, and says how many of them it takes.
    ///
    /// # Errors
    /// When it is of a kind that is not known, longer than `bytes`, or not as it is written.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// assert!(Record::decode(b"this is none").is_err());
    /// # let mut bytes = vec![0; record().encoded_bytes()?];
    /// # record().encode(&mut bytes);
    /// let (decoded, taken_bytes) = Record::decode(&bytes)?;
    /// assert_eq!((decoded, taken_bytes), (record(), bytes.len()));
    /// # Ok(()) }
    /// ```
    pub fn decode(bytes: &'a [u8]) -> Result<(Record<'a>, usize), RecordError> {
        let mut reader = Reader { bytes };
        let length = reader.u32()? as usize;
        let kind = reader.u16()?;
        reader.u16()?;
        let body = bytes.get(HEADER_BYTES..length);
        let mut reader = Reader { bytes: body.ok_or(RecordError::Malformed { what: "length" })? };
        let record = match kind {
            WRITE => {
                let (file, offset) = (reader.place()?, reader.u64()?);
                Record::Write { file, offset, data: reader.bytes("data", DATA_BYTES_MAX)? }
            }
            TRUNCATE => Record::Truncate { file: reader.place()?, size: reader.u64()? },
            ALLOCATE => Record::Allocate {
                file: reader.place()?,
                mode: reader.u32()?,
                offset: reader.u64()?,
                length: reader.u64()?,
            },
            SET_ATTRIBUTES => {
                Record::SetAttributes { object: reader.place()?, change: reader.change()? }
            }
            CREATE => Record::Create(reader.made()?),
            MAKE_DIRECTORY => Record::MakeDirectory(reader.made()?),
            SYMLINK => {
                let made = reader.made()?;
                Record::Symlink { made, target: reader.text("target", TARGET_BYTES_MAX)? }
            }
            MAKE_NODE => Record::MakeNode { made: reader.made()?, kind: reader.node()? },
            LINK => Record::Link { object: reader.place()?, name: reader.name()? },
            RENAME => Record::Rename {
                object: reader.identity()?,
                from: reader.name()?,
                to: reader.name()?,
                replaced: reader.replaced()?,
                is_last: reader.flag()?,
                flags: reader.flags()?,
            },
            UNLINK => Record::Unlink {
                object: reader.identity()?,
                name: reader.name()?,
                is_last: reader.flag()?,
            },
            REMOVE_DIRECTORY => {
                Record::RemoveDirectory { object: reader.identity()?, name: reader.name()? }
            }
            SET_XATTR => {
                let object = reader.place()?;
                let name = reader.text("name", NAME_BYTES_MAX)?;
                Record::SetXattr { object, name, value: reader.bytes("value", VALUE_BYTES_MAX)? }
            }
            REMOVE_XATTR => {
                let object = reader.place()?;
                Record::RemoveXattr { object, name: reader.text("name", NAME_BYTES_MAX)? }
            }
            COMMITTED => Record::Committed { txg: reader.u64()? },
            kind => return Err(RecordError::Unknown { kind }),
        };
        if !reader.bytes.is_empty() {
            return Err(RecordError::Malformed { what: "length" });
        }
        Ok((record, length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = (u64, Option<(i64, u32)>, Vec<u8>)> {
        let born = prop::option::of((any::<i64>(), 0..=NANOSECONDS_MAX));
        (any::<u64>(), born, prop::collection::vec(any::<u8>(), 0..40))
    }

    type PlaceParts = (u64, Option<(i64, u32)>, Vec<u8>);

    fn as_place((object, born, path): &PlaceParts) -> Place<'_> {
        let born = born.map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds });
        Place { object: ObjectId(*object), born, path: OsStr::from_bytes(path) }
    }

    /// One record of each kind made of these parts.
    fn all<'a>(
        place: Place<'a>,
        other: Place<'a>,
        bytes: &'a [u8],
        [first, second]: [u64; 2],
    ) -> Vec<Record<'a>> {
        let text = OsStr::from_bytes(bytes);
        let (name, to) = (Name { parent: place, name: text }, Name { parent: other, name: text });
        let object = ObjectId(second);
        let born = place.born;
        let identity = Identity { object, born };
        let (replaced, is_last) = ((first & 1 == 0).then_some(other.identity()), first & 2 == 0);
        let (permissions, uid, gid) = (first as u32 & 0o7777, first as u32, second as u32);
        let made = Made { name, object, born, permissions, uid, gid };
        let time = SetTime::At(Timestamp { seconds: first as i64, nanoseconds: 5 });
        let change = SetAttributes {
            permissions: (first & 1 == 0).then_some(permissions),
            uid: (first & 2 == 0).then_some(uid),
            gid: (first & 4 == 0).then_some(gid),
            size: (first & 8 == 0).then_some(second),
            accessed: (first & 16 == 0).then_some(time),
            modified: (first & 32 == 0).then_some(SetTime::Now),
        };
        let kind = [
            NodeKind::File,
            NodeKind::Fifo,
            NodeKind::Socket,
            NodeKind::CharacterDevice(second),
            NodeKind::BlockDevice(second),
        ][(first % 5) as usize];
        let flags = RenameFlags::from_bits_truncate(first as u32);
        vec![
            Record::Write { file: place, offset: first, data: bytes },
            Record::Truncate { file: place, size: first },
            Record::Allocate { file: place, mode: 3, offset: first, length: second },
            Record::SetAttributes { object: place, change },
            Record::Create(made),
            Record::MakeDirectory(made),
            Record::Symlink { made, target: text },
            Record::MakeNode { made, kind },
            Record::Link { object: other, name },
            Record::Rename { object: identity, from: name, to, replaced, is_last, flags },
            Record::Unlink { object: identity, name, is_last },
            Record::RemoveDirectory { object: identity, name },
            Record::SetXattr { object: place, name: text, value: bytes },
            Record::RemoveXattr { object: place, name: text },
            Record::Committed { txg: first },
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            one in place(),
            two in place(),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            numbers: [u64; 2],
            rest in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            for record in all(as_place(&one), as_place(&two), &bytes, numbers) {
                let length = record.encoded_bytes().expect("short enough");
                let mut encoded = vec![0; length];
                record.encode(&mut encoded);
                encoded.extend_from_slice(&rest);
                prop_assert_eq!(Record::decode(&encoded), Ok((record, length)));
                // A prefix is never taken for a record.
                for cut in 0..length {
                    prop_assert!(Record::decode(&encoded[..cut]).is_err());
                }
                prop_assert!(!record.to_string().is_empty());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0_u16..20,
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut bytes = ((body.len() + HEADER_BYTES) as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(&u32::from(kind).to_le_bytes());
            bytes.extend_from_slice(&body);
            if let Ok((record, length)) = Record::decode(&bytes) {
                let mut again = vec![0; record.encoded_bytes().expect("short enough")];
                record.encode(&mut again);
                prop_assert_eq!(Record::decode(&again), Ok((record, length)));
            }
        }
    }

    #[test]
    fn long_fields_and_unknown_kinds_are_refused() {
        let data = vec![0; DATA_BYTES_MAX + 1];
        let file = Place { object: ObjectId(1), born: None, path: OsStr::new("a") };
        let long = Record::Write { file, offset: 0, data: &data }.encoded_bytes();
        let bytes = DATA_BYTES_MAX + 1;
        let expected = RecordError::TooLong { what: "data", bytes, limit: DATA_BYTES_MAX };
        assert_eq!(long, Err(expected));
        let unknown = [8, 0, 0, 0, 99, 0, 0, 0];
        assert_eq!(Record::decode(&unknown), Err(RecordError::Unknown { kind: 99 }));
        assert_eq!(Record::decode(&[]), Err(RecordError::Malformed { what: "length" }));
    }
}
