use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::request::{Operation, QUEUE_MAX, Request};
use super::uring::{Bell, Uring};
use super::{DeviceError, blocking, wait_for_end};

/// A device's calls through io_uring: one thread hands them to the kernel and takes what comes
/// back, so that a call costs its caller a place in a queue and, only if the thread sleeps, one
/// system call to wake it.
pub(super) struct Ring {
    queue: Arc<Queue>,
    file: Arc<OwnedFd>,
    driver: [JoinHandle<()>; 1],
}

struct Queue {
    state: Mutex<State>,
    bell: Arc<Bell>,
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
        let queue = Arc::new(Queue { state: Mutex::default(), bell: Arc::new(Bell::new()?) });
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let driver = {
            let (queue, file) = (queue.clone(), file.clone());
            // The ring belongs to the thread that makes it.
            std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                match Uring::new(queue.bell.clone()) {
                    Ok(uring) => {
                        let _ = sender.send(Ok(()));
                        queue.drive(uring, &file);
                    }
                    Err(error) => {
                        let _ = sender.send(Err(error));
                    }
                }
            })?
        };
        receiver.recv().map_err(|_| io::Error::other("the ring's thread has ended"))??;
        Ok(Ring { queue, file, driver: [driver] })
    }

    /// Takes a call over. A read is left to the caller's thread if that waits for its reads itself.
    pub(super) fn submit(&self, request: Request) {
        let request = match request.operation {
            Operation::Read(_) => match blocking::submit(&self.file, request) {
                Ok(()) => return,
                Err(request) => request,
            },
            _ => request,
        };
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
        self.queue.bell.ring();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.bell.sleeps.store(true, Ordering::SeqCst);
        self.queue.bell.ring();
        wait_for_end(&self.driver);
        if self.driver.iter().all(JoinHandle::is_finished) {
            // A thread may still hold the file for a read that nobody waits for.
            let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
        }
    }
}

impl Queue {
    /// The thread's work.
    fn drive(&self, mut uring: Uring, file: &Arc<OwnedFd>) {
        loop {
            let closed = self.take_requests(&mut uring, file);
            if closed && uring.is_idle() {
                return;
            }
            self.bell.sleeps.store(true, Ordering::SeqCst);
            let waits = !uring.has_room() || self.state.lock().requests.is_empty();
            if let Err(error) = uring.enter(waits) {
                tracing::error!(%error, "io_uring no longer takes calls; the device is closed");
                return self.close();
            }
            if uring.expire() {
                let now = Instant::now();
                let state = self.state.lock();
                state.requests.iter().for_each(|request| request.waiter.expire(now));
            }
        }
    }

    /// Hands requests over, as many as there is room for. Says whether no more will come.
    fn take_requests(&self, uring: &mut Uring, file: &Arc<OwnedFd>) -> bool {
        let mut state = self.state.lock();
        while uring.has_room() {
            let Some(request) = state.requests.pop_front() else { break };
            uring.push(file.clone(), request);
        }
        state.closed
    }

    /// Refuses what waits and all that comes.
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for request in std::mem::take(&mut state.requests) {
            request.refuse(|operation| DeviceError::Closed { operation });
        }
    }
}
