#![expect(unsafe_code, reason = "a lock lends what it guards")]

//! [`BiasedLock`]: a reader-writer lock whose readers do not meet.

use std::cell::{Cell, UnsafeCell};
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(miri))]
use rustix::thread::{MembarrierCommand, membarrier};

/// Threads that can have a slot at a time; others read through the lock itself.
pub(crate) const SLOTS: usize = 64;

/// Reads through the lock itself after which its readers use slots again. Each write that finds
/// them there interrupts the other threads and looks at their slots, which costs about as much as
/// so many reads save.
const READS_BEFORE_BIAS: u32 = 256;

/// Turns of waiting for a reader before the processor is left to others.
const SPINS: u32 = 128;

/// A reader-writer lock for data that is read far more often than written, after BRAVO (Dice and
/// Kogan, "BRAVO: Biased Locking for Reader-Writer Locks", ATC 2019).
///
/// While the lock is biased to readers, a reader writes its address into a slot of its own thread
/// and takes nothing: no line is shared between readers. A writer takes the lock underneath, ends
/// the bias, and waits until no slot holds the address. Readers then go through the lock
/// underneath, until some have done so undisturbed.
///
/// Between a reader's two steps, and between the writer's, stands a barrier, or one of them could
/// miss the other. The writer's is `membarrier`, which makes one in every thread of the process,
/// so that a reader needs none; where the kernel has no such call, the reader makes its own.
#[derive(Debug)]
pub(crate) struct BiasedLock<T> {
    bias: AtomicU8,
    /// Reads through the lock since the last write that ended the bias.
    reads: AtomicU32,
    lock: RwLock<()>,
    value: UnsafeCell<T>,
}

/// Readers go through the lock underneath.
const UNBIASED: u8 = 0;
/// Readers use slots, and make a barrier.
const FENCED: u8 = 1;
/// Readers use slots; the writer makes their barrier.
const UNFENCED: u8 = 2;

// SAFETY: as `RwLock<T>`: `&T` is given to several threads at once, `&mut T` to one, never both.
unsafe impl<T: Send> Send for BiasedLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for BiasedLock<T> {}

/// Shared access, until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadGuard<'a, T> {
    value: &'a T,
    /// The lock underneath, if it was taken; the slot otherwise.
    held: Held<'a>,
}

#[derive(Debug)]
enum Held<'a> {
    Slot(&'static Slot),
    Lock(#[expect(dead_code, reason = "held until dropped")] RwLockReadGuard<'a, ()>),
}

/// Exclusive access, until it is dropped.
#[derive(Debug)]
pub(crate) struct WriteGuard<'a, T> {
    value: &'a mut T,
    _lock: RwLockWriteGuard<'a, ()>,
}

impl<T> BiasedLock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            bias: AtomicU8::new(UNBIASED),
            reads: AtomicU32::new(0),
            lock: RwLock::new(()),
            value: UnsafeCell::new(value),
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.bias).addr()
    }

    /// Waits until nobody writes.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        let held = match self.take_slot() {
            Some(slot) => Held::Slot(slot),
            None => Held::Lock(self.read_slowly()),
        };
        // SAFETY: no writer is there as long as a slot holds the address or the lock is held
        // shared; see `write`.
        ReadGuard { value: unsafe { &*self.value.get() }, held }
    }

    #[inline]
    fn take_slot(&self) -> Option<&'static Slot> {
        let bias = self.bias.load(Acquire);
        if bias == UNBIASED {
            return None;
        }
        let slot = SLOT_TABLE.get(own_number())?;
        if slot.0.load(Relaxed) != 0 {
            return None;
        }
        if bias == UNFENCED {
            slot.0.store(self.address(), Relaxed);
            compiler_fence(SeqCst);
        } else {
            slot.0.store(self.address(), SeqCst);
        }
        // In one order with the writer's two steps: either the writer sees the slot taken, or we
        // see that the bias has ended.
        if self.bias.load(SeqCst) == bias {
            return Some(slot);
        }
        slot.0.store(0, Release);
        None
    }

    #[cold]
    fn read_slowly(&self) -> RwLockReadGuard<'_, ()> {
        let guard = self.lock.read();
        // Reads that count at the same time may count as one.
        let reads = self.reads.load(Relaxed);
        if reads < READS_BEFORE_BIAS {
            self.reads.store(reads + 1, Relaxed);
        } else {
            // With the lock held there is no writer that could miss it.
            self.bias.store(if barriers_for_all() { UNFENCED } else { FENCED }, Release);
        }
        guard
    }

    /// Waits until nobody else reads or writes.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        let lock = self.lock.write();
        if self.bias.load(Relaxed) != UNBIASED {
            self.end_bias();
        }
        // SAFETY: the lock is held exclusively, so that no reader holds it; and none is in a slot:
        // the bias has ended, which only a holder of the lock takes back.
        WriteGuard { value: unsafe { &mut *self.value.get() }, _lock: lock }
    }

    #[cold]
    fn end_bias(&self) {
        let bias = self.bias.swap(UNBIASED, SeqCst);
        self.reads.store(0, Relaxed);
        if bias == UNFENCED {
            make_barriers();
        }
        // A thread that gets its slot after this look finds that the bias has ended.
        let known = SLOTS - SLOTS_TAKEN.load(SeqCst).leading_zeros() as usize;
        for slot in &SLOT_TABLE[..known] {
            let mut spins = 0;
            while slot.0.load(SeqCst) == self.address() {
                spins += 1;
                if spins % SPINS == 0 { std::thread::yield_now() } else { spin_loop() }
            }
        }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Held::Slot(slot) = self.held {
            slot.0.store(0, Release);
        }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

/// The address of the lock that a thread reads, or zero; two cache lines, so that neighbours do
/// not share one.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicUsize);

static SLOT_TABLE: [Slot; SLOTS] = [const { Slot(AtomicUsize::new(0)) }; SLOTS];

/// A bit for each slot that belongs to a thread.
static SLOTS_TAKEN: AtomicU64 = AtomicU64::new(0);

/// A thread's slot, which it gives back at its end.
struct Ownership(Option<usize>);

impl Ownership {
    fn claim() -> Self {
        let claim = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let before = SLOTS_TAKEN.fetch_update(SeqCst, Relaxed, claim);
        Self(before.ok().map(|taken| taken.trailing_ones() as usize))
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        NUMBER.set(NONE);
        if let Some(number) = self.0 {
            SLOTS_TAKEN.fetch_and(!(1 << number), Release);
        }
    }
}

/// The thread has not asked for a slot yet.
const UNKNOWN: usize = usize::MAX;
/// The thread has no slot, because there was none left or because it ends.
const NONE: usize = SLOTS;

thread_local! {
    static OWN: Ownership = Ownership::claim();
    /// The number in `OWN`, where it is found without a look at whether that still lives.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The number of the calling thread's slot, below [`SLOTS`], if there was one left for it. No
/// other thread has it while this one lives.
#[inline]
pub(crate) fn own_slot() -> Option<usize> {
    let number = own_number();
    (number < SLOTS).then_some(number)
}

/// The same, or something else that is not below [`SLOTS`].
#[inline]
fn own_number() -> usize {
    let number = NUMBER.get();
    if number < SLOTS { number } else { claim_slot() }
}

#[cold]
fn claim_slot() -> usize {
    if NUMBER.get() == UNKNOWN {
        NUMBER.set(OWN.try_with(|own| own.0).ok().flatten().unwrap_or(NONE));
    }
    NUMBER.get()
}

// ---- Barriers in all threads -------------------------------------------------------------------

/// Whether [`make_barriers`] can be called.
#[cfg(not(miri))]
fn barriers_for_all() -> bool {
    static REGISTERED: LazyLock<bool> =
        LazyLock::new(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());
    *REGISTERED
}

/// Makes a memory barrier in all threads of the process that are running.
#[cfg(not(miri))]
fn make_barriers() {
    let made = membarrier(MembarrierCommand::PrivateExpedited);
    assert!(made.is_ok(), "membarrier was registered, but fails: {made:?}");
}

#[cfg(miri)]
const fn barriers_for_all() -> bool {
    false
}

#[cfg(miri)]
fn make_barriers() {
    unreachable!("Miri does not know the system call");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn biased(value: u64) -> BiasedLock<[u64; 4]> {
        let lock = BiasedLock::new([value; 4]);
        (0..=READS_BEFORE_BIAS).for_each(|_| drop(lock.read()));
        assert_ne!(lock.bias.load(Relaxed), UNBIASED);
        lock
    }

    #[test]
    fn a_write_ends_the_bias_and_reads_bring_it_back() {
        let lock = biased(1);
        assert!(matches!(lock.read().held, Held::Slot(_)));
        lock.write()[0] = 2;
        let guard = lock.read();
        assert!(matches!(guard.held, Held::Lock(_)) && guard[0] == 2);
        drop(guard);
        (0..=READS_BEFORE_BIAS).for_each(|_| drop(lock.read()));
        assert!(matches!(lock.read().held, Held::Slot(_)));
    }

    #[test]
    fn a_thread_reads_two_locks_at_once() {
        let (first, second) = (biased(1), biased(2));
        let outer = first.read();
        let inner = second.read();
        assert!(matches!(outer.held, Held::Slot(_)) && matches!(inner.held, Held::Lock(_)));
        assert_eq!((outer[0], inner[0]), (1, 2));
    }

    #[test]
    fn slots_come_back() {
        for _ in 0..2 * SLOTS {
            let number = thread::spawn(own_slot).join().unwrap();
            assert!(number.is_some(), "one is left");
        }
    }

    #[test]
    fn readers_never_see_half_a_write() {
        let rounds = if cfg!(miri) { 100 } else { 200_000 };
        let lock = Arc::new(biased(0));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || {
                    let mut last = 0;
                    for _ in 0..rounds {
                        let values = *lock.read();
                        assert!(values.iter().all(|&value| value == values[0]), "{values:?}");
                        assert!(values[0] >= last);
                        last = values[0];
                    }
                })
            })
            .collect();
        for _ in 0..rounds / 50 {
            lock.write().iter_mut().for_each(|value| *value += 1);
            (0..10).for_each(|_| thread::yield_now());
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(lock.read()[0], rounds / 50);
    }
}
