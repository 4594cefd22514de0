use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use rustix::io::{Errno, Result};

use super::contents::Contents;
use crate::{
    Attributes, Caller, DirectoryEntry, Entry, Kind, ObjectId, RenameFlags, SetAttributes, SetTime,
    SpaceUsage, Timestamp, XattrMode,
};

/// Longest name in bytes.
const NAME_MAX: usize = 255;

/// Most links to one object.
const LINKS_MAX: u32 = 65_000;

/// Largest value of an extended attribute in bytes.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Largest size of a file in bytes.
const SIZE_MAX: u64 = i64::MAX as u64;

/// The space that is said to be there, in bytes and in objects.
const SPACE_BYTES: u64 = 1 << 40;
const SPACE_FILES: u64 = 1 << 20;

const SET_GROUP_ID: u32 = 0o2000;

/// Everything that an origin in memory holds.
#[derive(Debug, Clone)]
pub(super) struct State {
    objects: HashMap<ObjectId, Object>,
    moment: Moment,
    /// Ids of objects that are gone come back.
    reuses_ids: bool,
}

/// What decides which id and which time come next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The id of the next object.
    pub next: u64,
    ticks: u64,
}

#[derive(Debug, Clone)]
struct Object {
    attributes: Attributes,
    body: Body,
    xattrs: BTreeMap<OsString, Vec<u8>>,
    opens: u64,
}

/// What an object holds beside its attributes.
#[derive(Debug, Clone)]
pub(super) enum Body {
    File(Contents),
    Directory { names: BTreeMap<OsString, ObjectId>, parent: ObjectId },
    Symlink(OsString),
    Special { kind: Kind, device: u64 },
}

impl Body {
    fn kind(&self) -> Kind {
        match self {
            Body::File(_) => Kind::File,
            Body::Directory { .. } => Kind::Directory,
            Body::Symlink(_) => Kind::Symlink,
            Body::Special { kind, .. } => *kind,
        }
    }
}

pub(super) const ROOT: ObjectId = ObjectId(1);

/// Refuses ranges beyond the largest file.
pub(super) fn is_too_far(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= SIZE_MAX => Ok(()),
        _ => Err(Errno::FBIG),
    }
}

impl State {
    pub fn new(reuses_ids: bool) -> State {
        let moment = Moment { next: ROOT.0, ticks: 0 };
        let mut state = State { objects: HashMap::new(), moment, reuses_ids };
        let body = Body::Directory { names: BTreeMap::new(), parent: ROOT };
        let root = state.insert(body, 0o755, Caller { uid: 0, gid: 0, umask: 0 });
        assert_eq!(root, ROOT, "the root is the first object");
        state.objects.entry(root).and_modify(|object| object.attributes.links = 2);
        state
    }

    /// A time later than all before, one nanosecond a step.
    fn tick(&mut self) -> Timestamp {
        const START_SECONDS: i64 = 1_000_000_000;
        const SECOND: u64 = 1_000_000_000;
        self.moment.ticks += 1;
        let ticks = self.moment.ticks;
        let seconds = START_SECONDS.saturating_add_unsigned(ticks / SECOND);
        Timestamp { seconds, nanoseconds: (ticks % SECOND) as u32 }
    }

    /// `ESTALE` where the object is gone.
    fn object(&self, object: ObjectId) -> Result<&Object> {
        self.objects.get(&object).ok_or(Errno::STALE)
    }

    fn object_mut(&mut self, object: ObjectId) -> Result<&mut Object> {
        self.objects.get_mut(&object).ok_or(Errno::STALE)
    }

    fn names(&self, directory: ObjectId) -> Result<&BTreeMap<OsString, ObjectId>> {
        match &self.object(directory)?.body {
            Body::Directory { names, .. } => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The names of a directory that are about to change, with its times.
    fn names_mut(&mut self, directory: ObjectId) -> Result<&mut BTreeMap<OsString, ObjectId>> {
        let now = self.tick();
        let object = self.object_mut(directory)?;
        let Body::Directory { names, .. } = &mut object.body else { return Err(Errno::NOTDIR) };
        object.attributes.modified = now;
        object.attributes.changed = now;
        Ok(names)
    }

    fn child(&self, parent: ObjectId, name: &OsStr) -> Result<Option<ObjectId>> {
        match name.as_bytes() {
            b"" => return Err(Errno::NOENT),
            b"." | b".." => return Err(Errno::INVAL),
            bytes if bytes.contains(&b'/') || bytes.contains(&0) => return Err(Errno::INVAL),
            bytes if bytes.len() > NAME_MAX => return Err(Errno::NAMETOOLONG),
            _ => {}
        }
        Ok(self.names(parent)?.get(name).copied())
    }

    fn entry(&self, object: ObjectId) -> Result<Entry> {
        Ok(Entry { object, attributes: self.attributes(object)? })
    }

    pub fn attributes(&self, object: ObjectId) -> Result<Attributes> {
        let object = self.object(object)?;
        let mut attributes = object.attributes;
        match &object.body {
            Body::File(contents) => {
                attributes.size = contents.size();
                attributes.blocks_512 = contents.allocated() / 512;
            }
            Body::Directory { names, .. } => attributes.size = names.len() as u64 * 32,
            Body::Symlink(target) => attributes.size = target.len() as u64,
            Body::Special { device, .. } => attributes.device = *device,
        }
        Ok(attributes)
    }

    pub fn lookup(&self, parent: ObjectId, name: &OsStr) -> Result<Entry> {
        self.entry(self.child(parent, name)?.ok_or(Errno::NOENT)?)
    }

    pub fn list(&self, directory: ObjectId) -> Result<Vec<DirectoryEntry>> {
        let names = self.names(directory)?.iter();
        names
            .map(|(name, &object)| {
                let kind = Some(self.object(object)?.body.kind());
                Ok(DirectoryEntry { name: name.clone(), object, kind })
            })
            .collect()
    }

    pub fn read_link(&self, object: ObjectId) -> Result<OsString> {
        match &self.object(object)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    fn insert(&mut self, body: Body, permissions: u32, caller: Caller) -> ObjectId {
        let id = ObjectId(self.moment.next);
        let now = self.tick();
        let permissions = match body {
            Body::Symlink(_) => 0o777,
            _ => permissions & 0o7777 & !(caller.umask & 0o777),
        };
        let attributes = Attributes {
            kind: body.kind(),
            permissions,
            links: 0,
            uid: caller.uid,
            gid: caller.gid,
            size: 0,
            blocks_512: 0,
            block_size: 4096,
            device: 0,
            accessed: now,
            modified: now,
            changed: now,
            born: Some(now),
        };
        self.objects.insert(id, Object { attributes, body, xattrs: BTreeMap::new(), opens: 0 });
        self.moment.next += 1;
        self.skip_ids_in_use();
        id
    }

    fn skip_ids_in_use(&mut self) {
        while self.objects.contains_key(&ObjectId(self.moment.next)) {
            self.moment.next += 1;
        }
    }

    /// Where it stands.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Goes on as it did from a moment on.
    pub fn go_to(&mut self, moment: Moment) {
        self.moment = moment;
    }

    /// What a machine finds that starts anew at a moment: nothing is open, and what has no name
    /// is gone.
    pub fn start_anew(&mut self, moment: Moment) {
        self.objects.retain(|_, object| object.attributes.links > 0);
        self.objects.values_mut().for_each(|object| object.opens = 0);
        self.moment.ticks = moment.ticks;
        if self.reuses_ids {
            self.moment.next = ROOT.0;
        }
        self.skip_ids_in_use();
    }

    /// Makes an object, with a name unless `name` is `None`.
    pub fn make(
        &mut self,
        parent: ObjectId,
        name: Option<&OsStr>,
        mut body: Body,
        mut permissions: u32,
        mut caller: Caller,
    ) -> Result<Entry> {
        self.names(parent)?;
        if let Some(name) = name
            && self.child(parent, name)?.is_some()
        {
            return Err(Errno::EXIST);
        }
        let above = self.attributes(parent)?;
        if above.permissions & SET_GROUP_ID != 0 {
            caller.gid = above.gid;
            if body.kind() == Kind::Directory {
                permissions |= SET_GROUP_ID;
            }
        }
        if let Body::Directory { parent: above, .. } = &mut body {
            *above = parent;
        }
        let id = self.insert(body, permissions, caller);
        if let Some(name) = name {
            self.add_name(parent, name, id)?;
        }
        self.entry(id)
    }

    fn add_name(&mut self, parent: ObjectId, name: &OsStr, id: ObjectId) -> Result<()> {
        self.names_mut(parent)?.insert(name.to_owned(), id);
        let now = self.tick();
        let object = self.object_mut(id)?;
        object.attributes.changed = now;
        object.attributes.links += 1;
        if let Body::Directory { parent: above, .. } = &mut object.body {
            // Its own `.` counts for it, its `..` for the directory above.
            *above = parent;
            object.attributes.links += 1;
            self.object_mut(parent)?.attributes.links += 1;
        }
        Ok(())
    }

    fn remove_name(&mut self, parent: ObjectId, name: &OsStr) -> Result<()> {
        let Some(id) = self.names_mut(parent)?.remove(name) else { return Err(Errno::NOENT) };
        let now = self.tick();
        let object = self.object_mut(id)?;
        object.attributes.changed = now;
        object.attributes.links -= 1;
        if object.body.kind() == Kind::Directory {
            object.attributes.links -= 1;
            self.object_mut(parent)?.attributes.links -= 1;
        }
        Ok(())
    }

    /// Drops an object that has neither a name nor an open file.
    fn collect(&mut self, id: ObjectId) {
        let idle = |object: &Object| object.attributes.links == 0 && object.opens == 0;
        if self.objects.get(&id).is_some_and(idle) {
            self.objects.remove(&id);
            if self.reuses_ids {
                self.moment.next = self.moment.next.min(id.0);
            }
        }
    }

    pub fn opened(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.opens += 1;
        }
    }

    pub fn closed(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.opens -= 1;
        }
        self.collect(id);
    }

    pub fn link(&mut self, object: ObjectId, parent: ObjectId, name: &OsStr) -> Result<Entry> {
        if self.child(parent, name)?.is_some() {
            return Err(Errno::EXIST);
        }
        let attributes = self.attributes(object)?;
        if attributes.kind == Kind::Directory {
            return Err(Errno::PERM);
        }
        if attributes.links >= LINKS_MAX {
            return Err(Errno::MLINK);
        }
        self.add_name(parent, name, object)?;
        self.entry(object)
    }

    pub fn unlink(&mut self, parent: ObjectId, name: &OsStr) -> Result<()> {
        let id = self.child(parent, name)?.ok_or(Errno::NOENT)?;
        if self.object(id)?.body.kind() == Kind::Directory {
            return Err(Errno::ISDIR);
        }
        self.remove_name(parent, name)?;
        self.collect(id);
        Ok(())
    }

    pub fn remove_directory(&mut self, parent: ObjectId, name: &OsStr) -> Result<()> {
        let id = self.child(parent, name)?.ok_or(Errno::NOENT)?;
        if !self.names(id)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.remove_name(parent, name)?;
        self.collect(id);
        Ok(())
    }

    /// Whether `object` is the directory `above` or lies below it.
    fn is_below(&self, object: ObjectId, above: ObjectId) -> Result<bool> {
        let mut current = object;
        while current != above {
            match &self.object(current)?.body {
                Body::Directory { parent, .. } if *parent != current => current = *parent,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    pub fn rename(
        &mut self,
        (parent, name): (ObjectId, &OsStr),
        (new_parent, new_name): (ObjectId, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        if exchange && flags.intersects(RenameFlags::NO_REPLACE | RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL);
        }
        let id = self.child(parent, name)?.ok_or(Errno::NOENT)?;
        let target = self.child(new_parent, new_name)?;
        if target.is_some() && flags.contains(RenameFlags::NO_REPLACE) {
            return Err(Errno::EXIST);
        }
        if exchange && target.is_none() {
            return Err(Errno::NOENT);
        }
        let directory = self.object(id)?.body.kind() == Kind::Directory;
        if directory && self.is_below(new_parent, id)? {
            return Err(Errno::INVAL);
        }
        if target == Some(id) {
            return Ok(());
        }
        if let Some(target) = target {
            let replaces_directory = self.object(target)?.body.kind() == Kind::Directory;
            if replaces_directory && self.is_below(parent, target)? {
                return Err(if exchange { Errno::INVAL } else { Errno::NOTEMPTY });
            }
            match (directory, replaces_directory) {
                _ if exchange => {}
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.names(target)?.is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            }
            self.remove_name(new_parent, new_name)?;
        }
        self.remove_name(parent, name)?;
        self.add_name(new_parent, new_name, id)?;
        match target {
            Some(target) if exchange => self.add_name(parent, name, target)?,
            Some(target) => self.collect(target),
            None => {}
        }
        if flags.contains(RenameFlags::WHITEOUT) {
            let whiteout = Body::Special { kind: Kind::CharacterDevice, device: 0 };
            self.make(parent, Some(name), whiteout, 0, Caller { uid: 0, gid: 0, umask: 0 })?;
        }
        Ok(())
    }

    pub fn set_attributes(&mut self, id: ObjectId, change: SetAttributes) -> Result<Attributes> {
        let now = self.tick();
        let object = self.object_mut(id)?;
        let at = |time| match time {
            SetTime::Now => Ok(now),
            SetTime::At(time) if time.nanoseconds < 1_000_000_000 => Ok(time),
            SetTime::At(_) => Err(Errno::INVAL),
        };
        let (accessed, modified) =
            (change.accessed.map(at).transpose()?, change.modified.map(at).transpose()?);
        if let Some(size) = change.size {
            match &mut object.body {
                Body::File(contents) if size <= SIZE_MAX => contents.resize(size),
                Body::File(_) => return Err(Errno::FBIG),
                Body::Directory { .. } => return Err(Errno::ISDIR),
                _ => return Err(Errno::INVAL),
            }
            object.attributes.modified = now;
        }
        let attributes = &mut object.attributes;
        if change.uid.is_some() || change.gid.is_some() {
            attributes.uid = change.uid.unwrap_or(attributes.uid);
            attributes.gid = change.gid.unwrap_or(attributes.gid);
            if attributes.kind != Kind::Directory {
                // As Linux does: a set-group-id bit without execution by the group is a lock mark.
                let group = if attributes.permissions & 0o010 != 0 { SET_GROUP_ID } else { 0 };
                attributes.permissions &= !(0o4000 | group);
            }
        }
        if let Some(permissions) = change.permissions {
            if attributes.kind == Kind::Symlink {
                return Err(Errno::OPNOTSUPP);
            }
            attributes.permissions = permissions & 0o7777;
        }
        attributes.accessed = accessed.unwrap_or(attributes.accessed);
        attributes.modified = modified.unwrap_or(attributes.modified);
        if change != SetAttributes::default() {
            attributes.changed = now;
        }
        self.attributes(id)
    }

    pub fn contents(&self, id: ObjectId) -> Result<&Contents> {
        match &self.object(id)?.body {
            Body::File(contents) => Ok(contents),
            Body::Directory { .. } => Err(Errno::ISDIR),
            Body::Symlink(_) => Err(Errno::LOOP),
            Body::Special { .. } => Err(Errno::INVAL),
        }
    }

    /// Changes the bytes of a file, and its times when that succeeds.
    pub fn change_contents<T>(
        &mut self,
        id: ObjectId,
        call: impl FnOnce(&mut Contents) -> Result<T>,
    ) -> Result<T> {
        self.contents(id)?;
        let now = self.tick();
        let object = self.object_mut(id)?;
        let Body::File(contents) = &mut object.body else { return Err(Errno::INVAL) };
        let result = call(contents)?;
        object.attributes.modified = now;
        object.attributes.changed = now;
        Ok(result)
    }

    /// Whether an object of this kind may have an attribute of this name.
    fn check_xattr(&self, id: ObjectId, name: &OsStr) -> Result<()> {
        let name = name.as_bytes();
        let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
        let Some(space) = spaces.iter().find(|space| name.starts_with(space)) else {
            return Err(Errno::OPNOTSUPP);
        };
        if name.len() > NAME_MAX {
            return Err(Errno::RANGE);
        }
        let kind = self.object(id)?.body.kind();
        match *space == b"user." && !matches!(kind, Kind::File | Kind::Directory) {
            true => Err(Errno::PERM),
            false => Ok(()),
        }
    }

    pub fn xattr(&self, id: ObjectId, name: &OsStr) -> Result<Vec<u8>> {
        match self.check_xattr(id, name) {
            Err(Errno::PERM) => return Err(Errno::NODATA),
            checked => checked?,
        }
        self.object(id)?.xattrs.get(name).cloned().ok_or(Errno::NODATA)
    }

    pub fn xattrs(&self, id: ObjectId) -> Result<Vec<OsString>> {
        Ok(self.object(id)?.xattrs.keys().cloned().collect())
    }

    pub fn set_xattr(
        &mut self,
        id: ObjectId,
        name: &OsStr,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.check_xattr(id, name)?;
        if value.len() > XATTR_BYTES_MAX {
            return Err(Errno::TOOBIG);
        }
        let now = self.tick();
        let object = self.object_mut(id)?;
        match (mode, object.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::EXIST),
            (XattrMode::Replace, false) => return Err(Errno::NODATA),
            _ => {}
        }
        object.xattrs.insert(name.to_owned(), value.to_vec());
        object.attributes.changed = now;
        Ok(())
    }

    pub fn remove_xattr(&mut self, id: ObjectId, name: &OsStr) -> Result<()> {
        self.check_xattr(id, name)?;
        let now = self.tick();
        let object = self.object_mut(id)?;
        object.xattrs.remove(name).ok_or(Errno::NODATA)?;
        object.attributes.changed = now;
        Ok(())
    }

    pub fn space(&self) -> SpaceUsage {
        const BLOCK: u64 = 4096;
        let used: u64 = self
            .objects
            .values()
            .map(|object| match &object.body {
                Body::File(contents) => contents.allocated() / BLOCK,
                _ => 1,
            })
            .sum();
        let free = (SPACE_BYTES / BLOCK).saturating_sub(used);
        SpaceUsage {
            block_size: BLOCK as u32,
            blocks: SPACE_BYTES / BLOCK,
            blocks_free: free,
            blocks_available: free,
            files: SPACE_FILES,
            files_free: SPACE_FILES.saturating_sub(self.objects.len() as u64),
            name_length_max: NAME_MAX as u32,
        }
    }
}
