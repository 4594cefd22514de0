//! Which devices are taken in, and as what.

use std::sync::Arc;

use l2arc::{AddError, Cipher, Flash, Miss, Opened, Opening, Options, Refused};
use rustix::io::Errno;
use storage::{DeviceOperation, FaultyDevice, MemoryDevice};

use crate::common::{DEVICE_BYTES, Subject, key, opening, options};

fn blank() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, 512))
}

/// A device that was used and stopped, with one record.
fn used(options: Options) -> Arc<MemoryDevice> {
    let device = blank();
    let subject = Subject::new(1, options);
    subject.add(device.clone(), &opening(1)).expect("added");
    subject.fill([key(1, 1)]);
    subject.simulation.run(subject.flash.stop());
    device
}

fn add(device: &Arc<MemoryDevice>, opening: &Opening) -> Result<(Opened, bool), AddError> {
    let subject = Subject::new(2, options());
    let opened = subject.add(device.clone(), opening)?;
    Ok((opened, subject.read(&key(1, 1), 0).is_ok()))
}

#[test]
fn too_small_devices_are_refused() {
    for size in [0, 4096, 256 << 10, 700 << 10] {
        let device = Arc::new(MemoryDevice::new(size, 512));
        let refused = add(&device, &opening(1));
        assert!(matches!(refused, Err(AddError::TooSmall { .. })), "{size}: {refused:?}");
    }
}

#[test]
fn what_others_put_there_is_not_overwritten() {
    let device = blank();
    device.change(|bytes| bytes[0x438..0x43a].copy_from_slice(&[0x53, 0xef]));
    let before = device.image();
    let refused = add(&device, &opening(1));
    let found = "an ext2, ext3 or ext4 file system";
    assert_eq!(refused, Err(AddError::Foreign { found }));
    device.change(|bytes| {
        bytes[0x438..0x43a].fill(0);
        bytes[70_000] = 1;
    });
    let refused = add(&device, &opening(1));
    assert_eq!(refused, Err(AddError::Foreign { found: "data of another program" }));
    device.change(|bytes| bytes.copy_from_slice(&before));
    let force = Opening { force: true, ..opening(1) };
    assert_eq!(add(&device, &force), Ok((Opened::Formatted, false)));
    assert_eq!(add(&device, &opening(2)), Ok((Opened::Warm, false)));
}

#[test]
fn what_others_put_at_the_end_is_not_overwritten() {
    let signatures: [(usize, &[u8], &str); 5] = [
        (512, b"EFI PART", "the backup of a partition table"),
        (4096, b"EFI PART", "the backup of a partition table"),
        (8192, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an md array"),
        (64 << 10, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an md array"),
        (128 << 10, &[1], "data of another program"),
    ];
    for (back, signature, found) in signatures {
        let device = blank();
        let at = DEVICE_BYTES - back;
        device.change(|bytes| bytes[at..at + signature.len()].copy_from_slice(signature));
        let before = device.image();
        assert_eq!(add(&device, &opening(1)), Err(AddError::Foreign { found }), "{back}");
        assert!(device.image() == before, "{found} is as it was");
        let force = Opening { force: true, ..opening(1) };
        assert_eq!(add(&device, &force), Ok((Opened::Formatted, false)));
    }
}

#[test]
fn what_was_written_before_a_crash_counts_at_least() {
    let device = blank();
    let mut written = 0;
    for life in 1..6 {
        let subject = Subject::new(life, options());
        subject.add(device.clone(), &opening(u128::from(life))).expect("added");
        let now = || subject.flash.statistics().rings[0].written_bytes;
        assert!(now() >= written, "life {life}: {} after {written}", now());
        for part in 0..30 {
            let _ = subject.admit(&key(life, part), 0);
        }
        // It stops amid its writes.
        let _ = (0..40 * life).all(|_| subject.simulation.step());
        written = now();
    }
}

#[test]
fn a_device_that_was_removed_may_come_again() {
    let device = blank();
    let subject = Subject::new(1, options());
    subject.add(device.clone(), &opening(1)).expect("added");
    subject.fill((0..1000).map(|part| key(1, part)));
    let end = DEVICE_BYTES - (128 << 10);
    assert!(device.image()[end..].iter().any(|byte| *byte != 0), "there are records at the end");
    assert_eq!(subject.simulation.run(subject.flash.remove([1; 16])), Some(Ok(())));
    let other = Opening { pool: [8; 16], ..opening(2) };
    assert_eq!(add(&device, &other), Ok((Opened::Formatted, false)));
}

#[test]
fn other_pools_and_versions_are_refused() {
    let device = used(options());
    let other = Opening { pool: [8; 16], ..opening(2) };
    assert_eq!(add(&device, &other), Err(AddError::OtherPool { pool: [1; 16] }));
    assert_eq!(add(&device, &opening(2)), Ok((Opened::Warm, true)));
    device.change(|bytes| {
        bytes[8] = 9;
        bytes[(64 << 10) + 8] = 9;
    });
    let refused = add(&device, &opening(3));
    assert!(matches!(refused, Err(AddError::Version { found: 9, known: 1 })), "{refused:?}");
    let force = Opening { force: true, ..opening(3) };
    assert_eq!(add(&device, &force), Ok((Opened::Formatted, false)));
}

#[test]
fn a_device_that_missed_a_life_starts_empty() {
    let device = used(options());
    let lives = Some(vec![5, 6]);
    let stale = Opening { lives, ..opening(2) };
    assert_eq!(add(&device, &stale), Ok((Opened::Stale, false)));
    let device = used(options());
    let current = Opening { lives: Some(vec![1, 6]), ..opening(2) };
    assert_eq!(add(&device, &current), Ok((Opened::Warm, true)));
    let empty = Opening { empty: true, ..opening(3) };
    assert_eq!(add(&device, &empty), Ok((Opened::Formatted, false)));
}

#[test]
fn a_device_that_comes_after_a_kill_starts_empty() {
    let device = used(options());
    let subject = Subject::new(2, options());
    subject.add(blank(), &opening(3)).expect("added");
    subject.kill(&key(1, 1));
    assert_eq!(subject.add(device, &opening(2)), Ok(Opened::Stale));
    assert_eq!(subject.read(&key(1, 1), 0), Err(Miss::Absent));
}

#[test]
fn one_copy_of_the_superblock_is_enough() {
    for at in [0, 64 << 10] {
        let device = used(options());
        device.change(|bytes| bytes[at + 40] ^= 1);
        assert_eq!(add(&device, &opening(2)), Ok((Opened::Warm, true)), "{at}");
    }
}

#[test]
fn another_key_finds_nothing() {
    let with = |key: u8| Options { cipher: Some(Cipher::new(&[key; 32])), ..options() };
    let device = used(with(1));
    let plain = crate::common::contents(&key(1, 1), 0);
    let image = device.image();
    let readable = image.windows(32).any(|window| window == &plain[..32]);
    assert!(!readable, "the contents are encrypted");
    let same = Subject::new(2, with(1));
    assert_eq!(same.add(device.clone(), &opening(2)), Ok(Opened::Warm));
    same.read(&key(1, 1), 0).expect("it is there");
    same.simulation.run(same.flash.stop());
    let wear = |subject: &Subject| {
        let ring = subject.flash.statistics().rings.remove(0);
        (ring.written_bytes, ring.credit_bytes)
    };
    let (written, credit) = wear(&same);
    let other = Subject::new(3, with(2));
    assert_eq!(other.add(device.clone(), &opening(3)), Ok(Opened::OtherKey));
    assert_eq!(other.read(&key(1, 1), 0), Err(Miss::Absent));
    let (written_now, credit_now) = wear(&other);
    assert!(written_now >= written && written > 0, "wear does not depend on the key");
    assert!(credit_now <= credit, "nor does the budget: {credit}, then {credit_now}");
    assert_eq!(add(&device, &opening(4)), Ok((Opened::OtherKey, false)), "nor does none");
}

#[test]
fn what_was_written_without_a_key_cannot_be_read_once_there_is_one() {
    let keyed = || Options { cipher: Some(Cipher::new(&[1; 32])), ..options() };
    let plain = |part| crate::common::contents(&key(1, part), 0);
    let seen = |device: &MemoryDevice| {
        let image = device.image();
        // Of some the first half lies there as it is; the others are compressed.
        (0..200)
            .map(plain)
            .filter(|bytes| bytes.len() > 64)
            .filter(|bytes| image.windows(32).any(|window| window == &bytes[..32]))
            .count()
    };
    let full = || {
        let device = used(options());
        let subject = Subject::new(2, options());
        subject.add(device.clone(), &opening(2)).expect("added");
        subject.fill((0..200).map(|part| key(1, part)).filter(|key| *key != self::key(1, 1)));
        subject.simulation.run(subject.flash.stop());
        assert!(seen(&device) > 50, "{} can be read", seen(&device));
        (device, subject)
    };
    let (device, _) = full();
    let subject = Subject::new(3, keyed());
    assert_eq!(subject.add(device.clone(), &opening(3)), Ok(Opened::OtherKey));
    assert_eq!(seen(&device), 0);
    // One that was taken from the pool looks blank.
    let (device, subject) = full();
    assert_eq!(subject.simulation.run(subject.flash.remove([1; 16])), Some(Ok(())));
    assert_eq!(seen(&device), 0);
    // Where nothing can be discarded, that is said.
    let (device, _) = full();
    let subject = Subject::new(4, keyed());
    let clock = Arc::new(subject.simulation.clone());
    let (faulty, faults) = FaultyDevice::new(device.clone(), clock);
    faults.fail_next_of(u64::MAX, Errno::OPNOTSUPP, |call| {
        matches!(call, DeviceOperation::Discard { .. })
    });
    assert_eq!(subject.add(Arc::new(faulty), &opening(4)), Ok(Opened::Readable));
    assert!(seen(&device) > 50);
}

#[test]
fn no_format_gives_another_free_fill() {
    const BURST_BYTES: u64 = 64 << 20;
    let device = blank();
    let with = |key: u8| Options {
        cipher: Some(Cipher::new(&[key; 32])),
        dwpd_hundredths: Some(0),
        ..options()
    };
    let fill = |options: Options, opening: &Opening, expected: Opened| {
        let subject = Subject::new(1, options);
        assert_eq!(subject.add(device.clone(), opening), Ok(expected));
        subject.fill((0..600).map(|part| key(opening.life as u64, part)));
        subject.simulation.run(subject.flash.stop());
        subject.flash.statistics().rings.remove(0)
    };
    let pool = [8; 16];
    let starts = [
        (with(1), opening(1), Opened::Formatted),
        (with(2), opening(2), Opened::OtherKey),
        (with(3), opening(3), Opened::OtherKey),
        (with(3), Opening { lives: Some(Vec::new()), ..opening(4) }, Opened::Stale),
        (with(3), Opening { empty: true, ..opening(5) }, Opened::Formatted),
        (with(3), Opening { pool, force: true, ..opening(6) }, Opened::Formatted),
    ];
    let mut written = 0;
    for (options, opening, expected) in starts {
        let ring = fill(options, &opening, expected);
        assert!(ring.written_bytes > written + (1 << 20), "it was filled as {expected:?}");
        written = ring.written_bytes;
        let charged = BURST_BYTES - ring.credit_bytes;
        assert_eq!(charged, written.saturating_sub(ring.data_bytes), "{expected:?}");
    }
    // Where the journal lies.
    device.change(|bytes| bytes[128 << 10..640 << 10].fill(7));
    let subject = Subject::new(1, with(3));
    let last = Opening { pool, ..opening(7) };
    assert_eq!(subject.add(device.clone(), &last), Ok(Opened::Damaged));
    assert_eq!(subject.admit(&key(1, 1), 0), Err(Refused::Wear), "nobody knows what is left");
}

#[test]
fn devices_share_the_load_and_one_may_leave() {
    let subject = Subject::new(1, options());
    for life in [1, 2] {
        subject.add(blank(), &opening(life)).expect("added");
    }
    let keys = || (0..200).map(|part| key(1, part));
    subject.fill(keys());
    assert_eq!(subject.present(keys()), 200);
    let flash: &Flash = &subject.flash;
    let stored: Vec<u64> = flash.statistics().rings.iter().map(|it| it.stored_bytes).collect();
    assert!(stored.iter().all(|bytes| *bytes > 100_000), "{stored:?}");
    let sum: u64 = flash.statistics().tenants.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, stored.iter().sum(), "datasets and devices have the same sum");
    assert_eq!(subject.simulation.run(flash.remove([1; 16])), Some(Ok(())));
    assert_eq!(subject.simulation.run(flash.remove([1; 16])), None, "it is gone");
    let left = subject.present(keys());
    assert!((50..150).contains(&left), "{left}");
    flash.validate();
    subject.fill((0..20).map(|part| key(2, part)));
}

#[test]
fn another_life_leaves_behind_a_device_that_took_no_tombstone() {
    let subject = Subject::new(1, options());
    let good = blank();
    let (faulty, faults) = FaultyDevice::new(blank(), Arc::new(subject.simulation.clone()));
    let bad = Arc::new(faulty);
    let before = Opening { lives: Some(Vec::new()), ..opening(1) };
    subject.add(good.clone(), &before).expect("added");
    subject.add(bad.clone(), &Opening { device: [9; 16], ..before }).expect("added");
    let keys = || (0..60).map(|part| key(1, part));
    subject.fill(keys());
    faults.fail_next_of(u64::MAX, Errno::IO, |_| true);
    let killed: Vec<_> = keys().take(30).collect();
    let not_durable = subject.simulation.run(subject.flash.kill(&killed));
    assert_eq!(not_durable.expect_err("one does not take it").devices, [[9; 16]]);
    subject.flash.renounced([9; 16]);
    // One cannot be wiped, the other goes on under another name.
    let removed = subject.simulation.run(subject.flash.remove([9; 16]));
    assert!(matches!(removed, Some(Err(_))), "{removed:?}");
    subject.simulation.run(subject.flash.begin_life(7));
    subject.simulation.crash();
    faults.clear();

    let again = Subject::new(2, options());
    let next = |life| Opening { lives: Some(vec![7]), ..opening(life) };
    assert_eq!(again.add(good, &next(2)), Ok(Opened::Warm));
    assert_eq!(again.add(bad, &next(2)), Ok(Opened::Stale));
    assert!(again.present(keys().skip(30)) > 0);
    assert!(killed.iter().all(|key| again.read(key, 0).is_err()), "they were killed");
}
