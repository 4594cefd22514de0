//! Devices that fail: each caller is told what concerns him, and what lasts stays.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join;
use rustix::io::Errno;
use storage::{
    AlignedBuffer, Device, DeviceError, DeviceFaults, DeviceInfo, DeviceOperation, DeviceTask,
    FaultyDevice, MemoryDevice, Simulation,
};
use zil::{AppendError, End, Log, OpenError, Options, Position, ReplayError, Sync};

use crate::common::{self, DEVICE_BYTES, commit, expected, open, rest, sample};

fn memory() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096))
}

fn faulty(simulation: &Simulation, inner: Arc<dyn Device>) -> (Arc<dyn Device>, Arc<DeviceFaults>) {
    let (device, faults) = FaultyDevice::new(inner, common::clock(simulation));
    (Arc::new(device), faults)
}

fn options() -> Options {
    Options { sync: Some(Sync::Flush), lanes: 2, ..common::options() }
}

fn is_write(call: &DeviceOperation) -> bool {
    matches!(call, DeviceOperation::Write { .. })
}

/// Everything that is left of a log on a device, whatever comes after.
async fn left(simulation: &Simulation, device: Arc<dyn Device>) -> Vec<(u64, Vec<u8>)> {
    let mut recovery = open(simulation, device, 9).await.expect("a log");
    rest(&mut recovery).await.expect("whole")
}

#[test]
fn a_failure_reaches_those_whom_it_concerns() {
    for fails_flush in [false, true] {
        let simulation = Simulation::new(3);
        let memory = memory();
        let (device, faults) = faulty(&simulation, memory.clone());
        simulation.run(async {
            let log = common::format(&simulation, device, options()).await;
            commit(&log, 0..2).await;
            faults.fail_next_of(1, Errno::IO, move |call| match fails_flush {
                true => *call == DeviceOperation::Flush,
                false => is_write(call),
            });
            let lost = log.append(&sample(2).record()).await.expect("there is room");
            let failed = log.commit(lost).await.expect_err("the device failed");
            assert_eq!(failed.from, lost);
            let operation = if fails_flush { "flush" } else { "write" };
            assert_eq!(failed.error, DeviceError::System { operation, errno: Errno::IO });
            assert!(failed.to_string().contains("reset"), "{failed}");
            // It stays so, although the device works again.
            assert_eq!(log.commit(lost).await, Err(failed.clone()));
            let refused = log.append(&sample(3).record()).await;
            assert_eq!(refused, Err(AppendError::Failed(failed.clone())));
            log.commit(Position(2)).await.expect("that had lasted before");
            log.release(Position(1)).await.expect("the device works");
            assert_eq!(log.statistics().failed, Some(failed));
            log.validate();
            log.reset().await.expect("the device works");
            assert_eq!(log.statistics().failed, None);
            log.commit(lost).await.expect("it lasts at the origin");
            assert_eq!(commit(&log, 4..6).await, Position(5), "positions go on");
            log.validate();
            assert!(left(&simulation, memory).await == expected(4, 4..6));
        });
    }
}

#[test]
fn what_departed_before_a_failure_is_not_concerned() {
    let simulation = Simulation::new(3);
    let memory = memory();
    let (device, faults) = faulty(&simulation, memory.clone());
    simulation.run(async {
        let log = common::format(&simulation, device, options()).await;
        faults.hang(is_write);
        let first = log.append(&sample(0).record()).await.expect("there is room");
        let first = log.commit(first);
        let mut first = std::pin::pin!(first);
        assert!(first.as_mut().now_or_never().is_none(), "the device hangs");
        let second = log.append(&sample(1).record()).await.expect("there is room");
        let second = log.commit(second);
        let mut second = std::pin::pin!(second);
        assert!(second.as_mut().now_or_never().is_none(), "the device hangs");
        assert_eq!(log.statistics().under_way, 2);
        // One that waits for a lane is concerned as well: there would be a gap before it.
        let third = log.append(&sample(2).record()).await.expect("there is room");
        faults.clear();
        let second_block = 128 << 10 | 8192;
        faults.fail_next_of(1, Errno::IO, move |call| match call {
            DeviceOperation::Write { offset, .. } => *offset >= second_block - 4096,
            _ => false,
        });
        let ((first, second), third) = join(join(first, second), log.commit(third)).await;
        first.expect("it was written before");
        let failed = second.expect_err("the device failed");
        assert_eq!((failed.from, third), (Position(2), Err(failed.clone())));
        log.validate();
        assert!(left(&simulation, memory).await == expected(1, 0..1));
    });
}

/// A device that does what it is asked, and says that it has not.
struct Liar {
    inner: Arc<MemoryDevice>,
    lies: std::sync::atomic::AtomicBool,
}

impl Device for Liar {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        Box::pin(async move {
            self.inner.write(offset, buffer).await?;
            match self.lies.load(std::sync::atomic::Ordering::Relaxed) {
                true => Err(DeviceError::TimedOut { operation: "write", seconds: 10 }),
                false => Ok(()),
            }
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        self.inner.discard(offset, bytes)
    }
}

#[test]
fn a_write_that_arrived_in_spite_of_its_error_does_not_come_back() {
    let simulation = Simulation::new(3);
    let memory = memory();
    let lies = std::sync::atomic::AtomicBool::new(false);
    let device = Arc::new(Liar { inner: memory.clone(), lies });
    simulation.run(async {
        let log = common::format(&simulation, device.clone(), options()).await;
        commit(&log, 0..2).await;
        device.lies.store(true, std::sync::atomic::Ordering::Relaxed);
        let last = log.append(&sample(2).record()).await.expect("there is room");
        log.commit(last).await.expect_err("the device failed");
        log.reset().await.expect_err("the device still fails");
        // It is there, and may be: nobody was told that it is not.
        assert!(left(&simulation, memory.clone()).await.len() <= 3);
        device.lies.store(false, std::sync::atomic::Ordering::Relaxed);
        log.reset().await.expect("the device works");
        assert!(left(&simulation, memory.clone()).await.is_empty(), "all of it is elsewhere");
        commit(&log, 7..8).await;
        assert!(left(&simulation, memory).await == expected(4, 7..8));
    });
}

#[test]
fn who_gives_up_leaves_his_block_to_others() {
    let simulation = Simulation::new(3);
    let memory = memory();
    let (device, faults) = faulty(&simulation, memory.clone());
    simulation.run(async {
        let log = common::format(&simulation, device, options()).await;
        faults.hang(is_write);
        let first = log.append(&sample(0).record()).await.expect("there is room");
        assert!(log.commit(first).now_or_never().is_none(), "the device hangs, and he gives up");
        // The same with a superblock.
        assert!(log.release(first).now_or_never().is_none());
        faults.clear();
        let second = log.append(&sample(1).record()).await.expect("there is room");
        log.commit(second).await.expect("it is driven by this one");
        faults.hang(is_write);
        assert!(log.release(first).now_or_never().is_none());
        faults.clear();
        log.release(first).await.expect("the device works");
        log.validate();
        assert!(left(&simulation, memory).await == expected(2, 1..2));
    });
}

#[test]
fn a_superblock_that_fails_may_be_written_again() {
    let simulation = Simulation::new(3);
    let memory = memory();
    let (device, faults) = faulty(&simulation, memory.clone());
    simulation.run(async {
        let log = common::format(&simulation, device, options()).await;
        commit(&log, 0..9).await;
        for up_to in 1..5 {
            // The first copy, the second one, the flush.
            faults.fail_next_of(1, Errno::IO, move |call| match call {
                DeviceOperation::Write { offset, .. } => match up_to % 3 {
                    0 => *offset < 64 << 10,
                    1 => (64 << 10..128 << 10).contains(offset),
                    _ => false,
                },
                _ => up_to % 3 == 2,
            });
            let failed = log.release(Position(up_to)).await.expect_err("the device failed");
            assert_eq!(failed.from, Position(up_to), "the oldest that stays");
            let now = left(&simulation, memory.clone()).await;
            assert!(now.len() as u64 + up_to >= 9, "what was not released is there");
            log.release(Position(up_to)).await.expect("the device works");
            let from = up_to + 1;
            assert!(left(&simulation, memory.clone()).await == expected(from, up_to..9));
            log.validate();
        }
    });
}

#[test]
fn a_block_that_can_not_be_read_ends_the_log_loudly() {
    let simulation = Simulation::new(3);
    let memory = memory();
    let (device, faults) = faulty(&simulation, memory.clone());
    simulation.run(async {
        let log = common::format(&simulation, device.clone(), options()).await;
        // One page each: the samples are short.
        let short: Vec<u64> = (0..1000).filter(|number| number % 7 == 0).take(6).collect();
        for number in &short {
            commit(&log, [*number]).await;
        }
        drop(log);
        let bad = (128 << 10) + 3 * 4096;
        faults.fail_next_of(u64::MAX, Errno::IO, move |call| match call {
            DeviceOperation::Read { offset, bytes } => (*offset..*offset + *bytes).contains(&bad),
            _ => false,
        });
        let mut recovery = open(&simulation, device.clone(), 1).await.expect("a log");
        let found = recovery.found().clone();
        let error = DeviceError::System { operation: "read", errno: Errno::IO };
        assert_eq!(found.end, End::Unreadable { error });
        assert_eq!((found.first, found.last, found.records()), (Position(1), Position(3), 3));
        assert_eq!((found.beyond_blocks, found.beyond_records), (2, 2), "behind the bad one");
        let records = rest(&mut recovery).await.expect("the good ones");
        assert!(records == expected(1, short[..3].iter().copied()));
        recovery.applied(found.last).await.expect("writes work");
        let refused = recovery.finish().await.err();
        assert_eq!(refused, Some(ReplayError::Damaged { last: Position(3) }));
        let recovery = open(&simulation, device, 1).await.expect("a log");
        assert_eq!(recovery.found().first, Position(4));
        let log = recovery.discard().await.expect("writes work");
        faults.clear();
        commit(&log, 1..2).await;
        assert_eq!(left(&simulation, memory).await.len(), 1);
    });
}

#[test]
fn one_readable_copy_of_the_superblock_will_do() {
    for copies in 1..=2 {
        let simulation = Simulation::new(3);
        let (device, faults) = faulty(&simulation, memory());
        simulation.run(async {
            let log = common::format(&simulation, device.clone(), options()).await;
            commit(&log, 0..4).await;
            faults.fail_next_of(u64::MAX, Errno::IO, move |call| match call {
                DeviceOperation::Read { offset, .. } => *offset < copies * (64 << 10),
                _ => false,
            });
            let opened = open(&simulation, device, 1).await;
            match (opened, copies) {
                (Ok(mut recovery), 1) => {
                    assert!(rest(&mut recovery).await.expect("whole") == expected(1, 0..4));
                }
                (Err(OpenError::Device(_)), 2) => {}
                (opened, _) => panic!("{copies}: {:?}", opened.err()),
            }
        });
    }
}

#[test]
fn a_device_that_fails_at_once_gives_no_log() {
    let simulation = Simulation::new(3);
    let (device, faults) = faulty(&simulation, memory());
    faults.fail_next_of(1, Errno::NOSPC, is_write);
    let opening = common::opening(0);
    let clock = common::clock(&simulation);
    let made = simulation.run(Log::format(device, opening, options(), clock));
    let error = DeviceError::System { operation: "write", errno: Errno::NOSPC };
    assert_eq!(made.err(), Some(OpenError::Device(error)));
}

#[test]
fn a_block_that_hangs_fails_the_log_for_the_others() {
    const MAX: Duration = Duration::from_secs(10);
    let simulation = Simulation::new(4);
    let memory = memory();
    let (device, faults) = faulty(&simulation, memory.clone());
    let clock = common::clock(&simulation);
    simulation.run(async {
        let log = common::format(&simulation, device, options()).await;
        faults.hang(is_write);
        let first = log.append(&sample(0).record()).await.expect("there is room");
        let mut held = std::pin::pin!(log.commit(first));
        assert!(held.as_mut().now_or_never().is_none(), "the device hangs");
        let mut waiting = std::pin::pin!(log.commit(first));
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for the same block");
        assert!(log.give_up_overdue(MAX).is_none(), "it has just begun");
        clock.sleep(Duration::from_secs(2)).await;
        let second = log.append(&sample(1).record()).await.expect("there is room");
        let mut later = std::pin::pin!(log.commit(second));
        assert!(later.as_mut().now_or_never().is_none());
        let statistics = log.statistics();
        assert_eq!(statistics.under_way, 1, "who comes later does not hang with the device");
        assert_eq!(statistics.silence, Duration::from_secs(2));
        clock.sleep(MAX - Duration::from_secs(1)).await;
        let failed = log.give_up_overdue(MAX).expect("it is overdue");
        assert!(matches!(failed.error, DeviceError::TimedOut { .. }), "{failed}");
        assert!(log.give_up_overdue(MAX).is_none(), "it is told once");
        assert!(waiting.await.is_err());
        assert!(later.await.is_err());
        assert!(log.append(&sample(2).record()).await.is_err());
        log.validate();
        // What arrives late changes nothing.
        faults.clear();
        assert!(held.await.is_err());
        assert_eq!(log.durable(), Position::NONE);
        log.validate();
    });
}
