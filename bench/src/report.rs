use std::fmt::Write;

use crate::outcome::Outcome;

/// The report as Markdown: the machine, then a table for each case.
pub(crate) fn markdown(facts: &[(String, String)], outcomes: &[Outcome]) -> String {
    let mut text = String::from("| machine | |\n|---|---|\n");
    for (name, value) in facts {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    for outcome in outcomes {
        let _ = write!(text, "\n### {}\n\n{}\n\n", outcome.name, outcome.what);
        let _ = writeln!(
            text,
            "| {:<36} | {:>12} | {:>22} |\n|{:-<38}|{:-<13}:|{:-<23}:|",
            "subject", outcome.unit, "warmfront / subject", "", "", ""
        );
        for row in &outcome.rows {
            let ratio =
                row.ratio.map(|(median, low, high)| format!("{median:.2} ({low:.2} to {high:.2})"));
            let ratio: Vec<&str> = ratio.iter().chain(&row.note).map(String::as_str).collect();
            let ratio = ratio.join(", ");
            let value = row.value.map_or("-".to_string(), figure);
            let _ = writeln!(text, "| {:<36} | {value:>12} | {ratio:>22} |", row.subject);
        }
    }
    text
}

/// A figure with three or four digits that count.
fn figure(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.1} k", value / 1000.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}
