//! Bytes that are not as they were written: what is replayed is always a beginning of what was
//! logged, and a loss is told where it can be known.

use std::sync::{Arc, Mutex};

use storage::{Device, MemoryDevice, Random, Simulation};
use xxhash_rust::xxh3::xxh3_64;
use zil::{End, OpenError, Options, Position, Record, RecordError, ReplayError};

use crate::common::{self, DEVICE_BYTES, commit, expected, open, rest};

const RING: usize = 128 << 10;
/// Records, each in a block of its own.
const RECORDS: u64 = 20;

/// The image of a log that was used by one caller.
fn image(simulation: &Simulation) -> Vec<u8> {
    let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096));
    simulation.run(async {
        let options = Options { lanes: 1, ..common::options() };
        let log = common::format(simulation, memory.clone(), options).await;
        for number in 0..RECORDS {
            commit(&log, [number]).await;
        }
    });
    memory.image()
}

/// The image of a log that was released up to each of these records in turn.
fn released(simulation: &Simulation, records: &[u64]) -> Vec<u8> {
    let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096));
    simulation.run(async {
        let log = common::format(simulation, memory.clone(), common::options()).await;
        commit(&log, 0..9).await;
        for record in records {
            log.release(Position(*record)).await.expect("the device works");
        }
    });
    memory.image()
}

fn device(image: Vec<u8>) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::with_image(image, 4096))
}

/// Where blocks begin in an image, and how long they are, in order.
fn blocks(image: &[u8]) -> Vec<(usize, usize)> {
    let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().expect("four")) as usize;
    let pages = (RING..image.len()).step_by(4096);
    let found = pages.filter(|at| image[*at..].starts_with(b"WARMFBLK"));
    found.map(|at| (at, (word(at + 68) + 96).next_multiple_of(4096))).collect()
}

/// What is found on an image: how many records there are, and how it ends.
fn found(simulation: &Simulation, image: Vec<u8>) -> (u64, End) {
    simulation.run(async {
        let mut recovery = open(simulation, device(image), 1).await.expect("a log");
        let records = rest(&mut recovery).await.expect("the good ones are whole");
        let last = recovery.found().last.0;
        assert!(records == expected(1, 0..last), "a beginning of what was logged");
        (last, recovery.found().end.clone())
    })
}

#[test]
fn bits_that_flip_end_the_log_where_they_are() {
    let simulation = Simulation::new(2);
    let image = image(&simulation);
    let blocks = blocks(&image);
    assert_eq!(blocks.len() as u64, RECORDS);
    let mut random = Random::new(8);
    let mut told = 0;
    for round in 0..1000 {
        let index = random.below(RECORDS) as usize;
        let (at, bytes) = blocks[index];
        // Headers as often as all the rest.
        let byte = at + random.below(if round % 2 == 0 { 96 } else { bytes as u64 }) as usize;
        let mut image = image.clone();
        image[byte] ^= 1 << random.below(8);
        let (last, end) = found(&simulation, image);
        // What follows the records in the last page of a block means nothing.
        if last == RECORDS {
            assert_eq!(end, End::Whole);
            continue;
        }
        assert_eq!(last, index as u64, "the blocks before it");
        // The next one says that this one had lasted. Of the last one nobody says so.
        let expected = match index + 1 < RECORDS as usize {
            true => End::Damaged { lasted: Position(RECORDS - 1) },
            false => End::Whole,
        };
        assert_eq!(end, expected, "byte {byte}");
        told += 1;
    }
    assert!(told > 500, "{told}");
}

#[test]
fn blocks_at_the_wrong_place_are_not_taken() {
    let simulation = Simulation::new(2);
    let image = image(&simulation);
    let blocks = blocks(&image);
    for (from, (at, bytes)) in blocks.iter().enumerate() {
        for (to, (place, _)) in blocks.iter().enumerate().filter(|(to, _)| *to != from) {
            // It is written there, and so is not written where it belongs.
            let mut image = image.clone();
            let block = image[*at..*at + *bytes].to_vec();
            image[*at..*at + *bytes].fill(0);
            image[*place..*place + *bytes].copy_from_slice(&block);
            let (last, _) = found(&simulation, image);
            assert_eq!(last as usize, from.min(to));
        }
    }
}

#[test]
fn a_hole_in_the_middle_is_told() {
    let simulation = Simulation::new(2);
    let mut image = image(&simulation);
    let blocks = blocks(&image);
    image[blocks[4].0..blocks[9].0].fill(0xee);
    simulation.run(async {
        let memory = device(image);
        let mut recovery = open(&simulation, memory.clone(), 1).await.expect("a log");
        let found = recovery.found().clone();
        assert_eq!((found.records(), found.last), (4, Position(4)));
        assert_eq!(found.end, End::Damaged { lasted: Position(RECORDS - 1) });
        assert_eq!((found.beyond_blocks, found.beyond_records), (11, 11));
        assert_eq!(rest(&mut recovery).await.expect("whole").len(), 4);
        recovery.applied(Position(4)).await.expect("the device works");
        let refused = recovery.finish().await.expect_err("it is damaged");
        assert_eq!(refused, ReplayError::Damaged { last: Position(4) });
        assert!(refused.to_string().contains("discard"), "{refused}");
        let recovery = open(&simulation, memory.clone(), 2).await.expect("a log");
        assert_eq!((recovery.found().records(), recovery.found().first), (0, Position(5)));
        let log = recovery.discard().await.expect("the device works");
        let position = commit(&log, [3]).await;
        assert_eq!(position, Position(RECORDS), "no position that was promised comes again");
    });
}

/// What a file is after it was cut and made long again, or a device of which a part was discarded.
#[test]
fn zeros_where_the_next_block_belongs_are_told() {
    let simulation = Simulation::new(2);
    let good = image(&simulation);
    let blocks = blocks(&good);
    let (last, bytes) = blocks[blocks.len() - 1];
    assert_eq!(found(&simulation, good.clone()), (RECORDS, End::Whole));
    for cut in (RING..=good.len() - 4096).step_by(512) {
        let mut image = good.clone();
        image[cut..].fill(0);
        let (records, end) = found(&simulation, image);
        let untouched = blocks.iter().filter(|(at, bytes)| at + bytes <= cut).count() as u64;
        // Of the last page of a block only the beginning may be used.
        assert!((untouched..=untouched + 1).contains(&records), "{records} at {cut}");
        match records {
            RECORDS | 19 => assert_eq!(end, End::Erased, "at {cut}"),
            _ => assert_ne!(end, End::Whole, "at {cut}"),
        }
    }
    for (index, (from, _)) in blocks.iter().enumerate() {
        let to = last + bytes;
        let mut image = good.clone();
        image[*from..to].fill(0);
        let (records, end) = found(&simulation, image);
        assert_eq!(records, index as u64);
        assert_ne!(end, End::Whole, "from block {index} on");
    }
    // Of the last block alone, any page.
    let page = last + bytes - 4096;
    let mut image = good.clone();
    image[page..page + 4096].fill(0);
    assert_eq!(found(&simulation, image), (RECORDS - 1, End::Erased));
    // Nothing of that is left once the log was given up.
    let mut image = good.clone();
    image[last..].fill(0);
    simulation.run(async {
        let memory = device(image);
        let mut recovery = open(&simulation, memory.clone(), 1).await.expect("a log");
        assert_eq!(recovery.found().end, End::Erased);
        assert_eq!(rest(&mut recovery).await.expect("whole").len(), 19);
        recovery.applied(Position(19)).await.expect("the device works");
        assert_eq!(
            recovery.finish().await.err(),
            Some(ReplayError::Damaged { last: Position(19) })
        );
        let recovery = open(&simulation, memory.clone(), 2).await.expect("a log");
        assert_eq!(recovery.found().end, End::Erased, "it is told again");
        let log = recovery.discard().await.expect("the device works");
        assert_eq!(log.has_end().await, Ok(true));
        let position = commit(&log, [3]).await;
        let recovery = open(&simulation, memory, 3).await.expect("a log");
        assert_eq!((recovery.found().last, &recovery.found().end), (position, &End::Whole));
    });
}

/// What a file is after it was cut: its whole records are there, and nobody goes on with it.
#[test]
fn what_is_before_a_cut_can_be_had() {
    let simulation = Simulation::new(2);
    let good = image(&simulation);
    let blocks = blocks(&good);
    for length in (RING..good.len()).step_by(512) {
        let image = good[..length].to_vec();
        let whole = length / 4096 * 4096;
        let untouched = blocks.iter().filter(|(at, bytes)| at + bytes <= whole).count() as u64;
        let cut = End::Cut { size_bytes: length as u64, needed_bytes: good.len() as u64 };
        assert_eq!(found(&simulation, image), (untouched, cut), "at {length}");
    }
    let length = blocks[7].0;
    let (size_bytes, needed_bytes) = (length as u64, good.len() as u64);
    let cut = || Some(ReplayError::Cut { size_bytes, needed_bytes });
    simulation.run(async {
        let memory = device(good[..length].to_vec());
        let mut recovery = open(&simulation, memory.clone(), 1).await.expect("a log");
        assert_eq!(rest(&mut recovery).await.expect("whole").len(), 7);
        recovery.applied(Position(7)).await.expect("the device works");
        let refused = recovery.finish().await.err();
        assert_eq!(refused, Some(ReplayError::Damaged { last: Position(7) }));
        let recovery = open(&simulation, memory.clone(), 2).await.expect("a log");
        assert_eq!((recovery.found().records(), recovery.found().first), (0, Position(8)));
        assert_eq!(recovery.discard().await.err(), cut());
        let recovery = open(&simulation, memory, 3).await.expect("a log");
        let other = recovery.discard_as([7; 16], [1; 16], &|_, _| ()).await;
        assert_eq!(other.err(), cut(), "there is no room for what it would be");
    });
}

/// A log of gigabytes on a slow device takes its time to be filled again.
#[test]
fn who_gives_up_a_log_is_told_how_far_it_is_filled() {
    let simulation = Simulation::new(2);
    let end = 4 << 20;
    let memory = Arc::new(MemoryDevice::new(end, 4096));
    simulation.run(async {
        commit(&common::format(&simulation, memory.clone(), common::options()).await, 0..3).await;
    });
    let mut image = memory.image();
    image[end - 4096..].fill(0);
    let told = Mutex::new(Vec::new());
    let tell = |done: u64, all: u64| told.lock().expect("not poisoned").push((done, all));
    simulation.run(async {
        let recovery = open(&simulation, device(image), 1).await.expect("a log");
        drop(recovery.discard_telling(&tell).await.expect("the device works"));
    });
    let told = told.into_inner().expect("not poisoned");
    assert!(told.is_sorted() && told.len() > 1, "{told:?}");
    let ring = (end - RING - 4096) as u64;
    assert!(told.iter().all(|(done, all)| *done <= ring && *all == ring), "{told:?}");
}

#[test]
fn any_one_slot_of_the_superblock_may_be_bad() {
    let simulation = Simulation::new(2);
    let image = released(&simulation, &[3, 5]);
    let mut random = Random::new(1);
    for round in 0..400 {
        let mut image = image.clone();
        let slot = (round % 4) * (32 << 10);
        image[slot + random.below(152) as usize] ^= 1 << random.below(8);
        simulation.run(async {
            let mut recovery = open(&simulation, device(image), 1).await.expect("it has another");
            assert!(rest(&mut recovery).await.expect("whole") == expected(6, 5..9));
        });
    }
}

/// What a later version has written is not written over, though a slot is left to this one.
#[test]
fn both_copies_tell_a_later_version() {
    let simulation = Simulation::new(2);
    let released = released(&simulation, &[3]);
    for parity in [0, 32 << 10] {
        let mut image = released.clone();
        image[parity + 8] = 3;
        assert!(simulation.run(open(&simulation, device(image.clone()), 1)).is_ok(), "damage");
        for other in [8, 100] {
            let mut image = image.clone();
            image[(64 << 10) + parity + other] = 3;
            let refused = simulation.run(open(&simulation, device(image), 1)).err();
            assert_eq!(refused, Some(OpenError::Version { found: 3, known: 2 }));
        }
    }
}

#[test]
fn both_copies_of_the_newest_superblock_give_the_one_before() {
    let simulation = Simulation::new(2);
    // Epochs 2 and 3.
    let mut image = released(&simulation, &[3, 5]);
    for slot in [32 << 10, 96 << 10] {
        image[slot + 50] ^= 1;
    }
    simulation.run(async {
        let mut recovery = open(&simulation, device(image), 1).await.expect("a log");
        assert!(rest(&mut recovery).await.expect("whole") == expected(4, 3..9));
    });
}

#[test]
fn a_record_of_a_later_version_stops_the_replay() {
    let simulation = Simulation::new(2);
    let memory = Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096));
    simulation.run(async {
        let log = common::format(&simulation, memory.clone(), common::options()).await;
        let first = log.append(&Record::Committed { txg: 1 }).await.expect("there is room");
        log.append(&Record::Committed { txg: 2 }).await.expect("there is room");
        let last = log.append(&Record::Committed { txg: 3 }).await.expect("there is room");
        log.commit(last).await.expect("the device works");
        memory.change(|image| {
            // The second record of 16 bytes, its kind, which is veiled; then the checksums.
            let block = &mut image[RING..RING + 4096];
            block[96 + 16 + 4] ^= 15 ^ 200;
            let sum = xxh3_64(&block[96..96 + 48]);
            block[80..88].copy_from_slice(&sum.to_le_bytes());
            let sum = xxh3_64(&block[..88]);
            block[88..96].copy_from_slice(&sum.to_le_bytes());
        });
        let mut recovery = open(&simulation, memory.clone(), 1).await.expect("a log");
        assert_eq!(recovery.found().records(), 3);
        assert_eq!(recovery.next().await, Ok(Some((first, Record::Committed { txg: 1 }))));
        let error = RecordError::Unknown { kind: 200 };
        let stopped = Err(ReplayError::Record { position: Position(2), error });
        assert_eq!(recovery.next().await, stopped);
        assert_eq!(recovery.next().await, stopped, "it does not go on");
        recovery.applied(Position(3)).await.expect("the device works");
        let refused = recovery.finish().await.err();
        assert_eq!(refused, Some(ReplayError::Unapplied { from: Position(2) }));
    });
}

#[test]
fn random_bytes_are_no_log() {
    let simulation = Simulation::new(2);
    let good = image(&simulation);
    let mut random = Random::new(3);
    for _ in 0..200 {
        let mut image = good.clone();
        for _ in 0..1 + random.below(40) {
            let at = random.below((image.len() - 4096) as u64) as usize;
            let length = random.below(4096) as usize;
            image[at..at + length].iter_mut().for_each(|byte| *byte = random.draw() as u8);
        }
        simulation.run(async {
            if let Ok(mut recovery) = open(&simulation, device(image), 1).await {
                let records = rest(&mut recovery).await.expect("the good ones are whole");
                let last = recovery.found().last.0;
                assert!(records == expected(1, 0..last));
            }
        });
    }
}
