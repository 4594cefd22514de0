use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::line::{Connection, LineError};
use crate::protocol::{REQUEST_BYTES_MAX, Request, Response, SILENCE_MAX};
use crate::service::{PROGRESS_INTERVAL, Service, refused};
use crate::socket::{connect, listen};

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// How long the answers under way may take when the daemon ends.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// Between two tries to accept when the system is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The control socket of a pool, served on threads of its own until dropped.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    socket: PathBuf,
}

#[derive(Debug)]
struct Shared {
    service: Arc<Service>,
    stopping: AtomicBool,
    connections: Mutex<usize>,
    ended: Condvar,
}

impl Server {
    /// Makes the socket. Whoever connects waits until [`start`](Server::start).
    pub fn bind(socket: PathBuf) -> io::Result<(UnixListener, PathBuf)> {
        Ok((listen(&socket)?, socket))
    }

    /// Begins to answer.
    pub fn start(
        (listener, socket): (UnixListener, PathBuf),
        service: Arc<Service>,
    ) -> io::Result<Server> {
        let shared = Arc::new(Shared {
            service,
            stopping: AtomicBool::new(false),
            connections: Mutex::new(0),
            ended: Condvar::new(),
        });
        let accepting = shared.clone();
        let name = "control".to_string();
        std::thread::Builder::new().name(name).spawn(move || accepting.accept(&listener))?;
        Ok(Server { shared, socket })
    }
}

impl Drop for Server {
    /// Takes no more connections and lets the answers under way go out.
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts; without a socket it cannot be woken, and ends with us.
        let _ = connect(&self.socket);
        let deadline = Instant::now() + FAREWELL_MAX;
        let mut connections = self.shared.connections.lock();
        while *connections > 0 {
            if self.shared.ended.wait_until(&mut connections, deadline).timed_out() {
                break;
            }
        }
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &UnixListener) {
        loop {
            let accepted = listener.accept();
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.take(stream),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a control connection");
                    std::thread::sleep(ACCEPT_RETRY);
                }
            }
        }
    }

    fn take(self: &Arc<Self>, stream: UnixStream) {
        let Some(guest) = Guest::enter(self) else {
            if let Ok(mut connection) = Connection::new(stream, ACCEPT_RETRY) {
                let message = "the daemon has too many control connections; try again";
                let _ = connection.send(refused(message.to_string(), false));
            }
            return;
        };
        let name = "control-guest".to_string();
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            let outcome = Connection::new(stream, SILENCE_MAX)
                .map_err(LineError::from)
                .and_then(|mut connection| guest.0.serve(&mut connection));
            match outcome {
                Ok(()) | Err(LineError::Closed) => {}
                Err(error) => tracing::debug!(%error, "a control connection broke off"),
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a thread for a control connection");
        }
    }

    /// One request, one answer.
    fn serve(&self, connection: &mut Connection) -> Result<(), LineError> {
        let request = match connection.receive(REQUEST_BYTES_MAX, SILENCE_MAX) {
            Ok(request) => request,
            Err(LineError::Closed) => return Err(LineError::Closed),
            Err(error) => return connection.send(refused(error.to_string(), true)),
        };
        let response = match request {
            Request::Prime(prime) => self.service.prime(prime, |now| {
                let told = connection.send(Response::PrimeProgress(now));
                match told.is_err() || self.stopping.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }),
            Request::AddLog { device, force } => {
                let connection = parking_lot::Mutex::new(&mut *connection);
                let told = parking_lot::Mutex::new(None::<Instant>);
                self.service.add_log(device, force, &|progress| {
                    let mut told = told.lock();
                    if told.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL) {
                        *told = Some(Instant::now());
                        // Whoever has asked may be gone; what he asked for is done.
                        let _ = connection.lock().send(Response::Progress(progress));
                    }
                })
            }
            request => self.service.answer(request),
        };
        connection.send(response)
    }
}

/// A connection that counts for as long as this lives.
struct Guest(Arc<Shared>);

impl Guest {
    fn enter(shared: &Arc<Shared>) -> Option<Guest> {
        let mut connections = shared.connections.lock();
        if *connections >= CONNECTIONS_MAX {
            return None;
        }
        *connections += 1;
        Some(Guest(shared.clone()))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        *self.0.connections.lock() -= 1;
        self.0.ended.notify_all();
    }
}
