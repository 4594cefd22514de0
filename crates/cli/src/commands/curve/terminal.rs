use daemon::protocol::CurveReport;
use warmfront::{HumanSize, SizePoint};

use super::axis::Axis;
use crate::bars::coloured;

/// Lines of the picture.
const HEIGHT: usize = 12;
/// Characters of the picture at most.
const WIDTH_MAX: usize = 96;
/// Characters left of the picture.
const LEFT: usize = 7;
/// A Braille character has so many dots across and down.
const DOTS: (usize, usize) = (2, 4);
/// The empty Braille character; its low 8 bits are the dots.
const BRAILLE: u32 = 0x2800;
/// The bit of each dot of a Braille character, by column and line.
const DOT_BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

const CURVE_COLOUR: u8 = 32;
const TODAY_COLOUR: u8 = 36;
const KNEE_COLOUR: u8 = 33;

/// A size that is marked in the picture.
struct Mark {
    point: SizePoint,
    column: usize,
    name: &'static str,
    sign: char,
    line: char,
    colour: u8,
}

/// The curve, for a terminal of this width: hit rate upward, size to the right.
pub(crate) fn draw(report: &CurveReport, width: usize, unicode: bool) -> String {
    let width = width.saturating_sub(LEFT + 1).clamp(20, WIDTH_MAX);
    let axis = Axis::new(report);
    let marks = marks(report, &axis, width, unicode);
    let curve = if unicode { braille(report, &axis, width) } else { ascii(report, &axis, width) };
    let mut text = String::new();
    for line in 0..HEIGHT {
        text.push_str(&left(line, unicode));
        for column in 0..width {
            text.push_str(&cell(&curve, &marks, line, column));
        }
        text.push('\n');
    }
    text.push_str(&bottom(&axis, &marks, width, unicode));
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn marks(report: &CurveReport, axis: &Axis, width: usize, unicode: bool) -> Vec<Mark> {
    let column = |bytes| ((axis.place(bytes) * width as f64) as usize).min(width - 1);
    let mark = |point: SizePoint, name, signs: (char, char), lines: (char, char), colour| Mark {
        point,
        column: column(point.bytes),
        name,
        sign: if unicode { signs.0 } else { signs.1 },
        line: if unicode { lines.0 } else { lines.1 },
        colour,
    };
    let today = mark(report.today, "today", ('\u{25cf}', 'T'), ('\u{2502}', '|'), TODAY_COLOUR);
    let knee = report
        .knee
        .map(|knee| mark(knee, "knee", ('\u{25c6}', 'K'), ('\u{250a}', ':'), KNEE_COLOUR));
    std::iter::once(today).chain(knee).collect()
}

/// The line of the picture on which a hit rate stands.
fn line_of(hit_rate: f64) -> usize {
    (((1.0 - hit_rate) * HEIGHT as f64) as usize).min(HEIGHT - 1)
}

fn cell(curve: &[Vec<Option<char>>], marks: &[Mark], line: usize, column: usize) -> String {
    let here = || marks.iter().filter(|mark| mark.column == column);
    if let Some(mark) = here().find(|mark| line_of(mark.point.hit_rate) == line) {
        return coloured(&mark.sign.to_string(), mark.colour);
    }
    if let Some(drawn) = curve[line][column] {
        return coloured(&drawn.to_string(), CURVE_COLOUR);
    }
    match here().find(|mark| line_of(mark.point.hit_rate) < line) {
        Some(mark) => coloured(&mark.line.to_string(), mark.colour),
        None => " ".to_string(),
    }
}

/// Percentages, and the axis of hit rates.
fn left(line: usize, unicode: bool) -> String {
    let is_tick = line.is_multiple_of(HEIGHT / 4);
    let label = match is_tick {
        true => format!("{:>3} %", 100 - 100 * line / HEIGHT),
        false => String::new(),
    };
    let axis = match (unicode, is_tick) {
        (true, true) => '\u{2524}',
        (true, false) => '\u{2502}',
        (false, _) => '|',
    };
    format!("{label:>width$} {axis}", width = LEFT - 2)
}

/// The axis of sizes, its sizes, and the names of the marks.
fn bottom(axis: &Axis, marks: &[Mark], width: usize, unicode: bool) -> String {
    let (corner, line, tick) =
        if unicode { ('\u{253c}', '\u{2500}', '\u{253c}') } else { ('+', '-', '+') };
    let mut drawn = vec![line; width];
    let mut labels = vec![' '; width];
    let mut free_from = 0;
    for bytes in axis.ticks() {
        let column = ((axis.place(bytes) * width as f64) as usize).min(width - 1);
        drawn[column] = tick;
        let label = HumanSize(bytes).to_string();
        let start = column.saturating_sub(label.len() / 2).min(width - label.len().min(width));
        if start >= free_from {
            labels.splice(start..start + label.len(), label.chars());
            free_from = start + label.len() + 1;
        }
    }
    let drawn: String = drawn.into_iter().collect();
    let labels: String = labels.into_iter().collect();
    let zero = format!("{:>3} %", 0);
    let margin = " ".repeat(LEFT);
    let mut text = format!("{zero:>pad$} {corner}{drawn}\n", pad = LEFT - 2);
    text.push_str(&format!("{margin}{labels}\n"));
    for mark in marks {
        let label = format!("{} {} {}", mark.sign, mark.name, HumanSize(mark.point.bytes));
        let length = label.chars().count();
        // Left of its mark where there is no room to the right.
        let (start, label) = match mark.column + length <= width {
            true => (mark.column, label),
            false => {
                let label = format!("{} {} {}", mark.name, HumanSize(mark.point.bytes), mark.sign);
                ((mark.column + 1).saturating_sub(length), label)
            }
        };
        let label = coloured(&label, mark.colour);
        text.push_str(&format!("{margin}{}{label}\n", " ".repeat(start)));
    }
    let scale = if axis.is_logarithmic { ", logarithmic" } else { "" };
    text + &format!("{margin}size: bytes of contents in RAM{scale}\n")
}

/// The curve in dots, 2 across and 4 down in each character.
fn braille(report: &CurveReport, axis: &Axis, width: usize) -> Vec<Vec<Option<char>>> {
    let (across, down) = (width * DOTS.0, HEIGHT * DOTS.1);
    let mut bits = vec![vec![0_u32; width]; HEIGHT];
    for_each_dot(report, axis, across, down, |x, y| {
        bits[y / DOTS.1][x / DOTS.0] |= DOT_BITS[x % DOTS.0][y % DOTS.1];
    });
    let character = |bits: u32| if bits == 0 { None } else { char::from_u32(BRAILLE | bits) };
    bits.into_iter().map(|line| line.into_iter().map(character).collect()).collect()
}

fn ascii(report: &CurveReport, axis: &Axis, width: usize) -> Vec<Vec<Option<char>>> {
    let mut cells = vec![vec![None; width]; HEIGHT];
    for_each_dot(report, axis, width, HEIGHT, |x, y| cells[y][x] = Some('*'));
    cells
}

/// Visits the dots of the curve; where it is steep, those in between as well.
fn for_each_dot(
    report: &CurveReport,
    axis: &Axis,
    across: usize,
    down: usize,
    mut visit: impl FnMut(usize, usize),
) {
    let mut before = None;
    for x in 0..across {
        let bytes = axis.bytes((x as f64 + 0.5) / across as f64);
        let Some(point) = report.at(bytes) else { continue };
        let y = (((1.0 - point.hit_rate) * down as f64) as usize).min(down - 1);
        let from = before.map_or(y, |before: usize| before.max(y + 1) - 1);
        (y..=from.max(y)).for_each(|y| visit(x, y));
        before = Some(y);
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::report;
    use super::*;

    #[test]
    fn the_picture_rises_from_the_lower_left_and_fits_its_width() {
        let points = [(1.0, 0.2), (4.0, 0.71), (8.0, 0.83), (12.0, 0.9), (20.0, 0.9)];
        let report = report(4.0, &points, 8.0, 12.0);
        for unicode in [false, true] {
            let text = draw(&report, 80, unicode);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
            assert_eq!(lines.len(), HEIGHT + 5, "{text}");
            assert!(lines[0].starts_with("100 %") && lines[HEIGHT].starts_with("  0 %"), "{text}");
            assert!(text.contains("today 4G") && text.contains("knee 8G"), "{text}");
        }
        let text = draw(&report, 80, false);
        let first = |star: &str| text.lines().position(|line| line.contains(star));
        assert!(first("*").expect("a curve") < first("T").expect("a mark"), "{text}");
        let columns: Vec<usize> =
            text.lines().take(HEIGHT).filter_map(|line| line.find('*')).collect();
        assert!(columns.windows(2).all(|pair| pair[0] >= pair[1]), "{columns:?}\n{text}");
    }
}
