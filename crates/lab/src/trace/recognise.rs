use std::path::Path;

use super::format::Format;
use super::{blkparse, csv, fio, lirs, oracle_general, recording, vscsi};

/// Lines or records that must agree.
const EXAMPLES_MAX: usize = 256;
/// Letters of a line that a message shows at most.
const SHOWN_MAX: usize = 60;

/// How other files begin, and what they are.
const FOREIGN: [(&[u8], &str); 4] = [
    (
        &[0x07, 0x74, 0x61, 0x65],
        "it is what blktrace writes; blkparse makes text of it, which is read",
    ),
    (b"PAR1", "it is Parquet; csv can be made of it, which is read"),
    (b"SQLite format 3\0", "it is a database of SQLite"),
    (&[0x7f, b'E', b'L', b'F'], "it is a program"),
];

/// The format of a trace, by its first bytes, else by its name. Numbers in a row without any
/// structure (`u32le` and the like) can be told by a name that ends so.
pub(super) fn recognise(path: &Path, head: &[u8]) -> Option<Format> {
    if head.starts_with(recording::HEADING.as_bytes()) {
        // Also one that is damaged behind, which is told with its place.
        return Some(Format::Recording);
    }
    let by_contents = if text(head).is_some() { by_text(head) } else { by_records(head) };
    by_contents.or_else(|| by_name(path))
}

/// What can be said of a trace of no known format.
pub(super) fn describe(head: &[u8]) -> String {
    if head.is_empty() {
        return "it is empty".to_owned();
    }
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
        return (*what).to_owned();
    }
    match text(head) {
        None => "it is not text, and no records that are known".to_owned(),
        Some(text) => {
            let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
            let shown: String = first.chars().take(SHOWN_MAX).collect();
            let columns = csv::split(first).count();
            let heading = match columns > 1 && csv::is_heading(first) {
                true => ", which names no column with the objects as csv needs it",
                false => "",
            };
            format!("it is text, and its first line has {columns} columns: `{shown}`{heading}")
        }
    }
}

/// Texts differ in their number of columns.
fn by_text(head: &[u8]) -> Option<Format> {
    let text = text(head)?;
    // The last line may be cut.
    let whole =
        if text.ends_with('\n') { text } else { text.rsplit_once('\n').map_or(text, |it| it.0) };
    let mut lines =
        whole.lines().map(str::trim).filter(|line| !line.is_empty() && *line != lirs::MARK);
    let first = lines.next()?;
    if fio::is_heading(first) {
        return Some(Format::FioIolog);
    }
    if blkparse::is_plausible(first) {
        return Some(Format::Blkparse);
    }
    if fio::is_log_line(first) && lines.clone().take(EXAMPLES_MAX).all(fio::is_log_line) {
        return Some(Format::FioLog);
    }
    if csv::is_heading(first) {
        let is_csv = csv::split(first).count() > 1 && csv::Columns::new(first).is_ok();
        return is_csv.then_some(Format::Csv);
    }
    if first.contains(',') {
        return (csv::split(first).count() > 1).then_some(Format::Csv);
    }
    let columns = csv::split(first).count();
    let alike = |line: &str| {
        csv::split(line).count() == columns && csv::split(line).all(|it| it.parse::<f64>().is_ok())
    };
    if !alike(first) {
        return None;
    }
    // A few that differ are damage, which is told with its place when the trace is read.
    let (agree, differ): (Vec<_>, Vec<_>) = lines.take(EXAMPLES_MAX).partition(|line| alike(line));
    if differ.len() > agree.len() {
        return None;
    }
    match columns {
        1 => Some(Format::Lirs),
        3 => Some(Format::Csv),
        4 => Some(Format::Arc),
        5 => Some(Format::Ssdsim),
        _ => None,
    }
}

/// The head, if it is text.
fn text(head: &[u8]) -> Option<&str> {
    let text = match str::from_utf8(head) {
        Ok(text) => text,
        // The head may end within a letter of several bytes.
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if text.contains(|letter: char| letter.is_control() && !letter.is_ascii_whitespace()) {
        return None;
    }
    Some(text)
}

/// Records have fields of which not every value makes sense.
fn by_records(head: &[u8]) -> Option<Format> {
    let (records, _) = head.as_chunks();
    let mut examples = records.iter().take(EXAMPLES_MAX).map(vscsi::Record::new).peekable();
    if examples.peek().is_some() && examples.all(vscsi::Record::is_plausible) {
        return Some(Format::Vscsi);
    }
    let (records, _) = head.as_chunks();
    let mut before = None;
    let mut examples = records.iter().take(EXAMPLES_MAX).map(oracle_general::Record::new);
    let plausible = examples
        .by_ref()
        .enumerate()
        .all(|(index, record)| record.is_plausible(index, before.replace(record)));
    (before.is_some() && plausible).then_some(Format::OracleGeneral)
}

/// The file is called after a format: `x.u32le.zst`.
fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    name.split('.').skip(1).find_map(|part| part.parse().ok())
}
