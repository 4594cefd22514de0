use std::fmt::Write;
use std::time::Duration;

use daemon::protocol::Statistics;
use serde::Serialize;

use crate::bars::{bar, coloured, is_unicode, logarithmic, width};
use crate::demo::commits::Commits;
use crate::demo::size;
use crate::format::{Form, count, seconds};
use crate::table::Table;

/// Characters of a bar at most.
const BAR_WIDTH_MAX: usize = 50;

/// What the demo has shown.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
    /// The model that the origin was slowed to.
    pub(crate) slow: String,
    pub(crate) ceiling_bytes: u64,
    /// Why it ran through the library and not on a mount, if so.
    pub(crate) library: Option<String>,
    pub(crate) rows: Vec<Row>,
    /// Of a database, if there is one here.
    pub(crate) commits: Option<Commits>,
}

/// One piece of work at the three levels.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) cold: Measured,
    /// Once more.
    pub(crate) warm: Measured,
    /// Once more after a restart.
    pub(crate) restarted: Measured,
}

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Operations a second, where the work consists of like ones.
    pub(crate) operations_per_second: Option<f64>,
    pub(crate) origin_read_bytes: u64,
    pub(crate) origin_calls: u64,
    pub(crate) hits: u64,
    pub(crate) accesses: u64,
}

impl Measured {
    /// From the time it took and the counters before and after.
    pub(crate) fn new(
        elapsed: Duration,
        operations: Option<u64>,
        before: &Statistics,
        after: &Statistics,
    ) -> Measured {
        let moved = |name: &str| {
            let at = |statistics: &Statistics| statistics.counters.get(name).copied().unwrap_or(0);
            at(after).saturating_sub(at(before))
        };
        let demanded = |what: &str| {
            moved(&format!("demand_data_{what}")) + moved(&format!("demand_metadata_{what}"))
        };
        let seconds = elapsed.as_secs_f64();
        Measured {
            seconds,
            operations_per_second: operations.map(|count| count as f64 / seconds),
            origin_read_bytes: moved("origin_read_bytes"),
            origin_calls: moved("origin_reads") + moved("origin_metadata_calls"),
            hits: demanded("hits"),
            accesses: demanded("hits") + demanded("iohits") + demanded("misses"),
        }
    }

    fn figure(&self) -> String {
        match self.operations_per_second {
            Some(rate) => format!("{}/s", count(rate.round() as u64)),
            None => seconds(self.seconds),
        }
    }
}

impl Report {
    /// For people.
    pub(crate) fn people(&self) -> String {
        let mut text = format!(
            "{} of real files of this machine ({} files in {} directories) behind an origin as \
             slow as {},\nwith {} of RAM and a cache device in front of it. Each line is done on a \
             fresh {}, once more,\nand once more after a restart.\n",
            size(self.bytes),
            count(self.files),
            count(self.directories),
            description(&self.slow),
            size(self.ceiling_bytes),
            if self.library.is_some() { "cache" } else { "mount" },
        );
        if let Some(reason) = &self.library {
            let _ = writeln!(text, "It ran through the library, {reason}.");
        }
        text.push('\n');
        text.push_str(&self.table());
        text.push('\n');
        text.push_str(&self.bars());
        if let Some(commits) = &self.commits {
            let [without, with] = [commits.without_per_second, commits.with_per_second];
            let _ = writeln!(
                text,
                "\nSQLite, one row a commit: {without:.1} commits/s on the origin, {with:.0} with \
                 a log device: {:.0} x",
                with / without
            );
        }
        text.push_str(
            "\nNothing is left behind. Your own data:\n\n    warmfront mount /your/slow/directory \
             /a/mount/point\n\nas yourself for your own files, or as root; `warmfront unmount` \
             ends it.\n",
        );
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            "",
            ">ORIGIN",
            ">RAM",
            ">RATIO",
            ">RESTARTED: FLASH",
            ">RATIO",
            ">ORIGIN'S CALLS",
            ">FROM RAM",
            ">RESTARTED",
        ]);
        for row in &self.rows {
            table.row(vec![
                row.work.clone(),
                row.cold.figure(),
                row.warm.figure(),
                format!("{:.0} x", row.cold.seconds / row.warm.seconds),
                row.restarted.figure(),
                format!("{:.0} x", row.cold.seconds / row.restarted.seconds),
                count(row.cold.origin_calls),
                count(row.warm.origin_calls),
                count(row.restarted.origin_calls),
            ]);
        }
        table.render(Form { script: false, exact: false, json: false })
    }

    fn bars(&self) -> String {
        let of = |row: &Row| [row.cold.seconds, row.restarted.seconds, row.warm.seconds];
        let times = || self.rows.iter().flat_map(of);
        let greatest = times().fold(f64::MIN, f64::max);
        // The shortest time still gets a bar that can be seen.
        let least = times().fold(f64::MAX, f64::min) / 2.0;
        let label = self.rows.iter().map(|row| row.work.len()).max().unwrap_or(0);
        let width = width().saturating_sub(label + 24).clamp(10, BAR_WIDTH_MAX);
        let mut text = String::from("time, on a logarithmic scale\n");
        for row in &self.rows {
            let runs =
                [(&row.cold, "origin", 36), (&row.restarted, "flash", 33), (&row.warm, "RAM", 32)];
            for (index, (run, level, colour)) in runs.into_iter().enumerate() {
                let share = logarithmic(run.seconds, least, greatest);
                let drawn = coloured(&bar(share, width, is_unicode()), colour);
                let name = if index == 0 { row.work.as_str() } else { "" };
                let time = seconds(run.seconds);
                let _ = writeln!(text, "{name:<label$}  {level:<6}  {drawn}  {time}");
            }
        }
        text
    }
}

fn description(model: &str) -> String {
    match model {
        "hdd" => "a hard disk (hdd)".to_string(),
        "nfs" => "a file server over 1 Gbit/s (nfs)".to_string(),
        "s3" => "an object store (s3)".to_string(),
        other => other.to_string(),
    }
}
