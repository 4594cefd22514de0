//! What only a directory origin can do wrong: changes behind its back, and its own limits.

use std::ffi::OsStr;
use std::fs;
use std::io::IoSliceMut;

use crate::common::{File, READ, READ_WRITE, Subject, errno, is_root, pattern};
use futures::executor::block_on;
use rustix::io::Errno;
use storage::{
    Caller, Capabilities, DirectoryOptions, DirectoryOrigin, Node, OpenMode, Origin, OriginError,
    RenameFlags, SetAttributes,
};

fn is_unreachable<T>(result: storage::Result<T>) -> bool {
    matches!(result, Err(OriginError::Unreachable { .. }))
}

#[test]
fn a_replaced_file_is_stale() {
    let subject = Subject::directory();
    let (object, file) = subject.create("file", b"old");
    drop(file);
    fs::write(subject.path("new"), b"newer").expect("behind its back");
    fs::rename(subject.path("new"), subject.path("file")).expect("behind its back");
    assert_eq!(errno(subject.attributes(object)), Errno::STALE);
    assert_eq!(errno(subject.open(object, READ)), Errno::STALE);
    assert_eq!(errno(subject.set(object, SetAttributes::default())), Errno::STALE);
    assert_eq!(errno(block_on(subject.origin.xattrs(object))), Errno::STALE);
    let entry = subject.lookup("file").expect("there is one");
    assert_ne!(entry.object, object);
    assert_eq!(subject.open(entry.object, READ).expect("found").read(0, 9), b"newer");
}

#[test]
fn a_replaced_file_that_is_open_keeps_its_attributes() {
    let subject = Subject::directory();
    let (object, file) = subject.create("file", b"old");
    fs::write(subject.path("new"), b"newer").expect("behind its back");
    fs::rename(subject.path("new"), subject.path("file")).expect("behind its back");
    assert_eq!(subject.attributes(object).expect("it is open").links, 0);
    assert_eq!(errno(subject.open(object, READ)), Errno::STALE, "the name leads elsewhere");
    assert_eq!(file.read(0, 9), b"old");
}

#[test]
fn a_moved_or_removed_file_is_stale_until_it_is_found_again() {
    let subject = Subject::directory();
    let (object, file) = subject.create("file", b"contents");
    drop(file);
    fs::rename(subject.path("file"), subject.path("moved")).expect("behind its back");
    assert_eq!(errno(subject.attributes(object)), Errno::STALE);
    assert_eq!(subject.lookup("moved").expect("it is there").object, object);
    assert_eq!(subject.attributes(object).expect("found again").size, 8);
    fs::remove_file(subject.path("moved")).expect("behind its back");
    assert_eq!(errno(subject.attributes(object)), Errno::STALE);
    assert!(subject.lookup("moved").expect_err("it is gone").is_not_found());
}

#[test]
fn another_kind_of_object_is_stale() {
    let subject = Subject::directory();
    let directory = subject.make("directory");
    subject.create_in(directory, "file").expect("it can be made");
    let file = subject.lookup_in(directory, "file").expect("it is there").object;
    fs::remove_dir_all(subject.path("directory")).expect("behind its back");
    std::os::unix::fs::symlink("/etc", subject.path("directory")).expect("behind its back");
    assert_eq!(errno(subject.attributes(directory)), Errno::STALE);
    assert_eq!(errno(subject.attributes(file)), Errno::STALE);
    let passwd = subject.lookup_in(directory, "passwd");
    assert_eq!(errno(passwd), Errno::STALE, "a link at the origin is never followed");
}

#[test]
fn a_removed_directory_does_not_say_that_names_are_missing() {
    let subject = Subject::directory();
    let directory = subject.make("directory");
    assert!(subject.lookup_in(directory, "file").expect_err("none yet").is_not_found());
    fs::remove_dir(subject.path("directory")).expect("behind its back");
    fs::create_dir(subject.path("directory")).expect("behind its back");
    fs::write(subject.path("directory/file"), b"").expect("behind its back");
    assert_eq!(errno(subject.lookup_in(directory, "file")), Errno::STALE);
    let anew = subject.lookup("directory").expect("there is one").object;
    subject.lookup_in(anew, "file").expect("it is there");
}

#[test]
fn another_hard_link_leads_on() {
    let subject = Subject::directory();
    let (object, file) = subject.create("one", b"shared");
    drop(file);
    let two = OsStr::new("two");
    block_on(subject.origin.link(object, subject.root, two)).expect("it can be linked");
    fs::remove_file(subject.path("two")).expect("behind its back");
    assert_eq!(subject.attributes(object).expect("by its first name").links, 1);
    let file = subject.open(object, READ).expect("by its first name");
    assert_eq!(file.read(0, 10), b"shared");
}

#[test]
fn a_missing_origin_is_unreachable() {
    let subject = Subject::directory();
    let directory = subject.make("directory");
    let (object, file) = subject.create("file", b"contents");
    let base = subject.directory.as_ref().expect("a directory").path();
    let (here, away) = (base.join("origin"), base.join("away"));
    fs::rename(&here, &away).expect("it can be moved");
    fs::create_dir(&here).expect("an empty mount point, as it were");
    assert!(is_unreachable(subject.lookup("missing")));
    assert!(is_unreachable(subject.lookup_in(directory, "missing")));
    assert!(is_unreachable(subject.unlink("missing")));
    assert!(is_unreachable(block_on(subject.origin.root())));
    assert_eq!(file.read(0, 100), b"contents");
    fs::remove_dir(&here).expect("it is empty");
    fs::remove_file(away.join("file")).expect("it is there");
    drop(file);
    assert!(is_unreachable(subject.attributes(object)));
    assert!(is_unreachable(subject.open(object, READ)));
    fs::rename(&away, &here).expect("it can be moved back");
    assert!(subject.lookup("missing").expect_err("reachable again").is_not_found());
    assert_eq!(errno(subject.attributes(object)), Errno::STALE);
    fs::remove_dir_all(&here).expect("it can be removed");
    assert!(is_unreachable(subject.lookup("file")));
    assert!(is_unreachable(block_on(subject.origin.list(directory))));
}

#[test]
fn what_is_no_directory_is_refused() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let open = |name: &str| {
        let opened = DirectoryOrigin::open(temporary.path().join(name), Default::default());
        errno(opened)
    };
    assert_eq!(open("missing"), Errno::NOENT);
    fs::write(temporary.path().join("file"), b"").expect("it can be written");
    assert_eq!(open("file"), Errno::NOTDIR);
    if is_root() {
        eprintln!("skipped: root can read every directory");
        return;
    }
    let closed = temporary.path().join("closed");
    rustix::fs::mkdir(&closed, rustix::fs::Mode::empty()).expect("it can be made");
    let opened = open("closed");
    // Else it could not be removed.
    rustix::fs::chmod(&closed, rustix::fs::Mode::RWXU).expect("its owner may");
    assert_eq!(opened, Errno::ACCESS);
}

#[test]
fn few_descriptors_suffice() {
    let options = DirectoryOptions { directories_max: Some(2), ..Default::default() };
    let subject = Subject::with_options(options);
    let mut files = Vec::new();
    for number in 0..20 {
        let one = subject.make(&format!("one-{number}"));
        let two = subject.make_in(one, "two").expect("it can be made").object;
        let three = subject.make_in(two, "three").expect("it can be made").object;
        files.push(subject.create_in(three, "file").expect("it can be made").entry.object);
    }
    for file in files.iter().chain(files.iter().rev()) {
        subject.attributes(*file).expect("it is there");
        subject.open(*file, READ_WRITE).expect("it is there");
    }
}

#[test]
fn a_deep_tree_works_with_few_descriptors() {
    let options = DirectoryOptions { directories_max: Some(2), ..Default::default() };
    crate::conformance::a_deep_tree_works(&Subject::with_options(options));
}

#[test]
fn threads_act_for_different_callers_at_once() {
    if !is_root() {
        eprintln!("skipped: files can be given away by root only");
        return;
    }
    let subject = Subject::directory();
    std::thread::scope(|scope| {
        for number in 1..5 {
            let subject = &subject;
            scope.spawn(move || {
                let umask = if number % 2 == 0 { 0o077 } else { 0 };
                let caller = Caller { uid: 1000 + number, gid: 2000 + number, umask };
                for turn in 0..200 {
                    let name = format!("{number}-{turn}");
                    let node = Node { caller, ..subject.node(subject.root, &name) };
                    let made = block_on(subject.origin.create(node, READ_WRITE)).expect("made");
                    let made = made.entry.attributes;
                    assert_eq!((made.uid, made.gid), (caller.uid, caller.gid));
                    assert_eq!(made.permissions, 0o644 & !umask);
                    assert!(is_root(), "the thread is itself again");
                }
            });
        }
    });
}

#[test]
fn a_forgotten_object_is_unknown() {
    let subject = Subject::directory();
    let directory = subject.make("directory");
    let file = subject.create_in(directory, "file").expect("it can be made").entry.object;
    subject.origin.forget(directory, 1);
    subject.attributes(file).expect("its directory is kept for it");
    subject.origin.forget(file, 1);
    assert_eq!(errno(subject.attributes(file)), Errno::STALE);
    assert_eq!(errno(subject.attributes(directory)), Errno::STALE);
    subject.origin.forget(file, 100);
    subject.origin.forget(subject.root, 100);
    subject.lookup("directory").expect("the root is always known");
}

/// File systems give an inode number that has become free to the next file, as ext4 does.
#[test]
fn the_id_of_a_removed_object_is_not_given_to_another_one_while_it_is_in_use() {
    let subject = Subject::directory();
    let make = |name: &str| subject.create(name, b"contents").0;
    let (unlinked, replaced) = (make("unlinked"), make("replaced"));
    let directory = subject.make("directory");
    let moved = make("moved");
    let (origin, root) = (&subject.origin, subject.root);
    let name = OsStr::new;
    block_on(origin.unlink(root, name("unlinked"))).expect("it can be removed");
    block_on(origin.remove_directory(root, name("directory"))).expect("it can be removed");
    let flags = RenameFlags::empty();
    let renamed = origin.rename(root, name("moved"), root, name("replaced"), flags);
    block_on(renamed).expect("it can be replaced");
    let in_use = [unlinked, replaced, directory, moved];
    for number in 0..16 {
        let object = make(&format!("file{number}"));
        assert!(!in_use.contains(&object), "{object:?} is in use");
        let object = subject.make(&format!("directory{number}"));
        assert!(!in_use.contains(&object), "{object:?} is in use");
    }
    let is_held = |name: &str| {
        let held = fs::read_dir("/proc/self/fd").expect("it can be read");
        let mut paths = held.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let removed = format!("{} (deleted)", subject.path(name).display());
        paths.any(|path| path.as_os_str() == removed.as_str())
    };
    let removed = [("unlinked", unlinked), ("replaced", replaced), ("directory", directory)];
    for (name, object) in removed {
        assert!(is_held(name), "{name} is in use");
        origin.forget(object, 1);
        assert!(!is_held(name), "nobody refers to {name}");
    }
}

#[test]
fn ids_are_inode_numbers() {
    use std::os::unix::fs::MetadataExt;
    let subject = Subject::directory();
    let (object, _) = subject.create("file", b"");
    assert_eq!(object.0, fs::metadata(subject.path("file")).expect("it is there").ino());
    let again = DirectoryOrigin::open(subject.path(""), Default::default()).expect("opened again");
    let root = block_on(again.root()).expect("there is a root").object;
    let entry = block_on(again.lookup(root, OsStr::new("file"))).expect("it is there");
    assert_eq!((root, entry.object), (subject.root, object));
}

#[test]
fn objects_on_other_file_systems_are_told_apart() {
    if !is_root() {
        eprintln!("skipped: only root can mount");
        return;
    }
    let subject = Subject::directory();
    let mut mounts = Vec::new();
    for name in ["one", "two"] {
        fs::create_dir(subject.path(name)).expect("it can be made");
        let mount = match Mount::tmpfs(subject.path(name)) {
            Ok(mount) => mount,
            Err(error) => {
                eprintln!("skipped: no file system can be mounted here: {error}");
                return;
            }
        };
        mounts.push(mount);
    }
    let make = |name: &str| {
        let mount = subject.lookup(name).expect("it is there").object;
        let created = subject.create_in(mount, "file").expect("it can be made");
        block_on(created.file.write(0, name.as_bytes())).expect("it can be written");
        (mount, created.entry.object)
    };
    let (one, in_one) = make("one");
    let (two, in_two) = make("two");
    assert!(one.0 >= 1 << 63 && one != two && in_one != in_two, "{one:?} {two:?}");
    assert_eq!(subject.open(in_one, READ).expect("found").read(0, 9), b"one");
    assert_eq!(subject.open(in_two, READ).expect("found").read(0, 9), b"two");
    let listed = block_on(subject.origin.list(one)).expect("it can be listed");
    assert_eq!(listed[0].object, in_one);
    let file = OsStr::new("file");
    let moved = subject.origin.rename(one, file, two, OsStr::new("x"), RenameFlags::empty());
    assert_eq!(errno(block_on(moved)), Errno::XDEV);
    let linked = subject.origin.link(in_one, subject.root, file);
    assert_eq!(errno(block_on(linked)), Errno::XDEV);
    drop(mounts);
    assert_eq!(errno(subject.attributes(one)), Errno::STALE);
    assert_eq!(errno(subject.attributes(in_one)), Errno::STALE);
}

/// A mount that is taken away when dropped.
struct Mount(std::path::PathBuf);

impl Mount {
    fn tmpfs(path: std::path::PathBuf) -> rustix::io::Result<Mount> {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", &path, "tmpfs", flags, Some(c"size=1m"))?;
        Ok(Mount(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let detached = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        if let Err(error) = detached {
            eprintln!("{} is still mounted: {error}", self.0.display());
        }
    }
}

/// A buffer whose address is a multiple of 4096.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(length: usize) -> Aligned {
        let space = vec![0xee; length + 4096];
        let start = space.as_ptr().align_offset(4096);
        Aligned(space, start)
    }

    fn read(&mut self, file: &File, offset: u64, length: usize) -> usize {
        let buffer = &mut self.0[self.1..self.1 + length];
        let (first, second) = buffer.split_at_mut(length / 8192 * 4096);
        let buffers = &mut [IoSliceMut::new(first), IoSliceMut::new(second)];
        block_on(file.0.read(offset, buffers)).expect("it can be read")
    }

    fn bytes(&self, length: usize) -> &[u8] {
        &self.0[self.1..self.1 + length]
    }
}

#[test]
fn direct_reads_equal_buffered_ones() {
    let subject = Subject::directory();
    if !subject.origin.capabilities().contains(Capabilities::DIRECT) {
        eprintln!("skipped: the file system of the temporary directory has no direct reads");
        return;
    }
    const LENGTHS: [usize; 7] = [0, 1, 511, 4096, 65_536, 65_537, 1_000_003];
    for length in LENGTHS {
        let data = pattern(length);
        let (object, _) = subject.create(length.to_string(), &data);
        let direct = OpenMode { direct: true, ..READ };
        let file = subject.open(object, direct).expect("it can be opened");
        let mut buffer = Aligned::new(1 << 20);
        for (offset, wanted) in
            [(0, 1 << 20), (0, 8192), (4096, 65_536), (61_440, 16_384), (1 << 20, 4096)]
        {
            let read = buffer.read(&file, offset as u64, wanted);
            let expected = data.get(offset..).unwrap_or(&[]);
            let expected = &expected[..expected.len().min(wanted)];
            assert_eq!(buffer.bytes(read), expected, "{length} bytes, at {offset}");
        }
        let unaligned = data.get(3..).unwrap_or(&[]);
        assert_eq!(file.read(3, 5000), unaligned[..unaligned.len().min(5000)]);
    }
}

#[test]
fn a_direct_read_sees_what_was_just_written() {
    let subject = Subject::directory();
    let node = subject.node(subject.root, "file");
    let mode = OpenMode { direct: true, ..READ_WRITE };
    let file = File(block_on(subject.origin.create(node, mode)).expect("it can be made").file);
    let mut buffer = Aligned::new(8192);
    for turn in 0..20_u8 {
        file.write(u64::from(turn) * 100, &[turn; 5000]);
        let length = buffer.read(&file, 0, 8192);
        assert_eq!(length, usize::from(turn) * 100 + 5000);
        assert_eq!(buffer.bytes(length)[length - 5000..], [turn; 5000]);
    }
}
