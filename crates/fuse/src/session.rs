use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, InitOut};
use crate::buffer::{REQUEST_BYTES_MAX, RequestBuffer};
use crate::crew::{Crew, Crewing};
use crate::device;
use crate::dispatch::{Context, dispatch};
use crate::filesystem::{Filesystem, Kernel, Settings};
use crate::flags::InitFlags;
use crate::interrupt::Interrupts;
use crate::mount::{Mount, UnmountError, unmount};
use crate::notify::Notifier;
use crate::reply::send;
use crate::request::{self, Malformed, Operation};
use crate::unheard::Unheard;
use crate::watch::{Desk, Watch};

/// A thread of a large crew gives the memory of a request longer than this back at once, since
/// many of them would hold much that they may never need again.
const KEPT_BYTES: usize = 64 << 10;

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The device failed.
    #[error("the FUSE device failed during the handshake: {0}; was it unmounted meanwhile?")]
    Device(#[from] Errno),
    /// The kernel sent something else than INIT.
    #[error("the kernel did not begin with a handshake: {0}")]
    Malformed(#[from] Malformed),
    /// The kernel is too old.
    #[error(
        "the kernel speaks FUSE {major}.{minor}, {}.{} or later is needed (Linux 5.4)",
        abi::MAJOR,
        abi::MINOR_MIN
    )]
    Old {
        /// Major version of the protocol.
        major: u32,
        /// Minor version of the protocol.
        minor: u32,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}; raise the limit on processes")]
    Thread(#[from] std::io::Error),
}

/// A file system being served. Dropping it detaches the mount lazily; who wants to know whether
/// files are open calls [`unmount`](Session::unmount).
#[derive(Debug)]
pub struct Session {
    device: Arc<OwnedFd>,
    crew: Arc<Crew>,
    kernel: Kernel,
    flags: InitFlags,
    mountpoint: PathBuf,
}

/// What the threads of a session share.
struct Shared<F> {
    filesystem: F,
    device: Arc<OwnedFd>,
    context: Context,
}

impl Session {
    /// Shakes hands with the kernel and begins to serve `mount` on threads of its own. On an
    /// error nothing stays mounted.
    pub fn start<F: Filesystem>(
        mount: Mount,
        filesystem: F,
        crewing: Crewing,
    ) -> Result<Session, SessionError> {
        let mountpoint = mount.mountpoint.clone();
        Session::begin(mount, filesystem, crewing).inspect_err(|_| {
            let _ = unmount(&mountpoint, true);
        })
    }

    fn begin<F: Filesystem>(
        mount: Mount,
        filesystem: F,
        crewing: Crewing,
    ) -> Result<Session, SessionError> {
        let Mount { device, mountpoint } = mount;
        let (kernel, flags) = shake_hands(&device, &filesystem)?;
        let device = Arc::new(device);
        let crew = Arc::new(Crew::new(crewing));
        let extended_setxattr = flags.contains(InitFlags::SETXATTR_EXT);
        let watch = Arc::new(Watch::default());
        let (watching, watched) = (watch.clone(), crew.clone());
        let context = Context {
            crew: crew.clone(),
            interrupts: Interrupts::default(),
            watch,
            unheard: Unheard::new(Notifier::new(device.clone()))?,
            extended_setxattr,
        };
        let shared = Arc::new(Shared { filesystem, device: device.clone(), context });
        let asked = Arc::downgrade(&shared);
        let lasts = move |age| asked.upgrade().is_some_and(|shared| shared.filesystem.lasts(age));
        hire(&shared)?;
        let watcher = std::thread::Builder::new().name("fuse-watch".into());
        watcher.spawn(move || watching.run(&watched, lasts))?;
        Ok(Session { device, crew, kernel, flags, mountpoint })
    }

    /// What the kernel offered.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What was agreed upon.
    pub fn flags(&self) -> InitFlags {
        self.flags
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Number of threads at the moment.
    pub fn threads(&self) -> usize {
        self.crew.threads()
    }

    /// For telling the kernel about changes.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.device.clone())
    }

    /// Unmounts; the session ends when that is done and, with `lazy`, all files are closed.
    pub fn unmount(&self, lazy: bool) -> Result<(), UnmountError> {
        if self.crew.threads() == 0 {
            return Err(UnmountError::NotMounted { path: self.mountpoint.clone() });
        }
        unmount(&self.mountpoint, lazy)
    }

    /// Waits until the session has ended, however that came about.
    pub fn wait(&self) {
        self.crew.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.unmount(true);
    }
}

/// Reads INIT and answers it.
fn shake_hands<F: Filesystem>(
    device: &OwnedFd,
    filesystem: &F,
) -> Result<(Kernel, InitFlags), SessionError> {
    let mut buffer = RequestBuffer::new(REQUEST_BYTES_MAX);
    let length = loop {
        match rustix::io::read(device, buffer.space()) {
            Ok(length) => break length,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    let bytes = buffer.request(length);
    let header = request::header(bytes)?;
    let Operation::Init { arguments, more } = request::operation(&header, bytes, false)? else {
        return Err(Malformed::Short { opcode: header.opcode, length }.into());
    };
    let (major, minor) = (arguments.major, arguments.minor);
    if major != abi::MAJOR || minor < abi::MINOR_MIN {
        let error = -Errno::PROTO.raw_os_error();
        let _ = send(device.as_fd(), header.unique, error, std::iter::empty());
        return Err(SessionError::Old { major, minor });
    }
    let mut offered = InitFlags::from_bits_retain(u64::from(arguments.flags));
    if offered.contains(InitFlags::INIT_EXT) {
        offered |= InitFlags::from_bits_retain(u64::from(more.flags2) << 32);
    }
    let readahead_bytes_max = arguments.max_readahead;
    let kernel = Kernel { minor, flags: offered, readahead_bytes_max };
    let settings = filesystem.init(&kernel);
    let wanted = settings.flags | InitFlags::MAX_PAGES | InitFlags::INIT_EXT;
    let flags = wanted & offered;
    let reply = init_reply(&kernel, &settings, flags);
    send(device.as_fd(), header.unique, 0, std::iter::once(reply.as_bytes()))?;
    Ok((kernel, flags))
}

fn init_reply(kernel: &Kernel, settings: &Settings, flags: InitFlags) -> InitOut {
    let page = rustix::param::page_size();
    let request_bytes_max = settings.request_bytes_max.clamp(page, REQUEST_BYTES_MAX);
    // The kernel marks requests as congested at three quarters, as libfuse has it.
    let congestion_threshold = settings.background_max - settings.background_max / 4;
    InitOut {
        major: abi::MAJOR,
        minor: abi::MINOR.min(kernel.minor),
        max_readahead: settings.readahead_bytes_max.min(kernel.readahead_bytes_max),
        flags: low(flags.bits()),
        flags2: low(flags.bits() >> 32),
        max_background: settings.background_max,
        congestion_threshold,
        max_write: low(request_bytes_max as u64),
        time_gran: settings.time_granularity_ns,
        max_pages: u16::try_from(request_bytes_max / page).unwrap_or(u16::MAX),
        ..InitOut::default()
    }
}

/// The lower 32 bits.
fn low(bits: u64) -> u32 {
    (bits & u64::from(u32::MAX)) as u32
}

/// Starts a thread that answers requests.
fn hire<F: Filesystem>(shared: &Arc<Shared<F>>) -> Result<(), std::io::Error> {
    if !shared.context.crew.join() {
        return Ok(());
    }
    let member = shared.clone();
    let started = std::thread::Builder::new().name("fuse".into()).spawn(move || member.work());
    if let Err(error) = started {
        shared.context.crew.leave();
        return Err(error);
    }
    Ok(())
}

impl<F: Filesystem> Shared<F> {
    /// Answers requests until the mount ends or there are too many threads.
    fn work(self: Arc<Self>) {
        let cloned = device::clone(&self.device);
        if let Err(errno) = &cloned {
            tracing::debug!(%errno, "threads share one descriptor of the FUSE device");
        }
        let device = cloned.map_or_else(|_| self.device.clone(), Arc::new);
        let desk = self.context.watch.seat(device.clone());
        self.work_at(&desk, &device);
        self.context.watch.leave(&desk);
    }

    fn work_at(self: &Arc<Self>, desk: &Desk, device: &OwnedFd) {
        let mut buffer = RequestBuffer::new(REQUEST_BYTES_MAX);
        let mut scratch = Vec::new();
        loop {
            match rustix::io::read(device, buffer.space()) {
                Ok(length) => {
                    if self.context.crew.begin()
                        && let Err(error) = hire(self)
                    {
                        tracing::warn!(%error, "cannot start a further thread");
                    }
                    self.answer(desk, device, buffer.request(length), &mut scratch);
                    if self.context.crew.end() {
                        return;
                    }
                    if length > KEPT_BYTES && self.context.crew.is_large() {
                        buffer = RequestBuffer::new(REQUEST_BYTES_MAX);
                    }
                }
                // NOENT: the request was taken back before it was read.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                Err(errno) => {
                    if errno != Errno::NODEV && errno != Errno::CONNABORTED {
                        tracing::error!(%errno, "reading the FUSE device failed");
                    }
                    break;
                }
            }
        }
        if self.context.crew.leave() {
            self.filesystem.destroy();
            self.context.crew.finish();
        }
    }

    fn answer(&self, desk: &Desk, device: &OwnedFd, request: &[u8], scratch: &mut Vec<u8>) {
        let answered = std::panic::catch_unwind(AssertUnwindSafe(|| {
            dispatch(&self.filesystem, &self.context, desk, device.as_fd(), request, scratch);
        }));
        if answered.is_err() {
            tracing::error!("a call of the file system panicked; it was answered with EIO");
        }
    }
}
