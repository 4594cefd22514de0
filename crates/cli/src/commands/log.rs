use std::ffi::OsStr;

use daemon::{LogDiscarded, LogRecord, LogShown, LogTarget, Paths};
use serde::Serialize;
use warmfront::HumanSize;

use crate::arguments::LogCommand;
use crate::failure::{Failure, Result};
use crate::format::{Form, json, print, things};
use crate::progress::showing;
use crate::table::Table;

/// Records that are put into one table: its columns are as wide as what is in it.
const TABLE_ROWS: usize = 10_000;

pub(crate) fn run(paths: &Paths, command: LogCommand) -> Result<()> {
    match command {
        LogCommand::Show { form, target } => show(paths, form, &target),
        LogCommand::Replay { force, origin, target } => {
            let target = LogTarget::find(paths, &target)?;
            let target = match origin {
                Some(origin) => target.for_origin(paths, &origin),
                None => target,
            };
            replay(paths, force, &target)
        }
        LogCommand::Discard { json: as_json, target } => {
            let target = LogTarget::find(paths, &target)?;
            let discarded = showing(|tell| target.discard(paths, tell))?;
            print(&match as_json {
                true => json(&discarded),
                false => given_up(&discarded),
            });
            Ok(())
        }
    }
}

/// The log, as `log show --json` tells it: a line of its own, then one for each record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Record(&'a LogRecord),
    Log(&'a LogShown),
}

fn line(line: &Line<'_>) -> Result<()> {
    let text = serde_json::to_string(line).map_err(Failure::new)?;
    print(&format!("{text}\n"));
    Ok(())
}

fn show(paths: &Paths, form: Form, target: &OsStr) -> Result<()> {
    let target = LogTarget::find(paths, target)?;
    if form.json {
        let mut outcome = Ok(());
        let shown = target.show(|record| {
            outcome = line(&Line::Record(&record));
            outcome.is_ok()
        })?;
        outcome?;
        return line(&Line::Log(&shown));
    }
    let new_table = || Table::new(&["POSITION", "KIND", "DATA", "WHAT"]);
    let (mut table, mut rows) = (new_table(), 0);
    let shown = target.show(|record| {
        let size = match form.exact {
            true => record.data_bytes.to_string(),
            false => HumanSize(record.data_bytes).to_string(),
        };
        let data = if record.data_bytes == 0 { "-".to_string() } else { size };
        table.row(vec![record.position.to_string(), record.kind.to_string(), data, record.what]);
        rows += 1;
        if rows == TABLE_ROWS {
            print(&std::mem::replace(&mut table, new_table()).render(form));
            rows = 0;
        }
        true
    })?;
    if rows > 0 {
        print(&table.render(form));
    }
    if !form.script {
        print(&summary(&shown));
    }
    Ok(())
}

fn given_up(discarded: &LogDiscarded) -> String {
    let LogDiscarded { path, records, end, beyond, lost, pool, origin, .. } = discarded;
    let path = path.display();
    let of = origin
        .as_ref()
        .map_or(String::new(), |origin| format!(" of the origin {}", origin.display()));
    match lost {
        None => {
            let records = records.unwrap_or(0);
            let (counted, are) =
                (things(records, "record"), if records == 1 { "is" } else { "are" });
            let beyond = beyond.as_ref().map_or(String::new(), |beyond| format!("{beyond}\n"));
            let end = end.as_ref().map_or(String::new(), |end| {
                format!("; it was {end}: look after what was written last")
            });
            format!("{counted} of the log on {path}{of} {are} given up{end}\n{beyond}")
        }
        Some(what) => {
            let pool =
                pool.as_ref().map_or("the pool".to_string(), |pool| format!("pool `{pool}`"));
            let place =
                origin.as_ref().map_or(String::new(), |origin| format!(" {}", origin.display()));
            let held = records.filter(|records| *records > 0).map_or(String::new(), |records| {
                format!(", {} and what is lost,", things(records, "record"))
            });
            format!(
                "the log on {path} {what}; what it held{held} is given up, and {pool} can be \
                 mounted without it. The origin{place} lacks what was acknowledged in the last \
                 seconds before {pool} ended and had not come there: look after what was written \
                 then\n"
            )
        }
    }
}

fn summary(shown: &LogShown) -> String {
    let LogShown { path, records, end, is_empty, beyond, in_use_by, not_replayed, .. } = shown;
    let path = path.display();
    let replaces = shown.replaces_log_of.as_ref().map_or(String::new(), |pool| {
        format!(
            "the log on {path} is another one than pool `{pool}` used when it last ran; that one \
             is not there any more, and may have held writes that were acknowledged and are not at \
             the origin of `{pool}`. To go on without them for good: `warmfront log discard \
             {pool}`\n"
        )
    });
    if let Some(pool) = in_use_by {
        let records = things(*records, "record");
        return format!(
            "{replaces}pool `{pool}` is mounted and writes to the log on {path}, or is about to: \
             {records} that its origin may not have yet, at this moment\n"
        );
    }
    let mut text = match is_empty {
        true if !replaces.is_empty() => format!("{replaces}it holds no records\n"),
        true => format!("the log on {path} holds nothing that the origin does not have\n"),
        false => {
            let records = things(*records, "record");
            format!("{replaces}the log on {path} holds {records}; it is {end}\n")
        }
    };
    if let Some(beyond) = beyond {
        text.push_str(&format!("{beyond}\n"));
    }
    if let Some(why) = not_replayed {
        text.push_str(&format!("{why}\n"));
    }
    text
}

fn replay(paths: &Paths, force: bool, target: &LogTarget) -> Result<()> {
    let notes = showing(|tell| target.replay(paths, force, tell))?;
    let path = target.path().display();
    print(&match notes.is_empty() {
        true => format!("the log on {path} holds nothing that the origin does not have\n"),
        false => notes.iter().map(|note| format!("{note}\n")).collect(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_is_wrong() {
        let shown = LogShown {
            path: "/flash/log".into(),
            id: String::new(),
            first: 1,
            last: 1200,
            records: 1200,
            end: "damaged: acknowledged records up to 1300 at least are lost".into(),
            is_empty: false,
            beyond_records: 7,
            beyond: Some("7 more records lie behind".into()),
            in_use_by: None,
            not_replayed: Some("it was given up".into()),
            replaces_log_of: None,
        };
        let text = summary(&shown);
        assert!(text.contains("1,200 records; it is damaged"), "{text}");
        assert!(text.contains("7 more records lie behind"), "{text}");
        assert!(text.contains("it was given up"), "{text}");
        let used = LogShown { in_use_by: Some("tank".into()), ..shown.clone() };
        assert!(summary(&used).contains("pool `tank` is mounted and writes to the log"));
        let cut = LogShown { records: 0, beyond_records: 0, beyond: None, ..shown };
        let text = summary(&cut);
        assert!(text.contains("holds 0 records; it is damaged"), "{text}");
        assert!(summary(&LogShown { is_empty: true, ..cut }).contains("holds nothing"));
    }

    #[test]
    fn what_a_lost_log_held_may_be_missing() {
        let there = LogDiscarded {
            path: "/flash/log".into(),
            records: Some(12),
            end: None,
            beyond_records: 7,
            beyond: Some("7 more records lie behind".into()),
            lost: None,
            pool: Some("tank".into()),
            origin: Some("/slow".into()),
        };
        let text = given_up(&there);
        assert!(text.contains("the origin /slow"), "{text}");
        assert!(text.contains("12 records") && text.contains("7 more records"), "{text}");
        let end = "damaged: acknowledged records up to 30 at least are lost".to_string();
        let text = given_up(&LogDiscarded { end: Some(end), ..there.clone() });
        assert!(text.contains("are given up; it was damaged: acknowledged records"), "{text}");
        let lost = LogDiscarded { records: None, lost: Some("is not there".into()), ..there };
        let text = given_up(&lost);
        assert!(text.contains("/flash/log is not there; what it held is given up"), "{text}");
    }
}
