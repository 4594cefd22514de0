//! A ring that comes round, and what happens when there is no room.

use std::sync::Arc;
use std::time::Duration;

use storage::{
    Clock, Device, DeviceOperation, FaultyDevice, MemoryDevice, ObjectId, Simulation, Spawn,
};
use zil::{AppendError, DATA_BYTES_MAX, Log, Opening, Options, Place, Position, Record};

use crate::common::{self, DEVICE_BYTES, commit, expected, open, rest, sample};

fn memory() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096))
}

/// Appends and commits until there is no room.
async fn fill(log: &Log) -> Position {
    for number in 0.. {
        match log.append(&sample(number).record()).await {
            Ok(position) => log.commit(position).await.expect("the device works"),
            Err(AppendError::Full { oldest, waited }) => {
                assert_eq!(waited, Duration::from_millis(50));
                return oldest;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the ring ends")
}

#[test]
fn a_full_log_names_what_has_to_be_released() {
    let simulation = Simulation::new(1);
    simulation.run(async {
        let memory = memory();
        let log = common::format(&simulation, memory.clone(), common::options()).await;
        assert_eq!(fill(&log).await, Position(1));
        let last = log.last();
        assert!(log.statistics().free_bytes < 32 << 10 && log.statistics().full > 0);
        // Nothing of what was promised has been touched.
        let mut recovery = open(&simulation, memory.clone(), 1).await.expect("a log");
        let all = rest(&mut recovery).await.expect("whole");
        assert!(all == expected(1, 0..last.0));
        log.release(Position(last.0 / 2)).await.expect("the device works");
        assert_eq!(fill(&log).await, Position(last.0 / 2 + 1));
        log.release(log.last()).await.expect("the device works");
        assert_eq!(log.statistics().free_bytes, log.statistics().ring_bytes);
        log.validate();
    });
}

#[test]
fn who_waits_for_room_goes_on_once_there_is() {
    let simulation = Simulation::new(1);
    let options = Options { full_wait: Duration::from_secs(60), ..common::options() };
    let log = Arc::new(simulation.run(common::format(&simulation, memory(), options)));
    let (writer, releaser, clock) = (log.clone(), log.clone(), simulation.clone());
    simulation.spawn(Box::pin(async move {
        for number in 0..500 {
            commit(&writer, [number]).await;
        }
    }));
    simulation.spawn(Box::pin(async move {
        while releaser.last() < Position(500) {
            clock.sleep(Duration::from_secs(5)).await;
            releaser.release(releaser.last()).await.expect("the device works");
        }
    }));
    simulation.settle();
    let statistics = log.statistics();
    assert_eq!(statistics.commits, 500);
    assert!(statistics.full > 100, "{statistics:?}");
    assert!(statistics.block_bytes > 3 * statistics.ring_bytes, "{statistics:?}");
    log.validate();
}

#[test]
fn buffers_are_bounded_while_a_device_hangs() {
    let simulation = Simulation::new(1);
    let (device, faults) = FaultyDevice::new(memory(), common::clock(&simulation));
    let log = simulation.run(common::format(&simulation, Arc::new(device), common::options()));
    let log = Arc::new(log);
    faults.hang(|call| matches!(call, DeviceOperation::Write { .. }));
    let mut taken = 0;
    let refused = loop {
        match log.try_append(&sample(taken).record()) {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, AppendError::Busy);
    let buffered = log.statistics().buffered_bytes;
    assert!((32 << 10..=(64 + 16) << 10).contains(&buffered), "{buffered}");
    // One who waits for that, and goes on when the device does.
    let writer = log.clone();
    simulation.spawn(Box::pin(async move {
        commit(&writer, [1]).await;
    }));
    for _ in 0..1000 {
        simulation.step();
    }
    assert_eq!(log.last(), Position(taken));
    log.validate();
    faults.clear();
    simulation.settle();
    assert_eq!((log.last(), log.durable()), (Position(taken + 1), Position(taken + 1)));
    assert_eq!(log.statistics().buffered_bytes, 0);
    log.validate();
}

#[test]
fn the_longest_records_fit() {
    let simulation = Simulation::new(1);
    simulation.run(async {
        let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: false };
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(24 << 20, 512));
        let clock = common::clock(&simulation);
        let log = Log::format(device.clone(), opening, Options::default(), clock.clone()).await;
        let log = log.expect("a blank device");
        let path = "p".repeat(zil::PATH_BYTES_MAX);
        let file = Place { object: ObjectId(1), born: None, path: path.as_ref() };
        let data = vec![5; DATA_BYTES_MAX];
        let record = Record::Write { file, offset: 9, data: &data };
        for _ in 0..40 {
            let position = log.append(&record).await.expect("there is room");
            log.commit(position).await.expect("the device works");
            log.release(Position(position.0 - 1)).await.expect("the device works");
        }
        let data = vec![5; DATA_BYTES_MAX + 1];
        let refused = log.try_append(&Record::Write { file, offset: 9, data: &data });
        assert!(matches!(refused, Err(AppendError::Record(_))), "{refused:?}");
        let opened = Log::open(device, opening, Options::default(), clock).await;
        let mut recovery = opened.expect("a log");
        assert_eq!(recovery.next().await.expect("whole"), Some((Position(40), record)));
        assert_eq!(recovery.next().await.expect("whole"), None);
    });
}

#[test]
fn a_record_longer_than_a_block_is_refused() {
    let simulation = Simulation::new(1);
    simulation.run(async {
        let log = common::format(&simulation, memory(), common::options()).await;
        let file = Place { object: ObjectId(1), born: None, path: "a".as_ref() };
        let data = vec![5; 16 << 10];
        let refused = log.append(&Record::Write { file, offset: 9, data: &data }).await;
        assert!(matches!(refused, Err(AppendError::TooLarge { limit: 16_288, .. })), "{refused:?}");
        commit(&log, 0..3).await;
    });
}
