//! What is known of the RAM level, written down for the next start.
//!
//! ```text
//! magic "WFSNAP02" | xxh3 of the rest, 8 bytes, little-endian | the snapshot, in postcard's form
//! ```
//!
//! It holds answers of the origin and the keys of the hottest records, not the records: these lie
//! on flash or at the origin; and what the ARC has learned, ghosts and targets. Whatever does not
//! read back well is as if it were not there.

mod learned;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc::{Class, List, Location, Moment, Queue, Standing};
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use storage::{DirectoryEntry, Kind, ObjectId, OpenMode};
use xxhash_rust::xxh3::xxh3_64;

use self::learned::Learned;
use crate::answer::{Cached, Content};
use crate::counters::Counter;
use crate::key::{Key, Part};
use crate::memory::{ChargedApart, RANKED_BYTES};
use crate::object::Tenant;
use crate::pool::Pool;
use crate::property::{CacheLevel, Coherence};
use crate::record::Record;
use crate::version::{SavedVersion, Version};

const MAGIC: &[u8; 8] = b"WFSNAP02";
/// Magic and checksum.
const HEAD_BYTES: usize = MAGIC.len() + 8;
/// What a key takes while it is written down: in the list by heat, and in its saved forms, which
/// grow by doubling.
const KEY_BYTES: u64 = RANKED_BYTES + (2 * size_of::<SavedRecord>() + 2 * SAVED_BYTES_MAX) as u64;
/// The longest form of a saved record, bytes.
const SAVED_BYTES_MAX: usize = 5 + 3 * 10 + STANDING_BYTES_MAX;
/// The longest form of a saved standing, bytes.
const STANDING_BYTES_MAX: usize = 1 + 10;
/// Answers and records that are written down at most, the hottest ones.
const ANSWERS_MAX: usize = 1 << 20;
const RECORDS_MAX: usize = 1 << 22;

/// The longest snapshot that is read, bytes.
///
/// ```
/// use std::io::Read;
/// use warmfront::SNAPSHOT_BYTES_MAX;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("snapshot");
/// # std::fs::write(&path, "a snapshot")?;
/// let mut bytes = Vec::new();
/// std::fs::File::open(&path)?.take(SNAPSHOT_BYTES_MAX).read_to_end(&mut bytes)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// Records that are brought back at a time.
const RECORDS_AT_ONCE: usize = 16;
/// Records that come back from the origin together, neighbours in one call. Such windows follow
/// each other in the order of heat.
const WINDOW_RECORDS: usize = 256;
/// Directories that lie deeper than this are not found again.
const DEPTH_MAX: usize = 1024;
/// Part of the cache, as its divisor, that is left free of what comes back.
const FREE_SHARE: u64 = 64;
/// Readers come first: a pause when any of them waits for the origin or for flash.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Snapshot {
    /// Names of datasets, to which the others refer by number.
    datasets: Vec<String>,
    answers: Vec<SavedAnswer>,
    /// From the hottest on.
    records: Vec<SavedRecord>,
    learned: Learned,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SavedAnswer {
    dataset: u32,
    object: u64,
    content: SavedContent,
    /// Of what stood in the ARC.
    standing: Option<SavedStanding>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum SavedContent {
    Attributes(SavedVersion),
    Name { name: Vec<u8>, object: Option<u64> },
    Listing { generation: u64, entries: Vec<(Vec<u8>, u64, Option<Kind>)> },
    Link(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct SavedRecord {
    dataset: u32,
    object: u64,
    generation: u64,
    number: u64,
    standing: SavedStanding,
}

/// How a record stood in the ARC.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct SavedStanding {
    /// Bits: two of uses, then whether it stood on MFU, and whether it was never read.
    flags: u8,
    age: u64,
}

const TURNS: u8 = 3;
const FREQUENT: u8 = 1 << 2;
const UNREAD: u8 = 1 << 3;

impl From<&Location> for SavedStanding {
    fn from(at: &Location) -> SavedStanding {
        let frequent = if at.list.queue == Queue::Mfu { FREQUENT } else { 0 };
        let unread = if at.prefetched { UNREAD } else { 0 };
        SavedStanding { flags: at.turns.min(TURNS) | frequent | unread, age: at.age }
    }
}

impl SavedStanding {
    fn is_frequent(self) -> bool {
        self.flags & FREQUENT != 0
    }

    fn standing(self) -> Standing {
        Standing {
            queue: if self.is_frequent() { Queue::Mfu } else { Queue::Mru },
            turns: self.flags & TURNS,
            unread: self.flags & UNREAD != 0,
            age: self.age,
        }
    }
}

/// How far the RAM level has been brought back.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// use warmfront::Restored;
///
/// # file.read(0, 8).await?;
/// # let written = pool.snapshot();
/// let (restored, hot) = pool.restore(&written, true);
/// let told = |Restored { records, records_left, .. }: Restored| {
///     println!("{records} records are back, {records_left} are not");
///     true
/// };
/// pool.restore_records(restored, hot, &told).await;
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Answers of the origin that are known again.
    pub answers: u64,
    /// Records that are in RAM again.
    pub records: u64,
    /// Records that were not brought back: their file has changed, or there is no room.
    pub records_left: u64,
    /// Evicted records that are remembered again.
    pub ghosts: u64,
}

/// The hottest records of an earlier start, and what the ARC had learned.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// use warmfront::HotRecords;
///
/// // What is no snapshot has none, and does no harm.
/// let (restored, hot): (_, HotRecords) = pool.restore(b"something else", true);
/// assert_eq!((restored.answers, restored.records_left), (0, 0));
/// pool.restore_records(restored, hot, &|_so_far| true).await;
/// # Ok(()) }) }
/// ```
#[derive(Debug, Default)]
pub struct HotRecords {
    tenants: Vec<Option<Tenant>>,
    records: Vec<SavedRecord>,
    learned: Learned,
    /// When they began to come back.
    moment: Option<Moment>,
    /// Directory and name of objects, by which the origin finds them.
    places: HashMap<ObjectId, (ObjectId, OsString)>,
    _charged: Option<ChargedApart>,
}

/// What is known of the RAM level, in bytes that are charged to the ceiling as long as they live.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("snapshot");
/// std::fs::write(&path, &*pool.snapshot())?;
/// let (restored, _hot) = pool.restore(&std::fs::read(&path)?, true);
/// println!("{} answers", restored.answers);
/// # Ok(()) }) }
/// ```
#[derive(Debug)]
pub struct WrittenDown {
    bytes: Vec<u8>,
    _charged: ChargedApart,
}

impl Deref for WrittenDown {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Numbers datasets as they come.
#[derive(Default)]
struct Names {
    numbers: HashMap<u32, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, pool: &Pool, dataset: u32) -> Option<u32> {
        if let Some(number) = self.numbers.get(&dataset) {
            return Some(*number);
        }
        let name = pool.tenant_with(dataset)?.dataset.name().to_string();
        let number = self.names.len() as u32;
        self.names.push(name);
        self.numbers.insert(dataset, number);
        Some(number)
    }
}

impl Pool {
    /// Writes down what is known of the RAM level, for [`restore`](Pool::restore).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// // To be written to a file, and given to a pool over the same origin at its start.
    /// let written = pool.snapshot();
    /// let (restored, hot) = pool.restore(&written, true);
    /// pool.restore_records(restored, hot, &|_so_far| true).await;
    /// # Ok(()) }) }
    /// ```
    pub fn snapshot(&self) -> WrittenDown {
        let usage = self.memory.cache.statistics().usage;
        let metadata_bytes: u64 = Queue::ALL
            .iter()
            .map(|queue| usage.list(List::new(Class::Metadata, *queue)).bytes)
            .sum();
        let returning = self.returning.lock().as_ref().map_or(0, |hot| hot.records.len() as u64);
        let work =
            (usage.records() + returning) * KEY_BYTES + metadata_bytes + self.learned_work_bytes();
        let _charged = self.memory.charge(work);
        let mut names = Names::default();
        let mut snapshot = Snapshot::default();
        let mut in_use = HashSet::new();
        for object in self.objects.all() {
            in_use.insert(object.id);
            let tenant = self.tenant(&object);
            let Some(dataset) = names.number(self, tenant.dataset.id()) else { continue };
            let version = object.version();
            if let Some(saved) = version.settled().filter(|_| version.attributes.links > 0) {
                let content = SavedContent::Attributes(saved);
                let object = object.id.0;
                snapshot.answers.push(SavedAnswer { dataset, object, content, standing: None });
            }
        }
        for (key, location) in self.memory.cache.by_heat() {
            // What is the first to go is not worth it.
            if key.pool() != self.number || location.list.queue == Queue::Uncached {
                continue;
            }
            let standing = SavedStanding::from(&location);
            let Some(dataset) = names.number(self, location.tenant) else { continue };
            let object = key.object().0;
            match (location.list.class, key.record_number()) {
                (Class::Data, Some(number)) if snapshot.records.len() < RECORDS_MAX => {
                    let generation = key.generation();
                    let record = SavedRecord { dataset, object, generation, number, standing };
                    snapshot.records.push(record);
                }
                (Class::Metadata, None) if snapshot.answers.len() < ANSWERS_MAX => {
                    let content = match self.memory.cache.peek(&key) {
                        Some(Cached::Metadata(metadata)) => save(&metadata.content),
                        _ => None,
                    };
                    // Of an object in use the ARC has what was known before that.
                    let content = match content {
                        Some(SavedContent::Attributes(_)) if in_use.contains(&key.object()) => None,
                        content => content,
                    };
                    let standing = Some(standing);
                    let answer = |content| SavedAnswer { dataset, object, content, standing };
                    snapshot.answers.extend(content.map(answer));
                }
                _ => {}
            }
        }
        if let Some(hot) = self.returning.lock().clone() {
            self.add_returning(&hot, &mut names, &mut snapshot);
        }
        snapshot.learned = self.learned(&mut names);
        snapshot.datasets = names.names;
        let head = [MAGIC.as_slice(), &[0; 8]].concat();
        let bytes = postcard::to_extend(&snapshot, head);
        let mut bytes = bytes.expect("everything in it has a form");
        let sum = xxh3_64(&bytes[HEAD_BYTES..]).to_le_bytes();
        bytes[MAGIC.len()..HEAD_BYTES].copy_from_slice(&sum);
        let charged = self.memory.charge_apart(bytes.capacity() as u64);
        WrittenDown { bytes, _charged: charged }
    }

    /// Adds the records that were about to come back, and by which names they are found: else a
    /// stop soon after a start would lose them.
    fn add_returning(&self, hot: &HotRecords, names: &mut Names, snapshot: &mut Snapshot) {
        let mut placed = HashSet::new();
        for saved in &hot.records {
            if snapshot.records.len() >= RECORDS_MAX {
                return;
            }
            if self.memory.cache.contains(&self.key_of(saved)) {
                continue;
            }
            let Some(tenant) = hot.tenant(saved) else { continue };
            let Some(dataset) = names.number(self, tenant.dataset.id()) else { continue };
            snapshot.records.push(SavedRecord { dataset, ..*saved });
            let mut at = ObjectId(saved.object);
            while let Some((parent, name)) = hot.places.get(&at)
                && placed.insert(at)
            {
                let (name, object) = (name.as_bytes().to_vec(), Some(at.0));
                let content = SavedContent::Name { name, object };
                let answer = SavedAnswer { dataset, object: parent.0, content, standing: None };
                snapshot.answers.push(answer);
                at = *parent;
            }
        }
    }

    /// Brings back the answers of the origin that an earlier start has
    /// [written down](Pool::snapshot). To be called before anybody uses the pool. Returns how many,
    /// and what [`restore_records`](Pool::restore_records) needs.
    ///
    /// What the origin has said is believed without asking again only if the pool was stopped
    /// `cleanly` after it was written down, and nobody else writes to the origin
    /// (`coherence=exclusive`).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// let written = pool.snapshot();
    /// let (restored, _hot) = pool.restore(&written, true);
    /// println!("{} answers of the origin are known again", restored.answers);
    /// # Ok(()) }) }
    /// ```
    pub fn restore(&self, bytes: &[u8], cleanly: bool) -> (Restored, HotRecords) {
        let mut restored = Restored::default();
        // The bytes themselves, and what is read from them.
        let _charged = self.memory.charge(2 * bytes.len() as u64);
        let Some(snapshot) = read(bytes) else {
            tracing::warn!("what was written down of the cache cannot be read; it starts cold");
            return (restored, HotRecords::default());
        };
        let datasets = self.datasets.list();
        let named = |name: &String| datasets.iter().find(|dataset| dataset.name() == name);
        let tenant = |name: &String| Some(self.tenant_of(named(name)?.clone()));
        let tenants: Vec<Option<Tenant>> = snapshot.datasets.iter().map(tenant).collect();
        let moment = self.memory.cache.moment();
        // The coldest first, so that the hottest stay if there is no room for all.
        for answer in snapshot.answers.iter().rev() {
            if let Some(Some(tenant)) = tenants.get(answer.dataset as usize)
                && self.restore_answer(tenant, answer, cleanly, &moment)
            {
                restored.answers += 1;
            }
        }
        restored.records_left = snapshot.records.len() as u64;
        let places = places(&snapshot.answers);
        let (records, learned) = (snapshot.records, snapshot.learned);
        let name_bytes: usize = places.values().map(|(_, name)| name.capacity()).sum();
        let held = records.capacity() * size_of::<SavedRecord>()
            + places.capacity() * 2 * size_of::<(ObjectId, (ObjectId, OsString))>()
            + name_bytes
            + 2 * learned.bytes();
        let _charged = Some(self.memory.charge_apart(held as u64));
        (restored, HotRecords { tenants, records, learned, moment: Some(moment), places, _charged })
    }

    /// Lets the ARC go on with what it had learned, and brings records back in the order of their
    /// heat, while readers leave room for that: first what lies on flash, then from the origin what
    /// does not. `told` is called with how far it has come, and ends it by `false`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// let written = pool.snapshot();
    /// let (restored, hot) = pool.restore(&written, true);
    /// pool.restore_records(restored, hot, &|so_far| so_far.records < 1_000_000).await;
    /// # Ok(()) }) }
    /// ```
    pub async fn restore_records(
        self: &Arc<Self>,
        mut restored: Restored,
        mut hot: HotRecords,
        told: &(dyn Fn(Restored) -> bool + Sync),
    ) {
        let Some(moment) = hot.moment.take() else { return };
        let datasets = |tenant: &Option<Tenant>| tenant.as_ref().map(|it| it.dataset.id());
        let datasets: Vec<Option<u32>> = hot.tenants.iter().map(datasets).collect();
        restored.ghosts = self.learn(&std::mem::take(&mut hot.learned), &datasets, &moment);
        let hot = Arc::new(hot);
        *self.returning.lock() = Some(hot.clone());
        if self.bring_back(restored, &hot, told).await {
            *self.returning.lock() = None;
        }
        self.put_in_order(&hot, &moment);
    }

    /// What came first is the oldest, though it is the hottest. Lets records stand as they stood,
    /// in the order of their heat, the hottest as the youngest.
    fn put_in_order(&self, hot: &HotRecords, moment: &Moment) {
        for saved in hot.records.iter().rev() {
            self.memory.cache.resume(&self.key_of(saved), &saved.standing.standing(), moment);
        }
    }

    /// Lets records that have come back stand on MFU if they did.
    fn promote(&self, records: &[SavedRecord]) {
        for saved in records.iter().filter(|saved| saved.standing.is_frequent()) {
            self.memory.cache.promote(&self.key_of(saved));
        }
    }

    fn key_of(&self, saved: &SavedRecord) -> Key {
        Key::record(self.number, ObjectId(saved.object), saved.generation, saved.number)
    }

    /// Says whether it has come to its end.
    async fn bring_back(
        self: &Arc<Self>,
        mut restored: Restored,
        hot: &HotRecords,
        told: &(dyn Fn(Restored) -> bool + Sync),
    ) -> bool {
        let mut left = Vec::new();
        let mut waiting = &hot.records[..];
        while !waiting.is_empty() {
            while self.demand_fetches.load(Ordering::Relaxed) > 0 && told(restored) {
                self.clock.sleep(PAUSE).await;
            }
            let (batch, others) = waiting.split_at(self.fitting(hot, waiting, RECORDS_AT_ONCE));
            waiting = others;
            if !told(restored) {
                return false;
            }
            if batch.is_empty() {
                return true;
            }
            let reads = batch.iter().map(|record| {
                let tenant = hot.tenant(record).cloned();
                async move {
                    match tenant {
                        Some(tenant) => self.restore_record(&tenant, record).await,
                        None => false,
                    }
                }
            });
            let outcomes: Vec<bool> = stream::iter(reads).buffered(RECORDS_AT_ONCE).collect().await;
            let back = outcomes.iter().filter(|back| **back).count() as u64;
            restored.records += back;
            restored.records_left -= back;
            self.promote(batch);
            let outcomes = batch.iter().zip(outcomes);
            left.extend(outcomes.filter(|(_, back)| !back).map(|(record, _)| *record));
        }
        for window in left.chunks(WINDOW_RECORDS) {
            for run in runs(window) {
                while self.demand_fetches.load(Ordering::Relaxed) > 0 && told(restored) {
                    self.clock.sleep(PAUSE).await;
                }
                let run = &run[..self.fitting(hot, &run, run.len())];
                if !told(restored) {
                    return false;
                }
                if run.is_empty() {
                    return true;
                }
                let back = self.fetch_run_again(hot, run).await.unwrap_or(0);
                restored.records += back;
                restored.records_left -= back;
                self.promote(run);
            }
        }
        told(restored)
    }

    /// How many of the first records fit into the cache, at most so many: what came beyond that
    /// would push out what is hotter.
    fn fitting(&self, hot: &HotRecords, records: &[SavedRecord], records_max: usize) -> usize {
        let capacity_bytes = self.memory.cache.capacity_bytes();
        let mut room = (capacity_bytes - capacity_bytes / FREE_SHARE)
            .saturating_sub(self.memory.cache.charged_bytes());
        let fits = |record: &&SavedRecord| {
            let record_bytes = hot.tenant(record).map_or(0, |it| it.properties().recordsize);
            let left = room.checked_sub(record_bytes);
            room = left.unwrap_or(0);
            left.is_some()
        };
        records.iter().take(records_max).take_while(fits).count()
    }

    /// Brings neighbouring records back from the origin in one call, if their file is as it was.
    /// Says how many.
    async fn fetch_run_again(
        self: &Arc<Self>,
        hot: &HotRecords,
        run: &[SavedRecord],
    ) -> Option<u64> {
        let first = run.first()?;
        let path = hot.path_of(ObjectId(first.object), self.root())?;
        let found = self.resolve(&path).await.ok()?;
        let generation = self.objects.get(found.object).map(|object| object.version().generation);
        let is_same = found.object.0 == first.object && generation == Some(first.generation);
        let mode = OpenMode { read: true, ..OpenMode::default() };
        let file = match is_same {
            true => self.open_file(found.object, mode).await.ok(),
            false => None,
        };
        self.forget(found.object, 1);
        let file = file?;
        let tenant = file.tenant();
        if tenant.properties().primarycache != CacheLevel::All {
            return None;
        }
        let layout = self.layout(&file.object, tenant.properties().recordsize);
        if layout.generation != first.generation {
            return None;
        }
        let end = layout.size.div_ceil(layout.record_bytes).min(first.number + run.len() as u64);
        if end <= first.number {
            return None;
        }
        let back = file.bring_in(&tenant, &layout, first.number..end, arc::Kind::Prime).await;
        tenant.counters.add(Counter::PrimedRecords, back);
        Some(back)
    }

    fn restore_answer(
        &self,
        tenant: &Tenant,
        answer: &SavedAnswer,
        cleanly: bool,
        moment: &Moment,
    ) -> bool {
        let is_certain = cleanly && tenant.properties().coherence == Coherence::Exclusive;
        let now = self.now();
        let object = ObjectId(answer.object);
        let keep = |part: Part<'_>, content| {
            let key = Key::metadata(self.number, object, part);
            // What has been asked since knows better.
            let is_news = !self.memory.cache.contains(&key);
            if is_news {
                self.keep(tenant, object, part, content, false);
                if let Some(standing) = answer.standing {
                    self.memory.cache.resume(&key, &standing.standing(), moment);
                }
            }
            is_news
        };
        match &answer.content {
            SavedContent::Attributes(version) => {
                let version = Version::restored(version, is_certain, now);
                keep(Part::Attributes, Content::Attributes(Box::new(version)))
            }
            SavedContent::Listing { generation, entries } => {
                let entry = |(name, object, kind): &(Vec<u8>, u64, Option<Kind>)| DirectoryEntry {
                    name: OsString::from_vec(name.clone()),
                    object: ObjectId(*object),
                    kind: *kind,
                };
                let listing = Arc::new(entries.iter().map(entry).collect());
                keep(Part::Listing, Content::Listing { generation: *generation, listing })
            }
            SavedContent::Name { name, object } if is_certain => {
                let name = OsStr::from_bytes(name);
                let object = object.map(ObjectId);
                keep(Part::Name(name), Content::Name { name: name.into(), object })
            }
            SavedContent::Link(target) if is_certain => {
                let target = Arc::new(OsString::from_vec(target.clone()));
                keep(Part::Link, Content::Link(target))
            }
            _ => false,
        }
    }

    /// Brings a record back from flash. What the object is by now is asked when somebody reads it:
    /// of another generation nobody finds it.
    async fn restore_record(&self, tenant: &Tenant, saved: &SavedRecord) -> bool {
        let properties = tenant.properties();
        if properties.primarycache != CacheLevel::All {
            return false;
        }
        let key = self.key_of(saved);
        if self.memory.cache.contains(&key) || !self.flash.level.holds(&key.on_flash()) {
            return false;
        }
        let bytes = properties.recordsize as usize;
        let Ok(mut record) = Record::with_capacity(&self.memory.arena, bytes) else {
            return false;
        };
        let _charged = self.memory.charge(record.charged_bytes() as u64);
        let stamp = self.flash.level.stamp(saved.object);
        let on_flash = key.on_flash();
        let read = self.flash.level.look_up(&on_flash, record.buffer_mut(), None).await;
        let Ok(length) = read else { return false };
        tenant.counters.add(Counter::FlashRestored, 1);
        tenant.counters.add(Counter::FlashRestoredBytes, length as u64);
        record.set_length(length);
        let value = Cached::Data(Arc::new(record));
        let charge = primed(&value, tenant);
        // A writer who came since has killed the copy on flash first.
        let insert = || {
            self.flash.level.stamp(saved.object) == stamp
                && self.memory.cache.insert(key, value, charge, self.now()).is_ok()
        };
        let inserted = self.unless_written(saved, properties.recordsize, insert);
        tenant.counters.add(Counter::PrimedRecords, u64::from(inserted));
        inserted
    }

    /// Puts a record in, with nobody writing to it meanwhile; not at all while somebody does.
    fn unless_written(
        &self,
        saved: &SavedRecord,
        record_bytes: u64,
        insert: impl FnOnce() -> bool,
    ) -> bool {
        let object = ObjectId(saved.object);
        match self.objects.get(object) {
            // None comes before the record is where he looks for it: for that he needs the object.
            None => self.objects.unless_used(object, insert).unwrap_or(false),
            Some(used) => {
                let start = saved.number.saturating_mul(record_bytes);
                let guard = used.ranges.try_shared(start..start.saturating_add(record_bytes));
                guard.is_some() && insert()
            }
        }
    }
}

/// The charge of a record of contents that nobody has asked for yet.
fn primed(value: &Cached, tenant: &Tenant) -> arc::Charge {
    arc::Charge {
        bytes: value.charged_bytes() as u64,
        class: Class::Data,
        kind: arc::Kind::Prime,
        tenant: tenant.dataset.id(),
    }
}

fn save(content: &Content) -> Option<SavedContent> {
    Some(match content {
        Content::Attributes(version) => SavedContent::Attributes(version.settled()?),
        Content::Listing { generation, listing } => {
            let entry = |entry: &DirectoryEntry| {
                (entry.name.as_bytes().to_vec(), entry.object.0, entry.kind)
            };
            let entries = listing.iter().map(entry).collect();
            SavedContent::Listing { generation: *generation, entries }
        }
        Content::Name { name, object } => {
            let name = name.as_bytes().to_vec();
            SavedContent::Name { name, object: object.map(|object| object.0) }
        }
        Content::Link(target) => SavedContent::Link(target.as_bytes().to_vec()),
        Content::XattrNames(_) | Content::Xattr { .. } => return None,
    })
}

impl HotRecords {
    /// The dataset of a record, if it is still there.
    fn tenant(&self, record: &SavedRecord) -> Option<&Tenant> {
        self.tenants.get(record.dataset as usize)?.as_ref()
    }

    /// Where an object was, relative to the top.
    fn path_of(&self, object: ObjectId, root: ObjectId) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = object;
        while at != root {
            let (parent, name) = self.places.get(&at)?;
            names.push(name);
            at = *parent;
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        Some(names.into_iter().rev().collect())
    }
}

/// Where objects were found, as far as the answers tell.
fn places(answers: &[SavedAnswer]) -> HashMap<ObjectId, (ObjectId, OsString)> {
    let place = |answer: &SavedAnswer| match &answer.content {
        SavedContent::Name { name, object: Some(object) } => {
            let name = OsString::from_vec(name.clone());
            Some((ObjectId(*object), (ObjectId(answer.object), name)))
        }
        _ => None,
    };
    answers.iter().filter_map(place).collect()
}

/// Neighbouring records together.
fn runs(records: &[SavedRecord]) -> Vec<Vec<SavedRecord>> {
    let mut records = records.to_vec();
    records.retain(|record| record.number >> 60 == 0);
    records.sort_unstable_by_key(|record| (record.object, record.generation, record.number));
    let is_next = |a: &SavedRecord, b: &SavedRecord| {
        (a.object, a.generation, a.number + 1) == (b.object, b.generation, b.number)
    };
    records.chunk_by(is_next).map(<[SavedRecord]>::to_vec).collect()
}

fn read(bytes: &[u8]) -> Option<Snapshot> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (sum, body) = rest.split_first_chunk::<8>()?;
    if xxh3_64(body).to_le_bytes() != *sum {
        return None;
    }
    postcard::from_bytes(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_snapshot_is_none() {
        let snapshot = Snapshot {
            datasets: vec!["a".to_string()],
            answers: vec![SavedAnswer {
                dataset: 0,
                object: 7,
                content: SavedContent::Link(b"target".to_vec()),
                standing: None,
            }],
            records: vec![SavedRecord {
                dataset: 0,
                object: 7,
                generation: 1,
                number: 3,
                standing: SavedStanding { flags: FREQUENT | 2, age: 9 },
            }],
            learned: Learned::default(),
        };
        let body = postcard::to_stdvec(&snapshot).expect("it has a form");
        let bytes = [MAGIC.as_slice(), &xxh3_64(&body).to_le_bytes(), &body].concat();
        assert_eq!(read(&bytes), Some(snapshot));
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert_eq!(read(&damaged), None, "byte {place}");
            assert_eq!(read(&bytes[..place]), None, "cut at {place}");
        }
    }
}
