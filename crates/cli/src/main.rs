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
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == daemon::DAEMON_ARGUMENT) && words.next().is_none() {
        return daemon::run_daemon();
    }
    match commands::run(Arguments::parse().command) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
