use std::error::Error;
use std::ops::Range;

use daemon::protocol::CurveReport;
use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{
    Circle, DashedPathElement, EmptyElement, PathElement, Polygon, Rectangle, Text,
};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, IntoTextStyle, RGBColor, WHITE};
use warmfront::{HumanSize, SizePoint};

use super::axis::Axis;
use super::{sentences, title};
use crate::format::folded;

/// Pixels of one curve.
const SIZE: (u32, u32) = (960, 560);
/// Pixels of the words below it.
const WORDS_HEIGHT: u32 = 110;
/// Steps of a drawn curve.
const STEPS: usize = 480;
/// Characters of a line of the words.
const LINE_CHARACTERS: usize = 126;
const FONT: &str = "sans-serif";

const CURVE: RGBColor = RGBColor(0x1b, 0x7f, 0x4d);
const TODAY: RGBColor = RGBColor(0x15, 0x6f, 0xb0);
const KNEE: RGBColor = RGBColor(0xb8, 0x5c, 0x00);
const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
const FAINT: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

type Outcome = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The curves, one below the other; among several those that have nothing to show are left out.
pub(crate) fn draw(reports: &[CurveReport]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let shown: Vec<_> =
        reports.iter().filter(|report| reports.len() == 1 || !report.points.is_empty()).collect();
    let count = shown.len().max(1);
    {
        let size = (SIZE.0, SIZE.1 * count as u32);
        let all = SVGBackend::with_string(&mut text, size).into_drawing_area();
        all.fill(&WHITE)?;
        for (report, area) in shown.into_iter().zip(all.split_evenly((count, 1))) {
            curve(report, &area)?;
        }
        all.present()?;
    }
    Ok(text)
}

fn curve(report: &CurveReport, area: &Area<'_>) -> Outcome {
    let (picture, below) = area.split_vertically(SIZE.1 - WORDS_HEIGHT);
    picture_of(report, &picture)?;
    let style = (FONT, 15).into_font().color(&TEXT);
    let sentences = sentences(report);
    let lines = sentences.iter().flat_map(|sentence| folded(sentence, LINE_CHARACTERS));
    for (line, text) in lines.enumerate() {
        below.draw(&Text::new(text, (72, 8 + 20 * line as i32), style.clone()))?;
    }
    Ok(())
}

fn picture_of(report: &CurveReport, area: &Area<'_>) -> Outcome {
    let axis = Axis::new(report);
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("{}: hit rate by size of the cache", title(report)),
            (FONT, 22).into_font().color(&TEXT),
        )
        .margin(14)
        .margin_right(28)
        .x_label_area_size(48)
        .y_label_area_size(58)
        .build_cartesian_2d(axis, 0.0..100.0)?;
    let scale = if axis.is_logarithmic { " (logarithmic)" } else { "" };
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(FAINT)
        .axis_style(TEXT)
        .x_desc(format!("bytes of contents in RAM{scale}"))
        .y_desc("hit rate, %")
        .axis_desc_style((FONT, 15).into_font().color(&TEXT))
        .label_style((FONT, 14).into_font().color(&TEXT))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .y_labels(6)
        .draw()?;

    let places = (0..=STEPS).map(|step| axis.bytes(step as f64 / STEPS as f64));
    let points: Vec<SizePoint> = places.filter_map(|bytes| report.at(bytes)).collect();
    let edge = |sign: f64| {
        points.iter().map(move |point| {
            (point.bytes, 100.0 * (point.hit_rate + sign * point.error).clamp(0.0, 1.0))
        })
    };
    let band: Vec<(u64, f64)> = edge(1.0).chain(edge(-1.0).rev()).collect();
    chart.draw_series([Polygon::new(band, CURVE.mix(0.18))])?;
    chart.draw_series(LineSeries::new(edge(0.0), CURVE.stroke_width(3)))?;

    let today = Some((report.today, "today", TODAY, 12.0));
    let knee = report.knee.map(|knee| (knee, "knee", KNEE, 4.0));
    let marks = || today.into_iter().chain(knee);
    // Today's is a ring on a wide line, the knee's a dot on a dashed one: they show in one place.
    for (point, name, colour, _) in marks() {
        let percent = 100.0 * point.hit_rate;
        let line = [(point.bytes, 0.0), (point.bytes, percent)];
        let (is_today, end) = (name == "today", (point.bytes, percent));
        if is_today {
            chart.draw_series([PathElement::new(line, colour.mix(0.4).stroke_width(6))])?;
            chart.draw_series([Circle::new(end, 9, colour.stroke_width(3))])?;
        } else {
            chart.draw_series([DashedPathElement::new(line, 5, 4, colour.stroke_width(2))])?;
            chart.draw_series([Circle::new(end, 5, colour.filled())])?;
        }
    }
    for (point, name, colour, height) in marks() {
        let label = format!("{name} {}: {:.1} %", HumanSize(point.bytes), 100.0 * point.hit_rate);
        // On the side where the other mark is not, unless there is no room.
        let place = axis.place(point.bytes);
        let is_left = point.bytes < other_of(report, &point);
        let (side, gap): (HPos, i32) = match (is_left && place > 0.2) || place > 0.8 {
            true => (HPos::Right, -7),
            false => (HPos::Left, 7),
        };
        let style =
            (FONT, 15).into_text_style(area).color(&colour).pos(Pos::new(side, VPos::Bottom));
        // Where there is no room on either side it lies over the other's line.
        let (width, sign) = (8 * label.len() as i32, gap.signum());
        let corners = [(gap, -17), (gap + sign * width, 3)];
        let label = EmptyElement::at((point.bytes, height))
            + Rectangle::new(corners, WHITE.filled())
            + Text::new(label, (gap, 0), style);
        chart.draw_series([label])?;
    }
    Ok(())
}

/// The size of the other mark.
fn other_of(report: &CurveReport, point: &SizePoint) -> u64 {
    match report.knee {
        Some(knee) if knee.bytes != point.bytes => knee.bytes,
        _ => report.today.bytes,
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = u64;

    fn map(&self, bytes: &u64, (first, last): (i32, i32)) -> i32 {
        first + (f64::from(last - first) * self.place(*bytes)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<u64> {
        self.ticks()
    }

    fn range(&self) -> Range<u64> {
        self.bytes(0.0)..self.bytes(1.0)
    }
}

impl ValueFormatter<u64> for Axis {
    fn format(bytes: &u64) -> String {
        HumanSize(*bytes).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::report;
    use super::*;

    #[test]
    fn the_drawing_holds_the_curve_its_marks_and_the_words() {
        let points = [(1.0, 0.2), (4.0, 0.71), (8.0, 0.83), (12.0, 0.9), (20.0, 0.9)];
        let one = report(4.0, &points, 8.0, 12.0);
        let empty = CurveReport { points: Vec::new(), knee: None, enough: None, ..one.clone() };
        let nothing = draw(std::slice::from_ref(&empty)).expect("it can be drawn");
        assert!(nothing.contains("No contents"), "{nothing}");
        let text = draw(&[one, empty]).expect("it can be drawn");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        let (ring, dot) = ("r=\"9\" opacity=\"1\" fill=\"none\"", "r=\"5\"");
        for part in ["<polyline", ring, dot, "today 4G", "knee 8G", "beyond 12G", "dataset tank/db"]
        {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
