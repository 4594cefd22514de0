#![expect(unsafe_code, reason = "the kernel is told addresses of buffers that are kept here")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::PATIENCE;
use super::request::{Operation, Request};

/// Most calls that the kernel has at a time.
pub(super) const DEPTH: usize = 128;
/// The name of the completion which says that the bell has rung.
const BELL: u64 = u64::MAX;
/// `POLLIN` of `poll(2)`.
const POLL_IN: u32 = 1;
/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(200);
/// How long to wait at a time while nothing is under way.
const IDLE: Duration = Duration::from_secs(3600);

/// Wakes a thread that waits for its io_uring.
pub(super) struct Bell {
    /// The thread is in the kernel, or about to be.
    pub(super) sleeps: AtomicBool,
    counter: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { sleeps: AtomicBool::new(false), counter })
    }

    /// Wakes the thread if it sleeps. Says whether it did.
    pub(super) fn ring(&self) -> bool {
        let sleeps = self.sleeps.swap(false, Ordering::SeqCst);
        if sleeps {
            // The counter takes any number of ones that anybody lives to write.
            let _ = rustix::io::write(&self.counter, &1_u64.to_ne_bytes());
        }
        sleeps
    }
}

/// An io_uring and the calls that the kernel has through it, with all that they need until they
/// end. It belongs to the thread that makes it: the kernel ends calls when that thread asks.
pub(super) struct Uring {
    uring: IoUring,
    bell: Arc<Bell>,
    under_way: Vec<Option<Submitted>>,
    vacant: Vec<usize>,
    /// The kernel watches the bell.
    listens: bool,
    looked_at: Instant,
}

/// A call that the kernel has, or will have with the next entry.
struct Submitted {
    request: Request,
    _file: Arc<OwnedFd>,
}

impl Uring {
    /// # Errors
    /// When the kernel offers no io_uring, forbids it, or lacks an operation.
    pub(super) fn new(bell: Arc<Bell>) -> io::Result<Uring> {
        let entries = (DEPTH + 1).next_power_of_two() as u32;
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_single_issuer().setup_defer_taskrun();
        let uring = builder.build(entries).or_else(|_| IoUring::new(entries))?;
        let mut probe = io_uring::Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::PollAdd::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
        ];
        if !needed.iter().all(|code| probe.is_supported(*code))
            || !uring.params().is_feature_ext_arg()
        {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(Uring {
            uring,
            bell,
            under_way: (0..DEPTH).map(|_| None).collect(),
            vacant: (0..DEPTH).rev().collect(),
            listens: false,
            looked_at: Instant::now(),
        })
    }

    pub(super) fn has_room(&self) -> bool {
        !self.vacant.is_empty()
    }

    /// Whether the kernel has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.vacant.len() == DEPTH
    }

    /// Whether somebody still waits for a call that is under way.
    pub(super) fn is_waited_for(&self) -> bool {
        self.under_way.iter().flatten().any(|call| call.request.waiter.is_waited_for())
    }

    /// Takes over a call on `file`, for which there must be room. The kernel gets it at once, so
    /// that the device has it before it is through with the others. Only the first one waits for
    /// the next [`enter`](Uring::enter), to save a system call where there are no others.
    pub(super) fn push(&mut self, file: Arc<OwnedFd>, request: Request) {
        let place = self.vacant.pop().expect("there is room");
        let fd = Fd(file.as_raw_fd());
        let call = self.under_way[place].insert(Submitted { request, _file: file });
        let offset = call.request.offset;
        let entry = match &mut call.request.operation {
            Operation::Read(buffer) => {
                opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32)
                    .offset(offset)
                    .build()
            }
            Operation::Write(buffer) => {
                opcode::Write::new(fd, buffer.as_ptr(), buffer.len() as u32).offset(offset).build()
            }
            Operation::WriteThrough(buffer) => {
                opcode::Write::new(fd, buffer.as_ptr(), buffer.len() as u32)
                    .offset(offset)
                    .rw_flags(rustix::io::ReadWriteFlags::DSYNC.bits() as i32)
                    .build()
            }
            Operation::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            Operation::Discard(bytes) => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                opcode::Fallocate::new(fd, *bytes).offset(offset).mode(punch.bits() as i32).build()
            }
            Operation::Allocate(bytes) => opcode::Fallocate::new(fd, *bytes).offset(offset).build(),
        };
        // SAFETY: file and buffer are in `under_way` until the completion of this call is taken,
        // or for ever, and the buffer neither moves nor is touched until then: a read's is owned
        // by the request, a write's cannot be changed while the request holds its `Arc`.
        unsafe { self.submit(&entry.user_data(place as u64)) };
        if self.vacant.len() + 1 < DEPTH {
            // What the kernel does not take now it is given again by `enter`.
            let _ = self.uring.submit();
        }
    }

    /// Hands what was pushed to the kernel, and takes back the calls that have ended. If it
    /// `waits`, then at least until one has, the bell has rung, or it is time to look at deadlines.
    ///
    /// # Errors
    /// When the kernel takes no more calls.
    pub(super) fn enter(&mut self, waits: bool) -> io::Result<()> {
        if waits && !self.listens {
            self.listens = true;
            let bell = Fd(self.bell.counter.as_raw_fd());
            let entry = opcode::PollAdd::new(bell, POLL_IN).multi(true).build();
            // SAFETY: it points to no memory.
            unsafe { self.submit(&entry.user_data(BELL)) };
        }
        let time = Timespec::from(if self.is_idle() { IDLE } else { TICK });
        let arguments = SubmitArgs::new().timespec(&time);
        let entered = self.uring.submitter().submit_with_args(usize::from(waits), &arguments);
        // Whoever is woken by what comes back is not to ring for a thread that is awake.
        self.bell.sleeps.store(false, Ordering::SeqCst);
        if let Err(error) = entered {
            match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => {}
                _ => return Err(error),
            }
        }
        self.reap();
        Ok(())
    }

    fn reap(&mut self) {
        for completion in self.uring.completion() {
            if completion.user_data() == BELL {
                // Each write to the counter is told once; it is never read.
                self.listens = io_uring::cqueue::more(completion.flags());
                continue;
            }
            let place = completion.user_data() as usize;
            let call = self.under_way[place].take().expect("a completion of a call under way");
            self.vacant.push(place);
            let result = completion.result();
            call.request.end(match u64::try_from(result) {
                Ok(moved) => Ok(moved),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            });
        }
    }

    /// Now and then ends the waits whose time is over. Says whether it has looked.
    pub(super) fn expire(&mut self) -> bool {
        let now = Instant::now();
        let looks = now.duration_since(self.looked_at) >= TICK;
        if looks {
            self.looked_at = now;
            self.under_way.iter().flatten().for_each(|call| call.request.waiter.expire(now));
        }
        looks
    }

    /// Puts an entry into the submission queue, which has room for all calls and the bell.
    ///
    /// # Safety
    /// What the entry points to stays where it is, and untouched, until its completion.
    unsafe fn submit(&mut self, entry: &squeue::Entry) {
        // SAFETY: as promised by the caller.
        let pushed = unsafe { self.uring.submission().push(entry) };
        pushed.expect("the queue is as long as calls are many");
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let patience = Instant::now() + PATIENCE;
        while !self.is_idle() && Instant::now() < patience && self.enter(true).is_ok() {}
        for call in self.under_way.iter_mut().filter_map(Option::take) {
            call.request.waiter.close();
            // What the kernel still has stays its own for ever.
            std::mem::forget(call);
        }
    }
}
