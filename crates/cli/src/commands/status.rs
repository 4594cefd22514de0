pub(super) mod flash;
mod writes;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;

use daemon::protocol::CeilingStatus;
use daemon::protocol::Status;
use daemon::{Paths, Setting, Target};
use warmfront::HumanSize;

use crate::bars::{bar, coloured, is_unicode, room};
use crate::commands::target;
use crate::failure::Result;
use crate::format::{Form, broken, count, json, labelled, percent, print, seconds, things};
use crate::table::Table;

/// Characters of a bar at most, and of the labels before the lines.
const BAR_WIDTH: usize = 40;
const LABEL_WIDTH: usize = 11;
/// What a narrow terminal can do without.
const LEFT_OUT_FIRST: [&str; 6] =
    ["GHOST HITS", "EVICTED", "AHEAD", "METADATA", "READ", "DATA MISSES"];

pub(crate) fn status(paths: &Paths, form: Form, text: Option<&OsStr>) -> Result<()> {
    show(&target(paths, text)?, form)
}

/// Lets a pool write down what its cache holds.
pub(crate) fn save(paths: &Paths, text: Option<&OsStr>) -> Result<()> {
    let target = target(paths, text)?;
    let bytes = target.client()?.save()?;
    print(&format!("what pool {} holds is written down in {}\n", target.pool, HumanSize(bytes)));
    Ok(())
}

/// Shows how a mounted pool is.
pub(crate) fn show(target: &Target, form: Form) -> Result<()> {
    let status = target.client()?.status()?;
    print(&match (form.json, form.script) {
        (true, _) => json(&status),
        (_, true) => script(&status, form),
        _ => people(&status, room()),
    });
    Ok(())
}

/// A line for each fact and counter: its name, a tab, its value.
fn script(status: &Status, form: Form) -> String {
    let facts = [
        ("pool", status.pool.clone()),
        ("pid", status.pid.to_string()),
        ("origin", status.origin.display().to_string()),
        ("mountpoint", status.mountpoint.display().to_string()),
        ("ceiling", form.size(status.ceiling_bytes)),
        ("ceiling_setting", status.ceiling.setting.clone()),
        ("floor", form.size(status.ceiling.floor_bytes)),
        ("available", form.size(status.ceiling.available_bytes)),
        ("pressure_sources", status.ceiling.pressure_sources.join(",")),
        ("txg_state", status.writes.txg.as_ref().map_or("-".into(), |txg| txg.state.clone())),
        ("writing", status.writes.failing.clone().unwrap_or("works".into())),
        ("log_device_failed", yes_or_no(status.writes.has_lost_log)),
        ("log_device_missing", yes_or_no(status.is_log_missing)),
        ("resident", form.size(status.resident_bytes)),
        ("uptime_seconds", format!("{:.0}", status.uptime_seconds)),
    ];
    let facts = facts.into_iter().map(|(name, value)| format!("{name}\t{value}\n"));
    let counters = status.counters.iter().map(|(name, value)| format!("{name}\t{value}\n"));
    facts.chain(counters).collect()
}

fn yes_or_no(it_is: bool) -> String {
    if it_is { "yes" } else { "no" }.to_string()
}

/// Sets the ceiling of a mounted pool, and says what came of it.
pub(crate) fn set_ceiling(
    paths: &Paths,
    setting: Setting,
    as_json: bool,
    text: Option<&OsStr>,
) -> Result<()> {
    let target = target(paths, text)?;
    let done = target.client()?.set_ceiling(setting)?;
    if as_json {
        print(&json(&done));
        return Ok(());
    }
    let [before, now, resident_before, resident] =
        [done.before_bytes, done.bytes, done.resident_before_bytes, done.resident_bytes]
            .map(HumanSize);
    let mut text = format!(
        "the ceiling of pool {} is {now} ({}); it was {before}\n\
         resident: {resident}; it was {resident_before}, {} ms before\n",
        target.pool,
        done.setting,
        (done.elapsed_seconds * 1000.0).ceil()
    );
    if !done.is_given_back {
        text.push_str(
            "what is in use (reads under way, what waits for the origin, open files, names that \
             the kernel\nremembers) holds some of what is to be given back\n",
        );
    }
    done.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
    print(&text);
    Ok(())
}

/// How the ceiling came about.
fn ceiling_lines(ceiling: &CeilingStatus) -> Vec<(&'static str, String)> {
    let mut setting = ceiling.setting.clone();
    if ceiling.floor_bytes < ceiling.most_bytes {
        let [floor, most] = [ceiling.floor_bytes, ceiling.most_bytes].map(HumanSize);
        let _ = write!(setting, ", between {floor} and {most}");
    }
    let [all, available, buffer] =
        [ceiling.memory_bytes, ceiling.available_bytes, ceiling.buffer_bytes].map(HumanSize);
    let memory = format!(
        "{all} by {}, {available} available, {buffer} to be left free",
        ceiling.memory_source
    );
    let mut lines = vec![("set to", setting), ("memory", memory)];
    if let Some(change) = &ceiling.last_change {
        let [from, to] = [change.from_bytes, change.to_bytes].map(HumanSize);
        let text = format!(
            "from {from} to {to} {} ago: {}; {} shrinks, {} grows",
            seconds(change.seconds_ago),
            change.reason,
            count(ceiling.shrinks),
            count(ceiling.grows)
        );
        lines.push(("changed", text));
    }
    let told = match ceiling.pressure_sources.is_empty() {
        true => "not told by the kernel".to_string(),
        false => ceiling.pressure_sources.join(", "),
    };
    lines.push(("pressure", told));
    lines.extend(ceiling.notes.iter().map(|note| ("", note.clone())));
    lines
}

/// A bar and what it shows in words, if they have room on one line.
fn bar_beside(words: &str, share: f64, room: usize) -> String {
    let width = room.saturating_sub(LABEL_WIDTH + 2 + words.chars().count()).min(BAR_WIDTH);
    match width {
        0 => words.to_string(),
        width => format!("{} {words}", bar(share, width, is_unicode())),
    }
}

fn people(status: &Status, room: usize) -> String {
    let counter = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let size = |name: &str| HumanSize(counter(name)).to_string();
    let rate = |kind: &str| hit_rate(&status.counters, kind);
    let ahead = match ahead_rate(&status.counters) {
        Some(share) => format!(" ({share} by what read-ahead or priming had brought)"),
        None => String::new(),
    };
    let used = counter("size");
    let share = used as f64 / status.ceiling_bytes.max(1) as f64;
    let in_use = format!("{} of {}", HumanSize(used), HumanSize(status.ceiling_bytes));
    let mut lines = vec![
        ("pool", status.pool.clone()),
        ("origin", status.origin.display().to_string()),
        ("mounted at", mounted_at(status)),
        ("daemon", daemon_line(status)),
        ("ceiling", bar_beside(&in_use, share, room)),
        (
            "in it",
            format!(
                "contents {}, metadata {}, headers and ghosts {}, in use {}",
                size("data_size"),
                size("metadata_size"),
                size("hdr_size"),
                size("other_size")
            ),
        ),
        (
            "lists",
            format!(
                "recently used {}, frequently used {}; ghosts {} and {}",
                size("mru_size"),
                size("mfu_size"),
                HumanSize(counter("mru_ghost_data") + counter("mru_ghost_metadata")),
                HumanSize(counter("mfu_ghost_data") + counter("mfu_ghost_metadata"))
            ),
        ),
        ("hit rate", format!("contents {}{ahead}, metadata {}", rate("data"), rate("metadata"))),
        (
            "origin",
            format!(
                "{} of {}, {} of {}, {}, {}",
                things(counter("origin_reads"), "read"),
                size("origin_read_bytes"),
                things(counter("origin_writes"), "write"),
                size("origin_write_bytes"),
                things(counter("origin_metadata_calls"), "other call"),
                things(counter("origin_errors"), "error")
            ),
        ),
    ];
    lines.extend(writes::lines(status, room));
    let before_origin =
        lines.iter().rposition(|(label, _)| *label == "origin").unwrap_or(lines.len());
    lines.splice(before_origin..before_origin, flash::lines(&status.counters));
    let after_ceiling = lines.iter().position(|(label, _)| *label == "in it").unwrap_or(0);
    lines.splice(after_ceiling..after_ceiling, ceiling_lines(&status.ceiling));
    if let Some(slow) = &status.slow {
        lines.insert(2, ("slowed to", slow.clone()));
    }
    if status.restored.answers + status.restored.records > 0 {
        let restored = status.restored;
        let text = format!(
            "{} of the origin, {} and {} of the mount before; {} left",
            things(restored.answers, "answer"),
            things(restored.records, "record"),
            things(restored.ghosts, "ghost"),
            things(restored.records_left, "record")
        );
        lines.push(("restored", text));
    }
    if !status.no_promote_cgroups.is_empty() {
        let groups = status.no_promote_cgroups.iter().map(|path| path.display().to_string());
        let groups: Vec<String> = groups.collect();
        lines.push(("no promote", format!("for control groups {}", groups.join(", "))));
    }
    let mut text: String =
        lines.iter().map(|(label, value)| labelled(label, LABEL_WIDTH, value, room)).collect();
    text.push('\n');
    text.push_str(&datasets(&status.datasets, room));
    let devices = flash::flash(status, room);
    if !devices.is_empty() {
        text.push('\n');
        text.push_str(&devices);
    }
    for warning in &status.warnings {
        let warning = format!("{} {warning}", coloured("warning:", 33));
        text.push('\n');
        text.push_str(&broken(&warning, room).join("\n"));
    }
    if !status.warnings.is_empty() {
        text.push('\n');
    }
    text
}

fn mounted_at(status: &Status) -> String {
    let mut text = status.mountpoint.display().to_string();
    if status.read_only {
        text.push_str(", read-only");
    }
    if status.is_detached {
        text.push_str(", detached: it ends when the last file is closed");
    }
    text
}

fn daemon_line(status: &Status) -> String {
    let mut text = format!(
        "process {}, up {}, {} resident",
        status.pid,
        seconds(status.uptime_seconds),
        HumanSize(status.resident_bytes)
    );
    if let Some(log) = &status.log {
        let _ = write!(text, ", log in {}", log.display());
    }
    text
}

/// What each dataset holds, and how it is used: hits, misses and their rate are of contents.
fn datasets(datasets: &BTreeMap<String, BTreeMap<String, u64>>, room: usize) -> String {
    let form = Form { script: false, exact: false, json: false };
    let mut table = Table::new(&[
        "DATASET",
        ">CONTENTS",
        ">METADATA",
        ">READ",
        ">DATA HITS",
        ">DATA MISSES",
        ">DATA RATE",
        ">AHEAD",
        ">METADATA RATE",
        ">GHOST HITS",
        ">EVICTED",
    ]);
    for (name, counters) in datasets {
        let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
        table.row(vec![
            name.clone(),
            HumanSize(counter("data_size")).to_string(),
            HumanSize(counter("metadata_size")).to_string(),
            HumanSize(counter("read_bytes")).to_string(),
            count(counter("demand_data_hits")),
            count(counter("demand_data_iohits") + counter("demand_data_misses")),
            hit_rate(counters, "data"),
            ahead_rate(counters).unwrap_or("-".to_string()),
            hit_rate(counters, "metadata"),
            count(counter("mru_ghost_hits") + counter("mfu_ghost_hits")),
            HumanSize(counter("evicted_bytes")).to_string(),
        ]);
    }
    let mut text = table.render_within(form, room, &LEFT_OUT_FIRST);
    let mut shares = Table::new(&["SHARE", ">SIZE", ">RESERVE", ">LIMIT"]);
    let mut any = false;
    for (name, counters) in datasets {
        let size = |name: &str| match counters.get(name) {
            None | Some(0) => "none".to_string(),
            Some(bytes) => HumanSize(*bytes).to_string(),
        };
        if let Some(held) = counters.get("arcshare_size") {
            let held = HumanSize(*held).to_string();
            shares.row(vec![name.clone(), held, size("arcreserve"), size("arclimit")]);
            any = true;
        }
    }
    if any {
        text.push('\n');
        text.push_str(&shares.render_within(form, room, &[]));
    }
    let on_flash = flash::datasets(datasets, room);
    if !on_flash.is_empty() {
        text.push('\n');
        text.push_str(&on_flash);
    }
    text
}

/// The share of demanded records that read-ahead or priming had brought and nobody had read before,
/// if there were any. They are among the hits.
fn ahead_rate(counters: &BTreeMap<String, u64>) -> Option<String> {
    let counter = |what: &str| counters.get(&format!("demand_data_{what}")).copied().unwrap_or(0);
    let ahead = counter("hits_ahead");
    let all = counter("hits") + counter("iohits") + counter("misses");
    (ahead > 0).then(|| percent(ahead, all))
}

/// The share of demanded answers of a kind that came from RAM.
fn hit_rate(counters: &BTreeMap<String, u64>, kind: &str) -> String {
    let counter = |what: &str| counters.get(&format!("demand_{kind}_{what}")).copied().unwrap_or(0);
    let hits = counter("hits");
    percent(hits, hits + counter("iohits") + counter("misses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_dataset_agree() {
        let counters = [
            ("demand_data_hits", 300),
            ("demand_data_iohits", 100),
            ("demand_data_misses", 600),
            ("demand_data_hits_ahead", 200),
            ("demand_metadata_hits", 9000),
        ];
        let counters = counters.map(|(name, value)| (name.to_string(), value)).into();
        let counters = BTreeMap::from([("tank".to_string(), counters)]);
        let text = datasets(&counters, usize::MAX);
        let row: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row[4..12], ["300", "700", "30.0", "%", "20.0", "%", "100.0", "%"], "{text}");
        let narrow = datasets(&counters, 80);
        assert!(narrow.contains("30.0 %") && narrow.contains("GHOST HITS, EVICTED"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }
}
