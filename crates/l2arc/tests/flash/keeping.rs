//! What is admitted is kept: until its turn to go comes, and over clean stops.

use std::sync::Arc;
use std::time::Duration;

use l2arc::{Miss, Opened, Options, Refused};
use storage::{Device, MemoryDevice};

use crate::common::{DEVICE_BYTES, Subject, key, opening, options};

fn device() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, 512))
}

fn keys(count: u64) -> impl Iterator<Item = l2arc::Key> + Clone {
    (0..count).map(|part| key(1, part))
}

#[test]
fn records_are_read_from_ram_and_from_flash() {
    let subject = Subject::new(1, options());
    assert_eq!(subject.add(device(), &opening(1)), Ok(Opened::Formatted));
    assert_eq!(subject.read(&key(1, 1), 0), Err(Miss::Absent));
    for key in keys(20) {
        subject.admit(&key, 0).expect("there is room");
        subject.read(&key, 0).expect("it is in a buffer");
    }
    assert_eq!(subject.admit(&key(1, 3), 0), Err(Refused::Present));
    subject.simulation.run(subject.flash.settle());
    assert_eq!(subject.present(keys(20)), 20);
    let statistics = subject.flash.statistics();
    assert_eq!((statistics.records, statistics.admitted, statistics.hits), (20, 20, 40));
    subject.flash.validate();
}

#[test]
fn a_clean_stop_loses_nothing() {
    let device = device();
    let subject = Subject::new(1, options());
    subject.add(device.clone(), &opening(1)).expect("added");
    subject.fill(keys(150));
    let before: Vec<_> = keys(150).filter(|key| subject.read(key, 0).is_ok()).collect();
    subject.kill(&before[3]);
    let written = subject.flash.statistics().rings[0].written_bytes;
    subject.simulation.run(subject.flash.stop());
    let again = Subject::new(2, options());
    assert_eq!(again.add(device, &opening(2)), Ok(Opened::Warm));
    assert_eq!(again.read(&before[3], 0), Err(Miss::Absent));
    assert_eq!(again.present(before.iter().copied()), before.len() - 1);
    assert!(again.flash.statistics().rings[0].written_bytes >= written, "wear is remembered");
    again.flash.validate();
}

#[test]
fn the_ring_comes_round_and_the_oldest_go() {
    let subject = Subject::new(1, Options { second_life: false, ..options() });
    subject.add(device(), &opening(1)).expect("added");
    subject.fill(keys(3000));
    let newest = keys(3000).skip(2900);
    assert_eq!(subject.present(newest), 100, "the newest are there");
    assert_eq!(subject.present(keys(1000)), 0, "the oldest are not");
    let statistics = subject.flash.statistics();
    assert!(statistics.evicted_segments > 50, "{}", statistics.evicted_segments);
    assert!(statistics.trimmed_bytes > 0);
    let sum: u64 = statistics.tenants.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, statistics.rings[0].stored_bytes, "datasets add up to the device");
    assert!(sum <= statistics.rings[0].data_bytes);
    subject.flash.validate();
}

#[test]
fn what_was_hit_has_a_second_life() {
    let subject = Subject::new(1, options());
    subject.add(device(), &opening(1)).expect("added");
    subject.fill(keys(100));
    let hot: Vec<_> = keys(100).filter(|key| key.part % 10 == 3).collect();
    for round in 0..20 {
        for key in &hot {
            let _ = subject.read(key, 0);
        }
        subject.fill((0..100).map(|part| key(2 + round, part)));
    }
    let kept = hot.iter().filter(|key| subject.read(key, 0).is_ok()).count();
    assert_eq!(kept, hot.len(), "of {}", hot.len());
    assert_eq!(subject.present(keys(100).filter(|key| key.part % 10 == 4)), 0);
    assert!(subject.flash.statistics().second_lives > 0);
}

#[test]
fn killed_records_and_objects_are_gone_and_may_come_again() {
    let subject = Subject::new(1, options());
    subject.add(device(), &opening(1)).expect("added");
    subject.fill(keys(30));
    let old = subject.flash.stamp(1);
    subject.kill(&key(1, 7));
    assert_eq!(subject.read(&key(1, 7), 0), Err(Miss::Absent));
    let late = subject.admit_as(&key(1, 7), 0, |admission| admission.stamp = old);
    assert_eq!(late, Err(Refused::Killed), "bytes from before the kill");
    subject.admit(&key(1, 7), 1).expect("the new version");
    subject.read(&key(1, 7), 1).expect("it is there");
    subject.simulation.run(subject.flash.kill_object(1)).expect("the device works");
    assert_eq!(subject.present(keys(30)), 0);
    subject.admit(&key(1, 8), 2).expect("the next version");
    subject.read(&key(1, 8), 2).expect("it is there");
    subject.flash.validate();
}

#[test]
fn first_touches_stay_out_once_the_device_is_full() {
    let subject = Subject::new(1, Options { second_touch: true, ..options() });
    subject.add(device(), &opening(1)).expect("added");
    let once = |key: &l2arc::Key| subject.admit_as(key, 0, |admission| admission.touches = 1);
    once(&key(9, 9)).expect("the first fill takes all");
    subject.fill(keys(800));
    assert_eq!(once(&key(8, 1)), Err(Refused::FirstTouch));
    subject.simulation.run(subject.flash.settle());
    once(&key(8, 1)).expect("the second touch");
    once(&key(8, 0)).expect("metadata needs none");
}

#[test]
fn limits_hold() {
    let device = device();
    let subject = Subject::new(1, Options { dwpd_hundredths: Some(10), ..options() });
    subject.add(device.clone(), &opening(1)).expect("added");
    let limited =
        |part| subject.admit_as(&key(1, part), 0, |admission| admission.limit_bytes = Some(50_000));
    let taken = (1..100).take_while(|part| limited(*part).is_ok()).count();
    assert!((5..50).contains(&taken), "{taken}");
    assert_eq!(limited(taken as u64 + 1), Err(Refused::Limit));
    let stored = subject.flash.statistics().tenants;
    assert!(stored.iter().all(|(_, bytes)| *bytes <= 50_000), "{stored:?}");
    let long = vec![0; 40 << 10];
    let admission = crate::common::admission(&subject.flash, &key(4, 4));
    assert_eq!(subject.flash.admit(&key(4, 4), &long, &admission), Err(Refused::TooLarge));
    assert_eq!(device.info().size_bytes, DEVICE_BYTES as u64);
}

#[test]
fn the_wear_budget_lasts_over_starts() {
    let device = device();
    let first = Options { dwpd_hundredths: Some(100), ..options() };
    let mut refused = 0;
    let mut total = 0;
    for life in 1..4 {
        let subject = Subject::new(life as u64, first.clone());
        subject.add(device.clone(), &opening(life)).expect("added");
        // The burst allowance is 64 MiB: a start does not give it anew.
        for part in 0..25_000 {
            match subject.admit(&key(life as u64, part), 0) {
                Ok(()) => total += 1,
                Err(Refused::Wear) => refused += 1,
                Err(Refused::Buffers | Refused::NoSegment) => {
                    subject.simulation.run(subject.flash.settle());
                }
                Err(other) => panic!("{other}"),
            }
        }
        subject.simulation.run(subject.flash.stop());
    }
    let written = total * 2300;
    assert!(refused > 0, "{total} taken");
    assert!(written < 80 << 20, "{written} bytes in three lives, each with time for none");
}

#[test]
fn the_rate_is_kept() {
    let subject = Subject::new(1, Options { rate_bytes: Some(100 << 10), ..options() });
    subject.add(device(), &opening(1)).expect("added");
    let mut taken = 0;
    for part in 0..1000 {
        taken += u64::from(subject.admit(&key(1, part), 0).is_ok());
        let pause = storage::Clock::sleep(&subject.simulation, Duration::from_millis(10));
        subject.simulation.run(pause);
    }
    let bytes = subject.flash.statistics().stored_bytes;
    assert!(taken > 100 && bytes < 11 * (100 << 10), "{bytes} bytes in 10 s");
}
