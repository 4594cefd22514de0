use std::error::Error;
use std::fs;
use std::path::Path;

use lab::BarGroup;
use serde_json::{Value, json};

/// What one cache takes in one case: medians of its rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub case: String,
    pub cache: String,
    /// Wall-clock nanoseconds of a request, times the number of threads.
    pub wall_ns: f64,
    /// Nanoseconds of a request on the processor.
    pub cpu_ns: f64,
    pub hit_ratio: f64,
}

/// Prints the rows of one case. The times are those of the first.
pub fn print(rows: &[Row], as_json: bool) {
    let ours = rows.first().map_or(f64::NAN, |row| row.cpu_ns);
    if !as_json && let Some(row) = rows.first() {
        println!("\n{}", row.case);
        println!("{:<15} {:>10} {:>10} {:>8} {:>8}", "cache", "ns wall", "ns cpu", "times", "hits");
    }
    for Row { case, cache, wall_ns, cpu_ns, hit_ratio } in rows {
        let times = cpu_ns / ours;
        if as_json {
            let row = json!({
                "case": case, "cache": cache, "wall_ns": wall_ns, "cpu_ns": cpu_ns,
                "times_ours": times, "hit_ratio": hit_ratio,
            });
            println!("{row}");
        } else {
            let hits = 100.0 * hit_ratio;
            println!("{cache:<15} {wall_ns:>10.1} {cpu_ns:>10.1} {times:>8.2} {hits:>7.2}%");
        }
    }
}

/// The rows that a former run has printed as JSON, one a line.
pub fn read(file: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    let told = |error: &dyn Error| format!("cannot read the rows {}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| told(&error))?;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).map_err(|error| told(&error))?;
        let row = row(&value)
            .ok_or_else(|| format!("{}, line {}: it is no row", file.display(), number + 1))?;
        rows.push(row);
    }
    Ok(rows)
}

fn row(value: &Value) -> Option<Row> {
    let figure = |name: &str| value.get(name)?.as_f64();
    let text = |name: &str| Some(value.get(name)?.as_str()?.to_string());
    Some(Row {
        case: text("case")?,
        cache: text("cache")?,
        wall_ns: figure("wall_ns").unwrap_or(f64::NAN),
        cpu_ns: figure("cpu_ns")?,
        hit_ratio: figure("hit_ratio").unwrap_or(f64::NAN),
    })
}

/// Draws the rows: a group of bars for each case, a bar for each cache.
pub fn plot(rows: &[Row], file: &Path) -> Result<(), String> {
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in rows {
        if groups.last().is_none_or(|group| group.name != row.case) {
            groups.push(BarGroup { name: row.case.clone(), bars: Vec::new() });
        }
        let group = groups.last_mut().expect("there is one by now");
        group.bars.push((row.cache.clone(), row.cpu_ns));
    }
    warmfront_bench::write("nanoseconds of a request on the processor", &groups, file)
}
