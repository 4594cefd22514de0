//! What is reserved for a dataset the records of others do not push out.

use std::sync::Arc;

use l2arc::Options;
use storage::MemoryDevice;

use crate::common::{DEVICE_BYTES, Subject, contents, key, opening, options};

/// Records of the dataset with this number.
fn keys(tenant: u64, parts: std::ops::Range<u64>) -> impl Iterator<Item = l2arc::Key> {
    parts.map(move |part| key(tenant, part))
}

/// A device with a reserve for dataset 1, which has more than that on it, and then others' records
/// of several times the device. Returns the bytes reserved.
fn crowded(options: Options, reserved_share: u64) -> (Subject, u64) {
    let subject = Subject::new(1, options);
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    subject.add(device, &opening(1)).expect("added");
    let reserve = subject.flash.reservable_bytes() / 100 * reserved_share;
    subject.flash.set_reserve(1, reserve);
    subject.fill(keys(1, 0..400));
    for round in 0..4 {
        subject.fill(keys(2, round * 600..(round + 1) * 600));
        subject.flash.validate();
    }
    (subject, reserve)
}

/// Bytes of contents that are still there of dataset 1.
fn present(subject: &Subject) -> u64 {
    let there = keys(1, 0..400).filter(|key| subject.read(key, 0).is_ok());
    there.map(|key| contents(&key, 0).len() as u64).sum()
}

#[test]
fn a_reserve_is_not_pushed_out() {
    for share in [10, 50, 100] {
        let (subject, reserve) = crowded(Options { second_life: false, ..options() }, share);
        let statistics = subject.flash.statistics();
        let stored = statistics.tenants.iter().find(|(tenant, _)| *tenant == 1);
        let stored = stored.map_or(0, |(_, bytes)| *bytes);
        assert!(stored >= reserve, "{share} %: {stored} of {reserve} bytes");
        let present = present(&subject);
        assert!(present >= reserve / 100 * 85, "{share} %: {present} of {reserve} bytes");
        assert!(statistics.reserved_lives > 0 && statistics.second_lives == 0);
        let sum: u64 = statistics.tenants.iter().map(|(_, bytes)| bytes).sum();
        let rings: u64 = statistics.rings.iter().map(|ring| ring.stored_bytes).sum();
        assert_eq!(sum, rings, "datasets and devices have the same sum");
    }
}

#[test]
fn without_a_reserve_others_push_it_out() {
    let (subject, _) = crowded(Options { second_life: false, ..options() }, 0);
    assert_eq!(present(&subject), 0);
    assert_eq!(subject.flash.statistics().reserved_lives, 0);
}

#[test]
fn what_is_taken_back_is_pushed_out() {
    let (subject, _) = crowded(options(), 50);
    assert!(present(&subject) > 0);
    subject.flash.set_reserve(1, 0);
    // What was just read has a second life, once.
    subject.fill(keys(2, 10_000..12_000));
    assert_eq!(present(&subject), 0);
    subject.flash.validate();
}

#[test]
fn reserves_beyond_the_space_leave_room_for_others() {
    let (subject, _) = crowded(options(), 1_000_000);
    let statistics = subject.flash.statistics();
    let bytes = |tenant| statistics.tenants.iter().find(|it| it.0 == tenant).map_or(0, |it| it.1);
    assert!(bytes(1) >= subject.flash.reservable_bytes() / 100 * 90, "{}", bytes(1));
    assert!(bytes(2) > 0);
    let written = statistics.rings[0].written_bytes;
    assert!(written < 8 * statistics.admitted_bytes, "{written} bytes written");
}
