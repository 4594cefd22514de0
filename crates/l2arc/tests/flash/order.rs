//! What must last before what: the rules that random crashes meet too seldom.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use l2arc::{Miss, Opened};
use storage::{Clock, DeviceFaults, DeviceOperation, FaultyDevice, MemoryDevice};

use crate::common::{DEVICE_BYTES, Subject, key, opening, options};

fn subject() -> (Subject, Arc<DeviceFaults>, Arc<MemoryDevice>) {
    let subject = Subject::new(1, options());
    let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let clock: Arc<dyn Clock> = Arc::new(subject.simulation.clone());
    let (device, faults) = FaultyDevice::new(memory.clone(), clock);
    subject.add(Arc::new(device), &opening(1)).expect("added");
    (subject, faults, memory)
}

/// A copy that was moved is killed while its old segment is still being emptied. Neither the new
/// copy nor the old one may come back.
#[test]
fn a_moved_record_leaves_nothing_behind() {
    let (subject, faults, memory) = subject();
    let hot: Vec<_> = (0..6).map(|part| key(1, part)).collect();
    subject.fill(hot.iter().copied());
    hot.iter().for_each(|key| subject.read(key, 0).expect("it is there"));
    // The directory and two records are read, then nothing more.
    let (armed, reads) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let stuck = armed.clone();
    faults.hang(move |call| {
        let read = matches!(call, DeviceOperation::Read { .. });
        read && stuck.load(Ordering::Relaxed) && reads.fetch_add(1, Ordering::Relaxed) >= 3
    });
    armed.store(true, Ordering::Relaxed);
    for part in 0..2000 {
        let _ = subject.admit(&key(2, part), 0);
        for _ in 0..50 {
            subject.simulation.step();
        }
        if subject.flash.statistics().second_lives > 0 {
            break;
        }
    }
    assert_eq!(subject.flash.statistics().second_lives, 2, "two were moved, the others hang");
    hot.iter().for_each(|key| subject.kill(key));
    let left = Arc::new(MemoryDevice::with_image(memory.image(), 512));
    let again = Subject::new(2, options());
    assert_eq!(again.add(left, &opening(2)), Ok(Opened::Warm));
    for key in &hot {
        assert_eq!(again.read(key, 0), Err(Miss::Absent), "{key:?}");
    }
    assert!(again.flash.statistics().records > 50, "the others are there");
    faults.clear();
    subject.simulation.settle();
    subject.flash.validate();
}

/// Nothing is written to a segment before its opening lasts: another start would give its
/// incarnation once more, and take for its own what lies there.
#[test]
fn a_segment_is_written_after_its_opening_lasts() {
    let (subject, faults, memory) = subject();
    let data_bytes = subject.flash.statistics().rings[0].data_bytes as usize;
    // Records lie at the end; what may be left over behind them is shorter than a segment.
    let data = DEVICE_BYTES - data_bytes - (64 << 10);
    faults.hang(move |call| match call {
        DeviceOperation::Write { offset, .. } => (*offset as usize) < data,
        _ => false,
    });
    for part in 0..40 {
        let _ = subject.admit(&key(1, part), 0);
        for _ in 0..50 {
            subject.simulation.step();
        }
    }
    let untouched = |image: Vec<u8>| image[data..].iter().all(|byte| *byte == 0);
    assert!(untouched(memory.image()));
    faults.clear();
    subject.simulation.run(subject.flash.settle());
    assert!(!untouched(memory.image()));
}
