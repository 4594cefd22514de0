use crate::format::{Form, broken};

/// Between two columns.
const GAP: &str = "  ";
/// A column of text reads well with so many characters, and is made no narrower than that.
const TEXT_WIDTH: usize = 24;
const TEXT_WIDTH_MIN: usize = 12;

/// An aligned table for people, or the same rows separated by tabs for scripts.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    heading: String,
    is_number: bool,
}

impl Table {
    /// A table with these headings. Columns of numbers, marked by a leading `>`, are set flush
    /// right.
    pub(crate) fn new(headings: &[&str]) -> Table {
        let columns = headings
            .iter()
            .map(|heading| Column {
                heading: heading.trim_start_matches('>').to_string(),
                is_number: heading.starts_with('>'),
            })
            .collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The text.
    pub(crate) fn render(&self, form: Form) -> String {
        if form.script {
            return self.rows.iter().map(|row| row.join("\t") + "\n").collect();
        }
        let widths = self.widths();
        let headings = self.columns.iter().map(|column| column.heading.clone()).collect();
        std::iter::once(&headings).chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    /// The text for people in lines of at most `room` characters, as far as that can be: without
    /// columns of these names, the first ones first, which a last line then names, and with cells
    /// of text over several lines.
    pub(crate) fn render_within(
        mut self,
        form: Form,
        room: usize,
        left_out_first: &[&str],
    ) -> String {
        let mut left_out = Vec::new();
        for name in left_out_first {
            if self.least() <= room {
                break;
            }
            if let Some(at) = self.columns.iter().position(|column| column.heading == *name) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| _ = row.remove(at));
                left_out.push(*name);
            }
        }
        self.fold(room);
        let mut text = self.render(form);
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            let note = format!("Left out, for a wider terminal or --json: {names}.");
            broken(&note, room).iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        text
    }

    /// Breaks cells of text, those of the widest column first, until lines are short enough.
    fn fold(&mut self, room: usize) {
        let mut widths = self.widths();
        while taken(&widths) > room {
            let texts = self.columns.iter().zip(&mut widths).filter(|(column, width)| {
                !column.is_number && **width > TEXT_WIDTH_MIN.max(column.heading.chars().count())
            });
            let Some((_, widest)) = texts.max_by_key(|(_, width)| **width) else { break };
            *widest -= 1;
        }
        let rows = std::mem::take(&mut self.rows);
        for row in rows {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| broken(cell, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            let line = |at| cells.iter().map(move |cell| cell.get(at).cloned().unwrap_or_default());
            self.rows.extend((0..height).map(|at| line(at).collect()));
        }
    }

    /// Characters of a line of which all texts read well.
    fn least(&self) -> usize {
        let width = |(column, width): (&Column, usize)| match column.is_number {
            true => width,
            false => width.min(TEXT_WIDTH.max(column.heading.chars().count())),
        };
        let widths: Vec<usize> = self.columns.iter().zip(self.widths()).map(width).collect();
        taken(&widths)
    }

    /// How wide each column is.
    fn widths(&self) -> Vec<usize> {
        let width = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[index].chars().count());
            cells.chain([column.heading.chars().count()]).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((column, cell), width) in self.columns.iter().zip(row).zip(widths) {
            let cell = match column.is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
            line.push_str(&cell);
            line.push_str(GAP);
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// Characters of a line with columns of these widths.
fn taken(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEOPLE: Form = Form { script: false, exact: false, json: false };

    #[test]
    fn columns_are_aligned_for_people_and_separated_by_tabs_for_scripts() {
        let mut table = Table::new(&["NAME", ">SIZE", "PATH"]);
        table.row(vec!["a".to_string(), "10".to_string(), "/x".to_string()]);
        table.row(vec!["longer".to_string(), "5".to_string(), "/".to_string()]);
        let text = "NAME    SIZE  PATH\na         10  /x\nlonger     5  /\n";
        assert_eq!(table.render(PEOPLE), text);
        let script = Form { script: true, ..PEOPLE };
        assert_eq!(table.render(script), "a\t10\t/x\nlonger\t5\t/\n");
    }

    #[test]
    fn a_narrow_table_leaves_out_columns_and_breaks_text() {
        let table = || {
            let mut table = Table::new(&["NAME", ">SIZE", ">HITS", "WHY"]);
            let why = "it was read once and evicted".to_string();
            table.row(vec!["/a/long/path/x".to_string(), "10".to_string(), "7".to_string(), why]);
            table
        };
        let wide = table().render(PEOPLE);
        assert_eq!(table().render_within(PEOPLE, usize::MAX, &["SIZE"]), wide);
        assert_eq!(table().render_within(PEOPLE, 56, &["SIZE"]), wide);
        let text = "NAME            HITS  WHY\n\
                    /a/long/path/x     7  it was read once and\n\
                    \x20                     evicted\n\
                    Left out, for a wider terminal or --json: SIZE.\n";
        assert_eq!(table().render_within(PEOPLE, 47, &["SIZE", "HITS"]), text);
        let narrow = table().render_within(PEOPLE, 32, &["SIZE", "HITS"]);
        assert!(narrow.contains("\n/a/long/path/x  it was read"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 32), "{narrow}");
    }
}
