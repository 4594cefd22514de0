use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The variable that says what is logged, as `tracing-subscriber` reads it.
const VARIABLE: &str = "WARMFRONT_LOG";

/// A log file that has grown to this is begun anew, in bytes.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Sends what is logged to standard error: warnings and worse, unless `WARMFRONT_LOG` says
/// otherwise. Does nothing when somebody else takes it already.
pub fn start() {
    start_with(io::stderr);
}

/// The same where standard error is a file of ours, which must not grow without end.
pub(crate) fn start_bounded() {
    start_with(|| BoundedLog);
}

fn start_with<W>(writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(writer)
        .try_init();
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}

/// Standard error, emptied when it is too long. It was opened for appending, so that what is
/// written next stands at its start.
struct BoundedLog;

impl Write for BoundedLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let log = io::stderr();
        let length = u64::try_from(rustix::fs::fstat(&log)?.st_size).unwrap_or(0);
        if length > LOG_BYTES_MAX {
            rustix::fs::ftruncate(&log, 0)?;
        }
        log.lock().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
