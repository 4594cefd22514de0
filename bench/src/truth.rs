//! The same loads on a real mount and in the lab.

mod calibration;
mod load;
mod model;
mod mount;

use crate::Arguments;
use crate::outcome::{Outcome, Row, median};
use calibration::Calibration;
use load::{LOADS, Load};

/// The lab tells the truth where its rate is within this share of a mount's, and its hits are
/// within so many points.
const RATE_SHARE_MAX: f64 = 0.15;
const HITS_POINTS_MAX: f64 = 1.0;

/// What a load came to.
#[derive(Debug, Clone, Copy)]
struct Reached {
    operations_per_s: f64,
    /// Records that readers asked for and that were there or on their way, percent.
    hit_percent: f64,
    /// Records that were fetched, by readers or ahead of them, for each hundred asked for.
    fetched_percent: f64,
}

/// Records of contents: those that readers asked for, found, on their way, and missed; and those
/// that were fetched ahead.
const COUNTERS: [&str; 4] =
    ["demand_data_hits", "demand_data_iohits", "demand_data_misses", "prefetch_data_misses"];

impl Reached {
    fn new(operations_per_s: f64, before: [u64; 4], after: [u64; 4]) -> Reached {
        let counted = std::array::from_fn(|index| after[index] - before[index]);
        let [hits, joined, missed, ahead] = counted;
        let percent = |part: u64| 100.0 * part as f64 / (hits + joined + missed).max(1) as f64;
        Reached {
            operations_per_s,
            hit_percent: percent(hits + joined),
            fetched_percent: percent(missed + ahead),
        }
    }
}

pub(crate) fn is_wanted(wanted: impl Fn(&str) -> bool) -> bool {
    LOADS.iter().any(|load| wanted(load.name))
}

/// Runs all loads, in each round on a mount and then in the lab, with what the devices of this
/// machine take just then.
pub(crate) fn run(
    arguments: &Arguments,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    for load in LOADS.iter().filter(|load| wanted(load.name)) {
        let mut rounds = Vec::new();
        for round in 0..arguments.rounds {
            let calibration = Calibration::measure(arguments, load)?;
            let real = mount::run(arguments, load)?;
            let lab = model::run(load, &calibration)?;
            eprintln!("  {}: {:<20} {calibration:?}", round + 1, load.name);
            eprintln!("  {}: {:<20} real {real:.1?}", round + 1, load.name);
            eprintln!("  {}: {:<20} lab  {lab:.1?}", round + 1, load.name);
            rounds.push((real, lab));
        }
        outcomes.push(outcome(load, &rounds));
    }
    Ok(outcomes)
}

fn outcome(load: &Load, rounds: &[(Reached, Reached)]) -> Outcome {
    let of =
        |figure: &dyn Fn(&(Reached, Reached)) -> f64| median(rounds.iter().map(figure).collect());
    let value = |figure: &dyn Fn(&(Reached, Reached)) -> f64| of(figure).map(|all| all.0);
    let row = |subject: &str, value, ratio, note| Row {
        subject: subject.to_string(),
        value,
        ratio,
        note,
    };
    let rate = of(&|(real, lab)| real.operations_per_s / lab.operations_per_s);
    let agrees = rate.map(|(median, ..)| {
        let lab_over_mount = 1.0 / median;
        verdict((lab_over_mount - 1.0).abs() <= RATE_SHARE_MAX, "within 15 %")
    });
    let points = |figure: fn(&Reached) -> f64| {
        let points = of(&|(real, lab)| figure(lab) - figure(real));
        points.map(|(median, low, high)| {
            let verdict = verdict(median.abs() <= HITS_POINTS_MAX, "within a point");
            format!("lab {median:+.2} ({low:+.2} to {high:+.2}) points: {verdict}")
        })
    };
    let (hits, fetched) = (points(|it| it.hit_percent), points(|it| it.fetched_percent));
    Outcome {
        name: load.name,
        what: load.what,
        unit: "operations/s",
        rows: vec![
            row("a mount", value(&|round| round.0.operations_per_s), None, None),
            row("the lab", value(&|round| round.1.operations_per_s), rate, agrees),
            row("a mount: hits, %", value(&|round| round.0.hit_percent), None, None),
            row("the lab: hits, %", value(&|round| round.1.hit_percent), None, hits),
            row("a mount: fetched, %", value(&|round| round.0.fetched_percent), None, None),
            row("the lab: fetched, %", value(&|round| round.1.fetched_percent), None, fetched),
        ],
    }
}

/// Whether the lab told the truth.
fn verdict(holds: bool, bound: &str) -> String {
    format!("{}{bound}", if holds { "" } else { "NOT " })
}
