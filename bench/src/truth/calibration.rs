use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::{AlignedBuffer, Device, DeviceOptions, FileDevice, Random, block_on};

use super::load::{Load, RECORD_BYTES};
use super::mount::Mount;
use crate::Arguments;

/// How long each figure is measured.
const MEASURED: Duration = Duration::from_millis(800);
/// What RAM gives is read so many bytes at a time: a few, and many.
const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 128 << 10;
/// What is read again and again, so that all of it is in RAM.
const HOT_BYTES: u64 = 4 << 20;
/// Of a cache device, how much is looked at, and in how large writes.
const DEVICE_BYTES: u64 = 256 << 20;
const WRITE_BYTES: usize = 256 << 10;
/// A read of a record from flash: with its header it seldom begins at a block.
const READ_BYTES: usize = RECORD_BYTES as usize + 4096;
/// Reads at a time that show what a device can do.
const READERS: usize = 16;

/// What this machine's processor and cache device take at the moment.
#[derive(Debug)]
pub(super) struct Calibration {
    pub cores: usize,
    pub operation_us: f64,
    pub copy_mb_s: f64,
    pub flash: FlashFigures,
}

/// A cache device, as a model describes it.
#[derive(Debug)]
pub(super) struct FlashFigures {
    pub channels: usize,
    pub read_us: f64,
    pub write_us: f64,
    pub read_mb_s: f64,
    pub write_mb_s: f64,
    /// What it takes that a block lasts, beyond the writing.
    pub flush_us: f64,
}

impl Calibration {
    /// Measures on a mount with nothing slow in it, and on a file where cache devices lie.
    pub fn measure(arguments: &Arguments, load: &Load) -> Result<Calibration, String> {
        let mount = Mount::new(arguments, load, false)?;
        let file = mount.mounted.root.join(load.clients[0].file);
        let small_us = hit_us(&file, SMALL_BYTES)?;
        let large_us = hit_us(&file, LARGE_BYTES)?;
        drop(mount);
        let copied = (LARGE_BYTES - SMALL_BYTES) as f64;
        let copy_mb_s = copied / (large_us - small_us).max(0.1);
        Ok(Calibration {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            operation_us: (small_us - SMALL_BYTES as f64 / copy_mb_s).max(0.1),
            copy_mb_s,
            flash: FlashFigures::measure(&arguments.scratch)?,
        })
    }
}

/// How long a read takes of what is in RAM.
fn hit_us(path: &Path, bytes: usize) -> Result<f64, String> {
    let failed = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; bytes];
    let places = HOT_BYTES / bytes as u64;
    for place in 0..places {
        file.read_exact_at(&mut buffer, place * bytes as u64).map_err(failed)?;
    }
    let (started, mut random, mut reads) = (Instant::now(), Random::new(1), 0);
    while started.elapsed() < MEASURED {
        let place = random.below(places);
        file.read_exact_at(&mut buffer, place * bytes as u64).map_err(failed)?;
        reads += 1;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(reads))
}

impl FlashFigures {
    fn measure(scratch: &Path) -> Result<FlashFigures, String> {
        let directory = tempfile::tempdir_in(scratch).map_err(|error| error.to_string())?;
        let options = DeviceOptions { size_bytes: Some(DEVICE_BYTES), ..DeviceOptions::default() };
        let device = FileDevice::open(&directory.path().join("device"), &options);
        let device: Arc<dyn Device> = Arc::new(device.map_err(|error| error.to_string())?);
        let started = Instant::now();
        let chunk = Arc::new(AlignedBuffer::zeroed(WRITE_BYTES));
        for at in (0..DEVICE_BYTES).step_by(WRITE_BYTES) {
            block_on(device.write(at, chunk.clone())).map_err(|error| error.to_string())?;
        }
        block_on(device.flush()).map_err(|error| error.to_string())?;
        let write_mb_s = DEVICE_BYTES as f64 / started.elapsed().as_secs_f64() / 1e6;
        let flush_us = flush_us(&device)?;
        let alone = reads_per_s(&device, 1)?;
        let together = reads_per_s(&device, READERS)?;
        Ok(FlashFigures {
            channels: (together / alone).round().max(1.0) as usize,
            read_us: 1e6 / alone,
            write_us: 1.0,
            read_mb_s: together * READ_BYTES as f64 / 1e6 * 2.0,
            write_mb_s,
            flush_us,
        })
    }
}

/// How long it takes to write a block so that it lasts.
fn flush_us(device: &Arc<dyn Device>) -> Result<f64, String> {
    let block = Arc::new(AlignedBuffer::zeroed(4096));
    let (started, mut random, mut writes) = (Instant::now(), Random::new(1), 0);
    while started.elapsed() < MEASURED {
        let at = random.below(DEVICE_BYTES / 4096) * 4096;
        let written = block_on(device.write_through(at, block.clone()));
        written.map_err(|error| error.to_string())?;
        writes += 1;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(writes))
}

/// Random reads by so many at a time.
fn reads_per_s(device: &Arc<dyn Device>, readers: usize) -> Result<f64, String> {
    let started = Instant::now();
    let read = |reader: usize| -> Result<u64, String> {
        let (mut random, mut reads) = (Random::new(reader as u64), 0);
        let mut buffer = AlignedBuffer::zeroed(READ_BYTES);
        while started.elapsed() < MEASURED {
            let block = random.below((DEVICE_BYTES - READ_BYTES as u64) / 4096);
            let done = block_on(device.read(block * 4096, buffer));
            buffer = done.map_err(|error| error.to_string())?;
            reads += 1;
        }
        Ok(reads)
    };
    let reads = std::thread::scope(|scope| {
        let read = &read;
        let threads: Vec<_> =
            (0..readers).map(|reader| scope.spawn(move || read(reader))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread has failed".to_string())?)
            .sum::<Result<u64, String>>()
    })?;
    Ok(reads as f64 / started.elapsed().as_secs_f64())
}
