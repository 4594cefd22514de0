//! Files, names and accidents at the edges: the daemon killed, the origin gone, the disk full,
//! very large, very long, very many, and empty.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use warmfront_tests::{
    Compare, Mount, Requirement, SmallDisk, copy_tree, difference, fill, is_mounted, random_bytes,
    require, source_tree, test_directory, wait_until,
};

const MIB: u64 = 1 << 20;
const EVERYTHING: Compare = Compare { times: true, xattrs: true };

/// After `kill -9` the mount point is dead; the next mount says so, recovers it, and nothing that
/// was written is lost.
#[test]
fn the_daemon_is_killed() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let expected = fill(&mount.join("file"), 1, 300_000);
    File::open(mount.join("file")).unwrap().sync_all().unwrap();
    mount.kill();
    assert!(is_mounted(mount.path()), "the dead mount stays");
    // The kernel may still know the attributes of the top, but not what is in it.
    let error = fs::read_dir(mount.path()).map(drop).expect_err("nobody answers");
    assert_eq!(error.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
    mount.restart(&["--arc-max", "128M"]);
    assert!(mount.log().to_lowercase().contains("recover"), "{}", mount.log());
    assert!(fs::read(mount.join("file")).unwrap() == expected);
    mount.unmount();
    assert!(fs::read(mount.origin().join("file")).unwrap() == expected);
}

#[test]
fn the_daemon_is_killed_while_a_program_writes() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let file = File::create(mount.join("file")).unwrap();
    let piece = random_bytes(1, 4096);
    let (sender, receiver) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let mut synced = 0_u64;
        for index in 0..1_000_000_u64 {
            let written = file.write_all_at(&piece, index * 4096).and_then(|()| file.sync_data());
            if written.is_err() {
                break;
            }
            synced = index + 1;
            let _ = sender.send(());
        }
        synced
    });
    for _ in 0..100 {
        receiver.recv().expect("the writer writes");
    }
    mount.kill();
    let synced = writer.join().expect("the writer ends with an error");
    mount.restart(&["--arc-max", "128M"]);
    let kept = fs::read(mount.join("file")).unwrap();
    assert!(kept.len() as u64 >= synced * 4096, "what was synced is there");
    let piece = random_bytes(1, 4096);
    assert!(kept.chunks_exact(4096).take(synced as usize).all(|chunk| chunk == piece));
    mount.unmount();
}

/// A program that runs cannot be written to, nor truncated by an `open` that asks for nothing else.
#[test]
fn a_program_that_runs_stays_whole() {
    require!(Requirement::Fuse);
    let mount = Mount::new();
    let program = mount.join("program");
    fs::copy("/bin/sleep", &program).expect("a program");
    let expected = fs::read(&program).expect("it can be read");
    let mut running = std::process::Command::new(&program).arg("60").spawn().expect("it starts");
    for flags in [OFlags::WRONLY, OFlags::RDWR, OFlags::RDONLY | OFlags::TRUNC] {
        let opened = rustix::fs::open(&program, flags, Mode::empty());
        assert_eq!(opened.map(drop), Err(Errno::TXTBSY), "{flags:?}");
    }
    let whole = fs::read(&program).expect("it can be read") == expected;
    running.kill().expect("it ends");
    running.wait().expect("it has ended");
    assert!(whole);
    File::create(&program).expect("it can be truncated now");
    assert_eq!(fs::metadata(&program).expect("it is there").len(), 0);
}

/// Fills `slow` with two directories of one file each, of which the tests will read one.
fn warm_and_cold(slow: &Path) -> Vec<u8> {
    fs::create_dir_all(slow).unwrap();
    let [warm, _] = ["warm", "cold"].map(|directory| {
        fs::create_dir(slow.join(directory)).unwrap();
        fill(&slow.join(directory).join("file"), 1, 300_000)
    });
    warm
}

fn list(path: &Path) -> std::io::Result<usize> {
    let names: Result<Vec<_>, _> = fs::read_dir(path)?.collect();
    names.map(|names| names.len())
}

/// Checks that a mount whose origin does not answer serves what is cached, and that the rest is
/// an I/O error: never an empty file, a name that does not exist, or an empty listing.
fn check_without_origin(mount: &Mount, expected: &[u8]) {
    let refused = |result: std::io::Result<()>, what: &str| {
        let error = result.expect_err(what);
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{what}: {error}");
    };
    assert!(fs::read(mount.join("warm/file")).unwrap() == expected, "cached data is served");
    assert_eq!(list(&mount.join("warm")).unwrap(), 1, "a cached listing is served");
    assert_eq!(fs::metadata(mount.join("warm/file")).unwrap().len(), 300_000);
    refused(fs::read(mount.join("cold/file")).map(drop), "what was never read");
    refused(fs::metadata(mount.join("cold/other")).map(drop), "a name never asked for");
    refused(list(&mount.join("cold")).map(drop), "a directory never listed");
    refused(fs::write(mount.join("warm/new"), "new"), "a new file");
    refused(fs::remove_file(mount.join("warm/file")), "a removal");
    assert!(fs::read(mount.join("warm/file")).unwrap() == expected, "it is still there");
}

/// A mount where nobody else writes, with `warm` read and listed, and `cold` known by name.
fn mount_and_warm_up(origin: &Path, expected: &[u8]) -> Mount {
    let mount = Mount::builder()
        .origin(origin)
        .property("coherence", "exclusive")
        .property("pagecache", "off")
        .start();
    assert!(fs::read(mount.join("warm/file")).unwrap() == expected);
    assert_eq!(list(&mount.join("warm")).unwrap(), 1);
    assert!(fs::metadata(mount.join("cold")).unwrap().is_dir());
    mount
}

#[test]
fn the_origin_is_removed() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let slow = base.path().join("slow");
    let expected = warm_and_cold(&slow);
    let mut mount = mount_and_warm_up(&slow, &expected);
    fs::remove_dir_all(&slow).unwrap();
    check_without_origin(&mount, &expected);
    mount.unmount();
}

/// The origin is a file system that dies: another mount, whose daemon is killed.
#[test]
fn the_origin_dies() {
    require!(Requirement::Fuse);
    let mut lower = Mount::new();
    let expected = warm_and_cold(lower.origin());
    let mut mount = mount_and_warm_up(lower.path(), &expected);
    lower.kill();
    check_without_origin(&mount, &expected);
    mount.unmount();
}

/// Under `coherence=open` each opening asks the origin, and must not take its death for an answer.
#[test]
fn the_origin_dies_while_each_open_asks() {
    require!(Requirement::Fuse);
    let mut lower = Mount::new();
    let expected = warm_and_cold(lower.origin());
    let mut mount = Mount::builder().origin(lower.path()).property("pagecache", "off").start();
    let held = File::open(mount.join("warm/file")).unwrap();
    let mut bytes = vec![0; expected.len()];
    held.read_exact_at(&mut bytes, 0).unwrap();
    lower.kill();
    for name in ["warm/file", "warm/other", "cold/file", "warm/file"] {
        let error = fs::read(mount.join(name)).expect_err("the origin does not answer");
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{name}: {error}");
    }
    held.read_exact_at(&mut bytes, 0).expect("cached data of an open file is served");
    assert!(bytes == expected);
    drop(held);
    mount.unmount();
}

/// An empty directory in the origin's place, as an unmounted disk leaves it, deletes nothing.
#[test]
fn the_origin_is_replaced_by_an_empty_directory() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let (slow, hidden) = (base.path().join("slow"), base.path().join("hidden"));
    let expected = warm_and_cold(&slow);
    for coherence in ["open", "exclusive"] {
        let mut mount = Mount::builder()
            .origin(&slow)
            .property("coherence", coherence)
            .property("pagecache", "off")
            .start();
        assert!(fs::read(mount.join("warm/file")).unwrap() == expected);
        fs::rename(&slow, &hidden).unwrap();
        fs::create_dir(&slow).unwrap();
        // What is asked for is told right, or not at all.
        for name in ["warm/file", "cold/file", "cold/other"] {
            match fs::read(mount.join(name)) {
                Ok(bytes) => assert!(bytes == expected, "{coherence}: {name}"),
                Err(error) => {
                    let errno = Errno::from_io_error(&error);
                    assert_eq!(errno, Some(Errno::IO), "{coherence}: {name}: {error}");
                }
            }
        }
        for name in ["", "warm", "cold"] {
            let counted = list(&mount.join(name));
            assert!(!matches!(counted, Ok(0)), "{coherence}: {name:?} is listed as empty");
        }
        fs::remove_dir(&slow).unwrap();
        fs::rename(&hidden, &slow).unwrap();
        let found = difference(mount.path(), &slow, EVERYTHING);
        assert!(found.is_empty(), "{coherence}: the origin is back: {found:#?}");
        mount.unmount();
    }
}

#[test]
fn the_disk_is_full() {
    require!(Requirement::Fuse, Requirement::Root);
    let disk = SmallDisk::new("4m");
    // With write=back it is the close or the sync that fails.
    let mut mount = Mount::builder().origin(disk.path()).property("write", "through").start();
    let kept = fill(&mount.join("kept"), 1, 1 << 20);
    let file = File::create(mount.join("large")).unwrap();
    let piece = random_bytes(2, 64 << 10);
    let mut written = 0;
    let error = loop {
        match file.write_at(&piece, written) {
            Ok(count) => written += count as u64,
            Err(error) => break error,
        }
        assert!(written < 8 << 20, "more was written than there is room for");
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    let reserve = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 16 << 20);
    assert_eq!(reserve, Err(Errno::NOSPC));
    drop(file);
    assert!(fs::read(mount.join("kept")).unwrap() == kept);
    let found = difference(mount.path(), mount.origin(), EVERYTHING);
    assert!(found.is_empty(), "{found:#?}");
    fs::remove_file(mount.join("large")).expect("room can be made");
    // The kernel tells of the last close, which frees the room, after close(2) has returned.
    let there_is_room = || fs::write(mount.join("again"), &piece).is_ok();
    assert!(wait_until(Duration::from_secs(5), there_is_room), "there is no room again");
    mount.unmount();
}

#[test]
fn names_that_are_not_text() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let names: [&[u8]; 6] =
        [b"\xff\xfe\x80", b"new\nline", b"\x01\x7f", b" ", b"-rf", &[b'n'; 255]];
    for (seed, name) in names.iter().enumerate() {
        fill(&mount.join(OsStr::from_bytes(name)), seed as u64, 100);
    }
    let too_long = mount.join(OsStr::from_bytes(&[b'n'; 256]));
    let error = File::create(too_long).expect_err("256 bytes are too many");
    assert_eq!(error.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
    let mut listed: Vec<Vec<u8>> = fs::read_dir(mount.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    listed.sort();
    let mut expected = names.map(<[u8]>::to_vec).to_vec();
    expected.sort();
    assert_eq!(listed, expected);
    let found = difference(mount.path(), mount.origin(), EVERYTHING);
    assert!(found.is_empty(), "{found:#?}");
    for name in names {
        fs::remove_file(mount.join(OsStr::from_bytes(name))).unwrap();
    }
    mount.unmount();
}

/// A path of 4095 bytes, the longest that the kernel takes, below the mount point; the origin's
/// own path may be longer, and whole trees may lie deeper.
#[test]
fn long_paths() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let mut path = mount.path().to_path_buf();
    let mut left = 4095 - path.as_os_str().len();
    while left > 1 {
        let length = (left - 1).min(if left - 1 > 200 { 198 } else { left - 1 });
        path.push("x".repeat(length));
        left -= length + 1;
    }
    assert_eq!(path.as_os_str().len(), 4095);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let expected = fill(&path, 1, 5000);
    assert!(fs::read(&path).unwrap() == expected);
    assert_eq!(fs::metadata(&path).unwrap().len(), 5000);
    let longer = PathBuf::from(format!("{}x", path.display()));
    let error = File::create(longer).expect_err("4096 bytes are too many");
    assert_eq!(error.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));

    // Deeper still, step by step from the directory above.
    let mut directory = rustix::fs::open(
        path.parent().unwrap(),
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .unwrap();
    for _ in 0..10 {
        let name = "y".repeat(250);
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = rustix::fs::openat(
            &directory,
            &name,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .unwrap();
    }
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&directory, "deep", flags, Mode::RUSR).unwrap());
    file.write_all_at(&expected, 0).unwrap();
    let stat = rustix::fs::statat(&directory, "deep", AtFlags::empty()).unwrap();
    assert_eq!(stat.st_size, 5000);
    drop((file, directory));
    fs::remove_dir_all(mount.join("x".repeat(198))).expect("it can be removed again");
    mount.unmount();
}

#[test]
fn a_directory_with_100_000_entries() {
    require!(Requirement::Fuse);
    const ENTRIES: usize = 100_000;
    let base = test_directory();
    let many = base.path().join("slow/many");
    fs::create_dir_all(&many).unwrap();
    let one = many.join("entry-000000");
    File::create(&one).unwrap();
    for index in 1..ENTRIES {
        // Links are quicker to make than files, as far as the disk lets one file have them.
        let name = many.join(format!("entry-{index:06}"));
        if index % 1000 == 0 || fs::hard_link(&one, &name).is_err() {
            File::create(name).unwrap();
        }
    }
    let mut mount = Mount::builder().base(base).start();
    for pass in ["cold", "warm"] {
        let mut names: Vec<_> =
            fs::read_dir(mount.join("many")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names.len(), ENTRIES, "{pass}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ENTRIES, "{pass}: some names came twice");
    }
    assert_eq!(fs::metadata(mount.join("many/entry-099999")).unwrap().len(), 0);
    File::create(mount.join("many/new")).unwrap();
    fs::remove_file(mount.join("many/entry-050000")).unwrap();
    let names: std::collections::BTreeSet<_> =
        fs::read_dir(mount.join("many")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), ENTRIES);
    assert!(names.contains(OsStr::new("new")) && !names.contains(OsStr::new("entry-050000")));
    mount.unmount();
}

#[test]
fn past_four_gigabytes_and_holes() {
    require!(Requirement::Fuse);
    const FAR: u64 = (5 << 30) + 12_345;
    for pagecache in ["on", "off"] {
        let mut mount = Mount::builder().property("pagecache", pagecache).start();
        let path = mount.join("sparse");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        let data = random_bytes(1, 300_000);
        file.write_all_at(&data, FAR).unwrap();
        file.write_all_at(&data[..100], (4 << 30) - 50).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.len(), FAR + 300_000);
        assert!(metadata.blocks() * 512 < 4 << 20, "holes take no room");
        drop(file);
        let file = File::open(&path).unwrap();
        let read = |offset: u64, length: usize| {
            let mut bytes = vec![1; length];
            file.read_exact_at(&mut bytes, offset).unwrap();
            bytes
        };
        assert!(read(FAR, 300_000) == data);
        assert!(read((4 << 30) - 50, 100) == data[..100]);
        assert!(read(1 << 30, 1 << 20).iter().all(|&byte| byte == 0), "a hole reads as zeros");
        let mut around = read(FAR - 5000, 10_000);
        assert!(around.split_off(5000) == data[..5000] && around.iter().all(|&byte| byte == 0));
        let first = rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap();
        assert_eq!(first, (4 << 30) - 4096, "data begins in the page of the first byte");
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(FAR)).unwrap();
        assert_eq!(hole, FAR + 300_000);
        assert_eq!(file.read_at(&mut [0; 10], FAR + 300_000).unwrap(), 0, "the end is the end");
        drop(file);
        let origin = fs::metadata(mount.origin().join("sparse")).unwrap();
        assert!(origin.blocks() * 512 < 4 << 20);
        mount.unmount();
    }
}

#[test]
fn empty_files() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    for name in ["one", "two"] {
        File::create(mount.join(name)).unwrap();
        assert_eq!(fs::read(mount.join(name)).unwrap(), b"");
        assert_eq!(File::open(mount.join(name)).unwrap().read_at(&mut [0; 8], 4096).unwrap(), 0);
    }
    fs::write(mount.join("one"), "").unwrap();
    fs::write(mount.join("two"), "x").unwrap();
    File::options().write(true).open(mount.join("two")).unwrap().set_len(0).unwrap();
    assert_eq!(fs::read(mount.join("two")).unwrap(), b"");
    mount.unmount();
    assert_eq!(fs::metadata(mount.origin().join("two")).unwrap().len(), 0);
}

/// A file that is removed or replaced while open stays whole for those who hold it.
#[test]
fn removed_while_open() {
    require!(Requirement::Fuse);
    for coherence in ["open", "exclusive"] {
        let mut mount = Mount::builder().property("coherence", coherence).start();
        let expected = fill(&mount.join("file"), 1, 300_000);
        let held = File::options().read(true).write(true).open(mount.join("file")).unwrap();
        fs::remove_file(mount.join("file")).unwrap();
        assert_eq!(held.metadata().unwrap().nlink(), 0);
        let mut bytes = vec![0; 300_000];
        held.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == expected);
        held.write_all_at(b"still here", 200_000).unwrap();
        held.read_exact_at(&mut bytes[..10], 200_000).unwrap();
        assert_eq!(&bytes[..10], b"still here");
        held.set_len(100).unwrap();
        assert_eq!(held.metadata().unwrap().len(), 100);
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0, "no trace of it in the listing");
        assert_eq!(fs::read_dir(mount.origin()).unwrap().count(), 0, "nor at the origin");
        drop(held);
        mount.unmount();
    }
}

/// A ceiling far below what is read: everything is served right, and the ceiling holds.
#[test]
fn a_small_ceiling() {
    require!(Requirement::Fuse);
    let base = test_directory();
    fs::create_dir(base.path().join("slow")).unwrap();
    copy_tree(&source_tree().join("crates"), &base.path().join("slow/tree"));
    for seed in 0..8 {
        fill(&base.path().join(format!("slow/file-{seed}")), seed, 5 << 20);
    }
    let mut mount =
        Mount::builder().base(base).property("pagecache", "off").argument("--arc-max=16M").start();
    for _ in 0..2 {
        let found = difference(mount.path(), mount.origin(), EVERYTHING);
        assert!(found.is_empty(), "{found:#?}");
        let size = mount.counter("size");
        assert!(size <= 16 << 20, "{size} bytes are cached under a ceiling of 16 MiB");
        // Beside what is cached the process holds its program, stacks, and replies under way.
        let resident = mount.counter("resident_bytes");
        assert!(resident <= 48 << 20, "the daemon holds {resident} bytes");
    }
    mount.unmount();
}

/// What is known of an object's extended attributes ends with any change that changes them too,
/// and never passes to the next object with the same number.
#[test]
fn xattrs_follow_their_object() {
    require!(Requirement::Fuse, Requirement::Root);
    for coherence in ["exclusive", "open"] {
        let mut mount = Mount::builder().property("coherence", coherence).start();
        let path = mount.join("file");
        let get = |name: &str| {
            let mut value = [0; 256];
            rustix::fs::getxattr(&path, name, &mut value).map(|length| value[..length].to_vec())
        };
        let set = |name: &str, value: &[u8]| {
            rustix::fs::setxattr(&path, name, value, XattrFlags::empty()).unwrap();
            assert_eq!(get(name).as_deref(), Ok(value), "{coherence}");
        };
        for _ in 0..20 {
            // The disk gives the number of the removed file to the new one.
            File::create(&path).unwrap();
            assert_eq!(get("user.one"), Err(Errno::NODATA), "{coherence}: from a removed file");
            set("user.one", b"1");
            fs::remove_file(&path).unwrap();
        }

        fill(&path, 1, 1000);
        const ACL: &str = "system.posix_acl_access";
        let acl = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\x01\0\0\0\
                    \x04\0\x04\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\
                    \x20\0\0\0\xff\xff\xff\xff";
        set(ACL, acl);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let there = {
            let mut value = [0; 256];
            let length =
                rustix::fs::getxattr(mount.origin().join("file"), ACL, &mut value).unwrap();
            value[..length].to_vec()
        };
        assert_ne!(there, acl, "chmod changes the mask of an ACL");
        assert_eq!(get(ACL), Ok(there), "{coherence}: an ACL from before chmod");

        // Capabilities are gone when a file is written, cut, or given to somebody else.
        const CAPABILITY: &str = "security.capability";
        let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let changes: [(&str, &dyn Fn()); 3] = [
            ("write", &|| {
                File::options().write(true).open(&path).unwrap().write_all_at(b"x", 10).unwrap();
            }),
            ("truncate", &|| {
                File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
            }),
            ("chown", &|| std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap()),
        ];
        for (change, carry_out) in changes {
            set(CAPABILITY, &capability);
            carry_out();
            assert_eq!(get(CAPABILITY), Err(Errno::NODATA), "{coherence}: kept after {change}");
        }
        mount.unmount();
    }
}

/// A file without a name (`O_TMPFILE`) works, gets a name later, or leaves no trace.
#[test]
fn unnamed_files() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let unnamed = |seed| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(mount.path(), flags, Mode::RUSR | Mode::WUSR).unwrap();
        let file = File::from(file);
        let bytes = random_bytes(seed, 200_000);
        file.write_all_at(&bytes, 0).unwrap();
        (file, bytes)
    };
    let (kept, expected) = unnamed(1);
    let (dropped, _) = unnamed(2);
    assert_eq!(list(mount.path()).unwrap(), 0);
    assert_eq!(list(mount.origin()).unwrap(), 0);
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&kept));
    rustix::fs::linkat(CWD, handle, CWD, mount.join("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    drop((kept, dropped));
    assert!(fs::read(mount.join("named")).unwrap() == expected);
    assert_eq!(list(mount.origin()).unwrap(), 1);
    mount.unmount();
}

/// The space that the mount tells is the origin's.
#[test]
fn space_is_that_of_the_origin() {
    require!(Requirement::Fuse, Requirement::Root);
    let disk = SmallDisk::new("16m");
    let mut mount = Mount::builder().origin(disk.path()).start();
    fill(&mount.join("file"), 1, 3 << 20);
    let told = rustix::fs::statvfs(mount.path()).unwrap();
    let there = rustix::fs::statvfs(mount.origin()).unwrap();
    let fields = |it: &rustix::fs::StatVfs| {
        (it.f_blocks * it.f_frsize, it.f_bfree * it.f_frsize, it.f_files, it.f_namemax)
    };
    assert_eq!(fields(&told), fields(&there));
    assert_eq!(told.f_blocks * told.f_frsize, 16 << 20);
    mount.unmount();
}

/// Also where nobody else changes the origin: what a removed file held is free once it is let go.
#[test]
fn space_of_what_is_removed_is_free_again() {
    require!(Requirement::Fuse, Requirement::Root);
    for write in ["through", "back"] {
        let disk = SmallDisk::new("16m");
        let builder = Mount::builder().origin(disk.path()).property("coherence", "exclusive");
        let mut mount = builder.property("write", write).start();
        let free = |path: &Path| {
            let space = rustix::fs::statvfs(path).expect("it answers");
            space.f_bfree * space.f_frsize
        };
        let all = free(mount.path());
        fill(&mount.join("file"), 1, 3 << 20);
        let open = File::open(mount.join("file")).unwrap();
        fs::remove_file(mount.join("file")).unwrap();
        assert!(free(mount.path()) <= all, "it is open");
        drop(open);
        let is_free = || {
            let told = free(mount.path());
            told == all && free(mount.origin()) == all
        };
        assert!(wait_until(Duration::from_secs(5), is_free), "{write}: {}", free(mount.path()));
        mount.unmount();
    }
}

/// Locks of both kinds hold between programs.
#[test]
fn locks_exclude() {
    require!(Requirement::Fuse, Requirement::Tool("flock"));
    let mut mount = Mount::new();
    let file = File::create(mount.join("file")).unwrap();
    let other = File::options().write(true).open(mount.join("file")).unwrap();
    file.try_lock().expect("nobody has it");
    other.try_lock().expect_err("it is taken");
    let flock = || {
        let flock = warmfront_tests::Program::new("flock").args(["--nonblock", "--exclusive"]);
        flock.arg(mount.join("file")).arg("true").run().status.code()
    };
    assert_eq!(flock(), Some(1), "another program does not get it");
    file.unlock().unwrap();
    assert_eq!(flock(), Some(0));
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::fcntl_lock(&file, exclusive).expect("nobody has it");
    drop((file, other));
    mount.unmount();
}

/// A caller other than root gets what the permissions give, and owns what it makes.
#[test]
fn other_users() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("setpriv"));
    let mut mount = Mount::builder().argument("--allow-other").start();
    let top = PermissionsExt::from_mode(0o1777);
    fs::set_permissions(mount.path(), top).unwrap();
    fill(&mount.join("secret"), 1, 100);
    fs::set_permissions(mount.join("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    let nobody = |script: &str| {
        warmfront_tests::Program::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", script])
            .directory(mount.path())
            .run()
    };
    nobody("echo mine > own && mkdir sub && echo more > sub/file").success();
    for name in ["own", "sub", "sub/file"] {
        let metadata = fs::metadata(mount.origin().join(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (65534, 65534), "{name}");
    }
    for script in ["cat secret", "rm secret", "mv secret other", "chmod 644 secret", "> secret"] {
        let finished = nobody(script);
        assert!(!finished.succeeded(), "{script}: {finished}");
    }
    assert_eq!(fs::metadata(mount.join("secret")).unwrap().len(), 100);
    // A write by somebody else takes the set-id bits away.
    fs::set_permissions(mount.join("own"), PermissionsExt::from_mode(0o6777)).unwrap();
    nobody("echo again >> own").success();
    assert_eq!(fs::metadata(mount.join("own")).unwrap().mode() & 0o7777, 0o777);
    let stat = rustix::fs::statat(CWD, mount.origin().join("own"), AtFlags::empty()).unwrap();
    assert_eq!(stat.st_mode & 0o7777, 0o777, "at the origin too");
    mount.unmount();
}

/// Who opens all files that the daemon can have open is refused before nothing is left for others.
#[test]
fn descriptors_are_left_for_others() {
    require!(Requirement::Fuse);
    const LIMIT: u64 = 400;
    let mut mount = Mount::new();
    let expected = fill(&mount.origin().join("file"), 1, 5000);
    let daemon = Pid::from_raw(mount.daemon_id() as i32);
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    prlimit(daemon, Resource::Nofile, limit).expect("it is ours");
    let mut open = Vec::new();
    let refused = loop {
        match File::open(mount.join("file")) {
            Ok(file) => open.push(file),
            Err(refused) => break refused,
        }
        assert!(open.len() < LIMIT as usize, "nobody is refused");
    };
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    assert!(open.len() > 50, "{} files are open", open.len());
    // So is who makes one, before it is made.
    let (mut made, mut names) = (Vec::new(), (0..).map(|number| format!("new-{number}")));
    let (name, refused) = loop {
        let name = names.next().expect("no end");
        match File::create(mount.join(&name)) {
            Ok(file) => made.push(file),
            Err(refused) => break (name, refused),
        }
        assert!(made.len() < LIMIT as usize, "nobody is refused");
    };
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    assert!(!mount.origin().join(name).exists());
    // What is open can be used, names can be looked at and changed, and the daemon answers.
    let mut bytes = vec![0; expected.len()];
    for file in &open {
        file.read_exact_at(&mut bytes, 0).expect("it reads");
        assert!(bytes == expected);
    }
    fs::create_dir(mount.join("directory")).expect("it is made");
    assert_eq!(fs::read_dir(mount.path()).expect("it opens").count(), 2 + made.len());
    assert!(mount.status()["resident_bytes"].as_u64() > Some(0));
    drop((open, made));
    let opens = || File::open(mount.join("file")).is_ok();
    assert!(wait_until(Duration::from_secs(10), opens), "the descriptors come back");
    mount.unmount();
}

/// A program saves its files by writing a new one and renaming it over the old one; the origin may
/// give the new one the inode number of one that has just gone, perhaps that of another program.
#[test]
fn files_are_saved_by_replacing_them() {
    const PROGRAMS: u64 = 3;
    const LENGTH: Duration = Duration::from_secs(8);
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().argument("-owrite=back").start();
    let top = mount.path().to_owned();
    let save = |program: u64| {
        let top = top.join(program.to_string());
        fs::create_dir(&top).expect("it can be made");
        let mut random = storage::Random::new(program);
        let began = Instant::now();
        while began.elapsed() < LENGTH {
            let (new, path) = (top.join("new"), top.join(random.below(4).to_string()));
            let contents = random_bytes(random.below(1 << 32), 1 + random.below(70_000) as usize);
            let mut file = File::create_new(&new).expect("it can be made");
            file.write_all(&contents).expect("it can be written");
            if random.below(2) == 0 {
                file.sync_all().expect("it lasts");
            }
            drop(file);
            fs::rename(&new, &path).expect("it is replaced");
            let read = fs::read(&path).expect("it is there");
            assert!(read == contents, "{} bytes of {}", read.len(), contents.len());
            fs::hard_link(&path, top.join("link")).expect("it can be linked");
            fs::remove_file(top.join("link")).expect("it can be removed");
        }
    };
    std::thread::scope(|scope| {
        for program in 0..PROGRAMS {
            let save = &save;
            scope.spawn(move || save(program));
        }
    });
    mount.unmount();
}

/// What of a write lies before the end of the longest file that the origin can have is written, as
/// natively.
#[test]
fn a_write_across_the_end_of_the_longest_file_is_cut() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("mkfs.ext4"));
    let disk = SmallDisk::ext4(96 << 20);
    // Its blocks are told by 32 bits.
    let blocks = rustix::fs::statvfs(disk.path()).expect("it answers");
    let longest = u64::from(u32::MAX) * blocks.f_bsize;
    let written = |top: &Path, append: bool| {
        let open =
            || File::options().create(true).append(append).write(true).open(top.join("file"));
        let file = open().expect("it opens");
        let mut all = Vec::new();
        for (before_end, length) in
            [(4096, 8192), (1, 8192), (0, 1), (MIB + 1, 2 * MIB), (100, 100), (MIB, 3 * MIB)]
        {
            file.set_len(longest - before_end).expect("there may be a hole");
            let piece = random_bytes(before_end, length as usize);
            let outcome = file.write_at(&piece, longest - before_end);
            all.push(outcome.map_err(|error| error.raw_os_error()));
            assert!(file.metadata().expect("it is there").len() <= longest);
        }
        file.sync_all().expect("it lasts");
        fs::remove_file(top.join("file")).expect("it was made");
        all
    };
    for append in [false, true] {
        let natively = written(disk.path(), append);
        assert_eq!(natively[..2], [Ok(4096), Ok(1)]);
        assert_eq!(natively[2], Err(Some(Errno::FBIG.raw_os_error())));
        for mode in ["back", "through", "around"] {
            let mut mount = Mount::builder().origin(disk.path()).property("write", mode).start();
            assert_eq!(written(mount.path(), append), natively, "write={mode}, append: {append}");
            mount.unmount();
        }
    }
}
