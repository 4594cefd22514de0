use std::fs;
use std::path::Path;

use ::lab::experiment::{self, Experiment, ExperimentError, Outcome};

use super::check_writable;
use crate::arguments::ExperimentArguments;
use crate::failure::{Failure, Result};
use crate::format::{Form, print};
use crate::table::Table;

/// A table for people.
const PEOPLE: Form = Form { script: false, exact: false, json: false };

/// Shows the experiments with their questions.
pub(crate) fn list() -> Result<()> {
    let mut table = Table::new(&["NAME", "QUESTION"]);
    for name in Experiment::names() {
        let experiment = Experiment::shipped(name).map_err(Failure::new)?;
        table.row(vec![name.to_string(), experiment.question]);
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
    let mut done = Vec::new();
    for (index, (name, experiment)) in experiments.into_iter().enumerate() {
        let outcome = experiment.run().map_err(Failure::new)?;
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
        print(&text);
        done.push((name, experiment, outcome));
    }
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
    let mut table = Table::new(&["FOUND", "UNIT", ">SOURCE", ">LAB", ">SCALED ERROR", ">RATIO"]);
    let figure = |figure: Option<f64>| figure.map_or("-".to_string(), rounded);
    for finding in &outcome.findings {
        table.row(vec![
            finding.what.clone(),
            finding.unit.to_string(),
            figure(finding.source),
            rounded(finding.lab),
            figure(finding.error()),
            match (finding.ratio(), finding.basis.mark()) {
                (None, _) => "-".to_string(),
                (Some(ratio), Some(mark)) => format!("{ratio:.2} {mark}"),
                (Some(ratio), None) => format!("{ratio:.2}"),
            },
        ]);
    }
    let gap = if first { "" } else { "\n" };
    let (question, source) = (&experiment.question, &experiment.source);
    format!("{gap}{name}: {question}\n{source}\n\n{}", table.render(PEOPLE))
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
