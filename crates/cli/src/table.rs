use crate::format::Form;

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
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().map(|row| row[index].chars().count());
                cells.chain([column.heading.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let headings = self.columns.iter().map(|column| column.heading.clone()).collect();
        std::iter::once(&headings).chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((column, cell), width) in self.columns.iter().zip(row).zip(widths) {
            let cell = match column.is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
            line.push_str(&cell);
            line.push_str("  ");
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
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
}
