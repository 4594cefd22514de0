//! What every origin must do, asked of each of them.

use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::common::{READ, READ_WRITE, Subject, caller, errno, is_root, pattern};
use futures::executor::block_on;
use rustix::io::Errno;
use storage::{
    Allocation, Caller, Kind, MemoryOrigin, Node, NodeKind, OpenMode, Origin, OriginFile,
    RenameFlags, SeekFrom, SetAttributes, SetTime, Timestamp, XattrMode,
};

macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod directory { $(#[test] fn $test() { super::$test(&super::Subject::directory()); })* }
        mod memory { $(#[test] fn $test() { super::$test(&super::Subject::memory()); })* }
        mod layered { $(#[test] fn $test() { super::$test(&super::Subject::layered()); })* }
    };
}

conformance!(
    names_are_found_and_missing_ones_are_not,
    names_that_lead_elsewhere_are_refused,
    names_need_not_be_utf8,
    files_are_read_as_written,
    reads_scatter_and_stop_at_the_end,
    writes_gather,
    empty_files_are_empty,
    holes_read_as_zeros_and_are_found,
    offsets_reach_past_four_gibibytes,
    appends_land_one_after_the_other,
    truncation_cuts_and_extends,
    opening_checks_the_kind,
    creation_is_exclusive,
    directories_are_made_listed_and_removed,
    hard_links_share_an_object,
    symbolic_links_are_not_followed,
    special_files_are_made,
    an_unlinked_open_file_lives_on,
    an_unnamed_file_can_be_given_a_name,
    rename_moves_and_replaces,
    rename_refuses_what_does_not_fit,
    rename_flags_do_what_they_say,
    attributes_are_set,
    changing_the_owner_clears_set_id_bits,
    extended_attributes_are_kept,
    space_is_allocated_and_punched,
    ranges_are_copied_within_an_origin,
    the_umask_of_the_caller_counts,
    set_group_id_directories_pass_on_their_group,
    objects_are_owned_by_the_caller,
    everything_can_be_synced,
    space_is_told,
    remembered_objects_are_served,
    a_deep_tree_works,
    a_big_directory_is_listed_whole,
);

fn names_are_found_and_missing_ones_are_not(subject: &Subject) {
    let (object, _) = subject.create("file", b"hello");
    let entry = subject.lookup("file").expect("it was made");
    assert_eq!(entry.object, object);
    assert_eq!((entry.attributes.kind, entry.attributes.size), (Kind::File, 5));
    assert!(subject.lookup("other").expect_err("it was not made").is_not_found());
    assert_eq!(errno(subject.lookup_in(object, "x")), Errno::NOTDIR);
    assert_eq!(errno(subject.lookup("x".repeat(256))), Errno::NAMETOOLONG);
    assert_eq!(errno(subject.unlink("other")), Errno::NOENT);
}

fn names_that_lead_elsewhere_are_refused(subject: &Subject) {
    subject.make("directory");
    for name in [".", "..", "directory/..", "../origin", "nul\0byte"] {
        assert_eq!(errno(subject.lookup(name)), Errno::INVAL, "{name:?}");
        assert_eq!(errno(subject.make_in(subject.root, name)), Errno::INVAL, "{name:?}");
    }
    assert_eq!(errno(subject.lookup("")), Errno::NOENT);
}

fn names_need_not_be_utf8(subject: &Subject) {
    let name = OsStr::from_bytes(b"\xff\xfe \n'");
    let (object, _) = subject.create(name, b"x");
    assert_eq!(subject.lookup(name).expect("it was made").object, object);
    let listed = block_on(subject.origin.list(subject.root)).expect("it can be listed");
    assert_eq!(listed[0].name, name);
    assert_eq!((listed[0].object, listed[0].kind), (object, Some(Kind::File)));
    subject.unlink(name).expect("it can be removed");
}

fn files_are_read_as_written(subject: &Subject) {
    let data = pattern(300_000);
    let (object, file) = subject.create("file", &data);
    assert_eq!(file.read(0, data.len()), data);
    let again = subject.open(object, READ).expect("it can be opened");
    assert_eq!(again.read(12_345, 100_000), data[12_345..112_345]);
    assert_eq!(errno(block_on(again.0.write(0, b"x"))), Errno::BADF);
    file.write(100, b"changed");
    assert_eq!(again.read(99, 9)[1..8], *b"changed");
    let empty = OpenMode { truncate: true, ..READ_WRITE };
    assert_eq!(subject.open(object, empty).expect("it can be opened").attributes().size, 0);
}

fn reads_scatter_and_stop_at_the_end(subject: &Subject) {
    let data = pattern(10_000);
    let (_, file) = subject.create("file", &data);
    let (mut first, mut second, mut none) = (vec![0; 6000], vec![0; 6000], vec![]);
    let mut buffers =
        [IoSliceMut::new(&mut first), IoSliceMut::new(&mut none), IoSliceMut::new(&mut second)];
    assert_eq!(block_on(file.0.read(0, &mut buffers)), Ok(10_000));
    assert_eq!(first, data[..6000]);
    assert_eq!(second[..4000], data[6000..]);
    assert_eq!(file.read(10_000, 10), b"");
    assert_eq!(file.read(1 << 40, 10), b"");
    assert_eq!(file.read(9_999, 10), data[9_999..]);
    let mut many: Vec<Vec<u8>> = vec![vec![0]; 3000];
    let mut buffers: Vec<_> = many.iter_mut().map(|byte| IoSliceMut::new(byte)).collect();
    assert_eq!(block_on(file.0.read(5, &mut buffers)), Ok(3000));
    assert_eq!(many.concat(), data[5..3005]);
}

fn writes_gather(subject: &Subject) {
    let data = pattern(10_000);
    let (_, file) = subject.create("file", b"");
    let mut slices = vec![IoSlice::new(b""), IoSlice::new(&data[..5000])];
    slices.extend(data[5000..9000].chunks(1).map(IoSlice::new));
    slices.extend([IoSlice::new(b""), IoSlice::new(&data[9000..])]);
    block_on(file.0.write_vectored(7, &slices)).expect("it can be written");
    assert_eq!(file.read(7, data.len() + 1), data);
    assert_eq!(file.read(0, 7), [0; 7]);
    block_on(file.0.write_vectored(3, &[])).expect("nothing is written");
    assert_eq!(file.attributes().size, 10_007);
}

fn empty_files_are_empty(subject: &Subject) {
    let (object, file) = subject.create("file", b"");
    assert_eq!(file.read(0, 4096), b"");
    assert_eq!(subject.attributes(object).expect("it is there").size, 0);
    assert_eq!(errno(block_on(file.0.seek(SeekFrom::Data(0)))), Errno::NXIO);
    let node = subject.node(subject.root, "node");
    let entry = block_on(subject.origin.make_node(node, NodeKind::File)).expect("it can be made");
    assert_eq!((entry.attributes.kind, entry.attributes.size), (Kind::File, 0));
}

fn holes_read_as_zeros_and_are_found(subject: &Subject) {
    const MIB: u64 = 1 << 20;
    let (_, file) = subject.create("file", b"");
    file.write(4 * MIB, b"data");
    block_on(file.0.sync(false)).expect("it can be synced");
    assert_eq!(file.read(MIB, 4096), vec![0; 4096]);
    assert_eq!(block_on(file.0.seek(SeekFrom::Data(0))), Ok(4 * MIB));
    assert_eq!(block_on(file.0.seek(SeekFrom::Hole(0))), Ok(0));
    assert_eq!(block_on(file.0.seek(SeekFrom::Hole(4 * MIB))), Ok(4 * MIB + 4));
    assert_eq!(errno(block_on(file.0.seek(SeekFrom::Data(5 * MIB)))), Errno::NXIO);
    assert!(file.attributes().blocks_512 < 4 * MIB / 512, "a hole takes no space");
}

fn offsets_reach_past_four_gibibytes(subject: &Subject) {
    let far = (5 << 30) + 12_345;
    let (object, file) = subject.create("file", b"near");
    file.write(far, b"far away");
    assert_eq!(subject.attributes(object).expect("it is there").size, far + 8);
    assert_eq!(file.read(far, 100), b"far away");
    assert_eq!(file.read(far - 4096, 4096), vec![0; 4096]);
    assert_eq!(file.read(0, 4), b"near");
    assert_eq!(block_on(file.0.append(b"!")), Ok(far + 8));
}

fn appends_land_one_after_the_other(subject: &Subject) {
    const THREADS: u8 = 4;
    const TURNS: usize = 200;
    const LENGTH: usize = 100;
    let (object, first) = subject.create("file", b"");
    let second = subject.open(object, READ_WRITE).expect("it can be opened");
    let files = [first, second];
    let mut landed: Vec<(u64, u8)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let file = &files[usize::from(number % 2)];
                scope.spawn(move || {
                    let append = || block_on(file.0.append(&[number; LENGTH])).expect("appended");
                    (0..TURNS).map(|_| (append(), number)).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    landed.sort_unstable();
    assert_eq!(landed.len(), usize::from(THREADS) * TURNS);
    for (index, (offset, number)) in landed.into_iter().enumerate() {
        assert_eq!(offset, (index * LENGTH) as u64, "no gap and no overlap");
        assert_eq!(files[0].read(offset, LENGTH), [number; LENGTH]);
    }
    assert_eq!(block_on(files[0].0.append(b"")), Ok(files[0].attributes().size));
}

fn truncation_cuts_and_extends(subject: &Subject) {
    let (object, file) = subject.create("file", &pattern(10_000));
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    assert_eq!(subject.set(object, size(5000)).expect("it can be cut").size, 5000);
    let set = block_on(file.0.set_attributes(size(20_000))).expect("it can be extended");
    assert_eq!(set.size, 20_000);
    assert_eq!(file.read(4998, 10)[2..], [0; 8], "what was cut off is gone");
    let reader = subject.open(object, READ).expect("it can be opened");
    assert_eq!(block_on(reader.0.set_attributes(size(1))).expect("a reader may").size, 1);
    let directory = subject.make("directory");
    assert_eq!(errno(subject.set(directory, size(0))), Errno::ISDIR);
}

fn opening_checks_the_kind(subject: &Subject) {
    let directory = subject.make("directory");
    assert_eq!(errno(subject.open(directory, READ)), Errno::ISDIR);
    let node = subject.node(subject.root, "link");
    let link = block_on(subject.origin.symlink(node, OsStr::new("x"))).expect("it can be made");
    assert_eq!(errno(subject.open(link.object, READ)), Errno::LOOP);
    let node = subject.node(subject.root, "pipe");
    let pipe = block_on(subject.origin.make_node(node, NodeKind::Fifo)).expect("it can be made");
    assert_eq!(errno(subject.open(pipe.object, READ)), Errno::INVAL);
    let (file, _) = subject.create("file", b"");
    assert_eq!(errno(block_on(subject.origin.list(file))), Errno::NOTDIR);
    assert_eq!(errno(block_on(subject.origin.read_link(file))), Errno::INVAL);
}

fn creation_is_exclusive(subject: &Subject) {
    subject.create("file", b"kept");
    assert_eq!(errno(subject.create_in(subject.root, "file")), Errno::EXIST);
    assert_eq!(errno(subject.make_in(subject.root, "file")), Errno::EXIST);
    let node = subject.node(subject.root, "file");
    assert_eq!(errno(block_on(subject.origin.symlink(node, OsStr::new("x")))), Errno::EXIST);
    assert_eq!(errno(block_on(subject.origin.make_node(node, NodeKind::File))), Errno::EXIST);
    assert_eq!(subject.lookup("file").expect("it is there").attributes.size, 4);
}

fn directories_are_made_listed_and_removed(subject: &Subject) {
    let directory = subject.make("directory");
    assert_eq!(subject.attributes(directory).expect("it is there").links, 2);
    subject.make_in(directory, "below").expect("it can be made");
    subject.create_in(directory, "file").expect("it can be made");
    assert_eq!(subject.names(directory), ["below", "file"]);
    assert_eq!(subject.attributes(directory).expect("it is there").links, 3);
    let remove =
        |name: &str| block_on(subject.origin.remove_directory(subject.root, OsStr::new(name)));
    assert_eq!(errno(remove("directory")), Errno::NOTEMPTY);
    assert_eq!(errno(remove("missing")), Errno::NOENT);
    assert_eq!(errno(subject.unlink("directory")), Errno::ISDIR);
    subject.create("file", b"");
    assert_eq!(errno(remove("file")), Errno::NOTDIR);
    block_on(subject.origin.remove_directory(directory, OsStr::new("below"))).expect("empty");
    block_on(subject.origin.unlink(directory, OsStr::new("file"))).expect("a file");
    assert_eq!(subject.attributes(directory).expect("it is there").links, 2);
    remove("directory").expect("it is empty now");
    assert!(subject.lookup("directory").expect_err("it is gone").is_not_found());
    assert_eq!(subject.names(subject.root), ["file"]);
}

fn hard_links_share_an_object(subject: &Subject) {
    let (object, file) = subject.create("one", b"shared");
    drop(file);
    let directory = subject.make("directory");
    let link = |object, parent, name: &str| {
        block_on(subject.origin.link(object, parent, OsStr::new(name)))
    };
    let entry = link(object, directory, "two").expect("it can be linked");
    assert_eq!((entry.object, entry.attributes.links), (object, 2));
    assert_eq!(errno(link(object, directory, "two")), Errno::EXIST);
    assert_eq!(errno(link(directory, subject.root, "no")), Errno::PERM);
    subject.unlink("one").expect("it is there");
    let left = subject.attributes(object).expect("its other name leads to it");
    assert_eq!((left.links, left.size), (1, 6));
    assert_eq!(subject.open(object, READ).expect("found").read(0, 10), b"shared");
    block_on(subject.origin.unlink(directory, OsStr::new("two"))).expect("it is there");
    assert_eq!(errno(subject.attributes(object)), Errno::STALE);
    assert_eq!(errno(subject.open(object, READ)), Errno::STALE);
}

fn symbolic_links_are_not_followed(subject: &Subject) {
    let target = OsString::from("/etc/".to_owned() + &"x".repeat(3000));
    let node = subject.node(subject.root, "link");
    let entry = block_on(subject.origin.symlink(node, &target)).expect("it can be made");
    assert_eq!(entry.attributes.kind, Kind::Symlink);
    assert_eq!(block_on(subject.origin.read_link(entry.object)), Ok(target));
    assert_eq!(subject.lookup("link").expect("it is there").object, entry.object);
    assert_eq!(errno(subject.lookup_in(entry.object, "passwd")), Errno::NOTDIR);
    let time = Timestamp { seconds: 1234, nanoseconds: 5678 };
    let change = SetAttributes { modified: Some(SetTime::At(time)), ..SetAttributes::default() };
    assert_eq!(subject.set(entry.object, change).expect("its own time").modified, time);
    let permissions = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
    assert_eq!(errno(subject.set(entry.object, permissions)), Errno::OPNOTSUPP);
    let link = block_on(subject.origin.link(entry.object, subject.root, OsStr::new("again")));
    assert_eq!(link.expect("a link to the link").object, entry.object);
}

fn special_files_are_made(subject: &Subject) {
    for (name, kind, expected) in
        [("pipe", NodeKind::Fifo, Kind::Fifo), ("socket", NodeKind::Socket, Kind::Socket)]
    {
        let node = subject.node(subject.root, name);
        let entry = block_on(subject.origin.make_node(node, kind)).expect("it can be made");
        assert_eq!(entry.attributes.kind, expected);
        let listed = block_on(subject.origin.list(subject.root)).expect("it can be listed");
        assert!(listed.iter().any(|entry| entry.kind == Some(expected)));
        let change = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
        assert_eq!(subject.set(entry.object, change).expect("it has some").permissions, 0o600);
    }
    if !is_root() {
        eprintln!("skipped: device nodes can be made by root only");
        return;
    }
    let device = rustix::fs::makedev(1, 3);
    let node = subject.node(subject.root, "null");
    let made = block_on(subject.origin.make_node(node, NodeKind::CharacterDevice(device)));
    let attributes = made.expect("root may").attributes;
    assert_eq!((attributes.kind, attributes.device), (Kind::CharacterDevice, device));
}

fn an_unlinked_open_file_lives_on(subject: &Subject) {
    let (object, file) = subject.create("file", b"contents");
    subject.unlink("file").expect("it is there");
    assert_eq!(file.read(0, 100), b"contents");
    assert_eq!(file.attributes().links, 0);
    assert_eq!(subject.attributes(object).expect("it is open").size, 8);
    let change = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
    assert_eq!(subject.set(object, change).expect("it is open").permissions, 0o600);
    let again = subject.open(object, READ).expect("it is open");
    drop(file);
    assert_eq!(again.read(0, 100), b"contents");
    assert_eq!(subject.attributes(object).expect("it is open").links, 0);
    drop(again);
    assert_eq!(errno(subject.attributes(object)), Errno::STALE);
}

fn an_unnamed_file_can_be_given_a_name(subject: &Subject) {
    let created =
        block_on(subject.origin.create_unnamed(subject.root, 0o640, caller(), READ_WRITE));
    let created = created.expect("it can be made");
    assert!(subject.names(subject.root).is_empty());
    assert_eq!(created.entry.attributes.links, 0);
    block_on(created.file.write(0, b"contents")).expect("it can be written");
    let object = created.entry.object;
    let entry = block_on(subject.origin.link(object, subject.root, OsStr::new("name")));
    let entry = entry.expect("it can be linked");
    assert_eq!((entry.object, entry.attributes.size), (object, 8));
    assert_eq!((entry.attributes.links, entry.attributes.permissions), (1, 0o640));
    drop(created.file);
    assert_eq!(subject.open(object, READ).expect("found").read(0, 100), b"contents");
}

fn rename_moves_and_replaces(subject: &Subject) {
    let (one, _) = subject.create("one", b"1");
    let (two, file) = subject.create("two", b"22");
    subject.rename("one", "two", RenameFlags::empty()).expect("it can be moved");
    assert_eq!(subject.names(subject.root), ["two"]);
    assert_eq!(subject.lookup("two").expect("it is there").object, one);
    assert_eq!(subject.attributes(one).expect("it has moved").size, 1);
    assert_eq!(file.read(0, 10), b"22", "the replaced file is open");
    drop(file);
    assert_eq!(errno(subject.attributes(two)), Errno::STALE);
    let (from, to) = (subject.make("from"), subject.make("to"));
    let below = subject.make_in(from, "below").expect("it can be made").object;
    let (deep, _) = (subject.create_in(below, "deep").expect("it can be made").entry.object, ());
    let name = OsStr::new("below");
    block_on(subject.origin.rename(from, name, to, OsStr::new("moved"), RenameFlags::empty()))
        .expect("a directory moves");
    assert_eq!(subject.names(to), ["moved"]);
    assert_eq!(subject.names(below), ["deep"]);
    subject.attributes(deep).expect("it moved along");
}

fn rename_refuses_what_does_not_fit(subject: &Subject) {
    let plain = RenameFlags::empty();
    subject.create("file", b"");
    let full = subject.make("full");
    let below = subject.make_in(full, "below").expect("it can be made").object;
    subject.make("empty");
    assert_eq!(errno(subject.rename("missing", "x", plain)), Errno::NOENT);
    assert_eq!(errno(subject.rename("file", "empty", plain)), Errno::ISDIR);
    assert_eq!(errno(subject.rename("empty", "file", plain)), Errno::NOTDIR);
    assert_eq!(errno(subject.rename("empty", "full", plain)), Errno::NOTEMPTY);
    let (name, inside) = (OsStr::new("full"), OsStr::new("inside"));
    let into_itself = subject.origin.rename(subject.root, name, below, inside, plain);
    assert_eq!(errno(block_on(into_itself)), Errno::INVAL);
    let (name, below) = (OsStr::new("below"), OsStr::new("full"));
    let onto_parent = subject.origin.rename(full, name, subject.root, below, plain);
    assert_eq!(errno(block_on(onto_parent)), Errno::NOTEMPTY);
    subject.rename("empty", "new", plain).expect("it can be moved");
    assert_eq!(subject.names(subject.root), ["file", "full", "new"]);
}

fn rename_flags_do_what_they_say(subject: &Subject) {
    let (one, _) = subject.create("one", b"1");
    let directory = subject.make("two");
    let (inner, _) = {
        let created = subject.create_in(directory, "inner").expect("it can be made");
        (created.entry.object, ())
    };
    assert_eq!(errno(subject.rename("one", "two", RenameFlags::NO_REPLACE)), Errno::EXIST);
    assert_eq!(errno(subject.rename("one", "three", RenameFlags::EXCHANGE)), Errno::NOENT);
    let both = RenameFlags::EXCHANGE | RenameFlags::NO_REPLACE;
    assert_eq!(errno(subject.rename("one", "two", both)), Errno::INVAL);
    subject.rename("one", "two", RenameFlags::EXCHANGE).expect("both are there");
    assert_eq!(subject.lookup("one").expect("it is there").object, directory);
    assert_eq!(subject.lookup("two").expect("it is there").object, one);
    subject.attributes(inner).expect("it moved along");
    subject.attributes(one).expect("it is known under its new name");
    subject.rename("two", "free", RenameFlags::NO_REPLACE).expect("the name is free");
    assert_eq!(subject.attributes(one).expect("it is there").size, 1);
    if !is_root() {
        eprintln!("skipped: a whiteout can be left by root only");
        return;
    }
    subject.rename("free", "moved", RenameFlags::WHITEOUT).expect("root may");
    let whiteout = subject.lookup("free").expect("it was left").attributes;
    assert_eq!((whiteout.kind, whiteout.device), (Kind::CharacterDevice, 0));
}

fn attributes_are_set(subject: &Subject) {
    let (object, file) = subject.create("file", b"contents");
    let before = subject.attributes(object).expect("it is there");
    let accessed = Timestamp { seconds: 1_000_000_000, nanoseconds: 1 };
    let modified = Timestamp { seconds: -5, nanoseconds: 999_999_999 };
    let change = SetAttributes {
        permissions: Some(0o751),
        accessed: Some(SetTime::At(accessed)),
        modified: Some(SetTime::At(modified)),
        size: Some(3),
        ..SetAttributes::default()
    };
    let set = subject.set(object, change).expect("they can be set");
    assert_eq!((set.permissions, set.size), (0o751, 3));
    assert_eq!((set.accessed, set.modified), (accessed, modified));
    assert!(set.changed >= before.changed);
    assert_eq!(set, subject.attributes(object).expect("it is there"));
    assert_eq!(set, file.attributes());
    let touch = SetAttributes { modified: Some(SetTime::Now), ..SetAttributes::default() };
    let touched = block_on(file.0.set_attributes(touch)).expect("it can be touched");
    assert!(touched.modified > accessed, "now is later than 2001");
    assert_eq!((touched.accessed, touched.permissions), (accessed, 0o751));
    assert_ne!(touched.validator(), set.validator());
    let bad = Timestamp { seconds: 0, nanoseconds: 1_000_000_000 };
    let change = SetAttributes { modified: Some(SetTime::At(bad)), ..SetAttributes::default() };
    assert_eq!(errno(subject.set(object, change)), Errno::INVAL);
}

fn changing_the_owner_clears_set_id_bits(subject: &Subject) {
    if !is_root() {
        eprintln!("skipped: files can be given away by root only");
        return;
    }
    let (object, _) = subject.create("file", b"");
    let set_id = SetAttributes { permissions: Some(0o6755), ..SetAttributes::default() };
    assert_eq!(subject.set(object, set_id).expect("root may").permissions, 0o6755);
    let owner = SetAttributes { uid: Some(1234), ..SetAttributes::default() };
    let set = subject.set(object, owner).expect("root may");
    assert_eq!((set.uid, set.gid, set.permissions), (1234, caller().gid, 0o755));
    let both = SetAttributes { gid: Some(4321), ..set_id };
    let set = subject.set(object, both).expect("root may");
    assert_eq!((set.uid, set.gid, set.permissions), (1234, 4321, 0o6755), "asked for last");
}

fn extended_attributes_are_kept(subject: &Subject) {
    let (object, _) = subject.create("file", b"");
    let directory = subject.make("directory");
    let name = OsStr::new("user.colour");
    let set =
        |object, value: &[u8], mode| block_on(subject.origin.set_xattr(object, name, value, mode));
    let get = |object| block_on(subject.origin.xattr(object, name));
    for object in [object, directory] {
        assert_eq!(errno(get(object)), Errno::NODATA);
        assert_eq!(errno(set(object, b"x", XattrMode::Replace)), Errno::NODATA);
        set(object, b"blue\0green", XattrMode::Create).expect("it is new");
        assert_eq!(errno(set(object, b"x", XattrMode::Create)), Errno::EXIST);
        assert_eq!(get(object), Ok(b"blue\0green".to_vec()));
        let long = pattern(3000);
        set(object, &long, XattrMode::Replace).expect("it is there");
        assert_eq!(get(object), Ok(long));
        set(object, b"", XattrMode::Any).expect("it may be empty");
        assert_eq!(get(object), Ok(vec![]));
        let names = block_on(subject.origin.xattrs(object)).expect("they can be listed");
        assert!(names.iter().any(|found| found == name), "{names:?}");
        block_on(subject.origin.remove_xattr(object, name)).expect("it is there");
        assert_eq!(errno(block_on(subject.origin.remove_xattr(object, name))), Errno::NODATA);
    }
    let node = subject.node(subject.root, "link");
    let link = block_on(subject.origin.symlink(node, OsStr::new("file"))).expect("made").object;
    assert_eq!(errno(set(link, b"x", XattrMode::Any)), Errno::PERM);
    let unknown = subject.origin.set_xattr(object, OsStr::new("no.such"), b"", XattrMode::Any);
    assert_eq!(errno(block_on(unknown)), Errno::OPNOTSUPP);
    if is_root() {
        let trusted = OsStr::new("trusted.colour");
        let set = subject.origin.set_xattr(link, trusted, b"red", XattrMode::Any);
        block_on(set).expect("a symbolic link has its own");
        assert_eq!(block_on(subject.origin.xattr(link, trusted)), Ok(b"red".to_vec()));
        assert_eq!(errno(block_on(subject.origin.xattr(object, trusted))), Errno::NODATA);
    }
}

fn space_is_allocated_and_punched(subject: &Subject) {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    const ZERO_RANGE: u32 = 16;
    let (object, file) = subject.create("file", &[7; 40_960]);
    let allocate =
        |mode, offset, length| block_on(file.0.allocate(Allocation { mode, offset, length }));
    allocate(PUNCH_HOLE | KEEP_SIZE, 4096, 8192).expect("a hole can be punched");
    assert_eq!(file.read(4095, 8194), [&[7][..], &[0; 8192], &[7]].concat());
    allocate(ZERO_RANGE, 20_000, 100).expect("a range can be zeroed");
    assert_eq!(file.read(19_999, 102), [&[7][..], &[0; 100], &[7]].concat());
    allocate(KEEP_SIZE, 0, 100_000).expect("space can be reserved");
    assert_eq!(subject.attributes(object).expect("it is there").size, 40_960);
    allocate(0, 0, 100_000).expect("space can be reserved");
    assert_eq!(subject.attributes(object).expect("it is there").size, 100_000);
    assert_eq!(file.read(40_960, 10), [0; 10]);
    assert_eq!(errno(allocate(0, 0, 0)), Errno::INVAL);
}

fn ranges_are_copied_within_an_origin(subject: &Subject) {
    let data = pattern(50_000);
    let (_, from) = subject.create("from", &data);
    let (_, to) = subject.create("to", b"");
    let copied = block_on(to.0.copy_from(&*from.0, 1000, 500, 20_000));
    assert_eq!(copied, Ok(20_000));
    assert_eq!(to.read(500, 20_000), data[1000..21_000]);
    assert_eq!(block_on(to.0.copy_from(&*from.0, 60_000, 0, 10)), Ok(0));
    assert_eq!(block_on(to.0.copy_from(&*from.0, 49_000, 0, 10_000)), Ok(1000));
    let elsewhere = MemoryOrigin::new();
    let root = block_on(elsewhere.root()).expect("there is a root").object;
    let other = block_on(elsewhere.create(subject.node(root, "x"), READ_WRITE)).expect("made");
    assert_eq!(errno(block_on(to.0.copy_from(&*other.file, 0, 0, 10))), Errno::OPNOTSUPP);
}

fn the_umask_of_the_caller_counts(subject: &Subject) {
    let masked = Caller { umask: 0o027, ..caller() };
    let node = |name: &'static str, permissions| Node {
        parent: subject.root,
        name: OsStr::new(name),
        permissions,
        caller: masked,
    };
    let created = block_on(subject.origin.create(node("file", 0o666), READ_WRITE)).expect("made");
    assert_eq!(created.entry.attributes.permissions, 0o640);
    let made = block_on(subject.origin.make_directory(node("dir", 0o777))).expect("made");
    assert_eq!(made.attributes.permissions, 0o750);
    let made = block_on(subject.origin.make_node(node("pipe", 0o666), NodeKind::Fifo));
    assert_eq!(made.expect("made").attributes.permissions, 0o640);
    let unmasked = Node { caller: caller(), ..node("open", 0o666) };
    let created = block_on(subject.origin.create(unmasked, READ_WRITE)).expect("made");
    assert_eq!(created.entry.attributes.permissions, 0o666, "the mask was for its call only");
}

fn set_group_id_directories_pass_on_their_group(subject: &Subject) {
    if !is_root() {
        eprintln!("skipped: files can be given away by root only");
        return;
    }
    let directory = subject.make("directory");
    let gid = SetAttributes { gid: Some(4321), ..SetAttributes::default() };
    subject.set(directory, gid).expect("root may");
    let set_id = SetAttributes { permissions: Some(0o2777), ..SetAttributes::default() };
    subject.set(directory, set_id).expect("root may");
    let other = Caller { uid: 1234, gid: 1234, umask: 0 };
    let node = Node { caller: other, ..subject.node(directory, "file") };
    let file = block_on(subject.origin.create(node, READ_WRITE)).expect("made").entry.attributes;
    assert_eq!((file.uid, file.gid), (1234, 4321));
    let node = Node { caller: other, permissions: 0o755, ..subject.node(directory, "below") };
    let below = block_on(subject.origin.make_directory(node)).expect("made").attributes;
    assert_eq!((below.gid, below.permissions), (4321, 0o2755));
}

fn objects_are_owned_by_the_caller(subject: &Subject) {
    if !is_root() {
        eprintln!("skipped: files can be given away by root only");
        return;
    }
    let other = Caller { uid: 1234, gid: 5678, umask: 0o022 };
    let node = |name: &'static str| Node {
        parent: subject.root,
        name: OsStr::new(name),
        permissions: 0o666,
        caller: other,
    };
    let origin = &subject.origin;
    // The top directory is root's, 0o755: the door has checked permissions, the origin does not.
    let made = [
        block_on(origin.create(node("file"), READ_WRITE)).expect("made").entry,
        block_on(origin.make_directory(node("directory"))).expect("made"),
        block_on(origin.make_node(node("pipe"), NodeKind::Fifo)).expect("made"),
        block_on(origin.symlink(node("link"), OsStr::new("x"))).expect("made"),
        block_on(origin.create_unnamed(subject.root, 0o600, other, READ_WRITE))
            .expect("made")
            .entry,
    ];
    for entry in made {
        assert_eq!((entry.attributes.uid, entry.attributes.gid), (1234, 5678), "{entry:?}");
    }
    assert_eq!(errno(block_on(origin.create(node("file"), READ_WRITE))), Errno::EXIST);
    let (own, _) = subject.create("own", b"");
    assert_eq!(subject.attributes(own).expect("it is there").uid, 0, "also after an error");
}

fn everything_can_be_synced(subject: &Subject) {
    let (_, file) = subject.create("file", b"contents");
    block_on(file.0.sync(true)).expect("data");
    block_on(file.0.sync(false)).expect("data and attributes");
    block_on(subject.origin.sync_directory(subject.root)).expect("names");
    block_on(subject.origin.sync()).expect("all");
    let sync = OpenMode { sync: true, ..READ_WRITE };
    let node = subject.node(subject.root, "durable");
    let durable = block_on(subject.origin.create(node, sync)).expect("it can be made").file;
    block_on(durable.write(0, b"x")).expect("it can be written");
    assert_eq!(
        errno(block_on(
            subject.origin.sync_directory(subject.lookup("file").expect("it is there").object)
        )),
        Errno::NOTDIR
    );
}

fn space_is_told(subject: &Subject) {
    let space = block_on(subject.origin.space()).expect("it is told");
    assert!(space.block_size >= 512 && space.blocks > 0);
    assert!(space.blocks_free <= space.blocks && space.blocks_available <= space.blocks_free);
    assert_eq!(space.name_length_max, 255);
}

fn remembered_objects_are_served(subject: &Subject) {
    let directory = subject.make("directory");
    let created = subject.create_in(directory, "file").expect("it can be made");
    let entry = created.entry;
    drop(created);
    let above = subject.lookup("directory").expect("it is there");
    subject.origin.forget(entry.object, 1);
    subject.origin.forget(directory, 2);
    subject.origin.remember(subject.root, OsStr::new("directory"), &above);
    subject.origin.remember(directory, OsStr::new("file"), &entry);
    assert_eq!(subject.attributes(entry.object), Ok(entry.attributes));
    subject.open(entry.object, READ).expect("it is there");
    block_on(subject.origin.unlink(directory, OsStr::new("file"))).expect("it is there");
    assert_eq!(errno(subject.attributes(entry.object)), Errno::STALE);
}

pub fn a_deep_tree_works(subject: &Subject) {
    const DEPTH: usize = 300;
    let name = "a-name-of-twenty-byt";
    let mut directories = vec![subject.root];
    for _ in 0..DEPTH {
        let parent = directories[directories.len() - 1];
        directories.push(subject.make_in(parent, name).expect("it can be made").object);
    }
    let deepest = directories[DEPTH];
    let created = subject.create_in(deepest, "file").expect("it can be made");
    block_on(created.file.write(0, b"deep")).expect("it can be written");
    assert_eq!(subject.open(created.entry.object, READ).expect("found").read(0, 9), b"deep");
    drop(created);
    block_on(subject.origin.unlink(deepest, OsStr::new("file"))).expect("it is there");
    for parent in directories[..DEPTH].iter().rev() {
        let removed = block_on(subject.origin.remove_directory(*parent, OsStr::new(name)));
        removed.expect("it is empty");
    }
    assert!(subject.names(subject.root).is_empty());
}

fn a_big_directory_is_listed_whole(subject: &Subject) {
    const FILES: usize = 20_000;
    for number in 0..FILES {
        let name = number.to_string();
        let node = subject.node(subject.root, &name);
        let entry = block_on(subject.origin.make_node(node, NodeKind::File)).expect("made");
        subject.origin.forget(entry.object, 1);
    }
    let mut numbers: Vec<usize> =
        subject.names(subject.root).iter().map(|name| name.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..FILES));
}

#[test]
fn files_of_a_layer_are_recognised_below_it() {
    let subject = Subject::layered();
    let (_, file) = subject.create("file", b"x");
    let twice: Arc<dyn OriginFile> = file.0.clone();
    assert_eq!(block_on(file.0.copy_from(&*twice, 0, 100, 1)), Ok(1));
}
