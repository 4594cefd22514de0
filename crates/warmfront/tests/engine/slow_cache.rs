//! Streams beside a cache device that is slow, in a simulation.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    AlignedBuffer, Clock, Device, DeviceInfo, DeviceTask, MemoryDevice, SlowModel, SlowOrigin,
};

use crate::common::{READ, pattern};
use crate::flash::{Machine, device};

const FILE_BYTES: usize = 48 << 20;
const PASSES: usize = 4;

/// A device that does one call after the other, and takes so long for each.
struct Slow {
    inner: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
    each: Duration,
    busy_until: Mutex<Duration>,
}

impl Slow {
    async fn turn(&self) {
        let now = self.clock.now();
        let done = {
            let mut busy_until = self.busy_until.lock();
            *busy_until = (*busy_until).max(now) + self.each;
            *busy_until
        };
        self.clock.sleep(done - now).await;
    }
}

impl Device for Slow {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        Box::pin(async move {
            self.turn().await;
            self.inner.read(offset, buffer).await
        })
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.turn().await;
            self.inner.write(offset, buffer).await
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.turn().await;
            self.inner.flush().await
        })
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.turn().await;
            self.inner.discard(offset, bytes).await
        })
    }
}

/// How much longer it may take, percent: the cache devices' buffers leave a little less of RAM.
const LONGER_PERCENT: u32 = 3;
/// In which order tasks run follows from the seed, and with it how often the disk has to seek: more
/// in single runs than a device makes of it.
const SEEDS: std::ops::Range<u64> = 3..11;

/// How long each pass over a file takes that is read in sequence from a disk, with a fourth of it
/// in RAM; with a device that takes `each` for each call, if there is to be one. Beside it how much
/// of all came from the device.
fn passes(seed: u64, each: Option<Duration>) -> (Vec<Duration>, u64) {
    let mut machine = Machine::new(seed);
    machine.start(&[], &[]).create("file", &pattern(FILE_BYTES, 1));
    let clock: Arc<dyn Clock> = Arc::new(machine.simulation.clone());
    machine.faulty =
        Arc::new(SlowOrigin::new(machine.origin.clone(), SlowModel::Hdd, clock.clone()));
    let devices = each.map(|each| {
        let (inner, busy_until) = (device(4 * FILE_BYTES), Mutex::default());
        let slow: Arc<dyn Device> = Arc::new(Slow { inner, clock, each, busy_until });
        slow
    });
    let settings = ["recordsize=16K", "prefetch=all", "policy=arc", "coherence=exclusive"];
    let start = machine.start_with(&settings, devices.as_slice(), 20 << 20);
    let file = start.open("file", READ);
    let pass = || {
        let began = start.simulation.now();
        for offset in (0..FILE_BYTES as u64).step_by(1 << 20) {
            if file.read_cached(offset, 1 << 20).is_none() {
                start.simulation.run(file.read(offset, 1 << 20)).expect("the origin gives it");
            }
        }
        let took = start.simulation.now() - began;
        start.wait(Duration::from_secs(5));
        took
    };
    let passes = std::iter::repeat_with(pass).take(PASSES).collect();
    (passes, start.counter("l2_hits"))
}

#[test]
fn a_stream_beside_a_slow_device_takes_hardly_longer_than_without() {
    let sum = |each| -> Duration { SEEDS.flat_map(|seed| passes(seed, each).0).sum() };
    let without = sum(None);
    for each in [5, 20, 100] {
        let with = sum(Some(Duration::from_millis(each)));
        println!("{each} ms a call: {with:.3?}; without {without:.3?}");
        let most = without * (100 + LONGER_PERCENT) / 100;
        assert!(with <= most, "{each} ms a call: {with:?}, without {without:?}");
    }
}

#[test]
fn a_stream_beside_a_quick_device_is_quicker() {
    let (without, _) = passes(3, None);
    let (with, hits) = passes(3, Some(Duration::from_micros(20)));
    println!("{with:.3?}, {hits} hits; without {without:.3?}");
    assert!(hits > (FILE_BYTES >> 14) as u64, "{hits} hits");
    assert!(with[PASSES - 1] < without[PASSES - 1] / 2, "{with:?}, without {without:?}");
}
