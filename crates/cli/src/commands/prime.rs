use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use daemon::protocol::{Prime, PrimeProgress, PrimeReport};
use daemon::{Paths, Target};
use indicatif::{ProgressBar, ProgressStyle};
use warmfront::{HumanSize, parse_size};

use crate::failure::{Failure, Result, status};
use crate::format::{count, json, print};
use crate::interrupt::Interrupt;
use crate::progress::sized;

pub(crate) fn prime(
    paths: &Paths,
    rate: Option<&str>,
    dry_run: bool,
    as_json: bool,
    files: &[PathBuf],
) -> Result<ExitCode> {
    let rate = rate.map(parse_size).transpose().map_err(Failure::usage)?;
    if rate == Some(0) {
        return Err(Failure::usage("a rate of 0 reads nothing; leave --rate out for no bound"));
    }
    let mut targets: Vec<(Target, Vec<PathBuf>)> = Vec::new();
    for file in files {
        let target = Target::find(paths, file.as_os_str())?;
        // A pool or dataset named as such means all of it.
        let path = target.path.clone().unwrap_or_else(|| target.dataset.path.clone());
        match targets.iter_mut().find(|(other, _)| other.pool == target.pool) {
            Some((_, paths)) => paths.push(path),
            None => targets.push((target, vec![path])),
        }
    }
    let interrupt = Interrupt::watch()
        .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
    let mut partly = false;
    for (target, paths) in targets {
        let request = Prime { paths, rate_bytes_per_second: rate, dry_run };
        let bar = progress_bar(as_json);
        let report = target.client()?.prime(request, &mut |progress| {
            show(&bar, progress);
            match interrupt.is_set() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        bar.finish_and_clear();
        let Some(report) = report.filter(|report| !report.interrupted) else {
            return Err(Failure::interrupted(
                "stopped; what was read stays in the cache, and the same command goes on there",
            ));
        };
        print(&if as_json { json(&report) } else { summary(&report, dry_run) });
        for error in &report.errors {
            eprintln!("warmfront: {error}");
        }
        partly |= !report.all_fits() || report.errors_total > 0;
    }
    Ok(if partly { ExitCode::from(status::PARTLY) } else { ExitCode::SUCCESS })
}

fn progress_bar(hidden: bool) -> ProgressBar {
    if hidden || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, progress: PrimeProgress) {
    if progress.bytes_total == 0 {
        bar.set_message(format!("looking: {} files", count(progress.files)));
        return;
    }
    if bar.length() != Some(progress.bytes_total) {
        bar.set_length(progress.bytes_total);
        let template = "{bar:30} {size} of {whole}, {speed}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(sized(style));
        }
    }
    bar.set_position(progress.bytes_done);
}

fn summary(report: &PrimeReport, dry_run: bool) -> String {
    let size = |bytes| HumanSize(bytes).to_string();
    let wanted = report.bytes_found - report.bytes_excluded;
    let mut lines = vec![format!(
        "{} in {} files and {} directories",
        size(report.bytes_found),
        count(report.files),
        count(report.directories)
    )];
    if report.bytes_excluded > 0 {
        lines.push(format!(
            "{} of it belongs to datasets whose primarycache keeps no contents",
            size(report.bytes_excluded)
        ));
    }
    if report.all_fits() {
        lines.push(format!("all of it fits into {}", size(report.bytes_capacity)));
    } else {
        lines.push(format!(
            "not all of it fits: {} of {} into {}; raise --arc-max for the rest",
            size(report.bytes_fitting),
            size(wanted),
            size(report.bytes_capacity)
        ));
    }
    if !dry_run {
        lines.push(format!(
            "{} read from the origin, {} was cached already",
            size(report.bytes_fetched),
            size(report.bytes_cached)
        ));
    }
    if report.errors_total > 0 {
        lines.push(format!("{} files or directories could not be read", report.errors_total));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_does_not_fit() {
        let report = PrimeReport {
            files: 2000,
            directories: 3,
            bytes_found: 3 << 30,
            bytes_fitting: 1 << 30,
            bytes_capacity: 1 << 30,
            ..PrimeReport::default()
        };
        let text = summary(&report, true);
        assert!(text.contains("not all of it fits: 1G of 3G into 1G"), "{text}");
        let fits = PrimeReport { bytes_fitting: 3 << 30, bytes_fetched: 3 << 30, ..report };
        let text = summary(&fits, false);
        assert!(text.contains("all of it fits") && text.contains("3G read"), "{text}");
    }
}
