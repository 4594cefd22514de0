use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The first of two arguments of the command that looks whether a device answers; the second is its
/// path. Not for people.
pub const PROBE_ARGUMENT: &str = "probe-device";

/// Between two looks whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Touches the device at `path` as whoever opens and writes it does, changes nothing, and ends when
/// that was answered, however.
pub fn probe_device(path: &OsStr) -> ExitCode {
    let path = Path::new(path);
    let place = match path.symlink_metadata() {
        Ok(_) => path,
        Err(_) => path.parent().unwrap_or(path),
    };
    let kind = place.metadata().map(|metadata| metadata.file_type());
    // There is no such attribute. Before that is found out, the kernel waits for leave to write.
    let _ = rustix::fs::removexattr(place, "user.warmfront.none");
    // Who serves a file system may leave both to the kernel, and be stopped.
    if kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device()) {
        let _ = File::open(place).and_then(|mut file| file.read(&mut [0; 512]));
    }
    ExitCode::SUCCESS
}

/// A look at whether a device answers, by a process of its own: what is called of a file system
/// that is frozen cannot be ended, and would keep this process from ending too.
///
/// The process is this program again, with [`PROBE_ARGUMENT`] and a path, which must lead to
/// [`probe_device`].
#[derive(Debug)]
pub(crate) struct Probe(Option<Child>);

impl Probe {
    /// Begins to look.
    pub fn start(path: &Path) -> io::Result<Probe> {
        let nothing = Stdio::null;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("warmfront").arg(PROBE_ARGUMENT).arg(path).current_dir("/");
        let child = command.stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn()?;
        Ok(Probe(Some(child)))
    }

    /// Whether the device answers until then.
    pub fn answers(&mut self, until: Instant) -> bool {
        loop {
            let Some(child) = &mut self.0 else { return true };
            if !matches!(child.try_wait(), Ok(None)) {
                self.0 = None;
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        let _ = child.kill();
        // It ends when the device answers; if no thread can wait for that, it ends with us.
        let _ = thread::Builder::new().name("probe".into()).spawn(move || drop(child.wait()));
    }
}
