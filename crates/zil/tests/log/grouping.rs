//! Callers who commit at the same time are written together.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::abortable;
use parking_lot::Mutex;
use storage::{
    AlignedBuffer, Clock, Device, DeviceInfo, DeviceOperation, DeviceTask, FaultyDevice,
    MemoryDevice, Simulation, Spawn,
};
use zil::{Log, Options, Statistics, Sync};

use crate::common::{self, DEVICE_BYTES, commit, sample};

/// How long each call to the device takes.
const CALL: Duration = Duration::from_millis(1);

/// Lets some callers commit a record each, all at once and as many times as wanted; returns what
/// the log has done, and how long it took.
fn callers(count: u64, rounds: u64, lanes: usize) -> (Statistics, Duration) {
    let simulation = Simulation::new(5);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(8 << 20, 4096));
    let (device, faults) = FaultyDevice::new(device, common::clock(&simulation));
    let options = Options { lanes, sync: Some(Sync::Flush), ..common::options() };
    let log = Arc::new(simulation.run(common::format(&simulation, Arc::new(device), options)));
    faults.delay(CALL);
    let started = simulation.now();
    let done = Arc::new(Mutex::new(0));
    for _ in 0..count {
        let (log, done) = (log.clone(), done.clone());
        simulation.spawn(Box::pin(async move {
            for _ in 0..rounds {
                commit(&log, [0]).await;
                *done.lock() += 1;
            }
        }));
    }
    simulation.settle();
    assert_eq!(*done.lock(), count * rounds);
    log.validate();
    (log.statistics(), simulation.now() - started)
}

#[test]
fn one_caller_writes_at_once() {
    let (statistics, took) = callers(1, 10, 2);
    assert_eq!((statistics.blocks, statistics.flushes), (10, 10));
    assert_eq!(took, 20 * CALL, "a write and a flush each");
    assert_eq!(statistics.commits, 10);
    assert_eq!(statistics.latency_us.p50 / 100, 20, "{:?}", statistics.latency_us);
    assert_eq!(statistics.batches, [(1, 10)]);
}

#[test]
fn those_who_come_meanwhile_share_the_next_block() {
    let (statistics, took) = callers(16, 1, 1);
    assert_eq!((statistics.blocks, statistics.flushes), (2, 2), "the first, and the others");
    assert_eq!((statistics.batch.max, took), (15, 4 * CALL));
    assert_eq!(statistics.batches.iter().map(|(_, count)| count).sum::<u64>(), 2);
    let (statistics, took) = callers(16, 1, 4);
    assert_eq!(statistics.blocks, 5, "four at once, and the others");
    assert_eq!(took, 4 * CALL);
}

#[test]
fn many_callers_write_few_blocks() {
    for lanes in [1, 2, 4] {
        let (statistics, took) = callers(16, 20, lanes);
        assert_eq!((statistics.commits, statistics.records), (320, 320));
        assert!(statistics.blocks <= 40 * lanes as u64, "{lanes} lanes: {}", statistics.blocks);
        assert!(took <= 2 * 20 * 2 * CALL, "{lanes} lanes: {took:?}");
    }
}

#[test]
fn what_lasts_is_not_waited_for() {
    let simulation = Simulation::new(5);
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096));
    simulation.run(async {
        let log: Log = common::format(&simulation, device, common::options()).await;
        let first = log.try_append(&sample(1).record()).expect("there is room");
        let second = log.try_append(&sample(2).record()).expect("there is room");
        log.commit(second).await.expect("the device works");
        log.commit(first).await.expect("the device works");
        let statistics = log.statistics();
        assert_eq!((statistics.blocks, statistics.commits, statistics.commits_idle), (1, 2, 1));
        assert_eq!((log.durable(), log.last()), (second, second));
    });
}

#[test]
fn who_gives_up_leaves_those_who_came_with_him_to_another() {
    let simulation = Simulation::new(5);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096));
    let (device, faults) = FaultyDevice::new(device, common::clock(&simulation));
    let options = Options { lanes: 1, sync: Some(Sync::Flush), ..common::options() };
    let log = Arc::new(simulation.run(common::format(&simulation, Arc::new(device), options)));
    faults.hang(|call| matches!(call, DeviceOperation::Write { .. }));
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut callers = Vec::new();
    for caller in 0..6 {
        if caller == 3 {
            // Those before are in the block that is under way; the others wait for a lane.
            simulation.settle();
        }
        let position = log.try_append(&sample(caller).record()).expect("there is room");
        let (log, done) = (log.clone(), done.clone());
        let (task, handle) = abortable(async move {
            log.commit(position).await.expect("the device works");
            done.lock().push(caller);
        });
        simulation.spawn(Box::pin(async move {
            let _ = task.await;
        }));
        callers.push(handle);
    }
    simulation.settle();
    // One after the other, whoever drives.
    for caller in [0, 1, 3, 4] {
        callers[caller].abort();
        simulation.settle();
    }
    faults.clear();
    simulation.settle();
    done.lock().sort_unstable();
    assert_eq!(*done.lock(), [2, 5]);
    log.validate();
}

/// A device whose writes are done as soon as they are polled a second time, and say so at once.
struct Hasty(MemoryDevice);

impl Device for Hasty {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn read(&self, offset: u64, buffer: AlignedBuffer) -> DeviceTask<'_, AlignedBuffer> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffer: Arc<AlignedBuffer>) -> DeviceTask<'_, ()> {
        let mut begun = false;
        let pause = std::future::poll_fn(move |context| {
            context.waker().wake_by_ref();
            match std::mem::replace(&mut begun, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        Box::pin(async move {
            pause.await;
            self.0.write(offset, buffer).await
        })
    }

    fn flush(&self) -> DeviceTask<'_, ()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, bytes: u64) -> DeviceTask<'_, ()> {
        self.0.discard(offset, bytes)
    }
}

/// A driver may be woken while another one still polls on his behalf.
#[test]
fn nobody_sleeps_on_when_a_device_is_quicker_than_its_callers() {
    let simulation = Simulation::new(5);
    for lanes in [1, 3] {
        let device = Arc::new(Hasty(MemoryDevice::new(64 << 20, 4096)));
        let options = Options { lanes, sync: Some(Sync::Flush), ..common::options() };
        let log = Arc::new(block_on(common::format(&simulation, device, options)));
        let (sender, receiver) = std::sync::mpsc::channel();
        for thread in 0..4 {
            let (log, sender) = (log.clone(), sender.clone());
            std::thread::spawn(move || {
                for number in 0..2000 {
                    block_on(commit(&log, [7 * (thread * 1000 + number)]));
                }
                let _ = sender.send(());
            });
        }
        for _ in 0..4 {
            receiver.recv_timeout(Duration::from_secs(60)).expect("nobody sleeps for ever");
        }
        log.validate();
        assert_eq!(log.statistics().commits, 8000);
    }
}
