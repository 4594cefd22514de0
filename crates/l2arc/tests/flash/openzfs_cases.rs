//! Cases of OpenZFS's test suite for its L2ARC that the other tests here do not have already: of
//! `l2arc_arcstats`, `l2arc_l2miss` and `l2arc_mfuonly` see the engine's tests, of `persist_l2arc`
//! those of keeping, of `l2arc_multidev` those of devices.

use std::sync::Arc;
use std::time::Duration;

use l2arc::{Opened, Options, Refused};
use storage::{Clock, MemoryDevice};

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
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
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
