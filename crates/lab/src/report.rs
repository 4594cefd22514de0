//! [`html`]: what experiments found, as one page that needs nothing else; [`markdown`]: the same
//! without pictures.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::experiment::{Basis, Entry, Experiment, Finding, Outcome, entries};
use crate::picture::{bars, lines, thousands};
use crate::plot::PlotError;

/// Within this share of the source a figure is taken to agree where hardware and load are known.
const CLOSE: f64 = 0.15;
/// Within this one elsewhere.
const NEAR: f64 = 0.30;
/// Pictures of bars that an experiment without charts gets at most.
const PICTURES_MAX: usize = 4;

/// Columns of a line of Markdown.
const COLUMNS: usize = 120;

const STYLE: &str = include_str!("report.css");

/// One page about these experiments, pictures and all.
///
/// # Errors
/// When a picture cannot be drawn.
pub fn html(done: &[(&str, Experiment, Outcome)]) -> Result<String, PlotError> {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>The lab of Warmfront</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>The lab</h1>\n<p class=\"lead\">What five documents report of caches, done again: the \
         engine of Warmfront on modelled devices and virtual time, with nothing of it replaced. \
         Each figure stands beside the source's. A figure that a parameter was fitted to, or that \
         follows from what went in, proves nothing and is marked; where the lab disagrees, the \
         text says why. Terabytes do not fit \
         into a laptop, so most sizes are divided; the scaled error of a figure is how far it \
         moves when they are divided by twice as much and everything is drawn anew.</p>\n"
    );
    overview(&mut page, done);
    for (name, experiment, outcome) in done {
        section(&mut page, name, experiment, outcome)?;
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

/// What one experiment found; the first has the page's beginning before it.
pub fn markdown(name: &str, experiment: &Experiment, outcome: &Outcome, is_first: bool) -> String {
    let mut text = if is_first { include_str!("report.md").to_owned() } else { String::new() };
    let Experiment { question, source, setup, remark, .. } = experiment;
    let asked = filled(&format!("**{question}** {source}."));
    let _ = write!(text, "\n## {name}\n\n{asked}\n\n{}\n\n", filled(setup));
    let is_scaled = outcome.is_scaled();
    let columns = if is_scaled { ("lab | scaled error", "--:|--:") } else { ("lab", "--:") };
    let _ = writeln!(text, "| found | unit | source | {} | ratio |", columns.0);
    let _ = writeln!(text, "|---|---|--:|{}|--:|", columns.1);
    for finding in &outcome.findings {
        let source = finding.source.map_or("\u{2013}".to_string(), thousands);
        let mark = finding.basis.mark().map_or(String::new(), |mark| format!(", {mark}"));
        let ratio =
            finding.ratio().map_or("\u{2013}".to_string(), |ratio| format!("{ratio:.2}{mark}"));
        let (what, unit, mut lab) = (&finding.what, finding.unit, thousands(finding.lab));
        if is_scaled {
            let _ = write!(lab, " | {}", error(finding));
        }
        let _ = writeln!(text, "| {what} | {unit} | {source} | {lab} | {ratio} |");
    }
    let _ = writeln!(text, "\n{}", filled(remark));
    text
}

/// How far a figure moves at half the size.
fn error(finding: &Finding) -> String {
    finding.error().map_or("\u{2013}".to_string(), |error| format!("\u{b1} {}", thousands(error)))
}

/// A paragraph in lines.
fn filled(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= COLUMNS {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// A line for each experiment, with all ratios as dots on a scale.
fn overview(page: &mut String, done: &[(&str, Experiment, Outcome)]) {
    page.push_str(
        "<section>\n<h2>All at a glance</h2>\n<p>Each dot is a figure of the lab over the \
         source's: in the middle they are equal, at the edges one is twice the other or more. \
         Rings are figures that something was fitted to or that went in, and the lines to both \
         sides of a dot are \
         its scaled error. The darker band is 15 % to both sides, the lighter one 30 %.</p>\n\
         <table class=\"overview\">\n",
    );
    for (name, experiment, outcome) in done {
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#{name}\">{}</a></td><td>{}</td></tr>",
            escape(&experiment.question),
            dots(&outcome.findings)
        );
    }
    page.push_str("</table>\n</section>\n");
}

/// Ratios on a logarithmic scale from a half to two.
fn dots(findings: &[Finding]) -> String {
    if findings.iter().all(|finding| finding.ratio().is_none()) {
        return "<span class=\"none\">compared in the text</span>".to_owned();
    }
    const WIDTH: f64 = 260.0;
    let place = |ratio: f64| WIDTH * (0.5 + ratio.clamp(0.5, 2.0).log2() / 2.0);
    let mut svg = format!(
        "<svg viewBox=\"-8 0 {} 22\" width=\"{}\" height=\"22\" role=\"img\">",
        WIDTH + 16.0,
        WIDTH + 16.0
    );
    for (share, class) in [(NEAR, "near"), (CLOSE, "close")] {
        let (from, to) = (place(1.0 / (1.0 + share)), place(1.0 + share));
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"2\" width=\"{:.1}\" height=\"18\"/>",
            to - from
        );
    }
    let _ = write!(svg, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"11\" y2=\"11\"/>");
    for finding in findings {
        let Some(ratio) = finding.ratio() else { continue };
        let class = if finding.basis == Basis::Found { "free" } else { "fitted" };
        if let (Some(error), Some(source)) = (finding.error(), finding.source) {
            let error = (error / source).abs();
            let _ = write!(
                svg,
                "<line class=\"error\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"11\" y2=\"11\"/>",
                place(ratio - error),
                place(ratio + error)
            );
        }
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"11\" r=\"4\"><title>{}: {ratio:.2}\
             </title></circle>",
            place(ratio),
            escape(&finding.what)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn section(
    page: &mut String,
    name: &str,
    experiment: &Experiment,
    outcome: &Outcome,
) -> Result<(), PlotError> {
    let Experiment { question, source, setup, remark, .. } = experiment;
    let again = match outcome.is_scaled() {
        true => {
            " Done once more at half of these sizes and with everything drawn anew: the scaled \
                 error is how far a figure moved."
        }
        false => " Nothing is divided.",
    };
    let _ = write!(
        page,
        "<section id=\"{name}\">\n<h2>{}</h2>\n<p class=\"source\">{}</p>\n<h3>Set-up</h3>\n\
         <p>{}{again}</p>\n<h3>Finding</h3>\n<p>{}</p>\n",
        escape(question),
        escape(source),
        escape(setup),
        escape(remark)
    );
    let thin = if outcome.is_scaled() { " Thin lines are the scaled error." } else { "" };
    for chart in &outcome.charts {
        let _ = writeln!(
            page,
            "<figure>{}<figcaption>{}.{}</figcaption></figure>",
            lines(chart)?,
            escape(&chart.title),
            if chart.lines.iter().any(|line| !line.errors.is_empty()) { thin } else { "" }
        );
    }
    if outcome.charts.is_empty() {
        for (measure, findings) in pictured(&outcome.findings) {
            let has_source = findings.iter().any(|finding| finding.source.is_some());
            let caption = match has_source {
                true => "Bars are the lab's figures, lines across them the source's.",
                false => "The lab's figures; the source has none.",
            };
            let _ = writeln!(
                page,
                "<figure>{}<figcaption>{caption}{thin}</figcaption></figure>",
                bars(measure, &findings)?
            );
        }
    }
    match crossed(&outcome.findings) {
        Some(crossed) => cross_table(page, &crossed),
        None => table(page, outcome),
    }
    let _ = writeln!(
        page,
        "<p class=\"repeat\">To repeat it: <code>warmfront lab run {name}</code></p>\n</section>"
    );
    Ok(())
}

/// The findings that can be compared, at least two each: those with a source first, then those of
/// which there are most, and last what went in. Under the name of what was found.
fn pictured(findings: &[Finding]) -> Vec<(&str, Vec<Finding>)> {
    let mut groups: BTreeMap<(&str, &str), Vec<Finding>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.unit != "ratio") {
        let (variant, measure) = finding.parts();
        let finding = Finding { what: variant.to_owned(), ..finding.clone() };
        groups.entry((finding.unit, measure)).or_default().push(finding);
    }
    // Of nothing there is nothing to see.
    groups.retain(|_, group| group.len() > 1 && group.iter().any(|it| it.lab != 0.0));
    let mut groups: Vec<_> =
        groups.into_iter().map(|((_, measure), group)| (measure, group)).collect();
    // Of those that are alike, what is told first.
    let place = |measure: &str| findings.iter().position(|it| it.parts().1 == measure);
    groups.sort_by_key(|(measure, _)| place(measure));
    groups.sort_by_key(|(_, group)| {
        let is_compared = group.iter().any(|it| it.source.is_some() && it.basis == Basis::Found);
        let is_found = group.iter().any(|it| it.basis != Basis::Input);
        std::cmp::Reverse((is_compared, is_found, group.len()))
    });
    groups.truncate(PICTURES_MAX);
    groups
}

/// Findings without sources, by variant and by what was found.
struct Crossed<'a> {
    measures: Vec<(&'a str, &'static str)>,
    rows: Vec<(&'a str, Vec<&'a Finding>)>,
}

/// Findings that fill such a table.
fn crossed(findings: &[Finding]) -> Option<Crossed<'_>> {
    let mut crossed = Crossed { measures: Vec::new(), rows: Vec::new() };
    for finding in findings {
        let (variant, measure) = finding.parts();
        if finding.source.is_some() || measure.is_empty() {
            return None;
        }
        if crossed.rows.last().is_none_or(|(last, _)| *last != variant) {
            crossed.rows.push((variant, Vec::new()));
        }
        let (count, (_, row)) = (crossed.rows.len(), crossed.rows.last_mut()?);
        match crossed.measures.get(row.len()) {
            None if count == 1 => crossed.measures.push((measure, finding.unit)),
            known => {
                known.filter(|&&known| known == (measure, finding.unit))?;
            }
        }
        row.push(finding);
    }
    let is_whole = crossed.rows.iter().all(|(_, row)| row.len() == crossed.measures.len());
    (is_whole && crossed.rows.len() > 2).then_some(crossed)
}

fn cross_table(page: &mut String, crossed: &Crossed<'_>) {
    page.push_str("<table class=\"figures crossed\">\n<tr><th></th>");
    for (measure, unit) in &crossed.measures {
        let _ = write!(page, "<th>{}, {}</th>", escape(measure), escape(unit));
    }
    page.push_str("</tr>\n");
    for (variant, figures) in &crossed.rows {
        let _ = write!(page, "<tr><td>{}</td>", escape(variant));
        for finding in figures {
            let _ = write!(page, "<td>{}", thousands(finding.lab));
            if finding.half.is_some() {
                let _ = write!(page, "<br><span class=\"error\">{}</span>", error(finding));
            }
            page.push_str("</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn table(page: &mut String, outcome: &Outcome) {
    let is_scaled = outcome.is_scaled();
    let _ = writeln!(
        page,
        "<table class=\"figures\">\n<tr><th>found</th><th>unit</th><th>source</th><th>lab</th>{}\
         <th>ratio</th></tr>",
        if is_scaled { "<th>scaled error</th>" } else { "" }
    );
    for Entry { heading, is_below, what, finding } in entries(&outcome.findings) {
        if let Some(variant) = heading {
            let columns = if is_scaled { 6 } else { 5 };
            let _ = writeln!(
                page,
                "<tr class=\"variant\"><td colspan=\"{columns}\">{}</td></tr>",
                escape(variant)
            );
        }
        let source = finding.source.map_or("&ndash;".to_string(), thousands);
        let (ratio, class) = match (finding.ratio(), finding.basis.mark()) {
            (None, _) => ("&ndash;".to_string(), ""),
            (Some(ratio), Some(mark)) => (format!("{ratio:.2}, {mark}"), "fitted"),
            (Some(ratio), None) => {
                let off = (ratio - 1.0).abs();
                let class = match off {
                    _ if off <= CLOSE => "close",
                    _ if off <= NEAR => "near",
                    _ => "far",
                };
                (format!("{ratio:.2}"), class)
            }
        };
        let error = match is_scaled {
            true => format!("<td class=\"error\">{}</td>", error(finding)),
            false => String::new(),
        };
        let _ = writeln!(
            page,
            "<tr{}><td>{}</td><td>{}</td><td>{source}</td><td>{}</td>{error}\
             <td class=\"{class}\">{ratio}</td></tr>",
            if is_below { " class=\"below\"" } else { "" },
            escape(what),
            finding.unit,
            thousands(finding.lab)
        );
    }
    page.push_str("</table>\n");
}

/// Text as HTML; a percent sign stays with its number.
fn escape(text: &str) -> String {
    let text = text.replace(" %", "\u{a0}%");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_its_section() {
        let done: Vec<_> = ["flash-erase-before-write", "flash-power-loss", "tmpfs-page-out"]
            .into_iter()
            .map(|name| {
                let experiment = Experiment::shipped(name).expect("it is shipped");
                let outcome = experiment.run(&|_| ()).expect("it can be done");
                (name, experiment, outcome)
            })
            .collect();
        let page = html(&done).expect("it can be drawn");
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        for (name, experiment, _) in &done {
            assert!(page.contains(&format!("<section id=\"{name}\">")), "{name}");
            assert!(page.contains(&escape(&experiment.question)), "{name}");
        }
        assert!(page.matches("<figure><svg").count() >= 2, "there are pictures");
        let is_whole = !page.contains("src=") && !page.contains("href=\"http");
        assert!(page.contains("fitted") && is_whole, "it needs nothing else");
        assert_eq!(page, html(&done).expect("it can be drawn"));
        // One of the three divides sizes.
        assert_eq!(page.matches("<th>scaled error</th>").count(), 1);
        let column = |index: usize| {
            let (name, experiment, outcome) = &done[index];
            let text = markdown(name, experiment, outcome, index == 0);
            (text.contains("| lab | scaled error | ratio |"), text.contains(" | \u{b1} "))
        };
        assert_eq!([0, 1, 2].map(column), [(true, true), (false, false), (false, false)]);
    }

    #[test]
    fn figures_of_a_variant_stand_below_its_name() {
        let finding = |what: &str, lab, source| Finding {
            what: what.to_owned(),
            unit: "%",
            source,
            lab,
            half: None,
            basis: Basis::Found,
        };
        let findings = vec![
            finding("one: hits", 5.0, Some(5.0)),
            finding("one: busy", 0.0, None),
            finding("two: hits", 6.0, None),
            finding("two: busy", 0.0, None),
            finding("two over one", 2.0, None),
            finding("three: hits", 7.0, None),
        ];
        // Nobody is busy: that is no picture.
        let measures: Vec<&str> = pictured(&findings).iter().map(|(measure, _)| *measure).collect();
        assert_eq!(measures, ["hits"]);
        let told = ["one: speed", "one: hits", "two: speed", "two: hits"];
        let told = told.map(|what| finding(what, 1.0, None));
        assert_eq!(pictured(&told).first().map(|(measure, _)| *measure), Some("speed"));
        let mut page = String::new();
        table(&mut page, &Outcome::from(findings));
        assert_eq!(page.matches("<tr class=\"variant\"><td colspan=\"5\">").count(), 2, "{page}");
        for text in ["<tr class=\"below\"><td>busy</td>", "<td>two over one", "<td>three: hits"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
