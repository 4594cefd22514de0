//! Measures the flash level on a file or device: how fast it fills, reads and starts again.
//!
//! `cargo run --release -p warmfront-l2arc --example flash -- PATH MIB RECORD_BYTES fill` writes
//! records until the device is full and stops without stopping; `... start` starts again, as after
//! a crash, measures, and stops cleanly; another `start` is then one after a clean stop. `... read
//! DEPTH` reads records at random, that many at a time, and by turns as many bytes from the device
//! itself, as the control, without touching them and with copying them out of the buffer, as any
//! reader does. `... write` overwrites the device in order, as the control of filling.

use std::cell::RefCell;
use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::stream::{self, StreamExt};
use l2arc::{Admission, Compression, Flash, Key, Miss, Opening, Options, Refused};
use storage::{
    AlignedBuffer, Device, DeviceOptions, FileDevice, Random, RealClock, ThreadPool, block_on,
};

const THREADS: usize = 4;

fn key(number: u64) -> Key {
    Key { object: number >> 12, generation: 1, part: number & 0xfff }
}

fn opening() -> Opening {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Opening {
        pool: [1; 16],
        device: [2; 16],
        salt: now.as_nanos().to_le_bytes(),
        life: 1,
        lives: None,
        wall_seconds: now.as_secs(),
        force: true,
        empty: false,
    }
}

fn open(path: &str, mib: u64) -> Arc<FileDevice> {
    let size_bytes = Some(mib << 20);
    let options = DeviceOptions { size_bytes, ..DeviceOptions::default() };
    Arc::new(FileDevice::open(Path::new(path), &options).expect("the device opens"))
}

fn flash() -> Arc<Flash> {
    let pool = ThreadPool::new("flash", THREADS).expect("threads");
    let options = Options { dwpd_hundredths: None, ..Options::default() };
    Arc::new(Flash::new(options, Arc::new(RealClock::new()), Arc::new(pool)))
}

fn mib(bytes: u64, elapsed: Duration) -> f64 {
    bytes as f64 / elapsed.as_secs_f64() / 1_048_576.0
}

fn fill(device: Arc<FileDevice>, record_bytes: usize) {
    let flash = flash();
    block_on(flash.add(device, &Opening { empty: true, ..opening() })).expect("added");
    block_on(flash.recovered());
    let mut record = vec![0; record_bytes];
    let mut random = Random::new(1);
    record.chunks_mut(8).for_each(|word| {
        word.copy_from_slice(&random.draw().to_le_bytes()[..word.len()]);
    });
    let ring = flash.statistics().rings.remove(0);
    // As many as fit beside the directories without anything having to go.
    let each = (record_bytes + 64).next_multiple_of(64) as u64 + 16;
    let count = ring.data_bytes / 100 * 97 / each;
    let (began, mut number, mut waits) = (Instant::now(), 0_u64, 0_u64);
    while number < count {
        let key = key(number);
        let admission = Admission {
            stamp: flash.stamp(key.object),
            tenant: 0,
            metadata: false,
            touches: 2,
            compression: Compression::Off,
            limit_bytes: None,
            vital: false,
        };
        record[..8.min(record_bytes)].copy_from_slice(&number.to_le_bytes());
        match flash.admit(&key, &record, &admission) {
            // Two keys may agree in all that the index keeps of them.
            Ok(()) | Err(Refused::Present) => number += 1,
            Err(Refused::Buffers) => {
                waits += 1;
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(refused) => panic!("{refused}"),
        }
    }
    block_on(flash.settle());
    let elapsed = began.elapsed();
    let statistics = flash.statistics();
    let admitted = statistics.admitted_bytes;
    println!(
        "fill: {number} records, {:.0} MiB/s, waited {waits} times, written/admitted {:.4}, \
         index {:.2} bytes a record, RAM {:.1} MiB, {} lanes of {} KiB, {} commits",
        mib(admitted, elapsed),
        statistics.rings[0].written_bytes as f64 / admitted as f64,
        statistics.index_bytes as f64 / statistics.records as f64,
        flash.charged_bytes() as f64 / 1_048_576.0,
        statistics.rings[0].lanes,
        statistics.rings[0].chunk_bytes >> 10,
        statistics.commits,
    );
    // As a crash: nothing is written down any more.
    std::process::exit(0);
}

fn start(device: Arc<FileDevice>, record_bytes: usize) {
    let flash = flash();
    let began = Instant::now();
    let opened = block_on(flash.add(device, &opening())).expect("added");
    let added = began.elapsed();
    let mut into = vec![0; record_bytes];
    let mut random = Random::new(5);
    let mut tries = 0;
    let first = loop {
        let records = flash.statistics().records;
        if records > 0 {
            tries += 1;
            let key = key(random.below(1 << 24));
            if flash.holds(&key) && block_on(flash.read(&key, &mut into, None)).is_ok() {
                break began.elapsed();
            }
        }
    };
    block_on(flash.recovered());
    let whole = began.elapsed();
    let statistics = flash.statistics();
    println!(
        "start: {opened:?}, {} records, journal read {added:.3?}, first hit {first:.3?} ({tries} \
         tries), whole index {whole:.3?}, {:.2} bytes a record",
        statistics.records,
        statistics.index_bytes as f64 / statistics.records as f64,
    );
    let began = Instant::now();
    block_on(flash.stop());
    println!("stop: {:.3?}", began.elapsed());
}

/// How long one subject is measured before it is the other's turn, and how often.
const TURN: Duration = Duration::from_millis(100);
const TURNS: usize = 20;

/// What was measured of a subject: by turn, calls a second; of each call, microseconds.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    microseconds: Vec<f64>,
}

impl Measured {
    /// Runs `call` as often as it can be in a turn, so many at a time.
    fn turn<F: Future<Output = ()>>(&mut self, depth: usize, call: impl Fn() -> F) {
        let began = Instant::now();
        let calls = stream::iter(std::iter::from_fn(|| {
            (began.elapsed() < TURN).then(|| {
                let call = call();
                async move {
                    let began = Instant::now();
                    call.await;
                    began.elapsed()
                }
            })
        }));
        let before = self.microseconds.len();
        block_on(calls.buffer_unordered(depth).for_each(|elapsed| {
            self.microseconds.push(elapsed.as_secs_f64() * 1e6);
            std::future::ready(())
        }));
        let count = self.microseconds.len() - before;
        self.rates.push(count as f64 / began.elapsed().as_secs_f64());
    }
}

fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn read(device: Arc<FileDevice>, record_bytes: usize, depth: usize) {
    let raw = device.clone();
    let flash = flash();
    block_on(flash.add(device, &opening())).expect("added");
    block_on(flash.recovered());
    let records = flash.statistics().records;
    let block = 512;
    let length = (record_bytes + 64).next_multiple_of(block);
    let blocks = (raw.info().size_bytes - length as u64) / block as u64;
    let random = RefCell::new(Random::new(9));
    let records_read = RefCell::new(vec![vec![0; record_bytes]; depth]);
    let buffers = (0..depth).map(|_| AlignedBuffer::zeroed(length));
    let buffers = RefCell::new(buffers.collect::<Vec<_>>());
    let [mut through_flash, mut from_device, mut copied] = [(); 3].map(|()| Measured::default());
    // By turns, since the machine is not the same from moment to moment.
    for _ in 0..TURNS {
        through_flash.turn(depth, || async {
            let key = key(random.borrow_mut().below(records));
            let mut into = records_read.borrow_mut().pop().expect("as many as calls");
            match flash.read(&key, &mut into, None).await {
                Ok(_) | Err(Miss::Absent | Miss::Other) => {}
                Err(miss) => panic!("{miss}"),
            }
            records_read.borrow_mut().push(into);
        });
        let read = || async {
            let offset = random.borrow_mut().below(blocks) * block as u64;
            let buffer = buffers.borrow_mut().pop().expect("as many as calls");
            raw.read(offset, buffer).await.expect("read")
        };
        from_device.turn(depth, || async {
            let buffer = read().await;
            buffers.borrow_mut().push(buffer);
        });
        copied.turn(depth, || async {
            let buffer = read().await;
            let mut into = records_read.borrow_mut().pop().expect("as many as calls");
            into.copy_from_slice(&buffer[..record_bytes]);
            buffers.borrow_mut().push(buffer);
            records_read.borrow_mut().push(into);
        });
    }
    let ratio_to = |control: &Measured| {
        median(through_flash.rates.iter().zip(&control.rates).map(|(one, other)| one / other))
    };
    let ratios = [&from_device, &copied].map(ratio_to);
    let rates = [&through_flash, &from_device].map(|it| median(it.rates.iter().copied()));
    let times = [through_flash, from_device].map(|it| median(it.microseconds));
    println!(
        "read at depth {depth}: {:.0} a second through flash, {:.0} from the device, {:.3} of it, \
         {:.3} with a copy; half took at most {:.1} and {:.1} us, {:.1} added",
        rates[0],
        rates[1],
        ratios[0],
        ratios[1],
        times[0],
        times[1],
        times[0] - times[1],
    );
}

fn write_raw(device: &FileDevice, bytes: u64) {
    const CHUNK: usize = 1 << 20;
    let chunk = Arc::new(AlignedBuffer::zeroed(CHUNK));
    let count = bytes.min(device.info().size_bytes) / CHUNK as u64;
    let began = Instant::now();
    let writes = stream::iter(0..count).map(|at| device.write(at * CHUNK as u64, chunk.clone()));
    block_on(writes.buffer_unordered(8).for_each(|written| {
        written.expect("written");
        std::future::ready(())
    }));
    println!("device: {:.0} MiB/s written in order", mib(count * CHUNK as u64, began.elapsed()));
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, mib, record_bytes, task, rest @ ..] = &arguments[..] else {
        eprintln!("usage: flash PATH MIB RECORD_BYTES fill|start|read DEPTH|write");
        std::process::exit(2);
    };
    let mib: u64 = mib.parse().expect("a number of MiB");
    let record_bytes = record_bytes.parse().expect("a number of bytes");
    let device = open(path, mib);
    match task.as_str() {
        "fill" => fill(device, record_bytes),
        "start" => start(device, record_bytes),
        "read" => {
            let depth = rest.first().map_or(1, |depth| depth.parse().expect("a depth"));
            read(device, record_bytes, depth);
        }
        "write" => write_raw(&device, mib << 20),
        other => panic!("no such task: {other}"),
    }
}
