use std::ffi::OsStr;

use daemon::Paths;
use daemon::protocol::TxgRow;

use crate::bars::room;
use crate::commands::target;
use crate::failure::Result;
use crate::format::{Form, json, print, seconds};
use crate::table::Table;

/// Columns that a narrow terminal does without, the first ones first.
const LEFT_OUT_FIRST: [&str; 4] = ["OPEN", "WRITES", "FILES", "DIRTY"];

/// Lists the last transaction groups of a pool, the open one last.
pub(crate) fn txgs(paths: &Paths, form: Form, text: Option<&OsStr>) -> Result<()> {
    let txgs = target(paths, text)?.client()?.txgs()?;
    if form.json {
        print(&json(&txgs));
        return Ok(());
    }
    let mut table = Table::new(&[
        ">TXG", "STATE", ">OPEN", ">DIRTY", ">FILES", ">WRITTEN", ">WRITES", ">WRITE", ">FLUSH",
        ">ENDED", "ERROR",
    ]);
    txgs.iter().for_each(|txg| table.row(cells(txg, form)));
    let room = if form.script { usize::MAX } else { room() };
    print(&table.render_within(form, room, &LEFT_OUT_FIRST));
    if !form.script && has_gaps(&txgs) {
        print("groups that are not listed had no contents to write\n");
    }
    Ok(())
}

fn has_gaps(txgs: &[TxgRow]) -> bool {
    txgs.windows(2).any(|pair| pair[1].number > pair[0].number + 1)
}

fn cells(txg: &TxgRow, form: Form) -> Vec<String> {
    let time = |time: f64| if form.exact { format!("{time:.6}") } else { seconds(time) };
    let ended = match txg.ended_seconds_ago {
        None => "-".to_string(),
        Some(ago) if form.exact => time(ago),
        Some(ago) => format!("{} ago", time(ago)),
    };
    vec![
        txg.number.to_string(),
        txg.state.clone(),
        time(txg.open_seconds),
        form.size(txg.dirty_bytes),
        txg.files.to_string(),
        form.size(txg.written_bytes),
        txg.writes.to_string(),
        time(txg.write_seconds),
        time(txg.flush_seconds),
        ended,
        txg.error.clone().unwrap_or("-".to_string()),
    ]
}
