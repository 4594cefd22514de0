use std::ffi::OsStr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use storage::{Attributes, ObjectId};

use crate::counters::{Counter, Counters};
use crate::datasets::{Dataset, DatasetCursor};
use crate::dirty::Dirty;
use crate::file::OpenFile;
use crate::heap::shared_block_bytes;
use crate::property::Properties;
use crate::range_lock::RangeLock;
use crate::reader::Reader;
use crate::stream::Streams;
use crate::version::Version;

/// Bytes of RAM that an object in use takes in the tables by which it is found, here and in a
/// directory origin, when these are half way between two doublings.
const TABLES_BYTES: u64 = 264;
/// Those that it takes here besides, its name apart.
const OBJECT_BYTES: u64 =
    (shared_block_bytes(size_of::<Object>()) + shared_block_bytes(size_of::<Place>())) as u64;
/// How often its name is held: here, and by the origin.
const NAMES_HELD: u64 = 2;

/// An object that somebody refers to: the kernel by its inode number, or an open file.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    /// Bytes of RAM that it is charged while it is in use.
    pub(crate) charged_bytes: u64,
    /// References by look-ups and open files; the table drops the object at zero.
    pub(crate) uses: AtomicU64,
    /// Read by every hit: looking at it writes nothing that others read.
    place: ArcSwap<Place>,
    version: Mutex<Version>,
    /// Open files that the origin does not know of yet.
    postponed: Mutex<Vec<Weak<OpenFile>>>,
    /// How often whoever stands above is just being told that its contents are others.
    former_contents: AtomicU64,
    /// Somebody has looked at it whose use counts.
    is_used: AtomicBool,
    /// It has been asked for again since it was made, or since the clock hand came by.
    is_touched: AtomicBool,
    /// Held over each question for attributes with the taking in of the answer, so that an older
    /// answer never follows a newer one.
    pub(crate) attributes_turn: futures::lock::Mutex<()>,
    /// Of a file: its bytes. Of a directory: byte 0 stands for all of its names.
    pub(crate) ranges: RangeLock,
    pub(crate) dirty: Dirty,
    /// Open files that refer to it.
    pub(crate) opens: AtomicU64,
    naming: AtomicU64,
    /// The origin knows of it no longer.
    is_gone: AtomicBool,
    /// It is known to have no capability.
    is_without_capability: AtomicBool,
    pub(crate) streams: Mutex<Streams>,
}

/// Where in the tree an object was found last, and what follows from it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The directory and the name in it; `None` for the root and for unnamed files.
    pub(crate) parent: Option<(ObjectId, Arc<OsStr>)>,
    pub(crate) cursor: DatasetCursor,
    pub(crate) tenant: Tenant,
    /// The state of the dataset tree in which this was worked out.
    pub(crate) epoch: u64,
}

/// A look at a place, which costs no shared count.
pub(crate) type PlaceGuard = arc_swap::Guard<Arc<Place>>;

/// A dataset together with its counters, and for whom it is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) reader: Reader,
}

impl Tenant {
    /// The effective properties at this moment.
    pub(crate) fn properties(&self) -> Properties {
        self.dataset.properties()
    }

    /// The same for `reader`.
    pub(crate) fn read_by(self, reader: Reader) -> Tenant {
        Tenant { reader, ..self }
    }

    /// Counts hits.
    pub(crate) fn hit(&self, counter: Counter, count: u64) {
        self.counters.add(counter, count);
        if !self.promotes() {
            self.counters.add(Counter::UnpromotedHits, count);
        }
    }

    /// Whether what is read counts as use.
    pub(crate) fn promotes(&self) -> bool {
        self.reader.promotes(&self.properties())
    }

    /// Whose use it is, if it counts.
    pub(crate) fn user(&self) -> Option<u32> {
        self.promotes().then(|| self.dataset.id())
    }
}

/// How often an object has been found under a name, in steps of [`FOUND`], and whether it has lost
/// the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Naming(u64);

const NAMELESS: u64 = 1;
const FOUND: u64 = 2;

/// What a read needs to know of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    pub(crate) generation: u64,
    pub(crate) record_bytes: u64,
}

impl Layout {
    /// The records that hold any byte of `range`.
    pub(crate) fn records(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.record_bytes..range.end.div_ceil(self.record_bytes)
    }

    /// The bytes of record `number`, cut at the end of the object.
    pub(crate) fn record_range(&self, number: u64) -> Range<u64> {
        let start = number * self.record_bytes;
        start..(start + self.record_bytes).min(self.size).max(start)
    }

    /// `range` widened to whole records, not cut at the end of the object.
    pub(crate) fn widened(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start / self.record_bytes * self.record_bytes;
        start..range.end.checked_next_multiple_of(self.record_bytes).unwrap_or(u64::MAX)
    }
}

impl Object {
    pub(crate) fn new(id: ObjectId, place: Place, version: Version) -> Object {
        let name_bytes =
            place.parent.as_ref().map_or(0, |(_, name)| shared_block_bytes(name.len()));
        Object {
            id,
            charged_bytes: OBJECT_BYTES + TABLES_BYTES + NAMES_HELD * name_bytes as u64,
            uses: AtomicU64::new(0),
            place: ArcSwap::from_pointee(place),
            version: Mutex::new(version),
            postponed: Mutex::default(),
            former_contents: AtomicU64::new(0),
            is_used: AtomicBool::new(false),
            is_touched: AtomicBool::new(false),
            attributes_turn: futures::lock::Mutex::new(()),
            ranges: RangeLock::default(),
            dirty: Dirty::default(),
            opens: AtomicU64::new(0),
            naming: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            is_without_capability: AtomicBool::new(false),
            streams: Mutex::default(),
        }
    }

    /// A look at the place; to be held for a moment only.
    pub(crate) fn place(&self) -> PlaceGuard {
        self.place.load()
    }

    pub(crate) fn set_place(&self, place: Place) {
        self.place.store(Arc::new(place));
    }

    /// A copy of what is known.
    pub(crate) fn version(&self) -> Version {
        *self.version.lock()
    }

    /// Changes what is known.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Version) -> T) -> T {
        change(&mut self.version.lock())
    }

    /// Present attributes as far as known.
    pub(crate) fn attributes(&self) -> Attributes {
        self.version.lock().attributes
    }

    /// Notes whether it is known to have no capability.
    pub(crate) fn set_without_capability(&self, known: bool) {
        self.is_without_capability.store(known, Ordering::SeqCst);
    }

    /// Whether it is known to have no capability.
    pub(crate) fn is_without_capability(&self) -> bool {
        self.is_without_capability.load(Ordering::SeqCst)
    }

    /// Notes that it has been found under a name, or that it never had one. The id of one that has
    /// lost its last name may come back for another.
    pub(crate) fn found_under(&self, has_name: bool) {
        let found =
            |before| Some((before & !NAMELESS) + FOUND + if has_name { 0 } else { NAMELESS });
        self.naming.fetch_update(Ordering::SeqCst, Ordering::SeqCst, found).ok();
    }

    /// What is known of its names, to be looked at before one is taken away.
    pub(crate) fn naming(&self) -> Naming {
        Naming(self.naming.load(Ordering::SeqCst))
    }

    /// Notes that it has lost its last name, unless it has been found under one since `naming`: the
    /// origin may have given its id to another by the time at which the loss is noted.
    pub(crate) fn lost_last_name(&self, Naming(before): Naming) {
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        self.naming.compare_exchange(before, before | NAMELESS, success, failure).ok();
    }

    /// Whether it has lost its last name.
    pub(crate) fn is_nameless(&self) -> bool {
        self.naming.load(Ordering::SeqCst) & NAMELESS != 0
    }

    /// Notes whether the origin knows of it when it is asked.
    pub(crate) fn set_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Relaxed);
    }

    /// Whether nothing can lead to the contents any more once the last use has ended.
    pub(crate) fn is_gone_for_good(&self) -> bool {
        self.is_nameless() || self.is_gone.load(Ordering::Relaxed) || self.attributes().links == 0
    }

    /// Whether it has lost its last name, and nobody has it open: nobody will read it any more.
    pub(crate) fn is_orphan(&self) -> bool {
        self.is_nameless() && self.opens.load(Ordering::SeqCst) == 0
    }

    /// Notes that the telling of other contents begins.
    pub(crate) fn begin_telling(&self) {
        self.former_contents.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that it has ended.
    pub(crate) fn end_telling(&self) {
        let before = self.former_contents.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a telling ends that never began");
    }

    /// Whether whoever stands above may have former contents.
    pub(crate) fn has_former_contents(&self) -> bool {
        self.former_contents.load(Ordering::SeqCst) > 0
    }

    /// Notes that `reader` has looked at it.
    pub(crate) fn used_by(&self, reader: Reader) {
        if reader == Reader::Counted && !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that it has been asked for.
    pub(crate) fn touch(&self) {
        if !self.is_touched.load(Ordering::Relaxed) {
            self.is_touched.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it has been asked for since this was last called.
    pub(crate) fn take_touch(&self) -> bool {
        self.is_touched.swap(false, Ordering::Relaxed)
    }

    /// Whether nothing but the memory of a name holds it.
    pub(crate) fn can_be_forgotten(&self) -> bool {
        self.opens.load(Ordering::SeqCst) == 0 && !self.dirty.is_dirty() && !self.is_nameless()
    }

    /// As whom it was looked at: counted if anybody was.
    pub(crate) fn reader(&self) -> Reader {
        match self.is_used.load(Ordering::Relaxed) {
            true => Reader::Counted,
            false => Reader::Passing,
        }
    }

    /// Notes an open file that the origin does not know of yet.
    pub(crate) fn postpone(&self, file: &Arc<OpenFile>) {
        let mut postponed = self.postponed.lock();
        postponed.retain(|file| file.strong_count() > 0);
        postponed.push(Arc::downgrade(file));
    }

    /// The open files that the origin does not know of yet; they are not told again.
    pub(crate) fn take_postponed(&self) -> Vec<Arc<OpenFile>> {
        self.postponed.lock().drain(..).filter_map(|file| file.upgrade()).collect()
    }

    /// How the contents are cut into records now, if they may be read without asking the origin.
    pub(crate) fn readable_layout(&self, properties: &Properties, now: Duration) -> Option<Layout> {
        let version = self.version.lock();
        let same_records = version.record_bytes == properties.recordsize;
        (same_records && version.is_readable(properties.coherence, now)).then(|| Layout {
            size: version.attributes.size,
            generation: version.generation,
            record_bytes: version.record_bytes,
        })
    }

    /// How the contents are cut into records now. Switches to `record_bytes` when the records have
    /// another size, and gives the version whose records nothing leads to any more.
    pub(crate) fn layout(&self, record_bytes: u64) -> (Layout, Option<Version>) {
        let mut version = self.version.lock();
        let mut former = None;
        if version.record_bytes != record_bytes {
            former = Some(*version);
            version.renew(record_bytes);
        }
        let size = version.attributes.size;
        (Layout { size, generation: version.generation, record_bytes }, former)
    }
}
