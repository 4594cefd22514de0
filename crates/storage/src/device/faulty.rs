use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::{AlignedBuffer, Device, DeviceError, DeviceInfo, DeviceTask};
use crate::Clock;

/// A call to a device, as a fault's filter sees it. Offsets and lengths in bytes.
///
/// ```
/// # storage::block_on(async {
/// use storage::DeviceOperation;
///
/// // Which calls are to fail: those that write.
/// let writes = |call: &DeviceOperation| matches!(call, DeviceOperation::Write { .. });
/// assert!(writes(&DeviceOperation::Write { offset: 0, bytes: 4096 }));
/// assert!(!writes(&DeviceOperation::Flush));
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of the same name of Device")]
pub enum DeviceOperation {
    Read { offset: u64, bytes: u64 },
    Write { offset: u64, bytes: u64 },
    Flush,
    Discard { offset: u64, bytes: u64 },
}

/// A device that fails, hangs, answers late or damages what is read, as its [`DeviceFaults`] say.
/// For tests.
///
/// ```
/// # storage::block_on(async {
/// use std::sync::Arc;
/// use storage::{AlignedBuffer, Device, FaultyDevice, MemoryDevice, RealClock};
///
/// let inner = Arc::new(MemoryDevice::new(8192, 4096));
/// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
///
/// faults.fail_next_of(1, rustix::io::Errno::IO, |_call| true);
/// assert!(device.read(0, AlignedBuffer::zeroed(4096)).await.is_err());
/// assert!(device.read(0, AlignedBuffer::zeroed(4096)).await.is_ok());
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub struct FaultyDevice {
    inner: Arc<dyn Device>,
    faults: Arc<DeviceFaults>,
}

/// Changes bytes that were read at an offset.
type Damage = Box<dyn Fn(u64, &mut [u8]) + Send>;
/// Which calls a fault is for.
type Filter = Box<dyn Fn(&DeviceOperation) -> bool + Send>;

/// The switch of a [`FaultyDevice`].
///
/// ```
/// # storage::block_on(async {
/// use std::sync::Arc;
/// use storage::{Device, FaultyDevice, MemoryDevice, RealClock};
///
/// let inner = Arc::new(MemoryDevice::new(8192, 4096));
/// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
///
/// faults.fail_next_of(u64::MAX, rustix::io::Errno::NODEV, |_call| true);
/// assert!(device.flush().await.is_err());
/// faults.clear();
/// assert!(device.flush().await.is_ok());
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub struct DeviceFaults {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failures: VecDeque<Failure>,
    hanging: Option<Filter>,
    waiting: Vec<Waker>,
    delay: Duration,
    damage: Option<Damage>,
}

struct Failure {
    count: u64,
    filter: Filter,
    errno: Errno,
}

impl FaultyDevice {
    /// Puts faults that can be switched around `inner`; at first there are none. Delays pass on
    /// `clock`.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{Device, FaultyDevice, MemoryDevice, RealClock};
    ///
    /// let inner = Arc::new(MemoryDevice::new(8192, 4096));
    /// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
    ///
    /// assert!(device.flush().await.is_ok(), "there are no faults yet");
    /// # drop(faults);
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn new(inner: Arc<dyn Device>, clock: Arc<dyn Clock>) -> (FaultyDevice, Arc<DeviceFaults>) {
        let faults = Arc::new(DeviceFaults { clock, state: Mutex::default() });
        (FaultyDevice { inner, faults: faults.clone() }, faults)
    }
}

impl DeviceFaults {
    /// The next `count` calls that `filter` picks fail with `errno`. A call is struck by the first
    /// failure set that fits it. `u64::MAX` is for all calls.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{Device, DeviceOperation, FaultyDevice, MemoryDevice, RealClock};
    ///
    /// let inner = Arc::new(MemoryDevice::new(8192, 4096));
    /// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
    ///
    /// let flushes = |call: &DeviceOperation| matches!(call, DeviceOperation::Flush);
    /// faults.fail_next_of(1, rustix::io::Errno::IO, flushes);
    /// assert!(device.flush().await.is_err());
    /// assert!(device.flush().await.is_ok());
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn fail_next_of(
        &self,
        count: u64,
        errno: Errno,
        filter: impl Fn(&DeviceOperation) -> bool + Send + 'static,
    ) {
        if count > 0 {
            let failure = Failure { count, filter: Box::new(filter), errno };
            self.state.lock().failures.push_back(failure);
        }
    }

    /// Calls that `filter` picks wait until [`clear`](DeviceFaults::clear).
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{Device, FaultyDevice, MemoryDevice, RealClock};
    ///
    /// let inner = Arc::new(MemoryDevice::new(8192, 4096));
    /// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
    ///
    /// faults.hang(|_call| true);
    /// let (flushed, ()) = futures::join!(device.flush(), async { faults.clear() });
    /// assert!(flushed.is_ok(), "it went on when the faults were cleared");
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn hang(&self, filter: impl Fn(&DeviceOperation) -> bool + Send + 'static) {
        self.state.lock().hanging = Some(Box::new(filter));
    }

    /// Each call waits this long first.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use storage::{Clock, Device, FaultyDevice, MemoryDevice, Simulation};
    ///
    /// let simulation = Simulation::new(1);
    /// let inner = Arc::new(MemoryDevice::new(8192, 4096));
    /// let (device, faults) = FaultyDevice::new(inner, Arc::new(simulation.clone()));
    /// faults.delay(Duration::from_secs(9));
    /// assert!(simulation.run(device.flush()).is_ok());
    /// assert_eq!(simulation.now(), Duration::from_secs(9));
    /// ```
    pub fn delay(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    /// What is read is changed: `damage` is given the offset and the bytes.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{AlignedBuffer, Device, FaultyDevice, MemoryDevice, RealClock};
    ///
    /// let inner = Arc::new(MemoryDevice::new(8192, 4096));
    /// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
    ///
    /// faults.damage(|_offset, bytes| bytes[0] ^= 1);
    /// assert_eq!(device.read(0, AlignedBuffer::zeroed(4096)).await?[0], 1);
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn damage(&self, damage: impl Fn(u64, &mut [u8]) + Send + 'static) {
        self.state.lock().damage = Some(Box::new(damage));
    }

    /// No faults any more; calls that hang go on.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{AlignedBuffer, Device, FaultyDevice, MemoryDevice, RealClock};
    ///
    /// let inner = Arc::new(MemoryDevice::new(8192, 4096));
    /// let (device, faults) = FaultyDevice::new(inner, Arc::new(RealClock::new()));
    ///
    /// faults.damage(|_offset, bytes| bytes.fill(9));
    /// faults.clear();
    /// assert_eq!(device.read(0, AlignedBuffer::zeroed(4096)).await?[0], 0);
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        state.waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits while the call is to wait, and picks its fate.
    async fn strike(&self, call: DeviceOperation) -> Result<(), DeviceError> {
        let delay = self.state.lock().delay;
        if !delay.is_zero() {
            self.clock.sleep(delay).await;
        }
        std::future::poll_fn(|context| {
            let mut state = self.state.lock();
            if !state.hanging.as_ref().is_some_and(|filter| filter(&call)) {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
        let mut state = self.state.lock();
        let Some(at) = state.failures.iter().position(|failure| (failure.filter)(&call)) else {
            return Ok(());
        };
        let failure = &mut state.failures[at];
        let errno = failure.errno;
        failure.count -= 1;
        if failure.count == 0 {
            state.failures.remove(at);
        }
        let operation = match call {
            DeviceOperation::Read { .. } => "read",
            DeviceOperation::Write { .. } => "write",
            DeviceOperation::Flush => "flush",
            DeviceOperation::Discard { .. } => "discard",
        };
        Err(DeviceError::system(operation)(errno))
    }
}

impl Device for FaultyDevice {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        Box::pin(async move {
            let bytes = buffer.len() as u64;
            self.faults.strike(DeviceOperation::Read { offset, bytes }).await?;
            let mut buffer = self.inner.read(offset, buffer).await?;
            if let Some(damage) = &self.faults.state.lock().damage {
                damage(offset, &mut buffer);
            }
            Ok(buffer)
        })
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            let bytes = buffer.len() as u64;
            self.faults.strike(DeviceOperation::Write { offset, bytes }).await?;
            self.inner.write(offset, buffer).await
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.faults.strike(DeviceOperation::Flush).await?;
            self.inner.flush().await
        })
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.faults.strike(DeviceOperation::Discard { offset, bytes }).await?;
            self.inner.discard(offset, bytes).await
        })
    }

    fn allocate(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        self.inner.allocate(offset, bytes)
    }
}
