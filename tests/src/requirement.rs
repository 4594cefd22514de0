use std::io::Write as _;
use std::path::PathBuf;

use crate::program::find_tool;

/// Something that a test cannot do without.
#[derive(Debug, Clone, Copy)]
pub enum Requirement {
    /// A mount through `/dev/fuse`.
    Fuse,
    /// To run as root.
    Root,
    /// A program of this name in `PATH` or among the tools that the set-up builds.
    Tool(&'static str),
    /// A file system of its own that takes no writes for a while, as [`Frozen`](crate::Frozen).
    FrozenDisk,
}

impl Requirement {
    /// Why the test cannot run here; `None` when it can.
    pub fn missing(self) -> Option<String> {
        match self {
            Requirement::Fuse => missing_fuse(),
            Requirement::Root => {
                (!rustix::process::geteuid().is_root()).then(|| "needs root".to_string())
            }
            Requirement::Tool(name) => find_tool(name)
                .is_none()
                .then(|| format!("needs the program {name}; scripts/setup test installs it")),
            Requirement::FrozenDisk => {
                let tools = ["mkfs.ext4", "fsfreeze"].map(Requirement::Tool);
                [Requirement::Root].into_iter().chain(tools).find_map(Requirement::missing)
            }
        }
    }
}

fn missing_fuse() -> Option<String> {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        return Some(format!("needs FUSE, but /dev/fuse does not open: {error}"));
    }
    let helper: Option<PathBuf> = find_tool("fusermount3");
    helper.is_none().then(|| "needs fusermount3; Debian's package is fuse3".to_string())
}

/// Says that the running test is skipped, and why.
///
/// The line goes to the process's standard error, past the test harness, which would keep it to
/// itself. Panics in continuous integration, where nothing may be missing.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    assert!(
        std::env::var_os("CI").is_none(),
        "{test} was to be skipped, which CI does not allow: {reason}"
    );
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Ends the test here, with the reason, when one of the [`Requirement`]s is missing.
#[macro_export]
macro_rules! require {
    ($($requirement:expr),+ $(,)?) => {
        $(
            if let Some(reason) = $requirement.missing() {
                $crate::skip(&reason);
                return;
            }
        )+
    };
}
