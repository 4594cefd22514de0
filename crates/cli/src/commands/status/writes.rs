use daemon::protocol::{IntentLogStatus, Status, TxgRow};
use warmfront::HumanSize;

use super::bar_beside;
use crate::bars::coloured;
use crate::format::{count, percent, seconds, things};

/// How writes go, as lines with a label each.
pub(super) fn lines(status: &Status, room: usize) -> Vec<(&'static str, String)> {
    let writes = &status.writes;
    let share = writes.dirty_bytes as f64 / writes.dirty_bytes_max.max(1) as f64;
    let files = things(writes.dirty_files, "file");
    let [dirty, most, waiting] =
        [writes.dirty_bytes, writes.dirty_bytes_max, writes.waiting_bytes].map(HumanSize);
    let words = format!("{dirty} of {most}, {waiting} not at the origin, {files}");
    let mut lines = vec![("dirty", bar_beside(&words, share, room))];
    if let Some(txg) = &writes.txg {
        lines.push(("txg", self::txg(txg, writes.last_sync.as_ref())));
    }
    if writes.delayed_writes > 0 {
        let text = format!(
            "{} writes were delayed by {} in all, the last by {}",
            count(writes.delayed_writes),
            seconds(writes.delay_us as f64 / 1e6),
            seconds(writes.delay_us_last as f64 / 1e6)
        );
        lines.push(("throttle", text));
    }
    if let Some(failing) = &writes.failing {
        let text = format!("{} for the origin: {failing}", coloured("waits", 31));
        lines.push(("writing", text));
    } else if let Some(silent) = writes.silent_seconds {
        let waits = coloured("waits", 31);
        let text = format!("{waits} for the origin, which has not answered for {silent:.0} s");
        lines.push(("writing", text));
    }
    if writes.failing.is_some() || writes.silent_seconds.is_some() {
        lines.extend(writes.waiting.iter().map(|path| ("", path.clone())));
    }
    match &writes.log {
        Some(log) => {
            lines.extend(self::log(log, status.log_device.as_deref().unwrap_or("-")));
        }
        None if writes.has_lost_log => {
            let device = status.log_device.as_deref().unwrap_or("-");
            let failed = if status.is_log_missing { "IS GONE" } else { "DEVICE FAILED" };
            let failed = coloured(failed, 31);
            let text = format!("{device} {failed}; fsync waits for the origin");
            lines.push(("intent log", text));
        }
        None => {}
    }
    lines
}

fn txg(txg: &TxgRow, last: Option<&TxgRow>) -> String {
    let age = match txg.state.as_str() {
        "open" if txg.dirty_bytes == 0 => String::new(),
        "open" => {
            let [taken, age] = [HumanSize(txg.dirty_bytes).to_string(), seconds(txg.open_seconds)];
            format!(" for {age} with {taken}")
        }
        _ => {
            let done = HumanSize(txg.written_bytes);
            format!(", {done} of {} written", HumanSize(txg.due_bytes))
        }
    };
    let mut text = format!("{} {}{age}", txg.number, txg.state);
    if let Some((last, ago)) = last.and_then(|last| Some((last, last.ended_seconds_ago?))) {
        let took = seconds(last.write_seconds + last.flush_seconds);
        text.push_str(&format!(
            "; the last one came in {took} to the origin, {} ago",
            seconds(ago)
        ));
    }
    text
}

fn log(log: &IntentLogStatus, device: &str) -> Vec<(&'static str, String)> {
    let mut text = format!(
        "{device}, {} of {} used ({}), {}",
        HumanSize(log.used_bytes),
        HumanSize(log.ring_bytes),
        percent(log.used_bytes, log.ring_bytes),
        things(log.commits, "commit")
    );
    if log.batch_max > 0 {
        text.push_str(&format!(", {:.1} records at once", log.batch_mean));
    }
    if log.full > 0 {
        text.push_str(&format!(", full {} times", count(log.full)));
    }
    if let Some(silent) = log.silent_seconds {
        text.push_str(&format!("; {} for {silent:.0} s", coloured("SILENT", 31)));
    }
    if let Some(failed) = &log.failed {
        text.push_str(&format!("; {}: {failed}", coloured("FAILED", 31)));
    }
    let mut lines = vec![("intent log", text)];
    if log.commits > 0 {
        let [p50, p99, p999, max] =
            [log.latency.p50_us, log.latency.p99_us, log.latency.p999_us, log.latency.max_us]
                .map(|us| seconds(us as f64 / 1e6));
        lines.push(("", format!("p50 {p50}, p99 {p99}, p99.9 {p999}, at most {max} a commit")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: &str) -> TxgRow {
        TxgRow {
            number: 7,
            state: state.to_string(),
            open_seconds: 2.5,
            dirty_bytes: 3 << 20,
            due_bytes: 4 << 20,
            files: 1,
            written_bytes: 1 << 20,
            writes: 4,
            write_seconds: 0.25,
            flush_seconds: 0.5,
            ended_seconds_ago: None,
            error: None,
        }
    }

    #[test]
    fn a_group_is_told_by_what_it_has_and_what_it_has_written() {
        assert_eq!(txg(&row("open"), None), "7 open for 2.50 s with 3M");
        assert_eq!(txg(&row("syncing"), None), "7 syncing, 1M of 4M written");
        let empty = TxgRow { dirty_bytes: 0, ..row("open") };
        let last = TxgRow { ended_seconds_ago: Some(3.0), ..row("committed") };
        assert_eq!(
            txg(&empty, Some(&last)),
            "7 open; the last one came in 750.0 ms to the origin, 3.00 s ago"
        );
    }
}
