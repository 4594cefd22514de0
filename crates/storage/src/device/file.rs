use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, FsWord, Mode, OFlags, SeekFrom, StatxFlags,
    fallocate, flock, fstat, fstatfs, ftruncate, ioctl_blksszget, openat, seek, statx,
};
use rustix::io::Errno;

use super::backing::{lock_backing, loop_of};
use super::request::{Operation, Outcome, Request};
use super::ring::Ring;
use super::workers::{self, Workers};
use super::{
    AlignedBuffer, BUFFER_ALIGNMENT, Device, DeviceError, DeviceInfo, DeviceTask, blocking, check,
};

/// How long to wait for another user to leave: the kernel lets go of a file that a killed process
/// had calls under way at a moment after the process is gone.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How a device's calls reach the kernel.
///
/// ```
/// use storage::{DeviceOptions, FileDevice, Transport};
///
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let path = directory.path().join("device");
///
/// let transport = Some(Transport::Threads);
/// let options = DeviceOptions { size_bytes: Some(1 << 20), transport, ..Default::default() };
/// assert_eq!(FileDevice::open(&path, &options)?.transport(), Transport::Threads);
/// # Ok::<(), storage::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Through io_uring.
    Ring,
    /// Through system calls that block threads.
    Threads,
}

/// How a [`FileDevice`] is opened.
///
/// ```
/// use storage::DeviceOptions;
///
/// // A file that is made with a size of 1 GiB if there is none.
/// let options = DeviceOptions { size_bytes: Some(1 << 30), ..DeviceOptions::default() };
/// assert_eq!((options.deadline.as_secs(), options.looks_only), (10, false));
/// ```
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// Creates the file with this size, or makes it longer; bytes. Not for block devices.
    pub size_bytes: Option<u64>,
    /// Which transport to use; otherwise io_uring where the kernel allows it.
    pub transport: Option<Transport>,
    /// A call that takes longer fails.
    pub deadline: Duration,
    /// Only to look at what lies there, also while somebody else uses it: it is opened for reading
    /// and not locked.
    pub looks_only: bool,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        let deadline = Duration::from_secs(10);
        DeviceOptions { size_bytes: None, transport: None, deadline, looks_only: false }
    }
}

/// A file or block device, read and written past the kernel's page cache where that is possible.
/// Nobody else may open it as a device at the same time.
///
/// ```
/// use storage::{AlignedBuffer, Device, DeviceOptions, FileDevice};
///
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let path = directory.path().join("device");
///
/// let options = DeviceOptions { size_bytes: Some(1 << 20), ..DeviceOptions::default() };
/// let device = FileDevice::open(&path, &options)?;
/// let read = storage::block_on(device.read(0, AlignedBuffer::zeroed(4096)))?;
/// assert!(read.iter().all(|byte| *byte == 0), "it is new");
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub struct FileDevice {
    info: DeviceInfo,
    deadline: Duration,
    /// Threads for writes that last when they end, once there was one that its caller's thread
    /// could not make: a system call that blocks ends sooner than one of the ring, which a thread
    /// of the kernel has to finish. They end before the ring, which gives the file free.
    through: OnceLock<Option<Workers>>,
    backend: Backend,
    file: Arc<OwnedFd>,
    /// The file behind a loop device, locked.
    _behind: Option<OwnedFd>,
    direct: bool,
    /// The kernel does not tell such a file system that a write has to last.
    is_on_fuse: bool,
    /// The kernel sees to it that a call ends, be it with an error.
    is_local: bool,
}

/// What `fstatfs(2)` says of a file on FUSE.
const FUSE_SUPER_MAGIC: FsWord = 0x6573_5546;
/// What it says of a file on ext2 to ext4, XFS, Btrfs and F2FS, which lie on this machine's disks.
const LOCAL_MAGIC: [FsWord; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];

/// Threads of a device without a ring.
const WORKERS: usize = 16;
/// Threads for writes that last when they end.
const THROUGH_WORKERS: usize = 4;

enum Backend {
    Ring(Ring),
    Workers(Workers),
}

impl FileDevice {
    /// Opens the file or block device at `path`.
    ///
    /// # Errors
    /// When it cannot be opened for reading and writing, cannot be as large as asked for, is
    /// neither file nor block device, or is in use; less, if it is only to be looked at.
    ///
    /// ```
    /// use storage::{Device, DeviceError, DeviceOptions, FileDevice};
    ///
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let path = directory.path().join("device");
    ///
    /// let options = DeviceOptions { size_bytes: Some(1 << 20), ..DeviceOptions::default() };
    /// let device = FileDevice::open(&path, &options)?;
    /// assert_eq!(device.info().size_bytes, 1 << 20);
    /// let again = FileDevice::open(&path, &options);
    /// assert!(matches!(again, Err(DeviceError::InUse { .. })));
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<FileDevice, DeviceError> {
        let name = path.display().to_string();
        let (file, direct) = open(path, options)?;
        let stat = fstat(&file).map_err(DeviceError::system("stat"))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mut behind = None;
        if !options.looks_only {
            lock(&file, &name, FlockOperation::NonBlockingLockExclusive)?;
            match kind {
                FileType::BlockDevice => behind = lock_backing(stat.st_rdev)?,
                _ if let Some(to) = loop_of(&stat) => {
                    return Err(DeviceError::Attached { name, to: to.display().to_string() });
                }
                _ => {}
            }
        }
        let (size_bytes, block_bytes) = match kind {
            FileType::RegularFile => {
                let present = u64::try_from(stat.st_size).unwrap_or(0);
                let size_bytes = options.size_bytes.map_or(present, |wanted| wanted.max(present));
                allocate(&file, present, size_bytes)?;
                (size_bytes, file_block(&file))
            }
            FileType::BlockDevice => {
                let size = seek(&file, SeekFrom::End(0)).map_err(DeviceError::system("seek"))?;
                let block = ioctl_blksszget(&file).map_err(DeviceError::system("ioctl"))?;
                (size, block as usize)
            }
            _ => return Err(DeviceError::WrongKind { name }),
        };
        let block_bytes = block_bytes.clamp(512, BUFFER_ALIGNMENT);
        let size_bytes = size_bytes / block_bytes as u64 * block_bytes as u64;
        let file = Arc::new(file);
        let backend = Backend::new(&file, &name, options.transport)?;
        tracing::info!(device = name, size_bytes, block_bytes, direct, transport = ?backend.kind());
        let info = DeviceInfo { name, size_bytes, block_bytes };
        let (deadline, through) = (options.deadline, OnceLock::new());
        let lies_on = fstatfs(&*file).map_or(0, |found| found.f_type);
        let is_on_fuse = lies_on == FUSE_SUPER_MAGIC;
        let is_local = kind == FileType::BlockDevice || LOCAL_MAGIC.contains(&lies_on);
        Ok(FileDevice {
            info,
            deadline,
            backend,
            through,
            file,
            _behind: behind,
            direct,
            is_on_fuse,
            is_local,
        })
    }

    /// How calls reach the kernel.
    ///
    /// ```
    /// use storage::{DeviceOptions, FileDevice};
    ///
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let path = directory.path().join("device");
    /// let options = DeviceOptions { size_bytes: Some(1 << 20), ..DeviceOptions::default() };
    /// let device = FileDevice::open(&path, &options)?;
    /// println!("{:?}", device.transport());
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn transport(&self) -> Transport {
        self.backend.kind()
    }

    /// Whether calls go past the kernel's page cache.
    ///
    /// ```
    /// use storage::{DeviceOptions, FileDevice};
    ///
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let path = directory.path().join("device");
    /// let options = DeviceOptions { size_bytes: Some(1 << 20), ..DeviceOptions::default() };
    /// let device = FileDevice::open(&path, &options)?;
    /// if !device.is_direct() {
    ///     println!("the page cache keeps copies of what is read");
    /// }
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether `path` leads to this file or block device, and not to another or to nothing.
    ///
    /// ```
    /// use storage::{DeviceOptions, FileDevice};
    ///
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let path = directory.path().join("device");
    /// let options = DeviceOptions { size_bytes: Some(1 << 20), ..DeviceOptions::default() };
    /// let device = FileDevice::open(&path, &options)?;
    /// assert!(device.is_at(&path));
    /// std::fs::remove_file(&path).expect("it is there");
    /// assert!(!device.is_at(&path), "somebody has removed it");
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn is_at(&self, path: &Path) -> bool {
        let there = rustix::fs::stat(path);
        let here = fstat(&self.file);
        matches!((there, here), (Ok(there), Ok(here))
            if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino))
    }

    /// The threads for a call, if it is one for them, and the system has let them start.
    fn through_workers(&self, request: &Request) -> Option<&Workers> {
        let Operation::WriteThrough(_) = request.operation else { return None };
        let start = || {
            let started = Workers::new(&self.file, &thread_name(&self.info.name), THROUGH_WORKERS);
            started.inspect_err(|error| tracing::warn!(%error, "no threads for writes")).ok()
        };
        self.through.get_or_init(start).as_ref()
    }

    /// Whether the caller's thread makes the call: nobody has to be woken for it, and it cannot be
    /// given up when it takes too long.
    fn is_made_here(&self, operation: &Operation) -> bool {
        let lasts = matches!(operation, Operation::WriteThrough(_));
        lasts && self.is_local && blocking::is_running()
    }

    async fn call(&self, operation: Operation, offset: u64) -> Outcome {
        let is_made_here = self.is_made_here(&operation);
        let (request, receiver) = Request::new(operation, offset, self.deadline);
        match &self.backend {
            _ if is_made_here => workers::make(&self.file, request),
            Backend::Ring(ring) => match self.through_workers(&request) {
                Some(workers) => workers.submit(request),
                None => ring.submit(request),
            },
            Backend::Workers(workers) => workers.submit(request),
        }
        receiver.await.unwrap_or(Err(DeviceError::Closed { operation: "wait" }))
    }
}

impl Backend {
    fn new(
        file: &Arc<OwnedFd>,
        name: &str,
        transport: Option<Transport>,
    ) -> Result<Backend, DeviceError> {
        let thread = thread_name(name);
        let error = |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            DeviceError::System { operation: "start io", errno }
        };
        if transport != Some(Transport::Threads) {
            match Ring::new(file.clone(), &thread) {
                Ok(ring) => return Ok(Backend::Ring(ring)),
                Err(refused) if transport == Some(Transport::Ring) => return Err(error(refused)),
                Err(refused) => {
                    tracing::warn!(device = name, %refused, "no io_uring here; using threads");
                }
            }
        }
        Workers::new(file, &thread, WORKERS).map(Backend::Workers).map_err(error)
    }

    fn kind(&self) -> Transport {
        match self {
            Backend::Ring(_) => Transport::Ring,
            Backend::Workers(_) => Transport::Threads,
        }
    }
}

/// The kernel shows 15 characters of it.
fn thread_name(device: &str) -> String {
    format!("dev-{}", device.rsplit('/').next().unwrap_or(device))
}

/// Opens past the page cache, else with it. Says which.
fn open(path: &Path, options: &DeviceOptions) -> Result<(OwnedFd, bool), DeviceError> {
    let mut flags = OFlags::CLOEXEC;
    flags |= if options.looks_only { OFlags::RDONLY } else { OFlags::RDWR };
    if options.size_bytes.is_some() {
        flags |= OFlags::CREATE;
    }
    // Of a block device, this says whether the kernel or another program has claimed it.
    let is_block = std::fs::metadata(path).is_ok_and(|metadata| {
        use std::os::unix::fs::FileTypeExt;
        metadata.file_type().is_block_device()
    });
    if is_block && !options.looks_only {
        flags = (flags | OFlags::EXCL).difference(OFlags::CREATE);
    }
    let mode = Mode::RUSR | Mode::WUSR;
    let open = |flags| openat(rustix::fs::CWD, path, flags, mode);
    let opened = match open(flags | OFlags::DIRECT) {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => open(flags).map(|file| (file, false)),
        opened => opened.map(|file| (file, true)),
    };
    match opened {
        Err(Errno::BUSY) => Err(DeviceError::InUse { name: path.display().to_string() }),
        opened => opened.map_err(DeviceError::system("open")),
    }
}

/// Makes this the device's only user, or one of those who share it.
pub(super) fn lock(
    file: &OwnedFd,
    name: &str,
    operation: FlockOperation,
) -> Result<(), DeviceError> {
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(file, operation) {
            Err(Errno::WOULDBLOCK) if Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::WOULDBLOCK) => return Err(DeviceError::InUse { name: name.to_owned() }),
            locked => return locked.map_err(DeviceError::system("lock")),
        }
    }
}

/// Gives a file its space, so that it is not missing later.
fn allocate(file: &OwnedFd, present: u64, size: u64) -> Result<(), DeviceError> {
    if size <= present {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Err(Errno::OPNOTSUPP) => ftruncate(file, size).map_err(DeviceError::system("truncate")),
        allocated => allocated.map_err(DeviceError::system("allocate")),
    }
}

/// The alignment that direct calls to a file need.
fn file_block(file: &OwnedFd) -> usize {
    let wanted = StatxFlags::from_bits_retain(STATX_DIOALIGN);
    match statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(statx) if statx.stx_dio_offset_align.is_power_of_two() => {
            statx.stx_dio_offset_align as usize
        }
        _ => BUFFER_ALIGNMENT,
    }
}

/// `STATX_DIOALIGN` of `statx(2)`, since Linux 6.1.
const STATX_DIOALIGN: u32 = 0x2000;

impl Device for FileDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        Box::pin(async move {
            check(&self.info, "read", offset, buffer.len() as u64)?;
            let buffer = self.call(Operation::Read(buffer), offset).await?;
            Ok(buffer.expect("a read gives its buffer back"))
        })
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "write", offset, buffer.len() as u64)?;
            self.call(Operation::Write(buffer), offset).await.map(drop)
        })
    }

    fn write_through(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "write", offset, buffer.len() as u64)?;
            if self.is_on_fuse {
                self.call(Operation::Write(buffer), offset).await?;
                return self.call(Operation::Flush, 0).await.map(drop);
            }
            self.call(Operation::WriteThrough(buffer), offset).await.map(drop)
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        Box::pin(async move { self.call(Operation::Flush, 0).await.map(drop) })
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "discard", offset, bytes)?;
            self.call(Operation::Discard(bytes), offset).await.map(drop)
        })
    }

    fn allocate(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "allocate", offset, bytes)?;
            match self.call(Operation::Allocate(bytes), offset).await {
                // A block device, and a file system that knows no such thing, have all they need.
                Err(
                    DeviceError::Unsupported { .. }
                    | DeviceError::System { errno: Errno::NODEV, .. },
                ) => Ok(()),
                allocated => allocated.map(drop),
            }
        })
    }
}
