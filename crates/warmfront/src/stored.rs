//! The bytes of metadata answers on flash, as `docs/format.md` describes them.
//!
//! Flash has checked the sum and the key of what it gives; the decoder takes nothing for granted
//! nevertheless.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use storage::{DirectoryEntry, Kind, ObjectId};

use crate::answer::Content;

/// Longest answer that is kept on flash, bytes.
pub(crate) const STORED_BYTES_MAX: usize = 256 << 10;
/// The first byte of each.
const FORM: u8 = 1;

const LISTING: u8 = 1;
const LINK: u8 = 2;
const XATTR_NAMES: u8 = 3;
const XATTR: u8 = 4;

/// Object, kind and length of the name: the least that an entry of a listing takes.
const ENTRY_BYTES_MIN: usize = 8 + 1 + 2;

const KINDS: [Kind; 7] = [
    Kind::File,
    Kind::Directory,
    Kind::Symlink,
    Kind::Fifo,
    Kind::Socket,
    Kind::CharacterDevice,
    Kind::BlockDevice,
];

/// The bytes of an answer; `None` for what is not kept on flash, or is too long.
pub(crate) fn encode(content: &Content) -> Option<Vec<u8>> {
    let mut bytes = vec![FORM];
    match content {
        Content::Attributes(_) | Content::Name { .. } => return None,
        Content::Listing { listing, .. } => {
            bytes.push(LISTING);
            put_count(&mut bytes, listing.len())?;
            for entry in listing.iter() {
                bytes.extend(entry.object.0.to_le_bytes());
                let kind = entry.kind.and_then(|kind| KINDS.iter().position(|it| *it == kind));
                bytes.push(kind.map_or(0, |kind| kind as u8 + 1));
                put_name(&mut bytes, &entry.name)?;
            }
        }
        Content::Link(target) => {
            bytes.push(LINK);
            bytes.extend(target.as_bytes());
        }
        Content::XattrNames(names) => {
            bytes.push(XATTR_NAMES);
            put_count(&mut bytes, names.len())?;
            names.iter().try_for_each(|name| put_name(&mut bytes, name))?;
        }
        Content::Xattr { name, value } => {
            bytes.push(XATTR);
            put_name(&mut bytes, name)?;
            bytes.push(value.is_some().into());
            bytes.extend(value.iter().flat_map(|value| value.iter()));
        }
    }
    (bytes.len() <= STORED_BYTES_MAX).then_some(bytes)
}

fn put_count(bytes: &mut Vec<u8>, count: usize) -> Option<()> {
    bytes.extend(u32::try_from(count).ok()?.to_le_bytes());
    Some(())
}

fn put_name(bytes: &mut Vec<u8>, name: &OsStr) -> Option<()> {
    bytes.extend(u16::try_from(name.len()).ok()?.to_le_bytes());
    bytes.extend(name.as_bytes());
    Some(())
}

/// The answer that these bytes hold; a listing is as of `generation`.
pub(crate) fn decode(bytes: &[u8], generation: u64) -> Option<Content> {
    let mut rest = Rest(bytes.strip_prefix(&[FORM])?);
    let content = match rest.byte()? {
        LISTING => {
            let count = rest.count(ENTRY_BYTES_MIN)?;
            let mut listing = Vec::with_capacity(count);
            for _ in 0..count {
                let object = ObjectId(u64::from_le_bytes(rest.array()?));
                let kind = match rest.byte()? {
                    0 => None,
                    number => Some(*KINDS.get(usize::from(number) - 1)?),
                };
                listing.push(DirectoryEntry { name: rest.name()?, object, kind });
            }
            Content::Listing { generation, listing: Arc::new(listing) }
        }
        LINK => Content::Link(Arc::new(OsString::from_vec(rest.all().to_vec()))),
        XATTR_NAMES => {
            let count = rest.count(2)?;
            let names: Option<Vec<OsString>> = (0..count).map(|_| rest.name()).collect();
            Content::XattrNames(Arc::new(names?))
        }
        XATTR => {
            let name = rest.name()?.into_boxed_os_str();
            let value = match rest.byte()? {
                0 => None,
                1 => Some(Arc::new(rest.all().to_vec())),
                _ => return None,
            };
            Content::Xattr { name, value }
        }
        _ => return None,
    };
    rest.0.is_empty().then_some(content)
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        self.take(LENGTH)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    /// A number of things of at least so many bytes each, that there can be.
    fn count(&mut self, bytes_each: usize) -> Option<usize> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        (count <= self.0.len() / bytes_each).then_some(count)
    }

    fn name(&mut self) -> Option<OsString> {
        let length = u16::from_le_bytes(self.array()?);
        Some(OsString::from_vec(self.take(length.into())?.to_vec()))
    }
}

/// For the fuzzer: whether the bytes are an answer.
///
/// # Panics
/// When they are, and are not written the same way again.
#[doc(hidden)]
pub fn check_stored(bytes: &[u8]) -> bool {
    let Some(content) = decode(bytes, 0) else { return false };
    let again = encode(&content);
    assert!(bytes.len() > STORED_BYTES_MAX || again.as_deref() == Some(bytes), "{content:?}");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Vec<Content> {
        let entry = |name: &str, kind| DirectoryEntry {
            name: name.into(),
            object: ObjectId(name.len() as u64),
            kind,
        };
        let listing = vec![
            entry("file", Some(Kind::File)),
            entry("socket", Some(Kind::Socket)),
            entry("unknown", None),
        ];
        vec![
            Content::Listing { generation: 7, listing: Arc::new(listing) },
            Content::Listing { generation: 7, listing: Arc::default() },
            Content::Link(Arc::new("../else/where".into())),
            Content::XattrNames(Arc::new(vec!["user.a".into(), "security.b".into()])),
            Content::Xattr { name: OsStr::new("user.a").into(), value: None },
            Content::Xattr {
                name: OsStr::new("user.a").into(),
                value: Some(Arc::new(vec![0, 255])),
            },
        ]
    }

    #[test]
    fn answers_come_back_as_they_were() {
        for answer in answers() {
            let bytes = encode(&answer).expect("it is kept");
            let again = decode(&bytes, 7).expect("it is one");
            assert_eq!(format!("{answer:?}"), format!("{again:?}"));
        }
    }

    #[test]
    fn damage_is_found_or_harmless() {
        for answer in answers() {
            let bytes = encode(&answer).expect("it is kept");
            for length in 0..bytes.len() {
                check_stored(&bytes[..length]);
            }
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    check_stored(&damaged);
                }
            }
        }
        assert!(decode(&[FORM, LISTING, 255, 255, 255, 255], 0).is_none(), "no room is made");
    }
}
