use std::fmt::Write;

use lab::{Form, PolicyName, Replay, Row, Standing, Trace};
use warmfront::HumanSize;

use super::filled;
use crate::bars::{bar, coloured, is_unicode, width};
use crate::format::{self, count, things};
use crate::table::Table;

/// Characters of a bar at most.
const BAR_WIDTH_MAX: usize = 50;

/// Rows for people: a table of all, and bars for the size at which policies differ most.
pub(super) fn people(trace: &Trace, plan: &Replay, rows: &[Row]) -> String {
    // Rows come policy by policy, each with its sizes in order.
    let by_policy: Vec<&[Row]> = rows.chunks(plan.sizes.len()).collect();
    let mut order: Vec<usize> = (0..by_policy.len()).collect();
    order.sort_by_key(|&index| !plan.policies[index].is_online());
    let online =
        order.iter().copied().filter(|&index| plan.policies[index].is_online()).collect::<Vec<_>>();
    let best = |size: usize| online.iter().map(|&index| by_policy[index][size].misses).min();

    let mut text = heading(trace, plan.form);
    let sizes: Vec<String> = by_policy[0].iter().map(|row| format!(">{}", size(row))).collect();
    let mut headings = vec!["MISSES, %"];
    headings.extend(sizes.iter().map(String::as_str));
    let mut table = Table::new(&headings);
    for &index in &order {
        let mut cells = vec![label(plan.policies[index], trace)];
        cells.extend(by_policy[index].iter().enumerate().map(|(size, row)| {
            let is_best = plan.policies[index].is_online() && best(size) == Some(row.misses);
            format!("{:.2}{}", row.miss_ratio * 100.0, if is_best { "*" } else { " " })
        }));
        table.row(cells);
    }
    text.push_str(&table.render(format::Form { script: false, exact: false, json: false }));
    text.push_str("* fewest misses of those that do not know the future\n");
    if trace.object_bytes().is_some() && plan.policies.contains(&PolicyName::Min) {
        text.push_str(
            "min evicts the farthest next use; an optimum only when all sizes are equal\n",
        );
    }

    let spread = |size: usize| {
        let misses = || online.iter().map(|&index| by_policy[index][size].misses);
        misses().max().unwrap_or(0) - misses().min().unwrap_or(0)
    };
    if let Some(widest) = (0..plan.sizes.len()).rev().max_by_key(|&size| spread(size))
        && online.len() > 1
    {
        let rows = order.iter().map(|&index| (plan.policies[index], &by_policy[index][widest]));
        let widest = (size(&by_policy[0][widest]), best(widest));
        text.push_str(&bars(trace, &widest.0, rows.collect(), widest.1));
    }
    text
}

/// The rows of one trace as lines of a Markdown table: hits in percent, the best in bold. The first
/// trace brings the table's head.
pub(super) fn markdown(trace: &Trace, plan: &Replay, rows: &[Row], first: bool) -> String {
    let by_policy: Vec<&[Row]> = rows.chunks(plan.sizes.len()).collect();
    let mut text = String::new();
    if first {
        let names = plan.policies.iter().map(|policy| label(*policy, trace));
        let names: Vec<String> = names.collect();
        let _ = writeln!(text, "| trace | size | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|--:|{}", "--:|".repeat(names.len()));
    }
    for at in 0..plan.sizes.len() {
        let online = plan.policies.iter().zip(&by_policy).filter(|(policy, _)| policy.is_online());
        let best = online.map(|(_, rows)| rows[at].misses).min();
        let cells: Vec<String> = plan
            .policies
            .iter()
            .zip(&by_policy)
            .map(|(policy, rows)| {
                let hits = format!("{:.2}", 100.0 - rows[at].miss_ratio * 100.0);
                let is_best = policy.is_online() && Some(rows[at].misses) == best;
                match is_best {
                    true => format!("**{hits}**"),
                    // The head of the table may be of a trace where it is one.
                    false if !first && !policy.is_online() && trace.object_bytes().is_some() => {
                        format!("{hits}, no optimum")
                    }
                    false => hits,
                }
            })
            .collect();
        let size = size(&by_policy[0][at]);
        let _ = writeln!(text, "| {} | {size} | {} |", trace.name(), cells.join(" | "));
    }
    text
}

/// How the policies stand over all traces and sizes.
pub(super) fn standings(standings: &[Standing], markdown: bool) -> String {
    let cells = standings.first().map_or(0, |standing| standing.cells);
    let share = |count: usize| format!("{:.1}", 100.0 * count as f64 / cells.max(1) as f64);
    let headings =
        ["POLICY", ">MISSES, %", ">BEST", ">WITHIN 1, %", ">WITHIN 3, %", ">WORST", ">BEHIND LRU"];
    // What knows the future is before the best, not behind it.
    let online = |it: &&Standing| it.policy != PolicyName::Min.name();
    let rows = standings.iter().filter(online).map(|standing| {
        let behind_lru = standing.behind_lru.map_or("-".to_string(), |cells| cells.to_string());
        vec![
            standing.policy.to_string(),
            format!("{:.2}", standing.mean_percent),
            standing.best().to_string(),
            share(standing.within(1.0)),
            share(standing.within(3.0)),
            format!("{:.2}", standing.worst_points()),
            behind_lru,
        ]
    });
    let mut text = paragraph(&format!(
        "{cells} traces and sizes. Behind the best, in points of the miss ratio: how often nobody \
         is better, how often at most 1 or 3 behind, and how far in the worst case; in how many it \
         misses more than LRU by more than half a point."
    ));
    text.insert(0, '\n');
    text.push('\n');
    if markdown {
        let names = headings.map(|name| name.trim_start_matches('>').to_lowercase());
        let _ = writeln!(text, "| {} |\n|---|{}", names.join(" | "), "--:|".repeat(6));
        rows.for_each(|row| {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        });
    } else {
        let mut table = Table::new(&headings);
        rows.for_each(|row| table.row(row));
        text.push_str(&table.render(format::Form { script: false, exact: false, json: false }));
    }
    text
}

/// A text in lines that fit.
fn paragraph(text: &str) -> String {
    filled(text, width()).map(|line| line + "\n").collect()
}

/// What is to be said of a trace that has recorded only a share of the contents.
pub(super) fn recorded(percent: f64) -> String {
    match percent < 100.0 {
        true => format!(
            "It is a recording of {percent} % of the contents; sizes here are for all of them.\n"
        ),
        false => String::new(),
    }
}

fn heading(trace: &Trace, form: Form) -> String {
    let bytes = HumanSize(form.distinct_bytes(trace));
    let objects = match form.block_bytes(trace) {
        Some(block) => {
            let blocks = things(trace.distinct(), "block");
            format!("{blocks} of {}", HumanSize(u64::from(block)))
        }
        None => things(trace.distinct(), "object"),
    };
    let (name, requests) = (trace.name(), things(trace.requests(), "request"));
    let mut text = format!("{name}: {requests} for {objects}, {bytes}\n");
    text.push_str(&recorded(100.0 * trace.recorded_share()));
    if form == Form::Charged {
        text.push_str(&paragraph(
            "Headers, ghosts and index are paid out of the size; by others than arc and auto, a \
             header of the same size for each resident block, and nothing for ghosts.",
        ));
    }
    text.push('\n');
    text
}

/// A policy's name, and what the one is that knows the future: who evicts what is asked for
/// farthest in the future misses least only where all that is evicted is equally large.
fn label(policy: PolicyName, trace: &Trace) -> String {
    match (policy.is_online(), trace.object_bytes()) {
        (true, _) => policy.to_string(),
        (false, None) => format!("{policy} (optimum)"),
        (false, Some(_)) => format!("{policy} (farthest next use)"),
    }
}

/// The share that was asked for, and what it comes to.
fn size(row: &Row) -> String {
    let percent = share(row.fraction);
    match row.capacity_blocks {
        Some(blocks) => format!("{percent}% ({})", count(blocks)),
        None => format!("{percent}% ({})", HumanSize(row.capacity_bytes)),
    }
}

/// A share in percent with the digits that count: three behind the point, none above the whole,
/// two that are not 0 where it is very small.
fn share(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let digits = match percent {
        percent if percent >= 100.0 => 0,
        percent if percent >= 0.01 => 3,
        percent if percent > 0.0 => (1.0 - percent.log10().floor()) as usize,
        _ => 0,
    };
    let text = format!("{percent:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

fn bars(trace: &Trace, size: &str, rows: Vec<(PolicyName, &Row)>, best: Option<u64>) -> String {
    let names = rows.iter().map(|(policy, _)| label(*policy, trace).len()).max().unwrap_or(0);
    let width = width().saturating_sub(names + 12).clamp(10, BAR_WIDTH_MAX);
    let mut text = format!("\nhits at {size}, where policies differ most\n");
    for (policy, row) in rows {
        let hits = 1.0 - row.miss_ratio;
        let colour = match policy.is_online() {
            false => 36,
            true if best == Some(row.misses) => 32,
            true => 33,
        };
        let drawn = coloured(&bar(hits, width, is_unicode()), colour);
        let _ =
            writeln!(text, "{:<names$}  {drawn}  {:>6.2} %", label(policy, trace), hits * 100.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_the_digits_that_count() {
        let cases = [
            (0.05, "5"),
            (0.25, "25"),
            (0.005_349, "0.535"),
            (1.0, "100"),
            (11.221_92, "1122"),
            (0.000_001, "0.0001"),
            (0.000_000_123, "0.000012"),
            (0.000_1, "0.01"),
            (0.0, "0"),
        ];
        for (fraction, text) in cases {
            assert_eq!(share(fraction), text);
        }
    }

    #[test]
    fn the_optimum_is_not_behind_the_best() {
        let standing = |policy: PolicyName, behind: f64| Standing {
            policy: policy.name(),
            cells: 1,
            mean_percent: 50.0,
            behind_points: vec![behind],
            behind_lru: None,
        };
        let both = [standing(PolicyName::Arc, 0.0), standing(PolicyName::Min, -0.84)];
        let text = standings(&both, true);
        assert!(text.contains("| arc |") && !text.contains("min"), "{text}");
    }
}
