//! What is taken for a log, and what is not; and logs in real files.

use std::sync::Arc;

use futures::executor::block_on;
use storage::{
    Clock, Device, DeviceError, DeviceOptions, FileDevice, MemoryDevice, RealClock, Simulation,
    Transport,
};
use zil::{Log, OpenError, Opening, Options, Position, Sync};

use crate::common::{self, DEVICE_BYTES, commit, expected, open, opening, options, rest};

fn memory() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096))
}

fn format(
    simulation: &Simulation,
    device: Arc<dyn Device>,
    opening: Opening,
) -> Result<Log, OpenError> {
    simulation.run(Log::format(device, opening, options(), common::clock(simulation)))
}

#[test]
fn what_is_no_log_is_not_opened() {
    let simulation = Simulation::new(1);
    let refused = |image: Vec<u8>| {
        let device = Arc::new(MemoryDevice::with_image(image, 4096));
        simulation.run(open(&simulation, device, 1)).err()
    };
    assert_eq!(refused(vec![0; DEVICE_BYTES]), Some(OpenError::NoLog));
    let mut image = vec![0; DEVICE_BYTES];
    image[DEVICE_BYTES - 512..][..8].copy_from_slice(b"EFI PART");
    let found = "the backup of a partition table";
    assert_eq!(refused(image), Some(OpenError::Foreign { found }));
    let found = "data of another program";
    assert_eq!(refused(vec![7; DEVICE_BYTES]), Some(OpenError::Foreign { found }));
    let memory = memory();
    let log = format(&simulation, memory.clone(), opening(0)).expect("a blank device");
    simulation.run(commit(&log, 0..3));
    let mut image = memory.image();
    image.truncate(100 << 10);
    assert_eq!(refused(image), Some(OpenError::NoRoom { size_bytes: 100 << 10 }));
    let mut image = memory.image();
    image[..128 << 10].fill(0);
    assert_eq!(refused(image.clone()), Some(OpenError::Damaged), "it was a log");
    image[DEVICE_BYTES - 4096..].fill(0);
    assert_eq!(refused(image), Some(OpenError::Foreign { found: "data of another program" }));
    let mut image = memory.image();
    (0..4).for_each(|slot| image[slot * (32 << 10) + 100] ^= 1);
    assert_eq!(refused(image), Some(OpenError::Damaged));
    let mut image = memory.image();
    [32, 96].iter().for_each(|slot| image[(slot << 10) + 8] = 3);
    assert_eq!(refused(image), Some(OpenError::Version { found: 3, known: 2 }));
    let other = Opening { pool: [9; 16], ..opening(1) };
    let clock = || common::clock(&simulation);
    let opened = simulation.run(Log::open(memory.clone(), other, options(), clock()));
    assert_eq!(opened.err(), Some(OpenError::OtherPool));
    // By force one may look at it.
    let other = Opening { force: true, ..other };
    let opened = simulation.run(Log::open(memory, other, options(), clock()));
    let mut recovery = opened.expect("a log");
    assert_eq!((recovery.pool(), recovery.id()), ([1; 16], [2; 16]));
    assert!(simulation.run(rest(&mut recovery)).expect("whole") == expected(1, 0..3));
}

/// What tells a log from copies of it: the epoch grows with each life, the id only as another log.
#[test]
fn lives_have_growing_epochs_and_logs_have_ids() {
    let simulation = Simulation::new(1);
    let memory = memory();
    let log = format(&simulation, memory.clone(), opening(0)).expect("a blank device");
    simulation.run(commit(&log, 0..3));
    let mut epoch = log.epoch();
    drop(log);
    for (life, id) in [(1, 2), (2, 2), (3, 7), (4, 7)] {
        let recovery = simulation.run(open(&simulation, memory.clone(), life)).expect("a log");
        assert_eq!((recovery.epoch(), recovery.id() == [2; 16]), (epoch, life < 4));
        let log = simulation
            .run(recovery.discard_as([id; 16], [1; 16], &|_, _| ()))
            .expect("the device works");
        assert_eq!((log.id(), log.epoch() > epoch), ([id; 16], true));
        epoch = log.epoch();
        simulation.run(commit(&log, 0..3));
        simulation.run(log.release(log.last())).expect("the device works");
        assert!(log.epoch() > epoch, "a group gives it another one");
        epoch = log.epoch();
    }
    // And it may be another pool's from then on.
    let recovery = simulation.run(open(&simulation, memory.clone(), 5)).expect("a log");
    drop(
        simulation
            .run(recovery.discard_as([8; 16], [9; 16], &|_, _| ()))
            .expect("the device works"),
    );
    let opening = Opening { pool: [9; 16], ..opening(6) };
    let clock = common::clock(&simulation);
    let opened = simulation.run(Log::open(memory, opening, options(), clock)).expect("a log");
    assert_eq!((opened.pool(), opened.id()), ([9; 16], [8; 16]));
}

#[test]
fn only_blank_devices_are_made_logs() {
    let simulation = Simulation::new(1);
    let force = Opening { force: true, ..opening(5) };
    let end = memory().image().len();
    for (at, bytes, found) in [
        (0x438, &[0x53, 0xef][..], "an ext2, ext3 or ext4 file system"),
        (0, b"WARMFLSH", "a cache of a Warmfront pool"),
        (510, &[0x55, 0xaa], "a boot sector or partition table"),
        (70_000, b"x", "data of another program"),
        (end - 512, b"EFI PART", "the backup of a partition table"),
        (end - 65_536, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an md array"),
    ] {
        let memory = memory();
        memory.change(|image| image[at..at + bytes.len()].copy_from_slice(bytes));
        let made = format(&simulation, memory.clone(), opening(0));
        assert_eq!(made.err(), Some(OpenError::Foreign { found }));
        assert_eq!(memory.image()[at..at + bytes.len()], *bytes, "it is left alone");
        let log = format(&simulation, memory, force).expect("by force");
        simulation.run(commit(&log, 0..2));
    }
    let memory = memory();
    let log = format(&simulation, memory.clone(), opening(0)).expect("a blank device");
    simulation.run(async {
        commit(&log, 0..5).await;
        for position in 1..5 {
            log.release(Position(position)).await.expect("the device works");
        }
    });
    let made = format(&simulation, memory.clone(), opening(1));
    assert_eq!(made.err(), Some(OpenError::AlreadyLog));
    // By force nothing is left of what it was, however often its superblock had been written.
    format(&simulation, memory.clone(), force).expect("by force");
    let recovery = simulation.run(open(&simulation, memory, 6)).expect("a log");
    assert_eq!((recovery.found().records(), recovery.found().first), (0, Position(1)));
    let small = Arc::new(MemoryDevice::new(200 << 10, 4096));
    let made = format(&simulation, small, opening(0)).err();
    let (size_bytes, needed_bytes) = (200 << 10, 260 << 10);
    assert_eq!(made, Some(OpenError::TooSmall { size_bytes, needed_bytes }));
}

#[test]
fn the_next_life_goes_on_with_the_positions() {
    let simulation = Simulation::new(1);
    let memory = memory();
    let log = format(&simulation, memory.clone(), opening(0)).expect("a blank device");
    simulation.run(commit(&log, 0..5));
    for life in 1..10 {
        let all = simulation.run(async {
            let mut recovery = open(&simulation, memory.clone(), life).await.expect("a log");
            let all = rest(&mut recovery).await.expect("whole");
            recovery.applied(Position(5 * life)).await.expect("the device works");
            let log = recovery.finish().await.expect("all is applied");
            commit(&log, 5 * life..5 * life + 5).await;
            all
        });
        assert!(all == expected(5 * life - 4, 5 * life - 5..5 * life));
    }
}

fn transports() -> Vec<Transport> {
    vec![Transport::Ring, Transport::Threads]
}

#[test]
fn logs_in_files() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let path = directory.path().join("log");
    for transport in transports() {
        let device = || {
            let options = DeviceOptions {
                size_bytes: Some(24 << 20),
                transport: Some(transport),
                ..DeviceOptions::default()
            };
            FileDevice::open(&path, &options)
        };
        let device = match device() {
            Err(DeviceError::System { operation: "start io", .. }) => {
                println!("skipped: no {transport:?} on this machine");
                continue;
            }
            opened => Arc::new(opened.expect("a file")),
        };
        assert!(matches!(
            FileDevice::open(&path, &DeviceOptions::default()),
            Err(DeviceError::InUse { .. })
        ));
        let opening = |life| Opening { force: true, ..opening(life) };
        for sync in [None, Some(Sync::Flush), Some(Sync::Through)] {
            let options = Options { sync, ..Options::default() };
            let made = Log::format(device.clone(), opening(1), options.clone(), clock.clone());
            let log = Arc::new(block_on(made).expect("by force"));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let log = log.clone();
                    scope.spawn(move || {
                        for number in 0..50 {
                            block_on(commit(&log, [thread * 1000 + number]));
                        }
                    });
                }
            });
            log.validate();
            let statistics = log.statistics();
            assert_eq!((statistics.commits, statistics.last), (200, Position(200)));
            drop(log);
            let opened = Log::open(device.clone(), opening(2), options, clock.clone());
            let mut recovery = block_on(opened).expect("a log");
            assert_eq!(block_on(rest(&mut recovery)).expect("whole").len(), 200);
            block_on(recovery.applied(Position(200))).expect("the device works");
            let log = block_on(recovery.finish()).expect("all is applied");
            assert_eq!(block_on(commit(&log, 0..1)), Position(201));
        }
    }
}

#[test]
fn a_file_that_becomes_short_is_told() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let path = directory.path().join("log");
    let options = DeviceOptions { size_bytes: Some(24 << 20), ..DeviceOptions::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(&path, &options).expect("a file"));
    let made = Log::format(device.clone(), opening(1), Options::default(), clock.clone());
    let log = block_on(made).expect("a blank file");
    // A page each, since these samples are short.
    for number in [0, 7, 14, 21] {
        block_on(commit(&log, [number]));
    }
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
    file.set_len((128 << 10) + 2 * 4096).expect("made short");
    let opened = Log::open(device, opening(2), Options::default(), clock);
    let recovery = block_on(opened).expect("a log");
    assert_eq!(recovery.found().last, Position(2));
    let end = recovery.found().end.clone();
    assert!(matches!(end, zil::End::Unreadable { error: DeviceError::Short { .. } }), "{end:?}");
    assert!(block_on(recovery.finish()).is_err());
}

#[test]
fn a_log_is_read_again_from_its_first_record() {
    let simulation = Simulation::new(3);
    let memory = memory();
    let log = format(&simulation, memory.clone(), opening(0)).expect("a blank device");
    simulation.run(async {
        commit(&log, 0..40).await;
        log.release(Position(7)).await.expect("the device works");
        let mut recovery = open(&simulation, memory.clone(), 1).await.expect("a log");
        let first = recovery.found().first;
        let all = rest(&mut recovery).await.expect("whole");
        assert!(all == expected(first.0, first.0 - 1..40));
        recovery.rewind();
        recovery.next().await.expect("whole");
        recovery.rewind();
        assert!(rest(&mut recovery).await.expect("whole") == all);
        recovery.applied(Position(40)).await.expect("the device works");
        recovery.finish().await.expect("all is applied");
    });
}

#[test]
fn filling_a_new_log_tells_how_far_it_is() {
    let simulation = Simulation::new(4);
    let told = std::sync::Mutex::new(Vec::new());
    let tell = |done, all| told.lock().expect("one thread").push((done, all));
    let device = Arc::new(MemoryDevice::new((5 << 20) + (132 << 10), 4096));
    let clock = common::clock(&simulation);
    let formatted = Log::format_telling(device, opening(0), options(), clock, &tell);
    simulation.run(formatted).expect("a blank device");
    let told = told.into_inner().expect("one thread");
    assert_eq!(told, (1..=5).map(|part| (part << 20, 5 << 20)).collect::<Vec<_>>());
}
