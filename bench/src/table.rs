use std::fs;
use std::path::Path;

/// A table of a page in Markdown, as a run has printed it or as it stands in the docs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The heading that it stands under.
    pub heading: String,
    /// What stands over its columns.
    pub columns: Vec<String>,
    /// Its cells, row by row: as many as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The tables of a page, in order.
    ///
    /// ```
    /// let page = "## Hits\n\n| cache | ns |\n|---|--:|\n| ours | 15 |\n| theirs | 132 |\n";
    /// let tables = warmfront_bench::Table::all(page);
    /// assert_eq!((tables.len(), tables[0].heading.as_str()), (1, "Hits"));
    /// assert_eq!(tables[0].rows, [["ours", "15"], ["theirs", "132"]]);
    /// ```
    pub fn all(page: &str) -> Vec<Table> {
        let (mut tables, mut heading, mut is_inside) = (Vec::<Table>::new(), "", false);
        for line in page.lines().map(str::trim) {
            let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
            if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
            let Some(cells) = cells else {
                is_inside = false;
                continue;
            };
            let mut cells: Vec<String> = cells.split('|').map(|it| it.trim().to_string()).collect();
            match tables.last_mut().filter(|_| is_inside) {
                Some(table) if !cells.iter().all(|it| is_rule(it)) => {
                    cells.resize(table.columns.len(), String::new());
                    table.rows.push(cells);
                }
                Some(_) => {}
                None => {
                    let heading = heading.to_string();
                    tables.push(Table { heading, columns: cells, rows: Vec::new() });
                }
            }
            is_inside = true;
        }
        tables
    }

    /// Whether these stand over its first columns.
    pub fn begins_with(&self, columns: &[&str]) -> bool {
        self.columns.len() >= columns.len() && self.columns.iter().zip(columns).all(|(a, b)| a == b)
    }
}

/// Whether it is a part of the line between a table's head and its rows.
fn is_rule(cell: &str) -> bool {
    cell.contains("--") && cell.trim_matches(['-', ':']).is_empty()
}

/// The figure that a cell begins with. What follows in parentheses is left out; `k` and `M` are a
/// thousand and a million.
///
/// ```
/// use warmfront_bench::figure;
///
/// assert_eq!(figure("51.6 (46.4 to 54.2) M requests/s"), Some(51.6e6));
/// assert_eq!(figure("108.8 k"), Some(108_800.0));
/// assert_eq!(figure("-"), None);
/// ```
pub fn figure(cell: &str) -> Option<f64> {
    let cell = cell.trim().trim_matches('*');
    let (number, rest) = cell.split_once(' ').unwrap_or((cell, ""));
    let number: f64 = number.replace(',', "").parse().ok()?;
    let unit = match rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_spread, unit)) => unit,
        None => rest,
    };
    Some(match unit.split_whitespace().next() {
        Some("k") => number * 1e3,
        Some("M") => number * 1e6,
        _ => number,
    })
}

/// A page with tables: the docs, or what a former run has printed.
///
/// # Errors
/// When it cannot be read.
pub fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file)
        .map_err(|error| format!("cannot read the tables of {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_the_heading_above_it() {
        let page = "# A\n| x | y |\n|:--|--:|\n| 1 | 2 |\n| 3 |\n\ntext\n\n\
                    | z |\n|---|\n\n## B\n\n| w |\n";
        let tables = Table::all(page);
        let found: Vec<_> = tables.iter().map(|it| (&*it.heading, &*it.columns[0])).collect();
        assert_eq!(found, [("A", "x"), ("A", "z"), ("B", "w")]);
        assert_eq!(tables[0].rows, [["1", "2"], ["3", ""]]);
        assert!(tables[0].begins_with(&["x"]) && !tables[0].begins_with(&["y"]));
        assert!(!tables[1].begins_with(&["z", "more"]));
    }

    #[test]
    fn a_figure_is_read_with_its_unit() {
        let cells = ["0.113 (0.104 to 0.127) s", "1,334 (1,332 to 1,337) k requests/s", "**0.97**"];
        assert_eq!(cells.map(figure), [Some(0.113), Some(1_334_000.0), Some(0.97)]);
        assert_eq!(["", "-", "lru", "(1)"].map(figure), [None; 4]);
    }
}
