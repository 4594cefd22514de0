use std::fmt::Write;

use lab::{Form, PolicyName, Replay, Row, Trace};
use warmfront::HumanSize;

use crate::bars::{bar, coloured, is_unicode, width};
use crate::format::{self, count};
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
        let mut cells = vec![label(plan.policies[index])];
        cells.extend(by_policy[index].iter().enumerate().map(|(size, row)| {
            let is_best = plan.policies[index].is_online() && best(size) == Some(row.misses);
            format!("{:.2}{}", row.miss_ratio * 100.0, if is_best { "*" } else { " " })
        }));
        table.row(cells);
    }
    text.push_str(&table.render(format::Form { script: false, exact: false, json: false }));
    text.push_str("* fewest misses of those that do not know the future\n");

    let spread = |size: usize| {
        let misses = || online.iter().map(|&index| by_policy[index][size].misses);
        misses().max().unwrap_or(0) - misses().min().unwrap_or(0)
    };
    if let Some(widest) = (0..plan.sizes.len()).rev().max_by_key(|&size| spread(size))
        && online.len() > 1
    {
        let rows = order.iter().map(|&index| (plan.policies[index], &by_policy[index][widest]));
        text.push_str(&bars(&size(&by_policy[0][widest]), rows.collect(), best(widest)));
    }
    text
}

fn heading(trace: &Trace, form: Form) -> String {
    let (requests, distinct) = (count(trace.requests()), count(trace.distinct()));
    let bytes = HumanSize(form.distinct_bytes(trace));
    let objects = match form.block_bytes(trace) {
        Some(block) => format!("blocks of {}", HumanSize(u64::from(block))),
        None => "objects".to_string(),
    };
    let name = trace.name();
    let mut text = format!("{name}: {requests} requests for {distinct} {objects}, {bytes}\n");
    if form == Form::Charged {
        text.push_str(
            "Headers, ghosts and index are paid out of the size; by policies other than arc, a \
             header\nof the same size for each resident block, and nothing for ghosts.\n",
        );
    }
    text.push('\n');
    text
}

fn label(policy: PolicyName) -> String {
    match policy.is_online() {
        true => policy.to_string(),
        false => format!("{policy} (optimum)"),
    }
}

/// The share that was asked for, and what it comes to.
fn size(row: &Row) -> String {
    let percent = (row.fraction * 100_000.0).round() / 1000.0;
    match row.capacity_blocks {
        Some(blocks) => format!("{percent}% ({})", count(blocks)),
        None => format!("{percent}% ({})", HumanSize(row.capacity_bytes)),
    }
}

fn bars(size: &str, rows: Vec<(PolicyName, &Row)>, best: Option<u64>) -> String {
    let names = rows.iter().map(|(policy, _)| label(*policy).len()).max().unwrap_or(0);
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
        let _ = writeln!(text, "{:<names$}  {drawn}  {:>6.2} %", label(policy), hits * 100.0);
    }
    text
}
