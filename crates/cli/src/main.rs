//! The `warmfront` command.

mod arguments;
mod bars;
mod commands;
mod demo;
mod draining;
mod failure;
mod format;
mod interrupt;
mod progress;
mod properties;
mod table;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.as_slice() {
        [only] if only == daemon::DAEMON_ARGUMENT => return daemon::run_daemon(),
        [first, path] if first == daemon::PROBE_ARGUMENT => return daemon::probe_device(path),
        _ => {}
    }
    match commands::run(Arguments::parse().command) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
