//! Side-by-side runs of Warmfront and what a user would pick instead, as ratios.
//!
//! The machines that this runs on are shared and vary, so nothing is compared across runs: in each
//! round every subject does the same work once, in turn, and the ratios of a round are taken
//! before the median over the rounds.

mod case;
mod fio;
mod flash;
mod levels;
mod log;
mod machine;
mod mounted_flash;
mod outcome;
mod plots;
mod report;
mod restart;
mod slow_device;
mod subject;
mod truth;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use case::{Bench, Case};

/// Compares Warmfront with bindfs, fio, rclone, zfs-fuse, the transport's limit and the page cache.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds; the median is reported.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds that each fio run takes.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// MiB of the file that is read.
    #[arg(long, default_value_t = 512)]
    file_mib: u64,
    /// Only groups with a case whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// A directory on the disk to measure on; it needs 8 GiB.
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
    /// Write the report to this Markdown file as well.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Write plots of what mounts do into this directory, as SVG, one for each unit.
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Measure nothing: take the report that a run has printed, or the docs, in this file.
    #[arg(long)]
    rows: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("warmfront-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let report = match &arguments.rows {
        Some(file) => warmfront_bench::read(file)?,
        None => measured(arguments)?,
    };
    match &arguments.plots {
        Some(directory) => plots::write_all(&report, directory),
        None => Ok(()),
    }
}

/// Measures what is wanted, and prints the report.
fn measured(arguments: &Arguments) -> Result<String, String> {
    let bench = Bench::prepare(arguments)?;
    let mut results = Vec::new();
    let wanted =
        |name: &str| arguments.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    for group in case::GROUPS {
        if group.cases.iter().any(|case| wanted(case.comparison.name)) {
            for Case { comparison, .. } in group.cases {
                eprintln!("{}: {}", comparison.name, comparison.what);
            }
            results.extend(bench.run(group));
        }
    }
    if flash::is_wanted(wanted) {
        results.extend(flash::run(arguments)?);
    }
    if mounted_flash::is_wanted(wanted) {
        results.extend(mounted_flash::run(arguments, wanted)?);
    }
    if restart::is_wanted(wanted) {
        results.push(restart::run(arguments)?);
    }
    if levels::is_wanted(wanted) {
        results.extend(levels::run(arguments, wanted)?);
    }
    if log::is_wanted(wanted) {
        results.extend(log::run(arguments)?);
    }
    if writes::is_wanted(wanted) {
        results.extend(writes::run(arguments, wanted)?);
    }
    if truth::is_wanted(wanted) {
        results.extend(truth::run(arguments, wanted)?);
    }
    let report = report::markdown(&machine::facts(), &results);
    println!("{report}");
    if let Some(output) = &arguments.output {
        std::fs::write(output, &report)
            .map_err(|error| format!("cannot write {}: {error}", output.display()))?;
    }
    Ok(report)
}
