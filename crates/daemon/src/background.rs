use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::logging;
use crate::logs::MountProgress;
use crate::mount::Prepared;
use crate::paths::Paths;
use crate::request::{MountError, MountRequest, Mounted};
use crate::service::PROGRESS_INTERVAL;

/// The only argument of the command that becomes a daemon. Not for people.
pub const DAEMON_ARGUMENT: &str = "run-daemon";

/// Longest wait for a mount to answer, or to say how far it is.
const READY_MAX: Duration = Duration::from_secs(120);

/// Between two looks whether somebody still waits for the mount.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Longest line with which a daemon says how it went, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What the daemon is to do, on its standard input.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    #[serde(with = "crate::wire_path")]
    config: std::path::PathBuf,
    #[serde(with = "crate::wire_path")]
    runtime: std::path::PathBuf,
    #[serde(with = "crate::wire_path")]
    state: std::path::PathBuf,
    #[serde(with = "crate::wire_path")]
    directory: std::path::PathBuf,
    request: MountRequest,
}

/// How it went, on its standard output.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    /// Not yet; another line follows.
    Progress(MountProgress),
    Ready(Box<Mounted>),
    Failed {
        message: String,
        is_usage: bool,
    },
}

/// Is told how far a mount is, or nothing new, and says whether to go on waiting for it.
pub type TellMount<'a> = &'a mut dyn FnMut(Option<MountProgress>) -> ControlFlow<()>;

/// Starts a daemon that mounts, and returns when the mount answers. Until then `tell` is told how
/// far it is, if that takes its time, and again and again nothing; when it breaks, the daemon is
/// ended.
///
/// The daemon is this program again, with [`DAEMON_ARGUMENT`] alone, which must lead to
/// [`run_daemon`].
///
/// # Errors
/// When it cannot be mounted.
pub fn mount_in_background(
    paths: &Paths,
    request: &MountRequest,
    tell: TellMount<'_>,
) -> Result<Mounted, MountError> {
    let system = |action| move |error| MountError::System { action, error };
    let order = Order {
        config: paths.config_directory().to_owned(),
        runtime: paths.runtime_directory().to_owned(),
        state: paths.state_directory().to_owned(),
        directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        request: request.clone(),
    };
    let order = serde_json::to_vec(&order)
        .map_err(|error| system("write down the request")(error.into()))?;
    let mut child = Command::new("/proc/self/exe")
        .arg0("warmfront")
        .arg(DAEMON_ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(system("start the daemon"))?;
    let outcome = talk(&mut child, &order, tell);
    match outcome {
        Ok(Some(Outcome::Ready(mounted))) => Ok(*mounted),
        Ok(Some(Outcome::Failed { message, is_usage })) => {
            // It has nothing more to do; its status says nothing that the message does not.
            let _ = child.wait();
            Err(MountError::Background { message, is_usage })
        }
        Ok(Some(Outcome::Progress(_)) | None) => {
            let status = child.wait().map_err(system("wait for the daemon"))?;
            let message = format!(
                "the daemon ended before the mount answered ({status}); its log is in {}",
                paths.runtime_directory().display()
            );
            Err(MountError::Background { message, is_usage: false })
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            let _ = child.kill();
            let _ = child.wait();
            Err(MountError::Stopped)
        }
        Err(error) => {
            // Only a daemon that has not got as far as a mount that answers is ended here.
            let _ = child.kill();
            let _ = child.wait();
            let message = format!("the daemon does not say that the mount answers: {error}");
            Err(MountError::Background { message, is_usage: false })
        }
    }
}

/// Gives the order and waits for the line that says how it went. `None` if that makes no sense.
fn talk(child: &mut Child, order: &[u8], tell: TellMount<'_>) -> io::Result<Option<Outcome>> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    input.write_all(order)?;
    drop(input);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new().name("readiness".into()).spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let is_last = !matches!(read, Ok(bytes) if bytes > 0);
            // Nobody listens any more when it took too long, or knows enough.
            if sender.send(read.map(|_| line)).is_err() || is_last {
                break;
            }
        }
    })?;
    let mut heard = Instant::now();
    loop {
        let news = match receiver.recv_timeout(LOOK_INTERVAL) {
            Ok(line) => {
                heard = Instant::now();
                match serde_json::from_slice(&line?) {
                    Ok(Outcome::Progress(now)) => Some(now),
                    outcome => return Ok(outcome.ok()),
                }
            }
            Err(_) if heard.elapsed() >= READY_MAX => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => None,
        };
        if tell(news).is_break() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}

/// The daemon: takes its order from standard input, says on standard output how it went, and
/// serves until the mount is gone.
pub fn run_daemon() -> ExitCode {
    // Signals of the terminal are for the command that waits, not for us.
    let _ = rustix::process::setsid();
    // Else it would be called `exe`, after the link that it was started by.
    let _ = rustix::thread::set_name(c"warmfront");
    let failed = |message: String, is_usage| {
        let _ = say(&Outcome::Failed { message, is_usage });
        ExitCode::FAILURE
    };
    let prepared = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return failed(error.to_string(), error.is_usage()),
    };
    let log = prepared.log();
    if let Err(error) = redirect_to(&log) {
        return failed(format!("cannot write the log {}: {error}", log.display()), false);
    }
    logging::start_bounded();
    let told = Mutex::new(None::<Instant>);
    let tell = |progress| {
        let mut told = told.lock();
        if told.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL) {
            *told = Some(Instant::now());
            // That nobody waits any more is found out when the mount answers.
            let _ = say(&Outcome::Progress(progress));
        }
    };
    let running = match prepared.start(Some(log), &tell) {
        Ok(running) => running,
        Err(error) => return failed(error.to_string(), error.is_usage()),
    };
    if say(&Outcome::Ready(Box::new(running.mounted().clone()))).is_err() {
        tracing::warn!("nobody waits for the mount any more; it is taken away again");
        running.give_up();
        return ExitCode::FAILURE;
    }
    if let Err(error) = close_output() {
        tracing::warn!(%error, "standard input and output stay open");
    }
    running.wait();
    ExitCode::SUCCESS
}

fn prepare() -> Result<Prepared, MountError> {
    let system = |action| move |error| MountError::System { action, error };
    let mut text = Vec::new();
    let input = io::stdin().lock();
    input.take(LINE_BYTES_MAX).read_to_end(&mut text).map_err(system("read what to mount"))?;
    let order: Order = serde_json::from_slice(&text)
        .map_err(|error| system("understand what to mount")(error.into()))?;
    std::env::set_current_dir(&order.directory).map_err(system("go where the command was"))?;
    let paths = Paths::new(order.config, order.runtime).with_state(order.state);
    Prepared::new(&paths, &order.request)
}

fn say(outcome: &Outcome) -> io::Result<()> {
    let mut line = serde_json::to_vec(outcome)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

/// Lets everything on standard error go to the log.
fn redirect_to(log: &Path) -> io::Result<()> {
    let file = File::options().create(true).append(true).mode(0o600).open(log)?;
    Ok(rustix::stdio::dup2_stderr(&file)?)
}

/// Lets go of the pipes to the command that has waited.
fn close_output() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(rustix::stdio::dup2_stdout(&nothing)?)
}
