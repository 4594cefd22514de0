use std::path::Path;

use lab::BarGroup;
use warmfront_bench::{Table, bars, write};

use crate::case::GROUPS;

/// Pictures of what mounts do, in units that have a picture each: what stands over a table's
/// figures, the file, the axis, and how many of its unit one of the table's is.
const PICTURES: [(&str, &str, &str, f64); 3] = [
    ("IOPS", "mounts-iops.svg", "reads a second", 1.0),
    ("MB/s", "mounts-mb.svg", "MB/s", 1.0),
    ("seconds", "mounts-time.svg", "milliseconds", 1000.0),
];

/// Draws the tables of a report that are about mounts.
///
/// # Errors
/// When there are none, or a picture cannot be written.
pub(crate) fn write_all(report: &str, directory: &Path) -> Result<(), String> {
    let mut tables = Table::all(report);
    tables.retain(|table| {
        table.begins_with(&["subject"]) && table.columns.len() > 1 && is_case(&table.heading)
    });
    if tables.is_empty() {
        return Err("there is no table about mounts to draw".to_string());
    }
    for (unit, file, axis, factor) in PICTURES {
        let of_unit = tables.iter().filter(|table| table.columns[1] == unit);
        let groups: Vec<BarGroup> = of_unit.map(|table| group(table, factor)).collect();
        if !groups.is_empty() {
            write(axis, &groups, &directory.join(file))?;
        }
    }
    Ok(())
}

fn is_case(name: &str) -> bool {
    GROUPS.iter().flat_map(|group| group.cases).any(|case| case.comparison.name == name)
}

fn group(table: &Table, factor: f64) -> BarGroup {
    let cells = table.rows.iter().map(|row| (&*row[0], &*row[1]));
    bars(&table.heading, cells, factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Outcome, Row};
    use crate::report::markdown;

    fn outcome(name: &'static str, unit: &'static str, figures: [Option<f64>; 2]) -> Outcome {
        let row = |(subject, value): (&str, _)| {
            let subject = subject.to_string();
            Row { subject, value, ratio: None, note: None }
        };
        let rows = ["warmfront", "bindfs"].into_iter().zip(figures).map(row).collect();
        Outcome { name, what: "What is compared.", unit, rows }
    }

    #[test]
    fn tables_about_mounts_are_drawn_by_unit() {
        let directory = tempfile::tempdir().expect("a directory");
        let report = markdown(
            &[],
            &[
                outcome("random-4k-1-job", "IOPS", [Some(108_800.0), None]),
                outcome("find-warm", "seconds", [Some(0.153), Some(0.205)]),
                outcome("flash-fill", "MB/s", [Some(1922.0), None]),
            ],
        );
        write_all(&report, directory.path()).expect("there are two to draw");
        let drawn = |file: &str| std::fs::read_to_string(directory.path().join(file));
        let reads = drawn("mounts-iops.svg").expect("it was drawn");
        assert!(reads.lines().any(|line| line == "108,800"), "{reads}");
        assert!(!reads.contains("bindfs"), "it has no figure: {reads}");
        let times = drawn("mounts-time.svg").expect("it was drawn");
        assert!(["153", "205"].iter().all(|told| times.lines().any(|it| it == *told)), "{times}");
        assert!(drawn("mounts-mb.svg").is_err(), "flash alone is no mount");
    }

    #[test]
    fn a_page_without_such_tables_is_refused() {
        let report = markdown(&[], &[outcome("flash-fill", "MB/s", [Some(1922.0), None])]);
        assert!(write_all(&report, std::path::Path::new("/nowhere")).is_err());
    }
}
