use std::sync::Arc;

use rustix::io::Errno;
use storage::{AlignedBuffer, Clock, Device, DeviceError, DeviceInfo, DeviceTask};

use super::{Queue, Refusal, Request, Station};

/// A [`Device`] that takes the time of a model; its bytes lie on another one, which is as quick as
/// it likes. On a [`storage::Simulation`]'s clock the time is virtual.
pub struct ModelDevice {
    info: DeviceInfo,
    bytes: Arc<dyn Device>,
    station: Arc<Station>,
}

impl ModelDevice {
    /// `bytes` at the speed of `queue`; the size is that of the smaller one.
    pub fn new(
        bytes: Arc<dyn Device>,
        queue: Box<dyn Queue>,
        clock: Arc<dyn Clock>,
    ) -> ModelDevice {
        let mut info = bytes.info().clone();
        let block = info.block_bytes as u64;
        info.size_bytes = info.size_bytes.min(queue.size_bytes()) / block * block;
        ModelDevice { info, bytes, station: Arc::new(Station::new(queue, clock)) }
    }

    /// The model.
    pub fn station(&self) -> &Arc<Station> {
        &self.station
    }

    /// Waits until the model is done with a request.
    async fn wait(&self, operation: &'static str, request: Request) -> Result<(), DeviceError> {
        self.station.serve(request).await.map_err(|refusal| error(operation, &refusal))
    }
}

fn error(operation: &'static str, refusal: &Refusal) -> DeviceError {
    match *refusal {
        Refusal::OutOfRange { offset, bytes, .. } => {
            DeviceError::OutOfRange { operation, offset, bytes }
        }
        Refusal::WornOut { .. } => DeviceError::System { operation, errno: Errno::ROFS },
    }
}

impl Device for ModelDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        Box::pin(async move {
            self.wait("read", Request::read(offset, buffer.len() as u64)).await?;
            self.bytes.read(offset, buffer).await
        })
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.wait("write", Request::write(offset, buffer.len() as u64)).await?;
            self.bytes.write(offset, buffer).await
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.wait("flush", Request::flush()).await?;
            self.bytes.flush().await
        })
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.wait("discard", Request::discard(offset, bytes)).await?;
            self.bytes.discard(offset, bytes).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use storage::{MemoryDevice, Simulation, Spawn};

    use super::*;
    use crate::model::Equipment;

    /// Reads and writes by tasks side by side on a modelled device; when each was done.
    fn run(seed: u64) -> Vec<(u64, Duration)> {
        let simulation = Simulation::new(seed);
        let clock: Arc<dyn Clock> = Arc::new(simulation.clone());
        let equipment = Equipment::shipped("quantum-atlas-10k").expect("it comes with the lab");
        let queue = equipment.build("quantum-atlas-10k", 1).expect("it is a device");
        let bytes = Arc::new(MemoryDevice::new(1 << 20, 512));
        let device = Arc::new(ModelDevice::new(bytes, queue, clock.clone()));
        assert_eq!(device.info().size_bytes, 1 << 20);
        let done = Arc::new(Mutex::new(Vec::new()));
        for task in 0..8u64 {
            let (device, clock, done) = (device.clone(), clock.clone(), done.clone());
            simulation.spawn(Box::pin(async move {
                for step in 0..4 {
                    let offset = (task * 7919 + step * 104_729) % 2048 / 8 * 4096;
                    let mut buffer = AlignedBuffer::zeroed(4096);
                    buffer.fill(task as u8);
                    device.write(offset, Arc::new(buffer)).await.expect("it is written");
                    let read = device.read(offset, AlignedBuffer::zeroed(4096)).await;
                    assert_eq!(read.expect("it is read").len(), 4096);
                    done.lock().push((task, clock.now()));
                }
                device.flush().await.expect("it is flushed");
            }));
        }
        simulation.settle();
        let done = done.lock();
        done.clone()
    }

    #[test]
    fn a_simulation_runs_on_a_modelled_device_and_repeats() {
        let once = run(3);
        assert_eq!(once.len(), 32, "every call comes back");
        assert_eq!(once, run(3));
        assert!(once.last().expect("there are calls").1 > Duration::from_millis(20));
    }

    #[test]
    fn a_call_that_is_dropped_is_forgotten_and_one_beyond_the_end_fails() {
        let simulation = Simulation::new(1);
        let queue = Equipment::shipped("nvme").expect("shipped").build("nvme", 1).expect("built");
        let bytes = Arc::new(MemoryDevice::new(1 << 20, 4096));
        let device = ModelDevice::new(bytes, queue, Arc::new(simulation.clone()));
        let mut read = device.read(0, AlignedBuffer::zeroed(4096));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(read.as_mut().poll(&mut context).is_pending());
        drop(read);
        simulation.run(device.read(4096, AlignedBuffer::zeroed(4096))).expect("it is read");
        assert!(device.station().is_idle());
        let beyond = simulation.run(device.discard(1 << 50, 4096));
        assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })), "{beyond:?}");
    }
}
