//! Devices over files, through both transports, and in memory, keep what they are given.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{join, join_all};
use rustix::io::Errno;
use storage::{
    AlignedBuffer, Device, DeviceError, DeviceOperation, DeviceOptions, FaultyDevice, FileDevice,
    MemoryDevice, Random, Simulation, Transport, block_on,
};

const SIZE: u64 = 8 << 20;

fn open(path: &Path, transport: Transport) -> Result<FileDevice, DeviceError> {
    let transport = Some(transport);
    let options = DeviceOptions { size_bytes: Some(SIZE), transport, ..DeviceOptions::default() };
    FileDevice::open(path, &options)
}

/// The transports that this kernel offers.
fn transports(path: &Path) -> Vec<Transport> {
    let ring = open(path, Transport::Ring).is_ok();
    if !ring {
        eprintln!("skipped: no io_uring here");
    }
    let offered = [(Transport::Ring, ring), (Transport::Threads, true)];
    offered.into_iter().filter(|(_, offered)| *offered).map(|(transport, _)| transport).collect()
}

/// A loop device for a file, until dropped.
struct Loop(std::path::PathBuf);

impl Loop {
    /// `None` where the system lets us have none.
    fn new(file: &Path) -> Option<Loop> {
        let words = ["--find", "--show"];
        let made = std::process::Command::new("losetup").args(words).arg(file).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        made.status.success().then(|| Loop(name.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// A file and the loop devices that stand for it are one device, whichever comes first.
#[test]
fn a_file_is_not_used_beside_its_loop_device() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let open = |path: &Path| FileDevice::open(path, &DeviceOptions::default());
    std::fs::File::create(&path).expect("a file").set_len(SIZE).expect("a hole");
    let in_use = open(&path).expect("it opens");
    let Some(first) = Loop::new(&path) else {
        return eprintln!("skipped: no loop devices here");
    };
    let second = Loop::new(&path).expect("another one");
    for device in [&first, &second] {
        let refused = open(&device.0).err();
        assert!(matches!(refused, Some(DeviceError::InUse { .. })), "{refused:?}");
    }
    drop(in_use);
    let in_use = open(&first.0).expect("it opens");
    for device in [&second.0, &path] {
        let refused = open(device).err();
        assert!(matches!(refused, Some(DeviceError::InUse { .. })), "{refused:?}");
    }
    let looks = DeviceOptions { looks_only: true, ..DeviceOptions::default() };
    FileDevice::open(&path, &looks).expect("it can be looked at");
    drop(in_use);
    drop(open(&second.0).expect("it opens"));
    let refused = open(&path).err();
    assert!(matches!(refused, Some(DeviceError::Attached { .. })), "{refused:?}");
    drop((first, second));
    let opens = || open(&path).is_ok();
    assert!((0..100).any(|_| opens() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

fn filled(length: usize, fill: u64) -> Arc<AlignedBuffer> {
    let mut buffer = AlignedBuffer::zeroed(length);
    let mut random = Random::new(fill);
    buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.draw().to_le_bytes()));
    Arc::new(buffer)
}

/// Many writes under way at once, then many reads, then blocks in random order.
fn exercise(device: &dyn Device) {
    block_on(write_and_read(device));
    // Where nobody takes back what it asked for itself.
    futures::executor::block_on(write_and_read(device));
}

async fn write_and_read(device: &dyn Device) {
    let step = 64 << 10;
    let places: Vec<u64> = (0..device.info().size_bytes / step).collect();
    let writes = places.iter().map(|place| match place % 2 {
        0 => device.write(place * step, filled(65536, *place)),
        _ => device.write_through(place * step, filled(65536, *place)),
    });
    for written in join_all(writes).await {
        written.expect("written");
    }
    device.flush().await.expect("flushed");
    let reads = places.iter().map(|place| device.read(place * step, AlignedBuffer::zeroed(65536)));
    for (place, read) in places.iter().zip(join_all(reads).await) {
        assert_eq!(read.expect("read")[..], filled(65536, *place)[..], "place {place}");
    }
    let block = device.info().block_bytes as u64;
    let mut random = Random::new(1);
    let offsets: Vec<u64> =
        (0..1000).map(|_| random.below(device.info().size_bytes / block) * block).collect();
    let reads =
        offsets.iter().map(|offset| device.read(*offset, AlignedBuffer::zeroed(block as usize)));
    for (offset, read) in offsets.iter().zip(join_all(reads).await) {
        let whole = filled(65536, offset / step);
        let within = (offset % step) as usize;
        assert_eq!(read.expect("read")[..], whole[within..within + block as usize]);
    }
    match device.discard(0, step).await {
        Ok(()) | Err(DeviceError::Unsupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let rest = device.read(step, AlignedBuffer::zeroed(65536)).await.expect("read");
    assert_eq!(rest[..], filled(65536, 1)[..], "only what was discarded is gone");
}

#[test]
fn files_keep_what_is_written() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    for transport in transports(&path) {
        let device = open(&path, transport).expect("opened");
        assert_eq!(device.transport(), transport);
        assert_eq!(device.info().size_bytes, SIZE);
        exercise(&device);
        drop(device);
        let again = open(&path, transport).expect("opened again, with nobody left who holds it");
        let bytes = block_on(again.read(65536, AlignedBuffer::zeroed(65536))).expect("read");
        assert_eq!(bytes[..], filled(65536, 1)[..]);
    }
}

#[test]
fn memory_keeps_what_is_written() {
    exercise(&MemoryDevice::new(SIZE as usize, 512));
}

#[test]
fn calls_off_the_blocks_are_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    for transport in transports(&path) {
        let device = open(&path, transport).expect("opened");
        for (offset, bytes) in [(1, 4096), (0, 100), (SIZE, 4096), (u64::MAX - 511, 512)] {
            let read = block_on(device.read(offset, AlignedBuffer::zeroed(bytes)));
            assert!(matches!(read, Err(DeviceError::OutOfRange { .. })), "{read:?}");
            let write = block_on(device.write(offset, Arc::new(AlignedBuffer::zeroed(bytes))));
            assert!(matches!(write, Err(DeviceError::OutOfRange { .. })), "{write:?}");
        }
    }
}

#[test]
fn a_device_has_one_user() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    let device = open(&path, Transport::Threads).expect("opened");
    let second = open(&path, Transport::Threads).err();
    assert!(matches!(second, Some(DeviceError::InUse { .. })), "{second:?}");
    drop(device);
}

#[test]
fn a_file_that_became_short_is_an_error_and_not_zeros() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    for transport in transports(&path) {
        let device = open(&path, transport).expect("opened");
        let file = std::fs::File::options().write(true).open(&path).expect("opened");
        file.set_len(SIZE / 2).expect("cut");
        let read = block_on(device.read(SIZE / 2 - 4096, AlignedBuffer::zeroed(8192)));
        assert!(matches!(read, Err(DeviceError::Short { moved: 4096, .. })), "{read:?}");
    }
}

#[test]
fn what_is_no_device_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = DeviceOptions::default();
    assert!(FileDevice::open(directory.path(), &options).is_err(), "a directory");
    assert!(FileDevice::open(&directory.path().join("none"), &options).is_err());
    let null = FileDevice::open(Path::new("/dev/null"), &options).err();
    assert!(matches!(null, Some(DeviceError::WrongKind { .. })), "{null:?}");
}

#[test]
fn dropped_calls_leave_the_device_usable() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    for transport in transports(&path) {
        let device = open(&path, transport).expect("opened");
        for round in 0..200 {
            let mut read = device.read(round % 64 * 65536, AlignedBuffer::zeroed(65536));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = read.as_mut().poll(&mut context);
        }
        exercise(&device);
    }
}

#[test]
fn a_dropped_read_does_not_keep_the_device() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    for transport in transports(&path) {
        for _ in 0..20 {
            let device = open(&path, transport).expect("nobody has it any more");
            block_on(std::future::poll_fn(|context| {
                let _ = device.read(0, AlignedBuffer::zeroed(65536)).as_mut().poll(context);
                std::task::Poll::Ready(())
            }));
        }
    }
}

/// A thread that waits for its own reads hears what other threads tell it, and another one that
/// waits for the same read is not let down when the first turns away.
#[test]
fn threads_that_wait_hear_each_other() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cache");
    for transport in transports(&path) {
        let device = &open(&path, transport).expect("opened");
        let read = |at: u64| device.read(at % 64 * 65536, AlignedBuffer::zeroed(65536));
        for round in 0..200 {
            let (tell, told) = oneshot::channel();
            let (hand_over, handed_over) = oneshot::channel();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let shared = block_on(handed_over).expect("it is handed over");
                    let both = block_on(join(shared, async { tell.send(round).ok() }));
                    assert!(matches!(both, (Ok(65536), _)), "{both:?}");
                });
                let shared = async move { read(round).await.map(|it| it.len()) }.shared();
                let told = block_on(async {
                    let _ = futures::poll!(shared.clone());
                    hand_over.send(shared).expect("somebody takes it");
                    if round % 2 == 0 {
                        return Ok(round);
                    }
                    let (told, _) = join(told, read(round + 1)).await;
                    let inner = block_on(read(round + 2)).expect("read");
                    assert_eq!(inner.len(), 65536);
                    told
                });
                assert_eq!(told, Ok(round));
            });
        }
    }
}

#[test]
fn faults_strike_once_each_and_end() {
    let simulation = Simulation::new(1);
    let inner = Arc::new(MemoryDevice::new(1 << 20, 512));
    let (device, faults) = FaultyDevice::new(inner, Arc::new(simulation.clone()));
    let read = || simulation.run(device.read(0, AlignedBuffer::zeroed(512)));
    faults.fail_next_of(1, Errno::IO, |call| matches!(call, DeviceOperation::Read { .. }));
    simulation.run(device.flush()).expect("another call");
    assert_eq!(read().err(), Some(DeviceError::System { operation: "read", errno: Errno::IO }));
    read().expect("only once");
    faults.damage(|offset, bytes| bytes[offset as usize] ^= 1);
    assert_eq!(read().expect("read")[0], 1);
    faults.clear();
    faults.delay(Duration::from_secs(3));
    assert_eq!(read().expect("read")[0], 0);
    assert_eq!(storage::Clock::now(&simulation), Duration::from_secs(3));
}
