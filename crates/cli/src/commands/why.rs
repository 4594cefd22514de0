use std::fmt::Write;
use std::path::Path;

use daemon::{Paths, Target};
use warmfront::{HITS_MAX, HumanSize, RecordRun, Why};

use crate::bars::{coloured, is_unicode, room, width};
use crate::failure::{Failure, Result};
use crate::format::{Form, count, json, labelled, percent, print, seconds};
use crate::table::Table;

/// Rows of the table; the rest is in `--json`.
const RUNS_SHOWN_MAX: usize = 40;
/// Characters of the labels before the lines.
const LABEL_WIDTH: usize = 11;

pub(crate) fn why(paths: &Paths, form: Form, file: &Path) -> Result<()> {
    let target = Target::find(paths, file.as_os_str())?;
    let path = target.path.as_ref().ok_or_else(|| {
        Failure::usage(format!("{} is not a path; name a file under the mount", file.display()))
    })?;
    let why = target.client()?.why(path)?;
    print(&match (form.json, form.script) {
        (true, _) => json(&why),
        (_, true) => table(&why, usize::MAX, form).render(form),
        _ => people(file, &why, room()),
    });
    Ok(())
}

fn people(file: &Path, why: &Why, room: usize) -> String {
    let mut text = String::new();
    let mut line =
        |label: &str, value: String| text.push_str(&labelled(label, LABEL_WIDTH, &value, room));
    line("file", file.display().to_string());
    let promote = if why.promote { "" } else { ", promote=off" };
    line("dataset", format!("{} (primarycache={}{promote})", why.dataset, why.primarycache));
    line("object", format!("{}, generation {:016x}", why.object, why.generation));
    line(
        "checked",
        format!(
            "{} ago against the origin (coherence={})",
            seconds(why.checked_seconds_ago),
            why.coherence
        ),
    );
    if !why.is_file {
        line("records", "none: it is not a regular file; its attributes are metadata".to_string());
        return text;
    }
    line("policy", policy(why));
    line(
        "records",
        format!(
            "{} of {} in RAM ({}), {} each, file of {}",
            count(why.records_cached),
            count(why.records),
            percent(why.records_cached, why.records),
            HumanSize(why.record_bytes),
            HumanSize(why.size)
        ),
    );
    if let Some(flash) = &why.flash {
        line(
            "on flash",
            format!(
                "{} of them ({}), {} neither there nor in RAM (secondarycache={})",
                count(flash.records),
                percent(flash.records, why.records),
                count(flash.records_nowhere),
                flash.secondarycache
            ),
        );
    }
    if why.runs.is_empty() {
        return text;
    }
    let picture = picture(&why.runs, width().saturating_sub(14));
    let _ = writeln!(text, "\n  {picture}");
    for line in legend(why.flash.is_some(), room) {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
    let form = Form { script: false, exact: false, json: false };
    text.push_str(&table(why, RUNS_SHOWN_MAX, form).render_within(form, room, &[]));
    if why.runs.len() > RUNS_SHOWN_MAX {
        let more = why.runs.len() - RUNS_SHOWN_MAX;
        let _ = writeln!(text, "and {more} more runs; --json has all");
    }
    if why.records_not_shown > 0 {
        let _ = writeln!(text, "{} records further on were not looked at", why.records_not_shown);
    }
    text
}

/// The rules by which records are kept, and what each setting has on the sample.
fn policy(why: &Why) -> String {
    let Some(in_force) = &why.setting else { return why.policy.clone() };
    if why.settings.iter().all(|(_, ratio)| *ratio == 0.0) {
        let policy = &why.policy;
        return format!("{policy}: {in_force} (in force); no sample yet in which anything was hit");
    }
    let settings = why.settings.iter().map(|(name, ratio)| {
        let mark = if name == in_force { " (in force)" } else { "" };
        format!("{name} {:.1} %{mark}", ratio * 100.0)
    });
    format!("{}; hits on a sample: {}", why.policy, settings.collect::<Vec<_>>().join(", "))
}

/// One character a record, or for as many records as have to share it.
fn picture(runs: &[RecordRun], width: usize) -> String {
    let total: u64 = runs.iter().map(|run| run.count).sum();
    let width = (width as u64).min(total).max(1);
    let mut text = String::new();
    for cell in 0..width {
        let record = runs[0].first + cell * total / width;
        let run = runs.iter().find(|run| (run.first..run.first + run.count).contains(&record));
        let (mark, colour) = mark(run.map_or("absent", place));
        text.push_str(&coloured(&mark.to_string(), colour));
    }
    text
}

/// Where the records of a run are read from: their list in RAM, else flash, else why not.
fn place(run: &RecordRun) -> &str {
    let is_on_flash = run.flash.as_ref().is_some_and(|flash| flash.is_there);
    match run.state.as_str() {
        "ghost" | "absent" if is_on_flash => "flash",
        state => state,
    }
}

fn mark(state: &str) -> (char, u8) {
    let unicode = is_unicode();
    match state {
        "mfu" => (if unicode { '\u{2588}' } else { 'F' }, 32),
        "mru" => (if unicode { '\u{2593}' } else { 'R' }, 36),
        "uncached" => (if unicode { '\u{2592}' } else { 'u' }, 33),
        "flash" => (if unicode { '\u{2584}' } else { 'L' }, 34),
        "fetching" => ('>', 33),
        "ghost" => (if unicode { '\u{2591}' } else { 'g' }, 33),
        _ => (if unicode { '\u{b7}' } else { '.' }, 31),
    }
}

/// What the marks mean, in lines that begin 2 characters further in.
fn legend(has_flash: bool, room: usize) -> Vec<String> {
    let names = [
        ("mfu", "frequently used"),
        ("mru", "recently used"),
        ("flash", "on flash only"),
        ("ghost", "evicted lately"),
        ("absent", "not cached"),
    ];
    let mut lines: Vec<String> = Vec::new();
    let mut taken = 0;
    for (state, name) in names.iter().filter(|(state, _)| has_flash || *state != "flash") {
        let (mark, colour) = mark(state);
        let entry = format!("{} {name}", coloured(&mark.to_string(), colour));
        let entry_width = 2 + name.len();
        match lines.last_mut() {
            Some(line) if taken + 3 + entry_width <= room.saturating_sub(2) => {
                line.push_str(&format!("   {entry}"));
                taken += 3 + entry_width;
            }
            _ => {
                lines.push(entry);
                taken = entry_width;
            }
        }
    }
    lines
}

fn table(why: &Why, rows_max: usize, form: Form) -> Table {
    let since = |time: f64| if form.exact { format!("{time:.3}") } else { seconds(time) };
    let mut heads = vec![">RECORDS", "STATE", ">SINCE", ">HITS", "WHY"];
    if why.flash.is_some() {
        heads.extend(["FLASH", "WHY NOT ON FLASH"]);
    }
    let mut table = Table::new(&heads);
    for run in why.runs.iter().take(rows_max) {
        let last = run.first + run.count - 1;
        let range = match run.count {
            1 => run.first.to_string(),
            _ => format!("{}-{last}", run.first),
        };
        let reason = match (&run.reason, run.prefetched) {
            (Some(reason), _) => reason.clone(),
            (None, true) => "prefetched or primed, not read yet".to_string(),
            (None, false) if run.hits == 0 => "read once".to_string(),
            (None, false) => "read".to_string(),
        };
        let mut row = vec![
            range,
            run.state.clone(),
            run.since_seconds.map_or("-".to_string(), since),
            run.since_seconds.map_or("-".to_string(), |_| hits(run.hits)),
            reason,
        ];
        if let Some(flash) = &run.flash {
            row.push(if flash.is_there { "yes" } else { "no" }.to_string());
            row.push(flash.reason.clone().unwrap_or("-".to_string()));
        }
        table.row(row);
    }
    table
}

/// Accesses after the first, as far as they are counted.
fn hits(hits: u64) -> String {
    if hits < u64::from(HITS_MAX) { hits.to_string() } else { format!("{HITS_MAX}+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_compared_once_the_sample_has_hits() {
        let mut why = Why {
            path: "file".into(),
            dataset: "pool".into(),
            object: 1,
            is_file: true,
            size: 1,
            record_bytes: 131_072,
            generation: 1,
            primarycache: "all".into(),
            promote: true,
            policy: "arc".into(),
            setting: None,
            settings: Vec::new(),
            coherence: "open".into(),
            checked_seconds_ago: 0.0,
            records: 1,
            records_cached: 0,
            flash: None,
            runs: Vec::new(),
            records_not_shown: 0,
        };
        assert_eq!(policy(&why), "arc");
        why.policy = "auto".into();
        why.setting = Some("recency".into());
        assert!(policy(&why).contains("recency (in force); no sample yet"), "{}", policy(&why));
        why.settings = vec![("steady".into(), 0.0), ("recency".into(), 0.0)];
        assert!(policy(&why).contains("recency (in force); no sample yet"), "{}", policy(&why));
        why.settings[1].1 = 0.5;
        let told = "auto; hits on a sample: steady 0.0 %, recency 50.0 % (in force)";
        assert_eq!(policy(&why), told);
    }

    #[test]
    fn a_count_of_hits_that_stands_at_its_end_is_marked() {
        assert_eq!([0, 14, 15].map(hits), ["0", "14", "15+"]);
    }
}
