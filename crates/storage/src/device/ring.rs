#![expect(unsafe_code, reason = "the kernel is told addresses of buffers that the ring keeps")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::request::{Operation, QUEUE_MAX, Request};
use super::{DeviceError, wait_for_end};

/// Most calls that the kernel has at a time; the others wait in the queue.
const DEPTH: usize = 128;
/// The name of the completion which says that the queue has something new.
const WAKE: u64 = u64::MAX;
/// `POLLIN` of `poll(2)`.
const POLL_IN: u32 = 1;
/// How often deadlines are looked at.
const TICK: Timespec = Timespec::new().nsec(200_000_000);
/// The same, while nothing is under way.
const IDLE: Timespec = Timespec::new().sec(3600);

/// A device's calls through io_uring: one thread hands them to the kernel and takes what comes
/// back, so that a call costs its caller a place in a queue and, only if the thread sleeps, one
/// system call to wake it.
pub(super) struct Ring {
    queue: Arc<Queue>,
    driver: [JoinHandle<()>; 1],
}

struct Queue {
    state: Mutex<State>,
    /// The driver sleeps in the kernel, or is about to.
    sleeps: AtomicBool,
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    closed: bool,
}

impl Ring {
    /// Starts the thread of a ring over `file`.
    ///
    /// # Errors
    /// When the kernel offers no io_uring, forbids it, or lacks an operation.
    pub(super) fn new(file: Arc<OwnedFd>, name: &str) -> io::Result<Ring> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        let queue =
            Arc::new(Queue { state: Mutex::default(), sleeps: AtomicBool::new(false), wake });
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let driver = {
            let queue = queue.clone();
            // The ring belongs to the thread that makes it.
            std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                match Driver::new(queue, file) {
                    Ok(mut driver) => {
                        let _ = sender.send(Ok(()));
                        driver.run();
                    }
                    Err(error) => {
                        let _ = sender.send(Err(error));
                    }
                }
            })?
        };
        receiver.recv().map_err(|_| io::Error::other("the ring's thread has ended"))??;
        Ok(Ring { queue, driver: [driver] })
    }

    /// Takes a call over.
    pub(super) fn submit(&self, request: Request) {
        let mut state = self.queue.state.lock();
        if state.closed {
            drop(state);
            return request.refuse(|operation| DeviceError::Closed { operation });
        }
        if state.requests.len() >= QUEUE_MAX {
            drop(state);
            return request.refuse(|operation| DeviceError::Busy { operation });
        }
        state.requests.push_back(request);
        drop(state);
        self.queue.wake();
    }
}

impl Queue {
    fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            // The counter of an eventfd takes any number of ones.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.sleeps.store(true, Ordering::SeqCst);
        self.queue.wake();
        wait_for_end(&self.driver);
    }
}

/// The thread's own side.
struct Driver {
    // Dropped first, so that the kernel is done with the buffers below.
    uring: IoUring,
    queue: Arc<Queue>,
    file: Arc<OwnedFd>,
    under_way: Vec<Option<Request>>,
    vacant: Vec<usize>,
    /// The kernel watches the eventfd.
    listens: bool,
}

impl Driver {
    fn new(queue: Arc<Queue>, file: Arc<OwnedFd>) -> io::Result<Driver> {
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
        Ok(Driver {
            uring,
            queue,
            file,
            under_way: (0..DEPTH).map(|_| None).collect(),
            vacant: (0..DEPTH).rev().collect(),
            listens: false,
        })
    }

    fn run(&mut self) {
        let mut looked_at = Instant::now();
        loop {
            let closed = self.take_requests();
            let busy = self.vacant.len() < DEPTH;
            if closed && !busy {
                return;
            }
            self.listen();
            self.queue.sleeps.store(true, Ordering::SeqCst);
            let waits = self.vacant.is_empty() || self.queue.state.lock().requests.is_empty();
            if let Err(error) = self.enter(waits, busy) {
                tracing::error!(%error, "io_uring no longer takes calls; the device is closed");
                self.close();
                return;
            }
            self.queue.sleeps.store(false, Ordering::SeqCst);
            self.reap();
            let now = Instant::now();
            if now.duration_since(looked_at) > Duration::from_millis(200) {
                looked_at = now;
                self.expire(now);
            }
        }
    }

    /// Hands requests to the kernel, as many as it may have. Says whether no more will come.
    fn take_requests(&mut self) -> bool {
        let mut state = self.queue.state.lock();
        while let Some(place) = self.vacant.pop() {
            let Some(request) = state.requests.pop_front() else {
                self.vacant.push(place);
                break;
            };
            let request = self.under_way[place].insert(request);
            let file = Fd(self.file.as_raw_fd());
            let offset = request.offset;
            let entry = match &mut request.operation {
                Operation::Read(buffer) => {
                    opcode::Read::new(file, buffer.as_mut_ptr(), buffer.len() as u32)
                        .offset(offset)
                        .build()
                }
                Operation::Write(buffer) => {
                    opcode::Write::new(file, buffer.as_ptr(), buffer.len() as u32)
                        .offset(offset)
                        .build()
                }
                Operation::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
                Operation::Discard(bytes) => {
                    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE
                        | rustix::fs::FallocateFlags::KEEP_SIZE;
                    opcode::Fallocate::new(file, *bytes)
                        .offset(offset)
                        .mode(punch.bits() as i32)
                        .build()
                }
            };
            // SAFETY: the buffers lie in `under_way` until the completion of this call is taken,
            // and neither move nor are touched until then: a read's is owned by the request, a
            // write's cannot be changed while the request holds its `Arc`.
            unsafe { push(&mut self.uring, &entry.user_data(place as u64)) };
        }
        state.closed
    }

    /// Asks to be told when the queue has something new.
    fn listen(&mut self) {
        if !self.listens {
            self.listens = true;
            let wake = Fd(self.queue.wake.as_raw_fd());
            let entry = opcode::PollAdd::new(wake, POLL_IN).multi(true).build();
            // SAFETY: it points to no memory.
            unsafe { push(&mut self.uring, &entry.user_data(WAKE)) };
        }
    }

    /// Submits, and waits for a completion if it is to.
    fn enter(&mut self, waits: bool, busy: bool) -> io::Result<()> {
        let arguments = SubmitArgs::new().timespec(if busy { &TICK } else { &IDLE });
        let entered = self.uring.submitter().submit_with_args(usize::from(waits), &arguments);
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn reap(&mut self) {
        for completion in self.uring.completion() {
            if completion.user_data() == WAKE {
                // Each write to the eventfd is told once; its counter is never read.
                self.listens = io_uring::cqueue::more(completion.flags());
                continue;
            }
            let place = completion.user_data() as usize;
            let request = self.under_way[place].take().expect("a completion of a call under way");
            self.vacant.push(place);
            let result = completion.result();
            request.end(match u64::try_from(result) {
                Ok(moved) => Ok(moved),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            });
        }
    }

    fn expire(&self, now: Instant) {
        self.under_way.iter().flatten().for_each(|request| request.waiter.expire(now));
        let state = self.queue.state.lock();
        state.requests.iter().for_each(|request| request.waiter.expire(now));
    }

    /// Refuses what waits and all that comes. What is under way is left to the kernel for ever.
    fn close(&mut self) {
        let mut state = self.queue.state.lock();
        state.closed = true;
        for request in std::mem::take(&mut state.requests) {
            request.refuse(|operation| DeviceError::Closed { operation });
        }
        drop(state);
        for request in self.under_way.iter_mut().filter_map(Option::take) {
            request.waiter.expire(Instant::now() + Duration::from_secs(u32::MAX.into()));
            std::mem::forget(request);
        }
    }
}

/// Puts an entry into the submission queue, which has room for all that the driver has under way.
///
/// # Safety
/// What the entry points to stays where it is, and untouched, until its completion.
unsafe fn push(uring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: as promised by the caller.
    unsafe { uring.submission().push(entry) }.expect("the queue is as long as calls are many");
}
