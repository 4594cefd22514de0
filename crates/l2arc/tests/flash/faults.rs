//! Devices that fail, hang or are slow: readers go to the origin, and nothing is lost but warmth.

use std::sync::Arc;
use std::time::Duration;

use l2arc::{Condition, Flash, Key, Miss, Opened, Options, Refused};
use rustix::io::Errno;
use storage::{Clock, DeviceError, DeviceFaults, DeviceOperation, FaultyDevice, MemoryDevice};

use crate::common::{DEVICE_BYTES, Subject, admission, contents, key, opening, options};

fn keys() -> impl Iterator<Item = Key> {
    (0..60).map(|part| key(1, part))
}

fn subject(options: Options) -> (Subject, Arc<DeviceFaults>, Arc<MemoryDevice>) {
    let subject = Subject::new(1, options);
    let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let clock: Arc<dyn Clock> = Arc::new(subject.simulation.clone());
    let (device, faults) = FaultyDevice::new(memory.clone(), clock);
    subject.add(Arc::new(device), &opening(1)).expect("added");
    (subject, faults, memory)
}

fn condition(flash: &Flash) -> Condition {
    flash.statistics().rings[0].condition
}

fn misses(flash: &Flash, miss: Miss) -> u64 {
    let statistics = flash.statistics();
    statistics.misses.iter().find(|(it, _)| *it == miss).expect("all are there").1
}

fn pass(subject: &Subject, seconds: u64) {
    subject.simulation.run(subject.simulation.sleep(Duration::from_secs(seconds)));
}

#[test]
fn failing_reads_are_misses_and_many_bypass_the_device() {
    let (subject, faults, _) = subject(options());
    subject.fill(keys());
    faults.fail_next_of(u64::MAX, Errno::IO, |call| matches!(call, DeviceOperation::Read { .. }));
    assert_eq!(subject.present(keys()), 0);
    assert_eq!(condition(&subject.flash), Condition::Bypassed);
    assert!(misses(&subject.flash, Miss::Failed) >= 8);
    assert!(misses(&subject.flash, Miss::Bypassed) >= 40, "it is not asked any more");
    assert_eq!(subject.admit(&key(2, 1), 0), Err(Refused::Bypassed));
    faults.clear();
    pass(&subject, 11);
    assert_eq!(subject.present(keys()), 60, "tried again, and nothing was lost");
    assert_eq!(condition(&subject.flash), Condition::Works);
}

#[test]
fn damaged_reads_drop_the_record() {
    let (subject, faults, _) = subject(options());
    subject.fill(keys());
    faults.damage(|_, bytes| bytes.iter_mut().for_each(|byte| *byte ^= 4));
    assert_eq!(subject.read(&key(1, 5), 0), Err(Miss::Damaged));
    faults.clear();
    assert_eq!(subject.read(&key(1, 5), 0), Err(Miss::Dead), "it is not tried again");
    assert_eq!(subject.flash.statistics().damaged, 1);
    subject.admit(&key(1, 5), 0).expect("it may come again");
    subject.read(&key(1, 5), 0).expect("it is there");
    assert_eq!(subject.present(keys()), 60);
}

#[test]
fn a_device_that_lost_most_of_its_contents_is_soon_of_use_again() {
    let (subject, _, memory) = subject(options());
    let all = || (0..300).map(|part| key(1, part));
    subject.fill(all());
    assert_eq!(subject.present(all()), 300);
    let before = subject.flash.statistics();
    // All but the superblocks, the journal and the last quarter.
    memory.change(|bytes| bytes[DEVICE_BYTES / 3..DEVICE_BYTES / 4 * 3].fill(0));
    let left = subject.present(all());
    subject.simulation.settle();
    subject.flash.validate();
    let statistics = subject.flash.statistics();
    let segments = statistics.damaged_segments;
    assert!(segments >= 5, "{segments} are given up");
    // A segment with fewer records than that at its edge is not.
    let asked = statistics.damaged;
    assert!(asked <= 4 * (segments + 2), "{asked} records were asked for in vain");
    assert!(asked + (left as u64) < 300, "the others of {segments} segments were not");
    assert_eq!(misses(&subject.flash, Miss::Bypassed), 0);
    assert_eq!(condition(&subject.flash), Condition::Works);
    let ring = |statistics: &l2arc::Statistics| statistics.rings[0].clone();
    assert!(ring(&statistics).segments.1 <= ring(&before).segments.1 - segments as u32);
    assert!(ring(&statistics).stored_bytes < ring(&before).stored_bytes);
    // What was dropped comes in again, and what was not damaged stays.
    let gone: Vec<Key> = all().filter(|key| subject.read(key, 0).is_err()).collect();
    assert_eq!(gone.len(), 300 - left);
    subject.fill(gone);
    assert_eq!(subject.present(all()), 300);
    subject.flash.validate();
    // What the journal says of it holds after a start.
    subject.simulation.run(subject.flash.stop());
    let again = Subject::new(2, options());
    assert_eq!(again.add(memory, &opening(2)), Ok(Opened::Warm));
    assert_eq!(again.present(all()), 300);
}

#[test]
fn failing_writes_lose_their_records_only() {
    let (subject, faults, memory) = subject(options());
    subject.fill((0..30).map(|part| key(1, part)));
    faults.fail_next_of(
        1,
        Errno::NOSPC,
        |call| matches!(call, DeviceOperation::Write { bytes, .. } if *bytes > 9000),
    );
    subject.fill((30..60).map(|part| key(1, part)));
    assert_eq!(subject.flash.statistics().failed_writes, 1);
    let present = subject.present(keys());
    assert!((20..60).contains(&present), "{present}");
    subject.flash.validate();
    // The same after a start.
    subject.simulation.settle();
    let again = Subject::new(2, options());
    assert_eq!(again.add(memory, &opening(2)), Ok(Opened::Warm));
    assert!(again.present(keys()) <= present);
}

#[test]
fn a_device_on_a_full_file_system_is_read_from_and_written_again_later() {
    let (subject, faults, _) = subject(options());
    subject.fill(keys());
    faults.fail_next_of(
        u64::MAX,
        Errno::NOSPC,
        |call| matches!(call, DeviceOperation::Write { bytes, .. } if *bytes > 8192),
    );
    let mut refused = None;
    for part in 0..2000 {
        refused = subject.admit(&key(2, part), 0).err();
        if refused == Some(Refused::Bypassed) {
            break;
        }
        if part % 8 == 7 {
            subject.simulation.run(subject.flash.settle());
        }
    }
    assert_eq!(refused, Some(Refused::Bypassed));
    subject.simulation.run(subject.flash.settle());
    let statistics = subject.flash.statistics();
    let ring = &statistics.rings[0];
    assert!(statistics.failed_writes >= 8);
    assert_eq!(ring.written_bytes, statistics.written_bytes, "what failed is not written");
    let bypass = ring.bypass.expect("it is bypassed");
    assert!(bypass.is_read && bypass.failures.writes == 8, "{bypass:?}");
    assert_eq!(
        ring.error,
        Some(DeviceError::System { operation: "write", errno: Errno::NOSPC }),
        "it says why"
    );
    assert!(subject.present(keys()) > 40, "what lies there is read");
    subject.simulation.run(subject.flash.kill(&[key(1, 7)])).expect("tombstones are taken");
    faults.clear();
    pass(&subject, 11);
    subject.fill((0..60).map(|part| key(3, part)));
    assert_eq!(subject.present((0..60).map(|part| key(3, part))), 60, "it is tried again");
    subject.flash.validate();
}

#[test]
fn a_journal_that_fails_voids_the_device_until_that_is_known() {
    for flush in [true, false] {
        let (subject, faults, memory) = subject(options());
        subject.fill(keys());
        faults.fail_next_of(1, Errno::IO, move |call| match call {
            DeviceOperation::Flush => flush,
            DeviceOperation::Write { bytes, .. } => !flush && *bytes == 8192,
            _ => false,
        });
        let run = |keys: &[Key]| subject.simulation.run(subject.flash.kill(keys));
        let refused = run(&[key(1, 7)]).expect_err("the death does not last");
        assert_eq!(refused.devices, [[1; 16]]);
        assert!(run(&[key(1, 8)]).is_err(), "as long as nobody has taken note");
        assert_eq!(condition(&subject.flash), Condition::Void);
        assert_eq!(subject.present(keys()), 0);
        let statistics = subject.flash.statistics();
        let ring = &statistics.rings[0];
        assert_eq!((ring.stored_bytes, ring.segments.1), (0, 0), "it holds nothing any more");
        assert!(ring.tenants.is_empty() && statistics.tenants.is_empty());
        subject.flash.renounced([1; 16]);
        run(&[key(1, 9)]).expect("nothing of it is used any more");
        assert_eq!(subject.admit(&key(2, 1), 0), Err(Refused::NoDevice));
        subject.flash.validate();
        let again = Subject::new(2, options());
        let life = l2arc::Opening { lives: Some(Vec::new()), ..opening(2) };
        assert_eq!(again.add(memory, &life), Ok(Opened::Stale));
        assert_eq!(again.present(keys()), 0);
    }
}

#[test]
fn a_slow_device_is_not_asked_where_the_origin_is_quicker() {
    let (subject, faults, _) = subject(options());
    subject.fill(keys());
    faults.delay(Duration::from_millis(50));
    let read = |key: Key| {
        let mut into = vec![0; 8192];
        let origin = Some(Duration::from_millis(10));
        subject.simulation.run(subject.flash.read(&key, &mut into, origin)).is_ok()
    };
    let hits = keys().filter(|key| read(*key)).count();
    assert!(hits <= 2, "{hits}: one tells that it is slow");
    assert!(misses(&subject.flash, Miss::Slower) >= 58);
    assert!(subject.flash.statistics().rings[0].latency >= Duration::from_millis(50));
    faults.delay(Duration::ZERO);
    for _ in 0..40 {
        subject.simulation.run(subject.simulation.sleep(Duration::from_millis(50)));
        read(key(1, 2));
    }
    assert_eq!(keys().filter(|key| read(*key)).count(), 60, "it is quick again");
}

#[test]
fn a_device_that_hangs_fills_the_buffers_and_no_more() {
    let (subject, faults, _) = subject(options());
    faults.hang(|call| matches!(call, DeviceOperation::Write { .. }));
    let mut refused = 0;
    for part in 0..1000 {
        let key = key(2, part);
        let admission = admission(&subject.flash, &key);
        refused += u64::from(
            subject.flash.admit(&key, &contents(&key, 0), &admission) == Err(Refused::Buffers),
        );
        for _ in 0..10 {
            subject.simulation.step();
        }
    }
    assert!(refused > 500, "{refused}");
    let charged = subject.flash.charged_bytes();
    assert!(charged < 2 << 20, "{charged} bytes of RAM");
    subject.flash.validate();
    faults.clear();
    subject.simulation.run(subject.flash.settle());
    subject.admit(&key(3, 1), 0).expect("it goes on");
}

#[test]
fn a_device_without_trim_works() {
    let (subject, faults, _) = subject(options());
    faults.fail_next_of(u64::MAX, Errno::OPNOTSUPP, |call| {
        matches!(call, DeviceOperation::Discard { .. })
    });
    subject.fill((0..3000).map(|part| key(1, part)));
    assert_eq!(subject.flash.statistics().trimmed_bytes, 0);
    assert_eq!(subject.present((2950..3000).map(|part| key(1, part))), 50);
}
