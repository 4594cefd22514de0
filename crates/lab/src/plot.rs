//! Miss ratios over cache sizes, drawn as SVG.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::policy::PolicyName;
use crate::replay::Row;
use crate::sizing::{Choice, Sizing};
use crate::standing::standings;

/// Width and height of the picture, in its own units.
const PICTURE: (u32, u32) = (960, 600);

/// Colours of online policies, by turns; the optimum is black. They differ in lightness too.
pub(crate) const COLOURS: [RGBColor; 10] = [
    RGBColor(0x99, 0x99, 0x99),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xf0, 0xc8, 0x42),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x7b, 0x3f, 0xa0),
    RGBColor(0xd5, 0x3e, 0x00),
];

/// Points behind the best at which the picture of many traces ends.
const BEHIND_POINTS_MAX: f64 = 15.0;

/// The picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(String);

impl PlotError {
    pub(crate) fn new(error: &dyn std::error::Error) -> PlotError {
        PlotError(error.to_string())
    }
}

/// A line for each policy. Of one trace: the miss ratio in percent over the size, as a share of all
/// that is asked for, on a logarithmic scale. Of several: how far it is behind the best, from the
/// cell in which it does best to that in which it does worst. Names of fonts are left to whoever
/// shows the picture.
///
/// # Errors
/// When there are no rows, or the picture cannot be drawn.
pub fn svg(rows: &[Row]) -> Result<String, PlotError> {
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, PICTURE);
    let several = rows.iter().any(|row| row.trace != rows[0].trace);
    if several { draw_standings(rows, backend) } else { draw(rows, backend) }
        .map_err(|error| PlotError::new(&*error))?;
    Ok(text)
}

fn draw(rows: &[Row], backend: SVGBackend) -> Result<(), Box<dyn std::error::Error>> {
    let first = rows.first().ok_or("there are no rows")?;
    let fractions = || rows.iter().map(|row| row.fraction * 100.0);
    let least = fractions().fold(f64::MAX, f64::min);
    let greatest = fractions().fold(f64::MIN, f64::max);
    let highest = rows.iter().map(|row| row.miss_ratio * 100.0).fold(1.0, f64::max);

    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{}: misses by size and policy", first.trace), ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(56)
        .build_cartesian_2d((least / 1.1..greatest * 1.1).log_scale(), 0.0..highest * 1.02)?;
    chart
        .configure_mesh()
        .x_desc("size, % of all that is asked for")
        .y_desc("requests that miss, %")
        .x_label_formatter(&|percent| format!("{}", (percent * 1000.0).round() / 1000.0))
        .light_line_style(TRANSPARENT)
        .draw()?;

    let mut colours = COLOURS.into_iter().cycle();
    for policy in policies(rows) {
        let (colour, width) = match policy == PolicyName::Min.name() {
            true => (BLACK, 3),
            false => (colours.next().unwrap_or(BLACK), 2),
        };
        let mut points: Vec<(f64, f64)> = rows
            .iter()
            .filter(|row| row.policy == policy)
            .map(|row| (row.fraction * 100.0, row.miss_ratio * 100.0))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points.clone(), style))?
            .label(policy)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
        chart
            .draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

fn draw_standings(rows: &[Row], backend: SVGBackend) -> Result<(), Box<dyn std::error::Error>> {
    let standings = standings(rows);
    let cells = standings.first().map_or(0, |standing| standing.cells);
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let caption = format!("Behind the best policy: {cells} traces and sizes, each line in order");
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..100.0, 0.0..BEHIND_POINTS_MAX)?;
    chart
        .configure_mesh()
        .x_desc("share of the cells, %")
        .y_desc("points of the miss ratio behind the best")
        .light_line_style(TRANSPARENT)
        .draw()?;
    let mut colours = COLOURS.into_iter().cycle();
    for standing in standings.iter().filter(|other| other.policy != PolicyName::Min.name()) {
        let colour = colours.next().unwrap_or(BLACK);
        let points = standing.behind_points.iter().enumerate().map(|(rank, behind)| {
            let share = 100.0 * (rank + 1) as f64 / cells as f64;
            (share, behind.min(BEHIND_POINTS_MAX))
        });
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(standing.policy)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Prices further apart than this are drawn on a logarithmic scale.
const MAGNITUDES_APART: f64 = 4.0;

/// Responses over prices: all choices, those that are worth their price joined by a line.
///
/// # Errors
/// When no choice responds, or the picture cannot be drawn.
pub fn sizing_svg(sizing: &Sizing) -> Result<String, PlotError> {
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, PICTURE);
    draw_sizing(sizing, backend).map_err(|error| PlotError::new(&*error))?;
    Ok(text)
}

fn draw_sizing(sizing: &Sizing, backend: SVGBackend) -> Result<(), Box<dyn std::error::Error>> {
    let point = |choice: &Choice| Some((choice.price, choice.response_ms?));
    let points: Vec<(f64, f64)> = sizing.choices.iter().filter_map(point).collect();
    let bounds = |value: &dyn Fn(&(f64, f64)) -> f64, margin: f64| {
        let values = || points.iter().map(value);
        let (least, greatest) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        Some((least, greatest, least / margin..greatest * margin))
    };
    let (least, greatest, prices) =
        bounds(&|point| point.0, 1.05).ok_or("no choice keeps up with the load")?;
    let (.., responses) =
        bounds(&|point| point.1, 1.25).ok_or("no choice keeps up with the load")?;
    if greatest > MAGNITUDES_APART * least {
        return draw_choices(sizing, backend, prices.log_scale(), responses);
    }
    let margin = ((greatest - least) * 0.05).max(greatest * 1e-6);
    draw_choices(sizing, backend, least - margin..greatest + margin, responses)
}

fn draw_choices<X>(
    sizing: &Sizing,
    backend: SVGBackend,
    prices: X,
    responses: Range<f64>,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let point = |choice: &Choice| Some((choice.price, choice.response_ms?));
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{}: response by price", sizing.trace), ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(prices, responses.log_scale().base(2.0))?;
    chart
        .configure_mesh()
        .x_labels(8)
        .y_label_formatter(&|ms| format!("{}", (ms * 1000.0).round() / 1000.0))
        .x_desc(format!("price, {}", sizing.currency))
        .y_desc("mean response, ms")
        .light_line_style(TRANSPARENT)
        .draw()?;
    let kinds = [("RAM only", COLOURS[1]), ("RAM and flash", COLOURS[2])];
    for (flash, (label, colour)) in [false, true].into_iter().zip(kinds) {
        let of_kind = sizing.choices.iter().filter(|choice| (choice.flash_bytes > 0) == flash);
        let dots: Vec<_> = of_kind
            .filter_map(point)
            .map(|point| Circle::new(point, 3, colour.mix(0.7).filled()))
            .collect();
        if !dots.is_empty() {
            chart
                .draw_series(dots)?
                .label(label)
                .legend(move |(x, y)| Circle::new((x + 11, y), 4, colour.filled()));
        }
    }
    let line = sizing.worthwhile().into_iter().filter_map(point);
    chart
        .draw_series(LineSeries::new(line, BLACK.stroke_width(2)))?
        .label("worth their price")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 22, y)], BLACK.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// The policies of these rows, in the order in which they appear.
fn policies(rows: &[Row]) -> Vec<&'static str> {
    let mut policies = Vec::new();
    for row in rows {
        if !policies.contains(&row.policy) {
            policies.push(row.policy);
        }
    }
    policies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, Replay, Size, Trace, replay};

    #[test]
    fn every_policy_has_a_line() {
        let trace = Trace::from_blocks("loop", (0..50).cycle().take(1000), 4096);
        let plan = Replay {
            policies: PolicyName::ALL.to_vec(),
            sizes: vec![Size::Fraction(0.1), Size::Fraction(0.5)],
            form: Form::Plain,
        };
        let picture = svg(&replay(&trace, &plan, &|_| ())).expect("it can be drawn");
        assert!(picture.starts_with("<svg") && picture.contains("loop: misses"), "{picture}");
        for policy in PolicyName::ALL {
            assert!(picture.contains(policy.name()), "{policy}");
        }
        assert_eq!(picture.matches("<circle").count(), 2 * PolicyName::ALL.len());
    }

    #[test]
    fn several_traces_are_drawn_by_distance_from_the_best() {
        let plan = Replay {
            policies: vec![PolicyName::Lru, PolicyName::Arc, PolicyName::Min],
            sizes: vec![Size::Fraction(0.1), Size::Fraction(0.5)],
            form: Form::Plain,
        };
        let rows: Vec<Row> = [50, 60]
            .iter()
            .flat_map(|blocks| {
                let requests = (0..*blocks).cycle().take(1000);
                let trace = Trace::from_blocks(&format!("loop of {blocks}"), requests, 4096);
                replay(&trace, &plan, &|_| ())
            })
            .collect();
        let picture = svg(&rows).expect("it can be drawn");
        assert!(picture.contains("4 traces and sizes") && picture.contains("arc"), "{picture}");
        assert!(!picture.contains(">min"), "the optimum is behind nobody");
    }

    #[test]
    fn one_size_is_enough_and_no_rows_are_not() {
        let trace = Trace::from_blocks("one", [1, 2, 1], 4096);
        let plan = Replay {
            policies: vec![PolicyName::Lru],
            sizes: vec![Size::Blocks(1)],
            form: Form::Plain,
        };
        assert!(svg(&replay(&trace, &plan, &|_| ())).is_ok());
        assert!(svg(&[]).is_err());
    }
}
