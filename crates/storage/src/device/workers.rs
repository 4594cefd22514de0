use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};

use super::request::{Operation, QUEUE_MAX, Request, Waiter};
use super::{DeviceError, wait_for_end};

/// How often deadlines are looked at while calls are under way.
const TICK: Duration = Duration::from_millis(200);

/// A device's calls through system calls that block threads: for kernels without io_uring.
pub(super) struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    /// There is something to watch the deadline of.
    watched: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    /// Those who wait for calls that block a worker.
    under_way: Vec<Option<Arc<Waiter>>>,
    /// Whether the one who looks at deadlines sleeps until there are any.
    watcher_sleeps: bool,
    closed: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.under_way.iter().all(Option::is_none)
    }
}

impl Workers {
    /// Starts as many threads over `file`: so many calls it has at a time.
    ///
    /// # Errors
    /// When the system refuses another thread.
    pub(super) fn new(file: &Arc<OwnedFd>, name: &str, threads: usize) -> std::io::Result<Workers> {
        let state = State { under_way: vec![None; threads], ..State::default() };
        let queue = Arc::new(Queue {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            watched: Condvar::new(),
        });
        // Made first, so that threads which have started end if a later one cannot.
        let mut workers = Workers { queue, threads: Vec::new() };
        for index in 0..threads {
            let (queue, file) = (workers.queue.clone(), file.clone());
            let builder = std::thread::Builder::new().name(format!("{name}-{index}"));
            workers.threads.push(builder.spawn(move || queue.work(&file, index))?);
        }
        let queue = workers.queue.clone();
        let builder = std::thread::Builder::new().name(format!("{name}-watch"));
        workers.threads.push(builder.spawn(move || queue.watch())?);
        Ok(workers)
    }

    /// Takes a call over.
    pub(super) fn submit(&self, request: Request) {
        let mut state = self.queue.state.lock();
        if state.requests.len() >= QUEUE_MAX {
            drop(state);
            return request.refuse(|operation| DeviceError::Busy { operation });
        }
        state.requests.push_back(request);
        let watcher_sleeps = std::mem::take(&mut state.watcher_sleeps);
        drop(state);
        self.queue.arrived.notify_one();
        if watcher_sleeps {
            self.queue.watched.notify_one();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.arrived.notify_all();
        self.queue.watched.notify_all();
        wait_for_end(&self.threads);
    }
}

impl Queue {
    fn work(&self, file: &OwnedFd, index: usize) {
        let mut state = self.state.lock();
        loop {
            let Some(request) = state.requests.pop_front() else {
                if state.closed {
                    return;
                }
                self.arrived.wait(&mut state);
                continue;
            };
            state.under_way[index] = Some(request.waiter.clone());
            drop(state);
            make(file, request);
            state = self.state.lock();
            state.under_way[index] = None;
        }
    }

    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            if state.is_idle() {
                state.watcher_sleeps = true;
                self.watched.wait(&mut state);
                continue;
            }
            self.watched.wait_for(&mut state, TICK);
            let now = Instant::now();
            state.under_way.iter().flatten().for_each(|waiter| waiter.expire(now));
            state.requests.iter().for_each(|request| request.waiter.expire(now));
        }
    }
}

/// Makes a call on this thread, to its end.
pub(super) fn make(file: &OwnedFd, mut request: Request) {
    let outcome = call(file, &mut request);
    request.end(outcome);
}

/// Makes the system call, again and again until all bytes are moved or none is.
fn call(file: &OwnedFd, request: &mut Request) -> Result<u64, Errno> {
    let offset = request.offset;
    match &mut request.operation {
        Operation::Read(buffer) => {
            moves(buffer.len(), |at| pread(file, &mut buffer[at..], offset + at as u64))
        }
        Operation::Write(buffer) => {
            moves(buffer.len(), |at| pwrite(file, &buffer[at..], offset + at as u64))
        }
        Operation::WriteThrough(buffer) => moves(buffer.len(), |at| {
            let offset = offset + at as u64;
            pwritev2(file, &[IoSlice::new(&buffer[at..])], offset, ReadWriteFlags::DSYNC)
        }),
        Operation::Flush => fdatasync(file).map(|()| 0),
        Operation::Discard(bytes) => {
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, punch, offset, *bytes).map(|()| 0)
        }
        Operation::Allocate(bytes) => {
            fallocate(file, FallocateFlags::empty(), offset, *bytes).map(|()| 0)
        }
    }
}

fn moves(bytes: usize, mut step: impl FnMut(usize) -> Result<usize, Errno>) -> Result<u64, Errno> {
    let mut moved = 0;
    while moved < bytes {
        match step(moved) {
            Ok(0) => break,
            Ok(count) => moved += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(moved as u64)
}
