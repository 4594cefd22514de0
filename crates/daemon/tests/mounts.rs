//! Pools that are really mounted, by daemons that are this program again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use daemon::protocol::{Change, Changed, Prime, Request, Response, Source, Undone};
use daemon::{
    ArcMax, ControlError, DAEMON_ARGUMENT, MountError, MountProgress, MountRequest, MountSource,
    Mounted, NewPool, PROBE_ARGUMENT, Paths, Setting, Target, Unmounted, create_dataset,
    create_pool, destroy_pool, list_pools, mount_in_background, mount_in_foreground, mounted_at,
    mounts, probe_device, run_daemon, unmount,
};
use warmfront::Size;

type Test = fn(&Place);

const TESTS: &[(&str, Test)] = &[
    ("a_directory_is_mounted_and_unmounted", a_directory_is_mounted_and_unmounted),
    ("the_same_is_not_mounted_twice", the_same_is_not_mounted_twice),
    ("names_of_pools_are_made_unique", names_of_pools_are_made_unique),
    ("a_mount_in_use_stays", a_mount_in_use_stays),
    ("a_lazy_unmount_waits_for_the_last_close", a_lazy_unmount_waits_for_the_last_close),
    ("a_dead_mount_is_cleared_by_the_next", a_dead_mount_is_cleared_by_the_next),
    ("a_dead_mount_is_cleared_by_unmount", a_dead_mount_is_cleared_by_unmount),
    ("a_plain_umount_ends_the_daemon", a_plain_umount_ends_the_daemon),
    ("a_signal_unmounts", a_signal_unmounts),
    ("a_mount_in_the_foreground_ends_with_a_signal", a_mount_in_the_foreground_ends_with_a_signal),
    ("properties_of_a_named_pool_are_saved", properties_of_a_named_pool_are_saved),
    ("targets_are_found", targets_are_found),
    ("priming_can_be_broken_off", priming_can_be_broken_off),
    ("paths_need_not_be_text", paths_need_not_be_text),
    ("garbage_on_the_socket_is_refused", garbage_on_the_socket_is_refused),
    ("what_cannot_be_mounted_is_told", what_cannot_be_mounted_is_told),
];

/// Waits for a mount as long as it takes.
fn wait_on(_: Option<MountProgress>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == [DAEMON_ARGUMENT] {
        return run_daemon();
    }
    if let [PROBE_ARGUMENT, path] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return probe_device(path.as_ref());
    }
    if let [FOREGROUND, top] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return foreground(Path::new(top));
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if arguments.iter().any(|argument| argument == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        println!("skipped: /dev/fuse cannot be opened");
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in TESTS {
        if wanted.is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        let place = Place::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| test(&place)));
        if outcome.is_err() {
            place.show_logs();
            failed += 1;
        }
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The argument with which this program mounts in the foreground.
const FOREGROUND: &str = "foreground";

/// Mounts the place at `top` and says so.
fn foreground(top: &Path) -> ExitCode {
    let paths = Paths::new(top.join("config"), top.join("run"));
    let request = MountRequest {
        mountpoint: Some(top.join("fast")),
        read_only: true,
        ..MountRequest::new(MountSource::Directory(top.join("slow")))
    };
    let say = |mounted: &Mounted| println!("{}", mounted.descriptor.pool);
    match mount_in_foreground(&paths, &request, &|_| (), say) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Waits until the origin has everything.
fn go_on(_: &Undone) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// An origin with a file in it, a mount point, and settings and sockets of their own. What is
/// still mounted when this is dropped is taken away.
struct Place {
    base: tempfile::TempDir,
    paths: Paths,
    slow: PathBuf,
    fast: PathBuf,
}

impl Place {
    fn new() -> Place {
        let base = tempfile::tempdir().expect("a directory");
        let top = base.path().canonicalize().expect("it is there");
        let (slow, fast) = (top.join("slow"), top.join("fast"));
        for path in [&slow, &fast] {
            fs::create_dir(path).expect("made");
        }
        fs::write(slow.join("file"), vec![7; 300_000]).expect("written");
        let paths = Paths::new(top.join("config"), top.join("run"));
        Place { base, paths, slow, fast }
    }

    fn request(&self) -> MountRequest {
        MountRequest {
            mountpoint: Some(self.fast.clone()),
            arc_max: Some(ArcMax::Size(Size::Bytes(64 << 20))),
            ..MountRequest::new(MountSource::Directory(self.slow.clone()))
        }
    }

    fn mount(&self) -> Mounted {
        mount_in_background(&self.paths, &self.request(), &mut wait_on).expect("it can be mounted")
    }

    fn unmount(&self) {
        let done =
            unmount(&self.paths, self.fast.as_os_str(), false, &mut go_on).expect("nobody uses it");
        assert!(matches!(done, Unmounted::Done { .. }), "{done:?}");
        assert!(!is_mounted(&self.fast));
        let left: Vec<_> = fs::read_dir(self.paths.runtime_directory())
            .expect("it is there")
            .map(|entry| entry.expect("it is there").path())
            .filter(|path| path.extension() != Some(OsStr::new("log")))
            .collect();
        assert!(left.is_empty(), "the daemon has left {left:?}");
    }

    fn find(&self, text: impl AsRef<OsStr>) -> Result<Target, ControlError> {
        Target::find(&self.paths, text.as_ref())
    }

    fn show_logs(&self) {
        for entry in fs::read_dir(self.paths.runtime_directory()).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            println!("--- {}\n{text}", entry.path().display());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let base = self.base.path();
        for mount in mounts().unwrap_or_default() {
            if mount.mountpoint.starts_with(base)
                && let Err(error) = fuse::unmount(&mount.mountpoint, true)
            {
                println!("{error}");
            }
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    mounted_at(&mounts().expect("a list of mounts"), path).is_some()
}

fn wait_until(what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    what()
}

/// A zombie does not count: the daemon is our child and nobody waits for it.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn signal(pid: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

fn a_directory_is_mounted_and_unmounted(place: &Place) {
    let mounted = place.mount();
    assert_eq!(mounted.ceiling_bytes, 64 << 20);
    assert_eq!(fs::read(place.fast.join("file")).expect("it is there"), vec![7; 300_000]);
    let target = place.find(&place.fast).expect("a mount point");
    let status = target.client().expect("it is mounted").status().expect("it answers");
    assert_eq!((status.pool.as_str(), status.pid), ("slow", mounted.descriptor.pid));
    assert_eq!((&status.origin, &status.mountpoint), (&place.slow, &place.fast));
    assert!(status.counters["origin_read_bytes"] >= 300_000, "{status:?}");
    assert!(status.resident_bytes > 1 << 20 && !status.is_detached);
    place.unmount();
    assert!(wait_until(|| !is_running(mounted.descriptor.pid)));
    place.mount();
    place.unmount();
}

fn the_same_is_not_mounted_twice(place: &Place) {
    let mounted = place.mount();
    let elsewhere = place.base.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    let request = MountRequest { mountpoint: Some(elsewhere.clone()), ..place.request() };
    let error =
        mount_in_background(&place.paths, &request, &mut wait_on).expect_err("it is served");
    let pid = mounted.descriptor.pid.to_string();
    assert!(error.to_string().contains(&pid) && !error.is_usage(), "{error}");
    let again = mount_in_background(&place.paths, &place.request(), &mut wait_on)
        .expect_err("it is mounted");
    assert!(again.to_string().contains("already mounted"), "{again}");
    assert!(!is_mounted(&elsewhere));
    place.unmount();
}

fn names_of_pools_are_made_unique(place: &Place) {
    let top = place.base.path().join("other");
    let (slow, fast) = (top.join("slow"), top.join("fast"));
    fs::create_dir_all(&slow).and_then(|()| fs::create_dir(&fast)).expect("made");
    place.mount();
    let request = MountRequest {
        source: MountSource::Directory(slow),
        mountpoint: Some(fast.clone()),
        ..place.request()
    };
    let second = mount_in_background(&place.paths, &request, &mut wait_on).expect("another origin");
    assert_eq!(second.descriptor.pool, "slow-2");
    let pools = list_pools(&place.paths).expect("listed");
    let names: Vec<&str> = pools.rows.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["slow", "slow-2"]);
    assert!(matches!(Target::only(&place.paths), Err(ControlError::Ambiguous { .. })));
    unmount(&place.paths, OsStr::new("slow-2"), false, &mut go_on).expect("by its name");
    assert_eq!(Target::only(&place.paths).expect("one is left").pool, "slow");
    place.unmount();
    assert!(matches!(Target::only(&place.paths), Err(ControlError::Ambiguous { .. })));
}

fn a_mount_in_use_stays(place: &Place) {
    let mounted = place.mount();
    let file = File::open(place.fast.join("file")).expect("it is there");
    let mut holder =
        Command::new("sleep").arg("60").stdin(Stdio::from(file)).spawn().expect("sleep");
    let busy = unmount(&place.paths, place.fast.as_os_str(), false, &mut go_on);
    signal(mounted.descriptor.pid, "-TERM");
    let log = || fs::read_to_string(place.paths.log("slow")).unwrap_or_default();
    let told = wait_until(|| log().contains("sleep"));
    holder.kill().and_then(|()| holder.wait().map(drop)).expect("it ends");
    let Err(ControlError::Busy { holders, .. }) = &busy else { panic!("{busy:?}") };
    assert!(holders.iter().any(|held| held.pid == holder.id() && held.name == "sleep"), "{busy:?}");
    let message = busy.expect_err("it is busy").to_string();
    assert!(message.contains("--lazy") && message.contains("sleep"), "{message}");
    assert!(told, "the daemon does not say why it goes on: {}", log());
    assert!(fs::read(place.fast.join("file")).is_ok(), "the mount goes on");
    place.unmount();
}

fn a_lazy_unmount_waits_for_the_last_close(place: &Place) {
    let mounted = place.mount();
    let mut held = File::open(place.fast.join("file")).expect("it is there");
    let detached = unmount(&place.paths, place.fast.as_os_str(), true, &mut go_on).expect("lazily");
    assert_eq!(detached, Unmounted::Detached { pool: "slow".into() });
    assert!(!is_mounted(&place.fast));
    let target = place.find("slow").expect("the daemon still serves");
    assert!(target.client().expect("mounted").status().expect("it answers").is_detached);
    let again =
        unmount(&place.paths, OsStr::new("slow"), true, &mut go_on).expect_err("it is detached");
    assert!(again.to_string().contains("last file is closed"), "{again}");
    let error = mount_in_background(&place.paths, &place.request(), &mut wait_on)
        .expect_err("still served");
    assert!(matches!(error, MountError::Background { .. }), "{error}");
    let mut bytes = Vec::new();
    held.read_to_end(&mut bytes).expect("what is open stays readable");
    assert_eq!(bytes.len(), 300_000);
    drop(held);
    assert!(wait_until(|| !is_running(mounted.descriptor.pid)), "the daemon ends");
    place.mount();
    place.unmount();
}

/// Mounts, and kills the daemon as `kill -9` does.
fn leave_a_dead_mount(place: &Place) {
    let mounted = place.mount();
    signal(mounted.descriptor.pid, "-KILL");
    assert!(wait_until(|| fuse::is_disconnected(&place.fast)), "the mount is dead");
    assert!(matches!(place.find(&place.fast), Err(ControlError::Dead { .. })));
    assert!(matches!(place.find(place.fast.join("file")), Err(ControlError::Dead { .. })));
    assert!(matches!(place.find("slow"), Err(ControlError::Dead { .. })));
    assert!(list_pools(&place.paths).expect("listed").rows.is_empty());
}

fn a_dead_mount_is_cleared_by_the_next(place: &Place) {
    leave_a_dead_mount(place);
    let mounted = place.mount();
    assert!(mounted.notes.iter().any(|note| note.contains("dead mount")), "{mounted:?}");
    assert_eq!(fs::read(place.fast.join("file")).expect("it is there").len(), 300_000);
    place.unmount();
}

fn a_dead_mount_is_cleared_by_unmount(place: &Place) {
    for text in [OsStr::new("slow"), place.fast.as_os_str()] {
        leave_a_dead_mount(place);
        let cleared = unmount(&place.paths, text, false, &mut go_on).expect("nobody holds it");
        assert_eq!(cleared, Unmounted::DeadMountCleared { mountpoint: place.fast.clone() });
        assert!(!is_mounted(&place.fast));
        let error =
            unmount(&place.paths, text, false, &mut go_on).expect_err("it is gone").to_string();
        assert!(error.contains("not a mount point"), "{error}");
    }
}

fn a_plain_umount_ends_the_daemon(place: &Place) {
    let mounted = place.mount();
    fuse::unmount(&place.fast, false).expect("nobody uses it");
    assert!(wait_until(|| !is_running(mounted.descriptor.pid)), "the daemon ends");
    assert!(list_pools(&place.paths).expect("listed").rows.is_empty());
    place.mount();
    place.unmount();
}

fn a_signal_unmounts(place: &Place) {
    for name in ["-TERM", "-INT"] {
        let mounted = place.mount();
        signal(mounted.descriptor.pid, name);
        assert!(wait_until(|| !is_running(mounted.descriptor.pid)), "the daemon ends");
        assert!(!is_mounted(&place.fast));
    }
}

fn a_mount_in_the_foreground_ends_with_a_signal(place: &Place) {
    let top = place.slow.parent().expect("it lies in the base");
    let mut child = Command::new("/proc/self/exe")
        .args([OsStr::new(FOREGROUND), top.as_os_str()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("it says that it is ready");
    assert_eq!(line, "slow\n");
    assert_eq!(fs::read(place.fast.join("file")).expect("it is there").len(), 300_000);
    let written = fs::write(place.fast.join("new"), "x").expect_err("it is read-only");
    assert_eq!(written.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    signal(child.id(), "-INT");
    assert!(child.wait().expect("it is our child").success());
    assert!(!is_mounted(&place.fast));
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn value(target: &Target, property: &str) -> (String, Source) {
    let rows = target.get().expect("it answers");
    let row = rows.into_iter().find(|row| row.property == property).expect("it is listed");
    (row.value, row.source)
}

fn properties_of_a_named_pool_are_saved(place: &Place) {
    let pool = NewPool {
        name: "tank".into(),
        origin: place.slow.clone(),
        mountpoint: Some(place.fast.clone()),
        ..NewPool::default()
    };
    let file = create_pool(&place.paths, &pool).expect("a new pool");
    let saved = Changed::Saved { file: file.clone() };
    fs::create_dir(place.slow.join("photos")).expect("made");
    let make = |name: &str| create_dataset(&place.paths, name, None, properties(&[]));
    assert_eq!(make("tank/photos").expect("before it is mounted"), saved);
    let stored = place.find("tank").expect("a pool");
    assert!(matches!(stored.client(), Err(ControlError::NotMounted { .. })));
    let request = MountRequest {
        source: MountSource::parse(&place.paths, OsStr::new("tank")),
        mountpoint: None,
        properties: vec![("freebehind".into(), "on".into())],
        ..place.request()
    };
    mount_in_background(&place.paths, &request, &mut wait_on).expect("where its settings say");
    let set = |pairs: &[(&str, &str)]| {
        let dataset = "tank/photos".to_string();
        let change = Change::Set { dataset, properties: properties(pairs) };
        place.find("tank").expect("a pool").change(change)
    };
    assert_eq!(set(&[("recordsize", "64K")]).expect("a value"), saved);
    assert_eq!(make("tank/photos/raw").expect("while it is mounted"), saved);
    let error = set(&[("recordsize", "65K")]).expect_err("no value");
    assert!(error.is_usage() && error.to_string().contains("power of two"), "{error}");
    let error = set(&[("recordsise", "64K")]).expect_err("no property");
    assert!(error.is_usage() && error.to_string().contains("`recordsize`"), "{error}");
    let photos = place.find(place.fast.join("photos")).expect("a path");
    assert_eq!(value(&photos, "recordsize"), ("64K".into(), Source::Local));
    let inherited = Source::Inherited("tank".into());
    assert_eq!(value(&photos, "freebehind"), ("on".into(), inherited));
    assert!(matches!(
        destroy_pool(&place.paths, "tank", false, &|_| ()),
        Err(ControlError::Mounted { .. })
    ));
    assert!(create_pool(&place.paths, &pool).is_err());
    unmount(&place.paths, OsStr::new("tank"), false, &mut go_on).expect("by its name");
    let photos = place.find("tank/photos").expect("from its settings");
    assert_eq!(value(&photos, "recordsize").0, "64K");
    // What was given to this mount alone is not kept.
    assert_eq!(value(&photos, "freebehind"), ("off".into(), Source::Default));
    assert_eq!(photos.datasets().expect("listed").len(), 3);
    destroy_pool(&place.paths, "tank", false, &|_| ()).expect("it is not mounted");
    assert!(place.find("tank").is_err() && !file.exists());
    let left = |directory: &Path| -> Vec<String> {
        let names = fs::read_dir(directory).into_iter().flatten();
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("tank") && !name.ends_with(".lock")).collect()
    };
    for directory in [place.paths.state_directory(), place.paths.runtime_directory()] {
        assert!(left(directory).is_empty(), "{:?}", left(directory));
    }
}

fn targets_are_found(place: &Place) {
    fs::create_dir_all(place.slow.join("a/b")).expect("made");
    place.mount();
    let made = create_dataset(&place.paths, "slow/a", None, properties(&[("prefetch", "none")]));
    assert_eq!(made.expect("a dataset"), Changed::UntilUnmount);
    let link = place.base.path().join("link");
    std::os::unix::fs::symlink(place.fast.join("a"), &link).expect("a link");
    let cases = [
        (PathBuf::from("slow"), "slow", None),
        (PathBuf::from("slow/a"), "slow/a", None),
        (place.fast.clone(), "slow", Some("")),
        (place.fast.join("a"), "slow/a", Some("a")),
        (place.fast.join("a/b"), "slow/a", Some("a/b")),
        (place.fast.join("a/../file"), "slow", Some("file")),
        (place.fast.join("not there"), "slow", Some("not there")),
        (link.join("b"), "slow/a", Some("a/b")),
    ];
    for (text, dataset, path) in cases {
        let target = place.find(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(target.dataset.name, dataset, "{text:?}");
        assert_eq!(target.path.as_deref(), path.map(Path::new), "{text:?}");
    }
    for text in ["pond", "/", "/proc/version", "slow/x", ""] {
        let error = place.find(text).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    }
    let below = place.find(place.fast.join("a/b")).expect("a path");
    assert!(matches!(below.dataset_to_change(), Err(ControlError::NotDataset { .. })));
    let top = place.find(place.fast.join("a")).expect("a path");
    assert_eq!(top.dataset_to_change().expect("a dataset begins there"), "slow/a");
    let error = unmount(&place.paths, place.fast.join("a").as_os_str(), false, &mut go_on);
    assert!(matches!(error, Err(ControlError::BelowMountpoint { .. })), "{error:?}");
    let client = top.client().expect("it is mounted");
    client.ping().expect("it answers");
    let why = client.why(Path::new("file")).expect("it is there");
    assert_eq!((why.size, why.records_cached), (300_000, 0));
    let missing = client.why(Path::new("missing")).expect_err("it is not").to_string();
    assert!(missing.contains("missing does not exist"), "{missing}");
    let setting = |bytes| Setting { arc_max: ArcMax::Size(Size::Bytes(bytes)), arc_min: None };
    assert_eq!(client.set_ceiling(setting(32 << 20)).expect("a ceiling").bytes, 32 << 20);
    assert!(client.set_ceiling(setting(1)).expect_err("too small").is_usage());
    assert!(matches!(client.call(Request::Info), Ok(Response::Info(_))));
    place.unmount();
}

fn priming_can_be_broken_off(place: &Place) {
    for index in 0..6 {
        fs::write(place.slow.join(format!("large-{index}")), vec![1; 4 << 20]).expect("written");
    }
    place.mount();
    let target = place.find(&place.fast).expect("a mount point");
    let client = target.client().expect("it is mounted");
    let prime = Prime { paths: vec![PathBuf::new()], ..Prime::default() };
    let slowly = Prime { rate_bytes_per_second: Some(8 << 20), ..prime.clone() };
    let broken = client.prime(slowly, &mut |now| match now.bytes_fetched > 0 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    assert_eq!(broken.expect("it answers"), None);
    let mut last = 0;
    let report = client.prime(prime, &mut |now| {
        last = now.bytes_done;
        ControlFlow::Continue(())
    });
    let report = report.expect("it answers").expect("it was not broken off");
    assert!(report.all_fits() && report.errors_total == 0, "{report:?}");
    assert_eq!((last, report.files), (report.bytes_found, 7));
    assert!(report.bytes_fetched < report.bytes_found, "what was fetched before stays");
    let nothing = Prime { paths: vec!["missing".into()], ..Prime::default() };
    let error = client.prime(nothing, &mut |_| ControlFlow::Continue(()));
    assert!(error.is_err(), "{error:?}");
    place.unmount();
}

fn paths_need_not_be_text(place: &Place) {
    let odd = |name: &[u8]| place.base.path().join(OsStr::from_bytes(name));
    let (slow, fast) = (odd(b"slow-\xff"), odd(b"fast-\xfe"));
    fs::create_dir(&slow).and_then(|()| fs::create_dir(&fast)).expect("made");
    let name = OsStr::from_bytes(b"\xfd");
    fs::write(slow.join(name), "x").expect("written");
    let request = MountRequest {
        source: MountSource::Directory(slow.clone()),
        mountpoint: Some(fast.clone()),
        ..place.request()
    };
    let mounted =
        mount_in_background(&place.paths, &request, &mut wait_on).expect("it can be mounted");
    let target = place.find(fast.join(name)).expect("a path");
    let client = target.client().expect("it is mounted");
    assert_eq!(client.status().expect("it answers").mountpoint, mounted.descriptor.mountpoint);
    assert_eq!(client.why(Path::new(name)).expect("it is there").size, 1);
    unmount(&place.paths, fast.as_os_str(), false, &mut go_on).expect("nobody uses it");
}

fn garbage_on_the_socket_is_refused(place: &Place) {
    place.mount();
    let target = place.find("slow").expect("a pool");
    for garbage in [&b"{\"version\":1}\n"[..], b"\xff\n", b"{\"version\":99,\"body\":0}\n"] {
        let mut socket = UnixStream::connect(place.paths.socket("slow")).expect("it listens");
        socket.write_all(garbage).expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("\"refused\""), "{answer}");
    }
    let mut socket = UnixStream::connect(place.paths.socket("slow")).expect("it listens");
    // The daemon stops reading where a request ends at the latest, and hangs up.
    let _ = socket.write_all(&vec![b'x'; 8 << 20]);
    drop(socket);
    let silent: Vec<UnixStream> = (0..100)
        .map(|_| UnixStream::connect(place.paths.socket("slow")).expect("it listens"))
        .collect();
    let crowded = target.client().expect("it is mounted").ping().expect_err("too many");
    assert!(crowded.to_string().contains("too many"), "{crowded}");
    drop(silent);
    let answers = || target.client().is_ok_and(|client| client.ping().is_ok());
    assert!(wait_until(answers), "the daemon answers again");
    place.unmount();
}

fn what_cannot_be_mounted_is_told(place: &Place) {
    let fails = |request: MountRequest, is_usage: bool, fragment: &str| {
        let error = mount_in_background(&place.paths, &request, &mut wait_on).expect_err(fragment);
        assert!(error.to_string().contains(fragment), "{error}");
        assert_eq!(error.is_usage(), is_usage, "{error}");
        assert!(!is_mounted(&place.fast));
    };
    let request = || place.request();
    let directory = |path: &str| MountSource::Directory(place.base.path().join(path));
    fails(MountRequest { source: directory("none"), ..request() }, false, "does not exist");
    fails(MountRequest { source: directory("slow/file"), ..request() }, false, "not a directory");
    fails(MountRequest { slow: Some("tape".into()), ..request() }, true, "hdd, nfs, s3");
    fails(
        MountRequest { arc_max: Some(ArcMax::Size(Size::Bytes(1))), ..request() },
        true,
        "at least 8M",
    );
    let property = vec![("prefech".to_string(), "all".to_string())];
    fails(MountRequest { properties: property, ..request() }, true, "`prefetch`");
    fails(MountRequest { mountpoint: None, ..request() }, true, "Give a mount point");
    let pool = MountSource::Pool("tank".into());
    fails(MountRequest { source: pool, ..request() }, false, "no pool `tank`");
}
