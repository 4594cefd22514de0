use std::fs;
use std::path::Path;

use lab::{BarGroup, grouped_bars};

use crate::table::figure;

/// A group of bars: each name with the figure that its cell begins with, `factor` times. Cells
/// without one have no bar.
///
/// ```
/// use warmfront_bench::bars;
///
/// let seconds = [("ours", "0.015"), ("theirs", "0.132"), ("nobody's", "-")];
/// let milliseconds = bars("start", seconds, 1000.0).bars;
/// assert_eq!(milliseconds, [("ours".to_string(), 15.0), ("theirs".to_string(), 132.0)]);
/// ```
pub fn bars<'a>(
    name: &str,
    cells: impl IntoIterator<Item = (&'a str, &'a str)>,
    factor: f64,
) -> BarGroup {
    let bar = |(name, cell): (&str, &str)| {
        let figure = figure(cell).filter(|figure| *figure > 0.0)?;
        Some((name.to_string(), figure * factor))
    };
    BarGroup { name: name.to_string(), bars: cells.into_iter().filter_map(bar).collect() }
}

/// Draws figures as bars, and writes the picture to a file.
///
/// # Errors
/// When there are no figures, or the file cannot be written.
///
/// ```
/// use warmfront_bench::{bars, write};
///
/// # let directory = tempfile::tempdir()?;
/// # let file = directory.path().join("hits.svg");
/// write("nanoseconds", &[bars("hits", [("ours", "15"), ("theirs", "132")], 1.0)], &file)?;
/// assert!(std::fs::read_to_string(&file)?.contains("theirs"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(axis: &str, groups: &[BarGroup], file: &Path) -> Result<(), String> {
    let told = |error: String| format!("cannot write the plot {}: {error}", file.display());
    let picture = grouped_bars(axis, groups).map_err(|error| told(error.to_string()))?;
    fs::write(file, picture).map_err(|error| told(error.to_string()))
}
