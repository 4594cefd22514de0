//! What the RAM level goes on with after a restart.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warmfront::Restored;

use crate::common::{READ, pattern};
use crate::flash::{Machine, RECORD, Start, device};

const SECOND: Duration = Duration::from_secs(1);
const RECORDS: u64 = 1024;
/// Records that are read again and again.
const HOT: u64 = 100;

/// The states of the records of `file`.
fn states(start: &Start) -> Vec<String> {
    let runs = start.why("file").runs;
    let states = runs.iter().flat_map(|run| (0..run.count).map(|_| run.state.to_string()));
    states.collect()
}

fn numbers(states: &[String], wanted: &str) -> Vec<u64> {
    let of = |(number, state): (usize, &String)| (state == wanted).then_some(number as u64);
    states.iter().enumerate().filter_map(of).collect()
}

/// A machine with a file that does not fit into RAM, and a start that has read a part of it often
/// and the rest once.
fn worked() -> (Machine, Start) {
    let mut machine = Machine::new(5);
    let contents = pattern(RECORDS as usize * RECORD, 1);
    machine.start(&[], &[]).create("file", &contents);
    let start = machine.start(&[], &[]);
    let file = start.open("file", READ);
    for _ in 0..2 {
        start.read(&file, 0, HOT as usize * RECORD);
        start.wait(SECOND);
    }
    for step in 0..RECORDS - HOT {
        let record = HOT + step * 37 % (RECORDS - HOT);
        start.read(&file, record * RECORD as u64, RECORD);
    }
    drop(file);
    (machine, start)
}

fn bring_back(start: &Start, snapshot: &[u8], records_max: u64) -> Restored {
    let (restored, hot) = start.pool.restore(snapshot, true);
    let last = Mutex::new(restored);
    let told = |restored: Restored| {
        *last.lock() = restored;
        restored.records < records_max
    };
    start.simulation.run(start.pool.restore_records(restored, hot, &told));
    start.pool.validate_memory().expect("the books are right");
    last.into_inner()
}

#[test]
fn used_often_comes_back_as_used_often_and_ghosts_are_remembered() {
    for with_flash in [false, true] {
        let (mut machine, start) = worked();
        let devices: Vec<Arc<dyn storage::Device>> =
            if with_flash { vec![device(16 << 20)] } else { Vec::new() };
        drop(start);
        let start = machine.start(&[], &devices);
        let file = start.open("file", READ);
        for _ in 0..3 {
            start.read(&file, 0, HOT as usize * RECORD);
            start.wait(SECOND * 5);
        }
        for step in 0..RECORDS - HOT {
            let record = HOT + step * 37 % (RECORDS - HOT);
            start.read(&file, record * RECORD as u64, RECORD);
        }
        let before = states(&start);
        let snapshot = start.pool.snapshot();
        start.simulation.run(start.pool.stop_caches());
        drop((file, start));
        machine.simulation.crash();

        let start = machine.start(&[], &devices);
        let restored = bring_back(&start, &snapshot, u64::MAX);
        let after = states(&start);
        assert_eq!(numbers(&before, "mfu"), (0..HOT).collect::<Vec<_>>());
        assert_eq!(numbers(&after, "mfu"), (0..HOT).collect::<Vec<_>>());
        let [was, is] = [&before, &after].map(|states| numbers(states, "mru").len());
        assert!(is * 100 > was * 95, "{is} of {was} that were used once, {restored:?}");
        let (were, are) = (numbers(&before, "ghost"), numbers(&after, "ghost"));
        assert!(are.len() > 50 && are.len() * 10 > were.len() * 9, "{are:?} of {were:?}");
        assert_eq!(restored.ghosts, were.len() as u64);

        // One that was evicted is missed: it has been used before.
        let file = start.open("file", READ);
        for ghost in &are[are.len() - 20..] {
            start.read(&file, ghost * RECORD as u64, RECORD);
        }
        let frequent = numbers(&states(&start), "mfu").len() as u64;
        assert_eq!(frequent, HOT + 20);
        assert_eq!(start.counter("mru_ghost_hits"), 20);
        start.pool.validate_memory().expect("the books are right");
    }
}

#[test]
fn ghosts_of_other_hashes_are_left_out() {
    let (mut machine, start) = worked();
    let snapshot = start.pool.snapshot();
    drop(start);
    machine.hash_seed = 2;
    let start = machine.start(&[], &[]);
    let restored = bring_back(&start, &snapshot, u64::MAX);
    assert_eq!((restored.ghosts, start.counter("ghost_elements")), (0, 0));
    assert_eq!(numbers(&states(&start), "mfu").len() as u64, HOT, "records come back all the same");
}

#[test]
fn a_stop_while_records_come_back_loses_none() {
    let (mut machine, start) = worked();
    let before = states(&start);
    let mut snapshot = start.pool.snapshot().to_vec();
    drop(start);
    for _ in 0..3 {
        let start = machine.start(&[], &[]);
        let restored = bring_back(&start, &snapshot, 50);
        assert!((50..400).contains(&restored.records), "{restored:?}");
        snapshot = start.pool.snapshot().to_vec();
    }
    let start = machine.start(&[], &[]);
    bring_back(&start, &snapshot, u64::MAX);
    let after = states(&start);
    assert_eq!(numbers(&after, "mfu"), numbers(&before, "mfu"));
    let [was, is] = [&before, &after].map(|states| numbers(states, "mru").len());
    assert!(is * 100 > was * 95, "{is} of {was}");
}

#[test]
fn answers_of_the_origin_stand_where_they_stood() {
    let settings = ["coherence=exclusive", "policy=auto"];
    let mut machine = Machine::new(6);
    let start = machine.start(&settings, &[]);
    // Used again while there is room: what comes first goes to MFU.
    start.create("again", &pattern(4 * RECORD, 1));
    for _ in 0..3 {
        drop(start.read(&start.open("again", READ), 0, 4 * RECORD));
        start.wait(SECOND);
    }
    let names: Vec<String> = (0..50).map(|number| format!("file{number}")).collect();
    names.iter().for_each(|name| drop(start.create(name, &[1; 100])));
    names.iter().for_each(|name| drop(start.open(name, READ)));
    let before = start.counter("mfu_metadata");
    let snapshot = start.pool.snapshot();
    drop(start);
    let start = machine.start(&settings, &[]);
    let restored = bring_back(&start, &snapshot, u64::MAX);
    let after = start.counter("mfu_metadata");
    assert!(restored.answers >= 50, "{restored:?}");
    assert!(before > 50 * 32 && after * 10 > before * 9, "{after} bytes of {before}");
}
