use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hashbrown::HashSet;
use parking_lot::Mutex;
use storage::{
    AlignedBuffer, Clock, Device, DeviceError, DeviceInfo, foreign_contents, foreign_end,
};

use super::commit::Journal;
use super::state::{Segment, State, Status};
use super::{Ring, Shared};
use crate::error::AddError;
use crate::flash::Opening;
use crate::health::Health;
use crate::journal::{JournalEntry, Replayed, replay};
use crate::lanes::Lanes;
use crate::layout::{Layout, SUPERBLOCKS};
use crate::location::UNIT_BYTES;
use crate::statistics::Condition;
use crate::superblock::{Found, SUPERBLOCK_BYTES, Superblock, VERSION, key_check};
use crate::wear::Wear;

/// How much of a device is looked at for what others have put there, at its beginning and at its
/// end, bytes.
const LOOK_BYTES: u64 = 128 << 10;
/// How much is discarded in one call, bytes, and how long all of it may take.
const DISCARD_BYTES: u64 = 1 << 30;
const DISCARD_MAX: Duration = Duration::from_secs(60);
/// Length of a read of the journal, bytes.
const READ_BYTES: u64 = 1 << 20;

/// What was found on a device that has become a part of the flash level.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// use l2arc::Opened;
///
/// let second = Arc::new(MemoryDevice::new(64 << 20, 4096));
/// let opening = Opening { device: [4; 16], ..opening() };
/// match flash.add(second, &opening).await? {
///     Opened::Formatted => println!("it was blank"),
///     Opened::Warm => println!("what it holds is used"),
///     other => println!("it starts empty: {other:?}"),
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// Nothing: it was formatted.
    Formatted,
    /// The cache as it was when it was last used; it is being read in.
    Warm,
    /// A cache that is too old to be used: the pool was used without it since, or it belongs to
    /// another life of the pool. It starts empty.
    Stale,
    /// A cache that another key encrypts, or none. It starts empty.
    OtherKey,
    /// A cache whose journal is damaged, so that nothing in it can be trusted. It starts empty.
    Damaged,
    /// Something that is not known to be encrypted, and could not be discarded: what is written
    /// from now on is encrypted, and what was there can be read until it is overwritten. It starts
    /// empty.
    Readable,
}

impl Ring {
    /// Opens the device as a ring, formatting it if it is blank or `opening` forces it. What it
    /// holds is read in by [`recover`](Ring::recover).
    pub(crate) async fn open(
        id: u8,
        device: Arc<dyn Device>,
        shared: Arc<Shared>,
        opening: &Opening,
    ) -> Result<(Arc<Ring>, Opened), AddError> {
        let info = device.info().clone();
        let found = look(&*device, opening, shared.options.segment_bytes).await?;
        let cipher = shared.options.cipher.as_ref();
        let (superblock, mut opened) = match found.superblock {
            Some(superblock) if found.is_usable => {
                let check = key_check(cipher, &superblock.salt);
                let fits = check == superblock.key_check;
                (superblock, if fits { Opened::Warm } else { Opened::OtherKey })
            }
            _ => {
                let superblock = opening.superblock(&info, &shared.options)?;
                (superblock, Opened::Formatted)
            }
        };
        let mut half = 1;
        let mut epoch = 0;
        let mut entries = Vec::new();
        let now = shared.clock.now();
        let data_bytes = u64::from(superblock.layout.segments) * superblock.layout.segment_bytes;
        let options = &shared.options;
        let mut wear = Wear::new(data_bytes, options.dwpd_hundredths, options.rate_bytes, now);
        let mut next_incarnation = 1;
        let replayed = match found.superblock {
            Some(former) => match read_journal(&*device, &former).await {
                Err(error) if found.is_usable => return Err(error.into()),
                replayed => replayed.unwrap_or(Replayed::Damaged),
            },
            None if found.is_ours => Replayed::Damaged,
            None => Replayed::Empty,
        };
        match replayed {
            Replayed::Entries { half: newest_half, last_epoch, newest, entries: all } => {
                let elapsed = opening.wall_seconds.saturating_sub(newest.wall_seconds);
                // The device wears whoever uses it, and the journal is not encrypted.
                wear.resume(newest.written_bytes, newest.credit_bytes, elapsed);
                let layout = found.superblock.map(|superblock| superblock.layout);
                wear.wrote(layout.map_or(0, |layout| unsealed_bytes(&all, &layout)));
                (half, epoch) = (newest_half, last_epoch);
                next_incarnation = newest.next_incarnation;
                if opened == Opened::Warm && opening.accepts(newest.life) {
                    entries = all;
                } else if opened == Opened::Warm {
                    opened = Opened::Stale;
                }
            }
            Replayed::Damaged | Replayed::Empty => {
                if found.is_ours {
                    wear.resume_unknown();
                }
                if opened == Opened::Warm {
                    opened = Opened::Damaged;
                }
            }
        }
        // Whatever cannot be used gets another salt, so that nothing of it is valid any more.
        let superblock = match opened {
            Opened::Warm => superblock,
            _ => {
                let fresh = opening.superblock(&info, &shared.options)?;
                // While a superblock says that it is not encrypted, a start does this again.
                if cipher.is_some() && !found.is_encrypted() {
                    let discarded = discard_all(&*device, &*shared.clock).await?;
                    opened = if discarded { opened } else { Opened::Readable };
                }
                write_superblock(&*device, &fresh).await?;
                (half, epoch, next_incarnation) = (1, 0, 1);
                fresh
            }
        };
        let layout = superblock.layout;
        // Where there is no room for records later, there still is for tombstones.
        device.allocate(0, layout.half_offset(2)).await?;
        let mut state = State {
            segments: (0..layout.segments).map(|_| Segment::free()).collect(),
            hand: 0,
            next_incarnation,
            open: None,
            prepared: None,
            chunk: None,
            buffered: Vec::new(),
            waiting: Default::default(),
            writers: 0,
            written_at: now,
            written_chunks: 0,
            lanes: Lanes::new(shared.options.chunk_bytes, shared.options.buffers_bytes_max),
            buffered_bytes: 0,
            sealing: 0,
            emptying: false,
            dead: 0,
            floors: Default::default(),
            killed: Default::default(),
            recovering: true,
            recovery: Vec::new(),
            recoverers: 0,
            condition: Condition::Works,
            renounced: false,
            trims: shared.options.trim,
            wear,
            health: Health::default(),
            tenants: Default::default(),
            life: opening.life,
            wall_offset_seconds: opening.wall_seconds.saturating_sub(now.as_secs()),
            waiters: Vec::new(),
        };
        state.replay(&entries);
        drop(entries);
        let mut recovery: Vec<u32> = (0..layout.segments)
            .filter(|segment| state.segments[*segment as usize].status != Status::Free)
            .collect();
        // The newest are taken first, from the end.
        recovery.sort_by_key(|segment| state.segments[*segment as usize].incarnation);
        let units = layout.segment_bytes / UNIT_BYTES as u64;
        let count = recovery.iter().map(|segment| match state.segments[*segment as usize].status {
            // Whatever is said, a record takes a unit at least.
            Status::Sealed { count, .. } => u64::from(count).min(units),
            _ => layout.segment_bytes / (64 * UNIT_BYTES as u64),
        });
        let count: u64 = count.sum::<u64>() + shared.index.len();
        // What cannot fit is not read in at all.
        shared.index.reserve(count.min(shared.options.index_bytes_max / 16));
        state.recovery = recovery;
        let journal = Journal {
            half,
            epoch,
            number: 0,
            pending: Vec::new(),
            appended: 1,
            durable: 0,
            committing: false,
            renew: true,
            failed: false,
            waiters: Vec::new(),
        };
        let ring = Arc::new(Ring {
            id,
            device,
            superblock,
            shared,
            epoch: epoch as u32 + 1,
            nonces: AtomicU64::new(0),
            state: Mutex::new(state),
            journal: Mutex::new(journal),
        });
        // From here on the journal says that this life of the pool has used the device.
        if ring.durable(1).await.is_err() {
            let operation = "write the journal";
            return Err(AddError::Device(DeviceError::Closed { operation }));
        }
        Ok((ring, opened))
    }
}

impl Ring {
    /// Overwrites the superblocks, and what else would be looked at if the device came again.
    ///
    /// What lies between them is discarded where the device can do so.
    pub(crate) async fn wipe(&self) -> Result<(), DeviceError> {
        let device = &*self.device;
        discard_all(device, &*self.shared.clock).await?;
        write_superblocks(device, AlignedBuffer::zeroed(SUPERBLOCK_BYTES)).await?;
        let end = Arc::new(AlignedBuffer::zeroed(LOOK_BYTES as usize));
        device.write(end_offset(device.info()), end).await?;
        device.flush().await
    }
}

impl Opening {
    /// The superblock of a device that is formatted.
    fn superblock(
        &self,
        info: &DeviceInfo,
        options: &crate::options::Options,
    ) -> Result<Superblock, AddError> {
        let layout = Layout::new(info.size_bytes, info.block_bytes, options.segment_bytes)?;
        Ok(Superblock {
            device: self.device,
            pool: self.pool,
            salt: self.salt,
            key_check: key_check(options.cipher.as_ref(), &self.salt),
            layout,
        })
    }

    /// Sees whether [`Flash::add`](crate::Flash::add) would take a device, and changes nothing.
    /// Says whether it is a cache of the pool.
    ///
    /// # Errors
    /// Those of `add`, as far as they can be told beforehand.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
    /// let device = MemoryDevice::new(64 << 20, 4096);
    /// assert!(!opening().check(&device).await?, "it is blank, and would be taken");
    /// let tiny = MemoryDevice::new(1 << 20, 4096);
    /// assert!(opening().check(&tiny).await.is_err());
    /// # Ok(()) }) }
    /// ```
    pub async fn check(&self, device: &dyn Device) -> Result<bool, AddError> {
        let found = look(device, self, None).await?;
        if !found.is_usable {
            let info = device.info();
            Layout::new(info.size_bytes, info.block_bytes, None)?;
        }
        Ok(found.superblock.is_some_and(|superblock| superblock.pool == self.pool))
    }

    fn accepts(&self, life: u128) -> bool {
        self.lives.as_ref().is_none_or(|lives| lives.contains(&life))
    }
}

/// What a device was before it is opened.
#[derive(Default)]
struct Former {
    superblock: Option<Superblock>,
    /// The superblock is the pool's and fits, so that nothing is formatted.
    is_usable: bool,
    /// It was a cache, whatever is left of its superblock.
    is_ours: bool,
}

impl Former {
    /// Whether all that it holds of us was encrypted.
    fn is_encrypted(&self) -> bool {
        self.superblock.is_some_and(|superblock| superblock.key_check != [0; 16])
    }
}

/// Gives up all that a device holds, so that nobody can read it there any more. Says whether the
/// device did that in time.
///
/// # Errors
/// When it does not answer.
async fn discard_all(device: &dyn Device, clock: &dyn Clock) -> Result<bool, DeviceError> {
    let DeviceInfo { size_bytes, .. } = *device.info();
    let until = clock.now() + DISCARD_MAX;
    let mut at = 0;
    while at < size_bytes {
        if clock.now() >= until {
            return Ok(false);
        }
        let bytes = DISCARD_BYTES.min(size_bytes - at);
        match device.discard(at, bytes).await {
            Ok(()) => at += bytes,
            Err(error @ DeviceError::TimedOut { .. }) => return Err(error),
            Err(_) => return Ok(false),
        }
    }
    device.flush().await?;
    Ok(true)
}

/// Sees what a device was. What is not usable may be formatted.
async fn look(
    device: &dyn Device,
    opening: &Opening,
    segment_bytes: Option<u64>,
) -> Result<Former, AddError> {
    let info = device.info();
    if info.size_bytes < 2 * LOOK_BYTES {
        let size_bytes = info.size_bytes;
        Layout::new(size_bytes, info.block_bytes, segment_bytes)?;
        return Err(AddError::TooSmall { size_bytes, needed_bytes: 2 * LOOK_BYTES });
    }
    let bytes = device.read(0, AlignedBuffer::zeroed(LOOK_BYTES as usize)).await?;
    let copies = SUPERBLOCKS.map(|at| Superblock::decode(&bytes[at as usize..]));
    let mut former = Former::default();
    for found in copies {
        match found {
            Found::Superblock(superblock) => {
                let usable = superblock.layout.size_bytes <= info.size_bytes
                    && superblock.layout.block_bytes >= info.block_bytes;
                if superblock.pool != opening.pool && !opening.force {
                    return Err(AddError::OtherPool { pool: superblock.pool });
                }
                former.superblock = Some(superblock);
                former.is_ours = true;
                if superblock.pool == opening.pool && usable && !opening.empty {
                    former.is_usable = true;
                    return Ok(former);
                }
            }
            Found::Version(found) if !opening.force => {
                return Err(AddError::Version { found, known: VERSION });
            }
            Found::Version(_) | Found::Damaged => former.is_ours = true,
            Found::Other => {}
        }
    }
    if former.is_ours || opening.force {
        return Ok(former);
    }
    let end = device.read(end_offset(info), AlignedBuffer::zeroed(LOOK_BYTES as usize)).await?;
    match foreign_contents(&bytes).or_else(|| foreign_end(&end)) {
        Some(found) => Err(AddError::Foreign { found }),
        None => Ok(former),
    }
}

/// Bytes of the segments that were being written when the journal was. What of them has been
/// written since, nobody knows: all of it counts.
fn unsealed_bytes(entries: &[JournalEntry], layout: &Layout) -> u64 {
    let mut open = HashSet::new();
    for entry in entries {
        match entry {
            JournalEntry::Opened { segment, .. } => open.insert(*segment),
            JournalEntry::Sealed { segment, .. } | JournalEntry::Retired { segment } => {
                open.remove(segment)
            }
            _ => false,
        };
    }
    open.len() as u64 * layout.segment_bytes
}

/// Where the last bytes of a device begin that are looked at.
fn end_offset(info: &DeviceInfo) -> u64 {
    let block_bytes = info.block_bytes as u64;
    info.size_bytes / block_bytes * block_bytes - LOOK_BYTES
}

async fn read_journal(
    device: &dyn Device,
    superblock: &Superblock,
) -> Result<Replayed, DeviceError> {
    let layout = &superblock.layout;
    if layout.half_offset(2) > device.info().size_bytes {
        return Ok(Replayed::Damaged);
    }
    let halves = [read_half(device, layout, 0).await?, read_half(device, layout, 1).await?];
    Ok(replay([&halves[0], &halves[1]], &superblock.salt))
}

async fn write_superblock(device: &dyn Device, superblock: &Superblock) -> Result<(), DeviceError> {
    let mut buffer = AlignedBuffer::zeroed(SUPERBLOCK_BYTES);
    superblock.encode(&mut buffer);
    write_superblocks(device, buffer).await
}

async fn write_superblocks(device: &dyn Device, buffer: AlignedBuffer) -> Result<(), DeviceError> {
    let buffer = Arc::new(buffer);
    // One after the other: a crash in between leaves one whole copy.
    for offset in SUPERBLOCKS {
        device.write(offset, buffer.clone()).await?;
        device.flush().await?;
    }
    Ok(())
}

async fn read_half(
    device: &dyn Device,
    layout: &Layout,
    half: usize,
) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = Vec::with_capacity(layout.half_bytes as usize);
    let start = layout.half_offset(half);
    let mut at = 0;
    while at < layout.half_bytes {
        let length = READ_BYTES.min(layout.half_bytes - at) as usize;
        let buffer = device.read(start + at, AlignedBuffer::zeroed(length)).await?;
        bytes.extend_from_slice(&buffer);
        at += length as u64;
    }
    Ok(bytes)
}
