use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{joining, wait};
use crate::{Group, Program, Warmfront, counter, test_directory, wait_until};

/// How long a mount may take to answer, and a daemon to end.
const DEADLINE: Duration = Duration::from_secs(20);

/// The ceiling of a mount that chooses none.
const CEILING: &str = "128M";

/// A directory of its own mounted through `warmfront mount -f`, until dropped.
///
/// Dropping unmounts, waits for the daemon's end and removes everything, also while a test
/// panics; then it shows what the daemon said.
pub struct Mount {
    daemon: Option<Child>,
    log: PathBuf,
    mountpoint: PathBuf,
    origin: PathBuf,
    warmfront: Warmfront,
    /// The members of the control group that the daemon joins.
    members: Option<PathBuf>,
    _base: TempDir,
}

/// Options of a [`Mount`].
#[derive(Default)]
pub struct MountBuilder {
    arguments: Vec<String>,
    origin: Option<PathBuf>,
    base: Option<TempDir>,
    members: Option<PathBuf>,
}

impl MountBuilder {
    /// Lets the daemon run in a control group.
    pub fn within(mut self, group: &Group) -> MountBuilder {
        self.members = Some(group.members());
        self
    }

    /// Adds `-o property=value`.
    pub fn property(self, name: &str, value: &str) -> MountBuilder {
        self.argument("-o").argument(&format!("{name}={value}"))
    }

    /// Adds an argument of the command line.
    pub fn argument(mut self, argument: &str) -> MountBuilder {
        self.arguments.push(argument.to_string());
        self
    }

    /// Mounts this directory rather than a new, empty one.
    pub fn origin(mut self, path: impl Into<PathBuf>) -> MountBuilder {
        self.origin = Some(path.into());
        self
    }

    /// Puts origin and mount point into `base` rather than into a new directory.
    pub fn base(mut self, base: TempDir) -> MountBuilder {
        self.base = Some(base);
        self
    }

    /// Mounts, and waits until the mount answers.
    #[track_caller]
    pub fn start(self) -> Mount {
        let base = self.base.unwrap_or_else(test_directory);
        let mountpoint = base.path().join("fast");
        std::fs::create_dir(&mountpoint).expect("a mount point");
        let origin = self.origin.unwrap_or_else(|| {
            let origin = base.path().join("slow");
            std::fs::create_dir_all(&origin).expect("an origin");
            origin
        });
        let log = base.path().join("daemon.log");
        let mut mount = Mount {
            daemon: None,
            log,
            mountpoint,
            origin,
            warmfront: Warmfront::new(),
            members: self.members,
            _base: base,
        };
        let mut arguments = self.arguments;
        if !arguments.iter().any(|argument| argument.starts_with("--arc-max")) {
            arguments.push(format!("--arc-max={CEILING}"));
        }
        mount.start_daemon(&arguments);
        mount
    }
}

impl Mount {
    /// A mount of an empty directory with all defaults and a ceiling of 128 MiB.
    #[track_caller]
    pub fn new() -> Mount {
        Mount::builder().start()
    }

    /// A mount to be given options.
    pub fn builder() -> MountBuilder {
        MountBuilder::default()
    }

    #[track_caller]
    fn start_daemon(&mut self, arguments: &[String]) {
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        let said_before = self.log().len();
        let program = self.warmfront.program(["mount", "-f"]).args(arguments);
        let mut command = program.arg(&self.origin).arg(&self.mountpoint).into_command();
        if let Some(members) = &self.members {
            command = joining(&command, members);
        }
        let daemon = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("the warmfront command starts");
        self.daemon = Some(daemon);
        // A dead mount may be there from before: only the daemon's own word tells of the new one.
        let greeted = |log: String| log[said_before.min(log.len())..].contains("mounted at");
        let up = wait_until(DEADLINE, || self.daemon_ended() || greeted(self.log()));
        assert!(up && !self.daemon_ended(), "the mount does not come up: {}", self.log());
        assert!(self.answers(), "the mount does not answer: {}", self.log());
    }

    /// Mounts again after the daemon's end, with `arguments`.
    #[track_caller]
    pub fn restart(&mut self, arguments: &[&str]) {
        assert!(self.daemon.is_none(), "the daemon of this mount has ended");
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        self.start_daemon(&arguments);
    }

    fn daemon_ended(&mut self) -> bool {
        match &mut self.daemon {
            Some(daemon) => daemon.try_wait().is_ok_and(|status| status.is_some()),
            None => true,
        }
    }

    /// Whether a look at the mount point is answered before the deadline.
    fn answers(&self) -> bool {
        let (sender, receiver) = mpsc::channel();
        let mountpoint = self.mountpoint.clone();
        std::thread::spawn(move || sender.send(std::fs::metadata(mountpoint).is_ok()));
        receiver.recv_timeout(DEADLINE).unwrap_or(false)
    }

    /// Where the files are seen through the cache.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// `name` as seen through the cache.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mountpoint.join(name)
    }

    /// Where the files lie.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// The command with the settings of this mount.
    pub fn warmfront(&self) -> &Warmfront {
        &self.warmfront
    }

    /// Runs the command with `arguments` followed by the mount point; it must succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        self.warmfront.program(arguments).arg(&self.mountpoint).run().success()
    }

    /// What `status --json` tells of this mount.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.warmfront.status(&self.mountpoint)
    }

    /// The present value of one counter.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        counter(&self.status(), name)
    }

    /// The process id of the daemon.
    pub fn daemon_id(&self) -> u32 {
        self.daemon.as_ref().expect("the daemon runs").id()
    }

    /// What the daemon has said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the daemon as `kill -9` does. The dead mount stays.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("the daemon runs");
        daemon.kill().expect("a child can be killed");
        daemon.wait().expect("a child can be waited for");
    }

    /// Unmounts with `warmfront unmount`; that and the daemon must end well.
    #[track_caller]
    pub fn unmount(&mut self) {
        // A program that another test starts at this moment has our files open for an instant,
        // between its fork and its exec.
        let once = || self.warmfront.program(["unmount"]).arg(&self.mountpoint).run();
        if !wait_until(Duration::from_secs(1), || once().succeeded()) {
            once().success();
        }
        self.wait_for_end();
    }

    /// Waits for the daemon to end well after an unmount.
    #[track_caller]
    pub fn wait_for_end(&mut self) {
        let mut daemon = self.daemon.take().expect("the daemon runs");
        let status = wait(&mut daemon, DEADLINE).expect("the daemon ends after its mount is gone");
        assert!(status.success(), "the daemon ended with {status}: {}", self.log());
        assert!(!is_mounted(&self.mountpoint), "the mount is gone");
    }

    /// Drops what the kernel keeps of names, attributes and contents, on the whole machine, so
    /// that the next calls reach the daemon. Needs root.
    pub fn drop_kernel_caches(&self) {
        let file = File::open(&self.origin).expect("the origin opens");
        rustix::fs::syncfs(&file).expect("the origin can be synced");
        std::fs::write("/proc/sys/vm/drop_caches", "3").expect("root may drop caches");
    }

    fn clean_up(&mut self) {
        let asked = is_mounted(&self.mountpoint) && self.daemon.is_some();
        if asked {
            let unmount = self.warmfront.program(["unmount"]).arg(&self.mountpoint);
            let mut command = unmount.into_command();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Ok(mut child) = command.spawn() {
                wait(&mut child, DEADLINE);
            }
        }
        if is_mounted(&self.mountpoint) {
            detach(&self.mountpoint);
        }
        if let Some(mut daemon) = self.daemon.take() {
            wait(&mut daemon, DEADLINE);
        }
    }
}

impl Default for Mount {
    fn default() -> Mount {
        Mount::new()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.clean_up();
        if std::thread::panicking() {
            eprintln!("--- what the daemon said\n{}", self.log());
        }
    }
}

/// Whether something is mounted at `path`. Does not touch the mount, which may be dead.
pub fn is_mounted(path: &Path) -> bool {
    let Some(text) = path.to_str() else { return false };
    // Another test may have mounted on a name that is not UTF-8.
    let mounts = std::fs::read("/proc/self/mountinfo").expect("a list of mounts");
    let mounts = String::from_utf8_lossy(&mounts);
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(text))
}

/// What is mounted below a directory.
pub(crate) fn mounted_below(directory: &Path) -> Vec<PathBuf> {
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    places.map(PathBuf::from).filter(|place| place.starts_with(directory)).collect()
}

/// Detaches whatever is mounted at `path`, in use or not.
pub(crate) fn detach(path: &Path) {
    let lazy: io::Result<()> =
        rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).map_err(Into::into);
    if lazy.is_err() {
        let helper = Program::new("fusermount3").args(["-u", "-z", "--"]).arg(path).run();
        if !helper.succeeded() {
            eprintln!("{helper}");
        }
    }
}

/// A file system made for one test: a tmpfs of a given size, until dropped. Needs root.
pub struct SmallDisk {
    directory: TempDir,
    _image: Option<TempDir>,
}

impl SmallDisk {
    /// Mounts a tmpfs with room for `size` (as `mount -o size=` takes it).
    pub fn new(size: &str) -> SmallDisk {
        let directory = test_directory();
        Program::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "warmfront-test"])
            .arg(directory.path())
            .run()
            .success();
        SmallDisk { directory, _image: None }
    }

    /// Mounts a new ext4 in a file of `size_bytes`.
    pub fn ext4(size_bytes: u64) -> SmallDisk {
        let image = test_directory();
        let file = image.path().join("image");
        std::fs::File::create(&file).expect("a file").set_len(size_bytes).expect("a hole");
        Program::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&file).run().success();
        let directory = test_directory();
        Program::new("mount").args(["-o", "loop"]).arg(&file).arg(directory.path()).run().success();
        SmallDisk { directory, _image: Some(image) }
    }

    /// Its top directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Lets nobody write to it any more.
    pub fn make_read_only(&self) {
        let words = ["-o", "remount,ro"];
        Program::new("mount").args(words).arg(self.directory.path()).run().success();
    }
}

/// A file system that takes no writes for now: they hang. Until dropped.
pub struct Frozen(PathBuf);

impl Frozen {
    /// Freezes the file system of `disk`.
    pub fn new(disk: &SmallDisk) -> Frozen {
        Program::new("fsfreeze").arg("-f").arg(disk.path()).run().success();
        Frozen(disk.path().to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let thawed = Program::new("fsfreeze").arg("-u").arg(&self.0).run();
        if !thawed.succeeded() {
            eprintln!("{thawed}");
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        detach(self.directory.path());
    }
}
