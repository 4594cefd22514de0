//! A replay brings back nothing that is older than what the origin was said to have.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use warmfront_tests::{Requirement, require};

use super::{kill, restart, with_log_and, write};

const DSYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;

/// What is closed is at the origin.
const OPEN: [&str; 2] = ["-o", "coherence=open"];
const OLD: &str = "what was made to last before";

fn opened(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("it opens")
}

/// What changes a file whose contents are in the log, and is told that the origin has it.
type Change = (&'static str, fn(&Path));

const CHANGES: [Change; 10] = [
    ("overwritten", |path| opened(path).write_all(b"new").expect("it is written")),
    ("rewritten", |path| fs::write(path, "new").expect("it is written")),
    ("cut", |path| opened(path).set_len(5).expect("it is cut")),
    ("emptied", |path| opened(path).set_len(0).expect("it is cut")),
    ("extended", |path| opened(path).set_len(9000).expect("it is extended")),
    ("touched", |path| {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(700);
        opened(path).set_modified(then).expect("it is set");
    }),
    ("changed", |path| {
        let permissions = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(path, permissions(0o600)).expect("it is changed");
        File::open(path).expect("it opens").sync_all().expect("it lasts");
        fs::set_permissions(path, permissions(0o640)).expect("it is changed");
    }),
    ("moved", |path| {
        fs::write(path, "new").expect("it is written");
        fs::rename(path, path.with_extension("to")).expect("it is moved");
    }),
    ("copied-into", |path| {
        let from = path.with_extension("from");
        fs::write(&from, "copied").expect("it is written");
        let (mut from, mut to) = (File::open(from).expect("it opens"), opened(path));
        std::io::copy(&mut from, &mut to).expect("it is copied");
    }),
    ("written-twice", |path| {
        let mut lasting =
            OpenOptions::new().write(true).custom_flags(DSYNC).open(path).expect("it opens");
        lasting.write_all(b"lasting").expect("it is written");
        let mut file = opened(path);
        file.seek(SeekFrom::Start(3)).expect("it is there");
        file.write_all(b"later").expect("it is written");
    }),
];

/// What a directory holds: contents, mode and, of files that are said to be old, time.
fn contents(directory: &Path) -> BTreeMap<String, (Vec<u8>, u32, i64)> {
    let entries = fs::read_dir(directory).expect("it opens");
    let told = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let metadata = fs::metadata(&path).expect("it is there");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let time = if metadata.mtime() < 1_000_000 { metadata.mtime() } else { 0 };
        (name, (fs::read(&path).expect("it is read"), metadata.mode(), time))
    };
    entries.map(told).collect()
}

#[test]
fn what_is_closed_survives_a_replay() {
    require!(Requirement::Fuse);
    for (name, change) in CHANGES {
        let (mut mount, log) = with_log_and(&OPEN);
        write(&mount.join("file"), OLD);
        change(&mount.join("file"));
        kill(&mut mount);
        let before = contents(mount.origin());
        restart(&mut mount, &[&OPEN[..], &["--log", &log]].concat());
        assert_eq!(contents(mount.origin()), before, "{name}");
        mount.unmount();
    }
}

/// Of a change of two places both are there.
#[test]
fn what_is_closed_is_not_mixed_with_what_was_before() {
    require!(Requirement::Fuse);
    let (mut mount, log) = with_log_and(&OPEN);
    let path = mount.join("file");
    fs::write(&path, vec![b'0'; 1 << 20]).expect("it is written");
    let file = opened(&path);
    file.write_all_at(b"A1", 0).expect("it is written");
    file.sync_all().expect("it lasts");
    file.write_all_at(b"A2", 0).expect("it is written");
    file.write_all_at(b"B2", 500_000).expect("it is written");
    drop(file);
    kill(&mut mount);
    restart(&mut mount, &[&OPEN[..], &["--log", &log]].concat());
    let found = fs::read(mount.origin().join("file")).expect("it is there");
    assert_eq!((&found[..2], &found[500_000..500_002]), (&b"A2"[..], &b"B2"[..]));
    mount.unmount();
}
