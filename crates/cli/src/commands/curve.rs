mod axis;
mod svg;
mod terminal;
mod words;

use std::ffi::OsStr;
use std::path::Path;

use daemon::Paths;
use daemon::protocol::CurveReport;
use warmfront::{CURVES_MAX, CurveScope, SizePoint};

use crate::bars::{is_unicode, width};
use crate::commands::target;
use crate::failure::{Failure, Result};
use crate::format::{Form, count, folded, json, print};
use crate::table::Table;

/// Shows the hit rate that each size of the cache would have.
pub(crate) fn curve(
    paths: &Paths,
    form: Form,
    recursive: bool,
    svg: Option<&Path>,
    text: Option<&OsStr>,
) -> Result<()> {
    let target = target(paths, text)?;
    let dataset = (target.dataset.name != target.pool).then_some(target.dataset.name.as_str());
    let reports = target.client()?.curves(dataset, recursive)?;
    if reports.len() > CURVES_MAX {
        eprintln!(
            "note: these are the first {CURVES_MAX} datasets; name one to see those below it"
        );
    }
    if let Some(file) = svg {
        let failed = |error: Box<dyn std::error::Error>| {
            Failure::new(format!("cannot write {}: {error}", file.display()))
        };
        let drawing = svg::draw(&reports).map_err(failed)?;
        std::fs::write(file, drawing).map_err(|error| failed(error.into()))?;
    }
    print(&match form {
        Form { json: true, .. } => json(&reports),
        Form { script: true, .. } | Form { exact: true, .. } => table(&reports, form),
        _ => reports.iter().map(people).collect::<Vec<_>>().join("\n"),
    });
    Ok(())
}

/// What a curve is of.
fn title(report: &CurveReport) -> String {
    match report.scope {
        CurveScope::Pool => format!("pool {}", report.name),
        CurveScope::Dataset => format!("dataset {}", report.name),
    }
}

fn people(report: &CurveReport) -> String {
    let mut text = format!("{}: hit rate by size of the cache\n\n", title(report));
    if !report.points.is_empty() {
        text.push_str(&terminal::draw(report, width(), is_unicode()));
        text.push('\n');
        let form = Form { script: false, exact: false, json: false };
        let mut table = Table::new(&[">SIZE", ">HIT RATE", ">ERROR", ""]);
        for (point, what) in rows(report) {
            table.row(vec![form.size(point.bytes), rate(&point, form), error(&point, form), what]);
        }
        text.push_str(&table.render(form));
        text.push('\n');
    }
    for line in sentences(report).iter().flat_map(|it| folded(it, width())) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// All that is said in words.
fn sentences(report: &CurveReport) -> Vec<String> {
    let mut sentences = words::words(report);
    sentences.extend(basis(report));
    sentences
}

/// What the curve rests on.
fn basis(report: &CurveReport) -> Option<String> {
    if report.samples == 0 {
        return None;
    }
    let rate = match report.sampling_rate {
        rate if rate >= 1.0 => "all records".to_string(),
        rate => format!("1 record of {:.0}", 1.0 / rate),
    };
    Some(format!(
        "Of reads of contents, by record, for an LRU cache; {} of the latest {} accesses sampled \
         ({rate}).",
        count(report.samples),
        count(report.accesses),
    ))
}

/// The sizes worth a line, by size, with what is said of them.
fn rows(report: &CurveReport) -> Vec<(SizePoint, String)> {
    let mut rows: Vec<(SizePoint, String)> = vec![(report.today, "today".to_string())];
    let mut add = |point: Option<SizePoint>, what: &str| {
        let Some(point) = point else { return };
        match rows.iter_mut().find(|(row, _)| row.bytes == point.bytes) {
            Some((_, known)) => known.push_str(&format!(", {what}")),
            None => rows.push((point, what.to_string())),
        }
    };
    add(report.knee, "knee");
    add(report.enough, "beyond it nothing is gained");
    add(report.at(report.today.bytes / 2), "half of today's");
    add(report.at(report.today.bytes.saturating_mul(2)), "twice today's");
    rows.sort_by_key(|(point, _)| point.bytes);
    rows
}

/// The points for scripts, and those that are marked.
fn table(reports: &[CurveReport], form: Form) -> String {
    let mut table =
        Table::new(&["NAME", "SCOPE", ">SIZE", ">HIT RATE", ">ERROR", ">SAMPLES", "POINT"]);
    for report in reports {
        let marked = rows(report).into_iter();
        let points = report.points.iter().map(|point| (*point, "-".to_string()));
        for (point, what) in marked.chain(points) {
            table.row(vec![
                report.name.clone(),
                match report.scope {
                    CurveScope::Pool => "pool".to_string(),
                    CurveScope::Dataset => "dataset".to_string(),
                },
                form.size(point.bytes),
                rate(&point, form),
                error(&point, form),
                report.samples.to_string(),
                what,
            ]);
        }
    }
    table.render(form)
}

fn rate(point: &SizePoint, form: Form) -> String {
    match form.exact {
        true => format!("{:.6}", point.hit_rate),
        false => format!("{:.1} %", 100.0 * point.hit_rate),
    }
}

fn error(point: &SizePoint, form: Form) -> String {
    match form.exact {
        true => format!("{:.6}", point.error),
        false => format!("{:.1}", 100.0 * point.error),
    }
}
