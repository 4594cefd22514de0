//! Cases of OpenZFS's test suite for its L2ARC that the other tests here do not have already: of
//! `l2arc_arcstats`, `l2arc_l2miss` and `l2arc_mfuonly` see the engine's tests, of
//! `persist_l2arc_001` and `_002` those of keeping.

use std::sync::Arc;
use std::time::Duration;

use l2arc::{Cipher, Compression, Condition, Key, Opened, Opening, Options, Refused};
use rustix::io::Errno;
use storage::{Clock, DeviceOperation, FaultyDevice, MemoryDevice, Random};

use crate::common::{DEVICE_BYTES, Subject, key, opening, options};

/// Seconds for which records are offered.
const SECONDS: u64 = 600;
/// Records that are offered each second: more than any budget takes.
const OFFERED: u64 = 4;

/// How many records are taken of those offered after the budget's allowance is used up.
fn taken(device: &Arc<MemoryDevice>, dwpd_hundredths: Option<u32>, life: u128) -> u64 {
    let subject = Subject::new(1, Options { dwpd_hundredths, ..options() });
    subject.add(device.clone(), &opening(life)).expect("added");
    let mut parts = 0..;
    let mut offer = || match subject.admit(&key(life as u64, parts.next().expect("endless")), 0) {
        Err(Refused::Buffers | Refused::NoSegment) => {
            subject.simulation.run(subject.flash.settle());
            Ok(())
        }
        outcome => outcome,
    };
    if dwpd_hundredths.is_some() {
        while offer() != Err(Refused::Wear) {}
    }
    let mut taken = 0;
    for _ in 0..SECONDS {
        subject.simulation.run(subject.simulation.sleep(Duration::from_secs(1)));
        taken += (0..OFFERED).filter(|_| offer().is_ok()).count() as u64;
        subject.simulation.run(subject.flash.settle());
    }
    subject.simulation.run(subject.flash.stop());
    taken
}

/// `l2arc_dwpd_ratelimit_pos` and `l2arc_dwpd_reimport_pos`: what is written follows the drive
/// writes a day, and does so again after a restart.
#[test]
fn more_drive_writes_a_day_write_more_before_and_after_a_restart() {
    let budgets = [None, Some(10_000), Some(5_000), Some(1_800)];
    let devices = budgets.map(|_| Arc::new(MemoryDevice::new(DEVICE_BYTES, 512)));
    for life in 1..=2 {
        let of_budgets: Vec<u64> =
            budgets.iter().zip(&devices).map(|(dwpd, device)| taken(device, *dwpd, life)).collect();
        assert!(of_budgets.is_sorted_by(|more, less| more > less), "{of_budgets:?}");
        assert!(of_budgets[3] > 0, "{of_budgets:?}: the least goes on as well");
    }
}

/// `persist_l2arc`, and what their suite lacks: nothing is fed while it is read what a device
/// holds.
#[test]
fn nothing_is_fed_before_all_is_known() {
    let device = blank();
    let first = Subject::new(1, options());
    first.add(device.clone(), &opening(1)).expect("added");
    first.fill((0..20).map(|part| key(1, part)));
    first.simulation.crash();
    let again = Subject::new(2, options());
    let added = again.simulation.run(again.flash.add(device, &opening(2)));
    assert_eq!(added, Ok(Opened::Warm));
    assert_eq!(again.admit(&key(2, 0), 0), Err(Refused::Recovering));
    again.simulation.run(again.flash.recovered());
    again.admit(&key(2, 0), 0).expect("all is known");
    assert_eq!(again.present((0..20).map(|part| key(1, part))), 20);
}

fn kept() -> impl Iterator<Item = Key> + Clone {
    (0..20).map(|part| key(1, part))
}

/// A device with these records on it, after a clean stop in life 1.
fn with_records() -> Arc<MemoryDevice> {
    let device = blank();
    let subject = Subject::new(1, options());
    subject.add(device.clone(), &opening(1)).expect("added");
    subject.fill(kept());
    subject.simulation.run(subject.flash.stop());
    device
}

/// `persist_l2arc_003_neg`: a device that is to start empty brings nothing back, then or later.
#[test]
fn what_is_not_to_be_brought_back_is_not() {
    let device = with_records();
    for life in [2, 3] {
        let subject = Subject::new(life as u64, options());
        let empty = Opening { empty: life == 2, ..opening(life) };
        subject.add(device.clone(), &empty).expect("added");
        let ring = subject.flash.statistics().rings.remove(0);
        assert_eq!((ring.condition, ring.stored_bytes), (Condition::Works, 0), "life {life}");
        assert_eq!(subject.flash.statistics().records, 0, "life {life}");
        assert_eq!(subject.present(kept()), 0, "life {life}");
        subject.simulation.run(subject.flash.stop());
    }
}

/// `persist_l2arc_004_pos`: a device that a start had to do without, and that comes after it,
/// brings all back if nothing has changed since, and nothing otherwise: unlike in ZFS, where a
/// block's address tells its age, what it holds may be old.
#[test]
fn a_device_that_comes_late_brings_all_back_or_nothing() {
    for changes in [false, true] {
        let device = with_records();
        let subject = Subject::new(2, options());
        subject.add(blank(), &opening(3)).expect("another");
        if changes {
            subject.kill(&key(1, 0));
        }
        let late = Opening { life: 3, lives: Some(vec![1, 3]), ..opening(1) };
        let opened = subject.add(device.clone(), &late);
        let expected = if changes { (Opened::Stale, 0) } else { (Opened::Warm, 20) };
        assert_eq!((opened, subject.present(kept())), (Ok(expected.0), expected.1));
        subject.fill((0..20).map(|part| key(2, part)));
        subject.flash.validate();
        subject.simulation.run(subject.flash.stop());
        // Had it missed that start altogether, it would not be believed in the next.
        let missed = with_records();
        let next = Subject::new(4, options());
        let lives = Some(vec![3]);
        assert_eq!(next.add(missed, &Opening { lives, ..opening(4) }), Ok(Opened::Stale));
    }
}

/// `persist_l2arc_005_pos`: a device that is away for a while, and of which nothing dies
/// meanwhile, has all it had when it is back.
#[test]
fn a_device_that_was_away_has_what_it_had() {
    let subject = Subject::new(1, options());
    let (faulty, faults) = FaultyDevice::new(blank(), Arc::new(subject.simulation.clone()));
    subject.add(Arc::new(faulty), &opening(1)).expect("added");
    subject.fill(kept());
    faults.fail_next_of(u64::MAX, Errno::IO, |_| true);
    assert_eq!(subject.present(kept()), 0);
    let ring = || subject.flash.statistics().rings.remove(0);
    assert_eq!(ring().condition, Condition::Bypassed);
    faults.clear();
    subject.simulation.run(subject.simulation.sleep(Duration::from_secs(1000)));
    assert_eq!(ring().condition, Condition::Works);
    assert_eq!(subject.present(kept()), 20);
}

fn blank() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, 512))
}

/// A level of so many devices that each take `RATE_BYTES` a second.
fn limited(devices: u128) -> Subject {
    let subject = Subject::new(1, Options { rate_bytes: Some(RATE_BYTES), ..options() });
    for life in 1..=devices {
        subject.add(blank(), &opening(life)).expect("added");
    }
    subject
}

const RATE_BYTES: u64 = 100 << 10;

/// Offers more than the devices take, for so many seconds. Returns bytes written.
fn written_in(subject: &Subject, seconds: u64, parts: &mut impl Iterator<Item = u64>) -> u64 {
    let written =
        || -> u64 { subject.flash.statistics().rings.iter().map(|ring| ring.written_bytes).sum() };
    let before = written();
    for _ in 0..seconds * 100 {
        for part in parts.take(4) {
            let _ = subject.admit(&key(1, part), 0);
        }
        subject.simulation.run(subject.simulation.sleep(Duration::from_millis(10)));
    }
    subject.simulation.run(subject.flash.settle());
    written() - before
}

/// `l2arc_multidev_scaling_pos`: two devices take twice what one takes.
#[test]
fn each_device_takes_what_it_is_allowed_to() {
    for devices in [1, 2, 4] {
        let written = written_in(&limited(devices as u128), 12, &mut (0..));
        let allowed = devices * 12 * RATE_BYTES;
        assert!(written >= allowed / 5 * 4, "{devices} devices: {written} of {allowed}");
        assert!(written <= allowed + devices * RATE_BYTES, "{devices} devices: {written}");
    }
}

/// `l2arc_multidev_throughput_pos`: what several devices take does not fall off once they are full.
#[test]
fn devices_go_on_as_they_began() {
    let subject = limited(2);
    let mut parts = 0..;
    let windows: Vec<u64> = (0..6).map(|_| written_in(&subject, 10, &mut parts)).collect();
    assert!(subject.flash.statistics().evicted_segments > 20, "they came round");
    assert!(windows.iter().all(|bytes| *bytes >= windows[0] / 5 * 4), "{windows:?}");
    subject.flash.validate();
}

/// `cache_012_pos`, and `trim_l2arc` with trim-ahead: a device that is written several times over
/// stays as large as it is, and is told of all that it may forget.
#[test]
fn what_comes_round_is_trimmed() {
    let subject = Subject::new(1, options());
    subject.add(blank(), &opening(1)).expect("added");
    let mut parts = (0..).map(|part| key(1, part));
    let ring = || subject.flash.statistics().rings.remove(0);
    let written = |times| times * ring().data_bytes;
    while ring().written_bytes < written(5) {
        subject.fill(parts.by_ref().take(20));
        assert!(ring().stored_bytes <= ring().data_bytes);
    }
    let trimmed = subject.flash.statistics().trimmed_bytes;
    assert!((written(3)..=written(5)).contains(&trimmed), "{trimmed} bytes trimmed");
    subject.flash.validate();
}

/// `l2arc_compressed_arc`, `l2arc_encrypted` and their negations: random reads in all modes find
/// nothing damaged.
#[test]
fn compressed_or_not_and_encrypted_or_not_nothing_is_damaged() {
    for compression in [Compression::Off, Compression::Lz4, Compression::Zstd] {
        for cipher in [None, Some(Cipher::new(&[7; 32]))] {
            let subject = Subject::new(1, Options { cipher, ..options() });
            subject.add(blank(), &opening(1)).expect("added");
            let mut random = Random::new(3);
            for _ in 0..3000 {
                let key = key(1, random.below(900));
                if subject.read(&key, 0).is_err() {
                    let _ = subject.admit_as(&key, 0, |it| it.compression = compression);
                }
            }
            let statistics = subject.flash.statistics();
            assert!(statistics.hits > 100, "{} hits", statistics.hits);
            assert_eq!((statistics.damaged, statistics.failed_reads), (0, 0), "{compression:?}");
        }
    }
}

/// What their suite lacks: one device comes round, again and again, while it is not known yet what
/// another holds of the same records.
#[test]
fn a_ring_comes_round_while_another_is_read_in() {
    let old = blank();
    let first = Subject::new(1, options());
    first.add(old.clone(), &opening(1)).expect("added");
    let known = || (0..60).map(|part| key(1, part));
    first.fill(known());
    first.simulation.crash();

    let subject = Subject::new(2, options());
    subject.add(blank(), &opening(2)).expect("added");
    let (faulty, faults) = FaultyDevice::new(old, Arc::new(subject.simulation.clone()));
    let opening = Opening { lives: None, ..opening(1) };
    let added = subject.flash.add(Arc::new(faulty), &opening);
    let hang = async {
        let added = added.await;
        // What the records are read in by.
        faults.hang(|call| matches!(call, DeviceOperation::Read { .. }));
        added
    };
    assert_eq!(subject.simulation.run(hang), Ok(Opened::Warm));
    let (killed, others): (Vec<_>, Vec<_>) = known().partition(|key| key.part % 4 == 0);
    subject.simulation.run(subject.flash.kill(&killed)).expect("the device takes it");
    let mut random = Random::new(5);
    let mut taken = 0;
    while subject.flash.statistics().evicted_segments < 60 {
        // New ones, and some that the other device holds as well.
        let one = match random.below(8) {
            0 => others[random.below(others.len() as u64) as usize],
            _ => key(2, random.below(1 << 20)),
        };
        taken += u64::from(subject.admit(&one, 0).is_ok());
        if random.below(10) == 0 {
            subject.simulation.run(subject.simulation.sleep(Duration::from_millis(1)));
        }
    }
    assert!(taken > 500, "{taken}");
    let recovering = subject.flash.statistics().rings.remove(1).condition;
    assert_eq!(recovering, l2arc::Condition::Recovering);
    faults.clear();
    subject.simulation.run(subject.flash.recovered());
    subject.flash.validate();
    for key in &killed {
        assert!(subject.read(key, 1).is_err(), "{key:?} was killed");
    }
    assert_eq!(subject.present(others.iter().copied()), others.len(), "all others are there");
    let sum: u64 = subject.flash.statistics().tenants.iter().map(|(_, bytes)| bytes).sum();
    let of_rings = subject.flash.statistics().rings.iter().map(|ring| ring.stored_bytes).sum();
    assert_eq!(sum, of_rings, "datasets and devices have the same sum");
}
