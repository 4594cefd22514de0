use std::fs;
use std::path::Path;

use ::lab::experiment::{self, Basis, Entry, Experiment, ExperimentError, Finding, Outcome};
use indicatif::ProgressStyle;

use super::{check_writable, filled, progress_bar};
use crate::arguments::ExperimentArguments;
use crate::bars::{room, width};
use crate::failure::{Failure, Result};
use crate::format::{Form, print};
use crate::table::Table;

/// A table for people.
const PEOPLE: Form = Form { script: false, exact: false, json: false };

/// Between two columns, and the least that what was found gets.
const GAP_COLUMNS: usize = 2;
const FOUND_COLUMNS_MIN: usize = 24;

/// Shows the experiments with their questions.
pub(crate) fn list() -> Result<()> {
    let mut table = Table::new(&["NAME", "QUESTION"]);
    let names = Experiment::names().iter().map(|name| name.len()).max().unwrap_or(0);
    // Who searches the list finds a question in one line.
    let room = room().saturating_sub(names + GAP_COLUMNS);
    for name in Experiment::names() {
        let experiment = Experiment::shipped(name).map_err(Failure::new)?;
        let mut lines = filled(&experiment.question, room);
        let first = lines.next().unwrap_or_default();
        table.row(vec![name.to_string(), first]);
        lines.for_each(|line| table.row(vec![String::new(), line]));
    }
    print(&table.render(PEOPLE));
    Ok(())
}

/// Does experiments, one after the other.
pub(crate) fn run(arguments: &ExperimentArguments) -> Result<()> {
    let names = match arguments.all {
        true => Experiment::names(),
        false => arguments.names.iter().map(String::as_str).collect(),
    };
    // All are looked up before the first is done.
    let experiments = names
        .iter()
        .map(|name| found(name).map(|experiment| (*name, experiment)))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(Failure::usage)?;
    if let Some(file) = &arguments.report {
        check_writable("report", file)?;
    }
    let bar = progress_bar();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
        bar.set_style(style);
    }
    let (mut done, count) = (Vec::new(), experiments.len());
    for (index, (name, experiment)) in experiments.into_iter().enumerate() {
        let of_all = if count > 1 { format!(" ({} of {count})", index + 1) } else { String::new() };
        bar.set_message(format!("{name}{of_all}"));
        let told = |case: &str| bar.set_message(format!("{name}{of_all}: {case}"));
        let outcome = experiment.run(&told).map_err(Failure::new)?;
        let is_first = index == 0;
        let text = match (arguments.csv, arguments.markdown) {
            (true, _) => {
                let csv = experiment::csv(name, &outcome.findings);
                // One line of headings for all.
                let skipped = if is_first { 0 } else { csv.find('\n').map_or(0, |end| end + 1) };
                csv[skipped..].to_string()
            }
            (_, true) => ::lab::report::markdown(name, &experiment, &outcome, is_first),
            _ => people(name, &experiment, &outcome, is_first),
        };
        bar.suspend(|| print(&text));
        done.push((name, experiment, outcome));
    }
    bar.finish_and_clear();
    if let Some(file) = &arguments.report {
        let page = ::lab::report::html(&done).map_err(Failure::new)?;
        fs::write(file, page).map_err(|error| {
            Failure::new(format!("cannot write the report {}: {error}", file.display()))
        })?;
    }
    Ok(())
}

/// What comes with the lab by this name, or a file of one's own.
fn found(name: &str) -> std::result::Result<Experiment, ExperimentError> {
    match name.ends_with(".toml") {
        true => Experiment::read(Path::new(name)),
        false => Experiment::shipped(name),
    }
}

fn people(name: &str, experiment: &Experiment, outcome: &Outcome, first: bool) -> String {
    let is_scaled = outcome.is_scaled();
    let figure = |figure: Option<f64>| figure.map_or("-".to_string(), rounded);
    // What was found stands first, in as many lines as it needs beside its figures.
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for Entry { heading, is_below, what, finding } in experiment::entries(&outcome.findings) {
        let mut cells =
            vec![finding.unit.to_string(), figure(finding.source), rounded(finding.lab)];
        if is_scaled {
            cells.push(figure(finding.error()));
        }
        // Letters stand behind the numbers, which stay in line.
        cells.push(finding.ratio().map_or("-  ".to_string(), |ratio| {
            format!("{ratio:.2} {}", letter(finding.basis).unwrap_or(' '))
        }));
        if let Some(variant) = heading {
            rows.push((variant.to_string(), vec![String::new(); cells.len()]));
        }
        let indent = if is_below { "  " } else { "" };
        rows.push((format!("{indent}{what}"), cells));
    }
    let mut headings = vec!["FOUND", "UNIT", ">SOURCE", ">LAB"];
    headings.extend(is_scaled.then_some(">ERROR"));
    headings.push(">RATIO");
    let taken = headings.iter().skip(1).enumerate().map(|(column, heading)| {
        let cells = rows.iter().map(|(_, cells)| cells[column].chars().count());
        cells.chain([heading.trim_start_matches('>').len()]).max().unwrap_or(0) + GAP_COLUMNS
    });
    let room = width().saturating_sub(taken.sum()).max(FOUND_COLUMNS_MIN);
    let mut table = Table::new(&headings);
    for (what, cells) in rows {
        let indent = if what.starts_with(' ') { "  " } else { "" };
        let mut lines: Vec<String> =
            filled(&what, room - indent.len()).map(|line| format!("{indent}{line}")).collect();
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            table.row([vec![line], vec![String::new(); cells.len()]].concat());
        }
        table.row([vec![last], cells].concat());
    }
    let gap = if first { "" } else { "\n" };
    let text = |text: &str| filled(text, width()).map(|line| line + "\n").collect::<String>();
    let Experiment { question, source, setup, remark, .. } = experiment;
    let heading = text(&format!("{name}: {question}"));
    let (source, setup, remark) = (text(source), text(setup), text(remark));
    let error = match outcome.is_scaled() {
        true => {
            text("ERROR is how far a figure moves at half of these sizes, with all drawn anew.")
        }
        false => String::new(),
    };
    let marks = [Basis::Fitted, Basis::Input].map(|basis| {
        let is_there = |it: &Finding| it.basis == basis && it.ratio().is_some();
        match (letter(basis), basis.mark(), outcome.findings.iter().any(is_there)) {
            (Some(letter), Some(mark), true) => {
                text(&format!("{letter}: {mark}, so that the ratio proves nothing."))
            }
            _ => String::new(),
        }
    });
    let notes = error + &marks.concat();
    format!("{gap}{heading}{source}\n{setup}\n{}{notes}\n{remark}", table.render(PEOPLE))
}

/// What stands in a table for the mark of a figure that proves nothing.
fn letter(basis: Basis) -> Option<char> {
    match basis {
        Basis::Found => None,
        Basis::Fitted => Some('f'),
        Basis::Input => Some('i'),
    }
}

/// Three digits that count, or all before the point.
fn rounded(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".to_string(),
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_and_percent_signs_stay_with_their_numbers() {
        let lines: Vec<String> = filled("20 % of the\nblocks get 80 % of the reads", 13).collect();
        assert_eq!(lines, ["20 % of the", "blocks get 80 %", "of the reads"]);
        assert_eq!(filled("", 10).count(), 0);
        assert_eq!(filled("unbreakable", 3).collect::<Vec<_>>(), ["unbreakable"]);
    }
}
