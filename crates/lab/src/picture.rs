//! Pictures of what experiments find, as SVG.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::experiment::{Chart, Finding};
use crate::plot::{COLOURS, PlotError};

/// Width of a picture, in its own units.
const WIDTH: u32 = 760;
/// Height of a chart of lines.
const HEIGHT: u32 = 380;
/// Above the lines, of their height: room for each row of the legend, which would lie over them.
const LEGEND_SHARE: f64 = 0.09;
/// Height of a row of bars.
const ROW: u32 = 30;
/// Of each bar's name so many characters are shown, each about so wide.
const NAME_MAX: usize = 52;
const CHARACTER: u32 = 8;
/// Of all that is written; which fonts there are is left to whoever shows the picture.
const LABEL: (&str, u32) = ("sans-serif", 14);

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Lines over a common axis, and the source's figures as rings.
///
/// # Errors
/// When it cannot be drawn.
pub(crate) fn lines(chart: &Chart) -> Result<String, PlotError> {
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT));
    draw_lines(chart, backend).map_err(|error| PlotError::new(&*error))?;
    Ok(text)
}

/// Figures of the same thing in the same unit as bars, and the source's as lines across them.
///
/// # Errors
/// When it cannot be drawn.
pub(crate) fn bars(measure: &str, findings: &[Finding]) -> Result<String, PlotError> {
    let mut text = String::new();
    let height = 70 + ROW * findings.len() as u32;
    let backend = SVGBackend::with_string(&mut text, (WIDTH, height));
    draw_bars(measure, findings, backend).map_err(|error| PlotError::new(&*error))?;
    Ok(text)
}

fn draw_lines(picture: &Chart, backend: SVGBackend) -> Drawn {
    let points = || picture.lines.iter().chain(&picture.dots).flat_map(|line| &line.points);
    let least = points().map(|point| point.0).fold(f64::MAX, f64::min);
    let greatest = points().map(|point| point.0).fold(f64::MIN, f64::max);
    let ends = picture.lines.iter().flat_map(|line| {
        line.points.iter().zip(&line.errors).map(|(point, error)| point.1 + error)
    });
    let highest = points().map(|point| point.1).chain(ends).fold(f64::MIN_POSITIVE, f64::max);
    if least > greatest {
        return Err("a chart has no points".into());
    }
    let rows = picture.lines.len() + usize::from(picture.dots.is_some());
    let y = 0.0..highest * (1.08 + LEGEND_SHARE * rows as f64);
    match picture.doubling_x {
        true => {
            let x = (least / 1.15..greatest * 1.15).log_scale().base(2.0);
            draw_lines_over(picture, backend, x, y)
        }
        false => draw_lines_over(picture, backend, 0.0..greatest * 1.05, y),
    }
}

fn draw_lines_over<X>(picture: &Chart, backend: SVGBackend, x: X, y: Range<f64>) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(84)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(picture.x.as_str())
        .y_desc(picture.y.as_str())
        .x_label_formatter(&|x| format!("{}", (x * 100.0).round() / 100.0))
        .y_label_formatter(&|y| tick(*y))
        .label_style(LABEL)
        .axis_desc_style(LABEL)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (line, colour) in picture.lines.iter().zip(COLOURS.into_iter().skip(1).cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        let points = line.points.iter();
        chart.draw_series(points.map(|&point| Circle::new(point, 3, colour.filled())))?;
        for (&(x, y), error) in line.points.iter().zip(&line.errors) {
            let whisker = [(x, (y - error).max(0.0)), (x, y + error)];
            chart.draw_series([PathElement::new(whisker, colour.stroke_width(1))])?;
        }
    }
    if let Some(dots) = &picture.dots {
        let ring = BLACK.stroke_width(2);
        chart
            .draw_series(dots.points.iter().map(|&point| Circle::new(point, 6, ring)))?
            .label(dots.name.as_str())
            .legend(move |(x, y)| Circle::new((x + 10, y), 5, ring));
    }
    chart
        .configure_series_labels()
        .label_font(LABEL)
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    Ok(())
}

fn draw_bars(measure: &str, findings: &[Finding], backend: SVGBackend) -> Drawn {
    let unit = findings.first().ok_or("there are no figures")?.unit;
    let farthest = |finding: &Finding| finding.lab + finding.error().unwrap_or(0.0);
    let figures = findings.iter().flat_map(|it| [farthest(it), it.source.unwrap_or(0.0)]);
    let highest = figures.fold(f64::MIN_POSITIVE, f64::max);
    let count = findings.len() as f64;
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let longest = findings.iter().map(|it| it.what.chars().count()).max().unwrap_or(0);
    let (names, bars) = area.split_horizontally(24 + CHARACTER * longest.min(NAME_MAX + 3) as u32);
    let axis = match measure {
        "" => unit.to_string(),
        _ => format!("{measure}, {unit}"),
    };
    let mut chart = ChartBuilder::on(&bars)
        .margin(12)
        .margin_right(28)
        .x_label_area_size(48)
        .build_cartesian_2d(0.0..highest * 1.08, 0.0..count)?;
    axis_below_bars(&mut chart, &axis, LABEL, 6)?;
    let (lab, source) = (COLOURS[5], COLOURS[9]);
    for (row, finding) in findings.iter().enumerate() {
        let top = count - row as f64;
        let (above, below) = (top - 0.2, top - 0.8);
        let bar = [(0.0, below), (finding.lab.max(0.0), above)];
        chart.draw_series([Rectangle::new(bar, lab.mix(0.75).filled())])?;
        if let Some(error) = finding.error() {
            let middle = top - 0.5;
            let (from, to) = ((finding.lab - error).max(0.0), finding.lab + error);
            let whisker = [(from, middle), (to, middle)];
            chart.draw_series([PathElement::new(whisker, BLACK.stroke_width(1))])?;
        }
        if let Some(figure) = finding.source {
            let across = [(figure, top - 0.1), (figure, top - 0.9)];
            chart.draw_series([PathElement::new(across, source.stroke_width(3))])?;
        }
        let mut name: String = finding.what.chars().take(NAME_MAX).collect();
        if name.len() < finding.what.len() {
            name.push_str("...");
        }
        let style = LABEL.into_font().color(&BLACK.mix(0.85));
        let (_, y) = chart.backend_coord(&(0.0, top - 0.32));
        names.draw_text(&name, &style, (12, y))?;
    }
    area.present()?;
    Ok(())
}

/// Draws the axis below bars, with at most so many figures and a faint line up from each.
pub(crate) fn axis_below_bars<B: DrawingBackend, X>(
    chart: &mut ChartContext<'_, B, Cartesian2d<X, RangedCoordf64>>,
    axis: &str,
    label: (&str, u32),
    figures_max: usize,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_y_axis()
        .disable_y_mesh()
        .label_style(label)
        .axis_desc_style(label)
        .x_desc(axis)
        .x_labels(figures_max)
        .x_label_formatter(&|figure| tick(*figure))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .draw()
}

/// A figure with its thousands apart, and no more digits than it has.
pub(crate) fn tick(place: f64) -> String {
    let text = thousands(place);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A figure with its thousands apart.
pub(crate) fn thousands(figure: f64) -> String {
    let digits = match figure.abs() {
        0.0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{figure:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if whole.starts_with('-') { "-" } else { "" };
    let whole = whole.trim_start_matches('-').as_bytes();
    let groups: Vec<&str> =
        whole.rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
    format!("{sign}{}{rest}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let shown = [0.0, 1.234, 9.996, -12.34, 99.97, 123.4, 1234.5, 1_234_567.0].map(thousands);
        assert_eq!([0.0, 50.0, 2.5, 100.0, 2000.0].map(tick), ["0", "50", "2.5", "100", "2,000"]);
        assert_eq!(shown, ["0", "1.23", "10.0", "-12.3", "100", "123", "1,234", "1,234,567"]);
    }
}
