//! A small file system in memory, really mounted. Skipped where there is no FUSE.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{ErrorKind, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuse::abi::*;
use fuse::{
    Call, Crewing, DirectoryBuffer, Entry, Filesystem, InitFlags, Interrupt, Kernel, MountOptions,
    Name, OpenFlags, Opened, ReadReply, Result, Session, Settings, Stay, UnmountError,
};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// Reading this file waits until the gate is opened.
const SLOW: &str = "slow";
/// Closing this file waits until the gate is opened.
const HELD: &str = "held";
/// Making this file waits until the gate is opened.
const LATE: &str = "late";
/// Reading this file panics.
const PANICS: &str = "panics";
/// Reading this file forgets to reply.
const SILENT: &str = "silent";
const TTL: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Tree {
    nodes: BTreeMap<u64, Node>,
    names: BTreeMap<OsString, u64>,
    next: u64,
}

#[derive(Default, Clone)]
struct Node {
    data: Vec<u8>,
    xattrs: BTreeMap<OsString, Vec<u8>>,
    mtime: u64,
    mtime_ns: u32,
    references: u64,
}

/// What a test looks at from outside.
#[derive(Default)]
struct Shared {
    tree: Mutex<Tree>,
    gate: Mutex<bool>,
    opened: Condvar,
    lookups: AtomicUsize,
    waiting: AtomicUsize,
    interrupted: AtomicUsize,
    destroyed: AtomicUsize,
    /// Handles that are open of the file that is made late.
    late_handles: AtomicUsize,
}

impl Shared {
    fn open_gate(&self) {
        *self.gate.lock() = true;
        self.opened.notify_all();
    }

    fn references(&self, name: &str) -> u64 {
        let tree = self.tree.lock();
        tree.names.get(OsStr::new(name)).map_or(0, |node| tree.nodes[node].references)
    }
}

struct Memory {
    shared: Arc<Shared>,
    flags: OpenFlags,
}

impl Tree {
    fn node(&mut self, node: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&node).ok_or(Errno::NOENT)
    }

    fn attributes(&self, node: u64) -> Result<Attr> {
        if node == ROOT_ID {
            return Ok(Attr { ino: node, mode: 0o040_755, nlink: 2, ..Attr::default() });
        }
        let known = self.nodes.get(&node).ok_or(Errno::NOENT)?;
        Ok(Attr {
            ino: node,
            size: known.data.len() as u64,
            mode: 0o100_644,
            nlink: 1,
            mtime: known.mtime,
            mtimensec: known.mtime_ns,
            ..Attr::default()
        })
    }

    fn entry(&mut self, node: u64) -> Result<Entry> {
        let attributes = self.attributes(node)?;
        self.node(node)?.references += 1;
        let (entry_ttl, attributes_ttl) = (TTL, TTL);
        Ok(Entry { node, generation: 0, attributes, entry_ttl, attributes_ttl })
    }

    fn make(&mut self, name: &OsStr) -> u64 {
        self.next += 1;
        let node = ROOT_ID + self.next;
        self.nodes.insert(node, Node::default());
        self.names.insert(name.to_owned(), node);
        node
    }
}

impl Memory {
    fn opened(&self) -> Opened {
        Opened { handle: 0, flags: self.flags }
    }

    fn list(&self, offset: u64, mut add: impl FnMut(&mut Tree, &Name<'_>, u64) -> bool) {
        let mut tree = self.shared.tree.lock();
        let names = tree.names.clone();
        for (next, (name, node)) in (1..).zip(&names).skip(offset as usize) {
            if !add(&mut tree, &Name { name, inode: *node, kind: 8, next }, *node) {
                break;
            }
        }
    }
}

impl Filesystem for Memory {
    fn init(&self, kernel: &Kernel) -> Settings {
        assert!(kernel.minor >= MINOR_MIN);
        let settings = Settings::default();
        let flags = settings.flags
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::HAS_EXPIRE_ONLY
            | InitFlags::FLOCK_LOCKS;
        Settings { flags, ..settings }
    }

    fn destroy(&self) {
        self.shared.destroyed.fetch_add(1, Ordering::SeqCst);
    }

    fn lookup(&self, _: &Call, name: &OsStr) -> Result<Entry> {
        self.shared.lookups.fetch_add(1, Ordering::SeqCst);
        let mut tree = self.shared.tree.lock();
        match tree.names.get(name).copied() {
            Some(node) => tree.entry(node),
            None => Ok(Entry::negative(TTL)),
        }
    }

    fn forget(&self, node: u64, count: u64) {
        if let Ok(node) = self.shared.tree.lock().node(node) {
            node.references = node.references.checked_sub(count).expect("more than was given");
        }
    }

    fn getattr(&self, call: &Call, _: Option<u64>) -> Result<(Attr, Duration)> {
        Ok((self.shared.tree.lock().attributes(call.node)?, TTL))
    }

    fn setattr(&self, call: &Call, change: &SetattrIn) -> Result<(Attr, Duration)> {
        let valid = fuse::SetattrFlags::from_bits_retain(change.valid);
        let mut tree = self.shared.tree.lock();
        let node = tree.node(call.node)?;
        if valid.contains(fuse::SetattrFlags::SIZE) {
            node.data.resize(change.size as usize, 0);
        }
        if valid.contains(fuse::SetattrFlags::MTIME) {
            (node.mtime, node.mtime_ns) = (change.mtime, change.mtimensec);
        }
        Ok((tree.attributes(call.node)?, TTL))
    }

    fn statx(&self, call: &Call, _: &StatxIn) -> Result<(Statx, Duration)> {
        let attr = self.shared.tree.lock().attributes(call.node)?;
        let btime = StatxTime { seconds: 12345, nanoseconds: 6789, reserved: 0 };
        let (mode, size, ino, nlink) = (attr.mode as u16, attr.size, attr.ino, attr.nlink);
        Ok((Statx { mask: 0xfff, mode, size, ino, nlink, btime, ..Statx::default() }, TTL))
    }

    fn unlink(&self, _: &Call, name: &OsStr) -> Result<()> {
        self.shared.tree.lock().names.remove(name).map(drop).ok_or(Errno::NOENT)
    }

    fn rename(&self, _: &Call, name: &OsStr, _: u64, new_name: &OsStr, flags: u32) -> Result<()> {
        let mut tree = self.shared.tree.lock();
        if flags == 1 && tree.names.contains_key(new_name) {
            return Err(Errno::EXIST);
        }
        let node = tree.names.remove(name).ok_or(Errno::NOENT)?;
        tree.names.insert(new_name.to_owned(), node);
        Ok(())
    }

    fn open(&self, _: &Call, _: &OpenIn) -> Result<Opened> {
        Ok(self.opened())
    }

    fn create(&self, _: &Call, name: &OsStr, _: &CreateIn) -> Result<(Entry, Opened)> {
        if name == LATE {
            self.shared.waiting.fetch_add(1, Ordering::SeqCst);
            let mut gate = self.shared.gate.lock();
            self.shared.opened.wait_while(&mut gate, |open| !*open);
            self.shared.late_handles.fetch_add(1, Ordering::SeqCst);
        }
        let mut tree = self.shared.tree.lock();
        let node = tree.make(name);
        Ok((tree.entry(node)?, self.opened()))
    }

    fn read(&self, call: &Call, arguments: &ReadIn, reply: ReadReply<'_>) {
        let named = |tree: &Tree, name: &str| tree.names.get(OsStr::new(name)) == Some(&call.node);
        let tree = self.shared.tree.lock();
        if named(&tree, PANICS) {
            drop(tree);
            panic!("on purpose");
        }
        if named(&tree, SILENT) {
            return;
        }
        if named(&tree, SLOW) {
            drop(tree);
            self.shared.waiting.fetch_add(1, Ordering::SeqCst);
            let mut gate = self.shared.gate.lock();
            self.shared.opened.wait_while(&mut gate, |open| !*open);
            let rest = b"slow".get(arguments.offset as usize..).unwrap_or_default();
            return reply.data([rest]);
        }
        let data = &tree.nodes[&call.node].data;
        let start = (arguments.offset as usize).min(data.len());
        let end = (start + reply.size()).min(data.len());
        // Many small pieces go out as one.
        reply.data(data[start..end].chunks(4096));
    }

    fn write(&self, call: &Call, arguments: &WriteIn, data: &[u8], _: &Stay<'_>) -> Result<u32> {
        let mut tree = self.shared.tree.lock();
        let node = tree.node(call.node)?;
        let start = arguments.offset as usize;
        node.data.resize(node.data.len().max(start + data.len()), 0);
        node.data[start..][..data.len()].copy_from_slice(data);
        Ok(arguments.size)
    }

    fn flush(&self, call: &Call, _: &FlushIn) -> Result<()> {
        let is_held = self.shared.tree.lock().names.get(OsStr::new(HELD)) == Some(&call.node);
        if is_held {
            self.shared.waiting.fetch_add(1, Ordering::SeqCst);
            let mut gate = self.shared.gate.lock();
            self.shared.opened.wait_while(&mut gate, |open| !*open);
        }
        Ok(())
    }

    fn release(&self, call: &Call, _: &ReleaseIn) -> Result<()> {
        let late = self.shared.tree.lock().names.get(OsStr::new(LATE)).copied();
        if late == Some(call.node) {
            self.shared.late_handles.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn setxattr(&self, call: &Call, name: &OsStr, value: &[u8], _: u32, _: u32) -> Result<()> {
        let mut tree = self.shared.tree.lock();
        tree.node(call.node)?.xattrs.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn getxattr(&self, call: &Call, name: &OsStr) -> Result<Vec<u8>> {
        let mut tree = self.shared.tree.lock();
        tree.node(call.node)?.xattrs.get(name).cloned().ok_or(Errno::NODATA)
    }

    fn listxattr(&self, call: &Call) -> Result<Vec<u8>> {
        let mut tree = self.shared.tree.lock();
        let names = tree.node(call.node)?.xattrs.keys();
        Ok(names.flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect())
    }

    fn opendir(&self, _: &Call, _: &OpenIn) -> Result<Opened> {
        Ok(Opened::default())
    }

    fn readdir(&self, _: &Call, wanted: &ReadIn, buffer: &mut DirectoryBuffer<'_>) -> Result<()> {
        self.list(wanted.offset, |_, name, _| buffer.add(name));
        Ok(())
    }

    fn readdirplus(
        &self,
        _: &Call,
        wanted: &ReadIn,
        buffer: &mut DirectoryBuffer<'_>,
    ) -> Result<()> {
        self.list(wanted.offset, |tree, name, node| {
            buffer.fits(name.name.len(), true)
                && tree.entry(node).is_ok_and(|entry| buffer.add_plus(name, &entry))
        });
        Ok(())
    }

    fn setlk(&self, _: &Call, arguments: &LkIn, wait: Option<&Interrupt>) -> Result<()> {
        assert_eq!(arguments.lk_flags & fuse::LK_FLOCK, fuse::LK_FLOCK);
        let Some(wait) = wait else { return Ok(()) };
        self.shared.waiting.fetch_add(1, Ordering::SeqCst);
        assert!(wait.wait(), "nobody wakes this wait");
        self.shared.interrupted.fetch_add(1, Ordering::SeqCst);
        Err(Errno::INTR)
    }
}

/// A mounted [`Memory`].
struct Mounted {
    session: Session,
    shared: Arc<Shared>,
    directory: tempfile::TempDir,
}

impl Mounted {
    /// Nothing where FUSE is missing.
    fn new(flags: OpenFlags) -> Option<Mounted> {
        if !Path::new(fuse::DEVICE).exists() {
            eprintln!("skipped: there is no {}", fuse::DEVICE);
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let mount = fuse::mount(directory.path(), &MountOptions::default()).expect("a mount");
        let shared = Arc::new(Shared::default());
        let filesystem = Memory { shared: shared.clone(), flags };
        let session = Session::start(mount, filesystem, Crewing::default()).expect("a session");
        Some(Mounted { session, shared, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn end(self) {
        self.session.unmount(false).expect("nothing is open");
        self.session.wait();
        assert_eq!(self.shared.destroyed.load(Ordering::SeqCst), 1);
        assert_eq!(self.session.threads(), 0);
    }
}

/// Waits until `done`, at most some seconds.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not happen");
}

#[test]
fn files_are_written_and_read() {
    for flags in [OpenFlags::empty(), OpenFlags::KEEP_CACHE, OpenFlags::DIRECT_IO] {
        let Some(mounted) = Mounted::new(flags) else { return };
        let path = mounted.path("file");
        let data: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
        fs::write(&path, &data).expect("written");
        assert!(fs::read(&path).expect("read") == data);
        assert_eq!(fs::metadata(&path).expect("stat").len(), data.len() as u64);

        let file = fs::File::options().read(true).write(true).open(&path).expect("opened");
        let mut part = vec![0; 2_000_000];
        file.read_exact_at(&mut part, 1_000_000).expect("read");
        assert!(part == data[1_000_000..3_000_000]);
        assert_eq!(file.read_at(&mut part, data.len() as u64).expect("read at the end"), 0);
        assert_eq!(file.read_at(&mut part, data.len() as u64 - 3).expect("read"), 3);
        file.set_len(5).expect("cut");
        assert_eq!(fs::read(&path).expect("read"), data[..5]);
        let when = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        file.set_modified(when).expect("time set");
        assert_eq!(file.metadata().expect("stat").mtime_nsec(), 123_456_789);
        drop(file);
        mounted.end();
    }
}

#[test]
fn names_are_made_listed_moved_and_removed() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    let listed = || -> Vec<OsString> {
        let entries = fs::read_dir(mounted.directory.path()).expect("a listing");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let mut expected: Vec<OsString> =
        (0..1000).map(|index| format!("{index:0200}").into()).collect();
    for name in &expected {
        fs::write(mounted.directory.path().join(name), "x").expect("written");
    }
    assert_eq!(listed(), expected);
    // Attributes that came with the listing.
    for entry in fs::read_dir(mounted.directory.path()).expect("a listing") {
        assert_eq!(entry.expect("an entry").metadata().expect("stat").len(), 1);
    }
    let odd = OsStr::from_bytes(b"not \xff UTF-8");
    fs::rename(mounted.directory.path().join(&expected[0]), mounted.directory.path().join(odd))
        .expect("moved");
    fs::remove_file(mounted.directory.path().join(&expected[1])).expect("removed");
    expected.splice(..2, []);
    expected.push(odd.to_owned());
    assert_eq!(listed(), expected);
    let missing = fs::metadata(mounted.path("missing")).expect_err("it does not exist");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    mounted.end();
}

#[test]
fn references_are_given_back() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    fs::write(mounted.path("file"), "x").expect("written");
    for _ in 0..10 {
        for entry in fs::read_dir(mounted.directory.path()).expect("a listing") {
            entry.expect("an entry").metadata().expect("stat");
        }
    }
    assert!(mounted.shared.references("file") >= 1);
    let notifier = mounted.session.notifier();
    notifier.inval_entry(ROOT_ID, OsStr::new("file")).expect("dropped");
    until("the last reference coming back", || mounted.shared.references("file") == 0);
    mounted.end();
}

#[test]
fn extended_attributes_have_sizes() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    let path = mounted.path("file");
    fs::write(&path, "x").expect("written");
    let set = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.one", b"value", set).expect("set");
    let mut value = [0; 5];
    assert_eq!(rustix::fs::getxattr(&path, "user.one", &mut value), Ok(5));
    assert_eq!(&value, b"value");
    assert_eq!(rustix::fs::getxattr_query(&path, "user.one"), Ok(5));
    assert_eq!(rustix::fs::getxattr(&path, "user.one", &mut [0; 3]), Err(Errno::RANGE));
    assert_eq!(rustix::fs::getxattr(&path, "user.two", &mut value), Err(Errno::NODATA));
    let mut names = [0; 64];
    assert_eq!(rustix::fs::listxattr(&path, &mut names), Ok(9));
    assert_eq!(&names[..9], b"user.one\0");
    mounted.end();
}

#[test]
fn the_time_of_birth_is_told() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    fs::write(mounted.path("file"), "x").expect("written");
    let born = fs::metadata(mounted.path("file")).expect("stat").created();
    // Kernels before 6.6 do not ask.
    if let Ok(born) = born {
        assert_eq!(born, UNIX_EPOCH + Duration::new(12345, 6789));
    }
    mounted.end();
}

#[test]
fn slow_reads_hold_up_nothing_else() {
    const SLOW_READS: usize = 40;
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    fs::write(mounted.path(SLOW), "data").expect("written");
    fs::write(mounted.path("fast"), "fast").expect("written");
    std::thread::scope(|scope| {
        let reads: Vec<_> =
            (0..SLOW_READS).map(|_| scope.spawn(|| fs::read(mounted.path(SLOW)))).collect();
        let waiting = || mounted.shared.waiting.load(Ordering::SeqCst);
        until("all slow reads being under way", || waiting() >= SLOW_READS);
        assert_eq!(fs::read(mounted.path("fast")).expect("read"), b"fast");
        assert!(mounted.session.threads() > SLOW_READS);
        mounted.shared.open_gate();
        for read in reads {
            assert_eq!(read.join().expect("joined").expect("read"), b"slow");
        }
    });
    // Threads that are no longer needed go with the load that follows.
    let file = fs::File::open(mounted.path("fast")).expect("opened");
    let idle = Crewing::default().idle_max;
    for _ in 0..2_000_000 {
        if mounted.session.threads() <= idle + 1 {
            break;
        }
        file.read_at(&mut [0; 4], 0).expect("read");
    }
    assert!(mounted.session.threads() <= idle + 1, "{} threads", mounted.session.threads());
    drop(file);
    mounted.end();
}

#[test]
fn a_call_without_an_answer_fails() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    for name in [PANICS, SILENT] {
        fs::write(mounted.path(name), "data").expect("written");
        let error = fs::read(mounted.path(name)).expect_err("no answer");
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
    // The session goes on.
    fs::write(mounted.path("file"), "data").expect("written");
    assert_eq!(fs::read(mounted.path("file")).expect("read"), b"data");
    mounted.end();
}

#[test]
fn a_wait_for_a_lock_is_interrupted() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    let path = mounted.path("file");
    fs::write(&path, "x").expect("written");
    let flock = Command::new("flock").arg(&path).arg("true").spawn();
    let Ok(mut flock) = flock else {
        eprintln!("skipped: the program flock is not installed");
        return;
    };
    until("the wait", || mounted.shared.waiting.load(Ordering::SeqCst) == 1);
    let process = rustix::process::Pid::from_child(&flock);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("signalled");
    assert!(!flock.wait().expect("it ends").success());
    until("the interruption", || mounted.shared.interrupted.load(Ordering::SeqCst) == 1);
    mounted.end();
}

/// A program that waits for an answer ends when it is killed, though the answer does not come.
#[test]
fn who_waits_in_vain_can_be_killed() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    fs::write(mounted.path(SLOW), "data").expect("written");
    fs::write(mounted.path("fast"), "fast").expect("written");
    fs::rename(mounted.path("fast"), mounted.path(HELD)).expect("renamed");
    let waiting = || mounted.shared.waiting.load(Ordering::SeqCst);
    let shell = |script: String| Command::new("sh").arg("-c").arg(script).spawn().expect("started");
    // One waits in a call, the other one has been killed and closes its files.
    let mut reads = shell(format!("exec cat {}", mounted.path(SLOW).display()));
    until("the read", || waiting() == 1);
    std::thread::sleep(Duration::from_secs(1));
    assert!(reads.try_wait().expect("asked").is_none(), "it waits while nobody kills it");
    reads.kill().expect("killed");
    until("the end of the reader", || reads.try_wait().expect("asked").is_some());
    let mut closes = shell(format!("exec 3<{}; kill -9 $$", mounted.path(HELD).display()));
    until("the close", || waiting() == 2);
    until("the end of the holder", || closes.try_wait().expect("asked").is_some());
    // What comes late is not heard, and hurts nobody.
    mounted.shared.open_gate();
    assert_eq!(fs::read(mounted.path(SLOW)).expect("read"), b"slow");
    mounted.end();
}

/// What is made after its caller was killed is found, and nobody holds on to it.
#[test]
fn what_is_made_late_is_found_and_given_back() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    let path = mounted.path(LATE);
    // The kernel believes for long that there is no such name.
    assert!(fs::metadata(&path).is_err());
    let mut makes = Command::new("touch").arg(&path).spawn().expect("started");
    until("the call", || mounted.shared.waiting.load(Ordering::SeqCst) == 1);
    makes.kill().expect("killed");
    until("the end of its caller", || makes.try_wait().expect("asked").is_some());
    assert_eq!(mounted.shared.references(LATE), 0, "it is not made yet");
    mounted.shared.open_gate();
    let late_handles = || mounted.shared.late_handles.load(Ordering::SeqCst);
    let is_made = || mounted.shared.tree.lock().names.contains_key(OsStr::new(LATE));
    until("the file", is_made);
    until("the file to be closed and forgotten", || {
        late_handles() == 0 && mounted.shared.references(LATE) == 0
    });
    until("the kernel to ask again", || fs::metadata(&path).is_ok());
    mounted.end();
}

#[test]
fn the_kernel_is_told_of_changes() {
    let Some(mounted) = Mounted::new(OpenFlags::KEEP_CACHE) else { return };
    let path = mounted.path("file");
    fs::write(&path, "before").expect("written");
    assert_eq!(fs::read(&path).expect("read"), b"before");
    let node = fs::metadata(&path).expect("stat").ino();
    let notifier = mounted.session.notifier();

    mounted.shared.tree.lock().node(node).expect("there").data = b"behind".to_vec();
    assert_eq!(fs::read(&path).expect("read"), b"before", "the kernel keeps its pages");
    notifier.inval_inode(node, 0, 0).expect("dropped");
    assert_eq!(fs::read(&path).expect("read"), b"behind");

    notifier.store(node, 0, b"stored").expect("stored");
    assert_eq!(fs::read(&path).expect("read"), b"stored");

    assert!(fs::metadata(mounted.path("new")).is_err());
    mounted.shared.tree.lock().make(OsStr::new("new"));
    assert!(fs::metadata(mounted.path("new")).is_err(), "the kernel keeps missing names");
    notifier.inval_entry(ROOT_ID, OsStr::new("new")).expect("dropped");
    assert!(fs::metadata(mounted.path("new")).is_ok());

    let open = fs::File::open(&path).expect("opened");
    let lookups = || mounted.shared.lookups.load(Ordering::SeqCst);
    let before = lookups();
    fs::metadata(&path).expect("stat");
    assert_eq!(lookups(), before, "the kernel keeps names");
    notifier.expire_entry(ROOT_ID, OsStr::new("file")).expect("expired");
    fs::metadata(&path).expect("stat");
    assert_eq!(lookups(), before + 1);
    let link = format!("/proc/self/fd/{}", open.as_raw_fd());
    let known = fs::read_link(link).expect("a link");
    assert!(known == path || !mounted.session.flags().contains(InitFlags::HAS_EXPIRE_ONLY));
    drop(open);

    mounted.shared.tree.lock().names.remove(OsStr::new("file"));
    notifier.delete(ROOT_ID, node, OsStr::new("file")).expect("dropped");
    assert!(fs::metadata(&path).is_err());

    match notifier.inc_epoch() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => panic!("{errno}"),
    }
    let unknown = notifier.inval_inode(999, 0, 0);
    assert_eq!(unknown, Err(Errno::NOENT));
    mounted.end();
}

#[test]
fn the_kernel_forgets_what_nobody_uses() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    for name in ["unused", "open"] {
        fs::write(mounted.path(name), "x").expect("written");
    }
    let node = |name: &str| fs::metadata(mounted.path(name)).expect("stat").ino();
    let nodes = [node("unused"), node("open"), 999];
    let open = fs::File::open(mounted.path("open")).expect("opened");
    match mounted.session.notifier().prune(&nodes) {
        Err(Errno::INVAL) => println!("skipped: this kernel is older than 6.18"),
        told => {
            told.expect("told");
            until("the unused file", || mounted.shared.references("unused") == 0);
            assert!(mounted.shared.references("open") > 0);
            assert!(fs::metadata(mounted.path("unused")).is_ok(), "it is looked up again");
        }
    }
    drop(open);
    mounted.end();
}

#[test]
fn a_mount_in_use_is_left_only_lazily() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    let mut file = fs::File::create_new(mounted.path("file")).expect("made");
    let busy = mounted.session.unmount(false).expect_err("a file is open");
    assert!(matches!(busy, UnmountError::Busy { .. }), "{busy}");
    mounted.session.unmount(true).expect("detached");
    assert!(!mounted.path("file").exists());
    file.write_all(b"still there").expect("written");
    file.rewind().expect("rewound");
    assert_eq!(mounted.shared.destroyed.load(Ordering::SeqCst), 0);
    drop(file);
    mounted.session.wait();
    assert_eq!(mounted.shared.destroyed.load(Ordering::SeqCst), 1);
    let ended = mounted.session.unmount(false).expect_err("it is unmounted");
    assert!(matches!(ended, UnmountError::NotMounted { .. }), "{ended}");
}

#[test]
fn what_cannot_be_mounted_says_why() {
    let missing = fuse::mount(Path::new("/no/such/directory"), &MountOptions::default());
    let message = missing.expect_err("it does not exist").to_string();
    assert!(message.contains("/no/such/directory"), "{message}");
    let directory = tempfile::tempdir().expect("a directory");
    let never = fuse::unmount(directory.path(), false).expect_err("nothing is mounted");
    assert!(never.to_string().contains("mounted"), "{never}");
}

#[test]
fn a_mount_whose_daemon_died_is_recognised() {
    let Some(mounted) = Mounted::new(OpenFlags::DIRECT_IO) else { return };
    mounted.end();
    let directory = tempfile::tempdir().expect("a directory");
    let options = MountOptions::default();
    drop(fuse::mount(directory.path(), &options).expect("a mount"));
    assert!(fuse::is_disconnected(directory.path()));
    let again = fuse::mount(directory.path(), &options).expect_err("it is dead");
    assert!(matches!(again, fuse::MountError::Disconnected { .. }), "{again}");
    fuse::unmount(directory.path(), false).expect("cleared away");
    assert!(!fuse::is_disconnected(directory.path()));
}
