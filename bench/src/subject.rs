use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Waiting for a mount to answer, or to go, ends after this long.
const DEADLINE: Duration = Duration::from_secs(30);

/// What serves the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Warmfront with these properties.
    Warmfront(&'static str),
    /// A file system in memory over the same transport: the limit.
    Floor(Floor),
    /// The directory itself.
    Plain,
    Bindfs,
    Rclone,
    ZfsFuse,
}

/// Where the limit's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Floor {
    /// A buffer that stays in the processor's caches.
    SmallBuffer,
    /// A buffer as large as the file, as a cache of the file has to be.
    WholeBuffer,
    /// The kernel's page cache above the file system.
    PageCache,
}

impl Subject {
    pub(crate) fn name(self) -> String {
        match self {
            Subject::Warmfront(properties) => {
                format!("warmfront {}", properties.split(' ').next().unwrap_or_default())
            }
            Subject::Floor(Floor::SmallBuffer) => "transport's limit, 2 MiB buffer".to_string(),
            Subject::Floor(Floor::WholeBuffer) => "transport's limit, file-size buffer".to_string(),
            Subject::Floor(Floor::PageCache) => "page cache over FUSE, limit".to_string(),
            Subject::Plain => "plain directory".to_string(),
            Subject::Bindfs => "bindfs".to_string(),
            Subject::Rclone => "rclone full".to_string(),
            Subject::ZfsFuse => "zfs-fuse".to_string(),
        }
    }

    /// Puts the subject in front of `origin`; `file` is the file in it that will be read.
    pub(crate) fn mount(self, origin: &Path, file: &str, file_mib: u64) -> Result<Mounted, String> {
        match self {
            Subject::Plain => Ok(Mounted::plain(origin)),
            Subject::Warmfront(properties) => {
                let options = properties.split_whitespace().flat_map(|it| ["-o", it]);
                let options: Vec<_> = ["--arc-max", "3G"].into_iter().chain(options).collect();
                Mounted::warmfront(origin, &options)
            }
            Subject::Floor(floor) => {
                let size = format!("{file_mib}M");
                let mut command = Command::new(sibling("fuse-floor")?);
                command.args(["--name", file, "--size", &size]);
                match floor {
                    Floor::SmallBuffer => command.args(["--buffer", "2M"]),
                    Floor::WholeBuffer => command.args(["--buffer", &size]),
                    Floor::PageCache => command.arg("--page-cache"),
                };
                Mounted::by(command, &["fusermount3", "-u"], None)
            }
            Subject::Bindfs => Mounted::bindfs(origin, &[]),
            Subject::Rclone => {
                let cache = directory()?;
                let mut command = Command::new("rclone");
                command.arg("mount").arg(origin);
                command.args(["--vfs-cache-mode", "full", "--cache-dir"]).arg(cache.path());
                command.args(["--config", "/dev/null"]);
                Mounted::by(command, &["fusermount3", "-u"], Some(cache))
            }
            Subject::ZfsFuse => zfs_fuse(origin, file, file_mib),
        }
    }
}

/// A subject that serves files; dropping it ends it and leaves nothing.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) root: PathBuf,
    held: Held,
    /// Where Warmfront keeps what it knows of its mounts.
    state: Option<PathBuf>,
}

#[derive(Debug)]
enum Held {
    Nothing,
    Process { child: Child, unmount: Vec<String>, mountpoint: TempDir, extra: Option<TempDir> },
    Zfs { child: Child, pool: String, _scratch: TempDir },
}

impl Mounted {
    /// Warmfront, mounted with these options.
    pub(crate) fn warmfront(
        origin: &Path,
        options: &[impl AsRef<std::ffi::OsStr>],
    ) -> Result<Mounted, String> {
        let state = directory()?;
        let mut mounted = Mounted::warmfront_again(state.path(), origin, options)?;
        if let Held::Process { extra, .. } = &mut mounted.held {
            *extra = Some(state);
        }
        Ok(mounted)
    }

    /// The same, with what mounts before it have left in `state`, which stays.
    pub(crate) fn warmfront_again(
        state: &Path,
        origin: &Path,
        options: &[impl AsRef<std::ffi::OsStr>],
    ) -> Result<Mounted, String> {
        let mut command = warmfront(state)?;
        command.args(["mount", "-f"]).args(options).arg(origin);
        let mut mounted = Mounted::by(command, &["fusermount3", "-u"], None)?;
        mounted.state = Some(state.to_owned());
        Ok(mounted)
    }

    /// bindfs over a directory.
    pub(crate) fn bindfs(origin: &Path, options: &[&str]) -> Result<Mounted, String> {
        let mut command = Command::new("bindfs");
        command.arg("-f").args(options).arg(origin);
        Mounted::by(command, &["fusermount3", "-u"], None)
    }

    /// The directory itself.
    pub(crate) fn plain(root: &Path) -> Mounted {
        Mounted { root: root.to_owned(), held: Held::Nothing, state: None }
    }

    /// One of Warmfront's counters.
    pub(crate) fn counter(&self, name: &str) -> Result<u64, String> {
        let counters = self.counters()?;
        counters.get(name).copied().ok_or_else(|| format!("warmfront does not count {name}"))
    }

    /// All of them.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>, String> {
        let state = self.state.as_deref().ok_or("only warmfront counts")?;
        let output = warmfront(state)?.args(["status", "--json"]).arg(&self.root).output();
        let output = output.map_err(|error| format!("cannot run warmfront: {error}"))?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let counters = status["counters"].as_object().into_iter().flatten();
        let counters = counters.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)));
        Ok(counters.collect())
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self) {
        if let Held::Process { child, .. } = &mut self.held {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn by(
        mut command: Command,
        unmount: &[&str],
        extra: Option<TempDir>,
    ) -> Result<Mounted, String> {
        let mountpoint = directory()?;
        let root = mountpoint.path().to_owned();
        // rclone wants its flags anywhere, everybody else takes the mount point last.
        command.arg(&root).stdout(Stdio::null()).stderr(Stdio::null());
        let what = format!("{command:?}");
        let child = command.spawn().map_err(|error| format!("cannot run {what}: {error}"))?;
        let unmount = unmount.iter().map(ToString::to_string).collect();
        let held = Held::Process { child, unmount, mountpoint, extra };
        let mounted = Mounted { root, held, state: None };
        let before = device(mounted.root.parent().unwrap_or(Path::new("/")));
        wait_until(|| device(&mounted.root) != before)
            .map_err(|()| format!("{what} did not mount in {DEADLINE:?}"))?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        match &mut self.held {
            Held::Nothing => {}
            Held::Process { child, unmount, mountpoint, .. } => {
                let _ = Command::new(&unmount[0])
                    .args(&unmount[1..])
                    .arg(mountpoint.path())
                    .stderr(Stdio::null())
                    .status();
                end(child);
            }
            Held::Zfs { child, pool, .. } => {
                // Its file system stays busy for a moment after the last file was closed.
                let _ =
                    wait_until(|| succeeds(Command::new("zpool").args(["destroy", "-f", pool])));
                let _ = rustix::process::kill_process(
                    rustix::process::Pid::from_child(child),
                    rustix::process::Signal::TERM,
                );
                end(child);
            }
        }
    }
}

/// A pool on a file, with the file to be read copied into it.
fn zfs_fuse(origin: &Path, file: &str, file_mib: u64) -> Result<Mounted, String> {
    let scratch = directory()?;
    let backing = scratch.path().join("backing");
    let mountpoint = scratch.path().join("mount");
    let device = std::fs::File::create(&backing).map_err(|error| error.to_string())?;
    device.set_len((file_mib + 512) << 20).map_err(|error| error.to_string())?;
    let child = Command::new("zfs-fuse")
        .args(["--no-daemon", "--max-arc-size", "2048"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run zfs-fuse: {error}"))?;
    let pool = format!("bench{}", std::process::id());
    let mounted = Mounted {
        root: mountpoint.clone(),
        held: Held::Zfs { child, pool: pool.clone(), _scratch: scratch },
        state: None,
    };
    let create = || {
        let mut command = Command::new("zpool");
        succeeds(command.args(["create", "-f", "-m"]).arg(&mountpoint).arg(&pool).arg(&backing))
    };
    wait_until(create).map_err(|()| "zfs-fuse did not make a pool".to_string())?;
    std::fs::copy(origin.join(file), mountpoint.join(file)).map_err(|error| error.to_string())?;
    Ok(mounted)
}

/// The command, knowing of the mounts in `state` alone.
fn warmfront(state: &Path) -> Result<Command, String> {
    let mut command = Command::new(sibling("warmfront")?);
    for name in ["WARMFRONT_RUNTIME_DIR", "WARMFRONT_STATE_DIR", "WARMFRONT_CONFIG_DIR"] {
        command.env(name, state);
    }
    Ok(command)
}

fn succeeds(command: &mut Command) -> bool {
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn end(child: &mut Child) {
    if wait_until(|| matches!(child.try_wait(), Ok(Some(_)))).is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn wait_until(mut done: impl FnMut() -> bool) -> Result<(), ()> {
    let started = Instant::now();
    while !done() {
        if started.elapsed() > DEADLINE {
            return Err(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn device(path: &Path) -> Option<u64> {
    rustix::fs::stat(path).ok().map(|stat| stat.st_dev)
}

fn directory() -> Result<TempDir, String> {
    tempfile::tempdir_in("/var/tmp").map_err(|error| format!("cannot make a directory: {error}"))
}

/// A program that was built together with this one.
fn sibling(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = own.with_file_name(name);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is not built; run `make bench`", path.display())),
    }
}
