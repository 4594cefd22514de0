mod experiment;
mod report;
mod size;
mod sizing;

use std::fs;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use ::lab::{Form, Format, Replay, Row, Size, Trace};
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{LabCommand, PoliciesArguments};
use crate::failure::{Failure, Result};
use crate::format::{json, print};

pub(crate) fn run(command: LabCommand) -> Result<()> {
    match command {
        LabCommand::Policies(arguments) => policies(&arguments),
        LabCommand::Size(arguments) => sizing::run(&arguments),
        LabCommand::List => experiment::list(),
        LabCommand::Run(arguments) => experiment::run(&arguments),
    }
}

fn policies(arguments: &PoliciesArguments) -> Result<()> {
    let plan = Replay {
        policies: list(&arguments.policies, |word| word.parse().map_err(Failure::usage))?,
        sizes: list(&arguments.sizes, size::parse)?,
        form: if arguments.charge { Form::Charged } else { Form::Plain },
    };
    let format = arguments.format.as_deref().map(str::parse).transpose();
    let format = format.map_err(Failure::usage)?;

    if let Some(file) = &arguments.plot {
        check_writable("plot", file)?;
    }
    let mut rows = Vec::new();
    let mut text = String::new();
    for name in &arguments.traces {
        let (format, path) = split(name, format);
        let (trace, of_trace) = replay(&plan, path, format)?;
        match arguments.markdown {
            true => text.push_str(&report::markdown(&trace, &plan, &of_trace, rows.is_empty())),
            false => text.push_str(&report::people(&trace, &plan, &of_trace)),
        }
        rows.extend(of_trace);
    }
    if arguments.traces.len() > 1 {
        text.push_str(&report::standings(&lab::standings(&rows), arguments.markdown));
    }

    if let Some(file) = &arguments.plot {
        write_plot(file, &lab::plot::svg(&rows).map_err(Failure::new)?)?;
    }
    print(&match arguments.json {
        true => json(&rows),
        false => text,
    });
    Ok(())
}

/// Refuses a file that cannot be written before anything is computed for it.
fn check_writable(what: &str, file: &Path) -> Result<()> {
    let is_new = !file.exists();
    fs::File::options().append(true).create(true).open(file).map_err(|error| {
        Failure::new(format!("cannot write the {what} {}: {error}", file.display()))
    })?;
    if is_new {
        // Nothing stays behind of what then fails.
        let _ = fs::remove_file(file);
    }
    Ok(())
}

fn write_plot(file: &Path, picture: &str) -> Result<()> {
    fs::write(file, picture)
        .map_err(|error| Failure::new(format!("cannot write the plot {}: {error}", file.display())))
}

/// A trace's own format, if one stands before its path, and the path.
fn split(name: &str, format: Option<Format>) -> (Option<Format>, &Path) {
    if let Some((before, path)) = name.split_once(':')
        && let Ok(format) = before.parse()
    {
        return (Some(format), Path::new(path));
    }
    (format, Path::new(name))
}

fn replay(plan: &Replay, path: &Path, format: Option<Format>) -> Result<(Trace, Vec<Row>)> {
    let bar = progress_bar();
    bar.set_message(format!("reading {}", path.display()));
    let trace = Trace::read(path, format).map_err(Failure::new)?;
    for size in &plan.sizes {
        if let (Size::Bytes(bytes), Some(block)) = (*size, plan.form.block_bytes(&trace))
            && bytes < u64::from(block)
        {
            return Err(Failure::usage(format!(
                "a cache of {bytes} bytes has no room for a block of {}, which takes {block}; \
                 write at least so many bytes, or a number of blocks such as 1b",
                path.display()
            )));
        }
    }
    bar.set_length(plan.requests(&trace));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos} requests, {eta} left") {
        bar.set_style(style);
    }
    let rows = lab::replay(&trace, plan, &|requests| bar.inc(requests));
    bar.finish_and_clear();
    Ok((trace, rows))
}

/// Words between commas; a word that comes again counts once.
fn list<T: PartialEq>(text: &str, read: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    for word in text.split(',') {
        let item = read(word.trim())?;
        if !items.contains(&item) {
            items.push(item);
        }
    }
    Ok(items)
}

/// A text in lines of so many characters at most, if its words let it.
fn filled(text: &str, width: usize) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            // A percent sign stays with its number.
            Some(line)
                if word == "%" || line.chars().count() + 1 + word.chars().count() <= width =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.into_iter()
}

fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
