use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Group;

/// Where Debian has the programs of each version of PostgreSQL.
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// Where `name` is: among the tools that the set-up builds, in `PATH`, or where Debian has what
/// ordinary users do not call.
///
/// Cargo puts a test program into `TARGET/release/deps`, the set-up puts tools into
/// `TARGET/tools/bin`.
pub(crate) fn find_tool(name: &str) -> Option<PathBuf> {
    let built = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.parent()?.parent()?.join("tools/bin")));
    let search = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let versions = std::fs::read_dir(POSTGRESQL)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max());
    built
        .into_iter()
        .chain(std::env::split_paths(&search))
        .chain(system)
        .chain(versions.ok().flatten())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// Where the program `name` is, for others to start it.
pub fn tool(name: &str) -> PathBuf {
    find_tool(name).unwrap_or_else(|| PathBuf::from(name))
}

/// The same command by way of a shell that first joins the control group with this list of
/// members. The process stays the same.
pub(crate) fn joining(command: &Command, members: &Path) -> Command {
    let mut joining = Command::new("sh");
    joining.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(members);
    joining.arg(command.get_program()).args(command.get_args());
    adopt_environment(&mut joining, command);
    if let Some(directory) = command.get_current_dir() {
        joining.current_dir(directory);
    }
    joining
}

/// Lets a command have the environment of another one.
fn adopt_environment(command: &mut Command, other: &Command) {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// A program to be run to its end, with a deadline.
pub struct Program {
    command: Command,
    input: Vec<u8>,
    deadline: Duration,
}

/// What became of a [`Program`].
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Its standard error, invalid UTF-8 replaced.
    pub stderr: String,
    /// The command line, for messages.
    pub line: String,
}

impl Program {
    /// The program `name`, from the search path or beside the build. Its deadline is one minute.
    pub fn new(name: impl AsRef<OsStr>) -> Program {
        let name = name.as_ref();
        let path = name.to_str().map_or_else(|| PathBuf::from(name), tool);
        let mut command = Command::new(path);
        // Messages are compared and read by people: English, and no backtraces.
        command.env("LC_ALL", "C").env("RUST_BACKTRACE", "0").env_remove("RUST_LOG");
        Program { command, input: Vec::new(), deadline: Duration::from_secs(60) }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Program {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Program {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Program {
        self.command.current_dir(path);
        self
    }

    /// Sets what it reads on standard input; nothing by default.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Program {
        self.input = bytes.into();
        self
    }

    /// Sets the time after which it is killed and the test fails.
    pub fn deadline(mut self, deadline: Duration) -> Program {
        self.deadline = deadline;
        self
    }

    /// The bare command, to be started in another way.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Lets it run in a control group from its first instruction on.
    pub fn within(mut self, group: &Group) -> Program {
        self.command = joining(&self.command, &group.members());
        self
    }

    /// Lets it run in a terminal of so many columns, by `script`. What it writes, errors too, is
    /// standard output.
    pub fn in_terminal(mut self, columns: usize) -> Program {
        let quoted = |word: &OsStr| {
            let word = word.to_str().expect("words are text");
            format!("'{}'", word.replace('\'', "'\\''"))
        };
        let program = std::iter::once(self.command.get_program());
        let words: Vec<String> = program.chain(self.command.get_args()).map(quoted).collect();
        let line = format!("stty columns {columns} && exec {}", words.join(" "));
        let mut terminal = Command::new(tool("script"));
        terminal.args(["-q", "-e", "-c", &line, "/dev/null"]);
        adopt_environment(&mut terminal, &self.command);
        self.command = terminal;
        self
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Finished {
        let line = format!("{:?}", self.command);
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{line} does not start: {error}"));
        let stdout = gather(child.stdout.take().expect("piped"));
        let stderr = gather(child.stderr.take().expect("piped"));
        let mut stdin = child.stdin.take().expect("piped");
        let input = std::mem::take(&mut self.input);
        // A program may end without having read its input; its status tells what matters.
        std::thread::spawn(move || stdin.write_all(&input));

        let start = Instant::now();
        let status = wait(&mut child, self.deadline)
            .unwrap_or_else(|| panic!("{line} did not end within {:?}", self.deadline));
        let left = (self.deadline + Duration::from_secs(5)).saturating_sub(start.elapsed());
        let text = |output: mpsc::Receiver<Vec<u8>>| {
            let bytes = output.recv_timeout(left).unwrap_or_else(|_| {
                panic!("{line} ended, but something that it started keeps its output open")
            });
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Finished { status, stdout: text(stdout), stderr: text(stderr), line }
    }
}

/// Waits for the end of `child`; kills it and returns `None` when the deadline passes first.
pub(crate) fn wait(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if start.elapsed() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn gather(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// A program that runs beside the test, killed when dropped.
pub struct Background {
    child: Child,
}

impl Background {
    /// Starts `program` with `stdin`; what it says is lost.
    pub fn start(program: Program, stdin: Stdio) -> Background {
        let mut command = program.into_command();
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Background { child }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits for its end, and panics when the deadline passes first.
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        wait(&mut self.child, deadline).expect("the program ends")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Whether it exited with status 0.
    pub fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// Panics, showing what it said, unless it exited with status 0. Returns its standard output.
    #[track_caller]
    pub fn success(self) -> String {
        assert!(self.succeeded(), "{self}");
        self.stdout
    }

    /// Panics unless it exited with `code` and said each of `fragments` on standard error.
    ///
    /// A panic of the program itself never counts as an answer, nor does death by a signal.
    #[track_caller]
    pub fn fails_with(self, code: i32, fragments: &[&str]) -> Finished {
        assert_eq!(self.status.signal(), None, "{self}");
        assert!(!self.stderr.contains("panicked at"), "{self}");
        assert_eq!(self.status.code(), Some(code), "{self}");
        for fragment in fragments {
            assert!(self.stderr.contains(fragment), "no {fragment:?} in the message of {self}");
        }
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tail = |text: &str| {
            let start = text.len().saturating_sub(8000);
            let start = (start..).find(|&index| text.is_char_boundary(index)).unwrap_or(0);
            text.get(start..).unwrap_or_default().to_string()
        };
        write!(
            out,
            "{}\n  {}\n  --- standard output\n{}\n  --- standard error\n{}",
            self.line,
            self.status,
            tail(&self.stdout),
            tail(&self.stderr)
        )
    }
}
