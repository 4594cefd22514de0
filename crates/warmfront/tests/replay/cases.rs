//! Single cases: what is refused, left alone and reported.

use std::ffi::OsStr;
use std::sync::Arc;

use futures::executor::block_on;
use storage::{
    Caller, Entry, Kind, MemoryDevice, MemoryOrigin, Node, ObjectId, OpenMode, Origin, RenameFlags,
    Simulation, Timestamp,
};
use warmfront::{
    ReplayError, ReplayOptions, ReplayProgress, Replayed, SkipReason, replay as replay_log,
};
use zil::{End, Identity, Log, Made, Name, Place, Position, Record};

use crate::crashes::clock;
use crate::log_device::{opening, options};
use crate::world::{World, look};

const WRITE: OpenMode =
    OpenMode { read: true, write: true, truncate: false, direct: false, sync: false };

/// A log with these records, on a device of its own.
fn log_of(simulation: &Simulation, records: &[Record<'_>]) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(1 << 20, 512));
    simulation.run(async {
        let log = Log::format(device.clone(), opening(0), options(), clock(simulation)).await;
        let log = log.expect("a blank device");
        for record in records {
            let position = log.append(record).await.expect("there is room");
            log.commit(position).await.expect("memory works");
        }
    });
    device
}

fn replay(
    simulation: &Simulation,
    origin: &dyn Origin,
    device: Arc<MemoryDevice>,
    options_of_replay: ReplayOptions,
) -> Result<Replayed, ReplayError> {
    simulation.run(async {
        let opened = Log::open(device, opening(1), options(), clock(simulation)).await;
        let mut recovery = opened.expect("a log");
        replay_log(origin, &mut recovery, options_of_replay, &|_| ()).await
    })
}

fn root() -> Place<'static> {
    // As every origin in memory has it.
    let origin = MemoryOrigin::new();
    let entry = block_on(origin.root()).expect("memory answers");
    Place { object: entry.object, born: entry.attributes.born, path: OsStr::new("") }
}

fn at(name: &str) -> Name<'_> {
    Name { parent: root(), name: OsStr::new(name) }
}

fn create(origin: &MemoryOrigin, name: &str, key: u32) -> Entry {
    let caller = Caller { uid: key, gid: 7, umask: 0 };
    let node = Node { parent: root().object, name: OsStr::new(name), permissions: 0o640, caller };
    block_on(origin.create(node, WRITE)).expect("nothing is there").entry
}

fn identity(entry: &Entry) -> Identity {
    Identity { object: entry.object, born: entry.attributes.born }
}

fn place<'a>(entry: &Entry, path: &'a str) -> Place<'a> {
    Place { object: entry.object, born: entry.attributes.born, path: OsStr::new(path) }
}

fn made(name: &str, object: u64) -> Made<'_> {
    let born = Some(Timestamp { seconds: 1_500_000_000, nanoseconds: object as u32 });
    let object = ObjectId(object);
    Made { name: at(name), object, born, permissions: 0o600, uid: 77, gid: 7 }
}

fn names(world: &World) -> Vec<(u32, String)> {
    let all = world.iter().flat_map(|(key, node)| {
        node.names.iter().map(|(_, name)| (*key, name.clone())).collect::<Vec<_>>()
    });
    all.collect()
}

#[test]
fn what_somebody_else_has_made_is_left_alone() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    create(&origin, "taken", 5);
    let gone = MemoryOrigin::new();
    let old = create(&gone, "gone", 6);
    let elsewhere = Identity { object: ObjectId(900), born: old.attributes.born };
    let made = made("taken", 800);
    let file = Place { object: made.object, born: made.born, path: OsStr::new("taken") };
    let other = Place {
        object: elsewhere.object,
        born: elsewhere.born,
        path: OsStr::new("directory/gone"),
    };
    let device = log_of(
        &simulation,
        &[
            Record::Create(made),
            Record::Write { file, offset: 0, data: b"made later" },
            Record::Write { file: other, offset: 3, data: b"12345" },
            // A name that belongs to an object of which the log does not speak.
            Record::Unlink { object: elsewhere, name: at("taken"), is_last: true },
        ],
    );
    let report = replay(&simulation, &origin, device.clone(), ReplayOptions::default());
    let report = report.expect("nothing fails");
    let (world, _) = look(&origin);
    assert_eq!(names(&world), [(5, "taken".to_string())]);
    assert!(world[&5].contents.is_empty());
    assert_eq!((report.records, report.data_bytes, report.made), (4, 15, 0));
    assert_eq!(report.end, End::Whole);
    // The name is free for nothing, so what was deleted in the log is no loss.
    assert_eq!(report.skipped, []);
    let again = replay(&simulation, &origin, device, ReplayOptions::default());
    assert_eq!(again.expect("nothing fails").records, 0, "it is not replayed twice");
}

/// A further name is given to what lies in a directory that had been moved into a new one, though
/// a crash has taken the new one and undone the move.
#[test]
fn a_path_leads_through_what_a_crash_has_taken() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    let caller = Caller { uid: 4, gid: 7, umask: 0 };
    let node = |parent, name: &'static str| Node {
        parent,
        name: OsStr::new(name),
        permissions: 0o750,
        caller,
    };
    let moved = block_on(origin.make_directory(node(root().object, "old"))).expect("it is new");
    let inner = Node { permissions: 0o640, ..node(moved.object, "file") };
    let file = block_on(origin.create(inner, WRITE)).expect("it is new").entry;
    let new = made("new", 900);
    let new_place = Place { object: new.object, born: new.born, path: OsStr::new("new") };
    let records = [
        Record::MakeDirectory(new),
        Record::Rename {
            object: identity(&moved),
            from: at("old"),
            to: Name { parent: new_place, name: OsStr::new("moved") },
            replaced: None,
            is_last: false,
            flags: RenameFlags::empty(),
        },
        Record::Link { object: place(&file, "new/moved/file"), name: at("link") },
    ];
    let device = log_of(&simulation, &records);
    let report = replay(&simulation, &origin, device, ReplayOptions::default());
    assert_eq!(report.expect("nothing fails").skipped, []);
    let link = block_on(origin.lookup(root().object, OsStr::new("link"))).expect("it is given");
    assert_eq!((link.object, link.attributes.links), (file.object, 2));
    let found = block_on(origin.lookup(moved.object, OsStr::new("file"))).expect("it stays");
    assert_eq!(found.object, file.object);
    block_on(origin.lookup(root().object, OsStr::new("old"))).expect_err("it was moved");
}

#[test]
fn what_is_missing_is_told_with_path_and_reason() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    create(&origin, "taken", 5);
    let made = made("taken", 800);
    let file = Place { object: made.object, born: made.born, path: OsStr::new("taken") };
    let gone = Place { object: ObjectId(900), born: made.born, path: OsStr::new("directory/gone") };
    let records = [
        Record::Create(made),
        Record::Write { file, offset: 0, data: b"made later" },
        Record::Write { file: gone, offset: 3, data: b"12345" },
        Record::Truncate { file: gone, size: 3 },
    ];
    let device = log_of(&simulation, &records);
    let report = replay(&simulation, &origin, device, ReplayOptions::default());
    let report = report.expect("nothing fails");
    assert_eq!((report.records, report.left_out, report.left_out_bytes), (4, 3, 15));
    let skipped = report.skipped;
    let told: Vec<_> = skipped
        .iter()
        .map(|skipped| (&*skipped.path, skipped.reason, skipped.records, skipped.data_bytes))
        .collect();
    let expected = [
        (OsStr::new("taken"), SkipReason::Occupied, 1, 10),
        (OsStr::new("directory/gone"), SkipReason::Missing, 2, 5),
    ];
    assert_eq!(told, expected);
}

/// What is saved by a rename over the last version is in the log, the rename itself is not: the
/// daemon was killed before anybody asked for it to last. Nothing is missed of the last version.
#[test]
fn a_version_that_was_replaced_after_the_last_record_is_not_missed() {
    for names_lasted in [true, false] {
        let simulation = Simulation::new(1);
        let origin = MemoryOrigin::new();
        let new = create(&origin, "ref", 5);
        let old = made("ref", 800);
        let old_place = Place { object: old.object, born: old.born, path: OsStr::new("ref") };
        // Made before the log begins.
        let oldest = Place { object: ObjectId(900), ..old_place };
        let records = [
            Record::Write { file: oldest, offset: 0, data: b"first" },
            Record::Create(old),
            Record::Write { file: old_place, offset: 0, data: b"second" },
            Record::Create(Made {
                name: at("ref.lock"),
                object: new.object,
                born: new.attributes.born,
                permissions: 0o644,
                uid: 0,
                gid: 0,
            }),
            Record::Write { file: place(&new, "ref.lock"), offset: 0, data: b"third" },
        ];
        let device = log_of(&simulation, &records);
        let report = replay(&simulation, &origin, device, ReplayOptions { names_lasted });
        let report = report.expect("nothing fails");
        assert_eq!(report.skipped, [], "names lasted: {names_lasted}");
        let (world, _) = look(&origin);
        assert_eq!(names(&world)[0], (5, "ref".into()));
        assert_eq!(world[&5].contents.as_slice(), b"third");
    }
}

#[test]
fn without_births_nothing_is_removed_or_replaced() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    let (one, two) = (create(&origin, "one", 5), create(&origin, "two", 6));
    let unborn = |entry: &Entry| Identity { born: None, ..identity(entry) };
    let records = [
        Record::Write {
            file: Place { born: None, ..place(&one, "one") },
            offset: 0,
            data: b"written",
        },
        Record::Unlink { object: unborn(&two), name: at("two"), is_last: true },
        Record::Rename {
            object: unborn(&one),
            from: at("one"),
            to: at("three"),
            replaced: None,
            is_last: false,
            flags: storage::RenameFlags::empty(),
        },
    ];
    let device = log_of(&simulation, &records);
    let report = replay(&simulation, &origin, device, ReplayOptions::default());
    let report = report.expect("nothing fails");
    let (world, _) = look(&origin);
    let expected = [(5, "one".into()), (5, "three".into()), (6, "two".into())];
    assert_eq!(names(&world), expected, "a name more, none less");
    assert_eq!(world[&5].contents.as_slice(), b"written");
    assert!(report.skipped.iter().all(|skipped| skipped.reason == SkipReason::Unsure));
    assert_eq!(report.skipped_count, 2);
}

#[test]
fn a_file_is_saved_over_another_one_as_a_whole() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    let old = create(&origin, "file", 5);
    let made = made("new", 800);
    let file = Place { object: made.object, born: made.born, path: OsStr::new("new") };
    let records = [
        Record::Create(made),
        Record::Write { file, offset: 0, data: b"new contents" },
        Record::Rename {
            object: made.identity(),
            from: at("new"),
            to: at("file"),
            replaced: Some(identity(&old)),
            is_last: true,
            flags: storage::RenameFlags::empty(),
        },
    ];
    let device = log_of(&simulation, &records);
    let told = parking_lot::Mutex::new(Vec::new());
    let report = simulation.run(async {
        let opened = Log::open(device, opening(1), options(), clock(&simulation)).await;
        let tell = |progress| told.lock().push(progress);
        replay_log(&origin, &mut opened.expect("a log"), ReplayOptions::default(), &tell).await
    });
    let report = report.expect("nothing fails");
    let (world, _) = look(&origin);
    assert_eq!(names(&world), [(77, "file".to_string())]);
    assert_eq!(world[&77].contents.as_slice(), b"new contents");
    assert_eq!((world[&77].permissions, world[&77].kind), (0o600, Kind::File));
    assert_eq!((report.made, report.skipped_count), (1, 0));
    let told = told.into_inner();
    assert!(told.contains(&ReplayProgress::Applying { done: 3, records: 3 }), "{told:?}");
    assert_eq!(told.last(), Some(&ReplayProgress::Settling));
}

#[test]
fn after_a_kill_what_is_missing_was_removed() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    let kept = create(&origin, "kept", 5);
    let made = made("removed", 800);
    let records = [
        Record::Create(made),
        Record::Write { file: place(&kept, "kept"), offset: 0, data: b"data" },
    ];
    let device = log_of(&simulation, &records);
    let report = replay(&simulation, &origin, device, ReplayOptions { names_lasted: true });
    report.expect("nothing fails");
    let (world, _) = look(&origin);
    assert_eq!(names(&world), [(5, "kept".to_string())]);
    assert_eq!(world[&5].contents.as_slice(), b"data");
}

#[test]
fn the_log_of_another_origin_is_refused() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    create(&origin, "one", 5);
    let other = Name { parent: Place { object: ObjectId(42), ..root() }, name: OsStr::new("one") };
    let object = Identity { object: ObjectId(2), born: None };
    let record = Record::Unlink { object, name: other, is_last: true };
    let device = log_of(&simulation, &[record]);
    let refused = replay(&simulation, &origin, device.clone(), ReplayOptions::default());
    let found = root().object.0;
    assert_eq!(refused, Err(ReplayError::OtherOrigin { logged: 42, found }));
    assert_eq!(look(&origin).0.len(), 1);
    let refused = replay(&simulation, &origin, device, ReplayOptions::default());
    assert!(refused.is_err(), "the log keeps what it holds");
}

#[test]
fn a_damaged_log_is_replayed_up_to_its_last_good_record() {
    let simulation = Simulation::new(1);
    let origin = MemoryOrigin::new();
    let file = create(&origin, "file", 5);
    let data: Vec<[u8; 1]> = (1..=20).map(|byte| [byte]).collect();
    let record = |(offset, data): (u64, &'static [u8])| Record::Write {
        file: place(&file, "file"),
        offset,
        data,
    };
    let data: &'static [[u8; 1]] = data.leak();
    let records: Vec<_> = (0..).zip(data.iter().map(|byte| &byte[..])).map(record).collect();
    let device = log_of(&simulation, &records);
    // Each record has a block and a page of its own.
    let mut image = device.image();
    image[(128 << 10) + 9 * 4096 + 100] ^= 1;
    let device = Arc::new(MemoryDevice::with_image(image, 512));
    let report = replay(&simulation, &origin, device.clone(), ReplayOptions::default());
    let report = report.expect("nothing fails");
    let (world, _) = look(&origin);
    assert_eq!(world[&5].contents.as_slice(), (1..=9).collect::<Vec<u8>>());
    assert_eq!((report.records, report.last), (9, Position(9)));
    assert_eq!(report.end, End::Damaged { lasted: Position(19) });
    assert_eq!(report.beyond_records, 10);
}
