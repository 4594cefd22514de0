use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{AlignedBuffer, Device, DeviceInfo, DeviceTask, check};
use crate::Clock;
use crate::simulation::Random;

/// What a device never tears: the part of a write that is there or not there after a crash.
const SECTOR_BYTES: usize = 512;

/// A device in memory that can tell what a crash at this moment could leave of it.
///
/// What was written and flushed since is there. Of all other writes, under way or ended, any may
/// be there, lost, or torn between sectors, the later without the earlier.
///
/// ```
/// # storage::block_on(async {
/// use std::sync::Arc;
/// use storage::{AlignedBuffer, CrashDevice, Device};
///
/// let (device, crashes) = CrashDevice::new(vec![0; 8192], 4096, 1, None);
/// # let ones = || { let mut ones = AlignedBuffer::zeroed(4096); ones.fill(1); Arc::new(ones) };
/// device.write(0, ones()).await?;
/// device.flush().await?;
/// device.write(4096, ones()).await?;
/// let left = crashes.crash(7);
/// assert!(left[..4096].iter().all(|byte| *byte == 1), "it was flushed; the rest may be gone");
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub struct CrashDevice {
    info: DeviceInfo,
    crashes: Arc<Crashes>,
    /// Where calls take time: up to the duration, chosen at random.
    slowness: Option<(Arc<dyn Clock>, Duration)>,
}

/// The record of a [`CrashDevice`]: outlives it.
///
/// ```
/// # storage::block_on(async {
/// use std::sync::Arc;
/// use storage::{AlignedBuffer, CrashDevice, Device};
///
/// let (device, crashes) = CrashDevice::new(vec![0; 8192], 4096, 1, None);
/// # let ones = || { let mut ones = AlignedBuffer::zeroed(4096); ones.fill(1); Arc::new(ones) };
/// device.write(0, ones()).await?;
/// // A crash may leave what was not flushed, or not.
/// let lost = |seed| crashes.crash(seed)[0] == 0;
/// assert!((0..64).any(lost) && !(0..64).all(lost));
/// # Ok::<(), storage::DeviceError>(()) })?;
/// # Ok::<(), storage::DeviceError>(())
/// ```
pub struct Crashes {
    state: Mutex<State>,
}

struct State {
    /// What reads see.
    seen: Vec<u8>,
    /// What no crash can take away.
    durable: Vec<u8>,
    /// What a crash may take away, in the order of begin.
    pending: Vec<Write>,
    next: u64,
    events: u64,
    random: Random,
}

struct Write {
    number: u64,
    offset: usize,
    bytes: Bytes,
    ended: bool,
}

enum Bytes {
    Written(Arc<AlignedBuffer>),
    Discarded(usize),
}

impl Write {
    fn length(&self) -> usize {
        match &self.bytes {
            Bytes::Written(buffer) => buffer.len(),
            Bytes::Discarded(length) => *length,
        }
    }

    /// Puts `length` bytes from `start` on into an image.
    fn apply(&self, image: &mut [u8], start: usize, length: usize) {
        let target = &mut image[self.offset + start..self.offset + start + length];
        match &self.bytes {
            Bytes::Written(buffer) => target.copy_from_slice(&buffer[start..start + length]),
            Bytes::Discarded(_) => target.fill(0),
        }
    }

    fn apply_all(&self, image: &mut [u8]) {
        self.apply(image, 0, self.length());
    }
}

impl CrashDevice {
    /// A device that holds `image`, and the record of its writes. `seed` decides everything that
    /// is left to chance; with a clock, calls take up to that long.
    ///
    /// ```
    /// use storage::{CrashDevice, Device};
    ///
    /// let (device, crashes) = CrashDevice::new(vec![7; 8192], 4096, 1, None);
    /// assert_eq!((device.info().size_bytes, crashes.image()), (8192, vec![7; 8192]));
    /// ```
    pub fn new(
        image: Vec<u8>,
        block_bytes: usize,
        seed: u64,
        slowness: Option<(Arc<dyn Clock>, Duration)>,
    ) -> (CrashDevice, Arc<Crashes>) {
        let size_bytes = image.len() as u64;
        let info = DeviceInfo { name: "crash".to_owned(), size_bytes, block_bytes };
        let state = State {
            seen: image.clone(),
            durable: image,
            pending: Vec::new(),
            next: 0,
            events: 0,
            random: Random::new(seed),
        };
        let crashes = Arc::new(Crashes { state: Mutex::new(state) });
        (CrashDevice { info, crashes: crashes.clone(), slowness }, crashes)
    }

    async fn pause(&self) {
        if let Some((clock, longest)) = &self.slowness {
            let nanoseconds = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
            let share = self.crashes.state.lock().random.below(nanoseconds.max(1));
            clock.sleep(Duration::from_nanos(share)).await;
        }
    }

    async fn change(&self, offset: u64, bytes: Bytes) {
        let number = {
            let state = &mut *self.crashes.state.lock();
            let number = state.next;
            state.next += 1;
            state.events += 1;
            state.pending.push(Write { number, offset: offset as usize, bytes, ended: false });
            number
        };
        self.pause().await;
        let state = &mut *self.crashes.state.lock();
        state.events += 1;
        if let Some(write) = state.pending.iter_mut().find(|write| write.number == number) {
            write.ended = true;
            write.apply_all(&mut state.seen);
        }
    }
}

impl Crashes {
    /// How many calls have begun or ended until now: the moments between which nothing differs.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{AlignedBuffer, CrashDevice, Device};
    ///
    /// let (device, crashes) = CrashDevice::new(vec![0; 8192], 4096, 1, None);
    /// device.write(0, Arc::new(AlignedBuffer::zeroed(4096))).await?;
    /// assert_eq!(crashes.events(), 2, "a write has begun and ended");
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn events(&self) -> u64 {
        self.state.lock().events
    }

    /// What reads see at this moment.
    ///
    /// ```
    /// # storage::block_on(async {
    /// use std::sync::Arc;
    /// use storage::{AlignedBuffer, CrashDevice, Device};
    ///
    /// let (device, crashes) = CrashDevice::new(vec![7; 8192], 4096, 1, None);
    /// device.write(0, Arc::new(AlignedBuffer::zeroed(4096))).await?;
    /// assert_eq!(crashes.image()[4095..4097], [0, 7]);
    /// # Ok::<(), storage::DeviceError>(()) })?;
    /// # Ok::<(), storage::DeviceError>(())
    /// ```
    pub fn image(&self) -> Vec<u8> {
        self.state.lock().seen.clone()
    }

    /// One of the images that a crash at this moment could leave, another one for each `seed`:
    /// now and then with all of the writes, with none, or with any of their sectors.
    ///
    /// ```
    /// use storage::CrashDevice;
    ///
    /// let (_device, crashes) = CrashDevice::new(vec![7; 8192], 4096, 1, None);
    /// assert_eq!(crashes.crash(1), vec![7; 8192], "nothing was written");
    /// ```
    pub fn crash(&self, seed: u64) -> Vec<u8> {
        let state = self.state.lock();
        let mut random = Random::new(seed);
        let mut image = state.durable.clone();
        let manner = random.below(4);
        for write in &state.pending {
            match manner {
                0 => {}
                1 => write.apply_all(&mut image),
                2 if random.below(2) == 0 => write.apply_all(&mut image),
                2 => {}
                _ => {
                    for start in (0..write.length()).step_by(SECTOR_BYTES) {
                        if random.below(2) == 0 {
                            let length = SECTOR_BYTES.min(write.length() - start);
                            write.apply(&mut image, start, length);
                        }
                    }
                }
            }
        }
        image
    }
}

impl Device for CrashDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset: u64, mut buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        Box::pin(async move {
            check(&self.info, "read", offset, buffer.len() as u64)?;
            self.pause().await;
            let range = offset as usize..offset as usize + buffer.len();
            buffer.copy_from_slice(&self.crashes.state.lock().seen[range]);
            Ok(buffer)
        })
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "write", offset, buffer.len() as u64)?;
            self.change(offset, Bytes::Written(buffer)).await;
            Ok(())
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            let covered: Vec<u64> = {
                let mut state = self.crashes.state.lock();
                state.events += 1;
                let ended = state.pending.iter().filter(|write| write.ended);
                ended.map(|write| write.number).collect()
            };
            self.pause().await;
            let state = &mut *self.crashes.state.lock();
            state.events += 1;
            let (flushed, pending): (Vec<Write>, Vec<Write>) = std::mem::take(&mut state.pending)
                .into_iter()
                .partition(|write| covered.binary_search(&write.number).is_ok());
            flushed.iter().for_each(|write| write.apply_all(&mut state.durable));
            state.pending = pending;
            Ok(())
        })
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            check(&self.info, "discard", offset, bytes)?;
            self.change(offset, Bytes::Discarded(bytes as usize)).await;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn block(fill: u8) -> Arc<AlignedBuffer> {
        let mut buffer = AlignedBuffer::zeroed(1024);
        buffer.fill(fill);
        Arc::new(buffer)
    }

    #[test]
    fn only_what_was_flushed_is_sure_to_last() {
        let (device, crashes) = CrashDevice::new(vec![0; 4096], 512, 1, None);
        block_on(device.write(0, block(1))).expect("written");
        block_on(device.flush()).expect("flushed");
        block_on(device.write(1024, block(2))).expect("written");
        block_on(device.write(0, block(3))).expect("written");
        let images: Vec<Vec<u8>> = (0..200).map(|seed| crashes.crash(seed)).collect();
        let has = |at: usize, fill: u8| images.iter().any(|image| image[at] == fill);
        assert!(has(0, 1) && has(0, 3) && !has(0, 0), "the flushed bytes, or newer ones");
        assert!(has(1024, 2) && has(1024, 0), "written or lost");
        let torn = |image: &Vec<u8>| image[1024] != image[1024 + SECTOR_BYTES];
        assert!(images.iter().any(torn));
        assert!(images.iter().any(|image| image[0] == 1 && image[1024] == 2), "reordered");
        block_on(device.flush()).expect("flushed");
        block_on(device.write_through(2048, block(4))).expect("written");
        for seed in 0..50 {
            assert_eq!(crashes.crash(seed), crashes.image());
        }
    }
}
