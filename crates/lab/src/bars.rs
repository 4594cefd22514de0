//! Bars in groups, as SVG.

use plotters::prelude::*;

use crate::picture::{axis_below_bars, tick};
use crate::plot::{COLOURS, PlotError};

/// Width of the picture, in its own units.
const WIDTH: u32 = 860;
/// Height of a bar and of a group's name, and room between groups.
const ROW: u32 = 17;
/// For the axis below.
const AXIS: u32 = 68;
/// For the names of the bars at least; beyond that so much for each character of the longest.
const NAMES_MIN: u32 = 130;
const CHARACTER: u32 = 7;
/// Characters beyond these have no room made for them.
const NAME_MAX: usize = 60;
/// The axis begins below this much of the least figure, so that its bar has a length.
const SHORTEST: f64 = 0.9;
/// Figures on the axis at most.
const FIGURES_MAX: usize = 11;
/// Which fonts there are is left to whoever shows the picture.
const LABEL: (&str, u32) = ("sans-serif", 13);

/// Figures that are to be compared with each other.
///
/// ```
/// use lab::{BarGroup, grouped_bars};
///
/// let group = |name: &str, ours, theirs| BarGroup {
///     name: name.to_string(),
///     bars: vec![("ours".to_string(), ours), ("theirs".to_string(), theirs)],
/// };
/// let groups = [group("hits", 15.0, 132.0), group("misses", 381.0, 176.0)];
/// let picture = grouped_bars("nanoseconds", &groups)?;
/// assert!(picture.contains("misses") && picture.contains("381"));
/// # Ok::<(), lab::plot::PlotError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// What they are figures of.
    pub name: String,
    /// Name and length of each bar, which is more than 0.
    pub bars: Vec<(String, f64)>,
}

/// A bar for each figure, with the figure at its end, under the name of its group. The axis is
/// logarithmic, so that groups of all sizes can be read: equal ratios are equal lengths. Bars of
/// one name have one colour.
///
/// # Errors
/// When there are no figures, one is not more than 0, or the picture cannot be drawn.
pub fn grouped_bars(axis: &str, groups: &[BarGroup]) -> Result<String, PlotError> {
    let mut text = String::new();
    let rows: usize = groups.iter().map(|group| group.bars.len() + 2).sum();
    let size = (WIDTH, AXIS + ROW * rows as u32);
    draw(axis, groups, SVGBackend::with_string(&mut text, size))
        .map_err(|error| PlotError::new(&*error))?;
    Ok(text)
}

fn draw(
    axis: &str,
    groups: &[BarGroup],
    backend: SVGBackend<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let figures = || groups.iter().flat_map(|group| &group.bars).map(|(_, figure)| *figure);
    let least = figures().fold(f64::MAX, f64::min);
    let most = figures().fold(0.0, f64::max);
    if figures().any(|figure| figure.is_nan() || figure <= 0.0) || least > most {
        return Err("a figure that is not more than 0 has no bar, and without figures \
                    there are none"
            .into());
    }
    let from = 10_f64.powf((least * SHORTEST).log10().floor());
    let rows: usize = groups.iter().map(|group| group.bars.len() + 2).sum();
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let (_, bars) = area.split_horizontally(names_width(groups));
    let mut chart = ChartBuilder::on(&bars)
        .margin_top(6)
        .margin_right(60)
        .x_label_area_size(AXIS - 18)
        .build_cartesian_2d((from..most * 1.2).log_scale(), 0.0..rows as f64)?;
    axis_below_bars(&mut chart, axis, LABEL, FIGURES_MAX)?;
    let kinds = kinds(groups);
    let plain = LABEL.into_font().color(&BLACK.mix(0.85));
    let strong = LABEL.into_font().style(FontStyle::Bold).color(&BLACK);
    let mut top = rows as f64;
    for group in groups {
        top -= 1.0;
        let line = |chart: &ChartContext<'_, _, _>, at: f64| chart.backend_coord(&(from, at)).1;
        area.draw_text(&group.name, &strong, (12, line(&chart, top + 0.8)))?;
        for (name, figure) in &group.bars {
            let kind = kinds.iter().position(|kind| *kind == name).unwrap_or(0);
            let colour = COLOURS[(kind + COLOURS.len() / 2) % COLOURS.len()];
            let bar = [(from, top - 0.9), (*figure, top - 0.1)];
            chart.draw_series([Rectangle::new(bar, colour.mix(0.8).filled())])?;
            area.draw_text(name, &plain, (24, line(&chart, top - 0.15)))?;
            let (end, y) = chart.backend_coord(&(*figure, top - 0.15));
            area.draw_text(&tick(*figure), &plain, (end + 6, y))?;
            top -= 1.0;
        }
        top -= 1.0;
    }
    area.present()?;
    Ok(())
}

/// The room that names of bars take.
fn names_width(groups: &[BarGroup]) -> u32 {
    let names = groups.iter().flat_map(|group| &group.bars);
    let longest = names.map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    (32 + CHARACTER * longest.min(NAME_MAX) as u32).max(NAMES_MIN)
}

/// The names of bars, each once.
fn kinds(groups: &[BarGroup]) -> Vec<&String> {
    let mut kinds = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.bars) {
        if !kinds.contains(&name) {
            kinds.push(name);
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, bars: &[(&str, f64)]) -> BarGroup {
        let bars = bars.iter().map(|(name, figure)| (name.to_string(), *figure)).collect();
        BarGroup { name: name.to_string(), bars }
    }

    #[test]
    fn each_figure_has_a_bar_and_stands_beside_it() {
        let groups = [group("one", &[("a", 8.0), ("b", 90.0)]), group("two", &[("a", 1448.0)])];
        let picture = grouped_bars("ns", &groups).expect("it can be drawn");
        for told in ["one", "two", "8", "90", "1,448", "ns"] {
            assert!(picture.lines().any(|line| line == told), "no {told} in {picture}");
        }
        // The ground, and a bar for each.
        assert_eq!(picture.matches("<rect").count(), 4, "{picture}");
        let colour = |index: usize| {
            let bars = picture.lines().filter(|line| line.starts_with("<rect"));
            let fill = |line: &str| line.split("fill=").nth(1).map(|it| it[..9].to_string());
            bars.skip(1).nth(index).and_then(fill)
        };
        assert!(colour(0) == colour(2) && colour(0) != colour(1), "{picture}");
    }

    #[test]
    fn a_figure_where_the_axis_could_begin_has_a_bar() {
        let widths = |least: f64| -> Vec<u32> {
            let picture = grouped_bars("ns", &[group("one", &[("a", least), ("b", 90.0)])]);
            let picture = picture.expect("it can be drawn");
            let bars = picture.lines().filter(|line| line.starts_with("<rect")).skip(1);
            let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
            bars.filter_map(width).collect()
        };
        assert!(widths(10.0)[0] > 100, "{:?}", widths(10.0));
        assert!(widths(10.0)[0] < widths(10.0)[1]);
    }

    #[test]
    fn what_has_no_length_is_refused() {
        assert!(grouped_bars("ns", &[]).is_err());
        for figure in [0.0, -1.0, f64::NAN] {
            assert!(grouped_bars("ns", &[group("one", &[("a", figure)])]).is_err(), "{figure}");
        }
    }
}
