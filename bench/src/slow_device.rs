use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use futures::channel::oneshot;
use storage::{AlignedBuffer, Device, DeviceError, DeviceInfo, DeviceTask, block_on};

/// A device that does one call after the other, and takes so much longer for each.
pub(crate) struct SlowDevice {
    inner: Arc<dyn Device>,
    calls: Sender<Box<dyn FnOnce() + Send>>,
}

impl SlowDevice {
    /// Slows `inner` down. Its thread ends with it.
    pub(crate) fn new(inner: impl Device + 'static, each: Duration) -> io::Result<SlowDevice> {
        let (calls, waiting) = channel::<Box<dyn FnOnce() + Send>>();
        std::thread::Builder::new().name("slow-device".into()).spawn(move || {
            for call in waiting {
                std::thread::sleep(each);
                call();
            }
        })?;
        Ok(SlowDevice { inner: Arc::new(inner), calls })
    }

    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Device) -> Result<T, DeviceError> + Send + 'static,
    ) -> DeviceTask<'_, T> {
        let (inner, (done, answer)) = (self.inner.clone(), oneshot::channel());
        // Nobody waits any more when the answer is not wanted.
        let sent = self.calls.send(Box::new(move || drop(done.send(call(&*inner)))));
        Box::pin(async move {
            let closed = DeviceError::Closed { operation: "wait" };
            sent.map_err(|_| closed.clone())?;
            answer.await.unwrap_or(Err(closed))
        })
    }
}

impl Device for SlowDevice {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        self.call(move |inner| block_on(inner.read(offset, buffer)))
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        self.call(move |inner| block_on(inner.write(offset, buffer)))
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        self.call(|inner| block_on(inner.flush()))
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        self.call(move |inner| block_on(inner.discard(offset, bytes)))
    }
}
